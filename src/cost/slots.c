/* What of a pipeline the memory of its stages hangs on. */
#include "config.h"
#include "cost/memory_parts.h"

#include "plan/lower.h"

/* The fullest backward slot of a stage in its role's program: the first, or
 * one behind it. */
static cost_fullest fullest_of(const plan_slot *slots, int32_t n, int32_t chunk,
                               int32_t m, bool first)
{
    cost_fullest best = {0};
    int32_t begun = 0, ended = 0;
    for (int32_t i = 0; i < n; i++) {
        if (slots[i].chunk != chunk)
            continue;
        begun += slots[i].phase == PLAN_FORWARD;
        if (slots[i].phase != PLAN_BACKWARD)
            continue;
        int32_t held = begun - ended;
        if (held > best.in_flight ||
            (held == best.in_flight && !best.goes_on && !first))
            best = (cost_fullest){held, m - begun, m - ended - 1, ended > 0};
        ended++;
    }
    return best;
}

static void find_fullest(const plan_pipeline *pipe, cost_fullest *const out[2])
{
    const int32_t m = pipe->micro_batches;
    fs_arena *scratch = fs_arena_create();
    for (int32_t r = 0; r < pipe->n_roles; r++) {
        const int32_t n = plan_program_slots(pipe, r);
        plan_slot *slots = fs_new(scratch, plan_slot, n);
        plan_program_fill(pipe, r, slots);
        for (int32_t k = pipe->first[r]; k < pipe->first[r + 1]; k++)
            for (int32_t first = 0; first < 2; first++)
                out[first][pipe->stage[k]] = fullest_of(
                    slots, n, pipe->chunk_of[pipe->stage[k]], m, first);
    }
    fs_arena_destroy(scratch);
}

cost_slots cost_slots_of(const plan_pipeline *pipe, fs_arena *arena)
{
    cost_slots slots = {.pipe = *pipe,
                        .slot = {fs_new(arena, cost_fullest, pipe->n_stages),
                                 fs_new(arena, cost_fullest, pipe->n_stages)},
                        .pace = plan_pace_of(pipe, arena),
                        .prefetch = plan_lower_defaults().prefetch};
    find_fullest(pipe, slots.slot);
    return slots;
}

cost_slots *cost_slots_copy(const cost_slots *slots, fs_arena *arena)
{
    const int32_t n = slots->pace.n_stages;
    cost_slots *made = fs_memdup(arena, slots, sizeof *slots);
    for (int32_t first = 0; first < 2; first++)
        made->slot[first] = fs_memdup(arena, slots->slot[first],
                                      (size_t)n * sizeof *slots->slot[first]);
    made->pace.ends =
        fs_memdup(arena, slots->pace.ends,
                  3 * (size_t)n * (size_t)slots->pace.micro_batches *
                      sizeof *slots->pace.ends);
    return made;
}

int32_t cost_slots_received(const cost_slots *slots, int32_t from, int32_t to,
                            plan_phase made, bool kept)
{
    const int32_t least = kept ? slots->slot[false][to].in_flight : 1;
    const plan_crossing crossing = {from, to, made,
                                    kept ? PLAN_BACKWARD : made};
    return plan_pace_buffers(&slots->pace, &crossing, least) + slots->prefetch;
}

/* There are never more of them than micro-batches. */
static void put_count(const cost_slots *slots, int32_t n, ir_words *key)
{
    const int32_t m = slots->pipe.micro_batches;
    ir_put_word(key, n < m ? n : m);
}

void cost_put_slots(const cost_slots *slots, int32_t stage, const int32_t *from,
                    int32_t n, ir_words *key)
{
    put_count(slots, 2, key); /* of what is sent */
    ir_put_word(key, slots->pipe.schedule->splits);
    for (int32_t first = 0; first < 2; first++) {
        const cost_fullest *at = &slots->slot[first][stage];
        ir_put_word(key, at->in_flight);
        ir_put_word(key, at->goes_on);
        ir_put_word(key, at->forwards > 0);
        ir_put_word(key, at->backwards > 0);
    }
    for (int32_t k = 0; k < n; k++) {
        if (from[k] == stage)
            continue;
        for (int32_t kept = 0; kept < 2; kept++)
            put_count(
                slots,
                cost_slots_received(slots, from[k], stage, PLAN_FORWARD, kept),
                key);
        put_count(
            slots,
            cost_slots_received(slots, from[k], stage, PLAN_BACKWARD, false),
            key);
    }
}
