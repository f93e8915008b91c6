/* The timing table of a plan: the isolated demand of every task. */
#include "config.h"
#include "cost/parts.h"

typedef struct timer {
    const cost_model *model;
    const ir_graph *graph;
    const plan *plan;
    const plan_stage *stage; /* of a role: their meshes are equal */
} timer;

static plan_demand time_move(const timer *t, const plan_task *task)
{
    const plan_cross cross = plan_task_cross(t->graph, t->plan, task);
    return cost_cross(t->model, &cross);
}

static plan_demand time_load(const timer *t, const plan_role *role,
                             const plan_task *task)
{
    const ir_node *node = &t->graph->nodes.at[task->node];
    int64_t bytes =
        cost_piece_bytes(&t->graph->tensors.at[node->out[0]],
                         &role->registers[task->out[0]].sbp, &t->stage->mesh);
    return cost_load(t->model, t->stage, bytes);
}

/* What is fired without taking time itself, as an output or a message that is
 * on its way, is fired all the same. */
static plan_demand fired(const timer *t, plan_demand demand)
{
    cost_fire(t->model, t->stage, &demand);
    return demand;
}

static plan_demand time_compute(const timer *t, const plan_task *task)
{
    const ir_node *node = &t->graph->nodes.at[task->node];
    const ir_op_class kind = ir_op_class_of(node->op);
    const plan_demand demand =
        cost_op(t->model, t->graph, node, &t->plan->strategy->sig[task->node],
                t->stage);
    return kind == IR_CLASS_SOURCE || kind == IR_CLASS_VIEW ? fired(t, demand)
                                                            : demand;
}

static plan_demand time_task(const timer *t, const plan_role *role,
                             const plan_task *task)
{
    switch (task->kind) {
    case PLAN_COMPUTE:
        return time_compute(t, task);
    case PLAN_LOAD:
        return fired(t, time_load(t, role, task));
    case PLAN_BOX:
        return fired(t, cost_box_step(t->model, t->stage, &task->box));
    case PLAN_SEND:
    case PLAN_RECV:
        return fired(t, time_move(t, task));
    default:
        FS_ASSERT(!"a task of a kind that has no cost");
        return (plan_demand){0};
    }
}

plan_timing *cost_timing(const cost_model *model, const ir_graph *graph,
                         const plan *p, fs_arena *arena)
{
    plan_timing *timing = plan_timing_new(p, "predicted", arena);
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        timer t = {model, graph, p, &p->strategy->stages[role->stages[0]]};
        for (int32_t i = 0; i < role->n_tasks; i++)
            timing->demand[r][i] = time_task(&t, role, &role->tasks[i]);
    }
    return timing;
}

/* A run knows what its tasks took by themselves. What meetings take of the
 * clock is the machine's: ranks wait for the slowest, and where they outnumber
 * the cores for their turn. */
void cost_timing_meet(const cost_model *model, const plan *p,
                      plan_timing *timing)
{
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        const plan_stage *stage = &p->strategy->stages[role->stages[0]];
        const double turn_s = cost_turn_seconds(model, stage);
        for (int32_t i = 0; i < role->n_tasks; i++) {
            const plan_task *task = &role->tasks[i];
            const bool meets = task->kind == PLAN_SEND ||
                               task->kind == PLAN_RECV ||
                               (task->kind == PLAN_BOX &&
                                plan_box_is_collective(task->box.kind));
            const double turns_s =
                meets && task->kind == PLAN_BOX
                    ? cost_turns_seconds(model, stage, &task->box)
                    : turn_s;
            plan_demand *demand = &timing->demand[r][i];
            if (task->kind == PLAN_COMPUTE || task->kind == PLAN_BOX)
                cost_wait_for_slowest(model, stage, demand);
            cost_fire(model, stage, demand);
            if (!meets)
                continue;
            demand->latency_s += turns_s;
            demand->total_s += turns_s;
        }
    }
}
