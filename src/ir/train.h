/* From a network with a loss to its training step: reverse-mode autodiff over
 * the op table, accumulation over micro-batches, optimizer ops, all as graph
 * nodes. */
#ifndef FS_IR_TRAIN_H
#define FS_IR_TRAIN_H

#include "ir/build.h"
#include "ir/compress.h"
#include "ir/precision.h"
#include "ir/rate.h"
#include "ir/samples.h"

typedef enum ir_optimizer {
#define IR_OPTIMIZER(id, ...) IR_##id,
#include "ir/optimizers.def"
#undef IR_OPTIMIZER
    IR_OPTIMIZER_COUNT
} ir_optimizer;

enum { IR_USES_MU = 1, IR_USES_BETAS = 2, IR_USES_EPSILON = 4 };

/* Negative numbers mean "the optimizer's usual one" (optimizers.def; momentum
 * 0.9; betas 0.9, 0.999). PyTorch's formulas; LAMB as in You et al. 2020
 * (arXiv 1904.00962), algorithm 2, with phi(x) = x. */
typedef struct ir_train_options {
    ir_optimizer optimizer;
    double lr, weight_decay, momentum, beta1, beta2, epsilon;
    int32_t micro_batches; /* m: gradients are summed over m runs of the graph,
                              whose inputs hold one micro-batch */
    ir_loss_terms terms;   /* of the loss, for several micro-batches, so that
                              the step's loss is that of the whole batch; none:
                              a mean over samples. Every divisor is one more
                              backward pass (loss_groups.c) */
    ir_rate rate;          /* schedule of the learning rate */
    const char *recompute; /* policy (recompute.h); NULL or "": casts alone */
    double clip_norm;      /* most global norm of the gradients; 0: any */
    ir_loss_scale loss_scale;
    ir_compress compress; /* of gradients, where they move */
    bool keep_pads;       /* leaves gradients of slices as sums of pads */
    bool keep_dead;       /* leaves nodes that nothing needs */
    const char **about;   /* NULL, or takes the field of these that a fault is
                             about ("recompute"), untouched when it is none */
} ir_train_options;

ir_train_options ir_train_defaults(void);
const char *ir_optimizer_name(ir_optimizer optimizer);
fs_status ir_optimizer_parse(const char *text, fs_err *err, ir_optimizer *out);
/* Does it keep states per element of a parameter? */
bool ir_optimizer_has_states(ir_optimizer optimizer);
/* IR_USES_...: which constants beside lr and weight decay it has. */
int ir_optimizer_uses(ir_optimizer optimizer);

/* What is appended from here on belongs to the update of variable `param`. */
void ir_enter_update(ir_graph *graph, int32_t param);
/* The scalar sum of x^2: partial where x is cut. */
int32_t ir_sum_squares(ir_graph *graph, int32_t x);

/* What the optimizer's update ops take from `o`, into their f[]; a NAN leaves
 * what stands there. */
void ir_update_values(const ir_train_options *o, double f[IR_MAX_REAL]);
/* The other way: which optimizer updates the graph's variables, and the values
 * of its nodes where `said` (NULL: nothing) has none in their place; NAN for
 * what it does not use; the graph's schedule. False: nothing is updated. */
bool ir_update_options(const ir_graph *graph, const ir_train_options *said,
                       ir_train_options *out);

/* Appends backward and update nodes to `graph` (its loss set; inputs and
 * parameters in place). Every IR_PARAM that the loss depends on gets: per
 * contribution `accumulate` (phase BACKWARD, named "NAME.grad.acc"), the sum
 * of the contributions when a parameter is used several times (tied weights;
 * phase UPDATE, tensor name "NAME.grad"; with one contribution the accumulate's
 * output has that name), optimizer state variables and the update node (phase
 * UPDATE), whose outputs are the `next` of the variables. Also marks the loss
 * as an output. A parameter the loss does not depend on is left alone (a
 * buffer). A buffer whose `next` is a tensor of the forward pass takes, after
 * the step, its mean over the micro-batches. Sets graph->micro_batches. Prunes,
 * unless told not to: tensor and node ids change, names stay. */
fs_status ir_train(ir_graph *graph, const ir_train_options *options,
                   fs_err *err);

/* Row `row` of an embedding table takes no gradient from looking it up
 * (PyTorch's padding_idx, which ONNX does not carry). Before ir_train.
 * FS_INVALID: no parameter whose rows are looked up, no row of it, another
 * row of it than before. */
fs_status ir_train_padding(ir_graph *graph, int32_t table, int64_t row,
                           fs_err *err);

/* A gradient to take: of a scalar with respect to tensors. */
typedef struct ir_derivative {
    int32_t loss;
    double seed; /* the gradient of the loss itself */
    int32_t n;
    const int32_t *wrt; /* [n] */
} ir_derivative;

/* Appends backward nodes: ids in grad[n], -1 where no gradient flows. */
fs_status ir_backward(ir_graph *graph, const ir_derivative *of, fs_err *err,
                      int32_t *grad);

#endif
