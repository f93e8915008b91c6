#include "config.h"
#include "base/hash.h"
#include "ir/op_util.h"
#include "ir/tiles.h"

#include <string.h>

const ir_op *const ir_op_table[IR_OP_COUNT] = {
#define IR_OP(name, ...) &ir_op_##name,
#include "ir/ops.def"
#undef IR_OP
};

ir_op_class ir_op_class_of(ir_op_kind kind)
{
    static const uint8_t classes[IR_OP_COUNT] = {
#define IR_OP(name, class_name) IR_CLASS_##class_name,
#include "ir/ops.def"
#undef IR_OP
    };
    return (ir_op_class)classes[kind];
}

bool ir_op_is_dense(ir_op_kind kind)
{
    const ir_op_class op_class = ir_op_class_of(kind);
    return op_class == IR_CLASS_MATMUL || op_class == IR_CLASS_CONV ||
           op_class == IR_CLASS_ATTENTION;
}

int32_t ir_op_outputs(const ir_node *node)
{
    const int32_t n = ir_op_table[node->op]->n_out;
    return n == IR_OUT_OF_NODE ? node->n_out : n;
}

const char *ir_op_class_name(ir_op_class op_class)
{
    static const char *const names[] = {
        [IR_CLASS_SOURCE] = "source",       [IR_CLASS_MATMUL] = "matmul",
        [IR_CLASS_CONV] = "conv",           [IR_CLASS_ATTENTION] = "attention",
        [IR_CLASS_POINTWISE] = "pointwise", [IR_CLASS_REDUCE] = "reduce",
        [IR_CLASS_GATHER] = "gather",       [IR_CLASS_COPY] = "copy",
        [IR_CLASS_VIEW] = "view",           [IR_CLASS_UPDATE] = "update",
    };
    return names[op_class];
}

ir_op_kind ir_op_by_name(const char *name)
{
    int32_t kind = 0;
    while (kind < IR_OP_COUNT && strcmp(ir_op_table[kind]->name, name) != 0)
        kind++;
    return (ir_op_kind)kind;
}

void ir_node_io(const ir_graph *graph, const ir_node *node, ir_io *io)
{
    memset(io, 0, sizeof *io);
    for (int32_t i = 0; i < node->n_in; i++) {
        io->in[i] = graph->tensors.at[node->in[i]].shape;
        io->in_dtype[i] = graph->tensors.at[node->in[i]].dtype;
    }
    for (int32_t i = 0; i < node->n_out; i++) {
        io->out[i] = graph->tensors.at[node->out[i]].shape;
        io->out_dtype[i] = graph->tensors.at[node->out[i]].dtype;
    }
}

void ir_node_local_io(const ir_graph *graph, const ir_node *node,
                      const ir_nd_sig *sig, const ir_mesh *mesh, ir_io *io)
{
    ir_node_io(graph, node, io);
    for (int32_t i = 0; i < node->n_in; i++)
        io->in[i] = ir_largest_piece(&io->in[i], &sig->in[i], mesh);
    for (int32_t i = 0; i < node->n_out; i++)
        io->out[i] = ir_largest_piece(&io->out[i], &sig->out[i], mesh);
}

int64_t ir_widened_bytes(const ir_shape *shape, ir_dtype dtype)
{
    enum { ALIGN = 64 };
    if (!ir_dtype_is_float(dtype) || ir_dtype_computes(dtype))
        return 0;
    int64_t bytes = ir_mul_sat(ir_shape_count(shape), ir_dtype_bytes(IR_F32));
    return ir_add_sat(bytes, ALIGN - 1) / ALIGN * ALIGN;
}

/* Floats are float afterwards. */
static void widen(const ir_shape *shape, ir_dtype *dtype, ir_dtype *narrow)
{
    if (ir_widened_bytes(shape, *dtype) > 0)
        *narrow = *dtype;
    if (ir_dtype_is_float(*dtype))
        *dtype = ir_dtype_widened(*dtype);
}

/* The type of 16-bit floats among the operands; IR_F32. */
static ir_dtype widen_all(const ir_node *node, ir_io *io)
{
    ir_dtype narrow = IR_F32;
    for (int32_t i = 0; i < node->n_in; i++)
        widen(&io->in[i], &io->in_dtype[i], &narrow);
    for (int32_t i = 0; i < node->n_out; i++)
        widen(&io->out[i], &io->out_dtype[i], &narrow);
    return narrow;
}

/* What the copies of any piece take, of which io is the largest: a smaller one
 * may be cut less and take more, but not more than a tile may. */
static int64_t copy_bytes(const ir_node *node, const ir_io *io)
{
    ir_tiling tiling;
    ir_tile(node, io, IR_TILE_BYTES, &tiling);
    if (tiling.mesh.n > 0 && tiling.bytes < IR_TILE_BYTES)
        return IR_TILE_BYTES;
    return tiling.bytes;
}

int64_t ir_widened_scratch(const ir_node *node, const ir_io *local)
{
    ir_io widened = *local;
    ir_work wide = {0};
    widen_all(node, &widened);
    ir_op_table[node->op]->work(node, &widened, &wide);
    return ir_add_sat(wide.scratch_bytes, copy_bytes(node, local));
}

static void work_of(const ir_graph *graph, const ir_node *node,
                    const ir_nd_sig *sig, const ir_mesh *mesh, ir_io *io,
                    ir_work *out)
{
    ir_node_local_io(graph, node, sig, mesh, io);
    ir_op_table[node->op]->work(node, io, out);
    ir_io widened = *io;
    out->narrow = widen_all(node, &widened);
}

void ir_node_flow(const ir_graph *graph, const ir_node *node,
                  const ir_nd_sig *sig, const ir_mesh *mesh, ir_work *out)
{
    ir_io io;
    *out = (ir_work){0};
    if (ir_op_table[node->op]->work)
        work_of(graph, node, sig, mesh, &io, out);
    out->scratch_bytes = 0;
}

void ir_node_work(const ir_graph *graph, const ir_node *node,
                  const ir_nd_sig *sig, const ir_mesh *mesh, ir_work *out)
{
    ir_io io;
    *out = (ir_work){0};
    if (!ir_op_table[node->op]->work)
        return;
    work_of(graph, node, sig, mesh, &io, out);
    if (out->narrow != IR_F32 && !ir_op_table[node->op]->moves)
        out->scratch_bytes = ir_widened_scratch(node, &io);
}

void ir_structural_attrs(const ir_node *node, int64_t out[IR_MAX_ATTR])
{
    const ir_op *op = ir_op_table[node->op];
    memcpy(out, node->i, sizeof node->i);
    if (op->draws)
        out[op->seed_attr] = 0;
}

/* Most are zero. */
static uint64_t mix_words(uint64_t h, const void *words, int32_t n)
{
    for (int32_t k = 0; k < n; k++) {
        uint64_t word;
        memcpy(&word, (const char *)words + 8 * k, 8);
        if (word)
            h = fs_mix(h ^ word) + (uint64_t)k;
    }
    return h;
}

uint64_t ir_node_look(const ir_node *node)
{
    int64_t attr[IR_MAX_ATTR];
    ir_structural_attrs(node, attr);
    const uint64_t h =
        fs_mix((uint64_t)node->op << 32 | (uint64_t)node->phase << 16 |
               (uint64_t)(node->n_in << 8) | (uint64_t)node->n_out);
    return mix_words(mix_words(h, attr, IR_MAX_ATTR), node->f, IR_MAX_REAL);
}

uint64_t ir_tensor_look(const ir_tensor *t, uint64_t seed)
{
    const uint64_t h =
        seed ^ ((uint64_t)t->shape.rank << 32 | (uint64_t)t->dtype);
    return mix_words(fs_mix(h), t->shape.dim, t->shape.rank);
}

static uint64_t shape_form(uint64_t form, const ir_shape *shape, ir_dtype dtype)
{
    form = fs_hash_text(form, ir_dtype_name(dtype));
    for (int32_t d = 0; d < shape->rank; d++)
        form = fs_mix(form ^ (uint64_t)shape->dim[d]);
    return form;
}

/* By names, not by numbers, which change when an op or a type is added. */
uint64_t ir_node_form(const ir_graph *graph, const ir_node *node,
                      const ir_nd_sig *sig, const ir_mesh *mesh)
{
    int64_t attr[IR_MAX_ATTR];
    ir_io io;
    uint64_t form = fs_hash_text(0, ir_op_table[node->op]->name);
    ir_structural_attrs(node, attr);
    ir_node_local_io(graph, node, sig, mesh, &io);
    for (int32_t k = 0; k < IR_MAX_ATTR; k++)
        form = fs_mix(form ^ (uint64_t)attr[k]);
    for (int32_t i = 0; i < node->n_in; i++)
        form = shape_form(form, &io.in[i], io.in_dtype[i]);
    for (int32_t i = 0; i < node->n_out; i++)
        form = shape_form(form, &io.out[i], io.out_dtype[i]);
    return form ? form : 1;
}
