/* A role is played as one of its ranks: what all of them do, one by one. Ranks
 * of a stage meet in rows and columns of a mesh; a group of them whose members
 * lie on several nodes takes longer than one on a node. Where all groups lie
 * alike the role takes what its ranks take, to the nanosecond; where they do
 * not it is its slowest groups in every task, and so never too fast. */
#include "plan_hand.h"

#include "sim/sim.h"

enum { STEPS = 4, LONGER = 3 };

typedef struct bench {
    fs_arena *arena;
    ir_graph *g;
    hw_cluster *c;
    plan *p;
    plan_timing *timing;
    int64_t *kernel_ns; /* [tasks] of a group on a node */
    bool *fast;         /* [tasks * ranks] its group is on a node */
    int32_t unlike;     /* collectives with such and other groups */
} bench;

static bench made(ir_mesh mesh, int32_t nodes, int32_t per_node,
                  uint64_t signatures)
{
    bench b = {.arena = fs_arena_create()};
    b.g = hand_mlp(6, 18, 18, 3);
    b.c = hand_cluster(b.arena, nodes, per_node, 0);
    plan_strategy *s = hand_stages(b.g, 1, mesh, b.arena);
    s->schedule = "1f1b";
    hand_signatures(b.g, s, signatures, b.arena);
    b.p = hand_lower(b.g, b.c, s, false, b.arena);
    b.timing = plan_timing_new(b.p, "test", b.arena);
    return b;
}

static bool on_one_node(const bench *b, const plan_task *task, int32_t rank)
{
    int32_t *group = fs_new(b->arena, int32_t, b->p->roles[0].n_ranks);
    const int32_t n =
        plan_comm_ranks(b->p, &b->p->comms[task->comm], rank, group);
    for (int32_t i = 1; i < n; i++)
        if (hw_node_of(b->c, group[i]) != hw_node_of(b->c, group[0]))
            return false;
    return true;
}

/* The role's time of a collective is that of its slowest group. */
static void draw_times(bench *b, uint64_t *seed)
{
    const plan_role *role = &b->p->roles[0];
    b->kernel_ns = fs_new(b->arena, int64_t, role->n_tasks);
    b->fast = fs_new(b->arena, bool, role->n_tasks * role->n_ranks);
    for (int32_t t = 0; t < role->n_tasks; t++) {
        const plan_task *task = &role->tasks[t];
        int32_t n_fast = 0;
        int64_t most = b->kernel_ns[t] = 1 + fs_rand_below(seed, 100000);
        for (int32_t i = 0; i < role->n_ranks && task->comm >= 0; i++) {
            b->fast[t * role->n_ranks + i] = on_one_node(b, task, i);
            n_fast += b->fast[t * role->n_ranks + i];
            if (!b->fast[t * role->n_ranks + i])
                most = LONGER * b->kernel_ns[t];
        }
        b->unlike += n_fast > 0 && n_fast < role->n_ranks;
        if (task->comm >= 0 || plan_task_computes(task))
            b->timing->demand[0][t].total_s = (double)most * 1e-9;
    }
}

static void destroy(bench *b)
{
    ir_graph_destroy(b->g);
    fs_arena_destroy(b->arena);
}

/* ---- all ranks, one by one ---- */

static void fire(const bench *b, int32_t t, int64_t *at_ns)
{
    const plan_role *role = &b->p->roles[0];
    const plan_task *task = &role->tasks[t];
    int32_t *group = fs_new(b->arena, int32_t, role->n_ranks);
    for (int32_t i = 0; i < role->n_ranks; i++) {
        if (task->comm < 0) {
            at_ns[i] += plan_task_computes(task) ? b->kernel_ns[t] : 0;
            continue;
        }
        const int32_t n =
            plan_comm_ranks(b->p, &b->p->comms[task->comm], i, group);
        int64_t last = 0;
        for (int32_t k = 0; k < n && group[0] == i; k++)
            last = at_ns[group[k]] > last ? at_ns[group[k]] : last;
        last += (b->fast[t * role->n_ranks + i] ? 1 : LONGER) * b->kernel_ns[t];
        for (int32_t k = 0; k < n && group[0] == i; k++)
            at_ns[group[k]] = last;
    }
}

/* End of the last rank's last step but one, less that of the one before. */
static int64_t play(const bench *b)
{
    const plan_role *role = &b->p->roles[0];
    int64_t *at_ns = fs_new(b->arena, int64_t, role->n_ranks);
    int64_t end_ns[STEPS] = {0};
    for (int32_t k = 0; k < STEPS; k++) {
        for (int32_t s = 0; s < role->n_slots; s++)
            for (int32_t t = 0; t < role->n_tasks; t++)
                if (plan_task_section(role, &role->tasks[t]) ==
                    plan_slot_section(role, &role->slots[s]))
                    fire(b, t, at_ns);
        for (int32_t i = 0; i < role->n_ranks; i++)
            end_ns[k] = at_ns[i] > end_ns[k] ? at_ns[i] : end_ns[k];
    }
    return end_ns[STEPS - 2] - end_ns[STEPS - 3];
}

static int64_t simulated_ns(const bench *b)
{
    const sim_options how = {.steps = STEPS, .straggler = 1};
    fs_err err = {0};
    sim_result r = {0};
    if (sim_run(b->g, b->p, b->c, b->timing, &how, b->arena, &err, &r) != FS_OK)
        printf("# %s\n", err.text);
    return (int64_t)(r.iteration_s * 1e9 + 0.5);
}

/* ---- alike or not ---- */

typedef struct tally {
    int32_t plans, same, below;
    int32_t unlike; /* collectives whose groups lie unlike each other */
    double most;    /* of the role's time over that of its ranks */
} tally;

static tally compare(ir_mesh mesh, int32_t nodes, int32_t per_node,
                     uint64_t *seed)
{
    tally t = {0};
    for (int32_t i = 0; i < 30; i++) {
        bench b = made(mesh, nodes, per_node, fs_rand_below(seed, 1000));
        draw_times(&b, seed);
        const int64_t role = simulated_ns(&b), ranks = play(&b);
        t.plans++;
        t.same += role == ranks;
        t.below += role < ranks;
        t.unlike += b.unlike;
        t.most = fmax(t.most, (double)role / (double)ranks);
        destroy(&b);
    }
    return t;
}

/* Of three rows of three on nodes of four the second lies on two nodes. As long
 * as some rank is in a slow group whichever way it meets others, the role is
 * what that one is. */
static void test_unlike(uint64_t *seed)
{
    static const struct {
        ir_mesh mesh;
        int32_t nodes, per_node;
    } unlike[] = {{{2, {3, 3}}, 3, 4},    {{2, {3, 6}}, 5, 4},
                  {{2, {2, 3}}, 2, 4},    {{3, {2, 2, 3}}, 3, 5},
                  {{3, {2, 3, 2}}, 3, 5}, {{3, {3, 2, 3}}, 3, 7}};
    tally all = {0};
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++) {
        const tally t =
            compare(unlike[i].mesh, unlike[i].nodes, unlike[i].per_node, seed);
        all.plans += t.plans;
        all.same += t.same;
        all.below += t.below;
        all.unlike += t.unlike;
        all.most = fmax(all.most, t.most);
    }
    tap_equal_int(all.below, 0,
                  "rows of three on nodes of four, and their like: a role is "
                  "never faster than its ranks one by one");
    tap_ok(all.unlike > all.plans, "%d collectives have groups of both kinds",
           all.unlike);
    printf("# of %d plans %d take the same; the role %.4f times as long at "
           "most\n",
           all.plans, all.same, all.most);
}

int main(void)
{
    static const struct {
        const char *what;
        ir_mesh mesh;
        int32_t nodes, per_node;
    } alike[] = {{"4 on a node", {1, {4}}, 1, 4},
                 {"2 x 2, rows on nodes of two", {2, {2, 2}}, 2, 2},
                 {"2 x 4, rows on nodes of four", {2, {2, 4}}, 2, 4},
                 {"3 x 2, rows on nodes of two", {2, {3, 2}}, 3, 2},
                 {"2 x 2, each on its own node", {2, {2, 2}}, 4, 1}};
    uint64_t seed = tap_seed(11);
    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++) {
        const tally t =
            compare(alike[i].mesh, alike[i].nodes, alike[i].per_node, &seed);
        tap_equal_int(t.same, t.plans,
                      "%s: a role takes what its ranks take one by one, to "
                      "the nanosecond",
                      alike[i].what);
    }
    test_unlike(&seed);
    return tap_done();
}
