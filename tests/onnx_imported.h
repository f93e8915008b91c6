/* Importing a model in a test, and what is asked of the graph. */
#ifndef FS_TESTS_ONNX_IMPORTED_H
#define FS_TESTS_ONNX_IMPORTED_H

#include "onnx/import.h"

#include "onnx_make.h"

/* One import and all that belongs to it. */
typedef struct imported {
    fs_err err;
    onnx_model *model;
    ir_graph *graph; /* NULL when it failed */
    fs_arena *arena;
    fs_text notes;
} imported;

static inline imported import(const char *path, const onnx_options *options)
{
    imported in = {.arena = fs_arena_create()};
    in.notes.arena = in.arena;
    fs_text_add(&in.notes, "%s", "");
    if (onnx_import(path, options, &in.err, &in.model, &in.graph, &in.notes) !=
        FS_OK)
        in.graph = NULL;
    return in;
}

static inline imported import_batch(const char *path, int64_t batch)
{
    onnx_options options = {.batch = batch};
    return import(path, &options);
}

static inline void drop(imported *in)
{
    if (in->graph) {
        ir_graph_destroy(in->graph);
        onnx_model_close(in->model);
    }
    fs_arena_destroy(in->arena);
}

static inline int32_t count_op(const ir_graph *g, ir_op_kind op)
{
    int32_t n = 0;
    for (int32_t i = 0; i < g->nodes.n; i++)
        n += g->nodes.at[i].op == op;
    return n;
}

static inline int64_t count_parameters(const ir_graph *g)
{
    int64_t n = 0;
    for (int32_t i = 0; i < g->tensors.n; i++)
        if (g->tensors.at[i].role == IR_PARAM)
            n += ir_shape_count(&g->tensors.at[i].shape);
    return n;
}

static inline const char *shape_of(const ir_graph *g, const char *tensor)
{
    static char text[160];
    int32_t id = ir_graph_find(g, tensor);
    ir_shape shape = ir_shape_of(g, id);
    return id < 0 ? "missing" : ir_shape_text(text, &shape);
}

#endif
