/* Recipes as they are written: "dp=2,tp=2,schedule=gpipe". */
#include "config.h"
#include "search/recipe/recipe.h"

#include "plan/schedule.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { RECIPE_MOST = 1 << 20, RECIPE_DIGITS = 9 };

typedef enum key_kind { KEY_INT32, KEY_INT64, KEY_TEXT, KEY_PART } key_kind;

typedef struct recipe_key {
    const char *name;
    key_kind kind;
    int32_t low, high;
    size_t offset, each; /* each: of a KEY_PART's search_each */
} recipe_key;

#define NUMBER_KIND(field)                                                     \
    (sizeof((search_recipe *)NULL)->field == sizeof(int64_t) ? KEY_INT64       \
                                                             : KEY_INT32)
static const recipe_key keys[] = {
#define RECIPE_PART(key, field)                                                \
    {key,                                                                      \
     KEY_PART,                                                                 \
     1,                                                                        \
     RECIPE_MOST,                                                              \
     offsetof(search_recipe, field),                                           \
     offsetof(search_recipe, field##_each)},
#define RECIPE_NUMBER(key, field, low, high)                                   \
    {key, NUMBER_KIND(field), low, high, offsetof(search_recipe, field), 0},
#define RECIPE_TEXT(key, field)                                                \
    {key, KEY_TEXT, 0, 0, offsetof(search_recipe, field), 0},
#include "search/recipe/recipe_keys.def"
#undef RECIPE_PART
#undef RECIPE_NUMBER
#undef RECIPE_TEXT
};

static const char key_names[] =
#define RECIPE_PART(key, ...) key ", "
#define RECIPE_NUMBER(key, ...) key ", "
#define RECIPE_TEXT(key, ...) key ", "
#include "search/recipe/recipe_keys.def"
#undef RECIPE_PART
#undef RECIPE_NUMBER
#undef RECIPE_TEXT
    "layers";

search_recipe search_recipe_free(void)
{
    return (search_recipe){.zero = -1, .seq_parallel = -1};
}

static const recipe_key *find_key(const char *name)
{
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
        if (strcmp(keys[k].name, name) == 0)
            return &keys[k];
    return NULL;
}

static bool read_number(const char *text, int32_t low, int32_t high,
                        int32_t *out)
{
    char *end;
    long number = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || strlen(text) > RECIPE_DIGITS ||
        *end || number < low || number > high)
        return false;
    *out = (int32_t)number;
    return true;
}

static fs_status set_number(const recipe_key *key, const char *text,
                            fs_err *err, search_recipe *out)
{
    char *field = (char *)out + key->offset;
    const bool wide = key->kind == KEY_INT64;
    int32_t number;
    if (!read_number(text, key->low, key->high, &number))
        return fs_fail(err, FS_INVALID,
                       "recipe: %s=%.40s, a number from %d to %d is wanted",
                       key->name, text, key->low, key->high);
    int64_t before = wide ? *(const int64_t *)(const void *)field
                          : *(const int32_t *)(const void *)field;
    if (before >= key->low && before != number)
        return fs_fail(err, FS_INVALID,
                       "recipe: %s=%lld and %s=%d contradict each other; "
                       "give one",
                       key->name, (long long)before, key->name, number);
    if (wide)
        memcpy(field, &(int64_t){number}, sizeof(int64_t));
    else
        memcpy(field, &number, sizeof number);
    return FS_OK;
}

static fs_status set_text(const recipe_key *key, const char *text,
                          fs_arena *arena, fs_err *err, search_recipe *out)
{
    const char **field = (const char **)(void *)((char *)out + key->offset);
    if (*field && strcmp(*field, text) != 0)
        return fs_fail(err, FS_INVALID,
                       "recipe: %s=%.40s and %s=%.40s contradict each other; "
                       "give one",
                       key->name, *field, key->name, text);
    *field = fs_strdup(arena, text);
    return FS_OK;
}

/* "5" is one stage's, "5x3" that of three in a row. */
static bool read_group(char *text, int32_t low, int32_t *number, int32_t *times)
{
    char *cross = strchr(text, 'x');
    *times = 1;
    if (cross)
        *cross++ = '\0';
    return read_number(text, low, RECIPE_MOST, number) &&
           (!cross || read_number(cross, 1, RECIPE_MOST, times));
}

/* "5/7x2": a number of each stage. */
static bool read_each(const char *text, int32_t low, fs_arena *arena,
                      search_each *out)
{
    FS_VEC(int32_t) list = {0};
    for (char *at = fs_strdup(arena, text); at;) {
        int32_t number, times;
        char *slash = strchr(at, '/');
        if (slash)
            *slash++ = '\0';
        if (!read_group(at, low, &number, &times) ||
            times > RECIPE_MOST - list.n)
            return false;
        for (int32_t i = 0; i < times; i++)
            fs_push(arena, &list, number);
        at = slash;
    }
    *out = (search_each){list.n, list.at};
    return true;
}

static bool same_each(const search_each *a, const search_each *b)
{
    return a->n == b->n &&
           memcmp(a->at, b->at, (size_t)a->n * sizeof *a->at) == 0;
}

static fs_status contradict(const char *key, const char *text, fs_err *err)
{
    return fs_fail(err, FS_INVALID,
                   "recipe: %s=%.40s and other %s before it contradict each "
                   "other; give one",
                   key, text, key);
}

/* "5", or "5+9": five blocks and nine nodes. */
static bool read_run(char *text, search_layers *run, int32_t *times)
{
    char *plus = strchr(text, '+'), *cross = strchr(text, 'x');
    *times = 1;
    run->nodes = 0;
    if (cross)
        *cross++ = '\0';
    if (plus)
        *plus++ = '\0';
    return read_number(text, 0, RECIPE_MOST, &run->blocks) &&
           (!plus || read_number(plus, 0, RECIPE_MOST, &run->nodes)) &&
           (!cross || read_number(cross, 1, RECIPE_MOST, times));
}

typedef FS_VEC(search_layers) run_list;

static bool read_runs(const char *text, fs_arena *arena, run_list *out)
{
    for (char *at = fs_strdup(arena, text); at;) {
        search_layers run;
        int32_t times;
        char *slash = strchr(at, '/');
        if (slash)
            *slash++ = '\0';
        if (!read_run(at, &run, &times) || times > RECIPE_MOST - out->n)
            return false;
        for (int32_t i = 0; i < times; i++)
            fs_push(arena, out, run);
        at = slash;
    }
    return true;
}

static bool same_run(search_layers a, search_layers b)
{
    return a.blocks == b.blocks && a.nodes == b.nodes;
}

const char *search_layers_text(const search_layers *layers, int32_t n,
                               fs_arena *arena)
{
    fs_text text = {.arena = arena};
    for (int32_t p = 0, times; p < n; p += times) {
        times = 1;
        while (p + times < n && same_run(layers[p], layers[p + times]))
            times++;
        fs_text_add(&text, "%s%d", p ? "/" : "", layers[p].blocks);
        if (layers[p].nodes)
            fs_text_add(&text, "+%d", layers[p].nodes);
        if (times > 1)
            fs_text_add(&text, "x%d", times);
    }
    return text.at;
}

static bool same_runs(const run_list *a, const search_recipe *b)
{
    bool same = a->n == b->n_layers;
    for (int32_t p = 0; same && p < a->n; p++)
        same = same_run(a->at[p], b->layers[p]);
    return same;
}

static fs_status set_layers(const char *text, fs_arena *arena, fs_err *err,
                            search_recipe *out)
{
    run_list each = {0};
    if (!read_runs(text, arena, &each))
        return fs_fail(err, FS_INVALID,
                       "recipe: layers=%.40s, numbers of blocks as 5/7 or "
                       "0/1x6/0 are wanted, one per stage (NxK: K stages of N; "
                       "N+M: and M forward ops)",
                       text);
    if (out->n_layers && !same_runs(&each, out))
        return contradict("layers", text, err);
    out->n_layers = each.n;
    out->layers = each.at;
    return FS_OK;
}

static fs_status set_part(const recipe_key *key, const char *text,
                          fs_arena *arena, fs_err *err, search_recipe *out)
{
    search_each *each = (search_each *)(void *)((char *)out + key->each), said;
    int32_t *first = (int32_t *)(void *)((char *)out + key->offset);
    if (!strpbrk(text, "/x") && each->n == 0)
        return set_number(key, text, err, out);
    if (!read_each(text, key->low, arena, &said))
        return fs_fail(
            err, FS_INVALID,
            "recipe: %s=%.40s, numbers from %d to %d are wanted, one "
            "for all stages or as 4/2x3 one per stage (NxK: K stages of N)",
            key->name, text, key->low, key->high);
    if (*first && (each->n == 0 || !same_each(each, &said)))
        return contradict(key->name, text, err);
    *first = said.at[0];
    *each = said;
    return FS_OK;
}

static fs_status check_texts(const search_recipe *r, fs_err *err)
{
    if (r->schedule && !plan_schedule_find(r->schedule))
        return fs_fail(err, FS_INVALID, "recipe: unknown schedule '%.40s' (%s)",
                       r->schedule, plan_schedule_names());
    return FS_OK;
}

fs_status search_recipe_set(const char *name, const char *value,
                            fs_arena *arena, fs_err *err, search_recipe *out)
{
    search_recipe recipe = *out;
    const recipe_key *key = find_key(name);
    if (key && key->kind == KEY_TEXT)
        FS_TRY(set_text(key, value, arena, err, &recipe));
    else if (key && key->kind == KEY_PART)
        FS_TRY(set_part(key, value, arena, err, &recipe));
    else if (key)
        FS_TRY(set_number(key, value, err, &recipe));
    else if (strcmp(name, "layers") == 0)
        FS_TRY(set_layers(value, arena, err, &recipe));
    else
        return fs_fail(err, FS_INVALID, "recipe: unknown key '%.40s' (%s)",
                       name, key_names);
    FS_TRY(check_texts(&recipe, err));
    *out = recipe;
    return FS_OK;
}

static fs_status parse_item(char *item, fs_arena *arena, fs_err *err,
                            search_recipe *out)
{
    char *value = strchr(item, '=');
    if (!value)
        return fs_fail(err, FS_INVALID, "recipe: '%.40s' is not key=value (%s)",
                       item, key_names);
    *value++ = '\0';
    return search_recipe_set(item, value, arena, err, out);
}

fs_status search_recipe_parse(const char *text, fs_arena *arena, fs_err *err,
                              search_recipe *out)
{
    search_recipe recipe = *out;
    for (char *at = fs_strdup(arena, text); at;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma++ = '\0';
        FS_TRY(parse_item(at, arena, err, &recipe));
        at = comma;
    }
    *out = recipe;
    return FS_OK;
}
