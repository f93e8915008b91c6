/* Level 0: configurations (stages, mesh, micro-batches) by best-first branch
 * and bound. Each becomes a cost network; the bound of one that was not solved
 * is what its tables alone allow, of one that was what the engine proved. The
 * smallest of all bounds is the certificate for the whole space. */
#include "config.h"
#include "search/layout.h"

#include "base/clock.h"
#include "plan/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A configuration on its way. */
typedef struct candidate {
    const search_graph *graph;
    int32_t n_stages;
    ir_mesh mesh;
    search_layout layout;
    search_built built;
    fs_arena *arena; /* its tables */
    search_config record;
    bool memory_binds;  /* as the engine saw it */
    bool settled;       /* no further effort would change its record */
    double share;       /* of the limits that its network has, */
    double proven_s;    /* bound for the whole limits; 0: the record's */
    int64_t need_bytes; /* least memory, when that is what it lacks */
    char why[1024];     /* it is infeasible */
} candidate;

/* Configurations of equal p and m, or on cores enough for all, share the
 * boxing paths that were looked for. */
typedef struct rates_entry {
    int32_t n_stages, micro_batches;
    search_rates *rates;
} rates_entry;

/* The best plan that fits, with its network's figures. */
typedef struct kept_plan {
    candidate *from; /* NULL: none yet */
    plan_strategy *strategy;
    double cost_s;
    int32_t net_nodes, net_edges, kernel_nodes;
} kept_plan;

typedef struct level0 {
    const search_problem *problem;
    search_engine_fn *engine;
    fs_arena *arena; /* of the result */
    fs_arena *scratch;
    FS_VEC(rates_entry) rates;
    int64_t start_ns, deadline_ns;
    int64_t half_ns; /* of the round, when memory decides */
    bool memory_decides;
    FS_VEC(candidate *) all;
    candidate *best; /* NULL: none yet */
    double best_s;
    int32_t *value; /* of the best */
    int32_t kernel_nodes;
    kept_plan kept;
    int32_t n_anchored;   /* asked for any plan that fits */
    int32_t n_misfits;    /* plans that were found and did not fit */
    int64_t misfit_bytes; /* the smallest of their arenas, */
    int64_t misfit_limit; /* and what it was held against */
} level0;

static double seconds_since(int64_t start_ns)
{
    return 1e-9 * (double)(fs_now_ns() - start_ns);
}

/* ---- enumeration ---- */

static void add_candidate(level0 *z, const search_graph *graph,
                          int32_t n_stages, const ir_mesh *mesh)
{
    candidate *c = fs_new(z->scratch, candidate, 1);
    *c = (candidate){
        .graph = graph, .n_stages = n_stages, .mesh = *mesh, .share = 1};
    c->record = (search_config){.n_stages = n_stages,
                                .micro_batches = graph->micro_batches,
                                .mesh = *mesh,
                                .schedule = z->problem->schedule,
                                .status = "limit",
                                .iteration_s = INFINITY,
                                .lower_bound_s = 0};
    fs_push(z->scratch, &z->all, c);
}

/* All ordered factorisations of `devices` into at most `room` more axes. Both
 * orders count: an inner axis has other neighbours and other legal boxing. */
static void add_meshes(level0 *z, const search_graph *graph, int32_t n_stages,
                       int32_t devices, ir_mesh *mesh)
{
    const ir_mesh *fixed = &z->problem->fix_mesh;
    int32_t most = z->problem->max_mesh_axes;
    if (devices == 1) {
        if (fixed->n < 0 || search_same_mesh(fixed, mesh))
            add_candidate(z, graph, n_stages, mesh);
        return;
    }
    if (fixed->n > most)
        most = fixed->n;
    if (mesh->n >= most || mesh->n >= IR_MAX_MESH)
        return;
    int32_t axis = mesh->n++;
    for (int32_t d = devices; d >= 2; d--)
        if (devices % d == 0) {
            mesh->dim[axis] = d;
            add_meshes(z, graph, n_stages, devices / d, mesh);
        }
    mesh->dim[axis] = 0;
    mesh->n--;
}

static void enumerate(level0 *z)
{
    int32_t devices = z->problem->cluster->n_devices;
    for (int32_t g = 0; g < z->problem->n_graphs; g++)
        for (int32_t p = 1; p <= devices; p++) {
            if (devices % p ||
                (z->problem->fix_stages && p != z->problem->fix_stages))
                continue;
            ir_mesh mesh = {0};
            add_meshes(z, &z->problem->graphs[g], p, devices / p, &mesh);
        }
}

/* ---- one candidate ---- */

/* The first entry is that of what happens per step. */
static search_rates *rates_for(level0 *z, int32_t n_stages, int32_t m)
{
    const cost_model *cost = z->problem->cost;
    const cost_model *micro = cost_model_for(cost, n_stages, m, z->scratch);
    const search_rates *step = z->rates.n ? z->rates.at[0].rates : NULL;
    for (int32_t k = 0; k < z->rates.n; k++) {
        const rates_entry *known = &z->rates.at[k];
        if (micro == known->rates->cost[0] ||
            (known->n_stages == n_stages && known->micro_batches == m))
            return known->rates;
    }
    search_rates *rates = fs_new(z->scratch, search_rates, 1);
    plan_boxer *boxer = plan_boxer_create(cost_boxing(micro), z->scratch);
    *rates =
        (search_rates){{micro, cost}, {boxer, step ? step->boxer[1] : boxer}};
    rates_entry entry = {n_stages, m, rates};
    fs_push(z->scratch, &z->rates, entry);
    return rates;
}

static fs_status lay_out(level0 *z, candidate *c, fs_err *err)
{
    const search_problem *problem = z->problem;
    const ir_graph *graph = c->graph->graph;
    search_layout *layout = &c->layout;
    int32_t p = c->n_stages, size = ir_mesh_size(&c->mesh);
    *layout =
        (search_layout){.graph = graph,
                        .n_stages = p,
                        .stages = fs_new(c->arena, plan_stage, p),
                        .stage_of = fs_new(c->arena, int32_t, graph->nodes.n),
                        .schedule = problem->schedule,
                        .limit_bytes = fs_new(c->arena, int64_t, p),
                        .rates = rates_for(z, p, graph->micro_batches)};
    for (int32_t i = 0; i < p; i++) {
        layout->stages[i] = (plan_stage){c->mesh, i * size};
        layout->limit_bytes[i] =
            search_device_bytes(problem, &layout->stages[i]);
        if (c->share < 1)
            layout->limit_bytes[i] =
                (int64_t)(c->share * (double)layout->limit_bytes[i]);
    }
    return search_cut(problem, graph, p, err, layout->stage_of);
}

static void reject(candidate *c, const char *status, const char *why)
{
    c->record.status = status;
    c->record.lower_bound_s = INFINITY;
    c->settled = true;
    snprintf(c->why, sizeof c->why, "%s", why);
}

/* Tables of the nodes, and a bound from them. */
static void prepare(level0 *z, candidate *c)
{
    fs_err err = {0};
    if (c->arena || c->settled)
        return;
    c->arena = fs_arena_create();
    if (lay_out(z, c, &err) != FS_OK) {
        reject(c, "infeasible", err.text);
        return;
    }
    c->layout.deadline_ns = z->deadline_ns;
    if (!search_build_nodes(z->problem, &c->layout, c->arena, &c->built)) {
        c->settled = true; /* its bound stays 0 */
        return;
    }
    if (c->built.empty >= 0) {
        const ir_node *node = &c->graph->graph->nodes.at[c->built.empty];
        fs_fail(&err, FS_NO, "what was asked for leaves '%s' no signature",
                node->name);
        reject(c, "infeasible", err.text);
        return;
    }
    c->record.lower_bound_s = fmax(c->record.lower_bound_s,
                                   search_net_floor(&c->built.net, c->arena));
}

static void say(const level0 *z, const candidate *c)
{
    char line[160], mesh[64] = "", best[32], bound[32];
    size_t n = 0;
    if (!z->problem->progress)
        return;
    for (int32_t a = 0; a < c->mesh.n && n < sizeof mesh; a++)
        n += (size_t)snprintf(mesh + n, sizeof mesh - n, "%s%d", a ? "x" : "",
                              c->mesh.dim[a]);
    snprintf(line, sizeof line,
             "%d stages of (%s), %d micro-batches: %s, "
             "bound %s, best %s",
             c->n_stages, mesh, c->graph->micro_batches, c->record.status,
             fs_human_seconds(bound, c->record.lower_bound_s),
             fs_human_seconds(best, z->best_s));
    z->problem->progress(z->problem->progress_ctx, line);
}

/* Did memory make it infeasible? Then how much would do. */
static void explain_infeasible(candidate *c)
{
    const search_net *net = &c->built.net;
    int64_t need = 0, limit = INT64_MAX;
    if (c->share < 1) {
        reject(c, "memory", "memory");
        return;
    }
    for (int32_t k = 0; k < net->n_limits; k++) {
        int64_t least = search_net_least_bytes(net, k);
        need = least > need ? least : need;
        if (net->limit_bytes[k] < limit)
            limit = net->limit_bytes[k];
    }
    if (need == INT64_MAX || net->n_limits == 0) {
        reject(c, "infeasible", "no legal combination of signatures fits");
        return;
    }
    reject(c, "memory", "memory");
    /* No single limit is too small for all: every plan exceeds one of them. */
    c->need_bytes = need > limit ? need : limit + 1;
}

/* Tables of what is settled and not the best are not needed any more. */
static void release(const level0 *z, candidate *c)
{
    if (!c || c == z->best || !c->settled)
        return;
    fs_arena_destroy(c->arena);
    c->arena = NULL;
}

/* A bound that reaches this needs no further proof. */
static double enough(const level0 *z)
{
    return search_near(z->best_s, z->problem->gap);
}

static bool proven(const level0 *z, const search_config *record)
{
    return search_proven(record->lower_bound_s, record->iteration_s) ||
           search_proven(record->lower_bound_s,
                         search_near(record->iteration_s, z->problem->gap));
}

static const char *status_of(const level0 *z, const search_config *record)
{
    if (search_proven(record->lower_bound_s, record->iteration_s))
        return "optimal";
    if (proven(z, record))
        return "near";
    if (search_proven(record->lower_bound_s, enough(z)))
        return "pruned";
    return isfinite(record->iteration_s) ? "bounded" : "limit";
}

static void take(level0 *z, candidate *c, const search_solution *solution)
{
    search_config *record = &c->record;
    candidate *old = z->best;
    c->memory_binds = solution->memory_binds;
    z->memory_decides |= solution->memory_binds;
    record->iteration_s = fmin(record->iteration_s, solution->cost);
    record->lower_bound_s =
        fmin(record->iteration_s,
             fmax(record->lower_bound_s, solution->lower_bound));
    record->status = status_of(z, record);
    if (solution->cost < z->best_s) {
        z->best = c;
        z->best_s = solution->cost;
        z->value = solution->value;
        z->kernel_nodes = solution->kernel_nodes;
        release(z, old);
    }
}

/* Plans that do not fit want further rounds, which want time. */
static int64_t round_end(const level0 *z)
{
    return z->memory_decides ? z->half_ns : z->deadline_ns;
}

/* One attempt of `seconds`. An engine that ends before that has said all. */
static fs_status solve(level0 *z, candidate *c, double seconds, fs_err *err)
{
    double left = 1e-9 * (double)(round_end(z) - fs_now_ns());
    search_budget budget = {fmax(fmin(seconds, left), 0.001), enough(z),
                            z->problem->gap, z->problem->reduce};
    search_solution solution = {0};
    fs_err mine = {0};
    int64_t start_ns = fs_now_ns();
    if (!c->built.net.edges && !search_build_edges(c->arena, &c->built)) {
        c->settled = true;
        return FS_OK;
    }
    fs_status status =
        z->engine(&c->built.net, &budget, z->scratch, &mine, &solution);
    double took = seconds_since(start_ns);
    c->settled = took < 0.9 * budget.seconds;
    c->record.seconds += took;
    if (status == FS_OK)
        take(z, c, &solution);
    else if (status == FS_NO) {
        explain_infeasible(c);
        z->memory_decides |= strcmp(c->record.status, "memory") == 0;
    } else
        return fs_fail(err, status, "%s", mine.text);
    say(z, c);
    release(z, c);
    return FS_OK;
}

/* ---- all of them ---- */

static int by_bound(const void *a, const void *b)
{
    const candidate *x = *(candidate *const *)a, *y = *(candidate *const *)b;
    double dx = x->record.lower_bound_s, dy = y->record.lower_bound_s;
    if (dx < dy || dx > dy)
        return dx < dy ? -1 : 1;
    if (x->n_stages != y->n_stages)
        return x->n_stages - y->n_stages;
    if (x->record.micro_batches != y->record.micro_batches)
        return x->record.micro_batches - y->record.micro_batches;
    for (int32_t k = 0; k < IR_MAX_MESH; k++)
        if (x->mesh.dim[k] != y->mesh.dim[k])
            return y->mesh.dim[k] - x->mesh.dim[k];
    return 0;
}

/* A gap that prices leave under a tight limit can cost GLPK minutes. Where the
 * limit binds, what is this near to the best is not tried for long. */
#define NEAR 1e-4
#define BINDING_EFFORT_S 3
enum { QUICK_PASSES = 2 };

static bool near_enough(const level0 *z, const candidate *c, int32_t pass)
{
    return pass >= QUICK_PASSES && c->memory_binds &&
           c->record.lower_bound_s >= z->best_s * (1 - NEAR);
}

static bool worth(level0 *z, candidate *c, int32_t pass)
{
    if (c->settled || fs_now_ns() >= round_end(z) || !c->arena ||
        near_enough(z, c, pass) || (pass > QUICK_PASSES && c->memory_binds))
        return false;
    if (!search_proven(c->record.lower_bound_s, enough(z)))
        return !proven(z, &c->record);
    c->record.status = status_of(z, &c->record);
    c->settled = true;
    release(z, c);
    return false;
}

static const double effort_s[] = {0.25, 2, 15, 1e9};

static double effort_of(const candidate *c, int32_t pass)
{
    double most_s = c->memory_binds ? BINDING_EFFORT_S : INFINITY;
    return fmin(effort_s[pass], most_s);
}

/* Best bound first, in passes of growing effort: a configuration that is hard
 * to close is often pruned by an easier one. The bound is that of the first
 * round: later ones only look for plans that fit. */
static fs_status explore(level0 *z, fs_err *err)
{
    double most_s = z->problem->effort_s > 0 ? z->problem->effort_s : 1e9;
    int64_t now_ns = fs_now_ns();
    int64_t half_ns = now_ns + (z->deadline_ns - now_ns) / 2;
    z->half_ns = half_ns;
    for (int32_t e = 0; e < (int32_t)(sizeof effort_s / sizeof *effort_s);
         e++) {
        if (e && (effort_s[e - 1] >= most_s || (z->n_misfits && z->best)))
            break;
        for (int32_t k = 0; k < z->all.n; k++)
            if (fs_now_ns() < (e ? round_end(z) : half_ns))
                prepare(z, z->all.at[k]);
        if (z->all.n)
            qsort(z->all.at, (size_t)z->all.n, sizeof *z->all.at, by_bound);
        for (int32_t k = 0; k < z->all.n; k++)
            if (worth(z, z->all.at[k], e))
                FS_TRY(solve(z, z->all.at[k], effort_of(z->all.at[k], e), err));
    }
    return FS_OK;
}

/* ---- plans that fit ---- */

/* The network binds a lower bound of what a lowered plan allocates, so that a
 * bound of the whole search is one for all plans that fit. The plan found may
 * still be too large: then its configuration gets less than its limits, at
 * levels that do not depend on them (powers of LEVEL), until a plan fits. */
#define LEVEL 1.03
enum { FIT_ROUNDS = 16 };

static bool narrowed(const candidate *c)
{
    return c->proven_s > 0;
}

static bool still_open(const level0 *z, const candidate *c)
{
    return !narrowed(c) || !z->kept.from ||
           c->proven_s < search_near(z->kept.cost_s, z->problem->gap);
}

static void note_misfit(level0 *z, const candidate *c, const int64_t *limit,
                        const int64_t *bytes)
{
    int64_t most = 0, had = 0;
    for (int32_t i = 0; i < c->n_stages; i++)
        if (bytes[i] > limit[i] && bytes[i] > most) {
            most = bytes[i];
            had = limit[i];
        }
    if (z->n_misfits++ && most >= z->misfit_bytes)
        return;
    z->misfit_bytes = most;
    z->misfit_limit = had;
}

static void stage_limits(const level0 *z, const search_layout *layout,
                         int64_t *limit)
{
    for (int32_t i = 0; i < layout->n_stages; i++)
        limit[i] = search_device_bytes(z->problem, &layout->stages[i]);
}

static void keep(level0 *z, candidate *c, plan_strategy *strategy,
                 double cost_s, int32_t kernel_nodes)
{
    const search_net *net = &c->built.net;
    if (!z->kept.from || cost_s < z->kept.cost_s)
        z->kept = (kept_plan){
            c, strategy, cost_s, net->n_nodes, net->n_edges, kernel_nodes};
}

/* The highest level below `share` of a configuration's limits, as a share. */
static double level_below(const int64_t *limit, double share)
{
    double level = floor(log(share * (double)limit[0]) / log(LEVEL) - 1e-6);
    return pow(LEVEL, level) / (double)limit[0];
}

/* Keeps the best plan, or narrows its configuration. */
static bool judge(level0 *z)
{
    candidate *c = z->best;
    int64_t *limit = fs_new(z->scratch, int64_t, c->n_stages);
    int64_t *bytes = fs_new(z->scratch, int64_t, c->n_stages);
    plan_strategy *strategy =
        search_strategy(z->problem, &c->built, z->value, z->arena);
    stage_limits(z, &c->layout, limit);
    if (search_fits(z->problem, c->graph->graph, strategy, limit, bytes)) {
        keep(z, c, strategy, z->best_s, z->kernel_nodes);
        return true;
    }
    note_misfit(z, c, limit, bytes);
    double taken =
        search_share_taken(z->problem, c->graph->graph, strategy, limit, bytes);
    if (!narrowed(c))
        c->proven_s = c->record.lower_bound_s;
    c->share = level_below(limit, fmin(c->share, taken));
    return false;
}

/* Looks at a configuration anew, with the tables of its share. After a misfit
 * the others' plans count again, which were worse. */
static void reopen(level0 *z, candidate *c, bool misfit)
{
    bool anew = narrowed(c);
    if (!anew && (!misfit || isinf(c->record.lower_bound_s)))
        return;
    if (anew) {
        c->record.lower_bound_s = c->proven_s;
        fs_arena_destroy(c->arena);
        c->arena = NULL;
    }
    c->settled = anew && !still_open(z, c);
    c->record.iteration_s = INFINITY;
    c->record.status = "limit";
}

static fs_status next_round(level0 *z, bool misfit, fs_err *err)
{
    z->best = NULL;
    z->best_s = z->kept.from ? z->kept.cost_s : INFINITY;
    for (int32_t k = 0; k < z->all.n; k++)
        reopen(z, z->all.at[k], misfit);
    return explore(z, err);
}

/* Keeps the cheapest of the plans that fits, or none. */
static void keep_lean(level0 *z, candidate *c, const search_built *built,
                      const search_lean *lean)
{
    int64_t *limit = fs_new(z->scratch, int64_t, c->n_stages);
    int64_t *bytes = fs_new(z->scratch, int64_t, c->n_stages);
    stage_limits(z, built->layout, limit);
    for (int32_t k = 0; k < lean->plans.n; k++) {
        const search_lean_plan *lean_plan = &lean->plans.at[k];
        if (z->kept.from && lean_plan->cost >= z->kept.cost_s)
            return;
        if (lean_plan->bytes > limit[0])
            continue;
        plan_strategy *strategy =
            search_strategy(z->problem, built, lean_plan->value, z->arena);
        if (search_fits(z->problem, c->graph->graph, strategy, limit, bytes)) {
            keep(z, c, strategy, lean_plan->cost, built->net.n_nodes);
            z->kept.net_nodes = built->net.n_nodes;
            z->kept.net_edges = built->net.n_edges;
            return;
        }
        note_misfit(z, c, limit, bytes);
    }
}

/* Plans of its own tables, which bind every moment, whatever the limit. */
static void anchor_one(level0 *z, candidate *c)
{
    candidate anew = {.graph = c->graph,
                      .n_stages = c->n_stages,
                      .mesh = c->mesh,
                      .arena = fs_arena_create()};
    search_layout *layout = &anew.layout;
    search_built built;
    search_lean lean;
    fs_err err = {0};
    bool good = lay_out(z, &anew, &err) == FS_OK;
    layout->deadline_ns = z->deadline_ns;
    for (int32_t i = 0; good && i < c->n_stages; i++)
        layout->limit_bytes[i] = 0;
    if (good && search_build_nodes(z->problem, layout, anew.arena, &built) &&
        built.empty < 0 && search_build_edges(anew.arena, &built)) {
        z->n_anchored++;
        search_lean_plans(&built.net, z->deadline_ns, anew.arena, &lean);
        keep_lean(z, c, &built, &lean);
    }
    fs_arena_destroy(anew.arena);
}

/* The best plan did not fit, or there is none: before better ones are looked
 * for, each open configuration is asked for plans that fit. What it is asked
 * depends neither on the limit nor on time, so that what is found under one
 * limit is found under every larger one. */
static void anchor(level0 *z)
{
    for (int32_t k = 0; k < z->all.n; k++) {
        candidate *c = z->all.at[k];
        double bound_s = narrowed(c) ? c->proven_s : c->record.lower_bound_s;
        if (fs_now_ns() >= z->deadline_ns)
            break;
        if (isfinite(bound_s) && !(z->kept.from && bound_s >= z->kept.cost_s))
            anchor_one(z, c);
    }
}

static fs_status explore_fitting(level0 *z, fs_err *err)
{
    FS_TRY(explore(z, err));
    for (int32_t round = 0; round < FIT_ROUNDS; round++) {
        bool misfit = z->best && !judge(z);
        if (round == 0 && !z->kept.from)
            anchor(z);
        if (!misfit || fs_now_ns() >= z->deadline_ns)
            return FS_OK;
        FS_TRY(next_round(z, misfit, err));
    }
    if (z->best)
        judge(z);
    return FS_OK;
}

/* ---- the result ---- */

static const char *space_of(const level0 *z)
{
    const search_problem *p = z->problem;
    fs_text counts = {.arena = z->arena};
    for (int32_t g = 0; g < p->n_graphs; g++)
        fs_text_add(&counts, "%s%d", g ? ", " : "", p->graphs[g].micro_batches);
    const char *misfits = "";
    if (z->n_misfits)
        misfits = fs_printf(z->arena, "; %d plans were found that do not fit",
                            z->n_misfits);
    return fs_printf(
        z->arena,
        "%d configurations: stages dividing %d devices, each stage a mesh of "
        "up to %d axes, micro-batch counts %s, schedule %s, one balanced cut "
        "per number of stages; within each every combination of legal "
        "signatures without P(max) and P(min)%s, boxing by cheapest paths; "
        "among them all whose lowered plan fits memory%s",
        z->all.n, p->cluster->n_devices, p->max_mesh_axes,
        counts.n ? counts.at : "none", p->schedule,
        p->filter.allow ? " that the filter allows" : "", misfits);
}

/* Engines are not trusted: the claim is computed afresh from the strategy. */
static void verify(level0 *z, search_result *out)
{
    candidate *c = z->kept.from;
    cost_summary summary;
    fs_err err = {0};
    fs_arena *scratch = fs_arena_create();
    FS_ASSERT(cost_strategy(z->problem->cost, out->graph, out->strategy,
                            scratch, &err, &summary) == FS_OK);
    FS_ASSERT(fabs(summary.iteration_s - z->kept.cost_s) <=
              SEARCH_TOLERANCE * z->kept.cost_s);
    for (int32_t i = 0; i < c->n_stages; i++) {
        FS_ASSERT(summary.peak_bytes[i] <=
                  search_device_bytes(z->problem, &out->strategy->stages[i]));
        if (summary.peak_bytes[i] > c->record.peak_bytes)
            c->record.peak_bytes = summary.peak_bytes[i];
    }
    out->iteration_s = summary.iteration_s;
    c->record.iteration_s = summary.iteration_s;
    fs_arena_destroy(scratch);
}

static void fill_configs(level0 *z, search_result *out)
{
    double bound = z->kept.from ? z->kept.cost_s : INFINITY;
    out->n_configs = z->all.n;
    out->configs = fs_new(z->arena, search_config, z->all.n);
    for (int32_t k = 0; k < z->all.n; k++) {
        const candidate *c = z->all.at[k];
        search_config *record = &out->configs[k];
        *record = c->record;
        record->schedule = fs_strdup(z->arena, z->problem->schedule);
        if (narrowed(c)) {
            record->lower_bound_s = c->proven_s;
            record->status =
                isfinite(record->iteration_s) ? "bounded" : "misfit";
        }
        bound = fmin(bound, record->lower_bound_s);
    }
    out->lower_bound_s = bound;
    out->anchored = z->n_anchored;
    out->space = space_of(z);
    out->search_s = seconds_since(z->start_ns);
}

static void fill_best(level0 *z, search_result *out)
{
    out->graph = z->kept.from->graph->graph;
    out->strategy = z->kept.strategy;
    verify(z, out);
    out->net_nodes = z->kept.net_nodes;
    out->net_edges = z->kept.net_edges;
    out->kernel_nodes = z->kept.kernel_nodes;
    fill_configs(z, out);
    out->gap =
        fmax(0, (out->iteration_s - out->lower_bound_s) / out->iteration_s);
    out->status = search_proven(out->lower_bound_s, out->iteration_s)
                      ? "optimal"
                      : "feasible";
}

/* What is known all the same. */
static fs_status ran_out(const level0 *z, fs_err *err, search_result *out)
{
    char bound[32], had[32], wanted[32];
    const char *misfits = "";
    int32_t open = 0;
    for (int32_t k = 0; k < z->all.n; k++)
        open += isfinite(z->all.at[k]->record.lower_bound_s);
    if (z->n_misfits)
        misfits = fs_printf(
            z->arena, "; the smallest of %d plans looked at takes %s of %s",
            z->n_misfits, fs_human_bytes(wanted, (double)z->misfit_bytes),
            fs_human_bytes(had, (double)z->misfit_limit));
    out->status = "limit";
    return fs_fail(
        err, FS_NO,
        "time ran out after %.2g s before a plan that fits was found, "
        "which is no proof that there is none: %d of %d "
        "configurations are open, none below %s%s; allow more time",
        seconds_since(z->start_ns), open, z->all.n,
        fs_human_seconds(bound, out->lower_bound_s), misfits);
}

/* Nothing was found: because there is nothing, or because time ran out. */
static fs_status fill_none(level0 *z, fs_err *err, search_result *out)
{
    int64_t need = INT64_MAX;
    const candidate *limit = NULL;
    char wanted[32], had[32];
    bool late = fs_now_ns() >= z->deadline_ns;
    fill_configs(z, out);
    out->iteration_s = INFINITY;
    out->gap = INFINITY;
    out->status = "infeasible";
    for (int32_t k = 0; k < z->all.n; k++) {
        const candidate *c = z->all.at[k];
        if (isfinite(c->record.lower_bound_s))
            limit = c;
        if (c->need_bytes > 0 && c->need_bytes < need)
            need = c->need_bytes;
    }
    if (z->all.n == 0)
        return fs_fail(err, FS_NO,
                       "no configuration has the asked stages and mesh on %d "
                       "devices",
                       z->problem->cluster->n_devices);
    if (limit && (late || z->n_misfits == 0))
        return ran_out(z, err, out);
    if (z->n_misfits)
        return fs_fail(
            err, FS_NO,
            "memory: no plan was found that keeps within %s per device; the "
            "smallest of %d takes %s; more devices, a smaller batch or more "
            "time would help",
            fs_human_bytes(had, (double)z->misfit_limit), z->n_misfits,
            fs_human_bytes(wanted, (double)z->misfit_bytes));
    if (need == INT64_MAX)
        return fs_fail(err, FS_NO, "%s", z->all.at[0]->why);
    plan_stage all = {.mesh = {1, {z->problem->cluster->n_devices}}};
    return fs_fail(
        err, FS_NO,
        "memory: every plan needs at least %s per device, a device has %s; "
        "more devices or a smaller batch would help",
        fs_human_bytes(wanted, (double)need),
        fs_human_bytes(had, (double)search_device_bytes(z->problem, &all)));
}

static fs_status check_problem(const search_problem *p, fs_err *err)
{
    if (!search_engine_find(p->engine))
        return fs_fail(err, FS_INVALID, "unknown engine '%.40s' (%s)",
                       p->engine, search_engine_names());
    if (!plan_schedule_find(p->schedule))
        return fs_fail(err, FS_INVALID, "unknown schedule '%.40s' (%s)",
                       p->schedule, plan_schedule_names());
    if (p->fix_stages < 0 || p->fix_mesh.n > IR_MAX_MESH ||
        p->max_mesh_axes < 1 || p->max_mesh_axes > IR_MAX_MESH)
        return fs_fail(err, FS_INVALID,
                       "stages are 1 or more, mesh axes 1 to %d", IR_MAX_MESH);
    return FS_OK;
}

fs_status search_run(const search_problem *problem, fs_arena *arena,
                     fs_err *err, search_result *out)
{
    FS_TRY(check_problem(problem, err));
    level0 z = {.problem = problem,
                .arena = arena,
                .engine = search_engine_find(problem->engine),
                .scratch = fs_arena_create(),
                .start_ns = fs_now_ns(),
                .best_s = INFINITY};
    double limit = problem->time_limit_s > 0 ? problem->time_limit_s : 1e8;
    z.deadline_ns = z.start_ns + (int64_t)(fmin(limit, 1e8) * 1e9);
    rates_for(&z, 1, 1);
    *out = (search_result){.status = "infeasible"};
    enumerate(&z);
    fs_status status = explore_fitting(&z, err);
    if (status == FS_OK && z.kept.from)
        fill_best(&z, out);
    else if (status == FS_OK)
        status = fill_none(&z, err, out);
    for (int32_t k = 0; k < z.all.n; k++)
        fs_arena_destroy(z.all.at[k]->arena);
    fs_arena_destroy(z.scratch);
    return status;
}
