#include "config.h"
#include "exec/world.h"

#include "base/clock.h"
#include "exec/binding.h"
#include "exec/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

bool exec_started_by_mpirun(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL;
}

int32_t exec_launched_rank(void)
{
    const char *number = getenv("OMPI_COMM_WORLD_RANK");
    return number ? atoi(number) : 0;
}

void exec_mpi_version(char *text, size_t room)
{
    char all[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(all, &length);
    snprintf(text, room, "%.*s", (int)strcspn(all, ","), all);
}

void exec_mpi(exec_world *world, int code, const char *call)
{
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    char cause[MPI_MAX_ERROR_STRING + 128];
    snprintf(cause, sizeof cause, "%.100s: %s", call, text);
    exec_world_abort_for(world, EXEC_PEER, cause);
}

/* The number of a host is that of its first rank. */
static void find_hosts(exec_world *world)
{
    int32_t first = world->rank;
    MPI_Comm host;
    world->host = exec_world_alloc(world, (size_t)world->size,
                                   sizeof *world->host, "hosts");
    exec_mpi(world,
             MPI_Comm_split_type(world->comm, MPI_COMM_TYPE_SHARED, 0,
                                 MPI_INFO_NULL, &host),
             "MPI_Comm_split_type");
    exec_mpi(world, MPI_Bcast(&first, 1, MPI_INT32_T, 0, host), "MPI_Bcast");
    exec_mpi(world,
             MPI_Allgather(&first, 1, MPI_INT32_T, world->host, 1, MPI_INT32_T,
                           world->comm),
             "MPI_Allgather");
    exec_bells_open(world, host);
    MPI_Comm_free(&host);
}

static fs_status join_mpi(exec_world *world, fs_err *err)
{
    int initialized = 0, provided = MPI_THREAD_SINGLE;
    MPI_Initialized(&initialized);
    if (!initialized) {
        if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) !=
            MPI_SUCCESS)
            return fs_fail(err, FS_FAULT, "MPI_Init_thread failed");
        world->finalize = true;
        if (provided < MPI_THREAD_SERIALIZED)
            return fs_fail(err, FS_FAULT,
                           "this MPI library has no MPI_THREAD_SERIALIZED");
    }
    world->link = &exec_link_mpi;
    world->comm = MPI_COMM_WORLD;
    MPI_Comm_set_errhandler(world->comm, MPI_ERRORS_RETURN);
    MPI_Comm_rank(world->comm, &world->rank);
    MPI_Comm_size(world->comm, &world->size);
    const char *local = getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
    world->on_host = local ? atoi(local) : world->size;
    if (world->on_host < 1)
        world->on_host = 1;
    find_hosts(world);
    return FS_OK;
}

/* Before MPI, so that a start that hangs is one of somebody. */
static fs_status open_record(exec_world *world, fs_err *err)
{
    const char *text = getenv("FLOWSEARCH_FAILPOINT");
    FS_TRY(exec_recorder_open(exec_launched_rank(), err, &world->recorder));
    exec_relay_send(&world->recorder);
    if (!text || !*text)
        return FS_OK;
    world->failpoints = calloc(1, sizeof *world->failpoints);
    if (!world->failpoints)
        return fs_fail(err, FS_FAULT, "out of memory");
    world->failpoints->rank = exec_launched_rank();
    world->failpoints->job = world->recorder.job;
    world->failpoints->named_only =
        !world->recorder.supervised && getenv("FS_RELAY");
    return exec_failpoints_read(text, err, world->failpoints);
}

static void close_record(exec_world *world)
{
    exec_recorder_close(&world->recorder);
    free(world->failpoints);
}

fs_status exec_world_open(fs_err *err, exec_world **out)
{
    exec_world *world = calloc(1, sizeof *world);
    if (!world)
        return fs_fail(err, FS_FAULT, "out of memory");
    world->size = world->on_host = 1;
    world->cores = exec_usable_cores();
    fs_status status = open_record(world, err);
    if (status == FS_OK && exec_started_by_mpirun())
        status = join_mpi(world, err);
    else if (status == FS_OK)
        exec_bells_open(world, MPI_COMM_NULL);
    if (status != FS_OK) {
        exec_recorder_fail(&world->recorder, EXEC_START, err->text);
        close_record(world);
        free(world);
        return status;
    }
    world->oversubscribed = world->on_host > world->cores;
    exec_bind_rank(world->on_host, world->cores);
    exec_failpoint_come(world->failpoints, EXEC_AT_START);
    /* Short sleeps of a waiting rank last 50 us longer by default. */
    prctl(PR_SET_TIMERSLACK, 1000ul, 0ul, 0ul, 0ul);
    *out = world;
    return FS_OK;
}

void exec_world_close(exec_world *world)
{
    if (!world)
        return;
    exec_link_leave(world);
    free(world->host);
    if (world->finalize)
        MPI_Finalize();
    exec_bells_close(world);
    close_record(world);
    free(world);
}

exec_recorder *exec_world_recorder(exec_world *world)
{
    return &world->recorder;
}

exec_failpoints *exec_world_failpoints(exec_world *world)
{
    return world->failpoints;
}

int32_t exec_world_rank(const exec_world *world)
{
    return world->rank;
}

int32_t exec_world_size(const exec_world *world)
{
    return world->size;
}

int32_t exec_world_cores(const exec_world *world)
{
    return world->cores;
}

void exec_world_sum(exec_world *world, int64_t *values, int64_t n)
{
    exec_world_reduce(world, IR_PSUM, IR_I64, values, n);
}

void exec_world_abort(exec_world *world, const char *cause)
{
    exec_world_abort_for(world, EXEC_OTHER, cause);
}

void exec_world_abort_for(exec_world *world, exec_fault fault,
                          const char *cause)
{
    exec_recorder_fail(&world->recorder, fault, cause);
    fflush(stdout);
    /* Who reads the record tells it. */
    if (!exec_recorder_is_read(&world->recorder))
        fprintf(stderr, "flowsearch: rank %d: %s\n", world->rank, cause);
    fflush(stderr);
    if (world->size > 1)
        world->link->abort(world);
    _exit(FS_FAULT);
}

void *exec_world_alloc(exec_world *world, size_t count, size_t size,
                       const char *what)
{
    void *memory = calloc(count > 0 ? count : 1, size);
    char cause[160];
    if (memory)
        return memory;
    snprintf(cause, sizeof cause, "out of memory: %zu x %zu bytes for %.80s",
             count, size, what);
    exec_world_abort_for(world, EXEC_MEMORY, cause);
}

/* The same for all ranks, in one order: who has come less often is waited for.
 */
static void note_meeting(exec_world *world)
{
    if (world->recorder.record)
        world->recorder.record->met++;
}

void exec_world_reduce(exec_world *world, ir_sbp_kind kind, ir_dtype dtype,
                       void *data, int64_t count)
{
    note_meeting(world);
    if (world->size > 1)
        world->link->reduce(world, kind, dtype, data, count);
}

void exec_world_bcast(exec_world *world, void *data, int64_t bytes,
                      int32_t root)
{
    note_meeting(world);
    if (world->size > 1)
        world->link->bcast(world, data, bytes, root);
}

void exec_world_barrier(exec_world *world)
{
    note_meeting(world);
    if (world->size > 1)
        world->link->barrier(world);
}

fs_status exec_world_agree(exec_world *world, fs_status mine, fs_err *err)
{
    int32_t first = mine == FS_OK ? world->size : world->rank;
    exec_world_reduce(world, IR_PMIN, IR_I32, &first, 1);
    if (first == world->size)
        return FS_OK;
    if (first == world->rank && first > 0)
        fs_err_prefix(err, "rank %d", first);
    exec_world_bcast(world, err, sizeof *err, first);
    return err->status;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Looks after it was armed, before it sleeps: one look at MPI brings in what
 * has come, the next one finds it, and some links are looked at every eighth
 * time alone. */
enum { LOOKS = 8, LONG = 16 };

/* Until it is rung or, for what nobody calls for, this time is over. */
static void sleep_until_called(exec_world *world, exec_idle *idle,
                               int64_t most_ns)
{
    exec_bell *bell = exec_world_bell(world);
    if (idle->looks == 0)
        exec_bell_arm(bell, &idle->wants);
    if (idle->looks++ < LOOKS) {
        exec_relax();
        return;
    }
    const int64_t begin_ns = fs_now_ns();
    const bool woken = exec_parker_sleep(&bell->parker, most_ns);
    const int64_t now = fs_now_ns();
    const bool was_long = now - begin_ns > LONG * bell->parker.wake_ns;
    world->long_waits = was_long ? world->long_waits + !idle->slept : 0;
    idle->slept = true;
    idle->looks = woken ? 0 : LOOKS - 1;
    if (woken && !idle->rung) {
        idle->rung = true;
        idle->since_ns = now;
    }
}

/* The bell may come before the message (of TCP), and a message that MPI sends
 * in several parts may want both ends more than once: it is looked for, as if
 * nobody called. */
static bool is_called(const exec_idle *idle)
{
    return idle->called && !idle->rung;
}

/* So long at most, for signs of life and for who was killed as it rang. */
enum { CALLED_NS = 50000000 };

/* A rank that waits on a shared core gives it up. A sleeper that wakes is let
 * in at once, where one that yields waits for a tick of the kernel (4 ms: a
 * whole forward pass) or, beside a foreign process, for far longer; but each
 * waking takes the core from a rank that computes (every 20 us: 40 % of it,
 * every 100 us: 10 %), so that the naps grow. */
static void wait_on_shared_core(exec_world *world, exec_idle *idle)
{
    enum { YIELDS = 3, LEAST_NS = 10000, MOST_NS = 200000, SHARE = 2 };
    if (idle->rounds <= YIELDS) {
        idle->since_ns = fs_now_ns();
        sched_yield();
        return;
    }
    if (is_called(idle)) {
        sleep_until_called(world, idle, CALLED_NS);
        return;
    }
    const int64_t nap_ns = (fs_now_ns() - idle->since_ns) / SHARE;
    sleep_until_called(world, idle,
                       nap_ns < LEAST_NS ? LEAST_NS : least(nap_ns, MOST_NS));
}

enum { LEAST_SPIN_NS = 10000, LONG_WAITS = 2 };

/* As long as being woken takes, unless the last waits were far longer. */
static int64_t spin_ns(exec_world *world, const exec_idle *idle)
{
    const int64_t wake_ns = exec_world_bell(world)->parker.wake_ns;
    if (is_called(idle) && world->long_waits >= LONG_WAITS)
        return 0;
    return wake_ns > LEAST_SPIN_NS ? wake_ns : LEAST_SPIN_NS;
}

/* Nobody else computes on its core, so that it may spin as long as being woken
 * takes. Then it sleeps until it is called; what nobody calls for (messages of
 * other hosts) it looks for after naps, once naps of this share of what it has
 * waited are longer than what being woken takes, and gives way to threads that
 * read and save before. A message is late by no more than this share. */
static void wait_on_own_core(exec_world *world, exec_idle *idle)
{
    enum { MOST_NS = 2000000, SOON_NS = 200000, SHARE = 8 };
    const int64_t now = fs_now_ns(), spun_ns = spin_ns(world, idle);
    if (idle->rounds == 1)
        idle->since_ns = now;
    const int64_t waited_ns = now - idle->since_ns, nap_ns = waited_ns / SHARE;
    if (waited_ns < spun_ns)
        exec_relax();
    else if (is_called(idle))
        sleep_until_called(world, idle, CALLED_NS);
    else if (nap_ns < spun_ns)
        sched_yield();
    else
        sleep_until_called(world, idle,
                           least(nap_ns, idle->at_once ? SOON_NS : MOST_NS));
}

void exec_idle_wait(exec_world *world, exec_idle *idle)
{
    idle->rounds++;
    if (world->oversubscribed)
        wait_on_shared_core(world, idle);
    else
        wait_on_own_core(world, idle);
}

void exec_idle_end(exec_world *world, exec_idle *idle)
{
    if (idle->looks > 0)
        exec_parker_disarm(&exec_world_bell(world)->parker);
    if (!idle->slept)
        world->long_waits = 0;
    idle->rung = idle->slept = false;
    idle->looks = 0;
    idle->rounds = 0;
}
