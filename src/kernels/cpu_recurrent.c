/* recurrent and its gradient: see ir/recurrent.h. */
#include "config.h"

#include "ir/recurrent.h"
#include "kernels/indices.h"
#include "kernels/loops.h"
#include "kernels/math.h"

/* An activation with its numbers; `clip` 0 cuts nothing off. */
typedef struct activation {
    ir_activation_kind kind;
    double alpha, beta, clip;
} activation;

/* A layer in one direction. */
typedef struct scan {
    ir_cell cell;
    bool reverse, variant;
    ir_cell_sizes size;
    int64_t t, b, h;
    activation f[3];
    const kernel_arg *lengths; /* NULL: all samples have t steps */
} scan;

static scan scan_of(const kernel_call *call, const ir_shape *y, int32_t lengths)
{
    const int64_t *i = call->node->i;
    scan s = {.cell = (ir_cell)i[IR_CELL_KIND],
              .reverse = i[IR_CELL_REVERSE] != 0,
              .variant = i[IR_CELL_VARIANT] != 0,
              .size = ir_cell_of(i[IR_CELL_KIND]),
              .t = y->dim[0],
              .b = y->dim[1],
              .h = y->dim[2],
              .lengths = call->n_in > lengths ? &call->in[lengths] : NULL};
    for (int k = 0; k < 3; k++)
        s.f[k] =
            (activation){(ir_activation_kind)i[IR_CELL_F + k], call->f[2 * k],
                         call->f[2 * k + 1], call->f[IR_CELL_CLIP]};
    /* The output activation of an LSTM sees its state, which is not a gate. */
    s.f[2].clip = 0;
    return s;
}

static int64_t scan_length(const scan *s, int64_t b)
{
    return s->lengths ? kernel_index(s->lengths, b) : s->t;
}

/* The position of sample b's step k; -1 when it has no such step. */
static int64_t scan_at(const scan *s, int64_t b, int64_t k)
{
    const int64_t n = scan_length(s, b);
    if (k < 0 || k >= n)
        return -1;
    return s->reverse ? n - 1 - k : k;
}

static fs_status scan_check(const scan *s, const kernel_call *call, int32_t in,
                            fs_err *err)
{
    for (int64_t b = 0; s->lengths && b < s->b; b++)
        if (scan_length(s, b) < 0 || scan_length(s, b) > s->t)
            return kernel_index_fault(call, "length", in, b, s->t + 1, err);
    return FS_OK;
}

#include "kernels/real_f32.h"
#include "kernels/cpu_activation.inc"
#include "kernels/cpu_recurrent.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_activation.inc"
#include "kernels/cpu_recurrent.inc"

KERNEL_REAL_CHECKED(recurrent);
KERNEL_REAL_CHECKED(recurrent_grad);
