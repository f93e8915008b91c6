#include "config.h"
#include "zoo/experts.h"

/* One layer. Shapes: G groups of S tokens, E experts of C places, k choices. */
typedef struct layer {
    const zoo_transformer *t;
    const zoo_experts *e;
    int64_t block, groups;
    int32_t x;      /* (G, S, H) */
    int32_t prob;   /* (G, S, E) */
    int32_t gate;   /* (G, S, k): of the chosen */
    int32_t choice; /* (G, k S, E): one-hot, all first choices first */
} layer;

zoo_experts zoo_experts_of(const int64_t *value)
{
    return (zoo_experts){.n = value[0],
                         .active = value[1],
                         .capacity = value[2],
                         .group = value[3]};
}

bool zoo_experts_open(zoo_experts *e, const zoo_transformer *t)
{
    if (e->n == 1)
        return true;
    if (e->active > e->n) {
        ir_graph_fail(t->g, "active=%lld of experts=%lld", (long long)e->active,
                      (long long)e->n);
        return false;
    }
    if (t->samples > ((int64_t)1 << 50) / t->seq) {
        ir_graph_fail(t->g, "%lld samples are too many", (long long)t->samples);
        return false;
    }
    if (e->group == 0)
        e->group = t->seq;
    if (t->seq % e->group != 0) {
        ir_graph_fail(t->g, "seq=%lld does not divide into groups of %lld",
                      (long long)t->seq, (long long)e->group);
        return false;
    }
    const int64_t share = 100 * e->n;
    e->places = (e->active * e->group * e->capacity + share - 1) / share;
    if (e->places > e->group)
        e->places = e->group;
    return true;
}

static ir_shape shape_of(int32_t rank, int64_t a, int64_t b, int64_t c,
                         int64_t d)
{
    return ir_shape_make(rank, (int64_t[]){a, b, c, d});
}

static int32_t one_hot(ir_graph *g, int32_t ids, int64_t n)
{
    ir_node node = {.op = IR_OP_one_hot, .n_in = 1, .in = {ids}, .f = {0, 1}};
    node.i[0] = ir_shape_of(g, ids).rank;
    node.i[1] = n;
    node.i[2] = IR_F32;
    return ir_append(g, &node);
}

/* Probabilities, the k best experts of each token and their gates, which add
 * up to 1 when there are several. */
static void route(layer *l)
{
    ir_graph *g = l->t->g;
    const int64_t n = l->e->n, k = l->e->active, s = l->e->group;
    static const int32_t choices_first[] = {0, 2, 1, 3};
    zoo_linear_spec router = {
        .part = zoo_block(l->t->stack, l->block, "moe/router"),
        .in = l->t->hidden,
        .out = n,
        .weight = zoo_normal(l->t->spread),
        .unbiased = true,
    };
    l->prob = ir_softmax(g, zoo_linear(g, l->x, &router));
    ir_node best = {
        .op = IR_OP_top_k, .n_in = 1, .in = {l->prob}, .i = {2, k, 1}};
    int32_t id = ir_graph_add(g, &best);
    if (id < 0)
        return;
    const int32_t ids = g->nodes.at[id].out[1];
    l->gate = g->nodes.at[id].out[0];
    if (k > 1)
        l->gate = ir_binary(g, IR_OP_div, l->gate,
                            ir_reduce_sum(g, l->gate, 1u << 2, true));
    int32_t chosen = ir_transpose(g, one_hot(g, ids, n), choices_first);
    l->choice = ir_reshape(g, chosen, shape_of(3, l->groups, k * s, n, 1));
}

/* (G, k S, C): one-hot place of each choice at its expert, all zero beyond
 * the capacity. Earlier tokens come first, first choices before second. */
static int32_t place(const layer *l)
{
    ir_graph *g = l->t->g;
    ir_node before = {
        .op = IR_OP_cum_sum, .n_in = 1, .in = {l->choice}, .i = {1, 1}};
    int32_t queue = ir_append(g, &before);
    queue = ir_binary(g, IR_OP_mul, queue, l->choice);
    queue = ir_reduce_sum(g, queue, 1u << 2, false);
    return one_hot(g, ir_cast(g, queue, IR_I64), l->e->places);
}

/* (G, k S, E) and (G, k S, C) -> (G, S, E C): which token lies where. */
static int32_t combine_choices(const layer *l, int32_t choice, int32_t places)
{
    ir_graph *g = l->t->g;
    const int64_t n = l->e->n, k = l->e->active, s = l->e->group,
                  c = l->e->places;
    choice = ir_reshape(g, choice, shape_of(4, l->groups, k * s, n, 1));
    places = ir_reshape(g, places, shape_of(4, l->groups, k * s, 1, c));
    int32_t both = ir_binary(g, IR_OP_mul, choice, places);
    if (k > 1) {
        both = ir_reshape(g, both, shape_of(4, l->groups, k, s, n * c));
        both = ir_reduce_sum(g, both, 1u << 1, false);
    }
    return ir_reshape(g, both, shape_of(3, l->groups, s, n * c, 1));
}

/* The gates, laid out as the choices are. */
static int32_t weighted_choices(const layer *l)
{
    ir_graph *g = l->t->g;
    static const int32_t choices_first[] = {0, 2, 1};
    int32_t gate = ir_transpose(g, l->gate, choices_first);
    gate = ir_reshape(g, gate,
                      shape_of(3, l->groups, l->e->active * l->e->group, 1, 1));
    return ir_binary(g, IR_OP_mul, l->choice, gate);
}

/* x (E, G C, in) by weights (E, out, in) */
static int32_t of_each(const layer *l, int32_t x, const char *name, int64_t in,
                       int64_t out)
{
    ir_graph *g = l->t->g;
    zoo_part part = zoo_block(l->t->stack, l->block, name);
    const bool last = out == l->t->hidden;
    zoo_scope(g, part);
    int32_t w =
        zoo_parameter(g, part, "weight", shape_of(3, l->e->n, out, in, 1),
                      zoo_normal(last ? l->t->project : l->t->spread));
    return ir_matmul(g, x, w, false, true);
}

/* (E, G C, H) -> (E, G C, H) */
static int32_t run_experts(const layer *l, int32_t x)
{
    ir_graph *g = l->t->g;
    const int64_t h = l->t->hidden, f = l->t->ffn;
    int32_t y = of_each(l, x, l->t->gated ? "moe/gate" : "moe/fc", h, f);
    y = ir_unary(g, l->t->activation, y);
    if (l->t->gated)
        y = ir_binary(g, IR_OP_mul, y, of_each(l, x, "moe/fc", h, f));
    return of_each(l, y, "moe/proj", f, h);
}

static void add_balance(const layer *l, zoo_experts *e)
{
    ir_graph *g = l->t->g;
    int32_t first = ir_slice(g, l->choice, 1, 0, e->group);
    int32_t share = ir_reduce_mean(g, first, 1u << 1, false);
    int32_t prob = ir_reduce_mean(g, l->prob, 1u << 1, false);
    int32_t sum =
        ir_reduce_sum(g, ir_binary(g, IR_OP_mul, share, prob), 3, false);
    sum = ir_scale(g, sum, (double)e->n / (double)l->groups, 0);
    fs_push(g->arena, &e->balance, sum);
}

int32_t zoo_expert_layer(const zoo_transformer *t, zoo_experts *e, int32_t x,
                         int64_t block)
{
    ir_graph *g = t->g;
    static const int32_t experts_first[] = {1, 0, 2, 3};
    const ir_shape shape = ir_shape_of(g, x);
    const int64_t h = t->hidden, groups = t->samples * (t->seq / e->group);
    const int64_t n = e->n, c = e->places;
    layer l = {t, e, block, groups, -1, -1, -1, -1};
    zoo_scope(g, zoo_block(t->stack, block, "moe"));
    l.x = ir_reshape(g, x, shape_of(3, groups, e->group, h, 1));
    route(&l);
    zoo_scope(g, zoo_block(t->stack, block, "moe"));
    int32_t places = place(&l);
    int32_t dispatch = combine_choices(&l, l.choice, places);
    int32_t combine = combine_choices(&l, weighted_choices(&l), places);
    int32_t y = ir_matmul(g, dispatch, l.x, true, false);
    y = ir_reshape(g, y, shape_of(4, groups, n, c, h));
    y = ir_transpose(g, y, experts_first);
    y = run_experts(&l, ir_reshape(g, y, shape_of(3, n, groups * c, h, 1)));
    zoo_scope(g, zoo_block(t->stack, block, "moe"));
    y = ir_reshape(g, y, shape_of(4, n, groups, c, h));
    y = ir_transpose(g, y, experts_first);
    y = ir_reshape(g, y, shape_of(3, groups, n * c, h, 1));
    y = ir_matmul(g, combine, y, false, false);
    add_balance(&l, e);
    return ir_reshape(g, y, shape);
}

int32_t zoo_expert_block(const zoo_transformer *t, zoo_experts *e, int32_t x,
                         int64_t block)
{
    zoo_part attn = zoo_block(t->stack, block, "attn");
    int32_t y = zoo_norm(t, x, zoo_block(t->stack, block, "ln1"));
    x = ir_binary(t->g, IR_OP_add, x, zoo_attention(t, y, -1, attn));
    y = zoo_norm(t, x, zoo_block(t->stack, block, "ln2"));
    return ir_binary(t->g, IR_OP_add, x, zoo_expert_layer(t, e, y, block));
}

int32_t zoo_add_balance(ir_graph *g, const zoo_experts *e, int32_t loss)
{
    int32_t sum = -1;
    if (e->balance.n == 0)
        return loss;
    for (int32_t i = 0; i < e->balance.n; i++)
        sum = i == 0 ? e->balance.at[0]
                     : ir_binary(g, IR_OP_add, sum, e->balance.at[i]);
    return ir_binary(g, IR_OP_add, loss, ir_scale(g, sum, 0.01, 0));
}
