/* A table from keys to numbers (memo.c). Internal to this folder. */
#ifndef FS_SEARCH_MEMO_H
#define FS_SEARCH_MEMO_H

#include "base/arena.h"

/* Table from a key of any bytes to a number. */
typedef struct search_memo {
    fs_arena *arena;
    struct search_memo_entry *entries;
    int32_t n, n_buckets;
    int32_t *bucket;
} search_memo;
/* The number's place, made and set to -1 when the key is new; it moves when
 * the next key is added. */
int32_t *search_memo_at(search_memo *memo, const void *key, size_t bytes);

#endif
