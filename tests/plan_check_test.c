#include "plan_hand.h"

#include <unistd.h>

static fs_status check(const ir_graph *g, const hw_cluster *c, const plan *p,
                       fs_arena *arena, plan_report *report)
{
    return plan_check(g, c, p, arena, report);
}

/* ---- sound plans ---- */

static void test_random(uint64_t seed)
{
    int32_t sound = 0, n = 60;
    for (int32_t i = 0; i < n; i++) {
        fs_arena *arena = fs_arena_create();
        int32_t stages = 1 + (int32_t)fs_rand_below(&seed, 3);
        int32_t m = 1 + (int32_t)fs_rand_below(&seed, 4);
        ir_mesh mesh = {(int32_t)fs_rand_below(&seed, 3), {2, 2}};
        ir_graph *g = hand_mlp(3, 8, 8, m);
        hw_cluster *c = hand_cluster(arena, 1, stages * ir_mesh_size(&mesh), 0);
        plan_strategy *s = hand_stages(g, stages, mesh, arena);
        s->schedule = fs_rand_below(&seed, 2) ? "1f1b" : "gpipe";
        hand_signatures(g, s, fs_rand(&seed) | 1, arena);
        plan *p = hand_lower(g, c, s, fs_rand_below(&seed, 2), arena);
        plan_report report;
        if (check(g, c, p, arena, &report) == FS_OK && report.live)
            sound++;
        else
            hand_print(&report);
        fs_arena_destroy(arena);
        ir_graph_destroy(g);
    }
    tap_equal_int(sound, n, "random strategies lower to sound plans");
}

/* ---- spoiled plans: two stages of two ranks, tensor-parallel inside ---- */

typedef struct bench {
    fs_arena *arena;
    ir_graph *g;
    hw_cluster *c;
    plan *p;
    plan_report report;
} bench;

static bench make_bench(void)
{
    bench b = {.arena = fs_arena_create()};
    ir_mesh mesh = {1, {2}};
    b.g = hand_mlp(2, 8, 8, 4);
    b.c = hand_cluster(b.arena, 1, 4, 0);
    plan_strategy *s = hand_stages(b.g, 2, mesh, b.arena);
    hand_signatures(b.g, s, 5, b.arena);
    b.p = hand_lower(b.g, b.c, s, true, b.arena);
    return b;
}

static void destroy_bench(bench *b)
{
    ir_graph_destroy(b->g);
    fs_arena_destroy(b->arena);
}

static fs_status recheck(bench *b, const plan *p)
{
    return check(b->g, b->c, p, b->arena, &b->report);
}

static int32_t find_task(const plan_role *r, plan_task_kind kind, int32_t from)
{
    for (int32_t t = from; t < r->n_tasks; t++)
        if (r->tasks[t].kind == kind)
            return t;
    return -1;
}

static void test_wrong_sbp(bench *b)
{
    plan *p = hand_copy(b->p, b->arena);
    plan_role *r = &p->roles[0];
    char wanted[128] = "no such register";
    for (int32_t i = 0; i < r->n_registers; i++) {
        plan_register *g = &r->registers[i];
        if (g->producer < 0 || g->persistent || g->sbp.at[0].kind != IR_B ||
            g->n_consumers == 0)
            continue;
        const char *name = b->g->tensors.at[g->tensor].name;
        g->sbp.at[0] = IR_SBP_S(0);
        snprintf(wanted, sizeof wanted,
                 "%s as B, but register %d holds %s as S(0)", name, i, name);
        break;
    }
    tap_equal_int(recheck(b, p), FS_NO,
                  "sbp: a tensor read in the wrong SBP is refused");
    tap_ok(hand_found(&b->report, PLAN_FINDING_SBP, wanted),
           "sbp: the finding names the tensor and both SBPs");
    hand_print(&b->report);
}

/* A signature that is none of the op's is told as text, with the nearest. */
static void test_wrong_signature(bench *b)
{
    plan *p = hand_copy(b->p, b->arena);
    plan_strategy s = *p->strategy;
    const int32_t n_axes = s.stages[0].mesh.n;
    int32_t v = 0;
    while (b->g->nodes.at[v].op != IR_OP_matmul)
        v++;
    s.sig = fs_memdup(b->arena, s.sig, (size_t)s.n_nodes * sizeof *s.sig);
    s.sig[v].in[0].at[0] = s.sig[v].in[1].at[0] = IR_SBP_P;
    p->strategy = &s;
    const char *own =
        ir_signature_text(&b->g->nodes.at[v], &s.sig[v], n_axes, b->arena);
    tap_equal_int(recheck(b, p), FS_NO, "sbp: two partial factors are refused");
    tap_ok(hand_found(&b->report, PLAN_FINDING_SBP,
                      fs_printf(b->arena, "matmul: %s is not legal", own)),
           "sbp: the finding tells the op and its signature");
    tap_ok(hand_found(&b->report, PLAN_FINDING_SBP,
                      "nearest legal: P B -> P, "
                      "B P -> P"),
           "sbp: and the nearest that are legal");
    hand_print(&b->report);
}

/* A sum over micro-batches that would be kept for one of them, or a value of
 * one that would be kept for all. */
static void test_wrong_rate(bench *b)
{
    plan *p = hand_copy(b->p, b->arena);
    plan_role *r = &p->roles[0];
    for (int32_t i = 0; i < r->n_registers; i++)
        if (!r->registers[i].per_step) {
            r->registers[i].per_step = true;
            break;
        }
    tap_equal_int(recheck(b, p), FS_NO, "sbp: a wrong rate is refused");
    tap_ok(hand_found(&b->report, PLAN_FINDING_SBP, "once per step"),
           "sbp: the finding says which");
    p = hand_copy(b->p, b->arena);
    r = &p->roles[0];
    for (int32_t i = 0; i < r->n_registers; i++) {
        plan_register *g = &r->registers[i];
        if (!g->persistent || g->producer < 0)
            continue;
        r->tasks[g->producer].n_out = 0;
        g->producer = -1;
        break;
    }
    tap_equal_int(recheck(b, p), FS_NO,
                  "a variable whose update is cut off is refused");
    hand_print(&b->report);
}

static void test_memory(bench *b)
{
    double memory = b->c->groups[0].device.memory_bytes;
    b->c->groups[0].device.memory_bytes = 1000;
    tap_equal_int(recheck(b, b->p), FS_NO, "memory: too much is refused");
    tap_ok(hand_found(&b->report, PLAN_FINDING_MEMORY, "its device hand has"),
           "memory: the finding names the device and the bytes");
    tap_ok(b->report.peak_bytes_max > 1000, "memory: the peak is told");
    b->c->groups[0].device.memory_bytes = memory;
    plan *p = hand_copy(b->p, b->arena);
    plan_register *first = NULL;
    for (int32_t i = 0; i < p->roles[0].n_registers; i++) {
        plan_register *g = &p->roles[0].registers[i];
        if (!g->own_memory)
            continue;
        if (first) {
            g->offset[0] = first->offset[0];
            break;
        }
        first = g;
    }
    tap_equal_int(recheck(b, p), FS_NO, "memory: an overlap is refused");
    tap_ok(hand_found(&b->report, PLAN_FINDING_MEMORY, "overlap"),
           "memory: the finding names both registers");
    p = hand_copy(b->p, b->arena);
    for (int32_t i = 0; i < p->roles[0].n_registers; i++)
        p->roles[0].registers[i].own_memory = false;
    tap_equal_int(recheck(b, p), FS_NO,
                  "memory: what two streams touch may not share");
    p = hand_copy(b->p, b->arena);
    p->roles[1].registers[0].offset[0] = INT64_MAX - 10;
    tap_equal_int(recheck(b, p), FS_NO, "memory: outside the arena is refused");
    p = hand_copy(b->p, b->arena);
    p->roles[0].registers[0].offset[0] += 4;
    tap_equal_int(recheck(b, p), FS_NO, "memory: a crooked offset is refused");
    tap_ok(hand_found(&b->report, PLAN_FINDING_MEMORY, "no multiple of 256"),
           "memory: the finding says what it must be a multiple of");
}

/* A stream on which some task needs scratch. */
static int32_t scratch_stream(const plan_role *r)
{
    for (int32_t t = 0; t < r->n_tasks; t++)
        if (r->tasks[t].scratch_bytes > 0)
            return r->tasks[t].stream;
    return -1;
}

static void test_scratch(bench *b)
{
    plan *p = hand_copy(b->p, b->arena);
    plan_role *r = &p->roles[0];
    int32_t boxes = 0, stream = scratch_stream(r);
    for (int32_t t = 0; t < r->n_tasks; t++)
        if (r->tasks[t].kind == PLAN_BOX && r->tasks[t].comm >= 0) {
            r->tasks[t].scratch_bytes = 0;
            boxes++;
        }
    tap_ok(boxes > 0 && stream >= 0, "memory: the bench has collectives");
    tap_equal_int(recheck(b, p), FS_NO,
                  "memory: a collective without scratch is refused");
    tap_ok(hand_found(&b->report, PLAN_FINDING_MEMORY,
                      "has 0 bytes of scratch and needs "),
           "memory: the finding names the collective and the bytes");
    p = hand_copy(b->p, b->arena);
    p->roles[0].stream_scratch[stream] = p->roles[0].arena_bytes;
    tap_equal_int(recheck(b, p), FS_NO,
                  "memory: scratch outside the arena is refused");
    tap_ok(
        hand_found(&b->report, PLAN_FINDING_MEMORY, "lies outside the arena"),
        "memory: the finding names the stream");
    p = hand_copy(b->p, b->arena);
    r = &p->roles[0];
    for (int32_t i = 0; i < r->n_registers; i++)
        if (r->registers[i].persistent)
            r->stream_scratch[stream] = r->registers[i].offset[0];
    tap_equal_int(recheck(b, p), FS_NO,
                  "memory: scratch over a register is refused");
    tap_ok(hand_found(&b->report, PLAN_FINDING_MEMORY, "scratch of stream"),
           "memory: the finding names scratch and register");
    hand_print(&b->report);
}

/* All shared registers of a role at one place. */
static void test_shared_overlap(bench *b)
{
    plan *p = hand_copy(b->p, b->arena);
    plan_role *r = &p->roles[0];
    int64_t at = -1;
    int32_t shared = 0;
    for (int32_t i = 0; i < r->n_registers; i++) {
        plan_register *g = &r->registers[i];
        if (g->own_memory || g->bytes == 0)
            continue;
        for (int32_t k = 0; k < g->count; k++) {
            at = at < 0 ? g->offset[k] : at;
            g->offset[k] = at;
        }
        shared++;
    }
    tap_ok(shared >= 2, "memory: the bench shares bytes");
    tap_equal_int(recheck(b, p), FS_NO, "memory: shared and live is refused");
    tap_ok(hand_found(&b->report, PLAN_FINDING_MEMORY, "both live"),
           "memory: the finding says from which task on");
}

static void swap_tasks(plan_role *r, int32_t a, int32_t b)
{
    plan_task task = r->tasks[a];
    r->tasks[a] = r->tasks[b];
    r->tasks[b] = task;
    for (int32_t i = 0; i < r->n_registers; i++) {
        plan_register *g = &r->registers[i];
        g->producer = g->producer == a ? b : g->producer == b ? a : g->producer;
        for (int32_t k = 0; k < g->n_consumers; k++)
            g->consumers[k] = g->consumers[k] == a   ? b
                              : g->consumers[k] == b ? a
                                                     : g->consumers[k];
        for (int32_t k = 1; k < g->n_consumers; k++)
            for (int32_t j = k; j > 0; j--)
                if (g->consumers[j - 1] > g->consumers[j]) {
                    int32_t c = g->consumers[j];
                    g->consumers[j] = g->consumers[j - 1];
                    g->consumers[j - 1] = c;
                }
    }
}

/* A producer after its consumer on one stream. */
static void test_data_cycle(bench *b)
{
    plan *p = hand_copy(b->p, b->arena);
    plan_role *r = &p->roles[0];
    for (int32_t t = 0; t + 1 < r->n_tasks; t++) {
        const plan_task *x = &r->tasks[t], *y = &r->tasks[t + 1];
        if (x->phase != y->phase || x->stream != y->stream || x->n_out == 0 ||
            y->n_in == 0 || y->in[0] != x->out[0])
            continue;
        swap_tasks(r, t, t + 1);
        break;
    }
    tap_equal_int(recheck(b, p), FS_NO,
                  "liveness: a token-free cycle is refused");
    tap_ok(!b->report.live, "liveness: the plan is not live");
    tap_ok(hand_found(&b->report, PLAN_FINDING_LIVENESS, "(data: ") &&
               hand_found(&b->report, PLAN_FINDING_LIVENESS,
                          "a cycle of waits without a token:\n"),
           "liveness: the cycle stands task by task, with its data edge");
    hand_print(&b->report);
}

/* 1F1B keeps two micro-batches in flight on stage 0: one buffer is too few. */
static void test_credit_cycle(bench *b)
{
    plan *p = hand_copy(b->p, b->arena);
    plan_role *r = &p->roles[0];
    int32_t cut = 0;
    for (int32_t i = 0; i < r->n_registers; i++) {
        plan_register *g = &r->registers[i];
        if (g->per_step || g->persistent || g->count < 2)
            continue;
        g->count = 1;
        cut++;
    }
    tap_ok(cut > 0, "liveness: the bench has registers of two buffers");
    tap_equal_int(recheck(b, p), FS_NO,
                  "liveness: too few credits are refused");
    tap_ok(hand_found(&b->report, PLAN_FINDING_LIVENESS, "(credit: "),
           "liveness: the cycle names register and credits");
    hand_print(&b->report);
}

/* The order of two transfers on a channel differs between its ends. */
static void test_channel_order(bench *b)
{
    plan *p = hand_copy(b->p, b->arena);
    for (int32_t i = 0; i < p->n_roles; i++) {
        plan_role *r = &p->roles[i];
        int32_t a = find_task(r, PLAN_SEND, 0);
        if (a < 0)
            continue;
        plan_task *task = &r->tasks[a];
        task->sbp.at[0] = task->sbp.at[0].kind == IR_B ? IR_SBP_S(0) : IR_SBP_B;
        break;
    }
    tap_equal_int(recheck(b, p), FS_NO, "order: a changed send is refused");
    tap_ok(hand_found(&b->report, PLAN_FINDING_ORDER, "the issues number 0"),
           "order: the finding shows both ends");
    hand_print(&b->report);
}

/* The role's tasks t and t + 1 are collectives of different tensors that may
 * run in either order. */
static bool may_swap(const plan_role *r, int32_t t)
{
    const plan_task *x = &r->tasks[t], *y = &r->tasks[t + 1];
    return x->comm >= 0 && y->comm >= 0 && x->phase == y->phase &&
           y->in[0] != x->out[0] && x->tensor != y->tensor;
}

/* Through the text form and back: what `flowsearch check FILE` is given. */
static const plan *through_text(bench *b, plan *p)
{
    fs_err err = {0};
    plan *q = NULL;
    char path[64];
    plan_origin origin = {.model = "mlp",
                          .optimizer = "adam",
                          .lr_schedule = "",
                          .cluster = "x",
                          .batch = 8};
    snprintf(path, sizeof path, "plan_check_test.%d.json", (int)getpid());
    if (plan_write(path, b->g, p, &origin, b->c, &err) == FS_OK)
        plan_read(path, b->g, b->c, b->arena, &err, &q);
    unlink(path);
    tap_ok(q && q->n_roles == p->n_roles, "text: %d roles come back%s%s",
           p->n_roles, err.text[0] ? ": " : "", err.text);
    return q ? q : p;
}

static void compare_orders(bench *b, plan *p, int32_t t)
{
    tap_equal_int(recheck(b, through_text(b, p)), FS_OK,
                  "order: two roles of one stage may agree");
    swap_tasks(&p->roles[1], t, t + 1);
    tap_equal_int(recheck(b, through_text(b, p)), FS_NO,
                  "order: two roles that disagree are refused");
    tap_ok(hand_found(&b->report, PLAN_FINDING_ORDER, "(ranks 0-1, ") &&
               hand_found(&b->report, PLAN_FINDING_ORDER, "(ranks 2-3, ") &&
               hand_found(&b->report, PLAN_FINDING_ORDER,
                          "communicator 0 (stage 0, axes 0): the issues "
                          "number "),
           "order: the finding names the communicator and both sides' ranks");
    hand_print(&b->report);
}

/* One stage of four ranks as two roles, the second issuing two collectives the
 * other way round. */
static void test_comm_order(void)
{
    bench b = {.arena = fs_arena_create()};
    ir_mesh mesh = {1, {4}};
    uint64_t seed = 1;
    b.g = hand_mlp(2, 8, 8, 1);
    b.c = hand_cluster(b.arena, 1, 4, 0);
    plan_strategy *s = hand_stages(b.g, 1, mesh, b.arena);
    for (bool found = false; !found; seed++) {
        hand_signatures(b.g, s, seed, b.arena);
        plan *whole = hand_lower(b.g, b.c, s, false, b.arena);
        plan *p = hand_copy(whole, b.arena), *q = hand_copy(whole, b.arena);
        p->n_roles = 2;
        p->roles = fs_new(b.arena, plan_role, 2);
        p->roles[0] = whole->roles[0];
        p->roles[1] = q->roles[0];
        p->roles[0].n_ranks = p->roles[1].n_ranks = p->roles[1].first_rank = 2;
        for (int32_t t = 0; t + 1 < p->roles[1].n_tasks && !found; t++) {
            found = may_swap(&p->roles[1], t);
            if (found)
                compare_orders(&b, p, t);
        }
    }
    destroy_bench(&b);
}

/* Two ranks, each of which sends on what it has received: every channel is in
 * order, and yet they wait for each other. */
static void test_rendezvous(void)
{
    bench b = {.arena = fs_arena_create()};
    ir_shape shape = ir_shape_make(2, (int64_t[]){8, 8});
    b.g = ir_graph_create("variable");
    int32_t w =
        ir_variable(b.g, "w",
                    &(ir_variable_spec){
                        .role = IR_BUFFER, .dtype = IR_F32, .shape = shape});
    b.c = hand_cluster(b.arena, 1, 2, 0);
    plan_strategy *s = hand_stages(b.g, 2, (ir_mesh){0, {0}}, b.arena);
    hand_signatures(b.g, s, 0, b.arena);
    plan_register registers[2][2];
    plan_task tasks[2][2];
    plan_role roles[2];
    plan_stream streams[2][3];
    plan_slot slots[4];
    int32_t reader = 1;
    int64_t offsets[2] = {0, 256}, scratch[3] = {0, 0, 0};
    plan_channel channels[2] = {{0, 1}, {1, 0}};
    plan p = {.strategy = s,
              .micro_batches = 1,
              .n_roles = 2,
              .roles = roles,
              .n_channels = 2,
              .channels = channels};
    plan_pipeline pipe =
        plan_pipeline_of(s->stages, s->n_stages, s->schedule, 1, b.arena);
    int32_t stages[2] = {0, 1};
    plan_program_fill(&pipe, 0, slots);
    for (int32_t r = 0; r < 2; r++) {
        streams[r][0] = (plan_stream){PLAN_STREAM_COMPUTE, -1};
        streams[r][1] = (plan_stream){PLAN_STREAM_RECV, 1 - r};
        streams[r][2] = (plan_stream){PLAN_STREAM_SEND, r};
        for (int32_t i = 0; i < 2; i++)
            registers[r][i] = (plan_register){.tensor = w,
                                              .bytes = 256,
                                              .count = 1,
                                              .offset = &offsets[i],
                                              .per_step = true,
                                              .persistent = i == 1,
                                              .own_memory = true,
                                              .producer = i == 1 ? -1 : 0,
                                              .n_consumers = i == 0,
                                              .consumers = &reader};
        tasks[r][0] = (plan_task){.kind = PLAN_RECV,
                                  .tensor = w,
                                  .node = -1,
                                  .comm = -1,
                                  .channel = 1 - r,
                                  .stream = 1,
                                  .n_out = 1};
        tasks[r][1] = (plan_task){.kind = PLAN_SEND,
                                  .tensor = w,
                                  .node = -1,
                                  .comm = -1,
                                  .channel = r,
                                  .stream = 2,
                                  .n_in = 1};
        hand_take_registers(&tasks[r][0], b.arena);
        hand_take_registers(&tasks[r][1], b.arena);
        int64_t bytes = r == s->stage_of[0] ? 512 : 256;
        roles[r] = (plan_role){.n_chunks = 1,
                               .stages = &stages[r],
                               .first_rank = r,
                               .n_ranks = 1,
                               .n_tasks = 2,
                               .n_registers = (int32_t)(bytes / 256),
                               .n_streams = 3,
                               .n_slots = 4,
                               .tasks = tasks[r],
                               .registers = registers[r],
                               .streams = streams[r],
                               .stream_scratch = scratch,
                               .slots = slots,
                               .arena_bytes = bytes,
                               .bound_bytes = bytes,
                               .bytes = {bytes}};
    }
    tap_equal_int(recheck(&b, &p), FS_NO,
                  "liveness: ranks that wait for each other are refused");
    tap_ok(hand_found(&b.report, PLAN_FINDING_LIVENESS,
                      "(rendezvous on channel ") &&
               b.report.n == 1,
           "liveness: the cycle goes through the meetings, nothing else is "
           "wrong");
    hand_print(&b.report);
    int32_t owner = s->stage_of[0];
    tasks[owner][1].in[0] = 1;
    registers[owner][0].n_consumers = 0;
    registers[owner][1].n_consumers = 1;
    tap_equal_int(recheck(&b, &p), FS_OK,
                  "liveness: when one sends what it has, both run");
    hand_print(&b.report);
    destroy_bench(&b);
}

/* ---- what a file edited by hand may say of a plan that runs ---- */

static void refuse(bench *b, const plan *p, plan_finding_kind kind,
                   const char *text, const char *fact)
{
    fs_status status = recheck(b, p);
    tap_ok(status == FS_NO && hand_found(&b->report, kind, text), "%s", fact);
}

static void test_strategy(bench *b)
{
    static const int64_t batches[] = {0, 4, 9, 2000, (int64_t)1 << 62};
    plan *p = hand_copy(b->p, b->arena);
    plan_strategy s = *p->strategy;
    p->strategy = &s;
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        s.batch = batches[i];
        refuse(b, p, PLAN_FINDING_STRUCTURE, "samples per step, the graph for",
               "structure: another batch than the graph's");
    }
    s.batch = b->p->strategy->batch;
    s.schedule = "gpipe";
    refuse(b, p, PLAN_FINDING_STRUCTURE,
           "slot 2: backward 0 where the schedule gpipe has forward 1",
           "structure: slots of another schedule");
    s.schedule = "2f2b";
    refuse(b, p, PLAN_FINDING_STRUCTURE, "the schedule 2f2b is unknown",
           "structure: an unknown schedule");
}

static void test_stream_fields(bench *b)
{
    int32_t accepted = 0, n = 0;
    for (int32_t role = 0; role < b->p->n_roles; role++)
        for (int32_t i = 0; i < b->p->roles[role].n_streams; i++) {
            plan *p = hand_copy(b->p, b->arena);
            plan_stream *s = &p->roles[role].streams[i], was = *s;
            for (int32_t kind = 0; kind <= PLAN_STREAM_RECV; kind++) {
                s->kind = (plan_stream_kind)kind;
                n++;
                accepted += s->kind != was.kind && recheck(b, p) == FS_OK;
            }
            *s = was;
            for (s->channel = -1; s->channel < p->n_channels; s->channel++) {
                n++;
                accepted += s->channel != was.channel && recheck(b, p) == FS_OK;
            }
        }
    tap_equal_int(accepted, 0,
                  "structure: another kind or channel of a stream "
                  "is refused (%d edits)",
                  n);
}

static void test_stream_lists(bench *b)
{
    int32_t n = b->p->roles[0].n_streams, accepted = 0;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = i + 1; k < n; k++) {
            plan *p = hand_copy(b->p, b->arena);
            plan_stream *s = p->roles[0].streams, swap = s[i];
            s[i] = s[k];
            s[k] = swap;
            accepted += recheck(b, p) == FS_OK;
        }
    tap_equal_int(accepted, 0, "structure: streams swapped are refused");
    for (int32_t i = 0; i < n; i++) {
        plan *p = hand_copy(b->p, b->arena);
        plan_role *r = &p->roles[0];
        plan_stream *s = fs_new(b->arena, plan_stream, n + 1);
        int64_t *scratch = fs_new(b->arena, int64_t, n + 1);
        for (int32_t k = 0; k < n; k++) {
            s[k] = r->streams[k];
            scratch[k] = r->stream_scratch[k];
        }
        s[n] = r->streams[i];
        r->streams = s;
        r->stream_scratch = scratch;
        r->n_streams++;
        accepted += recheck(b, p) == FS_OK;
    }
    tap_equal_int(accepted, 0, "structure: a stream twice is refused");
    hand_print(&b->report);
}

static void test_lines(bench *b)
{
    for (int32_t i = 0; i < b->p->n_channels; i++) {
        plan *p = hand_copy(b->p, b->arena);
        plan_channel *c = fs_new(b->arena, plan_channel, p->n_channels + 1);
        for (int32_t k = 0; k < p->n_channels; k++)
            c[k] = p->channels[k];
        c[p->n_channels++] = c[i];
        p->channels = c;
        refuse(b, p, PLAN_FINDING_STRUCTURE, "no stream sends on channel",
               "structure: a channel twice");
    }
    plan *p = hand_copy(b->p, b->arena);
    plan_comm *c = fs_new(b->arena, plan_comm, p->n_comms + 1);
    for (int32_t k = 0; k < p->n_comms; k++)
        c[k] = p->comms[k];
    c[p->n_comms++] = c[0];
    p->comms = c;
    refuse(b, p, PLAN_FINDING_STRUCTURE, "are both of axes 0 of stage",
           "structure: a communicator twice");
}

static void test_account(bench *b)
{
    plan *p = hand_copy(b->p, b->arena);
    plan_role *r = &p->roles[0];
    int64_t bound = r->bound_bytes;
    for (int32_t k = -1; k <= 1; k++) {
        r->bound_bytes = k == 0 ? 0 : bound + k;
        refuse(b, p, PLAN_FINDING_MEMORY, "no placement takes less than",
               "memory: another bound");
    }
    r->bound_bytes = bound;
    r->bytes[PLAN_BYTES_PARAM] -= 256;
    r->bytes[PLAN_BYTES_STATE] += 256;
    refuse(b, p, PLAN_FINDING_MEMORY, "bytes as param",
           "memory: bytes counted as another kind");
    r->bytes[PLAN_BYTES_PARAM] += 256;
    r->bytes[PLAN_BYTES_STATE] -= 256;
    r->arena_bytes += 256;
    r->bytes[PLAN_BYTES_ACTIVATION] += 256;
    refuse(b, p, PLAN_FINDING_MEMORY, "are nobody's",
           "memory: an arena with room to spare");
}

/* Every flag of every register, one at a time. */
static void test_flags(bench *b)
{
    int32_t accepted[3] = {0, 0, 0};
    for (int32_t i = 0; i < b->p->roles[0].n_registers; i++)
        for (int32_t which = 0; which < 3; which++) {
            plan *p = hand_copy(b->p, b->arena);
            plan_register *g = &p->roles[0].registers[i];
            bool *flags[] = {&g->own_memory, &g->per_step, &g->persistent};
            *flags[which] = !*flags[which];
            accepted[which] += recheck(b, p) == FS_OK;
        }
    tap_equal_int(accepted[0], 0, "memory: a flip of own_memory is refused");
    tap_equal_int(accepted[1], 0, "sbp: a flip of per_step is refused");
    tap_equal_int(accepted[2], 0, "sbp: a flip of persistent is refused");
}

/* Integers of tasks and registers at random: refused or not, never a crash. */
static void test_hostile(bench *b, uint64_t seed)
{
    int32_t refused = 0, n = 3000;
    static const int64_t values[] = {-1, 0,       1,         2,
                                     7,  1 << 20, INT32_MAX, INT32_MIN};
    for (int32_t i = 0; i < n; i++) {
        fs_arena *arena = fs_arena_create();
        plan *p = hand_copy(b->p, arena);
        plan_role *r = &p->roles[fs_rand_below(&seed, p->n_roles)];
        plan_task *t = &r->tasks[fs_rand_below(&seed, r->n_tasks)];
        plan_register *g = &r->registers[fs_rand_below(&seed, r->n_registers)];
        int32_t value = (int32_t)values[fs_rand_below(&seed, 8)];
        int32_t small = (int32_t)fs_rand_below(&seed, 8);
        int32_t *places[] = {&t->node,
                             &t->tensor,
                             &t->comm,
                             &t->channel,
                             &t->stream,
                             &t->n_in,
                             &t->n_out,
                             &t->in[0],
                             &t->out[0],
                             (int32_t *)&t->box.axes,
                             &g->tensor,
                             &g->producer,
                             &g->n_consumers,
                             &r->stages[0],
                             &r->n_chunks,
                             &t->chunk,
                             &r->first_rank,
                             &r->n_ranks,
                             &r->slots[1].micro_batch,
                             &p->micro_batches};
        int32_t n_places = sizeof places / sizeof places[0];
        int32_t which = (int32_t)fs_rand_below(&seed, n_places + 5);
        if (which < n_places && places[which] == &g->n_consumers)
            g->n_consumers = g->n_consumers ? g->n_consumers - 1 : 0;
        else if (which < n_places)
            *places[which] = value;
        else if (which == n_places)
            t->phase = (plan_phase)value;
        else if (which == n_places + 1)
            t->kind = (plan_task_kind)small;
        else if (which == n_places + 2)
            t->box.kind = (plan_box_kind)small;
        else if (which == n_places + 3)
            g->sbp.at[0] =
                (ir_sbp){.kind = (uint8_t)small, .axis = (uint8_t)value};
        else
            r->slots[fs_rand_below(&seed, r->n_slots)].phase =
                (plan_phase)value;
        plan_report report;
        refused += check(b->g, b->c, p, arena, &report) == FS_NO;
        fs_arena_destroy(arena);
    }
    tap_ok(refused > n / 3, "hostile plans are answered: %d of %d refused",
           refused, n);
}

int main(void)
{
    uint64_t seed = tap_seed(20);
    test_random(seed);
    bench b = make_bench();
    tap_equal_int(recheck(&b, b.p), FS_OK, "the bench is sound");
    hand_print(&b.report);
    tap_ok(b.report.n_transitions > 0 && b.report.n_places > 0,
           "the size of the marked graph is told");
    test_wrong_signature(&b);
    test_wrong_sbp(&b);
    test_wrong_rate(&b);
    test_memory(&b);
    test_scratch(&b);
    test_shared_overlap(&b);
    test_data_cycle(&b);
    test_credit_cycle(&b);
    test_channel_order(&b);
    test_comm_order();
    test_rendezvous();
    test_strategy(&b);
    test_stream_fields(&b);
    test_stream_lists(&b);
    test_lines(&b);
    test_account(&b);
    test_flags(&b);
    test_hostile(&b, seed);
    destroy_bench(&b);
    return tap_done();
}
