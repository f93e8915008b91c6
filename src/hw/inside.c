/* Ports and shared uplinks: what crosses each is counted, and the fullest one
 * tells. A mesh: all rings through m devices, each as often as any other, load
 * its wires evenly, so that a device has m - 1 of them. Wires: packing.h over
 * all rings (ways) there are, priced as it asks. A device takes in and gives
 * away no more than its inner link says, whatever the wires. */
#include "config.h"
#include "hw/inside.h"

#include "hw/wires.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef enum pattern { RING, PAIRS, BESIDE } pattern;

/* ---- which transfers ---- */

typedef FS_VEC(hw_transfer) transfers;

static void list_set(const int32_t *member, int32_t n, pattern which,
                     fs_arena *arena, transfers *out)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < n; k++) {
            const bool next = k == (i + 1) % n, close = abs(i - k) == 1;
            if (i != k && (which == PAIRS || (which == RING && next) ||
                           (which == BESIDE && close)))
                fs_push(arena, out, (hw_transfer){member[i], member[k], 1});
        }
}

static int32_t size_of(const hw_sets *sets, int32_t k)
{
    return sets->first[k + 1] - sets->first[k];
}

static int32_t largest(const hw_sets *sets)
{
    int32_t most = 0;
    for (int32_t k = 0; k < sets->n; k++)
        most = size_of(sets, k) > most ? size_of(sets, k) : most;
    return most;
}

/* Transfers that a member of the largest set sends at once. */
static int32_t sends(const hw_sets *sets, pattern which)
{
    const int32_t n = largest(sets);
    return which == RING ? 1 : which == PAIRS || n < 3 ? n - 1 : 2;
}

/* ---- ports ---- */

/* Adds what crosses each link when each transfer moves its bytes. */
static void count(const hw_group *group, const hw_transfer *at, int32_t n,
                  double *load)
{
    int32_t hops[HW_MOST_HOPS];
    for (int32_t i = 0; i < n; i++) {
        const int32_t m = hw_inner_route(group, at[i].from, at[i].to, hops);
        for (int32_t k = 0; k < m; k++)
            load[hops[k]] += at[i].bytes;
    }
}

static double fullest_s(const hw_group *group, const double *load)
{
    double most = 0;
    for (int32_t i = 0; i < hw_inner_links(group); i++)
        most = fmax(most, load[i] / hw_inner_bps(group, i));
    return most;
}

/* Devices of a set deal with each other evenly. */
static void load_mesh(const hw_group *group, const hw_sets *sets, double *load)
{
    for (int32_t k = 0; k < sets->n; k++) {
        const int32_t *at = sets->member + sets->first[k];
        const int32_t n = size_of(sets, k);
        for (int32_t i = 0; i < n; i++)
            for (int32_t j = 0; j < n; j++)
                if (i != j)
                    load[at[i] * group->wiring.devices + at[j]] = 1.0 / (n - 1);
    }
}

static double counted_bps(const hw_group *group, const hw_sets *sets,
                          pattern which, double *load)
{
    transfers all = {0};
    fs_arena *scratch = fs_arena_create();
    double *own = fs_new(scratch, double, hw_inner_links(group));
    if (group->wiring.kind == HW_WIRED_MESH && which == RING)
        load_mesh(group, sets, own);
    else
        for (int32_t k = 0; k < sets->n; k++)
            list_set(sets->member + sets->first[k], size_of(sets, k), which,
                     scratch, &all);
    count(group, all.at, all.n, own);
    const double bps = 1 / fullest_s(group, own);
    if (load)
        memcpy(load, own, (size_t)hw_inner_links(group) * sizeof *load);
    fs_arena_destroy(scratch);
    return bps;
}

/* ---- all of them ---- */

static hw_share wired_share(const hw_group *group, const hw_sets *sets,
                            pattern which, double *load)
{
    transfers all = {0};
    if (which == RING)
        return hw_wires_rings(&group->wiring, sets, load);
    fs_arena *scratch = fs_arena_create();
    for (int32_t k = 0; k < sets->n; k++)
        list_set(sets->member + sets->first[k], size_of(sets, k), which,
                 scratch, &all);
    const hw_share out = hw_wires_ways(&group->wiring, all.at, all.n);
    fs_arena_destroy(scratch);
    return out;
}

static hw_share share(const hw_group *group, const hw_sets *sets, pattern which,
                      double *load)
{
    hw_share out = {INFINITY, 0};
    if (load)
        memset(load, 0, (size_t)hw_inner_links(group) * sizeof *load);
    if (largest(sets) < 2)
        return out;
    if (group->wiring.kind == HW_WIRED_LINKS)
        out = wired_share(group, sets, which, load);
    else
        out = (hw_share){counted_bps(group, sets, which, load), 1};
    out.bps = fmin(out.bps, group->inner.bandwidth_bps / sends(sets, which));
    return out;
}

hw_share hw_ring_share(const hw_group *group, const hw_sets *sets, double *load)
{
    return share(group, sets, RING, load);
}

hw_share hw_pairs_share(const hw_group *group, const hw_sets *sets)
{
    return share(group, sets, PAIRS, NULL);
}

hw_share hw_beside_share(const hw_group *group, const hw_sets *sets)
{
    return share(group, sets, BESIDE, NULL);
}

double hw_transfers_seconds(const hw_group *group, const hw_transfer *at,
                            int32_t n, int32_t *hops)
{
    *hops = n > 0;
    if (n == 0)
        return 0;
    if (group->wiring.kind == HW_WIRED_LINKS) {
        const hw_share of = hw_wires_ways(&group->wiring, at, n);
        *hops = of.hops;
        return 1 / of.bps;
    }
    fs_arena *scratch = fs_arena_create();
    double *load = fs_new(scratch, double, hw_inner_links(group));
    count(group, at, n, load);
    const double seconds = fullest_s(group, load);
    fs_arena_destroy(scratch);
    return seconds;
}
