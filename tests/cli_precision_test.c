/* Training in 16 bits as a user asks for it: whatever the plan, the losses are
 * one device's but for roundings, and those are fp32's but for more of them. */
#include "config.h"
#include "tests/cli_plans.h"

#define MODEL "\"$S/datasets/models/gpt_bytes.dyn.onnx\""
#define TEXT "\"$S/datasets/data/moby-dick.txt\""

enum { STEPS = 25 };

static bool train(int ranks, const char *recipe, const char *precision,
                  double losses[STEPS])
{
    char words[600];
    snprintf(words, sizeof words,
             "plan " MODEL " --cluster local --ranks %d --batch 8 %s "
             "--precision %s",
             ranks, recipe, precision);
    return cli_train(words, TEXT, STEPS, losses);
}

static double worst(const double *got, const double *wanted)
{
    return cli_losses_off(got, wanted, STEPS);
}

/* `off` is how far losses may be from fp32's and from one device's. */
static void test_precision(const char *precision, double off,
                           const double *full)
{
    static const struct {
        int ranks;
        const char *recipe;
    } plans[] = {{2, "--dp 2 --zero 3"},
                 {2, "--tp 2 --micro-batches 2"},
                 {4, "--pp 2 --dp 2 --micro-batches 4 --clip-norm 1e9"},
                 {4, "--dp 2 --tp 2 --zero 1"}};
    double one[STEPS], other[STEPS];
    if (!train(1, "", precision, one)) {
        tap_ok(false, "%s: one device trains", precision);
        return;
    }
    tap_ok(worst(one, full) < off && one[STEPS - 1] < 0.7 * one[0],
           "%s: %d losses are fp32's within %g (%.1e)", precision, STEPS, off,
           worst(one, full));
    for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
        bool ran = train(plans[k].ranks, plans[k].recipe, precision, other);
        tap_ok(ran && worst(other, one) < off,
               "%s, %s: losses are one device's within %g (%.1e)", precision,
               plans[k].recipe, off, ran ? worst(other, one) : (double)NAN);
    }
}

/* The plan that was made last says which steps it leaves out, in the object,
 * the table and the database: as far as the scale has not grown again. */
static void test_told(int skipped)
{
    const cli_answer *a = cli(
        "run \"$D/plan.json\" --data " TEXT " --steps %d --json", skipped + 3);
    tap_equal_int((int)cli_number(a, "skipped_steps"), skipped,
                  "run counts the steps that were left out");
    const json_t *first =
        json_array_get(json_object_get(a->json, "skipped"), 0);
    tap_equal_int((int)json_integer_value(first), 1, "from the first on");
    tap_ok(cli_number(a, "loss_scale") == ldexp(1e8, -skipped),
           "each halved the scale: %g is left", cli_number(a, "loss_scale"));
    a = cli("runs --sql 'SELECT count(*) AS n FROM steps WHERE skipped AND "
            "run = (SELECT max(run) FROM steps)' --json");
    const json_t *row = json_array_get(json_object_get(a->json, "runs"), 0);
    tap_equal_int((int)json_integer_value(json_object_get(row, "n")), skipped,
                  "the steps in the database say it");
    a = cli("run \"$D/plan.json\" --data " TEXT " --steps 5");
    tap_ok(a->status == 0 && strstr(a->out, "steps skipped") &&
               strstr(a->out, "loss scale, last"),
           "the table says both");
}

/* From a scale that overflows on, on ranks that must judge alike. */
static void test_skipped_steps(void)
{
    double losses[STEPS];
    bool ran = train(4, "--pp 2 --tp 2 --micro-batches 2",
                     "fp16 --loss-scale dynamic,from=1e8,steps=4", losses);
    int waited = 1;
    while (ran && waited < STEPS && losses[waited] > losses[0] - 0.1)
        waited++;
    tap_ok(ran && waited >= 5 && losses[STEPS - 1] < 0.8 * losses[0],
           "fp16 from a scale of 1e8: %d steps are left out, then it trains",
           waited - 1);
    test_told(waited - 1);
}

/* The divisor of this loss is known after the last micro-batch: what 16 bits
 * hold of its gradients must not hang on how many there are. */
static void test_equal_headroom(void)
{
    static const char *const dir = "$S/datasets/train_cases/gpt_tiny";
    json_t *one = NULL;
    for (int m = 1; m <= 2; m++) {
        cli_answer *a =
            cli("plan \"%s/model.onnx\" --cluster local --ranks 1 --batch 2 "
                "--precision fp16 --loss-scale dynamic,from=1e6,steps=2 "
                "--micro-batches %d -o \"$D/plan.json\"",
                dir, m);
        if (a->status == 0)
            a = cli("run \"$D/plan.json\" --data \"%s/test_data_set_0\" "
                    "--steps 10 --json",
                    dir);
        json_t *skipped = json_object_get(a->json, "skipped");
        if (m == 1)
            one = json_deep_copy(skipped);
        tap_ok(a->status == 0 && json_array_size(skipped) > 0 &&
                   json_equal(skipped, one),
               "gpt_tiny, micro-batches %d: the same steps are left out", m);
    }
    json_decref(one);
}

static void test_words(void)
{
    static const struct {
        const char *words, *says;
    } bad[] = {
        {"--precision fp8", "precision 'fp8' is unknown"},
        {"--loss-scale 8", "gradients of fp32 need none"},
        {"--precision fp16 --loss-scale lots", "loss scale 'lots'"},
    };
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        cli_answer *a = cli("plan zoo:mlp --cluster 1x1:v100-32g --batch 8 "
                            "%s -o \"$D/none.json\"",
                            bad[k].words);
        tap_ok(a->status == 2 && strstr(a->err, bad[k].says),
               "%s is refused: %s", bad[k].words, bad[k].says);
    }
    cli_answer *a = cli("show zoo:mlp --precision bf16 -o \"$D/mlp.txt\"");
    tap_ok(a->status == 0, "show --precision bf16");
    a = cli("model zoo:gpt --precision bf16");
    tap_ok(a->status == 0 && strstr(a->out, "matmul of bf16"),
           "model says which type each op computes in");
}

static double predict(const char *precision)
{
    cli_answer *a = cli("plan zoo:gpt,layers=4,hidden=1024 --cluster "
                        "1x1:a100-sxm4-80g --batch 8 --precision %s "
                        "-o \"$D/a100.json\" --json",
                        precision);
    if (a->status != 0)
        cli_show(a);
    return json_number_value(json_object_get(a->json, "iteration_s"));
}

static void test_prediction(void)
{
    double full = predict("fp32"), half = predict("bf16");
    cli_answer *a = cli("explain \"$D/a100.json\" --op "
                        "/blocks.0/attn/q/add");
    tap_ok(a->status == 0 && strstr(a->out, "(matmul of bf16)"),
           "explain says the type that an op computes in");
    tap_ok(half > 0 && half < 0.7 * full,
           "a100: bf16 is predicted faster (%g s, fp32 %g s)", half, full);
}

int main(void)
{
    double full[STEPS];
    cli_begin_scratch("cli_precision");
    test_words();
    test_prediction();
    if (train(1, "", "fp32", full)) {
        test_precision("bf16", 5e-3, full);
        test_precision("fp16", 1e-3, full);
    } else {
        tap_ok(false, "fp32 trains");
    }
    test_skipped_steps();
    test_equal_headroom();
    cli_end_scratch();
    return tap_done();
}
