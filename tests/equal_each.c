/* Networks of exec_equal_test that hold random instances of any op of the
 * table: what it reads are variables, what it makes goes into the loss. */
#include "config.h"

#include "equal.h"
#include "ir/losses.h"
#include "op_cases.h"

/* Not sparsify, which keeps the largest of what each device holds: it changes
 * numbers, and how much hangs on the plan. Chains come with the rewrites. */
static bool can_stand(ir_op_kind op)
{
    const ir_op_class kind = ir_op_class_of(op);
    return kind != IR_CLASS_UPDATE && kind != IR_CLASS_SOURCE &&
           op_case_exists(op) && op != IR_OP_accumulate && op != IR_OP_output &&
           op != IR_OP_chain && op != IR_OP_sparsify;
}

/* Those that may be used; others are for the op's gradient alone. */
static int32_t outputs_of(const ir_node *node)
{
    return node->op == IR_OP_recurrent       ? 2
           : node->op == IR_OP_cross_entropy ? 1
                                             : node->n_out;
}

/* Trained where the op has a gradient. */
static int32_t add_variable(ir_graph *g, const ir_graph *from, int32_t t,
                            bool trained, uint64_t *seed)
{
    const ir_tensor *input = &from->tensors.at[t];
    const int64_t n = ir_shape_count(&input->shape);
    const bool real = ir_dtype_is_float(input->dtype);
    void *data =
        fs_alloc(g->arena, (size_t)n, (size_t)ir_dtype_bytes(input->dtype));
    op_case_fill(input, data, seed);
    const ir_variable_spec spec = {.role =
                                       trained && real ? IR_PARAM : IR_BUFFER,
                                   .dtype = input->dtype,
                                   .shape = input->shape,
                                   .init = {.kind = IR_INIT_DATA},
                                   .data = data};
    return ir_variable(g, fs_printf(g->arena, "v%d", (int)g->tensors.n), &spec);
}

static int32_t add_loss(ir_graph *g, int32_t loss, int32_t x)
{
    if (g->tensors.at[x].dtype != IR_F32)
        x = ir_cast(g, x, IR_F32);
    x = ir_reduce_loss(g, ir_binary(g, IR_OP_mul, x, ir_scale(g, x, 0.1, 0.3)),
                       IR_ROWS_MEAN);
    return loss < 0 ? x : ir_binary(g, IR_OP_add, loss, x);
}

/* The instance, with its inputs as variables; returns the loss with it. */
static int32_t copy_case(ir_graph *g, const ir_graph *from, int32_t v,
                         uint64_t *seed, int32_t loss)
{
    ir_node node = from->nodes.at[v];
    const bool trained = ir_op_table[node.op]->grad != NULL;
    int32_t variable[IR_MAX_IN];
    for (int32_t i = 0; i < node.n_in; i++) {
        variable[i] = -1;
        for (int32_t k = 0; k < i; k++) /* read twice */
            if (from->nodes.at[v].in[k] == from->nodes.at[v].in[i])
                variable[i] = variable[k];
        if (variable[i] < 0)
            variable[i] =
                add_variable(g, from, from->nodes.at[v].in[i], trained, seed);
        node.in[i] = variable[i];
    }
    const int32_t id = ir_graph_add(g, &node);
    const int32_t n = id < 0 ? 0 : outputs_of(&g->nodes.at[id]);
    for (int32_t k = 0; k < n; k++)
        loss = add_loss(g, loss, g->nodes.at[id].out[k]);
    return loss;
}

void equal_draw_each(const equal_case *c, int32_t samples, ir_graph *g)
{
    const ir_init init = {IR_INIT_NORMAL, 0, 1, 5};
    const ir_shape shape = {2, {samples, 3}}, row = {1, {3}};
    int32_t x = ir_input(g, "x", IR_F32, shape, 0);
    int32_t loss = add_loss(
        g, -1,
        ir_binary(g, IR_OP_mul, x, ir_parameter(g, "w", IR_F32, row, init)));
    for (int32_t k = 0; k < c->n_ops && g->err.status == FS_OK; k++) {
        uint64_t seed = fs_mix(c->seed ^ fs_mix((uint64_t)k + 200));
        ir_graph *from = ir_graph_create("op");
        op_case one = {
            .graph = from, .real = c->wide ? IR_F64 : IR_F32, .seed = &seed};
        do
            one.op = (ir_op_kind)fs_rand_below(&seed, IR_OP_COUNT);
        while (!can_stand(one.op));
        const int32_t v = op_case_build(&one);
        if (v >= 0 && !(c->left_out >> k & 1))
            loss = copy_case(g, from, v, &seed, loss);
        ir_graph_destroy(from);
    }
    g->loss = loss;
}
