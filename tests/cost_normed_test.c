/* Convolutional networks under frameworks: what batch norms and what follows
 * them move, layouts, minimal filtering. */
#include "config.h"
#include "cost/normed.h"

#include "ir/build.h"
#include "ir/window.h"
#include "tap.h"

#include <math.h>

static fs_arena *arena;

/* x -> conv -> batch norm -> add x -> relu */
typedef struct block {
    ir_graph *graph;
    int32_t conv, cast, sum, squares, norm, add, relu; /* nodes; -1 */
} block;

static int32_t node_of(const ir_graph *g, int32_t tensor)
{
    return tensor < 0 ? -1 : g->tensors.at[tensor].producer;
}

static block make_block(ir_dtype dtype, int64_t kernel, int64_t stride,
                        int64_t groups)
{
    ir_graph *g = ir_graph_create("block");
    const ir_shape images = {4, {2, 8, 16, 16}}, vector = {1, {8}};
    const ir_shape filter = {4, {8, 8 / groups, kernel, kernel}};
    int64_t attr[IR_WINDOW_ATTRS] = {0};
    for (int32_t k = 0; k < 2; k++) {
        attr[IR_WINDOW_STRIDE + k] = stride;
        attr[IR_WINDOW_BEFORE + k] = attr[IR_WINDOW_AFTER + k] = kernel / 2;
        attr[IR_WINDOW_SPREAD + k] = 1;
    }
    attr[IR_WINDOW_GROUPS] = groups;
    const int32_t x = ir_input(g, "x", dtype, images, 0);
    const int32_t w =
        ir_cast(g, ir_parameter(g, "w", IR_F32, filter, (ir_init){0}), dtype);
    const int32_t gain = ir_parameter(g, "gain", IR_F32, vector, (ir_init){0});
    const int32_t bias = ir_parameter(g, "bias", IR_F32, vector, (ir_init){0});
    const int32_t y = ir_conv(g, x, w, attr);
    const int32_t wide = dtype == IR_F32 ? y : ir_cast(g, y, IR_F32);
    const int32_t sum = ir_reduce_sum(g, wide, 1u | 4u | 8u, false);
    const int32_t mean = ir_scale(g, sum, 1 / 512.0, 0);
    const int32_t squares = ir_binary(g, IR_OP_centred_square, y, mean);
    const ir_node norm = {.op = IR_OP_batch_norm,
                          .n_in = 5,
                          .in = {y, gain, bias, mean, squares},
                          .i = {1},
                          .f = {1e-5}};
    const int32_t z = ir_append(g, &norm);
    const int32_t added = stride == 1 ? ir_binary(g, IR_OP_add, z, x) : z;
    const int32_t out = ir_unary(g, IR_OP_relu, added);
    FS_ASSERT(g->err.status == FS_OK);
    return (block){g,
                   node_of(g, y),
                   wide == y ? -1 : node_of(g, wide),
                   node_of(g, sum),
                   node_of(g, squares),
                   node_of(g, z),
                   added == z ? -1 : node_of(g, added),
                   node_of(g, out)};
}

static double times_of(const block *b, int32_t node, bool fuses, bool mixed)
{
    const cost_framework f = {.fuses_norms = fuses};
    return cost_normed_share(&f, b->graph, cost_normed_inputs(b->graph, arena),
                             &b->graph->nodes.at[node], mixed);
}

static void test_norms(void)
{
    const block b = make_block(IR_F16, 3, 1, 1);
    tap_ok(times_of(&b, b.sum, false, true) == 0 &&
               times_of(&b, b.cast, false, true) == 0,
           "mean and variance are one pass, of x as it is");
    tap_ok(times_of(&b, b.norm, false, true) == 1 &&
               times_of(&b, b.squares, false, true) == 1 &&
               times_of(&b, b.relu, false, true) == 1 &&
               times_of(&b, b.add, false, true) == 1 &&
               times_of(&b, b.conv, false, true) == 1,
           "what is no norm takes as long as it takes");
    tap_ok(times_of(&b, b.relu, true, true) == 0 &&
               times_of(&b, b.squares, true, true) == 0,
           "fused, ReLU is part of the norm, and x is read once");
    tap_near(times_of(&b, b.add, true, true), 1 / 3.0, 1e-12,
             "of an addition the other operand is read");
    tap_ok(times_of(&b, b.relu, true, false) == 1,
           "in networks of floats nothing is fused");
    const block floats = make_block(IR_F32, 3, 2, 1);
    tap_ok(floats.cast < 0 && times_of(&floats, floats.sum, false, false) == 0,
           "the same of floats");
    tap_ok(times_of(&floats, floats.relu, true, true) == 0,
           "a ReLU right behind a norm");
}

static void test_layout(void)
{
    const block b = make_block(IR_F16, 3, 1, 1);
    const ir_node *conv = &b.graph->nodes.at[b.conv];
    const ir_mesh one = {0};
    const ir_nd_sig whole = {0};
    ir_work work;
    ir_node_flow(b.graph, conv, &whole, &one, &work);
    /* x and y, 2 x 8 x 16 x 16 of 2 bytes each, read and written */
    tap_near(cost_turned_bytes(b.graph, conv, &work), 2 * 2 * 4096 * 2, 1e-9,
             "turning x and y reads and writes both");
    tap_near(cost_turned_bytes(b.graph, &b.graph->nodes.at[b.relu], &work), 0,
             1e-9, "what is no convolution is not turned");
}

static double minimal(int64_t kernel, int64_t stride, int64_t groups)
{
    const block b = make_block(IR_F32, kernel, stride, groups);
    return cost_minimal_times(b.graph, &b.graph->nodes.at[b.conv]);
}

static void test_minimal(void)
{
    tap_near(minimal(3, 1, 1), 2.25, 1e-12, "3 x 3: 16 products for 36");
    tap_near(minimal(3, 2, 1), 1, 1e-12, "with strides: as many as ever");
    tap_near(minimal(1, 1, 1), 1, 1e-12, "1 x 1");
    tap_near(minimal(5, 1, 1), 1, 1e-12, "5 x 5");
    tap_near(minimal(3, 1, 8), 1, 1e-12, "channel by channel");
}

int main(void)
{
    arena = fs_arena_create();
    test_norms();
    test_layout();
    test_minimal();
    fs_arena_destroy(arena);
    return tap_done();
}
