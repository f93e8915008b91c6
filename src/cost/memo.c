/* What is remembered of a model: values by keys, direct-mapped. */
#include "config.h"
#include "cost/parts.h"

#include "base/hash.h"

#include <stdalign.h>
#include <string.h>

struct cost_memo {
    size_t key_bytes, value_bytes, slot_bytes, value_at, n;
    char *slots; /* [n] is it used, a key, a value */
};

static size_t aligned(size_t bytes)
{
    const size_t to = alignof(max_align_t);
    return (bytes + to - 1) / to * to;
}

cost_memo *cost_memo_create(size_t key_bytes, size_t value_bytes, size_t slots,
                            fs_arena *arena)
{
    FS_ASSERT((slots & (slots - 1)) == 0);
    cost_memo *memo = fs_new(arena, cost_memo, 1);
    memo->key_bytes = key_bytes;
    memo->value_bytes = value_bytes;
    memo->value_at = aligned(1 + key_bytes);
    memo->slot_bytes = memo->value_at + aligned(value_bytes);
    memo->slots = fs_alloc(arena, slots, memo->slot_bytes);
    memo->n = slots;
    return memo;
}

void *cost_memo_at(cost_memo *memo, const void *key, bool *known)
{
    const uint64_t hash = fs_hash(0, key, memo->key_bytes);
    char *slot = memo->slots + (hash & (memo->n - 1)) * memo->slot_bytes;
    char *value = slot + memo->value_at;
    *known = slot[0] && memcmp(slot + 1, key, memo->key_bytes) == 0;
    if (!*known) {
        slot[0] = true;
        memcpy(slot + 1, key, memo->key_bytes);
        memset(value, 0, memo->value_bytes);
    }
    return value;
}
