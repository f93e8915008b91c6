/* Where a strategy's time goes, as a tree. */
#include "config.h"
#include "cost/parts.h"

#include "base/clock.h"

#include <math.h>

enum {
    LEAF_OPS = IR_CLASS_UPDATE + 1,
    LEAF_MOVE = LEAF_OPS + PLAN_BOX_KINDS,
    LEAVES,
    PHASES = IR_UPDATE + 1
};

typedef enum bound {
    BOUND_COMPUTE,
    BOUND_MEMORY,
    BOUND_NETWORK,
    BOUND_LATENCY,
    BOUND_LAUNCH,
    BOUNDS
} bound;

/* Seconds of one kind of task of a phase, and of each figure that bound it. */
typedef struct part {
    double seconds, by[BOUNDS];
} part;

typedef struct tally {
    part leaf[PHASES][LEAVES]; /* per step */
} tally;

static bound bound_of(const plan_demand *d)
{
    const double figure[BOUNDS] = {d->compute_s, d->memory_s, d->network_s,
                                   d->latency_s, d->launch_s};
    int32_t most = 0;
    for (int32_t b = 1; b < BOUNDS; b++)
        if (figure[b] > figure[most])
            most = b;
    return (bound)most;
}

static void count(const cost_model *model, const plan_stage *stage,
                  const plan_demand *demand, double times, part *leaf)
{
    double seconds = times * cost_shared_seconds(model, stage, demand);
    leaf->seconds += seconds;
    leaf->by[bound_of(demand)] += seconds;
}

static void tally_node(const cost_sum *sum, int32_t v, tally *t)
{
    const plan_strategy *s = sum->strategy;
    const ir_node *node = &sum->graph->nodes.at[v];
    const plan_stage *stage = &s->stages[s->stage_of[v]];
    bool per_step = cost_node_per_step(sum->graph, v);
    const cost_model *model = cost_sum_model(sum, per_step);
    plan_demand demand = cost_op(model, sum->graph, node, &s->sig[v], stage);
    count(model, stage, &demand, per_step ? 1 : s->micro_batches,
          &t->leaf[node->phase][ir_op_class_of(node->op)]);
}

static void tally_edge(const cost_sum *sum, int32_t v, int32_t slot, tally *t)
{
    cost_edge edge;
    if (!cost_sum_edge_at(sum, v, slot, &edge))
        return;
    const cost_model *model = cost_sum_model(sum, edge.per_step);
    double times = edge.per_step ? 1 : sum->strategy->micro_batches;
    part *leaves =
        t->leaf[edge.per_step ? IR_UPDATE : sum->graph->nodes.at[v].phase];
    for (int32_t i = 0; i < edge.path->n; i++) {
        plan_path_step step;
        if (!plan_path_step_make(&edge.ends, edge.path, i, &step))
            continue; /* cost_strategy has refused it before */
        const plan_stage *stage =
            step.crosses ? edge.ends.to_stage : step.stage;
        plan_demand demand = step.crosses
                                 ? cost_cross(model, &step.cross)
                                 : cost_box_step(model, stage, &step.box);
        count(
            model, stage, &demand, times,
            &leaves[step.crosses ? LEAF_MOVE : LEAF_OPS + (int)step.box.kind]);
    }
}

static const char *leaf_name(int32_t k)
{
    if (k == LEAF_MOVE)
        return "point-to-point";
    if (k >= LEAF_OPS)
        return plan_box_name((plan_box_kind)(k - LEAF_OPS));
    return ir_op_class_name((ir_op_class)k);
}

static const char *leaf_note(const part *leaf)
{
    static const char *const notes[BOUNDS] = {
        "bound by compute", "bound by memory", "bound by bandwidth",
        "bound by latency", "bound by launches"};
    int32_t most = 0;
    for (int32_t b = 1; b < BOUNDS; b++)
        if (leaf->by[b] > leaf->by[most])
            most = b;
    return notes[most];
}

static plan_breakdown phase_tree(const tally *t, int32_t phase, fs_arena *arena)
{
    static const char *const names[PHASES] = {"forward", "backward",
                                              "per step"};
    plan_breakdown out = {.name = names[phase]};
    out.child = fs_new(arena, plan_breakdown, LEAVES);
    for (int32_t k = 0; k < LEAVES; k++) {
        const part *leaf = &t->leaf[phase][k];
        if (leaf->seconds <= 0)
            continue;
        out.value += leaf->seconds;
        out.child[out.n++] = (plan_breakdown){.name = leaf_name(k),
                                              .value = leaf->seconds,
                                              .note = leaf_note(leaf)};
    }
    return out;
}

static const char *stage_name(const cost_sum *sum, int32_t stage)
{
    const plan_stage *at = &sum->strategy->stages[stage];
    return fs_printf(sum->arena, "stage %d (devices %d to %d)", stage,
                     at->first_device,
                     at->first_device + ir_mesh_size(&at->mesh) - 1);
}

static plan_breakdown stage_tree(const cost_sum *sum, const tally *t,
                                 int32_t stage)
{
    plan_breakdown out = {.name = stage_name(sum, stage)};
    out.child = fs_new(sum->arena, plan_breakdown, PHASES);
    for (int32_t p = 0; p < PHASES; p++) {
        plan_breakdown phase = phase_tree(t, p, sum->arena);
        if (!phase.n)
            continue;
        out.value += phase.value;
        out.child[out.n++] = phase;
    }
    return out;
}

/* A pipeline's stages do not add up to its iteration: says why. */
static const char *formula_note(const cost_sum *sum, const cost_summary *s)
{
    double micro = 0;
    int32_t m = sum->strategy->micro_batches;
    if (s->n_stages == 1)
        return fs_printf(sum->arena, "%d micro-batch%s", m, m == 1 ? "" : "es");
    for (int32_t i = 0; i < s->n_stages; i++)
        micro += s->micro_s[i];
    char fill[32], more[32];
    return fs_printf(sum->arena,
                     "stages overlap: fill and drain %s, %.4g more of %s, "
                     "then the slowest update",
                     fs_human_seconds(fill, s->fill * micro), m - s->fill,
                     fs_human_seconds(more, cost_slowest_group(s, s->micro_s)));
}

plan_breakdown cost_time_tree(const cost_sum *sum, const cost_summary *s)
{
    const plan_strategy *strategy = sum->strategy;
    tally *stages = fs_new(sum->arena, tally, s->n_stages);
    plan_breakdown out = {.name = "iteration",
                          .value = s->iteration_s,
                          .note = formula_note(sum, s),
                          .n = s->n_stages};
    for (int32_t v = 0; v < strategy->n_nodes; v++) {
        tally *t = &stages[strategy->stage_of[v]];
        int32_t n = strategy->first_edge[v + 1] - strategy->first_edge[v];
        tally_node(sum, v, t);
        for (int32_t slot = 0; slot < n; slot++)
            tally_edge(sum, v, slot, t);
    }
    out.child = fs_new(sum->arena, plan_breakdown, s->n_stages);
    for (int32_t i = 0; i < s->n_stages; i++)
        out.child[i] = stage_tree(sum, &stages[i], i);
    return out;
}

/* ---- one node ---- */

static double times_of(const cost_sum *sum, bool per_step)
{
    return per_step ? 1 : sum->strategy->micro_batches;
}

/* "bound by memory: 3 us compute, 5 us memory, 2 us launch", as often as it
 * runs in a step. */
static const char *demand_note(const plan_demand *d, double times,
                               fs_arena *arena)
{
    static const char *const names[BOUNDS] = {"compute", "memory", "network",
                                              "latency", "launch"};
    const double figure[BOUNDS] = {d->compute_s, d->memory_s, d->network_s,
                                   d->latency_s, d->launch_s};
    fs_text text = {.arena = arena};
    char seconds[32];
    fs_text_add(&text, "%sbound by %s:",
                d->known != PLAN_BY_FORMULA ? "as measured, " : "",
                names[bound_of(d)]);
    for (int32_t b = 0; b < BOUNDS; b++)
        if (figure[b] > 0)
            fs_text_add(&text, " %s %s", names[b],
                        fs_human_seconds(seconds, times * figure[b]));
    return text.at;
}

static plan_breakdown kernel_tree(const cost_sum *sum, int32_t v)
{
    const plan_strategy *s = sum->strategy;
    const plan_stage *stage = &s->stages[s->stage_of[v]];
    const bool per_step = cost_node_per_step(sum->graph, v);
    const cost_model *model = cost_sum_model(sum, per_step);
    const double times = times_of(sum, per_step);
    const plan_demand demand =
        cost_op(model, sum->graph, &sum->graph->nodes.at[v], &s->sig[v], stage);
    return (plan_breakdown){.name = "kernel",
                            .value = times *
                                     cost_shared_seconds(model, stage, &demand),
                            .note = demand_note(&demand, times, sum->arena)};
}

/* The steps of an edge's path. */
static plan_breakdown edge_tree(const cost_sum *sum, const cost_edge *edge)
{
    const cost_model *model = cost_sum_model(sum, edge->per_step);
    const double times = times_of(sum, edge->per_step);
    plan_breakdown out = {
        .child = fs_new(sum->arena, plan_breakdown, edge->path->n)};
    for (int32_t i = 0; i < edge->path->n; i++) {
        plan_path_step step;
        if (!plan_path_step_make(&edge->ends, edge->path, i, &step))
            continue;
        const plan_stage *stage =
            step.crosses ? edge->ends.to_stage : step.stage;
        const plan_demand demand = step.crosses
                                       ? cost_cross(model, &step.cross)
                                       : cost_box_step(model, stage, &step.box);
        const double seconds =
            times * cost_shared_seconds(model, stage, &demand);
        out.value += seconds;
        out.child[out.n++] = (plan_breakdown){
            .name =
                step.crosses ? "point-to-point" : plan_box_name(step.box.kind),
            .value = seconds,
            .note = demand_note(&demand, times, sum->arena)};
    }
    return out;
}

typedef FS_VEC(plan_breakdown) tree_list;

/* What boxes the tensor for slot `slot` of node `reader`, if anything does. */
static void add_edge_tree(const cost_sum *sum, int32_t reader, int32_t slot,
                          const char *what, tree_list *list)
{
    cost_edge edge;
    char from[64], to[64];
    if (!cost_sum_edge_at(sum, reader, slot, &edge) || edge.path->n == 0)
        return;
    plan_breakdown tree = edge_tree(sum, &edge);
    tree.name = fs_printf(
        sum->arena, "%s, %s to %s", what,
        ir_nd_sbp_text(from, edge.ends.from, edge.ends.from_stage->mesh.n),
        ir_nd_sbp_text(to, edge.ends.to, edge.ends.to_stage->mesh.n));
    fs_push(sum->arena, list, tree);
}

/* Readers' edges of what v makes, a variable's loop too. */
static void add_readers(const cost_sum *sum, int32_t v, tree_list *list)
{
    const plan_strategy *s = sum->strategy;
    for (int32_t u = 0; u < s->n_nodes; u++)
        for (int32_t e = s->first_edge[u]; e < s->first_edge[u + 1]; e++) {
            const int32_t slot = e - s->first_edge[u];
            const int32_t t = plan_edge_tensor(sum->graph, s, u, slot);
            if (u != v && t >= 0 && sum->graph->tensors.at[t].producer == v)
                add_edge_tree(sum, u, slot,
                              fs_printf(sum->arena, "for %s",
                                        sum->graph->nodes.at[u].name),
                              list);
        }
}

plan_breakdown cost_node_tree(const cost_model *model, const ir_graph *graph,
                              const plan_strategy *s, int32_t v,
                              fs_arena *arena)
{
    cost_sum sum = {model, model, graph, s, arena, NULL};
    const plan_pipeline pipe = plan_pipeline_of(
        s->stages, s->n_stages, s->schedule, s->micro_batches, arena);
    plan_breakdown out = {.name = graph->nodes.at[v].name};
    tree_list list = {0};
    sum.micro = cost_model_for(model, pipe.n_roles, s->micro_batches, arena);
    fs_push(arena, &list, kernel_tree(&sum, v));
    for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++) {
        const int32_t slot = e - s->first_edge[v];
        const int32_t t = plan_edge_tensor(graph, s, v, slot);
        if (t >= 0)
            add_edge_tree(&sum, v, slot,
                          fs_printf(arena, "of %s", graph->tensors.at[t].name),
                          &list);
    }
    add_readers(&sum, v, &list);
    for (int32_t k = 0; k < list.n; k++)
        out.value += list.at[k].value;
    out.n = list.n;
    out.child = list.at;
    return out;
}
