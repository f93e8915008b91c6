/* Arenas: memory of one phase (model, search, plan, sim), freed at once.
 * Passing an fs_arena * means "the result lives there". */
#ifndef FS_BASE_ARENA_H
#define FS_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fs_arena fs_arena;

fs_arena *fs_arena_create(void);
void fs_arena_destroy(fs_arena *arena); /* NULL is allowed */

/* All of `other` becomes part of `arena`; `other` is no more. */
void fs_arena_join(fs_arena *arena, fs_arena *other);

/* Zeroed memory aligned to 16 bytes; never NULL (out of memory, or a size
 * that overflows, ends the program with status 3). `fs_new` is the usual way.
 */
void *fs_alloc(fs_arena *arena, size_t count, size_t size);
#define fs_new(arena, type, count)                                             \
    ((type *)fs_alloc((arena), (size_t)(count), sizeof(type)))

/* The same, at the beginning of a line of the cache (64 bytes): for records
 * whose size is a part or a multiple of one, and that are come to one at a
 * time. */
void *fs_alloc_lines(fs_arena *arena, size_t count, size_t size);
#define fs_new_lines(arena, type, count)                                       \
    ((type *)fs_alloc_lines((arena), (size_t)(count), sizeof(type)))

/* Grows an array of `count` elements to room for `wanted`; the old block stays
 * in the arena. */
void *fs_regrow(fs_arena *arena, void *old, size_t count, size_t wanted,
                size_t size);

char *fs_strdup(fs_arena *arena, const char *text);
char *fs_strndup(fs_arena *arena, const char *text, size_t length);
char *fs_printf(fs_arena *arena, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void *fs_memdup(fs_arena *arena, const void *data, size_t bytes);

size_t fs_arena_bytes(const fs_arena *arena); /* handed out so far */

/* malloc that ends the program as arenas do: for libraries that pass on what
 * they got and would lose what has no room. */
void *fs_malloc(size_t bytes);
/* What is done when memory has run out, before the program ends with status 3:
 * a program that has it tells `text`, where it is not defined stderr is told.
 * From any thread. */
void fs_exhausted(const char *text) __attribute__((weak));

/* From now on what arenas free stays with the process, for the next ones. Of
 * the whole process, for phases that make and destroy many. */
void fs_keep_freed(void);
/* Once, before memory is taken that stays: pages of what was freed so far go
 * back to the system. */
void fs_return_freed(void);

/* Growable array in an arena: FS_VEC(int) v = {0}; fs_push(arena, &v, 7); */
#define FS_VEC(type)                                                           \
    struct {                                                                   \
        type *at;                                                              \
        int32_t n, room;                                                       \
    }
#define fs_push(arena, vec, ...)                                               \
    do {                                                                       \
        if ((vec)->n == (vec)->room) {                                         \
            int32_t fs_room = (vec)->room ? 2 * (vec)->room : 8;               \
            (vec)->at = fs_regrow((arena), (vec)->at, (size_t)(vec)->n,        \
                                  (size_t)fs_room, sizeof *(vec)->at);         \
            (vec)->room = fs_room;                                             \
        }                                                                      \
        (vec)->at[(vec)->n++] = (__VA_ARGS__);                                 \
    } while (0)

/* Room for `wanted` elements in all, at once: what is grown into them step by
 * step leaves its smaller blocks in the arena. */
#define fs_reserve(arena, vec, wanted)                                         \
    do {                                                                       \
        if ((vec)->room < (wanted)) {                                          \
            (vec)->at = fs_regrow((arena), (vec)->at, (size_t)(vec)->n,        \
                                  (size_t)(wanted), sizeof *(vec)->at);        \
            (vec)->room = (wanted);                                            \
        }                                                                      \
    } while (0)

/* Growable text in an arena. */
typedef struct fs_text {
    fs_arena *arena;
    char *at; /* always terminated once written to */
    size_t n, room;
} fs_text;
void fs_text_add(fs_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
