/* Compressed gradients in the training graph, and the words for them. */
#include "config.h"

#include "ir/train.h"
#include "tests/tap.h"

static const char *const good[] = {"bf16", "fp16", "topk:0.05", "powersgd:2"};

/* A layer of 40 x 32 with a bias, and one of 32 x 3. */
static ir_graph *make(const char *how, double clip, bool scaled, fs_err *err)
{
    const ir_init init = {.kind = IR_INIT_NORMAL, .spread = 0.1};
    ir_graph *g = ir_graph_create("small");
    ir_train_options options = ir_train_defaults();
    int32_t x = ir_input(g, "x", IR_F32, (ir_shape){2, {8, 40}}, 0);
    const int32_t y = ir_input(g, "y", IR_F32, (ir_shape){2, {8, 3}}, 0);
    x = ir_matmul(g, x,
                  ir_parameter(g, "w", IR_F32, (ir_shape){2, {40, 32}}, init),
                  false, false);
    x = ir_binary(g, IR_OP_add, x,
                  ir_parameter(g, "bias", IR_F32, (ir_shape){1, {32}}, init));
    x = ir_matmul(g, x,
                  ir_parameter(g, "head", IR_F32, (ir_shape){2, {32, 3}}, init),
                  false, false);
    g->loss = ir_mse(g, x, y);
    options.clip_norm = clip;
    if (scaled)
        options.loss_scale = (ir_loss_scale){1024, true, 10};
    if (ir_compress_parse(how, err, &options.compress) == FS_OK)
        ir_train(g, &options, err);
    return g;
}

static int32_t count(const ir_graph *g)
{
    int32_t n = 0;
    for (int32_t t = 0; t < g->tensors.n; t++)
        n += g->tensors.at[t].role == IR_PARAM && ir_compressed(g, t) >= 0;
    return n;
}

/* May the tensor be a partial sum where `node` reads or makes it? */
static bool takes_partial(const ir_graph *g, const ir_node *node, bool makes)
{
    fs_arena *arena = fs_arena_create();
    ir_sig_list list;
    bool takes = false;
    ir_signatures_1d(g, node, arena, &list);
    for (int32_t i = 0; i < list.n; i++)
        takes |= makes ? list.at[i].out[0].kind == IR_PSUM
                       : list.at[i].in[0].kind == IR_PSUM;
    fs_arena_destroy(arena);
    return takes;
}

static void test_graphs(void)
{
    static const int32_t packed[] = {3, 3, 1, 2};
    for (size_t k = 0; k < sizeof good / sizeof *good; k++)
        for (int with = 0; with < 4; with++) {
            fs_err err = {0};
            ir_graph *g = make(good[k], with & 1 ? 1 : 0, with & 2, &err);
            tap_ok(err.status == FS_OK && ir_graph_check(g, &err) == FS_OK &&
                       count(g) == packed[k],
                   "%s%s%s: %d of 3 gradients are compressed%s%s", good[k],
                   with & 1 ? ", clipped" : "", with & 2 ? ", scaled" : "",
                   packed[k], err.text[0] ? ": " : "", err.text);
            ir_graph_destroy(g);
        }
}

/* What begins a compression takes the gradient unreduced. */
static void test_partial(void)
{
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
        fs_err err = {0};
        ir_graph *g = make(good[k], 0, false, &err);
        int32_t refused = 0, n = 0;
        for (int32_t v = 0; v < g->nodes.n; v++) {
            const ir_node *node = &g->nodes.at[v];
            const bool begins =
                ir_compresses(g, node) >= 0 &&
                ir_compresses(
                    g, &g->nodes.at[g->tensors.at[node->in[0]].producer]) < 0;
            n += begins;
            refused += begins && !takes_partial(g, node, false);
        }
        tap_ok(n > 0 && refused == 0,
               "%s: gradients go in as partial sums (%d ways in)", good[k], n);
        const int32_t error = ir_graph_find(g, "w.error");
        if (k >= 2)
            tap_ok(
                error >= 0 && g->tensors.at[error].next >= 0 &&
                    takes_partial(
                        g, &g->nodes.at[g->tensors.at[error].producer], true),
                "%s: its error is a state that may stay partial", good[k]);
        else
            tap_ok(error < 0, "%s: no error is kept", good[k]);
        ir_graph_destroy(g);
    }
}

static void test_scaled_step(void)
{
    fs_err err = {0};
    ir_graph *g = make("powersgd:2", 0, true, &err);
    const int32_t error = ir_graph_find(g, "w.error");
    const int32_t next = error < 0 ? -1 : g->tensors.at[error].next;
    tap_ok(next >= 0 &&
               g->nodes.at[g->tensors.at[next].producer].op == IR_OP_where,
           "a step that a loss scale leaves out leaves the error as it was");
    ir_graph_destroy(g);
}

static void test_words(void)
{
    static const char *const bad[] = {
        "bf17",        "bf16:1",     "topk",         "topk:0",
        "topk:0.6",    "topk:-0.1",  "topk:nan",     "topk:0.1x",
        "powersgd",    "powersgd:0", "powersgd:1.5", "powersgd:5000",
        "powersgd: 2", "none:2",     "topk:inf",     ":"};
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        fs_err err = {0};
        ir_compress how = {.kind = IR_COMPRESS_TOPK};
        tap_ok(ir_compress_parse(bad[k], &err, &how) == FS_INVALID &&
                   how.kind == IR_COMPRESS_TOPK && strstr(err.text, bad[k]),
               "'%s' is refused", bad[k]);
    }
    ir_compress how = {.kind = IR_COMPRESS_TOPK};
    tap_ok(ir_compress_parse("none", NULL, &how) == FS_OK &&
               how.kind == IR_COMPRESS_NONE,
           "none is none");
    fs_err err = {0};
    ir_graph *g = make("powersgd:40", 0, false, &err);
    tap_ok(err.status == FS_INVALID &&
               strstr(err.text, "no gradient would be smaller"),
           "a rank that no gradient has is refused: %s", err.text);
    ir_graph_destroy(g);
}

int main(void)
{
    test_graphs();
    test_partial();
    test_scaled_step();
    test_words();
    return tap_done();
}
