/* Nodes and constants of the file being written. Numbers are those of the
 * fields of onnx.proto. */
#include "config.h"
#include "onnx/writer.h"

#include "ir/element.h"
#include "onnx/message.h"

#include <string.h>

enum {
    ATTR_FLOAT = 1,
    ATTR_INT,
    ATTR_STRING,
    ATTR_TENSOR,
    ATTR_GRAPH,
    ATTR_INTS = 7
};

int64_t onnx_dtype_number(ir_dtype dtype)
{
    static const int64_t numbers[IR_DTYPE_COUNT] = {
        [IR_F32] = 1,  [IR_F64] = 11, [IR_I32] = 6,   [IR_I64] = 7,
        [IR_BOOL] = 9, [IR_F16] = 10, [IR_BF16] = 16, [IR_I8] = 3,
        [IR_U8] = 2,   [IR_I16] = 5,  [IR_U16] = 4,   [IR_U32] = 12,
        [IR_U64] = 13};
    return numbers[dtype];
}

const ir_tensor *onnx_in_tensor(const onnx_writer *w, int32_t i)
{
    return &w->graph->tensors.at[w->node->in[i]];
}

const ir_tensor *onnx_out_tensor(const onnx_writer *w, int32_t i)
{
    return &w->graph->tensors.at[w->node->out[i]];
}

bool onnx_out_read(const onnx_writer *w, int32_t i)
{
    return w->read[w->node->out[i]];
}

const char *onnx_new_name(onnx_writer *w, const char *suffix)
{
    const char *stem = w->node ? w->node->name : "graph";
    for (int32_t k = 0;; k++) {
        const char *name = k ? fs_printf(w->arena, "%s/%d/%s", stem, k, suffix)
                             : fs_printf(w->arena, "%s/%s", stem, suffix);
        if (fs_map_get(&w->taken, name) >= 0 ||
            ir_graph_find(w->graph, name) >= 0)
            continue;
        *fs_map_at(&w->taken, name) = ONNX_NAME_TAKEN;
        return name;
    }
}

/* ---- lines ---- */

onnx_line onnx_line_like(onnx_writer *w, const char *op)
{
    const ir_node *node = w->node;
    onnx_line line = {.op = op,
                      .n_in = node->n_in,
                      .n_out = node->n_out,
                      .attrs = {.arena = w->arena}};
    for (int32_t i = 0; i < node->n_in; i++)
        line.in[i] = w->name[node->in[i]];
    for (int32_t i = 0; i < node->n_out; i++)
        line.out[i] = w->name[node->out[i]];
    return line;
}

onnx_line onnx_line_step(onnx_writer *w, const char *op, const char *in)
{
    return (onnx_line){.op = op,
                       .n_in = 1,
                       .in = {in},
                       .n_out = 1,
                       .out = {onnx_new_name(w, op)},
                       .attrs = {.arena = w->arena}};
}

static fs_wire_out open_attr(const onnx_line *line, const char *name, int type)
{
    fs_wire_out attr = {.arena = line->attrs.arena};
    fs_wire_put_text(&attr, 1, name);
    fs_wire_put_int(&attr, 20, type);
    return attr;
}

/* A node's attributes are its field 5, a function's defaults its field 11. */
static void put_attr(onnx_line *line, const fs_wire_out *attr)
{
    fs_wire_put_message(&line->attrs, line->field ? line->field : 5, attr);
}

void onnx_line_int(onnx_line *line, const char *name, int64_t value)
{
    fs_wire_out attr = open_attr(line, name, ATTR_INT);
    fs_wire_put_int(&attr, 3, value);
    put_attr(line, &attr);
}

void onnx_line_ints(onnx_line *line, const char *name, int64_t n,
                    const int64_t *values)
{
    fs_wire_out attr = open_attr(line, name, ATTR_INTS);
    for (int64_t i = 0; i < n; i++)
        fs_wire_put_int(&attr, 8, values[i]);
    put_attr(line, &attr);
    line->n_list = (int32_t)n;
    line->list =
        fs_memdup(line->attrs.arena, values, (size_t)n * sizeof *values);
}

void onnx_line_real(onnx_line *line, const char *name, double value)
{
    fs_wire_out attr = open_attr(line, name, ATTR_FLOAT);
    fs_wire_put_float(&attr, 2, (float)value);
    put_attr(line, &attr);
}

void onnx_line_text(onnx_line *line, const char *name, const char *value)
{
    fs_wire_out attr = open_attr(line, name, ATTR_STRING);
    fs_wire_put_text(&attr, 4, value);
    put_attr(line, &attr);
}

void onnx_line_graph(onnx_line *line, const char *name,
                     const fs_wire_out *graph)
{
    fs_wire_out attr = open_attr(line, name, ATTR_GRAPH);
    fs_wire_put_message(&attr, 6, graph);
    put_attr(line, &attr);
}

void onnx_line_tensor(onnx_line *line, const char *name, const onnx_blob *value)
{
    fs_wire_out attr = open_attr(line, name, ATTR_TENSOR);
    fs_wire_out tensor = {.arena = line->attrs.arena};
    for (int32_t i = 0; i < value->shape.rank; i++)
        fs_wire_put_int(&tensor, 1, value->shape.dim[i]);
    fs_wire_put_int(&tensor, 2, onnx_dtype_number(value->dtype));
    fs_wire_put_bytes(&tensor, 9, value->data, value->bytes);
    fs_wire_put_message(&attr, 5, &tensor);
    put_attr(line, &attr);
}

/* Up to the last that is not zero; reals as doubles, which ONNX has as tensors
 * only. */
void onnx_put_attributes(onnx_writer *w, fs_wire_out *out, uint32_t field)
{
    const ir_node *node = w->node;
    int64_t n_int = IR_MAX_ATTR, n_real = IR_MAX_REAL;
    while (n_int > 0 && node->i[n_int - 1] == 0)
        n_int--;
    while (n_real > 0 && node->f[n_real - 1] == 0)
        n_real--;
    onnx_line line = {.attrs = {.arena = w->arena}, .field = field};
    if (n_int)
        onnx_line_ints(&line, "i", n_int, node->i);
    if (n_real)
        onnx_line_tensor(
            &line, "f",
            &(onnx_blob){.dtype = IR_F64,
                         .shape = {.rank = 1, .dim = {n_real}},
                         .data = node->f,
                         .bytes = (size_t)n_real * sizeof *node->f});
    fs_wire_put_raw(out, line.attrs.at, line.attrs.n);
}

/* The node that gives the op's first output is called like the op, all others
 * like what they give: no two nodes of one name. */
static const char *name_line(const onnx_writer *w, const onnx_line *line)
{
    for (int32_t i = 0; i < line->n_out; i++)
        if (line->out[i] == w->name[w->node->out[0]])
            return w->node->name;
    return line->out[0];
}

const char *onnx_write_line(onnx_writer *w, const onnx_line *line)
{
    static const char *const phases[] = {
        [IR_BACKWARD] = "backward", [IR_UPDATE] = "update"};
    fs_wire_out node = {.arena = w->arena};
    int32_t n_out = line->n_out;
    while (n_out > 1 && !line->out[n_out - 1][0])
        n_out--;
    for (int32_t i = 0; i < line->n_in; i++)
        fs_wire_put_text(&node, 1, line->in[i]);
    for (int32_t i = 0; i < n_out; i++)
        fs_wire_put_text(&node, 2, line->out[i]);
    if (!w->in_body) /* other tools put a call's name before its nodes' */
        fs_wire_put_text(&node, 3, name_line(w, line));
    fs_wire_put_text(&node, 4, line->op);
    fs_wire_put_raw(&node, line->attrs.at, line->attrs.n);
    if (phases[w->node->phase] && !w->in_body)
        fs_wire_put_text(&node, 6, phases[w->node->phase]);
    for (int32_t i = 0; i < n_out && !w->in_body; i++)
        if (fs_map_get(&w->taken, line->out[i]) >= 0)
            *fs_map_at(&w->taken, line->out[i]) = ONNX_NAME_MADE;
    if (w->options->placement && !w->in_body)
        onnx_put_node_plan(w, line, &node);
    fs_wire_put_message(&w->nodes, w->node_field, &node);
    w->n_nodes++;
    return line->out[0];
}

const char *onnx_write_step(onnx_writer *w, const char *op, const char *x)
{
    onnx_line line = onnx_line_step(w, op, x);
    return onnx_write_line(w, &line);
}

const char *onnx_write_pair(onnx_writer *w, const char *op, const char *a,
                            const char *b)
{
    onnx_line line = onnx_line_step(w, op, a);
    line.in[line.n_in++] = b;
    return onnx_write_line(w, &line);
}

/* ---- constants ---- */

static const char *put_constant(onnx_writer *w, const onnx_blob *value)
{
    if (w->in_body) {
        onnx_line line = onnx_line_step(w, "Constant", "");
        line.n_in = 0;
        onnx_line_tensor(&line, "value", value);
        return onnx_write_line(w, &line);
    }
    onnx_blob blob = *value;
    /* The importer's sign that a float is no parameter (inputs.c). */
    blob.name = onnx_new_name(w, "Constant_output_0");
    fs_push(w->arena, &w->blobs, blob);
    onnx_lay_constant(w, &blob);
    return blob.name;
}

const char *onnx_put_ints(onnx_writer *w, int64_t n, const int64_t *values)
{
    int64_t count = n < 0 ? 1 : n;
    onnx_blob blob = {.dtype = IR_I64,
                      .shape = {.rank = n >= 0, .dim = {count}},
                      .bytes = (size_t)count * sizeof *values};
    blob.data = fs_memdup(w->arena, values, blob.bytes);
    return put_constant(w, &blob);
}

const char *onnx_put_number(onnx_writer *w, ir_dtype dtype, double value)
{
    void *data = fs_alloc(w->arena, 1, 8);
    ir_element_set_real(dtype, data, 0, value);
    onnx_blob blob = {
        .dtype = dtype, .data = data, .bytes = (size_t)ir_dtype_bytes(dtype)};
    return put_constant(w, &blob);
}

const char *onnx_write_places(onnx_writer *w, const char *x, ir_dtype dtype)
{
    if (dtype == IR_I64)
        return x;
    onnx_line line = onnx_line_step(w, "Cast", x);
    onnx_line_int(&line, "to", onnx_dtype_number(IR_I64));
    return onnx_write_line(w, &line);
}
