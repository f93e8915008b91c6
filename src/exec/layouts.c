/* Which registers lie blocked (kernels/kernel.h): those between convolutions
 * and what reads and makes the same elements beside them. A register is so when
 * all who touch it are kernels that can; those that a kernel wants alike are
 * decided together. All ranks of a role decide the same, for pieces are even.
 */
#include "config.h"
#include "exec/rank.h"

#include <stdlib.h>

typedef struct choosing {
    exec_rank *rank;
    int32_t *group; /* [n_registers] union-find */
    bool *may;      /* by register, then by group */
    bool *gains;
    kernel_layout_use *use; /* [n_tasks] */
} choosing;

static int32_t find_group(const choosing *c, int32_t reg)
{
    while (c->group[reg] != reg)
        reg = c->group[reg];
    return reg;
}

static bool is_even(const ir_shape *shape, const ir_nd_sbp *sbp,
                    const ir_mesh *mesh)
{
    int64_t parts[IR_MAX_RANK];
    for (int32_t i = 0; i < shape->rank; i++)
        parts[i] = 1;
    for (int32_t a = 0; a < mesh->n; a++)
        if (sbp->at[a].kind == IR_S)
            parts[sbp->at[a].axis] *= mesh->dim[a];
    for (int32_t i = 0; i < shape->rank; i++)
        if (shape->dim[i] % parts[i] != 0)
            return false;
    return true;
}

static bool is_captured(const exec_rank *rank, int32_t tensor)
{
    for (int32_t i = 0; i < rank->options->n_fetch; i++)
        if (rank->options->fetch[i] == tensor)
            return true;
    return false;
}

/* A plane of one position lies in both ways at once: it binds nobody. */
static bool lies_both_ways(const kernel_arg *arg)
{
    return arg->shape.rank > 2 &&
           ir_shape_count(&arg->shape) == arg->shape.dim[0] * arg->shape.dim[1];
}

static bool may_lie_blocked(const exec_rank *rank, const plan_register *r)
{
    const ir_tensor *t = &rank->graph->tensors.at[r->tensor];
    return !r->persistent && t->dtype == IR_F32 && r->producer >= 0 &&
           is_even(&t->shape, &r->sbp, rank->mesh) &&
           !is_captured(rank, r->tensor);
}

/* One argument of a task; returns the register to go on with, of those that
 * must be alike. */
static int32_t look_at(choosing *c, int32_t reg, int32_t tensor,
                       const kernel_arg *arg, kernel_layouts use, bool gains,
                       int32_t together)
{
    if (lies_both_ways(arg))
        return together;
    const int32_t group = find_group(c, reg);
    if (use == KERNEL_FIXED || !kernel_may_block(arg) ||
        c->rank->role->registers[reg].tensor != tensor)
        c->may[group] = false;
    if (use == KERNEL_EITHER)
        c->gains[group] |= gains;
    if (use != KERNEL_TOGETHER)
        return together;
    if (together < 0)
        return group;
    together = find_group(c, together);
    c->group[group] = together;
    c->may[together] = c->may[together] && c->may[group];
    c->gains[together] = c->gains[together] || c->gains[group];
    return together;
}

static void look_at_task(choosing *c, int32_t at)
{
    const exec_task *t = &c->rank->tasks[at];
    const plan_task *task = t->task;
    kernel_layout_use *use = &c->use[at];
    const bool computes = task->kind == PLAN_COMPUTE;
    const ir_node *node =
        computes ? &c->rank->graph->nodes.at[task->node] : NULL;
    int32_t together = -1;
    if (!computes || node->op == IR_OP_output) {
        for (int32_t i = 0; i < task->n_in; i++)
            c->may[find_group(c, task->in[i])] = false;
        for (int32_t i = 0; i < task->n_out; i++)
            c->may[find_group(c, task->out[i])] = false;
        return;
    }
    kernel_layout_uses(&t->call, use);
    for (int32_t i = 0; i < task->n_in; i++)
        together = look_at(c, task->in[i], node->in[i], &t->call.in[i],
                           use->in[i], use->gains, together);
    for (int32_t i = 0; i < task->n_out; i++)
        together = look_at(c, task->out[i], node->out[i], &t->call.out[i],
                           use->out[i], use->gains, together);
}

static void set_layout(const choosing *c, int32_t reg, kernel_layouts use,
                       kernel_arg *arg)
{
    const int32_t group = find_group(c, reg);
    const bool both = lies_both_ways(arg) && kernel_may_block(arg);
    if (use != KERNEL_FIXED &&
        (both || (!lies_both_ways(arg) && c->may[group] && c->gains[group])))
        arg->layout = KERNEL_BLOCKED;
}

static void set_layouts(const choosing *c, int32_t at)
{
    exec_task *t = &c->rank->tasks[at];
    const plan_task *task = t->task;
    if (task->kind != PLAN_COMPUTE)
        return;
    for (int32_t i = 0; i < task->n_in; i++)
        set_layout(c, task->in[i], c->use[at].in[i], &t->call.in[i]);
    for (int32_t i = 0; i < task->n_out; i++)
        set_layout(c, task->out[i], c->use[at].out[i], &t->call.out[i]);
}

fs_status exec_rank_choose_layouts(exec_rank *rank, fs_err *err)
{
    const size_t n = (size_t)rank->role->n_registers + 1;
    choosing c = {.rank = rank,
                  .group = calloc(n, sizeof *c.group),
                  .may = calloc(n, sizeof *c.may),
                  .gains = calloc(n, sizeof *c.gains),
                  .use =
                      calloc((size_t)rank->role->n_tasks + 1, sizeof *c.use)};
    const bool room = c.group && c.may && c.gains && c.use;
    for (int32_t i = 0; room && i < rank->role->n_registers; i++) {
        c.group[i] = i;
        c.may[i] = may_lie_blocked(rank, &rank->role->registers[i]);
    }
    for (int32_t i = 0; room && i < rank->role->n_tasks; i++)
        look_at_task(&c, i);
    for (int32_t i = 0; room && i < rank->role->n_tasks; i++)
        set_layouts(&c, i);
    free(c.group);
    free(c.may);
    free(c.gains);
    free(c.use);
    return room ? FS_OK : fs_fail(err, FS_FAULT, "out of memory for layouts");
}
