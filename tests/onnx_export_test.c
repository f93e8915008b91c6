/* What is exported comes back: the same ops of the same shapes and attributes,
 * the same values through the reference kernels; files are whole or not there;
 * hostile nodes of our own domain are refused. */
#include "config.h"

#include "ir/rewrite.h"
#include "ir/narrow_states.h"
#include "ir/train.h"
#include "onnx/export.h"
#include "onnx/file.h"
#include "zoo/zoo.h"

#include "interpret.h"
#include "onnx_imported.h"
#include "tap.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[600];

static const char *file_in(const char *name)
{
    static char path[4][700];
    static int next;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", folder, name);
    return out;
}

static const char *dataset(const char *name)
{
    static char path[700];
    const char *root = getenv("FS_SRCDIR");
    snprintf(path, sizeof path, "%s/datasets/%s", root ? root : "..", name);
    return path;
}

/* ---- one graph twice ---- */

/* The next node that computes, from v on. */
static int32_t next_op(const ir_graph *g, int32_t v)
{
    while (v < g->nodes.n &&
           (ir_op_class_of(g->nodes.at[v].op) == IR_CLASS_SOURCE ||
            g->nodes.at[v].n_out == 0))
        v++;
    return v;
}

/* Attributes that say the same, or are not ONNX's to say: a step of 0 is 1, and
 * a gather that takes no negative ids takes them afterwards. */
static bool is_free(const ir_node *node, int32_t k)
{
    return (node->op == IR_OP_gather && k == 1) ||
           (node->op == IR_OP_slice && k == 3 && node->i[3] >= 0);
}

/* Numbers in files are floats. */
static bool same_node(const ir_graph *a, const ir_graph *b, int32_t v,
                      int32_t u)
{
    const ir_node *x = &a->nodes.at[v], *y = &b->nodes.at[u];
    bool same = x->op == y->op && x->n_in == y->n_in && x->n_out == y->n_out;
    for (int32_t k = 0; k < IR_MAX_ATTR && same; k++)
        same = x->i[k] == y->i[k] || is_free(x, k);
    for (int32_t k = 0; k < IR_MAX_REAL && same; k++)
        same = x->f[k] == y->f[k] ||
               fabs(x->f[k] - y->f[k]) <= 1e-6 * fabs(x->f[k]);
    for (int32_t k = 0; k < x->n_out && same; k++) {
        const ir_tensor *p = &a->tensors.at[x->out[k]];
        const ir_tensor *q = &b->tensors.at[y->out[k]];
        same = p->dtype == q->dtype && ir_shape_equal(&p->shape, &q->shape);
    }
    return same;
}

static void check_same(const ir_graph *a, const ir_graph *b, const char *what)
{
    int32_t v = next_op(a, 0), u = next_op(b, 0), n = 0;
    while (v < a->nodes.n && u < b->nodes.n && same_node(a, b, v, u)) {
        v = next_op(a, v + 1);
        u = next_op(b, u + 1);
        n++;
    }
    bool same = v == a->nodes.n && u == b->nodes.n;
    tap_ok(same && n > 0, "%s: the same %d ops come back", what, n);
    if (!same)
        printf("# differ at %s and %s\n",
               v < a->nodes.n ? a->nodes.at[v].name : "the end",
               u < b->nodes.n ? b->nodes.at[u].name : "the end");
}

/* ---- the same values ---- */

/* Small numbers by name and place; integers are legal ids. */
static void fill(interpreter *in)
{
    for (int32_t i = 0; i < in->graph->tensors.n; i++) {
        const ir_tensor *t = &in->graph->tensors.at[i];
        bool source = ir_op_class_of(in->graph->nodes.at[t->producer].op) ==
                      IR_CLASS_SOURCE;
        uint64_t seed = fs_hash_text(1, t->name);
        if (!source || t->data || !in->data[i])
            continue;
        for (int64_t k = 0; k < ir_shape_count(&t->shape); k++) {
            double draw = fs_draw_unit(seed, (uint64_t)k);
            if (t->dtype == IR_F32)
                ((float *)in->data[i])[k] = (float)(draw * 0.2 - 0.05);
            else if (t->dtype == IR_I64)
                ((int64_t *)in->data[i])[k] = (int64_t)(draw * 8);
        }
    }
}

static double run(const ir_graph *g, int32_t wanted, fs_arena *arena)
{
    interpreter in;
    fs_err err = {0};
    interpret_open(&in, g, arena);
    fill(&in);
    if (interpret_run(&in, &err) != FS_OK)
        printf("# %s\n", err.text);
    double sum = 0;
    const float *x = in.data[wanted];
    for (int64_t i = 0; i < ir_shape_count(&g->tensors.at[wanted].shape); i++)
        sum += (double)x[i] * (double)(i % 7 + 1);
    return sum;
}

static void check_value(const ir_graph *a, const ir_graph *b, const char *name,
                        const char *what)
{
    fs_arena *arena = fs_arena_create();
    int32_t at = ir_graph_find(a, name), to = ir_graph_find(b, name);
    double x = at < 0 ? 0 : run(a, at, arena);
    double y = to < 0 ? NAN : run(b, to, arena);
    tap_ok(fabs(x - y) <= 1e-5 * fabs(x), "%s: %s is the same (%.9g, %.9g)",
           what, name, x, y);
    fs_arena_destroy(arena);
}

/* ---- round trips ---- */

/* What a file's own values do not say is fed by name. */
static fs_status write_out(const ir_graph *g, const char *path, bool external,
                           fs_err *err)
{
    fs_arena *arena = fs_arena_create();
    onnx_export_options options = {.external = external};
    for (int32_t t = 0; t < g->tensors.n; t++)
        options.no_weights |=
            g->tensors.at[t].role == IR_PARAM && !g->tensors.at[t].data;
    onnx_exported done;
    fs_status status = onnx_export(g, path, &options, arena, err, &done);
    fs_arena_destroy(arena);
    return status;
}

static void test_model(const char *name, bool external)
{
    char what[200];
    onnx_options raw = {0};
    snprintf(what, sizeof what, "%s%s", name, external ? ", values apart" : "");
    imported a = import(dataset(name), &raw);
    if (!a.graph) {
        tap_ok(0, "%s: %s", what, a.err.text);
        return;
    }
    fs_err err = {0};
    fs_status status =
        write_out(a.graph, file_in("model.onnx"), external, &err);
    tap_ok(status == FS_OK, "%s: is written %s", what, err.text);
    imported b = import(file_in("model.onnx"), &raw);
    tap_ok(b.graph != NULL, "%s: is read again %s", what, b.err.text);
    if (b.graph) {
        check_same(a.graph, b.graph, what);
        int32_t out =
            a.graph->loss >= 0 ? a.graph->loss : a.graph->outputs.at[0];
        check_value(a.graph, b.graph, a.graph->tensors.at[out].name, what);
        tap_equal_int(count_parameters(b.graph), count_parameters(a.graph),
                      "%s: its parameters are", what);
    }
    drop(&b);
    drop(&a);
}

/* Rows of three axes go through two reshapes, which is all that is new. */
static void test_zoo(const char *spec, int32_t more)
{
    ir_graph *g;
    fs_err err = {0};
    onnx_options usual = {0};
    const ir_rewrite_options on = {.linear = true, .dead = true};
    if (zoo_build(spec, 2, &err, &g) != FS_OK) {
        tap_ok(0, "%s: %s", spec, err.text);
        return;
    }
    ir_rewrite(g, &on);
    if (write_out(g, file_in("zoo.onnx"), false, &err) != FS_OK) {
        tap_ok(0, "%s: %s", spec, err.text);
        return;
    }
    imported b = import(file_in("zoo.onnx"), &usual);
    tap_ok(b.graph != NULL, "%s: is read again %s", spec, b.err.text);
    if (b.graph && more == 0)
        check_same(g, b.graph, spec);
    if (b.graph) {
        int32_t wanted = count_op(g, IR_OP_reshape) + more;
        tap_equal_int(count_op(b.graph, IR_OP_reshape), wanted,
                      "%s: its reshapes", spec);
        tap_equal_int(count_op(b.graph, IR_OP_gelu), count_op(g, IR_OP_gelu),
                      "%s: its gelus", spec);
        check_value(g, b.graph, g->tensors.at[g->loss].name, spec);
    }
    drop(&b);
    ir_graph_destroy(g);
}

/* Other tools refuse a file with two nodes of one name. */
static void check_names(const char *path, const char *what)
{
    fs_arena *arena = fs_arena_create();
    fs_map names = {.arena = arena};
    onnx_model *model;
    fs_err err = {0};
    int32_t twice = 0;
    if (onnx_model_open(path, &err, &model) == FS_OK) {
        for (int32_t v = 0; v < model->proto.nodes.n; v++) {
            int32_t *at = fs_map_at(&names, model->proto.nodes.at[v].name);
            twice += *at > 0;
            *at = 1;
        }
        onnx_model_close(model);
    }
    tap_ok(err.status == FS_OK && twice == 0,
           "%s: no two nodes of %d have one name %s", what, twice, err.text);
    fs_arena_destroy(arena);
}

/* Other tools read there what the next step is fed. */
static void check_bound(const char *path, bool wanted, const char *what)
{
    onnx_model *model;
    fs_err err = {0};
    bool bound = !wanted;
    if (onnx_model_open(path, &err, &model) == FS_OK) {
        bound = model->proto.training;
        onnx_model_close(model);
    }
    tap_ok(bound == wanted, "%s: %s training_info %s", what,
           wanted ? "has" : "has no", err.text);
}

/* Forward, backward and updates: every op comes back, and the new weights. */
static void test_training(const char *spec, ir_optimizer optimizer,
                          ir_dtype states)
{
    ir_graph *g;
    fs_err err = {0};
    onnx_options infer = {.infer = true, .no_rewrite = true};
    ir_train_options train = ir_train_defaults();
    train.optimizer = optimizer;
    if (zoo_build(spec, 2, &err, &g) != FS_OK ||
        ir_train(g, &train, &err) != FS_OK ||
        (ir_narrow_states(g, states), g->err.status) != FS_OK ||
        write_out(g, file_in("train.onnx"), false, &err) != FS_OK) {
        tap_ok(0, "%s: %s", spec, err.text);
        return;
    }
    check_names(file_in("train.onnx"), spec);
    imported b = import(file_in("train.onnx"), &infer);
    tap_ok(b.graph != NULL,
           "%s, %s, states %s: its training step is read again %s", spec,
           ir_optimizer_name(optimizer), ir_dtype_name(states), b.err.text);
    int32_t checked = 0;
    for (int32_t t = 0; t < g->tensors.n && b.graph && checked < 3; t++)
        if (g->tensors.at[t].role == IR_PARAM && ++checked)
            check_value(g, b.graph, g->tensors.at[g->tensors.at[t].next].name,
                        spec);
    drop(&b);
    ir_graph_destroy(g);
}

/* Initializers that stand among the inputs can be fed. */
static int32_t count_fed(const char *path)
{
    fs_err err = {0};
    onnx_model *model;
    int32_t n = 0;
    if (onnx_model_open(path, &err, &model) != FS_OK)
        return -1;
    for (int32_t i = 0; i < model->proto.initializers.n; i++)
        for (int32_t k = 0; k < model->proto.inputs.n; k++)
            n += strcmp(model->proto.initializers.at[i].name,
                        model->proto.inputs.at[k].name) == 0;
    onnx_model_close(model);
    return n;
}

static void test_carried(const char *name, bool scaled)
{
    onnx_options raw = {0};
    ir_train_options train = ir_train_defaults();
    fs_err err = {0};
    if (scaled)
        ir_loss_scale_parse("dynamic", IR_F16, &err, &train.loss_scale);
    imported a = import(dataset(name), &raw);
    int32_t wanted = scaled ? 3 : 0;
    for (int32_t t = 0; a.graph && t < a.graph->tensors.n; t++)
        wanted += a.graph->tensors.at[t].role == IR_PARAM;
    if (!a.graph || ir_train(a.graph, &train, &err) != FS_OK ||
        write_out(a.graph, file_in("carried.onnx"), false, &err) != FS_OK)
        tap_ok(0, "%s: %s%s", name, a.err.text, err.text);
    else
        tap_equal_int(count_fed(file_in("carried.onnx")), wanted,
                      "%s: what the next step is fed has first values", name);
    check_bound(file_in("carried.onnx"), true, name);
    drop(&a);
}

/* ---- files ---- */

static bool is_there(const char *path)
{
    struct stat at;
    return stat(path, &at) == 0;
}

/* A disk that is full by a limit on the size of files. */
static void test_full(bool external)
{
    ir_graph *g;
    fs_err err = {0};
    struct rlimit before, small;
    if (zoo_build("zoo:gpt,layers=1", 1, &err, &g) != FS_OK)
        return;
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 4096;
    fflush(stdout);
    setrlimit(RLIMIT_FSIZE, &small);
    fs_status status = write_out(g, file_in("full.onnx"), external, &err);
    setrlimit(RLIMIT_FSIZE, &before);
    tap_ok(status == FS_FAULT, "a full disk is a fault: %s", err.text);
    tap_ok(!is_there(file_in("full.onnx")) &&
               !is_there(file_in("full.onnx.data")),
           "nothing half written stays%s", external ? ", values apart" : "");
    ir_graph_destroy(g);
}

static void test_paths(void)
{
    ir_graph *g;
    fs_err err = {0};
    if (zoo_build("zoo:mlp", 1, &err, &g) != FS_OK)
        return;
    tap_ok(write_out(g, file_in("none/x.onnx"), false, &err) == FS_INVALID,
           "a folder that is not there: %s", err.text);
    err = (fs_err){0};
    tap_ok(write_out(g, folder, false, &err) == FS_INVALID, "a folder: %s",
           err.text);
    err = (fs_err){0};
    tap_ok(write_out(g, file_in("a\nb.onnx"), true, &err) == FS_INVALID &&
               !is_there(file_in("a\nb.onnx")),
           "a side file whose name is not printable: %s", err.text);
    ir_graph_destroy(g);
}

/* ---- files that were changed ---- */

static size_t slurp(const char *path, unsigned char *into, size_t room)
{
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(into, 1, room, file) : 0;
    if (file)
        fclose(file);
    return n;
}

static void spill(const char *path, const unsigned char *from, size_t n)
{
    FILE *file = fopen(path, "wb");
    if (file) {
        fwrite(from, 1, n, file);
        fclose(file);
    }
}

/* A byte here and there: ops of our own with any attribute are refused or
 * imported, never more. */
static void test_changed(void)
{
    static unsigned char whole[1 << 20], changed[1 << 20];
    unsigned long long first = tap_seed(1);
    uint64_t seed = first;
    onnx_options infer = {.infer = true};
    int refused = 0, read = 0;
    size_t n = slurp(file_in("train.onnx"), whole, sizeof whole);
    for (int i = 0; i < 1500 && n > 0 && n < sizeof whole; i++) {
        memcpy(changed, whole, n);
        for (int64_t k = fs_rand_below(&seed, 3); k >= 0; k--)
            changed[fs_rand_below(&seed, (int64_t)n)] =
                (unsigned char)fs_rand_below(&seed, 256);
        spill(file_in("changed.onnx"), changed, n);
        imported in = import(file_in("changed.onnx"), &infer);
        refused += in.graph == NULL && in.err.status == FS_INVALID;
        read += in.graph != NULL;
        drop(&in);
    }
    tap_equal_int(refused + read, 1500,
                  "changed files are refused or read (seed %llu, %d refused)",
                  first, refused);
}

/* ---- checkers of others ---- */

static void test_checker(const char *name)
{
    char command[1500];
    if (system("/usr/bin/python3 -c 'import onnx.checker' >/dev/null 2>&1") !=
        0) {
        tap_skip("no python3-onnx", "%s: ONNX's checker", name);
        return;
    }
    snprintf(command, sizeof command,
             "/usr/bin/python3 -c 'import onnx, sys; "
             "onnx.checker.check_model(sys.argv[1])' '%s'",
             file_in(name));
    tap_ok(system(command) == 0, "%s: ONNX's checker accepts it", name);
}

int main(void)
{
    const char *build = getenv("FS_BUILDDIR");
    signal(SIGXFSZ, SIG_IGN);
    snprintf(folder, sizeof folder, "%s/onnx_export_test.%d",
             build ? build : ".", (int)getpid());
    mkdir(folder, 0777);
    test_zoo("zoo:mlp", 0);
    test_zoo("zoo:gpt", 2);
    test_checker("zoo.onnx");
    check_bound(file_in("zoo.onnx"), false, "zoo:gpt, forward only");
    test_model("models/gpt_bytes.dyn.onnx", false);
    test_checker("model.onnx");
    test_model("models/gpt_bytes.batch4.onnx", true);
    test_checker("model.onnx");
    test_model("models/gpt2_loss.small.op17.train.onnx", false);
    test_model("train_cases/lenet/model.onnx", true);
    test_model("train_cases/mlp/model.onnx", false);
    test_carried("train_cases/mlp/model.onnx", false);
    test_carried("train_cases/mlp/model.onnx", true);
    test_training("zoo:mlp", IR_SGD, IR_F32);
    test_changed();
    for (int32_t k = 0; k < IR_OPTIMIZER_COUNT; k++)
        if (ir_optimizer_has_states((ir_optimizer)k))
            test_training("zoo:mlp", (ir_optimizer)k, IR_BF16);
    test_training("zoo:gpt,layers=1", IR_SGD, IR_F32);
    test_checker("train.onnx");
    test_full(false);
    test_full(true);
    test_paths();
    char command[700];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0)
        printf("# %s is left behind\n", folder);
    return tap_done();
}
