/* Losses and softmax in parts: values, and gradients against central
 * differences, on one device in double. */
#include "config.h"

#include "base/hash.h"
#include "interpret.h"
#include "ir/backward.h"
#include "ir/losses.h"
#include "tap.h"

#include <math.h>

enum { ROWS = 6, CLASSES = 5 };

static const int64_t labels[ROWS] = {0, 4, -100, 2, 2, -100};
static const int64_t plain[ROWS] = {0, 4, 1, 2, 2, 3};

/* A loss of x (6,5), its value and its gradient. */
typedef struct trial {
    ir_graph *graph;
    interpreter in;
    int32_t x, grad;
} trial;

static trial open_trial(double mean, double spread)
{
    trial t = {.graph = ir_graph_create("loss")};
    t.x = ir_input(t.graph, "x", IR_F64, (ir_shape){2, {ROWS, CLASSES}}, 0);
    t.graph->tensors.at[t.x].init = (ir_init){.mean = mean, .spread = spread};
    return t;
}

static int32_t constant(trial *t, ir_dtype dtype, ir_shape shape,
                        const void *data)
{
    return ir_constant(t->graph, NULL, dtype, shape, data);
}

static int32_t label_input(trial *t, const int64_t *data)
{
    return constant(t, IR_I64, (ir_shape){1, {ROWS}}, data);
}

static double run(trial *t)
{
    fs_err err = {0};
    if (interpret_run(&t->in, &err) != FS_OK)
        printf("# %s\n", err.text);
    return *(double *)t->in.data[t->graph->loss];
}

/* Differentiates, fills x and runs. */
static double value(trial *t, int32_t loss)
{
    ir_graph *g = t->graph;
    const ir_init init = g->tensors.at[t->x].init;
    uint64_t seed = 11;
    fs_err err = {0};
    g->loss = loss;
    ir_derivative of = {loss, 1, 1, &t->x};
    if (loss < 0 || ir_backward(g, &of, &err, &t->grad) != FS_OK) {
        printf("Bail out! %s%s\n", err.text, g->err.text);
        exit(1);
    }
    interpret_open(&t->in, g, g->arena);
    double *x = t->in.data[t->x];
    for (int i = 0; i < ROWS * CLASSES; i++)
        x[i] = init.mean + init.spread * (2 * fs_rand_unit(&seed) - 1);
    return run(t);
}

/* Largest difference of the gradient from central differences. */
static double gradient_error(trial *t)
{
    const double step = 1e-5;
    double *x = t->in.data[t->x], worst = 0, dx[ROWS * CLASSES];
    run(t);
    memcpy(dx, t->in.data[t->grad], sizeof dx);
    for (int i = 0; i < ROWS * CLASSES; i++) {
        const double kept = x[i];
        x[i] = kept + step;
        const double above = run(t);
        x[i] = kept - step;
        const double below = run(t);
        x[i] = kept;
        worst = fmax(worst, fabs((above - below) / (2 * step) - dx[i]));
    }
    run(t);
    return worst;
}

static void close_trial(trial *t, const char *what)
{
    const double error = gradient_error(t);
    tap_ok(error < 1e-6, "%s: the gradient is the central difference's (%g)",
           what, error);
    ir_graph_destroy(t->graph);
}

/* The slow obvious version: sum over rows that count of w (lse - x[label]),
 * and of w. */
static double by_hand(const trial *t, const int64_t *of, const double *weights,
                      double *total)
{
    const double *x = t->in.data[t->x];
    double loss = 0;
    *total = 0;
    for (int i = 0; i < ROWS; i++) {
        double sum = 0;
        if (of[i] == -100)
            continue;
        const double w = weights ? weights[of[i]] : 1;
        for (int j = 0; j < CLASSES; j++)
            sum += exp(x[i * CLASSES + j]);
        loss += w * (log(sum) - x[i * CLASSES + of[i]]);
        *total += w;
    }
    return loss;
}

static void test_cross_entropy(void)
{
    static const double weights[CLASSES] = {0.5, 2, 1.5, 1, 0.25};
    for (int weighted = 0; weighted < 2; weighted++)
        for (int kind = IR_ROWS_MEAN; kind <= IR_ROWS_NONE; kind++) {
            trial t = open_trial(0, 2);
            ir_label_loss loss = {.labels = label_input(&t, labels),
                                  .weights = -1,
                                  .ignores = true,
                                  .ignored = -100,
                                  .reduction = (ir_rows_to)kind};
            if (weighted)
                loss.weights =
                    constant(&t, IR_F64, (ir_shape){1, {CLASSES}}, weights);
            int32_t y = ir_cross_entropy_parts(t.graph, t.x, &loss);
            if (kind == IR_ROWS_NONE)
                y = ir_reduce_loss(t.graph, y, IR_ROWS_SUM);
            const double got = value(&t, y);
            double total,
                wanted = by_hand(&t, labels, weighted ? weights : NULL, &total);
            if (kind == IR_ROWS_MEAN)
                wanted /= total;
            tap_near(got, wanted, 1e-12,
                     "cross entropy of labels that may not count, weights %d, "
                     "reduction %d",
                     weighted, kind);
            close_trial(&t, "cross entropy in parts");
        }
}

static void test_forms_agree(void)
{
    double loss[4];
    for (int form = 0; form < 4; form++) {
        trial t = open_trial(0, 2);
        const ir_label_loss of = {.labels = label_input(&t, plain),
                                  .weights = -1};
        int32_t log_prob = ir_unary(t.graph, IR_OP_log_softmax, t.x);
        if (form == 3)
            log_prob = ir_log_softmax_parts(t.graph, t.x, 1);
        loss[form] =
            value(&t, form == 0   ? ir_cross_entropy(t.graph, t.x, of.labels)
                      : form == 1 ? ir_cross_entropy_parts(t.graph, t.x, &of)
                                  : ir_nll(t.graph, log_prob, &of));
        close_trial(&t, "a form of cross entropy");
    }
    for (int form = 1; form < 4; form++)
        tap_near(loss[form], loss[0], 1e-12,
                 "cross entropy: form %d gives what the one op gives", form);
}

/* Large logits: nothing overflows, also along an axis that is not the last. */
static void test_softmax_parts(void)
{
    for (int32_t axis = 0; axis < 2; axis++) {
        trial t = open_trial(5000, 3);
        int32_t y = ir_softmax_parts(t.graph, t.x, axis);
        int32_t square = ir_power(t.graph, y, 2);
        value(&t, ir_reduce_sum(t.graph, square, 3, false));
        const double *p = t.in.data[y];
        double sum = 0;
        for (int i = 0; i < (axis ? CLASSES : ROWS); i++)
            sum += p[axis ? i : i * CLASSES];
        tap_near(sum, 1, 1e-12, "softmax in parts along axis %d sums to 1",
                 (int)axis);
        close_trial(&t, "softmax in parts");
        t = open_trial(5000, 3);
        y = ir_log_sum_exp(t.graph, t.x, 1u << axis, false);
        tap_ok(isfinite(value(&t, ir_reduce_loss(t.graph, y, IR_ROWS_SUM))),
               "log sum exp of large numbers is finite");
        close_trial(&t, "log sum exp");
    }
}

/* ArcFace on rows of cosines: at the label the angle grows by the margin. */
static void test_margin(void)
{
    const double margins[] = {1, 0.5, 0}, scale = 8;
    trial t = open_trial(0, 0.8);
    const ir_label_loss of = {.labels = label_input(&t, plain), .weights = -1};
    int32_t y = ir_margin_logits(t.graph, t.x, of.labels, margins, scale);
    value(&t, ir_cross_entropy_parts(t.graph, y, &of));
    const double *x = t.in.data[t.x], *logit = t.in.data[y];
    tap_near(logit[0], scale * cos(acos(x[0]) + 0.5), 1e-12,
             "margin: the label's angle grows by m2");
    tap_near(logit[1], scale * x[1], 1e-12, "margin: other logits are scaled");
    close_trial(&t, "margin softmax");
}

static void test_targets(void)
{
    static double half[ROWS * CLASSES];
    const ir_shape shape = {2, {ROWS, CLASSES}};
    for (int i = 0; i < ROWS * CLASSES; i++)
        half[i] = 0.1 * (i % 11);
    double loss[2];
    for (int k = 0; k < 2; k++) {
        trial t = open_trial(0, 2);
        int32_t z = constant(&t, IR_F64, shape, half);
        int32_t p = ir_unary(t.graph, IR_OP_sigmoid, t.x);
        loss[k] = value(&t, k ? ir_bce(t.graph, p, z)
                              : ir_bce_logits(t.graph, t.x, z));
        close_trial(&t, k ? "bce of probabilities" : "bce of logits");
    }
    tap_near(loss[1], loss[0], 1e-12, "bce: of logits as of probabilities");
    trial t = open_trial(0, 2);
    int32_t z = constant(&t, IR_F64, shape, half);
    const double got = value(&t, ir_l1(t.graph, t.x, z));
    double wanted = 0;
    for (int i = 0; i < ROWS * CLASSES; i++)
        wanted += fabs(((double *)t.in.data[t.x])[i] - half[i]);
    tap_near(got, wanted / (ROWS * CLASSES), 1e-12, "l1 is a mean");
    close_trial(&t, "l1");
}

/* PyTorch's amax: equals share. */
static void test_ties(void)
{
    trial t = open_trial(3, 0);
    int32_t y = ir_reduce(t.graph, IR_OP_reduce_max, t.x, 2, false);
    value(&t, ir_reduce_loss(t.graph, y, IR_ROWS_SUM));
    tap_near(((double *)t.in.data[t.grad])[7], 1.0 / CLASSES, 1e-15,
             "max: equals share the gradient");
    ir_graph_destroy(t.graph);
}

/* A label that is no class is a fault, unless it is the one that is ignored. */
static void test_fault(void)
{
    trial t = open_trial(0, 1);
    const ir_label_loss of = {.labels = label_input(&t, labels), .weights = -1};
    fs_err err = {0};
    ir_cross_entropy_parts(t.graph, t.x, &of);
    interpret_open(&t.in, t.graph, t.graph->arena);
    tap_equal_int(interpret_run(&t.in, &err), FS_FAULT,
                  "a label outside the classes is a fault: %s", err.text);
    ir_graph_destroy(t.graph);
}

static bool has_row(const ir_sig_list *list, ir_sbp in, ir_sbp out)
{
    for (int32_t i = 0; i < list->n; i++)
        if (ir_sbp_equal(list->at[i].in[0], in) &&
            ir_sbp_equal(list->at[i].out[0], out))
            return true;
    return false;
}

/* Every op that reads whole rows of logits takes them cut by class. */
static void test_class_axis(void)
{
    trial t = open_trial(0, 1);
    const ir_label_loss of = {.labels = label_input(&t, plain), .weights = -1};
    const ir_sbp cut = IR_SBP_S(1);
    int tried = 0, missing = 0;
    value(&t, ir_cross_entropy_parts(t.graph, t.x, &of));
    for (int32_t v = 0; v < t.graph->nodes.n; v++) {
        const ir_node *node = &t.graph->nodes.at[v];
        ir_sig_list list;
        ir_signatures_1d(t.graph, node, t.graph->arena, &list);
        ir_sbp out = node->op == IR_OP_reduce_max ? IR_SBP_PMAX : IR_SBP_P;
        if (node->n_in == 0 || node->in[0] != t.x)
            continue;
        tried++;
        missing += !has_row(&list, cut, out);
    }
    tap_equal_int(tried, 3, "cross entropy reads the logits three times");
    tap_equal_int(missing, 0, "and each time takes them cut by class");
    ir_graph_destroy(t.graph);
}

int main(void)
{
    test_cross_entropy();
    test_forms_agree();
    test_softmax_parts();
    test_margin();
    test_targets();
    test_ties();
    test_fault();
    test_class_axis();
    return tap_done();
}
