/* Along which of its axes a recipe cuts what persists, and weights as they are
 * used: ZeRO, experts, columns and rows of tensor parallelism. */
#include "config.h"
#include "search/recipe/recipe_parts.h"

/* ---- what is wanted ---- */

static uint32_t any_axis(int32_t rank)
{
    return (1u << rank) - 1;
}

uint32_t search_weight_cuts(const search_marks *m, int32_t tensor,
                            int32_t ranks)
{
    const ir_shape *shape = &m->graph->tensors.at[tensor].shape;
    const int32_t part = m->part[tensor];
    uint32_t along = 0;
    if (shape->rank < 2)
        return 0;
    if (part >= 0 && shape->dim[part] >= ranks)
        return 1u << part;
    for (int32_t d = 0; d < 2; d++)
        if (shape->dim[d] >= ranks)
            along |= 1u << d;
    return along;
}

/* ZeRO: from which degree on a tensor that persists is cut. */
static int32_t zero_from(const ir_node *node, const ir_tensor *t)
{
    if (node->op == IR_OP_accumulate)
        return 2;
    if (node->op != IR_OP_variable)
        return 4;
    return t->role == IR_PARAM ? 3 : t->role == IR_STATE ? 1 : 4;
}

/* One question: a tensor that node v keeps. */
typedef struct kept {
    const search_recipe *recipe;
    const search_marks *marks;
    const ir_node *node;
    const ir_tensor *tensor;
    int32_t id;
} kept;

static bool is_kept(const ir_node *node)
{
    return node->op == IR_OP_variable || node->op == IR_OP_accumulate;
}

static bool is_kept_weight(const kept *k)
{
    return k->node->op == IR_OP_variable && k->tensor->role == IR_PARAM &&
           k->marks->weight[k->id] && k->tensor->shape.rank >= 2;
}

static uint32_t wanted_on(const kept *k, search_role role, int32_t ranks)
{
    const int32_t rank = k->tensor->shape.rank;
    if (role == SEARCH_AXIS_EXPERTS && k->marks->expert[k->id])
        return 1;
    if (role == SEARCH_AXIS_TENSOR) {
        if (!is_kept_weight(k))
            return 0;
        const uint32_t along = search_weight_cuts(k->marks, k->id, ranks);
        return along ? along : any_axis(2);
    }
    return k->recipe->zero >= zero_from(k->node, k->tensor) ? any_axis(rank)
                                                            : 0;
}

search_cuts search_cuts_wanted(const search_recipe *recipe,
                               const search_roles *roles,
                               const search_marks *marks, int32_t v,
                               const ir_mesh *mesh)
{
    const ir_graph *graph = marks->graph;
    const ir_node *node = &graph->nodes.at[v];
    search_cuts cuts = {{0}};
    if (!is_kept(node))
        return cuts;
    const int32_t id = node->out[0];
    const kept k = {recipe, marks, node, &graph->tensors.at[id], id};
    for (int32_t a = 0; a < mesh->n; a++)
        cuts.along[a] = wanted_on(&k, search_role_of(roles, a), mesh->dim[a]);
    return cuts;
}

/* ---- what there is room for ---- */

/* Can axes a, a + 1, .. of the mesh be given one of theirs each? */
static bool have_room(const search_cuts *cuts, const ir_mesh *mesh, int32_t a,
                      ir_shape left)
{
    while (a < mesh->n && !cuts->along[a])
        a++;
    if (a == mesh->n)
        return true;
    for (int32_t d = 0; d < left.rank; d++) {
        ir_shape rest = left;
        rest.dim[d] /= mesh->dim[a];
        if ((cuts->along[a] >> d & 1) && rest.dim[d] > 0 &&
            have_room(cuts, mesh, a + 1, rest))
            return true;
    }
    return false;
}

/* Is axis a of the mesh to choose before b? */
static bool before(const search_cuts *wanted, const ir_mesh *mesh, int32_t a,
                   int32_t b)
{
    const int less = __builtin_popcount(wanted->along[b]) -
                     __builtin_popcount(wanted->along[a]);
    return less ? less > 0 : mesh->dim[a] > mesh->dim[b];
}

search_cuts search_cuts_possible(const search_cuts *wanted,
                                 const ir_shape *shape, const ir_mesh *mesh)
{
    search_cuts cuts = {{0}};
    bool done[IR_MAX_MESH] = {false};
    if (have_room(wanted, mesh, 0, *shape))
        return *wanted;
    for (int32_t k = 0; k < mesh->n; k++) {
        int32_t next = -1;
        for (int32_t a = 0; a < mesh->n; a++)
            if (!done[a] && (next < 0 || before(wanted, mesh, a, next)))
                next = a;
        done[next] = true;
        cuts.along[next] = wanted->along[next];
        if (!have_room(&cuts, mesh, 0, *shape))
            cuts.along[next] = 0;
    }
    return cuts;
}

/* ---- what there is no room for ---- */

/* [false]: what zero is to cut, and experts; [true]: what tp is. */
static void count_node(const search_recipe *r, const search_marks *m, int32_t v,
                       const ir_mesh *mesh, search_uncut of[2])
{
    const search_roles roles = search_recipe_roles(r);
    const search_cuts wanted = search_cuts_wanted(r, &roles, m, v, mesh);
    const ir_tensor *t = &m->graph->tensors.at[m->graph->nodes.at[v].out[0]];
    const search_cuts cuts = search_cuts_possible(&wanted, &t->shape, mesh);
    bool asked[2] = {false, false}, missed[2] = {false, false};
    for (int32_t a = 0; a < mesh->n; a++) {
        const bool tp = search_role_of(&roles, a) == SEARCH_AXIS_TENSOR;
        asked[tp] |= wanted.along[a] != 0;
        missed[tp] |= wanted.along[a] && !cuts.along[a];
    }
    for (int32_t k = 0; k < 2; k++) {
        of[k].of += asked[k];
        if (!missed[k])
            continue;
        of[k].n++;
        of[k].bytes += ir_shape_count(&t->shape) * ir_dtype_bytes(t->dtype);
        of[k].first = of[k].first ? of[k].first : t->name;
    }
}

/* The recipe of the stages that have this mesh. */
static search_recipe recipe_of(const search_recipe *r, const ir_mesh *mesh)
{
    for (int32_t i = 0; i < search_recipe_unequal(r); i++) {
        const search_recipe stage = search_recipe_at(r, i);
        const search_roles roles = search_recipe_roles(&stage);
        if (search_roles_fit(&roles, mesh))
            return stage;
    }
    return search_recipe_at(r, 0);
}

void search_recipe_uncut(const search_recipe *recipe, const ir_graph *graph,
                         const plan_strategy *strategy, search_uncut *zero,
                         search_uncut *tp)
{
    search_uncut of[2] = {{0}, {0}};
    search_marks marks;
    fs_arena *arena = fs_arena_create();
    search_marks_make(graph, arena, &marks);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_mesh *mesh = &strategy->stages[strategy->stage_of[v]].mesh;
        const search_recipe stage = recipe_of(recipe, mesh);
        if (is_kept(&graph->nodes.at[v]))
            count_node(&stage, &marks, v, mesh, of);
    }
    fs_arena_destroy(arena);
    *zero = of[false];
    *tp = of[true];
}

static fs_status check_stage(const search_recipe *r, const search_marks *m,
                             fs_err *err)
{
    const search_roles roles = search_recipe_roles(r);
    const ir_mesh mesh = search_roles_mesh(&roles);
    search_uncut of[2] = {{0}, {0}};
    for (int32_t v = 0; v < m->graph->nodes.n; v++)
        if (is_kept(&m->graph->nodes.at[v]))
            count_node(r, m, v, &mesh, of);
    if (of[true].n > 0 && of[true].n == of[true].of)
        return fs_fail(err, FS_INVALID,
                       "recipe: tp=%d has no effect: no weight of %s has rows "
                       "or columns for %d ranks",
                       r->tp, m->graph->name, r->tp);
    if (of[false].n > 0 && of[false].n == of[false].of)
        return fs_fail(err, FS_INVALID,
                       "recipe: zero=%d has no effect: nothing that it cuts "
                       "of %s is long enough along an axis for dp=%d, cp=%d",
                       r->zero, m->graph->name, r->dp, r->cp > 1 ? r->cp : 1);
    return FS_OK;
}

/* Of stages that differ it is enough that one has something to cut. */
fs_status search_recipe_check_cuts(const search_recipe *recipe,
                                   const search_marks *marks, fs_err *err)
{
    fs_err why = {0};
    const int32_t n = search_recipe_unequal(recipe);
    for (int32_t i = 0; i == 0 || i < n; i++) {
        const search_recipe stage = search_recipe_at(recipe, i);
        why = (fs_err){0};
        if (check_stage(&stage, marks, &why) == FS_OK)
            return FS_OK;
    }
    *err = why;
    return why.status;
}

/* ---- columns and rows ---- */

enum { CLASH = -2 };

static bool is_whole_view(const ir_node *node)
{
    return search_is_view(node) && node->op != IR_OP_slice && node->n_out > 0;
}

/* The stream and what is it in another form: [0] made of it, [1] of which it
 * is made. */
static void find_forms(const search_marks *m, bool *form[2])
{
    const ir_graph *graph = m->graph;
    for (int32_t t = 0; t < graph->tensors.n; t++)
        form[0][t] = form[1][t] = m->stream[t];
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (is_whole_view(node))
            form[0][node->out[0]] |= form[0][node->in[0]];
    }
    for (int32_t v = graph->nodes.n - 1; v >= 0; v--) {
        const ir_node *node = &graph->nodes.at[v];
        if (is_whole_view(node))
            form[1][node->in[0]] |= form[1][node->out[0]];
    }
}

/* By columns all else but a bias is whole and the result is cut; by rows it is
 * a sum of parts. */
static int32_t axis_by(const ir_graph *graph, const ir_node *node, int32_t slot,
                       bool rows)
{
    int32_t axis = SEARCH_NO_AXIS;
    fs_arena *scratch = fs_arena_create();
    ir_sig_list list;
    ir_signatures_1d(graph, node, scratch, &list);
    for (int32_t s = 0; s < list.n && axis < 0; s++) {
        const ir_sig *sig = &list.at[s];
        bool fits = sig->in[slot].kind == IR_S &&
                    sig->out[0].kind == (rows ? IR_PSUM : IR_S);
        for (int32_t k = 0; k < 2 && !rows; k++)
            fits &= k == slot || sig->in[k].kind == IR_B;
        if (fits)
            axis = sig->in[slot].axis;
    }
    fs_arena_destroy(scratch);
    return axis;
}

/* The other end's axis of a view that is cut along `axis` at one. */
static int32_t axis_across(const ir_graph *graph, const ir_node *node,
                           int32_t axis, bool back)
{
    int32_t found = SEARCH_NO_AXIS;
    fs_arena *scratch = fs_arena_create();
    ir_sig_list list;
    ir_signatures_1d(graph, node, scratch, &list);
    for (int32_t s = 0; s < list.n && found < 0; s++) {
        const ir_sbp in = list.at[s].in[0], out = list.at[s].out[0];
        const ir_sbp here = back ? out : in, there = back ? in : out;
        if (here.kind == IR_S && here.axis == axis && there.kind == IR_S)
            found = there.axis;
    }
    fs_arena_destroy(scratch);
    return found;
}

/* To the variable that is read here through views; two that want it otherwise
 * leave it to the search. */
static void tell_variable(search_marks *m, int32_t tensor, int32_t axis)
{
    const ir_graph *graph = m->graph;
    const ir_node *node = &graph->nodes.at[graph->tensors.at[tensor].producer];
    while (axis >= 0 && search_is_view(node)) {
        axis = axis_across(graph, node, axis, true);
        tensor = node->in[0];
        node = &graph->nodes.at[graph->tensors.at[tensor].producer];
    }
    if (node->op != IR_OP_variable || axis < 0)
        return;
    const bool first = m->part[tensor] == SEARCH_NO_AXIS;
    m->part[tensor] = first || m->part[tensor] == axis ? axis : CLASH;
}

/* The input that node v reads as a weight between blocks, or -1. */
static int32_t weight_slot(const search_marks *m, const ir_node *node)
{
    for (int32_t k = 0; k < node->n_in && node->phase == IR_FORWARD; k++)
        if (search_reads_weight(m, node, k) && !m->expert[node->in[k]])
            return k;
    return -1;
}

static void mark_product(search_marks *m, bool *const form[2],
                         const ir_node *node)
{
    const int32_t slot = weight_slot(m, node);
    if (slot < 0)
        return;
    bool reads = false;
    for (int32_t k = 0; k < 2; k++)
        reads |= k != slot && form[0][node->in[k]];
    const bool makes = form[1][node->out[0]];
    if (reads != makes)
        tell_variable(m, node->in[slot], axis_by(m->graph, node, slot, makes));
}

/* What is made for the weight of a forward node: its gradient lies as it does.
 * What reads the weight again makes that of what it was applied to. */
static void mark_gradient(search_marks *m, const ir_node *node)
{
    const ir_graph *graph = m->graph;
    const ir_op_class kind = ir_op_class_of(node->op);
    if (node->phase != IR_BACKWARD || node->forward < 0 ||
        (kind != IR_CLASS_MATMUL && kind != IR_CLASS_GATHER))
        return;
    const ir_node *of = &graph->nodes.at[node->forward];
    const int32_t slot = weight_slot(m, of), made = node->out[0];
    if (slot < 0 || !ir_shape_equal(&graph->tensors.at[made].shape,
                                    &graph->tensors.at[of->in[slot]].shape))
        return;
    for (int32_t k = 0; k < node->n_in; k++)
        if (m->part[node->in[k]] >= 0)
            return;
    m->part[made] = m->part[of->in[slot]];
    m->owner[made] = m->owner[of->in[slot]];
}

static void mark_view(search_marks *m, const ir_node *node)
{
    const int32_t from = node->in[0], to = node->out[0];
    if (m->part[from] < 0)
        return;
    m->part[to] = axis_across(m->graph, node, m->part[from], false);
    m->owner[to] = m->owner[from];
}

static void mark_variable(search_marks *m, int32_t tensor)
{
    if (m->part[tensor] == CLASH)
        m->part[tensor] = SEARCH_NO_AXIS;
    m->owner[tensor] = tensor;
}

static void follow(search_marks *m)
{
    const ir_graph *graph = m->graph;
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (node->n_out == 0 || node->phase == IR_UPDATE)
            continue;
        if (node->op == IR_OP_variable)
            mark_variable(m, node->out[0]);
        else if (search_is_view(node))
            mark_view(m, node);
        else
            mark_gradient(m, node);
    }
}

void search_mark_parts(search_marks *m, fs_arena *arena)
{
    const ir_graph *graph = m->graph;
    bool *form[2] = {fs_new(arena, bool, graph->tensors.n),
                     fs_new(arena, bool, graph->tensors.n)};
    m->part = fs_new(arena, int32_t, graph->tensors.n);
    m->owner = fs_new(arena, int32_t, graph->tensors.n);
    for (int32_t t = 0; t < graph->tensors.n; t++)
        m->part[t] = SEARCH_NO_AXIS;
    find_forms(m, form);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        mark_product(m, form, &graph->nodes.at[v]);
    follow(m);
}
