/* What exec_equal_test draws, and how it tells it. */
#include "config.h"

#include "equal.h"
#include "plan/schedule.h"
#include "zoo_tiny.h"

#include <string.h>

static bool chance(uint64_t *seed, int32_t percent)
{
    return fs_rand_below(seed, 100) < percent;
}

static int32_t between(uint64_t *seed, int32_t low, int32_t high)
{
    return low + (int32_t)fs_rand_below(seed, high - low + 1);
}

static ir_mesh draw_mesh(uint64_t *seed, int32_t size)
{
    ir_mesh mesh = {0};
    while (size > 1 && mesh.n < 2) {
        int32_t n = between(seed, 2, chance(seed, 60) ? 2 : size);
        if (size % n != 0)
            n = size;
        mesh.dim[mesh.n++] = n;
        size /= n;
    }
    if (size > 1 || mesh.n == 0)
        mesh.dim[mesh.n++] = size;
    if (mesh.n < 3 && chance(seed, 20))
        mesh.dim[mesh.n++] = 1;
    return mesh;
}

/* Thousands of nodes. */
static bool is_deep(const char *model)
{
    return strstr(model, "percent=") || strstr(model, "depth=50");
}

/* Dozens of batch norms in a row. Each divides by the deviation of its batch,
 * which is next to nothing where a few samples hardly differ: what rounding
 * does to the first is magnified by all that follow. So they get more samples,
 * smaller steps, and no 16-bit floats where they are many. */
static bool has_batch_norms(const char *model)
{
    static const char *const names[] = {"resnet,", "mobilenet,",
                                        "efficientnet,", "insightface,"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found |= strncmp(model, names[i], strlen(names[i])) == 0;
    return found;
}

static void condition(uint64_t *seed, equal_case *c)
{
    c->batch_norms = c->model && has_batch_norms(c->model);
    if (!c->batch_norms)
        return;
    c->samples = between(seed, 9, 14);
    if (is_deep(c->model))
        c->narrow = IR_F32;
}

/* A mesh of its own for each stage. */
static void draw_unlike(uint64_t *seed, equal_case *c)
{
    int32_t left = c->ranks;
    if (c->n_stages > left)
        c->n_stages = left;
    for (int32_t i = 0; i < c->n_stages; i++) {
        const int32_t behind = c->n_stages - i - 1;
        const int32_t size = behind ? between(seed, 1, left - behind) : left;
        c->mesh[i] = draw_mesh(seed, size);
        left -= size;
    }
}

static void draw_places(uint64_t *seed, equal_case *c)
{
    static const int32_t usual[] = {2, 2, 3, 4, 4, 4, 5, 6,
                                    6, 7, 8, 8, 8, 8, 8, 8};
    const int32_t most = c->model && is_deep(c->model) ? 4 : 8;
    if (!c->ranks) {
        c->ranks = usual[fs_rand_below(seed, sizeof usual / sizeof *usual)];
        c->ranks = c->ranks < most ? c->ranks : most;
    }
    c->n_stages = chance(seed, 45) ? between(seed, 2, EQUAL_STAGES) : 1;
    if (chance(seed, 50)) {
        draw_unlike(seed, c);
        return;
    }
    while (c->ranks % c->n_stages != 0)
        c->n_stages--;
    c->mesh[0] = draw_mesh(seed, c->ranks / c->n_stages);
    for (int32_t i = 1; i < c->n_stages; i++)
        c->mesh[i] = c->mesh[0];
}

static void draw_schedule(uint64_t *seed, equal_case *c)
{
    static const char *const names[] = {
#define PLAN_SCHEDULE(id, name, ...) name,
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
    };
    const char *only = getenv("FS_SCHEDULE");
    c->schedule = names[fs_rand_below(seed, sizeof names / sizeof *names)];
    c->schedule = only ? only : c->schedule;
    plan_placing placing = plan_schedule_find(c->schedule)->placing;
    c->chunks = placing == PLAN_PLACED_ONCE ? 1
                : placing == PLAN_PLACED_V  ? 2
                                            : between(seed, 1, 3);
}

const char equal_any_set[] = "any set";

static const char *draw_recompute(uint64_t *seed)
{
    static const char *const policies[] = {"cheap", "selective", "block",
                                           "gelu|relu", ".*"};
    if (chance(seed, 60))
        return NULL;
    if (chance(seed, 50))
        return equal_any_set;
    return policies[fs_rand_below(seed, sizeof policies / sizeof *policies)];
}

/* PowerSGD is linear; casts round as mixed precision does. What top-k sends
 * hangs on the plan. */
static ir_compress draw_compress(uint64_t *seed)
{
    static const ir_compress hows[] = {
        {.kind = IR_COMPRESS_POWERSGD, .argument = 1},
        {.kind = IR_COMPRESS_POWERSGD, .argument = 2},
        {.kind = IR_COMPRESS_BF16},
        {.kind = IR_COMPRESS_FP16}};
    if (chance(seed, 85))
        return (ir_compress){0};
    return hows[fs_rand_below(seed, sizeof hows / sizeof *hows)];
}

static void draw_types(uint64_t *seed, equal_case *c)
{
    c->narrow = IR_F32;
    c->wide = chance(seed, 65);
    if (!c->wide && chance(seed, 25))
        c->narrow = chance(seed, 50) ? IR_BF16 : IR_F16;
}

equal_case equal_draw(uint64_t number)
{
    equal_case c = {.ranks = (int32_t)(number / EQUAL_RANKS_AT)};
    uint64_t seed = c.seed = fs_mix(number + 1);
    const int32_t wild[] = {5, 15, 40, 100};
    const int64_t buckets[] = {0, 1, 200, 5000, 1 << 30};
    const int32_t models = (int32_t)(sizeof zoo_tiny / sizeof *zoo_tiny);
    if (chance(&seed, 33))
        c.model = zoo_tiny[fs_rand_below(&seed, models)];
    c.each = !c.model && chance(&seed, 35);
    c.n_ops = between(&seed, 3, EQUAL_OPS);
    c.samples = between(&seed, 2, 5);
    c.micro_batches = between(&seed, 1, 4);
    draw_types(&seed, &c);
    condition(&seed, &c);
    c.rewritten = chance(&seed, 40);
    c.chained = chance(&seed, 40);
    c.optimizer = chance(&seed, 55)
                      ? IR_SGD
                      : (ir_optimizer)fs_rand_below(&seed, IR_OPTIMIZER_COUNT);
    c.clipped = chance(&seed, 25);
    c.recompute = draw_recompute(&seed);
    c.compress = draw_compress(&seed);
    draw_places(&seed, &c);
    draw_schedule(&seed, &c);
    c.overlap = chance(&seed, 40);
    c.unshared = chance(&seed, 10);
    c.anew = chance(&seed, 50);
    c.wild = wild[fs_rand_below(&seed, 4)];
    c.narrow_states = chance(&seed, 60);
    c.bucket_bytes = buckets[fs_rand_below(&seed, 5)];
    return c;
}

/* ---- text ---- */

static const char *compress_text(const ir_compress *how)
{
    static const char *const names[] = {
        "none",
#define IR_COMPRESS(id, name, argument) name,
#include "ir/compress.def"
#undef IR_COMPRESS
    };
    return names[how->kind];
}

static void print_meshes(const equal_case *c, FILE *to)
{
    for (int32_t i = 0; i < c->n_stages; i++) {
        fprintf(to, "%s[", i ? " " : "");
        for (int32_t a = 0; a < c->mesh[i].n; a++)
            fprintf(to, "%s%d", a ? "," : "", (int)c->mesh[i].dim[a]);
        fprintf(to, "]");
    }
}

void equal_print(const equal_case *c, const equal_verdict *v, FILE *to)
{
    static const char *const ends[] = {"equal",   "differs", "no graph",
                                       "refused", "fault",   "no number",
                                       "shaky"};
    fprintf(to, "# %s: %s (losses %.2g, weights %.2g)\n", ends[v->end], v->text,
            v->loss_error, v->weight_error);
    if (c->model)
        fprintf(to, "#   zoo:%s", c->model);
    else
        fprintf(to, "#   %d %s ops but 0x%llx", (int)c->n_ops,
                c->each ? "any" : "random", (unsigned long long)c->left_out);
    fprintf(to, ", %d nodes, %d samples x %d, %s%s%s%s%s%s\n", (int)v->n_nodes,
            (int)c->samples, (int)c->micro_batches,
            c->wide ? "f64" : ir_dtype_name(c->narrow),
            c->rewritten ? ", rewritten" : "", c->chained ? ", chains" : "",
            c->clipped ? ", clipped" : "", c->recompute ? ", recompute " : "",
            c->recompute ? c->recompute : "");
    if (c->compress.kind != IR_COMPRESS_NONE)
        fprintf(to, "#   gradients compressed as %s\n",
                compress_text(&c->compress));
    fprintf(to, "#   %s%s, ranks %d, meshes ", ir_optimizer_name(c->optimizer),
            c->narrow_states ? " of bf16 states" : "", (int)c->ranks);
    print_meshes(c, to);
    fprintf(to, ", %s of %d%s%s%s, buckets of %lld, %d nodes not all B\n",
            c->schedule, (int)c->chunks, c->overlap ? ", overlap" : "",
            c->anew ? ", anew" : "", c->unshared ? ", unshared" : "",
            (long long)c->bucket_bytes, (int)v->n_wild);
}

static void print_node(const ir_graph *g, const plan_strategy *s, int32_t v,
                       fs_arena *arena, FILE *to)
{
    const ir_node *node = &g->nodes.at[v];
    const int32_t axes = s->stages[s->stage_of[v]].mesh.n;
    char shape[160];
    fprintf(to, "#   %s (%s, stage %d): %s;", node->name,
            ir_op_table[node->op]->name, (int)s->stage_of[v],
            ir_signature_text(node, &s->sig[v], axes, arena));
    for (int32_t i = 0; i < node->n_in; i++)
        fprintf(to, " %s",
                ir_shape_text(shape, &g->tensors.at[node->in[i]].shape));
    fprintf(to, "\n");
}

void equal_describe(const equal_case *c, FILE *to)
{
    enum { MOST = 12 };
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    uint64_t features;
    int32_t n = 0;
    ir_graph *g = equal_graph(c, &err, &features), *bound = NULL;
    plan_strategy *s = g ? equal_strategy(c, g, arena, &err, &bound) : NULL;
    for (int32_t v = 0; s && v < bound->nodes.n && n < MOST; v++) {
        const ir_nd_sig plain = {0};
        if (memcmp(&s->sig[v], &plain, sizeof plain) == 0)
            continue;
        print_node(bound, s, v, arena, to);
        n++;
    }
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}
