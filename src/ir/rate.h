/* Learning-rate schedules: a factor of the learning rate per step, which
 * kernels of update ops take from their node's i[1..3]. */
#ifndef FS_IR_RATE_H
#define FS_IR_RATE_H

#include "ir/graph.h"

typedef enum ir_rate_kind {
    IR_RATE_CONSTANT,
    IR_RATE_LINEAR, /* down to 0 at `steps` */
    IR_RATE_COSINE  /* likewise, along half a cosine */
} ir_rate_kind;

/* For the first `warmup` steps the factor of step s is (s + 1) / warmup; what
 * follows goes on from 1. Here s is how many steps were taken before, 0 in the
 * first; an exported file's input `step` is s + 1, the number of the step. */
typedef struct ir_rate {
    ir_rate_kind kind;
    int64_t warmup, steps; /* steps: unused by a constant rate */
} ir_rate;

/* "constant", "linear,steps=1000", "cosine,steps=1000,warmup=100"; "" is
 * constant. FS_INVALID names what is wrong. */
fs_status ir_rate_parse(const char *text, fs_err *err, ir_rate *out);
/* As it is parsed; "" of a constant rate without a warm-up. */
const char *ir_rate_text(const ir_rate *rate, fs_arena *arena);
/* Into an update op's node, and out of it. */
void ir_rate_set(ir_node *node, const ir_rate *rate);
ir_rate ir_rate_of(const ir_node *node);
/* `step`: taken before this one. */
double ir_rate_factor(const ir_node *node, int64_t step);

#endif
