#include "config.h"
#include "search/cuts/ledger.h"

#include "ir/compact.h"
#include "ir/recompute.h"
#include "plan/schedule.h"
#include "search/cuts/cut.h"
#include "search/fit.h"
#include "search/known.h"

#include <math.h>
#include <string.h>

/* A cut into stages, which differ in how many they are alone. */
typedef struct search_ledger_cut {
    int32_t n_groups, n_stages;
    bool possible;
    int32_t *group_of;   /* [n_stages] */
    plan_stage *stages;  /* [n_stages] of one device each */
    search_entry *entry; /* [n_stages] */
} ledger_cut;

static int64_t bytes_of(const ir_tensor *t)
{
    return ir_shape_count(&t->shape) * ir_dtype_bytes(t->dtype);
}

/* ---- sums over nodes ---- */

static search_share share_of(const search_ledger *l, int32_t v)
{
    const ir_node *node = &l->graph->nodes.at[v];
    if (l->marks.between[v])
        return SEARCH_SHARE_STREAM;
    for (int32_t k = 0; k < node->n_out; k++)
        if (l->marks.data[node->out[k]])
            return SEARCH_SHARE_PARTS;
    return SEARCH_SHARE_WEIGHTS;
}

static void add_seconds(const search_ledger *l, int32_t v, search_entry *e)
{
    const int32_t n = ir_times(&l->graph->nodes.at[v]);
    const double s = n * l->seconds[v],
                 launch_s = n * fmin(l->seconds[v], l->launch_s);
    if (cost_node_per_step(l->graph, v)) {
        e->update_s += s - launch_s;
        e->update_launch_s += launch_s;
        return;
    }
    e->launch_s += launch_s;
    e->work_s[share_of(l, v)] += s - launch_s;
}

/* On one device. */
static void time_nodes(search_ledger *l)
{
    const plan_stage one = {.mesh = {0}};
    const ir_nd_sig plain = {0};
    l->seconds = fs_new(l->arena, double, l->graph->nodes.n);
    for (int32_t v = 0; v < l->graph->nodes.n; v++)
        l->seconds[v] =
            cost_node_seconds(l->problem->cost, l->graph, v, &plain, &one);
}

/* Ranks of tp that hold columns tell nobody what they made; the others sum up,
 * here going forward (or once more), and at the other end of the block going
 * back. */
static void add_told(const search_ledger *l, const ir_node *node,
                     search_entry *e)
{
    const search_marks *m = &l->marks;
    bool weighs = false, columns = false;
    for (int32_t k = 0; k < node->n_in; k++) {
        const bool here = search_reads_weight(m, node, k);
        weighs |= here;
        columns |= here && m->part[node->in[k]] >= 0;
    }
    columns &= node->n_in > 0 && m->stream[node->in[0]];
    if (!weighs || columns || node->n_out == 0)
        return;
    const int32_t times =
        ir_times(node) * (node->phase == IR_FORWARD ? 2 : 1);
    e->told_bytes +=
        times * (double)bytes_of(&l->graph->tensors.at[node->out[0]]);
    e->n_told += times;
}

static void add_variable(const search_ledger *l, const ir_node *node,
                         search_entry *e)
{
    const int32_t t = node->out[0];
    const ir_tensor *tensor = &l->graph->tensors.at[t];
    const int64_t bytes = ir_times(node) * bytes_of(tensor);
    if (node->op == IR_OP_accumulate) {
        e->sum_bytes += bytes;
    } else if (tensor->role == IR_STATE) {
        e->state_bytes += bytes;
    } else if (tensor->role == IR_PARAM) {
        e->n_weights += ir_times(node);
        if (l->marks.weight[t] && tensor->shape.rank >= 2)
            e->weight_bytes += bytes;
        else
            e->other_bytes += bytes;
    }
}

static void add_node(const search_ledger *l, int32_t v, search_entry *e)
{
    const ir_node *node = &l->graph->nodes.at[v];
    add_seconds(l, v, e);
    add_told(l, node, e);
    if (node->n_out &&
        (node->op == IR_OP_variable || node->op == IR_OP_accumulate))
        add_variable(l, node, e);
}

/* A view keeps what it is a view of. */
static int32_t base_of(const ir_graph *graph, int32_t t)
{
    const ir_node *node = &graph->nodes.at[graph->tensors.at[t].producer];
    while (ir_op_class_of(node->op) == IR_CLASS_VIEW) {
        t = node->in[0];
        node = &graph->nodes.at[graph->tensors.at[t].producer];
    }
    return t;
}

static bool is_kept(const ir_node *maker)
{
    return maker->phase == IR_FORWARD &&
           ir_op_class_of(maker->op) != IR_CLASS_SOURCE;
}

/* What backward nodes read of the forward pass, and what crosses stages. */
static void add_tensors(const search_ledger *l, const int32_t *stage_of,
                        search_entry *entry)
{
    const ir_graph *graph = l->graph;
    fs_arena *scratch = fs_arena_create();
    bool *kept = fs_new(scratch, bool, graph->tensors.n);
    bool *moved = fs_new(scratch, bool, graph->tensors.n);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        for (int32_t k = 0; k < node->n_in; k++) {
            const int32_t t = base_of(graph, node->in[k]);
            const int32_t u = graph->tensors.at[t].producer;
            if (!is_kept(&graph->nodes.at[u]))
                continue;
            kept[t] |= node->phase == IR_BACKWARD;
            moved[t] |= node->phase == IR_FORWARD && stage_of[u] != stage_of[v];
        }
    }
    for (int32_t t = 0; t < graph->tensors.n; t++) {
        const ir_tensor *tensor = &graph->tensors.at[t];
        search_entry *e = &entry[stage_of[tensor->producer]];
        const int64_t bytes =
            ir_times(&graph->nodes.at[tensor->producer]) * bytes_of(tensor);
        if (kept[t])
            e->kept_bytes[share_of(l, tensor->producer)] += bytes;
        if (moved[t])
            e->moved_bytes += bytes;
    }
    fs_arena_destroy(scratch);
}

/* ---- cuts ---- */

static int32_t depth_of(const search_problem *problem)
{
    return problem->interleave > 1 ? problem->interleave : 1;
}

static void make_cut(search_ledger *l, int32_t n_groups, ledger_cut *cut)
{
    const search_problem *problem = l->problem;
    const plan_schedule *schedule = plan_schedule_find(problem->schedule);
    const int32_t n = n_groups * depth_of(problem);
    const int32_t devices = problem->cluster->n_devices / n_groups;
    int32_t *stage_of = fs_new(l->arena, int32_t, l->graph->nodes.n);
    fs_err ignored = {0};
    *cut = (ledger_cut){.n_groups = n_groups,
                        .n_stages = n,
                        .group_of = fs_new(l->arena, int32_t, n),
                        .stages = fs_new(l->arena, plan_stage, n),
                        .entry = fs_new(l->arena, search_entry, n)};
    for (int32_t i = 0; i < n; i++) {
        cut->group_of[i] = plan_placing_role(schedule->placing, n_groups, i);
        cut->stages[i].first_device = devices * cut->group_of[i];
    }
    const search_layout layout = {.graph = l->graph,
                                  .n_stages = n,
                                  .stages = cut->stages,
                                  .n_groups = n_groups,
                                  .group_of = cut->group_of,
                                  .schedule = problem->schedule,
                                  .plain_s = l->seconds};
    cut->possible = search_cut(problem, &layout, &ignored, stage_of) == FS_OK;
    if (!cut->possible)
        return;
    for (int32_t v = 0; v < l->graph->nodes.n; v++)
        add_node(l, v, &cut->entry[stage_of[v]]);
    add_tensors(l, stage_of, cut->entry);
}

static ledger_cut *cut_of(search_ledger *l, int32_t n_groups)
{
    for (int32_t k = 0; k < l->n_cuts; k++)
        if (l->cuts[k].n_groups == n_groups)
            return &l->cuts[k];
    l->cuts = fs_regrow(l->arena, l->cuts, (size_t)l->n_cuts,
                        (size_t)l->n_cuts + 1, sizeof *l->cuts);
    make_cut(l, n_groups, &l->cuts[l->n_cuts]);
    return &l->cuts[l->n_cuts++];
}

void search_ledger_make(const search_problem *problem, const ir_graph *graph,
                        fs_arena *arena, search_ledger *out)
{
    *out = (search_ledger){.problem = problem,
                           .graph = graph,
                           .arena = arena,
                           .launch_s = INFINITY,
                           .recomputes = ir_count_recomputed(graph) > 0};
    for (int32_t g = 0; g < problem->cluster->n_groups; g++)
        out->launch_s =
            fmin(out->launch_s, problem->cluster->groups[g].device.launch_s);
    out->marks = *search_known_marks(problem->known, graph);
    time_nodes(out);
    for (int32_t t = 0; t < graph->tensors.n; t++) {
        out->streams |= out->marks.stream[t];
        out->experts |=
            out->marks.expert[t] && graph->tensors.at[t].role == IR_PARAM;
    }
}

/* ---- a recipe ---- */

/* One recipe on one stage. */
typedef struct question {
    const search_ledger *l;
    const search_recipe *r;
    const search_entry *e;
    plan_stage stage;
    double samples; /* of one rank's micro-batch in the graph's */
} question;

/* n collectives over an axis of the mesh, of `bytes` in all. */
static double together(const question *q, plan_box_kind kind, search_role role,
                       double bytes, int32_t n)
{
    const search_roles roles = search_recipe_roles(q->r);
    uint32_t axes = 0;
    for (int32_t a = 0; a < roles.n; a++)
        if (roles.role[a] == role ||
            (role == SEARCH_AXIS_DATA && roles.role[a] != SEARCH_AXIS_TENSOR))
            axes |= 1u << a;
    if (!axes || n == 0)
        return 0;
    const int64_t each = (int64_t)(bytes / n);
    const plan_box_step step = {
        .kind = kind, .axes = axes, .bytes_in = each, .bytes_out = each};
    const plan_demand demand =
        cost_box_step(q->l->problem->cost, &q->stage, &step);
    return n * cost_shared_seconds(q->l->problem->cost, &q->stage, &demand);
}

static double kept_weights(const question *q)
{
    return (double)q->e->weight_bytes / q->r->tp + (double)q->e->other_bytes;
}

static double sums_of(const question *q)
{
    return (double)q->e->sum_bytes * kept_weights(q) /
           fmax(1, (double)(q->e->weight_bytes + q->e->other_bytes));
}

static double micro_seconds(const question *q, int32_t first)
{
    const search_entry *e = q->e;
    const search_recipe *r = q->r;
    const double stream = r->seq_parallel == 1 ? r->tp : 1;
    const plan_stage before = {q->stage.mesh, first};
    double s = e->launch_s +
               e->work_s[SEARCH_SHARE_PARTS] * q->samples / r->tp +
               e->work_s[SEARCH_SHARE_STREAM] * q->samples / stream +
               e->work_s[SEARCH_SHARE_WEIGHTS] / r->tp;
    s += together(q, PLAN_ALL_REDUCE, SEARCH_AXIS_TENSOR,
                  e->told_bytes * q->samples, e->n_told);
    if (r->zero >= 2)
        s += together(q, PLAN_REDUCE_SCATTER, SEARCH_AXIS_DATA, sums_of(q),
                      e->n_weights);
    if (r->zero == 3)
        s += (q->l->recomputes ? 3 : 2) *
             together(q, PLAN_ALL_GATHER, SEARCH_AXIS_DATA, kept_weights(q),
                      e->n_weights);
    if (e->moved_bytes > 0 && first != q->stage.first_device) {
        const plan_demand demand =
            cost_p2p(q->l->problem->cost, &before, &q->stage,
                     (int64_t)((double)e->moved_bytes * q->samples / stream));
        s += 2 * cost_shared_seconds(q->l->problem->cost, &q->stage, &demand);
    }
    return s;
}

static double step_seconds(const question *q)
{
    const search_recipe *r = q->r;
    const search_entry *e = q->e;
    const double ranks = r->zero >= 1 ? r->dp * r->cp : 1;
    double s = e->update_launch_s + e->update_s / (r->tp * ranks);
    if (r->zero == 0)
        return s + together(q, PLAN_ALL_REDUCE, SEARCH_AXIS_DATA, sums_of(q),
                            e->n_weights);
    if (r->zero == 1)
        s += together(q, PLAN_REDUCE_SCATTER, SEARCH_AXIS_DATA, sums_of(q),
                      e->n_weights);
    if (r->zero < 3)
        s += together(q, PLAN_ALL_GATHER, SEARCH_AXIS_DATA, kept_weights(q),
                      e->n_weights);
    return s;
}

/* Of the bytes that last, and of what waits for the backward pass. */
static double stage_bytes(const question *q, int32_t in_flight)
{
    const search_recipe *r = q->r;
    const search_entry *e = q->e;
    const double ranks = (double)r->dp * r->cp;
    const double weights = kept_weights(q);
    const double stream = r->seq_parallel == 1 ? r->tp : 1;
    const double all = fmax(1, (double)(e->weight_bytes + e->other_bytes));
    return weights / (r->zero == 3 ? ranks : 1) +
           (double)e->state_bytes * weights / all / (r->zero >= 1 ? ranks : 1) +
           sums_of(q) / (r->zero >= 2 ? ranks : 1) +
           (double)e->kept_bytes[SEARCH_SHARE_WEIGHTS] / r->tp /
               (r->zero == 3 ? ranks : 1) +
           in_flight * q->samples *
               ((double)e->kept_bytes[SEARCH_SHARE_PARTS] / r->tp +
                (double)e->kept_bytes[SEARCH_SHARE_STREAM] / stream);
}

static double fill_of(const search_ledger *l, const search_recipe *r,
                      const ledger_cut *cut)
{
    const search_layout layout = {
        .n_stages = cut->n_stages,
        .n_groups = cut->n_groups,
        .stages = cut->stages,
        .schedule = r->schedule ? r->schedule : l->problem->schedule};
    return search_known_fill(l->problem->known, &layout, r->micro_batches);
}

bool search_ledger_open(search_ledger *l, const search_recipe *r)
{
    return cut_of(l, r->pp)->possible;
}

void search_ledger_pace(const search_ledger *l, const search_recipe *r)
{
    for (int32_t k = 0; k < l->n_cuts; k++)
        if (l->cuts[k].n_groups == r->pp)
            fill_of(l, r, &l->cuts[k]);
}

static bool same_entry(const search_entry *a, const search_entry *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* Behind the second, stages with the entries of the one before take as long. */
search_estimate search_ledger_ask(search_ledger *l, const search_recipe *r)
{
    ledger_cut *cut = cut_of(l, r->pp);
    const search_roles roles = search_recipe_roles(r);
    const ir_mesh mesh = search_roles_mesh(&roles);
    const int32_t size = l->problem->cluster->n_devices / r->pp;
    const double samples = (double)l->graph->micro_batches /
                           ((double)r->micro_batches * r->dp * r->cp);
    double total = 0, slowest = 0, step = 0, fullest = 0, s = 0;
    if (!cut->possible)
        return (search_estimate){INFINITY, INFINITY};
    fs_arena *scratch = fs_arena_create();
    double *micro = fs_new(scratch, double, r->pp);
    double *bytes = fs_new(scratch, double, r->pp);
    for (int32_t i = 0; i < cut->n_stages; i++) {
        const int32_t group = cut->group_of[i], waiting = cut->n_stages - i;
        const question q = {
            l, r, &cut->entry[i], {mesh, group * size}, samples};
        if (i < 2 || !same_entry(q.e, q.e - 1)) {
            s = micro_seconds(&q, size * (i ? cut->group_of[i - 1] : group));
            step = fmax(step, step_seconds(&q));
        }
        micro[group] += s;
        bytes[group] += stage_bytes(
            &q, waiting < r->micro_batches ? waiting : r->micro_batches);
        slowest = fmax(slowest, micro[group]);
        fullest = fmax(fullest, bytes[group] / (double)search_device_bytes(
                                                   l->problem, &q.stage));
    }
    for (int32_t g = 0; g < r->pp; g++)
        total += micro[g];
    fs_arena_destroy(scratch);
    const double fill = fill_of(l, r, cut);
    return (search_estimate){
        fill * total + (r->micro_batches - fill) * slowest + step, fullest};
}
