/* The network of a row: one of the zoo. */
#include "config.h"
#include "cli/validate_reader.h"

#include "zoo/zoo.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

static bool need(validate_reader *r, int64_t value, const char *name)
{
    return value > 0 || validate_skip(r, "%s is not told", name);
}

const char *validate_family(const char *arch)
{
    static const validate_word known[] = {
        {"gpt", "gpt"},       {"gpt2", "gpt"},      {"gpt3", "gpt"},
        {"gpt-2", "gpt"},     {"gpt-3", "gpt"},     {"gpt-neox", "gpt"},
        {"neox", "gpt"},      {"mpt", "gpt"},       {"llama", "llama"},
        {"llama2", "llama"},  {"llama3", "llama"},  {"llama-2", "llama"},
        {"llama-3", "llama"}, {"mixtral", "llama"}, {"moe", "moe"},
        {"gpt-moe", "moe"},   {"bert", "bert"},     {"cnn", "cnn"},
        {"vit", "vit"},       {NULL, NULL}};
    return validate_word_of(arch, known);
}

/* Images as tables have them: "224x224". */
static bool take_image(validate_reader *r, fs_text *model)
{
    const char *text = r->row->seq_len, *times = strchr(text, 'x');
    int64_t wide, high;
    if (!text[0]) {
        validate_assume(r, "images as large as usual");
        return true;
    }
    if (!times || !validate_read_count(times + 1, 1, 1 << 14, &high) ||
        !validate_read_count(fs_strndup(r->arena, text, (size_t)(times - text)),
                             1, 1 << 14, &wide) ||
        wide != high)
        return validate_skip(r,
                             "seq_len is '%.40s': of images, one such as "
                             "224x224 is wanted",
                             text);
    fs_text_add(model, ",size=%lld", (long long)wide);
    return true;
}

/* Letters and digits of the first word are those of the name? */
static bool is_named(const char *text, const char *name)
{
    for (;; text++, name++) {
        while (*text && *text != ' ' && !isalnum((unsigned char)*text))
            text++;
        while (*name && !isalnum((unsigned char)*name))
            name++;
        if (!*text || *text == ' ' || !*name)
            return (!*text || *text == ' ') && !*name;
        if (tolower((unsigned char)*text) != *name)
            return false;
    }
}

/* Of images, and of that kind. */
static bool is_of_family(const zoo_preset *preset, const char *family)
{
    static const validate_word known[] = {
        {"vit", "vit"},       {"resnet", "cnn"},       {"vgg", "cnn"},
        {"mobilenet", "cnn"}, {"efficientnet", "cnn"}, {"insightface", "cnn"},
        {NULL, NULL}};
    const char *of = validate_word_of(preset->model, known);
    return of && strcmp(of, family) == 0;
}

/* "resnet18, resnet34" */
static const char *names_of(const validate_reader *r)
{
    fs_text text = {.arena = r->arena};
    for (const zoo_preset *p = zoo_presets; p->name; p++)
        if (is_of_family(p, r->family))
            fs_text_add(&text, "%s%s", text.n ? ", " : "", p->name);
    return text.at;
}

/* "ResNet-50 v1.5" -> "resnet50", "ViT-B/16" -> "vit-b16" */
static bool take_named(validate_reader *r)
{
    fs_text model = {.arena = r->arena};
    const char *text = r->row->model;
    const zoo_preset *preset = zoo_presets;
    while (preset->name &&
           !(is_of_family(preset, r->family) && is_named(text, preset->name)))
        preset++;
    if (!text[0])
        return validate_skip(r, "the network's name is not told (model)");
    if (!preset->name)
        return validate_skip(r, "no network '%.60s' is known (known: %s)", text,
                             names_of(r));
    fs_text_add(&model, "zoo:%s", preset->name);
    const bool good = take_image(r, &model);
    r->out->model = model.at;
    return good;
}

static int64_t vocab_of(validate_reader *r, int64_t usual)
{
    const cost_framework *f = r->out->framework;
    const int64_t multiple =
        f ? f->vocab_multiple * (r->row->tp > 0 ? r->row->tp : 1) : 1;
    int64_t vocab = r->row->vocab;
    if (vocab <= 0) {
        validate_assume(r, "vocab %lld", (long long)usual);
        vocab = usual;
    }
    return (vocab + (f && f->cuts_vocab ? 0 : multiple - 1)) / multiple *
           multiple;
}

/* Words of a sequence that BERT's loss is of, as its authors and all who
 * repeat it take them: 20 of 128, 80 of 512. */
static int64_t masked_of(validate_reader *r)
{
    if (validate_has(r->row->task, "all words"))
        return r->seq;
    const int64_t masked = r->seq * 5 / 32 > 0 ? r->seq * 5 / 32 : 1;
    validate_assume(r, "%lld masked words of %lld", (long long)masked,
                    (long long)r->seq);
    return masked;
}

static bool check_sizes(validate_reader *r)
{
    const validate_row *row = r->row;
    const bool llama = strcmp(r->family, "llama") == 0;
    if (!need(r, row->layers, "layers") || !need(r, row->hidden, "hidden") ||
        !need(r, row->heads, "heads"))
        return false;
    if (!row->seq_len[0])
        return validate_skip(r, "seq_len is not told");
    if (!r->seq)
        return validate_skip(r,
                             "seq_len is '%.40s', which is no whole number of "
                             "words",
                             row->seq_len);
    if (row->hidden % row->heads)
        return validate_skip(r,
                             "contradictory sizes: %lld heads do not divide a "
                             "width of %lld",
                             (long long)row->heads, (long long)row->hidden);
    if (row->kv_heads && row->heads % row->kv_heads)
        return validate_skip(r,
                             "contradictory sizes: %lld heads of keys and "
                             "values are no part of %lld heads",
                             (long long)row->kv_heads, (long long)row->heads);
    if (!llama && row->kv_heads && row->kv_heads != row->heads)
        return validate_skip(r,
                             "%lld heads of keys and values for %lld heads are "
                             "not modelled of %s",
                             (long long)row->kv_heads, (long long)row->heads,
                             r->family);
    if (!llama && row->ffn > 0 && row->ffn != 4 * row->hidden)
        return validate_skip(r,
                             "an inner width of %lld is not modelled of %s: 4 "
                             "times the width is",
                             (long long)row->ffn, r->family);
    return true;
}

/* Mixtures: without their number they are no network. */
static bool take_experts(validate_reader *r, fs_text *model)
{
    const validate_row *row = r->row;
    const bool mixed =
        strcmp(r->family, "moe") == 0 || validate_has(row->arch, "mixtral");
    if (!mixed && row->experts > 1)
        return validate_skip(r, "%lld experts of a network without, '%.40s'",
                             (long long)row->experts, row->arch);
    if (!mixed)
        return true;
    if (!need(r, row->experts, "experts"))
        return false;
    validate_assume(r, "2 experts for each word");
    fs_text_add(model, ",experts=%lld", (long long)row->experts);
    return true;
}

/* Of LLaMA where the row leaves them out: heads that share nothing, and then
 * the inner width of its authors, 8/3 of the width to the next 256. */
static bool take_llama(validate_reader *r, fs_text *model)
{
    const validate_row *row = r->row;
    const int64_t kv_heads = row->kv_heads ? row->kv_heads : row->heads;
    int64_t ffn = row->ffn;
    if (!ffn && kv_heads != row->heads)
        return validate_skip(r, "ffn is not told");
    if (!ffn) {
        ffn = (row->hidden * 8 / 3 + 255) / 256 * 256;
        validate_assume(r, "ffn %lld", (long long)ffn);
    }
    if (!row->kv_heads)
        validate_assume(r, "kv_heads %lld", (long long)kv_heads);
    fs_text_add(model, ",kv_heads=%lld,ffn=%lld", (long long)kv_heads,
                (long long)ffn);
    return true;
}

static bool take_transformer(validate_reader *r)
{
    const validate_row *row = r->row;
    const bool llama = strcmp(r->family, "llama") == 0,
               bert = strcmp(r->family, "bert") == 0;
    fs_text model = {.arena = r->arena};
    if (!check_sizes(r))
        return false;
    fs_text_add(&model, "zoo:%s,layers=%lld,hidden=%lld,heads=%lld,seq=%lld",
                r->family, (long long)row->layers, (long long)row->hidden,
                (long long)row->heads, (long long)r->seq);
    const int64_t vocab = vocab_of(r, llama ? 32000 : bert ? 30522 : 50257);
    fs_text_add(&model, ",vocab=%lld", (long long)vocab);
    /* Two losses whose means are of other counts take a backward pass each
     * where there are several micro-batches; frameworks take one, of the
     * micro-batch's means. What is left out is a word's work per sample. */
    if (bert)
        fs_text_add(&model, ",sentence=0,predictions=%lld",
                    (long long)masked_of(r));
    if ((llama && !take_llama(r, &model)) || !take_experts(r, &model))
        return false;
    r->out->model = model.at;
    r->out->table = (double)vocab * (double)row->hidden;
    return true;
}

bool validate_take_network(validate_reader *r)
{
    const validate_row *row = r->row;
    if (!r->family[0])
        return validate_skip(r, "networks of the kind '%.60s' are not built",
                             row->arch);
    if (strcmp(r->family, "cnn") == 0 || strcmp(r->family, "vit") == 0) {
        r->seq = 0;
        return take_named(r);
    }
    return take_transformer(r);
}
