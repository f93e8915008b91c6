/* The same tensors every step. */
#include "config.h"
#include "exec/data.h"

#include "exec/piece.h"

#include <string.h>

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
