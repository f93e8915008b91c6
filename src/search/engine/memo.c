#include "config.h"
#include "search/engine/memo.h"

#include "base/hash.h"

#include <string.h>

typedef struct search_memo_entry {
    const void *key;
    size_t bytes;
    uint64_t hash;
    int32_t value, next;
} entry;

/* Keys are compared: one step a word will do. */
static uint64_t hash_of(const void *key, size_t bytes)
{
    const unsigned char *at = key;
    uint64_t h = bytes, word = 0;
    for (; bytes >= sizeof word; at += sizeof word, bytes -= sizeof word) {
        memcpy(&word, at, sizeof word);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, at, bytes);
    return fs_mix(h ^ word);
}

static void grow(search_memo *memo)
{
    memo->n_buckets = memo->n_buckets ? 2 * memo->n_buckets : 256;
    memo->bucket = fs_new(memo->arena, int32_t, memo->n_buckets);
    for (int32_t b = 0; b < memo->n_buckets; b++)
        memo->bucket[b] = -1;
    memo->entries = fs_regrow(memo->arena, memo->entries, (size_t)memo->n,
                              (size_t)memo->n_buckets, sizeof(entry));
    for (int32_t e = 0; e < memo->n; e++) {
        entry *at = &memo->entries[e];
        int32_t *bucket =
            &memo->bucket[at->hash & (uint64_t)(memo->n_buckets - 1)];
        at->next = *bucket;
        *bucket = e;
    }
}

int32_t *search_memo_at(search_memo *memo, const void *key, size_t bytes)
{
    const uint64_t hash = hash_of(key, bytes);
    if (memo->n == memo->n_buckets)
        grow(memo);
    int32_t *bucket = &memo->bucket[hash & (uint64_t)(memo->n_buckets - 1)];
    for (int32_t e = *bucket; e >= 0; e = memo->entries[e].next) {
        entry *at = &memo->entries[e];
        if (at->hash == hash && at->bytes == bytes &&
            memcmp(at->key, key, bytes) == 0)
            return &at->value;
    }
    memo->entries[memo->n] =
        (entry){fs_memdup(memo->arena, key, bytes), bytes, hash, -1, *bucket};
    *bucket = memo->n++;
    return &memo->entries[*bucket].value;
}
