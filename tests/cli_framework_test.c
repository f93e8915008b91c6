/* sim --framework: predicts what `validate` predicts of the same run, and says
 * what of a plan that framework would not run so. */
#include "config.h"
#include "tests/run_cli.h"

#include <math.h>
#include <string.h>

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
                        "bf16 --optimizer adam -o $D/p.plan",
                        vocab, cuts, micro);
    tap_equal_int(a->status, 0, "a plan by hand: %s", a->err);
}

/* What is said of published runs holds of what `sim` says. */
static void test_as_validated(void)
{
    char path[700];
    snprintf(path, sizeof path, "%s/t.csv", cli_scratch);
    FILE *file = fopen(path, "wb");
    fputs(ROW, file);
    fclose(file);
    cli_answer *a = cli("validate $D/t.csv --json");
    const double validated = json_number_value(json_object_get(
        json_array_get(json_object_get(a->json, "details"), 0), "predicted_s"));
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
}

int main(void)
{
    cli_begin_scratch("framework");
    test_as_validated();
    test_misfits();
    cli_end_scratch();
    return tap_done();
}
