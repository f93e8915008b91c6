/* Does a strategy's lowered plan fit? What search binds is a lower bound of
 * that, so the plan that it found has to be looked at. */
#include "config.h"
#include "search/effort.h"
#include "search/fit.h"

#include "search/deep.h"

#include "ir/compact.h"
#include "plan/fullest.h"
#include "plan/lower.h"

#include <math.h>

int64_t search_device_bytes(const search_problem *problem,
                            const plan_stage *stage)
{
    double share = problem->memory_share > 0 ? problem->memory_share : 1;
    double least =
        problem->memory_bytes > 0 ? (double)problem->memory_bytes : INFINITY;
    const int32_t last = stage->first_device + ir_mesh_size(&stage->mesh) - 1;
    const hw_group *group = hw_group_of(problem->cluster, stage->first_device);
    for (; group <= hw_group_of(problem->cluster, last); group++)
        least = fmin(least, group->device.memory_bytes);
    return least < 9e18 ? (int64_t)(share * least) : INT64_MAX;
}

/* Registers of a plan have at most as many buffers as micro-batches in flight
 * and two more; lowering makes one register per output, boxing step and
 * move, and a stream's scratch is that of one step. */
static double register_bytes(const plan_stage *stage, const ir_tensor *tensor,
                             const ir_nd_sbp *sbp)
{
    ir_shape piece = ir_largest_piece(&tensor->shape, sbp, &stage->mesh);
    return PLAN_ALIGN + (double)ir_shape_count(&piece) *
                            (double)ir_dtype_bytes(tensor->dtype);
}

static double most_bytes(const ir_graph *graph, const plan_strategy *s)
{
    double sum = 0, most = 0;
    for (int32_t v = 0; v < s->n_nodes; v++) {
        const ir_node *node = &graph->nodes.at[v];
        const int32_t times = ir_times(node);
        for (int32_t o = 0; o < node->n_out; o++)
            sum += times * register_bytes(&s->stages[s->stage_of[v]],
                                          &graph->tensors.at[node->out[o]],
                                          &s->sig[v].out[o]);
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++) {
            plan_ends ends = plan_edge_ends(graph, s, v, e - s->first_edge[v]);
            for (int32_t k = 0; ends.tensor && k <= s->edge[e].n; k++) {
                double bytes =
                    register_bytes(plan_path_stage(&ends, &s->edge[e], k),
                                   ends.tensor, &s->edge[e].at[k]);
                sum += times * bytes;
                most = bytes > most ? bytes : most;
            }
        }
    }
    return sum * (s->micro_batches + 2) + 2 * most * (3 + 4 * s->n_stages);
}

static void tell_bytes(const plan_role *role, const int64_t *limit,
                       int64_t *bytes)
{
    for (int32_t c = 0; c < role->n_chunks; c++) {
        int32_t stage = role->stages[c];
        bytes[stage] = role->bound_bytes > limit[stage] ? role->bound_bytes
                                                        : role->arena_bytes;
    }
}

/* The one that runs, or the next in front of which something is boxed. */
static int32_t node_at(const plan_role *role, int32_t task)
{
    const plan_phase phase = role->tasks[task].phase;
    int32_t at = task;
    while (at < role->n_tasks && role->tasks[at].phase == phase &&
           role->tasks[at].node < 0)
        at++;
    if (at == role->n_tasks || role->tasks[at].phase != phase)
        for (at = task; at > 0 && role->tasks[at].node < 0; at--)
            ;
    return role->tasks[at].node;
}

static bool has_misfit(const plan_role *role, const int64_t *limit,
                       const int64_t *bytes)
{
    for (int32_t c = 0; c < role->n_chunks; c++)
        if (bytes[role->stages[c]] > limit[role->stages[c]])
            return true;
    return false;
}

/* Of roles that do not fit; when one is fullest does not depend on offsets. */
static void tell_fullest(const ir_graph *graph, const plan *lowered,
                         const int64_t *limit, const int64_t *bytes,
                         int32_t *node)
{
    const plan_strategy *strategy = lowered->strategy;
    for (int32_t i = 0; i < strategy->n_stages; i++)
        node[i] = -1;
    for (int32_t r = 0; r < lowered->n_roles; r++) {
        if (!has_misfit(&lowered->roles[r], limit, bytes))
            continue;
        const plan_fullest full = plan_fullest_of(graph, lowered, r);
        const int32_t v =
            full.task < 0 ? -1 : node_at(&lowered->roles[r], full.task);
        if (v >= 0)
            node[strategy->stage_of[v]] = v;
    }
}

/* What it is held against, and what comes out. */
typedef struct looked {
    const int64_t *limit;
    int64_t *bytes;
    int32_t *fullest; /* of what does not fit; NULL: nobody asks */
} looked;

static bool keeps(const plan_strategy *strategy, const looked *look)
{
    for (int32_t i = 0; i < strategy->n_stages; i++)
        if (look->bytes[i] > look->limit[i])
            return false;
    return true;
}

/* What cannot be lowered, as where a stage computes nothing but casts that are
 * left out, fits nowhere, but where the cut is its user's, who is told. Of what
 * cannot fit the least that it could take is told. */
static bool lowered_fits(const search_problem *problem, const ir_graph *graph,
                         const plan_strategy *strategy, const looked *look)
{
    fs_arena *scratch = fs_arena_create();
    plan_lower_options options = plan_lower_defaults();
    options.refine = false; /* refined it needs no more */
    options.enough_bytes = look->limit;
    options.asks_fit = true;
    options.known = problem->placed;
    fs_err err = {0};
    plan *lowered;
    bool fits = true;
    if (plan_lower(graph, problem->cluster, strategy, &options, scratch, &err,
                   &lowered) == FS_OK) {
        for (int32_t r = 0; r < lowered->n_roles; r++)
            tell_bytes(&lowered->roles[r], look->limit, look->bytes);
        fits = keeps(strategy, look);
        if (!fits && look->fullest)
            tell_fullest(graph, lowered, look->limit, look->bytes,
                         look->fullest);
    } else if (problem->recut) {
        fits = false;
        for (int32_t i = 0; i < strategy->n_stages; i++)
            look->bytes[i] = look->limit[i] + 1;
    }
    fs_arena_destroy(scratch);
    return fits;
}

static bool grows(const plan_stage *stage, const ir_tensor *tensor,
                  const plan_boxing *path)
{
    return path->n > 0 && register_bytes(stage, tensor, &path->at[path->n]) >
                              register_bytes(stage, tensor, &path->at[0]);
}

/* A cast of a variable is made for each micro-batch. */
static bool made_of_variables(const ir_graph *graph, const ir_tensor *tensor)
{
    const ir_node *node = &graph->nodes.at[tensor->producer];
    for (int32_t k = 0; k < node->n_in; k++)
        if (!plan_tensor_per_step(graph, node->in[k]))
            return false;
    return node->n_in > 0;
}

int32_t search_box_again(const ir_graph *graph, bool all, plan_strategy *s)
{
    int32_t n = 0;
    for (int32_t v = 0; v < s->n_nodes; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (node->phase != IR_BACKWARD || plan_lower_is_view(node))
            continue;
        for (int32_t k = 0; k < node->n_in; k++) {
            plan_boxing *path = &s->edge[s->first_edge[v] + k];
            const ir_tensor *tensor = &graph->tensors.at[node->in[k]];
            if (plan_lower_base(graph, node->in[k]) != PLAN_FORWARD ||
                s->stage_of[tensor->producer] != s->stage_of[v] ||
                path->sharing ||
                !grows(&s->stages[s->stage_of[v]], tensor, path) ||
                !(all || made_of_variables(graph, tensor)))
                continue;
            path->sharing = search_sharing_of(graph, v);
            n++;
        }
    }
    return n;
}

/* Lowered as it is, or with what forward gathered gathered again. */
static bool fits_lowered(const search_problem *problem, const ir_graph *graph,
                         plan_strategy *strategy, const looked *look)
{
    return lowered_fits(problem, graph, strategy, look) ||
           (search_box_again(graph, true, strategy) > 0 &&
            lowered_fits(problem, graph, strategy, look));
}

/* What is over in the whole needs no lowering to be boxed again. */
static search_depths fits_deep(const search_problem *problem,
                               const ir_graph *graph, const int64_t *limit,
                               plan_strategy *strategy)
{
    search_depths told = search_fits_deep(problem, graph, limit, strategy);
    if (told == SEARCH_DEEP_OVER && search_box_again(graph, true, strategy) > 0)
        told = search_fits_deep(problem, graph, limit, strategy);
    return told;
}

bool search_fits_or(const search_problem *problem, const ir_graph *graph,
                    const int64_t *limit, plan_strategy *strategy,
                    search_fit *out)
{
    looked look = {limit, out->bytes, out->fullest};
    double least = INFINITY;
    out->guessed = false;
    for (int32_t i = 0; i < strategy->n_stages; i++)
        least = fmin(least, (double)limit[i]);
    if (most_bytes(graph, strategy) <= least)
        return true;
    search_depths told = SEARCH_NOT_DEEP;
    if ((out->guesses && !problem->lowers_all) || problem->outgrown)
        told = fits_deep(problem, graph, limit, strategy);
    out->guessed = told == SEARCH_DEEP_FITS;
    if (out->guessed || (told == SEARCH_DEEP_OVER && !out->bytes))
        return out->guessed;
    if (problem->outgrown) { /* lowered is what is in full */
        search_outgrow(problem);
        return out->guessed = true;
    }
    fs_arena *scratch = fs_arena_create();
    if (!look.bytes)
        look.bytes = fs_new(scratch, int64_t, strategy->n_stages);
    const bool fits = fits_lowered(problem, graph, strategy, &look);
    fs_arena_destroy(scratch);
    return fits;
}

bool search_fits(const search_problem *problem, const ir_graph *graph,
                 const int64_t *limit, plan_strategy *strategy, int64_t *bytes)
{
    search_fit fit = {.bytes = bytes};
    return search_fits_or(problem, graph, limit, strategy, &fit);
}

double search_share_taken(const ir_graph *graph, const plan_strategy *strategy,
                          const int64_t *limit, const int64_t *bytes)
{
    fs_arena *scratch = fs_arena_create();
    int64_t *by_net_bytes = fs_new(scratch, int64_t, strategy->n_stages);
    double taken = 1;
    cost_strategy_bytes(graph, strategy, by_net_bytes);
    for (int32_t i = 0; i < strategy->n_stages; i++) {
        if (bytes[i] <= limit[i])
            continue;
        const double by_net = (double)by_net_bytes[i];
        taken = fmin(taken, by_net / (double)limit[i]);
    }
    fs_arena_destroy(scratch);
    return taken;
}
