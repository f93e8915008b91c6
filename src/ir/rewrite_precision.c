/* Casts for mixed precision. First every node is given the type that it
 * computes in, from its rule and the types that arrive; then the nodes are
 * strung together anew with the casts between them. The cast of a parameter
 * stands before its first reader, any other behind what it casts: so copies of
 * a block stay copies when they share a tensor made before them. */
#include "config.h"
#include "ir/op_util.h"
#include "ir/precision.h"
#include "ir/rewrite_match.h"

#include <string.h>

typedef enum rule { NARROW, WIDE, FOLLOW, ANY } rule;

enum { TO_NARROW, TO_WIDE, N_CASTS };

typedef struct caster {
    ir_graph *graph;
    fs_arena *arena;
    ir_dtype narrow;
    ir_dtype *dtype;  /* [tensor] that it will have */
    bool *weak;       /* [tensor] made of parameters and constants alone */
    ir_dtype *inputs; /* [node] that its float inputs are cast to; F64: not */
    bool *wanted[N_CASTS];
    int32_t *cast[N_CASTS]; /* [tensor] or -1 */
} caster;

static rule rule_of(ir_op_kind op)
{
    static const uint8_t classes[] = {
#define IR_PRECISION_CLASS(name, what) [IR_CLASS_##name] = what,
#define IR_PRECISION(op, what)
#define IR_PRECISION_WIDE_FROM(op, slot)
#include "ir/precision.def"
#undef IR_PRECISION_WIDE_FROM
#undef IR_PRECISION_CLASS
#undef IR_PRECISION
    };
    /* 1 + the rule; 0 is that of the class. */
    static const uint8_t own[IR_OP_COUNT] = {
#define IR_PRECISION_CLASS(name, what)
#define IR_PRECISION(op, what) [IR_OP_##op] = 1 + what,
#define IR_PRECISION_WIDE_FROM(op, slot)
#include "ir/precision.def"
#undef IR_PRECISION_WIDE_FROM
#undef IR_PRECISION_CLASS
#undef IR_PRECISION
    };
    return (rule)(own[op] ? own[op] - 1 : classes[ir_op_class_of(op)]);
}

/* The first input that stays float whatever arrives. */
static int32_t wide_from(ir_op_kind op)
{
    static const uint8_t from[IR_OP_COUNT] = {
#define IR_PRECISION_CLASS(name, what)
#define IR_PRECISION(op, what)
#define IR_PRECISION_WIDE_FROM(op, slot) [IR_OP_##op] = slot,
#include "ir/precision.def"
#undef IR_PRECISION_WIDE_FROM
#undef IR_PRECISION_CLASS
#undef IR_PRECISION
    };
    return from[op] ? from[op] : IR_MAX_IN;
}

/* ---- which type each node computes in ---- */

static bool is_cast(const caster *c, ir_dtype dtype)
{
    return dtype == IR_F32 || dtype == c->narrow;
}

/* The type of the activations that arrive; F32 when they differ or there are
 * none. */
static ir_dtype followed(const caster *c, const ir_node *node)
{
    bool narrow = false;
    const int32_t from = wide_from(node->op);
    for (int32_t i = 0; i < node->n_in && i < from; i++) {
        ir_dtype dtype = c->dtype[node->in[i]];
        if (dtype == IR_F32 && !c->weak[node->in[i]])
            return IR_F32;
        narrow |= dtype == c->narrow;
    }
    return narrow ? c->narrow : IR_F32;
}

static ir_dtype wanted_type(const caster *c, const ir_node *node)
{
    for (int32_t i = 0; i < node->n_in; i++)
        if (c->dtype[node->in[i]] == IR_F64)
            return IR_F64;
    switch (rule_of(node->op)) {
    case NARROW:
        return c->narrow;
    case WIDE:
        return IR_F32;
    case FOLLOW:
        return followed(c, node);
    case ANY:
        break;
    }
    return IR_F64;
}

static ir_dtype input_type(const caster *c, const ir_node *node, int32_t slot,
                           ir_dtype to)
{
    ir_dtype dtype = c->dtype[node->in[slot]];
    if (to == IR_F64 || !is_cast(c, dtype))
        return dtype;
    return slot < wide_from(node->op) ? to : IR_F32;
}

/* The types of the outputs when the inputs are cast to `to`. */
static bool types_fit(caster *c, const ir_node *node, ir_dtype to)
{
    ir_io io;
    fs_err ignored = {0};
    ir_node_io(c->graph, node, &io);
    for (int32_t i = 0; i < node->n_in; i++)
        io.in_dtype[i] = input_type(c, node, i, to);
    if (ir_op_table[node->op]->infer(node, &io, &ignored) != FS_OK)
        return false;
    for (int32_t i = 0; i < node->n_out; i++)
        c->dtype[node->out[i]] = io.out_dtype[i];
    return true;
}

static bool is_weak(const caster *c, const ir_node *node)
{
    bool weak = node->op != IR_OP_input && !ir_op_table[node->op]->draws;
    for (int32_t i = 0; i < node->n_in; i++)
        weak &= c->weak[node->in[i]];
    return weak;
}

static void choose_type(caster *c, int32_t v)
{
    const ir_node *node = &c->graph->nodes.at[v];
    ir_dtype to = wanted_type(c, node);
    if (!types_fit(c, node, to) && !types_fit(c, node, to = IR_F32))
        ir_graph_fail(c->graph, "%s: no types fit in mixed precision",
                      node->name);
    c->inputs[v] = to;
    for (int32_t i = 0; i < node->n_in; i++) {
        ir_dtype dtype = input_type(c, node, i, to);
        if (dtype != c->dtype[node->in[i]])
            c->wanted[dtype == IR_F32 ? TO_WIDE : TO_NARROW][node->in[i]] =
                true;
    }
    for (int32_t i = 0; i < node->n_out; i++)
        c->weak[node->out[i]] = is_weak(c, node);
}

/* What a variable takes on has its type; a loss is F32. */
static void want_wide(caster *c)
{
    const ir_graph *g = c->graph;
    for (int32_t t = 0; t < g->tensors.n; t++) {
        int32_t next = g->tensors.at[t].next;
        if (next >= 0 && c->dtype[next] == c->narrow)
            c->wanted[TO_WIDE][next] = true;
    }
    if (g->loss >= 0 && c->dtype[g->loss] == c->narrow)
        c->wanted[TO_WIDE][g->loss] = true;
}

/* ---- stringing them together ---- */

static void add_cast(caster *c, int32_t tensor, int32_t kind)
{
    ir_graph *g = c->graph;
    const ir_dtype to = kind == TO_NARROW ? c->narrow : IR_F32;
    if (!c->wanted[kind][tensor] || c->cast[kind][tensor] >= 0)
        return;
    ir_node cast = {.op = IR_OP_cast, .n_in = 1, .in = {tensor}, .i = {to}};
    const ir_node *maker = &g->nodes.at[g->tensors.at[tensor].producer];
    g->phase = maker->phase;
    g->forward = maker->forward;
    cast.name = fs_printf(g->arena, "%s.%s", g->tensors.at[tensor].name,
                          ir_dtype_name(to));
    c->cast[kind][tensor] = ir_append(g, &cast);
}

static void move_node(caster *c, const ir_node *old, ir_dtype to)
{
    ir_graph *g = c->graph;
    ir_node node = *old;
    for (int32_t i = 0; i < old->n_in; i++) {
        ir_dtype dtype = input_type(c, old, i, to);
        const int32_t kind = dtype == IR_F32 ? TO_WIDE : TO_NARROW;
        if (dtype == c->dtype[old->in[i]])
            continue;
        add_cast(c, old->in[i], kind); /* of parameters: others have it */
        node.in[i] = c->cast[kind][old->in[i]];
    }
    const int32_t v = g->nodes.n;
    fs_push(g->tables, &g->nodes, node);
    *fs_map_at(&g->node_names, node.name) = v;
    for (int32_t i = 0; i < node.n_out; i++) {
        g->tensors.at[node.out[i]].producer = v;
        g->tensors.at[node.out[i]].dtype = c->dtype[node.out[i]];
    }
}

/* Casts behind what a node makes, but for parameters. */
static void add_casts(caster *c, const ir_node *node)
{
    for (int32_t i = 0; i < node->n_out; i++) {
        add_cast(c, node->out[i], TO_WIDE);
        if (c->graph->tensors.at[node->out[i]].role != IR_PARAM)
            add_cast(c, node->out[i], TO_NARROW);
    }
}

static void string_anew(caster *c)
{
    ir_graph *g = c->graph;
    const int32_t n = g->nodes.n, last = g->forward;
    const ir_phase phase = g->phase;
    const ir_node *old =
        fs_memdup(c->arena, g->nodes.at, (size_t)n * sizeof *old);
    int32_t *place = fs_new(c->arena, int32_t, n);
    g->nodes.n = 0;
    for (int32_t v = 0; v < n && g->err.status == FS_OK; v++) {
        ir_node node = old[v];
        if (node.forward >= 0)
            node.forward = place[node.forward];
        move_node(c, &node, c->inputs[v]);
        place[v] = g->nodes.n - 1;
        add_casts(c, &node);
    }
    g->phase = phase;
    g->forward = last < 0 ? -1 : place[last];
}

/* Where somebody insists on float, it is the cast that he gets. */
static void redirect_wide(caster *c, int32_t n_tensors)
{
    ir_graph *g = c->graph;
    for (int32_t t = 0; t < n_tensors; t++) {
        int32_t *next = &g->tensors.at[t].next;
        if (*next >= 0 && c->dtype[*next] == c->narrow && c->dtype[t] == IR_F32)
            *next = c->cast[TO_WIDE][*next];
    }
    if (g->loss >= 0 && c->dtype[g->loss] == c->narrow)
        g->loss = c->cast[TO_WIDE][g->loss];
}

void ir_rewrite_precision(ir_graph *graph, ir_dtype narrow)
{
    if (narrow == IR_F32 || graph->err.status != FS_OK || !graph->nodes.n)
        return;
    const int32_t n = graph->tensors.n;
    caster c = {.graph = graph, .arena = fs_arena_create(), .narrow = narrow};
    c.dtype = fs_new(c.arena, ir_dtype, n);
    c.weak = fs_new(c.arena, bool, n);
    c.inputs = fs_new(c.arena, ir_dtype, graph->nodes.n);
    for (int32_t k = 0; k < N_CASTS; k++) {
        c.wanted[k] = fs_new(c.arena, bool, n);
        c.cast[k] = fs_new(c.arena, int32_t, n);
        memset(c.cast[k], -1, (size_t)n * sizeof *c.cast[k]);
    }
    for (int32_t v = 0; v < graph->nodes.n; v++)
        choose_type(&c, v);
    want_wide(&c);
    string_anew(&c);
    if (graph->err.status == FS_OK)
        redirect_wide(&c, n);
    ir_move_shared(graph, NULL); /* casts of what copies share */
    fs_arena_destroy(c.arena);
}
