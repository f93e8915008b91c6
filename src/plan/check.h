/* plan_check proves a plan sound before anything runs, or gives the
 * counterexample: (1) every tensor a task reads is there with the SBP it
 * expects; (2) all members of a communicator or channel issue in one order;
 * (3) the credit graph is live: every cycle holds a token (Commoner, Holt,
 * Even, Pnueli 1971: a marked graph is live iff no directed cycle is free of
 * tokens); (4) no two live pieces overlap in memory and the arena fits the
 * device; (5) strategy and graph fit (signatures legal, loop edges close). */
#ifndef FS_PLAN_CHECK_H
#define FS_PLAN_CHECK_H

#include "plan/plan.h"

typedef enum plan_finding_kind {
    PLAN_FINDING_STRUCTURE, /* indices out of range, missing producer ... */
    PLAN_FINDING_SBP,
    PLAN_FINDING_ORDER,
    PLAN_FINDING_LIVENESS,
    PLAN_FINDING_MEMORY
} plan_finding_kind;
const char *plan_finding_name(plan_finding_kind kind);

typedef struct plan_finding {
    plan_finding_kind kind;
    const char *text; /* the counterexample: the cycle task by task, the
                         tensor, the ranks, the bytes */
} plan_finding;

typedef struct plan_report {
    int32_t n;
    plan_finding *findings; /* at most 20 */
    bool live;
    bool deadlocks; /* a cycle was found; neither: it was not looked for */
    int64_t n_transitions, n_places; /* size of the marked graph */
    int64_t peak_bytes_max;          /* over roles */
    int32_t left_out; /* micro-batches that are as others, and so proven */
    double seconds;
} plan_report;

/* Total over any plan that plan_read accepts: never crashes on a hostile one.
 * Returns FS_OK when sound, FS_NO with findings otherwise. */
fs_status plan_check(const ir_graph *graph, const hw_cluster *cluster,
                     const plan *p, fs_arena *arena, plan_report *out);
/* The same of each firing, none left out: what tests trust. */
fs_status plan_check_ref(const ir_graph *graph, const hw_cluster *cluster,
                         const plan *p, fs_arena *arena, plan_report *out);

#endif
