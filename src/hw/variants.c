#include "config.h"
#include "hw/cluster.h"

#include <stdlib.h>
#include <string.h>

static int compare_forms(const hw_variant *a, const char *what, uint64_t form)
{
    const int order = strcmp(a->what, what);
    return order ? order : (a->form > form) - (a->form < form);
}

static int compare_variants(const void *a, const void *b)
{
    const hw_variant *p = a, *q = b;
    const int order = compare_forms(p, q->what, q->form);
    if (order)
        return order;
    if (p->seconds != q->seconds)
        return p->seconds < q->seconds ? -1 : 1;
    return strcmp(p->name, q->name);
}

const hw_variant *hw_variants_of(const hw_device *device, const char *what,
                                 uint64_t form, int32_t *n)
{
    const hw_variant *all = device->variants;
    int32_t first = 0, end = device->n_variants;
    while (first < end) { /* the first that is not below */
        const int32_t middle = first + (end - first) / 2;
        if (compare_forms(&all[middle], what, form) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    while (end < device->n_variants &&
           compare_forms(&all[end], what, form) == 0)
        end++;
    *n = end - first;
    return all + first;
}

void hw_variants_sort(hw_device *device)
{
    if (device->n_variants > 1)
        qsort(device->variants, (size_t)device->n_variants,
              sizeof *device->variants, compare_variants);
}
