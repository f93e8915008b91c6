#include "config.h"

#include "plan/schedule.h"

#include "tap.h"

#include <math.h>

enum { MAX_M = 20, MAX_P = 8, MAX_V = 4, MAX_S = MAX_P * MAX_V };

/* A pipeline over p roles of v chunks each, and its roles' programs. */
typedef struct bench {
    const plan_schedule *schedule;
    int32_t p, v, m;
    int32_t n; /* slots of a role */
    plan_slot slots[MAX_P][3 * MAX_V * MAX_M];
    int32_t stage[MAX_P][MAX_V];
} bench;

static bench *make(const char *name, int32_t p, int32_t v, int32_t m)
{
    static bench b;
    int32_t chunks[MAX_P] = {0};

    b.schedule = plan_schedule_find(name);
    b.p = p;
    b.v = v;
    b.m = m;
    for (int32_t r = 0; r < p; r++) {
        plan_turn turn = {r, p, v, m};
        b.n = plan_schedule_slots(b.schedule, &turn);
        b.schedule->fill(&turn, b.slots[r]);
    }
    for (int32_t s = 0; s < p * v; s++) {
        int32_t r = plan_placing_role(b.schedule->placing, p, s);
        b.stage[r][chunks[r]++] = s;
    }
    return &b;
}

static int32_t most_chunks(const plan_schedule *schedule)
{
    return schedule->placing == PLAN_PLACED_ONCE ? 1
           : schedule->placing == PLAN_PLACED_V  ? 2
                                                 : MAX_V;
}

static int32_t least_chunks(const plan_schedule *schedule)
{
    return schedule->placing == PLAN_PLACED_V ? 2 : 1;
}

/* Each micro-batch once through every phase of every chunk, in ascending order
 * (channels rely on it), and on its way as sections go: forward by ascending
 * chunk, backward by descending, weights behind their backwards, those of a
 * later chunk first (memory relies on it). */
static bool well_formed(const bench *b, int32_t role)
{
    int32_t done[PLAN_PHASES][MAX_V] = {{0}}, v = b->v;

    for (int32_t i = 0; i < b->n; i++) {
        plan_slot s = b->slots[role][i];
        int32_t mb = s.micro_batch, c = s.chunk;
        if (s.chunk >= v || done[s.phase][c]++ != mb)
            return false;
        if (s.phase == PLAN_FORWARD && c > 0 && done[PLAN_FORWARD][c - 1] <= mb)
            return false;
        if (s.phase == PLAN_BACKWARD &&
            (c < v - 1 ? done[PLAN_BACKWARD][c + 1] <= mb
                       : done[PLAN_FORWARD][c] <= mb))
            return false;
        if (s.phase == PLAN_WEIGHT &&
            (done[PLAN_BACKWARD][c] <= mb ||
             (c < v - 1 && done[PLAN_WEIGHT][c + 1] <= mb)))
            return false;
    }
    for (int32_t c = 0; c < v; c++)
        if (done[PLAN_FORWARD][c] != b->m || done[PLAN_BACKWARD][c] != b->m ||
            done[PLAN_WEIGHT][c] != b->m * b->schedule->splits)
            return false;
    return true;
}

/* Seconds of a slot of one chunk. */
typedef struct pieces {
    int32_t f, b, w; /* b: without w where the schedule splits */
} pieces;

/* Time between the ends of the last two of four steps, when nothing but data
 * makes a role wait; -1 when it gets stuck. */
static int64_t iteration(const bench *b, pieces t)
{
    enum { STEPS = 4 };
    static int64_t done[STEPS][PLAN_PHASES][MAX_S][MAX_M];
    int32_t next[MAX_P] = {0}, all = STEPS * b->n, stages = b->p * b->v;
    int64_t now[MAX_P] = {0}, end[STEPS] = {0};
    bool moved = true;

    memset(done, 0, sizeof done);
    while (moved) {
        moved = false;
        for (int32_t r = 0; r < b->p; r++) {
            if (next[r] == all)
                continue;
            int32_t step = next[r] / b->n;
            plan_slot s = b->slots[r][next[r] % b->n];
            int32_t at = b->stage[r][s.chunk], mb = s.micro_batch;
            int32_t from = s.phase == PLAN_FORWARD ? at - 1 : at + 1;
            int64_t ready = 0;
            if (s.phase != PLAN_WEIGHT && from >= 0 && from < stages) {
                ready = done[step][s.phase][from][mb];
                if (ready == 0)
                    continue;
            }
            now[r] = (ready > now[r] ? ready : now[r]) +
                     (s.phase == PLAN_FORWARD    ? t.f
                      : s.phase == PLAN_BACKWARD ? t.b
                                                 : t.w);
            done[step][s.phase][at][mb] = now[r];
            end[step] = now[r] > end[step] ? now[r] : end[step];
            next[r]++;
            moved = true;
        }
    }
    for (int32_t r = 0; r < b->p; r++)
        if (next[r] < all)
            return -1;
    return end[STEPS - 1] - end[STEPS - 2];
}

static void test_table(void)
{
    char names[200], *name;
    int32_t rows = 0;

    snprintf(names, sizeof names, "%s", plan_schedule_names());
    for (name = strtok(names, ", "); name; name = strtok(NULL, ", ")) {
        const plan_schedule *s = plan_schedule_find(name);
        int32_t bad = 0, dead = 0;
        rows++;
        for (int32_t v = least_chunks(s); v <= most_chunks(s); v++)
            for (int32_t p = 1; p <= MAX_P; p++)
                for (int32_t m = 1; m <= MAX_M; m++) {
                    const bench *b = make(name, p, v, m);
                    for (int32_t r = 0; r < p; r++)
                        bad += !well_formed(b, r);
                    dead += iteration(b, (pieces){2, 3, 1}) < 0;
                }
        tap_equal_int(bad, 0,
                      "%s runs every micro-batch once through each phase of "
                      "each chunk, in order",
                      name);
        tap_equal_int(dead, 0, "%s gets nowhere stuck", name);
    }
    tap_ok(rows >= 2, "there are schedules: %s", plan_schedule_names());
    tap_ok(plan_schedule_find("round-robin") == NULL,
           "an unknown name has no schedule");
}

/* ---- what is held ---- */

static int32_t in_flight(const bench *b, int32_t role)
{
    return plan_schedule_in_flight(b->slots[role], b->n);
}

static void test_in_flight(void)
{
    int32_t bad = 0, wide = 0;

    for (int32_t p = 1; p <= MAX_P; p++)
        for (int32_t m = 1; m <= MAX_M; m++)
            for (int32_t r = 0; r < p; r++) {
                int32_t ahead = p - r < m ? p - r : m;
                bad += in_flight(make("1f1b", p, 1, m), r) != ahead;
                bad += in_flight(make("dynamic", p, 1, m), r) != ahead;
                bad += in_flight(make("gpipe", p, 1, m), r) != m;
                for (int32_t v = 2; v <= MAX_V; v++) {
                    int32_t most = 2 * (p - r - 1) + (v - 1) * p + 1;
                    int32_t held = in_flight(make("interleaved", p, v, m), r);
                    wide += m % p ? held > most
                                  : held != (most < m * v ? most : m * v);
                }
            }
    tap_equal_int(bad, 0,
                  "1f1b and dynamic keep min(m, p - r) micro-batches in "
                  "flight, gpipe m");
    tap_equal_int(wide, 0,
                  "interleaved 2 (p - r - 1) + (v - 1) p + 1 chunks, at most "
                  "m v");
}

/* ---- closed forms ---- */

static void test_bubble(void)
{
    int32_t bad = 0, inter = 0;
    const pieces t = {1, 2, 0};

    for (int32_t p = 1; p <= MAX_P; p++)
        for (int32_t m = 1; m <= MAX_M; m++) {
            bad += iteration(make("1f1b", p, 1, m), t) != 3 * (m + p - 1);
            bad += iteration(make("gpipe", p, 1, m), t) != 3 * (m + p - 1);
            for (int32_t v = 1; v <= MAX_V && m % p == 0; v++)
                inter += iteration(make("interleaved", p, v, m), t) !=
                         3 * (m * v + p - 1);
        }
    tap_equal_int(bad, 0,
                  "1f1b and gpipe end after (m + p - 1) (f + b): a bubble of "
                  "(p - 1) / (m + p - 1)");
    tap_equal_int(inter, 0,
                  "interleaved has a bubble of (p - 1) (f + b) / v when p "
                  "divides m");
}

/* Micro-batches of all chunks together between two phases. */
static int32_t held(const bench *b, int32_t role, plan_phase last)
{
    int32_t now = 0, most = 0;

    for (int32_t i = 0; i < b->n; i++) {
        now += b->slots[role][i].phase == PLAN_FORWARD;
        most = now > most ? now : most;
        now -= b->slots[role][i].phase == last;
    }
    return most;
}

static void test_zero_bubble(void)
{
    static const pieces times[] = {
        {1, 1, 1}, {2, 3, 1}, {2, 2, 1}, {3, 3, 2}, {4, 5, 3}};
    int32_t h1 = 0, h2 = 0, zv = 0, peaks = 0;

    for (int32_t p = 1; p <= MAX_P; p++)
        for (int32_t m = 2 * p; m <= MAX_M; m++) {
            for (int32_t k = 0; k < 5; k++) {
                pieces t = times[k];
                int64_t work = m * (t.f + t.b + t.w);
                h1 += iteration(make("zb-h1", p, 1, m), t) !=
                      work + (p - 1) * (t.f + t.b - t.w);
                h2 += iteration(make("zb-h2", p, 1, m), t) !=
                      work + (p - 1) * (t.f + t.b - 2 * t.w);
            }
            zv += iteration(make("zb-v", p, 2, m), times[0]) != 6 * m;
            for (int32_t r = 0; r < p; r++) {
                const bench *b = make("zb-h1", p, 1, m);
                peaks += held(b, r, PLAN_BACKWARD) != p - r;
                peaks += held(b, r, PLAN_WEIGHT) != p;
                b = make("zb-h2", p, 1, m);
                peaks += held(b, r, PLAN_BACKWARD) != 2 * (p - r) - 1;
                peaks += held(b, r, PLAN_WEIGHT) != 2 * p - 1;
                b = make("zb-v", p, 2, m);
                peaks += held(b, r, PLAN_WEIGHT) != 2 * p;
            }
        }
    tap_equal_int(h1, 0, "zb-h1: a bubble of (p - 1) (f + b - w)");
    tap_equal_int(h2, 0, "zb-h2: a bubble of (p - 1) (f + b - 2 w)");
    tap_equal_int(zv, 0, "zb-v: none when f = b = w");
    tap_equal_int(peaks, 0,
                  "zb-h1 holds p activations on every role (p - r before "
                  "their backward), zb-h2 2 p - 1 (2 (p - r) - 1), zb-v 2 p "
                  "of half a role");
}

/* ---- what shows of fill and drain ---- */

static double fill_of(const char *name, int32_t p, int32_t v, int32_t m)
{
    const plan_schedule *schedule = plan_schedule_find(name);
    fs_arena *arena = fs_arena_create();
    plan_stage stages[MAX_S];
    for (int32_t s = 0; s < p * v; s++)
        stages[s] =
            (plan_stage){{1, {1}}, plan_placing_role(schedule->placing, p, s)};
    plan_pipeline pipe = plan_pipeline_of(stages, p * v, name, m, arena);
    double fill = plan_schedule_fill(&pipe, stages);
    fs_arena_destroy(arena);
    return fill;
}

/* Slots that are stepped take 2 (m + p - 1) units, of which 2 m are work. */
static bool shows_whole(const char *name, int32_t p, int32_t m)
{
    fs_arena *arena = fs_arena_create();
    plan_stage stages[MAX_S];
    for (int32_t s = 0; s < p; s++)
        stages[s] = (plan_stage){{1, {1}}, s};
    plan_pipeline pipe = plan_pipeline_of(stages, p, name, m, arena);
    const plan_pace pace = plan_pace_of(&pipe, arena);
    int32_t end = 0;
    for (int32_t i = 0; i < 3 * p * m; i++)
        end = end > pace.ends[i] ? end : pace.ends[i];
    fs_arena_destroy(arena);
    return end == 2 * (m + p - 1);
}

static void test_whole(void)
{
#define PLAN_SCHEDULE(id, name, placing, splits, passes, whole) {name, whole},
    static const struct {
        const char *name;
        bool whole;
    } all[] = {
#include "plan/schedules.def"
    };
#undef PLAN_SCHEDULE
    int32_t wrong = 0;
    for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
        for (int32_t p = 2; all[k].whole && p <= MAX_P; p++)
            for (int32_t m = 1; m <= 6 * p; m++)
                wrong += !shows_whole(all[k].name, p, m);
    tap_equal_int(wrong, 0,
                  "where all of fill and drain is said to show it does, of "
                  "any number of micro-batches");
}

static void test_fill(void)
{
    int32_t wrong = 0;
    for (int32_t p = 2; p <= MAX_P; p++)
        for (int32_t m = 2 * p; m <= 12 * p; m += p) {
            wrong += fill_of("gpipe", p, 1, m) != 1;
            wrong += fill_of("1f1b", p, 1, m) != 1;
            wrong += fill_of("dynamic", p, 1, m) != 1;
            for (int32_t v = 1; v <= MAX_V; v++)
                wrong +=
                    fabs(fill_of("interleaved", p, v, m) - 1.0 / v) > 1e-12;
            wrong += fabs(fill_of("zb-h1", p, 1, m) - 1.0 / 3) > 1e-12;
            wrong += fill_of("zb-h2", p, 1, m) != 0;
            wrong += fill_of("zb-v", p, 2, m) != 0;
        }
    tap_equal_int(wrong, 0, "fill and drain show as much as is published");
    tap_ok(fill_of("zb-v", 4, 2, 1) > 0.5, "of one micro-batch much shows");
}

int main(void)
{
    test_table();
    test_in_flight();
    test_bubble();
    test_zero_bubble();
    test_fill();
    test_whole();
    return tap_done();
}
