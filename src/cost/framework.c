/* Frameworks from their files. */
#include "config.h"
#include "cost/framework.h"

#include "cost/parts.h"
#include "hw/devices.h"
#include "plan/schedule.h"

#include <math.h>
#include <string.h>

/* Of all figures: what makes no time infinite. */
static fs_status read_figure(const fs_json *in, const char *key, double high,
                             fs_err *err, double *out)
{
    double value;
    if (!fs_json_has(in, key))
        return FS_OK;
    FS_TRY(fs_json_number(in, key, err, &value));
    if (!(value >= 0 && value <= high))
        return fs_json_fail(in, key, err, "is %g, must be from 0 to %g", value,
                            high);
    *out = value;
    return FS_OK;
}

/* "forward" and "backward" */
static fs_status read_passes(const fs_json *in, const char *key, double high,
                             fs_err *err, double out[2])
{
    static const char *const keys[] = {"forward", "backward", NULL};
    fs_json passes;
    if (!fs_json_has(in, key))
        return FS_OK;
    FS_TRY(fs_json_object(in, key, err, &passes));
    FS_TRY(fs_json_keys(&passes, keys, err));
    FS_TRY(read_figure(&passes, "forward", high, err, &out[0]));
    return read_figure(&passes, "backward", high, err, &out[1]);
}

/* One that a file may leave out stays as it is. */
static fs_status read_flag(const fs_json *in, const char *key, fs_err *err,
                           bool *out)
{
    return fs_json_has(in, key) ? fs_json_bool(in, key, err, out) : FS_OK;
}

static fs_status read_texts(const fs_json *in, const char *key, fs_arena *arena,
                            fs_err *err, int32_t *n, const char ***out)
{
    fs_json list;
    FS_TRY(fs_json_array(in, key, err, &list));
    *n = (int32_t)json_array_size(list.value);
    *out = fs_new(arena, const char *, *n);
    for (int32_t k = 0; k < *n; k++) {
        const char *word =
            json_string_value(json_array_get(list.value, (size_t)k));
        if (!word)
            return fs_json_fail(in, key, err, "must be texts");
        (*out)[k] = fs_strdup(arena, word);
    }
    return FS_OK;
}

const char *cost_sharded_name(cost_sharded what)
{
    static const char *const names[] = {"states", "gradients", "parameters"};
    return names[what];
}

static fs_status read_shards(const fs_json *in, fs_arena *arena, fs_err *err,
                             cost_framework *out)
{
    const char **words;
    int32_t n;
    for (int32_t i = 0; i < COST_SHARDED; i++)
        out->shards[i] = !fs_json_has(in, "shards");
    if (!fs_json_has(in, "shards"))
        return FS_OK;
    FS_TRY(read_texts(in, "shards", arena, err, &n, &words));
    for (int32_t k = 0; k < n; k++) {
        bool known = false;
        for (int32_t i = 0; i < COST_SHARDED; i++)
            if (strcmp(words[k], cost_sharded_name((cost_sharded)i)) == 0)
                known = out->shards[i] = true;
        if (!known)
            return fs_json_fail(in, "shards", err,
                                "has '%s'; known are states, gradients and "
                                "parameters",
                                words[k]);
    }
    return FS_OK;
}

static fs_status read_schedules(const fs_json *in, const char *key,
                                fs_arena *arena, fs_err *err, int32_t *n,
                                const char ***out)
{
    if (!fs_json_has(in, key))
        return FS_OK;
    FS_TRY(read_texts(in, key, arena, err, n, out));
    for (int32_t k = 0; k < *n; k++)
        if (!plan_schedule_find((*out)[k]))
            return fs_json_fail(in, key, err, "has '%s', which is no schedule",
                                (*out)[k]);
    return FS_OK;
}

static fs_status read_runs(const fs_json *in, fs_err *err, cost_framework *out)
{
    fs_json list;
    FS_TRY(read_flag(in, "even_stages", err, &out->even_stages));
    if (!fs_json_has(in, "runs"))
        return FS_OK;
    FS_TRY(fs_json_array(in, "runs", err, &list));
    out->cuts_tensors = out->cuts_layers = false;
    for (size_t k = 0; k < json_array_size(list.value); k++) {
        const char *what = json_string_value(json_array_get(list.value, k));
        const bool tensors = what && strcmp(what, "tp") == 0;
        if (!tensors && (!what || strcmp(what, "pp") != 0))
            return fs_json_fail(in, "runs", err,
                                "has '%s'; known are tp and pp",
                                what ? what : "what is no text");
        out->cuts_tensors = out->cuts_tensors || tensors;
        out->cuts_layers = out->cuts_layers || !tensors;
    }
    return FS_OK;
}

static fs_status read_collectives(const fs_json *in, fs_err *err,
                                  cost_framework *out)
{
    fs_json list;
    out->collectives = ~(uint32_t)0;
    if (!fs_json_has(in, "collectives"))
        return FS_OK;
    FS_TRY(fs_json_array(in, "collectives", err, &list));
    out->collectives = 0;
    for (size_t k = 0; k < json_array_size(list.value); k++) {
        const char *name = json_string_value(json_array_get(list.value, k));
        const int32_t row = name ? cost_collective_find(name) : -1;
        if (row < 0)
            return fs_json_fail(in, "collectives", err,
                                "has '%s', which is no algorithm",
                                name ? name : "what is no text");
        out->collectives |= (uint32_t)1 << row;
    }
    return FS_OK;
}

/* Bytes moved per score and kernels, as usual and without the fused softmax. */
static fs_status read_attention(const fs_json *in, fs_err *err,
                                cost_framework *out)
{
    double kernels[2] = {1, 1}, unfused[2] = {1, 1}, multiple = 0;
    FS_TRY(read_passes(in, "score_bytes", 1e3, err, out->score_bytes));
    FS_TRY(read_passes(in, "attention_kernels", 1e3, err, kernels));
    FS_TRY(read_figure(in, "fused_multiple", 1e3, err, &multiple));
    FS_TRY(read_passes(in, "unfused_bytes", 1e3, err, out->unfused_bytes));
    FS_TRY(read_passes(in, "unfused_kernels", 1e3, err, unfused));
    out->fused_multiple = (int32_t)multiple;
    for (int32_t k = 0; k < 2; k++) {
        out->attention_kernels[k] = (int32_t)kernels[k];
        out->unfused_kernels[k] = (int32_t)unfused[k];
    }
    return FS_OK;
}

static fs_status read_streams(const fs_json *in, fs_err *err,
                              cost_framework *out)
{
    FS_TRY(read_flag(in, "overlaps", err, &out->overlaps));
    if (fs_json_has(in, "overlaps"))
        out->own_stream = out->overlaps;
    return read_flag(in, "own_stream", err, &out->own_stream);
}

/* What a run may do otherwise than its framework usually does, each by itself.
 */
#define FIGURES                                                                \
    "host_s", "exchange_s", "step_s", "narrow", "overlaps", "own_stream",      \
        "accumulate_bytes", "update_bytes", "loss_bytes", "bucket_bytes",      \
        "gradient_bytes", "gather_bps", "jitter", "fuses_norms",               \
        "turns_images", "host_image_s", "vocab_multiple", "cuts_vocab"

static fs_status read_figures(const fs_json *in, fs_err *err,
                              cost_framework *out)
{
    double multiple = (double)out->vocab_multiple;
    FS_TRY(read_figure(in, "vocab_multiple", 1e6, err, &multiple));
    out->vocab_multiple = (int64_t)fmax(1, multiple);
    FS_TRY(read_flag(in, "cuts_vocab", err, &out->cuts_vocab));
    FS_TRY(read_figure(in, "host_s", 1, err, &out->host_s));
    FS_TRY(read_figure(in, "exchange_s", 1, err, &out->exchange_s));
    FS_TRY(read_figure(in, "step_s", 1e3, err, &out->step_s));
    FS_TRY(read_flag(in, "narrow", err, &out->narrow));
    FS_TRY(read_streams(in, err, out));
    FS_TRY(
        read_figure(in, "accumulate_bytes", 1e3, err, &out->accumulate_bytes));
    FS_TRY(read_figure(in, "update_bytes", 1e3, err, &out->update_bytes));
    FS_TRY(read_figure(in, "loss_bytes", 1e4, err, &out->loss_bytes));
    FS_TRY(read_figure(in, "bucket_bytes", 1e15, err, &out->bucket_bytes));
    FS_TRY(read_figure(in, "gradient_bytes", 8, err, &out->gradient_bytes));
    FS_TRY(read_figure(in, "gather_bps", 1e15, err, &out->gather_bps));
    FS_TRY(read_figure(in, "jitter", 1, err, &out->jitter));
    FS_TRY(read_flag(in, "fuses_norms", err, &out->fuses_norms));
    FS_TRY(read_flag(in, "turns_images", err, &out->turns_images));
    return read_figure(in, "host_image_s", 1, err, &out->host_image_s);
}

fs_status cost_framework_change(const fs_json *in, fs_err *err,
                                cost_framework *out)
{
    static const char *const keys[] = {FIGURES, NULL};
    FS_TRY(fs_json_keys(in, keys, err));
    return read_figures(in, err, out);
}

static fs_status read_fields(const fs_json *in, fs_arena *arena, fs_err *err,
                             cost_framework *out)
{
    static const char *const keys[] = {FIGURES,
                                       "name",
                                       "about",
                                       "sources",
                                       "matches",
                                       "attention",
                                       "score_bytes",
                                       "attention_kernels",
                                       "fused_multiple",
                                       "unfused_bytes",
                                       "unfused_kernels",
                                       "extra_bytes",
                                       "fragmentation",
                                       "context_bytes",
                                       "attention_efficiency",
                                       "wide_loss",
                                       "collectives",
                                       "tensor_alone",
                                       "gap_s",
                                       "recomputes",
                                       "repeats_blocks",
                                       "streams_rows",
                                       "score_kept_bytes",
                                       "weight_kept_bytes",
                                       "extra_kept_bytes",
                                       "score_depth",
                                       "transposes",
                                       "joins_products",
                                       "takes_first_gradient",
                                       "runs",
                                       "even_stages",
                                       "shards",
                                       "schedules",
                                       "waits_to_send",
                                       NULL};
    const char *attention;
    bool flag;
    FS_TRY(fs_json_keys(in, keys, err));
    FS_TRY(fs_json_strdup(in, "name", arena, err, &out->name));
    FS_TRY(fs_json_strdup(in, "about", arena, err, &out->about));
    FS_TRY(
        read_texts(in, "matches", arena, err, &out->n_matches, &out->matches));
    FS_TRY(read_collectives(in, err, out));
    FS_TRY(fs_json_bool(in, "narrow", err, &flag));
    FS_TRY(fs_json_bool(in, "overlaps", err, &flag));
    FS_TRY(read_runs(in, err, out));
    FS_TRY(read_shards(in, arena, err, out));
    FS_TRY(read_schedules(in, "schedules", arena, err, &out->n_schedules,
                          &out->schedules));
    FS_TRY(read_schedules(in, "waits_to_send", arena, err, &out->n_waits,
                          &out->waits_to_send));
    FS_TRY(read_figures(in, err, out));
    FS_TRY(fs_json_text(in, "attention", err, &attention));
    out->attention_apart = strcmp(attention, "apart") == 0;
    if (!out->attention_apart && strcmp(attention, "fused") != 0)
        return fs_json_fail(in, "attention", err,
                            "is '%s', must be apart or fused", attention);
    FS_TRY(read_attention(in, err, out));
    FS_TRY(read_passes(in, "extra_bytes", 1e4, err, out->extra_bytes));
    FS_TRY(read_passes(in, "attention_efficiency", 4, err,
                       out->attention_efficiency));
    FS_TRY(read_figure(in, "score_depth", 1e4, err, &out->score_depth));
    FS_TRY(read_passes(in, "transposes", 1, err, out->transposes));
    FS_TRY(read_flag(in, "joins_products", err, &out->joins_products));
    FS_TRY(
        read_flag(in, "takes_first_gradient", err, &out->takes_first_gradient));
    FS_TRY(read_flag(in, "tensor_alone", err, &out->tensor_alone));
    FS_TRY(read_figure(in, "gap_s", 1, err, &out->gap_s));
    FS_TRY(read_flag(in, "recomputes", err, &out->recomputes));
    FS_TRY(read_flag(in, "repeats_blocks", err, &out->repeats_blocks));
    FS_TRY(read_flag(in, "streams_rows", err, &out->streams_rows));
    FS_TRY(read_flag(in, "wide_loss", err, &out->wide_loss));
    FS_TRY(
        read_figure(in, "score_kept_bytes", 1e3, err, &out->score_kept_bytes));
    FS_TRY(
        read_figure(in, "weight_kept_bytes", 8, err, &out->weight_kept_bytes));
    FS_TRY(
        read_figure(in, "extra_kept_bytes", 1e3, err, &out->extra_kept_bytes));
    FS_TRY(read_figure(in, "context_bytes", 1e12, err, &out->context_bytes));
    FS_TRY(read_figure(in, "fragmentation", 1, err, &out->fragmentation));
    return FS_OK;
}

fs_status cost_framework_read(const char *path, fs_arena *arena, fs_err *err,
                              cost_framework *out)
{
    json_t *root;
    FS_TRY(fs_json_load(path, err, &root));
    fs_json in = fs_json_root(path, root);
    *out = (cost_framework){.attention_efficiency = {1, 1},
                            .transposes = {1, 1},
                            .recomputes = true,
                            .cuts_tensors = true,
                            .cuts_layers = true,
                            .vocab_multiple = 1};
    fs_status status = json_is_object(root)
                           ? read_fields(&in, arena, err, out)
                           : fs_fail(err, FS_INVALID,
                                     "%s: a framework must be an object", path);
    json_decref(root);
    return status;
}

static const char *folder_of(const char *data_dir, fs_arena *arena)
{
    return fs_printf(arena, "%s/frameworks", data_dir);
}

static fs_status read_named(const char *folder, const char *name,
                            fs_arena *arena, fs_err *err, cost_framework *out)
{
    return cost_framework_read(fs_printf(arena, "%s/%s.json", folder, name),
                               arena, err, out);
}

fs_status cost_framework_open(const char *name, const char *data_dir,
                              fs_arena *arena, fs_err *err, cost_framework *out)
{
    const char *folder = folder_of(data_dir, arena);
    const hw_names names = hw_device_names(folder, arena);
    for (int32_t k = 0; k < names.n; k++)
        if (strcmp(names.at[k], name) == 0)
            return read_named(folder, name, arena, err, out);
    if (names.n == 0)
        return fs_fail(err, FS_INVALID,
                       "unknown framework '%.80s'; %s has none", name, folder);
    return fs_fail(err, FS_INVALID, "unknown framework '%.80s'; %s", name,
                   hw_near_names(&names, name, arena));
}

fs_status cost_frameworks_open(const char *data_dir, fs_arena *arena,
                               fs_err *err, cost_frameworks *out)
{
    const char *folder = folder_of(data_dir, arena);
    const hw_names names = hw_device_names(folder, arena);
    out->n = names.n;
    out->at = fs_new(arena, cost_framework, names.n);
    for (int32_t k = 0; k < names.n; k++)
        FS_TRY(read_named(folder, names.at[k], arena, err, &out->at[k]));
    return FS_OK;
}
