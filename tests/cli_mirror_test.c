/* A cluster of two kinds of devices, and the same one written back to front:
 * plans of equal cost, however many stages and devices there are. Where memory
 * binds, a plan may end with more unproven than was asked (the bound counts
 * less memory than a lowered plan takes): then neither is below what the other
 * was proven to take, and little is left. But where a stage has devices of both
 * kinds: these are in it as the cluster has them, and which of several equal
 * copies is sent goes by that.
 */
#include "config.h"
#include "base/hash.h"
#include "tests/run_cli.h"

#include <string.h>

enum { CASES = 10 };
/* What a proof is asked to leave, and the most that it may leave. */
#define GAP 1e-3
#define WIDEST 1e-2
#define ROUNDING 1e-9

typedef struct mirror_case {
    char model[200], one[64], other[64], more[100];
    int batch;
} mirror_case;

static const char *const devices[] = {"v100-sxm2-32g", "a100-sxm4-80g", "l4",
                                      "h100-sxm5-80g"};

static int32_t draw(uint64_t *rng, int32_t n)
{
    return (int32_t)fs_rand_below(rng, (uint64_t)n);
}

static mirror_case draw_case(uint64_t seed)
{
    uint64_t rng = fs_mix(seed);
    mirror_case c = {.more = ""};
    const int32_t n_one = 1 + draw(&rng, 3), n_other = 1 + draw(&rng, 3);
    const int32_t one = draw(&rng, 4), other = (one + 1 + draw(&rng, 3)) % 4;
    snprintf(c.one, sizeof c.one, "1x%d:%s", n_one, devices[one]);
    snprintf(c.other, sizeof c.other, "1x%d:%s", n_other, devices[other]);
    snprintf(c.model, sizeof c.model,
             "zoo:gpt,layers=%d,hidden=%d,heads=4,seq=64,vocab=%d",
             2 + draw(&rng, 4), 128 << draw(&rng, 3), 256 << draw(&rng, 4));
    c.batch = 4 * (n_one + n_other);
    const int32_t what = draw(&rng, 4);
    if (what == 0)
        snprintf(c.more, sizeof c.more, "--fix pp=%d", n_one + n_other);
    if (what == 1)
        snprintf(c.more, sizeof c.more, "--memory %dM", 100 + draw(&rng, 200));
    return c;
}

typedef struct mirror_plan {
    int status;
    double iteration_s, bound_s;
    bool across; /* a stage has devices of both kinds */
} mirror_plan;

static json_int_t whole_of(const json_t *stage, const char *key)
{
    return json_integer_value(json_object_get(stage, key));
}

static bool is_across(const cli_answer *a, json_int_t n_first)
{
    const json_t *stages = json_object_get(a->json, "stages"), *stage;
    size_t k;
    bool is = false;
    json_array_foreach(stages, k, stage)
    {
        const json_int_t first = whole_of(stage, "first_device");
        is |= first < n_first && first + whole_of(stage, "devices") > n_first;
    }
    return is && json_array_size(stages) > 1;
}

static mirror_plan plan_on(const mirror_case *c, const char *first,
                           const char *second)
{
    const cli_answer *a =
        cli("search %s --cluster %s+%s --batch %d --work-limit 2 --gap %g %s "
            "-o \"$D/plan.json\" --json",
            c->model, first, second, c->batch, GAP, c->more);
    mirror_plan p = {.status = a->status};
    if (a->status == 0) {
        p.iteration_s = cli_number(a, "iteration_s");
        p.bound_s = cli_number(a, "lower_bound_s");
        p.across = is_across(a, atoi(first + strlen("1x")));
    }
    return p;
}

/* No plan of one is below the bound of the other, nor is much left unproven. */
static bool agree(const mirror_plan *one, const mirror_plan *other)
{
    return one->iteration_s >= other->bound_s * (1 - ROUNDING) &&
           other->iteration_s >= one->bound_s * (1 - ROUNDING) &&
           fmin(one->bound_s, other->bound_s) >=
               (1 - WIDEST) * fmax(one->iteration_s, other->iteration_s);
}

static void test_case(uint64_t seed)
{
    const mirror_case c = draw_case(seed);
    const mirror_plan one = plan_on(&c, c.one, c.other);
    const mirror_plan other = plan_on(&c, c.other, c.one);
    const bool across = one.across || other.across;
    tap_ok(one.status == other.status && (across || agree(&one, &other)),
           "seed %d: %s, batch %d on %s and %s %s: %.9g s and %.9g s%s",
           (int)seed, c.model, c.batch, c.one, c.other, c.more, one.iteration_s,
           other.iteration_s, across ? ", of both kinds" : "");
}

/* FS_CASE=SEED: one case; FS_CASES=N: so many. */
int main(void)
{
    const char *one = getenv("FS_CASE"), *many = getenv("FS_CASES");
    const uint64_t seed = one ? strtoull(one, NULL, 10) : 1000 * tap_seed(5);
    const int n = one ? 1 : many ? atoi(many) : CASES;
    cli_begin_scratch("cli_mirror_test");
    for (int k = 0; k < n; k++)
        test_case(seed + (uint64_t)k);
    cli_end_scratch();
    return tap_done();
}
