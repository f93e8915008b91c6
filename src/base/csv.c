/* Reads tables of text. */
#include "config.h"
#include "base/csv.h"

#include "base/file.h"
#include "base/text.h"

#include <stdbool.h>
#include <string.h>
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

/* Behind its opening quote. */
static fs_status read_quoted(reading *r, fs_text *out)
{
    const int32_t begun = r->line;
    for (; r->at < r->end; r->at++) {
        if (*r->at == '"' && r->at + 1 < r->end && r->at[1] == '"')
            r->at++;
        else if (*r->at == '"') {
            r->at++;
            return FS_OK;
        }
        r->line += *r->at == '\n';
        fs_text_add(out, "%c", *r->at);
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
    if (r->at < r->end && *r->at == '\r')
        r->at++;
    if (r->at < r->end && *r->at == '\n')
        r->at++;
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

static fs_status check_names(const reading *r, const cells *names)
{
    for (int32_t i = 0; i < names->n; i++)
        for (int32_t k = 0; k < i; k++)
            if (strcmp(names->at[i], names->at[k]) == 0)
                return fs_fail(r->err, FS_INVALID,
                               "%s:1: the column '%.80s' stands twice", r->path,
                               names->at[i]);
    return FS_OK;
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
    FS_TRY(check_names(&r, &names));
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
        if (strcmp(table->name[k], name) == 0)
            return k;
    return -1;
}
