/* Nodes of a configuration's cost network. Those that look alike (op,
 * attributes, shapes) share one table: a deep network has few different ones.
 */
#include "config.h"
#include "search/built.h"
#include "search/layout.h"
#include "search/tables.h"
#include "search/engine/memo.h"

#include "base/clock.h"
#include "ir/compact.h"
#include "ir/recompute.h"
#include "ir/words.h"
#include "plan/lower.h"

#include <math.h>
#include <string.h>

/* Of a signature and its seconds; of a node besides its table, and all that
 * comes before it, which counts where others made the table. */
enum { SIGNATURE_STEPS = 650, BARE_STEPS = 500 };

typedef struct builder {
    const search_problem *problem;
    const search_layout *layout;
    fs_arena *arena;
    search_built *out;
    search_tables *tables;
    search_memo loads; /* load_key -> load */
    FS_VEC(const int64_t *) load;
} builder;

int32_t search_group_of(const search_layout *layout, int32_t v)
{
    return layout->group_of[layout->stage_of[v]];
}

int32_t search_bearer_of(const search_layout *layout, int32_t v, bool per_step)
{
    const search_pieces *pieces = layout->pieces;
    const int32_t heaviest = layout->heaviest[per_step];
    if (!pieces || heaviest < 0 || pieces->of[v] != heaviest)
        return search_group_of(layout, v);
    return 1;
}

/* Of the pipeline that is meant. */
static int32_t whole_group(const search_layout *layout, int32_t v)
{
    const cost_standing *standing = layout->standing;
    return standing
               ? standing->pipe->role_of[standing->stage[layout->stage_of[v]]]
               : search_group_of(layout, v);
}

int32_t search_times(const search_layout *layout, int32_t v)
{
    return layout->standing ? layout->standing->times[v]
                            : ir_times(&layout->graph->nodes.at[v]);
}

/* What is scaled and how often; no padding. */
typedef struct scale_key {
    const double *table;
    int64_t times;
} scale_key;

double *search_scaled(search_scaler *scaler, double *table, int64_t n,
                      int32_t times)
{
    const scale_key key = {table, times};
    if (times == 1)
        return table;
    int32_t *known = search_memo_at(&scaler->known, &key, sizeof key);
    if (*known < 0) {
        double *made = fs_new(scaler->arena, double, n);
        for (int64_t k = 0; k < n; k++)
            made[k] = times * table[k];
        *known = scaler->made.n;
        fs_push(scaler->arena, &scaler->made, made);
    }
    return scaler->made.at[*known];
}

/* All that signatures and seconds depend on, in as many words as that takes:
 * most of the places for attributes and tensors are empty. */
enum {
    MOST_WORDS = 3 + IR_MAX_MESH + IR_WORDS_OF_ATTRIBUTES +
                 (IR_MAX_IN + IR_MAX_OUT) * IR_WORDS_OF_SHAPE
};

/* Stages of one machine kind and mesh are alike; where devices are of several
 * kinds, those that begin at the same one. */
static void put_stage(const builder *b, const plan_stage *stage, ir_words *key)
{
    const ir_mesh *mesh = &stage->mesh;
    const bool mixed = b->problem->cluster->n_groups > 1;
    ir_put_pair(key, mesh->n, mixed ? stage->first_device : -1);
    for (int32_t a = 0; a < mesh->n; a++)
        ir_put_pair(key, a, mesh->dim[a]);
}

static void key_of(const builder *b, int32_t v, ir_words *key)
{
    const ir_graph *graph = b->layout->graph;
    const ir_node *node = &graph->nodes.at[v];
    put_stage(b, &b->layout->stages[b->layout->stage_of[v]], key);
    ir_put_pair(key, (int32_t)node->op, cost_node_per_step(graph, v));
    ir_put_pair(key, node->n_in, node->n_out);
    ir_put_attributes(key, node);
    for (int32_t k = 0; k < node->n_in + node->n_out; k++) {
        const int32_t tensor =
            k < node->n_in ? node->in[k] : node->out[k - node->n_in];
        const ir_tensor *t = &graph->tensors.at[tensor];
        ir_put_shape(key, &t->shape, t->dtype);
    }
}

static int32_t add_domain(builder *b, int32_t v)
{
    const ir_graph *graph = b->layout->graph;
    const ir_node *node = &graph->nodes.at[v];
    const plan_stage *stage = &b->layout->stages[b->layout->stage_of[v]];
    const cost_model *cost =
        b->layout->rates->cost[cost_node_per_step(graph, v)];
    ir_nd_sig_list all;
    ir_signatures(graph, node, &stage->mesh, b->tables->arena, &all);
    search_domain d = {.n = all.n,
                       .kept = all.n,
                       .left = all.n,
                       .sig = all.at,
                       .seconds = fs_new(b->tables->arena, double, all.n)};
    for (int32_t k = 0; k < all.n; k++)
        d.seconds[k] = cost_node_seconds(cost, graph, v, &d.sig[k], stage);
    b->out->steps += (int64_t)SIGNATURE_STEPS * all.n;
    fs_push(b->tables->arena, &b->tables->domains, d);
    return b->tables->domains.n - 1;
}

static int32_t keep_allowed(builder *b, int32_t from, const bool *keep)
{
    const search_domain all = b->tables->domains.at[from];
    search_domain d = {.sig = fs_new(b->tables->arena, ir_nd_sig, all.n),
                       .seconds = fs_new(b->tables->arena, double, all.n)};
    for (int32_t k = 0; k < all.n; k++)
        if (keep[k]) {
            d.sig[d.n] = all.sig[k];
            d.seconds[d.n++] = all.seconds[k];
        }
    d.kept = d.left = d.n;
    fs_push(b->tables->arena, &b->tables->domains, d);
    return b->tables->domains.n - 1;
}

/* The domain of a node under the problem's filter. */
static int32_t filter_domain(builder *b, int32_t v, int32_t all)
{
    const search_filter *filter = &b->problem->filter;
    const plan_stage *stage = &b->layout->stages[b->layout->stage_of[v]];
    const search_domain d = b->tables->domains.at[all];
    if (!filter->allow)
        return all;
    fs_arena *scratch = fs_arena_create();
    size_t bytes = sizeof all + (size_t)d.n;
    char *key = fs_alloc(scratch, bytes, 1);
    bool *keep = (bool *)(key + sizeof all), every = true;
    memcpy(key, &all, sizeof all);
    for (int32_t k = 0; k < d.n; k++) {
        keep[k] =
            filter->allow(filter->ctx, b->layout->graph, v,
                          whole_group(b->layout, v), &stage->mesh, &d.sig[k]);
        every &= keep[k];
    }
    int32_t result = all;
    if (!every) {
        int32_t *known = search_memo_at(&b->tables->filtered, key, bytes);
        if (*known < 0)
            *known = keep_allowed(b, all, keep);
        result = *known;
    }
    fs_arena_destroy(scratch);
    return result;
}

/* ---- how long copies live ---- */

typedef struct domain_lives {
    int32_t domain;
    search_lives lives;
} domain_lives;

bool search_copy_lives(const search_layout *layout, int32_t v, int32_t tensor)
{
    const ir_graph *graph = layout->graph;
    const int32_t *stage_of = layout->stage_of;
    return plan_tensor_per_step(graph, tensor) &&
           !cost_node_per_step(graph, v) &&
           stage_of[graph->tensors.at[tensor].producer] == stage_of[v];
}

static bool copies_variables(const builder *b, int32_t v)
{
    const ir_graph *graph = b->layout->graph;
    const ir_node *node = &graph->nodes.at[v];
    const plan_stage *stage = &b->layout->stages[b->layout->stage_of[v]];
    if (ir_mesh_size(&stage->mesh) < 2 || plan_lower_is_view(node))
        return false;
    for (int32_t k = 0; k < node->n_in; k++)
        if (graph->tensors.at[node->in[k]].shape.rank > 0 &&
            search_copy_lives(b->layout, v, node->in[k]))
            return true;
    return false;
}

/* What is made anew takes longer: it is a choice only where memory may bind. */
static search_lives lives_of(const builder *b, int32_t v)
{
    if (!copies_variables(b, v))
        return SEARCH_KEEPS;
    if (b->problem->lives == SEARCH_CHOOSES && b->out->loose.n_limits == 0)
        return SEARCH_KEEPS;
    return b->problem->lives;
}

static int32_t add_lives(builder *b, domain_lives from)
{
    const search_domain all = b->tables->domains.at[from.domain];
    const int32_t times = from.lives == SEARCH_CHOOSES ? 2 : 1;
    search_domain d = {
        .n = times * all.n,
        .left = times * all.n,
        .kept = from.lives == SEARCH_CHOOSES ? all.n : 0,
        .sig = fs_new(b->tables->arena, ir_nd_sig, times * all.n),
        .seconds = fs_new(b->tables->arena, double, times *all.n)};
    for (int32_t k = 0; k < d.n; k++) {
        d.sig[k] = all.sig[k % all.n];
        d.seconds[k] = all.seconds[k % all.n];
    }
    fs_push(b->tables->arena, &b->tables->domains, d);
    return b->tables->domains.n - 1;
}

static int32_t with_lives(builder *b, int32_t v, int32_t id)
{
    const domain_lives key = {id, lives_of(b, v)};
    if (key.lives == SEARCH_KEEPS)
        return id;
    int32_t *known = search_memo_at(&b->tables->lasting, &key, sizeof key);
    if (*known < 0)
        *known = add_lives(b, key);
    return *known;
}

/* ---- nodes that may be left out ---- */

static bool leave_alike(const ir_nd_sig *a, const ir_nd_sig *b,
                        const ir_node *node, int32_t axes)
{
    bool alike = true;
    for (int32_t o = 0; o < node->n_out; o++)
        alike &= ir_nd_sbp_equal(&a->out[o], &b->out[o], axes);
    return alike;
}

/* One value for each way in which the node may make its outputs, and one. */
static int32_t add_loose(builder *b, int32_t v, int32_t from)
{
    const ir_node *node = &b->layout->graph->nodes.at[v];
    const int32_t axes = b->layout->stages[b->layout->stage_of[v]].mesh.n;
    const search_domain all = b->tables->domains.at[from];
    search_domain d = {
        .n = all.n,
        .kept = all.kept,
        .left = all.n,
        .sig = fs_new(b->tables->arena, ir_nd_sig, 2 * all.n + 1),
        .seconds = fs_new(b->tables->arena, double, 2 * all.n + 1)};
    memcpy(d.sig, all.sig, (size_t)all.n * sizeof *d.sig);
    memcpy(d.seconds, all.seconds, (size_t)all.n * sizeof *d.seconds);
    for (int32_t k = 0; k < all.n; k++) {
        int32_t at = d.left;
        while (at < d.n && !leave_alike(&d.sig[at], &all.sig[k], node, axes))
            at++;
        if (at == d.n)
            d.sig[d.n++] = all.sig[k];
    }
    if (all.n)
        d.sig[d.n++] = all.sig[0];
    fs_push(b->tables->arena, &b->tables->domains, d);
    return b->tables->domains.n - 1;
}

static int32_t with_loose(builder *b, int32_t v, int32_t id)
{
    if (!b->layout->chooses || !ir_computes_again(b->layout->graph, v))
        return id;
    int32_t *known = search_memo_at(&b->tables->loose, &id, sizeof id);
    if (*known < 0)
        *known = add_loose(b, v, id);
    return *known;
}

/* The same ways to lie, none of which takes time. */
static int32_t add_gone(builder *b, int32_t from)
{
    search_domain d = b->tables->domains.at[from];
    d.seconds = fs_new(b->tables->arena, double, d.n);
    fs_push(b->tables->arena, &b->tables->domains, d);
    return b->tables->domains.n - 1;
}

static int32_t with_gone(builder *b, int32_t v, int32_t id)
{
    if (!b->layout->gone || !b->layout->gone[v])
        return id;
    int32_t *known = search_memo_at(&b->tables->gone, &id, sizeof id);
    if (*known < 0)
        *known = add_gone(b, id);
    return *known;
}

static int32_t domain_of(builder *b, int32_t v)
{
    int64_t word[MOST_WORDS];
    ir_words key = {0, MOST_WORDS, word};
    key_of(b, v, &key);
    int32_t *known =
        search_memo_at(&b->tables->alike, word, (size_t)key.n * sizeof *word);
    if (*known < 0)
        *known = add_domain(b, v);
    const int32_t id = with_lives(b, v, filter_domain(b, v, *known));
    return with_gone(b, v, with_loose(b, v, id));
}

/* What the bytes of a node depend on; no padding. */
typedef struct load_key {
    int32_t domain, copies;
} load_key;

static const int64_t *node_bytes(builder *b, int32_t moment, int32_t v,
                                 load_key key)
{
    const search_domain *d = &b->tables->domains.at[key.domain];
    int32_t *known = search_memo_at(&b->loads, &key, sizeof key);
    if (*known < 0) {
        const ir_mesh *mesh = &b->layout->stages[b->layout->stage_of[v]].mesh;
        int64_t *bytes = fs_new(b->arena, int64_t, d->n);
        for (int32_t k = 0; k < d->n; k++)
            bytes[k] =
                cost_memory_node(b->out->memory, moment, v, mesh, &d->sig[k]);
        *known = b->load.n;
        fs_push(b->arena, &b->load, bytes);
    }
    return b->load.at[*known];
}

static void load_node(builder *b, int32_t v, search_net_node *node)
{
    const search_built *out = b->out;
    search_load loads[out->loose.n_limits + 1];
    for (int32_t k = 0; k < out->loose.n_limits; k++) {
        int32_t moment = out->moment[k];
        load_key key = {out->domain[v],
                        cost_memory_copies(out->memory, moment, v)};
        if (key.copies)
            loads[node->n_loads++] =
                (search_load){k, node_bytes(b, moment, v, key)};
    }
    node->loads =
        fs_memdup(b->arena, loads, (size_t)node->n_loads * sizeof *loads);
}

static void build_node(builder *b, int32_t v)
{
    search_built *out = b->out;
    const search_layout *layout = b->layout;
    int32_t stage = layout->stage_of[v], id = domain_of(b, v);
    const search_domain *d = &b->tables->domains.at[id];
    search_net_node *node = &out->loose.nodes[v];
    *node =
        (search_net_node){.n = d->n,
                          .stage = layout->group_of[stage],
                          .cost = search_scaled(&b->tables->scaler, d->seconds,
                                                d->n, search_times(layout, v)),
                          .per_step = cost_node_per_step(layout->graph, v)};
    out->sig[v] = d->sig;
    out->kept[v] = d->kept;
    out->left[v] = d->left;
    out->domain[v] = id;
    load_node(b, v, node);
    if (d->n == 0 && out->empty < 0)
        out->empty = v;
}

cost_program search_program_of(const search_layout *layout)
{
    return (cost_program){
        layout->graph,    layout->n_stages, layout->graph->micro_batches,
        layout->schedule, layout->stages,   layout->stage_of,
        layout->standing, layout->chooses};
}

static cost_memory *memory_of(const search_layout *layout, fs_arena *arena)
{
    if (layout->memory)
        return layout->memory;
    cost_program *program = fs_new(arena, cost_program, 1);
    *program = search_program_of(layout);
    return cost_memory_create(program, arena);
}

/* A limit for each moment whose bytes could exceed its stage's. */
static void build_limits(builder *b)
{
    const search_layout *layout = b->layout;
    search_built *out = b->out;
    const cost_moment *at;
    out->memory = memory_of(layout, b->arena);
    int32_t n = cost_memory_moments(out->memory, &at);
    out->moment = fs_new(b->arena, int32_t, n);
    out->loose.limit_bytes = fs_new(b->arena, int64_t, n);
    for (int32_t k = 0; k < n; k++) {
        int64_t limit = layout->limit_bytes[at[k].stage];
        if (cost_memory_most(out->memory, k) <= (double)limit)
            continue;
        out->moment[out->loose.n_limits] = k;
        out->loose.limit_bytes[out->loose.n_limits++] = limit;
    }
}

bool search_build_nodes(const search_problem *problem,
                        const search_layout *layout, fs_arena *arena,
                        search_built *out)
{
    int32_t n = layout->graph->nodes.n;
    builder b = {.problem = problem,
                 .layout = layout,
                 .arena = arena,
                 .out = out,
                 .tables = layout->tables ? layout->tables
                                          : search_tables_create(arena),
                 .loads = {.arena = arena}};
    *out =
        (search_built){.layout = layout,
                       .loose = {.n_nodes = n,
                                 .n_stages = layout->n_groups,
                                 .micro_batches = layout->graph->micro_batches,
                                 .fill = layout->fill,
                                 .like = layout->like,
                                 .nodes = fs_new(arena, search_net_node, n)},
                       .sig = fs_new(arena, ir_nd_sig *, n),
                       .kept = fs_new(arena, int32_t, n),
                       .left = fs_new(arena, int32_t, n),
                       .domain = fs_new(arena, int32_t, n),
                       .tables = b.tables,
                       .empty = -1};
    if (!layout->seconds_only)
        build_limits(&b);
    for (int32_t v = 0; v < n; v++) {
        if (fs_end_reached(&layout->end))
            return false;
        build_node(&b, v);
    }
    if (layout->tables)
        out->steps += (int64_t)BARE_STEPS * n;
    search_tie_nodes(out, arena);
    return true;
}
