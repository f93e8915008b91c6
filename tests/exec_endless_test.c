/* Runs that their data ends: steps come one by one, each only when the outputs
 * of the one before were given, as from a client that waits. The outputs are
 * those of a run that knows its steps. */
#include "config.h"

#include "ir/build.h"

#include "tests/exec_plans.h"
#include "tests/exec_ranks.h"

#include <stdatomic.h>

enum { BATCH = 8, IN = 6, OUT = 5, STEPS = 3 * EXEC_STEPS_KEPT };

/* ---- a network whose second input is read late ---- */

static int32_t weight(ir_graph *g, const char *name, ir_shape shape)
{
    return ir_parameter(
        g, name, IR_F32, shape,
        (ir_init){.kind = IR_INIT_NORMAL, .spread = 0.3, .seed = 5});
}

static ir_graph *make_graph(void)
{
    ir_graph *g = ir_graph_create("answers");
    const int32_t x = ir_input(g, "x", IR_F32, (ir_shape){2, {BATCH, IN}}, 0);
    const int32_t late =
        ir_input(g, "late", IR_F32, (ir_shape){2, {BATCH, OUT}}, 0);
    int32_t h =
        ir_matmul(g, x, weight(g, "up", (ir_shape){2, {IN, 16}}), false, false);
    for (int32_t i = 0; i < 4; i++)
        h = ir_unary(g, IR_OP_tanh, h);
    h = ir_matmul(g, h, weight(g, "down", (ir_shape){2, {16, OUT}}), false,
                  false);
    ir_mark_output(g, ir_binary(g, IR_OP_add, h, late));
    g->loss = -1;
    g->batch = BATCH;
    return g;
}

/* ---- steps that come ---- */

typedef struct source {
    bool endless;
    _Atomic int64_t come, given; /* steps */
    float sum[STEPS];            /* of the outputs of a step, in their order */
} source;

/* A function of the sample, the element and the input. */
static fs_status fill(void *ctx, const char *name, int64_t at, ir_dtype dtype,
                      const ir_shape *local, const int64_t *offset,
                      int32_t batch_axis, void *out, fs_err *err)
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

static bool has_come(void *ctx, int64_t at)
{
    source *s = ctx;
    return at / BATCH < atomic_load(&s->come) ||
           atomic_load(&s->given) == STEPS;
}

static bool is_over(void *ctx)
{
    source *s = ctx;
    return atomic_load(&s->given) == STEPS;
}

static fs_status take(void *ctx, int32_t output, int64_t step,
                      int32_t micro_batch, const void *data, fs_err *err)
{
    source *s = ctx;
    const float *values = data;
    (void)output, (void)micro_batch, (void)err;
    if (step >= STEPS)
        return FS_OK;
    for (int32_t i = 0; i < BATCH * OUT; i++)
        s->sum[step] += values[i] * (float)(i + 1);
    atomic_store(&s->come, step + 2);
    atomic_store(&s->given, step + 1);
    return FS_OK;
}

/* ---- plans ---- */

static bool choose(const ir_graph *g, plan_strategy *s, plan_boxer *boxer,
                   int32_t v, uint64_t *seed, fs_arena *arena)
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

/* Two stages of one rank, or one of two. */
static plan_strategy *draw(const ir_graph *g, int32_t stages, int32_t ranks,
                           uint64_t *seed, fs_arena *arena)
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
        if (!choose(g, s, boxer, v, seed, arena))
            return NULL;
    return close_loops(g, s, boxer) ? s : NULL;
}

/* ---- runs ---- */

static fs_status run(exec_world *world, const ir_graph *g,
                     const plan_strategy *strategy, source *s, fs_err *err,
                     exec_result *out)
{
    job j = {.graph = g, .arena = g->arena};
    const exec_sink sink = {s, take};
    const exec_options options = {
        .steps = s->endless ? EXEC_ENDLESS : STEPS, .sink = &sink, .seed = 3};
    FS_TRY(job_make(&j, strategy, world->size, err));
    j.data = (exec_data){.ctx = s, .fill = fill};
    if (s->endless) {
        j.data.come = has_come;
        j.data.over = is_over;
    }
    return job_run(&j, world, &options, err, out);
}

static source known, coming[2];

static void test_stages(exec_world *world, int32_t stages)
{
    uint64_t seed = 7;
    fs_err err = {0};
    exec_result result = {0};
    source *s = &coming[stages - 1];
    ir_graph *g = make_graph();
    const plan_strategy *strategy =
        draw(g, stages, world->size, &seed, g->arena);
    s->endless = true;
    if (world->rank == 0)
        atomic_store(&s->come, INT64_C(1));
    const bool ran =
        strategy && run(world, g, strategy, s, &err, &result) == FS_OK;
    int64_t wrong = !ran || result.steps != EXEC_STEPS_KEPT - 1 ||
                    result.first_step + result.steps < STEPS;
    for (int64_t k = 0; ran && k < result.steps; k++)
        wrong += !(result.step_s[k] >= 0 && result.step_s[k] < 60);
    for (int32_t k = 0; k < STEPS; k++)
        wrong += fabsf(s->sum[k] - known.sum[k]) > 1e-3F * fabsf(known.sum[k]);
    if (err.text[0])
        printf("# %s\n", err.text);
    ranks_ok(world, wrong,
             "%d stages on %d ranks: %d steps that come one by one give what a "
             "run of so many does, the last %d timed",
             stages, world->size, STEPS, EXEC_STEPS_KEPT - 1);
    ir_graph_destroy(g);
}

static void test_refused(exec_world *world)
{
    fs_err err = {0};
    exec_result result;
    uint64_t seed = 7;
    ir_graph *g = make_graph();
    const plan_strategy *strategy = draw(g, 1, 1, &seed, g->arena);
    job j = {.graph = g, .arena = g->arena};
    exec_options options = {.steps = EXEC_ENDLESS};
    fs_status status = strategy ? job_make(&j, strategy, 1, &err) : FS_NO;
    if (status == FS_OK)
        status = job_run(&j, world, &options, &err, &result);
    tap_ok(status == FS_INVALID && strstr(err.text, "wants data that ends it"),
           "a run without an end wants data that ends it");
    j.data = (exec_data){.ctx = &known, .fill = fill, .come = has_come};
    options.steps = 3;
    err = (fs_err){0};
    tap_ok(job_run(&j, world, &options, &err, &result) == FS_INVALID,
           "a run of so many steps takes no data that comes");
    ir_graph_destroy(g);
}

static void run_all(exec_world *world, void *ctx)
{
    (void)ctx;
    test_stages(world, 1);
    test_stages(world, 2);
}

int main(void)
{
    exec_world alone = {.size = 1, .on_host = 1, .cores = 1};
    const int32_t steps = STEPS;
    exec_result result;
    fs_err err = {0};
    uint64_t seed = 7;
    ir_graph *g = make_graph();
    const plan_strategy *one = draw(g, 1, 1, &seed, g->arena);
    tap_ok(one && run(&alone, g, one, &known, &err, &result) == FS_OK &&
               result.steps == steps,
           "one device runs %d steps", steps);
    ir_graph_destroy(g);
    test_refused(&alone);
    tap_ok(exec_world_threads(2, run_all, NULL, &err) == FS_OK,
           "2 threads of one process are ranks");
    return tap_done();
}
