/* sim --framework: predicts what `validate` predicts of the same run, and says
 * what of a plan that framework would not run so. */
#include "config.h"
#include "tests/cli_tables.h"

#define ROW                                                                    \
    "id,source,task,model,arch,layers,hidden,ffn,heads,vocab,seq_len,"         \
    "global_batch,micro_batch,grad_accum,gpus,gpu,gpu_mem_gb,gpus_per_node,"   \
    "inter_link,tp,pp,dp,schedule,zero_stage,recompute,precision,framework,"   \
    "iter_time_s,status\n"                                                     \
    "V1,here,pretrain,GPT,gpt,4,1024,4096,16,50257,512,16,16,1,4,A100-SXM4,"   \
    "80,"                                                                      \
    "8,n/a,4,1,1,none,0,none,bf16,Megatron-LM,0.05,ok\n"

static const json_t *notes(const cli_answer *a)
{
    return json_object_get(a->json, "framework_notes");
}

static bool has_note(const cli_answer *a, const char *part)
{
    size_t i;
    json_t *text;
    json_array_foreach(notes(a), i, text) if (strstr(json_string_value(text),
                                                     part)) return true;
    return false;
}

static void plan(const char *cuts, int vocab, int micro)
{
    cli_answer *a = cli("plan zoo:gpt,layers=4,hidden=1024,heads=16,seq=512,"
                        "vocab=%d --cluster 1x4:a100-sxm4-80g %s "
                        "--batch 16 --micro-batch %d --precision "
                        "bf16 --optimizer adam --overlap -o $D/p.plan",
                        vocab, cuts, micro);
    tap_equal_int(a->status, 0, "a plan by hand: %s", a->err);
}

/* What is said of published runs holds of what `sim` says. */
static void test_as_validated(void)
{
    const cli_answer *a = cli_validate(ROW);
    const double validated = cli_real(
        json_array_get(json_object_get(a->json, "details"), 0), "predicted_s");
    plan("--tp 4", 50688, 16);
    a = cli("sim $D/p.plan --framework megatron-lm --json");
    const double simulated =
        json_number_value(json_object_get(a->json, "iteration_s"));
    tap_ok(fabs(simulated / validated - 1) < 1e-6,
           "as validate predicts it: %g, %g s", simulated, validated);
    tap_equal_int((int)json_array_size(notes(a)), 0,
                  "a plan that it runs: nothing to say");
}

static void test_misfits(void)
{
    plan("--tp 2 --pp 2 --layers 3/1", 50257, 4);
    cli_answer *a = cli("sim $D/p.plan --framework megatron-lm --json");
    tap_ok(has_note(a, "this plan has 3/1"), "uneven stages");
    tap_ok(has_note(a, "50257 words"), "a vocabulary that is not padded");
    a = cli("sim $D/p.plan --framework fsdp --json");
    tap_ok(has_note(a, "no pipelines") && has_note(a, "cuts no products"),
           "neither pipelines nor tensor parallel products");
    a = cli("sim $D/p.plan --framework fsdp");
    tap_ok(strstr(a->out, "fsdp has no pipelines: nobody runs this plan of 2 "
                          "stages with it"),
           "said in words");
    a = cli("plan zoo:gpt,layers=4,hidden=1024,heads=16,seq=512 --cluster "
            "1x4:a100-sxm4-80g --dp 4 --zero 3 --batch 16 --overlap -o "
            "$D/z.plan");
    a = cli("sim $D/z.plan --framework fsdp --json");
    tap_equal_int((int)json_array_size(notes(a)), 0,
                  "parameters gathered for their products are none in pieces");
    a = cli("sim $D/z.plan --framework pytorch --json");
    tap_ok(has_note(a, "keeps states, gradients and parameters whole"),
           "what it keeps whole and the plan does not");
    for (int zero = 0; zero < 4; zero++) {
        static const char *const of[] = {
            "", "keeps states whole", "keeps states and gradients whole",
            "keeps states, gradients and parameters whole"};
        cli("plan zoo:gpt,layers=2,hidden=64,heads=4,seq=16,vocab=128 "
            "--cluster 1x8:a100-sxm4-80g --dp 4 --tp 2 --zero %d --batch 16 "
            "--micro-batches 2 --precision bf16 -o $D/z.plan",
            zero);
        a = cli("sim $D/z.plan --framework pytorch --json");
        tap_ok(zero ? has_note(a, of[zero]) : !has_note(a, " whole "),
               "ZeRO-%d beside tensor parallel ranks: %s", zero, of[zero]);
        a = cli("sim $D/z.plan --framework megatron-lm --json");
        tap_ok(has_note(a, " whole ") == (zero > 1),
               "Megatron-LM cuts states alone");
    }
}

static void test_schedules(void)
{
    static const char *const rows[][2] = {{"1f1b", ""},
                                          {"gpipe", "no schedule gpipe"},
                                          {"zb-h1", "no schedule zb-h1"},
                                          {"interleaved --interleave 2", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cli("plan zoo:gpt,layers=4,hidden=64,heads=4,seq=16,vocab=128 "
            "--cluster 1x2:a100-sxm4-80g --pp 2 --batch 8 --micro-batches 4 "
            "--schedule %s -o $D/s.plan",
            rows[i][0]);
        const cli_answer *a =
            cli("sim $D/s.plan --framework megatron-lm --json");
        tap_ok(rows[i][1][0] ? has_note(a, rows[i][1])
                             : !has_note(a, "no schedule"),
               "%s: '%s'", rows[i][0], rows[i][1]);
    }
}

/* A node of shipped devices, each of so many bytes. */
static void write_cluster(double memory_bytes)
{
    char path[700];
    snprintf(path, sizeof path, "%s/datasets/clusters/a100-sxm4-80g.json",
             cli_env("FS_SRCDIR", "."));
    json_t *shipped = json_load_file(path, 0, NULL);
    json_t *device = json_object_get(shipped, "device");
    json_t *node = json_object_get(shipped, "node");
    json_object_set_new(device, "memory_bytes", json_real(memory_bytes));
    json_t *cluster =
        json_pack("{s:i, s:[{s:i, s:i, s:O, s:O, s:O}], s:O}", "version", 1,
                  "groups", "nodes", 1, "devices_per_node", 4, "device", device,
                  "inner", json_object_get(node, "inner"), "memory",
                  json_object_get(node, "memory"), "outer",
                  json_object_get(shipped, "outer"));
    snprintf(path, sizeof path, "%s/small.json", cli_scratch);
    tap_ok(cluster && json_dump_file(cluster, path, 0) == 0,
           "devices of %g bytes", memory_bytes);
    json_decref(cluster);
    json_decref(shipped);
}

static double largest(const json_t *list, const char *key)
{
    double most = 0;
    size_t i;
    json_t *one;
    json_array_foreach(list, i, one)
    {
        const json_t *value = key ? json_object_get(one, key) : one;
        most = fmax(most, json_number_value(value));
    }
    return most;
}

static double in_parts(const cli_answer *a)
{
    double sum = 0;
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(a->json, "framework_parts"), key, value)
        sum += json_number_value(value);
    return sum;
}

static bool says(const cli_answer *a, const char *key, bool value)
{
    const json_t *is = json_object_get(a->json, key);
    return json_is_boolean(is) && json_is_true(is) == value;
}

/* Whatever devices have: the verdict is of what is told, and all that is told
 * of memory is the framework's. */
static void test_memory(unsigned long long seed)
{
    static const char *const cuts[] = {"--dp 4", "--dp 2 --tp 2 --seq-parallel",
                                       "--pp 4 --micro-batches 4",
                                       "--dp 2 --pp 2 --zero 1"};
    static const char *const names[] = {"megatron-lm", "fsdp", "pytorch",
                                        "deepspeed-zero"};
    int fit = 0, not = 0;
    for (int i = 0; i < 8; i++) {
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        const double bytes = 1e9 + (double)(seed >> 33) / 0x1p31 * 8e8;
        const char *name = names[(seed >> 20) % 4];
        write_cluster(bytes);
        cli_answer *a =
            cli("plan zoo:gpt,layers=4,hidden=256,heads=4,seq=128,vocab=1024 "
                "--cluster \"$D/small.json\" --batch 16 --precision bf16 %s "
                "-o $D/m.plan",
                cuts[i % 4]);
        if (a->status)
            cli_show(a);
        a = cli("sim $D/m.plan --json");
        const double own_s = cli_number(a, "iteration_s");
        tap_ok(a->status == 0 && says(a, "fits", true) &&
                   cli_number(a, "limit_bytes") == floor(bytes),
               "the plan itself fits devices of %.0f", bytes);
        a = cli("sim $D/m.plan --framework %s --json", name);
        const double held = cli_number(a, "framework_process_bytes");
        const bool fits = held <= floor(bytes);
        tap_ok(a->status == !fits && says(a, "fits", fits) &&
                   (fits || strstr(a->err, "memory: ")),
               "%s, %s: status %d of %.0f bytes", name, cuts[i % 4], a->status,
               held);
        tap_ok(cli_number(a, "iteration_s") > 0 && own_s > 0,
               "a time is told all the same");
        tap_near(largest(json_object_get(a->json, "peak_bytes"), NULL), held, 0,
                 "peak_bytes are its processes");
        tap_near(largest(json_object_get(a->json, "roles"), "peak_bytes"), held,
                 0, "so are those of roles");
        tap_near(largest(json_object_get(a->json, "stages"), "peak_bytes"),
                 cli_number(a, "framework_bytes"), 0,
                 "those of stages are what it has allocated");
        tap_ok(fabs(in_parts(a) - held) < 8, "its parts add up");
        tap_ok((strstr(cli("sim $D/m.plan --framework %s", name)->out,
                       "it does not fit") != NULL) == !fits,
               "people are told too");
        for (int less = 0; less < 2; less++) {
            a = cli("sim $D/m.plan --framework %s --json --set "
                    "device.memory=%.0f",
                    name, held - less);
            tap_ok(a->status == less && says(a, "fits", !less) &&
                       cli_number(a, "limit_bytes") == held - less,
                   "as of devices with %d byte less: %s", less, a->err);
        }
        fit += fits;
        not += !fits;
    }
    tap_ok(fit > 0 && not > 0, "%d fit, %d do not", fit, not );
}

static void test_names(void)
{
    cli_answer *a = cli("sim --help");
    char names[4096];
    snprintf(names, sizeof names, "%s", strstr(a->out, "Frameworks:"));
    tap_ok(system("cd \"$S\"/datasets/frameworks && ls >\"$D/names\"") == 0,
           "the data folder has frameworks");
    char list[4096], *at = list;
    cli_slurp("names", list, sizeof list);
    for (char *name; (name = strsep(&at, "\n")) && *name;) {
        name[strlen(name) - strlen(".json")] = '\0';
        tap_ok(strstr(names, name) != NULL, "sim --help names %s", name);
    }
}

int main(void)
{
    const unsigned long long seed = tap_seed(4);
    cli_begin_scratch("framework");
    test_as_validated();
    test_misfits();
    test_schedules();
    test_memory(seed);
    test_names();
    cli_end_scratch();
    return tap_done();
}
