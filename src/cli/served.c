#include "config.h"
#include "cli/served.h"

#include "exec/data.h"
#include "ir/op.h"

#include <string.h>

/* ---- samples in tensors ---- */

void cli_served_put(const cli_served_tensor *t, const void *sample, int64_t k,
                    int64_t n, void *tensor)
{
    const int64_t run = t->bytes / t->runs;
    const char *from = sample;
    char *to = tensor;
    for (int64_t r = 0; r < t->runs; r++)
        memcpy(to + (r * n + k) * run, from + r * run, (size_t)run);
}

void cli_served_get(const cli_served_tensor *t, const void *tensor, int64_t k,
                    int64_t n, void *sample)
{
    const int64_t run = t->runs ? t->bytes / t->runs : 0;
    const char *from = tensor;
    char *to = sample;
    for (int64_t r = 0; r < t->runs; r++)
        memcpy(to + r * run, from + (r * n + k) * run, (size_t)run);
}

/* ---- of a plan ---- */

/* `rows` along the axis are those of `samples` samples. */
static cli_served_tensor describe(const ir_tensor *x, int64_t samples)
{
    cli_served_tensor t = {.name = x->name,
                           .dtype = x->dtype,
                           .whole = x->shape,
                           .sample = x->shape,
                           .axis = x->batch_axis,
                           .runs = 1,
                           .below = -1};
    ir_shape *s = &t.sample;
    for (int32_t i = 0; i < t.axis; i++)
        t.runs *= s->dim[i];
    s->dim[t.axis] /= samples;
    if (s->dim[t.axis] == 1) {
        s->rank--;
        for (int32_t i = t.axis; i < s->rank; i++)
            s->dim[i] = s->dim[i + 1];
    }
    t.elements = ir_shape_count(s);
    t.bytes = t.elements * ir_dtype_bytes(t.dtype);
    return t;
}

static fs_status refuse(cli *c, const char *what, const ir_tensor *x,
                        const char *why)
{
    return fs_fail(&c->err, FS_INVALID,
                   "%s: its %s '%s' %s, so that requests cannot share a batch",
                   c->args.operands[0], what, x->name, why);
}

/* Most often a loss that stands in the model. */
static fs_status refuse_mixed(cli *c, const ir_tensor *x)
{
    return fs_fail(&c->err, FS_INVALID,
                   "%s: its output '%s' has no rows that are each one sample's "
                   "alone, so that requests cannot share a batch; plan a model "
                   "that was exported without its loss, or whatever else mixes "
                   "samples, so that each row of an output is one sample's",
                   c->args.operands[0], x->name);
}

static fs_status add_inputs(cli *c, const ir_graph *graph, cli_served *out)
{
    const exec_inputs inputs = exec_list_inputs(graph, c->arena);
    const int64_t each = out->batch / out->m;
    out->in = fs_new(c->arena, cli_served_tensor, inputs.n);
    for (int32_t i = 0; i < inputs.n; i++) {
        const ir_tensor *x = inputs.at[i];
        if (x->batch_axis < 0)
            return refuse(c, "input", x, "is the same for all samples");
        if (x->shape.dim[x->batch_axis] != each)
            return refuse(c, "input", x, "has other rows than samples");
        cli_served_tensor *t = &out->in[out->n_in++];
        *t = describe(x, each);
        if (t->elements < 1)
            return refuse(c, "input", x, "has no elements");
        t->whole.dim[t->axis] = out->batch;
        if (ir_dtype_is_int(x->dtype))
            t->below = exec_count_values(graph, x, c->arena);
    }
    return FS_OK;
}

static fs_status add_outputs(cli *c, const ir_graph *graph, cli_served *out)
{
    const int64_t each = out->batch / out->m;
    out->out = fs_new(c->arena, cli_served_tensor, graph->outputs.n);
    for (int32_t i = 0; i < graph->outputs.n; i++) {
        const ir_tensor *x = &graph->tensors.at[graph->outputs.at[i]];
        if (x->batch_axis < 0 || x->shape.dim[x->batch_axis] % each != 0)
            return refuse_mixed(c, x);
        out->out[out->n_out++] = describe(x, each);
    }
    return FS_OK;
}

static bool gives(const ir_graph *graph, const plan_task *task)
{
    if (task->kind != PLAN_COMPUTE)
        return false;
    const ir_node *node = &graph->nodes.at[task->node];
    for (int32_t i = 0; i < graph->outputs.n; i++)
        if (node->op == IR_OP_output && node->in[0] == graph->outputs.at[i])
            return true;
    return false;
}

/* Every rank loads its piece, the first of a role gives its outputs. */
static int64_t count_parts(const cli_plan *p)
{
    int64_t parts = 0;
    for (int32_t r = 0; r < p->plan->n_roles; r++) {
        const plan_role *role = &p->plan->roles[r];
        for (int32_t t = 0; t < role->n_tasks; t++) {
            const plan_task *task = &role->tasks[t];
            const int64_t times =
                plan_phase_once(task->phase) ? 1 : p->plan->micro_batches;
            if (task->kind == PLAN_LOAD)
                parts += times * role->n_ranks;
            else if (gives(p->model.graph, task))
                parts += times;
        }
    }
    return parts;
}

fs_status cli_served_of(cli *c, const cli_plan *p, cli_served *out)
{
    const ir_graph *graph = p->model.graph;
    if (!p->model.origin.infer)
        return fs_fail(&c->err, FS_INVALID,
                       "%s: the plan is of training; serve answers with one of "
                       "inference (plan or search with --mode infer)",
                       c->args.operands[0]);
    *out = (cli_served){.name = graph->name,
                        .digest = p->plan->digest,
                        .batch = graph->batch > 0 ? graph->batch : 1,
                        .m = p->plan->micro_batches,
                        .depth = p->plan->strategy->n_stages,
                        .ranks = p->cluster->n_devices,
                        .parts = count_parts(p)};
    FS_TRY(add_inputs(c, graph, out));
    return add_outputs(c, graph, out);
}

/* ---- told ---- */

static json_t *tensors_json(const cli_served_tensor *all, int32_t n)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++) {
        const cli_served_tensor *t = &all[i];
        json_t *shape = json_array();
        for (int32_t k = 0; k < t->sample.rank; k++)
            json_array_append_new(shape, json_integer(t->sample.dim[k]));
        json_t *row =
            json_pack("{s:o, s:s, s:o}", "name", fs_json_string(t->name),
                      "dtype", ir_dtype_name(t->dtype), "shape", shape);
        if (t->below > 0)
            json_object_set_new(row, "below", json_integer(t->below));
        json_array_append_new(list, row);
    }
    return list;
}

json_t *cli_served_json(const cli_served *served)
{
    char digest[17];
    fs_hex(served->digest, digest);
    return json_pack("{s:o, s:s, s:I, s:i, s:i, s:i, s:o, s:o}", "name",
                     fs_json_string(served->name), "plan_digest", digest,
                     "batch", (json_int_t)served->batch, "micro_batches",
                     served->m, "stages", served->depth, "ranks", served->ranks,
                     "inputs", tensors_json(served->in, served->n_in),
                     "outputs", tensors_json(served->out, served->n_out));
}
