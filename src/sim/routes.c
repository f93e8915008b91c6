/* A role stands for all its ranks, and a line for all that its ranks do at the
 * same time: a flow whose streams are the single transfers. Links that the same
 * lines cross as often, and that are as wide, are one link to the flows; links
 * on which no two lines can meet limit their line, and are none. */
#include "config.h"
#include "sim/routes.h"

#include "base/hash.h"
#include "hw/crowd.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A line crosses a link so often. */
typedef struct crossing {
    int32_t line, n;
} crossing;
typedef struct crossings {
    FS_VEC(crossing) at; /* ascending lines */
    double bps;
    uint64_t hash;
} crossings;

enum { NOBODY = -1, SEVERAL = -2 };

typedef struct routing {
    const plan *p;
    fs_arena *arena;
    hw_links *links;
    int32_t n_lines;
    crossings *crossed; /* [links] */
    double *most_bps;   /* [lines] */
    int64_t *user;      /* [lines] the stream of a role that alone uses it */
    int32_t scale;      /* a transfer counts as so many streams */
} routing;

/* Rings split over wires are counted in parts of a transfer: in so many. */
enum { PARTS = 1024 };

static int32_t scale_of(const hw_cluster *cluster)
{
    for (int32_t g = 0; g < cluster->n_groups; g++)
        if (hw_has_wires(&cluster->groups[g]))
            return PARTS;
    return 1;
}

/* ---- who uses a line ---- */

static void find_users(routing *r)
{
    for (int32_t i = 0; i < r->n_lines; i++)
        r->user[i] = NOBODY;
    for (int32_t i = 0; i < r->p->n_roles; i++) {
        const plan_role *role = &r->p->roles[i];
        for (int32_t t = 0; t < role->n_tasks; t++) {
            const plan_task *task = &role->tasks[t];
            const int32_t line =
                task->channel >= 0 ? r->p->n_comms + task->channel : task->comm;
            const int64_t its = ((int64_t)i << 32) + task->stream;
            if (line >= 0 && r->user[line] != its)
                r->user[line] = r->user[line] == NOBODY ? its : SEVERAL;
        }
    }
}

/* ---- what it crosses ---- */

static void cross_link(routing *r, int32_t line, int32_t link, int32_t streams)
{
    crossings *x = &r->crossed[link];
    if (x->at.n == 0 || x->at.at[x->at.n - 1].line != line)
        fs_push(r->arena, &x->at, (crossing){line, 0});
    x->at.at[x->at.n - 1].n += streams;
}

static void cross(routing *r, int32_t line, int32_t from, int32_t to)
{
    int32_t hops[HW_MOST_HOPS];
    double most_bps;
    const int32_t n = hw_links_route(r->links, from, to, hops, &most_bps);
    r->most_bps[line] = fmin(r->most_bps[line], most_bps / r->scale);
    for (int32_t i = 0; i < n; i++)
        cross_link(r, line, hops[i], r->scale);
}

/* Of rings inside a node by its own wires. */
typedef struct wired_line {
    routing *r;
    int32_t line;
} wired_line;

static void cross_wires(void *ctx, int32_t first_link, int32_t n,
                        const double *load)
{
    const wired_line *x = ctx;
    for (int32_t i = 0; i < n; i++)
        if (load[i] > 0)
            cross_link(x->r, x->line, first_link + i,
                       (int32_t)ceil(load[i] * x->r->scale));
}

/* Members of a collective, ascending: within a node they pass on in a ring
 * (where its wires are its own, by the rings that suit these); of several
 * nodes, each deals with one of the next node. */
static void cross_ring(routing *r, const hw_cluster *c, int32_t line,
                       const int32_t *ranks, int32_t n)
{
    int32_t *first = fs_new(r->arena, int32_t, n + 1), nodes = 0;
    for (int32_t i = 0; i < n; i++)
        if (i == 0 || hw_node_of(c, ranks[i]) != hw_node_of(c, ranks[i - 1]))
            first[nodes++] = i;
    first[nodes] = n;
    for (int32_t k = 0; k < nodes; k++) {
        const int32_t size = first[k + 1] - first[k];
        const int32_t next = (k + 1) % nodes;
        const int32_t next_size = first[next + 1] - first[next];
        for (int32_t i = 0; i < size; i++) {
            const int32_t from = ranks[first[k] + i];
            if (size > 1 && !hw_has_wires(hw_group_of(c, from)))
                cross(r, line, from, ranks[first[k] + (i + 1) % size]);
            if (nodes > 1)
                cross(r, line, from, ranks[first[next] + i % next_size]);
        }
    }
}

static void cross_comm(routing *r, const hw_cluster *c, int32_t index)
{
    const plan_comm *comm = &r->p->comms[index];
    const plan_stage *stage = &r->p->strategy->stages[comm->stage];
    const int32_t size = plan_comm_size(r->p, comm);
    const int32_t n = ir_mesh_size(&stage->mesh);
    int32_t *all = fs_new(r->arena, int32_t, n);
    bool *seen = fs_new(r->arena, bool, n);
    hw_crowd crowd = {0, size, all};
    for (int32_t i = 0; i < n; i++) {
        if (seen[i])
            continue;
        int32_t *ranks = all + crowd.n++ * size;
        plan_comm_ranks(r->p, comm, stage->first_device + i, ranks);
        for (int32_t k = 0; k < size; k++)
            seen[ranks[k] - stage->first_device] = true;
        cross_ring(r, c, index, ranks, size);
    }
    if (r->scale > 1)
        hw_crowd_ring_loads(r->links, &crowd, cross_wires,
                            &(wired_line){r, index});
}

/* Between meshes of different sizes every position of the larger deals with the
 * nearest of the other. */
static void cross_channel(routing *r, int32_t index)
{
    const plan_stage *stages = r->p->strategy->stages;
    const plan_stage *from = &stages[r->p->channels[index].from_stage];
    const plan_stage *to = &stages[r->p->channels[index].to_stage];
    const int64_t n_from = ir_mesh_size(&from->mesh);
    const int64_t n_to = ir_mesh_size(&to->mesh);
    const int64_t size = n_from > n_to ? n_from : n_to;
    for (int64_t i = 0; i < size; i++)
        cross(r, r->p->n_comms + index,
              from->first_device + (int32_t)(i * n_from / size),
              to->first_device + (int32_t)(i * n_to / size));
}

/* ---- links that are alike ---- */

static int64_t role_of(int64_t user)
{
    return user >> 32;
}

/* Can two of its lines be at work at once, and whose are they? */
static sim_sharing sharing_of(const routing *r, const crossings *x)
{
    sim_sharing most = SIM_UNSHARED;
    for (int32_t i = 0; i < x->at.n && x->at.n > 1; i++) {
        const int64_t user = r->user[x->at.at[i].line];
        const int64_t first = r->user[x->at.at[0].line];
        if (user == SEVERAL || role_of(user) != role_of(first))
            return SIM_WITH_OTHERS;
        if (user != first)
            most = SIM_WITH_ROLE;
    }
    return most;
}

static int by_crossings(const void *a, const void *b)
{
    const crossings *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    if (x->bps != y->bps)
        return x->bps < y->bps ? -1 : 1;
    if (x->at.n != y->at.n)
        return x->at.n < y->at.n ? -1 : 1;
    return memcmp(x->at.at, y->at.at, (size_t)x->at.n * sizeof *x->at.at);
}

/* Of those that lines share, one of each kind comes first; returns how many. */
static int32_t sort_links(routing *r)
{
    const int32_t n_links = hw_links_count(r->links);
    int32_t n = 0, kinds = 0;
    for (int32_t i = 0; i < n_links; i++) {
        crossings *x = &r->crossed[i];
        const double bps = hw_links_bps(r->links)[i];
        if (sharing_of(r, x) != SIM_UNSHARED) {
            x->bps = bps;
            x->hash = fs_hash(0, x->at.at, (size_t)x->at.n * sizeof *x->at.at);
            r->crossed[n++] = *x;
            continue;
        }
        for (int32_t k = 0; k < x->at.n; k++) {
            double *most = &r->most_bps[x->at.at[k].line];
            *most = fmin(*most, bps / x->at.at[k].n);
        }
    }
    if (n > 0)
        qsort(r->crossed, (size_t)n, sizeof *r->crossed, by_crossings);
    for (int32_t i = 0; i < n; i++)
        if (i == 0 || by_crossings(&r->crossed[i], &r->crossed[kinds - 1]))
            r->crossed[kinds++] = r->crossed[i];
    return kinds;
}

/* ---- flows ---- */

static sim_flows *make_flows(routing *r, int32_t n_links, fs_arena *arena,
                             sim_sharing *shared)
{
    double *bps = fs_new(r->arena, double, n_links);
    int32_t *n_uses = fs_new(r->arena, int32_t, r->n_lines);
    sim_use **uses = fs_new(r->arena, sim_use *, r->n_lines);
    for (int32_t i = 0; i < n_links; i++) {
        const sim_sharing its = sharing_of(r, &r->crossed[i]);
        bps[i] = r->crossed[i].bps;
        for (int32_t k = 0; k < r->crossed[i].at.n; k++) {
            const int32_t line = r->crossed[i].at.at[k].line;
            n_uses[line]++;
            shared[line] = its > shared[line] ? its : shared[line];
        }
    }
    for (int32_t i = 0; i < r->n_lines; i++) {
        uses[i] = fs_new(r->arena, sim_use, n_uses[i]);
        n_uses[i] = 0;
    }
    for (int32_t i = 0; i < n_links; i++)
        for (int32_t k = 0; k < r->crossed[i].at.n; k++) {
            const crossing *x = &r->crossed[i].at.at[k];
            uses[x->line][n_uses[x->line]++] = (sim_use){i, x->n};
        }
    sim_flows *flows = sim_flows_create(n_links, bps, r->n_lines, arena);
    for (int32_t i = 0; i < r->n_lines; i++)
        if (shared[i])
            sim_flows_route(flows, i, uses[i], n_uses[i], r->most_bps[i]);
    return flows;
}

sim_flows *sim_routes_make(const plan *p, const hw_cluster *cluster,
                           fs_arena *arena, sim_sharing **shared)
{
    routing r = {.p = p,
                 .arena = fs_arena_create(),
                 .n_lines = p->n_comms + p->n_channels,
                 .scale = scale_of(cluster)};
    r.links = hw_links_create(cluster, r.arena);
    r.crossed = fs_new(r.arena, crossings, hw_links_count(r.links));
    r.most_bps = fs_new(r.arena, double, r.n_lines);
    r.user = fs_new(r.arena, int64_t, r.n_lines);
    for (int32_t i = 0; i < r.n_lines; i++)
        r.most_bps[i] = INFINITY;
    find_users(&r);
    for (int32_t i = 0; i < p->n_comms; i++)
        cross_comm(&r, cluster, i);
    for (int32_t i = 0; i < p->n_channels; i++)
        cross_channel(&r, i);
    *shared = fs_new(arena, sim_sharing, r.n_lines);
    const int32_t n_links = sort_links(&r);
    sim_flows *flows = make_flows(&r, n_links, arena, *shared);
    fs_arena_destroy(r.arena);
    return flows;
}
