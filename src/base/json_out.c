#include "config.h"
#include "base/json_out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PART = 1 << 16 }; /* bytes that go to a file at once */

fs_json_out fs_json_out_to(fs_output *file)
{
    return (fs_json_out){.file = file, .empty = true};
}

void fs_json_out_flush(fs_json_out *out)
{
    if (!out->file)
        return;
    fs_output_write(out->file, out->text, out->n);
    free(out->text);
    *out = fs_json_out_to(out->file);
}

/* Room for so many more. */
static char *make_room(fs_json_out *out, size_t n)
{
    if (out->file && out->n >= PART) {
        fs_output_write(out->file, out->text, out->n);
        out->n = 0;
    }
    if (out->n + n > out->room) {
        out->room = 2 * (out->n + n) + PART;
        out->text = realloc(out->text, out->room);
        FS_ASSERT(out->text);
    }
    return out->text + out->n;
}

static void put(fs_json_out *out, const char *text, size_t n)
{
    memcpy(make_room(out, n), text, n);
    out->n += n;
}

static void put_char(fs_json_out *out, char c)
{
    *make_room(out, 1) = c;
    out->n++;
}

static void new_line(fs_json_out *out)
{
    if (!out->file)
        return;
    char *at = make_room(out, 1 + (size_t)out->depth);
    at[0] = '\n';
    memset(at + 1, ' ', (size_t)out->depth);
    out->n += 1 + (size_t)out->depth;
}

/* One character of a string; what must not stand there has another form. */
static void put_escaped(fs_json_out *out, unsigned char c)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *at = c ? strchr(from, c) : NULL;
    char text[8];
    if (at) {
        put_char(out, '\\');
        put_char(out, to[at - from]);
    } else {
        put(out, text, (size_t)snprintf(text, sizeof text, "\\u%04X", c));
    }
}

static void put_string(fs_json_out *out, const char *text)
{
    put_char(out, '"');
    for (const char *at = text; *at;) {
        const char *begin = at;
        while (*at && (unsigned char)*at >= 0x20 && *at != '"' && *at != '\\')
            at++;
        put(out, begin, (size_t)(at - begin));
        if (*at)
            put_escaped(out, (unsigned char)*at++);
    }
    put_char(out, '"');
}

/* What comes before a value. */
static void next(fs_json_out *out, const char *key)
{
    if (!out->empty)
        put_char(out, ',');
    if (out->depth > 0)
        new_line(out);
    out->empty = false;
    if (!key)
        return;
    put_string(out, key);
    put(out, ": ", out->file ? 2 : 1);
}

void fs_json_out_begin(fs_json_out *out, const char *key, char bracket)
{
    next(out, key);
    put_char(out, bracket);
    out->depth++;
    out->empty = true;
}

void fs_json_out_end(fs_json_out *out, char bracket)
{
    out->depth--;
    if (!out->empty)
        new_line(out);
    put_char(out, bracket);
    out->empty = false;
}

void fs_json_out_int(fs_json_out *out, const char *key, int64_t value)
{
    char digits[24];
    size_t at = sizeof digits;
    uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    next(out, key);
    do
        digits[--at] = (char)('0' + left % 10);
    while (left /= 10);
    if (value < 0)
        digits[--at] = '-';
    put(out, digits + at, sizeof digits - at);
}

void fs_json_out_bool(fs_json_out *out, const char *key, bool value)
{
    next(out, key);
    put(out, value ? "true" : "false", value ? 4 : 5);
}

void fs_json_out_text(fs_json_out *out, const char *key, const char *text)
{
    next(out, key);
    put_string(out, text);
}

/* Its lines stand as deep as it does. */
void fs_json_out_value(fs_json_out *out, const char *key, const json_t *value)
{
    const size_t flags =
        out->file ? FS_JSON_FORMAT : JSON_COMPACT | JSON_REAL_PRECISION(17);
    char *text = json_dumps(value, flags | JSON_ENCODE_ANY);
    next(out, key);
    for (const char *at = text; at && *at;) {
        const size_t n = strcspn(at, "\n");
        put(out, at, n);
        at += n;
        if (*at++ != '\n')
            break;
        new_line(out);
    }
    free(text);
}
