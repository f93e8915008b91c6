/* make bench: the project's figures, as ratios measured in one run on this
 * machine. Nothing here passes or fails; the bars are printed beside. */
#include "config.h"
#include "tests/cli_plans.h"

#define MODEL "\"$S/datasets/models/gpt_bytes.dyn.onnx\""
#define TEXT "\"$S/datasets/data/moby-dick.txt\""

enum { STEPS = 30, REPEATS = 3 };

static void figure(const char *what, double value, const char *unit,
                   const char *bar)
{
    printf("| %-52s | %10.4g | %-8s | %-12s |\n", what, value, unit, bar);
    fflush(stdout);
}

typedef struct measured {
    double predicted_s, replayed_s, median_s, min_s, peak, planned, first_off;
} measured;

static double first_losses_off(const json_t *losses)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/datasets/models/gpt_bytes.reference.json",
             cli_env("FS_SRCDIR", "."));
    json_t *root = json_load_file(path, 0, NULL);
    json_t *list =
        json_object_get(json_object_get(root, "runs"), "adamw_lr1e-3_wd0.01");
    double off = 0;
    for (size_t i = 0; i < 10; i++) {
        double wanted = json_number_value(json_array_get(list, i));
        double got = json_number_value(json_array_get(losses, i));
        off = fmax(off, fabs(got - wanted) / wanted);
    }
    json_decref(root);
    return off;
}

static measured run_once(void)
{
    measured m = {0};
    cli_answer *a =
        cli("run \"$D/plan.json\" --data " TEXT " --steps %d --json", STEPS);
    json_t *step = json_object_get(a->json, "step_s");
    m.median_s = json_number_value(json_object_get(step, "median"));
    m.min_s = json_number_value(json_object_get(step, "min"));
    m.predicted_s = cli_number(a, "predicted_step_s");
    m.peak = (double)cli_largest_peak(a);
    m.first_off = first_losses_off(json_object_get(a->json, "losses"));
    a = cli("runs --sql \"SELECT max(run) AS id FROM timings\" --json");
    json_t *row = json_array_get(json_object_get(a->json, "runs"), 0);
    a = cli("sim \"$D/plan.json\" --timing %lld --json",
            (long long)json_integer_value(json_object_get(row, "id")));
    m.replayed_s = cli_number(a, "iteration_s");
    return m;
}

static int compare_medians(const void *a, const void *b)
{
    const measured *x = a, *y = b;
    return (x->median_s > y->median_s) - (x->median_s < y->median_s);
}

/* Runs plan.json; of a few runs the middle one. */
static measured run_plan(void)
{
    measured runs[REPEATS];
    cli_answer *a = cli("sim \"$D/plan.json\" --json");
    double planned = (double)cli_largest_peak(a);
    for (int i = 0; i < REPEATS; i++)
        runs[i] = run_once();
    qsort(runs, REPEATS, sizeof *runs, compare_medians);
    runs[REPEATS / 2].planned = planned;
    return runs[REPEATS / 2];
}

static void step_figures(const char *name, const measured *m)
{
    char what[128];
    snprintf(what, sizeof what, "%s: simulated / measured step", name);
    figure(what, m->predicted_s / m->median_s, "ratio", "0.75 to 1.25");
    snprintf(what, sizeof what, "%s: so with its own durations", name);
    figure(what, m->replayed_s / m->median_s, "ratio", "");
}

static void bench_demo(void)
{
    cli_answer *a = cli("search " MODEL " --cluster local --ranks 4 --batch 8 "
                        "-o \"$D/plan.json\" --json");
    double ilp = cli_number(a, "iteration_s");
    figure("search of the demo", cli_number(a, "search_s"), "s", "< 2");
    figure("search of the demo: gap", cli_number(a, "gap"), "fraction", "0");
    a = cli("search " MODEL " --cluster local --ranks 4 --batch 8 "
            "-o \"$D/greedy.json\" --engine greedy --json");
    figure("greedy's plan / proven plan (formula)",
           cli_number(a, "iteration_s") / ilp, "ratio", ">= 1");
    a = cli("sim \"$D/plan.json\" --json");
    figure("simulation of the demo's plan", cli_number(a, "wall_s") * 1e3, "ms",
           "< 50");
    a = cli("check \"$D/plan.json\" --json");
    figure("proof of the demo's plan", cli_number(a, "wall_s") * 1e3, "ms", "");
    measured m = run_plan();
    step_figures("demo", &m);
    figure("demo: measured median / fastest step", m.median_s / m.min_s,
           "ratio", "noise");
    figure("demo: planned / allocated peak", m.planned / m.peak, "ratio", "1");
    figure("demo: losses against PyTorch, ten steps", m.first_off, "relative",
           "<= 1e-4");
}

static void bench_plans(void)
{
    static const struct {
        const char *name, *recipe;
        int ranks;
    } plans[] = {
        {"1 rank", "--dp 1", 1},
        {"dp2", "--dp 2", 2},
        {"tp2", "--tp 2", 2},
        {"pp2, 4 micro-batches", "--pp 2 --micro-batches 4", 2},
        {"dp4", "--dp 4", 4},
        {"dp2 x tp2", "--dp 2 --tp 2", 4},
        {"pp2 x tp2, 4 micro-batches", "--pp 2 --tp 2 --micro-batches 4", 4},
        {"pp4, 8 micro-batches", "--pp 4 --micro-batches 8", 4}};
    double one = 0;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        char what[128];
        cli("plan " MODEL " --cluster local --ranks %d --batch 8 %s "
            "-o \"$D/plan.json\"",
            plans[i].ranks, plans[i].recipe);
        measured m = run_plan();
        if (i == 0)
            one = m.median_s;
        step_figures(plans[i].name, &m);
        snprintf(what, sizeof what, "%s: one rank's step / its step",
                 plans[i].name);
        figure(what, one / m.median_s, "speed-up", "");
    }
}

int main(void)
{
    cli_begin_scratch("bench");
    cli("calibrate"); /* once: `local` is then known */
    printf(
        "| %-52s | %10s | %-8s | %-12s |\n|%.54s|%.12s|%.10s|%.14s|\n",
        "figure (the middle of three runs of 30 steps)", "value", "unit", "bar",
        "------------------------------------------------------------",
        "--------------------", "--------------------", "--------------------");
    bench_demo();
    bench_plans();
    cli_end_scratch();
    return tap_failed;
}
