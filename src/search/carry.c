/* What a byte costs at a moment is much the same in configurations that differ
 * by their meshes or cuts alone: as many devices hold as much. So one of them
 * begins at the prices that another one proved most at; and so does each of
 * itself, once there are more moments, which have no price yet. Where planes
 * are what prices are raised by, so does one of as many stages that differs by
 * the size of micro-batches: its devices hold other amounts, but the same ones
 * are full. Potentials are of states, which differ by mesh. */
#include "config.h"
#include "search/carry.h"
#include "search/engine/prices.h"

#include <string.h>

static search_carried *carried(search_level0 *z, const search_candidate *c)
{
    const search_carried anew = {
        .graph = c->graph, .n_stages = c->n_stages, .again = c->again};
    for (int32_t k = 0; k < z->carried.n; k++) {
        search_carried *one = &z->carried.at[k];
        if (one->graph == anew.graph && one->n_stages == anew.n_stages &&
            one->again == anew.again)
            return one;
    }
    fs_push(z->scratch, &z->carried, anew);
    return &z->carried.at[z->carried.n - 1];
}

/* Of as many stages, whatever the size of micro-batches. */
static const search_carried *last_of(const search_level0 *z,
                                     const search_candidate *c,
                                     const search_carried *none)
{
    for (int32_t k = z->carried.n - 1; k >= 0; k--) {
        const search_carried *one = &z->carried.at[k];
        if (one->micro && one->n_stages == c->n_stages &&
            one->again == c->again)
            return one;
    }
    return none;
}

/* Planes are forgiving: they lead away from prices that are off in a round or
 * two, subgradients do not. */
static bool has_planes(const search_level0 *z, const search_candidate *c)
{
    return c->again || !z->problem->again;
}

/* The moment that a limit of its network is of. */
static const cost_moment *moment_of(const search_candidate *c, int32_t limit)
{
    const cost_moment *at;
    cost_memory_moments(c->built.memory, &at);
    return &at[c->built.moment[limit]];
}

static int32_t find(const search_carried *from, const cost_moment *moment)
{
    for (int32_t k = 0; k < from->moments.n; k++)
        if (cost_moment_equal(&from->moments.at[k], moment))
            return k;
    return -1;
}

void search_carry_to(search_level0 *z, search_candidate *c)
{
    const search_net *net = &c->built.net;
    if (c->prices || !c->view || net->n_limits == 0)
        return;
    const search_carried *from = carried(z, c);
    if (!from->micro && has_planes(z, c))
        from = last_of(z, c, from);
    if (!from->micro)
        return;
    search_prices *prices = fs_new(c->arena, search_prices, 1);
    *prices = search_prices_new(net, c->arena);
    memcpy(prices->micro, from->micro,
           (size_t)net->n_stages * sizeof *from->micro);
    memcpy(prices->step, from->step,
           (size_t)net->n_stages * sizeof *from->step);
    for (int32_t k = 0; k < net->n_limits; k++) {
        const int32_t at = find(from, moment_of(c, k));
        prices->bytes[k] = at < 0 ? 0 : from->bytes.at[at];
    }
    c->prices = prices;
}

void search_carry_from(search_level0 *z, const search_candidate *c)
{
    if (!c->prices || !c->view)
        return;
    const search_net *net = &c->built.net;
    const size_t stages = (size_t)net->n_stages * sizeof(double);
    search_carried *to = carried(z, c);
    to->micro = fs_memdup(z->scratch, c->prices->micro, stages);
    to->step = fs_memdup(z->scratch, c->prices->step, stages);
    for (int32_t k = 0; k < net->n_limits; k++) {
        const int32_t at = find(to, moment_of(c, k));
        if (at >= 0) {
            to->bytes.at[at] = c->prices->bytes[k];
            continue;
        }
        fs_push(z->scratch, &to->moments, *moment_of(c, k));
        fs_push(z->scratch, &to->bytes, c->prices->bytes[k]);
    }
}
