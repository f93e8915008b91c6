/* Equal tables are one. */
#ifndef FS_BASE_INTERN_H
#define FS_BASE_INTERN_H

#include "base/arena.h"

typedef struct fs_interned {
    uint64_t hash;
    const void *data; /* NULL: free */
    size_t bytes;
} fs_interned;

typedef struct fs_intern {
    fs_arena *arena;
    fs_interned *at;
    size_t n, room;
} fs_intern;

/* The first table met with these bytes, or NULL: it is the first. */
const void *fs_intern_find(fs_intern *intern, const void *data, size_t bytes);
/* `data`, which stays as it is, is the one from now on. */
void fs_intern_add(fs_intern *intern, const void *data, size_t bytes);

#endif
