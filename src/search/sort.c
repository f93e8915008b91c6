/* In which order configurations are looked at: the least bounds first. */
#include "config.h"
#include "search/narrow.h"

#include <stdlib.h>
#include <string.h>

int search_by_bound(const void *a, const void *b)
{
    const search_candidate *x = *(search_candidate *const *)a,
                           *y = *(search_candidate *const *)b;
    double dx = x->record.lower_bound_s, dy = y->record.lower_bound_s;
    if (x->first != y->first)
        return y->first - x->first;
    if (dx < dy || dx > dy)
        return dx < dy ? -1 : 1;
    if (x->n_stages != y->n_stages)
        return x->n_stages - y->n_stages;
    if (x->record.micro_batches != y->record.micro_batches)
        return x->record.micro_batches - y->record.micro_batches;
    if (x->graph != y->graph)
        return x->graph < y->graph ? -1 : 1;
    for (int32_t k = 0; k < IR_MAX_MESH; k++)
        if (x->mesh.dim[k] != y->mesh.dim[k])
            return y->mesh.dim[k] - x->mesh.dim[k];
    if (x->again != y->again)
        return x->again - y->again;
    const int32_t a_part = x->part ? x->part->number : 0,
                  b_part = y->part ? y->part->number : 0;
    if (a_part != b_part)
        return a_part - b_part;
    if (x->order_number != y->order_number)
        return x->order_number - y->order_number;
    return strcmp(x->schedule ? x->schedule : "",
                  y->schedule ? y->schedule : "");
}

void search_sort(search_level0 *z)
{
    if (z->all.n)
        qsort(z->all.at, (size_t)z->all.n, sizeof *z->all.at, search_by_bound);
}
