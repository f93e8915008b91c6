/* make bench-search: what `solve` makes of public cost networks. */
#include "config.h"
#include "tests/bench_search.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* What the networks are to come to (in 60 s; `near` those of which more is
 * wanted); of those that nobody else solved a solution. */
static void judge(const char *name, double cost, double over, double gap,
                  double seconds)
{
    const bool near = strcmp(name, "B") == 0 || strcmp(name, "G") == 0;
    bench_verdict v = {{0}};
    bench_must(&v, isfinite(cost), "feasible");
    bench_must(&v, !isfinite(over) || over <= (near ? 0.005 : 0.02), "cost");
    bench_must(&v, !isfinite(over) || seconds <= (near ? 10 : 60), "seconds");
    bench_must(&v, !near || gap <= 0.005, "gap");
    bench_tell(&v);
}

/* NAN: no other cost is known. */
static void solve(const char *path, const char *name, double best)
{
    const bench_run r = bench_do("solve '%s' --time-limit %s", path,
                                 bench_env("BENCH_LIMIT", "60"));
    json_t *answer = bench_answer();
    const double cost = bench_figure(answer, "cost");
    printf("| %s | %.0f | %.0f | %.0f |", name, bench_figure(answer, "nodes"),
           bench_figure(answer, "nodes_left"), cost);
    bench_cell("%+.4f", 100 * (cost / best - 1));
    bench_cell("%.0f", bench_figure(answer, "lower_bound"));
    bench_cell("%.3f", 100 * r.gap);
    bench_cell("%.2f", bench_figure(answer, "solve_s"));
    bench_cell("%.2f", r.cpu_s);
    bench_cell("%.0f", r.megabytes);
    judge(name, cost, cost / best - 1, r.gap, bench_figure(answer, "solve_s"));
    printf("\n");
    fflush(stdout);
    json_decref(answer);
}

/* As large as the largest of the public set, and without edges that leave
 * little of it. */
static void solve_drawn(void)
{
    enum { NODES = 65000, DRAWS = 2 };
    char path[1200]; /* an answer has a path of its own */
    snprintf(path, sizeof path, "%s", bench_scratch("drawn.json"));
    for (uint64_t seed = 1; seed <= DRAWS; seed++) {
        char name[40];
        snprintf(name, sizeof name, "drawn %d", (int)seed);
        if (bench_draw_network(path, NODES, seed))
            solve(path, name, (double)NAN);
    }
}

/* Those that best_known.csv names, as far as they are there, and drawn ones. */
void bench_solve(void)
{
    char line[200], dir[1000], list[1100], path[1200];
    snprintf(dir, sizeof dir, "%s",
             bench_env("BENCH_IOPDDL", bench_home("datasets/iopddl")));
    snprintf(list, sizeof list, "%s/best_known.csv", dir);
    FILE *file = bench_wants("solve", "solve") ? fopen(list, "r") : NULL;
    if (!file)
        return;
    bench_table("Public cost networks (`solve`)",
                "Best known costs are those of best_known.csv. Target: B and G "
                "within 0.5 % in 10 s, proven to 0.5 %; others within 2 % in "
                "60 s.",
                "| network | nodes | left | cost | over best known % | bound | "
                "gap % | s | CPU s | MB | verdict |");
    while (fgets(line, sizeof line, file)) {
        char name[20];
        double best;
        if (sscanf(line, "%19[^,],%lf", name, &best) != 2)
            continue;
        snprintf(path, sizeof path, "%s/%s.json.gz", dir, name);
        if (access(path, R_OK) == 0)
            solve(path, name, best);
    }
    fclose(file);
    solve_drawn();
}
