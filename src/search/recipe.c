#include "config.h"
#include "search/recipe.h"

#include "plan/schedule.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 20 };

/* ---- text ---- */

typedef struct recipe_key {
    const char *name;
    int32_t low, high;
    size_t offset;
    bool wide; /* int64_t */
} recipe_key;

static const recipe_key keys[] = {
    {"dp", 1, MOST, offsetof(search_recipe, dp), false},
    {"tp", 1, MOST, offsetof(search_recipe, tp), false},
    {"pp", 1, MOST, offsetof(search_recipe, pp), false},
    {"micro-batches", 1, MOST, offsetof(search_recipe, micro_batches), false},
    {"micro-batch", 1, MOST, offsetof(search_recipe, micro_batch), true},
    {"zero", 0, 3, offsetof(search_recipe, zero), false},
};
#define KEY_NAMES "dp, tp, pp, micro-batches, micro-batch, zero, schedule"

search_recipe search_recipe_free(void)
{
    return (search_recipe){.zero = -1};
}

static const recipe_key *find_key(const char *name)
{
    for (size_t k = 0; k < sizeof keys / sizeof keys[0]; k++)
        if (strcmp(keys[k].name, name) == 0)
            return &keys[k];
    return NULL;
}

static fs_status parse_number(const recipe_key *key, const char *text,
                              fs_err *err, search_recipe *out)
{
    char *end, *field = (char *)out + key->offset;
    long number = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || strlen(text) > 9 || *end ||
        number < key->low || number > key->high)
        return fs_fail(err, FS_INVALID,
                       "recipe: %s=%.40s, a number from %d to %d is wanted",
                       key->name, text, key->low, key->high);
    int64_t before = key->wide ? *(const int64_t *)(const void *)field
                               : *(const int32_t *)(const void *)field;
    if (before >= key->low && before != number)
        return fs_fail(err, FS_INVALID,
                       "recipe: %s=%lld and %s=%ld contradict each other; "
                       "give one",
                       key->name, (long long)before, key->name, number);
    if (key->wide)
        memcpy(field, &(int64_t){number}, sizeof(int64_t));
    else
        memcpy(field, &(int32_t){(int32_t)number}, sizeof(int32_t));
    return FS_OK;
}

static fs_status parse_item(char *item, fs_err *err, search_recipe *out)
{
    char *value = strchr(item, '=');
    if (!value)
        return fs_fail(err, FS_INVALID, "recipe: '%.40s' is not key=value (%s)",
                       item, KEY_NAMES);
    *value++ = '\0';
    const recipe_key *key = find_key(item);
    if (key)
        return parse_number(key, value, err, out);
    if (strcmp(item, "schedule") != 0)
        return fs_fail(err, FS_INVALID, "recipe: unknown key '%.40s' (%s)",
                       item, KEY_NAMES);
    if (!plan_schedule_find(value))
        return fs_fail(err, FS_INVALID, "recipe: unknown schedule '%.40s' (%s)",
                       value, plan_schedule_names());
    if (out->schedule && strcmp(out->schedule, value) != 0)
        return fs_fail(err, FS_INVALID,
                       "recipe: schedule=%s and schedule=%s contradict each "
                       "other; give one",
                       out->schedule, value);
    out->schedule = value;
    return FS_OK;
}

fs_status search_recipe_parse(const char *text, fs_arena *arena, fs_err *err,
                              search_recipe *out)
{
    search_recipe recipe = *out;
    for (char *at = fs_strdup(arena, text); at;) {
        char *comma = strchr(at, ',');
        if (comma)
            *comma++ = '\0';
        FS_TRY(parse_item(at, err, &recipe));
        at = comma;
    }
    *out = recipe;
    return FS_OK;
}

/* ---- what follows from what is given ---- */

static fs_status does_not_fit(const search_recipe *r, int32_t devices,
                              fs_err *err)
{
    return fs_fail(err, FS_INVALID,
                   "recipe: dp=%d, tp=%d, pp=%d (0: free) do not multiply to "
                   "the %d devices of the cluster",
                   r->dp, r->tp, r->pp, devices);
}

static fs_status complete_parts(search_recipe *r, int32_t devices,
                                bool complete, fs_err *err)
{
    int32_t *part[3] = {&r->dp, &r->tp, &r->pp};
    int64_t product = 1;
    int32_t n_free = 0;
    for (int32_t k = 2; k >= 0; k--) {
        if (*part[k] == 0 && complete && k > 0)
            *part[k] = 1;
        n_free += *part[k] == 0;
        product *= *part[k] > 0 ? *part[k] : 1;
        if (product > devices)
            return does_not_fit(r, devices, err);
    }
    if (devices % product || (n_free == 0 && product != devices))
        return does_not_fit(r, devices, err);
    for (int32_t k = 0; n_free == 1 && k < 3; k++)
        if (*part[k] == 0)
            *part[k] = (int32_t)(devices / product);
    return FS_OK;
}

static fs_status complete_micro_batches(search_recipe *r, int64_t batch,
                                        fs_err *err)
{
    if (r->micro_batch > 0) {
        if (r->micro_batches > 0)
            return fs_fail(err, FS_INVALID,
                           "recipe: micro-batch and micro-batches both say "
                           "how the batch is divided; give one");
        if (r->dp == 0)
            return fs_fail(err, FS_INVALID,
                           "recipe: micro-batch is a size per data-parallel "
                           "rank and needs dp");
        int64_t once;
        if (__builtin_mul_overflow(r->micro_batch, (int64_t)r->dp, &once) ||
            batch % once || batch / once > MOST)
            return fs_fail(err, FS_INVALID,
                           "recipe: a batch of %lld does not divide into "
                           "micro-batches of dp=%d x %lld samples",
                           (long long)batch, r->dp, (long long)r->micro_batch);
        r->micro_batches = (int32_t)(batch / once);
    }
    if (r->micro_batches > 0 && batch % r->micro_batches)
        return fs_fail(err, FS_INVALID,
                       "recipe: a batch of %lld does not divide into %d "
                       "micro-batches",
                       (long long)batch, r->micro_batches);
    return FS_OK;
}

/* On dp inputs are cut by samples, evenly. */
static fs_status check_samples(const search_recipe *r, int64_t batch,
                               fs_err *err)
{
    int32_t m = r->micro_batches > 0 ? r->micro_batches : 1;
    int64_t samples = batch / m;
    if (r->dp <= 1 || samples % r->dp == 0)
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "recipe: a micro-batch of %lld samples (batch %lld, %d "
                   "micro-batch%s) does not divide over dp=%d: batch / "
                   "micro-batches must be a multiple of %d",
                   (long long)samples, (long long)batch, m, m == 1 ? "" : "es",
                   r->dp, r->dp);
}

fs_status search_recipe_complete(const hw_cluster *cluster, int64_t batch,
                                 bool complete, fs_err *err,
                                 search_recipe *recipe)
{
    search_recipe r = *recipe;
    FS_TRY(complete_parts(&r, cluster->n_devices, complete, err));
    FS_TRY(complete_micro_batches(&r, batch, err));
    if (complete && r.zero < 0)
        r.zero = 0;
    if (complete && r.micro_batches == 0)
        r.micro_batches = 1;
    FS_TRY(check_samples(&r, batch, err));
    *recipe = r;
    return FS_OK;
}

/* ---- the filter ---- */

typedef struct recipe_filter {
    search_recipe recipe;
    fs_arena *arena;
    /* The graph asked about last: many questions, few graphs. */
    const ir_graph *graph;
    bool *weight; /* [tensor] read as a weight, itself or through views */
    bool *data;   /* [tensor] depends on an input that is cut by samples */
    const search_pin **pin; /* [tensor] */
} recipe_filter;

/* What a mesh axis is to the recipe. */
typedef enum axis_role { AXIS_FREE, AXIS_DP, AXIS_TP, AXIS_WRONG } axis_role;

/* Axis 0 is dp, the next tp, where they are given and not 1; what is left is
 * free. A mesh that does not begin so is wrong. */
static axis_role role_of(const search_recipe *r, const ir_mesh *mesh,
                         int32_t axis)
{
    int32_t tp_axis = r->dp > 1 ? 1 : 0;
    if (axis == 0 && r->dp > 1)
        return mesh->dim[axis] == r->dp ? AXIS_DP : AXIS_WRONG;
    if (axis == tp_axis && r->tp > 1)
        return mesh->dim[axis] == r->tp ? AXIS_TP : AXIS_WRONG;
    return AXIS_FREE;
}

static bool mesh_fits(const search_recipe *r, const ir_mesh *mesh)
{
    int32_t wanted = (r->dp > 1) + (r->tp > 1);
    if (mesh->n < wanted)
        return false;
    for (int32_t a = 0; a < mesh->n; a++)
        if (role_of(r, mesh, a) == AXIS_WRONG)
            return false;
    return true;
}

static bool reads_as_weight(const ir_node *node, int32_t slot)
{
    switch (ir_op_class_of(node->op)) {
    case IR_CLASS_MATMUL:
        return slot < 2;
    case IR_CLASS_CONV:
        return slot == 1;
    case IR_CLASS_GATHER:
        return slot == 0;
    default:
        return false;
    }
}

/* Its output is its input in another form, or a part of it. */
static bool is_view(const ir_node *node)
{
    return ir_op_class_of(node->op) == IR_CLASS_VIEW ||
           node->op == IR_OP_transpose || node->op == IR_OP_cast ||
           node->op == IR_OP_slice;
}

/* Marks what a forward node reads as a weight, itself or through views, and
 * what is made of variables or constants: not the zeros that a recurrence
 * starts from. */
static void mark_weights(recipe_filter *f, const ir_graph *graph)
{
    bool *kept = fs_new(f->arena, bool, graph->tensors.n);
    f->weight = fs_new(f->arena, bool, graph->tensors.n);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        bool from = node->op == IR_OP_variable || node->op == IR_OP_constant;
        for (int32_t k = 0; k < node->n_in; k++)
            from |= kept[node->in[k]];
        for (int32_t k = 0; k < node->n_out; k++)
            kept[node->out[k]] = from;
    }
    for (int32_t v = graph->nodes.n - 1; v >= 0; v--) {
        const ir_node *node = &graph->nodes.at[v];
        if (node->phase != IR_FORWARD)
            continue;
        bool passes = is_view(node) && node->n_out && f->weight[node->out[0]];
        for (int32_t k = 0; k < node->n_in; k++)
            f->weight[node->in[k]] |=
                kept[node->in[k]] && (passes || reads_as_weight(node, k));
    }
}

static void mark_data(recipe_filter *f, const ir_graph *graph)
{
    f->data = fs_new(f->arena, bool, graph->tensors.n);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        bool data = node->op == IR_OP_input &&
                    graph->tensors.at[node->out[0]].batch_axis >= 0;
        for (int32_t k = 0; k < node->n_in; k++)
            data |= f->data[node->in[k]];
        for (int32_t k = 0; k < node->n_out; k++)
            f->data[node->out[k]] = data;
    }
}

static void mark(recipe_filter *f, const ir_graph *graph)
{
    if (f->graph == graph)
        return;
    f->graph = graph;
    mark_weights(f, graph);
    mark_data(f, graph);
    fs_err err = {0};
    fs_status status =
        search_pins_find(&f->recipe.pins, graph, f->arena, &err, &f->pin);
    FS_ASSERT(status == FS_OK); /* checked by who posed the problem */
}

/* Is one of the first `rank` dimensions long enough, even when every axis of
 * the mesh cuts the same one? */
static bool can_cut(const ir_shape *shape, const ir_mesh *mesh, int32_t rank)
{
    for (int32_t d = 0; d < shape->rank && d < rank; d++)
        if (shape->dim[d] >= ir_mesh_size(mesh))
            return true;
    return false;
}

/* One question: node v of a graph with its output so. */
typedef struct asked {
    const recipe_filter *f;
    const ir_mesh *mesh;
    const ir_node *node;
    const ir_tensor *tensor;
    int32_t id;
} asked;

/* An input is cut by samples on dp. With dp given nothing else is data
 * parallel; tp never is. */
static bool allow_input(const asked *q, axis_role role, ir_sbp sbp)
{
    int32_t batch_axis = q->tensor->batch_axis;
    if (role == AXIS_DP && batch_axis >= 0)
        return ir_sbp_equal(sbp, IR_SBP_S(batch_axis));
    if (role == AXIS_FREE && q->f->recipe.dp == 0)
        return true;
    return sbp.kind == IR_B;
}

/* ZeRO: from which degree on a tensor that persists is cut on dp. */
static int32_t zero_from(const asked *q)
{
    if (q->node->op == IR_OP_accumulate)
        return 2;
    if (q->node->op != IR_OP_variable)
        return 4;
    return q->tensor->role == IR_PARAM   ? 3
           : q->tensor->role == IR_STATE ? 1
                                         : 4;
}

static bool allow_persistent(const asked *q, axis_role role, ir_sbp sbp)
{
    int32_t zero = q->f->recipe.zero;
    const ir_shape *shape = &q->tensor->shape;
    if (role == AXIS_TP) {
        bool cut = q->tensor->role == IR_PARAM && q->f->weight[q->id] &&
                   shape->rank >= 2 && can_cut(shape, q->mesh, 2);
        return !cut || (sbp.kind == IR_S && sbp.axis < 2);
    }
    if (zero < 0)
        return true;
    if (zero >= zero_from(q) && can_cut(shape, q->mesh, shape->rank))
        return sbp.kind == IR_S;
    /* Below ZeRO-2 gradients may wait as partial sums. */
    return q->node->op == IR_OP_accumulate || sbp.kind == IR_B;
}

/* On dp each rank works on its own samples: what depends on them is nowhere
 * whole, or ranks would repeat each other's work. Scalars (the loss) may be. */
static bool allow_sample(const asked *q, const ir_graph *graph, int32_t tensor,
                         ir_sbp sbp)
{
    return sbp.kind != IR_B || !q->f->data[tensor] ||
           graph->tensors.at[tensor].shape.rank == 0;
}

/* On tp a weight is used as it lies, cut: gathering it would make every rank
 * compute the whole again. */
static bool allow_weight(const asked *q, const ir_graph *graph, int32_t tensor,
                         ir_sbp sbp)
{
    const ir_shape *shape = &graph->tensors.at[tensor].shape;
    bool cut = q->f->weight[tensor] && !q->f->data[tensor] &&
               shape->rank >= 2 && can_cut(shape, q->mesh, 2);
    return !cut || sbp.kind == IR_S;
}

static bool allow_work(const asked *q, const ir_graph *graph, axis_role role,
                       int32_t axis, const ir_nd_sig *sig)
{
    const ir_node *node = q->node;
    ir_op_class kind = ir_op_class_of(node->op);
    bool weighs = kind == IR_CLASS_MATMUL || kind == IR_CLASS_CONV ||
                  node->op == IR_OP_gather;
    for (int32_t k = 0; k < node->n_in; k++) {
        ir_sbp sbp = sig->in[k].at[axis];
        if (role == AXIS_DP && !allow_sample(q, graph, node->in[k], sbp))
            return false;
        if (role == AXIS_TP && weighs &&
            !allow_weight(q, graph, node->in[k], sbp))
            return false;
    }
    for (int32_t k = 0; role == AXIS_DP && k < node->n_out; k++)
        if (!allow_sample(q, graph, node->out[k], sig->out[k].at[axis]))
            return false;
    return true;
}

static bool allow_on_axis(const asked *q, const ir_graph *graph, int32_t axis,
                          const ir_nd_sig *sig)
{
    axis_role role = role_of(&q->f->recipe, q->mesh, axis);
    switch (q->node->op) {
    case IR_OP_input:
        return allow_input(q, role, sig->out[0].at[axis]);
    case IR_OP_variable:
    case IR_OP_constant:
    case IR_OP_accumulate:
        return allow_persistent(q, role, sig->out[0].at[axis]);
    default:
        return q->node->phase == IR_UPDATE ||
               allow_work(q, graph, role, axis, sig);
    }
}

static bool allow(void *ctx, const ir_graph *graph, int32_t v,
                  const ir_mesh *mesh, const ir_nd_sig *sig)
{
    recipe_filter *f = ctx;
    const ir_node *node = &graph->nodes.at[v];
    if (!mesh_fits(&f->recipe, mesh))
        return false;
    mark(f, graph);
    if (node->n_out == 0)
        return true;
    int32_t id = node->out[0];
    if (search_pins_concern(f->pin, node))
        return search_pins_allow(f->pin, node, mesh, sig);
    asked q = {f, mesh, node, &graph->tensors.at[id], id};
    for (int32_t a = 0; a < mesh->n; a++)
        if (!allow_on_axis(&q, graph, a, sig))
            return false;
    return true;
}

void search_recipe_apply(const search_recipe *recipe, fs_arena *arena,
                         search_problem *problem)
{
    const search_recipe *r = recipe;
    if (r->pp > 0)
        problem->fix_stages = r->pp;
    if (r->dp > 0 && r->tp > 0) {
        ir_mesh mesh = {0};
        if (r->dp > 1)
            mesh.dim[mesh.n++] = r->dp;
        if (r->tp > 1)
            mesh.dim[mesh.n++] = r->tp;
        problem->fix_mesh = mesh;
    }
    if (r->dp > 0 || r->tp > 0 || r->zero >= 0 || r->pins.n > 0) {
        recipe_filter *f = fs_new(arena, recipe_filter, 1);
        *f = (recipe_filter){.recipe = *r, .arena = arena};
        problem->filter = (search_filter){allow, f};
    }
    if (r->schedule)
        problem->schedule = r->schedule;
}
