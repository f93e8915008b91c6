/* The slow, obvious check of static offsets: play the compute stream's program
 * for some steps and look whether any two live pieces share a byte. */
#ifndef FS_TESTS_PLAN_LIVE_H
#define FS_TESTS_PLAN_LIVE_H

#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct live_piece {
    int32_t reg;
    int64_t piece, from, to;
} live_piece;

typedef struct live_set {
    const plan_role *role;
    live_piece at[4096];
    int32_t n;
    int32_t clashes;
    int64_t bytes, most_bytes;
} live_set;

/* `turn`: the piece's number in its step. */
static inline void live_add(live_set *set, int32_t reg, int64_t piece,
                            int32_t turn)
{
    const plan_register *r = &set->role->registers[reg];
    int64_t from = r->offset[turn % r->count];

    for (int32_t i = 0; i < set->n; i++) {
        const live_piece *p = &set->at[i];
        if (p->reg == reg && p->piece == piece)
            return; /* accumulates */
        if (from < p->to && p->from < from + r->bytes)
            set->clashes++;
    }
    set->at[set->n++] = (live_piece){reg, piece, from, from + r->bytes};
    set->bytes += r->bytes;
    if (set->bytes > set->most_bytes)
        set->most_bytes = set->bytes;
}

static inline void live_remove(live_set *set, int32_t reg)
{
    int32_t oldest = -1;

    for (int32_t i = 0; i < set->n; i++)
        if (set->at[i].reg == reg &&
            (oldest < 0 || set->at[i].piece < set->at[oldest].piece))
            oldest = i;
    if (oldest < 0) {
        set->clashes++;
        return;
    }
    set->bytes -= set->role->registers[reg].bytes;
    set->at[oldest] = set->at[--set->n];
}

static inline int32_t live_section(const plan_role *role, int32_t slot)
{
    return plan_slot_section(role, &role->slots[slot]);
}

/* Will a consumer of the register run later on for this micro-batch (of a
 * per-step one: in this step)? */
static inline bool live_read_again(const plan_role *role,
                                   const plan_register *r, int32_t t,
                                   int32_t slot)
{
    int32_t mb = role->slots[slot].micro_batch;

    for (int32_t s = slot; s < role->n_slots; s++)
        for (int32_t c = -1; c < r->n_consumers; c++) {
            int32_t reader = c < 0 ? r->producer : r->consumers[c];
            if (plan_task_section(role, &role->tasks[reader]) ==
                    live_section(role, s) &&
                (r->per_step || role->slots[s].micro_batch == mb) &&
                (s > slot || reader > t))
                return true;
        }
    return false;
}

static inline bool live_touches(const plan_register *r, int32_t t)
{
    bool touches = r->producer == t;

    for (int32_t c = 0; c < r->n_consumers; c++)
        touches = touches || r->consumers[c] == t;
    return touches;
}

static inline void live_task(live_set *set, int32_t t, int32_t slot,
                             int64_t step, int32_t m)
{
    const plan_role *role = set->role;
    const plan_task *task = &role->tasks[t];

    for (int32_t o = 0; o < task->n_out; o++) {
        const plan_register *r = &role->registers[task->out[o]];
        int32_t turn = r->per_step ? 0 : role->slots[slot].micro_batch;
        if (!r->own_memory)
            live_add(set, task->out[o],
                     r->per_step ? step : step * m + turn, turn);
    }
    for (int32_t i = 0; i < role->n_registers; i++) {
        const plan_register *r = &role->registers[i];
        if (!r->own_memory && live_touches(r, t) &&
            !live_read_again(role, r, t, slot))
            live_remove(set, i);
    }
}

/* Pieces that clash in `steps` steps; *most_bytes (may be NULL): most shared
 * bytes live at once. */
static inline int32_t live_clashes(const plan_role *role, int32_t m,
                                   int64_t steps, int64_t *most_bytes)
{
    live_set *set = calloc(1, sizeof *set);
    int32_t clashes;

    set->role = role;
    for (int64_t step = 0; step < steps; step++)
        for (int32_t s = 0; s < role->n_slots; s++)
            for (int32_t t = 0; t < role->n_tasks; t++)
                if (plan_task_section(role, &role->tasks[t]) ==
                        live_section(role, s) &&
                    role->tasks[t].stream == 0)
                    live_task(set, t, s, step, m);
    clashes = set->clashes + set->n; /* nothing may be left over */
    if (most_bytes)
        *most_bytes = set->most_bytes;
    free(set);
    return clashes;
}

static inline int64_t live_scratch(const plan_role *role, int32_t stream)
{
    int64_t most = 0;

    for (int32_t t = 0; t < role->n_tasks; t++)
        if (role->tasks[t].stream == stream &&
            role->tasks[t].scratch_bytes > most)
            most = role->tasks[t].scratch_bytes;
    return most;
}

/* Registers with memory of their own and scratch: pairwise apart, apart from
 * all shared bytes, inside the arena, aligned. Returns faults. */
static inline int32_t live_own_faults(const plan_role *role)
{
    int64_t *from = calloc(1 << 16, sizeof *from), *to;
    bool *own = calloc(1 << 16, sizeof *own);
    int32_t n = 0, faults = 0;

    to = calloc(1 << 16, sizeof *to);
    for (int32_t i = 0; i < role->n_registers; i++)
        for (int32_t c = 0; c < role->registers[i].count; c++) {
            const plan_register *r = &role->registers[i];
            own[n] = r->own_memory;
            from[n] = r->offset[c];
            to[n++] = r->offset[c] + r->bytes;
        }
    for (int32_t s = 0; s < role->n_streams; s++) {
        own[n] = true;
        from[n] = role->stream_scratch[s];
        to[n] = from[n] + live_scratch(role, s);
        n++;
    }
    for (int32_t i = 0; i < n; i++) {
        faults += from[i] < 0 || to[i] > role->arena_bytes ||
                  from[i] % PLAN_ALIGN != 0;
        for (int32_t k = 0; k < i; k++)
            faults += (own[i] || own[k]) && from[i] < to[k] &&
                      from[k] < to[i] && from[i] < to[i] && from[k] < to[k];
    }
    free(from);
    free(to);
    free(own);
    return faults;
}

static inline int64_t live_bytes_sum(const plan_role *role)
{
    int64_t sum = 0;

    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        sum += role->bytes[k];
    return sum;
}

#endif
