/* The slow, obvious check of static offsets: play a role for some steps through
 * the actor protocol, its streams in a drawn interleaving, and look whether any
 * two live pieces share a byte. */
#ifndef FS_TESTS_PLAN_LIVE_H
#define FS_TESTS_PLAN_LIVE_H

#include "base/hash.h"
#include "plan/actor.h"

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

/* The head of the stream starts: it claims what it writes. */
static inline void live_fire(live_set *set, plan_actors *a, int32_t stream)
{
    const plan_task *task = &set->role->tasks[plan_actor_head(a, stream)];

    for (int32_t o = 0; o < task->n_out; o++) {
        const plan_register *r = &set->role->registers[task->out[o]];
        if (!r->own_memory)
            live_add(set, task->out[o],
                     plan_actor_piece(a, stream, task->out[o], true),
                     r->per_step ? 0 : plan_actor_micro_batch(a, stream));
    }
    plan_actor_fire(a, stream);
}

/* It ends: what nobody else reads is free. */
static inline void live_done(live_set *set, plan_actors *a, int32_t stream)
{
    const plan_task *task = &set->role->tasks[plan_actor_head(a, stream)];
    int64_t before[IR_MAX_IN + IR_MAX_OUT];
    int32_t regs[IR_MAX_IN + IR_MAX_OUT], n = 0;

    for (int32_t i = 0; i < task->n_in; i++)
        regs[n++] = task->in[i];
    for (int32_t o = 0; o < task->n_out; o++)
        regs[n++] = task->out[o];
    for (int32_t i = 0; i < n; i++)
        before[i] = a->released[regs[i]];
    plan_actor_done(a, stream);
    for (int32_t i = 0; i < n; i++) {
        bool again = false;
        for (int32_t k = 0; k < i; k++)
            again = again || regs[k] == regs[i];
        if (!again && !set->role->registers[regs[i]].own_memory &&
            a->released[regs[i]] > before[i])
            live_remove(set, regs[i]);
    }
}

/* One move that the protocol allows, drawn by the seed, if there is any of
 * another stream not that of the slow one; false: there is none. */
static inline bool live_move(live_set *set, plan_actors *a, int32_t slow,
                             uint64_t *seed)
{
    int32_t n = set->role->n_streams;
    int32_t first = (int32_t)fs_rand_below(seed, n);

    for (int32_t i = 0; i <= n; i++) {
        int32_t stream = i == n ? slow : (first + i) % n;
        if (plan_actor_head(a, stream) < 0 || (i < n && stream == slow))
            continue;
        if (a->cursor[stream].busy)
            live_done(set, a, stream);
        else if (plan_actor_ready(a, stream))
            live_fire(set, a, stream);
        else
            continue;
        return true;
    }
    return false;
}

/* Pieces that clash in `steps` steps of one interleaving of the role's streams
 * (what it gets from other roles is there at once); *most_bytes (may be NULL):
 * most shared bytes live at once. */
static inline int32_t live_clashes(const plan_role *role, int32_t m,
                                   int64_t steps, int64_t *most_bytes)
{
    live_set *set = calloc(1, sizeof *set);
    fs_arena *arena = fs_arena_create();
    plan p = {.micro_batches = m};
    plan_actors *a = plan_actors_create(&p, role, steps, arena);
    uint64_t seed = (uint64_t)role->n_tasks;
    int32_t clashes, slow = 0, moves = 0;

    set->role = role;
    while (live_move(set, a, slow, &seed))
        if (moves++ % 64 == 0)
            slow = (int32_t)fs_rand_below(&seed, role->n_streams);
    /* All ends, and nothing is left over. */
    clashes = set->clashes + set->n + !plan_actors_finished(a);
    if (most_bytes)
        *most_bytes = set->most_bytes;
    fs_arena_destroy(arena);
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
