/* Stages cut again. The cut of a configuration balances seconds on one device,
 * since nothing else is known before its network is solved. Afterwards it is:
 * what each piece takes with the signatures that were chosen, boxing included,
 * with what memory made dearer. The best cuts by that (deal.c) become
 * configurations of their own, which engines solve like all others; what they
 * turn out to take is what the next ones are found by. */
#include "config.h"
#include "search/recut.h"

#include "search/attempt.h"
#include "search/built.h"
#include "search/cut.h"
#include "search/deal.h"
#include "search/effort.h"
#include "search/lay_out.h"
#include "search/memo.h"
#include "search/narrow.h"
#include "search/offers.h"
#include "search/runs.h"
#include "search/space.h"

#include <math.h>
#include <string.h>

/* Of the work done so far, cuts may take so much more, and some where that was
 * little. */
#define MORE_WORK 0.1
#define LEAST_WORK_S 0.25
/* Who asks for less of a gap than is usual wants the best plan there is: as
 * much again, since of other cuts nothing is proven. */
#define BEST_WORK 1
/* The same for stages of different meshes where devices are of several kinds:
 * there equal ones are rarely best. */
#define MIXED_WORK 1
#define LEAST_MIXED_S 2
/* Of the limits on work and time, what is left for them at least. */
#define RESERVE 0.1
/* What a cut is said to take may be off by so much of it; and what is looked at
 * while little work was done. */
#define SLACK 0.02
#define LOOSE 0.15
/* Cuts told of a configuration at a time, and of one without a plan; without a
 * better plan in so many attempts in a row there is an end, or in more where
 * these take less of the work than 1 / TRIES each and nothing else waits; steps
 * of finding cuts. */
enum {
    DEALS = 16,
    FEW_DEALS = 2,
    IN_A_ROW = 8,
    TRIES = 40,
    AT_ONCE = 2,
    DEAL_WORK = 1 << 22
};

bool search_wants_cuts(const search_level0 *z)
{
    const search_problem *p = z->problem;
    return p->recut && !(p->without & SEARCH_CUTS) && !p->rounds &&
           !p->stage_of && !p->n_layers;
}

/* ---- cuts by that ---- */

typedef struct proposal {
    const search_candidate *of;
    const ir_mesh *mesh; /* [its stages]; NULL: all have its own */
    int32_t *begin;      /* [its stages] ranks */
    double cost_s;
    double slack; /* what is promised may be off by so much; 0: as any */
    bool even;    /* it is a relaxation: of no plan */
} proposal;

typedef struct search_recutter {
    search_level0 *z;
    fs_arena *arena;
    search_memo met; /* cuts */
    FS_VEC(proposal) open;
    int64_t most_steps; /* of the search */
    double usual;       /* without a better plan, of what is done at the */
    double steps;       /* time: of it what is left to */
    int64_t begun, end; /* what is tried now; its end; */
    double idle;        /* done so far without a better plan */
    int64_t loose;      /* so far it was little */
} recutter;

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

/* A key of all that tells a cut from others. */
static bool is_new(recutter *r, const search_candidate *c, const ir_mesh *each,
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
    int32_t *at =
        search_memo_at(&r->met, key.at, (size_t)key.n * sizeof *key.at);
    const bool is = *at < 0;
    *at = 1;
    return is;
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
static void propose_moves(recutter *r, const proposal *own, int32_t n,
                          const search_deal_chain *chain, const int32_t *at)
{
    const int32_t p = own->of->n_stages;
    for (int32_t i = 2; i < 2 * p; i++) {
        const int32_t k = i / 2, end = k + 1 < p ? own->begin[k + 1] : n;
        int32_t *begin =
            fs_memdup(r->arena, own->begin, (size_t)p * sizeof *begin);
        begin[k] += i % 2 ? 1 : -1;
        if (begin[k] <= begin[k - 1] || begin[k] >= end)
            continue;
        proposal move = *own;
        move.cost_s *= search_deal_cost(chain, begin);
        move.begin = begin;
        for (int32_t j = 0; j < p; j++)
            begin[j] = at[begin[j]];
        if (is_new(r, own->of, own->mesh, begin))
            fs_push(r->arena, &r->open, move);
    }
}

/* The cuts that come to least by what was measured; its own is none. What its
 * own plan takes, by the same sums, says how far these are off. */
static void propose(recutter *r, search_candidate *c, const search_measured *m,
                    const search_places *places, const search_deal_chain *chain)
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
            propose_moves(
                r, &(proposal){c, mesh, own, scale, SEARCH_RECUT_NEAR, false},
                places->n, chain, places->at);
        for (int32_t k = 0; k < c->n_stages; k++)
            own[k] = places->at[own[k]];
        is_new(r, c, mesh, own);
    }
    const int32_t n = search_deal_best(chain, m->cost_s > 0 ? DEALS : FEW_DEALS,
                                       r->arena, &r->z->other_steps, deals);
    for (int32_t i = 0; i < n; i++) {
        proposal p = {.of = c,
                      .mesh = mesh,
                      .begin = deals[i].begin,
                      .cost_s = scale * deals[i].cost,
                      .even = m->cost_s <= 0};
        for (int32_t k = 0; k < c->n_stages; k++)
            p.begin[k] = places->at[p.begin[k]];
        if (is_new(r, c, mesh, p.begin))
            fs_push(r->arena, &r->open, p);
    }
}

static void propose_by(recutter *r, search_candidate *c,
                       const search_measured *m)
{
    search_candidate anew;
    search_places places;
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

static bool is_near(const search_level0 *z, const search_candidate *c)
{
    return c->measured &&
           c->measured->cost_s <= (1 + SEARCH_RECUT_NEAR) * z->best_s;
}

static void propose_for(recutter *r, search_candidate *c)
{
    if (is_near(r->z, c))
        propose_by(r, c, c->measured);
}

/* ---- attempts ---- */

static bool over(const recutter *r)
{
    return search_over(r->z) || search_steps(r->z) >= r->end;
}

/* The one that promises most, if that is enough; it is no proposal any more. */
static bool next_proposal(recutter *r, proposal *out)
{
    const double enough_s = search_enough(r->z),
                 slack = search_steps(r->z) < r->loose ? LOOSE : SLACK;
    int32_t best = -1;
    for (int32_t k = 0; k < r->open.n; k++) {
        const proposal *p = &r->open.at[k];
        const double off = p->even ? 0 : fmax(p->slack, slack);
        if (p->cost_s < (1 + off) * enough_s &&
            !search_proven(p->of->weighed_s, enough_s) &&
            (best < 0 || p->cost_s < r->open.at[best].cost_s))
            best = k;
    }
    if (best < 0)
        return false;
    *out = r->open.at[best];
    r->open.at[best] = r->open.at[--r->open.n];
    return true;
}

/* Closed; or the best plan is of this cut. */
static bool is_of_use(const search_level0 *z, const search_candidate *c)
{
    return (z->kept.from && z->kept.from->part == c->part) ||
           (!c->covered && search_proven(search_bound(c), search_enough(z)));
}

/* Other cuts that are of no use are as if they had not been. */
void search_drop_useless(search_level0 *z)
{
    int32_t kept = 0;
    z->n_recuts = 0;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (!c->part || is_of_use(z, c)) {
            z->n_recuts += c->part != NULL;
            z->all.at[kept++] = c;
            continue;
        }
        search_withdraw(z, c);
        z->other_steps += c->steps;
        search_forget_met(c);
        fs_arena_destroy(c->arena);
        c->arena = NULL;
    }
    z->all.n = kept;
}

static double best_known(const search_level0 *z)
{
    return z->kept.from ? z->kept.cost_s : search_wanted(z->problem);
}

/* No more steps than these. */
static void end_at(recutter *r, int64_t steps)
{
    search_level0 *z = r->z;
    z->most_steps = z->round_steps = steps < r->end ? steps : r->end;
}

/* Of those that are tried together, which are to have the effort of a pass. */
static int32_t list_open(const search_level0 *z, search_candidate *const *list,
                         int32_t n, int32_t pass, search_candidate **open)
{
    int32_t n_open = 0;
    for (int32_t k = 0; k < n; k++) {
        search_candidate *c = list[k];
        if (!c->settled && (pass <= 1 || z->best == c) &&
            !search_proven(c->record.lower_bound_s, search_enough(z)))
            open[n_open++] = c;
    }
    return n_open;
}

/* With growing effort, while it is the best or may be. Where memory decides no
 * cut has the work of all: to close one finds no better ones. */
static fs_status attempt(recutter *r, search_candidate **list, int32_t n,
                         fs_err *err)
{
    enum { PASSES = 4 };
    search_level0 *z = r->z;
    search_candidate *open[AT_ONCE];
    if (z->memory_decides)
        end_at(r, search_steps(z) + (int64_t)(r->usual / IN_A_ROW));
    for (int32_t pass = 0; pass < PASSES && !search_over(z); pass++) {
        const int32_t n_open = list_open(z, list, n, pass, open);
        if (n_open == 0)
            break;
        FS_TRY(search_solve_few(z, open, n_open, pass, err));
    }
    end_at(r, r->end);
    for (int32_t k = 0; k < n; k++)
        if (z->best == list[k] && !search_keep_fitting(z) && !over(r))
            search_anchor_one(z, list[k]);
    z->best_s = best_known(z);
    return FS_OK;
}

/* Where a cut makes the best plan it mostly does so on other meshes of as many
 * stages: these take about as much, unless it is known better. */
static void propose_beside(recutter *r, const proposal *p)
{
    const search_level0 *z = r->z;
    for (int32_t k = 0; k < z->all.n && !p->mesh; k++) {
        search_candidate *c = z->all.at[k];
        if (c->part || c->covered || c->graph != p->of->graph ||
            c->n_stages != p->of->n_stages || c->again != p->of->again ||
            !c->schedule || strcmp(c->schedule, p->of->schedule) != 0 ||
            !is_new(r, c, NULL, p->begin))
            continue;
        const proposal beside = {
            .of = c,
            .begin = fs_memdup(r->arena, p->begin,
                               (size_t)c->n_stages * sizeof *p->begin),
            .cost_s = z->best_s};
        fs_push(r->arena, &r->open, beside);
    }
}

/* Cuts to be tried at once: where memory decides each costs more. */
static int32_t at_once(const search_level0 *z)
{
    return z->memory_decides ? AT_ONCE : 1;
}

static void add_cut(recutter *r, const proposal *p)
{
    search_level0 *z = r->z;
    search_part *part = fs_new(z->scratch, search_part, 1);
    *part = (search_part){++z->n_parts,
                          fs_memdup(z->scratch, p->begin,
                                    (size_t)p->of->n_stages * sizeof(int32_t)),
                          p->mesh};
    search_add_part(z, p->of, part);
}

/* Memory may have asked for another one, with what is computed again chosen. */
static fs_status try_cuts(recutter *r, const proposal *list, int32_t n,
                          fs_err *err)
{
    search_level0 *z = r->z;
    const int32_t before = z->all.n, most = at_once(z);
    for (int32_t k = 0; k < n; k++)
        add_cut(r, &list[k]);
    for (int32_t k = before; k < z->all.n;) {
        search_candidate *few[AT_ONCE];
        int32_t n_few = 0;
        while (n_few < most && k < z->all.n)
            few[n_few++] = z->all.at[k++];
        FS_TRY(attempt(r, few, n_few, err));
        for (int32_t i = 0; i < n_few; i++)
            propose_for(r, few[i]);
    }
    return FS_OK;
}

/* As much work from here on. */
static void go_on(recutter *r)
{
    search_level0 *z = r->z;
    r->end = search_steps(z) + (int64_t)r->steps;
    if (r->most_steps < r->end)
        r->end = r->most_steps;
    end_at(r, r->end);
}

static int32_t next_proposals(recutter *r, proposal *list)
{
    int32_t n = 0;
    while (n < at_once(r->z) && next_proposal(r, &list[n]))
        n++;
    return n;
}

static fs_status try_proposals(recutter *r, int32_t in_a_row, fs_err *err)
{
    search_level0 *z = r->z;
    const double idle_steps =
        in_a_row < IN_A_ROW ? 0 : r->steps * in_a_row / TRIES;
    double since = (double)search_steps(z);
    proposal list[AT_ONCE];
    for (int32_t idle = 0, n;
         (idle < in_a_row || (double)search_steps(z) < since + idle_steps) &&
         !over(r) && (n = next_proposals(r, list)) > 0;) {
        const double best_s = z->best_s;
        FS_TRY(try_cuts(r, list, n, err));
        idle = z->best_s < best_s ? 0 : idle + n;
        if (idle > 0)
            continue;
        for (int32_t k = 0; k < n; k++)
            propose_beside(r, &list[k]);
        r->idle = 0;
        r->steps = r->usual;
        r->begun = search_steps(z);
        go_on(r);
        since = (double)search_steps(z);
    }
    return FS_OK;
}

/* ---- cuts of what has no plan ---- */

/* What a node of a network takes at least, in steps: where that is more than
 * there is, it is not begun. */
enum { NODE_STEPS = 100000, SOON = 2 };

/* Its own cut was ruled out before there was a plan worth measuring, and no
 * bound rules out others; that of the least such bound first. */
static search_candidate *next_unmeasured(const search_level0 *z)
{
    search_candidate *next = NULL;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (!c->dealt && !is_near(z, c) && !c->part && !c->covered &&
            c->schedule && c->n_stages > 1 && c->depth == 1 &&
            !search_proven(c->weighed_s, search_enough(z)) &&
            (!next || c->weighed_s < next->weighed_s))
            next = c;
    }
    return next;
}

/* By what its pieces take where all of them are on one stage's devices, which
 * is said of no cut. */
static void propose_unmeasured(recutter *r, search_candidate *c)
{
    search_level0 *z = r->z;
    search_candidate even = search_anew(c);
    even.part = NULL;
    const int32_t *value = search_even_values(z, &even);
    if (value)
        propose_by(r, c,
                   search_measure_values(z, &even, even.shown.view, value,
                                         even.arena));
    z->other_steps += even.steps;
    fs_arena_destroy(even.arena);
}

static fs_status try_unmeasured(recutter *r, fs_err *err)
{
    search_level0 *z = r->z;
    search_candidate *c;
    while (!over(r) && (c = next_unmeasured(z))) {
        const double left = (double)(r->end - search_steps(z));
        c->dealt = true;
        if ((double)c->graph->graph->nodes.n * NODE_STEPS >= left)
            continue;
        propose_unmeasured(r, c);
        FS_TRY(try_proposals(r, SOON, err));
    }
    return try_proposals(r, IN_A_ROW, err);
}

/* ---- stages of different meshes ---- */

/* Pipelines told of a number of micro-batches, and as many again where devices
 * of another kind may be the first; of the work, what finding them may take. */
enum { PIPELINES = 4 };
#define RUNS_SHARE 0.7

static bool wants_meshes(const search_level0 *z)
{
    const search_problem *p = z->problem;
    return !(p->without & SEARCH_SUBMESHES) && !p->stage_mesh &&
           !p->filter.allow && p->fix_mesh.n < 0 && search_depth(p) == 1 &&
           p->cluster->n_devices > 1;
}

static bool all_equal(const search_pipeline *pipe)
{
    for (int32_t i = 1; i < pipe->n; i++)
        if (!plan_same_mesh(&pipe->mesh[0], &pipe->mesh[i]))
            return false;
    return true;
}

static void propose_pipeline(recutter *r, const search_runs *runs,
                             const search_pipeline *pipe)
{
    search_level0 *z = r->z;
    const search_ranks *ranks = search_ranks_of(z, runs->graph->graph);
    search_candidate *of = fs_new(r->arena, search_candidate, 1);
    *of = (search_candidate){.graph = runs->graph,
                             .n_stages = pipe->n,
                             .depth = 1,
                             .mesh = pipe->mesh[0],
                             .order = pipe->order,
                             .schedule = z->problem->schedule};
    of->record.micro_batches = runs->graph->micro_batches;
    proposal p = {.of = of,
                  .begin = fs_new(r->arena, int32_t, pipe->n),
                  .cost_s = pipe->cost};
    if (!all_equal(pipe))
        p.mesh = fs_memdup(z->arena, pipe->mesh,
                           (size_t)pipe->n * sizeof *pipe->mesh);
    for (int32_t i = ranks->n - 1; i >= 0; i--)
        p.begin[search_pipeline_stage(pipe, runs->layer_of[ranks->order[i]])] =
            i;
    if (pipe->n > 1 && is_new(r, of, p.mesh, p.begin))
        fs_push(r->arena, &r->open, p);
}

static void propose_pipelines(recutter *r, const search_graph *graph,
                              double most_steps)
{
    search_level0 *z = r->z;
    search_runs runs = {.problem = z->problem,
                        .graph = graph,
                        .keep = PIPELINES * (z->orders.list.n ? 2 : 1),
                        .several = true,
                        .orders = &z->orders,
                        .scratch = fs_arena_create(),
                        .end = z->end,
                        .runs_end = z->end,
                        .runs_steps = most_steps};
    search_runs_find(&runs);
    for (int32_t k = 0; k < runs.found.n; k++)
        propose_pipeline(r, &runs, &runs.found.at[k]);
    z->other_steps += runs.steps;
    z->late |= runs.late;
    fs_arena_destroy(runs.scratch);
}

/* The cheapest plan with so many micro-batches. */
static double best_with(const search_level0 *z, const search_graph *graph)
{
    double best = INFINITY;
    for (int32_t k = 0; k < z->all.n; k++) {
        const search_candidate *c = z->all.at[k];
        if (c->graph == graph)
            best = fmin(best, c->record.iteration_s);
    }
    return best;
}

/* Numbers of micro-batches whose plans are best first; what is promised of
 * one is not to be compared with another's, since moves are not counted. */
static fs_status try_meshes(recutter *r, fs_err *err)
{
    const search_problem *p = r->z->problem;
    bool *done = fs_new(r->arena, bool, p->n_graphs);
    const double end = (double)search_steps(r->z) +
                       RUNS_SHARE * (double)(r->end - search_steps(r->z));
    for (int32_t n = 0; n < p->n_graphs; n++) {
        int32_t next = -1;
        double least = INFINITY;
        for (int32_t g = 0; g < p->n_graphs; g++) {
            const double s =
                done[g] ? INFINITY : best_with(r->z, &p->graphs[g]);
            if (!done[g] && (next < 0 || s < least)) {
                next = g;
                least = s;
            }
        }
        done[next] = true;
        const double left = end - (double)search_steps(r->z);
        if ((double)p->graphs[next].graph->nodes.n * NODE_STEPS >= left)
            continue;
        r->open.n = 0;
        propose_pipelines(r, &p->graphs[next], left);
        FS_TRY(try_proposals(r, IN_A_ROW, err));
    }
    return FS_OK;
}

/* ---- all of it ---- */

static recutter *recutter_of(search_level0 *z)
{
    if (!z->recutter) {
        z->recutter = fs_new(z->scratch, recutter, 1);
        *z->recutter = (recutter){
            .z = z, .arena = z->scratch, .met = {.arena = z->scratch}};
    }
    z->recutter->most_steps = z->most_steps;
    return z->recutter;
}

static double usual_work(const search_level0 *z)
{
    const bool best = z->asked->gap < search_first_gap(z->asked);
    const double more = best ? BEST_WORK : MORE_WORK;
    return fmax(more * (double)search_steps(z), LEAST_WORK_S * FS_STEPS_PER_S);
}

/* Until so many steps are done without a better plan. Where memory decides a
 * cut costs more, and all that is tried shares them. */
static void begin_work(recutter *r, double steps)
{
    const search_level0 *z = r->z;
    const double least = fmin(steps, LEAST_WORK_S * FS_STEPS_PER_S);
    r->usual = r->steps = steps;
    if (z->memory_decides && z->problem->cluster->n_groups == 1)
        r->steps = fmax(steps - r->idle, least);
    r->loose = 0;
    r->begun = search_steps(z);
    go_on(r);
}

static void end_work(recutter *r)
{
    r->idle += (double)(search_steps(r->z) - r->begun);
}

/* So far little was done. */
static void begin_loose(recutter *r, double steps)
{
    begin_work(r, steps);
    r->loose = search_steps(r->z) + (int64_t)(LEAST_WORK_S * FS_STEPS_PER_S);
}

/* Of equal meshes. */
static fs_status recut_equal(recutter *r, double usual, fs_err *err)
{
    search_level0 *z = r->z;
    const int32_t n = z->all.n;
    begin_loose(r, usual);
    search_sort(z);
    z->round_end = z->end;
    z->best = NULL;
    z->best_s = best_known(z);
    for (int32_t k = 0; k < n; k++)
        propose_for(r, z->all.at[k]);
    FS_TRY(try_proposals(r, IN_A_ROW, err));
    end_work(r);
    begin_work(r, usual);
    FS_TRY(try_unmeasured(r, err));
    end_work(r);
    return FS_OK;
}

static fs_status recut(recutter *r, fs_err *err)
{
    search_level0 *z = r->z;
    const double done = (double)search_steps(z), usual = usual_work(z);
    FS_TRY(recut_equal(r, usual, err));
    if (wants_meshes(z)) {
        const bool mixed = z->problem->cluster->n_groups > 1;
        begin_loose(
            r, mixed ? fmax(MIXED_WORK * done, LEAST_MIXED_S * FS_STEPS_PER_S)
                     : usual);
        FS_TRY(try_meshes(r, err));
    }
    search_drop_useless(z);
    return FS_OK;
}

fs_status search_recut_best(search_level0 *z, fs_err *err)
{
    search_candidate *c = z->best;
    if (!search_wants_cuts(z) || !c || !c->measured || z->memory_decides ||
        search_narrowed(c) || z->round > 0 || !search_keep_best(z))
        return FS_OK;
    z->best = NULL;
    z->best_s = best_known(z);
    search_release(z, c);
    recutter *r = recutter_of(z);
    const int32_t n = z->all.n;
    const int64_t round_steps = z->round_steps;
    begin_work(r, usual_work(z));
    propose_for(r, c);
    FS_TRY(try_proposals(r, SOON, err));
    z->most_steps = r->most_steps;
    z->round_steps = round_steps;
    for (int32_t k = n; k < z->all.n; k++) {
        search_candidate *part = z->all.at[k];
        part->looked = part->weighed = part->tried = true;
        part->cut = SEARCH_CUT;
    }
    search_drop_useless(z);
    return FS_OK;
}

fs_status search_recut_early(search_level0 *z, fs_err *err)
{
    if (!search_wants_cuts(z) || !z->memory_decides || !z->kept.from ||
        search_over(z))
        return FS_OK;
    recutter *r = recutter_of(z);
    const fs_end round_end = z->round_end;
    const int64_t round_steps = z->round_steps;
    const fs_status status = recut_equal(r, usual_work(z), err);
    search_drop_useless(z);
    z->most_steps = r->most_steps;
    z->round_end = round_end;
    z->round_steps = round_steps;
    return status;
}

void search_reserve(search_level0 *z)
{
    if (!search_wants_cuts(z))
        return;
    z->end = fs_end_share(&z->end, 1 - RESERVE);
    if (z->most_steps < INT64_MAX)
        z->most_steps = (int64_t)((1 - RESERVE) * (double)z->most_steps);
}

fs_status search_recut(search_level0 *z, fs_err *err)
{
    if (!search_wants_cuts(z))
        return FS_OK;
    z->late |= fs_end_reached(&z->end);
    search_limit(z);
    if ((!z->kept.from && z->all.n > 0) || search_over(z))
        return FS_OK;
    recutter *r = recutter_of(z);
    const fs_status status = recut(r, err);
    z->most_steps = r->most_steps;
    return status;
}
