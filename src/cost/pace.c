/* Which kind of device sets the pace of a stage that has several. Its ranks
 * meet at collectives and wait for the slowest there, not op by op: the kind
 * that is slow at one op may be quick at the next, and taking the slowest of
 * each op would make a mixture slower than any of its kinds alone. So one kind
 * counts for all ops: that which takes longest for the whole graph. */
#include "config.h"
#include "cost/parts.h"

/* Seconds of one graph, whole, by group. A graph is known by its address, and
 * by what would tell another one that came to lie there. */
typedef struct pace {
    const ir_graph *graph;
    int32_t n_nodes, micro_batches;
    uint64_t digest;
    double *seconds; /* [groups] */
} pace;

struct cost_paces {
    fs_arena *arena;
    FS_VEC(pace) known;
};

cost_paces *cost_paces_create(fs_arena *arena)
{
    cost_paces *paces = fs_new(arena, cost_paces, 1);
    paces->arena = arena;
    return paces;
}

static void add_node(const cost_model *model, const ir_graph *graph, int32_t v,
                     double *seconds)
{
    static const ir_mesh one = {0};
    static const ir_nd_sig whole;
    const ir_node *node = &graph->nodes.at[v];
    double times = cost_node_per_step(graph, v) ? 1 : graph->micro_batches;
    ir_op_class op_class = ir_op_class_of(node->op);
    if (op_class == IR_CLASS_SOURCE || op_class == IR_CLASS_VIEW)
        return;
    const cost_piece piece = {graph, node, &whole, &one};
    for (int32_t g = 0; g < cost_cluster(model)->n_groups; g++)
        seconds[g] += times * cost_op_on(model, g, &piece).total_s;
}

static const double *seconds_of(const cost_model *model, const ir_graph *graph)
{
    cost_paces *paces = cost_model_paces(model);
    for (int32_t i = 0; i < paces->known.n; i++) {
        const pace *k = &paces->known.at[i];
        if (k->graph == graph && k->n_nodes == graph->nodes.n &&
            k->micro_batches == graph->micro_batches &&
            k->digest == graph->digest)
            return k->seconds;
    }
    pace made = {graph, graph->nodes.n, graph->micro_batches, graph->digest,
                 fs_new(paces->arena, double, cost_cluster(model)->n_groups)};
    for (int32_t v = 0; v < graph->nodes.n; v++)
        add_node(model, graph, v, made.seconds);
    fs_push(paces->arena, &paces->known, made);
    return made.seconds;
}

int32_t cost_pace_of(const cost_model *model, const ir_graph *graph,
                     const plan_stage *stage)
{
    cost_groups range = cost_groups_of(model, stage);
    if (range.first == range.last)
        return range.first;
    const double *seconds = seconds_of(model, graph);
    int32_t slowest = range.first;
    for (int32_t g = range.first + 1; g <= range.last; g++)
        if (seconds[g] > seconds[slowest])
            slowest = g;
    return slowest;
}
