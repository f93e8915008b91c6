/* What the cases say of each operator: does it run as recorded, has it a
 * gradient, can it be cut. */
#include "config.h"
#include "cli/conformance.h"

#include "base/file.h"
#include "report/report.h"

#include <stdlib.h>

typedef struct op_row {
    const char *name;
    int32_t cases, passed, failed, refused;
    int32_t gradient, splits; /* as of a case; over all of them */
} op_row;

struct conformance_ops {
    fs_arena *arena;
    fs_map index;
    FS_VEC(op_row) rows;
};

conformance_ops *conformance_ops_new(fs_arena *arena)
{
    conformance_ops *ops = fs_new(arena, conformance_ops, 1);
    ops->arena = ops->index.arena = arena;
    return ops;
}

static op_row *find_row(conformance_ops *ops, const char *name)
{
    int32_t *at = fs_map_at(&ops->index, name);
    if (*at < 0) {
        *at = ops->rows.n;
        fs_push(ops->arena, &ops->rows, (op_row){.name = name, .gradient = -1});
    }
    return &ops->rows.at[*at];
}

void conformance_ops_add(conformance_ops *ops, const conformance_case *t,
                         const char *op, const char *status)
{
    if (!op[0])
        return;
    op_row *row = find_row(ops, op);
    row->cases++;
    row->passed += status[0] == 'p';
    row->failed += status[0] == 'f';
    row->refused += status[0] == 'r';
    if (status[0] == 'r')
        return;
    if (t->gradient == 0 || row->gradient < 0)
        row->gradient = t->gradient;
    if (t->splits > row->splits)
        row->splits = t->splits;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const op_row *)a)->name, ((const op_row *)b)->name);
}

static void sort(conformance_ops *ops)
{
    if (ops->rows.n)
        qsort(ops->rows.at, (size_t)ops->rows.n, sizeof *ops->rows.at, by_name);
    ops->index = (fs_map){.arena = ops->arena}; /* places have changed */
    for (int32_t i = 0; i < ops->rows.n; i++)
        *fs_map_at(&ops->index, ops->rows.at[i].name) = i;
}

/* Why nothing is known of it; NULL when a case measured it. */
static const char *unmeasured(const op_row *row)
{
    return row->cases == 0              ? "no case"
           : row->cases == row->refused ? "-"
                                        : NULL;
}

static const char *gradient_word(const op_row *row)
{
    if (unmeasured(row))
        return unmeasured(row);
    return row->gradient > 0 ? "yes" : row->gradient == 0 ? "no" : "-";
}

static const char *cuts_word(const op_row *row, fs_arena *arena)
{
    const char *why = unmeasured(row);
    return why ? why : fs_printf(arena, "%d", row->splits);
}

void conformance_ops_print(conformance_ops *ops, FILE *out)
{
    static const char *const header[] = {
        "operator", "cases", "passed", "failed", "refused", "gradient", "cuts"};
    report_table table = {
        .arena = ops->arena, .n_columns = 7, .header = header};
    sort(ops);
    for (int32_t i = 0; i < ops->rows.n; i++) {
        const op_row *row = &ops->rows.at[i];
        report_table_cell(&table, "%s", row->name);
        report_table_cell(&table, "%d", row->cases);
        report_table_cell(&table, "%d", row->passed);
        report_table_cell(&table, "%d", row->failed);
        report_table_cell(&table, "%d", row->refused);
        report_table_cell(&table, "%s", gradient_word(row));
        report_table_cell(&table, "%s", cuts_word(row, ops->arena));
    }
    report_table_print(&table, out);
}

json_t *conformance_ops_json(conformance_ops *ops)
{
    json_t *all = json_object();
    sort(ops);
    for (int32_t i = 0; i < ops->rows.n; i++) {
        const op_row *row = &ops->rows.at[i];
        json_object_set_new(all, row->name,
                            json_pack("{s:i, s:i, s:i, s:i, s:s, s:i}", "cases",
                                      row->cases, "passed", row->passed,
                                      "failed", row->failed, "refused",
                                      row->refused, "gradient",
                                      gradient_word(row), "cuts", row->splits));
    }
    return all;
}

fs_status conformance_ops_write(conformance_ops *ops, const char *path,
                                fs_err *err)
{
    fs_output out;
    for (int32_t i = 0; onnx_operator_at(i); i++)
        find_row(ops, onnx_operator_at(i)); /* also those without a case */
    sort(ops);
    FS_TRY(fs_output_open(&out, path, err));
    for (int32_t i = 0; i < ops->rows.n; i++) {
        const op_row *row = &ops->rows.at[i];
        const char *line =
            fs_printf(ops->arena, "%s\t%d\t%d\t%d\t%d\t%s\t%s\n", row->name,
                      row->cases, row->passed, row->failed, row->refused,
                      gradient_word(row), cuts_word(row, ops->arena));
        fs_output_write(&out, line, strlen(line));
    }
    return fs_output_close(&out, err);
}
