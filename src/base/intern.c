#include "config.h"
#include "base/intern.h"

#include "base/hash.h"

#include <string.h>

static fs_interned *slot_of(const fs_intern *intern, uint64_t hash,
                            const void *data, size_t bytes)
{
    size_t k = hash & (intern->room - 1);
    for (;; k = (k + 1) & (intern->room - 1)) {
        fs_interned *at = &intern->at[k];
        if (!at->data || (at->hash == hash && at->bytes == bytes &&
                          memcmp(at->data, data, bytes) == 0))
            return at;
    }
}

static void grow(fs_intern *intern)
{
    const fs_intern old = *intern;
    intern->room = old.room ? 2 * old.room : 64;
    intern->at = fs_new(intern->arena, fs_interned, intern->room);
    for (size_t k = 0; k < old.room; k++)
        if (old.at[k].data)
            *slot_of(intern, old.at[k].hash, old.at[k].data, old.at[k].bytes) =
                old.at[k];
}

const void *fs_intern_find(fs_intern *intern, const void *data, size_t bytes)
{
    if (!intern->n)
        return NULL;
    return slot_of(intern, fs_hash(0, data, bytes), data, bytes)->data;
}

void fs_intern_add(fs_intern *intern, const void *data, size_t bytes)
{
    const uint64_t hash = fs_hash(0, data, bytes);
    if (2 * intern->n >= intern->room)
        grow(intern);
    fs_interned *at = slot_of(intern, hash, data, bytes);
    if (!at->data)
        intern->n++;
    *at = (fs_interned){hash, data, bytes};
}
