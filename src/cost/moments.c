/* Which moments of a stage's program are looked at: those at which it may be
 * fullest. */
#include "config.h"
#include "cost/memory_parts.h"

#include "plan/lower.h"

/* What of the sizes of a stage's memory counts in full. */
typedef struct scene {
    double parts; /* that what is kept of a micro-batch is cut into; sums of
                     gradients are not */
    bool copies;  /* of variables */
    bool keeps;   /* of nothing that may be left out there is a copy */
    bool first;   /* cost_moment */
} scene;

/* Whole bytes that come and go at nodes of a stage's backward pass, by their
 * places in mem->nodes_of. */
typedef struct tide {
    const cost_nodes *nodes;
    double *kept, *sums, *gathered; /* [nodes + 1] change before node v */
} tide;

/* The place of the first node from v on. */
static int32_t place_of(const tide *t, int32_t v)
{
    int32_t low = 0, high = t->nodes->n;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (t->nodes->at[middle] < v)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* How many there are at once of what a node makes: what equal layers hand on to
 * each other in the backward pass is there once, when the last of them is
 * done. */
static int32_t at_once(const cost_memory *mem, int32_t made, int32_t x,
                       plan_phase base)
{
    const int32_t times = cost_times(mem, made), last = mem->last[x];
    if (base == PLAN_BACKWARD && last >= 0 && cost_times(mem, last) < times)
        return cost_times(mem, last);
    return times;
}

/* Of a tensor that the node at place k makes. */
static void add_tide(const cost_memory *mem, int32_t stage, const scene *in,
                     int32_t k, int32_t x, tide *t)
{
    const ir_graph *graph = mem->program->graph;
    const int32_t made = t->nodes->at[k];
    const plan_phase base = cost_base_of(mem, x);
    const double bytes = at_once(mem, made, x, base) * cost_whole_bytes(mem, x);
    if (mem->viewed[x] != x)
        return;
    if (graph->nodes.at[made].op == IR_OP_accumulate) {
        t->sums[cost_goes_on(mem, stage, in->first) ? 0 : k] += bytes;
    } else if (mem->last[x] >= 0 &&
               (base == PLAN_FORWARD || base == PLAN_BACKWARD)) {
        const bool waits = in->keeps && cost_is_loose(mem, made);
        t->kept[base == PLAN_FORWARD || waits ? 0 : k] += bytes;
        t->kept[place_of(t, mem->last[x] + 1)] -= bytes;
    } else if (mem->last[x] >= 0 && base == PLAN_BEGIN) {
        t->gathered[0] += bytes;
        t->gathered[place_of(t, mem->last[x] + 1)] -= bytes;
    }
}

static void add_tides(const cost_memory *mem, int32_t stage, const scene *in,
                      tide *t)
{
    const ir_graph *graph = mem->program->graph;
    for (int32_t k = 0; k < t->nodes->n; k++) {
        const ir_node *node = &graph->nodes.at[t->nodes->at[k]];
        if (mem->program->stage_of[t->nodes->at[k]] != stage)
            continue;
        for (int32_t o = 0; o < node->n_out; o++)
            add_tide(mem, stage, in, k, node->out[o], t);
    }
}

static tide tide_of(const cost_memory *mem, int32_t stage, const scene *in,
                    fs_arena *arena)
{
    const cost_nodes *nodes = &mem->nodes_of[stage];
    tide t = {nodes, fs_new(arena, double, nodes->n + 1),
              fs_new(arena, double, nodes->n + 1),
              fs_new(arena, double, nodes->n + 1)};
    add_tides(mem, stage, in, &t);
    return t;
}

/* The node of the stage's backward pass at which most is held. */
static int32_t fullest(const cost_memory *mem, int32_t stage, const scene *in,
                       const tide *t)
{
    const ir_graph *graph = mem->program->graph;
    double kept = 0, sums = 0, most = -1;
    int32_t best = -1;
    for (int32_t k = 0; k < t->nodes->n; k++) {
        const int32_t v = t->nodes->at[k];
        const ir_node *node = &graph->nodes.at[v];
        kept += t->kept[k];
        sums += t->sums[k] + (in->copies ? t->gathered[k] : 0);
        if (mem->program->stage_of[v] != stage || node->phase != IR_BACKWARD ||
            cost_times(mem, v) > 1 || mem->view[v] ||
            (in->keeps && cost_is_loose(mem, v)) ||
            kept / in->parts + sums <= most)
            continue;
        most = kept / in->parts + sums;
        best = v;
    }
    return best;
}

/* The edge of the stage with the largest tensor: into the sums of gradients,
 * or else of what is there per micro-batch. */
static void choose_scratch(const cost_memory *mem, bool sums, cost_moment *at)
{
    const ir_graph *graph = mem->program->graph;
    const cost_nodes *nodes = &mem->nodes_of[at->stage];
    double most = 0;
    at->scratch_node = at->scratch_slot = -1;
    for (int32_t i = 0; i < nodes->n; i++) {
        const int32_t v = nodes->at[i];
        const ir_node *node = &graph->nodes.at[v];
        for (int32_t k = 0; k < node->n_in; k++) {
            const int32_t x = node->in[k];
            const ir_node *made = cost_producer_of(mem, x);
            const bool summed = node->op == IR_OP_accumulate;
            if (summed != sums || made->op == IR_OP_input ||
                plan_tensor_per_step(graph, x) ||
                cost_home_of(mem, x, v) != at->stage ||
                cost_whole_bytes(mem, x) <= most)
                continue;
            most = cost_whole_bytes(mem, x);
            at->scratch_node = v;
            at->scratch_slot = k;
        }
    }
}

/* [n_stages] The update that reads the largest sum of gradients, or -1. */
static int32_t *largest_updates(const cost_memory *mem, fs_arena *arena)
{
    const cost_program *p = mem->program;
    int32_t *best = fs_new(arena, int32_t, p->n_stages);
    double *most = fs_new(arena, double, p->n_stages);
    for (int32_t i = 0; i < p->n_stages; i++)
        best[i] = -1;
    for (int32_t x = 0; x < p->graph->tensors.n; x++) {
        const int32_t reader = mem->last_end[x];
        if (reader < 0 || cost_times(mem, reader) > 1 ||
            cost_producer_of(mem, x)->op != IR_OP_accumulate)
            continue;
        const int32_t stage = p->stage_of[reader];
        if (cost_whole_bytes(mem, x) <= most[stage])
            continue;
        most[stage] = cost_whole_bytes(mem, x);
        best[stage] = reader;
    }
    return best;
}

/* Edges of a stage whose scratch counts: [of sums]. */
typedef struct scratch_edges {
    cost_moment of[2];
} scratch_edges;

static scratch_edges scratch_of(const cost_memory *mem, int32_t stage)
{
    scratch_edges s = {{{.stage = stage}, {.stage = stage}}};
    choose_scratch(mem, false, &s.of[false]);
    choose_scratch(mem, true, &s.of[true]);
    return s;
}

static void add_moment(cost_memory *mem, const cost_moment *of,
                       const scratch_edges *edges, bool sums)
{
    cost_moment at = *of;
    at.scratch_node = edges->of[sums].scratch_node;
    at.scratch_slot = edges->of[sums].scratch_slot;
    fs_push(mem->arena, &mem->moments, at);
}

/* Of one of the fullest slots: where a data-parallel, a tensor-parallel and a
 * gathering strategy are fullest, each with either scratch, and with copies and
 * without where these are to choose from. */
static void choose_of_slot(cost_memory *mem, int32_t stage, bool first,
                           const scratch_edges *edges)
{
    const int32_t size = ir_mesh_size(&mem->program->stages[stage].mesh);
    const scene scenes[3] = {{size, false, false, first},
                             {1, false, false, first},
                             {1, size > 1, false, first}};
    fs_arena *scratch = fs_arena_create();
    tide t = {NULL, NULL, NULL, NULL};
    int32_t at[6], n = 0;
    for (int32_t k = 0; k < (mem->program->chooses ? 6 : 3); k++) {
        scene one = scenes[k % 3];
        one.keeps = k >= 3;
        if (k % 3 == 0)
            t = tide_of(mem, stage, &one, scratch);
        at[n] = fullest(mem, stage, &one, &t);
        int32_t known = 0;
        while (at[known] != at[n])
            known++;
        if (at[n] < 0 || known < n)
            continue;
        const cost_moment here = {.stage = stage,
                                  .phase = PLAN_BACKWARD,
                                  .node = at[n],
                                  .first = first};
        add_moment(mem, &here, edges, true);
        add_moment(mem, &here, edges, false);
        n++;
    }
    fs_arena_destroy(scratch);
}

static void choose_of_stage(cost_memory *mem, int32_t stage, int32_t update)
{
    const cost_moment end = {.stage = stage, .phase = PLAN_END, .node = update};
    const scratch_edges edges = scratch_of(mem, stage);
    choose_of_slot(mem, stage, false, &edges);
    if (cost_first_differs(mem, stage))
        choose_of_slot(mem, stage, true, &edges);
    add_moment(mem, &end, &edges, true);
}

void cost_choose_moments(cost_memory *mem)
{
    fs_arena *scratch = fs_arena_create();
    const int32_t *update = largest_updates(mem, scratch);
    for (int32_t i = 0; i < mem->program->n_stages; i++)
        choose_of_stage(mem, i, update[i]);
    fs_arena_destroy(scratch);
}

void cost_choose_moments_of(cost_memory *mem, int32_t stage)
{
    fs_arena *scratch = fs_arena_create();
    choose_of_stage(mem, stage, largest_updates(mem, scratch)[stage]);
    fs_arena_destroy(scratch);
}

int32_t cost_memory_nodes(const cost_memory *mem, int32_t stage,
                          const int32_t **out)
{
    *out = mem->nodes_of[stage].at;
    return mem->nodes_of[stage].n;
}

int32_t cost_memory_moments(const cost_memory *mem, const cost_moment **out)
{
    *out = mem->moments.at;
    return mem->moments.n;
}
