/* Layers of training graphs: found, and left out so that what remains is the
 * graph of the network with fewer layers. */
#include "config.h"

#include "ir/layers.h"
#include "ir/precision.h"
#include "ir/rewrite.h"
#include "ir/train.h"

#include "fold_check.h"
#include "zoo_build.h"

#include <stdlib.h>

enum { RUNS = 8 };

typedef struct how {
    const char *name, *recompute;
    ir_optimizer optimizer;
    ir_dtype narrow;
    double clip_norm;
    int32_t micro_batches;
    bool usual; /* rewrites, with chains of pointwise nodes */
    const char *compress;
} how;

static const how hows[] = {
    {"sgd", NULL, IR_SGD, IR_F32, 0, 1, false, "none"},
    {"adam", NULL, IR_ADAM, IR_F32, 0, 2, false, "none"},
    {"adam, clipped", NULL, IR_ADAM, IR_F32, 1, 1, false, "none"},
    {"lamb, all again", "full", IR_LAMB, IR_F32, 0, 1, false, "none"},
    {"momentum, attention again", "selective", IR_MOMENTUM, IR_F32, 0, 1, false,
     "none"},
    {"adam, bf16", NULL, IR_ADAM, IR_BF16, 0, 1, false, "none"},
    {"adam, fp16, clipped", NULL, IR_ADAM, IR_F16, 1, 2, false, "none"},
    {"adam, fp16, clipped, all again", "full", IR_ADAM, IR_F16, 1, 1, false,
     "none"},
    {"adam, clipped, rewritten", NULL, IR_ADAM, IR_F32, 1, 1, true, "none"},
    {"adam, fp16, rewritten, all again", "full", IR_ADAM, IR_F16, 0, 1, true,
     "none"},
    {"adam, powersgd", NULL, IR_ADAM, IR_F32, 0, 1, true, "powersgd:2"},
};

/* NULL, and said why, when it does not train. */
static ir_graph *trained(const char *spec, const how *h)
{
    fs_err err = {0};
    ir_train_options o = ir_train_defaults();
    ir_graph *g = zoo_built(spec, 4);
    if (!g)
        return NULL;
    o.optimizer = h->optimizer;
    o.recompute = h->recompute;
    o.clip_norm = h->clip_norm;
    o.micro_batches = h->micro_batches;
    const ir_rewrite_options rewrites =
        h->usual ? ir_rewrite_usual() : (ir_rewrite_options){.common = true};
    ir_rewrite(g, &rewrites);
    ir_rewrite_precision(g, h->narrow);
    if (ir_loss_scale_parse("", h->narrow, &err, &o.loss_scale) == FS_OK &&
        ir_compress_parse(h->compress, &err, &o.compress) == FS_OK &&
        ir_train(g, &o, &err) == FS_OK) {
        ir_rewrite_step(g, &rewrites);
        return g;
    }
    printf("# %s, %s: %s\n", spec, h->name, err.text);
    ir_graph_destroy(g);
    return NULL;
}

/* Two sizes of a network, of which the larger has more layers. */
typedef struct sizes {
    const char *large, *small;
    int32_t runs, least; /* percent of the large one's nodes covered */
    bool turned; /* a copy ends in the middle of a layer: sources that a layer
                    makes together come in another order */
} sizes;

static const sizes all_sizes[] = {
    {"gpt,layers=7,hidden=16,heads=2,vocab=11,seq=6",
     "gpt,layers=4,hidden=16,heads=2,vocab=11,seq=6", 1, 90, false},
    {"bert,layers=7,hidden=16,heads=2,vocab=11,seq=6",
     "bert,layers=4,hidden=16,heads=2,vocab=11,seq=6", 1, 80, false},
    {"llama,layers=7,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=6",
     "llama,layers=4,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=6", 1, 90,
     false},
    {"llama,layers=8,hidden=16,heads=4,kv_heads=1,ffn=24,vocab=11,seq=8,"
     "experts=4,active=2,group=4",
     "llama,layers=5,hidden=16,heads=4,kv_heads=1,ffn=24,vocab=11,seq=8,"
     "experts=4,active=2,group=4",
     1, 80, false},
    {"moe,layers=14,hidden=16,heads=2,vocab=11,seq=8,experts=4,active=2",
     "moe,layers=10,hidden=16,heads=2,vocab=11,seq=8,experts=4,active=2", 1, 75,
     false},
    {"t5,layers=8,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=5",
     "t5,layers=5,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=5", 2,
     75, false},
    {"vit,layers=7,hidden=16,heads=2,ffn=24,patch=4,size=8,classes=5",
     "vit,layers=3,hidden=16,heads=2,ffn=24,patch=4,size=8,classes=5", 1, 85,
     false},
    {"resnet,depth=152,width=2,classes=5,size=32",
     "resnet,depth=101,width=2,classes=5,size=32", 2, 75, false},
    {"resnet,depth=101,width=2,classes=5,size=32",
     "resnet,depth=50,width=2,classes=5,size=32", 2, 60, false},
    {"mlp,in=8,hidden=16,layers=9,classes=5",
     "mlp,in=8,hidden=16,layers=5,classes=5", 1, 60, true},
    {"lstm,layers=9,hidden=16,embedding=8,vocab=11,seq=6",
     "lstm,layers=5,hidden=16,embedding=8,vocab=11,seq=6", 1, 60, true},
    {"gru,layers=9,hidden=16,embedding=8,vocab=11,seq=6",
     "gru,layers=5,hidden=16,embedding=8,vocab=11,seq=6", 1, 60, true},
};

static void print_layers(const ir_layers *l)
{
    for (int32_t r = 0; r < l->runs.n; r++)
        printf("# run %d: %d copies of %d, %s\n", (int)r,
               (int)l->runs.at[r].copies, (int)l->runs.at[r].length,
               l->runs.at[r].scope);
}

/* The large graph with as many copies as the small one has, as the seed
 * chooses, is the small one. */
static void hold_against(const ir_layers *large, const ir_layers *small,
                         bool turned, const char *what, uint64_t *seed)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_folded folded;
    int32_t copies[RUNS] = {0};
    for (int32_t r = 0; r < small->runs.n; r++)
        copies[r] = small->runs.at[r].copies;
    const bool *const *keep = fold_choose(large, copies, seed, arena);
    const bool good = ir_fold(large, keep, arena, &err, &folded) == FS_OK;
    tap_ok(good && ir_graph_check(folded.graph, &err) == FS_OK,
           "%s: folded, a legal graph %s", what, err.text);
    if (good) {
        tap_ok(fold_maps_sound(large, &folded, keep), "%s: its maps", what);
        tap_ok(fold_same_unordered(folded.graph, small->graph) &&
                   (turned ||
                    fold_differs_at(folded.graph, small->graph, true) < 0),
               "%s: the graph of the smaller network", what);
    }
    fs_arena_destroy(arena);
}

static void test_sizes(const sizes *of, const how *h, uint64_t *seed)
{
    char what[300];
    ir_graph *large = trained(of->large, h), *small = trained(of->small, h);
    fs_arena *arena = fs_arena_create();
    ir_layers a, b;
    snprintf(what, sizeof what, "%s, %s", of->large, h->name);
    if (!large && h->recompute && strcmp(h->recompute, "selective") == 0)
        tap_skip("it has no attention", "%s", what);
    else
        tap_ok(large && small, "%s: built", what);
    if (large && small) {
        ir_find_layers(large, arena, &a);
        ir_find_layers(small, arena, &b);
        print_layers(&a);
        tap_ok(fold_layers_sound(&a) && fold_layers_sound(&b) &&
                   fold_runs_exact(&a),
               "%s: of each node where it belongs", what);
        tap_ok(a.runs.n == of->runs && b.runs.n == of->runs,
               "%s: %d runs, and %d of the smaller", what, (int)a.runs.n,
               (int)b.runs.n);
        tap_ok(100LL * a.covered >= (int64_t)of->least * large->nodes.n,
               "%s: %d of %d nodes covered", what, (int)a.covered,
               (int)large->nodes.n);
        if (a.runs.n == b.runs.n && a.runs.n <= RUNS)
            hold_against(&a, &b, of->turned, what, seed);
    }
    fs_arena_destroy(arena);
    ir_graph_destroy(large);
    ir_graph_destroy(small);
}

/* All copies kept: the graph itself. A first or last one not kept: refused. */
static void test_keep(void)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_layers l;
    ir_folded folded = {0};
    ir_graph *g = trained(all_sizes[0].small, &hows[2]);
    ir_find_layers(g, arena, &l);
    bool kept[] = {true, true, true, true};
    const bool *const keep[] = {kept};
    tap_equal_int(ir_fold(&l, keep, arena, &err, &folded), FS_OK, "all kept");
    tap_ok(fold_differs_at(folded.graph, g, true) < 0, "is the graph itself");
    for (int32_t c = 0; c < 4; c += 3) {
        ir_folded none = {0};
        kept[c] = false;
        tap_equal_int(ir_fold(&l, keep, arena, &err, &none), FS_INVALID,
                      "copy %d left out: %s", (int)c, err.text);
        tap_ok(!none.graph, "nothing is written");
        kept[c] = true;
    }
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

/* Networks as published: how much of them are layers, and a legal fold. */
static void test_preset(const zoo_preset *preset, uint64_t *seed)
{
    static const how usual = {
        "adam, clipped, rewritten", NULL, IR_ADAM, IR_F32, 1, 1, true, "none"};
    ir_graph *g = trained(preset->name, &usual);
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_layers l;
    ir_folded folded;
    int32_t most[RUNS];
    tap_ok(g, "%s: built", preset->name);
    if (g) {
        ir_find_layers(g, arena, &l);
        printf("# %s: %d nodes, %d of them in layers\n", preset->name,
               (int)g->nodes.n, (int)l.covered);
        print_layers(&l);
        for (int32_t r = 0; r < RUNS; r++)
            most[r] = 2 + (int32_t)fs_rand_below(seed, 3);
        const bool *const *keep =
            l.runs.n <= RUNS ? fold_choose(&l, most, seed, arena) : NULL;
        tap_ok(keep && fold_layers_sound(&l) && fold_runs_exact(&l) &&
                   ir_fold(&l, keep, arena, &err, &folded) == FS_OK &&
                   ir_graph_check(folded.graph, &err) == FS_OK &&
                   fold_maps_sound(&l, &folded, keep),
               "%s: its layers %s", preset->name, err.text);
    }
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

int main(void)
{
    uint64_t seed = tap_seed(5);
    for (size_t k = 0; k < sizeof all_sizes / sizeof *all_sizes; k++)
        for (size_t h = 0; h < sizeof hows / sizeof *hows; h++)
            test_sizes(&all_sizes[k], &hows[h], &seed);
    for (const zoo_preset *p = zoo_presets; p->name; p++)
        test_preset(p, &seed);
    test_keep();
    return tap_done();
}
