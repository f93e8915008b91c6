/* Importing Pad: axis by axis; negative pads cut. */
#include "config.h"
#include "onnx/operators.h"

#include <string.h>

static fs_status get_pads(onnx_ctx *c, int32_t rank, int64_t before[],
                          int64_t after[])
{
    onnx_ints pads, axes;
    FS_TRY(onnx_get_ints(c, "pads", 1, &pads));
    FS_TRY(onnx_get_ints(c, NULL, 3, &axes));
    int64_t n = axes.n >= 0 ? axes.n : rank;
    if (pads.n != 2 * n)
        return onnx_fail(c, "%lld pads for %lld axes", (long long)pads.n,
                         (long long)n);
    memset(before, 0, IR_MAX_RANK * sizeof *before);
    memset(after, 0, IR_MAX_RANK * sizeof *after);
    for (int64_t i = 0; i < n; i++) {
        int32_t axis = (int32_t)i;
        if (axes.n >= 0)
            FS_TRY(onnx_axis(c, axes.at[i], rank, &axis));
        before[axis] = pads.at[i];
        after[axis] = pads.at[n + i];
        if (before[axis] < -INT32_MAX || before[axis] > INT32_MAX ||
            after[axis] < -INT32_MAX || after[axis] > INT32_MAX)
            return onnx_fail(c, "a pad is out of range");
    }
    return FS_OK;
}

enum { CONSTANT, EDGE, REFLECT, WRAP };
typedef struct filling {
    int64_t kind;
    double value; /* of a constant */
} filling;

/* An attribute until opset 11, an input since. */
static fs_status get_filling(onnx_ctx *c, filling *out)
{
    static const char *const kinds[] = {[CONSTANT] = "constant",
                                        [EDGE] = "edge",
                                        [REFLECT] = "reflect",
                                        [WRAP] = "wrap"};
    const char *mode = onnx_attr_text(c, "mode", "constant");
    const onnx_const *value;
    *out = (filling){.value = onnx_attr_real(c, "value", 0)};
    while (out->kind <= WRAP && strcmp(kinds[out->kind], mode) != 0)
        out->kind++;
    if (out->kind > WRAP)
        return onnx_fail(c, "mode \"%.80s\" is unknown", mode);
    if (out->kind != CONSTANT || !onnx_has(c, 2))
        return FS_OK;
    FS_TRY(onnx_need(c, 2, "the padding value", &value));
    if (onnx_const_count(value) != 1)
        return onnx_fail(c, "its padding value is no scalar");
    out->value = onnx_const_real(value, 0);
    return FS_OK;
}

/* Where an element of the longer axis comes from, `at` counted from the first
 * of the n that there were. Reflections go back and forth. */
static int64_t source_of(int64_t kind, int64_t at, int64_t n)
{
    if (kind == EDGE)
        return at < 0 ? 0 : at < n ? at : n - 1;
    const int64_t period = kind == WRAP ? n : n > 1 ? 2 * n - 2 : 1;
    const int64_t rest = (at % period + period) % period;
    return rest < n ? rest : period - rest;
}

/* Elements of the axis itself: a lookup of known places. */
static int32_t repeat(onnx_ctx *c, int32_t x, int32_t axis,
                      const int64_t pads[2], int64_t kind)
{
    const int64_t n = ir_shape_of(c->graph, x).dim[axis];
    const ir_shape shape = ir_shape_make(1, (int64_t[]){n + pads[0] + pads[1]});
    void *ids;
    if (x < 0 || onnx_const_new(c, IR_I64, &shape, &ids) != FS_OK)
        return -1;
    for (int64_t i = 0; i < shape.dim[0]; i++)
        ((int64_t *)ids)[i] = source_of(kind, i - pads[0], n);
    const char *name =
        fs_printf(c->arena, "%s/places%d", c->graph->scope, axis);
    ir_node node = {.op = IR_OP_gather, .n_in = 2, .in = {x}};
    node.in[1] = ir_constant(c->graph, name, IR_I64, shape, ids);
    node.i[0] = n;
    node.i[2] = axis;
    return ir_append(c->graph, &node);
}

/* Any number but zero: zeros are put there and replaced by it. */
static int32_t surround(onnx_ctx *c, int32_t x, int32_t axis,
                        const int64_t pads[2], double value)
{
    ir_graph *g = c->graph;
    const ir_shape in = ir_shape_of(g, x);
    ir_shape shape = {.rank = in.rank};
    void *there;
    x = ir_pad(g, x, axis, pads[0], pads[1]);
    if (x < 0 || value == 0)
        return x;
    for (int32_t i = 0; i < in.rank; i++)
        shape.dim[i] = i == axis ? in.dim[i] + pads[0] + pads[1] : 1;
    if (onnx_const_new(c, IR_BOOL, &shape, &there) != FS_OK)
        return -1;
    memset(there, 0, (size_t)shape.dim[axis]);
    memset((char *)there + pads[0], 1, (size_t)in.dim[axis]);
    const char *name = fs_printf(c->arena, "%s/there%d", g->scope, axis);
    return ir_where(g, ir_constant(g, name, IR_BOOL, shape, there), x,
                    ir_number(g, g->tensors.at[x].dtype, value));
}

fs_status onnx_import_pad(onnx_ctx *c)
{
    int64_t before[IR_MAX_RANK], after[IR_MAX_RANK];
    ir_shape in;
    filling how;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(get_pads(c, in.rank, before, after));
    FS_TRY(get_filling(c, &how));
    int32_t x = onnx_in(c, 0), whole = x;
    for (int32_t i = 0; i < in.rank; i++) {
        int64_t low = before[i] < 0 ? -before[i] : 0;
        int64_t high = after[i] < 0 ? -after[i] : 0;
        const int64_t pads[2] = {before[i] > 0 ? before[i] : 0,
                                 after[i] > 0 ? after[i] : 0};
        if (low || high)
            x = ir_slice(c->graph, x, i, low, in.dim[i] - low - high);
        if (pads[0] || pads[1])
            x = how.kind == CONSTANT ? surround(c, x, i, pads, how.value)
                                     : repeat(c, x, i, pads, how.kind);
    }
    return x == whole ? onnx_alias(c, 0, 0) : onnx_set(c, 0, x);
}

/* Axes cut or surrounded by zeros to given lengths, their middle kept. */
fs_status onnx_import_center_crop_pad(onnx_ctx *c)
{
    ir_shape in;
    onnx_ints lengths, axes;
    FS_TRY(onnx_shape(c, 0, &in));
    FS_TRY(onnx_get_ints(c, NULL, 1, &lengths));
    FS_TRY(onnx_get_ints(c, "axes", -1, &axes));
    if (lengths.n < 0 || lengths.n != (axes.n < 0 ? in.rank : axes.n))
        return onnx_fail(c, "its lengths do not fit its axes");
    int32_t x = onnx_in(c, 0), whole = x;
    for (int32_t k = 0; k < (int32_t)lengths.n; k++) {
        int32_t i;
        FS_TRY(onnx_axis(c, axes.n < 0 ? k : axes.at[k], in.rank, &i));
        const int64_t n = in.dim[i], wanted = lengths.at[k];
        if (wanted < 1 || wanted > INT32_MAX)
            return onnx_fail(c, "axis %d of length %lld", i, (long long)wanted);
        if (wanted < n)
            x = ir_slice(c->graph, x, i, (n - wanted) / 2, wanted);
        if (wanted > n)
            x = ir_pad(c->graph, x, i, (wanted - n) / 2,
                       wanted - n - (wanted - n) / 2);
    }
    return x == whole ? onnx_alias(c, 0, 0) : onnx_set(c, 0, x);
}
