/* How large buckets are worth being (plan/BUCKETS.md). */
#include "config.h"
#include "cost/parts.h"

#include <math.h>

/* Latency is this part of what a full bucket takes, at most. */
#define LATENCY_SHARE 0.05

enum { FEW_BYTES = 256, LEAST_BYTES = 1 << 10, MOST_BYTES = 1 << 28 };

/* The step, if it were of so many bytes. */
static double seconds_of(const cost_model *model, const plan_path_step *step,
                         int64_t bytes)
{
    plan_box_step box = step->box;
    const double times =
        (double)bytes /
        (double)(box.bytes_in > box.bytes_out ? box.bytes_in : box.bytes_out);
    box.bytes_in = (int64_t)ceil(times * (double)box.bytes_in);
    box.bytes_out = (int64_t)ceil(times * (double)box.bytes_out);
    return cost_box_step(model, step->stage, &box).total_s;
}

/* From so many bytes on, to a power of two. */
static int64_t bytes_of(const cost_model *model, const plan_path_step *step)
{
    const double least_s = seconds_of(model, step, FEW_BYTES);
    int64_t bytes = LEAST_BYTES;
    while (bytes < MOST_BYTES &&
           seconds_of(model, step, bytes) * LATENCY_SHARE < least_s)
        bytes *= 2;
    return bytes;
}

typedef struct seen {
    const plan_stage *stage;
    plan_box_kind kind;
    uint32_t axes;
} seen;
typedef FS_VEC(seen) seen_list;

/* Steps of a kind among the same ranks want the same. */
static bool is_new(seen_list *list, const plan_path_step *step, fs_arena *arena)
{
    for (int32_t i = 0; i < list->n; i++)
        if (list->at[i].stage == step->stage &&
            list->at[i].kind == step->box.kind &&
            list->at[i].axes == step->box.axes)
            return false;
    fs_push(arena, list, ((seen){step->stage, step->box.kind, step->box.axes}));
    return true;
}

static int64_t of_edge(const cost_model *model, const plan_ends *ends,
                       const plan_boxing *path, seen_list *list,
                       fs_arena *arena)
{
    int64_t most = 0;
    for (int32_t k = 0; k < path->n; k++) {
        plan_path_step step;
        if (!plan_path_step_make(ends, path, k, &step) || step.crosses ||
            !plan_box_fuses(step.box.kind) || !is_new(list, &step, arena))
            continue;
        const int64_t bytes = bytes_of(model, &step);
        most = bytes > most ? bytes : most;
    }
    return most;
}

int64_t cost_bucket_bytes(const cost_model *model, const ir_graph *graph,
                          const plan_strategy *s)
{
    fs_arena *arena = fs_arena_create();
    seen_list list = {0};
    int64_t most = 0;
    for (int32_t v = 0; v < s->n_nodes; v++)
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++) {
            const int32_t slot = e - s->first_edge[v];
            const plan_ends ends = plan_edge_ends(graph, s, v, slot);
            if (!ends.tensor || !plan_edge_per_step(graph, s, v, slot))
                continue;
            const int64_t bytes =
                of_edge(model, &ends, &s->edge[e], &list, arena);
            most = bytes > most ? bytes : most;
        }
    fs_arena_destroy(arena);
    return most;
}
