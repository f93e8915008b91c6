#include "config.h"
#include "cli/make_plan.h"

#include "base/clock.h"
#include "cli/places.h"
#include "cli/predict.h"
#include "cli/tuning.h"
#include "ir/recompute.h"
#include "ir/train.h"
#include "report/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_GRAPHS = 16, FEW_GRAPHS = 8, MEMORY_ROUNDS = 6 };

/* Predictions err by more. */
#define USUAL_GAP 1e-3

typedef struct making {
    cli *c;
    search_recipe recipe;
    bool by_hand;
    plan_origin origin;
    hw_cluster *cluster;
    int32_t n_models;
    cli_model models[MAX_GRAPHS];
    search_graph graphs[MAX_GRAPHS];
    search_result found;
} making;

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
    if (!isnan(a->time_limit) && a->time_limit <= 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--time-limit %g: more than 0 seconds are wanted",
                       a->time_limit);
    if (!isnan(a->gap) && !(a->gap >= 0 && a->gap < 1))
        return fs_fail(&c->err, FS_INVALID,
                       "--gap %g: a fraction from 0 to below 1 is wanted "
                       "(0.001 is 0.1 %%)",
                       a->gap);
    if (a->engine && !search_engine_find(a->engine))
        return fs_fail(&c->err, FS_INVALID, "--engine %s is unknown: %s",
                       a->engine, search_engine_names());
    ir_rate rate;
    FS_TRY(ir_rate_parse(a->lr_schedule ? a->lr_schedule : "", &c->err, &rate));
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
static int64_t most_micro_batches(const making *m)
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
static int32_t divisors(const making *m, int32_t factor, int32_t room,
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
static int32_t micro_batch_counts(const making *m, int32_t counts[MAX_GRAPHS])
{
    if (m->recipe.micro_batches > 0 || m->by_hand) {
        counts[0] = m->recipe.micro_batches > 0 ? m->recipe.micro_batches : 1;
        return 1;
    }
    int32_t n = divisors(m, 1, FEW_GRAPHS + 1, counts);
    return n <= FEW_GRAPHS ? n : divisors(m, 2, MAX_GRAPHS, counts);
}

/* The loss forbids them, and nobody asked for any. */
static fs_status leave_out_micro_batches(making *m)
{
    fs_warn("%s", m->c->err.text);
    m->c->err = (fs_err){0};
    return FS_OK;
}

static fs_status build_graphs(making *m)
{
    int32_t counts[MAX_GRAPHS];
    int32_t n = micro_batch_counts(m, counts);
    for (int32_t i = 0; i < n; i++) {
        fs_progress("building the training graph for %d micro-batches",
                    counts[i]);
        fs_status status =
            cli_model_train(m->c, &m->origin, counts[i], &m->models[i]);
        if (status == FS_NO && i > 0)
            return leave_out_micro_batches(m);
        if (status == FS_NO) /* what was asked for is not possible */
            m->c->err.status = status = FS_INVALID;
        FS_TRY(status);
        m->graphs[i] = (search_graph){counts[i], m->models[i].graph};
        m->n_models = i + 1;
    }
    return FS_OK;
}

static void show_line(void *ctx, const char *line)
{
    (void)ctx;
    fs_progress("%s", line);
}

static double time_limit(const making *m)
{
    double said = m->c->args.time_limit;
    if (!isnan(said))
        return said;
    return m->by_hand ? 1e8 : 60;
}

static double gap_asked(const making *m)
{
    return isnan(m->c->args.gap) ? USUAL_GAP : m->c->args.gap;
}

static const char *engine_of(const making *m)
{
    return m->c->args.engine ? m->c->args.engine : "ilp";
}

static fs_status pose(making *m, cost_model *cost, search_problem *out)
{
    cli *c = m->c;
    *out = (search_problem){
        .cluster = m->cluster,
        .cost = cost,
        .n_graphs = m->n_models,
        .graphs = m->graphs,
        .engine = engine_of(m),
        .schedule = "1f1b",
        .fix_mesh = {.n = -1},
        .gap = gap_asked(m),
        .max_mesh_axes = 2,
        /* A plan by hand claims no bound: proving one would only take time. */
        .effort_s = m->by_hand ? 2 : 0,
        .reduce = !c->args.no_reduce,
        .progress = show_line,
    };
    if (c->args.memory)
        FS_TRY(cli_parse_bytes(c->args.memory, &c->err, &out->memory_bytes));
    search_recipe_apply(&m->recipe, c->arena, out);
    return FS_OK;
}

static const cli_model *chosen_model(const making *m)
{
    for (int32_t i = 0; i < m->n_models; i++)
        if (m->models[i].graph == m->found.graph)
            return &m->models[i];
    FS_ASSERT(!"the chosen graph is one of ours");
    return NULL;
}

static const char *mesh_text(fs_arena *arena, const ir_mesh *mesh)
{
    fs_text text = {.arena = arena};
    for (int32_t a = 0; a < mesh->n; a++)
        fs_text_add(&text, "%s%d", a ? "x" : "", mesh->dim[a]);
    return text.n ? text.at : "1";
}

/* "2x2", or of stages that differ "4/2". */
static const char *meshes_text(fs_arena *arena, const ir_mesh *mesh, int32_t n)
{
    fs_text text = {.arena = arena};
    for (int32_t i = 0; i < n; i++)
        fs_text_add(&text, "%s%s", i ? "/" : "", mesh_text(arena, &mesh[i]));
    return text.at;
}

static const char *stage_meshes_text(fs_arena *arena, const plan_strategy *s)
{
    ir_mesh *mesh = fs_new(arena, ir_mesh, s->n_stages);
    bool differ = false;
    for (int32_t i = 0; i < s->n_stages; i++) {
        mesh[i] = s->stages[i].mesh;
        differ |= !plan_same_mesh(&mesh[0], &mesh[i]);
    }
    return meshes_text(arena, mesh, differ ? s->n_stages : 1);
}

static json_t *stages_json(const making *m, const cli_plan *p)
{
    const plan_strategy *s = p->plan->strategy;
    json_t *list = json_array();
    for (int32_t i = 0; i < s->n_stages; i++) {
        int32_t nodes = 0;
        for (int32_t v = 0; v < s->n_nodes; v++)
            nodes += s->stage_of[v] == i;
        json_array_append_new(
            list,
            json_pack("{s:i, s:s, s:i, s:i, s:i}", "stage", i, "mesh",
                      mesh_text(m->c->arena, &s->stages[i].mesh),
                      "first_device", s->stages[i].first_device, "devices",
                      ir_mesh_size(&s->stages[i].mesh), "nodes", nodes));
    }
    return list;
}

static void set_finite(json_t *object, const char *key, double value)
{
    json_object_set_new(object, key,
                        isfinite(value) ? json_real(value) : json_null());
}

static json_t *configs_json(const making *m)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < m->found.n_configs; i++) {
        const search_config *k = &m->found.configs[i];
        json_t *row = json_pack(
            "{s:i, s:i, s:s, s:s, s:s, s:I, s:f}", "stages", k->n_stages,
            "micro_batches", k->micro_batches, "mesh",
            meshes_text(m->c->arena, k->mesh, k->n_meshes), "schedule",
            k->schedule ? k->schedule : "", "status", k->status, "peak_bytes",
            (json_int_t)k->peak_bytes, "seconds", k->seconds);
        set_finite(row, "iteration_s", k->iteration_s);
        set_finite(row, "lower_bound_s", k->lower_bound_s);
        json_array_append_new(list, row);
    }
    return list;
}

static void fill_json(const making *m, const cli_plan *p, const sim_result *sim)
{
    const search_result *f = &m->found;
    json_t *r = m->c->result;
    json_object_set_new(r, "status", json_string(f->status));
    json_object_set_new(r, "engine", json_string(engine_of(m)));
    set_finite(r, "iteration_s", f->iteration_s);
    if (!m->by_hand) {
        set_finite(r, "lower_bound_s", f->lower_bound_s);
        set_finite(r, "gap", f->gap);
        json_object_set_new(r, "space", json_string(f->space ? f->space : ""));
        json_object_set_new(r, "configs", configs_json(m));
    }
    set_finite(r, "search_s", f->search_s);
    set_finite(r, "sim_iteration_s", sim->iteration_s);
    json_object_set_new(r, "micro_batches",
                        json_integer(p->plan->micro_batches));
    json_object_set_new(r, "stages", stages_json(m, p));
    json_object_set_new(r, "plan", fs_json_string(m->c->args.output));
    cli_plan_digest(m->c, p);
}

static const char *seconds_text(fs_arena *arena, double seconds)
{
    char text[32];
    if (!isfinite(seconds))
        return "-";
    return fs_strdup(arena, fs_human_seconds(text, seconds));
}

static void config_table(const making *m)
{
    static const char *const header[] = {
        "stages",    "mesh",  "micro-batches", "verdict",
        "iteration", "bound", "searched"};
    cli *c = m->c;
    report_table t = {.arena = c->arena, .n_columns = 7, .header = header};
    for (int32_t i = 0; i < m->found.n_configs && i < 40; i++) {
        const search_config *k = &m->found.configs[i];
        report_table_cell(&t, "%d", k->n_stages);
        report_table_cell(&t, "%s",
                          meshes_text(c->arena, k->mesh, k->n_meshes));
        report_table_cell(&t, "%d", k->micro_batches);
        report_table_cell(&t, "%s", k->status);
        report_table_cell(&t, "%s", seconds_text(c->arena, k->iteration_s));
        report_table_cell(&t, "%s", seconds_text(c->arena, k->lower_bound_s));
        report_table_cell(&t, "%s", seconds_text(c->arena, k->seconds));
    }
    if (!c->args.json)
        report_table_print(&t, stdout);
}

/* What the certificate says of the plan. */
static const char *proof_text(const making *m)
{
    const search_result *f = &m->found;
    double asked = gap_asked(m);
    if (strcmp(f->status, "optimal") == 0)
        return "optimal: gap 0 %";
    if (f->gap <= asked + 1e-9)
        return fs_printf(m->c->arena, "within %g %%: gap %.3g %%", 100 * asked,
                         100 * f->gap);
    return fs_printf(m->c->arena, "gap %.3g %%", 100 * f->gap);
}

static void tell_recomputed(const making *m)
{
    const ir_graph *graph = chosen_model(m)->graph;
    const int32_t again = ir_count_recomputed(graph);
    fs_json_set_int(m->c->result, "recomputed_ops", again);
    if (m->origin.recompute && m->origin.recompute[0])
        cli_say(m->c,
                "recompute       %s: %d of %d forward ops once more in the "
                "backward pass\n",
                m->origin.recompute, again, ir_forward_nodes(graph));
}

static void describe(const making *m, const cli_plan *p, const sim_result *sim,
                     const plan_report *proof)
{
    cli *c = m->c;
    const search_result *f = &m->found;
    const plan_strategy *s = p->plan->strategy;
    char a[32], b[32];
    if (!m->by_hand)
        config_table(m);
    cli_say(c, "plan            %d stage%s of mesh %s, %d micro-batch%s, %s\n",
            s->n_stages, s->n_stages == 1 ? "" : "s",
            stage_meshes_text(c->arena, s), s->micro_batches,
            s->micro_batches == 1 ? "" : "es", s->schedule);
    cli_tell_statistics(c, chosen_model(m));
    tell_recomputed(m);
    cli_tell_compressed(c, p);
    cli_tell_cores(c, m->cluster);
    cli_say(c, "iteration       %s by the formula, %s simulated\n",
            fs_human_seconds(a, f->iteration_s),
            fs_human_seconds(b, sim->iteration_s));
    if (!m->by_hand)
        cli_say(c, "proof           nothing below %s by the formula (%s)%s%s\n",
                fs_human_seconds(a, f->lower_bound_s), proof_text(m),
                f->space ? ": " : "", f->space ? f->space : "");
    cli_say(c,
            "                sound and live: %lld transitions, %lld places, "
            "no token-free cycle\n",
            (long long)proof->n_transitions, (long long)proof->n_places);
    cli_say(c, "memory          %s per device at most\n",
            fs_human_bytes(a, (double)proof->peak_bytes_max));
    cli_tell_offsets(c, p);
    cli_say(c,
            "search          %s, network of %lld nodes and %lld edges, %lld "
            "left after exact reductions\n",
            fs_human_seconds(a, f->search_s), (long long)f->net_nodes,
            (long long)f->net_edges, (long long)f->kernel_nodes);
    cli_say(c, "written to      %s\n", c->args.output);
    cli_say_digest(c, p);
}

/* ---- a plan that fits ---- */

/* Search answers with plans that fit when lowered with the default options.
 * Streams that overlap and tensors that share nothing take more: while the
 * arena of the plan so lowered is too large, search is asked again with a
 * smaller share of the limit. */
typedef struct hunt {
    search_problem problem;
    double low, high;   /* shares: infeasible up to, too large from */
    double bound_s;     /* proven by the first round, for the whole limit */
    int64_t smallest;   /* arena found */
    double limit_bytes; /* that it was held against */
    int64_t deadline_ns;
    double search_s; /* of all rounds */
} hunt;

static double limit_of(const hunt *h, const plan *p, const plan_role *role)
{
    double least = h->problem.memory_bytes > 0 ? (double)h->problem.memory_bytes
                                               : INFINITY;
    const plan_stage *stage = &p->strategy->stages[role->stages[0]];
    for (int32_t k = 0; k < ir_mesh_size(&stage->mesh); k++) {
        int32_t device = stage->first_device + k;
        least =
            fmin(least,
                 hw_group_of(h->problem.cluster, device)->device.memory_bytes);
    }
    return least;
}

/* The fullest role's arena as a fraction of its limit. */
static double fullness(hunt *h, const plan *p)
{
    double worst = 0;
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        double limit = limit_of(h, p, role);
        double full = (double)role->arena_bytes / limit;
        if (full <= worst)
            continue;
        worst = full;
        h->limit_bytes = limit;
    }
    return worst;
}

static int64_t largest_arena(const plan *p)
{
    int64_t most = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        if (p->roles[r].arena_bytes > most)
            most = p->roles[r].arena_bytes;
    return most;
}

static fs_status lower(making *m, plan **out)
{
    cli *c = m->c;
    plan_lower_options options = plan_lower_defaults();
    options.overlap = c->args.overlap;
    options.share_memory = !c->args.no_sharing;
    return plan_lower(m->found.graph, m->cluster, m->found.strategy, &options,
                      c->arena, &c->err, out);
}

/* One search, one lowering. `*fits` with FS_OK, or the next share to try. Only
 * the first round's proof is told: later ones get less time. */
static fs_status hunt_once(making *m, hunt *h, bool first, plan **out,
                           bool *fits)
{
    cli *c = m->c;
    double left = 1e-9 * (double)(h->deadline_ns - fs_now_ns());
    double share = h->problem.memory_share;
    fs_err err = {0};
    *fits = false;
    h->problem.time_limit_s = left;
    if (h->problem.memory_bytes > 0 && !m->by_hand)
        h->problem.time_limit_s = first ? left / 2 : left / 6;
    fs_status status = search_run(&h->problem, c->arena, &err, &m->found);
    h->search_s += m->found.search_s;
    if (status == FS_NO && !first) {
        h->low = share;
        h->problem.memory_share = (h->low + h->high) / 2;
        return FS_OK;
    }
    if (status != FS_OK)
        return fs_fail(&c->err, status, "%s", err.text);
    if (first)
        h->bound_s = m->found.lower_bound_s;
    FS_TRY(lower(m, out));
    double full = fullness(h, *out);
    *fits = full <= 1;
    if (largest_arena(*out) < h->smallest)
        h->smallest = largest_arena(*out);
    h->high = share;
    h->problem.memory_share = share / full * 0.97;
    if (h->problem.memory_share <= h->low)
        h->problem.memory_share = (h->low + h->high) / 2;
    return FS_OK;
}

/* What a later round proves holds for its smaller share only. */
static void bound_by_first(making *m, const hunt *h)
{
    search_result *f = &m->found;
    if (f->lower_bound_s <= h->bound_s)
        return;
    f->lower_bound_s = h->bound_s;
    f->gap = fmax(0, (f->iteration_s - h->bound_s) / f->iteration_s);
    if (f->gap > 1e-9)
        f->status = "feasible";
}

static fs_status too_large(making *m, const hunt *h)
{
    char had[32], found[32];
    bool late = fs_now_ns() >= h->deadline_ns;
    m->found.status = "limit";
    return fs_fail(&m->c->err, FS_NO,
                   "memory: %s within %s per device, which is no proof that "
                   "there is none; the smallest takes %s; more devices or a "
                   "smaller batch would help%s",
                   late ? "time ran out before a plan was found that keeps"
                        : "no plan was found that keeps",
                   fs_human_bytes(had, h->limit_bytes),
                   fs_human_bytes(found, (double)h->smallest),
                   late ? ", and so would more time" : "");
}

static fs_status hunt_rounds(making *m, hunt *h, plan **out)
{
    bool fits = false;
    for (int32_t k = 0; k < MEMORY_ROUNDS; k++) {
        if (k > 0 && fs_now_ns() >= h->deadline_ns)
            break;
        FS_TRY(hunt_once(m, h, k == 0, out, &fits));
        if (fits)
            break;
    }
    if (!fits)
        return too_large(m, h);
    bound_by_first(m, h);
    m->found.search_s = h->search_s;
    return FS_OK;
}

static fs_status search_once(making *m, search_problem *problem, plan **out)
{
    cli *c = m->c;
    problem->time_limit_s = time_limit(m);
    FS_TRY(search_run(problem, c->arena, &c->err, &m->found));
    return lower(m, out);
}

static fs_status find_plan(making *m, cost_model *cost, plan **out)
{
    cli *c = m->c;
    hunt h = {.high = 1,
              .smallest = INT64_MAX,
              .deadline_ns =
                  fs_now_ns() + (int64_t)(1e9 * fmin(time_limit(m), 1e8))};
    FS_TRY(pose(m, cost, &h.problem));
    h.problem.memory_share = 1;
    fs_status status = c->args.overlap || c->args.no_sharing
                           ? hunt_rounds(m, &h, out)
                           : search_once(m, &h.problem, out);
    fs_progress("%s", "");
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
static fs_status write_plan(making *m, const cli_plan *p, plan *lowered,
                            const char *file)
{
    cli *c = m->c;
    m->origin.iteration_s = m->found.iteration_s;
    m->origin.micro_batches = lowered->micro_batches;
    lowered->digest = plan_digest_of(p->model.graph, lowered, &m->origin);
    plan_origin stored = m->origin;
    stored.model = cli_place_stored(c, file, stored.model);
    stored.cluster = cli_place_stored(c, file, stored.cluster);
    return plan_write(file, p->model.graph, lowered, &stored, m->cluster,
                      &c->err);
}

static fs_status prove_and_tell(making *m, cost_model *cost, plan *lowered)
{
    cli *c = m->c;
    cli_plan p = {.model = *chosen_model(m),
                  .cluster = m->cluster,
                  .cost = cost,
                  .plan = lowered};
    plan_report proof = {0};
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
    fill_json(m, &p, &sim);
    describe(m, &p, &sim, &proof);
    return FS_OK;
}

/* Said where the user's words still are: later all pins match. */
static fs_status check_pins(making *m)
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
static fs_status join_word(making *m, const char *key, const char *flag,
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
static fs_status take_words(making *m)
{
    const cli_args *a = &m->c->args;
    FS_TRY(join_word(m, "precision", a->precision, m->recipe.precision,
                     &m->origin.precision));
    return join_word(m, "recompute", a->recompute, m->recipe.recompute,
                     &m->origin.recompute);
}

static fs_status check_recipe(making *m)
{
    for (int32_t i = 0; i < m->n_models; i++)
        FS_TRY(search_recipe_check(&m->recipe, m->graphs[i].graph, &m->c->err));
    return FS_OK;
}

static fs_status make(making *m)
{
    cli *c = m->c;
    FS_TRY(cli_begin(c, m->origin.model, m->origin.cluster));
    FS_TRY(cli_cluster_open(c, c->args.cluster, &m->cluster));
    FS_TRY(search_recipe_complete(m->cluster, m->origin.batch, m->by_hand,
                                  &c->err, &m->recipe));
    FS_TRY(build_graphs(m));
    FS_TRY(check_recipe(m));
    FS_TRY(check_pins(m));
    if (m->models[0].notes.n)
        cli_say(c, "%s", m->models[0].notes.at);
    cost_model *cost = cost_model_create(m->cluster, c->arena);
    plan *lowered = NULL;
    fs_status status = find_plan(m, cost, &lowered);
    if (status == FS_NO) {
        json_object_set_new(c->result, "status", json_string(m->found.status));
        json_object_set_new(c->result, "engine", json_string(engine_of(m)));
    }
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

static void close_models(making *m)
{
    for (int32_t i = 0; i < m->n_models; i++)
        cli_model_close(&m->models[i]);
}

static fs_status make_quietly(making *m, const char *file)
{
    cli *c = m->c;
    plan *lowered = NULL;
    plan_report proof = {0};
    FS_TRY(search_recipe_complete(m->cluster, m->origin.batch, true, &c->err,
                                  &m->recipe));
    FS_TRY(take_words(m));
    FS_TRY(build_graphs(m));
    FS_TRY(check_recipe(m));
    cost_model *cost = cost_model_create(m->cluster, c->arena);
    FS_TRY(find_plan(m, cost, &lowered));
    cli_plan p = {.model = *chosen_model(m),
                  .cluster = m->cluster,
                  .cost = cost,
                  .plan = lowered};
    if (plan_check(p.model.graph, m->cluster, lowered, c->arena, &proof) !=
        FS_OK)
        return fs_fail(&c->err, FS_FAULT, "the plan is not sound: %s",
                       proof.findings[0].text);
    return write_plan(m, &p, lowered, file);
}

fs_status cli_plan_by_hand(cli *c, const plan_origin *origin,
                           const search_recipe *recipe, hw_cluster *cluster,
                           const char *file)
{
    making m = {.c = c,
                .recipe = *recipe,
                .by_hand = true,
                .origin = *origin,
                .cluster = cluster};
    fs_status status = make_quietly(&m, file);
    close_models(&m);
    return status;
}

fs_status cli_make_plan(cli *c, search_recipe recipe, bool by_hand)
{
    FS_TRY(check_args(c));
    FS_TRY(take_pins(c, &recipe));
    making m = {.c = c, .recipe = recipe, .by_hand = by_hand};
    m.origin = cli_origin(c, c->args.operands[0],
                          c->args.cluster ? c->args.cluster : "");
    FS_TRY(take_words(&m));
    fs_status status = make(&m);
    close_models(&m);
    return status;
}
