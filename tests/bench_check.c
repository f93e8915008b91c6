/* make bench: what the proof of a large plan takes, in CPU time of one core. A
 * step of at least 1,000,000 firings: few tasks and many micro-batches, and the
 * other way round. */
#include "plan_hand.h"

#include "plan/check_parts.h"

#include <time.h>

enum { WANTED = 1000000, REPEATS = 5 };

static double cpu_ms(void)
{
    return (double)clock() * 1e3 / CLOCKS_PER_SEC;
}

static void figure(const char *what, const char *which, double ms,
                   const char *bar)
{
    char text[64];
    snprintf(text, sizeof text, "%s: %s", which, what);
    printf("| %-52s | %10.4g | %-8s | %-12s |\n", text, ms, "ms", bar);
    fflush(stdout);
}

/* The fastest of some: what the machine's other work adds is no part of it. */
static double fastest(plan_checking *c, void (*part)(plan_checking *))
{
    double best = INFINITY;
    for (int32_t i = 0; i < REPEATS; i++) {
        double start = cpu_ms();
        part(c);
        best = fmin(best, cpu_ms() - start);
    }
    return best;
}

static void bench(const char *which, int32_t layers, int32_t m, bool overlap)
{
    fs_arena *arena = fs_arena_create();
    int32_t stages = 4;
    ir_mesh mesh = {1, {2}};
    ir_graph *g = hand_mlp(layers, 8, 8, m);
    hw_cluster *c = hand_cluster(arena, 1, stages * 2, 0);
    c->groups[0].device.memory_bytes = 1e15;
    plan_strategy *s = hand_stages(g, stages, mesh, arena);
    hand_signatures(g, s, 1, arena);
    plan *p = hand_lower(g, c, s, overlap, arena);
    plan_report report = {.findings = fs_new(arena, plan_finding, 20)};
    plan_checking k = {.graph = g, .cluster = c, .p = p, .arena = arena};
    k.report = &report;
    k.scratch = fs_arena_create();
    plan_check_structure(&k);
    plan_check_unroll(&k);
    double live = fastest(&k, plan_check_live), start = cpu_ms();
    printf("# %s: %lld transitions, %lld places\n", which,
           (long long)report.n_transitions, (long long)report.n_places);
    figure("liveness", which, live, "");
    figure("liveness per 1,000,000 transitions", which,
           live * WANTED / (double)report.n_transitions, "<= 100");
    fs_arena_destroy(k.scratch);
    start = cpu_ms();
    if (plan_check(g, c, p, arena, &report) != FS_OK)
        hand_print(&report);
    figure("the whole proof", which, cpu_ms() - start, "");
    fs_arena_destroy(arena);
    ir_graph_destroy(g);
}

int main(void)
{
    bench("1024 micro-batches", 100, 1024, true);
    bench("64 micro-batches", 1600, 64, true);
    return 0;
}
