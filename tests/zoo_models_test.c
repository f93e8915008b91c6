#include "config.h"

#include "ir/train.h"

#include "zoo_build.h"

static void test_sound(const char *spec, int64_t parameters)
{
    fs_err err = {0};
    ir_graph *g = zoo_built(spec, 6);
    tap_ok(g != NULL, "%s: builds", spec);
    if (!g)
        return;
    tap_equal_int(zoo_parameters(g), parameters,
                  "%s: as many parameters as the formula says", spec);
    tap_ok(ir_graph_check(g, &err) == FS_OK,
           "%s: the graph holds its "
           "invariants",
           spec);
    tap_equal_int(g->tensors.at[g->loss].shape.rank, 0,
                  "%s: its loss is a scalar", spec);
    tap_equal_int(g->batch, 6, "%s: knows its batch", spec);
    ir_train_options options = ir_train_defaults();
    options.optimizer = IR_ADAMW;
    tap_ok(ir_train(g, &options, &err) == FS_OK &&
               ir_graph_check(g, &err) == FS_OK,
           "%s: has a training step %s", spec, err.text);
    int32_t updated = 0, variables = 0;
    for (int32_t i = 0; i < g->tensors.n; i++)
        if (g->tensors.at[i].role == IR_PARAM) {
            variables++;
            updated += g->tensors.at[i].next >= 0;
        }
    tap_equal_int(updated, variables, "%s: every parameter is updated", spec);
    ir_graph_destroy(g);
}

static int64_t gpt_parameters(int64_t l, int64_t h, int64_t v, int64_t t)
{
    return v * h + t * h + l * (12 * h * h + 13 * h) + 2 * h;
}

static int64_t mlp_parameters(int64_t in, int64_t h, int64_t l, int64_t c)
{
    return in * h + h + (l - 1) * (h * h + h) + h * c + c;
}

static void test_shapes(void)
{
    ir_graph *g =
        zoo_built("zoo:gpt,layers=2,hidden=24,heads=3,vocab=50,seq=7", 5);
    char text[160];
    int32_t ids = ir_graph_find(g, "ids");
    tap_equal_text(ir_shape_text(text, &g->tensors.at[ids].shape), "5x7",
                   "gpt: ids are samples x seq");
    tap_equal_int(g->tensors.at[ids].batch_axis, 0,
                  "gpt: ids are cut by "
                  "samples");
    int32_t w = ir_graph_find(g, "blocks.1.mlp.fc.weight");
    tap_equal_text(ir_shape_text(text, &g->tensors.at[w].shape), "96x24",
                   "gpt: the feed-forward is four times as wide");
    int32_t n = 0;
    for (int32_t i = 0; i < g->nodes.n; i++)
        n += strncmp(g->nodes.at[i].name, "/blocks.1/", 10) == 0;
    tap_ok(n > 20, "gpt: nodes of a block stand under its scope (%d)", n);
    int32_t proj = ir_graph_find(g, "blocks.0.attn.proj.weight");
    tap_near(g->tensors.at[proj].init.spread, 0.01, 1e-12,
             "gpt: projections start 1 / sqrt(2 layers) smaller");
    ir_graph_destroy(g);
}

static void test_large(void)
{
    ir_graph *g =
        zoo_built("zoo:gpt,layers=96,hidden=12288,heads=96,vocab=50257,"
                  "seq=2048",
                  1);
    tap_equal_int(zoo_parameters(g), gpt_parameters(96, 12288, 50257, 2048),
                  "gpt: a model of 175 G parameters builds");
    ir_graph_destroy(g);
}

static void test_refusals(void)
{
    fs_err err = {0};
    ir_graph *g = NULL;
    tap_ok(zoo_build("zoo:mlp", 0, &err, &g) == FS_INVALID && !g,
           "a batch of no samples is refused");
    err = (fs_err){0};
    tap_ok(zoo_build("zoo:mlp,in=2147483647", INT64_MAX / 2, &err, &g) ==
                   FS_INVALID &&
               !g,
           "shapes that overflow are refused: %s", err.text);
    err = (fs_err){0};
    tap_ok(zoo_build("zoo:t5,active=1", 1, &err, &g) == FS_INVALID && !g &&
               strstr(err.text, "active=1 has no effect with experts=1"),
           "a key of experts without experts is refused: %s", err.text);
}

static void test_names(void)
{
    static const char *const names[][2] = {
        {"zoo:gpt,layers=1", "gpt"},
        {"zoo:gpt2", "gpt2"},
        {"zoo:gpt2,vocab=100,layers=1", "gpt2,vocab=100,layers=1"}};
    for (int i = 0; i < 3; i++) {
        ir_graph *g = zoo_built(names[i][0], 1);
        tap_ok(strcmp(g->name, names[i][1]) == 0, "%s is called %s",
               names[i][0], g->name);
        ir_graph_destroy(g);
    }
}

/* Constants of the same name have the same bytes; `here`: at one place. */
static int32_t equal_constants(const ir_graph *a, const ir_graph *b, bool here)
{
    int32_t n = 0;
    for (int32_t i = 0; i < a->tensors.n; i++) {
        const ir_tensor *x = &a->tensors.at[i];
        const int32_t k = ir_graph_find(b, x->name);
        if (x->role != IR_CONST || k < 0)
            continue;
        const int64_t bytes =
            ir_shape_count(&x->shape) * ir_dtype_bytes(x->dtype);
        const void *other = b->tensors.at[k].data;
        n += memcmp(x->data, other, (size_t)bytes) == 0 &&
             (!here || x->data == other || bytes <= 4);
    }
    return n;
}

static int32_t count_constants(const ir_graph *g)
{
    int32_t n = 0;
    for (int32_t i = 0; i < g->tensors.n; i++)
        n += g->tensors.at[i].role == IR_CONST;
    return n;
}

/* Graphs of two numbers of samples, and one that shares with none. */
static void test_shared(const char *spec)
{
    ir_tables tables = ir_tables_in(fs_arena_create());
    ir_graph *of[2] = {NULL}, *alone = zoo_built(spec, 2);
    fs_err err = {0};
    for (int32_t k = 0; k < 2; k++)
        FS_ASSERT(zoo_build_with(spec, &(zoo_options){1 + k, &tables, false},
                                 &err, &of[k]) == FS_OK);
    const int32_t n = count_constants(alone);
    tap_ok(n > 0 && tables.all.n > 0, "%s has %d constants", spec, n);
    tap_equal_int(equal_constants(of[0], of[1], true), n,
                  "graphs of several numbers of samples share them");
    tap_equal_int(equal_constants(of[0], alone, false), n,
                  "which are those of a graph that shares none");
    for (int32_t k = 0; k < 2; k++)
        ir_graph_destroy(of[k]);
    ir_graph_destroy(alone);
    fs_arena_destroy(tables.arena);
}

int main(void)
{
    test_sound("zoo:gpt", gpt_parameters(4, 128, 256, 128));
    test_sound("zoo:gpt,layers=1,hidden=12,heads=3,vocab=11,seq=5",
               gpt_parameters(1, 12, 11, 5));
    test_sound("zoo:mlp", mlp_parameters(64, 128, 2, 10));
    test_sound("zoo:mlp,in=3,hidden=5,layers=1,classes=2",
               mlp_parameters(3, 5, 1, 2));
    test_shapes();
    test_large();
    test_refusals();
    test_names();
    test_shared("zoo:llama,layers=2,hidden=32,heads=4,seq=8,vocab=50");
    test_shared("zoo:gpt,layers=1,hidden=24,heads=3,vocab=50,seq=7");
    return tap_done();
}
