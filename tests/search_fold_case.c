#include "config.h"
#include "search_fold_case.h"

#include "base/hash.h"
#include "base/text.h"
#include "ir/rewrite.h"
#include "ir/train.h"
#include "zoo/zoo.h"

#include <string.h>

static int64_t below(uint64_t *rng, int64_t n)
{
    return fs_rand_below(rng, n);
}

static const char *one_of(uint64_t *rng, const char *const *list, int64_t n)
{
    return list[below(rng, n)];
}
#define ONE_OF(rng, ...)                                                       \
    one_of(rng, (const char *const[]){__VA_ARGS__},                            \
           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* Enough for most to be folded (lay_out.c, MUCH): three of each stage's are
 * kept, or four of many stages of one. */
static int draw_layers(uint64_t *rng, int32_t stages)
{
    if (stages > 8)
        return stages + (int)below(rng, 3);
    if (stages > 3)
        return 3 + (int)below(rng, 10);
    return stages * (8 - stages + (int)below(rng, 4));
}

static const char *draw_model(uint64_t *rng, int32_t stages, fs_arena *arena)
{
    const int layers = draw_layers(rng, stages);
    const int hidden = 32 << below(rng, 2);
    const int heads = 2 << below(rng, 2);
    const int seq = 16 << below(rng, 2);
    switch (below(rng, 11)) {
    case 0:
    case 1:
        return fs_printf(arena,
                         "zoo:gpt,layers=%d,hidden=%d,heads=%d,vocab=%d,seq=%d",
                         layers, hidden, heads, 64 << below(rng, 5), seq);
    case 2:
        return fs_printf(
            arena, "zoo:bert,layers=%d,hidden=%d,heads=%d,vocab=96,seq=%d",
            layers, hidden, heads, seq);
    case 3:
    case 4:
        return fs_printf(arena,
                         "zoo:llama,layers=%d,hidden=%d,heads=4,kv_heads=2,ffn="
                         "%d,vocab=128,seq=%d",
                         layers, hidden, 2 * hidden, seq);
    case 5:
        return fs_printf(arena,
                         "zoo:t5,layers=%d,hidden=%d,heads=2,head=16,ffn=%d,"
                         "vocab=64,seq=16,target=16",
                         stages < 3 ? 8 : 4, hidden, 2 * hidden);
    case 6:
        return fs_printf(arena,
                         "zoo:vit,layers=%d,hidden=%d,heads=%d,ffn=%d,patch=8,"
                         "size=32",
                         layers, hidden, heads, 2 * hidden);
    case 7:
        return fs_printf(arena,
                         "zoo:moe,layers=%d,hidden=%d,heads=2,vocab=64,seq=16,"
                         "experts=4,every=%d",
                         8, hidden, 1 + (int)below(rng, 2));
    case 8:
        return ONE_OF(rng, "zoo:resnet,depth=34,width=8,classes=8,size=32",
                      "zoo:resnet,depth=101,width=8,classes=8,size=32");
    case 9:
        return fs_printf(arena, "zoo:unet,depth=%d,width=8,size=32",
                         2 + (int)below(rng, 2));
    default:
        return fs_printf(arena, "zoo:mlp,in=32,hidden=%d,layers=%d,classes=8",
                         hidden, layers + 2);
    }
}

static int32_t draw_divisor(uint64_t *rng, int32_t n, int32_t most)
{
    int32_t d;
    do
        d = 1 + (int32_t)below(rng, n < most ? n : most);
    while (n % d);
    return d;
}

static ir_mesh draw_mesh(uint64_t *rng, int32_t devices, int32_t axes)
{
    ir_mesh mesh = {0};
    while (devices > 1) {
        int32_t d = mesh.n + 1 == axes ? devices : 1;
        while (d == 1)
            d = draw_divisor(rng, devices, devices);
        mesh.dim[mesh.n++] = d;
        devices /= d;
    }
    return mesh;
}

static void draw_place(uint64_t *rng, fs_arena *arena, fold_case *c)
{
    static const struct {
        int32_t nodes, per;
    } sizes[] = {{1, 2}, {1, 4}, {1, 4}, {1, 8}, {2, 4}, {2, 8}, {4, 2}, {8, 1},
                 {1, 3}, {1, 6}, {2, 3}, {3, 4}, {6, 4}, {2, 6}, {4, 4}};
    const size_t k = (size_t)below(rng, sizeof sizes / sizeof *sizes);
    const int32_t devices = sizes[k].nodes * sizes[k].per;
    c->cluster = fs_printf(
        arena, "%dx%d:%s", (int)sizes[k].nodes, (int)sizes[k].per,
        ONE_OF(rng, "cpu", "a100-sxm4-80g", "h100-sxm5-80g", "l4", "l40s"));
    c->stages = draw_divisor(rng, devices, FOLD_MOST_STAGES);
    c->axes = 1 + (int32_t)below(rng, devices / c->stages > 8 ? 2 : 3);
    c->mesh = draw_mesh(rng, devices / c->stages, c->axes);
}

/* What a recipe says of a mesh of one axis. */
static const char *draw_recipe(uint64_t *rng, fs_arena *arena,
                               const fold_case *c)
{
    const int d = c->mesh.dim[0];
    const char *way = ONE_OF(rng, "dp=%d", "tp=%d", "dp=%d,zero=1",
                             "dp=%d,zero=3", "tp=%d,seq-parallel=1");
    return fs_printf(arena, "%s=%d%s,pp=%d,micro-batches=%d",
                     way[0] == 'd' ? "dp" : "tp", d, way + 5, (int)c->stages,
                     (int)c->m);
}

fold_case fold_case_draw(uint64_t seed, fs_arena *arena)
{
    uint64_t rng = fs_mix(seed);
    fold_case c = {.seed = seed};
    draw_place(&rng, arena, &c);
    c.model = draw_model(&rng, c.stages, arena);
    const bool blocks = !strstr(c.model, "unet") && !strstr(c.model, "mlp");
    const bool heads = blocks && !strstr(c.model, "resnet");
    c.m = 1 << below(&rng, 4);
    c.samples = 4 << below(&rng, 2);
    c.precision = ONE_OF(&rng, "fp32", "fp32", "bf16", "fp16");
    c.recompute = ONE_OF(&rng, "", "", "cheap");
    if (heads)
        c.recompute = ONE_OF(&rng, "", "", "block", "selective", "cheap");
    c.schedule =
        ONE_OF(&rng, "1f1b", "1f1b", "gpipe", "zb-h1", "zb-h2", "dynamic");
    c.clips = below(&rng, 3) == 0;
    c.cut = c.stages > 1 && below(&rng, 3) == 0;
    c.interleave = 1;
    if (c.mesh.n == 1 && below(&rng, 3) == 0) {
        c.recipe = draw_recipe(&rng, arena, &c);
    } else if (c.stages > 1 && c.stages <= 4 && below(&rng, 6) == 0) {
        c.interleave = 2;
        c.schedule = "interleaved";
        c.m = 2 * c.stages;
        c.cut = false;
    }
    /* Small enough for limits that bind. */
    const int64_t size = ir_mesh_size(&c.mesh);
    if (below(&rng, 2) && size <= 4 && c.mesh.n < 3 && heads)
        c.share = 0.3 + 0.75 * fs_rand_unit(&rng);
    return c;
}

const char *fold_case_text(const fold_case *c, fs_arena *arena)
{
    fs_text mesh = {.arena = arena};
    fs_text_add(&mesh, "%s", "");
    for (int32_t a = 0; a < c->mesh.n; a++)
        fs_text_add(&mesh, "%s%d", a ? "x" : "", (int)c->mesh.dim[a]);
    return fs_printf(arena,
                     "seed %llu: %s on %s, %d x (%s), m %d of %d, %s, %s%s%s%s"
                     "%s, share %.2f",
                     (unsigned long long)c->seed, c->model, c->cluster,
                     (int)c->stages, mesh.at, (int)c->m, (int)c->samples,
                     c->schedule, c->precision, c->clips ? ", clipped" : "",
                     *c->recompute ? ", recompute " : "", c->recompute,
                     c->cut              ? ", cut at random"
                     : c->interleave > 1 ? ", interleaved"
                     : c->recipe         ? fs_printf(arena, ", %s", c->recipe)
                                         : "",
                     c->share);
}

fs_status fold_case_build(const fold_case *c, fs_err *err, ir_graph **out)
{
    ir_train_options options = ir_train_defaults();
    ir_rewrite_options rewrites;
    ir_dtype narrow;
    FS_TRY(zoo_build(c->model, c->samples, err, out));
    FS_TRY(ir_rewrite_parse("usual", err, &rewrites));
    ir_rewrite(*out, &rewrites);
    FS_TRY(ir_precision_parse(c->precision, err, &narrow));
    ir_rewrite_precision(*out, narrow);
    FS_TRY(ir_loss_scale_parse("", narrow, err, &options.loss_scale));
    options.optimizer = IR_ADAMW;
    options.micro_batches = c->m;
    options.clip_norm = c->clips ? 1 : 0;
    options.recompute = c->recompute;
    FS_TRY(ir_train(*out, &options, err));
    ir_rewrite_step(*out, &rewrites);
    (*out)->batch = c->samples * c->m;
    return FS_OK;
}
