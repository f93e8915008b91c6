#include "config.h"

#include "kernels/widened.h"

#include "kernels/table.h"

#include <stdlib.h>

typedef struct widened {
    const kernel *inner;
    void *state; /* of the inner kernel */
} widened;

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

/* Puts a float copy of the operand in its place; returns where the next one
 * lies. */
static char *widen(kernel_arg *arg, char *scratch)
{
    int64_t bytes = ir_widened_bytes(&arg->shape, arg->dtype);
    if (!bytes)
        return scratch;
    arg->dtype = IR_F32;
    arg->data = scratch;
    return scratch ? scratch + bytes : NULL;
}

/* The call that the inner kernel sees. */
static kernel_call widened_call(const kernel_call *call)
{
    kernel_call wide = *call;
    char *scratch = call->scratch;
    for (int32_t i = 0; i < call->n_in; i++)
        scratch = widen(&wide.in[i], scratch);
    for (int32_t i = 0; i < call->n_out; i++)
        scratch = widen(&wide.out[i], scratch);
    wide.scratch = scratch;
    return wide;
}

static void convert(const kernel_arg *from, const kernel_arg *to)
{
    kernel_call cast = {.n_in = 1, .n_out = 1, .in = {*from}, .out = {*to}};
    if (from->dtype != to->dtype)
        kernel_cpu_cast.run(NULL, &cast, NULL);
}

fs_status kernel_widened_create(const kernel_call *shapes, const char *variant,
                                fs_err *err, void **state)
{
    kernel_call wide = widened_call(shapes);
    widened made = {0};
    FS_TRY(kernel_choose(&wide, variant, err, &made.inner, &made.state));
    widened *kept = malloc(sizeof *kept);
    if (!kept)
        return fs_fail(err, FS_FAULT, "out of memory for a kernel");
    *kept = made;
    *state = kept;
    return FS_OK;
}

/* The copies, and what the reference needs behind them. */
static int64_t scratch_bytes(const kernel_call *shapes)
{
    const kernel *reference = kernel_reference(shapes->node->op);
    int64_t bytes = 0;
    for (int32_t i = 0; i < shapes->n_in; i++)
        bytes += ir_widened_bytes(&shapes->in[i].shape, shapes->in[i].dtype);
    for (int32_t i = 0; i < shapes->n_out; i++)
        bytes += ir_widened_bytes(&shapes->out[i].shape, shapes->out[i].dtype);
    kernel_call wide = widened_call(shapes);
    return bytes + (reference->scratch ? reference->scratch(&wide) : 0);
}

static fs_status run(void *state, const kernel_call *call, fs_err *err)
{
    const widened *w = state;
    const kernel_call wide = widened_call(call);
    for (int32_t i = 0; i < call->n_in; i++)
        convert(&call->in[i], &wide.in[i]);
    for (int32_t i = 0; w->inner->keeps && i < call->n_out; i++)
        convert(&call->out[i], &wide.out[i]);
    FS_TRY(w->inner->run(w->state, &wide, err));
    for (int32_t i = 0; i < call->n_out; i++)
        convert(&wide.out[i], &call->out[i]);
    return FS_OK;
}

static void release(void *state)
{
    widened *w = state;
    if (w->inner->release && w->state)
        w->inner->release(w->state);
    free(w);
}

const kernel kernel_widened = {.variant = "widened",
                               .scratch = scratch_bytes,
                               .run = run,
                               .release = release};
