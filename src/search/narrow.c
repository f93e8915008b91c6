/* Plans that fit: configurations whose plans do not are narrowed, and lean
 * plans are looked for. */
#include "config.h"
#include "search/narrow.h"

#include "search/attempt.h"
#include "search/built.h"
#include "search/effort.h"
#include "search/fit.h"
#include "search/kept.h"
#include "search/lay_out.h"
#include "search/lean.h"
#include "search/offers.h"
#include "search/recut.h"
#include "search/space.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>

/* The network binds a lower bound of what a lowered plan allocates, so that a
 * bound of the whole search is one for all plans that fit. The plan found may
 * still be too large: then its configuration gets less than its limits, at
 * levels that do not depend on them (powers of LEVEL): less and less until one
 * fits, then what was left out above that. */
#define LEVEL 1.03
enum { FIT_ROUNDS = 64, LEVELS = 64 };
/* So often plans that do not fit tell of moments before more is proven. */
enum { LEARNT_EARLY = 4 };
/* Steps for lean plans of what was not solved, at least. */
#define LEAST_ANCHOR (0.25 * FS_STEPS_PER_S)

bool search_narrowed(const search_candidate *c)
{
    return c->proven_s > 0;
}

double search_wanted(const search_problem *problem)
{
    return problem->below_s > 0 ? problem->below_s : INFINITY;
}

static double own_bound(const search_candidate *c)
{
    return search_narrowed(c) ? c->proven_s : c->record.lower_bound_s;
}

double search_bound(const search_candidate *c)
{
    return c->covered ? INFINITY : own_bound(c); /* another one's */
}

static bool still_open(const search_level0 *z, const search_candidate *c)
{
    return !search_narrowed(c) || !z->kept.from ||
           c->proven_s < search_near(z->kept.cost_s, z->problem->gap);
}

static void note_misfit(search_level0 *z, const search_kept *found,
                        const int64_t *limit, const int64_t *bytes)
{
    const plan_strategy *c = found->strategy;
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
    z->misfit_graph = found->graph;
    z->misfit = found->strategy;
}

static void stage_limits(const search_level0 *z, const search_layout *layout,
                         int64_t *limit)
{
    for (int32_t i = 0; i < layout->n_stages; i++)
        limit[i] = search_device_bytes(z->problem, &layout->stages[i]);
}

void search_keep(search_level0 *z, const search_kept *found)
{
    search_offer(z, found);
    if (z->kept.from && found->cost_s >= z->kept.cost_s)
        return;
    if (!z->kept.from)
        z->first_s = search_seconds_since(z->start_ns);
    z->kept = *found;
}

/* The highest level below so many bytes. */
static int32_t level_below(double bytes)
{
    return (int32_t)floor(log(bytes) / log(LEVEL) - 1e-6);
}

static void put_level(search_candidate *c, const int64_t *limit, int32_t level)
{
    c->exhausted = level == INT32_MAX;
    if (c->exhausted)
        return;
    c->level = level;
    c->share = fmin(1, pow(LEVEL, level) / (double)limit[0]);
}

/* The least above `under` that was not tried; INT32_MAX: there is none. */
static int32_t next_level(const search_candidate *c)
{
    for (int32_t level = c->under + 1; level <= c->top; level++)
        if (c->top - level < LEVELS && !(c->levels >> (c->top - level) & 1))
            return level;
    return INT32_MAX;
}

typedef struct lowered_best {
    search_kept plan;
    search_lowered as;
} lowered_best;

/* Keeps the plan of these values of a configuration's network, if it fits. */
static bool keep_values(search_level0 *z, search_candidate *c,
                        const int32_t *value, double cost_s, lowered_best *out)
{
    *out =
        (lowered_best){search_whole_plan(z, c, &c->built,
                                         &(search_mix){.value = value}, cost_s),
                       {fs_new(z->scratch, int64_t, c->n_stages),
                        fs_new(z->scratch, int64_t, c->n_stages),
                        fs_new(z->scratch, int32_t, c->n_stages)}};
    search_kept *best = &out->plan;
    stage_limits(z, &c->layout, out->as.limit);
    search_fit fit = {out->as.bytes, out->as.fullest, true, false};
    if (!search_fits_or(z->problem, best->graph, out->as.limit, best->strategy,
                        &fit))
        return false;
    best->fits = true;
    best->guessed = fit.guessed;
    best->net_nodes = c->built.net.n_nodes;
    best->net_edges = c->built.net.n_edges;
    best->kernel_nodes = z->kernel_nodes;
    search_keep(z, best);
    return true;
}

/* Once each: of a plan that fits there is nothing to tell. */
static bool keep_best(search_level0 *z, lowered_best *out)
{
    if (z->fitting != z->value &&
        keep_values(z, z->best, z->value, z->best_s, out))
        z->fitting = z->value;
    return z->fitting == z->value;
}

bool search_keep_best(search_level0 *z)
{
    lowered_best best;
    return keep_best(z, &best);
}

bool search_glance(search_level0 *z, search_candidate *c, search_solution *out)
{
    const double wanted_s =
        z->kept.from ? z->kept.cost_s : search_wanted(z->problem);
    const search_budget budget = {.deadline = search_rest(z, c),
                                  .cutoff = INFINITY,
                                  .reduce = z->problem->reduce,
                                  .without = z->problem->without,
                                  .rounds = 1};
    lowered_best best;
    fs_err err = {0};
    *out = (search_solution){.cost = INFINITY};
    if (search_greedy(&c->built.net, &budget, z->scratch, &err, out) != FS_OK ||
        isinf(out->cost)) {
        out->cost = INFINITY;
        return false;
    }
    return out->cost >= wanted_s ||
           keep_values(z, c, out->value, out->cost, &best);
}

void search_keep_other(search_level0 *z, search_candidate *c)
{
    search_solution other;
    if (z->engine != search_ilp)
        return;
    search_glance(z, c, &other);
    if (!z->best && z->kept.from)
        z->best_s = fmin(z->best_s, z->kept.cost_s);
}

bool search_keep_fitting(search_level0 *z)
{
    lowered_best best;
    const bool fits = keep_best(z, &best);
    if (!fits) {
        note_misfit(z, &best.plan, best.as.limit, best.as.bytes);
        search_withdraw(z, z->best);
        search_keep_other(z, z->best);
    }
    z->best = NULL;
    z->best_s = z->kept.from ? z->kept.cost_s : search_wanted(z->problem);
    return fits;
}

static double share_left(const search_candidate *c, const search_lowered *as)
{
    double share = 1;
    for (int32_t i = 0; i < c->n_stages; i++)
        share = fmin(share, (double)as->limit[i] / (double)as->bytes[i]);
    return share;
}

/* Less than what the plan at hand takes of its limits by the network, `taken`:
 * as much less as it exceeds them when lowered, until one fits. */
static void narrow(search_candidate *c, const lowered_best *best, double taken)
{
    const double whole = (double)best->as.limit[0];
    const double excess = share_left(c, &best->as);
    taken = fmin(c->share, taken);
    if (!search_narrowed(c)) {
        c->proven_s = c->record.lower_bound_s;
        c->top = level_below(taken * whole);
        c->under = c->top - LEVELS;
        c->fitted = false;
    }
    put_level(c, best->as.limit,
              c->fitted ? next_level(c) : level_below(taken * excess * whole));
}

/* What it was given has no better plan than the one that is kept: more. */
static void widen(search_level0 *z, search_candidate *c)
{
    const plan_stage first = {c->mesh, 0};
    const int64_t limit = search_device_bytes(z->problem, &first);
    c->fitted = true;
    c->under = c->level;
    put_level(c, &limit, next_level(c));
}

/* The best plan does not fit. */
static void note_best(search_level0 *z, const lowered_best *best)
{
    note_misfit(z, &best->plan, best->as.limit, best->as.bytes);
    z->best->missed = z->memory_decides = true;
    z->best->within = share_left(z->best, &best->as) *
                      search_share_taken(best->plan.graph, best->plan.strategy,
                                         best->as.limit, best->as.bytes);
    search_withdraw(z, z->best);
    search_ask_again(z, z->best);
}

/* Are there moments that its network lacked? They tell all engines more. */
static bool lacks_moments(search_level0 *z, const lowered_best *best)
{
    z->best->anew = search_note_missing(z, z->best, &best->plan, &best->as);
    return z->best->anew;
}

/* Keeps the best plan, or narrows its configuration. */
static bool judge(search_level0 *z)
{
    search_candidate *c = z->best;
    lowered_best best;
    if (keep_best(z, &best))
        return true;
    note_best(z, &best);
    if (lacks_moments(z, &best))
        return false;
    narrow(c, &best,
           search_share_taken(best.plan.graph, best.plan.strategy,
                              best.as.limit, best.as.bytes));
    search_keep_other(z, z->best);
    return false;
}

/* Looks at a configuration anew, with the tables of its share or of moments
 * that were missing, if these are others than before; in this case before all
 * others, as its plan was the best but for them. After a misfit the others'
 * plans count again, which were worse than it and better than the one kept. */
static void reopen(search_level0 *z, search_candidate *c, bool misfit)
{
    const bool narrowed = search_narrowed(c);
    bool asked = true; /* what an engine said of it is still so */
    if (c->anew) {
        c->anew = asked = false;
        c->retry = true;
        c->pressed_s = 0;
        search_drop_tables(c);
    } else if (narrowed && c->level != c->tried_level) {
        asked = false;
        c->tried_level = c->level;
        c->levels |=
            c->top - c->level < LEVELS ? 1ULL << (c->top - c->level) : 0;
        c->record.lower_bound_s = c->proven_s;
        search_drop_tables(c);
    } else if (!misfit || isinf(c->record.lower_bound_s)) {
        return;
    }
    c->settled = narrowed && (!still_open(z, c) || c->exhausted);
    /* A plan that is better than the one kept was not kept itself. */
    if (asked && isfinite(c->record.iteration_s) &&
        c->record.iteration_s >= z->best_s)
        return;
    c->tried = false;
    c->asked_s = 0;
    c->record.iteration_s = INFINITY;
    c->record.status = "limit";
}

static void reopen_all(search_level0 *z, bool misfit)
{
    z->best = NULL;
    z->best_s = z->kept.from ? z->kept.cost_s : search_wanted(z->problem);
    for (int32_t k = 0; k < z->all.n; k++)
        reopen(z, z->all.at[k], misfit);
}

static fs_status next_round(search_level0 *z, bool misfit, fs_err *err)
{
    reopen_all(z, misfit);
    return search_explore(z, err);
}

static int64_t largest(const int64_t *limit, int32_t n)
{
    int64_t most = 0;
    for (int32_t i = 0; i < n; i++)
        most = limit[i] > most ? limit[i] : most;
    return most;
}

/* A configuration's lean plans on their way: of the tables of `anew`. */
typedef struct leaning {
    search_level0 *z;
    search_candidate *c, anew;
    search_built built;
    int64_t *limit, *bytes; /* [stages] */
    search_lean lean;
    bool refused; /* one would have been the best, had it fitted */
} leaning;

/* Lowers a plan, and keeps it if it is the best that fits. */
static bool look_at(void *ctx, const search_lean_plan *lean)
{
    leaning *l = ctx;
    search_level0 *z = l->z;
    search_kept found =
        search_whole_plan(z, &l->anew, &l->built,
                          &(search_mix){.value = lean->value}, lean->cost);
    search_fit fit = {l->bytes, NULL, true, false};
    if (!search_fits_or(z->problem, found.graph, l->limit, found.strategy,
                        &fit)) {
        note_misfit(z, &found, l->limit, l->bytes);
        l->refused |= !z->kept.from || found.cost_s < z->kept.cost_s;
        return false;
    }
    if (z->kept.from && found.cost_s >= z->kept.cost_s)
        return true;
    found.from = l->c;
    found.fits = true;
    found.guessed = fit.guessed;
    found.net_nodes = found.kernel_nodes = l->built.net.n_nodes;
    found.net_edges = l->built.net.n_edges;
    search_keep(z, &found);
    z->lean_s = found.cost_s;
    return true;
}

/* Lean plans of its own tables, which bind every moment, whatever the limit.
 * They live in the arena of l->anew, which is made; false: there are none. */
static bool lean_plans_of(search_level0 *z, search_candidate *c, bool leanest,
                          leaning *l)
{
    search_candidate *anew = &l->anew;
    search_built *built = &l->built;
    *l = (leaning){.z = z, .c = c};
    *anew = search_anew(c);
    anew->whole = c->whole;
    anew->bare = true;
    search_layout *layout = &anew->shown;
    fs_err err = {0};
    if (search_lay_out(z, anew, &err) != FS_OK)
        return false;
    l->limit = fs_new(anew->arena, int64_t, c->n_stages);
    l->bytes = fs_new(anew->arena, int64_t, c->n_stages);
    stage_limits(z, &anew->layout, l->limit);
    layout->end = z->end;
    for (int32_t i = 0; i < layout->n_stages; i++)
        layout->limit_bytes[i] = 0;
    if (!search_build_nodes(z->problem, layout, anew->arena, built) ||
        built->empty >= 0 || !search_build_edges(anew->arena, built))
        return false;
    z->n_anchored++;
    anew->steps = built->steps;
    const search_lean_wish leanest_will_do = {.below_s = INFINITY};
    const search_lean_wish wish = {.limit = largest(l->limit, c->n_stages),
                                   .below_s =
                                       z->kept.from ? z->kept.cost_s : INFINITY,
                                   .fits = look_at,
                                   .ctx = l};
    search_lean_plans(&built->net, leanest ? &leanest_will_do : &wish,
                      leanest ? search_rest(z, anew)
                              : search_lean_rest(z, anew),
                      anew->arena, &l->lean);
    c->steps += anew->steps;
    return true;
}

bool search_anchor_one(search_level0 *z, search_candidate *c)
{
    leaning l;
    c->anchored = true;
    lean_plans_of(z, c, false, &l);
    fs_arena_destroy(l.anew.arena);
    return l.refused;
}

/* ---- where nothing fits ---- */

static int by_need(const void *a, const void *b)
{
    const search_candidate *x = *(search_candidate *const *)a,
                           *y = *(search_candidate *const *)b;
    if (x->need_bytes != y->need_bytes)
        return x->need_bytes < y->need_bytes ? -1 : 1;
    return x->mesh.n - y->mesh.n; /* networks of fewer axes are smaller */
}

static void note_plan(leaning *l, const search_lean_plan *lean)
{
    const search_kept found =
        search_whole_plan(l->z, &l->anew, &l->built,
                          &(search_mix){.value = lean->value}, lean->cost);
    if (!search_fits(l->z->problem, found.graph, l->limit, found.strategy,
                     l->bytes))
        note_misfit(l->z, &found, l->limit, l->bytes);
}

/* The leanest plan of a configuration that memory forbids, and the fastest,
 * which may be leaner when it is lowered. */
static void note_leanest(search_level0 *z, search_candidate *c)
{
    leaning l;
    int32_t least = 0;
    const bool found = lean_plans_of(z, c, true, &l);
    const search_lean_plan *plans = l.lean.plans.at;
    for (int32_t k = 1; found && k < l.lean.plans.n; k++)
        if (plans[k].bytes < plans[least].bytes)
            least = k;
    if (found && l.lean.plans.n)
        note_plan(&l, &plans[least]);
    if (found && least > 0)
        note_plan(&l, &plans[0]);
    fs_arena_destroy(l.anew.arena);
}

void search_find_leanest(search_level0 *z)
{
    enum { FEW = 16 };
    search_candidate **list =
        fs_new(z->scratch, search_candidate *, z->all.n + 1);
    int32_t n = 0;
    for (int32_t k = 0; k < z->all.n; k++)
        if (z->all.at[k]->need_bytes > 0)
            list[n++] = z->all.at[k];
    if (n > 0)
        qsort(list, (size_t)n, sizeof *list, by_need);
    for (int32_t k = 0; k < n && k < FEW && !search_over(z); k++)
        if (!z->n_misfits || list[k]->need_bytes < z->misfit_bytes)
            note_leanest(z, list[k]);
}

/* Does the bound leave room for a better plan than the one kept? */
static bool has_gap(const search_level0 *z)
{
    double enough_s = search_near(z->kept.cost_s, z->problem->gap);
    for (int32_t k = 0; k < z->all.n; k++)
        if (!search_proven(search_bound(z->all.at[k]), enough_s))
            return true;
    return false;
}

static bool any_solved(const search_level0 *z)
{
    for (int32_t k = 0; k < z->all.n; k++)
        if (isfinite(z->all.at[k]->record.iteration_s))
            return true;
    return false;
}

/* Where the engine's plan did not fit, or is not proven and memory decides,
 * each open configuration that was solved (or, while there is no plan, each) is
 * asked for lean plans before better ones are looked for. What it is asked
 * depends neither on the limit nor on time, so that what is found under one
 * limit is found under every larger one. */
static bool wants_anchor(const search_level0 *z)
{
    if (z->problem->rounds) /* of a planner: another recipe's plan will do */
        return !z->kept.from && isinf(search_wanted(z->problem)) &&
               (z->n_misfits || !any_solved(z));
    return !z->kept.from || (z->memory_decides && has_gap(z));
}

/* A lean plan costs more than the engine's, which need not have fitted, or is
 * what there was when its work was over. What it may win is to be more than
 * what nobody asks for. */
static bool may_be_leaner(const search_level0 *z, const search_candidate *c)
{
    if (!z->kept.from)
        return true;
    const double enough_s = search_near(z->kept.cost_s, z->problem->gap);
    return !search_proven(own_bound(c), enough_s) &&
           !(c->settled && isfinite(c->record.iteration_s) &&
             c->record.iteration_s >= enough_s);
}

static bool is_to_anchor(const search_level0 *z, const search_candidate *c)
{
    const double enough_s =
        search_near(search_wanted(z->problem), z->problem->gap);
    const double bound_s = own_bound(c);
    return !c->anchored && isfinite(bound_s) &&
           !search_proven(bound_s, enough_s) && may_be_leaner(z, c);
}

/* Where memory refuses what would be better, what is computed again may help.
 */
static void anchor_with(search_level0 *z, search_candidate *c)
{
    const int32_t n = z->all.n;
    if (!search_anchor_one(z, c))
        return;
    search_ask_again(z, c);
    if (z->all.n > n && !search_over(z))
        search_anchor_one(z, z->all.at[n]);
}

/* Those first that were solved, and that compute nothing again, whose networks
 * are small. Others have no more than as much again. */
static void anchor(search_level0 *z)
{
    const double begun = (double)search_steps(z);
    double most = INFINITY;
    for (int32_t turn = 0; turn < 4; turn++) {
        const bool again = turn % 2 > 0, solved = turn < 2;
        for (int32_t k = 0; k < z->all.n && !search_over(z); k++) {
            search_candidate *c = z->all.at[k];
            if (c->again == again && c->solved == solved &&
                is_to_anchor(z, c) && (double)search_steps(z) < most)
                anchor_with(z, c);
        }
        if (turn == 1 && z->kept.from)
            most = 2 * (double)search_steps(z) - begun + LEAST_ANCHOR;
    }
}

/* Is the best plan one that does not fit, where that is to be mended soon?
 * Prices of bytes need not have told so. */
static bool misses(search_level0 *z, lowered_best *best)
{
    return z->best && !z->problem->rounds && !keep_best(z, best);
}

/* A plan that does not fit need not be proven first: with the moments that it
 * lacked its configuration mostly has one that does. */
bool search_learn_early(search_level0 *z)
{
    lowered_best best;
    if (z->n_learnt >= LEARNT_EARLY || !misses(z, &best) ||
        !lacks_moments(z, &best))
        return false;
    z->n_learnt++;
    note_best(z, &best);
    reopen_all(z, true);
    return true;
}

void search_anchor_early(search_level0 *z)
{
    lowered_best best;
    if (!misses(z, &best))
        return;
    anchor(z);
    search_shorten_round(z);
}

/* What a search within this one, or a baseline, does is its own. */
static bool wants_rivals(const search_level0 *z)
{
    return z->problem->start && !z->problem->rounds && z->memory_decides &&
           (!z->kept.from || has_gap(z));
}

/* Where nothing better was found, or it fits, each narrowed configuration gets
 * more. Returns how many have levels left to try. */
static int32_t widen_all(search_level0 *z)
{
    int32_t n = 0;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (!search_narrowed(c) || !still_open(z, c) || c->exhausted)
            continue;
        widen(z, c);
        n += !c->exhausted;
    }
    return n;
}

static fs_status explore_rounds(search_level0 *z, fs_err *err)
{
    FS_TRY(search_explore(z, err));
    while (z->round < FIT_ROUNDS) {
        const bool misfit = z->best && !judge(z);
        if (wants_anchor(z))
            anchor(z);
        FS_TRY(search_recut_early(z, err));
        z->round++;
        if (search_over(z) || (!misfit && !widen_all(z)) ||
            (z->kept.from && !has_gap(z)))
            return FS_OK;
        FS_TRY(next_round(z, misfit, err));
    }
    if (z->best)
        judge(z);
    return FS_OK;
}

/* What was settled without that proof has no more to try. */
fs_status search_explore_on(search_level0 *z, double was_enough_s, fs_err *err)
{
    search_candidate *best = z->best;
    z->round = 0;
    z->best = NULL;
    z->best_s = z->kept.cost_s;
    search_release(z, best);
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        const bool spent =
            c->settled && !search_proven(own_bound(c), was_enough_s);
        reopen(z, c, true);
        c->settled |= spent;
        c->asked_s = 0;
        if (isfinite(own_bound(c)) && !search_narrowed(c))
            c->record.status = search_status_of(z, &c->record);
    }
    return explore_rounds(z, err);
}

fs_status search_explore_fitting(search_level0 *z, fs_err *err)
{
    FS_TRY(explore_rounds(z, err));
    if (wants_rivals(z))
        search_try_rivals(z);
    return FS_OK;
}
