/* Which rings and ways there are hangs on the wires alone, never on how wide
 * they are: so a wire with less never moves what others carry to a better
 * place. */
#include "config.h"
#include "hw/wires.h"

#include "hw/packing.h"

#include <math.h>
#include <string.h>

enum { MOST_ROWS = 400, NOWHERE = HW_MOST_WIRED + 1 };

/* The ways of fewest wires between devices of a mask, of these the cheapest.
 * [to * n + from]. */
typedef struct paths {
    const hw_wiring *wiring;
    int32_t n;
    uint64_t mask;
    int32_t *hops;
    double *cost;
    int32_t *arc; /* next on the way: 2 wire, and 1 from its end b */
} paths;

static int32_t arc_from(const hw_wiring *w, int32_t arc)
{
    return arc % 2 ? w->wires[arc / 2].b : w->wires[arc / 2].a;
}

static int32_t arc_to(const hw_wiring *w, int32_t arc)
{
    return arc_from(w, arc ^ 1);
}

/* ---- ways ---- */

static bool is_in(const paths *p, int32_t device)
{
    return p->mask >> device & 1;
}

/* By rounds from a device. */
static void count_hops(const paths *p, int32_t to, int32_t *hops)
{
    for (int32_t i = 0; i < p->n; i++)
        hops[i] = i == to ? 0 : NOWHERE;
    for (int32_t round = 1, found = 1; found; round++) {
        found = 0;
        for (int32_t k = 0; k < 2 * p->wiring->n_wires; k++) {
            const int32_t from = arc_from(p->wiring, k);
            if (is_in(p, from) && hops[from] == NOWHERE &&
                hops[arc_to(p->wiring, k)] == round - 1) {
                hops[from] = round;
                found = 1;
            }
        }
    }
}

static paths paths_of(const hw_wiring *wiring, uint64_t mask, fs_arena *arena)
{
    const size_t n = (size_t)wiring->devices;
    paths p = {wiring,
               wiring->devices,
               mask,
               fs_new(arena, int32_t, n * n),
               fs_new(arena, double, n *n),
               fs_new(arena, int32_t, n * n)};
    for (int32_t to = 0; to < p.n; to++)
        if (is_in(&p, to))
            count_hops(&p, to, p.hops + to * p.n);
    return p;
}

/* Of ways that cost the same the one by the lowest wire. */
static void price_to(paths *p, int32_t to, const double *price)
{
    const int32_t *hops = p->hops + to * p->n;
    double *cost = p->cost + to * p->n;
    int32_t most = 0;
    for (int32_t i = 0; i < p->n; i++) {
        cost[i] = i == to ? 0 : INFINITY;
        if (is_in(p, i) && hops[i] < NOWHERE && hops[i] > most)
            most = hops[i];
    }
    for (int32_t round = 1; round <= most; round++)
        for (int32_t k = 0; k < 2 * p->wiring->n_wires; k++) {
            const int32_t from = arc_from(p->wiring, k);
            const int32_t by = arc_to(p->wiring, k);
            if (!is_in(p, from) || !is_in(p, by) || hops[from] != round ||
                hops[by] != round - 1)
                continue;
            const double its = cost[by] + (price ? price[k] : 0);
            if (its < cost[from]) {
                cost[from] = its;
                p->arc[to * p->n + from] = k;
            }
        }
}

static void price_all(paths *p, const double *price)
{
    for (int32_t to = 0; to < p->n; to++)
        if (is_in(p, to))
            price_to(p, to, price);
}

static void follow(const paths *p, int32_t from, int32_t to, double *use)
{
    while (from != to) {
        const int32_t k = p->arc[to * p->n + from];
        use[k]++;
        from = arc_to(p->wiring, k);
    }
}

static double *arc_bps(const hw_wiring *w, fs_arena *arena)
{
    double *bps = fs_new(arena, double, 2 * w->n_wires);
    for (int32_t k = 0; k < 2 * w->n_wires; k++)
        bps[k] = w->wires[k / 2].bandwidth_bps;
    return bps;
}

/* How often the fullest wire can carry that. */
static double least_of(const hw_wiring *w, const double *load)
{
    double least = INFINITY;
    for (int32_t k = 0; k < 2 * w->n_wires; k++)
        if (load[k] > 0)
            least = fmin(least, w->wires[k / 2].bandwidth_bps / load[k]);
    return least;
}

typedef struct way_picker {
    paths paths;
    const hw_transfer *at;
} way_picker;

static void pick_way(void *ctx, int32_t d, const double *price, double *use)
{
    way_picker *x = ctx;
    if (d == 0)
        price_all(&x->paths, price);
    follow(&x->paths, x->at[d].from, x->at[d].to, use);
}

/* All by the first way. */
static double by_first_way(way_picker *x, int32_t n, fs_arena *arena)
{
    const hw_wiring *w = x->paths.wiring;
    double *load = fs_new(arena, double, 2 * w->n_wires);
    double *use = fs_new(arena, double, 2 * w->n_wires);
    price_all(&x->paths, NULL);
    for (int32_t i = 0; i < n; i++) {
        memset(use, 0, 2 * (size_t)w->n_wires * sizeof *use);
        follow(&x->paths, x->at[i].from, x->at[i].to, use);
        for (int32_t k = 0; k < 2 * w->n_wires; k++)
            load[k] += use[k] * x->at[i].bytes;
    }
    return least_of(w, load);
}

static uint64_t all_of(const hw_wiring *wiring)
{
    return wiring->devices < 64 ? ((uint64_t)1 << wiring->devices) - 1
                                : ~(uint64_t)0;
}

hw_share hw_wires_ways(const hw_wiring *wiring, const hw_transfer *at,
                       int32_t n)
{
    fs_arena *scratch = fs_arena_create();
    way_picker x = {paths_of(wiring, all_of(wiring), scratch), at};
    double *bytes = fs_new(scratch, double, n);
    hw_share out = {0};
    for (int32_t i = 0; i < n; i++) {
        const int32_t hops = x.paths.hops[at[i].to * x.paths.n + at[i].from];
        bytes[i] = at[i].bytes;
        out.hops = hops > out.hops ? hops : out.hops;
    }
    const hw_packing p = {
        2 * wiring->n_wires, n, arc_bps(wiring, scratch), bytes, pick_way, &x};
    out.bps = p.n_links + n <= MOST_ROWS ? hw_pack(&p, NULL)
                                         : by_first_way(&x, n, scratch);
    fs_arena_destroy(scratch);
    return out;
}

/* ---- rings ---- */

/* The members of a set, and orders of them that are tried where there are too
 * many for all. */
typedef struct circle {
    paths paths;
    int32_t n;
    const int32_t *member;
    int32_t hops; /* its neighbours are apart at most */
    int32_t n_orders;
    int32_t *order; /* [n_orders][n] places among the members */
} circle;

typedef struct ring_picker {
    const hw_wiring *wiring;
    circle *circles;
} ring_picker;

static int32_t hops_of(const circle *c, int32_t i, int32_t k)
{
    return c->paths.hops[c->member[k] * c->paths.n + c->member[i]];
}

static double cost_of(const circle *c, int32_t i, int32_t k)
{
    return hops_of(c, i, k) > c->hops
               ? INFINITY
               : c->paths.cost[c->member[k] * c->paths.n + c->member[i]];
}

/* The cheapest ring through all members, from the first and back (Held and
 * Karp 1962): best[s][k] through the set s of the others, k last. */
static double best_order(const circle *c, int32_t *order)
{
    enum { OTHERS = HW_MOST_ORDERED - 1, SETS = 1 << OTHERS };
    double best[SETS][OTHERS];
    int8_t before[SETS][OTHERS];
    const int32_t n = c->n - 1, all = (1 << n) - 1;
    for (int32_t s = 1; s <= all; s++)
        for (int32_t k = 0; k < n; k++) {
            const int32_t rest = s & ~(1 << k);
            best[s][k] = INFINITY;
            before[s][k] = -1;
            if (!(s >> k & 1))
                continue;
            if (rest == 0)
                best[s][k] = cost_of(c, 0, k + 1);
            for (int32_t j = 0; j < n; j++) {
                if (!(rest >> j & 1))
                    continue;
                const double its = best[rest][j] + cost_of(c, j + 1, k + 1);
                if (its < best[s][k]) {
                    best[s][k] = its;
                    before[s][k] = (int8_t)j;
                }
            }
        }
    double least = INFINITY;
    int32_t last = 0;
    for (int32_t k = 0; k < n; k++)
        if (best[all][k] + cost_of(c, k + 1, 0) < least) {
            least = best[all][k] + cost_of(c, k + 1, 0);
            last = k;
        }
    order[0] = 0;
    for (int32_t s = all, i = n; isfinite(least) && i > 0; i--) {
        order[i] = last + 1;
        const int32_t next = before[s][last];
        s &= ~(1 << last);
        last = next;
    }
    return least;
}

static double length_of(const circle *c, const int32_t *order)
{
    double sum = 0;
    for (int32_t i = 0; i < c->n; i++)
        sum += cost_of(c, order[i], order[(i + 1) % c->n]);
    return sum;
}

/* Of those that are tried, and these backwards. */
static double best_tried(const circle *c, int32_t *order)
{
    int32_t *back = order + c->n;
    double least = INFINITY;
    for (int32_t k = 0; k < 2 * c->n_orders; k++) {
        const int32_t *at = c->order + (k / 2) * c->n;
        for (int32_t i = 0; i < c->n; i++)
            back[i] = at[k % 2 ? c->n - 1 - i : i];
        const double its = length_of(c, back);
        if (its < least) {
            least = its;
            memcpy(order, back, (size_t)c->n * sizeof *order);
        }
    }
    return least;
}

static double cheapest_ring(const circle *c, int32_t *order)
{
    return c->n_orders ? best_tried(c, order) : best_order(c, order);
}

static void pick_ring(void *ctx, int32_t d, const double *price, double *use)
{
    circle *c = &((ring_picker *)ctx)->circles[d];
    int32_t order[2 * HW_MOST_WIRED];
    price_all(&c->paths, price);
    FS_ASSERT(isfinite(cheapest_ring(c, order)));
    for (int32_t i = 0; i < c->n; i++)
        follow(&c->paths, c->member[order[i]], c->member[order[(i + 1) % c->n]],
               use);
}

/* ---- which of them ---- */

/* To the nearest member that is left, of these the lowest. */
static void nearest_first(const circle *c, int32_t begin, int32_t *order)
{
    uint64_t seen = (uint64_t)1 << begin;
    order[0] = begin;
    for (int32_t i = 1; i < c->n; i++) {
        int32_t best = -1;
        for (int32_t k = 0; k < c->n; k++)
            if (!(seen >> k & 1) &&
                (best < 0 ||
                 hops_of(c, order[i - 1], k) < hops_of(c, order[i - 1], best)))
                best = k;
        order[i] = best;
        seen |= (uint64_t)1 << best;
    }
}

/* As they are numbered; every other one, and back by those between (a chain);
 * from each to the nearest. */
static void list_orders(circle *c, fs_arena *arena)
{
    c->n_orders = c->n + 2;
    c->order = fs_new(arena, int32_t, (size_t)c->n_orders * (size_t)c->n);
    for (int32_t i = 0; i < c->n; i++) {
        c->order[i] = i;
        c->order[c->n + i] = 2 * i < c->n ? 2 * i : 2 * (c->n - 1 - i) + 1;
        nearest_first(c, i, c->order + (i + 2) * c->n);
    }
}

/* The fewest wires that suffice for a ring; orders that want more are left. */
static void find_hops(circle *c)
{
    int32_t order[2 * HW_MOST_WIRED], kept = 0;
    price_all(&c->paths, NULL);
    for (c->hops = 1; !isfinite(cheapest_ring(c, order));)
        c->hops++;
    for (int32_t k = 0; k < c->n_orders; k++)
        if (isfinite(length_of(c, c->order + k * c->n)))
            memmove(c->order + kept++ * c->n, c->order + k * c->n,
                    (size_t)c->n * sizeof *c->order);
    c->n_orders = kept;
}

static bool joins(const paths *p, const int32_t *member, int32_t n)
{
    for (int32_t i = 1; i < n; i++)
        if (p->hops[member[0] * p->n + member[i]] == NOWHERE)
            return false;
    return true;
}

static circle circle_of(const hw_wiring *wiring, const int32_t *member,
                        int32_t n, bool tried, fs_arena *arena)
{
    uint64_t mask = 0;
    for (int32_t i = 0; i < n; i++)
        mask |= (uint64_t)1 << member[i];
    circle c = {.n = n, .member = member};
    c.paths = paths_of(wiring, mask, arena);
    if (!joins(&c.paths, member, n))
        c.paths = paths_of(wiring, all_of(wiring), arena);
    if (tried || n > HW_MOST_ORDERED)
        list_orders(&c, arena);
    find_hops(&c);
    return c;
}

/* All sets by the order that comes first among their own, then by the next: the
 * best of these. */
static double by_one_order(ring_picker *x, int32_t n, double *load,
                           fs_arena *arena)
{
    const int32_t n_arcs = 2 * x->wiring->n_wires;
    double *its = fs_new(arena, double, n_arcs), best = 0;
    int32_t most = 0;
    for (int32_t d = 0; d < n; d++)
        most = x->circles[d].n_orders > most ? x->circles[d].n_orders : most;
    for (int32_t k = 0; k < most; k++) {
        memset(its, 0, (size_t)n_arcs * sizeof *its);
        for (int32_t d = 0; d < n; d++) {
            const circle *c = &x->circles[d];
            const int32_t *at = c->order + k % c->n_orders * c->n;
            for (int32_t i = 0; i < c->n; i++)
                follow(&c->paths, c->member[at[i]],
                       c->member[at[(i + 1) % c->n]], its);
        }
        if (least_of(x->wiring, its) <= best)
            continue;
        best = least_of(x->wiring, its);
        if (load)
            memcpy(load, its, (size_t)n_arcs * sizeof *its);
    }
    return best;
}

hw_share hw_wires_rings(const hw_wiring *wiring, const hw_sets *sets,
                        double *load)
{
    fs_arena *scratch = fs_arena_create();
    ring_picker x = {wiring, fs_new(scratch, circle, sets->n)};
    const bool tried = 2 * wiring->n_wires + sets->n > MOST_ROWS;
    hw_share out = {0};
    int32_t n = 0;
    for (int32_t k = 0; k < sets->n; k++) {
        const int32_t size = sets->first[k + 1] - sets->first[k];
        if (size < 2)
            continue;
        x.circles[n] = circle_of(wiring, sets->member + sets->first[k], size,
                                 tried, scratch);
        out.hops = x.circles[n].hops > out.hops ? x.circles[n].hops : out.hops;
        n++;
    }
    const hw_packing p = {.n_links = 2 * wiring->n_wires,
                          .n_demands = n,
                          .bps = arc_bps(wiring, scratch),
                          .pick = pick_ring,
                          .ctx = &x};
    out.bps = tried ? by_one_order(&x, n, load, scratch) : hw_pack(&p, load);
    fs_arena_destroy(scratch);
    return out;
}
