/* The networks of exec_equal_test and their training steps. */
#include "config.h"

#include "equal.h"

#include "ir/narrow_states.h"
#include "ir/rewrite.h"
#include "zoo/zoo.h"

#include <string.h>

/* ---- in double precision ---- */

typedef struct widening {
    const ir_graph *from;
    ir_graph *to;
    int32_t *tensor; /* [tensors of from] */
} widening;

/* A copy: what the data lie in is destroyed. */
static void *widened_data(const ir_tensor *t, fs_arena *arena)
{
    const int64_t n = ir_shape_count(&t->shape);
    if (t->dtype != IR_F32)
        return fs_memdup(arena, t->data,
                         (size_t)(n * ir_dtype_bytes(t->dtype)));
    double *data = fs_new(arena, double, n);
    for (int64_t i = 0; i < n; i++)
        data[i] = ((const float *)t->data)[i];
    return data;
}

/* Where the node says of which type its result is. */
static int32_t dtype_attr(ir_op_kind op)
{
    if (op == IR_OP_input || op == IR_OP_variable || op == IR_OP_constant)
        return 9;
    if (op == IR_OP_label_weight)
        return 3;
    return op == IR_OP_one_hot ? 2 : op == IR_OP_cast ? 0 : -1;
}

static void widen_tensor(const widening *w, const ir_tensor *t, int32_t to)
{
    ir_tensor *new = &w->to->tensors.at[to];
    new->role = t->role;
    new->init = t->init;
    new->batch_axis = t->batch_axis;
    if (t->data)
        new->data = widened_data(t, w->to->arena);
}

static bool widen_node(const widening *w, const ir_node *old)
{
    ir_node node = *old;
    const int32_t attr = dtype_attr(old->op);
    if (attr >= 0 && node.i[attr] == IR_F32)
        node.i[attr] = IR_F64;
    for (int32_t i = 0; i < node.n_in; i++)
        node.in[i] = w->tensor[old->in[i]];
    const int32_t id = ir_graph_add(w->to, &node);
    if (id < 0)
        return false;
    for (int32_t k = 0; k < old->n_out; k++) {
        int32_t to = w->to->nodes.at[id].out[k];
        widen_tensor(w, &w->from->tensors.at[old->out[k]], to);
        if (old->op == IR_OP_fill || old->op == IR_OP_random)
            to = ir_cast(w->to, to, IR_F64);
        w->tensor[old->out[k]] = to;
    }
    return true;
}

/* The same network in F64 where it is in F32; `g` is destroyed. */
static ir_graph *widen(ir_graph *g, fs_err *err)
{
    ir_graph *to = ir_graph_create(g->name);
    widening w = {g, to, fs_new(to->arena, int32_t, g->tensors.n)};
    bool good = true;
    for (int32_t v = 0; v < g->nodes.n && good; v++)
        good = widen_node(&w, &g->nodes.at[v]);
    for (int32_t t = 0; t < g->tensors.n && good; t++)
        if (g->tensors.at[t].next >= 0)
            to->tensors.at[w.tensor[t]].next = w.tensor[g->tensors.at[t].next];
    if (good) {
        to->loss = w.tensor[g->loss];
        to->batch = g->batch;
    } else {
        fs_fail(err, FS_INVALID, "in F64: %s", to->err.text);
        ir_graph_destroy(to);
        to = NULL;
    }
    ir_graph_destroy(g);
    return to;
}

/* ---- forward ---- */

ir_graph *equal_forward(const equal_case *c, int32_t samples, fs_err *err)
{
    ir_graph *g = NULL;
    if (c->model) {
        if (zoo_build(c->model, samples, err, &g) != FS_OK)
            return NULL;
    } else {
        g = ir_graph_create("random");
        if (c->each)
            equal_draw_each(c, samples, g);
        else
            equal_draw_ops(c, samples, g);
        if (g->err.status != FS_OK) {
            fs_fail(err, FS_INVALID, "random ops: %s", g->err.text);
            ir_graph_destroy(g);
            return NULL;
        }
    }
    g->batch = samples;
    if (c->rewritten) {
        const ir_rewrite_options usual = ir_rewrite_usual();
        ir_rewrite(g, &usual);
    }
    if (c->narrow != IR_F32)
        ir_rewrite_precision(g, c->narrow);
    return c->wide ? widen(g, err) : g;
}

/* ---- training ---- */

static bool has_op(const ir_graph *g, ir_op_kind op)
{
    bool found = false;
    for (int32_t v = 0; v < g->nodes.n; v++)
        found |= g->nodes.at[v].op == op;
    return found;
}

static uint64_t ops_in(const ir_graph *g)
{
    static const struct {
        ir_op_kind op;
        equal_feature feature;
    } known[] = {
        {IR_OP_dropout, EQUAL_HAS_dropout},
        {IR_OP_batch_norm, EQUAL_HAS_batch_norm},
        {IR_OP_attention, EQUAL_HAS_attention},
        {IR_OP_conv, EQUAL_HAS_conv},
        {IR_OP_top_k, EQUAL_HAS_experts},
        {IR_OP_chain, EQUAL_HAS_chained},
    };
    uint64_t found = 0;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (has_op(g, known[k].op))
            found |= (uint64_t)1 << known[k].feature;
    return found;
}

/* What the loss is a mean of, where that can be told. */
static void find_terms(const equal_case *c, ir_graph *g,
                       ir_train_options *options, uint64_t *features)
{
    fs_err err = {0};
    ir_loss_form form;
    ir_graph *whole = equal_forward(c, c->samples * c->micro_batches, &err);
    if (!whole)
        return;
    if (ir_loss_find_form(whole, g, c->micro_batches, &err, &form) == FS_OK)
        options->terms = form.terms;
    for (int32_t k = 0; k < options->terms.n; k++)
        if (options->terms.at[k].reduction == IR_LOSS_QUOTIENT)
            *features |= (uint64_t)1 << EQUAL_HAS_quotient;
    ir_graph_destroy(whole);
}

/* Half of the nodes or fewer, of a large network some: a regular expression of
 * their names. */
static const char *draw_set(const equal_case *c, const ir_graph *g)
{
    const uint64_t seed = fs_mix(c->seed + 6), most = 100;
    const uint64_t usual = seed % 2 ? 50 : 15;
    const uint64_t fits = 100 * most / ((uint64_t)g->nodes.n + 1) + 1;
    const uint64_t share = usual < fits ? usual : fits;
    fs_text text = {.arena = g->arena};
    int32_t n = 0;
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const char *name = g->nodes.at[v].name;
        if (fs_hash_text(seed, name) % 100 < share)
            fs_text_add(&text, "%s%s", n++ ? "|" : "^(", name);
    }
    return n ? fs_printf(g->arena, "%s)$", text.at) : NULL;
}

static ir_train_options train_options(const equal_case *c)
{
    ir_train_options o = ir_train_defaults();
    o.optimizer = c->optimizer;
    o.lr = c->optimizer == IR_SGD || c->optimizer == IR_MOMENTUM ? 0.05 : 0.003;
    o.lr *= c->batch_norms ? 0.1 : 1;
    o.micro_batches = c->micro_batches;
    o.clip_norm = c->clipped ? 0.1 : 0;
    o.compress = c->compress;
    if (c->narrow == IR_F16)
        o.loss_scale = (ir_loss_scale){1024, true, 2};
    return o;
}

static ir_graph *train_with(const equal_case *c, fs_err *err,
                            uint64_t *features, const char **about)
{
    ir_graph *g = equal_forward(c, c->samples, err);
    *about = "";
    if (!g)
        return NULL;
    ir_train_options options = train_options(c);
    options.about = about;
    options.recompute =
        c->recompute == equal_any_set ? draw_set(c, g) : c->recompute;
    find_terms(c, g, &options, features);
    g->batch = (int64_t)c->samples * c->micro_batches;
    if (ir_train(g, &options, err) != FS_OK) {
        ir_graph_destroy(g);
        return NULL;
    }
    if (c->chained) {
        const ir_rewrite_options usual = ir_rewrite_usual();
        ir_rewrite_step(g, &usual);
    }
    if (c->narrow_states && ir_narrow_states(g, IR_BF16) > 0)
        *features |= (uint64_t)1 << EQUAL_HAS_narrow_states;
    *features |= ops_in(g);
    return g;
}

/* What finds nothing to do in this network is refused: then without. */
static bool drop_refused(const char *about, equal_case *c)
{
    const bool recompute = c->recompute && strcmp(about, "recompute") == 0;
    const bool compress =
        c->compress.kind != IR_COMPRESS_NONE && strcmp(about, "compress") == 0;
    if (recompute)
        c->recompute = NULL;
    if (compress)
        c->compress.kind = IR_COMPRESS_NONE;
    return recompute || compress;
}

static void note_feature(uint64_t *features, equal_feature feature, bool has)
{
    *features |= (uint64_t)has << feature;
}

ir_graph *equal_graph(const equal_case *c, fs_err *err, uint64_t *features)
{
    equal_case with = *c;
    const char *about;
    ir_graph *g = train_with(&with, err, features, &about);
    while (!g && drop_refused(about, &with))
        g = train_with(&with, err, features, &about);
    note_feature(features, EQUAL_HAS_recompute, g && with.recompute);
    note_feature(features, EQUAL_HAS_any_set,
                 g && with.recompute == equal_any_set);
    note_feature(features, EQUAL_HAS_compress,
                 g && with.compress.kind != IR_COMPRESS_NONE);
    return g;
}
