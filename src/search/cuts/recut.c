/* Stages cut again. The cut of a configuration balances seconds on one device,
 * since nothing else is known before its network is solved. Afterwards it is:
 * what each piece takes with the signatures that were chosen, boxing included,
 * with what memory made dearer. The best cuts by that (deal.c) become
 * configurations of their own, which engines solve like all others; what they
 * turn out to take is what the next ones are found by. */
#include "config.h"
#include "search/cuts/recut.h"
#include "search/cuts/recutter.h"

#include "search/anchor.h"
#include "search/attempt.h"
#include "search/built.h"
#include "search/crew.h"
#include "search/cuts/cut.h"
#include "search/cuts/deal.h"
#include "search/digest.h"
#include "search/effort.h"
#include "search/lay_out.h"
#include "search/engine/memo.h"
#include "search/narrow.h"
#include "search/offers.h"
#include "search/cuts/runs.h"
#include "search/space.h"

#include <math.h>
#include <string.h>

/* Of the work done so far, cuts may take so much more, and some where that was
 * little. */
#define MORE_WORK 0.1
#define LEAST_WORK_S 0.25
/* Where so much of the best plan's time may be won by cutting otherwise, for
 * all that is proven of every cut, cuts beside the best ones take so much. */
#define MUCH_GAP 0.01
#define MUCH_WORK_S 1.0
/* And where they are walked, by looks that find no better plan, so much. */
#define WALK_WORK_S 2.0
/* Who asks for less of a gap than is usual wants the best plan there is: as
 * much again, since of other cuts nothing is proven. */
#define BEST_WORK 1
/* The same for stages of different meshes where devices are of several kinds:
 * there equal ones are rarely best. */
#define MIXED_WORK 1
#define LEAST_MIXED_S 2
/* Of the limits on work and time, what is left for them at least. */
#define RESERVE 0.1
/* Without a better plan in so many attempts in a row there is an end, or in
 * more where these take less of the work than 1 / TRIES each and nothing else
 * waits.
 */
enum { IN_A_ROW = 8, TRIES = 40, GLANCES = 4, EARLY_GLANCES = 8, AT_ONCE = 2 };
/* What a node of a network takes at least, in steps: where that is more than
 * there is, it is not begun. Attempts are few that the work is not enough for;
 * and as many end cuts of what has no plan. */
/* Of an attempt, and of it before all others had theirs. */
enum { PASSES = 4, FIRST_PASSES = 2 };
enum { NODE_STEPS = 100000, FEW_TRIES = 4, SOON = 2 };

/* ---- attempts ---- */

bool search_cuts_over(const search_recutter *r)
{
    return search_over(r->z) || search_steps(r->z) >= r->end;
}

/* Closed; or the best plan is of this cut, or what is to become one. Of many
 * nobody wants to be told. */
static bool is_of_use(const search_level0 *z, const search_candidate *c)
{
    if (c == z->best)
        return true;
    if (c->part->walked && !search_is_offered(z, c))
        return false;
    return (z->kept.from && z->kept.from->part == c->part) ||
           (!c->covered && search_proven(search_bound(c), search_enough(z)));
}

/* The proof speaks of it, though nobody is told of it. */
static void count_walked(search_level0 *z, const search_candidate *c)
{
    search_recutter *r = z->recutter;
    if (!c->part->walked || c->covered ||
        !search_proven(search_bound(c), search_enough(z)))
        return;
    r->walked_s =
        r->n_walked ? fmin(r->walked_s, search_bound(c)) : search_bound(c);
    r->n_walked++;
    r->walked_digest += search_cut_digest(c);
}

static bool walks_count(const search_level0 *z)
{
    const search_recutter *r = z->recutter;
    return r && r->n_walked && search_proven(r->walked_s, search_enough(z));
}

double search_walked_bound(const search_level0 *z)
{
    return walks_count(z) ? z->recutter->walked_s : INFINITY;
}

uint64_t search_cuts_digest(const search_level0 *z)
{
    uint64_t sum = walks_count(z) ? z->recutter->walked_digest : 0;
    for (int32_t k = 0; k < z->all.n; k++)
        if (z->all.at[k]->part)
            sum += search_cut_digest(z->all.at[k]);
    return sum;
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
        count_walked(z, c);
        search_withdraw(z, c);
        z->other_steps += c->steps;
        search_forget_met(c);
        fs_arena_destroy(c->arena);
        c->arena = NULL;
    }
    z->all.n = kept;
    if (walks_count(z))
        z->n_recuts += z->recutter->n_walked;
}

double search_best_known(const search_level0 *z)
{
    return z->kept.from ? z->kept.cost_s : search_wanted(z->problem);
}

/* No more steps than these. */
void search_end_cuts_at(search_recutter *r, int64_t steps)
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

static void keep_if_best(search_recutter *r, search_candidate **list, int32_t n)
{
    search_level0 *z = r->z;
    search_end_cuts_at(r, r->end);
    for (int32_t k = 0; k < n; k++)
        if (z->best == list[k] && !search_keep_fitting(z) &&
            !search_cuts_over(r))
            search_anchor_one(z, list[k]);
    z->best_s = search_best_known(z);
}

/* With growing effort, while it is the best or may be. Where memory decides no
 * cut has the work of all: to close one finds no better ones. */
static fs_status attempt(search_recutter *r, search_candidate **list, int32_t n,
                         fs_err *err)
{
    search_level0 *z = r->z;
    search_candidate *open[AT_ONCE];
    const int32_t passes = z->memory_decides ? PASSES : FIRST_PASSES;
    if (z->memory_decides)
        search_end_cuts_at(r, search_steps(z) + (int64_t)(r->usual / IN_A_ROW));
    for (int32_t pass = 0; pass < passes && !search_over(z); pass++) {
        const int32_t n_open = list_open(z, list, n, pass, open);
        if (n_open == 0)
            break;
        FS_TRY(search_solve_few(z, open, n_open, pass, err));
    }
    keep_if_best(r, list, n);
    return FS_OK;
}

search_candidate *search_add_cut(search_recutter *r, const search_proposal *p)
{
    search_level0 *z = r->z;
    search_part *part = fs_new(z->scratch, search_part, 1);
    *part = (search_part){++z->n_parts,
                          fs_memdup(z->scratch, p->begin,
                                    (size_t)p->of->n_stages * sizeof(int32_t)),
                          p->mesh, r->walks};
    search_is_untried_cut(r, p->of, p->mesh, p->begin);
    return search_add_part(z, p->of, part);
}

/* Prices that a cut's bound is of, if it does not begin at good ones: what they
 * do not rule out takes many. */
enum { CUT_PRICES = 2 };

static void bound_cut(search_level0 *z, search_candidate *c)
{
    search_press_own(z, c, c->prices ? 1 : CUT_PRICES, search_enough(z));
    search_drop_tables(c);
}

/* What a cut of a graph is taken to cost: so much a node, but hardly more than
 * all that was done so far. */
static double steps_of_cut(const search_level0 *z, const search_graph *graph)
{
    return fmin((double)graph->graph->nodes.n * NODE_STEPS,
                (double)search_steps(z));
}

/* Where the work is for few attempts only, what a cut takes at least is quick
 * to say beside what it takes, and rules out most of those that are tried: but
 * not after one that was better, unless no better plan is promised, nor where
 * memory decides. Of small networks plans are as quick, and propose others. */
static bool wants_bound(const search_recutter *r, const search_proposal *p)
{
    return !r->z->memory_decides &&
           FEW_TRIES * steps_of_cut(r->z, p->of->graph) > r->steps &&
           (r->in_vain > 0 || p->cost_s >= search_enough(r->z));
}

/* The next one, and another one if both want a bound, and are both to be tried.
 */
static void make_cuts(search_recutter *r, bool both)
{
    search_level0 *z = r->z;
    search_candidate *list[AT_ONCE];
    int32_t n = 0, k;
    for (int32_t i = 0;
         i < AT_ONCE && (k = search_next_proposal(r, false)) >= 0; i++) {
        search_proposal *p = &r->open.at[k];
        const bool bound = wants_bound(r, p);
        if (i > 0 && !(both && bound))
            break;
        p->made = search_add_cut(r, p);
        if (bound && search_lay_out_own(z, p->made)) {
            p->made->prices = p->prices;
            list[n++] = p->made;
        }
    }
    search_crew_run(z, bound_cut, list, n);
}

/* Cuts to be tried together: where memory decides each costs more, and where
 * all others wait for a better plan it counts how soon there is one. */
static int32_t at_once(const search_recutter *r)
{
    return r->z->memory_decides || r->others_wait ? AT_ONCE : 1;
}

/* Memory may have asked for others, with what is computed again chosen. */
static fs_status try_cuts(search_recutter *r, search_candidate **list,
                          int32_t n, fs_err *err)
{
    search_level0 *z = r->z;
    int32_t next = z->all.n;
    while (n > 0) {
        FS_TRY(attempt(r, list, n, err));
        for (int32_t k = 0; k < n; k++)
            search_propose_for(r, list[k]);
        for (n = 0; n < at_once(r) && next < z->all.n; n++)
            list[n] = z->all.at[next++];
    }
    return FS_OK;
}

/* As much work from here on. */
static void go_on(search_recutter *r)
{
    search_level0 *z = r->z;
    r->end = search_steps(z) + (int64_t)r->steps;
    if (r->most_steps < r->end)
        r->end = r->most_steps;
    search_end_cuts_at(r, r->end);
}

static bool wants_glances(const search_level0 *z)
{
    return z->memory_decides && z->engine == search_ilp &&
           !(z->problem->without & SEARCH_GLANCES);
}

/* The cut that promises most, which may be the last, and those beside it.
 * Returns how many. */
static fs_status try_next(search_recutter *r, bool last, int32_t *n,
                          fs_err *err)
{
    search_level0 *z = r->z;
    search_proposal p[AT_ONCE];
    search_candidate *made[AT_ONCE];
    int32_t k;
    *n = 0;
    while (*n < at_once(r) && (k = search_next_proposal(r, true)) >= 0) {
        if (!r->open.at[k].made)
            make_cuts(r, !last);
        p[*n] = r->open.at[k];
        made[*n] = p[*n].made;
        r->open.at[k] = r->open.at[--r->open.n];
        ++*n;
    }
    const double best_s = z->best_s;
    FS_TRY(try_cuts(r, made, *n, err));
    for (int32_t i = 0; i < *n && z->best_s < best_s; i++)
        search_propose_beside(r, &p[i]);
    return FS_OK;
}

static fs_status try_proposals(search_recutter *r, int32_t in_a_row,
                               fs_err *err)
{
    search_level0 *z = r->z;
    const double idle_steps =
        in_a_row < IN_A_ROW ? 0 : r->steps * in_a_row / TRIES;
    double since = (double)search_steps(z);
    for (int32_t idle = 0;
         (idle < in_a_row || (double)search_steps(z) < since + idle_steps) &&
         !search_cuts_over(r);) {
        if (wants_glances(z))
            search_glance_at_cuts(r, r->steps / (2 * IN_A_ROW));
        const double best_s = z->best_s;
        int32_t n;
        FS_TRY(try_next(r, idle + 1 == in_a_row, &n, err));
        if (n == 0)
            break;
        idle = z->best_s < best_s ? 0 : idle + n;
        r->in_vain = z->best_s < best_s ? 0 : r->in_vain + n;
        if (idle > 0)
            continue;
        r->idle = 0;
        r->steps = r->usual;
        r->begun = search_steps(z);
        go_on(r);
        since = (double)search_steps(z);
    }
    return FS_OK;
}

/* What is the best of them gets the work that closes it when the others that
 * promise something were tried, which may be better for less. */
static fs_status close_best(search_recutter *r, fs_err *err)
{
    search_level0 *z = r->z;
    search_candidate *c = z->kept.from;
    if (!c || !c->part || z->memory_decides)
        return FS_OK;
    for (int32_t pass = FIRST_PASSES;
         pass < PASSES && !search_cuts_over(r) && !c->settled &&
         !search_proven(c->record.lower_bound_s, search_enough(z));
         pass++)
        FS_TRY(search_solve_few(z, &c, 1, pass, err));
    keep_if_best(r, &c, 1);
    return FS_OK;
}

fs_status search_try_proposals(search_recutter *r, int32_t in_a_row,
                               fs_err *err)
{
    search_level0 *z = r->z;
    double best_s;
    do {
        FS_TRY(try_proposals(r, in_a_row, err));
        best_s = z->best_s;
        FS_TRY(close_best(r, err));
        if (z->best_s < best_s)
            search_propose_for(r, z->kept.from);
    } while (z->best_s < best_s);
    return FS_OK;
}

/* ---- cuts of what has no plan ---- */

/* Its own cut was ruled out before there was a plan worth measuring, and no
 * bound rules out others; that of the least such bound first. */
static search_candidate *next_unmeasured(const search_level0 *z)
{
    search_candidate *next = NULL;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (!c->dealt &&
            !(c->measured && search_is_near(z, c->measured->cost_s)) &&
            !c->part && !c->covered && c->schedule && c->n_stages > 1 &&
            c->depth == 1 &&
            !search_proven(fmax(c->weighed_s, c->any_cut_s),
                           search_enough(z)) &&
            (!next || c->weighed_s < next->weighed_s))
            next = c;
    }
    return next;
}

/* By what its pieces take where all of them are on one stage's devices, which
 * is said of no cut. */
static void propose_unmeasured(search_recutter *r, search_candidate *c)
{
    search_level0 *z = r->z;
    search_candidate even = search_anew(c);
    even.part = NULL;
    const int32_t *value = search_even_values(z, &even);
    if (value)
        search_propose_by(
            r, c,
            search_measured_by(z, &even, even.shown.view, value, even.arena));
    z->other_steps += even.steps;
    fs_arena_destroy(even.arena);
}

static fs_status try_unmeasured(search_recutter *r, fs_err *err)
{
    search_level0 *z = r->z;
    search_candidate *c;
    const double best_s = z->best_s;
    while (!search_cuts_over(r) && (c = next_unmeasured(z))) {
        const double left = (double)(r->end - search_steps(z));
        c->dealt = true;
        if (steps_of_cut(z, c->graph) >= left)
            continue;
        propose_unmeasured(r, c);
        FS_TRY(search_try_proposals(r, SOON, err));
    }
    return z->best_s < best_s ? search_try_proposals(r, IN_A_ROW, err) : FS_OK;
}

/* ---- stages of different meshes ---- */

/* Pipelines told of a number of micro-batches, and as many again where devices
 * of another kind may be the first; of the work, what finding them may take. */
enum { PIPELINES = 4 };
#define RUNS_SHARE 0.7
/* Runs of layers are networks of some fifteen graphs in all on each mesh,
 * solved at one price; of what the best plan's took that is no less than this.
 */
#define MESH_SHARE 0.25

static bool wants_meshes(const search_level0 *z)
{
    const search_problem *p = z->problem;
    return !(p->without & SEARCH_SUBMESHES) && !p->stage_mesh && !p->outgrown &&
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

static void propose_pipeline(search_recutter *r, const search_runs *runs,
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
    search_proposal p = {.of = of,
                         .begin = fs_new(r->arena, int32_t, pipe->n),
                         .cost_s = pipe->cost};
    if (!all_equal(pipe))
        p.mesh = fs_memdup(z->arena, pipe->mesh,
                           (size_t)pipe->n * sizeof *pipe->mesh);
    for (int32_t i = ranks->n - 1; i >= 0; i--)
        p.begin[search_pipeline_stage(pipe, runs->layer_of[ranks->order[i]])] =
            i;
    if (pipe->n > 1 && search_is_new_cut(r, of, p.mesh, p.begin))
        fs_push(r->arena, &r->open, p);
}

static double least_of_mesh(const search_level0 *z)
{
    return z->kept.from ? MESH_SHARE * (double)z->kept.from->steps : 0;
}

/* False: the work is not enough for them. */
static bool propose_pipelines(search_recutter *r, const search_graph *graph,
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
                        .runs_steps = most_steps,
                        .mesh_steps = least_of_mesh(z)};
    search_runs_find(&runs);
    for (int32_t k = 0; k < runs.found.n; k++)
        propose_pipeline(r, &runs, &runs.found.at[k]);
    z->other_steps += runs.steps;
    z->late |= runs.late;
    fs_arena_destroy(runs.scratch);
    return !runs.hopeless;
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
static fs_status try_meshes(search_recutter *r, fs_err *err)
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
        if (steps_of_cut(r->z, &p->graphs[next]) >= left)
            continue;
        r->open.n = 0;
        if (!propose_pipelines(r, &p->graphs[next], left))
            break;
        FS_TRY(search_try_proposals(r, IN_A_ROW, err));
    }
    return FS_OK;
}

/* ---- all of it ---- */

static search_recutter *recutter_of(search_level0 *z)
{
    if (!z->recutter) {
        z->recutter = fs_new(z->scratch, search_recutter, 1);
        *z->recutter = (search_recutter){.z = z,
                                         .arena = z->scratch,
                                         .met = {.arena = z->scratch},
                                         .tried = {.arena = z->scratch}};
    }
    z->recutter->most_steps = z->most_steps;
    return z->recutter;
}

static bool wants_best(const search_level0 *z)
{
    return z->asked->gap < search_first_gap(z->asked);
}

static double usual_work(const search_level0 *z)
{
    const double more = wants_best(z) ? BEST_WORK : MORE_WORK;
    return fmax(more * (double)search_steps(z), LEAST_WORK_S * FS_STEPS_PER_S);
}

/* Until so many steps are done without a better plan. */
void search_begin_cuts(search_recutter *r, double steps)
{
    r->usual = r->steps = steps;
    r->loose = 0;
    r->begun = search_steps(r->z);
    go_on(r);
}

/* Where memory decides a cut costs more: then all that is tried shares that,
 * unless the best plan there is is wanted. */
static void share_work(search_recutter *r)
{
    const search_level0 *z = r->z;
    const double least = fmin(r->steps, LEAST_WORK_S * FS_STEPS_PER_S);
    if (!z->memory_decides || z->problem->cluster->n_groups > 1 ||
        wants_best(z))
        return;
    r->steps = fmax(r->usual - r->idle, least);
    go_on(r);
}

static void end_work(search_recutter *r)
{
    r->idle += (double)(search_steps(r->z) - r->begun);
}

/* So far little was done. */
static void begin_loose(search_recutter *r, double steps)
{
    search_begin_cuts(r, steps);
    r->loose = search_steps(r->z) + (int64_t)(LEAST_WORK_S * FS_STEPS_PER_S);
}

/* Of equal meshes. */
static fs_status recut_equal(search_recutter *r, double usual, fs_err *err)
{
    search_level0 *z = r->z;
    const int32_t n = z->all.n;
    begin_loose(r, usual);
    search_sort(z);
    z->round_end = z->end;
    z->best = NULL;
    z->best_s = search_best_known(z);
    if (wants_glances(z))
        search_glance_at_all(r, usual / GLANCES);
    for (int32_t k = 0; k < n; k++)
        search_propose_for(r, z->all.at[k]);
    if (wants_glances(z))
        search_glance_at_cuts(r, usual / GLANCES);
    begin_loose(r, usual);
    share_work(r);
    FS_TRY(search_try_proposals(r, IN_A_ROW, err));
    end_work(r);
    search_begin_cuts(r, usual);
    share_work(r);
    FS_TRY(try_unmeasured(r, err));
    end_work(r);
    return FS_OK;
}

/* What cuts found is not to be attempted before all others. */
static void come_last(search_level0 *z, int32_t n)
{
    for (int32_t k = n; k < z->all.n; k++) {
        search_candidate *part = z->all.at[k];
        part->looked = part->weighed = part->tried = true;
        part->cut = SEARCH_CUT;
    }
}

void search_glance_early(search_level0 *z)
{
    search_candidate *best = z->best;
    const double best_s = z->best_s;
    if (!search_wants_cuts(z) || !wants_glances(z) || search_over(z))
        return;
    if (best)
        search_keep_best(z);
    if (!z->kept.from)
        return;
    z->best = NULL;
    z->best_s = search_best_known(z);
    search_recutter *r = recutter_of(z);
    const int64_t round_steps = z->round_steps;
    const double usual = usual_work(z);
    search_glance_at_all(r, usual / EARLY_GLANCES);
    const int32_t n = z->all.n;
    for (int32_t k = 0; k < n; k++)
        search_propose_for(r, z->all.at[k]);
    search_glance_at_cuts(r, usual / EARLY_GLANCES);
    z->most_steps = r->most_steps;
    z->round_steps = round_steps;
    come_last(z, n);
    if (best && best_s < z->kept.cost_s) {
        z->best = best; /* it does not fit, which is looked into later */
        z->best_s = best_s;
    } else {
        search_release(z, best);
    }
    search_drop_useless(z);
}

/* May much be won by cutting otherwise, for all that is proven of it, and is
 * that enough work for more than few attempts? Where memory decides only if
 * little was done: else what is nearly closed needs that work more. */
static bool wants_walk(const search_level0 *z)
{
    const double much = MUCH_WORK_S * FS_STEPS_PER_S;
    return FEW_TRIES * steps_of_cut(z, z->kept.from->graph) < much &&
           (!z->memory_decides || (double)search_steps(z) < much) &&
           search_every_cut_open(z, search_near(z->best_s, MUCH_GAP));
}

static fs_status recut(search_recutter *r, fs_err *err)
{
    search_level0 *z = r->z;
    const double done = (double)search_steps(z), usual = usual_work(z);
    z->best = NULL;
    z->best_s = search_best_known(z);
    search_prove_every_cut(z);
    if (!search_every_cut_proven(z, search_enough(z)))
        FS_TRY(recut_equal(r, usual, err));
    if (wants_meshes(z)) {
        const bool mixed = z->problem->cluster->n_groups > 1;
        begin_loose(
            r, mixed ? fmax(MIXED_WORK * done, LEAST_MIXED_S * FS_STEPS_PER_S)
                     : usual);
        share_work(r);
        FS_TRY(try_meshes(r, err));
    }
    if (wants_walk(z)) {
        search_begin_cuts(r, fmax(usual, WALK_WORK_S * FS_STEPS_PER_S));
        FS_TRY(search_walk_cuts(r, err));
        search_begin_cuts(r, usual);
        FS_TRY(close_best(r, err));
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
    z->best_s = search_best_known(z);
    search_release(z, c);
    search_recutter *r = recutter_of(z);
    const int32_t n = z->all.n;
    const int64_t round_steps = z->round_steps;
    search_begin_cuts(r, usual_work(z));
    search_propose_for(r, c);
    r->others_wait = true;
    FS_TRY(search_try_proposals(r, SOON, err));
    r->others_wait = false;
    z->most_steps = r->most_steps;
    z->round_steps = round_steps;
    come_last(z, n);
    search_drop_useless(z);
    return FS_OK;
}

/* As much as was done besides since the last time. */
static double slice_of(const search_recutter *r)
{
    const double done = (double)search_steps(r->z);
    const double slice =
        r->left_at > 0 ? done - r->left_at : usual_work(r->z) / EARLY_GLANCES;
    return fmax(slice, LEAST_WORK_S * FS_STEPS_PER_S);
}

fs_status search_recut_early(search_level0 *z, fs_err *err)
{
    if (!search_wants_cuts(z) || !z->memory_decides || !z->kept.from ||
        search_over(z))
        return FS_OK;
    search_recutter *r = recutter_of(z);
    const fs_end round_end = z->round_end;
    const int64_t round_steps = z->round_steps, most_steps = r->most_steps;
    r->most_steps = (int64_t)fmin((double)most_steps,
                                  (double)search_steps(z) + slice_of(r));
    const fs_status status = recut_equal(r, usual_work(z), err);
    search_drop_useless(z);
    r->left_at = (double)search_steps(z);
    z->most_steps = most_steps;
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
    search_recutter *r = recutter_of(z);
    FS_TRY(recut(r, err));
    z->most_steps = r->most_steps;
    return search_prove_best_cut(z, err);
}
