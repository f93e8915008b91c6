/* Prices by the boxstep method (Marsten, Hogan, Blankenship, Operations
 * Research 23(3), 1975): every assignment met is a plane above the bound as a
 * function of the prices; the next prices are where the lowest plane is
 * highest, in a box about the best prices known. A box whose planes end inside
 * it proves that no prices do better; the LP is in milp.c. Subgradients, which
 * need no LP, can stay where they began when a stage's time jumps with the
 * price. */
#include "config.h"
#include "search/engine/prices.h"

#include "search/engine/engine.h"

#include <math.h>
#include <string.h>

/* Of all prices together, where nothing is known. */
#define FIRST_REACH 0.25
/* Reach after a step that proves more, and after one that does not; where what
 * was lost is more than so many times what was hoped for, that many times less,
 * this many at most (Linderoth, Wright, Computational Optimization and
 * Applications 24, 2003). */
#define LONGER 2
#define SHORTER 0.7
#define FAR_OFF 3
#define FAR_MOST 4

static void set_even(const search_net *net, search_prices *p)
{
    for (int32_t i = 0; i < net->n_stages; i++)
        p->micro[i] = p->step[i] = 1.0 / net->n_stages;
    for (int32_t k = 0; k < net->n_limits; k++)
        p->bytes[k] = 0;
}

search_prices search_prices_new(const search_net *net, fs_arena *arena)
{
    search_prices p = {fs_new(arena, double, net->n_stages),
                       fs_new(arena, double, net->n_stages),
                       fs_new(arena, double, net->n_limits), net->n_stages,
                       net->n_limits};
    set_even(net, &p);
    return p;
}

void search_prices_copy(const search_net *net, search_prices *to,
                        const search_prices *from)
{
    const size_t bytes = (size_t)net->n_stages * sizeof(double);
    set_even(net, to);
    if (from->n_stages != net->n_stages)
        return;
    memcpy(to->micro, from->micro, bytes);
    memcpy(to->step, from->step, bytes);
    if (from->n_limits == net->n_limits)
        memcpy(to->bytes, from->bytes, (size_t)net->n_limits * sizeof(double));
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
}

bool search_prices_equal(const search_net *net, const search_prices *a,
                         const search_prices *b)
{
    bool equal = true;
    for (int32_t i = 0; i < net->n_stages; i++)
        equal = equal && near(a->micro[i], b->micro[i]) &&
                near(a->step[i], b->step[i]);
    for (int32_t k = 0; k < net->n_limits; k++)
        equal = equal && near(a->bytes[k], b->bytes[k]);
    return equal;
}

void search_bundle_add(search_bundle *b, const search_sums *sums)
{
    const search_net *net = b->net;
    size_t stages = (size_t)net->n_stages * sizeof(double);
    search_sums copy = {fs_memdup(b->arena, sums->micro_s, stages),
                        fs_memdup(b->arena, sums->step_s, stages),
                        fs_memdup(b->arena, sums->bytes,
                                  (size_t)net->n_limits * sizeof(int64_t)),
                        NULL};
    fs_push(b->arena, &b->planes, copy);
}

bool search_met_is_of(const search_met *met, const search_net *net)
{
    bool same = met->n_nodes == net->n_nodes;
    for (int32_t i = 0; same && i < net->n_nodes; i++)
        same = met->dom[i] == net->nodes[i].n;
    return same;
}

/* What was met of another network is of no use any more. */
static void take_dom(search_met *met, const search_net *net)
{
    if (search_met_is_of(met, net))
        return;
    met->value.n = 0;
    met->fits = NULL;
    met->n_nodes = net->n_nodes;
    met->dom = fs_new(met->arena, int32_t, net->n_nodes);
    for (int32_t i = 0; i < net->n_nodes; i++)
        met->dom[i] = net->nodes[i].n;
}

void search_met_add(search_met *met, const search_net *net,
                    const int32_t *value)
{
    take_dom(met, net);
    int32_t *copy =
        fs_memdup(met->arena, value, (size_t)net->n_nodes * sizeof *value);
    fs_push(met->arena, &met->value, copy);
}

void search_met_fits(search_met *met, const search_net *net,
                     const int32_t *value, double cost_s)
{
    take_dom(met, net);
    if (met->fits && met->fits_s <= cost_s)
        return;
    met->fits_s = cost_s;
    met->fits =
        fs_memdup(met->arena, value, (size_t)net->n_nodes * sizeof *value);
}

/* Tables are the same but for bytes; what is forbidden by now is no plane. */
bool search_bundle_recall(search_bundle *b, const search_met *met)
{
    const search_net *net = b->net;
    if (!search_met_is_of(met, net))
        return false;
    fs_arena *scratch = fs_arena_create();
    search_sums sums = search_sums_new(net, scratch);
    for (int32_t k = 0; k < met->value.n; k++) {
        search_net_sums(net, met->value.at[k], &sums);
        bool finite = true;
        for (int32_t i = 0; i < net->n_stages; i++)
            finite = finite && isfinite(sums.micro_s[i] + sums.step_s[i]);
        if (finite)
            search_bundle_add(b, &sums);
    }
    fs_arena_destroy(scratch);
    return true;
}

search_bundle search_bundle_new(const search_net *net, fs_arena *arena)
{
    return (search_bundle){.net = net,
                           .arena = arena,
                           .centre = search_prices_new(net, arena),
                           .proven = -INFINITY,
                           .hope = INFINITY,
                           .reach = FIRST_REACH};
}

/* The first prices say nothing of a step. */
void search_bundle_learn(search_bundle *b, const search_prices *tried,
                         double bound)
{
    const double off = (b->proven - bound) / (b->hope - b->proven);
    if (bound > b->proven) {
        if (isfinite(b->proven))
            b->reach = fmin(1, LONGER * b->reach);
        search_prices_copy(b->net, &b->centre, tried);
        b->proven = bound;
    } else {
        b->reach *= off > FAR_OFF ? 1 / fmin(off, FAR_MOST) : SHORTER;
    }
}

/* Of a promise, how much of what is wanted is near enough. */
#define NEAR_ENOUGH 0.8

/* What is promised is concave in the reach: a share of the reach promises no
 * less than that share of the gain. */
double search_bundle_near(const search_bundle *bundle, double want,
                          double promise, search_prices *out, int64_t *steps)
{
    enum { LOOKS = 6 };
    search_bundle near = *bundle;
    fs_arena *scratch = fs_arena_create();
    search_prices nearer = search_prices_new(near.net, scratch);
    for (int32_t k = 0; k < LOOKS; k++) {
        const double share = (want - near.proven) / (promise - near.proven);
        if (!(share < NEAR_ENOUGH))
            break;
        near.reach *= share;
        const double next = search_bundle_next(&near, &nearer, steps);
        if (isinf(next) || next < want - 1e-9 * fabs(want))
            break; /* by rounding */
        search_prices_copy(near.net, out, &nearer);
        promise = next;
    }
    fs_arena_destroy(scratch);
    return promise;
}
