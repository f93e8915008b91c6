/* What happens to a run that is interrupted, loses a rank or stands still, and
 * what is refused before anything starts. */
#include "config.h"
#include "tests/run_cli.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <time.h>

#define MLP "zoo:mlp,in=16,hidden=32,layers=2,classes=4"
#define LONG_RUN                                                               \
    "run \"$D/p.json\" --data synthetic --steps 5000000 --db \"$D/test.db\" "  \
    "--json"

enum { RANKS = 2, MOST = 64 };

static void nap(void)
{
    struct timespec t = {0, 50000000};
    nanosleep(&t, NULL);
}

/* ---- a command that goes on while the test acts ---- */

static pid_t start(const char *words)
{
    char command[2048];
    snprintf(command, sizeof command,
             "exec '%s/flowsearch' %s >\"$D/out\" 2>\"$D/err\"",
             cli_env("FS_BUILDDIR", "."), words);
    cli_watch_leaks(words);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

static const cli_answer *finish(pid_t child)
{
    static cli_answer answer;
    int raw = 0;
    waitpid(child, &raw, 0);
    json_decref(answer.json);
    answer.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128;
    cli_slurp("out", answer.out, sizeof answer.out);
    cli_slurp("err", answer.err, sizeof answer.err);
    answer.json = json_loads(answer.out, 0, NULL);
    return &answer;
}

/* The ranks of this test: processes whose words name its own plan and that
 * write to no database. Returns how many. */
static int find_ranks(pid_t *ranks)
{
    char path[300], words[4096], plan_file[600];
    int n = 0;
    snprintf(plan_file, sizeof plan_file, "%s/p.json", cli_scratch);
    DIR *all = opendir("/proc");
    for (struct dirent *d; all && (d = readdir(all)) != NULL;) {
        if (!isdigit((unsigned char)d->d_name[0]))
            continue;
        snprintf(path, sizeof path, "/proc/%s/cmdline", d->d_name);
        FILE *file = fopen(path, "rb");
        size_t size = file ? fread(words, 1, sizeof words - 1, file) : 0;
        if (file)
            fclose(file);
        for (size_t i = 0; i < size; i++)
            words[i] = words[i] ? words[i] : ' ';
        words[size] = '\0';
        size_t first = strcspn(words, " ");
        if (strstr(words, plan_file) && strstr(words, "--db none") &&
            first >= 10 && strncmp(words + first - 10, "flowsearch", 10) == 0 &&
            n < MOST)
            ranks[n++] = (pid_t)atoi(d->d_name);
    }
    if (all)
        closedir(all);
    return n;
}

/* Until `n` ranks are there (20 s at most). */
static int wait_ranks(int n, pid_t *ranks)
{
    int got = find_ranks(ranks);
    for (int i = 0; i < 400 && got != n; i++) {
        nap();
        got = find_ranks(ranks);
    }
    return got == n;
}

/* Time for the ranks to have joined and to train. */
static pid_t start_training(const char *words, pid_t *ranks)
{
    pid_t child = start(words);
    tap_ok(wait_ranks(RANKS, ranks), "the ranks are there");
    for (int i = 0; i < 20; i++)
        nap();
    return child;
}

static int says(const cli_answer *a, int status, const char *word)
{
    int good = a->status == status && strstr(a->err, word);
    if (!good)
        cli_show(a);
    return good;
}

static void test_interrupt(int number, const char *text)
{
    pid_t ranks[MOST];
    pid_t child = start_training(LONG_RUN, ranks);
    kill(child, number);
    const cli_answer *a = finish(child);
    tap_ok(says(a, 3, text), "%s ends a run with status 3", text);
    tap_ok(wait_ranks(0, ranks), "no rank is left");
    a = cli("runs --last 1 --json");
    const json_t *row = json_array_get(json_object_get(a->json, "runs"), 0);
    tap_ok(json_integer_value(json_object_get(row, "status")) == 3,
           "its row is ended");
}

static void test_killed_parent(void)
{
    pid_t ranks[MOST];
    pid_t child = start_training(LONG_RUN, ranks);
    kill(child, SIGKILL);
    finish(child);
    tap_ok(wait_ranks(0, ranks), "ranks end when their parent is killed");
}

static void test_killed_rank(void)
{
    pid_t ranks[MOST];
    pid_t child = start_training(LONG_RUN, ranks);
    kill(ranks[RANKS - 1], SIGKILL);
    const cli_answer *a = finish(child);
    tap_ok(says(a, 3, "a rank was killed by signal 9 (SIGKILL)"),
           "a killed rank is named by its signal");
    tap_ok(json_object_get(a->json, "fault") != NULL &&
               json_object_size(a->json) == 1,
           "the answer holds the fault and nothing that did not happen");
    tap_ok(wait_ranks(0, ranks), "the other ranks end too");
}

static void test_stopped_rank(void)
{
    pid_t ranks[MOST];
    setenv("FS_STALL_S", "1", 1);
    pid_t child = start_training(LONG_RUN, ranks);
    unsetenv("FS_STALL_S");
    kill(ranks[RANKS - 1], SIGSTOP);
    const cli_answer *a = finish(child);
    tap_ok(says(a, 3, "no progress for"),
           "a rank that stands still is found out");
    tap_ok(wait_ranks(0, ranks), "the stopped rank ends too");
}

/* ---- before anything starts ---- */

static int count(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)) != NULL; text++)
        n++;
    return n;
}

static void refused(const char *fact, const char *word, const cli_answer *a)
{
    int good = says(a, 2, word) && count(a->err, "\n") == 1 &&
               !strstr(a->err, ".tmp") && !strstr(a->err, ".try");
    tap_ok(good, "refused: %s", fact);
}

static void test_refused(void)
{
    refused("kernels that do not exist", "foo",
            cli("run \"$D/p.json\" --data synthetic --kernels foo"));
    refused("a trace that cannot be written", "/nonexistent/t.json",
            cli("run \"$D/p.json\" --data synthetic --trace "
                "/nonexistent/t.json"));
    refused("a predicted trace likewise", "/nonexistent/t.json",
            cli("sim \"$D/p.json\" --trace /nonexistent/t.json"));
    refused("pictures that cannot be written", "/nonexistent/d",
            cli("run \"$D/p.json\" --data synthetic --pictures "
                "/nonexistent/d"));
    refused("a calibration that cannot be written", "/nonexistent/c.json",
            cli("calibrate -o /nonexistent/c.json"));
    refused("a model of no sample", "--batch", cli("model " MLP " --batch 0"));
    refused("a search for no sample", "--batch",
            cli("search " MLP " --cluster 1x2:cpu --batch 0 -o \"$D/x.json\""));
    refused("a regular expression that is none", "'['",
            cli("model " MLP " --params '['"));
    refused("the timeline of a model", "PLAN",
            cli("show " MLP " --timeline -o \"$D/x.svg\""));
    refused("a database without a name", "--db", cli("model " MLP " --db ''"));
    refused("more ranks than a host is seen as", "4096",
            cli("cluster local --ranks 100000"));
}

/* Under the user's own mpirun. */
static void test_own_ranks(void)
{
    char command[2048];
    static char text[1 << 16];
    snprintf(command, sizeof command,
             "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
             "ASAN_OPTIONS=detect_leaks=0 timeout 60 '%s' --oversubscribe "
             "-n 3 '%s/flowsearch' run \"$D/p.json\" --data synthetic "
             "--db none >\"$D/out\" 2>\"$D/err\"",
             FS_MPIRUN, cli_env("FS_BUILDDIR", "."));
    int raw = system(command);
    cli_slurp("err", text, sizeof text);
    tap_ok(WIFEXITED(raw) && WEXITSTATUS(raw) == 2,
           "three ranks of a plan for two end with status 2");
    tap_ok(count(text, "flowsearch: ") == 1 &&
               strstr(text, "the plan is for 2 ranks, but 3 were started") &&
               !strstr(text, "MPI_ABORT"),
           "one rank says why");
}

int main(void)
{
    cli_begin_scratch("cli_faults");
    const cli_answer *a = cli("plan " MLP " --cluster local --ranks 2 --dp 2 "
                              "--batch 8 -o \"$D/p.json\"");
    tap_ok(a->status == 0, "a plan for two ranks");
    test_refused();
    test_own_ranks();
    test_interrupt(SIGTERM, "interrupted by signal 15 (SIGTERM)");
    test_interrupt(SIGHUP, "interrupted by signal 1 (SIGHUP)");
    test_killed_parent();
    test_killed_rank();
    test_stopped_rank();
    cli_end_scratch();
    return tap_done();
}
