/* The engines against each other on random cost networks: the exhaustive one
 * is the oracle. */
#include "config.h"
#include "search/engine/engine.h"
#include "search/engine/lean.h"
#include "search/planner.h"
#include "search/engine/prices.h"

#include "base/hash.h"
#include "tap.h"

enum { NETS = 400, MAX_NODES = 8 };

typedef struct recipe {
    int32_t nodes, values, stages, micro_batches;
    double density, forbidden, ties;
    int32_t moments;   /* limits per stage */
    double node_loads; /* share of nodes and edges that load a limit */
    double edge_loads;
    double fill; /* of the formula */
} recipe;

static double draw_cost(uint64_t *rng, const recipe *shape)
{
    if (fs_rand_unit(rng) < shape->forbidden)
        return INFINITY;
    if (fs_rand_unit(rng) < shape->ties)
        return 1e-3 * (double)fs_rand_below(rng, 4);
    return 1e-3 * fs_rand_unit(rng);
}

/* Bytes for some limits; an edge may load those of any stage. */
static search_load *draw_loads(uint64_t *rng, const recipe *shape,
                               int32_t stage, double share, int32_t cells,
                               int32_t *n, fs_arena *arena)
{
    int32_t limits = shape->stages * shape->moments;
    search_load *loads = fs_new(arena, search_load, limits);
    *n = 0;
    for (int32_t k = 0; k < limits; k++) {
        if ((stage >= 0 && k / shape->moments != stage) ||
            fs_rand_unit(rng) >= share)
            continue;
        int64_t *bytes = fs_new(arena, int64_t, cells);
        for (int32_t s = 0; s < cells; s++)
            bytes[s] = fs_rand_below(rng, 3) ? fs_rand_below(rng, 1000000) : 0;
        loads[(*n)++] = (search_load){k, bytes};
    }
    return loads;
}

static search_net *draw_net(uint64_t *rng, const recipe *shape, fs_arena *arena)
{
    search_net *net = fs_new(arena, search_net, 1);
    int32_t n = shape->nodes;
    net->n_nodes = n;
    net->n_stages = shape->stages;
    net->micro_batches = shape->micro_batches;
    net->fill = shape->fill;
    net->nodes = fs_new(arena, search_net_node, n);
    net->edges = fs_new(arena, search_net_edge, n * n);
    net->n_limits = shape->stages * shape->moments;
    net->limit_bytes = fs_new(arena, int64_t, net->n_limits);
    for (int32_t i = 0; i < n; i++) {
        search_net_node *node = &net->nodes[i];
        node->n = 1 + (int32_t)fs_rand_below(rng, shape->values);
        node->stage = (int32_t)fs_rand_below(rng, shape->stages);
        node->per_step = fs_rand_below(rng, 3) == 0;
        node->cost = fs_new(arena, double, node->n);
        for (int32_t s = 0; s < node->n; s++)
            node->cost[s] = draw_cost(rng, shape);
        node->loads = draw_loads(rng, shape, node->stage, shape->node_loads,
                                 node->n, &node->n_loads, arena);
    }
    for (int32_t u = 0; u < n; u++)
        for (int32_t v = u + 1; v < n; v++) {
            if (fs_rand_unit(rng) >= shape->density)
                continue;
            search_net_edge *edge = &net->edges[net->n_edges++];
            int32_t cells = net->nodes[u].n * net->nodes[v].n;
            *edge = (search_net_edge){.u = u,
                                      .v = v,
                                      .stage = net->nodes[v].stage,
                                      .per_step = fs_rand_below(rng, 3) == 0,
                                      .cost = fs_new(arena, double, cells)};
            for (int32_t k = 0; k < cells; k++)
                edge->cost[k] = draw_cost(rng, shape);
            edge->loads = draw_loads(rng, shape, -1, shape->edge_loads, cells,
                                     &edge->n_loads, arena);
        }
    return net;
}

/* Adds the least and the most that a node or an edge loads a limit with. */
static void add_range(const search_load *loads, int32_t n_loads, int32_t limit,
                      int32_t cells, int64_t range[2])
{
    for (int32_t k = 0; k < n_loads; k++) {
        if (loads[k].limit != limit)
            continue;
        int64_t least = INT64_MAX, most = 0;
        for (int32_t s = 0; s < cells; s++) {
            least = loads[k].bytes[s] < least ? loads[k].bytes[s] : least;
            most = loads[k].bytes[s] > most ? loads[k].bytes[s] : most;
        }
        range[0] += least;
        range[1] += most;
    }
}

/* Between the least and the most bytes of each limit; sometimes too little. */
static void draw_limits(uint64_t *rng, search_net *net, bool binding)
{
    double tight = 0.2 + 0.7 * fs_rand_unit(rng);
    for (int32_t i = 0; i < net->n_limits; i++) {
        int64_t range[2] = {0, 0};
        for (int32_t k = 0; k < net->n_nodes; k++)
            add_range(net->nodes[k].loads, net->nodes[k].n_loads, i,
                      net->nodes[k].n, range);
        for (int32_t e = 0; e < net->n_edges; e++) {
            const search_net_edge *edge = &net->edges[e];
            add_range(edge->loads, edge->n_loads, i,
                      net->nodes[edge->u].n * net->nodes[edge->v].n, range);
        }
        net->limit_bytes[i] =
            binding ? range[0] +
                          (int64_t)(tight * (double)(range[1] - range[0])) - 10
                    : INT64_MAX;
        if (binding && fs_rand_below(rng, 8))
            net->limit_bytes[i] += 10;
    }
}

static recipe draw_shape(uint64_t *rng)
{
    static const double forbidden[] = {0, 0, 0.1, 0.3};
    static const double fill[] = {1, 1, 0.5, 0};
    return (recipe){
        .nodes = 1 + (int32_t)fs_rand_below(rng, MAX_NODES),
        .values = 2 + (int32_t)fs_rand_below(rng, 4),
        .stages = 1 + (int32_t)fs_rand_below(rng, 3),
        .micro_batches = 1 + (int32_t)fs_rand_below(rng, 8),
        .fill = fill[fs_rand_below(rng, 4)],
        .density = 0.2 + 0.8 * fs_rand_unit(rng),
        .forbidden = forbidden[fs_rand_below(rng, 4)],
        .ties = fs_rand_below(rng, 3) == 0 ? 1 : 0,
        .moments = 1 + (int32_t)fs_rand_below(rng, 3),
        .node_loads = fs_rand_unit(rng),
        .edge_loads = fs_rand_below(rng, 3) ? fs_rand_unit(rng) : 0,
    };
}

static bool same(double a, double b)
{
    return fabs(a - b) <= 1e-12 * fabs(b);
}

/* One line per engine's failure; the counts are the facts tested. */
typedef struct tally {
    int nets, infeasible, binding, solved, by_edges;
    int bad_status, bad_cost, bad_bound, bad_claim, bad_states;
    int bad_baseline, bad_twice;
} tally;

static search_solution run(const char *engine, const search_net *net,
                           bool reduce, fs_arena *arena, fs_status *status)
{
    search_budget budget = {.deadline =
                                fs_deadline_at((fs_end){INT64_MAX, NULL}, NULL),
                            .cutoff = INFINITY,
                            .reduce = reduce};
    search_solution out = {.cost = INFINITY, .lower_bound = -INFINITY};
    fs_err err = {0};
    *status = search_engine_find(engine)(net, &budget, arena, &err, &out);
    return out;
}

static const fs_end never = {INT64_MAX, NULL};

/* The oracle's two ways: walking all assignments, building them up. */
static void judge_states(tally *t, const search_net *net, fs_status wanted,
                         double cost, fs_arena *arena)
{
    search_solution out = {.cost = INFINITY};
    fs_err err = {0};
    fs_status got = search_states(net, INFINITY, &never, arena, &err, &out);
    bool good = got == wanted;
    if (good && got == FS_OK)
        good = same(out.cost, cost) &&
               out.cost == search_net_cost(net, out.value) &&
               search_states(net, cost, &never, arena, &err, &out) == FS_OK &&
               same(out.cost, cost);
    if (!good)
        printf("# net %d: by states %d, %.17g, by walking %d, %.17g\n", t->nets,
               got, out.cost, wanted, cost);
    t->bad_states += !good;
}

/* The other engines. One that gives up, which the answer to a network with a
 * solution may be, has no solution. */
static void judge_baselines(tally *t, const search_net *net, fs_status wanted,
                            double least, fs_arena *arena)
{
    const search_way *way;
    for (int32_t k = 0; (way = search_way_at(k)) && !way->source; k++) {
        fs_status got, again;
        if (strcmp(way->name, "exhaustive") == 0 ||
            strcmp(way->name, "ilp") == 0)
            continue;
        const search_solution a = run(way->name, net, true, arena, &got);
        const search_solution b = run(way->name, net, true, arena, &again);
        const bool found = got == FS_OK && isfinite(a.cost);
        t->bad_status += got != wanted || got != again;
        t->bad_twice += got == FS_OK && !same(a.cost, b.cost);
        if (wanted != FS_OK || !found)
            continue;
        t->bad_bound += !(a.lower_bound <= least * (1 + 1e-12));
        t->bad_claim += a.cost != search_net_cost(net, a.value);
        t->bad_baseline += a.cost < least * (1 - 1e-12);
    }
}

static void judge(tally *t, const search_net *net, bool reduce, fs_arena *arena)
{
    fs_status wanted, got;
    search_solution oracle = run("exhaustive", net, true, arena, &wanted);
    judge_states(t, net, wanted, oracle.cost, arena);
    search_solution ilp = run("ilp", net, reduce, arena, &got);
    t->nets++;
    judge_baselines(t, net, wanted, oracle.cost, arena);
    if (wanted != got)
        printf("# net %d: exhaustive %d, ilp %d\n", t->nets, wanted, got);
    t->bad_status += wanted != got;
    if (wanted != FS_OK || got != FS_OK) {
        t->infeasible++;
        return;
    }
    t->solved++;
    bool good = same(ilp.cost, oracle.cost);
    if (!good)
        printf("# net %d: ilp %.17g, exhaustive %.17g, bound %.17g\n", t->nets,
               ilp.cost, oracle.cost, ilp.lower_bound);
    t->bad_cost += !good;
    t->bad_bound += !(ilp.lower_bound <= oracle.cost * (1 + 1e-12)) ||
                    !(ilp.lower_bound >= oracle.cost * (1 - 1e-9));
    t->bad_claim += ilp.cost != search_net_cost(net, ilp.value);
}

static void report(const tally *t, const char *what)
{
    printf("# %s: %d nets, %d with memory limits, %d infeasible, %d decided by "
           "the bytes of edges\n",
           what, t->nets, t->binding, t->infeasible, t->by_edges);
    tap_equal_int(t->bad_status, 0, "%s: all agree on what is feasible", what);
    tap_equal_int(t->bad_cost, 0, "%s: ilp equals exhaustive", what);
    tap_equal_int(t->bad_states, 0,
                  "%s: built up by states it is what walking finds", what);
    tap_equal_int(t->bad_bound, 0, "%s: bounds are proven and sharp", what);
    tap_equal_int(t->bad_claim, 0, "%s: claims are what they cost", what);
    tap_equal_int(t->bad_baseline, 0, "%s: baselines are never better", what);
    tap_equal_int(t->bad_twice, 0, "%s: baselines answer twice alike", what);
    tap_ok(t->solved > t->nets / 2, "%s: most nets have a solution", what);
    tap_ok(t->by_edges > 0, "%s: bytes of edges decide some", what);
}

/* Would the optimum be another one without the bytes of edges? */
static bool edges_decide(const search_net *net, fs_arena *arena)
{
    fs_status with, without;
    search_net bare = *net;
    bare.edges =
        fs_memdup(arena, net->edges, (size_t)net->n_edges * sizeof *net->edges);
    for (int32_t e = 0; e < net->n_edges; e++)
        bare.edges[e].n_loads = 0;
    search_solution a = run("exhaustive", net, true, arena, &with);
    search_solution b = run("exhaustive", &bare, true, arena, &without);
    return with != without || (with == FS_OK && !same(a.cost, b.cost));
}

static void compare(uint64_t seed, bool reduce, int nets, const char *what)
{
    tally t = {0};
    for (int i = 0; i < nets; i++) {
        fs_arena *arena = fs_arena_create();
        uint64_t rng = fs_mix(seed + (uint64_t)i);
        recipe shape = draw_shape(&rng);
        search_net *net = draw_net(&rng, &shape, arena);
        draw_limits(&rng, net, i % 2 == 0);
        t.binding += i % 2 == 0;
        judge(&t, net, reduce, arena);
        t.by_edges += edges_decide(net, arena);
        fs_arena_destroy(arena);
    }
    report(&t, what);
}

/* Larger than the oracle can: the ilp with and without reductions. */
static void agree(uint64_t seed)
{
    int bad = 0;
    enum { N = 12 };
    for (int i = 0; i < N; i++) {
        fs_arena *arena = fs_arena_create();
        uint64_t rng = fs_mix(seed + 1000 + (uint64_t)i);
        recipe shape = {14, 5, 1 + i % 2, 4, 0.25, 0.05, 0, 2, 0.7, 0.5, 1};
        search_net *net = draw_net(&rng, &shape, arena);
        draw_limits(&rng, net, i % 3 == 0);
        fs_status with, without;
        search_solution a = run("ilp", net, true, arena, &with);
        search_solution b = run("ilp", net, false, arena, &without);
        bool good = with == without && (with != FS_OK || same(a.cost, b.cost));
        if (!good)
            printf("# net %d: %d %.17g with, %d %.17g without\n", i, with,
                   a.cost, without, b.cost);
        bad += !good;
        fs_arena_destroy(arena);
    }
    tap_equal_int(bad, 0, "ilp: reductions do not change the optimum");
}

/* A gap that is allowed is kept to, told truly, and saves work. */
static void allow_gap(uint64_t seed)
{
    enum { N = 120 };
    const double gap = 0.03;
    int wide = 0, untrue = 0, early = 0;
    int64_t steps = 0, all_steps = 0;
    for (int i = 0; i < N; i++) {
        fs_arena *arena = fs_arena_create();
        uint64_t rng = fs_mix(seed + 2000 + (uint64_t)i);
        recipe shape = {14, 5, 2, 4, 0.25, 0.05, 0, 2, 0.7, 0.5, 1};
        search_net *net = draw_net(&rng, &shape, arena);
        draw_limits(&rng, net, i % 3 == 0);
        search_budget budget = {
            .deadline = fs_deadline_at((fs_end){INT64_MAX, NULL}, NULL),
            .cutoff = INFINITY,
            .gap = gap,
            .reduce = true};
        search_solution near = {.cost = INFINITY};
        fs_err err = {0};
        fs_status whole;
        search_solution best = run("ilp", net, true, arena, &whole);
        if (whole == FS_OK &&
            search_ilp(net, &budget, arena, &err, &near) == FS_OK) {
            wide += near.lower_bound < near.cost * (1 - gap) * (1 - 1e-9);
            untrue += near.lower_bound > best.cost * (1 + 1e-9);
            early += near.lower_bound < near.cost * (1 - 1e-9);
            steps += near.steps;
            all_steps += best.steps;
        }
        fs_arena_destroy(arena);
    }
    printf("# a gap of %g: %d of %d stopped early, %lld of %lld steps\n", gap,
           early, N, (long long)steps, (long long)all_steps);
    tap_equal_int(wide, 0, "a gap: none is wider than allowed");
    tap_equal_int(untrue, 0, "a gap: bounds stay proven");
    tap_ok(early > 0 && steps < all_steps, "a gap: some stop early");
}

/* The next prices are where the planes met so far cross, or as near to it as
 * reach allows. */
static void next_prices(void)
{
    fs_arena *arena = fs_arena_create();
    search_net net = {.n_stages = 2, .micro_batches = 1, .fill = 1};
    search_bundle bundle = search_bundle_new(&net, arena);
    bundle.reach = bundle.scale = 1;
    search_prices next = search_prices_new(&net, arena);
    double zero[2] = {0}, left[2] = {120, 0}, right[2] = {0, 40};
    search_bundle_add(&bundle, &(search_sums){zero, left, NULL, NULL});
    search_bundle_add(&bundle, &(search_sums){zero, right, NULL, NULL});
    int64_t steps = 0;
    double most = search_bundle_next(&bundle, &next, &steps);
    tap_ok(same(most, 30) && same(next.step[0], 0.25),
           "prices: where a stage costs what the other saves");
    bundle.reach = 0.1;
    most = search_bundle_next(&bundle, &next, &steps);
    tap_ok(same(most, 24) && same(next.step[0], 0.4),
           "prices: no further than the reach");
    bundle.reach = 1;
    bundle.proven = 20;
    most = search_bundle_next(&bundle, &next, &steps);
    most = search_bundle_near(&bundle, 22, most, &next, &steps);
    tap_ok(same(most, 22) && same(next.step[0], 0.45),
           "prices: no further than what is wanted needs");
    most = search_bundle_next(&bundle, &next, &steps);
    most = search_bundle_near(&bundle, 40, most, &next, &steps);
    tap_ok(same(most, 30) && same(next.step[0], 0.25),
           "prices: as far as reach allows where more is wanted");
    fs_arena_destroy(arena);
}

/* The first prices are the centre, whatever they prove; then reach follows what
 * steps from there come to. */
static void learn_prices(void)
{
    fs_arena *arena = fs_arena_create();
    search_net net = {.n_stages = 2, .micro_batches = 1, .fill = 1};
    search_bundle bundle = search_bundle_new(&net, arena);
    search_prices tried = search_prices_new(&net, arena);
    const double first = bundle.reach;
    tried.step[0] = 0.9;
    search_bundle_learn(&bundle, &tried, -5);
    tap_ok(search_prices_equal(&net, &bundle.centre, &tried) &&
               same(bundle.reach, first),
           "prices: the first ones are the centre, and no step");
    bundle.hope = 10;
    tried.step[0] = 0.7;
    search_bundle_learn(&bundle, &tried, 5);
    tap_ok(same(bundle.centre.step[0], 0.7) && same(bundle.reach, 2 * first),
           "prices: further after a step that proves more");
    tried.step[0] = 0.1;
    search_bundle_learn(&bundle, &tried, -5);
    tap_ok(same(bundle.centre.step[0], 0.7) && same(bundle.reach, 1.4 * first),
           "prices: not as far after one that proves less");
    search_bundle_learn(&bundle, &tried, -1000);
    tap_ok(same(bundle.reach, 0.35 * first),
           "prices: much nearer where it proves nothing like what was hoped");
    fs_arena_destroy(arena);
}

/* Whoever interrupts the oracle gets what was met, and no proof. */
static void stop_oracle(uint64_t seed)
{
    fs_arena *arena = fs_arena_create();
    uint64_t rng = fs_mix(seed + 4000);
    const atomic_bool stop = true;
    const recipe shapes[] = {{6, 5, 2, 4, 0.25, 0, 0, 2, 0.7, 0.5, 1},
                             {60, 5, 2, 4, 0.25, 0, 0, 2, 0.7, 0.5, 1}};
    for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
        search_net *net = draw_net(&rng, &shapes[k], arena);
        search_budget budget = {
            .deadline = fs_deadline_at((fs_end){INT64_MAX, &stop}, NULL),
            .cutoff = INFINITY,
            .reduce = true};
        search_solution out = {.steps = -1};
        fs_err err = {0};
        const fs_status status =
            search_exhaustive(net, &budget, arena, &err, &out);
        tap_ok(status == FS_OK && out.open && out.lower_bound <= out.cost &&
                   (isinf(out.cost) || out.lower_bound < out.cost),
               "exhaustive: %d nodes, interrupted", shapes[k].nodes);
    }
    fs_arena_destroy(arena);
}

/* What an engine met at a network's prices is where it begins again, with other
 * limits, too; and a plan within less of them is one within them. */
static void again(uint64_t seed)
{
    enum { N = 120 };
    int untrue = 0, wider = 0, within = 0, wanted = 0, lost = 0, met_any = 0;
    int64_t steps[2] = {0, 0};
    for (int i = 0; i < N; i++) {
        fs_arena *arena = fs_arena_create();
        uint64_t rng = fs_mix(seed + 4000 + (uint64_t)i);
        recipe shape = {14, 5, 2, 4, 0.25, 0.05, 0, 2, 0.7, 0.5, 1};
        search_net *net = draw_net(&rng, &shape, arena);
        search_met met = {.arena = arena};
        draw_limits(&rng, net, false);
        search_budget budget = {
            .deadline = fs_deadline_at((fs_end){INT64_MAX, NULL}, NULL),
            .cutoff = INFINITY,
            .reduce = true,
            .met = &met};
        fs_err err = {0};
        search_solution out[2] = {{.cost = INFINITY}, {.cost = INFINITY}};
        fs_status status[2], whole;
        for (int k = 0; k < 2; k++) {
            status[k] = search_ilp(net, &budget, arena, &err, &out[k]);
            steps[k] += out[k].steps;
        }
        search_bundle bundle = search_bundle_new(net, arena);
        lost += !search_bundle_recall(&bundle, &met) && met.value.n > 0;
        lost += bundle.planes.n != met.value.n;
        met_any += bundle.planes.n > 0;
        const search_solution best = run("ilp", net, true, arena, &whole);
        untrue += status[0] != whole || status[1] != whole ||
                  (whole == FS_OK && !(same(out[0].cost, best.cost) &&
                                       same(out[1].cost, best.cost)));
        budget.within = 0.9;
        budget.gap = 0.5;
        if (search_ilp(net, &budget, arena, &err, &out[0]) == FS_OK &&
            isfinite(out[0].cost)) {
            search_net less = *net;
            less.limit_bytes = fs_new(arena, int64_t, net->n_limits);
            for (int32_t k = 0; k < net->n_limits; k++)
                less.limit_bytes[k] =
                    (int64_t)(0.9 * (double)net->limit_bytes[k]);
            const search_solution lean = run("ilp", &less, true, arena, &whole);
            wider += out[0].cost != search_net_cost(net, out[0].value);
            if (whole == FS_OK && 0.5 * lean.cost <= best.cost) {
                wanted++;
                within += isfinite(search_net_cost(&less, out[0].value));
            }
        }
        fs_arena_destroy(arena);
    }
    printf("# again: %lld and %lld steps; within less %d of %d\n",
           (long long)steps[0], (long long)steps[1], within, wanted);
    tap_ok(met_any > N / 2, "minimisers are kept");
    tap_equal_int(lost, 0, "and all are planes of the next attempt");
    tap_equal_int(untrue, 0, "what was met before changes no optimum");
    tap_equal_int(wider, 0,
                  "within less: what is claimed is within the limits");
    tap_ok(wanted > N / 4 && within >= 0.9 * wanted,
           "within less: mostly found, where there is one");
}

/* A plan that fits, stage by stage, and what prices prove without one: against
 * the optimum. */
static void soon(uint64_t seed)
{
    enum { N = 120 };
    int wanted = 0, found = 0, near = 0, untrue = 0, high = 0, low = 0;
    int64_t steps[2] = {0, 0};
    for (int i = 0; i < N; i++) {
        fs_arena *arena = fs_arena_create();
        uint64_t rng = fs_mix(seed + 6000 + (uint64_t)i);
        recipe shape = {24, 5, 3, 8, 0.15, 0.05, 0, 2, 0.7, 0.2, 1};
        search_net *net = draw_net(&rng, &shape, arena);
        search_budget budget = {
            .deadline = fs_deadline_at((fs_end){INT64_MAX, NULL}, NULL),
            .cutoff = INFINITY,
            .gap = 0.01,
            .reduce = true,
            .plan = true};
        fs_err err = {0};
        fs_status status;
        draw_limits(&rng, net, true);
        const search_solution best = run("ilp", net, true, arena, &status);
        search_solution out = {.cost = INFINITY};
        if (status == FS_OK && best.memory_binds) {
            wanted++;
            search_ilp(net, &budget, arena, &err, &out);
            steps[0] += best.steps;
            steps[1] += out.steps;
            found += isfinite(out.cost);
            near += out.cost <= 1.05 * best.cost;
            untrue += isfinite(out.cost) &&
                      (out.cost != search_net_cost(net, out.value) ||
                       out.lower_bound > best.cost * (1 + 1e-9));
            search_prices prices = search_prices_new(net, arena);
            const double bound = search_net_prove(net, &budget, &prices);
            const double again = search_net_press(net, &prices, 1, INFINITY,
                                                  budget.deadline, NULL);
            high += bound > best.cost * (1 + 1e-9);
            low += again < bound * (1 - 1e-9);
            search_prices best_at = search_prices_new(net, arena);
            const double most = search_net_press(net, NULL, 0, INFINITY,
                                                 budget.deadline, &best_at);
            low += search_net_press(net, &best_at, 1, INFINITY, budget.deadline,
                                    NULL) < most * (1 - 1e-9);
        }
        fs_arena_destroy(arena);
    }
    printf("# soon: %d of %d, %d near; %lld and %lld steps\n", found, wanted,
           near, (long long)steps[0], (long long)steps[1]);
    tap_ok(wanted > N / 5 && found >= 0.9 * wanted && near >= 0.4 * wanted,
           "a plan is mostly found soon, near the best");
    tap_ok(2 * steps[1] < steps[0], "for less than half of the work");
    tap_equal_int(untrue, 0, "which fits, and what is proven beside it is so");
    tap_equal_int(high, 0, "no prices prove more than the optimum");
    tap_equal_int(low, 0, "and what they prove they prove again");
}

/* What the oracle could not finish it refuses before it begins. */
static void refuse_giants(uint64_t seed)
{
    fs_arena *arena = fs_arena_create();
    uint64_t rng = fs_mix(seed + 3000);
    recipe shape = {60, 5, 2, 4, 0.25, 0.05, 0, 2, 0.7, 0.5, 1};
    search_net *net = draw_net(&rng, &shape, arena);
    search_budget budget = {.deadline =
                                fs_deadline_at((fs_end){INT64_MAX, NULL}, NULL),
                            .cutoff = INFINITY,
                            .reduce = true};
    search_solution out = {.steps = -1};
    fs_err err = {0};
    tap_equal_int(search_exhaustive(net, &budget, arena, &err, &out), FS_NO,
                  "exhaustive: a giant without a solution");
    err = (fs_err){0};
    shape.forbidden = 0;
    net = draw_net(&rng, &shape, arena);
    for (int32_t k = 0; k < net->n_limits; k++)
        net->limit_bytes[k] = INT64_MAX;
    tap_equal_int(search_exhaustive(net, &budget, arena, &err, &out),
                  FS_INVALID, "exhaustive: a giant is refused");
    tap_ok(strstr(err.text, "assignments of 60 nodes are left"),
           "exhaustive: by what is left, not by counting to its end");
    fs_arena_destroy(arena);
}

/* Eight pairs of nodes that must agree; each spends 1 s in stage 0 or in stage
 * 1. No single node can change; a mixture of both extremes halves the time. */
static void mix(void)
{
    enum { PAIRS = 8 };
    static const double tied[] = {0, INFINITY, INFINITY, 0};
    fs_arena *arena = fs_arena_create();
    search_net net = {.n_nodes = 2 * PAIRS,
                      .n_edges = PAIRS,
                      .n_stages = 2,
                      .micro_batches = 1,
                      .fill = 1};
    net.nodes = fs_new(arena, search_net_node, 2 * PAIRS);
    net.edges = fs_new(arena, search_net_edge, PAIRS);
    for (int32_t i = 0; i < 2 * PAIRS; i++) {
        net.nodes[i] = (search_net_node){.n = 2,
                                         .stage = i % 2,
                                         .per_step = true,
                                         .cost = fs_new(arena, double, 2)};
        net.nodes[i].cost[i % 2] = 1;
        if (i % 2)
            net.edges[i / 2] =
                (search_net_edge){.u = i - 1,
                                  .v = i,
                                  .cost = fs_memdup(arena, tied, sizeof tied)};
    }
    int32_t none[2 * PAIRS] = {0}, all[2 * PAIRS];
    int64_t steps = 0;
    for (int32_t i = 0; i < 2 * PAIRS; i++)
        all[i] = 1;
    tap_ok(same(search_net_improve(&net, none, arena, &steps), PAIRS),
           "mixtures: no single node helps");
    tap_ok(same(search_net_cross(&net, none, all, arena, &steps), PAIRS / 2),
           "mixtures: half of the pairs change sides");
    fs_arena_destroy(arena);
}

typedef struct blends {
    int n, better, too_full, dearer, mended;
    double left_s, after_s, both_s; /* above the oracle's, in all */
} blends;

/* The next cheaper plan of the series, which is too large, is mended. */
static double mend_one(const search_net *net, const search_lean *lean,
                       int32_t k, fs_arena *arena, blends *t)
{
    search_lean_plan one = lean->plans.at[k];
    int64_t steps = 0;
    one.value =
        fs_memdup(arena, one.value, (size_t)net->n_nodes * sizeof *one.value);
    if (!search_lean_mend(net, lean, net->limit_bytes, 1e9,
                          fs_deadline_after(1e9, &steps, never), arena, &one))
        return INFINITY;
    t->mended++;
    t->too_full += one.bytes > net->limit_bytes[0] ||
                   !same(one.cost, search_net_cost(net, one.value));
    return one.cost;
}

/* Within what lies between two plans of the series: the one that fits takes
 * parts of the others over. */
static void blend_one(search_net *net, const search_lean *lean, int32_t k,
                      fs_arena *arena, blends *t)
{
    search_lean_plan one = lean->plans.at[k];
    const int64_t limit = (one.bytes + lean->plans.at[k - 1].bytes) / 2;
    int64_t steps = 0;
    fs_status status;
    for (int32_t i = 0; i < net->n_limits; i++)
        net->limit_bytes[i] = limit;
    const search_solution best = run("exhaustive", net, true, arena, &status);
    one.value =
        fs_memdup(arena, one.value, (size_t)net->n_nodes * sizeof *one.value);
    search_lean_blend(net, lean, net->limit_bytes,
                      fs_deadline_after(1e9, &steps, never), arena, &one);
    t->n++;
    t->too_full +=
        one.bytes > limit || !same(one.cost, search_net_cost(net, one.value));
    t->dearer += one.cost > lean->plans.at[k].cost;
    t->better += one.cost < lean->plans.at[k].cost;
    t->left_s += lean->plans.at[k].cost - best.cost;
    t->after_s += one.cost - best.cost;
    t->both_s +=
        fmin(one.cost, mend_one(net, lean, k - 1, arena, t)) - best.cost;
}

static void blend(uint64_t seed)
{
    enum { N = 60 };
    const recipe shape = {14, 4, 2, 2, 0.15, 0, 0, 2, 0.6, 0.2, 1};
    blends t = {0};
    for (int k = 0; k < N; k++) {
        fs_arena *arena = fs_arena_create();
        uint64_t rng = fs_mix(seed + 7000 + (uint64_t)k);
        search_net *net = draw_net(&rng, &shape, arena);
        search_lean lean;
        int64_t steps = 0;
        search_lean_plans(
            net, &(search_lean_wish){.limit = INT64_MAX, .below_s = INFINITY},
            fs_deadline_after(1e9, &steps, never), arena, &lean);
        for (int32_t i = 1; i < lean.plans.n; i++)
            if (lean.plans.at[i].bytes < lean.plans.at[i - 1].bytes)
                blend_one(net, &lean, i, arena, &t);
        fs_arena_destroy(arena);
    }
    printf("# blends: %d, better %d; above the optimum %.4g s, then %.4g; "
           "mended %d, then %.4g\n",
           t.n, t.better, t.left_s, t.after_s, t.mended, t.both_s);
    tap_ok(t.n > N, "blends: limits between lean plans");
    tap_equal_int(t.too_full, 0, "blends: all keep the limit");
    tap_equal_int(t.dearer, 0, "blends: none is dearer");
    tap_ok(t.after_s < t.left_s / 2,
           "blends: less than half of what was left above the optimum is");
    tap_ok(t.mended > t.n / 2 && t.both_s < 0.75 * t.after_s,
           "mended: most that are too large, and less is left");
}

int main(void)
{
    uint64_t seed = tap_seed(20240501);
    compare(seed, true, NETS, "reduced");
    compare(seed, false, NETS / 4, "whole");
    agree(seed);
    allow_gap(seed);
    next_prices();
    learn_prices();
    mix();
    blend(seed);
    stop_oracle(seed);
    again(seed);
    soon(seed);
    refuse_giants(seed);
    tap_ok(search_engine_find("none") == NULL, "an unknown engine is NULL");
    tap_equal_text(search_engine_names(),
                   "ilp, exhaustive, greedy, deduce, mcmc",
                   "the engines are those of engines.def");
    return tap_done();
}
