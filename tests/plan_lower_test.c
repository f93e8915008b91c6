#include "config.h"

#include "plan/check.h"
#include "plan/schedule.h"
#include "zoo/zoo.h"

#include "plan_build.h"
#include "plan_live.h"
#include "tap.h"

typedef struct lowered {
    fs_arena *arena;
    ir_graph *graph;
    hw_cluster *cluster;
    plan_strategy *strategy;
    plan *p;
    fs_err err;
    fs_status status;
} lowered;

static lowered lower_graph(ir_graph *graph, const build_recipe *recipe,
                           const plan_lower_options *options)
{
    lowered l = {.arena = fs_arena_create(), .graph = graph};

    l.cluster = build_cluster(8, l.arena);
    l.strategy = build_strategy(graph, recipe, l.arena);
    l.status = plan_lower(graph, l.cluster, l.strategy, options, l.arena,
                          &l.err, &l.p);
    if (l.status != FS_OK)
        printf("# %s\n", l.err.text);
    return l;
}

static void close_lowered(lowered *l)
{
    ir_graph_destroy(l->graph);
    fs_arena_destroy(l->arena);
}

/* ---- what every plan must be ---- */

static int32_t disorder(const plan *p)
{
    int32_t faults = 0, rank = 0;

    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        faults += role->first_rank != rank;
        rank += role->n_ranks;
        for (int32_t t = 1; t < role->n_tasks; t++)
            faults += role->tasks[t].phase < role->tasks[t - 1].phase;
        for (int32_t k = 0; k < role->n_ranks; k++)
            faults += plan_role_of_rank(p, role->first_rank + k) != role;
    }
    return faults;
}

/* Both sides of every channel move the same tensors in the same order. */
static int32_t channel_faults(const plan *p, int32_t channel)
{
    int32_t moved[2][1000], n[2] = {0, 0}, faults = 0;

    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++) {
            const plan_task *task = &p->roles[r].tasks[t];
            int32_t side = task->kind == PLAN_RECV;
            if (task->channel != channel)
                continue;
            moved[side][n[side]++] = task->tensor * PLAN_PHASES + task->phase;
            faults += plan_task_stage(&p->roles[r], task) !=
                      (side ? p->channels[channel].to_stage
                            : p->channels[channel].from_stage);
        }
    if (n[0] != n[1] || n[0] == 0)
        return faults + 1;
    for (int32_t i = 0; i < n[0]; i++)
        faults += moved[0][i] != moved[1][i];
    return faults;
}

static int32_t memory_faults(const plan *p)
{
    int32_t faults = 0;

    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        int64_t most;
        faults += live_own_faults(role);
        faults += live_clashes(role, p->micro_batches, 6, &most);
        faults += live_bytes_sum(role) != role->arena_bytes;
        faults += role->arena_bytes < role->bound_bytes;
    }
    return faults;
}

static double largest_gap(const plan *p)
{
    double gap = 0;

    for (int32_t r = 0; r < p->n_roles; r++)
        gap = fmax(gap, (double)p->roles[r].arena_bytes /
                                (double)p->roles[r].bound_bytes -
                            1);
    return gap;
}

static void check_plan(const char *name, lowered *l)
{
    plan_report report = {0};
    int32_t channels = 0;
    fs_status status;

    tap_equal_int(l->status, FS_OK, "%s is lowered", name);
    if (l->status != FS_OK)
        return;
    status = plan_check(l->graph, l->cluster, l->p, l->arena, &report);
    for (int32_t i = 0; i < report.n; i++)
        printf("# %s: %s\n", plan_finding_name(report.findings[i].kind),
               report.findings[i].text);
    tap_equal_int(status, FS_OK, "%s: proven sound", name);
    tap_equal_int(disorder(l->p), 0, "%s: roles and tasks in order", name);
    for (int32_t c = 0; c < l->p->n_channels; c++)
        channels += channel_faults(l->p, c);
    tap_equal_int(channels, 0, "%s: both sides of %d channels agree", name,
                  (int)l->p->n_channels);
    tap_equal_int(memory_faults(l->p), 0,
                  "%s: no two live pieces share a byte, arenas add up, "
                  "gap %.1f %%",
                  name, 100 * largest_gap(l->p));
}

static void test_recipes(void)
{
    static const struct {
        const char *name;
        build_recipe recipe;
        int32_t m;
        bool tied;
    } cases[] = {{"one device", {0}, 1, false},
                 {"one device, 3 micro-batches", {0}, 3, false},
                 {"dp 2", {.dp = 2}, 1, false},
                 {"dp 4, 2 micro-batches", {.dp = 4}, 2, false},
                 {"tp 2", {.tp = 2}, 1, false},
                 {"dp 2, tp 2", {.dp = 2, .tp = 2}, 2, false},
                 {"ZeRO-1 over 2", {.dp = 2, .zero_states = true}, 2, false},
                 {"ZeRO-3 over 2",
                  {.dp = 2, .zero_states = true, .zero_params = true},
                  2,
                  false},
                 {"pp 2, 1f1b", {.pp = 2}, 4, false},
                 {"pp 2, gpipe", {.pp = 2, .schedule = "gpipe"}, 4, false},
                 {"pp 4, 8 micro-batches", {.pp = 4}, 8, false},
                 {"pp 4, 5 micro-batches", {.pp = 4}, 5, false},
                 {"pp 2, tp 2", {.pp = 2, .tp = 2}, 4, false},
                 {"pp 2, dp 2, tp 2", {.pp = 2, .dp = 2, .tp = 2}, 3, false},
                 {"tied weights, pp 3", {.pp = 3}, 4, true},
                 {"tied weights, pp 2, dp 2, ZeRO-1",
                  {.pp = 2, .dp = 2, .zero_states = true},
                  4,
                  true}};
    static const plan_lower_options options[] = {
        {.overlap = false, .share_memory = true, .prefetch = 1},
        {.overlap = true, .share_memory = true, .prefetch = 1},
        {.overlap = true, .share_memory = false, .prefetch = 0}};
    static const char *const kinds[] = {"", ", overlap",
                                        ", overlap, nothing shared"};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int32_t o = 0; o < 3; o++) {
            ir_graph *g = build_mlp(6, 8, cases[i].tied, cases[i].m);
            lowered l = lower_graph(g, &cases[i].recipe, &options[o]);
            char name[100];
            snprintf(name, sizeof name, "%s%s", cases[i].name, kinds[o]);
            check_plan(name, &l);
            close_lowered(&l);
        }
}

static void test_gpt(void)
{
    static const struct {
        const char *name;
        build_recipe recipe;
        int32_t m;
    } cases[] = {
        {"gpt, dp 2, tp 2", {.dp = 2, .tp = 2, .zero_states = true}, 2},
        {"gpt, pp 2, tp 2", {.pp = 2, .tp = 2}, 4},
        {"gpt, pp 4", {.pp = 4}, 8},
        {"gpt, random on (2,2)", {.dp = 2, .tp = 2, .random = 5}, 2}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        plan_lower_options o = plan_lower_defaults();
        ir_train_options options = ir_train_defaults();
        fs_err err = {0};
        ir_graph *g = NULL;
        options.optimizer = IR_ADAMW;
        options.micro_batches = cases[i].m;
        if (zoo_build("zoo:gpt,layers=2,hidden=32,heads=4,vocab=64,seq=16", 4,
                      &err, &g) != FS_OK ||
            ir_train(g, &options, &err) != FS_OK) {
            tap_ok(false, "%s: %s", cases[i].name, err.text);
            return;
        }
        lowered l = lower_graph(g, &cases[i].recipe, &o);
        check_plan(cases[i].name, &l);
        tap_ok(l.status == FS_OK && largest_gap(l.p) < 0.1,
               "%s: arenas within 10 %% of their bounds", cases[i].name);
        close_lowered(&l);
    }
}

/* Whatever legal strategy there is, its plan is sound. */
static void test_random(uint64_t seed)
{
    static const build_recipe meshes[] = {{.dp = 2},
                                          {.dp = 4},
                                          {.dp = 2, .tp = 2},
                                          {.dp = 2, .tp = 4},
                                          {.pp = 2, .dp = 2},
                                          {.pp = 3, .dp = 2},
                                          {.pp = 2, .dp = 2, .tp = 2},
                                          {.pp = 4}};
    int32_t lost = 0, unsound = 0, faults = 0, runs = 120, boxes = 0;

    for (int32_t i = 0; i < runs; i++) {
        build_recipe recipe = meshes[i % 8];
        plan_lower_options o = {.overlap = fs_rand_below(&seed, 2),
                                .share_memory = true,
                                .prefetch = (int32_t)fs_rand_below(&seed, 3)};
        ir_graph *g = build_mlp(3 + (int32_t)fs_rand_below(&seed, 3), 8,
                                fs_rand_below(&seed, 2),
                                1 + (int32_t)fs_rand_below(&seed, 6));
        plan_report report = {0};
        recipe.random = fs_rand(&seed) | 1;
        recipe.schedule = fs_rand_below(&seed, 2) ? "1f1b" : "gpipe";
        lowered l = lower_graph(g, &recipe, &o);
        lost += l.status != FS_OK;
        if (l.status == FS_OK) {
            unsound += plan_check(g, l.cluster, l.p, l.arena, &report) != FS_OK;
            faults += disorder(l.p) + memory_faults(l.p);
            for (int32_t c = 0; c < l.p->n_channels; c++)
                faults += channel_faults(l.p, c);
            for (int32_t t = 0; t < l.p->roles[0].n_tasks; t++)
                boxes += l.p->roles[0].tasks[t].kind == PLAN_BOX;
        }
        for (int32_t k = 0; k < report.n && k < 3; k++)
            printf("# run %d: %s\n", (int)i, report.findings[k].text);
        close_lowered(&l);
    }
    tap_equal_int(lost, 0, "every legal strategy of %d random ones is lowered",
                  (int)runs);
    tap_equal_int(unsound, 0, "every plan is proven sound (%d boxing tasks)",
                  (int)boxes);
    tap_equal_int(faults, 0, "order, channels and memory are right in each");
}

/* ---- whether it fits ---- */

typedef struct fits {
    int32_t asked, unlike, unplaced;
} fits;

static bool says_fit(const plan_role *role, int64_t limit)
{
    return role->bound_bytes <= limit && role->arena_bytes <= limit;
}

static bool is_unplaced(const plan_role *role)
{
    for (int32_t i = 0; i < role->n_registers; i++)
        if (role->registers[i].offset)
            return false;
    return true;
}

/* Asked only whether it fits, as if it were lowered in full. */
static void ask_fit(const lowered *l, int64_t limit, fits *out)
{
    int64_t enough[8];
    plan_lower_options o = plan_lower_defaults();
    plan *in_full, *asked;
    fs_err err = {0};
    for (int32_t i = 0; i < 8; i++)
        enough[i] = limit;
    o.enough_bytes = enough;
    if (plan_lower(l->graph, l->cluster, l->strategy, &o, l->arena, &err,
                   &in_full) != FS_OK)
        return;
    o.asks_fit = true;
    o.refine = false;
    if (plan_lower(l->graph, l->cluster, l->strategy, &o, l->arena, &err,
                   &asked) != FS_OK)
        return;
    for (int32_t r = 0; r < asked->n_roles; r++) {
        out->asked++;
        out->unplaced += is_unplaced(&asked->roles[r]);
        out->unlike += says_fit(&asked->roles[r], limit) !=
                       says_fit(&in_full->roles[r], limit);
    }
}

static void test_fit(uint64_t seed)
{
    fits all = {0};
    for (int32_t i = 0; i < 40; i++) {
        build_recipe recipe = {.pp = 2 << fs_rand_below(&seed, 2),
                               .dp = 1 + (int32_t)fs_rand_below(&seed, 2),
                               .random = fs_rand(&seed) * (i % 2)};
        const plan_lower_options o = plan_lower_defaults();
        recipe.schedule = fs_rand_below(&seed, 2) ? "1f1b" : "gpipe";
        lowered l = lower_graph(
            build_mlp(8, 64, false, 1 + (int32_t)fs_rand_below(&seed, 8)),
            &recipe, &o);
        for (int32_t r = 0; l.status == FS_OK && r < l.p->n_roles; r++)
            for (int32_t above = -1; above <= 1; above++)
                ask_fit(&l, l.p->roles[r].arena_bytes + above * PLAN_ALIGN,
                        &all);
        close_lowered(&l);
    }
    tap_equal_int(all.unlike, 0, "%d times asked whether a role fits",
                  all.asked);
    tap_ok(all.unplaced > 0, "%d of them without placing it", all.unplaced);
}

/* ---- facts of single plans ---- */

static int32_t count(const plan_role *role, plan_task_kind kind,
                     plan_phase phase)
{
    int32_t n = 0;

    for (int32_t t = 0; t < role->n_tasks; t++)
        n += role->tasks[t].kind == kind && role->tasks[t].phase == phase;
    return n;
}

static int32_t count_boxes(const plan_role *role, plan_box_kind kind,
                           plan_phase phase)
{
    int32_t n = 0;

    for (int32_t t = 0; t < role->n_tasks; t++)
        n += role->tasks[t].kind == PLAN_BOX &&
             role->tasks[t].box.kind == kind && role->tasks[t].phase == phase;
    return n;
}

static const plan_register *register_of(const lowered *l, int32_t role,
                                        const char *tensor)
{
    int32_t id = ir_graph_find(l->graph, tensor);

    for (int32_t i = 0; i < l->p->roles[role].n_registers; i++)
        if (l->p->roles[role].registers[i].tensor == id)
            return &l->p->roles[role].registers[i];
    return NULL;
}

static void test_data_parallel(void)
{
    plan_lower_options o = plan_lower_defaults();
    build_recipe recipe = {.dp = 2}, zero = {.dp = 2, .zero_states = true};
    lowered l = lower_graph(build_mlp(3, 8, false, 4), &recipe, &o);
    const plan_role *role = &l.p->roles[0];
    const plan_register *w = register_of(&l, 0, "w1");
    const plan_task *update = &role->tasks[w->producer];

    tap_equal_int(count_boxes(role, PLAN_ALL_REDUCE, PLAN_END), 6,
                  "dp: each gradient is reduced once per step");
    tap_equal_int(count_boxes(role, PLAN_ALL_REDUCE, PLAN_BACKWARD), 0,
                  "dp: not once per micro-batch");
    tap_ok(update->kind == PLAN_COMPUTE && update->phase == PLAN_END &&
               update->in[0] == update->out[0] && w->persistent &&
               w->count == 1,
           "dp: the update writes the variable in place");
    close_lowered(&l);

    l = lower_graph(build_mlp(3, 8, false, 4), &zero, &o);
    role = &l.p->roles[0];
    w = register_of(&l, 0, "w1");
    tap_ok(role->tasks[w->producer].kind == PLAN_BOX &&
               role->tasks[w->producer].box.kind == PLAN_ALL_GATHER,
           "ZeRO-1: a gather of the updated pieces writes the variable");
    tap_equal_int(count_boxes(role, PLAN_REDUCE_SCATTER, PLAN_END), 6,
                  "ZeRO-1: gradients are reduced to pieces");
    tap_equal_int(count_boxes(role, PLAN_SLICE, PLAN_END), 6,
                  "ZeRO-1: weights are cut for the update in END");
    tap_equal_int(register_of(&l, 0, "w1.m")->bytes, w->bytes / 2,
                  "ZeRO-1: states are halved");
    close_lowered(&l);

    zero.zero_params = true; /* a batch that costs more to move than weights */
    l = lower_graph(build_mlp(3, 512, false, 4), &zero, &o);
    role = &l.p->roles[0];
    tap_ok(count_boxes(role, PLAN_ALL_GATHER, PLAN_BEGIN) > 0,
           "ZeRO-3: parameters are gathered once per step");
    tap_equal_int(count_boxes(role, PLAN_ALL_GATHER, PLAN_END), 0,
                  "ZeRO-3: the update writes its pieces in place");
    close_lowered(&l);
}

static void test_pipeline(void)
{
    plan_lower_options o = plan_lower_defaults();
    build_recipe recipe = {.pp = 2}, gpipe = {.pp = 2, .schedule = "gpipe"};
    lowered l = lower_graph(build_mlp(4, 8, false, 4), &recipe, &o);
    const plan_role *first = &l.p->roles[0], *last = &l.p->roles[1];
    const plan_register *x = register_of(&l, 0, "x");

    tap_ok(register_of(&l, 0, "y") == NULL && register_of(&l, 1, "x") == NULL,
           "pp: inputs are loaded where they are read");
    tap_ok(count(first, PLAN_SEND, PLAN_FORWARD) == 1 &&
               count(first, PLAN_RECV, PLAN_BACKWARD) == 1 &&
               count(last, PLAN_RECV, PLAN_FORWARD) == 1 &&
               count(last, PLAN_SEND, PLAN_BACKWARD) == 1,
           "pp: an activation goes down, a gradient comes up");
    tap_equal_int(x->count, 3,
                  "pp: the input of the first layer has a credit "
                  "per micro-batch in flight and one to load");
    tap_equal_int(count(first, PLAN_SEND, PLAN_END) +
                      count(first, PLAN_SEND, PLAN_BEGIN),
                  0, "pp: weights stay where they are");
    close_lowered(&l);

    l = lower_graph(build_mlp(4, 8, false, 4), &gpipe, &o);
    tap_equal_int(register_of(&l, 0, "x")->count, 5,
                  "gpipe: all micro-batches are in flight");
    close_lowered(&l);

    l = lower_graph(build_mlp(4, 8, true, 4), &recipe, &o);
    tap_ok(count(&l.p->roles[0], PLAN_SEND, PLAN_BEGIN) == 1 &&
               count(&l.p->roles[1], PLAN_RECV, PLAN_BEGIN) == 1,
           "tied weights: the variable goes to the last stage once per step");
    tap_ok(count(&l.p->roles[1], PLAN_SEND, PLAN_END) == 1 &&
               count(&l.p->roles[0], PLAN_RECV, PLAN_END) == 1,
           "tied weights: its sum of gradients comes back once per step");
    close_lowered(&l);
}

static void test_ranks(void)
{
    plan_lower_options o = plan_lower_defaults();
    build_recipe recipe = {.pp = 2, .dp = 2, .tp = 2};
    lowered l = lower_graph(build_mlp(4, 8, false, 2), &recipe, &o);
    plan_comm data = {.stage = 1, .axes = 1}, tensor = {.stage = 1, .axes = 2};
    int32_t out[8];

    tap_ok(plan_comm_ranks(l.p, &data, 5, out) == 2 && out[0] == 5 &&
               out[1] == 7,
           "rank 5 of (2,2) from 4: data axis has ranks 5 and 7");
    tap_ok(plan_comm_ranks(l.p, &tensor, 5, out) == 2 && out[0] == 4 &&
               out[1] == 5,
           "and its tensor axis 4 and 5");
    tap_ok(plan_channel_peer(l.p, &(plan_channel){0, 1}, 1) == 5 &&
               plan_channel_peer(l.p, &(plan_channel){0, 1}, 5) == 1,
           "ranks 1 and 5 are peers of a channel between the stages");
    close_lowered(&l);
}

/* Equal paths are walked once. */
static void test_shared_boxing(void)
{
    plan_lower_options o = plan_lower_defaults();
    ir_graph *g = ir_graph_create("twice");
    fs_arena *arena = fs_arena_create();
    hw_cluster *cluster = build_cluster(2, arena);
    int32_t x = ir_input(g, "x", IR_F32, (ir_shape){2, {8, 8}}, 0);
    plan_strategy *s;
    plan *p = NULL;
    fs_err err = {0};

    ir_mark_output(g, ir_unary(g, IR_OP_relu, x));
    ir_mark_output(
        g, ir_unary(g, IR_OP_tanh, ir_reshape(g, x, (ir_shape){1, {64}})));
    s = plan_strategy_new(g, 1, arena);
    s->stages[0].mesh = (ir_mesh){1, {2}};
    s->sig[0].out[0].at[0] = IR_SBP_S(0); /* loaded in pieces, read whole */
    for (int32_t v = 1; v < g->nodes.n; v++)
        if (g->nodes.at[v].in[0] == x) {
            plan_boxing *path = &s->edge[s->first_edge[v]];
            path->n = 1;
            path->at[0].at[0] = IR_SBP_S(0);
        }
    tap_equal_int(plan_lower(g, cluster, s, &o, arena, &err, &p), FS_OK,
                  "a network without a loss is lowered %s", err.text);
    tap_equal_int(count_boxes(&p->roles[0], PLAN_ALL_GATHER, PLAN_FORWARD), 1,
                  "two readers of one SBP share one all-gather");
    tap_equal_int(count(&p->roles[0], PLAN_COMPUTE, PLAN_FORWARD), 4,
                  "the reshape between them is no task");
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

/* ---- refusals ---- */

static void refuse(const char *what, lowered *l, const char *word)
{
    plan_lower_options o = plan_lower_defaults();
    fs_err err = {0};
    fs_status status = plan_lower(l->graph, l->cluster, l->strategy, &o,
                                  l->arena, &err, &l->p);

    tap_ok(status == FS_INVALID && strstr(err.text, word) != NULL,
           "%s is refused: %s", what, err.text);
}

static void test_refusals(void)
{
    plan_lower_options o = plan_lower_defaults();
    build_recipe recipe = {.pp = 2, .dp = 2};
    lowered l = lower_graph(build_mlp(4, 8, false, 4), &recipe, &o);
    plan_strategy *s = l.strategy, good = *s;
    plan_stage second = s->stages[1];
    int32_t w = l.graph->tensors.at[ir_graph_find(l.graph, "w0")].producer;
    int32_t matmul = 0;

    while (l.graph->nodes.at[matmul].op != IR_OP_matmul)
        matmul++;
    s->schedule = "backwards";
    refuse("an unknown schedule", &l, "backwards");
    s->schedule = good.schedule;
    s->micro_batches = 3;
    refuse("another number of micro-batches", &l, "micro-batches");
    s->micro_batches = good.micro_batches;
    s->stages[1].first_device = 3;
    refuse("a gap between stages", &l, "device");
    s->stages[1].first_device = 7;
    refuse("a stage beyond the cluster", &l, "cluster");
    s->stages[1] = second;
    for (int32_t e = 0; e < s->n_edges; e++)
        s->edge[e].cross++;
    refuse("a path that crosses behind its end", &l, "crosses");
    for (int32_t e = 0; e < s->n_edges; e++)
        s->edge[e].cross--;
    s->stage_of[matmul] = 5;
    refuse("a stage that does not exist", &l, "stage 5");
    s->stage_of[matmul] = 0;
    s->sig[w].out[0].at[0] = IR_SBP_S(1);
    refuse("a path that starts elsewhere", &l, "start");
    s->sig[w].out[0].at[0] = IR_SBP_S(6);
    refuse("a signature that does not fit", &l, "fit");
    close_lowered(&l);
}

/* Its ranks would end no step. */
static void test_idle_stage(void)
{
    ir_graph *g = build_mlp(2, 8, false, 1);
    lowered l = {.graph = g, .arena = fs_arena_create()};

    l.cluster = build_cluster(2, l.arena);
    l.strategy = plan_strategy_new(g, 2, l.arena);
    l.strategy->stages[1].first_device = 1;
    refuse("a stage that computes nothing", &l, "stage 1");
    close_lowered(&l);
}

int main(void)
{
    test_recipes();
    test_gpt();
    test_random(tap_seed(11));
    test_fit(tap_seed(12));
    test_data_parallel();
    test_pipeline();
    test_ranks();
    test_shared_boxing();
    test_refusals();
    test_idle_stage();
    return tap_done();
}
