/* What a framework holds of a plan, against the closed forms of Korthikanti et
 * al. (2022): per layer of a GPT's block, of s places, b samples and width h,
 * 34 s b h + 5 a s^2 b bytes where attention is kernels of its own, two bytes
 * less an element without its dropouts' masks, and none per score where it is
 * fused; and so many bytes per parameter. */
#include "config.h"
#include "tests/run_cli.h"

#include <math.h>
#include <string.h>

enum { H = 512, A = 8, S = 512, B = 4, FEW = 2, MANY = 6 };

/* Bytes of `layers`. */
static double bytes_of(int layers, const char *precision, const char *framework)
{
    const cli_answer *a =
        cli("plan zoo:gpt,layers=%d,hidden=%d,heads=%d,seq=%d,vocab=4096 "
            "--cluster 1x1:a100-sxm4-80g --batch %d --micro-batches 2 "
            "--precision %s --recompute none --db none -o \"$D/f.json\"",
            layers, H, A, S, 2 * B, precision);
    if (a->status)
        cli_show(a);
    a = cli("sim \"$D/f.json\" --db none --json --framework %s", framework);
    const json_t *bytes = json_object_get(a->json, "framework_bytes");
    return json_is_integer(bytes) ? (double)json_integer_value(bytes) : NAN;
}

/* What a layer more takes. */
static double each(const char *precision, const char *framework)
{
    return (bytes_of(MANY, precision, framework) -
            bytes_of(FEW, precision, framework)) /
           (MANY - FEW);
}

static void near_form(const char *precision, const char *framework,
                      double of_element, double of_score, double of_weight)
{
    const double elements = (double)S * B * H, scores = (double)A * S * S * B;
    const double weights = 12.0 * H * H + 13.0 * H;
    const double form =
        of_element * elements + of_score * scores + of_weight * weights;
    const double found = each(precision, framework);
    tap_ok(fabs(found / form - 1) < 0.04,
           "%s in %s: %g a layer's element, %g a score, %g a parameter: %.4g "
           "bytes, %.4g by the form",
           framework, precision, of_element, of_score, of_weight, found, form);
}

/* Bytes of data parallel ranks, by ZeRO's stage. */
static double of_zero(int zero, const char *framework)
{
    enum { RANKS = 8 };
    cli("plan zoo:gpt,layers=12,hidden=%d,heads=%d,seq=16,vocab=64 --cluster "
        "1x%d:a100-sxm4-80g --dp %d --batch %d --micro-batches 2 --zero %d "
        "--precision bf16 --recompute none --db none -o \"$D/z.json\"",
        H, A, RANKS, RANKS, 2 * RANKS, zero);
    const cli_answer *a =
        cli("sim \"$D/z.json\" --db none --json --framework %s", framework);
    return json_number_value(json_object_get(a->json, "framework_bytes"));
}

/* What `zero` saves of each parameter, in bytes, against ZeRO's own sums. */
static void near_saved(const char *framework, int zero, double form)
{
    const double weights = 12 * (12.0 * H * H + 13.0 * H) + (64.0 + 16) * H;
    const double found =
        (of_zero(0, framework) - of_zero(zero, framework)) / weights;
    tap_ok(fabs(found / form - 1) < 0.03,
           "%s, ZeRO-%d: %.3f bytes a parameter less on 8 ranks, %.3f by the "
           "form",
           framework, zero, found, form);
}

int main(void)
{
    cli_begin_scratch("cli_holding_test");
    near_form("bf16", "megatron-lm", 34, 5, 18);
    near_form("fp16", "megatron-lm", 34, 5, 18);
    near_form("bf16", "fsdp", 32, 0, 16);
    near_form("bf16", "deepspeed-zero", 34, 5, 16);
    near_saved("megatron-lm", 1, 12.0 * 7 / 8);
    near_saved("deepspeed-zero", 1, 12.0 * 7 / 8);
    near_saved("deepspeed-zero", 2, 14.0 * 7 / 8);
    near_saved("deepspeed-zero", 3, 16.0 * 7 / 8);
    tap_ok(bytes_of(FEW, "fp32", "fsdp") > 1.3 * bytes_of(FEW, "bf16", "fsdp"),
           "32-bit networks are held in 32 bits");
    tap_ok(bytes_of(FEW, "bf16", "megatron-lm") > bytes_of(FEW, "bf16", "fsdp"),
           "logits in floats take more than those of 16 bits");
    cli_end_scratch();
    return tap_done();
}
