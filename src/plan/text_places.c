/* The graph of a plan is what its origin makes, bound to the plan's stages: so
 * these are read before anything is held against the graph. */
#include "config.h"
#include "plan/text_parts.h"

#include "ir/recompute.h"

static bool any_copies(const ir_graph *graph)
{
    for (int32_t t = 0; t < graph->tensors.n; t++)
        if (graph->tensors.at[t].again_of >= 0)
            return true;
    return false;
}

enum { UNLISTED = -1 };

static void read_listed(const fs_json *nodes, fs_map *ids, int32_t *stage_of)
{
    for (size_t k = 0; k < json_array_size(nodes->value); k++) {
        const json_t *node = json_array_get(nodes->value, k);
        const char *name = json_string_value(json_object_get(node, "name"));
        const int32_t v = name ? fs_map_get(ids, name) : -1;
        if (v >= 0)
            stage_of[v] =
                (int32_t)json_integer_value(json_object_get(node, "stage"));
    }
}

static fs_status read_places(const fs_json *file, const ir_graph *graph,
                             fs_arena *arena, fs_err *err, int32_t *stage_of)
{
    fs_json strategy, nodes;
    fs_map ids = {.arena = arena};
    FS_TRY(fs_json_object(file, "strategy", err, &strategy));
    FS_TRY(fs_json_array(&strategy, "nodes", err, &nodes));
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        *fs_map_at(&ids, graph->nodes.at[v].name) = v;
        stage_of[v] = UNLISTED;
    }
    read_listed(&nodes, &ids, stage_of);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (stage_of[v] == UNLISTED && graph->nodes.at[v].forward >= 0)
            stage_of[v] = stage_of[graph->nodes.at[v].forward];
    return FS_OK;
}

fs_status plan_read_places(const char *path, fs_arena *arena, fs_err *err,
                           ir_graph *graph)
{
    json_t *root;
    if (!any_copies(graph))
        return FS_OK;
    FS_TRY(plan_text_load(path, err, &root));
    const fs_json file = fs_json_root(path, root);
    int32_t *stage_of = fs_new(arena, int32_t, graph->nodes.n);
    fs_status status = read_places(&file, graph, arena, err, stage_of);
    json_decref(root);
    if (status == FS_OK)
        ir_recompute_bind(graph, stage_of);
    return status;
}
