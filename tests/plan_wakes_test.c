/* Whoever may go on when a task is done is among those that it wakes: random
 * networks under random plans (the cases of exec_equal_test), each role stepped
 * in a random order of firings and completions, where what meets others
 * completes at any time; after each event all streams are looked at. */
#include "config.h"

#include "equal.h"
#include "plan/actor_wakes.h"
#include "plan/lower.h"
#include "tap.h"

#include <stdlib.h>

enum { CASES = 300, STEPS = 3, MOST_TOLD = 5, RANKS = 4 };

typedef struct tally {
    int32_t plans, roles, missed, stuck;
    int64_t completions, woken, freed;
    int64_t others; /* of the freed: not the stream's own next head */
} tally;

typedef struct walk {
    plan_actors *a;
    uint64_t seed;
    bool *could; /* [streams] fire, before the event */
    tally *t;
} walk;

static bool can_fire(const walk *w, int32_t stream)
{
    return plan_actor_ready(w->a, stream) && plan_actor_turn(w->a, stream);
}

static void look_before(const walk *w)
{
    for (int32_t s = 0; s < w->a->role->n_streams; s++)
        w->could[s] = can_fire(w, s);
}

/* Counts those that have become free without being named. */
static void look_after(const walk *w, int32_t by, uint64_t wakes)
{
    for (int32_t s = 0; s < w->a->role->n_streams; s++) {
        if (w->could[s] || !can_fire(w, s))
            continue;
        w->t->freed++;
        w->t->others += s != by;
        w->t->missed += !(wakes & plan_stream_bit(s));
    }
}

static void complete(const walk *w, int32_t stream)
{
    const plan_actor_wakes wakes =
        plan_actor_wakes_of(w->a, plan_actor_head(w->a, stream));
    const uint64_t bits = wakes.by[plan_actor_last_firing(w->a, stream)];
    plan_actor_done(w->a, stream);
    w->t->completions++;
    w->t->woken += __builtin_popcountll(bits);
    look_after(w, stream, bits);
}

/* One event of a stream drawn among those that have one; false: none has. */
static bool go_on(walk *w)
{
    const int32_t n = w->a->role->n_streams;
    const int32_t from = (int32_t)fs_rand_below(&w->seed, n);
    look_before(w);
    for (int32_t i = 0; i < n; i++) {
        const int32_t s = (from + i) % n;
        if (w->a->cursor[s].busy) {
            complete(w, s);
            return true;
        }
        if (w->could[s]) {
            plan_actor_fire(w->a, s);
            look_after(w, s, 0);
            return true;
        }
    }
    return false;
}

static void walk_role(const plan *p, int32_t r, uint64_t seed, bool ordered,
                      tally *t)
{
    fs_arena *arena = fs_arena_create();
    const plan_role *role = &p->roles[r];
    walk w = {.a = (ordered ? plan_actors_create_ordered
                            : plan_actors_create)(p, role, STEPS, arena),
              .seed = fs_mix(seed + (uint64_t)r),
              .could = fs_new(arena, bool, role->n_streams),
              .t = t};
    while (go_on(&w))
        ;
    t->roles++;
    t->stuck += !plan_actors_finished(w.a);
    fs_arena_destroy(arena);
}

static void walk_case(uint64_t number, tally *t)
{
    const equal_case c = equal_draw(RANKS * EQUAL_RANKS_AT + number);
    const int32_t missed = t->missed;
    uint64_t features = 0;
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_graph *graph = equal_graph(&c, &err, &features), *bound;
    plan_strategy *s =
        graph ? equal_strategy(&c, graph, arena, &err, &bound) : NULL;
    plan_lower_options options = plan_lower_defaults();
    hw_cluster *cluster;
    plan *p;
    options.overlap = c.overlap;
    options.bucket_bytes = c.bucket_bytes;
    options.share_memory = !c.unshared;
    options.refine = false;
    if (s)
        s->batch = bound->batch;
    if (s && hw_cluster_probe(c.ranks, arena, &err, &cluster) == FS_OK &&
        plan_lower(bound, cluster, s, &options, arena, &err, &p) == FS_OK) {
        t->plans++;
        for (int32_t r = 0; r < p->n_roles; r++)
            for (int ordered = 0; ordered < 2; ordered++)
                walk_role(p, r, number, ordered, t);
        if (t->missed > missed && t->missed <= MOST_TOLD)
            printf("# FS_SEED=%llu: %d streams were not woken\n",
                   (unsigned long long)number, (int)(t->missed - missed));
    }
    if (graph)
        ir_graph_destroy(graph);
    fs_arena_destroy(arena);
}

int main(void)
{
    const char *one = getenv("FS_SEED"), *cases = getenv("FS_CASES");
    const int32_t n = one ? 1 : cases ? atoi(cases) : CASES;
    tally t = {0};
    for (int32_t k = 0; k < n; k++)
        walk_case(one ? strtoull(one, NULL, 10) : (uint64_t)k, &t);
    printf("# %d plans, %d roles; %lld completions woke %lld streams, of which "
           "%lld could go on, %lld of them others\n",
           (int)t.plans, (int)t.roles, (long long)t.completions,
           (long long)t.woken, (long long)t.freed, (long long)t.others);
    tap_ok(t.missed == 0,
           "whoever may go on was woken: %d were not (FS_SEED=N repeats one)",
           (int)t.missed);
    tap_ok(t.others > t.completions / 20, "and many were: %lld",
           (long long)t.others);
    tap_ok(t.stuck == 0, "each role comes to its end: %d do not", (int)t.stuck);
    tap_ok(one || t.plans > n / 2, "most cases have a plan: %d of %d",
           (int)t.plans, (int)n);
    return tap_done();
}
