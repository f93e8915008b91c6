/* What an exchange among ranks costs when they outnumber the cores: each works
 * for a while, then all send each other a piece; a rank that arrives first
 * gives its core up and must be woken when the last has arrived. The piece is
 * large enough that sender and receiver have to shake hands, as those of a step
 * are. */
#include "config.h"
#include "exec/probe.h"

#include "base/clock.h"
#include "base/hash.h"
#include "exec/world.h"

#include <stdlib.h>
#include <time.h>

enum {
    PASSES = 3, /* of a shared host's moments the least disturbed counts */
    ROUNDS = 50,
    BUSY_NS = 300000, /* between two collectives of a step */
    PIECE_BYTES = 16384,
    MAX_RANKS = 64
};
/* As long as the clock can tell: a meeting that costs nothing. */
static const double LEAST_S = 1e-9;

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

/* pieces: one to send and one from each rank. */
static void meet(exec_world *world, char *pieces)
{
    exec_request requests[2 * MAX_RANKS];
    int n = 0;
    for (int32_t r = 0; r < world->size; r++) {
        if (r == world->rank)
            continue;
        exec_recv_bytes(world, pieces + (r + 1) * PIECE_BYTES, PIECE_BYTES, r,
                        EXEC_TAG_PING, &requests[n++]);
        exec_send_bytes(world, pieces, PIECE_BYTES, r, EXEC_TAG_PING,
                        &requests[n++]);
    }
    exec_wait(world, n, requests);
}

static int compare_times(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Median seconds of a round. */
static double pass(exec_world *world, char *pieces)
{
    int64_t times[ROUNDS];
    meet(world, pieces);
    for (int32_t i = 0; i < ROUNDS; i++) {
        int64_t start = fs_now_ns();
        work();
        meet(world, pieces);
        times[i] = fs_now_ns() - start;
    }
    qsort(times, ROUNDS, sizeof *times, compare_times);
    return (double)times[ROUNDS / 2] * 1e-9;
}

hw_sample exec_turn_sample(const exec_world *world, fs_arena *arena)
{
    return (hw_sample){.what = fs_printf(arena, HW_TURN "/%d", world->size),
                       .form = fs_mix((uint64_t)world->size + 1),
                       .work = PIECE_BYTES,
                       .count = ROUNDS};
}

double exec_probe_turn(exec_world *world)
{
    FS_ASSERT(world->size > world->cores && world->size <= MAX_RANKS);
    char *pieces = calloc((size_t)world->size + 1, PIECE_BYTES);
    if (!pieces)
        exec_world_abort(world, "out of memory");
    double least = pass(world, pieces);
    for (int32_t i = 1; i < PASSES; i++) {
        double seconds = pass(world, pieces);
        least = seconds < least ? seconds : least;
    }
    free(pieces);
    double shared = (double)BUSY_NS * 1e-9 * world->size / world->cores;
    double turn = least > shared + LEAST_S ? least - shared : LEAST_S;
    exec_world_bcast(world, &turn, sizeof turn, 0);
    return turn;
}
