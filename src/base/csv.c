/* Reads tables of text. */
#include "config.h"
#include "base/csv.h"

#include "base/file.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

typedef struct reading {
    const char *path, *at, *end;
    int32_t line;
    fs_arena *arena;
    fs_err *err;
} reading;

typedef FS_VEC(const char *) cells;

static fs_status read_all(const char *path, fs_arena *arena, fs_err *err,
                          fs_text *out)
{
    char buffer[1 << 16];
    int file;
    FS_TRY(fs_input_open(path, err, &file));
    ssize_t n;
    *out = (fs_text){.arena = arena};
    fs_text_add(out, "%s", "");
    while ((n = read(file, buffer, sizeof buffer)) > 0) {
        if (memchr(buffer, 0, (size_t)n)) {
            close(file);
            return fs_fail(err, FS_INVALID, "%s is no text: it has a NUL",
                           path);
        }
        fs_text_add(out, "%.*s", (int)n, buffer);
    }
    close(file);
    return n == 0 ? FS_OK : fs_fail(err, FS_INVALID, "%s cannot be read", path);
}

/* Characters of the end of a line here, 0: it is none. "\n", "\r\n" and what
 * passing a file through such a translation twice makes of it, "\r\r\n", are
 * one; so is a "\r" alone. */
static int32_t line_end(const reading *r)
{
    const char *p = r->at;
    while (p < r->end && *p == '\r' && p - r->at < 2)
        p++;
    if (p < r->end && *p == '\n')
        return (int32_t)(p + 1 - r->at);
    return p > r->at; /* the first of several */
}

/* Behind its opening quote. */
static fs_status read_quoted(reading *r, fs_text *out)
{
    const int32_t begun = r->line;
    while (r->at < r->end) {
        const int32_t end = line_end(r);
        if (*r->at == '"' && r->at + 1 < r->end && r->at[1] == '"')
            r->at++;
        else if (*r->at == '"') {
            r->at++;
            return FS_OK;
        }
        r->line += end > 0;
        fs_text_add(out, "%c", end ? '\n' : *r->at);
        r->at += end ? end : 1;
    }
    return fs_fail(r->err, FS_INVALID, "%s:%d: a quote that does not end",
                   r->path, begun);
}

static bool ends_cell(char c)
{
    return c == ',' || c == '\n' || c == '\r';
}

static fs_status read_cell(reading *r, const char **out)
{
    if (r->at < r->end && *r->at == '"') {
        fs_text text = {.arena = r->arena};
        fs_text_add(&text, "%s", "");
        r->at++;
        FS_TRY(read_quoted(r, &text));
        fs_make_printable(text.at);
        *out = text.at;
        if (r->at < r->end && !ends_cell(*r->at))
            return fs_fail(r->err, FS_INVALID,
                           "%s:%d: text behind a quoted cell", r->path,
                           r->line);
        return FS_OK;
    }
    const char *from = r->at;
    while (r->at < r->end && !ends_cell(*r->at))
        r->at++;
    char *cell = fs_strndup(r->arena, from, (size_t)(r->at - from));
    fs_make_printable(cell);
    *out = cell;
    return FS_OK;
}

static void pass_line(reading *r)
{
    r->at += line_end(r);
    r->line++;
}

static fs_status read_row(reading *r, cells *out)
{
    out->n = 0;
    for (;;) {
        const char *cell;
        FS_TRY(read_cell(r, &cell));
        fs_push(r->arena, out, cell);
        if (r->at == r->end || *r->at != ',')
            break;
        r->at++;
    }
    pass_line(r);
    return FS_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Without blanks around it, which nobody sees. */
static const char *trim(const char *text, fs_arena *arena)
{
    while (is_blank(*text))
        text++;
    size_t n = strlen(text);
    while (n > 0 && is_blank(text[n - 1]))
        n--;
    return fs_strndup(arena, text, n);
}

static int compare_names(const void *a, const void *b)
{
    const char **x = *(const char **const *)a, **y = *(const char **const *)b;
    const int by_name = strcasecmp(*x, *y);
    return by_name ? by_name : (x > y) - (x < y);
}

/* Names that differ by blanks or capitals are one; no name is none. */
static fs_status take_names(const reading *r, cells *names)
{
    const char ***sorted = fs_new(r->arena, const char **, names->n);
    const char **first = NULL, **again = NULL;
    for (int32_t i = 0; i < names->n; i++) {
        names->at[i] = trim(names->at[i], r->arena);
        sorted[i] = &names->at[i];
    }
    qsort(sorted, (size_t)names->n, sizeof *sorted, compare_names);
    for (int32_t k = 1; k < names->n; k++)
        if (**sorted[k] && strcasecmp(*sorted[k - 1], *sorted[k]) == 0 &&
            (!again || sorted[k] < again)) {
            first = sorted[k - 1];
            again = sorted[k];
        }
    if (!again)
        return FS_OK;
    return fs_fail(r->err, FS_INVALID,
                   "%s:1: the column '%.80s' stands twice: as column %d and as "
                   "column %d",
                   r->path, *again, (int)(first - names->at) + 1,
                   (int)(again - names->at) + 1);
}

/* U+FEFF in UTF-8 */
static void pass_mark(reading *r)
{
    static const char mark[] = "\xEF\xBB\xBF";
    if (r->end - r->at >= 3 && memcmp(r->at, mark, 3) == 0)
        r->at += 3;
}

fs_status fs_csv_read(const char *path, fs_arena *arena, fs_err *err,
                      fs_csv *out)
{
    fs_text text;
    cells names = {0}, row = {0}, all = {0};
    FS_VEC(int32_t) lines = {0}, counts = {0};
    FS_TRY(read_all(path, arena, err, &text));
    reading r = {path, text.at, text.at + text.n, 1, arena, err};
    pass_mark(&r);
    if (r.at == r.end)
        return fs_fail(err, FS_INVALID, "%s is empty", path);
    FS_TRY(read_row(&r, &names));
    FS_TRY(take_names(&r, &names));
    while (r.at < r.end) {
        const int32_t line = r.line;
        FS_TRY(read_row(&r, &row));
        if (row.n == 1 && !row.at[0][0])
            continue;
        for (int32_t k = 0; k < names.n; k++)
            fs_push(arena, &all, k < row.n ? row.at[k] : "");
        fs_push(arena, &lines, line);
        fs_push(arena, &counts, row.n);
    }
    *out =
        (fs_csv){path, names.n, lines.n, names.at, all.at, lines.at, counts.at};
    return FS_OK;
}

int32_t fs_csv_column(const fs_csv *table, const char *name)
{
    for (int32_t k = 0; k < table->n_columns; k++)
        if (strcasecmp(table->name[k], name) == 0)
            return k;
    return -1;
}
