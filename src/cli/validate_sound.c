/* Whether what a row tells can all be true: of its plan under its framework, of
 * figures of one run. */
#include "config.h"
#include "cli/validate_reader.h"

#include <math.h>
#include <string.h>

/* ---- the plan, under its framework ---- */

static bool check_degrees(validate_reader *r)
{
    const cost_framework *f = r->out->framework;
    const search_recipe *recipe = &r->out->recipe;
    if (f && recipe->tp > 1 && !f->cuts_tensors)
        return validate_skip(r,
                             "contradictory plan: %s cuts no products, but tp "
                             "is %d",
                             f->name, recipe->tp);
    return !f || recipe->pp <= 1 || f->cuts_layers ||
           validate_skip(r,
                         "contradictory plan: %s has no pipelines, but pp is "
                         "%d",
                         f->name, recipe->pp);
}

/* As many layers each, or with the embedding and the head as one each; a row
 * that tells each stage's knows what it had. */
static bool check_stages(validate_reader *r)
{
    const cost_framework *f = r->out->framework;
    const search_recipe *recipe = &r->out->recipe;
    const int64_t layers = r->row->layers;
    const int32_t stages =
        recipe->pp * (recipe->interleave > 1 ? recipe->interleave : 1);
    return !f || !f->even_stages || r->row->n_stages || layers % stages == 0 ||
           (layers + 2) % stages == 0 ||
           validate_skip(r,
                         "contradictory plan: %s gives each stage as many "
                         "layers, but %d stages do not divide %lld",
                         f->name, stages, (long long)layers);
}

static bool check_shards(validate_reader *r)
{
    const cost_framework *f = r->out->framework;
    const search_recipe *recipe = &r->out->recipe;
    for (int32_t i = 0; f && recipe->dp > 1 && i < recipe->zero; i++)
        if (!f->shards[i])
            return validate_skip(r,
                                 "contradictory plan: zero_stage %d, but %s "
                                 "keeps %s whole on data parallel ranks",
                                 recipe->zero, f->name,
                                 cost_sharded_name((cost_sharded)i));
    return true;
}

/* ---- figures of one run ---- */

/* None of a run that ended before its first step did. */
static bool check_status(validate_reader *r)
{
    const validate_row *row = r->row;
    const struct {
        const char *name;
        double at;
    } told[] = {{"iter_time_s", row->iter_time_s.at},
                {"samples_per_s", row->samples_per_s.at},
                {"tokens_per_s", row->tokens_per_s.at},
                {"tokens_per_s_per_gpu", row->tokens_per_s_per_gpu.at},
                {"tflops_per_gpu", row->tflops_per_gpu.at},
                {"mfu_pct", row->mfu_pct.at},
                {"hfu_pct", row->hfu_pct.at}};
    for (size_t i = 0;
         r->out->out_of_memory && i < sizeof told / sizeof told[0]; i++)
        if (told[i].at > 0)
            return validate_skip(r,
                                 "contradictory status: '%.20s', but %s tells "
                                 "a step",
                                 row->status, told[i].name);
    return true;
}

/* The hardware does what the model needs, and what is computed again. */
static bool check_shares(validate_reader *r)
{
    const validate_figure model = r->row->mfu_pct, hardware = r->row->hfu_pct;
    return !(model.at - model.digit > hardware.at + hardware.digit) ||
           validate_skip(r,
                         "contradictory shares of the peak: mfu_pct %g is "
                         "above hfu_pct %g",
                         model.at, hardware.at);
}

/* Of a run that had room: gigabytes of 10^9 bytes or of 2^30. */
static bool check_memory(validate_reader *r)
{
    const validate_figure peak = r->row->peak_mem_gb;
    const hw_device *d = &r->usual->groups[0].device;
    return r->out->out_of_memory || isnan(peak.at) ||
           1e9 * (peak.at - peak.digit) <= d->memory_bytes ||
           validate_skip(r,
                         "contradictory memory: peak_mem_gb %g on devices of "
                         "%.0f GB (%s)",
                         peak.at, d->memory_bytes / 0x1p30, d->name);
}

/* The fullest device holds no less than the mean of them, of weights alone. */
static bool check_weights(validate_reader *r)
{
    const validate_figure peak = r->row->peak_mem_gb;
    const search_recipe *recipe = &r->out->recipe;
    const bool narrow = strcmp(r->out->precision, "fp32") != 0;
    const double pieces =
        (double)recipe->tp * recipe->pp * (recipe->zero == 3 ? recipe->dp : 1);
    const double held = (narrow ? 2 : 4) * validate_weights(r) / pieces;
    return !r->seq || isnan(peak.at) ||
           0x1p30 * (peak.at + peak.digit) >= held ||
           validate_skip(r,
                         "contradictory memory: peak_mem_gb %g, but a device's "
                         "weights take %.3g GB at least",
                         peak.at, held / 1e9);
}

/* The first that says no is the row's reason. */
bool validate_check_sound(validate_reader *r)
{
    static bool (*const checks[])(validate_reader *) = {
        check_degrees, check_stages,         check_shards, check_status,
        check_shares,  validate_check_times, check_memory, check_weights};
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        if (!checks[i](r))
            return false;
    return true;
}
