/* flowsearch validate: rows of published runs near what was measured, skips
 * with their reasons, bad tables in one clear line. */
#include "config.h"
#include "tests/cli_tables.h"

#include <math.h>
#include <string.h>

#define HEADER                                                                 \
    "id,source,task,model,arch,layers,hidden,ffn,heads,vocab,seq_len,"         \
    "global_batch,micro_batch,grad_accum,gpus,gpu,gpu_mem_gb,gpus_per_node,"   \
    "inter_link,tp,pp,dp,vpp,schedule,zero_stage,recompute,precision,"         \
    "framework,iter_time_s,samples_per_s,peak_mem_gb,mem_kind,status\n"
/* vTrain, V1460 and V0001, which is no run; Qi et al., V3369; DLPerf, V2967
 * and V2975 */
#define VTRAIN                                                                 \
    "V1460,vTrain,pretrain,GPT-3.6B,gpt,30,3072,12288,32,50257,2048,512,4,16," \
    "64,A100-SXM4,80,8,4x200G HDR IB (800 Gb/s per node),8,1,8,1,none,0,full," \
    "fp16/mixed,Megatron-DeepSpeed,5.618,,,,ok\n"
#define PROFILED                                                               \
    "V0001,vTrain,pretrain,GPT,gpt,24,1024,4096,16,50257,1024,16,8,2,2,"       \
    "A100-SXM4,,8,n/a,1,2,1,1,1f1b,0,full,fp16/mixed,Megatron-DeepSpeed,"      \
    "0.372160,,,,ok\n"
#define BUBBLE                                                                 \
    "V3369,Qi,pretrain,GPT 6.2B,gpt,30,4096,,32,,1024,12,3,4,8,A100-SXM4,80,"  \
    "8,RoCE,1,8,1,1,1F1B,0,none,fp16/bf16 mixed,Megatron-LM,0.8876,,28,GB,"    \
    "ok\n"
/* The same with other figures, as a neighbour */
#define BUBBLE_BESIDE                                                          \
    "b,Qi,pretrain,GPT 6.2B,gpt,30,4096,,32,,1024,24,3,8,8,A100-SXM4,80,"      \
    "8,RoCE,1,8,1,1,1F1B,0,none,fp16/bf16 mixed,Megatron-LM,1.42,,35,GB,"      \
    "ok\n"
#define ONE                                                                    \
    "V2967,DLPerf,pretrain,ResNet-50 v1.5,cnn,,,,,,224x224,224,224,1,1,"       \
    "V100-SXM2,16,8,1x IB EDR 100 Gb/s (MT27700) per node,1,1,1,,,0,none,"     \
    "amp fp16,NGC TensorFlow 1.x,0.23699,,,,ok\n"
#define EIGHT                                                                  \
    "V2975,DLPerf,pretrain,ResNet-50 v1.5,cnn,,,,,,224x224,1792,224,1,8,"      \
    "V100-SXM2,16,8,1x IB EDR 100 Gb/s (MT27700) per node,1,1,8,,,0,none,"     \
    "amp fp16,NGC TensorFlow 1.x,,6903.42,,,ok\n"
#define FULL                                                                   \
    "M1,memory,pretrain,GPT 6.2B,gpt,30,4096,,32,,1024,96,48,2,1,V100-SXM2,"   \
    "16,8,,1,1,1,1,none,0,none,fp16,Megatron-LM,,,,,oom\n"

static const json_t *detail(const cli_answer *a, const char *id)
{
    size_t i;
    json_t *row;
    json_array_foreach(
        json_object_get(a->json, "details"), i,
        row) if (strcmp(json_string_value(json_object_get(row, "id")), id) ==
                 0) return row;
    return NULL;
}

static void test_rows(void)
{
    const cli_answer *a = cli_validate(HEADER VTRAIN BUBBLE ONE EIGHT FULL);
    tap_equal_int(a->status, 0, "five rows are predicted");
    tap_equal_int(json_integer_value(json_object_get(a->json, "rows")), 5,
                  "rows");
    tap_equal_int(json_integer_value(json_object_get(a->json, "predicted")), 5,
                  "predicted");
    tap_ok(fabs(cli_real(detail(a, "V1460"), "error")) < 0.08,
           "V1460: %.3f off", cli_real(detail(a, "V1460"), "error"));
    tap_ok(fabs(cli_real(detail(a, "V3369"), "error")) < 0.06,
           "V3369: %.3f off", cli_real(detail(a, "V3369"), "error"));
    tap_ok(fabs(cli_real(detail(a, "V3369"), "mem_error")) < 0.1,
           "and its memory %.3f", cli_real(detail(a, "V3369"), "mem_error"));
    tap_ok(json_is_true(json_object_get(detail(a, "V2967"), "anchor")) &&
               json_is_null(json_object_get(detail(a, "V2967"), "error")),
           "one device is what eight are told from: no error of its own");
    tap_ok(fabs(cli_real(detail(a, "V2975"), "error")) < 0.12,
           "V2975: %.3f off", cli_real(detail(a, "V2975"), "error"));
    tap_ok(cli_real(a->json, "coverage") == 1, "all are covered");
    const json_t *sources = json_object_get(a->json, "per_source");
    tap_ok(cli_real(json_object_get(sources, "vTrain"), "rows") == 1 &&
               isfinite(cli_real(json_object_get(sources, "vTrain"), "mape")),
           "by source");
    a = cli("validate \"$D/t.csv\" --db none --source memory");
    tap_ok(strstr(a->out, "1 of 1 row that ran out of it was foreseen") != NULL,
           "no room for a batch of 48 is foreseen");
    a = cli("validate \"$D/t.csv\" --db none --source Qi -o \"$D/s.svg\"");
    tap_ok(a->status == 0 && strstr(a->out, "drawn"), "a picture is drawn");
}

/* A row of ResNet-50 that decides by itself. */
static double resnet(const char *framework, const char *precision,
                     const char *source, int gpus)
{
    char text[2000];
    snprintf(text, sizeof text,
             HEADER "a,%s,pretrain,ResNet-50 v1.5,cnn,,,,,,224x224,%d,128,1,%d,"
                    "V100-SXM2,16,8,,1,1,%d,,,0,none,%s,%s,1,,,,ok\n",
             source, 128 * gpus, gpus, gpus, precision, framework);
    cli_put("t.csv", text);
    return cli_real(detail(cli("validate \"$D/t.csv\" --json --db none"), "a"),
                    "predicted_s");
}

static void test_convolutions(void)
{
    const double plain = resnet("TensorFlow", "fp16", "s", 1);
    const double turned = resnet("PyTorch", "fp16", "s", 1);
    const double fused = resnet("OneFlow", "fp16", "s", 1);
    tap_ok(turned > 1.2 * plain,
           "tensor cores want activations turned: %.3f s beside %.3f", turned,
           plain);
    tap_ok(fused < 0.9 * plain,
           "norm, addition and ReLU as one kernel: %.3f s beside %.3f", fused,
           plain);
    const double floats[] = {resnet("TensorFlow", "fp32", "s", 1),
                             resnet("PyTorch", "fp32", "s", 1),
                             resnet("OneFlow", "fp32", "s", 1)};
    tap_ok(fabs(floats[0] / floats[1] - 1) < 0.01 &&
               fabs(floats[0] / floats[2] - 1) < 0.01,
           "of floats neither counts: %.3f, %.3f, %.3f s", floats[0], floats[1],
           floats[2]);
    /* 24 cores for the images of 8 devices, 7.1 ms of a core each */
    const double least = 8 * 128 * 0.0071 / 24;
    tap_near(resnet("MXNet", "fp16", "DLPerf", 8), least, 1e-9,
             "a step takes no less than its images take their host");
    tap_near(resnet("MXNet", "fp16", "DLPerf", 16), least, 1e-9,
             "two hosts decode twice as many");
    tap_ok(resnet("NGC MXNet", "fp16", "DLPerf", 8) < 0.5 * least,
           "but not where the source says that devices decode");
    tap_ok(resnet("MXNet", "fp16", "s", 8) < 0.9 * least,
           "nor where it does not tell its hosts");
}

/* Kernels take as long as they were measured to, by whatever factor. */
static void test_pace(void)
{
    static const char *const seconds[] = {"0.23699", "0.94796"};
    double told[2];
    for (int k = 0; k < 2; k++) {
        char text[4000];
        snprintf(text, sizeof text,
                 HEADER EIGHT
                 "V2967,DLPerf,pretrain,ResNet-50 v1.5,cnn,,,,,,224x224,224,"
                 "224,1,1,V100-SXM2,16,8,1x IB EDR 100 Gb/s (MT27700) per node,"
                 "1,1,1,,,0,none,amp fp16,NGC TensorFlow 1.x,%s,,,,ok\n",
                 seconds[k]);
        cli_put("t.csv", text);
        told[k] = cli_real(
            detail(cli("validate \"$D/t.csv\" --json --db none"), "V2975"),
            "predicted_s");
    }
    tap_ok(told[1] / told[0] > 3.9 && told[1] / told[0] < 4.05,
           "four times as slow a device makes eight four times as slow: %.3f "
           "and %.3f s",
           told[0], told[1]);
}

/* With the facts of sources.json as `text`. */
static void refuses_sources(const char *text, const char *part)
{
    char path[700];
    snprintf(path, sizeof path, "%s/data/validation/sources.json", cli_scratch);
    FILE *file = fopen(path, "wb");
    fputs(text, file);
    fclose(file);
    const cli_answer *a = cli("validate \"$D/t.csv\" --db none");
    tap_ok(a->status == 2 && strstr(a->err, part) &&
               strstr(a->err, "sources.json"),
           "refused: %s (%s)", part, a->err);
}

static void test_sources(void)
{
    const char *usual = getenv("FS_DATA");
    char data[700], before[700];
    snprintf(before, sizeof before, "%s", usual ? usual : "");
    snprintf(data, sizeof data, "%s/data", cli_scratch);
    if (system("mkdir -p \"$D/data\" && cp -r \"$S\"/datasets/clusters "
               "\"$S\"/datasets/frameworks \"$S\"/datasets/collectives "
               "\"$S\"/datasets/validation \"$D/data\"") != 0)
        return;
    cli_put("t.csv", HEADER VTRAIN);
    setenv("FS_DATA", data, 1);
    refuses_sources("{\"sources\":[{\"match\":\"a\",\"with\":"
                    "{\"attention\":\"fused\"}}]}",
                    "attention");
    refuses_sources("{\"sources\":[{\"match\":\"a\",\"with\":"
                    "{\"jitter\":2}}]}",
                    "jitter is 2");
    refuses_sources("{\"sources\":[{\"match\":\"a\",\"host_cores\":0}]}",
                    "host_cores");
    refuses_sources("{\"sources\":[{\"of_model\":\"a\"}]}", "match");
    if (before[0])
        setenv("FS_DATA", before, 1);
    else
        unsetenv("FS_DATA");
}

/* What another simulator said is predicted as that puts steps together; it
 * counts, and what is said without it is told as well. */
static void test_simulated(void)
{
    const cli_answer *a = cli_validate(
        "source_ref,evidence," HEADER
        "data/ground_truth_single.csv line 2,repo (simulated)," PROFILED
        "table 4,paper-text," BUBBLE);
    const json_t *sources = json_object_get(a->json, "per_source");
    const double qi = cli_real(json_object_get(sources, "Qi"), "mape");
    tap_ok(fabs(cli_real(detail(a, "V0001"), "error")) < 0.12,
           "V0001: %.3f off", cli_real(detail(a, "V0001"), "error"));
    const json_t *vtrain = json_object_get(sources, "vTrain");
    tap_ok(cli_real(vtrain, "simulated") == 1 &&
               isnan(cli_real(vtrain, "runs_mape")),
           "its source is told to have a row that is no run, and none other");
    tap_near(cli_real(a->json, "source_mape"),
             (qi + cli_real(vtrain, "mape")) / 2, 1e-12,
             "it counts as a source");
    tap_near(cli_real(a->json, "runs_mape"), qi, 1e-12,
             "the average of what ran alone is told as well");
    a = cli("validate \"$D/t.csv\" --db none");
    tap_ok(strstr(a->out, "1 of these is another simulator's sums") == NULL &&
               strstr(a->out, "1 row of these is another simulator's sums, no "
                              "run; it has no others; averaged over sources "
                              "without them "),
           "one row, and no others: said so");
    cli_put("t.csv",
            "source_ref,evidence," HEADER
            "data/ground_truth_single.csv line 2,repo (simulated)," PROFILED);
    a = cli("validate \"$D/t.csv\" --db none");
    tap_ok(strstr(a->out, "it has no others; no run is left\n") != NULL,
           "and where there is no run at all");
    a = cli_validate("source_ref," HEADER "line 2," PROFILED);
    tap_ok(cli_real(detail(a, "V0001"), "predicted_s") > 0.372160,
           "as a run, which recomputes, it is longer: %g",
           cli_real(detail(a, "V0001"), "predicted_s"));
}

/* Times of a run are not the answer. */
static void forget_walls(json_t *root)
{
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(root, "details"), i, row)
        json_object_del(row, "wall_s");
}

/* What one would say without predicting: twice the batch, twice the time, as
 * many bytes. */
static void test_nearest(void)
{
    const cli_answer *a = cli_validate(HEADER BUBBLE BUBBLE_BESIDE);
    const json_t *qi =
        json_object_get(json_object_get(a->json, "per_source"), "Qi");
    tap_near(cli_real(qi, "nearest_row_mape"),
             (fabs(0.5 * 1.42 / 0.8876 - 1) + fabs(2 * 0.8876 / 1.42 - 1)) / 2,
             1e-9, "the nearest row's time, by work");
    tap_near(cli_real(qi, "nearest_row_mem_mape"),
             (fabs(35.0 / 28 - 1) + fabs(28.0 / 35 - 1)) / 2, 1e-9,
             "its memory, as it is");
    a = cli_validate(HEADER BUBBLE);
    qi = json_object_get(json_object_get(a->json, "per_source"), "Qi");
    tap_ok(json_is_null(json_object_get(qi, "nearest_row_mem_mape")),
           "a row alone has none");
}

static void test_again(void)
{
    const cli_answer *a = cli_validate(HEADER VTRAIN BUBBLE EIGHT);
    json_t *first = json_incref(a->json);
    forget_walls(first);
    a = cli("validate \"$D/t.csv\" --json --db none");
    forget_walls(a->json);
    tap_ok(json_equal(first, a->json), "the same twice, to the last digit");
    json_decref(first);
    a = cli("validate \"$D/t.csv\" --db none --max-error 0.0001");
    tap_equal_int(a->status, 1, "above a bound the answer is no");
    tap_ok(strstr(a->err, "0.01 %") != NULL, "and says which: %s", a->err);
}

static void test_skips(void)
{
    static const struct {
        const char *row, *reason;
    } cases[] = {
        {"a,s,pretrain,G,gpt,2,64,,4,,64,8,2,2,4,A100-SXM4,80,8,,3,1,1,1,"
         "none,0,none,fp16,Megatron,1,,,,ok\n",
         "contradictory sizes: tp 3"},
        {"a,s,pretrain,G,gpt,2,64,,5,,64,8,2,2,2,A100-SXM4,80,8,,1,1,2,1,"
         "none,0,none,fp16,Megatron,1,,,,ok\n",
         "5 heads do not divide"},
        {"a,s,pretrain,G,gpt,2,64,,4,,64,8,3,2,2,A100-SXM4,80,8,,1,1,2,1,"
         "none,0,none,fp16,Megatron,1,,,,ok\n",
         "are not a batch of 8"},
        {"a,s,pretrain,G,gpt,2,64,,4,,64,8,2,2,2,Abacus,80,8,,1,1,2,1,none,0,"
         "none,fp16,Megatron,1,,,,ok\n",
         "'Abacus' is not known"},
        {"a,s,pretrain,G,gpt,2,64,,4,,64,8,2,2,2,A100-SXM4,80,8,,1,1,2,1,"
         "none,0,none,fp8,Megatron,1,,,,ok\n",
         "'fp8' is not modelled"},
        {"a,s,pretrain,G,gpt,2,64,,4,,64,8,2,1,4,A100-SXM4,80,8,,1,2,2,1,"
         "sideways,0,none,fp16,Megatron,1,,,,ok\n",
         "are not a batch"},
        {"a,s,pretrain,G,gpt,2,64,,4,,64,8,2,2,4,A100-SXM4,80,8,,1,2,2,1,"
         "sideways,0,none,fp16,Megatron,1,,,,ok\n",
         "schedule 'sideways'"},
        {"a,s,pretrain,G,tree,2,64,,4,,64,8,2,2,2,A100-SXM4,80,8,,1,1,2,1,"
         "none,0,none,fp16,Megatron,1,,,,ok\n",
         "'tree' are not built"},
        {"a,s,pretrain,G,gpt,2,64,,4,,64,8,2,2,2,A100-SXM4,80,8,,1,1,2,1,"
         "none,0,none,fp16,Megatron,,,,,ok\n",
         "neither a time nor memory"},
        {"a,s,pretrain,G,gpt,2,64,,4,,64,8,2,2,2,A100-SXM4,80,8,,1,1,2,1,"
         "none,0,none,fp16,Megatron,1,,,,analytic\n",
         "nothing that was measured"},
        {"a,s,pretrain,G,gpt,two,64,,4,,64,8,2,2,2,A100-SXM4,80,8,,1,1,2,1,"
         "none,0,none,fp16,Megatron,1,,,,ok\n",
         "layers is 'two'"},
        {"a,s,pretrain,G,gpt,2,64,,4,,64,8,2,2,2,A100-SXM4,80,8,,1,1,2,1,"
         "none,0,none,fp16,Megatron,-1,,,,ok\n",
         "iter_time_s is '-1'"},
        {"a,s,pretrain,G,gpt,2,64,,4,,64,8,2,2,12,A100-SXM4,80,8,,1,1,12,1,"
         "none,0,none,fp16,Megatron,1,,,,ok\n",
         "no whole number of nodes"},
        {"a,s,pretrain,G,gpt,24,64,,4,,64,2000000,2,1000000,2,A100-SXM4,80,8,,"
         "1,2,1,1,gpipe,0,none,fp16,Megatron,1,,,,ok\n",
         "1000000 micro-batches of"},
        {"a,s,pretrain,Nothing-7,cnn,,,,,,8x8,8,2,2,2,A100-SXM4,80,8,,1,1,2,1,"
         "none,0,none,fp16,Megatron,1,,,,ok\n",
         "no network 'Nothing-7' is known (known: "},
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char text[4000];
        snprintf(text, sizeof text, "%s%s", HEADER, cases[k].row);
        const cli_answer *a = cli_validate(text);
        tap_ok(a->status == 1 && strstr(cli_reason(a, 0), cases[k].reason),
               "skipped: %s (%s)", cases[k].reason, cli_reason(a, 0));
        tap_ok(json_is_null(json_object_get(a->json, "mape")),
               "and never counted as right");
    }
}

/* A program that repeats is looked at once, however often it does. */
static void test_million(void)
{
    const cli_answer *a = cli_validate(
        HEADER "a,s,pretrain,G,gpt,24,64,,4,,64,2000000,1,1000000,2,A100-SXM4,"
               "80,8,,1,1,2,1,none,0,none,fp16,Megatron,40000,,,,ok\n"
               "b,s,pretrain,G,gpt,24,64,,4,,64,200,1,100,2,A100-SXM4,"
               "80,8,,1,1,2,1,none,0,none,fp16,Megatron,4,,,,ok\n");
    tap_near(cli_real(detail(a, "a"), "predicted_s"),
             1e4 * cli_real(detail(a, "b"), "predicted_s"), 0.01,
             "a million micro-batches take 10,000 times as long as 100");
    tap_near(cli_real(detail(a, "a"), "process_bytes"),
             cli_real(detail(a, "b"), "process_bytes"), 1e-12,
             "and as many bytes");
}

/* A bound holds of nothing. */
static void test_nothing(void)
{
    cli_put("t.csv", HEADER
            "a,s,pretrain,G,tree,2,64,,4,,64,8,2,2,2,A100-SXM4,80,8,,1,1,2,"
            "1,none,0,none,fp16,Megatron,1,,,,ok\n");
    const cli_answer *a =
        cli("validate \"$D/t.csv\" --db \"$D/v.db\" --max-error 0.5");
    tap_ok(a->status == 1 && strstr(a->err, "no row's time was predicted"),
           "within a bound is nothing: %s", a->err);
    a = cli("validate \"$D/t.csv\" --db \"$D/v.db\" -o \"$D/n.svg\"");
    tap_ok(a->status == 1 && strstr(a->err, "nothing to draw"),
           "nor is there a picture of it: %s", a->err);
}

static void refuses(const char *text, const char *options, const char *part)
{
    cli_put("t.csv", text);
    const cli_answer *a = cli("validate \"$D/t.csv\" --db none %s", options);
    tap_ok(a->status == 2 && strstr(a->err, part), "refused: %s (%s)", part,
           a->err);
}

/* What is written is never what was read. */
static void test_outputs(void)
{
    cli_put("t.csv", HEADER VTRAIN);
    const cli_answer *a = cli("validate \"$D/t.csv\" --db none --residuals "
                              "\"$D/t.csv\"");
    tap_ok(a->status == 2 && strstr(a->err, "is an input"),
           "--residuals over its input is refused: %s", a->err);
    a = cli("validate \"$D/t.csv\" --db none -o \"$D/a.svg\" --residuals "
            "\"$D/a.svg\"");
    tap_ok(a->status == 2 && strstr(a->err, "one file"),
           "so are two outputs in one file: %s", a->err);
    a = cli("validate \"$D/t.csv\" --db none --json");
    tap_equal_int(json_integer_value(json_object_get(a->json, "rows")), 1,
                  "the table is as it was");
    a = cli("validate \"$D/x.db\" --source zzz");
    tap_ok(a->status == 2 && strstr(a->err, "no effect"),
           "--source of a database: %s", a->err);
    a = cli("validate \"$D/x.db\" --residuals \"$D/y\"");
    tap_ok(a->status == 2 && strstr(a->err, "no effect"),
           "--residuals of a database: %s", a->err);
}

/* Eight of llm-foundry's H100s, to whose products a constant is fitted. */
static void put_fitted(void)
{
    char text[8000] = HEADER;
    for (int k = 0; k < 8; k++) {
        char row[400];
        snprintf(row, sizeof row,
                 "h%d,llm-foundry,pretrain,MPT-1b,gpt,24,2048,8192,16,50368,"
                 "2048,64,8,1,8,H100-SXM,80,8,,1,1,8,1,none,3,none,amp_bf16,"
                 "Composer/FSDP+FlashAttention,%g,,,,ok\n",
                 k, 1 + 0.01 * k);
        strcat(text, row);
    }
    cli_put("t.csv", text);
}

/* sim knows of no source: residuals are without what is fitted to one, and
 * what validate tells and decides is the same as if none were written. */
static void test_residuals(void)
{
    put_fitted();
    const cli_answer *a = cli("validate \"$D/t.csv\" --json --db none");
    json_t *told = json_deep_copy(json_object_get(a->json, "per_source"));
    const double mape = cli_real(a->json, "mape");
    const double ratio = cli_real(detail(a, "h0"), "measured_s") /
                         cli_real(detail(a, "h0"), "predicted_s");
    a = cli("validate \"$D/t.csv\" --json --db none --residuals \"$D/r\"");
    tap_equal_int(a->status, 0, "residuals are written: %s", a->err);
    tap_ok(json_equal(told, json_object_get(a->json, "per_source")) &&
               cli_real(a->json, "mape") == mape,
           "and the report is as without: %.17g, %.17g", mape,
           cli_real(a->json, "mape"));
    tap_equal_int((int64_t)cli_real(a->json, "residual_rows_anew"), 8,
                  "rows to whose source something is fitted, once more");
    char path[700];
    snprintf(path, sizeof path, "%s/r", cli_scratch);
    json_t *file = json_load_file(path, 0, NULL);
    const json_t *first = json_array_get(json_object_get(file, "regimes"), 0);
    tap_equal_int((int64_t)cli_real(first, "rows"), 8, "all are of a regime");
    tap_ok(cli_real(first, "low") > 1.02 * ratio,
           "which is without that constant: low %.3f, as told %.3f",
           cli_real(first, "low"), ratio);
    json_decref(file);
    json_decref(told);
    char command[200];
    snprintf(command, sizeof command,
             "validate \"$D/t.csv\" --db none --residuals \"$D/r\" "
             "--max-error %.17g",
             mape * 1.000001);
    a = cli(command);
    tap_equal_int(a->status, 0, "so is the verdict of --max-error: %s", a->err);
}

/* A table as a spreadsheet writes it, with a row that is cut. */
static void test_spreadsheet(void)
{
    const cli_answer *a = cli_validate("\xEF\xBB\xBF" HEADER "a,b\n" VTRAIN);
    tap_equal_int(json_integer_value(json_object_get(a->json, "predicted")), 1,
                  "a byte order mark is passed over, a row that is cut too");
    tap_ok(
        strstr(cli_reason(a, 0), "t.csv:2: 2 cells, but there are 33 columns"),
        "with its line: %s", cli_reason(a, 0));
}

#define LIKE_VTRAIN(id, framework, seconds)                                    \
    id ",vTrain,pretrain,GPT,gpt,24,1024,4096,16,50257,1024,16,8,2,2,"         \
       "A100-SXM4,,8,n/a,1,2,1,1,1f1b,0,full,fp16/mixed," framework            \
       "," seconds ",,,,ok\n"

static void test_frameworks(void)
{
    const cli_answer *a = cli_validate(
        HEADER LIKE_VTRAIN("m", "Megatron-LM", "0.4")
            LIKE_VTRAIN("n", "", "0.4") LIKE_VTRAIN("o", "FooBar", "0.4"));
    tap_ok(strstr(cli_reason(a, 0), "framework 'FooBar' is not known"),
           "an unknown one is a skip: %s", cli_reason(a, 0));
    tap_ok(strstr(json_string_value(json_object_get(detail(a, "n"), "assumed")),
                  "no framework") != NULL,
           "none is our own runtime, and said");
    tap_ok(cli_real(detail(a, "n"), "predicted_s") <
               cli_real(detail(a, "m"), "predicted_s"),
           "which is not Megatron");
    a = cli("validate \"$D/t.csv\" --db none");
    tap_ok(strstr(a->out, "1 row: no framework: as this runtime") != NULL,
           "the text says so too");
}

/* Odd rows get a word. */
static void test_hints(void)
{
    const cli_answer *a =
        cli_validate(HEADER LIKE_VTRAIN("m", "Megatron-LM", "400") LIKE_VTRAIN(
            "n", "Megatron-LM", "0.4") LIKE_VTRAIN("n", "Megatron-LM", "0.4"));
    const char *hint =
        json_string_value(json_object_get(detail(a, "m"), "hint"));
    tap_ok(hint && strstr(hint, "milliseconds"), "a time in milliseconds: %s",
           hint ? hint : "?");
    tap_ok(!json_object_get(detail(a, "n"), "hint"), "none of others");
    tap_equal_int(
        (int64_t)json_array_size(json_object_get(a->json, "repeated_ids")), 1,
        "an id that stands twice");
    a = cli("validate \"$D/t.csv\" --db none");
    tap_ok(strstr(a->out, "n (lines 3 and 4)") &&
               strstr(a->out, "iter_time_s in milliseconds?"),
           "people read both");
}

/* Rows of one id, and what becomes of those that an earlier one has. */
static void test_repeated(void)
{
    static const struct {
        const char *first, *second, *third, *said;
    } tables[] = {
        {"Megatron-LM", "Megatron-LM", "DeepSpeed",
         "2 rows have an id that another has, and count too: n (lines 2 and "
         "3), "
         "n (lines 3 and 4)"},
        {"Megatron-LM", "FooBar", "DeepSpeed",
         "2 rows have an id that another has, and 1 of them counts too, the "
         "others are skipped: n (lines 2 and 3)"},
        {"Megatron-LM", "FooBar", "Bar",
         "2 rows have an id that another has, and are skipped: n"},
        {"Foo", "Bar", "DeepSpeed",
         "2 rows have an id that another has, and 1 of them counts too"},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        const char *of[] = {tables[i].first, tables[i].second, tables[i].third};
        char text[4000] = HEADER;
        for (int k = 0; k < 3; k++) {
            char row[400];
            snprintf(row, sizeof row, LIKE_VTRAIN("n", "%s", "0.4"), of[k]);
            strcat(text, row);
        }
        cli_put("t.csv", text);
        const cli_answer *a = cli("validate \"$D/t.csv\" --db none");
        tap_ok(strstr(a->out, tables[i].said) != NULL, "%s", tables[i].said);
    }
}

/* Verdicts of memory: each row's, and how many. */
static void test_verdicts(void)
{
    cli_put(
        "t.csv", HEADER VTRAIN FULL
        "V2,memory,pretrain,GPT 6.2B,gpt,30,4096,,32,,1024,96,48,2,1,V100-SXM2,"
        "16,8,,1,1,1,1,none,0,none,fp16,Megatron-LM,9,,,,ok\n"
        "V3,memory,pretrain,GPT,gpt,2,64,,4,,64,8,8,1,1,V100-SXM2,16,8,,1,1,1,"
        "1,none,0,none,fp16,Megatron-LM,,,,,oom\n");
    static const char *const ids[] = {"V1460", "M1", "V2", "V3"};
    static const bool fits[] = {true, false, false, true};
    const cli_answer *a = cli("validate \"$D/t.csv\" --json --db none");
    for (int k = 0; k < 4; k++)
        tap_ok(json_is_true(json_object_get(detail(a, ids[k]), "fits")) ==
                       fits[k] &&
                   (cli_real(detail(a, ids[k]), "process_bytes") <=
                    cli_real(detail(a, ids[k]), "limit_bytes")) == fits[k],
               "%s %s", ids[k], fits[k] ? "fits" : "does not fit");
    const json_t *all = json_object_get(a->json, "out_of_memory");
    tap_ok(cli_real(all, "foreseen") == 1 && cli_real(all, "missed") == 1 &&
               cli_real(all, "false_alarms") == 1 && cli_real(all, "ran") == 1,
           "one of each");
    a = cli("validate \"$D/t.csv\" --db none");
    tap_ok(strstr(a->out, "predicted of 1 of the 2 rows that ran") &&
               strstr(a->out, "wrong of memory, worst first"),
           "people read of both kinds");
}

/* Order: the worst group first, and means. */
static void test_order(void)
{
    const cli_answer *a =
        cli_validate(HEADER LIKE_VTRAIN("a", "Megatron-LM", "0.4")
                         LIKE_VTRAIN("b", "PyTorch", "0.3")
                             LIKE_VTRAIN("c", "FSDP", "0.2") BUBBLE ONE EIGHT);
    tap_ok(json_is_null(json_object_get(a->json, "tau")),
           "of other frameworks there is no order");
    char text[8192], row[400];
    snprintf(text, sizeof text, "%s", HEADER);
    for (int k = 0; k < 8; k++) { /* two groups, one of them upside down */
        const int tp = 1 << k % 4;
        snprintf(row, sizeof row,
                 "r%d,s%d,pretrain,G,gpt,4,1024,,16,,1024,64,8,%d,8,A100-SXM4,"
                 "80,8,,%d,1,%d,1,none,0,none,fp16,Megatron-LM,%g,,,,ok\n",
                 k, k / 4, tp, tp, 8 / tp, k < 4 ? 1 + tp : 9.0 / tp);
        strcat(text, row);
    }
    a = cli_validate(text);
    const json_t *groups = json_object_get(a->json, "groups");
    const double first = cli_real(json_array_get(groups, 0), "tau"),
                 second = cli_real(json_array_get(groups, 1), "tau");
    tap_ok(json_array_size(groups) == 2 && first < second,
           "the worst first: tau %g, %g", first, second);
    tap_near(cli_real(a->json, "tau"), (first + second) / 2, 1e-12, "its mean");
    tap_near(cli_real(a->json, "regret"),
             (cli_real(json_array_get(groups, 0), "regret") +
              cli_real(json_array_get(groups, 1), "regret")) /
                 2,
             1e-12, "the regret's");
}

static void test_refused(void)
{
    refuses("", "", "is empty");
    refuses("id,arch\n", "", "no column 'global_batch'");
    refuses(HEADER, "", "has no rows");
    refuses("id;arch;gpu\na;gpt;A100\n", "", "semicolons");
    refuses("id,id\n", "", "stands twice");
    refuses(HEADER "\"a\n", "", "t.csv:2: a quote that does not end");
    refuses(HEADER VTRAIN, "--source nobody", "no row is from there");
    refuses(HEADER VTRAIN, "--source '('", "--source");
    refuses(HEADER VTRAIN, "-o \"$D/s.gif\"", "gif");
    refuses(HEADER VTRAIN, "-o \"$D/none/s.svg\"", "none/s.svg");
    const cli_answer *a = cli("validate \"$D/nothing.csv\" --db none");
    tap_ok(a->status == 2 && strstr(a->err, "nothing.csv"), "no such file: %s",
           a->err);
    a = cli("validate --db none");
    tap_ok(a->status == 2 && strstr(a->err, "wants one FILE.csv"),
           "no operand: %s", a->err);
}

int main(void)
{
    cli_begin_scratch("cli_validate_test");
    test_rows();
    test_convolutions();
    test_pace();
    test_sources();
    test_simulated();
    test_nearest();
    test_again();
    test_skips();
    test_million();
    test_nothing();
    test_outputs();
    test_residuals();
    test_spreadsheet();
    test_frameworks();
    test_hints();
    test_repeated();
    test_verdicts();
    test_order();
    test_refused();
    cli_end_scratch();
    return tap_done();
}
