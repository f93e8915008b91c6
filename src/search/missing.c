/* Moments that misfits show to be missing. A network binds bytes at a few
 * moments, chosen without knowing its plan: a relaxation. Where a plan that was
 * found takes more when it is lowered, the moment at which it does is one more
 * limit, as an inequality that cuts a point off: what is counted then is held
 * by every lowered plan (cost/memory.h), so that bounds stay bounds, and each
 * plan that fits stays one of the network. */
#include "config.h"
#include "search/narrow.h"

#include "plan/lower.h"

#include <string.h>

/* Of a stage of one graph; each is a limit more to search under. */
enum { MOST_MISSING = 32 };

static int32_t count_missing(const search_level0 *z, const search_missing *of)
{
    int32_t n = 0;
    for (int32_t k = 0; k < z->missing.n; k++)
        n += z->missing.at[k].graph == of->graph &&
             z->missing.at[k].at.stage == of->at.stage;
    return n;
}

/* A layer between the first and the last of a stage stands for several, so that
 * the place of none is its: the one of those two that the backward pass comes
 * to first. */
static int32_t alone(const search_view *view, int32_t v)
{
    if (view->times[v] == 1)
        return v;
    for (int32_t u = 0; u < view->graph->nodes.n; u++)
        if (view->times[u] == 1 && view->equal[u] == view->equal[v])
            return u;
    return -1;
}

/* Copies that are left out are not in the plan's graph: who is who by name, in
 * the same order. */
static int32_t by_name(const search_candidate *c, const search_kept *found,
                       int32_t v)
{
    const ir_graph *whole = c->layout.graph;
    const char *name = found->graph->nodes.at[v].name;
    for (int32_t w = v; w < whole->nodes.n; w++)
        if (strcmp(whole->nodes.at[w].name, name) == 0)
            return w;
    return -1;
}

/* Which nodes of the network's graph the plan's are. */
typedef struct mapping {
    const search_candidate *c;
    const search_kept *found;
    int32_t *to; /* [nodes of the plan's graph]; -1: none */
} mapping;

static mapping map_nodes(const search_candidate *c, const search_kept *found,
                         fs_arena *arena)
{
    const ir_graph *graph = found->graph;
    const int32_t *rep =
        c->view ? search_view_nodes(c->view, c->layout.graph, arena) : NULL;
    mapping map = {c, found, fs_new(arena, int32_t, graph->nodes.n)};
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const int32_t w = by_name(c, found, v);
        map.to[v] = rep && w >= 0 ? rep[w] : w;
    }
    return map;
}

/* A moment of the plan's graph as one of the graph of the network. */
static bool place_moment(const mapping *map, cost_moment *at)
{
    const search_candidate *c = map->c;
    at->node = map->to[at->node];
    if (c->view && at->node >= 0)
        at->node = alone(c->view, at->node);
    if (at->scratch_node >= 0) {
        at->scratch_node = map->to[at->scratch_node];
        if (at->scratch_node < 0)
            return false;
    }
    if (at->node < 0)
        return false;
    at->stage = c->shown.stage_of[at->node];
    return true;
}

/* ---- who is charged with what readers share ---- */

/* What readers alike hold of tensors alike, in all. */
typedef struct bill {
    int32_t root, node, slot;
    bool kept;
    int64_t bytes;
    int32_t next; /* of that tensor */
} bill;

typedef struct bills {
    FS_VEC(bill) list;
    int32_t *first; /* [tensors] -1: none */
} bills;

static int32_t first_like(const search_candidate *c, int32_t v)
{
    return c->view ? c->view->equal[v] : v;
}

/* That of the first of equal layers for a tensor of each. */
static int32_t tensor_like(const search_candidate *c, int32_t x)
{
    const ir_graph *graph = c->shown.graph;
    const ir_tensor *t = &graph->tensors.at[x];
    return graph->nodes.at[first_like(c, t->producer)].out[t->slot];
}

static bill *bill_of(bills *b, const bill *key, fs_arena *arena)
{
    for (int32_t k = b->first[key->root]; k >= 0; k = b->list.at[k].next) {
        bill *known = &b->list.at[k];
        if (known->node == key->node && known->slot == key->slot &&
            known->kept == key->kept)
            return known;
    }
    bill made = *key;
    made.next = b->first[key->root];
    b->first[key->root] = b->list.n;
    fs_push(arena, &b->list, made);
    return &b->list.at[b->list.n - 1];
}

/* The plan reads what the forward pass made where the network's graph reads a
 * copy, if that is left out. */
static void add_bill(bills *b, const mapping *map, int32_t v, int32_t slot,
                     int64_t bytes, fs_arena *arena)
{
    const search_candidate *c = map->c;
    const ir_graph *graph = c->shown.graph, *plan_graph = map->found->graph;
    const int32_t w = map->to[v];
    if (w < 0 || graph->nodes.at[w].n_in <= slot)
        return;
    const ir_tensor *read =
        &plan_graph->tensors.at[plan_graph->nodes.at[v].in[slot]];
    int32_t x = graph->nodes.at[w].in[slot];
    const int32_t original = graph->tensors.at[x].again_of;
    const bool kept = original >= 0 && read->again_of < 0;
    x = tensor_like(c, cost_memory_root(c->built.memory, kept ? original : x));
    const bill key = {
        .root = x, .node = first_like(c, w), .slot = slot, .kept = kept};
    bill_of(b, &key, arena)->bytes += bytes;
}

static const bill *largest(const bills *b, int32_t root, bool kept)
{
    const bill *most = NULL;
    for (int32_t k = b->first[root]; k >= 0; k = b->list.at[k].next) {
        const bill *one = &b->list.at[k];
        if (one->kept == kept && (!most || one->bytes > most->bytes))
            most = one;
    }
    return most;
}

/* Of each tensor those readers pay who hold the most of it in this plan. */
static const cost_payers *choose_payers(const mapping *map,
                                        const int64_t *alone, fs_arena *arena)
{
    const ir_graph *graph = map->c->shown.graph;
    const plan_strategy *s = map->found->strategy;
    fs_arena *scratch = fs_arena_create();
    const int32_t n = graph->tensors.n;
    bills b = {.first = fs_new(scratch, int32_t, n)};
    cost_payers *out = fs_new(arena, cost_payers, 1);
    out->n_tensors = n;
    memset(b.first, -1, (size_t)n * sizeof *b.first);
    for (int32_t v = 0; v < s->n_nodes; v++)
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++)
            if (alone[e] > 0)
                add_bill(&b, map, v, e - s->first_edge[v], alone[e], scratch);
    for (int32_t kept = 0; kept < 2; kept++) {
        out->node[kept] = fs_new(arena, int32_t, n);
        out->slot[kept] = fs_new(arena, int32_t, n);
        for (int32_t x = 0; x < n; x++) {
            const bill *most = largest(&b, tensor_like(map->c, x), kept);
            out->node[kept][x] = most ? most->node : -1;
            out->slot[kept][x] = most ? most->slot : -1;
        }
    }
    fs_arena_destroy(scratch);
    return out;
}

/* ---- limits of other networks ---- */

static bool is_known(const search_candidate *c, const cost_moment *at)
{
    const cost_moment *known;
    const int32_t n = cost_memory_moments(c->built.memory, &known);
    for (int32_t k = 0; k < n; k++)
        if (cost_moment_equal(&known[k], at))
            return true;
    return false;
}

/* False: there are enough. */
static bool add_moment(search_level0 *z, const search_candidate *c,
                       const cost_moment *at)
{
    const search_missing one = {c->shown.graph, *at};
    for (int32_t k = 0; k < z->missing.n; k++)
        if (z->missing.at[k].graph == one.graph &&
            cost_moment_equal(&z->missing.at[k].at, at))
            return true;
    if (count_missing(z, &one) >= MOST_MISSING)
        return false;
    fs_push(z->scratch, &z->missing, one);
    return true;
}

static double whole_bytes(const ir_graph *graph, int32_t v, int32_t slot)
{
    const ir_node *node = &graph->nodes.at[v];
    const int32_t x = node->op == IR_OP_variable
                          ? graph->tensors.at[node->out[0]].next
                          : node->in[slot];
    if (x < 0 || plan_lower_is_view(node))
        return 0;
    const ir_tensor *t = &graph->tensors.at[x];
    return (double)ir_shape_count(&t->shape) * (double)ir_dtype_bytes(t->dtype);
}

/* A plan that has to box no less somewhere can do so on the next edge as well:
 * the same moment beside the scratch of other tensors as large. */
static void add_beside(search_level0 *z, const search_candidate *c,
                       const cost_moment *of)
{
    enum { BESIDE = 3 };
    const ir_graph *graph = c->shown.graph;
    const double least = whole_bytes(graph, of->scratch_node, of->scratch_slot);
    int32_t left = BESIDE;
    for (int32_t v = 0; v < graph->nodes.n && left > 0; v++) {
        const ir_node *node = &graph->nodes.at[v];
        const int32_t slots = node->op == IR_OP_variable ? 1 : node->n_in;
        for (int32_t k = 0; k < slots && left > 0; k++) {
            cost_moment at = *of;
            at.scratch_node = v;
            at.scratch_slot = k;
            if (c->shown.stage_of[v] != of->stage ||
                whole_bytes(graph, v, k) < least || is_known(c, &at))
                continue;
            left--;
            add_moment(z, c, &at);
        }
    }
}

/* The stage's fullest moment, if more is counted there than it may hold. */
static bool note_stage(search_level0 *z, const mapping *map,
                       cost_memory *memory, int32_t stage, int32_t node,
                       int64_t limit)
{
    const search_candidate *c = map->c;
    fs_arena *scratch = fs_arena_create();
    cost_fuller fuller =
        cost_fuller_moment(memory, map->found->strategy, stage, node, scratch);
    bool noted = (double)fuller.bytes > c->share * (double)limit &&
                 place_moment(map, &fuller.at);
    if (noted) {
        fuller.at.payers = choose_payers(map, fuller.alone, z->scratch);
        noted = !is_known(c, &fuller.at) && add_moment(z, c, &fuller.at);
    }
    if (noted && fuller.at.scratch_node >= 0)
        add_beside(z, c, &fuller.at);
    fs_arena_destroy(scratch);
    return noted;
}

/* What was noted of others since its network was made. */
static bool lacks_known(const search_level0 *z, const search_candidate *c)
{
    for (int32_t k = 0; k < z->missing.n; k++) {
        const search_missing *one = &z->missing.at[k];
        if (one->graph == c->shown.graph &&
            c->shown.stage_of[one->at.node] == one->at.stage &&
            !is_known(c, &one->at))
            return true;
    }
    return false;
}

/* Of stages that one of the network stands for, the one that is too full by
 * most tells what is missing there. */
static bool is_fullest_shown(const search_candidate *c,
                             const search_lowered *as, int32_t stage)
{
    const search_span *all = NULL;
    for (int32_t k = 0; c->shown.span && k < c->shown.n_stages && !all; k++)
        if (stage >= c->shown.span[k].first && stage <= c->shown.span[k].last)
            all = &c->shown.span[k];
    for (int32_t i = all ? all->first : stage; all && i <= all->last; i++) {
        const double other = (double)as->bytes[i] / (double)as->limit[i];
        const double own = (double)as->bytes[stage] / (double)as->limit[stage];
        if (other > own || (other == own && i < stage))
            return false;
    }
    return true;
}

bool search_note_missing(search_level0 *z, search_candidate *c,
                         const search_kept *found, const search_lowered *as)
{
    fs_arena *scratch = fs_arena_create();
    const mapping map = map_nodes(c, found, scratch);
    const cost_program program = cost_program_of(found->graph, found->strategy);
    cost_memory *memory = cost_memory_create(&program, scratch);
    bool any = false;
    for (int32_t i = 0; i < c->n_stages; i++)
        if (as->bytes[i] > as->limit[i] && is_fullest_shown(c, as, i))
            any |= note_stage(z, &map, memory, i, as->fullest[i], as->limit[i]);
    fs_arena_destroy(scratch);
    return any || lacks_known(z, c);
}

void search_add_missing(const search_level0 *z, const search_candidate *c,
                        search_layout *layout)
{
    cost_moments more = {0};
    for (int32_t k = 0; k < z->missing.n && !c->bare; k++) {
        const search_missing *one = &z->missing.at[k];
        if (one->graph == layout->graph &&
            layout->stage_of[one->at.node] == one->at.stage)
            fs_push(c->arena, &more.list, one->at);
    }
    if (!more.list.n)
        return;
    cost_program *program = fs_new(c->arena, cost_program, 1);
    *program = search_program_of(layout);
    layout->memory = cost_memory_create_with(program, &more, c->arena);
}
