/* The critical path of random plans: it is whole, and it is the cause. */
#include "plan_hand.h"

#include "plan/schedule.h"
#include "sim/critical.h"

typedef struct bench {
    fs_arena *arena;
    ir_graph *g;
    hw_cluster *c;
    plan *p;
    plan_timing *timing;
    plan_trace trace;
    sim_options options;
    sim_result result;
    sim_critical path;
} bench;

static const char *const fixed[] = {"1f1b", "gpipe", "zb-h1"};

/* Stages of one or of two ranks, tasks of random length. */
static bench drawn(uint64_t *seed, const char *schedule, int64_t steps,
                   bool cores)
{
    const int32_t stages = 1 + (int32_t)fs_rand_below(seed, 4);
    const int32_t ranks = 1 + (int32_t)fs_rand_below(seed, 2);
    const int32_t m = 1 + (int32_t)fs_rand_below(seed, 6);
    const ir_mesh mesh = {ranks > 1, {ranks}};
    bench b = {.arena = fs_arena_create()};
    b.g = hand_mlp(8, 8, 8, m);
    b.c = hand_cluster(b.arena, 1, stages * ranks,
                       cores ? 1 + (int32_t)fs_rand_below(seed, 3) : 0);
    plan_strategy *s = hand_stages(b.g, stages, mesh, b.arena);
    s->schedule = schedule;
    hand_signatures(b.g, s, fs_rand_below(seed, 1000), b.arena);
    b.p = hand_lower(b.g, b.c, s, fs_rand_below(seed, 2) == 0, b.arena);
    b.timing = plan_timing_new(b.p, "test", b.arena);
    for (int32_t r = 0; r < b.p->n_roles; r++)
        for (int32_t t = 0; t < b.p->roles[r].n_tasks; t++) {
            plan_demand *d = &b.timing->demand[r][t];
            d->total_s = (double)fs_rand_below(seed, 9) *
                         (double)fs_rand_below(seed, 9000) * 1e-9;
            d->on_core = cores;
        }
    b.options.steps = steps;
    b.options.traced_steps = SIM_CRITICAL_STEPS;
    return b;
}

static fs_status simulate(bench *b)
{
    fs_err err = {0};
    b->trace = (plan_trace){.arena = b->arena};
    b->options.trace = &b->trace;
    fs_status status = sim_run(b->g, b->p, b->c, b->timing, &b->options,
                               b->arena, &err, &b->result);
    if (status != FS_OK)
        printf("# %s\n", err.text);
    else
        b->path =
            sim_critical_of(b->p, b->timing, &b->trace, &b->result, b->arena);
    return status;
}

static double iteration(bench *b)
{
    fs_err err = {0};
    sim_result result = {0};
    sim_options options = {.steps = b->options.steps};
    sim_run(b->g, b->p, b->c, b->timing, &options, b->arena, &err, &result);
    return result.iteration_s;
}

static void destroy(bench *b)
{
    ir_graph_destroy(b->g);
    fs_arena_destroy(b->arena);
}

static double sum_of(const sim_sum *sums)
{
    double sum = 0;
    for (int32_t k = 0; k < SIM_CLASSES; k++)
        sum += sums[k].seconds;
    return sum;
}

/* From begin to end without a gap, each link after what it waited for. */
static bool is_whole(const sim_critical *path)
{
    int64_t at_ns = path->begin_ns;
    for (int32_t i = 0; i < path->n_links; i++) {
        if (path->links[i].from_ns != at_ns)
            return false;
        at_ns = path->links[i].to_ns;
    }
    return at_ns == path->end_ns && path->why[SIM_BY_NOTHING] == 0;
}

static void test_whole(uint64_t seed)
{
    static const char *const all[] = {"1f1b", "gpipe", "zb-h1", "dynamic"};
    int32_t runs = 0, gaps = 0, sums = 0, exposed = 0, whole = 0;
    int64_t why[SIM_WHYS] = {0}, meetings = 0, links = 0;
    for (int32_t i = 0; i < 300; i++) {
        const int64_t steps = 1 + fs_rand_below(&seed, 5);
        bench b = drawn(&seed, all[i % 4], steps, i % 5 == 0);
        if (simulate(&b) != FS_OK)
            continue;
        const double t = b.result.iteration_s;
        runs++;
        gaps += !is_whole(&b.path);
        sums += fabs(sum_of(b.path.path) - t) > 1e-9 * t;
        exposed +=
            fabs(sum_of(b.path.exposed) - b.result.exposed_comm_s) > 1e-9 * t;
        for (int32_t k = 0; k < SIM_CLASSES; k++)
            whole += b.path.whole_s[k] < b.path.exposed[k].seconds - 1e-9 * t;
        for (int32_t k = 0; k < SIM_WHYS; k++)
            why[k] += b.path.why[k];
        meetings += b.path.meetings;
        links += b.path.n_links;
        destroy(&b);
    }
    printf("# %lld links waited for:", (long long)links);
    for (int32_t k = 0; k < SIM_WHYS; k++)
        printf(" %s %lld", sim_why_name((sim_why)k), (long long)why[k]);
    printf(", another rank %lld\n", (long long)meetings);
    tap_equal_int(runs, 300, "plans of four schedules, some on shared cores");
    tap_equal_int(gaps, 0,
                  "the path has no gap: each link begins when what "
                  "it waited for ended");
    tap_equal_int(sums, 0, "its classes add up to the iteration");
    tap_equal_int(exposed, 0,
                  "kinds of exposed communication add up to all "
                  "of it");
    tap_equal_int(whole, 0, "and are no more than what is communicated");
}

/* Transfers, and collectives of the step, that take nothing share no link. */
static void move_at_once(bench *b)
{
    for (int32_t r = 0; r < b->p->n_roles; r++)
        for (int32_t t = 0; t < b->p->roles[r].n_tasks; t++) {
            const plan_role *role = &b->p->roles[r];
            const plan_task *task = &role->tasks[t];
            if (task->channel >= 0 ||
                role->streams[task->stream].kind == PLAN_STREAM_STEP)
                b->timing->demand[r][t].total_s = 0;
        }
}

/* Steps before the traced ones may be left out: what is traced is the same. */
static void test_left_out(uint64_t seed)
{
    int32_t other = 0;
    int64_t skipped = 0;
    for (int32_t i = 0; i < 60; i++) {
        bench b = drawn(&seed, fixed[i % 3], 8, i % 4 == 0);
        simulate(&b);
        const sim_critical some = b.path;
        const plan_trace trace = b.trace;
        skipped += b.result.skipped;
        b.options.in_full = true;
        simulate(&b);
        bool same = trace.events.n == b.trace.events.n &&
                    some.n_links == b.path.n_links;
        for (int32_t k = 0; same && k < some.n_links; k++)
            same = some.links[k].event == b.path.links[k].event &&
                   some.links[k].why == b.path.links[k].why &&
                   some.links[k].to_ns - some.begin_ns ==
                       b.path.links[k].to_ns - b.path.begin_ns;
        other += !same;
        destroy(&b);
    }
    printf("# %lld events were left out\n", (long long)skipped);
    tap_ok(skipped > 0, "steps that repeat are left out");
    tap_equal_int(other, 0, "the path is that of a run in full");
}

/* Where the order is fixed and nothing is shared, time is a maximum of sums:
 * what is on the path makes it longer by all of its own, what is not on it
 * makes it no shorter. */
static void test_cause(uint64_t seed)
{
    const double little_s = 1e-6;
    int32_t longer = 0, shorter = 0, on = 0, off = 0;
    for (int32_t i = 0; i < 60; i++) {
        bench b = drawn(&seed, fixed[i % 3], 1, false);
        move_at_once(&b);
        if (simulate(&b) != FS_OK)
            continue;
        const double was_s = b.result.iteration_s;
        for (int32_t r = 0; r < b.p->n_roles; r++)
            for (int32_t t = 0; t < b.p->roles[r].n_tasks; t++) {
                double *d = &b.timing->demand[r][t].total_s;
                const double own_s = *d;
                int64_t firings = 0;
                for (int32_t k = 0; k < b.path.n_tasks; k++)
                    if (b.path.tasks[k].role == r && b.path.tasks[k].task == t)
                        firings = b.path.tasks[k].sum.firings;
                const plan_task *task = &b.p->roles[r].tasks[t];
                const bool meets = task->comm >= 0 || task->channel >= 0;
                *d = firings && !meets ? own_s + little_s : 0;
                const double is_s = iteration(&b);
                *d = own_s;
                if (meets)
                    continue; /* as long as the longest member says */
                on += firings > 0;
                off += firings == 0;
                longer += firings > 0 &&
                          is_s < was_s + (double)firings * little_s - 1e-12;
                shorter += firings == 0 && is_s < was_s - 1e-12;
            }
        destroy(&b);
    }
    printf("# %d tasks on paths, %d off them\n", on, off);
    tap_ok(on > 100 && off > 100, "tasks on and off the path are met");
    tap_equal_int(longer, 0,
                  "a task on the path 1 us longer: the step is "
                  "longer by as much as it fires there");
    tap_equal_int(shorter, 0,
                  "a task off the path that takes nothing: the "
                  "step is no shorter");
}

/* Of each role: the most that classes add up to. */
static int64_t most_live(const bench *b, const plan_role *role)
{
    int64_t most = 0;
    for (int32_t i = 0; i < b->trace.live.n; i++) {
        const plan_live *live = &b->trace.live.at[i];
        int64_t sum = 0;
        for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
            sum += live->bytes[k] >= 0 ? live->bytes[k] : INT64_MIN / 8;
        if (live->rank == role->first_rank && sum > most)
            most = sum;
    }
    return most;
}

static void test_live(uint64_t seed)
{
    int32_t unequal = 0, above = 0;
    for (int32_t i = 0; i < 60; i++) {
        const int64_t steps = 1 + i % 4;
        bench b = drawn(&seed, fixed[i % 3], steps, i % 5 == 0);
        b.options.live = true;
        b.options.traced_steps = i % 2 ? steps : 1;
        if (simulate(&b) != FS_OK)
            continue;
        for (int32_t r = 0; r < b.p->n_roles; r++) {
            const plan_role *role = &b.p->roles[r];
            const int64_t peak = b.result.stages[role->stages[0]].peak_bytes;
            const int64_t most = most_live(&b, role);
            unequal += b.options.traced_steps == steps && most != peak;
            above += most > peak;
        }
        destroy(&b);
    }
    tap_equal_int(unequal, 0,
                  "live bytes by class add up to the peak, where "
                  "all steps are traced");
    tap_equal_int(above, 0, "and are no more where the last is");
}

static void test_chain(uint64_t seed)
{
    bench b = drawn(&seed, "1f1b", 4, false);
    simulate(&b);
    plan_trace empty = {.arena = b.arena};
    const sim_critical none =
        sim_critical_of(b.p, b.timing, &empty, &b.result, b.arena);
    tap_equal_int(none.n_links, 0, "an empty trace has no path");
    destroy(&b);
}

int main(void)
{
    const uint64_t seed = tap_seed(20);
    test_whole(seed);
    test_cause(seed + 1);
    test_left_out(seed + 4);
    test_live(seed + 2);
    test_chain(seed + 3);
    return tap_done();
}
