/* First values of variables and data for a graph that is interpreted. */
#ifndef FS_TESTS_INTERPRET_FILL_H
#define FS_TESTS_INTERPRET_FILL_H

#include "base/hash.h"
#include "interpret.h"
#include "ir/element.h"

static inline double interpret_first(const ir_tensor *t, uint64_t seed,
                                     int64_t k)
{
    if (t->role == IR_PARAM)
        return 0.3 * fs_draw_normal(seed, (uint64_t)k);
    if (t->role != IR_INPUT)
        return t->init.kind == IR_INIT_CONSTANT ? t->init.mean : 0;
    return ir_dtype_is_float(t->dtype)
               ? fs_draw_normal(seed, (uint64_t)k)
               : (double)(fs_draw_unit(seed, (uint64_t)k) < 0.5);
}

/* By name; integers are 0 or 1. */
static inline void interpret_fill(interpreter *in)
{
    for (int32_t i = 0; i < in->graph->tensors.n; i++) {
        const ir_tensor *t = &in->graph->tensors.at[i];
        const ir_op_kind op = in->graph->nodes.at[t->producer].op;
        const int64_t n = ir_shape_count(&t->shape);
        if (t->data || (op != IR_OP_variable && op != IR_OP_input))
            continue;
        for (int64_t k = 0; k < n; k++)
            ir_element_set_real(
                t->dtype, in->data[i], k,
                interpret_first(t, fs_hash_text(5, t->name), k));
    }
}

#endif
