/* A chain is its steps: random programs, whole and in pieces, give the bits
 * that the ops give one by one. */
#include "config.h"

#include "ir/chain.h"

#include "interpret.h"
#include "op_cases.h"
#include "tap.h"

enum { TRIALS = 150 };

typedef struct trial {
    ir_graph *graph;
    const ir_node *node;
    kernel_call call;
    fs_arena *arena;
} trial;

static kernel_arg room(fs_arena *arena, const ir_shape *shape, ir_dtype dtype)
{
    kernel_arg arg = {.dtype = dtype, .shape = *shape};
    arg.data = fs_alloc(arena, (size_t)ir_shape_count(shape) + 1, 8);
    return arg;
}

/* Step after step on tensors of full size: values[] by the program's numbers.
 */
static fs_status run_steps(const trial *t, const kernel_call *call,
                           kernel_arg *values, fs_err *err)
{
    const ir_chain *chain = t->node->chain;
    ir_io io = {0};
    ir_chain_types types;
    for (int32_t i = 0; i < call->n_in; i++) {
        io.in[i] = call->in[i].shape;
        io.in_dtype[i] = call->in[i].dtype;
        values[i] = call->in[i];
    }
    FS_TRY(ir_chain_infer(t->node, &io, err, &types));
    for (int32_t k = 0; k < chain->n_steps; k++) {
        const ir_node *step = &chain->step[k];
        const int32_t made = call->n_in + k;
        kernel_call one = {.node = step,
                           .f = step->f,
                           .n_in = step->n_in,
                           .n_out = 1,
                           .step = call->step,
                           .micro_batch = call->micro_batch};
        values[made] = room(t->arena, &types.shape[made], types.dtype[made]);
        memcpy(values[made].offset, call->out[0].offset,
               sizeof values[made].offset);
        for (int32_t i = 0; i < step->n_in; i++)
            one.in[i] = values[step->in[i]];
        one.out[0] = values[made];
        FS_TRY(interpret_run_call(&one, err));
    }
    return FS_OK;
}

static bool same_bits(const trial *t, const kernel_call *call,
                      const kernel_arg *values)
{
    for (int32_t i = 0; i < call->n_out; i++) {
        const kernel_arg *got = &call->out[i];
        const kernel_arg *wanted = &values[t->node->chain->out[i]];
        if (memcmp(got->data, wanted->data,
                   (size_t)(ir_shape_count(&got->shape) *
                            ir_dtype_bytes(got->dtype))) != 0)
            return false;
    }
    return true;
}

static bool check_call(const trial *t, const kernel_call *call, fs_err *err)
{
    kernel_arg values[IR_CHAIN_VALUES];
    return interpret_run_call(call, err) == FS_OK &&
           run_steps(t, call, values, err) == FS_OK &&
           same_bits(t, call, values);
}

/* Rows [from, to) of axis 0, where it has any. */
static void cut_rows(const trial *t, kernel_arg *arg, int32_t rank,
                     int64_t from, int64_t to)
{
    const int64_t rows = arg->shape.rank ? arg->shape.dim[0] : 1;
    if (arg->shape.rank < rank || rows == 1)
        return;
    const int64_t row = ir_shape_count(&arg->shape) / rows;
    const char *data = arg->data;
    const int64_t bytes = row * ir_dtype_bytes(arg->dtype);
    arg->shape.dim[0] = to - from;
    arg->offset[0] = from;
    kernel_arg piece = room(t->arena, &arg->shape, arg->dtype);
    memcpy(piece.data, data + from * bytes, (size_t)((to - from) * bytes));
    arg->data = piece.data;
}

/* Pieces of the rows draw and compute what the steps do on them, which is
 * what those rows of the whole are. */
static bool check_pieces(const trial *t, fs_err *err)
{
    const ir_shape *space = &t->call.out[0].shape;
    bool same = true;
    if (space->rank == 0 || space->dim[0] < 2)
        return true;
    for (int64_t from = 0; from < space->dim[0] && same; from++) {
        kernel_call piece = t->call;
        for (int32_t i = 0; i < piece.n_in; i++)
            cut_rows(t, &piece.in[i], space->rank, from, from + 1);
        for (int32_t i = 0; i < piece.n_out; i++)
            cut_rows(t, &piece.out[i], space->rank, from, from + 1);
        kernel_call whole = piece;
        for (int32_t i = 0; i < piece.n_out; i++)
            piece.out[i].data =
                room(t->arena, &piece.out[i].shape, piece.out[i].dtype).data;
        same = check_call(t, &piece, err);
        for (int32_t i = 0; i < piece.n_out && same; i++)
            same = memcmp(piece.out[i].data, whole.out[i].data,
                          (size_t)(ir_shape_count(&piece.out[i].shape) *
                                   ir_dtype_bytes(piece.out[i].dtype))) == 0;
    }
    return same;
}

static bool try_seed(uint64_t seed, ir_dtype real, fs_err *err)
{
    trial t = {.graph = ir_graph_create("chain")};
    op_case c = {.graph = t.graph,
                 .op = IR_OP_chain,
                 .real = real,
                 .other_type = true,
                 .wide = true,
                 .seed = &seed};
    interpreter in;
    const int32_t id = op_case_build(&c);
    bool same = false;
    if (id >= 0) {
        t.node = &t.graph->nodes.at[id];
        t.arena = t.graph->arena;
        interpret_open(&in, t.graph, t.arena);
        in.step = 3;
        in.micro_batch = 1;
        for (int32_t i = 0; i < t.node->n_in; i++)
            op_case_fill(&t.graph->tensors.at[t.node->in[i]],
                         in.data[t.node->in[i]], &seed);
        t.call = interpret_call(&in, t.node);
        same = check_call(&t, &t.call, err) && check_pieces(&t, err);
    }
    ir_graph_destroy(t.graph);
    return same;
}

int main(void)
{
    static const ir_dtype reals[] = {IR_F32, IR_F64, IR_BF16, IR_F16};
    const uint64_t seed = tap_seed(20261122);
    for (size_t r = 0; r < sizeof reals / sizeof *reals; r++) {
        int same = 0;
        fs_err err = {0};
        for (int k = 0; k < TRIALS; k++) {
            const bool good = try_seed(seed + (uint64_t)k, reals[r], &err);
            if (!good)
                printf("# seed %llu %s\n",
                       (unsigned long long)(seed + (uint64_t)k), err.text);
            same += good;
        }
        tap_equal_int(same, TRIALS,
                      "%s: chains and pieces of them have the bits "
                      "of their steps",
                      ir_dtype_name(reals[r]));
    }
    return tap_done();
}
