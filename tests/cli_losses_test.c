/* The promise of the consistent view, on the demo's model: whatever the plan,
 * the losses are those of one device, and those are PyTorch's. */
#include "config.h"
#include "tests/cli_plans.h"

#define MODEL "\"$S/datasets/models/gpt_bytes.dyn.onnx\""
#define TEXT "\"$S/datasets/data/moby-dick.txt\""

enum { MAX_STEPS = 100 };

/* The number of losses, 0 when it failed. */
static int train(const char *recipe, int ranks, const char *optimizer,
                 int steps, double *losses)
{
    char words[600];
    snprintf(words, sizeof words,
             "plan " MODEL " --cluster local --ranks %d --batch 8 %s %s", ranks,
             recipe, optimizer);
    return cli_train(words, TEXT, steps, losses) ? steps : 0;
}

static double worst(const double *got, const double *wanted, int from, int to)
{
    return cli_losses_off(got + from, wanted + from, to - from);
}

static void test_plans_equal_one_device(void)
{
    static const struct {
        const char *name, *recipe;
        int ranks;
    } plans[] = {
        {"dp2", "--dp 2", 2},
        {"tp2", "--tp 2", 2},
        {"pp2", "--pp 2", 2},
        {"dp4", "--dp 4", 4},
        {"dp2 x tp2", "--dp 2 --tp 2", 4},
        {"pp2 x tp2, 4 micro-batches", "--pp 2 --tp 2 --micro-batches 4", 4},
        {"pp4, 8 micro-batches", "--pp 4 --micro-batches 8", 4},
        {"pp2 x dp2, gpipe, 4 micro-batches",
         "--pp 2 --dp 2 --micro-batches 4 --schedule gpipe", 4},
        {"dp4, ZeRO-1", "--dp 4 --zero 1", 4},
        {"dp2, ZeRO-3", "--dp 2 --zero 3", 2},
        {"dp4, overlapped collectives", "--dp 4 --overlap", 4},
    };
    enum { STEPS = 10 };
    double one[STEPS], other[STEPS];
    const char *sgd = "--optimizer sgd --lr 0.1";
    int n = train("--dp 1", 1, sgd, STEPS, one);
    tap_equal_int(n, STEPS, "one rank trains for ten steps");
    if (n != STEPS)
        return;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        n = train(plans[i].recipe, plans[i].ranks, sgd, STEPS, other);
        double off = n == STEPS ? worst(other, one, 0, STEPS) : (double)NAN;
        tap_ok(off <= 1e-5, "%s: losses equal one device's (off %.1e)",
               plans[i].name, off);
    }
}

/* Gradients clipped by the norm of all of them, whoever holds which part. */
static void test_clipped(void)
{
    static const struct {
        const char *recipe;
        int ranks;
    } plans[] = {{"--dp 4 --zero 3", 4},
                 {"--dp 2 --tp 2 --zero 2", 4},
                 {"--pp 4 --micro-batches 4", 4},
                 {"--pp 2 --dp 2 --zero 1 --micro-batches 2", 4}};
    enum { STEPS = 5 };
    double free_[STEPS], one[STEPS], other[STEPS];
    const char *clip = "--optimizer sgd --lr 0.1 --clip-norm 0.5";
    int n = train("--dp 1", 1, "--optimizer sgd --lr 0.1", STEPS, free_);
    if (n == STEPS)
        n = train("--dp 1", 1, clip, STEPS, one);
    tap_ok(n == STEPS && one[0] <= free_[0] && one[4] > 1.01 * free_[4],
           "clipped gradients make smaller steps");
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        n = train(plans[i].recipe, plans[i].ranks, clip, STEPS, other);
        double off = n == STEPS ? worst(other, one, 0, STEPS) : (double)NAN;
        tap_ok(off <= 1e-5, "%s, clipped: losses equal one device's (off %.1e)",
               plans[i].recipe, off);
    }
    cli_answer *a = cli("plan zoo:mlp --cluster 1x1:a100-sxm4-40g --batch 8 "
                        "--clip-norm 0 -o \"$D/none.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "--clip-norm 0: a norm of more"),
           "a norm of 0 is refused");
}

static int reference(const char *key, double *losses)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/datasets/models/gpt_bytes.reference.json",
             cli_env("FS_SRCDIR", "."));
    json_t *root = json_load_file(path, 0, NULL);
    json_t *list = json_object_get(json_object_get(root, "runs"), key);
    int n = (int)json_array_size(list);
    for (int i = 0; i < n && i < MAX_STEPS; i++)
        losses[i] = json_number_value(json_array_get(list, (size_t)i));
    json_decref(root);
    return n;
}

static void test_losses_are_pytorchs(void)
{
    static const struct {
        const char *key, *optimizer;
    } runs[] = {
        {"sgd_lr0.1", "--optimizer sgd --lr 0.1"},
        {"adamw_lr1e-3_wd0.01",
         "--optimizer adamw --lr 1e-3 --weight-decay 0.01"},
    };
    static const struct {
        const char *recipe;
        int ranks;
    } plans[] = {{"--dp 1", 1},
                 {"--dp 4", 4},
                 {"--dp 2 --tp 2", 4},
                 {"--pp 2 --dp 2 --micro-batches 2", 4}};
    double wanted[MAX_STEPS], got[MAX_STEPS];
    for (int r = 0; r < 2; r++) {
        int n = reference(runs[r].key, wanted);
        tap_ok(n == (r ? 100 : 30), "%s: the record has its steps",
               runs[r].key);
        for (int p = 0; p < 4 && n > 0; p++) {
            int got_n = train(plans[p].recipe, plans[p].ranks,
                              runs[r].optimizer, n, got);
            double first = got_n == n ? worst(got, wanted, 0, 10) : (double)NAN;
            double all = got_n == n ? worst(got, wanted, 0, n) : (double)NAN;
            tap_ok(first <= 1e-4 && all <= 1e-2,
                   "%s, %s: PyTorch's losses (off %.1e over ten steps, %.1e "
                   "over %d)",
                   runs[r].key, plans[p].recipe, first, all, n);
        }
    }
}

/* The digest of the weights after a run of $D/NAME with more options; a static
 * text, "" when it failed. */
static const char *trained(const char *name, const char *options)
{
    static char found[4][32];
    static int turn;
    char *into = found[turn++ % 4];
    cli_answer *a = cli("run \"$D/%s\" --data synthetic --steps 3 %s --json",
                        name, options);
    const char *digest =
        json_string_value(json_object_get(a->json, "weights_digest"));
    snprintf(into, sizeof found[0], "%s", digest ? digest : "");
    if (!digest)
        cli_show(a);
    return into;
}

/* A constant stated at `run` trains as one stated at `plan`. */
static void test_constants_at_run(void)
{
    static const struct {
        const char *optimizer, *options;
    } all[] = {{"sgd", "--lr 0.03 --weight-decay 0.25"},
               {"momentum", "--momentum 0.5"},
               {"adam", "--beta1 0.5 --beta2 0.75"},
               {"adamw", "--epsilon 0.25 --beta1 0"},
               {"lamb", "--beta1 0.5 --epsilon 0.25"}};
    for (int i = 0; i < 5; i++) {
        cli("plan zoo:mlp,layers=1 --cluster local --ranks 1 --batch 8 "
            "--optimizer %s -o \"$D/usual.json\"",
            all[i].optimizer);
        cli("plan zoo:mlp,layers=1 --cluster local --ranks 1 --batch 8 "
            "--optimizer %s %s -o \"$D/stated.json\"",
            all[i].optimizer, all[i].options);
        const char *usual = trained("usual.json", "");
        const char *changed = trained("usual.json", all[i].options);
        tap_equal_text(changed, trained("stated.json", ""),
                       "%s, %s: at run as at plan", all[i].optimizer,
                       all[i].options);
        tap_ok(usual[0] && strcmp(usual, changed) != 0,
               "%s, %s: other weights than without", all[i].optimizer,
               all[i].options);
    }
    cli_answer *a = cli("run \"$D/usual.json\" --data synthetic --momentum 1");
    tap_ok(a->status == 2 && strstr(a->err, "--momentum 1 has no effect") &&
               strstr(a->err, "--optimizer lamb (the plan's)"),
           "a constant that the plan's optimizer does not use is refused");
    a = cli("run \"$D/usual.json\" --data synthetic --beta2 1");
    tap_ok(a->status == 2 && strstr(a->err, "below 1"), "beta2 1 is refused");
}

int main(void)
{
    cli_begin_scratch("losses");
    cli("calibrate"); /* once: `local` is then known */
    test_plans_equal_one_device();
    test_clipped();
    test_losses_are_pytorchs();
    test_constants_at_run();
    cli_end_scratch();
    return tap_done();
}
