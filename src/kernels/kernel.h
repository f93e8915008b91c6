/* Kernels: one per op and backend. The plain C reference (cpu_<family>.c) is
 * the specification; faster variants (dnnl_<family>.c) are checked against
 * it. */
#ifndef FS_KERNELS_KERNEL_H
#define FS_KERNELS_KERNEL_H

#include "ir/op.h"

/* How a piece lies in memory: row-major, or with its channels (axis 1, a
 * multiple of KERNEL_BLOCK) in blocks whose members lie together, oneDNN's
 * order for convolutions with AVX-512: (N, C / 16, spatial.., 16), as many
 * bytes. */
typedef enum kernel_layout { KERNEL_ROW_MAJOR, KERNEL_BLOCKED } kernel_layout;
enum { KERNEL_BLOCK = 16 };

/* A local piece, contiguous. offset: where it starts in the logical tensor, per
 * axis (what a gather from split rows must know). */
typedef struct kernel_arg {
    void *data;
    ir_dtype dtype;
    ir_shape shape;
    int64_t offset[IR_MAX_RANK];
    kernel_layout layout;
} kernel_arg;

typedef struct kernel_call {
    const ir_node *node; /* attributes */
    const double *f;     /* node->f, or the run's values in its place */
    int32_t n_in, n_out;
    kernel_arg in[IR_MAX_IN], out[IR_MAX_OUT];
    void *scratch;       /* kernel->scratch bytes, 64-byte aligned */
    void *workspace;     /* kernel_workspace bytes, 64-byte aligned */
    int64_t step;        /* 0-based; adam's bias correction */
    int32_t micro_batch; /* accumulate: 0 starts the sum */
    bool alike;          /* equal rows want equal bits, wherever they stand: of
                            the variants of "auto" those are taken that give
                            them */
    /* What who runs it has to do meanwhile; touches nothing of the call. NULL:
     * nothing. */
    void (*rest)(void *ctx);
    void *rest_ctx;
} kernel_call;

/* Between pieces of work of some tens of microseconds, in kernels that take
 * long. */
static inline void kernel_rest(const kernel_call *call)
{
    if (call->rest)
        call->rest(call->rest_ctx);
}

/* UPDATE kernels and `where` may be called with out data == in data;
 * `accumulate` keeps its sum in out between micro-batches; no other kernel may
 * alias. */
typedef struct kernel {
    const char *variant; /* "reference", "dnnl", "packed" */
    /* Is it the best of those that take the call? Asked where no variant is
     * named; NULL: yes. */
    bool (*pays)(const kernel_call *shapes);
    /* Bytes of scratch for a call of these shapes and dtypes (data is NULL);
     * NULL: none. */
    int64_t (*scratch)(const kernel_call *shapes);
    /* Builds what can be kept between calls (a oneDNN primitive); NULL: none.
     * FS_NO: this variant does not do these shapes, take the next one. */
    fs_status (*prepare)(const kernel_call *shapes, fs_err *err, void **state);
    fs_status (*run)(void *state, const kernel_call *call, fs_err *err);
    void (*release)(void *state);
    /* Of a prepared kernel; see kernel_workspace. NULL: none. */
    int64_t (*workspace)(const void *state);
    int64_t (*packing)(const void *state); /* see kernel_packing */
    bool by_place; /* the bits of a row hang on which one it is */
    bool keeps; /* what stands in its outputs before is part of the result */
    bool rests; /* calls kernel_rest often by itself, and would not gain by
                   being cut */
} kernel;

/* Variants of an op, best first, reference last; n_out may be 0 for ops
 * without a kernel (sources, views). */
const kernel *const *kernel_variants(ir_op_kind op, int32_t *n);
/* Those that a call may be given one of, by its name: none where the layouts of
 * its arguments or 16-bit floats leave no choice. Not all may take it. */
const kernel *const *kernel_candidates(const kernel_call *shapes, int32_t *n);
/* The first variant that takes these shapes and whose name is `variant`
 * ("auto": any); 16-bit floats that no variant takes are widened around the one
 * that it names (tiled.h). Fills *state (NULL when it keeps none). FS_INVALID
 * names the op when there is none. */
fs_status kernel_choose(const kernel_call *shapes, const char *variant,
                        fs_err *err, const kernel **out, void **state);
const kernel *kernel_reference(ir_op_kind op);

/* What the kernel that a call would get can do with each of its arguments: only
 * row-major; either layout, whatever the others'; or either, one for all of
 * these. Floats only. */
typedef enum kernel_layouts {
    KERNEL_FIXED,
    KERNEL_EITHER,
    KERNEL_TOGETHER
} kernel_layouts;
typedef struct kernel_layout_use {
    kernel_layouts in[IR_MAX_IN], out[IR_MAX_OUT];
    bool gains; /* those of EITHER are faster blocked */
} kernel_layout_use;
void kernel_layout_uses(const kernel_call *shapes, kernel_layout_use *out);
/* Gives a call's arguments the layouts that they have among convolutions: what
 * its kernel takes blocked is so. */
void kernel_lay_blocked(kernel_call *shapes);
/* Floats of rank 3 to 5 whose channels are whole blocks. */
bool kernel_may_block(const kernel_arg *arg);
/* Bytes that a chosen kernel writes to while it runs, beside the scratch that
 * the plan reserves: how many is known only here, where it is prepared (oneDNN
 * picks its algorithm by the processor). They hold nothing between calls, so
 * that kernels that run one after the other share the room of the largest. */
int64_t kernel_workspace(const kernel *k, const void *state);
/* Bytes at most that a library writes to in blocks that it mallocs itself and
 * frees each time that a chosen kernel runs (packed operands of a product):
 * nobody can hand it a room for them. */
int64_t kernel_packing(const kernel *k, const void *state);

/* Threads of oneDNN's kernels (matmul, convolution); all others run on the
 * caller's thread. OpenMP keeps the number per calling thread, so each thread
 * that prepares kernels says it once; a kernel keeps the number it was prepared
 * under, whichever thread runs it. Without a call it is OpenMP's default
 * (OMP_NUM_THREADS, else every core). */
void kernel_set_threads(int n);
/* "oneDNN 2.7.1" */
const char *kernel_library(void);

/* Bytes of scratch that the chosen variant of a node needs on its largest
 * piece: what lowering reserves. (ir's work gives the reference's need; the
 * plan takes that figure, so no variant may need more.) */

#endif
