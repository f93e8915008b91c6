/* Tests that run on several ranks: every rank counts what is wrong, rank 0
 * prints. */
#ifndef FS_TESTS_EXEC_RANKS_H
#define FS_TESTS_EXEC_RANKS_H

#include "exec/world.h"
#include "tests/tap.h"

#define ranks_ok(world, wrong, ...)                                            \
    do {                                                                       \
        int64_t ranks_wrong = (wrong);                                         \
        exec_world_reduce((world), IR_PSUM, IR_I64, &ranks_wrong, 1);          \
        if ((world)->rank == 0) {                                              \
            tap_ok(ranks_wrong == 0, __VA_ARGS__);                             \
            if (ranks_wrong)                                                   \
                printf("# %lld wrong over all ranks\n",                        \
                       (long long)ranks_wrong);                                \
        } else {                                                               \
            tap_failed += ranks_wrong != 0;                                    \
        }                                                                      \
    } while (0)

/* Every rank draws the same numbers. */
static inline uint64_t ranks_seed(exec_world *world, uint64_t usual)
{
    uint64_t seed = 0;
    if (world->rank == 0)
        seed = tap_seed(usual);
    exec_world_bcast(world, &seed, sizeof seed, 0);
    return seed;
}

static inline exec_world *ranks_open(void)
{
    exec_world *world = NULL;
    fs_err err = {0};
    if (exec_world_open(&err, &world) != FS_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return world;
}

static inline int ranks_done(exec_world *world)
{
    bool first = world->rank == 0;
    exec_world_close(world);
    return first ? tap_done() : tap_failed != 0;
}

#endif
