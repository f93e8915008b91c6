/* Fields of `origin` in a plan's file edited by hand, as the program answers:
 * each is taken away, made another type, set out of range and to another value
 * that is legal in itself. An edit is refused with status 2 and one line that
 * names the file and the field, or it makes a sound plan that is told to be
 * edited (or says the same as before), or, where only sizes of the training
 * graph change, one whose faults are told. No message names a flag: none was
 * given. */
#include "config.h"
#include "tests/run_cli.h"

#include <stdint.h>

typedef struct trial {
    const char *plan; /* file in $D */
    json_t *root;
    int tried, refused, edited, same, unsound, wrong;
} trial;

static int lines(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* "origin.FIELD", or a list of the fields that shape a graph. */
static bool names_field(const char *text, const char *field)
{
    const char *origin = strstr(text, "origin");
    return origin && strstr(text, "edited.json: ") && strstr(origin, field);
}

/* What the file then says does not go with another field: that one is named. */
static bool goes_with(const char *text, const char *field)
{
    static const char *const pairs[][2] = {
        {"model", "origin.recompute: "},  {"model", "origin.padding: "},
        {"model", "origin.loss: "},       {"model", "origin.params: "},
        {"model", "origin.binds: "},      {"cluster", "cluster is missing"},
        {"model", "origin.compressed: "}, {"precision", "origin.loss_scale"}};
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++)
        if (strcmp(field, pairs[k][0]) == 0 && strstr(text, pairs[k][1]))
            return strstr(text, "edited.json: ") != NULL;
    return false;
}

static bool is_refused(const cli_answer *a, const char *field)
{
    return a->status == 2 && lines(a->err) == 1 && !a->out[0] &&
           !strstr(a->err, " --") &&
           (names_field(a->err, field) || goes_with(a->err, field));
}

static void try_edit(trial *t, const char *field, const char *what)
{
    char path[700];
    snprintf(path, sizeof path, "%s/edited.json", cli_scratch);
    if (json_dump_file(t->root, path, JSON_COMPACT) != 0)
        exit(1);
    const cli_answer *a = cli("check \"$D/edited.json\" --db none");
    const bool refused = is_refused(a, field);
    const bool noted = a->status == 0 && strstr(a->out, "edited by hand");
    const bool same = a->status == 0 && !noted;
    const bool unsound = a->status == 1 && strstr(a->err, "is not sound");
    t->tried++;
    t->refused += refused;
    t->edited += noted;
    t->same += same;
    t->unsound += unsound;
    if (refused || unsound || a->status == 0)
        return;
    t->wrong++;
    printf("# %s: origin.%s %s\n", t->plan, field, what);
    cli_show(a);
}

static void try_value(trial *t, const char *field, json_t *value)
{
    json_t *origin = json_object_get(t->root, "origin");
    json_t *old = json_incref(json_object_get(origin, field));
    char *what = json_dumps(value, JSON_ENCODE_ANY);
    if (!old || !json_equal(old, value)) {
        json_object_set(origin, field, value);
        try_edit(t, field, what);
        old ? json_object_set(origin, field, old)
            : json_object_del(origin, field);
    }
    free(what);
    json_decref(old);
    json_decref(value);
}

static void try_missing(trial *t, const char *field)
{
    json_t *origin = json_object_get(t->root, "origin");
    json_t *old = json_incref(json_object_get(origin, field));
    if (!old)
        return;
    json_object_del(origin, field);
    try_edit(t, field, "taken away");
    json_object_set_new(origin, field, old);
}

static void try_types(trial *t, const char *field)
{
    try_value(t, field, json_null());
    try_value(t, field, json_true());
    try_value(t, field, json_integer(7));
    try_value(t, field, json_real(0.5));
    try_value(t, field, json_string("no such thing"));
    try_value(t, field, json_pack("[i]", 1));
    try_value(t, field, json_pack("{s:i}", "a", 1));
}

static void try_range(trial *t, const char *field)
{
    const json_t *origin = json_object_get(t->root, "origin");
    const json_t *old = json_object_get(origin, field);
    if (json_is_string(old)) {
        try_value(t, field, json_string(""));
        try_value(t, field, json_string("("));
        try_value(t, field, json_sprintf("%0400d", 7));
    }
    for (int k = 0; json_is_number(old) && k < 5; k++)
        try_value(t, field,
                  json_integer((const json_int_t[]){-5, INT64_MIN, INT64_MAX,
                                                    INT32_MAX, 0}[k]));
    for (int k = 0; json_is_real(old) && k < 3; k++)
        try_value(t, field, json_real((const double[]){-0.1, 1e308, 1e39}[k]));
    if (json_is_array(old)) {
        try_value(t, field, json_pack("[s]", ""));
        try_value(t, field, json_pack("[s]", "no such thing=1"));
        try_value(t, field, json_pack("[s,s]", "time=0", "="));
    }
}

static const char *const fields[] = {
    "model",       "loss",         "params",        "rewrite",
    "dropout",     "recompute",    "optimizer",     "lr",
    "lr_schedule", "weight_decay", "momentum",      "beta1",
    "beta2",       "epsilon",      "clip_norm",     "precision",
    "loss_scale",  "states",       "compress",      "compressed",
    "cluster",     "batch",        "micro_batches", "binds",
    "padding",     "seed",         "iteration_s",   "sim_iteration_s",
    "memory_bytes"};
enum { N_FIELDS = sizeof fields / sizeof *fields };

/* Values that are right elsewhere, as JSON. */
static void try_others(trial *t)
{
    static const char *const rows[][2] = {
        {"model", "\"zoo:mlp\""},
        {"model", "\"zoo:mlp,in=9\""},
        {"model", "\"zoo:gpt,layers=1,hidden=8,heads=2,vocab=9,seq=4\""},
        {"model", "\"zoo:mlp,depth=3\""},
        {"model", "\"absent.onnx\""},
        {"loss", "\"mse\""},
        {"params", "\".*\""},
        {"rewrite", "\"none\""},
        {"rewrite", "\"usual,-common\""},
        {"dropout", "false"},
        {"recompute", "\"\""},
        {"recompute", "\"block\""},
        {"recompute", "\".*\""},
        {"optimizer", "\"sgd\""},
        {"optimizer", "\"lamb\""},
        {"lr", "0.25"},
        {"lr_schedule", "\"cosine,steps=100,warmup=3\""},
        {"weight_decay", "0.25"},
        {"momentum", "0.25"},
        {"beta1", "0.25"},
        {"beta2", "0.25"},
        {"epsilon", "0.25"},
        {"clip_norm", "0.25"},
        {"precision", "\"fp32\""},
        {"precision", "\"bf16\""},
        {"loss_scale", "\"128\""},
        {"loss_scale", "\"dynamic,steps=7\""},
        {"states", "\"fp32\""},
        {"states", "\"bf16\""},
        {"states", "\"any\""},
        {"compress", "\"bf16\""},
        {"compress", "\"powersgd:1\""},
        {"compress", "\"powersgd:4096\""},
        {"cluster", "\"1x2:cpu\""},
        {"cluster", "\"local\""},
        {"cluster", "\"absent.json\""},
        {"batch", "8"},
        {"batch", "24"},
        {"batch", "17"},
        {"micro_batches", "1"},
        {"micro_batches", "4"},
        {"micro_batches", "5"},
        {"binds", "[\"time=16\"]"},
        {"padding", "[\"tok.weight=3\"]"},
        {"seed", "3"},
        {"memory_bytes", "1048576"},
        {"memory_bytes", "0"},
        {"memory_bytes", "-1"},
        {"memory_bytes", "\"1M\""},
        {"iteration_s", "0.25"},
        {"sim_iteration_s", "0.25"},
        {"no_such_field", "1"}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        try_value(t, rows[k][0], json_loads(rows[k][1], JSON_DECODE_ANY, NULL));
}

static void test_plan(const char *name, const char *words)
{
    char path[700];
    trial t = {.plan = name};
    const cli_answer *a =
        cli("plan %s --db none -o \"$D/%s.json\"", words, name);
    snprintf(path, sizeof path, "%s/%s.json", cli_scratch, name);
    t.root = json_load_file(path, 0, NULL);
    tap_ok(a->status == 0 && t.root, "%s: a plan is made", name);
    if (!t.root) {
        cli_show(a);
        return;
    }
    for (int i = 0; i < N_FIELDS; i++) {
        try_missing(&t, fields[i]);
        try_types(&t, fields[i]);
        try_range(&t, fields[i]);
    }
    try_others(&t);
    tap_equal_int(t.wrong, 0,
                  "%s: each of %d edits is refused by file and field (%d) or "
                  "makes a sound plan",
                  name, t.tried, t.refused);
    tap_ok(t.tried > 250 && t.refused > t.tried / 2 && t.edited > 10,
           "%s: %d are told to be edited, %d say the same, %d are not sound",
           name, t.edited, t.same, t.unsound);
    json_decref(t.root);
}

int main(void)
{
    cli_begin_scratch("origin");
    test_plan("mlp", "zoo:mlp,in=8,hidden=16,layers=4,classes=4 --cluster "
                     "1x4:l4 --batch 16 --pp 2 --dp 2 --micro-batches 2 "
                     "--recompute block --clip-norm 1 --precision fp16 "
                     "--lr-schedule linear,steps=9 --optimizer adam "
                     "--states bf16");
    test_plan("gpt", "\"$S/datasets/models/gpt_bytes.dyn.onnx\" "
                     "--cluster 1x2:cpu --batch 16 --dp 2 --micro-batches 2 "
                     "--padding tok.weight=3");
    test_plan("packed", "zoo:mlp,in=256,hidden=256,layers=2,classes=8 "
                        "--cluster 2x1:cpu --batch 16 --dp 2 "
                        "--compress powersgd:2");
    cli_end_scratch();
    return tap_done();
}
