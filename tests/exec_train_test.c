/* Training under random plans (random legal signatures, meshes, stages,
 * micro-batches) gives the losses and weights of one device. */
#include "config.h"

#include "ir/losses.h"
#include "ir/train.h"
#include "plan/schedule.h"

#include "tests/exec_plans.h"
#include "tests/exec_ranks.h"

enum {
    MOST_ROLES = 8,
    STEPS = 5,
    BATCH = 8,
    LENGTH = 6,
    WIDTH = 12,
    WORDS = 20
};

/* ---- the network ---- */

static int32_t weight(ir_graph *g, const char *name, int32_t rank, int64_t rows,
                      int64_t columns)
{
    int64_t dim[2] = {rows, columns};
    ir_init init = {IR_INIT_NORMAL, 0.0, 0.2, 5};
    return ir_parameter(g, name, IR_F32, ir_shape_make(rank, dim), init);
}

typedef struct network {
    int32_t micro_batches;
    ir_optimizer optimizer;
    enum {
        MEAN,
        COUNTED,
        BOTH
    } loss; /* COUNTED: labels by weights, some not
at all; BOTH: a mean and two with divisors of their own; no
dropout, whose draws hang on the micro-batch */
} network;

/* A mean over what counts, whose divisor differs from sample to sample. */
static int32_t counted_loss(ir_graph *g, int32_t logits, int32_t targets,
                            int32_t ignored)
{
    float *weights = fs_new(g->arena, float, WORDS);
    for (int32_t i = 0; i < WORDS; i++)
        weights[i] = (float)(i % 4);
    const ir_label_loss loss = {
        .labels = targets,
        .weights =
            ir_constant(g, fs_printf(g->arena, "weights%d", ignored), IR_F32,
                        ir_shape_make(1, (int64_t[]){WORDS}), weights),
        .ignores = true,
        .ignored = ignored};
    return ir_cross_entropy_parts(g, logits, &loss);
}

static int32_t make_loss(ir_graph *g, const network *net, int32_t logits,
                         int32_t targets)
{
    if (net->loss == MEAN)
        return ir_cross_entropy(g, logits, targets);
    int32_t loss = counted_loss(g, logits, targets, 3);
    if (net->loss == COUNTED)
        return loss;
    int32_t mean = ir_cross_entropy(g, ir_scale(g, logits, 0.5, 0), targets);
    int32_t other = counted_loss(g, ir_scale(g, logits, 2, 0), targets, 6);
    loss = ir_binary(g, IR_OP_sub, ir_scale(g, loss, 0.7, 0),
                     ir_scale(g, other, 0.1, 0));
    return ir_binary(g, IR_OP_add, loss, mean);
}

/* Embedding, a residual block with a norm, logits from a second weight. */
static ir_graph *make_network(const network *net, int32_t samples)
{
    ir_graph *g = ir_graph_create("small");
    int64_t dim[2] = {samples, LENGTH};
    ir_shape shape = ir_shape_make(2, dim);
    int32_t ids = ir_input(g, "ids", IR_I64, shape, 0);
    int32_t targets = ir_input(g, "targets", IR_I64, shape, 0);
    int32_t x = ir_gather(g, weight(g, "table", 2, WORDS, WIDTH), ids);
    int32_t norm = ir_layer_norm(g, x, weight(g, "gain", 1, WIDTH, 0),
                                 weight(g, "bias", 1, WIDTH, 0), 1e-5);
    int32_t up =
        ir_matmul(g, norm, weight(g, "up", 2, WIDTH, 4 * WIDTH), false, false);
    up = ir_binary(g, IR_OP_add, up, weight(g, "up_bias", 1, 4 * WIDTH, 0));
    up = ir_unary(g, IR_OP_gelu, up);
    if (net->loss == MEAN)
        up = ir_dropout(g, up, 0.1, 7);
    int32_t down =
        ir_matmul(g, up, weight(g, "down", 2, 4 * WIDTH, WIDTH), false, false);
    x = ir_binary(g, IR_OP_add, x, down);
    int32_t logits =
        ir_matmul(g, x, weight(g, "head", 2, WIDTH, WORDS), false, false);
    g->loss = make_loss(g, net, logits, targets);
    g->batch = BATCH;
    return g;
}

static fs_status find_terms(const network *net, const ir_graph *g, fs_err *err,
                            ir_loss_terms *out)
{
    ir_graph *whole = make_network(net, BATCH);
    ir_loss_form form;
    fs_status status =
        ir_loss_find_form(whole, g, net->micro_batches, err, &form);
    *out = form.terms;
    ir_graph_destroy(whole);
    return status;
}

static ir_graph *make_graph(const network *net, fs_err *err)
{
    ir_graph *g = make_network(net, BATCH / net->micro_batches);
    ir_train_options options = ir_train_defaults();
    options.optimizer = net->optimizer;
    options.lr = net->optimizer == IR_SGD ? 0.3 : 0.01;
    options.micro_batches = net->micro_batches;
    if (find_terms(net, g, err, &options.terms) != FS_OK ||
        ir_train(g, &options, err) != FS_OK) {
        ir_graph_destroy(g);
        return NULL;
    }
    return g;
}

/* ---- plans ---- */

static bool choose_signature(const ir_graph *g, plan_strategy *s,
                             plan_boxer *boxer, int32_t v, uint64_t *seed,
                             fs_arena *arena)
{
    ir_nd_sig_list list = {0};
    const ir_mesh *mesh = &s->stages[s->stage_of[v]].mesh;
    ir_signatures(g, &g->nodes.at[v], mesh, arena, &list);
    for (int32_t attempt = 0; attempt < 50; attempt++) {
        int32_t k = (int32_t)fs_rand_below(seed, list.n);
        s->sig[v] = list.at[attempt < 49 ? k : 0];
        if (join_inputs(g, s, boxer, v)) {
            draw_sharing(g, s, v, seed);
            return true;
        }
    }
    return false;
}

/* Any schedule; of those that run several stages on a role some number. */
static const plan_schedule *draw_schedule(int32_t *chunks, uint64_t *seed)
{
    static const char *const names[] = {
#define PLAN_SCHEDULE(id, name, ...) name,
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
    };
    const plan_schedule *schedule = plan_schedule_find(
        names[fs_rand_below(seed, sizeof names / sizeof names[0])]);
    *chunks = schedule->placing == PLAN_PLACED_ONCE ? 1
              : schedule->placing == PLAN_PLACED_V
                  ? 2
                  : 1 + (int32_t)fs_rand_below(seed, 3);
    return schedule;
}

/* `meshes`: of each role. */
static plan_strategy *draw_strategy(const ir_graph *g, int32_t n_roles,
                                    const ir_mesh *meshes, uint64_t *seed,
                                    fs_arena *arena)
{
    int32_t chunks, first[MOST_ROLES] = {0};
    const plan_schedule *schedule = draw_schedule(&chunks, seed);
    plan_strategy *s = plan_strategy_new(g, n_roles * chunks, arena);
    s->schedule = schedule->name;
    for (int32_t r = 1; r < n_roles; r++)
        first[r] = first[r - 1] + ir_mesh_size(&meshes[r - 1]);
    for (int32_t i = 0; i < s->n_stages; i++) {
        int32_t role = plan_placing_role(schedule->placing, n_roles, i);
        s->stages[i] = (plan_stage){meshes[role], first[role]};
    }
    place_stages(g, s, seed);
    plan_boxing_cost cost = {.seconds = unit_seconds};
    plan_boxer *boxer = plan_boxer_create(cost, arena);
    for (int32_t v = 0; v < g->nodes.n; v++)
        if (!choose_signature(g, s, boxer, v, seed, arena))
            return NULL;
    return close_loops(g, s, boxer) ? s : NULL;
}

/* ---- runs ---- */

typedef struct outcome {
    bool ran;
    double loss[STEPS];
    double told[STEPS]; /* what the progress of rank 0 said */
    int64_t missing;    /* events that the trace of rank 0 should hold */
    uint64_t digest;
    float *table, *grad; /* whole, after the last step */
} outcome;

static fs_status hear_step(void *ctx, int64_t step, double loss, double step_s,
                           fs_err *err)
{
    (void)err;
    double *told = ctx;
    told[step] = step_s > 0 ? loss : -1.0;
    return FS_OK;
}

/* Of so many micro-batches. */
static int64_t count_events(const plan *p, int32_t shown)
{
    int64_t n = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t i = 0; i < p->roles[r].n_tasks; i++) {
            plan_phase phase = p->roles[r].tasks[i].phase;
            bool once = phase == PLAN_BEGIN || phase == PLAN_END;
            n += p->roles[r].n_ranks * (once ? 1 : shown);
        }
    return n;
}

static outcome run_plan(exec_world *world, const ir_graph *g,
                        const plan_strategy *strategy, fs_arena *arena,
                        fs_err *err)
{
    outcome out = {0};
    job j = {.graph = g, .arena = arena};
    if (job_make(&j, strategy, world->size, err) != FS_OK)
        return out;
    int32_t fetch[2] = {ir_graph_find(g, "table"), ir_graph_find(g, "up.grad")};
    void *fetched[2] = {NULL, NULL};
    plan_trace trace = {.arena = arena};
    /* Of four micro-batches the first and the last. */
    const int32_t ends = j.p->micro_batches > 2;
    exec_options options = {.steps = STEPS,
                            .checks = true,
                            .seed = 3,
                            .n_fetch = 2,
                            .fetch = fetch,
                            .fetched = fetched,
                            .progress = hear_step,
                            .progress_ctx = out.told,
                            .trace = &trace,
                            .trace_ends = ends};
    exec_result result;
    if (job_run(&j, world, &options, err, &result) != FS_OK)
        return out;
    out.ran = true;
    memcpy(out.loss, result.losses, sizeof out.loss);
    out.digest = result.weights_digest;
    out.table = fetched[0];
    out.grad = fetched[1];
    if (world->rank == 0)
        out.missing =
            count_events(j.p, ends ? 2 : j.p->micro_batches) - trace.events.n;
    return out;
}

/* What counts by weights is compared with the whole batch at once. */
static outcome run_alone(const network *net, fs_arena *arena, fs_err *err)
{
    network whole = *net;
    if (net->loss != MEAN)
        whole.micro_batches = 1;
    exec_world alone = {.size = 1, .on_host = 1, .cores = 1};
    outcome out = {0};
    ir_graph *g = make_graph(&whole, err);
    if (!g)
        return out;
    ir_mesh mesh = {1, {1}};
    uint64_t seed = 0;
    plan_strategy *s = draw_strategy(g, 1, &mesh, &seed, arena);
    out = run_plan(&alone, g, s, arena, err);
    ir_graph_destroy(g);
    return out;
}

static double compare_runs(const outcome *a, const outcome *b)
{
    double worst = 0.0;
    for (int32_t k = 0; k < STEPS; k++)
        worst = fmax(worst, fabs(a->loss[k] / b->loss[k] - 1.0));
    worst = fmax(worst, far_apart(a->table, b->table, WORDS * WIDTH));
    return fmax(worst, far_apart(a->grad, b->grad, 4 * WIDTH * WIDTH));
}

static ir_mesh draw_mesh(int32_t size, uint64_t *seed)
{
    if (size % 2 == 0 && size > 2 && fs_rand_below(seed, 2))
        return (ir_mesh){2, {2, size / 2}};
    return (ir_mesh){1, {size}};
}

/* Of each stage: all alike, or of any sizes. */
static void draw_meshes(int32_t ranks, int32_t n_stages, uint64_t *seed,
                        ir_mesh *meshes)
{
    bool alike = ranks % n_stages == 0 && fs_rand_below(seed, 2);
    for (int32_t i = 0; i < n_stages; i++) {
        int32_t behind = n_stages - 1 - i;
        int32_t size = alike ? ranks / (behind + 1)
                       : behind > 0
                           ? 1 + (int32_t)fs_rand_below(seed, ranks - behind)
                           : ranks;
        meshes[i] = alike && i > 0 ? meshes[0] : draw_mesh(size, seed);
        ranks -= size;
    }
}

typedef struct tally {
    int64_t ran, wrong;
    int64_t untold, missing; /* of rank 0's progress and trace */
    double worst;
} tally;

static void try_plan(exec_world *world, int32_t n_stages, int loss,
                     uint64_t *seed, tally *t)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    network net = {.micro_batches = 1 << fs_rand_below(seed, 3), .loss = loss};
    net.optimizer = fs_rand_below(seed, 2) ? IR_SGD : IR_ADAMW;
    ir_mesh meshes[MOST_ROLES];
    draw_meshes(world->size, n_stages, seed, meshes);
    ir_graph *g = make_graph(&net, &err);
    plan_strategy *s =
        g ? draw_strategy(g, n_stages, meshes, seed, arena) : NULL;
    if (s) {
        t->ran++;
        outcome one = run_alone(&net, arena, &err);
        outcome all = run_plan(world, g, s, arena, &err);
        double error = one.ran && all.ran ? compare_runs(&all, &one) : 1.0;
        t->worst = fmax(t->worst, error);
        t->missing += all.missing != 0;
        for (int32_t k = 0; world->rank == 0 && k < STEPS; k++)
            t->untold += all.told[k] != all.loss[k];
        if (!(error < 2e-5)) {
            t->wrong++;
            if (world->rank == 0)
                printf("# %d stages, m %d: error %g %s\n", n_stages,
                       net.micro_batches, error, err.text);
        }
    } else if (!g)
        ranks_ok(world, 1, "a training graph: %s", err.text);
    if (g)
        ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

/* Ranks that hold different plans would wait for each other for ever. */
static void test_digests(exec_world *world, uint64_t *seed)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_mesh mesh = {1, {world->size}};
    ir_graph *g = make_graph(&(network){1, IR_SGD, MEAN}, &err);
    plan_strategy *s = draw_strategy(g, 1, &mesh, seed, arena);
    job j = {.graph = g, .arena = arena};
    exec_result result;
    exec_options options = {.steps = 1};
    job_make(&j, s, world->size, &err);
    j.p->digest += (uint64_t)world->rank;
    fs_status status = job_run(&j, world, &options, &err, &result);
    ranks_ok(world, status != FS_INVALID,
             "ranks that hold different plans refuse to start");
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

/* One rank differs in what the command line decides. */
static void test_settings(exec_world *world, uint64_t *seed)
{
    static const char *const what[] = {"learning rates", "betas", "seeds",
                                       "data"};
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_mesh mesh = {1, {world->size}};
    ir_graph *g = make_graph(&(network){1, IR_SGD, MEAN}, &err);
    plan_strategy *s = draw_strategy(g, 1, &mesh, seed, arena);
    job j = {.graph = g, .arena = arena};
    exec_result result;
    bool odd = world->rank == world->size - 1;
    job_make(&j, s, world->size, &err);
    for (int32_t k = 0; k < 4; k++) {
        ir_train_options tuning = {.lr = odd && k == 0 ? 0.5 : NAN,
                                   .weight_decay = NAN,
                                   .momentum = NAN,
                                   .beta1 = NAN,
                                   .beta2 = odd && k == 1 ? 0.5 : NAN,
                                   .epsilon = NAN};
        exec_options options = {.steps = 1,
                                .tuning = &tuning,
                                .seed = odd && k == 2,
                                .kernels = "auto"};
        exec_data_open("synthetic", g, odd && k == 3 ? 2 : 1, arena, &err,
                       &j.data);
        fs_status status = job_run(&j, world, &options, &err, &result);
        ranks_ok(world, status != FS_INVALID || !strstr(err.text, "same data"),
                 "ranks with different %s refuse to start", what[k]);
    }
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

static void test_plans(exec_world *world, int32_t n_stages, uint64_t *seed)
{
    tally t = {0}, counted = {0};
    for (int32_t k = 0; k < 12; k++)
        try_plan(world, n_stages, MEAN, seed, &t);
    ranks_ok(world, t.wrong + (t.ran < 5),
             "random plans of %d stages on %d ranks train as one device "
             "(%lld plans, worst difference %.1e)",
             n_stages, world->size, (long long)t.ran, t.worst);
    ranks_ok(world, t.untold, "progress tells rank 0 each step's loss");
    ranks_ok(world, t.missing,
             "the trace of rank 0 holds every firing of the last step, or of "
             "its ends");
    for (int32_t k = 0; k < 8; k++)
        try_plan(world, n_stages, k % 2 ? BOTH : COUNTED, seed, &counted);
    ranks_ok(world, counted.wrong + (counted.ran < 4),
             "labels that count differently, alone or beside other losses, in "
             "1, 2 or 4 micro-batches, train as the whole batch (%lld plans, "
             "worst difference %.1e)",
             (long long)counted.ran, counted.worst);
}

/* An order that emerges adds the same numbers in the same order: to the last
 * bit what 1f1b gives, whose order is fixed. */
static void test_dynamic(exec_world *world, int32_t n_stages, uint64_t *seed)
{
    int64_t ran = 0, differ = 0;
    for (int32_t k = 0; k < 16; k++) {
        fs_arena *arena = fs_arena_create();
        fs_err err = {0};
        network net = {.micro_batches = 4, .loss = MEAN, .optimizer = IR_ADAMW};
        ir_mesh meshes[MOST_ROLES];
        draw_meshes(world->size, n_stages, seed, meshes);
        ir_graph *g = make_graph(&net, &err);
        plan_strategy *s = draw_strategy(g, n_stages, meshes, seed, arena);
        if (s && s->n_stages == n_stages) {
            s->schedule = "1f1b";
            outcome fixed = run_plan(world, g, s, arena, &err);
            s->schedule = "dynamic";
            outcome free = run_plan(world, g, s, arena, &err);
            ran += fixed.ran && free.ran;
            differ += fixed.digest != free.digest ||
                      memcmp(fixed.loss, free.loss, sizeof free.loss) != 0;
            if (err.status != FS_OK)
                printf("# %s\n", err.text);
        }
        ir_graph_destroy(g);
        fs_arena_destroy(arena);
    }
    ranks_ok(world, differ + (ran < 4),
             "dynamic gives the bits of 1f1b: %d stages on %d ranks (%lld "
             "plans)",
             n_stages, world->size, (long long)ran);
}

int main(void)
{
    exec_world *world = ranks_open();
    uint64_t seed = ranks_seed(world, 7);
    if (world->size > 1)
        test_digests(world, &seed);
    if (world->size > 1)
        test_settings(world, &seed);
    for (int32_t n_stages = 1; n_stages <= world->size; n_stages++)
        test_plans(world, n_stages, &seed);
    for (int32_t n_stages = 1; n_stages <= world->size; n_stages++)
        test_dynamic(world, n_stages, &seed);
    return ranks_done(world);
}
