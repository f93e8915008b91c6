/* Plans between others (anchor.c asks). The cheapest lean plan that fits leaves
 * room, and the next cheaper one, or what an engine took for the best, is too
 * large, mostly by little: parts of these are taken over as long as that is
 * cheaper within the room, and what is too large is mended (engine/mend.c).
 * What a network counts is less than what a plan takes, by as much as each that
 * is lowered says: rooms are learnt, stage by stage. */
#include "config.h"
#include "search/leaning.h"

#include "search/engine/prices.h"
#include "search/narrow.h"

#include <math.h>

/* What was too large by so little more is tried with so much less. */
#define STEP 0.998
/* What takes so much more than there is room is not mended. */
#define TOO_LARGE 1.25
/* Of what engines met, so many of the last. */
enum { MOST_MET = 32 };

int64_t search_largest(const int64_t *limit, int32_t n)
{
    int64_t most = 0;
    for (int32_t i = 0; i < n; i++)
        most = limit[i] > most ? limit[i] : most;
    return most;
}

/* What a stage's limits may hold, [stages of the network], as that counts. */
typedef struct rooms {
    double *of;
    int64_t *limit; /* [limits] the same */
} rooms;

static int32_t stage_of_limit(const search_built *built, int32_t limit)
{
    const cost_moment *at;
    cost_memory_moments(built->memory, &at);
    return at[built->moment[limit]].stage;
}

static search_span span_of(const leaning *l, int32_t stage)
{
    const search_span *span = l->anew.shown.span;
    return span ? span[stage] : (search_span){stage, stage};
}

static double stage_limit(const leaning *l, int32_t stage)
{
    return (double)l->limit[span_of(l, stage).first];
}

/* What the fullest of the stages that it stands for takes of its limit, as it
 * was lowered. */
static double lowered_share(const leaning *l, int32_t stage)
{
    const search_span all = span_of(l, stage);
    double most = 0;
    for (int32_t i = all.first; i <= all.last; i++)
        most = fmax(most, (double)l->bytes[i] / (double)l->limit[i]);
    return most;
}

static void set_limits(const leaning *l, rooms *r)
{
    const search_built *built = &l->anew.built;
    for (int32_t k = 0; k < built->net.n_limits; k++)
        r->limit[k] = (int64_t)r->of[stage_of_limit(built, k)];
}

/* A plan leaves room, or is too large: so much, as its network counts, as what
 * it takes when lowered says; less than was too much. */
static void learn_rooms(const leaning *l, const search_lean_plan *of, rooms *r)
{
    const search_built *built = &l->anew.built;
    const search_net *net = &built->net;
    const int32_t n = l->anew.shown.n_stages;
    search_sums sums = search_sums_new(net, l->anew.arena);
    double *taken = fs_new(l->anew.arena, double, n);
    search_net_sums(net, of->value, &sums);
    for (int32_t k = 0; k < net->n_limits; k++) {
        const int32_t i = stage_of_limit(built, k);
        taken[i] = fmax(taken[i], (double)sums.bytes[k]);
    }
    for (int32_t i = 0; i < n; i++) {
        const double share = lowered_share(l, i), most = stage_limit(l, i);
        const double by_it = share > 0 ? fmin(most, taken[i] / share) : most;
        r->of[i] = share > 1 ? fmin(by_it, STEP * r->of[i]) : by_it;
    }
    set_limits(l, r);
}

static rooms whole_rooms(const leaning *l)
{
    const int32_t n = l->anew.shown.n_stages;
    rooms r = {fs_new(l->anew.arena, double, n),
               fs_new(l->anew.arena, int64_t, l->anew.built.net.n_limits)};
    for (int32_t i = 0; i < n; i++)
        r.of[i] = stage_limit(l, i);
    set_limits(l, &r);
    return r;
}

static search_lean_plan *add_to_pool(const leaning *l, const int32_t *value,
                                     search_lean *pool)
{
    const search_net *net = &l->anew.built.net;
    const size_t size = (size_t)net->n_nodes * sizeof *value;
    search_sums sums = search_sums_new(net, l->anew.arena);
    search_lean_plan one = {.value = fs_memdup(l->anew.arena, value, size)};
    search_net_sums(net, value, &sums);
    one.cost = search_sums_cost(net, &sums);
    one.bytes = search_largest(sums.bytes, net->n_limits);
    fs_push(l->anew.arena, &pool->plans, one);
    return &pool->plans.at[pool->plans.n - 1];
}

/* What a plan may be mixed of: those of the series, and what engines met, most
 * of which is too large by little. */
static search_lean pool_of(const leaning *l)
{
    search_lean pool = {0};
    search_candidate *c = l->c;
    const search_met *met = c->met;
    c->mixed = met ? met->value.n : 0;
    const bool known = met && search_met_is_of(met, &l->anew.built.net);
    for (int32_t k = 0; k < l->lean.plans.n; k++)
        fs_push(l->anew.arena, &pool.plans, l->lean.plans.at[k]);
    if (!known)
        return pool;
    if (met->fits)
        add_to_pool(l, met->fits, &pool)->fits = true;
    const int32_t n = met->value.n;
    for (int32_t k = n > MOST_MET ? n - MOST_MET : 0; k < n; k++)
        add_to_pool(l, met->value.at[k], &pool);
    return pool;
}

static double kept_s(const leaning *l)
{
    return l->z->kept.from ? l->z->kept.cost_s : search_wanted(l->z->problem);
}

/* By how much the fullest limit has too little room for it. */
static double over_rooms(const leaning *l, const search_lean_plan *of,
                         const rooms *r)
{
    const search_net *net = &l->anew.built.net;
    fs_arena *scratch = fs_arena_create();
    search_sums sums = search_sums_new(net, scratch);
    double most = 0;
    search_net_sums(net, of->value, &sums);
    for (int32_t k = 0; k < net->n_limits; k++)
        most = fmax(most, (double)sums.bytes[k] / (double)r->limit[k]);
    fs_arena_destroy(scratch);
    return most;
}

/* Of those of the pool that are cheaper than what is kept, the one that is too
 * large by least, and by more than `than`. */
static const search_lean_plan *next_nearest(const leaning *l,
                                            const search_lean *pool,
                                            const rooms *r, double *than)
{
    const search_lean_plan *next = NULL;
    double least = INFINITY;
    for (int32_t k = 0; k < pool->plans.n; k++) {
        const search_lean_plan *one = &pool->plans.at[k];
        if (one->fits || one->cost >= kept_s(l))
            continue;
        const double over = over_rooms(l, one, r);
        if (over <= *than || over >= fmin(least, TOO_LARGE))
            continue;
        next = one;
        least = over;
    }
    *than = least;
    return next;
}

/* The other way: what is too large is mended, with as much room as plans that
 * were lowered so far say that there is. */
static void mend_pool(leaning *l, const search_lean *pool, rooms *r,
                      fs_deadline deadline)
{
    enum { MENDED = 4, TRIES = 4 };
    const search_net *net = &l->anew.built.net;
    const size_t size = (size_t)net->n_nodes * sizeof(int32_t);
    const search_lean_plan *of;
    double over = 0;
    for (int32_t k = 0;
         k < MENDED && (of = next_nearest(l, pool, r, &over)) != NULL; k++) {
        for (int32_t t = 0; t < TRIES; t++) {
            search_lean_plan next = *of;
            next.value = fs_memdup(l->anew.arena, of->value, size);
            if (!search_lean_mend(net, pool, r->limit, kept_s(l), deadline,
                                  l->anew.arena, &next))
                break;
            next.fits = search_lean_look(l, &next);
            learn_rooms(l, &next, r);
            if (next.fits)
                break;
        }
    }
}

/* Where the limit lies between two plans, a mixture of them may fit that is
 * cheaper. What is met so depends on the limit. */
void search_blend(leaning *l, fs_deadline deadline)
{
    enum { TRIES = 10, REFUSALS = 5 };
    const search_net *net = &l->anew.built.net;
    const size_t size = (size_t)net->n_nodes * sizeof(int32_t);
    search_lean_plan best = {.cost = INFINITY};
    const search_lean pool = pool_of(l);
    rooms r = whole_rooms(l);
    for (int32_t k = 0; k < pool.plans.n; k++)
        if (pool.plans.at[k].fits && pool.plans.at[k].cost < best.cost)
            best = pool.plans.at[k];
    const search_lean_plan *nearest = NULL;
    double over = 0;
    if (!best.fits && !(nearest = next_nearest(l, &pool, &r, &over)))
        return;
    const bool refused = l->refused;
    l->blends = true;
    if (nearest)
        best = *nearest;
    best.fits = search_lean_look(l, &best);
    learn_rooms(l, &best, &r);
    for (int32_t k = 0, n = 0; k < TRIES && n < REFUSALS && best.fits; k++) {
        search_lean_plan next = best;
        next.value = fs_memdup(l->anew.arena, best.value, size);
        search_lean_blend(net, &pool, r.limit, deadline, l->anew.arena, &next);
        if (!(next.cost < fmin(best.cost, kept_s(l))) ||
            fs_deadline_over(&deadline))
            break;
        next.fits = search_lean_look(l, &next);
        if (next.fits)
            best = next;
        n += !next.fits;
        learn_rooms(l, &next, &r);
    }
    if (!nearest || best.full < TOO_LARGE)
        mend_pool(l, &pool, &r, deadline);
    l->refused = refused;
}
