/* What losses ask about labels; a class axis may be cut: the piece says with
 * its offset which classes it holds, and what stands at another piece's label
 * is left to that piece. */
#include "config.h"

#include "kernels/indices.h"
#include "kernels/loops.h"
#include "kernels/math.h"

/* What *column is when this piece has nothing at the label. */
enum { NO_COLUMN = -1 };

/* Column of label i in a piece of n classes that starts at `first`: NO_COLUMN
 * when another piece holds it or it does not count.
 * FS_FAULT when it is no class. */
static fs_status find_column(const kernel_call *call, int32_t labels, int64_t i,
                             const kernel_arg *rows, int64_t *column,
                             fs_err *err)
{
    const ir_node *node = call->node;
    const int64_t label = kernel_index(&call->in[labels], i);
    const int32_t axis = rows->shape.rank - 1;
    *column = NO_COLUMN;
    if (node->i[1] && label == node->i[2])
        return FS_OK;
    if (label < 0 || label >= node->i[0])
        return kernel_index_fault(call, "label", labels, i, node->i[0], err);
    const int64_t at = label - rows->offset[axis];
    if (at >= 0 && at < rows->shape.dim[axis])
        *column = at;
    return FS_OK;
}

static bool counts(const kernel_call *call, int32_t labels, int64_t i)
{
    return !call->node->i[1] ||
           kernel_index(&call->in[labels], i) != call->node->i[2];
}

static fs_status no_probability(const kernel_call *call, int64_t i, double x,
                                fs_err *err)
{
    char position[KERNEL_POSITION];
    kernel_position(position, &call->in[0], i);
    return fs_fail(err, FS_FAULT,
                   "%.6g at position %s is no probability of 0 to 1 "
                   "(bce-logits takes any number)",
                   x, position);
}

#include "kernels/real_f32.h"
#include "kernels/cpu_loss.inc"

#include "kernels/real_f64.h"
#include "kernels/cpu_loss.inc"

KERNEL_REAL_CHECKED(pick);
KERNEL_REAL_CHECKED(pick_grad);
KERNEL_REAL_CHECKED(label_weight);
KERNEL_REAL_CHECKED(cross_entropy_rows);
KERNEL_REAL_CHECKED(cross_entropy_rows_grad);
KERNEL_REAL_CHECKED(margin);
KERNEL_REAL_CHECKED(margin_grad);
KERNEL_REAL_CHECKED(bce);
KERNEL_REAL(bce_grad);
