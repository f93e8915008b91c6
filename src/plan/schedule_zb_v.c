#include "config.h"

#include "plan/schedule.h"

/* Slots being appended; those of micro-batches beyond m are left out. */
typedef struct filling {
    plan_slot *slots;
    int32_t n, m;
    int32_t count[PLAN_PHASES][2]; /* appended, of each chunk */
} filling;

static void append(filling *f, plan_phase phase, int32_t chunk)
{
    int32_t k = f->count[phase][chunk]++;

    if (k < f->m)
        f->slots[f->n++] = (plan_slot){phase, k, chunk};
}

static void append_back(filling *f, int32_t chunk)
{
    append(f, PLAN_BACKWARD, chunk);
    append(f, PLAN_WEIGHT, chunk);
}

/* Forwards until the second chunk's gradients come back. */
static void fill_warm_up(filling *f, int32_t behind, int32_t role)
{
    for (int32_t k = 0; k < 2 * behind - 1; k++)
        append(f, PLAN_FORWARD, 0);
    for (int32_t k = 0; k < role; k++) {
        append(f, PLAN_FORWARD, 1);
        append(f, PLAN_FORWARD, 0);
    }
    for (int32_t k = 0; k < behind; k++) {
        append(f, PLAN_FORWARD, 1);
        append_back(f, 1);
    }
}

static void fill_cool_down(filling *f, int32_t behind, int32_t role)
{
    for (int32_t k = 0; k < role; k++) {
        append(f, PLAN_BACKWARD, 0);
        append(f, PLAN_BACKWARD, 1);
    }
    for (int32_t k = 0; k < behind; k++)
        append_back(f, 0);
    for (int32_t c = 1; c >= 0; c--)
        while (f->count[PLAN_WEIGHT][c] < f->count[PLAN_BACKWARD][c])
            append(f, PLAN_WEIGHT, c);
}

/* V (Qi et al. 2024, arXiv 2405.15362, V-ZB): two chunks, the second on the way
 * back, so that the last stage lies on the first role and every role holds as
 * much as 1f1b's first: 2 p half activations. No bubble when f = b = w. Of few
 * micro-batches the schedule of 2 p - 1 is taken and what is beyond left out.
 */
void plan_schedule_zb_v(const plan_turn *turn, plan_slot *slots)
{
    int32_t p = turn->n_roles, least = 2 * p - 1, behind = p - turn->role;
    filling f = {.slots = slots, .m = turn->micro_batches};
    int32_t n = f.m > least ? f.m : least;
    const int32_t *forwards = f.count[PLAN_FORWARD];

    fill_warm_up(&f, behind, turn->role);
    while (forwards[1] < forwards[0] || forwards[0] < n) {
        if (forwards[0] < n)
            append(&f, PLAN_FORWARD, 0);
        append_back(&f, 0);
        append(&f, PLAN_FORWARD, 1);
        append_back(&f, 1);
    }
    fill_cool_down(&f, behind, turn->role);
}
