#include "config.h"
#include "zoo/zoo.h"

#include "zoo/model.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const zoo_model *const models[] = {
#define ZOO_MODEL(name) &zoo_model_##name,
#include "zoo/zoo.def"
#undef ZOO_MODEL
};

const char *zoo_names(void)
{
#define ZOO_MODEL(name) " " #name
    static const char names[] =
#include "zoo/zoo.def"
        ;
#undef ZOO_MODEL
    return names + 1;
}

const zoo_preset zoo_presets[] = {
#define ZOO_PRESET(name, model, keys, parameters, within, source, ...)         \
    {name, model, keys, parameters, within, source, __VA_ARGS__},
#include "zoo/presets.def"
#undef ZOO_PRESET
    {0}};

/* ---- names; '-' and '_' are one ---- */

static char plain(char c)
{
    return (char)(c == '_' ? '-' : c);
}

static bool same_name(const char *known, const char *said, size_t length)
{
    size_t i = 0;
    while (i < length && known[i] && plain(known[i]) == plain(said[i]))
        i++;
    return i == length && !known[i];
}

static const zoo_model *find_model(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (same_name(models[i]->name, name, length))
            return models[i];
    return NULL;
}

static const zoo_preset *find_preset(const char *name, size_t length)
{
    for (const zoo_preset *p = zoo_presets; p->name; p++)
        if (same_name(p->name, name, length))
            return p;
    return NULL;
}

enum { MAX_NAME = 60 };

/* Letters to insert, drop or change to turn one name into the other. */
static int distance(const char *a, const char *b)
{
    int row[MAX_NAME + 1], m = (int)strlen(b);
    if (m > MAX_NAME)
        return MAX_NAME;
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; a[i - 1]; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            int change = diagonal + (plain(a[i - 1]) != plain(b[j - 1]));
            int least = row[j] < row[j - 1] ? row[j] : row[j - 1];
            diagonal = row[j];
            row[j] = change < least + 1 ? change : least + 1;
        }
    }
    return row[m];
}

/* Are they one but for case and separators? */
static bool same_letters(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, "-_ ");
        b += strspn(b, "-_ ");
        if (!*a || !*b)
            return *a == *b;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
    }
}

static void add_near(fs_text *out, const char *name, const char *known)
{
    size_t n = strlen(name);
    bool begins = n >= 3 && strncmp(known, name, n) == 0;
    if (begins || distance(known, name) <= 1 + (int)n / 3)
        fs_text_add(out, " %s", known);
}

/* The one that is meant, or all that look like it. */
static void list_near(fs_text *out, const char *name)
{
    const char *meant = NULL;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (same_letters(models[i]->name, name))
            meant = models[i]->name;
    for (const zoo_preset *p = zoo_presets; p->name; p++)
        if (same_letters(p->name, name))
            meant = p->name;
    if (meant) {
        fs_text_add(out, " %s", meant);
        return;
    }
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        add_near(out, name, models[i]->name);
    for (const zoo_preset *p = zoo_presets; p->name; p++)
        add_near(out, name, p->name);
}

static fs_status refuse_name(const char *said, size_t length, fs_err *err)
{
    fs_arena *scratch = fs_arena_create();
    fs_text near = {.arena = scratch};
    char *name =
        fs_strndup(scratch, said, length < MAX_NAME ? length : MAX_NAME);
    list_near(&near, name);
    fs_status status =
        fs_fail(err, FS_INVALID,
                "zoo: there is no model \"%s\"; %s%s%sthere are %s, and "
                "presets of them (flowsearch model zoo: lists all)",
                name, near.n ? "near it:" : "", near.n ? near.at : "",
                near.n ? "; " : "", zoo_names());
    fs_arena_destroy(scratch);
    return status;
}

static fs_status refuse_key(const zoo_model *model, const char *item,
                            fs_err *err)
{
    char known[256] = "";
    for (int32_t k = 0; k < ZOO_MAX_KEYS && model->keys[k].name; k++) {
        strcat(known, k ? " " : "");
        strcat(known, model->keys[k].name);
    }
    return fs_fail(err, FS_INVALID,
                   "zoo:%s: \"%.100s\" is no KEY=VALUE of "
                   "this model; its keys are %s",
                   model->name, item, known);
}

/* One "key=value"; each key once. */
static fs_status set_key(const zoo_model *model, char *item, fs_err *err,
                         bool *given, int64_t *value)
{
    char *equals = strchr(item, '='), *end;
    size_t n = equals ? (size_t)(equals - item) : 0;
    int32_t k = 0;
    while (k < ZOO_MAX_KEYS && model->keys[k].name &&
           (strlen(model->keys[k].name) != n ||
            strncmp(model->keys[k].name, item, n) != 0))
        k++;
    if (!equals || k == ZOO_MAX_KEYS || !model->keys[k].name)
        return refuse_key(model, item, err);
    const zoo_key *key = &model->keys[k];
    errno = 0;
    value[k] = strtoll(equals + 1, &end, 10);
    if (errno || end == equals + 1 || *end || value[k] < key->low ||
        value[k] > key->high)
        return fs_fail(err, FS_INVALID,
                       "zoo:%s: %.100s: a number from %lld to "
                       "%lld is wanted",
                       model->name, item, (long long)key->low,
                       (long long)key->high);
    if (given[k])
        return fs_fail(err, FS_INVALID, "zoo:%s: %s is given twice",
                       model->name, key->name);
    given[k] = true;
    return FS_OK;
}

/* The key by which key k says nothing; -1: it means something. */
static int32_t key_against(const zoo_model *model, int32_t k,
                           const int64_t *value)
{
    const zoo_need *need = &model->needs[k];
    if (need->with && value[need->with] <= 1)
        return need->with;
    for (int32_t i = 0; need->within && i < ZOO_MAX_KEYS && model->keys[i].name;
         i++)
        if (strcmp(model->keys[i].name, need->within) == 0)
            return value[k] > value[i] ? i : -1;
    return -1;
}

/* What the user said means something by the other values. */
static fs_status check_given(const zoo_model *model, const bool *given,
                             const int64_t *value, fs_err *err)
{
    for (int32_t k = 0; k < ZOO_MAX_KEYS && model->keys[k].name; k++) {
        int32_t by = given[k] ? key_against(model, k, value) : -1;
        if (by >= 0)
            return fs_fail(
                err, FS_INVALID, "zoo:%s: %s=%lld has no effect with %s=%lld",
                model->name, model->keys[k].name, (long long)value[k],
                model->keys[by].name, (long long)value[by]);
    }
    return FS_OK;
}

/* "key=value,.." over what stands in value[]. */
static fs_status parse_keys(const zoo_model *model, char *at, fs_err *err,
                            int64_t *value)
{
    bool given[ZOO_MAX_KEYS] = {false};
    while (at) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        FS_TRY(set_key(model, at, err, given, value));
        at = comma ? comma + 1 : NULL;
    }
    return check_given(model, given, value, err);
}

typedef struct request {
    const zoo_model *model;
    const zoo_preset *preset; /* or NULL */
    const char *name, *keys;  /* keys: from the comma on, or "" */
    int64_t samples;
} request;

static fs_status set_values(const request *r, fs_arena *arena, fs_err *err,
                            int64_t *value)
{
    for (int32_t k = 0; k < ZOO_MAX_KEYS; k++)
        value[k] = r->model->keys[k].usual;
    if (r->preset && r->preset->keys[0])
        FS_TRY(parse_keys(r->model, fs_strdup(arena, r->preset->keys), err,
                          value));
    if (!*r->keys)
        return FS_OK;
    return parse_keys(r->model, fs_strdup(arena, r->keys + 1), err, value);
}

static fs_status build(const request *r, ir_graph *graph, fs_err *err)
{
    int64_t value[ZOO_MAX_KEYS];
    FS_TRY(set_values(r, graph->arena, err, value));
    r->model->build(graph, value, r->samples);
    graph->scope = NULL;
    if (graph->infer && graph->err.status == FS_OK)
        ir_graph_prune(graph); /* labels that nobody reads */
    else
        ir_graph_rename(graph, graph->loss, "loss");
    graph->batch = r->samples;
    if (graph->err.status != FS_OK)
        return fs_fail(err, graph->err.status, "zoo:%s: %s", r->name,
                       graph->err.text);
    return FS_OK;
}

static fs_status find(const char *name, int64_t samples, fs_err *err,
                      request *r)
{
    size_t length = strcspn(name, ",");
    *r = (request){.model = find_model(name, length),
                   .keys = name + length,
                   .samples = samples};
    if (!r->model)
        r->preset = find_preset(name, length);
    if (r->preset)
        r->model = find_model(r->preset->model, strlen(r->preset->model));
    if (!r->model)
        return refuse_name(name, length, err);
    r->name = r->model->name;
    if (r->preset) /* with keys it is another network */
        r->name = *r->keys ? name : r->preset->name;
    if (samples < 1)
        return fs_fail(err, FS_INVALID, "zoo:%s: a batch of %lld samples",
                       r->name, (long long)samples);
    return FS_OK;
}

fs_status zoo_build(const char *spec, int64_t samples, fs_err *err,
                    ir_graph **out)
{
    return zoo_build_with(spec, &(zoo_options){.samples = samples}, err, out);
}

fs_status zoo_build_with(const char *spec, const zoo_options *options,
                         fs_err *err, ir_graph **out)
{
    const char *name = strncmp(spec, "zoo:", 4) == 0 ? spec + 4 : spec;
    request r;
    FS_TRY(find(name, options->samples, err, &r));
    ir_graph *graph = ir_graph_create(r.name);
    graph->digest = fs_hash_text(0, name);
    graph->infer = options->infer;
    if (options->tables)
        graph->shared = options->tables;
    fs_status status = build(&r, graph, err);
    if (status != FS_OK)
        ir_graph_destroy(graph);
    else
        *out = graph;
    return status;
}
