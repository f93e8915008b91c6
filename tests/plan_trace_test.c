/* Traces: a transfer starts with the last of its members. */
#include "config.h"

#include "plan/timing.h"

#include "plan_build.h"
#include "tap.h"

typedef struct traced {
    fs_arena *arena;
    ir_graph *graph;
    plan *p;
    plan_trace trace;
} traced;

/* Two stages of 2 x 2 ranks; every rank fires every task once and takes a
 * second, from a time of its own. */
static traced make_trace(uint64_t seed)
{
    traced t = {.arena = fs_arena_create()};
    build_recipe recipe = {.pp = 2, .dp = 2, .tp = 2};
    plan_lower_options options = plan_lower_defaults();
    fs_err err = {0};
    t.graph = build_mlp(4, 8, true, 2);
    t.trace.arena = t.arena;
    plan_strategy *s = build_strategy(t.graph, &recipe, t.arena);
    if (plan_lower(t.graph, build_cluster(8, t.arena), s, &options, t.arena,
                   &err, &t.p) != FS_OK)
        printf("# %s\n", err.text);
    for (int32_t rank = 0; rank < 8; rank++) {
        const plan_role *role = plan_role_of_rank(t.p, rank);
        for (int32_t i = 0; i < role->n_tasks; i++) {
            int64_t start = fs_rand_below(&seed, 1000000000);
            plan_event e = {.rank = rank,
                            .task = i,
                            .ready_ns = start,
                            .start_ns = start,
                            .end_ns = start + 1000000000};
            fs_push(t.arena, &t.trace.events, e);
        }
    }
    return t;
}

static const plan_task *task_of(const plan *p, const plan_event *e)
{
    return &plan_role_of_rank(p, e->rank)->tasks[e->task];
}

/* Do two events belong to one transfer? Said anew, pair by pair. */
static bool meet(const plan *p, const plan_event *a, const plan_event *b)
{
    const plan_task *x = task_of(p, a), *y = task_of(p, b);
    if (x->kind == PLAN_BOX && x->comm >= 0 && x == y) {
        int32_t ranks[8];
        int32_t n = plan_comm_ranks(p, &p->comms[x->comm], a->rank, ranks);
        for (int32_t i = 0; i < n; i++)
            if (ranks[i] == b->rank)
                return true;
    }
    if (x->channel < 0 || x->channel != y->channel || x->tensor != y->tensor ||
        x->phase != y->phase)
        return false;
    const bool twin = x->kind == y->kind;
    if (!ir_nd_sbp_equal(&x->sbp, twin ? &y->sbp : &y->peer_sbp, 2) ||
        !ir_nd_sbp_equal(&x->peer_sbp, twin ? &y->peer_sbp : &y->sbp, 2))
        return false;
    if (!plan_task_is_straight(p, x))
        return true; /* all positions of both stages */
    return !twin &&
           plan_channel_peer(p, &p->channels[x->channel], a->rank) == b->rank;
}

static void test_arrivals(uint64_t seed)
{
    traced t = make_trace(seed);
    int32_t n = t.trace.events.n, met = 0, wrong = 0, moved = 0;
    int64_t *last = fs_new(t.arena, int64_t, n);
    for (int32_t i = 0; i < n; i++) {
        const plan_event *e = &t.trace.events.at[i];
        last[i] = e->start_ns;
        for (int32_t k = 0; k < n; k++)
            if (k != i && meet(t.p, e, &t.trace.events.at[k])) {
                int64_t other = t.trace.events.at[k].start_ns;
                met++;
                last[i] = other > last[i] ? other : last[i];
            }
    }
    plan_trace_arrivals(t.p, &t.trace);
    for (int32_t i = 0; i < n; i++) {
        const plan_event *e = &t.trace.events.at[i];
        wrong += e->start_ns != last[i];
        moved += e->start_ns > e->ready_ns;
    }
    tap_ok(met > 50, "%d pairs of members meet", met);
    tap_equal_int(wrong, 0,
                  "a transfer starts with its last member, any other "
                  "task where it did");
    tap_ok(moved > 0, "what was before is waiting: %d events", moved);
    ir_graph_destroy(t.graph);
    fs_arena_destroy(t.arena);
}

/* A message that was sent before the other side looked for it. */
static void test_early_send(void)
{
    traced t = make_trace(1);
    plan_event *sent = NULL, *received = NULL;
    for (int32_t i = 0; !sent && i < t.trace.events.n; i++)
        if (task_of(t.p, &t.trace.events.at[i])->kind == PLAN_SEND)
            sent = &t.trace.events.at[i];
    for (int32_t i = 0; sent && i < t.trace.events.n; i++)
        if (meet(t.p, sent, &t.trace.events.at[i]))
            received = &t.trace.events.at[i];
    tap_ok(sent && received, "a send has its receive");
    if (!sent || !received)
        return;
    sent->start_ns = 5;
    sent->end_ns = 10;
    received->start_ns = 20;
    received->end_ns = 30;
    plan_trace_arrivals(t.p, &t.trace);
    tap_equal_int(sent->start_ns, 5, "who is done early has not waited");
    tap_equal_int(received->start_ns, 20, "nor has who comes last");
    ir_graph_destroy(t.graph);
    fs_arena_destroy(t.arena);
}

/* However long the step, a trace of its ends has about as many events as it has
 * room for. */
static void test_ends(uint64_t seed)
{
    traced t = make_trace(seed);
    plan p = *t.p;
    int64_t each = 0;
    int32_t wrong = 0;
    for (int32_t r = 0; r < p.n_roles; r++)
        for (int32_t i = 0; i < p.roles[r].n_tasks; i++)
            each += plan_phase_once(p.roles[r].tasks[i].phase)
                        ? 0
                        : p.roles[r].n_ranks;
    for (int k = 0; k < 200; k++) {
        const int64_t most = 1 + (int64_t)fs_rand_below(&seed, 100000);
        p.micro_batches = 1 + (int32_t)fs_rand_below(&seed, 1000000);
        const int32_t ends = plan_trace_ends(&p, most);
        int64_t shown = 0;
        for (int32_t m = 0; m < p.micro_batches; m++)
            shown += plan_trace_shows(&p, ends, m);
        const bool whole = p.micro_batches * each <= most;
        wrong += whole ? shown != p.micro_batches
                       : shown * each > (most > 2 * each ? most : 2 * each) ||
                             (shown + 2) * each <= most;
    }
    tap_equal_int(wrong, 0, "a trace has as much of a step's ends as it can");
    ir_graph_destroy(t.graph);
    fs_arena_destroy(t.arena);
}

int main(void)
{
    test_ends(tap_seed(9));
    test_arrivals(tap_seed(8));
    test_early_send();
    return tap_done();
}
