#include "config.h"
#include "exec/safetensors.h"

#include "base/file.h"
#include "base/json.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PREFIX = 8, ALIGN = 64, MOST_HEAD = 100000000 /* as the package has */ };

/* ---- names of types: ours in capitals ---- */

static void type_name(ir_dtype dtype, char out[16])
{
    const char *name = ir_dtype_name(dtype);
    size_t i = 0;
    for (; name[i] && i < 15; i++)
        out[i] = (char)toupper((unsigned char)name[i]);
    out[i] = '\0';
}

static bool find_type(const char *name, ir_dtype *out)
{
    char own[16];
    for (int32_t d = 0; d < IR_DTYPE_COUNT; d++) {
        type_name((ir_dtype)d, own);
        if (strcmp(own, name) == 0) {
            *out = (ir_dtype)d;
            return true;
        }
    }
    return false;
}

/* ---- writing ---- */

static json_t *entry_json(const exec_saved *t, int64_t at)
{
    char type[16];
    type_name(t->dtype, type);
    json_t *shape = json_array();
    for (int32_t d = 0; d < t->shape.rank; d++)
        json_array_append_new(shape, json_integer(t->shape.dim[d]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", type, "shape", shape,
                     "data_offsets", (json_int_t)at,
                     (json_int_t)(at + t->bytes));
}

char *exec_safetensors_head(int32_t n, exec_saved *tensors, fs_arena *arena,
                            int64_t *bytes)
{
    json_t *root = json_object();
    int64_t at = 0;
    json_object_set_new(root, "__metadata__",
                        json_pack("{s:s}", "writer", "flowsearch"));
    for (int32_t i = 0; i < n; i++) {
        exec_saved *t = &tensors[i];
        t->bytes = ir_shape_count(&t->shape) * ir_dtype_bytes(t->dtype);
        json_object_set_new(root, t->name, entry_json(t, at));
        t->at = at;
        at += t->bytes;
    }
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    FS_ASSERT(text);
    const size_t length = strlen(text);
    const size_t whole = (PREFIX + length + ALIGN - 1) / ALIGN * ALIGN;
    char *head = fs_alloc(arena, whole + 1, 1);
    for (int i = 0; i < PREFIX; i++)
        head[i] = (char)((uint64_t)(whole - PREFIX) >> 8 * i);
    memset(head + PREFIX, ' ', whole - PREFIX);
    memcpy(head + PREFIX, text, length);
    free(text);
    for (int32_t i = 0; i < n; i++)
        tensors[i].at += (int64_t)whole;
    *bytes = (int64_t)whole;
    return head;
}

/* ---- reading ---- */

fs_status exec_read_bytes(int file, const char *path, int64_t at, int64_t bytes,
                          void *out, fs_err *err)
{
    char *to = out;
    while (bytes > 0) {
        const ssize_t got = pread(file, to, (size_t)bytes, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fs_fail(err, FS_INVALID, "%s: byte %" PRId64 ": %s", path,
                           at, strerror(errno));
        if (got == 0)
            return fs_fail(err, FS_INVALID,
                           "%s: ends at byte %" PRId64 ", %" PRId64
                           " more should follow",
                           path, at, bytes);
        to += got;
        at += got;
        bytes -= got;
    }
    return FS_OK;
}

bool exec_read_shape(const json_t *list, ir_shape *shape, int64_t *count,
                     int32_t *bad)
{
    *bad = -1;
    *count = 1;
    if (!json_is_array(list) || json_array_size(list) > IR_MAX_RANK)
        return false;
    *shape = (ir_shape){.rank = (int32_t)json_array_size(list)};
    for (int32_t d = 0; d < shape->rank; d++) {
        const json_t *value = json_array_get(list, (size_t)d);
        shape->dim[d] = json_integer_value(value);
        *bad = d;
        if (!json_is_integer(value) || shape->dim[d] < 0 ||
            __builtin_mul_overflow(*count, shape->dim[d], count) ||
            *count > INT64_MAX / 16)
            return false;
    }
    return true;
}

static fs_status read_shape(const char *path, const char *name,
                            const json_t *list, ir_shape *shape, int64_t *count,
                            fs_err *err)
{
    int32_t bad;
    if (exec_read_shape(list, shape, count, &bad))
        return FS_OK;
    if (bad < 0)
        return fs_fail(err, FS_INVALID,
                       "%s: '%s' has no shape of at most %d dimensions", path,
                       name, IR_MAX_RANK);
    return fs_fail(err, FS_INVALID,
                   "%s: '%s': dimension %d of its shape is impossible", path,
                   name, bad);
}

static fs_status read_entry(const char *path, const char *name,
                            const json_t *value, int64_t data, int64_t end,
                            fs_err *err, exec_saved *out)
{
    const char *type = json_string_value(json_object_get(value, "dtype"));
    const json_t *range = json_object_get(value, "data_offsets");
    int64_t count;
    if (!type || !find_type(type, &out->dtype))
        return fs_fail(err, FS_INVALID, "%s: '%s' has type '%s', unknown here",
                       path, name, type ? type : "");
    FS_TRY(read_shape(path, name, json_object_get(value, "shape"), &out->shape,
                      &count, err));
    out->bytes = count * ir_dtype_bytes(out->dtype);
    const int64_t from = json_integer_value(json_array_get(range, 0)),
                  to = json_integer_value(json_array_get(range, 1));
    if (json_array_size(range) != 2 || from < 0 || to < from ||
        to > end - data || to - from != out->bytes)
        return fs_fail(err, FS_INVALID,
                       "%s: '%s' lies at bytes %" PRId64 " to %" PRId64
                       " of %" PRId64 "; its shape wants %" PRId64,
                       path, name, from, to, end - data, out->bytes);
    out->at = data + from;
    return FS_OK;
}

/* A model begins with its IR's version, then who made it, or its graph. */
static bool looks_onnx(const unsigned char prefix[PREFIX])
{
    return prefix[0] == 0x08 && prefix[1] < 0x20 &&
           (prefix[2] == 0x12 || prefix[2] == 0x1a || prefix[2] == 0x3a ||
            prefix[2] == 0x42);
}

/* The first bytes of a file of another kind say a length beyond any head's. */
static fs_status refuse_head(const exec_safetensors *file,
                             const unsigned char prefix[PREFIX],
                             uint64_t length, int64_t left, fs_err *err)
{
    if (looks_onnx(prefix))
        return fs_fail(err, FS_INVALID,
                       "%s: an ONNX file, no safetensors file (`flowsearch "
                       "export FILE.onnx --to safetensors` makes one of it)",
                       file->path);
    if (length > MOST_HEAD)
        return fs_fail(err, FS_INVALID, "%s: no safetensors file", file->path);
    return fs_fail(err, FS_INVALID,
                   "%s: no safetensors file, or cut short: its head should "
                   "have %" PRIu64 " bytes, %" PRId64 " follow",
                   file->path, length, left);
}

static fs_status read_text(const exec_safetensors *file, int64_t end,
                           fs_arena *arena, fs_err *err, json_t **root,
                           int64_t *data)
{
    unsigned char prefix[PREFIX];
    uint64_t length = 0;
    json_error_t why;
    FS_TRY(exec_read_bytes(file->file, file->path, 0, PREFIX, prefix, err));
    for (int i = 0; i < PREFIX; i++)
        length |= (uint64_t)prefix[i] << 8 * i;
    if (length > MOST_HEAD || (int64_t)length > end - PREFIX)
        return refuse_head(file, prefix, length, end - PREFIX, err);
    char *text = fs_alloc(arena, length + 1, 1);
    FS_TRY(exec_read_bytes(file->file, file->path, PREFIX, (int64_t)length,
                           text, err));
    *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    if (!*root)
        return fs_fail(err, FS_INVALID, "%s: its head, byte %d: %s", file->path,
                       why.position, why.text);
    *data = PREFIX + (int64_t)length;
    return FS_OK;
}

static fs_status read_entries(exec_safetensors *file, json_t *root,
                              int64_t data, int64_t end, fs_arena *arena,
                              fs_err *err)
{
    const char *name;
    json_t *value;
    file->at = fs_new(arena, exec_saved, json_object_size(root) + 1);
    json_object_foreach(root, name, value)
    {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        exec_saved *entry = &file->at[file->n++];
        entry->name = fs_strdup(arena, name);
        FS_TRY(read_entry(file->path, name, value, data, end, err, entry));
    }
    return FS_OK;
}

fs_status exec_safetensors_open(const char *path, fs_arena *arena, fs_err *err,
                                exec_safetensors *out)
{
    exec_safetensors file = {.path = fs_strdup(arena, path)};
    json_t *root = NULL;
    struct stat there;
    int64_t data = 0;
    FS_TRY(fs_input_open(path, err, &file.file));
    fs_status status =
        fstat(file.file, &there) == 0
            ? read_text(&file, there.st_size, arena, err, &root, &data)
            : fs_fail(err, FS_INVALID, "%s: %s", path, strerror(errno));
    if (status == FS_OK)
        status = read_entries(&file, root, data, there.st_size, arena, err);
    json_decref(root);
    if (status != FS_OK)
        close(file.file);
    else
        *out = file;
    return status;
}

void exec_safetensors_close(exec_safetensors *file)
{
    close(file->file);
}
