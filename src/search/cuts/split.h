/* A chain of pieces cut into the stages of a pipeline. Pure mathematics, no
 * graph: internal to this folder. */
#ifndef FS_SEARCH_SPLIT_H
#define FS_SEARCH_SPLIT_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* Places 0 to n lie before, between and behind the pieces. A stage from place i
 * to place j takes each of its devices
 *   (seconds[j] - seconds[i]) / size[group] + in[i] + back[j]
 * seconds, a device what the stages of its group take together. */
typedef struct search_chain {
    int32_t n, n_stages, n_groups;
    const int32_t *group_of;  /* [n_stages] which devices run it */
    const double *size;       /* [n_groups] how many these are */
    const double *seconds;    /* [n + 1] on one device, before each place */
    const double *const *own; /* [n_groups][n + 1] on a group's own, which
                                 differ, for seconds / size: where every group
                                 runs one stage; NULL: they do not */
    const double *in, *back;  /* [stage * (n + 1) + place] of receiving */
    const int64_t *bytes;     /* [n + 1] that cross each place */
    /* Seconds of a step whose stages take so long, NULL: unknown; `times`
     * micro-batches at least of the slowest device. */
    double (*span)(void *ctx, const double *stage_seconds);
    void *ctx;
    int32_t times;
} search_chain;

typedef struct search_split {
    double device, stage; /* seconds of the slowest, */
    double squares;       /* sum of the squares of all stages' */
    int64_t bytes;        /* what crosses all cuts */
    int32_t *begin;       /* [n_stages] places, ascending from 0 */
    bool exact;           /* no other is better */
} search_split;

/* What a cut comes to (begin given, the rest written). */
void search_split_weigh(const search_chain *chain, search_split *split);

/* No stage is empty; n >= n_stages. The slowest device is as fast as can be,
 * of such cuts the slowest stage, times to one part in 1e7: that is for ever
 * many micro-batches. Where the span is known, a slower device with a faster
 * slowest stage (by one part in 50 each) is gone on to, up to the fastest
 * slowest stage of all, and that of least span taken.
 *
 * Where every group runs one stage: a dynamic program over stages and places,
 * n_stages n^2 / 2 steps; of what is equally slow before a place the fewest
 * bytes move. Where groups are not equally fast and the span is known, slower
 * slowest stages (by a tenth each) are gone on to, of which all stages take the
 * least together, and that of least span taken. Else of equally slow cuts the
 * most even (the least squares, which slots of a schedule that wait for each
 * other want), then the one that moves fewest bytes. It is found by bisection
 * on the device's seconds, then on the stage's; for each figure stages are
 * laid one by one, from the front, or from the back when the last stage's
 * group has begun, and what differs only in what lies behind it is one state:
 * (front, back, seconds of each group that has begun and is not done). A V has
 * one such group: at most n^2 states a stage, and few, since what groups may
 * leave over together is the rest of the bound. Round and round there are as
 * many as groups, and of states no bound but a fixed one: beyond it those are
 * kept that leave most room, and `exact` is false. */
void search_split_find(const search_chain *chain, fs_arena *arena,
                       search_split *out);

#endif
