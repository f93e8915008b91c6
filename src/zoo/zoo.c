#include "config.h"
#include "zoo/zoo.h"

#include "zoo/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const zoo_model *const models[] = {
#define ZOO_MODEL(name) &zoo_model_##name,
#include "zoo/zoo.def"
#undef ZOO_MODEL
};

const char *zoo_names(void)
{
#define ZOO_MODEL(name) " " #name
    static const char names[] =
#include "zoo/zoo.def"
        ;
#undef ZOO_MODEL
    return names + 1;
}

void zoo_scope(ir_graph *graph, zoo_part part)
{
    graph->scope = part.block < 0 ? fs_printf(graph->arena, "/%s", part.name)
                                  : fs_printf(graph->arena, "/blocks.%lld/%s",
                                              (long long)part.block, part.name);
}

int32_t zoo_parameter(ir_graph *graph, zoo_part part, const char *what,
                      ir_shape shape, ir_init init)
{
    char *name = part.block < 0
                     ? fs_printf(graph->arena, "%s.%s", part.name, what)
                     : fs_printf(graph->arena, "blocks.%lld.%s.%s",
                                 (long long)part.block, part.name, what);
    for (char *at = name; *at; at++)
        if (*at == '/')
            *at = '.';
    return ir_parameter(graph, name, IR_F32, shape, init);
}

int32_t zoo_linear(ir_graph *graph, int32_t x, const zoo_linear_spec *spec)
{
    ir_shape weight = ir_shape_make(2, (int64_t[]){spec->out, spec->in});
    ir_shape bias = ir_shape_make(1, &spec->out);
    zoo_scope(graph, spec->part);
    int32_t w =
        zoo_parameter(graph, spec->part, "weight", weight, spec->weight);
    int32_t b = zoo_parameter(graph, spec->part, "bias", bias, spec->bias);
    return ir_binary(graph, IR_OP_add, ir_matmul(graph, x, w, false, true), b);
}

static const zoo_model *find_model(const char *name, size_t length)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strlen(models[i]->name) == length &&
            strncmp(models[i]->name, name, length) == 0)
            return models[i];
    return NULL;
}

static fs_status refuse_key(const zoo_model *model, const char *item,
                            fs_err *err)
{
    char known[256] = "";
    for (int32_t k = 0; k < ZOO_MAX_KEYS && model->keys[k].name; k++) {
        strcat(known, k ? " " : "");
        strcat(known, model->keys[k].name);
    }
    return fs_fail(err, FS_INVALID,
                   "zoo:%s: \"%.100s\" is no KEY=VALUE of "
                   "this model; its keys are %s",
                   model->name, item, known);
}

/* One "key=value"; each key once. */
static fs_status set_key(const zoo_model *model, char *item, fs_err *err,
                         bool *given, int64_t *value)
{
    char *equals = strchr(item, '='), *end;
    size_t n = equals ? (size_t)(equals - item) : 0;
    int32_t k = 0;
    while (k < ZOO_MAX_KEYS && model->keys[k].name &&
           (strlen(model->keys[k].name) != n ||
            strncmp(model->keys[k].name, item, n) != 0))
        k++;
    if (!equals || k == ZOO_MAX_KEYS || !model->keys[k].name)
        return refuse_key(model, item, err);
    const zoo_key *key = &model->keys[k];
    errno = 0;
    value[k] = strtoll(equals + 1, &end, 10);
    if (errno || end == equals + 1 || *end || value[k] < key->low ||
        value[k] > key->high)
        return fs_fail(err, FS_INVALID,
                       "zoo:%s: %.100s: a number from %lld to "
                       "%lld is wanted",
                       model->name, item, (long long)key->low,
                       (long long)key->high);
    if (given[k])
        return fs_fail(err, FS_INVALID, "zoo:%s: %s is given twice",
                       model->name, key->name);
    given[k] = true;
    return FS_OK;
}

static fs_status parse_keys(const zoo_model *model, char *at, fs_err *err,
                            int64_t *value)
{
    bool given[ZOO_MAX_KEYS] = {false};
    for (int32_t k = 0; k < ZOO_MAX_KEYS; k++)
        value[k] = model->keys[k].usual;
    while (at) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma = '\0';
        FS_TRY(set_key(model, at, err, given, value));
        at = comma ? comma + 1 : NULL;
    }
    return FS_OK;
}

static fs_status build(const zoo_model *model, ir_graph *graph,
                       const char *keys, int64_t samples, fs_err *err)
{
    int64_t value[ZOO_MAX_KEYS];
    char *text = *keys ? fs_strdup(graph->arena, keys + 1) : NULL;
    FS_TRY(parse_keys(model, text, err, value));
    model->build(graph, value, samples);
    graph->scope = NULL;
    ir_graph_rename(graph, graph->loss, "loss");
    graph->batch = samples;
    if (graph->err.status != FS_OK)
        return fs_fail(err, graph->err.status, "zoo:%s: %s", model->name,
                       graph->err.text);
    return FS_OK;
}

fs_status zoo_build(const char *spec, int64_t samples, fs_err *err,
                    ir_graph **out)
{
    const char *name = strncmp(spec, "zoo:", 4) == 0 ? spec + 4 : spec;
    size_t length = strcspn(name, ",");
    const zoo_model *model = find_model(name, length);
    if (!model)
        return fs_fail(err, FS_INVALID,
                       "zoo: there is no model \"%.*s\"; "
                       "there are %s",
                       (int)(length < 60 ? length : 60), name, zoo_names());
    if (samples < 1)
        return fs_fail(err, FS_INVALID, "zoo:%s: a batch of %lld samples",
                       model->name, (long long)samples);
    ir_graph *graph = ir_graph_create(model->name);
    graph->digest = fs_hash_text(0, name);
    fs_status status = build(model, graph, name + length, samples, err);
    if (status != FS_OK)
        ir_graph_destroy(graph);
    else
        *out = graph;
    return status;
}
