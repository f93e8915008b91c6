#include "config.h"
#include "plan/actor_repeat.h"

#include <string.h>

/* Buffers of a register in the mean, from which on a mark is wide: pipelines
 * have as many in flight as they have stages, but gpipe as many as there are
 * micro-batches. */
enum { WIDE = 64 };

plan_actors_mark *plan_actors_mark_create(const plan_actors *a, fs_arena *arena)
{
    const plan_role *role = a->role;
    plan_actors_mark *mark = fs_new(arena, plan_actors_mark, 1);
    for (int32_t k = 0; k < a->n_counted; k++)
        mark->n_readers += role->registers[a->counted[k]].count;
    mark->wide = mark->n_readers > (int64_t)WIDE * a->n_counted;
    mark->produced = fs_new(arena, int64_t, a->n_counted);
    mark->released = fs_new(arena, int64_t, a->n_counted);
    mark->readers = fs_new(arena, int32_t, mark->n_readers);
    mark->cursor = fs_new(arena, plan_cursor, role->n_streams);
    return mark;
}

static void copy(void *to, const void *from, int32_t n, size_t size)
{
    if (n > 0)
        memcpy(to, from, (size_t)n * size);
}

void plan_actors_mark_set(const plan_actors *a, plan_actors_mark *mark)
{
    for (int32_t k = 0; k < a->n_counted; k++) {
        mark->produced[k] = a->produced[a->counted[k]];
        mark->released[k] = a->released[a->counted[k]];
    }
    copy(mark->cursor, a->cursor, a->role->n_streams, sizeof *a->cursor);
    mark->full = false;
    if (!mark->wide)
        plan_actors_mark_fill(a, mark);
}

void plan_actors_mark_fill(const plan_actors *a, plan_actors_mark *mark)
{
    if (!mark->full)
        copy(mark->readers, a->readers, mark->n_readers, sizeof *a->readers);
    mark->full = true;
}

/* ---- have they come to the same state? ---- */

static bool moved(const plan_actors *a, const plan_actors_mark *mark,
                  int32_t stream)
{
    const plan_cursor *x = &mark->cursor[stream], *y = &a->cursor[stream];
    return x->step != y->step || x->slot != y->slot || x->task != y->task ||
           x->busy != y->busy;
}

static plan_shift shift_of(const plan_actors *a, const plan_cursor *from,
                           const plan_cursor *to)
{
    const plan_slot *slots = a->role->slots;
    return (plan_shift){(int32_t)(to->step - from->step), to->slot - from->slot,
                        slots[to->slot].micro_batch -
                            slots[from->slot].micro_batch};
}

/* By a step, or within one. */
static bool is_shift(const plan_shift *s)
{
    return s->steps ? s->steps == 1 && s->slots == 0 : s->slots > 0;
}

/* All that moved have come equally far. */
static bool cursor_repeats(const plan_actors *a, const plan_actors_mark *mark,
                           int32_t stream, plan_shift *shift)
{
    const plan_cursor *x = &mark->cursor[stream], *y = &a->cursor[stream];
    if (!moved(a, mark, stream))
        return true;
    if (x->task != y->task || x->busy != y->busy)
        return false;
    const plan_shift its = shift_of(a, x, y);
    if (!shift->steps && !shift->slots)
        *shift = its;
    return is_shift(&its) && its.steps == shift->steps &&
           its.slots == shift->slots &&
           its.micro_batches == shift->micro_batches;
}

/* Pieces of a register since the mark. */
static bool is_due(const plan_actors *a, const plan_register *r, int64_t by,
                   const plan_shift *shift)
{
    if (!shift->steps)
        return by == 0 || by == shift->micro_batches;
    if (r->producer < 0)
        return by == 0;
    return by == (r->per_step || r->persistent ? 1 : a->plan->micro_batches);
}

/* Buffers are used in turn: a piece that is as many later lies as many
 * further on. */
static bool register_repeats(const plan_actors *a, const plan_actors_mark *mark,
                             int32_t k, plan_shift shift)
{
    const int32_t reg = a->counted[k];
    const int32_t count = a->role->registers[reg].count;
    const int32_t *was = mark->readers + a->registers[reg].first_buffer;
    const int32_t *is = a->readers + a->registers[reg].first_buffer;
    const int64_t by = a->produced[reg] - mark->produced[k];
    if (a->released[reg] - mark->released[k] != by ||
        !is_due(a, &a->role->registers[reg], by, &shift))
        return false;
    for (int32_t i = 0; i < count; i++)
        if (is[(i + by) % count] != was[i])
            return false;
    return true;
}

bool plan_actors_repeat(const plan_actors *a, const plan_actors_mark *mark,
                        plan_shift *shift)
{
    *shift = (plan_shift){0};
    if (!mark->full)
        return false;
    for (int32_t s = 0; s < a->role->n_streams; s++)
        if (!cursor_repeats(a, mark, s, shift))
            return false;
    for (int32_t s = 0; s < a->role->n_streams && shift->steps; s++)
        if (a->cursor[s].task >= 0 && !moved(a, mark, s))
            return false;
    for (int32_t k = 0; k < a->n_counted; k++)
        if (!register_repeats(a, mark, k, *shift))
            return false;
    return true;
}

/* ---- how often may it come again? ---- */

/* The first and the last firing of a section do what the others do not: they
 * claim, hand on and release what there is once per step. */
static bool is_usual(const plan_actors *a, int32_t slot)
{
    const int32_t section = a->section[slot];
    return slot != a->first_slot[section] && slot != a->last_slot[section];
}

static bool slot_repeats(const plan_actors *a, int32_t slot, plan_shift shift)
{
    const plan_slot *slots = a->role->slots;
    return a->section[slot] == a->section[slot - shift.slots] &&
           slots[slot].micro_batch ==
               slots[slot - shift.slots].micro_batch + shift.micro_batches;
}

/* Slots of a step that streams have passed since the mark, or stand at. */
typedef struct range {
    int64_t step;
    int32_t first, last;
} range;

static range passed(const plan_actors *a, const plan_actors_mark *mark)
{
    range r = {0, INT32_MAX, -1};
    for (int32_t s = 0; s < a->role->n_streams; s++) {
        if (!moved(a, mark, s))
            continue;
        r.step = a->cursor[s].step;
        if (mark->cursor[s].slot < r.first)
            r.first = mark->cursor[s].slot;
        if (a->cursor[s].slot > r.last)
            r.last = a->cursor[s].slot;
    }
    return r;
}

/* Streams that stand still are passed by none: who goes first hangs on that. */
static int32_t end_of(const plan_actors *a, const plan_actors_mark *mark,
                      const range *r)
{
    int32_t end = a->role->n_slots;
    for (int32_t s = 0; s < a->role->n_streams; s++) {
        const plan_cursor *c = &a->cursor[s];
        if (!moved(a, mark, s) && c->task >= 0 && c->step == r->step &&
            c->slot >= r->first && c->slot < end)
            end = c->slot;
    }
    return end;
}

/* Its step, or does it wait for that to begin? */
static bool has_begun(const plan_actors *a, int32_t stream)
{
    const plan_cursor *c = &a->cursor[stream];
    const int32_t *first = &a->first_on_stream[stream * a->n_sections];
    if (c->busy || plan_actor_ready(a, stream) ||
        c->task != first[a->section[c->slot]])
        return true;
    for (int32_t slot = 0; slot < c->slot; slot++)
        if (first[a->section[slot]] >= 0)
            return true;
    return false;
}

/* Nobody begins a step that is none of these. What fires once per step, at its
 * begin, stands at the next one all along: behind the last it has ended. */
static int32_t steps_left(const plan_actors *a)
{
    int64_t last = 0;
    for (int32_t s = 0; s < a->role->n_streams; s++) {
        const plan_cursor *c = &a->cursor[s];
        const int64_t its = c->step - (c->task >= 0 && !has_begun(a, s));
        if (c->task >= 0 && its > last)
            last = its;
    }
    return (int32_t)(a->steps - 1 - last);
}

int32_t plan_actors_repeats_left(const plan_actors *a,
                                 const plan_actors_mark *mark, plan_shift shift)
{
    if (shift.steps)
        return steps_left(a);
    if (!shift.slots)
        return INT32_MAX;
    const range r = passed(a, mark);
    const int32_t end = end_of(a, mark, &r);
    int32_t slot = r.first;
    while (slot < end && is_usual(a, slot) &&
           (slot < r.first + shift.slots || slot_repeats(a, slot, shift)))
        slot++;
    return slot <= r.last ? 0 : (slot - 1 - r.last) / shift.slots;
}

/* ---- once more, and again ---- */

static void turn_buffers(plan_actors *a, int32_t reg, int64_t by)
{
    enum { FEW = 64 };
    const int32_t count = a->role->registers[reg].count;
    int32_t few[FEW], *is = a->readers + a->registers[reg].first_buffer;
    by %= count;
    for (; by > 0; by -= by < FEW ? by : FEW) { /* by so many at a time */
        const int32_t n = (int32_t)(by < FEW ? by : FEW);
        memcpy(few, is + count - n, (size_t)n * sizeof *is);
        memmove(is + n, is, (size_t)(count - n) * sizeof *is);
        memcpy(is, few, (size_t)n * sizeof *is);
    }
}

void plan_actors_skip(plan_actors *a, const plan_actors_mark *mark,
                      plan_shift shift, int32_t times)
{
    for (int32_t s = 0; s < a->role->n_streams; s++)
        if (moved(a, mark, s)) {
            a->cursor[s].step += times * shift.steps;
            a->cursor[s].slot += times * shift.slots;
            a->cursor[s].piece +=
                times * ((int64_t)shift.steps * a->plan->micro_batches +
                         shift.micro_batches);
            if (a->cursor[s].step == a->steps) {
                a->cursor[s].task = -1;
                a->cursor[s].slot = 0;
            }
        }
    for (int32_t k = 0; k < a->n_counted; k++) {
        const int32_t r = a->counted[k];
        const int64_t by = times * (a->produced[r] - mark->produced[k]);
        a->produced[r] += by;
        a->released[r] += by;
        turn_buffers(a, r, by);
    }
}
