#include "config.h"
#include "onnx/scope.h"

#include <string.h>

/* What a small file may grow to. */
enum { MAX_DEPTH = 32, MAX_EXPANDED = 1 << 16 };

int32_t onnx_find(const onnx_ctx *c, const char *name)
{
    for (const onnx_scope *s = c->scope; s; s = s->closed ? NULL : s->parent) {
        int32_t id = fs_map_get(&s->index, name);
        if (id >= 0)
            return id;
    }
    return -1;
}

fs_status onnx_define(onnx_ctx *c, const char *name, const onnx_value *value)
{
    int32_t *id = fs_map_at(&c->scope->index, name);
    if (*id >= 0)
        return onnx_fail(c, "output \"%.80s\" is made twice", name);
    *id = c->values.n;
    fs_push(c->scratch, &c->values, *value);
    c->values.at[*id].name =
        c->scope->prefix
            ? fs_printf(c->arena, "%.400s/%.80s", c->scope->prefix, name)
            : name;
    return FS_OK;
}

fs_status onnx_take(onnx_ctx *c, int32_t i, onnx_value *out)
{
    onnx_value *value = onnx_any_value_of(c, i);
    if (!value)
        return FS_INVALID;
    if (value->is_weight && onnx_tensor_of(c, value) < 0)
        return FS_INVALID;
    *out = *value;
    return FS_OK;
}

fs_status onnx_spend(onnx_ctx *c)
{
    if (++c->expanded <= MAX_EXPANDED)
        return FS_OK;
    return onnx_fail(c,
                     "unrolling loops and inlining functions makes more than "
                     "%d nodes and turns, the limit of one import",
                     MAX_EXPANDED);
}

fs_status onnx_enter(onnx_ctx *c, const char *label)
{
    int32_t depth = c->scope->depth + 1;
    if (depth > MAX_DEPTH)
        return onnx_fail(c, "bodies and functions nest deeper than %d",
                         MAX_DEPTH);
    onnx_scope *scope = fs_new(c->scratch, onnx_scope, 1);
    *scope = (onnx_scope){.parent = c->scope,
                          .call = c->scope->call,
                          .function = c->scope->function,
                          .prefix = label,
                          .depth = depth,
                          .index = {.arena = c->scratch}};
    c->scope = scope;
    return FS_OK;
}

void onnx_leave(onnx_ctx *c)
{
    c->scope = c->scope->parent;
}

static fs_status read_subgraph(onnx_ctx *c, onnx_subgraph *graph)
{
    fs_arena *arena = c->model->arena;
    onnx_proto *proto = fs_new(arena, onnx_proto, 1);
    FS_TRY(onnx_read_graph(graph->body, arena, c->err, proto));
    onnx_const *init = fs_new(arena, onnx_const, proto->initializers.n);
    for (int32_t i = 0; i < proto->initializers.n; i++)
        FS_TRY(onnx_tensor_load(c->model, &proto->initializers.at[i], arena,
                                c->err, &init[i]));
    if (proto->sparse)
        return onnx_fail(c, "sparse initializers are not supported");
    graph->init = init;
    graph->read = proto;
    return FS_OK;
}

fs_status onnx_subgraph_of(onnx_ctx *c, const char *name,
                           const onnx_subgraph **out)
{
    const onnx_attr *attr = onnx_attr_find(c, name);
    if (!attr || !attr->graph)
        return onnx_fail(c, "it has no graph \"%s\"", name);
    if (!attr->graph->read)
        FS_TRY(read_subgraph(c, attr->graph));
    *out = attr->graph;
    return FS_OK;
}

fs_status onnx_define_initializers(onnx_ctx *c, const onnx_subgraph *body)
{
    for (int32_t i = 0; i < body->read->initializers.n; i++) {
        onnx_value value = {.tensor = -1, .known = body->init[i]};
        value.is_weight = ir_dtype_is_float(value.known.dtype) &&
                          !c->options->infer && value.known.shape.rank > 0;
        value.is_known = !value.is_weight;
        FS_TRY(onnx_define(c, body->read->initializers.at[i].name, &value));
    }
    return FS_OK;
}

fs_status onnx_import_body(onnx_ctx *c, const onnx_subgraph *body)
{
    return onnx_import_nodes(c, body->read->nodes.at, body->read->nodes.n);
}

fs_status onnx_body_output(onnx_ctx *c, const onnx_subgraph *body, int32_t i,
                           onnx_value *out)
{
    const char *name = body->read->outputs.at[i].name;
    int32_t id = onnx_find(c, name);
    if (id < 0)
        return onnx_fail(c, "output \"%.80s\" of its body is made by no node",
                         name);
    onnx_value *value = &c->values.at[id];
    if (value->is_weight && onnx_tensor_of(c, value) < 0)
        return FS_INVALID;
    *out = *value;
    return FS_OK;
}

/* ---- local functions ---- */

const onnx_function *onnx_find_function(const onnx_ctx *c)
{
    const onnx_proto *proto = &c->model->proto;
    for (int32_t i = 0; i < proto->functions.n; i++) {
        const onnx_function *f = &proto->functions.at[i];
        if (strcmp(f->name, c->node->op) == 0 &&
            strcmp(f->domain, c->node->domain) == 0 &&
            strcmp(f->overload, c->node->overload) == 0)
            return f;
    }
    return NULL;
}

/* The call's attribute, or the function's default for it. */
static const onnx_attr *attribute_of(const onnx_scope *scope, const char *name)
{
    const onnx_node *call = scope->call;
    for (int32_t i = 0; call && i < call->attrs.n; i++)
        if (strcmp(call->attrs.at[i].name, name) == 0)
            return &call->attrs.at[i];
    const onnx_function *f = scope->function;
    for (int32_t i = 0; f && i < f->defaults.n; i++)
        if (strcmp(f->defaults.at[i].name, name) == 0)
            return &f->defaults.at[i];
    return NULL;
}

/* An input of the function that the call leaves out. */
static bool is_omitted(const onnx_scope *scope, const char *name)
{
    const onnx_function *f = scope->function;
    for (int32_t i = 0; f && i < f->in.n; i++)
        if (strcmp(f->in.at[i], name) == 0)
            return i >= scope->call->in.n || scope->call->in.at[i][0] == '\0';
    return false;
}

static bool is_of_call(const onnx_ctx *c, const onnx_node *node)
{
    bool is = false;
    for (int32_t i = 0; i < node->attrs.n; i++)
        is = is || node->attrs.at[i].ref;
    for (int32_t i = 0; i < node->in.n; i++)
        is = is || is_omitted(c->scope, node->in.at[i]);
    return is;
}

const onnx_node *onnx_resolve(onnx_ctx *c, const onnx_node *node)
{
    if (!is_of_call(c, node))
        return node;
    onnx_node *out = fs_memdup(c->arena, node, sizeof *node);
    memset(&out->in, 0, sizeof out->in);
    memset(&out->attrs, 0, sizeof out->attrs);
    for (int32_t i = 0; i < node->in.n; i++) {
        const char *name = node->in.at[i];
        fs_push(c->arena, &out->in, is_omitted(c->scope, name) ? "" : name);
    }
    for (int32_t i = 0; i < node->attrs.n; i++) {
        onnx_attr attr = node->attrs.at[i];
        const onnx_attr *given =
            attr.ref ? attribute_of(c->scope, attr.ref) : NULL;
        if (attr.ref && !given)
            continue; /* as if it were not written */
        if (given) {
            const char *name = attr.name;
            attr = *given;
            attr.name = name;
        }
        fs_push(c->arena, &out->attrs, attr);
    }
    return out;
}

static fs_status bind_arguments(onnx_ctx *c, const onnx_function *f)
{
    if (c->node->in.n > f->in.n)
        return onnx_fail(c, "%d inputs for a function of %d", c->node->in.n,
                         f->in.n);
    onnx_value *taken = fs_new(c->arena, onnx_value, c->node->in.n);
    onnx_scope *inner = c->scope;
    c->scope = inner->parent; /* the arguments are the caller's names */
    fs_status status = FS_OK;
    for (int32_t i = 0; i < c->node->in.n && status == FS_OK; i++)
        if (onnx_has(c, i))
            status = onnx_take(c, i, &taken[i]);
    c->scope = inner;
    FS_TRY(status);
    for (int32_t i = 0; i < c->node->in.n; i++)
        if (onnx_has(c, i))
            FS_TRY(onnx_define(c, f->in.at[i], &taken[i]));
    return FS_OK;
}

/* Its own operator sets say what its nodes mean. */
static int64_t opset_of(const onnx_ctx *c, const onnx_function *f)
{
    for (int32_t i = 0; i < f->opsets.n; i++)
        if (f->opsets.at[i].domain[0] == '\0' ||
            strcmp(f->opsets.at[i].domain, "ai.onnx") == 0)
            return f->opsets.at[i].version;
    return c->opset;
}

static fs_status run_function(onnx_ctx *c, const onnx_function *f,
                              onnx_value *out)
{
    FS_TRY(bind_arguments(c, f));
    c->scope->call = c->node;
    c->scope->function = f;
    c->opset = opset_of(c, f);
    FS_TRY(onnx_import_nodes(c, f->nodes.at, f->nodes.n));
    for (int32_t i = 0; i < f->out.n && i < c->node->out.n; i++) {
        int32_t id = onnx_find(c, f->out.at[i]);
        if (id < 0)
            return onnx_fail(c, "its output \"%.80s\" is made by no node",
                             f->out.at[i]);
        onnx_value *value = &c->values.at[id];
        if (value->is_weight && onnx_tensor_of(c, value) < 0)
            return FS_INVALID;
        out[i] = *value;
    }
    return FS_OK;
}

fs_status onnx_call_function(onnx_ctx *c, const onnx_function *f)
{
    int64_t opset = c->opset;
    for (const onnx_scope *s = c->scope; s; s = s->parent)
        if (s->function == f)
            return onnx_fail(c, "function \"%.80s\" calls itself", f->name);
    if (c->node->out.n > f->out.n)
        return onnx_fail(c, "%d outputs of a function of %d", c->node->out.n,
                         f->out.n);
    onnx_value *out = fs_new(c->arena, onnx_value, c->node->out.n);
    FS_TRY(onnx_enter(c, c->graph->scope));
    c->scope->closed = true;
    fs_status status = run_function(c, f, out);
    onnx_leave(c);
    c->opset = opset;
    for (int32_t i = 0; i < c->node->out.n && status == FS_OK; i++)
        status = onnx_put(c, i, &out[i]);
    return status;
}
