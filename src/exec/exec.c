#include "config.h"
#include "exec/exec.h"

#include "exec/rank.h"
#include "exec/results.h"
#include "exec/saver.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- before ---- */

static fs_status check_world(const exec_world *world, const plan *p,
                             const exec_options *options, fs_err *err)
{
    int32_t ranks = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        ranks += p->roles[r].n_ranks;
    if (ranks != world->size)
        return fs_fail(err, FS_INVALID,
                       "the plan is for %d ranks, this job has %d", ranks,
                       world->size);
    if (p->n_comms + p->n_channels >= EXEC_TAG_LOSS)
        return fs_fail(err, FS_INVALID,
                       "the plan has %d communicators and channels; %d can be "
                       "told apart",
                       p->n_comms + p->n_channels, EXEC_TAG_LOSS - 1);
    if (options->steps < 1)
        return fs_fail(err, FS_INVALID, "a run has at least one step");
    if (options->first_step < 0 || options->first_step >= options->steps)
        return fs_fail(err, FS_INVALID,
                       "a run of %" PRId64
                       " steps does not go on after %" PRId64,
                       options->steps, options->first_step);
    return FS_OK;
}

/* Its variables would be those of the first step. */
static fs_status check_first(const ir_graph *graph, const exec_options *options,
                             fs_err *err)
{
    return options->first_step == 0 || graph->loss < 0
               ? FS_OK
               : fs_fail(err, FS_INVALID,
                         "a training goes on from a checkpoint alone");
}

/* Of the times that kernels are chosen by. */
static uint64_t digest_variants(uint64_t digest, const hw_device *figures)
{
    for (int32_t i = 0; figures && i < figures->n_variants; i++) {
        const hw_variant *v = &figures->variants[i];
        digest = fs_hash_text(fs_hash_text(digest, v->what), v->name);
        digest = fs_hash(digest, &v->form, sizeof v->form);
        digest = fs_hash(digest, &v->seconds, sizeof v->seconds);
    }
    return digest;
}

/* What a run without an end cannot keep, see exec.h. */
static fs_status check_end(const ir_graph *graph, const exec_data *data,
                           const exec_options *o, fs_err *err)
{
    if (o->steps < EXEC_ENDLESS)
        return data->come ? fs_fail(err, FS_INVALID,
                                    "a run of %" PRId64 " steps has no data "
                                    "that decides when it ends",
                                    o->steps)
                          : FS_OK;
    if (!data->come || !data->over)
        return fs_fail(err, FS_INVALID,
                       "a run without an end wants data that ends it");
    if (graph->loss >= 0 || o->saving || o->trace || o->progress || o->within ||
        o->n_fetch || o->n_watch)
        return fs_fail(err, FS_INVALID,
                       "a run without an end has no losses, checkpoints, "
                       "trace, progress, and nothing is fetched or watched");
    return FS_OK;
}

/* What decides the result beside the plan. */
static uint64_t digest_settings(const plan *p, const exec_data *data,
                                const exec_options *options)
{
    uint64_t digest = fs_hash(data->digest, &options->seed, sizeof(uint64_t));
    const ir_train_options *o = options->tuning;
    double values[6] = {0};
    if (o) {
        double said[] = {o->lr,    o->weight_decay, o->momentum,
                         o->beta1, o->beta2,        o->epsilon};
        memcpy(values, said, sizeof values);
    }
    digest = fs_hash(digest, values, sizeof values);
    digest = fs_hash(digest, &options->first_step, sizeof options->first_step);
    digest = fs_hash_text(digest, options->kernels ? options->kernels : "");
    digest = digest_variants(digest, options->figures);
    return options->choice ? digest ^ plan_choice_digest(p, options->choice)
                           : digest;
}

/* The first rank that has this digest. */
static int64_t who_has(exec_world *world, uint64_t digest, uint64_t own)
{
    int64_t rank = digest == own ? exec_world_rank(world) : INT64_MAX;
    exec_world_reduce(world, IR_PMIN, IR_I64, &rank, 1);
    return rank;
}

/* Ranks that run different plans would wait for each other for ever, and with
 * different settings they would train a mixture. */
static fs_status compare_plans(exec_world *world, const plan *p,
                               const exec_data *data,
                               const exec_options *options, fs_err *err)
{
    uint64_t low[3] = {p->digest, (uint64_t)options->steps,
                       digest_settings(p, data, options)};
    uint64_t high[3] = {low[0], low[1], low[2]};
    exec_world_reduce(world, IR_PMIN, IR_I64, low, 3);
    exec_world_reduce(world, IR_PMAX, IR_I64, high, 3);
    if (low[0] != high[0]) {
        int64_t of[2] = {who_has(world, low[0], p->digest),
                         who_has(world, high[0], p->digest)};
        const int first = of[0] < of[1] ? 0 : 1;
        char hex[2][17];
        fs_hex(low[0], hex[0]);
        fs_hex(high[0], hex[1]);
        return fs_fail(err, FS_INVALID,
                       "the ranks do not run the same plan: rank %" PRId64
                       " has digest %s, rank %" PRId64 " has %s",
                       of[first], hex[first], of[!first], hex[!first]);
    }
    if (low[1] != high[1])
        return fs_fail(err, FS_INVALID,
                       "the ranks do not run the same number of steps: %" PRId64
                       " to %" PRId64,
                       (int64_t)low[1], (int64_t)high[1]);
    if (low[2] != high[2])
        return fs_fail(err, FS_INVALID,
                       "the ranks do not train with the same data, seed, "
                       "first step, kernels, collectives, learning rate and "
                       "weight decay");
    return FS_OK;
}

/* Ranks of replicas must get the same bits: where one of them is on another
 * machine than the figures are of, none chooses by them. */
static void agree_on_figures(exec_world *world, exec_options *options)
{
    int64_t has = options->figures != NULL;
    exec_world_reduce(world, IR_PMIN, IR_I64, &has, 1);
    if (!has)
        options->figures = NULL;
}

/* ---- after ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise_steps(exec_rank *rank, exec_result *out)
{
    int64_t steps = out->steps, skip = rank->options->warmup;
    const int64_t first = rank->steps - steps;
    out->step_s = fs_new(rank->arena, double, steps);
    for (int64_t k = 0; k < steps; k++)
        out->step_s[k] = (double)exec_rank_step_ns(rank, first + k) * 1e-9;
    exec_world_reduce(rank->world, IR_PMAX, IR_F64, out->step_s, steps);
    if (skip < 0 || skip >= steps)
        skip = 0;
    size_t n = (size_t)(steps - skip);
    double *sorted =
        fs_memdup(rank->arena, out->step_s + skip, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_doubles);
    out->step_min_s = sorted[0];
    out->step_max_s = sorted[n - 1];
    out->step_median_s =
        n % 2 ? sorted[n / 2] : 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]);
}

static int64_t *from_all(exec_rank *rank, int64_t mine)
{
    int64_t *all = fs_new(rank->arena, int64_t, rank->world->size);
    all[rank->world->rank] = mine;
    exec_world_reduce(rank->world, IR_PSUM, IR_I64, all, rank->world->size);
    return all;
}

/* Resident now. */
static int64_t rss_bytes(void)
{
    long long total, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%lld %lld", &total, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return resident * sysconf(_SC_PAGESIZE);
}

static int64_t most_rss_bytes(void)
{
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage);
    return (int64_t)usage.ru_maxrss * 1024;
}

/* Where the process had more before the rank was made, its peak tells nothing.
 */
static int64_t rss_growth(const exec_rank *rank)
{
    int64_t most = most_rss_bytes();
    return (most > rank->most_before ? most : rss_bytes()) - rank->rss_before;
}

static void summarise_memory(exec_rank *rank, exec_result *out)
{
    out->peak_bytes = from_all(rank, rank->role->arena_bytes);
    out->touched_bytes = from_all(rank, exec_rank_touched_bytes(rank));
    out->process_bytes = from_all(rank, most_rss_bytes());
    out->workspace_bytes = from_all(rank, exec_rank_workspace(rank));
    out->rss_growth_bytes = from_all(rank, rss_growth(rank));
}

/* How many steps the ranks went on after the first bad loss hangs on when the
 * word reached them: they are not part of the result. */
static void cut_diverged(exec_rank *rank)
{
    for (int64_t k = 0; rank->early == EXEC_DIVERGES && k < rank->steps; k++)
        if (!isfinite(rank->losses[k]))
            rank->steps = k + 1;
}

static fs_status summarise(exec_rank *rank, fs_err *err, exec_result *out)
{
    exec_rank_share_losses(rank);
    cut_diverged(rank);
    /* Where steps were dropped, so was the end of the one before the first. */
    out->steps = rank->steps > rank->kept ? rank->kept - 1 : rank->steps;
    out->first_step = rank->first_step + rank->steps - out->steps;
    out->earlier = rank->earlier;
    out->losses = rank->losses;
    exec_rank_share_watched(rank);
    out->watched = rank->watched;
    summarise_steps(rank, out);
    summarise_memory(rank, out);
    out->weights_digest =
        rank->early == EXEC_DIVERGES ? 0 : exec_rank_digest(rank);
    exec_world_reduce(rank->world, IR_PSUM, IR_I64, &rank->outputs_digest, 1);
    out->outputs_digest = rank->outputs_digest;
    out->by_figures = rank->options->figures != NULL;
    out->measured = exec_rank_timing(rank);
    exec_rank_gather_trace(rank);
    return exec_rank_fetch(rank, err);
}

/* From here on steps count from those that were done before. */
static fs_status go_on(exec_rank *rank, exec_options *own,
                       const exec_data *data, fs_err *err)
{
    const exec_saving *saving = own->saving;
    rank->first_step = own->first_step;
    if (saving && saving->resume)
        FS_TRY(exec_rank_restore(rank, saving, data->digest, err));
    own->steps -= rank->first_step;
    return FS_OK;
}

static fs_status prepare(exec_rank *rank, const exec_data *data, fs_err *err)
{
    const char *weights = rank->options->weights;
    FS_TRY(exec_rank_open(rank, data, err));
    return weights && !rank->restored
               ? exec_rank_take_weights(rank, weights, err)
               : FS_OK;
}

static void finish_saving(exec_rank *rank)
{
    const char *cause;
    if (rank->saver && !exec_saver_finish(rank->saver, &cause))
        exec_rank_fail(rank, EXEC_DISK, cause);
}

fs_status exec_run(exec_world *world, const ir_graph *graph,
                   const hw_cluster *cluster, const plan *p,
                   const exec_data *data, const exec_options *options,
                   fs_arena *arena, fs_err *err, exec_result *out)
{
    (void)cluster;
    exec_result result = {0};
    exec_rank rank;
    exec_options own = *options;
    FS_TRY(check_world(world, p, options, err));
    agree_on_figures(world, &own);
    FS_TRY(check_end(graph, data, options, err));
    FS_TRY(check_first(graph, options, err));
    FS_TRY(compare_plans(world, p, data, &own, err));
    fs_return_freed(); /* a plan's text, of any size */
    const int64_t rss = rss_bytes(), most = most_rss_bytes();
    fs_status status =
        exec_rank_begin(world, graph, p, &own, arena, err, &rank);
    rank.rss_before = rss;
    rank.most_before = most;
    /* A rank that went on alone would hang. */
    status = exec_world_agree(world, status, err);
    if (status == FS_OK)
        status = go_on(&rank, &own, data, err);
    if (status == FS_OK)
        status = exec_world_agree(world, prepare(&rank, data, err), err);
    if (status == FS_OK)
        status = exec_saver_open(&rank, data->digest, err, &rank.saver);
    if (status == FS_OK) {
        exec_rank_join(&rank);
        exec_rank_plan_losses(&rank);
        exec_world_barrier(world);
        exec_rank_plan_stop(&rank);
        exec_rank_run(&rank);
        if (!rank.fault)
            finish_saving(&rank);
        status = rank.fault ? fs_fail(err, FS_FAULT, "%s", rank.fault)
                            : summarise(&rank, err, &result);
    }
    exec_saver_close(rank.saver);
    exec_rank_close(&rank);
    if (status == FS_OK)
        *out = result;
    return status;
}
