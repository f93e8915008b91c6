/* Windows that slide over the one to three spatial axes behind samples and
 * channels: what convolutions and poolings share.
 *
 * Spatial axes are cut where windows lie side by side (they reach no further
 * than the stride, no padding, x as long as stride times y: patch embeddings,
 * 1x1 convolutions, most poolings); a veto keeps the cuts between windows.
 * With groups, channels are cut between groups (x S(1), w S(0), y S(1)).
 *
 * Where windows overlap a device needs reach - stride rows of its neighbours: a
 * halo. Pieces of an SBP do not overlap, so a halo is no signature of the op.
 * It would take an op before the window whose pieces are longer by the rows
 * borrowed (zeros at the outer edges), an exchange between neighbours as its
 * boxing, a gradient that adds the borrowed rows' back, and windows without
 * padding on that axis; pieces shorter than the halo stay illegal. Without it
 * x B, y S(2) and x S(2), y P are sound and not listed: they cost a whole
 * tensor. */
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

/* Do the windows on spatial axis k lie side by side, without padding? Then x
 * and y may be cut together, if the cuts fall between windows. */
bool ir_window_tiles(const ir_window *window, int32_t k, const ir_shape *x,
                     const ir_shape *y);
/* Do the cuts of input 0 along the spatial axes fall between windows? `y` is
 * the shape that has one element per window. */
bool ir_window_cuts_between(const ir_node *node, const ir_shape *y,
                            const ir_mesh *mesh, const ir_nd_sbp *sbp);
/* Devices along all mesh axes that cut `axis`. */
int64_t ir_window_cuts(const ir_mesh *mesh, const ir_nd_sbp *sbp, int32_t axis);

#endif
