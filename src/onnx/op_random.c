/* Importing dropout and random numbers: draws by position (ir/op_random.c),
 * never a stored mask. */
#include "config.h"
#include "onnx/operators.h"

#include <math.h>

/* One number from input i, `usual` when it is absent. */
static fs_status get_number(onnx_ctx *c, int32_t i, const char *what,
                            double usual, double *out)
{
    const onnx_const *value;
    *out = usual;
    if (!onnx_has(c, i))
        return FS_OK;
    FS_TRY(onnx_need(c, i, what, &value));
    if (onnx_const_count(value) != 1)
        return onnx_fail(c, "%s must be one number", what);
    *out = onnx_const_real(value, 0);
    return FS_OK;
}

/* The node's own seed, or else one from the import's and the node's name. */
static uint64_t seed_of(const onnx_ctx *c)
{
    const onnx_attr *attr = onnx_attr_find(c, "seed");
    if (!attr)
        return fs_hash_text(fs_mix(c->options->seed), c->graph->scope);
    if (attr->has_i)
        return fs_mix((uint64_t)attr->i);
    double seed = attr->has_f ? attr->f : 0;
    return fs_hash(0, &seed, sizeof seed);
}

/* ---- dropout ---- */

/* Since opset 12 training is an input, before 7 an attribute; in between
 * nothing is dropped. *ratio is 0 when nothing is. */
static fs_status get_ratio(onnx_ctx *c, double *ratio)
{
    double training = 0;
    FS_TRY(
        get_number(c, 1, "the ratio", onnx_attr_real(c, "ratio", 0.5), ratio));
    if (c->opset >= 12)
        FS_TRY(get_number(c, 2, "training_mode", 0, &training));
    else if (c->opset < 7)
        training = onnx_attr_int(c, "is_test", 0) == 0;
    if (!(*ratio >= 0 && *ratio <= 1))
        return onnx_fail(c, "a ratio of %g is not within 0 .. 1", *ratio);
    if (training == 0)
        *ratio = 0;
    return FS_OK;
}

/* Whole, and a mask of ones. */
static fs_status keep_all(onnx_ctx *c, ir_dtype mask)
{
    ir_shape shape;
    FS_TRY(onnx_shape(c, 0, &shape));
    if (onnx_wants(c, 1)) {
        int32_t ones = ir_fill(c->graph, shape, 1);
        FS_TRY(onnx_set(c, 1, ir_cast(c->graph, ones, mask)));
    }
    return onnx_alias(c, 0, 0);
}

/* The mask is drawn again: ratio <= draw, as dropout compares. */
static fs_status set_mask(onnx_ctx *c, double ratio, ir_dtype dtype)
{
    ir_graph *g = c->graph;
    ir_shape shape;
    FS_TRY(onnx_shape(c, 0, &shape));
    ir_init unit = {IR_INIT_UNIFORM, 0.5, 0.5, seed_of(c)};
    int32_t draws = ir_random(g, shape, unit);
    int32_t limit = ir_number(g, IR_F32, ratio);
    int32_t mask = ir_binary(g, IR_OP_less_equal, limit, draws);
    return onnx_set(c, 1, ir_cast(g, mask, dtype));
}

/* Ratios come as f32, and are compared in it by mask and op alike. */
fs_status onnx_import_dropout(onnx_ctx *c)
{
    double ratio;
    FS_TRY(get_ratio(c, &ratio));
    ratio = (double)(float)ratio;
    ir_dtype mask = c->opset >= 10 ? IR_BOOL : onnx_dtype_of(c, 0);
    c->n_dropped += ratio > 0;
    c->dropped = fmax(c->dropped, ratio);
    if (ratio == 0 || c->options->no_dropout)
        return keep_all(c, mask);
    if (onnx_wants(c, 1))
        FS_TRY(set_mask(c, ratio, mask));
    int32_t x = onnx_in(c, 0);
    return onnx_set(c, 0, ir_dropout(c->graph, x, ratio, seed_of(c)));
}

/* ---- random numbers ---- */

/* Attribute dtype, or else the type of input 0, or f32 without one. */
static fs_status get_dtype(onnx_ctx *c, ir_dtype *out)
{
    int64_t type = onnx_attr_int(c, "dtype", 0);
    *out = onnx_has(c, 0) ? onnx_stored_dtype(c, 0) : IR_F32;
    if (type == 0)
        return FS_OK;
    FS_TRY(onnx_dtype_parse(type, "dtype", c->err, out));
    *out = onnx_dtype_here(c, *out);
    return FS_OK;
}

static fs_status get_shape(onnx_ctx *c, ir_shape *out)
{
    onnx_ints dims;
    if (onnx_has(c, 0))
        return onnx_shape(c, 0, out);
    FS_TRY(onnx_get_ints(c, "shape", -1, &dims));
    if (dims.n < 0 || dims.n > IR_MAX_RANK)
        return onnx_fail(c, "it has no shape of at most %d dimensions",
                         IR_MAX_RANK);
    *out = ir_shape_make((int32_t)dims.n, dims.at);
    return FS_OK;
}

static fs_status set_random(onnx_ctx *c, ir_init init)
{
    ir_shape shape;
    ir_dtype dtype;
    FS_TRY(get_shape(c, &shape));
    FS_TRY(get_dtype(c, &dtype));
    init.seed = seed_of(c);
    return onnx_set(c, 0,
                    ir_cast(c->graph, ir_random(c->graph, shape, init), dtype));
}

fs_status onnx_import_random_normal(onnx_ctx *c)
{
    return set_random(c, (ir_init){.kind = IR_INIT_NORMAL,
                                   .mean = onnx_attr_real(c, "mean", 0),
                                   .spread = onnx_attr_real(c, "scale", 1)});
}

fs_status onnx_import_random_uniform(onnx_ctx *c)
{
    double low = onnx_attr_real(c, "low", 0);
    double high = onnx_attr_real(c, "high", 1);
    return set_random(c, (ir_init){.kind = IR_INIT_UNIFORM,
                                   .mean = (low + high) / 2,
                                   .spread = (high - low) / 2});
}

/* 1 with the probability that the input gives. */
fs_status onnx_import_bernoulli(onnx_ctx *c)
{
    ir_graph *g = c->graph;
    ir_dtype dtype;
    FS_TRY(get_dtype(c, &dtype));
    int32_t p = onnx_in(c, 0);
    if (p < 0)
        return FS_INVALID;
    ir_init unit = {IR_INIT_UNIFORM, 0.5, 0.5, seed_of(c)};
    int32_t draws = ir_cast(g, ir_random(g, ir_shape_of(g, p), unit),
                            g->tensors.at[p].dtype);
    return onnx_set(c, 0,
                    ir_cast(g, ir_binary(g, IR_OP_less, draws, p), dtype));
}
