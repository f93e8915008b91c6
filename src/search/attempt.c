/* One configuration: its bounds, its tables, attempts to solve it (attempt.h).
 */
#include "config.h"
#include "search/attempt.h"

#include "base/clock.h"
#include "search/built.h"
#include "search/crew.h"
#include "search/effort.h"
#include "search/lay_out.h"
#include "search/narrow.h"
#include "search/offers.h"
#include "search/engine/prices.h"
#include "search/cuts/recut.h"
#include "search/space.h"
#include "search/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- tables ---- */

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

void search_reject(search_candidate *c, const char *status, const char *why)
{
    c->record.status = status;
    c->record.lower_bound_s = INFINITY;
    c->settled = true;
    snprintf(c->why, sizeof c->why, "%s", why);
}
/* Tables of the nodes. False: there is nothing to solve, or no time. */
bool search_node_tables(search_level0 *z, search_candidate *c)
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
        search_reject(c, "infeasible", err.text);
        return false;
    }
    return true;
}

bool search_edge_tables(search_candidate *c)
{
    const int64_t before = c->built.steps;
    const bool good = search_build_edges(c->arena, &c->built);
    c->steps += c->built.steps - before;
    return good;
}

void search_drop_tables(search_candidate *c)
{
    fs_arena_destroy(c->arena);
    c->arena = NULL;
    c->prices = NULL;
    c->reached = NULL;
    c->reached_s = 0;
    c->reached_by_engine = false;
    c->built = (search_built){0};
}

void search_raise_bound(search_candidate *c, double bound_s)
{
    c->record.lower_bound_s = fmax(c->record.lower_bound_s, bound_s);
}

/* A bound that reaches this needs no further proof. */
double search_enough(const search_level0 *z)
{
    return search_near(z->best_s, z->problem->gap);
}

/* Does the least of each table say that no more of it is of use? */
static bool is_out(search_level0 *z, search_candidate *c)
{
    search_raise_bound(c, search_net_floor(&c->built.loose, c->arena));
    if (c->whole || c->sought || search_narrowed(c) ||
        isinf(c->record.lower_bound_s) ||
        !search_proven(c->record.lower_bound_s, search_enough(z)))
        return false;
    c->record.status = search_status_of(z, &c->record);
    c->settled = true;
    search_drop_tables(c);
    return true;
}

/* Its layout, which is the search's; false: nothing is to be built. */
static bool lay_out_whole(search_level0 *z, search_candidate *c)
{
    fs_err err = {0};
    if (c->settled || c->arena)
        return false;
    search_say(z, c, "tables");
    c->arena = fs_arena_create();
    const bool good = search_lay_out(z, c, &err) == FS_OK;
    c->shown.tables = good ? search_take_tables(z, c) : NULL;
    if (!good)
        search_reject(c, "infeasible", err.text);
    else if (c->shown.memory) /* which others share, and hands read */
        cost_memory_most_all(c->shown.memory);
    return good;
}

/* All tables of one that is laid out, as long as they are of use: a crew's job,
 * by this hand's model. */
static void build_whole(search_level0 *z, search_candidate *c)
{
    if (!search_own_nodes(z, c) || is_out(z, c))
        return;
    if (!search_edge_tables(c))
        c->settled = true;
    else
        is_out(z, c);
}

int32_t search_prepare(search_level0 *z, search_candidate **list, int32_t n)
{
    fs_arena *scratch = fs_arena_create();
    search_candidate **laid = fs_new(scratch, search_candidate *, n);
    int32_t n_laid = 0, n_ready = 0;
    for (int32_t k = 0; k < n; k++)
        if (lay_out_whole(z, list[k]))
            laid[n_laid++] = list[k];
    search_crew_run(z, build_whole, laid, n_laid);
    /* From here on they are the search's again. */
    for (int32_t k = 0; k < n_laid; k++) {
        laid[k]->shown.rates = laid[k]->layout.rates;
        search_put_back_tables(z, laid[k]->shown.tables);
        laid[k]->shown.tables = NULL;
    }
    for (int32_t k = 0; k < n; k++)
        if (!list[k]->settled)
            list[n_ready++] = list[k];
    fs_arena_destroy(scratch);
    return n_ready;
}

/* Did memory make it infeasible? Then how much would do. */
static void explain_infeasible(search_candidate *c)
{
    const search_net *net = &c->built.net;
    int64_t need = 0, limit = INT64_MAX;
    if (c->share < 1) {
        search_reject(c, "memory", "memory");
        return;
    }
    for (int32_t k = 0; k < net->n_limits; k++) {
        int64_t least = search_net_least_bytes(net, k);
        need = least > need ? least : need;
        if (net->limit_bytes[k] < limit)
            limit = net->limit_bytes[k];
    }
    if (need == INT64_MAX || net->n_limits == 0) {
        search_reject(c, "infeasible",
                      "no legal combination of signatures fits");
        return;
    }
    search_reject(c, "memory", "memory");
    /* No single limit is too small for all: every plan exceeds one of them. */
    c->need_bytes = need > limit ? need : limit + 1;
}

/* Layers that are equal do not fit. Does memory forbid all others too? */
static double forbidden(const search_candidate *c, fs_deadline deadline)
{
    const search_net *net = &c->built.net;
    for (int32_t k = 0; k < net->n_limits && c->share == 1; k++) {
        const double least = search_lift_bytes(&c->built, k, deadline);
        if (least > (double)net->limit_bytes[k])
            return least;
    }
    return 0;
}

/* If not, the network is looked at unfolded. */
static void refuse_folded(search_level0 *z, search_candidate *c)
{
    if (c->asked->forbidden > 0) {
        search_reject(c, "memory", "memory");
        c->need_bytes = (int64_t)c->asked->forbidden;
        z->memory_decides = true;
        return;
    }
    if (z->problem->outgrown) {
        search_outgrow(z->problem);
        return;
    }
    c->whole = true;
    c->tried = c->settled = c->too_small = false;
    search_drop_tables(c);
}

/* Tables of what is settled and not the best are not needed any more. Of two
 * that answered at once the first may take the place of the second as the best,
 * whose answer lies in its own. */
void search_release(const search_level0 *z, search_candidate *c)
{
    if (!c || c == z->best || !c->settled || c->answered)
        return;
    fs_arena_destroy(c->arena);
    c->arena = NULL;
    c->prices = NULL;
    c->reached = NULL;
    c->reached_s = 0;
    c->reached_by_engine = false;
}

bool search_closed(const search_level0 *z, const search_config *record)
{
    return search_proven(record->lower_bound_s, record->iteration_s) ||
           search_proven(record->lower_bound_s,
                         search_near(record->iteration_s, z->problem->gap));
}

const char *search_status_of(const search_level0 *z,
                             const search_config *record)
{
    if (search_proven(record->lower_bound_s, record->iteration_s))
        return "optimal";
    if (search_closed(z, record))
        return "near";
    if (search_proven(record->lower_bound_s, search_enough(z)))
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
    record->status = search_status_of(z, record);
    search_offer_values(z, c, &c->built, solution);
    search_measure(z, c, solution);
    if (solution->cost < z->best_s) {
        z->best = c;
        z->best_s = solution->cost;
        z->value = fs_memdup(z->scratch, solution->value,
                             (size_t)c->built.net.n_nodes * sizeof *z->value);
        z->kernel_nodes = solution->kernel_nodes;
        search_release(z, old);
    }
}

enum { NARROW_ROUNDS = 6 };
/* Of the gap that is asked for, how near a bound is to its own plan where that
 * is what is looked for. */
#define NEAR_ITS_OWN 0.25
/* The same of how much more than enough prices prove of a folded network. */
#define BEYOND 0.25
enum { PATIENCE = 4, FURTHER = 3 };

search_met *search_met_of(search_candidate *c)
{
    if (c->met)
        return c->met;
    fs_arena *arena = fs_arena_create();
    c->met = fs_new(arena, search_met, 1);
    c->met->arena = arena;
    return c->met;
}

void search_forget_met(search_candidate *c)
{
    if (c->met)
        fs_arena_destroy(c->met->arena);
    c->met = NULL;
}

/* What an engine is to say of the candidate's network, in `seconds` of work. Of
 * one whose plans did not fit no plan that it finds says what is enough. */
void search_pose(search_level0 *z, search_candidate *c, double seconds)
{
    search_asked *asked = fs_new(c->arena, search_asked, 1);
    asked->budget =
        (search_budget){.deadline = search_attempt(z, c, seconds),
                        .cutoff = search_enough(z),
                        .gap = c->missed ? 0 : z->problem->gap,
                        .reduce = z->problem->reduce,
                        .without = z->problem->without,
                        .rounds = z->problem->rounds,
                        .met = c->view ? search_met_of(c) : NULL,
                        .patience = PATIENCE * (1 + c->further),
                        .roomy = !c->cramped && !search_narrowed(c)};
    if (c->view)
        asked->budget.beyond =
            BEYOND * z->problem->gap * (double)(1 << c->further);
    if (c->sought) {
        asked->budget.within = c->within;
        asked->budget.plan = c->view != NULL;
        asked->budget.gap = NEAR_ITS_OWN * z->problem->gap;
    }
    c->sought = false;
    if (search_narrowed(c) && !asked->budget.rounds)
        asked->budget.rounds = NARROW_ROUNDS; /* a plan; nothing to prove */
    asked->seconds = seconds;
    asked->left = search_attempt_left(z);
    asked->begun = c->steps;
    asked->rest = search_rest(z, c);
    c->asked = asked;
    search_say(z, c, "..");
}

/* As much work for each part of the answer, and no less than this: one that was
 * stopped leaves nothing, and is not asked again if the engine was not. */
#define LEAST_S 0.25
static fs_deadline next_deadline(search_candidate *c)
{
    const search_asked *asked = c->asked;
    const double left = asked->left - (double)(c->steps - asked->begun);
    const double seconds = fmax(asked->seconds, LEAST_S);
    return fs_deadline_after(fmin(FS_STEPS_PER_S * seconds, left), &c->steps,
                             asked->budget.deadline.end);
}

/* The next bound begins where the best one was proven. */
static void note_reached(search_candidate *c, const search_prices *prices,
                         double *phi, double bound)
{
    bool bytes = false;
    for (int32_t k = 0; k < c->built.net.n_limits; k++)
        bytes |= prices->bytes[k] > 0;
    if (bytes)
        c->prices = prices;
    c->reached = phi;
    c->reached_s = bound;
}

/* A first attempt that its effort ended: another one follows. */
#define GLANCE_S 0.5
static bool is_glance(const search_candidate *c)
{
    return c->asked->solution.open && c->asked->seconds < GLANCE_S;
}

/* A bound that needs no further proof is enough, and one as near as that to the
 * candidate's own plan. */
static double lifted(search_candidate *c, const search_solution *found)
{
    const search_budget *budget = &c->asked->budget;
    if (budget->plan && found->open) /* which is pressed for a bound later */
        return fmin(found->lower_bound, c->record.lower_bound_s);
    const double enough = fmin(
        search_near(found->cost, NEAR_ITS_OWN * budget->gap), budget->cutoff);
    if (search_proven(c->record.lower_bound_s, enough)) /* by pressing */
        return fmin(found->lower_bound, c->record.lower_bound_s);
    /* Of the whole it is no more; what comes next begins at its prices. */
    if (is_glance(c) && !search_proven(found->lower_bound, enough) &&
        isfinite(budget->cutoff)) {
        c->prices = found->prices;
        c->reached_by_engine |= found->lower_bound > c->record.lower_bound_s;
        return fmin(found->lower_bound, c->record.lower_bound_s);
    }
    double *phi = c->reached;
    const double bound =
        search_lift(&c->built, found->prices, found->lower_bound, enough,
                    next_deadline(c), c->arena, &phi);
    if (bound > c->reached_s) {
        note_reached(c, found->prices, phi, bound);
        c->reached_by_engine = true;
    }
    return bound;
}

/* Where layers that differ may make a better plan. */
static search_ends *ends_of(const search_level0 *z, search_candidate *c)
{
    const search_asked *asked = c->asked;
    const search_solution *found = &asked->solution;
    if (!found->memory_binds || !isfinite(found->cost) || z->problem->rounds ||
        is_glance(c) || search_proven(found->lower_bound, asked->budget.cutoff))
        return NULL;
    return search_splice_ends(&c->built.net, found->cost, next_deadline(c),
                              z->problem->without, c->arena);
}

/* Memory has a say in what it is pressed for, unless what is computed again is
 * chosen in another configuration. */
static bool has_say(const search_level0 *z, const search_candidate *c)
{
    return c->built.net.n_limits > 0 && (c->again || !z->problem->again);
}

/* What was pressed for more may come to so much less. */
#define LOWER 0.03

bool search_pressed_for_more(const search_level0 *z, const search_candidate *c)
{
    return search_enough(z) < (1 - LOWER) * c->pressed_s;
}

bool search_may_press(const search_level0 *z, const search_candidate *c)
{
    return (c->pressed_s <= 0 || search_pressed_for_more(z, c)) &&
           !c->reached_by_engine && isfinite(z->best_s) &&
           !z->problem->rounds && !search_narrowed(c) &&
           (c->n_stages > 1 || c->again || !z->problem->again);
}

/* Where bytes have a say, planes lead to the best prices of the folded network
 * in a few minima, subgradients in dozens; what is left of their bound for the
 * whole is then a matter of potentials. */
static double pressed_by_planes(search_candidate *c, search_prices *prices,
                                double *phi, fs_deadline deadline)
{
    const search_budget *budget = &c->asked->budget;
    search_budget one = *budget;
    one.prices = c->prices;
    const double folded_s = search_net_prove(&c->built.net, &one, prices);
    const double bound = search_lift(&c->built, prices, folded_s,
                                     budget->cutoff, deadline, c->arena, &phi);
    if (bound > c->reached_s)
        note_reached(c, prices, phi, bound);
    return bound;
}

/* Raised by prices of bytes and potentials together, from the best known. */
static double pressed(const search_level0 *z, search_candidate *c,
                      fs_deadline deadline)
{
    search_prices *prices = fs_new(c->arena, search_prices, 1);
    *prices = search_prices_new(&c->built.net, c->arena);
    if (c->prices)
        search_prices_copy(&c->built.net, prices, c->prices);
    double *phi = c->reached;
    if (has_say(z, c) && search_engine_find(z->problem->engine) == search_ilp)
        return pressed_by_planes(c, prices, phi, deadline);
    const double bound =
        search_press(&c->built, has_say(z, c), c->asked->budget.cutoff,
                     deadline, c->arena, prices, &phi);
    if (bound > c->reached_s) {
        note_reached(c, prices, phi, bound);
        c->reached_by_engine = false;
    }
    return bound;
}

void search_press_one(search_level0 *z, search_candidate *c)
{
    search_asked *asked = c->asked;
    search_budget *budget = &asked->budget;
    const int64_t start_ns = fs_now_ns();
    c->pressed_s = budget->cutoff;
    c->pressed_with_s = asked->seconds;
    if (!c->view || (c->weighed && c->n_stages == 1 && !has_say(z, c)))
        return;
    if (c->cramped && has_say(z, c))
        c->too_small = search_net_too_small(&c->built.net);
    if (c->too_small)
        return;
    search_raise_bound(c, pressed(z, c, budget->deadline));
    c->record.seconds += search_seconds_since(start_ns);
}

/* Prices that prove enough of the folded network need not of the whole: better
 * ones may. */
static void look_further(search_candidate *c, double folded_s)
{
    const search_asked *asked = c->asked;
    const double cutoff = asked->budget.cutoff;
    if (asked->budget.rounds || c->further == FURTHER ||
        !search_proven(folded_s, cutoff) ||
        search_proven(asked->solution.lower_bound, cutoff))
        return;
    c->further++;
    c->settled = false;
}

void search_answer(search_level0 *z, search_candidate *c)
{
    search_asked *asked = c->asked;
    const int64_t start_ns = fs_now_ns();
    asked->budget.prices = c->prices;
    if (c->too_small) /* and an engine would say no more */
        asked->status = FS_NO;
    else
        asked->status = search_engine_find(z->problem->engine)(
            &c->built.net, &asked->budget, c->arena, &asked->err,
            &asked->solution);
    c->settled = !asked->solution.open || asked->budget.rounds > 0;
    c->solved = c->answered = true;
    if (asked->status == FS_OK && c->view) {
        const double folded_s = asked->solution.lower_bound;
        asked->solution.lower_bound = lifted(c, &asked->solution);
        look_further(c, folded_s);
        asked->ends = ends_of(z, c);
    }
    if (asked->status == FS_NO && c->view)
        asked->forbidden = forbidden(c, asked->rest);
    c->record.seconds += search_seconds_since(start_ns);
}

/* A gap that folding leaves, where memory does not, is closed without, but of
 * compact graphs. */
static void note_unfolding(const search_level0 *z, search_candidate *c)
{
    c->unfolds = c->view && c->settled && !z->problem->rounds &&
                 !z->problem->outgrown && !c->memory_binds &&
                 !search_closed(z, &c->record) &&
                 !search_proven(c->record.lower_bound_s, search_enough(z));
    c->settled = c->settled && !c->unfolds;
}

/* What follows from an answer. */
fs_status search_conclude(search_level0 *z, search_candidate *c, fs_err *err)
{
    const search_asked *asked = c->asked;
    const search_solution *solution = &asked->solution;
    if (asked->status == FS_OK) {
        take(z, c, solution);
        if (asked->ends)
            search_splice(z, c, asked->ends);
        note_unfolding(z, c);
    } else if (asked->status != FS_NO) {
        return fs_fail(err, asked->status, "%s", asked->err.text);
    } else if (c->view) {
        refuse_folded(z, c);
    } else {
        explain_infeasible(c);
        z->memory_decides |= strcmp(c->record.status, "memory") == 0;
    }
    search_say(z, c, c->record.status);
    c->answered = false;
    if (search_narrowed(c) && c->arena && !z->problem->rounds)
        search_keep_other(z, c);
    search_release(z, c);
    if (c->memory_binds || strcmp(c->record.status, "memory") == 0)
        search_ask_again(z, c);
    return FS_OK;
}

int32_t search_ask_first(const search_level0 *z, search_candidate **list,
                         int32_t n)
{
    enum { FEW = 2 };
    const int32_t few = n < FEW ? n : FEW;
    for (int32_t k = 0; k < few; k++) {
        search_candidate *c = list[k];
        if (c != z->kept.from || z->kept.casts || z->round > 0 ||
            c->asked_first || c->solved || c->unfolded)
            continue;
        c->asked_first = c->sought = true;
        return few;
    }
    return n;
}

void search_press_or_answer(search_level0 *z, search_candidate *c)
{
    (c->asked->budget.plan ? search_answer : search_press_one)(z, c);
}

fs_status search_conclude_first(search_level0 *z, search_candidate **list,
                                int32_t *n, fs_err *err)
{
    int32_t left = 0;
    for (int32_t k = 0; k < *n; k++) {
        if (list[k]->answered)
            FS_TRY(search_conclude(z, list[k], err));
        else
            list[left++] = list[k];
    }
    *n = left;
    return FS_OK;
}

/* An attempt at its whole network. Its tables stay those of the folded one,
 * which may have the best plan, unless this has a better one. */
fs_status search_solve_whole(search_level0 *z, search_candidate *c,
                             double seconds, fs_err *err)
{
    search_candidate *whole = fs_memdup(z->scratch, c, sizeof *c);
    whole->arena = NULL;
    whole->prices = NULL;
    whole->reached = NULL;
    whole->whole = true;
    whole->unfolds = whole->too_small = false;
    const bool ready = search_prepare(z, &whole, 1) == 1;
    c->steps = whole->steps;
    if (!ready) {
        fs_arena_destroy(whole->arena);
        return FS_OK;
    }
    search_pose(z, whole, seconds);
    search_answer(z, whole);
    whole->answered = false;
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
    search_say(z, c, c->record.status);
    search_release(z, c);
    return FS_OK;
}
