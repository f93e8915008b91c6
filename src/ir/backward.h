/* Reverse mode, as ir_backward and ir_train both need it. Internal to ir. */
#ifndef FS_IR_BACKWARD_H
#define FS_IR_BACKWARD_H

#include "ir/train.h"

typedef FS_VEC(int32_t) ir_id_list;

/* Takes a contribution to the gradient of variable `wrt` as it arises; returns
 * the tensor to keep in its place. */
typedef int32_t ir_part_fn(ir_graph *graph, int32_t wrt, int32_t part);

/* As ir_backward with respect to variables, but lists the contributions to
 * each in parts[n], not summed. */
fs_status ir_backward_parts(ir_graph *graph, const ir_derivative *of,
                            ir_part_fn *part, fs_err *err, ir_id_list *parts);

#endif
