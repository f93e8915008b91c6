#include "plan_hand.h"

#include "sim/sim.h"

static const double ms = 1e-3;

typedef struct bench {
    fs_arena *arena;
    ir_graph *g;
    hw_cluster *c;
    plan *p;
    plan_timing *timing;
    sim_options options;
    sim_result result;
    fs_err err;
} bench;

/* On p roles of `chunks` stages each; offsets are of no account here, and slow.
 */
static bench chunked(int32_t p, int32_t chunks, int32_t m, const char *schedule)
{
    plan_lower_options options = plan_lower_defaults();
    options.share_memory = false;
    bench b = {.arena = fs_arena_create(), .options = {.steps = 4}};
    b.g = hand_mlp(4 * p * chunks, 8, 8, m);
    b.c = hand_cluster(b.arena, 1, p, 0);
    plan_strategy *s = hand_stages(b.g, p * chunks, (ir_mesh){0, {0}}, b.arena);
    hand_place(s, schedule, p);
    hand_signatures(b.g, s, 0, b.arena);
    b.p = hand_lower_by(b.g, b.c, s, &options, b.arena);
    b.timing = plan_timing_new(b.p, "test", b.arena);
    return b;
}

static bench lowered(int32_t stages, ir_mesh mesh, int32_t m, int32_t cores,
                     const char *schedule)
{
    bench b = {.arena = fs_arena_create(), .options = {.steps = 4}};
    b.g = hand_mlp(8, 8, 8, m);
    b.c = hand_cluster(b.arena, 1, stages * ir_mesh_size(&mesh), cores);
    plan_strategy *s = hand_stages(b.g, stages, mesh, b.arena);
    s->schedule = schedule;
    hand_signatures(b.g, s, 0, b.arena);
    b.p = hand_lower(b.g, b.c, s, false, b.arena);
    b.timing = plan_timing_new(b.p, "test", b.arena);
    return b;
}

static void destroy(bench *b)
{
    ir_graph_destroy(b->g);
    fs_arena_destroy(b->arena);
}

static fs_status simulate(bench *b)
{
    b->err = (fs_err){0};
    fs_status status = sim_run(b->g, b->p, b->c, b->timing, &b->options,
                               b->arena, &b->err, &b->result);
    if (status != FS_OK)
        printf("# %s\n", b->err.text);
    return status;
}

/* `seconds` for the first compute task of a phase. */
static void set_first(bench *b, int32_t role, plan_phase phase, double seconds)
{
    const plan_role *r = &b->p->roles[role];
    for (int32_t t = 0; t < r->n_tasks; t++)
        if (r->tasks[t].phase == phase && r->tasks[t].kind == PLAN_COMPUTE) {
            b->timing->demand[role][t].total_s = seconds;
            return;
        }
}

/* `seconds` for one compute task of every chunk's phase. */
static void set_phase(bench *b, plan_phase phase, double seconds)
{
    for (int32_t r = 0; r < b->p->n_roles; r++) {
        const plan_role *role = &b->p->roles[r];
        for (int32_t c = 0, t; c < role->n_chunks; c++) {
            for (t = 0; t < role->n_tasks; t++)
                if (role->tasks[t].phase == phase &&
                    role->tasks[t].kind == PLAN_COMPUTE &&
                    role->tasks[t].chunk == c)
                    break;
            if (t == role->n_tasks)
                printf("# nothing to compute in %s of chunk %d, role %d\n",
                       plan_phase_name(phase), c, r);
            else
                b->timing->demand[r][t].total_s = seconds;
        }
    }
}

static void set_on_core(bench *b)
{
    for (int32_t r = 0; r < b->p->n_roles; r++)
        for (int32_t t = 0; t < b->p->roles[r].n_tasks; t++)
            b->timing->demand[r][t].on_core = true;
}

static const ir_mesh single = {0, {0}};

static void test_chain(uint64_t seed)
{
    bench b = lowered(1, single, 3, 0, "1f1b");
    const plan_role *r = &b.p->roles[0];
    double sum_s = 0;
    set_first(&b, 0, PLAN_END, 5 * ms);
    tap_equal_int(simulate(&b), FS_OK, "a plan of one rank runs");
    tap_near(b.result.iteration_s, 5 * ms, 1e-12, "one op: its own time");
    for (int32_t t = 0; t < r->n_tasks; t++) {
        bool once =
            r->tasks[t].phase == PLAN_END || r->tasks[t].phase == PLAN_BEGIN;
        double seconds = (double)fs_rand_below(&seed, 100000) * 1e-9;
        if (r->tasks[t].kind == PLAN_LOAD)
            seconds = 0;
        b.timing->demand[0][t].total_s = seconds;
        sum_s += seconds * (once ? 1 : 3);
    }
    simulate(&b);
    tap_near(b.result.iteration_s, sum_s, 1e-9, "a chain: the sum of its ops");
    tap_near(b.result.stages[0].busy_s, sum_s, 1e-9, "a chain is busy always");
    tap_ok(b.result.bubble < 1e-9, "a chain has no bubble");
    b.options.straggler = 2;
    simulate(&b);
    tap_near(b.result.iteration_s, 2 * sum_s, 1e-9,
             "a straggler of 2 doubles it");
    destroy(&b);
}

/* Data loading runs beside compute and hides behind it, or the reverse. */
static void test_load(void)
{
    bench b = lowered(1, single, 2, 0, "1f1b");
    set_first(&b, 0, PLAN_FORWARD, 4 * ms);
    for (int32_t t = 0; t < b.p->roles[0].n_tasks; t++)
        if (b.p->roles[0].tasks[t].kind == PLAN_LOAD)
            b.timing->demand[0][t].total_s = 1 * ms;
    b.options.steps = 6;
    simulate(&b);
    tap_near(b.result.iteration_s, 8 * ms, 1e-9,
             "loading hides behind compute");
    for (int32_t t = 0; t < b.p->roles[0].n_tasks; t++)
        if (b.p->roles[0].tasks[t].kind == PLAN_LOAD)
            b.timing->demand[0][t].total_s = 5 * ms;
    simulate(&b);
    tap_near(b.result.iteration_s, 20 * ms, 1e-9,
             "slow loading sets the pace: two inputs of two micro-batches");
    destroy(&b);
}

static void test_bubble(void)
{
    static const char *const schedules[] = {"gpipe", "1f1b"};
    int64_t peak[2] = {0};
    for (int32_t k = 0; k < 2; k++)
        for (int32_t stages = 2; stages <= 4; stages++)
            for (int32_t m = stages; m <= 8; m += 2) {
                bench b = lowered(stages, single, m, 0, schedules[k]);
                for (int32_t r = 0; r < stages; r++) {
                    set_first(&b, r, PLAN_FORWARD, 1 * ms);
                    set_first(&b, r, PLAN_BACKWARD, 2 * ms);
                }
                simulate(&b);
                double p = stages, n = m;
                tap_near(b.result.bubble, (p - 1) / (n + p - 1), 1e-9,
                         "%s, %d stages, %d micro-batches: bubble "
                         "(p-1)/(m+p-1)",
                         schedules[k], stages, m);
                tap_near(b.result.iteration_s, (n + p - 1) * 3 * ms, 1e-9,
                         "and an iteration of (m+p-1)(f+b)");
                if (stages == 2 && m == 8)
                    peak[k] = b.result.stages[0].peak_bytes;
                destroy(&b);
            }
    tap_ok(peak[1] < peak[0], "1f1b keeps less alive than gpipe");
}

/* What a bench's plan is proven to be. */
static bool proven(const bench *b)
{
    plan_report report;
    bool sound = plan_check(b->g, b->c, b->p, b->arena, &report) == FS_OK;
    if (!sound)
        printf("# %s\n", report.findings[0].text);
    return sound;
}

/* The bubble of p roles with v chunks each is that of 1f1b divided by v. */
static void test_interleaved(void)
{
    for (int32_t p = 1; p <= 4; p++)
        for (int32_t v = 1; v <= 3; v++) {
            int32_t wrong = 0, dead = 0;
            for (int32_t m = 1; m <= 2 * p; m++) {
                bench b = chunked(p, v, m, "interleaved");
                double n = m, f = 1.2 * ms, back = 2.4 * ms;
                set_phase(&b, PLAN_FORWARD, f / v);
                set_phase(&b, PLAN_BACKWARD, back / v);
                dead += !proven(&b) || simulate(&b) != FS_OK;
                double due = n * (f + back) + (p - 1) * (f + back) / v;
                wrong += m % p == 0 && fabs(b.result.iteration_s - due) > 1e-9;
                destroy(&b);
            }
            tap_equal_int(dead, 0, "interleaved, %d roles of %d: every m runs",
                          p, v);
            tap_equal_int(wrong, 0,
                          "and takes m (f+b) + (p-1) (f+b) / v when p divides "
                          "m");
        }
}

/* Slots of a chunk last f, b, w; the iteration beyond m times the work of all
 * chunks is what the papers give. */
static void test_zero_bubble(void)
{
    static const struct {
        const char *schedule;
        int32_t chunks;
        double f, b, w;    /* ms */
        double bf, bb, bw; /* bubble / (p - 1) */
    } cases[] = {{"zb-h1", 1, 2, 3, 1, 1, 1, -1},
                 {"zb-h1", 1, 1, 1, 1, 1, 1, -1},
                 {"zb-h2", 1, 2, 3, 1, 1, 1, -2},
                 {"zb-h2", 1, 1, 1, 1, 1, 1, -2},
                 {"zb-v", 2, 1, 1, 1, 0, 0, 0}};
    for (int32_t k = 0; k < 5; k++) {
        int32_t wrong = 0, dead = 0, n = 0;
        double f = cases[k].f * ms, back = cases[k].b * ms, w = cases[k].w * ms;
        for (int32_t p = 1; p <= 4; p++)
            for (int32_t m = 1; m <= 2 * p + 1; m++, n++) {
                bench b = chunked(p, cases[k].chunks, m, cases[k].schedule);
                set_phase(&b, PLAN_FORWARD, f);
                set_phase(&b, PLAN_BACKWARD, back);
                set_phase(&b, PLAN_WEIGHT, w);
                dead += !proven(&b) || simulate(&b) != FS_OK;
                double due = cases[k].chunks * m * (f + back + w) +
                             (p - 1) * (cases[k].bf * f + cases[k].bb * back +
                                        cases[k].bw * w);
                wrong += m >= 2 * p && fabs(b.result.iteration_s - due) > 1e-9;
                destroy(&b);
            }
        tap_equal_int(dead, 0, "%s: %d pipelines are proven and run",
                      cases[k].schedule, n);
        tap_equal_int(wrong, 0,
                      "%s with f, b, w of %g, %g, %g ms takes what is "
                      "published when m >= 2 p",
                      cases[k].schedule, cases[k].f, cases[k].b, cases[k].w);
    }
}

/* Registers that follow from what a role receives or loads up to a phase, or,
 * where it receives in that phase, from that alone. */
static bool *mark_followers(const plan_role *r, plan_phase phase,
                            fs_arena *arena)
{
    bool *marked = fs_new(arena, bool, r->n_registers), receives = false;
    for (int32_t t = 0; t < r->n_tasks; t++)
        receives = receives || (r->tasks[t].kind == PLAN_RECV &&
                                r->tasks[t].phase == phase);
    for (int32_t t = 0; t < r->n_tasks; t++) {
        const plan_task *task = &r->tasks[t];
        bool follows = receives
                           ? task->kind == PLAN_RECV && task->phase == phase
                           : task->n_in == 0 && task->kind != PLAN_COMPUTE;
        for (int32_t i = 0; i < task->n_in; i++)
            follows = follows || marked[task->in[i]];
        for (int32_t i = 0; follows && i < task->n_out; i++)
            marked[task->out[i]] = true;
    }
    return marked;
}

/* `seconds` for the first kernel of a phase that waits for what comes from
 * elsewhere: no order can bring it forward. */
static void set_waiting(bench *b, int32_t role, plan_phase phase,
                        double seconds)
{
    const plan_role *r = &b->p->roles[role];
    bool *marked = mark_followers(r, phase, b->arena);
    for (int32_t t = 0; t < r->n_tasks; t++) {
        const plan_task *task = &r->tasks[t];
        if (task->phase != phase || task->kind != PLAN_COMPUTE)
            continue;
        for (int32_t i = 0; i < task->n_in; i++)
            if (marked[task->in[i]]) {
                b->timing->demand[role][t].total_s = seconds;
                return;
            }
    }
}

static double iteration_of(const char *schedule, int32_t stages, int32_t m,
                           double times[][2], int32_t *dead)
{
    bench b = lowered(stages, single, m, 0, schedule);
    for (int32_t r = 0; r < stages; r++) {
        set_waiting(&b, r, PLAN_FORWARD, times[r][0] * ms);
        set_waiting(&b, r, PLAN_BACKWARD, times[r][1] * ms);
    }
    *dead += !proven(&b) || simulate(&b) != FS_OK;
    double seconds = b.result.iteration_s;
    destroy(&b);
    return seconds;
}

/* Equal stages take what 1f1b takes; uneven ones are where an order that
 * emerges may be better than a fixed one. */
static void test_dynamic(uint64_t seed)
{
    double even[4][2] = {{1, 2}, {1, 2}, {1, 2}, {1, 2}};
    int32_t dead = 0, wrong = 0, n = 0, better = 0, worse = 0, uneven = 60;
    double best = 1, worst = 1;
    for (int32_t p = 1; p <= 4; p++)
        for (int32_t m = 1; m <= 8; m++, n++)
            wrong += fabs(iteration_of("dynamic", p, m, even, &dead) -
                          (m + p - 1) * 3 * ms) > 1e-9;
    tap_equal_int(wrong, 0,
                  "dynamic: %d pipelines of equal stages take (m+p-1)(f+b)", n);
    for (int32_t i = 0; i < uneven; i++) {
        int32_t p = 2 + (int32_t)fs_rand_below(&seed, 3);
        int32_t m = p + (int32_t)fs_rand_below(&seed, 8);
        double times[4][2];
        for (int32_t r = 0; r < 4; r++)
            for (int32_t k = 0; k < 2; k++)
                times[r][k] = 1 + (double)fs_rand_below(&seed, 9);
        double fixed = iteration_of("1f1b", p, m, times, &dead);
        double ratio = iteration_of("dynamic", p, m, times, &dead) / fixed;
        better += ratio < 1 - 1e-9;
        worse += ratio > 1 + 1e-9;
        best = fmin(best, ratio);
        worst = fmax(worst, ratio);
    }
    printf("# %d uneven pipelines: %d faster than under 1f1b (%.3f at best), "
           "%d slower (%.3f at worst)\n",
           uneven, better, best, worse, worst);
    tap_equal_int(dead, 0, "all are proven and run");
    tap_ok(better > worse, "uneven stages gain more often than they lose");
}

static void test_cores(void)
{
    double seconds[2];
    for (int32_t k = 0; k < 2; k++) {
        bench b = lowered(1, (ir_mesh){1, {4}}, 2, k ? 2 : 4, "1f1b");
        set_first(&b, 0, PLAN_FORWARD, 1 * ms);
        set_first(&b, 0, PLAN_BACKWARD, 2 * ms);
        set_on_core(&b);
        simulate(&b);
        seconds[k] = b.result.iteration_s;
        destroy(&b);
    }
    tap_near(seconds[0], 6 * ms, 1e-9,
             "four ranks on four cores share nothing");
    tap_near(seconds[1], 12 * ms, 1e-9, "four ranks on two cores take twice");
}

/* One stage of two ranks as two roles, without a collective. */
static void split_roles(bench *b)
{
    plan *p = hand_copy(b->p, b->arena), *q = hand_copy(b->p, b->arena);
    p->n_roles = 2;
    p->roles = fs_new(b->arena, plan_role, 2);
    p->roles[0] = b->p->roles[0];
    p->roles[1] = q->roles[0];
    p->roles[0].n_ranks = b->p->roles[0].n_ranks / 2;
    p->roles[1].first_rank = p->roles[1].n_ranks = p->roles[0].n_ranks;
    b->p = p;
    b->timing = plan_timing_new(p, "test", b->arena);
}

static void test_uneven_cores(void)
{
    bench b = lowered(1, (ir_mesh){1, {2}}, 1, 1, "1f1b");
    split_roles(&b);
    set_first(&b, 0, PLAN_END, 1 * ms);
    set_first(&b, 1, PLAN_END, 3 * ms);
    set_on_core(&b);
    b.options.steps = 1;
    simulate(&b);
    tap_near(b.result.iteration_s, 4 * ms, 1e-9,
             "1 and 3 ms on one core: the short one ends at 2, the long at 4");
    plan_trace trace = {.arena = b.arena};
    b.options.trace = &trace;
    simulate(&b);
    int64_t end_ns = 0;
    for (int32_t i = 0; i < trace.events.n; i++)
        if (trace.events.at[i].rank == 0 && trace.events.at[i].end_ns > end_ns)
            end_ns = trace.events.at[i].end_ns;
    tap_equal_int(end_ns, 2000000, "the trace tells the short one's end");
    destroy(&b);
}

/* Four stages of one rank on two cores: 0 and 2 share one, 1 and 3 the other.
 */
static void test_bound_cores(void)
{
    bench b = lowered(4, (ir_mesh){1, {1}}, 1, 2, "1f1b");
    for (int32_t r = 0; r < 4; r++)
        set_first(&b, r, PLAN_END, r == 0 || r == 2 ? 2 * ms : 1e-9);
    set_on_core(&b);
    b.options.steps = 1;
    simulate(&b);
    tap_near(b.result.iteration_s, 4 * ms, 1e-5,
             "ranks bound to one core share it while the other is free");
    destroy(&b);
}

/* Ranks that meet in a collective go at the pace of the slower. */
static void test_meeting(void)
{
    bench b = {.arena = fs_arena_create(), .options = {.steps = 4}};
    ir_mesh mesh = {1, {4}};
    b.g = hand_mlp(2, 8, 8, 1);
    b.c = hand_cluster(b.arena, 1, 4, 0);
    plan_strategy *s = hand_stages(b.g, 1, mesh, b.arena);
    int32_t meetings = 0;
    for (uint64_t seed = 1; meetings == 0; seed++) {
        hand_signatures(b.g, s, seed, b.arena);
        b.p = hand_lower(b.g, b.c, s, false, b.arena);
        for (int32_t t = 0; t < b.p->roles[0].n_tasks; t++)
            meetings += b.p->roles[0].tasks[t].comm >= 0;
    }
    split_roles(&b);
    set_first(&b, 0, PLAN_FORWARD, 1 * ms);
    set_first(&b, 1, PLAN_FORWARD, 4 * ms);
    for (int32_t r = 0; r < 2; r++)
        for (int32_t t = 0; t < b.p->roles[r].n_tasks; t++)
            if (b.p->roles[r].tasks[t].comm >= 0)
                b.timing->demand[r][t].total_s = 0.5 * ms;
    simulate(&b);
    tap_near(b.result.iteration_s, (4 + 0.5 * meetings) * ms, 1e-9,
             "collectives couple ranks: the slower sets the pace");
    tap_near(b.result.stages[0].comm_s, 0.5 * meetings * ms, 1e-9,
             "time in collectives is told");
    tap_near(b.result.exposed_comm_s, 0.5 * meetings * ms, 1e-9,
             "and exposed on one stream");
    destroy(&b);
}

/* ---- transfers: `n` channels from[i] -> to[i], stages of one rank ---- */

static void add_transfer(plan_role *r, plan_task_kind kind, int32_t channel,
                         fs_arena *arena)
{
    int32_t i = r->n_tasks++;
    r->tasks[i] = (plan_task){.kind = kind,
                              .phase = PLAN_FORWARD,
                              .node = -1,
                              .comm = -1,
                              .channel = channel,
                              .stream = i};
    hand_take_registers(&r->tasks[i], arena);
    r->streams[r->n_streams++] = (plan_stream){
        kind == PLAN_SEND ? PLAN_STREAM_SEND : PLAN_STREAM_RECV, channel};
    plan_register *g = &r->registers[r->n_registers++];
    *g = (plan_register){.count = 1, .bytes = 256, .producer = -1};
    if (kind == PLAN_SEND) {
        r->tasks[i].in[r->tasks[i].n_in++] = i;
        g->persistent = true;
    } else {
        r->tasks[i].out[r->tasks[i].n_out++] = i;
        g->producer = i;
    }
}

static bench transfers(int32_t stages, int32_t n, const int32_t (*ends)[2],
                       const double *seconds, int32_t nodes)
{
    bench b = {.arena = fs_arena_create(), .options = {.steps = 1}};
    b.g = hand_mlp(1, 4, 4, 1);
    b.c = hand_cluster(b.arena, nodes, stages / nodes, 0);
    plan_strategy *s = plan_strategy_new(b.g, stages, b.arena);
    plan *p = b.p = fs_new(b.arena, plan, 1);
    p->strategy = s;
    p->micro_batches = 1;
    p->n_roles = stages;
    p->n_channels = n;
    p->roles = fs_new(b.arena, plan_role, stages);
    p->channels = fs_new(b.arena, plan_channel, n);
    for (int32_t i = 0; i < stages; i++) {
        plan_role *r = &p->roles[i];
        s->stages[i].first_device = i;
        *r = (plan_role){.n_chunks = 1,
                         .stages = fs_new(b.arena, int32_t, 1),
                         .first_rank = i,
                         .n_ranks = 1,
                         .n_slots = 1,
                         .arena_bytes = 4096};
        r->tasks = fs_new(b.arena, plan_task, n);
        r->streams = fs_new(b.arena, plan_stream, n);
        r->registers = fs_new(b.arena, plan_register, n);
        r->slots = fs_new(b.arena, plan_slot, 1);
        r->slots[0].phase = PLAN_FORWARD;
        r->stages[0] = i;
    }
    for (int32_t i = 0; i < n; i++) {
        p->channels[i] = (plan_channel){ends[i][0], ends[i][1]};
        add_transfer(&p->roles[ends[i][0]], PLAN_SEND, i, b.arena);
        add_transfer(&p->roles[ends[i][1]], PLAN_RECV, i, b.arena);
    }
    b.timing = plan_timing_new(p, "test", b.arena);
    for (int32_t r = 0; r < stages; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++)
            b.timing->demand[r][t].total_s =
                seconds[p->roles[r].tasks[t].channel];
    return b;
}

static double transfer_s(int32_t stages, int32_t n, const int32_t (*ends)[2],
                         const double *seconds, int32_t nodes)
{
    bench b = transfers(stages, n, ends, seconds, nodes);
    simulate(&b);
    double result = b.result.iteration_s;
    destroy(&b);
    return result;
}

static void test_links(void)
{
    static const int32_t fan[2][2] = {{0, 1}, {0, 2}};
    static const int32_t apart[2][2] = {{0, 1}, {2, 3}};
    static const int32_t back[2][2] = {{0, 1}, {1, 0}};
    static const int32_t across[2][2] = {{0, 2}, {1, 3}};
    const double equal[2] = {1 * ms, 1 * ms}, uneven[2] = {1 * ms, 3 * ms};
    tap_near(transfer_s(4, 1, fan, equal, 1), 1 * ms, 1e-9,
             "one transfer takes its own time");
    tap_near(transfer_s(4, 2, fan, equal, 1), 2 * ms, 1e-9,
             "two transfers on one link take twice");
    tap_near(transfer_s(4, 2, fan, uneven, 1), 4 * ms, 1e-9,
             "after the short one the long one has the link alone");
    tap_near(transfer_s(4, 2, apart, equal, 1), 1 * ms, 1e-9,
             "transfers on different links do not meet");
    tap_near(transfer_s(4, 2, back, equal, 1), 1 * ms, 1e-9,
             "a link carries both directions at once");
    tap_near(transfer_s(4, 2, across, equal, 2), 2 * ms, 1e-9,
             "two nodes have one link between them");
}

/* ---- whole plans ---- */

static bench random_bench(uint64_t *seed)
{
    bench b = {.arena = fs_arena_create(), .options = {.steps = 4}};
    int32_t stages = 1 + (int32_t)fs_rand_below(seed, 3);
    int32_t m = 1 + (int32_t)fs_rand_below(seed, 4);
    ir_mesh mesh = {1, {2}};
    b.g = hand_mlp(3, 8, 8, m);
    b.c = hand_cluster(b.arena, 1, stages * 2, (int32_t)fs_rand_below(seed, 4));
    plan_strategy *s = hand_stages(b.g, stages, mesh, b.arena);
    s->schedule = fs_rand_below(seed, 2) ? "1f1b" : "gpipe";
    hand_signatures(b.g, s, fs_rand(seed) | 1, b.arena);
    b.p = hand_lower(b.g, b.c, s, fs_rand_below(seed, 2), b.arena);
    b.timing = plan_timing_new(b.p, "test", b.arena);
    for (int32_t r = 0; r < b.p->n_roles; r++)
        for (int32_t t = 0; t < b.p->roles[r].n_tasks; t++) {
            b.timing->demand[r][t].total_s = fs_rand_unit(seed) * ms;
            b.timing->demand[r][t].on_core = fs_rand_below(seed, 2);
        }
    return b;
}

/* Demand of the busiest stream: no simulated step can be shorter. */
static double least_s(const bench *b)
{
    double least = 0;
    for (int32_t r = 0; r < b->p->n_roles; r++) {
        const plan_role *role = &b->p->roles[r];
        for (int32_t s = 0; s < role->n_streams; s++) {
            double sum = 0;
            for (int32_t i = 0; i < role->n_slots; i++)
                for (int32_t t = 0; t < role->n_tasks; t++)
                    if (role->tasks[t].stream == s &&
                        plan_task_section(role, &role->tasks[t]) ==
                            plan_slot_section(role, &role->slots[i]))
                        sum += b->timing->demand[r][t].total_s;
            least = sum > least ? sum : least;
        }
    }
    return least;
}

static void test_random(uint64_t seed)
{
    int32_t n = 40, ran = 0, fits = 0, bounded = 0, same = 0;
    for (int32_t i = 0; i < n; i++) {
        bench b = random_bench(&seed);
        plan_trace one = {.arena = b.arena}, two = {.arena = b.arena};
        b.options.trace = &one;
        ran += simulate(&b) == FS_OK;
        sim_result first = b.result;
        bool fit = true;
        for (int32_t k = 0; k < first.n_stages; k++)
            fit = fit && first.stages[k].peak_bytes > 0 &&
                  first.stages[k].peak_bytes <= b.p->roles[k].arena_bytes;
        fits += fit;
        /* Prefetched loads may have run in the steps before. */
        b.options.steps = 12;
        b.options.trace = NULL;
        simulate(&b);
        bounded += b.result.iteration_s >= least_s(&b) * 0.999;
        b.options.steps = 4;
        b.options.trace = &two;
        simulate(&b);
        same += one.events.n == two.events.n && one.events.n > 0 &&
                memcmp(one.events.at, two.events.at,
                       (size_t)one.events.n * sizeof *one.events.at) == 0 &&
                first.iteration_s == b.result.iteration_s &&
                first.bubble == b.result.bubble;
        destroy(&b);
    }
    tap_equal_int(ran, n, "random plans run");
    tap_equal_int(fits, n, "live bytes fit in the planned arena");
    tap_equal_int(bounded, n, "no step is shorter than its busiest stream");
    tap_equal_int(same, n, "the same plan gives the same trace to the byte");
}

/* ---- micro-batches that are alike ---- */

static bool same_result(const sim_result *a, const sim_result *b)
{
    return a->iteration_s == b->iteration_s && a->bubble == b->bubble &&
           a->exposed_comm_s == b->exposed_comm_s && a->events == b->events &&
           memcmp(a->stages, b->stages,
                  (size_t)a->n_stages * sizeof *a->stages) == 0;
}

static bool same_events(const plan_trace *a, const plan_trace *b)
{
    return a->events.n == b->events.n &&
           (a->events.n == 0 ||
            memcmp(a->events.at, b->events.at,
                   (size_t)a->events.n * sizeof *a->events.at) == 0);
}

/* Times of few values meet at the same instants, those of many never do. */
static void draw_times(bench *b, int64_t values, uint64_t *seed)
{
    for (int32_t r = 0; r < b->p->n_roles; r++)
        for (int32_t t = 0; t < b->p->roles[r].n_tasks; t++) {
            b->timing->demand[r][t].total_s =
                (double)fs_rand_below(seed, values) * 1e-6;
            b->timing->demand[r][t].on_core = fs_rand_below(seed, 2);
        }
}

/* Which share of what happens is left out; NAN: what comes out is not the same
 * to the last bit. */
static double left_out(bench *b)
{
    sim_result all, few;
    plan_trace in_all = {.arena = b->arena}, in_few = {.arena = b->arena};
    b->options.in_full = true;
    simulate(b);
    all = b->result;
    b->options.in_full = false;
    simulate(b);
    few = b->result;
    bool same = same_result(&all, &few) && all.skipped == 0;
    b->options.trace = &in_few;
    simulate(b);
    same = same && same_result(&all, &b->result);
    b->options.in_full = true;
    b->options.trace = &in_all;
    simulate(b);
    b->options.trace = NULL;
    same = same && same_events(&in_all, &in_few);
    return same ? (double)few.skipped / (double)few.events : (double)NAN;
}

static void test_repeats(uint64_t seed)
{
    static const struct {
        const char *name;
        int32_t chunks;
        bool steady;
    } of[] = {{"gpipe", 1, false},      {"1f1b", 1, true},
              {"interleaved", 2, true}, {"zb-h1", 1, true},
              {"zb-h2", 1, true},       {"zb-v", 2, true},
              {"dynamic", 1, false}};
    for (int32_t k = 0; k < 7; k++) {
        double sum = 0, most = 0;
        int32_t wrong = 0, n = 0;
        for (int32_t i = 0; i < 40; i++, n++) {
            const int32_t p = 1 + (int32_t)fs_rand_below(&seed, 4);
            const int32_t m = p * (1 + (int32_t)fs_rand_below(&seed, 16));
            bench b = chunked(p, of[k].chunks, m, of[k].name);
            draw_times(&b, i % 2 ? 3 : 100000, &seed);
            if (i % 3 == 0) /* cores are shared */
                b.c = hand_cluster(b.arena, 1, p, 1 + i % 2);
            const double part = left_out(&b);
            wrong += isnan(part);
            sum += isnan(part) ? 0 : part;
            most = fmax(most, part);
            destroy(&b);
        }
        tap_equal_int(wrong, 0,
                      "%s: %d plans simulated without what repeats, to the "
                      "last bit as in full",
                      of[k].name, n);
        printf("# %.3g %% left out in the mean, %.3g %% at most\n",
               100 * sum / n, 100 * most);
        /* Where loading runs ahead of all, pieces that wait grow fewer. */
        tap_ok(most > 0.5 || !of[k].steady,
               "and most is left out of long ones");
    }
}

static void test_ended(void)
{
    bench b = lowered(2, single, 4, 0, "1f1b");
    const fs_end at_once = {.wall_ns = 0};
    b.options.end = &at_once;
    tap_equal_int(simulate(&b), FS_NO, "a simulation ends when it shall");
    tap_ok(strstr(b.err.text, "was ended"), "and says so");
    destroy(&b);
}

static void test_faults(void)
{
    bench b = lowered(2, single, 4, 0, "1f1b");
    plan *p = b.p = hand_copy(b.p, b.arena);
    for (int32_t i = 0; i < p->roles[0].n_registers; i++) {
        plan_register *g = &p->roles[0].registers[i];
        if (!g->per_step && !g->persistent)
            g->count = 1;
    }
    tap_equal_int(simulate(&b), FS_NO, "a plan without credits stalls");
    tap_ok(strstr(b.err.text, "no free buffer"), "and the stall is explained");
    b.timing->demand[0][0].total_s = NAN;
    tap_equal_int(simulate(&b), FS_INVALID,
                  "a time that is no time is refused");
    destroy(&b);
}

int main(void)
{
    uint64_t seed = tap_seed(8);
    test_chain(seed);
    test_load();
    test_bubble();
    test_interleaved();
    test_zero_bubble();
    test_dynamic(seed);
    test_cores();
    test_uneven_cores();
    test_bound_cores();
    test_meeting();
    test_links();
    test_random(seed);
    test_repeats(seed);
    test_ended();
    test_faults();
    return tap_done();
}
