/* Level 0: configurations (stages, mesh, micro-batches) by best-first branch
 * and bound. Each becomes a cost network; the bound of one that was not solved
 * is what its tables alone allow, of one that was what the engine proved. The
 * smallest of all bounds is the certificate for the whole space. */
#include "config.h"
#include "search/anchor.h"
#include "search/attempt.h"
#include "search/carry.h"
#include "search/engine/cfn.h"
#include "search/crew.h"
#include "search/effort.h"
#include "search/kept.h"
#include "search/known.h"
#include "search/lay_out.h"
#include "search/narrow.h"
#include "search/offers.h"
#include "search/planner.h"
#include "search/recipe/recipe.h"
#include "search/cuts/recut.h"
#include "search/shares.h"
#include "search/space.h"
#include "search/tables.h"

#include "base/clock.h"
#include "plan/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double search_seconds_since(int64_t start_ns)
{
    return 1e-9 * (double)(fs_now_ns() - start_ns);
}
/* ---- all of them ---- */

/* A gap that prices leave under a tight limit can cost GLPK minutes. Where the
 * limit binds, what is this near to the best is not tried for long. */
#define NEAR 1e-4
#define BINDING_EFFORT_S 3
enum { QUICK_PASSES = 3, BATCH = 16 };
/* And what the first round did not close later ones do not: so many passes. */
enum { LATER_PASSES = 2 };

static bool near_enough(const search_level0 *z, const search_candidate *c,
                        int32_t pass)
{
    return pass >= QUICK_PASSES && c->memory_binds &&
           c->record.lower_bound_s >= z->best_s * (1 - NEAR);
}

static bool worth(search_level0 *z, search_candidate *c, int32_t pass)
{
    if (c->settled ||
        (z->memory_decides ? search_round_over(z) : search_over(z)) ||
        near_enough(z, c, pass) || (pass > QUICK_PASSES && c->memory_binds))
        return false;
    if (!search_proven(c->record.lower_bound_s, search_enough(z)))
        return !search_closed(z, &c->record);
    c->record.status = search_status_of(z, &c->record);
    c->settled = true;
    search_release(z, c);
    return false;
}

static const double effort_s[] = {0.25, 0.25, 2, 15, 1e9};
enum { N_EFFORTS = sizeof effort_s / sizeof *effort_s };
/* Where memory decides attempts stop before they are done, so that each
 * configuration has one before any has more; but for folded networks, whose
 * bounds need more. */
#define GLANCE_S 0.05

static double effort_of(const search_level0 *z, const search_candidate *c,
                        int32_t pass)
{
    if (z->problem->rounds)
        return INFINITY;
    if (pass == 0)
        return fmin(search_first_effort(z),
                    z->memory_decides && !c->view ? GLANCE_S : effort_s[pass]);
    double most_s = c->memory_binds ? BINDING_EFFORT_S : INFINITY;
    return fmin(effort_s[pass], most_s);
}

/* It would be the same again. */
static bool had_as_much(const search_level0 *z, const search_candidate *c,
                        int32_t pass)
{
    return c->solved && !c->unfolds && c->asked_in == z->round &&
           c->asked_s >= effort_of(z, c, pass);
}

/* Attempts that are made at once, with the same bound to reach. */
enum { AT_ONCE = 2, PRESSED = 8 }; /* presses say little of each other */

/* Meshes of as many devices hold much the same: that plans may fit is looked at
 * once. */
static bool is_cramped(const search_level0 *z, const search_candidate *c)
{
    for (int32_t k = 0; k < z->all.n; k++) {
        const search_candidate *one = z->all.at[k];
        if (one != c && one->graph == c->graph && one->pressed_s > 0 &&
            one->n_stages == c->n_stages && !one->too_small)
            return false;
    }
    return true;
}

static int32_t prepare_all(search_level0 *z, search_candidate **list, int32_t n,
                           int32_t pass)
{
    const int32_t n_ready = search_prepare(z, list, n);
    for (int32_t k = 0; k < n_ready; k++)
        search_carry_to(z, list[k]);
    for (int32_t k = 0; k < n_ready; k++) {
        list[k]->cramped = is_cramped(z, list[k]);
        search_pose(z, list[k], effort_of(z, list[k], pass));
    }
    return n_ready;
}

static fs_status solve(search_level0 *z, search_candidate **list, int32_t n,
                       int32_t pass, fs_err *err)
{
    n = prepare_all(z, list, n, pass);
    for (int32_t k = 0; k < n; k++) {
        list[k]->asked_in = z->round;
        list[k]->asked_s = effort_of(z, list[k], pass);
    }
    search_crew_run(z, search_answer, list, n);
    for (int32_t k = 0; k < n; k++)
        search_carry_from(z, list[k]);
    for (int32_t k = 0; k < n; k++)
        FS_TRY(search_conclude(z, list[k], err));
    return FS_OK;
}

fs_status search_solve_few(search_level0 *z, search_candidate **list, int32_t n,
                           int32_t pass, fs_err *err)
{
    search_candidate *few[AT_ONCE];
    int32_t n_few = 0;
    for (int32_t k = 0; k < n; k++)
        if (pass == 0 || !had_as_much(z, list[k], pass))
            few[n_few++] = list[k];
    return solve(z, few, n_few, pass, err);
}

/* The next one that is not solved yet, by bound. */
static search_candidate *least_bound(const search_level0 *z)
{
    search_candidate *least = NULL;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (!c->settled && !c->tried &&
            (!least || search_by_bound(&c, &least) < 0))
            least = c;
    }
    return least;
}

typedef bool choice(const search_level0 *z, const search_candidate *c);

static bool is_open_yet(const search_level0 *z, const search_candidate *c)
{
    return !c->settled && !c->tried &&
           !search_proven(c->record.lower_bound_s, search_enough(z));
}

static bool is_to_look_at(const search_level0 *z, const search_candidate *c)
{
    return is_open_yet(z, c) && !c->looked;
}

/* A configuration of one stage is the network that it would be weighed by:
 * where a plan is known, and memory refused others, it is pressed at once, with
 * what bytes cost. */
static bool is_weighed(const search_level0 *z, const search_candidate *c)
{
    return c->weighed ||
           (c->n_stages == 1 &&
            (c->pressed_s > 0 || c->reached_by_engine ||
             ((z->memory_decides || z->refused) && search_may_press(z, c))));
}

static bool is_to_weigh(const search_level0 *z, const search_candidate *c)
{
    return is_open_yet(z, c) && c->looked && !is_weighed(z, c) &&
           (c->cut || !c->schedule);
}

/* What promises so much more than the best plan is tried at once: a better plan
 * makes less enough of all others. */
#define MUCH 0.03

static bool promises_much(const search_level0 *z, const search_candidate *c)
{
    return c->record.lower_bound_s < (1 - MUCH) * z->best_s;
}

static bool is_cut(const search_level0 *z, const search_candidate *c)
{
    return c->cut == SEARCH_CUT || (c->cut > 0 && promises_much(z, c));
}

static bool is_to_cut(const search_level0 *z, const search_candidate *c)
{
    return is_open_yet(z, c) && c->looked && c->schedule && !is_cut(z, c);
}

/* The first `most` of those by bound, as many as one batch has: the same
 * whatever the number of threads. */
static int32_t next_batch(search_level0 *z, choice *is_choice, int32_t most,
                          search_candidate **batch)
{
    int32_t n = 0;
    for (int32_t k = 0; k < z->all.n; k++)
        if (is_choice(z, z->all.at[k]))
            batch[n++] = z->all.at[k];
    qsort(batch, (size_t)n, sizeof(*batch), search_by_bound);
    return n < most ? n : most;
}

static void run_batch(search_level0 *z, search_job *job, choice *is_choice,
                      int32_t most)
{
    fs_arena *scratch = fs_arena_create();
    search_candidate **batch = fs_new(scratch, search_candidate *, z->all.n);
    search_crew_run(z, job, batch, next_batch(z, is_choice, most, batch));
    fs_arena_destroy(scratch);
}

/* Those of which there are so many that differ by their meshes alone that their
 * cut is sooner laid out than nodes of all of them. */
static bool has_many_beside(const search_level0 *z, const search_candidate *c)
{
    enum { MANY = 8 };
    int32_t n = 0;
    for (int32_t k = 0; k < z->all.n && n < MANY; k++) {
        const search_candidate *one = z->all.at[k];
        n += is_to_look_at(z, one) && one->graph == c->graph &&
             one->n_stages == c->n_stages && one->schedule == c->schedule;
    }
    return n == MANY;
}

static int32_t list_many(const search_level0 *z, search_candidate **all,
                         int32_t n, search_candidate **list)
{
    int32_t n_list = 0;
    for (int32_t k = 0; k < n; k++)
        if (is_to_look_at(z, all[k]) && all[k]->schedule && !all[k]->shared &&
            has_many_beside(z, all[k]))
            list[n_list++] = all[k];
    return n_list;
}

static void mark_many(const search_level0 *z, search_candidate **all, int32_t n,
                      fs_arena *scratch)
{
    bool *many = fs_new(scratch, bool, n);
    for (int32_t k = 0; k < n; k++)
        many[k] = is_to_look_at(z, all[k]) && has_many_beside(z, all[k]);
    for (int32_t k = 0; k < n; k++)
        all[k]->looked |= many[k];
}

/* What shares say of all meshes at once comes first: of any cut, then of their
 * own. Where meshes are many that is all: nodes of each hardly say more of it,
 * and are looked at when it is cut or weighed. */
static void run_looks(search_level0 *z)
{
    fs_arena *scratch = fs_arena_create();
    search_candidate **all = fs_new(scratch, search_candidate *, z->all.n);
    int32_t n = next_batch(z, is_to_look_at, z->all.n, all);
    search_look_at_shares(z, all, n);
    search_candidate **list = fs_new(scratch, search_candidate *, n);
    search_share_own(z, list, list_many(z, all, n, list));
    mark_many(z, all, n, scratch);
    n = next_batch(z, is_to_look_at, z->all.n, all);
    search_crew_run(z, search_look, all, n);
    fs_arena_destroy(scratch);
}

static void run_cuts(search_level0 *z)
{
    enum { CUTS = 8 };
    search_candidate *batch[CUTS];
    fs_arena *scratch = fs_arena_create();
    search_candidate **all = fs_new(scratch, search_candidate *, z->all.n);
    const int32_t n = next_batch(z, is_to_cut, z->all.n, all);
    int32_t n_cut = 0, n_laid = 0;
    for (int32_t k = 0; k < n && n_cut < CUTS; k++) {
        if (!is_to_cut(z, all[k])) /* by what was said of all meshes */
            continue;
        if (search_lay_out_own(z, all[k]))
            batch[n_laid++] = all[k];
        n_cut += !search_proven(all[k]->record.lower_bound_s, search_enough(z));
    }
    search_crew_run(z, search_weigh_own, batch, n_laid);
    fs_arena_destroy(scratch);
}

/* The least bounds of those that are to be chosen from. */
static int32_t least_of(const search_level0 *z, choice *is_choice, int32_t most,
                        search_candidate **list)
{
    int32_t n = 0;
    while (n < most) {
        search_candidate *least = NULL;
        for (int32_t k = 0; k < z->all.n; k++) {
            search_candidate *c = z->all.at[k];
            bool had = false;
            for (int32_t i = 0; i < n; i++)
                had |= list[i] == c;
            if (!had && is_choice(z, c) &&
                (!least || search_by_bound(&c, &least) < 0))
                least = c;
        }
        if (!least)
            break;
        list[n++] = least;
    }
    return n;
}

static bool is_next(const search_level0 *z, const search_candidate *c)
{
    return is_open_yet(z, c) && c->looked && is_weighed(z, c) && c->schedule &&
           is_cut(z, c);
}

static bool is_to_press(const search_level0 *z, const search_candidate *c)
{
    return is_next(z, c) && search_may_press(z, c);
}

static bool is_to_attempt(const search_level0 *z, const search_candidate *c)
{
    return is_next(z, c) && !search_may_press(z, c);
}

static bool is_open(const search_level0 *z, const search_candidate *c)
{
    return !c->covered && !search_proven(search_bound(c), search_enough(z));
}

static fs_status attempt_few(search_level0 *z, fs_err *err)
{
    search_candidate *list[AT_ONCE];
    const int32_t n = least_of(z, is_to_attempt, AT_ONCE, list);
    int32_t n_worth = 0;
    for (int32_t k = 0; k < n; k++) {
        list[k]->tried = true;
        if (worth(z, list[k], 0) && !had_as_much(z, list[k], 0))
            list[n_worth++] = list[k];
    }
    return solve(z, list, n_worth, 0, err);
}

static int32_t attempts_of(const search_level0 *z, int32_t n_stages)
{
    int32_t n = 0;
    for (int32_t k = 0; k < z->all.n; k++)
        n += z->all.at[k]->n_stages == n_stages && z->all.at[k]->tried;
    return n;
}

/* Of those of which fewest with that number of stages were tried. */
static search_candidate *next_probe(const search_level0 *z)
{
    search_candidate *next = NULL;
    int32_t fewest = INT32_MAX;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (c->settled || c->tried || !c->looked || !is_weighed(z, c) ||
            !c->schedule || search_may_press(z, c) ||
            search_proven(c->record.lower_bound_s, search_enough(z)))
            continue;
        const int32_t tried = attempts_of(z, c->n_stages);
        if (tried > fewest ||
            (tried == fewest && search_by_bound(&c, &next) > 0))
            continue;
        fewest = tried;
        next = c;
    }
    return next;
}

/* Attempts out of turn: bounds of many stages are weaker, so that by bound
 * alone the best plan of few comes last. What is to be pressed waits for it. */
static fs_status probe(search_level0 *z, fs_err *err)
{
    search_candidate *list[AT_ONCE], *next;
    int32_t n = 0;
    while (n < AT_ONCE && (next = next_probe(z))) {
        next->tried = true;
        if (!had_as_much(z, next, 0))
            list[n++] = next;
    }
    return solve(z, list, n, 0, err);
}

/* Not where less of a gap is to be had later. Should the best plan not fit,
 * tables are made once more. */
static bool is_out_for_good(const search_level0 *z, const search_candidate *c)
{
    return z->problem->gap <= z->asked->gap &&
           search_proven(c->record.lower_bound_s, search_enough(z));
}

/* Prices and potentials are of what folds. What does not is for an attempt, and
 * has no tables before: most are spared them by what comes of the first. */
static int32_t prepare_folding(search_level0 *z, search_candidate **list,
                               int32_t n)
{
    search_candidate *ready[PRESSED];
    int32_t n_ready = 0, left = 0;
    for (int32_t k = 0; k < n; k++) {
        search_candidate *c = list[k];
        if (!c->unfolded) {
            ready[n_ready++] = c;
            continue;
        }
        c->pressed_s = search_enough(z);
        c->pressed_with_s = effort_of(z, c, 1);
    }
    n_ready = prepare_all(z, ready, n_ready, 1);
    search_crew_run(z, search_press_or_answer, ready, n_ready);
    for (int32_t k = 0; k < n; k++)
        if (list[k]->unfolded || !list[k]->settled || list[k]->answered)
            list[left++] = list[k];
    return left;
}

static fs_status press_few(search_level0 *z, fs_err *err)
{
    search_candidate *all[PRESSED], *list[PRESSED];
    const int32_t n_all = least_of(z, is_to_press, PRESSED, all);
    memcpy(list, all, sizeof all);
    int32_t n = search_ask_first(z, list, n_all), n_worth = 0;
    n = prepare_folding(z, list, n);
    for (int32_t k = 0; k < n; k++)
        search_carry_from(z, list[k]);
    FS_TRY(search_conclude_first(z, list, &n, err));
    search_note_pressed(z, all, n_all);
    for (int32_t k = 0; k < n; k++)
        if (list[k] != z->best && is_out_for_good(z, list[k]))
            search_drop_tables(list[k]);
    for (int32_t k = 0; k < n && n_worth < AT_ONCE; k++) {
        if (!(promises_much(z, list[k]) || list[k]->too_small) ||
            !worth(z, list[k], 0) || had_as_much(z, list[k], 0))
            continue;
        list[k]->tried = true;
        list[n_worth++] = list[k];
    }
    return solve(z, list, n_worth, 0, err);
}

/* What was enough when a configuration was pressed may be more than what is
 * now, or a pass gives it more work; settled or not, a bound by prices is had
 * for less than an engine's, unless bytes have prices, which an engine finds
 * sooner. */
static bool may_press_again(const search_level0 *z, const search_candidate *c,
                            int32_t pass)
{
    const bool more = effort_of(z, c, pass) > 2 * c->pressed_with_s;
    return c->solved && c->view && !z->problem->rounds && !search_narrowed(c) &&
           !c->reached_by_engine && (c->settled || !c->memory_binds) &&
           (search_may_press(z, c) || (c->pressed_s > 0 && more));
}

static int32_t list_again(const search_level0 *z, int32_t pass,
                          search_candidate **list)
{
    int32_t n = least_of(z, is_open, AT_ONCE, list);
    if (n == 0 || !may_press_again(z, list[0], pass))
        return 0;
    return n > 1 && may_press_again(z, list[1], pass) ? n : 1;
}

/* Where the least bound of all is not to be raised, others need not be. */
static void press_again(search_level0 *z, int32_t pass)
{
    search_candidate *list[AT_ONCE], *ready[AT_ONCE];
    bool settled[AT_ONCE];
    int32_t n;
    while (!search_round_over(z) && (n = list_again(z, pass, list)) > 0) {
        for (int32_t k = 0; k < n; k++) {
            ready[k] = list[k];
            settled[k] = list[k]->settled;
            list[k]->settled = false;
        }
        const int32_t n_ready = prepare_all(z, ready, n, pass);
        search_crew_run(z, search_press_one, ready, n_ready);
        for (int32_t k = 0; k < n; k++) {
            list[k]->settled |= settled[k];
            search_release(z, list[k]);
        }
        if (n_ready < n)
            return;
    }
}

/* Bounds serve to choose by, and to beat a plan: one configuration without is
 * attempted in any case. */
static bool is_alone(const search_level0 *z)
{
    int32_t n = 0;
    for (int32_t k = 0; k < z->all.n; k++)
        n += !z->all.at[k]->settled;
    return n == 1 && isinf(z->best_s);
}

/* Where there is a plan to begin with, those that differ from its configuration
 * by their mesh alone come first: the recipes that it is of know few meshes. */
static void put_first(search_level0 *z, bool first)
{
    const search_candidate *from = z->kept.from;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        c->first = first && from && z->round == 0 && c->graph == from->graph &&
                   c->n_stages == from->n_stages;
    }
}

/* What had the best plan but for moments that its network lacked. */
static fs_status attempt_first(search_level0 *z, fs_err *err)
{
    search_candidate *list[AT_ONCE];
    int32_t n = 0;
    for (int32_t k = 0; k < z->all.n && n < AT_ONCE; k++) {
        search_candidate *c = z->all.at[k];
        if (!c->retry)
            continue;
        c->retry = false;
        if (search_round_over(z) || !(c->record.lower_bound_s < z->best_s))
            continue;
        c->sought = true;
        list[n++] = c;
    }
    return solve(z, list, n, 0, err);
}

/* There is a better plan: what follows from it at once, as it says what is
 * enough of all others. */
static fs_status take_better(search_level0 *z, fs_err *err)
{
    while (z->round == 0 && search_learn_early(z))
        FS_TRY(attempt_first(z, err));
    put_first(z, false);
    search_lean_best(z);
    return search_recut_best(z, err);
}

/* Each is looked at only as long as its bound is the least: from seconds of its
 * nodes, from its tables, by prices, by a first attempt. After batches 1, 2, 4,
 * .. of those weighed there are attempts out of turn. */
static fs_status first_pass(search_level0 *z, fs_err *err)
{
    search_candidate *c;
    int32_t n_batches = 0;
    double best_s = z->best_s;
    put_first(z, true);
    while ((c = least_bound(z)) && !search_round_over(z)) {
        if (z->best_s < best_s)
            FS_TRY(take_better(z, err));
        best_s = z->best_s;
        if (c->looked && search_sweep_due(z)) {
            search_say(z, c, "swept");
            search_sweep(z);
            continue;
        }
        if (!worth(z, c, 0)) {
            c->tried = true;
        } else if (is_alone(z) && c->schedule) {
            c->looked = c->weighed = c->tried = true;
            FS_TRY(search_solve_few(z, &c, 1, 0, err));
        } else if (!c->looked) {
            search_say(z, c, "looked at");
            run_looks(z);
        } else if (c->schedule && !is_cut(z, c)) {
            search_say(z, c, "cut");
            run_cuts(z);
        } else if (!is_weighed(z, c)) {
            search_say(z, c, "weighed");
            run_batch(z, search_weigh, is_to_weigh, BATCH);
            n_batches++;
            if ((n_batches & (n_batches - 1)) == 0)
                FS_TRY(probe(z, err));
        } else if (!c->schedule) {
            search_tell_schedules_apart(z, c);
        } else if (search_may_press(z, c)) {
            FS_TRY(press_few(z, err));
        } else {
            FS_TRY(attempt_few(z, err));
        }
    }
    put_first(z, false);
    return FS_OK;
}

static fs_status first_look(search_level0 *z, fs_err *err)
{
    for (int32_t k = 0; k < z->all.n; k++)
        z->all.at[k]->tried = false;
    FS_TRY(attempt_first(z, err));
    return first_pass(z, err);
}

static fs_status look_first(search_level0 *z, fs_err *err)
{
    FS_TRY(first_look(z, err));
    while (z->round == 0 && search_learn_early(z))
        FS_TRY(first_look(z, err));
    if (z->round == 0)
        search_anchor_early(z);
    return FS_OK;
}

/* Attempts of a later pass. */
static fs_status solve_on(search_level0 *z, search_candidate **list, int32_t n,
                          int32_t pass, fs_err *err)
{
    const double best_s = z->best_s;
    FS_TRY(solve(z, list, n, pass, err));
    while (z->best_s < best_s && z->round == 0 && search_learn_early(z))
        FS_TRY(attempt_first(z, err));
    return FS_OK;
}

/* Best bound first, in passes of growing effort: a configuration that is hard
 * to close is often pruned by an easier one. The bound is that of the first
 * round: later ones only look for plans that fit. */
fs_status search_explore(search_level0 *z, fs_err *err)
{
    double most_s = z->problem->effort_s > 0 ? z->problem->effort_s : 1e9;
    search_begin_round(z);
    for (int32_t e = 0; e < N_EFFORTS; e++) {
        if (e && (effort_s[e - 1] >= most_s || (z->round && z->best)))
            break;
        if (z->round && e >= LATER_PASSES)
            break;
        if (e == 0)
            FS_TRY(look_first(z, err));
        if (e == 0 && z->round == 0)
            search_glance_early(z);
        search_sort(z);
        search_candidate *list[AT_ONCE];
        int32_t n = 0;
        for (int32_t k = 0; e > 0 && k < z->all.n; k++) {
            search_candidate *c = z->all.at[k];
            if (!worth(z, c, e) || had_as_much(z, c, e))
                continue;
            if (!c->schedule) /* the first pass did not come so far */
                search_tell_schedules_apart(z, c);
            if (c->unfolds) {
                FS_TRY(search_solve_whole(z, c, effort_of(z, c, e), err));
                continue;
            }
            list[n++] = c;
            if (n < AT_ONCE)
                continue;
            FS_TRY(solve_on(z, list, n, e, err));
            n = 0;
        }
        FS_TRY(solve_on(z, list, n, e, err));
        search_blend_open(z);
        press_again(z, e + 1 < N_EFFORTS ? e + 1 : e);
    }
    return FS_OK;
}

static fs_status check_problem(const search_problem *p, fs_err *err)
{
    if (!search_engine_find(p->engine) && !search_planner_find(p->engine))
        return fs_fail(err, FS_INVALID, "unknown engine '%.40s' (%s)",
                       p->engine, search_way_names());
    if (p->start && !search_planner_find(p->start))
        return fs_fail(err, FS_INVALID, "unknown planner '%.40s'", p->start);
    if (!plan_schedule_find(p->schedule))
        return fs_fail(err, FS_INVALID, "unknown schedule '%.40s' (%s)",
                       p->schedule, plan_schedule_names());
    if (p->fix_stages < 0 || p->fix_mesh.n > IR_MAX_MESH ||
        p->max_mesh_axes < 1 || p->max_mesh_axes > IR_MAX_MESH)
        return fs_fail(err, FS_INVALID,
                       "stages are 1 or more, mesh axes 1 to %d", IR_MAX_MESH);
    return FS_OK;
}

/* Plans, and whatever is told, need no tables. */
static void end_proof(search_level0 *z)
{
    for (int32_t k = 0; k < z->all.n; k++) {
        search_drop_tables(z->all.at[k]);
        search_forget_met(z->all.at[k]);
    }
    z->proof_s = search_seconds_since(z->start_ns);
}

/* *misled: a plan was taken to fit that does not. */
static fs_status run(const search_problem *problem, fs_arena *arena,
                     fs_err *err, search_result *out, bool *misled)
{
    const search_planner *planner = search_planner_find(problem->engine);
    search_problem looked_at = *problem;
    const int32_t wider = search_wider_graphs(problem);
    looked_at.graphs += wider;
    looked_at.n_graphs -= wider;
    if (planner)
        return search_by_planner(planner, &looked_at, arena, err, out);
    looked_at.gap = search_first_gap(problem);
    search_level0 z = {.asked = problem,
                       .problem = &looked_at,
                       .arena = arena,
                       .engine = search_engine_find(problem->engine),
                       .scratch = fs_arena_create(),
                       .book = problem->book,
                       .start_ns = fs_now_ns(),
                       .best_s = search_wanted(problem),
                       .lean_s = INFINITY};
    search_limit(&z);
    search_reserve(&z);
    search_rates_for(&z, 1, 1);
    *out = (search_result){.status = "infeasible"};
    search_enumerate(&z);
    z.shares = search_find_shares(&z);
    search_start(&z);
    search_begin_sweeps(&z);
    fs_status status = search_explore_fitting(&z, err);
    if (status == FS_OK)
        search_look_at_least(&z);
    if (status == FS_OK)
        status = search_recut(&z, err);
    if (status == FS_OK)
        status = search_tighten(&z, &looked_at.gap, err);
    if (status == FS_OK && search_ask_rivals(&z))
        status = search_recut(&z, err);
    if (status == FS_OK && problem->in_full)
        search_prove_every_cut(&z);
    if (status == FS_OK && problem->in_full && !problem->buckets && z.kept.from)
        out->sim_bound_s = search_sim_bound(&z);
    end_proof(&z);
    if (status == FS_OK)
        search_more_plans(&z);
    search_crew_dismiss(&z);
    *misled = false;
    if (status == FS_OK && z.kept.from)
        *misled = !search_fill_best(&z, out);
    else if (status == FS_OK)
        status = search_fill_none(&z, err, out);
    if (*misled)
        out->search_s = search_seconds_since(z.start_ns);
    out->steps = search_steps(&z);
    out->late = z.late || fs_end_reached(&z.end);
    search_drop_plans(&z);
    search_destroy_tables(&z);
    fs_arena_destroy(z.scratch);
    return status;
}

/* Again, and every plan is lowered, with what is left of limits, or half of
 * them. */
static fs_status run_surely(search_problem *one, fs_arena *arena, fs_err *err,
                            search_result *out)
{
    const double spent_s = out->search_s, done = (double)out->steps;
    bool misled;
    one->lowers_all = true;
    if (one->time_limit_s > 0)
        one->time_limit_s =
            fmax(one->time_limit_s - spent_s, one->time_limit_s / 2);
    if (one->most_steps > 0)
        one->most_steps = fmax(one->most_steps - done, one->most_steps / 2);
    const fs_status status = run(one, arena, err, out, &misled);
    out->search_s += spent_s;
    out->first_s += spent_s;
    out->steps += (int64_t)done;
    return status;
}

/* Searches within this one know what it knows. */
fs_status search_run(const search_problem *problem, fs_arena *arena,
                     fs_err *err, search_result *out)
{
    FS_TRY(check_problem(problem, err));
    search_problem one = *problem;
    if (!problem->known)
        one.known = search_known_create();
    bool misled = false;
    if (problem->outgrown && !search_known_in_a_row(&one))
        search_outgrow(problem);
    fs_status status = run(&one, arena, err, out, &misled);
    if (misled)
        status = run_surely(&one, arena, err, out);
    if (!problem->known)
        search_known_destroy(one.known);
    return status;
}
