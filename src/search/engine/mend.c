/* An assignment that exceeds limits by little becomes one that keeps them:
 * node by node, the changes that cost least seconds for what they take off. */
#include "config.h"
#include "search/engine/engine.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>

/* Rounds; what to put a value and to take it back is, of each sum. */
enum { SWEEPS = 4, PUT_STEPS = 4 };
/* A change that takes less off the excess, limits being 1, is none; and how
 * much dearer it may be when its turn comes. */
#define LEAST_OFF 1e-9
#define STILL 1.5

static double excess(const search_net *net, const search_sums *sums)
{
    double over = 0;
    for (int32_t k = 0; k < net->n_limits; k++)
        over +=
            fmax(0, (double)sums->bytes[k] / (double)net->limit_bytes[k] - 1);
    return over;
}

static bool exceeds(const search_net *net, const search_sums *sums,
                    const search_load *loads, int32_t n)
{
    for (int32_t k = 0; k < n; k++)
        if (sums->bytes[loads[k].limit] > net->limit_bytes[loads[k].limit])
            return true;
    return false;
}

/* Does it, or an edge of it, load what is exceeded? */
static bool is_of_use(const search_moves *m, int32_t i)
{
    const search_net *net = m->net;
    if (net->nodes[i].n < 2)
        return false;
    bool any =
        exceeds(net, &m->sums, net->nodes[i].loads, net->nodes[i].n_loads);
    for (int32_t k = m->at.first[i]; k < m->at.first[i + 1] && !any; k++) {
        const search_net_edge *edge = &net->edges[m->at.edge[k]];
        any = exceeds(net, &m->sums, edge->loads, edge->n_loads);
    }
    return any;
}

typedef struct change {
    int32_t node, value;
    double dearer; /* seconds for all of the excess */
} change;

/* What a legal value takes and takes off; the node stays as it is. */
static double dearer_by(search_moves *m, int32_t i, int32_t s, double cost,
                        double over)
{
    const int32_t old = m->value[i];
    m->steps += PUT_STEPS * m->n_tied + m->net->n_stages + m->net->n_limits;
    search_moves_put(m, i, s);
    const double less = over - excess(m->net, &m->sums);
    const double more = fmax(0, search_sums_cost(m->net, &m->sums) - cost);
    search_moves_put(m, i, old);
    return less > LEAST_OFF ? more / less : INFINITY;
}

static change best_of(search_moves *m, int32_t i, double cost, double over)
{
    change best = {i, m->value[i], INFINITY};
    for (int32_t s = 0; s < m->net->nodes[i].n; s++) {
        if (s == m->value[i] || !search_moves_legal(m, i, s))
            continue;
        const double dearer = dearer_by(m, i, s, cost, over);
        if (dearer < best.dearer)
            best = (change){i, s, dearer};
    }
    return best;
}

static int by_price(const void *a, const void *b)
{
    const change *x = a, *y = b;
    if (x->dearer < y->dearer || x->dearer > y->dearer)
        return x->dearer < y->dearer ? -1 : 1;
    return (x->node > y->node) - (x->node < y->node);
}

/* The best change of each node, cheapest first, as long as limits are exceeded
 * and it is still worth about as much. False: nothing was changed. */
static bool sweep(search_moves *m, change *list, const fs_deadline *deadline)
{
    const search_net *net = m->net;
    double over = excess(net, &m->sums), cost = search_sums_cost(net, &m->sums);
    int32_t n = 0;
    bool any = false;
    for (int32_t i = 0; i < net->n_nodes && !fs_deadline_over(deadline); i++) {
        if (!is_of_use(m, i))
            continue;
        const change best = best_of(m, i, cost, over);
        if (isfinite(best.dearer))
            list[n++] = best;
    }
    qsort(list, (size_t)n, sizeof *list, by_price);
    for (int32_t k = 0; k < n && over > 0; k++) {
        const change *c = &list[k];
        if (!search_moves_legal(m, c->node, c->value) ||
            dearer_by(m, c->node, c->value, cost, over) > STILL * c->dearer)
            continue;
        search_moves_put(m, c->node, c->value);
        over = excess(net, &m->sums);
        cost = search_sums_cost(net, &m->sums);
        any = true;
    }
    return any;
}

double search_net_mend(const search_net *net, int32_t *value,
                       fs_deadline deadline, fs_arena *arena)
{
    search_moves m = search_moves_new(net, value, arena);
    change *list = fs_new(arena, change, net->n_nodes);
    int64_t spent = 0;
    for (int32_t n = 0;
         n < SWEEPS && excess(net, &m.sums) > 0 && !fs_deadline_over(&deadline);
         n++) {
        const bool any = sweep(&m, list, &deadline);
        fs_deadline_spend(&deadline, m.steps - spent);
        spent = m.steps;
        if (!any)
            break;
    }
    return search_net_cost(net, value);
}
