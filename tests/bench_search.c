/* make bench-search: tables of what the search takes and proves, beside what it
 * should, in one run. Figures, and `holds` or `FAILS` beside each row; it ends
 * with status 0 either way. A row is the command in its last column, run in a
 * process of its own; `wall` is all of it, with reading, lowering, proof and
 * simulation, `CPU` of all its threads. In the environment:
 *   BENCH_SEARCH=TEXT  only tables (targets, plain, published, growth,
 *                      baselines, ranks, solve) or rows with that in their name
 *   BENCH_ALL=1        all baselines: every family of recipes by itself too
 *   BENCH_LIMIT=S      seconds each search has (its own usual limit)
 *   BENCH_CSV=FILE     baselines: answers are added to it, what it has is not
 *                      asked again
 *   BENCH_MODELS=A,B   baselines: of these only
 *   BENCH_CLUSTERS=A,B baselines: on these only
 *   BENCH_IOPDDL=DIR   where to look for networks (datasets/iopddl) */
#include "config.h"
#include "tests/bench_search.h"

#include "tests/run_cli.h"

#include <sys/resource.h>
#include <sys/time.h>
#include <time.h>

static double now_s(void)
{
    struct timeval at;
    gettimeofday(&at, NULL);
    return (double)at.tv_sec + 1e-6 * (double)at.tv_usec;
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* Its memory and processor time too, so not by cli(). */
static void start(const char *command, bench_run *r)
{
    struct rusage usage = {0};
    int raw = 0;
    r->status = -1;
    const double began_s = now_s();
    const pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (child < 0 || wait4(child, &raw, 0, &usage) != child)
        return;
    r->wall_s = now_s() - began_s;
    r->cpu_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
    r->megabytes = (double)usage.ru_maxrss * 1024 / 1e6;
    r->status = WIFEXITED(raw) ? WEXITSTATUS(raw) : -1;
}

double bench_figure(const json_t *from, const char *key)
{
    const json_t *value = json_object_get(from, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

json_t *bench_answer(void)
{
    return json_load_file(bench_scratch("out"), 0, NULL);
}

static void read_configs(bench_run *r, const json_t *list)
{
    size_t k;
    const json_t *row;
    json_array_foreach(list, k, row)
    {
        const char *status = json_string_value(json_object_get(row, "status"));
        r->configs++;
        r->open += status && strcmp(status, "pruned") != 0;
    }
}

static void read_answer(bench_run *r)
{
    json_t *answer = bench_answer();
    const char *status = json_string_value(json_object_get(answer, "status"));
    size_t k;
    json_t *peak;
    r->graphs_s = bench_figure(answer, "graphs_s");
    r->first_s = bench_figure(answer, "first_s");
    r->search_s = bench_figure(answer, "search_s");
    r->step_s = bench_figure(answer, "iteration_s");
    r->gap = bench_figure(answer, "gap");
    r->every_cut = bench_figure(answer, "any_cut_gap");
    r->sim_gap = bench_figure(answer, "sim_gap");
    r->late = json_is_true(json_object_get(answer, "late"));
    r->peak_bytes = 0;
    json_array_foreach(json_object_get(answer, "peak_bytes"), k, peak)
        r->peak_bytes = fmax(r->peak_bytes, json_number_value(peak));
    snprintf(r->answer, sizeof r->answer, "%s", status ? status : "");
    read_configs(r, json_object_get(answer, "configs"));
    json_decref(answer);
}

static void read_message(bench_run *r)
{
    cli_slurp("err", r->why, sizeof r->why);
    r->why[strcspn(r->why, "\n")] = '\0';
    if (r->status == 0) /* hints and notes */
        r->why[0] = '\0';
}

static char database[600] = "none";

void bench_use_database(const char *name)
{
    snprintf(database, sizeof database, "%s", name);
}

bench_run bench_do(const char *format, ...)
{
    bench_run r = {0};
    char command[3072];
    va_list args;
    va_start(args, format);
    const int n = snprintf(r.command, sizeof r.command, "flowsearch ");
    vsnprintf(r.command + n, sizeof r.command - (size_t)n, format, args);
    va_end(args);
    snprintf(command, sizeof command,
             "'%s'/%s --db '%s' --json >'%s/out' 2>'%s/err'",
             cli_env("FS_BUILDDIR", "."), r.command, database, cli_scratch,
             cli_scratch);
    r.wall_s = r.cpu_s = r.megabytes = (double)NAN;
    start(command, &r);
    read_answer(&r);
    read_message(&r);
    char *output = strstr(r.command, " -o ");
    if (output)
        *output = '\0';
    return r;
}

bench_run bench_search(double limit_s, const char *words)
{
    char limit[60] = "";
    const char *asked = bench_env("BENCH_LIMIT", "");
    if (*asked)
        snprintf(limit, sizeof limit, " --time-limit %.40s", asked);
    else if (limit_s > 0)
        snprintf(limit, sizeof limit, " --time-limit %g", limit_s);
    return bench_do("search %s%s -o '%s'", words, limit,
                    bench_scratch("plan.json"));
}

bool bench_wants(const char *table, const char *row)
{
    const char *only = bench_env("BENCH_SEARCH", "");
    return strstr(table, only) || strstr(row, only);
}

const char *bench_env(const char *name, const char *usual)
{
    return cli_env(name, usual);
}

const char *bench_home(const char *below)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", cli_env("FS_SRCDIR", "."), below);
    return path;
}

const char *bench_scratch(const char *below)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, below);
    return path;
}

/* ---- tables ---- */

void bench_table(const char *title, const char *target, const char *columns)
{
    double load = (double)NAN;
    if (getloadavg(&load, 1) != 1)
        load = (double)NAN;
    printf("\n## %s\n\n%s Load when it began: %.1f.\n\n%s\n|", title, target,
           load, columns);
    for (const char *at = strchr(columns + 1, '|'); at;
         at = strchr(at + 1, '|'))
        printf("---|");
    printf("\n");
    fflush(stdout);
}

void bench_cell(const char *format, double value)
{
    char text[32] = "-";
    if (isfinite(value))
        snprintf(text, sizeof text, format, value);
    printf(" %s |", text);
}

double bench_first(const bench_run *r)
{
    return r->graphs_s + r->first_s;
}

void bench_must(bench_verdict *verdict, bool holds, const char *what)
{
    const size_t n = strlen(verdict->text);
    if (!holds)
        snprintf(verdict->text + n, sizeof verdict->text - n, "%s%s",
                 n ? ", " : "FAILS: ", what);
}

void bench_tell(const bench_verdict *verdict)
{
    printf(" %s |", verdict->text[0] ? verdict->text : "holds");
}

void bench_tell_command(const bench_run *r)
{
    printf(" `%s`%s%s |\n", r->command, r->why[0] ? " " : "", r->why);
    fflush(stdout);
}

static void tell_machine(void)
{
    char line[200], name[200] = "", date[40];
    const time_t now = time(NULL);
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "model name : %199[^\n]", name) == 1)
            break;
    if (file)
        fclose(file);
    strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", gmtime(&now));
    printf("# make bench-search, %s\n\n%ld cores, %s. Seconds of the wall "
           "clock but where CPU is said.\n",
           date, sysconf(_SC_NPROCESSORS_ONLN), name);
}

int main(void)
{
    cli_begin_scratch("bench_search");
    tell_machine();
    bench_targets();
    bench_plain();
    bench_published();
    bench_growth();
    bench_baselines();
    bench_ranks();
    bench_solve();
    cli_end_scratch();
    return 0;
}
