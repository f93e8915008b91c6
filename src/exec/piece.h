/* Pieces of row-major tensors: boxes of them as nested runs of bytes, copies
 * between a piece and the whole, element-wise reduction. */
#ifndef FS_EXEC_PIECE_H
#define FS_EXEC_PIECE_H

#include "ir/sbp.h"

/* A box of a row-major piece as bytes: `run` of them in a row, repeated by
 * loops, the outermost first. No loop when the box lies in one run. Of several
 * pieces that go together, boxes of the next ones follow, their offsets from
 * the same base. */
typedef struct exec_part {
    int64_t offset, run;
    int32_t n;
    int64_t count[IR_MAX_RANK], stride[IR_MAX_RANK];
    const struct exec_part *next; /* or NULL */
} exec_part;

/* `box` as a part of the buffer that holds `holder`; both in coordinates of
 * the logical tensor. */
exec_part exec_part_of(const ir_piece *box, const ir_piece *holder,
                       int64_t element_bytes);
int64_t exec_part_bytes(const exec_part *part); /* of all that follow too */

/* All are parts of buffers for the same box: bytes in the order of elements.
 * fold: to = to op from (exec_fold); fold_two: to = a op b. */
void exec_part_copy(const exec_part *from_part, const void *from,
                    const exec_part *to_part, void *to);
void exec_part_fold(ir_sbp_kind kind, ir_dtype dtype,
                    const exec_part *from_part, const void *from,
                    const exec_part *to_part, void *to);

typedef struct exec_parted {
    const exec_part *part;
    const void *at;
} exec_parted;
void exec_part_fold_two(ir_sbp_kind kind, ir_dtype dtype, exec_parted a,
                        exec_parted b, const exec_part *to_part, void *to);

/* A sum of more than one box of 16-bit floats, rounded once: in between it is a
 * float, of which `to` and `low` (a uint16_t per element of the box) have a
 * half each. to = first ? from : to + from; `last` rounds. */
typedef struct exec_sum {
    ir_dtype dtype; /* F16 or BF16 */
    bool first, last;
    uint16_t *low;
} exec_sum;
void exec_part_sum(const exec_sum *sum, const exec_part *from_part,
                   const void *from, const exec_part *to_part, void *to);

/* Calls `row` for every contiguous row (last axis) of a local piece: where it
 * starts in the piece and in the whole tensor (element indices) and its
 * length. */
typedef void exec_row_fn(void *ctx, int64_t local, int64_t whole,
                         int64_t length);
void exec_piece_rows(const ir_shape *whole, const ir_shape *local,
                     const int64_t *offset, exec_row_fn *row, void *ctx);
/* Whole tensor -> local piece. */
void exec_piece_cut(const ir_shape *whole, const ir_shape *local,
                    const int64_t *offset, int64_t element_bytes,
                    const void *from, void *to);

/* to = to op from, element by element; `kind` is one of the P kinds. Floats
 * and integers; exec_can_fold says which. */
bool exec_can_fold(ir_dtype dtype);
void exec_fold(ir_sbp_kind kind, ir_dtype dtype, void *to, const void *from,
               int64_t count);
/* to = a op b; `to` may be `a`. */
void exec_fold_two(ir_sbp_kind kind, ir_dtype dtype, void *to, const void *a,
                   const void *b, int64_t count);
/* Elements that change nothing in a reduction: zeros, or the infinity of a
 * float that is below or above all. */
void exec_fill_neutral(ir_sbp_kind kind, ir_dtype dtype, void *to,
                       int64_t count);

#endif
