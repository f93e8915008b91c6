/* What happens to a command that is interrupted, and to a run that loses a rank
 * or stands still. */
#include "config.h"
#include "tests/cli_tables.h"
#include "tests/run_going.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>

#define MLP "zoo:mlp,in=16,hidden=32,layers=2,classes=4"
#define LONG_RUN                                                               \
    "run \"$D/p.json\" --data synthetic --steps 5000000 --db \"$D/test.db\" "  \
    "--json"

/* Takes a while to be written, and longer to be drawn. */
#define BIG                                                                    \
    "zoo:gpt,layers=24,hidden=64,heads=4,seq=64 --cluster 1x2:cpu --batch "    \
    "128 --micro-batches 64 --dp 2"

enum { RANKS = 2 };

/* Time for the ranks to have joined and to train. */
static pid_t start_training(const char *words, pid_t *ranks)
{
    pid_t child = start(words);
    tap_ok(wait_ranks(RANKS, ranks), "the ranks are there");
    for (int i = 0; i < 20; i++)
        nap();
    return child;
}

static void test_interrupt(int number, const char *text)
{
    pid_t ranks[MOST_RANKS];
    char tmp[32];
    begin_tmp(tmp);
    pid_t child = start_training(LONG_RUN, ranks);
    kill(child, number);
    const cli_answer *a = finish(child);
    const json_t *fault = json_array_get(json_object_get(a->json, "faults"), 0);
    tap_ok(says(a, 3, text), "%s ends a run with status 3", text);
    tap_ok(wait_ranks(0, ranks), "no rank is left");
    tap_equal_int(files_with(tmp, "flowsearch"), 0, "and no folder of its own");
    tap_ok(json_integer_value(json_object_get(fault, "step")) > 1 &&
               json_is_null(json_object_get(fault, "rank")),
           "the step that the ranks were at is told");
    end_tmp(tmp);
    a = cli("runs --last 1 --json");
    const json_t *row = json_array_get(json_object_get(a->json, "runs"), 0);
    tap_ok(json_integer_value(json_object_get(row, "status")) == 3,
           "its row is ended");
}

/* Whoever read what it says has left, before the ranks start or meanwhile. */
static void test_closed_output(void)
{
    char tmp[32], status[8] = "";
    begin_tmp(tmp);
    setenv("B", cli_env("FS_BUILDDIR", "."), 1);
    cli_watch_leaks("run ");
    shell("(\"$B/flowsearch\" run \"$D/p.json\" --data synthetic --steps 20 "
          "--db none 2>\"$D/closed.err\"; echo $? >\"$D/closed\") | true");
    cli_slurp("closed", status, sizeof status);
    tap_equal_text(status, "3\n", "a run whose output nobody reads: status 3");
    tap_equal_int(files_with(tmp, "flowsearch"), 0, "and no folder is left");
    end_tmp(tmp);
}

static void test_killed_parent(void)
{
    pid_t ranks[MOST_RANKS];
    char tmp[32];
    begin_tmp(tmp); /* nobody can take its files away */
    pid_t child = start_training(LONG_RUN, ranks);
    kill(child, SIGKILL);
    finish(child);
    tap_ok(wait_ranks(0, ranks), "ranks end when their parent is killed");
    end_tmp(tmp);
}

static void test_killed_rank(void)
{
    pid_t ranks[MOST_RANKS];
    pid_t child = start_training(LONG_RUN, ranks);
    kill(ranks[RANKS - 1], SIGKILL);
    const cli_answer *a = finish(child);
    tap_ok(says(a, 3, "was killed by signal 9 (SIGKILL)") &&
               (strstr(a->err, "rank 0 was") || strstr(a->err, "rank 1 was")),
           "a killed rank is named, and its signal");
    const char *fault = json_string_value(json_object_get(a->json, "fault"));
    tap_ok(fault && strcmp(fault, "killed") == 0 &&
               json_object_get(a->json, "fault_text") != NULL &&
               json_array_size(json_object_get(a->json, "faults")) == 1 &&
               json_object_get(a->json, "figures_of") != NULL &&
               json_object_size(a->json) == 4,
           "the answer holds the fault, whose figures the plan has, and "
           "nothing that did not happen");
    tap_ok(wait_ranks(0, ranks), "the other ranks end too");
}

static void test_stopped_rank(void)
{
    pid_t ranks[MOST_RANKS];
    setenv("FS_STALL_S", "1", 1);
    pid_t child = start_training(LONG_RUN, ranks);
    unsetenv("FS_STALL_S");
    kill(ranks[RANKS - 1], SIGSTOP);
    const cli_answer *a = finish(child);
    tap_ok(says(a, 3, "no progress for"),
           "a rank that stands still is found out");
    tap_ok(wait_ranks(0, ranks), "the stopped rank ends too");
}

/* ---- commands of one process ---- */

/* Minutes of proof, a plan within a second. */
#define LONG_SEARCH_IN(db)                                                     \
    "search zoo:bert --cluster 2x8:a100-sxm4-80g --batch 64 --memory 4G "      \
    "--gap 0 --time-limit 600 --db \"$D/" db "\" --json -o "
#define LONG_SEARCH LONG_SEARCH_IN("test.db")

/* A command whose errors go to a terminal of its own. */
typedef struct on_terminal {
    pid_t child;
    int master;
    char said[1 << 16];
    size_t n;
} on_terminal;

static void begin_child(const char *slave, const char *command)
{
    heed_interrupts();
    setsid();
    const int terminal = open(slave, O_RDWR); /* the controlling one */
    if (terminal < 0 || dup2(terminal, STDERR_FILENO) < 0)
        _exit(127);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static void start_on_terminal(const char *words, on_terminal *t)
{
    char command[2048];
    snprintf(command, sizeof command,
             "exec '%s/flowsearch' %s >\"$D/goes.out\"",
             cli_env("FS_BUILDDIR", "."), words);
    shell(": >\"$D/goes.err\"");
    cli_watch_leaks(words);
    t->n = 0;
    t->said[0] = '\0';
    t->master = posix_openpt(O_RDWR | O_NOCTTY);
    if (t->master < 0 || grantpt(t->master) || unlockpt(t->master))
        printf("Bail out! no terminal can be had\n");
    fflush(NULL);
    t->child = fork();
    if (t->child == 0)
        begin_child(ptsname(t->master), command);
}

/* Reads until the command has said it; false when it ended before. */
static int wait_said(on_terminal *t, const char *word)
{
    while (!strstr(t->said, word)) {
        if (t->n + 1 >= sizeof t->said) /* keep the end of it */
            t->n = 0;
        const ssize_t n =
            read(t->master, t->said + t->n, sizeof t->said - t->n - 1);
        if (n <= 0)
            return 0;
        t->n += (size_t)n;
        t->said[t->n] = '\0';
    }
    return 1;
}

static const cli_answer *finish_on_terminal(on_terminal *t)
{
    char rest[4096];
    while (read(t->master, rest, sizeof rest) > 0)
        ;
    close(t->master);
    return finish(t->child);
}

static void test_stopped_search(int number, const char *name)
{
    on_terminal t;
    start_on_terminal(LONG_SEARCH "\"$D/best.json\"", &t);
    tap_ok(wait_said(&t, ", gap "),
           "a search shows its best plan, its bound and its gap");
    tap_ok(strstr(t.said, ": best ") && strstr(t.said, ", bound "),
           "with the time that it has taken");
    if (number == SIGINT)
        tap_ok(write(t.master, "\003", 1) == 1, "Ctrl-C");
    else
        tap_ok(kill(t.child, number) == 0, "%s", name);
    const cli_answer *a = finish_on_terminal(&t);
    const char *stopped =
        json_string_value(json_object_get(a->json, "stopped"));
    const double s = cli_number(a, "iteration_s"), gap = cli_number(a, "gap");
    const double bound_s = cli_number(a, "lower_bound_s");
    tap_ok(a->status == 0 && stopped && strcmp(stopped, name) == 0,
           "ends it with status 0, and is told");
    tap_ok(bound_s > 0 && gap > 0 && fabs(gap - (s - bound_s) / s) < 1e-9,
           "the gap is that of the plan to the bound that is proven");
    a = cli("check \"$D/best.json\" --json");
    tap_ok(a->status == 0, "the plan is there, and sound");
    shell("rm \"$D/best.json\"");
}

/* No handler runs: what stood there stands there still. Its row never ends, so
 * that it is in a database of its own. */
static void test_killed_search(void)
{
    on_terminal t;
    shell("cp \"$D/p.json\" \"$D/best.json\"");
    start_on_terminal(LONG_SEARCH_IN("killed.db") "\"$D/best.json\"", &t);
    tap_ok(wait_said(&t, ", gap "), "a search has a plan");
    kill(t.child, SIGKILL);
    finish_on_terminal(&t);
    tap_ok(shell("cmp \"$D/p.json\" \"$D/best.json\""),
           "one that is killed leaves the file as it was");
    tap_equal_int(cli("runs --json --db \"$D/killed.db\"")->status, 0,
                  "and a database that can be read");
    tap_equal_int(cli("check \"$D/best.json\" --db \"$D/killed.db\"")->status,
                  0, "and written to");
    shell("rm \"$D/best.json\"");
}

static void test_stopped_solve(void)
{
    on_terminal t;
    start_on_terminal("solve \"$S/datasets/iopddl/V.json.gz\" --gap 0 "
                      "--db none --json",
                      &t);
    tap_ok(wait_said(&t, ", gap "), "solve shows its best and its gap");
    tap_ok(write(t.master, "\003", 1) == 1, "Ctrl-C");
    const cli_answer *a = finish_on_terminal(&t);
    const char *stopped =
        json_string_value(json_object_get(a->json, "stopped"));
    tap_ok(a->status == 0 && stopped && strcmp(stopped, "SIGINT") == 0 &&
               cli_number(a, "cost") >= cli_number(a, "lower_bound"),
           "ends it with the best so far, its bound, and status 0");
}

static void test_stopped_too_early(void)
{
    on_terminal t;
    start_on_terminal("search zoo:gpt,layers=48 --cluster 16x8:h100-sxm5-80g "
                      "--batch 512 --start none -o \"$D/never.json\" --db none "
                      "--json",
                      &t);
    tap_ok(wait_said(&t, "best none yet"), "a search that has no plan yet");
    tap_ok(write(t.master, "\003", 1) == 1, "Ctrl-C");
    tap_ok(wait_said(&t, "before a plan was found"), "says so");
    const cli_answer *a = finish_on_terminal(&t);
    tap_ok(a->status == 3 && json_object_get(a->json, "fault"),
           "and ends with status 3");
    tap_ok(files_with(cli_scratch, "never.json") == 0, "nothing is left");
}

/* Graphs of a deep network take seconds, in which nobody looks at flags. */
static void test_stopped_while_building(void)
{
    on_terminal t;
    struct timespec from, to;
    start_on_terminal("search zoo:gpt,layers=960,hidden=1024,heads=16,seq=1024 "
                      "--cluster 4x8:a100-sxm4-80g --batch 64 -o "
                      "\"$D/never.json\" --db none --json",
                      &t);
    tap_ok(wait_said(&t, "building the training graphs"), "a deep network");
    clock_gettime(CLOCK_MONOTONIC, &from);
    tap_ok(write(t.master, "\003", 1) == 1, "Ctrl-C");
    tap_ok(wait_said(&t, "before a plan was found"), "says so");
    const cli_answer *a = finish_on_terminal(&t);
    clock_gettime(CLOCK_MONOTONIC, &to);
    tap_ok(a->status == 3 && json_object_get(a->json, "fault"),
           "and ends with status 3");
    tap_ok(to.tv_sec - from.tv_sec <= 1, "at once");
    tap_ok(files_with(cli_scratch, "never.json") == 0, "nothing is left");
}

static void test_interrupted_twice(void)
{
    on_terminal t;
    start_on_terminal(LONG_SEARCH "\"$D/never.json\"", &t);
    tap_ok(wait_said(&t, "best "), "a search");
    kill(t.child, SIGINT);
    kill(t.child, SIGTERM); /* another signal: two of one may be taken as one */
    tap_ok(wait_said(&t, "interrupted by signal"), "interrupted twice");
    const cli_answer *a = finish_on_terminal(&t);
    tap_ok(a->status == 3 && json_object_get(a->json, "fault"),
           "ends at once, with status 3");
    a = cli("runs --json --sql \"SELECT status || ' ' || message AS row FROM "
            "runs WHERE ended IS NOT NULL ORDER BY id DESC LIMIT 1\"");
    tap_ok(strstr(a->out, "3 interrupted by signal") != NULL,
           "its row is ended");
    tap_ok(files_with(cli_scratch, "never.json") == 0, "nothing is left");
}

/* ---- outputs that are not whole ---- */

static int has_ended(pid_t child)
{
    siginfo_t how = {0};
    return waitid(P_PID, (id_t)child, &how, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           how.si_pid == child;
}

/* Stops the command while its output has another name. */
static int stop_at(pid_t child, const char *word)
{
    struct timespec step = {0, 20000};
    while (files_with(cli_scratch, word) == 0) {
        if (has_ended(child))
            return 0;
        nanosleep(&step, NULL);
    }
    kill(child, SIGSTOP);
    return 1;
}

/* Again where the command was done before it heard the interrupt. */
static void interrupt_writing(const char *words, const char *file)
{
    char temporary[64], path[600];
    const cli_answer *a = NULL;
    snprintf(temporary, sizeof temporary, "%s.", file);
    snprintf(path, sizeof path, "%s/%s", cli_scratch, file);
    for (int i = 0; i < 10 && (!a || a->status == 0); i++) {
        unlink(path);
        pid_t child = start(words);
        if (stop_at(child, temporary))
            kill(child, SIGINT);
        kill(child, SIGCONT);
        a = finish(child);
    }
    tap_ok(a && says(a, 3, "interrupted by signal 2 (SIGINT)"),
           "an interrupt while %s is written", file);
    tap_ok(files_with(cli_scratch, temporary) == 0, "leaves no part of it");
}

/* Stops the child of a command; 0 when it ended without one. */
static pid_t stop_drawing(pid_t child)
{
    pid_t going[MOST_RANKS];
    while (find_working("b.svg", going) < 2)
        if (has_ended(child))
            return 0;
    pid_t drawing = going[0] == child ? going[1] : going[0];
    kill(drawing, SIGSTOP);
    return drawing;
}

static void test_interrupted_picture(void)
{
    pid_t going[MOST_RANKS], drawing = 0;
    for (int i = 0; i < 20 && !drawing; i++) {
        shell("rm -f \"$D/b.svg\"");
        pid_t child = start("show \"$D/b.json\" -o \"$D/b.svg\" --db none");
        drawing = stop_drawing(child);
        kill(child, SIGINT);
        finish(child);
    }
    tap_ok(drawing, "a picture is drawn by a child");
    if (drawing)
        kill(drawing, SIGCONT);
    tap_ok(wait_working("b.svg", 0, going), "which an interrupt ends too");
    tap_ok(files_with(cli_scratch, "b.svg") == 0, "and leaves no picture");
}

static void test_interrupted_outputs(void)
{
    cli("plan " BIG " -o \"$D/b.json\"");
    interrupt_writing("plan " BIG " -o \"$D/x.json\" --db none", "x.json");
    interrupt_writing("sim \"$D/b.json\" --trace \"$D/t.json\" --db none",
                      "t.json");
    test_interrupted_picture();
}

/* ---- a mapped file that is cut ---- */

static int has_mapped(pid_t child, const char *file)
{
    char path[64], line[1024];
    int found = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", (int)child);
    FILE *maps = fopen(path, "r");
    while (maps && !found && fgets(line, sizeof line, maps))
        found = strstr(line, file) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

/* Again where the command had read it, or found it empty. */
static void test_cut_model(void)
{
    const cli_answer *a = NULL;
    for (int i = 0; i < 50 && (!a || a->status != 3); i++) {
        shell("cp \"$S/datasets/models/gpt_bytes.dyn.onnx\" "
              "\"$D/cut.onnx\"");
        pid_t child = start("model \"$D/cut.onnx\" --db \"$D/test.db\" --json");
        while (!has_mapped(child, "/cut.onnx") && !has_ended(child))
            ;
        kill(child, SIGSTOP);
        shell(": >\"$D/cut.onnx\"");
        kill(child, SIGCONT);
        a = finish(child);
    }
    tap_ok(says(a, 3, "/cut.onnx: cut by another program") &&
               count(a->err, "\n") == 1,
           "a model that is cut while it is read is a fault, named");
    tap_ok(json_object_get(a->json, "fault") != NULL, "in the object too");
}

/* The first step's end is told; the disk is slow, so that little else is. */
static bool wait_first_step(void)
{
    char text[4096];
    for (int i = 0; i < 2400; i++) { /* 2 min: a busy host */
        cli_slurp("goes.err", text, sizeof text);
        if (strstr(text, "step 1 of"))
            return true;
        nap();
    }
    return false;
}

static void test_cut_data(void)
{
    cli("plan zoo:gpt,layers=1,hidden=16,heads=2,vocab=256,seq=16 --cluster "
        "local --ranks 2 --dp 2 --batch 4 -o \"$D/p.json\"");
    shell("head -c 20000 \"$S/datasets/data/moby-dick.txt\" >\"$D/d.txt\"");
    setenv("FS_PROGRESS", "1", 1);
    setenv("FS_DISK", "0.05", 1);
    pid_t child = start("run \"$D/p.json\" --data \"$D/d.txt\" --steps "
                        "5000000 --db \"$D/test.db\"");
    tap_ok(wait_first_step(), "ranks train");
    shell(": >\"$D/d.txt\"");
    const cli_answer *a = finish(child);
    unsetenv("FS_PROGRESS");
    unsetenv("FS_DISK");
    tap_ok(says(a, 3, "/d.txt: byte ") && strstr(a->err, ": cut short"),
           "data that is cut while ranks read it is a fault, named");
}

/* Rank 0 ends the row that it began. */
static void test_own_ranks_interrupted(void)
{
    char command[2048];
    snprintf(command, sizeof command,
             "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
             "OMPI_MCA_odls_base_sigkill_timeout=20 " /* a busy machine */
             "ASAN_OPTIONS=detect_leaks=0 exec '%s' --oversubscribe "
             "-n 2 '%s/flowsearch' run \"$D/p.json\" --data synthetic "
             "--steps 5000000 --db \"$D/test.db\" >/dev/null 2>&1",
             FS_MPIRUN, cli_env("FS_BUILDDIR", "."));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        heed_interrupts();
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    tap_ok(wait_row(), "a run under an mpirun of the user's");
    kill(child, SIGTERM);
    finish(child);
    const cli_answer *a =
        cli("runs --json --sql \"SELECT status || ' ' || message AS row FROM "
            "runs WHERE ended IS NOT NULL ORDER BY id DESC LIMIT 1\"");
    tap_ok(strstr(a->out, "3 interrupted by signal 15 (SIGTERM)") != NULL,
           "is interrupted, and its row is ended too");
}

/* Rows are predicted by several threads, each of which is busy for long. */
static void test_interrupted_rows(int number)
{
#define DEEP                                                                   \
    "gpt,10000,1024,16,1024,16,8,2,A100-SXM4,1,2,1,bf16,Megatron-LM,1\n"
    struct timespec begin, end;
    cli_put("deep.csv", "id,arch,layers,hidden,heads,seq_len,global_batch,"
                        "micro_batch,gpus,gpu,tp,pp,dp,precision,framework,"
                        "iter_time_s\na," DEEP "b," DEEP "c," DEEP);
    const pid_t child = start("validate \"$D/deep.csv\" --db none --json");
    for (int i = 0; i < 40; i++)
        nap();
    tap_ok(!has_ended(child), "rows of 10,000 layers are being predicted");
    clock_gettime(CLOCK_MONOTONIC, &begin);
    kill(child, number);
    const cli_answer *a = finish(child);
    clock_gettime(CLOCK_MONOTONIC, &end);
    tap_ok(says(a, 3, "interrupted by signal") &&
               end.tv_sec - begin.tv_sec <= 2,
           "which signal %d ends within a second or two", number);
}

int main(void)
{
    cli_begin_scratch("cli_interrupt");
    const cli_answer *a = cli("plan " MLP " --cluster local --ranks 2 --dp 2 "
                              "--batch 8 -o \"$D/p.json\"");
    tap_ok(a->status == 0, "a plan for two ranks");
    test_stopped_search(SIGINT, "SIGINT");
    test_stopped_search(SIGTERM, "SIGTERM");
    test_killed_search();
    test_stopped_solve();
    test_interrupted_rows(SIGINT);
    test_interrupted_rows(SIGTERM);
    test_stopped_too_early();
    test_stopped_while_building();
    test_interrupted_twice();
    test_interrupted_outputs();
    test_own_ranks_interrupted();
    test_interrupt(SIGTERM, "interrupted by signal 15 (SIGTERM)");
    test_interrupt(SIGHUP, "interrupted by signal 1 (SIGHUP)");
    test_interrupt(SIGQUIT, "interrupted by signal 3 (SIGQUIT)");
    test_interrupt(SIGPIPE, "interrupted by signal 13 (SIGPIPE)");
    test_closed_output();
    test_killed_parent();
    test_killed_rank();
    test_stopped_rank();
    test_cut_model();
    test_cut_data();
    cli_end_scratch();
    return tap_done();
}
