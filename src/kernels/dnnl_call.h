/* A prepared oneDNN primitive with two inputs, or three, and one output in
 * row-major layouts; what matmul and the convolutions share.
 *
 * Scratch: the call's workspace (scratchpad mode "user"). Left to itself oneDNN
 * shares scratchpads among primitives only where it calls its general product;
 * others (matmul with AVX-512) keep one each, and memory grows with depth. The
 * blocks that its general product packs are no scratchpad: it mallocs them. */
#ifndef FS_KERNELS_DNNL_CALL_H
#define FS_KERNELS_DNNL_CALL_H

#include "kernels/kernel.h"

#include <dnnl.h>

enum { KERNEL_DNNL_ARGS = 4 };

/* Between how an argument lies and how the primitive has it. */
typedef struct kernel_dnnl_turn {
    dnnl_primitive_t reorder; /* NULL: as it lies */
    dnnl_memory_t inner;
    int64_t at; /* in the workspace */
} kernel_dnnl_turn;

typedef struct kernel_dnnl {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    int n;                                  /* inputs and the output */
    dnnl_memory_t memory[KERNEL_DNNL_ARGS]; /* in order, the output last */
    int arg[KERNEL_DNNL_ARGS];              /* DNNL_ARG_... of each */
    kernel_dnnl_turn turn[KERNEL_DNNL_ARGS];
    dnnl_memory_t workspace; /* NULL: it needs none */
    int64_t workspace_bytes;
    int64_t packing_bytes;
    int threads;
    bool clears;
} kernel_dnnl;

/* What prepare fills: any oneDNN operation descriptor, its tensors as they lie,
 * and for backward convolutions the forward's descriptor. Where the descriptor
 * leaves a layout open (dnnl_format_tag_any) and the primitive takes another
 * than the tensor's, it is turned in the workspace. */
typedef struct kernel_dnnl_op {
    const_dnnl_op_desc_t desc;
    const_dnnl_op_desc_t forward; /* or NULL */
    int n;                        /* as above */
    dnnl_memory_desc_t tensor[KERNEL_DNNL_ARGS];
    int arg[KERNEL_DNNL_ARGS];
    bool general; /* by its general product, where it has one */
    bool clears;  /* the output is more than the primitive writes: 0 there */
    int64_t product[3]; /* m, n, k of the largest product (m, k) (k, n) that it
                           is made of where oneDNN works it out by its general
                           product */
} kernel_dnnl_op;

/* FS_NO when oneDNN does not do it, or only by its slow reference. */
fs_status kernel_dnnl_create(const kernel_dnnl_op *op, fs_err *err,
                             void **state);
fs_status kernel_dnnl_run(void *state, const kernel_call *call, fs_err *err);
void kernel_dnnl_release(void *state);
int64_t kernel_dnnl_workspace(const void *state);
int64_t kernel_dnnl_packing(const void *state);

/* The number of threads is the calling thread's: what prepared a kernel says
 * which it is, what runs it takes it up. */
int kernel_dnnl_threads(void);
void kernel_dnnl_take_threads(int n);

/* Are the inputs and the output float? */
bool kernel_dnnl_takes(const kernel_call *shapes);

#endif
