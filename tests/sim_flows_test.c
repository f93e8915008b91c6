/* Max-min fair flows against closed forms, against filling all links at once,
 * and against themselves: how it came about does not matter. */
#include "config.h"

#include "base/hash.h"
#include "sim/flows.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_USES = 6, MOST_FLOWS = 60, MOST_LINKS = 24 };

typedef struct net {
    int32_t n_links, n_flows;
    double bps[MOST_LINKS], most[MOST_FLOWS];
    int32_t n_uses[MOST_FLOWS];
    sim_use uses[MOST_FLOWS][MOST_USES];
    bool runs[MOST_FLOWS];
} net;

static sim_flows *open_net(const net *x, fs_arena *arena)
{
    sim_flows *f = sim_flows_create(x->n_links, x->bps, x->n_flows, arena);
    for (int32_t i = 0; i < x->n_flows; i++)
        sim_flows_route(f, i, x->uses[i], x->n_uses[i], x->most[i]);
    return f;
}

static double bps_of(const sim_flows *f, int32_t flow)
{
    return (double)sim_flows_rate(f, flow) * sim_flows_bps(f);
}

static void solve(sim_flows *f)
{
    int32_t n;
    sim_flows_solve(f, &n);
}

/* ---- closed forms ---- */

static void test_one_link(void)
{
    net x = {.n_links = 1, .n_flows = 3, .bps = {12e9}};
    fs_arena *arena = fs_arena_create();
    for (int32_t i = 0; i < 3; i++) {
        x.most[i] = INFINITY;
        x.n_uses[i] = 1;
        x.uses[i][0] = (sim_use){0, 1};
    }
    x.uses[2][0].n = 4;
    sim_flows *f = open_net(&x, arena);
    sim_flows_start(f, 0);
    solve(f);
    tap_near(bps_of(f, 0), 12e9, 1e-3, "one flow has its link");
    sim_flows_start(f, 1);
    solve(f);
    tap_near(bps_of(f, 0), 6e9, 1e-3, "two flows on a link have half of it");
    tap_near(bps_of(f, 1), 6e9, 1e-3, "each");
    sim_flows_start(f, 2);
    solve(f);
    tap_near(bps_of(f, 0), 2e9, 1e-3, "a flow of four streams counts for four");
    tap_near(bps_of(f, 2), 2e9, 1e-3, "and each has the same");
    sim_flows_end(f, 0);
    sim_flows_end(f, 2);
    solve(f);
    tap_near(bps_of(f, 1), 12e9, 1e-3, "who remains has all");
    fs_arena_destroy(arena);
}

/* Flow 0 crosses both links, 1 the first, 2 the second. */
static void test_two_links(double limit)
{
    net x = {.n_links = 2,
             .n_flows = 3,
             .bps = {10, 6},
             .most = {INFINITY, limit, INFINITY},
             .n_uses = {2, 1, 1},
             .uses = {{{0, 1}, {1, 1}}, {{0, 1}}, {{1, 1}}}};
    fs_arena *arena = fs_arena_create();
    sim_flows *f = open_net(&x, arena);
    for (int32_t i = 0; i < 3; i++)
        sim_flows_start(f, i);
    solve(f);
    tap_near(bps_of(f, 0), 3, 1e-12,
             "three flows on two links: half of the narrow one");
    tap_near(bps_of(f, 2), 3, 1e-12, "the other half");
    tap_near(bps_of(f, 1), fmin(7, limit), 1e-12, "the rest of the wide one");
    sim_flows_end(f, 2);
    solve(f);
    tap_near(bps_of(f, 0), fmin(6, fmax(5, 10 - limit)), 1e-12,
             "without the third: what the first link gives");
    fs_arena_destroy(arena);
}

/* ---- all at once ---- */

/* Water rises in all flows until a link is full or a limit is reached. */
static void fill_ref(const net *x, double *rate)
{
    double rest[MOST_LINKS];
    bool done[MOST_FLOWS];
    double level = 0;
    memcpy(rest, x->bps, sizeof rest);
    for (int32_t i = 0; i < x->n_flows; i++) {
        done[i] = !x->runs[i];
        rate[i] = 0;
    }
    for (;;) {
        double weight[MOST_LINKS] = {0}, step = INFINITY;
        for (int32_t i = 0; i < x->n_flows; i++)
            for (int32_t k = 0; k < x->n_uses[i] && !done[i]; k++)
                weight[x->uses[i][k].link] += x->uses[i][k].n;
        for (int32_t l = 0; l < x->n_links; l++)
            if (weight[l] > 0)
                step = fmin(step, rest[l] / weight[l]);
        for (int32_t i = 0; i < x->n_flows; i++)
            if (!done[i])
                step = fmin(step, x->most[i] - level);
        if (isinf(step))
            return;
        level += step;
        for (int32_t l = 0; l < x->n_links; l++)
            rest[l] -= weight[l] * step;
        for (int32_t i = 0; i < x->n_flows; i++) {
            bool full = level >= x->most[i] * (1 - 1e-12);
            for (int32_t k = 0; k < x->n_uses[i]; k++)
                full |= rest[x->uses[i][k].link] <=
                        1e-9 * x->bps[x->uses[i][k].link];
            if (done[i])
                continue;
            rate[i] = level;
            done[i] = full;
        }
    }
}

/* In half of the nets links are alike, so that many are full at once. */
static net draw(uint64_t *seed)
{
    net x = {.n_links = 1 + (int32_t)fs_rand_below(seed, MOST_LINKS),
             .n_flows = 1 + (int32_t)fs_rand_below(seed, MOST_FLOWS)};
    const bool alike = fs_rand_below(seed, 2), limits = fs_rand_below(seed, 2);
    const int32_t most_n = alike ? 1 : 3;
    for (int32_t l = 0; l < x.n_links; l++)
        x.bps[l] = alike ? 1e9 : 1e8 * pow(1e3, fs_rand_unit(seed));
    for (int32_t i = 0; i < x.n_flows; i++) {
        const int32_t wanted = 1 + (int32_t)fs_rand_below(seed, MOST_USES);
        x.most[i] =
            limits ? 1e7 * pow(1e3, fs_rand_unit(seed)) : (double)INFINITY;
        for (int32_t k = 0; k < wanted; k++) {
            const int32_t l = (int32_t)fs_rand_below(seed, x.n_links);
            bool again = false;
            for (int32_t j = 0; j < x.n_uses[i]; j++)
                again |= x.uses[i][j].link == l;
            if (!again)
                x.uses[i][x.n_uses[i]++] =
                    (sim_use){l, 1 + (int32_t)fs_rand_below(seed, most_n)};
        }
    }
    return x;
}

static int32_t count_wrong(const net *x, const sim_flows *f)
{
    double rate[MOST_FLOWS];
    int32_t wrong = 0;
    fill_ref(x, rate);
    for (int32_t i = 0; i < x->n_flows; i++)
        wrong += x->runs[i] &&
                 fabs(bps_of(f, i) - rate[i]) > 1e-9 * fmax(rate[i], 1);
    return wrong;
}

/* The order that rates are told by, plainly: the link with the least share (or
 * the flow with the least limit), and of those with as little the first. */
static void fill_in_order(const net *x, double unit, int64_t *rate)
{
    int64_t rest[MOST_LINKS];
    bool done[MOST_FLOWS];
    for (int32_t l = 0; l < x->n_links; l++)
        rest[l] = (int64_t)(x->bps[l] / unit);
    for (int32_t i = 0; i < x->n_flows; i++)
        done[i] = !x->runs[i];
    for (;;) {
        int64_t streams[MOST_LINKS] = {0}, least = INT64_MAX;
        int32_t at = -1;
        for (int32_t i = 0; i < x->n_flows; i++)
            for (int32_t k = 0; k < x->n_uses[i] && !done[i]; k++)
                streams[x->uses[i][k].link] += x->uses[i][k].n;
        for (int32_t l = 0; l < x->n_links; l++)
            if (streams[l] > 0 && rest[l] / streams[l] < least) {
                least = rest[l] / streams[l];
                at = l;
            }
        for (int32_t i = 0; i < x->n_flows; i++)
            if (!done[i] && x->most[i] / unit < 0x1p61 &&
                (int64_t)(x->most[i] / unit) < least) {
                least = (int64_t)(x->most[i] / unit);
                at = x->n_links + i;
            }
        if (at < 0)
            return;
        for (int32_t i = 0; i < x->n_flows; i++) {
            bool here = at == x->n_links + i;
            for (int32_t k = 0; k < x->n_uses[i]; k++)
                here |= x->uses[i][k].link == at;
            if (done[i] || !here)
                continue;
            done[i] = true;
            rate[i] = least;
            for (int32_t k = 0; k < x->n_uses[i]; k++)
                rest[x->uses[i][k].link] -= x->uses[i][k].n * least;
        }
    }
}

static int32_t count_unequal(const net *x, const sim_flows *f)
{
    int64_t rate[MOST_FLOWS];
    int32_t unequal = 0;
    fill_in_order(x, sim_flows_bps(f), rate);
    for (int32_t i = 0; i < x->n_flows; i++)
        unequal += x->runs[i] && sim_flows_rate(f, i) != rate[i];
    return unequal;
}

/* One that has seen nothing but these flows. */
static int32_t count_other(const net *x, const sim_flows *f)
{
    fs_arena *arena = fs_arena_create();
    sim_flows *fresh = open_net(x, arena);
    int32_t other = 0;
    for (int32_t i = x->n_flows - 1; i >= 0; i--)
        if (x->runs[i])
            sim_flows_start(fresh, i);
    solve(fresh);
    for (int32_t i = 0; i < x->n_flows; i++)
        other += x->runs[i] && sim_flows_rate(fresh, i) != sim_flows_rate(f, i);
    fs_arena_destroy(arena);
    return other;
}

static void test_random(uint64_t *seed)
{
    int32_t wrong = 0, unequal = 0, other = 0, missed = 0, states = 0;
    for (int32_t k = 0; k < 300; k++) {
        fs_arena *arena = fs_arena_create();
        net x = draw(seed);
        sim_flows *f = open_net(&x, arena);
        for (int32_t turn = 0; turn < 60; turn++) {
            int64_t was[MOST_FLOWS];
            int32_t n;
            for (int32_t i = 0; i < x.n_flows; i++)
                was[i] = x.runs[i] ? sim_flows_rate(f, i) : 0;
            for (int32_t m = 1 + (int32_t)fs_rand_below(seed, 3); m > 0; m--) {
                const int32_t i = (int32_t)fs_rand_below(seed, x.n_flows);
                (x.runs[i] ? sim_flows_end : sim_flows_start)(f, i);
                x.runs[i] = !x.runs[i];
                was[i] = -1;
            }
            const int32_t *changed = sim_flows_solve(f, &n);
            for (int32_t i = 0; i < n; i++)
                was[changed[i]] = -1;
            for (int32_t i = 0; i < x.n_flows; i++)
                missed +=
                    x.runs[i] && was[i] >= 0 && was[i] != sim_flows_rate(f, i);
            wrong += count_wrong(&x, f);
            unequal += count_unequal(&x, f);
            other += count_other(&x, f);
            states++;
        }
        fs_arena_destroy(arena);
    }
    tap_equal_int(wrong, 0, "%d states of random nets: rates are max-min fair",
                  states);
    tap_equal_int(unequal, 0,
                  "what filling all in order gives, to the last bit");
    tap_equal_int(other, 0, "they hang on who is there alone, to the last bit");
    tap_equal_int(missed, 0, "and who has another rate is told");
}

int main(void)
{
    const char *given = getenv("FS_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : 6;
    printf("# seed %llu (FS_SEED=%llu repeats it)\n", (unsigned long long)seed,
           (unsigned long long)seed);
    test_one_link();
    test_two_links(INFINITY);
    test_two_links(4);
    test_random(&seed);
    return tap_done();
}
