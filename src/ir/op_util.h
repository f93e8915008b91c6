/* What the op files share: checks with their messages, the common shapes of
 * signature lists, work that saturates instead of overflowing. */
#ifndef FS_IR_OP_UTIL_H
#define FS_IR_OP_UTIL_H

#include "ir/build.h"

#define IR_OP(name, ...) extern const ir_op ir_op_##name;
#include "ir/ops.def"
#undef IR_OP

/* Checks on input `in`. */
fs_status ir_io_need_float(const ir_io *io, int32_t in, fs_err *err);
fs_status ir_io_need_int(const ir_io *io, int32_t in, fs_err *err);
/* The type that input 0 is computed in: of gains, biases, statistics. */
fs_status ir_io_need_wide(const ir_io *io, int32_t in, fs_err *err);
/* Same dtype (and shape) as input 0. */
fs_status ir_io_need_dtype(const ir_io *io, int32_t in, fs_err *err);
fs_status ir_io_need_alike(const ir_io *io, int32_t in, fs_err *err);
fs_status ir_io_need_rank(const ir_io *io, int32_t in, int32_t low,
                          int32_t high, fs_err *err);
/* i[first .. first + n) within low .. INT32_MAX. */
fs_status ir_attr_check(const ir_node *node, int32_t first, int32_t n,
                        int64_t low, fs_err *err);
fs_status ir_io_need_shape(const ir_io *io, int32_t in, const ir_shape *wanted,
                           fs_err *err);
/* Output `out` is like input `in`. */
void ir_io_copy(ir_io *io, int32_t in, int32_t out);
/* Float inputs, all alike, and outputs like them. */
fs_status ir_infer_alike(const ir_node *node, ir_io *io, fs_err *err);

/* Shape in attributes i[0]=rank, i[1..]. */
void ir_attr_set_shape(ir_node *node, const ir_shape *shape);
fs_status ir_attr_shape(const ir_node *node, fs_err *err, ir_shape *out);

/* Appends one signature, all B, for the caller to fill in; valid until the
 * next one is added. */
ir_sig *ir_sig_add(fs_arena *arena, ir_sig_list *out);
/* Axis `axis` cut in the inputs and outputs of the bit masks. */
void ir_sig_add_split(fs_arena *arena, ir_sig_list *out, uint32_t in_mask,
                      uint32_t out_mask, int32_t axis);
/* The same for the first n axes. */
void ir_sig_add_splits(fs_arena *arena, ir_sig_list *out, uint32_t in_mask,
                       uint32_t out_mask, int32_t n);
/* One of two inputs and an output. */
void ir_sig_add_row(fs_arena *arena, ir_sig_list *out, ir_sbp a, ir_sbp b,
                    ir_sbp y);
/* Linear in the inputs of `in_mask` taken together: they P, outputs P. */
void ir_sig_add_linear(fs_arena *arena, ir_sig_list *out, uint32_t in_mask,
                       uint32_t out_mask);
/* NumPy broadcasting: each axis of the output cut, inputs that have it (and
 * not of length 1) cut as well. */
void ir_sig_add_broadcast(const ir_io *io, int32_t n_in, fs_arena *arena,
                          ir_sig_list *out);

/* All tensors of the node lie alike, cut along any axis. */
void ir_sbp_alike(const ir_node *node, const ir_io *io, fs_arena *arena,
                  ir_sig_list *out);
/* The same for an op that is linear in input 0. */
void ir_sbp_linear(const ir_node *node, const ir_io *io, fs_arena *arena,
                   ir_sig_list *out);

int64_t ir_mul_sat(int64_t a, int64_t b);
int64_t ir_common_divisor(int64_t a, int64_t b); /* the greatest; of 0: b */
int64_t ir_add_sat(int64_t a, int64_t b);
int64_t ir_shape_bytes(const ir_shape *shape, ir_dtype dtype);
/* Every input read once, every output written once. */
void ir_work_moves(const ir_node *node, const ir_io *io, int64_t flop,
                   ir_work *out);
/* The same, with `flop` per element of input 0. */
void ir_work_per_element(const ir_node *node, const ir_io *io, int64_t flop,
                         ir_work *out);
/* The same, of `macs` multiply-adds and `rest` flop besides. */
void ir_work_products(const ir_node *node, const ir_io *io, int64_t macs,
                      int64_t rest, ir_work *out);
/* The same, with none. */
void ir_work_copy(const ir_node *node, const ir_io *io, ir_work *out);

#endif
