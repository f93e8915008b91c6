/* Ranks that sleep until they are called: a message of each size, of which one
 * end comes late, is seen by the other one when that is rung, and not when its
 * sleep is over by itself; one that goes in many parts while both have nothing
 * else to do goes as if they spun. Alone on ranks that are threads; under
 * mpirun on two processes. */
#include "config.h"

#include "base/clock.h"
#include "exec/binding.h"
#include "exec/transfer.h"

#include "tests/exec_ranks.h"

#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

enum { TURNS = 15, REST_NS = 3000000 };

typedef struct found {
    int64_t wrong;
    int64_t slept, rung; /* turns in which it was; how soon hangs on what else
                            the host does */
    int64_t late_ns;     /* the middle one */
    double cpu;          /* of a core */
} found;

static exec_transfer *make(exec_world *world, int64_t bytes, fs_arena *arena)
{
    plan_exchange *x = fs_new(arena, plan_exchange, 1);
    exec_transfer *transfer = NULL;
    fs_err err = {0};
    const exec_transfer_spec spec = {.exchange = x,
                                     .dtype = IR_U8,
                                     .gives_at = world->rank == 0 ? 0 : -1,
                                     .takes_at = world->rank == 1 ? 0 : -1,
                                     .first_giver = 0,
                                     .first_taker = 1,
                                     .tag = 3};
    *x = (plan_exchange){.shape = ir_shape_make(1, &bytes),
                         .from_mesh = {1, {1}},
                         .to_mesh = {1, {1}},
                         .moves = true};
    x->from.at[0] = x->to.at[0] = (ir_sbp){.kind = IR_B};
    FS_ASSERT(exec_transfer_make(world, &spec, arena, &err, &transfer) ==
              FS_OK);
    return transfer;
}

/* As a rank waits that has nothing else to do. */
static void await(exec_world *world, exec_transfer *transfer, found *f)
{
    exec_idle idle = {0};
    bool moved = false, slept = false, rung = false;
    while (!exec_transfer_poll(transfer, &moved)) {
        idle.wants = (exec_wants){0};
        idle.called = exec_transfer_wants(transfer, &idle.wants);
        f->wrong += !idle.called;
        if (!moved)
            exec_idle_wait(world, &idle);
        else
            exec_idle_end(world, &idle);
        slept |= idle.slept;
        rung |= idle.rung;
        moved = false;
    }
    f->slept += slept;
    f->rung += rung;
    exec_idle_end(world, &idle);
}

static int64_t own_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* `late` comes REST_NS after the other one, which waits. */
static found turn_about(exec_world *world, int64_t bytes, int32_t late)
{
    const struct timespec rest = {0, REST_NS};
    fs_arena *arena = fs_arena_create();
    exec_transfer *transfer = make(world, bytes, arena);
    uint8_t *data = fs_alloc(arena, (size_t)bytes, 1);
    int64_t late_ns[TURNS], wall_ns = 0, cpu_ns = 0;
    found f = {0};
    for (int k = 0; k < TURNS; k++) {
        memset(data, world->rank == 0 ? k + 1 : 0, (size_t)bytes);
        exec_world_barrier(world);
        const int64_t begin_ns = fs_now_ns(), begun_ns = own_ns();
        if (world->rank == late)
            nanosleep(&rest, NULL);
        exec_transfer_start(transfer, data, data, NULL, 0);
        await(world, transfer, &f);
        wall_ns += fs_now_ns() - begin_ns;
        cpu_ns += own_ns() - begun_ns;
        late_ns[k] = fs_now_ns() - begin_ns - REST_NS;
        for (int64_t i = 0; i < bytes && world->rank == 1; i++)
            f.wrong += data[i] != k + 1;
    }
    qsort(late_ns, TURNS, sizeof *late_ns, compare);
    f.late_ns = late_ns[TURNS / 2];
    f.cpu = (double)cpu_ns / (double)wall_ns;
    exec_transfer_release(transfer);
    fs_arena_destroy(arena);
    return f;
}

/* On a busy host many sleeps end by themselves; where all do, nobody rings. */
static void test_size(exec_world *world, int64_t bytes, int32_t late)
{
    const found f = turn_about(world, bytes, late);
    int64_t told[4] = {f.late_ns, f.rung, f.slept, (int64_t)(100 * f.cpu)};
    exec_world_bcast(world, told, sizeof told, 1 - late);
    ranks_ok(world, f.wrong + (f.slept > 0 && f.rung == 0),
             "%lld bytes, rank %d late: the other one sees it %lld us later "
             "(rung in %lld of %lld turns, %lld %% of a core)",
             (long long)bytes, (int)late, (long long)told[0] / 1000,
             (long long)told[1], (long long)told[2], (long long)told[3]);
}

/* ---- both wait ---- */

/* Columns of partial sums: what lies so, MPI sends in parts of some KB. */
static exec_transfer *make_strided(exec_world *world, int64_t rows,
                                   int64_t columns, fs_arena *arena)
{
    plan_exchange *x = fs_new(arena, plan_exchange, 1);
    exec_transfer *transfer = NULL;
    fs_err err = {0};
    const exec_transfer_spec spec = {.exchange = x,
                                     .dtype = IR_F32,
                                     .gives_at = world->rank,
                                     .takes_at = world->rank,
                                     .tag = 3};
    *x = (plan_exchange){.shape = {2, {rows, columns}},
                         .from_mesh = {1, {2}},
                         .to_mesh = {1, {2}},
                         .from = {{IR_SBP_P}},
                         .to = {{IR_SBP_S(1)}}};
    FS_ASSERT(exec_transfer_make(world, &spec, arena, &err, &transfer) ==
              FS_OK);
    return transfer;
}

static void spin(exec_transfer *transfer)
{
    bool moved;
    while (!exec_transfer_poll(transfer, &moved))
        exec_relax();
}

static void test_strided(exec_world *world)
{
    enum { ROWS = 512, COLUMNS = 16384, MOST_RATIO = 10 };
    const int64_t bytes = ROWS * COLUMNS * sizeof(float);
    fs_arena *arena = fs_arena_create();
    exec_transfer *transfer = make_strided(world, ROWS, COLUMNS, arena);
    char *in = fs_new(arena, char, bytes), *out = fs_new(arena, char, bytes),
         *scratch = fs_new(arena, char, bytes);
    int64_t took_ns[2][TURNS];
    for (int k = 0; k < 2 * TURNS; k++) {
        found unused = {0};
        exec_world_barrier(world);
        const int64_t begin_ns = fs_now_ns();
        exec_transfer_start(transfer, in, out, scratch, bytes);
        if (k % 2)
            await(world, transfer, &unused);
        else
            spin(transfer);
        took_ns[k % 2][k / 2] = fs_now_ns() - begin_ns;
    }
    for (int i = 0; i < 2; i++)
        qsort(took_ns[i], TURNS, sizeof **took_ns, compare);
    const int64_t spun = took_ns[0][TURNS / 2], waited = took_ns[1][TURNS / 2];
    ranks_ok(world, waited > MOST_RATIO * spun,
             "%lld MB in columns, both wait: %lld us, %lld of ranks that spin",
             (long long)bytes >> 20, (long long)waited / 1000,
             (long long)spun / 1000);
    exec_transfer_release(transfer);
    fs_arena_destroy(arena);
}

static void test_all(exec_world *world, void *ctx)
{
    static const int64_t sizes[] = {8, 3000, 6000, 70000, 3 << 20};
    (void)ctx;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        test_size(world, sizes[i], 0);
        test_size(world, sizes[i], 1);
    }
    test_strided(world);
}

/* As many ranks as cores or fewer: no core is two ranks', and their helping
 * threads may use all. */
static void *where_helpers_run(void *set)
{
    exec_bind_helper();
    sched_getaffinity(0, sizeof(cpu_set_t), set);
    return NULL;
}

static void test_cores(exec_world *world, const cpu_set_t *before)
{
    enum { MOST = 1024 };
    static int32_t ranks_on[MOST];
    cpu_set_t now, helped;
    pthread_t thread;
    int64_t wrong = 0;
    sched_getaffinity(0, sizeof now, &now);
    FS_ASSERT(!pthread_create(&thread, NULL, where_helpers_run, &helped));
    pthread_join(thread, NULL);
    for (int cpu = 0; cpu < MOST; cpu++)
        ranks_on[cpu] = CPU_ISSET(cpu, &now) != 0;
    exec_world_reduce(world, IR_PSUM, IR_I32, ranks_on, MOST);
    for (int cpu = 0; cpu < MOST; cpu++)
        wrong += ranks_on[cpu] > 1;
    if (CPU_COUNT(before) < world->size)
        wrong = 0;
    ranks_ok(world, wrong, "ranks do not share cores that suffice");
    ranks_ok(world,
             CPU_COUNT(before) >= world->size && !CPU_EQUAL(before, &helped),
             "and their helpers run where there is room");
}

int main(void)
{
    cpu_set_t before;
    sched_getaffinity(0, sizeof before, &before);
    fs_err err = {0};
    if (!exec_started_by_mpirun()) {
        FS_ASSERT(exec_world_threads(2, test_all, NULL, &err) == FS_OK);
        return tap_done();
    }
    exec_world *world = ranks_open();
    FS_ASSERT(world->size == 2);
    test_cores(world, &before);
    test_all(world, NULL);
    return ranks_done(world);
}
