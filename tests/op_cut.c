#include "config.h"

#include "op_cut.h"

#include "ir/element.h"

#include <math.h>

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

/* What device d holds of a value in P: random, but they reduce to `value`.
 * `kept` is what the devices of one element pass on: what is left of a sum,
 * or who holds the extreme. */
static double share(cut *c, ir_sbp sbp, int32_t d, double value, double *kept)
{
    const double random = ((double)fs_rand_below(c->seed, 9) - 4) * c->spread;
    if (sbp.kind == IR_PMAX || sbp.kind == IR_PMIN) {
        const double sign = sbp.kind == IR_PMAX ? -1 : 1;
        if (d == 0)
            *kept = (double)fs_rand_below(c->seed, c->devices);
        return d == (int32_t)*kept ? value
                                   : value + sign * (random + 4 * c->spread);
    }
    *kept = d == 0 ? value : *kept;
    if (d == c->devices - 1)
        return *kept;
    *kept -= random;
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
double cut_error(const cut *c, int32_t k, ir_sbp sbp)
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
static fs_status run_call(kernel_call *call, fs_err *err)
{
    call->step = 3;
    FS_TRY(interpret_run_call(call, err));
    if (call->node->op != IR_OP_accumulate)
        return FS_OK;
    call->micro_batch = 1;
    return interpret_run_call(call, err);
}

fs_status cut_run(cut *c, const ir_nd_sig *sig, fs_err *err)
{
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
        FS_TRY(run_call(call, err));
    }
    return FS_OK;
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

/* Other values of the inputs, and what one device makes of them. */
fs_status cut_fill(cut *c, fs_err *err)
{
    ir_graph *g = c->graph;
    for (int32_t i = 0; i < g->tensors.n; i++)
        if (g->tensors.at[i].role == IR_INPUT)
            op_case_fill(&g->tensors.at[i], c->in.data[i], c->seed);
    FS_TRY(interpret_run(&c->in, err));
    c->whole = interpret_call(&c->in, c->node);
    c->tolerance = tolerance_of(&c->whole);
    return run_call(&c->whole, err);
}

fs_status cut_open(cut *c, const op_case *like, fs_err *err)
{
    op_case oc = *like;
    *c = (cut){.graph = ir_graph_create("case"), .seed = like->seed};
    oc.graph = c->graph;
    const int32_t node = op_case_build(&oc);
    if (node < 0)
        return fs_fail(err, FS_INVALID, "%s", c->graph->err.text);
    c->arena = c->graph->arena;
    c->node = &c->graph->nodes.at[node];
    c->spread = ir_dtype_computes(like->real) ? 1.37 : 0.125;
    interpret_open(&c->in, c->graph, c->graph->arena);
    return cut_fill(c, err);
}

void cut_close(cut *c)
{
    ir_graph_destroy(c->graph);
}
