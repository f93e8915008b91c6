/* Recomputation changes no bit of what is trained, and what is held at once
 * falls. */
#include "config.h"

#include "ir/op.h"
#include "ir/recompute.h"
#include "ir/rewrite.h"
#include "ir/train.h"

#include "interpret_fill.h"
#include "zoo_build.h"

enum { SAMPLES = 4, STEPS = 3 };

typedef ir_graph *build_fn(const char *spec);

static ir_graph *build_zoo(const char *spec)
{
    return zoo_built(spec, SAMPLES);
}

/* Equal layers with a residual stream, dropouts and noise of their own. */
static ir_graph *build_drops(const char *name)
{
    ir_graph *g = ir_graph_create(name);
    ir_init small = {.kind = IR_INIT_NORMAL, .spread = 0.3};
    ir_shape wide = ir_shape_make(2, (int64_t[]){SAMPLES, 12});
    ir_shape square = ir_shape_make(2, (int64_t[]){12, 12});
    int32_t x = ir_input(g, "x", IR_F32, wide, 0);
    int32_t y = ir_input(g, "y", IR_F32, wide, 0);
    for (int32_t k = 0; k < 4; k++) {
        char weight[16];
        snprintf(weight, sizeof weight, "w%d", (int)k);
        int32_t w = ir_parameter(g, weight, IR_F32, square, small);
        int32_t h = ir_matmul(g, x, w, false, false);
        h = ir_binary(g, IR_OP_mul, h, ir_random(g, wide, small));
        h = ir_dropout(g, ir_unary(g, IR_OP_gelu, h), 0.5, 77 + (uint64_t)k);
        x = ir_binary(g, IR_OP_add, x, ir_unary(g, IR_OP_tanh, h));
    }
    g->loss = ir_mse(g, x, y);
    return g;
}

static ir_graph *build_training(build_fn *build, const char *spec,
                                const char *policy)
{
    fs_err err = {0};
    ir_train_options options = ir_train_defaults();
    ir_graph *g = build(spec);
    options.optimizer = IR_ADAM;
    options.recompute = policy;
    bool good = g && ir_train(g, &options, &err) == FS_OK &&
                ir_graph_check(g, &err) == FS_OK;
    tap_ok(good, "%s, %s: a sound training graph %s", spec, policy, err.text);
    return g;
}

static void run(const ir_graph *g, fs_arena *arena, interpreter *in)
{
    fs_err err = {0};
    bool ran = true;
    interpret_open(in, g, arena);
    interpret_fill(in);
    for (int32_t step = 0; step < STEPS && ran; step++) {
        ran = interpret_run(in, &err) == FS_OK;
        interpret_advance(in);
    }
    tap_ok(ran, "%s: three steps %s", g->name, err.text);
}

/* Values of variables, and the loss, that differ in any bit. */
static int32_t count_differences(const interpreter *a, const interpreter *b)
{
    int32_t n =
        memcmp(a->data[a->graph->loss], b->data[b->graph->loss], 4) != 0;
    for (int32_t i = 0; i < a->graph->tensors.n; i++) {
        const ir_tensor *t = &a->graph->tensors.at[i];
        if (a->graph->nodes.at[t->producer].op == IR_OP_variable)
            n += memcmp(a->data[i], b->data[ir_graph_find(b->graph, t->name)],
                        interpret_bytes(t)) != 0;
    }
    return n;
}

/* Most bytes of results live at once when nodes run in their order, the last
 * reader letting go; a view holds what it views. */
static int64_t most_live(const ir_graph *g, fs_arena *arena)
{
    int32_t *root = fs_new(arena, int32_t, g->tensors.n);
    int64_t *change = fs_new(arena, int64_t, g->nodes.n + 1);
    int32_t *last = fs_new(arena, int32_t, g->tensors.n);
    int64_t live = 0, most = 0;
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        bool view = ir_op_class_of(node->op) == IR_CLASS_VIEW;
        for (int32_t k = 0; k < node->n_in; k++)
            last[root[node->in[k]]] = v;
        for (int32_t k = 0; k < node->n_out; k++) {
            root[node->out[k]] = view ? root[node->in[0]] : node->out[k];
            last[root[node->out[k]]] = v;
        }
    }
    for (int32_t t = 0; t < g->tensors.n; t++) {
        const ir_node *maker = &g->nodes.at[g->tensors.at[t].producer];
        if (root[t] != t || ir_op_class_of(maker->op) == IR_CLASS_SOURCE ||
            maker->op == IR_OP_accumulate || maker->phase == IR_UPDATE)
            continue;
        int64_t bytes = (int64_t)interpret_bytes(&g->tensors.at[t]);
        change[g->tensors.at[t].producer] += bytes;
        change[last[t] + 1] -= bytes;
    }
    for (int32_t v = 0; v < g->nodes.n; v++) {
        live += change[v];
        most = live > most ? live : most;
    }
    return most;
}

static void test_same(build_fn *build, const char *spec, const char *policy)
{
    fs_arena *arena = fs_arena_create();
    interpreter plain, again;
    ir_graph *g = build_training(build, spec, NULL);
    ir_graph *h = build_training(build, spec, policy);
    run(g, arena, &plain);
    run(h, arena, &again);
    tap_equal_int(count_differences(&plain, &again), 0,
                  "%s, %s: the same bits after three steps", spec, policy);
    tap_ok(h->nodes.n > g->nodes.n, "%s, %s: %d nodes of %d run again", spec,
           policy, (int)(h->nodes.n - g->nodes.n), (int)g->nodes.n);
    int64_t kept = ir_kept_bytes(g, NULL), less = ir_kept_bytes(h, NULL);
    tap_ok(less < kept, "%s, %s: %lld of %lld bytes are kept", spec, policy,
           (long long)less, (long long)kept);
    ir_graph_destroy(g);
    ir_graph_destroy(h);
    fs_arena_destroy(arena);
}

/* Forward nodes in order on stages, what belongs to them with them. */
static int32_t *draw_stages(const ir_graph *g, uint64_t *seed, fs_arena *arena)
{
    int32_t *stage_of = fs_new(arena, int32_t, g->nodes.n), stage = 0;
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const int32_t forward = g->nodes.at[v].forward;
        stage += forward < 0 && fs_rand_below(seed, 12) == 0;
        stage_of[v] = forward < 0 ? stage : stage_of[forward];
    }
    return stage_of;
}

/* Backward nodes whose outputs are nobody's. */
static int32_t count_idle(const ir_graph *g, fs_arena *arena)
{
    const ir_uses uses = ir_graph_uses(g, arena);
    int32_t n = 0;
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        bool idle = node->phase == IR_BACKWARD && node->n_out > 0;
        for (int32_t o = 0; o < node->n_out; o++)
            idle &= uses.first[node->out[o]] == uses.first[node->out[o] + 1];
        n += idle;
    }
    return n;
}

static void test_bound(const char *spec)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_graph *g = build_training(build_zoo, spec, ".");
    uint64_t seed = tap_seed(5);
    const int32_t idle = count_idle(g, arena);
    for (int k = 0; k < 20 && err.status == FS_OK; k++) {
        ir_graph *bound = ir_graph_copy(g, arena);
        int32_t *stage_of = draw_stages(g, &seed, arena), n = 0;
        ir_recompute_bind(bound, stage_of);
        for (int32_t v = 0; v < bound->nodes.n; v++)
            n += bound->nodes.at[v].forward >= 0 &&
                 stage_of[v] != stage_of[bound->nodes.at[v].forward];
        if (ir_graph_check(bound, &err) == FS_OK &&
            (n > 0 || ir_recompute_crosses(bound, stage_of) ||
             count_idle(bound, arena) > idle))
            fs_fail(&err, FS_NO, "%d nodes off their stage, %d idle", n,
                    count_idle(bound, arena));
    }
    tap_ok(err.status == FS_OK && ir_graph_check(g, &err) == FS_OK,
           "%s: on any stages nobody reads another's copy %s", spec, err.text);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

/* Only one block's activations live at a time: with many blocks little more
 * than their inputs is held. */
static void test_one_block_lives(void)
{
    const char *spec = "gpt,layers=12,hidden=16,heads=2,vocab=11,seq=16";
    fs_arena *arena = fs_arena_create();
    ir_graph *g = build_training(build_zoo, spec, NULL);
    ir_graph *h = build_training(build_zoo, spec, "block");
    int64_t all = most_live(g, arena), one = most_live(h, arena);
    tap_ok(5 * one < all, "%s: %lld bytes live at most, %lld without", spec,
           (long long)one, (long long)all);
    ir_graph_destroy(g);
    ir_graph_destroy(h);
    fs_arena_destroy(arena);
}

/* Chosen nodes of an op, or of all of a class. */
static int32_t count_chosen(const ir_graph *g, const ir_recompute_set *set,
                            const char *op)
{
    int32_t n = 0;
    for (int32_t v = 0; v < set->n; v++) {
        const char *name = ir_op_table[g->nodes.at[v].op]->name;
        n += set->again[v] &&
             (op ? strcmp(name, op) == 0
                 : ir_op_class_of(g->nodes.at[v].op) != IR_CLASS_VIEW);
    }
    return n;
}

/* Selective: of each attention two products, a softmax and what stands between
 * these; of a fused one the op alone. */
static void test_core(const char *spec, int32_t attentions, bool fused)
{
    static const char *const between[] = {"matmul", "softmax", "scale", "where",
                                          "add",    "dropout", "mul",   "cast"};
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_graph *g = build_zoo(spec);
    ir_rewrite_options options = ir_rewrite_all();
    ir_train_options train = ir_train_defaults();
    ir_recompute_set set;
    if (fused)
        ir_rewrite(g, &options);
    fs_status status = ir_train(g, &train, &err);
    if (status == FS_OK)
        status = ir_recompute_choose(g, "selective", arena, &err, &set);
    tap_ok(status == FS_OK, "%s, selective%s: %s", spec, fused ? ", fused" : "",
           err.text);
    int32_t in_core = 0;
    for (size_t k = 0; k < sizeof between / sizeof *between; k++)
        in_core += count_chosen(g, &set, between[k]);
    tap_equal_int(count_chosen(g, &set, "attention"), fused ? attentions : 0,
                  "%s: fused attentions again", spec);
    tap_equal_int(count_chosen(g, &set, "matmul"), fused ? 0 : 2 * attentions,
                  "%s: two products of each", spec);
    tap_equal_int(count_chosen(g, &set, "softmax"), fused ? 0 : attentions,
                  "%s: and its softmax", spec);
    tap_ok(count_chosen(g, &set, NULL) == (fused ? attentions : in_core),
           "%s: and nothing outside", spec);
    tap_ok(count_chosen(g, &set, NULL) <= 6 * attentions,
           "%s: %d nodes of %d attentions", spec, count_chosen(g, &set, NULL),
           attentions);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

static void test_cores(void)
{
    static const struct {
        const char *spec;
        int32_t attentions;
    } rows[] = {
        {"gpt,layers=3,hidden=16,heads=2,vocab=11,seq=16", 3},
        {"llama,layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=6",
         2},
        {"t5,layers=2,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=5",
         6},
        {"bert,layers=2,hidden=16,heads=2,vocab=11,seq=6", 2},
        {"moe,layers=4,hidden=16,heads=2,vocab=11,seq=8,experts=4,active=2",
         4}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        test_same(build_zoo, rows[k].spec, "selective");
        test_core(rows[k].spec, rows[k].attentions, false);
        test_core(rows[k].spec, rows[k].attentions, true);
    }
}

static void test_errors(void)
{
    static const struct {
        const char *policy, *why;
    } bad[] = {{"block", "no repeated block"},
               {"selective", "chooses nothing of"},
               {"(", "'('"},
               {"no such node", "and matches no name"},
               {"", ""}};
    for (int32_t k = 0; k < 5; k++) {
        fs_err err = {0};
        ir_train_options options = ir_train_defaults();
        ir_graph *g = build_zoo("mlp,in=4,hidden=4,layers=1,classes=2");
        options.recompute = bad[k].policy;
        fs_status status = ir_train(g, &options, &err);
        tap_ok(status == (k < 4 ? FS_INVALID : FS_OK) &&
                   strstr(err.text, bad[k].why),
               "--recompute '%s': %s", bad[k].policy, err.text);
        ir_graph_destroy(g);
    }
}

int main(void)
{
    static const char *const specs[] = {
        "gpt,layers=3,hidden=16,heads=2,vocab=11,seq=16",
        "llama,layers=2,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=6",
        "t5,layers=2,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=5",
        "bert,layers=2,hidden=16,heads=2,vocab=11,seq=6",
        "resnet,depth=50,width=2,classes=5,size=32",
        "moe,layers=4,hidden=16,heads=2,vocab=11,seq=8,experts=4,active=2",
    };
    static const char *const policies[] = {"block", "cheap", "."};
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (size_t k = 0; k < 3; k++)
            test_same(build_zoo, specs[i], policies[k]);
    for (size_t k = 0; k < 3; k++)
        test_same(build_drops, "drops", policies[k]);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        test_bound(specs[i]);
    test_one_block_lives();
    test_cores();
    test_errors();
    return tap_done();
}
