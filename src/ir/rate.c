#include "config.h"
#include "ir/rate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {"constant", "linear", "cosine"};

static fs_status parse_kind(const char *text, size_t n, fs_err *err,
                            ir_rate_kind *out)
{
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strlen(kinds[k]) == n && strncmp(kinds[k], text, n) == 0) {
            *out = (ir_rate_kind)k;
            return FS_OK;
        }
    return fs_fail(err, FS_INVALID,
                   "learning-rate schedule '%.40s': constant, linear or "
                   "cosine comes first",
                   text);
}

static fs_status parse_item(const char *item, fs_err *err, ir_rate *out)
{
    char *end;
    const char *equals = strchr(item, '=');
    size_t n = equals ? (size_t)(equals - item) : 0;
    bool steps = n == 5 && strncmp(item, "steps", n) == 0;
    bool warmup = n == 6 && strncmp(item, "warmup", n) == 0;
    long long number = equals ? strtoll(equals + 1, &end, 10) : 0;
    if (!(steps || warmup) || end == equals + 1 || (*end && *end != ',') ||
        number < 1 || number > 1000000000000)
        return fs_fail(err, FS_INVALID,
                       "learning-rate schedule: '%.40s' is neither steps=N nor "
                       "warmup=N of 1 or more",
                       item);
    *(steps ? &out->steps : &out->warmup) = number;
    return FS_OK;
}

fs_status ir_rate_parse(const char *text, fs_err *err, ir_rate *out)
{
    ir_rate rate = {0};
    if (text[0])
        FS_TRY(parse_kind(text, strcspn(text, ","), err, &rate.kind));
    for (const char *at = strchr(text, ','); at; at = strchr(at + 1, ','))
        FS_TRY(parse_item(at + 1, err, &rate));
    if (rate.kind != IR_RATE_CONSTANT && rate.steps <= rate.warmup)
        return fs_fail(err, FS_INVALID,
                       "learning-rate schedule '%.40s' wants steps=N, more "
                       "than its %lld of warm-up",
                       text, (long long)rate.warmup);
    if (rate.kind == IR_RATE_CONSTANT && rate.steps)
        return fs_fail(err, FS_INVALID,
                       "learning-rate schedule '%.40s': steps=%lld has no "
                       "effect on a constant rate",
                       text, (long long)rate.steps);
    *out = rate;
    return FS_OK;
}

const char *ir_rate_text(const ir_rate *rate, fs_arena *arena)
{
    fs_text text = {.arena = arena};
    if (rate->kind == IR_RATE_CONSTANT && rate->warmup == 0)
        return "";
    fs_text_add(&text, "%s", kinds[rate->kind]);
    if (rate->kind != IR_RATE_CONSTANT)
        fs_text_add(&text, ",steps=%lld", (long long)rate->steps);
    if (rate->warmup > 0)
        fs_text_add(&text, ",warmup=%lld", (long long)rate->warmup);
    return text.at;
}

void ir_rate_set(ir_node *node, const ir_rate *rate)
{
    node->i[1] = rate->kind;
    node->i[2] = rate->warmup;
    node->i[3] = rate->steps;
}

ir_rate ir_rate_of(const ir_node *node)
{
    return (ir_rate){(ir_rate_kind)node->i[1], node->i[2], node->i[3]};
}

double ir_rate_factor(const ir_node *node, int64_t step)
{
    int64_t warmup = node->i[2], steps = node->i[3];
    if (step < warmup)
        return (double)(step + 1) / (double)warmup;
    if (node->i[1] == IR_RATE_CONSTANT)
        return 1;
    if (step >= steps)
        return 0;
    double gone = (double)(step - warmup) / (double)(steps - warmup);
    return node->i[1] == IR_RATE_LINEAR ? 1 - gone
                                        : 0.5 * (1 + cos(gone * acos(-1)));
}
