/* Who gives what to whom when a tensor changes how it lies: from an SBP on one
 * mesh to an SBP on the same mesh or on another. Everything that moves bytes is
 * such an exchange: all-gather, all-to-all, reduce-scatter, halo, slice, the
 * move to another stage, re-slicing over several mesh axes at once. Boxes are
 * in coordinates of the logical tensor, positions those of row-major meshes.
 *
 * Partial values whose mesh axis is no longer partial are folded by the
 * receiver, in ascending order of position, so that the bits do not depend on
 * arrival. Of equal copies (B) a receiver takes its own; on another mesh that
 * whose place is nearest in proportion. What stays partial on another mesh goes
 * from position to position: the meshes are equal then. */
#ifndef FS_PLAN_EXCHANGE_H
#define FS_PLAN_EXCHANGE_H

#include "ir/sbp.h"

typedef struct plan_exchange {
    ir_shape shape;
    ir_mesh from_mesh, to_mesh;
    ir_nd_sbp from, to;
    bool moves; /* the meshes are different devices */
} plan_exchange;

/* A box that `position` gives or takes. */
typedef struct plan_share {
    int32_t position;
    ir_piece box;
} plan_share;
typedef FS_VEC(plan_share) plan_shares;

/* What position `me` of the receiving mesh takes from which positions of the
 * sending one, ascending; itself among them. Elements that nobody gives are
 * plan_exchange_fills'. */
void plan_exchange_takes(const plan_exchange *x, int32_t me, fs_arena *arena,
                         plan_shares *out);
/* What position `me` of the sending mesh gives to which of the receiving one,
 * ascending. */
void plan_exchange_gives(const plan_exchange *x, int32_t me, fs_arena *arena,
                         plan_shares *out);
/* The mesh axes along which positions deal with others, a bit each; of
 * exchanges on one mesh. */
uint32_t plan_exchange_axes(const plan_exchange *x);
/* The reduction that receivers do: a P kind, or IR_B when there is none. */
ir_sbp_kind plan_exchange_folds(const plan_exchange *x);
/* Partial values made of what is whole or cut: elements that nobody gives are
 * the neutral one of this reduction; IR_B when there are none. */
ir_sbp_kind plan_exchange_fills(const plan_exchange *x);
/* Elements that change devices, over all positions. */
int64_t plan_exchange_moved(const plan_exchange *x);

#endif
