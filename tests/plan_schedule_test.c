#include "config.h"

#include "plan/schedule.h"

#include "tap.h"

enum { MAX_M = 16, MAX_P = 8 };

/* Each micro-batch once forward, once backward, in this order, and both in
 * ascending order (channels rely on it). */
static bool well_formed(const plan_slot *slots, int32_t m)
{
    int32_t forward = 0, backward = 0;

    for (int32_t i = 0; i < 2 * m; i++) {
        if (slots[i].phase == PLAN_FORWARD && slots[i].micro_batch == forward)
            forward++;
        else if (slots[i].phase == PLAN_BACKWARD &&
                 slots[i].micro_batch == backward && backward < forward)
            backward++;
        else
            return false;
    }
    return forward == m && backward == m;
}

static void test_table(void)
{
    char names[200], *name;
    int32_t bad = 0, rows = 0;
    plan_slot slots[2 * MAX_M];

    snprintf(names, sizeof names, "%s", plan_schedule_names());
    for (name = strtok(names, ", "); name; name = strtok(NULL, ", ")) {
        plan_schedule_fn *fill = plan_schedule_find(name);
        rows++;
        for (int32_t p = 1; p <= MAX_P; p++)
            for (int32_t m = 1; m <= MAX_M; m++)
                for (int32_t s = 0; fill && s < p; s++) {
                    fill(s, p, m, slots);
                    bad += !well_formed(slots, m);
                }
        bad += fill == NULL;
    }
    tap_ok(rows >= 2, "there are schedules: %s", plan_schedule_names());
    tap_equal_int(bad, 0,
                  "each runs every micro-batch once forward, then once "
                  "backward");
    tap_ok(plan_schedule_find("round-robin") == NULL,
           "an unknown name has no schedule");
}

static void test_in_flight(void)
{
    plan_slot slots[2 * MAX_M];
    int32_t bad = 0;

    for (int32_t p = 1; p <= MAX_P; p++)
        for (int32_t m = 1; m <= MAX_M; m++)
            for (int32_t s = 0; s < p; s++) {
                int32_t ahead = p - s < m ? p - s : m;
                plan_schedule_find("1f1b")(s, p, m, slots);
                bad += plan_schedule_in_flight(slots, 2 * m) != ahead;
                plan_schedule_find("gpipe")(s, p, m, slots);
                bad += plan_schedule_in_flight(slots, 2 * m) != m;
            }
    tap_equal_int(bad, 0,
                  "1f1b keeps min(m, p - s) micro-batches in flight, "
                  "gpipe m");
}

/* End of the last slot when a forward takes 1, a backward 2, moves nothing. */
static int64_t makespan(const char *name, int32_t p, int32_t m)
{
    static plan_slot slots[MAX_P][2 * MAX_M];
    int32_t next[MAX_P] = {0}, left = 2 * m * p;
    int64_t end[MAX_P] = {0}, last = 0;
    static int64_t done[MAX_P][PLAN_PHASES][MAX_M];

    memset(done, 0, sizeof done);
    for (int32_t s = 0; s < p; s++)
        plan_schedule_find(name)(s, p, m, slots[s]);
    while (left > 0) {
        int32_t before = left;
        for (int32_t s = 0; s < p; s++) {
            if (next[s] == 2 * m)
                continue;
            plan_slot slot = slots[s][next[s]];
            bool forward = slot.phase == PLAN_FORWARD;
            int32_t from = forward ? s - 1 : s + 1;
            int64_t ready = 0;
            if (from >= 0 && from < p) {
                ready = done[from][slot.phase][slot.micro_batch];
                if (ready == 0)
                    continue;
            }
            end[s] = (ready > end[s] ? ready : end[s]) + (forward ? 1 : 2);
            done[s][slot.phase][slot.micro_batch] = end[s];
            last = end[s] > last ? end[s] : last;
            next[s]++;
            left--;
        }
        if (left == before)
            return -1; /* stuck */
    }
    return last;
}

static void test_bubble(void)
{
    int32_t bad = 0;

    for (int32_t p = 1; p <= MAX_P; p++)
        for (int32_t m = 1; m <= MAX_M; m++) {
            bad += makespan("1f1b", p, m) != 3 * (m + p - 1);
            bad += makespan("gpipe", p, m) != 3 * (m + p - 1);
        }
    tap_equal_int(bad, 0,
                  "both end after (m + p - 1) (f + b): a bubble of "
                  "(p - 1) / (m + p - 1)");
}

int main(void)
{
    test_table();
    test_in_flight();
    test_bubble();
    return tap_done();
}
