/* make_plain OPS FILE.onnx [SEED]: a network of OPS operators in which no run
 * of them is like another, for bench_search.c. Up to six branches of random
 * widths fork, go on and are added up again, as OneFlow's auto parallel or a
 * compiler would meet a whole network that has no layers; all operators are
 * needed for the last tensor. Weights are declared, not written. */
#include "config.h"

#include "base/hash.h"
#include "ir/build.h"
#include "onnx/export.h"

#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 4096, MOST_OPEN = 6 };

typedef struct plain {
    ir_graph *graph;
    uint64_t rng;
    int32_t open[MOST_OPEN], n_open; /* tensors that something must read */
    int32_t ops;
} plain;

static int64_t draw_width(plain *p)
{
    return 8 * (64 + fs_rand_below(&p->rng, 192));
}

static int32_t times_weight(plain *p, int32_t x, int64_t width)
{
    char name[32];
    snprintf(name, sizeof name, "layer%d.weight", p->ops++);
    const ir_shape shape = {2, {ir_shape_of(p->graph, x).dim[1], width}};
    const int32_t weight =
        ir_parameter(p->graph, name, IR_F32, shape,
                     (ir_init){.kind = IR_INIT_NORMAL, .spread = .02});
    return ir_matmul(p->graph, x, weight, false, false);
}

static int32_t next_of(plain *p, int32_t x)
{
    static const ir_op_kind unary[] = {IR_OP_gelu, IR_OP_relu, IR_OP_tanh};
    const int64_t kind = fs_rand_below(&p->rng, 7);
    if (kind < 3)
        return times_weight(p, x, draw_width(p));
    p->ops++;
    return kind < 6 ? ir_unary(p->graph, unary[kind - 3], x)
                    : ir_softmax(p->graph, x);
}

/* The last branch is added to another one. */
static void join(plain *p)
{
    const int32_t from = p->open[--p->n_open];
    int32_t *to = &p->open[fs_rand_below(&p->rng, p->n_open)];
    const int64_t width = ir_shape_of(p->graph, *to).dim[1];
    const int32_t x = times_weight(p, from, width);
    *to = ir_binary(p->graph, IR_OP_add, *to, x);
    p->ops++;
}

static void step(plain *p)
{
    const int64_t way = fs_rand_below(&p->rng, 8);
    const int64_t at = fs_rand_below(&p->rng, p->n_open);
    const int32_t x = p->open[at];
    if (way == 0 && p->n_open < MOST_OPEN)
        p->open[p->n_open++] = next_of(p, x);
    else if (way == 1 && p->n_open > 1)
        join(p);
    else
        p->open[at] = next_of(p, x);
}

static ir_graph *make(int32_t ops, uint64_t seed)
{
    plain p = {.graph = ir_graph_create("plain"), .rng = seed, .n_open = 1};
    p.open[0] =
        ir_input(p.graph, "x", IR_F32, (ir_shape){2, {SAMPLES, 1024}}, 0);
    while (p.ops + 2 * (p.n_open - 1) < ops)
        step(&p);
    while (p.n_open > 1)
        join(&p);
    ir_mark_output(p.graph, p.open[0]);
    return p.graph;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: make_plain OPS FILE.onnx [SEED]\n");
        return 2;
    }
    const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 7;
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    onnx_exported about;
    ir_graph *graph = make(atoi(argv[1]), seed);
    const onnx_export_options options = {.no_weights = true};
    const fs_status status =
        onnx_export(graph, argv[2], &options, arena, &err, &about);
    if (status != FS_OK)
        fprintf(stderr, "make_plain: %s\n", err.text);
    ir_graph_destroy(graph);
    fs_arena_destroy(arena);
    return status == FS_OK ? 0 : 1;
}
