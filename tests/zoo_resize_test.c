/* Training graphs of networks with many layers for several micro-batch counts:
 * one made of another one, and of few layers, is the one that is made in full,
 * to the last attribute, name and byte of a constant. */
#include "config.h"

#include "ir/chain.h"
#include "ir/op_util.h"
#include "ir/recompute.h"
#include "ir/resize.h"
#include "ir/rewrite.h"
#include "ir/train.h"

#include "zoo_build.h"

enum { BATCH = 16 };

static const char *const specs[] = {
    "gpt,layers=40,hidden=16,heads=2,vocab=11,seq=6",
    "llama,layers=40,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=6",
    "llama,layers=40,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=8,"
    "experts=4,active=2,group=4",
    "moe,layers=80,hidden=16,heads=2,vocab=11,seq=8,experts=4,active=2",
    "bert,layers=40,hidden=16,heads=2,vocab=11,seq=6",
    "t5,layers=40,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=5",
    "vit,layers=40,hidden=16,heads=2,ffn=24,patch=4,size=8,classes=5",
};

typedef struct how {
    const char *recompute, *loss_scale;
    ir_dtype narrow;
    double clip_norm;
} how;

static const how hows[] = {
    {"", "", IR_F32, 0},
    {"block", "", IR_BF16, 0},
    {"selective", "dynamic", IR_F16, 1},
};

static ir_graph *network_of(const char *spec, const how *h, int32_t m)
{
    ir_rewrite_options usual = ir_rewrite_usual();
    ir_graph *g = zoo_built(spec, BATCH / m);
    ir_rewrite(g, &usual);
    if (h->narrow != IR_F32)
        ir_rewrite_precision(g, h->narrow);
    return g;
}

static bool train(ir_graph *g, const ir_graph *whole, const how *h, int32_t m)
{
    ir_train_options o = ir_train_defaults();
    ir_rewrite_options usual = ir_rewrite_usual();
    ir_loss_form form = {0};
    fs_err err = {0};
    o.recompute = h->recompute;
    o.clip_norm = h->clip_norm;
    o.micro_batches = m;
    bool fine = m == 1 || ir_loss_find_form(whole, g, m, &err, &form) == FS_OK;
    o.terms = form.terms;
    g->batch = BATCH;
    fine = fine &&
           ir_loss_scale_parse(h->loss_scale, h->narrow, &err, &o.loss_scale) ==
               FS_OK &&
           ir_train(g, &o, &err) == FS_OK;
    if (!fine)
        printf("# %s\n", err.text);
    ir_rewrite_step(g, &usual);
    return fine;
}

/* ---- the same in everything ---- */

static bool same_node(const ir_node *a, const ir_node *b)
{
    bool same = a->op == b->op && a->phase == b->phase && a->n_in == b->n_in &&
                a->n_out == b->n_out && a->forward == b->forward &&
                memcmp(a->i, b->i, sizeof a->i) == 0 &&
                memcmp(a->f, b->f, sizeof a->f) == 0 && !a->chain == !b->chain;
    for (int32_t k = 0; same && k < a->n_in; k++)
        same = a->in[k] == b->in[k];
    for (int32_t k = 0; same && k < a->n_out; k++)
        same = a->out[k] == b->out[k];
    if (!same || !a->chain)
        return same;
    same = a->chain->n_steps == b->chain->n_steps &&
           memcmp(a->chain->out, b->chain->out, sizeof a->chain->out) == 0;
    for (int32_t k = 0; same && k < a->chain->n_steps; k++)
        same = same_node(&a->chain->step[k], &b->chain->step[k]);
    return same;
}

static bool same_data(const ir_tensor *a, const ir_tensor *b)
{
    const int64_t bytes = ir_shape_bytes(&a->shape, a->dtype);
    return !a->data == !b->data &&
           (!a->data || memcmp(a->data, b->data, (size_t)bytes) == 0);
}

static bool same_tensor(const ir_tensor *a, const ir_tensor *b)
{
    return a->dtype == b->dtype && a->role == b->role &&
           a->batch_axis == b->batch_axis && a->producer == b->producer &&
           a->slot == b->slot && a->next == b->next &&
           a->again_of == b->again_of && a->init.kind == b->init.kind &&
           a->init.mean == b->init.mean && a->init.spread == b->init.spread &&
           a->init.seed == b->init.seed &&
           ir_shape_equal(&a->shape, &b->shape) && same_data(a, b);
}

static bool same_graph(const ir_graph *g, const ir_graph *h)
{
    bool same = g->nodes.n == h->nodes.n && g->tensors.n == h->tensors.n &&
                g->loss == h->loss && g->batch == h->batch &&
                g->micro_batches == h->micro_batches &&
                g->loss_share == h->loss_share && g->digest == h->digest &&
                g->outputs.n == h->outputs.n;
    for (int32_t k = 0; same && k < g->outputs.n; k++)
        same = g->outputs.at[k] == h->outputs.at[k];
    for (int32_t v = 0; same && v < g->nodes.n; v++) {
        const ir_node *a = &g->nodes.at[v], *b = &h->nodes.at[v];
        same = same_node(a, b) && strcmp(a->name, b->name) == 0;
        if (!same)
            printf("# node %d: %s, and %s\n", (int)v, a->name, b->name);
    }
    for (int32_t t = 0; same && t < g->tensors.n; t++) {
        const ir_tensor *a = &g->tensors.at[t], *b = &h->tensors.at[t];
        same = same_tensor(a, b) && strcmp(a->name, b->name) == 0 &&
               ir_graph_find(g, b->name) == t;
        if (!same)
            printf("# tensor %d: %s, and %s\n", (int)t, a->name, b->name);
    }
    return same;
}

/* What is known of its layers is what is found. */
static bool same_layers(const ir_graph *g)
{
    fs_arena *arena = fs_arena_create();
    const size_t bytes = (size_t)g->nodes.n * sizeof(int32_t);
    ir_layers found;
    ir_find_layers(g, arena, &found);
    const bool same = g->layers && g->layers->graph == g &&
                      g->layers->runs.n == found.runs.n &&
                      g->layers->covered == found.covered &&
                      memcmp(g->layers->run, found.run, bytes) == 0 &&
                      memcmp(g->layers->copy, found.copy, bytes) == 0 &&
                      memcmp(g->layers->position, found.position, bytes) == 0;
    fs_arena_destroy(arena);
    return same;
}

/* ---- one network ---- */

typedef struct deep {
    const char *spec;
    const how *how;
    ir_graph *graph, *few;       /* trained, for so many micro-batches */
    ir_graph *whole, *whole_few; /* the network of the whole batch */
    fs_arena *arena;
    ir_sizes sizes;
} deep;

static bool open_deep(const char *spec, const how *h, int32_t m, deep *d)
{
    *d = (deep){.spec = spec, .how = h, .arena = fs_arena_create()};
    d->graph = network_of(spec, h, m);
    d->whole = network_of(spec, h, 1);
    d->few = ir_shorten(d->graph);
    d->whole_few = ir_shorten(d->whole);
    return d->few && train(d->few, d->whole_few, h, m) &&
           train(d->graph, d->whole, h, m) &&
           ir_sizes_open(d->graph, d->few, d->arena, &d->sizes);
}

static void close_deep(deep *d)
{
    ir_graph_destroy(d->few);
    ir_graph_destroy(d->whole_few);
    ir_graph_destroy(d->whole);
    ir_graph_destroy(d->graph);
    fs_arena_destroy(d->arena);
}

static bool try_size(const deep *d, int32_t m)
{
    ir_graph *full = network_of(d->spec, d->how, m);
    ir_graph *network = network_of(d->spec, d->how, m);
    ir_graph *few = ir_shorten(network), *made = NULL;
    bool same = train(full, d->whole, d->how, m) && few &&
                train(few, d->whole_few, d->how, m);
    if (same && ir_sizes_alike(d->few, few))
        made = ir_resize(&d->sizes, few);
    same = made && same_graph(made, full) && same_layers(made);
    if (made) {
        ir_graph_join(made, few);
        ir_graph_join(made, network);
        same &= same_graph(made, full);
    } else {
        ir_graph_destroy(few);
        ir_graph_destroy(network);
    }
    ir_graph_destroy(made);
    ir_graph_destroy(full);
    return same;
}

/* A loss over what counts is divided once per step where there are several
 * micro-batches, which one alone does in each. */
static void test_sizes(void)
{
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (size_t k = 0; k < sizeof hows / sizeof *hows; k++) {
            deep d;
            const int32_t base = strncmp(specs[i], "bert", 4) == 0 ? 2 : 1;
            const bool same = open_deep(specs[i], &hows[k], base, &d) &&
                              try_size(&d, 2 * base) && try_size(&d, 8);
            tap_ok(same, "%.20s, recompute '%s': of few layers as in full",
                   specs[i], hows[k].recompute);
            close_deep(&d);
        }
}

/* ---- what is not one ---- */

static void test_others(void)
{
    ir_graph *flat = zoo_built("resnet,depth=18,width=4,classes=5,size=32", 4);
    tap_ok(!ir_shorten(flat), "without layers nothing is left out");
    ir_graph_destroy(flat);
    deep a = {0}, b = {0};
    fs_arena *arena = fs_arena_create();
    ir_sizes sizes;
    const bool open = open_deep(specs[0], &hows[0], 1, &a) &&
                      open_deep(specs[0], &hows[1], 1, &b);
    tap_ok(open && !ir_sizes_alike(a.few, b.few),
           "what computes again is no other size of what does not");
    tap_ok(open && !ir_sizes_open(a.graph, b.few, arena, &sizes),
           "nor is it that with few layers");
    fs_arena_destroy(arena);
    close_deep(&a);
    close_deep(&b);
}

int main(void)
{
    test_sizes();
    test_others();
    return tap_done();
}
