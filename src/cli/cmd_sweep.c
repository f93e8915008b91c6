/* All usual recipes of a network, priced by the formula (search/sweep.h). The
 * network is one of the zoo: it is made anew with few layers. */
#include "config.h"
#include "cli/sweep.h"
#include "cli/collectives.h"

#include "base/clock.h"
#include "cli/cluster.h"
#include "cli/infer.h"
#include "cli/predict.h"
#include "ir/layers.h"
#include "plan/schedule.h"

#include <math.h>
#include <string.h>

/* Layers of the network that is looked at beside the whole; micro-batches that
 * are worth a thought at most. */
enum { PROBE = 6, MOST_MICRO_BATCHES = 1 << 20 };

/* ---- what was asked ---- */

static fs_status check_args(cli *c)
{
    const cli_args *a = &c->args;
    if (a->n_operands != 1)
        return fs_fail(&c->err, FS_INVALID, "sweep wants one MODEL");
    if (strncmp(a->operands[0], "zoo:", 4) != 0)
        return fs_fail(&c->err, FS_INVALID,
                       "sweep wants a network of the zoo, of which it makes "
                       "one with fewer layers; '%s' is none (search takes it)",
                       a->operands[0]);
    if (a->batch < 1 || a->batch > INT32_MAX)
        return fs_fail(&c->err, FS_INVALID, "sweep wants --batch N of 1 to %d",
                       INT32_MAX);
    bool infer;
    FS_TRY(cli_mode(c, &infer));
    return a->output ? cli_check_writable(c, a->output) : FS_OK;
}

static fs_status check_none(cli *c, const char *key, bool given)
{
    if (!given)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "--fix: sweep prices recipes without %s, and stages that "
                   "are all alike (search and plan do more)",
                   key);
}

static fs_status check_schedule(cli *c, const char *schedule)
{
    if (!schedule || plan_schedule_find(schedule)->placing == PLAN_PLACED_ONCE)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "--fix schedule=%s: sweep prices schedules that give each "
                   "device one stage",
                   schedule);
}

/* A word of the recipe and the flag that says the same. */
static fs_status join(cli *c, const char *key, const char *flag,
                      const char *word, const char **out)
{
    if (word && flag && strcmp(word, flag) != 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--%s %s and --fix %s=%s contradict each other; give "
                       "one",
                       key, flag, key, word);
    if (word)
        *out = word;
    return FS_OK;
}

static fs_status read_fix(cli_sweep *s)
{
    cli *c = s->c;
    search_recipe *r = &s->fix;
    *r = search_recipe_free();
    if (c->args.fix)
        FS_TRY(search_recipe_parse(c->args.fix, c->arena, &c->err, r));
    FS_TRY(check_none(c, "cp", r->cp > 1));
    FS_TRY(check_none(c, "ep", r->ep > 1));
    FS_TRY(check_none(c, "interleave", r->interleave > 1));
    FS_TRY(check_none(c, "layers", r->n_layers > 0));
    FS_TRY(check_none(c, "numbers of each stage",
                      r->dp_each.n || r->tp_each.n || r->cp_each.n ||
                          r->ep_each.n));
    FS_TRY(check_schedule(c, r->schedule));
    FS_TRY(join(c, "precision", c->args.precision, r->precision,
                &s->origin.precision));
    FS_TRY(join(c, "states", c->args.states, r->states, &s->origin.states));
    if (s->origin.infer) {
        FS_TRY(cli_infer_recipe(c, r));
        r->recompute = "none"; /* there is nothing to compute again for */
    }
    if (r->recompute && strcmp(r->recompute, "any") == 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--fix recompute=any is for search, which chooses");
    return FS_OK;
}

/* A micro-batch's size is one of each rank, whatever dp is. */
static fs_status check_fix(cli_sweep *s)
{
    cli *c = s->c;
    search_recipe r = s->fix;
    if (r.micro_batches > 0 && r.micro_batch > 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--fix: micro-batch and micro-batches both say how the "
                       "batch is divided; give one");
    if (r.dp == 0)
        r.micro_batch = 0;
    return search_recipe_complete(s->cluster, s->origin.batch, false, &c->err,
                                  &r);
}

static fs_status open_cluster(cli_sweep *s)
{
    cli *c = s->c;
    int64_t limit;
    FS_TRY(cli_cluster_open(c, c->args.cluster, &s->cluster));
    if (s->cluster->n_groups > 1)
        return fs_fail(&c->err, FS_INVALID,
                       "sweep wants devices of one kind; %s has %d",
                       s->cluster->name, s->cluster->n_groups);
    s->limit_bytes = s->cluster->groups[0].device.memory_bytes;
    if (c->args.memory) {
        FS_TRY(cli_memory_limit(c, s->cluster, &limit));
        s->limit_bytes = (double)limit;
    }
    return check_fix(s);
}

/* ---- the network with other layers ---- */

static const char *with_layers(const cli_sweep *s, int32_t n)
{
    static const char key[] = ",layers=";
    const char *spec = s->c->args.operands[0], *at = strstr(spec, key);
    if (!at)
        return fs_printf(s->c->arena, "%s%s%d", spec, key, n);
    const char *rest = at + sizeof key - 1;
    return fs_printf(s->c->arena, "%.*s%s%d%s", (int)(at - spec), spec, key, n,
                     rest + strcspn(rest, ","));
}

/* How often the network's one layer is there; -1: not one. */
static fs_status count_copies(cli_sweep *s, const char *spec, int32_t *copies)
{
    plan_origin origin = s->origin;
    cli_model model;
    ir_layers layers;
    origin.model = spec;
    FS_TRY(cli_model_open(s->c, &origin, 1, &model));
    fs_arena *scratch = fs_arena_create();
    ir_find_layers(model.graph, scratch, &layers);
    *copies = layers.runs.n == 1 ? layers.runs.at[0].copies : -1;
    fs_arena_destroy(scratch);
    cli_model_close(&model);
    return FS_OK;
}

static fs_status count_layers(cli_sweep *s)
{
    cli *c = s->c;
    int32_t whole, few = -1;
    FS_TRY(count_copies(s, s->origin.model, &whole));
    const fs_status status = count_copies(s, with_layers(s, PROBE), &few);
    c->err = (fs_err){0};
    if (status == FS_OK && whole > 0 && few > 0) {
        s->layers = PROBE + whole - few;
        return FS_OK;
    }
    return fs_fail(&c->err, FS_INVALID,
                   "sweep wants a network of one run of at least three equal "
                   "layers, the number of which can be said (layers=): %s is "
                   "none",
                   s->origin.model);
}

/* Of its training step: what belongs to a layer is of one kind. */
static fs_status check_layers(cli_sweep *s, const ir_graph *graph)
{
    fs_arena *scratch = fs_arena_create();
    ir_layers layers;
    ir_find_layers(graph, scratch, &layers);
    const int32_t n = layers.runs.n, copies = n ? layers.runs.at[0].copies : 0;
    fs_arena_destroy(scratch);
    if (n == 1 && copies == PROBE)
        return FS_OK;
    return fs_fail(&s->c->err, FS_INVALID,
                   "sweep wants layers that are all alike in training: of %s "
                   "with %d layers %d are (the loss of experts' balance sums "
                   "over layers, from the second one on); search and plan take "
                   "it",
                   s->origin.model, PROBE, copies);
}

/* Once in full training, so that what is wrong with it is said at once. */
static fs_status look_at_training(cli_sweep *s)
{
    plan_origin origin = s->origin;
    cli_model model;
    origin.model = with_layers(s, PROBE);
    origin.batch = 1;
    if (s->fix.recompute && strcmp(s->fix.recompute, "none") != 0)
        origin.recompute = s->fix.recompute;
    FS_TRY(cli_model_train(s->c, &origin, 1, &model));
    const cli_plan p = {.model = model, .cluster = s->cluster};
    const cli_rates rates = cli_rates_of(&p, 1);
    s->tokens = rates.tokens_per_s / rates.samples_per_s;
    const fs_status status = check_layers(s, model.graph);
    cli_model_close(&model);
    return status;
}

/* ---- the sweep ---- */

static ir_graph *make_graph(void *ctx, const search_sweep_graph *of,
                            fs_err *err)
{
    const cli_sweep *s = ctx;
    cli own = *s->c;
    plan_origin origin = s->origin;
    cli_model model;
    own.err = (fs_err){0};
    origin.model = with_layers(s, of->layers);
    origin.recompute = of->recompute;
    origin.batch = (int64_t)of->samples * of->micro_batches;
    if (cli_model_train(&own, &origin, of->micro_batches, &model) != FS_OK) {
        *err = own.err;
        return NULL;
    }
    ir_graph *graph = model.graph;
    model.graph = NULL; /* the sweep's */
    cli_model_close(&model);
    return graph;
}

static void refuse(cli_sweep *s, const char *why)
{
    int32_t k = 0;
    s->n_refused++;
    while (k < s->refused.n && strcmp(s->refused.at[k].why, why) != 0)
        k++;
    if (k == s->refused.n)
        fs_push(s->c->arena, &s->refused,
                (cli_sweep_refused){fs_strdup(s->c->arena, why), 0});
    s->refused.at[k].n++;
}

/* One micro-batch stands in any order: plan refuses the others of those that
 * differ by that alone (search/recipe/recipe_check.c). Inference has parameters
 * to cut, which zero 3 does, no states and no gradients. */
static bool says_nothing(const cli_sweep *sweep, const search_swept *one)
{
    if (sweep->origin.infer && (one->zero == 1 || one->zero == 2))
        return true;
    const plan_schedule *s = plan_schedule_find(one->schedule);
    return one->pp > 1 && one->micro_batches == 1 && !s->splits &&
           s->passes == 1 && strcmp(s->name, "1f1b") != 0;
}

/* The formula counts what slots in their order hold: of passes that nobody
 * orders, and of weights that may come late, that is a part. */
static int fits(const cli_sweep *s, const search_swept *one, int64_t bytes)
{
    if ((double)bytes > s->limit_bytes)
        return 0;
    const plan_schedule *schedule = plan_schedule_find(one->schedule);
    return schedule->splits || schedule->passes > 1 ? -1 : 1;
}

static void take(void *ctx, const search_swept *one)
{
    cli_sweep *s = ctx;
    cli_sweep_row row = {.recompute = one->recompute,
                         .schedule = one->schedule,
                         .dp = one->dp,
                         .tp = one->tp,
                         .pp = one->pp,
                         .layers = one->layers,
                         .micro_batches = one->micro_batches,
                         .zero = (int8_t)one->zero,
                         .seq_parallel = (int8_t)one->seq_parallel};
    if (says_nothing(s, one))
        return;
    if (!one->price) {
        refuse(s, one->why);
        return;
    }
    row.iteration_s = one->price->iteration_s;
    for (int32_t i = 0; i < one->price->n_stages; i++)
        if (one->price->peak_bytes[i] > row.peak_bytes)
            row.peak_bytes = one->price->peak_bytes[i];
    row.fits = (int8_t)fits(s, one, row.peak_bytes);
    s->n_fit += row.fits > 0;
    s->n_may += row.fits < 0;
    fs_push(s->c->arena, &s->rows, row);
}

/* A size for each number of micro-batches. */
static int32_t make_sizes(const cli_sweep *s, search_sweep_size **out)
{
    const int64_t batch = s->origin.batch;
    FS_VEC(search_sweep_size) sizes = {0};
    for (int32_t m = 1; m <= MOST_MICRO_BATCHES && m <= batch; m++) {
        if (batch % m ||
            (s->fix.micro_batches > 0 && s->fix.micro_batches != m))
            continue;
        int32_t *count = fs_new(s->c->arena, int32_t, 1);
        *count = m;
        fs_push(s->c->arena, &sizes,
                (search_sweep_size){(int32_t)(batch / m), 1, count});
    }
    *out = sizes.at;
    return sizes.n;
}

static int32_t make_schedules(const cli_sweep *s, const char **out)
{
    int32_t n = 0;
#define PLAN_SCHEDULE(id, name, placing, ...)                                  \
    if ((placing) == PLAN_PLACED_ONCE &&                                       \
        (!s->fix.schedule || strcmp(s->fix.schedule, name) == 0))              \
        out[n++] = name;
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
    return n;
}

static void sweep_all(cli_sweep *s, const cost_model *cost)
{
    static const char *const usual[] = {"", "selective", "block"};
    enum { MOST_SCHEDULES = 16 };
    const char *schedules[MOST_SCHEDULES], *said = s->fix.recompute;
    search_sweep_size *sizes;
    if (said && strcmp(said, "none") == 0)
        said = "";
    search_sweep sweep = {.cluster = s->cluster,
                          .cost = cost,
                          .layers = s->layers,
                          .devices = s->cluster->n_devices,
                          .limit_bytes = s->limit_bytes,
                          .n_recompute = said ? 1 : 3,
                          .recompute = said ? &said : usual,
                          .n_schedules = make_schedules(s, schedules),
                          .schedules = schedules,
                          .n_sizes = make_sizes(s, &sizes),
                          .sizes = sizes,
                          .fix = &s->fix,
                          .ctx = s,
                          .graph = make_graph,
                          .visit = take};
    const int64_t begin_ns = fs_now_ns();
    search_sweep_run(&sweep);
    s->figures = sweep.figures;
    s->price_s =
        1e-9 * (double)(fs_now_ns() - begin_ns) - sweep.figures.patterns_s;
}

static fs_status say_nothing_fits(const cli_sweep *s)
{
    char had[32], wants[32];
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < s->rows.n; i++)
        if (s->rows.at[i].peak_bytes < least)
            least = s->rows.at[i].peak_bytes;
    if (s->n_may)
        return fs_fail(&s->c->err, FS_NO,
                       "of %d recipes none is known to fit in %s; %lld may, "
                       "which --fix schedule=dynamic, zb-h1 or zb-h2 plans",
                       s->rows.n, fs_human_bytes(had, s->limit_bytes),
                       (long long)s->n_may);
    return fs_fail(&s->c->err, FS_NO,
                   "none of %d recipes fits in %s: the smallest wants %s",
                   s->rows.n, fs_human_bytes(had, s->limit_bytes),
                   fs_human_bytes(wants, (double)least));
}

static fs_status run(cli_sweep *s)
{
    cli *c = s->c;
    FS_TRY(open_cluster(s));
    FS_TRY(count_layers(s));
    FS_TRY(look_at_training(s));
    const cost_model *cost = cli_cost_model(c, s->cluster);
    fs_progress("pricing recipes");
    sweep_all(s, cost);
    fs_progress("%s", "");
    if (s->rows.n == 0)
        return fs_fail(
            &c->err, FS_INVALID, "no recipe of %s on %s has a price: %s",
            s->origin.model, s->cluster->name,
            s->refused.n ? s->refused.at[0].why : "none has what --fix says");
    const int64_t begin_ns = fs_now_ns();
    cli_sweep_find_best(s);
    fs_progress("%s", "");
    s->plan_s = 1e-9 * (double)(fs_now_ns() - begin_ns);
    if (c->args.output)
        FS_TRY(cli_sweep_write(s, c->args.output));
    cli_sweep_json(s);
    cli_sweep_tell(s);
    return s->n_best ? FS_OK : say_nothing_fits(s);
}

fs_status cli_cmd_sweep(cli *c)
{
    cli_sweep s = {.c = c};
    FS_TRY(check_args(c));
    s.origin = cli_origin(c, c->args.operands[0],
                          c->args.cluster ? c->args.cluster : "");
    FS_TRY(read_fix(&s));
    FS_TRY(cli_begin(c, s.origin.model, s.origin.cluster));
    fs_keep_freed();
    return run(&s);
}
