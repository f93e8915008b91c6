#include "config.h"
#include "hw/crowd.h"

#include <math.h>
#include <string.h>

/* Members of a communicator that are on one node, one behind the other. */
typedef struct run {
    int32_t node, n;
    const int32_t *device;
} run;
typedef FS_VEC(run) runs;

static runs runs_of(const hw_cluster *c, const int32_t *device, int32_t size,
                    fs_arena *arena)
{
    runs out = {0};
    for (int32_t i = 0; i < size; i++) {
        const int32_t node = hw_node_of(c, device[i]);
        if (out.n == 0 || out.at[out.n - 1].node != node)
            fs_push(arena, &out, (run){node, 0, device + i});
        out.at[out.n - 1].n++;
    }
    return out;
}

/* ---- inside nodes ---- */

typedef struct local_sets {
    const hw_group *group;
    hw_sets sets;
    double *load;
} local_sets;

static int32_t first_device(const hw_cluster *c, int32_t device)
{
    int32_t first, end;
    hw_node_range(c, device, &first, &end);
    return first;
}

/* The runs of a node, of two members at least, as numbers within it. */
static hw_sets sets_of(const hw_cluster *c, const run *at, int32_t n,
                       fs_arena *arena)
{
    int32_t members = 0;
    for (int32_t k = 0; k < n; k++)
        members += at[k].n;
    int32_t *first = fs_new(arena, int32_t, n + 1);
    int32_t *member = fs_new(arena, int32_t, members);
    hw_sets out = {0, first, member};
    members = 0;
    for (int32_t k = 0; k < n; k++) {
        const int32_t from = first_device(c, at[k].device[0]);
        for (int32_t i = 0; i < at[k].n; i++)
            member[members++] = at[k].device[i] - from;
        first[++out.n] = members;
    }
    return out;
}

static int compare_sets(const hw_sets *a, const hw_sets *b)
{
    if (a->n != b->n ||
        memcmp(a->first, b->first, ((size_t)a->n + 1) * sizeof *a->first) != 0)
        return 1;
    return memcmp(a->member, b->member,
                  (size_t)a->first[a->n] * sizeof *a->member);
}

/* For each node with two members of a communicator or more. */
typedef void node_sets(void *ctx, int32_t node, const hw_group *group,
                       const hw_sets *sets);

static void visit_nodes(const hw_links *links, const hw_crowd *crowd,
                        node_sets *visit, void *ctx)
{
    const hw_cluster *c = hw_links_cluster(links);
    fs_arena *scratch = fs_arena_create();
    int32_t *n = fs_new(scratch, int32_t, c->n_nodes);
    run **at = fs_new(scratch, run *, c->n_nodes);
    for (int32_t pass = 0; pass < 2; pass++)
        for (int32_t k = 0; k < crowd->n; k++) {
            const runs all = runs_of(c, crowd->device + k * crowd->size,
                                     crowd->size, scratch);
            for (int32_t i = 0; i < all.n; i++) {
                const run *r = &all.at[i];
                if (r->n < 2)
                    continue;
                if (pass == 0) {
                    n[r->node]++;
                    continue;
                }
                if (!at[r->node]) {
                    at[r->node] = fs_new(scratch, run, n[r->node]);
                    n[r->node] = 0;
                }
                at[r->node][n[r->node]++] = *r;
            }
        }
    for (int32_t i = 0; i < c->n_nodes; i++)
        if (n[i] > 0) {
            const hw_sets sets = sets_of(c, at[i], n[i], scratch);
            visit(ctx, i, hw_group_of(c, at[i][0].device[0]), &sets);
        }
    fs_arena_destroy(scratch);
}

/* Nodes of one kind mostly have the same sets. */
typedef struct known_sets {
    fs_arena *arena;
    FS_VEC(local_sets) seen;
} known_sets;

/* Their number; -1: not seen before. */
static int32_t find_sets(const known_sets *x, const hw_group *group,
                         const hw_sets *sets)
{
    for (int32_t k = 0; k < x->seen.n; k++)
        if (x->seen.at[k].group == group &&
            compare_sets(&x->seen.at[k].sets, sets) == 0)
            return k;
    return -1;
}

static void keep_sets(known_sets *x, const hw_group *group, const hw_sets *sets,
                      double *load)
{
    const int32_t n = sets->n;
    const hw_sets own = {
        n, fs_memdup(x->arena, sets->first, ((size_t)n + 1) * sizeof(int32_t)),
        fs_memdup(x->arena, sets->member,
                  (size_t)sets->first[n] * sizeof(int32_t))};
    fs_push(x->arena, &x->seen, (local_sets){group, own, load});
}

typedef struct inside {
    hw_rates *out;
    known_sets known;
} inside;

static void take_less(hw_share *out, hw_share its)
{
    out->bps = fmin(out->bps, its.bps);
    out->hops = out->hops > its.hops ? out->hops : its.hops;
}

static void take_node(void *ctx, int32_t node, const hw_group *group,
                      const hw_sets *sets)
{
    inside *x = ctx;
    (void)node;
    if (find_sets(&x->known, group, sets) >= 0)
        return;
    keep_sets(&x->known, group, sets, NULL);
    take_less(&x->out->ring, hw_ring_share(group, sets, NULL));
    take_less(&x->out->pairs, hw_pairs_share(group, sets));
    take_less(&x->out->beside, hw_beside_share(group, sets));
}

/* ---- what loads wires ---- */

bool hw_has_wires(const hw_group *group)
{
    return group->wiring.kind == HW_WIRED_MESH ||
           group->wiring.kind == HW_WIRED_LINKS;
}

typedef struct loads {
    const hw_links *links;
    hw_node_load *visit;
    void *ctx;
    known_sets known;
} loads;

static void load_node(void *ctx, int32_t node, const hw_group *group,
                      const hw_sets *sets)
{
    loads *x = ctx;
    const int32_t n = hw_inner_links(group);
    if (!hw_has_wires(group))
        return;
    int32_t k = find_sets(&x->known, group, sets);
    if (k < 0) {
        double *load = fs_new(x->known.arena, double, n);
        hw_ring_share(group, sets, load);
        k = x->known.seen.n;
        keep_sets(&x->known, group, sets, load);
    }
    x->visit(x->ctx, hw_links_first_inner(x->links, node), n,
             x->known.seen.at[k].load);
}

void hw_crowd_ring_loads(const hw_links *links, const hw_crowd *crowd,
                         hw_node_load *visit, void *ctx)
{
    fs_arena *scratch = fs_arena_create();
    loads x = {links, visit, ctx, {.arena = scratch}};
    visit_nodes(links, crowd, load_node, &x);
    fs_arena_destroy(scratch);
}

/* ---- between nodes ---- */

typedef struct crossing {
    const hw_links *links;
    double *next, *tree, *far; /* [links] what crosses them */
    double most_next, most_far;
} crossing;

static void cross(const crossing *x, int32_t from, int32_t to, double *load,
                  double *most)
{
    int32_t hops[HW_MOST_HOPS];
    double most_bps;
    const int32_t n = hw_links_route(x->links, from, to, hops, &most_bps);
    *most = fmin(*most, most_bps);
    for (int32_t i = 0; i < n; i++)
        load[hops[i]]++;
}

static void cross_runs(crossing *x, const run *from, const run *to,
                       double *load)
{
    for (int32_t i = 0; i < from->n; i++)
        cross(x, from->device[i], to->device[i % to->n], load, &x->most_next);
}

/* The node above in a binary tree whose root is 0: each has the even ones at
 * twice its distance above it. */
static int32_t above(int32_t i, int32_t n)
{
    const int32_t bit = i & -i;
    const int32_t up = (i ^ bit) | bit << 1;
    return up < n ? up : i ^ bit;
}

/* A second tree, in which those that hand nothing on in the first one do. */
static void cross_trees(crossing *x, const runs *all)
{
    const int32_t n = all->n;
    for (int32_t i = 1; i < n; i++) {
        const int32_t up = above(i, n);
        const int32_t a[2] = {i, n % 2 ? (i + 1) % n : n - 1 - i};
        const int32_t b[2] = {up, n % 2 ? (up + 1) % n : n - 1 - up};
        for (int32_t k = 0; k < 2; k++) {
            cross_runs(x, &all->at[a[k]], &all->at[b[k]], x->tree);
            cross_runs(x, &all->at[b[k]], &all->at[a[k]], x->tree);
        }
    }
}

/* Of a pair of devices of different nodes what they cross is told by where each
 * of them is and the other is not. */
static void cross_all_far(crossing *x, const runs *all, int32_t size,
                          fs_arena *arena)
{
    const int32_t n_leaves = hw_links_leaves(x->links);
    double *in_leaf = fs_new(arena, double, n_leaves);
    double *own = fs_new(arena, double, n_leaves); /* pairs of one node */
    for (int32_t k = 0; k < all->n; k++) {
        const run *r = &all->at[k];
        const double others = size - r->n;
        x->most_far = fmin(x->most_far, hw_links_nic_bps(x->links) / others);
        for (int32_t i = 0; i < r->n; i++) {
            hw_way_out way = hw_links_way_out(x->links, r->device[i]);
            for (int32_t j = 0; j < 2; j++) {
                x->far[way.port + j] += others;
                if (way.device >= 0)
                    x->far[way.device + j] += others;
            }
            if (way.leaf < 0)
                continue;
            in_leaf[way.leaf]++;
            for (int32_t j = 0; j < r->n; j++)
                own[way.leaf] +=
                    hw_links_way_out(x->links, r->device[j]).leaf != way.leaf;
        }
    }
    for (int32_t k = 0; k < n_leaves; k++)
        for (int32_t j = 0; j < 2; j++)
            x->far[hw_links_leaf(x->links, k) + j] +=
                in_leaf[k] * (size - in_leaf[k]) - own[k];
}

static double least_bps(const crossing *x, const double *load, double most)
{
    const double *bps = hw_links_bps(x->links);
    double least = most;
    for (int32_t i = 0; i < hw_links_count(x->links); i++)
        if (load[i] > 0)
            least = fmin(least, bps[i] / load[i]);
    return least;
}

/* Of a node in the middle of a tree four halves go out. */
enum { TREE_HALVES = 4 };

static void rate_across(const hw_links *links, const hw_crowd *crowd,
                        fs_arena *arena, hw_rates *out)
{
    const hw_cluster *c = hw_links_cluster(links);
    const int32_t n = hw_links_count(links);
    crossing x = {links,
                  fs_new(arena, double, n),
                  fs_new(arena, double, n),
                  fs_new(arena, double, n),
                  INFINITY,
                  INFINITY};
    bool any = false;
    for (int32_t k = 0; k < crowd->n; k++) {
        const runs all =
            runs_of(c, crowd->device + k * crowd->size, crowd->size, arena);
        if (all.n < 2)
            continue;
        any = true;
        for (int32_t i = 0; i < all.n; i++)
            cross_runs(&x, &all.at[i], &all.at[(i + 1) % all.n], x.next);
        cross_trees(&x, &all);
        cross_all_far(&x, &all, crowd->size, arena);
    }
    if (!any)
        return;
    out->next_bps = least_bps(&x, x.next, x.most_next);
    out->tree_bps =
        fmin(TREE_HALVES * least_bps(&x, x.tree, INFINITY), x.most_next);
    out->far_bps = least_bps(&x, x.far, x.most_far);
}

hw_rates hw_crowd_rates(const hw_links *links, const hw_crowd *crowd)
{
    hw_rates out = {{INFINITY, 1}, {INFINITY, 1}, {INFINITY, 1},
                    INFINITY,      INFINITY,      INFINITY};
    fs_arena *scratch = fs_arena_create();
    inside x = {&out, {.arena = scratch}};
    visit_nodes(links, crowd, take_node, &x);
    rate_across(links, crowd, scratch, &out);
    fs_arena_destroy(scratch);
    return out;
}

/* ---- moves ---- */

int32_t hw_wires_between(const hw_links *links, int32_t a, int32_t b)
{
    int32_t hops[HW_MOST_HOPS];
    double most;
    const hw_cluster *c = hw_links_cluster(links);
    if (hw_group_of(c, a)->wiring.kind != HW_WIRED_LINKS)
        return 1;
    return hw_links_route(links, a, b, hops, &most);
}

/* Those inside one node, by what is left of the list. */
static double inside_seconds(const hw_cluster *c, const hw_transfer *moves,
                             int32_t n, fs_arena *arena)
{
    double most = 0;
    int32_t hops;
    FS_VEC(hw_transfer) own = {0};
    bool *done = fs_new(arena, bool, n);
    for (int32_t i = 0; i < n; i++) {
        const int32_t node = hw_node_of(c, moves[i].from);
        const int32_t first = first_device(c, moves[i].from);
        if (done[i] || node != hw_node_of(c, moves[i].to))
            continue;
        own.n = 0;
        for (int32_t k = i; k < n; k++) {
            if (done[k] || hw_node_of(c, moves[k].from) != node ||
                hw_node_of(c, moves[k].to) != node)
                continue;
            done[k] = true;
            if (moves[k].from != moves[k].to && moves[k].bytes > 0)
                fs_push(arena, &own,
                        (hw_transfer){moves[k].from - first,
                                      moves[k].to - first, moves[k].bytes});
        }
        most = fmax(most, hw_transfers_seconds(hw_group_of(c, moves[i].from),
                                               own.at, own.n, &hops));
    }
    return most;
}

double hw_moves_seconds(const hw_links *links, const hw_transfer *moves,
                        int32_t n)
{
    const hw_cluster *c = hw_links_cluster(links);
    const double *bps = hw_links_bps(links);
    fs_arena *scratch = fs_arena_create();
    double *load = fs_new(scratch, double, hw_links_count(links));
    double most = inside_seconds(c, moves, n, scratch), most_bps;
    int32_t hops[HW_MOST_HOPS];
    for (int32_t i = 0; i < n; i++) {
        if (hw_node_of(c, moves[i].from) == hw_node_of(c, moves[i].to))
            continue;
        const int32_t m =
            hw_links_route(links, moves[i].from, moves[i].to, hops, &most_bps);
        most = fmax(most, moves[i].bytes / most_bps);
        for (int32_t k = 0; k < m; k++)
            load[hops[k]] += moves[i].bytes;
    }
    for (int32_t i = 0; i < hw_links_count(links); i++)
        most = fmax(most, load[i] / bps[i]);
    fs_arena_destroy(scratch);
    return most;
}
