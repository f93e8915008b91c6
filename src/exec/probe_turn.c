/* What a meeting of ranks costs when they outnumber the cores: each works for a
 * while, then all exchange a word; a rank that arrives first gives its core up
 * and must be woken when the last has arrived. */
#include "config.h"
#include "exec/probe.h"

#include "base/clock.h"
#include "exec/world.h"

#include <stdlib.h>
#include <time.h>

enum {
    ROUNDS = 120,
    BUSY_NS = 300000, /* between two collectives of a step */
    MAX_RANKS = 64
};

static int64_t own_time_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void work(void)
{
    int64_t end = own_time_ns() + BUSY_NS;
    while (own_time_ns() < end)
        continue;
}

static void meet(exec_world *world)
{
    MPI_Request requests[2 * MAX_RANKS];
    int64_t words[MAX_RANKS], own = world->rank;
    exec_idle idle = {0};
    int n = 0, done = 0;
    for (int32_t r = 0; r < world->size; r++) {
        if (r == world->rank)
            continue;
        EXEC_MPI(world, MPI_Irecv(&words[r], 1, MPI_INT64_T, r, EXEC_TAG_PING,
                                  world->comm, &requests[n++]));
        EXEC_MPI(world, MPI_Isend(&own, 1, MPI_INT64_T, r, EXEC_TAG_PING,
                                  world->comm, &requests[n++]));
    }
    while (!done) {
        EXEC_MPI(world, MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE));
        if (!done)
            exec_idle_wait(world, &idle);
    }
}

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

double exec_probe_turn(exec_world *world)
{
    int64_t times[ROUNDS];
    if (world->size <= world->cores || world->size > MAX_RANKS)
        return 0.0;
    meet(world);
    for (int32_t i = 0; i < ROUNDS; i++) {
        int64_t start = fs_now_ns();
        work();
        meet(world);
        times[i] = fs_now_ns() - start;
    }
    qsort(times, ROUNDS, sizeof *times, compare_times);
    double shared = (double)BUSY_NS * world->size / world->cores;
    double turn = ((double)times[ROUNDS / 2] - shared) * 1e-9;
    turn = turn > 0 ? turn : 0.0;
    exec_world_bcast(world, &turn, sizeof turn, 0);
    return turn;
}
