/* Runs a graph on one device, node by node, with the reference kernels: the
 * oracle of tests. Values live in an arena. */
#ifndef FS_TESTS_INTERPRET_H
#define FS_TESTS_INTERPRET_H

#include "kernels/kernel.h"

#include <stdlib.h>
#include <string.h>

typedef struct interpreter {
    const ir_graph *graph;
    void **data; /* per tensor */
    int64_t step;
    int32_t micro_batch;
} interpreter;

static inline size_t interpret_bytes(const ir_tensor *tensor)
{
    return (size_t)(ir_shape_count(&tensor->shape) *
                    ir_dtype_bytes(tensor->dtype));
}

/* Zeroed room for every tensor; constants and variables with data hold it. The
 * caller fills inputs and the other variables through data[]. */
static inline void interpret_open(interpreter *in, const ir_graph *graph,
                                  fs_arena *arena)
{
    *in = (interpreter){.graph = graph,
                        .data = fs_new(arena, void *, graph->tensors.n)};
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *tensor = &graph->tensors.at[i];
        size_t bytes = interpret_bytes(tensor);
        in->data[i] = fs_alloc(arena, bytes, 1);
        if (tensor->data)
            memcpy(in->data[i], tensor->data, bytes);
    }
}

static inline kernel_arg interpret_arg(const interpreter *in, int32_t tensor)
{
    const ir_tensor *t = &in->graph->tensors.at[tensor];
    return (kernel_arg){
        .data = in->data[tensor], .dtype = t->dtype, .shape = t->shape};
}

static inline kernel_call interpret_call(const interpreter *in,
                                         const ir_node *node)
{
    kernel_call call = {.node = node,
                        .f = node->f,
                        .n_in = node->n_in,
                        .n_out = node->n_out,
                        .step = in->step,
                        .micro_batch = in->micro_batch};
    for (int32_t k = 0; k < node->n_in; k++)
        call.in[k] = interpret_arg(in, node->in[k]);
    for (int32_t k = 0; k < node->n_out; k++)
        call.out[k] = interpret_arg(in, node->out[k]);
    return call;
}

/* To be freed. */
static inline void *interpret_workspace(const kernel *k, const void *state)
{
    const int64_t bytes = kernel_workspace(k, state);
    return bytes ? aligned_alloc(64, (size_t)(bytes + 63) / 64 * 64) : NULL;
}

/* Runs a call with the op's reference kernel; a view copies its bytes. */
static inline fs_status interpret_run_call(const kernel_call *call, fs_err *err)
{
    ir_op_kind op = call->node->op;
    const kernel *reference;
    void *state = NULL;
    if (ir_op_class_of(op) == IR_CLASS_VIEW && call->n_out == 1)
        memcpy(call->out[0].data, call->in[0].data,
               (size_t)(ir_shape_count(&call->out[0].shape) *
                        ir_dtype_bytes(call->out[0].dtype)));
    if (!kernel_reference(op))
        return FS_OK;
    FS_TRY(kernel_choose(call, "reference", err, &reference, &state));
    kernel_call with = *call;
    int64_t bytes = reference->scratch ? reference->scratch(call) : 0;
    with.scratch = bytes ? aligned_alloc(64, (size_t)bytes) : NULL;
    with.workspace = interpret_workspace(reference, state);
    fs_status status = reference->run(state, &with, err);
    free(with.scratch);
    free(with.workspace);
    if (reference->release)
        reference->release(state);
    return status;
}

/* The nodes of phases first .. last. */
static inline fs_status interpret_phases(interpreter *in, ir_phase first,
                                         ir_phase last, fs_err *err)
{
    for (int32_t i = 0; i < in->graph->nodes.n; i++) {
        const ir_node *node = &in->graph->nodes.at[i];
        if (node->phase < first || node->phase > last)
            continue;
        kernel_call call = interpret_call(in, node);
        FS_TRY(interpret_run_call(&call, err));
    }
    return FS_OK;
}

static inline fs_status interpret_run(interpreter *in, fs_err *err)
{
    return interpret_phases(in, IR_FORWARD, IR_UPDATE, err);
}

/* After a step's updates: variables take their next values. */
static inline void interpret_advance(interpreter *in)
{
    for (int32_t i = 0; i < in->graph->tensors.n; i++) {
        const ir_tensor *tensor = &in->graph->tensors.at[i];
        if (in->graph->nodes.at[tensor->producer].op == IR_OP_variable &&
            tensor->next >= 0)
            memcpy(in->data[i], in->data[tensor->next],
                   interpret_bytes(tensor));
    }
    in->step++;
}

#endif
