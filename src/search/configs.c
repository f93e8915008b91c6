/* The space of level 0: configurations (stages, mesh, micro-batches), and those
 * that one becomes when it is looked at closer. */
#include "config.h"
#include "search/effort.h"
#include "search/lay_out.h"
#include "search/shares.h"
#include "search/space.h"

#include "plan/schedule.h"

#include <math.h>
#include <string.h>

static void add_candidate(search_level0 *z, const search_graph *graph,
                          int32_t n_stages, int32_t depth, const ir_mesh *mesh)
{
    const search_problem *problem = z->problem;
    search_candidate *c = fs_new(z->scratch, search_candidate, 1);
    *c = (search_candidate){.graph = graph,
                            .n_stages = n_stages,
                            .depth = depth,
                            .mesh = *mesh,
                            .order_number = z->orders.own,
                            .share = 1};
    if (problem->n_schedules == 0 || n_stages == 1)
        c->schedule = problem->schedule;
    c->record = (search_config){.n_stages = n_stages,
                                .depth = depth,
                                .micro_batches = graph->micro_batches,
                                .states = graph->states,
                                .n_meshes = 1,
                                .mesh = fs_memdup(z->arena, mesh, sizeof *mesh),
                                .schedule = z->problem->schedule,
                                .status = "limit",
                                .iteration_s = INFINITY,
                                .lower_bound_s = 0};
    fs_push(z->scratch, &z->all, c);
}

static void set_order(search_candidate *c, const search_order *order)
{
    if (!order)
        return;
    c->order = order;
    c->order_number = order->number;
    c->record.groups = order->group;
    c->record.n_groups = order->n;
}

/* Each stage has devices that are one after the other. */
static bool suits_order(const search_candidate *c, const ir_mesh *each,
                        const search_order *order)
{
    for (int32_t g = 0, at = 0; g < search_groups(c); g++) {
        const int32_t n = ir_mesh_size(each ? &each[g] : &c->mesh);
        if (search_order_place(order, at, n) < 0)
            return false;
        at += n;
    }
    return true;
}

/* And with groups of devices in other orders. */
static void add_orders(search_level0 *z, const ir_mesh *each)
{
    const search_candidate *c = z->all.at[z->all.n - 1];
    if (search_groups(c) == 1)
        return;
    for (int32_t k = 0; k < z->orders.list.n; k++) {
        if (!suits_order(c, each, z->orders.list.at[k]))
            continue;
        add_candidate(z, c->graph, c->n_stages, c->depth, &c->mesh);
        search_candidate *one = z->all.at[z->all.n - 1];
        set_order(one, z->orders.list.at[k]);
        one->record.n_meshes = c->record.n_meshes;
        one->record.mesh = c->record.mesh;
    }
}

/* All ordered factorisations of `devices` into at most `room` more axes. Both
 * orders count: an inner axis has other neighbours and other legal boxing. */
static void add_meshes(search_level0 *z, const search_graph *graph,
                       int32_t n_stages, int32_t devices, ir_mesh *mesh)
{
    const ir_mesh *fixed = &z->problem->fix_mesh;
    const int32_t depth = search_depth(z->problem);
    int32_t most = z->problem->max_mesh_axes;
    if (devices == 1) {
        if (fixed->n < 0 || plan_same_mesh(fixed, mesh)) {
            add_candidate(z, graph, n_stages * depth, depth, mesh);
            add_orders(z, NULL);
        }
        return;
    }
    if (fixed->n > most)
        most = fixed->n;
    if (mesh->n >= most || mesh->n >= IR_MAX_MESH)
        return;
    int32_t axis = mesh->n++;
    for (int32_t d = devices; d >= 2; d--)
        if (devices % d == 0) {
            mesh->dim[axis] = d;
            add_meshes(z, graph, n_stages, devices / d, mesh);
        }
    mesh->dim[axis] = 0;
    mesh->n--;
}

/* No stage is without any. */
static int32_t forward_work(const ir_graph *graph)
{
    int32_t n = 0;
    for (int32_t v = 0; v < graph->nodes.n; v++)
        n += graph->nodes.at[v].phase == IR_FORWARD &&
             ir_op_class_of(graph->nodes.at[v].op) != IR_CLASS_SOURCE;
    return n;
}

/* Stages are equal meshes, unless the problem gives each its own. */
static void enumerate_stages(search_level0 *z, const search_graph *graph)
{
    const search_problem *problem = z->problem;
    int32_t devices = problem->cluster->n_devices;
    if (problem->stage_mesh) {
        const int32_t depth = search_depth(problem);
        add_candidate(z, graph, problem->fix_stages * depth, depth,
                      &problem->stage_mesh[0]);
        search_config *record = &z->all.at[z->all.n - 1]->record;
        record->n_meshes = problem->fix_stages;
        record->mesh = problem->stage_mesh;
        add_orders(z, problem->stage_mesh);
        return;
    }
    const int32_t most = forward_work(graph->graph);
    for (int32_t p = 1; p <= devices; p++) {
        if (devices % p || (problem->fix_stages && p != problem->fix_stages) ||
            (!problem->fix_stages && p > most))
            continue;
        ir_mesh mesh = {0};
        add_meshes(z, graph, p, devices / p, &mesh);
    }
}

/* What a baseline does, or a search within this one, keeps to the cluster's. */
static void list_orders(search_level0 *z)
{
    const search_problem *problem = z->problem;
    if (problem->recut && !problem->rounds && !problem->first_device &&
        !(problem->without & SEARCH_ORDERS))
        z->orders = search_orders_of(problem->cluster, z->arena);
}

/* All that are possible in the order that was asked for. */
static void keep_order(search_level0 *z, const search_order *order)
{
    int32_t kept = 0;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (search_groups(c) > 1) {
            if (!suits_order(c, z->problem->stage_mesh, order))
                continue;
            set_order(c, order);
        }
        z->all.at[kept++] = c;
    }
    z->all.n = kept;
}

void search_enumerate(search_level0 *z)
{
    list_orders(z);
    for (int32_t g = 0; g < z->problem->n_graphs; g++)
        enumerate_stages(z, &z->problem->graphs[g]);
    if (z->problem->order)
        keep_order(z, z->problem->order);
}

/* Enough nodes for its stages, and as many as are asked for. */
static bool suits(const search_level0 *z, const search_candidate *c, int32_t k)
{
    const search_problem *problem = z->problem;
    const int32_t n_stages = search_groups(c) * search_depth_of(problem, k);
    if (problem->n_layers || problem->stage_of)
        return n_stages == c->n_stages;
    return n_stages == c->n_stages || n_stages <= forward_work(c->graph->graph);
}

void search_tell_schedules_apart(search_level0 *z, search_candidate *c)
{
    for (int32_t k = 1; k < z->problem->n_schedules; k++) {
        if (!suits(z, c, k))
            continue;
        search_candidate *one = fs_memdup(z->scratch, c, sizeof *c);
        search_set_schedule(z->problem, k, one);
        one->weighed = false;
        fs_push(z->scratch, &z->all, one);
    }
    c->schedule = z->problem->schedules[0];
    c->weighed = false;
}

/* Its bound is what holds however much memory there is. */
void search_ask_again(search_level0 *z, search_candidate *c)
{
    const search_problem *problem = z->problem;
    if (!problem->again || c->again || c->covered || problem->rounds)
        return;
    if (problem->outgrown) { /* there are no compact ones of these */
        search_outgrow(problem);
        return;
    }
    c->covered = c->settled = true;
    add_candidate(z, c->graph, c->n_stages, c->depth, &c->mesh);
    search_candidate *one = z->all.at[z->all.n - 1];
    one->again = one->record.again = true;
    one->schedule = c->schedule;
    one->looked = one->weighed = true;
    one->part = c->part;
    set_order(one, c->order);
    one->any_cut_s = c->any_cut_s;
    one->weighed_s = one->record.lower_bound_s = c->weighed_s;
    one->record.n_meshes = c->record.n_meshes;
    one->record.mesh = c->record.mesh;
}

search_candidate *search_add_part(search_level0 *z, const search_candidate *of,
                                  const search_part *part)
{
    const ir_mesh *mesh = part->mesh ? part->mesh : &of->mesh;
    add_candidate(z, of->graph, of->n_stages, of->depth, mesh);
    search_candidate *one = z->all.at[z->all.n - 1];
    one->part = part;
    set_order(one, of->order);
    one->schedule = of->schedule;
    one->again = one->record.again = of->again;
    one->looked = one->weighed = true;
    if (part->mesh) {
        one->record.n_meshes = of->n_stages;
        one->record.mesh = part->mesh;
    } else if (search_part_of_bound(z, of, part)) {
        one->weighed_s = one->record.lower_bound_s = of->weighed_s;
    }
    return one;
}

static bool has_schedule(const search_candidate *c, const char *schedule)
{
    return c->schedule && strcmp(c->schedule, schedule) == 0;
}

static bool is_in_order(const plan_strategy *s, const plan_pipeline *pipe,
                        const search_order *order)
{
    int32_t at = 0;
    for (int32_t g = 0; g < pipe->n_roles; g++)
        for (int32_t i = 0; i < s->n_stages; i++)
            if (pipe->role_of[i] == g) {
                const int32_t n = ir_mesh_size(&s->stages[i].mesh);
                if (search_order_place(order, at, n) !=
                    s->stages[i].first_device)
                    return false;
                at += n;
                break;
            }
    return true;
}

/* NULL: the cluster's, or none that is known. */
static const search_order *order_of(const search_level0 *z,
                                    const plan_strategy *s,
                                    const plan_pipeline *pipe)
{
    if (s->n_stages == 1 || is_in_order(s, pipe, NULL))
        return NULL;
    for (int32_t k = 0; k < z->orders.list.n; k++)
        if (is_in_order(s, pipe, z->orders.list.at[k]))
            return z->orders.list.at[k];
    return NULL;
}

/* Those of any schedule are told apart where one of them is meant. */
static search_candidate *known_candidate(search_level0 *z,
                                         const search_result *found,
                                         const search_order *order)
{
    const plan_strategy *s = found->strategy;
    for (int32_t k = 0; k < z->all.n; k++) {
        search_candidate *c = z->all.at[k];
        if (c->part || c->order != order || c->graph != found->of ||
            c->again != found->again.chosen || c->n_stages != s->n_stages ||
            !plan_same_mesh(&c->mesh, &s->stages[0].mesh))
            continue;
        if (!c->schedule)
            search_tell_schedules_apart(z, c);
        if (has_schedule(c, s->schedule))
            return c;
    }
    return NULL;
}

search_candidate *search_candidate_of(search_level0 *z,
                                      const search_result *found)
{
    const plan_strategy *s = found->strategy;
    fs_arena *scratch = fs_arena_create();
    const plan_pipeline pipe = plan_pipeline_of(
        s->stages, s->n_stages, s->schedule, s->micro_batches, scratch);
    const search_order *order = order_of(z, s, &pipe);
    const int32_t depth = s->n_stages / pipe.n_roles;
    fs_arena_destroy(scratch);
    search_candidate *c = known_candidate(z, found, order);
    if (c)
        return c;
    add_candidate(z, found->of, s->n_stages, depth, &s->stages[0].mesh);
    c = z->all.at[z->all.n - 1];
    set_order(c, order);
    c->schedule = s->schedule;
    c->again = c->record.again = found->again.chosen;
    return c;
}
