/* Calls that fail at the n-th time (tests/nth.c): memory, writes of the trace,
 * outputs, the database, checkpoints and what ranks hand back, the socket
 * between two ranks. Whatever fails, a run ends with one named error, or with
 * the numbers that it has undisturbed. FAULT_SEEDS=N draws so many calls of
 * each kind. */
#include "config.h"
#include "tests/run_going.h"

#include <errno.h>

#define MLP "zoo:mlp,in=16,hidden=32,layers=2,classes=4"
#define RUN "run \"$D/%s.json\" --data synthetic --steps 4 --json %s"

static unsigned long long seed;
static char undisturbed[3][32];

typedef struct failing {
    const char *kind, *path, *plan, *words;
    const char *before; /* a command of the shell; NULL: none */
    int rank, number;
} failing;

static const char *text_of(const cli_answer *a, const char *key)
{
    const char *text = json_string_value(json_object_get(a->json, key));
    return text ? text : "";
}

static void set_int(const char *name, long value)
{
    char text[32];
    snprintf(text, sizeof text, "%ld", value);
    setenv(name, text, 1);
}

static const cli_answer *run_failing(const failing *f, long at)
{
    char preload[700], count[700];
    snprintf(preload, sizeof preload, "%s/tests/nth.so",
             cli_env("FS_BUILDDIR", "."));
    snprintf(count, sizeof count, "%s/count", cli_scratch);
    unlink(count);
    if (f->before)
        shell(f->before);
    setenv("NTH_KIND", f->kind, 1);
    setenv("NTH_PATH", f->path, 1);
    setenv("NTH_COUNT", count, 1);
    set_int("NTH_AT", at);
    set_int("NTH_RANK", f->rank);
    set_int("NTH_ERRNO", f->number);
    setenv("NTH_SO", preload, 1);
    const cli_answer *a =
        cli("--version >\"$D/version\"; LD_PRELOAD=\"$NTH_SO\" "
            "'%s/flowsearch' " RUN "%s",
            cli_env("FS_BUILDDIR", "."), f->plan, f->words,
            strstr(f->words, "--db") ? "" : " --db \"$D/test.db\"");
    return a;
}

/* How many calls there are when none fails. */
static long count_calls(const failing *f)
{
    char text[64];
    const cli_answer *a = run_failing(f, 0);
    cli_slurp("count", text, sizeof text);
    const long n = a->status == 0 ? atol(text) : 0;
    tap_ok(n > 0, "%s %s of rank %d: %ld calls", f->kind, f->path, f->rank, n);
    if (n == 0)
        cli_show(a);
    return n;
}

static unsigned draw(unsigned below)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return below ? (unsigned)(seed >> 33) % below : 0;
}

/* Its numbers are those of a run that nothing disturbed. */
static int is_same(const cli_answer *a, const failing *f)
{
    const bool infers = f->plan[0] == 'i';
    return strcmp(text_of(a, infers ? "outputs_digest" : "weights_digest"),
                  undisturbed[infers ? 2 : f->plan[1] == '2']) == 0;
}

static int n_said(const cli_answer *a)
{
    return count(a->err, "flowsearch: ");
}

/* The losses of a run that ended before it was kept are told all the same. */
static int is_told(const cli_answer *a, const failing *f, const char *word,
                   const char *text)
{
    const char *fault = text_of(a, "fault");
    if (a->status == 0)
        return is_same(a, f);
    return (a->status == 2 || a->status == 3) && n_said(a) == 1 &&
           strstr(a->err, text) && (!*fault || strstr(word, fault)) &&
           (!json_object_get(a->json, "losses") || is_same(a, f));
}

static int fail_at(const failing *f, long at, const char *word,
                   const char *text)
{
    const cli_answer *a = run_failing(f, at);
    const int good = is_told(a, f, word, text);
    tap_ok(good, "%s %s of rank %d, call %ld, %s: %s", f->kind, f->path,
           f->rank, at, f->number ? strerror(f->number) : "",
           a->status == 0 ? "survived" : text_of(a, "fault"));
    if (!good) {
        printf("# fault '%s': %s\n", text_of(a, "fault"),
               text_of(a, "fault_text"));
        cli_show(a);
    }
    return a->status;
}

static int how_many(int usual)
{
    const char *more = getenv("FAULT_SEEDS");
    return more ? atoi(more) : usual;
}

/* The first, the last, and drawn ones between. */
static void fail_many(const failing *f, int usual, const char *word,
                      const char *text)
{
    const long n = count_calls(f);
    const int times = how_many(usual);
    for (int i = 0; n > 0 && i < times; i++)
        fail_at(f, i == 0 ? 1 : i == 1 ? n : 1 + draw((unsigned)n), word, text);
}

/* ---- kinds ---- */

static void test_memory(void)
{
    failing f = {.kind = "alloc", .path = "", .plan = "p1", .words = ""};
    fail_many(&f, 12, "memory", "out of memory");
    f.rank = -1; /* also while it writes into the database */
    fail_many(&f, 12, "memory database", "out of memory");
    f.plan = "p2";
    f.rank = 1;
    fail_many(&f, 4, "memory", "out of memory");
}

static void test_files(int number)
{
    const char *text = strerror(number);
    failing f = {.kind = "write",
                 .path = "/t.json",
                 .plan = "p1",
                 .words = "--trace \"$D/t.json\" --db none",
                 .rank = -1,
                 .number = number};
    fail_many(&f, 3, "disk", text);
    tap_equal_int(files_with(cli_scratch, "t.json"), 1,
                  "a trace that is not whole is not there");
    f.before = NULL;
    f.path = "outcome";
    f.words = "--db none";
    f.rank = 0;
    fail_many(&f, 3, "disk", text);
}

/* Of a plan of inference: all of them whole, or none. */
static void test_outputs(int number)
{
    failing f = {.kind = "write",
                 .path = "/given/",
                 .plan = "i2",
                 .words =
                     "--outputs \"$D/given\" --weights \"$D/w.st\" --db none",
                 .before = "rm -rf \"$D/given\"",
                 .rank = 0,
                 .number = number};
    char dir[600];
    snprintf(dir, sizeof dir, "%s/given", cli_scratch);
    const long n = count_calls(&f);
    for (int i = 0; n > 0 && i < how_many(2); i++) {
        const int status = fail_at(&f, i == 0 ? 1 : 1 + draw((unsigned)n),
                                   "disk", strerror(number));
        tap_equal_int(files_with(dir, ""), status == 0,
                      "outputs that are not whole are not there");
    }
}

/* The table of --scalars: told when it happens, not at the end. */
static void test_scalars(int number)
{
    const failing f = {.kind = "write",
                       .path = "/s.csv",
                       .plan = "p1",
                       .words = "--scalars \"$D/s.csv\" --db none",
                       .rank = 0,
                       .number = number};
    tap_equal_int(fail_at(&f, 2, "disk", "s.csv: cannot be written"), 3,
                  "a row that cannot be written is a fault");
    const cli_answer *a = run_failing(&f, 2);
    const json_t *fault = json_array_get(json_object_get(a->json, "faults"), 0);
    tap_ok(json_integer_value(json_object_get(fault, "step")) == 3 &&
               strstr(text_of(a, "fault_text"), strerror(number)),
           "of the step after it");
}

/* Of the last run; a database that could not be made is not there. */
static long long rows_of_steps(void)
{
    if (files_with(cli_scratch, "nth.db") == 0)
        return 0;
    const cli_answer *a =
        cli("runs --json --db \"$D/nth.db\" --sql \"SELECT count(*) AS n FROM "
            "steps WHERE run = (SELECT max(id) FROM runs)\"");
    const json_t *row = json_array_get(json_object_get(a->json, "runs"), 0);
    return a->status == 0
               ? (long long)json_number_value(json_object_get(row, "n"))
               : -1;
}

/* A new one, or one with a run: what is said to be kept is there, and what is
 * there can be read and written to afterwards. */
static void test_database(int number, const char *before)
{
    failing f = {.kind = "write",
                 .path = "/nth.db",
                 .plan = "p1",
                 .words = "--db \"$D/nth.db\"",
                 .before = before,
                 .rank = -1,
                 .number = number};
    const long n = count_calls(&f);
    for (int i = 0; n > 0 && i < how_many(5); i++) {
        const long at = 1 + draw((unsigned)n);
        const int status = fail_at(&f, at, "database disk", strerror(number));
        const long long rows = rows_of_steps();
        tap_ok(status == 0 ? rows == 4 : rows == 0 || rows == 4,
               "%lld of 4 steps are kept", rows);
        tap_ok(cli(RUN " --db \"$D/nth.db\"", "p1", "")->status == 0 &&
                   rows_of_steps() == 4,
               "and the next run is kept");
    }
}

/* Each of the first: the number of a sync that failed is the file's alone to
 * tell, that of the index, which is memory that processes share, the log's. */
static void test_database_calls(const char *kind, const char *path, int number,
                                const char *before)
{
    const failing f = {.kind = kind,
                       .path = path,
                       .plan = "p1",
                       .words = "--db \"$D/nth.db\"",
                       .before = before,
                       .rank = -1,
                       .number = number};
    const long n = count_calls(&f);
    for (long at = 1; at <= n && at <= 4; at++)
        fail_at(&f, at, "database disk", strerror(number));
}

/* A checkpoint is whole or none. */
static void test_checkpoint(int number)
{
    failing f = {.kind = "write",
                 .path = "/ck/",
                 .plan = "p2",
                 .words = "--checkpoint \"$D/ck\" --checkpoint-every 2",
                 .number = number};
    const int times = how_many(3);
    for (int rank = 0; rank < 2; rank++) {
        f.rank = rank;
        shell("rm -rf \"$D/ck\"");
        const long n = count_calls(&f);
        for (int i = 0; n > 0 && i < times; i++) {
            shell("rm -rf \"$D/ck\"");
            fail_at(&f, 1 + draw((unsigned)n), "disk", strerror(number));
            const cli_answer *a = cli(RUN " --resume", "p2", f.words);
            tap_ok((a->status == 0 && is_same(a, &f)) ||
                       (a->status == 2 && strstr(a->err, "nothing to do")),
                   "what it leaves is gone on with, to the same weights");
        }
    }
    shell("rm -rf \"$D/ck\"");
}

/* Open MPI says more than we. */
static void test_socket(void)
{
    failing f = {.kind = "socket", .path = "", .plan = "p2", .words = ""};
    setenv("OMPI_MCA_btl", "tcp,self", 1);
    setenv("OMPI_MCA_btl_tcp_if_include", "lo", 1);
    for (f.rank = 0; f.rank < 2; f.rank++) {
        const long n = count_calls(&f);
        for (int i = 0; n > 0 && i < how_many(2); i++) {
            const long at = 1 + draw((unsigned)n);
            const cli_answer *a = run_failing(&f, at);
            const char *fault = text_of(a, "fault");
            const int good = (a->status == 0 && is_same(a, &f)) ||
                             (a->status == 3 && *fault &&
                              !json_object_get(a->json, "losses"));
            tap_ok(good, "a socket of rank %d that is closed, call %ld: %s, %s",
                   f.rank, at, a->status == 0 ? "survived" : fault,
                   text_of(a, "fault_text"));
            if (!good)
                cli_show(a);
        }
    }
    unsetenv("OMPI_MCA_btl");
    unsetenv("OMPI_MCA_btl_tcp_if_include");
}

static void make_plans(void)
{
    for (int i = 0; i < 2; i++) {
        const cli_answer *a = cli("plan " MLP " --cluster local --ranks %d "
                                  "--dp %d --batch 8 -o \"$D/p%d.json\"",
                                  i + 1, i + 1, i + 1);
        tap_ok(a->status == 0, "a plan for %d", i + 1);
        a = cli(RUN, i ? "p2" : "p1", "");
        snprintf(undisturbed[i], sizeof undisturbed[i], "%s",
                 text_of(a, "weights_digest"));
        tap_ok(a->status == 0 && undisturbed[i][0], "what nothing disturbs");
    }
    cli("plan " MLP " --mode infer --cluster local --ranks 2 --tp 2 --batch 8 "
        "-o \"$D/i2.json\"");
    cli("export " MLP " --to safetensors -o \"$D/w.st\"");
    snprintf(undisturbed[2], sizeof undisturbed[2], "%s",
             text_of(cli(RUN, "i2", ""), "outputs_digest"));
    tap_ok(undisturbed[2][0], "what nothing disturbs, of inference");
}

int main(void)
{
    static const int numbers[] = {ENOSPC, EIO};
    if (!shell("LD_PRELOAD=\"${FS_BUILDDIR:-.}/tests/nth.so\" "
               "\"${FS_BUILDDIR:-.}/flowsearch\" --version >/dev/null 2>&1")) {
        tap_skip("the program takes nothing preloaded (a sanitizer?)",
                 "calls that fail");
        return tap_done();
    }
    seed = tap_seed(1);
    cli_begin_scratch("cli_nth");
    make_plans();
    test_memory();
    cli(RUN " --db \"$D/one.db\"", "p1", "");
    for (int i = 0; i < 2; i++) {
        test_files(numbers[i]);
        test_outputs(numbers[i]);
        test_scalars(numbers[i]);
        test_database(numbers[i], "rm -f \"$D\"/nth.db*");
        test_database(numbers[i], "rm -f \"$D\"/nth.db*; "
                                  "cp \"$D/one.db\" \"$D/nth.db\"");
        test_database_calls("sync", "/nth.db", numbers[i],
                            "rm -f \"$D\"/nth.db*; "
                            "cp \"$D/one.db\" \"$D/nth.db\"");
        test_database_calls("write", "/nth.db-shm", numbers[i],
                            "rm -f \"$D\"/nth.db*");
    }
    test_checkpoint(ENOSPC);
    test_checkpoint(EIO);
    test_socket();
    cli_end_scratch();
    return tap_done();
}
