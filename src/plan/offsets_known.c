/* Placements that were found before. A search, who ranks its plans and who
 * lowers the one that is chosen ask about the same packings. */
#include "config.h"
#include "plan/offsets.h"

#include "base/hash.h"

/* Of a packing with the same two digests. Offsets are proven by plan_check,
 * whatever they come from. */
typedef struct placement {
    uint64_t digest[2];
    int32_t n;
    int64_t enough_bytes, height_bytes;
    int64_t *offset; /* [n] */
} placement;

struct plan_known {
    fs_arena *arena;
    FS_VEC(placement) all;
};

plan_known *plan_known_create(fs_arena *arena)
{
    plan_known *known = fs_new(arena, plan_known, 1);
    known->arena = arena;
    return known;
}

static uint64_t digest_of(const plan_packing *p, uint64_t seed)
{
    uint64_t h = fs_mix(seed ^ (uint64_t)p->n_sections);
    for (int32_t i = 0; i < p->n; i++) {
        const plan_buffer *b = &p->buffers[i];
        const int64_t is[] = {b->bytes, b->copies, b->copy, b->n_spans};
        h = fs_hash(h, is, sizeof is);
        h = fs_hash(h, b->spans, (size_t)b->n_spans * sizeof *b->spans);
    }
    return h;
}

/* Placing tries the same one after the other until one is low enough. So what
 * was found when as much was enough, or when less was wanted and it is low
 * enough all the same or nothing was, is what would be found now. */
static bool answers(const placement *k, const plan_packing *p)
{
    if (k->enough_bytes == p->enough_bytes)
        return true;
    return p->enough_bytes >= p->bound_bytes &&
           p->enough_bytes < k->enough_bytes &&
           (k->height_bytes <= p->enough_bytes ||
            k->height_bytes > k->enough_bytes);
}

static void note(plan_known *known, const plan_packing *p,
                 const uint64_t digest[2])
{
    placement made = {.digest = {digest[0], digest[1]},
                      .n = p->n,
                      .enough_bytes = p->enough_bytes,
                      .height_bytes = p->height_bytes,
                      .offset = fs_new(known->arena, int64_t, p->n)};
    for (int32_t i = 0; i < p->n; i++)
        made.offset[i] = p->buffers[i].offset;
    fs_push(known->arena, &known->all, made);
}

/* What the first orders place is placed in less time than it is looked up. */
enum { WORTH = 256 };

void plan_offsets_place_known(plan_packing *p, plan_known *known)
{
    if (!known || p->n < WORTH) {
        plan_offsets_place(p);
        return;
    }
    const uint64_t digest[2] = {digest_of(p, 1), digest_of(p, 2)};
    for (int32_t k = 0; k < known->all.n; k++) {
        const placement *at = &known->all.at[k];
        if (at->digest[0] != digest[0] || at->digest[1] != digest[1] ||
            at->n != p->n || !answers(at, p))
            continue;
        p->height_bytes = at->height_bytes;
        for (int32_t i = 0; i < p->n; i++)
            p->buffers[i].offset = at->offset[i];
        return;
    }
    plan_offsets_place(p);
    note(known, p, digest);
}
