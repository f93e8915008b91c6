/* Layers of a stage need not be alike. Where memory has a price, the bound of a
 * folded network mixes assignments that take more than there is and less, and
 * no single one comes near it; a stage whose first layers have the values of
 * one and whose rest has those of the other does (a primal spliced of the
 * dual's minimisers). Where they meet, the boxing that they need is paid for.
 */
#include "config.h"
#include "search/attempt.h"
#include "search/engine/cfn.h"
#include "search/effort.h"
#include "search/fit.h"
#include "search/kept.h"
#include "search/narrow.h"
#include "search/engine/prices.h"

#include <math.h>
#include <string.h>

/* The prices of bytes are scaled by powers of this, so often, until there are
 * assignments of both kinds; then they are brought near each other. */
#define SPREAD 1.3
enum { FAR = 8, NEARER = 6, SWEEPS = 20, TRIES = 2 };

typedef struct splicing {
    const search_net *net;
    const search_prices *at;
    fs_deadline deadline;
    uint32_t without;
    fs_arena *arena; /* of what is found */
    search_prices scaled;
} splicing;

/* An assignment with its sums. */
typedef struct end {
    int32_t *value; /* NULL: none */
    search_sums sums;
} end;

struct search_ends {
    end fast, lean; /* one takes more than there is, the other does not */
};

static bool keeps_within(const search_net *net, const search_sums *sums)
{
    bool within = true;
    for (int32_t k = 0; k < net->n_limits; k++)
        within &= sums->bytes[k] <= net->limit_bytes[k];
    return within;
}

static end minimiser(splicing *s, double scale)
{
    const search_net *net = s->net;
    fs_arena *scratch = fs_arena_create();
    const search_effort effort = {.deadline = s->deadline,
                                  .sweeps = SWEEPS,
                                  .cutoff = INFINITY,
                                  .without = s->without};
    search_minimum min;
    end found = {0};
    search_prices_copy(net, &s->scaled, s->at);
    for (int32_t k = 0; k < net->n_limits; k++)
        s->scaled.bytes[k] *= scale;
    search_cfn_minimise(search_net_priced(net, &s->scaled, scratch), &effort,
                        scratch, &min);
    if (isfinite(min.cost)) {
        found.value = fs_memdup(s->arena, min.value,
                                (size_t)net->n_nodes * sizeof *min.value);
        found.sums = search_sums_new(net, s->arena);
        search_net_sums(net, found.value, &found.sums);
    }
    fs_arena_destroy(scratch);
    return found;
}

/* One that takes too much and one that does not, at prices as near as they
 * were found. False: there are not both. */
static bool find_ends(splicing *s, end *fast, end *lean)
{
    const search_net *net = s->net;
    double low = 1, high = 1;
    end at = minimiser(s, 1);
    *fast = *lean = (end){0};
    for (int32_t k = 0; at.value && k <= FAR; k++) {
        const bool within = keeps_within(net, &at.sums);
        *(within ? lean : fast) = at;
        if (lean->value && fast->value)
            break;
        *(within ? &low : &high) *= within ? 1 / SPREAD : SPREAD;
        at = minimiser(s, within ? low : high);
    }
    if (!lean->value || !fast->value)
        return false;
    if (high <= 1)
        high = low * SPREAD;
    else
        low = high / SPREAD;
    for (int32_t k = 0; k < NEARER; k++) {
        const double scale = sqrt(low * high);
        at = minimiser(s, scale);
        if (!at.value)
            break;
        const bool within = keeps_within(net, &at.sums);
        *(within ? lean : fast) = at;
        *(within ? &high : &low) = scale;
    }
    return true;
}

/* How much of the fast one all limits have room for. */
static double room_for(const search_net *net, const end *fast, const end *lean)
{
    double share = 1;
    for (int32_t k = 0; k < net->n_limits; k++) {
        const double more = (double)(fast->sums.bytes[k] - lean->sums.bytes[k]);
        const double room = (double)(net->limit_bytes[k] - lean->sums.bytes[k]);
        if (more > room)
            share = fmin(share, room / more);
    }
    return share;
}

static double mixed_cost(const search_net *net, const end *fast,
                         const end *lean, double share, fs_arena *arena)
{
    search_sums sums = search_sums_new(net, arena);
    for (int32_t i = 0; i < net->n_stages; i++) {
        sums.micro_s[i] =
            share * fast->sums.micro_s[i] + (1 - share) * lean->sums.micro_s[i];
        sums.step_s[i] =
            share * fast->sums.step_s[i] + (1 - share) * lean->sums.step_s[i];
    }
    return search_sums_cost(net, &sums);
}

search_ends *search_splice_ends(const search_net *net, const search_prices *at,
                                fs_deadline deadline, uint32_t without,
                                fs_arena *arena)
{
    splicing s = {.net = net,
                  .at = at,
                  .deadline = deadline,
                  .without = without,
                  .arena = arena,
                  .scaled = search_prices_new(net, arena)};
    search_ends *ends = fs_new(arena, search_ends, 1);
    return find_ends(&s, &ends->fast, &ends->lean) ? ends : NULL;
}

static bool fits(const search_level0 *z, search_kept *found, fs_arena *arena)
{
    const plan_strategy *p = found->strategy;
    int64_t *limit = fs_new(arena, int64_t, p->n_stages);
    for (int32_t i = 0; i < p->n_stages; i++)
        limit[i] = search_device_bytes(z->problem, &p->stages[i]);
    search_fit fit = {NULL, NULL, true, false};
    const bool fits =
        search_fits_or(z->problem, found->graph, limit, found->strategy, &fit);
    found->guessed = fit.guessed;
    return fits;
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

void search_splice(search_level0 *z, search_candidate *c,
                   const search_ends *ends)
{
    const search_net *net = &c->built.net;
    const end *fast = &ends->fast, *lean = &ends->lean;
    fs_arena *scratch = fs_arena_create();
    double share = room_for(net, fast, lean);
    for (int32_t k = 0; k < TRIES && share > 0; k++) {
        if (mixed_cost(net, fast, lean, share, scratch) >= z->best_s)
            break;
        search_kept found = search_whole_plan(
            z, c, &c->built, &(search_mix){lean->value, fast->value, share},
            INFINITY);
        if (!found.strategy || found.cost_s >= z->best_s)
            break;
        if (fits(z, &found, scratch)) {
            keep_spliced(z, c, &found);
            break;
        }
        share -= 0.05 * (k + 1);
    }
    fs_arena_destroy(scratch);
}
