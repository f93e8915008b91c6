/* Optimizer ops: w, its gradient and states in; w' and states out. All lie
 * alike; never partial: squares do not add up. */
#include "config.h"
#include "ir/op_util.h"

static void work_sgd(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 4, out);
}

static void work_momentum(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 6, out);
}

static void work_adam(const ir_node *node, const ir_io *io, ir_work *out)
{
    ir_work_per_element(node, io, 15, out);
}

#define UPDATE(op, n)                                                          \
    const ir_op ir_op_##op = {.name = #op,                                     \
                              .min_in = (n) + 1,                               \
                              .max_in = (n) + 1,                               \
                              .n_out = (n),                                    \
                              .infer = ir_infer_alike,                         \
                              .sbp = ir_sbp_alike,                             \
                              .work = work_##op}
UPDATE(sgd, 1);
UPDATE(momentum, 2);
UPDATE(adam, 3);
