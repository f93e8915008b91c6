/* Ranks on several hosts: what is refused, what is started, and two network
 * namespaces that are two hosts to mpirun. */
#include "config.h"
#include "tests/run_going.h"

#define MLP "zoo:mlp,in=16,hidden=32,layers=2,classes=4"
#define RUN "run \"$D/p.json\" --data synthetic --steps 4 "

/* This host and another that is never come to. */
static char here[300];

static void refused(const char *words, const char *text)
{
    const cli_answer *a = cli(RUN "--dry-run %s", words);
    tap_ok(says(a, 2, text) && count(a->err, "\n") == 1, "refused: %s", text);
}

static void test_refused(void)
{
    char words[900];
    snprintf(words, sizeof words, "--hosts %s:1,b:1", here);
    refused(words, "the hosts take 2 ranks, the plan has 3");
    refused("--hosts b:3", "the first host, b, is not this one");
    refused("--hosts ,b:3", "a host is wanted");
    refused("--hosts b:none", "a host is wanted");
    refused("--hosts b:0", "a host is wanted");
    refused("--hosts b,b", "host b stands twice");
    refused("--hosts b --hostfile x", "give one");
    refused("--hostfile \"$D/nowhere\"", "nowhere");
    shell("echo 'b slots=3 max_slots=4' >\"$D/h\"");
    refused("--hostfile \"$D/h\"", "h:1: of host b only slots=K is understood");
    shell("printf '# ours\\n\\nb slots=1\\nc slots=none\\n' >\"$D/h\"");
    refused("--hostfile \"$D/h\"", "h:4: 'c': a host is wanted");
    shell("printf 'b slots=1\\nb slots=2\\n' >\"$D/h\"");
    refused("--hostfile \"$D/h\"", "h:2: host b stands twice");
    shell("printf '# ours\\nb slots=3\\n' >\"$D/h\"");
    refused("--hostfile \"$D/h\"", "h:2: the first host, b, is not this one");
    snprintf(words, sizeof words, "--replan --hosts %s:3", here);
    refused(words, "--replan is for one host");
}

static const json_t *host_at(const cli_answer *a, size_t i)
{
    return json_array_get(json_object_get(a->json, "hosts"), i);
}

static int is_host(const json_t *row, const char *name, int ranks)
{
    const char *got = json_string_value(json_object_get(row, "host"));
    return got && strcmp(got, name) == 0 &&
           json_integer_value(json_object_get(row, "ranks")) == ranks &&
           json_is_true(json_object_get(row, "reached")) &&
           json_is_true(json_object_get(row, "data"));
}

/* All ranks here, which mpirun is told by name. */
static void test_here(void)
{
    const cli_answer *a = cli(RUN "--dry-run --json --hosts %s:3", here);
    tap_ok(a->status == 0 && is_host(host_at(a, 0), here, 3),
           "--dry-run starts ranks that look around");
    if (a->status != 0)
        cli_show(a);
    char *words = json_dumps(json_object_get(a->json, "launch"), 0);
    tap_ok(words && strstr(words, "\"--host\"") && strstr(words, "\"-x\""),
           "and shows the launch");
    free(words);
}

/* Slots that no rank takes. */
static void test_left_over(void)
{
    static const char *const left = "left over";
    const cli_answer *a = cli(RUN "--dry-run --hosts %s:4", here);
    tap_ok(a->status == 0 && count(a->err, left) == 1 &&
               strstr(a->err, "--hosts: the hosts take 4 ranks, the plan has "
                              "3: 1 slot is left over\n"),
           "a slot that is left over is told");
    if (!strstr(a->err, left))
        cli_show(a);
    char words[400];
    snprintf(words, sizeof words, "echo '%s slots=5' >\"$D/h\"", here);
    shell(words);
    a = cli(RUN "--dry-run --hostfile \"$D/h\"");
    tap_ok(a->status == 0 && strstr(a->err, ": 2 slots are left over\n"),
           "and two of a file");
    a = cli(RUN "--dry-run --hosts %s:3", here);
    tap_ok(a->status == 0 && !strstr(a->err, left),
           "but nothing where each has its rank");
}

/* A Slurm allocation: mpirun reads it by itself. */
static void test_slurm(void)
{
    setenv("SLURM_JOB_NODELIST", here, 1);
    const cli_answer *a = cli(RUN "--dry-run --json");
    tap_ok(a->status == 0 && is_host(host_at(a, 0), here, 3),
           "in an allocation no host is named, and all are looked at");
    if (a->status != 0)
        cli_show(a);
    char *words = json_dumps(json_object_get(a->json, "launch"), 0);
    tap_ok(words && !strstr(words, "\"--host\""), "mpirun knows them");
    free(words);
    unsetenv("SLURM_JOB_NODELIST");
}

/* mpirun deals three ranks to one slot then. */
static void test_slurm_tasks(void)
{
    static const struct {
        const char *tasks;
        int64_t room; /* 0: nothing is told */
    } all[] = {{"1", 1},     {"1(x2)", 2}, {"3", 0},
               {"1(x3)", 0}, {"1,2", 0},   {"1(x2", 0}};
    char text[80];
    setenv("SLURM_JOB_NODELIST", here, 1);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        setenv("SLURM_TASKS_PER_NODE", all[i].tasks, 1);
        const cli_answer *a = cli(RUN "--json --dry-run");
        snprintf(text, sizeof text, "allocation has %d task%s (SLURM",
                 (int)all[i].room, all[i].room == 1 ? "" : "s");
        tap_ok(all[i].room ? says(a, 0, text) && strstr(a->err, "--ntasks=3")
                           : a->status == 0 && !strstr(a->err, "allocation"),
               "SLURM_TASKS_PER_NODE=%s: %s", all[i].tasks,
               all[i].room ? "ranks that share are told" : "nothing to tell");
    }
    unsetenv("SLURM_TASKS_PER_NODE");
    unsetenv("SLURM_JOB_NODELIST");
}

/* One that does not exist, as mpirun reads the allocation. */
static void test_slurm_unreached(void)
{
    static const char *const of[] = {"SLURM_JOBID", "SLURM_JOB_ID",
                                     "SLURM_NODELIST", "SLURM_JOB_NODELIST",
                                     "SLURM_TASKS_PER_NODE"};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        setenv(of[i], i < 2 ? "7" : i < 4 ? "no-such-host" : "3", 1);
    const char *text = "(SLURM_JOB_NODELIST=no-such-host, host no-such-host is "
                       "not known here)";
    tap_ok(says(cli(RUN "--json --dry-run"), 3, text),
           "--dry-run names a host of an allocation that does not exist");
    tap_ok(says(cli(RUN "--json"), 3, text), "and so does a run");
    for (size_t i = 2; i < 4; i++)
        setenv(of[i], "no-such[08-09,11],nor-this", 1);
    text = "(SLURM_JOB_NODELIST=no-such[08-09,11],nor-this, host no-such08 is "
           "not known here, host no-such09 is not known here, host no-such11 is "
           "not known here, host nor-this is not known here)";
    tap_ok(says(cli(RUN "--json --dry-run"), 3, text),
           "each of a list that Slurm has shortened");
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        unsetenv(of[i]);
}

/* Of several hosts only ranks of the first come to what names no rank. */
static void test_unnamed_failpoint(void)
{
    static const char *const says_so = "what names no rank (@RANK)";
    setenv("FLOWSEARCH_FAILPOINT", "step:2=sleep1@1;step:3=sleep1", 1);
    const cli_answer *a = cli(RUN "--hosts %s:3", here);
    tap_ok(a->status == 0 && !strstr(a->err, says_so),
           "a failpoint of no rank is of any where there is one host");
    setenv("SLURM_JOB_NODELIST", "a,b", 1);
    a = cli(RUN "");
    tap_ok(strstr(a->err, says_so) && count(a->err, "FAILPOINT") == 1,
           "of several hosts it is of the first one's, which is told");
    setenv("FLOWSEARCH_FAILPOINT", "step:2=sleep1@1", 1);
    a = cli(RUN "");
    tap_ok(!strstr(a->err, says_so), "but not where all name theirs");
    unsetenv("SLURM_JOB_NODELIST");
    unsetenv("FLOWSEARCH_FAILPOINT");
}

/* ---- two hosts ---- */

static char a_host[32], b_host[32];

/* As a command of host A. */
static const cli_answer *on_a(const char *words)
{
    setenv("B", cli_env("FS_BUILDDIR", "."), 1);
    return cli("--version >/dev/null; ip netns exec %s unshare --uts --ipc sh "
               "-c 'hostname %s; exec \"$B/flowsearch\" %s --db "
               "\"$D/test.db\"'",
               a_host, a_host, words);
}

static const char *digest_of(const cli_answer *a)
{
    const char *text =
        json_string_value(json_object_get(a->json, "weights_digest"));
    return text ? text : "";
}

static int make_hosts(void)
{
    char words[256];
    snprintf(a_host, sizeof a_host, "fsa%d", (int)getpid() % 100000);
    snprintf(b_host, sizeof b_host, "fsb%d", (int)getpid() % 100000);
    snprintf(words, sizeof words,
             "sh \"$S/tests/two_hosts.sh\" make %s %s 2>/dev/null", a_host,
             b_host);
    return shell(words);
}

static void remove_hosts(void)
{
    char words[256];
    snprintf(words, sizeof words, "sh \"$S/tests/two_hosts.sh\" remove %s %s",
             a_host, b_host);
    shell(words);
    /* What Open MPI leaves where a link is pulled. */
    snprintf(words, sizeof words,
             "rm -rf /dev/shm/vader_segment.%s.* /dev/shm/vader_segment.%s.* "
             "\"${TMPDIR:-/tmp}\"/ompi.%s.* \"${TMPDIR:-/tmp}\"/ompi.%s.*",
             a_host, b_host, a_host, b_host);
    if (*a_host && *b_host)
        shell(words);
}

static void test_two(void)
{
    char words[600], usual[32];
    snprintf(usual, sizeof usual, "%s", digest_of(cli(RUN "--json")));
    snprintf(words, sizeof words, RUN "--dry-run --json --hosts %s:1,%s:2",
             a_host, b_host);
    const cli_answer *a = on_a(words);
    tap_ok(a->status == 0 && is_host(host_at(a, 0), a_host, 1) &&
               is_host(host_at(a, 1), b_host, 2),
           "one rank on a host, two on the other: both are fit");
    if (a->status != 0)
        cli_show(a);
    snprintf(words, sizeof words, RUN "--json --hosts %s:1,%s:2", a_host,
             b_host);
    a = on_a(words);
    tap_ok(a->status == 0, "they train");
    tap_equal_text(digest_of(a), usual, "to the bits of one host");
    if (a->status != 0)
        cli_show(a);
    snprintf(words, sizeof words,
             "printf '%s slots=2\\n%s slots=1 # less\\n' >\"$D/h\"", a_host,
             b_host);
    shell(words);
    a = on_a(RUN "--json --hostfile \"$D/h\"");
    tap_ok(a->status == 0 && strcmp(digest_of(a), usual) == 0,
           "dealt otherwise, by a file, likewise");
}

static void test_unfit(void)
{
    char words[900], text[64], mount[1200];
    snprintf(words, sizeof words, RUN "--dry-run --json --hosts %s:1,%s:2",
             a_host, b_host);
    setenv("FS_DOWN", b_host, 1);
    snprintf(text, sizeof text, "host %s: not reached", b_host);
    tap_ok(says(on_a(words), 3, text), "a host that is down is named");
    unsetenv("FS_DOWN");
    snprintf(mount, sizeof mount, "--bind %s/q.json %s/p.json", cli_scratch,
             cli_scratch);
    setenv("FS_MOUNT", mount, 1);
    snprintf(text, sizeof text, "host %s: ", b_host);
    const cli_answer *a = on_a(words);
    tap_ok(says(a, 2, text) && strstr(a->err, "was checked before"),
           "a host with another plan is named");
    snprintf(words, sizeof words, RUN "--json --hosts %s:1,%s:2", a_host,
             b_host);
    tap_ok(says(on_a(words), 2, "was checked before"), "and does not train it");
    snprintf(mount, sizeof mount, "-t tmpfs none %s/data", cli_scratch);
    setenv("FS_MOUNT", mount, 1);
    snprintf(words, sizeof words,
             "run \"$D/p.json\" --data \"$D/data/x.csv\" --dry-run --json "
             "--hosts %s:1,%s:2",
             a_host, b_host);
    a = on_a(words);
    tap_ok(says(a, 2, text) && strstr(a->err, "x.csv"),
           "a host without the data is named");
    unsetenv("FS_MOUNT");
    tap_equal_int(on_a(words)->status, 0, "which it has otherwise");
}

/* Both ways: a step takes seconds then, and is none the worse. */
static void test_slow_link(void)
{
    char words[900], usual[32];
    snprintf(usual, sizeof usual, "%s", digest_of(cli(RUN "--json")));
    snprintf(words, sizeof words,
             "for h in %s %s; do ip netns exec $h tc qdisc add dev $h root tbf "
             "rate 1mbit burst 4kb latency 400ms || exit 1; done 2>/dev/null",
             a_host, b_host);
    if (!shell(words)) {
        tap_skip("links cannot be made slow here", "a link of 1 Mbit/s");
        return;
    }
    snprintf(words, sizeof words, RUN "--json --hosts %s:1,%s:2", a_host,
             b_host);
    const cli_answer *a = on_a(words);
    tap_ok(a->status == 0 && strcmp(digest_of(a), usual) == 0,
           "over a link of 1 Mbit/s they train to the same bits");
    if (a->status != 0)
        cli_show(a);
    snprintf(words, sizeof words,
             "for h in %s %s; do ip netns exec $h tc qdisc del dev $h root; "
             "done",
             a_host, b_host);
    shell(words);
}

/* Of one that was told to fail on the other host, as `more` says. */
static const cli_answer *fails(const char *failpoint, const char *more)
{
    char words[600];
    snprintf(words, sizeof words, RUN "--json --hosts %s:1,%s:2 %s", a_host,
             b_host, more);
    setenv("FLOWSEARCH_FAILPOINT", failpoint, 1);
    const cli_answer *a = on_a(words);
    unsetenv("FLOWSEARCH_FAILPOINT");
    return a;
}

static const json_t *fault_at(const cli_answer *a, size_t i)
{
    return json_array_get(json_object_get(a->json, "faults"), i);
}

static const char *text_at(const json_t *row, const char *key)
{
    const char *text = json_string_value(json_object_get(row, key));
    return text ? text : "";
}

/* A rank on the other host, whose record comes over the network. */
static void named(const char *failpoint, const char *word, const char *does,
                  int step)
{
    char text[160];
    const cli_answer *a = fails(failpoint, "");
    const json_t *fault = fault_at(a, 0);
    const json_t *ranks = json_object_get(fault, "ranks");
    snprintf(text, sizeof text, "rank 2 on host %s %s", b_host, does);
    tap_ok(says(a, 3, text), "%s: '%s' is told", failpoint, does);
    tap_equal_text(text_at(fault, "fault"), word, "as what it was");
    tap_equal_text(text_at(fault, "host"), b_host, "with its host");
    tap_equal_int(json_integer_value(json_object_get(fault, "rank")), 2,
                  "its rank");
    tap_equal_int(json_integer_value(json_object_get(fault, "step")), step,
                  "its step");
    /* Who dies takes what the last tenth of a second was with it, at times. */
    const int lives = strcmp(word, "hang") == 0 || strcmp(word, "stopped") == 0;
    tap_ok(!lives || (*text_at(json_array_get(ranks, 2), "at") &&
                      json_array_size(json_object_get(json_array_get(ranks, 1),
                                                      "last")) > 0),
           "its task, and what ranks there did last");
}

static void test_named(void)
{
    named("step:2=kill9@2", "killed", "was killed by signal 9 (SIGKILL) at", 2);
    named("step:3=segv@2", "crash", "at step 3: crashed", 3);
    setenv("FS_STALL_S", "2", 1);
    named("step:3=hang@2", "hang", "hangs: no progress for", 3);
    named("step:3=stop@2", "stopped", "is stopped (SIGSTOP)", 3);
    unsetenv("FS_STALL_S");
}

/* Two seconds after the ranks have come, done to the other host. */
static void lost(const char *does, const char *what)
{
    char words[900], text[160];
    snprintf(words, sizeof words,
             "(for i in $(seq 300); do [ $(wc -l <\"$D/lost.csv\") -gt 3 ] && "
             "break; sleep .1; done 2>/dev/null; %s) >/dev/null 2>&1 &",
             does);
    setenv("HOST_B", b_host, 1);
    setenv("FS_STALL_S", "3", 1);
    shell("rm -f \"$D/lost.csv\"");
    shell(words);
    snprintf(words, sizeof words,
             "run \"$D/p.json\" --data synthetic --steps 10000000 --json "
             "--scalars \"$D/lost.csv\" --hosts %s:1,%s:2",
             a_host, b_host);
    const cli_answer *a = on_a(words);
    snprintf(text, sizeof text, "nothing is heard of rank 1 on host %s",
             b_host);
    tap_ok(says(a, 3, text) &&
               strcmp(text_at(fault_at(a, 0), "host"), b_host) == 0,
           "%s: its ranks are not heard of, which is told", what);
    if (a->status != 3)
        cli_show(a);
    unsetenv("FS_STALL_S");
    shell("ip -n $HOST_B link set $HOST_B up; kill -9 $(ip netns pids "
          "$HOST_B) 2>/dev/null");
}

static void test_lost(void)
{
    lost("ip -n $HOST_B link set $HOST_B down", "a link that is pulled");
    lost("kill -STOP $(ip netns pids $HOST_B)", "a host that stands still");
}

/* Relays that go while their ranks start, whose last word is that, then a rank
 * here that stops: no reason to wait for as long as a start may take. */
static void test_unrelayed(void)
{
    char words[600];
    setenv("HOST_B", b_host, 1);
    setenv("FS_STALL_S", "3", 1);
    shell("relays() { for p in $(ip netns pids $HOST_B); do "
          "q=$(cut -d' ' -f4 /proc/$p/stat); "
          "[ \"$(cat /proc/$p/comm /proc/$q/comm | uniq)\" = flowsearch ] && "
          "echo $p; done; }; (for i in $(seq 300); do [ \"$(relays)\" ] && "
          "break; sleep .05; done; sleep .5; kill -9 $(relays)) "
          ">/dev/null 2>&1 &");
    snprintf(words, sizeof words,
             "run \"$D/p.json\" --data synthetic --steps 10000000 --json "
             "--hosts %s:1,%s:2",
             a_host, b_host);
    setenv("FLOWSEARCH_FAILPOINT",
           "start:1=sleep2000@1;start:1=sleep2000@2;step:200=stop@0", 1);
    const cli_answer *a = on_a(words);
    unsetenv("FLOWSEARCH_FAILPOINT");
    const json_t *fault = fault_at(a, 0);
    tap_ok(says(a, 3, "rank 0 is stopped (SIGSTOP)"),
           "a rank here that stops where others are not heard of is named");
    const double found_s = json_number_value(json_object_get(fault, "found_s"));
    tap_ok(found_s > 0 && found_s < 12, "after %.1f s", found_s);
    unsetenv("FS_STALL_S");
}

static void once(const char *failpoint)
{
    const cli_answer *a = fails(failpoint, "--max-restarts 3");
    tap_ok(a->status == 0 &&
               json_integer_value(json_object_get(a->json, "restarts")) == 1,
           "%s: once per job, restarts included", failpoint);
    if (a->status != 0)
        cli_show(a);
}

static void test_once(void)
{
    once("step:2=kill9@2");
    once("fire:5=exit@1");
    once("step:2=kill9"); /* of all ranks the first */
}

int main(void)
{
    cli_begin_scratch("cli_hosts");
    gethostname(here, sizeof here - 1);
    const cli_answer *a = cli("plan " MLP " --cluster local --ranks 3 --dp 3 "
                              "--batch 12 -o \"$D/p.json\"");
    tap_ok(a->status == 0, "a plan for three ranks");
    cli("plan " MLP " --cluster local --ranks 3 --tp 3 --batch 12 "
        "-o \"$D/q.json\"");
    shell("mkdir \"$D/data\" && awk 'BEGIN { for (k = 0; k < 17; k++) printf "
          "\"c%d%s\", k, k < 16 ? \",\" : \"\\n\"; for (i = 0; i < 48; i++) { "
          "for "
          "(k = 0; k < 16; k++) printf \"%g,\", (i * k) % 7; print i % 4 } }' "
          ">\"$D/data/x.csv\"");
    test_refused();
    test_here();
    test_left_over();
    test_slurm();
    test_slurm_tasks();
    test_slurm_unreached();
    test_unnamed_failpoint();
    if (make_hosts()) {
        char agent[600];
        snprintf(agent, sizeof agent, "%s/tests/rsh_namespace.sh",
                 cli_env("FS_SRCDIR", "."));
        setenv("OMPI_MCA_plm_rsh_agent", agent, 1);
        setenv("OMPI_MCA_oob_tcp_if_include", "10.77.9.0/24", 1);
        setenv("OMPI_MCA_btl_tcp_if_include", "10.77.9.0/24", 1);
        test_two();
        test_unfit();
        test_slow_link();
        test_named();
        test_once();
        test_lost();
        test_unrelayed();
    } else {
        tap_skip("network namespaces cannot be made here", "two hosts");
    }
    remove_hosts();
    cli_end_scratch();
    return tap_done();
}
