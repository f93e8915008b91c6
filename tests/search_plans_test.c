/* Several plans of one search, and how sure a choice among them is. */
#include "config.h"
#include "search/front.h"
#include "search/plans.h"

#include "cost/choice.h"
#include "cost/regret.h"
#include "ir/train.h"
#include "plan/check.h"
#include "plan/lower.h"
#include "search_cluster.h"
#include "tap.h"
#include "zoo/zoo.h"

#include <math.h>
#include <string.h>

enum { COUNTS = 3, KEEP = 5 };

/* A search over a model, of batch 16 in 1, 2 or 4 micro-batches. */
typedef struct bench {
    fs_arena *arena;
    ir_graph *graph[COUNTS];
    search_graph graphs[COUNTS];
    search_ranking ranking;
    search_problem problem;
    uint64_t seed;
    double scores[KEEP];
} bench;

static void begin(bench *b, const char *model, const char *cluster)
{
    fs_err err = {0};
    ir_train_options options = ir_train_defaults();
    options.optimizer = IR_ADAMW;
    *b = (bench){.arena = fs_arena_create()};
    for (int32_t i = 0; i < COUNTS; i++) {
        options.micro_batches = 1 << i;
        FS_ASSERT(zoo_build(model, 16 >> i, &err, &b->graph[i]) == FS_OK);
        FS_ASSERT(ir_train(b->graph[i], &options, &err) == FS_OK);
        b->graph[i]->batch = 16;
        b->graphs[i] = (search_graph){1 << i, b->graph[i], NULL};
    }
    hw_cluster *hw = open_cluster(cluster, b->arena);
    b->ranking = (search_ranking){.keep = KEEP, .within = 0.5, .promise = 1};
    b->problem = (search_problem){.cluster = hw,
                                  .cost = cost_model_create(hw, b->arena),
                                  .n_graphs = COUNTS,
                                  .graphs = b->graphs,
                                  .engine = "ilp",
                                  .start = "megatron",
                                  .schedule = "1f1b",
                                  .fix_mesh = {.n = -1},
                                  .max_mesh_axes = 2,
                                  .time_limit_s = 60,
                                  .gap = 1e-3,
                                  .reduce = true,
                                  .ranking = &b->ranking};
}

static void end(bench *b)
{
    for (int32_t i = 0; i < COUNTS; i++)
        ir_graph_destroy(b->graph[i]);
    fs_arena_destroy(b->arena);
}

static search_result answer(bench *b)
{
    search_result r = {0};
    fs_err err = {0};
    FS_ASSERT(search_run(&b->problem, b->arena, &err, &r) == FS_OK);
    return r;
}

static bool same_configuration(const search_plan *a, const search_plan *b)
{
    return a->of == b->of && a->strategy->n_stages == b->strategy->n_stages &&
           plan_same_mesh(&a->strategy->stages[0].mesh,
                          &b->strategy->stages[0].mesh);
}

/* Sound when lowered, and within the limit. */
/* As usual, or packed until it fits. */
static bool keeps_with(const bench *b, const search_plan *p, int64_t limit,
                       bool until_fits)
{
    fs_err err = {0};
    plan *lowered;
    plan_report report;
    plan_lower_options options = plan_lower_defaults();
    int64_t *enough = fs_new(b->arena, int64_t, p->strategy->n_stages);
    for (int32_t i = 0; i < p->strategy->n_stages; i++)
        enough[i] = limit;
    options.enough_bytes = until_fits ? enough : NULL;
    bool good = plan_lower(p->graph, b->problem.cluster, p->strategy, &options,
                           b->arena, &err, &lowered) == FS_OK &&
                plan_check(p->graph, b->problem.cluster, lowered, b->arena,
                           &report) == FS_OK;
    for (int32_t r = 0; good && limit && r < lowered->n_roles; r++)
        good = lowered->roles[r].arena_bytes <= limit;
    return good;
}

static bool keeps(const bench *b, const search_plan *p, int64_t limit)
{
    return keeps_with(b, p, limit, false) ||
           (limit && keeps_with(b, p, limit, true));
}

/* Under a limit there may be but one. */
static void check_plans(bench *b, const search_result *r, int64_t limit)
{
    int32_t order = 0, twice = 0, claims = 0, far = 0, unsound = 0;
    for (int32_t k = 0; k < r->n_plans; k++) {
        const search_plan *p = &r->plans[k];
        const double s =
            cost_strategy_seconds(b->problem.cost, p->graph, p->strategy);
        order += k > 0 && p->iteration_s < r->plans[k - 1].iteration_s;
        claims += s != p->iteration_s ||
                  fabs(p->gap - fmax(0, 1 - r->lower_bound_s / s)) > 1e-12;
        far += s > (1 + b->ranking.within) * r->plans[0].iteration_s * 1.0001;
        for (int32_t i = 0; i < k; i++)
            twice += same_configuration(p, &r->plans[i]);
        unsound += !keeps(b, p, limit);
    }
    tap_ok(r->n_plans >= (limit ? 1 : 2) && r->n_plans <= KEEP,
           "%d plans are kept", r->n_plans);
    tap_equal_int(order + twice, 0,
                  "cheapest first, each of another configuration");
    tap_equal_int(claims, 0, "each claim is cost_strategy's, each gap its own");
    tap_equal_int(far, 0, "none is further from the best than asked");
    tap_equal_int(unsound, 0, "each is sound and keeps the limit");
}

/* Any order among the plans. */
static double roll(void *ctx, int32_t place, const search_plan *p)
{
    bench *b = ctx;
    uint64_t x = (b->seed + 77 * (uint64_t)place) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return b->scores[place] = p->iteration_s * (double)(x >> 40);
}

static void check_choice(bench *b, double promise)
{
    b->ranking.score = roll;
    b->ranking.ctx = b;
    b->ranking.promise = promise;
    const search_result r = answer(b);
    const double most = fmax(promise, r.plans[0].gap);
    int32_t better = 0;
    for (int32_t k = 0; k < r.n_plans; k++)
        better += r.plans[k].gap <= most && b->scores[k] < b->scores[r.chosen];
    tap_ok(better == 0 && r.plans[r.chosen].gap <= most,
           "promise %g: plan %d has the least score of those within", promise,
           r.chosen + 1);
    tap_ok(r.iteration_s == r.plans[r.chosen].iteration_s &&
               r.strategy == r.plans[r.chosen].strategy &&
               r.gap == r.plans[r.chosen].gap,
           "what is told is the chosen plan's");
}

static void test_plans(const char *model, const char *cluster)
{
    bench b;
    begin(&b, model, cluster);
    printf("# %s on %s\n", model, cluster);
    const search_result several = answer(&b), again = answer(&b);
    check_plans(&b, &several, 0);
    bool equal = several.n_plans == again.n_plans;
    for (int32_t k = 0; equal && k < several.n_plans; k++)
        equal = several.plans[k].iteration_s == again.plans[k].iteration_s;
    tap_ok(equal, "the same plans again");
    b.problem.ranking = NULL;
    const search_result one = answer(&b);
    tap_ok(several.iteration_s <= one.iteration_s &&
               several.lower_bound_s == one.lower_bound_s &&
               several.chosen == 0,
           "the best of several is the one plan: %.9g s, %.9g s",
           several.iteration_s, one.iteration_s);
    b.problem.ranking = &b.ranking;
    b.seed = tap_seed(11);
    check_choice(&b, 0.05);
    b.seed++;
    check_choice(&b, 1);
    end(&b);
}

/* Of what is said of a search as it goes on. */
static void hear_tables(void *n, const char *line)
{
    *(int32_t *)n += strstr(line, " tables") != NULL;
}

/* A few layers on several stages do not fold: prices and potentials have
 * nothing to press, and tables are for attempts. */
static void test_unfolded(void)
{
    bench b;
    int32_t tables = 0;
    begin(&b, "zoo:gpt,layers=4,hidden=256,heads=8,vocab=512,seq=64",
          "32x8:a100-sxm4-80g");
    b.problem.ranking = NULL;
    b.problem.progress = hear_tables;
    b.problem.progress_ctx = &tables;
    const search_result r = answer(&b);
    int32_t solved = 0;
    for (int32_t k = 0; k < r.n_configs; k++)
        solved += isfinite(r.configs[k].iteration_s);
    printf("# %d tables, %d solved of %d\n", tables, solved, r.n_configs);
    tap_ok(solved > 0 && tables <= solved,
           "tables are made for what is attempted");
    end(&b);
}

static void test_limit(void)
{
    bench b;
    begin(&b, "zoo:gpt,layers=2,hidden=64,heads=4,vocab=256,seq=32", "1x4:cpu");
    const search_result wide = answer(&b);
    int64_t bytes;
    cost_summary summary;
    fs_err err = {0};
    FS_ASSERT(cost_strategy(b.problem.cost, wide.graph, wide.strategy, b.arena,
                            &err, &summary) == FS_OK);
    bytes = summary.peak_bytes[0] * 3 / 4;
    b.problem.memory_bytes = bytes;
    b.problem.time_limit_s = 2;
    const search_result r = answer(&b);
    check_plans(&b, &r, bytes);
    end(&b);
}

/* Time against memory. */
static void test_front(const char *model, const char *cluster)
{
    bench b;
    search_front f;
    fs_err err = {0};
    begin(&b, model, cluster);
    b.problem.ranking = NULL;
    const search_result first = answer(&b);
    b.problem.time_limit_s = 6;
    FS_ASSERT(search_front_run(&b.problem, &first, 6, b.arena, &err, &f) ==
              FS_OK);
    int32_t order = 0, over = 0, unsound = 0, unproven = 0, claims = 0;
    for (int32_t k = 0; k < f.n; k++) {
        const search_front_point *p = &f.points[k], *last = p - (k > 0);
        const search_plan it = {.graph = p->found.graph,
                                .strategy = p->found.strategy};
        printf("# %lld of %lld bytes: %.6g s, not below %.6g s\n",
               (long long)p->peak_bytes, (long long)p->limit_bytes,
               p->found.iteration_s, p->found.lower_bound_s);
        order += k > 0 && (p->found.iteration_s <= last->found.iteration_s ||
                           p->peak_bytes >= last->peak_bytes);
        over += p->peak_bytes > p->limit_bytes;
        unsound += !keeps(&b, &it, p->peak_bytes);
        unproven += p->found.lower_bound_s > p->found.iteration_s ||
                    p->found.lower_bound_s < last->found.lower_bound_s;
        claims += p->found.iteration_s !=
                  cost_strategy_seconds(b.problem.cost, it.graph, it.strategy);
    }
    tap_ok(f.n >= 2, "%s: a front of %d points", model, f.n);
    tap_equal_int(order, 0, "each takes longer than the last, and less memory");
    tap_equal_int(over, 0, "each keeps its limit");
    tap_equal_int(unsound, 0, "each is sound and takes what is told");
    tap_equal_int(unproven, 0, "bounds rise and are below their plans");
    tap_equal_int(claims, 0, "each claim is cost_strategy's");
    for (int32_t i = 0; i < f.n; i++)
        for (int32_t k = 0; k < f.n; k++)
            if (f.points[k].peak_bytes <= f.points[i].limit_bytes &&
                f.points[k].found.iteration_s < f.points[i].found.lower_bound_s)
                unproven++;
    tap_equal_int(unproven, 0, "no plan within a limit is below its bound");
    end(&b);
}

/* ---- regrets ---- */

static cost_uncertainty read_shipped(fs_arena *arena)
{
    cost_uncertainty u;
    fs_err err = {0};
    const char *root = getenv("FS_SRCDIR");
    const char *file =
        fs_printf(arena, "%s/datasets/uncertainty.json", root ? root : ".");
    FS_ASSERT(cost_uncertainty_read(file, arena, &err, &u) == FS_OK);
    return u;
}

static void test_regrets(void)
{
    bench b;
    cost_regret out[KEEP];
    cost_option options[KEEP];
    begin(&b, "zoo:gpt,layers=2,hidden=64,heads=4,vocab=256,seq=32",
          "2x4:a100-sxm4-80g");
    const search_result r = answer(&b);
    cost_uncertainty u = read_shipped(b.arena);
    for (int32_t k = 0; k < r.n_plans; k++)
        options[k] = (cost_option){r.plans[k].graph, r.plans[k].strategy};
    cost_regrets(b.problem.cost, &u, r.n_plans, options, out);
    int32_t outside = 0, odd = 0, never = 0;
    for (int32_t k = 0; k < r.n_plans; k++) {
        const double s = r.plans[k].iteration_s;
        outside += s < out[k].low_s || s > out[k].high_s;
        odd += out[k].most < 0 || out[k].mean > out[k].most;
        /* what it takes there at most and at least bound its regret */
        never += out[k].most > out[k].high_s / out[0].low_s;
    }
    tap_equal_int(outside, 0, "what is predicted lies in what is uncertain");
    tap_equal_int(odd, 0, "a mean regret is at most the most");
    tap_equal_int(never, 0, "regrets are of the figures told");
    for (int32_t k = 0; k < COST_CONSTANTS; k++)
        u.of[k] = (cost_interval){1, 1};
    cost_regrets(b.problem.cost, &u, r.n_plans, options, out);
    int32_t moved = 0;
    for (int32_t k = 0; k < r.n_plans; k++) {
        const double s = r.plans[k].iteration_s, best = r.plans[0].iteration_s;
        moved += out[k].low_s != s || out[k].high_s != s ||
                 fabs(out[k].most - (s / best - 1)) > 1e-12;
    }
    tap_equal_int(moved, 0, "where all is certain regret is what is lost");
    cost_regrets(b.problem.cost, &u, 1, &options[1], out);
    tap_ok(out[0].most == 0, "one plan alone is never regretted");
    cost_model *said = cost_model_like(b.problem.cost, b.arena);
    cost_model_reduce_by(said, PLAN_BY_tree);
    cost_regrets(said, &u, r.n_plans, options, out);
    for (int32_t k = moved = 0; k < r.n_plans; k++)
        moved += out[k].low_s != cost_strategy_seconds(said, r.plans[k].graph,
                                                       r.plans[k].strategy);
    tap_equal_int(moved, 0, "where collectives are said they are as said");
    end(&b);
}

/* Links twice as slow make a plan of one device no slower. */
static void test_scale(void)
{
    static const hw_scale slow_links = {1, 1, 1, 2, 2, 2},
                          slow_work = {2, 2, 2, 1, 1, 1};
    bench b;
    begin(&b, "zoo:mlp,layers=2,hidden=64", "1x1:a100-sxm4-80g");
    b.ranking.keep = 1;
    const search_result r = answer(&b);
    const hw_scale *by[] = {&slow_links, &slow_work};
    for (int32_t k = 0; k < 2; k++) {
        const cost_model *model = cost_model_create(
            hw_cluster_scaled(b.problem.cluster, by[k], b.arena), b.arena);
        const double s = cost_strategy_seconds(model, r.graph, r.strategy);
        tap_near(s / r.iteration_s, k + 1, 1e-12,
                 k ? "twice the work takes twice as long"
                   : "links do not matter where there are none");
    }
    end(&b);
}

static void refuse(const char *text, const char *wanted)
{
    fs_arena *arena = fs_arena_create();
    cost_uncertainty u;
    fs_err err = {0};
    const char *file = "search_plans_test.json";
    FILE *out = fopen(file, "w");
    FS_ASSERT(out);
    fputs(text, out);
    fclose(out);
    tap_ok(cost_uncertainty_read(file, arena, &err, &u) == FS_INVALID &&
               strstr(err.text, file) && strstr(err.text, wanted),
           "refused: %s", err.text);
    remove(file);
    fs_arena_destroy(arena);
}

int main(void)
{
    test_plans("zoo:gpt,layers=2,hidden=64,heads=4,vocab=256,seq=32",
               "1x4:cpu");
    test_plans("zoo:gpt,layers=2,hidden=256,heads=4,vocab=512,seq=64",
               "2x4:a100-sxm4-80g");
    test_plans("zoo:mlp,layers=4,hidden=256", "1x8:v100-sxm2-16g");
    test_unfolded();
    test_limit();
    test_front("zoo:gpt,layers=2,hidden=64,heads=4,vocab=256,seq=32",
               "1x4:cpu");
    test_front("zoo:mlp,layers=2,hidden=64", "1x4:a100-sxm4-80g");
    test_regrets();
    test_scale();
    refuse("{}", "iteration");
    refuse("{\"iteration\": 2, \"source\": \"\", \"constants\": {}}",
           "iteration");
    refuse("{\"iteration\": 0.1, \"source\": \"\", \"constants\": {}}",
           "compute");
    refuse("{\"iteration\": 0.1, \"source\": \"\", \"constants\": {\"compute\":"
           " {\"low\": 1.1, \"high\": 1.2, \"source\": \"\"}}}",
           "low");
    return tap_done();
}
