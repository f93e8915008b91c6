/* Points of one form each: an op on pieces of these very shapes was measured on
 * the device, so that nothing is interpolated. */
#include "config.h"
#include "cost/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of an op on a group's devices: at by form, least by work. */
typedef struct form_range {
    int32_t n;
    const hw_point *at;
    hw_point *least; /* seconds: of all forms with so much work or more */
} form_range;

struct cost_forms {
    form_range (*ranges)[IR_OP_COUNT]; /* [groups] */
};

static int by_work(const void *a, const void *b)
{
    const hw_point *x = a, *y = b;
    return (x->work > y->work) - (x->work < y->work);
}

/* Points are sorted by name, then form: a curve's, which have none, first. */
static form_range range_of(const hw_device *device, ir_op_kind op,
                           fs_arena *arena)
{
    const char *name = ir_op_table[op]->name;
    form_range range = {0};
    for (int32_t i = 0; i < device->n_points; i++) {
        const hw_point *point = &device->points[i];
        if (!point->form || strcmp(point->what, name) != 0)
            continue;
        if (!range.n++)
            range.at = point;
    }
    if (!range.n)
        return range;
    range.least =
        fs_memdup(arena, range.at, (size_t)range.n * sizeof *range.least);
    qsort(range.least, (size_t)range.n, sizeof *range.least, by_work);
    for (int32_t i = range.n - 2; i >= 0; i--)
        range.least[i].seconds =
            fmin(range.least[i].seconds, range.least[i + 1].seconds);
    return range;
}

static bool has_forms(const hw_device *device)
{
    for (int32_t i = 0; i < device->n_points; i++)
        if (device->points[i].form)
            return true;
    return false;
}

const cost_forms *cost_forms_create(const hw_cluster *cluster, fs_arena *arena)
{
    bool any = false;
    for (int32_t g = 0; g < cluster->n_groups; g++)
        any |= has_forms(&cluster->groups[g].device);
    if (!any)
        return NULL;
    cost_forms *forms = fs_new(arena, cost_forms, 1);
    forms->ranges =
        fs_alloc(arena, (size_t)cluster->n_groups, sizeof *forms->ranges);
    for (int32_t g = 0; g < cluster->n_groups; g++)
        for (int32_t k = 0; k < IR_OP_COUNT; k++)
            forms->ranges[g][k] =
                range_of(&cluster->groups[g].device, (ir_op_kind)k, arena);
    return forms;
}

static int compare_form(const void *key, const void *at)
{
    const uint64_t form = *(const uint64_t *)key;
    const hw_point *point = at;
    return (form > point->form) - (form < point->form);
}

bool cost_forms_any(const cost_forms *forms, int32_t g, ir_op_kind op)
{
    return forms && forms->ranges[g][op].n > 0;
}

const hw_point *cost_forms_find(const cost_forms *forms, int32_t g,
                                const cost_piece *piece)
{
    if (!cost_forms_any(forms, g, piece->node->op))
        return NULL;
    const form_range *range = &forms->ranges[g][piece->node->op];
    const uint64_t form =
        ir_node_form(piece->graph, piece->node, piece->sig, piece->mesh);
    return bsearch(&form, range->at, (size_t)range->n, sizeof *range->at,
                   compare_form);
}

double cost_forms_least(const cost_forms *forms, int32_t g, ir_op_kind op,
                        double work)
{
    if (!cost_forms_any(forms, g, op))
        return INFINITY;
    const form_range *range = &forms->ranges[g][op];
    for (int32_t i = 0; i < range->n; i++)
        if (range->least[i].work >= work)
            return range->least[i].seconds;
    return INFINITY;
}
