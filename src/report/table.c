#include "config.h"
#include "report/report.h"

#include "base/clock.h"
#include "base/text.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

void report_table_cell(report_table *table, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fs_make_printable(text);
    fs_push(table->arena, &table->cells, fs_strdup(table->arena, text));
}

/* Columns on the screen: UTF-8 continuation bytes take none. */
static int width_of(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

static bool is_number(const char *text)
{
    return isdigit((unsigned char)text[0]) ||
           ((text[0] == '-' || text[0] == '+') &&
            isdigit((unsigned char)text[1]));
}

static void print_cell(const char *text, int width, bool right, bool last,
                       FILE *out)
{
    int pad = width - width_of(text);
    if (right)
        fprintf(out, "%*s%s", pad, "", text);
    else
        fprintf(out, "%s%*s", text, last ? 0 : pad, "");
    fputs(last ? "\n" : "  ", out);
}

static bool column_is_numeric(const report_table *t, int32_t column)
{
    bool any = false;
    for (int32_t i = column; i < t->cells.n; i += t->n_columns) {
        const char *text = t->cells.at[i];
        if (text[0] && !is_number(text))
            return false;
        any = any || text[0];
    }
    return any;
}

void report_table_print(const report_table *t, FILE *out)
{
    int32_t n = t->n_columns;
    int width[64];
    bool right[64];
    FS_ASSERT(n <= 64);
    for (int32_t i = 0; i < n; i++) {
        width[i] = width_of(t->header[i]);
        right[i] = column_is_numeric(t, i);
    }
    for (int32_t i = 0; i < t->cells.n; i++) {
        int w = width_of(t->cells.at[i]);
        if (w > width[i % n])
            width[i % n] = w;
    }
    for (int32_t i = 0; i < n; i++)
        print_cell(t->header[i], width[i], right[i], i + 1 == n, out);
    for (int32_t i = 0; i < n; i++) {
        for (int k = 0; k < width[i]; k++)
            fputc('-', out);
        fputs(i + 1 == n ? "\n" : "  ", out);
    }
    for (int32_t i = 0; i < t->cells.n; i++)
        print_cell(t->cells.at[i], width[i % n], right[i % n], i % n + 1 == n,
                   out);
}

static void print_branch(const plan_breakdown *tree, double whole,
                         const char *unit, int32_t depth, FILE *out)
{
    char value[32], bar[21] = "";
    double share = whole > 0 ? tree->value / whole : 0;
    int full = (int)(share * 20 + 0.5);
    for (int i = 0; i < full && i < 20; i++)
        bar[i] = '#';
    if (strcmp(unit, "B") == 0)
        fs_human_bytes(value, tree->value);
    else
        fs_human_seconds(value, tree->value);
    fprintf(out, "%*s%-*s %10s %5.1f %%%s%-*s%s%s\n", 2 * depth, "",
            32 - 2 * depth, tree->name, value, 100 * share,
            bar[0] || tree->note ? "  " : "", tree->note ? 20 : 0, bar,
            tree->note ? "  " : "", tree->note ? tree->note : "");
    for (int32_t i = 0; i < tree->n; i++)
        print_branch(&tree->child[i], whole, unit, depth + 1, out);
}

void report_tree_print(const plan_breakdown *tree, const char *unit,
                       int32_t depth, FILE *out)
{
    print_branch(tree, tree->value, unit, depth, out);
}
