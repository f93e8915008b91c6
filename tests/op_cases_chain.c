/* Random programs of pointwise steps. */
#include "config.h"

#include "op_draw.h"

#include "ir/chain.h"

#include <string.h>

typedef struct program {
    op_case *c;
    int32_t n_in, n; /* steps so far */
    ir_node step[IR_CHAIN_STEPS];
    bool flag[IR_CHAIN_VALUES]; /* bool values */
} program;

/* A value of the whole space, which input 0 has, or of any shape. */
static int32_t draw_real(program *p, bool whole)
{
    for (;;) {
        const int32_t v = (int32_t)op_draw(p->c, 0, p->n_in + p->n - 1);
        if (!p->flag[v] && (!whole || v == 0 || v >= p->n_in))
            return v;
    }
}

static int32_t find_flag(const program *p)
{
    for (int32_t v = p->n_in + p->n - 1; v >= 0; v--)
        if (p->flag[v])
            return v;
    return -1;
}

static ir_node *add_step(program *p, ir_op_kind op, int32_t n_in)
{
    ir_node *step = &p->step[p->n];
    *step = (ir_node){.op = op, .n_in = n_in, .n_out = 1, .forward = -1};
    for (int32_t i = 0; i < n_in; i++)
        step->in[i] = draw_real(p, i == 0);
    p->n++;
    return step;
}

static void add_real(program *p)
{
    static const ir_op_kind one[] = {IR_OP_tanh,    IR_OP_gelu,  IR_OP_silu,
                                     IR_OP_sigmoid, IR_OP_scale, IR_OP_dropout};
    static const ir_op_kind two[] = {IR_OP_add, IR_OP_sub, IR_OP_mul,
                                     IR_OP_max};
    static const ir_op_kind grad[] = {IR_OP_gelu_grad, IR_OP_tanh_grad,
                                      IR_OP_sigmoid_grad};
    ir_node *step;
    switch (op_draw(p->c, 0, 3)) {
    case 0:
        step = add_step(p, one[op_draw(p->c, 0, 5)], 1);
        step->f[0] = 0.5;
        step->f[1] = step->op == IR_OP_scale && op_draw(p->c, 0, 1) ? 0.25 : 0;
        step->i[0] = step->op == IR_OP_dropout ? 7 : 0;
        return;
    case 1:
        step = add_step(p, grad[op_draw(p->c, 0, 2)], 2);
        step->in[1] = step->in[0];
        return;
    default:
        add_step(p, two[op_draw(p->c, 0, 3)], 2);
    }
}

/* A comparison, or what is done with one. */
static void add_other(program *p)
{
    const int32_t flag = find_flag(p);
    if (flag < 0) {
        add_step(p, IR_OP_less, 2);
        p->flag[p->n_in + p->n - 1] = true;
    } else if (op_draw(p->c, 0, 1)) {
        ir_node *step = add_step(p, IR_OP_where, 3);
        step->in[0] = flag;
    } else {
        ir_node *step = add_step(p, IR_OP_cast, 1);
        step->in[0] = flag;
        step->i[0] = p->c->real;
    }
}

static int32_t draw_outputs(program *p, ir_chain *chain)
{
    int32_t n = 1;
    chain->out[0] = p->n_in + p->n - 1;
    for (int32_t k = 0; k < p->n - 1 && n < IR_MAX_OUT; k++)
        if (op_draw(p->c, 0, 3) == 0)
            chain->out[n++] = p->n_in + k;
    return n;
}

static int32_t case_chain(op_case *c)
{
    const ir_shape space = op_draw_shape(c, 0, 4);
    fs_arena *arena = c->graph->arena;
    program p = {.c = c, .n_in = (int32_t)op_draw(c, 1, 4)};
    int32_t in[4];
    const int32_t steps = (int32_t)op_draw(c, 1, 7);
    for (int32_t i = 0; i < p.n_in; i++)
        in[i] = op_real_input(c, i ? op_draw_narrow(c, space) : space);
    while (p.n < steps)
        if (c->other_type && op_draw(c, 0, 3) == 0)
            add_other(&p);
        else
            add_real(&p);
    ir_chain *chain = fs_new(arena, ir_chain, 1);
    ir_node *step = fs_new(arena, ir_node, p.n);
    memcpy(step, p.step, (size_t)p.n * sizeof *step);
    chain->n_steps = p.n;
    chain->step = step;
    ir_node node = {.chain = chain, .n_out = draw_outputs(&p, chain)};
    node.i[0] = ir_chain_digest(chain, node.n_out);
    return op_add_node(c, p.n_in, in, node);
}

const op_case_row op_cases_chain[] = {
    {IR_OP_chain, case_chain},
    {0, NULL},
};
