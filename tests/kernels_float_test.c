/* The float half of every reference kernel against its double half, on rows
 * long enough for vector loops and their tails. */
#include "config.h"

#include "interpret.h"
#include "op_cases.h"
#include "tap.h"

enum { TRIALS = 20 };

/* The same case in F32 and in F64. */
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

/* The double inputs take the values that float can hold. */
static void share_inputs(const twin *single, twin *full)
{
    for (int32_t i = 0; i < full->graph->tensors.n; i++) {
        const ir_tensor *tensor = &full->graph->tensors.at[i];
        const float *from = single->in.data[i];
        double *to = full->in.data[i];
        if (tensor->role != IR_INPUT || tensor->dtype != IR_F64)
            continue;
        for (int64_t k = 0; k < ir_shape_count(&tensor->shape); k++)
            to[k] = (double)from[k];
    }
}

static double output_error(const twin *single, const twin *full, int32_t slot)
{
    const int32_t tensor = full->graph->nodes.at[full->node].out[slot];
    const ir_tensor *t = &full->graph->tensors.at[tensor];
    const bool both =
        single->graph->tensors.at[tensor].dtype == IR_F32 && t->dtype == IR_F64;
    const float *got = single->in.data[tensor];
    const double *wanted = full->in.data[tensor];
    double worst = 0;
    for (int64_t i = 0; both && i < ir_shape_count(&t->shape); i++) {
        const double d = fabs((double)got[i] - wanted[i]);
        worst = fmax(worst, isnan(d) ? INFINITY : d / (1 + fabs(wanted[i])));
    }
    return worst;
}

static double trial(ir_op_kind op, uint64_t seed, fs_err *err)
{
    twin single = {0}, full = {0};
    double worst = 0;
    if (build(&single, op, IR_F32, seed, err) == FS_OK &&
        build(&full, op, IR_F64, seed, err) == FS_OK) {
        share_inputs(&single, &full);
        if (interpret_run(&single.in, err) == FS_OK &&
            interpret_run(&full.in, err) == FS_OK)
            for (int32_t k = 0; k < ir_op_table[op]->n_out; k++)
                worst = fmax(worst, output_error(&single, &full, k));
    }
    ir_graph_destroy(single.graph);
    ir_graph_destroy(full.graph);
    return worst;
}

int main(void)
{
    uint64_t seed = tap_seed(20240303);
    for (int op = 0; op < IR_OP_COUNT; op++) {
        double worst = 0;
        fs_err err = {0};
        if (!kernel_reference((ir_op_kind)op))
            continue;
        for (int i = 0; i < TRIALS && err.status == FS_OK; i++)
            worst = fmax(worst, trial((ir_op_kind)op, fs_rand(&seed), &err));
        tap_ok(err.status == FS_OK && worst < 1e-5,
               "%s: float and double kernels agree", ir_op_table[op]->name);
        printf("# worst relative difference %g%s%s\n", worst,
               err.status ? ": " : "", err.text);
    }
    return tap_done();
}
