#include "config.h"
#include "ir/tiles.h"

#include "ir/op_util.h"

bool ir_nd_sbp_is_partial(const ir_nd_sbp *sbp, const ir_mesh *mesh)
{
    for (int32_t a = 0; a < mesh->n; a++)
        if (ir_sbp_is_partial(sbp->at[a]))
            return true;
    return false;
}

/* Every piece of a tensor that is cut only where it has no longer axis before
 * lies in one stretch. */
static bool in_one_stretch(const ir_shape *whole, const ir_nd_sbp *sbp,
                           const ir_mesh *mesh)
{
    int32_t first = whole->rank;
    for (int32_t i = whole->rank - 1; i >= 0; i--)
        if (whole->dim[i] != 1)
            first = i;
    for (int32_t a = 0; a < mesh->n; a++)
        if (sbp->at[a].kind == IR_S && sbp->at[a].axis > first)
            return false;
    return true;
}

bool ir_tile_copied(const ir_shape *whole, ir_dtype dtype, const ir_nd_sbp *sbp,
                    const ir_mesh *mesh)
{
    return ir_widened_bytes(whole, dtype) > 0 ||
           ir_nd_sbp_is_partial(sbp, mesh) || !in_one_stretch(whole, sbp, mesh);
}

int64_t ir_tile_copy_bytes(const ir_shape *whole, ir_dtype dtype,
                           const ir_nd_sbp *sbp, const ir_mesh *mesh)
{
    enum { ALIGN = 64 };
    if (!ir_tile_copied(whole, dtype, sbp, mesh))
        return 0;
    const ir_shape piece = ir_largest_piece(whole, sbp, mesh);
    const ir_dtype wide =
        ir_dtype_is_float(dtype) ? ir_dtype_widened(dtype) : dtype;
    return ir_add_sat(ir_shape_bytes(&piece, wide), ALIGN - 1) / ALIGN * ALIGN;
}

/* A sum lies twice: so far, and of the tile at hand. */
static int64_t bytes_of(const ir_node *node, const ir_io *io,
                        const ir_tiling *t)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < node->n_in; i++)
        bytes =
            ir_add_sat(bytes, ir_tile_copy_bytes(&io->in[i], io->in_dtype[i],
                                                 &t->sig.in[i], &t->mesh));
    for (int32_t i = 0; i < node->n_out; i++) {
        const ir_nd_sbp *sbp = &t->sig.out[i];
        const int64_t one =
            ir_tile_copy_bytes(&io->out[i], io->out_dtype[i], sbp, &t->mesh);
        bytes = ir_add_sat(bytes, one);
        if (ir_nd_sbp_is_partial(sbp, &t->mesh))
            bytes = ir_add_sat(bytes, one);
    }
    return bytes;
}

/* Tiles stand alone and make something each: no borrowing from a neighbour, no
 * parts of sums to begin with, nothing that all tiles would make again. Only
 * floats are added up. */
static bool is_for_tiles(const ir_node *node, const ir_io *io,
                         const ir_sig *sig)
{
    for (int32_t i = 0; i < node->n_in; i++)
        if (ir_sbp_has_halo(sig->in[i]) || ir_sbp_is_partial(sig->in[i]))
            return false;
    for (int32_t i = 0; i < node->n_out; i++)
        if (sig->out[i].kind != IR_S &&
            (sig->out[i].kind != IR_PSUM ||
             ir_dtype_widened(io->out_dtype[i]) != IR_F32))
            return false;
    return true;
}

static bool makes_sums(const ir_node *node, const ir_sig *sig)
{
    for (int32_t i = 0; i < node->n_out; i++)
        if (sig->out[i].kind == IR_PSUM)
            return true;
    return false;
}

/* The tiles of a sum must follow each other: no output is cut along an axis
 * that stands behind one of its sums. */
static bool sums_stand_last(const ir_node *node, const ir_tiling *t)
{
    for (int32_t i = 0; i < node->n_out; i++) {
        bool sum = false;
        for (int32_t a = 0; a < t->mesh.n; a++) {
            const ir_sbp at = t->sig.out[i].at[a];
            if (sum && at.kind == IR_S)
                return false;
            sum |= ir_sbp_is_partial(at);
        }
    }
    return true;
}

static bool is_axis(const ir_node *node, const ir_nd_sig *nd, int32_t axis,
                    const ir_sig *sig)
{
    bool same = true;
    for (int32_t i = 0; i < node->n_in; i++)
        same &= ir_sbp_equal(nd->in[i].at[axis], sig->in[i]);
    for (int32_t i = 0; i < node->n_out; i++)
        same &= ir_sbp_equal(nd->out[i].at[axis], sig->out[i]);
    return same;
}

/* Axes from `axis` on make room for one more. */
static void insert_axis(const ir_node *node, ir_tiling *t, int32_t axis,
                        const ir_sig *sig)
{
    for (int32_t a = t->mesh.n++; a > axis; a--) {
        t->mesh.dim[a] = t->mesh.dim[a - 1];
        for (int32_t i = 0; i < node->n_in; i++)
            t->sig.in[i].at[a] = t->sig.in[i].at[a - 1];
        for (int32_t i = 0; i < node->n_out; i++)
            t->sig.out[i].at[a] = t->sig.out[i].at[a - 1];
    }
    t->mesh.dim[axis] = 1;
    for (int32_t i = 0; i < node->n_in; i++)
        t->sig.in[i].at[axis] = sig->in[i];
    for (int32_t i = 0; i < node->n_out; i++)
        t->sig.out[i].at[axis] = sig->out[i];
}

static bool cut_again(const ir_node *node, const ir_io *io, const ir_sig *sig,
                      ir_tiling *t)
{
    int32_t axis = 0;
    while (axis < t->mesh.n && !is_axis(node, &t->sig, axis, sig))
        axis++;
    if (axis == t->mesh.n) {
        if (t->mesh.n == IR_MAX_MESH)
            return false;
        axis = makes_sums(node, sig) ? t->mesh.n : 0;
        insert_axis(node, t, axis, sig);
    }
    if (t->mesh.dim[axis] > INT32_MAX / 2)
        return false;
    t->mesh.dim[axis] *= 2;
    if (!sums_stand_last(node, t) ||
        !ir_signature_fits(node, io, &t->mesh, &t->sig))
        return false;
    t->bytes = bytes_of(node, io, t);
    return true;
}

static bool halve(const ir_node *node, const ir_io *io, const ir_sig_list *list,
                  ir_tiling *tiling)
{
    ir_tiling best = *tiling;
    for (int32_t s = 0; s < list->n; s++) {
        ir_tiling next = *tiling;
        if (is_for_tiles(node, io, &list->at[s]) &&
            cut_again(node, io, &list->at[s], &next) && next.bytes < best.bytes)
            best = next;
    }
    const bool saves = best.bytes < tiling->bytes;
    *tiling = best;
    return saves;
}

void ir_tile(const ir_node *node, const ir_io *io, int64_t most, ir_tiling *out)
{
    *out = (ir_tiling){0};
    out->bytes = bytes_of(node, io, out);
    if (out->bytes <= most || ir_op_table[node->op]->picks)
        return; /* tiles would pick other elements than the whole */
    ir_sig_list list;
    fs_arena *arena = fs_arena_create();
    ir_signatures_local(node, io, arena, &list);
    while (out->bytes > most && halve(node, io, &list, out))
        ;
    fs_arena_destroy(arena);
}

/* ---- where everything lies ---- */

static bool is_cut(const ir_nd_sbp *sbp, const ir_mesh *mesh)
{
    for (int32_t a = 0; a < mesh->n; a++)
        if (sbp->at[a].kind == IR_S)
            return true;
    return false;
}

/* Bytes of the operand that each tile has for itself, and that all read. */
static void count_bytes(const ir_shape *whole, ir_dtype dtype,
                        const ir_nd_sbp *sbp, const ir_mesh *mesh, int64_t *own,
                        int64_t *shared)
{
    const ir_shape piece = ir_largest_piece(whole, sbp, mesh);
    int64_t *into = is_cut(sbp, mesh) ? own : shared;
    *into = ir_add_sat(*into, ir_shape_bytes(&piece, dtype));
}

static void weigh(const ir_node *node, const ir_io *io, const ir_tiling *t,
                  int64_t *own, int64_t *shared)
{
    *own = *shared = 0;
    for (int32_t i = 0; i < node->n_in; i++)
        count_bytes(&io->in[i], io->in_dtype[i], &t->sig.in[i], &t->mesh, own,
                    shared);
    for (int32_t i = 0; i < node->n_out; i++)
        count_bytes(&io->out[i], io->out_dtype[i], &t->sig.out[i], &t->mesh,
                    own, shared);
}

static bool halve_in_place(const ir_node *node, const ir_io *io,
                           const ir_sig_list *list, ir_tiling *tiling)
{
    ir_tiling best = {0};
    int64_t own, shared, least = INT64_MAX;
    for (int32_t s = 0; s < list->n; s++) {
        ir_tiling next = *tiling;
        if (!is_for_tiles(node, io, &list->at[s]) ||
            !cut_again(node, io, &list->at[s], &next) || next.bytes > 0)
            continue;
        weigh(node, io, &next, &own, &shared);
        if (own < shared || shared >= least)
            continue;
        least = shared;
        best = next;
    }
    if (least < INT64_MAX)
        *tiling = best;
    return least < INT64_MAX;
}

void ir_tile_in_place(const ir_node *node, const ir_io *io, int32_t most,
                      ir_tiling *out)
{
    *out = (ir_tiling){0};
    if (most < 2 || bytes_of(node, io, out) > 0 || ir_op_table[node->op]->picks)
        return;
    ir_sig_list list;
    fs_arena *arena = fs_arena_create();
    ir_signatures_local(node, io, arena, &list);
    while (ir_mesh_size(&out->mesh) <= most / 2 &&
           halve_in_place(node, io, &list, out))
        ;
    fs_arena_destroy(arena);
}
