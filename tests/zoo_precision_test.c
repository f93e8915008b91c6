/* Mixed precision on the zoo: gradients and losses follow those of fp32, and
 * loss scaling leaves out the steps that overflow and no others. */
#include "config.h"

#include "ir/precision.h"
#include "ir/recompute.h"
#include "ir/tiles.h"
#include "ir/train.h"
#include "zoo/zoo.h"

#include "tap.h"
#include "interpret_fill.h"
#include "zoo_tiny.h"

#include <math.h>

enum { SAMPLES = 4 };
static const char gpt[] = "gpt,layers=2,hidden=16,heads=2,vocab=11,seq=6";

typedef struct net {
    fs_arena *arena;
    ir_graph *graph;
    interpreter in;
} net;

/* `scale` is what --loss-scale would say; "" for the usual one. */
static net open_net(const char *spec, ir_dtype narrow, const char *scale)
{
    fs_err err = {0};
    net n = {.arena = fs_arena_create()};
    ir_train_options options = ir_train_defaults();
    options.optimizer = IR_ADAMW;
    options.lr = 0.01;
    bool good = ir_loss_scale_parse(scale, narrow, &err, &options.loss_scale) ==
                    FS_OK &&
                zoo_build(spec, SAMPLES, &err, &n.graph) == FS_OK;
    if (good) {
        ir_rewrite_precision(n.graph, narrow);
        good = ir_train(n.graph, &options, &err) == FS_OK &&
               ir_graph_check(n.graph, &err) == FS_OK;
    }
    if (good) {
        interpret_open(&n.in, n.graph, n.arena);
        interpret_fill(&n.in);
    } else {
        tap_ok(false, "%s in %s: %s", spec, ir_dtype_name(narrow), err.text);
    }
    return n;
}

static void close_net(net *n)
{
    ir_graph_destroy(n->graph);
    fs_arena_destroy(n->arena);
}

static double number(const net *n, const char *name)
{
    int32_t t = ir_graph_find(n->graph, name);
    return t < 0 ? NAN
                 : ir_element_real(n->graph->tensors.at[t].dtype, n->in.data[t],
                                   0);
}

static bool run_step(net *n)
{
    fs_err err = {0};
    if (interpret_run(&n->in, &err) == FS_OK)
        return true;
    tap_ok(false, "%s: %s", n->graph->name, err.text);
    return false;
}

static double loss_of(const net *n)
{
    return ir_element_real(n->graph->tensors.at[n->graph->loss].dtype,
                           n->in.data[n->graph->loss], 0);
}

/* ---- gradients ---- */

/* What is not scaled is "NAME.grad", what was is "NAME.grad.unscaled". */
static const float *gradient(const net *n, const char *param)
{
    char name[160];
    snprintf(name, sizeof name, "%s.grad.unscaled", param);
    int32_t t = ir_graph_find(n->graph, name);
    snprintf(name, sizeof name, "%s.grad", param);
    t = t < 0 ? ir_graph_find(n->graph, name) : t;
    return t < 0 ? NULL : n->in.data[t];
}

/* The distance of all gradients together, over their length. */
static double gradients_apart(const net *narrow, const net *full)
{
    double apart = 0, length = 0;
    for (int32_t i = 0; i < full->graph->tensors.n; i++) {
        const ir_tensor *t = &full->graph->tensors.at[i];
        if (t->role != IR_PARAM)
            continue;
        const float *a = gradient(narrow, t->name),
                    *b = gradient(full, t->name);
        for (int64_t k = 0; a && b && k < ir_shape_count(&t->shape); k++) {
            apart += ((double)a[k] - b[k]) * ((double)a[k] - b[k]);
            length += (double)b[k] * b[k];
        }
        if (!a || !b)
            return INFINITY;
    }
    return isfinite(apart) ? sqrt(apart / length) : INFINITY;
}

static int32_t count_of(const net *n, ir_dtype dtype)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n->graph->tensors.n; i++)
        count += n->graph->tensors.at[i].dtype == dtype;
    return count;
}

/* A step whose scaled gradients are all finite. */
static bool run_finite(net *n)
{
    for (int i = 0; i < 40 && run_step(n); i++) {
        if (!(number(n, "loss_scale.skipped.next") > 0))
            return true;
        interpret_advance(&n->in);
        *(float *)n->in.data[ir_graph_find(n->graph, "loss_scale.skipped")] = 0;
    }
    return false;
}

/* Parameters and inputs become numbers that the narrow type can hold. */
static void round_all(net *n, ir_dtype narrow)
{
    for (int32_t i = 0; i < n->graph->tensors.n; i++) {
        const ir_tensor *t = &n->graph->tensors.at[i];
        double room;
        if (t->dtype != IR_F32 || (t->role != IR_PARAM && t->role != IR_INPUT))
            continue;
        for (int64_t k = 0; k < ir_shape_count(&t->shape); k++) {
            float *x = (float *)n->in.data[i] + k;
            ir_element_set_real(narrow, &room, 0, *x);
            *x = (float)ir_element_real(narrow, &room, 0);
        }
    }
}

/* Networks of batch norms over few samples magnify every rounding. What
 * rounding the parameters and inputs alone does to the gradient of fp32 says by
 * how much; more operands are rounded in the narrow type, to the same digits.
 */
static void test_gradients(const char *spec, ir_dtype narrow)
{
    enum { ROUNDINGS = 8 };
    const char *type = ir_dtype_name(narrow);
    net full = open_net(spec, IR_F32, ""), rounded = open_net(spec, IR_F32, "");
    net half = open_net(spec, narrow, "dynamic");
    round_all(&rounded, narrow);
    if (run_step(&full) && run_step(&rounded) && run_finite(&half)) {
        const double apart = gradients_apart(&half, &full);
        const double limit = ROUNDINGS * gradients_apart(&rounded, &full);
        const double loss = loss_of(&full);
        tap_ok(apart < limit && count_of(&half, narrow) > 0,
               "%s in %s: its gradient is that of fp32 within %.2g (%.2g)",
               spec, type, limit, apart);
        tap_near(loss_of(&half), loss, limit * fabs(loss),
                 "%s in %s: its loss too", spec, type);
    } else {
        tap_ok(false, "%s in %s: no step", spec, type);
    }
    close_net(&full);
    close_net(&rounded);
    close_net(&half);
}

/* ---- training ---- */

static double worst_loss(ir_dtype narrow)
{
    net full = open_net(gpt, IR_F32, ""), half = open_net(gpt, narrow, "");
    double worst = 0;
    for (int i = 0; i < 25 && run_step(&full) && run_step(&half); i++) {
        worst = fmax(worst, fabs(loss_of(&half) / loss_of(&full) - 1));
        interpret_advance(&full.in);
        interpret_advance(&half.in);
    }
    close_net(&full);
    close_net(&half);
    return worst;
}

static void test_training(void)
{
    double bf16 = worst_loss(IR_BF16), fp16 = worst_loss(IR_F16);
    tap_ok(bf16 < 0.02, "gpt in bf16: 25 losses are fp32's within 2 %% (%.2g)",
           bf16);
    tap_ok(fp16 < 0.004, "gpt in fp16: within 0.4 %% (%.2g)", fp16);
}

/* ---- loss scaling ---- */

/* Largest difference between two nets' variables but for the scale's own. */
static double variables_apart(const net *a, const net *b)
{
    double most = 0;
    for (int32_t i = 0; i < a->graph->tensors.n; i++) {
        const ir_tensor *t = &a->graph->tensors.at[i];
        if (t->next < 0 || strncmp(t->name, "loss_scale", 10) == 0)
            continue;
        int32_t other = ir_graph_find(b->graph, t->name);
        for (int64_t k = 0; k < ir_shape_count(&t->shape); k++)
            most = fmax(most,
                        fabs(ir_element_real(t->dtype, a->in.data[i], k) -
                             ir_element_real(t->dtype, b->in.data[other], k)));
    }
    return most;
}

/* Steps of `n` until the scale no longer overflows, at most `limit`. */
static int skip_steps(net *n, const net *untouched, int limit)
{
    int skipped = 0;
    while (skipped < limit && run_step(n)) {
        double scale = number(n, "loss_scale");
        interpret_advance(&n->in);
        if (number(n, "loss_scale") >= scale)
            return skipped;
        skipped++;
        if (number(n, "loss_scale") != scale / 2 ||
            number(n, "loss_scale.skipped") != skipped ||
            variables_apart(n, untouched) > 0)
            return -1;
    }
    return -1;
}

static void test_huge_scale(void)
{
    net n = open_net(gpt, IR_F16, "dynamic,from=1e12,steps=3");
    net still = open_net(gpt, IR_F16, "dynamic,from=1e12,steps=3");
    int skipped = skip_steps(&n, &still, 60);
    double scale = 1e12 / pow(2, skipped);
    char said[40];
    tap_ok(skipped > 5,
           "a scale of 1e12 leaves out %d steps, halves, changes nothing else",
           skipped);
    snprintf(said, sizeof said, "%.9g", scale);
    net usual = open_net(gpt, IR_F16, said);
    if (run_step(&usual))
        interpret_advance(&usual.in);
    tap_ok(variables_apart(&n, &usual) < 1e-7,
           "the first step that counts is the first of Adam (%g apart)",
           variables_apart(&n, &usual));
    for (int i = 0; i < 2 && run_step(&n); i++)
        interpret_advance(&n.in);
    tap_equal_int((int)(number(&n, "loss_scale") / scale + 0.5), 2,
                  "three good steps double the scale");
    tap_equal_int((int)number(&n, "loss_scale.good"), 0, "and count anew");
    close_net(&n);
    close_net(&still);
    close_net(&usual);
}

static void test_sudden_overflow(void)
{
    net n = open_net(gpt, IR_F16, ""), twin = open_net(gpt, IR_F16, "");
    for (int i = 0; i < 5 && run_step(&n) && run_step(&twin); i++) {
        interpret_advance(&n.in);
        interpret_advance(&twin.in);
    }
    float *scale = n.in.data[ir_graph_find(n.graph, "loss_scale")];
    double first = loss_of(&n);
    *scale = 1e30f;
    if (run_step(&n))
        interpret_advance(&n.in);
    tap_ok(variables_apart(&n, &twin) == 0 && *scale == 0.5e30f,
           "an overflow in the middle leaves its step out");
    *scale = 65536;
    for (int i = 0; i < 20 && run_step(&n); i++)
        interpret_advance(&n.in);
    tap_ok(loss_of(&n) < 0.9 * first, "and training goes on (%g after %g)",
           loss_of(&n), first);
    close_net(&n);
    close_net(&twin);
}

/* A number that stays: what overflows is left out all the same. */
static void test_static_scale(void)
{
    net n = open_net(gpt, IR_F16, "1e30"),
        still = open_net(gpt, IR_F16, "1e30");
    for (int i = 0; i < 3 && run_step(&n); i++)
        interpret_advance(&n.in);
    tap_ok(variables_apart(&n, &still) == 0 &&
               number(&n, "loss_scale.skipped") == 3,
           "a static scale that overflows changes nothing");
    close_net(&n);
    close_net(&still);
}

static void test_words(void)
{
    static const char *const bad[] = {"0",
                                      "-1",
                                      "nan",
                                      "inf",
                                      "dynamic,",
                                      "1,steps=2",
                                      "dynamic,x",
                                      "dynamic,from=0",
                                      "dynamic,steps=0",
                                      "static"};
    ir_loss_scale scale;
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        fs_err err = {0};
        tap_ok(ir_loss_scale_parse(bad[k], IR_F16, &err, &scale) == FS_INVALID,
               "'%s' is no loss scale: %s", bad[k], err.text);
    }
    tap_ok(ir_loss_scale_parse("8", IR_F32, NULL, &scale) == FS_INVALID,
           "fp32 takes none");
}

/* ---- the graph ---- */

static void test_off(void)
{
    ir_graph *g = NULL;
    fs_err err = {0};
    if (zoo_build(gpt, SAMPLES, &err, &g) != FS_OK)
        return;
    fs_text before = {.arena = g->arena}, after = {.arena = g->arena};
    ir_graph_dump(g, &before);
    ir_rewrite_precision(g, IR_F32);
    ir_graph_dump(g, &after);
    tap_ok(strcmp(before.at, after.at) == 0, "fp32 changes nothing");
    ir_graph_destroy(g);
}

static void test_casts(const char *spec)
{
    ir_graph *g = NULL;
    fs_err err = {0};
    int32_t twice = 0, back = 0;
    if (zoo_build(spec, SAMPLES, &err, &g) != FS_OK)
        return;
    ir_rewrite_precision(g, IR_BF16);
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *a = &g->nodes.at[v];
        if (a->op != IR_OP_cast)
            continue;
        const int32_t made = g->tensors.at[a->in[0]].producer;
        back += g->nodes.at[made].op == IR_OP_cast;
        for (int32_t w = 0; w < v; w++)
            twice += g->nodes.at[w].op == IR_OP_cast &&
                     g->nodes.at[w].in[0] == a->in[0] &&
                     g->nodes.at[w].i[0] == a->i[0];
    }
    tap_ok(twice == 0 && back == 0 && ir_graph_check(g, &err) == FS_OK,
           "%s: one cast for each tensor and type, none of a cast %s", spec,
           err.text);
    ir_graph_destroy(g);
}

/* ---- what is kept ---- */

typedef struct held {
    double kept_gib;
    int64_t scratch; /* of the node that needs most */
} held;

static int64_t most_scratch(const ir_graph *g)
{
    static const ir_mesh one = {0};
    static const ir_nd_sig whole;
    int64_t most = 0;
    for (int32_t v = 0; v < g->nodes.n; v++) {
        ir_work work;
        ir_node_work(g, &g->nodes.at[v], &whole, &one, &work);
        most = work.scratch_bytes > most ? work.scratch_bytes : most;
    }
    return most;
}

static held hold(const char *spec, ir_dtype narrow, const char *policy)
{
    fs_err err = {0};
    ir_graph *g = NULL;
    ir_train_options options = ir_train_defaults();
    held h = {NAN, -1};
    options.recompute = policy;
    if (zoo_build(spec, SAMPLES, &err, &g) == FS_OK) {
        ir_rewrite_precision(g, narrow);
        if (ir_train(g, &options, &err) == FS_OK)
            h = (held){(double)ir_kept_bytes(g, NULL) / 0x1p30,
                       most_scratch(g)};
        ir_graph_destroy(g);
    }
    return h;
}

/* Casts do not stand for the backward pass beside what they cast, and norms and
 * softmax keep 16 bits of what they read and make; what is computed again is as
 * much as in fp32 (between blocks the residual stream is float). Kernels
 * without one for 16 bits widen no more than a tile. */
static void test_held(void)
{
    static const struct {
        const char *spec, *policy;
        double share;
    } nets[] = {{"gpt2", "", 0.65},          {"gpt2", "cheap", 0.65},
                {"gpt2", "block", 1},        {"vit-b16", "", 0.55},
                {"vit-b16", "cheap", 0.65},  {"resnet50", "", 0.55},
                {"resnet50", "cheap", 0.55}, {"resnet50", "block", 0.65}};
    for (size_t k = 0; k < sizeof nets / sizeof *nets; k++) {
        const held full = hold(nets[k].spec, IR_F32, nets[k].policy);
        const held half = hold(nets[k].spec, IR_BF16, nets[k].policy);
        tap_ok(half.kept_gib <= nets[k].share * full.kept_gib,
               "%s %s in bf16 keeps %.3g GiB, at most %g of fp32's %.3g",
               nets[k].spec, nets[k].policy, half.kept_gib, nets[k].share,
               full.kept_gib);
        tap_ok(half.scratch <= IR_TILE_BYTES,
               "%s %s in bf16 needs %lld bytes of scratch", nets[k].spec,
               nets[k].policy, (long long)half.scratch);
    }
}

int main(void)
{
    test_held();
    test_off();
    test_words();
    for (size_t k = 0; k < sizeof zoo_tiny / sizeof *zoo_tiny; k++) {
        test_casts(zoo_tiny[k]);
        test_gradients(zoo_tiny[k], IR_BF16);
        test_gradients(zoo_tiny[k], IR_F16);
    }
    test_training();
    test_huge_scale();
    test_sudden_overflow();
    test_static_scale();
    return tap_done();
}
