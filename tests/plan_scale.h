/* GPT-3 175B on more and more devices: what one lowering takes. */
#ifndef FS_TESTS_PLAN_SCALE_H
#define FS_TESTS_PLAN_SCALE_H

#include "zoo/zoo.h"

#include "plan_build.h"
#include "tap.h"

#include <time.h>

typedef struct scale_case {
    int32_t pp, dp, tp; /* tp 0 counts as 1 */
    bool cut;           /* variables too, over dp; collectives beside compute */
} scale_case;

typedef struct scale_figures {
    int64_t tasks, registers, streams, slots, comms, channels;
    int64_t plan_bytes;
    double cpu_s;
} scale_figures;

/* A sample per replica and micro-batch. Variables are cut only where none is
 * too short for all devices, for then the strategy would be another one. */
static inline ir_graph *scale_graph(const scale_case *c)
{
    ir_train_options options = ir_train_defaults();
    fs_err err = {0};
    ir_graph *g = NULL;

    options.optimizer = IR_ADAMW;
    options.micro_batches = 2 * c->pp;
    if (zoo_build("zoo:gpt3-175b", c->dp, &err, &g) != FS_OK ||
        ir_train(g, &options, &err) != FS_OK)
        printf("# %s\n", err.text);
    g->batch = (int64_t)c->dp * options.micro_batches;
    return g;
}

static inline void scale_count(const plan *p, scale_figures *f)
{
    for (int32_t r = 0; r < p->n_roles; r++) {
        f->tasks += p->roles[r].n_tasks;
        f->registers += p->roles[r].n_registers;
        f->streams += p->roles[r].n_streams;
        f->slots += p->roles[r].n_slots;
    }
    f->comms = p->n_comms;
    f->channels = p->n_channels;
}

/* plan_lower alone; the strategy stands. */
static inline scale_figures scale_lower(const scale_case *c)
{
    fs_arena *arena = fs_arena_create(), *result = fs_arena_create();
    ir_graph *g = scale_graph(c);
    const int32_t tp = c->tp ? c->tp : 1;
    build_recipe recipe = {
        .pp = c->pp, .dp = c->dp, .tp = tp, .zero_params = c->cut};
    plan_strategy *s = build_strategy(g, &recipe, arena);
    hw_cluster *cluster = build_cluster(c->pp * c->dp * tp, arena);
    plan_lower_options options = plan_lower_defaults();
    options.overlap = c->cut;
    scale_figures f = {0};
    fs_err err = {0};
    plan *p = NULL;
    clock_t begin = clock();

    if (plan_lower(g, cluster, s, &options, result, &err, &p) != FS_OK)
        printf("# %s\n", err.text);
    f.cpu_s = (double)(clock() - begin) / CLOCKS_PER_SEC;
    f.plan_bytes = (int64_t)fs_arena_bytes(result);
    if (p)
        scale_count(p, &f);
    ir_graph_destroy(g);
    fs_arena_destroy(result);
    fs_arena_destroy(arena);
    return f;
}

#endif
