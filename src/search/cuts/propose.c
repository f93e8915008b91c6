/* Which cuts promise something: by what the pieces of a plan take, signatures,
 * boxing and what memory made dearer included, the best ones are dealt out
 * (deal.c). */
#include "config.h"
#include "search/cuts/recutter.h"

#include "search/attempt.h"
#include "search/built.h"
#include "search/cuts/cut.h"
#include "search/cuts/deal.h"
#include "search/effort.h"
#include "search/lay_out.h"
#include "search/cuts/recut.h"

#include <math.h>
#include <string.h>

/* What a cut is said to take may be off by so much of it; and what is looked at
 * while little work was done. */
#define SLACK 0.02
#define LOOSE 0.15
/* Cuts told of a configuration at a time, and of one without a plan; steps of
 * finding cuts. */
enum { DEALS = 16, FEW_DEALS = 2, DEAL_WORK = 1 << 22 };

/* ---- cuts by that ---- */

bool search_lay_out_anew(search_level0 *z, const search_candidate *c,
                         search_candidate *anew)
{
    fs_err ignored = {0};
    *anew = search_anew(c);
    anew->whole = true;
    return search_lay_out_cut(z, anew, &ignored) == FS_OK;
}

/* Sums of what each stage would take, had it the pieces before a place. */
static double *sums_of(const search_layout *layout, const search_measured *m,
                       const search_places *places, const double *seconds,
                       const double *speed, fs_arena *arena)
{
    const int32_t row = places->n + 1;
    double *sums = fs_new(arena, double, (size_t)layout->n_stages *(size_t)row);
    for (int32_t k = 0; k < layout->n_stages; k++) {
        double sum = 0;
        for (int32_t j = 0, r = 0; j <= places->n; j++) {
            for (; r < places->at[j]; r++)
                sum += seconds[r] * speed[m->stage[r]] / speed[k];
            sums[k * row + j] = sum;
        }
    }
    return sums;
}

/* Is it none of these? Then it is from now on. By all that tells a cut from
 * others. */
static bool is_new(search_recutter *r, search_memo *cuts,
                   const search_candidate *c, const ir_mesh *each,
                   const int32_t *begin)
{
    FS_VEC(int32_t) key = {0};
    fs_push(r->arena, &key, c->record.micro_batches);
    fs_push(r->arena, &key, c->n_stages);
    fs_push(r->arena, &key, c->again);
    fs_push(r->arena, &key, c->order ? c->order->number : 0);
    fs_push(r->arena, &key, (int32_t)fs_hash_text(0, c->schedule));
    for (int32_t k = 0; k < c->n_stages; k++) {
        const ir_mesh *mesh = each ? &each[k] : &c->mesh;
        for (int32_t a = 0; a < mesh->n; a++)
            fs_push(r->arena, &key, mesh->dim[a]);
        fs_push(r->arena, &key, -begin[k]);
    }
    int32_t *at = search_memo_at(cuts, key.at, (size_t)key.n * sizeof *key.at);
    const bool is = *at < 0;
    *at = 1;
    return is;
}

bool search_is_new_cut(search_recutter *r, const search_candidate *c,
                       const ir_mesh *each, const int32_t *begin)
{
    return is_new(r, &r->met, c, each, begin);
}

bool search_is_untried_cut(search_recutter *r, const search_candidate *c,
                           const ir_mesh *each, const int32_t *begin)
{
    return is_new(r, &r->tried, c, each, begin);
}

/* Where its own stages begin, as places; false: not at places. */
static bool own_begin(const search_measured *m, const search_places *places,
                      int32_t *begin)
{
    for (int32_t j = 0, k = 0, r = 0; j < places->n; j++) {
        r = places->at[j];
        if (m->stage[r] == k && (r == 0 || m->stage[r - 1] < k))
            begin[k++] = j;
        if (j + 1 == places->n)
            return k == m->stage[m->ranks->n - 1] + 1;
    }
    return false;
}

/* Beside the best cut, one stage a place longer and the next one shorter: what
 * is said of them may be off, since signatures change where a stage ends. */
static void propose_moves(search_recutter *r, const search_proposal *own,
                          int32_t n, const search_deal_chain *chain,
                          const int32_t *at)
{
    const int32_t p = own->of->n_stages;
    for (int32_t i = 2; i < 2 * p; i++) {
        const int32_t k = i / 2, end = k + 1 < p ? own->begin[k + 1] : n;
        int32_t *begin =
            fs_memdup(r->arena, own->begin, (size_t)p * sizeof *begin);
        begin[k] += i % 2 ? 1 : -1;
        if (begin[k] <= begin[k - 1] || begin[k] >= end)
            continue;
        search_proposal move = *own;
        move.cost_s *= search_deal_cost(chain, begin);
        move.begin = begin;
        for (int32_t j = 0; j < p; j++)
            begin[j] = at[begin[j]];
        if (search_is_new_cut(r, own->of, own->mesh, begin))
            fs_push(r->arena, &r->open, move);
    }
}

/* The cuts that come to least by what was measured; its own is none. What its
 * own plan takes, by the same sums, says how far these are off. */
static void propose(search_recutter *r, search_candidate *c,
                    const search_measured *m, const search_places *places,
                    const search_deal_chain *chain)
{
    search_deal deals[DEALS];
    double scale = 1;
    const ir_mesh *mesh = c->part ? c->part->mesh : NULL;
    if (m->cost_s > 0) {
        int32_t *own = fs_new(r->arena, int32_t, c->n_stages);
        if (!own_begin(m, places, own))
            return;
        scale = m->cost_s / search_deal_cost(chain, own);
        if (m->cost_s <= r->z->best_s)
            propose_moves(r,
                          &(search_proposal){.of = c,
                                             .mesh = mesh,
                                             .begin = own,
                                             .cost_s = scale,
                                             .slack = SEARCH_NEAR,
                                             .prices = m->prices},
                          places->n, chain, places->at);
        for (int32_t k = 0; k < c->n_stages; k++)
            own[k] = places->at[own[k]];
        search_is_new_cut(r, c, mesh, own);
    }
    const int32_t n = search_deal_best(chain, m->cost_s > 0 ? DEALS : FEW_DEALS,
                                       r->arena, &r->z->other_steps, deals);
    for (int32_t i = 0; i < n; i++) {
        search_proposal p = {.of = c,
                             .mesh = mesh,
                             .begin = deals[i].begin,
                             .cost_s = scale * deals[i].cost,
                             .even = m->cost_s <= 0,
                             .prices = m->prices};
        for (int32_t k = 0; k < c->n_stages; k++)
            p.begin[k] = places->at[p.begin[k]];
        if (search_is_new_cut(r, c, mesh, p.begin))
            fs_push(r->arena, &r->open, p);
    }
}

void search_propose_by(search_recutter *r, search_candidate *c,
                       const search_measured *m)
{
    search_candidate anew;
    search_places places;
    if (!c->schedule) /* not told apart by it yet */
        return;
    if (search_lay_out_anew(r->z, c, &anew)) {
        const search_layout *layout = &anew.layout;
        const int32_t most =
            (int32_t)sqrt(2.0 * DEAL_WORK / (DEALS * c->n_stages));
        search_find_places(r->z->problem, layout, most, anew.arena, &places);
        const double *speed =
            search_find_speeds(r->z->problem, layout, anew.arena);
        const search_deal_chain chain = {
            .n = places.n,
            .n_stages = c->n_stages,
            .micro_batches = c->record.micro_batches,
            .fill = layout->fill,
            .micro = sums_of(layout, m, &places, m->micro_s, speed, anew.arena),
            .step = sums_of(layout, m, &places, m->step_s, speed, anew.arena),
            .in = places.in,
            .back = places.back};
        propose(r, c, m, &places, &chain);
    }
    fs_arena_destroy(anew.arena);
}

bool search_is_near(const search_level0 *z, double cost_s)
{
    return cost_s <= (1 + SEARCH_NEAR) * z->best_s;
}

void search_propose_for(search_recutter *r, search_candidate *c)
{
    if (!c->schedule || !c->measured || c->measured->proposed ||
        !search_is_near(r->z, c->measured->cost_s))
        return;
    c->measured->proposed = true;
    search_propose_by(r, c, c->measured);
}

/* Where a cut makes the best plan it mostly does so on other meshes of as many
 * stages: these take about as much, unless it is known better. */
void search_propose_beside(search_recutter *r, const search_proposal *p)
{
    const search_level0 *z = r->z;
    for (int32_t k = 0; k < z->all.n && !p->mesh; k++) {
        search_candidate *c = z->all.at[k];
        if (c->part || c->covered || c->graph != p->of->graph ||
            c->n_stages != p->of->n_stages || c->again != p->of->again ||
            !c->schedule || strcmp(c->schedule, p->of->schedule) != 0 ||
            !search_is_new_cut(r, c, NULL, p->begin))
            continue;
        const search_proposal beside = {
            .of = c,
            .begin = fs_memdup(r->arena, p->begin,
                               (size_t)c->n_stages * sizeof *p->begin),
            .cost_s = z->best_s,
            .prices = p->made && p->made->measured ? p->made->measured->prices
                                                   : NULL};
        fs_push(r->arena, &r->open, beside);
    }
}

/* ---- which is next ---- */

/* May it be better, if what it promises is off by so much? */
static bool may_win(const search_recutter *r, const search_proposal *p,
                    double slack)
{
    const double enough_s = search_enough(r->z),
                 off = p->even ? 0 : fmax(p->slack, slack);
    return p->cost_s < (1 + off) * enough_s &&
           !search_proven(fmax(p->of->weighed_s, p->of->any_cut_s), enough_s);
}

static void take_out(search_recutter *r, int32_t k, search_proposal *out)
{
    *out = r->open.at[k];
    r->open.at[k] = r->open.at[--r->open.n];
}

int32_t search_next_proposal(const search_recutter *r, bool all)
{
    const double slack = search_steps(r->z) < r->loose ? LOOSE : SLACK;
    int32_t best = -1;
    for (int32_t k = 0; k < r->open.n; k++)
        if ((all || !r->open.at[k].made) && may_win(r, &r->open.at[k], slack) &&
            (best < 0 || r->open.at[k].cost_s < r->open.at[best].cost_s))
            best = k;
    return best;
}

search_turns *search_turns_of(search_recutter *r, const search_candidate *c)
{
    for (int32_t k = 0; k < r->turns.n; k++) {
        search_turns *t = &r->turns.at[k];
        if (t->graph == c->graph && t->n_stages == c->n_stages &&
            t->again == c->again && plan_same_mesh(&t->mesh, &c->mesh))
            return t;
    }
    fs_push(r->arena, &r->turns,
            (search_turns){c->graph, c->n_stages, c->again, c->mesh, 0});
    return &r->turns.at[r->turns.n - 1];
}

bool search_next_unseen(search_recutter *r, search_proposal *out)
{
    int32_t best = -1, fewest = 0;
    for (int32_t k = 0; k < r->open.n; k++) {
        const search_proposal *p = &r->open.at[k];
        if (p->seen || !may_win(r, p, LOOSE))
            continue;
        const int32_t n = search_turns_of(r, p->of)->n;
        if (best < 0 || n < fewest ||
            (n == fewest && p->cost_s < r->open.at[best].cost_s)) {
            best = k;
            fewest = n;
        }
    }
    if (best >= 0)
        take_out(r, best, out);
    return best >= 0;
}
