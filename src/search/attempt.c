/* One configuration: its bounds, its tables, attempts to solve it (attempt.h).
 */
#include "config.h"
#include "search/attempt.h"

#include "base/clock.h"
#include "search/built.h"
#include "search/cfn.h"
#include "search/crew.h"
#include "search/effort.h"
#include "search/lay_out.h"
#include "search/narrow.h"
#include "search/offers.h"
#include "search/prices.h"
#include "search/recut.h"
#include "search/shares.h"
#include "search/space.h"

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

static void reject(search_candidate *c, const char *status, const char *why)
{
    c->record.status = status;
    c->record.lower_bound_s = INFINITY;
    c->settled = true;
    snprintf(c->why, sizeof c->why, "%s", why);
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

static void raise_bound(search_candidate *c, double bound_s)
{
    c->record.lower_bound_s = fmax(c->record.lower_bound_s, bound_s);
}

/* A bound that reaches this needs no further proof. */
double search_enough(const search_level0 *z)
{
    return search_near(z->best_s, z->problem->gap);
}

/* Where its devices may differ there are no even stages. */
static bool may_be_even(const search_level0 *z)
{
    return !z->problem->stage_mesh && z->problem->cluster->n_groups == 1;
}

void search_look(search_level0 *z, search_candidate *c)
{
    c->looked = true;
    if (!may_be_even(z))
        return;
    raise_bound(c, search_share_floor(z, c));
    c->weighed_s = c->any_cut_s = c->record.lower_bound_s;
    if (search_proven(c->record.lower_bound_s, search_enough(z))) {
        c->looked = false; /* once more, when more is wanted */
        return;
    }
    search_look_at_nodes(z, c);
}

void search_look_at_nodes(search_level0 *z, search_candidate *c)
{
    c->looked = true;
    if (!may_be_even(z))
        return;
    c->arena = fs_arena_create();
    search_lay_out_even(z, c, &c->shown);
    c->shown.seconds_only = true;
    if (node_tables(z, c)) {
        raise_bound(c, search_even_floor(&c->built, search_groups(c)));
        if (z->problem->in_full) {
            c->sim_s = search_sim_floor(z, c);
            c->sim_nodes = true;
        }
    }
    c->weighed_s = c->any_cut_s = c->record.lower_bound_s;
    search_drop_tables(c);
}

double search_even_bound(const search_level0 *z, search_candidate *c)
{
    enum { SWEEPS = 20 };
    const search_prices even =
        search_even_prices(&c->built, search_groups(c), c->arena);
    const fs_deadline deadline = fs_deadline_at(z->end, &c->steps);
    search_effort effort = {deadline, SWEEPS, search_enough(z),
                            0,        false,  z->problem->without};
    search_minimum min;
    if (c->shown.view)
        return search_lift(&c->built, &even, INFINITY, search_enough(z),
                           deadline, c->arena, NULL);
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
    if (node_tables(z, c)) {
        search_part_heaviest(&c->built, &c->shown, search_groups(c));
        if (edge_tables(c))
            raise_bound(c, search_even_bound(z, c));
    }
    search_drop_tables(c);
    c->weighed_s = c->any_cut_s = c->record.lower_bound_s;
    /* Once more, when more is wanted. */
    c->weighed = !search_proven(c->record.lower_bound_s, search_enough(z));
}

const int32_t *search_even_values(search_level0 *z, search_candidate *c)
{
    enum { SWEEPS = 20 };
    search_minimum min;
    if (z->problem->stage_mesh)
        return NULL;
    search_lay_out_even(z, c, &c->shown);
    c->shown.seconds_only = true;
    if (!node_tables(z, c) || !edge_tables(c))
        return NULL;
    const search_prices even =
        search_even_prices(&c->built, search_groups(c), c->arena);
    const search_effort effort = {
        search_rest(z, c), SWEEPS, INFINITY, 0, false, z->problem->without};
    search_cfn_minimise(search_net_priced(&c->built.net, &even, c->arena),
                        &effort, c->arena, &min);
    return isfinite(min.cost) ? min.value : NULL;
}

/* Is one of as many stages known to fold? Then this one is not cut to see that
 * it does. */
static bool folds(const search_level0 *z, const search_candidate *c)
{
    for (int32_t k = 0; k < z->all.n; k++) {
        const search_candidate *one = z->all.at[k];
        if (one->view && one->n_stages == c->n_stages && one->cut > 0)
            return true;
    }
    return false;
}

bool search_lay_out_own(search_level0 *z, search_candidate *c)
{
    fs_err err = {0};
    const int32_t level = c->cut + 1;
    c->cut = SEARCH_CUT;
    if (c->n_stages == 1 || c->arena || search_narrowed(c) || folds(z, c))
        return false;
    c->arena = fs_arena_create();
    if (search_lay_out_cut(z, c, &err) != FS_OK)
        reject(c, "infeasible", err.text);
    if (c->settled || c->view) {
        search_drop_tables(c);
        return false;
    }
    c->cut = level;
    c->weighed = true;
    return true;
}

/* Its tables are built here, by this hand's model. */
static bool own_nodes(search_level0 *z, search_candidate *c)
{
    c->shown.rates =
        search_rates_for(z, search_groups(c), c->shown.graph->micro_batches);
    return node_tables(z, c);
}

bool search_floor_own(search_level0 *z, search_candidate *c)
{
    c->shown.seconds_only = true;
    if (!own_nodes(z, c))
        return false;
    raise_bound(c, c->view ? search_net_floor(&c->built.loose, c->arena)
                           : search_cut_floor(&c->built, c->arena));
    return true;
}

void search_press_own(search_level0 *z, search_candidate *c, int32_t rounds,
                      double enough)
{
    c->shown.least_moves = true;
    if (search_floor_own(z, c) &&
        !search_proven(c->record.lower_bound_s, enough) && edge_tables(c))
        raise_bound(c, search_net_press(&c->built.net, rounds, enough,
                                        fs_deadline_at(z->end, &c->steps)));
}

bool search_build_own(search_level0 *z, search_candidate *c)
{
    return own_nodes(z, c) && edge_tables(c);
}

void search_weigh_own(search_level0 *z, search_candidate *c)
{
    search_press_own(z, c, c->cut < SEARCH_CUT ? 1 : 0, search_enough(z));
    search_drop_tables(c);
}

/* Does the least of each table say that no more of it is of use? */
static bool is_out(search_level0 *z, search_candidate *c)
{
    raise_bound(c, search_net_floor(&c->built.loose, c->arena));
    if (c->whole || search_narrowed(c) || isinf(c->record.lower_bound_s) ||
        !search_proven(c->record.lower_bound_s, search_enough(z)))
        return false;
    c->record.status = search_status_of(z, &c->record);
    c->settled = true;
    search_drop_tables(c);
    return true;
}

/* All tables; false as above. */
bool search_prepare(search_level0 *z, search_candidate *c)
{
    fs_err err = {0};
    if (c->settled)
        return false;
    if (c->arena)
        return true;
    search_say(z, c, "tables");
    c->arena = fs_arena_create();
    if (search_lay_out(z, c, &err) != FS_OK) {
        reject(c, "infeasible", err.text);
        return false;
    }
    if (!node_tables(z, c))
        return false;
    if (is_out(z, c))
        return false;
    if (!edge_tables(c)) {
        c->settled = true;
        return false;
    }
    return !is_out(z, c);
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

/* What an engine is to say of the candidate's network, in `seconds` of work. Of
 * one whose plans did not fit no plan that it finds says what is enough. */
void search_pose(search_level0 *z, search_candidate *c, double seconds)
{
    search_asked *asked = fs_new(c->arena, search_asked, 1);
    asked->budget = (search_budget){search_attempt(z, c, seconds),
                                    search_enough(z),
                                    c->missed ? 0 : z->problem->gap,
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

/* A bound that needs no further proof is enough, and one as near as that to the
 * candidate's own plan. */
static double lifted(search_candidate *c, const search_solution *found)
{
    const search_budget *budget = &c->asked->budget;
    const double enough =
        fmin(search_near(found->cost, 0.25 * budget->gap), budget->cutoff);
    if (search_proven(c->record.lower_bound_s, enough)) /* by pressing */
        return fmin(found->lower_bound, c->record.lower_bound_s);
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
        search_proven(found->lower_bound, asked->budget.cutoff))
        return NULL;
    return search_splice_ends(&c->built.net, found->prices, next_deadline(c),
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

void search_press_one(search_level0 *z, search_candidate *c)
{
    search_asked *asked = c->asked;
    search_budget *budget = &asked->budget;
    const int64_t start_ns = fs_now_ns();
    c->pressed_s = budget->cutoff;
    c->pressed_with_s = asked->seconds;
    if (!c->view || (c->weighed && c->n_stages == 1 && !has_say(z, c)))
        return;
    search_prices *prices = fs_new(c->arena, search_prices, 1);
    *prices = search_prices_new(&c->built.net, c->arena);
    if (c->prices)
        search_prices_copy(&c->built.net, prices, c->prices);
    double *phi = c->reached;
    const double bound = search_press(&c->built, has_say(z, c), budget->cutoff,
                                      budget->deadline, c->arena, prices, &phi);
    raise_bound(c, bound);
    if (bound > c->reached_s) {
        note_reached(c, prices, phi, bound);
        c->reached_by_engine = false;
    }
    c->record.seconds += search_seconds_since(start_ns);
}

void search_answer(search_level0 *z, search_candidate *c)
{
    search_asked *asked = c->asked;
    const int64_t start_ns = fs_now_ns();
    asked->budget.prices = c->prices;
    asked->status = search_engine_find(z->problem->engine)(
        &c->built.net, &asked->budget, c->arena, &asked->err, &asked->solution);
    c->settled = !asked->solution.open || asked->budget.rounds > 0;
    c->solved = c->answered = true;
    if (asked->status == FS_OK && c->view) {
        asked->solution.lower_bound = lifted(c, &asked->solution);
        asked->ends = ends_of(z, c);
    }
    c->record.seconds += search_seconds_since(start_ns);
}

/* A gap that folding leaves, where memory does not, is closed without. */
static void note_unfolding(const search_level0 *z, search_candidate *c)
{
    c->unfolds = c->view && c->settled && !z->problem->rounds &&
                 !c->memory_binds && !search_closed(z, &c->record) &&
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
    if (search_narrowed(c) && !z->problem->rounds)
        search_keep_other(z, c);
    search_release(z, c);
    if (c->memory_binds || strcmp(c->record.status, "memory") == 0)
        search_ask_again(z, c);
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
    whole->unfolds = false;
    const bool ready = search_prepare(z, whole);
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
