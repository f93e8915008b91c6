/* --recompute: less memory, more work, the same bits, under any recipe. */
#include "config.h"
#include "base/hash.h"
#include "plan/schedule.h"
#include "tests/cli_plans.h"

#define MODEL "\"$S/datasets/models/gpt_bytes.dyn.onnx\""
#define TEXT "\"$S/datasets/data/moby-dick.txt\""
#define DEEP "zoo:gpt,layers=8,hidden=64,heads=4,vocab=100,seq=128"

static double number(const cli_answer *a, const char *key)
{
    return json_number_value(json_object_get(a->json, key));
}

static json_int_t whole(const cli_answer *a, const char *key)
{
    return json_integer_value(json_object_get(a->json, key));
}

/* What a plan takes and how long it is, by policy. */
typedef struct cost {
    json_int_t bytes;
    double seconds;
} cost;

static cost cost_of(const char *cluster, const char *recipe, const char *policy)
{
    cli_answer *a = cli("plan " DEEP " --cluster %s --batch 16 %s "
                        "--recompute %s -o \"$D/deep.json\" --json",
                        cluster, recipe, policy);
    if (a->status != 0)
        cli_show(a);
    return (cost){cli_largest_peak(a), number(a, "sim_iteration_s")};
}

static void test_trade(const char *cluster, const char *recipe)
{
    cost none = cost_of(cluster, recipe, "none");
    cost block = cost_of(cluster, recipe, "block");
    cost cheap = cost_of(cluster, recipe, "cheap");
    tap_ok(block.bytes > 0 && 2 * block.bytes < none.bytes,
           "%s: with blocks less than half, %lld of %lld bytes", recipe,
           (long long)block.bytes, (long long)none.bytes);
    tap_ok(cheap.bytes < none.bytes, "%s: with cheap ops less, %lld bytes",
           recipe, (long long)cheap.bytes);
    tap_ok(block.seconds > none.seconds && block.seconds < 1.45 * none.seconds,
           "%s: as long as the forward pass more, %g for %g s", recipe,
           block.seconds, none.seconds);
}

/* What is computed again of constants is not waited for stage after stage. */
static void test_stages(void)
{
    cli_answer *a =
        cli("plan zoo:gpt2,layers=4,hidden=256,heads=4,vocab=100 --batch 32 "
            "--cluster 1x4:a100-sxm4-80g --pp 4 --micro-batches 4 "
            "--precision bf16 --recompute block -o \"$D/again.json\" --json");
    const double formula = number(a, "iteration_s");
    const double simulated = number(a, "sim_iteration_s");
    tap_ok(a->status == 0 && simulated > 0 && simulated < 1.1 * formula,
           "--pp 4 in bf16 with blocks again: stages overlap, %g s simulated, "
           "%g s by the formula",
           simulated, formula);
}

/* Some parts of a transformer by their names, or all. */
static const char *draw_set(uint64_t *seed, char out[200])
{
    static const char *const parts[] = {
        "add",  "norm", "matmul",  "mul",       "attn",
        "proj", "mlp",  "reshape", "transpose", "blocks.1"};
    size_t n = 0;
    strcpy(out, ".*");
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++)
        if (fs_rand_below(seed, 5) < 2)
            n += (size_t)sprintf(out + n, "%s%s", n ? "|" : "", parts[k]);
    return fs_rand_below(seed, 4) ? out : ".*";
}

typedef struct pipelines {
    int32_t n, refused;
    double worst; /* simulated over the formula's */
} pipelines;

static void try_pipeline(uint64_t *seed, int32_t schedule, pipelines *t)
{
    static const struct {
        const char *name;
        plan_placing placing;
    } schedules[] = {
#define PLAN_SCHEDULE(id, name, placing, ...) {name, placing},
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
    };
    static const char *const models[] = {"gpt", "gpt2", "bert", "llama"};
    const size_t rows = sizeof schedules / sizeof *schedules;
    const plan_placing placing = schedules[schedule % (int32_t)rows].placing;
    const int stages = 2 + (int)fs_rand_below(seed, 2);
    const int depth = placing == PLAN_PLACED_ONCE ? 1
                      : placing == PLAN_PLACED_V
                          ? 2
                          : 2 + (int)fs_rand_below(seed, 2);
    char set[200];
    const char *again = draw_set(seed, set);
    cli_answer *a =
        cli("plan zoo:%s,layers=%d,hidden=32,heads=2,vocab=11,seq=8 --cluster "
            "1x%d:a100-sxm4-80g --pp %d --batch %d --micro-batch 1 "
            "--schedule %s --interleave %d --recompute '%s' --precision %s "
            "-o \"$D/pipe.json\" --json",
            models[fs_rand_below(seed, 4)], stages * depth, stages, stages,
            2 * stages, schedules[schedule % (int32_t)rows].name, depth, again,
            fs_rand_below(seed, 2) ? "fp32" : "bf16");
    const double ratio =
        number(a, "sim_iteration_s") / number(a, "iteration_s");
    t->n++;
    if (a->status == 0)
        t->worst = fmax(t->worst, ratio);
    else
        cli_show(a);
    const bool made = a->status == 0;
    if (made)
        a = cli("check \"$D/pipe.json\"");
    if (made && a->status != 0)
        cli_show(a);
    t->refused += a->status != 0;
}

/* What is computed again for a later stage would have its backward pass wait
 * for an earlier one's: a deadlock where devices have several stages. */
static void test_any_set(void)
{
    uint64_t seed = tap_seed(31);
    pipelines t = {0};
    for (int32_t k = 0; k < 42; k++)
        try_pipeline(&seed, k, &t);
    tap_ok(t.n > 0 && t.refused == 0,
           "any set again under any schedule: %d plans, %d refused", t.n,
           t.refused);
    tap_ok(t.worst < 1.1,
           "stages overlap: simulated at most %.3g of the formula's", t.worst);
}

/* ---- losses ---- */

static const char *trained(const char *recipe, int ranks, const char *policy)
{
    static char found[4][400];
    static int turn;
    char *into = found[turn++ % 4], words[600];
    into[0] = '\0';
    snprintf(words, sizeof words,
             "plan " MODEL " --cluster local --ranks %d --batch 8 %s --lr 0.01 "
             "--recompute %s",
             ranks, recipe, policy);
    const cli_answer *a = cli_plan_and_run(words, "--data " TEXT " --steps 3");
    if (!a)
        return into;
    char *losses = json_dumps(json_object_get(a->json, "losses"), 0);
    snprintf(into, sizeof found[0], "%s %s", losses,
             json_string_value(json_object_get(a->json, "weights_digest")));
    free(losses);
    return into;
}

static void test_same_bits(const char *recipe, int ranks)
{
    const char *none = trained(recipe, ranks, "none");
    tap_ok(none[0], "%s: three steps", recipe);
    tap_equal_text(trained(recipe, ranks, "block"), none,
                   "%s: the same losses and weights with blocks", recipe);
    tap_equal_text(trained(recipe, ranks, "cheap"), none,
                   "%s: and with cheap ops", recipe);
}

/* The largest relative difference of the losses of two trainings. */
static double losses_apart(const char *a, const char *b)
{
    json_t *x = json_loads(a, JSON_DISABLE_EOF_CHECK, NULL);
    json_t *y = json_loads(b, JSON_DISABLE_EOF_CHECK, NULL);
    double worst =
        json_array_size(x) == json_array_size(y) && json_array_size(x) > 0
            ? 0
            : INFINITY;
    for (size_t i = 0; i < json_array_size(x); i++) {
        double p = json_number_value(json_array_get(x, i));
        double q = json_number_value(json_array_get(y, i));
        worst = fmax(worst, fabs(p - q) / fabs(q));
    }
    json_decref(x);
    json_decref(y);
    return worst;
}

/* Where signatures are free a copy may get another one than its original, and
 * sums another order. */
static void test_same_losses(const char *recipe, int ranks)
{
    const char *none = trained(recipe, ranks, "none");
    double worst = losses_apart(trained(recipe, ranks, "block"), none);
    tap_ok(worst < 1e-6, "%s: the same losses with blocks (%g)", recipe, worst);
    worst = losses_apart(trained(recipe, ranks, "cheap"), none);
    tap_ok(worst < 1e-6, "%s: and with cheap ops (%g)", recipe, worst);
}

/* ---- what commands make of it ---- */

/* A plan's file that says what is kept of it says so of nodes that are. */
static void test_kept(void)
{
    if (system("sed 's/\"kept\": *\\[/&\"nobody\", /' \"$D/found.json\" "
               ">\"$D/kept.json\"") != 0)
        return;
    cli_answer *a = cli("check \"$D/kept.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "kept.json: origin.kept") &&
               strstr(a->err, "nobody"),
           "a node that is computed nowhere again is named: %.80s", a->err);
    a = cli("plan " DEEP " --cluster 1x1:cpu --batch 8 --recompute any -o "
            "\"$D/x.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "--recompute any"),
           "plan by hand chooses nothing");
}

static void test_search(void)
{
    const char *rest = "--cluster 1x1:cpu --batch 8 --fix micro-batches=1 "
                       "--memory 24M --time-limit 20 -o \"$D/found.json\"";
    cli_answer *a = cli("search " DEEP " %s --recompute none", rest);
    tap_ok(a->status == 1 && strstr(a->err, "memory"),
           "24 MiB are too few for any plan");
    a = cli("search " DEEP " %s --recompute block --json", rest);
    const double block_s = cli_number(a, "iteration_s");
    tap_ok(a->status == 0 && cli_largest_peak(a) <= 24 << 20,
           "but not when blocks are computed again: %lld bytes",
           (long long)cli_largest_peak(a));
    a = cli("search " DEEP " %s --json", rest);
    tap_ok(a->status == 0 && cli_largest_peak(a) <= 24 << 20 &&
               cli_number(a, "iteration_s") <= block_s,
           "nor when search chooses what is, which takes no longer");
    a = cli("check \"$D/found.json\" --json");
    tap_ok(a->status == 0, "the plan's file makes the same graph again");
    a = cli("explain \"$D/found.json\"");
    tap_ok(a->status == 0, "and can be explained");
    test_kept();
}

static void test_model(void)
{
    cli_answer *a = cli("model " DEEP " --batch 4 --json");
    json_int_t kept = whole(a, "kept_bytes"), flop = whole(a, "bwd_flop");
    json_t *block = json_array_get(json_object_get(a->json, "blocks"), 0);
    tap_equal_int(json_integer_value(json_object_get(block, "copies")), 8,
                  "model: eight copies of a block");
    a = cli("model " DEEP " --batch 4 --recompute '/attn/' --json");
    tap_ok(whole(a, "kept_bytes") < kept && whole(a, "bwd_flop") > flop,
           "a part by its names: %lld of %lld bytes kept",
           (long long)whole(a, "kept_bytes"), (long long)kept);
}

static void test_refusals(void)
{
    cli_answer *a = cli("plan zoo:mlp,layers=1 --cluster 1x1:cpu --batch 8 "
                        "--recompute block -o \"$D/no.json\"");
    tap_ok(a->status == 2 &&
               strstr(a->err, "--recompute: mlp has no repeated block"),
           "a network without blocks");
    a = cli("plan zoo:mlp --cluster 1x1:cpu --batch 8 --recompute '[' -o "
            "\"$D/no.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "--recompute: '['"),
           "no regular expression");
}

/* What is asked for is told, with its size. */
static void test_told(void)
{
    cli_answer *a = cli("plan zoo:gpt,layers=2,hidden=32,heads=2,seq=16 "
                        "--batch 4 --cluster 1x1:cpu --recompute block -o "
                        "\"$D/told.json\"");
    tap_ok(a->status == 0 && strstr(a->out, "recompute       block: "),
           "a plan tells what is recomputed");
    a = cli("plan zoo:gpt,layers=2,hidden=32,heads=2,seq=16 --batch 4 "
            "--cluster 1x1:cpu -o \"$D/told.json\"");
    tap_ok(a->status == 0 && !strstr(a->out, "recompute "),
           "nor a line where nothing is asked");
    a = cli("plan zoo:gpt,layers=2,hidden=32,heads=2,seq=16 --batch 4 "
            "--cluster 1x1:cpu -o \"$D/told.json\" --json");
    tap_ok(a->status == 0 && cli_number(a, "recomputed_ops") == 0,
           "nothing is recomputed unless told");
}

/* A small network in 16 bits, and where it is to be trained. */
static void draw_narrow(uint64_t *seed, char out[300])
{
    static const char *const models[] = {
        "zoo:mlp,layers=%d,hidden=256,in=256",
        "zoo:gpt,layers=%d,hidden=128,heads=4,seq=64,vocab=512",
        "zoo:llama,layers=%d,hidden=128,heads=4,seq=64,vocab=512",
        "zoo:moe,layers=%d,hidden=64,heads=4,seq=32,vocab=512"};
    static const char *const clusters[] = {"1x2:v100-sxm2-16g", "1x3:l4",
                                           "1x4:a100-sxm4-80g"};
    char model[120];
    snprintf(model, sizeof model, models[fs_rand_below(seed, 4)],
             1 + (int)fs_rand_below(seed, 3));
    snprintf(out, 300,
             "search %s --cluster %s --batch %d --precision %s --fix pp=1 "
             "--gap 0 --work-limit 2 --db none",
             model, clusters[fs_rand_below(seed, 3)],
             4 << fs_rand_below(seed, 4),
             fs_rand_below(seed, 2) ? "bf16" : "fp16");
}

/* Casts made again take seconds, too: where memory has no say there are none,
 * and the bound without a limit is none of plans with them alone. */
static void test_limits(void)
{
    uint64_t seed = tap_seed(37);
    int32_t wrong = 0, n = 0;
    for (int32_t k = 0; k < 12; k++) {
        char words[300];
        draw_narrow(&seed, words);
        cli_answer *a = cli("%s -o \"$D/free.json\" --json", words);
        const double bound_s = number(a, "lower_bound_s");
        const json_int_t peak = cli_largest_peak(a);
        if (a->status != 0)
            cli_show(a);
        for (int32_t part = 90; a->status == 0 && part >= 70; part -= 10) {
            a = cli("%s --memory %lld -o \"$D/less.json\" --json", words,
                    (long long)(peak * part / 100));
            if (a->status != 0)
                break;
            n++;
            if (number(a, "iteration_s") >= bound_s * (1 - 1e-9))
                continue;
            wrong++;
            printf("# %s: nothing below %g s, but %g s within %d %%\n", words,
                   bound_s, number(a, "iteration_s"), part);
        }
    }
    tap_ok(n > 12 && wrong == 0,
           "in 16 bits nothing is below the bound, however little memory: %d "
           "plans, %d are",
           n, wrong);
}

/* A stage that computed nothing but casts has none when they are left out: no
 * plan. */
static void test_no_task(void)
{
    const cli_answer *a =
        cli("search zoo:insightface,depth=18,width=16,embedding=64,"
            "classes=1000,size=56 --cluster 3x5:a100-sxm4-40g --batch 13 "
            "--precision fp16 --memory 13678156 --work-limit 3 --db none "
            "-o \"$D/tasks.json\" --json");
    if (a->status != 0)
        cli_show(a);
    tap_equal_int(a->status, 0, "no stage of a plan is left without a task");
    tap_equal_int(cli("check \"$D/tasks.json\"")->status, 0, "it is sound");
}

int main(void)
{
    cli_begin_scratch("recompute");
    test_trade("1x1:cpu", "--dp 1");
    test_trade("1x4:cpu", "--dp 2 --tp 2 --zero 1");
    test_trade("1x4:cpu", "--pp 4 --micro-batches 8");
    test_stages();
    test_any_set();
    test_limits();
    test_no_task();
    cli("calibrate"); /* once: `local` is then known */
    test_same_bits("--dp 1", 1);
    test_same_bits("--dp 2 --zero 3", 2);
    test_same_bits("--pp 2 --micro-batches 4", 2);
    test_same_losses("--dp 2 --tp 2 --zero 1", 4);
    test_search();
    test_model();
    test_told();
    test_refusals();
    cli_end_scratch();
    return tap_done();
}
