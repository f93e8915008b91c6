/* A tight gap is the last act. What is proven for it helps nobody to find
 * better plans, while every better plan, and every cut that one leads to, saves
 * proofs: so all is done at the usual gap first, then at ever tighter ones.
 * Each goes on where the one before it ended, so that a tighter gap never ends
 * with a worse plan than a looser one of the series had. */
#include "config.h"
#include "search/narrow.h"

#include "search/attempt.h"
#include "search/effort.h"
#include "search/recut.h"

#include <math.h>

/* Of which the gaps of a search are powers of ten, but for the last one; below
 * what rounding leaves there are none. */
#define USUAL_GAP 1e-3
#define ROUNDING 1e-9

double search_first_gap(const search_problem *problem)
{
    return problem->rounds ? problem->gap : fmax(problem->gap, USUAL_GAP);
}

static double next_gap(double gap, double asked)
{
    const double next = 0.1 * gap;
    return next < ROUNDING || next < asked * 1.5 ? asked : next;
}

fs_status search_tighten(search_level0 *z, double *gap, fs_err *err)
{
    while (*gap > z->asked->gap && z->kept.from && !search_over(z)) {
        const double was_enough_s = search_near(z->kept.cost_s, *gap);
        *gap = next_gap(*gap, z->asked->gap);
        FS_TRY(search_explore_on(z, was_enough_s, err));
        search_drop_useless(z);
    }
    return FS_OK;
}
