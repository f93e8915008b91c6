/* The checker's liveness against the actor protocol itself: on small random
 * plans every interleaving of all ranks is explored, on lowered ones random
 * interleavings. FS_LONG=1: ten times as many. */
#include "plan_hand.h"

#include "plan/check_parts.h"
#include "plan_world.h"

enum { MOST_STATES = 8000, N_PLANS = 2000, N_LOWERED = 150 };

/* ---- a state, kept and put back ---- */

/* Hands each changing array to `with`, which returns where the next goes. */
static char *each_array(world *w, char *at,
                        char *(*with)(char *, void *, size_t))
{
    for (int32_t r = 0; r < w->n; r++) {
        plan_actors *a = w->a[r];
        int32_t n = a->role->n_registers, buffers = 0;
        for (int32_t i = 0; i < n; i++)
            buffers += a->role->registers[i].count;
        at = with(at, a->produced, (size_t)n * sizeof *a->produced);
        at = with(at, a->released, (size_t)n * sizeof *a->released);
        at = with(at, a->readers, (size_t)buffers * sizeof *a->readers);
        at =
            with(at, a->cursor, (size_t)a->role->n_streams * sizeof *a->cursor);
    }
    size_t issues = (size_t)(w->n * w->n_lines) * sizeof *w->fired;
    at = with(at, w->fired, issues);
    return with(at, w->done, issues);
}

static char *keep(char *at, void *array, size_t bytes)
{
    memcpy(at, array, bytes);
    return at + bytes;
}

static char *put_back(char *at, void *array, size_t bytes)
{
    memcpy(array, at, bytes);
    return at + bytes;
}

static char *measure(char *at, void *array, size_t bytes)
{
    (void)array;
    return at + bytes;
}

/* ---- all interleavings ---- */

typedef struct exploring {
    world *w;
    size_t bytes;
    char *kept; /* a state per depth */
    int32_t depths;
    uint64_t seen[4 * MOST_STATES];
    int32_t states, ends, stalls;
    bool too_many;
} exploring;

static bool is_new(exploring *x)
{
    uint64_t hash = 0;
    for (int32_t r = 0; r < x->w->n; r++)
        for (int32_t s = 0; s < x->w->a[r]->role->n_streams; s++) {
            const plan_cursor *c = &x->w->a[r]->cursor[s];
            int32_t at[4] = {(int32_t)c->step, c->slot, c->task, c->busy};
            hash = fs_hash(hash, at, sizeof at);
        }
    hash |= 1;
    size_t i = hash % (4 * MOST_STATES);
    while (x->seen[i] && x->seen[i] != hash)
        i = (i + 1) % (4 * MOST_STATES);
    if (x->seen[i])
        return false;
    x->seen[i] = hash;
    x->too_many = ++x->states >= MOST_STATES;
    return true;
}

static void explore(exploring *x, int32_t depth)
{
    bool moved = false;
    if (x->too_many || !is_new(x))
        return;
    if (depth == x->depths) {
        x->too_many = true;
        return;
    }
    char *kept = x->kept + (size_t)depth * x->bytes;
    each_array(x->w, kept, keep);
    for (int32_t r = 0; r < x->w->n; r++)
        for (int32_t s = 0; s < x->w->a[r]->role->n_streams; s++) {
            if (!move(x->w, r, s))
                continue;
            moved = true;
            explore(x, depth + 1);
            each_array(x->w, kept, put_back);
        }
    if (!moved && finished(x->w))
        x->ends++;
    else if (!moved)
        x->stalls++;
}

/* What comes of a plan: 1 all interleavings end, 0 all stall, -1 it depends, 2
 * too many states. */
static int32_t outcome_of(const plan *p, semantics how, int32_t *states,
                          fs_arena *arena)
{
    world w = make_world(p, how, 2, arena);
    exploring *x = fs_new(arena, exploring, 1);
    x->w = &w;
    x->depths = 1000;
    x->bytes = (size_t)(each_array(&w, (char *)x, measure) - (char *)x);
    x->kept = fs_new(arena, char, x->bytes *(size_t)x->depths);
    explore(x, 0);
    *states += x->states;
    if (x->too_many)
        return 2;
    return x->stalls == 0 ? 1 : x->ends == 0 ? 0 : -1;
}

/* ---- random plans: what the protocol and the marked graph look at ---- */

enum { MOST_TASKS = 256, MOST_REGISTERS = 8, MOST_STREAMS = 8 };

typedef struct drawing {
    fs_arena *arena;
    uint64_t *seed;
    plan *p;
    plan_strategy *s;
    int32_t *count;           /* [lines * phases] issues */
    int32_t n_chunks, issues; /* percent of lines that are used in a phase */
    bool passes;              /* a stream for each pass, as under dynamic */
    bool splits;              /* weight gradients have slots of their own */
} drawing;

static int32_t below(drawing *d, int32_t n)
{
    return (int32_t)fs_rand_below(d->seed, n);
}

static bool chance(drawing *d, int32_t percent)
{
    return below(d, 100) < percent;
}

/* Mostly one rank per role: nothing is symmetric. Stages of several chunks go
 * round the roles. */
static void draw_ranks(drawing *d, const ir_graph *g)
{
    static const struct {
        int32_t stages;
        ir_mesh mesh;
    } shapes[] = {{1, {0, {0}}},    {1, {1, {2}}}, {2, {0, {0}}},
                  {1, {0, {0}}},    {3, {0, {0}}}, {1, {1, {3}}},
                  {1, {2, {2, 2}}}, {2, {1, {2}}}};
    int32_t shape = below(d, sizeof shapes / sizeof *shapes);
    const ir_mesh *mesh = &shapes[shape].mesh;
    int32_t n = ir_mesh_size(mesh), places = shapes[shape].stages;
    int32_t together = chance(d, 25) ? n : 1;
    d->s = plan_strategy_new(g, places * d->n_chunks, d->arena);
    d->p->strategy = d->s;
    d->p->n_roles = n / together * places;
    d->p->roles = fs_new(d->arena, plan_role, d->p->n_roles);
    for (int32_t i = 0; i < d->s->n_stages; i++)
        d->s->stages[i] = (plan_stage){*mesh, i % places * n};
    for (int32_t r = 0; r < d->p->n_roles; r++) {
        plan_role *role = &d->p->roles[r];
        role->n_chunks = d->n_chunks;
        role->stages = fs_new(d->arena, int32_t, d->n_chunks);
        for (int32_t k = 0; k < d->n_chunks; k++)
            role->stages[k] = r * together / n + k * places;
        role->first_rank = r * together;
        role->n_ranks = together;
    }
}

static void draw_lines(drawing *d)
{
    plan *p = d->p;
    int32_t stages = d->s->n_stages;
    p->comms = fs_new(d->arena, plan_comm, stages * 3);
    p->channels = fs_new(d->arena, plan_channel, stages * stages);
    for (int32_t i = 0; i < stages; i++) {
        uint32_t all = (1u << d->s->stages[i].mesh.n) - 1;
        for (uint32_t axes = 1; axes <= all; axes++)
            if (chance(d, 70))
                p->comms[p->n_comms++] = (plan_comm){i, axes};
        for (int32_t k = 0; k < stages; k++)
            if (d->s->stages[k].first_device != d->s->stages[i].first_device &&
                chance(d, 80 / (d->n_chunks * d->n_chunks)))
                p->channels[p->n_channels++] = (plan_channel){i, k};
    }
    int32_t n = (p->n_comms + p->n_channels) * PLAN_PHASES;
    d->count = fs_new(d->arena, int32_t, n + 1);
    for (int32_t i = 0; i < n; i++)
        d->count[i] = chance(d, d->issues) ? 1 + chance(d, 20) : 0;
}

static int32_t chunk_of(const plan_role *r, int32_t stage)
{
    for (int32_t k = 0; k < r->n_chunks; k++)
        if (r->stages[k] == stage)
            return k;
    return -1;
}

/* A task of this role on a line; false: it has no end there. */
static bool line_task(const drawing *d, const plan_role *r, int32_t line,
                      plan_task *t)
{
    const plan *p = d->p;
    *t = (plan_task){.kind = PLAN_BOX, .comm = line, .channel = -1, .node = -1};
    if (line < p->n_comms) {
        t->chunk = chunk_of(r, p->comms[line].stage);
        return t->chunk >= 0;
    }
    const plan_channel *c = &p->channels[line - p->n_comms];
    bool sends = chunk_of(r, c->from_stage) >= 0;
    t->kind = sends ? PLAN_SEND : PLAN_RECV;
    t->comm = -1;
    t->channel = line - p->n_comms;
    t->chunk = chunk_of(r, sends ? c->from_stage : c->to_stage);
    return t->chunk >= 0;
}

static bool runs_per_micro_batch(plan_phase phase)
{
    return !plan_phase_once(phase);
}

/* The tasks of a section, in any order. */
static void draw_section(drawing *d, plan_role *r, plan_phase phase,
                         int32_t chunk, const int32_t *stream)
{
    int32_t n_lines = d->p->n_comms + d->p->n_channels, first = r->n_tasks;
    bool micro = runs_per_micro_batch(phase);
    plan_task t;
    for (int32_t line = 0; line < n_lines; line++)
        for (int32_t i = 0; i < d->count[line * PLAN_PHASES + (int32_t)phase];
             i++)
            if (r->n_tasks < MOST_TASKS && line_task(d, r, line, &t) &&
                (!micro || t.chunk == chunk)) {
                t.stream = stream[line];
                r->tasks[r->n_tasks++] = t;
            }
    for (int32_t i = below(d, micro ? 3 : 2); i > 0 && r->n_tasks < MOST_TASKS;
         i--)
        r->tasks[r->n_tasks++] =
            (plan_task){.comm = -1,
                        .channel = -1,
                        .tensor = -1,
                        .chunk = chunk,
                        .stream = d->passes && r->n_streams > 1
                                      ? phase >= PLAN_BACKWARD
                                      : below(d, 1 + (r->n_streams > 1))};
    for (int32_t i = r->n_tasks - 1; i >= first; i--) {
        int32_t k = first + below(d, i - first + 1);
        t = r->tasks[i];
        r->tasks[i] = r->tasks[k];
        r->tasks[k] = t;
        r->tasks[i].phase = phase;
    }
}

static void draw_tasks(drawing *d, plan_role *r)
{
    int32_t n_lines = d->p->n_comms + d->p->n_channels;
    int32_t *stream = fs_new(d->arena, int32_t, n_lines + 1);
    r->n_streams = 1 + below(d, 4);
    r->streams = fs_new(d->arena, plan_stream, r->n_streams);
    for (int32_t i = 1 + (int32_t)d->passes; i < r->n_streams; i++)
        if (chance(d, 50))
            r->streams[i].kind = PLAN_STREAM_COMM;
    r->tasks = fs_new(d->arena, plan_task, MOST_TASKS);
    for (int32_t i = 0; i < n_lines; i++)
        stream[i] = below(d, r->n_streams);
    for (int32_t phase = 0; phase < PLAN_PHASES; phase++) {
        bool micro = runs_per_micro_batch((plan_phase)phase);
        if (phase == PLAN_WEIGHT && !d->splits)
            continue;
        for (int32_t k = 0; k < (micro ? r->n_chunks : 1); k++)
            draw_section(d, r, (plan_phase)phase,
                         phase > PLAN_FORWARD && micro ? r->n_chunks - 1 - k
                                                       : k,
                         stream);
    }
    for (int32_t t = 0; t < r->n_tasks; t++)
        hand_take_registers(&r->tasks[t], d->arena);
}

static bool is_micro(const plan_task *t)
{
    return runs_per_micro_batch(t->phase);
}

/* Another task that may touch the register; most often what is read was written
 * further up, but what a variable's readers read is written after them. */
static int32_t draw_reader(drawing *d, const plan_role *r,
                           const plan_register *g)
{
    for (int32_t attempt = 0; attempt < 20; attempt++) {
        int32_t t = below(d, r->n_tasks);
        bool fits = r->tasks[t].n_in < IR_MAX_IN && t != g->producer &&
                    (g->per_step || g->persistent || is_micro(&r->tasks[t]));
        for (int32_t i = 0; i < g->n_consumers; i++)
            fits = fits && g->consumers[i] != t;
        if (fits && (g->persistent == (t < g->producer) || chance(d, 4)))
            return t;
    }
    return -1;
}

static void draw_register(drawing *d, plan_role *r)
{
    plan_register g = {.count = 1 + below(d, 3)};
    int32_t kind = below(d, 10), index = r->n_registers;
    g.per_step = kind >= 7;
    g.persistent = kind >= 8;
    g.producer = below(d, r->n_tasks);
    g.consumers = fs_new(d->arena, int32_t, 4);
    g.offset = fs_new(d->arena, int64_t, g.count);
    if (r->tasks[g.producer].n_out == IR_MAX_OUT ||
        (!g.per_step && !is_micro(&r->tasks[g.producer])))
        return;
    r->tasks[g.producer].out[r->tasks[g.producer].n_out++] = index;
    for (int32_t i = 1 + below(d, 3); i > 0; i--) {
        int32_t t = draw_reader(d, r, &g), at = g.n_consumers;
        if (t < 0)
            continue;
        r->tasks[t].in[r->tasks[t].n_in++] = index;
        for (g.n_consumers++; at > 0 && g.consumers[at - 1] > t; at--)
            g.consumers[at] = g.consumers[at - 1];
        g.consumers[at] = t;
    }
    r->registers[r->n_registers++] = g;
}

/* The micro-batches of each section ascend; of which one is next is drawn, of
 * those whose micro-batch has come that far. */
static void draw_slot(drawing *d, const plan_role *r, int32_t *done,
                      plan_slot *slot)
{
    const plan_phase phases[] = {PLAN_FORWARD, PLAN_BACKWARD, PLAN_WEIGHT};
    int32_t n = (d->splits ? 3 : 2) * r->n_chunks, k;
    do
        k = below(d, n);
    while (done[k] == (k == 0 ? d->p->micro_batches : done[k - 1]));
    /* Forward by ascending chunk, then backward, then weight by descending. */
    int32_t phase = k / r->n_chunks, chunk = k % r->n_chunks;
    *slot = (plan_slot){phases[phase], done[k]++,
                        phase > 0 ? r->n_chunks - 1 - chunk : chunk};
}

static void draw_slots(drawing *d, plan_role *r)
{
    static const char *const names[2][2] = {{"gpipe", "1f1b"},
                                            {"zb-h1", "zb-h2"}};
    int32_t m = d->p->micro_batches, n = (d->splits ? 3 : 2) * r->n_chunks * m;
    int32_t *done = fs_new(d->arena, int32_t, 3 * r->n_chunks);
    r->n_slots = n + 2;
    r->slots = fs_new(d->arena, plan_slot, r->n_slots);
    d->s->schedule = names[d->splits][chance(d, 50)];
    if (d->n_chunks > 1) {
        d->s->schedule = d->splits ? "zb-v" : "interleaved";
    } else if (chance(d, 40)) {
        plan_pipeline pipe = plan_pipeline_of(d->s->stages, d->s->n_stages,
                                              d->s->schedule, m, d->arena);
        plan_program_fill(&pipe, pipe.role_of[r->stages[0]], r->slots);
        return;
    }
    r->slots[0] = (plan_slot){PLAN_BEGIN, 0, 0};
    for (int32_t i = 1; i <= n; i++)
        draw_slot(d, r, done, &r->slots[i]);
    r->slots[n + 1] = (plan_slot){PLAN_END, m - 1, 0};
}

static plan *draw_plan(const ir_graph *g, uint64_t *seed, fs_arena *arena)
{
    drawing d = {.arena = arena, .seed = seed, .p = fs_new(arena, plan, 1)};
    d.p->micro_batches = 1 + below(&d, 5) / 2;
    d.issues = chance(&d, 60) ? 20 : 35;
    d.n_chunks = chance(&d, 20) ? 2 : 1;
    d.splits = chance(&d, 25);
    draw_ranks(&d, g);
    d.s->micro_batches = d.p->micro_batches;
    draw_lines(&d);
    d.passes = chance(&d, 33);
    for (int32_t i = 0; i < d.p->n_roles; i++) {
        plan_role *r = &d.p->roles[i];
        draw_slots(&d, r);
        draw_tasks(&d, r);
        r->registers = fs_new(arena, plan_register, MOST_REGISTERS);
        for (int32_t k = below(&d, MOST_REGISTERS); k > 0 && r->n_tasks > 1;
             k--)
            draw_register(&d, r);
    }
    return d.p;
}

/* ---- the comparison ---- */

/* Liveness alone: these plans compute nothing, and need not fit in memory. */
static bool checked_live(const ir_graph *g, const plan *p, fs_arena *arena,
                         plan_report *report)
{
    plan_checking c = {.graph = g, .p = p, .arena = arena, .report = report};
    *report = (plan_report){.findings = fs_new(arena, plan_finding, 20)};
    c.scratch = fs_arena_create();
    if (plan_check_unroll(&c))
        plan_check_live(&c);
    fs_arena_destroy(c.scratch);
    return report->live;
}

typedef struct tally {
    int32_t live, dead;      /* as the checker says */
    int32_t wrong;           /* and the protocol does otherwise */
    int32_t depends;         /* on the interleaving */
    int32_t walked;          /* too many states: single interleavings */
    int32_t buffering_helps; /* dead, but ends when sends are buffered */
    int32_t states;
    int32_t untold; /* dead, without a cycle */
} tally;

static int32_t ends(const plan *p, semantics how, bool all, uint64_t *seed,
                    tally *t, fs_arena *arena)
{
    int32_t outcome = all ? outcome_of(p, how, &t->states, arena) : 2;
    if (outcome != 2)
        return outcome;
    t->walked++;
    int32_t ended = 0;
    for (int32_t i = 0; i < 4; i++)
        ended += walk(p, how, seed, arena);
    return ended == 4 ? 1 : ended == 0 ? 0 : -1;
}

static void compare(const ir_graph *g, const plan *p, bool all, uint64_t *seed,
                    tally *t, fs_arena *arena)
{
    plan_report report;
    bool live = checked_live(g, p, arena, &report);
    live ? t->live++ : t->dead++;
    t->untold += !live && (report.n != 1 ||
                           !strstr(report.findings[0].text, " waits for "));
    for (int32_t how = 0; how < N_SEMANTICS; how++) {
        int32_t outcome = ends(p, (semantics)how, all, seed, t, arena);
        t->depends += outcome < 0;
        if (how == BUFFERED && !live)
            t->buffering_helps += outcome == 1;
        else
            t->wrong += outcome != live;
    }
}

static void tell(const tally *t, const char *what, int32_t n)
{
    tap_equal_int(t->wrong, 0,
                  "%s: no false \"live\", no false \"dead\" (%d live, %d dead)",
                  what, t->live, t->dead);
    tap_equal_int(t->depends, 0, "%s: no outcome hangs on the interleaving",
                  what);
    tap_equal_int(t->untold, 0, "%s: every dead one has a cycle of waits",
                  what);
    tap_ok(t->live > n / 4 && t->dead > n / 4, "%s: both kinds are there",
           what);
    printf("# %s: %d states, %d of %d explorations as single interleavings, "
           "%d dead ones end if sends are buffered\n",
           what, t->states, t->walked, N_SEMANTICS * n, t->buffering_helps);
}

static void test_random(uint64_t *seed)
{
    ir_graph *g = hand_mlp(1, 4, 4, 1);
    tally t = {0};
    int32_t n = getenv("FS_LONG") ? 10 * N_PLANS : N_PLANS;
    for (int32_t i = 0; i < n; i++) {
        fs_arena *arena = fs_arena_create();
        compare(g, draw_plan(g, seed, arena), true, seed, &t, arena);
        fs_arena_destroy(arena);
    }
    tell(&t, "random plans", n);
    ir_graph_destroy(g);
}

/* What lowering makes, with buffers taken away from some. */
static void test_lowered(uint64_t *seed)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "dynamic"};
    tally t = {0};
    for (int32_t i = 0; i < N_LOWERED; i++) {
        fs_arena *arena = fs_arena_create();
        int32_t stages = 1 + (int32_t)fs_rand_below(seed, 3);
        int32_t m = 1 + (int32_t)fs_rand_below(seed, 4);
        ir_mesh mesh = {1, {2}};
        ir_graph *g = hand_mlp(3, 8, 8, m);
        hw_cluster *c = hand_cluster(arena, 1, stages * 2, 0);
        plan_strategy *s = hand_stages(g, stages, mesh, arena);
        s->schedule = schedules[fs_rand_below(seed, 5) / 2];
        hand_signatures(g, s, fs_rand(seed) | 1, arena);
        plan *p = hand_lower(g, c, s, fs_rand_below(seed, 2), arena);
        p = hand_copy(p, arena);
        for (int32_t cut = 0; cut < 120 && i % 5 > 0; cut++) {
            plan_role *r = &p->roles[fs_rand_below(seed, p->n_roles)];
            plan_register *reg =
                &r->registers[fs_rand_below(seed, r->n_registers)];
            reg->count = reg->persistent ? reg->count : 1;
        }
        compare(g, p, false, seed, &t, arena);
        fs_arena_destroy(arena);
        ir_graph_destroy(g);
    }
    tell(&t, "lowered plans", N_LOWERED);
}

int main(void)
{
    uint64_t seed = tap_seed(23);
    test_random(&seed);
    test_lowered(&seed);
    return tap_done();
}
