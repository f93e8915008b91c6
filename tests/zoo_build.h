/* Models of the zoo for tests of their graphs. */
#ifndef FS_TESTS_ZOO_BUILD_H
#define FS_TESTS_ZOO_BUILD_H

#include "zoo/zoo.h"

#include "tap.h"

/* NULL, and said why, when it does not build. */
static inline ir_graph *zoo_built(const char *spec, int64_t samples)
{
    fs_err err = {0};
    ir_graph *g = NULL;
    if (zoo_build(spec, samples, &err, &g) != FS_OK)
        printf("# %s: %s\n", spec, err.text);
    return g;
}

static inline int64_t zoo_parameters(const ir_graph *g)
{
    int64_t n = 0;
    for (int32_t i = 0; i < g->tensors.n; i++)
        if (g->tensors.at[i].role == IR_PARAM)
            n += ir_shape_count(&g->tensors.at[i].shape);
    return n;
}

#endif
