/* Clipping by the global norm, against plain C and against a loss that is
 * scaled by as much. */
#include "config.h"

#include "ir/clip.h"
#include "ir/train.h"
#include "zoo/zoo.h"

#include "interpret_fill.h"
#include "tap.h"

#include <math.h>

static const char spec[] = "mlp,in=6,hidden=9,layers=2,classes=4";

typedef struct step {
    fs_arena *arena;
    ir_graph *graph;
    interpreter in;
} step;

/* One step with the loss times `factor`. */
static step take_step(ir_optimizer optimizer, double clip_norm, double factor)
{
    fs_err err = {0};
    step s = {.arena = fs_arena_create()};
    ir_train_options options = ir_train_defaults();
    options.optimizer = optimizer;
    options.clip_norm = clip_norm;
    bool ran = zoo_build(spec, 8, &err, &s.graph) == FS_OK;
    if (ran)
        s.graph->loss = ir_scale(s.graph, s.graph->loss, factor, 0);
    ran = ran && ir_train(s.graph, &options, &err) == FS_OK;
    if (ran) {
        interpret_open(&s.in, s.graph, s.arena);
        interpret_fill(&s.in);
        ran = interpret_run(&s.in, &err) == FS_OK;
    }
    tap_ok(ran && ir_graph_check(s.graph, &err) == FS_OK, "%s%s: a step %s",
           ir_optimizer_name(optimizer), clip_norm > 0 ? " clipped" : "",
           err.text);
    return s;
}

static void end_step(step *s)
{
    ir_graph_destroy(s->graph);
    fs_arena_destroy(s->arena);
}

static const float *value_of(const step *s, const char *name)
{
    return s->in.data[ir_graph_find(s->graph, name)];
}

/* The norm in double precision. */
static double norm_of(const step *s)
{
    double sum = 0;
    for (int32_t i = 0; i < s->graph->tensors.n; i++) {
        const ir_tensor *t = &s->graph->tensors.at[i];
        char name[80];
        if (t->role != IR_PARAM)
            continue;
        snprintf(name, sizeof name, "%s.grad", t->name);
        const float *grad = value_of(s, name);
        for (int64_t k = 0; k < ir_shape_count(&t->shape); k++)
            sum += (double)grad[k] * grad[k];
    }
    return sqrt(sum);
}

/* Largest difference of the parameters' next values. */
static double apart(const step *a, const step *b)
{
    double most = 0;
    for (int32_t i = 0; i < a->graph->tensors.n; i++) {
        const ir_tensor *t = &a->graph->tensors.at[i];
        char name[80];
        if (t->role != IR_PARAM)
            continue;
        snprintf(name, sizeof name, "%s.next", t->name);
        const float *x = value_of(a, name), *y = value_of(b, name);
        for (int64_t k = 0; k < ir_shape_count(&t->shape); k++)
            most = fmax(most, fabs((double)x[k] - y[k]));
    }
    return most;
}

static void test_optimizer(ir_optimizer optimizer, double norm)
{
    const char *name = ir_optimizer_name(optimizer);
    const double most = norm / 8, factor = most / (norm + 1e-6);
    step plain = take_step(optimizer, 0, 1);
    step clipped = take_step(optimizer, most, 1);
    step scaled = take_step(optimizer, 0, factor);
    step loose = take_step(optimizer, 2 * norm, 1);
    tap_near(*value_of(&clipped, "grad_norm"), norm, 1e-5 * norm,
             "%s: the norm is that of plain C", name);
    tap_ok(apart(&clipped, &scaled) < 2e-6,
           "%s: as a loss scaled by as much (%g apart)", name,
           apart(&clipped, &scaled));
    tap_ok(apart(&loose, &plain) == 0, "%s: below the limit nothing changes",
           name);
    end_step(&plain);
    end_step(&clipped);
    end_step(&scaled);
    end_step(&loose);
}

int main(void)
{
    step plain = take_step(IR_SGD, 0, 1);
    const double norm = norm_of(&plain);
    end_step(&plain);
    for (int32_t k = 0; k < IR_OPTIMIZER_COUNT; k++)
        test_optimizer((ir_optimizer)k, norm);
    return tap_done();
}
