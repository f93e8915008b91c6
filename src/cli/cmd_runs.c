#include "config.h"
#include "cli/cli.h"

#include "base/clock.h"
#include "base/text.h"
#include "report/report.h"

#include <stdlib.h>
#include <string.h>

typedef struct rows {
    cli *c;
    json_t *list;
    report_table table;
} rows;

static json_t *value_json(const char *text)
{
    if (!text)
        return json_null();
    char *end;
    double number = strtod(text, &end);
    bool plain = strspn(text, "+-.0123456789eE") == strlen(text);
    if (end != text && !*end && plain && strlen(text) < 16)
        return strpbrk(text, ".eE") ? json_real(number)
                                    : json_integer(atoll(text));
    return fs_json_string(text);
}

static void take_row(void *ctx, int n, const char *const *columns,
                     const char *const *values)
{
    rows *r = ctx;
    if (!r->table.header) {
        const char **header = fs_new(r->c->arena, const char *, n);
        for (int i = 0; i < n; i++) {
            char *name = fs_strdup(r->c->arena, columns[i]);
            fs_make_printable(name);
            header[i] = name;
        }
        r->table.header = header;
        r->table.n_columns = n;
    }
    json_t *row = json_object();
    for (int i = 0; i < n; i++) {
        json_object_set_new(row, r->table.header[i], value_json(values[i]));
        report_table_cell(&r->table, "%s", values[i] ? values[i] : "");
    }
    json_array_append_new(r->list, row);
}

fs_status cli_cmd_runs(cli *c)
{
    if (c->args.n_operands)
        return fs_fail(&c->err, FS_INVALID, "runs takes no operand");
    if (c->args.last >= 0 && c->args.sql)
        return fs_fail(&c->err, FS_INVALID,
                       "--last %lld has no effect: --sql says which rows",
                       (long long)c->args.last);
    const char *path = c->args.db ? c->args.db : "flowsearch.db";
    if (strcmp(path, "none") == 0)
        return fs_fail(&c->err, FS_INVALID,
                       "runs reads a database: --db none "
                       "leaves nothing to read");
    bool read_only;
    FS_TRY(store_open_reading(path, &c->err, &c->db, &read_only));
    json_object_set_new(c->result, "read_only", json_boolean(read_only));
    if (read_only)
        fs_warn("%s cannot be written: read as it stands", path);
    int64_t last = c->args.last < 0 ? 20 : c->args.last;
    const char *sql =
        c->args.sql ? c->args.sql
                    : fs_printf(c->arena,
                                "SELECT * FROM (SELECT id, started, command,"
                                " status, model, cluster, plan_digest AS plan,"
                                " message FROM runs ORDER BY id DESC"
                                " LIMIT %lld) ORDER BY id",
                                (long long)last);
    rows r = {.c = c, .list = json_array(), .table = {.arena = c->arena}};
    json_object_set_new(c->result, "runs", r.list);
    FS_TRY(store_query(c->db, sql, take_row, &r, &c->err));
    if (!c->args.json && r.table.header)
        report_table_print(&r.table, stdout);
    if (!r.table.header)
        cli_say(c, "no rows\n");
    return FS_OK;
}
