/* make bench-search: what `solve` makes of public cost networks. */
#include "config.h"
#include "tests/bench_search.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

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
    printf("\n");
    fflush(stdout);
    json_decref(answer);
}

/* As large as the largest of the public set, and without edges that leave
 * little of it. */
static void solve_drawn(void)
{
    enum { NODES = 65000, DRAWS = 2 };
    const char *path = bench_scratch("drawn.json");
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
                "Best known costs are those of best_known.csv.",
                "| network | nodes | left | cost | over best known % | bound | "
                "gap % | s | CPU s | MB |");
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
