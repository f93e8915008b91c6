/* Ranks that fail in many ways: named, ended, started again, and the weights
 * are those of a run that nothing disturbed. FAULT_SEEDS=N draws so many more
 * kinds and moments (make check-faults) and tells how soon each was found and
 * gone on after, which no test may decide by: a host may be busy. */
#include "config.h"
#include "tests/run_going.h"

#include <stdint.h>

#define MLP "zoo:mlp,in=16,hidden=32,layers=2,classes=4"
#define RUN "run \"$D/%s\" --data synthetic --steps 16 --json "

static char undisturbed[2][32];
static const char *const plans[2] = {"p2.json", "p4.json"};
static const int ranks_of[2] = {2, 4};

static const char *text_of(const cli_answer *a, const char *key)
{
    const char *text = json_string_value(json_object_get(a->json, key));
    return text ? text : "";
}

static const json_t *fault_at(const cli_answer *a, size_t i)
{
    return json_array_get(json_object_get(a->json, "faults"), i);
}

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static const cli_answer *run_with(const char *failpoint, int plan,
                                  const char *more)
{
    const double begin_s = now_s();
    setenv("FLOWSEARCH_FAILPOINT", failpoint, 1);
    const cli_answer *a = cli(RUN "%s", plans[plan], more);
    unsetenv("FLOWSEARCH_FAILPOINT");
    printf("# %s on %d ranks: %.1f s\n", failpoint, ranks_of[plan],
           now_s() - begin_s);
    return a;
}

static int is_same(const cli_answer *a, int plan)
{
    const int same = a->status == 0 && strcmp(text_of(a, "weights_digest"),
                                              undisturbed[plan]) == 0;
    if (!same)
        cli_show(a);
    return same;
}

/* ---- named ---- */

static void named(const char *failpoint, const char *word, const char *text)
{
    const cli_answer *a = run_with(failpoint, 0, "");
    const int good = says(a, 3, text) &&
                     strcmp(text_of(a, "fault"), word) == 0 &&
                     strstr(text_of(a, "fault_text"), text) &&
                     json_object_get(a->json, "losses") == NULL;
    tap_ok(good, "%s ends with 3, as '%s', told", failpoint, word);
    if (a->status == 3 && !good)
        printf("# %s: %s\n", text_of(a, "fault"), text_of(a, "fault_text"));
}

static void test_named(void)
{
    named("step:5=kill9@1", "killed",
          "rank 1 was killed by signal 9 (SIGKILL) at step 5");
    named("step:1=kill9@0", "killed", "rank 0 was killed");
    named("step:5=segv@1", "crash", "rank 1");
    named("transfer:9=exit@0", "crash", "rank 0 ended with status 1");
    named("step:5=stop@1", "stopped", "rank 1 is stopped (SIGSTOP)");
    named("step:5=hang@0", "hang", "rank 0 hangs: no progress for");
    named("start:1=hang@1", "hang", "rank 1 hangs: no progress for");
}

static void test_dump(void)
{
    const cli_answer *a = run_with("step:5=kill9@1", 0, "");
    const json_t *ranks = json_object_get(fault_at(a, 0), "ranks");
    const json_t *killed = json_array_get(ranks, 1);
    tap_ok(json_array_size(ranks) == 2 &&
               json_array_size(json_object_get(killed, "last")) > 0,
           "all ranks' last events are in the answer");
    tap_equal_int(
        json_integer_value(json_object_get(fault_at(a, 0), "differs")), 1,
        "and the rank that differs");
    tap_ok(strstr(a->err, "rank 1 is behind rank 0"), "which is told");
}

/* The step of a fault is the one that its text names. */
static void test_hang_in_saver(const char *failpoint)
{
    char text[16];
    setenv("FS_STALL_S", "2", 1);
    const cli_answer *a =
        run_with(failpoint, 0, "--checkpoint \"$D/ck\" --checkpoint-every 3");
    unsetenv("FS_STALL_S");
    const json_t *fault = fault_at(a, 0);
    const int64_t step = json_integer_value(json_object_get(fault, "step"));
    snprintf(text, sizeof text, "(step %d,", (int)step);
    tap_ok(says(a, 3, " hangs: no progress for") && step >= 4 &&
               strstr(text_of(a, "fault_text"), text),
           "%s: a rank that hangs in its saver, at step %d", failpoint,
           (int)step);
    printf("# %s\n", text_of(a, "fault_text"));
    shell("rm -rf \"$D/ck\"");
}

static void test_refused(void)
{
    const cli_answer *a = run_with("step:5=kill@1", 0, "");
    tap_ok(says(a, 2, "FLOWSEARCH_FAILPOINT: 'kill@1' at character 8"),
           "a failpoint that is none is refused, with its place");
    static const char *const none[] = {"abc", "5x", "0", "-1", "inf", "nan"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        setenv("FS_STALL_S", none[i], 1);
        a = cli(RUN "%s", plans[0], "");
        tap_ok(says(a, 2, "FS_STALL_S wants seconds, more than 0, not '") &&
                   count(a->err, "\n") == 1,
               "%s seconds without progress are none", none[i]);
    }
    unsetenv("FS_STALL_S");
}

/* ---- started again ---- */

static void test_begun_anew(void)
{
    const cli_answer *a = run_with("step:5=kill9@1", 0, "--max-restarts 1");
    tap_ok(is_same(a, 0), "begun anew, the same weights");
    tap_ok(strstr(a->err, "at step 5; begun anew"), "which is told");
    tap_ok(json_integer_value(json_object_get(a->json, "restarts")) == 1 &&
               json_array_size(json_object_get(a->json, "faults")) == 1 &&
               json_object_get(a->json, "fault") == NULL,
           "the answer has the fault among those that were overcome");
    a = run_with("step:5=kill9@1;step:6=segv@0", 0, "--max-restarts 1");
    tap_ok(a->status == 3 && strcmp(text_of(a, "fault"), "crash") == 0 &&
               json_array_size(json_object_get(a->json, "faults")) == 2,
           "one restart for two faults is one too few");
}

static void test_resumed(void)
{
    const cli_answer *a = run_with("step:11=kill9@1", 0,
                                   "--max-restarts 1 --checkpoint \"$D/ck\" "
                                   "--checkpoint-every 4");
    tap_ok(is_same(a, 0), "resumed from a checkpoint, the same weights");
    tap_ok(json_array_size(json_object_get(a->json, "losses")) == 16,
           "the losses of all steps");
    shell("rm -rf \"$D/ck\"");
    a = run_with("sync:3=enospc@0", 0,
                 "--checkpoint \"$D/ck\" --checkpoint-every 4");
    tap_ok(a->status == 3 && strcmp(text_of(a, "fault"), "disk") == 0,
           "a full disk is a fault of the disk");
    shell("rm -rf \"$D/ck\"");
}

/* From the start of a rank to after the commit of a checkpoint. */
static void test_moments(void)
{
    static const char *const moments[] = {
        "start:1=kill9@1",     /* before its first step */
        "step:1=kill9@0",      /* in the first, nothing is saved yet */
        "transfer:20=kill9@1", /* in the middle of an all-reduce */
        "save:9=kill9@1",      /* of a checkpoint's file */
        "commit:2=kill9@0",    /* files are there, the manifest is not */
        "committed:2=kill9@0", /* the manifest is */
    };
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        const cli_answer *a = run_with(moments[i], 0,
                                       "--max-restarts 1 --checkpoint "
                                       "\"$D/ck\" --checkpoint-every 4");
        const char *word =
            json_string_value(json_object_get(fault_at(a, 0), "fault"));
        tap_ok(is_same(a, 0) && word && strcmp(word, "killed") == 0,
               "%s: named, gone on with, the same weights", moments[i]);
        shell("rm -rf \"$D/ck\"");
    }
}

/* The whole run is trained by fewer ranks: sums in another order. */
static void test_replanned(void)
{
    const cli_answer *a = cli(RUN, plans[1]);
    json_t *losses = json_deep_copy(json_object_get(a->json, "losses"));
    a = run_with("step:9=kill9@2", 1,
                 "--replan --checkpoint \"$D/ck\" --checkpoint-every 4");
    const json_t *got = json_object_get(a->json, "losses");
    int near = json_array_size(got) == 16 && json_array_size(losses) == 16;
    for (size_t i = 0; near && i < 16; i++) {
        const double x = json_number_value(json_array_get(got, i)),
                     y = json_number_value(json_array_get(losses, i));
        near = fabs(x - y) <= 1e-5 * fabs(y);
    }
    const int ranks =
        (int)json_integer_value(json_object_get(a->json, "ranks"));
    tap_ok(a->status == 0 && ranks >= 1 && ranks <= 3, "four ranks go on as %d",
           ranks);
    if (a->status != 0)
        cli_show(a);
    tap_ok(near, "with the losses that the four would have had");
    tap_ok(json_integer_value(json_object_get(a->json, "replanned_ranks")) ==
               ranks,
           "which is in the answer");
    json_decref(losses);
    shell("rm -rf \"$D/ck\"");
}

static void test_no_rank(void)
{
    const cli_answer *a = run_with("step:1=kill9@9", 0, "");
    tap_ok(says(a, 2, "there is no rank 9"), "a failpoint of no rank");
    a = run_with("step:16=sleep1;step:17=kill9@1", 0, "");
    tap_ok(says(a, 2, "step:17: there is no such step, the last one is 16") &&
               count(a->err, "\n") == 1,
           "one of no step");
    a = run_with("fire:1=enospc", 0, "");
    tap_ok(says(a, 2, "'fire:1=enospc' at character 1: enospc and eio are"),
           "one that does nothing where it is");
    a = run_with("sync:1=enospc", 0, "");
    tap_ok(says(a, 2, "sync:1: no checkpoint is made"),
           "one of a checkpoint where none is made");
}

/* The fault stands where no plan is found: here, for want of what it is made
 * by. */
static void test_not_replanned(void)
{
    char data[1024];
    snprintf(data, sizeof data, "%s", cli_env("FS_DATA", ""));
    setenv("FS_DATA", "/nowhere", 1);
    const cli_answer *a = run_with("step:3=kill9@2", 1, "--replan");
    setenv("FS_DATA", data, 1);
    tap_ok(says(a, 3, "SIGKILL") && strstr(a->err, "--replan: ") &&
               strcmp(text_of(a, "fault"), "killed") == 0 &&
               !json_object_get(a->json, "restarts"),
           "no plan for those that are left: the fault is told, and why");
}

/* ---- inference: outputs in the place of losses ---- */

#define INFER "run \"$D/i4.json\" --data synthetic --steps 16 --json --outputs "

static const char *const infer_plans[] = {
    "--ranks 4 --pp 2 --dp 2 --micro-batches 2", "--ranks 2 --tp 2"};

static int same_files(const char *a, const char *b)
{
    char words[200];
    snprintf(words, sizeof words, "cmp \"$D/%s\" \"$D/%s\" >/dev/null", a, b);
    return shell(words);
}

/* The largest difference between the floats of two such files; -1: they are not
 * of one shape. */
static double files_apart(const char *a, const char *b)
{
    static char in[2][1 << 16];
    double most = 0;
    size_t n[2];
    const char *const names[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        char path[700];
        snprintf(path, sizeof path, "%s/%s", cli_scratch, names[i]);
        FILE *file = fopen(path, "rb");
        n[i] = file ? fread(in[i], 1, sizeof in[i], file) : 0;
        if (file)
            fclose(file);
    }
    const size_t head = n[0] > 10 ? 10 + (size_t)in[0][8] : 0;
    if (n[0] <= head || n[0] != n[1] || memcmp(in[0], in[1], head) != 0)
        return -1;
    for (size_t at = head; at < n[0]; at += sizeof(float)) {
        float x[2];
        memcpy(&x[0], in[0] + at, sizeof x[0]);
        memcpy(&x[1], in[1] + at, sizeof x[1]);
        most = fmax(most, fabs((double)x[0] - (double)x[1]));
    }
    return most;
}

/* What it was resumed from; -1: it was not. */
static long long resumed_from(const cli_answer *a)
{
    const json_t *from = json_object_get(fault_at(a, 0), "resumed_from");
    return from ? (long long)json_integer_value(from) : -1;
}

/* Steps whose outputs are given are not done again: nothing hangs on them. */
static void test_infers_on(const char *failpoint, const char *usual)
{
    setenv("FLOWSEARCH_FAILPOINT", failpoint, 1);
    const cli_answer *a = cli(INFER "\"$D/o\" --max-restarts 1");
    unsetenv("FLOWSEARCH_FAILPOINT");
    const long long from = resumed_from(a);
    tap_ok(a->status == 0 && from >= 1 && from < 16,
           "%s: goes on after step %lld", failpoint, from);
    if (a->status != 0)
        cli_show(a);
    tap_ok(same_files("o/logits.npy", "o.calm/logits.npy") &&
               strcmp(text_of(a, "outputs_digest"), usual) == 0,
           "to the same bits of all 16 steps");
    tap_equal_int(files_with(cli_scratch, ".part"), 0, "and no part is left");
    shell("rm -rf \"$D/o\"");
}

static void test_inference(const char *how, const char *kill_late)
{
    char usual[32];
    const cli_answer *a = cli("plan " MLP " --mode infer --cluster local %s "
                              "--batch 8 -o \"$D/i4.json\"",
                              how);
    a = cli(INFER "\"$D/o.calm\"");
    tap_ok(a->status == 0, "%s: infers", how);
    snprintf(usual, sizeof usual, "%s", text_of(a, "outputs_digest"));
    test_infers_on(kill_late, usual);
    setenv("FLOWSEARCH_FAILPOINT", kill_late, 1);
    a = cli(INFER "\"$D/o\" --replan --scalars \"$D/s.csv\"");
    unsetenv("FLOWSEARCH_FAILPOINT");
    const int ranks =
        (int)json_integer_value(json_object_get(a->json, "replanned_ranks"));
    const double apart = files_apart("o/logits.npy", "o.calm/logits.npy");
    tap_ok(a->status == 0 && ranks >= 1 && resumed_from(a) >= 1,
           "%s, --replan: %d go on after step %lld", kill_late, ranks,
           resumed_from(a));
    if (a->status != 0)
        cli_show(a);
    tap_ok(apart >= 0 && apart < 1e-5,
           "with outputs %.1e from those undisturbed", apart);
    shell("rm -rf \"$D/o\" \"$D/o.calm\" \"$D/s.csv\"");
}

/* ---- slow ones ---- */

static void test_straggler(void)
{
    const cli_answer *a = run_with("step:1=slow3000@1", 0, "");
    const json_t *slow =
        json_array_get(json_object_get(a->json, "stragglers"), 0);
    tap_ok(is_same(a, 0), "a slow rank is no fault");
    printf("# %s\n", slow ? "told" : "too fast to be told on this host");
    tap_ok(!slow || json_integer_value(json_object_get(slow, "rank")) == 1,
           "it is the one that is told");
}

/* Stages of one rank: nobody does the same. */
static void test_straggler_alone(void)
{
    const cli_answer *a =
        cli("plan zoo:mlp,in=256,hidden=512,layers=4,classes=4 --cluster local "
            "--ranks 2 --pp 2 --batch 64 --micro-batches 4 -o \"$D/pp.json\"");
    tap_equal_int(a->status, 0, "a plan of two stages of one rank");
    for (int rank = 0; rank < 2; rank++) {
        char failpoint[64];
        snprintf(failpoint, sizeof failpoint, "step:1=slow900@%d", rank);
        setenv("FLOWSEARCH_FAILPOINT", failpoint, 1);
        a = cli("run \"$D/pp.json\" --data synthetic --steps 16 --json");
        unsetenv("FLOWSEARCH_FAILPOINT");
        const json_t *all = json_object_get(a->json, "stragglers");
        const json_t *slow = json_array_get(all, 0);
        tap_ok(json_array_size(all) == 1 &&
                   json_integer_value(json_object_get(slow, "rank")) == rank &&
                   json_is_true(json_object_get(slow, "by_prediction")),
               "rank %d, alone in its stage, is slow at the other's pace",
               rank);
    }
}

/* ---- a stop that ends ---- */

/* A quick host takes 10,000 of these steps a second: what is to be acted on
 * half a second after its beginning must not have ended by then. */
#define RUN_OF(steps)                                                          \
    "run \"$D/p2.json\" --data synthetic --steps " #steps " --json "
#define SOME_SECONDS RUN_OF(20000)
#define NEVER_ENDS RUN_OF(10000000)

static void test_short_stop(void)
{
    pid_t ranks[MOST_RANKS];
    char words[512];
    char usual[32];
    snprintf(usual, sizeof usual, "%s",
             text_of(cli(SOME_SECONDS), "weights_digest"));
    snprintf(words, sizeof words, SOME_SECONDS "--db \"$D/test.db\"");
    pid_t child = start(words);
    tap_ok(wait_working("p2.json", 2, ranks), "two ranks run");
    for (int i = 0; i < 10; i++)
        nap();
    kill(ranks[1], SIGSTOP);
    for (int i = 0; i < 10; i++)
        nap();
    kill(ranks[1], SIGCONT);
    const cli_answer *a = finish(child);
    tap_ok(a->status == 0 && json_object_get(a->json, "faults") == NULL,
           "a rank that is stopped for half a second and goes on is no fault");
    tap_equal_text(text_of(a, "weights_digest"), usual,
                   "and its weights are the same");
    if (a->status != 0)
        cli_show(a);
}

/* ---- another plan ---- */

/* Its file changes between two starts of the ranks. */
static void test_changed_plan(void)
{
    pid_t ranks[MOST_RANKS];
    shell("cp \"$D/p2.json\" \"$D/changes.json\"");
    setenv("FLOWSEARCH_FAILPOINT", "step:2=sleep1000@0;step:3=kill9@1", 1);
    pid_t child = start("run \"$D/changes.json\" --data synthetic --json "
                        "--max-restarts 1 --db \"$D/test.db\"");
    tap_ok(wait_working("changes.json", 2, ranks), "two ranks run");
    shell("cp \"$D/q2.json\" \"$D/changes.json\"");
    const cli_answer *a = finish(child);
    unsetenv("FLOWSEARCH_FAILPOINT");
    tap_ok(says(a, 2, "was checked before the ranks were started"),
           "ranks that find another plan than was proven refuse it");
}

/* Two ranks that run, whose mpirun, the parent of both, gets a signal. */
static pid_t signal_launcher(const char *name, pid_t *ranks)
{
    char command[128];
    pid_t child = start(NEVER_ENDS "--db \"$D/test.db\"");
    tap_ok(wait_working("p2.json", 2, ranks), "two ranks run");
    for (int i = 0; i < 10; i++)
        nap();
    snprintf(command, sizeof command, "kill -%s $(cut -d' ' -f4 /proc/%d/stat)",
             name, (int)ranks[0]);
    shell(command);
    return child;
}

/* By whoever may: `kill`, a batch system. mpirun ends the others so too. */
static void test_terminated(void)
{
    pid_t ranks[MOST_RANKS];
    pid_t child = start(NEVER_ENDS "--db \"$D/test.db\"");
    tap_ok(wait_working("p2.json", 2, ranks), "two ranks run");
    for (int i = 0; i < 10; i++)
        nap();
    kill(ranks[1], SIGTERM);
    const cli_answer *a = finish(child);
    const json_t *fault = fault_at(a, 0);
    tap_ok(says(a, 3, "rank 1 was killed by signal 15 (SIGTERM)") &&
               strcmp(text_of(a, "fault"), "killed") == 0 &&
               json_integer_value(json_object_get(fault, "rank")) == 1,
           "the rank that somebody sends SIGTERM is named");
    a = finish(signal_launcher("KILL", ranks));
    tap_ok(says(a, 3,
                "mpirun, which holds the ranks together, was killed by "
                "signal 9") &&
               json_is_null(json_object_get(fault_at(a, 0), "rank")),
           "mpirun that is killed is no rank's fault");
}

/* It tells nobody how the rank ended, and has to be killed itself. */
static void test_launcher_stopped(void)
{
    pid_t ranks[MOST_RANKS];
    pid_t child = signal_launcher("STOP", ranks);
    kill(ranks[1], SIGKILL);
    const cli_answer *a = finish(child);
    tap_ok(says(a, 3, "rank 1 is gone") &&
               json_integer_value(json_object_get(fault_at(a, 0), "rank")) == 1,
           "a rank that is killed while mpirun is stopped is named");
    if (a->status != 3)
        cli_show(a);
}

static void test_launcher_told(void)
{
    pid_t ranks[MOST_RANKS];
    const cli_answer *a = finish(signal_launcher("TERM", ranks));
    tap_ok(says(a, 3, "mpirun, which holds the ranks together, was told to end "
                      "by signal 15 (SIGTERM)") &&
               strcmp(text_of(a, "fault"), "killed") == 0,
           "an mpirun that somebody sends SIGTERM is named");
}

/* A disk that does not answer may do so yet: it is told of, and waited for. */
static void test_slow_disk(void)
{
    bool told = false;
    setenv("FS_STALL_S", "1", 1);
    setenv("FLOWSEARCH_FAILPOINT", "commit:1=hang", 1);
    pid_t child = start(NEVER_ENDS "--db none --checkpoint \"$D/slow\" "
                                   "--checkpoint-every 3");
    for (int i = 0; i < 800 && !told; i++, nap())
        told = shell("grep -q 'rank 0 waits for the disk with a "
                     "checkpoint' \"$D/goes.err\"");
    tap_ok(told && kill(child, 0) == 0,
           "a rank that waits for the disk is named, and goes on waiting");
    kill(child, SIGTERM);
    tap_equal_int(finish(child)->status, 3, "until somebody ends it");
    unsetenv("FS_STALL_S");
    unsetenv("FLOWSEARCH_FAILPOINT");
}

/* Another file in its place once some rows of scalars are there, long before
 * the rank is killed. */
static const cli_answer *changed(const char *file, const char *to,
                                 const char *more)
{
    setenv("FILE", file, 1);
    setenv("TO", to, 1);
    shell("rm -f \"$D/s.csv\"; (for i in $(seq 600); do "
          "[ $(cat \"$D/s.csv\" 2>/dev/null | wc -l) -gt 3 ] && "
          "break; sleep .05; done; cp -rT \"$D/$TO\" \"$D/$FILE\") &");
    setenv("FLOWSEARCH_FAILPOINT", "step:12=sleep2000@1;step:14=kill9@1", 1);
    const cli_answer *a =
        cli("run \"$D/t.json\" --data \"$D/t.txt\" --steps 16 --json "
            "--scalars \"$D/s.csv\" --max-restarts 1 %s",
            more);
    unsetenv("FLOWSEARCH_FAILPOINT");
    return a;
}

/* A copy of a file of weights, but for a byte in the middle of its largest
 * tensor, the first of one size. */
static void change_middle(const char *file, const char *to)
{
    setenv("FILE", file, 1);
    setenv("TO", to, 1);
    shell("cp \"$D/$FILE\" \"$D/$TO\"");
    char path[600], head[1 << 14];
    uint64_t length = 0;
    int64_t from = 0, most = -1, begin, end;
    const char *name;
    json_t *tensor;
    snprintf(path, sizeof path, "%s/%s", cli_scratch, to);
    FILE *at = fopen(path, "r+b");
    if (!at || fread(&length, 8, 1, at) != 1 || length >= sizeof head ||
        fread(head, length, 1, at) != 1)
        printf("Bail out! %s is not read\n", path);
    json_t *all = json_loadb(head, length, 0, NULL);
    json_object_foreach(all, name, tensor)
    {
        const json_t *place = json_object_get(tensor, "data_offsets");
        begin = json_integer_value(json_array_get(place, 0));
        end = json_integer_value(json_array_get(place, 1));
        if (end - begin > most) {
            most = end - begin;
            from = begin;
        }
    }
    json_decref(all);
    fseek(at, (long)(8 + (int64_t)length + from + most / 2), SEEK_SET);
    fputc(77, at);
    fclose(at);
}

/* What is read anew by ranks that are started again must be what was read. */
static void test_changed_inputs(void)
{
    const cli_answer *a =
        cli("plan zoo:gpt,layers=1,hidden=16,heads=2,vocab=256,seq=8 "
            "--cluster local --ranks 2 --dp 2 --batch 4 -o \"$D/t.json\"");
    const int good =
        a->status == 0 &&
        shell("head -c 20000 \"$S/datasets/data/moby-dick.txt\" > \"$D/t.txt\" "
              "&& tr a-z A-Z < \"$D/t.txt\" > \"$D/other.txt\"");
    tap_ok(good, "a plan, two texts of one size");
    a = changed("t.txt", "other.txt", "");
    tap_ok(says(a, 3, "t.txt has changed since the run began") &&
               strcmp(text_of(a, "fault"), "killed") == 0 &&
               strstr(text_of(a, "fault_text"), "not started again") &&
               json_array_size(json_object_get(a->json, "faults")) == 1,
           "data that changed before a restart: not gone on with, the fault is "
           "told");
    shell("tr A-Z a-z < \"$D/other.txt\" > \"$D/t.txt\"");
    cli("export zoo:gpt,layers=1,hidden=16,heads=2,vocab=256,seq=8 --to "
        "safetensors -o \"$D/w.st\"");
    cli("export zoo:gpt,layers=1,hidden=16,heads=2,vocab=256,seq=8 --to "
        "safetensors --seed 9 -o \"$D/other.st\"");
    a = changed("w.st", "other.st", "--weights \"$D/w.st\"");
    tap_ok(says(a, 3, "w.st has changed since the run began"),
           "weights likewise");
    change_middle("w.st", "other.st");
    a = changed("w.st", "other.st", "--weights \"$D/w.st\"");
    tap_ok(says(a, 3, "w.st has changed since the run began"),
           "in the middle of a tensor too");
}

/* Of a folder of checkpoints only the one that was chosen is read. */
static void test_weights_of_a_folder(void)
{
    char usual[32];
    shell("rm -rf \"$D/ck\" \"$D/from\"; mkdir \"$D/from\"");
    const cli_answer *a =
        cli("run \"$D/t.json\" --data \"$D/t.txt\" --steps 4 --json "
            "--checkpoint \"$D/ck\" --checkpoint-every 2");
    tap_ok(a->status == 0 && shell("cp -r \"$D/ck/step-2\" \"$D/from/step-2\""),
           "a folder with a checkpoint");
    a = cli("run \"$D/t.json\" --data \"$D/t.txt\" --steps 16 --json "
            "--weights \"$D/from\"");
    snprintf(usual, sizeof usual, "%s", text_of(a, "weights_digest"));
    a = changed("from/step-4", "ck/step-4", "--weights \"$D/from\"");
    tap_ok(a->status == 0 && shell("test -d \"$D/from/step-4\""),
           "while a newer one comes there, ranks are started again");
    tap_equal_text(text_of(a, "weights_digest"), usual,
                   "with the weights that they began with");
    if (a->status != 0)
        cli_show(a);
    a = cli("run \"$D/t.json\" --data \"$D/t.txt\" --steps 16 --json");
    snprintf(usual, sizeof usual, "%s", text_of(a, "weights_digest"));
    setenv("FLOWSEARCH_FAILPOINT", "step:12=kill9@1", 1);
    a = cli("run \"$D/t.json\" --data \"$D/t.txt\" --steps 16 --json "
            "--weights \"$D/ck\" --checkpoint \"$D/ck\" --resume "
            "--checkpoint-every 2 --keep-checkpoints 1 --max-restarts 1");
    unsetenv("FLOWSEARCH_FAILPOINT");
    tap_ok(a->status == 0 &&
               json_integer_value(json_object_get(a->json, "restarts")) == 1,
           "of the run's own folder of checkpoints likewise");
    tap_equal_text(text_of(a, "weights_digest"), usual,
                   "from its newest, to the same weights");
    if (a->status != 0)
        cli_show(a);
    shell("rm -rf \"$D/ck\" \"$D/from\"");
}

/* ---- drawn ---- */

static unsigned draw(unsigned long long *seed, unsigned below)
{
    *seed = *seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(*seed >> 33) % below;
}

static void draw_failpoint(unsigned long long *seed, int plan, char out[64])
{
    static const char *const kinds[] = {"kill9", "kill9",    "segv",
                                        "abort", "exit",     "stop",
                                        "hang",  "sleep200", "slow300"};
    static const struct {
        const char *name;
        unsigned most;
        int own; /* of a checkpoint: only where one is written */
    } points[] = {{"step", 16, 0},    {"fire", 300, 0}, {"transfer", 60, 0},
                  {"save", 20, 1},    {"sync", 5, 1},   {"commit", 5, 1},
                  {"committed", 5, 1}};
    const unsigned at = draw(seed, 7);
    const unsigned count = 1 + draw(seed, points[at].most);
    const unsigned kind = draw(seed, points[at].own ? 5 : 9);
    const unsigned rank = draw(seed, (unsigned)ranks_of[plan]);
    /* Rank 0 alone commits. */
    snprintf(out, 64, "%s:%u=%s@%u", points[at].name, count, kinds[kind],
             at >= 5 ? 0 : rank);
}

/* What came of all that was drawn. */
enum { MOST_DRAWN = 4096 };
static struct {
    const char *what, *bound;
    double seconds[MOST_DRAWN];
    int n;
} told[] = {{"dead: found after", "2 s", {0}, 0},
            {"still: named after", "5 s or 20 steps", {0}, 0},
            {"gone on after", "10 s", {0}, 0}};
static int n_seeds, n_drawn, n_equal;

static void note_seconds(int what, const json_t *seconds)
{
    if (json_is_real(seconds) && told[what].n < MOST_DRAWN)
        told[what].seconds[told[what].n++] = json_real_value(seconds);
}

static void note_faults(const cli_answer *a)
{
    const json_t *all = json_object_get(a->json, "faults");
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *f = json_array_get(all, i);
        const char *word = json_string_value(json_object_get(f, "fault"));
        const int still =
            word && (strcmp(word, "hang") == 0 || strcmp(word, "stopped") == 0);
        note_seconds(still, json_object_get(f, "found_s"));
        note_seconds(2, json_object_get(f, "resumed_s"));
    }
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void tell_drawn(void)
{
    printf("# %-20s %-16s %5s %8s %8s\n", "", "bound", "n", "median", "most");
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        const int n = told[i].n;
        qsort(told[i].seconds, (size_t)n, sizeof(double), by_size);
        printf("# %-20s %-16s %5d", told[i].what, told[i].bound, n);
        if (n > 0)
            printf(" %6.2f s %6.2f s", told[i].seconds[n / 2],
                   told[i].seconds[n - 1]);
        printf("\n");
    }
    printf("# %-20s %-16s %5d of %d seeds, %d faults drawn, %d came\n",
           "weights equal", "all", n_equal, n_seeds, n_drawn,
           told[0].n + told[1].n);
}

static void test_drawn(unsigned long long seed)
{
    char first[64], second[64], both[160];
    unsigned long long state = seed;
    draw(&state, 2);
    const int plan = (int)draw(&state, 2);
    draw_failpoint(&state, plan, first);
    draw_failpoint(&state, plan, second);
    const int two = draw(&state, 3) == 0;
    snprintf(both, sizeof both, "%s%s%s", first, two ? ";" : "",
             two ? second : "");
    const cli_answer *a = run_with(both, plan,
                                   "--max-restarts 4 --checkpoint \"$D/ck\" "
                                   "--checkpoint-every 3");
    const int same = is_same(a, plan);
    tap_ok(same, "seed %llu: %s: the same weights, %d faults", seed, both,
           (int)json_array_size(json_object_get(a->json, "faults")));
    n_seeds++;
    n_drawn += 1 + two;
    n_equal += same;
    note_faults(a);
    shell("rm -rf \"$D/ck\"");
}

static void make_plans(void)
{
    const cli_answer *a =
        cli("plan " MLP " --cluster local --ranks 2 --dp 2 --batch 8 "
            "-o \"$D/p2.json\"");
    tap_ok(a->status == 0, "a plan for two ranks");
    a = cli("plan " MLP " --cluster local --ranks 2 --tp 2 --batch 8 "
            "-o \"$D/q2.json\"");
    tap_ok(a->status == 0, "another for two");
    a = cli("plan " MLP " --cluster local --ranks 4 --tp 2 --pp 2 "
            "--micro-batches 2 --batch 8 -o \"$D/p4.json\"");
    tap_ok(a->status == 0, "a plan for four");
    for (int i = 0; i < 2; i++) {
        a = cli(RUN, plans[i]);
        snprintf(undisturbed[i], sizeof undisturbed[i], "%s",
                 text_of(a, "weights_digest"));
        tap_ok(a->status == 0 && undisturbed[i][0], "what nothing disturbs");
    }
}

int main(void)
{
    const char *more = getenv("FAULT_SEEDS");
    const unsigned long long seed = tap_seed(1);
    cli_begin_scratch("cli_supervise");
    make_plans();
    if (!more) {
        test_named();
        test_dump();
        test_hang_in_saver("save:1=hang@0");
        test_hang_in_saver("save:2=hang@1");
        test_refused();
        test_begun_anew();
        test_resumed();
        test_moments();
        test_replanned();
        test_not_replanned();
        test_no_rank();
        test_inference(infer_plans[0], "step:9=kill9@2");
        test_inference(infer_plans[1], "transfer:20=stop@1");
        test_straggler();
        test_straggler_alone();
        test_short_stop();
        test_terminated();
        test_launcher_stopped();
        test_launcher_told();
        test_slow_disk();
        test_changed_plan();
        test_changed_inputs();
        test_weights_of_a_folder();
    }
    for (int i = 0; i < (more ? atoi(more) : 2); i++)
        test_drawn(seed + (unsigned long long)i);
    tell_drawn();
    cli_end_scratch();
    return tap_done();
}
