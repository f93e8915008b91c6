/* What the rules of rewriting share: questions about the producers of a
 * tensor, and writing an op as several. */
#ifndef FS_IR_REWRITE_MATCH_H
#define FS_IR_REWRITE_MATCH_H

#include "ir/build.h"

#define IR_RULE_NODE(name) void ir_rewrite_##name(ir_graph *g, int32_t v);
#define IR_RULE_GRAPH(name) void ir_rewrite_##name(ir_graph *g);
#define IR_RULE_STEP(name) IR_RULE_GRAPH(name)
#define IR_REWRITE(name, per, usual) IR_RULE_##per(name)
#include "ir/rewrites.def"
#undef IR_REWRITE
#undef IR_RULE_NODE
#undef IR_RULE_GRAPH
#undef IR_RULE_STEP

const ir_node *ir_producer(const ir_graph *g, int32_t tensor);
/* Equal but for rounding: constants in files are f32. */
bool ir_nearly(double a, double b);
/* The value of a constant of one element. */
bool ir_match_scalar(const ir_graph *g, int32_t tensor, double *out);

/* y = factor * x + offset. */
typedef struct ir_affine {
    int32_t x;
    double factor, offset;
} ir_affine;
/* Is the tensor an affine map of another one of the same shape? */
bool ir_match_affine(const ir_graph *g, int32_t tensor, ir_affine *out);

/* Is the tensor a polynomial of x, element by element? Up to the third degree:
 * coefficients of x^0 .. x^3. */
enum { IR_DEGREE = 3 };
bool ir_match_polynomial(const ir_graph *g, int32_t tensor, int32_t x,
                         double out[IR_DEGREE + 1]);

/* Moves what copies of a block share before the first of them: what is made of
 * parameters alone and read by nodes that look alike, and those `shared` nodes
 * that need nothing but inputs and constants; NULL: none. Node ids change. */
void ir_move_shared(ir_graph *g, const bool *shared);

/* Appends what stands for outputs of a node: out[k] for output k, which others
 * then read under its name; out[k] is -1 and stays so for one that is not
 * written. read[tensor]: does anything need it? */
typedef void ir_writer(ir_graph *g, const ir_node *node, const bool *read,
                       int32_t *out);
/* Asks `write` about every node that the graph has now. */
void ir_write_apart(ir_graph *g, ir_writer *write);

#endif
