#include "config.h"
#include "base/arena.h"

#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Blocks grow with the arena: many are small, and short of life. */
enum { MOST_BYTES = 64 * 1024, ALIGN = 16 };

typedef struct block {
    struct block *next;
    size_t used, room;
    bool zeroed; /* all of it; else what is handed out is, when it is */
    _Alignas(ALIGN) char data[];
} block;

/* The smallest are what malloc keeps at hand for each thread. */
enum { LEAST_BYTES = 1024 - sizeof(block) };

struct fs_arena {
    block *head;
    size_t bytes;
};

/* Not by exit: what is registered there may want memory too, or wait for
 * threads that go on. */
__attribute__((noreturn)) static void die(size_t bytes)
{
    char text[64];
    snprintf(text, sizeof text, "out of memory (%zu bytes wanted)", bytes);
    if (fs_exhausted)
        fs_exhausted(text);
    else
        fprintf(stderr, "flowsearch: %s\n", text);
    _exit(3);
}

void *fs_malloc(size_t bytes)
{
    void *memory = malloc(bytes ? bytes : 1);
    if (!memory)
        die(bytes);
    return memory;
}

fs_arena *fs_arena_create(void)
{
    fs_arena *arena = malloc(sizeof *arena);
    if (!arena)
        die(sizeof *arena);
    *arena = (fs_arena){0};
    return arena;
}

void fs_arena_destroy(fs_arena *arena)
{
    if (!arena)
        return;
    for (block *b = arena->head; b;) {
        block *next = b->next;
        free(b);
        b = next;
    }
    free(arena);
}

void fs_arena_join(fs_arena *arena, fs_arena *other)
{
    block **end = &arena->head;
    while (*end)
        end = &(*end)->next;
    *end = other->head;
    arena->bytes += other->bytes;
    free(other);
}

/* Pages that go back to the system and come again cost more than their work. */
void fs_keep_freed(void)
{
    enum { AT_ONCE = 16 * 1024 * 1024 };
    mallopt(M_TRIM_THRESHOLD, INT_MAX);
    mallopt(M_TOP_PAD, AT_ONCE);
    mallopt(M_MMAP_THRESHOLD, 2 * AT_ONCE);
}

void fs_return_freed(void)
{
    malloc_trim(0);
}

static size_t usual_room(const fs_arena *arena)
{
    size_t room = arena->bytes > LEAST_BYTES ? arena->bytes : LEAST_BYTES;
    return room < MOST_BYTES ? room : MOST_BYTES;
}

static block *add_block(fs_arena *arena, size_t bytes)
{
    size_t usual = usual_room(arena), room = bytes > usual ? bytes : usual;
    size_t total;
    if (__builtin_add_overflow(room, sizeof(block), &total))
        die(room);
    const bool large = bytes > usual; /* fresh pages are zero */
    block *b = large ? calloc(1, total) : malloc(total);
    if (!b)
        die(total);
    *b = (block){.room = room, .zeroed = large};
    /* A large block goes behind the current one, whose room stays in use. */
    if (large && arena->head) {
        b->next = arena->head->next;
        arena->head->next = b;
    } else {
        b->next = arena->head;
        arena->head = b;
    }
    return b;
}

void *fs_alloc(fs_arena *arena, size_t count, size_t size)
{
    size_t bytes, rounded;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)ALIGN - 1, &rounded))
        die(SIZE_MAX);
    rounded &= ~(size_t)(ALIGN - 1);
    if (rounded == 0)
        rounded = ALIGN;
    block *b = arena->head;
    if (!b || b->room - b->used < rounded)
        b = add_block(arena, rounded);
    void *result = b->data + b->used;
    if (!b->zeroed)
        memset(result, 0, rounded);
    b->used += rounded;
    arena->bytes += rounded;
    return result;
}

void *fs_alloc_lines(fs_arena *arena, size_t count, size_t size)
{
    enum { LINE = 64 };
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) ||
        __builtin_add_overflow(bytes, (size_t)LINE, &bytes))
        die(SIZE_MAX);
    char *room = fs_alloc(arena, bytes, 1);
    return room + (LINE - (uintptr_t)room % LINE) % LINE;
}

void *fs_regrow(fs_arena *arena, void *old, size_t count, size_t wanted,
                size_t size)
{
    void *result = fs_alloc(arena, wanted, size);
    if (count)
        memcpy(result, old, count * size);
    return result;
}

char *fs_strndup(fs_arena *arena, const char *text, size_t length)
{
    char *copy = fs_alloc(arena, length + 1, 1);
    memcpy(copy, text, length);
    return copy;
}

char *fs_strdup(fs_arena *arena, const char *text)
{
    return fs_strndup(arena, text, strlen(text));
}

void *fs_memdup(fs_arena *arena, const void *data, size_t bytes)
{
    void *copy = fs_alloc(arena, bytes, 1);
    if (bytes)
        memcpy(copy, data, bytes);
    return copy;
}

static char *format_into(fs_arena *arena, const char *format, va_list args,
                         size_t *length)
{
    char usual[256]; /* most texts are formatted once only */
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(usual, sizeof usual, format, again);
    va_end(again);
    *length = (size_t)n;
    if ((size_t)n < sizeof usual)
        return fs_memdup(arena, usual, (size_t)n + 1);
    char *text = fs_alloc(arena, (size_t)n + 1, 1);
    vsnprintf(text, (size_t)n + 1, format, args);
    return text;
}

char *fs_printf(fs_arena *arena, const char *format, ...)
{
    size_t length;
    va_list args;
    va_start(args, format);
    char *text = format_into(arena, format, args, &length);
    va_end(args);
    return text;
}

size_t fs_arena_bytes(const fs_arena *arena)
{
    return arena->bytes;
}

void fs_text_add(fs_text *text, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    size_t n = (size_t)vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (text->n + n + 1 > text->room) {
        size_t room = 2 * (text->n + n + 1) + 128;
        text->at = fs_regrow(text->arena, text->at, text->n, room, 1);
        text->room = room;
    }
    vsnprintf(text->at + text->n, n + 1, format, args);
    text->n += n;
    va_end(args);
}
