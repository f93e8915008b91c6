/* Optimizers. */
#include "config.h"

#include "op_draw.h"

static int32_t case_update(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 3);
    const int32_t n = c->op == IR_OP_sgd ? 2 : c->op == IR_OP_adam ? 4 : 3;
    ir_node node = {.i = {op_draw(c, 0, 1)},
                    .f = {0.05, 0.1, 0.9, 0.999, 1e-8}};
    int32_t in[4];
    for (int32_t k = 0; k < n; k++)
        in[k] =
            op_add_input(c, c->real, shape, k == 3 ? op_positive : op_any_real);
    return op_add_node(c, n, in, node);
}

const op_case_row op_cases_update[] = {
    {IR_OP_sgd, case_update},
    {IR_OP_momentum, case_update},
    {IR_OP_adam, case_update},
    {0, NULL},
};
