/* Chains of one device, which waits for nobody but its loader: whatever head
 * may fire begins a chain that may run whole. Were it not, each of a section's
 * tasks would begin a chain of its own, made of all behind it: quadratic in its
 * length. */
#include "plan_hand.h"

#include "plan/actor_chain.h"
#include "plan/pace.h"

enum { STEPS = 3 };

/* Of which each step reads what the one before made of the scale of its loss,
 * in the forward pass and once more where it is made anew. */
static ir_graph *scaled_mlp(int32_t layers, int32_t micro_batches)
{
    ir_graph *g = ir_graph_create("scaled");
    fs_err err = {0};
    const ir_init init = {IR_INIT_NORMAL, 0, 0.1, 7};
    const ir_shape shape = ir_shape_make(2, (int64_t[]){8, 8});
    int32_t x = ir_input(g, "x", IR_F32, shape, 0);
    const int32_t target = ir_input(g, "target", IR_F32, shape, 0);
    for (int32_t i = 0; i < layers; i++)
        x = ir_unary(g, IR_OP_relu,
                     ir_matmul(g, x,
                               ir_parameter(g, fs_printf(g->arena, "w%d", i),
                                            IR_F32, shape, init),
                               false, false));
    g->loss = ir_mse(g, x, target);
    g->batch = 8 * micro_batches;
    ir_train_options train = ir_train_defaults();
    train.optimizer = IR_ADAM;
    train.micro_batches = micro_batches;
    train.loss_scale = (ir_loss_scale){65536, true, 2000};
    if (g->err.status != FS_OK || ir_train(g, &train, &err) != FS_OK) {
        printf("Bail out! %s%s\n", g->err.text, err.text);
        exit(1);
    }
    return g;
}

typedef struct walk {
    const plan_role *role;
    plan_actors *a;
    plan_chains *chains;
    int32_t n_chains, n_single, n_refused;
} walk;

static walk begin(const plan *p, fs_arena *arena)
{
    walk w = {.role = &p->roles[0]};
    int64_t *ps = fs_new(arena, int64_t, w.role->n_tasks);
    plan_paces *paces = fs_new(arena, plan_paces, 1);
    for (int32_t t = 0; t < w.role->n_tasks; t++)
        ps[t] = 1000 * (1 + t % 7);
    *paces = (plan_paces){.demand_ps = ps, .beside_rate = PLAN_RATE_FULL};
    w.a = plan_actors_create_ordered(p, w.role, STEPS, arena);
    w.chains = plan_chains_create(w.a, paces, arena);
    return w;
}

/* By a chain, if one begins there. */
static void step(walk *w, int32_t stream)
{
    const plan_chain *chain =
        plan_chain_of(w->chains, plan_actor_head(w->a, stream),
                      plan_actor_variant(w->a, stream), false);
    if (chain && plan_actor_chain_ready(w->a, stream, chain)) {
        w->n_chains++;
        plan_actor_chain_fire(w->a, stream, chain);
        plan_actor_chain_done(w->a, stream, chain);
        return;
    }
    w->n_refused += chain != NULL;
    w->n_single++;
    plan_actor_fire(w->a, stream);
    plan_actor_done(w->a, stream);
}

static bool run_through(walk *w)
{
    bool moved = true;
    while (moved && !plan_actors_finished(w->a)) {
        moved = false;
        for (int32_t s = 0; s < w->role->n_streams; s++)
            for (; plan_actor_ready(w->a, s); moved = true)
                step(w, s);
    }
    return plan_actors_finished(w->a);
}

static void test_one_device(int32_t micro_batches, const char *schedule)
{
    fs_arena *arena = fs_arena_create();
    ir_graph *g = scaled_mlp(12, micro_batches);
    hw_cluster *c = hand_cluster(arena, 1, 1, 0);
    plan_strategy *s = hand_stages(g, 1, (ir_mesh){0}, arena);
    s->schedule = schedule;
    hand_signatures(g, s, 0, arena);
    const plan *p = hand_lower(g, c, s, false, arena);
    walk w = begin(p, arena);
    const bool whole = run_through(&w);
    tap_ok(whole && w.n_refused == 0 && w.n_chains > 0,
           "%s, %d micro-batches: %d chains, %d refused, %d tasks alone",
           schedule, micro_batches, w.n_chains, w.n_refused, w.n_single);
    fs_arena_destroy(arena);
    ir_graph_destroy(g);
}

int main(void)
{
    for (int32_t m = 1; m <= 4; m++) {
        test_one_device(m, "1f1b");
        test_one_device(m, "gpipe");
    }
    return tap_done();
}
