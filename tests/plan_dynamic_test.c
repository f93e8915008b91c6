/* The schedule `dynamic`: forward and backward have streams of their own, bound
 * to each other by credits alone. Whatever order emerges, no two live pieces
 * share a byte; what two unordered tasks share is refused. */
#include "plan_hand.h"

#include "plan_world.h"

enum { N_PLANS = 40, N_SPOILED = 60 };

typedef struct bench {
    fs_arena *arena;
    ir_graph *g;
    hw_cluster *c;
    plan *p;
    plan_report report;
} bench;

static bench make_bench(int32_t stages, ir_mesh mesh, int32_t m, uint64_t *seed)
{
    bench b = {.arena = fs_arena_create()};
    b.g = hand_mlp(4, 8, 8, m);
    b.c = hand_cluster(b.arena, 1, stages * ir_mesh_size(&mesh), 0);
    plan_strategy *s = hand_stages(b.g, stages, mesh, b.arena);
    s->schedule = "dynamic";
    hand_signatures(b.g, s, fs_rand(seed) | 1, b.arena);
    b.p = hand_lower(b.g, b.c, s, fs_rand_below(seed, 2), b.arena);
    return b;
}

static bench draw_bench(uint64_t *seed)
{
    static const ir_mesh meshes[] = {{0, {0}}, {1, {2}}, {2, {2, 2}}};
    int32_t k = (int32_t)fs_rand_below(seed, 3);
    int32_t stages = 1 + (int32_t)fs_rand_below(seed, k == 2 ? 2 : 4);
    return make_bench(stages, meshes[k], 1 + (int32_t)fs_rand_below(seed, 5),
                      seed);
}

static void destroy(bench *b)
{
    ir_graph_destroy(b->g);
    fs_arena_destroy(b->arena);
}

static fs_status check(bench *b, const plan *p)
{
    return plan_check(b->g, b->c, p, b->arena, &b->report);
}

/* ---- any order: what is live at once ---- */

typedef struct walking {
    world w;
    int64_t *claimed[MOST_RANKS]; /* [registers] pieces whose writing began */
    int64_t clashes;
} walking;

static void note_claims(walking *x, int32_t rank, int32_t stream)
{
    const plan_actors *a = x->w.a[rank];
    const plan_task *t = &a->role->tasks[plan_actor_head(a, stream)];
    for (int32_t i = 0; i < t->n_out; i++) {
        int64_t piece = plan_actor_piece(a, stream, t->out[i], true);
        if (x->claimed[rank][t->out[i]] <= piece)
            x->claimed[rank][t->out[i]] = piece + 1;
    }
}

typedef struct bytes {
    int64_t from, to;
} bytes;

static int by_from(const void *a, const void *b)
{
    const bytes *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* All that is live now, by offset: neighbours must not meet. */
static void look(walking *x, int32_t rank)
{
    static bytes live[4096];
    const plan_actors *a = x->w.a[rank];
    int32_t n = 0;
    for (int32_t i = 0; i < a->role->n_registers; i++) {
        const plan_register *r = &a->role->registers[i];
        int64_t from = r->persistent ? 0 : a->released[i];
        int64_t to = r->persistent ? r->count : x->claimed[rank][i];
        for (int64_t q = from; q < to && r->bytes > 0; q++) {
            int32_t mb = r->per_step ? 0 : (int32_t)(q % x->w.p->micro_batches);
            int64_t at = r->offset[plan_buffer_of(r, q, mb)];
            live[n++] = (bytes){at, at + r->bytes};
        }
    }
    qsort(live, (size_t)n, sizeof *live, by_from);
    for (int32_t i = 1; i < n; i++)
        x->clashes += live[i].from < live[i - 1].to;
}

/* One stream of one rank, drawn from those that can, fires or completes. */
static bool step(walking *x, uint64_t *seed)
{
    int32_t first = (int32_t)fs_rand_below(seed, x->w.n);
    for (int32_t i = 0; i < x->w.n; i++) {
        int32_t r = (first + i) % x->w.n, n = x->w.a[r]->role->n_streams;
        int32_t at = (int32_t)fs_rand_below(seed, n);
        for (int32_t k = 0; k < n; k++) {
            int32_t s = (at + k) % n;
            bool busy = x->w.a[r]->cursor[s].busy;
            if (!move(&x->w, r, s))
                continue;
            if (!busy) {
                note_claims(x, r, s);
                look(x, r);
            }
            return true;
        }
    }
    return false;
}

/* One random order of firings and completions; -1: it got stuck. */
static int64_t walk_clashes(const plan *p, uint64_t *seed, fs_arena *arena)
{
    walking x = {.w = make_world(p, POSTED, 3, arena)};
    for (int32_t r = 0; r < x.w.n; r++)
        x.claimed[r] = fs_new(arena, int64_t, x.w.a[r]->role->n_registers);
    while (step(&x, seed))
        continue;
    return finished(&x.w) ? x.clashes : -1;
}

static bool two_passes(const plan *p)
{
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        int32_t n = 0;
        for (int32_t s = 0; s < role->n_streams; s++)
            n += role->streams[s].kind == PLAN_STREAM_COMPUTE;
        if (n != 2 || role->streams[0].kind != PLAN_STREAM_COMPUTE)
            return false;
    }
    return true;
}

static void test_sound(uint64_t *seed)
{
    int32_t sound = 0, passes = 0, clashes = 0, stuck = 0;
    for (int32_t i = 0; i < N_PLANS; i++) {
        bench b = draw_bench(seed);
        bool good = check(&b, b.p) == FS_OK && b.report.live;
        sound += good;
        passes += two_passes(b.p);
        if (!good)
            hand_print(&b.report);
        for (int32_t k = 0; k < 5; k++) {
            int64_t n = walk_clashes(b.p, seed, b.arena);
            clashes += n > 0;
            stuck += n < 0;
        }
        destroy(&b);
    }
    tap_equal_int(sound, N_PLANS, "dynamic plans are proven sound and live");
    tap_equal_int(passes, N_PLANS,
                  "forward and backward compute on a stream "
                  "each");
    tap_equal_int(stuck, 0, "every order ends");
    tap_equal_int(clashes, 0, "in none do two live pieces share a byte");
}

/* Activations are bounded as under 1f1b, which is one of the orders. */
static void test_bounded(uint64_t *seed)
{
    int32_t more = 0;
    bench b = make_bench(4, (ir_mesh){0, {0}}, 8, seed);
    plan_strategy s = *b.p->strategy;
    s.schedule = "1f1b";
    plan *q = hand_lower(b.g, b.c, &s, false, b.arena);
    for (int32_t r = 0; r < q->n_roles; r++)
        for (int32_t i = 0; i < q->roles[r].n_registers; i++) {
            const plan_register *g = &q->roles[r].registers[i];
            const plan_task *t =
                &q->roles[r].tasks[g->producer < 0 ? 0 : g->producer];
            if (g->n_consumers > 0 && t->phase == PLAN_FORWARD &&
                q->roles[r].tasks[g->consumers[g->n_consumers - 1]].phase ==
                    PLAN_BACKWARD)
                more += b.p->roles[r].registers[i].count > g->count;
        }
    tap_equal_int(more, 0, "no activation has more buffers than under 1f1b");
    destroy(&b);
}

/* ---- what is refused ---- */

static int32_t pass_of(const plan_role *r, int32_t reg)
{
    const plan_register *g = &r->registers[reg];
    return g->own_memory || g->bytes == 0
               ? -1
               : r->tasks[g->producer].phase >= PLAN_BACKWARD;
}

/* Lays a register of the forward pass over one of the backward pass. */
static bool overlap_passes(plan_role *r, uint64_t *seed)
{
    for (int32_t attempt = 0; attempt < 500; attempt++) {
        int32_t a = (int32_t)fs_rand_below(seed, r->n_registers);
        int32_t b = (int32_t)fs_rand_below(seed, r->n_registers);
        if (pass_of(r, a) < 0 || pass_of(r, b) < 0 ||
            pass_of(r, a) == pass_of(r, b))
            continue;
        r->registers[a].offset[0] = r->registers[b].offset[0];
        return true;
    }
    return false;
}

static void test_memory(uint64_t *seed)
{
    int32_t spoiled = 0, refused = 0, told = 0, clash = 0;
    for (int32_t i = 0; i < N_SPOILED; i++) {
        bench b = draw_bench(seed);
        plan *p = hand_copy(b.p, b.arena);
        if (overlap_passes(&p->roles[0], seed)) {
            spoiled++;
            refused += check(&b, p) != FS_OK;
            told += hand_found(&b.report, PLAN_FINDING_MEMORY,
                               "which nothing orders");
            bool clashes = false;
            for (int32_t k = 0; k < 20 && !clashes; k++)
                clashes = walk_clashes(p, seed, b.arena) > 0;
            clash += clashes;
        }
        destroy(&b);
    }
    tap_ok(spoiled > N_SPOILED / 4, "%d plans have shared bytes in both passes",
           spoiled);
    tap_equal_int(refused, spoiled,
                  "bytes shared across the passes are refused");
    tap_equal_int(told, spoiled, "the finding names both tasks and the bytes");
    tap_ok(clash > 0, "and in %d some order of 20 has both live", clash);
}

/* Made in one pass, last read in the other, and by no stream but these. */
static bool crosses(const plan_role *r, const plan_register *g)
{
    if (!g->own_memory || g->persistent || g->bytes == 0 ||
        r->tasks[g->producer].stream != 0 || g->n_consumers == 0)
        return false;
    for (int32_t k = 0; k < g->n_consumers; k++)
        if (r->tasks[g->consumers[k]].stream > 1)
            return false;
    return r->tasks[g->consumers[g->n_consumers - 1]].stream == 1;
}

/* What both passes touch has memory of its own. */
static void test_crossing(uint64_t *seed)
{
    bench b = make_bench(2, (ir_mesh){1, {2}}, 4, seed);
    plan *p = hand_copy(b.p, b.arena);
    plan_register *crossing = NULL;
    for (int32_t k = 0; k < p->n_roles; k++)
        for (int32_t i = 0; i < p->roles[k].n_registers; i++)
            if (crosses(&p->roles[k], &p->roles[k].registers[i]))
                crossing = &p->roles[k].registers[i];
    tap_ok(crossing != NULL, "activations lie apart from what a pass shares");
    if (crossing)
        crossing->own_memory = false;
    tap_equal_int(check(&b, p), FS_NO, "one that shares is refused");
    tap_ok(
        hand_found(&b.report, PLAN_FINDING_MEMORY, "another stream (1) than"),
        "the finding names the tasks of both passes");
    destroy(&b);
}

/* All collectives on the first communicator of their axes. */
static int32_t join_comms(plan *p)
{
    int32_t joined = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++) {
            int32_t *comm = &p->roles[r].tasks[t].comm;
            for (int32_t c = 0; c < *comm; c++)
                if (p->comms[c].stage == p->comms[*comm].stage &&
                    p->comms[c].axes == p->comms[*comm].axes) {
                    *comm = c;
                    joined++;
                }
        }
    return joined;
}

static void test_comms(uint64_t *seed)
{
    int32_t spoiled = 0, refused = 0, told = 0;
    for (int32_t i = 0; i < N_SPOILED; i++) {
        bench b = draw_bench(seed);
        plan *p = hand_copy(b.p, b.arena);
        if (join_comms(p) > 0) {
            spoiled++;
            refused += check(&b, p) != FS_OK;
            told += hand_found(&b.report, PLAN_FINDING_ORDER,
                               "is used from two streams of one rank");
        }
        destroy(&b);
    }
    tap_ok(spoiled > N_SPOILED / 4, "%d plans have collectives in both passes",
           spoiled);
    tap_equal_int(refused, spoiled,
                  "a communicator for both passes is refused");
    tap_equal_int(told, spoiled, "the finding names both collectives");
}

/* A backward task that adds to what a forward one sums up, and the reverse. */
static void test_accumulators(uint64_t *seed)
{
    bench b = make_bench(1, (ir_mesh){0, {0}}, 4, seed);
    int32_t sums = 0, refused = 0, told = 0;
    for (int32_t i = 0; i < b.p->roles[0].n_registers; i++) {
        plan *p = hand_copy(b.p, b.arena);
        plan_role *r = &p->roles[0];
        const plan_register *g = &r->registers[i];
        int32_t other = 0;
        if (!g->per_step || plan_phase_once(r->tasks[g->producer].phase))
            continue;
        while (plan_phase_once(r->tasks[other].phase) ||
               r->tasks[other].stream == r->tasks[g->producer].stream ||
               r->tasks[other].kind != PLAN_COMPUTE ||
               r->tasks[other].n_out != 1)
            other++;
        r->tasks[other].out[0] = i;
        sums++;
        refused += check(&b, p) != FS_OK;
        told += hand_found(
            &b.report, PLAN_FINDING_STRUCTURE,
            fs_printf(b.arena, "writes register %d (%s), which %s makes", i,
                      b.g->tensors.at[g->tensor].name,
                      plan_task_name(b.g, &r->tasks[g->producer], b.arena)));
    }
    tap_ok(sums > 0, "%d sums over micro-batches", sums);
    tap_equal_int(refused, sums, "a second task that adds to one is refused");
    tap_equal_int(told, sums, "the finding names the sum and both tasks");
    destroy(&b);
}

/* A task that waits in the other pass's order. */
static void test_wrong_pass(uint64_t *seed)
{
    bench b = make_bench(2, (ir_mesh){0, {0}}, 4, seed);
    int32_t refused = 0, n = b.p->roles[0].n_tasks, moved = 0;
    int32_t told = 0;
    for (int32_t t = 0; t < n; t++) {
        plan *p = hand_copy(b.p, b.arena);
        plan_task *task = &p->roles[0].tasks[t];
        if (!plan_task_computes(task))
            continue;
        task->stream = 1 - task->stream;
        moved++;
        refused += check(&b, p) != FS_OK;
        told += strstr(b.report.findings[0].text,
                       "the schedule dynamic leaves their order") != NULL;
    }
    tap_equal_int(refused, moved,
                  "a task on the other pass's stream is "
                  "refused");
    tap_ok(told > 0, "the finding says that credits order the two");
    destroy(&b);
}

int main(void)
{
    uint64_t seed = tap_seed(41);
    test_sound(&seed);
    test_bounded(&seed);
    test_memory(&seed);
    test_crossing(&seed);
    test_comms(&seed);
    test_accumulators(&seed);
    test_wrong_pass(&seed);
    return tap_done();
}
