#include "config.h"
#include "cli/make_plan.h"
#include "cli/collectives.h"

#include "base/clock.h"
#include "cli/cluster.h"
#include "cli/guard.h"
#include "cli/infer.h"
#include "cli/making.h"
#include "cli/places.h"
#include "cli/predict.h"
#include "cli/sizes.h"
#include "cli/tuning.h"
#include "ir/train.h"
#include "search/planner.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FEW_GRAPHS = 8 };

/* What can be refused before anything is measured or imported. */
static fs_status check_args(cli *c)
{
    const cli_args *a = &c->args;
    if (a->n_operands != 1)
        return fs_fail(&c->err, FS_INVALID, "%s wants one MODEL", c->command);
    if (!a->output)
        return fs_fail(&c->err, FS_INVALID, "%s wants -o PLAN", c->command);
    if (a->batch < 1)
        return fs_fail(&c->err, FS_INVALID, "%s wants --batch N of 1 or more",
                       c->command);
    if (a->batch > PLAN_MAX_BATCH)
        return fs_fail(&c->err, FS_INVALID, "--batch %lld: at most %lld",
                       (long long)a->batch, (long long)PLAN_MAX_BATCH);
    if (!isnan(a->time_limit) && a->time_limit <= 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--time-limit %g: more than 0 seconds are wanted",
                       a->time_limit);
    if (!isnan(a->work_limit) && !(a->work_limit > 0))
        return fs_fail(&c->err, FS_INVALID,
                       "--work-limit %g: more than 0 seconds of work are "
                       "wanted",
                       a->work_limit);
    if (!isnan(a->gap) && !(a->gap >= 0 && a->gap < 1))
        return fs_fail(&c->err, FS_INVALID,
                       "--gap %g: a fraction from 0 to below 1 is wanted "
                       "(0.001 is 0.1 %%)",
                       a->gap);
    if (a->engine && !search_engine_find(a->engine) &&
        !search_planner_find(a->engine))
        return fs_fail(&c->err, FS_INVALID, "--engine %s is unknown: %s",
                       a->engine, search_way_names());
    if (a->start && strcmp(a->start, "none") != 0 &&
        !search_planner_find(a->start))
        return fs_fail(&c->err, FS_INVALID, "--start %s is unknown: none, %s",
                       a->start, search_planner_names());
    if (a->axes == 0 || a->axes > IR_MAX_MESH)
        return fs_fail(&c->err, FS_INVALID, "--axes must be 1 to %d",
                       IR_MAX_MESH);
    FS_TRY(cli_check_registers(c));
    FS_TRY(cli_check_buckets(c));
    if (a->keep == 0 || a->keep > CLI_MAX_PLANS)
        return fs_fail(&c->err, FS_INVALID, "--keep must be 1 to %d",
                       CLI_MAX_PLANS);
    FS_TRY(cli_front_check(c));
    uint32_t without;
    FS_TRY(cli_parse_no_reduce(c, &without));
    ir_rate rate;
    FS_TRY(ir_rate_parse(a->lr_schedule ? a->lr_schedule : "", &c->err, &rate));
    bool infer;
    FS_TRY(cli_mode(c, &infer));
    FS_TRY(cli_check_tuning(c, a->optimizer ? a->optimizer : "adamw",
                            a->optimizer ? "" : " (the default)"));
    const char *slash = strrchr(a->output, '/');
    const char *dir =
        slash ? fs_strndup(c->arena, a->output, (size_t)(slash - a->output) + 1)
              : ".";
    if (access(dir, W_OK) != 0)
        return fs_fail(&c->err, FS_INVALID, "%s cannot be written: %s",
                       a->output, strerror(errno));
    return FS_OK;
}

/* Memory wants small micro-batches, pipelines a few per stage; more of them
 * only cost. */
static int64_t most_micro_batches(const cli_making *m)
{
    enum { USUAL = 32, PER_STAGE = 4 };
    int64_t stages = m->recipe.pp > 0 ? m->recipe.pp : m->cluster->n_devices;
    return PER_STAGE * stages > USUAL ? PER_STAGE * stages : USUAL;
}

/* Has every data parallel rank of each stage as many of these samples? */
static bool divide_over_dp(const search_recipe *r, int64_t samples)
{
    bool even = r->dp <= 1 || samples % r->dp == 0;
    for (int32_t i = 0; i < r->dp_each.n; i++)
        even &= samples % r->dp_each.at[i] == 0;
    return even;
}

/* Divisors of the batch, each at least `factor` times the one before. */
static int32_t divisors(const cli_making *m, int32_t factor, int32_t room,
                        int32_t *counts)
{
    int64_t batch = m->origin.batch, most = most_micro_batches(m), last = 0;
    int32_t n = 0;
    for (int64_t k = 1; k <= most && k <= batch && n < room; k++)
        if (batch % k == 0 && divide_over_dp(&m->recipe, batch / k) &&
            k >= factor * last) {
            counts[n++] = (int32_t)k;
            last = k;
        }
    return n;
}

/* Micro-batch counts worth a graph: the fixed one, else divisors of the batch,
 * all when they are few. */
static int32_t micro_batch_counts(const cli_making *m,
                                  int32_t counts[CLI_MAX_GRAPHS])
{
    if (m->recipe.micro_batches > 0 || m->by_hand) {
        counts[0] = m->recipe.micro_batches > 0 ? m->recipe.micro_batches : 1;
        return 1;
    }
    int32_t n = divisors(m, 1, FEW_GRAPHS + 1, counts);
    return n <= FEW_GRAPHS ? n : divisors(m, 2, CLI_MAX_GRAPHS, counts);
}

/* The loss forbids them, and nobody asked for any. */
static fs_status leave_out_micro_batches(cli_making *m)
{
    fs_warn("%s", m->c->err.text);
    m->c->err = (fs_err){0};
    return FS_OK;
}

static fs_status build_graphs(cli_making *m, const cost_model *cost)
{
    int32_t counts[CLI_MAX_GRAPHS];
    const int32_t n = micro_batch_counts(m, counts);
    fs_progress("building the training graphs");
    if (cli_compact_build(m, cost, n, counts)) {
        for (int32_t k = 0; k < n; k++)
            m->graphs[k] = (search_graph){counts[k], m->models[k].graph, NULL};
        return FS_OK;
    }
    cli_sizes *sizes = cli_sizes_create(&m->origin);
    const fs_status status =
        cli_sizes_train_all(m->c, sizes, n, counts, &m->n_models, m->models);
    cli_sizes_destroy(sizes);
    for (int32_t k = 0; k < m->n_models; k++)
        m->graphs[k] = (search_graph){counts[k], m->models[k].graph, NULL};
    if (status == FS_NO && m->n_models > 0)
        return leave_out_micro_batches(m);
    if (status == FS_NO) /* what was asked for is not possible */
        return m->c->err.status = FS_INVALID;
    return status;
}

static fs_status keep_plan(cli *c, const plan *p, fs_err *err)
{
    json_t *root;
    if (!cli_keeps(c))
        return FS_OK;
    FS_TRY(store_run_plan(c->db, c->run, p->model_digest, p->cluster_digest,
                          p->digest, err));
    FS_TRY(fs_json_load(c->args.output, err, &root));
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    fs_status status = store_plan(c->db, p->digest, text, err);
    free(text);
    return status;
}

/* With what was found of it. */
static fs_status write_plan(cli_making *m, const cli_plan *p, plan *lowered,
                            const char *file)
{
    cli *c = m->c;
    m->origin.iteration_s = m->found.iteration_s;
    m->origin.micro_batches = lowered->micro_batches;
    plan_origin stored = m->origin;
    stored.model = cli_place_stored(c, file, stored.model);
    stored.cluster = cli_place_stored(c, file, stored.cluster);
    return plan_write(file, p->model.graph, lowered, &stored, m->cluster,
                      &c->err);
}

static cli_plan planned(const cli_making *m, cost_model *cost,
                        const plan *lowered)
{
    return (cli_plan){.model = cli_making_model(m),
                      .cluster = m->cluster,
                      .cost = cost,
                      .plan = lowered};
}

/* Is a plan of that model, or of its graph with other states? */
static bool is_used(const cli_making *m, int32_t model)
{
    const search_result *found = &m->found;
    bool used = (found->of - m->graphs) % m->n_models == model;
    for (int32_t i = 0; i < found->n_plans; i++)
        used |= (found->plans[i].of - m->graphs) % m->n_models == model;
    return used;
}

/* But for those that one which is used borrows from. */
static void close_unused_of(const cli_making *m, cli_model *models)
{
    for (int32_t k = 0; k < m->n_models; k++) {
        bool used = is_used(m, k);
        for (int32_t i = 0; i < m->n_models; i++)
            used |= is_used(m, i) && models[i].lender &&
                    models[i].lender == models[k].graph;
        if (!used)
            cli_model_close(&models[k]);
    }
}

/* A plan's file takes as much memory as its graphs: those that no plan is of
 * make room for it. */
static void close_unused(cli_making *m)
{
    close_unused_of(m, m->models);
    close_unused_of(m, m->again);
    close_unused_of(m, m->casts);
    for (int32_t k = 0; k < m->n_graphs; k++)
        if (!is_used(m, k % m->n_models))
            m->graphs[k].graph = NULL;
}

static fs_status prove_and_tell(cli_making *m, cost_model *cost, plan *lowered)
{
    cli *c = m->c;
    cli_plan p = planned(m, cost, lowered);
    plan_report proof = {0};
    close_unused(m);
    FS_TRY(cli_plan_prove(c, &p, &proof));
    json_object_del(c->result, "ok");
    json_object_del(c->result, "live");
    json_object_del(c->result, "findings");
    sim_result sim;
    FS_TRY(cli_predict(c, &p, NULL, &sim));
    m->origin.sim_iteration_s = sim.iteration_s;
    FS_TRY(write_plan(m, &p, lowered, c->args.output));
    keep_plan(c, lowered, &c->late);
    cli_keep(c, &p.model, m->cluster);
    cli_figure(c, "iteration_s", m->found.iteration_s, "s");
    cli_figure(c, "lower_bound_s", m->found.lower_bound_s, "s");
    cli_figure(c, "sim_iteration_s", sim.iteration_s, "s");
    cli_figure(c, "search_s", m->found.search_s, "s");
    cli_ranks_finish(m, &p, &sim);
    cli_making_json(m, &p, &sim);
    cli_making_tell(m, &p, &sim, &proof);
    return cli_front_draw(m);
}

/* Said where the user's words still are: later all pins match. */
static fs_status check_pins(cli_making *m)
{
    cli *c = m->c;
    const search_pins *pins = &m->recipe.pins;
    const search_pin **pin_of;
    int32_t stages = m->recipe.pp > 0 ? m->recipe.pp : 1;
    fs_status status = search_pins_check_devices(
        pins, m->cluster->n_devices / stages, &c->err);
    for (int32_t i = 0; i < m->n_models && status == FS_OK; i++)
        status = search_pins_find(pins, m->graphs[i].graph, c->arena, &c->err,
                                  &pin_of);
    if (status != FS_OK)
        fs_err_prefix(&c->err, "--pin");
    return status;
}

/* A word of the recipe and a flag that say one thing must say the same. */
static fs_status join_word(cli_making *m, const char *key, const char *flag,
                           const char *said, const char **word)
{
    if (said && flag && strcmp(said, flag) != 0)
        return fs_fail(&m->c->err, FS_INVALID,
                       "--%s %s and %s=%s of the recipe contradict each other; "
                       "give one",
                       key, flag, key, said);
    if (said)
        *word = strcmp(said, "none") == 0 ? "" : said;
    return FS_OK;
}

/* What a recipe says of the training graph. */
static fs_status take_words(cli_making *m)
{
    const cli_args *a = &m->c->args;
    const char *fixed = m->recipe.recompute;
    if (m->origin.infer)
        FS_TRY(cli_infer_recipe(m->c, &m->recipe));
    const bool any_fixed = fixed && strcmp(fixed, "any") == 0;
    if (any_fixed && !m->by_hand &&
        (!a->recompute || strcmp(a->recompute, "any") == 0))
        m->recipe.recompute = NULL; /* its default */
    if (any_fixed || (a->recompute && strcmp(a->recompute, "any") == 0)) {
        if (m->by_hand)
            return fs_fail(
                &m->c->err, FS_INVALID,
                "--recompute any is for search, which chooses; "
                "plan wants block, selective, cheap, casts, nothing, "
                "a REGEX of nodes or none");
        m->origin.recompute = "";
    }
    FS_TRY(
        join_word(m, "states", a->states, m->recipe.states, &m->origin.states));
    FS_TRY(cli_making_take_states(m));
    FS_TRY(join_word(m, "precision", a->precision, m->recipe.precision,
                     &m->origin.precision));
    FS_TRY(join_word(m, "recompute", a->recompute, m->recipe.recompute,
                     &m->origin.recompute));
    if (cli_making_any(m))
        m->origin.recompute = "nothing";
    return FS_OK;
}

static fs_status check_recipe(cli_making *m)
{
    for (int32_t i = 0; i < m->n_models; i++)
        FS_TRY(search_recipe_check(&m->recipe, m->graphs[i].graph, &m->c->err));
    return FS_OK;
}

static void close_models(cli_making *m)
{
    for (int32_t i = 0; i < m->n_models; i++)
        cli_model_close(&m->models[i]);
    cli_compact_close(m);
    cli_making_close_again(m);
    cli_making_end_states(m);
    m->n_models = 0;
}

static fs_status attempt_once(cli_making *m, cost_model **cost, plan **out)
{
    const int64_t start_ns = fs_now_ns();
    if (m->any_plan)
        atomic_store(m->any_plan, false);
    close_models(m);
    cli_making_forget_again(m);
    cli_making_begin_states(m);
    *cost = cli_cost_model(m->c, m->cluster);
    FS_TRY(build_graphs(m, *cost));
    FS_TRY(cli_making_add_states(m));
    m->graphs_s += 1e-9 * (double)(fs_now_ns() - start_ns);
    FS_TRY(check_recipe(m));
    FS_TRY(check_pins(m));
    return cli_making_find(m, *cost, out);
}

/* A plan of the graphs that m->origin makes. */
static fs_status attempt(cli_making *m, cost_model **cost, plan **out)
{
    const fs_status status = attempt_once(m, cost, out);
    if (!atomic_load(&m->compact.outgrown))
        return status;
    m->compact.off = true;
    atomic_store(&m->compact.outgrown, false);
    m->compact.search_s = m->found.search_s;
    m->c->err = (fs_err){0};
    m->found = (search_result){0};
    FS_TRY(attempt_once(m, cost, out));
    m->found.search_s += m->compact.search_s;
    return FS_OK;
}

/* Which gradients are reduced over ranks only a plan tells, and what moves for
 * them compressed another one: first without, then with those that might save
 * bytes, until all of them do. */
static fs_status attempt_compressed(cli_making *m, cost_model **cost,
                                    plan **out)
{
    const char *how = m->origin.compress;
    fs_arena *arena = m->c->arena;
    m->origin.compress = "";
    m->time_share = 1.0 / 3; /* few need a fourth search */
    FS_TRY(attempt(m, cost, out));
    cli_plan p = planned(m, *cost, *out);
    cli_compressed_begin(&p, arena, &m->packed);
    m->origin.compress = how;
    do {
        if (cli_compressed_names(&m->packed, arena, &m->origin) == 0)
            return cli_compressed_refuse(m->c, &m->packed, how, m->recipe.zero);
        FS_TRY(attempt(m, cost, out));
        p = planned(m, *cost, *out);
    } while (cli_compressed_drop(&m->packed, &p, arena));
    return FS_OK;
}

static fs_status find(cli_making *m, cost_model **cost, plan **out)
{
    const char *how = m->origin.compress;
    return how && how[0] ? attempt_compressed(m, cost, out)
                         : attempt(m, cost, out);
}

static fs_status check_memory(cli_making *m)
{
    return m->c->args.memory
               ? cli_memory_limit(m->c, m->cluster, &m->origin.memory_bytes)
               : FS_OK;
}

/* What --fix says without effect: planners give ranks to what it leaves open,
 * engines do not. Of ranks an axis is fixed, of a single one none. */
static fs_status check_fixed(const cli_making *m)
{
    const search_recipe *r = &m->recipe;
    const bool open = r->dp == 0 || r->tp == 0 || r->pp == 0;
    if (m->by_hand || search_planner_find(cli_making_engine(m)))
        return FS_OK;
    if (open && (r->dp == 1 || r->tp == 1))
        fs_warn("--fix %s=1 forbids nothing by itself: axes that are left to "
                "the search may cut %s all the same",
                r->dp == 1 ? "dp" : "tp", r->dp == 1 ? "samples" : "weights");
    return search_recipe_check_open(r, &m->c->err);
}

static fs_status find_once(cli_making *m)
{
    cost_model *cost;
    plan *lowered;
    return find(m, &cost, &lowered);
}

static fs_status make(cli_making *m)
{
    cli *c = m->c;
    FS_TRY(cli_begin(c, m->origin.model, m->origin.cluster));
    FS_TRY(cli_cluster_open(c, c->args.cluster, &m->cluster));
    FS_TRY(check_memory(m));
    FS_TRY(cli_idle_begin(m, find_once));
    FS_TRY(search_recipe_complete(m->cluster, m->origin.batch, m->by_hand,
                                  &c->err, &m->recipe));
    FS_TRY(check_fixed(m));
    cost_model *cost = NULL;
    plan *lowered = NULL;
    fs_status status = find(m, &cost, &lowered);
    if (m->n_models && m->models[0].notes.n)
        cli_say(c, "%s", m->models[0].notes.at);
    if (status == FS_NO)
        cli_making_no_plan(m);
    if (status == FS_OK)
        cli_idle_bound(m);
    return status == FS_OK ? prove_and_tell(m, cost, lowered) : status;
}

static fs_status take_pins(cli *c, search_recipe *recipe)
{
    const cli_LIST *said = &c->args.pin;
    fs_status status =
        search_pins_parse(said->n, said->at, c->arena, &c->err, &recipe->pins);
    if (status != FS_OK)
        fs_err_prefix(&c->err, "--pin");
    return status;
}

static fs_status make_quietly(cli_making *m, cost_model **cost, plan **lowered)
{
    FS_TRY(search_recipe_complete(m->cluster, m->origin.batch, m->by_hand,
                                  &m->c->err, &m->recipe));
    FS_TRY(take_words(m));
    return find(m, cost, lowered);
}

static fs_status check_and_write(cli_making *m, const char *file)
{
    cli *c = m->c;
    cost_model *cost = NULL;
    plan *lowered = NULL;
    plan_report proof = {0};
    FS_TRY(make_quietly(m, &cost, &lowered));
    cli_plan p = planned(m, cost, lowered);
    if (plan_check(p.model.graph, m->cluster, lowered, c->arena, &proof) !=
        FS_OK)
        return fs_fail(&c->err, FS_FAULT, "the plan is not sound: %s",
                       proof.findings[0].text);
    return write_plan(m, &p, lowered, file);
}

static cli_making making_by_hand(cli *c, const plan_origin *origin,
                                 const search_recipe *recipe,
                                 hw_cluster *cluster)
{
    return (cli_making){.c = c,
                        .recipe = *recipe,
                        .by_hand = true,
                        .origin = *origin,
                        .cluster = cluster};
}

fs_status cli_plan_by_hand(cli *c, const plan_origin *origin,
                           const search_recipe *recipe, hw_cluster *cluster,
                           const char *file)
{
    cli_making m = making_by_hand(c, origin, recipe, cluster);
    fs_status status = check_and_write(&m, file);
    close_models(&m);
    return status;
}

fs_status cli_plan_by_search(cli *c, const plan_origin *origin,
                             hw_cluster *cluster, const char *file)
{
    const search_recipe recipe = search_recipe_free();
    cli_making m = making_by_hand(c, origin, &recipe, cluster);
    m.by_hand = false;
    m.any_plan = fs_new(c->arena, atomic_bool, 1);
    fs_status status = check_and_write(&m, file);
    close_models(&m);
    return status;
}

fs_status cli_plan_unwritten(cli *c, const plan_origin *origin,
                             const search_recipe *recipe, hw_cluster *cluster,
                             bool roughly, cli_plan_use *use, void *ctx)
{
    cli_making m = making_by_hand(c, origin, recipe, cluster);
    m.roughly = roughly;
    cost_model *cost = NULL;
    plan *lowered = NULL;
    fs_status status = make_quietly(&m, &cost, &lowered);
    if (status == FS_OK) {
        const cli_plan p = planned(&m, cost, lowered);
        status = use(c, &p, m.found.iteration_s, ctx);
    }
    close_models(&m);
    return status;
}

fs_status cli_make_plan(cli *c, search_recipe recipe, bool by_hand)
{
    FS_TRY(check_args(c));
    FS_TRY(take_pins(c, &recipe));
    cli_making m = {.c = c, .recipe = recipe, .by_hand = by_hand};
    if (!by_hand) {
        m.stop = cli_guard_stop_flag(c);
        m.any_plan = fs_new(c->arena, atomic_bool, 1);
        cli_guard_ask_first(c, m.any_plan);
    }
    m.origin = cli_origin(c, c->args.operands[0],
                          c->args.cluster ? c->args.cluster : "");
    FS_TRY(take_words(&m));
    fs_keep_freed();
    fs_status status = make(&m);
    close_models(&m);
    return status;
}
