#include "plan_hand.h"

#include <unistd.h>

typedef struct bench {
    fs_arena *arena;
    ir_graph *g;
    hw_cluster *c;
    plan *p;
    char path[64];
} bench;

static const char *binds[] = {"batch=8", "seq=4"};

static const char *padding[] = {"table=0"};

static const plan_origin origin = {.model = "mlp.onnx",
                                   .loss = "mse",
                                   .params = "w.*",
                                   .rewrite = "-gelu",
                                   .dropout = true,
                                   .optimizer = "adam",
                                   .lr_schedule = "cosine,steps=9",
                                   .lr = 0.1 + 0.2,
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .epsilon = 1e-8,
                                   .cluster = "1x4:hand",
                                   .batch = 32,
                                   .n_binds = 2,
                                   .binds = binds,
                                   .n_padding = 1,
                                   .padding = padding,
                                   .seed = 42,
                                   .iteration_s = 1.0 / 3,
                                   .sim_iteration_s = 0.25};

static bench make_bench(void)
{
    bench b = {.arena = fs_arena_create()};
    ir_mesh mesh = {1, {2}};
    b.g = hand_mlp(2, 8, 8, 4);
    b.c = hand_cluster(b.arena, 1, 4, 0);
    plan_strategy *s = hand_stages(b.g, 2, mesh, b.arena);
    hand_signatures(b.g, s, 5, b.arena);
    b.p = hand_lower(b.g, b.c, s, true, b.arena);
    snprintf(b.path, sizeof b.path, "plan_text_test.%d.json", (int)getpid());
    return b;
}

static char *slurp(const char *path, fs_arena *arena)
{
    FILE *f = fopen(path, "rb");
    char *text = fs_new(arena, char, 1 << 22);
    size_t n = f ? fread(text, 1, (1 << 22) - 1, f) : 0;
    text[n] = '\0';
    if (f)
        fclose(f);
    return text;
}

static void spill(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    fputs(text, f);
    fclose(f);
}

static fs_status reread(bench *b, fs_err *err, plan **p)
{
    *err = (fs_err){0};
    return plan_read(b->path, b->g, b->c, b->arena, err, p);
}

static void test_round_trip(bench *b)
{
    fs_err err = {0};
    plan *p = NULL;
    plan_report report;
    tap_equal_int(plan_write(b->path, b->g, b->p, &origin, b->c, &err), FS_OK,
                  "a plan is written");
    const char *first = slurp(b->path, b->arena);
    tap_equal_int(reread(b, &err, &p), FS_OK, "a plan is read back");
    if (!p) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    plan_write(b->path, b->g, p, &origin, b->c, &err);
    tap_ok(strcmp(first, slurp(b->path, b->arena)) == 0,
           "written again it is the same text");
    tap_ok(p->digest == plan_digest_of(b->g, b->p, &origin), "digests agree");
    tap_ok(!p->edited, "what was written is not marked as edited");
    tap_equal_int(plan_check(b->g, b->c, p, b->arena, &report), FS_OK,
                  "what was read is sound");
    plan *other = hand_copy(b->p, b->arena);
    other->roles[0].registers[0].count++;
    other->roles[0].registers[0].offset =
        fs_new(b->arena, int64_t, other->roles[0].registers[0].count);
    tap_ok(plan_digest_of(b->g, other, &origin) != p->digest,
           "another plan has another digest");
}

/* Plans of which a role runs several stages, more than there are devices. */
static void test_chunks(void)
{
    static const char *const schedules[] = {"interleaved", "zb-v"};
    for (int32_t k = 0; k < 2; k++) {
        bench b = {.arena = fs_arena_create()};
        plan_report report;
        fs_err err = {0};
        plan *p = NULL;
        b.g = hand_mlp(8, 8, 8, 3);
        b.c = hand_cluster(b.arena, 1, 2, 0);
        plan_strategy *s = hand_stages(b.g, 4, (ir_mesh){1, {1}}, b.arena);
        hand_place(s, schedules[k], 2);
        hand_signatures(b.g, s, 0, b.arena);
        b.p = hand_lower(b.g, b.c, s, false, b.arena);
        snprintf(b.path, sizeof b.path, "plan_text_chunks.%d.json",
                 (int)getpid());
        plan_write(b.path, b.g, b.p, &origin, b.c, &err);
        tap_ok(reread(&b, &err, &p) == FS_OK && !p->edited &&
                   plan_check(b.g, b.c, p, b.arena, &report) == FS_OK,
               "%s: a plan of 4 stages on 2 devices is read back, unedited "
               "and sound%s%s",
               schedules[k], err.text[0] ? ": " : "", err.text);
        unlink(b.path);
        ir_graph_destroy(b.g);
        fs_arena_destroy(b.arena);
    }
}

/* Files leave out the boxing of edges that need none, not how their tensors
 * lie. */
static void test_edges(bench *b)
{
    fs_err err;
    plan *p = NULL;
    int32_t unboxed = 0, cut = 0, wrong = 0;
    if (reread(b, &err, &p) != FS_OK)
        return;
    const plan_strategy *want = b->p->strategy, *got = p->strategy;
    for (int32_t e = 0; e < want->n_edges; e++) {
        const plan_boxing *x = &want->edge[e], *y = &got->edge[e];
        unboxed += x->n == 0;
        cut += x->n == 0 && x->at[0].at[0].kind == IR_S;
        wrong += x->n != y->n;
        for (int32_t k = 0; k <= x->n && k <= y->n; k++)
            wrong += !ir_nd_sbp_equal(&x->at[k], &y->at[k], 1);
    }
    printf("# %d edges without boxing, %d of them cut\n", unboxed, cut);
    tap_ok(cut > 0, "some tensors are cut and read as they lie");
    tap_equal_int(wrong, 0, "every edge lies as it was written");
}

/* Of what a probe made the cluster that stands in the file. */
static void test_made_from(bench *b)
{
    static const struct {
        const char *json, *says;
    } rows[] = {{"7", "cluster.made_from is no text"},
                {"\"../../x\"", "cluster.made_from is '../../x'"},
                {NULL, "cluster.made_from is missing"}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        fs_err err = {0};
        plan_origin o;
        hw_cluster *cluster;
        char path[600];
        snprintf(path, sizeof path, "%s.made", b->path);
        json_t *root = json_load_file(b->path, 0, NULL);
        json_t *in = json_object_get(root, "cluster");
        json_object_del(in, "made_from");
        if (rows[k].json)
            json_object_set_new(
                in, "made_from",
                json_loads(rows[k].json, JSON_DECODE_ANY, NULL));
        fs_json_save(root, path, &err);
        json_decref(root);
        fs_status status = plan_read_origin(path, b->arena, &err, &o, &cluster);
        tap_ok(status == FS_INVALID && strstr(err.text, rows[k].says),
               "refused: %s", err.text);
        unlink(path);
    }
}

static void test_origin(bench *b)
{
    fs_err err = {0};
    plan_origin o;
    hw_cluster *cluster = b->c;
    tap_equal_int(plan_read_origin(b->path, b->arena, &err, &o, &cluster),
                  FS_OK, "the origin is read");
    tap_equal_text(o.model, origin.model, "model");
    tap_equal_text(o.optimizer, origin.optimizer, "optimizer");
    tap_ok(strcmp(o.params, "w.*") == 0 && strcmp(o.rewrite, "-gelu") == 0 &&
               o.dropout,
           "options of the import");
    tap_ok(o.lr == origin.lr && o.iteration_s == origin.iteration_s,
           "numbers keep all their bits");
    tap_equal_int(o.micro_batches, 4, "micro-batches come from the plan");
    tap_ok(o.n_binds == 2 && strcmp(o.binds[1], "seq=4") == 0, "binds");
    tap_ok(o.n_padding == 1 && strcmp(o.padding[0], "table=0") == 0,
           "padding rows");
    tap_ok(cluster == NULL, "a cluster with a spec is not stored");
    plan_origin local = origin;
    local.cluster = "local";
    const char *name = b->c->name;
    b->c->host = "box";
    b->c->name = "local";
    plan_write(b->path, b->g, b->p, &local, b->c, &err);
    tap_equal_int(plan_read_origin(b->path, b->arena, &err, &o, &cluster),
                  FS_OK, "the origin of a plan for `local` is read");
    tap_ok(cluster && cluster->digest == b->c->digest,
           "what was probed comes with the plan, digest and all");
    test_made_from(b);
    b->c->name = name;
    local.cluster = "box.json";
    plan_write(b->path, b->g, b->p, &local, b->c, &err);
    b->c->host = NULL;
    tap_equal_int(plan_read_origin(b->path, b->arena, &err, &o, &cluster),
                  FS_OK, "that of a plan for a probed host's file too");
    tap_ok(cluster == NULL, "and the file has to be read again");
    plan_write(b->path, b->g, b->p, &origin, b->c, &err);
}

static uint64_t digest_with(const bench *b, plan_origin o)
{
    return plan_digest_of(b->g, b->p, &o);
}

/* The digest stands for what is computed and predicted, not for where model
 * and cluster lie: those have digests of their own. */
static void test_digest(bench *b)
{
    uint64_t usual = digest_with(b, origin);
#define WITH(field, value)                                                     \
    (digest_with(b, (other = origin, other.field = (value), other)) != usual)
    plan_origin other;
    tap_ok(WITH(lr, 0.5) && WITH(weight_decay, 0.5) && WITH(momentum, 0.5) &&
               WITH(beta1, 0.5) && WITH(beta2, 0.5) && WITH(epsilon, 0.5) &&
               WITH(clip_norm, 0.5),
           "digest: every figure of the optimizer counts");
    tap_ok(WITH(seed, 43) && WITH(optimizer, "sgd") && WITH(loss, "") &&
               WITH(params, "") && WITH(rewrite, "none") &&
               WITH(dropout, false) && WITH(recompute, "block") &&
               WITH(n_binds, 1) && WITH(n_padding, 0) && WITH(batch, 64),
           "digest: so does what makes the training graph");
    tap_ok(WITH(iteration_s, 1) && WITH(sim_iteration_s, 1),
           "digest: and what was predicted");
    tap_ok(!WITH(model, "/elsewhere/mlp.onnx") &&
               !WITH(cluster, "elsewhere.json"),
           "digest: where model and cluster lie does not");
#undef WITH
    plan *p = fs_memdup(b->arena, b->p, sizeof *p);
    plan_strategy s = *p->strategy;
    p->strategy = &s;
    s.schedule = "gpipe";
    tap_ok(plan_digest_of(b->g, p, &origin) != usual,
           "digest: the strategy counts");
    p->strategy = b->p->strategy;
    p->model_digest++;
    tap_ok(plan_digest_of(b->g, p, &origin) != usual,
           "digest: the model counts");
    p->model_digest--;
    p->cluster_digest++;
    tap_ok(plan_digest_of(b->g, p, &origin) != usual,
           "digest: the cluster counts");
}

/* `from` in the file replaced by `to`: both halves of reading. */
static fs_status read_with(bench *b, const char *from, const char *to,
                           fs_err *err, plan **p)
{
    const char *text = slurp(b->path, b->arena);
    const char *at = strstr(text, from);
    plan_origin o;
    hw_cluster *cluster;
    if (!at) {
        printf("Bail out! the file has no %s\n", from);
        exit(1);
    }
    spill(b->path, fs_printf(b->arena, "%.*s%s%s", (int)(at - text), text, to,
                             at + strlen(from)));
    *err = (fs_err){0};
    fs_status status = plan_read_origin(b->path, b->arena, err, &o, &cluster);
    if (status == FS_OK)
        status = plan_read(b->path, b->g, b->c, b->arena, err, p);
    spill(b->path, text);
    return status;
}

static void test_edits(bench *b)
{
    static const char *const edits[][2] = {
        {"\"weight_decay\": 0.0", "\"weight_decay\": 0.5"},
        {"\"beta2\": 0.999", "\"beta2\": 0.5"},
        {"\"seed\": 42", "\"seed\": 43"},
        {"\"sim_iteration_s\": 0.25", "\"sim_iteration_s\": 0.5"},
        {"\"schedule\": \"1f1b\"", "\"schedule\": \"gpipe\""}};
    fs_err err;
    plan *p = NULL;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        fs_status status = read_with(b, edits[i][0], edits[i][1], &err, &p);
        tap_ok(status == FS_OK && p->edited, "%s is marked as edited",
               edits[i][1]);
    }
    tap_ok(read_with(b, "\"lr\": 0.3", "\"lr\":  0.3", &err, &p) == FS_OK &&
               !p->edited,
           "another space is no edit");
}

static void test_ranges(bench *b)
{
    static const char *const edits[][3] = {
        {"\"batch\": 32,\n  \"schedule\"", "\"batch\": 0,\n  \"schedule\"",
         "strategy.batch is 0, origin.batch 32"},
        {"\"batch\": 32,\n  \"schedule\"", "\"batch\": 33,\n  \"schedule\"",
         "strategy.batch is 33, origin.batch 32"},
        {"\"batch\": 32,\n  \"schedule\"",
         "\"batch\": 4611686018427387904,\n  \"schedule\"",
         "strategy.batch is 4611686018427387904, origin.batch 32"},
        {"\"schedule\": \"1f1b\"", "\"schedule\": \"2f2b\"",
         "strategy.schedule is \"2f2b\"; there are: 1f1b"},
        {"\"weight_decay\": 0.0", "\"weight_decay\": -7",
         "origin.weight_decay is -7"},
        {"\"sim_iteration_s\": 0.25", "\"sim_iteration_s\": -5",
         "origin.sim_iteration_s is -5"},
        {"\"cluster\": \"1x4:hand\"", "\"cluster\": \"local\"",
         "cluster is missing"},
        {"\"strategy\": {", "\"cluster\": {}, \"strategy\": {",
         "cluster stands in the file of a plan for 1x4:hand"}};
    fs_err err;
    plan *p;
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        fs_status status = read_with(b, edits[i][0], edits[i][1], &err, &p);
        tap_ok(status == FS_INVALID && strstr(err.text, edits[i][2]),
               "refused: %s", err.text);
    }
}

static fs_status read_root(bench *b, json_t *root, fs_err *err, plan **p)
{
    plan_origin o;
    hw_cluster *cluster;
    *err = (fs_err){0};
    fs_json_save(root, b->path, err);
    fs_status status = plan_read_origin(b->path, b->arena, err, &o, &cluster);
    return status == FS_OK ? plan_read(b->path, b->g, b->c, b->arena, err, p)
                           : status;
}

/* A key too many in this object and in all below; how many were accepted. Of a
 * list the first and last items stand for all. */
static int32_t count_accepted(bench *b, json_t *root, json_t *at, int32_t *n)
{
    fs_err err;
    plan *p;
    int32_t accepted = 0;
    const char *key;
    json_t *item;
    if (json_is_object(at)) {
        json_object_set_new(at, "extra", json_integer(1));
        bool good = read_root(b, root, &err, &p) == FS_INVALID &&
                    strstr(err.text, "extra is an unknown key");
        json_object_del(at, "extra");
        accepted += !good;
        ++*n;
        json_object_foreach(at, key, item) accepted +=
            count_accepted(b, root, item, n);
    }
    size_t last = json_array_size(at);
    for (size_t i = 0; i < last; i = i + 1 < last - 1 ? last - 1 : i + 1)
        accepted += count_accepted(b, root, json_array_get(at, i), n);
    return accepted;
}

/* The boxing of one input twice: the second would take the place of the
 * first unsaid. */
static void test_twice(bench *b)
{
    fs_err err = {0};
    json_t *root = NULL, *node;
    plan *p;
    size_t v;
    int32_t tried = 0, refused = 0;
    char *text = slurp(b->path, b->arena);
    fs_json_load(b->path, &err, &root);
    json_array_foreach(
        json_object_get(json_object_get(root, "strategy"), "nodes"), v, node)
    {
        json_t *list = json_object_get(node, "boxing");
        size_t n = json_array_size(list);
        if (n == 0 || json_array_size(json_object_get(node, "in")) <= n)
            continue;
        json_array_append_new(list, json_deep_copy(json_array_get(list, 0)));
        refused += read_root(b, root, &err, &p) == FS_INVALID &&
                   strstr(err.text, "whose boxing stands above");
        json_array_remove(list, n);
        tried++;
    }
    tap_ok(tried > 0 && refused == tried,
           "the boxing of one input twice is refused: %d of %d", refused,
           tried);
    spill(b->path, text);
    json_decref(root);
}

static void test_keys(bench *b)
{
    fs_err err = {0};
    json_t *root = NULL;
    char *text = slurp(b->path, b->arena);
    int32_t n = 0;
    fs_json_load(b->path, &err, &root);
    tap_equal_int(count_accepted(b, root, root, &n), 0,
                  "an unknown key is refused in every kind of object");
    tap_ok(n > 20, "objects of the file: %d", n);
    plan *p = NULL;
    json_object_del(root, "plan_digest");
    tap_ok(read_root(b, root, &err, &p) == FS_OK && p->edited,
           "a plan without a digest is marked as edited");
    json_decref(root);
    spill(b->path, text);
}

static void test_refusals(bench *b)
{
    fs_err err = {0};
    plan *p;
    plan_origin o;
    hw_cluster *cluster;
    b->g->digest++;
    tap_equal_int(reread(b, &err, &p), FS_INVALID, "another model is refused");
    tap_ok(strstr(err.text, "model_digest 0000000000001234") &&
               strstr(err.text, "mlp.onnx now has the digest 0000000000001235"),
           "%s", err.text);
    b->g->digest--;
    b->c->digest++;
    tap_equal_int(reread(b, &err, &p), FS_INVALID,
                  "another cluster is refused");
    tap_ok(strstr(err.text, "cluster_digest"), "%s", err.text);
    b->c->digest--;
    const char *text = slurp(b->path, b->arena);
    char *cut = fs_strdup(b->arena, text);
    cut[strlen(cut) / 2] = '\0';
    spill(b->path, cut);
    tap_equal_int(reread(b, &err, &p), FS_INVALID, "half a file is refused");
    tap_ok(strstr(err.text, ".json:"), "with line and column: %s", err.text);
    spill(b->path, "{\"format\": \"flowsearch-plan\", \"version\": 99}");
    err = (fs_err){0};
    tap_equal_int(plan_read_origin(b->path, b->arena, &err, &o, &cluster),
                  FS_INVALID, "a newer version is refused: %s", err.text);
    spill(b->path, text);
}

/* Numbers in the file replaced one at a time: read and checked, or refused;
 * never a crash. */
static void test_hostile(bench *b, uint64_t seed)
{
    char *text = slurp(b->path, b->arena);
    size_t n = strlen(text),
           from = (size_t)(strstr(text, "\"strategy\"") - text);
    static const char *const values[] = {
        "-1",  "0",    "1",     "7",  "2147483647", "9223372036854775807",
        "1e9", "null", "\"x\"", "[]", "{}",         "true"};
    int32_t read = 0, refused = 0, sound = 0;
    for (int32_t i = 0; i < 1500; i++) {
        fs_arena *arena = fs_arena_create();
        size_t at = from + (size_t)fs_rand_below(&seed, (int64_t)(n - from));
        while (at < n && (text[at] < '0' || text[at] > '9' ||
                          !strchr(" -", text[at - 1])))
            at++;
        size_t end = at;
        while (end < n && text[end] >= '0' && text[end] <= '9')
            end++;
        if (at == n) {
            fs_arena_destroy(arena);
            continue;
        }
        spill(b->path, fs_printf(arena, "%.*s%s%s", (int)at, text,
                                 values[fs_rand_below(&seed, 12)], text + end));
        fs_err err = {0};
        plan *p;
        plan_report report;
        if (plan_read(b->path, b->g, b->c, arena, &err, &p) != FS_OK) {
            refused++;
        } else {
            read++;
            sound += plan_check(b->g, b->c, p, arena, &report) == FS_OK;
        }
        fs_arena_destroy(arena);
    }
    spill(b->path, text);
    tap_ok(refused > 0 && read > sound,
           "spoiled files: %d refused by the reader, %d of %d by the check",
           refused, read - sound, read);
}

int main(void)
{
    uint64_t seed = tap_seed(11);
    bench b = make_bench();
    test_round_trip(&b);
    test_chunks();
    test_edges(&b);
    test_origin(&b);
    test_digest(&b);
    test_edits(&b);
    test_ranges(&b);
    test_keys(&b);
    test_twice(&b);
    test_refusals(&b);
    test_hostile(&b, seed);
    unlink(b.path);
    ir_graph_destroy(b.g);
    fs_arena_destroy(b.arena);
    return tap_done();
}
