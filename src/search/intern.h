/* Equal tables are one: networks of repeated layers have few that differ.
 * Internal to this folder. */
#ifndef FS_SEARCH_INTERN_H
#define FS_SEARCH_INTERN_H

#include "base/arena.h"

typedef struct search_interned {
    uint64_t hash;
    const void *data; /* NULL: free */
    size_t bytes;
} search_interned;

typedef struct search_intern {
    fs_arena *arena;
    search_interned *at;
    size_t n, room;
} search_intern;

/* The first table met with these bytes, or NULL: it is the first. */
const void *search_intern_find(search_intern *intern, const void *data,
                               size_t bytes);
/* `data`, which stays as it is, is the one from now on. */
void search_intern_add(search_intern *intern, const void *data, size_t bytes);

#endif
