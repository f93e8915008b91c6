/* make bench-search: seconds of search, memory, step time and gap of the search
 * and of the baselines, each on its own, as a table; then what `solve` makes of
 * public cost networks. BENCH_SEARCH=TEXT: only models with that in their name,
 * or networks where it is `solve`; BENCH_LIMIT=S: seconds each has (20,
 * networks 60); BENCH_IOPDDL=DIR: where to look for networks (datasets/iopddl).
 * Nothing here passes or fails. `first`: seconds until the first plan that
 * fits, but for building graphs; `wall`: of the whole command, with lowering,
 * proof and simulation. */
#include "config.h"
#include "tests/run_cli.h"

#include <sys/resource.h>
#include <sys/time.h>

static const struct {
    const char *model, *cluster;
    int batch;
    const char *more;
} problems[] = {
    {"gpt2", "1x8:a100-sxm4-80g", 64, ""},
    {"wide-deep", "4x8:a100-sxm4-80g", 16384, ""},
    {"resnet50", "4x8:a100-sxm4-80g", 1024, "--precision bf16"},
    {"bert-large", "4x8:a100-sxm4-80g", 512, "--precision bf16"},
    {"llama3-8b", "8x8:h100-sxm5-80g", 256, "--precision bf16"},
    {"moe-52b", "8x8:a100-sxm4-80g", 512, "--precision bf16"},
    {"gpt3-175b", "128x8:a100-sxm4-80g", 1536,
     "--precision bf16 --recompute block"},
};

static const char *const ways[] = {
    "--engine ilp",  "--engine ilp --start none", "--engine megatron",
    "--engine alpa", "--engine greedy",           "--engine mcmc"};
enum { WAYS = sizeof ways / sizeof *ways };

typedef struct figures {
    double first_s, search_s, wall_s, mib, step_s, gap;
} figures;

static double now_s(void)
{
    struct timeval at;
    gettimeofday(&at, NULL);
    return (double)at.tv_sec + 1e-6 * (double)at.tv_usec;
}

/* Its peak memory too, so not by cli(). */
static int start(const char *command, double *mib)
{
    struct rusage usage = {0};
    int raw = 0;
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || wait4(child, &raw, 0, &usage) != child)
        return -1;
    *mib = (double)usage.ru_maxrss / 1024;
    return WIFEXITED(raw) ? WEXITSTATUS(raw) : -1;
}

static double figure(const json_t *from, const char *key)
{
    const json_t *value = json_object_get(from, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static figures measure(size_t problem, const char *way, const char *limit)
{
    char command[2048], out[600];
    figures f = {NAN, NAN, NAN, NAN, NAN, NAN};
    snprintf(out, sizeof out, "%s/out", cli_scratch);
    snprintf(command, sizeof command,
             "'%s/flowsearch' search zoo:%s --cluster %s --batch %d %s %s "
             "--time-limit %s --db none --json -o '%s/plan.json' >'%s' "
             "2>/dev/null",
             cli_env("FS_BUILDDIR", "."), problems[problem].model,
             problems[problem].cluster, problems[problem].batch,
             problems[problem].more, way, limit, cli_scratch, out);
    const double began_s = now_s();
    start(command, &f.mib);
    f.wall_s = now_s() - began_s;
    json_t *answer = json_load_file(out, 0, NULL);
    f.first_s = figure(answer, "first_s");
    f.search_s = figure(answer, "search_s");
    f.step_s = figure(answer, "iteration_s");
    f.gap = figure(answer, "gap");
    json_decref(answer);
    return f;
}

static void cell(const char *format, double value)
{
    char text[32] = "-";
    if (!isnan(value))
        snprintf(text, sizeof text, format, value);
    printf(" %9s |", text);
}

static void row(size_t problem, const char *way, const figures *f, double best)
{
    printf("| %-10s | %-19s | %-25s |", problems[problem].model,
           problems[problem].cluster, way);
    cell("%.2f", f->first_s);
    cell("%.2f", f->search_s);
    cell("%.2f", f->wall_s);
    cell("%.0f", f->mib);
    cell("%.5g", f->step_s);
    cell("%.3g", 100 * f->gap);
    cell("%+.2f", 100 * (f->step_s / best - 1));
    printf("\n");
    fflush(stdout);
}

static void bench(size_t problem, const char *limit)
{
    figures all[WAYS];
    double best = (double)NAN;
    for (size_t k = 0; k < WAYS; k++) {
        all[k] = measure(problem, ways[k], limit);
        best = fmin(best, all[k].step_s);
    }
    for (size_t k = 0; k < WAYS; k++)
        row(problem, ways[k], &all[k], best);
}

/* ---- public cost networks ---- */

static void solve(const char *dir, const char *name, double best,
                  const char *limit)
{
    char command[2048], path[600], out[600];
    double mib = NAN;
    snprintf(path, sizeof path, "%s/%s.json.gz", dir, name);
    snprintf(out, sizeof out, "%s/out", cli_scratch);
    if (access(path, R_OK) != 0)
        return;
    snprintf(command, sizeof command,
             "'%s/flowsearch' solve '%s' --time-limit %s --db none --json "
             ">'%s' 2>/dev/null",
             cli_env("FS_BUILDDIR", "."), path, limit, out);
    start(command, &mib);
    json_t *answer = json_load_file(out, 0, NULL);
    const double cost = figure(answer, "cost");
    printf("| %s | %.0f | %.0f | %.0f |", name, figure(answer, "nodes"),
           figure(answer, "nodes_left"), cost);
    cell("%+.4f", 100 * (cost / best - 1));
    cell("%.0f", figure(answer, "lower_bound"));
    cell("%.3f", 100 * figure(answer, "gap"));
    cell("%.2f", figure(answer, "solve_s"));
    cell("%.0f", mib);
    printf("\n");
    fflush(stdout);
    json_decref(answer);
}

/* Those that best_known.csv names, as far as they are there. */
static void solve_all(const char *limit)
{
    char path[600], line[200];
    const char *home = cli_env("FS_SRCDIR", ".");
    snprintf(path, sizeof path, "%s/datasets/iopddl", home);
    const char *dir = cli_env("BENCH_IOPDDL", path);
    char list[700];
    snprintf(list, sizeof list, "%s/best_known.csv", dir);
    FILE *file = fopen(list, "r");
    if (!file)
        return;
    printf(
        "\n| network | nodes | left | cost | over best known %% | bound | "
        "gap %% | s | MiB |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    while (fgets(line, sizeof line, file)) {
        char name[20];
        double best;
        if (sscanf(line, "%19[^,],%lf", name, &best) == 2)
            solve(dir, name, best, limit);
    }
    fclose(file);
}

int main(void)
{
    const char *only = cli_env("BENCH_SEARCH", "");
    const char *limit = cli_env("BENCH_LIMIT", NULL);
    cli_begin_scratch("bench_search");
    printf("| model      | cluster             | way                       | "
           "first s | search s | wall s | MiB | step s | gap %% | over best %% "
           "|\n|---|---|---|---:|---:|---:|---:|---:|---:|---:|\n");
    for (size_t p = 0; p < sizeof problems / sizeof *problems; p++)
        if (strstr(problems[p].model, only))
            bench(p, limit ? limit : "20");
    if (strstr("solve", only))
        solve_all(limit ? limit : "60");
    cli_end_scratch();
    return 0;
}
