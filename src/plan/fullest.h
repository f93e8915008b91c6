/* What a rank's arena holds when it is fullest, by what it is for. */
#ifndef FS_PLAN_FULLEST_H
#define FS_PLAN_FULLEST_H

#include "plan/plan.h"

/* In the order in which one would ask for them: what persists, what a step
 * leaves, what a micro-batch leaves, what only helps. */
typedef enum plan_term {
    PLAN_TERM_PARAMETERS,
    PLAN_TERM_STATE,
    PLAN_TERM_CONSTANTS,
    PLAN_TERM_GRADIENTS,   /* of parameters, for the step */
    PLAN_TERM_ACTIVATIONS, /* and their gradients */
    PLAN_TERM_COPIES,      /* what boxing and moves made; casts for the step */
    PLAN_TERM_SCRATCH,     /* workspace of kernels and collectives */
    PLAN_TERM_GAPS,        /* what is free then, and held by others later */
    PLAN_TERMS
} plan_term;
/* "optimizer state". */
const char *plan_term_name(plan_term term);

typedef struct plan_fullest {
    int32_t task, micro_batch; /* beside which most is live; -1: nothing shares
                                  bytes, all is there always */
    int64_t bytes[PLAN_TERMS]; /* adds up to the role's arena_bytes */
} plan_fullest;
plan_fullest plan_fullest_of(const ir_graph *graph, const plan *p,
                             int32_t role);
/* What registers that share hold beside each firing of a role's program, slot
 * by slot. */
typedef struct plan_lives {
    int32_t n;           /* firings */
    int64_t *bytes;      /* [n] */
    int32_t *before;     /* [slots] firings before each */
    int32_t *first_task; /* [sections + 1] */
} plan_lives;
plan_lives plan_lives_of(const plan *p, int32_t role, fs_arena *arena);
/* The most of them, however many micro-batches there are. */
int64_t plan_lives_most(const plan *p, int32_t role);
/* "matmul h, backward of micro-batch 1". */
const char *plan_fullest_text(const ir_graph *graph, const plan_role *role,
                              const plan_fullest *fullest, fs_arena *arena);
/* The first term that does not fit, when they are asked for one after the
 * other; PLAN_TERMS: all do. */
plan_term plan_fullest_over(const plan_fullest *fullest, int64_t limit_bytes);

#endif
