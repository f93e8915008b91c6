/* A plan's step as execution traces for other simulators: the schema of
 * MLCommons Chakra (et_def.proto; Sridharan et al., "Chakra: Advancing
 * Performance Benchmarking and Co-design using Standardized Execution Traces",
 * 2023), one file per rank, as ASTRA-sim reads them. */
#ifndef FS_REPORT_CHAKRA_H
#define FS_REPORT_CHAKRA_H

#include "plan/timing.h"

/* Ranks are files. */
enum { REPORT_CHAKRA_MOST_RANKS = 4096 };

typedef struct report_chakra {
    int32_t files; /* of ranks */
    int32_t groups;
    int64_t nodes, bytes;    /* in all of them */
    int32_t halos, reslices; /* tasks of a rank that became all-to-alls */
} report_chakra;

/* Writes DIR/plan.RANK.et for each rank, and DIR/comm_group.json: ranks of each
 * group that collectives name (pg_name). The folder is there. Each file is
 * whole or not there; on a failure those already written stay. More ranks than
 * files are written for are FS_INVALID. */
fs_status report_chakra_write(const ir_graph *graph, const plan *p,
                              const plan_timing *timing, const char *dir,
                              fs_err *err, report_chakra *out);

/* ---- where they are to be (chakra_place.c) ---- */

/* May a plan's traces be put into DIR, should it be there? FS_INVALID names
 * what this program has not written and they would overwrite, or that would be
 * taken for one of them. */
fs_status report_chakra_check(const char *dir, int32_t n_ranks, fs_err *err);
/* Moves what report_chakra_write has left in the folder `from` into DIR, which
 * is there and on the same file system; those of a former export that belong to
 * ranks beyond are removed (how many), before anything is moved. */
fs_status report_chakra_place(const char *from, const char *dir,
                              int32_t n_ranks, fs_err *err, int32_t *removed);

/* ---- the firings of a step of a role (chakra_deps.c) ---- */

typedef FS_VEC(int32_t) report_list;

/* In the order of the role's program. */
typedef struct report_firing {
    int32_t task, micro_batch;
    int64_t duration_us; /* rounded so that a stream's add up */
    /* Firings before it, ascending: what it reads and the one before it on its
     * stream; those that must have let go of a buffer or keep its place. */
    report_list data, control;
} report_firing;

typedef struct report_firings {
    int32_t n;
    report_firing *at; /* [n] */
} report_firings;
report_firings report_firings_of(const plan *p, int32_t role,
                                 const plan_timing *timing, fs_arena *arena);

#endif
