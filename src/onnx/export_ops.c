/* Ops that move, cut, join, pick and slide over data, as ONNX operators; the
 * table of all. */
#include "config.h"
#include "onnx/writer.h"

#include "ir/window.h"

#include <string.h>

typedef struct out_row {
    onnx_out_handler *write;
    const char *op;
    int32_t opset;
} out_row;

static const out_row rows[IR_OP_COUNT] = {
#define ONNX_OUT(op, handler, argument, since)                                 \
    [IR_OP_##op] = {onnx_out_##handler, argument, since},
#define ONNX_BODY(...)
#include "onnx/export.def"
#undef ONNX_OUT
#undef ONNX_BODY
};

bool onnx_write_standard(onnx_writer *w)
{
    const out_row *row = &rows[w->node->op];
    return row->write && row->write(w, row->op);
}

/* Bits of integers came later than those of bools, the smallest and largest of
 * what is scattered later than sums. */
int32_t onnx_opset_of(const ir_node *node, const ir_graph *graph)
{
    switch (node->op) {
    case IR_OP_bit_and:
    case IR_OP_bit_or:
    case IR_OP_bit_xor:
        return graph->tensors.at[node->in[0]].dtype == IR_BOOL ? 7 : 18;
    case IR_OP_scatter_elements:
        return node->i[2] >= 3 ? 18 : 16;
    case IR_OP_scatter_nd:
        return node->i[9] >= 3 ? 18 : 16;
    default:
        return rows[node->op].opset;
    }
}

ir_op_kind onnx_op_written_as(const char *op, int32_t n_in)
{
    for (int32_t k = 0; k < IR_OP_COUNT; k++) {
        const bool shaped = k == IR_OP_reshape || k == IR_OP_broadcast_to;
        const int32_t n = n_in - shaped;
        if (rows[k].write && strcmp(rows[k].op, op) == 0 &&
            n >= ir_op_table[k]->min_in && n <= ir_op_table[k]->max_in)
            return (ir_op_kind)k;
    }
    return IR_OP_COUNT;
}

bool onnx_out_same(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    onnx_write_line(w, &line);
    return true;
}

/* Of one micro-batch the sum is the value. */
bool onnx_out_accumulate(onnx_writer *w, const char *op)
{
    return w->graph->micro_batches == 1 && onnx_out_same(w, op);
}

/* ---- shapes ---- */

/* Reshape, Expand: the output's shape is an input. */
bool onnx_out_reshape(onnx_writer *w, const char *op)
{
    const ir_shape *shape = &onnx_out_tensor(w, 0)->shape;
    onnx_line line = onnx_line_like(w, op);
    line.in[line.n_in++] = onnx_put_ints(w, shape->rank, shape->dim);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_transpose(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    onnx_line_ints(&line, "perm", w->node->i[0], w->node->i + 1);
    onnx_write_line(w, &line);
    return true;
}

/* Backwards, an end before the first element is said by a number that counts
 * from no end. */
bool onnx_out_slice(onnx_writer *w, const char *op)
{
    const int64_t *i = w->node->i;
    int64_t step = i[3] ? i[3] : 1, last = i[1] + (i[2] - 1) * step;
    int64_t end = step > 0 ? last + 1 : last - 1;
    if (end < 0)
        end = INT64_MIN + 1;
    onnx_line line = onnx_line_like(w, op);
    line.in[line.n_in++] = onnx_put_ints(w, 1, &i[1]);
    line.in[line.n_in++] = onnx_put_ints(w, 1, &end);
    line.in[line.n_in++] = onnx_put_ints(w, 1, &i[0]);
    if (step != 1)
        line.in[line.n_in++] = onnx_put_ints(w, 1, &step);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_pad(onnx_writer *w, const char *op)
{
    const int64_t *i = w->node->i;
    int64_t pads[2 * IR_MAX_RANK] = {0};
    int32_t rank = onnx_in_tensor(w, 0)->shape.rank;
    if (i[3] != 0 && i[3] != 1)
        return false;
    pads[i[0]] = i[1];
    pads[rank + i[0]] = i[2];
    onnx_line line = onnx_line_like(w, op);
    line.in[line.n_in++] = onnx_put_ints(w, 2 * rank, pads);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_trilu(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    line.in[line.n_in++] = onnx_put_ints(w, -1, &w->node->i[1]);
    onnx_line_int(&line, "upper", w->node->i[0]);
    onnx_write_line(w, &line);
    return true;
}

/* Concat, GatherElements: i[0] is the axis. */
bool onnx_out_axis(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    onnx_line_int(&line, "axis", w->node->i[0]);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_concat(onnx_writer *w, const char *op)
{
    return onnx_out_axis(w, op);
}

bool onnx_out_fill(onnx_writer *w, const char *op)
{
    const ir_tensor *y = onnx_out_tensor(w, 0);
    float value = (float)w->node->f[0];
    onnx_blob number = {.dtype = IR_F32,
                        .shape = {.rank = 1, .dim = {1}},
                        .data = &value,
                        .bytes = sizeof value};
    onnx_line line = onnx_line_like(w, op);
    line.in[line.n_in++] = onnx_put_ints(w, y->shape.rank, y->shape.dim);
    onnx_line_tensor(&line, "value", &number);
    onnx_write_line(w, &line);
    return true;
}

/* ---- by index ---- */

bool onnx_out_gather(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    onnx_line_int(&line, "axis", w->node->i[2]);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_one_hot(onnx_writer *w, const char *op)
{
    const ir_node *node = w->node;
    ir_dtype dtype = onnx_out_tensor(w, 0)->dtype;
    const char *zero = onnx_put_ints(w, 1, (int64_t[]){0});
    const char *off = onnx_put_number(w, dtype, node->f[0]);
    const char *on = onnx_put_number(w, dtype, node->f[1]);
    onnx_line pair =
        onnx_line_step(w, "Concat", onnx_write_pair(w, "Unsqueeze", off, zero));
    pair.in[pair.n_in++] = onnx_write_pair(w, "Unsqueeze", on, zero);
    onnx_line_int(&pair, "axis", 0);
    const char *values = onnx_write_line(w, &pair);
    onnx_line line = onnx_line_like(w, op);
    line.in[line.n_in++] = onnx_put_ints(w, -1, &node->i[1]);
    line.in[line.n_in++] = values;
    onnx_line_int(&line, "axis", node->i[0]);
    onnx_write_line(w, &line);
    return true;
}

/* Input i, which says where. */
static const char *places(onnx_writer *w, int32_t i)
{
    return onnx_write_places(w, w->name[w->node->in[i]],
                             onnx_in_tensor(w, i)->dtype);
}

static const char *reduction_name(int64_t reduction)
{
    static const char *const names[] = {"none", "add", "mul", "min", "max"};
    return names[reduction];
}

bool onnx_out_scatter(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    onnx_line_int(&line, "axis", w->node->i[0]);
    onnx_line_text(&line, "reduction", reduction_name(w->node->i[2]));
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_gather_nd(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    line.in[1] = places(w, 1);
    onnx_line_int(&line, "batch_dims", w->node->i[0]);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_scatter_nd(onnx_writer *w, const char *op)
{
    if (w->node->i[0] != 0)
        return false;
    onnx_line line = onnx_line_like(w, op);
    line.in[1] = places(w, 1);
    onnx_line_text(&line, "reduction", reduction_name(w->node->i[9]));
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_grid_sample(onnx_writer *w, const char *op)
{
    static const char *const modes[] = {"nearest", "bilinear", "bicubic"};
    static const char *const beyond[] = {"zeros", "border", "reflection"};
    const int64_t *i = w->node->i;
    if (onnx_in_tensor(w, 0)->shape.rank != 4)
        return false;
    onnx_line line = onnx_line_like(w, op);
    onnx_line_text(&line, "mode", modes[i[0]]);
    onnx_line_text(&line, "padding_mode", beyond[i[1]]);
    onnx_line_int(&line, "align_corners", i[2]);
    onnx_write_line(w, &line);
    return true;
}

/* ---- windows ---- */

/* Strides and padding of n spatial axes. */
static void put_window(onnx_line *line, const int64_t *i, int32_t n)
{
    int64_t pads[2 * IR_MAX_SPACE];
    for (int32_t k = 0; k < n; k++) {
        pads[k] = i[IR_WINDOW_BEFORE + k];
        pads[n + k] = i[IR_WINDOW_AFTER + k];
    }
    onnx_line_ints(line, "strides", n, i + IR_WINDOW_STRIDE);
    onnx_line_ints(line, "pads", 2 * n, pads);
}

static void put_filter(onnx_writer *w, onnx_line *line, int32_t n)
{
    const int64_t *i = w->node->i;
    put_window(line, i, n);
    onnx_line_ints(line, "kernel_shape", n,
                   onnx_in_tensor(w, 1)->shape.dim + 2);
    onnx_line_ints(line, "dilations", n, i + IR_WINDOW_SPREAD);
    onnx_line_int(line, "group", i[IR_WINDOW_GROUPS]);
}

bool onnx_out_conv(onnx_writer *w, const char *op)
{
    onnx_line line = onnx_line_like(w, op);
    put_filter(w, &line, onnx_in_tensor(w, 0)->shape.rank - 2);
    onnx_write_line(w, &line);
    return true;
}

/* Lengths that windows do not reach by less than a stride are said as
 * output_padding. */
bool onnx_out_conv_transpose(onnx_writer *w, const char *op)
{
    const int64_t *i = w->node->i;
    const ir_shape *dy = &onnx_in_tensor(w, 0)->shape;
    const ir_shape *filter = &onnx_in_tensor(w, 1)->shape;
    int64_t extra[IR_MAX_SPACE] = {0};
    int32_t n = dy->rank - 2;
    for (int32_t k = 0; k < n; k++) {
        int64_t reach = (filter->dim[2 + k] - 1) * i[IR_WINDOW_SPREAD + k] + 1;
        int64_t full = (dy->dim[2 + k] - 1) * i[IR_WINDOW_STRIDE + k] + reach -
                       i[IR_WINDOW_BEFORE + k] - i[IR_WINDOW_AFTER + k];
        extra[k] = i[IR_WINDOW_LENGTH + k] - full;
        if (extra[k] < 0 || extra[k] >= i[IR_WINDOW_STRIDE + k])
            return false;
    }
    onnx_line line = onnx_line_like(w, op);
    put_filter(w, &line, n);
    onnx_line_ints(&line, "output_padding", n, extra);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_max_pool(onnx_writer *w, const char *op)
{
    const int64_t *i = w->node->i;
    int64_t dilation[IR_MAX_SPACE];
    int32_t n = onnx_in_tensor(w, 0)->shape.rank - 2;
    onnx_line line = onnx_line_like(w, op);
    put_window(&line, i, n);
    for (int32_t k = 0; k < n; k++)
        dilation[k] = i[IR_WINDOW_DILATION + k] ? i[IR_WINDOW_DILATION + k] : 1;
    onnx_line_ints(&line, "kernel_shape", n, i + IR_WINDOW_SIZE);
    onnx_line_ints(&line, "dilations", n, dilation);
    onnx_line_int(&line, "ceil_mode",
                  (i[IR_WINDOW_MODE] & IR_WINDOW_CEIL) != 0);
    onnx_write_line(w, &line);
    return true;
}

bool onnx_out_avg_pool(onnx_writer *w, const char *op)
{
    const int64_t *i = w->node->i;
    int32_t n = onnx_in_tensor(w, 0)->shape.rank - 2;
    if (i[IR_WINDOW_MODE] & IR_WINDOW_SUM)
        return false;
    onnx_line line = onnx_line_like(w, op);
    put_window(&line, i, n);
    onnx_line_ints(&line, "kernel_shape", n, i + IR_WINDOW_SIZE);
    onnx_line_int(&line, "ceil_mode",
                  (i[IR_WINDOW_MODE] & IR_WINDOW_CEIL) != 0);
    onnx_line_int(&line, "count_include_pad",
                  (i[IR_WINDOW_MODE] & IR_WINDOW_COUNT_PAD) != 0);
    onnx_write_line(w, &line);
    return true;
}
