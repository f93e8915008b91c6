/* Kernels of an op that has several, each timed alone on pieces of the same
 * shapes. */
#ifndef FS_HW_VARIANTS_H
#define FS_HW_VARIANTS_H

#include <stdint.h>

typedef struct hw_variant {
    const char *what, *name;           /* the op; the kernel's: "packed" */
    uint64_t form;                     /* ir_node_form */
    double work, seconds, deviation_s; /* as of a hw_point */
    int32_t count;
} hw_variant;

struct hw_device;
/* Those of this form of an op, the fastest first. */
const hw_variant *hw_variants_of(const struct hw_device *device,
                                 const char *what, uint64_t form, int32_t *n);
/* By what, then form, then seconds. */
void hw_variants_sort(struct hw_device *device);

#endif
