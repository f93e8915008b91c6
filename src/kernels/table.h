/* The kernels that exist, declared from ops.def by class: sources and views
 * have none, contractions and attention have a oneDNN variant besides the
 * reference, products our own too. An op without its kernel is a link error
 * that names the symbol. */
#ifndef FS_KERNELS_TABLE_H
#define FS_KERNELS_TABLE_H

#include "kernels/kernel.h"

#define KERNEL_NONE(op)
#define KERNEL_CPU(op) extern const kernel kernel_cpu_##op;
#define KERNEL_CPU_DNNL(op) KERNEL_CPU(op) extern const kernel kernel_dnnl_##op;

#define KERNEL_PRODUCT(op)                                                     \
    KERNEL_CPU_DNNL(op) extern const kernel kernel_packed_##op;

#define KERNEL_OF_SOURCE(what, op) what##_NONE(op)
#define KERNEL_OF_VIEW(what, op) what##_NONE(op)
#define KERNEL_OF_MATMUL(what, op) what##_PRODUCT(op)
#define KERNEL_OF_CONV(what, op) what##_CPU_DNNL(op)
#define KERNEL_OF_ATTENTION(what, op) what##_CPU_DNNL(op)
#define KERNEL_OF_POINTWISE(what, op) what##_CPU(op)
#define KERNEL_OF_REDUCE(what, op) what##_CPU(op)
#define KERNEL_OF_GATHER(what, op) what##_CPU(op)
#define KERNEL_OF_COPY(what, op) what##_CPU(op)
#define KERNEL_OF_UPDATE(what, op) what##_CPU(op)

#define IR_OP(name, op_class) KERNEL_OF_##op_class(KERNEL, name)
#include "ir/ops.def"
#undef IR_OP

#endif
