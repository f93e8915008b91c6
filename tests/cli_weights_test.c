/* Values of parameters in and out: safetensors, checkpoints, ONNX. */
#include "config.h"

#include "run_cli.h"

#include "tests/tap.h"

static const char *const net =
    "zoo:gpt,layers=1,hidden=32,heads=2,vocab=256,seq=16";
static const char *const data = "--data $S/datasets/data/moby-dick.txt";

/* Of the first step; NAN: it did not run. */
static double loss_of(const char *plan, const char *more)
{
    cli_answer *a =
        cli("run $D/%s.json %s --steps 1 --json %s", plan, data, more);
    const json_t *list = json_object_get(a->json, "losses");
    if (a->status != 0)
        printf("# %s\n", a->err);
    return json_array_size(list) == 1
               ? json_number_value(json_array_get(list, 0))
               : (double)NAN;
}

static void make(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void make(const char *format, ...)
{
    char words[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    cli_answer *a = cli("%s", words);
    tap_ok(a->status == 0, "%s", words);
    if (a->status != 0)
        printf("# %s\n", a->err);
}

static void refuse(const char *words, const char *wanted)
{
    cli_answer *a = cli("%s", words);
    tap_ok(a->status == 2 && strstr(a->err, wanted), "refused: %s", wanted);
    if (a->status != 2 || !strstr(a->err, wanted))
        printf("# status %d: %s\n", a->status, a->err);
}

static void refuse_run(const char *weights, const char *wanted)
{
    char words[1000];
    snprintf(words, sizeof words, "run $D/dp.json %s --steps 1 --weights %s",
             data, weights);
    refuse(words, wanted);
}

/* Of a folder of checkpoints, what is one by its name alone. */
static void test_passed_over(double next)
{
    static const char *const told[] = {"keep/step-99/manifest.json",
                                       "; the checkpoint before it is taken"};
    cli("--version >/dev/null; cp -r $D/made $D/keep; mkdir $D/keep/step-99; "
        "true --db");
    cli_answer *a = cli("export %s --to safetensors --weights $D/keep -o "
                        "$D/k.safetensors",
                        net);
    tap_ok(
        a->status == 0 && strstr(a->err, told[0]) && strstr(a->err, told[1]),
        "export: a checkpoint that is none is told, the one before it taken");
    if (a->status != 0)
        printf("# %s\n", a->err);
    tap_near(loss_of("tp", "--weights $D/k.safetensors"), next, 1e-6,
             "its values are those of the one before");
    a = cli("run $D/dp.json %s --steps 1 --json --weights $D/keep", data);
    const char *first = strstr(a->err, told[1]);
    tap_ok(a->status == 0 && strstr(a->err, told[0]) && first &&
               !strstr(first + 1, told[1]),
           "run tells it likewise, once");
    cli("--version >/dev/null; mkdir -p $D/none/step-3 $D/none/step-9; "
        "true --db");
    refuse_run("$D/none", "none: no checkpoint is whole (");
}

int main(void)
{
    cli_begin_scratch("cli_weights");
    make("plan %s --cluster local --ranks 2 --batch 4 --dp 2 -o $D/dp.json",
         net);
    make("plan %s --cluster local --ranks 2 --batch 4 --tp 2 -o $D/tp.json",
         net);
    make("plan zoo:gpt,layers=1,hidden=48,heads=2,vocab=256,seq=16 --cluster "
         "local --ranks 2 --batch 4 --dp 2 -o $D/other.json");
    make("export %s --to safetensors -o $D/w.safetensors --seed 9", net);
    const double drawn = loss_of("dp", "--seed 9"),
                 other = loss_of("dp", "--seed 2");
    tap_ok(fabs(drawn - other) > 1e-4, "another seed draws other values");
    tap_ok(loss_of("dp", "--seed 2 --weights $D/w.safetensors") == drawn,
           "values of a file are in the place of the seed's");
    tap_near(loss_of("tp", "--seed 2 --weights $D/w.safetensors"), drawn, 1e-6,
             "cut as the plan wants them");

    make("run $D/dp.json %s --steps 4 --checkpoint $D/made", data);
    const double next = loss_of("dp", "--weights $D/made");
    tap_ok(next < drawn, "those of a checkpoint have learnt");
    tap_near(loss_of("tp", "--weights $D/made/step-4"), next, 1e-6,
             "one checkpoint by its folder, under another plan");
    make("export %s --to safetensors --weights $D/made -o $D/m.safetensors",
         net);
    tap_near(loss_of("tp", "--weights $D/m.safetensors"), next, 1e-6,
             "put together to one file");
    make("export %s --to onnx --weights $D/made -o $D/m.onnx", net);
    make("plan $D/m.onnx --cluster local --ranks 1 --batch 4 -o $D/onnx.json");
    tap_near(loss_of("onnx", ""), next, 1e-6, "and as ONNX");
    make("export $D/m.onnx --to safetensors -o $D/o.safetensors");
    test_passed_over(next);

    cli("--version >/dev/null; head -c 100 $D/w.safetensors "
        ">$D/cut.safetensors; true --db");
    refuse_run("$D/nowhere", "No such file");
    refuse_run("$D/dp.json", "dp.json: no safetensors file\n");
    refuse_run("$D/m.onnx", "m.onnx: an ONNX file, no safetensors file");
    refuse_run("$D/cut.safetensors", "cut short: its head should have");
    refuse_run("$D/made/step-4/rank-1.safetensors", "has no values of");
    refuse_run("/dev/null", "not a regular file");
    char words[600];
    snprintf(words, sizeof words,
             "run $D/other.json %s --steps 1 --weights $D/w.safetensors", data);
    refuse(words, "the network's is f32");
    snprintf(words, sizeof words,
             "export %s --to safetensors -o $D/nowhere/w.safetensors", net);
    refuse(words, "nowhere/w.safetensors");
    cli_end_scratch();
    return tap_done();
}
