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

static const plan_origin origin = {.model = "mlp.onnx",
                                   .loss = "mse",
                                   .params = "w.*",
                                   .rewrite = true,
                                   .optimizer = "adam",
                                   .lr = 0.1 + 0.2,
                                   .beta1 = 0.9,
                                   .beta2 = 0.999,
                                   .epsilon = 1e-8,
                                   .cluster = "1x4:hand",
                                   .batch = 32,
                                   .n_binds = 2,
                                   .binds = binds,
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
    tap_ok(p->digest == plan_digest_of(b->g, b->p), "digests agree");
    tap_equal_int(plan_check(b->g, b->c, p, b->arena, &report), FS_OK,
                  "what was read is sound");
    plan *other = hand_copy(b->p, b->arena);
    other->roles[0].registers[0].count++;
    other->roles[0].registers[0].offset =
        fs_new(b->arena, int64_t, other->roles[0].registers[0].count);
    tap_ok(plan_digest_of(b->g, other) != p->digest,
           "another plan has another digest");
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
    tap_ok(strcmp(o.params, "w.*") == 0 && o.rewrite, "options of the import");
    tap_ok(o.lr == origin.lr && o.iteration_s == origin.iteration_s,
           "numbers keep all their bits");
    tap_equal_int(o.micro_batches, 4, "micro-batches come from the plan");
    tap_ok(o.n_binds == 2 && strcmp(o.binds[1], "seq=4") == 0, "binds");
    tap_ok(cluster == NULL, "a cluster with a spec is not stored");
    b->c->host = "box";
    plan_write(b->path, b->g, b->p, &origin, b->c, &err);
    b->c->host = NULL;
    tap_equal_int(plan_read_origin(b->path, b->arena, &err, &o, &cluster),
                  FS_OK, "the origin of a probed host is read");
    tap_ok(cluster && cluster->digest == b->c->digest,
           "a probed host's cluster comes with the plan, digest and all");
}

static void test_refusals(bench *b)
{
    fs_err err = {0};
    plan *p;
    plan_origin o;
    hw_cluster *cluster;
    b->g->digest++;
    tap_equal_int(reread(b, &err, &p), FS_INVALID, "another model is refused");
    tap_ok(strstr(err.text, "is for model digest 0000000000001234") &&
               strstr(err.text, "mlp.onnx now has 0000000000001235"),
           "%s", err.text);
    b->g->digest--;
    b->c->digest++;
    tap_equal_int(reread(b, &err, &p), FS_INVALID,
                  "another cluster is refused");
    tap_ok(strstr(err.text, "cluster digest"), "%s", err.text);
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
    test_origin(&b);
    test_refusals(&b);
    test_hostile(&b, seed);
    unlink(b.path);
    ir_graph_destroy(b.g);
    fs_arena_destroy(b.arena);
    return tap_done();
}
