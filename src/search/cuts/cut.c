/* Stages: forward nodes in topological order, cut into runs; everything else
 * follows them.
 *
 * Places for a cut are those that the fewest float activations of weight cross:
 * one at the boundary of a block with a residual stream. Among them the cut is
 * taken whose slowest device is fastest (all its stages' seconds of forward and
 * backward on one device, shared by those of the stage, and those in which it
 * receives what crosses), or one with more even stages, if the schedule is done
 * sooner with slots so long (split.c). Unless it is told how many of the
 * network's repeated blocks each stage has. */
#include "config.h"
#include "search/cuts/cut.h"
#include "search/known.h"
#include "search/recipe/recipe.h"
#include "search/cuts/split.h"

#include "ir/blocks.h"
#include "ir/compact.h"
#include "plan/schedule.h"

#include <math.h>
#include <string.h>

/* One part in so many of the largest activation is slight. */
enum { SLIGHT = 100 };

typedef struct cutter {
    const search_problem *problem;
    const ir_graph *graph;
    const search_layout *layout; /* NULL: none yet */
    fs_arena *arena;
    ir_uses uses;
    bool *moving;      /* [node] forward, depends on data */
    int32_t n;         /* moving nodes, in order */
    int32_t *order;    /* [n] */
    int32_t *rank;     /* [node] place in order, -1 */
    bool *within;      /* [n + 1] a group of a compact graph: no place; NULL */
    double *seconds;   /* [n + 1] prefix sums */
    int32_t *crossing; /* [n + 1] activations that cross before place k */
    int64_t *bytes;    /* [n + 1] all bytes that do, */
    int64_t *largest;  /* [n + 1] those of the largest activation */
    bool trains;       /* as many come back, as gradients */
    double forward;    /* share of all seconds */
    const plan_pipeline *pipe;
    FS_VEC(int32_t) blocks; /* where each begins, in the order */
    int32_t behind;         /* where the last ends */
} cutter;

static bool is_source(const ir_node *node)
{
    return ir_op_class_of(node->op) == IR_CLASS_SOURCE;
}

/* Forward nodes that compute with data; those of weights alone follow their
 * consumers. */
static void find_moving(cutter *c)
{
    const ir_graph *graph = c->graph;
    c->moving = fs_new(c->arena, bool, graph->nodes.n);
    c->order = fs_new(c->arena, int32_t, graph->nodes.n);
    c->rank = fs_new(c->arena, int32_t, graph->nodes.n);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        bool moving = false;
        c->rank[v] = -1;
        for (int32_t k = 0; k < node->n_in; k++) {
            int32_t from = graph->tensors.at[node->in[k]].producer;
            moving |=
                c->moving[from] || graph->nodes.at[from].op == IR_OP_input;
        }
        c->moving[v] = moving && node->phase == IR_FORWARD && node->n_out > 0;
        if (c->moving[v]) {
            c->rank[v] = c->n;
            c->order[c->n++] = v;
        }
    }
}

/* Ranks of the moving nodes of a copy. */
typedef struct rank_span {
    int32_t first, last, n;
} rank_span;

static rank_span span_of_copy(const cutter *c, const ir_layer_run *run,
                              int32_t copy)
{
    rank_span span = {c->n, -1, 0};
    for (int32_t p = 0; p < run->length; p++) {
        const int32_t rank = c->rank[run->node[copy * run->length + p]];
        if (rank < 0)
            continue;
        span.first = rank < span.first ? rank : span.first;
        span.last = rank > span.last ? rank : span.last;
        span.n++;
    }
    return span;
}

/* Places within groups of a compact graph are none. */
static void find_within(cutter *c)
{
    const ir_layers *layers = c->graph->layers;
    if (!ir_is_compact(c->graph) || !layers)
        return;
    c->within = fs_new(c->arena, bool, c->n + 1);
    for (int32_t r = 0; r < layers->runs.n; r++)
        for (int32_t i = 1; i + 1 < layers->runs.at[r].copies; i++) {
            if (ir_copy_times(layers, r, i) == 1)
                continue;
            const ir_layer_run *run = &layers->runs.at[r];
            const int32_t first = span_of_copy(c, run, i - 1).first,
                          last = span_of_copy(c, run, i + 1).last;
            for (int32_t k = first + 1; k <= last; k++)
                c->within[k] = true;
        }
}

/* Seconds of forward and backward before each of the moving nodes, on one
 * device; of the first, `known` or not. */
static double *seconds_on(cutter *c, int32_t device, const double *known)
{
    const ir_graph *graph = c->graph;
    const plan_stage one = {.mesh = {0}, .first_device = device};
    const ir_nd_sig plain = {0};
    double *before = fs_new(c->arena, double, c->n + 1);
    c->forward = 0;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        int32_t owner = node->phase == IR_BACKWARD ? node->forward : v;
        c->trains |= node->phase == IR_BACKWARD;
        if (owner < 0 || c->rank[owner] < 0)
            continue;
        double s =
            known ? known[v]
                  : cost_node_seconds(c->problem->cost, graph, v, &plain, &one);
        s *= ir_times(node);
        before[c->rank[owner] + 1] += s;
        c->forward += owner == v ? s : 0;
    }
    for (int32_t k = 0; k < c->n; k++)
        before[k + 1] += before[k];
    c->forward /= before[c->n];
    return before;
}

/* Last forward consumer of a tensor, in the order; -1. */
static int32_t last_use(const cutter *c, int32_t tensor)
{
    int32_t last = -1;
    for (int32_t u = c->uses.first[tensor]; u < c->uses.first[tensor + 1]; u++)
        if (c->rank[c->uses.list[u]] > last)
            last = c->rank[c->uses.list[u]];
    return last;
}

/* f(c, t, k) for each place k that a tensor t crosses. */
static void for_crossings(cutter *c,
                          void f(cutter *c, const ir_tensor *t, int32_t k))
{
    for (int32_t r = 0; r < c->n; r++) {
        const ir_node *node = &c->graph->nodes.at[c->order[r]];
        for (int32_t o = 0; o < node->n_out; o++) {
            const int32_t last = last_use(c, node->out[o]);
            for (int32_t k = r + 1; k <= last; k++)
                f(c, &c->graph->tensors.at[node->out[o]], k);
        }
    }
}

static int64_t bytes_of(const ir_tensor *t)
{
    return ir_shape_count(&t->shape) * ir_dtype_bytes(t->dtype);
}

static void add_bytes(cutter *c, const ir_tensor *t, int32_t k)
{
    c->bytes[k] += bytes_of(t);
    if (ir_dtype_is_float(t->dtype) && bytes_of(t) > c->largest[k])
        c->largest[k] = bytes_of(t);
}

/* A number alone, or what weighs next to nothing beside the largest that
 * crosses there, is no reason to cut elsewhere: what each block adds to the
 * loss crosses all places behind it, more of them the deeper they lie. */
static void add_count(cutter *c, const ir_tensor *t, int32_t k)
{
    const bool slight =
        ir_shape_count(&t->shape) <= 1 || bytes_of(t) < c->largest[k] / SLIGHT;
    c->crossing[k] += ir_dtype_is_float(t->dtype) && !slight;
}

static void count_crossings(cutter *c)
{
    c->crossing = fs_new(c->arena, int32_t, c->n + 1);
    c->bytes = fs_new(c->arena, int64_t, c->n + 1);
    c->largest = fs_new(c->arena, int64_t, c->n + 1);
    for_crossings(c, add_bytes);
    for_crossings(c, add_count);
}

/* Places that at most `most` activations cross. */
static int32_t places(const cutter *c, int32_t most, int32_t *out)
{
    int32_t n = 0;
    for (int32_t k = 1; k < c->n; k++)
        if (c->crossing[k] <= most && !(c->within && c->within[k]))
            out[n++] = k;
    return n;
}

/* What crosses place k on its way from one stage to another, as if all of it
 * were for that one: each device of the smaller deals with one of the other. */
static double move_of(const cutter *c, int32_t from, int32_t to, int32_t k)
{
    plan_stage a = c->layout->stages[from], b = c->layout->stages[to];
    if (plan_same_place(&a, &b))
        return 0;
    if (ir_mesh_size(&a.mesh) < ir_mesh_size(&b.mesh))
        b.mesh = a.mesh;
    else
        a.mesh = b.mesh;
    const plan_demand demand =
        cost_p2p(c->problem->cost, &a, &b, c->bytes[k] / ir_mesh_size(&a.mesh));
    return cost_shared_seconds(c->problem->cost, &b, &demand);
}

/* The first stage that lies towards the one before it as this one does. */
static int32_t first_alike(const cutter *c, int32_t stage)
{
    for (int32_t p = 1; p < stage; p++) {
        const plan_stage *a = &c->layout->stages[p - 1],
                         *b = &c->layout->stages[stage - 1];
        const cost_place x = cost_place_of(c->problem->cost, a, a + 1);
        const cost_place y = cost_place_of(c->problem->cost, b, b + 1);
        if (plan_same_mesh(&a->mesh, &b->mesh) &&
            plan_same_mesh(&a[1].mesh, &b[1].mesh) &&
            memcmp(&x, &y, sizeof x) == 0)
            return p;
    }
    return stage;
}

/* [stage * (n + 1) + j]: seconds in which that stage receives what crosses
 * at[j], from the one before when it begins there, and from the one behind when
 * it ends there. */
typedef struct cut_moves {
    double *in, *back;
} cut_moves;

/* Pairs of stages that lie alike take the same. */
static cut_moves time_moves(const cutter *c, const int32_t *at, int32_t n,
                            int32_t n_stages)
{
    const size_t size = (size_t)n_stages * (size_t)(n + 1);
    cut_moves m = {fs_new(c->arena, double, size),
                   fs_new(c->arena, double, size)};
    for (int32_t p = 1; p < n_stages; p++) {
        const int32_t like = first_alike(c, p);
        for (int32_t j = 1; j < n; j++) {
            double *in = &m.in[p * (n + 1) + j];
            double *back = &m.back[(p - 1) * (n + 1) + j];
            *in = like < p ? m.in[like * (n + 1) + j]
                           : move_of(c, p - 1, p, at[j]);
            if (c->trains)
                *back = like < p ? m.back[(like - 1) * (n + 1) + j]
                                 : move_of(c, p, p - 1, at[j]);
        }
    }
    return m;
}

/* As if each stage went forward for the same share of its time. Of what the
 * schedule has slots of their own for, gradients of weights take half. */
static double span_of(void *ctx, const double *stage_seconds)
{
    const cutter *c = ctx;
    const double back = 1 - c->forward;
    const double weight = c->pipe->schedule->splits ? back / 2 : 0;
    const double share[] = {c->forward, back - weight, weight};
    double *seconds = fs_new(c->arena, double, 3 * c->pipe->n_stages);
    for (int32_t k = 0; k < 3 * c->pipe->n_stages; k++)
        seconds[k] = stage_seconds[k / 3] * share[k % 3];
    return plan_schedule_span(c->pipe, seconds);
}

/* [group of devices][n + 1] of its slowest ones, shared by all of a stage:
 * where kinds differ some nodes do more than others. NULL: there is but one
 * kind, or groups run several stages. */
static const double *const *own_seconds(cutter *c, const int32_t *at, int32_t n)
{
    const hw_cluster *cluster = c->problem->cluster;
    const search_layout *layout = c->layout;
    if (cluster->n_groups == 1 || layout->n_groups < layout->n_stages)
        return NULL;
    double forward = 0; /* in the mean of the kinds */
    const double **kind = fs_new(c->arena, const double *, cluster->n_groups);
    const double **own = fs_new(c->arena, const double *, layout->n_groups);
    for (int32_t g = 0, first = 0; g < cluster->n_groups; g++) {
        kind[g] = seconds_on(c, first, NULL);
        forward += c->forward / cluster->n_groups;
        first += cluster->groups[g].nodes * cluster->groups[g].devices_per_node;
    }
    c->forward = forward;
    for (int32_t p = 0; p < layout->n_stages; p++) {
        const plan_stage *stage = &layout->stages[p];
        const int32_t devices = ir_mesh_size(&stage->mesh);
        const double *slowest = NULL;
        double *mine = fs_new(c->arena, double, n + 1);
        for (int32_t d = 0; d < devices; d++) {
            const hw_group *of = hw_group_of(cluster, stage->first_device + d);
            const double *one = kind[of - cluster->groups];
            if (!slowest || one[c->n] > slowest[c->n])
                slowest = one;
        }
        for (int32_t j = 0; j <= n; j++)
            mine[j] = slowest[at[j]] / devices;
        own[layout->group_of[p]] = mine;
    }
    return own;
}

/* at[0] = 0, at[1 .. n-1] the places, at[n] = the end. Seconds of the slowest
 * stage. */
static double choose(cutter *c, const int32_t *at, int32_t n, int32_t *begin)
{
    const search_layout *layout = c->layout;
    const cut_moves moves = time_moves(c, at, n, layout->n_stages);
    double *seconds = fs_new(c->arena, double, n + 1);
    double *size = fs_new(c->arena, double, layout->n_groups);
    const double *speed = search_find_speeds(c->problem, layout, c->arena);
    const double *const *own = own_seconds(c, at, n);
    int64_t *bytes = fs_new(c->arena, int64_t, n + 1);
    for (int32_t j = 0; j <= n; j++) {
        seconds[j] = c->seconds[at[j]];
        bytes[j] = c->bytes[at[j]];
    }
    for (int32_t p = 0; p < layout->n_stages; p++)
        size[layout->group_of[p]] = speed[p];
    fs_err err = {0};
    const plan_pipeline pipe =
        plan_pipeline_of(layout->stages, layout->n_stages, layout->schedule,
                         c->graph->micro_batches, c->arena);
    const bool runs = c->trains && pipe.schedule &&
                      plan_pipeline_check(&pipe, layout->stages, &err) == FS_OK;
    /* Groups of one kind that differ in size are to be as even as can be. */
    const bool counts = own || layout->n_groups < layout->n_stages;
    c->pipe = &pipe;
    const search_chain chain = {.n = n,
                                .n_stages = layout->n_stages,
                                .n_groups = layout->n_groups,
                                .group_of = layout->group_of,
                                .size = size,
                                .seconds = seconds,
                                .own = own,
                                .in = moves.in,
                                .back = moves.back,
                                .bytes = bytes,
                                .span = runs && counts ? span_of : NULL,
                                .ctx = c,
                                .times = pipe.micro_batches};
    search_split split = {0};
    search_split_find(&chain, c->arena, &split);
    for (int32_t p = 0; p < layout->n_stages; p++)
        begin[p] = at[split.begin[p]];
    return split.stage;
}

/* Stage of a node that no rule has placed: that of its first consumer. */
static int32_t first_consumer(const cutter *c, int32_t v,
                              const int32_t *stage_of)
{
    const ir_node *node = &c->graph->nodes.at[v];
    int32_t first = -1;
    for (int32_t o = 0; o < node->n_out; o++)
        for (int32_t u = c->uses.first[node->out[o]];
             u < c->uses.first[node->out[o] + 1]; u++) {
            int32_t user = c->uses.list[u];
            if (stage_of[user] >= 0 && (first < 0 || user < first))
                first = user;
        }
    return first < 0 ? -1 : stage_of[first];
}

static int32_t last_producer(const cutter *c, int32_t v,
                             const int32_t *stage_of)
{
    const ir_node *node = &c->graph->nodes.at[v];
    int32_t stage = -1;
    for (int32_t k = 0; k < node->n_in; k++) {
        int32_t from = c->graph->tensors.at[node->in[k]].producer;
        if (stage_of[from] >= 0)
            stage = stage_of[from];
    }
    return stage;
}

/* Sources and what only weights feed, last first: they follow consumers. */
static void place_sources(const cutter *c, int32_t *stage_of)
{
    for (int32_t v = c->graph->nodes.n - 1; v >= 0; v--) {
        const ir_node *node = &c->graph->nodes.at[v];
        if (stage_of[v] < 0 && (node->phase == IR_FORWARD || is_source(node)))
            stage_of[v] = first_consumer(c, v, stage_of);
    }
}

/* Updates follow their variable, backward nodes their forward node,
 * accumulation the gradient's producer. */
static void place_followers(const cutter *c, int32_t *stage_of)
{
    for (int32_t v = 0; v < c->graph->nodes.n; v++) {
        const ir_node *node = &c->graph->nodes.at[v];
        if (stage_of[v] >= 0 || is_source(node))
            continue;
        if (node->op == IR_OP_accumulate)
            stage_of[v] = last_producer(c, v, stage_of);
        else if (node->forward >= 0)
            stage_of[v] = stage_of[node->forward];
    }
}

static void place_rest(const cutter *c, int32_t *stage_of)
{
    for (int32_t v = c->graph->nodes.n - 1; v >= 0; v--)
        if (stage_of[v] < 0)
            stage_of[v] = first_consumer(c, v, stage_of);
    for (int32_t v = 0; v < c->graph->nodes.n; v++)
        if (stage_of[v] < 0)
            stage_of[v] = last_producer(c, v, stage_of);
    for (int32_t v = 0; v < c->graph->nodes.n; v++)
        if (stage_of[v] < 0)
            stage_of[v] = 0;
}

/* What no rule for moving nodes has placed, -1 so far. */
static void place_others(const cutter *c, int32_t *stage_of)
{
    place_sources(c, stage_of);
    place_followers(c, stage_of);
    place_rest(c, stage_of);
}

/* The last stage that begins at that rank or before; -1. */
static int32_t stage_at(const int32_t *begin, int32_t n_stages, int32_t rank)
{
    int32_t low = 0, high = n_stages; /* begin[low - 1] <= rank < begin[high] */
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (begin[middle] <= rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

static void place(const cutter *c, const int32_t *begin, int32_t n_stages,
                  int32_t *stage_of)
{
    for (int32_t v = 0; v < c->graph->nodes.n; v++)
        stage_of[v] = c->moving[v] ? stage_at(begin, n_stages, c->rank[v]) : -1;
    place_others(c, stage_of);
}

/* ---- so many blocks each ---- */

/* Where the copies of a repeat begin in the order, but for those of other
 * phases, and where the last of all ends. */
static void add_blocks(cutter *c, const ir_blocks *blocks, const ir_repeat *r)
{
    for (int32_t k = 0; k < r->copies; k++) {
        int32_t first = -1;
        for (int32_t i = 0; i < r->length; i++) {
            const int32_t at =
                c->rank[blocks->node[r->first + k * r->length + i]];
            first = first < 0 ? at : first;
            c->behind = at >= c->behind ? at + 1 : c->behind;
        }
        if (first >= 0)
            fs_push(c->arena, &c->blocks, first);
    }
}

static void find_blocks(cutter *c)
{
    ir_blocks own = {0};
    const bool shared = c->problem && c->problem->known;
    const ir_blocks *all =
        shared ? search_known_blocks(c->problem->known, c->graph) : &own;
    if (!shared)
        ir_find_blocks(c->graph, c->arena, &own);
    for (int32_t k = 0; k < all->repeats.n; k++)
        add_blocks(c, all, &all->repeats.at[k]);
}

/* Where block number k begins; behind the last one. */
static int32_t block_begin(const cutter *c, int32_t block)
{
    return block < c->blocks.n ? c->blocks.at[block] : c->behind;
}

/* Nothing but what comes before the first block, or behind the last, is left to
 * a stage without any. */
static fs_status fail_empty(const cutter *c, int32_t stage, fs_err *err)
{
    const bool head = block_begin(c, 0) > 0, tail = c->behind < c->n;
    const char *where = head && tail ? "the first and the last stage"
                        : head       ? "the first stage"
                        : tail       ? "the last stage"
                                     : "no stage";
    return fs_fail(err, FS_INVALID,
                   "layers: stage %d of %s is left with nothing: 0 blocks work "
                   "for %s only%s",
                   stage, c->graph->name, where,
                   head || tail ? ", which have what lies outside the blocks"
                                : ", since nothing lies outside the blocks");
}

static fs_status count_out(cutter *c, const search_layers *layers,
                           int32_t n_stages, fs_err *err, int32_t *begin)
{
    int64_t said = 0;
    find_blocks(c);
    for (int32_t p = 0; p < n_stages; p++)
        said += layers[p].blocks;
    if (said != c->blocks.n)
        return fs_fail(err, FS_INVALID,
                       "layers: %lld blocks for %d stages, %s has %d that "
                       "repeat",
                       (long long)said, n_stages, c->graph->name, c->blocks.n);
    for (int32_t p = 0, block = 0, at = 0; p < n_stages; p++) {
        begin[p] = at;
        block += layers[p].blocks;
        at = layers[p].blocks > 0 || layers[p].nodes == 0
                 ? block_begin(c, block)
                 : at;
        at = p + 1 < n_stages ? at + layers[p].nodes : c->n;
        if (at <= begin[p] || at > c->n)
            return fail_empty(c, p, err);
    }
    return FS_OK;
}

void search_layers_of(const ir_graph *graph, const ir_graph *bound,
                      const plan_strategy *strategy, search_layers *out)
{
    fs_arena *arena = fs_arena_create();
    cutter c = {.graph = graph, .arena = arena};
    cutter placed = {.graph = bound, .arena = arena};
    find_moving(&c);
    find_moving(&placed); /* the same nodes: what is dropped is backward */
    find_blocks(&c);
    for (int32_t p = 0, block = 0, at = 0; p < strategy->n_stages; p++) {
        const int32_t begin = at, before = block;
        while (at < c.n && strategy->stage_of[placed.order[at]] <= p)
            at++;
        while (block < c.blocks.n && block_begin(&c, block + 1) <= at)
            block++;
        if (p + 1 == strategy->n_stages)
            block = c.blocks.n;
        const int32_t from = block > before ? block_begin(&c, block) : begin;
        const bool even = at == c.n || at == block_begin(&c, block);
        out[p] = (search_layers){block - before, even ? 0 : at - from};
    }
    fs_arena_destroy(arena);
}

fs_status search_cut_check(const ir_graph *graph, const search_layers *layers,
                           int32_t n_stages, fs_err *err)
{
    cutter c = {.graph = graph, .arena = fs_arena_create()};
    int32_t *begin = fs_new(c.arena, int32_t, n_stages);
    find_moving(&c);
    fs_status status = count_out(&c, layers, n_stages, err, begin);
    fs_arena_destroy(c.arena);
    return status;
}

/* ---- as fast as can be ---- */

/* Stages of whole layers may be slower by so much; a stage has at least so many
 * of them. */
#define NEARLY 0.1
enum { LEAST_LAYERS = 2 };

/* Which places lie within layers. NULL: few stages' worth of them. */
static bool *within_layers(const cutter *c, int32_t n_stages)
{
    const ir_layers *layers = search_known_layers(c->problem->known, c->graph);
    bool *within = fs_new(c->arena, bool, c->n + 1);
    int32_t copies = 0;
    for (int32_t r = 0; r < layers->runs.n; r++)
        for (int32_t k = 0; k < layers->runs.at[r].copies; k++) {
            const rank_span span = span_of_copy(c, &layers->runs.at[r], k);
            copies += ir_copy_times(layers, r, k);
            for (int32_t at = span.first + 1; at <= span.last; at++)
                within[at] = true;
        }
    return copies < LEAST_LAYERS * n_stages ? NULL : within;
}

/* A cut of whole layers that is nearly as even, slowest stage by slowest stage:
 * a network whose stages have whole layers folds (LAYERS.md), and takes a tenth
 * of the work. Others are looked at when plans say where to cut (recut.c).
 * Engines that do not fold have the same space. */
static void keep_layers(cutter *c, int32_t n_stages, const int32_t *at,
                        int32_t n, double slowest, int32_t *begin)
{
    if (!c->problem->known || c->problem->cluster->n_groups > 1 ||
        c->layout->n_groups < n_stages)
        return;
    const bool *within = within_layers(c, n_stages);
    int32_t *whole = fs_new(c->arena, int32_t, n + 1), n_whole = 0;
    int32_t *other = fs_new(c->arena, int32_t, n_stages);
    for (int32_t j = 0; within && j <= n; j++)
        if (!within[at[j]])
            whole[n_whole++] = at[j];
    if (n_whole > n_stages && n_whole <= n &&
        choose(c, whole, n_whole - 1, other) <= (1 + NEARLY) * slowest)
        memcpy(begin, other, (size_t)n_stages * sizeof *begin);
}

static fs_status balance(cutter *c, int32_t n_stages, fs_err *err,
                         int32_t *begin)
{
    c->seconds = seconds_on(c, 0, c->layout->plain_s);
    count_crossings(c);
    find_within(c);
    int32_t *at = fs_new(c->arena, int32_t, c->n + 2), n = 0, widest = 0;
    for (int32_t k = 1; k < c->n; k++)
        widest = c->crossing[k] > widest ? c->crossing[k] : widest;
    for (int32_t most = 1; most <= widest && n < n_stages - 1; most++)
        n = places(c, most, at + 1);
    if (n < n_stages - 1)
        return fs_fail(err, FS_NO,
                       "%s: %d stages need %d places to cut, it has %d",
                       c->graph->name, n_stages, n_stages - 1, n);
    at[n + 1] = c->n;
    const double slowest = choose(c, at, n + 1, begin);
    keep_layers(c, n_stages, at, n + 1, slowest, begin);
    return FS_OK;
}

static fs_status cut(cutter *c, int32_t n_stages, fs_err *err,
                     int32_t *stage_of)
{
    int32_t *begin = fs_new(c->arena, int32_t, n_stages);
    c->uses = ir_graph_uses(c->graph, c->arena);
    find_moving(c);
    if (c->layout->begin) {
        place(c, c->layout->begin, n_stages, stage_of);
        return FS_OK;
    }
    if (c->problem->n_layers)
        FS_TRY(count_out(c, c->problem->layers, n_stages, err, begin));
    else
        FS_TRY(balance(c, n_stages, err, begin));
    place(c, begin, n_stages, stage_of);
    return FS_OK;
}

fs_status search_cut(const search_problem *problem, const search_layout *layout,
                     fs_err *err, int32_t *stage_of)
{
    const ir_graph *graph = layout->graph;
    if (problem->stage_of) {
        memcpy(stage_of, problem->stage_of,
               (size_t)graph->nodes.n * sizeof *stage_of);
        return FS_OK;
    }
    if (layout->n_stages == 1) {
        memset(stage_of, 0, (size_t)graph->nodes.n * sizeof *stage_of);
        return FS_OK;
    }
    cutter c = {.problem = problem,
                .graph = graph,
                .layout = layout,
                .arena = fs_arena_create()};
    fs_status status = cut(&c, layout->n_stages, err, stage_of);
    fs_arena_destroy(c.arena);
    return status;
}

/* ---- for cuts that others choose ---- */

/* Do the nodes of a copy that stands for more stand in a row, behind those of
 * the one before it and in front of the next one's? */
static bool is_in_a_row(const cutter *c, const ir_layer_run *run, int32_t copy)
{
    const rank_span own = span_of_copy(c, run, copy);
    return own.n == own.last - own.first + 1 &&
           span_of_copy(c, run, copy - 1).last < own.first &&
           span_of_copy(c, run, copy + 1).first > own.last;
}

/* As often as each stands there; each copy's one after the other. */
static void list_meant(const cutter *c, fs_arena *arena, search_ranks *out)
{
    const ir_graph *graph = c->graph;
    const ir_layers *layers = graph->layers;
    FS_VEC(int32_t) all = {0};
    fs_reserve(arena, &all, c->n);
    for (int32_t r = 0; r < c->n;) {
        const int32_t v = c->order[r], times = ir_times(&graph->nodes.at[v]);
        rank_span span = {r, r, 1};
        if (times > 1 && !layers)
            return;
        if (times > 1) {
            const ir_layer_run *run = &layers->runs.at[layers->run[v]];
            span = span_of_copy(c, run, layers->copy[v]);
            if (span.first != r || !is_in_a_row(c, run, layers->copy[v]))
                return;
        }
        for (int32_t k = 0; k < times; k++)
            for (int32_t i = span.first; i <= span.last; i++)
                fs_push(arena, &all, i);
        r = span.last + 1;
    }
    out->n_meant = all.n;
    out->meant = all.at;
}

void search_find_ranks(const ir_graph *graph, fs_arena *arena,
                       search_ranks *out)
{
    fs_arena *scratch = fs_arena_create();
    cutter c = {.graph = graph, .arena = scratch};
    c.uses = ir_graph_uses(graph, scratch);
    find_moving(&c);
    const size_t bytes = (size_t)graph->nodes.n * sizeof *c.rank;
    *out = (search_ranks){.graph = graph,
                          .n = c.n,
                          .rank = fs_memdup(arena, c.rank, bytes),
                          .order = fs_memdup(arena, c.order, bytes)};
    list_meant(&c, arena, out);
    place_others(&c, out->rank);
    fs_arena_destroy(scratch);
}

const int32_t *search_count_crossings(const ir_graph *graph, fs_arena *arena)
{
    fs_arena *scratch = fs_arena_create();
    cutter c = {.graph = graph, .arena = scratch};
    c.uses = ir_graph_uses(graph, scratch);
    find_moving(&c);
    count_crossings(&c);
    const size_t bytes = ((size_t)c.n + 1) * sizeof *c.crossing;
    const int32_t *found = fs_memdup(arena, c.crossing, bytes);
    fs_arena_destroy(scratch);
    return found;
}

/* As many as there may be, those that fewest activations cross. */
static int32_t list_places(const cutter *c, int32_t least, int32_t most,
                           int32_t *out)
{
    int32_t widest = 0, level = 1;
    for (int32_t k = 1; k < c->n; k++)
        widest = c->crossing[k] > widest ? c->crossing[k] : widest;
    int32_t n = places(c, level, out);
    while (level < widest) {
        const int32_t more = places(c, ++level, out);
        if (more > most && n >= least)
            return places(c, level - 1, out);
        n = more;
    }
    return n;
}

void search_find_places(const search_problem *problem,
                        const search_layout *layout, int32_t most,
                        fs_arena *arena, search_places *out)
{
    cutter c = {.problem = problem,
                .graph = layout->graph,
                .layout = layout,
                .arena = arena};
    c.uses = ir_graph_uses(layout->graph, arena);
    find_moving(&c);
    count_crossings(&c);
    find_within(&c);
    for (int32_t v = 0; v < layout->graph->nodes.n; v++)
        c.trains |= layout->graph->nodes.at[v].phase == IR_BACKWARD;
    out->at = fs_new(arena, int32_t, c.n + 2);
    out->n = 1 + list_places(&c, layout->n_stages - 1, most, out->at + 1);
    out->at[out->n] = c.n;
    const cut_moves moves = time_moves(&c, out->at, out->n, layout->n_stages);
    out->in = moves.in;
    out->back = moves.back;
}
