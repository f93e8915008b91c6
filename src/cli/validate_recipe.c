/* The recipe of a row's plan. */
#include "config.h"
#include "cli/validate_reader.h"

#include <string.h>

static int64_t or_one(int64_t told)
{
    return told > 0 ? told : 1;
}

static bool take_degrees(validate_reader *r)
{
    const validate_row *row = r->row;
    search_recipe *recipe = &r->out->recipe;
    const int64_t tp = or_one(row->tp), pp = or_one(row->pp),
                  cp = or_one(row->cp), ep = or_one(row->ep);
    const int64_t rest = tp * pp * cp;
    if (rest > row->gpus || row->gpus % rest)
        return validate_skip(
            r,
            "contradictory sizes: tp %lld x pp %lld x cp %lld on "
            "%lld devices",
            (long long)tp, (long long)pp, (long long)cp, (long long)row->gpus);
    if (row->untold)
        return validate_skip(r, "%s", row->untold);
    if (row->taken)
        validate_assume(r, "%s", row->taken);
    if (!row->dp && !row->tp && !row->pp && row->gpus > 1)
        return validate_skip(r,
                             "how it was laid out on the devices is not told");
    const int64_t dp = row->dp > 0 ? row->dp : row->gpus / rest;
    if (dp * rest != row->gpus)
        return validate_skip(
            r,
            "contradictory sizes: tp %lld x pp %lld x cp %lld x dp "
            "%lld are not %lld devices",
            (long long)tp, (long long)pp, (long long)cp, (long long)dp,
            (long long)row->gpus);
    recipe->tp = (int32_t)tp;
    recipe->pp = (int32_t)pp;
    recipe->cp = (int32_t)cp;
    recipe->dp = (int32_t)dp;
    recipe->ep = (int32_t)ep;
    /* one rank has nothing to cut, whatever its script said */
    const bool cuts = row->zero_stage > 0 && dp * cp > 1;
    recipe->zero = cuts ? (int32_t)row->zero_stage : 0;
    recipe->seq_parallel = row->seq_par > 0 && tp > 1;
    return true;
}

static bool take_batches(validate_reader *r)
{
    const validate_row *row = r->row;
    search_recipe *recipe = &r->out->recipe;
    const int64_t dp = recipe->dp;
    int64_t micro = row->micro_batch, count = row->grad_accum;
    if (row->global_batch % dp)
        return validate_skip(
            r, "contradictory sizes: a batch of %lld over dp %lld",
            (long long)row->global_batch, (long long)dp);
    const int64_t each = row->global_batch / dp;
    if (!micro && !count)
        return validate_skip(r, "neither micro_batch nor grad_accum is told");
    micro = micro > 0 ? micro : each / count;
    count = count > 0 ? count : each / micro;
    if (!micro || micro * count != each)
        return validate_skip(
            r,
            "contradictory sizes: micro-batches of %lld samples x "
            "%lld x dp %lld are not a batch of %lld",
            (long long)micro, (long long)count, (long long)dp,
            (long long)row->global_batch);
    recipe->micro_batches = (int32_t)count;
    return true;
}

/* What it names is known even of one stage, where nothing hangs on it. */
static bool take_schedule(validate_reader *r)
{
    static const validate_word known[] = {{"", ""},
                                          {"none", "1f1b"},
                                          {"1f1b", "1f1b"},
                                          {"pipedream-flush", "1f1b"},
                                          {"gpipe", "gpipe"},
                                          {"interleaved", "interleaved"},
                                          {"interleaved-1f1b", "interleaved"},
                                          {"1f1b-interleaved", "interleaved"},
                                          {"1f1b-i", "interleaved"},
                                          {"zb-v", "zb-v"},
                                          {"zb-1p", "zb-h1"},
                                          {"zb-h1", "zb-h1"},
                                          {"zb-2p", "zb-h2"},
                                          {"zb-h2", "zb-h2"},
                                          {NULL, NULL}};
    const char *schedule = validate_word_of(r->row->schedule, known);
    search_recipe *recipe = &r->out->recipe;
    if (!schedule)
        return validate_skip(r, "schedule '%.60s' is not known",
                             r->row->schedule);
    if (recipe->pp <= 1 && (strncmp(schedule, "zb", 2) == 0 ||
                            strcmp(schedule, "interleaved") == 0))
        return validate_skip(r,
                             "contradictory plan: the schedule '%.40s' is of "
                             "several stages, but there is one",
                             r->row->schedule);
    recipe->schedule = recipe->pp > 1 && schedule[0] ? schedule : "1f1b";
    return true;
}

/* "2", "max (1 layer per chunk)"; 0: not told */
static bool read_chunks(validate_reader *r, int64_t *out)
{
    static const validate_word known[] = {{"", ""}, {"max", ""}, {NULL, NULL}};
    const char *text = r->row->vpp;
    const int64_t layers = r->row->layers, pp = r->out->recipe.pp;
    *out = 0;
    if (validate_read_count(text, 1, 10000, out))
        return true;
    if (!validate_word_of(text, known))
        return validate_skip(r,
                             "vpp is '%.40s', must be a whole number of stages "
                             "per device, or max",
                             text);
    *out = text[0] ? (layers + pp - 1) / pp : 0;
    return true;
}

static bool take_interleave(validate_reader *r)
{
    search_recipe *recipe = &r->out->recipe;
    const char *schedule = r->row->schedule;
    const bool several = strcmp(recipe->schedule, "interleaved") == 0,
               v = strcmp(recipe->schedule, "zb-v") == 0;
    int64_t chunks;
    if (!read_chunks(r, &chunks))
        return false;
    if (recipe->pp <= 1)
        return chunks <= 1 ||
               validate_skip(r,
                             "contradictory plan: vpp %lld stages on a device, "
                             "but one stage",
                             (long long)chunks);
    if (several && chunks < 2)
        return validate_skip(r,
                             "an interleaved schedule, but vpp does not tell "
                             "how many stages a device has");
    if (chunks > (v ? 2 : 1) && !several && schedule[0])
        return validate_skip(r,
                             "contradictory plan: vpp %lld stages on a device, "
                             "but the schedule '%.40s' is of %s",
                             (long long)chunks, schedule, v ? "two" : "one");
    if (chunks > 1 && !several && !v)
        recipe->schedule = "interleaved";
    chunks = v ? 2 : chunks;
    recipe->interleave = chunks > 1 ? (int32_t)chunks : 0;
    return true;
}

/* As many layers each; or where the embedding and the head make it even with
 * one each, the first and the last stage one less. Other pipelines are cut by
 * time. */
static void take_even_layers(validate_reader *r)
{
    search_recipe *recipe = &r->out->recipe;
    const int64_t layers = r->row->layers,
                  stages = (int64_t)recipe->pp *
                           (recipe->interleave > 0 ? recipe->interleave : 1);
    const bool even = stages > 0 && layers % stages == 0;
    const bool ends =
        stages > 0 && (layers + 2) % stages == 0 && (layers + 2) / stages > 1;
    if (recipe->pp <= 1 || !r->seq || layers < stages || (!even && !ends))
        return;
    search_layers *each = fs_new(r->arena, search_layers, stages);
    for (int64_t i = 0; i < stages; i++)
        each[i].blocks = (int32_t)(even ? layers / stages
                                        : (layers + 2) / stages -
                                              (i == 0 || i == stages - 1));
    recipe->n_layers = (int32_t)stages;
    recipe->layers = each;
}

/* Each stage has a layer, or the embedding, or the head; each tensor parallel
 * rank has as many heads. */
static bool check_pieces(validate_reader *r)
{
    const validate_row *row = r->row;
    const search_recipe *recipe = &r->out->recipe;
    const int64_t stages =
        (int64_t)recipe->pp * (recipe->interleave ? recipe->interleave : 1);
    if (row->layers > 0 && stages > row->layers + 2)
        return validate_skip(r,
                             "contradictory sizes: %lld stages of a network of "
                             "%lld layers",
                             (long long)stages, (long long)row->layers);
    if (row->heads > 0 && row->heads % recipe->tp)
        return validate_skip(
            r, "contradictory sizes: %lld heads on %d tensor parallel ranks",
            (long long)row->heads, recipe->tp);
    return true;
}

static bool take_layers(validate_reader *r)
{
    const validate_row *row = r->row;
    search_recipe *recipe = &r->out->recipe;
    int64_t sum = 0;
    if (!row->n_stages) {
        take_even_layers(r);
        return true;
    }
    search_layers *each = fs_new(r->arena, search_layers, row->n_stages);
    for (int32_t i = 0; i < row->n_stages; i++) {
        sum += row->stage_layers[i];
        each[i].blocks = (int32_t)row->stage_layers[i];
        if (row->stage_again[i] > row->stage_layers[i] || !each[i].blocks)
            return validate_skip(r,
                                 "contradictory plan: stage %d of %lld layers, "
                                 "%lld of them recomputed",
                                 i, (long long)row->stage_layers[i],
                                 (long long)row->stage_again[i]);
    }
    if (sum != row->layers)
        return validate_skip(r,
                             "contradictory plan: its stages have %lld layers, "
                             "the network has %lld",
                             (long long)sum, (long long)row->layers);
    recipe->n_layers = row->n_stages > 1 ? row->n_stages : 0;
    recipe->layers = each;
    return true;
}

/* ---- precision, recompute ---- */

static bool take_precision(validate_reader *r)
{
    static const char *const known[] = {
        "fp32",      "float32",  "tf32",    "fp16",   "float16",   "half",
        "bf16",      "bfloat16", "amp",     "mixed",  "precision", "fp8",
        "optimizer", "master",   "weights", "states", NULL};
    const char *p = r->row->precision;
    validate_case *out = r->out;
    char other[32];
    out->precision = "fp32";
    if (!p[0])
        return validate_skip(r, "precision is not told");
    if (!validate_all_words(p, known, other))
        return validate_skip(r, "precision '%.60s' is not known", p);
    if (validate_has(p, "fp8"))
        return validate_skip(r, "precision '%.60s' is not modelled", p);
    const bool bf16 = validate_has(p, "bf16") || validate_has(p, "bfloat16"),
               fp16 =
                   validate_has(p, "fp16") || validate_has(p, "half") ||
                   (validate_has(p, "float16") && !validate_has(p, "bfloat16"));
    if (bf16 && !fp16)
        out->precision = "bf16";
    else if (fp16)
        out->precision = "fp16";
    else if (validate_has(p, "tf32"))
        out->tf32 = true;
    else if (!validate_has(p, "fp32") && !validate_has(p, "float32"))
        return validate_skip(r, "precision '%.60s' is not known", p);
    const hw_device *device = &r->usual->groups[0].device;
    const bool narrow = strcmp(out->precision, "fp32") != 0;
    if (out->tf32 && device->tf32_flops <= 0)
        return validate_skip(r, "contradictory precision: %s has no tf32",
                             device->name);
    if (narrow && hw_device_widens(device, bf16 && !fp16))
        validate_assume(r,
                        "products of %s at the rate of floats, since %s has "
                        "no units for them",
                        out->precision, device->name);
    return true;
}

/* Names of the nodes of the first layers of each stage: "^/blocks\\.(0|7)/". */
static const char *first_layers(const validate_reader *r)
{
    const validate_row *row = r->row;
    fs_text text = {.arena = r->arena};
    int64_t first = 0;
    fs_text_add(&text, "%s", "");
    for (int32_t i = 0; i < row->n_stages; i++) {
        for (int64_t k = 0; k < row->stage_again[i]; k++)
            fs_text_add(&text, "%s%lld", text.n ? "|" : "^/blocks\\.(",
                        (long long)(first + k));
        first += row->stage_layers[i];
    }
    if (text.n)
        fs_text_add(&text, ")/");
    return text.at;
}

/* What it names is known even of frameworks whose rows recompute nothing. */
static bool take_recompute(validate_reader *r)
{
    static const validate_word known[] = {
        {"", ""},
        {"none", ""},
        {"no", ""},
        {"off", ""},
        {"false", ""},
        {"0", ""},
        {"full", "block"},
        {"full-per-layer", "block"},
        {"block", "block"},
        {"selective", "selective"},
        {"first-n-layers-per-stage", "stages"},
        {"per-op", "ops"},
        {NULL, NULL}};
    validate_case *out = r->out;
    const cost_framework *f = out->framework;
    const char *how = validate_word_of(r->row->recompute, known);
    if (!how)
        return validate_skip(r, "recompute '%.60s' is not known",
                             r->row->recompute);
    if (strcmp(how, "ops") == 0)
        return validate_skip(r, "which ops are recomputed is not told");
    if (strcmp(how, "stages") == 0 && !r->row->n_stages)
        return validate_skip(r, "how many layers are recomputed is not told");
    if (strcmp(how, "stages") == 0)
        how = first_layers(r);
    /* where activations are not of 16 bits their casts are kept */
    out->recompute = f && !f->narrow ? "nothing" : "";
    if (how[0] && !(f && !f->recomputes))
        out->recompute = how;
    return true;
}

bool validate_take_recipe(validate_reader *r)
{
    if (!take_degrees(r) || !take_batches(r) || !take_schedule(r) ||
        !take_interleave(r) || !check_pieces(r) || !take_layers(r) ||
        !take_precision(r))
        return false;
    return take_recompute(r);
}
