/* Importing Attention and RotaryEmbedding. */
#include "config.h"
#include "onnx/operators.h"

#include <math.h>

/* ---- attention ---- */

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, LENGTHS };

/* What the scores are wanted as: output 3, by qk_matmul_output_mode. */
enum { PRODUCT, CAPPED, BIASED, SOFTMAX };

typedef struct layer {
    int32_t q, k, v; /* (B, heads, .., columns) */
    bool packed;     /* they came as (B, .., heads columns) */
    int64_t past;    /* keys of the past */
    int32_t mask;    /* (.., T, S): bool where to look, or added; or -1 */
    ir_node node;    /* the op, without inputs */
} layer;

/* Input i as (B, heads, T, columns). */
static fs_status heads_of(onnx_ctx *c, int32_t i, const char *attr,
                          int32_t *out)
{
    static const int32_t swap[] = {0, 2, 1, 3};
    ir_shape x;
    FS_TRY(onnx_shape(c, i, &x));
    *out = onnx_in(c, i);
    if (x.rank == 4)
        return FS_OK;
    const int64_t heads = onnx_attr_int(c, attr, 0);
    if (x.rank != 3 || heads < 1 || x.dim[2] % heads != 0)
        return onnx_fail(c,
                         "input %d of rank %d does not divide into %s = %lld",
                         i, x.rank, attr, (long long)heads);
    const ir_shape apart = {4, {x.dim[0], x.dim[1], heads, x.dim[2] / heads}};
    *out = ir_transpose(c->graph, ir_reshape(c->graph, *out, apart), swap);
    return FS_OK;
}

/* Keys and values: those of the past come first. */
static int32_t after_past(onnx_ctx *c, int32_t past, int32_t now)
{
    if (!onnx_has(c, past))
        return now;
    const int32_t both[2] = {onnx_in(c, past), now};
    return ir_concat(c->graph, both, 2, 2);
}

/* A mask of fewer keys hides those that it does not tell of. */
static fs_status read_mask(onnx_ctx *c, int64_t keys, layer *l)
{
    ir_graph *g = c->graph;
    ir_shape rest;
    FS_TRY(onnx_shape(c, MASK, &rest));
    l->mask = onnx_in(c, MASK);
    const int32_t last = rest.rank - 1;
    if (rest.rank < 2 || rest.rank > 4)
        return onnx_fail(c, "its mask has rank %d", rest.rank);
    if (rest.dim[last] == 1 || rest.dim[last] >= keys)
        return FS_OK;
    if (onnx_dtype_of(c, MASK) == IR_BOOL) {
        l->mask = ir_pad(g, l->mask, last, 0, keys - rest.dim[last]);
        return FS_OK;
    }
    rest.dim[last] = keys - rest.dim[last];
    const int32_t low =
        ir_cast(g, ir_fill(g, rest, -INFINITY), onnx_dtype_of(c, MASK));
    l->mask = ir_concat(g, (const int32_t[]){l->mask, low}, 2, last);
    return FS_OK;
}

static fs_status read_attributes(onnx_ctx *c, layer *l)
{
    const ir_shape q = ir_shape_of(c->graph, l->q);
    const ir_shape k = ir_shape_of(c->graph, l->k);
    if (q.rank != 4 || k.rank != 4)
        return onnx_fail(c, "q, k and v are not of rank 3 or 4");
    if (k.dim[1] < 1 || q.dim[1] % k.dim[1] != 0)
        return onnx_fail(c, "%lld heads of q do not share %lld of k",
                         (long long)q.dim[1], (long long)k.dim[1]);
    double scale = onnx_attr_real(c, "scale", 0);
    if (scale == 0)
        scale = 1 / sqrt((double)q.dim[3]);
    l->node = (ir_node){
        .op = IR_OP_attention,
        .i = {onnx_attr_int(c, "is_causal", 0) != 0, q.dim[1] / k.dim[1], 0, 0,
              onnx_has(c, LENGTHS), l->past},
        .f = {scale, -INFINITY, onnx_attr_real(c, "softcap", 0)}};
    return FS_OK;
}

static fs_status read_layer(onnx_ctx *c, layer *l)
{
    ir_shape q, past;
    *l = (layer){.mask = -1};
    FS_TRY(onnx_shape(c, Q, &q));
    l->packed = q.rank == 3;
    FS_TRY(heads_of(c, Q, "q_num_heads", &l->q));
    FS_TRY(heads_of(c, K, "kv_num_heads", &l->k));
    FS_TRY(heads_of(c, V, "kv_num_heads", &l->v));
    if (onnx_has(c, PAST_KEY)) {
        FS_TRY(onnx_shape(c, PAST_KEY, &past));
        if (past.rank != 4)
            return onnx_fail(c, "the past keys are not of rank 4");
        l->past = past.dim[2];
    }
    l->k = after_past(c, PAST_KEY, l->k);
    l->v = after_past(c, PAST_VALUE, l->v);
    FS_TRY(read_attributes(c, l));
    if (onnx_has(c, MASK))
        FS_TRY(read_mask(c, ir_shape_of(c->graph, l->k).dim[2], l));
    return FS_OK;
}

static int32_t attend(onnx_ctx *c, const layer *l)
{
    static const int32_t swap[] = {0, 2, 1, 3};
    ir_graph *g = c->graph;
    ir_node node = l->node;
    node.n_in = 3;
    node.in[0] = l->q;
    node.in[1] = l->k;
    node.in[2] = l->v;
    if (l->mask >= 0)
        node.in[node.n_in++] = l->mask;
    if (node.i[4])
        node.in[node.n_in++] = onnx_in(c, LENGTHS);
    const int32_t y = ir_append(g, &node);
    if (!l->packed)
        return y;
    const ir_shape s = ir_shape_of(g, y);
    return ir_reshape(g, ir_transpose(g, y, swap),
                      (ir_shape){3, {s.dim[0], s.dim[2], s.dim[1] * s.dim[3]}});
}

/* ---- the scores as an output ---- */

/* A constant of the numbers from `first`, of this shape. */
static int32_t places(onnx_ctx *c, ir_shape shape, int64_t first)
{
    const int64_t n = ir_shape_count(&shape);
    int64_t *data = fs_new(c->arena, int64_t, n);
    for (int64_t i = 0; i < n; i++)
        data[i] = first + i;
    return ir_constant(c->graph, NULL, IR_I64, shape, data);
}

/* Scores where `seen`, else minus infinity. */
static int32_t show(ir_graph *g, int32_t seen, int32_t scores)
{
    return ir_where(g, seen, scores,
                    ir_number(g, g->tensors.at[scores].dtype, -INFINITY));
}

static int32_t mask_scores(onnx_ctx *c, const layer *l, int32_t scores)
{
    ir_graph *g = c->graph;
    const ir_shape space = ir_shape_of(g, scores);
    if (scores < 0)
        return -1;
    if (l->mask >= 0)
        scores = g->tensors.at[l->mask].dtype == IR_BOOL
                     ? show(g, l->mask, scores)
                     : ir_binary(g, IR_OP_add, scores, l->mask);
    const int32_t keys = places(c, (ir_shape){1, {space.dim[3]}}, 0);
    if (l->node.i[0]) {
        const ir_shape column = {2, {space.dim[2], 1}};
        const int32_t last = places(c, column, l->past);
        scores = show(g, ir_binary(g, IR_OP_less_equal, keys, last), scores);
    }
    if (!l->node.i[4])
        return scores;
    const ir_shape each = {4, {space.dim[0], 1, 1, 1}};
    const int32_t n =
        ir_reshape(g, ir_cast(g, onnx_in(c, LENGTHS), IR_I64), each);
    return show(g, ir_binary(g, IR_OP_less, keys, n), scores);
}

/* Keys repeated for the heads of q that share them. */
static int32_t keys_of_heads(ir_graph *g, const layer *l)
{
    const int64_t n = l->node.i[1];
    const ir_shape k = ir_shape_of(g, l->k);
    if (n == 1 || k.rank != 4)
        return l->k;
    const int64_t *d = k.dim;
    int32_t x = ir_reshape(g, l->k, (ir_shape){5, {d[0], d[1], 1, d[2], d[3]}});
    x = ir_broadcast_to(g, x, (ir_shape){5, {d[0], d[1], n, d[2], d[3]}});
    return ir_reshape(g, x, (ir_shape){4, {d[0], d[1] * n, d[2], d[3]}});
}

static int32_t scores_of(onnx_ctx *c, const layer *l)
{
    ir_graph *g = c->graph;
    const int64_t mode = onnx_attr_int(c, "qk_matmul_output_mode", PRODUCT);
    const double cap = l->node.f[2];
    int32_t s = ir_matmul(g, l->q, keys_of_heads(g, l), false, true);
    s = ir_scale(g, s, l->node.f[0], 0);
    if (mode >= CAPPED && cap > 0) {
        s = ir_unary(g, IR_OP_tanh, ir_scale(g, s, 1 / cap, 0));
        s = ir_scale(g, s, cap, 0);
    }
    if (mode >= BIASED)
        s = mask_scores(c, l, s);
    return mode >= SOFTMAX ? ir_softmax(g, s) : s;
}

fs_status onnx_import_attention(onnx_ctx *c)
{
    layer l;
    FS_TRY(read_layer(c, &l));
    FS_TRY(onnx_set(c, 0, attend(c, &l)));
    if (onnx_wants(c, 1))
        FS_TRY(onnx_set(c, 1, l.k));
    if (onnx_wants(c, 2))
        FS_TRY(onnx_set(c, 2, l.v));
    return onnx_wants(c, 3) ? onnx_set(c, 3, scores_of(c, &l)) : FS_OK;
}

/* ---- rotary embedding ---- */

/* Cosines or sines of every position: (B, T, pairs), from a table by position
 * or given so; then with an axis of heads at `axis`. */
static fs_status angles_of(onnx_ctx *c, int32_t i, int32_t axis, int32_t *out)
{
    ir_graph *g = c->graph;
    int32_t x = onnx_in(c, i);
    if (onnx_has(c, 3))
        x = ir_gather(g, x, onnx_in(c, 3));
    const ir_shape s = ir_shape_of(g, x);
    if (s.rank != 3)
        return onnx_fail(c,
                         "input %d does not give a row of angles per sample "
                         "and position",
                         i);
    ir_shape wide = {4, {s.dim[0], s.dim[1], s.dim[1], s.dim[2]}};
    wide.dim[axis] = 1;
    *out = ir_reshape(g, x, wide);
    return FS_OK;
}

fs_status onnx_import_rotary(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_shape in, wide;
    FS_TRY(onnx_shape(c, 0, &in));
    wide = in;
    if (in.rank == 3) {
        const int64_t heads = onnx_attr_int(c, "num_heads", 0);
        if (heads < 1 || in.dim[2] % heads != 0)
            return onnx_fail(c,
                             "%lld columns do not divide into num_heads = "
                             "%lld",
                             (long long)in.dim[2], (long long)heads);
        wide = (ir_shape){4, {in.dim[0], in.dim[1], heads, in.dim[2] / heads}};
    }
    if (wide.rank != 4)
        return onnx_fail(c, "its input is not of rank 3 or 4");
    int64_t columns = onnx_attr_int(c, "rotary_embedding_dim", 0);
    if (columns == 0)
        columns = wide.dim[3];
    FS_TRY(onnx_at_least(c, "attribute \"rotary_embedding_dim\"", columns, 2));
    ir_node node = {.op = IR_OP_rotary,
                    .n_in = 3,
                    .in = {ir_reshape(g, onnx_in(c, 0), wide)},
                    .i = {onnx_attr_int(c, "interleaved", 0) != 0, columns}};
    for (int32_t k = 1; k < 3; k++)
        FS_TRY(angles_of(c, k, in.rank == 3 ? 2 : 1, &node.in[k]));
    return onnx_set(c, 0, ir_reshape(g, ir_append(g, &node), in));
}
