/* What flows between the drawn nodes. With a plan, the values that lowering
 * makes of a tensor are found again: equal beginnings of boxing paths are one
 * value, made once, whoever reads it. */
#include "config.h"
#include "report/network.h"

#include "base/clock.h"
#include "plan/lower.h"

/* A value made from its tensor, or from another such value, by one step. */
typedef struct hop {
    int32_t tensor, parent; /* -1: the tensor as its producer leaves it */
    int32_t stage;          /* where it lies */
    bool moves, anew;
    const char *label;
    int32_t readers, drawn_readers;
    Agnode_t *point; /* when there are several readers */
} hop;

/* An edge of the picture: from hop `hop` (-1: the tensor itself). */
typedef struct arrow {
    int32_t tensor, hop;
    Agnode_t *to;
    bool to_next; /* to the next of the blocks folded into one */
} arrow;

typedef struct flow {
    network *w;
    fs_map names; /* of hops */
    FS_VEC(hop) hops;
    FS_VEC(arrow) arrows;
} flow;

int64_t network_step_bytes(const plan_box_step *step)
{
    return step->bytes_in > step->bytes_out ? step->bytes_in : step->bytes_out;
}

static int64_t largest_bytes(const ir_tensor *x, const ir_nd_sbp *sbp,
                             const plan_stage *stage)
{
    ir_shape piece = ir_largest_piece(&x->shape, sbp, &stage->mesh);
    return ir_shape_count(&piece) * ir_dtype_bytes(x->dtype);
}

int64_t network_cross_bytes(const plan_cross *c)
{
    int64_t before = largest_bytes(c->tensor, &c->from, c->from_stage);
    int64_t after = largest_bytes(c->tensor, &c->to, c->to_stage);
    return before > after ? before : after;
}

/* ---- values ---- */

/* The hop of that name, made with its label when it is new. */
static int32_t intern_hop(flow *f, const char *name, hop new, const char *verb,
                          int64_t bytes)
{
    char size[32];
    int32_t *known = fs_map_at(&f->names, name);
    if (*known >= 0)
        return *known;
    *known = f->hops.n;
    bool per_step =
        plan_lower_base(f->w->graph, new.tensor) == PLAN_BEGIN && !new.anew;
    new.label = fs_printf(f->w->d.arena, "%s %s%s", verb,
                          fs_human_bytes(size, (double)bytes),
                          per_step ? ", once a step" : "");
    if (new.parent >= 0)
        f->hops.at[new.parent].readers++;
    fs_push(f->w->d.arena, &f->hops, new);
    return f->hops.n - 1;
}

/* The value after step k of a path, which starts from hop `at`. */
static int32_t step_hop(flow *f, const plan_path_step *step, hop new,
                        const char *name)
{
    if (!step->crosses)
        return intern_hop(f, name, new, plan_box_name(step->box.kind),
                          network_step_bytes(&step->box));
    new.moves = true;
    return intern_hop(f, name, new, "move", network_cross_bytes(&step->cross));
}

/* The value after `n` steps to slot `slot` of node v; -1: the tensor as it is.
 */
static int32_t hop_after(flow *f, int32_t v, int32_t slot, int32_t n)
{
    network *w = f->w;
    const plan_strategy *s = w->strategy;
    int32_t tensor = w->graph->nodes.at[v].in[slot], at = -1;
    const plan_ends ends = plan_edge_ends(w->graph, s, v, slot);
    const plan_boxing *path = &s->edge[s->first_edge[v] + slot];
    const char *name = fs_printf(w->d.arena, "%d/%d", tensor, path->sharing);
    for (int32_t k = 0; k < n; k++) {
        char sbp[64];
        plan_path_step step;
        if (!plan_path_step_make(&ends, path, k, &step))
            continue;
        const plan_stage *there = plan_path_stage(&ends, path, k + 1);
        const int32_t stage = (int32_t)(there - s->stages);
        ir_nd_sbp_text(sbp, &path->at[k + 1], there->mesh.n);
        name = fs_printf(w->d.arena, "%s %s", name, sbp);
        if (step.crosses)
            name = fs_printf(w->d.arena, "%s to %d", name, stage);
        hop new = {.tensor = tensor,
                   .parent = at,
                   .stage = stage,
                   .anew = path->sharing > 0};
        at = step_hop(f, &step, new, name);
    }
    return at;
}

/* The value that it reads. */
static int32_t hop_of(flow *f, int32_t v, int32_t slot)
{
    const plan_strategy *s = f->w->strategy;
    return hop_after(f, v, slot, s->edge[s->first_edge[v] + slot].n);
}

/* ---- who reads them ---- */

static void add_arrow(flow *f, int32_t tensor, int32_t at, Agnode_t *to,
                      bool to_next)
{
    arrow new = {tensor, at, to, to_next};
    if (at >= 0) {
        f->hops.at[at].readers++;
        f->hops.at[at].drawn_readers++;
    }
    fs_push(f->w->d.arena, &f->arrows, new);
}

/* u and v in neighbours of a row of equal blocks, v in the first that is
 * folded away. */
static bool leads_to_next(const network *w, int32_t u, int32_t v)
{
    int32_t a = w->block_of[u], b = w->block_of[v];
    if (w->blocks.at[a].fold_of != a || w->blocks.at[b].fold_of != a || a == b)
        return false;
    for (int32_t i = a + 1; i < b; i++)
        if (w->blocks.at[i].fold_of == a)
            return false;
    return true;
}

/* Edges between folded blocks are drawn where they move something: what flows
 * else is clear from the block itself. */
static void follow_edge(flow *f, int32_t v, int32_t slot)
{
    network *w = f->w;
    int32_t tensor = w->graph->nodes.at[v].in[slot];
    int32_t u = w->graph->tensors.at[tensor].producer;
    if (w->block_of[u] < 0 || !w->node[u] || !w->node[v])
        return;
    bool first = w->blocks.at[w->block_of[v]].fold_of == w->block_of[v];
    if (first) {
        int32_t at = w->plan ? hop_of(f, v, slot) : -1;
        add_arrow(f, tensor, at, w->node[v], false);
        return;
    }
    const plan_strategy *s = w->strategy;
    if (!w->plan || !leads_to_next(w, u, v) ||
        s->edge[s->first_edge[v] + slot].n == 0)
        return;
    add_arrow(f, tensor, hop_of(f, v, slot), w->node[v], true);
}

/* A value of the forward pass that only outputs or the backward pass of
 * another stage read: it is made in the forward pass all the same. */
static void follow_unseen(flow *f, int32_t v, int32_t slot)
{
    network *w = f->w;
    const ir_node *node = &w->graph->nodes.at[v];
    const plan_strategy *s = w->strategy;
    int32_t tensor = node->in[slot];
    int32_t u = w->graph->tensors.at[tensor].producer;
    bool output = node->op == IR_OP_output;
    const plan_ends ends = plan_edge_ends(w->graph, s, v, slot);
    bool moves = plan_ends_cross(&ends);
    if (w->block_of[u] < 0 || !w->node[u] ||
        plan_lower_base(w->graph, tensor) != PLAN_FORWARD ||
        !(moves || (output && s->edge[s->first_edge[v] + slot].n > 0)))
        return;
    /* What arrives for the backward pass is boxed on there. */
    int32_t at = output ? hop_of(f, v, slot)
                        : hop_after(f, v, slot,
                                    s->edge[s->first_edge[v] + slot].cross + 1);
    if (f->hops.at[at].drawn_readers)
        return;
    Agnode_t *n = agnode(w->stage[f->hops.at[at].stage],
                         fs_printf(w->d.arena, "unseen%d", at), 1);
    draw_set(n, "shape", "plaintext");
    draw_set(n, "fontsize", "8");
    draw_set(n, "label", output ? "output" : "backward");
    add_arrow(f, tensor, at, n, false);
}

static void follow_all(flow *f)
{
    const network *w = f->w;
    for (int32_t v = 0; v < w->graph->nodes.n; v++)
        for (int32_t i = 0; i < w->graph->nodes.at[v].n_in; i++)
            if (w->block_of[v] >= 0)
                follow_edge(f, v, i);
    for (int32_t v = 0; w->plan && v < w->graph->nodes.n; v++)
        for (int32_t i = 0; i < w->graph->nodes.at[v].n_in; i++)
            if (w->block_of[v] < 0)
                follow_unseen(f, v, i);
}

/* ---- drawing ---- */

static void make_points(flow *f)
{
    for (int32_t i = 0; i < f->hops.n; i++) {
        hop *h = &f->hops.at[i];
        if (h->readers < 2)
            continue;
        h->point = agnode(f->w->stage[h->stage],
                          fs_printf(f->w->d.arena, "point%d", i), 1);
        draw_set(h->point, "shape", "point");
        draw_set(h->point, "width", "0.06");
    }
}

/* The steps since the nearest point, or since the tensor itself, are the
 * edge's label. */
static void draw_arrow(flow *f, const arrow *a)
{
    network *w = f->w;
    const char *label = "";
    bool moves = false;
    int32_t at = a->hop;
    for (; at >= 0 && !f->hops.at[at].point; at = f->hops.at[at].parent) {
        label = fs_printf(w->d.arena, "%s%s%s", f->hops.at[at].label,
                          label[0] ? "\n" : "", label);
        moves = moves || f->hops.at[at].moves;
    }
    Agnode_t *from = at >= 0
                         ? f->hops.at[at].point
                         : w->node[w->graph->tensors.at[a->tensor].producer];
    Agedge_t *e = draw_edge(&w->d, from, a->to);
    if (a->to_next) {
        label = fs_printf(w->d.arena, "to the next:\n%s", label);
        draw_set(e, "style", "dashed");
        draw_set(e, "constraint", "false");
    }
    if (moves) {
        draw_set(e, "penwidth", "3");
        draw_set(e, "color", "#7a1fa2");
        draw_set(e, "constraint", "false"); /* stages stand side by side */
    } else if (label[0]) {
        draw_set(e, "color", "#d2501e");
        draw_set(e, "penwidth", "1.6");
    }
    if (label[0])
        draw_set(e, "label", label);
}

void network_draw_flow(network *w)
{
    flow f = {.w = w, .names = {.arena = w->d.arena}};
    follow_all(&f);
    make_points(&f);
    for (int32_t i = 0; i < f.hops.n; i++) {
        hop *h = &f.hops.at[i];
        Agnode_t *point = h->point;
        if (!point)
            continue;
        h->point = NULL; /* the edge to it shows the steps up to it */
        draw_arrow(&f, &(arrow){h->tensor, i, point, false});
        h->point = point;
    }
    for (int32_t i = 0; i < f.arrows.n; i++)
        draw_arrow(&f, &f.arrows.at[i]);
}
