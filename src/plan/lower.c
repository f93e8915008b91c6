#include "config.h"

#include "plan/lower.h"
#include "plan/shorten.h"

#include <stdlib.h>

plan_lower_options plan_lower_defaults(void)
{
    return (plan_lower_options){
        .overlap = false, .share_memory = true, .prefetch = 1, .refine = true};
}

/* ---- is the strategy one for this graph and cluster? ---- */

static fs_status check_stage(const plan_strategy *s, int32_t stage,
                             const hw_cluster *cluster, fs_err *err)
{
    const plan_stage *st = &s->stages[stage];
    int64_t size = 1;

    if (st->mesh.n < 0 || st->mesh.n > IR_MAX_MESH)
        return fs_fail(err, FS_INVALID, "stage %d: a mesh has 0 to %d axes",
                       (int)stage, (int)IR_MAX_MESH);
    for (int32_t a = 0; a < st->mesh.n; a++) {
        if (st->mesh.dim[a] < 1 || st->mesh.dim[a] > cluster->n_devices)
            return fs_fail(err, FS_INVALID,
                           "stage %d: mesh axis %d has impossible length %d",
                           (int)stage, (int)a, (int)st->mesh.dim[a]);
        size *= st->mesh.dim[a];
        if (size > cluster->n_devices)
            break;
    }
    if (st->first_device < 0 || size > cluster->n_devices - st->first_device)
        return fs_fail(err, FS_INVALID,
                       "stage %d: needs devices from %d on, more than the %d "
                       "of the cluster",
                       (int)stage, (int)st->first_device,
                       (int)cluster->n_devices);
    return FS_OK;
}

static int compare_stages(const void *a, const void *b)
{
    const plan_role *x = a, *y = b;

    return (x->first_rank > y->first_rank) - (x->first_rank < y->first_rank);
}

/* Roles in order of their ranks, which together are 0 .. n - 1. */
static fs_status order_roles(const lowering *l, plan_role *roles)
{
    const plan_pipeline *pipe = &l->pipe;
    int32_t rank = 0;

    for (int32_t i = 0; i < pipe->n_roles; i++) {
        const int32_t *stages = &pipe->stage[pipe->first[i]];
        const plan_stage *stage = &l->strategy->stages[stages[0]];
        roles[i].n_chunks = pipe->first[i + 1] - pipe->first[i];
        roles[i].stages = fs_memdup(l->arena, stages,
                                    (size_t)roles[i].n_chunks * sizeof *stages);
        roles[i].first_rank = stage->first_device;
        roles[i].n_ranks = ir_mesh_size(&stage->mesh);
    }
    qsort(roles, (size_t)pipe->n_roles, sizeof *roles, compare_stages);
    for (int32_t i = 0; i < pipe->n_roles; i++) {
        if (roles[i].first_rank != rank)
            return fs_fail(l->err, FS_INVALID,
                           "stage %d starts at device %d where %d is next: "
                           "stages must use devices 0, 1, .. once each, or "
                           "share all of them",
                           (int)roles[i].stages[0], (int)roles[i].first_rank,
                           (int)rank);
        rank += roles[i].n_ranks;
    }
    return FS_OK;
}

static fs_status check_node(const ir_graph *graph, const plan_strategy *s,
                            int32_t v, fs_err *err)
{
    const ir_node *node = &graph->nodes.at[v];
    const ir_mesh *mesh;

    if (s->stage_of[v] < 0 || s->stage_of[v] >= s->n_stages)
        return fs_fail(err, FS_INVALID, "node %s: stage %d does not exist",
                       node->name, (int)s->stage_of[v]);
    mesh = &s->stages[s->stage_of[v]].mesh;
    for (int32_t i = 0; i < node->n_in; i++)
        if (!ir_nd_sbp_fits(&s->sig[v].in[i],
                            &graph->tensors.at[node->in[i]].shape, mesh))
            return fs_fail(err, FS_INVALID,
                           "node %s: input %d does not fit "
                           "the SBP of its signature",
                           node->name, (int)i);
    for (int32_t o = 0; o < node->n_out; o++)
        if (!ir_nd_sbp_fits(&s->sig[v].out[o],
                            &graph->tensors.at[node->out[o]].shape, mesh))
            return fs_fail(err, FS_INVALID,
                           "node %s: output %d does not fit "
                           "the SBP of its signature",
                           node->name, (int)o);
    return FS_OK;
}

static fs_status check_strategy(const ir_graph *graph,
                                const hw_cluster *cluster,
                                const plan_strategy *s, fs_err *err)
{
    if (s->n_nodes != graph->nodes.n)
        return fs_fail(err, FS_INVALID,
                       "the strategy is for %d nodes, the graph has %d",
                       (int)s->n_nodes, (int)graph->nodes.n);
    if (s->micro_batches < 1 || s->micro_batches != graph->micro_batches)
        return fs_fail(err, FS_INVALID,
                       "the strategy has %d micro-batches, the graph %d",
                       (int)s->micro_batches, (int)graph->micro_batches);
    if (plan_schedule_find(s->schedule) == NULL)
        return fs_fail(err, FS_INVALID, "unknown schedule %s (there are: %s)",
                       s->schedule, plan_schedule_names());
    if (s->n_stages < 1)
        return fs_fail(err, FS_INVALID, "the strategy has no stage");
    for (int32_t i = 0; i < s->n_stages; i++)
        FS_TRY(check_stage(s, i, cluster, err));
    for (int32_t v = 0; v < s->n_nodes; v++)
        if (plan_node_like(s, v) == v)
            FS_TRY(check_node(graph, s, v, err));
    return FS_OK;
}

/* ---- the whole ---- */

static int32_t *filled(fs_arena *arena, int32_t n, int32_t value)
{
    int32_t *at = fs_new(arena, int32_t, n);

    for (int32_t i = 0; i < n; i++)
        at[i] = value;
    return at;
}

static lowering start(const ir_graph *graph, const plan_strategy *strategy,
                      const plan_lower_options *options, fs_arena *arena,
                      fs_err *err)
{
    fs_arena *scratch = fs_arena_create();
    lowering l = {.graph = graph,
                  .strategy = strategy,
                  .options = options,
                  .arena = arena,
                  .scratch = scratch,
                  .works = {.arena = scratch},
                  .err = err};

    l.first_value = filled(scratch, graph->tensors.n, -1);
    l.edge_value = filled(scratch, strategy->n_edges, -1);
    l.scratch_bytes = fs_new(scratch, int64_t, graph->nodes.n);
    l.roles = fs_new(scratch, lower_role, strategy->n_stages);
    l.pipe =
        plan_pipeline_of(strategy->stages, strategy->n_stages,
                         strategy->schedule, strategy->micro_batches, scratch);
    return l;
}

/* Ranks without a task would end no step. */
static fs_status check_work(const lowering *l, const plan *p)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        if (p->roles[r].n_tasks == 0)
            return fs_fail(l->err, FS_INVALID,
                           "stage %d has no task: none of its nodes computes "
                           "anything",
                           (int)p->roles[r].stages[0]);
    return FS_OK;
}

/* Of a program that repeats nobody looks at all firings. */
static fs_status check_size(const lowering *l, const plan *p)
{
    const int32_t m = p->micro_batches;
    int64_t n = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        n += (int64_t)p->roles[r].n_tasks *
             plan_role_shorten_lives(&p->roles[r], m, l->scratch).micro_batches;
    if (n > PLAN_MOST_FIRINGS)
        return fs_fail(
            l->err, FS_INVALID,
            "%d micro-batches of %d ops by the schedule %s have more than the "
            "%d firings that are looked at one by one: fewer, larger "
            "micro-batches have fewer",
            (int)m, (int)l->strategy->n_nodes, l->strategy->schedule,
            (int)PLAN_MOST_FIRINGS);
    return FS_OK;
}

static fs_status run(lowering *l, plan *p)
{
    p->n_roles = l->pipe.n_roles;
    p->roles = fs_new(l->arena, plan_role, p->n_roles);
    FS_TRY(order_roles(l, p->roles));
    FS_TRY(plan_pipeline_check(&l->pipe, l->strategy->stages, l->err));
    plan_lower_programs(l);
    FS_TRY(plan_lower_values(l));
    plan_lower_tasks(l);
    plan_lower_finish(l, p);
    FS_TRY(check_work(l, p));
    FS_TRY(check_size(l, p));
    return plan_lower_memory(l, p);
}

fs_status plan_lower(const ir_graph *graph, const hw_cluster *cluster,
                     const plan_strategy *strategy,
                     const plan_lower_options *options, fs_arena *arena,
                     fs_err *err, plan **out)
{
    plan *p = fs_new(arena, plan, 1);
    fs_status status;
    lowering l;

    FS_ASSERT(options->prefetch >= 0);
    FS_TRY(check_strategy(graph, cluster, strategy, err));
    p->strategy = strategy;
    p->micro_batches = strategy->micro_batches;
    p->model_digest = graph->digest;
    p->cluster_digest = cluster->digest;
    l = start(graph, strategy, options, arena, err);
    status = run(&l, p);
    fs_arena_destroy(l.scratch);
    if (status != FS_OK)
        return status;
    *out = p;
    return FS_OK;
}
