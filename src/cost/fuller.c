/* Where a strategy holds more than at the moments that were chosen without
 * knowing it: of tasks that its lowered plan is fullest at, and of the scratch
 * that its boxing takes. */
#include "config.h"
#include "cost/memory_parts.h"

#include "plan/lower.h"

#include <string.h>

static bool payers_equal(const cost_payers *a, const cost_payers *b)
{
    if (!a || !b || a == b || a->n_tensors != b->n_tensors)
        return a == b;
    const size_t size = (size_t)a->n_tensors * sizeof *a->node[0];
    bool equal = true;
    for (int32_t k = 0; k < 2; k++)
        equal = equal && memcmp(a->node[k], b->node[k], size) == 0 &&
                memcmp(a->slot[k], b->slot[k], size) == 0;
    return equal;
}

bool cost_moment_equal(const cost_moment *a, const cost_moment *b)
{
    return a->stage == b->stage && a->phase == b->phase && a->node == b->node &&
           a->scratch_node == b->scratch_node &&
           a->scratch_slot == b->scratch_slot && a->first == b->first &&
           payers_equal(a->payers, b->payers);
}

int32_t cost_memory_root(const cost_memory *mem, int32_t tensor)
{
    return mem->viewed[tensor];
}

/* A stream's scratch is that of its largest task, whatever runs. */
static int64_t scratch_of(const cost_sum *sum, int32_t stage, int32_t v,
                          int32_t slot)
{
    const plan_strategy *s = sum->strategy;
    cost_edge edge;
    if (!cost_sum_edge_at(sum, v, slot, &edge) || edge.path->n == 0)
        return 0;
    const bool arrives = s->stage_of[v] == stage;
    if (plan_ends_cross(&edge.ends)
            ? !arrives && edge.ends.from_stage != &s->stages[stage]
            : !arrives)
        return 0;
    const cost_holding held = {.share = 1,
                               .scratch = 1,
                               .arrives =
                                   arrives && plan_ends_cross(&edge.ends)};
    return cost_holding_bytes(&held, &edge.ends, edge.path);
}

static void find_scratch(const cost_sum *sum, int32_t stage, cost_moment *at)
{
    const plan_strategy *s = sum->strategy;
    const int32_t *nodes, n = cost_memory_nodes(sum->memory, stage, &nodes);
    int64_t most = 0;
    at->scratch_node = at->scratch_slot = -1;
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = nodes[i];
        for (int32_t k = 0; k < s->first_edge[v + 1] - s->first_edge[v]; k++) {
            const int64_t bytes = scratch_of(sum, stage, v, k);
            if (bytes <= most)
                continue;
            most = bytes;
            at->scratch_node = v;
            at->scratch_slot = k;
        }
    }
}

static void add_moment(fs_arena *arena, cost_moments *to, const cost_moment *at)
{
    for (int32_t k = 0; k < to->list.n; k++)
        if (cost_moment_equal(&to->list.at[k], at))
            return;
    fs_push(arena, &to->list, *at);
}

/* Those of the stage that are looked at anyway, and the node's, all beside the
 * same scratch. */
static cost_moments list_moments(const cost_sum *sum, int32_t stage,
                                 int32_t node)
{
    const ir_graph *graph = sum->graph;
    const cost_moment *known;
    const int32_t n = sum->memory->chosen;
    cost_memory_moments(sum->memory, &known);
    cost_moments list = {0};
    cost_moment at = {.stage = stage};
    find_scratch(sum, stage, &at);
    for (int32_t k = 0; k < n; k++) {
        at.phase = known[k].phase;
        at.node = known[k].node;
        at.first = known[k].first;
        if (known[k].stage == stage)
            add_moment(sum->arena, &list, &at);
    }
    if (node < 0 || plan_lower_is_view(&graph->nodes.at[node]))
        return list;
    at.node = node;
    at.phase = plan_lower_phase(graph, &graph->nodes.at[node]);
    for (int32_t first = 0; first < 2; first++) {
        at.first = first;
        if (at.phase == PLAN_BACKWARD || (at.phase == PLAN_END && !first))
            add_moment(sum->arena, &list, &at);
    }
    return list;
}

/* What a reader holds by itself, apart from scratch. False: of that nobody
 * else has a share. */
static bool holds_alone(const cost_sum *sum, const cost_holding *held,
                        const cost_edge *edge, int32_t v, int32_t stage,
                        int64_t *bytes)
{
    const int32_t tensor =
        (int32_t)(edge->ends.tensor - sum->graph->tensors.at);
    cost_holding one = *held;
    one.share = 1;
    one.scratch = 0;
    *bytes = cost_holding_bytes(&one, &edge->ends, edge->path);
    return cost_home_of(sum->memory, tensor, v) == stage &&
           !(edge->anew && held->after);
}

/* What the reader of each tensor holds that holds most of it. */
typedef struct charges {
    fs_arena *arena;
    int64_t *most;         /* [tensors] */
    FS_VEC(int32_t) roots; /* with any */
} charges;

/* By how much more. */
static int64_t charge(charges *to, int32_t root, int64_t bytes)
{
    const int64_t before = to->most[root];
    if (bytes <= before)
        return 0;
    if (before == 0)
        fs_push(to->arena, &to->roots, root);
    to->most[root] = bytes;
    return bytes - before;
}

/* An edge of a moment: what it adds by itself, and to what its readers share.
 */
static int64_t count_edge(const cost_sum *sum, int32_t moment, int32_t v,
                          int32_t slot, charges *to, int64_t *alone)
{
    const cost_moment *at;
    cost_edge edge;
    cost_holding held;
    int64_t bytes;
    cost_memory_moments(sum->memory, &at);
    *alone = 0;
    if (!cost_sum_edge_at(sum, v, slot, &edge) ||
        !cost_memory_edge(sum->memory, moment,
                          (cost_reader){v, slot, edge.anew, false}, &held))
        return 0;
    const int64_t all = cost_holding_bytes(&held, &edge.ends, edge.path);
    if (!holds_alone(sum, &held, &edge, v, at[moment].stage, &bytes))
        return all;
    const int32_t tensor = (int32_t)(edge.ends.tensor - sum->graph->tensors.at);
    const int32_t root = cost_memory_root(sum->memory, tensor);
    *alone = bytes;
    return all - bytes / held.share + charge(to, root, bytes);
}

/* `alone`, [edges], holds nothing outside the stage. */
static int64_t count_most(const cost_sum *sum, int32_t moment, charges *to,
                          int64_t *alone)
{
    const plan_strategy *s = sum->strategy;
    const int32_t stage = sum->memory->moments.at[moment].stage;
    const int32_t *nodes, n = cost_memory_nodes(sum->memory, stage, &nodes);
    int64_t total = 0;
    for (int32_t i = 0; i < n; i++) {
        const int32_t v = nodes[i];
        total += cost_memory_node(sum->memory, moment, v,
                                  &s->stages[s->stage_of[v]].mesh, &s->sig[v]);
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++)
            total +=
                count_edge(sum, moment, v, e - s->first_edge[v], to, &alone[e]);
    }
    for (int32_t i = 0; i < to->roots.n; i++)
        to->most[to->roots.at[i]] = 0;
    to->roots.n = 0;
    return total;
}

cost_fuller cost_fuller_moment(cost_memory *memory,
                               const plan_strategy *strategy, int32_t stage,
                               int32_t node, fs_arena *arena)
{
    const ir_graph *graph = memory->program->graph;
    fs_arena *scratch = fs_arena_create();
    cost_sum sum = {NULL, NULL, graph, strategy, scratch, memory};
    const int32_t n_edges = strategy->first_edge[strategy->n_nodes];
    cost_fuller out = {.bytes = -1, .alone = fs_new(arena, int64_t, n_edges)};
    int64_t *alone = fs_new(scratch, int64_t, n_edges);
    charges to = {scratch, fs_new(scratch, int64_t, graph->tensors.n), {0}};
    const cost_moments more = list_moments(&sum, stage, node);
    const int32_t first = cost_memory_add(memory, &more);
    for (int32_t k = first; k < first + more.list.n; k++) {
        const int64_t bytes = count_most(&sum, k, &to, alone);
        if (bytes <= out.bytes)
            continue;
        out.bytes = bytes;
        out.at = memory->moments.at[k];
        memcpy(out.alone, alone, (size_t)n_edges * sizeof *alone);
    }
    fs_arena_destroy(scratch);
    return out;
}
