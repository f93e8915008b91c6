/* What the tests of rewrites share: counting ops, the value of a network. */
#ifndef FS_TESTS_REWRITTEN_H
#define FS_TESTS_REWRITTEN_H

#include "interpret.h"
#include "base/hash.h"
#include "ir/rewrite.h"

#include <math.h>

static inline int32_t count(const ir_graph *g, ir_op_kind op)
{
    int32_t n = 0;
    for (int32_t v = 0; v < g->nodes.n; v++)
        n += g->nodes.at[v].op == op;
    return n;
}

/* All but what takes fused ops apart again. */
static inline ir_rewrite_options fusing(void)
{
    ir_rewrite_options all = ir_rewrite_all();
    all.parts = false;
    all.steps = false;
    return all;
}

/* The loss with every input and variable drawn by its name; integers 1. */
static inline double value_of(const ir_graph *g)
{
    fs_arena *arena = fs_arena_create();
    interpreter in;
    fs_err err = {0};
    interpret_open(&in, g, arena);
    for (int32_t t = 0; t < g->tensors.n; t++) {
        const ir_tensor *tensor = &g->tensors.at[t];
        float *data = in.data[t];
        if (tensor->role != IR_INPUT && tensor->role != IR_PARAM)
            continue;
        for (int64_t e = 0; e < ir_shape_count(&tensor->shape); e++)
            if (tensor->dtype == IR_I64)
                ((int64_t *)in.data[t])[e] = 1;
            else
                data[e] = (float)fs_draw_normal(fs_hash_text(1, tensor->name),
                                                (uint64_t)e);
    }
    fs_status status = interpret_phases(&in, IR_FORWARD, IR_FORWARD, &err);
    double loss = status == FS_OK ? *(float *)in.data[g->loss] : NAN;
    fs_arena_destroy(arena);
    return loss;
}

#endif
