#include "config.h"
#include "exec/tuned.h"

#include <math.h>
#include <string.h>

/* In a manifest with '_' for '-'. */
static const char *const names[EXEC_TUNED_VALUES] = {
    "lr", "weight-decay", "momentum", "beta1", "beta2", "epsilon"};

exec_tuned exec_tuned_of(const ir_graph *graph, const ir_train_options *said)
{
    ir_train_options o;
    if (!ir_update_options(graph, said, &o))
        return (exec_tuned){0};
    return (exec_tuned){
        ir_optimizer_name(o.optimizer),
        {o.lr, o.weight_decay, o.momentum, o.beta1, o.beta2, o.epsilon}};
}

static const char *key_of(int i, char room[32])
{
    snprintf(room, 32, "%s", names[i]);
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
            json_object_set_new(json, key_of(i, key),
                                json_real(tuned->value[i]));
    return json;
}

exec_tuned exec_tuned_read(const json_t *json, fs_arena *arena)
{
    const char *name = json_string_value(json_object_get(json, "name"));
    exec_tuned out = {.optimizer = name ? fs_strdup(arena, name) : NULL};
    char key[32];
    for (int i = 0; i < EXEC_TUNED_VALUES; i++) {
        const json_t *value = json_object_get(json, key_of(i, key));
        out.value[i] = json_is_number(value) ? json_number_value(value) : NAN;
    }
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
    *had = before.at;
    *has = now.at;
    return before.n > 0 && now.n > 0;
}
