/* Runs of layers on sub-meshes: what each takes, once per distinct content, and
 * the pipelines that are best by that. Two levels as Alpa's (Zheng et al., OSDI
 * 2022, arXiv 2201.12023, sections 4, 5); its planner and the search's own
 * stages of different meshes read them. Internal to this folder. */
#ifndef FS_SEARCH_RUNS_H
#define FS_SEARCH_RUNS_H

#include "search/layout.h"
#include "search/cuts/order.h"

#include "base/clock.h"

enum { SEARCH_MOST_LAYERS = 8 };

/* Seconds per micro-batch, with its part of the step. */
typedef struct search_run_cost {
    double s; /* INFINITY: none found */
    ir_mesh mesh;
} search_run_cost;

/* All layers dealt out to stages that use all devices, in order. */
typedef struct search_pipeline {
    int32_t n;                 /* stages */
    const search_order *order; /* of groups of devices; NULL: the cluster's */
    double cost;
    int32_t first[SEARCH_MOST_LAYERS]; /* layer */
    ir_mesh mesh[SEARCH_MOST_LAYERS];
} search_pipeline;

typedef struct search_runs {
    const search_problem *problem;
    const search_graph *graph;
    int32_t keep;                /* pipelines at most */
    bool several;                /* only those of several stages are wanted */
    const search_orders *orders; /* besides the cluster's; NULL: none */
    fs_arena *scratch;           /* of what follows */
    fs_end end;                  /* of all, and of runs: */
    fs_end runs_end;
    double runs_steps; /* by when no more are solved */
    double mesh_steps; /* what runs on a mesh take at least, as far as known */
    int64_t steps;     /* of work done */
    bool late;         /* a clock had a say */
    search_rates rates;
    int32_t n_layers;
    int32_t *layer_of; /* [node] */
    int32_t n_sizes;
    int32_t *size;        /* [n_sizes] devices of a sub-mesh, ascending */
    int32_t n_places;     /* sub-meshes of different devices */
    int32_t *place_of;    /* [(order * sizes + size) * devices + how many come
                             before] which; -1: devices not in a row */
    search_run_cost *run; /* [(place * LAYERS + first) * LAYERS + last] */
    FS_VEC(search_pipeline) found; /* cheapest first */
    int64_t n_networks;            /* that were solved */
    int32_t n_meshes;              /* that were looked at, and of the two */
    int32_t needed;                /* largest sizes all that there are */
    bool hopeless;                 /* for them the work is not enough */
} search_runs;

/* The graph's layers, by the cut that balances them; each run of them on each
 * sub-mesh (powers of two of a node's devices, or nodes; of devices of the same
 * kinds one) by `ilp` with one round of prices; and by dynamic programming for
 * each value of the slowest stage, T = sum_i t_i + (m - 1) max_i t_i, the
 * cheapest pipelines. What crosses between stages is not seen. problem, graph,
 * keep, scratch, ends and steps are given. Networks: layers^2 / 2 per mesh.
 * Where several stages are wanted and the work is not enough for meshes of two
 * sizes, that is found out by the first ones, and nothing is found. */
void search_runs_find(search_runs *runs);

/* The pipeline's stage of a layer. */
int32_t search_pipeline_stage(const search_pipeline *pipe, int32_t layer);
bool search_runs_over(search_runs *runs, const fs_end *end, double steps);

#endif
