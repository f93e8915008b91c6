#include "config.h"
#include "cli/checkpoints.h"
#include "cli/job.h"

#include "base/clock.h"
#include "base/file.h"
#include "exec/saving.h"
#include "exec/weights.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { USUAL_KEEP = 2 };

/* 0: absent, or no number of steps. */
static int64_t every_of(const cli *c)
{
    const char *said = c->args.checkpoint_every;
    char *end;
    errno = 0;
    const int64_t every = said ? strtoll(said, &end, 10) : 0;
    return said && !errno && end != said && !*end && every > 0 ? every : 0;
}

/* A run would begin anew inside it. */
static fs_status refuse_checkpoint(cli *c, const char *dir)
{
    char real[FS_PATH_MAX];
    const char *folder = fs_printf(c->arena, "%s/..", dir);
    return fs_fail(&c->err, FS_INVALID,
                   "--checkpoint %s is itself a checkpoint; its folder %s is "
                   "wanted",
                   dir, realpath(folder, real) ? real : folder);
}

static fs_status check_folder(cli *c, const char *dir)
{
    struct stat there;
    if (stat(dir, &there) != 0)
        return cli_check_writable(c, dir); /* run makes it */
    if (!S_ISDIR(there.st_mode))
        return fs_fail(&c->err, FS_INVALID,
                       "--checkpoint %s: wants a folder, this is a file", dir);
    if (exec_is_checkpoint(dir, c->arena))
        return refuse_checkpoint(c, dir);
    return access(dir, W_OK | X_OK) == 0 ? FS_OK
                                         : fs_write_fail(dir, errno, &c->err);
}

/* Where none is whole, ranks say what is wrong with each. */
static fs_status check_resume(cli *c, const char *dir, int64_t steps)
{
    int64_t *unused, newest;
    if (cli_am_rank())
        return FS_OK;
    if (exec_checkpoints_list(dir, c->arena, &unused) == 0 && !c->quiet)
        fs_warn("%s: no checkpoint is there: the run begins with step 1", dir);
    if (!exec_checkpoints_newest(dir, c->arena, &newest))
        return FS_OK;
    if (c->args.weights && !c->quiet)
        fs_warn("%s: the run goes on from its checkpoint of step %" PRId64
                ": what --weights %s has is not taken",
                dir, newest, c->args.weights);
    if (newest < steps)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "%s: its newest checkpoint is of step %" PRId64
                   ": --steps %" PRId64
                   " leaves nothing to do (steps count from the beginning of "
                   "the training)",
                   dir, newest, steps);
}

/* What another training has left there would be gone on with after a fault, and
 * kept as if it were of this one. A rank looks before any of its own is. */
static fs_status check_new(cli *c, const char *dir)
{
    int64_t *at;
    if (exec_checkpoints_list(dir, c->arena, &at) == 0)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "--checkpoint %s: the checkpoint of step %" PRId64
                   " is there already: --resume goes on with it; a training "
                   "that begins anew wants a folder of its own",
                   dir, at[0]);
}

fs_status cli_check_checkpoints(cli *c, int64_t steps)
{
    const cli_args *a = &c->args;
    const char *lonely = a->checkpoint_every        ? "--checkpoint-every"
                         : a->keep_checkpoints >= 0 ? "--keep-checkpoints"
                         : a->resume                ? "--resume"
                                                    : NULL;
    if (!a->checkpoint)
        return lonely ? fs_fail(&c->err, FS_INVALID,
                                "%s wants --checkpoint DIR beside it", lonely)
                      : FS_OK;
    if (a->checkpoint_every && every_of(c) < 1)
        return fs_fail(&c->err, FS_INVALID,
                       "--checkpoint-every wants a whole number of steps, 1 or "
                       "more, not '%s'",
                       a->checkpoint_every);
    FS_TRY(check_folder(c, a->checkpoint));
    return a->resume ? check_resume(c, a->checkpoint, steps)
                     : check_new(c, a->checkpoint);
}

static fs_status open_weights(cli *c, const ir_graph *graph,
                              exec_checkpoint *out)
{
    int32_t unused;
    const char *first;
    FS_TRY(exec_weights_open(c->args.weights, c->arena, &c->err, out));
    for (int32_t i = 0; i < out->n_passed && !c->quiet; i++)
        fs_warn("%s; the checkpoint before it is taken", out->passed[i]);
    FS_TRY(exec_weights_check(out, graph, &c->err, &unused, &first));
    if (unused > 0 && out->ranks == 0 && !c->quiet && !cli_am_rank())
        fs_warn("%s: %d tensor%s of it %s no variable of the network's ('%s')",
                c->args.weights, unused, unused == 1 ? "" : "s",
                unused == 1 ? "is" : "are", first);
    return FS_OK;
}

/* A rank that was started here and goes on from a checkpoint reads none of
 * what --weights names, which may have changed since, or have gone. */
static bool goes_on(const cli *c)
{
    int64_t *at;
    const cli_args *a = &c->args;
    if (!cli_am_rank() || !getenv("FS_READS_WEIGHTS") || !a->resume)
        return false;
    const int32_t n = exec_checkpoints_list(a->checkpoint, c->arena, &at);
    return n > 0 && at[n - 1] < a->steps;
}

/* Of a folder of checkpoints the one that was chosen is what ranks are told,
 * those that are started again too: a newer one may be there by then. */
fs_status cli_check_weights(cli *c, const ir_graph *graph)
{
    exec_checkpoint from;
    uint64_t digest;
    if (!c->args.weights || goes_on(c))
        return FS_OK;
    FS_TRY(open_weights(c, graph, &from));
    FS_TRY(exec_weights_digest(&from, &c->err, &digest));
    if (!cli_am_rank() && from.ranks > 0)
        c->args.weights = from.path;
    return cli_job_check_reads(c, "FS_READS_WEIGHTS", c->args.weights, digest);
}

void cli_tell_drawn(const cli *c, const cli_plan *p)
{
    const ir_graph *graph = p->model.graph;
    int32_t all = 0, drawn = 0;
    if (!p->model.origin.infer || c->args.weights || c->quiet ||
        getenv("FS_RANKS_OF"))
        return;
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *t = &graph->tensors.at[i];
        all += t->role == IR_PARAM;
        drawn += t->role == IR_PARAM && t->init.kind != IR_INIT_DATA;
    }
    if (drawn > 0)
        fs_warn("%s: without --weights %d of its %d parameters have values "
                "drawn from the seed, not trained ones",
                c->args.operands[0], drawn, all);
}

fs_status cli_give_weights(cli *c, ir_graph *graph)
{
    exec_checkpoint from;
    if (!c->args.weights)
        return FS_OK;
    FS_TRY(open_weights(c, graph, &from));
    return exec_weights_give(&from, graph, &c->err);
}

/* Where a dynamic one began says nothing of what follows a checkpoint. */
static const char *scale_text(const ir_loss_scale *scale, fs_arena *arena)
{
    if (scale->dynamic)
        return fs_printf(arena, "dynamic,steps=%" PRId64, scale->steps);
    return scale->from > 0 ? fs_printf(arena, "%.9g", scale->from) : "";
}

static fs_status read_planned(cli *c, const plan_origin *o, exec_planned *out)
{
    ir_train_options read;
    FS_TRY(cli_read_precision(o, &c->err, &read));
    *out = (exec_planned){
        o->precision, scale_text(&read.loss_scale, c->arena), o->compress,
        o->clip_norm > 0 ? fs_printf(c->arena, "%.9g", o->clip_norm) : ""};
    return FS_OK;
}

fs_status cli_saving(cli *c, const plan_origin *o, exec_saving *out)
{
    const cli_args *a = &c->args;
    exec_planned planned;
    FS_TRY(read_planned(c, o, &planned));
    *out = (exec_saving){.dir = a->checkpoint,
                         .every = every_of(c),
                         .keep = a->keep_checkpoints >= 0
                                     ? (int32_t)a->keep_checkpoints
                                     : USUAL_KEEP,
                         .resume = a->resume,
                         .planned = planned};
    return FS_OK;
}

int cli_checkpoint_words(cli *c, const char **words)
{
    const cli_args *a = &c->args;
    int n = 0;
    if (a->weights) {
        words[n++] = "--weights";
        words[n++] = a->weights;
    }
    if (!a->checkpoint)
        return n;
    words[n++] = "--checkpoint";
    words[n++] = a->checkpoint;
    if (a->checkpoint_every) {
        words[n++] = "--checkpoint-every";
        words[n++] = a->checkpoint_every;
    }
    if (a->keep_checkpoints >= 0) {
        words[n++] = "--keep-checkpoints";
        words[n++] = fs_printf(c->arena, "%" PRId64, a->keep_checkpoints);
    }
    if (a->resume)
        words[n++] = "--resume";
    return n;
}

void cli_tell_checkpoints(cli *c, const exec_result *result)
{
    int64_t step;
    const char *dir = c->args.checkpoint;
    if (result->first_step > 0) {
        json_object_set_new(c->result, "first_step",
                            json_integer(result->first_step + 1));
        if (dir)
            cli_say(
                c, "resumed from %s\n",
                exec_checkpoint_path(dir, result->first_step, false, c->arena));
    }
    if (!dir || !exec_checkpoints_newest(dir, c->arena, &step))
        return;
    const char *newest = exec_checkpoint_path(dir, step, false, c->arena);
    json_object_set_new(c->result, "checkpoint", json_string(newest));
    cli_say(c, "newest checkpoint: %s\n", newest);
}
