/* Level 0: configurations (stages, mesh, micro-batches) by best-first branch
 * and bound. Each becomes a cost network; the bound of one that was not solved
 * is what its tables alone allow, of one that was what the engine proved. The
 * smallest of all bounds is the certificate for the whole space. */
#include "config.h"
#include "search/crew.h"

#include "base/clock.h"
#include "plan/schedule.h"
#include "search/cfn.h"
#include "search/effort.h"
#include "search/planner.h"
#include "search/recipe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double search_seconds_since(int64_t start_ns)
{
    return 1e-9 * (double)(fs_now_ns() - start_ns);
}
/* ---- one candidate ---- */

/* The first ways in which a node may lie where nothing was asked for. */
static const char *list_ways(const ir_graph *graph, const ir_node *node,
                             const ir_mesh *mesh, fs_arena *arena)
{
    enum { FEW = 6 };
    ir_nd_sig_list all;
    fs_text text = {.arena = arena};
    ir_signatures(graph, node, mesh, arena, &all);
    for (int32_t k = 0; k < all.n && k < FEW; k++)
        fs_text_add(&text, "%s%s", k ? ", " : "",
                    ir_signature_text(node, &all.at[k], mesh->n, arena));
    if (all.n > FEW)
        fs_text_add(&text, ", .. (%d)", all.n);
    return text.at;
}

/* What was asked for and what the node's op can do have nothing in common. */
static void fail_empty(const search_candidate *c, fs_err *err)
{
    const ir_graph *graph = c->shown.graph;
    const int32_t v = c->built.empty;
    const ir_node *node = &graph->nodes.at[v];
    const ir_mesh *mesh = &c->shown.stages[c->shown.stage_of[v]].mesh;
    const int32_t t = node->n_out ? node->out[0] : node->in[0];
    char shape[160];
    fs_fail(err, FS_NO,
            "what was asked for leaves '%.80s' no signature: %s of %s can do "
            "%s on a mesh of %d ax%ss, %d ranks",
            node->name, ir_op_table[node->op]->name,
            ir_shape_text(shape, &graph->tensors.at[t].shape),
            list_ways(graph, node, mesh, c->arena), mesh->n,
            mesh->n == 1 ? "i" : "e", ir_mesh_size(mesh));
}

static void reject(search_candidate *c, const char *status, const char *why)
{
    c->record.status = status;
    c->record.lower_bound_s = INFINITY;
    c->settled = true;
    snprintf(c->why, sizeof c->why, "%s", why);
}

/* What is proven of the whole space so far; 0: nothing yet. */
static double bound_so_far(const search_level0 *z)
{
    double bound = z->best_s;
    for (int32_t k = 0; k < z->all.n; k++)
        bound = fmin(bound, search_bound(z->all.at[k]));
    return isfinite(bound) ? fmax(bound, 0) : 0;
}

/* "12.3 s: best 1.2 s, bound 1.1 s, gap 8.3 %; 2 stages of 4x2, .." */
static void say(const search_level0 *z, const search_candidate *c,
                const char *what)
{
    char spent[32], best[32], bound[32], mesh[64] = "", line[256];
    const double bound_s = bound_so_far(z);
    const bool any = isfinite(z->best_s), proof = any && bound_s > 0;
    size_t n = 0;
    if (!z->problem->progress)
        return;
    for (int32_t a = 0; a < c->mesh.n && n < sizeof mesh; a++)
        n += (size_t)snprintf(mesh + n, sizeof mesh - n, "%s%d", a ? "x" : "",
                              c->mesh.dim[a]);
    fs_human_seconds(spent, search_seconds_since(z->start_ns));
    fs_human_seconds(best, z->best_s);
    fs_human_seconds(bound, bound_s);
    n = (size_t)snprintf(line, sizeof line, "%s: best %s, bound %s", spent,
                         any ? best : "none yet",
                         bound_s > 0 ? bound : "none yet");
    if (proof)
        n += (size_t)snprintf(line + n, sizeof line - n, ", gap %.3g %%",
                              100 * fmax(0, 1 - bound_s / z->best_s));
    snprintf(line + n, sizeof line - n, "; %d x (%s), m %d %s", c->n_stages,
             mesh, c->graph->micro_batches, what);
    z->problem->progress(z->problem->progress_ctx, line);
}

/* Tables of the nodes. False: there is nothing to solve, or no time. */
static bool node_tables(search_level0 *z, search_candidate *c)
{
    fs_err err = {0};
    c->shown.end = z->end;
    if (!search_build_nodes(z->problem, &c->shown, c->arena, &c->built)) {
        c->settled = true; /* its bound stays as it is */
        return false;
    }
    c->steps += c->built.steps;
    if (c->built.empty >= 0) {
        fail_empty(c, &err);
        reject(c, "infeasible", err.text);
        return false;
    }
    return true;
}

static bool edge_tables(search_candidate *c)
{
    const int64_t before = c->built.steps;
    const bool good = search_build_edges(c->arena, &c->built);
    c->steps += c->built.steps - before;
    return good;
}

static void drop_tables(search_candidate *c)
{
    fs_arena_destroy(c->arena);
    c->arena = NULL;
    c->built = (search_built){0};
}

static void raise_bound(search_candidate *c, double bound_s)
{
    c->record.lower_bound_s = fmax(c->record.lower_bound_s, bound_s);
}

/* A bound that reaches this needs no further proof. */
static double enough(const search_level0 *z)
{
    return search_near(z->best_s, z->problem->gap);
}

/* Where its devices may differ there are no even stages. */
static bool may_be_even(const search_level0 *z)
{
    return !z->problem->stage_mesh && z->problem->cluster->n_groups == 1;
}

/* The prices of search_lay_out_even: of one stage of p. */
static search_prices even_prices(const search_level0 *z,
                                 const search_candidate *c, fs_arena *arena)
{
    search_prices even = search_prices_new(&c->built.net, arena);
    even.micro[0] = even.step[0] =
        1.0 / (c->n_stages / search_depth(z->problem));
    return even;
}

static double even_floor(const search_level0 *z, const search_candidate *c)
{
    const search_net *net = &c->built.net;
    const search_prices even = even_prices(z, c, c->arena);
    double floor = 0;
    for (int32_t i = 0; i < net->n_nodes; i++) {
        double least = INFINITY;
        for (int32_t s = 0; s < net->nodes[i].n; s++)
            least = fmin(least, net->nodes[i].cost[s]);
        floor += search_price_of(net, &even, 0, net->nodes[i].per_step) * least;
    }
    return floor;
}

void search_look(search_level0 *z, search_candidate *c)
{
    c->looked = true;
    if (!may_be_even(z))
        return;
    c->arena = fs_arena_create();
    search_lay_out_even(z, c, &c->shown);
    c->shown.seconds_only = true;
    if (node_tables(z, c))
        raise_bound(c, even_floor(z, c));
    drop_tables(c);
}

static double even_bound(const search_level0 *z, search_candidate *c)
{
    enum { SWEEPS = 20 };
    const search_prices even = even_prices(z, c, c->arena);
    const fs_deadline deadline = fs_deadline_at(z->end, &c->steps);
    search_effort effort = {deadline, SWEEPS, enough(z),
                            0,        false,  z->problem->without};
    search_minimum min;
    if (c->shown.view)
        return search_lift(&c->built, &even, INFINITY, enough(z), deadline);
    search_cfn_minimise(search_net_priced(&c->built.net, &even, c->arena),
                        &effort, c->arena, &min);
    return min.bound;
}

void search_weigh(search_level0 *z, search_candidate *c)
{
    c->weighed = true;
    if (!may_be_even(z))
        return;
    c->arena = fs_arena_create();
    search_lay_out_even(z, c, &c->shown);
    c->shown.seconds_only = true;
    if (node_tables(z, c) && edge_tables(c))
        raise_bound(c, even_bound(z, c));
    drop_tables(c);
    c->weighed_s = c->record.lower_bound_s;
    /* Once more, when more is wanted. */
    c->weighed = !search_proven(c->record.lower_bound_s, enough(z));
}

/* All tables; false as above. */
static bool prepare(search_level0 *z, search_candidate *c)
{
    fs_err err = {0};
    if (c->settled)
        return false;
    if (c->arena)
        return true;
    say(z, c, "tables");
    c->arena = fs_arena_create();
    if (search_lay_out(z, c, &err) != FS_OK) {
        reject(c, "infeasible", err.text);
        return false;
    }
    if (!node_tables(z, c))
        return false;
    raise_bound(c, search_net_floor(&c->built.loose, c->arena));
    if (!edge_tables(c)) {
        c->settled = true;
        return false;
    }
    return true;
}

/* Did memory make it infeasible? Then how much would do. */
static void explain_infeasible(search_candidate *c)
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

/* Layers that are equal do not fit. Does memory forbid all others too? If not,
 * the network is looked at unfolded. */
static void refuse_folded(search_level0 *z, search_candidate *c)
{
    const search_net *net = &c->built.net;
    const fs_deadline deadline = search_rest(z, c);
    for (int32_t k = 0; k < net->n_limits && c->share == 1; k++) {
        const double least = search_lift_bytes(&c->built, k, deadline);
        if (least <= (double)net->limit_bytes[k])
            continue;
        reject(c, "memory", "memory");
        c->need_bytes = (int64_t)least;
        z->memory_decides = true;
        return;
    }
    c->whole = true;
    c->tried = c->settled = false;
    drop_tables(c);
}

/* Tables of what is settled and not the best are not needed any more. */
static void release(const search_level0 *z, search_candidate *c)
{
    if (!c || c == z->best || !c->settled)
        return;
    fs_arena_destroy(c->arena);
    c->arena = NULL;
}

static bool proven(const search_level0 *z, const search_config *record)
{
    return search_proven(record->lower_bound_s, record->iteration_s) ||
           search_proven(record->lower_bound_s,
                         search_near(record->iteration_s, z->problem->gap));
}

static const char *status_of(const search_level0 *z,
                             const search_config *record)
{
    if (search_proven(record->lower_bound_s, record->iteration_s))
        return "optimal";
    if (proven(z, record))
        return "near";
    if (search_proven(record->lower_bound_s, enough(z)))
        return "pruned";
    return isfinite(record->iteration_s) ? "bounded" : "limit";
}

static void take(search_level0 *z, search_candidate *c,
                 const search_solution *solution)
{
    search_config *record = &c->record;
    search_candidate *old = z->best;
    c->memory_binds = solution->memory_binds;
    z->memory_decides |= solution->memory_binds;
    record->iteration_s = fmin(record->iteration_s, solution->cost);
    record->lower_bound_s =
        fmin(record->iteration_s,
             fmax(record->lower_bound_s, solution->lower_bound));
    record->status = status_of(z, record);
    search_offer_values(z, c, &c->built, solution);
    if (solution->cost < z->best_s) {
        z->best = c;
        z->best_s = solution->cost;
        z->value = fs_memdup(z->scratch, solution->value,
                             (size_t)c->built.net.n_nodes * sizeof *z->value);
        z->kernel_nodes = solution->kernel_nodes;
        release(z, old);
    }
}

enum { NARROW_ROUNDS = 6 };

/* What an engine is to say of the candidate's network, in `seconds` of work. */
static void pose(search_level0 *z, search_candidate *c, double seconds)
{
    search_asked *asked = fs_new(c->arena, search_asked, 1);
    asked->budget = (search_budget){search_attempt(z, c, seconds),
                                    enough(z),
                                    z->problem->gap,
                                    z->problem->reduce,
                                    z->problem->without,
                                    z->problem->rounds,
                                    NULL};
    if (search_narrowed(c) && !asked->budget.rounds)
        asked->budget.rounds = NARROW_ROUNDS; /* a plan; nothing to prove */
    asked->seconds = seconds;
    asked->left = search_attempt_left(z);
    asked->begun = c->steps;
    c->asked = asked;
    say(z, c, "..");
}

/* As much work for each part of the answer: one that was stopped leaves
 * nothing. */
static fs_deadline next_deadline(search_candidate *c)
{
    const search_asked *asked = c->asked;
    const double left = asked->left - (double)(c->steps - asked->begun);
    return fs_deadline_after(fmin(FS_STEPS_PER_S * asked->seconds, left),
                             &c->steps, asked->budget.deadline.end);
}

/* A bound that needs no further proof is enough, and one as near as that to the
 * candidate's own plan. */
static double lifted(search_candidate *c, const search_solution *found)
{
    const search_budget *budget = &c->asked->budget;
    return search_lift(
        &c->built, found->prices, found->lower_bound,
        fmin(search_near(found->cost, 0.25 * budget->gap), budget->cutoff),
        next_deadline(c));
}

/* Where only a plan below the bound to reach is of interest, most
 * configurations are proven to have none sooner than an engine finds their
 * best. Memory has a say, unless what is computed again is chosen in another.
 */
static bool pressed(search_level0 *z, search_candidate *c)
{
    search_asked *asked = c->asked;
    search_budget *budget = &asked->budget;
    const bool memory =
        c->built.net.n_limits > 0 && (c->again || !z->problem->again);
    if (!c->view || isinf(budget->cutoff) || budget->rounds || c->pressed ||
        (c->n_stages == 1 && !memory))
        return false;
    search_prices *prices = fs_new(c->arena, search_prices, 1);
    *prices = search_prices_new(&c->built.net, c->arena);
    const double bound_s = search_press(&c->built, memory, budget->cutoff,
                                        budget->deadline, prices);
    bool priced = false;
    for (int32_t k = 0; k < c->built.net.n_limits; k++)
        priced |= prices->bytes[k] > 0;
    if (priced)
        budget->prices = prices;
    c->pressed = true;
    raise_bound(c, bound_s);
    asked->status = FS_OK;
    asked->solution = (search_solution){.cost = INFINITY,
                                        .lower_bound = bound_s,
                                        .memory_binds = priced,
                                        .prices = prices};
    return search_proven(c->record.lower_bound_s, budget->cutoff);
}

/* A crew's job: asks. */
static void answer(search_level0 *z, search_candidate *c)
{
    search_asked *asked = c->asked;
    const int64_t start_ns = fs_now_ns();
    if (pressed(z, c)) {
        c->settled = c->solved = true;
        c->record.seconds += search_seconds_since(start_ns);
        return;
    }
    asked->budget.deadline = next_deadline(c);
    asked->status = search_engine_find(z->problem->engine)(
        &c->built.net, &asked->budget, c->arena, &asked->err, &asked->solution);
    c->settled = !asked->solution.open || asked->budget.rounds > 0;
    c->solved = true;
    if (asked->status == FS_OK && c->view)
        asked->solution.lower_bound = lifted(c, &asked->solution);
    c->record.seconds += search_seconds_since(start_ns);
}

/* A gap that folding leaves, where memory does not, is closed without. */
static void note_unfolding(const search_level0 *z, search_candidate *c)
{
    c->unfolds = c->view && c->settled && !z->problem->rounds &&
                 !c->memory_binds && !proven(z, &c->record) &&
                 !search_proven(c->record.lower_bound_s, enough(z));
    c->settled = c->settled && !c->unfolds;
}

/* What follows from an answer. */
static fs_status conclude(search_level0 *z, search_candidate *c, fs_err *err)
{
    const search_asked *asked = c->asked;
    const search_solution *solution = &asked->solution;
    if (asked->status == FS_OK) {
        take(z, c, solution);
        if (c->view && c->memory_binds && isfinite(solution->cost) &&
            !z->problem->rounds)
            search_splice(z, c, solution->prices);
        note_unfolding(z, c);
    } else if (asked->status != FS_NO) {
        return fs_fail(err, asked->status, "%s", asked->err.text);
    } else if (c->view) {
        refuse_folded(z, c);
    } else {
        explain_infeasible(c);
        z->memory_decides |= strcmp(c->record.status, "memory") == 0;
    }
    say(z, c, c->record.status);
    release(z, c);
    if (c->memory_binds || strcmp(c->record.status, "memory") == 0)
        search_ask_again(z, c);
    return FS_OK;
}

/* An attempt at its whole network. Its tables stay those of the folded one,
 * which may have the best plan, unless this has a better one. */
static fs_status solve_whole(search_level0 *z, search_candidate *c,
                             double seconds, fs_err *err)
{
    search_candidate *whole = fs_memdup(z->scratch, c, sizeof *c);
    whole->arena = NULL;
    whole->whole = true;
    whole->unfolds = false;
    const bool ready = prepare(z, whole);
    c->steps = whole->steps;
    if (!ready) {
        fs_arena_destroy(whole->arena);
        return FS_OK;
    }
    pose(z, whole, seconds);
    answer(z, whole);
    search_solution solution = whole->asked->solution;
    c->steps = whole->steps;
    if (whole->asked->status != FS_OK) { /* the folded one has a plan */
        fs_fail(err, FS_INVALID, "%s", whole->asked->err.text);
        fs_arena_destroy(whole->arena);
        return FS_INVALID;
    }
    if (solution.cost < z->best_s) {
        fs_arena_destroy(c->arena);
        *c = *whole;
        c->built.layout = &c->shown;
    } else {
        fs_arena_destroy(whole->arena);
        solution.cost = INFINITY;
    }
    c->settled = whole->settled;
    take(z, c, &solution);
    say(z, c, c->record.status);
    release(z, c);
    return FS_OK;
}

/* ---- all of them ---- */

static int by_bound(const void *a, const void *b)
{
    const search_candidate *x = *(search_candidate *const *)a,
                           *y = *(search_candidate *const *)b;
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
    if (x->again != y->again)
        return x->again - y->again;
    return strcmp(x->schedule ? x->schedule : "",
                  y->schedule ? y->schedule : "");
}

/* A gap that prices leave under a tight limit can cost GLPK minutes. Where the
 * limit binds, what is this near to the best is not tried for long. */
#define NEAR 1e-4
#define BINDING_EFFORT_S 3
enum { QUICK_PASSES = 2, BATCH = 16 };

static bool near_enough(const search_level0 *z, const search_candidate *c,
                        int32_t pass)
{
    return pass >= QUICK_PASSES && c->memory_binds &&
           c->record.lower_bound_s >= z->best_s * (1 - NEAR);
}

static bool worth(search_level0 *z, search_candidate *c, int32_t pass)
{
    if (c->settled ||
        (z->memory_decides ? search_round_over(z) : search_over(z)) ||
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

static double effort_of(const search_level0 *z, const search_candidate *c,
                        int32_t pass)
{
    if (z->problem->rounds)
        return INFINITY;
    double most_s = c->memory_binds ? BINDING_EFFORT_S : INFINITY;
    return fmin(effort_s[pass], most_s);
}

/* Attempts that are made at once, with the same bound to reach. */
enum { AT_ONCE = 2 };

static fs_status solve(search_level0 *z, search_candidate **list, int32_t n,
                       int32_t pass, fs_err *err)
{
    int32_t n_ready = 0;
    for (int32_t k = 0; k < n; k++)
        if (prepare(z, list[k]))
            list[n_ready++] = list[k];
    for (int32_t k = 0; k < n_ready; k++)
        pose(z, list[k], effort_of(z, list[k], pass));
    search_crew_run(z, answer, list, n_ready);
    for (int32_t k = 0; k < n_ready; k++)
        FS_TRY(conclude(z, list[k], err));
    return FS_OK;
}

/* The next one that is not solved yet, by bound. */
static search_candidate *least_bound(const search_level0 *z)
{
    search_candidate *least = NULL;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (!c->settled && !c->tried && (!least || by_bound(&c, &least) < 0))
            least = c;
    }
    return least;
}

/* Those that are to be weighed (or, `look`ing, looked at) by bound, as many as
 * one batch has: the same whatever the number of threads. */
static int32_t next_batch(search_level0 *z, bool looking,
                          search_candidate **batch)
{
    int32_t n = 0;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (c->settled || c->tried || (looking ? c->looked : c->weighed) ||
            search_proven(c->record.lower_bound_s, enough(z)))
            continue;
        batch[n++] = c;
    }
    qsort(batch, (size_t)n, sizeof(*batch), by_bound);
    return looking || n < BATCH ? n : BATCH;
}

static void run_batch(search_level0 *z, search_job *job, bool looking)
{
    fs_arena *scratch = fs_arena_create();
    search_candidate **batch = fs_new(scratch, search_candidate *, z->all.n);
    search_crew_run(z, job, batch, next_batch(z, looking, batch));
    fs_arena_destroy(scratch);
}

static bool ready(const search_candidate *c)
{
    return c->looked && c->weighed && c->schedule;
}

/* The next attempts: the least bounds of those that are ready. */
static int32_t next_attempts(search_level0 *z, search_candidate **list)
{
    int32_t n = 0;
    while (n < AT_ONCE) {
        search_candidate *least = NULL;
        for (int32_t k = 0; k < z->all.n; k++) {
            search_candidate *c = z->all.at[k];
            if (!c->settled && !c->tried && ready(c) &&
                (!least || by_bound(&c, &least) < 0))
                least = c;
        }
        if (!least)
            break;
        least->tried = true;
        if (worth(z, least, 0))
            list[n++] = least;
    }
    return n;
}

/* Each is looked at only as long as its bound is the least: from seconds of its
 * nodes, from its tables, by a first attempt. */
static fs_status first_pass(search_level0 *z, fs_err *err)
{
    search_candidate *c;
    while ((c = least_bound(z)) && !search_round_over(z)) {
        if (!worth(z, c, 0)) {
            c->tried = true;
        } else if (!c->looked) {
            say(z, c, "looked at");
            run_batch(z, search_look, true);
        } else if (!c->weighed) {
            say(z, c, "weighed");
            run_batch(z, search_weigh, false);
        } else if (!c->schedule) {
            search_tell_schedules_apart(z, c);
        } else {
            search_candidate *list[AT_ONCE];
            FS_TRY(solve(z, list, next_attempts(z, list), 0, err));
        }
    }
    return FS_OK;
}

/* Best bound first, in passes of growing effort: a configuration that is hard
 * to close is often pruned by an easier one. The bound is that of the first
 * round: later ones only look for plans that fit. */
fs_status search_explore(search_level0 *z, fs_err *err)
{
    double most_s = z->problem->effort_s > 0 ? z->problem->effort_s : 1e9;
    search_begin_round(z);
    for (int32_t k = 0; k < z->all.n; k++)
        z->all.at[k]->tried = false;
    for (int32_t e = 0; e < (int32_t)(sizeof effort_s / sizeof *effort_s);
         e++) {
        if (e && (effort_s[e - 1] >= most_s || (z->round && z->best)))
            break;
        if (e == 0)
            FS_TRY(first_pass(z, err));
        if (z->all.n)
            qsort(z->all.at, (size_t)z->all.n, sizeof *z->all.at, by_bound);
        if (e == 0 && z->round == 0)
            search_anchor_early(z);
        search_candidate *list[AT_ONCE];
        int32_t n = 0;
        for (int32_t k = 0; e > 0 && k < z->all.n; k++) {
            search_candidate *c = z->all.at[k];
            if (!worth(z, c, e))
                continue;
            if (c->unfolds) {
                FS_TRY(solve_whole(z, c, effort_of(z, c, e), err));
                continue;
            }
            list[n++] = c;
            if (n < AT_ONCE)
                continue;
            FS_TRY(solve(z, list, n, e, err));
            n = 0;
        }
        FS_TRY(solve(z, list, n, e, err));
    }
    return FS_OK;
}

static fs_status check_problem(const search_problem *p, fs_err *err)
{
    if (!search_engine_find(p->engine) && !search_planner_find(p->engine))
        return fs_fail(err, FS_INVALID, "unknown engine '%.40s' (%s)",
                       p->engine, search_way_names());
    if (p->start && !search_planner_find(p->start))
        return fs_fail(err, FS_INVALID, "unknown planner '%.40s'", p->start);
    if (!plan_schedule_find(p->schedule))
        return fs_fail(err, FS_INVALID, "unknown schedule '%.40s' (%s)",
                       p->schedule, plan_schedule_names());
    if (p->fix_stages < 0 || p->fix_mesh.n > IR_MAX_MESH ||
        p->max_mesh_axes < 1 || p->max_mesh_axes > IR_MAX_MESH)
        return fs_fail(err, FS_INVALID,
                       "stages are 1 or more, mesh axes 1 to %d", IR_MAX_MESH);
    return FS_OK;
}

/* The first plan is another's: the search is never worse. */
static void start_from(search_level0 *z)
{
    search_problem one = *z->problem;
    search_result found = {0};
    fs_err ignored = {0};
    if (!one.start)
        return;
    one.engine = one.start;
    one.start = NULL;
    one.ranking = NULL;
    one.fix_schedule = true;
    one.n_schedules = 0;
    const fs_end end = search_start_end(z, &one.most_steps);
    one.end = &end;
    const fs_status status = search_run(&one, z->arena, &ignored, &found);
    z->other_steps += found.steps;
    z->late |= found.late;
    if (status != FS_OK)
        return;
    search_keep(z, &(search_kept){.from = search_candidate_of(z, &found),
                                  .graph = found.graph,
                                  .strategy = found.strategy,
                                  .cost_s = found.iteration_s,
                                  .fits = true,
                                  .net_nodes = (int32_t)found.net_nodes,
                                  .net_edges = (int32_t)found.net_edges,
                                  .kernel_nodes = (int32_t)found.kernel_nodes});
    z->first_s = found.first_s;
    z->best_s = found.iteration_s;
}

fs_status search_run(const search_problem *problem, fs_arena *arena,
                     fs_err *err, search_result *out)
{
    FS_TRY(check_problem(problem, err));
    const search_planner *planner = search_planner_find(problem->engine);
    if (planner)
        return search_by_planner(planner, problem, arena, err, out);
    search_level0 z = {.problem = problem,
                       .arena = arena,
                       .engine = search_engine_find(problem->engine),
                       .scratch = fs_arena_create(),
                       .start_ns = fs_now_ns(),
                       .best_s = search_wanted(problem),
                       .lean_s = INFINITY};
    search_limit(&z);
    search_rates_for(&z, 1, 1);
    *out = (search_result){.status = "infeasible"};
    search_enumerate(&z);
    start_from(&z);
    fs_status status = search_explore_fitting(&z, err);
    z.proof_s = search_seconds_since(z.start_ns);
    if (status == FS_OK)
        search_more_plans(&z);
    if (status == FS_OK && z.kept.from)
        search_fill_best(&z, out);
    else if (status == FS_OK)
        status = search_fill_none(&z, err, out);
    out->steps = search_steps(&z);
    out->late = z.late || fs_end_reached(&z.end);
    for (int32_t k = 0; k < z.all.n; k++)
        fs_arena_destroy(z.all.at[k]->arena);
    search_crew_dismiss(&z);
    fs_arena_destroy(z.scratch);
    return status;
}
