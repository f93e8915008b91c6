/* Running the program as a user does, and reading what it says. */
#ifndef FS_TESTS_RUN_CLI_H
#define FS_TESTS_RUN_CLI_H

#include "tests/tap.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char cli_scratch[512]; /* a folder of this test's own */

typedef struct cli_answer {
    int status;
    char out[1 << 18], err[1 << 16];
    json_t *json; /* of out, NULL when it is none */
} cli_answer;

static const char *cli_env(const char *name, const char *usual)
{
    const char *value = getenv(name);
    return value && *value ? value : usual;
}

/* Open MPI leaks in modules that it has unloaded by then, which no suppression
 * can name: leaks are looked for in every command but those that start ranks.
 */
static void cli_watch_leaks(const char *words)
{
    int ranks = strncmp(words, "run ", 4) == 0 ||
                strncmp(words, "serve ", 6) == 0 ||
                strncmp(words, "calibrate", 9) == 0 ||
                strstr(words, "--plan ") != NULL ||
                strstr(words, "local") != NULL; /* probed by ranks */
    setenv("ASAN_OPTIONS", ranks ? "detect_leaks=0" : "detect_leaks=1", 1);
}

/* FS_MEASURED: a database that knows this host, which takes long to measure;
 * empty, or not said: it is measured where a command first asks. */
static void cli_begin_scratch(const char *name)
{
    snprintf(cli_scratch, sizeof cli_scratch, "%s/tests/%s.%d",
             cli_env("FS_BUILDDIR", "."), name, (int)getpid());
    mkdir(cli_scratch, 0777);
    setenv("D", cli_scratch, 1);
    setenv("S", cli_env("FS_SRCDIR", "."), 1);
    if (*cli_env("FS_MEASURED", "") &&
        system("cp \"$FS_MEASURED\" \"$D/test.db\"") != 0)
        printf("# %s is not taken\n", cli_env("FS_MEASURED", ""));
}

static void cli_end_scratch(void)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", cli_scratch);
    if (system(command) != 0)
        printf("# %s is left behind\n", cli_scratch);
}

static void cli_slurp(const char *name, char *into, size_t room)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(into, 1, room - 1, file) : 0;
    into[n] = '\0';
    if (file)
        fclose(file);
}

/* `words` go through the shell: $D is the scratch folder, $S the source tree.
 * The database is the scratch folder's own, so that this host is probed once.
 * Returns a static answer, valid until the next call. */
static cli_answer *cli(const char *format, ...)
    __attribute__((format(printf, 1, 2), unused));
static cli_answer *cli(const char *format, ...)
{
    static cli_answer answer;
    char words[2048], command[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    const char *db = strstr(words, "--db") ? "" : " --db \"$D/test.db\"";
    snprintf(command, sizeof command,
             "'%s/flowsearch' %s%s >\"$D/out\" 2>\"$D/err\"",
             cli_env("FS_BUILDDIR", "."), words, db);
    cli_watch_leaks(words);
    int raw = system(command);
    json_decref(answer.json);
    answer.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128;
    cli_slurp("out", answer.out, sizeof answer.out);
    cli_slurp("err", answer.err, sizeof answer.err);
    answer.json = json_loads(answer.out, 0, NULL);
    return &answer;
}

__attribute__((unused)) static void cli_show(const cli_answer *a)
{
    printf("# status %d\n", a->status);
    for (const char *text = a->err; *text;) {
        size_t n = strcspn(text, "\n");
        printf("# stderr: %.*s\n", (int)(n > 200 ? 200 : n), text);
        text += n + (text[n] == '\n');
    }
}

/* Is `text` that of tests/golden/NAME? FS_GOLDEN=rewrite in the environment
 * writes the file anew. */
static inline bool cli_is_golden(const char *name, const char *text)
{
    static char golden[1 << 16];
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/golden/%s", cli_env("FS_SRCDIR", "."),
             name);
    bool rewrite = strcmp(cli_env("FS_GOLDEN", ""), "rewrite") == 0;
    FILE *file = fopen(path, rewrite ? "w+" : "r");
    if (file && rewrite) {
        fputs(text, file);
        rewind(file);
    }
    size_t n = file ? fread(golden, 1, sizeof golden - 1, file) : 0;
    golden[n] = '\0';
    if (file)
        fclose(file);
    if (strcmp(text, golden) == 0)
        return true;
    printf("# differs from %s, found:\n", path);
    for (const char *at = text; *at;) {
        size_t line = strcspn(at, "\n");
        printf("# %.*s\n", (int)line, at);
        at += line + (at[line] == '\n');
    }
    return false;
}

static inline double cli_number(const cli_answer *a, const char *key)
{
    const json_t *value = json_object_get(a->json, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

#endif
