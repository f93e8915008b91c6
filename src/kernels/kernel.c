#include "config.h"

#include "kernels/kernel.h"

#include "kernels/layout.h"
#include "kernels/table.h"
#include "kernels/tiled.h"

#include <string.h>

enum { MAX_VARIANT = 3 };

#define ROW_NONE(op) {NULL},
#define ROW_CPU(op) {&kernel_cpu_##op},
#define ROW_CPU_DNNL(op) {&kernel_dnnl_##op, &kernel_cpu_##op},
#define ROW_PRODUCT(op)                                                        \
    {&kernel_packed_##op, &kernel_dnnl_##op, &kernel_cpu_##op},

static const kernel *const variant_table[IR_OP_COUNT][MAX_VARIANT] = {
#define IR_OP(name, op_class) KERNEL_OF_##op_class(ROW, name)
#include "ir/ops.def"
#undef IR_OP
};

const kernel *const *kernel_variants(ir_op_kind op, int32_t *n)
{
    const kernel *const *row = variant_table[op];
    *n = 0;
    while (*n < MAX_VARIANT && row[*n])
        ++*n;
    return row;
}

const kernel *const *kernel_candidates(const kernel_call *shapes, int32_t *n)
{
    const kernel *const *row = kernel_variants(shapes->node->op, n);
    if (kernel_has_blocked(shapes) || kernel_is_narrow(shapes))
        *n = 0;
    return row;
}

const kernel *kernel_reference(ir_op_kind op)
{
    int32_t n;
    const kernel *const *row = kernel_variants(op, &n);
    return n > 0 ? row[n - 1] : NULL;
}

static fs_status prepare(const kernel *chosen, const kernel_call *shapes,
                         fs_err *err, void **state)
{
    *state = NULL;
    return chosen->prepare ? chosen->prepare(shapes, err, state) : FS_OK;
}

/* Of "auto": is another one to be taken? */
static bool is_passed_over(const kernel *const *row, int32_t n, int32_t i,
                           const kernel_call *shapes)
{
    bool matters = false;
    for (int32_t k = 0; k < n; k++)
        matters |= row[k]->by_place;
    if (matters && shapes->alike)
        return row[i]->by_place;
    return row[i]->pays && !row[i]->pays(shapes);
}

/* FS_NO: none of that name takes these shapes. */
static fs_status choose_variant(const kernel_call *shapes, const char *variant,
                                fs_err *err, const kernel **out, void **state)
{
    int32_t n;
    const kernel *const *row = kernel_variants(shapes->node->op, &n);
    const kernel *blocked = NULL;
    bool any = strcmp(variant, "auto") == 0;
    if (kernel_has_blocked(shapes)) {
        blocked = kernel_for_blocked(shapes);
        n = 1; /* convolutions: oneDNN's alone */
        row = blocked ? &blocked : row;
        any = true;
    }
    for (int32_t i = 0; i < n; i++) {
        if (any ? is_passed_over(row, n, i, shapes)
                : strcmp(variant, row[i]->variant) != 0)
            continue;
        fs_status status = prepare(row[i], shapes, err, state);
        if (status == FS_OK)
            *out = row[i];
        if (status != FS_NO)
            return status;
    }
    return FS_NO;
}

int64_t kernel_workspace(const kernel *k, const void *state)
{
    return k->workspace ? k->workspace(state) : 0;
}

int64_t kernel_packing(const kernel *k, const void *state)
{
    return k->packing ? k->packing(state) : 0;
}

fs_status kernel_choose(const kernel_call *shapes, const char *variant,
                        fs_err *err, const kernel **out, void **state)
{
    ir_op_kind op = shapes->node->op;
    fs_status status = choose_variant(shapes, variant, err, out, state);
    if (status != FS_NO)
        return status;
    if (kernel_is_narrow(shapes)) {
        ir_tiling tiling;
        kernel_widened_tiles(shapes, IR_TILE_BYTES, &tiling);
        FS_TRY(kernel_tiled_create(shapes, &tiling, variant, err, state));
        *out = &kernel_widened;
        return FS_OK;
    }
    return fs_fail(err, FS_INVALID,
                   "no kernel for op %s%s%s: variant '%s' does not exist or "
                   "does not take its shapes and dtypes (first input %s)",
                   ir_op_table[op]->name, shapes->node->name ? " of node " : "",
                   shapes->node->name ? shapes->node->name : "", variant,
                   shapes->n_in > 0 ? ir_dtype_name(shapes->in[0].dtype)
                                    : "none");
}
