#include "config.h"

#include "plan/memory.h"
#include "plan/schedule.h"

#include "plan_live.h"
#include "tap.h"

/* A role by hand: one tensor per register, tasks on the compute stream. */
typedef struct toy {
    fs_arena *arena;
    ir_graph *graph;
    plan_role role;
    int32_t in_flight;
} toy;

static toy toy_make(const char *schedule, int32_t stage, int32_t p, int32_t m)
{
    toy y = {.arena = fs_arena_create()};

    y.graph = fs_new(y.arena, ir_graph, 1);
    y.graph->micro_batches = m;
    y.role.n_slots = 2 * m + 2;
    y.role.slots = fs_new(y.arena, plan_slot, y.role.n_slots);
    y.role.slots[0] = (plan_slot){PLAN_BEGIN, 0, 0};
    plan_schedule_find(schedule)->fill(&(plan_turn){stage, p, 1, m},
                                       y.role.slots + 1);
    y.role.n_chunks = 1;
    y.role.stages = fs_new(y.arena, int32_t, 1);
    y.role.slots[2 * m + 1] = (plan_slot){PLAN_END, m - 1, 0};
    y.in_flight = plan_schedule_in_flight(y.role.slots + 1, 2 * m);
    y.role.tasks = fs_new(y.arena, plan_task, 400);
    y.role.registers = fs_new(y.arena, plan_register, 400);
    y.role.n_streams = 1;
    y.role.streams = fs_new(y.arena, plan_stream, 1);
    return y;
}

/* A task with one out-register of `bytes`; returns both numbers (equal). */
static int32_t toy_task(toy *y, plan_phase phase, int64_t bytes, bool per_step)
{
    int32_t id = y->role.n_tasks++;
    plan_task *t = &y->role.tasks[id];
    ir_tensor tensor = {.role = IR_ACTIVATION};

    *t = (plan_task){.kind = PLAN_COMPUTE, .phase = phase, .n_out = 1};
    t->in = fs_new(y->arena, int32_t, IR_MAX_IN);
    t->out = fs_new(y->arena, int32_t, 1);
    t->out[0] = id;
    fs_push(y->arena, &y->graph->tensors, tensor);
    y->role.registers[y->role.n_registers++] =
        (plan_register){.tensor = id,
                        .bytes = bytes * PLAN_ALIGN,
                        .count = 1,
                        .per_step = per_step,
                        .producer = id,
                        .consumers = fs_new(y->arena, int32_t, 400)};
    return id;
}

static void toy_read(toy *y, int32_t task, int32_t reg)
{
    plan_register *r = &y->role.registers[reg];

    for (int32_t c = 0; c < r->n_consumers; c++)
        if (r->consumers[c] == task)
            return;
    r->consumers[r->n_consumers++] = task;
    y->role.tasks[task].in[y->role.tasks[task].n_in++ % IR_MAX_IN] = reg;
    if (!r->per_step && y->role.tasks[r->producer].phase == PLAN_FORWARD &&
        y->role.tasks[task].phase == PLAN_BACKWARD)
        r->count = y->in_flight;
}

static fs_status toy_assign(toy *y, bool share)
{
    fs_err err = {0};

    return plan_memory_assign(y->graph, (plan_memory_wish){.share = share},
                              y->arena, &err, &y->role);
}

/* Forward tasks that read the last few, backward ones that read both kinds,
 * sums of gradients, updates. */
static void toy_fill(toy *y, uint64_t *seed, int32_t n)
{
    int32_t forward[100], backward[100], sums[100];
    int32_t n_f = 0, n_b = 0, n_s = 0;

    for (int32_t i = 0; i < n; i++) {
        int32_t t = toy_task(y, PLAN_FORWARD, 1 + fs_rand_below(seed, 20), 0);
        for (int32_t k = 0; k < 2 && n_f > 0; k++)
            toy_read(y, t,
                     forward[n_f - 1 - fs_rand_below(seed, n_f < 3 ? n_f : 3)]);
        forward[n_f++] = t;
    }
    for (int32_t i = 0; i < n; i++) {
        bool sum = fs_rand_below(seed, 4) == 0;
        int32_t t =
            toy_task(y, PLAN_BACKWARD, 1 + fs_rand_below(seed, 20), sum);
        toy_read(y, t, forward[fs_rand_below(seed, n_f)]);
        if (n_b > 0)
            toy_read(y, t, backward[n_b - 1]);
        if (sum)
            sums[n_s++] = t;
        else
            backward[n_b++] = t;
        y->role.tasks[t].scratch_bytes = fs_rand_below(seed, 3000);
    }
    for (int32_t i = 0; i < n_s; i++)
        toy_read(y, toy_task(y, PLAN_END, 1 + fs_rand_below(seed, 20), 1),
                 sums[i]);
}

static void test_random(uint64_t seed)
{
    int32_t clashes = 0, faults = 0, sums = 0, below = 0, worse = 0, wrong = 0;
    double gap = 0, largest = 0;
    int32_t runs = 300;

    for (int32_t i = 0; i < runs; i++) {
        int32_t p = 1 + (int32_t)fs_rand_below(&seed, 4);
        int32_t m = 1 + (int32_t)fs_rand_below(&seed, 7);
        toy y = toy_make(fs_rand_below(&seed, 2) ? "1f1b" : "gpipe",
                         (int32_t)fs_rand_below(&seed, p), p, m);
        int64_t most, alone;
        toy_fill(&y, &seed, 2 + (int32_t)fs_rand_below(&seed, 20));
        toy_assign(&y, false);
        alone = y.role.arena_bytes;
        faults += live_own_faults(&y.role) > 0;
        toy_assign(&y, true);
        faults += live_own_faults(&y.role) > 0;
        clashes += live_clashes(&y.role, m, 8, &most) > 0;
        sums += live_bytes_sum(&y.role) != y.role.arena_bytes;
        below += y.role.arena_bytes < y.role.bound_bytes;
        worse += y.role.arena_bytes > alone;
        wrong += y.role.bound_bytes != most + y.role.bytes[PLAN_BYTES_SCRATCH];
        gap += (double)y.role.arena_bytes / (double)y.role.bound_bytes - 1;
        largest =
            fmax(largest,
                 (double)y.role.arena_bytes / (double)y.role.bound_bytes - 1);
        fs_arena_destroy(y.arena);
    }
    tap_equal_int(clashes, 0, "no two live pieces share a byte");
    tap_equal_int(faults, 0,
                  "buffers are aligned, inside the arena, apart "
                  "when they are meant to be");
    tap_equal_int(sums, 0, "the kinds add up to the arena");
    tap_equal_int(wrong, 0, "the bound is the most bytes live at once");
    tap_equal_int(below, 0, "no arena is below its bound");
    tap_equal_int(worse, 0, "sharing never needs more");
    tap_ok(gap / runs < 0.05,
           "random programs: gap to the bound %.1f %% on "
           "average (largest %.1f %%)",
           100 * gap / runs, 100 * largest);
}

/* f_1 .. f_n, b_n .. b_1; b_i reads f_i and b_(i+1): a network's shape. */
static void test_chain(void)
{
    toy y = toy_make("1f1b", 0, 2, 4);
    int32_t n = 24, forward[24], before = -1;
    int64_t most;

    for (int32_t i = 0; i < n; i++) {
        forward[i] = toy_task(&y, PLAN_FORWARD, 4 + i % 5, false);
        if (i > 0)
            toy_read(&y, forward[i], forward[i - 1]);
    }
    for (int32_t i = n - 1; i >= 0; i--) {
        int32_t t = toy_task(&y, PLAN_BACKWARD, 4 + i % 5, false);
        toy_read(&y, t, forward[i]);
        if (before >= 0)
            toy_read(&y, t, before);
        before = t;
    }
    toy_assign(&y, true);
    tap_equal_int(live_clashes(&y.role, 4, 4, &most), 0,
                  "a chain with 2 micro-batches in flight has no clash");
    tap_ok((double)y.role.arena_bytes <= 1.04 * (double)y.role.bound_bytes,
           "its arena (%lld) is within 4 %% of the bound (%lld)",
           (long long)y.role.arena_bytes, (long long)y.role.bound_bytes);
    fs_arena_destroy(y.arena);
}

static void test_temporaries(void)
{
    toy y = toy_make("gpipe", 0, 1, 3);
    int32_t a = toy_task(&y, PLAN_FORWARD, 7, false), b, c;

    b = toy_task(&y, PLAN_FORWARD, 3, false);
    toy_read(&y, b, a);
    c = toy_task(&y, PLAN_FORWARD, 7, false);
    toy_read(&y, c, b);
    toy_assign(&y, true);
    tap_equal_int(y.role.arena_bytes, 10 * PLAN_ALIGN,
                  "a temporary takes the place of one that is dead");
    tap_equal_int(y.role.registers[c].offset[0], y.role.registers[a].offset[0],
                  "the same place");
    fs_arena_destroy(y.arena);
}

static void test_overflow(void)
{
    toy y = toy_make("gpipe", 0, 1, 1);

    toy_task(&y, PLAN_FORWARD, INT64_MAX / PLAN_ALIGN - 1, false);
    toy_task(&y, PLAN_FORWARD, INT64_MAX / PLAN_ALIGN - 1, false);
    tap_equal_int(toy_assign(&y, true), FS_INVALID,
                  "sizes whose sum overflows are refused");
    fs_arena_destroy(y.arena);
}

int main(void)
{
    test_temporaries();
    test_chain();
    test_random(tap_seed(7));
    test_overflow();
    return tap_done();
}
