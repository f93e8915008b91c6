#include "config.h"

#include "kernels/dnnl_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* oneDNN's C interface has no call for its thread count; it uses OpenMP's. The
 * two functions are declared here and not by omp.h because clang has none. */
extern void omp_set_num_threads(int n);
extern int omp_get_max_threads(void);

void kernel_set_threads(int n)
{
    FS_ASSERT(n >= 1);
    omp_set_num_threads(n);
}

const char *kernel_library(void)
{
    static char text[64];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "oneDNN %d.%d.%d", v->major, v->minor,
             v->patch);
    return text;
}

int kernel_dnnl_threads(void)
{
    return omp_get_max_threads();
}

void kernel_dnnl_take_threads(int n)
{
    if (omp_get_max_threads() != n)
        omp_set_num_threads(n);
}

bool kernel_dnnl_takes(const kernel_call *shapes)
{
    return shapes->in[0].dtype == IR_F32 && shapes->in[1].dtype == IR_F32 &&
           shapes->out[0].dtype == IR_F32;
}

static const char *implementation_of(const_dnnl_primitive_desc_t desc)
{
    const char *name = NULL;
    if (dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name) !=
        dnnl_success)
        name = NULL;
    return name ? name : "";
}

/* Its best, or the first by its general product. */
static dnnl_status_t choose_implementation(const kernel_dnnl_op *op,
                                           dnnl_primitive_desc_iterator_t all,
                                           dnnl_primitive_desc_t *out)
{
    *out = dnnl_primitive_desc_iterator_fetch(all);
    while (op->general && *out &&
           dnnl_primitive_desc_iterator_next(all) == dnnl_success) {
        dnnl_primitive_desc_t next = dnnl_primitive_desc_iterator_fetch(all);
        const bool found = next && strstr(implementation_of(next), "gemm");
        dnnl_primitive_desc_destroy(found ? *out : next);
        if (!found)
            continue;
        *out = next;
        break;
    }
    return *out ? dnnl_success : dnnl_unimplemented;
}

/* The scratchpad is the caller's. */
static dnnl_status_t describe_primitive(const kernel_dnnl *state,
                                        const kernel_dnnl_op *op,
                                        dnnl_primitive_desc_t forward,
                                        dnnl_primitive_desc_t *out)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_iterator_t all = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(
            attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_iterator_create(&all, op->desc, attr,
                                                     state->engine, forward);
    if (status == dnnl_success)
        status = choose_implementation(op, all, out);
    dnnl_primitive_desc_iterator_destroy(all);
    dnnl_primitive_attr_destroy(attr);
    return status;
}

enum { ROOM_ALIGN = 64 };

static int64_t take_room(kernel_dnnl *state, size_t bytes)
{
    const int64_t at = state->workspace_bytes;
    const int64_t n = (int64_t)(bytes + ROOM_ALIGN - 1);
    state->workspace_bytes = at + n / ROOM_ALIGN * ROOM_ALIGN;
    return at;
}

static dnnl_status_t create_reorder(const kernel_dnnl *state,
                                    const dnnl_memory_desc_t *from,
                                    const dnnl_memory_desc_t *to,
                                    dnnl_primitive_t *out)
{
    dnnl_primitive_desc_t desc = NULL;
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(
        &desc, from, state->engine, to, state->engine, NULL);
    if (status == dnnl_success)
        status = dnnl_primitive_create(out, desc);
    dnnl_primitive_desc_destroy(desc);
    return status;
}

/* Of what the primitive has otherwise than it lies. */
static dnnl_status_t create_turns(kernel_dnnl *state, const kernel_dnnl_op *op,
                                  const_dnnl_primitive_desc_t desc)
{
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < op->n && status == dnnl_success; i++) {
        kernel_dnnl_turn *turn = &state->turn[i];
        const dnnl_memory_desc_t *lies = &op->tensor[i];
        const dnnl_memory_desc_t *has = dnnl_primitive_desc_query_md(
            desc, dnnl_query_exec_arg_md, op->arg[i]);
        const bool last = i == op->n - 1;
        if (!has || dnnl_memory_desc_equal(has, lies))
            continue;
        turn->at = take_room(state, dnnl_memory_desc_get_size(has));
        status = create_reorder(state, last ? has : lies, last ? lies : has,
                                &turn->reorder);
        if (status == dnnl_success)
            status = dnnl_memory_create(&turn->inner, has, state->engine,
                                        DNNL_MEMORY_NONE);
    }
    return status;
}

static bool is_reference(const_dnnl_primitive_desc_t desc)
{
    return strncmp(implementation_of(desc), "ref", 3) == 0;
}

static dnnl_status_t create_workspace(kernel_dnnl *state,
                                      const_dnnl_primitive_desc_t desc)
{
    const dnnl_memory_desc_t *room =
        dnnl_primitive_desc_query_md(desc, dnnl_query_scratchpad_md, 0);
    const size_t bytes = room ? dnnl_memory_desc_get_size(room) : 0;
    take_room(state, bytes);
    if (bytes == 0)
        return dnnl_success;
    return dnnl_memory_create(&state->workspace, room, state->engine,
                              DNNL_MEMORY_NONE);
}

/* What the general product writes of the blocks that it packs (oneDNN 2.6,
 * cpu/x64/gemm/gemm_driver.cpp and gemm_info.cpp, the largest over AVX2 and
 * AVX-512): of the right operand at most COLUMNS columns, of the left one a
 * strip of rows at a time; all rows of the block only if more columns follow,
 * which need them again. Each of its PARTS begins a page. */
static int64_t packed_bytes(int64_t m, int64_t n, int64_t k)
{
    enum {
        ROWS = 10000,
        COLUMNS = 384,
        TERMS = 384,
        STRIP = 48,
        FEW_TERMS = 48,
        COLUMNS_OF_FEW = 24,
        PARTS = 4,
        PAGE = 4096
    };
    const int64_t terms = k < TERMS ? k : TERMS;
    const int64_t most = k < FEW_TERMS ? COLUMNS_OF_FEW : COLUMNS;
    const int64_t block = m < ROWS ? m : ROWS;
    const int64_t rows = n > most ? (block + STRIP - 1) / STRIP * STRIP : STRIP;
    const int64_t columns = n < most ? n : most;
    return (rows + columns) * terms * (int64_t)sizeof(float) + PARTS * PAGE;
}

/* Which operand is the left one is up to the primitive; each thread packs its
 * own. */
static int64_t find_packing(const kernel_dnnl *state, const kernel_dnnl_op *op,
                            const_dnnl_primitive_desc_t desc)
{
    const int64_t *p = op->product;
    if (!strstr(implementation_of(desc), "gemm"))
        return 0;
    const int64_t one = packed_bytes(p[0], p[1], p[2]);
    const int64_t other = packed_bytes(p[1], p[0], p[2]);
    return (one > other ? one : other) * state->threads;
}

static fs_status create_primitive(kernel_dnnl *state, const kernel_dnnl_op *op,
                                  fs_err *err)
{
    dnnl_primitive_desc_t forward = NULL, desc = NULL;
    dnnl_status_t status = dnnl_success;
    if (op->forward)
        status = dnnl_primitive_desc_create(&forward, op->forward, NULL,
                                            state->engine, NULL);
    if (status == dnnl_success)
        status = describe_primitive(state, op, forward, &desc);
    if (status == dnnl_success && is_reference(desc))
        status = dnnl_unimplemented;
    if (status == dnnl_success)
        status = dnnl_primitive_create(&state->primitive, desc);
    if (status == dnnl_success)
        status = create_workspace(state, desc);
    if (status == dnnl_success)
        status = create_turns(state, op, desc);
    if (status == dnnl_success)
        state->packing_bytes = find_packing(state, op, desc);
    dnnl_primitive_desc_destroy(desc);
    dnnl_primitive_desc_destroy(forward);
    if (status == dnnl_unimplemented || status == dnnl_invalid_arguments)
        return FS_NO;
    if (status != dnnl_success)
        return fs_fail(err, FS_FAULT, "oneDNN: status %d creating a primitive",
                       (int)status);
    return FS_OK;
}

static fs_status create_memory(kernel_dnnl *state, const kernel_dnnl_op *op,
                               fs_err *err)
{
    state->n = op->n;
    for (int i = 0; i < op->n; i++) {
        state->arg[i] = op->arg[i];
        if (dnnl_memory_create(&state->memory[i], &op->tensor[i], state->engine,
                               DNNL_MEMORY_NONE) != dnnl_success)
            return fs_fail(err, FS_FAULT, "oneDNN: no memory object");
    }
    return FS_OK;
}

fs_status kernel_dnnl_create(const kernel_dnnl_op *op, fs_err *err,
                             void **state)
{
    kernel_dnnl *made = calloc(1, sizeof *made);
    if (!made)
        return fs_fail(err, FS_FAULT, "out of memory for a oneDNN primitive");
    made->threads = kernel_dnnl_threads();
    made->clears = op->clears;
    fs_status status = FS_OK;
    if (dnnl_engine_create(&made->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&made->stream, made->engine,
                           dnnl_stream_default_flags) != dnnl_success)
        status = fs_fail(err, FS_FAULT, "oneDNN: no CPU engine");
    if (status == FS_OK)
        status = create_primitive(made, op, err);
    if (status == FS_OK)
        status = create_memory(made, op, err);
    if (status != FS_OK) {
        kernel_dnnl_release(made);
        return status;
    }
    *state = made;
    return FS_OK;
}

static dnnl_status_t turn_over(const kernel_dnnl *p, int i, bool back)
{
    const dnnl_memory_t lies = p->memory[i], inner = p->turn[i].inner;
    const dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, back ? inner : lies},
                                     {DNNL_ARG_TO, back ? lies : inner}};
    return dnnl_primitive_execute(p->turn[i].reorder, p->stream, 2, args);
}

/* Points the memory objects at the call's data; inputs are turned. */
static dnnl_status_t take_arguments(kernel_dnnl *p, const kernel_call *call,
                                    dnnl_exec_arg_t *args)
{
    dnnl_status_t status = dnnl_success;
    for (int i = 0; i < p->n && status == dnnl_success; i++) {
        const bool last = i == p->n - 1;
        const kernel_dnnl_turn *turn = &p->turn[i];
        args[i] = (dnnl_exec_arg_t){p->arg[i], p->memory[i]};
        status = dnnl_memory_set_data_handle(
            p->memory[i], last ? call->out[0].data : call->in[i].data);
        if (!turn->reorder || status != dnnl_success)
            continue;
        args[i].memory = turn->inner;
        status = dnnl_memory_set_data_handle(
            turn->inner, (char *)call->workspace + turn->at);
        if (status == dnnl_success && !last)
            status = turn_over(p, i, false);
    }
    return status;
}

fs_status kernel_dnnl_run(void *state, const kernel_call *call, fs_err *err)
{
    kernel_dnnl *p = state;
    dnnl_exec_arg_t args[KERNEL_DNNL_ARGS + 1];
    int n = p->n;
    FS_ASSERT(p->workspace_bytes == 0 || call->workspace);
    kernel_dnnl_take_threads(p->threads);
    if (p->clears)
        memset(call->out[0].data, 0,
               (size_t)ir_shape_count(&call->out[0].shape) * sizeof(float));
    dnnl_status_t status = take_arguments(p, call, args);
    if (p->workspace && status == dnnl_success) {
        status = dnnl_memory_set_data_handle(p->workspace, call->workspace);
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, p->workspace};
    }
    if (status == dnnl_success)
        status = dnnl_primitive_execute(p->primitive, p->stream, n, args);
    if (status == dnnl_success && p->turn[p->n - 1].reorder)
        status = turn_over(p, p->n - 1, true);
    if (status == dnnl_success)
        status = dnnl_stream_wait(p->stream);
    if (status != dnnl_success)
        return fs_fail(err, FS_FAULT, "oneDNN: status %d", (int)status);
    return FS_OK;
}

int64_t kernel_dnnl_workspace(const void *state)
{
    return ((const kernel_dnnl *)state)->workspace_bytes;
}

int64_t kernel_dnnl_packing(const void *state)
{
    return ((const kernel_dnnl *)state)->packing_bytes;
}

void kernel_dnnl_release(void *state)
{
    kernel_dnnl *p = state;
    if (!p)
        return;
    dnnl_memory_destroy(p->workspace);
    for (int i = 0; i < p->n; i++)
        dnnl_memory_destroy(p->memory[i]);
    for (int i = 0; i < KERNEL_DNNL_ARGS; i++) {
        dnnl_memory_destroy(p->turn[i].inner);
        dnnl_primitive_destroy(p->turn[i].reorder);
    }
    dnnl_primitive_destroy(p->primitive);
    dnnl_stream_destroy(p->stream);
    dnnl_engine_destroy(p->engine);
    free(p);
}
