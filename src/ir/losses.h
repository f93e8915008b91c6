/* Losses, and softmax in parts: builder calls made of ops that are legal on a
 * cut class axis. All return a tensor id (-1 after an error: see graph.h). */
#ifndef FS_IR_LOSSES_H
#define FS_IR_LOSSES_H

#include "ir/build.h"

typedef enum ir_rows_to {
    IR_ROWS_MEAN, /* over the weights of the labels that count */
    IR_ROWS_SUM,
    IR_ROWS_NONE
} ir_rows_to;

/* Labels (..) for rows (..,C), classes on the last axis. */
typedef struct ir_label_loss {
    int32_t labels;
    int32_t weights; /* (C): what a label of a class counts; -1: all alike */
    bool ignores;    /* labels that are `ignored` count nothing */
    int64_t ignored;
    ir_rows_to reduction;
} ir_label_loss;

/* log(sum(exp(x))) over a bit mask of axes, shifted by the largest. */
int32_t ir_log_sum_exp(ir_graph *g, int32_t x, uint32_t axes, bool keep);
/* Softmax, log softmax along any axis, from max, exp and sum: five passes
 * where the ops take two, for an axis that is to be cut. */
int32_t ir_softmax_parts(ir_graph *g, int32_t x, int32_t axis);
int32_t ir_log_softmax_parts(ir_graph *g, int32_t x, int32_t axis);
/* 1 at the first largest element of a row (last axis), else 0. */
int32_t ir_hardmax(ir_graph *g, int32_t x);

/* Of logits; of log probabilities (negative log likelihood). */
int32_t ir_cross_entropy_parts(ir_graph *g, int32_t logits,
                               const ir_label_loss *loss);
int32_t ir_nll(ir_graph *g, int32_t log_prob, const ir_label_loss *loss);
/* Vectors along an axis made as long as 1. */
int32_t ir_normalise(ir_graph *g, int32_t x, int32_t axis);
/* The logits of a margin softmax (ArcFace, CosFace; arXiv 1801.07698, eq. 4):
 * s cos, at the label s (cos(m1 acos(cos) + m2) - m3); margins = m1, m2, m3. */
int32_t ir_margin_logits(ir_graph *g, int32_t cosines, int32_t labels,
                         const double margins[3], double scale);

/* Means over all elements: binary cross entropy of probabilities (their
 * logarithms not below -100) and of logits, |a - b|. */
int32_t ir_bce(ir_graph *g, int32_t p, int32_t target);
int32_t ir_bce_logits(ir_graph *g, int32_t x, int32_t target);
int32_t ir_l1(ir_graph *g, int32_t a, int32_t b);
/* x brought down as told; all of it, unweighted. */
int32_t ir_reduce_loss(ir_graph *g, int32_t x, ir_rows_to reduction);

/* For the op files: rows (..,C) at input `rows`, labels (..) at `labels`. */
fs_status ir_io_need_labels(const ir_node *node, const ir_io *io, int32_t rows,
                            int32_t labels, fs_err *err);

#endif
