/* What random ops of exec_equal_test share. */
#ifndef FS_TESTS_EQUAL_OPS_H
#define FS_TESTS_EQUAL_OPS_H

#include "equal.h"

/* A network in the making; what is live has at least two axes. */
typedef struct weaving {
    ir_graph *g;
    uint64_t seed; /* of the op at hand */
    int32_t samples, op;
    FS_VEC(int32_t) live;
    FS_VEC(bool) used; /* of live ones */
} weaving;

static inline int64_t below(weaving *w, int64_t n)
{
    return fs_rand_below(&w->seed, n);
}

static inline ir_shape shape_of(const weaving *w, int32_t t)
{
    return w->g->tensors.at[t].shape;
}

static inline ir_shape vector(int64_t n)
{
    return ir_shape_make(1, &n);
}

/* A random axis that is not the samples'. */
static inline int32_t inner_axis(weaving *w, int32_t x)
{
    return 1 + (int32_t)below(w, shape_of(w, x).rank - 1);
}

/* Appends what reads x; -1: it does not fit x. Tables end with NULL. */
typedef int32_t equal_add_fn(weaving *w, int32_t x);
extern equal_add_fn *const equal_ops_move[];
int32_t equal_add_unary(weaving *w, int32_t x);

#endif
