#include "config.h"
#include "exec/loader.h"

#include "base/clock.h"
#include "exec/binding.h"
#include "exec/world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Handing a job over takes a wake of tens of microseconds, of a thread that may
 * have to share the core of the one that polls. What fills its piece in less
 * does so at once, and the poll is kept waiting no longer than by a kernel. */
enum { AT_ONCE_NS = 20000 };

/* A ring whose slots tell themselves whether they are full: what goes from one
 * core to the other is one line of it, and one of the job. */
struct exec_loader {
    const exec_data *data;
    uint32_t room;             /* a power of two */
    _Atomic(exec_job *) *ring; /* empty once its job is done */
    exec_parker *poller;
    bool spins; /* before it sleeps: no rank needs its core */
    bool started;
    pthread_t thread;
    _Atomic bool stopping;
    uint32_t tail; /* where the poll puts, */
    char apart[64];
    uint32_t head; /* where the thread takes */
    exec_parker parker;
    fs_err err;
};

exec_loader *exec_loader_create(exec_world *world, const exec_data *data,
                                int32_t jobs)
{
    exec_loader *loader =
        exec_world_alloc(world, 1, sizeof *loader, "the loader");
    loader->data = data;
    loader->poller = &exec_world_bell(world)->parker;
    loader->spins = 2 * world->on_host <= world->cores;
    loader->room = 1;
    while ((int32_t)loader->room < jobs)
        loader->room *= 2;
    loader->ring = exec_world_alloc(world, loader->room, sizeof *loader->ring,
                                    "the loader's jobs");
    return loader;
}

static _Atomic(exec_job *) *slot(const exec_loader *loader, uint32_t at)
{
    return &loader->ring[at & (loader->room - 1)];
}

static exec_job *job_at(const exec_loader *loader, uint32_t at)
{
    return atomic_load_explicit(slot(loader, at), memory_order_acquire);
}

static bool may_spin(const exec_loader *loader, int64_t begin_ns)
{
    return loader->spins && fs_now_ns() - begin_ns < loader->parker.wake_ns;
}

/* NULL when the loader is to end. */
static exec_job *wait_for_job(exec_loader *loader)
{
    enum { LOOKS = 8, MOST_NS = 1000000000 };
    const int64_t begin_ns = fs_now_ns();
    exec_job *job = job_at(loader, loader->head);
    while (!job && !atomic_load(&loader->stopping)) {
        if (!may_spin(loader, begin_ns))
            exec_parker_sleep(&loader->parker, MOST_NS);
        for (int i = 0; i < LOOKS && !job; i++) {
            exec_relax();
            job = job_at(loader, loader->head);
        }
    }
    return job;
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
    int state = EXEC_JOB_DONE;
    exec_job *job;
    exec_bind_helper();
    while (state == EXEC_JOB_DONE && (job = wait_for_job(loader))) {
        state = fill(loader, job);
        atomic_store_explicit(slot(loader, loader->head++), NULL,
                              memory_order_release);
        atomic_store_explicit(&job->state, state, memory_order_release);
        exec_parker_wake(loader->poller);
    }
    return NULL;
}

/* While the thread has no other job: the data is asked by one at a time. What
 * is not read yet is waited for by the thread. */
static bool is_short(exec_loader *loader, const exec_job *job)
{
    const exec_data *data = loader->data;
    return job->took_ns > 0 && job->took_ns < AT_ONCE_NS &&
           !job_at(loader, loader->tail - 1) &&
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
    atomic_store_explicit(&job->state, EXEC_JOB_OPEN, memory_order_relaxed);
    FS_ASSERT(!job_at(loader, loader->tail));
    atomic_store_explicit(slot(loader, loader->tail++), job,
                          memory_order_release);
    if (!loader->started) {
        loader->started = true;
        int code = pthread_create(&loader->thread, NULL, run_loader, loader);
        FS_ASSERT(code == 0);
    }
    exec_parker_wake(&loader->parker);
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

int64_t exec_loader_wake_ns(const exec_loader *loader)
{
    return loader->parker.wake_ns;
}

void exec_loader_destroy(exec_loader *loader)
{
    if (!loader)
        return;
    if (loader->started) {
        atomic_store(&loader->stopping, true);
        exec_parker_wake(&loader->parker);
        pthread_join(loader->thread, NULL);
    }
    free(loader->ring);
    free(loader);
}
