/* Reverse mode, as ir_backward and ir_train both need it. Internal to ir. */
#ifndef FS_IR_BACKWARD_H
#define FS_IR_BACKWARD_H

#include "ir/build.h"

typedef FS_VEC(int32_t) ir_id_list;

/* Takes a contribution to the gradient of variable `wrt` as it arises; returns
 * the tensor to keep in its place. */
typedef int32_t ir_part_fn(ir_graph *graph, int32_t wrt, int32_t part);

/* Appends backward nodes for loss with respect to the variables wrt[n] and
 * lists the contributions of each in parts[n], not summed. */
fs_status ir_backward_parts(ir_graph *graph, int32_t loss, double seed,
                            const int32_t *wrt, int32_t n, ir_part_fn *part,
                            fs_err *err, ir_id_list *parts);

#endif
