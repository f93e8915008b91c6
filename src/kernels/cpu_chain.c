/* chain: its steps, one after the other, on a tile of the iteration space at a
 * time. A tile is whole in the last axes and a stretch of one axis before them,
 * so that it lies in one piece in every tensor of the space; a step on a tile
 * is a call of the op's own kernel on that slice, which keeps each formula in
 * one place and makes the values those of the ops alone, to the bit. */
#include "config.h"

#include "kernels/loops.h"

#include "ir/chain.h"

#include <stdlib.h>

enum { TILE = IR_CHAIN_TILE, TILE_BYTES = TILE * 8 };

typedef struct chain_step {
    kernel_call call; /* on a tile; data is set for each */
    const kernel *kernel;
    void *state;
    int32_t slot; /* of its value among the tiles; -1: it leaves the chain */
} chain_step;

typedef struct chain_state {
    int32_t axis;        /* cut into tiles; -1: there is one tile */
    int64_t length, now; /* along it, of a tile; of those set up */
    ir_shape space;
    int64_t stride[IR_CHAIN_VALUES][IR_MAX_RANK]; /* by axes of the space */
    int32_t leaves[IR_CHAIN_VALUES]; /* which output a value is, or -1 */
    int64_t scratch; /* of any step on a tile, to widen 16-bit floats in */
    int32_t n_steps;
    chain_step step[];
} chain_state;

/* ---- what is the same for all tiles ---- */

static void cut_space(chain_state *c)
{
    int64_t inner = 1;
    int32_t axis = c->space.rank;
    while (axis > 0 && c->space.dim[axis - 1] <= TILE / inner)
        inner *= c->space.dim[--axis];
    c->axis = axis - 1;
    c->length = c->now = axis > 0 ? TILE / inner : 1;
}

/* A stride of 0 where the value has length 1: it is stretched there, or the
 * space has that length as well. */
static void set_strides(chain_state *c, int32_t value, const ir_shape *shape)
{
    const int32_t shift = c->space.rank - shape->rank;
    int64_t step = 1;
    for (int32_t i = shape->rank - 1; i >= 0; i--) {
        c->stride[value][i + shift] = shape->dim[i] == 1 ? 0 : step;
        step *= shape->dim[i];
    }
}

static void set_length(const chain_state *c, int32_t value, int64_t length,
                       kernel_arg *arg)
{
    const int32_t own = c->axis - (c->space.rank - arg->shape.rank);
    if (c->axis >= 0 && own >= 0 && c->stride[value][c->axis] != 0)
        arg->shape.dim[own] = length;
}

/* The slice of a tile: 1 along the axes before the one that is cut. */
static void set_slice(const chain_state *c, int32_t value,
                      const ir_chain_types *types, kernel_arg *arg)
{
    *arg = (kernel_arg){.dtype = types->dtype[value],
                        .shape = types->shape[value]};
    const int32_t shift = c->space.rank - arg->shape.rank;
    for (int32_t i = 0; i + shift < c->axis; i++)
        arg->shape.dim[i] = 1;
    set_length(c, value, c->length, arg);
}

/* Tiles for values that stay inside: one is free again after its last reader.
 */
static void place_values(chain_state *c, const ir_node *node)
{
    const ir_chain *chain = node->chain;
    int32_t last[IR_CHAIN_VALUES] = {0};
    bool taken[IR_CHAIN_STEPS] = {false};
    for (int32_t k = 0; k < chain->n_steps; k++)
        for (int32_t i = 0; i < chain->step[k].n_in; i++)
            last[chain->step[k].in[i]] = k;
    for (int32_t k = 0; k < chain->n_steps; k++) {
        int32_t slot = 0;
        while (taken[slot])
            slot++;
        c->step[k].slot = c->leaves[node->n_in + k] >= 0 ? -1 : slot;
        taken[slot] = c->step[k].slot >= 0;
        for (int32_t j = 0; j <= k; j++)
            if (c->step[j].slot >= 0 && last[node->n_in + j] == k)
                taken[c->step[j].slot] = false;
    }
}

static void describe(chain_state *c, const kernel_call *call,
                     const ir_chain_types *types)
{
    const ir_node *node = call->node;
    c->n_steps = node->chain->n_steps;
    c->space = types->shape[node->n_in];
    cut_space(c);
    for (int32_t v = 0; v < node->n_in + c->n_steps; v++) {
        set_strides(c, v, &types->shape[v]);
        c->leaves[v] = -1;
    }
    for (int32_t i = 0; i < call->n_out; i++)
        c->leaves[node->chain->out[i]] = i;
    for (int32_t k = 0; k < c->n_steps; k++) {
        const ir_node *step = &node->chain->step[k];
        kernel_call *on = &c->step[k].call;
        *on = (kernel_call){
            .node = step, .f = step->f, .n_in = step->n_in, .n_out = 1};
        for (int32_t i = 0; i < step->n_in; i++)
            set_slice(c, step->in[i], types, &on->in[i]);
        set_slice(c, node->n_in + k, types, &on->out[0]);
    }
    place_values(c, node);
}

static void chain_release(void *state)
{
    chain_state *c = state;
    for (int32_t k = 0; c && k < c->n_steps; k++)
        if (c->step[k].kernel && c->step[k].kernel->release)
            c->step[k].kernel->release(c->step[k].state);
    free(c);
}

static int64_t step_scratch(const chain_state *c)
{
    int64_t most = 0;
    for (int32_t k = 0; k < c->n_steps; k++) {
        const kernel *chosen = c->step[k].kernel;
        const int64_t bytes =
            chosen->scratch ? chosen->scratch(&c->step[k].call) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static int64_t chain_workspace(const void *state)
{
    return ((const chain_state *)state)->scratch;
}

static fs_status chain_prepare(const kernel_call *shapes, fs_err *err,
                               void **state)
{
    ir_io io = {0};
    ir_chain_types types;
    for (int32_t i = 0; i < shapes->n_in; i++) {
        io.in[i] = shapes->in[i].shape;
        io.in_dtype[i] = shapes->in[i].dtype;
    }
    FS_TRY(ir_chain_infer(shapes->node, &io, err, &types));
    const size_t n = (size_t)shapes->node->chain->n_steps;
    chain_state *c = calloc(1, sizeof *c + n * sizeof *c->step);
    if (!c)
        return fs_fail(err, FS_FAULT, "out of memory for a chain of ops");
    describe(c, shapes, &types);
    fs_status status = FS_OK;
    for (int32_t k = 0; k < c->n_steps && status == FS_OK; k++)
        status = kernel_choose(&c->step[k].call, "reference", err,
                               &c->step[k].kernel, &c->step[k].state);
    if (status != FS_OK) {
        chain_release(c);
        return status;
    }
    c->scratch = step_scratch(c);
    *state = c;
    return FS_OK;
}

/* ---- tile by tile ---- */

typedef struct chain_tile {
    int64_t at[IR_MAX_RANK]; /* in the piece */
    int64_t length;
    char (*inner)[TILE_BYTES];
} chain_tile;

static char *value_data(const chain_state *c, const kernel_call *call,
                        int32_t value, const chain_tile *tile)
{
    const int32_t n_in = call->n_in;
    const kernel_arg *arg =
        value < n_in ? &call->in[value] : &call->out[c->leaves[value]];
    int64_t at = 0;
    for (int32_t i = 0; i <= c->axis; i++)
        at += tile->at[i] * c->stride[value][i];
    return (char *)arg->data + at * ir_dtype_bytes(arg->dtype);
}

static void change_length(chain_state *c, const ir_node *node, int64_t length)
{
    c->now = length;
    for (int32_t k = 0; k < c->n_steps; k++) {
        kernel_call *on = &c->step[k].call;
        for (int32_t i = 0; i < on->n_in; i++)
            set_length(c, on->node->in[i], length, &on->in[i]);
        set_length(c, node->n_in + k, length, &on->out[0]);
    }
}

static fs_status run_tile(chain_state *c, const kernel_call *call,
                          const chain_tile *tile, fs_err *err)
{
    char *data[IR_CHAIN_VALUES];
    if (tile->length != c->now)
        change_length(c, call->node, tile->length);
    for (int32_t v = 0; v < call->n_in; v++)
        data[v] = value_data(c, call, v, tile);
    for (int32_t k = 0; k < c->n_steps; k++) {
        chain_step *step = &c->step[k];
        kernel_call *on = &step->call;
        const int32_t made = call->n_in + k;
        data[made] = step->slot < 0 ? value_data(c, call, made, tile)
                                    : tile->inner[step->slot];
        for (int32_t i = 0; i < on->n_in; i++)
            on->in[i].data = data[on->node->in[i]];
        on->out[0].data = data[made];
        for (int32_t i = 0; i <= c->axis; i++)
            on->out[0].offset[i] = call->out[0].offset[i] + tile->at[i];
        FS_TRY(step->kernel->run(step->state, on, err));
    }
    return FS_OK;
}

/* The next tile; false after the last. */
static bool next_tile(const chain_state *c, chain_tile *tile)
{
    for (int32_t i = c->axis; i >= 0; i--) {
        tile->at[i] += i == c->axis ? c->length : 1;
        if (tile->at[i] < c->space.dim[i])
            return true;
        tile->at[i] = 0;
    }
    return false;
}

static fs_status chain_run(void *state, const kernel_call *call, fs_err *err)
{
    _Alignas(64) char inner[IR_CHAIN_STEPS][TILE_BYTES];
    chain_state *c = state;
    chain_tile tile = {.inner = inner};
    FS_ASSERT(c->scratch == 0 || call->workspace);
    for (int32_t k = 0; k < c->n_steps; k++) {
        kernel_call *on = &c->step[k].call;
        on->step = call->step;
        on->micro_batch = call->micro_batch;
        on->scratch = call->workspace;
        for (int32_t i = 0; i < c->space.rank; i++)
            on->out[0].offset[i] = call->out[0].offset[i];
    }
    do {
        tile.length = c->now;
        if (c->axis >= 0) {
            const int64_t left = c->space.dim[c->axis] - tile.at[c->axis];
            tile.length = left < c->length ? left : c->length;
        }
        FS_TRY(run_tile(c, call, &tile, err));
        kernel_rest(call);
    } while (next_tile(c, &tile));
    return FS_OK;
}

const kernel kernel_cpu_chain = {.variant = "reference",
                                 .prepare = chain_prepare,
                                 .run = chain_run,
                                 .release = chain_release,
                                 .workspace = chain_workspace};
