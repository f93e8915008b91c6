/* Proven optimal assignments of a network.
 *
 * 1. Prices. For lambda, mu in the simplex and w >= 0,
 *      T >= sum_i (1 + (m-1) lambda_i) a_i + sum_i mu_i b_i
 *           + sum_k w_k (bytes_k - limit_k)
 *    for every assignment that fits; the right side is additive, so its
 *    minimum (minimise.c) is a proven bound, and its minimiser a candidate.
 *    With one stage lambda = mu = 1 is the objective itself: one round is
 *    exact unless memory binds. Else bundle.c says which prices are next.
 * 2. What a gap leaves open goes to GLPK, after the values whose reduced cost
 *    reaches the best known cost were dropped. */
#include "config.h"
#include "search/engine/dual.h"
#include "search/engine/engine.h"

#include "base/clock.h"
#include "search/engine/cfn.h"
#include "search/engine/fitting.h"
#include "search/engine/milp.h"
#include "search/engine/prices.h"

#include <math.h>
#include <string.h>

enum {
    ROUNDS = 80,
    WITHIN_ROUNDS = 10,
    FIT_ROUNDS = 8,
    FIT_PATIENCE = 2,
    PRICE_SWEEPS = 80,
    FIX_SWEEPS = 300,
    MIXED = 4,
    MIXED_COLUMNS = 4000,
    MILP_COLUMNS = 60000,
    DEDUCE_PASSES = 50
};
/* Of what is missing beyond the cutoff, what a round has to bring. */
#define FAST 0.25
/* Of the gap, what a round brings at least that is to be followed by others. */
#define FIT_LITTLE 0.1
/* Share of the gap that prices have to promise to close. */
#define LITTLE 0.02

typedef struct ilp {
    const search_net *net;
    const search_budget *budget;
    fs_arena *arena; /* of this solve */
    search_prices at;
    search_bundle bundle;
    double bound, cost;
    int32_t *value;
    int32_t *met[MIXED], n_met; /* the last minimisers */
    search_sums sums;
    int64_t steps;
    int32_t kernel_nodes; /* the fewest of any round */
    int32_t *within;      /* within less of the limits; NULL: none was found */
    double within_cost;
    int32_t idle; /* rounds that brought little beyond the cutoff */
    bool memory_binds, open;
    bool proves;  /* a bound, no plan, */
    bool presses; /* nor prices of what it does not reach */
    bool fitted;  /* a plan was found stage by stage */
} ilp;

/* Better than all so far? */
static void take(ilp *s, const int32_t *value, double cost)
{
    if (!(cost < s->cost))
        return;
    s->cost = cost;
    memcpy(s->value, value, (size_t)s->net->n_nodes * sizeof *value);
}

/* Work that nobody told the deadline of. */
static void count(ilp *s, int64_t steps)
{
    s->steps += steps;
    fs_deadline_spend(&s->budget->deadline, steps);
}

static void offer(ilp *s, const int32_t *value)
{
    const search_net *net = s->net;
    if (!isfinite(search_net_cost(net, value)))
        return;
    fs_arena *scratch = fs_arena_create();
    int32_t *try =
        fs_memdup(scratch, value, (size_t)net->n_nodes * sizeof *value);
    int64_t steps = 0;
    take(s, try, search_net_improve(net, try, scratch, &steps));
    count(s, steps);
    fs_arena_destroy(scratch);
}

/* A bound that reaches this is proof enough; what costs as much is of no
 * interest. */
static double goal(const ilp *s)
{
    return fmin(search_near(s->cost, s->budget->gap),
                s->budget->within > 0 ? INFINITY : s->budget->cutoff);
}

/* Mixtures of a minimiser and those before it, both ways. */
static void offer_mixtures(ilp *s, const int32_t *value)
{
    const search_net *net = s->net;
    size_t bytes = (size_t)net->n_nodes * sizeof *value;
    fs_arena *scratch = fs_arena_create();
    int64_t steps = 0;
    if (s->budget->reduce && isfinite(s->cost)) {
        int32_t *best = fs_memdup(scratch, s->value, bytes);
        if (search_net_cross(net, best, value, scratch, &steps) < s->cost)
            offer(s, best);
    }
    for (int32_t k = 0; k < MIXED; k++) {
        if (!s->met[k])
            continue;
        int32_t *mixed = fs_memdup(scratch, value, bytes);
        if (search_net_cross(net, mixed, s->met[k], scratch, &steps) < s->cost)
            offer(s, mixed);
    }
    count(s, steps);
    s->met[s->n_met++ % MIXED] = fs_memdup(s->arena, value, bytes);
    fs_arena_destroy(scratch);
}

/* Prices are of use to whoever takes their bound for the whole network, and
 * reaches less. */
static double aim(const ilp *s)
{
    return fmin(search_near(s->cost, s->budget->gap),
                goal(s) * (1 + s->budget->beyond));
}

static bool done(const ilp *s)
{
    return search_proven(s->bound, s->cost) ||
           search_proven(s->bound, goal(s)) ||
           fs_deadline_over(&s->budget->deadline);
}

/* Minimises at the current prices. False when nothing is legal. On return
 * s->sums are those of the minimiser. */
static bool price_round(ilp *s, bool exact)
{
    const search_net *net = s->net;
    fs_arena *scratch = fs_arena_create();
    double over = search_price_excess(net, &s->at);
    search_effort effort = {s->budget->deadline,
                            exact ? INT32_MAX : PRICE_SWEEPS,
                            aim(s) + over,
                            exact ? s->budget->gap : 0,
                            exact,
                            s->budget->without,
                            s->presses};
    search_cfn *cfn = search_net_priced(net, &s->at, scratch);
    search_minimum min;
    search_cfn_minimise(cfn, &effort, scratch, &min);
    s->steps += cfn->steps;
    s->open |= min.open;
    if (min.kernel_nodes < s->kernel_nodes)
        s->kernel_nodes = min.kernel_nodes;
    bool legal = !(isinf(min.bound) && min.bound > 0);
    s->bound = fmax(s->bound, min.bound - over);
    search_bundle_learn(&s->bundle, &s->at, min.bound - over);
    if (isfinite(min.cost)) {
        if (!s->proves) {
            offer(s, min.value);
            offer_mixtures(s, min.value);
        }
        search_net_sums(net, min.value, &s->sums);
        search_bundle_add(&s->bundle, &s->sums);
        if (s->budget->met)
            search_met_add(s->budget->met, net, min.value);
    }
    fs_arena_destroy(scratch);
    return legal;
}

static void note_binding(ilp *s)
{
    for (int32_t k = 0; k < s->net->n_limits; k++)
        s->memory_binds |= s->at.bytes[k] > 0;
}

/* Of what is missing, what prices are to promise. */
#define PROMISED 2

/* As near as that is to be had, since planes say little of what is far. */
static void stay_near(ilp *s, double promise)
{
    search_bundle *b = &s->bundle;
    const double want = b->proven + PROMISED * (aim(s) - b->proven);
    int64_t steps = 0;
    if (!isfinite(want) || !isfinite(b->proven) || want <= b->proven)
        return;
    b->hope =
        fmin(b->hope, search_bundle_near(b, want, promise, &s->at, &steps));
    count(s, steps);
}

/* The next prices. False when none would prove much more, or none but those
 * just tried (the only ones of a single stage with memory to spare): the gap
 * that is left is not the prices' to close. */
static bool move_prices(ilp *s)
{
    search_bundle *b = &s->bundle;
    search_prices tried = search_prices_new(s->net, s->arena);
    search_prices_copy(s->net, &tried, &s->at);
    double most = isfinite(s->cost) ? s->cost : 1.05 * fabs(s->bound) + 1e-12;
    double hope = INFINITY;
    while (b->reach <= 1) {
        int64_t steps = 0;
        hope = search_bundle_next(b, &s->at, &steps);
        count(s, steps);
        if (isinf(hope))
            return false;
        b->hope = fmin(hope, most); /* no bound is above a plan */
        if (hope - s->bound > LITTLE * (most - s->bound))
            break;
        b->reach *= 4;
    }
    if (b->reach <= 1)
        stay_near(s, hope);
    note_binding(s);
    return b->reach <= 1 && !search_prices_equal(s->net, &tried, &s->at);
}

/* Beyond the cutoff as long as rounds bring some of what is left. */
static bool is_enough(ilp *s, double before)
{
    const double wanted = aim(s);
    if (!done(s))
        return false;
    if (!isfinite(wanted) || s->bound >= wanted ||
        fs_deadline_over(&s->budget->deadline))
        return true;
    s->idle = s->bound - before < FAST * (wanted - s->bound) ? s->idle + 1 : 0;
    return s->idle >= s->budget->patience;
}

static bool find_prices(ilp *s)
{
    bool single = s->net->n_stages == 1 && !s->budget->prices;
    const int32_t most = s->budget->rounds ? s->budget->rounds : ROUNDS;
    for (int32_t round = 0; round < most; round++) {
        const double before = s->bound;
        if (!price_round(s, single && round == 0 && !s->budget->rounds))
            return false;
        if (is_enough(s, before) || !move_prices(s))
            return true;
    }
    return true;
}

/* ---- mixing by GLPK ---- */

/* The values of a node in the last minimisers and the best assignment. */
static int32_t list_met(const ilp *s, int32_t node, int32_t *value)
{
    int32_t n = 0;
    for (int32_t k = 0; k <= MIXED; k++) {
        const int32_t *from = k < MIXED ? s->met[k] : s->value;
        bool known = !from || (from == s->value && isinf(s->cost));
        for (int32_t j = 0; j < n && !known; j++)
            known = value[j] == from[node];
        if (!known)
            value[n++] = from[node];
    }
    return n;
}

static void mix(ilp *s, const search_subnet *sub, fs_arena *scratch)
{
    search_milp_task task = {&sub->net,      NULL,
                             goal(s),        s->budget->cutoff,
                             s->budget->gap, s->budget->deadline};
    search_solution found;
    fs_err err = {0};
    const fs_status status = search_milp(&task, scratch, &err, &found);
    s->open |= found.open;
    if (status != FS_OK || isinf(found.cost))
        return;
    int32_t n = s->net->n_nodes, *value = fs_new(scratch, int32_t, n);
    for (int32_t i = 0; i < n; i++)
        value[i] = sub->value[i][found.value[i]];
    s->steps += found.steps;
    offer(s, value);
}

/* The network with the values of the assignments met only: few enough columns
 * to mix them as is best for the objective itself, where islands are too
 * coarse (cf. Danna, Rothberg, Le Pape, Mathematical Programming 102, 2005).
 * No bound follows. */
static void mix_met(ilp *s)
{
    const search_net *net = s->net;
    fs_arena *scratch = fs_arena_create();
    int32_t *dom = fs_new(scratch, int32_t, net->n_nodes);
    int32_t **value = fs_new(scratch, int32_t *, net->n_nodes);
    for (int32_t i = 0; i < net->n_nodes; i++) {
        value[i] = fs_new(scratch, int32_t, MIXED + 1);
        dom[i] = list_met(s, i, value[i]);
    }
    search_subnet sub = search_subnet_of(net, dom, value, scratch);
    if (!(s->budget->without & SEARCH_GOLDSTEIN))
        count(s, search_subnet_reduce(&sub, scratch));
    if (search_milp_columns(&sub.net) <= MIXED_COLUMNS)
        mix(s, &sub, scratch);
    fs_arena_destroy(scratch);
}

/* ---- closing the gap ---- */

/* Drops what cannot beat the best known cost, at the best prices. */
static search_cfn *fix(ilp *s)
{
    search_cfn *cfn = search_net_priced(s->net, &s->bundle.centre, s->arena);
    search_cfn_reduce(cfn, SEARCH_ARCS);
    double most = goal(s);
    if (cfn->infeasible || !isfinite(most))
        return cfn;
    search_dual *dual = search_dual_new(cfn, s->arena);
    double over = search_price_excess(s->net, &s->bundle.centre);
    dual->upper = most + over;
    for (int32_t k = 0; k < FIX_SWEEPS && !done(s) && !dual->closed; k++) {
        search_dual_sweep(dual);
        search_cfn_late(cfn, &s->budget->deadline);
        s->bound = fmax(s->bound, fmin(most, dual->bound - over));
    }
    if (dual->closed)
        s->bound = most;
    return cfn;
}

static bool close_gap(ilp *s)
{
    const search_net *net = s->net;
    search_cfn *cfn = fix(s);
    if (done(s))
        return true;
    if (cfn->infeasible)
        return false;
    search_subnet sub = search_subnet_of(net, cfn->dom, cfn->value, s->arena);
    /* Dominance will not make a giant small. */
    if (search_milp_columns(&sub.net) > 10 * MILP_COLUMNS)
        return true;
    if (!(s->budget->without & SEARCH_GOLDSTEIN))
        count(s, search_subnet_reduce(&sub, s->arena));
    search_net *kernel = &sub.net;
    if (search_milp_columns(kernel) > MILP_COLUMNS)
        return true;
    double most = goal(s);
    search_milp_task task = {kernel,         NULL,
                             most,           s->budget->cutoff,
                             s->budget->gap, s->budget->deadline};
    search_solution found;
    fs_err err = {0};
    const fs_status status = search_milp(&task, s->arena, &err, &found);
    s->open |= found.open;
    if (status == FS_NO) {
        s->bound = most; /* INFINITY: infeasible as a whole */
        return isfinite(most);
    }
    s->steps += found.steps;
    if (isfinite(found.cost)) {
        int32_t *value = fs_new(s->arena, int32_t, net->n_nodes);
        for (int32_t i = 0; i < net->n_nodes; i++)
            value[i] = sub.value[i][found.value[i]];
        offer(s, value);
    }
    s->bound = fmin(fmin(s->cost, most), fmax(s->bound, found.lower_bound));
    return true;
}

/* The whole network to GLPK: no reductions, no prices (an ablation). */
static fs_status solve_plainly(ilp *s, fs_err *err)
{
    search_milp_task task = {
        s->net,         isfinite(s->cost) ? s->value : NULL,
        s->cost,        s->budget->cutoff,
        s->budget->gap, s->budget->deadline};
    search_solution found;
    FS_TRY(search_milp(&task, s->arena, err, &found));
    s->open |= found.open;
    s->steps += found.steps;
    if (isfinite(found.cost))
        offer(s, found.value);
    s->bound = fmax(s->bound, found.lower_bound);
    return FS_OK;
}

/* The last of those that were met mix with what is. */
static void recall(ilp *s, const search_met *met)
{
    if (!search_bundle_recall(&s->bundle, met))
        return;
    for (int32_t k = met->value.n > MIXED ? met->value.n - MIXED : 0;
         k < met->value.n; k++)
        s->met[s->n_met++ % MIXED] = fs_memdup(
            s->arena, met->value.at[k], (size_t)met->n_nodes * sizeof(int32_t));
}

static void begin(ilp *s, const search_net *net, const search_budget *budget)
{
    s->net = net;
    s->budget = budget;
    s->at = search_prices_new(net, s->arena);
    if (budget->prices)
        search_prices_copy(net, &s->at, budget->prices);
    note_binding(s);
    s->sums = search_sums_new(net, s->arena);
    s->value = fs_new(s->arena, int32_t, net->n_nodes);
    s->cost = INFINITY;
    s->kernel_nodes = net->n_nodes;
    s->bound = search_net_floor(net, s->arena);
    s->bundle = search_bundle_new(net, s->arena);
    if (budget->met)
        recall(s, budget->met);
}

static void set_scale(ilp *s)
{
    const double scale = isfinite(s->cost) ? s->cost : s->bound;
    s->bundle.scale = isfinite(scale) && scale != 0 ? fabs(scale) : 1;
}

static void start(ilp *s, const search_net *net, const search_budget *budget)
{
    search_solution first;
    begin(s, net, budget);
    if (s->n_met) { /* it was asked before: these mix */
        set_scale(s);
        return;
    }
    search_deduce_first(net, DEDUCE_PASSES, s->arena, &first);
    count(s, first.steps);
    if (isfinite(first.cost) && budget->rounds)
        take(s, first.value, first.cost); /* soon, so improved later */
    else if (isfinite(first.cost))
        offer(s, first.value);
    set_scale(s);
}

/* ---- a plan within less ---- */

/* A byte costs at least that share of the dearest where there is too much. */
#define LEAST_PRICE 0.1
#define DEARER 1.3

/* Bytes of limits that the last minimiser exceeds; false: of none. */
static bool make_dearer(ilp *s)
{
    const search_net *net = s->net;
    double most = 0;
    bool any = false;
    for (int32_t k = 0; k < net->n_limits; k++)
        most = fmax(most, s->at.bytes[k]);
    for (int32_t k = 0; k < net->n_limits; k++) {
        if (s->sums.bytes[k] <= net->limit_bytes[k])
            continue;
        s->at.bytes[k] = DEARER * fmax(s->at.bytes[k], LEAST_PRICE * most);
        any = true;
    }
    return any;
}

/* Minimisers at the best prices take a little too much mostly; where they do,
 * bytes become dearer until one fits, or mixes with those that do not. */
static void find_fitting(ilp *s)
{
    search_prices_copy(s->net, &s->at, &s->bundle.centre);
    for (int32_t k = 0; k < WITHIN_ROUNDS && isinf(s->cost); k++)
        if (fs_deadline_over(&s->budget->deadline) || !price_round(s, false) ||
            !make_dearer(s))
            return;
}

/* Stage by stage (fitting.h), until rounds bring little. False: nothing exceeds
 * a limit, or none was found. */
static bool fit_soon(ilp *s)
{
    search_fitting fitting =
        search_fitting_new(s->net, s->bundle.scale, s->arena);
    const double reach = s->bundle.reach;
    int32_t k = 0, idle = 0;
    while (k < FIT_ROUNDS && idle < FIT_PATIENCE &&
           search_fitting_next(&fitting, &s->sums, &s->at) &&
           !fs_deadline_over(&s->budget->deadline)) {
        const double before = s->cost;
        if (!price_round(s, false))
            break;
        const bool little =
            s->cost > before * (1 - FIT_LITTLE * s->budget->gap);
        idle = isfinite(s->cost) && little ? idle + 1 : 0;
        k++;
    }
    s->bundle.reach = reach;
    s->fitted = k > 1 && isfinite(s->cost);
    return s->fitted;
}

/* What a plan takes when it is lowered may be a little more than by its
 * network, so it is looked for within less: by prices of that, for a few
 * rounds, and by what mixes there. No bound follows, but planes do. */
static void find_within(ilp *s)
{
    search_net net = *s->net;
    search_budget budget = *s->budget;
    ilp t = {.arena = fs_arena_create()};
    net.limit_bytes = fs_new(t.arena, int64_t, net.n_limits);
    for (int32_t k = 0; k < net.n_limits; k++)
        net.limit_bytes[k] =
            (int64_t)(budget.within * (double)s->net->limit_bytes[k]);
    budget.rounds = WITHIN_ROUNDS;
    begin(&t, &net, &budget);
    set_scale(&t);
    if (!fit_soon(&t) && find_prices(&t))
        find_fitting(&t);
    s->steps += t.steps;
    s->fitted = t.fitted;
    take(s, t.value, t.cost);
    if (isfinite(t.cost))
        s->within =
            fs_memdup(s->arena, t.value, (size_t)net.n_nodes * sizeof *t.value);
    s->within_cost = t.cost;
    fs_arena_destroy(t.arena);
    s->bundle.planes.n = 0;
    if (budget.met)
        recall(s, budget.met);
}

/* False: proven infeasible. */
static bool find_and_close(ilp *s)
{
    const double first = s->cost;
    if (s->budget->within > 0)
        find_within(s);
    else if (s->budget->plan)
        fit_soon(s);
    if (s->budget->plan && s->fitted) {
        s->open = true;
        return true;
    }
    if (!find_prices(s))
        return false;
    if (s->budget->rounds) {
        if (isfinite(first) && s->cost >= first)
            offer(s, s->value);
        return true;
    }
    if (!done(s) && s->n_met)
        mix_met(s);
    return done(s) || close_gap(s);
}

/* Dominance makes kernels smaller that are too wide for elimination all the
 * same: messages say as much without. Good prices that prove nearly enough are
 * moved as often again. */
#define NEARLY 0.01
double search_net_press(const search_net *net, const search_prices *from,
                        int32_t rounds, double enough, fs_deadline deadline,
                        search_prices *to)
{
    const search_budget budget = {.deadline = deadline,
                                  .cutoff = enough,
                                  .reduce = true,
                                  .without = SEARCH_GOLDSTEIN,
                                  .rounds = rounds,
                                  .prices = from};
    ilp s = {.arena = fs_arena_create(), .proves = true, .presses = true};
    begin(&s, net, &budget);
    set_scale(&s);
    bool legal = done(&s) || find_prices(&s);
    if (legal && from && !done(&s) && s.bound >= (1 - NEARLY) * enough)
        legal = find_prices(&s);
    if (to)
        search_prices_copy(net, to, &s.bundle.centre);
    fs_arena_destroy(s.arena);
    return legal ? s.bound : INFINITY;
}

double search_net_prove(const search_net *net, const search_budget *budget,
                        search_prices *prices)
{
    ilp s = {.arena = fs_arena_create(), .proves = true};
    begin(&s, net, budget);
    set_scale(&s);
    const bool legal = done(&s) || find_prices(&s);
    search_prices_copy(net, prices, &s.bundle.centre);
    fs_arena_destroy(s.arena);
    return legal ? s.bound : INFINITY;
}

fs_status search_ilp(const search_net *net, const search_budget *budget,
                     fs_arena *arena, fs_err *err, search_solution *out)
{
    ilp s = {.arena = fs_arena_create()};
    start(&s, net, budget);
    fs_status status = FS_OK;
    if (!isfinite(s.cost) && !budget->roomy && search_net_too_small(net))
        status = FS_NO;
    else if (!budget->reduce)
        status = done(&s) ? FS_OK : solve_plainly(&s, err);
    else if (!done(&s) && !find_and_close(&s))
        status = FS_NO;
    if (isinf(s.bound) && s.bound > 0) /* no finite assignment at all */
        status = FS_NO;
    /* As good, and likelier to fit. */
    if (s.within && search_near(s.within_cost, budget->gap) <= s.cost) {
        s.cost = s.within_cost;
        s.value = s.within;
    }
    search_prices *prices = fs_new(arena, search_prices, 1);
    *prices = search_prices_new(net, arena);
    search_prices_copy(net, prices, &s.bundle.centre);
    if (status == FS_OK)
        *out = (search_solution){
            fs_memdup(arena, s.value, (size_t)net->n_nodes * sizeof *s.value),
            s.cost,
            fmin(s.bound, s.cost),
            s.steps,
            s.kernel_nodes,
            s.memory_binds,
            s.open || fs_deadline_over(&budget->deadline),
            prices};
    fs_arena_destroy(s.arena);
    if (status == FS_NO)
        fs_fail(err, FS_NO, "no assignment is legal and fits memory");
    return status;
}
