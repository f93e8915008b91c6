/* The variant of every op for 16-bit floats: its float inputs are widened into
 * scratch, the kernel for floats runs, and what it makes is rounded to nearest,
 * ties to even. Sums and contractions so run in float. Large operands are
 * widened tile by tile (ir/tiles.h). */
#ifndef FS_KERNELS_WIDENED_H
#define FS_KERNELS_WIDENED_H

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
 * that variant for floats. FS_INVALID when there is none. */
fs_status kernel_widened_create(const kernel_call *shapes,
                                const ir_tiling *tiling, const char *variant,
                                fs_err *err, void **state);

#endif
