#include "config.h"
#include "search/variant.h"

#include "plan/schedule.h"

/* Enough for the networks of one plan. What its bound leaves open is told. */
#define WORK_S 4
#define CLOCK_S 30
#define NEAR 1e-3

/* More than any device: limits then never count. */
#define ANY_SHARE 1e6

typedef struct choice {
    int32_t node, axes;
    bool same;
    ir_nd_sig sig;
    int32_t n_in, n_out;
} choice;

static bool equal_sigs(const choice *k, const ir_nd_sig *sig)
{
    for (int32_t i = 0; i < k->n_in; i++)
        if (!ir_nd_sbp_equal(&k->sig.in[i], &sig->in[i], k->axes))
            return false;
    for (int32_t o = 0; o < k->n_out; o++)
        if (!ir_nd_sbp_equal(&k->sig.out[o], &sig->out[o], k->axes))
            return false;
    return true;
}

static bool allow(void *ctx, const ir_graph *graph, int32_t node, int32_t stage,
                  const ir_mesh *mesh, const ir_nd_sig *sig)
{
    const choice *k = ctx;
    (void)graph, (void)stage, (void)mesh;
    return node != k->node || equal_sigs(k, sig) == k->same;
}

static search_filter filter_of(const search_variant *v, fs_arena *arena)
{
    const plan_strategy *s = v->strategy;
    if (v->node < 0)
        return (search_filter){0};
    const ir_node *node = &v->graph->nodes.at[v->node];
    choice *k = fs_new(arena, choice, 1);
    *k = (choice){.node = v->node,
                  .axes = s->stages[s->stage_of[v->node]].mesh.n,
                  .same = v->same,
                  .sig = s->sig[v->node],
                  .n_in = node->n_in,
                  .n_out = node->n_out};
    return (search_filter){allow, k};
}

static const ir_mesh *meshes_of(const search_variant *v,
                                const plan_pipeline *pipe, fs_arena *arena)
{
    if (v->mesh)
        return v->mesh;
    ir_mesh *mesh = fs_new(arena, ir_mesh, pipe->n_roles);
    for (int32_t i = 0; i < pipe->n_stages; i++)
        mesh[pipe->role_of[i]] = v->strategy->stages[i].mesh;
    return mesh;
}

static bool all_equal(const ir_mesh *mesh, int32_t n)
{
    for (int32_t g = 1; g < n; g++)
        if (!plan_same_mesh(&mesh[0], &mesh[g]))
            return false;
    return true;
}

/* NULL: one after the other. */
static const int32_t *firsts_of(const search_variant *v,
                                const plan_pipeline *pipe, fs_arena *arena)
{
    int32_t *first = fs_new(arena, int32_t, pipe->n_roles);
    bool in_order = true;
    for (int32_t i = 0; i < pipe->n_stages; i++)
        first[pipe->role_of[i]] = v->strategy->stages[i].first_device;
    for (int32_t g = 1; g < pipe->n_roles; g++)
        in_order &= first[g] > first[g - 1];
    return in_order ? NULL : first;
}

/* Equal meshes are said as one, for then equal layers are looked at once; but
 * where each node's stage is given, no even cut is to be looked at. */
static void fix_stages(const search_variant *v, const plan_pipeline *pipe,
                       fs_arena *arena, search_problem *out)
{
    const ir_mesh *mesh = meshes_of(v, pipe, arena);
    const bool cut = v->layers || pipe->n_stages == 1;
    out->fix_stages = pipe->n_roles;
    out->interleave = pipe->n_stages / pipe->n_roles;
    out->fix_mesh.n = -1;
    if (cut && all_equal(mesh, pipe->n_roles))
        out->fix_mesh = mesh[0];
    else
        out->stage_mesh = mesh;
    out->first_device = firsts_of(v, pipe, arena);
    out->n_layers = v->layers ? pipe->n_stages : 0;
    out->layers = v->layers;
    out->stage_of = cut ? NULL : v->strategy->stage_of;
}

fs_status search_variant_run(const search_variant *v, fs_arena *arena,
                             fs_err *err, search_result *out)
{
    const plan_strategy *s = v->strategy;
    const plan_pipeline pipe = plan_pipeline_of(
        s->stages, s->n_stages, s->schedule, s->micro_batches, arena);
    const search_graph graph = {s->micro_batches, v->graph, NULL};
    search_problem problem = {.cluster = v->cluster,
                              .cost = v->cost,
                              .n_graphs = 1,
                              .graphs = fs_memdup(arena, &graph, sizeof graph),
                              .memory_bytes =
                                  v->any_memory ? 0 : v->memory_bytes,
                              .memory_share = v->any_memory ? ANY_SHARE : 1,
                              .engine = "ilp",
                              .schedule = s->schedule,
                              .fix_schedule = true,
                              .max_mesh_axes = IR_MAX_MESH,
                              .filter = filter_of(v, arena),
                              .time_limit_s = CLOCK_S,
                              .most_steps = WORK_S * FS_STEPS_PER_S,
                              .gap = NEAR,
                              .reduce = true};
    fix_stages(v, &pipe, arena, &problem);
    return search_run(&problem, arena, err, out);
}
