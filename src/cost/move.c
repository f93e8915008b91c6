/* Bytes on the way: boxing steps, moves between stages, loading. */
#include "config.h"
#include "cost/parts.h"

#include <math.h>
#include <string.h>

typedef struct collective_row {
    const char *name;
    cost_collective_fn *fill; /* NULL: there is no formula */
    bool on_cores, network;
} collective_row;

static const collective_row collective_table[] = {
#define PLAN_ALGORITHM(name, where, runs) {#name, COST_OF_##where(name)},
#define COST_OF_BOTH(name) cost_coll_##name, true, true
#define COST_OF_CORES(name) cost_coll_##name, true, false
#define COST_OF_NETWORK(name) cost_coll_##name, false, true
#define COST_OF_NOWHERE(name) NULL, false, false
#include "plan/algorithms.def"
#undef PLAN_ALGORITHM
};

enum { N_COLLECTIVES = PLAN_ALGORITHMS };

int32_t cost_collective_find(const char *name)
{
    for (int32_t i = 0; i < N_COLLECTIVES; i++)
        if (strcmp(collective_table[i].name, name) == 0)
            return i;
    return -1;
}

/* Ranks that outnumber their cores wait for their turn at every meeting. The
 * wait is of the clock, not of a core, so sharing must not stretch it: divided
 * by the share that it is multiplied with later. */
double cost_turn_seconds(const cost_model *model, const plan_stage *stage)
{
    double worst = 0;
    cost_groups range = cost_groups_of(model, stage);
    for (int32_t g = range.first; g <= range.last; g++) {
        const hw_group *group = &cost_cluster(model)->groups[g];
        if (hw_core_share(group, group->devices_per_node) > 1)
            worst = fmax(worst, group->turn_s / cost_core_share(model, group));
    }
    return worst;
}

/* A copy of `bytes` within the slowest device of the stage. */
static plan_demand local_copy(const cost_model *model, const plan_stage *stage,
                              double bytes)
{
    plan_demand worst = {0};
    cost_groups range = cost_groups_of(model, stage);
    for (int32_t g = range.first; g <= range.last; g++) {
        const hw_group *group = &cost_cluster(model)->groups[g];
        plan_demand demand = {.memory_s = bytes / group->memory.bandwidth_bps,
                              .latency_s = group->memory.latency_s,
                              .on_core = group->cores_per_node > 0};
        demand.total_s = demand.memory_s + demand.latency_s;
        if (g == range.first || demand.total_s > worst.total_s)
            worst = demand;
    }
    return worst;
}

/* What a collective moves per rank: parts.h. */
static double moved_bytes(const plan_box_step *step)
{
    if (step->kind == PLAN_HALO)
        return (double)(step->bytes_out - step->bytes_in);
    return fmax((double)step->bytes_in, (double)step->bytes_out);
}

/* A halo is put around a copy of the rank's own piece; elsewhere what stays is
 * little beside what moves. */
static double copied_bytes(const plan_box_step *step)
{
    return step->kind == PLAN_HALO ? (double)step->bytes_in : 0;
}

/* May the row do the step there? On cores all is done directly, and what goes
 * to neighbours, but for all-reduces, of which the runtime knows more ways. */
static bool may_do(const cost_model *model, const plan_box_step *step,
                   const cost_route *route, int32_t row)
{
    const collective_row *r = &collective_table[row];
    const bool plain = row == PLAN_BY_direct || row == PLAN_BY_neighbour;
    if (!r->fill || !(cost_model_collectives(model) & (uint32_t)1 << row))
        return false;
    return route->on_cores
               ? r->on_cores && (plain || plan_box_varies(step, route->ranks))
               : r->network;
}

static bool price(const cost_model *model, const plan_box_step *step,
                  const cost_route *route, double bytes, int32_t row,
                  plan_demand *out)
{
    *out = (plan_demand){.on_core = route->on_cores};
    if (!may_do(model, step, route, row) ||
        !collective_table[row].fill(step->kind, route, bytes, out))
        return false;
    out->memory_s += copied_bytes(step) / route->memory_bps;
    out->total_s = out->latency_s + out->network_s + out->memory_s;
    return true;
}

static bool is_said(const cost_model *model, const plan_box_step *step,
                    const cost_route *route)
{
    return cost_model_reduces_by(model) != PLAN_ALGORITHMS &&
           plan_box_varies(step, route->ranks);
}

/* By what is said of all-reduces, where there is a formula, else by the
 * quickest algorithm. */
static plan_demand by_formula(const cost_model *model,
                              const plan_box_step *step,
                              const cost_route *route, double bytes,
                              plan_algorithm *by)
{
    plan_demand best, demand;
    *by = cost_model_reduces_by(model);
    if (is_said(model, step, route) &&
        price(model, step, route, bytes, *by, &best))
        return best;
    best.total_s = INFINITY;
    for (int32_t i = 0; i < N_COLLECTIVES; i++)
        if (price(model, step, route, bytes, i, &demand) &&
            demand.total_s < best.total_s) {
            best = demand;
            *by = (plan_algorithm)i;
        }
    FS_ASSERT(isfinite(best.total_s));
    return best;
}

static cost_route route_of(const cost_model *model, const plan_stage *stage,
                           const plan_box_step *step)
{
    cost_route route = cost_route_of(model, stage, step->axes);
    if (route.on_cores)
        route.turn_s = cost_turn_seconds(model, stage);
    return route;
}

/* The least bytes that were measured of such steps; 0: none were. On cores that
 * was done directly, and is again, unless another way is said. */
static double measured_from(const cost_model *model, const plan_stage *stage,
                            const plan_box_step *step, const cost_route *route)
{
    const cost_groups range = cost_groups_of(model, stage);
    const hw_group *group = &cost_cluster(model)->groups[range.first];
    if (range.first != range.last ||
        (route->on_cores && is_said(model, step, route) &&
         cost_model_reduces_by(model) != PLAN_BY_direct))
        return 0;
    return cost_measured_bytes(group, step->kind, route);
}

/* What is said counts for what runs, also where no formula tells of it. */
plan_algorithm cost_algorithm(const cost_model *model, const plan_stage *stage,
                              const plan_box_step *step)
{
    const cost_route route = route_of(model, stage, step);
    plan_algorithm by;
    if (is_said(model, step, &route))
        return cost_model_reduces_by(model);
    by_formula(model, step, &route, moved_bytes(step), &by);
    if (route.on_cores && plan_box_varies(step, route.ranks) &&
        measured_from(model, stage, step, &route) > 0)
        return PLAN_BY_direct;
    return by;
}

double cost_turns_seconds(const cost_model *model, const plan_stage *stage,
                          const plan_box_step *step)
{
    cost_route route = route_of(model, stage, step);
    const double bytes = moved_bytes(step);
    plan_algorithm by = cost_algorithm(model, stage, step);
    plan_demand all, rest;
    if (!price(model, step, &route, bytes, by, &all))
        all = by_formula(model, step, &route, bytes, &by);
    route.turn_s = 0;
    price(model, step, &route, bytes, by, &rest);
    return all.latency_s - rest.latency_s;
}

plan_choice cost_choice(const cost_model *model, const plan *p, fs_arena *arena)
{
    plan_choice out = plan_choice_new(p, arena);
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        for (int32_t i = 0; i < role->n_tasks; i++) {
            const plan_task *task = &role->tasks[i];
            const plan_stage *stage =
                &p->strategy->stages[plan_task_stage(role, task)];
            if (task->kind == PLAN_BOX &&
                plan_box_is_collective(task->box.kind))
                out.of[r][i] =
                    (uint8_t)cost_algorithm(model, stage, &task->box);
        }
    }
    return out;
}

static void scale(plan_demand *d, double times)
{
    d->network_s *= times;
    d->latency_s *= times;
    d->memory_s *= times;
    d->total_s *= times;
}

/* The least that bytes take on the wires, by any algorithm. */
static double wires_seconds(const cost_model *model, const plan_box_step *step,
                            const cost_route *route, double bytes)
{
    double least = INFINITY;
    for (int32_t i = 0; i < N_COLLECTIVES; i++) {
        plan_demand demand = {0};
        if (cost_model_collectives(model) & (uint32_t)1 << i &&
            collective_table[i].network && collective_table[i].fill &&
            collective_table[i].fill(step->kind, route, bytes, &demand))
            least = fmin(least, demand.network_s);
    }
    return least;
}

/* What was measured is of the first ranks of a node, alone: others, and several
 * at once, may have less of its wires. */
static void fit_wires(const cost_model *model, const plan_box_step *step,
                      const cost_route *route, double bytes, plan_demand *out)
{
    const double least = wires_seconds(model, step, route, bytes);
    if (!route->told || !(least > out->network_s) || !isfinite(least))
        return;
    out->total_s += least - out->network_s;
    out->network_s = least;
}

/* By what was measured within a node of one kind; smaller messages than were
 * take less by as much as the formula tells. */
static plan_demand by_curve(const cost_model *model, const plan_stage *stage,
                            const plan_box_step *step, cost_route route,
                            double first)
{
    const cost_groups range = cost_groups_of(model, stage);
    const hw_group *group = &cost_cluster(model)->groups[range.first];
    const double bytes = moved_bytes(step);
    const double turns_s =
        route.on_cores ? cost_turns_seconds(model, stage, step) : 0;
    plan_algorithm by;
    route.turn_s = 0;
    const double all_s = by_formula(model, step, &route, bytes, &by).total_s;
    const double whole_s = by_formula(model, step, &route, first, &by).total_s;
    plan_demand out =
        cost_measured_collective(group, step->kind, &route, bytes);
    scale(&out, bytes < first ? all_s / whole_s : 1);
    fit_wires(model, step, &route, bytes, &out);
    out.on_core = route.on_cores;
    out.latency_s += turns_s;
    out.total_s += turns_s;
    return out;
}

static plan_demand collective(const cost_model *model, const plan_stage *stage,
                              const plan_box_step *step)
{
    const cost_route route = route_of(model, stage, step);
    const double first = measured_from(model, stage, step, &route);
    plan_algorithm by;
    return first > 0 ? by_curve(model, stage, step, route, first)
                     : by_formula(model, step, &route, moved_bytes(step), &by);
}

plan_demand cost_box_step(const cost_model *model, const plan_stage *stage,
                          const plan_box_step *step)
{
    plan_demand demand =
        plan_box_is_collective(step->kind)
            ? collective(model, stage, step)
            : local_copy(model, stage, (double)step->bytes_out);
    cost_wait_for_slowest(model, stage, &demand);
    return demand;
}

/* Positions on one node of the stage that sends, [begin, end); of these
 * [stay, go) send to that same node. */
typedef struct beside {
    int32_t begin, end, stay, go;
} beside;

static int32_t within(int32_t at, const beside *b)
{
    return at < b->begin ? b->begin : at > b->end ? b->end : at;
}

static beside beside_of(const hw_cluster *cluster, const plan_stage *from,
                        const plan_stage *to, int32_t position)
{
    int32_t first, end;
    hw_node_range(cluster, from->first_device + position, &first, &end);
    beside b = {first - from->first_device, end - from->first_device, 0, 0};
    const int32_t size = ir_mesh_size(&from->mesh);
    b.begin = b.begin > 0 ? b.begin : 0;
    b.end = b.end < size ? b.end : size;
    b.stay = within(first - to->first_device, &b);
    b.go = within(end - to->first_device, &b);
    return b;
}

/* `senders`: so many of the node's devices send to another one at once. */
static plan_demand move_at(const cost_model *model, const plan_stage *from,
                           const plan_stage *to, int32_t position,
                           int32_t senders, double bytes)
{
    const hw_cluster *cluster = cost_cluster(model);
    int32_t a = from->first_device + position;
    int32_t b = to->first_device + position;
    hw_link link = *hw_link_between(cluster, a, b);
    if (hw_node_of(cluster, a) != hw_node_of(cluster, b))
        link = hw_outer_share(cluster, senders, 1);
    plan_demand out = {.latency_s = link.latency_s,
                       .network_s = bytes / link.bandwidth_bps,
                       .on_core = link.on_cores};
    if (link.on_cores)
        out.latency_s += cost_turn_seconds(model, to);
    out.total_s = out.latency_s + out.network_s;
    return out;
}

/* Those of a node that stay fare alike, and those that leave: the first of each
 * tell. */
static plan_demand move_beside(const cost_model *model, const plan_stage *from,
                               const plan_stage *to, const beside *b,
                               double bytes)
{
    const int32_t senders = b->end - b->begin - (b->go - b->stay);
    const int32_t next = b->stay > b->begin ? b->stay : b->go;
    plan_demand worst = move_at(model, from, to, b->begin, senders, bytes);
    if (next > b->begin && next < b->end) {
        const plan_demand d = move_at(model, from, to, next, senders, bytes);
        if (d.total_s > worst.total_s)
            worst = d;
    }
    return worst;
}

/* ---- by the graph of links ---- */

/* All positions at once: of one byte each. */
typedef struct straight {
    double latency_s, byte_s;
    int32_t on_core;
} straight;

typedef struct straight_key {
    cost_place place;
    int32_t size;
} straight_key;

cost_memo *cost_straights_create(fs_arena *arena)
{
    return cost_memo_create(sizeof(straight_key), sizeof(straight), COST_FEW,
                            arena);
}

static straight look_straight(const cost_model *model, const plan_stage *from,
                              const plan_stage *to)
{
    const hw_links *links = cost_model_links(model);
    const hw_cluster *cluster = cost_cluster(model);
    const int32_t size = ir_mesh_size(&from->mesh);
    fs_arena *scratch = fs_arena_create();
    hw_transfer *moves = fs_new(scratch, hw_transfer, size);
    straight out = {0};
    for (int32_t i = 0; i < size; i++) {
        const int32_t a = from->first_device + i, b = to->first_device + i;
        const beside of = beside_of(cluster, from, to, i);
        const int32_t senders = of.end - of.begin - (of.go - of.stay);
        plan_demand d = move_at(model, from, to, i, senders, 1);
        if (a != b && hw_node_of(cluster, a) == hw_node_of(cluster, b))
            d.latency_s += (hw_wires_between(links, a, b) - 1) *
                           hw_link_between(cluster, a, b)->latency_s;
        out.latency_s = fmax(out.latency_s, d.latency_s);
        out.byte_s = fmax(out.byte_s, d.network_s);
        out.on_core |= d.on_core;
        moves[i] = (hw_transfer){a, b, 1};
    }
    out.byte_s = fmax(out.byte_s, hw_moves_seconds(links, moves, size));
    fs_arena_destroy(scratch);
    return out;
}

static plan_demand move_straight(const cost_model *model,
                                 const plan_stage *from, const plan_stage *to,
                                 double bytes)
{
    straight_key key;
    bool known;
    memset(&key, 0, sizeof key);
    key.place = cost_place_of(model, from, to);
    key.size = ir_mesh_size(&from->mesh);
    straight *s = cost_memo_at(cost_model_straights(model), &key, &known);
    if (!known)
        *s = look_straight(model, from, to);
    return (plan_demand){.latency_s = s->latency_s,
                         .network_s = bytes * s->byte_s,
                         .on_core = s->on_core,
                         .total_s = s->latency_s + bytes * s->byte_s};
}

/* ---- between ports ---- */

/* On nodes of one kind a whole node's devices fare as the next one's: of a
 * stage's nodes the first two and the last tell, as its ends may have parts of
 * nodes. */
plan_demand cost_p2p(const cost_model *model, const plan_stage *from,
                     const plan_stage *to, int64_t bytes)
{
    const hw_cluster *cluster = cost_cluster(model);
    const int32_t size = ir_mesh_size(&from->mesh);
    plan_demand worst = {0};
    if (cost_model_links(model))
        return move_straight(model, from, to, (double)bytes);
    for (int32_t i = 0, n = 1; i < size; n++) {
        const beside b = beside_of(cluster, from, to, i);
        const plan_demand d = move_beside(model, from, to, &b, (double)bytes);
        if (i == 0 || d.total_s > worst.total_s)
            worst = d;
        i = b.end;
        if (n == 2 && i < size && cluster->n_groups == 1)
            i = beside_of(cluster, from, to, size - 1).begin;
    }
    return worst;
}

plan_demand cost_load(const cost_model *model, const plan_stage *stage,
                      int64_t bytes)
{
    return local_copy(model, stage, (double)bytes);
}

/* A path of free steps could be longer than needed. */
enum { STEP_LEAST_NS = 1 };

static double boxing_seconds(void *ctx, const plan_stage *stage,
                             const plan_box_step *step)
{
    const cost_model *model = ctx;
    plan_demand demand = cost_box_step(model, stage, step);
    return fmax(cost_shared_seconds(model, stage, &demand),
                STEP_LEAST_NS * 1e-9);
}

static double crossing_seconds(void *ctx, const plan_cross *cross)
{
    plan_demand demand = cost_cross(ctx, cross);
    return cost_shared_seconds(ctx, cross->to_stage, &demand);
}

static double crossing_least_seconds(void *ctx, const plan_cross *cross)
{
    plan_demand demand = cost_cross_least(ctx, cross);
    return cost_shared_seconds(ctx, cross->to_stage, &demand);
}

/* Nodes of one kind are alike. */
static int32_t place_of(void *ctx, const plan_stage *stage)
{
    const hw_cluster *cluster = cost_cluster(ctx);
    return cluster->n_groups > 1
               ? stage->first_device
               : stage->first_device % hw_cluster_period(cluster);
}

plan_boxing_cost cost_boxing(const cost_model *model)
{
    return (plan_boxing_cost){.seconds = boxing_seconds,
                              .ctx = (void *)(uintptr_t)model,
                              .crossing = crossing_seconds,
                              .crossing_least = crossing_least_seconds,
                              .place = place_of};
}

double cost_edge_seconds(const cost_model *model, const plan_ends *ends,
                         const plan_boxing *path)
{
    void *ctx = (void *)(uintptr_t)model;
    double seconds = 0;
    for (int32_t i = 0; i < path->n; i++) {
        plan_path_step step;
        if (!plan_path_step_make(ends, path, i, &step))
            return INFINITY;
        seconds += step.crosses ? crossing_seconds(ctx, &step.cross)
                                : boxing_seconds(ctx, step.stage, &step.box);
    }
    return seconds;
}
