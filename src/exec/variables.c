/* Variables and constants: their first values, and what is read back after the
 * last step. */
#include "config.h"
#include "exec/rank.h"
#include "exec/results.h"

#include "exec/piece.h"
#include "exec/shard.h"
#include "ir/element.h"
#include "ir/first_values.h"

#include <math.h>
#include <string.h>

/* ---- first values ---- */

typedef struct filling {
    const ir_tensor *tensor;
    uint64_t seed;
    char *out;
} filling;

static void fill_row(void *ctx, int64_t local, int64_t whole, int64_t length)
{
    const filling *f = ctx;
    ir_first_values(f->tensor, f->seed, whole, length,
                    f->out + local * ir_dtype_bytes(f->tensor->dtype));
}

/* Of a tensor that lies as a partial sum, position 0 holds the value. */
static bool holds_nothing(const exec_rank *rank, const ir_nd_sbp *sbp)
{
    for (int32_t a = 0; a < rank->mesh->n; a++)
        if (sbp->at[a].kind == IR_PSUM && rank->coords[a] != 0)
            return true;
    return false;
}

static void place_variable(exec_rank *rank, const plan_register *r)
{
    const ir_tensor *t = &rank->graph->tensors.at[r->tensor];
    char *out = rank->memory + r->offset[0];
    bool has_data = t->role == IR_CONST || t->init.kind == IR_INIT_DATA;
    if (holds_nothing(rank, &r->sbp) ||
        (!has_data && t->init.kind == IR_INIT_ZERO))
        return; /* the arena is zero */
    ir_shape local;
    int64_t offset[IR_MAX_RANK];
    exec_rank_piece(rank, r->tensor, &r->sbp, &local, offset);
    if (has_data) {
        exec_piece_cut(&t->shape, &local, offset, ir_dtype_bytes(t->dtype),
                       t->data, out);
        return;
    }
    filling f = {t, rank->options->seed, out};
    exec_piece_rows(&t->shape, &local, offset, fill_row, &f);
}

static bool is_placed(const exec_rank *rank, const plan_register *r)
{
    const ir_tensor *t = &rank->graph->tensors.at[r->tensor];
    return r->persistent && !(rank->restored && exec_is_variable(t));
}

void exec_rank_place_variables(exec_rank *rank)
{
    for (int32_t i = 0; i < rank->role->n_registers; i++)
        if (is_placed(rank, &rank->role->registers[i]))
            place_variable(rank, &rank->role->registers[i]);
}

/* ---- read back ---- */

/* What is marked as an output is whole where its task reads it, also when it
 * is a view, an input or a constant, which no task makes. */
static bool find_marked(const exec_rank *rank, int32_t tensor, int32_t *task,
                        int32_t *reg, ir_nd_sbp *sbp)
{
    for (int32_t i = 0; i < rank->role->n_tasks; i++) {
        const plan_task *at = &rank->role->tasks[i];
        const ir_node *node =
            at->kind == PLAN_COMPUTE ? &rank->graph->nodes.at[at->node] : NULL;
        if (!node || node->op != IR_OP_output || node->in[0] != tensor)
            continue;
        *task = i;
        *reg = at->in[0];
        *sbp = rank->plan->strategy->sig[at->node].in[0];
        return true;
    }
    return false;
}

void exec_rank_find(const exec_rank *rank, int32_t tensor, int32_t *task,
                    int32_t *reg, ir_nd_sbp *sbp)
{
    const ir_tensor *t = &rank->graph->tensors.at[tensor];
    const plan_role *role = rank->role;
    *task = *reg = -1;
    for (int32_t i = 0; exec_is_variable(t) && i < role->n_registers; i++) {
        const plan_register *r = &role->registers[i];
        if (r->persistent && r->tensor == tensor) {
            *reg = i;
            *sbp = r->sbp;
            return;
        }
    }
    if (find_marked(rank, tensor, task, reg, sbp))
        return;
    for (int32_t i = 0; i < role->n_tasks; i++)
        if (role->tasks[i].kind == PLAN_COMPUTE &&
            role->tasks[i].node == t->producer) {
            *task = i;
            *reg = role->tasks[i].out[t->slot];
            *sbp = rank->plan->strategy->sig[t->producer].out[t->slot];
            return;
        }
}

/* This rank's piece after the last step: NULL when it has none. */
static const void *find_piece(const exec_rank *rank, int32_t tensor,
                              ir_nd_sbp *sbp)
{
    int32_t task, reg;
    exec_rank_find(rank, tensor, &task, &reg, sbp);
    for (int32_t i = 0; i < rank->n_captures; i++)
        if (rank->captures[i].tensor == tensor && rank->captures[i].piece)
            return rank->captures[i].piece;
    if (reg < 0)
        return NULL;
    const plan_register *r = &rank->role->registers[reg];
    int64_t piece = r->producer >= 0 ? rank->steps : 0;
    return rank->memory + r->offset[plan_buffer_of(r, piece, 0)];
}

/* Does this rank's piece count? Of equal replicas only the first does. */
static bool counts(const exec_rank *rank, const ir_nd_sbp *sbp)
{
    for (int32_t a = 0; a < rank->mesh->n; a++)
        if (sbp->at[a].kind == IR_B && rank->coords[a] != 0)
            return false;
    return true;
}

/* The one reduction that puts the pieces together: sum over zeroes, or max
 * (min) over the lowest (highest) value. -1: sums and extremes are mixed. */
static int32_t joining(const exec_rank *rank, const ir_nd_sbp *sbp)
{
    int32_t kind = IR_B;
    for (int32_t a = 0; a < rank->mesh->n; a++) {
        if (!ir_sbp_is_partial(sbp->at[a]))
            continue;
        if (kind != IR_B && kind != sbp->at[a].kind)
            return -1;
        kind = sbp->at[a].kind;
    }
    return kind == IR_B ? IR_PSUM : kind;
}

typedef struct placing {
    int64_t bytes;
    const char *from;
    char *to;
} placing;

static void place_row(void *ctx, int64_t local, int64_t whole, int64_t length)
{
    const placing *p = ctx;
    memcpy(p->to + whole * p->bytes, p->from + local * p->bytes,
           (size_t)(length * p->bytes));
}

/* 16-bit floats are reduced as floats. */
static void reduce_narrow(exec_rank *rank, ir_dtype dtype, int64_t count,
                          ir_sbp_kind kind, void *out)
{
    float *wide = fs_new(rank->arena, float, count);
    for (int64_t i = 0; i < count; i++)
        wide[i] = (float)ir_element_real(dtype, out, i);
    exec_world_reduce(rank->world, kind, IR_F32, wide, count);
    for (int64_t i = 0; i < count; i++)
        ir_element_set_real(dtype, out, i, wide[i]);
}

static void join_pieces(exec_rank *rank, int32_t tensor, ir_sbp_kind kind,
                        const void *piece, const ir_nd_sbp *sbp, void *out)
{
    const ir_tensor *t = &rank->graph->tensors.at[tensor];
    int64_t count = ir_shape_count(&t->shape);
    double idle = kind == IR_PMAX ? -INFINITY : INFINITY;
    for (int64_t i = 0; kind != IR_PSUM && i < count; i++)
        ir_element_set_real(t->dtype, out, i, idle);
    if (piece && counts(rank, sbp)) {
        ir_shape local;
        int64_t offset[IR_MAX_RANK];
        exec_rank_piece(rank, tensor, sbp, &local, offset);
        placing p = {ir_dtype_bytes(t->dtype), piece, out};
        exec_piece_rows(&t->shape, &local, offset, place_row, &p);
    }
    bool computes = ir_dtype_computes(t->dtype);
    if (!computes && ir_dtype_is_float(t->dtype)) {
        reduce_narrow(rank, t->dtype, count, kind, out);
        return;
    }
    if (!computes) /* no sums: each byte has one owner */
        count *= ir_dtype_bytes(t->dtype);
    exec_world_reduce(rank->world, kind, computes ? t->dtype : IR_U8, out,
                      count);
}

static fs_status fetch_one(exec_rank *rank, int32_t tensor, fs_err *err,
                           void **out)
{
    const ir_tensor *t = &rank->graph->tensors.at[tensor];
    ir_nd_sbp sbp = {0};
    const void *piece = find_piece(rank, tensor, &sbp);
    int32_t kind = piece ? joining(rank, &sbp) : IR_B;
    bool extreme_of_ints = kind > IR_PSUM && !ir_dtype_is_float(t->dtype);
    int32_t said[2] = {kind, -(kind < 0 || extreme_of_ints)};
    exec_world_reduce(rank->world, IR_PMAX, IR_I32, &said[0], 1);
    exec_world_reduce(rank->world, IR_PMIN, IR_I32, &said[1], 1);
    if (said[1] < 0)
        return fs_fail(err, FS_INVALID,
                       "'%s' cannot be fetched: it lies in mixed reductions",
                       t->name);
    if (said[0] == IR_B)
        return fs_fail(err, FS_INVALID,
                       "'%s' cannot be fetched: only variables and per-step "
                       "tensors made by an op can",
                       t->name);
    *out = fs_alloc(rank->arena, (size_t)ir_shape_count(&t->shape),
                    (size_t)ir_dtype_bytes(t->dtype));
    join_pieces(rank, tensor, (ir_sbp_kind)said[0], piece, &sbp, *out);
    return FS_OK;
}

fs_status exec_rank_fetch(exec_rank *rank, fs_err *err)
{
    for (int32_t i = 0; i < rank->options->n_fetch; i++)
        FS_TRY(fetch_one(rank, rank->options->fetch[i], err,
                         &rank->options->fetched[i]));
    return FS_OK;
}

/* Replicas know the same: the first gives it, sums are put together. */
void exec_rank_share_watched(exec_rank *rank)
{
    for (int32_t i = 0; i < rank->options->n_watch; i++) {
        double *series = rank->watched[i];
        int32_t task, reg;
        ir_nd_sbp sbp;
        exec_rank_find(rank, rank->options->watch[i], &task, &reg, &sbp);
        for (int64_t k = 0; k < rank->steps; k++)
            if (reg < 0 || !counts(rank, &sbp))
                series[k] = 0;
        exec_world_reduce(rank->world, IR_PSUM, IR_F64, series, rank->steps);
    }
}

/* ---- digest ---- */

typedef struct digesting {
    uint64_t name, sum;
    int64_t bytes;
    const char *from;
} digesting;

/* A sum, so that neither the order nor the cut of the tensors matters. */
static void digest_row(void *ctx, int64_t local, int64_t whole, int64_t length)
{
    digesting *d = ctx;
    for (int64_t i = 0; i < length; i++) {
        uint64_t bits = 0;
        memcpy(&bits, d->from + (local + i) * d->bytes, (size_t)d->bytes);
        d->sum += fs_mix(fs_mix(d->name + (uint64_t)(whole + i)) ^ bits);
    }
}

static uint64_t digest_parameter(exec_rank *rank, int32_t tensor)
{
    const ir_tensor *t = &rank->graph->tensors.at[tensor];
    ir_nd_sbp sbp = {0};
    const void *piece = find_piece(rank, tensor, &sbp);
    if (!piece || !counts(rank, &sbp))
        return 0;
    ir_shape local;
    int64_t offset[IR_MAX_RANK];
    exec_rank_piece(rank, tensor, &sbp, &local, offset);
    digesting d = {fs_hash_text(0, t->name), 0, ir_dtype_bytes(t->dtype),
                   piece};
    exec_piece_rows(&t->shape, &local, offset, digest_row, &d);
    return d.sum;
}

uint64_t exec_rank_digest(exec_rank *rank)
{
    uint64_t sum = 0;
    for (int32_t i = 0; i < rank->graph->tensors.n; i++)
        if (rank->graph->tensors.at[i].role == IR_PARAM)
            sum += digest_parameter(rank, i);
    exec_world_reduce(rank->world, IR_PSUM, IR_I64, &sum, 1);
    return sum;
}
