/* Gradients in fewer bytes where they move between devices. That changes
 * numbers, so nothing is compressed unless told. What is compressed is written
 * into the training graph: the compressed form is a tensor like any other, and
 * whether it is what moves is a matter of signatures and of prices.
 *
 *   bf16, fp16  the sum over the micro-batches is cast, reduced (in float,
 *               rounded once) and cast back
 *   powersgd:R  a matrix M (N,K) of gradient and error becomes P Q^T of rank R:
 *               P = orthonormal(M Q), Q = M^T P, one step of subspace iteration
 *               from the last step's Q (Vogels et al. 2019, arXiv 1905.13727,
 *               algorithm 1). P and Q are reduced, (N + K) R numbers.
 *   topk:F      of gradient and error the F N largest of N entries are sent,
 *               values and places: each of r devices that hold a partial sum
 *               sends F N / r of its own (Stich et al. 2018, arXiv 1809.07599)
 *
 * The last two keep what they left out as an error, a state that is added to
 * the next gradient. It may lie as a partial sum: each device keeps its own.
 * PowerSGD is linear in M, so that any plan computes what one device would;
 * what topk sends hangs on how the gradient lies. */
#ifndef FS_IR_COMPRESS_H
#define FS_IR_COMPRESS_H

#include "ir/clip.h"

typedef enum ir_compress_kind {
    IR_COMPRESS_NONE,
#define IR_COMPRESS(id, ...) IR_COMPRESS_##id,
#include "ir/compress.def"
#undef IR_COMPRESS
} ir_compress_kind;

typedef struct ir_compress {
    ir_compress_kind kind;
    double argument;
    int32_t n_only; /* of the gradients of these parameters only; 0: of all */
    const char *const *only;
} ir_compress;

/* "bf16", "topk:0.01", ..; "" and "none" are none. */
fs_status ir_compress_parse(const char *text, fs_err *err, ir_compress *out);
/* The type that it casts to; IR_F32 when it casts to none. */
ir_dtype ir_compress_dtype(const ir_compress *how);

/* A state and the value that it takes. */
typedef struct ir_carried {
    int32_t variable, next;
} ir_carried;
typedef FS_VEC(ir_carried) ir_carried_list;

/* Turns the gradients of the pairs into what their compressed forms give, named
 * "PARAM.compressed"; lists what errors and bases become. A gradient that is
 * not asked for, or that no compression makes smaller, stays: which are worth
 * it on a mesh, who has a plan knows. Returns how many it turned. */
int32_t ir_compress_gradients(ir_graph *graph, const ir_compress *how,
                              int32_t n, ir_update_pair *pairs,
                              ir_carried_list *carried);

/* What stands for the gradient of parameter `param` in its update: -1 when it
 * is not compressed. */
int32_t ir_compressed(const ir_graph *graph, int32_t param);
/* The parameter whose gradient the node helps to compress, or -1. */
int32_t ir_compresses(const ir_graph *graph, const ir_node *node);

#endif
