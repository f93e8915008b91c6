#include "config.h"
#include "cost/repeated.h"

#include "ir/recompute.h"

#include <string.h>

typedef struct cost_repeats {
    const ir_graph *graph;
    const int32_t *number; /* [forward nodes] block, or -1 */
    int32_t n_forward;
    bool *copied; /* [forward nodes] has a copy */
    /* of one role, left as they were found */
    int32_t *last; /* [blocks] a task that makes something of it again; */
    int32_t *meet; /* [blocks] one of its collectives there; -1 */
} repeats;

/* That a task computes, or whose result it passes round; -1: others. */
static int32_t node_of(const repeats *r, const plan_task *task)
{
    if (task->kind == PLAN_COMPUTE)
        return task->node;
    return task->kind == PLAN_BOX && task->comm >= 0
               ? r->graph->tensors.at[task->tensor].producer
               : -1;
}

/* The block that the copy is of which the task runs; -1: it is none. */
static int32_t block_again(const repeats *r, const plan_task *task)
{
    const int32_t v = node_of(r, task);
    return task->phase != PLAN_BACKWARD || v < r->n_forward ||
                   !ir_computes_again(r->graph, v)
               ? -1
               : r->number[r->graph->nodes.at[v].forward];
}

static void add(const plan_demand *of, plan_demand *to)
{
    to->compute_s += of->compute_s;
    to->memory_s += of->memory_s;
    to->network_s += of->network_s;
    to->latency_s += of->latency_s;
    to->launch_s += of->launch_s;
    to->total_s += of->total_s;
}

cost_repeats *cost_repeats_create(const ir_graph *graph, fs_arena *arena)
{
    const int32_t n_forward = ir_forward_nodes(graph);
    int32_t *number = fs_new(arena, int32_t, graph->nodes.n);
    const int32_t n_blocks = ir_recomputed_blocks(graph, arena, number);
    repeats *r = fs_new(arena, repeats, 1);
    *r = (repeats){.graph = graph,
                   .number = number,
                   .n_forward = n_forward,
                   .copied = fs_new(arena, bool, n_forward),
                   .last = fs_new(arena, int32_t, n_blocks),
                   .meet = fs_new(arena, int32_t, n_blocks)};
    memset(r->last, 0xff, (size_t)n_blocks * sizeof *r->last);
    memset(r->meet, 0xff, (size_t)n_blocks * sizeof *r->meet);
    for (int32_t v = n_forward; v < graph->nodes.n; v++)
        if (ir_computes_again(graph, v))
            r->copied[graph->nodes.at[v].forward] = true;
    return r;
}

void cost_repeat_blocks(cost_repeats *r, const plan_role *role,
                        plan_demand *demand)
{
    for (int32_t i = 0; i < role->n_tasks; i++) {
        const plan_task *task = &role->tasks[i];
        const int32_t block = block_again(r, task);
        if (block >= 0)
            (task->kind == PLAN_BOX ? r->meet : r->last)[block] = i;
    }
    for (int32_t i = 0; i < role->n_tasks; i++) {
        const plan_task *task = &role->tasks[i];
        const int32_t v = node_of(r, task);
        if (task->phase != PLAN_FORWARD || v < 0 || v >= r->n_forward ||
            r->number[v] < 0 || r->copied[v])
            continue;
        const int32_t block = r->number[v];
        const int32_t to = task->kind == PLAN_BOX && r->meet[block] >= 0
                               ? r->meet[block]
                               : r->last[block];
        if (to >= 0)
            add(&demand[i], &demand[to]);
    }
    for (int32_t i = 0; i < role->n_tasks; i++) {
        const int32_t block = block_again(r, &role->tasks[i]);
        if (block >= 0)
            r->meet[block] = r->last[block] = -1;
    }
}
