/* Every reference kernel in float and in 16-bit floats against double, on rows
 * long enough for vector loops and their tails. */
#include "config.h"

#include "interpret.h"
#include "ir/element.h"
#include "op_cases.h"
#include "tap.h"

enum { TRIALS = 20 };

/* The same case in a narrower type and in F64. */
typedef struct twin {
    ir_graph *graph;
    int32_t node;
    interpreter in;
} twin;

static fs_status build(twin *t, ir_op_kind op, ir_dtype real, uint64_t seed,
                       fs_err *err)
{
    op_case c = {.graph = t->graph = ir_graph_create("case"),
                 .op = op,
                 .real = real,
                 .wide = true,
                 .seed = &seed};
    t->node = op_case_build(&c);
    if (t->node < 0)
        return fs_fail(err, FS_INVALID, "%s", t->graph->err.text);
    interpret_open(&t->in, t->graph, t->graph->arena);
    for (int32_t i = 0; i < t->graph->tensors.n; i++)
        if (t->graph->tensors.at[i].role == IR_INPUT)
            op_case_fill(&t->graph->tensors.at[i], t->in.data[i], &seed);
    return FS_OK;
}

/* The inputs of the node in double take the values that the narrower type
 * holds, also where other nodes made them. */
static void share_inputs(const twin *narrow, twin *full)
{
    const ir_node *node = &full->graph->nodes.at[full->node];
    for (int32_t i = 0; i < node->n_in; i++) {
        const ir_tensor *tensor = &full->graph->tensors.at[node->in[i]];
        const int32_t own = narrow->graph->nodes.at[narrow->node].in[i];
        const void *from = narrow->in.data[own];
        if (tensor->dtype != IR_F64)
            continue;
        for (int64_t k = 0; k < ir_shape_count(&tensor->shape); k++)
            ((double *)full->in.data[node->in[i]])[k] =
                ir_element_real(narrow->graph->tensors.at[own].dtype, from, k);
    }
}

/* The node's outputs from the narrower type's inputs. */
static fs_status run_twins(twin *narrow, twin *full, fs_err *err)
{
    FS_TRY(interpret_run(&narrow->in, err));
    FS_TRY(interpret_run(&full->in, err));
    share_inputs(narrow, full);
    const ir_node *node = &full->graph->nodes.at[full->node];
    const kernel_call call = interpret_call(&full->in, node);
    return interpret_run_call(&call, err);
}

static double output_error(const twin *narrow, const twin *full, int32_t slot)
{
    const int32_t tensor = full->graph->nodes.at[full->node].out[slot];
    const ir_tensor *t = &full->graph->tensors.at[tensor];
    const int32_t own = narrow->graph->nodes.at[narrow->node].out[slot];
    const ir_dtype dtype = narrow->graph->tensors.at[own].dtype;
    const bool both = dtype != IR_F64 && t->dtype == IR_F64;
    const double *wanted = full->in.data[tensor];
    double worst = 0;
    for (int64_t i = 0; both && i < ir_shape_count(&t->shape); i++) {
        const double got = ir_element_real(dtype, narrow->in.data[own], i);
        const double d = fabs(got - wanted[i]);
        worst = fmax(worst, isnan(d) ? INFINITY : d / (1 + fabs(wanted[i])));
    }
    return worst;
}

/* What lowering would reserve for the node's scratch is what its kernel needs,
 * to the byte. */
static bool scratch_fits(const twin *t)
{
    static const ir_mesh one = {0};
    static const ir_nd_sig whole;
    const ir_node *node = &t->graph->nodes.at[t->node];
    const kernel_call call = interpret_call(&t->in, node);
    const kernel *chosen;
    void *state;
    ir_work work;
    if (kernel_choose(&call, "reference", NULL, &chosen, &state) != FS_OK)
        return false;
    const int64_t needs = chosen->scratch ? chosen->scratch(&call) : 0;
    if (chosen->release)
        chosen->release(state);
    ir_node_work(t->graph, node, &whole, &one, &work);
    return work.scratch_bytes == needs;
}

static double trial(ir_op_kind op, ir_dtype real, uint64_t seed, fs_err *err)
{
    twin narrow = {0}, full = {0};
    double worst = 0;
    if (build(&narrow, op, real, seed, err) == FS_OK &&
        build(&full, op, IR_F64, seed, err) == FS_OK) {
        if (run_twins(&narrow, &full, err) == FS_OK)
            for (int32_t k = 0; k < ir_op_table[op]->n_out; k++)
                worst = fmax(worst, output_error(&narrow, &full, k));
        if (err->status == FS_OK && !scratch_fits(&narrow))
            fs_fail(err, FS_FAULT, "its scratch is not what work says");
    }
    ir_graph_destroy(narrow.graph);
    ir_graph_destroy(full.graph);
    return worst;
}

static void check_op(ir_op_kind op, ir_dtype real, double tolerance,
                     uint64_t seed)
{
    double worst = 0;
    fs_err err = {0};
    const int trials = TRIALS * op_case_times(op);
    for (int i = 0; i < trials && err.status == FS_OK; i++)
        worst = fmax(worst, trial(op, real, fs_rand(&seed), &err));
    tap_ok(err.status == FS_OK && worst < tolerance,
           "%s: %s and double kernels agree", ir_op_table[op]->name,
           ir_dtype_name(real));
    printf("# worst relative difference %g%s%s\n", worst,
           err.status ? ": " : "", err.text);
}

/* A narrow kernel computes in float and rounds once: half a unit in the last
 * place of its 8 or 11 bits, and float's own error. */
int main(void)
{
    static const struct {
        ir_dtype real;
        double tolerance;
    } types[] = {
        {IR_F32, 1e-5}, {IR_BF16, 0x1p-8 + 1e-5}, {IR_F16, 0x1p-11 + 1e-5}};
    uint64_t seed = tap_seed(20240303);
    for (int op = 0; op < IR_OP_COUNT; op++)
        for (size_t k = 0; k < sizeof types / sizeof *types; k++)
            /* A chain rounds after each step, as its steps alone would:
             * kernels_chain_test compares the bits. */
            if (kernel_reference((ir_op_kind)op) &&
                (op != IR_OP_chain || types[k].real == IR_F32))
                check_op((ir_op_kind)op, types[k].real, types[k].tolerance,
                         fs_rand(&seed));
    return tap_done();
}
