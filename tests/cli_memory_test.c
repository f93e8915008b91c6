/* --memory binds what ranks allocate, not an estimate of it; what cannot be
 * planned is refused with its cause. */
#include "config.h"
#include "tests/cli_plans.h"

#define MLP "zoo:mlp,layers=4,hidden=64"
#define HERE "--cluster 1x4:cpu"

static void test_limits(void)
{
    static const int percent[] = {99, 90, 75, 60};
    cli_answer *a = cli("search " MLP " " HERE " --batch 16 -o \"$D/free.json\""
                        " --json");
    json_int_t peak = cli_largest_peak(a);
    tap_ok(a->status == 0 && peak > 0, "a plan without a limit");
    for (size_t k = 0; k < sizeof percent / sizeof percent[0]; k++) {
        json_int_t limit = peak * percent[k] / 100;
        char path[700];
        snprintf(path, sizeof path, "%s/limit%d.json", cli_scratch, percent[k]);
        a = cli("search " MLP " " HERE " --batch 16 --memory %lld "
                "--time-limit 6 -o \"$D/limit%d.json\" --json",
                (long long)limit, percent[k]);
        int written = access(path, F_OK) == 0;
        printf("# %d %%: %lld of %lld bytes, status %d\n", percent[k],
               (long long)cli_largest_peak(a), (long long)limit, a->status);
        tap_ok((a->status == 0 && written && cli_largest_peak(a) <= limit) ||
                   (a->status == 1 && !written && strstr(a->err, "memory")),
               "%d %% of its bytes: a plan within them, or none", percent[k]);
    }
}

#define SMALL "zoo:mlp,layers=2,hidden=32"
#define PAIR "--cluster 1x2:cpu --batch 8"

static cli_answer *search_within(json_int_t limit)
{
    return cli("search " SMALL " " PAIR " --fix micro-batches=1 --memory %lld "
               "--time-limit 8 -o \"$D/small.json\" --json",
               (long long)limit);
}

/* The least arena among the usual recipes. */
static json_int_t least_recipe(void)
{
    static const char *const recipes[] = {
        "--dp 2", "--dp 2 --zero 1", "--dp 2 --zero 3", "--tp 2", "--pp 2"};
    json_int_t least = 0;
    for (size_t k = 0; k < sizeof recipes / sizeof recipes[0]; k++) {
        cli_answer *a =
            cli("plan " SMALL " " PAIR " %s -o \"$D/recipe.json\" --json",
                recipes[k]);
        json_int_t bytes = cli_largest_peak(a);
        if (a->status == 0 && (least == 0 || bytes < least))
            least = bytes;
    }
    return least;
}

/* Always a byte less than the last plan takes, until none is found. */
static void test_descent(void)
{
    enum { STEPS = 40 };
    json_int_t least = (json_int_t)1 << 30;
    int32_t steps = 0, within = 0;
    cli_answer *a = search_within(least);
    while (a->status == 0 && steps++ < STEPS) {
        within += cli_largest_peak(a) <= least - (steps > 1);
        least = cli_largest_peak(a);
        a = search_within(least - 1);
    }
    printf("# %lld bytes after %d steps\n", (long long)least, steps);
    tap_ok(steps > 1 && steps < STEPS && within == steps,
           "each plan keeps within its limit");
    tap_ok(a->status == 1 && strstr(a->err, "memory"),
           "a byte below the smallest plan: refused with status 1");
    a = search_within(least);
    tap_ok(a->status == 0 && cli_largest_peak(a) == least,
           "exactly the smallest plan's bytes: found again");
    tap_ok(least <= least_recipe(), "no recipe's plan is smaller");
}

/* `infeasible` is a proof; where there is none it is not said. */
static void test_verdicts(void)
{
    int32_t wrong = 0, proven = 0, unproven = 0, found = 0;
    for (json_int_t limit = 8448; limit <= 10752; limit += 256) {
        cli_answer *a = cli("search zoo:mlp,layers=1,in=16,hidden=32,classes=4 "
                            "--cluster 1x2:a100-sxm4-80g --batch 12 --gap 0 "
                            "--time-limit 60 --memory %lld -o \"$D/v.json\" "
                            "--json",
                            (long long)limit);
        const char *status =
            json_string_value(json_object_get(a->json, "status"));
        printf("# %lld bytes: %s\n", (long long)limit, status ? status : "-");
        bool proof = strstr(a->err, "every plan needs at least") != NULL;
        bool open = strstr(a->err, "no proof that there is none") != NULL;
        found += a->status == 0;
        proven += proof;
        unproven += open;
        wrong += !status || (strcmp(status, "infeasible") == 0) != proof ||
                 (strcmp(status, "limit") == 0) != open;
    }
    tap_equal_int(wrong, 0, "infeasible is said where it is proven, only");
    printf("# %d plans, %d limits without a verdict\n", found, unproven);
    tap_ok(proven > 0 && found > 0, "some limits are too small, some are not");
}

static void refused(const char *options, const char *says)
{
    cli_answer *a =
        cli("%s " MLP " " HERE " -o \"$D/no.json\" %s", "plan", options);
    tap_ok(a->status == 2 && strstr(a->err, says), "%s: %s", options, says);
    if (a->status != 2 || !strstr(a->err, says))
        cli_show(a);
}

static void test_counts(void)
{
    static const char *const want[][2] = {
        {"15", "micro-batch counts 1, 3, 5, 15,"},
        {"9", "micro-batch counts 1, 3, 9,"},
        {"32", "micro-batch counts 1, 2, 4, 8, 16, 32,"},
        {"48", "micro-batch counts 1, 2, 4, 8, 16,"},
        {"8 --fix dp=4", "micro-batch counts 1, 2,"}};
    for (size_t k = 0; k < sizeof want / sizeof want[0]; k++) {
        cli_answer *a = cli("search " SMALL " " HERE " --batch %s "
                            "-o \"$D/counts.json\" --json",
                            want[k][0]);
        const char *space =
            json_string_value(json_object_get(a->json, "space"));
        tap_ok(a->status == 0 && space && strstr(space, want[k][1]),
               "batch %s: %s", want[k][0], want[k][1]);
    }
}

static void test_gap(void)
{
    cli_answer *a = cli("search " SMALL " " PAIR " -o \"$D/g.json\" --gap 1");
    tap_ok(a->status == 2 && strstr(a->err, "--gap 1"), "a gap below 1");
    a = cli("search " SMALL " " PAIR " -o \"$D/g.json\" --gap 0.5 --json");
    tap_ok(a->status == 0 && cli_number(a, "gap") <= 0.5 &&
               cli_number(a, "lower_bound_s") <= cli_number(a, "iteration_s"),
           "a wide gap is kept");
    a = cli("search " SMALL " " PAIR " -o \"$D/g.json\" --gap 0");
    tap_ok(a->status == 0 && strstr(a->out, "optimal: gap 0 %"),
           "no gap: proven to the end");
}

static json_int_t peak_of(const char *recipe, const char *more)
{
    cli_answer *a = cli("plan zoo:gpt,layers=4,hidden=256,heads=4,vocab=1024,"
                        "seq=64 --cluster 1x4:cpu --batch 16 --micro-batch 2 "
                        "%s %s -o \"$D/overlap.json\" --json",
                        recipe, more);
    return a->status == 0 ? cli_largest_peak(a) : 0;
}

/* What collectives touch shares bytes too, when they run beside compute: what
 * they take more is a weight gathered ahead, and pieces in two places at once.
 */
static void test_overlap(void)
{
    static const char *const recipes[] = {"--dp 4 --zero 2", "--dp 4 --zero 3",
                                          "--dp 1 --tp 4",
                                          "--dp 1 --tp 4 --seq-parallel"};
    for (size_t k = 0; k < sizeof recipes / sizeof recipes[0]; k++) {
        json_int_t alone = peak_of(recipes[k], "");
        json_int_t beside = peak_of(recipes[k], "--overlap");
        tap_ok(alone > 0 && beside <= alone + alone / 8,
               "%s: %lld bytes, with --overlap %lld: at most an eighth more",
               recipes[k], (long long)alone, (long long)beside);
    }
}

static cli_answer *work_on(const char *seconds)
{
    return cli("search zoo:gpt,layers=2,hidden=64,heads=2,vocab=100,seq=16 "
               "--cluster 2x2:a100-sxm4-80g --batch 16 --gap 0 --memory 1M "
               "--work-limit %s -o \"$D/work.json\" --json",
               seconds);
}

static const char *digest_of(const cli_answer *a)
{
    const char *digest =
        json_string_value(json_object_get(a->json, "plan_digest"));
    return digest ? digest : "";
}

/* Work that is allowed is done, and not much more; no clock has a say. */
static void test_work(void)
{
    static const char *const seconds[] = {"0.1", "0.3"};
    for (size_t k = 0; k < sizeof seconds / sizeof *seconds; k++) {
        char first[80];
        cli_answer *a = work_on(seconds[k]);
        const double most = atof(seconds[k]),
                     done = json_real_value(json_object_get(a->json, "work_s"));
        tap_ok(a->status == 0 && done > 0.5 * most && done < 1.5 * most &&
                   json_is_false(json_object_get(a->json, "late")),
               "%g s of work were allowed, %g done", most, done);
        snprintf(first, sizeof first, "%s", digest_of(a));
        tap_ok(first[0] && strcmp(first, digest_of(work_on(seconds[k]))) == 0,
               "as much work, the same plan: %s", first);
    }
    const cli_answer *a = work_on("1e-4");
    tap_ok(a->status == 1 && strstr(a->err, "allow more work"),
           "with too little there is none: %s", a->err);
}

/* Of a recipe: where, what of, and only what it does not use yet. */
static void test_recipe(void)
{
    static const struct {
        const char *recipe, *says, *never;
    } rows[] = {
        {"--pp 2 --micro-batches 2 --schedule zb-v --memory 420K",
         "more micro-batches (4), --recompute block", "--zero"},
        {"--dp 2 --zero 1 --micro-batches 4 --recompute block --memory 100K",
         "not in use: --zero 2", "micro-batches ("},
        {"--tp 2 --micro-batches 8 --recompute block --memory 100K",
         "not in use: --seq-parallel", "--zero"},
        {"--tp 2 --micro-batches 8 --recompute block --seq-parallel "
         "--memory 100K",
         "the recipe uses all that takes less", "not in use"}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const cli_answer *a =
            cli("plan zoo:gpt,layers=4,hidden=32,heads=2,vocab=64,seq=16 "
                "--cluster 1x2:cpu --batch 8 %s -o \"$D/none.json\"",
                rows[k].recipe);
        tap_ok(a->status == 1 && strstr(a->err, "the recipe does not fit") &&
                   strstr(a->err, rows[k].says) &&
                   !strstr(a->err, rows[k].never),
               "%s: %s", rows[k].recipe, a->err);
    }
}

int main(void)
{
    cli_begin_scratch("cli_memory_test");
    test_limits();
    test_descent();
    test_verdicts();
    test_counts();
    test_gap();
    test_overlap();
    test_work();
    refused("--batch 7 --dp 2 --tp 2", "does not divide over dp=2");
    refused("--batch 2 --dp 4", "does not divide over dp=4");
    refused("--batch 8 --dp 4 --micro-batches 4", "does not divide over dp=4");
    refused("--batch 8 --dp 4 --time-limit 0", "--time-limit 0");
    refused("--batch 8 --dp 4 --time-limit -1", "--time-limit");
    refused("--batch 8 --dp 4 --work-limit 0", "--work-limit 0");
    refused("--batch 8 --dp 4 --work-limit -1", "--work-limit");
    refused("--batch 8 --dp 4 --work-limit x", "--work-limit");
    test_recipe();
    cli_end_scratch();
    return tap_done();
}
