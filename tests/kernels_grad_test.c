/* Every op with a gradient: reverse mode against central differences, in
 * double, on random shapes and attributes. */
#include "config.h"

#include "ir/train.h"

#include "interpret.h"
#include "op_cases.h"
#include "tap.h"

enum { TRIALS = 12, MAX_INPUT = 16 };

/* A case with a loss on top: sums of outputs times random weights. */
typedef struct probe {
    op_case c;
    interpreter in;
    int32_t loss, n;
    int32_t input[MAX_INPUT], grad[MAX_INPUT];
} probe;

/* Outputs that gradients flow through; most ops' others are for their own
 * gradient only. */
static int32_t differentiable(ir_op_kind op)
{
    return op == IR_OP_layer_norm ? 3 : op == IR_OP_recurrent ? 2 : 1;
}

static int32_t weighted_sum(ir_graph *g, int32_t y, int32_t k)
{
    const ir_shape shape = ir_shape_of(g, y);
    char name[32];
    snprintf(name, sizeof name, "weights%d", k);
    const int32_t w = ir_input(g, name, IR_F64, shape, -1);
    if (w >= 0)
        g->tensors.at[w].init = (ir_init){IR_INIT_UNIFORM, 0.3, 1, 0};
    const int32_t product = ir_binary(g, IR_OP_mul, y, w);
    return ir_reduce_sum(g, product, (1u << shape.rank) - 1, false);
}

static int32_t add_loss(ir_graph *g, int32_t v)
{
    const ir_node node = g->nodes.at[v];
    int32_t loss = weighted_sum(g, node.out[0], 0);
    for (int32_t k = 1; k < differentiable(node.op); k++)
        loss = ir_binary(g, IR_OP_add, loss, weighted_sum(g, node.out[k], k));
    return loss;
}

static fs_status build(probe *p, fs_err *err)
{
    ir_graph *g = p->c.graph;
    const int32_t node = op_case_build(&p->c);
    if (node < 0)
        return fs_fail(err, FS_INVALID, "%s", g->err.text);
    p->loss = add_loss(g, node);
    p->n = 0;
    for (int32_t i = 0; i < g->tensors.n; i++)
        if (g->tensors.at[i].role == IR_INPUT &&
            g->tensors.at[i].dtype == IR_F64)
            p->input[p->n++] = i;
    g->loss = p->loss;
    ir_derivative of = {p->loss, 1, p->n, p->input};
    FS_TRY(ir_backward(g, &of, err, p->grad));
    interpret_open(&p->in, g, g->arena);
    for (int32_t i = 0; i < g->tensors.n; i++)
        if (g->tensors.at[i].role == IR_INPUT)
            op_case_fill(&g->tensors.at[i], p->in.data[i], p->c.seed);
    return interpret_run(&p->in, err);
}

static double loss_at(probe *p, double *x, double value)
{
    const double kept = *x;
    fs_err err = {0};
    *x = value;
    fs_status status = interpret_phases(&p->in, IR_FORWARD, IR_FORWARD, &err);
    *x = kept;
    return status == FS_OK ? *(double *)p->in.data[p->loss] : NAN;
}

/* Is element `at` of input k one that the op takes for a constant? */
static bool is_still(const probe *p, int32_t k, int64_t at)
{
    const op_case_still *still = &p->c.still;
    const ir_shape *shape = &p->c.graph->tensors.at[p->input[k]].shape;
    if (!still->any || still->input != p->input[k])
        return false;
    if (still->all)
        return true;
    for (int32_t i = shape->rank - 1; i > still->axis; i--)
        at /= shape->dim[i];
    return at % shape->dim[still->axis] == still->row;
}

/* Largest error over the elements of one input, relative to 1 + |gradient|. */
static double input_error(probe *p, int32_t k)
{
    const double step = 1e-5;
    double *x = p->in.data[p->input[k]], worst = 0;
    const double *dx = p->grad[k] >= 0 ? p->in.data[p->grad[k]] : NULL;
    const ir_shape *shape = &p->c.graph->tensors.at[p->input[k]].shape;
    const int64_t n = ir_shape_count(shape), skip = 1 + n / 40;
    for (int64_t i = 0; i < n; i += skip) {
        const double slope =
            (loss_at(p, x + i, x[i] + step) - loss_at(p, x + i, x[i] - step)) /
            (2 * step);
        const double numeric = is_still(p, k, i) ? 0 : slope;
        const double given = dx ? dx[i] : 0;
        const double error = fabs(given - numeric) / (1 + fabs(numeric));
        worst = isnan(error) ? INFINITY : fmax(worst, error);
    }
    return worst;
}

static double trial(ir_op_kind op, uint64_t *seed, fs_err *err)
{
    probe p = {.c = {.graph = ir_graph_create("case"),
                     .op = op,
                     .real = IR_F64,
                     .seed = seed}};
    double worst = 0;
    build(&p, err);
    for (int32_t k = 0; k < p.n && err->status == FS_OK; k++)
        worst = fmax(worst, input_error(&p, k));
    if (!(worst < 1e-6) && err->status == FS_OK) {
        fs_text text = {.arena = p.c.graph->arena};
        ir_graph_dump(p.c.graph, &text);
        printf("# error %g in\n# %s\n", worst, text.at);
    }
    ir_graph_destroy(p.c.graph);
    return worst;
}

static void check_op(ir_op_kind op, uint64_t *seed)
{
    const char *name = ir_op_table[op]->name;
    double worst = 0;
    fs_err err = {0};
    if (!op_case_exists(op)) {
        tap_ok(false, "%s: no generator in op_cases.c", name);
        return;
    }
    const int trials = TRIALS * op_case_times(op);
    for (int i = 0; i < trials && err.status == FS_OK; i++)
        worst = fmax(worst, trial(op, seed, &err));
    tap_ok(err.status == FS_OK && worst < 1e-6,
           "%s: the gradient is the central difference's", name);
    if (err.status != FS_OK)
        printf("# %s\n", err.text);
}

int main(void)
{
    uint64_t seed = tap_seed(20240229);
    for (int op = 0; op < IR_OP_COUNT; op++)
        if (ir_op_table[op]->grad)
            check_op((ir_op_kind)op, &seed);
    return tap_done();
}
