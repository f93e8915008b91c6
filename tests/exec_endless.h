/* A small network of inference, its data and its plans, for runs that their
 * data ends. */
#ifndef FS_TESTS_EXEC_ENDLESS_H
#define FS_TESTS_EXEC_ENDLESS_H

#include "ir/build.h"

#include "tests/exec_plans.h"

enum { BATCH = 8, IN = 6, OUT = 5 };

/* ---- a network whose second input is read late ---- */

static inline int32_t endless_weight(ir_graph *g, const char *name,
                                     ir_shape shape)
{
    return ir_parameter(
        g, name, IR_F32, shape,
        (ir_init){.kind = IR_INIT_NORMAL, .spread = 0.3, .seed = 5});
}

static inline ir_graph *endless_graph(void)
{
    ir_graph *g = ir_graph_create("answers");
    const int32_t x = ir_input(g, "x", IR_F32, (ir_shape){2, {BATCH, IN}}, 0);
    const int32_t late =
        ir_input(g, "late", IR_F32, (ir_shape){2, {BATCH, OUT}}, 0);
    int32_t h = ir_matmul(
        g, x, endless_weight(g, "up", (ir_shape){2, {IN, 16}}), false, false);
    for (int32_t i = 0; i < 4; i++)
        h = ir_unary(g, IR_OP_tanh, h);
    h = ir_matmul(g, h, endless_weight(g, "down", (ir_shape){2, {16, OUT}}),
                  false, false);
    ir_mark_output(g, ir_binary(g, IR_OP_add, h, late));
    g->loss = -1;
    g->batch = BATCH;
    return g;
}

/* A function of the sample, the element and the input. */
static inline fs_status endless_fill(void *ctx, const char *name, int64_t at,
                                     ir_dtype dtype, const ir_shape *local,
                                     const int64_t *offset, int32_t batch_axis,
                                     void *out, fs_err *err)
{
    float *to = out;
    (void)ctx, (void)dtype, (void)batch_axis, (void)err;
    for (int64_t i = 0; i < local->dim[0]; i++)
        for (int64_t k = 0; k < local->dim[1]; k++) {
            const uint64_t bits =
                fs_mix(fs_mix((uint64_t)(at + offset[0] + i)) +
                       (uint64_t)(offset[1] + k) + (uint64_t)name[0]);
            *to++ = (float)(bits % 1000) / 1000;
        }
    return FS_OK;
}

/* ---- plans ---- */

static inline bool endless_choose(const ir_graph *g, plan_strategy *s,
                                  plan_boxer *boxer, int32_t v, uint64_t *seed,
                                  fs_arena *arena)
{
    const plan_stage *stage = &s->stages[s->stage_of[v]];
    ir_nd_sig_list list = {0};
    ir_signatures(g, &g->nodes.at[v], &stage->mesh, arena, &list);
    for (int32_t attempt = 0; attempt < 20; attempt++) {
        s->sig[v] = list.at[fs_rand_below(seed, list.n)];
        if (join_inputs(g, s, boxer, v))
            return true;
    }
    return false;
}

/* Stages of as many ranks each, with signatures that are drawn. */
static inline plan_strategy *endless_strategy(const ir_graph *g, int32_t stages,
                                              int32_t ranks, uint64_t *seed,
                                              fs_arena *arena)
{
    plan_strategy *s = plan_strategy_new(g, stages, arena);
    plan_boxer *boxer =
        plan_boxer_create((plan_boxing_cost){.seconds = unit_seconds}, arena);
    for (int32_t i = 0; i < stages; i++) {
        s->stages[i].first_device = i * ranks / stages;
        s->stages[i].mesh = (ir_mesh){1, {ranks / stages}};
    }
    place_stages(g, s, seed);
    for (int32_t v = 0; v < g->nodes.n; v++)
        if (!endless_choose(g, s, boxer, v, seed, arena))
            return NULL;
    return close_loops(g, s, boxer) ? s : NULL;
}

#endif
