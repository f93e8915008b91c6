#include "config.h"
#include "plan/text_parts.h"

#include <float.h>
#include <string.h>

static const char *const stream_names[] = {"compute", "comm", "step",
                                           "load",    "send", "recv"};
static const char *const bytes_names[PLAN_BYTES_KINDS] = {
    "param", "state", "const", "gradient", "activation", "scratch"};

const char *plan_stream_kind_name(plan_stream_kind kind)
{
    return stream_names[kind];
}

const char *plan_bytes_kind_name(plan_bytes_kind kind)
{
    return bytes_names[kind];
}

static void set_texts(json_t *out, const char *key, int32_t n,
                      const char *const *texts)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(list, json_string(texts[i]));
    json_object_set_new(out, key, list);
}

static void set_training(json_t *out, const plan_origin *o)
{
    fs_json_set_text(out, "optimizer", o->optimizer);
    fs_json_set_real(out, "lr", o->lr);
    fs_json_set_text(out, "lr_schedule", o->lr_schedule);
    fs_json_set_real(out, "weight_decay", o->weight_decay);
    fs_json_set_real(out, "momentum", o->momentum);
    fs_json_set_real(out, "beta1", o->beta1);
    fs_json_set_real(out, "beta2", o->beta2);
    fs_json_set_real(out, "epsilon", o->epsilon);
    fs_json_set_real(out, "clip_norm", o->clip_norm);
}

json_t *plan_origin_to_json(const plan_origin *o, int32_t micro_batches)
{
    json_t *out = json_object();
    fs_json_set_text(out, "model", o->model);
    if (o->infer)
        fs_json_set_text(out, "mode", "infer");
    fs_json_set_text(out, "loss", o->loss);
    fs_json_set_text(out, "params", o->params);
    fs_json_set_text(out, "rewrite", o->rewrite);
    fs_json_set_bool(out, "dropout", o->dropout);
    fs_json_set_text(out, "recompute", o->recompute ? o->recompute : "");
    if (o->again && o->again[0])
        fs_json_set_text(out, "again", o->again);
    if (o->n_kept)
        set_texts(out, "kept", o->n_kept, o->kept);
    if (!o->infer)
        set_training(out, o);
    if (o->precision && strcmp(o->precision, "fp32") != 0) {
        fs_json_set_text(out, "precision", o->precision);
        fs_json_set_text(out, "loss_scale", o->loss_scale);
    }
    if (o->states && strcmp(o->states, "fp32") != 0)
        fs_json_set_text(out, "states", o->states);
    if (o->compress && o->compress[0])
        fs_json_set_text(out, "compress", o->compress);
    if (o->n_compressed)
        set_texts(out, "compressed", o->n_compressed, o->compressed);
    fs_json_set_text(out, "cluster", o->cluster);
    fs_json_set_int(out, "batch", o->batch);
    if (o->memory_bytes)
        fs_json_set_int(out, "memory_bytes", o->memory_bytes);
    fs_json_set_int(out, "micro_batches", micro_batches);
    set_texts(out, "binds", o->n_binds, o->binds);
    set_texts(out, "padding", o->n_padding, o->padding);
    fs_json_set_int(out, "seed", (int64_t)o->seed);
    fs_json_set_real(out, "iteration_s", o->iteration_s);
    fs_json_set_real(out, "sim_iteration_s", o->sim_iteration_s);
    return out;
}

bool plan_origin_is_local(const plan_origin *origin)
{
    return strcmp(origin->cluster, "local") == 0;
}

static fs_status check_head(const fs_json *file, fs_err *err)
{
    const char *format;
    int64_t version;
    if (!fs_json_has(file, "format"))
        return fs_fail(err, FS_INVALID, "%s: not a flowsearch plan",
                       file->file);
    FS_TRY(fs_json_text(file, "format", err, &format));
    if (strcmp(format, PLAN_FORMAT_NAME) != 0)
        return fs_fail(err, FS_INVALID, "%s: not a plan: format is \"%.40s\"",
                       file->file, format);
    FS_TRY(fs_json_int(file, "version", 1, INT64_MAX, err, &version));
    if (version != PLAN_FORMAT_VERSION)
        return fs_fail(err, FS_INVALID,
                       "%s: plan format version %lld, this program reads %d",
                       file->file, (long long)version, PLAN_FORMAT_VERSION);
    return PLAN_TEXT_KEYS(file, err, "format", "version", "model_digest",
                          "cluster_digest", "plan_digest", "origin", "cluster",
                          "strategy", "plan");
}

fs_status plan_text_load(const char *path, fs_err *err, json_t **root)
{
    json_t *loaded;
    FS_TRY(fs_json_load(path, err, &loaded));
    fs_json file = fs_json_root(path, loaded);
    fs_status status = check_head(&file, err);
    if (status == FS_OK)
        *root = loaded;
    else
        json_decref(loaded);
    return status;
}

fs_status plan_text_digest(const fs_json *in, const char *key, fs_err *err,
                           uint64_t *out)
{
    const char *text;
    FS_TRY(fs_json_text(in, key, err, &text));
    uint64_t digest = 0;
    size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) {
        const char *hex = "0123456789abcdef";
        const char *at = strchr(hex, text[i]);
        if (!at || n != 16)
            return fs_fail(err, FS_INVALID, "%s: %s must be 16 hex digits",
                           in->file, key);
        digest = digest << 4 | (uint64_t)(at - hex);
    }
    *out = digest;
    return n == 16 ? FS_OK
                   : fs_fail(err, FS_INVALID, "%s: %s must be 16 hex digits",
                             in->file, key);
}

typedef struct texts {
    int32_t n;
    const char **at;
} texts;

/* `form` is what a text looks like. */
static fs_status read_texts(const fs_json *in, const char *key,
                            const char *form, fs_arena *arena, fs_err *err,
                            texts *out)
{
    fs_json list;
    FS_TRY(fs_json_array(in, key, err, &list));
    out->n = (int32_t)json_array_size(list.value);
    out->at = fs_new(arena, const char *, out->n);
    for (int32_t i = 0; i < out->n; i++) {
        const char *text =
            json_string_value(json_array_get(list.value, (size_t)i));
        if (!text)
            return fs_fail(err, FS_INVALID, "%s: %s[%d] must be a string %s",
                           in->file, list.where, i, form);
        out->at[i] = fs_strdup(arena, text);
    }
    return FS_OK;
}

static fs_status read_lists(const fs_json *in, fs_arena *arena, fs_err *err,
                            plan_origin *o)
{
    texts binds, padding, compressed = {0}, kept = {0};
    FS_TRY(read_texts(in, "binds", "NAME=SIZE", arena, err, &binds));
    FS_TRY(read_texts(in, "padding", "NAME=ROW", arena, err, &padding));
    if (fs_json_has(in, "compressed"))
        FS_TRY(read_texts(in, "compressed", "NAME", arena, err, &compressed));
    if (fs_json_has(in, "kept"))
        FS_TRY(read_texts(in, "kept", "NAME", arena, err, &kept));
    o->n_kept = kept.n;
    o->kept = kept.at;
    o->n_compressed = compressed.n;
    o->compressed = compressed.at;
    o->n_binds = binds.n;
    o->binds = binds.at;
    o->n_padding = padding.n;
    o->padding = padding.at;
    return FS_OK;
}

/* Seconds, a rate, a decay: not negative and below a bound. `usual`: -1 is for
 * what has a usual value. */
typedef struct real_range {
    double below;
    bool usual;
} real_range;
static const real_range a_bound = {FLT_MAX, false};
static const real_range a_constant = {FLT_MAX, true}; /* kernels take floats */
static const real_range a_share = {1, true};          /* momentum and betas */
/* What the nanoseconds of a trace can hold. */
static const real_range seconds = {(double)INT64_MAX * 1e-9, false};

static fs_status read_real(const fs_json *in, const char *key, real_range range,
                           fs_err *err, double *out)
{
    double value;
    FS_TRY(fs_json_number(in, key, err, &value));
    if (!(range.usual && value == -1) && !(value >= 0 && value < range.below))
        return fs_json_fail(
            in, key, err, "is %g, must be at least 0 and below %g%s", value,
            range.below, range.usual ? ", or -1 for the usual one" : "");
    *out = value;
    return FS_OK;
}

/* Plans of training do not say it. */
static fs_status read_mode(const fs_json *in, fs_err *err, bool *infer)
{
    const char *mode;
    if (!fs_json_has(in, "mode"))
        return FS_OK;
    FS_TRY(fs_json_text(in, "mode", err, &mode));
    *infer = strcmp(mode, "infer") == 0;
    return *infer
               ? FS_OK
               : fs_json_fail(in, "mode", err, "is \"%.40s\", not infer", mode);
}

/* What shapes a training, which a plan of inference has none of. */
static const char *const of_training[] = {
    "optimizer", "lr",    "lr_schedule", "weight_decay", "momentum",
    "beta1",     "beta2", "epsilon",     "clip_norm"};

static fs_status refuse_training(const fs_json *in, fs_err *err)
{
    for (size_t i = 0; i < sizeof of_training / sizeof *of_training; i++)
        if (fs_json_has(in, of_training[i]))
            return fs_json_fail(in, of_training[i], err,
                                "stands in a plan of inference");
    return FS_OK;
}

static fs_status read_training(const fs_json *in, fs_arena *arena, fs_err *err,
                               plan_origin *o)
{
    o->optimizer = o->lr_schedule = "";
    if (o->infer)
        return refuse_training(in, err);
    FS_TRY(fs_json_strdup(in, "optimizer", arena, err, &o->optimizer));
    FS_TRY(read_real(in, "lr", a_constant, err, &o->lr));
    FS_TRY(fs_json_strdup(in, "lr_schedule", arena, err, &o->lr_schedule));
    FS_TRY(read_real(in, "weight_decay", a_constant, err, &o->weight_decay));
    FS_TRY(read_real(in, "momentum", a_share, err, &o->momentum));
    FS_TRY(read_real(in, "beta1", a_share, err, &o->beta1));
    FS_TRY(read_real(in, "beta2", a_share, err, &o->beta2));
    FS_TRY(read_real(in, "epsilon", a_constant, err, &o->epsilon));
    return read_real(in, "clip_norm", a_bound, err, &o->clip_norm);
}

/* Plans of fp32 do not say it, nor those that compress or narrow nothing. */
static fs_status read_precision(const fs_json *in, fs_arena *arena, fs_err *err,
                                plan_origin *o)
{
    o->precision = "fp32";
    o->loss_scale = "";
    o->compress = "";
    o->states = "fp32";
    if (fs_json_has(in, "states"))
        FS_TRY(fs_json_strdup(in, "states", arena, err, &o->states));
    if (fs_json_has(in, "compress"))
        FS_TRY(fs_json_strdup(in, "compress", arena, err, &o->compress));
    if (!fs_json_has(in, "precision"))
        return FS_OK;
    FS_TRY(fs_json_strdup(in, "precision", arena, err, &o->precision));
    return fs_json_strdup(in, "loss_scale", arena, err, &o->loss_scale);
}

static fs_status check_keys(const fs_json *in, fs_err *err)
{
    return PLAN_TEXT_KEYS(
        in, err, "model", "mode", "loss", "params", "rewrite", "dropout",
        "recompute", "again", "kept", "optimizer", "lr", "lr_schedule",
        "weight_decay", "momentum", "beta1", "beta2", "epsilon", "clip_norm",
        "precision", "loss_scale", "states", "compress", "compressed",
        "cluster", "batch", "memory_bytes", "micro_batches", "binds", "padding",
        "seed", "iteration_s", "sim_iteration_s");
}

fs_status plan_origin_from_json(const fs_json *in, fs_arena *arena, fs_err *err,
                                plan_origin *out)
{
    plan_origin o = {0};
    int64_t micro_batches, seed;
    FS_TRY(check_keys(in, err));
    FS_TRY(fs_json_strdup(in, "model", arena, err, &o.model));
    FS_TRY(read_mode(in, err, &o.infer));
    FS_TRY(fs_json_strdup(in, "loss", arena, err, &o.loss));
    FS_TRY(fs_json_strdup(in, "params", arena, err, &o.params));
    FS_TRY(fs_json_strdup(in, "rewrite", arena, err, &o.rewrite));
    FS_TRY(fs_json_bool(in, "dropout", err, &o.dropout));
    FS_TRY(fs_json_strdup(in, "recompute", arena, err, &o.recompute));
    if (fs_json_has(in, "again"))
        FS_TRY(fs_json_strdup(in, "again", arena, err, &o.again));
    FS_TRY(read_training(in, arena, err, &o));
    FS_TRY(read_precision(in, arena, err, &o));
    FS_TRY(fs_json_strdup(in, "cluster", arena, err, &o.cluster));
    FS_TRY(fs_json_int(in, "batch", 1, PLAN_MAX_BATCH, err, &o.batch));
    if (fs_json_has(in, "memory_bytes"))
        FS_TRY(fs_json_int(in, "memory_bytes", 1, INT64_MAX, err,
                           &o.memory_bytes));
    FS_TRY(fs_json_int(in, "micro_batches", 1, PLAN_MAX_MICRO_BATCHES, err,
                       &micro_batches));
    o.micro_batches = (int32_t)micro_batches;
    FS_TRY(read_lists(in, arena, err, &o));
    FS_TRY(fs_json_int(in, "seed", INT64_MIN, INT64_MAX, err, &seed));
    o.seed = (uint64_t)seed;
    FS_TRY(read_real(in, "iteration_s", seconds, err, &o.iteration_s));
    FS_TRY(read_real(in, "sim_iteration_s", seconds, err, &o.sim_iteration_s));
    *out = o;
    return FS_OK;
}

/* A probe says of what it made a cluster: what the origin says too. */
static fs_status check_made_from(const fs_json *file, const plan_origin *origin,
                                 fs_err *err)
{
    const json_t *said =
        json_object_get(json_object_get(file->value, "cluster"), "made_from");
    const char *text = json_string_value(said);
    if ((text && strcmp(text, origin->cluster) == 0) ||
        !json_is_object(json_object_get(file->value, "cluster")))
        return FS_OK;
    return fs_json_fail(file, "cluster.made_from", err,
                        "is %.200s%s%s: a plan for %.200s holds the cluster "
                        "made from that",
                        text   ? "'"
                        : said ? "no text"
                               : "missing",
                        text ? text : "", text ? "'" : "", origin->cluster);
}

/* The cluster that stands in the file: that of a live probe. */
static fs_status read_stored(const fs_json *file, const plan_origin *origin,
                             fs_arena *arena, fs_err *err, hw_cluster **out)
{
    bool has = fs_json_has(file, "cluster");
    *out = NULL;
    if (!origin->cluster[0])
        return fs_json_fail(file, "origin.cluster", err,
                            "is missing: which cluster the plan is for is not "
                            "said");
    if (has && !plan_origin_is_local(origin))
        return fs_json_fail(file, "cluster", err,
                            "stands in the file of a plan for %.200s: only "
                            "that of `local` does",
                            origin->cluster);
    if (!has && plan_origin_is_local(origin))
        return fs_json_fail(file, "cluster", err,
                            "is missing: what `local` was when it was probed");
    if (!has)
        return FS_OK;
    FS_TRY(check_made_from(file, origin, err));
    FS_TRY(hw_cluster_from_json(
        file->file, json_object_get(file->value, "cluster"), arena, err, out));
    (*out)->name = origin->cluster;
    return FS_OK;
}

fs_status plan_read_origin(const char *path, fs_arena *arena, fs_err *err,
                           plan_origin *origin, hw_cluster **cluster)
{
    json_t *root;
    fs_json in;
    plan_origin read = {0};
    hw_cluster *stored = NULL;
    FS_TRY(plan_text_load(path, err, &root));
    fs_json file = fs_json_root(path, root);
    fs_status status = fs_json_object(&file, "origin", err, &in);
    if (status == FS_OK)
        status = plan_origin_from_json(&in, arena, err, &read);
    if (status == FS_OK)
        status = read_stored(&file, &read, arena, err, &stored);
    json_decref(root);
    if (status == FS_OK) {
        read.file = path;
        *origin = read;
        *cluster = stored;
    }
    return status;
}
