/* Moves between stages of any two meshes: what each device sends and receives,
 * by the exchange that runs. */
#include "config.h"
#include "cost/parts.h"

#include <math.h>
#include <string.h>

/* What goes through one device, out of the sending stage or into the other. */
typedef struct traffic {
    double inside_s, outside_bytes, latency_s; /* inside; and outside */
    int64_t outside;                           /* so many messages */
    bool on_core;
} traffic;

/* Of the positions of a stage; most are alike (cost_tallies). */
typedef struct traffics {
    cost_tallies which; /* NULL at: each is told */
    traffic *at;
} traffics;

typedef struct across {
    const cost_model *model;
    const plan_cross *cross;
    traffics out, in;
    FS_VEC(hw_transfer) moves; /* all of them, where links are told of */
} across;

static void add_outside(const across *x, traffic *end, int64_t messages,
                        double bytes)
{
    end->outside += messages;
    end->outside_bytes += bytes;
    end->on_core |= cost_cluster(x->model)->outer.on_cores;
}

static void add_message(across *x, fs_arena *scratch, int32_t giver,
                        int32_t taker, double bytes)
{
    const hw_cluster *cluster = cost_cluster(x->model);
    int32_t a = x->cross->from_stage->first_device + giver;
    int32_t b = x->cross->to_stage->first_device + taker;
    const hw_link *link = hw_link_between(cluster, a, b);
    const hw_links *links = cost_model_links(x->model);
    bool outside = hw_node_of(cluster, a) != hw_node_of(cluster, b);
    const int32_t wires = links && !outside ? hw_wires_between(links, a, b) : 1;
    traffic *ends[2] = {&x->out.at[giver], &x->in.at[taker]};
    for (int32_t k = 0; k < 2; k++) {
        if (outside) {
            add_outside(x, ends[k], 1, bytes);
            continue;
        }
        ends[k]->latency_s += wires * link->latency_s;
        ends[k]->on_core |= link->on_cores;
        ends[k]->inside_s += bytes / link->bandwidth_bps;
    }
    if (links && a != b)
        fs_push(scratch, &x->moves, (hw_transfer){a, b, bytes});
}

static const traffic *at_position(const traffics *side, int32_t position)
{
    return &side->at[cost_tally_place(&side->which, position)];
}

static traffics each_told(const plan_stage *stage, fs_arena *scratch)
{
    const int32_t n = ir_mesh_size(&stage->mesh);
    return (traffics){{n, n, 1, 0, NULL}, fs_new(scratch, traffic, n)};
}

static void list_messages(across *x, const plan_exchange *exchange,
                          fs_arena *scratch)
{
    x->out = each_told(x->cross->from_stage, scratch);
    x->in = each_told(x->cross->to_stage, scratch);
    double element = (double)ir_dtype_bytes(x->cross->tensor->dtype);
    plan_shares shares = {0};
    for (int32_t i = 0; i < ir_mesh_size(&exchange->to_mesh); i++) {
        shares.n = 0;
        plan_exchange_takes(exchange, i, scratch, &shares);
        for (int32_t k = 0; k < shares.n; k++)
            add_message(x, scratch, shares.at[k].position, i,
                        element *
                            (double)ir_shape_count(&shares.at[k].box.shape));
    }
}

static traffics traffics_of(const across *x, const cost_tallies *tallies,
                            fs_arena *scratch)
{
    const double element = (double)ir_dtype_bytes(x->cross->tensor->dtype);
    const int32_t n = tallies->told + tallies->ends;
    const traffics out = {*tallies, fs_new(scratch, traffic, n)};
    for (int32_t i = 0; i < n; i++)
        if (tallies->at[i].messages)
            add_outside(x, &out.at[i], tallies->at[i].messages,
                        element * (double)tallies->at[i].elements);
    return out;
}

/* All of them go from node to node: who deals with whom does not matter. */
static void count_messages(across *x, const plan_exchange *exchange,
                           fs_arena *scratch)
{
    const cost_tallied moved = cost_tally_move(exchange, scratch);
    x->out = traffics_of(x, &moved.given, scratch);
    x->in = traffics_of(x, &moved.taken, scratch);
}

/* Where the node of position i ends. */
static int32_t node_end(const hw_cluster *cluster, const plan_stage *stage,
                        int32_t i)
{
    const int32_t size = ir_mesh_size(&stage->mesh);
    int32_t first, end;
    hw_node_range(cluster, stage->first_device + i, &first, &end);
    end -= stage->first_device;
    return end < size ? end : size;
}

/* What goes inside the node and out of it, whose way out so many share, goes at
 * once. */
static plan_demand demand_of(const across *x, const traffic *at,
                             int32_t sharing)
{
    const hw_cluster *cluster = cost_cluster(x->model);
    plan_demand d = {.latency_s = at->latency_s + (double)at->outside *
                                                      cluster->outer.latency_s,
                     .network_s = at->inside_s,
                     .on_core = at->on_core};
    if (at->outside_bytes > 0)
        d.network_s = fmax(
            d.network_s, at->outside_bytes /
                             hw_outer_share(cluster, sharing, 1).bandwidth_bps);
    d.total_s = d.latency_s + d.network_s;
    return d;
}

/* Nodes of a stage that have so many of its positions each, one behind the
 * other, from `first` on. */
typedef struct node_row {
    int32_t first, n;
} node_row;

/* Is each position of the node that begins there as one of a node before it in
 * the row? */
static bool is_told(const cost_tallies *which, node_row row, int32_t begin)
{
    const int32_t back = which->period > 1 ? which->period : row.n;
    return begin >= which->told &&
           begin - back >= which->told - which->period &&
           begin + row.n <= which->positions - which->ends &&
           begin - back >= row.first && back % row.n == 0;
}

/* The slowest position of one side. */
static plan_demand slowest(const across *x, const plan_stage *stage,
                           const traffics *side)
{
    plan_demand worst = {0};
    node_row row = {0, 0};
    for (int32_t i = 0, end; i < side->which.positions; i = end) {
        int32_t sharing = 0;
        end = node_end(cost_cluster(x->model), stage, i);
        if (end - i != row.n)
            row = (node_row){i, end - i};
        if (is_told(&side->which, row, i))
            continue;
        for (int32_t k = i; k < end; k++)
            sharing += at_position(side, k)->outside_bytes > 0;
        for (int32_t k = i; k < end; k++) {
            const plan_demand d = demand_of(x, at_position(side, k), sharing);
            if (d.total_s > worst.total_s)
                worst = d;
        }
    }
    return worst;
}

/* Contributions to each element of what is folded on arrival; 1: nothing is. */
static double contributions(const plan_cross *cross)
{
    const plan_exchange x = plan_cross_exchange(cross);
    double n = 1;
    if (plan_exchange_folds(&x) == IR_B)
        return 1;
    for (int32_t a = 0; a < x.from_mesh.n; a++)
        if (ir_sbp_is_partial(x.from.at[a]))
            n *= x.from_mesh.dim[a];
    return n;
}

/* The receiver of a reduction reads all contributions and writes their sum. */
static double fold_seconds(const cost_model *model, const plan_cross *cross)
{
    double n = contributions(cross);
    double bytes = (double)cost_piece_bytes(cross->tensor, &cross->to,
                                            &cross->to_stage->mesh);
    if (n <= 1)
        return 0;
    return (n + 1) * bytes / cost_memory_bps(model, cross->to_stage);
}

static bool share_node(const hw_cluster *cluster, const plan_stage *a,
                       const plan_stage *b)
{
    const int32_t a_last = a->first_device + ir_mesh_size(&a->mesh) - 1;
    const int32_t b_last = b->first_device + ir_mesh_size(&b->mesh) - 1;
    return hw_node_of(cluster, a->first_device) <=
               hw_node_of(cluster, b_last) &&
           hw_node_of(cluster, b->first_device) <= hw_node_of(cluster, a_last);
}

/* Between stages that share no node all goes from node to node. */
static bool all_outside(const cost_model *model, const plan_cross *cross)
{
    return !share_node(cost_cluster(model), cross->from_stage, cross->to_stage);
}

static bool has_halo(const plan_cross *cross)
{
    for (int32_t a = 0; a < cross->to_stage->mesh.n; a++)
        if (ir_sbp_has_halo(cross->to.at[a]))
            return true;
    return false;
}

static plan_demand look_across(const cost_model *model, const plan_cross *cross)
{
    fs_arena *scratch = fs_arena_create();
    across x = {.model = model, .cross = cross};
    const plan_exchange exchange = plan_cross_exchange(cross);
    const hw_links *links = cost_model_links(model);
    if (!links && all_outside(model, cross) && !has_halo(cross))
        count_messages(&x, &exchange, scratch);
    else
        list_messages(&x, &exchange, scratch);
    plan_demand out = slowest(&x, cross->from_stage, &x.out);
    plan_demand in = slowest(&x, cross->to_stage, &x.in);
    if (in.total_s > out.total_s)
        out = in;
    if (links) {
        const double s = hw_moves_seconds(links, x.moves.at, x.moves.n);
        out.network_s = fmax(out.network_s, s);
        out.total_s = out.latency_s + out.network_s;
    }
    fs_arena_destroy(scratch);
    return out;
}

/* ---- remembered ---- */

/* Everything that the traffic depends on, without padding. */
typedef struct crossing_key {
    int64_t dim[IR_MAX_RANK];
    int32_t rank, element;
    cost_place place;
    int32_t axes[2], mesh[2][IR_MAX_MESH];
    ir_nd_sbp sbp[2];
} crossing_key;

cost_memo *cost_crossings_create(fs_arena *arena)
{
    return cost_memo_create(sizeof(crossing_key), sizeof(plan_demand),
                            COST_MANY, arena);
}

static bool keeps_to_a_node(const plan_stage *stage, int32_t per)
{
    return stage->first_device % per + ir_mesh_size(&stage->mesh) <= per;
}

/* Where in a node it begins is all the same to what keeps to one. */
static int32_t begin_in_node(const plan_stage *stage, int32_t per)
{
    return keeps_to_a_node(stage, per) ? 0 : stage->first_device % per;
}

cost_place cost_place_of(const cost_model *model, const plan_stage *from,
                         const plan_stage *to)
{
    const hw_cluster *cluster = cost_cluster(model);
    const int32_t per = cluster->groups[0].devices_per_node;
    const int32_t away = to->first_device - from->first_device;
    cost_place place = {{from->first_device, to->first_device}, 0};
    if (cluster->n_groups > 1)
        return place;
    if (cost_model_links(model)) {
        place.begins[0] %= hw_cluster_period(cluster);
        place.begins[1] = place.begins[0] + away;
        place.apart = cluster->fabric.nodes_per_leaf == 0 &&
                      !share_node(cluster, from, to);
        if (place.apart)
            place.begins[1] = to->first_device % per;
        return place;
    }
    place.apart = !share_node(cluster, from, to);
    place.begins[0] = begin_in_node(from, per);
    place.begins[1] = begin_in_node(to, per);
    if (place.apart)
        return place;
    place.begins[0] = from->first_device % per;
    place.begins[1] = place.begins[0] + away;
    if (keeps_to_a_node(from, per) && keeps_to_a_node(to, per)) {
        place.begins[0] = 0;
        place.begins[1] = away != 0;
    }
    return place;
}

static crossing_key key_of(const cost_model *model, const plan_cross *cross)
{
    const plan_stage *stage[2] = {cross->from_stage, cross->to_stage};
    crossing_key key;
    memset(&key, 0, sizeof key);
    key.rank = cross->tensor->shape.rank;
    key.element = (int32_t)ir_dtype_bytes(cross->tensor->dtype);
    for (int32_t d = 0; d < key.rank; d++)
        key.dim[d] = cross->tensor->shape.dim[d];
    for (int32_t k = 0; k < 2; k++) {
        key.axes[k] = stage[k]->mesh.n;
        for (int32_t a = 0; a < stage[k]->mesh.n; a++) {
            key.mesh[k][a] = stage[k]->mesh.dim[a];
            key.sbp[k].at[a] = (k ? cross->to : cross->from).at[a];
        }
    }
    key.place = cost_place_of(model, cross->from_stage, cross->to_stage);
    return key;
}

static plan_demand traffic_of(const cost_model *model, const plan_cross *cross)
{
    const crossing_key key = key_of(model, cross);
    bool known;
    plan_demand *demand =
        cost_memo_at(cost_model_crossings(model), &key, &known);
    if (!known)
        *demand = look_across(model, cross);
    return *demand;
}

plan_demand cost_cross(const cost_model *model, const plan_cross *cross)
{
    if (plan_cross_is_straight(cross))
        return cost_p2p(model, cross->from_stage, cross->to_stage,
                        cost_piece_bytes(cross->tensor, &cross->from,
                                         &cross->from_stage->mesh));
    plan_demand out = traffic_of(model, cross);
    if (out.on_core)
        out.latency_s += cost_turn_seconds(model, cross->to_stage);
    out.memory_s = fold_seconds(model, cross);
    out.total_s = out.latency_s + out.network_s + out.memory_s;
    return out;
}

/* ---- quick to say ---- */

/* Of a mean, so that it does not lift a bound above what it bounds. */
#define ROUNDING 1e-12

/* The fastest that a device of a stage reaches the other stage. */
static double best_bps(const cost_model *model, const plan_stage *stage,
                       bool inside, bool outside)
{
    const hw_cluster *cluster = cost_cluster(model);
    cost_groups range = cost_groups_of(model, stage);
    double bps = 0;
    for (int32_t g = range.first; inside && g <= range.last; g++)
        bps = fmax(bps, cluster->groups[g].inner.bandwidth_bps);
    return bps + (outside ? hw_outer_share(cluster, 1, 1).bandwidth_bps : 0);
}

/* Who receives the largest piece receives at least so many messages: nobody
 * gives it more than a piece along each dimension. */
static double least_messages(const plan_cross *cross)
{
    const ir_shape from = ir_largest_piece(&cross->tensor->shape, &cross->from,
                                           &cross->from_stage->mesh);
    const ir_shape to = ir_largest_piece(&cross->tensor->shape, &cross->to,
                                         &cross->to_stage->mesh);
    double n = contributions(cross);
    for (int32_t d = 0; d < to.rank; d++)
        n *= (double)((to.dim[d] + from.dim[d] - 1) / from.dim[d]);
    return n;
}

static double least_latency(const cost_model *model, const plan_stage *stage,
                            bool inside, bool outside)
{
    const hw_cluster *cluster = cost_cluster(model);
    cost_groups range = cost_groups_of(model, stage);
    double least = outside ? cluster->outer.latency_s : INFINITY;
    for (int32_t g = range.first; inside && g <= range.last; g++)
        least = fmin(least, cluster->groups[g].inner.latency_s);
    return least;
}

/* All on cores, so that sharing stretches it as it does the crossing. */
static bool surely_on_core(const cost_model *model, const plan_stage *stage,
                           bool outside)
{
    const hw_cluster *cluster = cost_cluster(model);
    cost_groups range = cost_groups_of(model, stage);
    bool all = !outside || cluster->outer.on_cores;
    for (int32_t g = range.first; g <= range.last; g++)
        all = all && cluster->groups[g].inner.on_cores;
    return all;
}

/* The fewest devices that a stage has on one of its nodes, which share its way
 * in: each of them receives. */
static int32_t least_beside(const cost_model *model, const plan_stage *stage)
{
    const hw_cluster *cluster = cost_cluster(model);
    const cost_groups range = cost_groups_of(model, stage);
    const int32_t behind = stage->first_device + ir_mesh_size(&stage->mesh);
    int32_t first, end, least = node_end(cluster, stage, 0);
    hw_node_range(cluster, behind - 1, &first, &end);
    least = behind - first < least ? behind - first : least;
    /* Between those two nodes are whole ones. */
    for (int32_t g = range.first; g <= range.last; g++) {
        const int32_t whole = cluster->groups[g].devices_per_node;
        least = whole < least ? whole : least;
    }
    return least;
}

/* What one device takes at least to receive so much from the other stage, where
 * so many share their node's way in. */
static plan_demand least_to_receive(const cost_model *model,
                                    const plan_stage *from,
                                    const plan_stage *to, int32_t beside,
                                    double messages, double bytes)
{
    const hw_cluster *cluster = cost_cluster(model);
    const int32_t first = hw_node_of(cluster, from->first_device);
    const int32_t last = hw_node_of(cluster, to->first_device);
    bool inside = share_node(cluster, from, to);
    bool outside =
        !inside || first != last ||
        first != hw_node_of(cluster, from->first_device +
                                         ir_mesh_size(&from->mesh) - 1) ||
        last !=
            hw_node_of(cluster, to->first_device + ir_mesh_size(&to->mesh) - 1);
    double bps = inside ? best_bps(model, to, inside, outside)
                        : hw_outer_share(cluster, beside, 1).bandwidth_bps;
    return (plan_demand){.latency_s = messages *
                                      least_latency(model, to, inside, outside),
                         .network_s = bytes / bps,
                         .on_core = surely_on_core(model, to, outside)};
}

/* Who receives the largest piece. */
static plan_demand least_in(const cost_model *model, const plan_cross *cross)
{
    const plan_stage *to = cross->to_stage;
    const double bytes =
        (double)cost_piece_bytes(cross->tensor, &cross->to, &to->mesh);
    return least_to_receive(model, cross->from_stage, to,
                            least_beside(model, to), least_messages(cross),
                            contributions(cross) * bytes);
}

/* Of the largest of as many pieces as there are devices; where positions hand
 * on to their like, those beside the sender share the way. */
double cost_cross_floor(const cost_model *model, const ir_tensor *tensor,
                        const plan_stage *from, const plan_stage *to)
{
    const int32_t out = least_beside(model, from), in = least_beside(model, to);
    const double bytes = (double)ir_shape_count(&tensor->shape) *
                         (double)ir_dtype_bytes(tensor->dtype);
    const double pieces =
        fmax(ir_mesh_size(&from->mesh), ir_mesh_size(&to->mesh));
    plan_demand least = least_to_receive(model, from, to, out < in ? out : in,
                                         1, (1 - ROUNDING) * bytes / pieces);
    least.total_s = least.latency_s + least.network_s;
    return cost_shared_seconds(model, to, &least);
}

/* What all positions receive together; of the nodes that send it one sends the
 * mean at least, by its way out. */
static plan_demand least_out(const cost_model *model, const plan_cross *cross)
{
    const hw_cluster *cluster = cost_cluster(model);
    const plan_stage *from = cross->from_stage;
    const ir_mesh *mesh = &cross->to_stage->mesh;
    double nodes =
        1 - hw_node_of(cluster, from->first_device) +
        hw_node_of(cluster, from->first_device + ir_mesh_size(&from->mesh) - 1);
    double bytes = contributions(cross) *
                   (double)ir_shape_count(&cross->tensor->shape) *
                   (double)ir_dtype_bytes(cross->tensor->dtype);
    for (int32_t a = 0; a < mesh->n; a++)
        if (cross->to.at[a].kind == IR_B)
            bytes *= mesh->dim[a];
    return (plan_demand){.latency_s = cluster->outer.latency_s,
                         .network_s = (1 - ROUNDING) * bytes / nodes /
                                      cluster->outer.bandwidth_bps,
                         .on_core = surely_on_core(model, from, true)};
}

plan_demand cost_cross_least(const cost_model *model, const plan_cross *cross)
{
    if (plan_cross_is_straight(cross))
        return cost_cross(model, cross);
    plan_demand out = least_in(model, cross);
    if (all_outside(model, cross)) {
        const plan_demand sent = least_out(model, cross);
        if (sent.latency_s + sent.network_s > out.latency_s + out.network_s)
            out = sent;
    }
    out.memory_s = fold_seconds(model, cross);
    out.total_s = out.latency_s + out.network_s + out.memory_s;
    return out;
}
