#include "config.h"
#include "exec/saver.h"

#include "base/clock.h"
#include "base/crc.h"
#include "exec/binding.h"
#include "exec/checkpoint.h"
#include "exec/failpoint.h"
#include "exec/safetensors.h"
#include "exec/shard.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* A variable to be written, or (shard -1) the end of a step. */
typedef struct saver_job {
    int64_t step; /* steps done, of the whole run */
    int32_t shard;
} saver_job;

/* A checkpoint that this rank is writing. */
typedef struct writing {
    int64_t step; /* 0: free */
    int file;
    int32_t written;
    bool ended;    /* the step has */
    bool awaited;  /* rank 0: this rank's part is there, others' may not be */
    uint32_t head_crc;
    uint32_t *crc; /* [n_mine] */
} writing;
enum { MOST_WRITING = 8 };

struct exec_saver {
    exec_rank *rank;
    const exec_saving *options;
    exec_about about;
    int64_t last;    /* steps of the whole run */
    int64_t ends_at; /* the next step whose end is to be told */
    int lock;        /* rank 0 */
    exec_failpoints *points;

    exec_shards shards;
    int32_t n_mine;
    int32_t *mine;        /* [n_mine] indices of shards */
    int32_t *of_register; /* [registers] index in `mine`, or -1 */
    exec_saved *saved;    /* [n_mine] where they lie in the file */
    char *head;
    int64_t head_bytes;

    /* Jobs from the rank's thread to the saver's, done in order: [freed, head)
     * are written and not yet let go. */
    uint32_t room; /* a power of two */
    saver_job *ring;
    uint32_t freed;
    _Atomic uint32_t head_at, tail;
    sem_t wake;
    _Atomic bool stopping, failed;
    _Atomic int32_t awaited;  /* commits to come */
    _Atomic int64_t moved;    /* bytes written, so that one sees it go on */
    _Atomic int64_t syncs_ns; /* since when the disk is waited for; 0 */
    int64_t seen;             /* of `moved` */
    bool started;
    pthread_t thread;

    /* The thread's own. */
    fs_arena *arena;
    writing writing[MOST_WRITING];
    char cause[512];
};

/* ---- the thread: writing ---- */

static void fail(exec_saver *s, const char *what, int fault)
{
    snprintf(s->cause, sizeof s->cause, "%.380s: cannot be written: %.100s",
             what, strerror(fault));
    atomic_store(&s->failed, true);
}

/* That is no hang, here and for who watches. */
static void wait_for_disk(exec_saver *s, bool waits)
{
    atomic_store(&s->syncs_ns, waits ? fs_now_ns() : INT64_C(0));
    exec_recorder_saving(&s->rank->world->recorder, waits);
}

static const char *folder_of(exec_saver *s, int64_t step)
{
    return exec_checkpoint_path(s->options->dir, step, true, s->arena);
}

static const char *file_of(exec_saver *s, int64_t step)
{
    return fs_printf(s->arena, "%s/rank-%d.safetensors", folder_of(s, step),
                     s->rank->world->rank);
}

/* In parts, whose bytes the sum finds in the cache. */
static int write_summed(exec_saver *s, int file, const char *from,
                        int64_t bytes, int64_t at, uint32_t *crc)
{
    enum { PART = 1 << 20 };
    while (bytes > 0) {
        const size_t n = bytes < PART ? (size_t)bytes : PART;
        *crc = fs_crc32c(*crc, from, n);
        for (size_t done = 0; done < n;) {
            const ssize_t wrote =
                pwrite(file, from + done, n - done, at + (int64_t)done);
            if (wrote < 0 && errno != EINTR)
                return errno;
            done += wrote > 0 ? (size_t)wrote : 0;
        }
        from += n;
        at += (int64_t)n;
        bytes -= (int64_t)n;
        atomic_fetch_add(&s->moved, (int64_t)n);
    }
    return 0;
}

static int begin(exec_saver *s, writing *w, int64_t step)
{
    w->step = step;
    w->file = -1;
    w->head_crc = 0;
    w->written = 0;
    w->ended = w->awaited = false;
    if (mkdir(folder_of(s, step), 0777) != 0 && errno != EEXIST)
        return errno;
    if (s->n_mine == 0)
        return 0;
    w->file =
        open(file_of(s, step), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    if (w->file < 0)
        return errno;
    return write_summed(s, w->file, s->head, s->head_bytes, 0, &w->head_crc);
}

static writing *writing_of(exec_saver *s, int64_t step)
{
    writing *free_one = NULL;
    for (int i = 0; i < MOST_WRITING; i++) {
        if (s->writing[i].step == step)
            return &s->writing[i];
        if (s->writing[i].step == 0 && !free_one)
            free_one = &s->writing[i];
    }
    FS_ASSERT(free_one); /* the rank's thread opens no more */
    const int fault = begin(s, free_one, step);
    if (fault)
        fail(s, file_of(s, step), fault);
    return fault ? NULL : free_one;
}

static void write_shard(exec_saver *s, writing *w, int32_t k)
{
    const exec_shard *shard = &s->shards.at[s->mine[k]];
    int fault = exec_failpoint_come(s->points, EXEC_AT_SAVE);
    w->crc[k] = 0;
    if (!fault)
        fault = write_summed(s, w->file, exec_shard_data(s->rank, shard),
                             shard->bytes, s->saved[k].at, &w->crc[k]);
    if (fault)
        fail(s, file_of(s, w->step), fault);
    w->written++;
}

/* ---- the thread: the end of a step ---- */

static json_t *list_of(int32_t n, const int64_t *values)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(values[i]));
    return list;
}

static const char *crc_text(uint32_t crc, char room[16])
{
    snprintf(room, 16, "%08x", crc);
    return room;
}

static json_t *piece_json(const exec_saver *s, const writing *w, int32_t k)
{
    const exec_shard *shard = &s->shards.at[s->mine[k]];
    const ir_tensor *t = &s->rank->graph->tensors.at[shard->tensor];
    const int32_t rank = t->shape.rank;
    char crc[16];
    crc_text(w->crc[k], crc);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:i, s:i, s:I, s:I, s:s}",
                     "tensor", t->name, "dtype", ir_dtype_name(t->dtype),
                     "whole", list_of(rank, t->shape.dim), "shape",
                     list_of(rank, shard->box.shape.dim), "offset",
                     list_of(rank, shard->box.offset), "term", shard->term,
                     "terms", shard->terms, "at", (json_int_t)s->saved[k].at,
                     "bytes", (json_int_t)shard->bytes, "crc", crc);
}

static bool tells_losses(const exec_saver *s)
{
    return s->rank->world->rank == s->rank->loss_rank;
}

/* Of what has diverged there is no checkpoint. */
static bool is_sound(const exec_saver *s, int64_t step)
{
    const exec_rank *r = s->rank;
    for (int64_t k = r->first_step; tells_losses(s) && k < step; k++)
        if (r->options->stop_early && !isfinite(r->losses[k - r->first_step]))
            return false;
    return true;
}

static int write_losses(exec_saver *s, int64_t step, json_t *part)
{
    const exec_rank *r = s->rank;
    const char *path = fs_printf(s->arena, "%s/losses.f64", folder_of(s, step));
    double *all = malloc((size_t)step * sizeof *all);
    char crc[16];
    if (!all)
        return ENOMEM;
    for (int64_t k = 0; k < step; k++)
        all[k] = k < r->first_step ? (r->earlier ? r->earlier[k] : NAN)
                                   : r->losses[k - r->first_step];
    const size_t bytes = (size_t)step * sizeof *all;
    json_object_set_new(part, "losses",
                        json_string(crc_text(fs_crc32c(0, all, bytes), crc)));
    const int fault =
        exec_write_durable(path, (const char *)all, bytes, s->arena);
    free(all);
    return fault;
}

static int sync_file(exec_saver *s, writing *w)
{
    int fault = exec_failpoint_come(s->points, EXEC_AT_SYNC);
    if (w->file < 0)
        return fault;
    if (!fault && fdatasync(w->file) != 0)
        fault = errno;
    if (close(w->file) != 0 && !fault)
        fault = errno;
    w->file = -1;
    return fault;
}

static json_t *part_json(exec_saver *s, const writing *w)
{
    json_t *part = json_object();
    json_t *pieces = json_array();
    int64_t bytes = s->head_bytes;
    char crc[16];
    for (int32_t k = 0; k < s->n_mine; k++) {
        json_array_append_new(pieces, piece_json(s, w, k));
        bytes = s->saved[k].at + s->shards.at[s->mine[k]].bytes;
    }
    json_object_set_new(part, "pieces", pieces);
    if (s->n_mine == 0)
        return part;
    json_object_set_new(part, "file",
                        json_string(fs_printf(s->arena, "rank-%d.safetensors",
                                              s->rank->world->rank)));
    json_object_set_new(part, "bytes", json_integer(bytes));
    json_object_set_new(part, "head",
                        json_pack("{s:I, s:s}", "bytes",
                                  (json_int_t)s->head_bytes, "crc",
                                  crc_text(w->head_crc, crc)));
    return part;
}

/* All of this rank is written: onto the disk with it, then its part of the
 * manifest. */
static void end_writing(exec_saver *s, writing *w)
{
    wait_for_disk(s, true);
    int fault = sync_file(s, w);
    const bool sound = is_sound(s, w->step);
    json_t *part = part_json(s, w);
    if (!fault && sound && tells_losses(s))
        fault = write_losses(s, w->step, part);
    if (!fault && sound)
        fault =
            exec_checkpoint_part(folder_of(s, w->step), s->rank->world->rank,
                                 json_incref(part), s->arena);
    json_decref(part);
    wait_for_disk(s, false);
    if (fault)
        fail(s, file_of(s, w->step), fault);
    w->awaited = s->rank->world->rank == 0 && sound;
    if (!w->awaited) {
        w->step = 0;
        if (s->rank->world->rank == 0)
            atomic_fetch_sub(&s->awaited, 1);
    }
}

/* Rank 0: those that are whole become checkpoints, the oldest first. */
static void commit_whole(exec_saver *s)
{
    for (int i = 0; i < MOST_WRITING; i++) {
        writing *w = &s->writing[i];
        const char *what;
        if (w->step == 0 || !w->awaited ||
            !exec_checkpoint_whole(folder_of(s, w->step), s->about.ranks))
            continue;
        wait_for_disk(s, true);
        const int fault = exec_checkpoint_commit(s->options->dir, w->step,
                                                 &s->about, s->options->keep,
                                                 s->points, s->arena, &what);
        wait_for_disk(s, false);
        atomic_fetch_add(&s->moved, 1);
        if (fault)
            fail(s, what, fault);
        w->step = 0;
        atomic_fetch_sub(&s->awaited, 1);
    }
}

static void do_job(exec_saver *s, const saver_job *job)
{
    writing *w = writing_of(s, job->step);
    if (!w)
        return;
    if (job->shard >= 0)
        write_shard(s, w, job->shard);
    else
        w->ended = true;
    if (w->ended && w->written == s->n_mine && !atomic_load(&s->failed))
        end_writing(s, w);
}

/* While a commit waits for others it is looked after; else the thread sleeps
 * until there is a job. */
static void wait_for_job(exec_saver *s)
{
    enum { LOOK_NS = 2000000 };
    bool awaits = false;
    for (int i = 0; i < MOST_WRITING; i++)
        awaits |= s->writing[i].step > 0 && s->writing[i].awaited;
    if (!awaits) {
        while (sem_wait(&s->wake) != 0 && errno == EINTR) {
        }
        return;
    }
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    sem_timedwait(&s->wake, &until);
}

/* Names of files, which nobody keeps. */
static void forget_names(exec_saver *s)
{
    enum { MUCH = 1 << 16 };
    if (fs_arena_bytes(s->arena) < MUCH)
        return;
    fs_arena_destroy(s->arena);
    s->arena = fs_arena_create();
}

static void *run_saver(void *ctx)
{
    exec_saver *s = ctx;
    exec_bind_helper();
    while (!atomic_load(&s->stopping)) {
        const uint32_t at = atomic_load(&s->head_at);
        if (at != atomic_load(&s->tail)) {
            if (!atomic_load(&s->failed))
                do_job(s, &s->ring[at & (s->room - 1)]);
            atomic_store(&s->head_at, at + 1);
            exec_parker_wake(&exec_world_bell(s->rank->world)->parker);
        } else {
            wait_for_job(s);
        }
        if (!atomic_load(&s->failed))
            commit_whole(s);
        forget_names(s);
    }
    return NULL;
}

/* ---- the rank's thread ---- */

bool exec_saver_is_due(const exec_saver *s, int64_t step)
{
    const int64_t done = s->rank->first_step + step + 1,
                  every = s->options->every;
    return done == s->last || (every > 0 && done % every == 0);
}

static void submit(exec_saver *s, int64_t step, int32_t shard)
{
    const uint32_t tail = atomic_load(&s->tail);
    FS_ASSERT(tail - s->freed < s->room);
    s->ring[tail & (s->room - 1)] = (saver_job){step, shard};
    atomic_store(&s->tail, tail + 1);
    if (!s->started) {
        s->started = true;
        const int code = pthread_create(&s->thread, NULL, run_saver, s);
        FS_ASSERT(code == 0);
    }
    sem_post(&s->wake);
}

static bool has_update(const exec_saver *s, int32_t k)
{
    const int32_t reg = s->shards.at[s->mine[k]].reg;
    return s->rank->role->registers[reg].producer >= 0;
}

void exec_saver_made(exec_saver *s, const plan_task *task, int64_t step)
{
    for (int32_t i = 0; i < task->n_out; i++) {
        const int32_t k = s->of_register[task->out[i]];
        if (k < 0 || s->rank->role->registers[task->out[i]].producer !=
                         (int32_t)(task - s->rank->role->tasks))
            continue;
        plan_actor_hold(s->rank->actors, task->out[i]);
        submit(s, s->rank->first_step + step + 1, k);
    }
}

static int64_t next_due(const exec_saver *s, int64_t step)
{
    while (!exec_saver_is_due(s, step))
        step++;
    return step;
}

/* Steps that have ended since; only a few may be in the thread's hands. */
static void tell_ends(exec_saver *s)
{
    const exec_rank *r = s->rank;
    while (s->ends_at < r->steps_done && s->ends_at < r->options->steps &&
           atomic_load(&s->tail) - s->freed + (uint32_t)s->n_mine + 1 <
               s->room) {
        const int64_t done = r->first_step + s->ends_at + 1;
        for (int32_t k = 0; k < s->n_mine; k++)
            if (!has_update(s, k))
                submit(s, done, k);
        if (r->world->rank == 0)
            atomic_fetch_add(&s->awaited, 1);
        submit(s, done, -1);
        s->ends_at =
            done == s->last ? r->options->steps : next_due(s, s->ends_at + 1);
    }
}

bool exec_saver_poll(exec_saver *s, const char **cause)
{
    const uint32_t done = atomic_load(&s->head_at);
    for (; s->freed != done; s->freed++) {
        const saver_job *job = &s->ring[s->freed & (s->room - 1)];
        if (job->shard < 0 || !has_update(s, job->shard))
            continue;
        plan_actor_let_go(s->rank->actors,
                          s->shards.at[s->mine[job->shard]].reg);
        exec_rank_wake(s->rank);
    }
    if (s->ends_at < s->rank->steps_done)
        tell_ends(s);
    if (!atomic_load(&s->failed))
        return true;
    *cause = s->cause;
    return false;
}

bool exec_saver_moves(exec_saver *s, int64_t now_ns)
{
    const int64_t patience_ns = INT64_C(600000000000);
    const int64_t syncs_ns = atomic_load(&s->syncs_ns),
                  moved = atomic_load(&s->moved);
    if (syncs_ns > 0)
        return now_ns - syncs_ns < patience_ns;
    const bool moves = moved != s->seen;
    s->seen = moved;
    return moves;
}

bool exec_saver_finish(exec_saver *s, const char **cause)
{
    const struct timespec nap = {0, 200000};
    for (;;) {
        if (!exec_saver_poll(s, cause))
            return false;
        const bool done = s->freed == atomic_load(&s->tail);
        if (done &&
            (atomic_load(&s->awaited) == 0 || s->rank->early == EXEC_DIVERGES))
            return true;
        const int64_t now_ns = fs_now_ns();
        if (exec_saver_moves(s, now_ns))
            exec_rank_moves(s->rank, now_ns);
        nanosleep(&nap, NULL);
    }
}

/* ---- opening ---- */

static void list_mine(exec_saver *s)
{
    fs_arena *arena = s->rank->arena;
    const int32_t n = s->rank->role->n_registers;
    s->shards = exec_shards_of(s->rank);
    s->mine = fs_new(arena, int32_t, s->shards.n + 1);
    s->saved = fs_new(arena, exec_saved, s->shards.n + 1);
    s->of_register = fs_new(arena, int32_t, n + 1);
    for (int32_t i = 0; i < n; i++)
        s->of_register[i] = -1;
    for (int32_t i = 0; i < s->shards.n; i++) {
        const exec_shard *shard = &s->shards.at[i];
        if (!shard->mine)
            continue;
        s->of_register[shard->reg] = s->n_mine;
        s->saved[s->n_mine] = (exec_saved){
            .name = exec_shard_name(s->rank->graph, shard, arena),
            .dtype = s->rank->graph->tensors.at[shard->tensor].dtype,
            .shape = shard->box.shape};
        s->mine[s->n_mine++] = i;
    }
    s->head = exec_safetensors_head(s->n_mine, s->saved, arena, &s->head_bytes);
    for (int i = 0; i < MOST_WRITING; i++)
        s->writing[i].crc = fs_new(arena, uint32_t, s->n_mine + 1);
}

fs_status exec_saver_open(exec_rank *rank, uint64_t data_digest, fs_err *err,
                          exec_saver **out)
{
    const exec_saving *options = rank->options->saving;
    *out = NULL;
    if (!options || !options->dir)
        return FS_OK;
    exec_saver *s =
        exec_world_alloc(rank->world, 1, sizeof *s, "the checkpoints' thread");
    s->rank = rank;
    s->options = options;
    s->last = rank->first_step + rank->options->steps;
    s->lock = -1;
    s->points = exec_world_failpoints(rank->world);
    s->about =
        (exec_about){.batch = rank->plan->strategy->batch,
                     .seed = rank->options->seed,
                     .data_digest = data_digest,
                     .model_digest = rank->graph->digest,
                     .plan_digest = rank->plan->digest,
                     .tuned = exec_tuned_of(rank->graph, rank->options->tuning,
                                            &options->planned, rank->arena),
                     .ranks = rank->world->size};
    if (rank->world->rank == 0)
        s->about.kernels_digest = exec_rank_kernels_digest(rank);
    s->arena = fs_arena_create();
    sem_init(&s->wake, 0, 0);
    list_mine(s);
    s->room = 64;
    while ((int32_t)s->room < 2 * s->n_mine + 64)
        s->room *= 2;
    s->ring = exec_world_alloc(rank->world, s->room, sizeof *s->ring,
                               "variables to be saved");
    s->ends_at = next_due(s, 0);
    *out = s;
    fs_status status =
        rank->world->rank == 0
            ? exec_checkpoints_open(options->dir, rank->arena, err, &s->lock)
            : FS_OK;
    return exec_world_agree(rank->world, status, err);
}

void exec_saver_close(exec_saver *s)
{
    if (!s)
        return;
    if (s->started) {
        atomic_store(&s->stopping, true);
        sem_post(&s->wake);
        pthread_join(s->thread, NULL);
    }
    for (int i = 0; i < MOST_WRITING; i++)
        if (s->writing[i].step > 0 && s->writing[i].file >= 0)
            close(s->writing[i].file);
    if (s->lock >= 0) {
        exec_checkpoints_tidy(s->options->dir, s->arena);
        close(s->lock);
    }
    sem_destroy(&s->wake);
    fs_arena_destroy(s->arena);
    free(s->ring);
    free(s);
}
