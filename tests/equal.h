/* Any plan equals one device: cases of exec_equal_test. A case says all that is
 * drawn, so that a failing one can be made smaller field by field; whatever
 * hangs on its seed hangs on the seed and the name or number of one part alone,
 * so that other parts stay as they are meanwhile. */
#ifndef FS_TESTS_EQUAL_H
#define FS_TESTS_EQUAL_H

#include "exec/exec.h"
#include "ir/train.h"

#include <stdio.h>

enum { EQUAL_STAGES = 4, EQUAL_STEPS = 3, EQUAL_OPS = 24 };

typedef struct equal_case {
    uint64_t seed;
    /* the network */
    const char *model; /* of the zoo; NULL: random ops .. */
    bool each;         /* .. side by side, any of the table */
    int32_t n_ops;
    uint64_t left_out; /* of the random ops, a bit each */
    int32_t samples;   /* of a micro-batch */
    bool batch_norms;  /* many: the last ones see a pixel of each sample */
    bool wide;         /* in F64 */
    ir_dtype narrow;   /* F32, or what mixed precision computes in */
    bool rewritten, chained;
    /* its training */
    int32_t micro_batches;
    ir_optimizer optimizer;
    bool narrow_states; /* of the optimizer, in bf16 */
    bool clipped;
    const char *recompute; /* a policy, or equal_any_set; NULL: none */
    ir_compress compress;  /* of gradients, as far as any plan sends the same */
    /* its plan */
    int32_t ranks, n_stages; /* on devices of their own */
    ir_mesh mesh[EQUAL_STAGES];
    const char *schedule;
    int32_t chunks; /* stages on each of those devices */
    bool overlap, unshared;
    int64_t bucket_bytes; /* plan_lower_options */
    bool anew;            /* boxed copies may be freed and made again */
    int32_t wild; /* percent of the nodes whose signature is any legal one */
    const bool *plain; /* [nodes] these have all B; NULL: none */
    bool planted;      /* a wrong result on purpose: see equal_run.c */
} equal_case;

typedef enum equal_end {
    EQUAL_SAME,
    EQUAL_DIFFERS,
    EQUAL_NO_GRAPH,  /* the network cannot be built */
    EQUAL_REFUSED,   /* by plan_lower, plan_check or the boxer */
    EQUAL_FAULT,     /* of the runtime, or a signal */
    EQUAL_NO_NUMBER, /* one device's losses are not finite */
    EQUAL_SHAKY,     /* differs, but as much as one device does from itself when
                        its first weights change in their last digits */
    EQUAL_ENDS
} equal_end;

/* Recomputes a set of nodes, each drawn by its name. */
extern const char equal_any_set[];

/* What a case had in it, to be counted. */
#define EQUAL_FEATURES(X)                                                      \
    X(random_ops, "random op graphs")                                          \
    X(each, "any ops of the table side by side")                               \
    X(zoo, "models of the zoo")                                                \
    X(wide, "fp64")                                                            \
    X(narrow, "mixed precision")                                               \
    X(axes_2, "meshes of 2 axes")                                              \
    X(axes_3, "meshes of 3 axes")                                              \
    X(odd, "mesh axes of 3, 5 or 7")                                           \
    X(stages, "several stages")                                                \
    X(unlike, "stages of different meshes")                                    \
    X(micro_batches, "several micro-batches")                                  \
    X(chunks, "several stages on one device")                                  \
    X(recompute, "recomputation")                                              \
    X(any_set, "any set of nodes recomputed")                                  \
    X(bound, "copies that other stages alone would read")                      \
    X(compress, "compressed gradients")                                        \
    X(overlap, "overlap")                                                      \
    X(buckets, "collectives in buckets")                                       \
    X(adaptive, "Adam, AdamW, LAMB or Adagrad")                                \
    X(momentum, "momentum")                                                    \
    X(narrow_states, "optimizer states in bf16")                               \
    X(clipped, "clipping")                                                     \
    X(dropout, "dropout")                                                      \
    X(batch_norm, "batch norm")                                                \
    X(attention, "attention")                                                  \
    X(conv, "convolution")                                                     \
    X(experts, "experts")                                                      \
    X(quotient, "a loss with a divisor")                                       \
    X(chained, "chains")                                                       \
    X(uneven, "uneven pieces")                                                 \
    X(halo, "halos")                                                           \
    X(partial, "partial values")                                               \
    X(max_min, "P(max) or P(min)")                                             \
    X(cut_state, "cut optimizer states")                                       \
    X(cut_param, "cut parameters")                                             \
    X(anew, "boxed copies made anew")                                          \
    X(loops, "next values boxed back")                                         \
    X(tied, "tensors that skip stages")

typedef enum equal_feature {
#define X(id, text) EQUAL_HAS_##id,
    EQUAL_FEATURES(X)
#undef X
#define PLAN_SCHEDULE(id, ...) EQUAL_HAS_schedule_##id,
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
        EQUAL_FEATURE_COUNT
} equal_feature;

typedef struct equal_verdict {
    equal_end end;
    double loss_error, weight_error; /* relative, the worst */
    int32_t n_nodes, n_wild;         /* not all B */
    uint64_t features;               /* a bit each */
    char text[600];                  /* what was found */
} equal_verdict;

/* ---- equal_graphs.c ---- */
/* The forward network for so many samples; the caller's to destroy. */
ir_graph *equal_forward(const equal_case *c, int32_t samples, fs_err *err);
/* Its training step. */
ir_graph *equal_graph(const equal_case *c, fs_err *err, uint64_t *features);
/* Appends random ops and a loss. (equal_ops.c, equal_each.c) */
void equal_draw_ops(const equal_case *c, int32_t samples, ir_graph *g);
void equal_draw_each(const equal_case *c, int32_t samples, ir_graph *g);

/* ---- equal_strategies.c ---- */
/* And the graph as its stages have it (ir_recompute_bind), in the arena. NULL:
 * some edge has no path; err names it. */
plan_strategy *equal_strategy(const equal_case *c, const ir_graph *g,
                              fs_arena *arena, fs_err *err, ir_graph **bound);
/* On one device. */
plan_strategy *equal_alone(const ir_graph *g, fs_arena *arena);

/* ---- equal_run.c ---- */
/* On threads when `world` is NULL, else on its ranks, which all call it. */
void equal_try(const equal_case *c, exec_world *world, equal_verdict *out);
/* In a child process, so that a fault is a verdict. */
void equal_try_apart(const equal_case *c, equal_verdict *out);

/* ---- equal_cases.c ---- */
/* Case `number` % EQUAL_RANKS_AT; the rest of it are the ranks, 0: drawn too.
 */
enum { EQUAL_RANKS_AT = 1000000 };
equal_case equal_draw(uint64_t number);
void equal_print(const equal_case *c, const equal_verdict *v, FILE *to);
/* The nodes that do not have all B. */
void equal_describe(const equal_case *c, FILE *to);

/* ---- equal_shrink.c ---- */
/* A smaller case with the same end, by at most `budget` runs; `arena` holds
 * what it points to. */
equal_case equal_shrink(const equal_case *c, const equal_verdict *v,
                        int32_t budget, fs_arena *arena);

#endif
