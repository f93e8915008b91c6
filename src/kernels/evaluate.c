#include "config.h"
#include "kernels/evaluate.h"

#include <stdlib.h>
#include <string.h>

static kernel_arg arg_of(const ir_graph *graph, int32_t tensor,
                         const void *data)
{
    const ir_tensor *t = &graph->tensors.at[tensor];
    return (kernel_arg){
        .data = (void *)(uintptr_t)data, .dtype = t->dtype, .shape = t->shape};
}

static void *room_for(int64_t bytes)
{
    enum { ALIGN = 64 };
    return aligned_alloc(ALIGN, ((size_t)bytes / ALIGN + 1) * ALIGN);
}

static fs_status run(kernel_call *call, fs_err *err)
{
    const kernel *k;
    void *state = NULL;
    FS_TRY(kernel_choose(call, "reference", err, &k, &state));
    call->scratch = room_for(k->scratch ? k->scratch(call) : 0);
    call->workspace = room_for(kernel_workspace(k, state));
    const fs_status status =
        call->scratch && call->workspace
            ? k->run(state, call, err)
            : fs_fail(err, FS_INVALID, "no memory for scratch");
    free(call->scratch);
    free(call->workspace);
    if (k->release)
        k->release(state);
    return status;
}

fs_status kernel_evaluate(const ir_graph *graph, const ir_node *node,
                          const void *const *in, void *const *out, fs_err *err)
{
    kernel_call call = {
        .node = node, .f = node->f, .n_in = node->n_in, .n_out = node->n_out};
    for (int32_t i = 0; i < node->n_in; i++)
        call.in[i] = arg_of(graph, node->in[i], in[i]);
    for (int32_t i = 0; i < node->n_out; i++)
        call.out[i] = arg_of(graph, node->out[i], out[i]);
    if (kernel_reference(node->op))
        return run(&call, err);
    if (ir_op_class_of(node->op) != IR_CLASS_VIEW || node->n_out != 1)
        return fs_fail(err, FS_INVALID, "no kernel for it");
    memcpy(out[0], in[0], /* a view moves no bytes */
           (size_t)(ir_shape_count(&call.out[0].shape) *
                    ir_dtype_bytes(call.out[0].dtype)));
    return FS_OK;
}
