/* What a tighter gap asks for is proof: it never costs plans. */
#include "config.h"
#include "tests/run_cli.h"

typedef struct gap_case {
    const char *model, *cluster;
    int batch;
} gap_case;

#define MIXED "1x2:v100-sxm2-32g+1x2:a100-sxm4-80g"

/* Where cuts decide, stages of one mesh are best, and folded layers. */
static const gap_case cases[] = {
    {"zoo:gpt,layers=6,hidden=512,heads=8,seq=128,vocab=2048", MIXED, 16},
    {"zoo:gpt,layers=6,hidden=512,heads=8,seq=128,vocab=2048",
     "1x4:a100-sxm4-80g", 16},
    {"zoo:gpt,layers=4,hidden=256,heads=4,seq=128,vocab=1024",
     "1x8:a100-sxm4-80g", 32},
    {"zoo:lstm", MIXED, 64},
};

/* As much work as the usual gap needs, and some. */
#define WORK_S 2

typedef struct proof {
    double iteration_s, lower_bound_s;
} proof;

static proof prove(const gap_case *of, double gap)
{
    const cli_answer *a =
        cli("search %s --cluster %s --batch %d --work-limit %d --gap %g "
            "-o \"$D/plan.json\" --json",
            of->model, of->cluster, of->batch, WORK_S, gap);
    tap_equal_int(a->status, 0, "%s on %s, gap %g", of->model, of->cluster,
                  gap);
    return (proof){cli_number(a, "iteration_s"),
                   cli_number(a, "lower_bound_s")};
}

static void test_case(const gap_case *of)
{
    static const double gaps[] = {1e-3, 1e-4, 1e-6, 0};
    proof before = prove(of, gaps[0]);
    for (size_t k = 1; k < sizeof gaps / sizeof *gaps; k++) {
        const proof now = prove(of, gaps[k]);
        tap_ok(now.iteration_s <= before.iteration_s * (1 + 1e-9),
               "gap %g: %.9g s, not more than the %.9g s of %g", gaps[k],
               now.iteration_s, before.iteration_s, gaps[k - 1]);
        before = now;
    }
}

/* Within so much of what the fastest plan takes layers of a stage that are all
 * alike leave a gap, which stages whose layers are of two kinds close, each
 * with as many of these as it has room for. */
static void test_tight(void)
{
    static const double parts[] = {1, 0.95, 0.9, 0.85};
    const char *ask =
        "search zoo:gpt,layers=16,hidden=512,heads=8,seq=256,vocab=4096 "
        "--cluster 1x8:v100-sxm2-16g --batch 64 --recompute none --fix pp=2 "
        "--micro-batches 4 --gap 0.003 --work-limit 3 -o \"$D/plan.json\" "
        "--json";
    double most = 0;
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        const cli_answer *a =
            k == 0 ? cli("%s", ask)
                   : cli("%s --memory %.0f", ask, parts[k] * most);
        const json_t *peaks = json_object_get(a->json, "peak_bytes");
        for (size_t i = 0; k == 0 && i < json_array_size(peaks); i++)
            most = fmax(most, json_number_value(json_array_get(peaks, i)));
        tap_ok(a->status == 0 && cli_number(a, "gap") <= 0.003,
               "within %.2f of what the fastest plan takes: gap %.3g %%",
               parts[k], 100 * cli_number(a, "gap"));
    }
}

int main(void)
{
    cli_begin_scratch("cli_gap_test");
    test_tight();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        test_case(&cases[k]);
    cli_end_scratch();
    return tap_done();
}
