/* --collectives: whatever prices a plan prices the algorithms that it says, and
 * runs are put together by those that they used. */
#include "config.h"
#include "tests/cli_plans.h"

#define GPT "zoo:gpt,layers=2,hidden=64,heads=2,vocab=512,seq=32"

/* Of what the program prints of the plan, 0 when it fails. */
static double told(const char *command, const char *key, const char *options)
{
    const cli_answer *a = cli("%s \"$D/p.json\" %s --json", command, options);
    if (a->status != 0)
        cli_show(a);
    return a->status == 0 ? cli_number(a, key) : 0;
}

/* "all-reduce" of "collectives": tasks by that algorithm. */
static json_int_t tasks_by(const cli_answer *a, const char *algorithm)
{
    const json_t *all = json_object_get(a->json, "collectives");
    return json_integer_value(
        json_object_get(json_object_get(all, "all-reduce"), algorithm));
}

/* A run keeps what it did, and its prediction is sim's. */
static void test_run(const char *algorithm)
{
    char options[64];
    snprintf(options, sizeof options, "--collectives %s", algorithm);
    const double sim_s = told("sim", "iteration_s", options);
    const cli_answer *a =
        cli("run \"$D/p.json\" --data synthetic --steps 3 %s --json", options);
    if (a->status != 0)
        cli_show(a);
    tap_ok(tasks_by(a, algorithm) > 0, "a run tells that it was by %s",
           algorithm);
    tap_ok(cli_number(a, "predicted_step_s") == sim_s,
           "and what sim says of that: %.9g s", sim_s);
}

static void test_validated(void)
{
    const char *const by[] = {"ring", "tree", "ring"};
    cli("plan " GPT " --cluster local --ranks 2 --batch 4 --dp 2"
        " -o \"$D/p.json\"");
    for (size_t k = 0; k < sizeof by / sizeof *by; k++)
        test_run(by[k]);
    const cli_answer *a = cli("validate \"$D/test.db\" --json");
    const json_t *list = json_object_get(a->json, "details"), *one;
    size_t i;
    int twice = 0, once = 0;
    json_array_foreach(list, i, one)
    {
        const char *id = json_string_value(json_object_get(one, "id"));
        const json_int_t runs =
            json_integer_value(json_object_get(one, "runs"));
        twice += runs == 2 && strstr(id, "--collectives ring");
        once += runs == 1 && strstr(id, "--collectives tree");
    }
    tap_ok(json_array_size(list) == 2 && twice == 1 && once == 1,
           "runs by another algorithm are no repetition of these");
}

/* Do the two, made by `words` into %s, hold other bytes? */
static bool differ(const char *words, const char *a, const char *b)
{
    const char *const of[] = {a, b}, *const by[] = {"direct", "ring"};
    char command[600];
    for (int k = 0; k < 2; k++) {
        const cli_answer *one =
            cli("%s -o \"$D/%s\" --collectives %s", words, of[k], by[k]);
        if (one->status != 0) {
            cli_show(one);
            return false;
        }
    }
    snprintf(command, sizeof command, "diff -rq \"$D/%s\" \"$D/%s\" >/dev/null",
             a, b);
    return system(command) != 0;
}

static void test_priced(void)
{
    static const char *const commands[][2] = {{"sim", "iteration_s"},
                                              {"explain", "iteration_s"}};
    cli("plan " GPT " --cluster 2x4:a100-sxm4-80g --batch 8 --dp 8"
        " -o \"$D/p.json\"");
    for (size_t k = 0; k < sizeof commands / sizeof *commands; k++) {
        const double direct_s =
            told(commands[k][0], commands[k][1], "--collectives direct");
        const double ring_s =
            told(commands[k][0], commands[k][1], "--collectives ring");
        tap_ok(direct_s > 0 && ring_s > 0 && direct_s != ring_s,
               "%s: direct %.6g s, ring %.6g s", commands[k][0], direct_s,
               ring_s);
    }
    tap_ok(differ("export \"$D/p.json\" --to chakra", "a", "b"),
           "export: durations of a trace");
    tap_ok(differ("show \"$D/p.json\" --timeline", "a.svg", "b.svg"),
           "show: a timeline");
}

static void refuses(const char *words, const char *what)
{
    const cli_answer *a = cli("%s", words);
    tap_ok(a->status == 2 && strstr(a->err, what), "refused: %s", what);
    if (a->status != 2 || !strstr(a->err, what))
        cli_show(a);
}

static void test_refused(void)
{
    refuses("sim \"$D/p.json\" --collectives star", "there are direct, ring");
    refuses("sim \"$D/p.json\" --framework megatron-lm --collectives halving",
            "does all-reduces by");
    refuses("show \"$D/p.json\" -o \"$D/p.svg\" --collectives ring",
            "without --timeline");
    refuses("export \"$D/p.json\" --to onnx -o \"$D/p.onnx\""
            " --collectives ring",
            "of a chakra trace's durations");
}

int main(void)
{
    cli_begin_scratch("collectives");
    test_validated();
    test_priced();
    test_refused();
    cli_end_scratch();
    return tap_done();
}
