/* Rewrites of a forward network into other ops of the same value: fewer and
 * larger ones, and where told parts that can be cut in more ways.
 * Tensors that somebody asked for keep their names; nodes that nothing needs
 * any more are pruned by the last rule, `dead`. */
#ifndef FS_IR_REWRITE_H
#define FS_IR_REWRITE_H

#include "ir/build.h"

/* Each rewrite can be turned off. */
typedef struct ir_rewrite_options {
#define IR_REWRITE(name, per, usual) bool name;
#include "ir/rewrites.def"
#undef IR_REWRITE
    ir_evaluator *evaluate; /* for `fold`; NULL: nothing is folded */
} ir_rewrite_options;

ir_rewrite_options ir_rewrite_all(void);
ir_rewrite_options ir_rewrite_usual(void);
/* A list of names: "gelu,scale" are these alone, "-gelu,-scale" the usual ones
 * but for these; "all", "none" and "usual" come first and say what the rest is
 * added to and taken from. A list that contradicts itself is refused. */
fs_status ir_rewrite_parse(const char *text, fs_err *err,
                           ir_rewrite_options *out);

/* Call before ir_train, so that gradients are those of the rewritten network;
 * ids change (see ir_graph_prune). */
void ir_rewrite(ir_graph *graph, const ir_rewrite_options *options);
/* The rules for training steps, after ir_train; ids change. */
void ir_rewrite_step(ir_graph *graph, const ir_rewrite_options *options);

#endif
