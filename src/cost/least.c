/* What no simulation of a strategy's plan takes less than, step after step:
 * the busiest resource (a device's compute stream, a channel, the cores of a
 * pool) and the longest way round through a pipeline. Every overlap that
 * lowering and simulator could allow is granted; what is left is sums over
 * nodes and edges, conversions that readers share counted once. */
#include "config.h"
#include "cost/parts.h"

#include "plan/lower.h"

#include <math.h>

/* Where a stage of a pipeline meets its neighbours, as nodes of its program;
 * -1: nothing crosses there. A task of the way down from the stage before
 * stands in [forward_in, forward_out], one of the way up in [backward_in,
 * backward_out]. */
typedef struct least_gates {
    int32_t forward_in, forward_out, backward_in, backward_out;
    int32_t down, up; /* edges that cross to the next stage, and back */
} least_gates;

/* Seconds of a stage's rank. Of compute: all per micro-batch and per step;
 * what the first or last micro-batch need not wait for before it goes up again
 * (`aside`), what both pass on the way to the stages behind (`through`) and
 * back, and of a stage where that way begins and ends (`around`). */
typedef struct least_stage {
    double micro_s, step_s, core_s;
    /* Per step, on streams of their own: of micro-batches, of the step */
    double collective_s[PLAN_PASSES][2];
    double aside_s, through_s, around_s;
    double down_s, up_s; /* moves to the next stage and back */
} least_stage;

typedef struct least {
    const cost_model *model;
    const ir_graph *graph;
    const plan_strategy *strategy;
    const plan_schedule *schedule;
    bool apart;   /* collectives may run beside compute */
    bool bundled; /* those of a step may go together */
    bool chained; /* the pipeline has a way round that is looked at */
    ir_uses uses;
    fs_arena *arena;
    least_gates *gates;  /* [n_stages] */
    least_stage *stages; /* [n_stages] */
    double *move_s;      /* [n_stages][n_stages][late] per step */
} least;

/* A firing of a stage's compute stream. `at`: twice a node's number, and one
 * for its own task; -1: not known. */
typedef struct least_task {
    int32_t stage;
    plan_phase phase;
    int32_t at;
    bool collective;
    plan_demand demand;
} least_task;

/* ---- gates ---- */

/* The first task of the phase on the stage that waits for a reader's edge:
 * the reader's own, or what reads a view. */
static int32_t first_task(const least *x, int32_t v, plan_phase phase,
                          int32_t stage)
{
    const ir_node *node = &x->graph->nodes.at[v];
    int32_t first = INT32_MAX;
    if (x->strategy->stage_of[v] != stage ||
        plan_lower_phase(x->graph, node) != phase)
        return first;
    if (!plan_lower_is_view(node))
        return v;
    const int32_t out = node->out[0];
    for (int32_t u = x->uses.first[out]; u < x->uses.first[out + 1]; u++) {
        const int32_t at = first_task(x, x->uses.list[u], phase, stage);
        first = at < first ? at : first;
    }
    return first;
}

/* Edges of `phase` from a task of one stage to another's: that of the latest
 * producer. */
static int32_t last_crossing(const least *x, plan_phase phase, int32_t from,
                             int32_t to, int32_t *out, int32_t *in)
{
    const plan_strategy *s = x->strategy;
    int32_t best = -1;
    *out = *in = -1;
    for (int32_t v = 0; v < s->n_nodes; v++) {
        const ir_node *node = &x->graph->nodes.at[v];
        for (int32_t k = 0; k < node->n_in && s->stage_of[v] == to; k++) {
            const int32_t tensor = node->in[k];
            const int32_t maker = x->graph->tensors.at[tensor].producer;
            const int32_t task = first_task(x, v, phase, to);
            if (s->stage_of[maker] != from || task == INT32_MAX ||
                plan_lower_base(x->graph, tensor) != phase ||
                ir_op_class_of(x->graph->nodes.at[maker].op) ==
                    IR_CLASS_SOURCE ||
                plan_lower_is_view(&x->graph->nodes.at[maker]) ||
                maker < *out || (maker == *out && task >= *in))
                continue;
            *out = maker;
            *in = task;
            best = s->first_edge[v] + k;
        }
    }
    return best;
}

static void find_gates(least *x)
{
    const int32_t p = x->strategy->n_stages;
    x->gates = fs_new(x->arena, least_gates, p);
    for (int32_t i = 0; i < p; i++)
        x->gates[i] = (least_gates){-1, -1, -1, -1, -1, -1};
    for (int32_t i = 0; x->chained && i + 1 < p; i++) {
        x->gates[i].down =
            last_crossing(x, PLAN_FORWARD, i, i + 1, &x->gates[i].forward_out,
                          &x->gates[i + 1].forward_in);
        x->gates[i].up = last_crossing(x, PLAN_BACKWARD, i + 1, i,
                                       &x->gates[i + 1].backward_out,
                                       &x->gates[i].backward_in);
    }
}

/* ---- tasks ---- */

static bool between(int32_t at, int32_t in, int32_t out)
{
    return at >= 0 && at >= 2 * in + 1 && (out < 0 || at <= 2 * out + 1);
}

static void add_micro(least *x, const least_task *task)
{
    const least_gates *g = &x->gates[task->stage];
    least_stage *s = &x->stages[task->stage];
    const bool forth = task->phase == PLAN_FORWARD;
    const double seconds = task->demand.total_s;
    const int32_t in = forth ? g->forward_in : g->backward_in;
    const int32_t out = forth ? g->forward_out : g->backward_out;
    s->micro_s += seconds;
    if (!(forth ? between(task->at, in, -1)
                : task->at >= 0 && task->at <= 2 * out + 1))
        s->aside_s += seconds;
    if (in >= 0 && out >= 0 && between(task->at, in, out))
        s->through_s += seconds;
    if (forth ? task->at >= 0 && task->at <= 2 * out + 1
              : in >= 0 && between(task->at, in, -1))
        s->around_s += seconds;
}

static void add_task(least *x, const least_task *task)
{
    least_stage *s = &x->stages[task->stage];
    const bool once = plan_phase_once(task->phase);
    const double seconds = task->demand.total_s;
    if (task->demand.on_core)
        s->core_s += seconds * (once ? 1 : x->strategy->micro_batches);
    if (x->apart && task->collective)
        s->collective_s[plan_schedule_pass(x->schedule, task->phase)][once] +=
            seconds * (once ? 1 : x->strategy->micro_batches);
    else if (once)
        s->step_s += seconds;
    else
        add_micro(x, task);
}

/* Stages on the same devices have their tasks on one stream: the first's. */
static int32_t stage_at(const least *x, const plan_stage *place)
{
    int32_t i = 0;
    while (!plan_same_place(&x->strategy->stages[i], place))
        i++;
    return i;
}

static void add_node(least *x, int32_t v)
{
    const plan_strategy *s = x->strategy;
    const ir_node *node = &x->graph->nodes.at[v];
    const plan_stage *stage = &s->stages[s->stage_of[v]];
    if (ir_op_class_of(node->op) == IR_CLASS_SOURCE || plan_lower_is_view(node))
        return;
    add_task(x, &(least_task){.stage = stage_at(x, stage),
                              .phase = plan_lower_phase(x->graph, node),
                              .at = 2 * v + 1,
                              .demand = cost_op(x->model, x->graph, node,
                                                &s->sig[v], stage)});
}

static void add_move(least *x, int32_t v, int32_t slot, const plan_ends *ends,
                     const plan_demand *demand)
{
    const plan_strategy *s = x->strategy;
    const int32_t tensor = plan_edge_tensor(x->graph, s, v, slot);
    const plan_phase phase = plan_lower_base(x->graph, tensor);
    const int32_t from = stage_at(x, ends->from_stage);
    const int32_t to = stage_at(x, ends->to_stage);
    x->move_s[2 * (from * s->n_stages + to) + (phase >= PLAN_BACKWARD)] +=
        demand->total_s * (plan_phase_once(phase) ? 1 : s->micro_batches);
}

static void add_step(least *x, int32_t v, int32_t slot, int32_t k,
                     const plan_path_step *step)
{
    const plan_strategy *s = x->strategy;
    const ir_node *node = &x->graph->nodes.at[v];
    const plan_boxing *path = &s->edge[s->first_edge[v] + slot];
    const plan_ends ends = plan_edge_ends(x->graph, s, v, slot);
    const int32_t tensor = plan_edge_tensor(x->graph, s, v, slot);
    const plan_phase base = plan_lower_base(x->graph, tensor);
    const plan_phase use = node->op == IR_OP_variable
                               ? PLAN_END
                               : plan_lower_phase(x->graph, node);
    const bool sent = plan_ends_cross(&ends) && k < path->cross;
    const bool early = !path->sharing && (sent || use == base);
    const bool once = plan_edge_per_step(x->graph, s, v, slot);
    /* How little it takes in a bucket hangs on what else is in there. */
    if (x->bundled && once && plan_box_fuses(step->box.kind))
        return;
    add_task(x,
             &(least_task){
                 .stage = stage_at(x, step->stage),
                 .phase = once    ? PLAN_END
                          : early ? base
                                  : use,
                 .at = early ? 2 * (ends.tensor->producer + 1) : -1,
                 .collective = plan_box_is_collective(step->box.kind),
                 .demand = cost_box_step(x->model, step->stage, &step->box)});
}

static void add_edge(least *x, int32_t v, int32_t slot)
{
    const plan_strategy *s = x->strategy;
    const int32_t e = s->first_edge[v] + slot;
    const plan_ends ends = plan_edge_ends(x->graph, s, v, slot);
    const plan_boxing *path = &s->edge[e];
    if (!ends.tensor)
        return;
    const int32_t made = plan_edge_steps_made(x->graph, &x->uses, s, v, slot);
    for (int32_t k = 0; k < path->n; k++) {
        plan_path_step step;
        if (!plan_path_step_make(&ends, path, k, &step))
            continue; /* cost_strategy refuses it */
        const plan_demand move =
            step.crosses ? cost_cross(x->model, &step.cross) : (plan_demand){0};
        for (int32_t i = 0; step.crosses && i < s->n_stages; i++) {
            x->stages[i].down_s += x->gates[i].down == e ? move.total_s : 0;
            x->stages[i].up_s += x->gates[i].up == e ? move.total_s : 0;
        }
        if (k >= made && step.crosses)
            add_move(x, v, slot, &ends, &move);
        else if (k >= made)
            add_step(x, v, slot, k, &step);
    }
}

/* ---- the most of all ---- */

/* From a role's first task of a step to the next step's: down the pipeline
 * with the first micro-batch, all of the last stage of the way, and back up
 * with the last. */
static double longest_way(const least *x)
{
    const int32_t p = x->strategy->n_stages;
    const double m = x->strategy->micro_batches;
    double most = 0;
    for (int32_t r = 0; r < p; r++) {
        const least_stage *first = &x->stages[r];
        double way = first->step_s + first->around_s;
        for (int32_t k = r + 1; k < p; k++) {
            const least_gates *g = &x->gates[k - 1];
            const least_stage *last = &x->stages[k];
            if (g->down < 0 || g->up < 0)
                break;
            way += x->stages[k - 1].down_s + x->stages[k - 1].up_s;
            most = fmax(most, way + m * last->micro_s - last->aside_s);
            if (x->gates[k].forward_out < x->gates[k].forward_in ||
                x->gates[k].backward_out < x->gates[k].backward_in)
                break;
            way += last->through_s;
        }
    }
    return most;
}

static double busiest_pool(const least *x)
{
    const hw_cluster *cluster = cost_cluster(x->model);
    double *sum = fs_new(x->arena, double, cluster->n_devices), most = 0;
    for (int32_t i = 0; i < x->strategy->n_stages; i++) {
        const plan_stage *stage = &x->strategy->stages[i];
        for (int32_t d = 0; d < ir_mesh_size(&stage->mesh); d++) {
            int32_t cores;
            const int32_t pool =
                hw_core_pool(cluster, stage->first_device + d, &cores);
            sum[pool] += cores > 0 ? x->stages[i].core_s / cores : 0;
            most = fmax(most, sum[pool]);
        }
    }
    return most;
}

static double busiest_stream(const least *x)
{
    const int32_t p = x->strategy->n_stages;
    const double m = x->strategy->micro_batches;
    double most = 0;
    for (int32_t i = 0; i < p; i++) {
        const least_stage *s = &x->stages[i];
        most = fmax(most, m * s->micro_s + s->step_s);
        for (int32_t k = 0; k < PLAN_PASSES; k++)
            most =
                fmax(most, fmax(s->collective_s[k][0], s->collective_s[k][1]));
    }
    for (int32_t k = 0; k < 2 * p * p; k++)
        most = fmax(most, x->move_s[k]);
    return most;
}

double cost_least(const cost_model *model, const ir_graph *graph,
                  const plan_strategy *strategy,
                  const plan_lower_options *options)
{
    fs_arena *arena = fs_arena_create();
    const int32_t p = strategy->n_stages;
    const plan_pipeline pipe =
        plan_pipeline_of(strategy->stages, p, strategy->schedule,
                         strategy->micro_batches, arena);
    least x = {.model = model,
               .graph = graph,
               .strategy = strategy,
               .schedule = pipe.schedule,
               .apart = options->overlap || pipe.schedule->passes > 1,
               .bundled = options->bucket_bytes > 0,
               .chained = pipe.n_roles == p && !pipe.schedule->splits &&
                          pipe.schedule->passes == 1,
               .uses = ir_graph_uses(graph, arena),
               .arena = arena,
               .stages = fs_new(arena, least_stage, p),
               .move_s = fs_new(arena, double, 2 * (int64_t)p * p)};
    find_gates(&x);
    for (int32_t v = 0; v < strategy->n_nodes; v++) {
        add_node(&x, v);
        for (int32_t e = strategy->first_edge[v];
             e < strategy->first_edge[v + 1]; e++)
            add_edge(&x, v, e - strategy->first_edge[v]);
    }
    double most = fmax(busiest_stream(&x), busiest_pool(&x));
    if (x.chained)
        most = fmax(most, longest_way(&x));
    fs_arena_destroy(arena);
    return most;
}
