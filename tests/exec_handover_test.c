/* How threads hand work to each other, in all interleavings of a few jobs: the
 * loader's ring and its sleep, the reader's rings and theirs, and messages of
 * ranks that are threads. What is tried is the runtime's own code, with at most
 * so many preemptions, and loads may see what C11 lets them (interleave.h).
 * Nothing is lost, nobody sleeps for ever, and plain memory that two threads
 * touch is ordered. FS_LONG=1: one preemption more. */
#include "config.h"

#include "exec/loader.h"
#include "exec/reader.h"
#include "interleave.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the loader ---- */

enum { JOBS = 2, TURNS = 2 };

static fs_status fill(void *ctx, const char *name, int64_t sample,
                      ir_dtype dtype, const ir_shape *local,
                      const int64_t *offset, int32_t batch_axis, void *out,
                      fs_err *err)
{
    (void)ctx;
    (void)name;
    (void)dtype;
    (void)local;
    (void)offset;
    (void)batch_axis;
    (void)err;
    *(int64_t *)out = sample * 3;
    return FS_OK;
}

static void wait_for(exec_job *job)
{
    while (atomic_load_explicit(&job->state, memory_order_acquire) ==
           EXEC_JOB_OPEN)
        sched_yield();
}

static void take(exec_job *job, const int64_t *value)
{
    wait_for(job);
    if (*value != job->sample * 3)
        interleave_fail("a job is done, and its piece is not there");
}

/* As the loop does: a job is submitted anew once it is done. */
static void load(void *ctx)
{
    exec_world alone = {.size = 1, .on_host = 1, .cores = 1}; /* no spin */
    const exec_data data = {.fill = fill};
    int64_t value[JOBS] = {0};
    exec_job job[JOBS];
    (void)ctx;
    memset(job, 0, sizeof job);
    exec_loader *loader = exec_loader_create(&alone, &data, JOBS);
    for (int turn = 0; turn < TURNS; turn++) {
        for (int i = 0; i < JOBS; i++) {
            job[i].sample = turn * JOBS + i + 1;
            job[i].out = &value[i];
            job[i].took_ns = 0; /* it goes to the thread */
            exec_loader_submit(loader, &job[i]);
        }
        for (int i = 0; i < JOBS; i++)
            take(&job[i], &value[i]);
    }
    exec_loader_destroy(loader);
}

static void pause_for_others(void)
{
    const struct timespec moment = {0, 1000};
    nanosleep(&moment, NULL);
}

/* One after the other, so that the thread sleeps in between, or just about. */
static void load_apart(void *ctx)
{
    exec_world alone = {.size = 1, .on_host = 1, .cores = 1}; /* no spin */
    const exec_data data = {.fill = fill};
    int64_t value = 0;
    exec_job job;
    (void)ctx;
    memset(&job, 0, sizeof job);
    exec_loader *loader = exec_loader_create(&alone, &data, 1);
    for (int turn = 0; turn < TURNS; turn++) {
        job.sample = turn + 1;
        job.out = &value;
        job.took_ns = 0;
        exec_loader_submit(loader, &job);
        take(&job, &value);
        pause_for_others();
    }
    exec_loader_destroy(loader);
}

/* ---- the reader ---- */

/* So long that a ring holds two requests. */
enum { ROWS = 8, ROW_BYTES = 1 << 19 };
static int file;

static int64_t locate(const void *ctx, int64_t sample, int64_t row)
{
    (void)ctx;
    return (sample + row) * ROW_BYTES;
}

static void read_one(exec_reader *reader, int64_t sample)
{
    fs_err err = {0};
    const char *at = NULL;
    int32_t value;
    if (exec_reader_take(reader, 0, sample, &err, &at) != FS_OK)
        interleave_fail("%s", err.text);
    memcpy(&value, at, sizeof value);
    if (value != sample)
        interleave_fail("sample %d holds %d", (int)sample, (int)value);
    exec_reader_give(reader, 0);
}

/* In order, then from elsewhere. */
static void read_ahead(void *ctx)
{
    static const int64_t samples[] = {0, 1, 2, 3, 5, 6};
    const exec_data_options disk = {0};
    exec_reader *reader = exec_reader_create(&disk);
    const exec_stream stream = {.path = "rows",
                                .file = file,
                                .rows = 1,
                                .row_bytes = ROW_BYTES,
                                .stride = 1,
                                .locate = locate};
    (void)ctx;
    exec_reader_add(reader, &stream);
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        read_one(reader, samples[i]);
        pause_for_others();
    }
    exec_reader_destroy(reader);
}

static bool open_rows(void)
{
    file = memfd_create("rows", MFD_CLOEXEC);
    bool good = file >= 0 && ftruncate(file, ROWS * (off_t)ROW_BYTES * 2) == 0;
    for (int32_t i = 0; good && i < ROWS; i++)
        good = pwrite(file, &i, sizeof i, i * (off_t)ROW_BYTES) ==
               (ssize_t)sizeof i;
    return good;
}

/* ---- messages of ranks that are threads ---- */

enum { MESSAGES = 2 };

static void exchange(exec_world *world, void *ctx)
{
    int32_t out[MESSAGES], in[MESSAGES] = {0};
    exec_request request[2 * MESSAGES];
    const int32_t peer = 1 - world->rank;
    (void)ctx;
    for (int32_t i = 0; i < MESSAGES; i++) {
        out[i] = 10 * world->rank + i;
        exec_send_bytes(world, &out[i], sizeof *out, peer, 1, &request[i]);
    }
    for (int32_t i = 0; i < MESSAGES; i++)
        exec_recv_bytes(world, &in[i], sizeof *in, peer, 1,
                        &request[MESSAGES + i]);
    exec_wait(world, 2 * MESSAGES, request);
    for (int32_t i = 0; i < MESSAGES; i++)
        if (in[i] != 10 * peer + i)
            interleave_fail("message %d is %d", (int)i, (int)in[i]);
}

static void send_both_ways(void *ctx)
{
    fs_err err = {0};
    exec_world_threads(2, exchange, ctx, &err);
}

/* ---- ranks that sleep until they are called ---- */

void __real_exec_idle_wait(exec_world *world, exec_idle *idle);

/* As a rank waits whose last waits were long, so that it does not spin. */
static void sleep_until(exec_world *world, exec_request *request,
                        exec_cause cause)
{
    enum { MANY = 1000 };
    exec_idle idle = {.called = true};
    int index;
    idle.wants.from[cause] = exec_bell_bit(1 - world->rank);
    world->long_waits = MANY;
    while (world->link->poll(world, 1, request, &index) == 0) {
        idle.rung = false; /* who was called for nothing would nap */
        __real_exec_idle_wait(world, &idle);
    }
    exec_idle_end(world, &idle);
}

static void poll_until(exec_world *world, exec_request *request)
{
    int index;
    while (world->link->poll(world, 1, request, &index) == 0)
        sched_yield();
}

/* Two ranks in turn; the second one sleeps until the first has sent. */
static void hear(exec_world *world, void *ctx)
{
    int32_t value = 0;
    exec_request request;
    (void)ctx;
    for (int32_t i = 1; i <= MESSAGES; i++) {
        if (world->rank == 0) {
            value = i;
            exec_send_bytes(world, &value, sizeof value, 1, 1, &request);
            poll_until(world, &request);
            exec_recv_bytes(world, &value, sizeof value, 1, 1, &request);
            poll_until(world, &request);
        } else {
            exec_recv_bytes(world, &value, sizeof value, 0, 1, &request);
            sleep_until(world, &request, EXEC_SENT);
            value *= 3;
            exec_send_bytes(world, &value, sizeof value, 0, 1, &request);
            poll_until(world, &request);
        }
        if (value != 3 * i)
            interleave_fail("message %d is %d", (int)i, (int)value);
    }
}

/* The second one sleeps until the first has taken what it sends. */
static void tell(exec_world *world, void *ctx)
{
    int32_t value = 0;
    exec_request request;
    (void)ctx;
    for (int32_t i = 1; i <= MESSAGES; i++) {
        if (world->rank == 0) {
            exec_recv_bytes(world, &value, sizeof value, 1, 1, &request);
            poll_until(world, &request);
        } else {
            value = i;
            exec_send_bytes(world, &value, sizeof value, 0, 1, &request);
            sleep_until(world, &request, EXEC_TOOK);
        }
        if (value != i)
            interleave_fail("message %d is %d", (int)i, (int)value);
    }
}

static void sleep_for_sent(void *ctx)
{
    fs_err err = {0};
    (void)ctx;
    exec_world_threads(2, hear, NULL, &err);
}

static void sleep_for_taken(void *ctx)
{
    fs_err err = {0};
    (void)ctx;
    exec_world_threads(2, tell, NULL, &err);
}

/* ---- all interleavings ---- */

typedef struct found {
    int64_t runs, most_choices;
} found;

static void try_all(void (*run)(void *), int32_t preemptions, found *out)
{
    interleave_tree tree = {0};
    interleave how = {.tree = &tree, .preemptions = preemptions, .weak = true};
    do {
        interleave_run(&how, run, NULL);
        out->runs = tree.runs + 1;
        if (how.choices > out->most_choices)
            out->most_choices = how.choices;
    } while (interleave_next(&tree));
}

/* In a child: a failure ends the process. */
static void check(const char *what, void (*run)(void *), int32_t preemptions)
{
    int status = 0;
    found *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FS_ASSERT(f != MAP_FAILED);
    preemptions += getenv("FS_LONG") != NULL;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        try_all(run, preemptions, f);
        _exit(0);
    }
    waitpid(child, &status, 0);
    tap_ok(status == 0, "%s: %lld interleavings of up to %d preemptions", what,
           (long long)f->runs, (int)preemptions);
    printf("# up to %lld choices in one\n", (long long)f->most_choices);
    munmap(f, sizeof *f);
}

int main(void)
{
    if (interleave_refuses()) {
        tap_skip(interleave_refuses(), "hand-overs, in all interleavings");
        return tap_done();
    }
    check("the loader's ring", load, 1);
    check("a loader that sleeps between jobs", load_apart, 2);
    if (open_rows())
        check("reading ahead, and anew", read_ahead, 1);
    else
        tap_skip("no memory file", "reading ahead");
    check("messages both ways", send_both_ways, 2);
    check("a rank that sleeps until one is sent", sleep_for_sent, 1);
    check("a rank that sleeps until one is taken", sleep_for_taken, 1);
    return tap_done();
}
