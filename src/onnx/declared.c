/* Shapes that the file declares (value_info, outputs) are compared with those
 * that were inferred: a file that says something else was edited, or an
 * operator is not what its exporter took it for. Lengths that are written must
 * be equal; a symbol has the size that an input or, failing that, the first
 * value gives it. Of a graph whose fixed batch is changed, the import with the
 * old one is compared. */
#include "config.h"
#include "onnx/declared.h"
#include "onnx/scope.h"

#include <string.h>

typedef struct onnx_symbol {
    int64_t size;
    const char *of; /* the value that gave it */
} onnx_symbol;

struct onnx_declared {
    fs_map index; /* name -> info */
    FS_VEC(const onnx_value_info *) info;
    fs_map symbols; /* name -> symbol */
    FS_VEC(onnx_symbol) symbol;
    const onnx_value_info *misfit; /* the first input of another shape */
    ir_shape misfit_shape;
};

static void declare(onnx_ctx *c, const onnx_value_info *info)
{
    struct onnx_declared *d = c->declared;
    if (info->rank < 0 || info->composite)
        return;
    *fs_map_at(&d->index, info->name) = d->info.n;
    fs_push(c->scratch, &d->info, info);
}

static const char *declared_text(onnx_ctx *c, const onnx_value_info *info)
{
    fs_text out = {.arena = c->arena};
    if (info->rank == 0)
        return "scalar";
    for (int32_t i = 0; i < info->rank; i++) {
        const onnx_dim *dim = &info->dim[i];
        fs_text_add(&out, "%s", i ? "x" : "");
        if (dim->value >= 0)
            fs_text_add(&out, "%lld", (long long)dim->value);
        else
            fs_text_add(&out, "%.40s", dim->symbol ? dim->symbol : "?");
    }
    return out.at;
}

static fs_status contradict(onnx_ctx *c, const onnx_value_info *info,
                            const ir_shape *shape)
{
    char text[160];
    return onnx_fail(c, "\"%.80s\" is %s, but the model declares %s",
                     info->name, ir_shape_text(text, shape),
                     declared_text(c, info));
}

/* The size of a symbol, from the first value that has one. */
static fs_status check_symbol(onnx_ctx *c, const onnx_value_info *info,
                              int32_t axis, int64_t size)
{
    struct onnx_declared *d = c->declared;
    const char *name = info->dim[axis].symbol;
    int32_t at = fs_map_get(&d->symbols, name);
    if (at < 0) {
        *fs_map_at(&d->symbols, name) = d->symbol.n;
        onnx_symbol symbol = {size, info->name};
        fs_push(c->scratch, &d->symbol, symbol);
        return FS_OK;
    }
    if (d->symbol.at[at].size == size)
        return FS_OK;
    return onnx_fail(c,
                     "axis %d of \"%.80s\", declared as %.40s, is %lld, but "
                     "%.40s is %lld in \"%.80s\"",
                     axis, info->name, name, (long long)size, name,
                     (long long)d->symbol.at[at].size, d->symbol.at[at].of);
}

static bool has_lengths(const onnx_value_info *info, const ir_shape *shape)
{
    bool same = shape->rank == info->rank;
    for (int32_t i = 0; i < info->rank && same; i++)
        same = info->dim[i].value < 0 || info->dim[i].value == shape->dim[i];
    return same;
}

static fs_status check_symbols(onnx_ctx *c, const onnx_value_info *info,
                               const ir_shape *shape)
{
    for (int32_t i = 0; i < info->rank; i++)
        if (info->dim[i].value < 0 && info->dim[i].symbol &&
            info->dim[i].symbol[0])
            FS_TRY(check_symbol(c, info, i, shape->dim[i]));
    return FS_OK;
}

static fs_status check_shape(onnx_ctx *c, const onnx_value_info *info,
                             const ir_shape *shape)
{
    return has_lengths(info, shape) ? check_symbols(c, info, shape)
                                    : contradict(c, info, shape);
}

/* Shape of a value; false when it has none. */
static bool shape_of(const onnx_ctx *c, const char *name, ir_shape *out)
{
    int32_t id = name[0] ? onnx_find(c, name) : -1;
    const onnx_value *value = id < 0 ? NULL : &c->values.at[id];
    if (!value || value->refused || value->sequence)
        return false;
    *out = value->tensor >= 0 ? ir_shape_of(c->graph, value->tensor)
                              : value->known.shape;
    return true;
}

/* Values that are given may have any shape. Files of the ONNX tests give some
 * that do not fit where only the type is read: so it is held against the graph
 * at the end. */
static fs_status check_input(onnx_ctx *c, const onnx_value_info *info)
{
    struct onnx_declared *d = c->declared;
    ir_shape shape;
    if (info->rank < 0 || !shape_of(c, info->name, &shape))
        return FS_OK;
    if (has_lengths(info, &shape))
        return check_symbols(c, info, &shape);
    if (!d->misfit) {
        d->misfit = info;
        d->misfit_shape = shape;
    }
    return FS_OK;
}

fs_status onnx_list_declared(onnx_ctx *c)
{
    const onnx_proto *proto = &c->model->proto;
    if (c->before)
        return FS_OK;
    c->declared = fs_new(c->arena, struct onnx_declared, 1);
    c->declared->index.arena = c->declared->symbols.arena = c->scratch;
    for (int32_t i = 0; i < proto->values.n; i++)
        declare(c, &proto->values.at[i]);
    for (int32_t i = 0; i < proto->outputs.n; i++)
        declare(c, &proto->outputs.at[i]);
    for (int32_t i = 0; i < proto->inputs.n; i++)
        FS_TRY(check_input(c, &proto->inputs.at[i]));
    return FS_OK;
}

fs_status onnx_check_declared(onnx_ctx *c, const char *name)
{
    ir_shape shape;
    if (!c->declared || c->declared->info.n == 0 || !shape_of(c, name, &shape))
        return FS_OK;
    int32_t at = fs_map_get(&c->declared->index, name);
    return at < 0 ? FS_OK : check_shape(c, c->declared->info.at[at], &shape);
}

/* An input that gives its type alone is read by no node, whatever the
 * rewrites. */
static bool is_read(const ir_graph *g, const char *name)
{
    const int32_t tensor = ir_graph_find(g, name);
    for (int32_t v = 0; tensor >= 0 && v < g->nodes.n; v++)
        for (int32_t i = 0; i < g->nodes.at[v].n_in; i++)
            if (g->nodes.at[v].in[i] == tensor)
                return true;
    return false;
}

fs_status onnx_check_inputs(onnx_ctx *c, fs_status status)
{
    const struct onnx_declared *d = c->declared;
    if (!d || !d->misfit ||
        (status == FS_OK && !is_read(c->graph, d->misfit->name)))
        return status;
    *c->err = (fs_err){0};
    contradict(c, d->misfit, &d->misfit_shape);
    fs_err_prefix(c->err, "%s: input", c->model->path);
    return FS_INVALID;
}
