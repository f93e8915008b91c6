#include "config.h"

#include "op_cases.h"

#include "base/hash.h"
#include "ir/build.h"
#include "ir/element.h"

#include <stdio.h>
#include <string.h>

/* How an input is filled, kept in its tensor's init: UNIFORM mean and spread;
 * NORMAL stands for values at least 0.2 away from zero, CONSTANT for values
 * that differ by more than a finite difference's step; integers are mean plus
 * 0 .. spread - 1. */
static const ir_init any_real = {.kind = IR_INIT_UNIFORM, .spread = 1};
static const ir_init positive = {
    .kind = IR_INIT_UNIFORM, .mean = 1.25, .spread = 0.75};
static const ir_init far_apart = {.kind = IR_INIT_CONSTANT};
static const ir_init not_small = {.kind = IR_INIT_NORMAL};

static int64_t draw(op_case *c, int64_t low, int64_t high)
{
    return low + fs_rand_below(c->seed, high - low + 1);
}

static ir_shape draw_shape(op_case *c, int32_t low, int32_t high)
{
    ir_shape shape = {.rank = (int32_t)draw(c, low, high)};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = draw(c, 0, 5) ? draw(c, 2, 5) : 1;
    if (c->wide && shape.rank > 0)
        shape.dim[shape.rank - 1] = draw(c, 1, 70);
    return shape;
}

/* A shape that broadcasts to `wide`. */
static ir_shape draw_narrow(op_case *c, ir_shape wide)
{
    if (draw(c, 0, 2) == 0)
        return wide;
    int32_t drop = (int32_t)draw(c, 0, wide.rank);
    ir_shape shape = {.rank = wide.rank - drop};
    for (int32_t i = 0; i < shape.rank; i++)
        shape.dim[i] = draw(c, 0, 2) ? wide.dim[drop + i] : 1;
    return shape;
}

static int32_t add_input(op_case *c, ir_dtype dtype, ir_shape shape,
                         ir_init init)
{
    char name[32];
    snprintf(name, sizeof name, "in%d", c->graph->tensors.n);
    int32_t id = ir_input(c->graph, name, dtype, shape, -1);
    if (id >= 0)
        c->graph->tensors.at[id].init = init;
    return id;
}

static int32_t real_input(op_case *c, ir_shape shape)
{
    return add_input(c, c->real, shape, any_real);
}

static int32_t id_input(op_case *c, ir_shape shape, int64_t limit)
{
    ir_init below = {.kind = IR_INIT_UNIFORM, .spread = (double)limit};
    return add_input(c, draw(c, 0, 1) ? IR_I32 : IR_I64, shape, below);
}

static int32_t add_node(op_case *c, int32_t n_in, const int32_t *in,
                        ir_node node)
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

static void set_shape(ir_node *node, ir_shape shape)
{
    node->i[0] = shape.rank;
    memcpy(node->i + 1, shape.dim, (size_t)shape.rank * sizeof *shape.dim);
}

static int32_t case_fill(op_case *c)
{
    ir_node node = {.f = {draw(c, 0, 1) ? 0.75 : 0}};
    set_shape(&node, draw_shape(c, 0, 3));
    return add_node(c, 0, NULL, node);
}

static int32_t case_reshape(op_case *c)
{
    ir_node node = {0};
    ir_shape in = draw_shape(c, 3, 4), out = in;
    int32_t at = (int32_t)draw(c, 0, in.rank - 2);
    out.dim[at] *= out.dim[at + 1];
    for (int32_t i = at + 1; i + 1 < in.rank; i++)
        out.dim[i] = in.dim[i + 1];
    out.rank--;
    const bool split = draw(c, 0, 1);
    const int32_t x = real_input(c, split ? out : in);
    set_shape(&node, split ? in : out);
    return add_node(c, 1, &x, node);
}

static int32_t case_matmul(op_case *c)
{
    ir_shape a = draw_shape(c, 2, 4), b = a;
    const int32_t r = a.rank;
    const int64_t most = c->wide ? 40 : 5;
    const int64_t m = draw(c, 1, most), n = draw(c, 1, most);
    const int64_t k = draw(c, 1, most + 1);
    const ir_node node = {.i = {draw(c, 0, 1), draw(c, 0, 1)}};
    if (draw(c, 0, 1))
        b.rank = 2;
    a.dim[r - 2] = node.i[0] ? k : m;
    a.dim[r - 1] = node.i[0] ? m : k;
    b.dim[b.rank - 2] = node.i[1] ? n : k;
    b.dim[b.rank - 1] = node.i[1] ? k : n;
    const int32_t in[] = {real_input(c, a), real_input(c, b)};
    return add_node(c, 2, in, (ir_node){.i = {node.i[0], node.i[1]}});
}

static int32_t case_weight_grad(op_case *c)
{
    ir_shape a = draw_shape(c, 2, 4), b = a;
    b.dim[b.rank - 1] = draw(c, 1, 6);
    const int32_t in[] = {real_input(c, a), real_input(c, b)};
    return add_node(c, 2, in, (ir_node){0});
}

static int32_t case_binary(op_case *c)
{
    const ir_shape wide = draw_shape(c, 1, 4);
    ir_shape a = wide, b = draw_narrow(c, wide);
    ir_dtype dtype = c->real;
    ir_init init = c->op == IR_OP_div ? positive : any_real;
    if (draw(c, 0, 1)) {
        a = b;
        b = wide;
    }
    if (c->other_type && draw(c, 0, 3) == 0) {
        dtype = draw(c, 0, 1) ? IR_I32 : IR_I64;
        init = (ir_init){.kind = IR_INIT_UNIFORM, .mean = 1, .spread = 9};
    }
    const int32_t in[] = {add_input(c, dtype, a, init),
                          add_input(c, dtype, b, init)};
    return add_node(c, 2, in, (ir_node){0});
}

static int32_t case_unary(op_case *c)
{
    const int32_t x = add_input(c, c->real, draw_shape(c, 0, 4), not_small);
    return add_node(c, 1, &x, (ir_node){0});
}

static int32_t case_positive(op_case *c)
{
    const double exponents[] = {2, 3, 0.5, -1, 1.7};
    const int32_t x = add_input(c, c->real, draw_shape(c, 1, 4), positive);
    return add_node(c, 1, &x, (ir_node){.f = {exponents[draw(c, 0, 4)]}});
}

static int32_t case_scale(op_case *c)
{
    const int32_t x = real_input(c, draw_shape(c, 1, 4));
    return add_node(c, 1, &x, (ir_node){.f = {-1.5, draw(c, 0, 1) ? 0 : 0.25}});
}

static int32_t case_gelu(op_case *c)
{
    const int32_t x = real_input(c, draw_shape(c, 1, 4));
    return add_node(c, 1, &x, (ir_node){.i = {draw(c, 0, 1)}});
}

/* dy and the forward's input or output. */
static int32_t case_unary_grad(op_case *c)
{
    const ir_shape shape = draw_shape(c, 1, 4);
    const int32_t in[] = {real_input(c, shape),
                          add_input(c, c->real, shape, not_small)};
    return add_node(c, 2, in, (ir_node){.i = {draw(c, 0, 1)}});
}

static int32_t case_where(op_case *c)
{
    const ir_shape wide = draw_shape(c, 1, 4);
    ir_shape shape[3];
    for (int k = 0; k < 3; k++)
        shape[k] = draw_narrow(c, wide);
    shape[draw(c, 0, 2)] = wide;
    const int32_t in[] = {add_input(c, IR_BOOL, shape[0], any_real),
                          real_input(c, shape[1]), real_input(c, shape[2])};
    return add_node(c, 3, in, (ir_node){0});
}

static int32_t case_cast(op_case *c)
{
    const ir_shape shape = draw_shape(c, 1, 4);
    ir_dtype from = c->real, to = c->real;
    if (c->other_type) {
        from = (ir_dtype)draw(c, 0, IR_DTYPE_COUNT - 1);
        to = (ir_dtype)draw(c, 0, IR_DTYPE_COUNT - 1);
    }
    const ir_init init = {.kind = IR_INIT_UNIFORM, .spread = 3};
    const int32_t x = add_input(c, from, shape, init);
    return add_node(c, 1, &x, (ir_node){.i = {to}});
}

static int32_t case_reduce_sum(op_case *c)
{
    const ir_shape shape = draw_shape(c, 1, 4);
    const int32_t x = real_input(c, shape);
    return add_node(
        c, 1, &x,
        (ir_node){.i = {draw(c, 0, (1 << shape.rank) - 1), draw(c, 0, 1)}});
}

static int32_t case_broadcast_to(op_case *c)
{
    const ir_shape wide = draw_shape(c, 1, 4);
    const int32_t x = real_input(c, draw_narrow(c, wide));
    ir_node node = {0};
    set_shape(&node, wide);
    return add_node(c, 1, &x, node);
}

static int32_t case_transpose(op_case *c)
{
    ir_shape perm = draw_shape(c, 1, 4);
    const int32_t x = real_input(c, perm);
    ir_node node = {0};
    for (int32_t i = 0; i < perm.rank; i++)
        perm.dim[i] = i;
    for (int32_t i = perm.rank - 1; i > 0; i--) {
        const int64_t other = draw(c, 0, i), kept = perm.dim[i];
        perm.dim[i] = perm.dim[other];
        perm.dim[other] = kept;
    }
    set_shape(&node, perm);
    return add_node(c, 1, &x, node);
}

static int32_t case_slice(op_case *c)
{
    const ir_shape shape = draw_shape(c, 1, 4);
    const int32_t axis = (int32_t)draw(c, 0, shape.rank - 1);
    const int64_t start = draw(c, 0, shape.dim[axis] - 1);
    const int64_t length = draw(c, 1, shape.dim[axis] - start);
    const int32_t x = real_input(c, shape);
    return add_node(c, 1, &x, (ir_node){.i = {axis, start, length}});
}

static int32_t case_pad(op_case *c)
{
    const ir_shape shape = draw_shape(c, 1, 4);
    const int32_t x = real_input(c, shape);
    return add_node(c, 1, &x,
                    (ir_node){.i = {draw(c, 0, shape.rank - 1), draw(c, 0, 3),
                                    draw(c, 0, 3)}});
}

static int32_t case_concat(op_case *c)
{
    ir_shape shape = draw_shape(c, 1, 4);
    const int32_t n = (int32_t)draw(c, 1, 4);
    const int32_t axis = (int32_t)draw(c, 0, shape.rank - 1);
    int32_t in[4];
    for (int32_t k = 0; k < n; k++) {
        shape.dim[axis] = draw(c, 1, 3);
        in[k] = real_input(c, shape);
    }
    return add_node(c, n, in, (ir_node){.i = {axis}});
}

static int32_t case_gather(op_case *c)
{
    const ir_shape table = draw_shape(c, 1, 3), ids = draw_shape(c, 0, 2);
    const int32_t in[] = {real_input(c, table), id_input(c, ids, table.dim[0])};
    return add_node(c, 2, in, (ir_node){0});
}

static int32_t case_gather_grad(op_case *c)
{
    const ir_shape row = draw_shape(c, 0, 2), ids = draw_shape(c, 0, 2);
    const int64_t n = draw(c, 2, 6);
    ir_shape dy = ids;
    for (int32_t i = 0; i < row.rank; i++)
        dy.dim[dy.rank++] = row.dim[i];
    const int32_t in[] = {real_input(c, dy), id_input(c, ids, n)};
    return add_node(c, 2, in, (ir_node){.i = {n}});
}

static int32_t case_softmax(op_case *c)
{
    const int32_t x = real_input(c, draw_shape(c, 1, 4));
    return add_node(c, 1, &x, (ir_node){0});
}

/* x (..,C), gain, bias (C). */
static int32_t case_layer_norm(op_case *c)
{
    ir_shape x = draw_shape(c, 1, 4);
    x.dim[x.rank - 1] += 3;
    const ir_shape row = {1, {x.dim[x.rank - 1]}};
    const int32_t in[] = {real_input(c, x), real_input(c, row),
                          real_input(c, row)};
    return add_node(c, 3, in, (ir_node){.f = {1e-5}});
}

/* dy, x, [gain,] mean, rstd. */
static int32_t case_layer_norm_grad(op_case *c)
{
    const ir_shape x = draw_shape(c, 1, 4);
    const ir_shape row = {1, {x.dim[x.rank - 1]}};
    const bool data = c->op == IR_OP_layer_norm_grad;
    ir_shape one = x;
    one.dim[x.rank - 1] = 1;
    int32_t in[5], n = 0;
    in[n++] = real_input(c, x);
    in[n++] = real_input(c, x);
    if (data)
        in[n++] = real_input(c, row);
    in[n++] = real_input(c, one);
    in[n++] = add_input(c, c->real, one, positive);
    return add_node(c, n, in, (ir_node){0});
}

static int32_t case_cross_entropy(op_case *c)
{
    const ir_shape x = draw_shape(c, 1, 4);
    ir_shape rows = x;
    rows.rank--;
    const int32_t in[] = {real_input(c, x),
                          id_input(c, rows, x.dim[x.rank - 1])};
    return add_node(c, 2, in, (ir_node){.f = {0.3}});
}

static int32_t case_cross_entropy_grad(op_case *c)
{
    const ir_shape x = draw_shape(c, 1, 4);
    ir_shape rows = x;
    rows.rank--;
    const int32_t in[] = {real_input(c, (ir_shape){0}),
                          add_input(c, c->real, x, positive),
                          id_input(c, rows, x.dim[x.rank - 1])};
    return add_node(c, 3, in, (ir_node){.f = {0.3}});
}

/* Sizes of a convolution or a pooling: x (N, C, H, W) to y (N, M, H', W'). */
typedef struct planes {
    ir_shape x, w, y;
    ir_node node;
} planes;

static planes draw_planes(op_case *c, bool pool)
{
    const int64_t groups = pool ? 1 : draw(c, 1, 2);
    const int64_t per_group = draw(c, 1, 3);
    planes p = {.x = {4,
                      {draw(c, 2, 3), groups * per_group, draw(c, 5, 8),
                       draw(c, 5, c->wide ? 50 : 8)}},
                .w = {4,
                      {groups * draw(c, 1, 3), per_group, draw(c, 1, 3),
                       draw(c, 1, 3)}}};
    int64_t *i = p.node.i;
    p.y = p.x;
    p.y.dim[1] = pool ? p.x.dim[1] : p.w.dim[0];
    for (int k = 0; k < 2; k++) {
        const int64_t size = p.w.dim[2 + k];
        i[k] = draw(c, 1, 2);
        i[2 + k] = draw(c, 0, size / 2);
        i[4 + k] = draw(c, 0, size / 2);
        i[6 + k] = pool ? size : draw(c, 1, 2);
        const int64_t reach = pool ? size : (size - 1) * i[6 + k] + 1;
        p.y.dim[2 + k] =
            (p.x.dim[2 + k] + i[2 + k] + i[4 + k] - reach) / i[k] + 1;
    }
    i[8] = pool ? draw(c, 0, 1) : groups;
    return p;
}

static int32_t case_conv(op_case *c)
{
    planes p = draw_planes(c, false);
    ir_shape first = p.x, second = p.w, missing = p.x;
    if (c->op != IR_OP_conv2d)
        first = p.y;
    if (c->op == IR_OP_conv2d_filter_grad) {
        second = p.x;
        missing = p.w;
    }
    if (c->op != IR_OP_conv2d) {
        p.node.i[9] = missing.dim[2];
        p.node.i[10] = missing.dim[3];
    }
    const int32_t in[] = {real_input(c, first), real_input(c, second)};
    return add_node(c, 2, in, p.node);
}

static int32_t case_pool(op_case *c)
{
    const planes p = draw_planes(c, true);
    const int32_t x = add_input(c, c->real, p.x, far_apart);
    return add_node(c, 1, &x, p.node);
}

static int32_t case_max_pool_grad(op_case *c)
{
    const planes p = draw_planes(c, true);
    const int32_t dy = real_input(c, p.y), x = real_input(c, p.x);
    const int32_t y = ir_pool2d(c->graph, IR_OP_max_pool2d, x, p.node.i);
    const int32_t in[] = {dy, x, y};
    return add_node(c, 3, in, p.node);
}

static int32_t case_avg_pool_grad(op_case *c)
{
    planes p = draw_planes(c, true);
    const int32_t dy = real_input(c, p.y);
    p.node.i[9] = p.x.dim[2];
    p.node.i[10] = p.x.dim[3];
    return add_node(c, 1, &dy, p.node);
}

static int32_t case_update(op_case *c)
{
    const ir_shape shape = draw_shape(c, 1, 3);
    const int32_t n = c->op == IR_OP_sgd ? 2 : c->op == IR_OP_adam ? 4 : 3;
    ir_node node = {.i = {draw(c, 0, 1)}, .f = {0.05, 0.1, 0.9, 0.999, 1e-8}};
    int32_t in[4];
    for (int32_t k = 0; k < n; k++)
        in[k] = add_input(c, c->real, shape, k == 3 ? positive : any_real);
    return add_node(c, n, in, node);
}

typedef int32_t generator(op_case *c);
static generator *const generators[IR_OP_COUNT] = {
    [IR_OP_fill] = case_fill,
    [IR_OP_identity] = case_unary,
    [IR_OP_reshape] = case_reshape,
    [IR_OP_matmul] = case_matmul,
    [IR_OP_weight_grad] = case_weight_grad,
    [IR_OP_add] = case_binary,
    [IR_OP_sub] = case_binary,
    [IR_OP_mul] = case_binary,
    [IR_OP_div] = case_binary,
    [IR_OP_scale] = case_scale,
    [IR_OP_relu] = case_unary,
    [IR_OP_sigmoid] = case_unary,
    [IR_OP_tanh] = case_unary,
    [IR_OP_gelu] = case_gelu,
    [IR_OP_erf] = case_unary,
    [IR_OP_exp] = case_unary,
    [IR_OP_log] = case_positive,
    [IR_OP_sqrt] = case_positive,
    [IR_OP_power] = case_positive,
    [IR_OP_relu_grad] = case_unary_grad,
    [IR_OP_sigmoid_grad] = case_unary_grad,
    [IR_OP_tanh_grad] = case_unary_grad,
    [IR_OP_gelu_grad] = case_unary_grad,
    [IR_OP_erf_grad] = case_unary_grad,
    [IR_OP_where] = case_where,
    [IR_OP_cast] = case_cast,
    [IR_OP_reduce_sum] = case_reduce_sum,
    [IR_OP_broadcast_to] = case_broadcast_to,
    [IR_OP_transpose] = case_transpose,
    [IR_OP_slice] = case_slice,
    [IR_OP_pad] = case_pad,
    [IR_OP_concat] = case_concat,
    [IR_OP_gather] = case_gather,
    [IR_OP_gather_grad] = case_gather_grad,
    [IR_OP_softmax] = case_softmax,
    [IR_OP_softmax_grad] = case_unary_grad,
    [IR_OP_layer_norm] = case_layer_norm,
    [IR_OP_layer_norm_grad] = case_layer_norm_grad,
    [IR_OP_layer_norm_param_grad] = case_layer_norm_grad,
    [IR_OP_cross_entropy] = case_cross_entropy,
    [IR_OP_cross_entropy_grad] = case_cross_entropy_grad,
    [IR_OP_conv2d] = case_conv,
    [IR_OP_conv2d_data_grad] = case_conv,
    [IR_OP_conv2d_filter_grad] = case_conv,
    [IR_OP_max_pool2d] = case_pool,
    [IR_OP_max_pool2d_grad] = case_max_pool_grad,
    [IR_OP_avg_pool2d] = case_pool,
    [IR_OP_avg_pool2d_grad] = case_avg_pool_grad,
    [IR_OP_accumulate] = case_unary,
    [IR_OP_sgd] = case_update,
    [IR_OP_momentum] = case_update,
    [IR_OP_adam] = case_update,
};

bool op_case_exists(ir_op_kind op)
{
    return generators[op] != NULL;
}

int32_t op_case_build(op_case *c)
{
    return generators[c->op] ? generators[c->op](c) : -1;
}

static double draw_value(const ir_tensor *input, int64_t at, uint64_t *seed)
{
    const double unit = fs_rand_unit(seed);
    const int64_t n = ir_shape_count(&input->shape);
    if (input->init.kind == IR_INIT_CONSTANT) /* a permutation: 7919 is prime */
        return (double)(at * 7919 % n) / (double)n + unit / (double)(4 * n);
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
            ir_element_set_int(input->dtype, data, i, fs_rand_below(seed, 2));
        else
            ir_element_set_int(input->dtype, data, i,
                               low + fs_rand_below(seed, limit));
}
