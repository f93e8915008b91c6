/* Recipes: what follows from what is given, and the filter that keeps the
 * search to it. On each axis of the mesh a recipe is a restriction on
 * signatures, nothing else. */
#include "config.h"
#include "search/recipe/recipe.h"

#include "plan/schedule.h"
#include "search/layout.h"
#include "search/recipe/recipe_parts.h"

#include <stdio.h>

enum { MOST = 1 << 20 };

/* ---- what follows from what is given ---- */

static int64_t given(int32_t part)
{
    return part > 0 ? part : 1;
}

static int32_t at_stage(int32_t all, const search_each *each, int32_t stage)
{
    return stage < each->n ? each->at[stage] : all;
}

search_recipe search_recipe_at(const search_recipe *recipe, int32_t stage)
{
    search_recipe r = *recipe;
    r.dp = at_stage(r.dp, &r.dp_each, stage);
    r.tp = at_stage(r.tp, &r.tp_each, stage);
    r.cp = at_stage(r.cp, &r.cp_each, stage);
    r.ep = at_stage(r.ep, &r.ep_each, stage);
    r.dp_each = r.tp_each = r.cp_each = r.ep_each = (search_each){0};
    return r;
}

int32_t search_recipe_unequal(const search_recipe *r)
{
    const search_each *each[4] = {&r->dp_each, &r->tp_each, &r->cp_each,
                                  &r->ep_each};
    int32_t n = 0;
    for (int32_t k = 0; k < 4; k++)
        n = each[k]->n > n ? each[k]->n : n;
    return n;
}

static int64_t ranks_of_stage(const search_recipe *r, int32_t stage)
{
    const search_recipe s = search_recipe_at(r, stage);
    const int64_t part[3] = {given(s.dp), given(s.cp), given(s.tp)};
    int64_t product = 1;
    for (int32_t k = 0; k < 3; k++)
        if (__builtin_mul_overflow(product, part[k], &product))
            return INT64_MAX;
    return product;
}

int64_t search_recipe_ranks(const search_recipe *r)
{
    const int32_t n = search_recipe_unequal(r);
    int64_t sum = 0;
    if (n == 0)
        return __builtin_mul_overflow(ranks_of_stage(r, 0), given(r->pp), &sum)
                   ? INT64_MAX
                   : sum;
    for (int32_t i = 0; i < n; i++)
        if (__builtin_add_overflow(sum, ranks_of_stage(r, i), &sum))
            return INT64_MAX;
    return sum;
}

/* Names only what was given. */
static fs_status does_not_fit(const search_recipe *said, int32_t devices,
                              bool all, fs_err *err)
{
    const struct {
        const char *key;
        int32_t value;
    } parts[] = {
        {"dp", said->dp}, {"cp", said->cp}, {"tp", said->tp}, {"pp", said->pp}};
    char text[128] = "";
    for (size_t k = 0, n = 0; k < sizeof parts / sizeof *parts; k++)
        if (parts[k].value > 0)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s=%d",
                                  n ? " * " : "", parts[k].key, parts[k].value);
    return fs_fail(err, FS_INVALID,
                   "recipe: %s does not %s the %d devices of the cluster: dp * "
                   "cp * tp * pp must be their number",
                   text, all ? "make" : "divide", devices);
}

static fs_status complete_parts(search_recipe *r, int32_t devices,
                                bool complete, fs_err *err)
{
    int32_t *part[3] = {&r->dp, &r->tp, &r->pp}, n_free = 0;
    const search_recipe said = *r;
    r->cp = r->cp > 0 ? r->cp : 1;
    for (int32_t k = 2; k >= 0; k--) {
        if (*part[k] == 0 && complete && k > 0)
            *part[k] = 1;
        n_free += *part[k] == 0;
    }
    const int64_t product = search_recipe_ranks(r);
    if (product > devices || devices % product ||
        (n_free == 0 && product != devices))
        return does_not_fit(&said, devices, n_free == 0, err);
    for (int32_t k = 0; (n_free == 1 || product == devices) && k < 3; k++)
        if (*part[k] == 0)
            *part[k] = (int32_t)(devices / product);
    return FS_OK;
}

static fs_status check_each(const char *key, const search_each *each,
                            int32_t stages, fs_err *err)
{
    if (each->n == 0 || each->n == stages)
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "recipe: %s gives numbers to %d stages, there are %d", key,
                   each->n, stages);
}

/* Of stages that differ only a dp that is the same for all is left to be
 * completed. */
static fs_status complete_unequal(search_recipe *r, int32_t devices,
                                  fs_err *err)
{
    const int32_t n = r->pp ? r->pp : search_recipe_unequal(r);
    FS_TRY(check_each("dp", &r->dp_each, n, err));
    FS_TRY(check_each("tp", &r->tp_each, n, err));
    FS_TRY(check_each("cp", &r->cp_each, n, err));
    FS_TRY(check_each("ep", &r->ep_each, n, err));
    const bool free = r->dp == 0;
    r->pp = n;
    r->tp = r->tp ? r->tp : 1;
    r->cp = r->cp ? r->cp : 1;
    const int64_t ranks = search_recipe_ranks(r);
    if (free && devices % ranks == 0)
        r->dp = (int32_t)(devices / ranks);
    if (search_recipe_ranks(r) == devices)
        return FS_OK;
    return fs_fail(
        err, FS_INVALID,
        "recipe: the %d stages' %scp * tp add up to %lld devices, the cluster "
        "has %d%s",
        n, free ? "" : "dp * ", (long long)ranks, devices,
        free ? ": no dp of all stages uses them, give one for each, as dp=4/2"
             : "");
}

static fs_status check_experts_of(const search_recipe *r, fs_err *err)
{
    if (r->ep == 1 || (r->dp > 0 && r->dp % r->ep == 0))
        return FS_OK;
    if (r->dp == 0)
        return fs_fail(err, FS_INVALID,
                       "recipe: ep=%d is a part of the data-parallel ranks and "
                       "needs dp",
                       r->ep);
    return fs_fail(err, FS_INVALID,
                   "recipe: ep=%d does not divide dp=%d, whose ranks share the "
                   "experts",
                   r->ep, r->dp);
}

static fs_status complete_experts(search_recipe *r, fs_err *err)
{
    r->ep = r->ep ? r->ep : 1;
    for (int32_t i = 0; i == 0 || i < search_recipe_unequal(r); i++) {
        const search_recipe stage = search_recipe_at(r, i);
        FS_TRY(check_experts_of(&stage, err));
    }
    return FS_OK;
}

/* A schedule that places several stages on a group has two unless told, as a V
 * always has; several stages need such a schedule. */
static fs_status complete_schedule(search_recipe *r, fs_err *err)
{
    if (!r->schedule && r->interleave > 1)
        r->schedule = "interleaved";
    if (!r->schedule)
        return FS_OK;
    const plan_placing placing = plan_schedule_find(r->schedule)->placing;
    if (placing == PLAN_PLACED_ONCE && r->interleave > 1)
        return fs_fail(err, FS_INVALID,
                       "recipe: interleave=%d: the schedule %s runs one stage "
                       "on a device; interleaved and zb-v run several",
                       r->interleave, r->schedule);
    if (placing == PLAN_PLACED_ONCE)
        return FS_OK;
    if (r->interleave == 0)
        r->interleave = 2;
    if (r->interleave != 2 && placing == PLAN_PLACED_V)
        return fs_fail(err, FS_INVALID,
                       "recipe: interleave=%d: the schedule %s runs two stages "
                       "on a device",
                       r->interleave, r->schedule);
    if (r->interleave > 1)
        return FS_OK;
    return fs_fail(err, FS_INVALID,
                   "recipe: interleave=1: the schedule %s runs several stages "
                   "on a device; one each is 1f1b",
                   r->schedule);
}

static fs_status complete_stages(search_recipe *r, fs_err *err)
{
    FS_TRY(complete_schedule(r, err));
    const int32_t deep = r->interleave > 1 ? r->interleave : 1;
    if (r->n_layers == 0)
        return FS_OK;
    if (r->pp == 0 && r->n_layers % deep == 0)
        r->pp = r->n_layers / deep;
    const int64_t wanted = (int64_t)r->pp * deep;
    if (wanted == r->n_layers)
        return FS_OK;
    if (r->pp == 0)
        return fs_fail(err, FS_INVALID,
                       "recipe: layers gives %d numbers of blocks, "
                       "interleave=%d wants a multiple of %d",
                       r->n_layers, deep, deep);
    char stages[32] = "";
    if (deep > 1)
        snprintf(stages, sizeof stages, " * interleave=%d", deep);
    return fs_fail(err, FS_INVALID,
                   "recipe: layers gives %d number%s of blocks, pp=%d%s wants "
                   "%lld, one per stage",
                   r->n_layers, r->n_layers == 1 ? "" : "s", r->pp, stages,
                   (long long)wanted);
}

static fs_status check_micro_batch(const search_recipe *r, fs_err *err)
{
    if (r->micro_batches > 0)
        return fs_fail(err, FS_INVALID,
                       "recipe: micro-batch and micro-batches both say "
                       "how the batch is divided; give one");
    if (r->dp == 0)
        return fs_fail(err, FS_INVALID,
                       "recipe: micro-batch is a size per data-parallel "
                       "rank and needs dp");
    for (int32_t i = 1; i < r->dp_each.n; i++)
        if (r->dp_each.at[i] != r->dp)
            return fs_fail(err, FS_INVALID,
                           "recipe: micro-batch is a size per data-parallel "
                           "rank, of which stage 0 has %d and stage %d has "
                           "%d; give micro-batches",
                           r->dp, i, r->dp_each.at[i]);
    return FS_OK;
}

static fs_status complete_micro_batches(search_recipe *r, int64_t batch,
                                        fs_err *err)
{
    if (r->micro_batch > 0) {
        FS_TRY(check_micro_batch(r, err));
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
    FS_TRY(complete_stages(&r, err));
    if (search_recipe_unequal(&r))
        FS_TRY(complete_unequal(&r, cluster->n_devices, err));
    else
        FS_TRY(complete_parts(&r, cluster->n_devices, complete, err));
    FS_TRY(complete_experts(&r, err));
    FS_TRY(complete_micro_batches(&r, batch, err));
    if (complete && r.zero < 0)
        r.zero = 0;
    if (complete && r.seq_parallel < 0)
        r.seq_parallel = 0;
    if (complete && r.micro_batches == 0)
        r.micro_batches = 1;
    for (int32_t i = 0; i == 0 || i < search_recipe_unequal(&r); i++) {
        const search_recipe stage = search_recipe_at(&r, i);
        FS_TRY(check_samples(&stage, batch, err));
    }
    FS_TRY(search_recipe_effects(&r, err));
    *recipe = r;
    return FS_OK;
}

/* ---- the filter ---- */

typedef struct recipe_filter {
    search_recipe recipe;
    search_roles *axes; /* [unequal stages, or 1] */
    fs_arena *arena;
    /* Of the graph asked about last: many questions, few graphs. */
    search_marks marks;
    const search_pin **pin; /* [tensor] */
} recipe_filter;

static void add_role(search_roles *axes, search_role role, int32_t length)
{
    if (length <= 1)
        return;
    axes->role[axes->n] = role;
    axes->length[axes->n++] = length;
}

/* Outer to inner: what tensor-parallel ranks say to each other is the most. */
search_roles search_recipe_roles(const search_recipe *r)
{
    search_roles axes = {0};
    const int32_t ep = r->ep > 1 ? r->ep : 1;
    add_role(&axes, SEARCH_AXIS_DATA, r->dp / ep);
    add_role(&axes, SEARCH_AXIS_EXPERTS, ep);
    add_role(&axes, SEARCH_AXIS_PLACES, r->cp);
    add_role(&axes, SEARCH_AXIS_TENSOR, r->tp);
    return axes;
}

search_role search_role_of(const search_roles *axes, int32_t axis)
{
    return axis < axes->n ? axes->role[axis] : SEARCH_AXIS_FREE;
}

ir_mesh search_roles_mesh(const search_roles *axes)
{
    ir_mesh mesh = {.n = axes->n};
    for (int32_t a = 0; a < axes->n; a++)
        mesh.dim[a] = axes->length[a];
    return mesh;
}

bool search_roles_fit(const search_roles *axes, const ir_mesh *mesh)
{
    if (mesh->n < axes->n)
        return false;
    for (int32_t a = 0; a < axes->n; a++)
        if (mesh->dim[a] != axes->length[a])
            return false;
    return true;
}

static void mark(recipe_filter *f, const ir_graph *graph)
{
    if (f->marks.graph == graph)
        return;
    search_marks_make(graph, f->arena, &f->marks);
    fs_err err = {0};
    fs_status status =
        search_pins_find(&f->recipe.pins, graph, f->arena, &err, &f->pin);
    FS_ASSERT(status == FS_OK); /* checked by who posed the problem */
    for (int32_t t = 0; t < graph->tensors.n; t++)
        if (f->marks.part[t] >= 0 && f->pin[f->marks.owner[t]])
            f->marks.part[t] = SEARCH_NO_AXIS; /* the pin says how */
}

/* One question: node v of a graph with its output so. */
typedef struct asked {
    const recipe_filter *f;
    const search_roles *axes;
    const ir_graph *graph;
    const ir_mesh *mesh;
    const ir_node *node;
    const ir_tensor *tensor;
    int32_t v, id;
    search_cuts cuts; /* of what persists */
} asked;

static bool cut_along(ir_sbp sbp, int32_t axis)
{
    return sbp.kind == IR_S && sbp.axis == axis;
}

static bool lies_along(ir_sbp sbp, int32_t axis)
{
    return axis >= 0 ? cut_along(sbp, axis) : sbp.kind == IR_B;
}

/* An input is cut by samples on dp, by places on cp. With dp given nothing
 * else cuts it; tp never does. */
static bool allow_input(const asked *q, search_role role, ir_sbp sbp)
{
    switch (role) {
    case SEARCH_AXIS_DATA:
    case SEARCH_AXIS_EXPERTS:
        return lies_along(sbp, q->tensor->batch_axis);
    case SEARCH_AXIS_PLACES:
        return lies_along(sbp, q->f->marks.place[q->id]);
    case SEARCH_AXIS_FREE:
        return q->f->recipe.dp == 0 || sbp.kind == IR_B;
    default:
        return sbp.kind == IR_B;
    }
}

static bool allow_persistent(const asked *q, int32_t axis, ir_sbp sbp)
{
    const int32_t zero = q->f->recipe.zero;
    if (q->node->op == IR_OP_variable && sbp.kind == IR_PSUM)
        return true; /* its op allows it: each device keeps its own part */
    if (q->cuts.along[axis])
        return sbp.kind == IR_S && (q->cuts.along[axis] >> sbp.axis & 1);
    if (zero < 0 || search_role_of(q->axes, axis) == SEARCH_AXIS_TENSOR)
        return true;
    /* Below ZeRO-2 gradients add up as they are, to be reduced once a step, or
     * are reduced for each micro-batch. */
    return sbp.kind == IR_B ||
           (q->node->op == IR_OP_accumulate && sbp.kind == IR_PSUM);
}

/* One input or output of a node that works. */
typedef struct slot {
    const asked *q;
    int32_t tensor;
    ir_sbp sbp;
    bool made; /* an output */
} slot;

static bool is_weight(const slot *s)
{
    const search_marks *m = &s->q->f->marks;
    ir_op_class kind = ir_op_class_of(s->q->node->op);
    bool weighs = kind == IR_CLASS_MATMUL || kind == IR_CLASS_CONV ||
                  s->q->node->op == IR_OP_gather;
    return !s->made && weighs && m->weight[s->tensor] && !m->data[s->tensor];
}

/* Made of what has no samples: a batch norm's deviation of its variance. */
static bool of_statistics(const slot *s)
{
    const search_marks *m = &s->q->f->marks;
    for (int32_t k = 0; k < s->q->node->n_in; k++)
        if (m->sample[s->q->node->in[k]] >= 0)
            return false;
    return true;
}

/* On dp each rank works on its own samples: what has them is nowhere whole, or
 * ranks would repeat each other's work. What they were summed up to (the loss,
 * statistics of a batch) may be, once it is. */
static bool allow_samples(const slot *s)
{
    const search_marks *m = &s->q->f->marks;
    return s->sbp.kind != IR_B || !m->data[s->tensor] ||
           s->q->graph->tensors.at[s->tensor].shape.rank == 0 ||
           (m->sample[s->tensor] < 0 && (!s->made || of_statistics(s)));
}

/* Experts are used where they lie: tokens go to them. */
static bool allow_experts(const slot *s)
{
    if (s->q->f->marks.expert[s->tensor])
        return cut_along(s->sbp, 0);
    return allow_samples(s);
}

/* On cp each rank works on its own places, with the whole of the weights and of
 * its samples. What is read may be whole (keys and values, if the search
 * gathers them), what is made is not; heads may be cut for a while instead. */
static bool allow_places(const slot *s)
{
    const search_marks *m = &s->q->f->marks;
    if (is_weight(s))
        return s->sbp.kind == IR_B;
    if (m->sample[s->tensor] >= 0 && cut_along(s->sbp, m->sample[s->tensor]))
        return false;
    return !s->made || m->place[s->tensor] < 0 || s->sbp.kind != IR_B;
}

/* The stream between blocks: along the sequence, or whole. Gradients that meet
 * there may be added as partial sums; those of one tensor are, to be reduced
 * once. */
static bool allow_stream(const slot *s)
{
    const search_marks *m = &s->q->f->marks;
    if (m->sums[s->q->v])
        return ir_sbp_is_partial(s->sbp);
    if (ir_sbp_is_partial(s->sbp))
        return ir_op_class_of(s->q->node->op) == IR_CLASS_POINTWISE;
    if (s->q->f->recipe.seq_parallel == 0)
        return s->sbp.kind == IR_B;
    return m->place[s->tensor] >= 0 ? cut_along(s->sbp, m->place[s->tensor])
                                    : s->sbp.kind == IR_S;
}

/* On tp a weight is used as it lies, cut: gathering it would make every rank
 * compute the whole again. Where it lies by columns or by rows its gradient is
 * made so. */
static bool allow_part(const slot *s, int32_t ranks)
{
    const search_marks *m = &s->q->f->marks;
    const bool told = m->part[s->tensor] >= 0;
    if (!told && !is_weight(s))
        return true;
    const uint32_t along = search_weight_cuts(m, s->tensor, ranks);
    return !along ||
           (s->sbp.kind == IR_S && (!told || (along >> s->sbp.axis & 1)));
}

static bool allow_tensor(const slot *s, int32_t ranks)
{
    const search_marks *m = &s->q->f->marks;
    if (!allow_part(s, ranks))
        return false;
    if (s->q->f->recipe.seq_parallel < 0)
        return true;
    if (m->between[s->q->v] && m->stream[s->tensor])
        return allow_stream(s);
    return s->q->f->recipe.seq_parallel == 1 || s->sbp.kind != IR_S ||
           (s->sbp.axis != m->sample[s->tensor] &&
            s->sbp.axis != m->place[s->tensor]);
}

static bool allow_slot(const slot *s, int32_t axis)
{
    switch (search_role_of(s->q->axes, axis)) {
    case SEARCH_AXIS_DATA:
        return allow_samples(s);
    case SEARCH_AXIS_EXPERTS:
        return allow_experts(s);
    case SEARCH_AXIS_PLACES:
        return allow_places(s);
    case SEARCH_AXIS_TENSOR:
        return allow_tensor(s, s->q->mesh->dim[axis]);
    default:
        return true;
    }
}

static bool allow_work(const asked *q, int32_t axis, const ir_nd_sig *sig)
{
    const ir_node *node = q->node;
    for (int32_t k = 0; k < node->n_in; k++) {
        const slot s = {q, node->in[k], sig->in[k].at[axis], false};
        if (!allow_slot(&s, axis))
            return false;
    }
    for (int32_t k = 0; k < node->n_out; k++) {
        const slot s = {q, node->out[k], sig->out[k].at[axis], true};
        if (!allow_slot(&s, axis))
            return false;
    }
    return true;
}

static bool allow_on_axis(const asked *q, int32_t axis, const ir_nd_sig *sig)
{
    search_role role = search_role_of(q->axes, axis);
    switch (q->node->op) {
    case IR_OP_input:
        return allow_input(q, role, sig->out[0].at[axis]);
    case IR_OP_variable:
    case IR_OP_constant:
    case IR_OP_accumulate:
        return allow_persistent(q, axis, sig->out[0].at[axis]);
    default:
        return q->node->phase == IR_UPDATE || allow_work(q, axis, sig);
    }
}

static bool allow(void *ctx, const ir_graph *graph, int32_t v, int32_t stage,
                  const ir_mesh *mesh, const ir_nd_sig *sig)
{
    recipe_filter *f = ctx;
    const ir_node *node = &graph->nodes.at[v];
    const search_roles *axes =
        &f->axes[search_recipe_unequal(&f->recipe) ? stage : 0];
    if (!search_roles_fit(axes, mesh))
        return false;
    mark(f, graph);
    if (node->n_out == 0)
        return true;
    int32_t id = node->out[0];
    if (search_pins_concern(f->pin, node))
        return search_pins_allow(f->pin, node, mesh, sig);
    asked q = {.f = f,
               .axes = axes,
               .graph = graph,
               .mesh = mesh,
               .node = node,
               .tensor = &graph->tensors.at[id],
               .v = v,
               .id = id};
    const search_cuts wanted =
        search_cuts_wanted(&f->recipe, axes, &f->marks, v, mesh);
    q.cuts = search_cuts_possible(&wanted, &q.tensor->shape, mesh);
    for (int32_t a = 0; a < mesh->n; a++)
        if (!allow_on_axis(&q, a, sig))
            return false;
    return true;
}

/* ---- the problem ---- */

static void fix_meshes(const search_recipe *r, const search_roles *axes,
                       fs_arena *arena, search_problem *problem)
{
    const bool all = r->dp > 0 && r->tp > 0;
    const int32_t n = search_recipe_unequal(r);
    ir_mesh *mesh = fs_new(arena, ir_mesh, n);
    for (int32_t i = 0; i < n; i++)
        mesh[i] = search_roles_mesh(&axes[i]);
    if (n)
        problem->stage_mesh = mesh;
    else if (all)
        problem->fix_mesh = search_roles_mesh(axes);
    if (axes->n + !all > problem->max_mesh_axes)
        problem->max_mesh_axes = axes->n + !all;
}

void search_recipe_apply(const search_recipe *recipe, fs_arena *arena,
                         search_problem *problem)
{
    const search_recipe *r = recipe;
    const int32_t n = search_recipe_unequal(r) ? search_recipe_unequal(r) : 1;
    search_roles *axes = fs_new(arena, search_roles, n);
    for (int32_t i = 0; i < n; i++) {
        const search_recipe stage = search_recipe_at(r, i);
        axes[i] = search_recipe_roles(&stage);
    }
    if (r->pp > 0)
        problem->fix_stages = r->pp;
    fix_meshes(r, axes, arena, problem);
    if (r->dp > 0 || r->tp > 0 || r->cp > 1 || r->zero >= 0 ||
        r->seq_parallel >= 0 || r->pins.n > 0) {
        recipe_filter *f = fs_new(arena, recipe_filter, 1);
        *f = (recipe_filter){.recipe = *r, .axes = axes, .arena = arena};
        problem->filter = (search_filter){allow, f};
    }
    problem->recipe = fs_memdup(arena, r, sizeof *r);
    problem->interleave = r->interleave;
    problem->n_layers = r->n_layers;
    problem->layers = r->layers;
    if (r->zero == 3)
        problem->lives = SEARCH_ANEW;
    if (r->schedule)
        problem->schedule = r->schedule;
}
