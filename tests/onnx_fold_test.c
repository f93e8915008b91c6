/* Layers of imported networks. */
#include "config.h"

#include "ir/precision.h"
#include "ir/rewrite.h"
#include "ir/train.h"

#include "fold_check.h"
#include "onnx_imported.h"

static bool train(ir_graph *g, bool narrow, const char *recompute)
{
    fs_err err = {0};
    ir_train_options o = ir_train_defaults();
    const ir_rewrite_options rewrites = ir_rewrite_usual();
    o.optimizer = IR_ADAM;
    o.clip_norm = 1;
    o.recompute = recompute;
    ir_rewrite_precision(g, narrow ? IR_F16 : IR_F32);
    bool good = ir_loss_scale_parse("", narrow ? IR_F16 : IR_F32, &err,
                                    &o.loss_scale) == FS_OK &&
                ir_train(g, &o, &err) == FS_OK;
    if (good)
        ir_rewrite_step(g, &rewrites);
    else
        printf("# %s\n", err.text);
    return good;
}

static void test_layers(const ir_graph *g, const char *what, uint64_t *seed)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_layers l;
    ir_folded f;
    ir_find_layers(g, arena, &l);
    tap_equal_int(l.runs.n, 1, "%s: one run", what);
    if (l.runs.n == 1) {
        tap_equal_int(l.runs.at[0].copies, 4, "%s: all its layers", what);
        tap_ok(fold_layers_sound(&l) && fold_runs_exact(&l), "%s: exact", what);
        tap_ok(l.covered * 10 > g->nodes.n * 8, "%s: %d of %d nodes covered",
               what, (int)l.covered, (int)g->nodes.n);
        const int32_t three = 3;
        const bool *const *keep = fold_choose(&l, &three, seed, arena);
        tap_ok(ir_fold(&l, keep, arena, &err, &f) == FS_OK &&
                   ir_graph_check(f.graph, &err) == FS_OK &&
                   fold_maps_sound(&l, &f, keep),
               "%s: with three layers a legal graph %s", what, err.text);
        tap_equal_int(f.graph->nodes.n, g->nodes.n - l.runs.at[0].length,
                      "%s: without one layer's nodes", what);
    }
    fs_arena_destroy(arena);
}

int main(void)
{
    static const char *const models[] = {"gpt2_loss.small.op17.train.onnx",
                                         "gpt_bytes.batch4.onnx"};
    const char *top = getenv("FS_SRCDIR");
    uint64_t seed = tap_seed(3);
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        for (int how = 0; how < 3; how++) {
            char path[400], what[120];
            snprintf(path, sizeof path, "%s/datasets/models/%s",
                     top ? top : ".", models[m]);
            snprintf(what, sizeof what, "%s%s%s", models[m],
                     how & 1 ? ", fp16" : "", how & 2 ? ", recomputed" : "");
            imported in = import_batch(path, 0);
            tap_ok(in.graph && train(in.graph, how & 1, how & 2 ? "full" : ""),
                   "%s: trained %s", what, in.err.text);
            if (in.graph)
                test_layers(in.graph, what, &seed);
            drop(&in);
        }
    return tap_done();
}
