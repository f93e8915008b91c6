/* Runs that their data ends: steps come one by one, each only when the outputs
 * of the one before were given, as from a client that waits. The outputs are
 * those of a run that knows its steps. */
#include "config.h"

#include "tests/exec_endless.h"
#include "tests/exec_ranks.h"

#include <stdatomic.h>

enum { STEPS = 3 * EXEC_STEPS_KEPT };

/* ---- steps that come ---- */

typedef struct source {
    bool endless;
    int64_t first;               /* step that the run goes on with */
    _Atomic int64_t come, given; /* steps */
    float sum[STEPS];            /* of the outputs of a step, in their order */
} source;

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

/* ---- runs ---- */

static fs_status run(exec_world *world, const ir_graph *g,
                     const plan_strategy *strategy, source *s, fs_err *err,
                     exec_result *out)
{
    job j = {.graph = g, .arena = g->arena};
    const exec_sink sink = {s, take};
    const exec_options options = {.steps = s->endless ? EXEC_ENDLESS : STEPS,
                                  .first_step = s->first,
                                  .sink = &sink,
                                  .seed = 3};
    FS_TRY(job_make(&j, strategy, world->size, err));
    j.data = (exec_data){.ctx = s, .fill = endless_fill};
    if (s->endless) {
        j.data.come = has_come;
        j.data.over = is_over;
    }
    return job_run(&j, world, &options, err, out);
}

static source known, coming[2] = {{.endless = true}, {.endless = true}};

static void test_stages(exec_world *world, int32_t stages)
{
    uint64_t seed = 7;
    fs_err err = {0};
    exec_result result = {0};
    source *s = &coming[stages - 1];
    ir_graph *g = endless_graph();
    const plan_strategy *strategy =
        endless_strategy(g, stages, world->size, &seed, g->arena);
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
    ir_graph *g = endless_graph();
    const plan_strategy *strategy = endless_strategy(g, 1, 1, &seed, g->arena);
    job j = {.graph = g, .arena = g->arena};
    exec_options options = {.steps = EXEC_ENDLESS};
    fs_status status = strategy ? job_make(&j, strategy, 1, &err) : FS_NO;
    if (status == FS_OK)
        status = job_run(&j, world, &options, &err, &result);
    tap_ok(status == FS_INVALID && strstr(err.text, "wants data that ends it"),
           "a run without an end wants data that ends it");
    j.data = (exec_data){.ctx = &known, .fill = endless_fill, .come = has_come};
    options.steps = 3;
    err = (fs_err){0};
    tap_ok(job_run(&j, world, &options, &err, &result) == FS_INVALID,
           "a run of so many steps takes no data that comes");
    j.data.come = NULL;
    options.first_step = 3;
    err = (fs_err){0};
    tap_ok(job_run(&j, world, &options, &err, &result) == FS_INVALID &&
               strstr(err.text, "does not go on after 3"),
           "a run goes on before its last step: %s", err.text);
    ir_graph_destroy(g);
}

/* As one whose ranks were started again. */
enum { DONE = STEPS - 20 };
static source late[2] = {{.first = DONE}, {.first = DONE}};

static void test_goes_on(exec_world *world, int32_t stages)
{
    uint64_t seed = 7;
    fs_err err = {0};
    exec_result result = {0};
    source *s = &late[stages - 1];
    ir_graph *g = endless_graph();
    const plan_strategy *strategy =
        endless_strategy(g, stages, world->size, &seed, g->arena);
    int64_t wrong = !strategy ||
                    run(world, g, strategy, s, &err, &result) != FS_OK ||
                    result.first_step != DONE || result.steps != STEPS - DONE;
    for (int32_t k = 0; k < STEPS; k++)
        wrong += k < DONE ? s->sum[k] != 0
                          : fabsf(s->sum[k] - known.sum[k]) >
                                1e-3F * fabsf(known.sum[k]);
    if (err.text[0])
        printf("# %s\n", err.text);
    ranks_ok(world, wrong,
             "%d stages on %d ranks: a run that goes on after step %d gives "
             "what one run does then, and no more",
             stages, world->size, DONE);
    ir_graph_destroy(g);
}

static void run_all(exec_world *world, void *ctx)
{
    (void)ctx;
    test_stages(world, 1);
    test_stages(world, 2);
    test_goes_on(world, 1);
    test_goes_on(world, 2);
}

int main(void)
{
    exec_world alone = {.size = 1, .on_host = 1, .cores = 1};
    const int32_t steps = STEPS;
    exec_result result;
    fs_err err = {0};
    uint64_t seed = 7;
    ir_graph *g = endless_graph();
    const plan_strategy *one = endless_strategy(g, 1, 1, &seed, g->arena);
    tap_ok(one && run(&alone, g, one, &known, &err, &result) == FS_OK &&
               result.steps == steps,
           "one device runs %d steps", steps);
    ir_graph_destroy(g);
    test_refused(&alone);
    tap_ok(exec_world_threads(2, run_all, NULL, &err) == FS_OK,
           "2 threads of one process are ranks");
    return tap_done();
}
