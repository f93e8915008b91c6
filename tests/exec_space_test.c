/* A convolutional network cut along its images' height, and along height and
 * width, trains as on one device: halos are exchanged in both passes. */
#include "config.h"

#include "ir/train.h"
#include "ir/window.h"

#include "tests/exec_plans.h"
#include "tests/exec_ranks.h"

enum { STEPS = 5, CHANNELS = 4, CLASSES = 5, HEIGHT = 32, WIDTH = 16 };

/* ---- the network ---- */

static int32_t weight(ir_graph *g, const char *name, ir_shape shape)
{
    ir_init init = {IR_INIT_NORMAL, 0.0, 0.2, 5};
    return ir_parameter(g, name, IR_F32, shape, init);
}

/* A window of size x size over two spatial axes. */
static void set_window(int64_t attr[IR_WINDOW_ATTRS], int64_t size,
                       int64_t stride, bool pool)
{
    memset(attr, 0, IR_WINDOW_ATTRS * sizeof *attr);
    for (int32_t k = 0; k < 2; k++) {
        attr[IR_WINDOW_STRIDE + k] = stride;
        attr[IR_WINDOW_BEFORE + k] = attr[IR_WINDOW_AFTER + k] = size / 2;
        attr[IR_WINDOW_SIZE + k] = pool ? size : 1;
        attr[IR_WINDOW_DILATION + k] = pool;
    }
    if (!pool)
        attr[IR_WINDOW_GROUPS] = 1;
}

static int32_t convolve(ir_graph *g, const char *name, int32_t x, int64_t size,
                        int64_t stride)
{
    int64_t attr[IR_WINDOW_ATTRS];
    int64_t channels = ir_shape_of(g, x).dim[1];
    set_window(attr, size, stride, false);
    memset(attr + IR_WINDOW_LENGTH, 0, 3 * sizeof *attr);
    return ir_conv(
        g, x, weight(g, name, (ir_shape){4, {CHANNELS, channels, size, size}}),
        attr);
}

static int32_t pool(ir_graph *g, ir_op_kind kind, int32_t x, int64_t stride)
{
    int64_t attr[IR_WINDOW_ATTRS];
    set_window(attr, 3, stride, true);
    if (kind == IR_OP_avg_pool)
        memset(attr + IR_WINDOW_LENGTH, 0, 3 * sizeof *attr);
    return ir_pool(g, kind, x, attr);
}

/* Every window op, with strides of 1 and 2. */
static ir_graph *make_graph(fs_err *err)
{
    ir_graph *g = ir_graph_create("space");
    int32_t x =
        ir_input(g, "x", IR_F32, (ir_shape){4, {2, 3, HEIGHT, WIDTH}}, 0);
    int32_t labels = ir_input(g, "labels", IR_I64, (ir_shape){1, {2}}, 0);
    x = ir_unary(g, IR_OP_tanh, convolve(g, "first", x, 5, 2));
    x = pool(g, IR_OP_max_pool, x, 1);
    x = ir_unary(g, IR_OP_tanh, convolve(g, "second", x, 3, 1));
    x = pool(g, IR_OP_avg_pool, x, 2);
    x = ir_unary(g, IR_OP_tanh, convolve(g, "third", x, 3, 1));
    x = ir_reduce_mean(g, x, 1u << 2 | 1u << 3, false);
    x = ir_matmul(g, x, weight(g, "head", (ir_shape){2, {CHANNELS, CLASSES}}),
                  false, false);
    g->loss = ir_cross_entropy(g, x, labels);
    g->batch = 2;
    ir_train_options options = ir_train_defaults();
    options.optimizer = IR_SGD;
    options.lr = 0.3;
    if (ir_train(g, &options, err) != FS_OK) {
        ir_graph_destroy(g);
        return NULL;
    }
    return g;
}

/* ---- plans ---- */

/* Mesh axes on which a tensor lies cut in space: axis 0 along the height,
 * axis 1 along the width. */
static int32_t cuts_in_space(const ir_nd_sbp *sbp, const ir_mesh *mesh)
{
    int32_t n = 0;
    for (int32_t a = 0; a < mesh->n; a++)
        n += ir_sbp_same_cut(sbp->at[a], IR_SBP_S(2 + a));
    return n;
}

static int32_t cuts_of(const ir_node *node, const ir_nd_sig *sig,
                       const ir_mesh *mesh)
{
    int32_t n = 0;
    for (int32_t k = 0; k < node->n_in; k++)
        n += cuts_in_space(&sig->in[k], mesh);
    for (int32_t k = 0; k < node->n_out; k++)
        n += cuts_in_space(&sig->out[k], mesh);
    return n;
}

static bool is_weight(const ir_graph *g, const ir_node *node)
{
    int32_t t = node->n_out ? node->out[0] : -1;
    return t >= 0 && g->tensors.at[t].role == IR_PARAM;
}

/* Of the signatures that can be reached the one that cuts most in space. */
static bool choose_signature(const ir_graph *g, plan_strategy *s,
                             plan_boxer *boxer, int32_t v, fs_arena *arena)
{
    const ir_node *node = &g->nodes.at[v];
    const ir_mesh *mesh = &s->stages[0].mesh;
    ir_nd_sig_list list = {0};
    ir_nd_sig best = {0};
    int32_t most = -1;
    ir_signatures(g, node, mesh, arena, &list);
    for (int32_t k = 0; k < list.n; k++) {
        int32_t n = cuts_of(node, &list.at[k], mesh);
        s->sig[v] = list.at[k];
        if (n <= most ||
            (n > 0 && (is_weight(g, node) || node->phase == IR_UPDATE)) ||
            !join_inputs(g, s, boxer, v))
            continue;
        most = n;
        best = list.at[k];
    }
    s->sig[v] = best;
    return most >= 0 && join_inputs(g, s, boxer, v);
}

static plan_strategy *make_strategy(const ir_graph *g, const ir_mesh *mesh,
                                    fs_arena *arena)
{
    plan_strategy *s = plan_strategy_new(g, 1, arena);
    plan_boxing_cost cost = {.seconds = unit_seconds};
    plan_boxer *boxer = plan_boxer_create(cost, arena);
    s->stages[0].mesh = *mesh;
    for (int32_t v = 0; v < g->nodes.n; v++)
        if (!choose_signature(g, s, boxer, v, arena))
            return NULL;
    return close_loops(g, s, boxer) ? s : NULL;
}

/* How many of the inputs of ops of this kind have a halo on every mesh axis. */
static int32_t halos_of(const ir_graph *g, const plan_strategy *s,
                        ir_op_kind op)
{
    const ir_mesh *mesh = &s->stages[0].mesh;
    int32_t n = 0;
    for (int32_t v = 0; v < g->nodes.n; v++)
        for (int32_t k = 0; k < g->nodes.at[v].n_in; k++) {
            bool all = g->nodes.at[v].op == op;
            for (int32_t a = 0; a < mesh->n; a++)
                all &= ir_sbp_has_halo(s->sig[v].in[k].at[a]);
            n += all;
        }
    return n;
}

/* ---- runs ---- */

typedef struct outcome {
    bool ran;
    double loss[STEPS];
    float *weight;
} outcome;

static outcome run_plan(exec_world *world, const ir_graph *g,
                        const plan_strategy *strategy, fs_arena *arena,
                        fs_err *err)
{
    outcome out = {0};
    job j = {.graph = g, .arena = arena};
    if (job_make(&j, strategy, world->size, err) != FS_OK)
        return out;
    int32_t fetch = ir_graph_find(g, "first");
    void *fetched = NULL;
    exec_options options = {.steps = STEPS,
                            .checks = true,
                            .seed = 3,
                            .n_fetch = 1,
                            .fetch = &fetch,
                            .fetched = &fetched};
    exec_result result;
    if (job_run(&j, world, &options, err, &result) != FS_OK)
        return out;
    out.ran = true;
    memcpy(out.loss, result.losses, sizeof out.loss);
    out.weight = fetched;
    return out;
}

static double compare_runs(const outcome *a, const outcome *b)
{
    double worst = 0;
    for (int32_t k = 0; k < STEPS; k++)
        worst = fmax(worst, fabs(a->loss[k] / b->loss[k] - 1.0));
    return worst;
}

static void test_mesh(exec_world *world, const ir_mesh *mesh, const char *name)
{
    static const ir_op_kind windows[] = {
        IR_OP_conv,         IR_OP_conv_data_grad, IR_OP_conv_filter_grad,
        IR_OP_max_pool,     IR_OP_max_pool_grad,  IR_OP_avg_pool,
        IR_OP_avg_pool_grad};
    exec_world alone = {.size = 1, .on_host = 1, .cores = 1};
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    ir_graph *g = make_graph(&err);
    plan_strategy *one = make_strategy(g, &(ir_mesh){1, {1}}, arena);
    plan_strategy *cut = make_strategy(g, mesh, arena);
    outcome whole = run_plan(&alone, g, one, arena, &err);
    outcome parts = run_plan(world, g, cut, arena, &err);
    bool ran = whole.ran && parts.ran;
    double loss = ran ? compare_runs(&parts, &whole) : INFINITY;
    double first = ran ? far_apart(parts.weight, whole.weight,
                                   (int64_t)CHANNELS * 3 * 5 * 5)
                       : INFINITY;
    for (size_t k = 0; k < sizeof windows / sizeof *windows; k++)
        ranks_ok(world, halos_of(g, cut, windows[k]) == 0,
                 "%s: %s borrows from its neighbours", name,
                 ir_op_table[windows[k]]->name);
    ranks_ok(world, !(loss < 1e-6),
             "%s: the losses of one device (difference %.1e)%s", name, loss,
             err.text);
    ranks_ok(world, !(first < 1e-5), "%s: its weights too (difference %.1e)",
             name, first);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

int main(void)
{
    exec_world *world = ranks_open();
    if (world->size == 1) {
        tap_skip("exec_ranks_test.sh runs it on several",
                 "one rank has no neighbours");
        return ranks_done(world);
    }
    test_mesh(world, &(ir_mesh){1, {world->size}}, "height");
    if (world->size == 4)
        test_mesh(world, &(ir_mesh){2, {2, 2}}, "height and width");
    return ranks_done(world);
}
