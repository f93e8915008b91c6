#include "config.h"

#include "op_draw.h"

#include "base/hash.h"
#include "ir/element.h"

#include <stdio.h>
#include <string.h>

const ir_init op_any_real = {.kind = IR_INIT_UNIFORM, .spread = 1};
const ir_init op_positive = {
    .kind = IR_INIT_UNIFORM, .mean = 1.25, .spread = 0.75};
const ir_init op_far_apart = {.kind = IR_INIT_CONSTANT};
const ir_init op_not_small = {.kind = IR_INIT_NORMAL};
const ir_init op_some_zeros = {.kind = IR_INIT_NORMAL, .spread = 0.3};

int64_t op_draw(op_case *c, int64_t low, int64_t high)
{
    return low + fs_rand_below(c->seed, high - low + 1);
}

ir_shape op_draw_shape(op_case *c, int32_t low, int32_t high)
{
    ir_shape shape = {.rank = (int32_t)op_draw(c, low, high)};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = c->long_axes       ? op_draw(c, 3, 5)
                       : op_draw(c, 0, 5) ? op_draw(c, 2, 5)
                                          : 1;
    if (c->wide && shape.rank > 0)
        shape.dim[shape.rank - 1] = op_draw(c, 1, 70);
    return shape;
}

/* A shape that broadcasts to `wide`. */
ir_shape op_draw_narrow(op_case *c, ir_shape wide)
{
    if (op_draw(c, 0, 2) == 0)
        return wide;
    int32_t drop = (int32_t)op_draw(c, 0, wide.rank);
    ir_shape shape = {.rank = wide.rank - drop};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = op_draw(c, 0, 2) ? wide.dim[drop + i] : 1;
    return shape;
}

int32_t op_add_input(op_case *c, ir_dtype dtype, ir_shape shape, ir_init init)
{
    char name[32];
    snprintf(name, sizeof name, "in%d", c->graph->tensors.n);
    int32_t id = ir_input(c->graph, name, dtype, shape, -1);
    if (id >= 0)
        c->graph->tensors.at[id].init = init;
    return id;
}

int32_t op_real_input(op_case *c, ir_shape shape)
{
    return op_add_input(c, c->real, shape, op_any_real);
}

int32_t op_wide_input(op_case *c, ir_shape shape, ir_init init)
{
    return op_add_input(c, ir_dtype_widened(c->real), shape, init);
}

int32_t op_id_input(op_case *c, ir_shape shape, int64_t limit)
{
    ir_init below = {.kind = IR_INIT_UNIFORM, .spread = (double)limit};
    return op_add_input(c, op_draw(c, 0, 1) ? IR_I32 : IR_I64, shape, below);
}

int32_t op_add_node(op_case *c, int32_t n_in, const int32_t *in, ir_node node)
{
    node.op = c->op;
    node.n_in = n_in;
    for (int32_t k = 0; k < n_in; k++) {
        if (in[k] < 0)
            return -1;
        node.in[k] = in[k];
    }
    return ir_graph_add(c->graph, &node);
}

void op_set_shape(ir_node *node, ir_shape shape)
{
    node->i[0] = shape.rank;
    memcpy(node->i + 1, shape.dim, (size_t)shape.rank * sizeof *shape.dim);
}

/* A family's generators; how many times the usual trials its ops are worth. */
static const struct {
    const op_case_row *rows;
    int32_t times;
} families[] = {
    {op_cases_pointwise, 1}, {op_cases_move, 1},      {op_cases_sum, 1},
    {op_cases_loss, 1},      {op_cases_norm, 1},      {op_cases_recurrent, 1},
    {op_cases_window, 4},    {op_cases_update, 1},    {op_cases_index, 1},
    {op_cases_chain, 1},     {op_cases_attention, 12}};
enum { N_FAMILIES = sizeof families / sizeof *families };

static const op_case_row *find_row(ir_op_kind op, int32_t *times)
{
    for (size_t k = 0; k < N_FAMILIES; k++)
        for (const op_case_row *row = families[k].rows; row->build; row++)
            if (row->op == op) {
                *times = families[k].times;
                return row;
            }
    return NULL;
}

bool op_case_exists(ir_op_kind op)
{
    return op_case_times(op) > 0;
}

int32_t op_case_build(op_case *c)
{
    int32_t times;
    const op_case_row *row = find_row(c->op, &times);
    return row ? row->build(c) : -1;
}

int32_t op_case_times(ir_op_kind op)
{
    int32_t times = 0;
    find_row(op, &times);
    return times;
}

static bool draw_bool(const ir_tensor *input, int64_t at, uint64_t *seed)
{
    const ir_shape *shape = &input->shape;
    const int64_t n = shape->rank ? shape->dim[shape->rank - 1] : 1;
    const bool drawn = fs_rand_below(seed, 2);
    if (input->init.kind == IR_INIT_CONSTANT && at % n == 0)
        return input->init.mean != 0;
    return drawn;
}

static double draw_value(const ir_tensor *input, int64_t at, uint64_t *seed)
{
    const double unit = fs_rand_unit(seed);
    const int64_t n = ir_shape_count(&input->shape);
    if (input->init.kind == IR_INIT_CONSTANT) /* a permutation: 7919 is prime */
        return (double)(at * 7919 % n) / (double)n + unit / (double)(4 * n);
    if (input->init.kind == IR_INIT_NORMAL && input->init.spread > 0 &&
        fs_rand_unit(seed) < input->init.spread)
        return 0;
    if (input->init.kind == IR_INIT_NORMAL)
        return unit < 0.5 ? -0.2 - 2 * unit : 2 * unit - 0.8;
    return input->init.mean + input->init.spread * (2 * unit - 1);
}

void op_case_fill(const ir_tensor *input, void *data, uint64_t *seed)
{
    const int64_t n = ir_shape_count(&input->shape);
    const int64_t limit = (int64_t)input->init.spread;
    const int64_t low = (int64_t)input->init.mean;
    for (int64_t i = 0; i < n; i++)
        if (ir_dtype_is_float(input->dtype))
            ir_element_set_real(input->dtype, data, i,
                                draw_value(input, i, seed));
        else if (input->dtype == IR_BOOL)
            ir_element_set_int(input->dtype, data, i,
                               draw_bool(input, i, seed));
        else
            ir_element_set_int(input->dtype, data, i,
                               low + fs_rand_below(seed, limit));
}

ir_node op_case_local(const ir_node *node, const ir_io *io)
{
    const ir_shape *out = &io->out[0];
    ir_node local = *node;
    switch (node->op) {
    case IR_OP_fill:
    case IR_OP_random:
    case IR_OP_reshape:
    case IR_OP_broadcast_to:
    case IR_OP_variable:
    case IR_OP_input:
    case IR_OP_constant:
        memcpy(local.i + 1, out->dim, (size_t)out->rank * sizeof *out->dim);
        break;
    case IR_OP_sparsify:
        local.i[0] = out->dim[0];
        break;
    case IR_OP_densify:
        memcpy(local.i, out->dim, 2 * sizeof *local.i);
        break;
    case IR_OP_pick_grad:
        local.i[0] = out->dim[out->rank - 1];
        break;
    case IR_OP_label_weight:
        if (node->n_in > 1)
            local.i[0] = io->in[1].dim[0];
        break;
    case IR_OP_resample_grad:
        local.i[1] = out->dim[local.i[0]];
        break;
    case IR_OP_gather_grad:
        local.i[0] = out->dim[node->i[2]];
        break;
    case IR_OP_one_hot:
        local.i[1] = out->dim[node->i[0]];
        break;
    default:
        break;
    }
    return local;
}
