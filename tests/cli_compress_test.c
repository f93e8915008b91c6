/* --compress as a user asks for it: each kind trains a small transformer about
 * as well as without, takes the gradients that then move in fewer bytes, and is
 * refused where there are none. */
#include "config.h"
#include "tests/cli_plans.h"

#define TINY "zoo:gpt,layers=2,hidden=32,heads=2,vocab=256,seq=16"
#define LARGE "zoo:gpt,layers=2,hidden=512,heads=8,vocab=1000,seq=128"
#define TEXT "\"$S/datasets/data/moby-dick.txt\""

enum { STEPS = 60, LAST = 10, PARAMS = 36 };

/* Ranks of this host whose links are said to be slow: there compression pays,
 * whatever this machine is. */
static const char slow[] =
    "{\"version\": 1, \"groups\": [{\"nodes\": 1, \"devices_per_node\": %d, "
    "\"cores_per_node\": %d, \"device\": {\"name\": \"slow\", "
    "\"memory_bytes\": 4e9, \"memory_bps\": 1e11, \"tf32_flops\": 0, "
    "\"bf16_flops\": 0, \"source\": \"a test\", \"fp32_flops\": 1e13, "
    "\"matmul_efficiency\": 0.8, \"memory_efficiency\": 0.8, \"launch_s\": "
    "0}, \"inner\": {\"name\": \"inner\", \"latency_s\": 0, "
    "\"bandwidth_bps\": 1e6, \"on_cores\": false}, \"memory\": {\"name\": "
    "\"memory\", \"latency_s\": 0, \"bandwidth_bps\": 1e11, \"on_cores\": "
    "false}}], \"outer\": {\"name\": \"outer\", \"latency_s\": 1e-5, "
    "\"bandwidth_bps\": 1e9}}";

static void write_cluster(int ranks)
{
    char path[600];
    snprintf(path, sizeof path, "%s/slow%d.json", cli_scratch, ranks);
    FILE *file = fopen(path, "w");
    if (!file)
        return;
    fprintf(file, slow, ranks, ranks);
    fclose(file);
}

static bool train(int ranks, const char *recipe, const char *how,
                  double losses[STEPS])
{
    char words[600];
    snprintf(words, sizeof words,
             "plan " TINY " --cluster \"$D/slow%d.json\" %s --batch 16 "
             "--lr 0.003 --seed 1 %s",
             ranks, recipe, how);
    return cli_train(words, TEXT, STEPS, losses);
}

/* Mean of the last losses. */
static double reached(const double losses[STEPS])
{
    double sum = 0;
    for (int i = STEPS - LAST; i < STEPS; i++)
        sum += losses[i];
    return sum / LAST;
}

/* `margin` is how much more loss is left than without compression. */
static void test_convergence(const char *how, double margin,
                             const double plain[STEPS])
{
    static const struct {
        int ranks;
        const char *recipe;
    } plans[] = {{2, "--dp 2"}, {4, "--dp 2 --pp 2 --micro-batches 2"}};
    for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
        double losses[STEPS];
        const bool ran = train(plans[k].ranks, plans[k].recipe, how, losses);
        const double more = ran ? reached(losses) / reached(plain) - 1 : NAN;
        tap_ok(ran && more < margin && losses[STEPS - 1] < 0.75 * losses[0],
               "%s, %s: the loss is within %g %% of the uncompressed one "
               "(%+.2f %%)",
               how, plans[k].recipe, 100 * margin, 100 * more);
    }
}

static void test_kinds(void)
{
    double plain[STEPS];
    if (!train(2, "--dp 2", "", plain)) {
        tap_ok(false, "without compression it trains");
        return;
    }
    test_convergence("--compress bf16", 0.01, plain);
    test_convergence("--compress fp16", 0.01, plain);
    test_convergence("--compress powersgd:4", 0.03, plain);
    test_convergence("--compress topk:0.1", 0.08, plain);
}

/* ---- bytes ---- */

/* By all ranks of one stage, in a step of one micro-batch: what a plan's file
 * says that its collectives send. An all-reduce goes round twice. */
static double sent(const char *name, int ranks)
{
    char path[600];
    size_t r, i;
    json_t *role, *task;
    double sum = 0;
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *roles = json_object_get(json_object_get(root, "plan"), "roles");
    json_array_foreach(roles, r, role)
        json_array_foreach(json_object_get(role, "tasks"), i, task)
    {
        const char *box = json_string_value(json_object_get(task, "box"));
        const double in = json_number_value(json_object_get(task, "bytes_in"));
        const double out =
            json_number_value(json_object_get(task, "bytes_out"));
        const bool all = box && strcmp(box, "all-reduce") == 0;
        if (all || (box && strcmp(box, "all-gather") == 0) ||
            (box && strcmp(box, "reduce-scatter") == 0))
            sum += (all ? 2 : 1) * (ranks - 1) * (in > out ? in : out);
    }
    json_decref(root);
    return sum;
}

/* How many names the object lists. */
static int listed(const cli_answer *a, const char *key)
{
    return (int)json_array_size(json_object_get(a->json, key));
}

/* Bytes for the compressed gradients over those as they are: exactly half; what
 * 2 % of values and places are, 8 bytes for 4 and gathered once where a sum
 * goes round twice; by the factors. What is small may be cheaper reduced at
 * once. The two plans' files differ in as many bytes as are told. */
static void test_bytes(const char *recipe)
{
    static const struct {
        const char *how;
        double low, high;
        int least; /* gradients compressed */
    } kinds[] = {{"bf16", 0.4999, 0.5001, PARAMS},
                 {"fp16", 0.4999, 0.5001, PARAMS},
                 {"topk:0.02", 0.0199, 0.05, 13},
                 {"powersgd:4", 0.005, 0.03, 5}};
    cli("plan " LARGE " --cluster 4x1:a100-sxm4-80g %s --batch 8 "
        "-o \"$D/plain.json\"",
        recipe);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const char *how = kinds[k].how;
        cli_answer *a = cli("plan " LARGE " --cluster 4x1:a100-sxm4-80g %s "
                            "--batch 8 --compress %s -o \"$D/c.json\" --json",
                            recipe, how);
        const double moved = cli_number(a, "compressed_bytes");
        const double plain = cli_number(a, "plain_bytes");
        const double saved = sent("plain.json", 4) - sent("c.json", 4);
        const int n = listed(a, "compressed");
        tap_ok(a->status == 0 && moved >= kinds[k].low * plain &&
                   moved <= kinds[k].high * plain,
               "%s, %s: of the bytes %.4f move", how, recipe, moved / plain);
        /* fp16 has sums of its loss scale, too */
        tap_ok(fabs(saved - (plain - moved)) <= 256,
               "%s, %s: the plans' files differ in %.0f bytes, %.0f are told",
               how, recipe, saved, plain - moved);
        tap_ok(n >= kinds[k].least &&
                   cli_number(a, "compressed_gradients") == n &&
                   listed(a, "not_reduced") == 0 &&
                   listed(a, "not_smaller") == PARAMS - n,
               "%s, %s: %d gradients are compressed, the rest are told", how,
               recipe, n);
        a = cli("check \"$D/c.json\"");
        tap_ok(a->status == 0, "%s: the plan is made again and sound", how);
        a = cli("explain \"$D/c.json\"");
        tap_ok(a->status == 0 && strstr(a->out, how), "%s: explain tells it",
               how);
    }
}

/* What no ranks add up, and what is added up before it is compressed. */
static void test_refused(void)
{
    static const struct {
        const char *recipe, *says;
    } rows[] = {{"--dp 1 --tp 4", "ranks add up none of the 36 gradients"},
                {"--dp 4 --zero 2", "from zero=2 on they are reduced"},
                {"--dp 4 --zero 3 --micro-batches 2", "has no effect"}};
    static const char *const how[] = {"bf16", "topk:0.02", "powersgd:4"};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; k < sizeof how / sizeof *how; k++) {
            const cli_answer *a = cli("plan " TINY " --cluster "
                                      "4x1:a100-sxm4-80g %s --batch 8 "
                                      "--compress %s -o \"$D/none.json\"",
                                      rows[i].recipe, how[k]);
            tap_ok(a->status == 2 && strstr(a->err, rows[i].says) &&
                       strstr(a->err, how[k]),
                   "%s, %s: %.*s", rows[i].recipe, how[k],
                   (int)strcspn(a->err, "\n"), a->err);
        }
}

static void test_words(void)
{
    static const char *const bad[] = {"zip", "topk:2", "powersgd"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        const cli_answer *a = cli("plan " TINY " --cluster 1x2:a100-sxm4-80g "
                                  "--batch 2 --compress %s -o \"$D/no.json\"",
                                  bad[k]);
        tap_ok(a->status == 2 && strstr(a->err, "--compress") &&
                   strstr(a->err, bad[k]),
               "--compress %s is refused", bad[k]);
    }
    const cli_answer *a =
        cli("plan " TINY " --cluster 1x2:a100-sxm4-80g --batch 2 "
            "--compress powersgd:64 -o \"$D/no.json\"");
    tap_ok(a->status == 2 && strstr(a->err, "no gradient would be smaller"),
           "so is a rank that no matrix has");
    a = cli("plan " TINY " --cluster 1x2:a100-sxm4-80g --batch 2 "
            "-o \"$D/plain.json\" --json");
    tap_ok(a->status == 0 && !json_object_get(a->json, "compress"),
           "nothing is compressed unless told");
}

int main(void)
{
    cli_begin_scratch("compress");
    write_cluster(2);
    write_cluster(4);
    test_words();
    test_bytes("--dp 4");
    test_bytes("--dp 4 --zero 1");
    test_refused();
    test_kinds();
    cli_end_scratch();
    return tap_done();
}
