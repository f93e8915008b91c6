/* Any plan equals one device: random networks (models of the zoo, random op
 * graphs) under random plans give the losses and weights that one device gives
 * with the same micro-batches.
 *
 * Case N hangs on N alone. FS_SEED=N runs case N only; FS_CASES=N runs the
 * cases 0 .. N - 1 (200; `make check-long`: 2,000), FS_SCHEDULE=NAME all under
 * that schedule. Ranks are threads of one
 * process per case; under mpirun they are its ranks, and a case that fails
 * there is told by a number that FS_SEED takes without mpirun too. A failing
 * case is made smaller before it is told. */
#include "config.h"

#include "equal.h"

#include "exec_ranks.h"

enum { CASES = 200, CASES_OF_RANKS = 8, BUDGET = 150, RANKS_AT = 1000000 };

typedef struct tally {
    int32_t ends[EQUAL_ENDS], features[EQUAL_FEATURE_COUNT];
    int32_t wrong, lost;
    double wide, single, weights;
} tally;

static int64_t number_in(const char *variable, int64_t usual)
{
    const char *text = getenv(variable);
    return text ? strtoll(text, NULL, 0) : usual;
}

/* Nothing to compare: too many of those and the test says little. */
static bool is_lost(const equal_verdict *v)
{
    return v->end == EQUAL_SHAKY || v->end == EQUAL_NO_NUMBER;
}

static bool is_wrong(const equal_verdict *v)
{
    return v->end != EQUAL_SAME && !is_lost(v);
}

static void count_case(const equal_case *c, const equal_verdict *v, tally *t)
{
    t->ends[v->end]++;
    t->wrong += is_wrong(v);
    for (int32_t f = 0; f < EQUAL_FEATURE_COUNT; f++)
        t->features[f] += (int)(v->features >> f & 1);
    t->lost += is_lost(v);
    if (is_lost(v))
        return;
    if (ir_compress_dtype(&c->compress) != IR_F32)
        return;
    if (c->wide) {
        t->wide = fmax(t->wide, v->loss_error);
        t->weights = fmax(t->weights, v->weight_error);
    } else if (c->narrow == IR_F32 && !c->narrow_states) {
        t->single = fmax(t->single, v->loss_error);
    }
}

static void tell_failure(uint64_t number, const equal_case *c,
                         const equal_verdict *v, bool shrinks)
{
    printf("# FS_SEED=%llu repeats this case:\n", (unsigned long long)number);
    equal_print(c, v, stdout);
    if (shrinks) {
        fs_arena *arena = fs_arena_create();
        equal_verdict least;
        const equal_case small = equal_shrink(c, v, BUDGET, arena);
        equal_try_apart(&small, &least);
        printf("# the same, made smaller:\n");
        equal_print(&small, &least, stdout);
        equal_describe(&small, stdout);
        fs_arena_destroy(arena);
    }
    fflush(stdout);
}

static void run_case(exec_world *world, uint64_t number, tally *t)
{
    const bool apart = exec_world_size(world) == 1;
    const equal_case c = equal_draw(number);
    equal_verdict v;
    if (apart)
        equal_try_apart(&c, &v);
    else
        equal_try(&c, world, &v);
    count_case(&c, &v, t);
    if (is_lost(&v) && exec_world_rank(world) == 0)
        printf("# FS_SEED=%llu %s\n", (unsigned long long)number,
               v.end == EQUAL_SHAKY ? "magnifies rounding" : "has no number");
    if (is_wrong(&v) && exec_world_rank(world) == 0)
        tell_failure(number, &c, &v, apart && t->wrong <= 3);
}

static void tell_coverage(const tally *t)
{
    static const char *const text[] = {
#define X(id, text) text,
        EQUAL_FEATURES(X)
#undef X
#define PLAN_SCHEDULE(id, name, ...) "several stages under " name,
#include "plan/schedules.def"
#undef PLAN_SCHEDULE
    };
    for (int32_t f = 0; f < EQUAL_FEATURE_COUNT; f++)
        printf("# %4d cases: %s\n", (int)t->features[f], text[f]);
    printf("# worst difference: losses %.1e in fp64, %.1e in fp32; weights "
           "%.1e in fp64\n",
           t->wide, t->single, t->weights);
}

/* A kernel that is wrong where its result is cut: the case that is left has
 * nothing in it but that, and at most one node whose cut it follows. */
static void test_shrinking(void)
{
    fs_arena *arena = fs_arena_create();
    equal_case c = {0}, small;
    equal_verdict v = {0};
    for (uint64_t number = 0; number < 400 && v.end != EQUAL_DIFFERS;
         number++) {
        c = equal_draw(number);
        c.planted = true;
        if (c.ranks > 3 && c.micro_batches > 1 && c.wide && !c.model)
            equal_try_apart(&c, &v);
    }
    small = equal_shrink(&c, &v, BUDGET, arena);
    equal_try_apart(&small, &v);
    tap_ok(v.end == EQUAL_DIFFERS && v.n_wild <= 2 && small.ranks == 2 &&
               small.n_stages == 1 && small.micro_batches == 1,
           "a planted fault is found, and shrunk to one or two nodes on two "
           "ranks");
    if (tap_failed)
        equal_print(&small, &v, stdout);
    fs_arena_destroy(arena);
}

int main(void)
{
    exec_world *world = ranks_open();
    const bool alone = exec_world_size(world) == 1;
    const int64_t cases = number_in("FS_CASES", alone ? CASES : CASES_OF_RANKS);
    const int64_t only = number_in("FS_SEED", -1);
    const uint64_t ranks =
        alone ? 0 : (uint64_t)exec_world_size(world) * RANKS_AT;
    tally t = {0};
    if (only >= 0)
        run_case(world, (uint64_t)only, &t);
    for (int64_t k = 0; k < cases && only < 0; k++)
        run_case(world, (uint64_t)k + ranks, &t);
    if (exec_world_rank(world) == 0)
        tell_coverage(&t);
    ranks_ok(world, t.wrong,
             "random plans on %s ranks equal one device: %d cases, %d refused, "
             "%d faults, %d without a number, %d that magnify rounding",
             alone ? "2 to 8" : "these", (int)(only < 0 ? cases : 1),
             (int)t.ends[EQUAL_REFUSED], (int)t.ends[EQUAL_FAULT],
             (int)t.ends[EQUAL_NO_NUMBER], (int)t.ends[EQUAL_SHAKY]);
    ranks_ok(world, only < 0 && 50 * (t.lost - 1) >= cases ? t.lost : 0,
             "no more than 2 %% of the cases are lost to rounding: %d",
             (int)t.lost);
    if (alone && only < 0)
        test_shrinking();
    return ranks_done(world);
}
