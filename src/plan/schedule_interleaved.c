#include "config.h"

#include "plan/schedule.h"

/* Interleaved one forward, one backward (Narayanan et al. 2021, arXiv
 * 2104.04473, section 2.2): chunk k of role r is stage k p + r. p micro-batches
 * go through all chunks before the next p begin, forward and backward alike;
 * role r is 2 (p - r - 1) + (v - 1) p forwards ahead, then alternates. With m a
 * multiple of p the bubble is (p - 1) (f + b) / v, where 1f1b's is v times that
 * (f, b: of all chunks of a role).
 *
 * Of an m that is no multiple the schedule of the next one is taken and what is
 * beyond m left out: a shorter last group would wait in a circle. */

/* The micro-batch and chunk of the k-th forward; of the k-th backward the
 * chunks count from the last. */
static plan_slot forward_at(const plan_turn *turn, int32_t k)
{
    int32_t p = turn->n_roles, v = turn->n_chunks;

    return (plan_slot){PLAN_FORWARD, k / (p * v) * p + k % p, k / p % v};
}

static plan_slot backward_at(const plan_turn *turn, int32_t k)
{
    plan_slot slot = forward_at(turn, k);

    return (plan_slot){PLAN_BACKWARD, slot.micro_batch,
                       turn->n_chunks - 1 - slot.chunk};
}

/* How many slots a role runs ahead. */
static int32_t count_ahead(const plan_turn *turn)
{
    int32_t behind = turn->n_roles - turn->role - 1;

    return turn->n_chunks == 1
               ? behind
               : 2 * behind + (turn->n_chunks - 1) * turn->n_roles;
}

void plan_schedule_interleaved(const plan_turn *turn, plan_slot *slots)
{
    int32_t m = turn->micro_batches, p = turn->n_roles, n = 0;
    int32_t all = (m + p - 1) / p * p * turn->n_chunks;
    int32_t ahead = count_ahead(turn);

    for (int32_t k = -ahead; k < all; k++) {
        plan_slot slot = {0, m, 0};
        if (k + ahead < all)
            slot = forward_at(turn, k + ahead);
        if (slot.micro_batch < m)
            slots[n++] = slot;
        slot.micro_batch = m;
        if (k >= 0)
            slot = backward_at(turn, k);
        if (slot.micro_batch < m)
            slots[n++] = slot;
    }
}
