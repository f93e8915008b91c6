/* Plans that fit: configurations whose plans do not are narrowed, and lean
 * plans are looked for. */
#include "config.h"
#include "search/narrow.h"

#include "search/anchor.h"
#include "search/attempt.h"
#include "search/built.h"
#include "search/effort.h"
#include "search/fit.h"
#include "search/kept.h"
#include "search/lay_out.h"
#include "search/offers.h"
#include "search/cuts/recut.h"
#include "search/engine/prices.h"
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

bool search_narrowed(const search_candidate *c)
{
    return c->proven_s > 0;
}

double search_wanted(const search_problem *problem)
{
    return problem->below_s > 0 ? problem->below_s : INFINITY;
}

double search_own_bound(const search_candidate *c)
{
    return search_narrowed(c) ? c->proven_s : c->record.lower_bound_s;
}

double search_bound(const search_candidate *c)
{
    return c->covered ? INFINITY : search_own_bound(c); /* another one's */
}

static bool still_open(const search_level0 *z, const search_candidate *c)
{
    return !search_narrowed(c) || !z->kept.from ||
           c->proven_s < search_near(z->kept.cost_s, z->problem->gap);
}

void search_note_misfit(search_level0 *z, const search_kept *found,
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

void search_stage_limits(const search_level0 *z, const search_layout *layout,
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
    if (z->problem->any_plan)
        atomic_store(z->problem->any_plan, true);
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
    search_stage_limits(z, &c->layout, out->as.limit);
    search_fit fit = {out->as.bytes, out->as.fullest, true, false};
    if (!search_fits_or(z->problem, best->graph, out->as.limit, best->strategy,
                        &fit)) {
        if (!c->view)
            search_met_add(search_met_of(c), &c->built.net, value);
        return false;
    }
    search_met_fits(search_met_of(c), &c->built.net, value, cost_s);
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

/* One round of prices says most of what is best of a cut, and what it is not
 * below; where memory decides, greedy's plan fits sooner. */
void search_pose_glance(search_level0 *z, search_candidate *c)
{
    c->asked = fs_new(c->arena, search_asked, 1);
    c->asked->budget = (search_budget){.deadline = search_rest(z, c),
                                       .cutoff = INFINITY,
                                       .reduce = z->problem->reduce,
                                       .without = z->problem->without,
                                       .prices = c->prices,
                                       .rounds = 1};
}

void search_answer_glance(search_level0 *z, search_candidate *c)
{
    search_asked *asked = c->asked;
    search_engine_fn *engine = z->memory_decides ? search_greedy : search_ilp;
    asked->solution.cost = INFINITY;
    asked->status = engine(&c->built.net, &asked->budget, c->arena, &asked->err,
                           &asked->solution);
    if (asked->status != FS_OK)
        asked->solution = (search_solution){.cost = INFINITY};
}

bool search_conclude_glance(search_level0 *z, search_candidate *c)
{
    const double wanted_s =
        z->kept.from ? z->kept.cost_s : search_wanted(z->problem);
    const search_solution *found = &c->asked->solution;
    lowered_best best;
    if (!z->memory_decides && !search_narrowed(c)) /* of less no bound is */
        search_raise_bound(c, found->lower_bound);
    return isfinite(found->cost) &&
           (found->cost >= wanted_s ||
            keep_values(z, c, found->value, found->cost, &best));
}

bool search_glance(search_level0 *z, search_candidate *c, search_solution *out)
{
    search_asked *asked = c->asked; /* by an engine, whose answer may count */
    search_pose_glance(z, c);
    search_answer_glance(z, c);
    *out = c->asked->solution;
    const bool fits = search_conclude_glance(z, c);
    c->asked = asked;
    return fits;
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
        search_note_misfit(z, &best.plan, best.as.limit, best.as.bytes);
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
    search_note_misfit(z, &best->plan, best->as.limit, best->as.bytes);
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

/* Layers of two kinds where it has room for some of the faster one. Is that
 * better, and as near to its own bound as is asked for? */
static bool splice_best(search_level0 *z, search_candidate *c)
{
    const double before_s = z->kept.cost_s;
    const search_ends *ends =
        c->view
            ? search_splice_ends(&c->built.net, z->best_s, search_rest(z, c),
                                 z->problem->without, c->arena)
            : NULL;
    if (ends)
        search_splice(z, c, ends);
    return z->kept.cost_s < before_s &&
           search_proven(c->record.lower_bound_s,
                         search_near(z->kept.cost_s, z->problem->gap));
}

/* Its configuration may be near enough to its own bound with it: but what is
 * enough of all others follows from the best plan. */
void search_lean_best(search_level0 *z)
{
    lowered_best best;
    search_candidate *c = z->best;
    if (z->round > 0 || z->n_learnt == 0 || !c || c->anchored || c->part ||
        z->problem->rounds || search_round_over(z) || !keep_best(z, &best))
        return;
    if (!splice_best(z, c))
        search_anchor_near(z, c);
}

void search_anchor_early(search_level0 *z)
{
    lowered_best best;
    if (!misses(z, &best))
        return;
    search_anchor(z);
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
            search_anchor(z);
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
            c->settled && !search_proven(search_own_bound(c), was_enough_s);
        reopen(z, c, true);
        c->settled |= spent;
        c->asked_s = 0;
        if (isfinite(search_own_bound(c)) && !search_narrowed(c))
            c->record.status = search_status_of(z, &c->record);
    }
    return explore_rounds(z, err);
}

fs_status search_explore_fitting(search_level0 *z, fs_err *err)
{
    FS_TRY(explore_rounds(z, err));
    if (!wants_rivals(z))
        return FS_OK;
    if (z->problem->outgrown) /* they see every layer */
        search_outgrow(z->problem);
    else
        FS_TRY(search_try_rivals(z, err));
    return FS_OK;
}
