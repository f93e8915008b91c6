/* What two plans cost where: the trees of `explain`, one beside the other. */
#include "config.h"
#include "cli/compare.h"

#include "base/clock.h"
#include "plan/boxing.h"
#include "report/report.h"

#include <math.h>
#include <string.h>

/* A part of a stage (of a device group); NAN where a plan has no such stage. */
typedef struct part {
    const char *name;
    double a, b;
} part;

typedef FS_VEC(part) parts;

/* A part of one side, 0 before. */
static double *part_at(parts *list, fs_arena *arena, const char *name,
                       bool of_b)
{
    for (int32_t i = 0; i < list->n; i++)
        if (strcmp(list->at[i].name, name) == 0)
            return of_b ? &list->at[i].b : &list->at[i].a;
    part more = {.name = name};
    fs_push(arena, list, more);
    part *last = &list->at[list->n - 1];
    return of_b ? &last->b : &last->a;
}

/* Communication by its kind; what a device does alone is compute, or boxing
 * that only cuts or fills. */
static const char *kind_of(const char *leaf)
{
    if (strcmp(leaf, "point-to-point") == 0)
        return leaf;
    for (int32_t k = 0; k <= IR_CLASS_UPDATE; k++)
        if (strcmp(leaf, ir_op_class_name((ir_op_class)k)) == 0)
            return "compute";
    for (int32_t k = 0; k < PLAN_BOX_KINDS; k++)
        if (strcmp(leaf, plan_box_name((plan_box_kind)k)) == 0 &&
            plan_box_is_collective((plan_box_kind)k))
            return leaf;
    return "local boxing";
}

/* Phases -> leaves of a stage. */
static void add_stage(const plan_breakdown *stage, bool of_b, fs_arena *arena,
                      parts *list)
{
    for (int32_t p = 0; p < stage->n; p++)
        for (int32_t k = 0; k < stage->child[p].n; k++) {
            const plan_breakdown *leaf = &stage->child[p].child[k];
            *part_at(list, arena, kind_of(leaf->name), of_b) += leaf->value;
        }
}

static void add_kinds(const plan_breakdown *role, bool of_b, fs_arena *arena,
                      parts *list)
{
    for (int32_t k = 0; k < role->n; k++)
        *part_at(list, arena, role->child[k].name, of_b) +=
            role->child[k].value;
}

typedef struct figures {
    const char *kind;  /* "time", "memory" */
    const char *place; /* "stage", "device group" */
    bool bytes;
    void (*add)(const plan_breakdown *tree, bool of_b, fs_arena *arena,
                parts *list);
    const plan_breakdown *a, *b;
} figures;

static void parts_of(const figures *f, int32_t i, fs_arena *arena, parts *list)
{
    *list = (parts){0};
    if (i < f->a->n)
        f->add(&f->a->child[i], false, arena, list);
    if (i < f->b->n)
        f->add(&f->b->child[i], true, arena, list);
    *part_at(list, arena, "all", false) =
        i < f->a->n ? f->a->child[i].value : NAN;
    *part_at(list, arena, "all", true) =
        i < f->b->n ? f->b->child[i].value : NAN;
    for (int32_t k = 0; k < list->n; k++) {
        list->at[k].a = i < f->a->n ? list->at[k].a : NAN;
        list->at[k].b = i < f->b->n ? list->at[k].b : NAN;
    }
}

/* Sums of the same terms in another order are the same. */
static bool alike(double a, double b)
{
    return (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-9 * fmax(a, b);
}

static bool same_parts(const parts *x, const parts *y)
{
    bool same = x->n == y->n;
    for (int32_t k = 0; same && k < x->n; k++)
        same = strcmp(x->at[k].name, y->at[k].name) == 0 &&
               alike(x->at[k].a, y->at[k].a) && alike(x->at[k].b, y->at[k].b);
    return same;
}

static const char *figure_text(const figures *f, double value, bool sign,
                               fs_arena *arena)
{
    char text[32];
    if (isnan(value))
        return "-";
    const char *minus = value < 0 ? "-" : sign && value > 0 ? "+" : "";
    if (f->bytes)
        fs_human_bytes(text, fabs(value));
    else
        fs_human_seconds(text, fabs(value));
    return fs_printf(arena, "%s%s", minus, text);
}

static json_t *figure_json(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

typedef struct rows {
    cli_comparing *k;
    const figures *f;
    report_table *table;
} rows;

static void add_row(const rows *r, const char *where, const part *p)
{
    fs_arena *arena = r->k->c->arena;
    report_table_cell(r->table, "%s", where);
    report_table_cell(r->table, "%s", p->name);
    report_table_cell(r->table, "%s", figure_text(r->f, p->a, false, arena));
    report_table_cell(r->table, "%s", figure_text(r->f, p->b, false, arena));
    report_table_cell(r->table, "%s",
                      figure_text(r->f, p->b - p->a, true, arena));
}

/* Parts of places first .. last, whose figures are the same. */
static void add_places(const rows *r, int32_t first, int32_t last,
                       const parts *list)
{
    fs_arena *arena = r->k->c->arena;
    const char *where =
        first == last
            ? fs_printf(arena, "%s %d", r->f->place, first)
            : fs_printf(arena, "%ss %d to %d, each", r->f->place, first, last);
    for (int32_t i = 0; i < list->n; i++) {
        const part *p = &list->at[i];
        if (alike(p->a, p->b))
            continue;
        add_row(r, where, p);
        json_t *row =
            json_pack("{s:s, s:i, s:i, s:s, s:o, s:o}", "kind", r->f->kind,
                      "first", first, "last", last, "part", p->name, "a",
                      figure_json(p->a), "b", figure_json(p->b));
        json_array_append_new(r->k->differences, row);
    }
}

static void compare_trees(cli_comparing *k, const figures *f)
{
    const char *header[] = {f->kind, "part", "A", "B", "B - A"};
    fs_arena *arena = k->c->arena;
    report_table t = {.arena = arena, .n_columns = 5, .header = header};
    const rows r = {k, f, &t};
    const int32_t n = f->a->n > f->b->n ? f->a->n : f->b->n;
    add_row(&r, f->bytes ? "the fullest" : "iteration",
            &(part){"all", f->a->value, f->b->value});
    for (int32_t i = 0; i < n;) {
        parts list, next;
        int32_t last = i;
        parts_of(f, i, arena, &list);
        for (; last + 1 < n; last++) {
            parts_of(f, last + 1, arena, &next);
            if (!same_parts(&list, &next))
                break;
        }
        add_places(&r, i, last, &list);
        i = last + 1;
    }
    cli_say(k->c, "\n");
    if (!k->c->args.json)
        report_table_print(&t, stdout);
}

static void tell_note(const cli *c, const char *name,
                      const plan_breakdown *tree)
{
    if (tree->note)
        cli_say(c, "%s: %s\n", name, tree->note);
}

void cli_compare_costs(cli_comparing *k)
{
    const plan_breakdown a = plan_memory_tree(k->a.p.plan, k->c->arena);
    const plan_breakdown b = plan_memory_tree(k->b.p.plan, k->c->arena);
    compare_trees(k, &(figures){"time", "stage", false, add_stage,
                                &k->a.cost.time, &k->b.cost.time});
    tell_note(k->c, "A", &k->a.cost.time);
    tell_note(k->c, "B", &k->b.cost.time);
    compare_trees(
        k, &(figures){"memory", "device group", true, add_kinds, &a, &b});
}
