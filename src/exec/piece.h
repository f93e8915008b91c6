/* Pieces of row-major tensors: parts along one axis as strided byte blocks,
 * copies between a piece and the whole, element-wise reduction. */
#ifndef FS_EXEC_PIECE_H
#define FS_EXEC_PIECE_H

#include "ir/sbp.h"

/* `outer` runs of `run` bytes, `stride` bytes apart, from `offset` on. One run
 * when the part is contiguous. */
typedef struct exec_part {
    int64_t offset, outer, run, stride;
} exec_part;

/* Rows [start, start + length) along `axis` of a tensor of this shape. */
exec_part exec_part_along(const ir_shape *shape, int32_t axis, int64_t start,
                          int64_t length, int64_t element_bytes);
int64_t exec_part_bytes(const exec_part *part);
/* The part of `from` -> contiguous `to`, and back. */
void exec_part_pack(const exec_part *part, const void *from, void *to);
void exec_part_unpack(const exec_part *part, const void *from, void *to);

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

#endif
