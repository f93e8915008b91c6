/* Whole searches of random small networks over all that is free (stages,
 * meshes, micro-batch counts, schedules, memory): the ilp against the
 * exhaustive engine, and the one cut per number of stages against all cuts. */
#include "config.h"
#include "search/search.h"

#include "base/hash.h"
#include "ir/blocks.h"
#include "search_cluster.h"
#include "search_draw.h"
#include "search/cuts/cut.h"
#include "search/layout.h"
#include "tap.h"

enum { CASES = 760, CUT_CASES = 60, MOST_GRAPHS = 3, MOST_STAGES = 4 };
/* Sums of the same numbers in another order. */
#define ROUNDING 1e-12

typedef struct oracle_case {
    uint64_t seed;
    const char *cluster;
    bool train;
    int32_t most, n_graphs, axes, stages, n_schedules;
    int64_t rows;
    const char *const *schedules;
    const int32_t *depths; /* of these; NULL: 1 */
    double share; /* of the peak of the best plan: a memory limit; 0: none */
} oracle_case;

static const char *const all_schedules[] = {"1f1b", "gpipe", "zb-h1",
                                            "dynamic"};

static const char *const deep_schedules[] = {"1f1b", "interleaved", "zb-v"};
static const int32_t deep[] = {1, 2, 2};

/* Small enough for the oracle: training graphs have about four nodes for a
 * forward one, two axes square the values of a node. */
static oracle_case draw_case(uint64_t seed)
{
    static const char *const clusters[] = {"1x2:cpu", "1x4:cpu",
                                           "2x2:a100-sxm4-80g", "3x1:l4",
                                           "2x1:h100-sxm5-80g"};
    uint64_t rng = fs_mix(seed);
    oracle_case c = {.seed = seed};
    const int64_t where = fs_rand_below(&rng, 5);
    c.cluster = clusters[where];
    c.train = fs_rand_below(&rng, 2);
    c.axes = 1 + (int32_t)fs_rand_below(&rng, 2);
    c.most = c.train ? (int32_t)fs_rand_below(&rng, 3)
                     : 1 + (int32_t)fs_rand_below(&rng, 10);
    c.n_graphs = c.train ? 1 + (int32_t)fs_rand_below(&rng, MOST_GRAPHS) : 1;
    c.schedules = &all_schedules[fs_rand_below(&rng, 4)];
    if (fs_rand_below(&rng, 3) == 0) {
        c.schedules = all_schedules;
        c.n_schedules = 2 + (int32_t)fs_rand_below(&rng, 3);
    }
    c.rows = 64 << (2 * fs_rand_below(&rng, 5));
    /* A pipeline of as many stages as there are devices, or of two. */
    if (fs_rand_below(&rng, 4) == 0 && (c.train || c.most > 6))
        c.stages = where == 3 ? 3 : 2;
    if (fs_rand_below(&rng, 2))
        c.share = 0.7 + 0.4 * fs_rand_unit(&rng);
    if (c.share > 0 && c.train && where != 0) {
        c.most = 0; /* limits leave the oracle many states */
        c.axes = 1;
    }
    if (c.n_schedules)
        c.n_graphs = 1;
    if (c.n_schedules && fs_rand_below(&rng, 2)) {
        c.schedules = deep_schedules;
        c.depths = deep;
        c.n_schedules = 3;
    }
    return c;
}

typedef struct asked {
    fs_arena *arena;
    ir_graph *graph[MOST_GRAPHS];
    search_graph graphs[MOST_GRAPHS];
    search_problem problem;
    hw_cluster *cluster;
} asked;

static void open_case(asked *a, const oracle_case *c)
{
    *a = (asked){.arena = fs_arena_create()};
    a->cluster = open_cluster(c->cluster, a->arena);
    join_cluster(a->cluster, c->seed, a->arena);
    for (int32_t k = 0; k < c->n_graphs; k++) {
        uint64_t rng = fs_mix(c->seed + 1);
        const search_draw draw = {.train = c->train,
                                  .most = c->most,
                                  .rows = c->rows,
                                  .micro_batches = 1 << k};
        a->graph[k] = search_draw_graph(&rng, &draw);
        FS_ASSERT(a->graph[k]->err.status == FS_OK);
        a->graphs[k] =
            (search_graph){a->graph[k]->micro_batches, a->graph[k], NULL};
    }
    a->problem =
        (search_problem){.cluster = a->cluster,
                         .cost = cost_model_create(a->cluster, a->arena),
                         .n_graphs = c->n_graphs,
                         .graphs = a->graphs,
                         .schedule = c->schedules[0],
                         .n_schedules = c->n_schedules,
                         .schedules = c->n_schedules ? c->schedules : NULL,
                         .depths = c->depths,
                         .fix_stages = c->stages,
                         .fix_mesh = {.n = -1},
                         .max_mesh_axes = c->axes,
                         .time_limit_s = 600,
                         .reduce = true};
}

static void close_case(asked *a, const oracle_case *c)
{
    for (int32_t k = 0; k < c->n_graphs; k++)
        ir_graph_destroy(a->graph[k]);
    fs_arena_destroy(a->arena);
}

static fs_status ask(asked *a, const char *engine, search_result *out)
{
    fs_err err = {0};
    a->problem.engine = engine;
    *out = (search_result){.iteration_s = INFINITY};
    const fs_status status = search_run(&a->problem, a->arena, &err, out);
    if (status != FS_OK && status != FS_NO)
        printf("# %s: %s\n", engine, err.text);
    return status;
}

static double recomputed(const asked *a, const search_result *r)
{
    cost_summary summary = {0};
    fs_err err = {0};
    const fs_status status = cost_strategy(
        a->problem.cost, r->graph, r->strategy, a->arena, &err, &summary);
    return status == FS_OK ? summary.iteration_s : -1;
}

static bool exact(const asked *a, const search_result *r)
{
    const double s = recomputed(a, r);
    return !(s < r->iteration_s) && !(s > r->iteration_s);
}

static int64_t peak_of(const search_result *r)
{
    int64_t peak = 0;
    for (int32_t k = 0; k < r->n_configs; k++)
        if (r->configs[k].peak_bytes > peak)
            peak = r->configs[k].peak_bytes;
    return peak;
}

static bool has_misfits(const search_result *r)
{
    return r->space && strstr(r->space, "do not fit");
}

static bool beyond(double bound, double cost)
{
    return bound > cost * (1 + ROUNDING);
}

typedef struct tally {
    int cases, refused, infeasible, staged, deep, limited, misfits, split, ops;
    int bad_status, bad_cost, bad_bound, bad_claim, bad_proof;
    int worse; /* of those with misfits */
    double worst;
} tally;

static void tell(const oracle_case *c, const char *what, const search_result *a,
                 const search_result *b)
{
    printf("# FS_CASE=%llu: %s: exhaustive %s %.17g from %.17g, ilp %s %.17g "
           "from %.17g\n",
           (unsigned long long)c->seed, what, a->status, a->iteration_s,
           a->lower_bound_s, b->status, b->iteration_s, b->lower_bound_s);
}

/* What is said of plans that fit once lowered may differ: of those that cost
 * the same each engine finds another, and only some fit. */
static void judge(tally *t, const oracle_case *c, const asked *a,
                  const search_result *oracle, const search_result *ilp)
{
    const bool misfit = has_misfits(oracle) || has_misfits(ilp);
    t->misfits += misfit;
    if (beyond(oracle->lower_bound_s, ilp->iteration_s) ||
        beyond(ilp->lower_bound_s, oracle->iteration_s)) {
        tell(c, "a bound above a plan", oracle, ilp);
        t->bad_bound++;
    }
    t->staged += ilp->strategy->n_stages > 1;
    t->deep += strcmp(ilp->strategy->schedule, "interleaved") == 0 ||
               strcmp(ilp->strategy->schedule, "zb-v") == 0;
    t->split += ilp->strategy->micro_batches > 1;
    t->bad_claim += !exact(a, oracle) || !exact(a, ilp);
    const double by = ilp->iteration_s / oracle->iteration_s - 1;
    if (misfit) {
        t->worse += by > ROUNDING;
        t->worst = fmax(t->worst, by);
        return;
    }
    if (fabs(by) > ROUNDING) {
        tell(c, "costs", oracle, ilp);
        t->bad_cost++;
    }
    if (strcmp(oracle->status, "optimal") != 0 ||
        strcmp(ilp->status, "optimal") != 0) {
        tell(c, "no proof", oracle, ilp);
        t->bad_proof++;
    }
}

static void compare(tally *t, const oracle_case *c)
{
    asked a;
    search_result oracle, ilp;
    open_case(&a, c);
    if (c->share > 0 && ask(&a, "ilp", &ilp) == FS_OK) {
        a.problem.memory_bytes =
            1 + (int64_t)(c->share * (double)peak_of(&ilp));
        t->limited++;
    }
    const fs_status wanted = ask(&a, "exhaustive", &oracle);
    const fs_status got = ask(&a, "ilp", &ilp);
    t->cases++;
    if (wanted == FS_INVALID) { /* too much for the oracle */
        t->refused++;
    } else if (wanted == FS_OK && got == FS_OK) {
        t->ops += a.graph[0]->nodes.n;
        judge(t, c, &a, &oracle, &ilp);
    } else {
        t->infeasible += wanted == FS_NO && got == FS_NO;
        const bool differ =
            strcmp(oracle.status, "infeasible") == 0 ? got == FS_OK
            : strcmp(ilp.status, "infeasible") == 0  ? wanted == FS_OK
                                                     : false;
        if (differ)
            tell(c, "one refuses", &oracle, &ilp);
        t->bad_status += differ;
    }
    close_case(&a, c);
}

static void test_engines(uint64_t seed, int32_t n, bool one)
{
    tally t = {0};
    for (int32_t i = 0; i < n; i++) {
        const oracle_case c = draw_case(seed + (uint64_t)i);
        compare(&t, &c);
    }
    const int compared = t.cases - t.refused - t.infeasible;
    printf("# %d networks of %d nodes in the mean (%d too large, %d without a "
           "plan): %d plans of several stages, %d of several on a group, %d of "
           "several micro-batches, %d under limits; %d where plans do not fit, "
           "ilp worse in %d of "
           "these, by %.3g %% at most\n",
           compared, compared ? t.ops / compared : 0, t.refused, t.infeasible,
           t.staged, t.deep, t.split, t.limited, t.misfits, t.worse,
           100 * t.worst);
    tap_ok(one || compared >= n * 2 / 3, "at least %d networks were compared",
           n * 2 / 3);
    tap_ok(one || (t.staged > 20 && t.split > 20 && t.limited > n / 4 &&
                   t.deep > 0),
           "stages, several on a group, micro-batches and limits occur");
    tap_equal_int(t.bad_cost, 0, "ilp equals exhaustive");
    tap_equal_int(t.bad_proof, 0, "both prove it");
    tap_equal_int(t.bad_bound, 0, "no bound is above a plan of the other");
    tap_equal_int(t.bad_status, 0, "what one refuses the other has no plan of");
    tap_equal_int(t.bad_claim, 0, "claims are cost_strategy's, to the bit");
}

/* ---- cuts ---- */

static int32_t count_blocks(const ir_graph *graph, fs_arena *arena)
{
    ir_blocks blocks;
    int32_t n = 0;
    ir_find_blocks(graph, arena, &blocks);
    for (int32_t k = 0; k < blocks.repeats.n; k++) {
        const ir_repeat *r = &blocks.repeats.at[k];
        n += graph->nodes.at[blocks.node[r->first]].phase == IR_FORWARD
                 ? r->copies
                 : 0;
    }
    return n;
}

typedef struct cut_tally {
    int problems, cuts, balanced, best, much, recuts;
    int bad_bound, bad_claim, bad_worse, bad_status;
    double before, sum, worst;
    uint64_t worst_seed;
} cut_tally;

/* Every way to give `stages` stages at least one forward node each, by how many
 * each has; false behind the last. */
static bool next_cut(search_layers *layers, int32_t stages, int32_t nodes)
{
    for (int32_t p = stages - 2; p >= 0; p--) {
        int32_t sum = 1;
        layers[p].nodes++;
        for (int32_t k = 0; k + 1 < stages; k++)
            sum += layers[k].nodes;
        if (sum <= nodes)
            return true;
        layers[p].nodes = 1;
    }
    return false;
}

/* The least that any cut takes, by the engine that needs no proof of its own.
 */
static double best_of_cuts(cut_tally *t, asked *a, int32_t stages)
{
    search_layers layers[MOST_STAGES] = {{0, 0}};
    search_result other;
    fs_err err = {0};
    double best = INFINITY;
    for (int32_t p = 0; p + 1 < stages; p++)
        layers[p].nodes = 1;
    layers[stages - 1].blocks = count_blocks(a->graph[0], a->arena);
    do {
        if (search_cut_check(a->graph[0], layers, stages, &err) != FS_OK)
            continue;
        a->problem.layers = layers;
        a->problem.n_layers = stages;
        if (ask(a, "ilp", &other) == FS_OK)
            best = fmin(best, other.iteration_s);
        t->cuts++;
    } while (next_cut(layers, stages, 12));
    a->problem.n_layers = 0;
    return best;
}

static void try_cuts(cut_tally *t, const oracle_case *c, asked *a,
                     int32_t stages)
{
    search_result balanced, found;
    a->problem.fix_stages = stages;
    if (ask(a, "ilp", &balanced) != FS_OK)
        return;
    a->problem.recut = true;
    if (ask(a, "ilp", &found) != FS_OK)
        return;
    a->problem.recut = false;
    const double best = best_of_cuts(t, a, stages);
    const double by = found.iteration_s / best - 1;
    t->problems++;
    t->recuts += found.n_recuts;
    t->balanced += balanced.iteration_s <= best * (1 + 1e-9);
    t->before += fmax(balanced.iteration_s / best - 1, 0);
    t->best += by < 1e-9;
    t->much += by > 0.01;
    t->sum += fmax(by, 0);
    t->bad_bound += beyond(found.any_cut_s, best);
    t->bad_claim += !exact(a, &found) || !exact(a, &balanced);
    t->bad_worse += found.iteration_s > balanced.iteration_s;
    if (by > t->worst) {
        t->worst = by;
        t->worst_seed = c->seed;
    }
}

/* How near the search comes to the best of all cuts. */
static void test_cuts(uint64_t seed, int32_t n)
{
    for (int32_t stages = 2; stages <= 4; stages += 2) {
        cut_tally t = {0};
        for (int32_t i = 0; i < n; i++) {
            oracle_case c = draw_case(seed + (uint64_t)i);
            asked a;
            c.train = true;
            c.cluster = stages == 2 ? c.cluster : "1x4:cpu";
            c.n_graphs = 1;
            c.most = 3 + i % 3;
            open_case(&a, &c);
            if (a.cluster->n_devices % stages == 0)
                try_cuts(&t, &c, &a, stages);
            close_case(&a, &c);
        }
        const double many = t.problems ? t.problems : 1;
        printf("# %d networks in %d stages, %d cuts: the balanced one is best "
               "in %d, off by %.3g %% in the mean; with %d others the best is "
               "found in %d, over 1 %% off in %d, %.3g %% in the mean and %.3g "
               "%% at most (seed %llu)\n",
               t.problems, stages, t.cuts, t.balanced, 100 * t.before / many,
               t.recuts, t.best, t.much, 100 * t.sum / many, 100 * t.worst,
               (unsigned long long)t.worst_seed);
        tap_equal_int(t.bad_bound, 0, "no cut is below the bound of all cuts");
        tap_equal_int(t.bad_claim, 0, "claims are cost_strategy's");
        tap_equal_int(t.bad_worse, 0, "no plan is worse than without");
        tap_ok(t.sum <= 0.02 * many,
               "in the mean within 2 %% of the best of all cuts");
    }
}

/* ---- stages of different meshes ---- */

static bool is_power(int32_t n)
{
    return (n & (n - 1)) == 0;
}

/* Every way to give two stages all devices, in sub-meshes of powers of two, and
 * every cut. */
static double best_of_pairs(cut_tally *t, asked *a)
{
    const int32_t devices = a->cluster->n_devices;
    double best = INFINITY;
    for (int32_t first = 1; first < devices; first++) {
        ir_mesh mesh[] = {
            {first > 1, {first > 1 ? first : 0}},
            {devices - first > 1, {devices - first > 1 ? devices - first : 0}}};
        if (!is_power(first) || !is_power(devices - first))
            continue;
        a->problem.stage_mesh = mesh;
        best = fmin(best, best_of_cuts(t, a, 2));
        a->problem.stage_mesh = NULL;
    }
    return best;
}

static void try_pairs(cut_tally *t, const oracle_case *c, asked *a)
{
    search_result found;
    a->problem.fix_stages = 2;
    a->problem.recut = true;
    const fs_status status = ask(a, "ilp", &found);
    a->problem.recut = false;
    const double best = best_of_pairs(t, a);
    if (isinf(best))
        return;
    t->problems++;
    t->bad_status += status != FS_OK;
    if (status != FS_OK)
        return;
    const double by = found.iteration_s / best - 1;
    t->recuts += found.n_recuts;
    t->best += by < 1e-9;
    t->much += by > 0.01;
    t->sum += fmax(by, 0);
    t->bad_claim += !exact(a, &found);
    if (by > t->worst) {
        t->worst = by;
        t->worst_seed = c->seed;
    }
}

static void test_pairs(uint64_t seed, int32_t n)
{
    static const char *const clusters[] = {
        "1x1:h100-sxm5-80g+1x2:l4", "1x2:a100-sxm4-80g+1x1:l4", "1x4:cpu",
        "1x1:a100-sxm4-80g+1x4:l4"};
    cut_tally t = {0};
    for (int32_t i = 0; i < n; i++) {
        oracle_case c = draw_case(seed + (uint64_t)i);
        asked a;
        c.train = true;
        c.cluster = clusters[i % 4];
        c.n_graphs = c.axes = 1;
        c.n_schedules = 0;
        c.most = 3 + i % 3;
        open_case(&a, &c);
        try_pairs(&t, &c, &a);
        close_case(&a, &c);
    }
    printf(
        "# %d networks in 2 stages of any meshes, %d cuts: with %d looked at "
        "the best is found in %d, over 1 %% off in %d, %.3g %% in the mean "
        "and %.3g %% at most (seed %llu)\n",
        t.problems, t.cuts, t.recuts, t.best, t.much,
        100 * t.sum / (t.problems ? t.problems : 1), 100 * t.worst,
        (unsigned long long)t.worst_seed);
    tap_equal_int(t.bad_status, 0, "there is a plan where stages are unequal");
    tap_equal_int(t.bad_claim, 0, "claims are cost_strategy's");
    tap_ok(t.sum <= 0.05 * (t.problems + 1),
           "in the mean within 5 %% of the best of all meshes and cuts");
}

/* FS_CASE=SEED: one case; FS_CASES=N: so many. */
int main(void)
{
    const char *one = getenv("FS_CASE"), *many = getenv("FS_CASES");
    const uint64_t seed = one ? strtoull(one, NULL, 10) : 100000 * tap_seed(3);
    const int32_t n = one ? 1 : many ? atoi(many) : CASES;
    if (!getenv("FS_CUTS"))
        test_engines(seed, n, one);
    test_cuts(seed, one ? 1 : CUT_CASES);
    test_pairs(seed, one ? 1 : CUT_CASES);
    return tap_done();
}
