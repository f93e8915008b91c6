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

/* Whole bytes that come and go at nodes of a stage's backward pass. */
typedef struct tide {
    double *kept, *sums, *gathered; /* [nodes + 1] change before node v */
} tide;

static void add_tides(const cost_memory *mem, int32_t stage, const scene *in,
                      tide *t)
{
    const ir_graph *graph = mem->program->graph;
    for (int32_t x = 0; x < graph->tensors.n; x++) {
        int32_t made = graph->tensors.at[x].producer;
        if (mem->program->stage_of[made] != stage || mem->viewed[x] != x)
            continue;
        plan_phase base = plan_lower_base(graph, x);
        double bytes = cost_times(mem, made) * cost_whole_bytes(mem, x);
        if (graph->nodes.at[made].op == IR_OP_accumulate) {
            t->sums[cost_goes_on(mem, stage, in->first) ? 0 : made] += bytes;
        } else if (mem->last[x] >= 0 &&
                   (base == PLAN_FORWARD || base == PLAN_BACKWARD)) {
            const bool waits = in->keeps && cost_is_loose(mem, made);
            t->kept[base == PLAN_FORWARD || waits ? 0 : made] += bytes;
            t->kept[mem->last[x] + 1] -= bytes;
        } else if (mem->last[x] >= 0 && base == PLAN_BEGIN) {
            t->gathered[0] += bytes;
            t->gathered[mem->last[x] + 1] -= bytes;
        }
    }
}

/* The node of the stage's backward pass at which most is held. */
static int32_t fullest(const cost_memory *mem, int32_t stage, scene in)
{
    const ir_graph *graph = mem->program->graph;
    fs_arena *scratch = fs_arena_create();
    tide t = {fs_new(scratch, double, graph->nodes.n + 1),
              fs_new(scratch, double, graph->nodes.n + 1),
              fs_new(scratch, double, graph->nodes.n + 1)};
    double kept = 0, sums = 0, most = -1;
    int32_t best = -1;
    add_tides(mem, stage, &in, &t);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        kept += t.kept[v];
        sums += t.sums[v] + (in.copies ? t.gathered[v] : 0);
        if (mem->program->stage_of[v] != stage || node->phase != IR_BACKWARD ||
            cost_times(mem, v) > 1 || plan_lower_is_view(node) ||
            (in.keeps && cost_is_loose(mem, v)) ||
            kept / in.parts + sums <= most)
            continue;
        most = kept / in.parts + sums;
        best = v;
    }
    fs_arena_destroy(scratch);
    return best;
}

/* The edge of the stage with the largest tensor: into the sums of gradients,
 * or else of what is there per micro-batch. */
static void choose_scratch(const cost_memory *mem, bool sums, cost_moment *at)
{
    const ir_graph *graph = mem->program->graph;
    double most = 0;
    at->scratch_node = at->scratch_slot = -1;
    for (int32_t v = 0; v < graph->nodes.n; v++)
        for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++) {
            int32_t x = graph->nodes.at[v].in[k];
            const ir_node *made = cost_producer_of(mem, x);
            bool summed = graph->nodes.at[v].op == IR_OP_accumulate;
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

/* The update that reads the largest sum of gradients, or -1. */
static int32_t largest_update(const cost_memory *mem, int32_t stage)
{
    const cost_program *p = mem->program;
    int32_t best = -1;
    double most = 0;
    for (int32_t x = 0; x < p->graph->tensors.n; x++) {
        int32_t reader = mem->last_end[x];
        if (reader < 0 || p->stage_of[reader] != stage ||
            cost_times(mem, reader) > 1 ||
            cost_producer_of(mem, x)->op != IR_OP_accumulate ||
            cost_whole_bytes(mem, x) <= most)
            continue;
        most = cost_whole_bytes(mem, x);
        best = reader;
    }
    return best;
}

static void add_moment(cost_memory *mem, const cost_moment *of, bool sums)
{
    cost_moment at = *of;
    choose_scratch(mem, sums, &at);
    fs_push(mem->arena, &mem->moments, at);
}

/* Of one of the fullest slots: where a data-parallel, a tensor-parallel and a
 * gathering strategy are fullest, each with either scratch, and with copies and
 * without where these are to choose from. */
static void choose_of_slot(cost_memory *mem, int32_t stage, bool first)
{
    const int32_t size = ir_mesh_size(&mem->program->stages[stage].mesh);
    const scene scenes[3] = {{size, false, false, first},
                             {1, false, false, first},
                             {1, size > 1, false, first}};
    int32_t at[6], n = 0;
    for (int32_t k = 0; k < (mem->program->chooses ? 6 : 3); k++) {
        scene one = scenes[k % 3];
        one.keeps = k >= 3;
        at[n] = fullest(mem, stage, one);
        int32_t known = 0;
        while (at[known] != at[n])
            known++;
        if (at[n] < 0 || known < n)
            continue;
        const cost_moment here = {.stage = stage,
                                  .phase = PLAN_BACKWARD,
                                  .node = at[n],
                                  .first = first};
        add_moment(mem, &here, true);
        add_moment(mem, &here, false);
        n++;
    }
}

void cost_choose_moments(cost_memory *mem, int32_t stage)
{
    const cost_moment end = {
        .stage = stage, .phase = PLAN_END, .node = largest_update(mem, stage)};
    choose_of_slot(mem, stage, false);
    if (cost_first_differs(mem, stage))
        choose_of_slot(mem, stage, true);
    add_moment(mem, &end, true);
}

int32_t cost_memory_moments(const cost_memory *mem, const cost_moment **out)
{
    *out = mem->moments.at;
    return mem->moments.n;
}
