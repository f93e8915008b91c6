/* What an export writes of every op of the table, operators of ONNX or a
 * function of them, has the op's own values: random cases are exported, our
 * domain is called something else so that the importer must take the functions
 * apart, and both graphs run on the same inputs. */
#include "config.h"

#include "ir/chain.h"
#include "onnx/export.h"

#include "interpret.h"
#include "onnx_imported.h"
#include "op_cases.h"
#include "tap.h"

#include <unistd.h>

enum { TRIALS = 12 };

static char path[700];

typedef struct form {
    ir_graph *graph; /* of the one op */
    int32_t node;
    int32_t n_out; /* outputs of the op that something reads */
    interpreter in;
    imported back;
    bool told; /* it has a form in ONNX */
} form;

static fs_status build(form *f, ir_op_kind op, uint64_t seed, fs_err *err)
{
    op_case c = {.graph = f->graph = ir_graph_create("case"),
                 .op = op,
                 .real = IR_F32,
                 .seed = &seed};
    f->node = op_case_build(&c);
    if (f->node < 0)
        return fs_fail(err, FS_INVALID, "%s", f->graph->err.text);
    const ir_node *node = &f->graph->nodes.at[f->node];
    f->n_out = fs_rand(&seed) % 2 ? node->n_out : 1;
    for (int32_t k = 0; k < f->n_out; k++)
        fs_push(f->graph->arena, &f->graph->outputs, node->out[k]);
    interpret_open(&f->in, f->graph, f->graph->arena);
    for (int32_t i = 0; i < f->graph->tensors.n; i++)
        if (f->graph->tensors.at[i].role == IR_INPUT)
            op_case_fill(&f->graph->tensors.at[i], f->in.data[i], &seed);
    return interpret_run(&f->in, err);
}

/* Every "flowsearch" in the file becomes "elsewheres". */
static void rename_domain(fs_arena *arena)
{
    FILE *file = fopen(path, "r+b");
    static const char from[] = "flowsearch", to[] = "elsewheres";
    const size_t n = sizeof from - 1;
    fseek(file, 0, SEEK_END);
    size_t bytes = (size_t)ftell(file);
    char *whole = fs_alloc(arena, bytes, 1);
    rewind(file);
    bytes = fread(whole, 1, bytes, file);
    for (size_t i = 0; i + n <= bytes; i++)
        if (memcmp(whole + i, from, n) == 0)
            memcpy(whole + i, to, n);
    rewind(file);
    fwrite(whole, 1, bytes, file);
    fclose(file);
}

static fs_status round_trip(form *f, fs_err *err)
{
    fs_arena *arena = fs_arena_create();
    onnx_export_options plain = {0};
    onnx_options infer = {.infer = true, .no_rewrite = true};
    onnx_exported done = {0};
    fs_status status = onnx_export(f->graph, path, &plain, arena, err, &done);
    f->told = status == FS_OK && done.n_own == 0;
    if (f->told) {
        rename_domain(arena);
        f->back = import(path, &infer);
        if (!f->back.graph)
            status = fs_fail(err, FS_INVALID, "%s", f->back.err.text);
    }
    fs_arena_destroy(arena);
    return status;
}

/* Inputs by their names; the step that a kernel counts from 0 is called 1. */
static void share_inputs(const form *f, interpreter *back)
{
    for (int32_t i = 0; i < back->graph->tensors.n; i++) {
        const ir_tensor *t = &back->graph->tensors.at[i];
        int32_t from = ir_graph_find(f->graph, t->name);
        if (strcmp(t->name, "step") == 0 && t->dtype == IR_I64)
            *(int64_t *)back->data[i] = 1;
        else if (from >= 0 && t->role == IR_INPUT)
            memcpy(back->data[i], f->in.data[from], interpret_bytes(t));
    }
}

static double value_at(const ir_tensor *t, const void *data, int64_t i)
{
    switch (t->dtype) {
    case IR_F32:
        return (double)((const float *)data)[i];
    case IR_I64:
        return (double)((const int64_t *)data)[i];
    case IR_I32:
        return (double)((const int32_t *)data)[i];
    case IR_BOOL:
        return (double)((const uint8_t *)data)[i];
    default:
        return NAN;
    }
}

static double difference(const form *f, const interpreter *back, int32_t k)
{
    const int32_t at = f->graph->nodes.at[f->node].out[k];
    const ir_tensor *t = &f->graph->tensors.at[at];
    if (k >= back->graph->outputs.n)
        return INFINITY;
    /* Not by name: what does nothing leaves the name of what it reads. */
    const int32_t to = back->graph->outputs.at[k];
    if (!ir_shape_equal(&back->graph->tensors.at[to].shape, &t->shape) ||
        back->graph->tensors.at[to].dtype != t->dtype)
        return INFINITY;
    double worst = 0;
    for (int64_t i = 0; i < ir_shape_count(&t->shape); i++) {
        const double a = value_at(t, f->in.data[at], i);
        const double b = value_at(t, back->data[to], i);
        if (a == b || (isnan(a) && isnan(b)))
            continue;
        const double d = fabs(a - b) / (1 + fabs(a));
        worst = fmax(worst, isnan(d) ? INFINITY : d);
    }
    return worst;
}

/* What is drawn at random is drawn anew after the import. */
static bool draws(const ir_node *node)
{
    bool any = false;
    for (int32_t k = 0; node->chain && k < node->chain->n_steps; k++)
        any = any || ir_op_table[node->chain->step[k].op]->draws;
    return any || ir_op_table[node->op]->draws;
}

/* GatherND and ScatterND take no other type for places than i64. */
static bool places_good(const ir_graph *g)
{
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        if ((node->op == IR_OP_gather_nd || node->op == IR_OP_scatter_nd) &&
            g->tensors.at[node->in[1]].dtype != IR_I64)
            return false;
    }
    return true;
}

/* Of one case; *told: it had a form. */
static double trial(ir_op_kind op, uint64_t seed, fs_err *err, bool *told)
{
    form f = {0};
    double worst = 0;
    interpreter back;
    if (build(&f, op, seed, err) == FS_OK && round_trip(&f, err) == FS_OK &&
        f.told && !draws(&f.graph->nodes.at[f.node])) {
        worst = places_good(f.back.graph) ? 0 : INFINITY;
        interpret_open(&back, f.back.graph, f.back.graph->arena);
        share_inputs(&f, &back);
        if (interpret_run(&back, err) == FS_OK)
            for (int32_t k = 0; k < f.n_out; k++)
                worst = fmax(worst, difference(&f, &back, k));
    }
    *told = f.told;
    drop(&f.back);
    ir_graph_destroy(f.graph);
    return worst;
}

static void test_op(ir_op_kind op, uint64_t *seed)
{
    const char *name = ir_op_table[op]->name;
    double worst = 0;
    fs_err err = {0};
    int32_t n = 0;
    unsigned long long at = 0;
    for (int32_t i = 0; i < TRIALS && err.status == FS_OK; i++) {
        const uint64_t own = fs_rand(seed);
        bool told;
        const double d = trial(op, own, &err, &told);
        n += told;
        if (!(d <= worst) || err.status != FS_OK)
            at = own;
        worst = fmax(worst, d);
    }
    if (n == 0 && err.status == FS_OK) {
        tap_skip("it has no form in ONNX", "%s", name);
        return;
    }
    tap_ok(err.status == FS_OK && n == TRIALS && worst < 1e-4,
           "%s: what is exported has its values (%d of %d cases, seed %llu: "
           "%g%s%s)",
           name, n, TRIALS, at, worst, err.status ? ": " : "", err.text);
}

int main(void)
{
    const char *build_dir = getenv("FS_BUILDDIR");
    uint64_t seed = tap_seed(20261122);
    snprintf(path, sizeof path, "%s/onnx_forms_test.%d.onnx",
             build_dir ? build_dir : ".", (int)getpid());
    for (int op = 0; op < IR_OP_COUNT; op++)
        if (kernel_reference((ir_op_kind)op) && !ir_op_table[op]->draws)
            test_op((ir_op_kind)op, &seed);
    unlink(path);
    return tap_done();
}
