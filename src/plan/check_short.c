/* A plan of many micro-batches by one of few. Its structure was found sound, so
 * that its programs are those of its schedule; where all of them repeat so many
 * micro-batches in their middle, the plan with repetitions left out is looked
 * at. What it says holds of the whole:
 *
 * Order: two roles that issue the same on a line for a whole repetition, of
 * which both repeat, do so for one more.
 *
 * Liveness: what has to fire before all of the first x micro-batches is a set
 * that nothing outside leads into. Where the set of x + d (d micro-batches: a
 * repetition) is that of x moved on by d in every task, and both end within
 * what all roles repeat, what lies between them can be put in again and again:
 * places lead from a micro-batch to the same one or a later one, streams to the
 * next slot, both moved on likewise, so that none leads back. No cycle is in
 * the first set, none between the two, none in what remains.
 *
 * Memory (of a role): repetitions after which all that shares lies in the same
 * buffers (shorten.c).
 *
 * Whatever is found wrong is told of the whole plan, as if this had not been
 * tried. */
#include "config.h"

#include "plan/check_live.h"
#include "plan/shorten.h"

/* ---- the cut ---- */

typedef struct reaching {
    const plan_live *x;
    int32_t *at;    /* [slots] micro-batch; -1: BEGIN; all of them: END */
    int32_t *reach; /* [firings] the first micro-batch that waits for it */
} reaching;

static void set_times(reaching *y)
{
    const plan_live *x = y->x;
    const plan *p = x->c->p;
    y->at = fs_new(x->c->scratch, int32_t, x->slot_base[p->n_roles]);
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t s = 0; s < p->roles[r].n_slots; s++) {
            const plan_slot *slot = &p->roles[r].slots[s];
            y->at[x->slot_base[r] + s] = slot->phase == PLAN_BEGIN ? -1
                                         : slot->phase == PLAN_END
                                             ? p->micro_batches
                                             : slot->micro_batch;
        }
}

static int32_t sooner(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Of all that waits for a firing the reach is known. */
static int32_t reach_of(const reaching *y, int32_t f)
{
    const plan_live *x = y->x;
    const plan_live_slot *slot = &x->slots[x->slot_of[f]];
    const int32_t task = slot->task + f - slot->first;
    int32_t least = y->at[x->slot_of[f]];
    for (int32_t w = x->first_wire[task]; w < x->first_wire[task + 1]; w++) {
        const int32_t to = plan_live_end(x, slot, &x->wires[w]);
        if (to >= 0)
            least = sooner(least, y->reach[x->meets[to]]);
    }
    if (x->after[f] >= 0)
        least = sooner(least, y->reach[x->meets[x->after[f]]]);
    for (int32_t g = x->led[f]; g; g = x->next_led[g])
        least = sooner(least, y->reach[x->meets[g]]);
    return least;
}

static void set_reaches(reaching *y, const int32_t *order, int32_t n)
{
    const plan_live *x = y->x;
    y->reach = fs_new(x->c->scratch, int32_t, x->n);
    while (n-- > 0) {
        int32_t f = order[n], least = INT32_MAX;
        do {
            least = sooner(least, reach_of(y, f));
            f = x->next_met[f];
        } while (f != order[n]);
        y->reach[f] = least;
    }
}

/* Firings of a task, by the micro-batch. */
typedef struct firings {
    const int32_t *row;
    int32_t delta;
} firings;

static int32_t reach_at(const reaching *y, const firings *of, int32_t mb)
{
    return y->reach[y->x->meets[of->row[mb] + of->delta]];
}

/* How many of a task's firings have to be before those of the first micro-
 * batches; a stream has them in their order. */
static int32_t count_before(const reaching *y, const firings *of, int32_t until)
{
    int32_t low = 0, high = y->x->c->p->micro_batches;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (reach_at(y, of, middle) < until)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Is the set of a repetition more that of the first, moved on? */
static bool task_moves_on(const reaching *y, int32_t role, int32_t task)
{
    const plan_live *x = y->x;
    const plan_check_cut *cut = x->c->cut;
    const plan_role *r = &x->c->p->roles[role];
    const int32_t section = plan_task_section(r, &r->tasks[task]);
    const int32_t d = cut->micro_batches, until = cut->low + d;
    const firings of = {&x->rows[(int64_t)(x->row_base[role] + section) *
                                 x->c->p->micro_batches],
                        task - x->c->section_first[role][section]};
    if (r->tasks[task].phase == PLAN_BEGIN)
        return true; /* in both */
    if (r->tasks[task].phase == PLAN_END)
        return reach_at(y, &of, 0) >= until + d; /* in neither */
    const int32_t n = count_before(y, &of, until);
    return n >= cut->low && n + d <= cut->high &&
           count_before(y, &of, until + d) == n + d;
}

/* ---- what a repetition more has ---- */

static void count_again(const plan_live *x)
{
    const plan *p = x->c->p;
    plan_check_cut *cut = x->c->cut;
    const int32_t low = cut->low, high = low + cut->micro_batches;
    int64_t n = 0, transitions = 0, wires = 0;
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        for (int32_t s = 0; s < role->n_slots; s++) {
            const plan_live_slot *slot = &x->slots[x->slot_base[r] + s];
            if (plan_phase_once(role->slots[s].phase) ||
                slot->micro_batch < low || slot->micro_batch >= high)
                continue;
            n += slot->n;
            for (int32_t f = slot->first; f < slot->first + slot->n; f++)
                transitions += x->meets[f] == f;
        }
        for (int32_t i = 0; i < role->n_registers; i++) {
            const plan_register *g = &role->registers[i];
            if (g->producer >= 0 && !g->per_step && !g->persistent)
                wires += g->n_consumers;
        }
    }
    cut->n_transitions = transitions;
    cut->n_places = n + x->n_led_again + 2 * wires * cut->micro_batches;
}

void plan_check_find_cut(const plan_live *x, const int32_t *order, int32_t n)
{
    const plan *p = x->c->p;
    reaching y = {.x = x};
    bool holds = true;
    set_times(&y);
    set_reaches(&y, order, n);
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks && holds; t++)
            holds = task_moves_on(&y, r, t);
    x->c->cut->holds = holds;
    count_again(x);
}

/* ---- the shorter plan ---- */

/* So many micro-batches of all repetitions are kept at least; returns how many
 * are left out. */
static int32_t leave_out(const plan *p, const plan_repetition *all,
                         int32_t keep, fs_arena *arena, plan *shorter,
                         plan_check_cut *cut)
{
    const int32_t times = plan_repetition_times(all, keep);
    const int32_t left_out = times * all->micro_batches;
    *shorter = plan_leave_out(p, all, times, arena);
    *cut = (plan_check_cut){.micro_batches = all->micro_batches,
                            .low = all->low,
                            .high = all->high - left_out};
    cut->window_first = fs_new(arena, int32_t, p->n_roles);
    cut->window_end = fs_new(arena, int32_t, p->n_roles);
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_period *its = &all->periods[r];
        cut->window_first[r] = its->first + its->slots;
        cut->window_end[r] = its->first + 2 * its->slots;
    }
    return left_out;
}

/* ---- its check ---- */

/* A role by itself, in as many micro-batches as its own buffers want. */
static void shorten_lives(const plan *p, int32_t r, fs_arena *arena,
                          plan_check_lives *out)
{
    const int32_t m = p->micro_batches;
    const plan_short_role shorter =
        plan_role_shorten_lives(&p->roles[r], m, arena);
    const plan_short_runs runs =
        plan_role_shorten_runs(&shorter.role, shorter.micro_batches, arena);
    plan_role *roles = fs_new(arena, plan_role, p->n_roles);
    roles[r] = runs.role;
    roles[r].registers = p->roles[r].registers;
    *out = (plan_check_lives){*p, runs.first, runs.left_out};
    out->p.roles = roles;
    out->p.micro_batches = runs.micro_batches;
}

static bool has_sound_memory(const plan_check_lives *lives, plan_checking *c)
{
    const plan *p = c->p;
    plan_checking its = *c;
    int64_t total = 0;
    its.slot_base = fs_new(c->scratch, int32_t *, p->n_roles);
    its.n_firings = fs_new(c->scratch, int32_t, p->n_roles);
    its.section_first = fs_new(c->scratch, int32_t *, p->n_roles);
    for (int32_t r = 0; r < p->n_roles; r++) {
        its.p = &lives[r].p;
        if (!plan_check_number(&its, r, &total))
            return false;
    }
    its.p = p;
    its.lives = lives;
    plan_check_memory(&its);
    return c->report->n == 0;
}

bool plan_check_short_memory(plan_checking *c)
{
    plan_finding findings[PLAN_MOST_FINDINGS];
    plan_report report = {.findings = findings};
    plan_checking its = *c;
    its.report = &report;
    its.arena = its.scratch = fs_arena_create();
    its.works = (ir_works){.arena = its.scratch};
    plan_check_lives *lives =
        fs_new(its.scratch, plan_check_lives, c->p->n_roles);
    for (int32_t r = 0; r < c->p->n_roles; r++)
        shorten_lives(c->p, r, its.scratch, &lives[r]);
    const bool sound = has_sound_memory(lives, &its);
    fs_arena_destroy(its.scratch);
    if (sound)
        c->report->peak_bytes_max = report.peak_bytes_max;
    return sound;
}

/* Too few micro-batches around the cut tell nothing, so more are taken then. */
static bool is_sound_and_live(const plan_repetition *all, plan_checking *c,
                              plan_report *report)
{
    const plan *p = c->p;
    int32_t keep = 4 * (all->micro_batches + p->strategy->n_stages), left_out;
    bool first = true;
    plan shorter;
    plan_check_cut cut;
    for (; (left_out = leave_out(p, all, keep, c->scratch, &shorter, &cut)) >=
               p->micro_batches / 2 &&
           left_out > 0;
         keep *= 4) {
        c->p = &shorter;
        c->cut = &cut;
        if (!plan_check_unroll(c))
            return false;
        if (first) {
            plan_check_strategy(c);
            plan_check_sbp(c);
        }
        first = false;
        plan_check_order(c);
        if (c->report->n > 0)
            return false;
        plan_check_live(c);
        if (c->report->n > 0)
            return false;
        if (!cut.holds)
            continue;
        const int64_t times = left_out / cut.micro_batches;
        report->n_transitions += times * cut.n_transitions;
        report->n_places += times * cut.n_places;
        report->left_out = left_out;
        return true;
    }
    return false;
}

bool plan_check_short(plan_checking *c)
{
    plan_finding findings[PLAN_MOST_FINDINGS];
    plan_report report = {.findings = findings};
    plan_checking its = *c;
    plan_repetition all;
    its.report = &report;
    its.arena = its.scratch = its.works.arena = fs_arena_create();
    const bool sound = plan_repetition_of(c->p, its.scratch, &all) &&
                       is_sound_and_live(&all, &its, &report) &&
                       plan_check_short_memory(c);
    fs_arena_destroy(its.scratch);
    if (!sound)
        return false;
    report.peak_bytes_max = c->report->peak_bytes_max;
    report.findings = c->report->findings;
    *c->report = report;
    return true;
}
