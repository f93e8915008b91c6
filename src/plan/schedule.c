#include "config.h"

#include "plan/schedule.h"

#include <string.h>

typedef struct schedule_row {
    const char *name;
    plan_schedule_fn *fill;
} schedule_row;

static const schedule_row schedule_table[] = {
#define PLAN_SCHEDULE(id, name) {name, plan_schedule_##id},
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
};

enum { N_SCHEDULES = sizeof schedule_table / sizeof schedule_table[0] };

plan_schedule_fn *plan_schedule_find(const char *name)
{
    for (int32_t i = 0; i < N_SCHEDULES; i++)
        if (strcmp(schedule_table[i].name, name) == 0)
            return schedule_table[i].fill;
    return NULL;
}

const char *plan_schedule_names(void)
{
    /* Each name brings the comma before it; the first one is skipped. */
    static const char names[] =
#define PLAN_SCHEDULE(id, name) ", " name
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
        ;
    return names + 2;
}

void plan_schedule_program(const plan_strategy *strategy, int32_t stage,
                           plan_slot *slots)
{
    int32_t m = strategy->micro_batches;
    slots[0] = (plan_slot){PLAN_BEGIN, 0};
    plan_schedule_find(strategy->schedule)(stage, strategy->n_stages, m,
                                           slots + 1);
    slots[2 * m + 1] = (plan_slot){PLAN_END, m - 1};
}

int32_t plan_schedule_in_flight(const plan_slot *slots, int32_t n)
{
    int32_t now = 0, most = 0;

    for (int32_t i = 0; i < n; i++) {
        now += slots[i].phase == PLAN_FORWARD;
        most = now > most ? now : most;
        now -= slots[i].phase == PLAN_BACKWARD;
    }
    return most;
}

/* ---- the pace ---- */

enum { SENT = 2 }; /* buffers of what is sent: lower_finish.c */

static int32_t *pace_end(const plan_pace *pace, int32_t stage, plan_phase phase,
                         int32_t micro_batch)
{
    int32_t row = 2 * stage + (phase == PLAN_BACKWARD);

    return &pace->ends[(int64_t)row * pace->micro_batches + micro_batch];
}

/* The end of what a slot waits for on the next stage, 0 if there is none; -1:
 * not known yet. */
static int32_t awaited(const plan_pace *pace, int32_t stage,
                       const plan_slot *slot)
{
    int32_t other = slot->phase == PLAN_FORWARD ? stage - 1 : stage + 1, end;

    if (other < 0 || other == pace->n_stages)
        return 0;
    end = *pace_end(pace, other, slot->phase, slot->micro_batch);
    return end > 0 ? end : -1;
}

/* Runs a stage as far as it can go; returns how far. */
static int32_t run_stage(const plan_pace *pace, int32_t stage,
                         const plan_slot *slots, int32_t at)
{
    const plan_slot *before = at ? &slots[at - 1] : NULL;
    int32_t now =
        before ? *pace_end(pace, stage, before->phase, before->micro_batch) : 0;

    for (; at < 2 * pace->micro_batches; at++) {
        int32_t end = awaited(pace, stage, &slots[at]);
        if (end < 0)
            break;
        now = (now > end ? now : end) + 1;
        *pace_end(pace, stage, slots[at].phase, slots[at].micro_batch) = now;
    }
    return at;
}

plan_pace plan_pace_of(plan_schedule_fn *fill, int32_t n_stages, int32_t m,
                       fs_arena *arena)
{
    size_t n = 2 * (size_t)m, all = (size_t)n_stages * n;
    plan_pace pace = {n_stages, m, fs_new(arena, int32_t, all)};
    fs_arena *scratch = fs_arena_create();
    plan_slot *slots = fs_new(scratch, plan_slot, all);
    int32_t *at = fs_new(scratch, int32_t, n_stages);

    for (int32_t s = 0; s < n_stages; s++)
        fill(s, n_stages, m, slots + (size_t)s * n);
    for (bool moved = true; moved;) {
        moved = false;
        for (int32_t s = 0; s < n_stages; s++) {
            int32_t before = at[s];
            at[s] = run_stage(&pace, s, slots + (size_t)s * n, before);
            moved |= at[s] > before;
        }
    }
    fs_arena_destroy(scratch);
    return pace;
}

/* Most pieces that were begun and are not yet done with. */
static int32_t most_held(const plan_pace *pace, const plan_crossing *c)
{
    int32_t read = 0, most = 0;

    for (int32_t made = 0; made < pace->micro_batches; made++) {
        int32_t begin = *pace_end(pace, c->from, c->made, made) - 1;
        while (read < made && *pace_end(pace, c->to, c->read, read) <= begin)
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
