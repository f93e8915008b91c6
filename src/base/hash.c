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

static int32_t home_slot(const fs_map *map, const char *key)
{
    return (int32_t)(fs_hash_text(0, key) & (uint64_t)(map->room - 1));
}

static int32_t find_slot(const fs_map *map, const char *key)
{
    int32_t mask = map->room - 1;
    int32_t slot = home_slot(map, key);
    while (map->key[slot] && strcmp(map->key[slot], key) != 0)
        slot = (slot + 1) & mask;
    return slot;
}

static void grow_map(fs_map *map, int32_t room)
{
    fs_map old = *map;
    map->room = room;
    map->key = fs_new(map->arena, const char *, map->room);
    map->value = fs_new(map->arena, int32_t, map->room);
    for (int32_t i = 0; i < old.room; i++) {
        if (!old.key[i])
            continue;
        int32_t slot = find_slot(map, old.key[i]);
        map->key[slot] = old.key[i];
        map->value[slot] = old.value[i];
    }
}

/* At most half of the slots are taken. */
void fs_map_reserve(fs_map *map, int32_t n)
{
    int32_t room = map->room ? map->room : 64;
    while (room / 2 < n)
        room *= 2;
    if (room > map->room)
        grow_map(map, room);
}

void fs_map_clear(fs_map *map)
{
    if (map->room)
        memset(map->key, 0, (size_t)map->room * sizeof *map->key);
    map->n = 0;
}

/* What stands behind the gap and looked for its slot before it moves up. */
void fs_map_remove(fs_map *map, const char *key)
{
    const int32_t mask = map->room - 1;
    int32_t gap = map->room ? find_slot(map, key) : 0;
    if (!map->room || !map->key[gap])
        return;
    for (int32_t at = (gap + 1) & mask; map->key[at]; at = (at + 1) & mask) {
        const int32_t home = home_slot(map, map->key[at]);
        if (((at - home) & mask) < ((at - gap) & mask))
            continue;
        map->key[gap] = map->key[at];
        map->value[gap] = map->value[at];
        gap = at;
    }
    map->key[gap] = NULL;
    map->n--;
}

int32_t *fs_map_at(fs_map *map, const char *key)
{
    fs_map_reserve(map, map->n + 1);
    int32_t slot = find_slot(map, key);
    if (!map->key[slot]) {
        map->key[slot] = key;
        map->value[slot] = -1;
        map->n++;
    }
    return &map->value[slot];
}

int32_t fs_map_get(const fs_map *map, const char *key)
{
    if (!map->room)
        return -1;
    int32_t slot = find_slot(map, key);
    return map->key[slot] ? map->value[slot] : -1;
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
