/* Sources of samples: a text file as token ids, a stream drawn from the seed,
 * the same tensors every step. */
#include "config.h"
#include "exec/exec.h"

#include "base/file.h"
#include "exec/piece.h"
#include "ir/element.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what the graph wants ---- */

typedef FS_VEC(const ir_tensor *) tensor_list;

static bool is_integer(ir_dtype dtype)
{
    return dtype == IR_I32 || dtype == IR_I64;
}

static void list_inputs(const ir_graph *graph, fs_arena *arena,
                        tensor_list *out)
{
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (graph->nodes.at[v].op == IR_OP_input)
            fs_push(arena, out, &graph->tensors.at[graph->nodes.at[v].out[0]]);
}

/* What ids in an integer input that is `carried` must be below; 0: the reader
 * does not say. */
static int64_t ids_below(const ir_graph *graph, const ir_node *node,
                         const bool *carried)
{
    const ir_op *op = ir_op_table[node->op];
    int64_t limit = 0;
    ir_io io;
    for (int32_t k = 0; op->ids_below && k < node->n_in && limit == 0; k++)
        if (carried[node->in[k]]) {
            ir_node_io(graph, node, &io);
            limit = op->ids_below(node, &io, k);
        }
    return limit;
}

/* How many values an integer tensor may take, by who reads it: the rows of a
 * table, the classes of a loss. -1: nobody says. Follows moves of the tensor
 * (nodes are in topological order, so one pass does). */
static int64_t count_values(const ir_graph *graph, int32_t tensor,
                            fs_arena *arena)
{
    bool *carries = fs_new(arena, bool, graph->tensors.n);
    carries[tensor] = true;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        const int64_t n = ids_below(graph, node, carries);
        if (n > 0)
            return n;
        if (node->n_in == 1 && carries[node->in[0]])
            for (int32_t o = 0; o < node->n_out; o++)
                carries[node->out[o]] = true;
    }
    return -1;
}

/* ---- a text file ---- */

typedef struct text_data {
    const uint8_t *bytes;
    int64_t n, window; /* window: T */
    const char *name[2];
} text_data;

typedef struct text_row {
    const uint8_t *from;
    ir_dtype dtype;
    void *to;
} text_row;

static void write_ids(ir_dtype dtype, const uint8_t *from, int64_t n, void *to)
{
    if (dtype == IR_I64)
        for (int64_t i = 0; i < n; i++)
            ((int64_t *)to)[i] = from[i];
    else
        for (int64_t i = 0; i < n; i++)
            ((int32_t *)to)[i] = from[i];
}

static fs_status fill_text(void *ctx, const char *name, int64_t sample,
                           ir_dtype dtype, const ir_shape *local,
                           const int64_t *offset, int32_t batch_axis, void *out,
                           fs_err *err)
{
    const text_data *text = ctx;
    (void)batch_axis;
    (void)err;
    int64_t shift = strcmp(name, text->name[0]) != 0; /* targets: one later */
    int64_t length = local->dim[1];
    for (int64_t row = 0; row < local->dim[0]; row++) {
        int64_t k = sample + offset[0] + row;
        int64_t at = k % (text->n - text->window - 1) * text->window %
                     (text->n - text->window - 1);
        write_ids(dtype, text->bytes + at + offset[1] + shift, length,
                  (char *)out + row * length * ir_dtype_bytes(dtype));
    }
    return FS_OK;
}

static void close_text(void *ctx)
{
    text_data *text = ctx;
    munmap((void *)(uintptr_t)text->bytes, (size_t)text->n);
}

static fs_status match_inputs(const char *path, const ir_graph *graph,
                              fs_arena *arena, fs_err *err, text_data *text)
{
    tensor_list inputs = {0};
    list_inputs(graph, arena, &inputs);
    for (int32_t i = 0; i < inputs.n; i++) {
        const ir_tensor *t = inputs.at[i];
        if (i >= 2 || !is_integer(t->dtype) || t->shape.rank != 2 ||
            t->batch_axis != 0)
            return fs_fail(err, FS_INVALID,
                           "%s: text feeds integer inputs (batch, T), ids and "
                           "targets; this graph has input '%s'",
                           path, t->name);
        if (i && t->shape.dim[1] != text->window)
            return fs_fail(err, FS_INVALID,
                           "%s: inputs '%s' and '%s' differ in length", path,
                           inputs.at[0]->name, t->name);
        text->window = t->shape.dim[1];
        text->name[i] = t->name;
    }
    if (inputs.n == 0)
        return fs_fail(err, FS_INVALID, "%s: the graph has no inputs", path);
    return FS_OK;
}

static fs_status check_bytes(const char *path, const ir_graph *graph,
                             fs_arena *arena, const text_data *text,
                             fs_err *err)
{
    int64_t limit = 256;
    for (int i = 0; i < 2; i++) {
        if (!text->name[i])
            continue;
        int64_t values =
            count_values(graph, ir_graph_find(graph, text->name[i]), arena);
        if (values >= 0 && values < limit)
            limit = values;
    }
    for (int64_t i = 0; limit < 256 && i < text->n; i++)
        if (text->bytes[i] >= limit)
            return fs_fail(err, FS_INVALID,
                           "%s: byte %d at offset %lld is outside the "
                           "vocabulary of %lld",
                           path, text->bytes[i], (long long)i,
                           (long long)limit);
    return FS_OK;
}

static fs_status map_text(const char *path, fs_err *err, text_data *text)
{
    struct stat stat;
    int file;
    FS_TRY(fs_input_open(path, err, &file));
    text->n = fstat(file, &stat) == 0 ? stat.st_size : 0;
    void *map = MAP_FAILED;
    if (text->n > 0)
        map = mmap(NULL, (size_t)text->n, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (text->n > 0 && map == MAP_FAILED)
        return fs_fail(err, FS_INVALID, "%s: not a readable file", path);
    text->bytes = text->n > 0 ? map : NULL;
    return FS_OK;
}

/* k T mod (n - T - 1) is 0 for every k. */
static const char *note_on_text(const char *path, const text_data *text,
                                fs_arena *arena)
{
    if (text->window % (text->n - text->window - 1) != 0)
        return NULL;
    return fs_printf(arena,
                     "%s: every sample is the same window of %lld bytes: the "
                     "file has only %lld",
                     path, (long long)text->window + 1, (long long)text->n);
}

static fs_status open_text(const char *path, const ir_graph *graph,
                           fs_arena *arena, fs_err *err, exec_data *out)
{
    text_data *text = fs_new(arena, text_data, 1);
    FS_TRY(match_inputs(path, graph, arena, err, text));
    FS_TRY(map_text(path, err, text));
    fs_status status = FS_OK;
    if (text->n < text->window + 2)
        status = fs_fail(err, FS_INVALID,
                         "%s: too short: %lld bytes, a window of %lld needs "
                         "at least %lld",
                         path, (long long)text->n, (long long)text->window,
                         (long long)text->window + 2);
    if (status == FS_OK)
        status = check_bytes(path, graph, arena, text, err);
    if (status != FS_OK) {
        if (text->bytes)
            close_text(text);
        return status;
    }
    *out = (exec_data){.ctx = text,
                       .fill = fill_text,
                       .close = close_text,
                       .digest = fs_hash(0, text->bytes, (size_t)text->n),
                       .note = note_on_text(path, text, arena)};
    return FS_OK;
}

/* ---- drawn from the seed ---- */

typedef struct drawn_input {
    const char *name;
    int64_t limit;           /* integers: values below it */
    int64_t sample_elements; /* elements of one sample */
    ir_shape whole;
} drawn_input;

typedef struct drawn_data {
    uint64_t seed;
    int32_t n;
    drawn_input *input;
} drawn_data;

typedef struct draw {
    uint64_t seed;
    ir_dtype dtype;
    int64_t limit, first; /* first: counter of the micro-batch's element 0 */
    void *out;
} draw;

static void draw_row(void *ctx, int64_t local, int64_t whole, int64_t length)
{
    const draw *d = ctx;
    for (int64_t i = 0; i < length; i++) {
        uint64_t counter = (uint64_t)(d->first + whole + i);
        double unit = fs_draw_unit(d->seed, counter);
        int64_t value = (int64_t)(unit * (double)d->limit);
        int64_t at = local + i;
        if (ir_dtype_is_float(d->dtype))
            ir_element_set_real(d->dtype, d->out, at,
                                fs_draw_normal(d->seed, counter));
        else if (d->dtype == IR_BOOL)
            ir_element_set_int(d->dtype, d->out, at, unit < 0.5);
        else
            ir_element_set_int(d->dtype, d->out, at, value);
    }
}

static fs_status fill_drawn(void *ctx, const char *name, int64_t sample,
                            ir_dtype dtype, const ir_shape *local,
                            const int64_t *offset, int32_t batch_axis,
                            void *out, fs_err *err)
{
    const drawn_data *drawn = ctx;
    for (int32_t i = 0; i < drawn->n; i++) {
        const drawn_input *in = &drawn->input[i];
        if (strcmp(in->name, name) != 0)
            continue;
        int64_t first = batch_axis < 0 ? 0 : sample * in->sample_elements;
        draw d = {fs_hash_text(fs_mix(drawn->seed), name), dtype, in->limit,
                  first, out};
        exec_piece_rows(&in->whole, local, offset, draw_row, &d);
        return FS_OK;
    }
    return fs_fail(err, FS_FAULT, "input '%s' is not in the graph", name);
}

static fs_status open_drawn(const ir_graph *graph, uint64_t seed,
                            fs_arena *arena, exec_data *out)
{
    tensor_list inputs = {0};
    list_inputs(graph, arena, &inputs);
    drawn_data *drawn = fs_new(arena, drawn_data, 1);
    drawn->seed = seed;
    drawn->n = inputs.n;
    drawn->input = fs_new(arena, drawn_input, inputs.n);
    for (int32_t i = 0; i < inputs.n; i++) {
        const ir_tensor *t = inputs.at[i];
        int64_t limit =
            count_values(graph, ir_graph_find(graph, t->name), arena);
        int64_t samples = t->batch_axis >= 0 ? t->shape.dim[t->batch_axis] : 1;
        drawn_input in = {t->name, limit > 0 ? limit : 2,
                          ir_shape_count(&t->shape) / samples, t->shape};
        drawn->input[i] = in;
    }
    *out =
        (exec_data){.ctx = drawn, .fill = fill_drawn, .digest = fs_mix(seed)};
    return FS_OK;
}

fs_status exec_data_open(const char *spec, const ir_graph *graph, uint64_t seed,
                         fs_arena *arena, fs_err *err, exec_data *out)
{
    if (strcmp(spec, "synthetic") == 0)
        return open_drawn(graph, seed, arena, out);
    size_t length = strlen(spec);
    if (length > 4 && strcmp(spec + length - 4, ".txt") == 0)
        return open_text(spec, graph, arena, err, out);
    return fs_fail(err, FS_INVALID,
                   "%s: unknown kind of data; there are FILE.txt, a folder of "
                   "input_N.pb, and 'synthetic'",
                   spec);
}

/* ---- the same every step ---- */

typedef struct fixed_data {
    int32_t n;
    const char **name;
    const void **data;
    ir_shape *whole; /* of the whole batch */
    int64_t batch;
} fixed_data;

static fs_status fill_fixed(void *ctx, const char *name, int64_t sample,
                            ir_dtype dtype, const ir_shape *local,
                            const int64_t *offset, int32_t batch_axis,
                            void *out, fs_err *err)
{
    const fixed_data *fixed = ctx;
    int32_t i = 0;
    while (i < fixed->n && strcmp(fixed->name[i], name) != 0)
        i++;
    if (i == fixed->n)
        return fs_fail(err, FS_FAULT, "no data for input '%s'", name);
    int64_t start[IR_MAX_RANK] = {0};
    memcpy(start, offset, (size_t)local->rank * sizeof *start);
    if (batch_axis >= 0)
        start[batch_axis] += sample % fixed->batch;
    exec_piece_cut(&fixed->whole[i], local, start, ir_dtype_bytes(dtype),
                   fixed->data[i], out);
    return FS_OK;
}

fs_status exec_data_fixed(int32_t n, const char *const *names,
                          const void *const *data, const ir_graph *graph,
                          fs_arena *arena, fs_err *err, exec_data *out)
{
    fixed_data *fixed = fs_new(arena, fixed_data, 1);
    fixed->n = n;
    fixed->name = fs_new(arena, const char *, n);
    fixed->data = fs_new(arena, const void *, n);
    fixed->whole = fs_new(arena, ir_shape, n);
    fixed->batch = graph->batch > 0 ? graph->batch : 1;
    for (int32_t i = 0; i < n; i++) {
        int32_t id = ir_graph_find(graph, names[i]);
        if (id < 0)
            return fs_fail(err, FS_INVALID, "the graph has no input '%s'",
                           names[i]);
        const ir_tensor *t = &graph->tensors.at[id];
        fixed->name[i] = t->name;
        fixed->data[i] = data[i];
        fixed->whole[i] = t->shape;
        if (t->batch_axis >= 0 && graph->batch > 0)
            fixed->whole[i].dim[t->batch_axis] = graph->batch;
        else if (t->batch_axis >= 0)
            fixed->batch = t->shape.dim[t->batch_axis];
    }
    *out = (exec_data){.ctx = fixed, .fill = fill_fixed};
    return FS_OK;
}
