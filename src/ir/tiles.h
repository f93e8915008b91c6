/* Tiles: an op worked off on one device piece by piece, so that float copies of
 * 16-bit operands take little room however large those are. What may be cut is
 * what its signatures say may be cut: a tile is the piece of one device of a
 * mesh that does not exist, and one device is all of them in turn. Where a
 * signature leaves a sum (P), the tiles along that axis are added up. An op
 * that picks by what it holds (ir_op.picks) is done at once. */
#ifndef FS_IR_TILES_H
#define FS_IR_TILES_H

#include "ir/op.h"

/* What the copies of a tile may take; a larger tile gains no speed. */
enum { IR_TILE_BYTES = 4 << 20 };

typedef struct ir_tiling {
    ir_mesh mesh; /* 0 axes: the whole at once; axes of sums stand last */
    ir_nd_sig sig;
    int64_t bytes; /* of the copies that a tile needs */
} ir_tiling;

/* Halves tiles along the signature that saves most until the copies fit in
 * `most` bytes, or no signature saves any. io: shapes and types on the device.
 */
void ir_tile(const ir_node *node, const ir_io *io, int64_t most,
             ir_tiling *out);

/* Halves tiles along the signature that cuts most of the bytes, until there are
 * `most` or no signature is left: of those under which all that is cut lies in
 * one stretch a tile, no sum is left, and tiles have more bytes of their own
 * than they all read. Of 16-bit floats that are widened: the whole at once. */
void ir_tile_in_place(const ir_node *node, const ir_io *io, int32_t most,
                      ir_tiling *out);

/* Does a tile of such an operand lie in a copy? Not a float that lies in one
 * piece; always what is a sum. */
bool ir_tile_copied(const ir_shape *whole, ir_dtype dtype, const ir_nd_sbp *sbp,
                    const ir_mesh *mesh);
/* Bytes of its copy in the type it is computed in, in multiples of 64. */
int64_t ir_tile_copy_bytes(const ir_shape *whole, ir_dtype dtype,
                           const ir_nd_sbp *sbp, const ir_mesh *mesh);
bool ir_nd_sbp_is_partial(const ir_nd_sbp *sbp, const ir_mesh *mesh);

#endif
