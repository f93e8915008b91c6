/* Along which axis a tensor holds the samples. */
#include "config.h"
#include "ir/samples.h"

#include "tests/tap.h"
#include "zoo/zoo.h"

#include <stdlib.h>

static ir_graph *graph;
static int32_t *axes;

static ir_shape shape(int64_t a, int64_t b, int64_t c)
{
    return ir_shape_make(3, (int64_t[]){a, b, c});
}

static void says(int32_t tensor, int32_t wanted, const char *fact)
{
    tap_equal_int(tensor < 0 ? -9 : axes[tensor], wanted, "%s", fact);
}

static void test_ops(void)
{
    static const int32_t swap[] = {1, 0, 2};
    ir_graph *g = graph = ir_graph_create("axes");
    int32_t x = ir_input(g, "x", IR_F32, shape(4, 3, 2), 0);
    int32_t whole = ir_input(g, "whole", IR_F32, shape(4, 3, 2), -1);
    int32_t w = ir_parameter(g, "w", IR_F32, shape(1, 3, 2), (ir_init){0});
    int32_t scaled = ir_binary(g, IR_OP_mul, x, w);
    int32_t turned = ir_transpose(g, scaled, swap);
    int32_t flat = ir_reshape(g, x, ir_shape_make(2, (int64_t[]){12, 2}));
    int32_t sum = ir_reduce_sum(g, x, 1u << 0, false);
    int32_t features = ir_reduce_sum(g, x, 1u << 1, false);
    int32_t centred = ir_binary(g, IR_OP_sub, x, sum);
    int32_t joined = ir_binary(g, IR_OP_add, x, whole);
    int32_t crossed = ir_binary(
        g, IR_OP_add, ir_reshape(g, x, shape(4, 3, 2)),
        ir_parameter(g, "each", IR_F32, shape(4, 3, 2), (ir_init){0}));
    int32_t parts[] = {
        ir_broadcast_to(
            g, ir_reshape(g, ir_reduce_sum(g, w, 2, true), shape(1, 1, 2)),
            shape(4, 1, 2)),
        x};
    int32_t begun = ir_concat(g, parts, 2, 1);
    FS_ASSERT(g->err.status == FS_OK);
    axes = ir_sample_axes(g, g->arena);
    says(x, 0, "an input says it");
    says(whole, IR_SAMPLES_MIXED, "one without an axis is the whole batch's");
    says(w, IR_SAMPLES_NONE, "a parameter is the same for all");
    says(scaled, 0, "what is put to each sample leaves them in place");
    says(turned, 1, "a transpose moves the axis");
    says(flat, 0, "rows of a sample may become an axis with it");
    says(sum, IR_SAMPLES_MIXED, "a sum over samples is none's");
    says(features, 0, "a sum within a sample is its own");
    says(centred, IR_SAMPLES_MIXED, "nor is what such a sum is put to");
    says(joined, IR_SAMPLES_MIXED, "nor what is put to the whole batch's");
    says(crossed, IR_SAMPLES_MIXED,
         "a parameter with another row for each sample counts them");
    says(begun, 0, "what is put before each is the same for all");
    ir_graph_destroy(g);
}

static void test_network(const char *spec)
{
    const zoo_options options = {.samples = 2, .infer = true};
    fs_err err = {0};
    ir_graph *g;
    if (zoo_build_with(spec, &options, &err, &g) != FS_OK) {
        tap_ok(false, "%s: %s", spec, err.text);
        return;
    }
    const int32_t *axis = ir_sample_axes(g, g->arena);
    bool along = g->outputs.n > 0;
    for (int32_t i = 0; i < g->outputs.n; i++)
        along &= axis[g->outputs.at[i]] == 0;
    tap_ok(g->loss < 0 && along,
           "%s: %d outputs, each sample's rows its own, and no loss", spec,
           g->outputs.n);
    bool carried = false;
    for (int32_t t = 0; t < g->tensors.n; t++)
        carried |= g->tensors.at[t].next >= 0;
    tap_ok(!carried, "%s: no statistic moves", spec);
    ir_graph_destroy(g);
}

int main(void)
{
    static const char *const networks[] = {
        "zoo:gpt,layers=1,hidden=8,heads=2,vocab=16,seq=4",
        "zoo:llama,layers=1,hidden=8,heads=2,vocab=16,seq=4",
        "zoo:bert,layers=1,hidden=8,heads=2,vocab=16,seq=4",
        "zoo:t5,layers=1,hidden=8,heads=2,vocab=16",
        "zoo:vit,layers=1",
        "zoo:lstm,vocab=16",
        "zoo:gru,vocab=16",
        "zoo:mlp",
        "zoo:resnet,depth=18,size=32,width=8",
        "zoo:vgg,size=32",
        "zoo:unet,depth=1,width=4,size=8",
        "zoo:insightface,depth=18,width=4,classes=10",
        "zoo:wide_deep,rows=100",
        "zoo:dlrm,rows=100"};
    test_ops();
    for (size_t i = 0; i < sizeof networks / sizeof *networks; i++)
        test_network(networks[i]);
    return tap_done();
}
