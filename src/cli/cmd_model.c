#include "config.h"
#include "cli/cli.h"

#include "base/clock.h"
#include "ir/blocks.h"
#include "ir/recompute.h"
#include "report/report.h"
#include "zoo/zoo.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* What one op type adds up to, on 16-bit floats [1] or not [0], and all of
 * them: of the model itself, but for the work of the gradients that training
 * appends. An op's work is an int64_t, that of many may be beyond one. */
typedef struct tally {
    int64_t n[IR_OP_COUNT][2];
    double flop[IR_OP_COUNT][2], bytes[IR_OP_COUNT][2];
    const char *narrow; /* the 16-bit type */
    double forward_flop, backward_flop, forward_macs, params, param_bytes;
    int64_t ops, samples; /* samples: 0 when nobody knows */
    int64_t kept_bytes;
    int64_t capped; /* ops of more work than is counted: INT64_MAX */
} tally;

static ir_work work_of(const ir_graph *graph, const ir_node *node, tally *t)
{
    static const ir_mesh one = {0};
    static const ir_nd_sig whole;
    ir_work work = {0};
    ir_node_work(graph, node, &whole, &one, &work);
    t->capped += work.flop == INT64_MAX || work.macs == INT64_MAX;
    return work;
}

static void count_backward(const ir_graph *graph, tally *t)
{
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (graph->nodes.at[v].phase == IR_BACKWARD)
            t->backward_flop +=
                (double)work_of(graph, &graph->nodes.at[v], t).flop;
    t->kept_bytes = ir_kept_bytes(graph, NULL);
}

static void count_model(const ir_graph *graph, tally *t)
{
    t->samples = graph->batch;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        ir_work work = work_of(graph, node, t);
        t->ops++;
        t->n[node->op][work.narrow != IR_F32]++;
        t->forward_flop += (double)work.flop;
        t->forward_macs += (double)work.macs;
        t->flop[node->op][work.narrow != IR_F32] += (double)work.flop;
        t->bytes[node->op][work.narrow != IR_F32] +=
            (double)work.read_bytes + (double)work.written_bytes;
    }
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *x = &graph->tensors.at[i];
        if (ir_dtype_is_float(x->dtype) && !ir_dtype_computes(x->dtype))
            t->narrow = ir_dtype_name(x->dtype);
        if (x->role != IR_PARAM)
            continue;
        const double n = (double)ir_shape_count(&x->shape);
        t->params += n;
        t->param_bytes += n * (double)ir_dtype_bytes(x->dtype);
    }
}

/* A whole number up to where a double holds each. */
static json_t *sum_json(double sum)
{
    return sum < 0x1p53 ? json_integer((json_int_t)sum) : json_real(sum);
}

static json_t *tensor_json(const ir_tensor *x)
{
    json_t *shape = json_array();
    for (int32_t i = 0; i < x->shape.rank; i++)
        json_array_append_new(shape, json_integer(x->shape.dim[i]));
    return json_pack("{s:s, s:s, s:o}", "name", x->name, "dtype",
                     ir_dtype_name(x->dtype), "shape", shape);
}

static void list_ends(cli *c, const ir_graph *graph)
{
    json_t *inputs = json_array(), *outputs = json_array();
    char text[160];
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *x = &graph->tensors.at[i];
        if (x->role != IR_INPUT)
            continue;
        json_array_append_new(inputs, tensor_json(x));
        cli_say(c, "  in   %-24s %s %s\n", x->name, ir_dtype_name(x->dtype),
                ir_shape_text(text, &x->shape));
    }
    for (int32_t i = 0; i < graph->outputs.n; i++) {
        const ir_tensor *x = &graph->tensors.at[graph->outputs.at[i]];
        json_array_append_new(outputs, tensor_json(x));
        cli_say(c, "  out  %-24s %s %s%s\n", x->name, ir_dtype_name(x->dtype),
                ir_shape_text(text, &x->shape),
                graph->outputs.at[i] == graph->loss ? " (loss)" : "");
    }
    json_object_set_new(c->result, "inputs", inputs);
    json_object_set_new(c->result, "outputs", outputs);
}

static void list_op(report_table *table, const tally *t, int op, int narrow)
{
    char text[32];
    if (!t->n[op][narrow])
        return;
    report_table_cell(table, "%s%s%s", ir_op_table[op]->name,
                      narrow ? " of " : "", narrow ? t->narrow : "");
    report_table_cell(table, "%lld", (long long)t->n[op][narrow]);
    report_table_cell(table, "%s", fs_human_count(text, t->flop[op][narrow]));
    report_table_cell(table, "%s", fs_human_bytes(text, t->bytes[op][narrow]));
}

static void list_ops(cli *c, const tally *t)
{
    static const char *const header[] = {"op", "count", "flop", "bytes"};
    report_table table = {.arena = c->arena, .n_columns = 4, .header = header};
    json_t *types = json_object(), *narrow = json_object();
    for (int op = 0; op < IR_OP_COUNT; op++) {
        const char *name = ir_op_table[op]->name;
        const int64_t n = t->n[op][0] + t->n[op][1];
        if (n)
            json_object_set_new(types, name, json_integer(n));
        if (t->n[op][1])
            json_object_set_new(narrow, name, json_integer(t->n[op][1]));
        list_op(&table, t, op, 0);
        list_op(&table, t, op, 1);
    }
    json_object_set_new(c->result, "op_types", types);
    json_object_set_new(c->result, "narrow_ops", narrow);
    if (!c->args.json)
        report_table_print(&table, stdout);
}

/* What papers and model cards count: products and convolutions, and those of
 * one sample. */
static void tell_macs(cli *c, const tally *t)
{
    char all[32], each[32];
    json_object_set_new(c->result, "fwd_macs", sum_json(t->forward_macs));
    cli_say(c, "  forward %s multiply-adds",
            fs_human_count(all, t->forward_macs));
    if (t->samples) {
        const double macs = t->forward_macs / (double)t->samples;
        json_object_set_new(c->result, "macs_per_sample", json_real(macs));
        cli_say(c, ", %s per sample", fs_human_count(each, macs));
    }
    cli_say(c, " (2 flop each; the other flop are element-wise)\n");
}

/* Then the sums are less than the truth. */
static void tell_capped(cli *c, const tally *t)
{
    char most[32];
    json_object_set_new(c->result, "capped_ops", json_integer(t->capped));
    if (t->capped)
        cli_say(c,
                "  at least: %lld ops of more than %s flop each are counted as "
                "that\n",
                (long long)t->capped, fs_human_count(most, (double)INT64_MAX));
}

static void describe(cli *c, const cli_model *model, const tally *t)
{
    char params[32], bytes[32], forward[32], backward[32];
    json_t *r = c->result;
    json_object_set_new(r, "name", json_string(model->graph->name));
    json_object_set_new(r, "ops", json_integer(t->ops));
    json_object_set_new(r, "params", sum_json(t->params));
    json_object_set_new(r, "fwd_flop", sum_json(t->forward_flop));
    json_object_set_new(r, "bwd_flop", sum_json(t->backward_flop));
    json_object_set_new(r, "kept_bytes", json_integer(t->kept_bytes));
    json_object_set_new(r, "param_bytes", sum_json(t->param_bytes));
    if (model->notes.n)
        cli_say(c, "%s", model->notes.at);
    cli_say(c,
            "%s: %lld ops, %s parameters (%s), forward %s, backward %s "
            "per step\n",
            model->graph->name, (long long)t->ops,
            fs_human_count(params, t->params),
            fs_human_bytes(bytes, t->param_bytes),
            fs_human_flop(forward, t->forward_flop),
            fs_human_flop(backward, t->backward_flop));
    tell_macs(c, t);
    tell_capped(c, t);
    if (t->kept_bytes)
        cli_say(c, "  keeps %s%s of activations for the backward pass\n",
                t->kept_bytes == INT64_MAX ? "at least " : "",
                fs_human_bytes(bytes, (double)t->kept_bytes));
}

/* The scope that its nodes share, where that tells it from the others; else its
 * first node. */
static const char *name_of_block(const ir_blocks *blocks, int32_t k)
{
    const ir_repeat *r = &blocks->repeats.at[k];
    bool tells = strlen(r->scope) > 1;
    for (int32_t i = 0; i < blocks->repeats.n; i++)
        if (i != k && strcmp(blocks->repeats.at[i].scope, r->scope) == 0)
            tells = false;
    return tells ? r->scope : r->name;
}

/* What the network is made of: copies of a few blocks. */
static void list_blocks(cli *c, const ir_blocks *blocks)
{
    json_t *list = json_array();
    for (int32_t k = 0; k < blocks->repeats.n; k++) {
        const ir_repeat *r = &blocks->repeats.at[k];
        json_array_append_new(list,
                              json_pack("{s:i, s:i, s:s, s:s}", "copies",
                                        (int)r->copies, "ops", (int)r->length,
                                        "scope", r->scope, "first", r->name));
        cli_say(c, "  %d x %d ops from %s\n", (int)r->copies, (int)r->length,
                name_of_block(blocks, k));
    }
    json_object_set_new(c->result, "blocks", list);
}

/* What the command spends its time on, and the most memory it held. */
typedef struct stopwatch {
    int64_t last_ns;
    double import_s, blocks_s, gradients_s;
} stopwatch;

static double lap(stopwatch *w)
{
    int64_t now = fs_now_ns(), spent = now - w->last_ns;
    w->last_ns = now;
    return (double)spent * 1e-9;
}

static void tell_times(cli *c, const stopwatch *w)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    json_t *r = c->result;
    json_object_set_new(r, "import_s", json_real(w->import_s));
    json_object_set_new(r, "blocks_s", json_real(w->blocks_s));
    json_object_set_new(r, "gradients_s", json_real(w->gradients_s));
    json_object_set_new(r, "process_bytes",
                        json_integer((json_int_t)usage.ru_maxrss * 1024));
}

/* `model zoo:`: what can be named. */
static fs_status list_zoo(cli *c)
{
    static const char *const header[] = {"preset", "model", "parameters"};
    report_table table = {.arena = c->arena, .n_columns = 3, .header = header};
    json_t *list = json_array();
    char text[32];
    for (const zoo_preset *p = zoo_presets; p->name; p++) {
        report_table_cell(&table, "zoo:%s", p->name);
        report_table_cell(&table, "%s", p->model);
        report_table_cell(&table, "%s",
                          fs_human_count(text, (double)p->parameters));
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:I}", "name", p->name, "model",
                            p->model, "params", (json_int_t)p->parameters));
    }
    json_object_set_new(c->result, "models", json_string(zoo_names()));
    json_object_set_new(c->result, "presets", list);
    cli_say(c,
            "models with sizes of your own (zoo:gpt,layers=2): %s\n\n"
            "published sizes of them, their keys as usual (zoo:gpt2,seq=512):"
            "\n\n",
            zoo_names());
    if (!c->args.json)
        report_table_print(&table, stdout);
    return FS_OK;
}

fs_status cli_cmd_model(cli *c)
{
    stopwatch watch = {.last_ns = fs_now_ns()};
    if (c->args.n_operands != 1)
        return fs_fail(&c->err, FS_INVALID, "model wants one MODEL");
    if (strcmp(c->args.operands[0], "zoo:") == 0)
        return list_zoo(c);
    if (c->args.batch == 0)
        return fs_fail(&c->err, FS_INVALID, "--batch must be at least 1");
    plan_origin origin = cli_origin(c, c->args.operands[0], "");
    cli_model model;
    FS_TRY(cli_model_open(c, &origin, origin.batch, &model));
    watch.import_s = lap(&watch);
    fs_status status = cli_begin(c, origin.model, NULL);
    if (status == FS_OK)
        status = cli_digests(c, model.graph->digest, 0, 0);
    if (status == FS_OK)
        cli_keep(c, &model, NULL);
    tally t = {0};
    count_model(model.graph, &t);
    ir_blocks blocks;
    lap(&watch);
    ir_find_blocks(model.graph, c->arena, &blocks);
    watch.blocks_s = lap(&watch);
    if (status == FS_OK && origin.recompute[0] && model.graph->loss < 0)
        status = fs_fail(&c->err, FS_INVALID,
                         "--recompute %s: %s has no loss, hence no backward "
                         "pass: " CLI_ADD_A_LOSS,
                         origin.recompute, origin.model);
    if (status == FS_OK && model.graph->loss >= 0)
        status = cli_model_gradients(c, &model);
    watch.gradients_s = lap(&watch);
    if (status == FS_OK) {
        count_backward(model.graph, &t);
        describe(c, &model, &t);
        list_blocks(c, &blocks);
        list_ends(c, model.graph);
        list_ops(c, &t);
        tell_times(c, &watch);
    }
    cli_model_close(&model);
    return status;
}
