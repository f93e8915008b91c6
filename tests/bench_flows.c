#include "config.h"
#include "tests/bench_flows.h"

#include "base/hash.h"
#include "sim/flows.h"
#include "sim/heap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_HOPS = 6 };

typedef struct flow {
    int32_t from, to, n;
    int32_t links[MOST_HOPS];
    double bytes, end_s;
} flow;

typedef struct tree {
    int32_t k, hosts, n_links;
    int32_t flows; /* of each host; those of host h begin at h * flows */
    double *bps;
    flow *all;
} tree;

/* ---- a fat tree (Al-Fares et al. 2008), each link both ways ---- */

/* Host h to its edge switch, edge switch e to aggregation switch a of its pod,
 * a to core switch c of its own; odd: down. */
static int32_t host_link(const tree *t, int32_t h, bool down)
{
    (void)t;
    return 2 * h + down;
}

static int32_t pod_link(const tree *t, int32_t edge, int32_t a, bool down)
{
    return 2 * (t->hosts + edge * (t->k / 2) + a) + down;
}

static int32_t core_link(const tree *t, int32_t pod, int32_t a, int32_t c,
                         bool down)
{
    const int32_t half = t->k / 2;
    return 2 * (2 * t->hosts + (pod * half + a) * half + c) + down;
}

static void route(const tree *t, flow *f, uint64_t *seed)
{
    const int32_t half = t->k / 2;
    const int32_t from = f->from / half, to = f->to / half; /* edges */
    const int32_t a = (int32_t)fs_rand_below(seed, half);
    const int32_t c = (int32_t)fs_rand_below(seed, half);
    f->links[f->n++] = host_link(t, f->from, false);
    if (from != to)
        f->links[f->n++] = pod_link(t, from, a, false);
    if (from / half != to / half) {
        f->links[f->n++] = core_link(t, from / half, a, c, false);
        f->links[f->n++] = core_link(t, to / half, a, c, true);
    }
    if (from != to)
        f->links[f->n++] = pod_link(t, to, a, true);
    f->links[f->n++] = host_link(t, f->to, true);
}

/* Between two hosts always the same way, as theirs has one route. */
static tree draw(const flows_case *c, fs_arena *arena)
{
    tree t = {.k = c->k, .hosts = c->k * c->k * c->k / 4, .flows = c->flows};
    uint64_t seed = c->seed;
    t.n_links = 6 * t.hosts;
    t.bps = fs_new(arena, double, t.n_links);
    t.all = fs_new(arena, flow, (int64_t)t.hosts * c->flows);
    for (int32_t i = 0; i < t.n_links; i++)
        t.bps[i] = 1e9;
    for (int32_t i = 0; i < t.hosts * c->flows; i++) {
        flow *f = &t.all[i];
        f->from = i / c->flows;
        f->to = (int32_t)fs_rand_below(&seed, t.hosts - 1);
        f->to += f->to >= f->from;
        f->bytes = floor(1e8 * (1 + 9 * fs_rand_unit(&seed)));
        uint64_t way = fs_mix((uint64_t)f->from * 65536 + (uint64_t)f->to);
        route(&t, f, &way);
    }
    return t;
}

/* ---- ours: the queue and the flows ---- */

typedef struct player {
    const tree *t;
    sim_flows *flows;
    sim_heap heap;
    int64_t now_ps, sequence;
    double *left;        /* [flows] bytes */
    int64_t *updated_ps; /* [flows] */
    double *bps;         /* [flows] */
} player;

static void start(player *p, int32_t f)
{
    p->left[f] = p->t->all[f].bytes;
    p->updated_ps[f] = p->now_ps;
    p->bps[f] = 0;
    sim_flows_start(p->flows, f);
}

static void set_ends(player *p)
{
    int32_t n;
    const int32_t *changed = sim_flows_solve(p->flows, &n);
    const double unit = sim_flows_bps(p->flows);
    for (int32_t i = 0; i < n; i++) {
        const int32_t f = changed[i];
        p->left[f] -=
            (double)(p->now_ps - p->updated_ps[f]) * 1e-12 * p->bps[f];
        p->updated_ps[f] = p->now_ps;
        p->bps[f] = (double)sim_flows_rate(p->flows, f) * unit;
        const double after_ps = p->left[f] / p->bps[f] * 1e12;
        sim_heap_set(&p->heap,
                     sim_event_make(p->now_ps + (int64_t)(after_ps + 0.5),
                                    p->sequence++, f / p->t->flows));
    }
}

static double play_ours(tree *t, fs_arena *arena)
{
    const int32_t n = t->hosts * t->flows;
    player p = {.t = t,
                .flows = sim_flows_create(t->n_links, t->bps, n, arena),
                .heap = sim_heap_make(t->hosts, arena),
                .left = fs_new(arena, double, n),
                .updated_ps = fs_new(arena, int64_t, n),
                .bps = fs_new(arena, double, n)};
    int32_t *at = fs_new(arena, int32_t, t->hosts);
    for (int32_t i = 0; i < n; i++) {
        sim_use uses[MOST_HOPS];
        for (int32_t k = 0; k < t->all[i].n; k++)
            uses[k] = (sim_use){t->all[i].links[k], 1};
        sim_flows_route(p.flows, i, uses, t->all[i].n, INFINITY);
    }
    const clock_t begin = clock();
    for (int32_t h = 0; h < t->hosts; h++) {
        at[h] = h * t->flows;
        start(&p, at[h]);
    }
    set_ends(&p);
    const sim_event *next;
    while ((next = sim_heap_first(&p.heap))) {
        p.now_ps = next->time_ns;
        while ((next = sim_heap_first(&p.heap)) && next->time_ns == p.now_ps) {
            const int32_t h = sim_heap_pop(&p.heap);
            t->all[at[h]].end_s = (double)p.now_ps * 1e-12;
            sim_flows_end(p.flows, at[h]++);
            if (at[h] < (h + 1) * t->flows)
                start(&p, at[h]);
        }
        set_ends(&p);
    }
    return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

/* ---- theirs: bench_simgrid.cc, made and run where it can be ---- */

static bool save(const tree *t, const char *path)
{
    FILE *out = fopen(path, "w");
    if (!out)
        return false;
    fprintf(out, "%d %d %d\n", t->n_links, t->hosts, t->flows);
    for (int32_t i = 0; i < t->n_links; i++)
        fprintf(out, "%.17g\n", t->bps[i]);
    for (int32_t i = 0; i < t->hosts * t->flows; i++) {
        const flow *f = &t->all[i];
        fprintf(out, "%d %d %.17g %d", f->from, f->to, f->bytes, f->n);
        for (int32_t k = 0; k < f->n; k++)
            fprintf(out, " %d", f->links[k]);
        fprintf(out, "\n");
    }
    return fclose(out) == 0;
}

/* Their time; NAN: it did not run. */
static double read_theirs(const tree *t, const char *path, double *off)
{
    FILE *in = fopen(path, "r");
    double took_s = NAN, end_s;
    if (!in)
        return NAN;
    if (fscanf(in, "%lf", &took_s) != 1)
        took_s = NAN;
    for (int32_t i = 0; i < t->hosts * t->flows && !isnan(took_s); i++) {
        if (fscanf(in, "%lf", &end_s) != 1)
            took_s = NAN;
        else
            *off = fmax(*off, fabs(end_s - t->all[i].end_s) / end_s);
    }
    fclose(in);
    return took_s;
}

static void run_theirs(const tree *t, flows_figures *f)
{
    char folder[] = "/tmp/bench_flows.XXXXXX", command[2000];
    const char *source = getenv("FS_SRCDIR"), *cxx = getenv("CXX");
    if (!mkdtemp(folder)) {
        f->why = "no temporary folder";
        return;
    }
    snprintf(command, sizeof command,
             "%s -O2 -o '%s/theirs' '%s/tests/bench_simgrid.cc' -lsimgrid "
             "2>'%s/why'",
             cxx ? cxx : "c++", folder, source ? source : ".", folder);
    if (system(command) != 0) {
        f->why = "SimGrid is not there (Debian: libsimgrid-dev)";
    } else {
        char path[100];
        snprintf(path, sizeof path, "%s/flows", folder);
        snprintf(command, sizeof command,
                 "'%s/theirs' '%s/flows' > '%s/ends' 2>'%s/why'", folder,
                 folder, folder, folder);
        if (!save(t, path) || system(command) != 0)
            f->why = "SimGrid failed";
        snprintf(path, sizeof path, "%s/ends", folder);
        f->theirs_s = read_theirs(t, path, &f->off);
    }
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    if (system(command) != 0)
        f->why = "a temporary folder was left";
}

flows_figures flows_run(const flows_case *c, bool compare)
{
    enum { TIMES = 5 };
    flows_figures f = {.ours_s = INFINITY, .theirs_s = NAN};
    fs_arena *arena = fs_arena_create();
    tree t = draw(c, arena);
    f.events = 2 * (int64_t)t.hosts * t.flows;
    f.links = t.n_links;
    for (int32_t k = 0; k < TIMES; k++) {
        fs_arena *run = fs_arena_create();
        f.ours_s = fmin(f.ours_s, play_ours(&t, run));
        fs_arena_destroy(run);
    }
    if (compare)
        run_theirs(&t, &f);
    fs_arena_destroy(arena);
    return f;
}
