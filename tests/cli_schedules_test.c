/* search --schedule any, or a list: schedules, and how many stages a group of
 * devices has under each, are chosen; --registers any: how far streams run
 * ahead, too; --axes: more axes of meshes. What is chosen is faster when
 * simulated, and trains as one device does. */
#include "config.h"
#include "cli_plans.h"

#define TINY "zoo:gpt,layers=8,hidden=64,heads=4,vocab=256,seq=64"
#define LARGER "zoo:gpt,layers=16,hidden=1024,heads=16,seq=512"
#define TEXT "\"$S/datasets/data/moby-dick.txt\""
#define OUT " -o \"$D/plan.json\" --json"

enum { STEPS = 3 };

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static json_t *chosen_of(const cli_answer *a)
{
    const json_t *plans = json_object_get(a->json, "plans");
    for (size_t k = 0; k < json_array_size(plans); k++) {
        json_t *plan = json_array_get(plans, k);
        if (json_is_true(json_object_get(plan, "chosen")))
            return plan;
    }
    return NULL;
}

/* Is a plan of several stages per group of devices found, and simulated faster
 * than the best of 1f1b? */
static void test_gain(const char *problem, const char *list, double least)
{
    const cli_answer *a = cli("search %s" OUT, problem);
    const double plain_s = cli_number(a, "sim_iteration_s");
    a = cli("search %s --schedule %s" OUT, problem, list);
    const double deep_s = cli_number(a, "sim_iteration_s");
    const char *schedule = text_of(chosen_of(a), "schedule");
    tap_ok(strcmp(schedule, "interleaved") == 0 ||
               strcmp(schedule, "zb-v") == 0,
           "--schedule %s: of all plans one of %s", list, schedule);
    tap_ok(deep_s < (1 - least) * plain_s,
           "simulated %.3g %% faster than the best of 1f1b",
           100 * (1 - deep_s / plain_s));
    a = cli("check \"$D/plan.json\" --json");
    tap_ok(a->status == 0, "and sound");
}

/* What is looked at is said. */
static void test_space(void)
{
    const cli_answer *a =
        cli("search " TINY " --cluster 4x1:cpu --batch 16 --schedule any" OUT);
    tap_ok(strstr(text_of(a->json, "space"),
                  "schedules 1f1b, zb-h1, zb-h2, interleaved of 2 stages per "
                  "group of devices, interleaved of 4 stages per group of "
                  "devices, zb-v of 2 stages per group of devices"),
           "any: the space tells its schedules");
    const json_t *configs = json_object_get(a->json, "configs");
    int seen = 0;
    for (size_t k = 0; k < json_array_size(configs); k++)
        seen |= 1 << json_integer_value(
                    json_object_get(json_array_get(configs, k), "interleave"));
    tap_ok(seen == (1 << 1 | 1 << 2 | 1 << 4),
           "configurations have 1, 2 and 4 stages per group of devices");
}

/* One alone is the one that --fix would fix. */
static void test_alone(void)
{
    const char *words = "search " TINY " --cluster 4x1:cpu --batch 16";
    const cli_answer *a =
        cli("%s --fix schedule=interleaved,interleave=2" OUT, words);
    char fixed[64];
    snprintf(fixed, sizeof fixed, "%s", text_of(a->json, "plan_digest"));
    a = cli("%s --schedule interleaved:2" OUT, words);
    tap_ok(a->status == 0 && *fixed &&
               strcmp(text_of(a->json, "plan_digest"), fixed) == 0,
           "--schedule interleaved:2 alone: the plan of --fix");
    a = cli("sim \"$D/plan.json\" --json");
    const json_t *roles = json_object_get(a->json, "roles");
    const json_t *stages = json_object_get(json_array_get(roles, 0), "stages");
    tap_ok(json_array_size(roles) ==
                   json_array_size(json_object_get(a->json, "peak_bytes")) &&
               json_array_size(stages) == 2,
           "sim says which stages devices have, bytes of which it tells");
    a = cli("search " TINY " --cluster 1x1:cpu --batch 16" OUT);
    tap_equal_text(text_of(a->json, "layers"), "8",
                   "plans of one stage say their layers");
}

/* ---- training ---- */

static void test_losses(const char *recipe, const double *wanted)
{
    double losses[STEPS] = {0};
    char words[400];
    snprintf(words, sizeof words,
             "search " TINY " --cluster local --ranks 4 --batch 16 %s", recipe);
    const bool ran = cli_train(words, TEXT, STEPS, losses);
    const double off = cli_losses_off(losses, wanted, STEPS);
    tap_ok(ran && off < 1e-5, "%s: the losses of one device, to %.3g", recipe,
           off);
}

static void test_training(void)
{
    double wanted[STEPS] = {0};
    tap_ok(cli_train("search " TINY " --cluster local --ranks 1 --batch 16 "
                     "--fix micro-batches=1",
                     TEXT, STEPS, wanted),
           "one device trains");
    test_losses("--schedule 1f1b,interleaved,zb-v --fix pp=4,micro-batches=4",
                wanted);
    test_losses("--fix pp=2,micro-batches=4,interleave=4", wanted);
    test_losses("--fix dp=4,zero=3 --overlap --registers any", wanted);
}

/* ---- registers ---- */

static int64_t whole(const cli_answer *a, const char *key)
{
    return json_integer_value(json_object_get(a->json, key));
}

static void test_registers(void)
{
    const char *words = "plan " LARGER " --cluster 2x4:v100-sxm2-16g --batch "
                        "32 --dp 8 --zero 3 --overlap --registers";
    const cli_answer *a = cli("%s usual" OUT, words);
    const double usual_s = cli_number(a, "sim_iteration_s");
    const int64_t peak = cli_largest_peak(a);
    tap_equal_int(whole(a, "ahead"), 1, "usually one more of what is gathered");
    a = cli("%s any" OUT, words);
    const double any_s = cli_number(a, "sim_iteration_s");
    tap_ok(whole(a, "ahead") > 1 && any_s < 0.99 * usual_s,
           "any: %lld, simulated %.3g %% faster", (long long)whole(a, "ahead"),
           100 * (1 - any_s / usual_s));
    a = cli("check \"$D/plan.json\" --json");
    tap_ok(a->status == 0, "and sound");
    a = cli("%s any --memory %lld" OUT, words, (long long)peak);
    tap_ok(a->status == 0 && cli_largest_peak(a) <= peak,
           "where memory allows: %lld with %lld bytes",
           (long long)whole(a, "ahead"), (long long)peak);
}

/* ---- axes ---- */

static void test_axes(void)
{
    const char *words = "search " TINY " --cluster 2x4:v100-sxm2-16g --batch "
                        "16 --fix micro-batches=1,pp=1";
    const cli_answer *a = cli("%s" OUT, words);
    const double two_s = cli_number(a, "lower_bound_s");
    a = cli("%s --axes 3" OUT, words);
    const json_t *configs = json_object_get(a->json, "configs");
    bool seen = false;
    for (size_t k = 0; k < json_array_size(configs); k++)
        seen |=
            strcmp(text_of(json_array_get(configs, k), "mesh"), "2x2x2") == 0;
    tap_ok(seen && strstr(text_of(a->json, "space"), "up to 3 axes"),
           "--axes 3: meshes of three axes");
    tap_ok(cli_number(a, "lower_bound_s") <= two_s * (1 + 1e-9),
           "in the larger space no bound is higher");
}

/* Ended at any time, also before configurations were told apart by schedule. */
static void test_limits(void)
{
    static const char *const works[] = {"0.03", "0.1", "0.2", "0.3", "1"};
    for (size_t k = 0; k < sizeof works / sizeof *works; k++) {
        const cli_answer *a =
            cli("search zoo:gpt,layers=4,hidden=256,heads=4,seq=128 --cluster "
                "2x4:a100-sxm4-80g --batch 32 --schedule any --work-limit "
                "%s" OUT,
                works[k]);
        tap_ok(a->status == 0 || a->status == 1,
               "any schedule, %s s of work: it ends", works[k]);
        if (a->status > 1)
            cli_show(a);
    }
}

/* ---- refusals ---- */

static void test_refusal(const char *list, const char *fix, const char *why)
{
    const cli_answer *a = cli("search " TINY " --cluster 4x1:cpu --batch 16 "
                              "--schedule %s %s" OUT,
                              list, fix);
    tap_ok(a->status == 2 && strstr(a->err, why), "%s %s: refused", list, fix);
    if (a->status != 2)
        cli_show(a);
}

/* What is measured before schedules are told apart proposes no cuts. */
static void test_early_cuts(void)
{
    const cli_answer *a =
        cli("search zoo:vgg,depth=11,width=16,hidden=256,size=32,classes=10 "
            "--cluster 1x3:v100-sxm2-16g --batch 64 --schedule 1f1b,zb-h1 "
            "--db none --memory 11268915 --work-limit 3" OUT);
    if (a->status != 0)
        cli_show(a);
    tap_equal_int(a->status, 0, "two schedules within little memory");
}

int main(void)
{
    cli_begin_scratch("cli_schedules");
    test_gain(LARGER " --cluster 8x1:v100-sxm2-16g --batch 32",
              "1f1b,interleaved", 0.05);
    test_gain(TINY " --cluster 4x1:cpu --batch 16", "1f1b,zb-v", 0.1);
    test_space();
    test_alone();
    test_training();
    test_registers();
    test_axes();
    test_limits();
    test_early_cuts();
    test_refusal("later", "", "unknown schedule 'later'");
    test_refusal("any,1f1b", "", "any, alone");
    test_refusal("interleaved:2,interleaved:4", "", "for plans that have one");
    test_refusal("1f1b,interleaved:x", "", "behind the colon");
    test_refusal("1f1b,interleaved:1", "", "several stages");
    test_refusal("1f1b,zb-v:4", "", "two stages");
    test_refusal("1f1b:2,zb-h1", "", "one stage");
    test_refusal("1f1b,interleaved,interleaved:2", "", "named twice");
    test_refusal("1f1b,dynamic", "", "give it alone");
    test_refusal("any", "--fix interleave=2", "--fix fixes one of these");
    test_refusal("1f1b", "--axes 5", "--axes must be");
    test_refusal("1f1b", "--registers 3", "usual or any");
    cli_end_scratch();
    return tap_done();
}
