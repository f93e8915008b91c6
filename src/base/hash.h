/* 64-bit hashing (digests of models, plans, weights), a string map, and
 * counter-based random numbers. Not cryptographic. */
#ifndef FS_BASE_HASH_H
#define FS_BASE_HASH_H

#include "base/arena.h"

uint64_t fs_mix(uint64_t x); /* splitmix64's finaliser */
uint64_t fs_hash(uint64_t seed, const void *data, size_t bytes);
uint64_t fs_hash_text(uint64_t seed, const char *text);

/* 16 hex digits and a terminator. */
void fs_hex(uint64_t digest, char out[17]);

/* Map from text to int32_t; keys are borrowed. */
typedef struct fs_map_slot {
    const char *key; /* NULL: free */
    uint32_t hash;
    int32_t value;
} fs_map_slot;

typedef struct fs_map {
    fs_arena *arena;
    fs_map_slot *slot; /* [room] */
    int32_t n, room;
} fs_map;
/* The value's place, made and set to -1 when the key is new. */
int32_t *fs_map_at(fs_map *map, const char *key);
/* -1 when the key is missing. */
int32_t fs_map_get(const fs_map *map, const char *key);
void fs_map_remove(fs_map *map, const char *key); /* if it is there */
void fs_map_reserve(fs_map *map, int32_t n);      /* for n keys in all */
/* The value v becomes to[v], keys for which that is -1 go. */
void fs_map_renumber(fs_map *map, const int32_t *to);
/* The same keys and values in `arena`. */
fs_map fs_map_copy(const fs_map *map, fs_arena *arena);

/* Sequential generator: the seed is the state. */
uint64_t fs_rand(uint64_t *state);
double fs_rand_unit(uint64_t *state);                  /* [0, 1) */
int64_t fs_rand_below(uint64_t *state, int64_t limit); /* [0, limit) */

/* Counter-based: value `counter` of stream `seed`, whoever asks, so that any
 * shard of a tensor can be drawn alone. */
double fs_draw_unit(uint64_t seed, uint64_t counter);
double fs_draw_normal(uint64_t seed, uint64_t counter);

#endif
