/* Layers of a stage need not be alike. Where memory has a price, the bound of a
 * folded network mixes assignments that take more than there is and less, and
 * no single one comes near it; a stage whose first layers have the values of
 * one and whose rest has those of the other does (a primal spliced of the
 * dual's minimisers). Each stage has its own price of bytes (engine/fitting.h),
 * its own two assignments, of prices next to each other, and as many layers of
 * the faster one as it has room for. Where they meet, the boxing that they need
 * is paid for. What a plan takes more than its network counts is learnt from
 * the one that was lowered. */
#include "config.h"
#include "search/attempt.h"
#include "search/effort.h"
#include "search/engine/cfn.h"
#include "search/engine/fitting.h"
#include "search/engine/prices.h"
#include "search/fit.h"
#include "search/kept.h"
#include "search/narrow.h"

#include <math.h>
#include <string.h>

enum { ROUNDS = 14, SWEEPS = 20, TRIES = 6 };

/* An assignment with its sums. */
typedef struct end {
    int32_t *value;
    search_sums sums;
} end;

struct search_ends {
    end fast, lean; /* stages of the one take too much, of the other do not */
    int32_t *stage_of; /* [limits] */
};

/* What was met last of each stage: it took too much, or did not. */
typedef struct meeting {
    const int32_t **fast, **lean; /* [stages] NULL: none yet */
} meeting;

static bool keeps_within(const search_net *net, const int32_t *stage_of,
                         int32_t stage, const search_sums *sums)
{
    bool within = true;
    for (int32_t k = 0; k < net->n_limits; k++)
        within &= stage_of[k] != stage || sums->bytes[k] <= net->limit_bytes[k];
    return within;
}

/* NULL: there is none, or no time. */
static const int32_t *minimiser(const search_net *net, const search_prices *at,
                                const search_effort *effort, fs_arena *arena)
{
    fs_arena *scratch = fs_arena_create();
    const int32_t *value = NULL;
    search_minimum min;
    search_cfn_minimise(search_net_priced(net, at, scratch), effort, scratch,
                        &min);
    if (isfinite(min.cost))
        value = fs_memdup(arena, min.value,
                          (size_t)net->n_nodes * sizeof *min.value);
    fs_arena_destroy(scratch);
    return value;
}

static meeting meet(const search_net *net, search_fitting *fitting,
                    const search_effort *effort, fs_arena *arena)
{
    meeting met = {fs_new(arena, const int32_t *, net->n_stages),
                   fs_new(arena, const int32_t *, net->n_stages)};
    search_prices at = search_prices_new(net, arena);
    search_sums sums = search_sums_new(net, arena);
    for (int32_t k = 0; k < ROUNDS; k++) {
        fs_deadline deadline = effort->deadline;
        if (!search_fitting_next(fitting, &sums, &at) ||
            fs_deadline_over(&deadline))
            break;
        const int32_t *value = minimiser(net, &at, effort, arena);
        if (!value)
            break;
        search_net_sums(net, value, &sums);
        for (int32_t i = 0; i < net->n_stages; i++)
            *(keeps_within(net, fitting->stage_of, i, &sums) ? &met.lean[i]
                                                             : &met.fast[i]) =
                value;
    }
    return met;
}

static end put_together(const search_net *net, const int32_t *const *of,
                        fs_arena *arena)
{
    end made = {fs_new(arena, int32_t, net->n_nodes),
                search_sums_new(net, arena)};
    for (int32_t v = 0; v < net->n_nodes; v++)
        made.value[v] = of[net->nodes[v].stage][v];
    search_net_sums(net, made.value, &made.sums);
    return made;
}

search_ends *search_splice_ends(const search_net *net, double scale,
                                fs_deadline deadline, uint32_t without,
                                fs_arena *arena)
{
    const search_effort effort = {.deadline = deadline,
                                  .sweeps = SWEEPS,
                                  .cutoff = INFINITY,
                                  .without = without};
    search_fitting fitting = search_fitting_new(net, scale, arena);
    const meeting met = meet(net, &fitting, &effort, arena);
    for (int32_t i = 0; i < net->n_stages; i++) {
        if (!met.lean[i])
            return NULL;
        if (!met.fast[i])
            met.fast[i] = met.lean[i];
    }
    search_ends *ends = fs_new(arena, search_ends, 1);
    *ends = (search_ends){put_together(net, met.fast, arena),
                          put_together(net, met.lean, arena), fitting.stage_of};
    return ends;
}

/* ---- how many layers of each ---- */

/* [stages] How much of the fast one all limits of a stage have room for; false:
 * the lean ones do not fit beside each other. */
static bool room_for(const search_net *net, const search_ends *ends,
                     double *share)
{
    const search_sums *fast = &ends->fast.sums, *lean = &ends->lean.sums;
    bool room = true;
    for (int32_t i = 0; i < net->n_stages; i++)
        share[i] = 1;
    for (int32_t k = 0; k < net->n_limits; k++) {
        double *of = &share[ends->stage_of[k]];
        const double more = (double)(fast->bytes[k] - lean->bytes[k]);
        const double left = (double)(net->limit_bytes[k] - lean->bytes[k]);
        room &= left >= 0;
        if (more > left)
            *of = fmin(*of, left / more);
    }
    return room;
}

static double mixed_cost(const search_net *net, const search_ends *ends,
                         const double *share, fs_arena *arena)
{
    const search_sums *fast = &ends->fast.sums, *lean = &ends->lean.sums;
    search_sums sums = search_sums_new(net, arena);
    for (int32_t i = 0; i < net->n_stages; i++) {
        sums.micro_s[i] =
            share[i] * fast->micro_s[i] + (1 - share[i]) * lean->micro_s[i];
        sums.step_s[i] =
            share[i] * fast->step_s[i] + (1 - share[i]) * lean->step_s[i];
    }
    return search_sums_cost(net, &sums);
}

/* [stages of the whole] of those that stand for them. */
static void spread(const search_candidate *c, const double *share,
                   double *whole)
{
    for (int32_t i = 0; i < c->shown.n_stages; i++)
        for (int32_t w = c->shown.span[i].first; w <= c->shown.span[i].last;
             w++)
            whole[w] = share[i];
}

/* A stage that took too much has fewer layers of the fast one: by what each
 * takes more, and another one. False: it has none. */
static bool give_way(const search_candidate *c, const search_ends *ends,
                     const int64_t *limit, const int64_t *bytes, double *share)
{
    const search_net *net = &c->built.net;
    const search_sums *fast = &ends->fast.sums, *lean = &ends->lean.sums;
    for (int32_t i = 0; i < net->n_stages; i++) {
        double more = 0, over = 0;
        for (int32_t k = 0; k < net->n_limits; k++)
            if (ends->stage_of[k] == i)
                more = fmax(more, (double)(fast->bytes[k] - lean->bytes[k]));
        for (int32_t w = c->shown.span[i].first; w <= c->shown.span[i].last;
             w++)
            over = fmax(over, (double)(bytes[w] - limit[w]));
        if (over <= 0)
            continue;
        if (more <= 0 || share[i] <= 0)
            return false;
        share[i] = fmax(0, share[i] - 1.1 * over / more);
    }
    return true;
}

static void keep_spliced(search_level0 *z, search_candidate *c,
                         search_kept *found)
{
    found->fits = true;
    found->net_nodes = found->kernel_nodes = c->built.net.n_nodes;
    found->net_edges = c->built.net.n_edges;
    search_keep(z, found);
    if (found->cost_s < z->best_s) {
        z->best = NULL; /* it has been looked at */
        z->best_s = found->cost_s;
    }
    c->record.iteration_s = fmin(c->record.iteration_s, found->cost_s);
}

/* How it came out; of compact graphs nobody lowers what is over by few of its
 * layers. */
typedef struct lowering {
    int64_t *limit, *bytes; /* [stages of the whole] */
    bool told;
} lowering;

static bool fits(const search_level0 *z, search_kept *found, lowering *as)
{
    as->told = !z->problem->outgrown;
    search_fit fit = {as->told ? as->bytes : NULL, NULL, true, false};
    const bool fits = search_fits_or(z->problem, found->graph, as->limit,
                                     found->strategy, &fit);
    found->guessed = fit.guessed;
    return fits;
}

void search_splice(search_level0 *z, search_candidate *c,
                   const search_ends *ends)
{
    const search_net *net = &c->built.net;
    const double kept_s =
        z->kept.from ? z->kept.cost_s : search_wanted(z->problem);
    fs_arena *scratch = fs_arena_create();
    double *share = fs_new(scratch, double, net->n_stages);
    double *whole = fs_new(scratch, double, c->n_stages);
    lowering as = {fs_new(scratch, int64_t, c->n_stages),
                   fs_new(scratch, int64_t, c->n_stages), false};
    search_stage_limits(z, &c->layout, as.limit);
    bool room = room_for(net, ends, share);
    for (int32_t k = 0; k < TRIES && room; k++) {
        if (mixed_cost(net, ends, share, scratch) >= kept_s)
            break;
        spread(c, share, whole);
        search_kept found = search_whole_plan(
            z, c, &c->built,
            &(search_mix){ends->lean.value, ends->fast.value, whole}, INFINITY);
        if (!found.strategy || found.cost_s >= kept_s)
            break;
        if (fits(z, &found, &as)) {
            keep_spliced(z, c, &found);
            break;
        }
        room = as.told && give_way(c, ends, as.limit, as.bytes, share);
    }
    fs_arena_destroy(scratch);
}
