/* softmax(scale q k^T, masked) v as one op. A mask of bools that hides, one
 * that is added, and a constant causal one beside it are taken in; a second one
 * is not, as the op has room for one. */
#include "config.h"
#include "ir/rewrite_match.h"

#include <string.h>

/* A score so low that its exp is 0 beside any other. */
static const double lowest = -1e4;

/* Scores of masked elements; true when `tensor` is where(mask, fill, scores)
 * or where(mask, scores, fill). */
static bool match_masked(const ir_graph *g, int32_t tensor, ir_node *out,
                         int32_t *scores)
{
    const ir_node *node = ir_producer(g, tensor);
    if (node->op != IR_OP_where)
        return false;
    const bool hides = ir_match_scalar(g, node->in[1], &out->f[1]);
    if (!hides && !ir_match_scalar(g, node->in[2], &out->f[1]))
        return false;
    *scores = node->in[hides ? 2 : 1];
    out->in[out->n_in++] = node->in[0];
    out->i[2] = hides;
    return ir_shape_equal(&g->tensors.at[*scores].shape,
                          &g->tensors.at[tensor].shape);
}

/* Constants that were looked at. The layers of a network have one mask, which
 * may be long: it is read once. */
typedef struct seen_mask {
    const void *data;
    ir_shape shape;
    ir_dtype dtype;
    bool hides, causal;
} seen_mask;

typedef struct matching {
    ir_graph *g;
    fs_arena *scratch;
    FS_VEC(seen_mask) seen;
} matching;

/* Row `i` of a causal mask of `keys`: `shown` up to the query, then the other.
 * Long masks are read once per layer, so whole rows are compared; bytes that
 * mean true but are not 1 fall back to one by one. */
static bool is_causal_row(const unsigned char *row, int64_t i, int64_t keys,
                          bool hides, const unsigned char *pattern)
{
    if (i < keys && memcmp(row, pattern + (keys - 1 - i), (size_t)keys) == 0)
        return true;
    for (int64_t j = 0; j < keys; j++)
        if (((row[j] != 0) == hides) != (j > i))
            return false;
    return true;
}

/* Does the mask hide just the keys after each query? */
static bool is_causal_mask(const ir_tensor *t, bool hides)
{
    const unsigned char *data = t->data;
    const int32_t rank = t->shape.rank;
    const int64_t rows = t->shape.dim[rank - 2], keys = t->shape.dim[rank - 1];
    fs_arena *scratch = fs_arena_create();
    unsigned char *pattern = fs_new(scratch, unsigned char, 2 * keys);
    bool causal = true;
    memset(pattern + (hides ? keys : 0), 1, (size_t)keys);
    for (int64_t i = 0; causal && i < rows; i++)
        causal = is_causal_row(data + i * keys, i, keys, hides, pattern);
    fs_arena_destroy(scratch);
    return causal;
}

/* Does it add nothing to keys up to each query, and enough to hide them to
 * those after it? */
static bool is_causal_bias(const ir_tensor *t)
{
    const int32_t rank = t->shape.rank;
    const int64_t rows = t->shape.dim[rank - 2], keys = t->shape.dim[rank - 1];
    for (int64_t at = 0; at < rows * keys; at++) {
        float bias; /* data borrowed from a file need not be aligned */
        memcpy(&bias, (const char *)t->data + at * (int64_t)sizeof bias,
               sizeof bias);
        if (at % keys > at / keys ? !(bias <= lowest) : bias != 0)
            return false;
    }
    return true;
}

/* Is the tensor a constant that hides (a mask of bools: where it is `hides`)
 * just the keys after each query? */
static bool is_causal(matching *m, int32_t tensor, ir_dtype dtype, bool hides)
{
    const ir_tensor *t = &m->g->tensors.at[tensor];
    const int32_t rank = t->shape.rank;
    if (ir_producer(m->g, tensor)->op != IR_OP_constant || !t->data ||
        t->dtype != dtype || rank < 2 ||
        ir_shape_count(&t->shape) !=
            t->shape.dim[rank - 2] * t->shape.dim[rank - 1])
        return false;
    for (int32_t i = 0; i < m->seen.n; i++) {
        const seen_mask *seen = &m->seen.at[i];
        if (seen->data == t->data && seen->dtype == dtype &&
            seen->hides == hides && ir_shape_equal(&seen->shape, &t->shape))
            return seen->causal;
    }
    const seen_mask seen = {t->data, t->shape, dtype, hides,
                            dtype == IR_BOOL ? is_causal_mask(t, hides)
                                             : is_causal_bias(t)};
    fs_push(m->scratch, &m->seen, seen);
    return seen.causal;
}

static bool is_transpose(const ir_node *node, const int64_t perm[4])
{
    if (node->op != IR_OP_transpose || node->i[0] != 4)
        return false;
    for (int32_t k = 0; k < 4; k++)
        if (node->i[1 + k] != perm[k])
            return false;
    return true;
}

/* Heads of k and v that are repeated for those of q: (B,G,..) -> (B,G,1,..) ->
 * (B,G,n,..) -> (B,G n,..). The tensor before, or itself. */
static int32_t before_repeat(const ir_graph *g, int32_t tensor)
{
    const ir_node *merge = ir_producer(g, tensor);
    if (merge->op != IR_OP_reshape)
        return tensor;
    const ir_node *stretch = ir_producer(g, merge->in[0]);
    if (stretch->op != IR_OP_broadcast_to)
        return tensor;
    const ir_node *open = ir_producer(g, stretch->in[0]);
    if (open->op != IR_OP_reshape)
        return tensor;
    const ir_shape *x = &g->tensors.at[open->in[0]].shape;
    const ir_shape *one = &g->tensors.at[open->out[0]].shape;
    const ir_shape *n = &g->tensors.at[stretch->out[0]].shape;
    const ir_shape *y = &g->tensors.at[tensor].shape;
    bool fits = x->rank == 4 && one->rank == 5 && n->rank == 5 &&
                y->rank == 4 && one->dim[2] == 1 &&
                y->dim[1] == n->dim[1] * n->dim[2];
    for (int32_t k = 0; fits && k < 4; k++)
        fits = x->dim[k] == one->dim[k < 2 ? k : k + 1] &&
               n->dim[k < 2 ? k : k + 1] == x->dim[k] &&
               (k == 1 || y->dim[k] == x->dim[k]);
    return fits ? open->in[0] : tensor;
}

/* The tensor before a factor, which goes into the scale. */
static int32_t before_factor(const ir_graph *g, int32_t tensor, ir_node *out)
{
    ir_affine a;
    if (!ir_match_affine(g, tensor, &a) || a.offset != 0)
        return tensor;
    out->f[0] *= a.factor;
    return a.x;
}

/* k of the product q k^T: as (B,G,S,D), or (B,G,D,S) with i[3] set. */
static int32_t match_keys(const ir_graph *g, const ir_node *product,
                          ir_node *out)
{
    static const int64_t swap[4] = {0, 1, 3, 2};
    int32_t k = before_factor(g, product->in[1], out);
    out->i[3] = product->i[1] == 0;
    if (out->i[3] && is_transpose(ir_producer(g, k), swap)) {
        k = before_factor(g, ir_producer(g, k)->in[0], out);
        out->i[3] = 0;
    }
    return k;
}

/* Fills in q, k and the scale from what is masked. */
static bool match_product(const ir_graph *g, int32_t scores, ir_node *out)
{
    out->f[0] = 1;
    const ir_node *product = ir_producer(g, before_factor(g, scores, out));
    if (product->op != IR_OP_matmul || product->n_in != 2 || product->i[0] != 0)
        return false;
    out->in[0] = before_factor(g, product->in[0], out);
    out->in[1] = match_keys(g, product, out);
    return true;
}

/* Takes in what is added to the scores; false when there is no room for it. */
static bool take_bias(matching *m, int32_t bias, ir_node *out)
{
    if (is_causal(m, bias, IR_F32, false)) {
        out->i[0] = 1;
        return true;
    }
    if (out->n_in == 4)
        return false;
    out->in[out->n_in++] = bias;
    return true;
}

enum { MOST_BIASES = 3 };

/* Scores with any number of biases on them, the causal ones constant. */
static bool match_scores(matching *m, int32_t scores, int32_t depth,
                         ir_node *out)
{
    const ir_graph *g = m->g;
    const ir_node *node = ir_producer(g, scores);
    if (match_product(g, scores, out))
        return true;
    for (int32_t k = 0; node->op == IR_OP_add && depth < MOST_BIASES && k < 2;
         k++) {
        ir_node with = *out;
        if (!ir_shape_equal(&g->tensors.at[node->in[k]].shape,
                            &g->tensors.at[scores].shape) ||
            !match_scores(m, node->in[k], depth + 1, &with) ||
            !take_bias(m, node->in[1 - k], &with))
            continue;
        *out = with;
        return true;
    }
    return false;
}

/* Heads are shared when k and v were repeated alike. */
static void share_heads(const ir_graph *g, ir_node *out)
{
    const int32_t k = before_repeat(g, out->in[1]);
    const int32_t v = before_repeat(g, out->in[2]);
    const ir_shape *q = &g->tensors.at[out->in[0]].shape;
    const ir_shape *a = &g->tensors.at[k].shape, *b = &g->tensors.at[v].shape;
    out->i[1] = 1;
    if (a->rank != 4 || b->rank != 4 || a->dim[1] != b->dim[1])
        return;
    out->in[1] = k;
    out->in[2] = v;
    out->i[1] = q->dim[1] / a->dim[1];
}

/* A mask of bools that hides just what comes later is an attribute. */
static void take_causal(matching *m, ir_node *out)
{
    if (out->n_in < 4 || out->f[1] > lowest ||
        !is_causal(m, out->in[3], IR_BOOL, out->i[2] != 0))
        return;
    out->n_in = 3;
    out->i[0] = 1;
    out->i[2] = 0;
    out->f[1] = 0;
}

static void rewrite_node(matching *m, int32_t v)
{
    ir_graph *g = m->g;
    const ir_node *node = &g->nodes.at[v];
    ir_node attention = {.op = IR_OP_attention, .n_in = 3};
    if (node->op != IR_OP_matmul || node->n_in != 2 || node->i[0] != 0 ||
        node->i[1] != 0 || g->tensors.at[node->out[0]].shape.rank != 4)
        return;
    const ir_node *softmax = ir_producer(g, node->in[0]);
    if (softmax->op != IR_OP_softmax)
        return;
    int32_t scores = softmax->in[0];
    if (ir_producer(g, scores)->op == IR_OP_where) {
        if (!match_masked(g, scores, &attention, &scores))
            return;
        take_causal(m, &attention);
    }
    if (!match_scores(m, scores, 0, &attention))
        return;
    attention.in[2] = node->in[1];
    share_heads(g, &attention);
    ir_graph_replace(g, v, &attention);
}

void ir_rewrite_attention(ir_graph *g)
{
    matching m = {.g = g, .scratch = fs_arena_create()};

    for (int32_t v = 0; v < g->nodes.n && g->err.status == FS_OK; v++)
        rewrite_node(&m, v);
    fs_arena_destroy(m.scratch);
}
