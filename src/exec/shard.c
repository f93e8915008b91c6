#include "config.h"
#include "exec/shard.h"

#include <inttypes.h>

bool exec_is_variable(const ir_tensor *t)
{
    return t->role == IR_PARAM || t->role == IR_STATE || t->role == IR_BUFFER;
}

/* Position among the ranks that differ along axes of these kinds only. */
static int32_t position(const exec_rank *rank, const ir_nd_sbp *sbp,
                        bool partial, int32_t *n)
{
    int32_t at = 0;
    *n = 1;
    for (int32_t a = 0; a < rank->mesh->n; a++) {
        const bool is =
            partial ? ir_sbp_is_partial(sbp->at[a]) : sbp->at[a].kind == IR_B;
        if (!is)
            continue;
        at = at * rank->mesh->dim[a] + rank->coords[a];
        *n *= rank->mesh->dim[a];
    }
    return at;
}

static ir_sbp_kind reduction(const exec_rank *rank, const ir_nd_sbp *sbp)
{
    for (int32_t a = 0; a < rank->mesh->n; a++)
        if (ir_sbp_is_partial(sbp->at[a]))
            return (ir_sbp_kind)sbp->at[a].kind;
    return IR_PSUM;
}

static exec_shard shard_of(const exec_rank *rank, int32_t reg)
{
    const plan_register *r = &rank->role->registers[reg];
    const ir_tensor *t = &rank->graph->tensors.at[r->tensor];
    exec_shard s = {.tensor = r->tensor, .reg = reg};
    s.box = ir_piece_of(&t->shape, &r->sbp, rank->mesh, rank->coords);
    s.term = position(rank, &r->sbp, true, &s.terms);
    s.kind = reduction(rank, &r->sbp);
    s.bytes = ir_shape_count(&s.box.shape) * ir_dtype_bytes(t->dtype);
    return s;
}

/* Tensors that a stage before this one has too are that one's. */
static bool *had_before(const exec_rank *rank)
{
    bool *had = fs_new(rank->arena, bool, rank->graph->tensors.n);
    for (const plan_role *role = rank->plan->roles; role < rank->role; role++)
        for (int32_t i = 0; i < role->n_registers; i++)
            if (role->registers[i].persistent)
                had[role->registers[i].tensor] = true;
    return had;
}

static int32_t replicated(const exec_rank *rank, const ir_nd_sbp *sbp)
{
    int32_t mask = 0;
    for (int32_t a = 0; a < rank->mesh->n; a++)
        mask |= (sbp->at[a].kind == IR_B) << a;
    return mask;
}

/* All that is replicated along the same axes is cut by bytes, in the order of
 * the registers, among the replicas: each takes what begins in its part. */
static void share_work(const exec_rank *rank, exec_shards *shards)
{
    int64_t total[1 << IR_MAX_MESH] = {0}, before[1 << IR_MAX_MESH] = {0};
    const plan_register *registers = rank->role->registers;
    bool *had = had_before(rank);
    for (int32_t i = 0; i < shards->n; i++) {
        const plan_register *r = &registers[shards->at[i].reg];
        total[replicated(rank, &r->sbp)] += r->bytes + 1;
    }
    for (int32_t i = 0; i < shards->n; i++) {
        exec_shard *s = &shards->at[i];
        const plan_register *r = &registers[s->reg];
        const int32_t mask = replicated(rank, &r->sbp);
        int32_t n;
        const int32_t at = position(rank, &r->sbp, false, &n);
        const double part = (double)before[mask] / (double)total[mask];
        s->mine = (int32_t)(part * n) == at && !had[s->tensor];
        before[mask] += r->bytes + 1;
        had[s->tensor] = true;
    }
}

exec_shards exec_shards_of(const exec_rank *rank)
{
    const plan_role *role = rank->role;
    exec_shards shards = {0};
    shards.at = fs_new(rank->arena, exec_shard, role->n_registers + 1);
    for (int32_t i = 0; i < role->n_registers; i++) {
        const plan_register *r = &role->registers[i];
        if (r->persistent &&
            exec_is_variable(&rank->graph->tensors.at[r->tensor]))
            shards.at[shards.n++] = shard_of(rank, i);
    }
    share_work(rank, &shards);
    return shards;
}

const char *exec_shard_name(const ir_graph *graph, const exec_shard *s,
                            fs_arena *arena)
{
    const ir_tensor *t = &graph->tensors.at[s->tensor];
    fs_text text = {.arena = arena};
    fs_text_add(&text, "%s", t->name);
    if (!ir_shape_equal(&s->box.shape, &t->shape)) {
        for (int32_t d = 0; d < t->shape.rank; d++)
            fs_text_add(&text, "%s%" PRId64 ":%" PRId64, d ? "," : "[",
                        s->box.offset[d],
                        s->box.offset[d] + s->box.shape.dim[d]);
        fs_text_add(&text, "]");
    }
    if (s->terms > 1)
        fs_text_add(&text, "+%d", s->term);
    return text.at;
}
