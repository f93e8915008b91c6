/* What a row of measured runs asks: a network of the zoo, a cluster, a recipe.
 */
#include "config.h"
#include "cli/validate.h"

#include "hw/devices.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A row being understood. */
typedef struct reader {
    const validate_row *row;
    const char *data_dir;
    fs_arena *arena;
    validate_case *out;
    fs_text assumed;
} reader;

static bool has(const char *text, const char *part)
{
    return strcasestr(text, part) != NULL;
}

static bool skip(reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool skip(reader *r, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    r->out->skip = fs_strdup(r->arena, text);
    return false;
}

static void assume(reader *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void assume(reader *r, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fs_text_add(&r->assumed, "%s%s", r->assumed.n ? "; " : "", text);
}

/* ---- what was measured ---- */

static bool is_out_of_memory(const validate_row *row)
{
    return strcasecmp(row->status, "oom") == 0;
}

static double time_of(const validate_row *row, int64_t seq)
{
    const double batch = (double)row->global_batch;
    if (!isnan(row->iter_time_s))
        return row->iter_time_s;
    if (!isnan(row->samples_per_s))
        return batch / row->samples_per_s;
    return batch * (double)seq / row->tokens_per_s; /* NAN without */
}

static bool take_measured(reader *r)
{
    const validate_row *row = r->row;
    validate_case *out = r->out;
    if (row->fault)
        return skip(r, "%s", row->fault);
    if (row->status[0] && strcmp(row->status, "ok") != 0 &&
        !is_out_of_memory(row))
        return skip(r, "status '%s': nothing that was measured", row->status);
    if (row->task[0] && !has(row->task, "train"))
        return skip(r, "task '%s' is no training", row->task);
    if (!row->global_batch)
        return skip(r, "global_batch is not told");
    out->batch = row->global_batch;
    out->out_of_memory = is_out_of_memory(row);
    out->measured_s = time_of(row, atoll(row->seq_len));
    out->measured_bytes = row->peak_mem_gb * 0x1p30;
    out->simulated = out->simulated || has(row->evidence, "simulated");
    out->of_process =
        has(row->mem_kind, "smi") || has(row->mem_kind, "process");
    if (out->out_of_memory)
        out->measured_s = NAN;
    else if (isnan(out->measured_s) && isnan(out->measured_bytes))
        return skip(r, "neither a time nor memory is told");
    return true;
}

/* ---- the network ---- */

static bool need(reader *r, int64_t value, const char *name)
{
    return value > 0 || skip(r, "%s is not told", name);
}

static const char *family_of(const char *arch)
{
    static const struct {
        const char *arch, *family;
    } known[] = {{"moe", "moe"}, {"llama", "llama"}, {"bert", "bert"},
                 {"gpt", "gpt"}, {"cnn", "cnn"},     {"mixtral", "llama"},
                 {"vit", "vit"}};
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        if (has(arch, known[k].arch))
            return known[k].family;
    return NULL;
}

/* "ResNet-50 v1.5" -> "resnet50" */
static bool take_named(reader *r)
{
    char name[64];
    size_t n = 0;
    for (const char *p = r->row->model; *p && *p != ' ' && n + 1 < sizeof name;
         p++)
        if (*p != '-' && *p != '_')
            name[n++] = (char)tolower((unsigned char)*p);
    name[n] = '\0';
    r->out->model = fs_printf(r->arena, "zoo:%s", name);
    return n > 0 || skip(r, "the network has no name");
}

static int64_t vocab_of(reader *r, int64_t usual)
{
    const cost_framework *f = r->out->framework;
    const int64_t multiple =
        f ? f->vocab_multiple * (r->row->tp > 0 ? r->row->tp : 1) : 1;
    int64_t vocab = r->row->vocab;
    if (vocab <= 0) {
        assume(r, "vocab %lld", (long long)usual);
        vocab = usual;
    }
    return (vocab + (f && f->cuts_vocab ? 0 : multiple - 1)) / multiple *
           multiple;
}

/* Words of a sequence that BERT's loss is of, as its authors and all who
 * repeat it take them: 20 of 128, 80 of 512. */
static int64_t masked_of(reader *r, int64_t seq)
{
    if (has(r->row->task, "all words"))
        return seq;
    const int64_t masked = seq * 5 / 32 > 0 ? seq * 5 / 32 : 1;
    assume(r, "%lld masked words of %lld", (long long)masked, (long long)seq);
    return masked;
}

static bool take_transformer(reader *r, const char *family)
{
    const validate_row *row = r->row;
    const int64_t seq = atoll(row->seq_len);
    const bool llama = strcmp(family, "llama") == 0;
    if (!need(r, row->layers, "layers") || !need(r, row->hidden, "hidden") ||
        !need(r, row->heads, "heads") || !need(r, seq, "seq_len"))
        return false;
    if (row->hidden % row->heads)
        return skip(r,
                    "contradictory sizes: %lld heads do not divide a "
                    "width of %lld",
                    (long long)row->heads, (long long)row->hidden);
    if (!llama && row->ffn > 0 && row->ffn != 4 * row->hidden)
        return skip(r,
                    "an inner width of %lld is not modelled of %s: 4 times "
                    "the width is",
                    (long long)row->ffn, family);
    fs_text model = {.arena = r->arena};
    fs_text_add(&model, "zoo:%s,layers=%lld,hidden=%lld,heads=%lld,seq=%lld",
                family, (long long)row->layers, (long long)row->hidden,
                (long long)row->heads, (long long)seq);
    fs_text_add(&model, ",vocab=%lld",
                (long long)vocab_of(r, llama                         ? 32000
                                       : strcmp(family, "bert") == 0 ? 30522
                                                                     : 50257));
    /* Two losses whose means are of other counts take a backward pass each
     * where there are several micro-batches; frameworks take one, of the
     * micro-batch's means. What is left out is a word's work per sample. */
    if (strcmp(family, "bert") == 0)
        fs_text_add(&model, ",sentence=0,predictions=%lld",
                    (long long)masked_of(r, seq));
    if (llama && row->kv_heads > 0)
        fs_text_add(&model, ",kv_heads=%lld", (long long)row->kv_heads);
    if (llama && row->ffn > 0)
        fs_text_add(&model, ",ffn=%lld", (long long)row->ffn);
    r->out->model = model.at;
    return true;
}

static bool take_model(reader *r)
{
    const char *family = family_of(r->row->arch);
    if (!family)
        return skip(r, "networks of the kind '%s' are not built", r->row->arch);
    if (strcmp(family, "cnn") == 0 || strcmp(family, "vit") == 0)
        return take_named(r);
    return take_transformer(r, family);
}

/* ---- the cluster ---- */

/* Bytes a second and links of "8x HDR IB 200 Gb/s per node", "4x200G HDR IB
 * (800 Gb/s per node)", "1600 Gb/s RoCE per node": the largest rate that is
 * told is that of a node, unless it is of one of several. */
static void read_links(const char *text, double *bps, int32_t *nics)
{
    double most = 0;
    int64_t count = 0;
    for (const char *p = text; *p; p++) {
        char *end;
        if (!isdigit((unsigned char)*p) ||
            (p > text && (isalnum((unsigned char)p[-1]) && p[-1] != 'x')))
            continue;
        const double value = strtod(p, &end);
        const char *unit = end + strspn(end, " ");
        if (*unit == 'x' || *unit == 'X')
            count = count ? count : (int64_t)value;
        else if (*unit == 'G')
            most = fmax(most, value);
        p = end - 1;
    }
    const bool whole = strchr(text, '(') && has(text, "per node)");
    *nics = count > 0 && count <= 64 ? (int32_t)count : 0;
    *bps = most * 1e9 / 8 * (*nics > 1 && !whole && most < 1000 ? *nics : 1);
}

static bool take_cluster(reader *r)
{
    const validate_row *row = r->row;
    const hw_names names = hw_device_names(
        fs_printf(r->arena, "%s/clusters", r->data_dir), r->arena);
    /* "L4 (PCIe)" */
    const char *kind = fs_strndup(r->arena, row->gpu, strcspn(row->gpu, " ("));
    const char *device =
        hw_device_like(&names, kind, row->gpu_mem_gb, r->arena);
    int64_t per_node = row->gpus_per_node;
    if (!need(r, row->gpus, "gpus"))
        return false;
    if (!device)
        return skip(r, "device '%s' is not known", row->gpu);
    if (!row->gpu_mem_gb)
        assume(r, "%s", device);
    if (!per_node) {
        per_node = 8;
        assume(r, "8 devices per node");
    }
    const int64_t on_node = row->gpus < per_node ? row->gpus : per_node;
    if (row->gpus % on_node)
        return skip(r,
                    "contradictory sizes: %lld devices are no whole number "
                    "of nodes of %lld",
                    (long long)row->gpus, (long long)per_node);
    r->out->cluster =
        fs_printf(r->arena, "%lldx%lld:%s", (long long)(row->gpus / on_node),
                  (long long)on_node, device);
    read_links(row->inter_link, &r->out->outer_bps, &r->out->nics);
    return true;
}

/* ---- the recipe ---- */

static bool take_schedule(reader *r)
{
    static const struct {
        const char *text, *schedule;
    } known[] = {{"1f1b-i", "interleaved"}, {"interleave", "interleaved"},
                 {"zb-v", "zb-v"},          {"zb-1p", "zb-h1"},
                 {"zb-h1", "zb-h1"},        {"zb-2p", "zb-h2"},
                 {"zb-h2", "zb-h2"},        {"gpipe", "gpipe"},
                 {"1f1b", "1f1b"},          {"none", "1f1b"}};
    const char *text = r->row->schedule;
    search_recipe *recipe = &r->out->recipe;
    recipe->schedule = "1f1b";
    if (recipe->pp <= 1 || !text[0])
        return true;
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        if (has(text, known[k].text)) {
            recipe->schedule = known[k].schedule;
            return true;
        }
    return skip(r, "schedule '%s' is not known", text);
}

/* "2", "max (1 layer per chunk)" */
static bool take_interleave(reader *r)
{
    search_recipe *recipe = &r->out->recipe;
    const char *text = r->row->vpp;
    int64_t chunks = atoll(text);
    const bool several = strcmp(recipe->schedule, "interleaved") == 0;
    if (recipe->pp <= 1)
        return true;
    if (several && has(text, "max"))
        chunks = (r->row->layers + recipe->pp - 1) / recipe->pp;
    if (strcmp(recipe->schedule, "zb-v") == 0)
        chunks = 2;
    if (several && chunks < 2)
        return skip(r,
                    "an interleaved schedule, but vpp does not tell how many "
                    "stages a device has");
    if (chunks > 1 && !several && strcmp(recipe->schedule, "zb-v") != 0)
        recipe->schedule = "interleaved";
    recipe->interleave = chunks > 1 ? (int32_t)chunks : 0;
    return true;
}

/* As many layers each; or where the embedding and the head make it even with
 * one each, the first and the last stage one less. Other pipelines are cut by
 * time. */
static void take_layers(reader *r)
{
    search_recipe *recipe = &r->out->recipe;
    const int64_t layers = r->row->layers,
                  stages = (int64_t)recipe->pp *
                           (recipe->interleave > 0 ? recipe->interleave : 1);
    const bool even = stages > 0 && layers % stages == 0;
    const bool ends =
        stages > 0 && (layers + 2) % stages == 0 && (layers + 2) / stages > 1;
    if (recipe->pp <= 1 || layers < stages || (!even && !ends))
        return;
    search_layers *each = fs_new(r->arena, search_layers, stages);
    for (int64_t i = 0; i < stages; i++)
        each[i].blocks = (int32_t)(even ? layers / stages
                                        : (layers + 2) / stages -
                                              (i == 0 || i == stages - 1));
    recipe->n_layers = (int32_t)stages;
    recipe->layers = each;
}

static int64_t or_one(int64_t told)
{
    return told > 0 ? told : 1;
}

static bool take_degrees(reader *r)
{
    const validate_row *row = r->row;
    search_recipe *recipe = &r->out->recipe;
    const int64_t tp = or_one(row->tp), pp = or_one(row->pp),
                  cp = or_one(row->cp), ep = or_one(row->ep);
    const int64_t rest = tp * pp * cp;
    if (rest > row->gpus || row->gpus % rest)
        return skip(r,
                    "contradictory sizes: tp %lld x pp %lld x cp %lld on "
                    "%lld devices",
                    (long long)tp, (long long)pp, (long long)cp,
                    (long long)row->gpus);
    if (!row->dp && !row->tp && !row->pp)
        return skip(r, "how it was laid out on the devices is not told");
    const int64_t dp = row->dp > 0 ? row->dp : row->gpus / rest;
    if (dp * rest != row->gpus)
        return skip(r,
                    "contradictory sizes: tp %lld x pp %lld x cp %lld x dp "
                    "%lld are not %lld devices",
                    (long long)tp, (long long)pp, (long long)cp, (long long)dp,
                    (long long)row->gpus);
    recipe->tp = (int32_t)tp;
    recipe->pp = (int32_t)pp;
    recipe->cp = (int32_t)cp;
    recipe->dp = (int32_t)dp;
    recipe->ep = (int32_t)ep;
    recipe->zero = (int32_t)row->zero_stage;
    recipe->seq_parallel = row->seq_par > 0;
    return recipe->zero <= 3 ||
           skip(r, "ZeRO stage %d: 0 to 3 are known", recipe->zero);
}

static bool take_batches(reader *r)
{
    const validate_row *row = r->row;
    search_recipe *recipe = &r->out->recipe;
    const int64_t dp = recipe->dp;
    int64_t micro = row->micro_batch, count = row->grad_accum;
    if (row->global_batch % dp)
        return skip(r, "contradictory sizes: a batch of %lld over dp %lld",
                    (long long)row->global_batch, (long long)dp);
    const int64_t each = row->global_batch / dp;
    if (!micro && !count)
        return skip(r, "neither micro_batch nor grad_accum is told");
    micro = micro > 0 ? micro : each / count;
    count = count > 0 ? count : each / micro;
    if (!micro || micro * count != each)
        return skip(r,
                    "contradictory sizes: micro-batches of %lld samples x "
                    "%lld x dp %lld are not a batch of %lld",
                    (long long)micro, (long long)count, (long long)dp,
                    (long long)row->global_batch);
    recipe->micro_batches = (int32_t)count;
    return true;
}

static bool take_precision(reader *r)
{
    const char *p = r->row->precision;
    validate_case *out = r->out;
    out->precision = "fp32";
    if (has(p, "fp8"))
        return skip(r, "precision '%s' is not modelled", p);
    if (has(p, "bf16") && !has(p, "fp16"))
        out->precision = "bf16";
    else if (has(p, "fp16"))
        out->precision = "fp16";
    else if (has(p, "tf32"))
        out->tf32 = true;
    else if (!has(p, "fp32"))
        return skip(
            r, p[0] ? "precision '%s' is not known" : "precision%s is not told",
            p);
    return true;
}

static bool take_recompute(reader *r)
{
    const char *how = r->row->recompute;
    validate_case *out = r->out;
    /* where activations are not of 16 bits their casts are kept */
    out->recompute = out->framework && !out->framework->narrow ? "nothing" : "";
    if (out->framework && !out->framework->recomputes)
        return true;
    if (has(how, "full") || has(how, "block"))
        out->recompute = "block";
    else if (has(how, "selective"))
        out->recompute = "selective";
    else if (how[0] && !has(how, "none"))
        return skip(r, "recompute '%s' is not known", how);
    return true;
}

/* ---- the framework ---- */

static fs_status read_part(const fs_json *in, const char *key, fs_arena *arena,
                           fs_err *err, const char **out)
{
    return fs_json_has(in, key) ? fs_json_strdup(in, key, arena, err, out)
                                : FS_OK;
}

/* Which streams collectives run on may hang on the plan. */
static void take_streams(reader *r)
{
    const cost_framework *f = r->out->framework;
    if (!f || !f->tensor_alone || r->out->recipe.tp <= 1)
        return;
    cost_framework *own = fs_memdup(r->arena, f, sizeof *f);
    own->overlaps = own->own_stream = false;
    r->out->framework = own;
}

static fs_status read_share(const fs_json *in, const char *key, fs_err *err,
                            int32_t *n, double *out)
{
    if (!fs_json_has(in, key))
        return FS_OK;
    FS_TRY(fs_json_number(in, key, err, out));
    ++*n;
    return *out >= 0 && *out <= 1
               ? FS_OK
               : fs_json_fail(in, key, err, "is %g, must be from 0 to 1", *out);
}

/* As text: what it says of a framework is known when a row has one. */
static fs_status read_with(const fs_json *in, fs_arena *arena, fs_err *err,
                           const char **out)
{
    fs_json with;
    cost_framework any = {0};
    if (!fs_json_has(in, "with"))
        return FS_OK;
    FS_TRY(fs_json_object(in, "with", err, &with));
    FS_TRY(cost_framework_change(&with, err, &any));
    char *text = json_dumps(with.value, JSON_COMPACT);
    *out = fs_strdup(arena, text);
    free(text);
    return FS_OK;
}

static fs_status read_framework(const fs_json *in, const char *key,
                                const validate_frameworks *all, fs_err *err,
                                const cost_framework **out)
{
    const char *name;
    if (!fs_json_has(in, key))
        return FS_OK;
    FS_TRY(fs_json_text(in, key, err, &name));
    for (int32_t i = 0; i < all->n; i++)
        if (strcmp(all->at[i].name, name) == 0) {
            *out = &all->at[i];
            return FS_OK;
        }
    return fs_json_fail(in, key, err, "is '%.80s', which is not known", name);
}

static fs_status read_source(const fs_json *list, size_t i, fs_arena *arena,
                             fs_err *err, validate_frameworks *all)
{
    validate_source *out = &all->sources[i];
    static const char *const keys[] = {"match",
                                       "of_framework",
                                       "of_model",
                                       "of_precision",
                                       "host_cores",
                                       "outer_efficiency",
                                       "jitter",
                                       "with",
                                       "instead_of",
                                       "framework",
                                       "fitted_on",
                                       "source",
                                       "device",
                                       "matmul_efficiency",
                                       "attention_efficiency",
                                       "simulated",
                                       NULL};
    fs_json in;
    int64_t cores = 0;
    out->jitter = NAN;
    FS_TRY(fs_json_item(list, i, err, &in));
    FS_TRY(fs_json_keys(&in, keys, err));
    FS_TRY(read_framework(&in, "framework", all, err, &out->framework));
    FS_TRY(read_framework(&in, "instead_of", all, err, &out->instead_of));
    FS_TRY(fs_json_strdup(&in, "match", arena, err, &out->match));
    FS_TRY(read_part(&in, "of_framework", arena, err, &out->of_framework));
    FS_TRY(read_part(&in, "of_model", arena, err, &out->of_model));
    FS_TRY(read_part(&in, "of_precision", arena, err, &out->of_precision));
    FS_TRY(read_part(&in, "fitted_on", arena, err, &out->fitted_on));
    if (fs_json_has(&in, "host_cores"))
        FS_TRY(fs_json_int(&in, "host_cores", 1, 1000000, err, &cores));
    out->host_cores = (double)cores;
    FS_TRY(read_share(&in, "outer_efficiency", err, &out->n_constants,
                      &out->outer_efficiency));
    FS_TRY(read_share(&in, "jitter", err, &out->n_constants, &out->jitter));
    FS_TRY(read_with(&in, arena, err, &out->with));
    if (fs_json_has(&in, "simulated"))
        FS_TRY(fs_json_bool(&in, "simulated", err, &out->simulated));
    if (!fs_json_has(&in, "device"))
        return FS_OK;
    FS_TRY(fs_json_strdup(&in, "device", arena, err, &out->device));
    out->n_constants++;
    FS_TRY(read_share(&in, "attention_efficiency", err, &out->n_constants,
                      &out->attention_efficiency));
    return fs_json_number(&in, "matmul_efficiency", err,
                          &out->matmul_efficiency) == FS_OK &&
                   out->matmul_efficiency > 0 && out->matmul_efficiency <= 1
               ? FS_OK
               : fs_json_fail(&in, "matmul_efficiency", err,
                              "must be above 0 and at most 1");
}

static fs_status read_sources(const char *path, fs_arena *arena, fs_err *err,
                              validate_frameworks *out)
{
    json_t *root;
    fs_json list;
    FS_TRY(fs_json_load(path, err, &root));
    fs_json in = fs_json_root(path, root);
    fs_status status = fs_json_array(&in, "sources", err, &list);
    const size_t n = status == FS_OK ? json_array_size(list.value) : 0;
    out->sources = fs_new(arena, validate_source, n);
    for (size_t i = 0; i < n && status == FS_OK; i++)
        status = read_source(&list, i, arena, err, out);
    out->n_sources = (int32_t)n;
    json_decref(root);
    return status;
}

fs_status validate_open_frameworks(const char *data_dir, fs_arena *arena,
                                   fs_err *err, validate_frameworks *out)
{
    cost_frameworks all;
    FS_TRY(cost_frameworks_open(data_dir, arena, err, &all));
    out->n = all.n;
    out->at = all.at;
    return read_sources(
        fs_printf(arena, "%s/validation/sources.json", data_dir), arena, err,
        out);
}

/* Whose longest word, or name, is in the text. */
static const cost_framework *framework_of(const validate_frameworks *all,
                                          const char *text)
{
    const cost_framework *found = NULL;
    size_t longest = 0;
    for (int32_t i = 0; i < all->n; i++) {
        const cost_framework *f = &all->at[i];
        for (int32_t k = -1; k < f->n_matches; k++) {
            const char *word = k < 0 ? f->name : f->matches[k];
            if (strlen(word) > longest && has(text, word)) {
                longest = strlen(word);
                found = f;
            }
        }
    }
    return found;
}

/* To what a source says of its runs. */
static void change(const char *with, cost_framework *framework)
{
    fs_err err = {0};
    json_error_t fault;
    json_t *root = json_loads(with, 0, &fault);
    const fs_json in = fs_json_root("sources.json", root);
    const fs_status status = cost_framework_change(&in, &err, framework);
    FS_ASSERT(status == FS_OK); /* as when it was read */
    json_decref(root);
}

static bool is_of(const validate_row *row, const validate_source *s)
{
    return (has(row->source, s->match) || has(row->source_ref, s->match)) &&
           (!s->of_framework || has(row->framework, s->of_framework)) &&
           (!s->of_model || has(row->model, s->of_model)) &&
           (!s->of_precision || has(row->precision, s->of_precision));
}

/* "fsdp, megatron-lm" */
static const char *framework_names(const validate_frameworks *all,
                                   fs_arena *arena)
{
    fs_text text = {.arena = arena};
    for (int32_t i = 0; i < all->n; i++)
        fs_text_add(&text, "%s%s", i ? ", " : "", all->at[i].name);
    return text.n ? text.at : "none";
}

/* What none of them is like would be predicted as what it is not. */
static void take_framework(reader *r, const validate_frameworks *all)
{
    r->out->framework = framework_of(all, r->row->framework);
    if (!r->row->framework[0])
        assume(r, "no framework: as this runtime");
    else if (!r->out->framework)
        skip(r,
             "framework '%.60s' is not known (known: %s; an empty cell: this "
             "program's runtime)",
             r->row->framework, framework_names(all, r->arena));
}

/* What the source says takes the place of what is usual. */
static void take_source(reader *r, const validate_frameworks *all)
{
    validate_case *out = r->out;
    for (int32_t i = 0; i < all->n_sources; i++) {
        const validate_source *s = &all->sources[i];
        if (!is_of(r->row, s))
            continue;
        if (s->device && !all->as_sim)
            out->source = s;
        if (s->framework && s->instead_of == out->framework)
            out->framework = s->framework;
        if (s->outer_efficiency > 0 && !all->as_sim)
            out->outer_efficiency = s->outer_efficiency;
        out->simulated = out->simulated || s->simulated;
        if (s->host_cores > 0)
            out->host_cores = s->host_cores;
        if (!out->framework)
            continue;
        cost_framework *own =
            fs_memdup(r->arena, out->framework, sizeof *out->framework);
        if (!isnan(s->jitter) && !all->as_sim)
            own->jitter = s->jitter;
        if (s->with)
            change(s->with, own);
        out->framework = own;
    }
}

void validate_understand(const validate_row *row, const char *data_dir,
                         const validate_frameworks *frameworks, fs_arena *arena,
                         validate_case *out)
{
    *out = (validate_case){.row = row,
                           .recipe = search_recipe_free(),
                           .measured_s = NAN,
                           .measured_bytes = NAN,
                           .optimizer = "adam",
                           .assumed = ""};
    reader r = {row, data_dir, arena, out, {.arena = arena}};
    take_framework(&r, frameworks); /* any other reason goes before its */
    take_source(&r, frameworks);
    if (take_measured(&r) && take_model(&r) && take_cluster(&r) &&
        take_degrees(&r) && take_batches(&r) && take_schedule(&r) &&
        take_interleave(&r) && take_precision(&r)) {
        take_layers(&r);
        take_recompute(&r);
    }
    take_streams(&r);
    if (has(row->arch, "cnn"))
        out->optimizer = "momentum";
    if (r.assumed.n)
        out->assumed = r.assumed.at;
}
