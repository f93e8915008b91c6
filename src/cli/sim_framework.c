/* sim --framework: what it takes with it, and what of the plan that framework
 * would not run so. */
#include "config.h"
#include "cli/simulate.h"
#include "cli/collectives.h"

#include "base/clock.h"
#include "hw/curves.h"

#include <string.h>

fs_status cli_take_collectives(cli *c, cli_plan *p)
{
    hw_cluster *own = fs_memdup(c->arena, p->cluster, sizeof *own);
    own->groups = fs_memdup(c->arena, own->groups,
                            (size_t)own->n_groups * sizeof *own->groups);
    for (int32_t g = 0; g < own->n_groups; g++)
        FS_TRY(hw_collectives_open(c->data_dir, c->arena, &c->err,
                                   &own->groups[g]));
    p->cluster = own;
    p->cost = cli_cost_model(c, own);
    return FS_OK;
}

/* Is a weight of a product, or a table, in pieces where it is used? */
static bool cuts_tensors(const cli_plan *p)
{
    const ir_graph *g = p->model.graph;
    const plan_strategy *s = p->plan->strategy;
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        const ir_mesh *mesh = &s->stages[s->stage_of[v]].mesh;
        if (node->phase != IR_FORWARD || node->op != IR_OP_matmul ||
            g->tensors.at[node->in[1]].shape.rank != 2)
            continue;
        for (int32_t a = 0; a < mesh->n; a++)
            if (mesh->dim[a] > 1 && s->sig[v].in[1].at[a].kind == IR_S)
                return true;
    }
    return false;
}

fs_status cli_open_framework(cli *c, cli_plan *p, cost_framework *out)
{
    const char *said = c->args.timing;
    if (!c->args.framework)
        return FS_OK;
    if (said && strcmp(said, "predicted") != 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--framework %.80s has no effect: the durations are "
                       "those of run %.20s",
                       c->args.framework, said);
    FS_TRY(cost_framework_open(c->args.framework, c->data_dir, c->arena,
                               &c->err, out));
    FS_TRY(cli_check_framework_collectives(c, out));
    if (out->tensor_alone && cuts_tensors(p))
        out->overlaps = out->own_stream = false;
    return cli_take_collectives(c, p);
}

/* "8/4": blocks of each stage, by attention; NULL: all have as many. */
static const char *uneven(cli *c, const cli_plan *p)
{
    const ir_graph *g = p->model.graph;
    const plan_strategy *s = p->plan->strategy;
    int32_t *blocks = fs_new(c->arena, int32_t, s->n_stages);
    fs_text text = {.arena = c->arena};
    bool same = true;
    for (int32_t v = 0; v < g->nodes.n; v++)
        blocks[s->stage_of[v]] += g->nodes.at[v].phase == IR_FORWARD &&
                                  g->nodes.at[v].op == IR_OP_attention;
    for (int32_t i = 0; i < s->n_stages; i++) {
        same = same && blocks[i] == blocks[0];
        fs_text_add(&text, "%s%d", i ? "/" : "", blocks[i]);
    }
    return same ? NULL : text.at;
}

static int64_t rows_of_table(const ir_graph *g)
{
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        if (node->op == IR_OP_gather && node->phase == IR_FORWARD &&
            g->tensors.at[node->in[0]].role == IR_PARAM)
            return g->tensors.at[node->in[0]].shape.dim[0];
    }
    return 0;
}

/* What a kept tensor is to an optimizer; COST_SHARDED: nothing. */
static cost_sharded kept_as(const ir_graph *g, const ir_node *node)
{
    const ir_role role = g->tensors.at[node->out[0]].role;
    if (node->op == IR_OP_accumulate)
        return COST_GRADIENTS;
    if (node->op != IR_OP_variable)
        return COST_SHARDED;
    return role == IR_PARAM   ? COST_PARAMETERS
           : role == IR_STATE ? COST_STATES
                              : COST_SHARDED;
}

/* How the forward pass uses each tensor on the stage that makes it: as the
 * first node that reads it; NULL: none does. */
static const ir_nd_sbp **find_uses(cli *c, const cli_plan *p)
{
    const ir_graph *g = p->model.graph;
    const plan_strategy *s = p->plan->strategy;
    const ir_nd_sbp **used = fs_new(c->arena, const ir_nd_sbp *, g->tensors.n);
    for (int32_t v = 0; v < g->nodes.n; v++)
        for (int32_t k = 0; k < g->nodes.at[v].n_in; k++) {
            const int32_t t = g->nodes.at[v].in[k];
            const int32_t maker = t < 0 ? -1 : g->tensors.at[t].producer;
            if (maker >= 0 && !used[t] && g->nodes.at[v].phase == IR_FORWARD &&
                s->stage_of[v] == s->stage_of[maker])
                used[t] = &s->sig[v].in[k];
        }
    return used;
}

/* Axes of a stage's mesh, a bit each, on which products take samples apart and
 * weights whole: those of data parallel ranks, by its first product. */
static uint32_t data_axes(const cli_plan *p, int32_t stage)
{
    const ir_graph *g = p->model.graph;
    const plan_strategy *s = p->plan->strategy;
    const ir_mesh *mesh = &s->stages[stage].mesh;
    uint32_t axes = 0;
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        const ir_nd_sbp *in = s->sig[v].in;
        if (s->stage_of[v] != stage || node->phase != IR_FORWARD ||
            !ir_op_is_dense(node->op) || node->n_in < 2)
            continue;
        for (int32_t a = 0; a < mesh->n; a++)
            if (mesh->dim[a] > 1 && in[0].at[a].kind == IR_S &&
                in[0].at[a].axis == 0 && in[1].at[a].kind == IR_B)
                axes |= 1u << a;
        break;
    }
    return axes;
}

static bool is_cut_further(uint32_t axes, const ir_nd_sbp *kept,
                           const ir_nd_sbp *used)
{
    for (int32_t a = 0; axes >> a; a++)
        if (axes >> a & 1 && kept->at[a].kind == IR_S &&
            used->at[a].kind != IR_S)
            return true;
    return false;
}

/* Behind what scales and clips it, the sum over micro-batches; else itself. */
static int32_t sum_behind(const ir_graph *g, int32_t tensor)
{
    for (int32_t t = tensor; g->tensors.at[t].producer >= 0;) {
        const ir_node *node = &g->nodes.at[g->tensors.at[t].producer];
        if (node->op == IR_OP_accumulate)
            return t;
        if (node->phase != IR_UPDATE || node->n_in == 0)
            return tensor;
        t = node->in[0];
    }
    return tensor;
}

/* Which of what an optimizer keeps lies in more pieces on data parallel ranks
 * than its parameter is used in: ZeRO's stages, whatever they are called. */
static void find_sharded(cli *c, const cli_plan *p, bool sharded[COST_SHARDED])
{
    const ir_graph *g = p->model.graph;
    const plan_strategy *s = p->plan->strategy;
    const ir_nd_sbp **uses = find_uses(c, p);
    uint32_t *axes = fs_new(c->arena, uint32_t, s->n_stages);
    for (int32_t i = 0; i < s->n_stages; i++)
        axes[i] = data_axes(p, i);
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        if (node->phase != IR_UPDATE || node->n_in == 0 ||
            g->tensors.at[node->in[0]].role != IR_PARAM)
            continue;
        const ir_nd_sbp *used = uses[node->in[0]];
        for (int32_t k = 0; k < node->n_in && used; k++) {
            if (node->in[k] < 0)
                continue;
            const int32_t t = k == 1 ? sum_behind(g, node->in[1]) : node->in[k];
            const int32_t maker = g->tensors.at[t].producer;
            const cost_sharded as = kept_as(g, &g->nodes.at[maker]);
            if (as < COST_SHARDED && s->stage_of[maker] == s->stage_of[v])
                sharded[as] |= is_cut_further(axes[s->stage_of[v]],
                                              &s->sig[maker].out[0], used);
        }
    }
}

static void note(cli *c, json_t *notes, const char *text)
{
    cli_say(c, "                %s\n", text);
    json_array_append_new(notes, fs_json_string(text));
}

/* What the framework keeps whole, and this plan does not. */
static void tell_kept(cli *c, const cli_plan *p, const cost_framework *f,
                      json_t *notes)
{
    bool sharded[COST_SHARDED] = {false};
    const char *what = NULL;
    find_sharded(c, p, sharded);
    for (int32_t i = COST_SHARDED - 1; i >= 0; i--) {
        const char *name = cost_sharded_name((cost_sharded)i);
        if (!sharded[i] || f->shards[i])
            continue;
        what = !what ? name
                     : fs_printf(c->arena, "%s%s %s", name,
                                 strstr(what, " and ") ? "," : " and", what);
    }
    if (what)
        note(c, notes,
             fs_printf(c->arena,
                       "%s keeps %s whole on data parallel ranks, and would "
                       "take more; this plan has them in pieces (ZeRO)",
                       f->name, what));
}

static void tell_schedule(cli *c, const cli_plan *p, const cost_framework *f,
                          json_t *notes)
{
    const plan_strategy *s = p->plan->strategy;
    bool known = f->n_schedules == 0 || s->n_stages < 2;
    for (int32_t k = 0; k < f->n_schedules; k++)
        known = known || strcmp(f->schedules[k], s->schedule) == 0;
    if (!known)
        note(c, notes,
             fs_printf(c->arena, "%s has no schedule %s, which this plan has",
                       f->name, s->schedule));
}

/* What may be the plan's doing, where it does not fit. */
static void tell_room(cli *c, const cli_memory *m, json_t *notes)
{
    char bytes[32];
    const cost_held *held = &m->most->held;
    if (m->fits)
        return;
    if (held->scores_bytes >= 1)
        note(c, notes,
             fs_printf(c->arena,
                       "%s keeps %s of attention's scores for the backward "
                       "pass, and this program's runtime none: --recompute "
                       "selective or block makes a plan that makes them again",
                       m->by->name, fs_human_bytes(bytes, held->scores_bytes)));
    if (held->gathered_bytes >= 1)
        note(c, notes,
             fs_printf(c->arena,
                       "this plan keeps %s that all-gathers made for the "
                       "backward pass; run so that they are gathered again it "
                       "takes up to as much less",
                       fs_human_bytes(bytes, held->gathered_bytes)));
}

/* What a user of that framework could not have, or would not. */
static void tell_misfits(cli *c, const cli_plan *p, const cli_memory *m)
{
    json_t *notes = json_array();
    const cost_framework *f = m->by;
    const int32_t stages = p->plan->strategy->n_stages;
    if (!f->cuts_layers && stages > 1)
        note(c, notes,
             fs_printf(c->arena,
                       "%s has no pipelines: nobody runs this plan of %d "
                       "stages with it",
                       f->name, stages));
    if (!f->cuts_tensors && cuts_tensors(p))
        note(c, notes,
             fs_printf(c->arena,
                       "%s cuts no products: nobody runs this tensor parallel "
                       "plan with it",
                       f->name));
    if (p->plan->n_comms > 0 && plan_overlaps(p->plan) != f->own_stream)
        note(c, notes,
             f->own_stream
                 ? fs_printf(c->arena,
                             "%s has collectives beside compute; this plan has "
                             "them in their turn (--overlap makes the other)",
                             f->name)
                 : fs_printf(c->arena,
                             "%s has collectives in their turn; this plan has "
                             "them beside compute (--overlap)",
                             f->name));
    const char *blocks = f->even_stages ? uneven(c, p) : NULL;
    if (blocks)
        note(c, notes,
             fs_printf(c->arena,
                       "%s gives each stage as many layers; this plan has %s",
                       f->name, blocks));
    const int64_t rows = rows_of_table(p->model.graph);
    if (rows % f->vocab_multiple)
        note(c, notes,
             fs_printf(c->arena,
                       "%s pads a vocabulary to a multiple of %lld (times "
                       "tensor parallel ranks); this network has %lld words",
                       f->name, (long long)f->vocab_multiple, (long long)rows));
    tell_schedule(c, p, f, notes);
    tell_kept(c, p, f, notes);
    tell_room(c, m, notes);
    json_object_set_new(c->result, "framework_notes", notes);
}

void cli_tell_framework(cli *c, const cli_plan *p, const cli_memory *m)
{
    json_object_set_new(c->result, "framework", fs_json_string(m->by->name));
    cli_memory_tell_framework(c, m);
    tell_misfits(c, p, m);
}
