/* A kernel worked off in tiles, which are calls of their own (ir/tiles.h). The
 * variant of every op for 16-bit floats: its float inputs are widened into
 * scratch, the kernel for floats runs, and what it makes is rounded to nearest,
 * ties to even. Sums and contractions so run in float; large operands are
 * widened tile by tile. And of a kernel that takes long without a rest. */
#ifndef FS_KERNELS_TILED_H
#define FS_KERNELS_TILED_H

#include "ir/tiles.h"
#include "kernels/kernel.h"

extern const kernel kernel_widened;

/* Does a call have operands to widen? */
bool kernel_is_narrow(const kernel_call *shapes);
/* The tiles of which none takes more than `most` bytes of scratch, where the
 * op's signatures allow it. */
void kernel_widened_tiles(const kernel_call *shapes, int64_t most,
                          ir_tiling *out);
/* State for kernel_widened on these shapes and tiles, around the best kernel of
 * that variant for the tiles. FS_INVALID when there is none. */
fs_status kernel_tiled_create(const kernel_call *shapes,
                              const ir_tiling *tiling, const char *variant,
                              fs_err *err, void **state);

/* Puts a kernel in the place of a chosen one that takes long and does not rest:
 * it does the same in at most so many tiles, which lie where the operands lie
 * (ir_tile_in_place), and rests between them. The chosen one stays where
 * nothing can be cut, or where its variant does not take a tile. */
void kernel_rest_between(const kernel_call *shapes, int32_t most,
                         const kernel **k, void **state);

#endif
