#include "config.h"
#include "plan/actor_wakes.h"

/* Who reads what it makes. */
static uint64_t readers(const plan_actors *a, const int32_t *out, int32_t n)
{
    uint64_t bits = 0;
    for (int32_t i = 0; i < n; i++) {
        const plan_register *r = &a->role->registers[out[i]];
        for (int32_t k = 0; k < r->n_consumers; k++)
            bits |= plan_stream_bit(a->role->tasks[r->consumers[k]].stream);
    }
    return bits;
}

/* Who makes what it reads: others that read it may have let go before. */
static uint64_t makers(const plan_actors *a, const int32_t *in, int32_t n)
{
    uint64_t bits = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t maker = a->role->registers[in[i]].producer;
        bits |= maker < 0 ? 0 : plan_stream_bit(a->role->tasks[maker].stream);
    }
    return bits;
}

/* Who keeps a place behind it, or has a turn to compute after it. */
static uint64_t followers(const plan_actors *a, int32_t stream)
{
    const plan_stream *streams = a->role->streams;
    const bool in_turn =
        a->n_compute > 1 && streams[stream].kind == PLAN_STREAM_COMPUTE;
    uint64_t bits = 0;
    for (int32_t s = 0; s < a->role->n_streams; s++)
        if (a->leader[s] == stream ||
            (in_turn && streams[s].kind == PLAN_STREAM_COMPUTE))
            bits |= plan_stream_bit(s);
    return bits;
}

plan_actor_wakes plan_actor_wakes_of(const plan_actors *a, int32_t task)
{
    const plan_actor_uses *uses = &a->uses[task];
    const int32_t *in = a->in_out + uses->first, *out = in + uses->n_in;
    const int32_t stream = a->role->tasks[task].stream;
    const uint64_t each = plan_stream_bit(stream) | followers(a, stream) |
                          makers(a, in, uses->n_in_each) |
                          readers(a, out, uses->n_out_each);
    return (plan_actor_wakes){{each, each | makers(a, in, uses->n_in) |
                                         readers(a, out, uses->n_out)}};
}
