/* States of the optimizer in fewer bytes. That changes numbers, so nothing is
 * narrowed unless told: an update computes in float, and what it keeps for the
 * next step is rounded, to nearest, ties to even. */
#ifndef FS_IR_NARROW_STATES_H
#define FS_IR_NARROW_STATES_H

#include "ir/graph.h"

/* A row of states.def; IR_F32 for the one that narrows nothing. */
fs_status ir_states_parse(const char *text, fs_err *err, ir_dtype *out);

/* On a training graph, last of what is done to it: states that updates keep per
 * element (op.h) and that take more bytes than `dtype` are of `dtype` from here
 * on, with all that follows from them; errors of compressed gradients and what
 * a loss scale counts are not. Returns how many it narrowed. */
int32_t ir_narrow_states(ir_graph *graph, ir_dtype dtype);

#endif
