/* Products of one input in one kernel. Ours does one for each weight; how much
 * is won by one is waves of tiles that are fuller, bytes read once, launches.
 */
#include "config.h"
#include "cost/joined.h"
#include "cost/parts.h"

#include <math.h>
#include <stdlib.h>

typedef enum joined_kind {
    JOINED_COLUMNS, /* of what they take first: x W, x' dy */
    JOINED_ROWS,    /* of what they take last: dy' x */
    JOINED_DEPTH,   /* dy W', added up */
    JOINED_NONE
} joined_kind;

/* The set's product, of which p is one. */
typedef struct whole {
    int32_t n;   /* products in it */
    int64_t sum; /* of the side along which they are joined */
} whole;

/* Weights' gradients of a set that stand in front of its collective. */
typedef struct beside {
    double seconds;
    int32_t last; /* task; -1: none */
} beside;

typedef struct cost_joiner {
    const ir_graph *graph;
    const plan *plan;
    int32_t *maker; /* [tensors] node; -1 */
    /* of one role, whose nodes are left as they were found */
    const hw_device *device;
    const plan_role *role;
    plan_demand *demand;
    double *kernels;
    int32_t n_nodes, *nodes; /* of it, in their order */
    int32_t *task_of;        /* [nodes] of the role; -1 */
    int32_t *root;           /* [nodes] of the set that a node is in */
    int32_t *members;        /* [nodes] of a root: how many */
    joined_kind *kind;       /* [nodes] */
    whole *all;              /* [nodes] of a root */
    beside *sets;            /* [nodes] of a root */
    int32_t *weight_grad;    /* [forward nodes] task; -1 */
    /* [tensors x phases] of products towards activations, towards weights, and
     * of these by what they take last: the first; -1 */
    int32_t *first[3];
} join;

static bool is_sum(const join *j, int32_t node)
{
    return j->graph->nodes.at[node].op == IR_OP_add;
}

/* By a matrix of two axes, or for one. */
static bool is_product(const ir_graph *graph, const ir_node *node)
{
    return node->op == IR_OP_weight_grad ||
           (node->op == IR_OP_matmul &&
            graph->tensors.at[node->in[1]].shape.rank == 2);
}

/* The product that made it, or the sum of such; -1. */
static int32_t made_by(const join *j, int32_t tensor)
{
    const int32_t node = j->maker[tensor];
    if (node < 0 || j->task_of[node] < 0)
        return -1;
    return j->kind[node] == JOINED_NONE ||
                   j->graph->nodes.at[node].op == IR_OP_weight_grad
               ? -1
               : node;
}

static int32_t root_of(join *j, int32_t node)
{
    while (j->root[node] != node)
        node = j->root[node] = j->root[j->root[node]];
    return node;
}

static void unite(join *j, int32_t a, int32_t b)
{
    j->root[root_of(j, b)] = root_of(j, a);
}

/* Products of a phase by what they take: the first of each input and phase in
 * `first` [tensors x phases]. */
static void join_by_input(join *j, int32_t node, int32_t input, int32_t *first)
{
    const plan_phase phase = j->role->tasks[j->task_of[node]].phase;
    int32_t *at = &first[(ptrdiff_t)input * PLAN_PHASES + phase];
    if (*at < 0)
        *at = node;
    else
        unite(j, *at, node);
}

static int32_t *none(fs_arena *arena, int32_t n)
{
    int32_t *list = fs_new(arena, int32_t, n);
    for (int32_t i = 0; i < n; i++)
        list[i] = -1;
    return list;
}

static void count_members(join *j)
{
    for (int32_t i = 0; i < j->n_nodes; i++)
        j->members[j->nodes[i]] = 0;
    for (int32_t i = 0; i < j->n_nodes; i++)
        j->members[root_of(j, j->nodes[i])]++;
}

/* Products by what they take first (a gradient may come first both in the
 * product towards activations and in the one towards weights, which are two);
 * those of weights that are alone then by what they take last. */
static void join_products(join *j)
{
    for (int32_t i = 0; i < j->n_nodes; i++) {
        const int32_t v = j->nodes[i];
        const ir_node *node = &j->graph->nodes.at[v];
        if (!is_product(j->graph, node))
            continue;
        j->kind[v] = JOINED_COLUMNS;
        join_by_input(j, v, node->in[0],
                      j->first[node->op == IR_OP_weight_grad]);
    }
    count_members(j);
    for (int32_t i = 0; i < j->n_nodes; i++) {
        const int32_t v = j->nodes[i];
        const ir_node *node = &j->graph->nodes.at[v];
        if (j->kind[v] == JOINED_NONE || node->op != IR_OP_weight_grad ||
            j->members[root_of(j, v)] > 1)
            continue;
        j->kind[v] = JOINED_ROWS;
        join_by_input(j, v, node->in[1], j->first[2]);
    }
    count_members(j);
}

/* Sums of products that are in no set yet. */
static void join_sums(join *j)
{
    for (int32_t i = 0; i < j->n_nodes; i++) {
        const int32_t v = j->nodes[i];
        const ir_node *node = &j->graph->nodes.at[v];
        if (node->op != IR_OP_add ||
            j->role->tasks[j->task_of[v]].phase == PLAN_FORWARD)
            continue;
        const int32_t a = made_by(j, node->in[0]), b = made_by(j, node->in[1]);
        if (a < 0 || b < 0 ||
            (j->kind[a] == JOINED_COLUMNS && j->members[root_of(j, a)] > 1) ||
            (j->kind[b] == JOINED_COLUMNS && j->members[root_of(j, b)] > 1))
            continue;
        j->kind[a] = j->kind[b] = j->kind[v] = JOINED_DEPTH;
        unite(j, a, b);
        unite(j, a, v);
    }
}

static ir_work work_of(const join *j, int32_t node)
{
    const plan_task *task = &j->role->tasks[j->task_of[node]];
    const plan_stage *stage =
        &j->plan->strategy->stages[j->role->stages[task->chunk]];
    ir_work work;
    ir_node_flow(j->graph, &j->graph->nodes.at[node],
                 &j->plan->strategy->sig[node], &stage->mesh, &work);
    return work;
}

static int64_t *side_of(ir_product *p, joined_kind kind)
{
    return kind == JOINED_COLUMNS ? &p->columns
           : kind == JOINED_ROWS  ? &p->rows
                                  : &p->depth;
}

static void take_share(join *j, int32_t node, const whole *all)
{
    const int32_t task = j->task_of[node];
    plan_demand *d = &j->demand[task];
    const ir_work work = work_of(j, node);
    ir_product joined = work.product;
    const double share =
        (double)*side_of(&joined, j->kind[node]) / (double)all->sum;
    *side_of(&joined, j->kind[node]) = all->sum;
    const double alone = cost_product_at(j->device, &work, &work.product),
                 together = cost_product_at(j->device, &work, &joined);
    const double shorter = alone > 0 ? share * together / alone : 1;
    /* what all of them take, or add up to, moves once */
    const ir_product *p = &work.product;
    const double once =
        j->kind[node] == JOINED_DEPTH
            ? (double)work.written_bytes
            : (double)work.read_bytes *
                  (double)(j->kind[node] == JOINED_COLUMNS ? p->rows
                                                           : p->columns) /
                  (double)(p->rows + p->columns);
    const double bytes = (double)(work.read_bytes + work.written_bytes);
    d->compute_s *= shorter;
    d->memory_s *= 1 - (1 - share) * once / bytes;
    d->launch_s *= share;
    d->total_s =
        d->launch_s + (d->compute_s > d->memory_s ? d->compute_s : d->memory_s);
    j->kernels[task] = 1.0 / all->n;
}

static void share_out(join *j)
{
    for (int32_t i = 0; i < j->n_nodes; i++)
        j->all[j->nodes[i]] = (whole){0, 0};
    for (int32_t i = 0; i < j->n_nodes; i++) {
        const int32_t v = j->nodes[i];
        if (j->kind[v] == JOINED_NONE || is_sum(j, v))
            continue;
        ir_product p = work_of(j, v).product;
        whole *set = &j->all[root_of(j, v)];
        set->n++;
        set->sum += *side_of(&p, j->kind[v]);
    }
    for (int32_t i = 0; i < j->n_nodes; i++) {
        const int32_t v = j->nodes[i], task = j->task_of[v];
        if (j->kind[v] == JOINED_NONE)
            continue;
        if (is_sum(j, v)) {
            j->kernels[task] = 0;
            j->demand[task] = (plan_demand){.on_core = j->demand[task].on_core};
        } else if (j->all[root_of(j, v)].n > 1)
            take_share(j, v, &j->all[root_of(j, v)]);
    }
}

/* Of sets that are added up. */
static void find_beside(join *j)
{
    for (int32_t i = 0; i < j->n_nodes; i++) {
        const int32_t v = j->nodes[i];
        const ir_node *node = &j->graph->nodes.at[v];
        j->sets[v] = (beside){0, -1};
        if (node->op == IR_OP_weight_grad && node->forward >= 0)
            j->weight_grad[node->forward] = j->task_of[v];
    }
    for (int32_t i = 0; i < j->n_nodes; i++) {
        const int32_t v = j->nodes[i];
        const ir_node *node = &j->graph->nodes.at[v];
        if (j->kind[v] != JOINED_DEPTH || is_sum(j, v) || node->forward < 0 ||
            j->weight_grad[node->forward] < 0)
            continue;
        beside *set = &j->sets[root_of(j, v)];
        const int32_t task = j->weight_grad[node->forward];
        set->seconds += j->demand[task].total_s;
        set->last = task > set->last ? task : set->last;
    }
}

/* A collective on a stream of its own begins when the set's product towards the
 * activations is done, and goes on beside the one towards the weights, which
 * the plan has in front of it: what is hidden so is taken off. */
static void hide_collectives(join *j)
{
    const double slower =
        j->device->overlap_slowdown > 1 ? j->device->overlap_slowdown : 1;
    find_beside(j);
    for (int32_t i = 0; i < j->role->n_tasks; i++) {
        const plan_task *task = &j->role->tasks[i];
        plan_demand *d = &j->demand[i];
        if (task->kind != PLAN_BOX || task->comm < 0 ||
            task->phase != PLAN_BACKWARD || !(d->total_s > 0) ||
            j->role->streams[task->stream].kind != PLAN_STREAM_COMM)
            continue;
        const int32_t maker = j->maker[task->tensor];
        if (maker < 0 || j->kind[maker] != JOINED_DEPTH)
            continue;
        const beside *set = &j->sets[root_of(j, maker)];
        if (set->last < 0 || set->last > i)
            continue;
        const double hidden = fmin(d->total_s / slower, set->seconds);
        const double left = 1 - hidden / d->total_s;
        d->network_s *= left;
        d->latency_s *= left;
        d->launch_s *= left;
        d->total_s *= left;
    }
}

static int compare_nodes(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void take_role(join *j)
{
    const plan_role *role = j->role;
    j->n_nodes = 0;
    for (int32_t i = 0; i < role->n_tasks; i++) {
        const plan_task *task = &role->tasks[i];
        if (task->kind != PLAN_COMPUTE || task->phase >= PLAN_END)
            continue;
        if (j->task_of[task->node] < 0)
            j->nodes[j->n_nodes++] = task->node;
        j->task_of[task->node] = i;
    }
    qsort(j->nodes, (size_t)j->n_nodes, sizeof *j->nodes, compare_nodes);
}

static void leave_role(join *j)
{
    for (int32_t i = 0; i < j->n_nodes; i++) {
        const int32_t v = j->nodes[i];
        const ir_node *node = &j->graph->nodes.at[v];
        j->task_of[v] = -1;
        j->root[v] = v;
        j->kind[v] = JOINED_NONE;
        if (node->forward >= 0)
            j->weight_grad[node->forward] = -1;
        for (int32_t k = 0; k < node->n_in && k < 2; k++)
            for (int32_t f = 0; f < 3 && node->in[k] >= 0; f++)
                for (int32_t phase = 0; phase < PLAN_PHASES; phase++)
                    j->first[f][(ptrdiff_t)node->in[k] * PLAN_PHASES + phase] =
                        -1;
    }
}

cost_joiner *cost_joiner_create(const ir_graph *graph, const plan *p,
                                fs_arena *arena)
{
    const int32_t n = graph->nodes.n, tensors = graph->tensors.n;
    cost_joiner *j = fs_new(arena, cost_joiner, 1);
    *j = (cost_joiner){.graph = graph,
                       .plan = p,
                       .maker = none(arena, tensors),
                       .nodes = fs_new(arena, int32_t, n),
                       .task_of = none(arena, n),
                       .root = fs_new(arena, int32_t, n),
                       .members = fs_new(arena, int32_t, n),
                       .kind = fs_new(arena, joined_kind, n),
                       .all = fs_new(arena, whole, n),
                       .sets = fs_new(arena, beside, n),
                       .weight_grad = none(arena, n)};
    for (int32_t f = 0; f < 3; f++)
        j->first[f] = none(arena, tensors * PLAN_PHASES);
    for (int32_t v = 0; v < n; v++) {
        j->root[v] = v;
        j->kind[v] = JOINED_NONE;
        for (int32_t k = 0; k < graph->nodes.at[v].n_out; k++)
            j->maker[graph->nodes.at[v].out[k]] = v;
    }
    return j;
}

void cost_join_products(cost_joiner *j, const hw_device *device,
                        const plan_role *role, plan_demand *demand,
                        double *kernels)
{
    j->device = device;
    j->role = role;
    j->demand = demand;
    j->kernels = kernels;
    take_role(j);
    join_products(j);
    join_sums(j);
    share_out(j);
    hide_collectives(j);
    leave_role(j);
}
