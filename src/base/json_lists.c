/* A list that follows '[' or ',' is held back while it may be one of integers;
 * then a word, a control character and its number, goes to the parser in its
 * place. When it is none, the parser gets what was held back, and finds what is
 * wrong. Line ends follow the word, so that lines are counted right. */
#include "config.h"
#include "base/json_lists.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 16 };
/* What may come next in a list that is held back. */
enum { PLAIN, STRING, ESCAPE, WANT_FIRST, WANT, DIGITS, ZERO, BEHIND };

typedef struct text {
    char *at;
    size_t n, room;
} text;

struct fs_json_lists {
    fs_arena *arena;
    fs_intern intern;
    FS_VEC(fs_numbers) lists;
    char in[CHUNK];
    size_t in_at, in_n;
    text out, held;
    size_t out_at;
    int64_t *numbers;
    size_t n, room;
    uint64_t size; /* of the number at hand */
    bool minus, digits;
    char last; /* but for blanks, outside of strings */
    int state;
    int32_t lines; /* in what is held back */
};

fs_json_lists *fs_json_lists_new(fs_arena *arena)
{
    fs_json_lists *l = fs_new(arena, fs_json_lists, 1);
    l->arena = l->intern.arena = arena;
    return l;
}

static void add_text(fs_json_lists *l, text *to, const char *from, size_t n)
{
    if (to->n + n > to->room) {
        const size_t room = 2 * (to->n + n) + CHUNK;
        char *more = fs_alloc(l->arena, room, 1);
        if (to->n)
            memcpy(more, to->at, to->n);
        to->at = more;
        to->room = room;
    }
    memcpy(to->at + to->n, from, n);
    to->n += n;
}

/* ---- lists ---- */

static void hold_back(fs_json_lists *l)
{
    l->state = WANT_FIRST;
    l->held.n = l->n = 0;
    l->lines = 0;
    l->digits = l->minus = false;
    add_text(l, &l->held, "[", 1);
}

static void give_up(fs_json_lists *l)
{
    add_text(l, &l->out, l->held.at, l->held.n);
    l->state = PLAIN;
}

static void end_number(fs_json_lists *l)
{
    if (l->n == l->room) {
        const size_t room = l->room ? 2 * l->room : 64;
        l->numbers =
            fs_regrow(l->arena, l->numbers, l->n, room, sizeof *l->numbers);
        l->room = room;
    }
    l->numbers[l->n++] = l->minus ? -(int64_t)l->size : (int64_t)l->size;
    l->digits = l->minus = false;
}

static void end_list(fs_json_lists *l)
{
    char word[40];
    const size_t bytes = l->n * sizeof *l->numbers;
    fs_numbers list = {fs_intern_find(&l->intern, l->numbers, bytes), l->n};
    if (!list.at) {
        list.at = fs_memdup(l->arena, l->numbers, bytes);
        fs_intern_add(&l->intern, list.at, bytes);
    }
    const int n = snprintf(word, sizeof word, "\"\\u0001%d\"", l->lists.n);
    fs_push(l->arena, &l->lists, list);
    add_text(l, &l->out, word, (size_t)n);
    for (; l->lines > 0; l->lines--)
        add_text(l, &l->out, "\n", 1);
    l->state = PLAIN;
    l->last = ']';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* One more digit; false: it is none, or too many. */
static bool add_digit(fs_json_lists *l, char c)
{
    if (c < '0' || c > '9' || l->state == ZERO || l->state == BEHIND ||
        l->size > (INT64_MAX - 9) / 10)
        return false;
    l->size = (l->digits ? 10 * l->size : 0) + (uint64_t)(c - '0');
    l->state = !l->digits && c == '0' ? ZERO : DIGITS;
    l->digits = true;
    return true;
}

/* False: no list of integers has this here. */
static bool goes_on(fs_json_lists *l, char c)
{
    const bool within = l->digits || l->minus;
    if (!l->digits && c >= '0' && c <= '9')
        l->size = 0;
    if (add_digit(l, c))
        return true;
    if (c == '-' && !within && l->state != BEHIND)
        return l->minus = true;
    if (is_blank(c)) {
        if (l->digits) {
            end_number(l);
            l->state = BEHIND;
        }
        l->lines += c == '\n';
        return !l->minus;
    }
    if (c != ',' && c != ']')
        return false;
    if (l->digits)
        end_number(l);
    else if (l->state != BEHIND)
        return false;
    l->state = WANT;
    if (c == ']')
        end_list(l);
    return true;
}

static void take_plain(fs_json_lists *l, char c)
{
    if (c == '[' && (l->last == '[' || l->last == ',')) {
        l->last = c;
        hold_back(l);
        return;
    }
    add_text(l, &l->out, &c, 1);
    if (c == '"')
        l->state = STRING;
    if (!is_blank(c))
        l->last = c;
}

static void take_char(fs_json_lists *l, char c)
{
    if (l->state == STRING || l->state == ESCAPE) {
        add_text(l, &l->out, &c, 1);
        if (l->state == ESCAPE)
            l->state = STRING;
        else
            l->state = c == '\\' ? ESCAPE : c == '"' ? PLAIN : STRING;
        return;
    }
    if (l->state == PLAIN) {
        take_plain(l, c);
        return;
    }
    if (!goes_on(l, c)) {
        give_up(l);
        take_plain(l, c);
    } else if (l->state != PLAIN) {
        add_text(l, &l->held, &c, 1);
    }
}

/* ---- the parser's side ---- */

size_t fs_json_lists_read(fs_json_lists *l, fs_json_read_fn *read, void *source,
                          void *to, size_t bytes)
{
    while (l->out_at == l->out.n) {
        l->out_at = l->out.n = 0;
        l->in_n = read(l->in, sizeof l->in, source);
        if (l->in_n == (size_t)-1)
            return l->in_n;
        for (size_t k = 0; k < l->in_n; k++)
            take_char(l, l->in[k]);
        if (l->in_n == 0 && l->state > ESCAPE)
            give_up(l);
        else if (l->in_n == 0)
            return 0;
    }
    const size_t left = l->out.n - l->out_at, n = left < bytes ? left : bytes;
    memcpy(to, l->out.at + l->out_at, n);
    l->out_at += n;
    return n;
}

bool fs_json_whole(const json_t *value, int64_t *out)
{
    if (json_is_real(value)) {
        const double real = json_real_value(value);
        if (!(fabs(real) <= 9e18) || real != floor(real))
            return false;
        *out = (int64_t)real;
        return true;
    }
    *out = json_integer_value(value);
    return json_is_integer(value);
}

/* The number of a word, or -1. A file may hold what looks like one. */
static int32_t number_of(const fs_json_lists *l, const json_t *value)
{
    const char *word = json_string_value(value);
    if (!word || word[0] != '\1')
        return -1;
    const long number = strtol(word + 1, NULL, 10);
    return number >= 0 && number < l->lists.n ? (int32_t)number : -1;
}

bool fs_json_numbers(fs_json_lists *l, const json_t *value, fs_numbers *out)
{
    const int32_t number = number_of(l, value);
    if (number >= 0) {
        *out = l->lists.at[number];
        return true;
    }
    const size_t n = json_array_size(value);
    int64_t *at = fs_new(l->arena, int64_t, n);
    for (size_t k = 0; k < n; k++)
        if (!fs_json_whole(json_array_get(value, k), &at[k]))
            return false;
    *out = (fs_numbers){at, n};
    return json_is_array(value);
}
