/* Windows that slide over the one to three spatial axes behind samples and
 * channels: what convolutions and poolings share.
 *
 * Spatial axes are cut in x and y together. Windows overlap, so a device needs
 * some of its neighbours' elements: a halo (sbp.h), exchanged before the op
 * runs. Each op gathers all that its own piece of the output needs, so that no
 * output overlaps: y needs x around it, dx needs dy, dw both (and is P). How
 * wide the halo must be follows from the window and is the same for any number
 * of devices; none where windows lie side by side (patch embeddings, 1x1
 * convolutions, most poolings). A veto asks of each device whether its pieces
 * hold what it needs: cuts that do not line up (a stride that does not divide
 * the pieces alike) are refused. With groups, channels are cut between groups
 * (x S(1), w S(0), y S(1)). */
#ifndef FS_IR_WINDOW_H
#define FS_IR_WINDOW_H

#include "ir/op.h"

enum { IR_MAX_SPACE = 3 };

/* Where the attributes stand, one per spatial axis (those of axes that x does
 * not have are 0). */
enum {
    IR_WINDOW_STRIDE = 0,
    IR_WINDOW_BEFORE = 3,    /* padding */
    IR_WINDOW_AFTER = 6,     /* padding */
    IR_WINDOW_SPREAD = 9,    /* convolutions: dilation */
    IR_WINDOW_SIZE = 9,      /* poolings */
    IR_WINDOW_GROUPS = 12,   /* convolutions: one number */
    IR_WINDOW_MODE = 12,     /* poolings: ir_window_mode's bits */
    IR_WINDOW_LENGTH = 13,   /* gradients: of what they make */
    IR_WINDOW_DILATION = 13, /* largest of a window */
    IR_WINDOW_ATTRS = 16
};

enum {
    IR_WINDOW_COUNT_PAD = 1, /* averages: the padding counts */
    IR_WINDOW_SUM = 2,       /* averages: are not divided */
    IR_WINDOW_CEIL = 4,      /* a last window may hang over the edge */
    IR_WINDOW_BY_COLUMN = 8  /* indices: the first spatial axis runs fastest */
};

typedef struct ir_window {
    int32_t n; /* spatial axes */
    int64_t size[IR_MAX_SPACE], stride[IR_MAX_SPACE], dilation[IR_MAX_SPACE];
    int64_t before[IR_MAX_SPACE], after[IR_MAX_SPACE];
    bool ceil;
} ir_window;

/* Stride and padding from the node; size and dilation are the caller's. */
ir_window ir_window_read(const ir_node *node, int32_t n);
/* Input `in` has samples, channels and 1 to 3 spatial axes; stride, padding
 * and the axes at IR_WINDOW_SIZE are in range. */
fs_status ir_window_check(const ir_node *node, const ir_io *io, int32_t in,
                          fs_err *err);
/* Axes 2.. of *y from those of x; fails where a window does not fit. */
fs_status ir_window_slide(const ir_window *window, const ir_shape *x,
                          fs_err *err, ir_shape *y);

/* S(2 + k) with the halo that makes a piece of x hold what the windows of the
 * same device's piece of y reach (x and y shapes of the whole) .. */
bool ir_window_x_cut(const ir_window *window, int32_t k,
                     const ir_shape shape[2], ir_sbp *out);
/* .. and a piece of y all windows that reach the device's piece of x; `x` (or
 * NULL): all that those windows reach. False: a halo is too wide. */
bool ir_window_y_cut(const ir_window *window, int32_t k,
                     const ir_shape shape[2], ir_sbp *y, ir_sbp *x);

/* How x and y lie, and which of them is given. */
typedef struct ir_window_pieces {
    const ir_window *window;
    const ir_mesh *mesh;
    ir_shape x, y;
    const ir_nd_sbp *x_sbp, *y_sbp;
} ir_window_pieces;
/* Does each device's piece of x hold what the windows of its piece of y
 * reach? */
bool ir_window_x_holds(const ir_window_pieces *pieces);
/* Does each device's piece of y hold the windows that reach its piece of dx
 * (cut as `dx`), and, where x_sbp is not NULL, x all that these reach? */
bool ir_window_y_holds(const ir_window_pieces *pieces, const ir_nd_sbp *dx);
/* Devices along all mesh axes that cut `axis`. */
int64_t ir_window_cuts(const ir_mesh *mesh, const ir_nd_sbp *sbp, int32_t axis);

#endif
