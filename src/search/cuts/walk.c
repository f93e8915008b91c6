/* Cuts beside the best ones known. What a plan's pieces take says where to cut
 * (propose.c) as long as signatures stay; where they do not, all that it says
 * may be tried and none be better, though what is proven of every cut leaves
 * much open (every_cut.c), or nothing is. Then cuts are walked from, the best
 * one first: a stage's end some places on, or back, alone or with all behind
 * it; best-first, so that where a better one is met the walk goes on from
 * there, and by turns where none is.
 */
#include "config.h"
#include "search/cuts/recutter.h"

#include "search/attempt.h"
#include "search/lay_out.h"
#include "search/cuts/recut.h"

#include <math.h>
#include <string.h>

/* Places that are looked at; cuts that are told of; no end but work's. */
enum { MOST_PLACES = 512, MOST_CUTS = 4000, ANY_NUMBER = 1 << 20 };
/* Of those that were looked at the engine closes so many in a row that are no
 * better. */
enum { FEW = 8 };

/* Whose stages all have their own mesh, or one. */
static bool have_same_meshes(const search_candidate *a,
                             const search_candidate *b)
{
    const ir_mesh *x = a->part ? a->part->mesh : NULL,
                  *y = b->part ? b->part->mesh : NULL;
    if (!x || !y)
        return !x && !y && plan_same_mesh(&a->mesh, &b->mesh);
    bool same = true;
    for (int32_t k = 0; k < a->n_stages; k++)
        same &= plan_same_mesh(&x[k], &y[k]);
    return same;
}

static bool is_same(const search_candidate *a, const search_candidate *b)
{
    return a->graph == b->graph && a->n_stages == b->n_stages &&
           a->depth == b->depth && a->again == b->again &&
           a->order == b->order && a->schedule && b->schedule &&
           strcmp(a->schedule, b->schedule) == 0 && have_same_meshes(a, b);
}

/* Of what is done without a better plan, looks at a glance take so much. */
#define LOOKS 0.5

/* Its plan's seconds, or what they are not below. */
static double seconds_of(const search_candidate *c)
{
    if (isfinite(c->record.iteration_s))
        return c->record.iteration_s;
    return c->seen_s > 0 && isfinite(c->seen_s) ? c->seen_s
                                                : c->record.lower_bound_s;
}

/* May another cut of it be better? Where stages have meshes of their own
 * nothing is proven of others; the first such cut stands for all. */
static bool is_open(const search_level0 *z, const search_candidate *c)
{
    if (c->part)
        return c->part->mesh && c->part->begin && !c->covered && c->depth == 1;
    return !c->covered && c->schedule && c->depth == 1 && c->n_stages > 1 &&
           !search_proven(fmax(c->weighed_s, c->any_cut_s), search_enough(z));
}

/* Configurations of which other cuts may be better. */
typedef struct open_list {
    int32_t n;
    search_candidate **at;
} open_list;

/* The one that it is a cut of; NULL: that is not open. */
static search_candidate *open_one_of(const open_list *open,
                                     const search_candidate *cut)
{
    for (int32_t k = 0; k < open->n; k++)
        if (is_same(open->at[k], cut))
            return open->at[k];
    return NULL;
}

static open_list list_open(const search_level0 *z, fs_arena *arena)
{
    open_list list = {.at = fs_new(arena, search_candidate *, z->all.n)};
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (is_open(z, c) && !(c->part && open_one_of(&list, c)))
            list.at[list.n++] = c;
    }
    return list;
}

/* Of those that were not left yet the best one of a configuration whose cuts
 * were left least often in vain. */
static search_candidate *next_to_leave(const search_level0 *z,
                                       search_candidate **of)
{
    search_candidate *next = NULL;
    fs_arena *scratch = fs_arena_create();
    const open_list open = list_open(z, scratch);
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (c->walked || !isfinite(seconds_of(c)) ||
            (c->part && !c->part->begin))
            continue;
        search_candidate *whose = open_one_of(&open, c);
        if (!whose || (next && (whose->walks > (*of)->walks ||
                                (whose->walks == (*of)->walks &&
                                 seconds_of(c) >= seconds_of(next)))))
            continue;
        next = c;
        *of = whose;
    }
    fs_arena_destroy(scratch);
    return next;
}

/* begin[stages]: as numbers of places. */
static void find_begin(search_level0 *z, const search_candidate *cut,
                       const search_layout *own, const search_places *places,
                       int32_t *begin)
{
    const search_ranks *ranks = search_ranks_of(z, own->graph);
    for (int32_t k = 0, r = 0; k < cut->n_stages; k++) {
        while (!cut->part && r < ranks->n && own->stage_of[ranks->order[r]] < k)
            r++;
        const int32_t at = cut->part ? cut->part->begin[k] : r;
        begin[k] = 0;
        while (begin[k] + 1 < places->n && places->at[begin[k] + 1] <= at)
            begin[k]++;
    }
}

/* The ends of stages `first` to `last` of them move by so many places. */
static void propose(search_recutter *r, search_candidate *of,
                    const search_candidate *cut, const search_places *places,
                    const int32_t *from, int32_t first, int32_t last,
                    int32_t by)
{
    const int32_t p = of->n_stages;
    int32_t *begin = fs_memdup(r->arena, from, (size_t)p * sizeof *begin);
    for (int32_t k = first; k <= last; k++)
        begin[k] += by;
    for (int32_t k = 1; k < p; k++)
        if (begin[k] <= begin[k - 1] || begin[k] >= places->n)
            return;
    for (int32_t k = 0; k < p; k++)
        begin[k] = places->at[begin[k]];
    const search_proposal one = {.of = of,
                                 .mesh = of->part ? of->part->mesh : NULL,
                                 .begin = begin,
                                 .cost_s = r->z->best_s,
                                 .slack = SEARCH_NEAR,
                                 .prices = cut->measured ? cut->measured->prices
                                                         : NULL};
    if (search_is_untried_cut(r, of, one.mesh, begin))
        fs_push(r->arena, &r->open, one);
}

static void propose_beside(search_recutter *r, search_candidate *of,
                           const search_candidate *cut)
{
    search_candidate anew;
    search_places places;
    if (search_lay_out_anew(r->z, of, &anew)) {
        search_find_places(r->z->problem, &anew.layout, MOST_PLACES, anew.arena,
                           &places);
        const int32_t last = of->n_stages - 1;
        int32_t *from = fs_new(anew.arena, int32_t, of->n_stages);
        find_begin(r->z, cut, &anew.layout, &places, from);
        for (int32_t by = 1; by < places.n; by *= 2)
            for (int32_t k = 1; k <= last; k++)
                for (int32_t sign = -1; sign <= 1; sign += 2) {
                    propose(r, of, cut, &places, from, k, k, sign * by);
                    propose(r, of, cut, &places, from, k, last, sign * by);
                }
    }
    fs_arena_destroy(anew.arena);
}

/* Of its cuts from number `from` on. */
static double best_of(const search_level0 *z, const search_candidate *of,
                      int32_t from)
{
    double best_s = INFINITY;
    for (int32_t k = from; k < z->all.n; k++) {
        const search_candidate *c = z->all.at[k];
        if (is_same(of, c))
            best_s = fmin(best_s, seconds_of(c));
    }
    return best_s;
}

/* Engines that prove take long for each; where memory decides all are looked at
 * in any case. */
static bool wants_looks(const search_level0 *z)
{
    return !z->memory_decides && z->engine == search_ilp &&
           !(z->problem->without & SEARCH_GLANCES);
}

fs_status search_walk_cuts(search_recutter *r, fs_err *err)
{
    search_candidate *cut, *of = NULL;
    const int32_t most = r->z->all.n + MOST_CUTS;
    const bool looks = wants_looks(r->z);
    r->walks = true;
    while (!search_cuts_over(r) && r->z->all.n < most &&
           (cut = next_to_leave(r->z, &of))) {
        const double best_s = r->z->best_s;
        const int32_t n = r->z->all.n;
        cut->walked = true;
        r->open.n = 0;
        propose_beside(r, of, cut);
        if (looks) {
            search_glance_at_cuts(r, r->steps * LOOKS);
            if (r->z->best_s < best_s)
                search_begin_cuts(r, r->usual);
        }
        FS_TRY(search_try_proposals(r, looks ? FEW : ANY_NUMBER, err));
        const double walked_s = best_of(r->z, of, n);
        if (r->z->best_s < best_s)
            of->walks = 0;
        else if (of->walked_s > 0 && walked_s >= of->walked_s)
            of->walks++;
        of->walked_s =
            of->walked_s > 0 ? fmin(of->walked_s, walked_s) : walked_s;
    }
    r->walks = false;
    return FS_OK;
}
