/* When a search ends: what ends it is work, counted in steps, so that it does
 * the same wherever and beside whatever it runs. A clock has a say only where
 * the limit on time is reached, or where steps take so much longer than they
 * should that nothing would be left for what comes later. */
#include "config.h"
#include "search/effort.h"

#include "search/anchor.h"
#include "search/attempt.h"

#include "base/clock.h"

#include <math.h>

/* Of the limit: after that much work, when memory decides, plans that fit are
 * looked for; after that much time in any case. */
#define ROUND_WORK 0.5
#define ROUND_TIME 0.75
/* The same where the best plan does not fit: its cost is no plan's, so that
 * proving more of it is worth less. */
#define MISFIT_WORK 0.125
/* The first one's while most of what is pressed is ruled out: so a proof is
 * within reach, and what comes later would look for plans that it rules out.
 * Without a limit on work the clock alone ends it. */
#define PROOF_WORK 0.8
/* Later rounds have at least that much of it, where steps took less long than
 * they should. */
#define LATER_WORK 0.125
/* What the planner that it starts from gets; more of it until it has a plan.
 * Its recipes say little of what is best where memory decides. */
#define START_WORK 0.1
#define START_MOST 0.5
#define START_TIME 0.5
/* And its best configurations, without recipes. */
#define FREEING_WORK 0.05
#define FREEING_TIME 0.3
/* Lean plans of one configuration get that much of what is left. */
#define LEAN_WORK 0.5
/* The same beside the first pass, where there are others to ask. */
#define SWEEP_WORK 0.25
/* They begin when so much of all work was done: a first pass that ends before
 * needs none. */
#define SWEEP_AFTER 0.2
/* Scouts take at most so much of it, each and all together. */
#define SCOUT_WORK 0.01
#define SCOUTS_WORK 0.05
/* Rivals together get as much as was done, but where that is little so much. */
#define RIVALS_WORK_S 6
/* A first attempt gets no more of it than that. */
#define FIRST_WORK 0.05

static int64_t whole(double steps)
{
    return steps < 9e18 ? (int64_t)steps : INT64_MAX;
}

double search_most_steps(const search_problem *problem)
{
    const double s = problem->time_limit_s > 0 ? problem->time_limit_s : 1e8;
    const double most =
        problem->most_steps > 0 ? problem->most_steps : INFINITY;
    return fmin(FS_STEPS_PER_S * s, most);
}

void search_limit(search_level0 *z)
{
    const search_problem *problem = z->problem;
    const double s = problem->time_limit_s > 0 ? problem->time_limit_s : 1e8;
    z->end = fs_end_after(z->start_ns, s, problem->stop);
    if (problem->end && problem->end->wall_ns < z->end.wall_ns)
        z->end = *problem->end;
    z->most_steps =
        problem->most_steps > 0 ? whole(problem->most_steps) : INT64_MAX;
}

fs_end search_start_end(const search_level0 *z, search_problem *one)
{
    const double steps = search_most_steps(z->problem);
    one->soon_steps = START_WORK * steps;
    one->most_steps = START_MOST * steps;
    return fs_end_share(&z->end, START_TIME);
}

fs_end search_freeing_end(const search_level0 *z, double *most_steps)
{
    *most_steps =
        (double)search_steps(z) + FREEING_WORK * search_most_steps(z->problem);
    return fs_end_share(&z->end, FREEING_TIME);
}

double search_first_effort(const search_level0 *z)
{
    return FIRST_WORK * search_most_steps(z->problem) / FS_STEPS_PER_S;
}

int64_t search_steps(const search_level0 *z)
{
    int64_t steps = z->other_steps;
    for (int32_t k = 0; k < z->all.n; k++)
        steps += z->all.at[k]->steps;
    return steps;
}

static bool reached(search_level0 *z, const fs_end *end)
{
    const bool is = fs_end_reached(end);
    z->late |= is;
    return is;
}

bool search_is_outgrown(const search_problem *problem)
{
    return problem->outgrown && atomic_load(problem->outgrown);
}

void search_outgrow(const search_problem *problem)
{
    atomic_store(problem->outgrown, true);
}

bool search_over(search_level0 *z)
{
    return search_is_outgrown(z->problem) || search_steps(z) >= z->most_steps ||
           reached(z, &z->end);
}

void search_begin_round(search_level0 *z)
{
    const double all = search_most_steps(z->problem),
                 done = (double)search_steps(z);
    const double left = fmax(all - done, LATER_WORK * all);
    z->round_end = fs_end_share(&z->end, ROUND_TIME);
    z->round_steps = whole(done + ROUND_WORK * left);
}

void search_shorten_round(search_level0 *z)
{
    const double all = search_most_steps(z->problem),
                 done = (double)search_steps(z);
    const int64_t steps = whole(done + MISFIT_WORK * fmax(all - done, 0));
    z->round_steps = steps < z->round_steps ? steps : z->round_steps;
}

bool search_rules_out(const search_level0 *z)
{
    return 2 * z->n_ruled_out > z->n_pressed;
}

void search_note_pressed(search_level0 *z, search_candidate *const *list,
                         int32_t n)
{
    const int64_t steps = z->most_steps < INT64_MAX
                              ? whole(PROOF_WORK * (double)z->most_steps)
                              : INT64_MAX;
    for (int32_t k = 0; k < n && z->round == 0; k++) {
        const search_candidate *c = list[k];
        z->n_pressed++;
        z->n_ruled_out +=
            c->settled || c->too_small ||
            search_proven(c->record.lower_bound_s, search_enough(z));
    }
    if (z->round == 0 && z->kept.from && search_rules_out(z) &&
        steps > z->round_steps)
        z->round_steps = steps;
}

bool search_round_over(search_level0 *z)
{
    return search_steps(z) >= z->round_steps || reached(z, &z->round_end) ||
           search_over(z);
}

double search_rivals_end(const search_level0 *z)
{
    const double done = (double)search_steps(z);
    return fmin(done + fmax(done, RIVALS_WORK_S * FS_STEPS_PER_S),
                (double)z->most_steps);
}

fs_deadline search_rest(const search_level0 *z, search_candidate *c)
{
    double left = INFINITY;
    if (z->most_steps < INT64_MAX)
        left = (double)(z->most_steps - search_steps(z));
    return fs_deadline_after(left, &c->steps, z->end);
}

fs_deadline search_lean_rest(const search_level0 *z, search_candidate *c)
{
    const double part =
        z->sweeps && z->sweeps->sweeping ? SWEEP_WORK : LEAN_WORK;
    double left = INFINITY;
    if (z->most_steps < INT64_MAX)
        left = part * (double)(z->most_steps - search_steps(z));
    return fs_deadline_after(left, &c->steps, z->end);
}

fs_deadline search_scout_rest(const search_level0 *z, search_candidate *c)
{
    return fs_deadline_after(SCOUT_WORK * search_most_steps(z->problem),
                             &c->steps, z->end);
}

double search_scouts_end(const search_level0 *z)
{
    return fmin((double)search_steps(z) +
                    SCOUTS_WORK * search_most_steps(z->problem),
                (double)z->most_steps);
}

bool search_sweep_is_next(const search_level0 *z)
{
    const int64_t done = search_steps(z);
    return (double)done >= SWEEP_AFTER * search_most_steps(z->problem) &&
           2 * z->sweeps->steps <= done - z->sweeps->begun;
}

double search_attempt_left(const search_level0 *z)
{
    int64_t most = z->most_steps;
    if (z->memory_decides && z->round_steps < most)
        most = z->round_steps;
    return most < INT64_MAX ? (double)(most - search_steps(z)) : INFINITY;
}

fs_deadline search_attempt(const search_level0 *z, search_candidate *c,
                           double seconds)
{
    return fs_deadline_after(
        fmin(FS_STEPS_PER_S * seconds, search_attempt_left(z)), &c->steps,
        z->memory_decides ? z->round_end : z->end);
}
