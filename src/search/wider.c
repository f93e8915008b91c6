/* Precisions of the optimizer's states that no best plan has. A strategy of a
 * graph is one of the graph whose states are narrower, too: as many nodes and
 * signatures, no tensor of more bytes. Where no node takes longer for that
 * (moves never do), neither does the strategy, at no moment does it hold more,
 * and a bound for the narrower graph is one for both. */
#include "config.h"
#include "search/space.h"

#include <string.h>

static bool same_ends(const ir_node *a, const ir_node *b)
{
    return a->op == b->op && a->phase == b->phase && a->n_in == b->n_in &&
           a->n_out == b->n_out &&
           memcmp(a->in, b->in, (size_t)a->n_in * sizeof *a->in) == 0 &&
           memcmp(a->out, b->out, (size_t)a->n_out * sizeof *a->out) == 0;
}

/* Of tensors: is it of the same type in both? */
static bool same_types(const ir_graph *a, const ir_graph *b, int32_t n,
                       const int32_t *tensor)
{
    for (int32_t i = 0; i < n; i++)
        if (a->tensors.at[tensor[i]].dtype != b->tensors.at[tensor[i]].dtype)
            return false;
    return true;
}

static bool no_slower(const search_problem *p, const ir_graph *narrow,
                      const ir_graph *wide, int32_t v)
{
    const ir_node *node = &narrow->nodes.at[v];
    const ir_op_class op_class = ir_op_class_of(node->op);
    return op_class == IR_CLASS_SOURCE || op_class == IR_CLASS_VIEW ||
           (same_types(narrow, wide, node->n_in, node->in) &&
            same_types(narrow, wide, node->n_out, node->out)) ||
           cost_narrow_is_no_slower(p->cost, node);
}

static bool no_larger(const ir_tensor *narrow, const ir_tensor *wide)
{
    return narrow->next == wide->next && narrow->role == wide->role &&
           ir_shape_equal(&narrow->shape, &wide->shape) &&
           (narrow->dtype == wide->dtype ||
            (ir_dtype_is_float(narrow->dtype) &&
             ir_dtype_is_float(wide->dtype) &&
             ir_dtype_bytes(narrow->dtype) <= ir_dtype_bytes(wide->dtype)));
}

static bool never_worse(const search_problem *p, const search_graph *a,
                        const search_graph *b)
{
    const ir_graph *narrow = a->graph, *wide = b->graph;
    if (a->micro_batches != b->micro_batches ||
        narrow->nodes.n != wide->nodes.n ||
        narrow->tensors.n != wide->tensors.n)
        return false;
    for (int32_t t = 0; t < narrow->tensors.n; t++)
        if (!no_larger(&narrow->tensors.at[t], &wide->tensors.at[t]))
            return false;
    for (int32_t v = 0; v < narrow->nodes.n; v++)
        if (!same_ends(&narrow->nodes.at[v], &wide->nodes.at[v]) ||
            !no_slower(p, narrow, wide, v))
            return false;
    return true;
}

static bool has_states(const search_graph *g, const char *states)
{
    return g->states && strcmp(g->states, states) == 0;
}

/* How many of the first graphs have one kind of states. */
static int32_t of_first_kind(const search_problem *p)
{
    int32_t n = 0;
    while (n < p->n_graphs && p->graphs[0].states &&
           has_states(&p->graphs[n], p->graphs[0].states))
        n++;
    return n;
}

int32_t search_wider_graphs(const search_problem *problem)
{
    search_problem p = *problem;
    int32_t left_out = 0, n = of_first_kind(&p);
    while (n > 0 && 2 * n <= p.n_graphs) {
        for (int32_t g = 0; g < n; g++)
            if (!never_worse(&p, &p.graphs[n + g], &p.graphs[g]))
                return left_out;
        left_out += n;
        p.graphs += n;
        p.n_graphs -= n;
        n = of_first_kind(&p);
    }
    return left_out;
}
