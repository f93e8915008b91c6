/* --compress as a user asks for it: each kind trains a small transformer about
 * as well as without, moves fewer bytes, and is refused where it makes none
 * smaller. */
#include "config.h"
#include "tests/cli_plans.h"

#define TINY "zoo:gpt,layers=2,hidden=32,heads=2,vocab=256,seq=16"
#define LARGE "zoo:gpt,layers=2,hidden=512,heads=8,vocab=1000,seq=128"
#define TEXT "\"$S/datasets/data/moby-dick.txt\""

enum { STEPS = 60, LAST = 10 };

static bool train(int ranks, const char *recipe, const char *how,
                  double losses[STEPS])
{
    char words[600];
    snprintf(words, sizeof words,
             "plan " TINY " --cluster local --ranks %d %s --batch 16 "
             "--lr 0.003 --seed 1 %s",
             ranks, recipe, how);
    return cli_train(words, TEXT, STEPS, losses);
}

/* Mean of the last losses. */
static double reached(const double losses[STEPS])
{
    double sum = 0;
    for (int i = STEPS - LAST; i < STEPS; i++)
        sum += losses[i];
    return sum / LAST;
}

/* `margin` is how much more loss is left than without compression. */
static void test_convergence(const char *how, double margin,
                             const double plain[STEPS])
{
    static const struct {
        int ranks;
        const char *recipe;
    } plans[] = {{2, "--dp 2"}, {4, "--dp 2 --pp 2 --micro-batches 2"}};
    for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
        double losses[STEPS];
        const bool ran = train(plans[k].ranks, plans[k].recipe, how, losses);
        const double more = ran ? reached(losses) / reached(plain) - 1 : NAN;
        tap_ok(ran && more < margin && losses[STEPS - 1] < 0.75 * losses[0],
               "%s, %s: the loss is within %g %% of the uncompressed one "
               "(%+.2f %%)",
               how, plans[k].recipe, 100 * margin, 100 * more);
    }
}

static void test_kinds(void)
{
    double plain[STEPS];
    if (!train(2, "--dp 2", "", plain)) {
        tap_ok(false, "without compression it trains");
        return;
    }
    test_convergence("--compress bf16", 0.01, plain);
    test_convergence("--compress fp16", 0.01, plain);
    test_convergence("--compress powersgd:4", 0.03, plain);
    test_convergence("--compress topk:0.1", 0.08, plain);
}

/* Bytes for the compressed gradients over those as they are: exactly half; what
 * 2 % of values and places are, 8 bytes for 4 and gathered once where a sum
 * goes round twice; by the factors. What is small may be cheaper reduced at
 * once. */
static void test_bytes(void)
{
    static const struct {
        const char *how;
        double low, high;
        int n; /* gradients compressed */
    } kinds[] = {{"bf16", 0.4999, 0.5001, 36},
                 {"fp16", 0.4999, 0.5001, 36},
                 {"topk:0.02", 0.0199, 0.022, 16},
                 {"powersgd:4", 0.005, 0.02, 14}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        cli_answer *a = cli("plan " LARGE " --cluster 4x1:a100-sxm4-80g --dp 4 "
                            "--batch 8 --compress %s -o \"$D/c.json\" --json",
                            kinds[k].how);
        const double share =
            cli_number(a, "compressed_bytes") / cli_number(a, "plain_bytes");
        tap_ok(a->status == 0 && share >= kinds[k].low &&
                   share <= kinds[k].high,
               "%s: of the bytes %.4f move", kinds[k].how, share);
        tap_ok(cli_number(a, "compressed_gradients") == kinds[k].n &&
                   cli_number(a, "uncompressed_gradients") == 36 - kinds[k].n,
               "%s: of 36 gradients %g are compressed, the rest are told",
               kinds[k].how, cli_number(a, "compressed_gradients"));
        a = cli("check \"$D/c.json\"");
        tap_ok(a->status == 0, "%s: the plan is made again and sound",
               kinds[k].how);
        a = cli("explain \"$D/c.json\"");
        tap_ok(a->status == 0 && strstr(a->out, kinds[k].how),
               "%s: explain tells it", kinds[k].how);
    }
}

static void test_words(void)
{
    static const char *const bad[] = {"zip", "topk:2", "powersgd"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        const cli_answer *a = cli("plan " TINY " --cluster 1x2:a100-sxm4-80g "
                                  "--batch 2 --compress %s -o \"$D/no.json\"",
                                  bad[k]);
        tap_ok(a->status == 2 && strstr(a->err, "--compress") &&
                   strstr(a->err, bad[k]),
               "--compress %s is refused", bad[k]);
    }
    const cli_answer *a =
        cli("plan " TINY " --cluster 1x2:a100-sxm4-80g --batch 2 "
            "--compress powersgd:64 -o \"$D/no.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "no gradient would be smaller"),
           "so is a rank that no matrix has");
    a = cli("plan " TINY " --cluster 1x2:a100-sxm4-80g --batch 2 "
            "-o \"$D/plain.json\" --json");
    tap_ok(a->status == 0 && !json_object_get(a->json, "compress"),
           "nothing is compressed unless told");
}

int main(void)
{
    cli_begin_scratch("compress");
    test_words();
    test_bytes();
    test_kinds();
    cli_end_scratch();
    return tap_done();
}
