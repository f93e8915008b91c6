/* Compressed gradients under random plans on threads. PowerSGD trains as one
 * device does, in double; casts to 16 bits do but for their roundings. */
#include "config.h"

#include "ir/train.h"

#include "tests/exec_plans.h"
#include "tests/exec_ranks.h"

enum { STEPS = 6, BATCH = 8, IN = 12, HIDDEN = 24, OUT = 16, PLANS = 6 };

/* ---- a student and its teacher ---- */

static int32_t weight(ir_graph *g, const char *name, ir_shape shape)
{
    return ir_parameter(
        g, name, IR_F64, shape,
        (ir_init){.kind = IR_INIT_NORMAL, .spread = 0.3, .seed = 5});
}

static int32_t teacher(ir_graph *g, int32_t x)
{
    double *values = fs_new(g->arena, double, IN *OUT);
    for (int32_t i = 0; i < IN * OUT; i++)
        values[i] = sin(1.7 * i) / 2;
    const int32_t t =
        ir_constant(g, "teacher", IR_F64, (ir_shape){2, {IN, OUT}}, values);
    return ir_unary(g, IR_OP_tanh, ir_matmul(g, x, t, false, false));
}

static ir_graph *make_graph(const char *how, fs_err *err)
{
    ir_graph *g = ir_graph_create("student");
    ir_train_options options = ir_train_defaults();
    const int32_t x = ir_input(g, "x", IR_F64, (ir_shape){2, {BATCH, IN}}, 0);
    int32_t h = ir_matmul(g, x, weight(g, "up", (ir_shape){2, {IN, HIDDEN}}),
                          false, false);
    h = ir_binary(g, IR_OP_add, h, weight(g, "bias", (ir_shape){1, {HIDDEN}}));
    h = ir_matmul(g, ir_unary(g, IR_OP_tanh, h),
                  weight(g, "down", (ir_shape){2, {HIDDEN, OUT}}), false,
                  false);
    g->loss = ir_mse(g, h, teacher(g, x));
    g->batch = BATCH;
    options.lr = 2;
    if (ir_compress_parse(how, err, &options.compress) == FS_OK)
        ir_train(g, &options, err);
    return g;
}

/* ---- plans ---- */

static int32_t boxing_steps(const ir_graph *g, const plan_strategy *s,
                            int32_t v)
{
    int32_t n = 0;
    for (int32_t i = 0; i < g->nodes.at[v].n_in; i++)
        n += s->edge[s->first_edge[v] + i].n;
    return n;
}

/* Of some drawn ones that which boxes least, so that what is partial stays so
 * for a while; samples are cut along the first axis. */
static bool choose(const ir_graph *g, plan_strategy *s, plan_boxer *boxer,
                   int32_t v, uint64_t *seed, fs_arena *arena)
{
    const ir_node *node = &g->nodes.at[v];
    ir_nd_sig_list list = {0};
    ir_nd_sig best = {0};
    int32_t least = INT32_MAX;
    ir_signatures(g, node, &s->stages[0].mesh, arena, &list);
    for (int32_t attempt = 0; attempt < 6; attempt++) {
        s->sig[v] = list.at[fs_rand_below(seed, list.n)];
        if (node->op == IR_OP_input && s->stages[0].mesh.dim[0] > 1)
            s->sig[v].out[0].at[0] = IR_SBP_S(0);
        if (!join_inputs(g, s, boxer, v) || boxing_steps(g, s, v) >= least)
            continue;
        least = boxing_steps(g, s, v);
        best = s->sig[v];
    }
    s->sig[v] = best;
    return least < INT32_MAX && join_inputs(g, s, boxer, v);
}

static plan_strategy *draw(const ir_graph *g, const ir_mesh *mesh,
                           uint64_t *seed, fs_arena *arena)
{
    plan_strategy *s = plan_strategy_new(g, 1, arena);
    plan_boxer *boxer =
        plan_boxer_create((plan_boxing_cost){.seconds = unit_seconds}, arena);
    s->stages[0].mesh = *mesh;
    for (int32_t v = 0; v < g->nodes.n; v++)
        if (!choose(g, s, boxer, v, seed, arena))
            return NULL;
    return close_loops(g, s, boxer) ? s : NULL;
}

typedef struct outcome {
    bool ran;
    double loss[STEPS];
    const double *up;
} outcome;

static outcome run(exec_world *world, const ir_graph *g,
                   const plan_strategy *strategy, fs_arena *arena, fs_err *err)
{
    outcome out = {0};
    job j = {.graph = g, .arena = arena};
    exec_result result;
    const int32_t fetch = ir_graph_find(g, "up");
    void *fetched = NULL;
    const exec_options options = {.steps = STEPS,
                                  .checks = true,
                                  .seed = 3,
                                  .n_fetch = 1,
                                  .fetch = &fetch,
                                  .fetched = &fetched};
    if (job_make(&j, strategy, world->size, err) != FS_OK ||
        job_run(&j, world, &options, err, &result) != FS_OK)
        return out;
    out.ran = true;
    out.up = fetched;
    memcpy(out.loss, result.losses, sizeof out.loss);
    return out;
}

static outcome run_alone(const ir_graph *g, fs_arena *arena, fs_err *err)
{
    exec_world alone = {.size = 1, .on_host = 1, .cores = 1};
    const ir_mesh one = {1, {1}};
    uint64_t seed = 1;
    return run(&alone, g, draw(g, &one, &seed, arena), arena, err);
}

static double apart(const outcome *a, const outcome *b)
{
    double worst = 0, most = 0, size = 0;
    for (int32_t k = 0; k < STEPS; k++)
        worst = fmax(worst, fabs(a->loss[k] / b->loss[k] - 1));
    for (int32_t i = 0; i < IN * HIDDEN; i++) {
        most = fmax(most, fabs(a->up[i] - b->up[i]));
        size = fmax(size, fabs(b->up[i]));
    }
    return fmax(worst, most / size);
}

/* Is a sum over the samples compressed before it is reduced? */
static bool goes_partial(const ir_graph *g, const plan_strategy *s)
{
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_tensor *t = &g->tensors.at[g->nodes.at[v].in[0]];
        if (ir_compresses(g, &g->nodes.at[v]) >= 0 &&
            s->sig[t->producer].out[t->slot].at[0].kind == IR_PSUM &&
            s->sig[v].in[0].at[0].kind == IR_PSUM)
            return true;
    }
    return false;
}

static void test_equal(exec_world *world, const char *how, double tolerance,
                       uint64_t *seed)
{
    static const ir_mesh meshes[] = {{1, {4}}, {2, {2, 2}}};
    int64_t ran = 0, wrong = 0, partial = 0;
    double worst = 0;
    for (int32_t k = 0; k < PLANS; k++) {
        fs_arena *arena = fs_arena_create();
        fs_err err = {0};
        ir_graph *g = make_graph(how, &err);
        plan_strategy *s = draw(g, &meshes[k % 2], seed, arena);
        if (s) {
            const outcome one = run_alone(g, arena, &err);
            const outcome all = run(world, g, s, arena, &err);
            const double off = one.ran && all.ran ? apart(&all, &one) : 1;
            worst = fmax(worst, off);
            wrong += !(off < tolerance) || one.loss[STEPS - 1] > one.loss[0];
            ran++;
            partial += goes_partial(g, s);
            if (err.text[0] && world->rank == 0)
                printf("# %s\n", err.text);
        }
        ir_graph_destroy(g);
        fs_arena_destroy(arena);
    }
    ranks_ok(world, wrong + (ran < PLANS / 2) + (partial < 2),
             "%s: %lld random plans on 4 ranks (%lld compress partial sums) "
             "train as one device within %g (%.1e)",
             how, (long long)ran, (long long)partial, tolerance, worst);
}

static void run_all(exec_world *world, void *ctx)
{
    uint64_t seed = *(const uint64_t *)ctx;
    test_equal(world, "powersgd:1", 1e-9, &seed);
    test_equal(world, "powersgd:3", 1e-9, &seed);
    /* Each rank rounds its part of a gradient to 8 bits, or 11. */
    test_equal(world, "bf16", 1e-2, &seed);
    test_equal(world, "fp16", 1e-3, &seed);
}

int main(void)
{
    uint64_t seed = tap_seed(20261124);
    fs_err err = {0};
    tap_ok(exec_world_threads(4, run_all, &seed, &err) == FS_OK,
           "4 threads of one process are ranks");
    return tap_done();
}
