/* Ops that copy: broadcast_to, transpose, slice, pad, concat. Any dtype: they
 * move elements of 1, 2, 4 or 8 bytes. */
#include "config.h"

#include "kernels/loops.h"
#include "kernels/math.h"

/* A block of (rows, columns): out contiguous along columns, both with a step
 * per row; `in` has a step per column too. Elements. */
typedef struct block {
    int64_t rows, columns, out_row, in_row, in_column;
} block;

#define COPY_BLOCK(name, type)                                                 \
    FS_CLONES static void name(void *restrict to,                          \
                                   const void *restrict from, const block *b)  \
    {                                                                          \
        for (int64_t r = 0; r < b->rows; r++) {                                \
            type *restrict out = (type *)to + r * b->out_row;                  \
            const type *restrict in = (const type *)from + r * b->in_row;      \
            for (int64_t c = 0; c < b->columns; c++)                           \
                out[c] = in[c * b->in_column];                                 \
        }                                                                      \
    }
COPY_BLOCK(copy_block_1, uint8_t)
COPY_BLOCK(copy_block_2, uint16_t)
COPY_BLOCK(copy_block_4, uint32_t)
COPY_BLOCK(copy_block_8, uint64_t)

static void copy_block(void *to, const void *from, const block *b,
                       int64_t bytes)
{
    if (bytes == 8)
        copy_block_8(to, from, b);
    else if (bytes == 4)
        copy_block_4(to, from, b);
    else if (bytes == 2)
        copy_block_2(to, from, b);
    else
        copy_block_1(to, from, b);
}

/* Tiles of 16 x 16, so that the strided side uses whole cache lines. */
static void copy_tiles(char *out, const char *in, const block *whole,
                       int64_t bytes)
{
    enum { TILE = 16 };
    for (int64_t r = 0; r < whole->rows; r += TILE)
        for (int64_t c = 0; c < whole->columns; c += TILE) {
            block b = *whole;
            b.rows = whole->rows - r < TILE ? whole->rows - r : TILE;
            b.columns = whole->columns - c < TILE ? whole->columns - c : TILE;
            copy_block(out + (r * b.out_row + c) * bytes,
                       in + (r * b.in_row + c * b.in_column) * bytes, &b,
                       bytes);
        }
}

/* The axis that is contiguous in `in` becomes the rows of a block, whose
 * columns are the last axis: takes it out of the loop. */
static bool take_contiguous_axis(kernel_loop *loop, block *b)
{
    for (int32_t i = 0; i < loop->rank - 1; i++) {
        if (loop->stride[1][i] != 1)
            continue;
        b->rows = loop->dim[i];
        b->out_row = loop->stride[0][i];
        b->in_row = 1;
        loop->dim[i] = 1;
        return true;
    }
    return false;
}

/* Copies through the loop: operand 0 out, 1 in; out's last axis is
 * contiguous. */
static void copy_strided(kernel_loop *loop, void *to, const void *from,
                         int64_t bytes)
{
    char *out = to;
    const char *in = from;
    const int64_t n = kernel_row(loop), step = kernel_step(loop, 1);
    block b = {.rows = 1, .columns = n, .in_column = step};
    const bool tiled = step > 1 && take_contiguous_axis(loop, &b);
    kernel_walk w = {{0}, {0}};
    do {
        char *row = out + w.at[0] * bytes;
        const char *source = in + w.at[1] * bytes;
        if (tiled)
            copy_tiles(row, source, &b, bytes);
        else if (step == 1)
            memcpy(row, source, (size_t)(n * bytes));
        else
            copy_block(row, source, &b, bytes);
    } while (kernel_next(loop, &w));
}

static fs_status broadcast_to_run(void *state, const kernel_call *call,
                                  fs_err *err)
{
    (void)state, (void)err;
    kernel_loop loop = kernel_loop_broadcast(call);
    copy_strided(&loop, call->out[0].data, call->in[0].data,
                 ir_dtype_bytes(call->out[0].dtype));
    return FS_OK;
}
KERNEL_REFERENCE(broadcast_to, NULL);

/* Axis i of the output is axis i[1 + i] of the input. */
static fs_status transpose_run(void *state, const kernel_call *call,
                               fs_err *err)
{
    (void)state, (void)err;
    const ir_shape *out = &call->out[0].shape;
    int64_t own[IR_MAX_RANK], stride[2][IR_MAX_RANK];
    kernel_strides(&call->in[0].shape, own);
    kernel_strides(out, stride[0]);
    for (int32_t i = 0; i < out->rank; i++)
        stride[1][i] = own[call->node->i[1 + i]];
    kernel_loop loop = kernel_loop_make(out, 2, stride);
    copy_strided(&loop, call->out[0].data, call->in[0].data,
                 ir_dtype_bytes(call->out[0].dtype));
    return FS_OK;
}
KERNEL_REFERENCE(transpose, NULL);

/* Bytes of one run along `axis` and of all that lies within it. */
static int64_t run_bytes(const kernel_arg *arg, int32_t axis)
{
    return kernel_span(&arg->shape, axis, arg->shape.rank) *
           ir_dtype_bytes(arg->dtype);
}

/* Input 0 and output 0 of an op that cuts or lengthens the axis of attribute 0
 * at its start by attribute 1: bytes. */
typedef struct run_sizes {
    int64_t n; /* runs */
    int64_t in, out, start;
} run_sizes;

static run_sizes sizes_of(const kernel_call *call)
{
    const kernel_arg *from = &call->in[0];
    const int32_t axis = (int32_t)call->node->i[0];
    const int64_t in = run_bytes(from, axis);
    return (run_sizes){.n = kernel_span(&from->shape, 0, axis),
                       .in = in,
                       .out = run_bytes(&call->out[0], axis),
                       .start =
                           call->node->i[1] * (in / from->shape.dim[axis])};
}

/* Runs of elements that stand `step` apart in `far`, close in `near`: one way
 * or the other. */
static void copy_stepped(const kernel_call *call, const kernel_arg *far,
                         const kernel_arg *near, bool into_far)
{
    const int32_t axis = (int32_t)call->node->i[0];
    const int64_t step = call->node->i[3],
                  runs = kernel_span(&far->shape, 0, axis);
    const int64_t n = near->shape.dim[axis];
    const int64_t far_run = run_bytes(far, axis);
    const int64_t bytes = run_bytes(near, axis) / n;
    int64_t first = call->node->i[1]; /* of pad: before the lowest */
    if (into_far && step < 0)
        first += (n - 1) * -step;
    char *a = (char *)far->data + first * bytes, *b = near->data;
    for (int64_t r = 0; r < runs; r++, a += far_run)
        for (int64_t i = 0; i < n; i++, b += bytes)
            memcpy(into_far ? a + i * step * bytes : b,
                   into_far ? b : a + i * step * bytes, (size_t)bytes);
}

static bool has_step(const kernel_call *call)
{
    return call->node->i[3] != 0 && call->node->i[3] != 1;
}

static fs_status slice_run(void *state, const kernel_call *call, fs_err *err)
{
    (void)state, (void)err;
    if (has_step(call)) {
        copy_stepped(call, &call->in[0], &call->out[0], false);
        return FS_OK;
    }
    const run_sizes run = sizes_of(call);
    char *out = call->out[0].data;
    const char *in = call->in[0].data;
    for (int64_t i = 0; i < run.n; i++)
        memcpy(out + i * run.out, in + i * run.in + run.start, (size_t)run.out);
    return FS_OK;
}
KERNEL_REFERENCE(slice, NULL);

static fs_status pad_run(void *state, const kernel_call *call, fs_err *err)
{
    (void)state, (void)err;
    if (has_step(call)) {
        const kernel_arg *whole = &call->out[0];
        memset(whole->data, 0, (size_t)run_bytes(whole, 0));
        copy_stepped(call, whole, &call->in[0], true);
        return FS_OK;
    }
    const run_sizes run = sizes_of(call);
    const int64_t after = run.out - run.start - run.in;
    char *out = call->out[0].data;
    const char *in = call->in[0].data;
    for (int64_t i = 0; i < run.n; i++, out += run.out) {
        memset(out, 0, (size_t)run.start);
        memcpy(out + run.start, in + i * run.in, (size_t)run.in);
        memset(out + run.start + run.in, 0, (size_t)after);
    }
    return FS_OK;
}
KERNEL_REFERENCE(pad, NULL);

static fs_status concat_run(void *state, const kernel_call *call, fs_err *err)
{
    (void)state, (void)err;
    const int32_t axis = (int32_t)call->node->i[0];
    const int64_t out_run = run_bytes(&call->out[0], axis);
    const int64_t runs = kernel_span(&call->out[0].shape, 0, axis);
    char *out = call->out[0].data;
    for (int32_t k = 0; k < call->n_in; k++) {
        const int64_t in_run = run_bytes(&call->in[k], axis);
        const char *in = call->in[k].data;
        for (int64_t i = 0; i < runs; i++)
            memcpy(out + i * out_run, in + i * in_run, (size_t)in_run);
        out += in_run;
    }
    return FS_OK;
}
KERNEL_REFERENCE(concat, NULL);

/* Rows and columns of the logical matrix decide. */
static fs_status trilu_run(void *state, const kernel_call *call, fs_err *err)
{
    (void)state, (void)err;
    const kernel_arg *x = &call->in[0];
    const int32_t last = x->shape.rank - 1;
    const int64_t n = x->shape.dim[last], rows = x->shape.dim[last - 1];
    const int64_t matrices = kernel_span(&x->shape, 0, last - 1);
    const int64_t bytes = ir_dtype_bytes(x->dtype), k = call->node->i[1];
    const bool upper = call->node->i[0] != 0;
    const int64_t far = INT64_C(1) << 60; /* beyond any matrix, and no overflow
                                             in what follows */
    const int64_t diagonal = k > far ? far : k < -far ? -far : k;
    for (int64_t r = 0; r < matrices * rows; r++) {
        int64_t cut = r % rows + x->offset[last - 1] + diagonal -
                      x->offset[last] + (upper ? 0 : 1);
        cut = cut < 0 ? 0 : cut > n ? n : cut;
        const int64_t from = upper ? cut : 0, to = upper ? n : cut;
        char *out = (char *)call->out[0].data + r * n * bytes;
        memset(out, 0, (size_t)(n * bytes));
        memcpy(out + from * bytes,
               (const char *)x->data + (r * n + from) * bytes,
               (size_t)((to - from) * bytes));
    }
    return FS_OK;
}
KERNEL_REFERENCE(trilu, NULL);
