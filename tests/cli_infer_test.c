/* Plans of inference, planned, looked at and run as a user does: whatever the
 * plan, the outputs are those of one device. */
#include "config.h"
#include "tests/run_cli.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const gpt =
    "zoo:gpt,layers=2,hidden=32,heads=4,vocab=64,seq=16";
static const char *const resnet = "zoo:resnet,depth=18,size=32,width=8";

/* ---- outputs ---- */

typedef struct values {
    long n; /* 0: there are none */
    float *at;
} values;

/* Of a NumPy file of floats. */
static values read_npy(const char *path)
{
    values out = {0};
    unsigned char head[10];
    FILE *file = fopen(path, "rb");
    if (!file)
        return out;
    if (fread(head, 1, sizeof head, file) == sizeof head &&
        memcmp(head, "\x93NUMPY\x01\x00", 8) == 0) {
        const long begin = 10 + head[8] + 256 * head[9];
        fseek(file, 0, SEEK_END);
        out.n = (ftell(file) - begin) / (long)sizeof *out.at;
        out.at = calloc((size_t)out.n, sizeof *out.at);
        fseek(file, begin, SEEK_SET);
        if (begin % 64 != 0 ||
            fread(out.at, sizeof *out.at, (size_t)out.n, file) != (size_t)out.n)
            out.n = 0;
    }
    fclose(file);
    return out;
}

/* What a plan by `words` gives of output `name`; `digest` may be NULL. */
static values outputs_of(const char *words, const char *options,
                         const char *name, char digest[17])
{
    const values none = {0};
    char path[700];
    cli_answer *a =
        cli("plan %s --mode infer --cluster local -o $D/p.json", words);
    if (a->status == 0)
        a = cli("run $D/p.json --data synthetic --outputs $D/out.d --json %s",
                options);
    if (a->status != 0) {
        printf("# %s %s\n", words, options);
        cli_show(a);
        return none;
    }
    const char *said =
        json_string_value(json_object_get(a->json, "outputs_digest"));
    if (digest)
        snprintf(digest, 17, "%s", said ? said : "");
    snprintf(path, sizeof path, "%s/out.d/%s.npy", cli_scratch, name);
    const values got = read_npy(path);
    unlink(path);
    return got;
}

/* The largest difference, as a part of the largest value. */
static double off_by(const values *a, const values *b)
{
    double most = 0, off = 0;
    if (a->n != b->n || a->n == 0)
        return (double)INFINITY;
    for (long i = 0; i < a->n; i++) {
        most = fmax(most, fabs((double)b->at[i]));
        off = fmax(off, fabs((double)a->at[i] - (double)b->at[i]));
        if (!isfinite(a->at[i]))
            return (double)INFINITY;
    }
    return most > 0 ? off / most : (double)INFINITY;
}

static void test_plans(const char *model, const char *output, int n,
                       const char *const *recipes)
{
    char words[600];
    snprintf(words, sizeof words, "%s --batch 4 --ranks 1", model);
    const values one = outputs_of(words, "--steps 2", output, NULL);
    tap_ok(one.n > 0, "%s: one device gives %ld numbers", model, one.n);
    for (int i = 0; i < n; i++) {
        snprintf(words, sizeof words, "%s --batch 4 --ranks %s", model,
                 recipes[i]);
        const values got = outputs_of(words, "--steps 2", output, NULL);
        const double off = off_by(&got, &one);
        tap_ok(off < 2e-5, "--ranks %s: gives the same (off %.1e)", recipes[i],
               off);
        free(got.at);
    }
    free(one.at);
}

static void test_all_plans(void)
{
    static const char *const of_gpt[] = {
        "2 --dp 2", "2 --tp 2", "2 --pp 2 --micro-batches 4",
        "4 --pp 2 --tp 2 --micro-batches 2 --schedule gpipe",
        "2 --dp 2 --zero 3"};
    static const char *const of_bert[] = {"2 --tp 2",
                                          "2 --pp 2 --micro-batches 2"};
    static const char *const of_resnet[] = {"2 --dp 2",
                                            "2 --pp 2 --micro-batches 4"};
    static const char *const of_wide[] = {"2 --tp 2",
                                          "2 --dp 2 --micro-batches 2"};
    static const char *const of_onnx[] = {"2 --dp 2", "2 --tp 2"};
    test_plans(gpt, "logits", 5, of_gpt);
    test_plans("zoo:bert,layers=2,hidden=32,heads=4,vocab=64,seq=16",
               "sentence", 2, of_bert);
    test_plans(resnet, "logits", 2, of_resnet);
    test_plans("zoo:wide_deep,rows=200,hidden=32,layers=2", "logits", 2,
               of_wide);
    test_plans("$S/datasets/models/gpt_bytes.dyn.onnx", "loss", 2, of_onnx);
}

/* Padding and the other requests of a batch change no answer. */
static void test_alone(const char *model)
{
    char words[600], digest[2][17];
    snprintf(words, sizeof words, "%s --batch 4 --ranks 1", model);
    const values together = outputs_of(words, "--steps 1", "logits", digest[0]);
    const values again = outputs_of(words, "--steps 1", "logits", digest[1]);
    tap_ok(digest[0][0] && strcmp(digest[0], digest[1]) == 0 &&
               off_by(&again, &together) == 0,
           "%s: a run again gives the same bits", model);
    snprintf(words, sizeof words, "%s --batch 1 --ranks 1", model);
    const values alone = outputs_of(words, "--steps 4", "logits", NULL);
    const double off = off_by(&alone, &together);
    tap_ok(off < 2e-5, "each sample alone gives the same (off %.1e)", off);
    free(together.at);
    free(again.at);
    free(alone.at);
}

/* A model that was exported for training takes the moments of its batch there:
 * with running statistics its loss is the mean of what each sample has alone.
 */
static void test_running_statistics(void)
{
    const char *model = "$S/datasets/train_cases/resnet_thin_bn/model.onnx";
    char words[600];
    snprintf(words, sizeof words, "%s --batch 4 --ranks 1", model);
    const values together = outputs_of(words, "--steps 1", "loss", NULL);
    snprintf(words, sizeof words, "%s --batch 1 --ranks 1", model);
    const values alone = outputs_of(words, "--steps 4", "loss", NULL);
    double mean = 0;
    for (long i = 0; i < alone.n; i++)
        mean += (double)alone.at[i] / (double)alone.n;
    tap_ok(together.n == 1 && alone.n == 4, "a loss of each step");
    tap_near(mean, together.n ? (double)together.at[0] : (double)NAN, 1e-5,
             "batch norms take no moments of the batch");
    free(together.at);
    free(alone.at);
}

/* The network of inference has the variables of the one that is trained. */
static void test_weights(void)
{
    char words[600];
    cli_answer *a = cli("export %s --to safetensors -o $D/w.st --seed 9", gpt);
    tap_ok(a->status == 0, "values of seed 9 in a file");
    snprintf(words, sizeof words, "%s --batch 4 --ranks 2 --tp 2", gpt);
    const values drawn =
        outputs_of(words, "--steps 1 --seed 9", "logits", NULL);
    const values given = outputs_of(
        words, "--steps 1 --seed 9 --weights $D/w.st", "logits", NULL);
    tap_ok(off_by(&given, &drawn) == 0, "are those that the seed draws");
    free(drawn.at);
    free(given.at);
}

/* How many lines say that nobody trained the values. */
static int told_drawn(const char *plan, const char *options)
{
    int n = 0;
    cli_answer *a =
        cli("run $D/%s.json --data synthetic --steps 1 %s", plan, options);
    if (a->status != 0)
        cli_show(a);
    for (const char *at = a->err; (at = strstr(at, "drawn from the seed"));
         at++)
        n++;
    return a->status == 0 ? n : -1;
}

static void test_drawn(void)
{
    cli("plan %s --mode infer --cluster local --ranks 2 --dp 2 --batch 4 -o "
        "$D/zoo.json",
        gpt);
    cli("plan $S/datasets/models/gpt_bytes.dyn.onnx --mode infer --cluster "
        "local --ranks 1 --batch 4 -o $D/onnx.json");
    tap_equal_int(told_drawn("zoo", ""), 1, "values that are drawn are told");
    tap_equal_int(told_drawn("zoo", "--weights $D/w.st"), 0,
                  "those of --weights are not");
    tap_equal_int(told_drawn("onnx", ""), 0, "nor those of the model's file");
}

/* ---- what else is done with such a plan ---- */

static void test_commands(void)
{
    cli_answer *a = cli("plan %s --cluster local --ranks 2 --batch 8 --pp 2 "
                        "--micro-batches 2 -o $D/t.json --json",
                        gpt);
    const double trains_s = cli_number(a, "iteration_s");
    json_int_t trains = 0, infers = 0;
    json_unpack(a->json, "{s:[I]}", "peak_bytes", &trains);
    a = cli("plan %s --mode infer --cluster local --ranks 2 --batch 8 --pp 2 "
            "--micro-batches 2 -o $D/i.json --json",
            gpt);
    json_unpack(a->json, "{s:[I]}", "peak_bytes", &infers);
    tap_ok(a->status == 0 && cli_number(a, "iteration_s") < trains_s / 2,
           "forward takes less than half of a training step");
    tap_ok(infers > 0 && infers < trains / 2,
           "and less than half of its memory (%lld of %lld bytes)",
           (long long)infers, (long long)trains);
    static const char *const commands[] = {
        "check $D/i.json", "sim $D/i.json --json", "explain $D/i.json",
        "show $D/i.json -o $D/i.dot", "compare $D/i.json $D/i.json"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        a = cli("%s", commands[i]);
        tap_equal_int(a->status, 0, "%s", commands[i]);
        if (a->status != 0)
            cli_show(a);
    }
    a = cli("search %s --mode infer --cluster local --ranks 2 --batch 4 -o "
            "$D/s.json --json",
            resnet);
    tap_ok(a->status == 0 && cli_number(a, "gap") <= 0.01,
           "search proves a plan of inference");
    a = cli("sweep zoo:gpt,layers=4,hidden=32,heads=4 --mode infer --cluster "
            "1x4:a100-sxm4-80g --batch 8 --json");
    tap_equal_int(a->status, 0, "sweep prices recipes of inference");
    if (a->status != 0)
        cli_show(a);
}

/* ---- what is refused ---- */

static void refuse(const char *words, const char *wanted)
{
    cli_answer *a = cli("%s", words);
    tap_ok(a->status == 2 && strstr(a->err, wanted), "refused: %s", wanted);
    if (a->status != 2 || !strstr(a->err, wanted))
        cli_show(a);
}

static void refuse_plan(const char *options, const char *wanted)
{
    char words[600];
    snprintf(words, sizeof words,
             "plan %s --cluster local --ranks 1 --batch 4 -o $D/no.json %s",
             gpt, options);
    refuse(words, wanted);
}

static void test_refused(void)
{
    refuse_plan("--mode eval", "--mode eval is unknown");
    refuse_plan("--mode infer --optimizer sgd", "--optimizer has no effect");
    refuse_plan("--mode infer --recompute block", "--recompute has no effect");
    refuse_plan("--mode infer --zero 1", "zero=1 has no effect");
    refuse_plan("--mode infer --loss mse", "--loss has no effect");
    refuse_plan("--mode infer --clip-norm 1", "--clip-norm has no effect");
    refuse("search zoo:mlp --mode infer --cluster local --ranks 1 --batch 4 "
           "--fix states=bf16 -o $D/no.json",
           "states of the recipe has no effect");
    refuse("plan $S/datasets/models/gpt_bytes.dyn.onnx --mode infer --cluster "
           "local --ranks 1 --batch 4 --micro-batches 2 -o $D/no.json",
           "are not each one sample's alone");
    refuse("run $D/i.json --data synthetic --checkpoint $D/made",
           "--checkpoint has no effect");
    refuse("run $D/i.json --data synthetic --lr 1", "--lr has no effect");
    refuse("run $D/t.json --data synthetic --outputs $D/made",
           "--outputs has no effect");
    refuse("run $D/i.json --data synthetic --outputs $D/i.json",
           "wants a folder");
    refuse("run $D/i.json --data synthetic --outputs $D "
           "--steps 1000000000000000000",
           "--steps 1000000000000000000: this run can take 10000000 at most");
}

int main(void)
{
    cli_begin_scratch("cli_infer");
    test_all_plans();
    test_alone(gpt);
    test_alone(resnet);
    test_running_statistics();
    test_weights();
    test_drawn();
    test_commands();
    test_refused();
    cli_end_scratch();
    return tap_done();
}
