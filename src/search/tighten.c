/* A tight gap is the last act. What is proven for it helps nobody to find
 * better plans, while every better plan, and every cut that one leads to, saves
 * proofs: so all is done at the usual gap first. The tighter one goes on where
 * that ended, so that it never ends with a worse plan. */
#include "config.h"
#include "search/narrow.h"

#include "search/attempt.h"
#include "search/effort.h"
#include "search/cuts/recut.h"

#include <math.h>

/* What is enough to find plans by. */
#define USUAL_GAP 1e-3

double search_first_gap(const search_problem *problem)
{
    return problem->rounds ? problem->gap : fmax(problem->gap, USUAL_GAP);
}

fs_status search_tighten(search_level0 *z, double *gap, fs_err *err)
{
    if (*gap <= z->asked->gap || !z->kept.from || search_over(z))
        return FS_OK;
    const double was_enough_s = search_near(z->kept.cost_s, *gap);
    *gap = z->asked->gap;
    FS_TRY(search_explore_on(z, was_enough_s, err));
    search_drop_useless(z);
    return FS_OK;
}
