#include "config.h"

#include "plan/lower.h"
#include "plan/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Buffers that are worth a second placement; what refining a plan's offsets may
 * take, in steps: some seconds, however many roles it has. */
enum { MAX_SPREAD = 1 << 14 };
static const int64_t refine_steps = (int64_t)1 << 33;

/* A role's buffers, as one number of turns has them. */
typedef struct layout {
    plan_role role;
    plan_register *registers;
} layout;

static layout take_layout(const lowering *l, const plan_role *role)
{
    return (layout){
        *role, fs_memdup(l->scratch, role->registers,
                         (size_t)role->n_registers * sizeof *role->registers)};
}

static void give_layout(const layout *from, plan_role *role)
{
    plan_register *registers = role->registers;

    memcpy(registers, from->registers,
           (size_t)role->n_registers * sizeof *registers);
    *role = from->role;
    role->registers = registers;
}

/* Which registers get how many buffers: of all that share, or of those that
 * hold pieces of several micro-batches at once and are so large. */
typedef struct turns {
    int32_t n;
    bool all;
    int64_t bytes;
} turns;

static bool takes_turns(const plan_register *r, turns t)
{
    return !r->own_memory && !r->per_step &&
           (t.all || (r->count > 1 && r->bytes >= t.bytes));
}

static int32_t count_buffers(const plan_role *role, turns t)
{
    int64_t n = 0;

    for (int32_t i = 0; i < role->n_registers; i++)
        if (!role->registers[i].own_memory)
            n += takes_turns(&role->registers[i], t) ? t.n
                                                     : role->registers[i].count;
    return n > MAX_SPREAD ? MAX_SPREAD + 1 : (int32_t)n;
}

/* The program of one stream needs no credits to keep its order, so that what it
 * alone touches may have any number of buffers. One that all
 * micro-batches take turns in must lie where it does for each of them; with a
 * buffer per turn each can lie where its own micro-batch leaves room. */
static void spread(plan_role *role, turns t)
{
    for (int32_t i = 0; i < role->n_registers; i++) {
        plan_register *r = &role->registers[i];
        if (takes_turns(r, t) && r->count < t.n)
            r->count = t.n;
    }
}

/* Of what holds several the largest, down to some bytes. */
static turns turn_large(const plan_role *role, int32_t m)
{
    turns t = {m, false, 0};

    for (int32_t i = 0; i < role->n_registers; i++)
        if (role->registers[i].bytes > t.bytes)
            t.bytes = role->registers[i].bytes;
    while (t.bytes > 0) {
        turns more = {m, false, t.bytes / 2};
        if (count_buffers(role, more) > MAX_SPREAD)
            break;
        t = more;
    }
    return t;
}

/* As many as there are micro-batches, if not of all, of what weighs most; then
 * as many as are in flight: of other numbers those lie in other buffers each
 * time round. Of more buffers than some nothing comes in good time. */
static int32_t list_turns(const plan_role *role, int32_t m, turns list[2])
{
    const turns every = {m, true, 0}, large = turn_large(role, m);
    const turns flying = {
        plan_schedule_in_flight(role->slots + 1, role->n_slots - 2), true, 0};
    int32_t n = 0;

    if (m > 1 && count_buffers(role, every) <= MAX_SPREAD)
        list[n++] = every;
    else if (m > 1 && count_buffers(role, large) <= MAX_SPREAD)
        list[n++] = large;
    if (flying.n > 1 && flying.n < m &&
        count_buffers(role, flying) <= MAX_SPREAD)
        list[n++] = flying;
    return n;
}

/* 0: as low as it goes. */
static int64_t enough_bytes(const lowering *l, const plan_role *role)
{
    int64_t least = 0;

    for (int32_t c = 0; l->options->enough_bytes && c < role->n_chunks; c++) {
        int64_t bytes = l->options->enough_bytes[role->stages[c]];
        least = c == 0 || bytes < least ? bytes : least;
    }
    return least;
}

static fs_status assign(lowering *l, plan_role *role)
{
    plan_memory_wish wish = {l->options->share_memory, enough_bytes(l, role),
                             l->options->asks_fit, l->options->known};

    return plan_memory_assign(l->graph, wish, l->arena, l->err, role);
}

/* Low enough, or never. */
static bool is_settled(const lowering *l, const plan_role *role, double gap)
{
    int64_t enough = enough_bytes(l, role);

    return !l->options->share_memory || plan_role_gap(role) <= gap ||
           (enough > 0 &&
            (role->arena_bytes <= enough || role->bound_bytes > enough));
}

/* With turns as the credits have them, and then with more. */
typedef struct layouts {
    layout at[3];
    int32_t n;
} layouts;

static layout *lowest_of(layouts *all)
{
    layout *lowest = &all->at[0];

    for (int32_t i = 1; i < all->n; i++)
        if (all->at[i].role.arena_bytes < lowest->role.arena_bytes)
            lowest = &all->at[i];
    return lowest;
}

static int by_arena(const void *a, const void *b)
{
    const layout *x = a, *y = b;

    if (x->role.arena_bytes != y->role.arena_bytes)
        return x->role.arena_bytes < y->role.arena_bytes ? -1 : 1;
    return 0;
}

static void refine_one(const lowering *l, plan_effort effort, plan_role *role,
                       layout *at)
{
    give_layout(at, role);
    plan_memory_refine(l->graph, effort, role);
    *at = take_layout(l, role);
}

/* First what is not more than twice as far from the bound as the lowest: which
 * of them a search gets through, none tells before. Then the lowest, with twice
 * the steps each time. */
static void refine(const lowering *l, plan_role *role, int64_t steps,
                   layouts *all)
{
    enum { AGAIN = 3 };
    double far = 2 * plan_role_gap(&lowest_of(all)->role);
    plan_effort effort = {steps / (all->n + (2 << AGAIN) - 2), 1};

    qsort(all->at, (size_t)all->n, sizeof *all->at, by_arena);
    for (int32_t i = 0;
         i < all->n && !is_settled(l, &lowest_of(all)->role, PLAN_CLOSE_GAP);
         i++)
        if (plan_role_gap(&all->at[i].role) <= far)
            refine_one(l, effort, role, &all->at[i]);
    while (effort.seed++ <= AGAIN &&
           !is_settled(l, &lowest_of(all)->role, PLAN_CLOSE_GAP)) {
        effort.steps *= 2;
        refine_one(l, effort, role, lowest_of(all));
    }
}

static void tell(const lowering *l, const plan_role *role)
{
    char line[64];

    if (!l->options->progress)
        return;
    snprintf(line, sizeof line, "placing the memory of stage %d",
             (int)role->stages[0]);
    l->options->progress(l->options->progress_ctx, line);
}

/* Of few and many turns the lowest. */
static fs_status place_role(lowering *l, int64_t steps, plan_role *role)
{
    turns list[2];
    int32_t n;
    layouts all = {.n = 1};

    FS_TRY(assign(l, role));
    if (is_settled(l, role, PLAN_GREEDY_GAP))
        return FS_OK;
    n = list_turns(role, l->strategy->micro_batches, list);
    all.at[0] = take_layout(l, role);
    for (int32_t i = 0;
         i < n && !is_settled(l, &lowest_of(&all)->role, PLAN_GREEDY_GAP);
         i++) {
        give_layout(&all.at[0], role);
        spread(role, list[i]);
        FS_TRY(assign(l, role));
        all.at[all.n++] = take_layout(l, role);
    }
    if (l->options->refine) {
        tell(l, role);
        refine(l, role, steps, &all);
    }
    give_layout(lowest_of(&all), role);
    return FS_OK;
}

static bool same_task(const plan_task *a, const plan_task *b)
{
    return a->kind == b->kind && a->phase == b->phase &&
           a->stream == b->stream && a->scratch_bytes == b->scratch_bytes;
}

/* In as many buffers at most. */
static bool same_register(const plan_register *a, const plan_register *b)
{
    return a->bytes == b->bytes && a->per_step == b->per_step &&
           a->persistent == b->persistent && a->producer == b->producer &&
           a->n_consumers == b->n_consumers && a->count <= b->count &&
           (a->n_consumers == 0 ||
            memcmp(a->consumers, b->consumers,
                   (size_t)a->n_consumers * sizeof *a->consumers) == 0);
}

/* Does it run what the other runs, with no more in flight? */
static bool is_within(const plan_role *a, const plan_role *b)
{
    bool same = a->n_chunks == 1 && b->n_chunks == 1 &&
                a->n_tasks == b->n_tasks && a->n_registers == b->n_registers &&
                a->n_streams == b->n_streams;
    for (int32_t t = 0; same && t < a->n_tasks; t++)
        same = same_task(&a->tasks[t], &b->tasks[t]);
    for (int32_t i = 0; same && i < a->n_registers; i++)
        same = same_register(&a->registers[i], &b->registers[i]);
    return same;
}

/* Only whether it fits is asked, and another says so. */
static bool fits_within(const lowering *l, const plan *p, int32_t role)
{
    plan_role *at = &p->roles[role];
    const int64_t enough = enough_bytes(l, at);
    for (int32_t r = role - 1; r >= 0 && l->options->asks_fit; r--) {
        const plan_role *other = &p->roles[r];
        if (other->arena_bytes > enough || other->bound_bytes > enough ||
            !is_within(at, other))
            continue;
        at->arena_bytes = other->arena_bytes;
        at->bound_bytes = other->bound_bytes;
        return true;
    }
    return false;
}

fs_status plan_lower_memory(lowering *l, plan *p)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        if (!fits_within(l, p, r))
            FS_TRY(place_role(l, refine_steps / p->n_roles, &p->roles[r]));
    return FS_OK;
}
