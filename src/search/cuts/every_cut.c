/* A configuration that the bound of its own cut rules out may be better when it
 * is cut otherwise. So, when plans are known, bounds whatever the cut
 * (any_cut_s) are raised, the least first, until all are enough or the least of
 * all is as it is: from seconds of nodes, of edges, and what cuts add
 * (crossings.c). They say what other cuts are worth (recut.c). */
#include "config.h"
#include "search/attempt.h"
#include "search/crew.h"
#include "search/effort.h"
#include "search/narrow.h"

#include <math.h>
#include <stdlib.h>

/* Of the work done so far; all of it, where that was less than LITTLE_S. */
#define SHARE 0.05
#define LITTLE_S 0.5
enum { BATCH = 8, FIRST = 2 };
/* Of what is missing, less than this is not worth the work. */
#define LITTLE_GAIN 0.1

static bool is_free(const search_problem *p)
{
    return !p->stage_of && !p->n_layers && !p->stage_mesh;
}

bool search_has_every_cut(const search_problem *p)
{
    return is_free(p) && p->cluster->n_groups == 1;
}

typedef struct open_cut {
    search_candidate *c;
    int32_t place; /* of all */
} open_cut;

static int by_any_cut(const void *a, const void *b)
{
    const open_cut *x = a, *y = b;
    if (x->c->any_cut_s < y->c->any_cut_s || x->c->any_cut_s > y->c->any_cut_s)
        return x->c->any_cut_s < y->c->any_cut_s ? -1 : 1;
    return x->place - y->place;
}

/* Of one for which what is computed again is chosen the same is said. */
static bool is_of_all(const search_candidate *c)
{
    return !c->part && !c->covered;
}

/* What is proven of one stage, which no cut makes other, and of what no more
 * can be said of. */
static double wanted_of(const search_level0 *z)
{
    double wanted = search_enough(z);
    for (int32_t k = 0; k < z->all.n; k++) {
        const search_candidate *c = z->all.at[k];
        if (c->n_stages == 1)
            wanted = fmin(wanted, search_bound(c));
        else if (is_of_all(c) && c->every_cut)
            wanted = fmin(wanted, c->any_cut_s);
    }
    return wanted;
}

static bool is_of_cuts(const search_candidate *c)
{
    return is_of_all(c) && c->n_stages > 1;
}

bool search_every_cut_proven(const search_level0 *z, double enough)
{
    if (!search_has_every_cut(z->problem))
        return false;
    for (int32_t k = 0; k < z->all.n; k++) {
        const search_candidate *c = z->all.at[k];
        if (is_of_cuts(c) && !search_proven(c->any_cut_s, enough))
            return false;
    }
    return true;
}

static int32_t list_open_cuts(const search_level0 *z, double wanted,
                              open_cut *list)
{
    int32_t n = 0;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (is_of_cuts(c) && !c->every_cut &&
            !search_proven(c->any_cut_s, wanted))
            list[n++] = (open_cut){c, k};
    }
    if (n)
        qsort(list, (size_t)n, sizeof *list, by_any_cut);
    return n;
}

/* What shares ruled out before nodes were looked at may have the least bound of
 * all: nodes say more, and soon. */
static void look_at_least(search_level0 *z, double wanted, fs_arena *scratch)
{
    open_cut *list = fs_new(scratch, open_cut, z->all.n);
    search_candidate *few[BATCH];
    int32_t n;
    do {
        const int32_t n_open = list_open_cuts(z, wanted, list);
        n = 0;
        for (int32_t k = 0; k < n_open && n < BATCH; k++) {
            search_candidate *c = list[k].c;
            if (n == 0 && (c->nodes || c->arena))
                break;
            if (!c->nodes && !c->arena)
                few[n++] = c;
        }
        search_crew_run(z, search_look_at_nodes, few, n);
    } while (n > 0 && !search_over(z));
}

/* The first n of the list, a batch at most. */
static void weigh_few(search_level0 *z, const open_cut *list, int32_t n_few,
                      double *wanted)
{
    search_candidate *few[BATCH] = {NULL};
    for (int32_t k = 0; k < n_few; k++)
        few[k] = list[k].c;
    search_say(z, few[0], "however it is cut");
    search_crew_run(z, search_weigh_every_cut, few, n_few);
    for (int32_t k = 0; k < n_few; k++)
        *wanted = fmin(*wanted, few[k]->any_cut_s);
}

/* The least of all rises no further than to the first that the work is not
 * enough for, by what each took so far. The list begins with those that are
 * not raised yet. */
static bool pays(const open_cut *list, int32_t n, double least, double wanted,
                 double each, double left)
{
    const double many = BATCH * ceil(left / each / BATCH);
    const double reached =
        many < n ? fmin(list[(int32_t)many].c->any_cut_s, wanted) : wanted;
    return reached - least > LITTLE_GAIN * (wanted - least);
}

bool search_every_cut_open(const search_level0 *z, double enough)
{
    const search_candidate *least = NULL;
    if (!is_free(z->problem))
        return false;
    for (int32_t k = 0; k < z->all.n; k++) {
        const search_candidate *c = z->all.at[k];
        if (is_of_cuts(c) && (!least || c->any_cut_s < least->any_cut_s))
            least = c;
    }
    const bool raised = least && (least->every_cut ||
                                  !search_has_every_cut(z->problem));
    return raised && !search_proven(least->any_cut_s, enough);
}

/* Nodes of those that the work is enough for; how many are open. */
static int32_t look_at_many(search_level0 *z, double wanted, double many,
                            open_cut *list)
{
    fs_arena *scratch = fs_arena_create();
    search_candidate **few = fs_new(scratch, search_candidate *, z->all.n);
    int32_t n, n_few;
    do {
        n = list_open_cuts(z, wanted, list);
        n_few = 0;
        for (int32_t k = 0; k < n && k < many; k++)
            if (!list[k].c->nodes && !list[k].c->arena)
                few[n_few++] = list[k].c;
        search_crew_run(z, search_look_at_nodes, few, n_few);
    } while (n_few > 0 && !search_over(z));
    fs_arena_destroy(scratch);
    return n;
}

/* By what the first of them took, when nodes tell what others promise. */
static bool may_pay(search_level0 *z, open_cut *list, int32_t n, double *wanted,
                    double most)
{
    const double least = list[0].c->any_cut_s, begun = (double)search_steps(z);
    const int32_t some = n < FIRST ? n : FIRST;
    weigh_few(z, list, some, wanted);
    const double now = (double)search_steps(z);
    const double each = fmax((now - begun) / some, 1);
    n = look_at_many(z, *wanted, fmax(most - now, 0) / each + BATCH, list);
    return n == 0 || pays(list, n, least, *wanted, each, most - now);
}

void search_prove_every_cut(search_level0 *z)
{
    if (!z->kept.from || !search_has_every_cut(z->problem))
        return;
    fs_arena *scratch = fs_arena_create();
    open_cut *list = fs_new(scratch, open_cut, z->all.n);
    const double done = (double)search_steps(z);
    const double most =
        done + fmax(SHARE * done, fmin(done, LITTLE_S * FS_STEPS_PER_S));
    double wanted = wanted_of(z);
    look_at_least(z, wanted, scratch);
    int32_t n = list_open_cuts(z, wanted, list);
    if (n && may_pay(z, list, n, &wanted, most))
        n = list_open_cuts(z, wanted, list);
    else
        n = 0;
    for (int32_t k = 0, some = BATCH;
         k < n && !search_proven(list[k].c->any_cut_s, wanted) &&
         (double)search_steps(z) < most && !search_over(z);
         k += some) {
        some = some < n - k ? some : n - k;
        weigh_few(z, list + k, some, &wanted);
    }
    fs_arena_destroy(scratch);
}
