/* Timelines: what waits is drawn as waiting, rows are told apart. */
#include "config.h"

#include "report/report.h"

#include "plan_build.h"
#include "tap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAITING "fillcolor=\"#e7dff0\""
#define MOVING "fillcolor=\"#7a1fa2\""

static int32_t first_task(const plan_role *role, plan_task_kind kind)
{
    int32_t i = 0;
    while (role->tasks[i].kind != kind)
        i++;
    return i;
}

/* The text of a timeline in which rank 1 comes to its first receive at 0 and
 * gets it from `start_ns` to `end_ns`; a static text. */
static const char *draw(const plan *p, int64_t start_ns, int64_t end_ns)
{
    static char text[1 << 20];
    char file[64];
    fs_err err = {0};
    report_drawn drawn;
    plan_trace trace = {.arena = fs_arena_create()};
    const plan_role *role = plan_role_of_rank(p, 1);
    int32_t task = first_task(role, PLAN_RECV);
    plan_event computes = {.rank = 0,
                           .task = first_task(&p->roles[0], PLAN_COMPUTE),
                           .end_ns = end_ns};
    plan_event receives = {.rank = 1,
                           .task = task,
                           .stream = role->tasks[task].stream,
                           .start_ns = start_ns,
                           .end_ns = end_ns};
    fs_push(trace.arena, &trace.events, computes);
    fs_push(trace.arena, &trace.events, receives);
    snprintf(file, sizeof file, "report_timeline.%d.dot", (int)getpid());
    if (report_draw_timeline(p, &trace, "title", file, &err, &drawn) != FS_OK)
        printf("# %s\n", err.text);
    FILE *in = fopen(file, "r");
    text[in ? fread(text, 1, sizeof text - 1, in) : 0] = '\0';
    if (in)
        fclose(in);
    unlink(file);
    fs_arena_destroy(trace.arena);
    return text;
}

/* Boxes of a colour; the legend has one of each. */
static int32_t count(const char *text, const char *what)
{
    int32_t n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n - 1;
}

static void test_waiting(const plan *p)
{
    const char *text = draw(p, 600, 1000);
    tap_equal_int(count(text, WAITING), 1, "a receive that waits is pale");
    tap_equal_int(count(text, MOVING), 1, "until it moves");
    tap_ok(strstr(text, "rank 1 receive from stage 0") != NULL,
           "its row says from whom");
    text = draw(p, 0, 1000);
    tap_equal_int(count(text, WAITING), 0, "who has not waited is not pale");
}

static const double scales[] = {1, 1e3, 1e6, 1e9};

/* Ticks of a timeline in ns, ascending: how many. */
static int32_t read_ticks(const char *text, double ticks[16])
{
    static const char *const units[] = {" ns\"", " us\"", " ms\"", " s\""};
    int32_t n = 0;
    for (; (text = strstr(text, "label=\"")) != NULL; text += 7) {
        char *end;
        const double value = strtod(text + 7, &end);
        for (int32_t k = 0; k < 4 && end > text + 7; k++)
            if (strncmp(end, units[k], strlen(units[k])) == 0 && n < 16)
                ticks[n++] = value * scales[k];
    }
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < i; k++)
            if (ticks[i] < ticks[k]) {
                const double other = ticks[i];
                ticks[i] = ticks[k];
                ticks[k] = other;
            }
    return n;
}

static void test_ticks(const plan *p)
{
    for (double whole = 7; whole < 1e10; whole *= 2.7) {
        double ticks[16] = {0};
        const int32_t n = read_ticks(draw(p, 0, (int64_t)whole), ticks);
        const double each = ticks[1] / pow(10, floor(log10(ticks[1]) + 1e-9));
        bool even = n >= 5 && n <= 11 && ticks[0] == 0;
        for (int32_t i = 1; i < n; i++)
            even &= fabs(ticks[i] / ticks[1] / i - 1) < 0.01;
        tap_ok(even && (fabs(each - 1) < 1e-6 || fabs(each - 2) < 1e-6 ||
                        fabs(each - 5) < 1e-6),
               "%.0f ns: %d ticks, every %g ns", whole, n, ticks[1]);
    }
}

/* Pairs of streams of stage 0 with one name. */
static int32_t same_names(const plan *p, fs_arena *arena)
{
    int32_t same = 0, n = plan_role_of_rank(p, 0)->n_streams;
    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < i; k++)
            same += strcmp(report_stream_name(p, 0, i, arena),
                           report_stream_name(p, 0, k, arena)) == 0;
    return same;
}

/* The first weight is the last too: stage 0 sends to both others. */
static void test_rows(plan *p, fs_arena *arena)
{
    int32_t first = -1, second = -1;
    plan_role *role = &p->roles[0];
    for (int32_t i = 0; i < role->n_streams; i++)
        if (role->streams[i].kind == PLAN_STREAM_SEND) {
            second = first;
            first = i;
        }
    tap_ok(second >= 0, "stage 0 sends to two stages");
    tap_equal_int(same_names(p, arena), 0,
                  "its streams have names of their "
                  "own");
    for (int32_t i = 0; i < role->n_tasks; i++)
        if (role->tasks[i].stream == second)
            role->tasks[i].phase = PLAN_END;
    p->channels[role->streams[second].channel].to_stage =
        p->channels[role->streams[first].channel].to_stage;
    tap_equal_int(same_names(p, arena), 0,
                  "two channels to one stage, early and late, too");
}

static plan *lowered(const ir_graph *g, const char *schedule, fs_arena *arena)
{
    build_recipe recipe = {.pp = 3};
    plan_lower_options options = plan_lower_defaults();
    fs_err err = {0};
    plan *p;
    plan_strategy *s = build_strategy(g, &recipe, arena);
    s->schedule = schedule;
    if (plan_lower(g, build_cluster(3, arena), s, &options, arena, &err, &p) !=
        FS_OK) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    return p;
}

int main(void)
{
    fs_arena *arena = fs_arena_create();
    ir_graph *g = build_mlp(4, 8, true, 2);
    plan *p = lowered(g, "1f1b", arena);
    test_waiting(p);
    test_ticks(p);
    test_rows(p, arena);
    tap_equal_int(same_names(lowered(g, "dynamic", arena), arena), 0,
                  "streams that compute a pass each have names of their own");
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
    return tap_done();
}
