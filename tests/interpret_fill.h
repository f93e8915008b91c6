/* First values of variables and data for a graph that is interpreted. */
#ifndef FS_TESTS_INTERPRET_FILL_H
#define FS_TESTS_INTERPRET_FILL_H

#include "base/hash.h"
#include "interpret.h"
#include "ir/element.h"

static inline double interpret_first(const ir_init *init, uint64_t seed,
                                     uint64_t k)
{
    switch (init->kind) {
    case IR_INIT_CONSTANT:
        return init->mean;
    case IR_INIT_NORMAL:
        return init->mean + init->spread * fs_draw_normal(seed, k);
    case IR_INIT_UNIFORM:
        return init->mean + init->spread * (2 * fs_draw_unit(seed, k) - 1);
    default:
        return 0;
    }
}

/* Integers are 0 or 1: every table has two rows, every loss two classes. */
static inline double interpret_datum(ir_dtype dtype, uint64_t seed, uint64_t k)
{
    return ir_dtype_is_float(dtype) ? fs_draw_normal(seed, k)
                                    : (double)(fs_draw_unit(seed, k) < 0.5);
}

/* By name. */
static inline void interpret_fill(interpreter *in)
{
    for (int32_t i = 0; i < in->graph->tensors.n; i++) {
        const ir_tensor *t = &in->graph->tensors.at[i];
        const ir_op_kind op = in->graph->nodes.at[t->producer].op;
        const uint64_t seed = fs_hash_text(7, t->name);
        const int64_t n = ir_shape_count(&t->shape);
        if (t->data || (op != IR_OP_variable && op != IR_OP_input))
            continue;
        for (int64_t k = 0; k < n; k++)
            ir_element_set_real(
                t->dtype, in->data[i], k,
                op == IR_OP_input
                    ? interpret_datum(t->dtype, seed, (uint64_t)k)
                    : interpret_first(&t->init, seed, (uint64_t)k));
    }
}

#endif
