/* Every op under every legal signature on one mesh axis: the reference kernel
 * on the pieces, put together again, gives what one device computes. */
#include "config.h"

#include "op_cut.h"
#include "tap.h"

enum { TRIALS = 20 };

static double signature_error(cut *c, const ir_nd_sig *sig, fs_err *err)
{
    double worst = 0;
    if (cut_run(c, sig, err) != FS_OK)
        return INFINITY;
    for (int32_t k = 0; k < c->node->n_out; k++)
        worst = fmax(worst, cut_error(c, k, sig->out[k].at[0]));
    return worst;
}

/* What is picked hangs on the pieces: its own test says what holds. */
static bool is_compared(const ir_node *node, const ir_nd_sig *sig)
{
    return !ir_op_table[node->op]->picks || sig->in[0].at[0].kind == IR_B;
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

/* All signatures of one instance; adds to *tried, returns what failed. */
static int check_cut(cut *c, int *tried, fs_err *err)
{
    const ir_mesh mesh = {1, {c->devices}};
    ir_nd_sig_list list = {0};
    int failed = 0;
    ir_signatures(c->graph, c->node, &mesh, c->arena, &list);
    for (int32_t i = 0; i < list.n; i++) {
        if (!is_compared(c->node, &list.at[i]))
            continue;
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
    const op_case like = {
        .op = op, .real = real, .other_type = true, .seed = seed};
    cut c;
    int failed = 0;
    if (cut_open(&c, &like, err) == FS_OK)
        for (c.devices = 2; c.devices <= MAX_DEVICES; c.devices++)
            failed += check_cut(&c, tried, err);
    cut_close(&c);
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
    const uint64_t seed = tap_seed(20240303);
    for (size_t k = 0; k < sizeof reals / sizeof *reals; k++)
        for (int op = 0; op < IR_OP_COUNT; op++) {
            /* Its own, so that a new op leaves the others' draws alone. */
            uint64_t own = fs_hash_text(seed + k, ir_op_table[op]->name);
            if (ir_op_class_of((ir_op_kind)op) != IR_CLASS_SOURCE &&
                ir_op_table[op]->n_out > 0)
                check_op((ir_op_kind)op, reals[k], &own);
        }
    return tap_done();
}
