#include "config.h"
#include "exec/loader.h"

#include "base/clock.h"
#include "exec/world.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Handing a job over takes a wake of tens of microseconds, of a thread that may
 * have to share the core of the one that polls. What fills its piece in less
 * does so at once, and the poll is kept waiting no longer than by a kernel. */
enum { AT_ONCE_NS = 20000 };

struct exec_loader {
    const exec_data *data;
    uint32_t room; /* a power of two */
    exec_job **ring;
    _Atomic uint32_t head, tail; /* taken from head, put at tail */
    _Atomic bool stopping, asleep;
    bool started;
    pthread_t thread;
    sem_t wake; /* posted by who finds it asleep: no lock on the poll's path */
    fs_err err;
};

exec_loader *exec_loader_create(exec_world *world, const exec_data *data,
                                int32_t jobs)
{
    exec_loader *loader =
        exec_world_alloc(world, 1, sizeof *loader, "the loader");
    loader->data = data;
    loader->room = 1;
    while ((int32_t)loader->room < jobs)
        loader->room *= 2;
    loader->ring = exec_world_alloc(world, loader->room, sizeof *loader->ring,
                                    "the loader's jobs");
    sem_init(&loader->wake, 0, 0);
    return loader;
}

static bool is_empty(exec_loader *loader)
{
    return atomic_load(&loader->head) == atomic_load(&loader->tail);
}

/* False when the loader is to end. */
static bool wait_for_job(exec_loader *loader)
{
    for (int spin = 0; spin < 16; spin++) {
        if (!is_empty(loader))
            return true;
        sched_yield();
    }
    /* Either this sees the job, or who puts it there sees this asleep; a wake
     * that is left over costs one more round. */
    while (is_empty(loader) && !atomic_load(&loader->stopping)) {
        atomic_store(&loader->asleep, true);
        if (is_empty(loader) && !atomic_load(&loader->stopping))
            sem_wait(&loader->wake);
        atomic_store(&loader->asleep, false);
    }
    return !is_empty(loader);
}

/* The state that the job is in then. */
static int fill(exec_loader *loader, exec_job *job)
{
    const int64_t start_ns = fs_now_ns();
    const fs_status status = loader->data->fill(
        loader->data->ctx, job->name, job->sample, job->dtype, &job->local,
        job->offset, job->batch_axis, job->out, &loader->err);
    job->took_ns = fs_now_ns() - start_ns;
    return status == FS_OK ? EXEC_JOB_DONE : EXEC_JOB_FAILED;
}

static void *run_loader(void *ctx)
{
    exec_loader *loader = ctx;
    while (wait_for_job(loader)) {
        uint32_t head = atomic_load(&loader->head);
        exec_job *job = loader->ring[head & (loader->room - 1)];
        const int state = fill(loader, job);
        atomic_store(&loader->head, head + 1);
        atomic_store_explicit(&job->state, state, memory_order_release);
        if (state == EXEC_JOB_FAILED)
            break;
    }
    return NULL;
}

static void wake(exec_loader *loader)
{
    if (atomic_exchange(&loader->asleep, false))
        sem_post(&loader->wake);
}

/* While the thread has no other job: the data is asked by one at a time. What
 * is not read yet is waited for by the thread. */
static bool is_short(exec_loader *loader, const exec_job *job)
{
    const exec_data *data = loader->data;
    return job->took_ns > 0 && job->took_ns < AT_ONCE_NS && is_empty(loader) &&
           (!data->ready || data->ready(data->ctx, job->name, job->sample));
}

static bool has_come(const exec_loader *loader, const exec_job *job)
{
    const exec_data *data = loader->data;
    return !data->come || data->come(data->ctx, job->sample);
}

void exec_loader_submit(exec_loader *loader, exec_job *job)
{
    if (!has_come(loader, job)) {
        atomic_store_explicit(&job->state, EXEC_JOB_AWAITED,
                              memory_order_relaxed);
        return;
    }
    if (is_short(loader, job)) {
        atomic_store_explicit(&job->state, fill(loader, job),
                              memory_order_relaxed);
        return;
    }
    atomic_store(&job->state, EXEC_JOB_OPEN);
    uint32_t tail = atomic_load(&loader->tail);
    FS_ASSERT(tail - atomic_load(&loader->head) < loader->room);
    loader->ring[tail & (loader->room - 1)] = job;
    atomic_store(&loader->tail, tail + 1);
    if (!loader->started) {
        loader->started = true;
        int code = pthread_create(&loader->thread, NULL, run_loader, loader);
        FS_ASSERT(code == 0);
    }
    wake(loader);
}

int exec_loader_look(exec_loader *loader, exec_job *job)
{
    if (atomic_load_explicit(&job->state, memory_order_relaxed) ==
        EXEC_JOB_AWAITED)
        exec_loader_submit(loader, job);
    return atomic_load_explicit(&job->state, memory_order_acquire);
}

const fs_err *exec_loader_error(const exec_loader *loader)
{
    return &loader->err;
}

void exec_loader_destroy(exec_loader *loader)
{
    if (!loader)
        return;
    if (loader->started) {
        atomic_store(&loader->stopping, true);
        wake(loader);
        pthread_join(loader->thread, NULL);
    }
    sem_destroy(&loader->wake);
    free(loader->ring);
    free(loader);
}
