#include "config.h"

#include "plan/boxing.h"
#include "plan/lower.h"

#include <string.h>

bool plan_same_mesh(const ir_mesh *a, const ir_mesh *b)
{
    bool same = a->n == b->n;

    for (int32_t k = 0; same && k < a->n; k++)
        same = a->dim[k] == b->dim[k];
    return same;
}

bool plan_same_place(const plan_stage *a, const plan_stage *b)
{
    return a->first_device == b->first_device &&
           plan_same_mesh(&a->mesh, &b->mesh);
}

static int32_t node_edges(const ir_node *node)
{
    return node->op == IR_OP_variable ? 1 : node->n_in;
}

plan_strategy *plan_strategy_new(const ir_graph *graph, int32_t n_stages,
                                 fs_arena *arena)
{
    plan_strategy *s = fs_new(arena, plan_strategy, 1);
    int32_t n = graph->nodes.n;

    FS_ASSERT(n_stages >= 1);
    s->n_nodes = n;
    s->n_stages = n_stages;
    s->micro_batches = graph->micro_batches;
    s->batch = graph->batch;
    s->schedule = "1f1b";
    s->stages = fs_new(arena, plan_stage, n_stages);
    s->stage_of = fs_new(arena, int32_t, n);
    s->sig = fs_new(arena, ir_nd_sig, n);
    s->first_edge = fs_new(arena, int32_t, n + 1);
    for (int32_t v = 0; v < n; v++)
        s->first_edge[v + 1] =
            s->first_edge[v] + node_edges(&graph->nodes.at[v]);
    s->n_edges = s->first_edge[n];
    s->edge = fs_new(arena, plan_boxing, s->n_edges);
    return s;
}

static bool same_stages(const plan_strategy *a, const plan_strategy *b)
{
    bool same = a->n_stages == b->n_stages;

    for (int32_t i = 0; same && i < a->n_stages; i++)
        same = plan_same_place(&a->stages[i], &b->stages[i]);
    return same;
}

static bool same_path(const plan_boxing *a, const plan_boxing *b)
{
    const size_t n = (size_t)a->n + 1;

    return a->n == b->n && a->cross == b->cross && a->sharing == b->sharing &&
           memcmp(a->at, b->at, n * sizeof *a->at) == 0;
}

bool plan_same_strategy(const plan_strategy *a, const plan_strategy *b)
{
    const size_t n = (size_t)a->n_nodes;

    if (a == b)
        return true;
    if (a->n_nodes != b->n_nodes || a->n_edges != b->n_edges ||
        a->micro_batches != b->micro_batches || a->batch != b->batch ||
        strcmp(a->schedule, b->schedule) != 0 || !same_stages(a, b) ||
        memcmp(a->stage_of, b->stage_of, n * sizeof *a->stage_of) != 0 ||
        memcmp(a->first_edge, b->first_edge, n * sizeof *a->first_edge) != 0 ||
        memcmp(a->sig, b->sig, n * sizeof *a->sig) != 0)
        return false;
    for (int32_t e = 0; e < a->n_edges; e++)
        if (!same_path(&a->edge[e], &b->edge[e]))
            return false;
    return true;
}

int32_t plan_node_like(const plan_strategy *s, int32_t v)
{
    return s->like ? s->like[v] : v;
}

int32_t plan_edge_tensor(const ir_graph *graph, const plan_strategy *strategy,
                         int32_t v, int32_t slot)
{
    const ir_node *node = &graph->nodes.at[v];

    FS_ASSERT(slot >= 0 &&
              slot < strategy->first_edge[v + 1] - strategy->first_edge[v]);
    if (node->op == IR_OP_variable)
        return graph->tensors.at[node->out[0]].next;
    return node->in[slot];
}

bool plan_tensor_per_step(const ir_graph *graph, int32_t tensor)
{
    for (;;) {
        const ir_node *node =
            &graph->nodes.at[graph->tensors.at[tensor].producer];
        if (node->op == IR_OP_variable || node->op == IR_OP_constant ||
            node->op == IR_OP_accumulate || node->phase == IR_UPDATE)
            return true;
        if (ir_op_class_of(node->op) != IR_CLASS_VIEW || node->n_in == 0)
            return false;
        tensor = node->in[0]; /* a view changes when what it views does */
    }
}

bool plan_edge_per_step(const ir_graph *graph, const plan_strategy *strategy,
                        int32_t v, int32_t slot)
{
    const ir_node *node = &graph->nodes.at[v];
    const int32_t tensor = plan_edge_tensor(graph, strategy, v, slot);
    const int32_t sharing =
        strategy->edge[strategy->first_edge[v] + slot].sharing;
    const plan_phase phase =
        node->op == IR_OP_variable ? PLAN_END : plan_lower_phase(graph, node);

    return plan_tensor_per_step(graph, tensor) &&
           !(sharing && (phase == PLAN_FORWARD || phase == PLAN_BACKWARD));
}

/* ---- boxing that readers share: equal prefixes (lower_values.c) ---- */

typedef struct reader {
    int32_t node, slot;
} reader;

static const plan_boxing *path_of(const plan_strategy *s, const reader *r)
{
    return &s->edge[s->first_edge[r->node] + r->slot];
}

/* Made anew for readers of the forward or backward pass. */
static bool made_anew(const ir_graph *graph, const plan_strategy *s,
                      const reader *r)
{
    const ir_node *node = &graph->nodes.at[r->node];

    return path_of(s, r)->sharing && node->op != IR_OP_variable &&
           !plan_phase_once(plan_lower_phase(graph, node));
}

static bool same_step(const plan_ends *a, const plan_boxing *of_a,
                      const plan_ends *b, const plan_boxing *of_b, int32_t k)
{
    const bool crosses = plan_ends_cross(a) && of_a->cross == k;
    const plan_stage *stage = plan_path_stage(a, of_a, k + 1);

    return crosses == (plan_ends_cross(b) && of_b->cross == k) &&
           plan_same_place(stage, plan_path_stage(b, of_b, k + 1)) &&
           ir_nd_sbp_equal(&of_a->at[k + 1], &of_b->at[k + 1], stage->mesh.n);
}

static int32_t steps_shared(const ir_graph *graph, const plan_strategy *s,
                            const reader *a, const reader *b)
{
    const plan_boxing *of_a = path_of(s, a), *of_b = path_of(s, b);
    const plan_ends at_a = plan_edge_ends(graph, s, a->node, a->slot);
    const plan_ends at_b = plan_edge_ends(graph, s, b->node, b->slot);
    const plan_stage *stage = plan_path_stage(&at_a, of_a, 0);
    /* The last step of a loop writes its variable. */
    const int32_t n = of_a->n - (graph->nodes.at[a->node].op == IR_OP_variable);
    int32_t k = 0;

    if (of_a->sharing != of_b->sharing ||
        made_anew(graph, s, a) != made_anew(graph, s, b) ||
        !plan_same_place(stage, plan_path_stage(&at_b, of_b, 0)) ||
        !ir_nd_sbp_equal(&of_a->at[0], &of_b->at[0], stage->mesh.n))
        return 0;
    while (k < n && k < of_b->n && same_step(&at_a, of_a, &at_b, of_b, k))
        k++;
    return k;
}

int32_t plan_edge_steps_made(const ir_graph *graph, const ir_uses *uses,
                             const plan_strategy *s, int32_t v, int32_t slot)
{
    const reader self = {v, slot};
    const bool loop = graph->nodes.at[v].op == IR_OP_variable;
    const int32_t tensor = plan_edge_tensor(graph, s, v, slot);
    const int32_t most = path_of(s, &self)->n - loop;
    int32_t made = 0;

    /* The first of thousands of readers mostly shares all. */
    for (int32_t u = uses->first[tensor];
         made < most && u < uses->first[tensor + 1]; u++) {
        reader other = {uses->list[u], 0};
        const ir_node *at = &graph->nodes.at[other.node];
        if (!loop && other.node > v)
            break;
        for (; other.slot < (other.node == v ? slot : at->n_in); other.slot++) {
            if (at->in[other.slot] != tensor)
                continue;
            const int32_t k = steps_shared(graph, s, &self, &other);
            made = k > made ? k : made;
        }
    }
    return made;
}
