#include "config.h"

#include "plan/boxing.h"

/* ---- the table of steps ---- */

typedef enum sbp_class {
    CLASS_B,
    CLASS_S,
    CLASS_H,
    CLASS_C,
    CLASS_N,
    CLASS_R,
    CLASS_P,
    CLASS_X
} sbp_class;

typedef struct box_row {
    plan_box_kind kind;
    const char *name;
    sbp_class from, to;
    bool collective;
} box_row;

static const box_row box_table[PLAN_BOX_KINDS] = {
#define PLAN_BOX(id, name, from, to, collective)                               \
    [id] = {id, name, CLASS_##from, CLASS_##to, collective},
#include "plan/boxing.def"
#undef PLAN_BOX
};

const char *plan_box_name(plan_box_kind kind)
{
    return box_table[kind].name;
}

bool plan_box_is_collective(plan_box_kind kind)
{
    return box_table[kind].collective;
}

bool plan_box_fuses(plan_box_kind kind)
{
    return kind == PLAN_ALL_REDUCE || kind == PLAN_ALL_GATHER ||
           kind == PLAN_REDUCE_SCATTER;
}

const char *plan_axes_text(uint32_t axes, fs_arena *arena)
{
    fs_text text = {.arena = arena};

    for (int32_t a = 0; a < 32; a++)
        if (axes >> a & 1)
            fs_text_add(&text, "%s%d", text.n ? "," : "", a);
    return text.at ? text.at : "none";
}

/* The classes that an SBP is of, a bit each. */
static uint32_t classes_of(ir_sbp sbp)
{
    const bool halo = ir_sbp_has_halo(sbp), split = sbp.kind == IR_S;
    const bool whole = sbp.kind == IR_B, plain = split && !halo;
    return (uint32_t)whole << CLASS_B | (uint32_t)plain << CLASS_S |
           (uint32_t)halo << CLASS_H | (uint32_t)split << CLASS_C |
           (uint32_t)(whole || plain) << CLASS_N |
           (uint32_t)ir_sbp_is_partial(sbp) << CLASS_R |
           (uint32_t)(sbp.kind == IR_PSUM) << CLASS_P |
           (uint32_t)ir_sbp_is_extreme(sbp) << CLASS_X;
}

uint32_t plan_box_rows(ir_sbp from, ir_sbp to)
{
    const uint32_t of = classes_of(from), wanted = classes_of(to);
    uint32_t rows = 0;

    for (int32_t k = 0; k < PLAN_BOX_KINDS; k++) {
        const box_row *row = &box_table[k];
        rows |= (of >> row->from & wanted >> row->to & 1) << k;
        if (row->to == CLASS_H && !ir_sbp_same_cut(from, to))
            rows &= ~((uint32_t)1 << k);
    }
    return rows;
}

static bool fits_row(const box_row *row, ir_sbp from, ir_sbp to)
{
    return plan_box_rows(from, to) >> row->kind & 1;
}

static uint32_t changed_axes(const ir_nd_sbp *from, const ir_nd_sbp *to,
                             int32_t n_axes)
{
    uint32_t axes = 0;

    for (int32_t a = 0; a < n_axes; a++)
        axes |= (uint32_t)!ir_sbp_equal(from->at[a], to->at[a]) << a;
    return axes;
}

/* The first row that fits every axis of `axes`, or NULL. */
static const box_row *find_row(const ir_nd_sbp *from, const ir_nd_sbp *to,
                               uint32_t axes)
{
    uint32_t rows = ((uint32_t)1 << PLAN_BOX_KINDS) - 1;

    for (int32_t a = 0; rows && a < IR_MAX_MESH; a++)
        if (axes >> a & 1)
            rows &= plan_box_rows(from->at[a], to->at[a]);
    return rows ? &box_table[__builtin_ctz(rows)] : NULL;
}

/* Partial values that are reduced are of one kind; and different reductions do
 * not commute: the later axis is the inner one and is reduced first. */
static bool reduces_in_order(const ir_nd_sbp *sbp, int32_t n_axes,
                             uint32_t axes)
{
    for (int32_t a = 0; a < n_axes; a++)
        for (int32_t b = a + 1; b < n_axes; b++)
            if ((axes >> a & 1) && ir_sbp_is_partial(sbp->at[a]) &&
                ir_sbp_is_partial(sbp->at[b]) &&
                sbp->at[a].kind != sbp->at[b].kind)
                return false;
    return true;
}

static bool one_reduction(const ir_nd_sbp *sbp, uint32_t axes)
{
    uint32_t kinds = 0;

    for (int32_t a = 0; a < IR_MAX_MESH; a++)
        if (axes >> a & 1)
            kinds |= (uint32_t)1 << sbp->at[a].kind;
    return (kinds & (kinds - 1)) == 0;
}

/* Reductions are of types that compute: not of flags, nor of narrow numbers.
 * What is padded has one value to pad with, that of a float: the ends of whole
 * numbers would wrap where they are added up along another axis. */
static bool may_become_partial(const box_row *row, const ir_tensor *tensor,
                               const ir_nd_sbp *to, uint32_t axes)
{
    if (row->to != CLASS_P && row->to != CLASS_X)
        return true;
    if (tensor->dtype == IR_BOOL || !ir_dtype_computes(tensor->dtype))
        return false;
    return row->kind != PLAN_PAD ||
           (ir_dtype_is_float(tensor->dtype) && one_reduction(to, axes));
}

static int64_t piece_bytes(const ir_tensor *tensor, const ir_mesh *mesh,
                           const ir_nd_sbp *sbp)
{
    ir_shape local = ir_largest_piece(&tensor->shape, sbp, mesh);

    return ir_shape_count(&local) * ir_dtype_bytes(tensor->dtype);
}

plan_exchange plan_box_exchange(const ir_tensor *tensor, const ir_mesh *mesh,
                                const ir_nd_sbp *from, const ir_nd_sbp *to)
{
    return (plan_exchange){.shape = tensor->shape,
                           .from_mesh = *mesh,
                           .to_mesh = *mesh,
                           .from = *from,
                           .to = *to};
}

static bool mesh_has(const ir_mesh *mesh, uint32_t axes)
{
    for (int32_t a = 0; a < mesh->n; a++)
        if ((axes >> a & 1) && mesh->dim[a] < 2)
            return false;
    return axes != 0;
}

/* The row of a step, found by the axes that change, whose ranks deal with each
 * other along `dealing`. Where those are not just these, pieces are cut anew
 * under them. */
static const box_row *row_of(const box_row *row, const ir_nd_sbp *from,
                             const ir_nd_sbp *to, uint32_t changed,
                             uint32_t dealing)
{
    const box_row *reslice = &box_table[PLAN_RESLICE];

    if (dealing == (row->collective ? changed : 0))
        return row;
    for (int32_t a = 0; a < IR_MAX_MESH; a++)
        if (((changed | dealing) >> a & 1) &&
            !fits_row(reslice, from->at[a], to->at[a]))
            return NULL;
    return reslice;
}

bool plan_box_step_make(const ir_tensor *tensor, const ir_mesh *mesh,
                        const ir_nd_sbp *from, const ir_nd_sbp *to,
                        plan_box_step *out)
{
    const uint32_t changed = changed_axes(from, to, mesh->n);
    const box_row *row =
        mesh_has(mesh, changed) ? find_row(from, to, changed) : NULL;

    if (row == NULL) /* most pairs are no step: before anything dear */
        return false;
    const plan_exchange x = plan_box_exchange(tensor, mesh, from, to);
    const uint32_t dealing = plan_exchange_axes(&x);
    row = row_of(row, from, to, changed, dealing);
    if (row == NULL)
        return false;
    if (!may_become_partial(row, tensor, to, changed) ||
        !reduces_in_order(from, mesh->n, changed) ||
        !ir_nd_sbp_fits(from, &tensor->shape, mesh) ||
        !ir_nd_sbp_fits(to, &tensor->shape, mesh))
        return false;
    *out = (plan_box_step){.kind = row->kind,
                           .axes = row->collective ? dealing : changed,
                           .from = *from,
                           .to = *to,
                           .bytes_in = piece_bytes(tensor, mesh, from),
                           .bytes_out = piece_bytes(tensor, mesh, to),
                           .element_bytes =
                               (int32_t)ir_dtype_bytes(tensor->dtype)};
    return true;
}

/* The largest share of the sum that one of n ranks folds. */
static int64_t share_bytes(const plan_box_step *step, int64_t size, int64_t n)
{
    return step->kind == PLAN_ALL_REDUCE
               ? (step->bytes_in / size + n - 1) / n * size
               : step->bytes_out;
}

int64_t plan_box_scratch(const ir_tensor *tensor, const ir_mesh *mesh,
                         const plan_box_step *step)
{
    const int64_t size = ir_dtype_bytes(tensor->dtype);
    int64_t n = 1;
    if (step->kind != PLAN_ALL_REDUCE && step->kind != PLAN_REDUCE_SCATTER)
        return 0;
    for (int32_t a = 0; a < mesh->n; a++)
        n *= step->axes >> a & 1 ? mesh->dim[a] : 1;
    const int64_t all = (n - 1 + (size == 2)) * share_bytes(step, size, n);
    /* with fewer elements than ranks each folds all, as it comes */
    const int64_t few =
        2 * (step->bytes_in < n * size ? step->bytes_in : n * size);
    return all > few ? all : few;
}
