/* One element of a tensor of any type, for what is not worth a kernel: folded
 * constants, first values, tests. Values that a type cannot hold saturate,
 * NaN becomes the least integer; anything but 0 is true. */
#ifndef FS_IR_ELEMENT_H
#define FS_IR_ELEMENT_H

#include "ir/tensor.h"

double ir_element_real(ir_dtype dtype, const void *data, int64_t at);
int64_t ir_element_int(ir_dtype dtype, const void *data, int64_t at);
void ir_element_set_real(ir_dtype dtype, void *data, int64_t at, double value);
/* Integers keep their low bits, as a cast does in C. */
void ir_element_set_int(ir_dtype dtype, void *data, int64_t at, int64_t value);

/* A real as an integer: C leaves out of range and NaN undefined. */
int64_t ir_saturate(double x);

#endif
