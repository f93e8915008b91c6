/* Kernels of 16-bit floats give the same worked off in tiles as at once, and
 * their copies then take no more than a tile may. Those of floats give the same
 * to the bit in tiles that lie where the operands lie, and rest between. */
#include "config.h"

#include "interpret.h"
#include "ir/element.h"
#include "ir/window.h"
#include "kernels/tiled.h"
#include "op_cases.h"
#include "tap.h"

enum { TRIALS = 30 };

typedef struct instance {
    ir_graph *graph;
    interpreter in;
    kernel_call call;
} instance;

static fs_status build(instance *c, ir_op_kind op, ir_dtype real,
                       uint64_t *seed, fs_err *err)
{
    op_case oc = {
        .graph = c->graph, .op = op, .real = real, .wide = true, .seed = seed};
    const int32_t node = op_case_build(&oc);
    if (node < 0)
        return fs_fail(err, FS_INVALID, "%s", c->graph->err.text);
    interpret_open(&c->in, c->graph, c->graph->arena);
    for (int32_t i = 0; i < c->graph->tensors.n; i++)
        if (c->graph->tensors.at[i].role == IR_INPUT)
            op_case_fill(&c->graph->tensors.at[i], c->in.data[i], seed);
    FS_TRY(interpret_run(&c->in, err));
    c->call = interpret_call(&c->in, &c->graph->nodes.at[node]);
    return FS_OK;
}

static bool is_widened(const kernel_call *call)
{
    const kernel *chosen;
    void *state;
    if (kernel_choose(call, "reference", NULL, &chosen, &state) != FS_OK)
        return false;
    if (chosen->release)
        chosen->release(state);
    return chosen == &kernel_widened;
}

/* Into other memory, all set to ones; what ops keep begins at zero. */
static fs_status run_tiles(instance *c, const ir_tiling *tiling,
                           kernel_call *out, fs_err *err)
{
    void *state = NULL;
    *out = c->call;
    for (int32_t i = 0; i < out->n_out; i++)
        out->out[i].data = fs_alloc(
            c->graph->arena,
            interpret_bytes(&c->graph->tensors.at[out->node->out[i]]), 1);
    FS_TRY(kernel_tiled_create(out, tiling, "reference", err, &state));
    out->scratch = aligned_alloc(64, (size_t)tiling->bytes + 64);
    memset((char *)out->scratch + tiling->bytes, 0x5a, 64);
    fs_status status = kernel_widened.run(state, out, err);
    for (int i = 0; i < 64; i++)
        if (((char *)out->scratch)[tiling->bytes + i] != 0x5a)
            status = fs_fail(err, FS_FAULT, "writes behind its scratch");
    free(out->scratch);
    kernel_widened.release(state);
    return status;
}

static double difference(const kernel_arg *a, const kernel_arg *b)
{
    double worst = 0;
    for (int64_t i = 0; i < ir_shape_count(&a->shape); i++) {
        const double x = ir_element_real(a->dtype, a->data, i);
        const double y = ir_element_real(b->dtype, b->data, i);
        const double d = fabs(x - y);
        worst = fmax(worst, isnan(d) ? INFINITY : d / (1 + fabs(x)));
    }
    return worst;
}

/* In how many tiles (0: the op is not widened, or cannot be cut). */
static int32_t trial(ir_op_kind op, uint64_t *seed, double *worst, fs_err *err)
{
    instance c = {.graph = ir_graph_create("case")};
    ir_tiling whole, tiling;
    kernel_call tiled;
    int32_t tiles = 0;
    if (build(&c, op, IR_BF16, seed, err) == FS_OK && is_widened(&c.call)) {
        kernel_widened_tiles(&c.call, INT64_MAX, &whole);
        kernel_widened_tiles(&c.call, whole.bytes / 5, &tiling);
        tiles = tiling.mesh.n ? ir_mesh_size(&tiling.mesh) : 0;
    }
    if (tiles && run_tiles(&c, &tiling, &tiled, err) == FS_OK)
        for (int32_t i = 0; i < tiled.n_out; i++)
            *worst = fmax(*worst, difference(&c.call.out[i], &tiled.out[i]));
    ir_graph_destroy(c.graph);
    return tiles;
}

/* A last bit of the eight may round the other way after sums in other order. */
static bool check_op(ir_op_kind op, uint64_t seed)
{
    const double tolerance = 0x1p-7;
    double worst = 0;
    fs_err err = {0};
    int32_t most = 0;
    for (int i = 0; i < TRIALS && err.status == FS_OK; i++) {
        const int32_t tiles = trial(op, &seed, &worst, &err);
        most = tiles > most ? tiles : most;
    }
    tap_ok(err.status == FS_OK && worst < tolerance, "%s: in up to %d tiles",
           ir_op_table[op]->name, most);
    if (err.status != FS_OK || worst >= tolerance)
        printf("# worst relative difference %g%s%s\n", worst,
               err.status ? ": " : "", err.text);
    return most > 0;
}

/* ---- in place ---- */

static void count_rest(void *ctx)
{
    ++*(int32_t *)ctx;
}

/* Into other memory, but for what it keeps. */
static void take_outputs(const instance *c, kernel_call *out)
{
    *out = c->call;
    for (int32_t i = 0; i < out->n_out; i++)
        out->out[i].data = fs_alloc(
            c->graph->arena,
            interpret_bytes(&c->graph->tensors.at[out->node->out[i]]), 1);
}

static int64_t bytes_of(const kernel_arg *arg)
{
    return ir_shape_count(&arg->shape) * ir_dtype_bytes(arg->dtype);
}

static bool same_bits(const kernel_call *a, const kernel_call *b)
{
    bool same = true;
    for (int32_t i = 0; i < a->n_out; i++)
        same &= memcmp(a->out[i].data, b->out[i].data,
                       (size_t)bytes_of(&a->out[i])) == 0;
    return same;
}

/* In how many tiles; 0: it is not cut. */
static int32_t run_in_place(const kernel_call *call, int32_t most, fs_err *err)
{
    const kernel *k;
    void *state;
    int32_t rests = 0;
    kernel_call resting = *call;
    if (kernel_choose(call, "reference", err, &k, &state) != FS_OK)
        return 0;
    const kernel *chosen = k;
    kernel_rest_between(call, most, &k, &state);
    resting.rest = count_rest;
    resting.rest_ctx = &rests;
    k->run(state, &resting, err);
    if (k->release && state)
        k->release(state);
    return k == chosen ? 0 : rests;
}

/* In how many tiles; differ: with other bits. */
static int32_t trial_in_place(ir_op_kind op, uint64_t *seed, bool *differ,
                              fs_err *err)
{
    instance c = {.graph = ir_graph_create("case")};
    kernel_call whole, tiled;
    int32_t tiles = 0;
    if (build(&c, op, IR_F32, seed, err) == FS_OK) {
        take_outputs(&c, &whole);
        take_outputs(&c, &tiled);
        whole.scratch = tiled.scratch = c.call.scratch;
        run_in_place(&whole, 1, err);
        tiles = run_in_place(&tiled, 8, err);
        *differ |= tiles > 0 && !same_bits(&whole, &tiled);
    }
    ir_graph_destroy(c.graph);
    return tiles;
}

static bool check_in_place(ir_op_kind op, uint64_t seed)
{
    fs_err err = {0};
    bool differ = false;
    int32_t most = 0;
    for (int i = 0; i < TRIALS && err.status == FS_OK; i++) {
        const int32_t tiles = trial_in_place(op, &seed, &differ, &err);
        most = tiles > most ? tiles : most;
    }
    tap_ok(err.status == FS_OK && !differ,
           "%s: the same bits in up to %d tiles where it lies%s%s",
           ir_op_table[op]->name, most, err.status ? ": " : "", err.text);
    return most > 1;
}

/* ---- pieces of convolutions that have some of the groups ---- */

/* One sample, the first `kept` of the groups. */
static void cut_groups(kernel_call *call, int64_t kept)
{
    const int64_t groups = call->node->i[IR_WINDOW_GROUPS];
    const int weights = call->node->op == IR_OP_conv_filter_grad ? 2 : 1;
    kernel_arg *all[3] = {&call->in[0], &call->in[1], &call->out[0]};
    for (int i = 0; i < 3; i++) {
        ir_shape *shape = &all[i]->shape;
        const int axis = i == weights ? 0 : 1;
        shape->dim[axis] = shape->dim[axis] / groups * kept;
        if (i != weights)
            shape->dim[0] = 1;
    }
}

static bool same_groups(ir_op_kind op, uint64_t *seed, int *cut, fs_err *err)
{
    instance c = {.graph = ir_graph_create("case")};
    kernel_call whole, tiled;
    bool same = true;
    if (build(&c, op, IR_F32, seed, err) == FS_OK) {
        const int64_t groups = c.call.node->i[IR_WINDOW_GROUPS];
        const int64_t kept = 1 + (int64_t)(fs_rand(seed) % (uint64_t)groups);
        take_outputs(&c, &whole);
        take_outputs(&c, &tiled);
        cut_groups(&whole, kept);
        cut_groups(&tiled, kept);
        run_in_place(&whole, 1, err);
        *cut += run_in_place(&tiled, 8, err) > 0;
        same = same_bits(&whole, &tiled);
    }
    ir_graph_destroy(c.graph);
    return same;
}

static void test_groups(uint64_t seed)
{
    static const ir_op_kind ops[] = {IR_OP_conv, IR_OP_conv_data_grad,
                                     IR_OP_conv_filter_grad};
    fs_err err = {0};
    for (size_t k = 0; k < sizeof ops / sizeof *ops; k++) {
        int cut = 0, differ = 0;
        for (int i = 0; i < 10 * TRIALS && err.status == FS_OK; i++)
            differ += !same_groups(ops[k], &seed, &cut, &err);
        tap_ok(err.status == FS_OK && differ == 0 && cut > 0,
               "%s of some of the groups: the same bits, %d in tiles%s%s",
               ir_op_table[ops[k]]->name, cut, err.status ? ": " : "",
               err.text);
    }
}

int main(void)
{
    uint64_t seed = tap_seed(20260729);
    int cut = 0, lies = 0;
    for (int op = 0; op < IR_OP_COUNT; op++)
        if (kernel_reference((ir_op_kind)op) && op != IR_OP_chain)
            cut += check_op((ir_op_kind)op, fs_rand(&seed));
    tap_ok(cut > 50, "%d ops are worked off in tiles", cut);
    for (int op = 0; op < IR_OP_COUNT; op++)
        if (kernel_reference((ir_op_kind)op) && op != IR_OP_chain)
            lies += check_in_place((ir_op_kind)op, fs_rand(&seed));
    test_groups(fs_rand(&seed));
    tap_ok(lies > 50, "%d ops in tiles that lie where they lie", lies);
    return tap_done();
}
