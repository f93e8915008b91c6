/* The parts of batch normalisation. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

/* (N, C, d1, ..) as N samples of C channels of s elements. */
typedef struct channels {
    int64_t n, c, s;
} channels;

static channels channels_of(const ir_shape *shape)
{
    return (channels){shape->dim[0], shape->dim[1],
                      kernel_span(shape, 2, shape->rank)};
}

enum { SHORT_ROW = 16, RUN = 256 /* elements on the stack */ };

static bool has_short_rows(const channels *d)
{
    return d->s > 0 && d->s < SHORT_ROW;
}

#include "kernels/real_f32.h"
#include "kernels/cpu_batch_norm.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_batch_norm.inc"

KERNEL_REAL(centred_square);
KERNEL_REAL(batch_norm);
KERNEL_REAL(batch_norm_grad);
KERNEL_REAL(batch_norm_param_grad);
