/* Every op under every legal signature on one mesh axis: the reference kernel
 * on the pieces, put together again, gives what one device computes. */
#include "config.h"

#include "interpret.h"
#include "ir/element.h"
#include "op_cases.h"
#include "tap.h"

enum { TRIALS = 20, MAX_DEVICES = 3 };

/* One op instance, computed whole, and its pieces on n devices. */
typedef struct cut {
    ir_graph *graph;
    const ir_node *node;
    kernel_call whole;
    int32_t devices;
    double tolerance; /* sums round elsewhere when they are cut */
    double spread;    /* of what devices hold of a partial value */
    kernel_call piece[MAX_DEVICES];
    uint64_t *seed;
    fs_arena *arena;
} cut;

static double get(const kernel_arg *arg, int64_t at)
{
    return ir_element_real(arg->dtype, arg->data, at);
}

static void put(const kernel_arg *arg, int64_t at, double value)
{
    ir_element_set_real(arg->dtype, arg->data, at, value);
}

/* Where element `at` of a piece stands in the whole. */
static int64_t place(const kernel_arg *piece, const ir_shape *whole, int64_t at)
{
    int64_t result = 0, step = 1;
    for (int32_t i = whole->rank - 1; i >= 0; i--) {
        result += (at % piece->shape.dim[i] + piece->offset[i]) * step;
        at /= piece->shape.dim[i];
        step *= whole->dim[i];
    }
    return result;
}

/* A piece with room for its values. */
static kernel_arg make_piece(cut *c, const kernel_arg *whole, ir_sbp sbp,
                             int32_t device)
{
    const ir_mesh mesh = {1, {c->devices}};
    const ir_nd_sbp nd = {.at = {sbp}};
    const int32_t coords[IR_MAX_MESH] = {device};
    kernel_arg piece = {.dtype = whole->dtype};
    ir_local_piece(&whole->shape, &nd, &mesh, coords, &piece.shape,
                   piece.offset);
    piece.data = fs_alloc(c->arena, (size_t)ir_shape_count(&piece.shape), 8);
    return piece;
}

/* What device d holds of a value in P: random, but they reduce to `value`. */
static double share(cut *c, ir_sbp sbp, int32_t d, double value, double *rest)
{
    const double random = ((double)fs_rand_below(c->seed, 9) - 4) * c->spread;
    if (sbp.kind == IR_PMAX || sbp.kind == IR_PMIN) {
        const double sign = sbp.kind == IR_PMAX ? -1 : 1;
        return d == 0 ? value : value + sign * (random + 4 * c->spread);
    }
    *rest = d == 0 ? value : *rest;
    if (d == c->devices - 1)
        return *rest;
    *rest -= random;
    return random;
}

static void cut_input(cut *c, int32_t k, ir_sbp sbp)
{
    const kernel_arg *whole = &c->whole.in[k];
    const int64_t n = ir_shape_count(&whole->shape);
    for (int32_t d = 0; d < c->devices; d++)
        c->piece[d].in[k] = make_piece(c, whole, sbp, d);
    if (ir_sbp_is_partial(sbp)) {
        for (int64_t i = 0; i < n; i++) {
            double rest = 0;
            for (int32_t d = 0; d < c->devices; d++)
                put(&c->piece[d].in[k], i,
                    share(c, sbp, d, get(whole, i), &rest));
        }
        return;
    }
    for (int32_t d = 0; d < c->devices; d++) {
        const kernel_arg *piece = &c->piece[d].in[k];
        const int64_t local = ir_shape_count(&piece->shape);
        for (int64_t i = 0; i < local; i++)
            put(piece, i, get(whole, place(piece, &whole->shape, i)));
    }
}

static double reduce(ir_sbp sbp, double a, double b)
{
    if (sbp.kind == IR_PMAX)
        return fmax(a, b);
    return sbp.kind == IR_PMIN ? fmin(a, b) : a + b;
}

static double error_at(const kernel_arg *whole, int64_t at, double value)
{
    const double wanted = get(whole, at);
    const double error = fabs(value - wanted) / (1 + fabs(wanted));
    return isnan(error) ? INFINITY : error;
}

/* Largest relative error of output k, put together from its pieces. */
static double output_error(const cut *c, int32_t k, ir_sbp sbp)
{
    const kernel_arg *whole = &c->whole.out[k];
    const int64_t n = ir_shape_count(&whole->shape);
    double worst = 0;
    if (ir_sbp_is_partial(sbp)) {
        for (int64_t i = 0; i < n; i++) {
            double value = get(&c->piece[0].out[k], i);
            for (int32_t d = 1; d < c->devices; d++)
                value = reduce(sbp, value, get(&c->piece[d].out[k], i));
            worst = fmax(worst, error_at(whole, i, value));
        }
        return worst;
    }
    for (int32_t d = 0; d < c->devices; d++) {
        const kernel_arg *piece = &c->piece[d].out[k];
        const int64_t local = ir_shape_count(&piece->shape);
        for (int64_t i = 0; i < local; i++)
            worst = fmax(worst, error_at(whole, place(piece, &whole->shape, i),
                                         get(piece, i)));
    }
    return worst;
}

/* accumulate keeps a sum: two micro-batches, so that both branches run. */
static fs_status run(kernel_call *call, fs_err *err)
{
    call->step = 3;
    FS_TRY(interpret_run_call(call, err));
    if (call->node->op != IR_OP_accumulate)
        return FS_OK;
    call->micro_batch = 1;
    return interpret_run_call(call, err);
}

static double signature_error(cut *c, const ir_nd_sig *sig, fs_err *err)
{
    double worst = 0;
    for (int32_t k = 0; k < c->node->n_in; k++)
        cut_input(c, k, sig->in[k].at[0]);
    for (int32_t d = 0; d < c->devices; d++) {
        kernel_call *call = &c->piece[d];
        call->node = c->node;
        call->f = c->node->f;
        call->n_in = c->node->n_in;
        call->n_out = c->node->n_out;
        call->micro_batch = 0;
        for (int32_t k = 0; k < c->node->n_out; k++)
            call->out[k] =
                make_piece(c, &c->whole.out[k], sig->out[k].at[0], d);
        if (run(call, err) != FS_OK)
            return INFINITY;
    }
    for (int32_t k = 0; k < c->node->n_out; k++)
        worst = fmax(worst, output_error(c, k, sig->out[k].at[0]));
    return worst;
}

static void report(const cut *c, const ir_nd_sig *sig, double error)
{
    char text[64];
    fs_text dump = {.arena = c->arena};
    ir_graph_dump(c->graph, &dump);
    printf("# error %g on %d devices:", error, c->devices);
    for (int32_t k = 0; k < c->node->n_in; k++)
        printf(" %s", ir_nd_sbp_text(text, &sig->in[k], 1));
    printf(" ->");
    for (int32_t k = 0; k < c->node->n_out; k++)
        printf(" %s", ir_nd_sbp_text(text, &sig->out[k], 1));
    printf(" in\n# %s\n", dump.at);
}

/* By the narrowest type. What a device holds of a partial 16-bit float is
 * rounded, and may be larger than their sum. */
static double tolerance_of(const kernel_call *call)
{
    static const double worst[IR_DTYPE_COUNT] = {
        [IR_F32] = 1e-5, [IR_F16] = 2e-2, [IR_BF16] = 0.16};
    double tolerance = 1e-11;
    for (int32_t k = 0; k < call->n_in; k++)
        tolerance = fmax(tolerance, worst[call->in[k].dtype]);
    for (int32_t k = 0; k < call->n_out; k++)
        tolerance = fmax(tolerance, worst[call->out[k].dtype]);
    return tolerance;
}

/* All signatures of one instance; adds to *tried, returns what failed. */
static int check_cut(cut *c, int *tried, fs_err *err)
{
    const ir_mesh mesh = {1, {c->devices}};
    ir_nd_sig_list list = {0};
    int failed = 0;
    ir_signatures(c->graph, c->node, &mesh, c->arena, &list);
    for (int32_t i = 0; i < list.n; i++) {
        const double error = signature_error(c, &list.at[i], err);
        ++*tried;
        if (error < c->tolerance)
            continue;
        failed++;
        report(c, &list.at[i], error);
    }
    return failed;
}

static int trial(ir_op_kind op, ir_dtype real, uint64_t *seed, int *tried,
                 fs_err *err)
{
    ir_graph *g = ir_graph_create("case");
    op_case oc = {
        .graph = g, .op = op, .real = real, .other_type = true, .seed = seed};
    const int32_t node = op_case_build(&oc);
    interpreter in;
    int failed = 0;
    cut c = {.graph = g, .seed = seed, .arena = g->arena};
    if (node < 0) {
        fs_fail(err, FS_INVALID, "%s", g->err.text);
        goto done;
    }
    interpret_open(&in, g, g->arena);
    for (int32_t i = 0; i < g->tensors.n; i++)
        if (g->tensors.at[i].role == IR_INPUT)
            op_case_fill(&g->tensors.at[i], in.data[i], seed);
    if (interpret_run(&in, err) != FS_OK)
        goto done;
    c.node = &g->nodes.at[node];
    c.whole = interpret_call(&in, c.node);
    c.tolerance = tolerance_of(&c.whole);
    c.spread = ir_dtype_computes(real) ? 1 : 0.125;
    if (run(&c.whole, err) != FS_OK)
        goto done;
    for (c.devices = 2; c.devices <= MAX_DEVICES; c.devices++)
        failed += check_cut(&c, tried, err);
done:
    ir_graph_destroy(g);
    return failed;
}

static void check_op(ir_op_kind op, ir_dtype real, uint64_t *seed)
{
    const char *name = ir_op_table[op]->name;
    int failed = 0, tried = 0;
    fs_err err = {0};
    if (!op_case_exists(op)) {
        tap_ok(false, "%s: no generator in op_cases.c", name);
        return;
    }
    const int trials = TRIALS * op_case_times(op);
    for (int i = 0; i < trials && err.status == FS_OK && failed == 0; i++)
        failed += trial(op, real, seed, &tried, &err);
    tap_ok(failed == 0 && err.status == FS_OK,
           "%s of %s: its pieces give the whole (%d signatures)", name,
           ir_dtype_name(real), tried);
    if (err.status != FS_OK)
        printf("# %s\n", err.text);
}

int main(void)
{
    static const ir_dtype reals[] = {IR_F64, IR_F16, IR_BF16};
    uint64_t seed = tap_seed(20240301);
    for (size_t k = 0; k < sizeof reals / sizeof *reals; k++)
        for (int op = 0; op < IR_OP_COUNT; op++)
            if (ir_op_class_of((ir_op_kind)op) != IR_CLASS_SOURCE &&
                ir_op_table[op]->n_out > 0)
                check_op((ir_op_kind)op, reals[k], &seed);
    return tap_done();
}
