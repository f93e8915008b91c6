/* Importing RNN, GRU and LSTM: the input's product for all steps at once, then
 * a scan per direction. */
#include "config.h"
#include "onnx/operators.h"

#include "ir/recurrent.h"

#include <math.h>
#include <string.h>
#include <strings.h>

typedef struct layer {
    ir_cell cell;
    ir_cell_sizes n;
    int64_t steps, samples, units, width; /* T, B, H, columns of the input */
    int32_t directions;
    bool batch_first, first_reversed;
    ir_node node; /* its attributes */
    int32_t x;    /* (T, B, width) */
} layer;

/* ---- attributes ---- */

typedef struct activation_row {
    const char *name;
    double alpha, beta;
} activation_row;
static const activation_row activations[] = {
#define IR_ACTIVATION(id, name, alpha, beta) {name, alpha, beta},
#include "ir/activations.def"
#undef IR_ACTIVATION
};

/* The numbers of activation_alpha and _beta go, in order, to the activations
 * that have such a number. */
typedef struct numbers {
    const onnx_attr *attr;
    int32_t used;
} numbers;

static double next_number(numbers *list, double usual)
{
    if (isnan(usual))
        return 0;
    if (!list->attr || list->used >= list->attr->floats.n)
        return usual;
    return list->attr->floats.at[list->used++];
}

static fs_status set_activation(onnx_ctx *c, layer *l, int32_t k,
                                const char *name, numbers *alpha, numbers *beta)
{
    int32_t kind = 0;
    while (kind < IR_ACTIVATION_COUNT &&
           strcasecmp(activations[kind].name, name) != 0)
        kind++;
    if (kind == IR_ACTIVATION_COUNT)
        return onnx_fail(c, "activation \"%.40s\" is not supported", name);
    double a = next_number(alpha, activations[kind].alpha);
    double b = next_number(beta, activations[kind].beta);
    bool rising = isnan(activations[kind].alpha) || a > 0;
    if (kind == IR_ACTIVATION_SCALED_TANH)
        rising = a > 0 && b > 0;
    if (!rising || !isfinite(a) || !isfinite(b))
        return onnx_fail(c,
                         "activation %s with alpha %g and beta %g is not "
                         "supported",
                         name, a, b);
    l->node.i[IR_CELL_F + k] = kind;
    l->node.f[2 * k] = a;
    l->node.f[2 * k + 1] = b;
    return FS_OK;
}

/* Those of direction d. */
static fs_status set_activations(onnx_ctx *c, layer *l, int32_t d)
{
    static const char *const usual[][3] = {
        [IR_CELL_RNN] = {"Tanh", "Tanh", "Tanh"},
        [IR_CELL_GRU] = {"Sigmoid", "Tanh", "Tanh"},
        [IR_CELL_LSTM] = {"Sigmoid", "Tanh", "Tanh"}};
    const onnx_attr *names = onnx_attr_find(c, "activations");
    int32_t n = (int32_t)l->cell + 1;
    numbers alpha = {onnx_attr_find(c, "activation_alpha"), 0};
    numbers beta = {onnx_attr_find(c, "activation_beta"), 0};
    if (names && names->strings.n != n * l->directions)
        return onnx_fail(c, "%d activations; %d are wanted", names->strings.n,
                         n * l->directions);
    for (int32_t k = 0; k < n * (d + 1); k++) {
        const char *name = names ? names->strings.at[k] : usual[l->cell][k % n];
        FS_TRY(set_activation(c, l, k % n, name ? name : "", &alpha, &beta));
    }
    return FS_OK;
}

static fs_status get_direction(onnx_ctx *c, layer *l)
{
    const char *text = onnx_attr_text(c, "direction", "forward");
    bool both = strcmp(text, "bidirectional") == 0;
    l->first_reversed = strcmp(text, "reverse") == 0;
    l->directions = both ? 2 : 1;
    if (!both && !l->first_reversed && strcmp(text, "forward") != 0)
        return onnx_fail(c, "direction \"%.40s\" is unknown", text);
    return FS_OK;
}

/* ---- shapes ---- */

static fs_status check_shape(onnx_ctx *c, int32_t i, int32_t rank,
                             const int64_t *dim)
{
    char a[160], b[160];
    ir_shape shape, wanted = ir_shape_make(rank, dim);
    if (!onnx_has(c, i))
        return FS_OK;
    FS_TRY(onnx_shape(c, i, &shape));
    if (ir_shape_equal(&shape, &wanted))
        return FS_OK;
    return onnx_fail(c, "input %d is %s, not %s", i, ir_shape_text(a, &shape),
                     ir_shape_text(b, &wanted));
}

static fs_status check_inputs(onnx_ctx *c, const layer *l)
{
    int64_t d = l->directions, h = l->units, g = l->n.gates, b = l->samples;
    int64_t state[3] = {d, b, h};
    if (l->batch_first) {
        state[0] = b;
        state[1] = d;
    }
    FS_TRY(check_shape(c, 1, 3, (int64_t[]){d, g * h, l->width}));
    FS_TRY(check_shape(c, 2, 3, (int64_t[]){d, g * h, h}));
    FS_TRY(check_shape(c, 3, 2, (int64_t[]){d, 2 * g * h}));
    FS_TRY(check_shape(c, 4, 1, &b));
    FS_TRY(check_shape(c, 5, 3, state));
    if (l->cell != IR_CELL_LSTM)
        return FS_OK;
    FS_TRY(check_shape(c, 6, 3, state));
    return check_shape(c, 7, 2, (int64_t[]){d, 3 * h});
}

static fs_status open_layer(onnx_ctx *c, layer *l)
{
    static const int32_t swap[] = {1, 0, 2};
    ir_shape x, r;
    *l = (layer){.cell = (ir_cell)c->arg, .n = ir_cell_of(c->arg)};
    l->batch_first = onnx_attr_int(c, "layout", 0) != 0;
    FS_TRY(get_direction(c, l));
    FS_TRY(onnx_shape(c, 0, &x));
    FS_TRY(onnx_shape(c, 2, &r));
    if (x.rank != 3 || r.rank != 3)
        return onnx_fail(c,
                         "an input of rank %d and recurrent weights of rank "
                         "%d; 3 are wanted",
                         x.rank, r.rank);
    l->steps = x.dim[l->batch_first];
    l->samples = x.dim[!l->batch_first];
    l->width = x.dim[2];
    l->units = r.dim[2];
    if (onnx_attr_int(c, "hidden_size", l->units) != l->units)
        return onnx_fail(c, "hidden_size differs from the weights'");
    FS_TRY(check_inputs(c, l));
    l->x = onnx_in(c, 0);
    if (l->batch_first)
        l->x = ir_transpose(c->graph, l->x, swap);
    l->node.op = IR_OP_recurrent;
    l->node.i[IR_CELL_KIND] = l->cell;
    l->node.i[IR_CELL_VARIANT] =
        onnx_attr_int(
            c, l->cell == IR_CELL_LSTM ? "input_forget" : "linear_before_reset",
            0) != 0;
    l->node.f[IR_CELL_CLIP] = onnx_attr_real(c, "clip", 0);
    return FS_OK;
}

/* ---- one direction ---- */

/* Direction d of input i, as `shape`; axis: where the directions are. */
static int32_t of_direction(onnx_ctx *c, int32_t i, int32_t axis, int32_t d,
                            ir_shape shape)
{
    ir_graph *g = c->graph;
    int32_t x = onnx_in(c, i);
    ir_shape whole = ir_shape_of(g, x);
    if (x >= 0 && whole.dim[axis] > 1)
        x = ir_slice(g, x, axis, d, 1);
    return ir_reshape(g, x, shape);
}

static int32_t zeros(onnx_ctx *c, const layer *l, ir_shape shape)
{
    ir_graph *g = c->graph;
    if (l->x < 0)
        return -1;
    return ir_cast(g, ir_fill(g, shape, 0), g->tensors.at[l->x].dtype);
}

/* Adds the biases that only add: the recurrent one of the last gate does not
 * in a GRU (nor in an RNN, where it is kept alike). */
static int32_t add_biases(onnx_ctx *c, const layer *l, int32_t d, int32_t gates,
                          int32_t *extra)
{
    ir_graph *g = c->graph;
    int64_t h = l->units, all = l->n.gates * h, kept = all - h;
    ir_shape both = {1, {2 * all}}, row = {2, {1, h}};
    bool apart = l->cell != IR_CELL_LSTM;
    if (!onnx_has(c, 3))
        return gates;
    int32_t bias = of_direction(c, 3, 0, d, both);
    int32_t input = ir_slice(g, bias, 0, 0, all);
    if (apart)
        *extra = ir_reshape(g, ir_slice(g, bias, 0, all + kept, h), row);
    if (!apart) {
        int32_t rest = ir_slice(g, bias, 0, all, all);
        input = ir_binary(g, IR_OP_add, input, rest);
    } else if (kept) {
        int32_t rest = ir_pad(g, ir_slice(g, bias, 0, all, kept), 0, 0, h);
        input = ir_binary(g, IR_OP_add, input, rest);
    }
    return ir_binary(g, IR_OP_add, gates, input);
}

static int32_t first_state(onnx_ctx *c, const layer *l, int32_t d)
{
    ir_graph *g = c->graph;
    ir_shape one = {3, {l->samples, 1, l->units}};
    int32_t axis = l->batch_first, state[2];
    for (int32_t k = 0; k < l->n.states; k++)
        state[k] = onnx_has(c, 5 + k) ? of_direction(c, 5 + k, axis, d, one)
                                      : zeros(c, l, one);
    return l->n.states == 1 ? state[0] : ir_concat(g, state, 2, 1);
}

/* The scan's node, or -1. */
static int32_t add_direction(onnx_ctx *c, const layer *l, int32_t d)
{
    ir_graph *g = c->graph;
    int64_t h = l->units, all = l->n.gates * h;
    ir_node node = l->node;
    ir_shape extra = {2, {l->n.extra, h}};
    int32_t w = of_direction(c, 1, 0, d, (ir_shape){2, {all, l->width}});
    int32_t gates = ir_matmul(g, l->x, w, false, true);
    node.in[3] = -1;
    gates = add_biases(c, l, d, gates, &node.in[3]);
    if (l->cell == IR_CELL_LSTM && onnx_has(c, 7))
        node.in[3] = of_direction(c, 7, 0, d, extra);
    else if (node.in[3] < 0)
        node.in[3] = zeros(c, l, extra);
    node.in[0] = ir_reshape(
        g, gates, (ir_shape){4, {l->steps, l->samples, l->n.gates, h}});
    node.in[1] = of_direction(c, 2, 0, d, (ir_shape){3, {l->n.gates, h, h}});
    node.in[2] = first_state(c, l, d);
    node.n_in = 4;
    if (onnx_has(c, 4))
        node.in[node.n_in++] = onnx_in(c, 4);
    node.i[IR_CELL_REVERSE] = d == 1 || l->first_reversed;
    return ir_graph_add(g, &node);
}

/* ---- outputs ---- */

/* Output k of every direction's scan, joined: (T,D,B,H) of y, (D,B,H) of a
 * state; or (B,T,D,H), (B,D,H). */
static fs_status set_output(onnx_ctx *c, const layer *l, int32_t k,
                            const int32_t *scan)
{
    static const int32_t y_first[] = {2, 0, 1, 3}, state_first[] = {1, 0, 2};
    ir_graph *g = c->graph;
    ir_shape y = {4, {l->steps, 1, l->samples, l->units}};
    ir_shape state = {3, {1, l->samples, l->units}};
    int32_t parts[2] = {-1, -1};
    if (!onnx_wants(c, k))
        return FS_OK;
    for (int32_t d = 0; d < l->directions; d++) {
        const int32_t *out = g->nodes.at[scan[d]].out;
        int32_t part = k == 0 ? out[0] : ir_slice(g, out[1], 1, k - 1, 1);
        parts[d] = ir_reshape(g, part, k == 0 ? y : state);
    }
    int32_t all =
        l->directions == 1 ? parts[0] : ir_concat(g, parts, 2, k == 0 ? 1 : 0);
    if (l->batch_first)
        all = ir_transpose(g, all, k == 0 ? y_first : state_first);
    return onnx_set(c, k, all);
}

/* RNN, GRU, LSTM: the argument is the cell. */
fs_status onnx_import_recurrent(onnx_ctx *c)
{
    layer l;
    int32_t scan[2];
    FS_TRY(open_layer(c, &l));
    for (int32_t d = 0; d < l.directions; d++) {
        FS_TRY(set_activations(c, &l, d));
        scan[d] = add_direction(c, &l, d);
        if (scan[d] < 0)
            return c->err->status ? c->err->status : FS_INVALID;
    }
    for (int32_t k = 0; k <= l.n.states; k++)
        FS_TRY(set_output(c, &l, k, scan));
    return FS_OK;
}
