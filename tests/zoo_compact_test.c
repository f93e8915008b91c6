/* Compact graphs: a network with few layers, some of which stand for several,
 * is known as the one in full with layers left out, node by node, or it is not
 * taken for it. */
#include "config.h"

#include "ir/compact.h"
#include "ir/recompute.h"
#include "ir/rewrite.h"
#include "ir/train.h"

#include "zoo_build.h"

enum { BATCH = 4, LAYERS = 40, FEW = 11 };

static const char *const specs[] = {
    "gpt,layers=%d,hidden=16,heads=2,vocab=11,seq=6",
    "llama,layers=%d,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=6",
    "bert,layers=%d,hidden=16,heads=2,vocab=11,seq=6",
    "vit,layers=%d,hidden=16,heads=2,ffn=24,patch=4,size=8,classes=5",
    "mlp,layers=%d",
};

static ir_graph *trained(const char *spec, int32_t layers,
                         const char *recompute)
{
    char text[200];
    ir_train_options o = ir_train_defaults();
    ir_rewrite_options usual = ir_rewrite_usual();
    fs_err err = {0};
    snprintf(text, sizeof text, spec, (int)layers);
    ir_graph *g = zoo_built(text, BATCH);
    ir_rewrite(g, &usual);
    g->batch = BATCH;
    o.recompute = recompute;
    o.clip_norm = 1;
    if (ir_train(g, &o, &err) != FS_OK)
        printf("# %s\n", err.text);
    ir_rewrite_step(g, &usual);
    return g;
}

/* Two groups, of which the middle ones stand for what is left out. */
static bool count(ir_graph *g, int32_t left_out)
{
    int32_t times[FEW];
    const ir_layers *layers = ir_graph_layers(g);
    if (layers->runs.n != 1 || layers->runs.at[0].copies < 9)
        return false;
    for (int32_t c = 0; c < FEW; c++)
        times[c] = c == 2 ? 1 + left_out / 2
                   : c == 6 ? 1 + left_out - left_out / 2
                            : 1;
    ir_compact_make(g, times);
    return true;
}

/* Each node stands for as many as it says, all of its kind. */
static bool stands_for(const ir_graph *whole, const ir_graph *few,
                       const ir_folded *folded)
{
    fs_arena *arena = fs_arena_create();
    int32_t *n = fs_new(arena, int32_t, few->nodes.n);
    bool same = whole->nodes.n == few->meant;
    for (int32_t v = 0; v < whole->nodes.n; v++) {
        const ir_node *node = &few->nodes.at[folded->rep[v]];
        n[folded->rep[v]]++;
        same &= node->op == whole->nodes.at[v].op &&
                node->phase == whole->nodes.at[v].phase;
    }
    for (int32_t v = 0; v < few->nodes.n; v++)
        same &= n[v] == ir_times(&few->nodes.at[v]);
    fs_arena_destroy(arena);
    return same;
}

static void test_network(const char *spec, const char *recompute)
{
    fs_arena *arena = fs_arena_create();
    ir_graph *whole = trained(spec, LAYERS, recompute),
             *few = trained(spec, FEW, recompute),
             *other = trained(spec, FEW, recompute[0] ? "" : "block");
    ir_folded folded;
    tap_ok(count(few, LAYERS - FEW) &&
               ir_compact_open(whole, few, arena, &folded) &&
               stands_for(whole, few, &folded),
           "%.10s, recompute '%s': %d layers stand for %d", spec, recompute,
           FEW, LAYERS);
    ir_graph *more = ir_compact_copy(few, arena);
    ir_compact_count(more, 0, 4, 2);
    tap_ok(!ir_compact_open(whole, more, arena, &folded) &&
               ir_compact_open(whole, few, arena, &folded),
           "%.10s: and no more for so many, though another copy may", spec);
    ir_compact_count(more, 0, 6, ir_copy_times(few->layers, 0, 6) - 1);
    tap_ok(ir_compact_open(whole, more, arena, &folded) &&
               stands_for(whole, more, &folded),
           "%.10s: which of them stands for how many may be other", spec);
    tap_ok(count(other, LAYERS - FEW) &&
               (strncmp(spec, "mlp", 3) == 0 ||
                !ir_compact_open(whole, other, arena, &folded)),
           "%.10s: those that compute otherwise do not", spec);
    ir_graph_destroy(other);
    ir_graph_destroy(few);
    ir_graph_destroy(whole);
    fs_arena_destroy(arena);
}

int main(void)
{
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
        for (int32_t k = 0; k < 2; k++)
            test_network(specs[i], k ? "block" : "");
    return tap_done();
}
