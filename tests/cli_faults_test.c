/* What is refused before anything starts, what a command must not destroy or
 * leave, and runs that fail. */
#include "config.h"
#include "tests/run_going.h"

#define MLP "zoo:mlp,in=16,hidden=32,layers=2,classes=4"
/* ---- before anything starts ---- */

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
    refused("more steps than memory keeps", "--steps 99999999999",
            cli("run \"$D/p.json\" --data synthetic --steps 99999999999"));
    refused("as many steps in a dry run", "--steps 99999999999",
            cli("run \"$D/p.json\" --data synthetic --steps 99999999999 "
                "--dry-run"));
    refused("one step too many", " at most",
            cli("run \"$D/p.json\" --data synthetic --steps 10000001"));
    refused("a model of no sample", "--batch", cli("model " MLP " --batch 0"));
    refused("a search for no sample", "--batch",
            cli("search " MLP " --cluster 1x2:cpu --batch 0 -o \"$D/x.json\""));
    refused("a regular expression that is none", "'['",
            cli("model " MLP " --params '['"));
    refused("the timeline of a model", "PLAN",
            cli("show " MLP " --timeline -o \"$D/x.svg\""));
    refused("a database without a name", "--db", cli("model " MLP " --db ''"));
    refused("a recomputation of nothing", "--recompute wants WHAT",
            cli("model " MLP " --recompute ''"));
    refused("a loss without a name", "--loss wants KIND",
            cli("model x.onnx --loss="));
    refused("more ranks than a host is seen as", "4096",
            cli("cluster local --ranks 100000"));
}

/* A reader that opened it would wait for ever for a writer. */
static void test_fifo(void)
{
    static const char *const commands[] = {
        "model \"$D/ff.onnx\"", "check \"$D/ff.json\"",
        "cluster \"$D/ff.json\"", "show \"$D/ff.json\" -o \"$D/a.svg\"",
        "run \"$D/in/plan.json\" --data \"$D/ff.txt\""};
    tap_ok(shell("mkfifo \"$D/ff.onnx\" \"$D/ff.json\" \"$D/ff.txt\""),
           "three FIFOs");
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        refused(commands[i], "not a regular file",
                cli("--version >/dev/null; timeout 20 '%s/flowsearch' %s "
                    "--db none",
                    cli_env("FS_BUILDDIR", "."), commands[i]));
}

/* ---- what the command must not destroy or leave ---- */

static json_t *content(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    return json_load_file(path, 0, NULL);
}

static void test_own_input(void)
{
    json_t *before = content("p.json");
    char copy[2048];
    snprintf(copy, sizeof copy,
             "cp '%s/p.json' '%s/plan.svg' && ln -s p.json '%s/link.json'",
             cli_scratch, cli_scratch, cli_scratch);
    tap_ok(system(copy) == 0, "a plan by other names");
    refused("a trace over the plan", "would destroy it",
            cli("sim \"$D/p.json\" --trace \"$D/./p.json\""));
    refused("a trace over the plan of a run, through a link",
            "would destroy it",
            cli("run \"$D/p.json\" --data synthetic --trace "
                "\"$D/link.json\""));
    refused("pictures over the plan", "would destroy it",
            cli("run \"$D/plan.svg\" --data synthetic --pictures \"$D\""));
    refused("a plan over its model", "would destroy it",
            cli("plan \"$D/p.json\" --cluster 1x2:cpu --batch 8 "
                "-o \"$D/link.json\""));
    refused("a plan over its cluster", "would destroy it",
            cli("search " MLP " --cluster \"$D/p.json\" --batch 8 "
                "-o \"$D/p.json\""));
    refused("a plan over the database", "would destroy it",
            cli("plan " MLP " --cluster 1x2:cpu --batch 8 "
                "-o \"$D/new.db\" --db \"$D/new.db\""));
    json_t *after = content("p.json");
    tap_ok(before && json_equal(before, after), "the plan is as it was");
    json_decref(before);
    json_decref(after);
}

/* ---- pictures ---- */

#define RUN_BYTES                                                              \
    "run \"$D/in/plan.json\" --data \"$D/in/data.txt\" --steps 1 "             \
    "--db \"$D/in/runs.db\" "

/* A folder `in` with each kind of input, and what they were in `were`. */
static int make_inputs(void)
{
    if (!shell("mkdir \"$D/in\" \"$D/over\" && "
               "cp \"$S/datasets/models/gpt_bytes.dyn.onnx\" "
               "\"$D/in/model.onnx\" && "
               "head -c 20000 \"$S/datasets/data/moby-dick.txt\" "
               ">\"$D/in/data.txt\""))
        return 0;
    cli("calibrate --ranks 1 -o \"$D/in/host.json\"");
    cli("plan \"$D/in/model.onnx\" --cluster \"$D/in/host.json\" "
        "--batch 4 --dp 1 -o \"$D/in/plan.json\"");
    return cli(RUN_BYTES "--dry-run")->status == 0 &&
           cli("check \"$D/in/plan.json\" --db \"$D/in/runs.db\"")->status ==
               0 &&
           shell("cp -r \"$D/in\" \"$D/were\"");
}

static void picture_over(const char *picture, const char *input)
{
    char link[1024], named[128];
    snprintf(link, sizeof link,
             "rm -f \"$D\"/over/*; ln -s \"../in/%s\" \"$D/over/%s\"", input,
             picture);
    snprintf(named, sizeof named, "/over/%s is ", picture);
    const cli_answer *a =
        shell(link) ? cli(RUN_BYTES "--pictures \"$D/over\"") : NULL;
    tap_ok(a && says(a, 2, named) && strstr(a->err, input) &&
               strstr(a->err, "would destroy it"),
           "refused, both named: %s over %s", picture, input);
    if (a && a->status != 2)
        cli_show(a);
}

static void test_pictures_over_inputs(void)
{
    static const char *const pictures[] = {"plan.svg", "timeline-predicted.svg",
                                           "timeline-measured.svg",
                                           "trace.json"};
    static const char *const inputs[] = {"data.txt", "model.onnx", "host.json",
                                         "plan.json", "runs.db"};
    tap_ok(make_inputs(), "a plan, its model, cluster, data and database");
    for (int i = 0; i < 5; i++)
        picture_over(pictures[i % 4], inputs[i]);
    picture_over("trace.json", "data.txt");
    tap_ok(shell("diff -r \"$D/in\" \"$D/were\""), "all are as they were");
}

/* ---- weights, checkpoints, hosts ---- */

#define INFER "run \"$D/kept/infer.json\" --data synthetic --steps 1 "

static int make_weights(void)
{
    return shell("mkdir \"$D/kept\" && echo localhost slots=2 "
                 ">\"$D/kept/hosts\"") &&
           cli("plan " MLP " --mode infer --cluster local --ranks 2 --dp 2 "
               "--batch 8 -o \"$D/kept/infer.json\"")
                   ->status == 0 &&
           cli("run \"$D/p.json\" --data synthetic --steps 2 --checkpoint "
               "\"$D/kept/saved\" --checkpoint-every 1")
                   ->status == 0 &&
           cli("export " MLP " --to safetensors -o "
               "\"$D/kept/w.safetensors\"")
                   ->status == 0 &&
           shell("mkdir \"$D/kept/parts\" && cp \"$D/kept/w.safetensors\" "
                 "\"$D/kept/parts\" && cp \"$D/kept/w.safetensors\" "
                 "\"$D/kept/logits.npy\" && cp -r \"$D/kept\" \"$D/safe\"");
}

static void test_over_weights(void)
{
    static const char *const words[] = {
        INFER "--weights \"$D/kept/w.safetensors\" --trace "
              "\"$D/kept/./w.safetensors\"",
        INFER "--weights \"$D/kept/w.safetensors\" --scalars "
              "\"$D/kept/w.safetensors\" --dry-run",
        INFER "--weights \"$D/kept/parts\" --trace "
              "\"$D/kept/parts/w.safetensors\"",
        INFER "--weights \"$D/kept/saved\" --trace "
              "\"$D/kept/saved/step-1/manifest.json\"",
        INFER "--weights \"$D/kept/saved/step-2\" --trace "
              "\"$D/kept/saved/step-2/rank-0.safetensors\"",
        INFER "--weights \"$D/kept/logits.npy\" --outputs \"$D/kept\"",
        INFER "--hostfile \"$D/kept/hosts\" --trace \"$D/kept/hosts\"",
        "run \"$D/p.json\" --data synthetic --steps 3 --checkpoint "
        "\"$D/kept/saved\" --resume --scalars "
        "\"$D/kept/saved/step-1/manifest.json\"",
        "export " MLP " --to safetensors --weights "
        "\"$D/kept/w.safetensors\" -o \"$D/kept/w.safetensors\"",
        "export \"$D/kept/infer.json\" --to onnx --weights "
        "\"$D/kept/saved\" -o \"$D/kept/saved/step-2/losses.f64\""};
    tap_ok(make_weights(), "weights, checkpoints and a file of hosts");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        refused(words[i], "would destroy it", cli("%s", words[i]));
    tap_ok(shell("diff -r \"$D/kept\" \"$D/safe\""), "all are as they were");
}

/* Beside what is read there is room for what is written. */
static void test_beside_weights(void)
{
    for (int i = 0; i < 2; i++) {
        const cli_answer *a =
            cli(INFER "--weights \"$D/kept/saved\" --pictures "
                      "\"$D/kept/saved\" --outputs \"$D/kept/saved\"");
        tap_ok(says(a, 0, ""), "outputs beside checkpoints are none of them");
        a = cli("export " MLP " --to safetensors --weights \"$D/kept/saved\" "
                "-o \"$D/kept/saved/w.safetensors\"");
        tap_ok(says(a, 0, ""), "nor is what was made of them");
    }
    const cli_answer *a =
        cli("run \"$D/p.json\" --data synthetic --steps 1 --checkpoint "
            "\"$D/both\" --pictures \"$D/both\"");
    tap_ok(says(a, 0, ""), "checkpoints and pictures in one new folder");
}

static void test_outputs_are_one(void)
{
    const cli_answer *a;
    shell("rm -f \"$D\"/over/*");
    a = cli(RUN_BYTES "--pictures \"$D/over\" --trace "
                      "\"$D/./over/trace.json\"");
    tap_ok(says(a, 2, "/./over/trace.json and ") &&
               strstr(a->err, "are one file"),
           "refused: a trace that is one of the pictures");
    a = cli(RUN_BYTES "--pictures \"$D/new\" --trace \"$D/new\"");
    tap_ok(says(a, 2, "are one file"),
           "refused: a trace that is the folder of pictures");
    shell("touch \"$D/over/plan.svg\" && "
          "ln -s plan.svg \"$D/over/timeline-measured.svg\"");
    a = cli(RUN_BYTES "--pictures \"$D/over\"");
    tap_ok(says(a, 2, "are one file"), "refused: two pictures of one file");
    shell("rm -f \"$D\"/over/* && mkdir \"$D/over/trace.json\"");
    a = cli(RUN_BYTES "--pictures \"$D/over\"");
    tap_ok(says(a, 2, "it is a folder"), "refused: a picture that is a folder");
    tap_ok(shell("diff -r \"$D/in\" \"$D/were\""), "and nothing ran");
}

/* No file may grow beyond 2 KiB. */
static void test_no_room(void)
{
    const cli_answer *a =
        cli("--version; ulimit -f 4; "
            "'%s/flowsearch' show \"$D/p.json\" -o \"$D/big.svg\" --db none",
            cli_env("FS_BUILDDIR", "."));
    tap_ok(says(a, 3, "big.svg: cannot be written: File too large") &&
               count(a->err, "\n") == 1,
           "a picture without room is one fault, named");
    tap_ok(files_with(cli_scratch, "big.svg") == 0, "and leaves nothing");
    a = cli("--version; ulimit -f 4; "
            "'%s/flowsearch' model " MLP " --db \"$D/full.db\"",
            cli_env("FS_BUILDDIR", "."));
    tap_ok(says(a, 3, "full.db: ") && count(a->err, "\n") == 1,
           "a database without room is one fault, named");
    tap_ok(files_with(cli_scratch, "full.db") == 0, "and leaves nothing");
}

/* An mpirun that cannot start is no answer of ours. */
static void test_broken_mpirun(void)
{
    const cli_answer *a = cli("--version; "
                              "OMPI_MCA_ess=none '%s/flowsearch' run "
                              "\"$D/p.json\" --data synthetic",
                              cli_env("FS_BUILDDIR", "."));
    tap_ok(says(a, 3, "mpirun did not run the ranks"),
           "an mpirun that cannot start is a fault");
    a = cli("--version; TMPDIR=/nonexistent '%s/flowsearch' run "
            "\"$D/p.json\" --data synthetic",
            cli_env("FS_BUILDDIR", "."));
    tap_ok(says(a, 3, "/nonexistent") && count(a->err, "\n") == 1,
           "so is a TMPDIR that cannot be written");
}

/* Names in TMPDIR that others could foresee are not used. */
static void test_temporary_files(void)
{
    char tmp[32], link[640], victim[600];
    struct stat at;
    snprintf(victim, sizeof victim, "%s/victim", cli_scratch);
    fclose(fopen(victim, "wb"));
    fflush(stdout);
    begin_tmp(tmp);
    setenv("B", cli_env("FS_BUILDDIR", "."), 1);
    cli_watch_leaks("run ");
    pid_t child = fork();
    if (child == 0) { /* exec keeps the number that the link names */
        snprintf(link, sizeof link, "/tmp/flowsearch-run.%d.json",
                 (int)getpid());
        if (symlink(victim, link) != 0)
            _exit(127);
        execl("/bin/sh", "sh", "-c",
              "exec \"$B/flowsearch\" run \"$D/p.json\" --data "
              "synthetic --db none >\"$D/out\" 2>\"$D/err\"",
              (char *)NULL);
        _exit(127);
    }
    snprintf(link, sizeof link, "/tmp/flowsearch-run.%d.json", (int)child);
    const cli_answer *a = finish(child);
    tap_ok(says(a, 0, ""), "a run with a TMPDIR of its own");
    tap_ok(lstat(link, &at) == 0 && stat(victim, &at) == 0 && at.st_size == 0,
           "a link planted in /tmp stays, and is not written through");
    tap_ok(files_with(tmp, "flowsearch") == 0, "nothing stays in TMPDIR");
    unlink(link);
    end_tmp(tmp);
}

/* ---- the seed ---- */

static json_t *losses_of(const char *words)
{
    const cli_answer *a = cli("run \"$D/p.json\" --data synthetic --steps 2 "
                              "--json%s",
                              words);
    return json_deep_copy(json_object_get(a->json, "losses"));
}

static long long stored_seed(void)
{
    const cli_answer *a =
        cli("runs --json --sql 'SELECT seed FROM runs ORDER BY id DESC LIMIT "
            "1'");
    const json_t *row = json_array_get(json_object_get(a->json, "runs"), 0);
    const char *text = json_string_value(json_object_get(row, "seed"));
    return text ? atoll(text)
                : json_integer_value(json_object_get(row, "seed"));
}

static void test_seed(void)
{
    cli("plan " MLP " --cluster local --ranks 2 --dp 2 --batch 8 --seed 7 "
        "-o \"$D/seven.json\"");
    cli("run \"$D/seven.json\" --data synthetic --steps 1");
    tap_ok(stored_seed() == 7, "a run stores the seed of its plan");
    json_t *zero = losses_of(""), *five = losses_of(" --seed 5");
    tap_ok(stored_seed() == 5, "a run stores the seed that was said");
    json_t *again = losses_of(" --seed 5");
    tap_ok(json_array_size(five) == 2 && json_equal(five, again) &&
               !json_equal(zero, five),
           "and trains from it");
    json_decref(zero);
    json_decref(five);
    json_decref(again);
}

/* ---- a training that diverges ---- */

static void diverges(const char *plan, const char *fact)
{
    const cli_answer *a = cli(
        "run \"$D/%s\" --data synthetic --steps 100000 --lr 1e30 --json", plan);
    json_int_t step =
        json_integer_value(json_object_get(a->json, "diverged_step"));
    size_t n = json_array_size(json_object_get(a->json, "losses"));
    char word[64];
    snprintf(word, sizeof word, "the loss of step %lld of 100000",
             (long long)step);
    if (!says(a, 1, word) || count(a->err, "\n") != 1)
        cli_show(a);
    tap_ok(says(a, 1, word) && count(a->err, "\n") == 1,
           "%s: a loss that is not finite is told once, with status 1", fact);
    tap_ok(step > 1 && n >= (size_t)step && n < (size_t)step + 1000,
           "%s: all ranks end soon after it", fact);
    a = cli("runs --json --sql \"SELECT count(*) || ' steps, ' || status AS "
            "row FROM runs JOIN steps ON run = id WHERE id = (SELECT max(id) "
            "FROM runs)\"");
    snprintf(word, sizeof word, "%zu steps, 1", n);
    tap_ok(strstr(a->out, word) != NULL, "%s: its row holds every loss", fact);
}

/* Its number is that of the first loss which is none. */
static void test_diverged_pictures(void)
{
    const cli_answer *a =
        cli("run \"$D/p.json\" --data synthetic --steps 1000 --lr 1e30 --json "
            "--trace \"$D/none.json\" --pictures \"$D/none\"");
    const json_t *losses = json_object_get(a->json, "losses");
    size_t first = 0;
    while (first < json_array_size(losses) &&
           json_is_number(json_array_get(losses, first)))
        first++;
    tap_ok(json_integer_value(json_object_get(a->json, "diverged_step")) ==
               (json_int_t)first + 1,
           "diverged_step counts from 1, as the message does");
    tap_ok(says(a, 1, "no trace, no pictures: ") && count(a->err, "\n") == 2,
           "a line says that there is no trace and no picture");
    tap_ok(files_with(cli_scratch, "none") == 0, "and there is none");
    a = cli("run \"$D/p.json\" --data synthetic --steps 1000 --lr 1e30 "
            "--pictures \"$D/none\"");
    tap_ok(says(a, 1, ": no pictures: "), "likewise of pictures alone");
}

static void test_diverged(void)
{
    diverges("p.json", "two replicas");
    const cli_answer *made =
        cli("plan " MLP " --cluster local --ranks 3 --pp 3 --batch 8 "
            "--micro-batches 4 --optimizer sgd -o \"$D/pp.json\"");
    if (made->status != 0)
        cli_show(made);
    tap_ok(made->status == 0, "a plan of three stages");
    diverges("pp.json", "three stages");
    cli("plan " MLP " --cluster local --ranks 1 --batch 8 -o \"$D/1.json\"");
    diverges("1.json", "one rank");
}

/* Under the user's own mpirun: `-n 3 RUN`, or several jobs with colons. */
static int own_ranks(char *text, size_t room, const char *words)
{
    char command[3000];
    snprintf(command, sizeof command,
             "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
             "ASAN_OPTIONS=detect_leaks=0 F='%s/flowsearch' "
             "FROM='--data synthetic --db none' "
             "&& export F FROM && timeout 60 '%s' --oversubscribe %s "
             ">\"$D/out\" 2>\"$D/err\"",
             cli_env("FS_BUILDDIR", "."), FS_MPIRUN, words);
    int raw = system(command);
    cli_slurp("err", text, room);
    return WIFEXITED(raw) ? WEXITSTATUS(raw) : -1;
}

static void test_own_ranks(void)
{
    static char text[1 << 16];
    int status =
        own_ranks(text, sizeof text, "-n 3 \"$F\" run \"$D/p.json\" $FROM");
    tap_equal_int(status, 2, "three ranks of a plan for two end with status 2");
    tap_ok(count(text, "flowsearch: ") == 3 &&
               strstr(text, "rank 0: the plan is for 2 ranks, but 3 were "
                            "started") &&
               strstr(text, "rank 2: the plan is for 2 ranks, but 3 were "
                            "started") &&
               !strstr(text, "MPI_ABORT"),
           "every rank says why");
    cli("plan " MLP " --cluster local --ranks 8 --dp 8 --batch 8 "
        "-o \"$D/p8.json\"");
    status =
        own_ranks(text, sizeof text, "-n 4 \"$F\" run \"$D/p8.json\" $FROM");
    tap_ok(status == 2 && count(text, "the plan is for 8 ranks, but 4 were "
                                      "started") == 4,
           "four ranks of a plan for eight likewise");
}

/* Nobody would start them again. */
static void test_unsupervised(void)
{
    static const char *const words[] = {"--max-restarts 2", "--replan"};
    static char text[1 << 16];
    char command[200], wanted[100];
    for (size_t i = 0; i < 2; i++) {
        snprintf(command, sizeof command,
                 "-n 2 \"$F\" run \"$D/p.json\" $FROM --steps 2 %s", words[i]);
        snprintf(wanted, sizeof wanted,
                 "flowsearch: %.*s: has no effect under your own mpirun",
                 (int)strcspn(words[i], " "), words[i]);
        const int status = own_ranks(text, sizeof text, command);
        tap_ok(status == 2 && strstr(text, wanted) &&
                   count(text, "flowsearch: ") == 1,
               "%s is refused under one's own mpirun, once", words[i]);
        if (status != 2)
            printf("# status %d: %s\n", status, text);
    }
    tap_equal_int(own_ranks(text, sizeof text,
                            "-n 2 \"$F\" run \"$D/p.json\" $FROM --steps 2 "
                            "--max-restarts 0"),
                  0, "no restarts are none there");
}

static void test_told_once(void)
{
    static char text[1 << 16];
    const int status = own_ranks(text, sizeof text,
                                 "-n 2 \"$F\" run \"$D/kept/infer.json\" "
                                 "$FROM --steps 1");
    tap_ok(status == 0 && count(text, "without --weights") == 1,
           "one rank tells that values of a plan of inference are drawn");
}

/* Ranks that were given different plans of one size. */
static void test_other_plans(void)
{
    static char text[1 << 16];
    cli("plan " MLP " --cluster local --ranks 2 --tp 2 --batch 8 "
        "-o \"$D/q.json\"");
    int status = own_ranks(text, sizeof text,
                           "-n 1 \"$F\" run \"$D/p.json\" $FROM : "
                           "-n 1 \"$F\" run \"$D/q.json\" $FROM");
    tap_ok(status == 2 &&
               strstr(text, "the ranks do not run the same plan: "
                            "rank 0 has digest ") &&
               strstr(text, ", rank 1 has "),
           "two ranks with two plans end with status 2, which is said");
    if (status != 2)
        printf("# status %d: %s\n", status, text);
    status = own_ranks(text, sizeof text,
                       "-n 1 \"$F\" run \"$D/p.json\" $FROM --steps 1 : "
                       "-n 1 \"$F\" run \"$D/p.json\" $FROM --steps 2");
    tap_ok(status == 2 && strstr(text, "do not run the same number of steps: "
                                       "1 to 2"),
           "and with two numbers of steps");
}

int main(void)
{
    cli_begin_scratch("cli_faults");
    const cli_answer *a = cli("plan " MLP " --cluster local --ranks 2 --dp 2 "
                              "--batch 8 -o \"$D/p.json\"");
    tap_ok(a->status == 0, "a plan for two ranks");
    test_refused();
    test_own_input();
    test_pictures_over_inputs();
    test_over_weights();
    test_beside_weights();
    test_fifo();
    test_outputs_are_one();
    test_no_room();
    test_broken_mpirun();
    test_temporary_files();
    test_seed();
    test_diverged();
    test_diverged_pictures();
    test_own_ranks();
    test_unsupervised();
    test_told_once();
    test_other_plans();
    cli_end_scratch();
    return tap_done();
}
