/* Random networks of equal layers, with where and how they are to run: cases of
 * tests of folded networks. */
#ifndef FS_TESTS_SEARCH_FOLD_CASE_H
#define FS_TESTS_SEARCH_FOLD_CASE_H

#include "base/arena.h"
#include "base/status.h"
#include "ir/graph.h"

enum { FOLD_MOST_STAGES = 16 };

typedef struct fold_case {
    uint64_t seed;
    const char *model, *cluster, *precision, *recompute, *schedule, *recipe;
    bool clips;
    int64_t samples; /* of a micro-batch */
    int32_t m, stages, axes, interleave;
    ir_mesh mesh;
    double share; /* of the peak: a memory limit; 0: none */
    bool cut;     /* at random, not by time */
} fold_case;

fold_case fold_case_draw(uint64_t seed, fs_arena *arena);
const char *fold_case_text(const fold_case *c, fs_arena *arena);
/* Its training graph. */
fs_status fold_case_build(const fold_case *c, fs_err *err, ir_graph **out);

#endif
