#include "plan_hand.h"

#include "plan/actor.h"

/* A role by hand on a graph of one tensor per register: tasks are computes of
 * node 0, whose name stands in messages. */
typedef struct toy {
    fs_arena *arena;
    ir_graph *g;
    plan p;
    plan_role role;
    plan_actors *a;
} toy;

static toy make_toy(int32_t n_tasks, int32_t n_registers, int32_t n_streams,
                    int32_t m)
{
    toy t = {.arena = fs_arena_create()};
    t.g = hand_mlp(1, 4, 4, 1);
    t.p.micro_batches = m;
    t.p.n_roles = 1;
    t.role.n_ranks = 1;
    t.role.n_tasks = n_tasks;
    t.role.n_registers = n_registers;
    t.role.n_streams = n_streams;
    t.role.tasks = fs_new(t.arena, plan_task, n_tasks);
    t.role.registers = fs_new(t.arena, plan_register, n_registers);
    t.role.streams = fs_new(t.arena, plan_stream, n_streams);
    for (int32_t i = 0; i < n_tasks; i++)
        hand_take_registers(&t.role.tasks[i], t.arena);
    for (int32_t i = 0; i < n_registers; i++) {
        plan_register *r = &t.role.registers[i];
        r->count = 1;
        r->producer = -1;
        r->offset = fs_new(t.arena, int64_t, 8);
        r->consumers = fs_new(t.arena, int32_t, n_tasks);
        for (int32_t k = 0; k < 8; k++)
            r->offset[k] = 1000 * i + 100 * k;
    }
    t.role.n_chunks = 1;
    t.role.stages = fs_new(t.arena, int32_t, 1);
    t.role.n_slots = 2 * m + 2;
    t.role.slots = fs_new(t.arena, plan_slot, t.role.n_slots);
    for (int32_t mb = 0; mb < m; mb++) {
        t.role.slots[1 + mb] = (plan_slot){PLAN_FORWARD, mb, 0};
        t.role.slots[1 + m + mb] = (plan_slot){PLAN_BACKWARD, mb, 0};
    }
    t.role.slots[2 * m + 1] = (plan_slot){PLAN_END, m - 1, 0};
    return t;
}

static void destroy_toy(toy *t)
{
    ir_graph_destroy(t->g);
    fs_arena_destroy(t->arena);
}

static void writes(toy *t, int32_t task, int32_t reg)
{
    plan_task *x = &t->role.tasks[task];
    x->out[x->n_out++] = reg;
    t->role.registers[reg].producer = task;
}

static void reads(toy *t, int32_t task, int32_t reg)
{
    plan_task *x = &t->role.tasks[task];
    plan_register *r = &t->role.registers[reg];
    x->in[x->n_in++] = reg;
    if (r->producer != task &&
        (r->n_consumers == 0 || r->consumers[r->n_consumers - 1] != task))
        r->consumers[r->n_consumers++] = task;
}

static void start(toy *t, int64_t steps)
{
    t->a = plan_actors_create(&t->p, &t->role, steps, t->arena);
}

static void act(toy *t, int32_t stream)
{
    plan_actor_fire(t->a, stream);
    plan_actor_done(t->a, stream);
}

/* Forward task 0 on stream 0 writes r0 (two buffers), forward task 1 on
 * stream 1 reads it. */
static void test_credits(void)
{
    toy t = make_toy(2, 1, 2, 3);
    t.role.tasks[0].phase = t.role.tasks[1].phase = PLAN_FORWARD;
    t.role.tasks[1].stream = 1;
    t.role.registers[0].count = 2;
    writes(&t, 0, 0);
    reads(&t, 1, 0);
    start(&t, 2);
    tap_ok(plan_actor_ready(t.a, 0) && !plan_actor_ready(t.a, 1),
           "a consumer waits for its producer");
    act(&t, 0);
    tap_ok(plan_actor_ready(t.a, 1), "completion hands the piece on");
    act(&t, 0);
    tap_ok(!plan_actor_ready(t.a, 0), "two buffers are two credits");
    fs_text why = {.arena = t.arena};
    plan_actor_explain(t.a, t.g, 0, &why);
    tap_ok(strstr(why.at, "no free buffer for piece 2"),
           "the stall names register and piece");
    tap_equal_int(plan_actor_offset(t.a, 1, 0, false), 0,
                  "piece 0 lies in buffer 0");
    plan_actor_fire(t.a, 1);
    tap_ok(!plan_actor_ready(t.a, 0), "a running reader holds its piece");
    plan_actor_done(t.a, 1);
    tap_ok(plan_actor_ready(t.a, 0), "a released piece is a credit again");
    tap_equal_int(plan_actor_offset(t.a, 1, 0, false), 100,
                  "piece 1 lies in buffer 1");
    act(&t, 0);
    tap_equal_int(plan_actor_micro_batch(t.a, 0), 0,
                  "the cursor goes on to the next step");
    tap_equal_int(plan_actor_piece(t.a, 0, 0, true), 3,
                  "pieces are numbered across steps");
    for (int32_t i = 0; i < 3; i++) {
        act(&t, 1);
        act(&t, 0);
    }
    tap_equal_int(plan_actor_head(t.a, 0), -1, "a stream ends after its steps");
    act(&t, 1);
    act(&t, 1);
    tap_ok(plan_actors_finished(t.a), "all streams end");
    destroy_toy(&t);
}

/* r0: variable, updated in place by END task 3. r1: sum of gradients, written
 * by BACKWARD task 2. FORWARD task 0 and 1 read the variable, on streams 0 and
 * 1; everything else is on stream 0. r2: a constant. */
static void test_steps(void)
{
    toy t = make_toy(4, 3, 2, 2);
    plan_register *r = t.role.registers;
    t.role.tasks[0].phase = t.role.tasks[1].phase = PLAN_FORWARD;
    t.role.tasks[1].stream = 1;
    t.role.tasks[2].phase = PLAN_BACKWARD;
    t.role.tasks[3].phase = PLAN_END;
    r[0].per_step = r[0].persistent = r[1].per_step = true;
    r[2].per_step = r[2].persistent = true;
    writes(&t, 3, 0);
    writes(&t, 2, 1);
    reads(&t, 0, 0);
    reads(&t, 1, 0);
    reads(&t, 1, 2);
    reads(&t, 3, 0);
    reads(&t, 3, 1);
    start(&t, 2);
    act(&t, 0);
    act(&t, 0);
    tap_equal_int(t.a->released[0], 0, "a variable has two readers");
    act(&t, 0);
    tap_equal_int(t.a->produced[1], 0,
                  "a sum is not ready before the last micro-batch");
    act(&t, 0);
    tap_equal_int(t.a->produced[1], 1, "a sum is ready after the last");
    tap_equal_int(plan_actor_head(t.a, 0), 3, "the update comes next");
    tap_ok(!plan_actor_ready(t.a, 0), "an update waits for all readers");
    act(&t, 1);
    tap_ok(!plan_actor_ready(t.a, 0),
           "a reader per micro-batch keeps the value to its last");
    act(&t, 1);
    tap_ok(plan_actor_ready(t.a, 0), "an update in place reads what it writes");
    tap_ok(!plan_actor_ready(t.a, 1), "the next step waits for the update");
    tap_equal_int(plan_actor_piece(t.a, 0, 0, false), 0, "it reads piece 0");
    tap_equal_int(plan_actor_piece(t.a, 0, 0, true), 1, "it writes piece 1");
    act(&t, 0);
    tap_ok(plan_actor_ready(t.a, 1), "the update lets the next step start");
    tap_equal_int(plan_actor_piece(t.a, 1, 0, false), 1,
                  "the next step reads piece 1");
    tap_equal_int(plan_actor_piece(t.a, 1, 2, false), 0,
                  "a constant is piece 0 for good");
    tap_equal_int(t.a->released[1], 1, "the sum was released by the update");
    for (int32_t i = 0; i < 2; i++)
        act(&t, 1);
    for (int32_t i = 0; i < 5; i++)
        act(&t, 0);
    tap_ok(plan_actors_finished(t.a), "two steps run to their end");
    destroy_toy(&t);
}

/* Actors of a role that count all, and some that leave out what is ordered:
 * they are to do the same. */
typedef struct twins {
    plan_actors *all, *ordered;
} twins;

static bool ready(const twins *t, int32_t stream, int32_t *differ)
{
    const bool is = plan_actor_ready(t->all, stream);
    *differ += is != plan_actor_ready(t->ordered, stream);
    return is;
}

static void fire(const twins *t, int32_t stream, int32_t *differ)
{
    *differ +=
        plan_actor_fire(t->all, stream) != plan_actor_fire(t->ordered, stream);
}

static void done(const twins *t, int32_t stream, int32_t *differ)
{
    *differ +=
        plan_actor_done(t->all, stream) != plan_actor_done(t->ordered, stream);
}

/* Step all roles of a plan in random order, transfers as meetings. */
static bool runs_through(const plan *p, uint64_t seed, fs_arena *arena,
                         int32_t *differ)
{
    twins *a = fs_new(arena, twins, p->n_roles);
    for (int32_t r = 0; r < p->n_roles; r++)
        a[r] = (twins){plan_actors_create(p, &p->roles[r], 3, arena),
                       plan_actors_create_ordered(p, &p->roles[r], 3, arena)};
    for (int32_t idle = 0; idle < 20000 && *differ == 0; idle++) {
        int32_t r = (int32_t)fs_rand_below(&seed, p->n_roles);
        int32_t s = (int32_t)fs_rand_below(&seed, p->roles[r].n_streams);
        if (!ready(&a[r], s, differ))
            continue;
        const plan_task *x = &p->roles[r].tasks[plan_actor_head(a[r].all, s)];
        int32_t other = -1, theirs = -1;
        for (int32_t q = 0; x->channel >= 0 && q < p->n_roles; q++)
            for (int32_t k = 0; q != r && k < p->roles[q].n_streams; k++)
                if (p->roles[q].streams[k].channel == x->channel) {
                    other = q;
                    theirs = k;
                }
        if (other >= 0 && !ready(&a[other], theirs, differ))
            continue;
        idle = 0;
        fire(&a[r], s, differ);
        if (other >= 0) {
            fire(&a[other], theirs, differ);
            done(&a[other], theirs, differ);
        }
        done(&a[r], s, differ);
    }
    bool finished = true;
    for (int32_t r = 0; r < p->n_roles; r++)
        finished = finished && plan_actors_finished(a[r].all);
    return finished;
}

/* What plan_check calls live runs to its end, and what it does not stalls. */
static void test_oracle(uint64_t seed)
{
    int32_t agree = 0, n = 60, stalled = 0, differ = 0, ordered = 0;
    for (int32_t i = 0; i < n; i++) {
        fs_arena *arena = fs_arena_create();
        int32_t stages = 1 + (int32_t)fs_rand_below(&seed, 3);
        int32_t m = 1 + (int32_t)fs_rand_below(&seed, 4);
        ir_mesh mesh = {1, {2}};
        ir_graph *g = hand_mlp(3, 8, 8, m);
        hw_cluster *c = hand_cluster(arena, 1, stages * 2, 0);
        plan_strategy *s = hand_stages(g, stages, mesh, arena);
        s->schedule = fs_rand_below(&seed, 2) ? "1f1b" : "gpipe";
        hand_signatures(g, s, fs_rand(&seed) | 1, arena);
        plan *p = hand_lower(g, c, s, fs_rand_below(&seed, 2), arena);
        p = hand_copy(p, arena);
        for (int32_t cut = 0; cut < 40; cut++) {
            plan_role *r = &p->roles[fs_rand_below(&seed, p->n_roles)];
            plan_register *reg =
                &r->registers[fs_rand_below(&seed, r->n_registers)];
            if (!reg->persistent && i % 2)
                reg->count = 1;
        }
        plan_report report;
        plan_check(g, c, p, arena, &report);
        bool live = report.live;
        bool ran = runs_through(p, fs_rand(&seed), arena, &differ);
        agree += live == ran;
        stalled += !ran;
        const plan_role *r = &p->roles[0];
        ordered += plan_actors_create_ordered(p, r, 1, arena)->n_counted <
                   r->n_registers;
        fs_arena_destroy(arena);
        ir_graph_destroy(g);
    }
    tap_equal_int(agree, n, "plans run to their end iff plan_check says live");
    tap_ok(stalled > 0 && stalled < n, "%d of %d plans stall", stalled, n);
    tap_ok(differ == 0 && ordered > n / 2,
           "actors that do not count what is ordered fire and let go alike");
}

/* Who has the turn: 'f' or 'b', of streams 0 and 1; '-': both, or none. */
static char turn_of(const toy *t)
{
    bool may[2];
    for (int32_t s = 0; s < 2; s++)
        may[s] = plan_actor_head(t->a, s) >= 0 && plan_actor_ready(t->a, s) &&
                 plan_actor_turn(t->a, s);
    return may[0] == may[1] ? '-' : may[0] ? 'f' : 'b';
}

/* Slots F0 F1 B0 B1, a stream for each pass; the backward of a micro-batch
 * waits for its forward, which has one buffer; a second task backward. */
static void test_turns(void)
{
    toy t = make_toy(3, 1, 2, 2);
    for (int32_t i = 0; i < 3; i++) {
        t.role.tasks[i].phase = i < 1 ? PLAN_FORWARD : PLAN_BACKWARD;
        t.role.tasks[i].stream = i > 0;
        t.role.tasks[i].comm = t.role.tasks[i].channel = -1;
    }
    writes(&t, 0, 0);
    reads(&t, 1, 0);
    start(&t, 1);
    tap_equal_int(turn_of(&t), 'f', "turns: one that alone is ready has it");
    act(&t, 0);
    tap_equal_int(turn_of(&t), 'b', "turns: what is late is overtaken");
    plan_actor_fire(t.a, 1);
    plan_actor_done(t.a, 1);
    tap_ok(plan_actor_ready(t.a, 0) && plan_actor_ready(t.a, 1),
           "turns: both are ready");
    tap_equal_int(turn_of(&t), 'f', "turns: the earlier slot goes first");
    plan_actor_fire(t.a, 0);
    tap_ok(!plan_actor_turn(t.a, 1), "turns: one computes at a time");
    t.role.tasks[2].kind = PLAN_BOX;
    t.role.tasks[2].comm = 0;
    tap_ok(plan_actor_turn(t.a, 1), "turns: a collective needs none");
    destroy_toy(&t);
}

int main(void)
{
    uint64_t seed = tap_seed(3);
    test_credits();
    test_turns();
    test_steps();
    test_oracle(seed);
    return tap_done();
}
