/* The promise of the consistent view, on the demo's model: whatever the plan,
 * the losses are those of one device, and those are PyTorch's. */
#include "config.h"
#include "tests/run_cli.h"

#define MODEL "\"$S/datasets/models/gpt_bytes.dyn.onnx\""
#define TEXT "\"$S/datasets/data/moby-dick.txt\""

enum { MAX_STEPS = 100 };

/* Plans, runs, and gives the losses; the number of them, 0 when it failed. */
static int train(const char *recipe, int ranks, const char *optimizer,
                 int steps, double *losses)
{
    cli_answer *a = cli("plan " MODEL " --cluster local --ranks %d --batch 8 "
                        "%s %s -o \"$D/plan.json\" --json",
                        ranks, recipe, optimizer);
    if (a->status != 0) {
        cli_show(a);
        return 0;
    }
    a = cli("run \"$D/plan.json\" --data " TEXT " --steps %d --json", steps);
    const json_t *list = json_object_get(a->json, "losses");
    if (a->status != 0 || (int)json_array_size(list) != steps) {
        cli_show(a);
        return 0;
    }
    for (int i = 0; i < steps; i++)
        losses[i] = json_number_value(json_array_get(list, (size_t)i));
    return steps;
}

static double worst(const double *got, const double *wanted, int from, int to)
{
    double most = 0;
    for (int i = from; i < to; i++)
        most = fmax(most, fabs(got[i] - wanted[i]) / fabs(wanted[i]));
    return most;
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

int main(void)
{
    cli_begin_scratch("losses");
    cli("calibrate"); /* once: `local` is then known */
    test_plans_equal_one_device();
    test_losses_are_pytorchs();
    cli_end_scratch();
    return tap_done();
}
