/* What is found of tensors and their readers, whatever the moment. */
#include "config.h"

#include "cost/memory_parts.h"

#include "base/hash.h"
#include "plan/lower.h"

void cost_touched_make(cost_touched *t, int32_t n_stages, int32_t n_tensors,
                       fs_arena *arena)
{
    *t = (cost_touched){.arena = arena,
                        .n = fs_new(arena, int32_t, n_stages),
                        .first = fs_new(arena, cost_touch, n_tensors)};
    for (int32_t x = 0; x < n_tensors; x++)
        t->first[x].stage = -1;
}

cost_touch *cost_touch_other(const cost_touched *t, int32_t stage,
                             int32_t tensor)
{
    const uint64_t mask = (uint64_t)t->room - 1;
    uint64_t at = fs_mix(((uint64_t)tensor << 32) | (uint32_t)stage) & mask;
    while (t->others[at].stage >= 0 &&
           (t->others[at].stage != stage || t->others[at].tensor != tensor))
        at = (at + 1) & mask;
    return &t->others[at];
}

static void make_room(cost_touched *t)
{
    const cost_touched old = *t;
    if (2 * (t->n_others + 1) <= t->room)
        return;
    t->room = t->room ? 2 * t->room : 16;
    t->others = fs_new(t->arena, cost_touch, t->room);
    for (int32_t i = 0; i < t->room; i++)
        t->others[i].stage = -1;
    for (int32_t i = 0; i < old.room; i++)
        if (old.others[i].stage >= 0)
            *cost_touch_other(t, old.others[i].stage, old.others[i].tensor) =
                old.others[i];
}

void cost_touch_note(cost_touched *t, int32_t stage, int32_t tensor)
{
    cost_touch *at = &t->first[tensor];
    if (cost_touch_find(t, stage, tensor) >= 0)
        return;
    if (at->stage >= 0) {
        at->more = true;
        make_room(t);
        t->n_others++;
        at = cost_touch_other(t, stage, tensor);
    }
    *at = (cost_touch){stage, t->n[stage]++, tensor, at->more};
}

static void fill_phases(cost_memory *mem)
{
    const cost_program *p = mem->program;
    for (int32_t v = 0; v < p->graph->nodes.n; v++) {
        const ir_node *node = &p->graph->nodes.at[v];
        const bool anywhere =
            node->op == IR_OP_input || node->op == IR_OP_constant;
        mem->view[v] = plan_lower_is_view(node);
        mem->phase[v] = (uint8_t)plan_lower_phase(p->graph, node);
        for (int32_t o = 0; o < node->n_out; o++) {
            const int32_t x = node->out[o];
            mem->home[x] = anywhere ? -1 : p->stage_of[v];
            mem->base[x] = (uint8_t)plan_lower_base(p->graph, x);
        }
    }
}

static void fill_viewed(cost_memory *mem)
{
    const ir_graph *graph = mem->program->graph;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        for (int32_t o = 0; o < node->n_out; o++)
            mem->viewed[node->out[o]] = plan_lower_is_view(node)
                                            ? mem->viewed[node->in[0]]
                                            : node->out[o];
    }
}

static void fill_last(cost_memory *mem)
{
    const ir_graph *graph = mem->program->graph;
    for (int32_t x = 0; x < graph->tensors.n; x++)
        mem->last[x] = mem->last_end[x] = -1;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        plan_phase phase = plan_lower_phase(graph, node);
        for (int32_t k = 0; k < node->n_in && !plan_lower_is_view(node); k++) {
            int32_t x = mem->viewed[node->in[k]];
            if (phase == PLAN_BACKWARD)
                mem->last[x] = v;
            else if (phase == PLAN_END)
                mem->last_end[x] = v;
        }
    }
}

static void find_between(cost_memory *mem)
{
    const cost_standing *standing = mem->program->standing;
    const ir_graph *graph = mem->program->graph;
    fs_arena *scratch = fs_arena_create();
    int32_t *inner = fs_new(scratch, int32_t, graph->nodes.n);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        inner[v] = v;
    for (int32_t v = 0; standing && v < graph->nodes.n; v++)
        if (standing->times[v] > 1)
            inner[standing->equal[v]] = v;
    for (int32_t x = 0; x < graph->tensors.n; x++) {
        const ir_tensor *t = &graph->tensors.at[x];
        const int32_t first =
            standing ? standing->equal[t->producer] : t->producer;
        mem->between[x] = graph->nodes.at[inner[first]].out[t->slot];
    }
    fs_arena_destroy(scratch);
}

static void note_node(cost_memory *mem, int32_t stage, int32_t v)
{
    cost_nodes *nodes = &mem->nodes_of[stage];
    if (nodes->n == 0 || nodes->at[nodes->n - 1] != v)
        fs_push(mem->arena, nodes, v);
}

static void list_nodes(cost_memory *mem)
{
    const cost_program *p = mem->program;
    mem->nodes_of = fs_new(mem->arena, cost_nodes, p->n_stages);
    for (int32_t v = 0; v < p->graph->nodes.n; v++) {
        const ir_node *node = &p->graph->nodes.at[v];
        const int32_t slots = node->op == IR_OP_variable ? 1 : node->n_in;
        note_node(mem, p->stage_of[v], v);
        for (int32_t k = 0; k < slots; k++) {
            const int32_t x = cost_edge_tensor(mem, v, k);
            if (x >= 0)
                note_node(mem, cost_home_of(mem, x, v), v);
        }
    }
}

void cost_find_tensors(cost_memory *mem)
{
    const int32_t n = mem->program->graph->tensors.n,
                  nodes = mem->program->graph->nodes.n;
    mem->viewed = fs_new(mem->arena, int32_t, n);
    mem->between = fs_new(mem->arena, int32_t, n);
    mem->last = fs_new(mem->arena, int32_t, n);
    mem->last_end = fs_new(mem->arena, int32_t, n);
    mem->home = fs_new(mem->arena, int32_t, n);
    mem->base = fs_new(mem->arena, uint8_t, n);
    mem->phase = fs_new(mem->arena, uint8_t, nodes);
    mem->view = fs_new(mem->arena, bool, nodes);
    fill_phases(mem);
    list_nodes(mem);
    fill_viewed(mem);
    find_between(mem);
    fill_last(mem);
}
