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

/* With turns as the credits have them, and then with more. */
typedef struct layouts {
    layout at[3];
    int32_t n;
} layouts;

static const layout *lowest_of(const layouts *all)
{
    const layout *lowest = &all->at[0];

    for (int32_t i = 1; i < all->n; i++)
        if (all->at[i].role.arena_bytes < lowest->role.arena_bytes)
            lowest = &all->at[i];
    return lowest;
}

/* More turns can lie in more ways, but fewer are what a search gets through:
 * all are tried but those that start more than twice as far from the bound. */
static void refine(const lowering *l, plan_role *role, layouts *all)
{
    double far = 2 * plan_role_gap(&lowest_of(all)->role);

    for (int32_t i = 0; i < all->n; i++) {
        if (is_settled(l, &lowest_of(all)->role))
            return;
        if (plan_role_gap(&all->at[i].role) > far)
            continue;
        give_layout(&all->at[i], role);
        plan_memory_refine(l->graph, role);
        all->at[i] = take_layout(l, role);
    }
}

/* Of few and many turns the lowest. */
static fs_status place_role(lowering *l, plan_role *role)
{
    int32_t turns[2], n;
    layouts all = {.n = 1};

    FS_TRY(assign(l, role));
    if (is_settled(l, role))
        return FS_OK;
    n = list_turns(role, l->strategy->micro_batches, turns);
    all.at[0] = take_layout(l, role);
    for (int32_t i = 0; i < n && !is_settled(l, &lowest_of(&all)->role); i++) {
        spread(role, turns[i]);
        FS_TRY(assign(l, role));
        all.at[all.n++] = take_layout(l, role);
    }
    if (l->options->refine)
        refine(l, role, &all);
    give_layout(lowest_of(&all), role);
    return FS_OK;
}

fs_status plan_lower_memory(lowering *l, plan *p)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        FS_TRY(place_role(l, &p->roles[r]));
    return FS_OK;
}
