/* The formula for one iteration of a strategy. */
#include "config.h"
#include "cost/parts.h"

#include "base/sum.h"

#include <math.h>
#include <string.h>

const cost_model *cost_sum_model(const cost_sum *sum, bool per_step)
{
    return per_step ? sum->model : sum->micro;
}

double cost_sum_node(const cost_sum *sum, int32_t v)
{
    const plan_strategy *s = sum->strategy;
    const cost_model *model =
        cost_sum_model(sum, cost_node_per_step(sum->graph, v));
    return cost_node_seconds(model, sum->graph, v, &s->sig[v],
                             &s->stages[s->stage_of[v]]);
}

bool cost_sum_edge_at(const cost_sum *sum, int32_t v, int32_t slot,
                      cost_edge *out)
{
    const plan_strategy *s = sum->strategy;
    int32_t tensor = plan_edge_tensor(sum->graph, s, v, slot);
    if (tensor < 0)
        return false;
    *out = (cost_edge){.ends = plan_edge_ends(sum->graph, s, v, slot),
                       .path = &s->edge[s->first_edge[v] + slot],
                       .anew = s->edge[s->first_edge[v] + slot].sharing > 0,
                       .per_step = plan_edge_per_step(sum->graph, s, v, slot)};
    return true;
}

double cost_sum_edge(const cost_sum *sum, int32_t v, int32_t slot)
{
    cost_edge edge;
    if (!cost_sum_edge_at(sum, v, slot, &edge))
        return 0;
    return cost_edge_seconds(cost_sum_model(sum, edge.per_step), &edge.ends,
                             edge.path);
}

static fs_status check_stages(const cost_sum *sum, fs_err *err)
{
    const plan_strategy *s = sum->strategy;
    int32_t n_devices = cost_cluster(sum->model)->n_devices;
    if (s->n_nodes != sum->graph->nodes.n || s->n_stages < 1 ||
        s->micro_batches < 1)
        return fs_fail(err, FS_INVALID, "the strategy is of another graph");
    for (int32_t i = 0; i < s->n_stages; i++) {
        const plan_stage *stage = &s->stages[i];
        if (stage->first_device < 0 ||
            stage->first_device > n_devices - ir_mesh_size(&stage->mesh))
            return fs_fail(err, FS_INVALID,
                           "stage %d has devices %d to %d, the cluster has %d",
                           i, stage->first_device,
                           stage->first_device + ir_mesh_size(&stage->mesh) - 1,
                           n_devices);
    }
    for (int32_t v = 0; v < s->n_nodes; v++)
        if (s->stage_of[v] < 0 || s->stage_of[v] >= s->n_stages)
            return fs_fail(err, FS_INVALID, "node '%s' is in no stage",
                           sum->graph->nodes.at[v].name);
    return FS_OK;
}

static fs_status check_term(const cost_sum *sum, const cost_term *term,
                            double seconds, fs_err *err)
{
    cost_edge edge;
    if (term->slot < 0 || isfinite(seconds) ||
        !cost_sum_edge_at(sum, term->node, term->slot, &edge))
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "tensor '%s' to '%s': its boxing is no path of the table",
                   edge.ends.tensor->name,
                   sum->graph->nodes.at[term->node].name);
}

static fs_status add_terms(const cost_sum *sum, const cost_formula *formula,
                           fs_err *err, cost_summary *out)
{
    double *seconds = fs_new(sum->arena, double, formula->n_terms);
    fs_sum *stage_s = fs_new(sum->arena, fs_sum, 2 * out->n_stages);
    for (int32_t k = 0; k < formula->n_terms; k++) {
        const cost_term *term = &formula->terms[k];
        seconds[k] = term->slot < 0
                         ? cost_sum_node(sum, term->node)
                         : cost_sum_edge(sum, term->node, term->slot);
        FS_TRY(check_term(sum, term, seconds[k], err));
    }
    for (int32_t k = 0; k < formula->n_counted; k++)
        fs_sum_add_times(&stage_s[formula->counted[k].sum],
                         formula->counted[k].times,
                         seconds[formula->counted[k].term]);
    for (int32_t i = 0; i < out->n_stages; i++) {
        out->micro_s[i] = fs_sum_value(&stage_s[2 * i]);
        out->step_s[i] = fs_sum_value(&stage_s[2 * i + 1]);
    }
    return FS_OK;
}

typedef FS_VEC(int32_t) stage_moments;

/* Adds what an edge holds at each of a stage's moments. */
static void add_edge_bytes(const cost_sum *sum, int32_t v, int32_t slot,
                           const stage_moments *of, int64_t *bytes)
{
    cost_edge edge;
    if (!cost_sum_edge_at(sum, v, slot, &edge))
        return;
    for (int32_t i = 0; i < of->n; i++) {
        cost_holding held;
        if (cost_memory_edge(sum->memory, of->at[i],
                             (cost_reader){v, slot, edge.anew, false}, &held))
            bytes[of->at[i]] +=
                cost_holding_bytes(&held, &edge.ends, edge.path);
    }
}

static void add_stage_bytes(const cost_sum *sum, int32_t stage,
                            const stage_moments *of, int64_t *bytes)
{
    const plan_strategy *s = sum->strategy;
    const int32_t *nodes;
    const int32_t n = cost_memory_nodes(sum->memory, stage, &nodes);
    for (int32_t k = 0; k < n; k++) {
        const int32_t v = nodes[k];
        const ir_mesh *mesh = &s->stages[s->stage_of[v]].mesh;
        for (int32_t i = 0; i < of->n; i++)
            bytes[of->at[i]] +=
                cost_memory_node(sum->memory, of->at[i], v, mesh, &s->sig[v]);
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++)
            add_edge_bytes(sum, v, e - s->first_edge[v], of, bytes);
    }
}

/* What its moments make their stages hold. */
static void sum_bytes(const cost_sum *sum, int64_t *bytes)
{
    const cost_moment *at;
    const int32_t n = cost_memory_moments(sum->memory, &at);
    stage_moments *of =
        fs_new(sum->arena, stage_moments, sum->strategy->n_stages);
    for (int32_t k = 0; k < n; k++)
        fs_push(sum->arena, &of[at[k].stage], k);
    for (int32_t i = 0; i < sum->strategy->n_stages; i++)
        add_stage_bytes(sum, i, &of[i], bytes);
}

cost_program cost_program_of(const ir_graph *graph,
                             const plan_strategy *strategy)
{
    return (cost_program){.graph = graph,
                          .n_stages = strategy->n_stages,
                          .micro_batches = strategy->micro_batches,
                          .schedule = strategy->schedule,
                          .stages = strategy->stages,
                          .stage_of = strategy->stage_of};
}

void cost_strategy_bytes(const ir_graph *graph, const plan_strategy *strategy,
                         int64_t *bytes)
{
    fs_arena *scratch = fs_arena_create();
    cost_sum sum = {NULL, NULL, graph, strategy, scratch, NULL};
    const cost_program program = cost_program_of(graph, strategy);
    const cost_moment *at;
    sum.memory = cost_memory_create(&program, scratch);
    const int32_t n = cost_memory_moments(sum.memory, &at);
    int64_t *at_moment = fs_new(scratch, int64_t, n);
    sum_bytes(&sum, at_moment);
    memset(bytes, 0, (size_t)strategy->n_stages * sizeof *bytes);
    for (int32_t k = 0; k < n; k++)
        if (at_moment[k] > bytes[at[k].stage])
            bytes[at[k].stage] = at_moment[k];
    fs_arena_destroy(scratch);
}

static double of_group(const cost_summary *s, const double *seconds,
                       int32_t group)
{
    double sum = 0;
    for (int32_t i = 0; i < s->n_stages; i++)
        sum += s->group_of[i] == group ? seconds[i] : 0;
    return sum;
}

double cost_slowest_group(const cost_summary *s, const double *seconds)
{
    double slowest = 0;
    for (int32_t g = 0; g < s->n_groups; g++)
        slowest = fmax(slowest, of_group(s, seconds, g));
    return slowest;
}

static double iteration_of(const cost_summary *s, int32_t micro_batches)
{
    double sum = 0;
    for (int32_t i = 0; i < s->n_stages; i++)
        sum += s->micro_s[i];
    return s->fill * sum +
           (micro_batches - s->fill) * cost_slowest_group(s, s->micro_s) +
           cost_slowest_group(s, s->step_s);
}

cost_formula cost_formula_of(const cost_model *model, const ir_graph *graph,
                             const plan_strategy *strategy, fs_arena *arena)
{
    cost_formula formula = {
        .graph = graph,
        .strategy = strategy,
        .pipe = plan_pipeline_of(strategy->stages, strategy->n_stages,
                                 strategy->schedule, strategy->micro_batches,
                                 arena)};
    formula.fill = plan_schedule_fill(&formula.pipe, strategy->stages);
    cost_list_terms(model, arena, &formula);
    return formula;
}

/* All of a summary but bytes and the tree. */
static fs_status add_seconds(cost_sum *sum, const cost_formula *formula,
                             fs_err *err, cost_summary *s)
{
    const plan_strategy *strategy = formula->strategy;
    s->n_stages = strategy->n_stages;
    s->n_groups = formula->pipe.n_roles;
    s->group_of = formula->pipe.role_of;
    s->fill = formula->fill;
    sum->micro = cost_model_for(sum->model, s->n_groups,
                                strategy->micro_batches, sum->arena);
    s->micro_s = fs_new(sum->arena, double, s->n_stages);
    s->step_s = fs_new(sum->arena, double, s->n_stages);
    FS_TRY(add_terms(sum, formula, err, s));
    s->iteration_s = iteration_of(s, strategy->micro_batches);
    return FS_OK;
}

fs_status cost_strategy(const cost_model *model, const ir_graph *graph,
                        const plan_strategy *strategy, fs_arena *arena,
                        fs_err *err, cost_summary *out)
{
    cost_sum sum = {model, model, graph, strategy, arena, NULL};
    cost_summary s = {0};
    FS_TRY(check_stages(&sum, err));
    const cost_formula formula = cost_formula_of(model, graph, strategy, arena);
    FS_TRY(add_seconds(&sum, &formula, err, &s));
    s.peak_bytes = fs_new(arena, int64_t, s.n_stages);
    cost_strategy_bytes(graph, strategy, s.peak_bytes);
    s.time = cost_time_tree(&sum, &s);
    *out = s;
    return FS_OK;
}

double cost_formula_seconds(const cost_formula *formula,
                            const cost_model *model)
{
    fs_arena *scratch = fs_arena_create();
    cost_sum sum = {model,   model, formula->graph, formula->strategy,
                    scratch, NULL};
    cost_summary s = {0};
    fs_err err = {0};
    FS_ASSERT(add_seconds(&sum, formula, &err, &s) == FS_OK);
    fs_arena_destroy(scratch);
    return s.iteration_s;
}

double cost_strategy_seconds(const cost_model *model, const ir_graph *graph,
                             const plan_strategy *strategy)
{
    fs_arena *scratch = fs_arena_create();
    const cost_formula formula =
        cost_formula_of(model, graph, strategy, scratch);
    const double seconds = cost_formula_seconds(&formula, model);
    fs_arena_destroy(scratch);
    return seconds;
}
