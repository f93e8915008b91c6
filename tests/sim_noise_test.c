/* Jitter: a role played as one of its ranks against all of its ranks. */
#include "plan_hand.h"

#include "sim/noise.h"
#include "sim/sim.h"

typedef struct bench {
    fs_arena *arena;
    ir_graph *g;
    hw_cluster *c;
    plan *p;
    plan_timing *timing;
    sim_options options;
    sim_result result;
} bench;

/* Stages with this mesh; times are still 0. */
static bench made(int32_t stages, ir_mesh mesh, int32_t m, uint64_t signatures)
{
    bench b = {.arena = fs_arena_create(), .options = {.straggler = 1}};
    b.g = hand_mlp(6, 16, 16, m);
    b.c = hand_cluster(b.arena, 1, stages * ir_mesh_size(&mesh), 0);
    plan_strategy *s = hand_stages(b.g, stages, mesh, b.arena);
    s->schedule = "1f1b";
    hand_signatures(b.g, s, signatures, b.arena);
    b.p = hand_lower(b.g, b.c, s, false, b.arena);
    b.timing = plan_timing_new(b.p, "test", b.arena);
    return b;
}

static void destroy(bench *b)
{
    ir_graph_destroy(b->g);
    fs_arena_destroy(b->arena);
}

static double simulate(bench *b)
{
    fs_err err = {0};
    if (sim_run(b->g, b->p, b->c, b->timing, &b->options, b->arena, &err,
                &b->result) != FS_OK)
        printf("# %s\n", err.text);
    return b->result.iteration_s;
}

/* ---- all ranks, one by one ---- */

typedef struct ranks {
    const bench *b;
    int32_t n;
    double *at_s; /* [n] */
    uint64_t seed;
    double shape;
} ranks;

static double normal(uint64_t *seed)
{
    const double u = 1 - fs_rand_unit(seed), v = fs_rand_unit(seed);
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

static void fire(ranks *x, const plan_task *task, double seconds)
{
    const double shape = x->shape;
    int32_t *group = fs_new(x->b->arena, int32_t, x->n);
    if (task->comm < 0) {
        for (int32_t i = 0; i < x->n && plan_task_computes(task); i++)
            x->at_s[i] +=
                seconds * exp(shape * normal(&x->seed) - shape * shape / 2);
        return;
    }
    for (int32_t i = 0; i < x->n; i++) {
        const int32_t k =
            plan_comm_ranks(x->b->p, &x->b->p->comms[task->comm], i, group);
        double last = 0;
        if (group[0] != i)
            continue;
        for (int32_t j = 0; j < k; j++)
            last = fmax(last, x->at_s[group[j]]);
        last += seconds * exp(shape * normal(&x->seed) - shape * shape / 2);
        for (int32_t j = 0; j < k; j++)
            x->at_s[group[j]] = last;
    }
}

static double slowest(const ranks *x)
{
    double last = 0;
    for (int32_t i = 0; i < x->n; i++)
        last = fmax(last, x->at_s[i]);
    return last;
}

/* Mean and deviation of a step, of one stage whose tasks run in order. */
static double play(const bench *b, int32_t steps, uint64_t seed,
                   double *deviation)
{
    const plan_role *role = &b->p->roles[0];
    ranks x = {.b = b,
               .n = role->n_ranks,
               .at_s = fs_new(b->arena, double, role->n_ranks),
               .seed = seed,
               .shape = sqrt(log1p(b->options.jitter * b->options.jitter))};
    double was = 0, mean = 0, square = 0;
    for (int32_t k = 0; k < steps; k++) {
        for (int32_t s = 0; s < role->n_slots; s++)
            for (int32_t t = 0; t < role->n_tasks; t++)
                if (plan_task_section(role, &role->tasks[t]) ==
                    plan_slot_section(role, &role->slots[s]))
                    fire(&x, &role->tasks[t], b->timing->demand[0][t].total_s);
        const double is = slowest(&x);
        mean += (is - was) / steps;
        square += (is - was) * (is - was) / steps;
        was = is;
    }
    *deviation = sqrt(fmax(square - mean * mean, 0));
    return mean;
}

static double deviation_of(const sim_result *r)
{
    double mean = 0, square = 0;
    const double n = (double)(r->last_step - r->first_step + 1);
    for (int64_t k = r->first_step; k <= r->last_step; k++) {
        mean += r->step_s[k] / n;
        square += r->step_s[k] * r->step_s[k] / n;
    }
    return sqrt(fmax(square - mean * mean, 0));
}

/* ---- */

static void test_tail(uint64_t seed)
{
    int32_t wrong = 0;
    for (int32_t i = 0; i < 10000; i++) {
        const double tail = i % 2 ? pow(10, -15 * fs_rand_unit(&seed))
                                  : 0.999999 * fs_rand_unit(&seed) + 1e-7;
        const double is = erfc(sim_normal_tail(tail) * M_SQRT1_2) / 2;
        wrong += fabs(is / tail - 1) > 1e-9;
    }
    tap_equal_int(wrong, 0,
                  "quantiles of the normal distribution: 10000 tails "
                  "come back");
}

/* Times for everything that computes: for one task, or for all. */
static void set_times(bench *b, bool one, double compute_s, double comm_s)
{
    const plan_role *role = &b->p->roles[0];
    bool set = false;
    for (int32_t t = 0; t < role->n_tasks; t++) {
        const plan_task *task = &role->tasks[t];
        double seconds = 0;
        if (task->comm >= 0)
            seconds = comm_s;
        else if (plan_task_computes(task) &&
                 (!one || (!set && task->phase == PLAN_BACKWARD)))
            seconds = compute_s;
        set = set || (seconds > 0 && task->comm < 0);
        b->timing->demand[0][t].total_s = seconds;
    }
}

/* The mean of the largest of n log-normal factors, from its quantiles. */
static double largest_of(int32_t n, double jitter)
{
    enum { POINTS = 100000 };
    const double shape = sqrt(log1p(jitter * jitter));
    double mean = 0;
    for (int32_t i = 0; i < POINTS; i++) {
        const double below = pow((i + 0.5) / POINTS, 1.0 / n);
        mean += exp(shape * sim_normal_tail(1 - below) - shape * shape / 2) /
                POINTS;
    }
    return mean;
}

/* Of so many ranks, each mesh axis with communicators of its own. */
static void test_ranks(ir_mesh mesh, bool one, double jitter, uint64_t seed)
{
    int32_t n_ranks = ir_mesh_size(&mesh);
    double quiet_s, deviation, wanted, own;
    bench b = made(1, mesh, 2, seed);
    set_times(&b, one, 1e-3, one ? 0 : 2e-4);
    b.options.steps = 4;
    quiet_s = simulate(&b);
    b.options.jitter = jitter;
    b.options.seed = seed;
    b.options.steps = one ? 4000 : 1500;
    const double is_s = simulate(&b);
    own = deviation_of(&b.result);
    wanted = play(&b, 3000, seed + 1, &deviation);
    if (one)
        wanted = 2e-3 * largest_of(n_ranks, jitter);
    printf("# %d ranks, %d communicators, jitter %g: quiet %.6g, as one rank "
           "%.6g +- %.4g, all ranks %.6g +- %.4g\n",
           n_ranks, b.p->n_comms, jitter, quiet_s, is_s, own, wanted,
           deviation);
    const double error_s =
        4 * deviation *
        (one ? sqrt(1.0 / 4000) : sqrt(1.0 / 1500 + 1.0 / 3000));
    tap_ok(fabs(is_s - wanted) <
               error_s + (one ? 0 : 0.1) * fabs(wanted - quiet_s),
           "%d ranks, %s: a step takes what it takes when all are played",
           n_ranks, one ? "one task a micro-batch" : "all tasks");
    tap_ok(fabs(own / deviation - 1) < 0.25, "and spreads as much");
    destroy(&b);
}

static void test_seeds(void)
{
    bench b = made(3, (ir_mesh){1, {2}}, 4, 7);
    for (int32_t r = 0; r < b.p->n_roles; r++)
        for (int32_t t = 0; t < b.p->roles[r].n_tasks; t++)
            b.timing->demand[r][t].total_s = 1e-4;
    b.options.steps = 50;
    const double quiet_s = simulate(&b);
    b.options.jitter = 1e-9;
    tap_near(simulate(&b), quiet_s, 1e-4,
             "next to no jitter: next to as it is");
    b.options.jitter = 0.1;
    b.options.seed = 5;
    const double one_s = simulate(&b);
    const sim_result one = b.result;
    int32_t other = 0;
    simulate(&b);
    for (int64_t k = 0; k < b.result.n_steps; k++)
        other += b.result.step_s[k] != one.step_s[k];
    tap_equal_int(other, 0, "one seed gives one run, to the bit");
    b.options.seed = 6;
    tap_ok(simulate(&b) != one_s, "another gives another");
    tap_ok(one_s > quiet_s, "jitter costs: %g s, %g s without", one_s, quiet_s);
    destroy(&b);
}

/* Who is slowed is the role that has the rank. */
static void test_straggler(void)
{
    bench b = made(2, (ir_mesh){1, {2}}, 1, 0);
    for (int32_t t = 0; t < b.p->roles[1].n_tasks; t++)
        if (b.p->roles[1].tasks[t].kind == PLAN_COMPUTE)
            b.timing->demand[1][t].total_s = 1e-3;
    b.options.steps = 1;
    const double was_s = simulate(&b);
    b.options.straggler = 2;
    tap_near(simulate(&b), was_s, 1e-9, "rank 0 has nothing to do: it may lag");
    b.options.straggler_rank = 3;
    tap_near(simulate(&b), 2 * was_s, 1e-9, "rank 3 has all of it: twice");
    destroy(&b);
}

int main(void)
{
    const uint64_t seed = tap_seed(11);
    test_tail(seed);
    test_straggler();
    test_seeds();
    test_ranks((ir_mesh){1, {8}}, true, 0.1, seed);
    test_ranks((ir_mesh){1, {8}}, true, 0.5, seed + 1);
    test_ranks((ir_mesh){1, {16}}, false, 0.1, seed + 2);
    test_ranks((ir_mesh){1, {4}}, false, 0.3, seed + 3);
    test_ranks((ir_mesh){2, {4, 4}}, false, 0.1, seed + 4);
    test_ranks((ir_mesh){2, {2, 8}}, false, 0.2, seed + 5);
    return tap_done();
}
