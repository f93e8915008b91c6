#include "config.h"
#include "plan/check_parts.h"

#include <inttypes.h>

/* Of a node's signatures on a mesh, how many are looked at and told when its
 * own is none of them. */
enum { MOST_TRIED = 1 << 14, MOST_NEAREST = 3 };

/* ---- strategy and graph fit ---- */

#define WRONG(c, ...) plan_check_add((c), PLAN_FINDING_SBP, __VA_ARGS__)

static const ir_tensor *tensor_at(const plan_checking *c, int32_t t)
{
    return &c->graph->tensors.at[t];
}

static const plan_stage *stage_at(const plan_checking *c, int32_t node)
{
    const plan_strategy *s = c->p->strategy;
    return &s->stages[s->stage_of[node]];
}

/* How the node that makes `tensor` leaves it. */
static const ir_nd_sbp *made_as(const plan_checking *c, int32_t tensor)
{
    const ir_tensor *t = tensor_at(c, tensor);
    return &c->p->strategy->sig[t->producer].out[t->slot];
}

static const char *sbp_text(const plan_checking *c, const ir_nd_sbp *sbp,
                            int32_t n_axes)
{
    char text[64];
    return fs_strdup(c->scratch, ir_nd_sbp_text(text, sbp, n_axes));
}

static bool signature_fits(const plan_checking *c, int32_t v)
{
    const ir_node *node = &c->graph->nodes.at[v];
    const ir_nd_sig *sig = &c->p->strategy->sig[v];
    const ir_mesh *mesh = &stage_at(c, v)->mesh;
    for (int32_t i = 0; i < node->n_in; i++)
        if (!ir_nd_sbp_fits(&sig->in[i], &tensor_at(c, node->in[i])->shape,
                            mesh))
            return false;
    for (int32_t i = 0; i < node->n_out; i++)
        if (!ir_nd_sbp_fits(&sig->out[i], &tensor_at(c, node->out[i])->shape,
                            mesh))
            return false;
    return ir_signature_legal(c->graph, node, mesh, sig);
}

/* Tensors that lie otherwise, counted once per mesh axis. */
static int32_t sig_distance(const ir_node *node, const ir_nd_sig *a,
                            const ir_nd_sig *b, int32_t n_axes)
{
    int32_t n = 0;
    for (int32_t axis = 0; axis < n_axes; axis++) {
        for (int32_t i = 0; i < node->n_in; i++)
            n += !ir_sbp_equal(a->in[i].at[axis], b->in[i].at[axis]);
        for (int32_t i = 0; i < node->n_out; i++)
            n += !ir_sbp_equal(a->out[i].at[axis], b->out[i].at[axis]);
    }
    return n;
}

/* All of a node's, but on a mesh of so many axes that they are too many. */
static ir_nd_sig_list all_signatures(const plan_checking *c, int32_t v)
{
    const ir_node *node = &c->graph->nodes.at[v];
    const ir_mesh *mesh = &stage_at(c, v)->mesh;
    ir_sig_list one = {0};
    ir_nd_sig_list all = {0};
    int64_t n = 1;
    ir_signatures_1d(c->graph, node, c->scratch, &one);
    for (int32_t axis = 0; axis < mesh->n; axis++)
        n *= mesh->dim[axis] > 1 && n <= MOST_TRIED ? one.n : 1;
    if (n <= MOST_TRIED)
        ir_signatures(c->graph, node, mesh, c->scratch, &all);
    return all;
}

/* "; nearest legal: B B -> B, ..", or nothing. */
static const char *nearest_text(const plan_checking *c, int32_t v)
{
    const ir_node *node = &c->graph->nodes.at[v];
    const ir_nd_sig *sig = &c->p->strategy->sig[v];
    const int32_t n_axes = stage_at(c, v)->mesh.n;
    const ir_nd_sig_list all = all_signatures(c, v);
    fs_text text = {.arena = c->scratch};
    int32_t least = INT32_MAX, told = 0;
    for (int32_t i = 0; i < all.n; i++) {
        const int32_t d = sig_distance(node, sig, &all.at[i], n_axes);
        least = d < least ? d : least;
    }
    for (int32_t i = 0; i < all.n && told < MOST_NEAREST; i++)
        if (sig_distance(node, sig, &all.at[i], n_axes) == least)
            fs_text_add(
                &text, "%s%s", told++ ? ", " : "; nearest legal: ",
                ir_signature_text(node, &all.at[i], n_axes, c->scratch));
    return text.at ? text.at : "";
}

static void check_signature(plan_checking *c, int32_t v)
{
    const ir_node *node = &c->graph->nodes.at[v];
    const int32_t n_axes = stage_at(c, v)->mesh.n;
    if (!signature_fits(c, v))
        WRONG(c,
              "strategy: node %s, %s: %s is not legal on the mesh of stage "
              "%d%s",
              node->name, ir_op_table[node->op]->name,
              ir_signature_text(node, &c->p->strategy->sig[v], n_axes,
                                c->scratch),
              c->p->strategy->stage_of[v], nearest_text(c, v));
}

/* Not what a view reads, nor what crosses stages. */
static bool may_be_anew(const plan_checking *c, int32_t v,
                        const plan_ends *ends)
{
    return !plan_ends_cross(ends) &&
           ir_op_class_of(c->graph->nodes.at[v].op) != IR_CLASS_VIEW;
}

static void check_edge(plan_checking *c, int32_t v, int32_t slot)
{
    const plan_strategy *s = c->p->strategy;
    const plan_boxing *path = &s->edge[s->first_edge[v] + slot];
    const plan_ends ends = plan_edge_ends(c->graph, s, v, slot);
    if (ends.tensor == NULL) /* of a variable that is not trained */
        return;
    if (path->sharing < 0 || (path->sharing && !may_be_anew(c, v, &ends)))
        WRONG(c, "strategy: %s cannot have %s boxed anew",
              c->graph->nodes.at[v].name, ends.tensor->name);
    const char *why = plan_path_wrong(&ends, path);
    if (why == NULL)
        return;
    WRONG(c,
          "strategy: %s is made as %s, %s wants %s, and the boxing of %d "
          "steps does not lead there: %s",
          ends.tensor->name, sbp_text(c, ends.from, ends.from_stage->mesh.n),
          c->graph->nodes.at[v].name,
          sbp_text(c, ends.to, ends.to_stage->mesh.n), path->n, why);
}

void plan_check_strategy(plan_checking *c)
{
    const plan_strategy *s = c->p->strategy;
    int32_t before = c->report->n;
    for (int32_t v = 0; v < s->n_nodes && !plan_check_full(c); v++)
        check_signature(c, v);
    if (c->report->n != before)
        return;
    for (int32_t v = 0; v < s->n_nodes; v++)
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++)
            check_edge(c, v, e - s->first_edge[v]);
}

/* ---- tasks and registers ---- */

typedef struct sbp_check {
    plan_checking *c;
    int32_t role;
    const plan_role *r;
    const ir_mesh *mesh;
} sbp_check;

/* Does a register with (held, held_as) hold `tensor` as `sbp`? Views are no
 * tasks: their output lies in the bytes of what they view, under the SBP that
 * the view's signature maps theirs to. */
static bool holds(const sbp_check *x, const plan_register *g, int32_t tensor,
                  const ir_nd_sbp *sbp)
{
    const plan_strategy *s = x->c->p->strategy;
    ir_nd_sbp as = *sbp;
    while (tensor != g->tensor) {
        int32_t v = tensor_at(x->c, tensor)->producer;
        const ir_node *node = &x->c->graph->nodes.at[v];
        if (ir_op_class_of(node->op) != IR_CLASS_VIEW || node->n_in == 0 ||
            !ir_nd_sbp_equal(&s->sig[v].out[0], &as, x->mesh->n))
            return false;
        tensor = node->in[0];
        as = s->sig[v].in[0];
    }
    return ir_nd_sbp_equal(&g->sbp, &as, x->mesh->n);
}

/* A register that a task writes `tensor` into: named for it, or for the
 * variable that takes its value. */
static bool takes(const sbp_check *x, const plan_register *g, int32_t tensor,
                  const ir_nd_sbp *sbp)
{
    bool named = g->tensor == tensor ||
                 (g->persistent && tensor_at(x->c, g->tensor)->next == tensor);
    return named && ir_nd_sbp_equal(&g->sbp, sbp, x->mesh->n);
}

static const char *held(const sbp_check *x, const plan_register *g)
{
    return fs_printf(x->c->scratch, "%s as %s",
                     tensor_at(x->c, g->tensor)->name,
                     sbp_text(x->c, &g->sbp, x->mesh->n));
}

static void check_reads(const sbp_check *x, int32_t t, int32_t reg,
                        int32_t tensor, const ir_nd_sbp *sbp)
{
    const plan_register *g = &x->r->registers[reg];
    if (!holds(x, g, tensor, sbp))
        WRONG(x->c, "%s reads %s as %s, but register %d holds %s",
              plan_check_task_text(x->c, x->role, -1, t),
              tensor_at(x->c, tensor)->name, sbp_text(x->c, sbp, x->mesh->n),
              reg, held(x, g));
}

static void check_writes(const sbp_check *x, int32_t t, int32_t reg,
                         int32_t tensor, const ir_nd_sbp *sbp)
{
    const plan_register *g = &x->r->registers[reg];
    if (!takes(x, g, tensor, sbp))
        WRONG(x->c, "%s makes %s as %s, but register %d is for %s",
              plan_check_task_text(x->c, x->role, -1, t),
              tensor_at(x->c, tensor)->name, sbp_text(x->c, sbp, x->mesh->n),
              reg, held(x, g));
}

/* In the pieces that the register is for: on another stage than its node's an
 * input is made as it is wanted. */
static void check_load(const sbp_check *x, int32_t t)
{
    const plan_task *task = &x->r->tasks[t];
    const ir_node *node = &x->c->graph->nodes.at[task->node];
    const plan_register *g = &x->r->registers[task->out[0]];
    const bool home =
        plan_role_has_stage(x->r, x->c->p->strategy->stage_of[task->node]);
    check_writes(x, t, task->out[0], node->out[0],
                 home ? &x->c->p->strategy->sig[task->node].out[0] : &g->sbp);
}

static void check_compute(const sbp_check *x, int32_t t)
{
    const plan_task *task = &x->r->tasks[t];
    const ir_node *node = &x->c->graph->nodes.at[task->node];
    const ir_nd_sig *sig = &x->c->p->strategy->sig[task->node];
    for (int32_t i = 0; i < task->n_in; i++)
        check_reads(x, t, task->in[i], node->in[i], &sig->in[i]);
    for (int32_t i = 0; i < task->n_out; i++)
        check_writes(x, t, task->out[i], node->out[i], &sig->out[i]);
}

/* One tensor of it. */
static void check_part(const sbp_check *x, int32_t t, int32_t i)
{
    const plan_task *task = &x->r->tasks[t];
    const plan_part part = plan_task_part(task, i);
    const ir_tensor *tensor = tensor_at(x->c, part.tensor);
    const plan_box_step *box = &part.box;
    plan_box_step made;
    if (!ir_nd_sbp_fits(&box->from, &tensor->shape, x->mesh) ||
        !ir_nd_sbp_fits(&box->to, &tensor->shape, x->mesh) ||
        !plan_box_step_make(tensor, x->mesh, &box->from, &box->to, &made) ||
        made.kind != box->kind || made.axes != box->axes ||
        made.bytes_in != box->bytes_in || made.bytes_out != box->bytes_out) {
        WRONG(x->c,
              "%s: %s to %s of %s is no %s on axes %s with %" PRId64
              " bytes in and %" PRId64 " out",
              plan_check_task_text(x->c, x->role, -1, t),
              sbp_text(x->c, &box->from, x->mesh->n),
              sbp_text(x->c, &box->to, x->mesh->n), tensor->name,
              plan_box_name(box->kind),
              plan_axes_text(box->axes, x->c->scratch), box->bytes_in,
              box->bytes_out);
        return;
    }
    check_reads(x, t, task->in[i], part.tensor, &box->from);
    check_writes(x, t, task->out[i], part.tensor, &box->to);
}

static void check_box(const sbp_check *x, int32_t t)
{
    for (int32_t i = 0; i < plan_task_n_parts(&x->r->tasks[t]); i++)
        check_part(x, t, i);
}

static void check_move(const sbp_check *x, int32_t t)
{
    const plan_task *task = &x->r->tasks[t];
    const plan_cross cross = plan_task_cross(x->c->graph, x->c->p, task);
    if (!plan_cross_is_legal(&cross))
        WRONG(x->c, "%s: from %s to %s is no exchange of the two stages",
              plan_check_task_text(x->c, x->role, -1, t),
              sbp_text(x->c, &cross.from, cross.from_stage->mesh.n),
              sbp_text(x->c, &cross.to, cross.to_stage->mesh.n));
    else if (task->kind == PLAN_SEND)
        check_reads(x, t, task->in[0], task->tensor, &task->sbp);
    else
        check_writes(x, t, task->out[0], task->tensor, &task->sbp);
}

static void check_task(const sbp_check *x, int32_t t)
{
    const plan_task *task = &x->r->tasks[t];
    switch (task->kind) {
    case PLAN_COMPUTE:
        check_compute(x, t);
        break;
    case PLAN_LOAD:
        check_load(x, t);
        break;
    case PLAN_BOX:
        check_box(x, t);
        break;
    default:
        check_move(x, t);
    }
}

/* As its node gives it; a constant on another stage as its register says. */
static bool is_given_so(const sbp_check *x, const plan_register *g)
{
    const ir_tensor *t = tensor_at(x->c, g->tensor);
    const ir_nd_sbp *sbp = made_as(x->c, g->tensor);
    const int32_t home = x->c->p->strategy->stage_of[t->producer];
    if (t->role != IR_CONST || plan_role_has_stage(x->r, home))
        return ir_nd_sbp_equal(sbp, &g->sbp, x->mesh->n);
    return true;
}

/* What is there from the start is a variable or constant as its node gives it,
 * and a variable that has a next value takes it. */
static void check_source(const sbp_check *x, int32_t reg)
{
    const plan_register *g = &x->r->registers[reg];
    const ir_tensor *t = tensor_at(x->c, g->tensor);
    bool source = t->role == IR_PARAM || t->role == IR_STATE ||
                  t->role == IR_BUFFER || t->role == IR_CONST;
    if (!source || !is_given_so(x, g))
        WRONG(x->c,
              "register %d of %s is to hold %s from the start, but that "
              "is no variable or constant in that SBP",
              reg, plan_check_ranks_text(x->c, x->role), held(x, g));
    else if (t->role != IR_CONST &&
             !plan_role_has_stage(x->r,
                                  x->c->p->strategy->stage_of[t->producer]))
        WRONG(x->c, "register %d of %s: %s is a variable of another stage", reg,
              plan_check_ranks_text(x->c, x->role), held(x, g));
    else if ((t->next >= 0) != (g->producer >= 0))
        WRONG(x->c, "register %d of %s: %s %s", reg,
              plan_check_ranks_text(x->c, x->role), held(x, g),
              t->next >= 0 ? "never takes its next value"
                           : "is written, but has no next value");
}

/* A boxing within the forward or backward pass makes pieces anew for each
 * micro-batch, also of what changes once per step. */
static bool changes_per_step(const sbp_check *x, const plan_register *g)
{
    const plan_task *made = g->producer >= 0 ? &x->r->tasks[g->producer] : NULL;
    const bool anew =
        made && made->kind == PLAN_BOX && !plan_phase_once(made->phase);
    return plan_tensor_per_step(x->c->graph, g->tensor) && !anew;
}

/* Piece sizes and rates. */
static void check_register(const sbp_check *x, int32_t reg)
{
    const plan_register *g = &x->r->registers[reg];
    const ir_tensor *t = tensor_at(x->c, g->tensor);
    if (!ir_nd_sbp_fits(&g->sbp, &t->shape, x->mesh)) {
        WRONG(x->c, "register %d of %s: %s does not fit the mesh", reg,
              plan_check_ranks_text(x->c, x->role), held(x, g));
        return;
    }
    ir_shape piece = ir_largest_piece(&t->shape, &g->sbp, x->mesh);
    int64_t bytes = ir_shape_count(&piece) * ir_dtype_bytes(t->dtype);
    if (g->bytes < bytes)
        plan_check_add(x->c, PLAN_FINDING_MEMORY,
                       "register %d of %s has %" PRId64
                       " bytes, a piece of %s needs %" PRId64,
                       reg, plan_check_ranks_text(x->c, x->role), g->bytes,
                       held(x, g), bytes);
    if (g->per_step != changes_per_step(x, g))
        WRONG(x->c, "register %d of %s: %s does not change once per %s", reg,
              plan_check_ranks_text(x->c, x->role), held(x, g),
              g->per_step ? "step" : "micro-batch");
    if (g->persistent)
        check_source(x, reg);
}

/* Each role of a stage runs each of its nodes once: per step when it is an
 * update, else per micro-batch. Sources and views are no tasks. */
static void check_complete(const sbp_check *x)
{
    const plan_checking *c = x->c;
    int32_t *times = fs_new(c->scratch, int32_t, c->graph->nodes.n);
    for (int32_t t = 0; t < x->r->n_tasks; t++) {
        const plan_task *task = &x->r->tasks[t];
        bool micro = !plan_phase_once(task->phase);
        if (task->kind == PLAN_COMPUTE || task->kind == PLAN_LOAD)
            times[task->node]++;
        if ((task->kind == PLAN_COMPUTE &&
             micro == (c->graph->nodes.at[task->node].phase == IR_UPDATE)) ||
            (task->kind == PLAN_LOAD && !micro))
            WRONG(x->c, "%s runs once per %s",
                  plan_check_task_text(c, x->role, -1, t),
                  micro ? "micro-batch" : "step");
    }
    for (int32_t v = 0; v < c->graph->nodes.n; v++) {
        const ir_node *node = &c->graph->nodes.at[v];
        ir_op_class op_class = ir_op_class_of(node->op);
        if (plan_role_has_stage(x->r, c->p->strategy->stage_of[v]) &&
            times[v] != 1 && op_class != IR_CLASS_SOURCE &&
            op_class != IR_CLASS_VIEW)
            plan_check_add(
                x->c, PLAN_FINDING_STRUCTURE, "%s run node %s %d times",
                plan_check_ranks_text(c, x->role), node->name, times[v]);
    }
}

void plan_check_sbp(plan_checking *c)
{
    if (c->report->n > 0) /* signatures that do not fit have no pieces */
        return;
    for (int32_t role = 0; role < c->p->n_roles; role++) {
        const plan_role *r = &c->p->roles[role];
        sbp_check x = {c, role, r, plan_role_mesh(c->p, r)};
        for (int32_t i = 0; i < r->n_registers && !plan_check_full(c); i++)
            check_register(&x, i);
        for (int32_t i = 0; i < r->n_tasks && !plan_check_full(c); i++)
            check_task(&x, i);
        check_complete(&x);
    }
}
