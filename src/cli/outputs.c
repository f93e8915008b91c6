/* Outputs of a run of inference, as NumPy files (format 1.0): the samples of
 * all steps in their order. Ranks write what they give away straight into
 * them, under the name with ".part" until the run is done. */
#include "config.h"
#include "cli/outputs.h"

#include "base/file.h"
#include "base/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct output {
    const char *path, *part;
    ir_shape whole;     /* of all steps */
    int64_t rows, each; /* rows before the axis of samples; bytes of one that
                           a micro-batch gives */
    int64_t stride;     /* bytes of a whole row */
    int64_t head_bytes;
    const char *head; /* of the file */
    int file;         /* -1: not open */
} output;

struct cli_outputs {
    int32_t n, m;
    bool goes_on; /* files have outputs of ranks before these */
    output *at;
    exec_sink sink;
};

/* ---- names and shapes ---- */

/* Names of tensors may hold anything. */
const char *cli_outputs_file(const cli *c, const ir_graph *graph, int32_t i)
{
    const char *dir = c->args.outputs;
    if (!dir || i >= graph->outputs.n)
        return NULL;
    char *name =
        fs_strdup(c->arena, graph->tensors.at[graph->outputs.at[i]].name);
    for (char *at = name; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                    "0123456789_-",
                    *at) &&
            !(*at == '.' && at > name))
            *at = '_';
    for (int32_t k = 0; k < i; k++) {
        const char *other = cli_outputs_file(c, graph, k);
        if (strcmp(fs_printf(c->arena, "%s/%s.npy", dir, name), other) == 0)
            return fs_printf(c->arena, "%s/%s.%d.npy", dir, name, (int)i);
    }
    return fs_printf(c->arena, "%s/%s.npy", dir, name);
}

/* Samples of all steps along their axis; what has none, once per step along a
 * new first one. */
static ir_shape shape_of(const ir_graph *graph, int32_t i, int64_t steps)
{
    const ir_tensor *x = &graph->tensors.at[graph->outputs.at[i]];
    ir_shape shape = x->shape;
    if (x->batch_axis >= 0) {
        shape.dim[x->batch_axis] *= steps * graph->micro_batches;
        return shape;
    }
    memmove(shape.dim + 1, shape.dim, (size_t)shape.rank * sizeof *shape.dim);
    shape.dim[0] = steps;
    shape.rank++;
    return shape;
}

static const char *npy_type(ir_dtype dtype)
{
    switch (dtype) {
    case IR_F64:
        return "<f8";
    case IR_F16:
        return "<f2";
    case IR_BF16:
        return "<V2"; /* as ml_dtypes writes it */
    case IR_BOOL:
        return "|b1";
    case IR_I8:
        return "|i1";
    case IR_U8:
        return "|u1";
    case IR_I16:
        return "<i2";
    case IR_U16:
        return "<u2";
    case IR_I32:
        return "<i4";
    case IR_U32:
        return "<u4";
    case IR_I64:
        return "<i8";
    case IR_U64:
        return "<u8";
    default:
        return "<f4";
    }
}

/* Magic, version, length of what follows, a Python literal, padded so that the
 * values begin at a multiple of 64. */
static const char *npy_head(const ir_shape *shape, ir_dtype dtype,
                            fs_arena *arena, int64_t *bytes)
{
    enum { BEFORE = 10, ALIGN = 64 };
    fs_text text = {.arena = arena};
    fs_text_add(&text, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                npy_type(dtype));
    for (int32_t i = 0; i < shape->rank; i++)
        fs_text_add(&text, "%lld,", (long long)shape->dim[i]);
    fs_text_add(&text, "), }");
    while ((BEFORE + text.n + 1) % ALIGN)
        fs_text_add(&text, " ");
    fs_text_add(&text, "\n");
    *bytes = BEFORE + (int64_t)text.n;
    char *head = fs_alloc(arena, (size_t)*bytes, 1);
    memcpy(head, "\x93NUMPY\x01", 7);
    head[8] = (char)(text.n & 0xff);
    head[9] = (char)(text.n >> 8);
    memcpy(head + BEFORE, text.at, (size_t)text.n);
    return head;
}

static output describe(const cli *c, const ir_graph *graph, int32_t i,
                       int64_t steps)
{
    const ir_tensor *x = &graph->tensors.at[graph->outputs.at[i]];
    const int32_t axis = x->batch_axis < 0 ? 0 : x->batch_axis;
    output o = {.path = cli_outputs_file(c, graph, i),
                .whole = shape_of(graph, i, steps),
                .rows = 1,
                .each = ir_dtype_bytes(x->dtype),
                .file = -1};
    for (int32_t k = 0; k < x->shape.rank; k++)
        *(k < axis ? &o.rows : &o.each) *= x->shape.dim[k];
    o.stride = o.each * steps * graph->micro_batches;
    o.part = fs_printf(c->arena, "%s.part", o.path);
    o.head = npy_head(&o.whole, x->dtype, c->arena, &o.head_bytes);
    return o;
}

/* ---- before ---- */

static const char *first_without_effect(const cli_args *a)
{
    return a->checkpoint              ? "--checkpoint"
           : a->checkpoint_every      ? "--checkpoint-every"
           : a->keep_checkpoints >= 0 ? "--keep-checkpoints"
           : a->resume                ? "--resume"
           : !isnan(a->lr)            ? "--lr"
           : !isnan(a->weight_decay)  ? "--weight-decay"
           : !isnan(a->momentum)      ? "--momentum"
           : !isnan(a->beta1)         ? "--beta1"
           : !isnan(a->beta2)         ? "--beta2"
           : !isnan(a->epsilon)       ? "--epsilon"
                                      : NULL;
}

static fs_status check_folder(cli *c, const cli_plan *p, int64_t steps)
{
    const ir_graph *graph = p->model.graph;
    const plan_origin *from = &p->model.origin;
    const char *dir = c->args.outputs;
    struct stat there;
    int64_t bytes = 0;
    if (stat(dir, &there) != 0)
        return cli_check_writable(c, dir); /* which run makes */
    if (!S_ISDIR(there.st_mode))
        return fs_fail(&c->err, FS_INVALID,
                       "--outputs %s: wants a folder, this is a file", dir);
    for (int32_t i = 0; i < graph->outputs.n; i++) {
        const output o = describe(c, graph, i, steps);
        FS_TRY(cli_check_output(c, o.path, from->model, from->cluster));
        FS_TRY(cli_check_writable(c, o.path));
        bytes += o.rows * o.stride;
    }
    return fs_check_room(cli_outputs_file(c, graph, 0), bytes,
                         "fewer --steps take less", &c->err);
}

static fs_status check_rank(cli *c, const ir_graph *graph)
{
    for (int32_t i = 0; i < graph->outputs.n; i++) {
        const ir_tensor *x = &graph->tensors.at[graph->outputs.at[i]];
        if (x->batch_axis < 0 && x->shape.rank == IR_MAX_RANK)
            return fs_fail(&c->err, FS_INVALID,
                           "--outputs: '%s' has no axis of samples, and %d "
                           "others: there is no room for one of steps",
                           x->name, IR_MAX_RANK);
    }
    return FS_OK;
}

fs_status cli_outputs_check(cli *c, const cli_plan *p, int64_t steps)
{
    const char *said = first_without_effect(&c->args);
    if (!p->model.origin.infer)
        return c->args.outputs
                   ? fs_fail(&c->err, FS_INVALID,
                             "--outputs has no effect: the plan is of training "
                             "(plan with --mode infer)")
                   : FS_OK;
    if (said)
        return fs_fail(&c->err, FS_INVALID,
                       "%s has no effect: the plan is of inference, which "
                       "trains nothing",
                       said);
    if (!c->args.outputs)
        return FS_OK;
    FS_TRY(check_rank(c, p->model.graph));
    return check_folder(c, p, steps);
}

/* ---- on a rank ---- */

static fs_status write_at(const output *o, const char *data, int64_t bytes,
                          int64_t at, fs_err *err)
{
    while (bytes > 0) {
        const ssize_t n = pwrite(o->file, data, (size_t)bytes, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return fs_write_fail(o->path, n < 0 ? errno : ENOSPC, err);
        data += n;
        at += n;
        bytes -= n;
    }
    return FS_OK;
}

/* The first part that a rank gives makes the file; one that goes on must be
 * there. */
static fs_status open_part(const cli_outputs *all, output *o, fs_err *err)
{
    const int makes = all->goes_on ? 0 : O_CREAT | O_TRUNC;
    if (o->file >= 0)
        return FS_OK;
    o->file = open(o->part, O_WRONLY | makes | O_CLOEXEC, 0666);
    return o->file >= 0 ? write_at(o, o->head, o->head_bytes, 0, err)
                        : fs_write_fail(o->path, errno, err);
}

static fs_status take(void *ctx, int32_t i, int64_t step, int32_t micro_batch,
                      const void *data, fs_err *err)
{
    cli_outputs *all = ctx;
    output *o = &all->at[i];
    const char *from = data;
    FS_TRY(open_part(all, o, err));
    const int64_t part = step * all->m + micro_batch;
    for (int64_t k = 0; k < o->rows; k++)
        FS_TRY(write_at(o, from + k * o->each, o->each,
                        o->head_bytes + k * o->stride + part * o->each, err));
    return FS_OK;
}

cli_outputs *cli_outputs_open(cli *c, const cli_plan *p, int64_t first,
                              int64_t steps)
{
    const ir_graph *graph = p->model.graph;
    cli_outputs *all = fs_new(c->arena, cli_outputs, 1);
    if (!c->args.outputs)
        return all;
    mkdir(c->args.outputs, 0777); /* each rank: it may be there */
    all->n = graph->outputs.n;
    all->m = graph->micro_batches;
    all->goes_on = first > 0;
    all->at = fs_new(c->arena, output, all->n);
    for (int32_t i = 0; i < all->n; i++)
        all->at[i] = describe(c, graph, i, steps);
    all->sink = (exec_sink){all, take};
    return all;
}

const exec_sink *cli_outputs_sink(const cli_outputs *outputs)
{
    return outputs->sink.take ? &outputs->sink : NULL;
}

/* What was not written whole is taken away. */
static fs_status close_part(output *o, bool good, fs_err *err)
{
    if (o->file < 0)
        return FS_OK;
    const bool whole =
        close(o->file) == 0 && (!good || rename(o->part, o->path) == 0);
    const int why = errno;
    o->file = -1;
    if (good && whole)
        return FS_OK;
    unlink(o->part);
    return good ? fs_write_fail(o->path, why, err) : FS_FAULT;
}

fs_status cli_outputs_close(cli_outputs *outputs, fs_status status, fs_err *err)
{
    for (int32_t i = 0; i < outputs->n; i++) {
        const fs_status closed =
            close_part(&outputs->at[i], status == FS_OK, err);
        status = status == FS_OK ? closed : status;
    }
    return status;
}

/* ---- after ---- */

bool cli_outputs_are_begun(const cli *c, const cli_plan *p)
{
    const ir_graph *graph = p->model.graph;
    const char *path;
    for (int32_t i = 0; (path = cli_outputs_file(c, graph, i)) != NULL; i++)
        if (access(fs_printf(c->arena, "%s.part", path), W_OK) != 0)
            return false;
    return true;
}

void cli_outputs_remove(const cli *c, const cli_plan *p)
{
    const ir_graph *graph = p->model.graph;
    const char *path;
    for (int32_t i = 0; (path = cli_outputs_file(c, graph, i)) != NULL; i++)
        unlink(fs_printf(c->arena, "%s.part", path));
}

static json_t *shape_json(const ir_shape *shape)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < shape->rank; i++)
        json_array_append_new(list, json_integer(shape->dim[i]));
    return list;
}

void cli_outputs_json(cli *c, const cli_plan *p, const exec_result *result,
                      int64_t steps)
{
    const ir_graph *graph = p->model.graph;
    json_t *list = json_array();
    char digest[17];
    for (int32_t i = 0; i < graph->outputs.n; i++) {
        const ir_tensor *x = &graph->tensors.at[graph->outputs.at[i]];
        const ir_shape shape = shape_of(graph, i, steps);
        const char *file = cli_outputs_file(c, graph, i);
        json_array_append_new(
            list,
            json_pack("{s:o, s:s, s:o, s:o}", "name", fs_json_string(x->name),
                      "dtype", ir_dtype_name(x->dtype), "shape",
                      shape_json(&shape), "file",
                      file ? fs_json_string(file) : json_null()));
    }
    fs_hex(result->outputs_digest, digest);
    json_object_set_new(c->result, "outputs", list);
    json_object_set_new(c->result, "outputs_digest", json_string(digest));
}

void cli_outputs_tell(cli *c, const cli_plan *p)
{
    const ir_graph *graph = p->model.graph;
    const char *path;
    for (int32_t i = 0; (path = cli_outputs_file(c, graph, i)) != NULL; i++)
        cli_say(c, "output of all samples  %s\n", path);
}
