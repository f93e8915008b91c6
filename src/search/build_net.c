/* Tables of a configuration's cost network. Nodes that look alike (op,
 * attributes, shapes) share one table, edges between alike domains too:
 * a deep network has few different ones. */
#include "config.h"
#include "search/layout.h"

#include "base/clock.h"
#include "plan/lower.h"

#include <math.h>
#include <string.h>

/* Signatures and seconds of all nodes that look alike. From value `kept` on
 * copies of what changes once per step are made anew for the node. */
typedef struct domain {
    int32_t n, kept;
    ir_nd_sig *sig;
    double *seconds;
} domain;

typedef struct builder {
    const search_problem *problem;
    const search_layout *layout;
    fs_arena *arena;
    search_built *out;
    search_memo alike;    /* node_key -> domain */
    search_memo filtered; /* domain and mask -> domain */
    search_memo lasting;  /* domain_lives -> domain */
    search_memo loads;    /* load_key -> load */
    FS_VEC(const int64_t *) load;
    FS_VEC(domain) domains;
} builder;

static int32_t group_of(const search_layout *layout, int32_t v)
{
    return layout->group_of[layout->stage_of[v]];
}

/* All that signatures and seconds depend on; no padding. */
typedef struct node_key {
    double f[IR_MAX_REAL];
    int64_t i[IR_MAX_ATTR];
    int64_t dim[IR_MAX_IN + IR_MAX_OUT][IR_MAX_RANK];
    int32_t rank[IR_MAX_IN + IR_MAX_OUT];
    int32_t dtype[IR_MAX_IN + IR_MAX_OUT];
    int32_t op, n_in, n_out, stage, per_step;
} node_key;

static void put_tensor(node_key *key, int32_t at, const ir_shape *shape,
                       ir_dtype dtype)
{
    key->rank[at] = shape->rank;
    key->dtype[at] = (int32_t)dtype;
    for (int32_t d = 0; d < shape->rank; d++)
        key->dim[at][d] = shape->dim[d];
}

/* Stages of one machine kind and mesh are alike: the first of them. */
static int32_t alike_stage(const builder *b, int32_t stage)
{
    const plan_stage *stages = b->layout->stages;
    int32_t first = 0;
    if (b->problem->cluster->n_groups > 1)
        return stage;
    while (!plan_same_mesh(&stages[first].mesh, &stages[stage].mesh))
        first++;
    return first;
}

static void key_of(const builder *b, int32_t v, node_key *key)
{
    const ir_graph *graph = b->layout->graph;
    const ir_node *node = &graph->nodes.at[v];
    ir_io io;
    memset(key, 0, sizeof *key);
    memcpy(key->f, node->f, sizeof key->f);
    ir_structural_attrs(node, key->i);
    key->op = (int32_t)node->op;
    key->n_in = node->n_in;
    key->n_out = node->n_out;
    key->stage = alike_stage(b, b->layout->stage_of[v]);
    key->per_step = cost_node_per_step(graph, v);
    ir_node_io(graph, node, &io);
    for (int32_t k = 0; k < node->n_in; k++)
        put_tensor(key, k, &io.in[k], io.in_dtype[k]);
    for (int32_t k = 0; k < node->n_out; k++)
        put_tensor(key, IR_MAX_IN + k, &io.out[k], io.out_dtype[k]);
}

static int32_t add_domain(builder *b, int32_t v)
{
    const ir_graph *graph = b->layout->graph;
    const ir_node *node = &graph->nodes.at[v];
    const plan_stage *stage = &b->layout->stages[b->layout->stage_of[v]];
    const cost_model *cost =
        b->layout->rates->cost[cost_node_per_step(graph, v)];
    ir_nd_sig_list all;
    ir_signatures(graph, node, &stage->mesh, b->arena, &all);
    domain d = {.n = all.n,
                .kept = all.n,
                .sig = all.at,
                .seconds = fs_new(b->arena, double, all.n)};
    for (int32_t k = 0; k < all.n; k++)
        d.seconds[k] = cost_node_seconds(cost, graph, v, &d.sig[k], stage);
    fs_push(b->arena, &b->domains, d);
    return b->domains.n - 1;
}

static int32_t keep_allowed(builder *b, int32_t from, const bool *keep)
{
    const domain all = b->domains.at[from];
    domain d = {.sig = fs_new(b->arena, ir_nd_sig, all.n),
                .seconds = fs_new(b->arena, double, all.n)};
    for (int32_t k = 0; k < all.n; k++)
        if (keep[k]) {
            d.sig[d.n] = all.sig[k];
            d.seconds[d.n++] = all.seconds[k];
        }
    d.kept = d.n;
    fs_push(b->arena, &b->domains, d);
    return b->domains.n - 1;
}

/* The domain of a node under the problem's filter. */
static int32_t filter_domain(builder *b, int32_t v, int32_t all)
{
    const search_filter *filter = &b->problem->filter;
    const plan_stage *stage = &b->layout->stages[b->layout->stage_of[v]];
    const domain d = b->domains.at[all];
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
                          group_of(b->layout, v), &stage->mesh, &d.sig[k]);
        every &= keep[k];
    }
    int32_t result = all;
    if (!every) {
        int32_t *known = search_memo_at(&b->filtered, key, bytes);
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

/* Is a copy of that tensor, which changes once per step and lies on the
 * reader's stage, to be kept or made anew? */
static bool copy_lives(const search_layout *layout, int32_t v, int32_t tensor)
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
            copy_lives(b->layout, v, node->in[k]))
            return true;
    return false;
}

/* What is made anew takes longer: it is a choice only where memory may bind. */
static search_lives lives_of(const builder *b, int32_t v)
{
    if (!copies_variables(b, v))
        return SEARCH_KEEPS;
    if (b->problem->lives == SEARCH_CHOOSES && b->out->net.n_limits == 0)
        return SEARCH_KEEPS;
    return b->problem->lives;
}

static int32_t add_lives(builder *b, domain_lives from)
{
    const domain all = b->domains.at[from.domain];
    const int32_t times = from.lives == SEARCH_CHOOSES ? 2 : 1;
    domain d = {.n = times * all.n,
                .kept = from.lives == SEARCH_CHOOSES ? all.n : 0,
                .sig = fs_new(b->arena, ir_nd_sig, times * all.n),
                .seconds = fs_new(b->arena, double, times *all.n)};
    for (int32_t k = 0; k < d.n; k++) {
        d.sig[k] = all.sig[k % all.n];
        d.seconds[k] = all.seconds[k % all.n];
    }
    fs_push(b->arena, &b->domains, d);
    return b->domains.n - 1;
}

static int32_t with_lives(builder *b, int32_t v, int32_t id)
{
    const domain_lives key = {id, lives_of(b, v)};
    if (key.lives == SEARCH_KEEPS)
        return id;
    int32_t *known = search_memo_at(&b->lasting, &key, sizeof key);
    if (*known < 0)
        *known = add_lives(b, key);
    return *known;
}

static int32_t domain_of(builder *b, int32_t v)
{
    node_key key;
    key_of(b, v, &key);
    int32_t *known = search_memo_at(&b->alike, &key, sizeof key);
    if (*known < 0)
        *known = add_domain(b, v);
    return with_lives(b, v, filter_domain(b, v, *known));
}

/* What the bytes of a node depend on; no padding. */
typedef struct load_key {
    int32_t domain, copies;
} load_key;

static const int64_t *node_bytes(builder *b, int32_t moment, int32_t v,
                                 load_key key)
{
    const domain *d = &b->domains.at[key.domain];
    int32_t *known = search_memo_at(&b->loads, &key, sizeof key);
    if (*known < 0) {
        int64_t *bytes = fs_new(b->arena, int64_t, d->n);
        for (int32_t k = 0; k < d->n; k++)
            bytes[k] = cost_memory_node(b->out->memory, moment, v, &d->sig[k]);
        *known = b->load.n;
        fs_push(b->arena, &b->load, bytes);
    }
    return b->load.at[*known];
}

static void load_node(builder *b, int32_t v, search_net_node *node)
{
    const search_built *out = b->out;
    search_load loads[out->net.n_limits + 1];
    for (int32_t k = 0; k < out->net.n_limits; k++) {
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
    const domain *d = &b->domains.at[id];
    search_net_node *node = &out->net.nodes[v];
    *node = (search_net_node){.n = d->n,
                              .stage = layout->group_of[stage],
                              .cost = d->seconds,
                              .per_step = cost_node_per_step(layout->graph, v)};
    out->sig[v] = d->sig;
    out->kept[v] = d->kept;
    out->domain[v] = id;
    load_node(b, v, node);
    if (d->n == 0 && out->empty < 0)
        out->empty = v;
}

/* A limit for each moment whose bytes could exceed its stage's. */
static void build_limits(builder *b)
{
    const search_layout *layout = b->layout;
    search_built *out = b->out;
    cost_program *program = fs_new(b->arena, cost_program, 1);
    const cost_moment *at;
    *program = (cost_program){
        layout->graph,    layout->n_stages, layout->graph->micro_batches,
        layout->schedule, layout->stages,   layout->stage_of};
    out->memory = cost_memory_create(program, b->arena);
    int32_t n = cost_memory_moments(out->memory, &at);
    out->moment = fs_new(b->arena, int32_t, n);
    out->net.limit_bytes = fs_new(b->arena, int64_t, n);
    for (int32_t k = 0; k < n; k++) {
        int64_t limit = layout->limit_bytes[at[k].stage];
        if (cost_memory_most(out->memory, k) <= (double)limit)
            continue;
        out->moment[out->net.n_limits] = k;
        out->net.limit_bytes[out->net.n_limits++] = limit;
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
                 .alike = {.arena = arena},
                 .filtered = {.arena = arena},
                 .lasting = {.arena = arena},
                 .loads = {.arena = arena}};
    *out = (search_built){.layout = layout,
                          .net = {.n_nodes = n,
                                  .n_stages = layout->n_groups,
                                  .micro_batches = layout->graph->micro_batches,
                                  .fill = layout->fill,
                                  .nodes = fs_new(arena, search_net_node, n)},
                          .sig = fs_new(arena, ir_nd_sig *, n),
                          .kept = fs_new(arena, int32_t, n),
                          .domain = fs_new(arena, int32_t, n),
                          .empty = -1};
    build_limits(&b);
    for (int32_t v = 0; v < n; v++) {
        if (fs_end_reached(&layout->end))
            return false;
        build_node(&b, v);
    }
    return true;
}

/* ---- edges ---- */

/* One edge of the graph: a tensor on its way from node u's output to node
 * v's input; for a variable's loop v is the variable. Copies that are kept and
 * those made anew take their seconds at different rates: where v chooses, two
 * links of which each counts for its values only. */
typedef struct link {
    int32_t tensor, u, v, out_slot, in_slot;
    bool loop, per_step;
    search_lives lives;
} link;

/* All that a pair table depends on besides the tensor's shape and the meshes,
 * which the domains imply; no padding. */
typedef struct edge_key {
    int32_t domain_u, domain_v, out_slot, in_slot, loop, per_step, lives;
    cost_place place;
} edge_key;

typedef struct edge_builder {
    fs_arena *arena;
    search_built *built;
    search_memo alike;
    FS_VEC(double *) tables;
    search_memo loads; /* bytes_key -> bytes */
    FS_VEC(const int64_t *) bytes;
} edge_builder;

static const ir_nd_sbp *leaves(const search_built *built, const link *l,
                               int32_t value)
{
    return &built->sig[l->u][value].out[l->out_slot];
}

static const ir_nd_sbp *arrives(const search_built *built, const link *l,
                                int32_t value)
{
    const ir_nd_sig *sig = &built->sig[l->v][value];
    return l->loop ? &sig->out[0] : &sig->in[l->in_slot];
}

static plan_ends ends_of(const edge_builder *b, const link *l,
                         const ir_nd_sbp *from, const ir_nd_sbp *to)
{
    const search_layout *layout = b->built->layout;
    const ir_op_kind maker = layout->graph->nodes.at[l->u].op;
    return (plan_ends){.tensor = &layout->graph->tensors.at[l->tensor],
                       .from_stage = &layout->stages[layout->stage_of[l->u]],
                       .to_stage = &layout->stages[layout->stage_of[l->v]],
                       .from = from,
                       .to = to,
                       .anywhere =
                           maker == IR_OP_input || maker == IR_OP_constant};
}

static double pair_seconds(const edge_builder *b, const link *l,
                           const ir_nd_sbp *from, const ir_nd_sbp *to)
{
    const plan_ends ends = ends_of(b, l, from, to);
    return plan_boxer_join(b->built->layout->rates->boxer[l->per_step], &ends,
                           NULL);
}

typedef const ir_nd_sbp *sbp_at(const search_built *built, const link *l,
                                int32_t value);

/* Different SBPs among a node's values: which[value] counts them, first[]
 * gives one of each. Returns how many. */
static int32_t distinct(const edge_builder *b, const link *l, sbp_at *at,
                        int32_t n, int32_t *which, int32_t *first)
{
    const search_layout *layout = b->built->layout;
    const int32_t node = at == leaves ? l->u : l->v;
    int32_t axes = layout->stages[layout->stage_of[node]].mesh.n, found = 0;
    for (int32_t s = 0; s < n; s++) {
        int32_t k = 0;
        while (k < found && !ir_nd_sbp_equal(at(b->built, l, first[k]),
                                             at(b->built, l, s), axes))
            k++;
        if (k == found)
            first[found++] = s;
        which[s] = k;
    }
    return found;
}

/* Which SBPs an edge's values stand for: a table over pairs of these, spread
 * over pairs of values. Rows are the values of the earlier node: u, or the
 * variable of a loop. */
typedef struct spread {
    const link *l;
    int32_t nu, nv, du, dv;
    int32_t *wu, *fu, *wv, *fv;
} spread;

static spread spread_of(const edge_builder *b, const link *l, fs_arena *arena)
{
    const search_net_node *nodes = b->built->net.nodes;
    spread p = {.l = l, .nu = nodes[l->u].n, .nv = nodes[l->v].n};
    p.wu = fs_new(arena, int32_t, p.nu);
    p.fu = fs_new(arena, int32_t, p.nu);
    p.wv = fs_new(arena, int32_t, p.nv);
    p.fv = fs_new(arena, int32_t, p.nv);
    p.du = distinct(b, l, leaves, p.nu, p.wu, p.fu);
    p.dv = distinct(b, l, arrives, p.nv, p.wv, p.fv);
    return p;
}

static int64_t spread_place(const spread *p, int64_t s, int64_t t)
{
    return p->l->loop ? t * p->nu + s : s * p->nv + t;
}

/* Does the link count for a value of its reader? */
static bool counts_for(const edge_builder *b, const link *l, int64_t value)
{
    const bool anew = value >= b->built->kept[l->v];
    return l->lives == SEARCH_CHOOSES || anew == (l->lives == SEARCH_ANEW);
}

static double only_for(double seconds, bool counts)
{
    return counts || isinf(seconds) ? seconds : 0;
}

static double *make_table(const edge_builder *b, const link *l)
{
    fs_arena *scratch = fs_arena_create();
    spread p = spread_of(b, l, scratch);
    double *pair = fs_new(scratch, double, (size_t)p.du *(size_t)p.dv);
    for (int32_t s = 0; s < p.du; s++)
        for (int32_t t = 0; t < p.dv; t++)
            pair[s * p.dv + t] =
                pair_seconds(b, l, leaves(b->built, l, p.fu[s]),
                             arrives(b->built, l, p.fv[t]));
    double *table = fs_new(b->arena, double, (size_t)p.nu *(size_t)p.nv);
    for (int64_t s = 0; s < p.nu; s++)
        for (int64_t t = 0; t < p.nv; t++)
            table[spread_place(&p, s, t)] =
                only_for(pair[p.wu[s] * p.dv + p.wv[t]], counts_for(b, l, t));
    fs_arena_destroy(scratch);
    return table;
}

/* What an edge holds of a copy that is kept, and of one made anew. */
typedef struct holdings {
    cost_holding kept, anew;
} holdings;

static int64_t pair_bytes(const edge_builder *b, const link *l,
                          const cost_holding *held, const ir_nd_sbp *from,
                          const ir_nd_sbp *to)
{
    const plan_ends ends = ends_of(b, l, from, to);
    plan_boxing path;
    double seconds = plan_boxer_join(
        b->built->layout->rates->boxer[l->per_step], &ends, &path);
    return isinf(seconds) ? 0 : cost_holding_bytes(held, &ends, &path);
}

static int64_t *fill_pairs(const edge_builder *b, const spread *p,
                           const cost_holding *held, fs_arena *arena)
{
    int64_t *pair = fs_new(arena, int64_t, (size_t)p->du * (size_t)p->dv);
    for (int32_t s = 0; s < p->du; s++)
        for (int32_t t = 0; t < p->dv; t++)
            pair[s * p->dv + t] =
                pair_bytes(b, p->l, held, leaves(b->built, p->l, p->fu[s]),
                           arrives(b->built, p->l, p->fv[t]));
    return pair;
}

static const int64_t *make_bytes(const edge_builder *b, const link *l,
                                 const holdings *held)
{
    fs_arena *scratch = fs_arena_create();
    spread p = spread_of(b, l, scratch);
    const int64_t *kept = fill_pairs(b, &p, &held->kept, scratch);
    const int64_t *anew = fill_pairs(b, &p, &held->anew, scratch);
    int64_t *bytes = fs_new(b->arena, int64_t, (size_t)p.nu * (size_t)p.nv);
    for (int64_t s = 0; s < p.nu; s++)
        for (int64_t t = 0; t < p.nv; t++)
            bytes[spread_place(&p, s, t)] =
                (t < b->built->kept[l->v] ? kept
                                          : anew)[p.wu[s] * p.dv + p.wv[t]];
    fs_arena_destroy(scratch);
    return bytes;
}

static edge_key edge_key_of(const search_built *built, const link *l)
{
    const search_layout *layout = built->layout;
    return (edge_key){built->domain[l->u],
                      built->domain[l->v],
                      l->out_slot,
                      l->in_slot,
                      l->loop,
                      l->per_step,
                      l->lives,
                      cost_place_of(layout->rates->cost[l->per_step],
                                    &layout->stages[layout->stage_of[l->u]],
                                    &layout->stages[layout->stage_of[l->v]])};
}

static double *table_of(edge_builder *b, const link *l)
{
    edge_key key = edge_key_of(b->built, l);
    int32_t *known = search_memo_at(&b->alike, &key, sizeof key);
    if (*known < 0) {
        *known = b->tables.n;
        fs_push(b->arena, &b->tables, make_table(b, l));
    }
    return b->tables.at[*known];
}

/* What an edge's bytes depend on; no padding. */
typedef struct bytes_key {
    edge_key edge;
    holdings held;
} bytes_key;

static const int64_t *bytes_of(edge_builder *b, const link *l,
                               const holdings *held)
{
    bytes_key key = {edge_key_of(b->built, l), *held};
    int32_t *known = search_memo_at(&b->loads, &key, sizeof key);
    if (*known < 0) {
        *known = b->bytes.n;
        fs_push(b->arena, &b->bytes, make_bytes(b, l, held));
    }
    return b->bytes.at[*known];
}

static void load_edge(edge_builder *b, const link *l, search_net_edge *edge)
{
    const search_built *built = b->built;
    search_load loads[built->net.n_limits + 1];
    for (int32_t k = 0; k < built->net.n_limits; k++) {
        cost_reader reader = {l->v, l->in_slot, false};
        holdings held;
        bool holds = cost_memory_edge(built->memory, built->moment[k], reader,
                                      &held.kept);
        reader.anew = l->lives == SEARCH_ANEW;
        holds |= cost_memory_edge(built->memory, built->moment[k], reader,
                                  &held.anew);
        if (holds)
            loads[edge->n_loads++] = (search_load){k, bytes_of(b, l, &held)};
    }
    edge->loads =
        fs_memdup(b->arena, loads, (size_t)edge->n_loads * sizeof *loads);
}

static search_net_edge *add_edge(edge_builder *b, const link *l)
{
    search_built *built = b->built;
    search_net_edge *edge = &built->net.edges[built->net.n_edges++];
    *edge = (search_net_edge){.u = l->loop ? l->v : l->u,
                              .v = l->loop ? l->u : l->v,
                              .stage = group_of(built->layout, l->v),
                              .per_step = l->per_step,
                              .cost = table_of(b, l)};
    return edge;
}

/* Of copies made anew the seconds count per micro-batch, and the bytes, of
 * which one edge tells for all values, while the reader runs. */
static void build_edge(edge_builder *b, int32_t v, int32_t slot, int32_t tensor)
{
    search_built *built = b->built;
    const ir_graph *graph = built->layout->graph;
    const ir_tensor *t = &graph->tensors.at[tensor];
    bool loop = graph->nodes.at[v].op == IR_OP_variable;
    bool per_step = plan_tensor_per_step(graph, tensor);
    bool anew = !loop && copy_lives(built->layout, v, tensor) &&
                built->kept[v] < built->net.nodes[v].n;
    link l = {tensor, t->producer, v,        t->slot,
              slot,   loop,        per_step, SEARCH_CHOOSES};
    if (anew && built->kept[v] > 0) {
        l.lives = SEARCH_KEEPS;
        add_edge(b, &l);
    }
    if (anew) {
        l.lives = SEARCH_ANEW;
        l.per_step = false;
    }
    load_edge(b, &l, add_edge(b, &l));
}

bool search_build_edges(fs_arena *arena, search_built *built)
{
    const ir_graph *graph = built->layout->graph;
    edge_builder b = {.arena = arena,
                      .built = built,
                      .alike = {.arena = arena},
                      .loads = {.arena = arena}};
    int32_t n = 0;
    for (int32_t v = 0; v < graph->nodes.n; v++)
        n += 2 * graph->nodes.at[v].n_in + 1;
    built->net.edges = fs_new(arena, search_net_edge, n);
    built->net.n_edges = 0;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (fs_end_reached(&built->layout->end))
            return false;
        for (int32_t k = 0; k < node->n_in; k++)
            build_edge(&b, v, k, node->in[k]);
        int32_t next = node->op == IR_OP_variable
                           ? graph->tensors.at[node->out[0]].next
                           : -1;
        if (next >= 0)
            build_edge(&b, v, 0, next);
    }
    return true;
}

/* ---- back to a strategy ---- */

int32_t search_sharing_of(const ir_graph *graph, int32_t v)
{
    const ir_node *node = &graph->nodes.at[v];
    const int32_t forward = node->forward >= 0 ? node->forward : v;
    return 1 + 2 * forward + (node->phase == IR_BACKWARD);
}

static void set_path(const search_built *built, plan_strategy *s, int32_t v,
                     int32_t slot, bool anew)
{
    const ir_graph *graph = built->layout->graph;
    int32_t tensor = plan_edge_tensor(graph, s, v, slot);
    if (tensor < 0)
        return;
    const plan_ends ends = plan_edge_ends(graph, s, v, slot);
    anew &= copy_lives(built->layout, v, tensor);
    plan_boxer *boxer =
        built->layout->rates
            ->boxer[plan_tensor_per_step(graph, tensor) && !anew];
    double seconds =
        plan_boxer_join(boxer, &ends, &s->edge[s->first_edge[v] + slot]);
    FS_ASSERT(isfinite(seconds));
    if (anew)
        s->edge[s->first_edge[v] + slot].sharing = search_sharing_of(graph, v);
}

plan_strategy *search_strategy(const search_problem *problem,
                               const search_built *built, const int32_t *value,
                               fs_arena *arena)
{
    const search_layout *layout = built->layout;
    const ir_graph *graph = layout->graph;
    plan_strategy *s = plan_strategy_new(graph, layout->n_stages, arena);
    s->schedule = fs_strdup(arena, problem->schedule);
    memcpy(s->stages, layout->stages,
           (size_t)layout->n_stages * sizeof *s->stages);
    memcpy(s->stage_of, layout->stage_of,
           (size_t)graph->nodes.n * sizeof *s->stage_of);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        s->sig[v] = built->sig[v][value[v]];
    for (int32_t v = 0; v < graph->nodes.n; v++)
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++)
            set_path(built, s, v, e - s->first_edge[v],
                     value[v] >= built->kept[v]);
    if (problem->lives == SEARCH_ANEW)
        search_box_again(graph, false, s);
    return s;
}
