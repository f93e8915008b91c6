#include "config.h"
#include "cost/repeated.h"

#include "ir/recompute.h"

#include <string.h>

typedef struct repeats {
    const ir_graph *graph;
    const plan_role *role;
    const int32_t *number; /* [forward nodes] block, or -1 */
    int32_t n_forward;
    bool *copied;  /* [forward nodes] has a copy */
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

static void note_copies(repeats *r)
{
    for (int32_t v = r->n_forward; v < r->graph->nodes.n; v++)
        if (ir_computes_again(r->graph, v))
            r->copied[r->graph->nodes.at[v].forward] = true;
    for (int32_t i = 0; i < r->role->n_tasks; i++) {
        const plan_task *task = &r->role->tasks[i];
        const int32_t v = node_of(r, task);
        if (task->phase != PLAN_BACKWARD || v < r->n_forward ||
            !ir_computes_again(r->graph, v))
            continue;
        const int32_t block = r->number[r->graph->nodes.at[v].forward];
        if (block >= 0)
            (task->kind == PLAN_BOX ? r->meet : r->last)[block] = i;
    }
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

void cost_repeat_blocks(const ir_graph *graph, const plan_role *role,
                        const int32_t *number, int32_t n_blocks,
                        plan_demand *demand, fs_arena *arena)
{
    const int32_t n_forward = ir_forward_nodes(graph);
    repeats r = {graph,
                 role,
                 number,
                 n_forward,
                 fs_new(arena, bool, n_forward),
                 fs_new(arena, int32_t, n_blocks),
                 fs_new(arena, int32_t, n_blocks)};
    memset(r.last, 0xff, (size_t)n_blocks * sizeof *r.last);
    memset(r.meet, 0xff, (size_t)n_blocks * sizeof *r.meet);
    note_copies(&r);
    for (int32_t i = 0; i < role->n_tasks; i++) {
        const plan_task *task = &role->tasks[i];
        const int32_t v = node_of(&r, task);
        if (task->phase != PLAN_FORWARD || v < 0 || v >= n_forward ||
            number[v] < 0 || r.copied[v])
            continue;
        const int32_t to = task->kind == PLAN_BOX && r.meet[number[v]] >= 0
                               ? r.meet[number[v]]
                               : r.last[number[v]];
        if (to >= 0)
            add(&demand[i], &demand[to]);
    }
}
