/* Rings and ways over the wires of a node (HW_WIRED_LINKS). */
#ifndef FS_HW_WIRES_H
#define FS_HW_WIRES_H

#include "hw/inside.h"

/* As hw_ring_share. */
hw_share hw_wires_rings(const hw_wiring *wiring, const hw_sets *sets,
                        double *load);
/* x, such that each transfer moves x times its bytes in a second. Each goes by
 * the ways of fewest wires, split among them as is best for all; where that
 * would be too much to solve, by the first of them. */
hw_share hw_wires_ways(const hw_wiring *wiring, const hw_transfer *transfers,
                       int32_t n);

#endif
