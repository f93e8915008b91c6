/* What all meshes of a number of stages have in common. However a node is cut
 * over the D devices of a stage, and whatever mesh they are, each of them
 * launches it, and one at least has a D-th of its operations if it is dense. So
 * with a, b the sums of that over all nodes, and a_i, b_i over the heaviest
 * piece (pieces.c), p stages take
 *
 *   q a + (m - q) max(a / p, a_i) + max(b / p, b_i)
 *
 * at least. Most of many devices' configurations are of more stages than pay,
 * or of more micro-batches than launches allow: this is all that is done with
 * them, and no table is made of them. */
#include "config.h"
#include "search/shares.h"

#include "search/built.h"
#include "search/known.h"
#include "search/lay_out.h"
#include "search/space.h"

#include "ir/compact.h"

#include <math.h>
#include <string.h>

typedef struct dense_node {
    int32_t node, piece;
    bool per_step;
    ir_op_kind op;
    ir_work work; /* all of it */
} dense_node;

typedef FS_VEC(dense_node) dense_nodes;

/* Of nodes that no cut leaves out. */
typedef struct shares_of_cuts {
    double *launch_s[2]; /* [n_pieces, and of no piece] of nodes that are not
                            dense: per micro-batch, per step */
    dense_nodes dense;
} shares_of_cuts;

struct search_shares {
    int32_t n_pieces;
    int32_t *times; /* [n_pieces, and 1] that each stands for */
    search_partings partings;
    shares_of_cuts *at; /* [partings.n] */
};

static void add_node(const search_level0 *z, const ir_graph *graph, int32_t v,
                     int32_t piece, shares_of_cuts *shares)
{
    const bool per_step = cost_node_per_step(graph, v);
    const ir_op_kind op = graph->nodes.at[v].op;
    if (ir_op_is_dense(op))
        fs_push(
            z->scratch, &shares->dense,
            ((dense_node){v, piece, per_step, op, cost_dense_work(graph, v)}));
    else
        shares->launch_s[per_step][piece] +=
            cost_node_least(z->problem->cost, graph, v);
}

static void add_up(const search_level0 *z, const ir_graph *graph,
                   const search_ranks *ranks, const search_parting *parting,
                   shares_of_cuts *shares)
{
    for (int32_t i = 0; i < 2; i++)
        shares->launch_s[i] = fs_new(z->scratch, double, ranks->n + 1);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (!parting->gone || !parting->gone[v])
            add_node(z, graph, v,
                     ranks->rank[v] < 0 ? ranks->n : ranks->rank[v], shares);
}

static search_partings partings_of(const search_level0 *z,
                                   const ir_graph *graph,
                                   const search_ranks *ranks)
{
    const search_problem *problem = z->problem;
    if (problem->stage_of || problem->n_layers)
        return search_part_as_told(problem, graph, z->scratch);
    return *search_known_partings(problem->known, graph, ranks,
                                  search_most_stages(problem));
}

const struct search_shares *search_find_shares(search_level0 *z)
{
    const search_problem *problem = z->problem;
    struct search_shares *all =
        fs_new(z->scratch, struct search_shares, problem->n_graphs);
    for (int32_t k = 0; k < problem->n_graphs; k++) {
        const search_ranks *ranks =
            search_ranks_of(z, problem->graphs[k].graph);
        all[k].n_pieces = ranks->n;
        all[k].times = fs_new(z->scratch, int32_t, ranks->n + 1);
        for (int32_t r = 0; r < ranks->n; r++)
            all[k].times[r] =
                ir_times(&ranks->graph->nodes.at[ranks->order[r]]);
        all[k].times[ranks->n] = 1;
        all[k].partings = partings_of(z, problem->graphs[k].graph, ranks);
        all[k].at = fs_new(z->scratch, shares_of_cuts, all[k].partings.n);
        for (int32_t i = 0; i < all[k].partings.n; i++)
            add_up(z, problem->graphs[k].graph, ranks, &all[k].partings.at[i],
                   &all[k].at[i]);
    }
    return all;
}

static const struct search_shares *shares_of(search_level0 *z,
                                             const search_graph *graph)
{
    if (!z->shares)
        z->shares = search_find_shares(z);
    return &z->shares[graph - z->problem->graphs];
}

/* By any schedule that it may have. */
static int32_t most_stages(const search_level0 *z, const search_candidate *c)
{
    int32_t most = c->n_stages;
    for (int32_t k = 0; !c->schedule && k < z->problem->n_schedules; k++) {
        search_candidate one = *c;
        search_set_schedule(z->problem, k, &one);
        most = one.n_stages > most ? one.n_stages : most;
    }
    return most;
}

const search_parting *search_parts_of(search_level0 *z,
                                      const search_candidate *c)
{
    return search_parting_of(&shares_of(z, c->graph)->partings,
                             most_stages(z, c));
}

bool search_part_of_bound(search_level0 *z, const search_candidate *c,
                          const search_part *part)
{
    return !part->begin ||
           search_parts_no_more(&shares_of(z, c->graph)->partings,
                                most_stages(z, c), c->n_stages, part->begin);
}

static const shares_of_cuts *cuts_of(search_level0 *z,
                                     const search_candidate *c)
{
    const struct search_shares *all = shares_of(z, c->graph);
    return &all->at[search_parts_of(z, c) - all->partings.at];
}

/* On a stage of so many devices. */
static double dense_seconds(const search_level0 *z, const dense_node *node,
                            int32_t devices)
{
    ir_work share = node->work;
    share.flop /= devices;
    return cost_dense_least(z->problem->cost, node->op, &share);
}

double *search_share_seconds(search_level0 *z, const search_candidate *c,
                             fs_arena *arena)
{
    const ir_graph *graph = c->graph->graph;
    const dense_nodes *dense = &cuts_of(z, c)->dense;
    const bool *gone = search_parts_of(z, c)->gone;
    double *s = fs_new(arena, double, graph->nodes.n);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (!gone || !gone[v])
            s[v] = cost_node_least(z->problem->cost, graph, v);
    for (int32_t k = 0; k < dense->n; k++)
        s[dense->at[k].node] =
            dense_seconds(z, &dense->at[k], ir_mesh_size(&c->mesh));
    return s;
}

/* [piece, and of none] Seconds on stages of so many devices. */
static double *seconds_of(const search_level0 *z, const shares_of_cuts *shares,
                          int32_t n_pieces, int32_t devices, bool per_step,
                          fs_arena *arena)
{
    double *s = fs_memdup(arena, shares->launch_s[per_step],
                          ((size_t)n_pieces + 1) * sizeof *s);
    for (int32_t k = 0; k < shares->dense.n; k++) {
        const dense_node *node = &shares->dense.at[k];
        if (node->per_step == per_step)
            s[node->piece] += dense_seconds(z, node, devices);
    }
    return s;
}

typedef struct load {
    double all, most; /* of one piece */
} load;

/* Per micro-batch `often` as often as per step. */
static load load_of(const struct search_shares *shares, const double *micro,
                    double often, const double *step)
{
    const int32_t n = shares->n_pieces;
    load sum = {0};
    for (int32_t i = 0; i <= n; i++) {
        const double s = often * micro[i] + step[i];
        sum.all += shares->times[i] * s;
        sum.most = i < n && s > sum.most ? s : sum.most;
    }
    return sum;
}

double search_share_floor(search_level0 *z, search_candidate *c)
{
    const shares_of_cuts *shares = cuts_of(z, c);
    const double m = c->graph->micro_batches, p = search_groups(c);
    const double fill = search_least_fill(z, c);
    const int32_t devices = ir_mesh_size(&c->mesh),
                  n = shares_of(z, c->graph)->n_pieces;
    fs_arena *scratch = fs_arena_create();
    const double *none = fs_new(scratch, double, n + 1);
    const double *micro = seconds_of(z, shares, n, devices, false, scratch);
    const double *step = seconds_of(z, shares, n, devices, true, scratch);
    const struct search_shares *of = shares_of(z, c->graph);
    const load a = load_of(of, micro, 1, none), b = load_of(of, none, 0, step),
               both = load_of(of, micro, m, step);
    fs_arena_destroy(scratch);
    c->sim_s = fmax(c->sim_s, both.all / p);
    if (!search_is_crowded(z))
        c->sim_s = fmax(c->sim_s, both.most);
    return fill * a.all + (m - fill) * fmax(a.all / p, a.most) +
           fmax(b.all / p, b.most);
}

/* ---- of a cut ---- */

/* On a stage of so many devices. */
static double share_of(const search_level0 *z, const ir_graph *graph, int32_t v,
                       int32_t devices)
{
    const ir_op_kind op = graph->nodes.at[v].op;
    if (!ir_op_is_dense(op))
        return cost_node_least(z->problem->cost, graph, v);
    const dense_node node = {.op = op, .work = cost_dense_work(graph, v)};
    return dense_seconds(z, &node, devices);
}

double search_share_cut_floor(const search_level0 *z, const search_layout *cut)
{
    const ir_graph *graph = cut->graph;
    const double m = graph->micro_batches;
    fs_arena *scratch = fs_arena_create();
    double *s[2] = {fs_new(scratch, double, cut->n_groups),
                    fs_new(scratch, double, cut->n_groups)};
    double all = 0, most[2] = {0, 0};
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const int32_t stage = cut->stage_of[v], group = cut->group_of[stage];
        const int32_t times = ir_times(&graph->nodes.at[v]);
        s[cost_node_per_step(graph, v)][group] +=
            times *
            share_of(z, graph, v, ir_mesh_size(&cut->stages[stage].mesh));
        for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++) {
            const int32_t tensor = graph->nodes.at[v].in[k];
            const bool per_step = plan_tensor_per_step(graph, tensor);
            s[per_step][group] +=
                times * search_crossing_floor(cut, v, tensor, per_step);
        }
    }
    for (int32_t g = 0; g < cut->n_groups; g++) {
        all += s[0][g];
        most[0] = fmax(most[0], s[0][g]);
        most[1] = fmax(most[1], s[1][g]);
    }
    fs_arena_destroy(scratch);
    return cut->fill * all + (m - cut->fill) * most[0] + most[1];
}
