/* Kernels of 16-bit floats give the same worked off in tiles as at once, and
 * their copies then take no more than a tile may. */
#include "config.h"

#include "interpret.h"
#include "ir/element.h"
#include "kernels/widened.h"
#include "op_cases.h"
#include "tap.h"

enum { TRIALS = 30 };

typedef struct instance {
    ir_graph *graph;
    interpreter in;
    kernel_call call;
} instance;

static fs_status build(instance *c, ir_op_kind op, uint64_t *seed, fs_err *err)
{
    op_case oc = {.graph = c->graph,
                  .op = op,
                  .real = IR_BF16,
                  .wide = true,
                  .seed = seed};
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
    FS_TRY(kernel_widened_create(out, tiling, "reference", err, &state));
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
    if (build(&c, op, seed, err) == FS_OK && is_widened(&c.call)) {
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

int main(void)
{
    uint64_t seed = tap_seed(20260729);
    int cut = 0;
    for (int op = 0; op < IR_OP_COUNT; op++)
        if (kernel_reference((ir_op_kind)op) && op != IR_OP_chain)
            cut += check_op((ir_op_kind)op, fs_rand(&seed));
    tap_ok(cut > 50, "%d ops are worked off in tiles", cut);
    return tap_done();
}
