/* What all meshes of a number of stages have in common. However a node is cut
 * over the D devices of a stage, and whatever mesh they are, each of them
 * launches it, and one at least has a D-th of its work: of its operations, of
 * the bytes that it reads and of those that it writes. So with a, b the sums of
 * that over all nodes, and a_i, b_i over the heaviest piece (pieces.c), p
 * stages take
 *
 *   q a + (m - q) max(a / p, a_i) + max(b / p, b_i)
 *
 * at least. Most of many devices' configurations are of more stages than pay,
 * or of more micro-batches than launches allow: this is all that is done with
 * them, and no table is made of them. */
#include "config.h"
#include "search/shares.h"

#include "search/built.h"
#include "search/engine/memo.h"
#include "search/known.h"
#include "search/lay_out.h"
#include "search/space.h"

#include "ir/compact.h"

#include <math.h>
#include <string.h>

/* Nodes of an op and of as much work: they have equal shares. */
typedef struct share_kind {
    const ir_node *node; /* one of them */
    ir_work work;        /* all of it */
} share_kind;

/* So many nodes of a kind in a piece. */
typedef struct share_count {
    int32_t kind, piece, n;
    bool per_step;
} share_count;

/* Of nodes that no cut leaves out; [n_pieces, and of no piece]. */
typedef struct shares_of_cuts {
    FS_VEC(share_count) counts;
} shares_of_cuts;

struct search_shares {
    int32_t n_pieces;
    int32_t *times; /* [n_pieces, and 1] that each stands for */
    search_partings partings;
    FS_VEC(share_kind) kinds;
    int32_t *kind_of;   /* [nodes] */
    shares_of_cuts *at; /* [partings.n] */
};

/* No padding. */
typedef struct kind_key {
    int64_t op, narrow, flop, read_bytes, written_bytes;
    const void *chain;
} kind_key;

static void find_kinds(const search_level0 *z, const ir_graph *graph,
                       struct search_shares *all)
{
    fs_arena *scratch = fs_arena_create();
    search_memo known = {.arena = scratch};
    all->kind_of = fs_new(z->scratch, int32_t, graph->nodes.n);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        const ir_work work = cost_whole_work(graph, v);
        const kind_key key = {(int64_t)node->op,  work.narrow,
                              work.flop,          work.read_bytes,
                              work.written_bytes, node->chain};
        int32_t *kind = search_memo_at(&known, &key, sizeof key);
        if (*kind < 0) {
            *kind = all->kinds.n;
            fs_push(z->scratch, &all->kinds, ((share_kind){node, work}));
        }
        all->kind_of[v] = *kind;
    }
    fs_arena_destroy(scratch);
}

/* No padding. */
typedef struct count_key {
    int32_t kind, piece, per_step;
} count_key;

static void add_up(const search_level0 *z, const ir_graph *graph,
                   const search_ranks *ranks, const struct search_shares *all,
                   const search_parting *parting, shares_of_cuts *shares)
{
    fs_arena *scratch = fs_arena_create();
    search_memo known = {.arena = scratch};
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        if (parting->gone && parting->gone[v])
            continue;
        const count_key key = {all->kind_of[v],
                               ranks->rank[v] < 0 ? ranks->n : ranks->rank[v],
                               cost_node_per_step(graph, v)};
        int32_t *place = search_memo_at(&known, &key, sizeof key);
        if (*place < 0) {
            *place = shares->counts.n;
            fs_push(z->scratch, &shares->counts,
                    ((share_count){key.kind, key.piece, 0, key.per_step}));
        }
        shares->counts.at[*place].n++;
    }
    fs_arena_destroy(scratch);
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
        find_kinds(z, problem->graphs[k].graph, &all[k]);
        for (int32_t i = 0; i < all[k].partings.n; i++)
            add_up(z, problem->graphs[k].graph, ranks, &all[k],
                   &all[k].partings.at[i], &all[k].at[i]);
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
static double share_seconds(const search_level0 *z, const share_kind *kind,
                            int32_t devices)
{
    ir_work share = kind->work;
    share.flop /= devices;
    share.read_bytes /= devices;
    share.written_bytes /= devices;
    return cost_share_least(z->problem->cost, kind->node, &share);
}

/* [kinds] */
static double *seconds_of_kinds(const search_level0 *z,
                                const struct search_shares *all,
                                int32_t devices, fs_arena *arena)
{
    double *s = fs_new(arena, double, all->kinds.n);
    for (int32_t k = 0; k < all->kinds.n; k++)
        s[k] = share_seconds(z, &all->kinds.at[k], devices);
    return s;
}

double *search_share_seconds(search_level0 *z, const search_candidate *c,
                             fs_arena *arena)
{
    const ir_graph *graph = c->graph->graph;
    const struct search_shares *all = shares_of(z, c->graph);
    const bool *gone = search_parts_of(z, c)->gone;
    const double *of_kind =
        seconds_of_kinds(z, all, ir_mesh_size(&c->mesh), arena);
    double *s = fs_new(arena, double, graph->nodes.n);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        if (!gone || !gone[v])
            s[v] = of_kind[all->kind_of[v]];
    return s;
}

/* [per micro-batch, per step][piece, and of none] */
static void add_seconds(const shares_of_cuts *shares, const double *of_kind,
                        double *const *s)
{
    for (int32_t k = 0; k < shares->counts.n; k++) {
        const share_count *one = &shares->counts.at[k];
        s[one->per_step][one->piece] += one->n * of_kind[one->kind];
    }
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
    const struct search_shares *all = shares_of(z, c->graph);
    const double m = c->graph->micro_batches, p = search_groups(c);
    const double fill = search_least_fill(z, c);
    const int32_t n = all->n_pieces;
    fs_arena *scratch = fs_arena_create();
    const double *none = fs_new(scratch, double, n + 1);
    double *s[2] = {fs_new(scratch, double, n + 1),
                    fs_new(scratch, double, n + 1)};
    add_seconds(cuts_of(z, c),
                seconds_of_kinds(z, all, ir_mesh_size(&c->mesh), scratch), s);
    const load a = load_of(all, s[0], 1, none), b = load_of(all, none, 0, s[1]),
               both = load_of(all, s[0], m, s[1]);
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
    const share_kind kind = {&graph->nodes.at[v], cost_whole_work(graph, v)};
    return share_seconds(z, &kind, devices);
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
