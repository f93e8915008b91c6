/* The messages of onnx.proto, by field number. */
#include "config.h"
#include "onnx/message.h"

#include <string.h>

typedef struct reader {
    fs_arena *arena;
    fs_err *err;
} reader;

static fs_status read_text(reader *r, const fs_wire_field *field,
                           const char *what, const char **out)
{
    return fs_wire_text(field, r->arena, what, r->err, out);
}

static fs_status read_int(reader *r, const fs_wire_field *field,
                          const char *what, int64_t *out)
{
    FS_TRY(fs_wire_expect(field, FS_WIRE_VARINT, what, r->err));
    *out = (int64_t)field->value;
    return FS_OK;
}

static double float_bits(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

/* StringStringEntryProto; `what` holds it. */
static fs_status read_pair(reader *r, const fs_wire_field *field,
                           const char *what, onnx_note_pair *out)
{
    FS_TRY(fs_wire_expect(field, FS_WIRE_BYTES, what, r->err));
    *out = (onnx_note_pair){"", ""};
    for (fs_wire in = field->body; fs_wire_more(&in);) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, r->err, &f));
        if (f.number == 1)
            FS_TRY(read_text(r, &f, what, &out->key));
        else if (f.number == 2)
            FS_TRY(read_text(r, &f, what, &out->value));
    }
    return FS_OK;
}

static fs_status read_external(reader *r, const fs_wire_field *field,
                               onnx_tensor *out)
{
    onnx_note_pair pair;
    FS_TRY(read_pair(r, field, "external_data", &pair));
    const char *key = pair.key, *value = pair.value;
    if (strcmp(key, "location") == 0)
        out->location = value;
    else if (strcmp(key, "offset") == 0)
        out->offset = value;
    else if (strcmp(key, "length") == 0)
        out->length = value;
    return FS_OK;
}

static fs_status add_dim(reader *r, const fs_wire *at, int64_t dim,
                         ir_shape *shape)
{
    if (shape->rank == IR_MAX_RANK)
        return fs_wire_fail(
            at, r->err, "tensors of more than 8 dimensions are not supported");
    if (dim < 0)
        return fs_wire_fail(at, r->err, "a tensor has a negative dimension");
    shape->dim[shape->rank++] = dim;
    return FS_OK;
}

/* Of others' metadata, which may be any text, nothing is refused. */
static void read_note(reader *r, const fs_wire_field *field, onnx_proto *out)
{
    onnx_note_pair pair;
    reader quiet = {r->arena, NULL};
    if (read_pair(&quiet, field, "metadata_props", &pair) == FS_OK &&
        strncmp(pair.key, "flowsearch.", 11) == 0)
        fs_push(r->arena, &out->notes, pair);
}

/* Repeated numbers come packed or one by one. */
static fs_status read_dims(reader *r, const fs_wire_field *field,
                           ir_shape *shape)
{
    if (field->kind == FS_WIRE_VARINT)
        return add_dim(r, &field->body, (int64_t)field->value, shape);
    FS_TRY(fs_wire_expect(field, FS_WIRE_BYTES, "dims", r->err));
    for (fs_wire in = field->body; fs_wire_more(&in);) {
        uint64_t dim;
        FS_TRY(fs_wire_varint(&in, r->err, &dim));
        FS_TRY(add_dim(r, &in, (int64_t)dim, shape));
    }
    return FS_OK;
}

static fs_status read_tensor_field(reader *r, const fs_wire_field *f,
                                   onnx_tensor *out)
{
    int64_t location;
    switch (f->number) {
    case 1:
        return read_dims(r, f, &out->shape);
    case 2:
        return read_int(r, f, "data_type", &out->dtype);
    case 8:
        return read_text(r, f, "tensor name", &out->name);
    case 9:
        FS_TRY(fs_wire_expect(f, FS_WIRE_BYTES, "raw_data", r->err));
        out->raw = f->body;
        return FS_OK;
    case 13:
        return read_external(r, f, out);
    case 14:
        FS_TRY(read_int(r, f, "data_location", &location));
        out->external = location == 1;
        return FS_OK;
    default: /* typed data is decoded when it is wanted */
        return FS_OK;
    }
}

static fs_status read_tensor(reader *r, fs_wire in, onnx_tensor *out)
{
    *out = (onnx_tensor){.name = "", .body = in};
    while (fs_wire_more(&in)) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, r->err, &f));
        FS_TRY(read_tensor_field(r, &f, out));
    }
    return FS_OK;
}

fs_status onnx_read_tensor_message(fs_wire in, fs_arena *arena, fs_err *err,
                                   onnx_tensor *out)
{
    reader r = {arena, err};
    return read_tensor(&r, in, out);
}

static fs_status read_ints(reader *r, const fs_wire_field *f, onnx_attr *out)
{
    if (f->kind == FS_WIRE_VARINT) {
        fs_push(r->arena, &out->ints, (int64_t)f->value);
        return FS_OK;
    }
    FS_TRY(fs_wire_expect(f, FS_WIRE_BYTES, "ints", r->err));
    for (fs_wire in = f->body; fs_wire_more(&in);) {
        uint64_t value;
        FS_TRY(fs_wire_varint(&in, r->err, &value));
        fs_push(r->arena, &out->ints, (int64_t)value);
    }
    return FS_OK;
}

static fs_status read_floats(reader *r, const fs_wire_field *f, onnx_attr *out)
{
    if (f->kind == FS_WIRE_FIXED32) {
        fs_push(r->arena, &out->floats, float_bits(f->value));
        return FS_OK;
    }
    FS_TRY(fs_wire_expect(f, FS_WIRE_BYTES, "floats", r->err));
    for (fs_wire in = f->body; fs_wire_more(&in);) {
        uint64_t bits;
        FS_TRY(fs_wire_fixed(&in, 4, r->err, &bits));
        fs_push(r->arena, &out->floats, float_bits(bits));
    }
    return FS_OK;
}

static fs_status read_attr_string(reader *r, const fs_wire_field *f,
                                  const char **out)
{
    FS_TRY(fs_wire_expect(f, FS_WIRE_BYTES, "attribute string", r->err));
    /* Bytes, not text, by definition: what is not printable is no option
     * that an operator knows, so it is left out. */
    if (fs_wire_text(f, r->arena, "attribute", NULL, out) != FS_OK)
        *out = NULL;
    return FS_OK;
}

/* The type that a field of values belongs to; ONNX_ATTR_NONE: another field. */
static int64_t type_of_field(uint32_t number)
{
    static const struct {
        uint32_t first, last;
        int64_t type;
    } fields[] = {{2, 6, ONNX_ATTR_REAL},
                  {7, 11, ONNX_ATTR_REALS},
                  {22, 23, 11},
                  {14, 15, 13}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (number >= fields[i].first && number <= fields[i].last)
            return fields[i].type + number - fields[i].first;
    return ONNX_ATTR_NONE;
}

/* `found`: a bit for each type that has a value. A writer may put the empty
 * ones too, and need not put what is 0 or empty: the type that the attribute
 * says holds unless its values are all of others. */
static void settle_type(uint32_t found, onnx_attr *out)
{
    out->typed = out->type != ONNX_ATTR_NONE;
    bool agrees =
        !found || (out->type > 0 && out->type < 32 && found >> out->type & 1);
    for (int64_t t = 31; !agrees && t > ONNX_ATTR_NONE; t--)
        if (found >> t & 1)
            out->type = t;
    out->has_f = out->type == ONNX_ATTR_REAL;
    out->has_i = out->type == ONNX_ATTR_INT;
    if (out->type == ONNX_ATTR_TEXT && !(found >> ONNX_ATTR_TEXT & 1))
        out->s = "";
}

static fs_status read_attr_field(reader *r, const fs_wire_field *f,
                                 onnx_attr *out)
{
    onnx_tensor *tensor;
    const char *text;
    switch (f->number) {
    case 1:
        return read_text(r, f, "attribute name", &out->name);
    case 21:
        return read_text(r, f, "ref_attr_name", &out->ref);
    case 2:
        FS_TRY(fs_wire_expect(f, FS_WIRE_FIXED32, "attribute f", r->err));
        out->f = float_bits(f->value);
        return FS_OK;
    case 3:
        return read_int(r, f, "attribute i", &out->i);
    case 4:
        return read_attr_string(r, f, &out->s);
    case 5:
        FS_TRY(fs_wire_expect(f, FS_WIRE_BYTES, "attribute t", r->err));
        tensor = fs_new(r->arena, onnx_tensor, 1);
        out->t = tensor;
        return read_tensor(r, f->body, tensor);
    case 6:
        FS_TRY(fs_wire_expect(f, FS_WIRE_BYTES, "attribute g", r->err));
        out->graph = fs_new(r->arena, onnx_subgraph, 1);
        out->graph->body = f->body;
        return FS_OK;
    case 7:
        return read_floats(r, f, out);
    case 8:
        return read_ints(r, f, out);
    case 9:
        FS_TRY(read_attr_string(r, f, &text));
        fs_push(r->arena, &out->strings, text);
        return FS_OK;
    case 20:
        return read_int(r, f, "attribute type", &out->type);
    default:
        return FS_OK;
    }
}

static fs_status read_attr(reader *r, const fs_wire_field *field,
                           onnx_attr *out)
{
    uint32_t found = 0;
    FS_TRY(fs_wire_expect(field, FS_WIRE_BYTES, "attribute", r->err));
    *out = (onnx_attr){.name = ""};
    for (fs_wire in = field->body; fs_wire_more(&in);) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, r->err, &f));
        FS_TRY(read_attr_field(r, &f, out));
        found |= 1u << type_of_field(f.number);
    }
    settle_type(found & ~(1u << ONNX_ATTR_NONE), out);
    return FS_OK;
}

static fs_status read_node_field(reader *r, const fs_wire_field *f,
                                 onnx_node *out)
{
    const char *name;
    onnx_attr attr;
    switch (f->number) {
    case 1:
        FS_TRY(read_text(r, f, "node input", &name));
        fs_push(r->arena, &out->in, name);
        return FS_OK;
    case 2:
        FS_TRY(read_text(r, f, "node output", &name));
        fs_push(r->arena, &out->out, name);
        return FS_OK;
    case 3:
        return read_text(r, f, "node name", &out->name);
    case 4:
        return read_text(r, f, "op_type", &out->op);
    case 5:
        FS_TRY(read_attr(r, f, &attr));
        fs_push(r->arena, &out->attrs, attr);
        return FS_OK;
    case 7:
        return read_text(r, f, "node domain", &out->domain);
    case 8:
        return read_text(r, f, "node overload", &out->overload);
    default:
        return FS_OK;
    }
}

/* How often each of the first fields stands in a message; what is wrong with
 * it is found when it is read. */
enum { COUNTED = 16 };
static void count_fields(fs_wire in, int32_t out[COUNTED])
{
    fs_wire_field f;
    memset(out, 0, COUNTED * sizeof *out);
    while (fs_wire_more(&in) && fs_wire_next(&in, NULL, &f) == FS_OK)
        if (f.number < COUNTED)
            out[f.number]++;
}

static fs_status read_node(reader *r, const fs_wire_field *field,
                           onnx_node *out)
{
    FS_TRY(fs_wire_expect(field, FS_WIRE_BYTES, "node", r->err));
    int32_t n[COUNTED];
    *out = (onnx_node){.name = "", .op = "", .domain = "", .overload = ""};
    count_fields(field->body, n);
    fs_reserve(r->arena, &out->in, n[1]);
    fs_reserve(r->arena, &out->out, n[2]);
    fs_reserve(r->arena, &out->attrs, n[5]);
    for (fs_wire in = field->body; fs_wire_more(&in);) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, r->err, &f));
        FS_TRY(read_node_field(r, &f, out));
    }
    return FS_OK;
}

static fs_status read_dim(reader *r, const fs_wire_field *field,
                          onnx_value_info *out)
{
    FS_TRY(fs_wire_expect(field, FS_WIRE_BYTES, "dim", r->err));
    if (out->rank == IR_MAX_RANK)
        return fs_wire_fail(
            &field->body, r->err,
            "values of more than 8 dimensions are not supported");
    onnx_dim *dim = &out->dim[out->rank++];
    *dim = (onnx_dim){.value = -1};
    for (fs_wire in = field->body; fs_wire_more(&in);) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, r->err, &f));
        dim->said = dim->said || f.number == 1;
        if (f.number == 1)
            FS_TRY(read_int(r, &f, "dim_value", &dim->value));
        else if (f.number == 2)
            FS_TRY(read_text(r, &f, "dim_param", &dim->symbol));
    }
    if (dim->symbol && !dim->symbol[0])
        dim->symbol = NULL;
    return FS_OK;
}

static fs_status read_shape(reader *r, const fs_wire_field *field,
                            onnx_value_info *out)
{
    FS_TRY(fs_wire_expect(field, FS_WIRE_BYTES, "shape", r->err));
    out->rank = 0;
    for (fs_wire in = field->body; fs_wire_more(&in);) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, r->err, &f));
        if (f.number == 1)
            FS_TRY(read_dim(r, &f, out));
    }
    return FS_OK;
}

/* TypeProto: only tensor_type (field 1) has what we read; 4, 5 and 9 are
 * sequences, maps and optionals. */
static fs_status read_type(reader *r, const fs_wire_field *field,
                           onnx_value_info *out)
{
    FS_TRY(fs_wire_expect(field, FS_WIRE_BYTES, "type", r->err));
    for (fs_wire in = field->body; fs_wire_more(&in);) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, r->err, &f));
        out->composite |= f.number == 4 || f.number == 5 || f.number == 9;
        if (f.number != 1)
            continue;
        FS_TRY(fs_wire_expect(&f, FS_WIRE_BYTES, "tensor_type", r->err));
        for (fs_wire tensor = f.body; fs_wire_more(&tensor);) {
            fs_wire_field t;
            FS_TRY(fs_wire_next(&tensor, r->err, &t));
            if (t.number == 1)
                FS_TRY(read_int(r, &t, "elem_type", &out->dtype));
            else if (t.number == 2)
                FS_TRY(read_shape(r, &t, out));
        }
    }
    return FS_OK;
}

static fs_status read_value_info(reader *r, const fs_wire_field *field,
                                 onnx_value_info *out)
{
    FS_TRY(fs_wire_expect(field, FS_WIRE_BYTES, "value_info", r->err));
    *out = (onnx_value_info){.name = "", .rank = -1};
    for (fs_wire in = field->body; fs_wire_more(&in);) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, r->err, &f));
        if (f.number == 1)
            FS_TRY(read_text(r, &f, "value name", &out->name));
        else if (f.number == 2)
            FS_TRY(read_type(r, &f, out));
    }
    return FS_OK;
}

static fs_status read_graph_field(reader *r, const fs_wire_field *f,
                                  onnx_proto *out)
{
    onnx_node node;
    onnx_tensor tensor;
    onnx_value_info info;
    switch (f->number) {
    case 1:
        FS_TRY(read_node(r, f, &node));
        fs_push(r->arena, &out->nodes, node);
        return FS_OK;
    case 2:
        return read_text(r, f, "graph name", &out->graph_name);
    case 5:
        FS_TRY(fs_wire_expect(f, FS_WIRE_BYTES, "initializer", r->err));
        FS_TRY(read_tensor(r, f->body, &tensor));
        fs_push(r->arena, &out->initializers, tensor);
        return FS_OK;
    case 11:
        FS_TRY(read_value_info(r, f, &info));
        fs_push(r->arena, &out->inputs, info);
        return FS_OK;
    case 12:
        FS_TRY(read_value_info(r, f, &info));
        fs_push(r->arena, &out->outputs, info);
        return FS_OK;
    case 13:
        FS_TRY(read_value_info(r, f, &info));
        fs_push(r->arena, &out->values, info);
        return FS_OK;
    case 15:
        out->sparse = true;
        return FS_OK;
    default:
        return FS_OK;
    }
}

static fs_status read_graph(reader *r, fs_wire in, onnx_proto *out)
{
    int32_t n[COUNTED];
    count_fields(in, n);
    fs_reserve(r->arena, &out->nodes, n[1]);
    fs_reserve(r->arena, &out->initializers, n[5]);
    fs_reserve(r->arena, &out->values, n[13]);
    while (fs_wire_more(&in)) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, r->err, &f));
        FS_TRY(read_graph_field(r, &f, out));
    }
    return FS_OK;
}

fs_status onnx_read_graph(fs_wire in, fs_arena *arena, fs_err *err,
                          onnx_proto *out)
{
    reader r = {arena, err};
    *out = (onnx_proto){.graph_name = ""};
    return read_graph(&r, in, out);
}

static fs_status read_opset(reader *r, const fs_wire_field *field,
                            onnx_opset *out)
{
    FS_TRY(fs_wire_expect(field, FS_WIRE_BYTES, "opset_import", r->err));
    *out = (onnx_opset){.domain = ""};
    for (fs_wire in = field->body; fs_wire_more(&in);) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, r->err, &f));
        if (f.number == 1)
            FS_TRY(read_text(r, &f, "opset domain", &out->domain));
        else if (f.number == 2)
            FS_TRY(read_int(r, &f, "opset version", &out->version));
    }
    return FS_OK;
}

static fs_status read_function_field(reader *r, const fs_wire_field *f,
                                     onnx_function *out)
{
    const char *name;
    onnx_attr attr;
    onnx_node node;
    onnx_opset opset;
    switch (f->number) {
    case 1:
        return read_text(r, f, "function name", &out->name);
    case 4:
        FS_TRY(read_text(r, f, "function input", &name));
        fs_push(r->arena, &out->in, name);
        return FS_OK;
    case 5:
        FS_TRY(read_text(r, f, "function output", &name));
        fs_push(r->arena, &out->out, name);
        return FS_OK;
    case 7:
        FS_TRY(read_node(r, f, &node));
        fs_push(r->arena, &out->nodes, node);
        return FS_OK;
    case 9:
        FS_TRY(read_opset(r, f, &opset));
        fs_push(r->arena, &out->opsets, opset);
        return FS_OK;
    case 10:
        return read_text(r, f, "function domain", &out->domain);
    case 11:
        FS_TRY(read_attr(r, f, &attr));
        fs_push(r->arena, &out->defaults, attr);
        return FS_OK;
    case 13:
        return read_text(r, f, "function overload", &out->overload);
    default:
        return FS_OK;
    }
}

static fs_status read_function(reader *r, const fs_wire_field *field,
                               onnx_function *out)
{
    FS_TRY(fs_wire_expect(field, FS_WIRE_BYTES, "function", r->err));
    *out = (onnx_function){.name = "", .domain = "", .overload = ""};
    for (fs_wire in = field->body; fs_wire_more(&in);) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, r->err, &f));
        FS_TRY(read_function_field(r, &f, out));
    }
    return FS_OK;
}

static fs_status read_model_field(reader *r, const fs_wire_field *f,
                                  bool *has_graph, onnx_proto *out)
{
    onnx_opset opset;
    onnx_function function;
    switch (f->number) {
    case 1:
        return read_int(r, f, "ir_version", &out->ir_version);
    case 7:
        if (*has_graph)
            return fs_wire_fail(&f->body, r->err, "a second graph");
        *has_graph = true;
        FS_TRY(fs_wire_expect(f, FS_WIRE_BYTES, "graph", r->err));
        return read_graph(r, f->body, out);
    case 8:
        FS_TRY(read_opset(r, f, &opset));
        fs_push(r->arena, &out->opsets, opset);
        return FS_OK;
    case 14:
        read_note(r, f, out);
        return FS_OK;
    case 20:
        out->training = true;
        return FS_OK;
    case 25:
        FS_TRY(read_function(r, f, &function));
        fs_push(r->arena, &out->functions, function);
        return FS_OK;
    default:
        return FS_OK;
    }
}

fs_status onnx_read_model(fs_wire in, fs_arena *arena, fs_err *err,
                          onnx_proto *out)
{
    reader r = {arena, err};
    bool has_graph = false;
    *out = (onnx_proto){.graph_name = ""};
    while (fs_wire_more(&in)) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, err, &f));
        FS_TRY(read_model_field(&r, &f, &has_graph, out));
    }
    if (!has_graph || out->opsets.n == 0)
        return fs_wire_fail(&in, err,
                            has_graph ? "no opset_import: not an ONNX model, "
                                        "or a truncated one"
                                      : "no graph: not an ONNX model, or a "
                                        "truncated one");
    return FS_OK;
}
