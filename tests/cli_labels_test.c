/* What an appended loss makes of its labels and targets, as `run` trains. */
#include "config.h"
#include "tests/cli_plans.h"
#include "tests/onnx_make.h"

enum { STEPS = 3 };

/* Devices that need no measuring. */
static const char host[] =
    "{\"version\": 1, \"groups\": [{\"nodes\": 1, \"devices_per_node\": %d, "
    "\"cores_per_node\": 2,"
    "\"device\": {\"name\": \"core\", \"memory_bytes\": 4e9, "
    "\"memory_bps\": 1e10, \"tf32_flops\": 0, \"bf16_flops\": 0, \"source\": "
    "\"a test\", \"fp32_flops\": 1e11, \"matmul_efficiency\": 0.8, "
    "\"memory_efficiency\": 0.8, \"launch_s\": 1e-6},"
    "\"inner\": {\"name\": \"inner\", \"latency_s\": 1e-6, "
    "\"bandwidth_bps\": 5e9, \"on_cores\": true},"
    "\"memory\": {\"name\": \"memory\", \"latency_s\": 1e-6, "
    "\"bandwidth_bps\": 5e9, \"on_cores\": true}}],"
    "\"outer\": {\"name\": \"outer\", \"latency_s\": 1e-5, "
    "\"bandwidth_bps\": 1e9}}";

/* y (N, 3) = x (N, 2) w */
static void make_model(void)
{
    static const float w[] = {0.5f, -0.25f, 1, -1, 0.75f, 0.125f};
    pb *graph = pb_new();
    pb_take(graph, 1, pb_node("mul", "MatMul", "x,w", "y"));
    pb_text(graph, 2, "lines");
    pb_take(graph, 5,
            pb_tensor("w", 1, 2, (const int64_t[]){2, 3}, w, sizeof w));
    pb_take(graph, 11, pb_value("x", 1, 2, (const int64_t[]){-1, 2}, "N"));
    pb_take(graph, 12, pb_value("y", 1, 2, (const int64_t[]){-1, 3}, "N"));
    write_model("lines.onnx", pb_model(graph, 13));
    for (int n = 1; n <= 2; n++) {
        char text[sizeof host], name[20];
        snprintf(name, sizeof name, "host%d.json", n);
        write_file(name, text, (size_t)snprintf(text, sizeof text, host, n));
    }
    setenv("M", make_folder(), 1);
}

/* Folder NAME: x of `samples` rows, `stride` apart, and what `second` is. */
static void make_data(const char *name, int64_t samples, int64_t stride,
                      pb *second)
{
    static const float all[] = {1, 2, -1, 0.5f, 2, 1, 0.25f, -2};
    float x[8];
    char file[100];
    const int64_t dim[] = {samples, 2};
    for (int64_t i = 0; i < 2 * samples; i++)
        x[i] = all[i / 2 * stride * 2 + i % 2];
    mkdir(make_path(name), 0777);
    pb *first = pb_tensor("x", 1, 2, dim, x, (size_t)samples * 2 * sizeof *x);
    snprintf(file, sizeof file, "%s/input_0.pb", name);
    write_model(file, first);
    snprintf(file, sizeof file, "%s/input_1.pb", name);
    write_model(file, second);
}

static bool train(const char *recipe, const char *data, double *losses)
{
    char words[400], folder[100];
    snprintf(words, sizeof words,
             "plan \"$M/lines.onnx\" --loss cross-entropy --cluster "
             "\"$M/host%d.json\" --optimizer sgd --lr 0.5 %s",
             strstr(recipe, " 1") ? 1 : 2, recipe);
    snprintf(folder, sizeof folder, "\"$M/%s\"", data);
    return cli_train(words, folder, STEPS, losses);
}

/* PyTorch's default: the mean is over the labels that count. */
static void test_ignored(void)
{
    static const int64_t some[] = {1, -100, 0, -100}, rest[] = {1, 0};
    static const char *const recipes[] = {"--dp 1", "--dp 2", "--tp 2",
                                          "--dp 1 --micro-batches 2"};
    double wanted[STEPS], got[STEPS];
    char words[100];
    make_data("some", 4, 1, pb_ints("labels", 4, some));
    make_data("rest", 2, 2, pb_ints("labels", 2, rest));
    const bool known = train("--batch 2 --dp 1", "rest", wanted);
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        snprintf(words, sizeof words, "--batch 4 %s", recipes[i]);
        const bool ran = known && train(words, "some", got);
        const double off = ran ? cli_losses_off(got, wanted, STEPS) : 1;
        tap_ok(ran && off <= 1e-6,
               "%s: labels of -100 count nothing (off %.1e)", recipes[i], off);
    }
}

/* Says `wanted` when run on folder `data` with the loss; names the node once.
 */
static void refused(const char *loss, const char *data, const char *wanted)
{
    cli_answer *a = cli("plan \"$M/lines.onnx\" --loss %s --batch 4 --cluster "
                        "\"$M/host1.json\" --dp 1 -o \"$D/plan.json\"",
                        loss);
    if (a->status == 0)
        a = cli("run \"$D/plan.json\" --data \"$M/%s\" --steps 2", data);
    const char *at = strstr(a->err, "loss/");
    tap_ok(a->status == 3 && strstr(a->err, wanted) && at &&
               !strstr(at + 1, "loss/"),
           "--loss %s: \"%s\", and the node is named once", loss, wanted);
    if (a->status != 3)
        cli_show(a);
}

int main(void)
{
    static const int64_t beyond[] = {0, 3, 1, 2};
    static const float target[12] = {1};
    cli_begin_scratch("labels");
    make_model();
    test_ignored();
    make_data("beyond", 4, 1, pb_ints("labels", 4, beyond));
    refused("cross-entropy", "beyond",
            "label 3 at position [1] must lie in [0,3)");
    make_data("target", 4, 1,
              pb_tensor("target", 1, 2, (const int64_t[]){4, 3}, target,
                        sizeof target));
    refused(
        "bce", "target",
        "-1.5 at position [0,0] is no probability of 0 to 1 (bce-logits takes "
        "any number)");
    remove_folder();
    cli_end_scratch();
    return tap_done();
}
