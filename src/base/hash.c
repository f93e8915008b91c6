#include "config.h"
#include "base/hash.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

uint64_t fs_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t fs_hash(uint64_t seed, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    uint64_t h = fs_mix(seed ^ (0x9e3779b97f4a7c15u + bytes));
    for (; bytes >= 8; at += 8, bytes -= 8) {
        uint64_t word;
        memcpy(&word, at, 8);
        h = fs_mix(h ^ word) + 0x9e3779b97f4a7c15u;
    }
    uint64_t tail = 0;
    memcpy(&tail, at, bytes);
    return fs_mix(h ^ tail);
}

uint64_t fs_hash_text(uint64_t seed, const char *text)
{
    return fs_hash(seed, text, strlen(text));
}

void fs_hex(uint64_t digest, char out[17])
{
    snprintf(out, 17, "%016llx", (unsigned long long)digest);
}

static uint32_t hash_of(const char *key)
{
    return (uint32_t)fs_hash_text(0, key);
}

/* Keys are told apart by their hashes first: texts lie far apart. */
static int32_t find_slot(const fs_map *map, const char *key, uint32_t hash)
{
    const int32_t mask = map->room - 1;
    int32_t at = (int32_t)(hash & (uint32_t)mask);
    while (map->slot[at].key &&
           (map->slot[at].hash != hash || strcmp(map->slot[at].key, key) != 0))
        at = (at + 1) & mask;
    return at;
}

/* A key that is in none of the map's slots. */
static void put_new(fs_map *map, const fs_map_slot *slot)
{
    const int32_t mask = map->room - 1;
    int32_t at = (int32_t)(slot->hash & (uint32_t)mask);
    while (map->slot[at].key)
        at = (at + 1) & mask;
    map->slot[at] = *slot;
}

/* At most half of the slots are taken. */
void fs_map_reserve(fs_map *map, int32_t n)
{
    int32_t room = map->room ? map->room : 64;
    while (room / 2 < n)
        room *= 2;
    if (room <= map->room)
        return;
    const fs_map old = *map;
    map->room = room;
    map->slot = fs_new(map->arena, fs_map_slot, room);
    for (int32_t k = 0; k < old.room; k++)
        if (old.slot[k].key)
            put_new(map, &old.slot[k]);
}

fs_map fs_map_copy(const fs_map *map, fs_arena *arena)
{
    fs_map copy = *map;
    copy.arena = arena;
    copy.slot =
        fs_memdup(arena, map->slot, (size_t)map->room * sizeof *map->slot);
    return copy;
}

void fs_map_renumber(fs_map *map, const int32_t *to)
{
    fs_arena *scratch = fs_arena_create();
    const fs_map old = fs_map_copy(map, scratch);
    if (map->room)
        memset(map->slot, 0, (size_t)map->room * sizeof *map->slot);
    map->n = 0;
    for (int32_t k = 0; k < old.room; k++) {
        fs_map_slot slot = old.slot[k];
        if (!slot.key || to[slot.value] < 0)
            continue;
        slot.value = to[slot.value];
        put_new(map, &slot);
        map->n++;
    }
    fs_arena_destroy(scratch);
}

/* What stands behind the gap and looked for its slot before it moves up. */
void fs_map_remove(fs_map *map, const char *key)
{
    const int32_t mask = map->room - 1;
    int32_t gap = map->room ? find_slot(map, key, hash_of(key)) : 0;
    if (!map->room || !map->slot[gap].key)
        return;
    for (int32_t at = (gap + 1) & mask; map->slot[at].key;
         at = (at + 1) & mask) {
        const int32_t home = (int32_t)(map->slot[at].hash & (uint32_t)mask);
        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        map->slot[gap] = map->slot[at];
        gap = at;
    }
    map->slot[gap].key = NULL;
    map->n--;
}

int32_t *fs_map_at(fs_map *map, const char *key)
{
    const uint32_t hash = hash_of(key);
    fs_map_reserve(map, map->n + 1);
    fs_map_slot *slot = &map->slot[find_slot(map, key, hash)];
    if (!slot->key) {
        *slot = (fs_map_slot){key, hash, -1};
        map->n++;
    }
    return &slot->value;
}

int32_t fs_map_get(const fs_map *map, const char *key)
{
    if (!map->room)
        return -1;
    const fs_map_slot *slot = &map->slot[find_slot(map, key, hash_of(key))];
    return slot->key ? slot->value : -1;
}

uint64_t fs_rand(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    return fs_mix(*state);
}

static double unit(uint64_t bits)
{
    return (double)(bits >> 11) * 0x1p-53;
}

double fs_rand_unit(uint64_t *state)
{
    return unit(fs_rand(state));
}

int64_t fs_rand_below(uint64_t *state, int64_t limit)
{
    return (int64_t)(fs_rand(state) % (uint64_t)limit);
}

double fs_draw_unit(uint64_t seed, uint64_t counter)
{
    return unit(fs_mix(fs_mix(seed) ^ (counter * 0x9e3779b97f4a7c15u)));
}

double fs_draw_normal(uint64_t seed, uint64_t counter)
{
    double u = 1.0 - fs_draw_unit(seed, 2 * counter);
    double v = fs_draw_unit(seed, 2 * counter + 1);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}
