/* Element by element. */
#include "config.h"

#include "op_draw.h"

static int32_t case_fill(op_case *c)
{
    ir_node node = {.f = {op_draw(c, 0, 1) ? 0.75 : 0}};
    op_set_shape(&node, op_draw_shape(c, 0, 3));
    return op_add_node(c, 0, NULL, node);
}

static int32_t case_binary(op_case *c)
{
    const ir_shape wide = op_draw_shape(c, 1, 4);
    ir_shape a = wide, b = op_draw_narrow(c, wide);
    ir_dtype dtype = c->real;
    ir_init init = c->op == IR_OP_div ? op_positive : op_any_real;
    if (op_draw(c, 0, 1)) {
        a = b;
        b = wide;
    }
    if (c->other_type && op_draw(c, 0, 3) == 0) {
        dtype = op_draw(c, 0, 1) ? IR_I32 : IR_I64;
        init = (ir_init){.kind = IR_INIT_UNIFORM, .mean = 1, .spread = 9};
    }
    const int32_t in[] = {op_add_input(c, dtype, a, init),
                          op_add_input(c, dtype, b, init)};
    return op_add_node(c, 2, in, (ir_node){0});
}

/* Two operands, one of them perhaps narrower, in either order; integers where
 * the op takes them. */
typedef struct operands {
    ir_init a, b;
    int whole; /* of 4 cases with other types, how many are integers */
} operands;
enum { ALWAYS = 4 };

static int32_t add_operands(op_case *c, const operands *of, ir_node node)
{
    const ir_shape wide = op_draw_shape(c, 1, 4);
    ir_shape a = wide, b = op_draw_narrow(c, wide);
    const ir_init near = {.kind = IR_INIT_UNIFORM, .mean = 1, .spread = 5};
    const bool whole =
        of->whole == ALWAYS || (c->other_type && op_draw(c, 0, 3) < of->whole);
    const ir_dtype dtype = !whole             ? c->real
                           : op_draw(c, 0, 1) ? IR_I32
                                              : IR_I64;
    if (op_draw(c, 0, 1) && c->op != IR_OP_prelu) {
        a = b;
        b = wide;
    }
    const int32_t in[] = {op_add_input(c, dtype, a, whole ? near : of->a),
                          op_add_input(c, dtype, b, whole ? near : of->b)};
    return op_add_node(c, 2, in, node);
}

static int32_t case_extreme(op_case *c)
{
    return add_operands(c, &(operands){op_any_real, op_any_real, 2},
                        (ir_node){0});
}

static int32_t case_mod(op_case *c)
{
    const ir_init line = {.kind = IR_INIT_UNIFORM, .spread = 3};
    return add_operands(c, &(operands){line, op_not_small, 2},
                        (ir_node){.i = {op_draw(c, 0, 1)}});
}

static int32_t case_pow(op_case *c)
{
    return add_operands(c, &(operands){op_positive, op_any_real, 0},
                        (ir_node){0});
}

static int32_t case_prelu(op_case *c)
{
    return add_operands(c, &(operands){op_not_small, op_any_real, 0},
                        (ir_node){0});
}

/* Reals rarely meet: integers, so that equality is seen. */
static int32_t case_compare(op_case *c)
{
    return add_operands(c, &(operands){op_any_real, op_any_real, 3},
                        (ir_node){0});
}

static int32_t case_bits(op_case *c)
{
    const ir_shape wide = op_draw_shape(c, 1, 4);
    if (op_draw(c, 0, 1))
        return add_operands(c, &(operands){.whole = ALWAYS}, (ir_node){0});
    const int32_t in[] = {
        op_add_input(c, IR_BOOL, op_draw_narrow(c, wide), op_any_real),
        op_add_input(c, IR_BOOL, wide, op_any_real)};
    return op_add_node(c, 2, in, (ir_node){0});
}

/* dy and the forward's operands. */
static int32_t case_binary_grad(op_case *c)
{
    const ir_shape wide = op_draw_shape(c, 1, 4);
    ir_shape a = wide, b = op_draw_narrow(c, wide);
    if (op_draw(c, 0, 1)) {
        a = b;
        b = wide;
    }
    const int32_t in[] = {op_real_input(c, wide), op_real_input(c, a),
                          op_real_input(c, b)};
    return op_add_node(c, 3, in, (ir_node){0});
}

static int32_t case_unary(op_case *c)
{
    const int32_t x =
        op_add_input(c, c->real, op_draw_shape(c, 0, 4), op_not_small);
    return op_add_node(c, 1, &x, (ir_node){0});
}

static int32_t case_positive(op_case *c)
{
    const double exponents[] = {2, 3, 0.5, -1, 1.7};
    const int32_t x =
        op_add_input(c, c->real, op_draw_shape(c, 1, 4), op_positive);
    return op_add_node(c, 1, &x, (ir_node){.f = {exponents[op_draw(c, 0, 4)]}});
}

static int32_t case_scale(op_case *c)
{
    const int32_t x = op_real_input(c, op_draw_shape(c, 1, 4));
    return op_add_node(c, 1, &x,
                       (ir_node){.f = {-1.5, op_draw(c, 0, 1) ? 0 : 0.25}});
}

/* What the functions of functions.def are drawn from. */
static ir_init domain_of(ir_op_kind op)
{
    const ir_init REAL = op_not_small;
    const ir_init LINE = {.kind = IR_INIT_UNIFORM, .spread = 3};
    const ir_init UNIT = {.kind = IR_INIT_UNIFORM, .spread = 0.9};
    const ir_init OVER_1 = {
        .kind = IR_INIT_UNIFORM, .mean = 2.05, .spread = 0.95};
    switch (op) {
#define DOMAIN_X(op, domain)                                                   \
    case IR_OP_##op:                                                           \
    case IR_OP_##op##_grad:                                                    \
        return domain;
#define DOMAIN_Y DOMAIN_X
#define DOMAIN_NONE(op, domain)                                                \
    case IR_OP_##op:                                                           \
        return domain;
#define IR_FUNCTION(op, takes, flop, slope_flop, domain)                       \
    DOMAIN_##takes(op, domain)
#include "ir/functions.def"
#undef IR_FUNCTION
    default:
        return op_not_small;
    }
}

static const ir_node function_parameters = {.f = {0.7, 1.1, 0.8}};

static int32_t case_function(op_case *c)
{
    const int32_t x =
        op_add_input(c, c->real, op_draw_shape(c, 0, 4), domain_of(c->op));
    return op_add_node(c, 1, &x, function_parameters);
}

/* dy and the forward's input or output. */
static int32_t case_unary_grad(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 4);
    const int32_t in[] = {op_real_input(c, shape),
                          op_add_input(c, c->real, shape, domain_of(c->op))};
    return op_add_node(c, 2, in, function_parameters);
}

static int32_t case_dropout(op_case *c)
{
    const int32_t x = op_real_input(c, op_draw_shape(c, 0, 4));
    return op_add_node(c, 1, &x,
                       (ir_node){.f = {0.3}, .i = {op_draw(c, 0, 99)}});
}

static int32_t case_random(op_case *c)
{
    ir_node node = {.f = {0.5, 2}};
    op_set_shape(&node, op_draw_shape(c, 0, 4));
    node.i[9] = op_draw(c, 0, 1) ? IR_INIT_NORMAL : IR_INIT_UNIFORM;
    node.i[10] = op_draw(c, 0, 99);
    return op_add_node(c, 0, NULL, node);
}

static int32_t case_where(op_case *c)
{
    const ir_shape wide = op_draw_shape(c, 1, 4);
    ir_shape shape[3];
    for (int k = 0; k < 3; k++)
        shape[k] = op_draw_narrow(c, wide);
    shape[op_draw(c, 0, 2)] = wide;
    const int32_t in[] = {op_add_input(c, IR_BOOL, shape[0], op_any_real),
                          op_real_input(c, shape[1]),
                          op_real_input(c, shape[2])};
    return op_add_node(c, 3, in, (ir_node){0});
}

static int32_t case_cast(op_case *c)
{
    const ir_shape shape = op_draw_shape(c, 1, 4);
    ir_dtype from = c->real, to = c->real;
    if (c->other_type) {
        from = (ir_dtype)op_draw(c, 0, IR_DTYPE_COUNT - 1);
        to = (ir_dtype)op_draw(c, 0, IR_DTYPE_COUNT - 1);
    }
    const ir_init init = {.kind = IR_INIT_UNIFORM, .spread = 3};
    const int32_t x = op_add_input(c, from, shape, init);
    return op_add_node(c, 1, &x, (ir_node){.i = {to}});
}

const op_case_row op_cases_pointwise[] = {
    {IR_OP_fill, case_fill},
    {IR_OP_identity, case_unary},
    {IR_OP_add, case_binary},
    {IR_OP_sub, case_binary},
    {IR_OP_mul, case_binary},
    {IR_OP_div, case_binary},
    {IR_OP_scale, case_scale},
#define ROW_X(op) {IR_OP_##op##_grad, case_unary_grad},
#define ROW_Y ROW_X
#define ROW_NONE(op)
#define IR_FUNCTION(op, takes, ...) {IR_OP_##op, case_function}, ROW_##takes(op)
#include "ir/functions.def"
#undef IR_FUNCTION
    {IR_OP_exp, case_unary},
    {IR_OP_log, case_positive},
    {IR_OP_sqrt, case_positive},
    {IR_OP_power, case_positive},
    {IR_OP_max, case_extreme},
    {IR_OP_min, case_extreme},
    {IR_OP_mod, case_mod},
    {IR_OP_pow, case_pow},
    {IR_OP_prelu, case_prelu},
    {IR_OP_max_grad, case_binary_grad},
    {IR_OP_min_grad, case_binary_grad},
    {IR_OP_prelu_grad, case_binary_grad},
    {IR_OP_equal, case_compare},
    {IR_OP_less, case_compare},
    {IR_OP_less_equal, case_compare},
    {IR_OP_bit_and, case_bits},
    {IR_OP_bit_or, case_bits},
    {IR_OP_bit_xor, case_bits},
    {IR_OP_where, case_where},
    {IR_OP_cast, case_cast},
    {IR_OP_dropout, case_dropout},
    {IR_OP_random, case_random},
    {IR_OP_softmax_grad, case_unary_grad},
    {IR_OP_log_softmax_grad, case_unary_grad},
    {IR_OP_accumulate, case_unary},
    {0, NULL},
};
