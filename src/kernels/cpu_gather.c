/* gather and gather_grad. A table split by rows: the piece says with its
 * offset which rows it owns; ids of other rows give zero (gather) or are
 * passed over (gather_grad), and the sum over the pieces is the value. */
#include "config.h"

#include "kernels/indices.h"
#include "kernels/loops.h"
#include "kernels/math.h"

#include "kernels/real_f32.h"
#include "kernels/cpu_gather.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_gather.inc"

static fs_status gather_prepare(const kernel_call *shapes, fs_err *err,
                                void **state)
{
    (void)err;
    *state = NULL;
    return kernel_is_index(&shapes->in[1]) ? FS_OK : FS_NO;
}

/* The whole table's row that id `at` means; FS_FAULT when there is none. */
static fs_status read_row(const kernel_call *call, int64_t at, fs_err *err,
                          int64_t *row)
{
    const int64_t limit = call->node->i[0]; /* rows of the whole, if told */
    int64_t id = kernel_index(&call->in[1], at);
    if (id < 0 && call->node->i[1])
        id += limit;
    if (id < 0 || (limit > 0 && id >= limit))
        return kernel_index_fault(call, "id", 1, at, limit, err);
    *row = id;
    return FS_OK;
}

static fs_status gather_run(void *state, const kernel_call *call, fs_err *err)
{
    (void)state;
    const kernel_arg *table = &call->in[0];
    const int32_t axis = (int32_t)call->node->i[2];
    const int64_t n = ir_shape_count(&call->in[1].shape);
    const int64_t first = table->offset[axis], rows = table->shape.dim[axis];
    const int64_t outer = kernel_span(&table->shape, 0, axis);
    const size_t bytes =
        (size_t)(kernel_span(&table->shape, axis + 1, table->shape.rank) *
                 ir_dtype_bytes(table->dtype));
    const char *from = table->data;
    char *out = call->out[0].data;
    int64_t id = 0;
    for (int64_t o = 0; o < outer; o++, from += (size_t)rows * bytes)
        for (int64_t i = 0; i < n; i++, out += bytes) {
            FS_TRY(read_row(call, i, err, &id));
            const int64_t row = id - first;
            if (row >= 0 && row < rows)
                memcpy(out, from + (size_t)row * bytes, bytes);
            else
                memset(out, 0, bytes);
        }
    return FS_OK;
}
KERNEL_REFERENCE(gather, gather_prepare);

static fs_status gather_grad_prepare(const kernel_call *shapes, fs_err *err,
                                     void **state)
{
    FS_TRY(gather_prepare(shapes, err, state));
    return kernel_prepare_real(shapes, err, state);
}

static fs_status gather_grad_run(void *state, const kernel_call *call,
                                 fs_err *err)
{
    (void)state;
    const kernel_arg *table = &call->out[0];
    const int32_t axis = (int32_t)call->node->i[2];
    const int64_t n = ir_shape_count(&call->in[1].shape);
    const int64_t first = table->offset[axis], rows = table->shape.dim[axis];
    const int64_t outer = kernel_span(&table->shape, 0, axis);
    const int64_t width =
        kernel_span(&table->shape, axis + 1, table->shape.rank);
    const int64_t passed = call->node->i[3] - 1;
    const size_t bytes = (size_t)(width * ir_dtype_bytes(table->dtype));
    const char *dy = call->in[0].data;
    char *out = table->data;
    int64_t id = 0;
    void (*add)(void *, const void *, int64_t) =
        kernel_is_double(call) ? add_row_f64 : add_row_f32;
    memset(out, 0, (size_t)(outer * rows) * bytes);
    for (int64_t o = 0; o < outer; o++, out += (size_t)rows * bytes)
        for (int64_t i = 0; i < n; i++, dy += bytes) {
            FS_TRY(read_row(call, i, err, &id));
            const int64_t row = id - first;
            if (row >= 0 && row < rows && id != passed)
                add(out + (size_t)row * bytes, dy, width);
        }
    return FS_OK;
}
KERNEL_REFERENCE(gather_grad, gather_grad_prepare);
