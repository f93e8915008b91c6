#include "config.h"
#include "zoo/transformer.h"

#include <math.h>
#include <string.h>

enum { MOST_ANGLES = 1 << 26 }; /* elements of a table of them */

bool zoo_transformer_open(zoo_transformer *t)
{
    if (t->head == 0 && t->hidden % t->heads != 0) {
        ir_graph_fail(t->g, "hidden=%lld does not divide into heads=%lld",
                      (long long)t->hidden, (long long)t->heads);
        return false;
    }
    if (t->kv_heads == 0)
        t->kv_heads = t->heads;
    if (t->heads % t->kv_heads != 0) {
        ir_graph_fail(t->g, "heads=%lld does not divide into kv_heads=%lld",
                      (long long)t->heads, (long long)t->kv_heads);
        return false;
    }
    if (t->head == 0)
        t->head = t->hidden / t->heads;
    if (t->ffn == 0)
        t->ffn = 4 * t->hidden;
    if (t->spread == 0)
        t->spread = 0.02;
    if (t->project == 0)
        t->project = t->spread;
    if (t->epsilon == 0)
        t->epsilon = 1e-5;
    if (t->scale == 0)
        t->scale = 1 / sqrt((double)t->head);
    t->bias = -1;
    return true;
}

static const void *make_causal(const void *ctx, fs_arena *arena)
{
    const int64_t seq = ((const zoo_transformer *)ctx)->seq;
    unsigned char *mask = fs_alloc(arena, (size_t)seq, (size_t)seq);
    for (int64_t i = 0; i < seq; i++)
        memset(mask + i * seq + i + 1, 1, (size_t)(seq - i - 1));
    return mask;
}

void zoo_transformer_causal(zoo_transformer *t)
{
    const char *name = fs_printf(t->g->arena, "causal %lld", (long long)t->seq);
    float *low = fs_new(t->g->arena, float, 1);
    *low = -INFINITY;
    t->mask = ir_table_of(t->g->shared, name, make_causal, t);
    t->minus_infinity = low;
}

typedef struct angles {
    const zoo_transformer *t;
    double base;
} angles;

/* Cosines, then sines. */
static const void *make_angles(const void *ctx, fs_arena *arena)
{
    const angles *of = ctx;
    const zoo_transformer *t = of->t;
    const int64_t n = t->seq * t->head, half = t->head / 2;
    float *cosine = fs_new(arena, float, 2 * n);
    float *sine = cosine + n;
    for (int64_t i = 0; i < half; i++) {
        const double speed = pow(of->base, -(double)i / (double)half);
        for (int64_t k = 0; k < t->seq; k++) {
            const int64_t at = k * t->head + i;
            cosine[at] = cosine[at + half] = (float)cos((double)k * speed);
            sine[at] = sine[at + half] = (float)sin((double)k * speed);
        }
    }
    return cosine;
}

void zoo_transformer_rotate(zoo_transformer *t, double base)
{
    const int64_t n = t->seq * t->head;
    if (t->head % 2 != 0 || n > MOST_ANGLES) {
        ir_graph_fail(t->g,
                      "a head of %lld does not divide into pairs, or seq=%lld "
                      "of them are too many",
                      (long long)t->head, (long long)t->seq);
        return;
    }
    const char *name = fs_printf(t->g->arena, "angles %lld %lld %.17g",
                                 (long long)t->seq, (long long)t->head, base);
    t->cosine =
        ir_table_of(t->g->shared, name, make_angles, &(angles){t, base});
    t->sine = t->cosine + n;
}

int32_t zoo_norm(const zoo_transformer *t, int32_t x, zoo_part part)
{
    ir_shape shape = zoo_vector(t->hidden);
    zoo_scope(t->g, part);
    int32_t gain = zoo_parameter(t->g, part, "weight", shape, zoo_constant(1));
    if (!t->rms) {
        int32_t bias = zoo_parameter(t->g, part, "bias", shape, (ir_init){0});
        return ir_layer_norm(t->g, x, gain, bias, t->epsilon);
    }
    ir_node node = {.op = IR_OP_layer_norm,
                    .n_in = 2,
                    .in = {x, gain},
                    .i = {1},
                    .f = {t->epsilon}};
    return ir_append(t->g, &node);
}

/* ---- attention ---- */

/* PART/name of the attention. */
static zoo_part within(const zoo_transformer *t, zoo_part part,
                       const char *name)
{
    part.name = fs_printf(t->g->arena, "%s/%s", part.name, name);
    return part;
}

/* (B, T, H) -> (B, heads, T, head) */
static int32_t split_heads(const zoo_transformer *t, int32_t x, int64_t heads)
{
    const ir_shape shape = ir_shape_of(t->g, x);
    int64_t dim[] = {t->samples, shape.dim[1], heads, t->head};
    static const int32_t perm[] = {0, 2, 1, 3};
    return ir_transpose(t->g, ir_reshape(t->g, x, ir_shape_make(4, dim)), perm);
}

static int32_t heads_of(const zoo_transformer *t, int32_t x, zoo_part part,
                        int64_t heads)
{
    zoo_linear_spec spec = {
        .part = part,
        .in = t->hidden,
        .out = heads * t->head,
        .weight = zoo_normal(t->spread),
        .unbiased = t->unbiased,
    };
    return split_heads(t, zoo_linear(t->g, x, &spec), heads);
}

static int32_t constant_here(const zoo_transformer *t, const char *name,
                             ir_shape shape, const float *data)
{
    return ir_constant(t->g, fs_printf(t->g->arena, "%s/%s", t->g->scope, name),
                       IR_F32, shape, data);
}

/* x cos + (-second half, first half) sin */
static int32_t rotate(const zoo_transformer *t, int32_t x)
{
    ir_graph *g = t->g;
    if (!t->cosine)
        return x;
    const int64_t half = t->head / 2;
    ir_shape shape = zoo_matrix(t->seq, t->head);
    int32_t cosine = constant_here(t, "cos", shape, t->cosine);
    int32_t sine = constant_here(t, "sin", shape, t->sine);
    int32_t turned[2] = {
        ir_scale(g, ir_slice(g, x, 3, half, half), -1, 0),
        ir_slice(g, x, 3, 0, half),
    };
    int32_t across = ir_concat(g, turned, 2, 3);
    return ir_binary(g, IR_OP_add, ir_binary(g, IR_OP_mul, x, cosine),
                     ir_binary(g, IR_OP_mul, across, sine));
}

/* (B, kv_heads, T, head) -> (B, heads, T, head) */
static int32_t repeat_heads(const zoo_transformer *t, int32_t x)
{
    const int64_t times = t->heads / t->kv_heads;
    if (times == 1)
        return x;
    const int64_t length = ir_shape_of(t->g, x).dim[2];
    int64_t one[] = {t->samples, t->kv_heads, 1, length, t->head};
    int64_t each[] = {t->samples, t->kv_heads, times, length, t->head};
    int64_t all[] = {t->samples, t->heads, length, t->head};
    x = ir_reshape(t->g, x, ir_shape_make(5, one));
    x = ir_broadcast_to(t->g, x, ir_shape_make(5, each));
    return ir_reshape(t->g, x, ir_shape_make(4, all));
}

static int32_t mask_scores(const zoo_transformer *t, int32_t scores)
{
    int64_t dim[] = {1, 1, t->seq, t->seq};
    if (!t->mask)
        return scores;
    int32_t mask =
        ir_constant(t->g, fs_printf(t->g->arena, "%s/mask", t->g->scope),
                    IR_BOOL, ir_shape_make(4, dim), t->mask);
    int32_t low = constant_here(t, "low", (ir_shape){0}, t->minus_infinity);
    return ir_where(t->g, mask, low, scores);
}

/* q, k, v (B, heads, .., head) -> (B, T, heads head) */
static int32_t attend(const zoo_transformer *t, const int32_t qkv[3],
                      bool to_itself)
{
    ir_graph *g = t->g;
    int32_t scores = ir_matmul(g, qkv[0], qkv[1], false, true);
    if (t->scale != 1)
        scores = ir_scale(g, scores, t->scale, 0);
    if (to_itself && t->bias >= 0)
        scores = ir_binary(g, IR_OP_add, scores, t->bias);
    if (to_itself)
        scores = mask_scores(t, scores);
    int32_t y = ir_matmul(g, ir_softmax(g, scores), qkv[2], false, false);
    static const int32_t perm[] = {0, 2, 1, 3};
    int64_t dim[] = {t->samples, ir_shape_of(g, y).dim[2], t->heads * t->head};
    return ir_reshape(g, ir_transpose(g, y, perm), ir_shape_make(3, dim));
}

/* Back onto the residual stream. */
static int32_t project(const zoo_transformer *t, int32_t x, zoo_part part,
                       int64_t in)
{
    zoo_linear_spec spec = {
        .part = part,
        .in = in,
        .out = t->hidden,
        .weight = zoo_normal(t->project),
        .unbiased = t->unbiased,
    };
    return zoo_linear(t->g, x, &spec);
}

int32_t zoo_attention(const zoo_transformer *t, int32_t x, int32_t memory,
                      zoo_part part)
{
    const bool to_itself = memory < 0;
    if (to_itself)
        memory = x;
    int32_t qkv[3];
    qkv[0] = heads_of(t, x, within(t, part, "q"), t->heads);
    if (to_itself)
        qkv[0] = rotate(t, qkv[0]);
    qkv[1] = heads_of(t, memory, within(t, part, "k"), t->kv_heads);
    if (to_itself)
        qkv[1] = rotate(t, qkv[1]);
    qkv[1] = repeat_heads(t, qkv[1]);
    qkv[2] = heads_of(t, memory, within(t, part, "v"), t->kv_heads);
    qkv[2] = repeat_heads(t, qkv[2]);
    zoo_scope(t->g, part);
    int32_t y = attend(t, qkv, to_itself);
    return project(t, y, within(t, part, "proj"), t->heads * t->head);
}

/* ---- feed-forward ---- */

int32_t zoo_feed_forward(const zoo_transformer *t, int32_t x, int64_t block)
{
    zoo_linear_spec spec = {
        .part = zoo_block(t->stack, block, t->gated ? "mlp/gate" : "mlp/fc"),
        .in = t->hidden,
        .out = t->ffn,
        .weight = zoo_normal(t->spread),
        .unbiased = t->unbiased,
    };
    int32_t y = zoo_linear(t->g, x, &spec);
    y = ir_unary(t->g, t->activation, y);
    if (t->gated) {
        spec.part.name = "mlp/fc";
        y = ir_binary(t->g, IR_OP_mul, y, zoo_linear(t->g, x, &spec));
    }
    return project(t, y, zoo_block(t->stack, block, "mlp/proj"), t->ffn);
}

int32_t zoo_transformer_block(const zoo_transformer *t, int32_t x,
                              int64_t block)
{
    zoo_part attn = zoo_block(t->stack, block, "attn");
    int32_t y = zoo_norm(t, x, zoo_block(t->stack, block, "ln1"));
    x = ir_binary(t->g, IR_OP_add, x, zoo_attention(t, y, -1, attn));
    y = zoo_norm(t, x, zoo_block(t->stack, block, "ln2"));
    return ir_binary(t->g, IR_OP_add, x, zoo_feed_forward(t, y, block));
}
