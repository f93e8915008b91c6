/* The formula: a strategy's seconds and bytes are the sum of their pieces,
 * worked out a second time here; plans get a demand per task. */
#include "config.h"
#include "cost/cost.h"
#include "cost/memory.h"

#include "base/sum.h"
#include "ir/train.h"
#include "plan/schedule.h"
#include "tap.h"

static fs_arena *arena;
static uint64_t seed;

enum { CASES = 120 };

static hw_cluster *make_cluster(int32_t nodes, int32_t cores)
{
    hw_cluster *c = fs_new(arena, hw_cluster, 1);
    c->name = "test";
    c->n_groups = 1;
    c->groups = fs_new(arena, hw_group, 1);
    c->groups[0] = (hw_group){.nodes = nodes,
                              .devices_per_node = 4 / nodes,
                              .device = {.name = "d",
                                         .memory_bytes = 1e9,
                                         .memory_bps = 1e10,
                                         .fp32_flops = 1e11,
                                         .matmul_efficiency = 0.8,
                                         .memory_efficiency = 0.7,
                                         .launch_s = 2e-6},
                              .inner = {"inner", 1e-6, 5e9, cores > 0},
                              .memory = {"memory", 2e-7, 4e9, cores > 0},
                              .cores_per_node = cores};
    c->outer = (hw_link){"outer", 3e-5, 1e9, false};
    hw_cluster_finish(c);
    return c;
}

/* Layers of matmul, gelu and layer norm, a loss, its training step. */
static ir_graph *make_graph(int32_t layers, int32_t micro_batches)
{
    ir_graph *g = ir_graph_create("layers");
    ir_shape data = {2, {16, 32}}, square = {2, {32, 32}}, row = {1, {32}};
    ir_init init = {.kind = IR_INIT_NORMAL, .spread = 0.02};
    int32_t x = ir_input(g, "x", IR_F32, data, 0);
    int32_t wanted = ir_input(g, "wanted", IR_F32, data, 0);
    for (int32_t l = 0; l < layers; l++) {
        int32_t w = ir_parameter(g, fs_printf(g->arena, "w%d", l), IR_F32,
                                 square, init);
        int32_t gain =
            ir_parameter(g, fs_printf(g->arena, "g%d", l), IR_F32, row, init);
        int32_t bias =
            ir_parameter(g, fs_printf(g->arena, "b%d", l), IR_F32, row, init);
        x = ir_unary(g, IR_OP_gelu, ir_matmul(g, x, w, false, false));
        x = ir_layer_norm(g, x, gain, bias, 1e-5);
    }
    g->loss = ir_mse(g, x, wanted);
    g->batch = 16 * micro_batches;
    ir_train_options options = ir_train_defaults();
    fs_err err = {0};
    options.optimizer = IR_ADAMW;
    options.micro_batches = micro_batches;
    if (g->err.status != FS_OK || ir_train(g, &options, &err) != FS_OK) {
        printf("Bail out! %s%s\n", g->err.text, err.text);
        exit(99);
    }
    return g;
}

static plan_stage random_stage(int32_t devices, int32_t first)
{
    plan_stage stage = {.mesh = {1, {devices}}, .first_device = first};
    if (devices == 4 && fs_rand_below(&seed, 2))
        stage.mesh = (ir_mesh){2, {2, 2}};
    if (fs_rand_below(&seed, 8) == 0)
        stage.mesh = (ir_mesh){0, {0}};
    return stage;
}

static void random_stages(const ir_graph *g, plan_strategy *s)
{
    int32_t cut = (int32_t)fs_rand_below(&seed, g->nodes.n);
    if (s->n_stages == 1) {
        s->stages[0] = random_stage(4, 0);
        return;
    }
    s->stages[0] = random_stage(2, 0);
    s->stages[1] = s->stages[0];
    s->stages[1].first_device = 2;
    for (int32_t v = 0; v < s->n_nodes; v++) {
        int32_t forward = g->nodes.at[v].forward;
        s->stage_of[v] = forward >= 0 ? s->stage_of[forward] : v > cut;
    }
}

static const plan_stage *stage_at(const plan_strategy *s, int32_t v)
{
    return &s->stages[s->stage_of[v]];
}

/* Random legal signatures; nodes whose inputs cannot be reached go to the
 * all-B one. False when even that leaves an edge without a path. */
static bool random_strategy(const ir_graph *g, const cost_model *model,
                            plan_strategy *s)
{
    plan_boxer *boxer = plan_boxer_create(cost_boxing(model), arena);
    random_stages(g, s);
    for (int32_t v = 0; v < s->n_nodes; v++) {
        ir_nd_sig_list list = {0};
        ir_signatures(g, &g->nodes.at[v], &stage_at(s, v)->mesh, arena, &list);
        s->sig[v] = list.at[fs_rand_below(&seed, list.n)];
    }
    for (int32_t v = 0; v < s->n_nodes; v++)
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++) {
            const plan_ends ends =
                plan_edge_ends(g, s, v, e - s->first_edge[v]);
            if (ends.tensor == NULL)
                continue;
            double seconds = plan_boxer_join(boxer, &ends, &s->edge[e]);
            if (isinf(seconds))
                return false;
        }
    return true;
}

typedef struct pieces {
    fs_sum of[2][2]; /* by stage, [1] per step */
} pieces;

static void add_edge(const ir_graph *g, const cost_model *const models[2],
                     const plan_strategy *s, int32_t v, int32_t slot,
                     pieces *out)
{
    const plan_ends ends = plan_edge_ends(g, s, v, slot);
    if (ends.tensor == NULL)
        return;
    const bool per_step =
        plan_tensor_per_step(g, plan_edge_tensor(g, s, v, slot));
    fs_sum_add(&out->of[s->stage_of[v]][per_step],
               cost_edge_seconds(models[per_step], &ends,
                                 &s->edge[s->first_edge[v] + slot]));
}

/* Each node and edge by itself, though equal ones are looked at once. */
static pieces add_pieces(const ir_graph *g, const cost_model *model,
                         const plan_strategy *s)
{
    const cost_model *const models[2] = {
        cost_model_for(model, s->n_stages, s->micro_batches, arena), model};
    pieces out = {0};
    for (int32_t v = 0; v < s->n_nodes; v++) {
        const bool per_step = cost_node_per_step(g, v);
        fs_sum_add(&out.of[s->stage_of[v]][per_step],
                   cost_node_seconds(models[per_step], g, v, &s->sig[v],
                                     stage_at(s, v)));
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++)
            add_edge(g, models, s, v, e - s->first_edge[v], &out);
    }
    return out;
}

static double iteration_of(const pieces *p, int32_t m)
{
    double s[2][2];
    for (int32_t i = 0; i < 2; i++)
        for (int32_t k = 0; k < 2; k++)
            s[i][k] = fs_sum_value(&p->of[i][k]);
    return s[0][0] + s[1][0] + (m - 1) * fmax(s[0][0], s[1][0]) +
           fmax(s[0][1], s[1][1]);
}

/* To the last digit. */
static bool is_exact(const pieces *p, const cost_summary *summary)
{
    bool same = true;
    for (int32_t i = 0; i < summary->n_stages; i++)
        same = same && summary->micro_s[i] == fs_sum_value(&p->of[i][0]) &&
               summary->step_s[i] == fs_sum_value(&p->of[i][1]);
    return same;
}

static double children(const plan_breakdown *tree)
{
    double sum = 0;
    for (int32_t i = 0; i < tree->n; i++)
        sum += tree->child[i].value;
    return sum;
}

/* Every inner node of a stage's tree is the sum of its children. */
static bool adds_up(const plan_breakdown *tree)
{
    if (tree->n == 0)
        return true;
    if (fabs(children(tree) - tree->value) > 1e-9 * tree->value)
        return false;
    for (int32_t i = 0; i < tree->n; i++)
        if (!adds_up(&tree->child[i]))
            return false;
    return true;
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static bool trees_agree(const cost_summary *s, int32_t m)
{
    bool good = s->time.n == s->n_stages && near(s->time.value, s->iteration_s);
    for (int32_t i = 0; good && i < s->n_stages; i++)
        good = adds_up(&s->time.child[i]) &&
               near(s->time.child[i].value, m * s->micro_s[i] + s->step_s[i]);
    return good;
}

typedef struct counts {
    int32_t tried, time, exact, lowered, fits, fuller, near, trees, two_stages,
        micro;
} counts;

/* Whatever node runs, beside whatever scratch. */
static bool fuller_below(const ir_graph *g, const plan_strategy *s,
                         const plan_role *role)
{
    bool below = true;
    for (int32_t v = -1; v < g->nodes.n; v++) {
        if (v >= 0 && s->stage_of[v] != role->stages[0])
            continue;
        fs_arena *scratch = fs_arena_create();
        const cost_program program = cost_program_of(g, s);
        cost_memory *memory = cost_memory_create(&program, scratch);
        const cost_fuller full =
            cost_fuller_moment(memory, s, role->stages[0], v, scratch);
        fs_arena_destroy(scratch);
        const int64_t bytes = full.bytes;
        below &= bytes <= role->bound_bytes;
        if (bytes > role->bound_bytes)
            printf("# stage %d of %d, %d micro-batches, %s, while %s runs: "
                   "%lld of %lld\n",
                   role->stages[0], s->n_stages, s->micro_batches, s->schedule,
                   g->nodes.at[full.at.node].name, (long long)bytes,
                   (long long)role->bound_bytes);
    }
    return below;
}

/* The estimate is of what the lowered plan holds at once at some moments. */
static void compare_arenas(const ir_graph *g, const hw_cluster *c,
                           const plan_strategy *s, const cost_summary *summary,
                           counts *n)
{
    plan_lower_options options = plan_lower_defaults();
    fs_err err = {0};
    plan *p;
    bool below = true, fuller = true, near_it = true;
    if (plan_lower(g, c, s, &options, arena, &err, &p) != FS_OK) {
        printf("# %s\n", err.text);
        return;
    }
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        int64_t bytes = summary->peak_bytes[role->stages[0]];
        below &= bytes <= role->bound_bytes;
        fuller &= fuller_below(g, s, role);
        near_it &= 2 * bytes >= role->arena_bytes;
        if (bytes > role->bound_bytes)
            printf("# stage %d of %d, %d micro-batches, %s: %lld of %lld\n",
                   role->stages[0], s->n_stages, s->micro_batches, s->schedule,
                   (long long)bytes, (long long)role->bound_bytes);
    }
    n->lowered++;
    n->fits += below;
    n->fuller += fuller;
    n->near += near_it;
}

static void try_one(counts *n)
{
    static const int32_t m_of[3] = {1, 2, 4};
    fs_arena *outside = arena;
    arena = fs_arena_create();
    int32_t m = m_of[fs_rand_below(&seed, 3)];
    ir_graph *g = make_graph(1 + (int32_t)fs_rand_below(&seed, 3), m);
    int32_t cores = (int32_t)fs_rand_below(&seed, 3);
    hw_cluster *c = make_cluster(1 + (int32_t)fs_rand_below(&seed, 2), cores);
    cost_model *model = cost_model_create(c, arena);
    plan_strategy *s =
        plan_strategy_new(g, 1 + (int32_t)fs_rand_below(&seed, 2), arena);
    cost_summary summary;
    fs_err err = {0};
    s->schedule = fs_rand_below(&seed, 2) ? "1f1b" : "gpipe";
    if (random_strategy(g, model, s)) {
        n->tried++;
        n->two_stages += s->n_stages == 2;
        n->micro += m > 1;
        if (cost_strategy(model, g, s, arena, &err, &summary) == FS_OK) {
            pieces p = add_pieces(g, model, s);
            n->time += near(summary.iteration_s, iteration_of(&p, m));
            n->exact +=
                is_exact(&p, &summary) &&
                summary.iteration_s == cost_strategy_seconds(model, g, s);
            compare_arenas(g, c, s, &summary, n);
            n->trees += trees_agree(&summary, m);
        } else {
            printf("# %s\n", err.text);
        }
    }
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
    arena = outside;
}

static void test_additive(void)
{
    counts n = {0};
    for (int32_t i = 0; i < CASES; i++)
        try_one(&n);
    printf("# %d strategies, %d of two stages, %d of several micro-batches\n",
           n.tried, n.two_stages, n.micro);
    tap_ok(n.tried >= CASES / 10, "random strategies are found");
    tap_equal_int(n.time, n.tried, "the formula is the sum of its pieces");
    tap_equal_int(n.exact, n.tried, "to the last digit, whatever is equal");
    tap_ok(n.lowered >= n.tried / 2, "most of them are lowered");
    tap_equal_int(n.fits, n.lowered, "memory is at most what a plan holds");
    tap_equal_int(n.fuller, n.lowered,
                  "nor is any other moment of its more, beside any scratch");
    printf("# memory is at least half the arena in %d of %d\n", n.near,
           n.lowered);
    tap_equal_int(n.trees, n.tried, "the trees add up to the figures");
}

static void test_one_device(void)
{
    ir_graph *g = make_graph(2, 4);
    hw_cluster *cluster = make_cluster(1, 0);
    cost_model *model = cost_model_create(cluster, arena);
    plan_strategy *s = plan_strategy_new(g, 1, arena);
    cost_summary whole;
    fs_err err = {0};
    double bytes = 0;
    tap_ok(cost_strategy(model, g, s, arena, &err, &whole) == FS_OK,
           "one device, nothing boxed");
    tap_near(whole.iteration_s, 4 * whole.micro_s[0] + whole.step_s[0], 1e-12,
             "one stage: m t + u");
    plan_lower_options options = plan_lower_defaults();
    plan *lowered;
    tap_ok(plan_lower(g, cluster, s, &options, arena, &err, &lowered) == FS_OK,
           "and lowered");
    const plan_breakdown memory = plan_memory_tree(lowered, arena);
    const plan_breakdown *stage = &memory.child[0];
    tap_equal_text(stage->child[0].name, "parameters", "memory: parameters");
    bytes = 2 * (4.0 * 32 * 32 + 2 * PLAN_ALIGN);
    tap_near(stage->child[0].value, bytes, 0,
             "parameters: 4 bytes each, aligned");
    tap_near(stage->child[1].value, 2 * bytes, 0,
             "adamw's state: twice the parameters");
    s->stages[0].first_device = 4;
    tap_ok(cost_strategy(model, g, s, arena, &err, &whole) == FS_INVALID,
           "a stage beyond the cluster is refused");
    printf("# %s\n", err.text);
    ir_graph_destroy(g);
}

static void test_bad_path(void)
{
    ir_graph *g = make_graph(1, 1);
    cost_model *model = cost_model_create(make_cluster(1, 0), arena);
    plan_strategy *s = plan_strategy_new(g, 1, arena);
    cost_summary summary;
    fs_err err = {0};
    int32_t v = 0;
    while (g->nodes.at[v].n_in == 0)
        v++;
    s->stages[0].mesh = (ir_mesh){1, {4}};
    plan_boxing *path = &s->edge[s->first_edge[v]];
    path->n = 1;
    path->at[0] = path->at[1] = (ir_nd_sbp){{IR_SBP_B}};
    tap_ok(cost_strategy(model, g, s, arena, &err, &summary) == FS_INVALID &&
               strstr(err.text, "boxing"),
           "a path that is none is refused, the tensor named");
    printf("# %s\n", err.text);
    ir_graph_destroy(g);
}

/* What firing takes stands in each task of a prediction once, and beside what a
 * run measured of it. */
static void test_firing(const ir_graph *g, const plan *p)
{
    const double firing_s = 1e-6;
    hw_cluster *usual = make_cluster(2, 1), *more = make_cluster(2, 1);
    more->groups[0].firing_s = firing_s;
    const cost_model *model = cost_model_create(more, arena);
    const plan_timing *a =
        cost_timing(cost_model_create(usual, arena), g, p, arena);
    plan_timing *b = cost_timing(model, g, p, arena);
    plan_timing *measured = plan_timing_new(p, "measured", arena);
    cost_timing_meet(model, p, measured);
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++) {
            const plan_demand *x = &a->demand[r][t], *y = &b->demand[r][t];
            tap_near(y->total_s - x->total_s, firing_s, 1e-9,
                     "role %d, task %d: longer by a firing", r, t);
            tap_near(y->launch_s - x->launch_s, firing_s, 1e-9,
                     "which is of its launch");
            tap_near(measured->demand[r][t].launch_s, firing_s, 1e-9,
                     "and not of what was measured");
        }
}

/* Two stages of two devices by hand: one task of each kind. */
static void test_timing(void)
{
    ir_graph *g = make_graph(1, 1);
    cost_model *model = cost_model_create(make_cluster(2, 1), arena);
    plan_strategy *s = plan_strategy_new(g, 2, arena);
    int32_t x = ir_graph_find(g, "x"), v = 0;
    s->stages[0] = (plan_stage){.mesh = {1, {2}}};
    s->stages[1] = (plan_stage){.mesh = {1, {2}}, .first_device = 2};
    while (g->nodes.at[v].op != IR_OP_matmul)
        v++;
    ir_nd_sbp whole = {0}, rows = {{IR_SBP_S(0)}};
    plan_box_step step;
    plan_box_step_make(&g->tensors.at[x], &s->stages[0].mesh, &rows, &whole,
                       &step);
    plan_register loaded = {.tensor = x,
                            .sbp = s->sig[g->tensors.at[x].producer].out[0]};
    int32_t first = 0;
    plan_task tasks[5] = {
        {.kind = PLAN_LOAD, .node = g->tensors.at[x].producer, .out = &first},
        {.kind = PLAN_BOX, .tensor = x, .box = step},
        {.kind = PLAN_COMPUTE, .node = v},
        {.kind = PLAN_SEND, .tensor = x, .sbp = rows, .peer_sbp = rows},
        {.kind = PLAN_RECV, .tensor = x, .sbp = rows, .peer_sbp = rows}};
    int32_t stages[2] = {0, 1};
    plan_role roles[2] = {{.n_chunks = 1,
                           .stages = &stages[0],
                           .n_tasks = 4,
                           .tasks = tasks,
                           .registers = &loaded,
                           .n_ranks = 2},
                          {.n_chunks = 1,
                           .stages = &stages[1],
                           .n_tasks = 1,
                           .tasks = &tasks[4]}};
    plan_channel channel = {0, 1};
    plan p = {.strategy = s,
              .n_roles = 2,
              .roles = roles,
              .n_channels = 1,
              .channels = &channel};
    plan_timing *t = cost_timing(model, g, &p, arena);
    tap_equal_text(t->source, "predicted", "a predicted timing table");
    tap_near(t->demand[0][0].total_s, 16 * 32 * 4 / 4e9 + 2e-7, 1e-9,
             "a load copies its piece");
    tap_near(t->demand[0][1].total_s,
             cost_box_step(model, &s->stages[0], &step).total_s, 0,
             "a box task costs its step");
    tap_near(
        t->demand[0][2].total_s,
        cost_op(model, g, &g->nodes.at[v], &s->sig[v], &s->stages[0]).total_s,
        0, "a compute task costs its op");
    tap_ok(t->demand[0][2].on_core, "and occupies its core");
    tap_near(t->demand[0][3].total_s, 8 * 32 * 4 / (1e9 / 2) + 3e-5, 1e-9,
             "a send costs the move; two senders share the node's way out");
    tap_near(t->demand[1][0].total_s, t->demand[0][3].total_s, 0,
             "a receive costs what its send does");
    test_firing(g, &p);
    ir_graph_destroy(g);
}

int main(void)
{
    arena = fs_arena_create();
    seed = tap_seed(20241);
    test_additive();
    test_one_device();
    test_bad_path();
    test_timing();
    fs_arena_destroy(arena);
    return tap_done();
}
