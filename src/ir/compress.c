/* Compressed gradients, as nodes of the update. */
#include "config.h"
#include "ir/compress.h"

#include "ir/op_util.h"
#include "ir/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RESULT ".compressed" /* ends the name of what stands for a gradient */

/* Fewer entries are not worth a choice, and could not be cut among many
 * devices, each of which sends its share. */
enum { FEWEST_SENT = 32, MOST_RANK = 4096 };

typedef enum argument { NOTHING, SHARE, COUNT } argument;

static const struct {
    const char *name;
    argument argument;
} kinds[] = {
    {"none", NOTHING},
#define IR_COMPRESS(id, name, argument) {name, argument},
#include "ir/compress.def"
#undef IR_COMPRESS
};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* ---- what the user says ---- */

static bool read_argument(argument kind, const char *text, double *out)
{
    char *end;
    if (kind == NOTHING)
        return *text == '\0';
    if (text[0] != ':' || (text[1] != '.' && (text[1] < '0' || text[1] > '9')))
        return false;
    *out = strtod(text + 1, &end);
    if (*end != '\0')
        return false;
    if (kind == SHARE)
        return *out > 0 && *out <= 0.5;
    return *out >= 1 && *out <= MOST_RANK && *out == floor(*out);
}

fs_status ir_compress_parse(const char *text, fs_err *err, ir_compress *out)
{
    const size_t n = strcspn(text, ":");
    ir_compress how = {.kind = IR_COMPRESS_NONE};
    for (int32_t k = 0; text[0] && k < N_KINDS; k++) {
        if (strlen(kinds[k].name) != n || strncmp(kinds[k].name, text, n) != 0)
            continue;
        if (!read_argument(kinds[k].argument, text + n, &how.argument))
            break;
        how.kind = (ir_compress_kind)k;
        *out = how;
        return FS_OK;
    }
    if (text[0])
        return fs_fail(err, FS_INVALID,
                       "'%.40s' is none of bf16, fp16, topk:SHARE (above 0, up "
                       "to 0.5), powersgd:RANK (1 to %d) and none",
                       text, MOST_RANK);
    *out = how;
    return FS_OK;
}

ir_dtype ir_compress_dtype(const ir_compress *how)
{
    return how->kind == IR_COMPRESS_BF16   ? IR_BF16
           : how->kind == IR_COMPRESS_FP16 ? IR_F16
                                           : IR_F32;
}

/* ---- nodes ---- */

/* One gradient on its way. */
typedef struct packer {
    ir_graph *graph;
    const ir_compress *how;
    int32_t param, grad;
    ir_carried_list *carried;
} packer;

static int32_t with_state(packer *p, const char *what, ir_shape shape,
                          const ir_init *init)
{
    ir_graph *g = p->graph;
    const ir_variable_spec spec = {.role = IR_STATE,
                                   .dtype = g->tensors.at[p->grad].dtype,
                                   .shape = shape,
                                   .init = init ? *init : (ir_init){0},
                                   .partial = !init};
    return ir_variable(
        g, fs_printf(g->arena, "%s.%s", g->tensors.at[p->param].name, what),
        &spec);
}

static void carry(packer *p, int32_t variable, int32_t next)
{
    fs_push(p->graph->arena, p->carried, (ir_carried){variable, next});
}

/* As a matrix: what is compressed is one, and cuts of its rows and, but for
 * windows, of its columns stay such. */
static ir_shape matrix_of(const ir_shape *shape)
{
    const int64_t rows = shape->rank > 0 ? shape->dim[0] : 1;
    return (ir_shape){2, {rows, ir_shape_count(shape) / rows}};
}

static int32_t cast_there(packer *p)
{
    ir_graph *g = p->graph;
    const ir_dtype own = g->tensors.at[p->grad].dtype;
    const ir_dtype narrow = ir_compress_dtype(p->how);
    if (ir_dtype_bytes(own) <= ir_dtype_bytes(narrow))
        return -1;
    return ir_cast(g, ir_cast(g, p->grad, narrow), own);
}

/* What was left out until now stays with the gradient. */
static int32_t add_error(packer *p, ir_shape matrix, int32_t *error)
{
    ir_graph *g = p->graph;
    *error = with_state(p, "error", matrix, NULL);
    return ir_binary(g, IR_OP_add, ir_reshape(g, p->grad, matrix), *error);
}

/* Subspace iteration. What is left out is taken from factors before they are
 * reduced, so that each device's error is a projection of its own part and does
 * not grow. */
static int32_t factorise(packer *p)
{
    ir_graph *g = p->graph;
    const ir_shape shape = ir_shape_of(g, p->grad), m = matrix_of(&shape);
    const int64_t r = (int64_t)p->how->argument;
    const ir_init drawn = {.kind = IR_INIT_NORMAL, .spread = 1};
    int32_t error;
    if ((m.dim[0] + m.dim[1]) * r >= m.dim[0] * m.dim[1])
        return -1;
    const int32_t whole = add_error(p, m, &error);
    const int32_t basis =
        with_state(p, "basis", (ir_shape){2, {m.dim[1], r}}, &drawn);
    const int32_t left = ir_append(
        g, &(ir_node){.op = IR_OP_orthonormal,
                      .n_in = 1,
                      .in = {ir_matmul(g, whole, basis, false, false)}});
    const int32_t right = ir_matmul(g, whole, left, true, false);
    const int32_t part = ir_matmul(g, left, right, false, true);
    carry(p, error, ir_binary(g, IR_OP_sub, whole, part));
    carry(p, basis, ir_scale(g, right, 1, 0)); /* others read it */
    return ir_reshape(g, ir_matmul(g, left, right, false, true), shape);
}

static int32_t sparsify(packer *p)
{
    ir_graph *g = p->graph;
    const ir_shape shape = ir_shape_of(g, p->grad), m = matrix_of(&shape);
    const int64_t n = ir_shape_count(&shape);
    const int64_t sent = (int64_t)ceil(p->how->argument * (double)n);
    int32_t error;
    if (sent < FEWEST_SENT)
        return -1;
    ir_node pick = {.op = IR_OP_sparsify,
                    .n_in = 1,
                    .i = {sent, m.dim[1], n > INT32_MAX ? IR_I64 : IR_I32}};
    pick.in[0] = add_error(p, m, &error);
    const int32_t v = ir_graph_add(g, &pick);
    if (v < 0)
        return -1;
    ir_node join = {.op = IR_OP_densify,
                    .n_in = 2,
                    .in = {g->nodes.at[v].out[0], g->nodes.at[v].out[1]},
                    .i = {m.dim[0], m.dim[1], m.dim[1]}};
    carry(p, error, g->nodes.at[v].out[2]);
    return ir_reshape(g, ir_append(g, &join), shape);
}

static int32_t pack(packer *p)
{
    switch (p->how->kind) {
    case IR_COMPRESS_POWERSGD:
        return factorise(p);
    case IR_COMPRESS_TOPK:
        return sparsify(p);
    case IR_COMPRESS_BF16:
    case IR_COMPRESS_FP16:
        return cast_there(p);
    case IR_COMPRESS_NONE:
        break;
    }
    return -1;
}

static const char *result_name(const ir_graph *graph, int32_t param,
                               fs_arena *arena)
{
    return fs_printf(arena, "%s" RESULT, graph->tensors.at[param].name);
}

static bool is_asked(const ir_graph *graph, const ir_compress *how,
                     const fs_map *only, int32_t param)
{
    return how->n_only == 0 ||
           fs_map_get(only, graph->tensors.at[param].name) >= 0;
}

int32_t ir_compress_gradients(ir_graph *graph, const ir_compress *how,
                              int32_t n, ir_update_pair *pairs,
                              ir_carried_list *carried)
{
    int32_t packed = 0;
    fs_map only = {.arena = graph->arena};
    for (int32_t k = 0; k < how->n_only; k++)
        *fs_map_at(&only, how->only[k]) = k;
    for (int32_t k = 0; k < n && graph->err.status == FS_OK; k++) {
        packer p = {graph, how, pairs[k].param, pairs[k].grad, carried};
        if (!is_asked(graph, how, &only, p.param))
            continue;
        const char *name = result_name(graph, p.param, graph->arena);
        ir_enter_update(graph, p.param);
        graph->scope = name;
        const int32_t result = pack(&p);
        if (result < 0)
            continue;
        ir_graph_rename(graph, result, name);
        pairs[k].grad = result;
        packed++;
    }
    return packed;
}

/* ---- found again ---- */

int32_t ir_compressed(const ir_graph *graph, int32_t param)
{
    fs_arena *arena = fs_arena_create();
    const int32_t t = ir_graph_find(graph, result_name(graph, param, arena));
    fs_arena_destroy(arena);
    return t;
}

int32_t ir_compresses(const ir_graph *graph, const ir_node *node)
{
    if (node->phase != IR_UPDATE || node->forward < 0)
        return -1;
    const int32_t param = graph->nodes.at[node->forward].out[0];
    const char *own = graph->tensors.at[param].name;
    const size_t n = strlen(own);
    return strncmp(node->name, own, n) == 0 &&
                   strncmp(node->name + n, RESULT, sizeof RESULT - 1) == 0
               ? param
               : -1;
}
