#include "config.h"
#include "search_draw.h"

#include "base/hash.h"
#include "ir/train.h"

#include <stdio.h>

enum { MAX_TENSORS = 32, INPUTS = 128, OUTPUTS = 32 };

ir_shape search_shape2(int64_t rows, int64_t columns)
{
    return (ir_shape){2, {rows, columns}};
}

int32_t search_new_weight(ir_graph *g, int64_t rows, int64_t columns)
{
    char name[32];
    snprintf(name, sizeof name, "w%d", g->tensors.n);
    return ir_parameter(g, name, IR_F32, search_shape2(rows, columns),
                        (ir_init){.kind = IR_INIT_NORMAL, .spread = 0.1});
}

static int32_t pick(uint64_t *rng, const int32_t *list, int32_t n)
{
    return list[fs_rand_below(rng, n)];
}

/* One op on an earlier tensor (all have rank 2); a transpose only where what it
 * makes need not have rows for samples. */
static int32_t draw_op(ir_graph *g, uint64_t *rng, const int32_t *made,
                       int32_t n, const search_draw *draw)
{
    const bool train = draw->train;
    int32_t x = draw->wide ? made[n - 1] : pick(rng, made, n),
            y = pick(rng, made, n);
    ir_shape sx = ir_shape_of(g, x), sy = ir_shape_of(g, y);
    static const int64_t widths[2][4] = {{64, 96, 256, 3},
                                         {6144, 12288, 3072, 6144}};
    switch (fs_rand_below(rng, draw->wide ? 3 : 6)) {
    case 0:
    case 1:
        return ir_matmul(
            g, x,
            search_new_weight(g, sx.dim[1],
                              widths[draw->wide][fs_rand_below(rng, 4)]),
            false, false);
    case 2:
        return ir_unary(g, IR_OP_gelu, x);
    case 3:
        return ir_softmax(g, x);
    case 4:
        if (!train)
            return ir_transpose(g, x, (const int32_t[]){1, 0});
        return ir_unary(g, IR_OP_tanh, x);
    default:
        return ir_binary(g, IR_OP_add, x, ir_shape_equal(&sx, &sy) ? y : x);
    }
}

static int32_t draw_ops(ir_graph *g, uint64_t *rng, int32_t x,
                        const search_draw *draw)
{
    int32_t made[MAX_TENSORS] = {x}, n = 1;
    const int64_t least = draw->train ? 0 : 1;
    const int64_t ops = least + fs_rand_below(rng, draw->most + 1 - least);
    for (int64_t k = 0; k < ops; k++, n++)
        made[n] = draw_op(g, rng, made, n, draw);
    return made[n - 1];
}

static void train(ir_graph *g, uint64_t *rng, int32_t x, int64_t rows,
                  int32_t micro_batches)
{
    const ir_shape shape = ir_shape_of(g, x);
    ir_train_options options = ir_train_defaults();
    fs_err err = {0};
    int32_t target = ir_input(g, "t", IR_F32, search_shape2(rows, OUTPUTS), 0);
    int32_t y = ir_matmul(g, x, search_new_weight(g, shape.dim[1], OUTPUTS),
                          false, false);
    if (fs_rand_below(rng, 2))
        y = ir_unary(g, IR_OP_tanh, y);
    g->loss = ir_mse(g, y, target);
    options.micro_batches =
        micro_batches ? micro_batches : 1 + (int32_t)fs_rand_below(rng, 4);
    if (ir_train(g, &options, &err) != FS_OK)
        printf("# %s\n", err.text);
}

ir_graph *search_draw_graph(uint64_t *rng, const search_draw *draw)
{
    ir_graph *g = ir_graph_create("random");
    const int32_t m = draw->micro_batches;
    const int64_t rows = m ? draw->rows / m : draw->rows;
    int32_t x = ir_input(g, "x", IR_F32, search_shape2(rows, INPUTS), 0);
    int32_t y = draw->most ? draw_ops(g, rng, x, draw) : x;
    if (draw->train) {
        train(g, rng, y, rows, m);
    } else {
        ir_mark_output(g, y);
        ir_graph_prune(g);
    }
    g->batch = rows * g->micro_batches;
    return g;
}
