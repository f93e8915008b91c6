/* Commands that go on while the test acts on them and on their ranks. */
#ifndef FS_TESTS_RUN_GOING_H
#define FS_TESTS_RUN_GOING_H

#include "tests/run_cli.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <time.h>

enum { MOST_RANKS = 64 };

static inline void nap(void)
{
    struct timespec t = {0, 50000000};
    nanosleep(&t, NULL);
}

/* A shell that starts this test in the background tells it to ignore them. */
static inline void heed_interrupts(void)
{
    static const int numbers[] = {SIGINT, SIGHUP, SIGTERM, SIGQUIT, SIGPIPE};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        signal(numbers[i], SIG_DFL);
}

/* What it says goes to NAME.out and NAME.err. */
static inline pid_t start_as(const char *name, const char *words)
{
    char command[2048];
    snprintf(command, sizeof command,
             "exec '%s/flowsearch' %s >\"$D/%s.out\" 2>\"$D/%s.err\"",
             cli_env("FS_BUILDDIR", "."), words, name, name);
    cli_watch_leaks(words);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        heed_interrupts();
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

static inline pid_t start(const char *words)
{
    return start_as("goes", words);
}

static inline const cli_answer *finish_as(const char *name, pid_t child)
{
    static cli_answer answer;
    char file[64];
    int raw = 0;
    waitpid(child, &raw, 0);
    json_decref(answer.json);
    answer.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128;
    snprintf(file, sizeof file, "%s.out", name);
    cli_slurp(file, answer.out, sizeof answer.out);
    snprintf(file, sizeof file, "%s.err", name);
    cli_slurp(file, answer.err, sizeof answer.err);
    answer.json = json_loads(answer.out, 0, NULL);
    return &answer;
}

static inline const cli_answer *finish(pid_t child)
{
    return finish_as("goes", child);
}

/* Processes of this program whose words name this file of the test's folder and
 * that write to no database. Returns how many. */
static inline int find_working(const char *with, pid_t *ranks)
{
    char path[300], words[4096], plan_file[600];
    int n = 0;
    snprintf(plan_file, sizeof plan_file, "%s/%s", cli_scratch, with);
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
            n < MOST_RANKS)
            ranks[n++] = (pid_t)atoi(d->d_name);
    }
    if (all)
        closedir(all);
    return n;
}

/* Until there are `n` of them (20 s at most). */
static inline int wait_working(const char *with, int n, pid_t *ranks)
{
    int got = find_working(with, ranks);
    for (int i = 0; i < 400 && got != n; i++) {
        nap();
        got = find_working(with, ranks);
    }
    return got == n;
}

/* Until the plan p.json has `n` ranks that train it. */
static inline int wait_ranks(int n, pid_t *ranks)
{
    return wait_working("p.json", n, ranks);
}

static inline int says(const cli_answer *a, int status, const char *word)
{
    int good = a->status == status && strstr(a->err, word);
    if (!good)
        cli_show(a);
    return good;
}

static inline int count(const char *text, const char *word)
{
    int n = 0;
    for (; (text = strstr(text, word)) != NULL; text++)
        n++;
    return n;
}

/* A short name: Open MPI puts sockets there. */
static inline void begin_tmp(char tmp[32])
{
    strcpy(tmp, "/tmp/fs_test.XXXXXX");
    if (!mkdtemp(tmp))
        printf("Bail out! no folder can be made in /tmp\n");
    setenv("TMPDIR", tmp, 1);
}

static inline void end_tmp(const char *tmp)
{
    char command[64];
    unsetenv("TMPDIR");
    snprintf(command, sizeof command, "rm -rf '%s'", tmp);
    if (system(command) != 0)
        printf("# %s is left behind\n", tmp);
}

static inline int shell(const char *words)
{
    int raw = system(words);
    return WIFEXITED(raw) && WEXITSTATUS(raw) == 0;
}

/* How many files of a folder have `word` in their names. */
static inline int files_with(const char *dir, const char *word)
{
    int n = 0;
    DIR *all = opendir(dir);
    for (struct dirent *d; all && (d = readdir(all)) != NULL;)
        n += d->d_name[0] != '.' && strstr(d->d_name, word) != NULL;
    if (all)
        closedir(all);
    return n;
}

/* Until the database tells of a run that goes on (20 s at most). */
static inline int wait_row(void)
{
    int there = 0;
    for (int i = 0; i < 200 && !there; i++) {
        nap();
        const cli_answer *a =
            cli("runs --json --sql \"SELECT 'goes on' AS row FROM runs WHERE "
                "ended IS NULL\" 2>/dev/null");
        there = strstr(a->out, "goes on") != NULL;
    }
    return there;
}

#endif
