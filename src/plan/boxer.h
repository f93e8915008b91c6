/* The cheapest path of boxing steps. What a step costs comes in through a
 * function pointer (the layer `cost` fills it). */
#ifndef FS_PLAN_BOXER_H
#define FS_PLAN_BOXER_H

#include "plan/boxing.h"

typedef struct plan_boxing_cost {
    /* Seconds of a step on this stage; > 0 for every step. */
    double (*seconds)(void *ctx, const plan_stage *stage,
                      const plan_box_step *step);
    void *ctx;
    /* Seconds of a crossing, and what it costs at least, which is quick to say;
     * NULL: nothing. */
    double (*crossing)(void *ctx, const plan_cross *cross);
    double (*crossing_least)(void *ctx, const plan_cross *cross);
    /* Where a stage lies, as far as it matters: on stages of equal meshes that
     * have the same number steps take as long, and between two of them and two
     * others as far apart crossings do. NULL: its first device. */
    int32_t (*place)(void *ctx, const plan_stage *stage);
} plan_boxing_cost;

/* Finds cheapest paths by Dijkstra over the SBPs of a tensor on a stage's
 * mesh, and over those of two; remembers them by (shape, element size, stage,
 * end). Halos come last: of the ways that end by cutting or exchanging them
 * axis by axis, the cheapest. */
typedef struct plan_boxer plan_boxer;
plan_boxer *plan_boxer_create(plan_boxing_cost cost, fs_arena *arena);
/* Seconds of the cheapest path on one stage (0 when equal); INFINITY when there
 * is none. `path` may be NULL. */
double plan_boxer_find(plan_boxer *boxer, const ir_tensor *tensor,
                       const plan_stage *stage, const ir_nd_sbp *from,
                       const ir_nd_sbp *to, plan_boxing *path);
/* The same between any two ends: the cheapest of all paths with one crossing.
 * An input or constant on another mesh than its own is made as it is wanted, as
 * far as that goes. */
double plan_boxer_join(plan_boxer *boxer, const plan_ends *ends,
                       plan_boxing *path);
/* Seconds between each of some SBPs where an edge begins and each of some where
 * it ends, in one go: (n_from, n_to). What `ends` says of SBPs is of no
 * account. */
typedef struct plan_pairs {
    plan_ends ends;
    int32_t n_from, n_to;
    const ir_nd_sbp *const *from, *const *to; /* [n_from], [n_to] */
} plan_pairs;
void plan_boxer_join_all(plan_boxer *boxer, const plan_pairs *pairs,
                         double *seconds);
/* No more than these, from one stage to another: by what crossings take at
 * least. */
void plan_boxer_join_least(plan_boxer *boxer, const plan_pairs *pairs,
                           double *seconds);
/* The same between stages of one mesh that box at one price, where it may be
 * less than boxing on one of them; elsewhere INFINITY. */
void plan_boxer_join_less(plan_boxer *boxer, const plan_pairs *pairs,
                          double *seconds);
/* How much more any of these takes than boxing on one of them, at least, but
 * for those that end with halos; negative: it may take less. */
double plan_boxer_dearer(plan_boxer *boxer, const plan_pairs *pairs);

#endif
