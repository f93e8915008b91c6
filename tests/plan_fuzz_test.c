/* A plan's file edited by hand into nonsense: each field, one after the other,
 * takes several other values, and bytes are flipped. Whatever stands there is
 * read and checked or refused with what and where; what is accepted is noted as
 * edited unless it says the same, and is sound: it ends under the actor
 * protocol, and a replay of its memory finds no two live pieces on one byte.
 * FS_LONG=1 takes every value and every byte. */
#include "plan_hand.h"

#include "base/json.h"
#include "plan_live.h"
#include "plan_world.h"

#include <unistd.h>

typedef struct fuzzing {
    ir_graph *g;
    hw_cluster *c;
    char path[64];
    json_t *root;
    char *text;
    size_t n;
    uint64_t digest, seed;
    bool whole;
    int32_t tried, unread, refused, same, edited;
    int32_t silent, unsound, speechless;
} fuzzing;

static const plan_origin origin = {.model = "mlp.onnx",
                                   .optimizer = "adam",
                                   .lr_schedule = "",
                                   .lr = 0.1,
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .epsilon = 1e-8,
                                   .cluster = "1x4:hand",
                                   .batch = 16,
                                   .seed = 42};

static fuzzing make_fuzzing(uint64_t seed)
{
    fuzzing x = {.seed = seed, .whole = getenv("FS_LONG") != NULL};
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_mesh mesh = {1, {2}};
    x.g = hand_mlp(2, 8, 8, 2);
    x.c = hand_cluster(x.g->arena, 1, 4, 0);
    plan_strategy *s = hand_stages(x.g, 2, mesh, arena);
    hand_signatures(x.g, s, 5, arena);
    plan *p = hand_lower(x.g, x.c, s, true, arena);
    snprintf(x.path, sizeof x.path, "plan_fuzz_test.%d.json", (int)getpid());
    if (plan_write(x.path, x.g, p, &origin, x.c, &err) != FS_OK ||
        fs_json_load(x.path, &err, &x.root) != FS_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    x.digest = plan_digest_of(x.g, p, &origin);
    x.text = json_dumps(x.root, FS_JSON_FORMAT);
    x.n = strlen(x.text);
    fs_arena_destroy(arena);
    return x;
}

/* ---- one file ---- */

/* Runs to its end, and no two live pieces share a byte. */
static bool is_sound(const fuzzing *x, const plan *p, fs_arena *arena)
{
    uint64_t seed = x->seed;
    bool sound = walk(p, POSTED, &seed, arena);
    for (int32_t r = 0; r < p->n_roles; r++)
        sound = sound && live_own_faults(&p->roles[r]) == 0 &&
                live_clashes(&p->roles[r], p->micro_batches, 3, NULL) == 0;
    return sound;
}

static void tell(int32_t *count, const char *what, const char *edit)
{
    if (++*count <= 5)
        printf("# %s: %s\n", what, edit);
}

/* A refusal names the file and the place in it. */
static void check_refusal(fuzzing *x, fs_status status, const fs_err *err,
                          const char *edit)
{
    const char *at = strstr(err->text, x->path);
    if (status != FS_INVALID || !at || strlen(at) < strlen(x->path) + 4)
        tell(&x->speechless, edit, err->text);
}

static void try_file(fuzzing *x, const char *edit)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    plan_origin o = {0};
    hw_cluster *stored = NULL;
    plan *p = NULL;
    plan_report report;
    x->tried++;
    fs_status status = plan_read_origin(x->path, arena, &err, &o, &stored);
    if (status == FS_OK)
        status = plan_read(x->path, x->g, x->c, arena, &err, &p);
    if (status != FS_OK) {
        x->unread++;
        check_refusal(x, status, &err, edit);
    } else if (plan_check(x->g, x->c, p, arena, &report) != FS_OK) {
        x->refused++;
        if (report.n == 0 || report.findings[0].text[0] == '\0')
            tell(&x->speechless, "refused without a word", edit);
    } else {
        bool same = p->digest == x->digest;
        ++*(same ? &x->same : &x->edited);
        if (!same && !p->edited)
            tell(&x->silent, "another plan, not noted as edited", edit);
        if (!is_sound(x, p, arena))
            tell(&x->unsound, "accepted and not sound", edit);
        if (getenv("FS_SHOW") && !same)
            printf("# accepted: %s\n", edit);
    }
    fs_arena_destroy(arena);
}

static void write_text(const fuzzing *x, const char *text, size_t n)
{
    FILE *f = fopen(x->path, "wb");
    if (!f || fwrite(text, 1, n, f) != n || fclose(f) != 0)
        exit(1);
}

/* ---- each field ---- */

static void try_root(fuzzing *x, const char *where, const char *what)
{
    char edit[300];
    snprintf(edit, sizeof edit, "%.200s %.80s", where, what);
    char *text = json_dumps(x->root, JSON_COMPACT);
    write_text(x, text, strlen(text));
    free(text);
    try_file(x, edit);
}

static json_t *other_values(const json_t *old)
{
    json_t *list = json_array();
    json_int_t i = json_integer_value(old);
    const json_int_t whole[] = {i + 1,   i - 1,     0,         1,
                                -1,      2 * i,     256,       i + 256,
                                i - 256, INT32_MAX, INT64_MAX, INT64_MIN};
    static const char *const texts[] = {
        "",     "B",       "S(0)",       "S(1)",      "P",    "forward", "end",
        "box",  "compute", "all-gather", "slice",     "x",    "w0",      "w0.m",
        "comm", "recv",    "gpipe",      "forward 1", "relu", "P(max)"};
    for (size_t k = 0; json_is_integer(old) && k < 12; k++)
        json_array_append_new(list, json_integer(whole[k]));
    for (size_t k = 0; json_is_string(old) && k < 20; k++)
        json_array_append_new(list, json_string(texts[k]));
    json_array_append_new(list, json_boolean(!json_is_true(old)));
    json_array_append_new(list, json_null());
    json_array_append_new(list, json_real(0.5));
    json_array_append_new(list, json_array());
    return list;
}

/* All of it, or one in a few. */
static bool takes(fuzzing *x, int32_t few)
{
    return x->whole || fs_rand_below(&x->seed, few) == 0;
}

/* Each value in turn, or one of them. */
static void try_values(fuzzing *x, const char *where, json_t *in,
                       const char *key, size_t index)
{
    json_t *old =
        json_incref(key ? json_object_get(in, key) : json_array_get(in, index));
    json_t *values = other_values(old), *value;
    size_t i, n = json_array_size(values);
    size_t chosen = (size_t)fs_rand_below(&x->seed, (int64_t)n);
    json_array_foreach(values, i, value)
    {
        if (json_equal(value, old) || (!x->whole && i != chosen))
            continue;
        key ? json_object_set(in, key, value)
            : json_array_set(in, index, value);
        char *text = json_dumps(value, JSON_ENCODE_ANY);
        try_root(x, where, text);
        free(text);
    }
    key ? json_object_set(in, key, old) : json_array_set(in, index, old);
    json_decref(values);
    json_decref(old);
}

/* Items of a list missing, twice, or exchanged. */
static void try_list(fuzzing *x, const char *where, json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *item = json_incref(json_array_get(list, i));
        if (takes(x, 8)) {
            json_array_remove(list, i);
            try_root(x, where, fs_printf(x->g->arena, "less item %zu", i));
            json_array_insert(list, i, item);
        }
        if (takes(x, 8)) {
            json_array_insert(list, i, item);
            try_root(x, where, fs_printf(x->g->arena, "item %zu twice", i));
            json_array_remove(list, i);
        }
        if (i > 0 && takes(x, 8)) {
            json_t *before = json_incref(json_array_get(list, i - 1));
            json_array_set(list, i - 1, item);
            json_array_set(list, i, before);
            try_root(x, where,
                     fs_printf(x->g->arena, "items %zu and before swapped", i));
            json_array_set(list, i, item);
            json_array_set(list, i - 1, before);
            json_decref(before);
        }
        json_decref(item);
    }
}

static void try_missing(fuzzing *x, const char *where, json_t *in,
                        const char *key)
{
    json_t *old = json_incref(json_object_get(in, key));
    json_object_del(in, key);
    try_root(x, where, "missing");
    json_object_set_new(in, key, old);
}

static void try_fields(fuzzing *x, const char *where, json_t *at);

static void try_item(fuzzing *x, const char *where, json_t *in, const char *key,
                     size_t index)
{
    json_t *item = key ? json_object_get(in, key) : json_array_get(in, index);
    if (json_is_object(item) || json_is_array(item))
        try_fields(x, where, item);
    else
        try_values(x, where, in, key, index);
    if (key && takes(x, 8))
        try_missing(x, where, in, key);
}

static void try_fields(fuzzing *x, const char *where, json_t *at)
{
    const char *key;
    json_t *item, *keys = json_array();
    size_t i;
    json_object_foreach(at, key, item)
        json_array_append_new(keys, json_string(key));
    json_array_foreach(keys, i, item)
    {
        key = json_string_value(item);
        try_item(x, fs_printf(x->g->arena, "%s.%s", where, key), at, key, 0);
    }
    for (i = 0; json_is_array(at) && i < json_array_size(at); i++)
        try_item(x, fs_printf(x->g->arena, "%s[%zu]", where, i), at, NULL, i);
    if (json_is_array(at))
        try_list(x, where, at);
    json_decref(keys);
}

/* ---- each byte ---- */

static void try_bytes(fuzzing *x)
{
    for (size_t i = 0; i < x->n; i++) {
        char edit[64], old = x->text[i];
        if (!takes(x, 30))
            continue;
        x->text[i] = (char)(old ^ (1 << fs_rand_below(&x->seed, 8)));
        snprintf(edit, sizeof edit, "byte %zu: '%c' for '%c'", i, x->text[i],
                 old);
        write_text(x, x->text, x->n);
        try_file(x, edit);
        x->text[i] = old;
    }
}

static void conclude(fuzzing *x, const char *what)
{
    tap_equal_int(x->silent, 0, "%s: no other plan passes unnoted", what);
    tap_equal_int(x->unsound, 0, "%s: what is accepted is sound", what);
    tap_equal_int(x->speechless, 0, "%s: each refusal says what and where",
                  what);
    tap_ok(x->tried > 1000 && x->unread > 0 && x->refused > 0,
           "%s: %d edits, %d refused by the reader, %d by the check", what,
           x->tried, x->unread, x->refused);
    printf("# %s: %d say the same, %d are other sound plans\n", what, x->same,
           x->edited);
    x->tried = x->unread = x->refused = x->same = x->edited = 0;
}

int main(void)
{
    fuzzing x = make_fuzzing(tap_seed(31));
    try_file(&x, "nothing");
    tap_ok(x.same == 1, "the file as written is the plan");
    try_fields(&x, "", x.root);
    conclude(&x, "fields");
    try_bytes(&x);
    conclude(&x, "bytes");
    unlink(x.path);
    json_decref(x.root);
    free(x.text);
    ir_graph_destroy(x.g);
    return tap_done();
}
