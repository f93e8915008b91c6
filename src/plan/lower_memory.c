#include "config.h"

#include "plan/lower.h"
#include "plan/memory.h"

#include <string.h>

enum { MAX_SPREAD = 1 << 14 }; /* buffers that are worth a second placement */

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

static int32_t count_shared(const plan_role *role)
{
    int32_t n = 0;

    for (int32_t i = 0; i < role->n_registers; i++)
        n += !role->registers[i].own_memory && !role->registers[i].per_step;
    return n;
}

/* The program of one stream needs no credits to keep its order, so that what it
 * alone touches may have any number of buffers. One that all
 * micro-batches take turns in must lie where it does for each of them; with a
 * buffer per turn each can lie where its own micro-batch leaves room. */
static void spread(plan_role *role, int32_t turns)
{
    for (int32_t i = 0; i < role->n_registers; i++) {
        plan_register *r = &role->registers[i];
        if (!r->own_memory && !r->per_step && r->count < turns)
            r->count = turns;
    }
}

/* As many as micro-batches are in flight; then as many as there are, or as are
 * not too many buffers. */
static int32_t list_turns(const plan_role *role, int32_t m, int32_t turns[2])
{
    int32_t most = MAX_SPREAD / (count_shared(role) + 1), n = 0;
    int32_t f = plan_schedule_in_flight(role->slots + 1, role->n_slots - 2);

    most = m < most ? m : most;
    if (f > 1 && f < most)
        turns[n++] = f;
    if (most > 1)
        turns[n++] = most;
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
    plan_memory_wish wish = {l->options->share_memory, enough_bytes(l, role)};

    return plan_memory_assign(l->graph, wish, l->arena, l->err, role);
}

/* Low enough, or never. */
static bool is_settled(const lowering *l, const plan_role *role)
{
    int64_t enough = enough_bytes(l, role);

    return !l->options->share_memory || plan_memory_is_close(role) ||
           (enough > 0 &&
            (role->arena_bytes <= enough || role->bound_bytes > enough));
}

/* Of few and many turns the lowest. Where none will do, those of the most turns
 * are refined: they can lie in most ways. */
static fs_status place_role(lowering *l, plan_role *role)
{
    int32_t turns[2], n;
    layout lowest;

    FS_TRY(assign(l, role));
    if (is_settled(l, role))
        return FS_OK;
    n = list_turns(role, l->strategy->micro_batches, turns);
    lowest = take_layout(l, role);
    for (int32_t i = 0; i < n && !is_settled(l, &lowest.role); i++) {
        spread(role, turns[i]);
        FS_TRY(assign(l, role));
        if (role->arena_bytes < lowest.role.arena_bytes)
            lowest = take_layout(l, role);
    }
    if (l->options->refine && !is_settled(l, &lowest.role)) {
        plan_memory_refine(l->graph, role);
        if (role->arena_bytes < lowest.role.arena_bytes)
            lowest = take_layout(l, role);
    }
    give_layout(&lowest, role);
    return FS_OK;
}

fs_status plan_lower_memory(lowering *l, plan *p)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        FS_TRY(place_role(l, &p->roles[r]));
    return FS_OK;
}
