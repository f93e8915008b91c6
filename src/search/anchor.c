/* Lean plans of configurations (lean.c), lowered as they come: of one, of all
 * that are open, and of likely ones first. Where memory decides bounds say
 * little of what plans take: many are bounded by as little. A network without
 * limits at even prices says more, and of few axes it is had for a hundredth of
 * the work that others take. So of each number of stages and micro-batches the
 * mesh of fewest axes is asked first (a scout), then what it takes by lean
 * plans that fit, or how much too large they are, says when others have their
 * turn. */
#include "config.h"
#include "search/anchor.h"
#include "search/leaning.h"

#include "search/attempt.h"
#include "search/built.h"
#include "search/effort.h"
#include "search/fit.h"
#include "search/kept.h"
#include "search/lay_out.h"
#include "search/engine/lean.h"
#include "search/engine/prices.h"
#include "search/narrow.h"
#include "search/cuts/recut.h"
#include "search/cuts/recutter.h"
#include "search/engine/reductions.h"
#include "search/space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Steps for lean plans of what was not solved, at least. */
#define LEAST_ANCHOR (0.25 * FS_STEPS_PER_S)
/* Of what an engine's plan takes more than the best, or less if that does not
 * fit: beyond it a series of lean plans wins less than it takes. */
#define NEARLY 0.03
/* All mixtures together take such a part of the work. */
#define MIXED_PART 8

static bool is_sweeping(const search_level0 *z)
{
    return z->sweeps && z->sweeps->sweeping;
}

/* What its pieces take: other cuts are found by that. */
static void measure(const leaning *l, const search_lean_plan *lean)
{
    search_level0 *z = l->z;
    const search_solution solution = {.value = lean->value, .cost = lean->cost};
    if (search_wants_cuts(z) && l->c->n_stages > 1 && l->c->depth == 1)
        l->c->measured = search_measured_of(z, &l->anew, &solution);
}

static double excess_of(const leaning *l)
{
    double most = 0;
    for (int32_t i = 0; i < l->c->n_stages; i++)
        most = fmax(most, (double)l->bytes[i] / (double)l->limit[i]);
    return most;
}

/* Lowers a plan, and keeps it if it is the best that fits. */
bool search_lean_look(void *ctx, search_lean_plan *lean)
{
    leaning *l = ctx;
    search_level0 *z = l->z;
    search_kept found =
        search_whole_plan(z, &l->anew, &l->anew.built,
                          &(search_mix){.value = lean->value}, lean->cost);
    search_fit fit = {l->bytes, NULL, true, false};
    memset(l->bytes, 0, (size_t)l->c->n_stages * sizeof *l->bytes);
    const bool fits =
        search_fits_or(z->problem, found.graph, l->limit, found.strategy, &fit);
    lean->full = excess_of(l);
    if (!fits) {
        search_note_misfit(z, &found, l->limit, l->bytes);
        l->refused |= !z->kept.from || found.cost_s < z->kept.cost_s;
        l->excess = fmin(l->excess, lean->full);
        return false;
    }
    if (l->c->met)
        search_met_fits(l->c->met, &l->anew.built.net, lean->value,
                        found.cost_s);
    if (z->kept.from && found.cost_s >= z->kept.cost_s)
        return true;
    found.from = l->c;
    found.fits = true;
    found.guessed = fit.guessed;
    found.net_nodes = found.kernel_nodes = l->anew.built.net.n_nodes;
    found.net_edges = l->anew.built.net.n_edges;
    search_keep(z, &found);
    if (!l->blends)
        z->lean_s = found.cost_s;
    measure(l, lean);
    return true;
}

/* Its own tables, which bind every moment, whatever the limit. They live in the
 * arena of l->anew, which is made; false: there are none. */
static bool make_tables(search_level0 *z, search_candidate *c, leaning *l)
{
    search_candidate *anew = &l->anew;
    *l = (leaning){.z = z, .c = c, .excess = INFINITY};
    *anew = search_anew(c);
    anew->whole = c->whole;
    anew->bare = true;
    search_layout *layout = &anew->shown;
    fs_err err = {0};
    if (search_lay_out(z, anew, &err) != FS_OK)
        return false;
    l->limit = fs_new(anew->arena, int64_t, c->n_stages);
    l->bytes = fs_new(anew->arena, int64_t, c->n_stages);
    search_stage_limits(z, &anew->layout, l->limit);
    layout->end = z->end;
    for (int32_t i = 0; i < layout->n_stages; i++)
        layout->limit_bytes[i] = 0;
    search_built *built = &anew->built;
    if (!search_build_nodes(z->problem, layout, anew->arena, built) ||
        built->empty >= 0 || !search_build_edges(anew->arena, built))
        return false;
    anew->steps = built->steps;
    return true;
}

/* A baseline's engine has none of it, nor a planner's recipes. */
static bool wants_blends(const search_level0 *z)
{
    return z->engine == search_ilp && !z->problem->rounds &&
           !(z->problem->without & SEARCH_BLENDS);
}

/* Which of them: the leanest, all of the series, or the cheapest that fit. */
typedef enum kind { LEANEST, SERIES, NEAR } kind;

/* False: there are none. */
static bool lean_plans_of(search_level0 *z, search_candidate *c, kind which,
                          leaning *l)
{
    if (!make_tables(z, c, l))
        return false;
    search_candidate *anew = &l->anew;
    z->n_anchored++;
    const search_lean_wish leanest_will_do = {.below_s = INFINITY};
    const search_lean_wish wish = {
        .limit = search_largest(l->limit, c->n_stages),
        .below_s = which == SERIES && z->kept.from ? z->kept.cost_s : INFINITY,
        .near = which == NEAR,
        .fits = search_lean_look,
        .ctx = l};
    const bool leanest = which == LEANEST;
    fs_deadline deadline =
        leanest ? search_rest(z, anew) : search_lean_rest(z, anew);
    search_lean_plans(&anew->built.net, leanest ? &leanest_will_do : &wish,
                      deadline, anew->arena, &l->lean);
    c->cut_short = is_sweeping(z) && fs_deadline_over(&deadline);
    c->steps += anew->steps;
    anew->steps = 0;
    if (!leanest && wants_blends(z))
        search_blend(l, search_rest(z, anew));
    c->steps += anew->steps;
    return true;
}

/* What its plans take: the cheapest that fits, or where none does the fastest,
 * dearer by as much as the leanest is too large. */
static double taken_by(const leaning *l)
{
    double fit = INFINITY, fastest = INFINITY, excess = l->excess;
    for (int32_t k = 0; k < l->lean.plans.n; k++) {
        const search_lean_plan *one = &l->lean.plans.at[k];
        const double full = (double)one->bytes /
                            (double)search_largest(l->limit, l->c->n_stages);
        fastest = fmin(fastest, one->cost);
        if (one->fits)
            fit = fmin(fit, one->cost);
        else if (full > 1)
            excess = fmin(excess, full);
    }
    return isfinite(fit) ? fit : fastest * fmax(1, excess);
}

static bool anchor_one(search_level0 *z, search_candidate *c, double *taken_s)
{
    leaning l;
    c->anchored = true;
    *taken_s = lean_plans_of(z, c, SERIES, &l) ? taken_by(&l) : INFINITY;
    fs_arena_destroy(l.anew.arena);
    return l.refused;
}

bool search_anchor_one(search_level0 *z, search_candidate *c)
{
    double taken_s;
    return anchor_one(z, c, &taken_s);
}

/* A better plan makes less enough of all others. */
static void take_kept(search_level0 *z)
{
    search_candidate *best = z->best;
    if (!z->kept.from || z->kept.cost_s >= z->best_s)
        return;
    z->best = NULL;
    z->best_s = z->kept.cost_s;
    search_release(z, best);
}

void search_anchor_near(search_level0 *z, search_candidate *c)
{
    leaning l;
    lean_plans_of(z, c, NEAR, &l);
    fs_arena_destroy(l.anew.arena);
    take_kept(z);
}

static bool is_to_mix(const search_level0 *z, const search_candidate *c)
{
    return c->met && c->met->value.n > c->mixed &&
           !search_proven(search_own_bound(c), search_enough(z));
}

/* Of the least bound. */
static search_candidate *next_to_mix(const search_level0 *z)
{
    search_candidate *next = NULL;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (is_to_mix(z, c) &&
            (!next || search_own_bound(c) < search_own_bound(next)))
            next = c;
    }
    return next;
}

static void blend_again(search_level0 *z, search_candidate *c, leaning *l)
{
    if (make_tables(z, c, l))
        search_blend(l, search_rest(z, &l->anew));
    c->steps += l->anew.steps;
}

/* The series is for what is nearly as good as the best. */
static void mix(search_level0 *z, search_candidate *c)
{
    leaning l;
    c->mixed = c->met->value.n;
    if (!c->met->fits && c->view &&
        fabs(c->record.iteration_s / z->best_s - 1) < NEARLY)
        lean_plans_of(z, c, NEAR, &l);
    else
        blend_again(z, c, &l);
    fs_arena_destroy(l.anew.arena);
    take_kept(z);
}

void search_blend_open(search_level0 *z)
{
    search_candidate *c;
    while (wants_blends(z) && !search_over(z) &&
           (double)z->mixed_steps * MIXED_PART <
               (double)search_steps(z) + LEAST_ANCHOR &&
           (c = next_to_mix(z)) != NULL) {
        const int64_t begun = search_steps(z);
        mix(z, c);
        z->mixed_steps += search_steps(z) - begun;
    }
}

/* ---- where nothing fits ---- */

static int by_need(const void *a, const void *b)
{
    const search_candidate *x = *(search_candidate *const *)a,
                           *y = *(search_candidate *const *)b;
    if (x->need_bytes != y->need_bytes)
        return x->need_bytes < y->need_bytes ? -1 : 1;
    return x->mesh.n - y->mesh.n; /* networks of fewer axes are smaller */
}

static void note_plan(leaning *l, const search_lean_plan *lean)
{
    const search_kept found =
        search_whole_plan(l->z, &l->anew, &l->anew.built,
                          &(search_mix){.value = lean->value}, lean->cost);
    if (!search_fits(l->z->problem, found.graph, l->limit, found.strategy,
                     l->bytes))
        search_note_misfit(l->z, &found, l->limit, l->bytes);
}

/* The leanest plan of a configuration that memory forbids, and the fastest,
 * which may be leaner when it is lowered. */
static void note_leanest(search_level0 *z, search_candidate *c)
{
    leaning l;
    int32_t least = 0;
    const bool found = lean_plans_of(z, c, LEANEST, &l);
    const search_lean_plan *plans = l.lean.plans.at;
    for (int32_t k = 1; found && k < l.lean.plans.n; k++)
        if (plans[k].bytes < plans[least].bytes)
            least = k;
    if (found && l.lean.plans.n)
        note_plan(&l, &plans[least]);
    if (found && least > 0)
        note_plan(&l, &plans[0]);
    fs_arena_destroy(l.anew.arena);
}

void search_find_leanest(search_level0 *z)
{
    enum { FEW = 16 };
    search_candidate **list =
        fs_new(z->scratch, search_candidate *, z->all.n + 1);
    int32_t n = 0;
    for (int32_t k = 0; k < z->all.n; k++)
        if (z->all.at[k]->need_bytes > 0)
            list[n++] = z->all.at[k];
    if (n > 0)
        qsort(list, (size_t)n, sizeof *list, by_need);
    for (int32_t k = 0; k < n && k < FEW && !search_over(z); k++)
        if (!z->n_misfits || list[k]->need_bytes < z->misfit_bytes)
            note_leanest(z, list[k]);
}

/* ---- all that are open ---- */

/* A lean plan costs more than the engine's, which need not have fitted, or is
 * what there was when its work was over. What it may win is to be more than
 * what nobody asks for. */
static bool may_be_leaner(const search_level0 *z, const search_candidate *c)
{
    if (!z->kept.from)
        return true;
    const double enough_s = search_near(z->kept.cost_s, z->problem->gap);
    return !search_proven(search_own_bound(c), enough_s) &&
           !(c->settled && isfinite(c->record.iteration_s) &&
             c->record.iteration_s >= enough_s);
}

static bool is_to_anchor(const search_level0 *z, const search_candidate *c)
{
    const double enough_s =
        search_near(search_wanted(z->problem), z->problem->gap);
    const double bound_s = search_own_bound(c);
    return (!c->anchored || (c->cut_short && !is_sweeping(z))) &&
           isfinite(bound_s) && !search_proven(bound_s, enough_s) &&
           may_be_leaner(z, c);
}

/* Where memory refuses what would be better, what is computed again may help. A
 * scout tells what was found. */
static void anchor_with(search_level0 *z, search_candidate *c)
{
    const int32_t n = z->all.n;
    double taken_s, again_s = INFINITY;
    if (anchor_one(z, c, &taken_s)) {
        search_ask_again(z, c);
        if (z->all.n > n && !search_over(z))
            anchor_one(z, z->all.at[n], &again_s);
    }
    if (c->scout_s > 0)
        c->scout_s = fmax(c->scout_s, fmin(taken_s, again_s));
}

/* Those first that were solved, and that compute nothing again, whose networks
 * are small. Others have no more than as much again. */
static void anchor_in_turn(search_level0 *z)
{
    const double begun = (double)search_steps(z);
    double most = INFINITY;
    for (int32_t turn = 0; turn < 4; turn++) {
        const bool again = turn % 2 > 0, solved = turn < 2;
        for (int32_t k = 0; k < z->all.n && !search_over(z); k++) {
            search_candidate *c = z->all.at[k];
            if (c->again == again && c->solved == solved &&
                is_to_anchor(z, c) && (double)search_steps(z) < most)
                anchor_with(z, c);
        }
        if (turn == 1 && z->kept.from)
            most = 2 * (double)search_steps(z) - begun + LEAST_ANCHOR;
    }
}

/* ---- likely ones first ---- */

static bool is_alike(const search_candidate *a, const search_candidate *b)
{
    return a->graph == b->graph && a->n_stages == b->n_stages &&
           a->depth == b->depth;
}

/* What plans of this configuration are likely to take. */
static double likely_s(const search_level0 *z, const search_candidate *c)
{
    double s = c->record.iteration_s;
    for (int32_t k = 0; k < z->all.n; k++) {
        const search_candidate *one = z->all.at[k];
        if (one->scout_s > 0 && is_alike(one, c))
            s = fmin(s, one->scout_s);
    }
    return s;
}

/* None that is alike has fewer axes, which asks for less work. */
static bool is_scout(const search_level0 *z, const search_candidate *c)
{
    if (!c->schedule || !c->looked || c->part || c->again ||
        search_proven(c->record.lower_bound_s, search_enough(z)))
        return false;
    for (int32_t k = 0; k < z->all.n; k++) {
        const search_candidate *one = z->all.at[k];
        if (!one->part && is_alike(one, c) &&
            (one->scout_s > 0 || one->mesh.n < c->mesh.n))
            return false;
    }
    return true;
}

static search_candidate *next_scout(const search_level0 *z)
{
    search_candidate *next = NULL;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if ((!next || c->record.lower_bound_s < next->record.lower_bound_s) &&
            is_scout(z, c))
            next = c;
    }
    return next;
}

/* By its network alone, whatever it holds. */
static void scout(search_level0 *z, search_candidate *c)
{
    leaning l;
    c->scout_s = INFINITY;
    if (make_tables(z, c, &l))
        c->scout_s = search_lean_fastest(
            &l.anew.built.net, search_scout_rest(z, &l.anew), l.anew.arena);
    c->steps += l.anew.steps;
    fs_arena_destroy(l.anew.arena);
}

static void send_scouts(search_level0 *z)
{
    const double end = search_scouts_end(z);
    search_candidate *c;
    while ((double)search_steps(z) < end && (c = next_scout(z))) {
        scout(z, c);
        z->sweeps->scouted = true;
    }
}

/* Who is asked: by a guess, or since bounds alone brought them as far as an
 * engine. */
typedef enum search_whose { GUESSED, SOLVED } search_whose;

/* A scout is asked before whom it is for. */
#define SOONER (1 - 1e-12)

/* The likeliest one that was not asked yet; those first that are bounded by
 * less. Of those that an engine was asked about, by bounds alone. */
static search_candidate *next_of(const search_level0 *z, search_whose whose)
{
    search_candidate *next = NULL;
    double least = INFINITY;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (!c->schedule || !c->looked || (whose == SOLVED && !c->solved) ||
            !is_to_anchor(z, c))
            continue;
        double s = whose == SOLVED ? 0 : likely_s(z, c);
        s *= c->scout_s > 0 ? SOONER : 1;
        if ((!search_is_near(z, s) && (is_sweeping(z) || isfinite(s))) ||
            s > least ||
            (s >= least && next &&
             c->record.lower_bound_s >= next->record.lower_bound_s))
            continue;
        next = c;
        least = s;
    }
    return next;
}

void search_begin_sweeps(search_level0 *z)
{
    z->sweeps = fs_new(z->scratch, search_sweeps, 1);
    z->sweeps->begun = search_steps(z);
}

bool search_sweep_due(const search_level0 *z)
{
    return z->problem->start && !z->problem->rounds && z->round == 0 &&
           z->sweeps && !z->sweeps->swept &&
           (z->memory_decides || z->refused) && !search_rules_out(z) &&
           !(z->problem->without & SEARCH_SWEEPS) && search_sweep_is_next(z);
}

/* So many times as much for guesses as for what bounds led to. */
enum { HEDGE = 2 };

/* When all were asked, those go on that had no work left. */
static search_candidate *next_to_sweep(search_level0 *z, search_whose whose)
{
    z->sweeps->sweeping = true;
    search_candidate *c = next_of(z, whose);
    if (!c)
        c = next_of(z, GUESSED);
    if (c)
        return c;
    z->sweeps->sweeping = false;
    return next_of(z, GUESSED);
}

/* A guess may be off for all that it is made of: a third of the work is for
 * those that bounds led to. */
void search_sweep(search_level0 *z)
{
    const int64_t begun = search_steps(z);
    if (!z->sweeps->scouted)
        send_scouts(z);
    const search_whose whose =
        HEDGE * z->sweeps->work[SOLVED] < z->sweeps->work[GUESSED] ? SOLVED
                                                                   : GUESSED;
    search_candidate *c = z->sweeps->scouted ? next_to_sweep(z, whose) : NULL;
    z->sweeps->swept = !c;
    if (c)
        anchor_with(z, c);
    z->sweeps->sweeping = false;
    take_kept(z);
    z->sweeps->work[whose] += search_steps(z) - begun;
    z->sweeps->steps += search_steps(z) - begun;
}

void search_anchor(search_level0 *z)
{
    search_candidate *c;
    const bool scouted = z->sweeps && z->sweeps->scouted;
    if (!scouted)
        anchor_in_turn(z);
    while (scouted && !search_over(z) && (c = next_of(z, GUESSED)))
        anchor_with(z, c);
}
