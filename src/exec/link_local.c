/* Ranks that are threads of one process. Who comes second copies: a message
 * waits for nobody else and needs no buffer. */
#include "config.h"
#include "exec/world.h"

#include "exec/binding.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One end of a message. It belongs to the rank that posted it; whoever copies
 * says so in `done` and does not look at it again. */
typedef struct exec_post {
    bool sends;
    int32_t from, tag;
    exec_part part;
    void *base;
    atomic_bool done;
    struct exec_post *next;
} exec_post;

/* Ends that have not found each other, of all messages to one rank, in order.
 */
typedef struct mailbox {
    pthread_mutex_t lock;
    exec_post *first;
} mailbox;

struct exec_hub {
    int32_t n;
    mailbox *boxes;
    pthread_barrier_t meeting;
    void **shown;             /* [n] what each rank brings to a meeting */
    exec_bell *bell, **bells; /* [n] */
};

/* ---- messages ---- */

static void local_prepare(exec_world *world, exec_layout *layout)
{
    (void)world;
    (void)layout;
}

static void local_release(exec_layout *layout)
{
    (void)layout;
}

static void copy_between(exec_post *a, exec_post *b)
{
    const exec_post *source = a->sends ? a : b;
    const exec_post *target = a->sends ? b : a;
    exec_part_copy(&source->part, source->base, &target->part, target->base);
    atomic_store_explicit(&a->done, true, memory_order_release);
    atomic_store_explicit(&b->done, true, memory_order_release);
}

/* Takes the first fitting end out of the box, or puts this one in. */
static exec_post *find_other(mailbox *box, exec_post *post)
{
    exec_post **at = &box->first, *found;
    pthread_mutex_lock(&box->lock);
    while (*at && ((*at)->sends == post->sends || (*at)->from != post->from ||
                   (*at)->tag != post->tag))
        at = &(*at)->next;
    found = *at;
    *at = found ? found->next : post;
    pthread_mutex_unlock(&box->lock);
    return found;
}

static void post_end(exec_world *world, exec_post end, int32_t to,
                     exec_request *request)
{
    exec_post *post = exec_world_alloc(world, 1, sizeof *post, "a message");
    *post = end;
    request->post = post;
    exec_post *other = find_other(&world->hub->boxes[to], post);
    if (other)
        copy_between(post, other);
}

static void local_send(exec_world *world, const void *base,
                       const exec_layout *layout, int32_t peer, int tag,
                       exec_request *request)
{
    post_end(world,
             (exec_post){.sends = true,
                         .from = world->rank,
                         .tag = tag,
                         .part = layout->part,
                         .base = (void *)(uintptr_t)base},
             peer, request);
}

static void local_recv(exec_world *world, void *base, const exec_layout *layout,
                       int32_t peer, int tag, exec_request *request)
{
    post_end(world,
             (exec_post){
                 .from = peer, .tag = tag, .part = layout->part, .base = base},
             world->rank, request);
}

static int local_poll(exec_world *world, int n, exec_request *request,
                      int *index)
{
    int done = 0;
    (void)world;
    for (int i = 0; i < n; i++) {
        exec_post *post = request[i].post;
        if (!post || !atomic_load_explicit(&post->done, memory_order_acquire))
            continue;
        free(post);
        request[i].post = NULL;
        index[done++] = i;
    }
    return done;
}

/* ---- all ranks together ---- */

static void show(exec_world *world, void *data)
{
    world->hub->shown[world->rank] = data;
    pthread_barrier_wait(&world->hub->meeting);
}

static void local_reduce(exec_world *world, ir_sbp_kind kind, ir_dtype dtype,
                         void *data, int64_t count)
{
    const size_t bytes = (size_t)(count * ir_dtype_bytes(dtype));
    char *all = exec_world_alloc(world, 1, bytes, "a reduction");
    show(world, data);
    memcpy(all, world->hub->shown[0], bytes);
    for (int32_t r = 1; r < world->size; r++)
        exec_fold(kind, dtype, all, world->hub->shown[r], count);
    pthread_barrier_wait(&world->hub->meeting);
    memcpy(data, all, bytes);
    free(all);
}

static void local_bcast(exec_world *world, void *data, int64_t bytes,
                        int32_t root)
{
    show(world, data);
    if (world->rank != root)
        memcpy(data, world->hub->shown[root], (size_t)bytes);
    pthread_barrier_wait(&world->hub->meeting);
}

static void local_barrier(exec_world *world)
{
    pthread_barrier_wait(&world->hub->meeting);
}

/* The threads end with the process. */
static void local_abort(exec_world *world)
{
    (void)world;
}

const exec_link exec_link_local = {.prepare = local_prepare,
                                   .release = local_release,
                                   .send = local_send,
                                   .recv = local_recv,
                                   .none = {.post = NULL},
                                   .poll = local_poll,
                                   .reduce = local_reduce,
                                   .bcast = local_bcast,
                                   .barrier = local_barrier,
                                   .abort = local_abort};

/* ---- the ranks ---- */

typedef struct thread_of_rank {
    exec_world world;
    exec_thread_fn *run;
    void *ctx;
    pthread_t id;
} thread_of_rank;

static void *run_thread(void *arg)
{
    thread_of_rank *t = arg;
    t->run(&t->world, t->ctx);
    return NULL;
}

static void open_hub(struct exec_hub *hub, int32_t n)
{
    hub->n = n;
    hub->boxes = calloc((size_t)n, sizeof *hub->boxes);
    hub->shown = calloc((size_t)n, sizeof *hub->shown);
    hub->bell = calloc((size_t)n, sizeof *hub->bell);
    hub->bells = calloc((size_t)n, sizeof *hub->bells);
    FS_ASSERT(hub->boxes && hub->shown && hub->bell && hub->bells);
    pthread_barrier_init(&hub->meeting, NULL, (unsigned)n);
    for (int32_t i = 0; i < n; i++) {
        pthread_mutex_init(&hub->boxes[i].lock, NULL);
        hub->bells[i] = &hub->bell[i];
    }
}

static void close_hub(struct exec_hub *hub)
{
    for (int32_t i = 0; i < hub->n; i++)
        pthread_mutex_destroy(&hub->boxes[i].lock);
    pthread_barrier_destroy(&hub->meeting);
    free(hub->boxes);
    free(hub->shown);
    free(hub->bell);
    free(hub->bells);
}

fs_status exec_world_threads(int32_t n, exec_thread_fn *run, void *ctx,
                             fs_err *err)
{
    struct exec_hub hub;
    thread_of_rank *threads = calloc((size_t)n, sizeof *threads);
    if (!threads)
        return fs_fail(err, FS_FAULT, "out of memory for %d ranks", n);
    open_hub(&hub, n);
    for (int32_t r = 0; r < n; r++) {
        thread_of_rank *t = &threads[r];
        *t = (thread_of_rank){
            .world = {.rank = r,
                      .size = n,
                      .on_host = n,
                      .cores = exec_usable_cores(),
                      .link = &exec_link_local,
                      .hub = &hub,
                      .bells = hub.bells},
            .run = run,
            .ctx = ctx,
        };
        t->world.oversubscribed = n > t->world.cores;
        /* Ranks that were started wait for those that were not. */
        FS_ASSERT(pthread_create(&t->id, NULL, run_thread, t) == 0);
    }
    for (int32_t r = 0; r < n; r++)
        pthread_join(threads[r].id, NULL);
    close_hub(&hub);
    free(threads);
    return FS_OK;
}
