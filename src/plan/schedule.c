#include "config.h"

#include "plan/schedule.h"

#include <math.h>
#include <string.h>

static const plan_schedule schedule_table[] = {
#define PLAN_SCHEDULE(id, name, placing, splits, passes, whole)                \
    {name, plan_schedule_##id, placing, splits, passes, whole},
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
};

enum { N_SCHEDULES = sizeof schedule_table / sizeof schedule_table[0] };

const plan_schedule *plan_schedule_find(const char *name)
{
    for (int32_t i = 0; i < N_SCHEDULES; i++)
        if (strcmp(schedule_table[i].name, name) == 0)
            return &schedule_table[i];
    return NULL;
}

const char *plan_schedule_names(void)
{
    /* Each name brings the comma before it; the first one is skipped. */
    static const char names[] =
#define PLAN_SCHEDULE(id, name, ...) ", " name
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
        ;
    return names + 2;
}

int32_t plan_schedule_slots(const plan_schedule *schedule,
                            const plan_turn *turn)
{
    return (schedule->splits ? 3 : 2) * turn->n_chunks * turn->micro_batches;
}

int32_t plan_schedule_pass(const plan_schedule *schedule, plan_phase phase)
{
    return schedule->passes > 1 && phase >= PLAN_BACKWARD;
}

int32_t plan_placing_role(plan_placing placing, int32_t n_roles, int32_t stage)
{
    int32_t at = stage % (2 * n_roles);

    if (placing == PLAN_PLACED_V)
        return at < n_roles ? at : 2 * n_roles - 1 - at;
    return stage % n_roles;
}

/* ---- what a role holds ---- */

int32_t plan_schedule_in_flight(const plan_slot *slots, int32_t n)
{
    int32_t now = 0, most = 0;
    plan_phase last = PLAN_BACKWARD;

    for (int32_t i = 0; i < n; i++)
        last = slots[i].phase == PLAN_WEIGHT ? PLAN_WEIGHT : last;
    for (int32_t i = 0; i < n; i++) {
        now += slots[i].phase == PLAN_FORWARD;
        most = now > most ? now : most;
        now -= slots[i].phase == last;
    }
    return most;
}

static bool same_section(plan_slot a, plan_slot b)
{
    return a.phase == b.phase && a.chunk == b.chunk;
}

int32_t plan_schedule_held(const plan_slot *slots, int32_t n, plan_slot from,
                           plan_slot to)
{
    int32_t now = 0, most = 0;

    for (int32_t i = 0; i < n; i++) {
        now += same_section(slots[i], from);
        most = now > most ? now : most;
        now -= same_section(slots[i], to);
    }
    return most;
}

/* ---- the pace ---- */

enum { SENT = 2 }; /* buffers of what is sent: lower_finish.c */

static int32_t *pace_end(const plan_pace *pace, int32_t stage, plan_phase phase,
                         int32_t micro_batch)
{
    int32_t row = 3 * stage + (int32_t)(phase - PLAN_FORWARD);

    return &pace->ends[(int64_t)row * pace->micro_batches + micro_batch];
}

/* The end of what a slot waits for on another stage, 0 if there is none; -1:
 * not known yet. */
static int32_t awaited(const plan_pace *pace, int32_t stage,
                       const plan_slot *slot)
{
    int32_t other = slot->phase == PLAN_FORWARD    ? stage - 1
                    : slot->phase == PLAN_BACKWARD ? stage + 1
                                                   : -1;
    int32_t end;

    if (other < 0 || other == pace->n_stages)
        return 0;
    end = *pace_end(pace, other, slot->phase, slot->micro_batch);
    return end > 0 ? end : -1;
}

/* A role on its way through its program. */
typedef struct runner {
    const int32_t *stage; /* by chunk */
    plan_slot *slots;
    int32_t n, at, now;
} runner;

/* Runs as far as it can; returns whether it moved. */
static bool run_role(const plan_pace *pace, const int32_t *units, runner *r)
{
    int32_t before = r->at;

    for (; r->at < r->n; r->at++) {
        const plan_slot *slot = &r->slots[r->at];
        int32_t stage = r->stage[slot->chunk];
        int32_t end = awaited(pace, stage, slot);
        if (end < 0)
            break;
        r->now = r->now > end ? r->now : end;
        r->now += units
                      ? units[3 * stage + (int32_t)(slot->phase - PLAN_FORWARD)]
                      : 1;
        *pace_end(pace, stage, slot->phase, slot->micro_batch) = r->now;
    }
    return r->at > before;
}

/* Slots of so many units each, [n_stages][3]; NULL: of one. */
static plan_pace pace_of(const plan_pipeline *pipe, const int32_t *units,
                         fs_arena *arena)
{
    int32_t m = pipe->micro_batches;
    plan_pace pace = {pipe->n_stages, m,
                      fs_new(arena, int32_t, 3 * (int64_t)pipe->n_stages * m)};
    fs_arena *scratch = fs_arena_create();
    runner *roles = fs_new(scratch, runner, pipe->n_roles);

    for (int32_t r = 0; r < pipe->n_roles; r++) {
        int32_t n = plan_program_slots(pipe, r);
        plan_slot *slots = fs_new(scratch, plan_slot, n);
        plan_program_fill(pipe, r, slots);
        roles[r] = (runner){.stage = &pipe->stage[pipe->first[r]],
                            .slots = slots + 1,
                            .n = n - 2};
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t r = 0; r < pipe->n_roles; r++)
            moved |= run_role(&pace, units, &roles[r]);
    }
    fs_arena_destroy(scratch);
    return pace;
}

plan_pace plan_pace_of(const plan_pipeline *pipe, fs_arena *arena)
{
    return pace_of(pipe, NULL, arena);
}

double plan_schedule_span(const plan_pipeline *pipe, const double *seconds)
{
    fs_arena *scratch = fs_arena_create();
    const int32_t rows = 3 * pipe->n_stages;
    int32_t *units = fs_new(scratch, int32_t, rows), end = 0;
    double sum = 0;

    for (int32_t i = 0; i < rows; i++)
        sum += seconds[i];
    /* One micro-batch after the other takes half of what an end can be. */
    const double unit = sum * pipe->micro_batches / (INT32_MAX / 2);
    for (int32_t i = 0; i < rows; i++)
        units[i] = (int32_t)fmax(1, seconds[i] / unit);
    const plan_pace pace = pace_of(pipe, units, scratch);
    for (int64_t i = 0; i < (int64_t)rows * pipe->micro_batches; i++)
        end = end > pace.ends[i] ? end : pace.ends[i];
    fs_arena_destroy(scratch);
    return end * unit;
}

/* From a role's first slot to the end of its last. */
static int32_t span_of(const plan_pace *pace, const plan_pipeline *pipe,
                       int32_t role)
{
    int32_t row = 3 * pace->micro_batches, start = INT32_MAX, end = 0;

    for (int32_t k = pipe->first[role]; k < pipe->first[role + 1]; k++) {
        const int32_t *ends = &pace->ends[(int64_t)row * pipe->stage[k]];
        start = start < ends[0] - 1 ? start : ends[0] - 1;
        for (int32_t i = 0; i < row; i++)
            end = end > ends[i] ? end : ends[i];
    }
    return end - start;
}

int32_t plan_schedule_enough(int32_t n_stages, int32_t micro_batches)
{
    enum { TIMES = 4 };
    const int32_t most = TIMES * n_stages;
    return micro_batches > most + n_stages ? most + micro_batches % n_stages
                                           : micro_batches;
}

double plan_schedule_fill(const plan_pipeline *of, const plan_stage *stages)
{
    if (of->schedule && of->schedule->whole)
        return 1;
    fs_arena *scratch = fs_arena_create();
    plan_pipeline few = *of;
    const plan_pipeline *pipe = &few;
    few.micro_batches = plan_schedule_enough(of->n_stages, of->micro_batches);
    int32_t m = pipe->micro_batches, p = pipe->n_roles;
    double fill = p > 1 ? 0 : 1;
    fs_err err = {0};

    if (!pipe->schedule || plan_pipeline_check(pipe, stages, &err) != FS_OK)
        p = fill = 1;
    plan_pace pace = p > 1 ? plan_pace_of(pipe, scratch) : (plan_pace){0};
    for (int32_t r = 0; p > 1 && r < p; r++) {
        int32_t work = plan_program_slots(pipe, r) - 2;
        double shows = span_of(&pace, pipe, r) - work;
        fill = fmax(fill, shows * m / ((p - 1) * (double)work));
    }
    fs_arena_destroy(scratch);
    return fmin(fill, 1);
}

/* Most pieces that were begun and are not yet done with. */
static int32_t most_held(const plan_pace *pace, const plan_crossing *c)
{
    const int32_t *made_at = pace_end(pace, c->from, c->made, 0),
                  *read_at = pace_end(pace, c->to, c->read, 0);
    int32_t read = 0, most = 0;

    for (int32_t made = 0; made < pace->micro_batches; made++) {
        const int32_t begin = made_at[made] - 1;
        while (read < made && read_at[read] <= begin)
            read++;
        most = made + 1 - read > most ? made + 1 - read : most;
    }
    return most;
}

int32_t plan_pace_buffers(const plan_pace *pace, const plan_crossing *crossing,
                          int32_t least)
{
    int32_t n = most_held(pace, crossing) - SENT;

    n = n > least ? n : least;
    return n < pace->micro_batches ? n : pace->micro_batches;
}
