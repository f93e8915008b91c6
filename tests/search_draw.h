/* Random small graphs for tests that hold searches against an oracle. */
#ifndef FS_TESTS_SEARCH_DRAW_H
#define FS_TESTS_SEARCH_DRAW_H

#include "ir/build.h"

typedef struct search_draw {
    bool train;            /* with a loss, gradients and updates */
    int32_t most;          /* forward ops that are drawn */
    int64_t rows;          /* samples of a step */
    int32_t micro_batches; /* divides rows; 0: one to four times those rows */
    bool wide;             /* a chain with weights so large that few rows pay
                              for being cut by columns */
} search_draw;

/* Of one draw and seed, graphs for several numbers of micro-batches are of one
 * network. */
ir_graph *search_draw_graph(uint64_t *rng, const search_draw *draw);

ir_shape search_shape2(int64_t rows, int64_t columns);
int32_t search_new_weight(ir_graph *g, int64_t rows, int64_t columns);

#endif
