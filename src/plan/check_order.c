#include "config.h"
#include "plan/check_parts.h"

#define WRONG(c, ...) plan_check_add((c), PLAN_FINDING_ORDER, __VA_ARGS__)

/* Two streams of a role run in no fixed order, so one line needs one stream. */
static void check_one_stream(plan_checking *c, int32_t role, int32_t line)
{
    const plan_role *r = &c->p->roles[role];
    const plan_issue_list *list = &c->issues[role * c->n_lines + line];
    for (int32_t i = 1; i < list->n; i++) {
        const plan_issue *a = &list->at[0], *b = &list->at[i];
        if (r->tasks[a->task].stream == r->tasks[b->task].stream)
            continue;
        WRONG(c,
              "%s is used from two streams of one rank, %d by %s and %d by "
              "%s, so that its order is not fixed",
              plan_check_line_text(c, line), r->tasks[a->task].stream,
              plan_check_task_text(c, role, a->slot, a->task),
              r->tasks[b->task].stream,
              plan_check_task_text(c, role, b->slot, b->task));
        return;
    }
}

static const char *issue_text(const plan_checking *c, int32_t role,
                              const plan_issue *issue)
{
    const plan_role *r = &c->p->roles[role];
    const plan_task *task = &r->tasks[issue->task];
    const ir_mesh *mesh = plan_role_mesh(c->p, r);
    char from[64], to[64];
    if (task->kind == PLAN_BOX) {
        ir_nd_sbp_text(from, &task->box.from, mesh->n);
        ir_nd_sbp_text(to, &task->box.to, mesh->n);
    } else {
        const plan_cross cross = plan_task_cross(c->graph, c->p, task);
        ir_nd_sbp_text(from, &cross.from, cross.from_stage->mesh.n);
        ir_nd_sbp_text(to, &cross.to, cross.to_stage->mesh.n);
    }
    return fs_printf(c->scratch, "%s %s -> %s",
                     plan_check_task_text(c, role, issue->slot, issue->task),
                     from, to);
}

/* Both on one channel. */
static bool same_cross(const plan_checking *c, const plan_task *a,
                       const plan_task *b)
{
    const plan_cross x = plan_task_cross(c->graph, c->p, a);
    const plan_cross y = plan_task_cross(c->graph, c->p, b);
    return ir_nd_sbp_equal(&x.from, &y.from, x.from_stage->mesh.n) &&
           ir_nd_sbp_equal(&x.to, &y.to, x.to_stage->mesh.n);
}

static bool same_step(const plan_box_step *a, const plan_box_step *b,
                      int32_t axes)
{
    return a->kind == b->kind && ir_nd_sbp_equal(&a->from, &b->from, axes) &&
           ir_nd_sbp_equal(&a->to, &b->to, axes) &&
           a->bytes_in == b->bytes_in && a->bytes_out == b->bytes_out;
}

static bool same_parts(const plan_task *a, const plan_task *b, int32_t axes)
{
    if (a->n_parts != b->n_parts)
        return false;
    for (int32_t i = 0; i < a->n_parts; i++)
        if (a->parts[i].tensor != b->parts[i].tensor ||
            !same_step(&a->parts[i].box, &b->parts[i].box, axes))
            return false;
    return true;
}

/* The same transfer, seen from two roles? */
static bool same_issue(const plan_checking *c, int32_t role_a,
                       const plan_issue *a, int32_t role_b, const plan_issue *b)
{
    const plan_role *ra = &c->p->roles[role_a], *rb = &c->p->roles[role_b];
    const plan_task *ta = &ra->tasks[a->task], *tb = &rb->tasks[b->task];
    int32_t axes = plan_role_mesh(c->p, ra)->n;
    if (ta->tensor != tb->tensor || ta->phase != tb->phase ||
        ra->slots[a->slot].micro_batch != rb->slots[b->slot].micro_batch)
        return false;
    if (ta->kind != PLAN_BOX)
        return tb->kind != PLAN_BOX && same_cross(c, ta, tb);
    return tb->kind == PLAN_BOX && same_step(&ta->box, &tb->box, axes) &&
           same_parts(ta, tb, axes);
}

static void compare_roles(plan_checking *c, int32_t line, int32_t a, int32_t b)
{
    const plan_issue_list *la = &c->issues[a * c->n_lines + line];
    const plan_issue_list *lb = &c->issues[b * c->n_lines + line];
    int32_t n = la->n < lb->n ? la->n : lb->n;
    for (int32_t i = 0; i < n; i++) {
        if (same_issue(c, a, &la->at[i], b, &lb->at[i]))
            continue;
        WRONG(c, "%s: the issues number %d differ: %s, but %s",
              plan_check_line_text(c, line), i, issue_text(c, a, &la->at[i]),
              issue_text(c, b, &lb->at[i]));
        return;
    }
    if (la->n == lb->n)
        return;
    int32_t longer = la->n > lb->n ? a : b;
    WRONG(c,
          "%s: %s issues %d times, %s %d times; the first without partner "
          "is %s",
          plan_check_line_text(c, line), plan_check_ranks_text(c, a), la->n,
          plan_check_ranks_text(c, b), lb->n,
          issue_text(c, longer, la->n > lb->n ? &la->at[n] : &lb->at[n]));
}

void plan_check_order(plan_checking *c)
{
    int32_t *root = fs_new(c->scratch, int32_t, c->p->n_roles);
    for (int32_t line = 0; line < c->n_lines && !plan_check_full(c); line++) {
        plan_check_partners(c, line, root);
        for (int32_t r = 0; r < c->p->n_roles; r++) {
            if (root[r] < 0)
                continue;
            check_one_stream(c, r, line);
            if (root[r] != r)
                compare_roles(c, line, root[r], r);
        }
    }
}
