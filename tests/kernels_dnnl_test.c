/* The variants against the reference, on random shapes. */
#include "config.h"

#include "interpret.h"
#include "op_cases.h"
#include "tap.h"

enum { TRIALS = 60 };

/* Same call, outputs of its own. */
static kernel_call with_own_outputs(const kernel_call *call, fs_arena *arena)
{
    kernel_call own = *call;
    for (int32_t k = 0; k < call->n_out; k++)
        own.out[k].data =
            fs_alloc(arena, (size_t)ir_shape_count(&call->out[k].shape), 4);
    return own;
}

static double difference(const kernel_arg *a, const kernel_arg *b)
{
    const int64_t n = ir_shape_count(&a->shape);
    const float *x = a->data, *y = b->data;
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        if (x[i] == y[i] || (isnan(x[i]) && isnan(y[i])))
            continue; /* of a row that sees nothing */
        const double d = fabs((double)x[i] - (double)y[i]);
        worst = fmax(worst, isnan(d) ? INFINITY : d / (1 + fabs((double)y[i])));
    }
    return worst;
}

/* Runs a variant twice: what it keeps between calls must not matter. */
static double variant_error(const kernel_call *reference, const char *variant,
                            fs_arena *arena, fs_err *err)
{
    const kernel *chosen;
    void *state = NULL;
    kernel_call call = with_own_outputs(reference, arena);
    if (kernel_choose(&call, variant, err, &chosen, &state) != FS_OK)
        return INFINITY;
    call.workspace = interpret_workspace(chosen, state);
    if (chosen->run(state, &call, err) == FS_OK)
        chosen->run(state, &call, err);
    free(call.workspace);
    if (chosen->release)
        chosen->release(state);
    double worst = 0;
    for (int32_t k = 0; k < call.n_out; k++)
        worst = fmax(worst, difference(&call.out[k], &reference->out[k]));
    return worst;
}

/* ---- pieces ---- */

enum { DEVICES = 3 };

static kernel_arg draw_piece(const ir_tensor *t, const ir_nd_sbp *sbp,
                             int32_t device, uint64_t *seed, fs_arena *arena)
{
    const ir_mesh mesh = {1, {DEVICES}};
    const int32_t coords[IR_MAX_MESH] = {device};
    kernel_arg arg = {.dtype = t->dtype};
    ir_local_piece(&t->shape, sbp, &mesh, coords, &arg.shape, arg.offset);
    ir_tensor piece = *t;
    piece.shape = arg.shape;
    arg.data = fs_alloc(arena, (size_t)ir_shape_count(&arg.shape),
                        (size_t)ir_dtype_bytes(arg.dtype));
    if (t->role == IR_INPUT)
        op_case_fill(&piece, arg.data, seed);
    return arg;
}

/* How many calls the variant takes, of whole tensors and of pieces. */
typedef struct taken {
    int all, taken;
} taken;

static bool takes(const kernel_call *call, const char *variant, taken *count)
{
    count->all++;
    const kernel *chosen;
    void *state = NULL;
    fs_err err = {0};
    if (kernel_choose(call, variant, &err, &chosen, &state) != FS_OK)
        return false;
    if (chosen->release)
        chosen->release(state);
    count->taken++;
    return true;
}

/* What one device would compute of a signature, on values of its own. */
static double piece_error(ir_graph *g, const ir_node *node, const char *variant,
                          uint64_t *seed, taken *count)
{
    fs_err *err = &(fs_err){0};
    const ir_mesh mesh = {1, {DEVICES}};
    ir_nd_sig_list list;
    ir_signatures(g, node, &mesh, g->arena, &list);
    const ir_nd_sig *sig = &list.at[fs_rand_below(seed, list.n)];
    const int32_t device = (int32_t)fs_rand_below(seed, DEVICES);
    kernel_call call = {
        .node = node, .f = node->f, .n_in = node->n_in, .n_out = node->n_out};
    for (int32_t k = 0; k < node->n_in; k++)
        call.in[k] = draw_piece(&g->tensors.at[node->in[k]], &sig->in[k],
                                device, seed, g->arena);
    for (int32_t k = 0; k < node->n_out; k++)
        call.out[k] = draw_piece(&g->tensors.at[node->out[k]], &sig->out[k],
                                 device, seed, g->arena);
    if (!takes(&call, variant, count))
        return 0;
    if (interpret_run_call(&call, err) != FS_OK)
        return INFINITY;
    return variant_error(&call, variant, g->arena, err);
}

static double trial(ir_op_kind op, const char *variant, uint64_t *seed,
                    taken *count, fs_err *err)
{
    ir_graph *g = ir_graph_create("case");
    op_case c = {.graph = g, .op = op, .real = IR_F32, .seed = seed};
    c.wide = fs_rand_below(seed, 2) == 1;
    const int32_t node = op_case_build(&c);
    double worst = INFINITY;
    interpreter in;
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
    const kernel_call call = interpret_call(&in, &g->nodes.at[node]);
    worst = takes(&call, variant, count)
                ? variant_error(&call, variant, g->arena, err)
                : 0;
    for (int k = 0; k < 8; k++)
        worst = fmax(worst, piece_error(g, call.node, variant, seed, count));
done:
    ir_graph_destroy(g);
    return worst;
}

static void check_variant(ir_op_kind op, const char *variant, uint64_t *seed)
{
    double worst = 0;
    taken count = {0};
    fs_err err = {0};
    for (int i = 0; i < TRIALS && err.status == FS_OK; i++)
        worst = fmax(worst, trial(op, variant, seed, &count, &err));
    tap_ok(err.status == FS_OK && worst < 2e-5,
           "%s: %s gives the reference's, of pieces too", ir_op_table[op]->name,
           variant);
    tap_ok(count.taken >= 0.9 * count.all, "%s: %s takes %d of %d calls",
           ir_op_table[op]->name, variant, count.taken, count.all);
    printf("# worst relative difference %g%s%s\n", worst,
           err.status ? ": " : "", err.text);
}

static void check_choice(void)
{
    const ir_node node = {.op = IR_OP_matmul, .name = "m", .n_in = 2};
    const kernel_arg f64 = {.dtype = IR_F64, .shape = {2, {2, 2}}};
    const kernel_call call = {
        .node = &node, .n_in = 2, .n_out = 1, .in = {f64, f64}, .out = {f64}};
    const kernel *chosen = NULL;
    void *state;
    fs_err err = {0};
    tap_ok(kernel_choose(&call, "auto", &err, &chosen, &state) == FS_OK &&
               strcmp(chosen->variant, "reference") == 0,
           "auto passes over a variant that does not do doubles");
    tap_ok(kernel_choose(&call, "dnnl", &err, &chosen, &state) == FS_INVALID &&
               strstr(err.text, "matmul"),
           "a variant that takes nothing is refused, naming the op");
    printf("# %s\n", err.text);
}

static kernel_arg draw_matrix(int64_t rows, int64_t columns, fs_arena *arena)
{
    return (kernel_arg){.dtype = IR_F32,
                        .shape = {2, {rows, columns}},
                        .data = fs_new(arena, float, rows *columns)};
}

/* Rows that are all the same, by columns that are not. */
static int64_t rows_that_differ(const int64_t size[3], uint64_t *seed,
                                fs_err *err)
{
    const int64_t m = size[0], n = size[1], k = size[2];
    const ir_node node = {.op = IR_OP_matmul, .name = "m", .n_in = 2};
    fs_arena *arena = fs_arena_create();
    kernel_call call = {
        .node = &node,
        .n_in = 2,
        .n_out = 1,
        .alike = true,
        .in = {draw_matrix(m, k, arena), draw_matrix(k, n, arena)},
        .out = {draw_matrix(m, n, arena)}};
    float *a = call.in[0].data, *b = call.in[1].data, *c = call.out[0].data;
    const kernel *chosen;
    void *state = NULL;
    int64_t differ = 0;
    for (int64_t i = 0; i < k; i++)
        a[i] = (float)fs_rand_unit(seed) - 0.5f;
    for (int64_t i = k; i < m * k; i++)
        a[i] = a[i - k];
    for (int64_t i = 0; i < k * n; i++)
        b[i] = (float)fs_rand_unit(seed) - 0.5f;
    if (kernel_choose(&call, "auto", err, &chosen, &state) != FS_OK)
        return -1;
    call.workspace = interpret_workspace(chosen, state);
    chosen->run(state, &call, err);
    free(call.workspace);
    if (chosen->release)
        chosen->release(state);
    for (int64_t i = 1; i < m; i++)
        differ += memcmp(c, c + i * n, (size_t)n * sizeof *c) != 0;
    fs_arena_destroy(arena);
    return differ;
}

static void check_alike(uint64_t *seed)
{
    enum { CASES = 200 };
    int64_t differ = 0;
    fs_err err = {0};
    for (int i = 0; i < CASES && err.status == FS_OK; i++) {
        int64_t size[3];
        for (int d = 0; d < 3; d++)
            size[d] = 1 + (int64_t)fs_rand_below(seed, i % 4 ? 48 : 160);
        differ += rows_that_differ(size, seed, &err);
    }
    tap_ok(differ == 0 && err.status == FS_OK,
           "products of %d sizes: the bits of a row do not hang on which one "
           "it is (%lld do)",
           CASES, (long long)differ);
}

int main(void)
{
    uint64_t seed = tap_seed(20240302);
    kernel_set_threads(1);
    for (int op = 0; op < IR_OP_COUNT; op++) {
        int32_t n;
        const kernel *const *row = kernel_variants((ir_op_kind)op, &n);
        for (int32_t i = 0; i + 1 < n; i++)
            check_variant((ir_op_kind)op, row[i]->variant, &seed);
    }
    check_choice();
    check_alike(&seed);
    return tap_done();
}
