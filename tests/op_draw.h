/* What the generators of op_cases_<family>.c share. */
#ifndef FS_TESTS_OP_DRAW_H
#define FS_TESTS_OP_DRAW_H

#include "op_cases.h"

#include "ir/build.h"

typedef struct op_case_row {
    ir_op_kind op;
    int32_t (*build)(op_case *c);
} op_case_row;

/* The generators of each family, ended by a row without one. */
extern const op_case_row op_cases_pointwise[];
extern const op_case_row op_cases_move[];
extern const op_case_row op_cases_index[];
extern const op_case_row op_cases_sum[];
extern const op_case_row op_cases_norm[];
extern const op_case_row op_cases_attention[];
extern const op_case_row op_cases_recurrent[];
extern const op_case_row op_cases_loss[];
extern const op_case_row op_cases_window[];
extern const op_case_row op_cases_update[];
extern const op_case_row op_cases_chain[];

/* How an input is filled, kept in its tensor's init: UNIFORM mean and spread;
 * NORMAL stands for values at least 0.2 away from zero, of which a share of
 * `spread` is zero, CONSTANT for values
 * that differ by more than a finite difference's step; integers are mean plus
 * 0 .. spread - 1; bools are drawn, but CONSTANT ones are `mean` where a row of
 * the last axis begins. */
extern const ir_init op_any_real, op_positive, op_far_apart, op_not_small,
    op_some_zeros;

/* From low to high, both included. */
int64_t op_draw(op_case *c, int64_t low, int64_t high);
ir_shape op_draw_shape(op_case *c, int32_t low, int32_t high);
/* A shape that broadcasts to `wide`. */
ir_shape op_draw_narrow(op_case *c, ir_shape wide);
int32_t op_add_input(op_case *c, ir_dtype dtype, ir_shape shape, ir_init init);
int32_t op_real_input(op_case *c, ir_shape shape);
/* Of the type that a 16-bit float is computed in. */
int32_t op_wide_input(op_case *c, ir_shape shape, ir_init init);
/* i32 or i64 below `limit`. */
int32_t op_id_input(op_case *c, ir_shape shape, int64_t limit);
/* The node of c->op, from attributes and inputs. */
int32_t op_add_node(op_case *c, int32_t n_in, const int32_t *in, ir_node node);
/* i[0]=rank, i[1..]. */
void op_set_shape(ir_node *node, ir_shape shape);

#endif
