/* resample and its gradient: weighted sums along one axis. Of a piece of the
 * axis (its offset says which) other places count as zero. */
#include "config.h"

#include "kernels/indices.h"
#include "kernels/loops.h"
#include "kernels/math.h"

/* `narrow` is x or its gradient: what the places are of. */
typedef struct resampling {
    int64_t runs, inner, length, first; /* of the axis and its piece */
    int64_t n, taps;
    const kernel_arg *ids;
} resampling;

static resampling resampling_of(const kernel_call *call,
                                const kernel_arg *narrow)
{
    const int32_t axis = (int32_t)call->node->i[0];
    const ir_shape *shape = &narrow->shape;
    return (resampling){.runs = kernel_span(shape, 0, axis),
                        .inner = kernel_span(shape, axis + 1, shape->rank),
                        .length = shape->dim[axis],
                        .first = narrow->offset[axis],
                        .n = call->in[1].shape.dim[0],
                        .taps = call->in[1].shape.dim[1],
                        .ids = &call->in[1]};
}

/* Tap `at` within the piece, or -1. */
static inline int64_t place_of(const resampling *r, int64_t at)
{
    const int64_t place = kernel_index(r->ids, at) - r->first;
    return place < r->length ? place : -1;
}

static fs_status check_places(const kernel_call *call, fs_err *err)
{
    const int64_t limit = call->node->i[1];
    const int64_t n = ir_shape_count(&call->in[1].shape);
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = kernel_index(&call->in[1], i);
        if (id < 0 || (limit > 0 && id >= limit))
            return kernel_index_fault(call, "place", 1, i, limit, err);
    }
    return FS_OK;
}

#include "kernels/real_f32.h"
#include "kernels/cpu_resample.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_resample.inc"

KERNEL_REAL_CHECKED(resample);
KERNEL_REAL_CHECKED(resample_grad);
