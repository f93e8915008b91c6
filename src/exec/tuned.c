#include "config.h"
#include "exec/tuned.h"

#include <math.h>
#include <string.h>

/* In a manifest with '_' for '-'. */
static const char *const names[EXEC_TUNED_VALUES] = {
    "lr", "weight-decay", "momentum", "beta1", "beta2", "epsilon"};
static const char *const options[EXEC_TUNED_OPTIONS] = {
    "lr-schedule", "precision", "loss-scale", "compress", "clip-norm"};

exec_tuned exec_tuned_of(const ir_graph *graph, const ir_train_options *said,
                         const exec_planned *planned, fs_arena *arena)
{
    ir_train_options o;
    if (!ir_update_options(graph, said, &o))
        return (exec_tuned){0};
    return (exec_tuned){
        ir_optimizer_name(o.optimizer),
        {o.lr, o.weight_decay, o.momentum, o.beta1, o.beta2, o.epsilon},
        {ir_rate_text(&o.rate, arena), planned->precision, planned->loss_scale,
         planned->compress, planned->clip_norm}};
}

static const char *key_of(const char *name, char room[32])
{
    snprintf(room, 32, "%s", name);
    for (char *at = room; (at = strchr(at, '-')) != NULL;)
        *at = '_';
    return room;
}

json_t *exec_tuned_json(const exec_tuned *tuned)
{
    char key[32];
    if (!tuned->optimizer)
        return json_null();
    json_t *json = json_pack("{s:s}", "name", tuned->optimizer);
    for (int i = 0; i < EXEC_TUNED_VALUES; i++)
        if (!isnan(tuned->value[i]))
            json_object_set_new(json, key_of(names[i], key),
                                json_real(tuned->value[i]));
    for (int i = 0; i < EXEC_TUNED_OPTIONS; i++)
        if (tuned->option[i])
            json_object_set_new(json, key_of(options[i], key),
                                json_string(tuned->option[i]));
    return json;
}

static double read_number(const json_t *json, const char *key)
{
    const json_t *value = json_object_get(json, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static const char *read_text(const json_t *json, const char *key,
                             fs_arena *arena)
{
    const char *text = json_string_value(json_object_get(json, key));
    return text ? fs_strdup(arena, text) : NULL;
}

exec_tuned exec_tuned_read(const json_t *json, fs_arena *arena)
{
    char key[32];
    exec_tuned out = {.optimizer = read_text(json, "name", arena)};
    for (int i = 0; i < EXEC_TUNED_VALUES; i++)
        out.value[i] = read_number(json, key_of(names[i], key));
    for (int i = 0; i < EXEC_TUNED_OPTIONS; i++)
        out.option[i] = read_text(json, key_of(options[i], key), arena);
    return out;
}

static void add_word(fs_text *text, const char *name, const char *value)
{
    fs_text_add(text, "%s--%s %s", text->n ? ", " : "", name, value);
}

/* Enough digits that two that differ look so. */
static void add_value(fs_text *text, const char *name, double value,
                      double other)
{
    char word[32], beside[32];
    if (isnan(value))
        return;
    snprintf(word, sizeof word, "%g", value);
    snprintf(beside, sizeof beside, "%g", other);
    if (strcmp(word, beside) == 0)
        snprintf(word, sizeof word, "%.17g", value);
    add_word(text, name, word);
}

/* "" is without it. */
static void add_option(fs_text *text, const char *name, const char *value)
{
    if (*value)
        add_word(text, name, value);
    else
        fs_text_add(text, "%sno --%s", text->n ? ", " : "", name);
}

/* Of one that is known of both. */
static void compare_option(const char *name, const char *was, const char *is,
                           fs_text *before, fs_text *now)
{
    if (strcmp(was, is) == 0)
        return;
    add_option(before, name, was);
    add_option(now, name, is);
}

static bool is_same(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

bool exec_tuned_differ(const exec_tuned *was, const exec_tuned *is,
                       fs_arena *arena, const char **had, const char **has)
{
    fs_text before = {.arena = arena}, now = {.arena = arena};
    if (!was->optimizer || !is->optimizer)
        return false;
    if (strcmp(was->optimizer, is->optimizer) != 0) {
        add_word(&before, "optimizer", was->optimizer);
        add_word(&now, "optimizer", is->optimizer);
    }
    for (int i = 0; i < EXEC_TUNED_VALUES; i++) {
        if (is_same(was->value[i], is->value[i]))
            continue;
        add_value(&before, names[i], was->value[i], is->value[i]);
        add_value(&now, names[i], is->value[i], was->value[i]);
    }
    for (int i = 0; i < EXEC_TUNED_OPTIONS; i++)
        if (was->option[i] && is->option[i])
            compare_option(options[i], was->option[i], is->option[i], &before,
                           &now);
    *had = before.at;
    *has = now.at;
    return before.n > 0 && now.n > 0;
}
