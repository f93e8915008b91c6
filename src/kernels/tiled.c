#include "config.h"

#include "kernels/tiled.h"

#include "kernels/loops.h"

#include <stdlib.h>
#include <string.h>

/* The kernel for tiles of one shape; uneven cuts have several. */
typedef struct tile_kernel {
    kernel_call shapes;
    const kernel *inner;
    void *state;
} tile_kernel;

typedef struct tiled {
    ir_tiling tiling;
    int32_t n;
    tile_kernel *of; /* [n] */
} tiled;

/* One operand: as it lies, whole, and where a tile of it lies. */
typedef struct operand {
    const kernel_arg *whole;
    const ir_nd_sbp *sbp;
    bool copied, sum;
    char
        *copy; /* of the tile, in scratch; of a sum: behind it what is so far */
    int64_t copy_bytes;
} operand;

typedef struct tiler {
    const kernel_call *call;
    const ir_tiling *tiling;
    int32_t tile;
    int32_t coords[IR_MAX_MESH], before[IR_MAX_MESH];
    operand in[IR_MAX_IN], out[IR_MAX_OUT];
} tiler;

static bool is_narrow(const kernel_arg *arg)
{
    return ir_widened_bytes(&arg->shape, arg->dtype) > 0;
}

bool kernel_is_narrow(const kernel_call *shapes)
{
    bool narrow = false;
    for (int32_t i = 0; i < shapes->n_in; i++)
        narrow |= is_narrow(&shapes->in[i]);
    for (int32_t i = 0; i < shapes->n_out; i++)
        narrow |= is_narrow(&shapes->out[i]);
    return narrow;
}

static ir_io io_of(const kernel_call *shapes)
{
    ir_io io = {0};
    for (int32_t i = 0; i < shapes->n_in; i++) {
        io.in[i] = shapes->in[i].shape;
        io.in_dtype[i] = shapes->in[i].dtype;
    }
    for (int32_t i = 0; i < shapes->n_out; i++) {
        io.out[i] = shapes->out[i].shape;
        io.out_dtype[i] = shapes->out[i].dtype;
    }
    return io;
}

void kernel_widened_tiles(const kernel_call *shapes, int64_t most,
                          ir_tiling *out)
{
    const ir_io io = io_of(shapes);
    ir_tile(shapes->node, &io, most, out);
}

/* ---- where tiles lie ---- */

/* Returns where the next operand's copy lies. */
static char *lay_out(const kernel_arg *arg, const ir_nd_sbp *sbp,
                     const ir_mesh *mesh, char *scratch, operand *out)
{
    *out = (operand){.whole = arg, .sbp = sbp, .copy = scratch};
    out->sum = ir_nd_sbp_is_partial(sbp, mesh);
    out->copied = ir_tile_copied(&arg->shape, arg->dtype, sbp, mesh);
    out->copy_bytes = ir_tile_copy_bytes(&arg->shape, arg->dtype, sbp, mesh);
    return scratch ? scratch + out->copy_bytes * (out->sum ? 2 : 1) : NULL;
}

/* Returns where the scratch of the tiles' kernel lies. */
static char *begin(tiler *t, const kernel_call *call, const ir_tiling *tiling)
{
    char *scratch = call->scratch;
    *t = (tiler){.call = call, .tiling = tiling};
    for (int32_t i = 0; i < call->n_in; i++)
        scratch = lay_out(&call->in[i], &tiling->sig.in[i], &tiling->mesh,
                          scratch, &t->in[i]);
    for (int32_t i = 0; i < call->n_out; i++)
        scratch = lay_out(&call->out[i], &tiling->sig.out[i], &tiling->mesh,
                          scratch, &t->out[i]);
    return scratch;
}

static int64_t first_element(const ir_shape *whole, const int64_t *offset)
{
    int64_t stride[IR_MAX_RANK], at = 0;
    kernel_strides(whole, stride);
    for (int32_t i = 0; i < whole->rank; i++)
        at += offset[i] * stride[i];
    return at;
}

/* What the kernel of tiles sees of an operand. */
static kernel_arg tile_of(const tiler *t, const operand *o)
{
    kernel_arg tile = *o->whole;
    int64_t offset[IR_MAX_RANK];
    ir_local_piece(&o->whole->shape, o->sbp, &t->tiling->mesh, t->coords,
                   &tile.shape, offset);
    for (int32_t i = 0; i < tile.shape.rank; i++)
        tile.offset[i] += offset[i];
    if (o->copied && ir_dtype_is_float(tile.dtype))
        tile.dtype = ir_dtype_widened(tile.dtype);
    if (o->copied)
        tile.data = o->copy;
    else if (tile.data)
        tile.data =
            (char *)tile.data + first_element(&o->whole->shape, offset) *
                                    ir_dtype_bytes(o->whole->dtype);
    return tile;
}

static kernel_call tile_call(const tiler *t, char *scratch)
{
    kernel_call tile = *t->call;
    for (int32_t i = 0; i < tile.n_in; i++)
        tile.in[i] = tile_of(t, &t->in[i]);
    for (int32_t i = 0; i < tile.n_out; i++)
        tile.out[i] = tile_of(t, &t->out[i]);
    tile.scratch = scratch;
    return tile;
}

/* ---- between the tile and the whole ---- */

/* By rows that go on in both; single elements where the last axis is cut to
 * one. */
static void transfer(const operand *o, const kernel_arg *tile, char *copy,
                     bool store)
{
    int64_t stride[KERNEL_MAX_OPERAND][IR_MAX_RANK], offset[IR_MAX_RANK];
    kernel_strides(&tile->shape, stride[0]);
    kernel_strides(&o->whole->shape, stride[1]);
    for (int32_t i = 0; i < tile->shape.rank; i++)
        offset[i] = tile->offset[i] - o->whole->offset[i];
    const kernel_loop loop = kernel_loop_make(&tile->shape, 2, stride);
    const int64_t wide = ir_dtype_bytes(tile->dtype);
    const int64_t own = ir_dtype_bytes(o->whole->dtype);
    const int64_t step = kernel_step(&loop, 1), length = kernel_row(&loop);
    const int64_t n = step == 1 ? length : 1;
    char *whole =
        (char *)o->whole->data + first_element(&o->whole->shape, offset) * own;
    kernel_walk w = {0};
    do
        for (int64_t k = 0; k < length; k += n) {
            char *here = copy + (w.at[0] + k) * wide;
            char *there = whole + (w.at[1] + k * step) * own;
            if (store)
                kernel_convert(there, o->whole->dtype, here, tile->dtype, n);
            else
                kernel_convert(here, tile->dtype, there, o->whole->dtype, n);
        }
    while (kernel_next(&loop, &w));
}

/* Is the tile of an operand another than that before? */
static bool is_new(const tiler *t, const operand *o)
{
    bool changed = t->tile == 0;
    for (int32_t a = 0; a < t->tiling->mesh.n; a++)
        changed |= o->sbp->at[a].kind == IR_S && t->coords[a] != t->before[a];
    return changed;
}

/* First or last of the tiles that a sum is made of, which follow each other. */
static bool at_end(const tiler *t, const operand *o, bool last)
{
    bool end = true;
    for (int32_t a = 0; a < t->tiling->mesh.n; a++)
        if (ir_sbp_is_partial(o->sbp->at[a]))
            end &= t->coords[a] == (last ? t->tiling->mesh.dim[a] - 1 : 0);
    return end;
}

/* Adds a tile to what is so far; stores it after the last. */
static void add_up(const tiler *t, const operand *o, const kernel_arg *tile)
{
    const int64_t n = ir_shape_count(&tile->shape);
    const float *part = tile->data;
    float *sum = (float *)(void *)(o->copy + o->copy_bytes);
    if (at_end(t, o, false))
        memcpy(sum, part, (size_t)n * sizeof *sum);
    else
        for (int64_t i = 0; i < n; i++)
            sum[i] += part[i];
    if (at_end(t, o, true))
        transfer(o, tile, (char *)sum, true);
}

static void fetch(const tiler *t, const kernel_call *tile, bool keeps)
{
    for (int32_t i = 0; i < tile->n_in; i++)
        if (t->in[i].copied && is_new(t, &t->in[i]))
            transfer(&t->in[i], &tile->in[i], tile->in[i].data, false);
    for (int32_t i = 0; keeps && i < tile->n_out; i++)
        if (t->out[i].copied)
            transfer(&t->out[i], &tile->out[i], tile->out[i].data, false);
}

static void store(const tiler *t, const kernel_call *tile)
{
    for (int32_t i = 0; i < tile->n_out; i++)
        if (t->out[i].sum)
            add_up(t, &t->out[i], &tile->out[i]);
        else if (t->out[i].copied)
            transfer(&t->out[i], &tile->out[i], tile->out[i].data, true);
}

/* ---- kernels ---- */

static bool same_shapes(const kernel_call *a, const kernel_call *b)
{
    for (int32_t i = 0; i < a->n_in; i++)
        if (!ir_shape_equal(&a->in[i].shape, &b->in[i].shape))
            return false;
    for (int32_t i = 0; i < a->n_out; i++)
        if (!ir_shape_equal(&a->out[i].shape, &b->out[i].shape))
            return false;
    return true;
}

/* A call that is not cut may come in other shapes than it was prepared for
 * (chains have a shorter last tile). */
static tile_kernel *kernel_of(const tiled *w, const kernel_call *tile)
{
    for (int32_t k = 0; k < w->n; k++)
        if (w->tiling.mesh.n == 0 || same_shapes(&w->of[k].shapes, tile))
            return &w->of[k];
    return NULL;
}

static fs_status add_kernel(tiled *w, const kernel_call *tile,
                            const char *variant, fs_err *err)
{
    tile_kernel made = {.shapes = *tile};
    FS_TRY(kernel_choose(tile, variant, err, &made.inner, &made.state));
    tile_kernel *of = realloc(w->of, (size_t)(w->n + 1) * sizeof *of);
    if (!of) {
        if (made.inner->release && made.state)
            made.inner->release(made.state);
        return fs_fail(err, FS_FAULT, "out of memory for a kernel");
    }
    w->of = of;
    w->of[w->n++] = made;
    return FS_OK;
}

static void release(void *state)
{
    tiled *w = state;
    for (int32_t k = 0; k < w->n; k++)
        if (w->of[k].inner->release && w->of[k].state)
            w->of[k].inner->release(w->of[k].state);
    free(w->of);
    free(w);
}

fs_status kernel_tiled_create(const kernel_call *shapes,
                              const ir_tiling *tiling, const char *variant,
                              fs_err *err, void **state)
{
    fs_status status = FS_OK;
    tiler t;
    tiled *w = calloc(1, sizeof *w);
    if (!w)
        return fs_fail(err, FS_FAULT, "out of memory for a kernel");
    w->tiling = *tiling;
    begin(&t, shapes, &w->tiling);
    for (; status == FS_OK && t.tile < ir_mesh_size(&tiling->mesh); t.tile++) {
        ir_mesh_coords(&tiling->mesh, t.tile, t.coords);
        const kernel_call tile = tile_call(&t, NULL);
        if (!kernel_of(w, &tile))
            status = add_kernel(w, &tile, variant, err);
    }
    if (status == FS_OK)
        *state = w;
    else
        release(w);
    return status;
}

/* The copies, and what the reference needs behind them. */
static int64_t scratch_bytes(const kernel_call *shapes)
{
    const kernel *reference = kernel_reference(shapes->node->op);
    ir_tiling tiling;
    tiler t;
    kernel_widened_tiles(shapes, IR_TILE_BYTES, &tiling);
    begin(&t, shapes, &tiling);
    const kernel_call tile = tile_call(&t, NULL);
    return tiling.bytes + (reference->scratch ? reference->scratch(&tile) : 0);
}

/* Kernels run one at a time: the most that one of them takes. */
static int64_t most_of(const tiled *w,
                       int64_t (*bytes_of)(const kernel *k, const void *state))
{
    int64_t most = 0;
    for (int32_t k = 0; k < w->n; k++) {
        const int64_t bytes = bytes_of(w->of[k].inner, w->of[k].state);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int64_t workspace_bytes(const void *state)
{
    return most_of(state, kernel_workspace);
}

static int64_t packing_bytes(const void *state)
{
    return most_of(state, kernel_packing);
}

static fs_status run(void *state, const kernel_call *call, fs_err *err)
{
    const tiled *w = state;
    tiler t;
    char *scratch = begin(&t, call, &w->tiling);
    for (; t.tile < ir_mesh_size(&w->tiling.mesh); t.tile++) {
        ir_mesh_coords(&w->tiling.mesh, t.tile, t.coords);
        const kernel_call tile = tile_call(&t, scratch);
        const tile_kernel *k = kernel_of(w, &tile);
        FS_ASSERT(k);
        fetch(&t, &tile, k->inner->keeps);
        FS_TRY(k->inner->run(k->state, &tile, err));
        store(&t, &tile);
        kernel_rest(call);
        memcpy(t.before, t.coords, sizeof t.before);
    }
    return FS_OK;
}

const kernel kernel_widened = {.variant = "widened",
                               .scratch = scratch_bytes,
                               .run = run,
                               .release = release,
                               .workspace = workspace_bytes,
                               .packing = packing_bytes};

/* ---- rests ---- */

/* Lies in the call's own scratch, which is enough for all of it. */
static int64_t reference_scratch(const kernel_call *shapes)
{
    const kernel *reference = kernel_reference(shapes->node->op);
    return reference->scratch ? reference->scratch(shapes) : 0;
}

static const kernel kernel_in_tiles = {.variant = "in tiles",
                                       .scratch = reference_scratch,
                                       .run = run,
                                       .release = release,
                                       .workspace = workspace_bytes,
                                       .packing = packing_bytes};

/* Along its first axis a piece lies in one stretch in either layout. */
static bool cuts_blocks(const kernel_arg *arg, const ir_nd_sbp *sbp,
                        const ir_mesh *mesh)
{
    for (int32_t a = 0; a < mesh->n; a++)
        if (arg->layout == KERNEL_BLOCKED && sbp->at[a].kind == IR_S &&
            sbp->at[a].axis > 0)
            return true;
    return false;
}

static bool may_cut(const kernel_call *shapes, const ir_tiling *tiling)
{
    bool may = tiling->mesh.n > 0;
    for (int32_t i = 0; i < shapes->n_in; i++)
        may &= !cuts_blocks(&shapes->in[i], &tiling->sig.in[i], &tiling->mesh);
    for (int32_t i = 0; i < shapes->n_out; i++)
        may &=
            !cuts_blocks(&shapes->out[i], &tiling->sig.out[i], &tiling->mesh);
    return may;
}

void kernel_rest_between(const kernel_call *shapes, int32_t most,
                         const kernel **k, void **state)
{
    const ir_io io = io_of(shapes);
    ir_tiling tiling;
    fs_err none = {0};
    void *tiles;
    if ((*k)->rests)
        return;
    ir_tile_in_place(shapes->node, &io, most, &tiling);
    if (!may_cut(shapes, &tiling) ||
        kernel_tiled_create(shapes, &tiling, (*k)->variant, &none, &tiles) !=
            FS_OK)
        return;
    if ((*k)->release && *state)
        (*k)->release(*state);
    *k = &kernel_in_tiles;
    *state = tiles;
}
