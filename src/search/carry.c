/* What a byte costs at a moment is much the same in configurations that differ
 * by their meshes alone: as many devices hold as much. So one of them is
 * pressed from the prices that another one was pressed to. Potentials are of
 * states, which differ by mesh. */
#include "config.h"
#include "search/carry.h"
#include "search/prices.h"

static search_carried *carried(search_level0 *z, const search_candidate *c)
{
    const cost_moment *at;
    const search_carried anew = {c->graph, c->n_stages,
                                 cost_memory_moments(c->built.memory, &at),
                                 c->again, NULL};
    for (int32_t k = 0; k < z->carried.n; k++) {
        search_carried *one = &z->carried.at[k];
        if (one->graph == anew.graph && one->n_stages == anew.n_stages &&
            one->n_moments == anew.n_moments && one->again == anew.again)
            return one;
    }
    fs_push(z->scratch, &z->carried, anew);
    return &z->carried.at[z->carried.n - 1];
}

void search_carry_to(search_level0 *z, search_candidate *c)
{
    const search_net *net = &c->built.net;
    if (c->prices || !c->view || net->n_limits == 0)
        return;
    const search_carried *from = carried(z, c);
    if (!from->bytes)
        return;
    search_prices *prices = fs_new(c->arena, search_prices, 1);
    *prices = search_prices_new(net, c->arena);
    for (int32_t k = 0; k < net->n_limits; k++)
        prices->bytes[k] = from->bytes[c->built.moment[k]];
    c->prices = prices;
}

void search_carry_from(search_level0 *z, const search_candidate *c)
{
    if (!c->prices)
        return;
    search_carried *to = carried(z, c);
    if (!to->bytes)
        to->bytes = fs_new(z->scratch, double, to->n_moments);
    for (int32_t k = 0; k < c->built.net.n_limits; k++)
        to->bytes[c->built.moment[k]] = c->prices->bytes[k];
}
