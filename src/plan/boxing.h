/* Boxing: conversions between SBPs. The table says which steps exist; paths of
 * them lead along an edge, within a stage or from one to another (the cheapest:
 * boxer.h). */
#ifndef FS_PLAN_BOXING_H
#define FS_PLAN_BOXING_H

#include "plan/exchange.h"
#include "plan/strategy.h"

typedef enum plan_box_kind {
    PLAN_ALL_REDUCE,     /* P -> B */
    PLAN_ALL_GATHER,     /* S(i) -> B */
    PLAN_REDUCE_SCATTER, /* P -> S(i) */
    PLAN_ALL_TO_ALL,     /* S(i) -> S(j) */
    PLAN_HALO,           /* S(i) -> S(i) with a halo: among neighbours */
    PLAN_SLICE,          /* B -> S(i), with a halo or without: local */
    PLAN_ZERO_FILL,      /* B -> P(sum): local, all but position 0 clear */
    PLAN_ZERO_PAD,       /* S(i) -> P(sum): local */
    PLAN_COPY,           /* B -> P(max|min): local, it is what they all hold */
    PLAN_PAD,            /* S(i) -> P(max|min): local, with infinities */
    PLAN_RESLICE,        /* B and S(i) of several axes to others, at once */
    PLAN_BOX_KINDS
} plan_box_kind;
const char *plan_box_name(plan_box_kind kind);
bool plan_box_is_collective(plan_box_kind kind);
/* May several tensors go in one step of it? Where each rank deals with all
 * others and every message has a part of each tensor. */
bool plan_box_fuses(plan_box_kind kind);
/* "0", "0,2". */
const char *plan_axes_text(uint32_t axes, fs_arena *arena);

/* One step. Collective: among the ranks that differ in the mesh axes `axes` (a
 * bit each), which are those that change and those whose pieces do; of local
 * steps the axes that change. bytes_in / bytes_out: largest local piece before
 * and after. */
typedef struct plan_box_step {
    plan_box_kind kind;
    uint32_t axes;
    ir_nd_sbp from, to;
    int64_t bytes_in, bytes_out;
    int32_t element_bytes;
} plan_box_step;
/* How what is partial before it is reduced: the kind of its first axis. */
static inline ir_sbp_kind plan_box_reduction(const plan_box_step *box)
{
    return (ir_sbp_kind)box->from.at[__builtin_ctz(box->axes)].kind;
}

/* The rows of the table that lead from one to the other, a bit each: a step is
 * one that all axes have which change. */
uint32_t plan_box_rows(ir_sbp from, ir_sbp to);

/* Is from -> to one step of the table on this mesh for this shape? Fills *out
 * when it is. A step that changes S(d) under a later axis that cuts d too moves
 * pieces along both: it re-slices. */
bool plan_box_step_make(const ir_tensor *tensor, const ir_mesh *mesh,
                        const ir_nd_sbp *from, const ir_nd_sbp *to,
                        plan_box_step *out);

/* Bytes that a collective takes beside its pieces: what all others contribute
 * to the share that a rank folds, and the lower half of a 16-bit sum. 0 where
 * nothing is folded: pieces go to where they belong. */
int64_t plan_box_scratch(const ir_tensor *tensor, const ir_mesh *mesh,
                         const plan_box_step *step);

/* Who gives what to whom in a step. */
plan_exchange plan_box_exchange(const ir_tensor *tensor, const ir_mesh *mesh,
                                const ir_nd_sbp *from, const ir_nd_sbp *to);

/* The step between two stages: an exchange of their meshes. P that is gone on
 * arrival is folded by who receives; what stays partial goes from position to
 * position between equal meshes. */
typedef struct plan_cross {
    const ir_tensor *tensor;
    const plan_stage *from_stage, *to_stage;
    ir_nd_sbp from, to;
} plan_cross;
bool plan_cross_is_legal(const plan_cross *cross);
/* Position i deals with position i alone. */
bool plan_cross_is_straight(const plan_cross *cross);
plan_exchange plan_cross_exchange(const plan_cross *cross);
/* What who receives wants beside the piece: contributions to fold. */
int64_t plan_cross_scratch(const plan_cross *cross);

/* What an edge connects. */
typedef struct plan_ends {
    const ir_tensor *tensor; /* NULL: of a variable that no update changes */
    const plan_stage *from_stage, *to_stage;
    const ir_nd_sbp *from, *to;
    bool anywhere; /* an input or constant: made on each stage that reads it */
} plan_ends;
plan_ends plan_edge_ends(const ir_graph *graph, const plan_strategy *strategy,
                         int32_t v, int32_t slot);
bool plan_ends_cross(const plan_ends *ends);
/* Where at[k] of a path between these ends lies. */
const plan_stage *plan_path_stage(const plan_ends *ends,
                                  const plan_boxing *path, int32_t k);
/* Step k of a path: `box` on `stage`, or, when it crosses, `cross`. False when
 * it is none. */
typedef struct plan_path_step {
    bool crosses;
    const plan_stage *stage;
    plan_box_step box;
    plan_cross cross;
} plan_path_step;
bool plan_path_step_make(const plan_ends *ends, const plan_boxing *path,
                         int32_t k, plan_path_step *out);
/* Why the path does not lead from end to end; NULL when it does. */
const char *plan_path_wrong(const plan_ends *ends, const plan_boxing *path);

#endif
