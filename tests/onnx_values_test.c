/* What is imported computes what PyTorch computed: loss, every gradient and
 * ten steps of SGD of the training cases, by the reference kernels on one
 * device; the re-batched graphs on the same samples repeated. */
#include "config.h"

#include "base/json.h"
#include "ir/train.h"
#include "kernels/kernel.h"
#include "onnx/import.h"

#include "tap.h"

typedef struct network {
    fs_err err;
    fs_arena *arena;
    onnx_model *model;
    ir_graph *graph;
    void **data; /* per tensor */
} network;

static const char *dataset(const char *folder, const char *name)
{
    static char path[4][700];
    static int next;
    char *out = path[next++ % 4];
    const char *root = getenv("FS_SRCDIR");
    snprintf(out, sizeof path[0], "%s/datasets/train_cases/%s/%s",
             root ? root : "..", folder, name);
    return out;
}

static size_t tensor_bytes(const ir_tensor *t)
{
    return (size_t)(ir_shape_count(&t->shape) * ir_dtype_bytes(t->dtype));
}

static void *scratch_room(network *n, int64_t bytes)
{
    char *at = fs_alloc(n->arena, (size_t)bytes + 64, 1);
    return at + (64 - (uintptr_t)at % 64) % 64;
}

static void fill_args(const network *n, const ir_node *node, kernel_call *call)
{
    *call = (kernel_call){
        .node = node, .f = node->f, .n_in = node->n_in, .n_out = node->n_out};
    for (int32_t i = 0; i < node->n_in + node->n_out; i++) {
        bool is_in = i < node->n_in;
        int32_t id = is_in ? node->in[i] : node->out[i - node->n_in];
        const ir_tensor *t = &n->graph->tensors.at[id];
        kernel_arg *arg = is_in ? &call->in[i] : &call->out[i - node->n_in];
        *arg = (kernel_arg){
            .data = n->data[id], .dtype = t->dtype, .shape = t->shape};
    }
}

static fs_status run_node(network *n, const ir_node *node, int64_t step)
{
    kernel_call call;
    const kernel *k = kernel_reference(node->op);
    fill_args(n, node, &call);
    if (!k) { /* views move no bytes */
        if (node->n_in == 1 && node->n_out == 1)
            memcpy(call.out[0].data, call.in[0].data,
                   tensor_bytes(&n->graph->tensors.at[node->out[0]]));
        return FS_OK;
    }
    void *state = NULL;
    call.step = step;
    call.scratch = scratch_room(n, k->scratch ? k->scratch(&call) : 0);
    if (k->prepare)
        FS_TRY(k->prepare(&call, &n->err, &state));
    call.workspace = scratch_room(n, kernel_workspace(k, state));
    fs_status status = k->run(state, &call, &n->err);
    if (k->release)
        k->release(state);
    return status;
}

/* One training step; then variables take their next values. */
static fs_status run_step(network *n, int64_t step)
{
    ir_graph *g = n->graph;
    for (int32_t i = 0; i < g->nodes.n; i++)
        if (ir_op_class_of(g->nodes.at[i].op) != IR_CLASS_SOURCE)
            FS_TRY(run_node(n, &g->nodes.at[i], step));
    for (int32_t t = 0; t < g->tensors.n; t++)
        if (g->tensors.at[t].next >= 0)
            memcpy(n->data[t], n->data[g->tensors.at[t].next],
                   tensor_bytes(&g->tensors.at[t]));
    return FS_OK;
}

/* Fills input tensor t from a file, repeated to its length. */
static fs_status load_input(network *n, const char *path, ir_tensor *t,
                            void *data)
{
    onnx_const from;
    FS_TRY(onnx_read_tensor(path, n->arena, &n->err, &from));
    size_t bytes =
        (size_t)(ir_shape_count(&from.shape) * ir_dtype_bytes(from.dtype));
    if (from.dtype != t->dtype || tensor_bytes(t) % bytes)
        return fs_fail(&n->err, FS_INVALID, "%s does not fit %s", path,
                       t->name);
    for (size_t at = 0; at < tensor_bytes(t); at += bytes)
        memcpy((char *)data + at, from.data, bytes);
    return FS_OK;
}

static fs_status load_data(network *n, const char *folder)
{
    ir_graph *g = n->graph;
    n->data = fs_new(n->arena, void *, g->tensors.n);
    int inputs = 0;
    for (int32_t t = 0; t < g->tensors.n; t++) {
        ir_tensor *tensor = &g->tensors.at[t];
        n->data[t] = fs_alloc(n->arena, tensor_bytes(tensor), 1);
        if (tensor->data)
            memcpy(n->data[t], tensor->data, tensor_bytes(tensor));
        char name[64];
        snprintf(name, sizeof name, "test_data_set_0/input_%d.pb", inputs);
        if (tensor->role == IR_INPUT && ++inputs)
            FS_TRY(load_input(n, dataset(folder, name), tensor, n->data[t]));
    }
    return FS_OK;
}

static fs_status open_case(network *n, const char *folder, int64_t batch,
                           bool raw)
{
    onnx_options options = {.batch = batch, .no_rewrite = raw};
    ir_train_options train = ir_train_defaults();
    train.optimizer = IR_SGD;
    train.lr = 0.1;
    *n = (network){.arena = fs_arena_create()};
    FS_TRY(onnx_import(dataset(folder, "model.onnx"), &options, &n->err,
                       &n->model, &n->graph, NULL));
    FS_TRY(ir_train(n->graph, &train, &n->err));
    return load_data(n, folder);
}

static void close_case(network *n)
{
    ir_graph_destroy(n->graph);
    onnx_model_close(n->model);
    fs_arena_destroy(n->arena);
}

/* |got - wanted| over |wanted|, in the 2-norm. */
static double distance(const float *got, const float *wanted, int64_t count)
{
    double difference = 0, norm = 0;
    for (int64_t i = 0; i < count; i++) {
        difference += pow((double)got[i] - (double)wanted[i], 2);
        norm += pow((double)wanted[i], 2);
    }
    return sqrt(difference) / fmax(sqrt(norm), 1e-6);
}

static void check_gradients(network *n, const char *folder, const char *what)
{
    ir_graph *g = n->graph;
    int good = 0, all = 0;
    for (int32_t t = 0; t < g->tensors.n; t++) {
        const ir_tensor *tensor = &g->tensors.at[t];
        if (tensor->role != IR_PARAM)
            continue;
        char file[300], name[300];
        onnx_const wanted;
        snprintf(file, sizeof file, "grad/%s.pb", tensor->name);
        snprintf(name, sizeof name, "%s.grad", tensor->name);
        int32_t grad = ir_graph_find(g, name);
        all++;
        if (grad < 0 || onnx_read_tensor(dataset(folder, file), n->arena,
                                         &n->err, &wanted) != FS_OK)
            continue;
        double d = ir_shape_equal(&wanted.shape, &tensor->shape)
                       ? distance(n->data[grad], wanted.data,
                                  ir_shape_count(&wanted.shape))
                       : 1;
        good += d <= 1e-4;
        if (d > 1e-4)
            printf("# %s: gradient is off by %g\n", tensor->name, d);
    }
    tap_equal_int(good, all, "%s: every gradient is PyTorch's", what);
}

static double loss_of(const network *n)
{
    return *(const float *)n->data[n->graph->loss];
}

static void check_curve(network *n, const char *folder, const char *what)
{
    json_t *root = NULL, *losses;
    fs_err err = {0};
    if (fs_json_load(dataset(folder, "train.json"), &err, &root) != FS_OK) {
        tap_ok(0, "%s: %s", what, err.text);
        return;
    }
    losses = json_object_get(json_object_get(root, "losses"), "sgd");
    double worst = 0;
    for (size_t i = 0; i < json_array_size(losses); i++) {
        double wanted = json_number_value(json_array_get(losses, i));
        worst = fmax(worst, fabs(loss_of(n) - wanted) / wanted);
        if (i == 0)
            check_gradients(n, folder, what);
        if (run_step(n, (int64_t)i + 1) != FS_OK)
            worst = INFINITY;
    }
    tap_ok(worst <= 1e-4, "%s: ten losses are PyTorch's, to %.1e", what, worst);
    json_decref(root);
}

static void test_case(const char *folder, int64_t batch, bool raw)
{
    char what[100];
    network n;
    snprintf(what, sizeof what, "%s%s%s", folder,
             batch ? ", batch tripled" : "", raw ? ", not rewritten" : "");
    fs_status status = open_case(&n, folder, batch, raw);
    if (status == FS_OK)
        status = run_step(&n, 0);
    tap_ok(status == FS_OK, "%s: runs %s", what, n.err.text);
    if (status == FS_OK)
        check_curve(&n, folder, what);
    close_case(&n);
}

int main(void)
{
    static const struct {
        const char *folder;
        int64_t batch;
    } cases[] = {{"mlp", 4}, {"lenet", 2}, {"gpt_tiny", 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_case(cases[i].folder, 0, false);
        test_case(cases[i].folder, 0, true);
        test_case(cases[i].folder, 3 * cases[i].batch, false);
    }
    return tap_done();
}
