/* Cost networks under a limit on what nodes hold over time: against all
 * assignments of small ones, and the same each time. */
#include "config.h"
#include "search/engine/binding.h"
#include "search/engine/iopddl.h"
#include "search/engine/limit.h"
#include "search/engine/ration.h"
#include "search/engine/reduce.h"
#include "search/engine/slack.h"

#include "base/hash.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>

enum { NETS = 500, MAX_NODES = 8, MAX_VALUES = 4, STEPS = 7, MAX_LOADS = 2 };

typedef struct drawn {
    int32_t n, dom[MAX_NODES];
    double unary[MAX_NODES][MAX_VALUES];
    bool tied[MAX_NODES][MAX_NODES];
    double cost[MAX_NODES][MAX_NODES][MAX_VALUES * MAX_VALUES];
    int32_t loads[MAX_NODES];
    int32_t from[MAX_NODES][MAX_LOADS], to[MAX_NODES][MAX_LOADS];
    int64_t bytes[MAX_NODES][MAX_LOADS][MAX_VALUES];
    int64_t limit;
} drawn;

static void add_held(const drawn *net, const int32_t *at, int64_t *held)
{
    for (int32_t i = 0; i < net->n; i++)
        for (int32_t k = 0; k < net->loads[i]; k++)
            for (int32_t t = net->from[i][k]; t < net->to[i][k]; t++)
                held[t] += net->bytes[i][k][at[i]];
}

static int64_t peak_of(const drawn *net, const int32_t *at)
{
    int64_t held[STEPS] = {0}, peak = 0;
    add_held(net, at, held);
    for (int32_t t = 0; t < STEPS; t++)
        peak = held[t] > peak ? held[t] : peak;
    return peak;
}

static double draw_cost(uint64_t *rng, double forbidden)
{
    return fs_rand_unit(rng) < forbidden ? INFINITY
                                         : (double)fs_rand_below(rng, 100);
}

/* Values that hold little cost much; the limit is what a random choice needs,
 * or a little less. */
static void draw(uint64_t *rng, drawn *net)
{
    const double density = 0.2 + 0.6 * fs_rand_unit(rng);
    const double forbidden = fs_rand_below(rng, 2) ? 0.1 : 0;
    int32_t at[MAX_NODES];
    *net = (drawn){.n = 2 + (int32_t)fs_rand_below(rng, MAX_NODES - 1)};
    for (int32_t i = 0; i < net->n; i++) {
        net->dom[i] = 1 + (int32_t)fs_rand_below(rng, MAX_VALUES);
        net->loads[i] = (int32_t)fs_rand_below(rng, MAX_LOADS + 1);
        at[i] = (int32_t)fs_rand_below(rng, (uint64_t)net->dom[i]);
        for (int32_t s = 0; s < net->dom[i]; s++)
            net->unary[i][s] = draw_cost(rng, forbidden);
        for (int32_t k = 0; k < net->loads[i]; k++) {
            const int32_t from = (int32_t)fs_rand_below(rng, STEPS);
            net->from[i][k] = from;
            net->to[i][k] =
                from + 1 +
                (int32_t)fs_rand_below(rng, (uint64_t)(STEPS - from));
            for (int32_t s = 0; s < net->dom[i]; s++)
                net->bytes[i][k][s] = isinf(net->unary[i][s])
                                          ? (int64_t)fs_rand_below(rng, 60)
                                          : 60 - (int64_t)net->unary[i][s] / 2 +
                                                (int64_t)fs_rand_below(rng, 9);
        }
    }
    for (int32_t u = 0; u < net->n; u++)
        for (int32_t v = u + 1; v < net->n; v++) {
            net->tied[u][v] = fs_rand_unit(rng) < density;
            for (int32_t k = 0; k < net->dom[u] * net->dom[v]; k++)
                net->cost[u][v][k] = draw_cost(rng, forbidden);
        }
    net->limit = peak_of(net, at);
    net->limit -= net->limit ? (int64_t)fs_rand_below(rng, 3) : 0;
}

static search_cfn *make(drawn *net, fs_arena *arena)
{
    search_cfn *cfn = search_cfn_new(net->n, arena);
    for (int32_t i = 0; i < net->n; i++) {
        search_cfn_set(cfn, i, net->dom[i], net->unary[i]);
        for (int32_t k = 0; k < net->loads[i]; k++)
            search_cfn_load(cfn, i, net->from[i][k], net->to[i][k],
                            net->bytes[i][k]);
    }
    for (int32_t u = 0; u < net->n; u++)
        for (int32_t v = u + 1; v < net->n; v++)
            if (net->tied[u][v])
                search_cfn_share(cfn, u, v, net->cost[u][v]);
    return cfn;
}

/* The least cost of what fits, by looking at everything. */
static double least(const drawn *net, const search_cfn *whole)
{
    int32_t at[MAX_NODES] = {0}, i = 0;
    double best = INFINITY;
    while (i < net->n) {
        const double cost = search_cfn_cost(whole, at);
        if (cost < best && peak_of(net, at) <= net->limit)
            best = cost;
        for (i = 0; i < net->n && ++at[i] == net->dom[i]; i++)
            at[i] = 0;
    }
    return best;
}

typedef struct tally {
    int infeasible, wrong_cost, wrong_bound, wrong_value, split, differs;
} tally;

static bool same(double a, double b)
{
    return isinf(a) || isinf(b) ? isinf(a) && isinf(b)
                                : fabs(a - b) <= 1e-6 * (1 + fabs(b));
}

/* In so many parts at most; 0: to the end. */
static search_ration solve(drawn *net, int32_t parts, uint32_t without,
                           bool ascend, fs_arena *arena)
{
    const search_ration_effort effort = {
        .deadline = fs_deadline_at((fs_end){INT64_MAX, NULL}, NULL),
        .parts = parts,
        .without = without,
        .ascend = ascend};
    search_ration out;
    search_cfn_ration(make(net, arena), net->limit, &effort, arena, &out);
    return out;
}

static void judge(tally *t, drawn *net, bool ascend, uint64_t *rng)
{
    fs_arena *arena = fs_arena_create();
    search_cfn *whole = make(net, arena);
    const double wanted = least(net, whole);
    const uint32_t without =
        fs_rand_below(rng, 3)
            ? 0
            : (uint32_t)fs_rand_below(rng, SEARCH_REDUCE_ALL + 1);
    const search_ration got = solve(net, 0, without, ascend, arena);
    const search_ration again = solve(net, 0, without, ascend, arena);
    const search_ration early = solve(net, 1, without, ascend, arena);
    t->infeasible += isinf(wanted);
    t->split += got.parts > 1;
    t->wrong_cost += !same(got.cost, wanted) || !same(got.bound, wanted);
    t->wrong_bound += early.bound > wanted + 1e-6 || early.cost < wanted - 1e-6;
    if (isfinite(got.cost)) {
        t->wrong_value += !same(search_cfn_cost(whole, got.value), got.cost) ||
                          peak_of(net, got.value) > net->limit;
        t->differs += memcmp(got.value, again.value,
                             sizeof *got.value * (size_t)net->n) != 0;
    }
    fs_arena_destroy(arena);
}

/* By minima at prices, or by prices and messages at once. */
static void test_exhaustive(uint64_t seed, bool ascend)
{
    const char *how = ascend ? "ascending" : "at prices";
    tally t = {0};
    for (int i = 0; i < NETS; i++) {
        uint64_t rng = fs_mix(fs_mix(seed) + (uint64_t)i);
        drawn net;
        draw(&rng, &net);
        judge(&t, &net, ascend, &rng);
    }
    printf("# %d networks, %d infeasible, %d took more than one part\n", NETS,
           t.infeasible, t.split);
    tap_ok(t.infeasible > 0 && t.infeasible < NETS / 2,
           "some networks have no choice that fits, most have one");
    tap_ok(t.split > 0, "%s: some are split into parts", how);
    tap_equal_int(t.wrong_cost, 0, "%s: the optimum is found and proven", how);
    tap_equal_int(t.wrong_value, 0, "%s: the choice costs that and fits", how);
    tap_equal_int(t.wrong_bound, 0, "%s: a bound of one part is one", how);
    tap_equal_int(t.differs, 0, "%s: the same network gives the same choice",
                  how);
}

/* Two values a node, one of them larger than the limit; then a pair. */
static void test_limit(void)
{
    fs_arena *arena = fs_arena_create();
    search_cfn *cfn = search_cfn_new(3, arena);
    const double unary[2] = {0, 5};
    double cost[4] = {1, 1, 1, 1};
    const int64_t bytes[3][2] = {{11, 3}, {7, 2}, {6, 1}};
    for (int32_t i = 0; i < 3; i++) {
        search_cfn_set(cfn, i, 2, unary);
        search_cfn_load(cfn, i, 0, 4, bytes[i]);
    }
    search_cfn_add(cfn, 1, 2, cost, 1);
    search_usage_pack_all(cfn);
    tap_ok(search_cfn_limit(cfn, 12), "something breaks the limit");
    tap_equal_int(cfn->dom[0], 1, "a value that fits with nothing goes");
    tap_ok(isinf(cfn->pairs.at[0].cost[0]) &&
               isfinite(cfn->pairs.at[0].cost[1]),
           "a pair that fits with nothing is forbidden");
    tap_ok(!search_cfn_limit(cfn, 12), "the rest may fit");
    tap_ok(!search_cfn_limit(cfn, 5) && cfn->infeasible,
           "what everything holds at least may be too much");
    fs_arena_destroy(arena);
}

/* Of three steps the middle one alone can be filled; nodes 0 and 1 hold
 * something then, node 2 only before, and node 3 the same with each value. */
static void test_clip(void)
{
    fs_arena *arena = fs_arena_create();
    search_cfn *cfn = search_cfn_new(4, arena);
    const double unary[2] = {0, 5};
    const int64_t bytes[4][2] = {{9, 3}, {7, 2}, {6, 1}, {1, 1}};
    const int32_t from[4] = {0, 1, 0, 1}, to[4] = {2, 3, 1, 2};
    for (int32_t i = 0; i < 4; i++) {
        search_cfn_set(cfn, i, 2, unary);
        search_cfn_load(cfn, i, from[i], to[i], bytes[i]);
    }
    search_usage_pack_all(cfn);
    const search_binding b = search_binding_find(cfn, 16, arena);
    tap_ok(b.n == 3 && b.before[1] == 0 && b.before[2] == 1 && b.before[3] == 1,
           "a step binds where it can be filled and none beside it is fuller");
    tap_ok(search_cfn_clip(cfn, 16), "something is held while nothing binds");
    tap_equal_int(cfn->usage[2].n, 0, "what is held only then is forgotten");
    tap_equal_int(cfn->usage[3].n, 0, "and what each value holds");
    tap_ok(cfn->usage[0].n == 1 && cfn->usage[0].at[0].from == 1 &&
               cfn->usage[0].at[0].to == 2 && cfn->usage[0].at[0].bytes[0] == 6,
           "the rest is what a value holds more, while something binds");
    tap_ok(!search_cfn_clip(cfn, 16), "nothing else is");
    tap_ok(!search_cfn_clip(cfn, 5) && cfn->infeasible,
           "what all hold at least may be too much");
    fs_arena_destroy(arena);
}

/* A public network of few, large lumps under a limit, in parts and no clock:
 * what is tried before a split decides how many there are. */
static void test_lumps(void)
{
    fs_arena *arena = fs_arena_create();
    char path[1000];
    fs_err err = {0};
    search_iopddl problem;
    const char *dir = getenv("FS_SRCDIR");
    snprintf(path, sizeof path, "%s/datasets/iopddl/V.json.gz",
             dir ? dir : "..");
    if (search_iopddl_read(path, arena, &err, &problem) != FS_OK) {
        tap_ok(false, "%s", err.text);
        fs_arena_destroy(arena);
        return;
    }
    const search_ration_effort effort = {
        .deadline = fs_deadline_at((fs_end){INT64_MAX, NULL}, NULL),
        .gap = 0.001,
        .parts = 80};
    search_ration out;
    search_cfn_ration(search_iopddl_cfn(&problem, arena), problem.limit_bytes,
                      &effort, arena, &out);
    printf("# V: cost %g, bound %g, %d parts, %.3g steps, %d nodes left\n",
           out.cost, out.bound, out.parts, (double)out.steps, out.kernel_nodes);
    tap_ok(!out.open && out.bound >= 0.998 * out.cost,
           "V is proven in few parts: %d", out.parts);
    tap_ok(out.steps < 2e10, "and few steps: %.3g", (double)out.steps);
    tap_ok(out.kernel_nodes < 200,
           "what holds nothing while it matters is eliminated before: %d left",
           out.kernel_nodes);
    fs_arena_destroy(arena);
}

/* Against a list of the steps. */
static void test_slack(uint64_t seed)
{
    enum { MAX_STEPS = 40, CHANGES = 2000 };
    int wrong = 0;
    for (int32_t n = 1; n <= MAX_STEPS; n++) {
        fs_arena *arena = fs_arena_create();
        uint64_t rng = fs_mix(seed + (uint64_t)n);
        int64_t room[MAX_STEPS];
        for (int32_t t = 0; t < n; t++)
            room[t] = fs_rand_below(&rng, 100);
        search_slack slack = search_slack_new(n, arena);
        search_slack_set(&slack, room);
        for (int k = 0; k < CHANGES; k++) {
            const int32_t from = (int32_t)fs_rand_below(&rng, n);
            const int32_t to =
                from + 1 + (int32_t)fs_rand_below(&rng, n - from);
            const int64_t bytes = fs_rand_below(&rng, 41) - 20;
            int64_t least = INT64_MAX;
            if (fs_rand_below(&rng, 2)) {
                search_slack_add(&slack, from, to, bytes);
                for (int32_t t = from; t < to; t++)
                    room[t] += bytes;
                continue;
            }
            for (int32_t t = from; t < to; t++)
                least = room[t] < least ? room[t] : least;
            wrong += search_slack_least(&slack, from, to) != least;
        }
        fs_arena_destroy(arena);
    }
    tap_equal_int(wrong, 0, "the least room of an interval is as of a list");
}

int main(void)
{
    test_limit();
    test_clip();
    test_lumps();
    test_slack(20261125);
    const uint64_t seed = tap_seed(20261124);
    test_exhaustive(seed, false);
    test_exhaustive(seed, true);
    return tap_done();
}
