/* Cuts at a glance. Where memory decides, an engine that proves takes long for
 * one cut, and its plan need not fit; what greedy finds, or a lean plan where
 * that does not fit, is there for a small part of that. So each cut that is
 * proposed is looked at so before any is closed: what fits is a plan, and what
 * its pieces take tells of other cuts. Those of each configuration in turn, as
 * what is promised of one may be off for all its cuts alike. */
#include "config.h"
#include "search/cuts/recutter.h"

#include "search/anchor.h"
#include "search/attempt.h"
#include "search/crew.h"
#include "search/effort.h"
#include "search/narrow.h"
#include "search/cuts/recut.h"
#include "search/space.h"

#include <math.h>

/* One look takes at most such a part of what all have without a better plan. */
enum { PARTS = 4 };
/* What greedy finds that takes so much more than the best may be better yet. */
#define CLOSE 0.03

enum { AT_ONCE = 2 };

/* An engine's first words on each; tables stay. */
static void ask(search_level0 *z, search_candidate *const *list, int32_t n)
{
    search_candidate *ready[AT_ONCE];
    for (int32_t k = 0; k < n; k++)
        ready[k] = list[k];
    n = search_prepare(z, ready, n);
    for (int32_t k = 0; k < n; k++)
        search_pose_glance(z, ready[k]);
    search_crew_run(z, search_answer_glance, ready, n);
}

/* What it is by the network; INFINITY: it has no plan that may be better. */
static double hear(search_recutter *r, search_candidate *c, bool *fits)
{
    search_level0 *z = r->z;
    *fits = true;
    if (!c->asked)
        return INFINITY;
    const search_solution found = c->asked->solution;
    *fits = search_conclude_glance(z, c);
    if (c->n_stages > 1 && c->depth == 1 && search_is_near(z, found.cost))
        search_propose_by(r, c, search_measured_of(z, c, &found));
    return found.cost;
}

/* Where memory decides: a lean plan of what is near, or does not fit; then what
 * is computed again is chosen, where memory asks for that or it was before. */
static void take_look(search_recutter *r, const search_proposal *p,
                      search_candidate *c)
{
    search_level0 *z = r->z;
    bool fits;
    search_proposal seen = *p;
    const double cost_s = hear(r, c, &fits);
    c->asked = NULL; /* it lies with the tables */
    search_drop_tables(c);
    if (!fits && isfinite(cost_s) && !search_over(z))
        search_anchor_one(z, c);
    else if (cost_s < (1 + CLOSE) * search_best_known(z) && !search_over(z))
        search_anchor_near(z, c);
    if (!fits || p->of->again)
        search_ask_again(z, c);
    z->best_s = search_best_known(z);
    seen.seen = true;
    seen.even = false;
    seen.cost_s = p->even ? cost_s : fmin(cost_s, p->cost_s);
    seen.of = c->again == p->of->again ? p->of : c;
    if (isfinite(cost_s))
        fs_push(r->arena, &r->open, seen);
}

/* One look has such a part of the work. */
static void begin_look(search_recutter *r)
{
    search_end_cuts_at(r, search_steps(r->z) + (int64_t)(r->steps / PARTS));
}

/* First nothing is computed again, which takes half the work. */
static void look_within(search_recutter *r, const search_proposal *p, int32_t n)
{
    search_level0 *z = r->z;
    search_candidate *plain[AT_ONCE] = {NULL};
    for (int32_t k = 0; k < n; k++) {
        plain[k] = search_add_cut(r, &p[k]);
        plain[k]->again = plain[k]->record.again = false;
    }
    begin_look(r);
    ask(z, plain, n);
    search_end_cuts_at(r, r->end);
    for (int32_t k = 0; k < n; k++) {
        const int32_t more = z->all.n;
        begin_look(r);
        take_look(r, &p[k], plain[k]);
        for (int32_t i = more; i < z->all.n && !search_cuts_over(r); i++) {
            begin_look(r);
            ask(z, &z->all.at[i], 1);
            take_look(r, &p[k], z->all.at[i]);
        }
        search_end_cuts_at(r, r->end);
    }
}

/* Where memory has no say: what a look finds says which the engine is to close
 * first. */
static void note_look(search_recutter *r, search_proposal *seen)
{
    search_level0 *z = r->z;
    search_candidate *c = seen->made;
    seen->seen = true;
    seen->cost_s = c->seen_s = c->asked ? c->asked->solution.cost : INFINITY;
    if (isfinite(seen->cost_s)) {
        search_conclude_glance(z, c);
        if (c->n_stages > 1 && c->depth == 1 && search_is_near(z, seen->cost_s))
            search_propose_by(r, c,
                              search_measured_of(z, c, &c->asked->solution));
        fs_push(r->arena, &r->open, *seen);
    }
    search_drop_tables(c);
    z->best_s = search_best_known(z);
}

static void look_beside(search_recutter *r, const search_proposal *p, int32_t n)
{
    search_proposal seen[AT_ONCE];
    search_candidate *list[AT_ONCE] = {NULL};
    for (int32_t k = 0; k < n; k++) {
        seen[k] = p[k];
        list[k] = seen[k].made = search_add_cut(r, &p[k]);
        list[k]->prices = p[k].prices;
    }
    ask(r->z, list, n);
    for (int32_t k = 0; k < n; k++)
        note_look(r, &seen[k]);
}

/* Returns how many were looked at. */
static int32_t look_at_few(search_recutter *r, search_proposal *p)
{
    search_level0 *z = r->z;
    int32_t n = 0;
    while (n < AT_ONCE && search_next_unseen(r, &p[n]))
        n++;
    (z->memory_decides ? look_within : look_beside)(r, p, n);
    return n;
}

void search_glance_at_cuts(search_recutter *r, double steps)
{
    search_level0 *z = r->z;
    const double all = r->steps, usual = r->usual;
    const int64_t end = r->end;
    search_proposal p[AT_ONCE];
    search_begin_cuts(r, steps);
    while (!search_cuts_over(r)) {
        const double best_s = z->best_s;
        const int32_t n = look_at_few(r, p);
        if (n == 0)
            break;
        for (int32_t k = 0; k < n; k++) {
            search_turns *turns = search_turns_of(r, p[k].of);
            turns->n = z->best_s < best_s ? 0 : turns->n + 1;
            if (z->best_s < best_s)
                search_propose_beside(r, &p[k]);
        }
        if (z->best_s < best_s)
            search_begin_cuts(r, steps);
    }
    r->steps = all;
    r->usual = usual;
    r->end = end < search_steps(z) ? search_steps(z) : end;
    search_end_cuts_at(r, r->end);
}

void search_glance_at_all(search_recutter *r, double steps)
{
    search_level0 *z = r->z;
    const int32_t n = z->all.n;
    search_sort(z);
    search_begin_cuts(r, steps);
    for (int32_t k = 0; k < n && !search_cuts_over(r); k++) {
        search_candidate *c = z->all.at[k];
        bool fits;
        if (c->glanced || c->settled || c->covered || c->part ||
            !search_is_near(z, c->record.iteration_s))
            continue;
        search_asked *asked = c->asked; /* an engine, whose answer may count */
        c->glanced = true;
        c->asked = NULL;
        ask(z, &c, 1);
        hear(r, c, &fits);
        c->asked = asked;
        z->best_s = search_best_known(z);
    }
}
