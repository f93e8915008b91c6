/* The model: measured points by op, the roofline where there are none. */
#include "config.h"
#include "cost/parts.h"

#include "ir/chain.h"

#include <math.h>
#include <string.h>

/* An op's points, as a curve that does not fall. */
typedef struct point_range {
    const hw_point *at;
    int32_t n;
} point_range;

struct cost_model {
    const hw_cluster *cluster;
    point_range (*points)[IR_OP_COUNT]; /* [groups] */
    const cost_forms *forms;
    const hw_links *links;
    cost_memo *routes, *straights, *crossings, *widened;
    cost_paces *paces;
    uint32_t collectives;      /* rows of plan/algorithms.def to choose from */
    plan_algorithm reduces_by; /* PLAN_ALGORITHMS: of these */
    double busy;               /* fraction of the time that a device has work */
};

/* More work of one op takes no less time, but shapes of as much work may differ
 * several times over: where a point is below those before it, all of them
 * become their mean (pool adjacent violators: the nearest curve that does not
 * fall, Barlow et al. 1972). A lower curve would make what nobody measured look
 * faster than what was, and search would choose that. */
static void make_monotone(hw_point *points, int32_t n)
{
    for (int32_t i = 1; i < n; i++) {
        int32_t first = i;
        double mean = points[i].seconds;
        while (first > 0 && points[first - 1].seconds > mean) {
            const double pooled = points[first - 1].seconds;
            double sum = 0;
            while (first > 0 && points[first - 1].seconds == pooled)
                first--;
            for (int32_t k = first; k <= i; k++)
                sum += points[k].seconds;
            mean = sum / (i + 1 - first);
            for (int32_t k = first; k <= i; k++)
                points[k].seconds = mean;
        }
    }
}

/* The curve of an op or a class. Points are sorted by name, then form, of which
 * those of a curve have none, then work. */
static point_range find_points(const hw_device *device, const char *what,
                               fs_arena *arena)
{
    int32_t first = 0, n = 0;
    while (first < device->n_points &&
           strcmp(device->points[first].what, what) != 0)
        first++;
    while (first + n < device->n_points &&
           strcmp(device->points[first + n].what, what) == 0 &&
           !device->points[first + n].form)
        n++;
    if (!n)
        return (point_range){NULL, 0};
    hw_point *curve =
        fs_memdup(arena, &device->points[first], (size_t)n * sizeof *curve);
    make_monotone(curve, n);
    return (point_range){curve, n};
}

static point_range points_of(const hw_device *device, ir_op_kind op,
                             fs_arena *arena)
{
    point_range own = find_points(device, ir_op_table[op]->name, arena);
    if (own.n)
        return own;
    return find_points(device, ir_op_class_name(ir_op_class_of(op)), arena);
}

cost_model *cost_model_create(const hw_cluster *cluster, fs_arena *arena)
{
    cost_model *model = fs_new(arena, cost_model, 1);
    model->cluster = cluster;
    model->busy = 1;
    model->collectives = ~(uint32_t)0;
    model->reduces_by = PLAN_ALGORITHMS;
    model->points =
        fs_alloc(arena, (size_t)cluster->n_groups, sizeof *model->points);
    model->forms = cost_forms_create(cluster, arena);
    model->routes = cost_routes_create(arena);
    if (hw_links_told(cluster)) {
        model->links = hw_links_create(cluster, arena);
        model->straights = cost_straights_create(arena);
    }
    model->crossings = cost_crossings_create(arena);
    model->widened = cost_widened_create(arena);
    model->paces = cost_paces_create(arena);
    for (int32_t g = 0; g < cluster->n_groups; g++) {
        const hw_device *device = &cluster->groups[g].device;
        /* A probed cluster that nobody has measured. */
        FS_ASSERT(device->memory_bps * device->memory_efficiency > 0);
        for (int32_t k = 0; k < IR_OP_COUNT; k++)
            model->points[g][k] = points_of(device, (ir_op_kind)k, arena);
    }
    return model;
}

cost_model *cost_model_on(const cost_model *model, const hw_cluster *cluster,
                          fs_arena *arena)
{
    cost_model *out = cost_model_create(cluster, arena);
    out->collectives = model->collectives;
    out->reduces_by = model->reduces_by;
    return out;
}

cost_model *cost_model_like(const cost_model *model, fs_arena *arena)
{
    return cost_model_on(model, model->cluster, arena);
}

void cost_model_reduce_by(cost_model *model, plan_algorithm algorithm)
{
    model->reduces_by = algorithm;
}

plan_algorithm cost_model_reduces_by(const cost_model *model)
{
    return model->reduces_by;
}

/* Are there more devices than cores anywhere? */
static bool is_crowded(const hw_cluster *cluster)
{
    for (int32_t g = 0; g < cluster->n_groups; g++)
        if (hw_core_share(&cluster->groups[g],
                          cluster->groups[g].devices_per_node) > 1)
            return true;
    return false;
}

const cost_model *cost_model_for(const cost_model *model, int32_t n_stages,
                                 int32_t micro_batches, fs_arena *arena)
{
    double m = micro_batches;
    if (n_stages <= 1 || !is_crowded(model->cluster))
        return model;
    cost_model *view = fs_memdup(arena, model, sizeof *model);
    view->busy = m / (m + n_stages - 1);
    return view;
}

const hw_links *cost_model_links(const cost_model *model)
{
    return model->links;
}

uint32_t cost_model_collectives(const cost_model *model)
{
    return model->collectives;
}

const cost_model *cost_model_with(const cost_model *model, uint32_t collectives,
                                  fs_arena *arena)
{
    cost_model *view = fs_memdup(arena, model, sizeof *model);
    view->collectives = collectives;
    return view;
}

double cost_core_share(const cost_model *model, const hw_group *group)
{
    double active = model->busy * group->devices_per_node;
    if (group->cores_per_node <= 0)
        return 1;
    return fmax(1, active / group->cores_per_node);
}

const hw_cluster *cost_cluster(const cost_model *model)
{
    return model->cluster;
}

cost_memo *cost_model_straights(const cost_model *model)
{
    return model->straights;
}

cost_memo *cost_model_crossings(const cost_model *model)
{
    return model->crossings;
}

cost_memo *cost_model_widened(const cost_model *model)
{
    return model->widened;
}

cost_memo *cost_model_routes(const cost_model *model)
{
    return model->routes;
}

cost_paces *cost_model_paces(const cost_model *model)
{
    return model->paces;
}

cost_groups cost_groups_of(const cost_model *model, const plan_stage *stage)
{
    const hw_cluster *cluster = model->cluster;
    int32_t last = stage->first_device + ir_mesh_size(&stage->mesh) - 1;
    return (cost_groups){
        (int32_t)(hw_group_of(cluster, stage->first_device) - cluster->groups),
        (int32_t)(hw_group_of(cluster, last) - cluster->groups)};
}

int64_t cost_piece_bytes(const ir_tensor *tensor, const ir_nd_sbp *sbp,
                         const ir_mesh *mesh)
{
    ir_shape piece = ir_largest_piece(&tensor->shape, sbp, mesh);
    return ir_shape_count(&piece) * ir_dtype_bytes(tensor->dtype);
}

static double line_at(const hw_point *a, const hw_point *b, double work)
{
    double slope = (b->seconds - a->seconds) / (b->work - a->work);
    return a->seconds + slope * (work - a->work);
}

/* Piecewise linear. Before the first point: the line from (0, launch); behind
 * the last: the last line goes on, or the last rate where it would fall. */
static double seconds_at(point_range points, double work, double launch_s)
{
    const hw_point *first = points.at, *last = &points.at[points.n - 1];
    if (work <= first->work) {
        double start = fmin(launch_s, first->seconds);
        return start + (first->seconds - start) * work / first->work;
    }
    for (int32_t i = 1; i < points.n; i++)
        if (work <= points.at[i].work)
            return line_at(&points.at[i - 1], &points.at[i], work);
    double ahead = 0;
    if (points.n > 1 && last->work > last[-1].work)
        ahead = line_at(last - 1, last, work);
    return ahead > last->seconds ? ahead : last->seconds * work / last->work;
}

static bool widens(const hw_device *device, const ir_work *work)
{
    return work->narrow != IR_F32 &&
           hw_device_widens(device, work->narrow == IR_BF16);
}

/* A device that has no rate of its own for such 16-bit floats widens them:
 * float copies are written and read besides. */
static double bytes_moved(const hw_device *device, const ir_work *work)
{
    double bytes = (double)work->read_bytes + (double)work->written_bytes;
    if (widens(device, work))
        bytes += 2 * (double)work->scratch_bytes;
    return bytes;
}

/* What a point's work is of. */
static double amount_of(const hw_device *device, ir_op_kind op,
                        const ir_work *work)
{
    return ir_op_is_dense(op) ? (double)work->flop : bytes_moved(device, work);
}

/* These seconds, behind a launch. */
static plan_demand lasting(const hw_device *device, ir_op_kind op,
                           double seconds, plan_evidence known)
{
    seconds = fmax(seconds, device->launch_s);
    plan_demand out = {
        .launch_s = device->launch_s, .total_s = seconds, .known = known};
    if (ir_op_is_dense(op))
        out.compute_s = seconds - device->launch_s;
    else
        out.memory_s = seconds - device->launch_s;
    return out;
}

static plan_demand measured(const hw_device *device, point_range points,
                            ir_op_kind op, const ir_work *work)
{
    const double amount = amount_of(device, op, work);
    return lasting(device, op, seconds_at(points, amount, device->launch_s),
                   PLAN_INTERPOLATED);
}

/* `tiled`: the work is that of a piece, whose product is known. */
static plan_demand roofline(const hw_device *device, ir_op_kind op,
                            const ir_work *work, bool tiled)
{
    double rate = work->narrow == IR_F32
                      ? hw_device_flops(device)
                      : hw_device_narrow_flops(device, work->narrow == IR_BF16);
    double bytes = bytes_moved(device, work);
    const bool dense = ir_op_is_dense(op);
    const bool product = dense && ir_op_class_of(op) != IR_CLASS_ATTENTION;
    if (dense)
        rate *= hw_device_efficiency(device, work->narrow != IR_F32);
    if (product && tiled)
        rate *= cost_product_alignment(device, work, &work->product);
    plan_demand out = {.launch_s = device->launch_s,
                       .compute_s = rate > 0 ? (double)work->flop / rate : 0,
                       .memory_s =
                           bytes / hw_device_bps(device, ir_op_class_of(op) ==
                                                             IR_CLASS_REDUCE)};
    if (product && tiled && device->units && work->product.groups)
        out.compute_s = fmax(
            out.compute_s, cost_product_seconds(device, &work->product, rate));
    out.total_s = out.launch_s + fmax(out.compute_s, out.memory_s);
    return out;
}

/* Seconds of an op whose `work` comes tile by tile, each in the caches. */
static double tiled_s(const cost_model *model, int32_t g, ir_op_kind op,
                      double work, int64_t tiles)
{
    const point_range points = model->points[g][op];
    const double launch_s = model->cluster->groups[g].device.launch_s;
    if (!tiles)
        return 0;
    return (double)tiles *
           fmax(seconds_at(points, work / (double)tiles, launch_s), launch_s);
}

/* A chain takes what its steps take on tiles; moving what enters and leaves
 * adds what it takes beyond the caches. */
static plan_demand measured_chain(const cost_model *model, int32_t g,
                                  const cost_piece *piece, const ir_work *work)
{
    const ir_node *node = piece->node;
    const hw_device *device = &model->cluster->groups[g].device;
    ir_work step[IR_CHAIN_STEPS];
    const int64_t tiles =
        ir_chain_work(piece->graph, node, piece->sig, piece->mesh, step);
    plan_demand out =
        measured(device, model->points[g][node->op], node->op, work);
    out.memory_s =
        fmax(0, out.total_s - tiled_s(model, g, node->op,
                                      bytes_moved(device, work), tiles));
    for (int32_t k = 0; k < node->chain->n_steps; k++)
        out.compute_s += tiled_s(model, g, node->chain->step[k].op,
                                 bytes_moved(device, &step[k]), tiles);
    out.total_s = fmax(out.launch_s, out.memory_s + out.compute_s);
    return out;
}

/* Of no measured form. */
static plan_demand estimated(const cost_model *model, int32_t g,
                             const cost_piece *piece)
{
    const hw_group *group = &model->cluster->groups[g];
    const ir_op_kind op = piece->node->op;
    point_range points = model->points[g][op];
    ir_work work;
    ir_node_flow(piece->graph, piece->node, piece->sig, piece->mesh, &work);
    if (widens(&group->device, &work)) /* what floats are copied to */
        work.scratch_bytes = cost_widened_scratch(model, piece);
    return !points.n            ? roofline(&group->device, op, &work, true)
           : piece->node->chain ? measured_chain(model, g, piece, &work)
                                : measured(&group->device, points, op, &work);
}

plan_demand cost_op_on(const cost_model *model, int32_t g,
                       const cost_piece *piece)
{
    const hw_group *group = &model->cluster->groups[g];
    const hw_point *exact = cost_forms_find(model->forms, g, piece);
    plan_demand demand = exact ? lasting(&group->device, piece->node->op,
                                         exact->seconds, PLAN_MEASURED)
                               : estimated(model, g, piece);
    demand.on_core = group->cores_per_node > 0;
    return demand;
}

/* Steps of a chain come tile by tile: of one that is measured only the launch
 * is sure. */
double cost_share_least(const cost_model *model, const ir_node *node,
                        const ir_work *share)
{
    const ir_op_class op_class = ir_op_class_of(node->op);
    const ir_work alone = {.flop = share->flop,
                           .read_bytes = share->read_bytes,
                           .written_bytes = share->written_bytes,
                           .narrow = share->narrow};
    double least = INFINITY;
    if (op_class == IR_CLASS_SOURCE || op_class == IR_CLASS_VIEW)
        return 0;
    for (int32_t g = 0; g < model->cluster->n_groups; g++) {
        const hw_device *device = &model->cluster->groups[g].device;
        const point_range points = model->points[g][node->op];
        const plan_demand demand =
            !points.n     ? roofline(device, node->op, &alone, false)
            : node->chain ? (plan_demand){.total_s = device->launch_s}
                          : measured(device, points, node->op, &alone);
        const double of_forms = cost_forms_least(
            model->forms, g, node->op, amount_of(device, node->op, &alone));
        least = fmin(least, demand.total_s);
        least = fmin(least, fmax(of_forms, device->launch_s));
    }
    return least;
}

ir_work cost_whole_work(const ir_graph *graph, int32_t node)
{
    const ir_nd_sig sig = {0};
    const ir_mesh one = {0};
    ir_work work;
    ir_node_flow(graph, &graph->nodes.at[node], &sig, &one, &work);
    return work;
}

/* The rest of an op's seconds grows with its bytes: make_monotone, and rates
 * and latencies that are not below 0. Which kind of device sets the pace hangs
 * on the graph, where there are several. */
bool cost_narrow_is_no_slower(const cost_model *model, const ir_node *node)
{
    const hw_device *device = &model->cluster->groups[0].device;
    return model->cluster->n_groups == 1 && ir_op_table[node->op]->moves &&
           !node->chain && !cost_forms_any(model->forms, 0, node->op) &&
           hw_device_narrow_flops(device, false) >= hw_device_flops(device) &&
           hw_device_narrow_flops(device, true) >= hw_device_flops(device);
}

plan_demand cost_op(const cost_model *model, const ir_graph *graph,
                    const ir_node *node, const ir_nd_sig *sig,
                    const plan_stage *stage)
{
    ir_op_class op_class = ir_op_class_of(node->op);
    if (op_class == IR_CLASS_SOURCE || op_class == IR_CLASS_VIEW)
        return (plan_demand){0};
    const cost_piece piece = {graph, node, sig, &stage->mesh};
    plan_demand demand =
        cost_op_on(model, cost_pace_of(model, graph, stage), &piece);
    cost_wait_for_slowest(model, stage, &demand);
    cost_fire(model, stage, &demand);
    return demand;
}

void cost_fire(const cost_model *model, const plan_stage *stage,
               plan_demand *demand)
{
    const cost_groups range = cost_groups_of(model, stage);
    double firing_s = 0;
    for (int32_t g = range.first; g <= range.last; g++)
        firing_s = fmax(firing_s, model->cluster->groups[g].firing_s);
    demand->launch_s += firing_s;
    demand->total_s += firing_s;
}

void cost_wait_for_slowest(const cost_model *model, const plan_stage *stage,
                           plan_demand *demand)
{
    const cost_groups range = cost_groups_of(model, stage);
    const double slowest = hw_slowest_of(ir_mesh_size(&stage->mesh));
    double jitter = 0;
    for (int32_t g = range.first; g <= range.last; g++) {
        const hw_group *group = &model->cluster->groups[g];
        if (hw_core_share(group, group->devices_per_node) <= 1)
            jitter = fmax(jitter, group->jitter);
    }
    if (jitter <= 0 || slowest <= 0)
        return;
    const double more = demand->total_s * jitter * slowest;
    demand->latency_s += more;
    demand->total_s += more;
}

double cost_shared_seconds(const cost_model *model, const plan_stage *stage,
                           const plan_demand *demand)
{
    double share = 1;
    cost_groups range = cost_groups_of(model, stage);
    if (!demand->on_core)
        return demand->total_s;
    for (int32_t g = range.first; g <= range.last; g++) {
        const hw_group *group = &model->cluster->groups[g];
        share = fmax(share, cost_core_share(model, group));
    }
    return demand->total_s * share;
}
