/* Where a chain is cut, against trying every cut: for every schedule, whose
 * stages lie on devices as its data says. And long chains: in time, and no
 * worse than what counting allows. */
#include "config.h"
#include "search/cuts/split.h"

#include "base/clock.h"
#include "base/hash.h"
#include "plan/schedule.h"
#include "tap.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { MOST_PIECES = 13, MOST_STAGES = 8, CASES = 250 };

/* Bounds are met to one part in 1e7. */
static const double near = 1e-6;
/* Not all states of long chains are looked at. */
static const double far = 0.015;

/* ---- every cut of a short chain ---- */

typedef struct chain {
    search_chain it;
    int32_t group_of[MOST_STAGES];
    double size[MOST_STAGES], seconds[MOST_PIECES + 1];
    double in[MOST_STAGES * (MOST_PIECES + 1)];
    double back[MOST_STAGES * (MOST_PIECES + 1)];
    int64_t bytes[MOST_PIECES + 1];
} chain;

/* Most pieces are alike, some are heavy, stages may differ in size; receiving
 * is slight, or not. */
static void draw_figures(uint64_t *seed, chain *c)
{
    const bool alike = fs_rand_below(seed, 2), even = fs_rand_below(seed, 2);
    const uint64_t moving = 1 + fs_rand_below(seed, 6);
    const int32_t n = c->it.n;
    for (int32_t g = 0; g < c->it.n_groups; g++)
        c->size[g] = even ? 1 : 1 + (double)fs_rand_below(seed, 3);
    for (int32_t j = 1; j <= n; j++) {
        const bool heavy = fs_rand_below(seed, 6) == 0;
        c->seconds[j] =
            c->seconds[j - 1] +
            (heavy   ? 60
             : alike ? 12
                     : 1.0) *
                (double)(alike && !heavy ? 1 : 1 + fs_rand_below(seed, 9));
        c->bytes[j] = 1 + (int64_t)fs_rand_below(seed, 5);
    }
    for (int32_t k = 0; k < c->it.n_stages; k++)
        for (int32_t j = 1; j < n; j++) {
            const size_t at = (size_t)(k * (n + 1) + j);
            c->in[at] = k ? (double)fs_rand_below(seed, moving) : 0;
            c->back[at] = k + 1 < c->it.n_stages
                              ? (double)fs_rand_below(seed, moving)
                              : 0;
        }
}

static void draw(uint64_t *seed, const plan_schedule *s, chain *c)
{
    const bool once = s->placing == PLAN_PLACED_ONCE;
    const int32_t groups = 1 + (int32_t)fs_rand_below(seed, once ? 6 : 4);
    int32_t chunks = once ? 1 : 2;
    if (s->placing == PLAN_PLACED_ROUND)
        chunks +=
            (int32_t)fs_rand_below(seed, (uint64_t)(MOST_STAGES / groups - 1));
    memset(c, 0, sizeof *c);
    c->it = (search_chain){.n_groups = groups,
                           .n_stages = groups * chunks,
                           .group_of = c->group_of,
                           .size = c->size,
                           .seconds = c->seconds,
                           .in = c->in,
                           .back = c->back,
                           .bytes = c->bytes};
    c->it.n = c->it.n_stages +
              (int32_t)fs_rand_below(
                  seed, (uint64_t)(MOST_PIECES - c->it.n_stages + 1));
    for (int32_t k = 0; k < c->it.n_stages; k++)
        c->group_of[k] = plan_placing_role(s->placing, groups, k);
    draw_figures(seed, c);
}

/* Is a before b: slowest device, slowest stage, squares, bytes? */
static int order(const search_split *a, const search_split *b)
{
    if (fabs(a->device - b->device) > near * b->device)
        return a->device < b->device ? -1 : 1;
    if (fabs(a->stage - b->stage) > near * b->stage)
        return a->stage < b->stage ? -1 : 1;
    if (fabs(a->squares - b->squares) > near * b->squares)
        return a->squares < b->squares ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static void try_all(const search_chain *c, int32_t k, int32_t *begin,
                    search_split *best)
{
    search_split now = {.begin = begin};
    if (k == c->n_stages) {
        search_split_weigh(c, &now);
        if (order(&now, best) < 0)
            *best = now;
        return;
    }
    for (begin[k] = k ? begin[k - 1] + 1 : 0;
         begin[k] <= (k ? c->n - (c->n_stages - k) : 0); begin[k]++)
        try_all(c, k + 1, begin, best);
}

static bool is_cut(const search_chain *c, const int32_t *begin)
{
    bool right = begin[0] == 0 && begin[c->n_stages - 1] < c->n;
    for (int32_t k = 1; k < c->n_stages; k++)
        right &= begin[k] > begin[k - 1];
    return right;
}

/* Of one stage on a device the slowest decides alone. */
static bool as_good(const search_chain *c, const search_split *got,
                    const search_split *best)
{
    search_split same = *got;
    if (c->n_groups == c->n_stages) {
        same.squares = best->squares;
        same.bytes = best->bytes;
    }
    return order(&same, best) == 0;
}

static void test_schedule(const char *name, uint64_t *seed)
{
    int wrong = 0, open = 0, moved = 0;
    for (int i = 0; i < CASES; i++) {
        chain c;
        int32_t begin[MOST_STAGES];
        fs_arena *arena = fs_arena_create();
        search_split got = {0};
        search_split best = {.device = DBL_MAX, .stage = DBL_MAX};
        draw(seed, plan_schedule_find(name), &c);
        try_all(&c.it, 0, begin, &best);
        search_split_find(&c.it, arena, &got);
        if (!(is_cut(&c.it, got.begin) && as_good(&c.it, &got, &best)) &&
            ++wrong == 1)
            printf("# %s, case %d: %g %g %lld, best %g %g %lld\n", name, i,
                   got.device, got.stage, (long long)got.bytes, best.device,
                   best.stage, (long long)best.bytes);
        open += !got.exact;
        moved += best.device > best.stage * (1 + near);
        fs_arena_destroy(arena);
    }
    tap_equal_int(wrong, 0, "%s: none of all cuts of %d chains is better", name,
                  CASES);
    tap_equal_int(open, 0, "%s: and that is known", name);
    printf("# in %d of them several stages make the slowest device\n", moved);
}

/* ---- by span ---- */

static double span_of(void *ctx, const double *stage_seconds)
{
    const plan_pipeline *pipe = ctx;
    double seconds[3 * MOST_STAGES];
    for (int32_t k = 0; k < 3 * pipe->n_stages; k++)
        seconds[k] = stage_seconds[k / 3] / (pipe->schedule->splits ? 3 : 2) *
                     (k % 3 < 2 || pipe->schedule->splits);
    return plan_schedule_span(pipe, seconds);
}

static double span_at(const search_chain *c, void *pipe, const int32_t *begin)
{
    double w[MOST_STAGES];
    for (int32_t k = 0; k < c->n_stages; k++) {
        const int32_t i = begin[k];
        const int32_t j = k + 1 < c->n_stages ? begin[k + 1] : c->n;
        w[k] = (c->seconds[j] - c->seconds[i]) / c->size[c->group_of[k]] +
               c->in[k * (c->n + 1) + i] + c->back[k * (c->n + 1) + j];
    }
    return span_of(pipe, w);
}

static double least_span(const search_chain *c, void *pipe, int32_t k,
                         int32_t *begin)
{
    double least = INFINITY;
    if (k == c->n_stages)
        return span_at(c, pipe, begin);
    for (begin[k] = k ? begin[k - 1] + 1 : 0;
         begin[k] <= (k ? c->n - (c->n_stages - k) : 0); begin[k]++)
        least = fmin(least, least_span(c, pipe, k + 1, begin));
    return least;
}

/* Of all cuts one may be less than those that were looked at. */
static void test_span(const char *name, uint64_t *seed)
{
    enum { FEW = 60 };
    double got = 0, device = 0, best = 0;
    int worse = 0;
    for (int i = 0; i < FEW; i++) {
        chain c;
        fs_arena *arena = fs_arena_create();
        search_split by_device = {0}, by_span = {0};
        int32_t begin[MOST_STAGES];
        draw(seed, plan_schedule_find(name), &c);
        plan_stage *stages = fs_new(arena, plan_stage, c.it.n_stages);
        for (int32_t k = 0; k < c.it.n_stages; k++)
            stages[k] = (plan_stage){{0}, c.group_of[k]};
        plan_pipeline pipe = plan_pipeline_of(
            stages, c.it.n_stages, name,
            c.it.n_groups * (1 + (int32_t)fs_rand_below(seed, 3)), arena);
        search_split_find(&c.it, arena, &by_device);
        c.it.span = span_of;
        c.it.ctx = &pipe;
        c.it.times = pipe.micro_batches;
        search_split_find(&c.it, arena, &by_span);
        const double a = span_at(&c.it, &pipe, by_span.begin);
        const double b = span_at(&c.it, &pipe, by_device.begin);
        const double all = least_span(&c.it, &pipe, 0, begin);
        worse += a > b * (1 + near);
        got += a / all / FEW;
        device += b / all / FEW;
        best = fmax(best, a / all);
        fs_arena_destroy(arena);
    }
    tap_equal_int(worse, 0, "%s: never slower than the fastest device's", name);
    tap_ok(got <= 1.03, "%s: %.2f %% above the least span", name,
           100 * (got - 1));
    printf("# at most %.1f %%; the fastest slowest device %.2f %%\n",
           100 * (best - 1), 100 * (device - 1));
}

static void test_schedules(void)
{
    uint64_t seed = tap_seed(2311);
    char *names = strdup(plan_schedule_names()), *rest = names;
    for (char *name; (name = strtok_r(rest, ", ", &rest));)
        test_schedule(name, &seed);
    test_span("1f1b", &seed);
    test_span("interleaved", &seed);
    test_span("zb-v", &seed);
    free(names);
}

/* ---- long chains ---- */

static const struct {
    const char *schedule;
    int32_t groups, chunks, pieces;
    double head; /* the last piece, others being 1 */
} chains[] = {
    {"zb-v", 4, 2, 24, 5},
    {"zb-v", 8, 2, 48, 3},
    {"zb-v", 16, 2, 192, 8.5},
    {"zb-v", 64, 2, 1920, 20},
    {"interleaved", 4, 2, 24, 5},
    {"interleaved", 8, 3, 96, 3},
    {"interleaved", 8, 12, 192, 1.5},
    {"interleaved", 16, 4, 240, 2.5},
    {"interleaved", 2, 40, 400, 30},
    {"interleaved", 64, 2, 1920, 20},
};

/* No device takes less than its share, which is made of whole pieces but for
 * the head's device. */
static double least_of(int32_t groups, int32_t pieces, double head)
{
    const double all = pieces - 1 + head;
    double least = ceil(all / groups);
    for (double t = least - 1; t > 0; t -= 0.5)
        if ((groups - 1) * floor(t) + floor(t - head) + head >= all &&
            t >= head)
            least = t;
    return least;
}

static void test_long(size_t which, fs_arena *arena)
{
    const plan_schedule *s = plan_schedule_find(chains[which].schedule);
    const int32_t groups = chains[which].groups, n = chains[which].pieces;
    const int32_t stages = groups * chains[which].chunks;
    int32_t *group_of = fs_new(arena, int32_t, stages);
    double *size = fs_new(arena, double, groups);
    double *seconds = fs_new(arena, double, n + 1);
    double *none = fs_new(arena, double, stages *(n + 1));
    for (int32_t k = 0; k < stages; k++)
        group_of[k] = plan_placing_role(s->placing, groups, k);
    for (int32_t g = 0; g < groups; g++)
        size[g] = 1;
    for (int32_t j = 1; j <= n; j++)
        seconds[j] = seconds[j - 1] + (j < n ? 1 : chains[which].head);
    search_chain c = {.n = n,
                      .n_stages = stages,
                      .n_groups = groups,
                      .group_of = group_of,
                      .size = size,
                      .seconds = seconds,
                      .in = none,
                      .back = none,
                      .bytes = fs_new(arena, int64_t, n + 1)};
    search_split got = {0};
    const int64_t start = fs_now_ns();
    search_split_find(&c, arena, &got);
    const double took = 1e-9 * (double)(fs_now_ns() - start);
    const double least = least_of(groups, n, chains[which].head);
    tap_ok(got.device <= least * (1 + far),
           "%s, %d stages on %d groups, %d pieces: near what counting allows",
           s->name, stages, groups, n);
    printf("# device %g of %g, stage %g, %s, %.3f s\n", got.device, least,
           got.stage, got.exact ? "exact" : "not all looked at", took);
}

int main(void)
{
    fs_arena *arena = fs_arena_create();
    test_schedules();
    for (size_t k = 0; k < sizeof chains / sizeof *chains; k++)
        test_long(k, arena);
    fs_arena_destroy(arena);
    return tap_done();
}
