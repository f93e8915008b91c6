/* Tensor payloads: raw, typed and external, each checked against the shape
 * before a byte is allocated. */
#include "config.h"
#include "onnx/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "raw_data is little endian and used in place");

/* By ONNX's number; -1: not supported. */
static const struct {
    const char *name;
    int dtype;
} dtypes[] = {
    {"UNDEFINED", -1},      {"FLOAT", IR_F32},     {"UINT8", IR_U8},
    {"INT8", IR_I8},        {"UINT16", IR_U16},    {"INT16", IR_I16},
    {"INT32", IR_I32},      {"INT64", IR_I64},     {"STRING", -1},
    {"BOOL", IR_BOOL},      {"FLOAT16", IR_F16},   {"DOUBLE", IR_F64},
    {"UINT32", IR_U32},     {"UINT64", IR_U64},    {"COMPLEX64", -1},
    {"COMPLEX128", -1},     {"BFLOAT16", IR_BF16}, {"FLOAT8E4M3FN", -1},
    {"FLOAT8E4M3FNUZ", -1}, {"FLOAT8E5M2", -1},    {"FLOAT8E5M2FNUZ", -1},
    {"UINT4", -1},          {"INT4", -1},          {"FLOAT4E2M1", -1},
    {"FLOAT8E8M0", -1},     {"UINT2", -1},         {"INT2", -1}};

fs_status onnx_dtype_parse(int64_t number, const char *what, fs_err *err,
                           ir_dtype *out)
{
    bool named =
        number >= 0 && number < (int64_t)(sizeof dtypes / sizeof *dtypes);
    if (named && dtypes[number].dtype >= 0) {
        *out = (ir_dtype)dtypes[number].dtype;
        return FS_OK;
    }
    return fs_fail(err, FS_INVALID,
                   "%s has element type %lld (%s), which is "
                   "not supported",
                   what, (long long)number,
                   named ? dtypes[number].name : "unknown");
}

fs_status onnx_shape_size(const ir_shape *shape, ir_dtype dtype,
                          const char *what, fs_err *err, int64_t *count,
                          size_t *bytes)
{
    int64_t n = 1, total;
    bool empty = false, overflow = false;
    for (int32_t i = 0; i < shape->rank; i++) {
        /* A zero does not excuse the others: strides multiply them too. */
        int64_t dim = shape->dim[i] ? shape->dim[i] : 1;
        empty = empty || shape->dim[i] == 0;
        overflow = overflow || dim < 0 || __builtin_mul_overflow(n, dim, &n);
    }
    if (overflow || __builtin_mul_overflow(n, ir_dtype_bytes(dtype), &total))
        return fs_fail(err, FS_INVALID, "%s: its dimensions overflow", what);
    *count = empty ? 0 : n;
    *bytes = empty ? 0 : (size_t)total;
    return FS_OK;
}

/* A tensor being decoded. */
typedef struct payload {
    const onnx_model *model; /* NULL for a lone tensor file */
    const onnx_tensor *tensor;
    fs_arena *arena;
    fs_err *err;
    ir_dtype dtype;
    int64_t count;
    size_t bytes;
} payload;

static fs_status fail(const payload *p, const char *what)
{
    return fs_fail(p->err, FS_INVALID, "%s: byte %zu: tensor \"%.80s\" %s",
                   p->tensor->body.file,
                   (size_t)(p->tensor->body.at - p->tensor->body.base),
                   p->tensor->name, what);
}

/* Kernels load bools as such; a byte that is neither 0 nor 1 would be
 * undefined there. */
static const void *clean_bools(const payload *p, const unsigned char *data)
{
    size_t i = 0;
    while (i < p->bytes && data[i] <= 1)
        i++;
    if (i == p->bytes)
        return data;
    unsigned char *copy = fs_alloc(p->arena, p->bytes, 1);
    for (i = 0; i < p->bytes; i++)
        copy[i] = data[i] != 0;
    return copy;
}

static const void *place(const payload *p, const unsigned char *data)
{
    if (p->dtype == IR_BOOL)
        return clean_bools(p, data);
    if ((uintptr_t)data % (uintptr_t)ir_dtype_bytes(p->dtype) == 0)
        return data;
    return fs_memdup(p->arena, data, p->bytes);
}

static fs_status parse_decimal(const payload *p, const char *text, size_t *out)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno)
        return fail(p, "has an external offset or length that is no number");
    *out = (size_t)value;
    return FS_OK;
}

static const onnx_mapping *find_mapping(const payload *p)
{
    for (int32_t i = 1; p->model && i < p->model->files.n; i++)
        if (strcmp(p->model->files.at[i].location, p->tensor->location) == 0)
            return &p->model->files.at[i];
    return NULL;
}

static fs_status load_external(const payload *p, const void **out)
{
    const onnx_mapping *file = find_mapping(p);
    if (!file)
        return fail(p, "has external data, which is not allowed here");
    size_t offset = 0, length = p->bytes;
    if (p->tensor->offset)
        FS_TRY(parse_decimal(p, p->tensor->offset, &offset));
    if (p->tensor->length)
        FS_TRY(parse_decimal(p, p->tensor->length, &length));
    if (length != p->bytes)
        return fail(p, "has an external length that is not its shape's");
    if (offset > file->bytes || length > file->bytes - offset)
        return fail(p, fs_printf(p->arena,
                                 "leaves its external data \"%.80s\" of %zu "
                                 "bytes",
                                 p->tensor->location, file->bytes));
    *out = place(p, (const unsigned char *)file->data + offset);
    return FS_OK;
}

/* Field number, and bytes per element when packed (0: varints). Narrow types
 * stand in int32_data, unsigned ones beyond 31 bits in uint64_data. */
static uint32_t typed_field(ir_dtype dtype, size_t *width)
{
    *width = dtype == IR_F32 ? 4 : dtype == IR_F64 ? 8 : 0;
    switch (dtype) {
    case IR_F32:
        return 4;
    case IR_F64:
        return 10;
    case IR_I64:
        return 7;
    case IR_U32:
    case IR_U64:
        return 11;
    default:
        return 5;
    }
}

static int64_t count_in_field(const fs_wire_field *f, size_t width)
{
    if (f->kind != FS_WIRE_BYTES)
        return 1;
    if (width)
        return (int64_t)(fs_wire_left(&f->body) / width);
    int64_t n = 0;
    for (const unsigned char *at = f->body.at; at < f->body.end; at++)
        n += *at < 128;
    return n;
}

static fs_status count_typed(const payload *p, int64_t *out)
{
    size_t width;
    uint32_t number = typed_field(p->dtype, &width);
    *out = 0;
    for (fs_wire in = p->tensor->body; fs_wire_more(&in);) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, p->err, &f));
        if (f.number == number)
            *out += count_in_field(&f, width);
    }
    return FS_OK;
}

static void store(const payload *p, void *data, int64_t i, uint64_t bits)
{
    size_t size = (size_t)ir_dtype_bytes(p->dtype);
    if (p->dtype == IR_BOOL)
        bits = bits != 0;
    memcpy((char *)data + (size_t)i * size, &bits, size);
}

static fs_status decode_field(const payload *p, const fs_wire_field *f,
                              size_t width, void *data, int64_t *i)
{
    if (f->kind != FS_WIRE_BYTES) {
        store(p, data, (*i)++, f->value);
        return FS_OK;
    }
    for (fs_wire in = f->body; fs_wire_more(&in); (*i)++) {
        uint64_t bits;
        if (width)
            FS_TRY(fs_wire_fixed(&in, width, p->err, &bits));
        else
            FS_TRY(fs_wire_varint(&in, p->err, &bits));
        if (*i >= p->count)
            return fail(p, "has more elements than its shape");
        store(p, data, *i, bits);
    }
    return FS_OK;
}

static fs_status load_typed(const payload *p, const void **out)
{
    int64_t present;
    FS_TRY(count_typed(p, &present));
    if (present != p->count)
        return fail(p, present ? "has data of another length than its shape"
                               : "has no data");
    size_t width;
    uint32_t number = typed_field(p->dtype, &width);
    void *data = fs_alloc(p->arena, p->bytes, 1);
    int64_t i = 0;
    for (fs_wire in = p->tensor->body; fs_wire_more(&in);) {
        fs_wire_field f;
        FS_TRY(fs_wire_next(&in, p->err, &f));
        if (f.number == number)
            FS_TRY(decode_field(p, &f, width, data, &i));
    }
    *out = data;
    return FS_OK;
}

static fs_status load_payload(const payload *p, const void **out)
{
    const onnx_tensor *tensor = p->tensor;
    if (p->count == 0) {
        *out = fs_alloc(p->arena, 1, 1);
        return FS_OK;
    }
    if (tensor->external)
        return load_external(p, out);
    if (!tensor->raw.at)
        return load_typed(p, out);
    if (fs_wire_left(&tensor->raw) != p->bytes)
        return fail(p, "has raw data of another length than its shape");
    *out = place(p, tensor->raw.at);
    return FS_OK;
}

fs_status onnx_tensor_load(const onnx_model *model, const onnx_tensor *tensor,
                           fs_arena *arena, fs_err *err, onnx_const *out)
{
    payload p = {.model = model, .tensor = tensor, .arena = arena, .err = err};
    char what[200];
    snprintf(what, sizeof what, "%s: tensor \"%.80s\"", tensor->body.file,
             tensor->name);
    FS_TRY(onnx_dtype_parse(tensor->dtype, what, err, &p.dtype));
    FS_TRY(onnx_shape_size(&tensor->shape, p.dtype, what, err, &p.count,
                           &p.bytes));
    const void *data = NULL;
    FS_TRY(load_payload(&p, &data));
    *out = (onnx_const){p.dtype, tensor->shape, data};
    return FS_OK;
}

static fs_status load_alone(const onnx_model *file, fs_arena *arena,
                            fs_err *err, onnx_const *out)
{
    const onnx_mapping *map = &file->files.at[0];
    onnx_tensor tensor;
    FS_TRY(onnx_read_tensor_message(
        fs_wire_open(file->path, map->data, map->bytes), arena, err, &tensor));
    FS_TRY(onnx_tensor_load(NULL, &tensor, arena, err, out));
    int64_t count;
    size_t bytes;
    FS_TRY(onnx_shape_size(&out->shape, out->dtype, file->path, err, &count,
                           &bytes));
    out->data = fs_memdup(arena, out->data, bytes); /* outlives the mapping */
    return FS_OK;
}

fs_status onnx_read_tensor(const char *path, fs_arena *arena, fs_err *err,
                           onnx_const *out)
{
    onnx_model *file;
    onnx_const value;
    FS_TRY(onnx_file_open(path, err, &file));
    fs_status status = load_alone(file, arena, err, &value);
    onnx_model_close(file);
    if (status == FS_OK)
        *out = value;
    return status;
}
