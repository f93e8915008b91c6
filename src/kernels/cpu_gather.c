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

static fs_status gather_run(void *state, const kernel_call *call, fs_err *err)
{
    (void)state;
    const kernel_arg *table = &call->in[0], *ids = &call->in[1];
    const int64_t n = ir_shape_count(&ids->shape);
    const int64_t first = table->offset[0], rows = table->shape.dim[0];
    const int64_t limit = call->node->i[0]; /* rows of the whole, if told */
    const size_t bytes =
        (size_t)(kernel_span(&table->shape, 1, table->shape.rank) *
                 ir_dtype_bytes(table->dtype));
    const char *from = table->data;
    char *out = call->out[0].data;
    for (int64_t i = 0; i < n; i++, out += bytes) {
        const int64_t id = kernel_index(ids, i), row = id - first;
        if (id < 0 || (limit > 0 && id >= limit))
            return kernel_index_fault(call, "id", 1, i, limit, err);
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
    const kernel_arg *ids = &call->in[1], *table = &call->out[0];
    const int64_t n = ir_shape_count(&ids->shape);
    const int64_t first = table->offset[0], rows = table->shape.dim[0];
    const int64_t width = kernel_span(&table->shape, 1, table->shape.rank);
    const size_t bytes = (size_t)(width * ir_dtype_bytes(table->dtype));
    const char *dy = call->in[0].data;
    char *out = table->data;
    void (*add)(void *, const void *, int64_t) =
        kernel_is_double(call) ? add_row_f64 : add_row_f32;
    memset(out, 0, (size_t)rows * bytes);
    for (int64_t i = 0; i < n; i++, dy += bytes) {
        const int64_t id = kernel_index(ids, i), row = id - first;
        if (id < 0 || id >= call->node->i[0])
            return kernel_index_fault(call, "id", 1, i, call->node->i[0], err);
        if (row >= 0 && row < rows)
            add(out + (size_t)row * bytes, dy, width);
    }
    return FS_OK;
}
KERNEL_REFERENCE(gather_grad, gather_grad_prepare);
