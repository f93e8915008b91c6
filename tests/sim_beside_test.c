/* Compute beside collectives: a device's overlap_slowdown. */
#include "plan_hand.h"

#include "sim/sim.h"

#include <inttypes.h>

static const double ms = 1e-3;

typedef struct bench {
    fs_arena *arena;
    ir_graph *g;
    hw_cluster *c;
    plan *p;
    plan_timing *timing;
} bench;

static bench overlapping(int32_t m, uint64_t seed)
{
    bench b = {.arena = fs_arena_create()};
    b.g = hand_mlp(6, 8, 8, m);
    b.c = hand_cluster(b.arena, 1, 2, 0);
    plan_strategy *s = hand_stages(b.g, 1, (ir_mesh){1, {2}}, b.arena);
    hand_signatures(b.g, s, seed, b.arena);
    b.p = hand_lower(b.g, b.c, s, true, b.arena);
    b.timing = plan_timing_new(b.p, "test", b.arena);
    return b;
}

static void destroy(bench *b)
{
    ir_graph_destroy(b->g);
    fs_arena_destroy(b->arena);
}

static double iteration_s(const bench *b, double slowdown, bool in_full)
{
    const sim_options options = {.steps = 4, .in_full = in_full};
    sim_result result;
    fs_err err = {0};
    b->c->groups[0].device.overlap_slowdown = slowdown;
    if (sim_run(b->g, b->p, b->c, b->timing, &options, b->arena, &err,
                &result) != FS_OK)
        printf("# %s\n", err.text);
    return result.iteration_s;
}

/* All of a plan takes nothing but one kernel of 1 ms and one collective of half
 * of that. Where they run at once, the kernel does 1/3 ms of its work beside
 * it, at a slowdown of 1.5, and the rest alone. */
static void test_pairs(uint64_t seed)
{
    bench b = overlapping(1, seed);
    const plan_role *role = &b.p->roles[0];
    plan_demand *demand = b.timing->demand[0];
    int32_t apart = 0, beside = 0, wrong = 0;
    for (int32_t t = 0; t < role->n_tasks; t++)
        for (int32_t k = 0; k < role->n_tasks; k++) {
            if (role->tasks[t].kind != PLAN_COMPUTE || role->tasks[k].comm < 0)
                continue;
            demand[t].total_s = 1 * ms;
            demand[k].total_s = 0.5 * ms;
            const double alone = iteration_s(&b, 0, false);
            const double slowed = iteration_s(&b, 1.5, false);
            const bool at_once = fabs(alone - 1 * ms) < 1e-8;
            beside += at_once;
            apart += !at_once;
            wrong += fabs(slowed - (at_once ? 7.0 / 6 * ms : alone)) > 1e-8;
            demand[t].total_s = demand[k].total_s = 0;
        }
    printf("# seed %" PRIu64 ": %d pairs at once, %d apart\n", seed, beside,
           apart);
    tap_ok(
        beside > 0 && apart > 0 && wrong == 0,
        "a kernel of c beside a collective of k takes k + (c - k / slowdown)");
    destroy(&b);
}

/* Does a collective of the backward pass wait for the kernel? */
static bool is_reduced(const plan_role *role, int32_t kernel)
{
    for (int32_t k = kernel + 1; k < role->n_tasks; k++)
        for (int32_t i = 0; i < role->tasks[k].n_in; i++)
            if (role->tasks[k].comm >= 0 &&
                role->tasks[k].phase == PLAN_BACKWARD &&
                role->registers[role->tasks[k].in[i]].producer == kernel)
                return true;
    return false;
}

/* A collective at the step's end, of which, and of those in front of it, all
 * inputs are made in the backward pass before that kernel runs. */
static bool is_made_before(const plan_role *role, int32_t t, int32_t kernel)
{
    bool all = role->tasks[t].comm >= 0 && role->tasks[t].phase == PLAN_END;
    for (int32_t k = 0; k <= t && all; k++) {
        const plan_task *task = &role->tasks[k];
        for (int32_t i = 0; i < task->n_in; i++) {
            const int32_t maker = role->registers[task->in[i]].producer;
            if (task->comm >= 0 && task->phase == PLAN_END)
                all = all && maker >= 0 && maker < kernel &&
                      role->tasks[maker].kind == PLAN_COMPUTE;
        }
    }
    return all;
}

/* Sums are reduced while the backward pass goes on, though it has collectives
 * of its own, which come later. */
static void test_step(uint64_t seed)
{
    int32_t pairs = 0, apart = 0;
    for (int32_t n = 0; n < 30; n++) {
        bench b = overlapping(1, fs_rand_below(&seed, 1000) + 1);
        const plan_role *role = &b.p->roles[0];
        plan_demand *demand = b.timing->demand[0];
        for (int32_t t = 0; t < role->n_tasks; t++)
            for (int32_t k = 0; k < role->n_tasks; k++) {
                if (role->tasks[t].kind != PLAN_COMPUTE ||
                    role->tasks[t].phase != PLAN_BACKWARD ||
                    !is_reduced(role, t) || !is_made_before(role, k, t))
                    continue;
                demand[t].total_s = demand[k].total_s = 1 * ms;
                pairs++;
                apart += iteration_s(&b, 0, false) > 1.5 * ms;
                demand[t].total_s = demand[k].total_s = 0;
            }
        destroy(&b);
    }
    tap_ok(pairs > 20 && apart == 0,
           "a sum is reduced beside the backward pass, before a collective of "
           "that which it does not wait for (%d of %d pairs are apart)",
           apart, pairs);
}

static void test_random(uint64_t seed)
{
    int32_t faster = 0, too_slow = 0, other = 0, slower = 0;
    for (int32_t n = 0; n < 20; n++) {
        bench b = overlapping(5, fs_rand_below(&seed, 1000) + 1);
        for (int32_t t = 0; t < b.p->roles[0].n_tasks; t++)
            b.timing->demand[0][t].total_s =
                ms * (double)(1 + fs_rand_below(&seed, 4));
        const double alone = iteration_s(&b, 0, false);
        const double slowed = iteration_s(&b, 1.3, false);
        faster += slowed < alone * (1 - 1e-9);
        slower += slowed > alone * (1 + 1e-9);
        too_slow += slowed > alone * 1.3 * (1 + 1e-9);
        other += slowed != iteration_s(&b, 1.3, true);
        destroy(&b);
    }
    printf("# %d of 20 plans are slower\n", slower);
    tap_ok(faster == 0 && slower > 0 && too_slow == 0,
           "a plan takes longer with it, and no more than that many times");
    tap_ok(other == 0, "what repeats is left out, to the same times");
}

int main(void)
{
    const uint64_t seed = tap_seed(5);
    test_pairs(seed);
    test_step(seed);
    test_random(seed);
    return tap_done();
}
