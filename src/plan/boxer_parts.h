/* What the boxer's files share: the SBPs of a tensor on a stage as numbers, the
 * trees of cheapest paths among them (boxer_trees.c), paths that cross from one
 * stage to another (boxer_cross.c), halos at their ends (boxer.c). */
#ifndef FS_PLAN_BOXER_PARTS_H
#define FS_PLAN_BOXER_PARTS_H

#include "plan/boxer.h"

typedef struct boxer_spaces boxer_spaces;
typedef struct boxer_crossings boxer_crossings;
struct plan_boxer {
    plan_boxing_cost cost;
    fs_arena *arena;
    boxer_spaces *spaces;
};

/* ---- boxer_trees.c ---- */

/* A tensor's states on a stage: its SBPs without halos, of some reductions. */
typedef struct boxer_space {
    const ir_tensor *tensor;
    const plan_stage *stage;
    uint32_t reductions; /* a bit per ir_sbp_kind */
    int32_t base, n_axes, n_states;
    int32_t number; /* under which it is remembered */
} boxer_space;
boxer_space boxer_space_of(plan_boxer *boxer, const ir_tensor *tensor,
                           const plan_stage *stage, uint32_t reductions);
/* Sums, and what these have: a reduction that neither end of a path has leads
 * nowhere that sums do not, at the same price. */
uint32_t boxer_reductions(const ir_nd_sbp *sbp, int32_t n_axes);
int32_t boxer_state_of(const boxer_space *space, const ir_nd_sbp *sbp);
ir_nd_sbp boxer_sbp_at(const boxer_space *space, int32_t state);

boxer_spaces *boxer_spaces_create(fs_arena *arena);

/* What is known of crossings from there (boxer_cross.c); NULL: nothing. */
boxer_crossings **boxer_crossings_from(plan_boxer *boxer,
                                       const boxer_space *from);

/* Cheapest paths from one SBP to all others, or from all others to one. */
typedef struct boxer_tree {
    double *seconds; /* [n_states], INFINITY: out of reach */
    int32_t *parent; /* the neighbour on the side of that one */
    int32_t *length; /* steps */
} boxer_tree;
/* The tree of paths from (or, backwards, to) an SBP. */
const boxer_tree *boxer_tree_of(plan_boxer *boxer, const boxer_space *space,
                                const ir_nd_sbp *end, bool backwards);
/* From the tree's end to a state. */
void boxer_copy_path(const boxer_space *space, const boxer_tree *tree,
                     int32_t state, plan_boxing *path);

/* ---- boxer.c ---- */

/* Mesh axes on which an SBP has a halo, a bit each. */
uint32_t boxer_halo_axes(const ir_nd_sbp *sbp, int32_t n_axes);
/* Where a path to halos ends before them: B on the axes of `whole`, else S. */
ir_nd_sbp boxer_without_halos(const ir_nd_sbp *to, uint32_t whole,
                              int32_t n_axes);
/* Goes on from there; the seconds of what is added. */
double boxer_end_halos(const plan_boxer *boxer, const boxer_space *space,
                       const ir_nd_sbp *to, plan_boxing *path);

/* ---- boxer_cross.c ---- */

/* From one stage's states to another's. */
typedef struct boxer_crossing {
    plan_boxer *boxer;
    boxer_space from, to;
    boxer_crossings *known;
} boxer_crossing;
/* Of the tensor and the stages of `ends`. */
boxer_crossing boxer_crossing_of(plan_boxer *boxer, const plan_ends *ends,
                                 uint32_t reductions);
/* Seconds of the cheapest path with one crossing; INFINITY: there is none.
 * `path` may be NULL. */
double boxer_cross(const boxer_crossing *x, const ir_nd_sbp *from,
                   const ir_nd_sbp *to, plan_boxing *path);
/* No more than that, by what crossings take at least. */
double boxer_cross_least(const boxer_crossing *x, const ir_nd_sbp *from,
                         const ir_nd_sbp *to);
/* Between stages of one mesh that box at one price: how many seconds any path
 * with a crossing takes more than one on the first of them, at least;
 * -INFINITY: it may take less, */
double boxer_cross_dearer(const boxer_crossing *x);
/* and is that so? */
bool boxer_cross_pays(const boxer_crossing *x);

#endif
