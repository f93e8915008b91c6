#include "config.h"
#include "ir/graph.h"
#include "ir/op.h"

#include <stdio.h>
#include <string.h>

ir_graph *ir_graph_create(const char *name)
{
    fs_arena *arena = fs_arena_create();
    ir_graph *graph = fs_new(arena, ir_graph, 1);
    graph->arena = arena;
    graph->tables = fs_arena_create();
    graph->shared = fs_new(arena, ir_tables, 1);
    *graph->shared = ir_tables_in(arena);
    graph->name = fs_strdup(arena, name);
    graph->loss = -1;
    graph->forward = -1;
    graph->micro_batches = 1;
    graph->loss_share = 1;
    graph->names.arena = graph->tables;
    graph->node_names.arena = graph->tables;
    graph->serials.arena = graph->tables;
    return graph;
}

void ir_graph_changes(ir_graph *graph)
{
    graph->layers = NULL;
    graph->like = NULL;
}

ir_tables ir_tables_in(fs_arena *arena)
{
    return (ir_tables){.arena = arena, .lock = PTHREAD_MUTEX_INITIALIZER};
}

static const void *find_table(const ir_tables *tables, const char *name)
{
    for (int32_t k = 0; k < tables->all.n; k++)
        if (strcmp(tables->all.at[k].name, name) == 0)
            return tables->all.at[k].data;
    return NULL;
}

const void *ir_table_of(ir_tables *tables, const char *name,
                        ir_table_maker *make, const void *ctx)
{
    pthread_mutex_lock(&tables->lock);
    const void *data = find_table(tables, name);
    if (!data) {
        data = make(ctx, tables->arena);
        fs_push(tables->arena, &tables->all,
                (ir_table){fs_strdup(tables->arena, name), data});
    }
    pthread_mutex_unlock(&tables->lock);
    return data;
}

#define COPY_VEC(vec, arena)                                                   \
    ((vec)->at =                                                               \
         fs_memdup((arena), (vec)->at, (size_t)(vec)->n * sizeof *(vec)->at),  \
     (vec)->room = (vec)->n)

static void move_map(fs_map *map, fs_arena *arena, int32_t n)
{
    *map = fs_map_copy(map, arena);
    fs_map_reserve(map, n);
}

void ir_graph_reserve(ir_graph *graph, int32_t n)
{
    enum { OF_STEP = 5 }; /* nodes of a training step per node, or fewer */
    const int32_t most = n < INT32_MAX / OF_STEP ? OF_STEP * n : n;
    fs_arena *before = graph->tables, *arena = fs_arena_create();
    FS_ASSERT(before != graph->arena); /* a copy's do not grow */
    graph->nodes.room = graph->tensors.room = 0;
    fs_reserve(arena, &graph->nodes,
               most > graph->nodes.n ? most : graph->nodes.n);
    fs_reserve(arena, &graph->tensors,
               most > graph->tensors.n ? most : graph->tensors.n);
    move_map(&graph->names, arena, most);
    move_map(&graph->node_names, arena, most);
    move_map(&graph->serials, arena, 0);
    graph->tables = arena;
    fs_arena_destroy(before);
}

void ir_graph_destroy(ir_graph *graph)
{
    if (!graph)
        return;
    if (graph->tables != graph->arena)
        fs_arena_destroy(graph->tables);
    fs_arena_destroy(graph->arena);
}

void ir_graph_join(ir_graph *graph, ir_graph *other)
{
    if (other->tables != other->arena)
        fs_arena_destroy(other->tables);
    fs_arena_join(graph->arena, other->arena);
}

ir_graph *ir_graph_copy(const ir_graph *graph, fs_arena *arena)
{
    ir_graph *copy = fs_memdup(arena, graph, sizeof *graph);
    copy->arena = copy->tables = arena;
    ir_graph_changes(copy);
    COPY_VEC(&copy->nodes, arena);
    COPY_VEC(&copy->tensors, arena);
    COPY_VEC(&copy->outputs, arena);
    copy->names = fs_map_copy(&graph->names, arena);
    copy->node_names = fs_map_copy(&graph->node_names, arena);
    copy->serials = fs_map_copy(&graph->serials, arena);
    return copy;
}

int32_t ir_graph_fail(ir_graph *graph, const char *format, ...)
{
    if (graph->err.status != FS_OK)
        return -1;
    va_list args;
    va_start(args, format);
    char text[sizeof graph->err.text];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fs_fail(&graph->err, FS_INVALID, "%s", text);
    return -1;
}

int32_t ir_graph_find(const ir_graph *graph, const char *tensor_name)
{
    return fs_map_get(&graph->names, tensor_name);
}

/* Neither a node nor a tensor may be called so already. */
static bool is_taken(const ir_graph *graph, const char *name)
{
    return fs_map_get(&graph->node_names, name) >= 0 ||
           fs_map_get(&graph->names, name) >= 0;
}

static void move_name(ir_graph *graph, int32_t tensor, const char *name)
{
    ir_tensor *t = &graph->tensors.at[tensor];
    fs_map_remove(&graph->names, t->name);
    t->name = name;
    *fs_map_at(&graph->names, name) = tensor;
}

void ir_graph_rename(ir_graph *graph, int32_t tensor, const char *name)
{
    if (graph->err.status != FS_OK || tensor < 0)
        return;
    ir_tensor *t = &graph->tensors.at[tensor];
    if (strcmp(t->name, name) == 0)
        return;
    if (ir_graph_find(graph, name) >= 0) {
        ir_graph_fail(graph, "two tensors are named '%s'", name);
        return;
    }
    move_name(graph, tensor, fs_strdup(graph->arena, name));
}

bool ir_graph_rename_node(ir_graph *graph, int32_t v, const char *name)
{
    ir_node *node = &graph->nodes.at[v];
    if (graph->err.status != FS_OK || is_taken(graph, name))
        return false;
    fs_map_remove(&graph->node_names, node->name);
    node->name = fs_strdup(graph->arena, name);
    *fs_map_at(&graph->node_names, node->name) = v;
    for (int32_t k = 0; k < node->n_out; k++)
        move_name(graph, node->out[k],
                  k ? fs_printf(graph->arena, "%s:%d", node->name, k)
                    : node->name);
    return true;
}

/* `base`, or `base` and the first number that is free. */
static const char *free_name(ir_graph *graph, const char *base)
{
    const char *name = base;
    while (is_taken(graph, name)) {
        int32_t *serial = fs_map_at(&graph->serials, base);
        *serial = *serial < 0 ? 1 : *serial + 1;
        name = fs_printf(graph->arena, "%s_%d", base, *serial);
    }
    return name;
}

static const char *node_name(ir_graph *graph, const ir_node *node)
{
    const char *op = ir_op_table[node->op]->name;
    if (node->name && *node->name)
        return free_name(graph, fs_strdup(graph->arena, node->name));
    if (graph->scope)
        return free_name(graph,
                         fs_printf(graph->arena, "%s/%s", graph->scope, op));
    return free_name(graph, op);
}

static int32_t add_tensor(ir_graph *graph, const ir_node *node, int32_t slot,
                          int32_t producer, const ir_io *io)
{
    ir_tensor tensor = {.name = node->name,
                        .dtype = io->out_dtype[slot],
                        .shape = io->out[slot],
                        .producer = producer,
                        .slot = slot,
                        .next = -1,
                        .again_of = -1,
                        .batch_axis = -1};
    if (slot > 0)
        tensor.name = free_name(
            graph, fs_printf(graph->arena, "%s:%d", node->name, slot));
    int32_t id = graph->tensors.n;
    fs_push(graph->tables, &graph->tensors, tensor);
    *fs_map_at(&graph->names, tensor.name) = id;
    return id;
}

/* False when an input is missing, without a message when it is -1 (then the
 * message stands already). */
static bool inputs_good(ir_graph *graph, const ir_node *node)
{
    const ir_op *op = ir_op_table[node->op];
    if (node->n_in < op->min_in || node->n_in > op->max_in) {
        ir_graph_fail(graph, "%s%s%s: %d inputs; %d to %d are wanted",
                      node->name ? node->name : "", node->name ? ": " : "",
                      op->name, node->n_in, op->min_in, op->max_in);
        return false;
    }
    for (int32_t i = 0; i < node->n_in; i++) {
        if (node->in[i] >= graph->tensors.n)
            ir_graph_fail(graph,
                          "%s: input %d is tensor %d, which does not "
                          "exist",
                          op->name, i, node->in[i]);
        if (node->in[i] < 0 || node->in[i] >= graph->tensors.n)
            return false;
    }
    return true;
}

static fs_status infer_outputs(const ir_graph *graph, const ir_node *node,
                               ir_io *io, fs_err *err)
{
    const ir_op *op = ir_op_table[node->op];
    memset(io, 0, sizeof *io);
    for (int32_t i = 0; i < node->n_in; i++) {
        io->in[i] = graph->tensors.at[node->in[i]].shape;
        io->in_dtype[i] = graph->tensors.at[node->in[i]].dtype;
    }
    FS_TRY(op->infer(node, io, err));
    for (int32_t i = 0; i < ir_op_outputs(node); i++)
        FS_TRY(ir_shape_check(&io->out[i], "result", err));
    return FS_OK;
}

int32_t ir_graph_add(ir_graph *graph, const ir_node *node)
{
    if (graph->err.status != FS_OK || !inputs_good(graph, node))
        return -1;
    ir_node added = *node;
    ir_io io;
    fs_err err = {0};
    const ir_op *op = ir_op_table[node->op];
    added.name = node_name(graph, node);
    if (infer_outputs(graph, node, &io, &err) != FS_OK)
        return ir_graph_fail(graph, "%s (%s): %s", added.name, op->name,
                             err.text);
    added.phase = graph->phase;
    added.forward = graph->forward;
    added.n_out = ir_op_outputs(node);
    ir_graph_changes(graph);
    int32_t id = graph->nodes.n;
    for (int32_t i = 0; i < added.n_out; i++)
        added.out[i] = add_tensor(graph, &added, i, id, &io);
    fs_push(graph->tables, &graph->nodes, added);
    *fs_map_at(&graph->node_names, added.name) = id;
    return id;
}

bool ir_graph_replace(ir_graph *graph, int32_t v, const ir_node *node)
{
    ir_node old = graph->nodes.at[v], new = *node;
    const ir_tensor *first = &graph->tensors.at[old.out[0]];
    ir_io io;
    if (graph->err.status != FS_OK || old.n_out != 1 ||
        infer_outputs(graph, node, &io, NULL) != FS_OK ||
        !ir_shape_equal(&io.out[0], &first->shape) ||
        io.out_dtype[0] != first->dtype)
        return false;
    new.name = old.name;
    new.phase = old.phase;
    new.forward = old.forward;
    new.n_out = ir_op_outputs(node);
    new.out[0] = old.out[0];
    for (int32_t i = 1; i < new.n_out; i++)
        new.out[i] = add_tensor(graph, &new, i, v, &io);
    graph->nodes.at[v] = new;
    ir_graph_changes(graph);
    return true;
}

void ir_graph_reorder(ir_graph *graph, const int32_t *order)
{
    const int32_t n = graph->nodes.n;
    fs_arena *scratch = fs_arena_create();
    ir_node *old = fs_new(scratch, ir_node, n);
    int32_t *place = fs_new(scratch, int32_t, n);
    for (int32_t v = 0; v < n; v++) {
        old[v] = graph->nodes.at[v];
        place[order[v]] = v;
    }
    for (int32_t v = 0; v < n; v++) {
        ir_node *node = &graph->nodes.at[v];
        *node = old[order[v]];
        if (node->forward >= 0)
            node->forward = place[node->forward];
    }
    fs_map_renumber(&graph->node_names, place);
    for (int32_t t = 0; t < graph->tensors.n; t++)
        graph->tensors.at[t].producer = place[graph->tensors.at[t].producer];
    if (graph->forward >= 0)
        graph->forward = place[graph->forward];
    ir_graph_changes(graph);
    fs_arena_destroy(scratch);
}

ir_uses ir_graph_uses(const ir_graph *graph, fs_arena *arena)
{
    int32_t n = graph->tensors.n;
    ir_uses uses = {.first = fs_new(arena, int32_t, n + 2)};
    for (int32_t v = 0; v < graph->nodes.n; v++)
        for (int32_t s = 0; s < graph->nodes.at[v].n_in; s++)
            uses.first[graph->nodes.at[v].in[s] + 2]++;
    for (int32_t t = 0; t < n; t++)
        uses.first[t + 2] += uses.first[t + 1];
    uses.list = fs_new(arena, int32_t, uses.first[n + 1]);
    /* first[t + 1] is the place of t's next use until all are placed. */
    for (int32_t v = 0; v < graph->nodes.n; v++)
        for (int32_t s = 0; s < graph->nodes.at[v].n_in; s++)
            uses.list[uses.first[graph->nodes.at[v].in[s] + 1]++] = v;
    return uses;
}
