/* What was measured of a row's run, and whether it can all be true. */
#include "config.h"
#include "cli/validate_reader.h"

#include <math.h>
#include <string.h>
#include <strings.h>

/* "ok", "oom", "OOM on rank 3", "CUDA out of memory at step 2": what was
 * measured, by its words before where; NULL: nothing that is known. */
static const char *status_of(const char *text)
{
    static const validate_word known[] = {{"", "ok"},
                                          {"ok", "ok"},
                                          {"oom", "oom"},
                                          {"cuda-oom", "oom"},
                                          {"out-of-memory", "oom"},
                                          {"cuda-out-of-memory", "oom"},
                                          {NULL, NULL}};
    static const char *const where[] = {" on ", " at ", " in ", " during ",
                                        ":",    ",",    ";"};
    char word[64];
    size_t n = strlen(text);
    for (size_t k = 0; k < sizeof where / sizeof where[0]; k++) {
        const char *at = strcasestr(text, where[k]);
        if (at && at > text && (size_t)(at - text) < n)
            n = (size_t)(at - text);
    }
    snprintf(word, sizeof word, "%.*s", (int)n, text);
    return n < sizeof word ? validate_word_of(word, known) : NULL;
}

/* Only a training step is predicted: no kernel, no collective alone. */
static bool take_scope(validate_reader *r)
{
    static const validate_word known[] = {
        {"", ""},         {"iteration", ""}, {"step", ""}, {"run-average", ""},
        {"training", ""}, {"memory", ""},    {NULL, NULL}};
    static const validate_word training[] = {{"train", ""},
                                             {"training", ""},
                                             {"pretrain", ""},
                                             {"pretraining", ""},
                                             {NULL, NULL}};
    const validate_row *row = r->row;
    if (row->task[0] && !validate_any_word(row->task, training))
        return validate_skip(r, "task '%.60s' is no training", row->task);
    return validate_word_of(row->scope, known) ||
           validate_skip(r, "scope '%.60s' is no training step", row->scope);
}

/* ---- times ---- */

/* What a cell says of a step: between these, as its last digit leaves it. */
typedef struct told {
    const char *name;
    double at_s, least_s, most_s;
} told;
enum { MOST_TOLD = 8 };

/* Figures of two digits differ by as much, 1.0 and 1.05; a mean of rates from
 * the rate of a mean time by less. */
#define ROUNDED 0.05

static void add(told *all, int32_t *n, told one)
{
    if (!isnan(one.least_s))
        all[(*n)++] = one;
}

/* Of a rate, so much a step; a rate that was cut to 0 is less than 1. */
static told by_rate(const char *name, double amount, validate_figure rate)
{
    if (!(amount > 0) || isnan(rate.at))
        return (told){name, NAN, NAN, NAN};
    return (told){name, rate.at > 0 ? amount / rate.at : NAN,
                  amount / (rate.at + rate.digit),
                  rate.at > rate.digit ? amount / (rate.at - rate.digit)
                                       : INFINITY};
}

/* Products of a transformer's step, from the fewest that anyone counts to the
 * most: of weights alone; with words and whole scores. */
typedef struct products {
    double least, most, words;
} products;

double validate_weights(const validate_reader *r)
{
    const validate_row *row = r->row;
    const double h = (double)row->hidden, layers = (double)row->layers,
                 ffn = row->ffn ? (double)row->ffn : 4 * h;
    const bool gated = strcmp(r->family, "llama") == 0;
    const double shared = row->kv_heads && row->heads
                              ? (double)row->kv_heads / (double)row->heads
                              : 1;
    return layers * (h * h * (2 + 2 * shared) + (gated ? 3 : 2) * h * ffn);
}

static products products_of(const validate_reader *r)
{
    const validate_row *row = r->row;
    const double h = (double)row->hidden, layers = (double)row->layers,
                 words = (double)row->global_batch * (double)r->seq,
                 weights = validate_weights(r);
    const double most =
        weights + (double)row->vocab * h + 2 * layers * h * (double)r->seq;
    return (products){weights * words, most * words, words};
}

/* By a rate of flop whose kind tells how they are counted: three times the
 * forward pass of the model, or of the hardware four times with all that is
 * recomputed, the words' products three times; scores whole (Narayanan et al.
 * 2021, arXiv 2104.04473, eq. 3, of 12 H^2 weights a layer: 24 B S L H^2 (1 + S
 * / 6 H) a pass; Alpa's and PaLM's are the same). */
static told by_known_flops(const validate_reader *r)
{
    const validate_row *row = r->row;
    const bool again = strncasecmp(row->tflops_kind, "hw", 2) == 0 ||
                       strncasecmp(row->tflops_kind, "hardware", 8) == 0;
    const bool sizes =
        strcmp(r->family, "gpt") == 0 ||
        (strcmp(r->family, "llama") == 0 && row->ffn && !row->experts);
    const products p = products_of(r);
    const double head = p.words * (double)row->vocab * (double)row->hidden;
    const double flop = 2 * ((again ? 4 : 3) * (p.most - head) + 3 * head);
    const bool known = sizes && row->layers && row->hidden && row->vocab &&
                       (again || strcasecmp(row->tflops_kind, "model") == 0) &&
                       validate_has(row->recompute, again ? "full" : "");
    return by_rate("tflops_per_gpu",
                   known ? flop / (1e12 * (double)row->gpus) : 0,
                   row->tflops_per_gpu);
}

/* Times of the row in the order in which one is taken; how many. */
static int32_t list_times(const validate_reader *r, told all[MOST_TOLD])
{
    const validate_row *row = r->row;
    const validate_figure t = row->iter_time_s;
    const double batch = (double)row->global_batch,
                 words = batch * (double)r->seq;
    int32_t n = 0;
    if (!isnan(t.at))
        add(all, &n,
            (told){"iter_time_s", t.at, fmax(0, t.at - t.digit),
                   t.at + t.digit});
    add(all, &n, by_rate("samples_per_s", batch, row->samples_per_s));
    add(all, &n, by_rate("tokens_per_s", words, row->tokens_per_s));
    add(all, &n,
        by_rate("tokens_per_s_per_gpu", words / (double)row->gpus,
                row->tokens_per_s_per_gpu));
    if (!n)
        add(all, &n, by_known_flops(r));
    return n;
}

bool validate_take_measured(validate_reader *r)
{
    const validate_row *row = r->row;
    validate_case *out = r->out;
    told all[MOST_TOLD];
    if (!row->cut && row->arch[0] && !r->family[0])
        return validate_take_network(r); /* whatever else its sizes are */
    if (row->fault)
        return validate_skip(r, "%s", row->fault);
    const char *status = status_of(row->status);
    if (!status)
        return validate_skip(
            r,
            "status '%.60s': nothing that was measured (known: "
            "ok, oom)",
            row->status);
    if (!take_scope(r))
        return false;
    if (!row->global_batch)
        return validate_skip(r, "global_batch is not told");
    if (row->one_batch)
        validate_assume(r, "one micro-batch a step");
    if (!validate_read_count(row->seq_len, 1, INT32_MAX, &r->seq))
        r->seq = 0;
    out->batch = row->global_batch;
    out->out_of_memory = strcmp(status, "oom") == 0;
    const int32_t n = list_times(r, all);
    for (int32_t i = 0; i < n && isnan(out->measured_s); i++)
        out->measured_s = all[i].at_s;
    out->measured_bytes = row->peak_mem_gb.at * 0x1p30;
    out->simulated = out->simulated || validate_has(row->evidence, "simulated");
    out->of_process = validate_has(row->mem_kind, "smi") ||
                      validate_has(row->mem_kind, "process");
    if (!out->out_of_memory && isnan(out->measured_s) &&
        isnan(out->measured_bytes))
        return validate_skip(r, "neither a time nor memory is told%s",
                             n ? ": a rate of 0 is none"
                             : row->tflops_per_gpu.at > 0
                                 ? ": how flop are counted is unknown"
                                 : "");
    return true;
}

/* ---- whether they can all be true ---- */

/* Times that all devices take at that rate of flop each: the model's products
 * three times, two flop each, or up to four times where all is recomputed. */
static told by_flops(const validate_reader *r, const char *name, double times,
                     validate_figure flops)
{
    const products p = products_of(r);
    const double gpus = (double)r->row->gpus;
    const told least_s = by_rate(name, 3 * 2 * p.least / gpus, flops),
               most_s = by_rate(name, times * 2 * p.most / gpus, flops);
    return (told){name, most_s.at_s, least_s.least_s, most_s.most_s};
}

static validate_figure scaled(validate_figure f, double by)
{
    return (validate_figure){f.at * by, f.digit * by};
}

/* Shares of a peak are of one of these: of 32-bit products tensor cores' too,
 * which a framework may use unsaid. */
typedef struct peaks {
    double least, most;
} peaks;

static peaks peaks_of(const validate_reader *r)
{
    const hw_device *d = &r->usual->groups[0].device;
    const char *precision = r->out->precision;
    if (strcmp(precision, "fp32") != 0) {
        const double peak =
            hw_device_narrow_flops(d, strcmp(precision, "bf16") == 0);
        return (peaks){peak, peak};
    }
    return (peaks){hw_device_flops(d), fmax(hw_device_flops(d), d->tf32_flops)};
}

/* What a peak is of, and what counts as words, differs as much: sheets tell
 * peaks of sparse products, twice those of dense ones (NVIDIA's of the A100),
 * and half of BERT's words at 512 of a sample are padding that some leave out
 * (Krell et al. 2021, arXiv 2107.02027). */
#define COUNTED 2.0

/* As by_flops, of a share of the device's peak. */
static told by_share(const validate_reader *r, const char *name, double times,
                     validate_figure percent)
{
    const peaks peak = peaks_of(r);
    const told low =
                   by_flops(r, name, times, scaled(percent, peak.least / 100)),
               high =
                   by_flops(r, name, times, scaled(percent, peak.most / 100));
    return (told){name, high.at_s, high.least_s / COUNTED,
                  low.most_s * COUNTED};
}

/* Of transformers whose products are known: by rates of flop, and by the peak,
 * below which nobody is. */
static int32_t list_flops(const validate_reader *r, told all[MOST_TOLD],
                          int32_t n)
{
    const validate_row *row = r->row;
    if (!r->seq || row->experts || !row->vocab)
        return n;
    add(all, &n,
        by_flops(r, "tflops_per_gpu", 4, scaled(row->tflops_per_gpu, 1e12)));
    add(all, &n, by_share(r, "mfu_pct", 3, row->mfu_pct));
    add(all, &n, by_share(r, "hfu_pct", 4, row->hfu_pct));
    told fastest =
        by_share(r, "the peak of its devices", 3, (validate_figure){100, 0});
    fastest.most_s = INFINITY;
    add(all, &n, fastest);
    return n;
}

bool validate_check_times(validate_reader *r)
{
    told all[MOST_TOLD];
    const int32_t n = list_flops(r, all, list_times(r, all));
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < i; k++) {
            const told *a = &all[k], *b = &all[i];
            if (a->least_s <= b->most_s * (1 + ROUNDED) &&
                b->least_s <= a->most_s * (1 + ROUNDED))
                continue;
            return validate_skip(
                r,
                "contradictory times: %s tells a step of %.4g to %.4g s, %s "
                "one of %.4g to %.4g s",
                a->name, a->least_s, a->most_s, b->name, b->least_s, b->most_s);
        }
    return true;
}
