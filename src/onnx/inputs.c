#include "config.h"
#include "onnx/inputs.h"
#include "base/regex.h"
#include "onnx/scope.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

bool onnx_is_initializer(const onnx_proto *proto, const char *name)
{
    for (int32_t i = 0; i < proto->initializers.n; i++)
        if (strcmp(proto->initializers.at[i].name, name) == 0)
            return true;
    return false;
}

static bool is_bias(const char *name)
{
    return ends_with(name, "bias") || ends_with(name, ".beta") ||
           ends_with(name, ".running_mean");
}

static fs_status matches(const onnx_options *options, const char *name,
                         fs_err *err, bool *out)
{
    regex_t compiled;
    FS_TRY(onnx_about(options, "params",
                      fs_regex_compile(options->params, err, &compiled)));
    *out = regexec(&compiled, name, 0, NULL, 0) == 0;
    regfree(&compiled);
    return FS_OK;
}

fs_status onnx_is_parameter(const onnx_value_info *info,
                            const onnx_options *options, fs_err *err, bool *out)
{
    *out = false;
    if (options->infer)
        return FS_OK;
    ir_dtype dtype;
    fs_err unknown = {0};
    if (onnx_dtype_parse(info->dtype, "an input", &unknown, &dtype) != FS_OK ||
        !ir_dtype_is_float(dtype))
        return FS_OK;
    if (options->params)
        FS_TRY(matches(options, info->name, err, out));
    *out = *out || ends_with(info->name, "weight") || is_bias(info->name) ||
           ends_with(info->name, ".gamma") ||
           ends_with(info->name, ".running_var");
    return FS_OK;
}

static fs_status parse_bind(const char *bind, fs_err *err, int64_t *out)
{
    const char *equals = strchr(bind, '=');
    if (!equals || equals == bind)
        return fs_fail(err, FS_INVALID, "\"%.80s\": NAME=SIZE is wanted", bind);
    char *end;
    errno = 0;
    *out = strtoll(equals + 1, &end, 10);
    if (errno || end == equals + 1 || *end || *out < 1)
        return fs_fail(err, FS_INVALID,
                       "\"%.80s\": the size must be a positive number", bind);
    return FS_OK;
}

/* The size that name=size gives; 0 when the name is not bound. */
static fs_status find_bind(const onnx_options *options, const char *symbol,
                           fs_err *err, int64_t *out)
{
    *out = 0;
    size_t n = strlen(symbol);
    for (int32_t i = 0; i < options->n_binds; i++) {
        const char *bind = options->binds[i];
        if (strcspn(bind, "=") == n && strncmp(bind, symbol, n) == 0)
            return parse_bind(bind, err, out);
    }
    return FS_OK;
}

static bool has_symbol(const onnx_value_info *info, const char *name, size_t n)
{
    for (int32_t k = 0; k < info->rank; k++)
        if (info->dim[k].symbol && strlen(info->dim[k].symbol) == n &&
            strncmp(info->dim[k].symbol, name, n) == 0)
            return true;
    return false;
}

/* Each bind is NAME=SIZE of a dimension that some input has. */
static fs_status check_binds(const onnx_model *model,
                             const onnx_options *options, fs_err *err)
{
    for (int32_t b = 0; b < options->n_binds; b++) {
        const char *bind = options->binds[b];
        int64_t size;
        bool found = false;
        FS_TRY(parse_bind(bind, err, &size));
        for (int32_t i = 0; i < model->proto.inputs.n; i++)
            found = found || has_symbol(&model->proto.inputs.at[i], bind,
                                        strcspn(bind, "="));
        if (!found)
            return fs_fail(err, FS_INVALID,
                           "%s: \"%.80s\": no input has such a dimension",
                           model->path, bind);
    }
    return FS_OK;
}

static bool is_batch_name(const char *symbol)
{
    return strcmp(symbol, "batch") == 0 || strcmp(symbol, "batch_size") == 0 ||
           strcmp(symbol, "N") == 0;
}

/* Does some input call its axis 0 so? */
static bool names_axis_0(const onnx_model *model, const char *symbol)
{
    const onnx_proto *proto = &model->proto;
    for (int32_t i = 0; i < proto->inputs.n; i++) {
        const onnx_value_info *info = &proto->inputs.at[i];
        if (info->rank > 0 && info->dim[0].symbol &&
            strcmp(info->dim[0].symbol, symbol) == 0)
            return true;
    }
    return false;
}

static bool is_open(const onnx_dim *dim)
{
    return dim->value < 0;
}

static bool is_batch(const onnx_model *model, const onnx_value_info *info,
                     int32_t axis)
{
    const char *symbol = info->dim[axis].symbol;
    if (!is_open(&info->dim[axis]))
        return false;
    return axis == 0 ||
           (symbol && (is_batch_name(symbol) || names_axis_0(model, symbol)));
}

/* A dimension is open when its size is not said; a size below 0 is none. */
static fs_status check_sizes(const onnx_model *model,
                             const onnx_value_info *info, fs_err *err)
{
    for (int32_t i = 0; i < info->rank; i++)
        if (info->dim[i].said && info->dim[i].value < 0)
            return fs_fail(
                err, FS_INVALID, "%s: input \"%.80s\": axis %d has size %lld",
                model->path, info->name, i, (long long)info->dim[i].value);
    return FS_OK;
}

/* Why no node may read an input, or NULL: the node that does says so. */
static const char *refused_input(const onnx_value_info *info, fs_arena *arena)
{
    fs_err err = {0};
    ir_dtype dtype;
    if (info->composite)
        return "it is a sequence, an optional or a map, which is not "
               "supported";
    return onnx_dtype_parse(info->dtype, "it", &err, &dtype) == FS_OK
               ? NULL
               : fs_strdup(arena, err.text);
}

/* Lists every dimension that nothing binds. */
static fs_status check_bound(const onnx_model *model,
                             const onnx_value_info *info,
                             const onnx_options *options, fs_err *err,
                             fs_text *unbound)
{
    if (info->rank < 0)
        return fs_fail(err, FS_INVALID, "%s: input \"%.80s\" has no shape",
                       model->path, info->name);
    for (int32_t i = 0; i < info->rank; i++) {
        const onnx_dim *dim = &info->dim[i];
        int64_t size = 0;
        if (!is_open(dim) || is_batch(model, info, i))
            continue;
        if (dim->symbol)
            FS_TRY(find_bind(options, dim->symbol, err, &size));
        if (!size)
            fs_text_add(unbound, "%s%s (input \"%.80s\", axis %d)",
                        unbound->n ? ", " : "",
                        dim->symbol ? dim->symbol : "unnamed", info->name, i);
    }
    return FS_OK;
}

fs_status onnx_find_batch(const onnx_model *model, const onnx_options *options,
                          fs_err *err, onnx_batch *out)
{
    fs_text unbound = {.arena = model->arena};
    bool first = true;
    FS_TRY(onnx_about(options, "binds", check_binds(model, options, err)));
    *out = (onnx_batch){0};
    for (int32_t i = 0; i < model->proto.inputs.n; i++) {
        const onnx_value_info *info = &model->proto.inputs.at[i];
        bool parameter;
        if (onnx_is_initializer(&model->proto, info->name) ||
            refused_input(info, model->arena))
            continue;
        FS_TRY(check_sizes(model, info, err));
        FS_TRY(check_bound(model, info, options, err, &unbound));
        FS_TRY(onnx_is_parameter(info, options, err, &parameter));
        if (info->rank == 0 || parameter)
            continue;
        int64_t length = info->dim[0].value;
        out->symbolic = out->symbolic || length < 0;
        if (first)
            out->exported = length;
        out->common = (first || out->common) && out->exported == length;
        first = false;
    }
    if (unbound.n)
        return onnx_about(options, "binds",
                          fs_fail(err, FS_INVALID,
                                  "%s: dimensions without a size: %s; each "
                                  "wants NAME=SIZE",
                                  model->path, unbound.at));
    if (out->symbolic)
        out->exported = 0;
    return FS_OK;
}

/* The size that a bind gives to the batch's symbol; 0: none. */
static fs_status find_batch_bind(const onnx_ctx *setup, int64_t *out)
{
    *out = 0;
    for (int32_t i = 0; i < setup->model->proto.inputs.n; i++) {
        const onnx_value_info *info = &setup->model->proto.inputs.at[i];
        int64_t size = 0;
        if (info->rank > 0 && is_open(&info->dim[0]) && info->dim[0].symbol)
            FS_TRY(find_bind(setup->options, info->dim[0].symbol, setup->err,
                             &size));
        if (size && *out && size != *out)
            return fs_fail(setup->err, FS_INVALID,
                           "%s: the inputs get batches of %lld and %lld",
                           setup->model->path, (long long)*out,
                           (long long)size);
        *out = size ? size : *out;
    }
    return FS_OK;
}

fs_status onnx_bind_batch(onnx_ctx *setup, const onnx_batch *batch)
{
    const char *path = setup->model->path;
    int64_t bound = 0;
    if (setup->batch < 0)
        return fs_fail(setup->err, FS_INVALID, "a batch of %lld samples",
                       (long long)setup->batch);
    if (batch->symbolic)
        FS_TRY(onnx_about(setup->options, "binds",
                          find_batch_bind(setup, &bound)));
    if (bound && setup->options->batch && bound != setup->options->batch)
        return onnx_about(setup->options, "binds",
                          fs_fail(setup->err, FS_INVALID,
                                  "%s: the batch is bound to %lld, and %lld "
                                  "samples per micro-batch are wanted",
                                  path, (long long)bound,
                                  (long long)setup->options->batch));
    if (bound)
        setup->batch = bound;
    if (batch->symbolic && !setup->batch) {
        setup->batch = 1;
        onnx_note(setup, "the open batch axis is bound to 1");
    }
    if (!batch->symbolic && !batch->common && setup->options->batch &&
        setup->options->batch != batch->exported)
        return fs_fail(setup->err, FS_INVALID,
                       "%s: the inputs have no common "
                       "axis 0, so the batch cannot be set to %lld; export "
                       "with dynamic_axes",
                       path, (long long)setup->options->batch);
    return FS_OK;
}

/* Shape of an input with the batch at hand; whether axis 0 holds samples. */
static fs_status bind_shape(onnx_ctx *c, const onnx_value_info *info,
                            const onnx_batch *batch, ir_shape *out,
                            int32_t *batch_axis)
{
    *out = (ir_shape){.rank = info->rank};
    *batch_axis = -1;
    for (int32_t i = 0; i < info->rank; i++) {
        const onnx_dim *dim = &info->dim[i];
        int64_t size = dim->value;
        if (is_batch(c->model, info, i))
            size = c->batch;
        else if (is_open(dim) && dim->symbol)
            FS_TRY(find_bind(c->options, dim->symbol, c->err, &size));
        out->dim[i] = size;
    }
    if (info->rank > 0 && is_batch(c->model, info, 0))
        *batch_axis = 0;
    if (info->rank > 0 && info->dim[0].value == batch->exported) {
        out->dim[0] = c->batch;
        *batch_axis = 0;
    }
    return FS_OK;
}

static ir_init usual_init(const onnx_ctx *c, const onnx_value_info *info)
{
    if (is_bias(info->name))
        return (ir_init){.kind = IR_INIT_ZERO};
    if (info->rank < 2) /* gains of normalisations */
        return (ir_init){.kind = IR_INIT_CONSTANT, .mean = 1};
    return (ir_init){
        .kind = IR_INIT_NORMAL, .spread = 0.02, .seed = c->options->seed};
}

/* A parameter without values: its shape is as written, never re-batched. */
static int32_t add_parameter(onnx_ctx *c, const onnx_value_info *info,
                             ir_dtype dtype, int32_t *n)
{
    ir_shape shape = {.rank = info->rank};
    for (int32_t i = 0; i < info->rank; i++)
        shape.dim[i] = info->dim[i].value;
    (*n)++;
    return ir_parameter(c->graph, info->name, dtype, shape,
                        usual_init(c, info));
}

static fs_status add_value(onnx_ctx *c, const onnx_value *value)
{
    if (onnx_find(c, value->name) >= 0)
        return onnx_fail(c, "two values are called \"%.80s\"", value->name);
    return onnx_define(c, value->name, value);
}

/* Files of the ONNX tests hold bfloat16 as the bits of uint16. */
static ir_dtype given_dtype(const onnx_value_info *info,
                            const onnx_const *given)
{
    ir_dtype declared;
    fs_err unknown = {0};
    if (given->dtype == IR_U16 &&
        onnx_dtype_parse(info->dtype, "an input", &unknown, &declared) ==
            FS_OK &&
        declared == IR_BF16)
        return IR_BF16;
    return given->dtype;
}

/* Without elements it is no tensor of the graph, only a value. */
static fs_status add_given(onnx_ctx *c, const onnx_value_info *info,
                           const onnx_const *given)
{
    onnx_value value = {.name = info->name, .tensor = -1, .known = *given};
    value.known.dtype = given_dtype(info, given);
    value.is_known = onnx_const_count(given) == 0;
    value.is_given = !value.is_known;
    if (value.is_given)
        value.tensor =
            ir_input(c->graph, info->name, value.known.dtype, given->shape, -1);
    return c->graph->err.status == FS_OK ? add_value(c, &value)
                                         : c->graph->err.status;
}

static fs_status add_empty(onnx_ctx *c, const onnx_value_info *info,
                           ir_dtype dtype, ir_shape shape)
{
    onnx_value value = {.name = info->name, .tensor = -1, .is_known = true};
    value.known = (onnx_const){dtype, shape, fs_alloc(c->arena, 1, 8)};
    return add_value(c, &value);
}

static fs_status add_input(onnx_ctx *c, const onnx_value_info *info,
                           const onnx_batch *batch, int32_t *n_parameters)
{
    ir_dtype dtype;
    ir_shape shape;
    int32_t batch_axis;
    bool parameter;
    const char *refused = refused_input(info, c->arena);
    if (refused)
        return add_value(c, &(onnx_value){.name = info->name,
                                          .tensor = -1,
                                          .refused = refused});
    FS_TRY(onnx_dtype_parse(info->dtype, info->name, c->err, &dtype));
    dtype = onnx_dtype_here(c, dtype);
    FS_TRY(onnx_is_parameter(info, c->options, c->err, &parameter));
    FS_TRY(bind_shape(c, info, batch, &shape, &batch_axis));
    for (int32_t i = 0; i < shape.rank; i++)
        if (shape.dim[i] == 0) /* no tensor of the graph, as in add_given */
            return add_empty(c, info, dtype, shape);
    int32_t tensor =
        parameter ? add_parameter(c, info, dtype, n_parameters)
                  : ir_input(c->graph, info->name, dtype, shape, batch_axis);
    if (tensor < 0)
        return c->graph->err.status;
    return add_value(c, &(onnx_value){.name = info->name, .tensor = tensor});
}

/* Exporters turn small constants into initializers but keep their names. */
static bool is_constant_name(const char *name)
{
    return strstr(name, "Constant") != NULL && ends_with(name, "_output_0");
}

static fs_status add_initializers(onnx_ctx *c)
{
    for (int32_t i = 0; i < c->model->proto.initializers.n; i++) {
        const char *name = c->model->proto.initializers.at[i].name;
        onnx_value value = {
            .name = name, .tensor = -1, .known = c->model->init[i]};
        value.is_known =
            !ir_dtype_is_float(value.known.dtype) || is_constant_name(name);
        value.is_weight = !value.is_known;
        if (onnx_find(c, name) >= 0)
            return onnx_fail(c, "two initializers are called \"%.80s\"", name);
        FS_TRY(onnx_define(c, name, &value));
    }
    return FS_OK;
}

/* Inputs that have no initializer: before IR version 4 all initializers were
 * inputs too. */
static int32_t count_plain(const onnx_ctx *c)
{
    int32_t n = 0;
    for (int32_t i = 0; i < c->model->proto.inputs.n; i++)
        n += onnx_find(c, c->model->proto.inputs.at[i].name) < 0;
    return n;
}

fs_status onnx_add_inputs(onnx_ctx *c, const onnx_batch *batch)
{
    int32_t n_parameters = 0, at = 0;
    FS_TRY(add_initializers(c));
    const bool all = c->options->n_given > count_plain(c);
    for (int32_t i = 0; i < c->model->proto.inputs.n; i++) {
        const onnx_value_info *info = &c->model->proto.inputs.at[i];
        if (onnx_find(c, info->name) >= 0 &&
            onnx_is_initializer(&c->model->proto, info->name)) {
            at += all;
            continue;
        }
        const int32_t given = at++;
        if (given < c->options->n_given)
            FS_TRY(add_given(c, info, &c->options->given[given]));
        else
            FS_TRY(add_input(c, info, batch, &n_parameters));
    }
    if (n_parameters)
        onnx_note(c,
                  "%d inputs are taken for parameters, with values drawn "
                  "from the seed",
                  n_parameters);
    return FS_OK;
}
