/* Variables out of a checkpoint, however it was cut: a rank takes the parts of
 * each piece that lie in its own. */
#include "config.h"
#include "exec/saver.h"

#include "exec/checkpoint.h"
#include "base/clock.h"
#include "exec/piece.h"
#include "exec/shard.h"
#include "exec/weights.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- one variable ---- */

typedef struct taking {
    const exec_rank *rank;
    const exec_checkpoint *from;
    const exec_kept *kept;
    const exec_shard *shard;
    ir_dtype dtype;
    char *to;
} taking;

/* A term of its own where there are as many as now; else the first has the
 * whole and the others add nothing. */
static bool wants(const taking *t, const exec_held *piece)
{
    return piece->terms == t->shard->terms ? piece->term == t->shard->term
                                           : t->shard->term == 0;
}

static fs_status take_piece(const taking *t, const exec_held *piece,
                            const ir_piece *common, fs_err *err)
{
    const int64_t bytes = ir_dtype_bytes(t->dtype);
    const bool folds = piece->terms != t->shard->terms && piece->terms > 1;
    void *read;
    FS_TRY(exec_weights_read(t->from, t->kept, piece, t->dtype, err, &read));
    const exec_part from = exec_part_of(common, &piece->box, bytes),
                    to = exec_part_of(common, &t->shard->box, bytes);
    if (folds)
        exec_part_fold(t->shard->kind, t->dtype, &from, read, &to, t->to);
    else
        exec_part_copy(&from, read, &to, t->to);
    free(read);
    return FS_OK;
}

static void begin_empty(const taking *t)
{
    const exec_shard *s = t->shard;
    const int64_t count = ir_shape_count(&s->box.shape);
    if (exec_can_fold(t->dtype))
        exec_fill_neutral(s->kind, t->dtype, t->to, count);
    else
        memset(t->to, 0, (size_t)s->bytes);
}

static fs_status take_pieces(const taking *t, fs_err *err)
{
    const exec_shard *s = t->shard;
    const int64_t count = ir_shape_count(&s->box.shape);
    int64_t got = 0;
    int32_t terms = 1;
    begin_empty(t);
    for (int32_t i = 0; i < t->kept->pieces.n; i++) {
        const exec_held *piece = &t->kept->pieces.at[i];
        ir_piece common;
        if (!wants(t, piece))
            continue;
        terms = piece->terms == s->terms ? 1 : piece->terms;
        if (s->box.shape.rank > 0) {
            if (!ir_piece_common(&piece->box, &s->box, &common))
                continue;
        } else {
            common = s->box;
        }
        FS_TRY(take_piece(t, piece, &common, err));
        got += ir_shape_count(&common.shape);
    }
    const bool empty = s->terms > 1 && s->term > 0 && got == 0;
    if (got != count * terms && !empty)
        return fs_fail(err, FS_INVALID,
                       "%s: '%s': %" PRId64 " of %" PRId64
                       " elements are there",
                       t->from->path, t->kept->name, got, count * terms);
    return FS_OK;
}

/* ---- a checkpoint ---- */

/* Of another network: that is no damage, and an earlier one would be of it
 * too. */
static fs_status check_variables(const exec_rank *rank,
                                 const exec_checkpoint *c, fs_err *err)
{
    char had[160], wanted[160];
    for (int32_t i = 0; i < rank->graph->tensors.n; i++) {
        const ir_tensor *t = &rank->graph->tensors.at[i];
        if (!exec_is_variable(t))
            continue;
        const exec_kept *kept = exec_checkpoint_find(c, t->name);
        if (!kept)
            return fs_fail(err, FS_NO,
                           "%s: has no '%s': it is of another network, or of "
                           "another optimizer, loss scale or compression",
                           c->path, t->name);
        if (kept->dtype != t->dtype || !ir_shape_equal(&kept->shape, &t->shape))
            return fs_fail(
                err, FS_NO, "%s: its '%s' is %s %s, the network's is %s %s",
                c->path, t->name, ir_dtype_name(kept->dtype),
                ir_shape_text(had, &kept->shape), ir_dtype_name(t->dtype),
                ir_shape_text(wanted, &t->shape));
    }
    return FS_OK;
}

static fs_status take_all(const exec_rank *rank, const exec_checkpoint *c,
                          const exec_shards *shards, bool weights, fs_err *err)
{
    for (int32_t i = 0; i < shards->n; i++) {
        const exec_shard *s = &shards->at[i];
        const ir_tensor *t = &rank->graph->tensors.at[s->tensor];
        const exec_kept *kept = exec_checkpoint_find(c, t->name);
        if (!kept || (weights && !exec_is_weight(t)))
            continue; /* its first value stays */
        const taking of = {.rank = rank,
                           .from = c,
                           .kept = kept,
                           .shard = s,
                           .dtype = t->dtype,
                           .to = exec_shard_data(rank, s)};
        FS_TRY(take_pieces(&of, err));
    }
    return FS_OK;
}

static fs_status load(exec_rank *rank, const char *dir, int64_t step,
                      const exec_shards *shards, fs_err *err,
                      exec_checkpoint *c)
{
    FS_TRY(exec_checkpoint_read(dir, step, rank->arena, err, c));
    FS_TRY(check_variables(rank, c, err));
    if (c->losses_file)
        FS_TRY(exec_checkpoint_losses(c, rank->arena, err, &rank->earlier));
    return take_all(rank, c, shards, false, err);
}

/* What was there when rank 0 looked: all try the same ones. */
static int64_t *agree_on_steps(exec_rank *rank, const char *dir, int32_t *n)
{
    int64_t *steps = NULL, *all;
    int32_t count = 0;
    if (rank->world->rank == 0)
        count = exec_checkpoints_list(dir, rank->arena, &steps);
    exec_world_bcast(rank->world, &count, sizeof count, 0);
    all = fs_new(rank->arena, int64_t, count + 1);
    if (rank->world->rank == 0 && count > 0)
        memcpy(all, steps, (size_t)count * sizeof *all);
    if (count > 0)
        exec_world_bcast(rank->world, all, count * (int64_t)sizeof *all, 0);
    *n = count;
    return all;
}

/* Under another plan sums are in another order anyway. (A plan that was never
 * written has no digest.) */
static bool has_other_kernels(const exec_rank *rank, const exec_checkpoint *c)
{
    const uint64_t digest = rank->plan->digest;
    return digest != 0 && c->plan_digest == digest && c->kernels_digest != 0 &&
           c->kernels_digest != exec_rank_kernels_digest(rank);
}

static void warn_of_change(const exec_rank *rank, const exec_checkpoint *c,
                           const exec_planned *planned, uint64_t data_digest)
{
    if (rank->world->rank != 0)
        return;
    if (c->batch != rank->plan->strategy->batch)
        fs_warn("%s: was trained with %" PRId64
                " samples per step, this plan has %" PRId64 ": sample %" PRId64
                " is next",
                c->path, c->batch, rank->plan->strategy->batch,
                c->step * rank->plan->strategy->batch);
    if (has_other_kernels(rank, c))
        fs_warn("%s: was trained with other kernels than are chosen here "
                "(another machine's figures, or --kernels): its bits are not "
                "those of a run that went on there",
                c->path);
    if (c->data_digest != data_digest)
        fs_warn("%s: was trained on other data", c->path);
    const char *name;
    const int32_t unused = exec_weights_unused(c, rank->graph, &name);
    if (unused > 0)
        fs_warn("%s: %d tensor%s of it %s none of this plan's ('%s'): left out",
                c->path, unused, unused == 1 ? "" : "s",
                unused == 1 ? "is" : "are", name);
    if (c->seed != rank->options->seed)
        fs_warn("%s: was trained with --seed %" PRIu64 ", this run has %" PRIu64
                ": what is drawn from here on is another",
                c->path, c->seed, rank->options->seed);
    const exec_tuned now =
        exec_tuned_of(rank->graph, rank->options->tuning, planned, rank->arena);
    const char *had, *has;
    if (exec_tuned_differ(&c->tuned, &now, rank->arena, &had, &has))
        fs_warn("%s: was trained with %s, this run has %s: its updates from "
                "here on are others",
                c->path, had, has);
}

/* Of a single one the run's last message says all. */
static void warn_of_damage(const exec_rank *rank, const fs_err *why,
                           bool has_before, bool is_first)
{
    if (rank->world->rank == 0 && (has_before || !is_first))
        fs_warn("%s%s", why->text,
                has_before ? "; the checkpoint before it is taken" : "");
}

fs_status exec_rank_restore(exec_rank *rank, const exec_saving *saving,
                            uint64_t data_digest, fs_err *err)
{
    int32_t n;
    const exec_shards shards = exec_shards_of(rank);
    const int64_t *steps = agree_on_steps(rank, saving->dir, &n);
    fs_err first = {0};
    for (int32_t i = 0; i < n; i++) {
        exec_checkpoint c = {0};
        fs_err why = {0};
        /* After a restart: it would leave nothing to do. */
        const bool late = steps[i] >= rank->options->steps;
        fs_status status =
            late ? exec_checkpoint_read(saving->dir, steps[i], rank->arena,
                                        &why, &c)
                 : load(rank, saving->dir, steps[i], &shards, &why, &c);
        status = exec_world_agree(rank->world, status, &why);
        if (status == FS_OK && late)
            continue;
        if (status == FS_OK) {
            rank->first_step = steps[i];
            rank->restored = true;
            warn_of_change(rank, &c, &saving->planned, data_digest);
            return FS_OK;
        }
        rank->earlier = NULL;
        if (status == FS_NO)
            return fs_fail(err, FS_INVALID, "%s", why.text);
        warn_of_damage(rank, &why, i + 1 < n, first.status == FS_OK);
        first = first.status == FS_OK ? why : first;
    }
    if (first.status != FS_OK)
        return fs_fail(err, FS_INVALID, "%s: no checkpoint is whole (%.800s)",
                       saving->dir, first.text);
    return FS_OK;
}

fs_status exec_rank_take_weights(exec_rank *rank, const char *path, fs_err *err)
{
    exec_checkpoint c;
    int32_t unused;
    const char *first;
    const exec_shards shards = exec_shards_of(rank);
    FS_TRY(exec_weights_open(path, rank->arena, err, &c));
    FS_TRY(exec_weights_check(&c, rank->graph, err, &unused, &first));
    return take_all(rank, &c, &shards, true, err);
}
