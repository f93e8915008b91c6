/* run's checkpoints as a user has them: made under one plan, gone on with under
 * another; damaged ones; flags that do not fit. */
#include "config.h"

#include "run_cli.h"

#include "tests/tap.h"

#include <stdint.h>

enum { STEPS = 10, EVERY = 3 };

static void make_plan(const char *name, int ranks, const char *how)
{
    cli_answer *a = cli("plan zoo:gpt,layers=2,hidden=32,heads=2,vocab=256,"
                        "seq=16 --cluster local --ranks %d --batch 8 %s -o "
                        "$D/%s.json",
                        ranks, how, name);
    tap_ok(a->status == 0, "a plan: %s", how);
    if (a->status != 0)
        printf("# %s\n", a->err);
}

static const char *const data = "--data $S/datasets/data/moby-dick.txt";

static bool losses_of(const cli_answer *a, double losses[STEPS])
{
    const json_t *list = json_object_get(a->json, "losses");
    for (size_t k = 0; k < STEPS; k++)
        losses[k] = json_number_value(json_array_get(list, k));
    return json_array_size(list) == STEPS;
}

static double apart(const double *a, const double *b)
{
    double worst = 0;
    for (int k = 0; k < STEPS; k++)
        worst = fmax(worst, fabs(a[k] - b[k]));
    return worst;
}

static const char *digest_of(const cli_answer *a)
{
    static char digest[4][32];
    static int n;
    const char *text =
        json_string_value(json_object_get(a->json, "weights_digest"));
    n = (n + 1) % 4;
    snprintf(digest[n], sizeof digest[n], "%s", text ? text : "none");
    return digest[n];
}

static bool is_there(const char *name)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    return access(path, F_OK) == 0;
}

static void in_scratch(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
static void in_scratch(const char *format, ...)
{
    char words[1000], command[1700];
    va_list args;
    va_start(args, format);
    vsnprintf(words, sizeof words, format, args);
    va_end(args);
    snprintf(command, sizeof command, "cd '%s' && %s", cli_scratch, words);
    if (system(command) != 0)
        printf("# failed: %s\n", words);
}

/* ---- going on ---- */

static double whole[STEPS];
static char whole_digest[32];

static void test_saving(void)
{
    cli_answer *a = cli("run $D/a.json %s --steps %d --json", data, STEPS);
    tap_ok(losses_of(a, whole), "a run of %d steps", STEPS);
    snprintf(whole_digest, sizeof whole_digest, "%s", digest_of(a));
    a = cli("run $D/a.json %s --steps 7 --checkpoint $D/made "
            "--checkpoint-every %d --json",
            data, EVERY);
    tap_ok(a->status == 0, "a run of 7 steps with checkpoints");
    tap_ok(is_there("made/step-7/manifest.json") &&
               is_there("made/step-6/manifest.json") &&
               !is_there("made/step-3"),
           "it leaves the two newest, that of the last step too");
    const char *newest =
        json_string_value(json_object_get(a->json, "checkpoint"));
    tap_ok(newest && strstr(newest, "/made/step-7"), "and says which");
}

static void test_resume(const char *plan, double tolerance)
{
    double losses[STEPS];
    in_scratch("rm -rf go && cp -r made go");
    cli_answer *a = cli("run $D/%s.json %s --steps %d --checkpoint $D/go "
                        "--resume --json",
                        plan, data, STEPS);
    const bool all = losses_of(a, losses);
    tap_ok(a->status == 0 && all, "resumed under plan %s: all losses", plan);
    tap_equal_int(json_integer_value(json_object_get(a->json, "first_step")), 8,
                  "it begins with step 8");
    const double worst = all ? apart(whole, losses) : INFINITY;
    tap_ok(worst <= tolerance, "losses are as without a break, within %g (%g)",
           tolerance, worst);
    if (tolerance == 0)
        tap_equal_text(digest_of(a), whole_digest, "and the weights' bits");
}

/* Masks of dropouts and the order of samples hang on the step alone: nothing of
 * them is in a checkpoint. */
static void test_drawn(const char *what, const char *words)
{
    char usual[32];
    cli_answer *a = cli("run %s --steps 6 --json", words);
    tap_ok(a->status == 0, "a run with %s", what);
    snprintf(usual, sizeof usual, "%s", digest_of(a));
    a = cli("run %s --steps 4 --checkpoint $D/drawn --json", words);
    a = cli("run %s --steps 6 --checkpoint $D/drawn --resume --json", words);
    tap_equal_int(json_integer_value(json_object_get(a->json, "first_step")), 5,
                  "resumed after step 4");
    tap_equal_text(digest_of(a), usual, "it has the same weights");
    in_scratch("rm -rf drawn");
}

static void test_all_drawn(void)
{
    cli("plan $S/datasets/models/gpt2_loss.small.op17.train.onnx --cluster "
        "local --ranks 2 --dp 2 --batch 2 -o $D/drops.json");
    test_drawn("nine dropouts", "$D/drops.json --data synthetic");
    test_drawn("shuffled samples",
               "$D/a.json --data $S/datasets/data/moby-dick.txt --shuffle 5");
}

/* The same plan, but other kernels. */
static void test_kernels(void)
{
    const char *const told = "was trained with other kernels than are chosen";
    in_scratch("rm -rf go && cp -r made go");
    cli_answer *a = cli("run $D/a.json %s --steps 8 --checkpoint $D/go "
                        "--resume --json --kernels reference",
                        data);
    tap_ok(a->status == 0 && strstr(a->err, told) &&
               strstr(strstr(a->err, told), "\n") ==
                   a->err + strlen(a->err) - 1,
           "that other kernels are chosen is told, in one line");
    a = cli("run $D/a.json %s --steps 9 --checkpoint $D/go --resume --json "
            "--kernels reference",
            data);
    tap_ok(a->status == 0 && !strstr(a->err, told), "but not of the same");
    a = cli("run $D/tp.json %s --steps 10 --checkpoint $D/go --resume --json",
            data);
    tap_ok(a->status == 0 && !strstr(a->err, told), "nor of another plan");
}

/* ---- manifests ---- */

/* CRC-32C, bit by bit. */
static uint32_t sum_of(const char *text)
{
    uint32_t crc = ~0u;
    for (; *text; text++) {
        crc ^= (unsigned char)*text;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
    }
    return ~crc;
}

/* The manifest of a checkpoint is changed, and sealed anew; false: there was
 * nothing to change. */
static bool change_manifest(const char *name, bool (*change)(json_t *manifest))
{
    char path[700], seal[16];
    snprintf(path, sizeof path, "%s/%s/manifest.json", cli_scratch, name);
    json_t *root = json_load_file(path, 0, NULL);
    json_t *manifest = json_object_get(root, "manifest");
    const bool changed = change(manifest);
    char *text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(seal, sizeof seal, "%08x", text ? sum_of(text) : 0);
    json_object_set_new(root, "seal", json_string(seal));
    json_dump_file(root, path, JSON_COMPACT);
    json_decref(root);
    free(text);
    return changed;
}

/* As before manifests kept the optimizer. */
static bool forget_optimizer(json_t *manifest)
{
    return json_object_del(manifest, "optimizer") == 0;
}

/* As before they kept what was planned beside it. */
static bool forget_planned(json_t *manifest)
{
    json_t *kept = json_object_get(manifest, "optimizer");
    return json_object_del(kept, "precision") == 0 &&
           json_object_del(kept, "loss_scale") == 0 &&
           json_object_del(kept, "compress") == 0;
}

/* As before they kept sums of heads. */
static bool forget_heads(json_t *manifest)
{
    size_t i, n = 0;
    json_t *file;
    json_array_foreach(json_object_get(manifest, "files"), i, file)
    {
        n += json_object_del(file, "head") == 0;
    }
    return n > 0 && n == i;
}

/* Do both say the same? A bit may flip in a digit too many. */
static bool same_manifests(const char *a, const char *b)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%s/manifest.json", cli_scratch, a);
    json_t *one = json_load_file(path, 0, NULL);
    snprintf(path, sizeof path, "%s/%s/manifest.json", cli_scratch, b);
    json_t *other = json_load_file(path, 0, NULL);
    const bool same = one && other && json_equal(one, other);
    json_decref(one);
    json_decref(other);
    return same;
}

static cli_answer *go_on(const char *plan, int steps, const char *how)
{
    return cli("run $D/%s.json %s --steps %d --checkpoint $D/go --resume %s",
               plan, data, steps, how);
}

/* ---- damage ---- */

static void test_damage(const char *how, const char *command,
                        const char *wanted)
{
    double losses[STEPS];
    in_scratch("rm -rf go && cp -r made go");
    in_scratch("%s", command);
    cli_answer *a = cli("run $D/a.json %s --steps %d --checkpoint $D/go "
                        "--resume --json",
                        data, STEPS);
    const bool all = losses_of(a, losses);
    tap_ok(a->status == 0 && all && apart(whole, losses) == 0,
           "%s: the checkpoint before it is taken", how);
    tap_equal_int(json_integer_value(json_object_get(a->json, "first_step")), 7,
                  "%s: from step 7", how);
    tap_ok(strstr(a->err, wanted), "%s: told: %s", how, wanted);
    if (!strstr(a->err, wanted))
        printf("# %s\n", a->err);
}

static void test_damages(void)
{
    test_damage("a flipped bit",
                "printf X | dd of=go/step-7/rank-1.safetensors bs=1 "
                "seek=$(($(stat -c %s go/step-7/rank-1.safetensors) - 9)) "
                "conv=notrunc 2> /dev/null",
                "are damaged (CRC-32C");
    test_damage("the length of a head",
                "printf X | dd of=go/step-7/rank-0.safetensors bs=1 seek=1 "
                "conv=notrunc 2> /dev/null",
                "step-7/rank-0.safetensors: bytes 0 to ");
    test_damage("a head",
                "sed -i '1s/\"__metadata__\"/\"__metadatA__\"/' "
                "go/step-7/rank-1.safetensors",
                "step-7/rank-1.safetensors: bytes 0 to ");
    test_damage("a file cut short", "truncate -s 1000 go/step-7/rank-0.*",
                "has 1000 bytes");
    test_damage("a file that is gone", "rm go/step-7/rank-1.safetensors",
                "No such file");
    test_damage("no manifest", "rm go/step-7/manifest.json", "manifest.json");
    test_damage("another manifest",
                "sed -i 's/\"ranks\":2/\"ranks\":3/' go/step-7/manifest.json",
                "its seal is broken");
    test_damage("half a manifest", "truncate -s 700 go/step-7/manifest.json",
                "manifest.json");
    test_damage("losses cut short", "truncate -s 8 go/step-7/losses.f64",
                "losses.f64");
}

/* What is only called a checkpoint, of a step that the run does not come to,
 * of its last one, or of one that is kept. */
static void test_called(const char *how, const char *command,
                        const char *wanted)
{
    double losses[STEPS];
    in_scratch("rm -rf go && cp -r made go && %s", command);
    cli_answer *a = cli("run $D/a.json %s --steps %d --checkpoint $D/go "
                        "--resume --json",
                        data, STEPS);
    const bool all = losses_of(a, losses);
    tap_ok(a->status == 0 && all && apart(whole, losses) == 0 &&
               json_integer_value(json_object_get(a->json, "first_step")) == 8,
           "%s is no checkpoint: the one of step 7 is taken", how);
    tap_ok(strstr(a->err, wanted), "%s: told: %s", how, wanted);
    const char *newest =
        json_string_value(json_object_get(a->json, "checkpoint"));
    tap_ok(newest && strstr(newest, "/go/step-10") &&
               is_there("go/step-10/manifest.json"),
           "%s: nor the newest in the end", how);
    if (a->status != 0)
        cli_show(a);
}

static void test_all_called(void)
{
    test_called("an empty folder", "mkdir go/step-99", "step-99/manifest.json");
    test_called("a file", "touch go/step-99", "step-99/manifest.json");
    test_called("a file of the last step", "touch go/step-10",
                "step-10/manifest.json");
}

/* Who only reads values takes no damaged head either, and says so; a manifest
 * of before, which says nothing of heads, is taken as it is. */
static void test_head_read(void)
{
    static const char *const readers[] = {
        "run $D/a.json --data $S/datasets/data/moby-dick.txt --steps 1 "
        "--weights $D/go",
        "export zoo:gpt,layers=2,hidden=32,heads=2,vocab=256,seq=16 --to "
        "safetensors --weights $D/go -o $D/go.safetensors"};
    in_scratch("rm -rf go && cp -r made go");
    in_scratch("sed -i '1s/\"__metadata__\"/\"__metadatA__\"/' "
               "go/step-7/rank-0.safetensors");
    for (int i = 0; i < 2; i++) {
        cli_answer *a = cli("%s", readers[i]);
        tap_ok(a->status == 0 && strstr(a->err, "are damaged (CRC-32C") &&
                   strstr(a->err, "; the checkpoint before it is taken"),
               "a damaged head is told by %.6s", readers[i]);
        if (a->status != 0)
            cli_show(a);
    }
    tap_ok(change_manifest("go/step-7", forget_heads),
           "a manifest that says nothing of heads");
    cli_answer *a = go_on("a", 8, "");
    tap_ok(a->status == 0 && strstr(a->out, "go/step-7") && !*a->err,
           "is taken as it is");
}

/* What is flipped or cut: each kind of file, and in it the length of its head,
 * the head, the values, the end. */
static void test_drawn_damage(unsigned long long seed)
{
    static const char *const files[] = {"rank-0.safetensors",
                                        "rank-1.safetensors", "losses.f64",
                                        "manifest.json"};
    char path[700];
    struct stat there;
    unsigned long long x = seed * 6364136223846793005ULL + 1442695040888963407;
    x = x * 6364136223846793005ULL + 1442695040888963407;
    const char *name = files[(x >> 33) % 4];
    const int cuts = (x >> 40) % 4 == 0, place = (x >> 44) % 4;
    in_scratch("rm -rf go && cp -r made go");
    snprintf(path, sizeof path, "%s/go/step-7/%s", cli_scratch, name);
    FILE *file = stat(path, &there) == 0 ? fopen(path, "r+b") : NULL;
    const long size = (long)there.st_size, head = size < 1000 ? size : 1000;
    const long in[4] = {(long)(x >> 20) % 8, (long)(x >> 20) % head,
                        (long)((x >> 20) % (unsigned long)size), size - 1};
    const long at = in[place] < size ? in[place] : size - 1;
    int byte = 0;
    if (file && !cuts && fseek(file, at, SEEK_SET) == 0)
        byte = fgetc(file);
    if (file && !cuts && fseek(file, at, SEEK_SET) == 0)
        fputc(byte ^ 1 << (x >> 50) % 8, file);
    if (file)
        fclose(file);
    if (cuts && truncate(path, at) != 0)
        printf("# %s: cannot be cut\n", path);
    const bool harmless = strcmp(name, "manifest.json") == 0 &&
                          same_manifests("made/step-7", "go/step-7");
    cli_answer *a = cli("run $D/a.json %s --steps %d --checkpoint $D/go "
                        "--resume --json",
                        data, STEPS);
    double losses[STEPS];
    const bool all = losses_of(a, losses);
    const int first =
        (int)json_integer_value(json_object_get(a->json, "first_step"));
    const bool good = a->status == 0 && all && apart(whole, losses) == 0 &&
                      strcmp(digest_of(a), whole_digest) == 0 &&
                      (harmless ? first == 8 : first == 7 && *a->err);
    tap_ok(good, "seed %llu: %s %s at %ld: the same weights, from step %d",
           seed, name, cuts ? "cut" : "has a bit flipped", at, first);
    if (!good)
        cli_show(a);
}

/* ---- what cannot be ---- */

static void refuse(const char *words, const char *wanted)
{
    cli_answer *a = cli("%s", words);
    tap_ok(a->status == 2 && strstr(a->err, wanted), "refused: %s", wanted);
    if (a->status != 2 || !strstr(a->err, wanted))
        printf("# status %d: %s\n", a->status, a->err);
}

/* Where all are damaged: which has one before it. */
static void test_before(const char *words, int wanted)
{
    const cli_answer *a = cli("%s", words);
    int lines = 0;
    for (const char *at = a->err;
         (at = strstr(at, "; the checkpoint before it is taken\n")); at++)
        lines++;
    tap_equal_int(
        lines, wanted,
        "the one before is taken where there is one: %d of %d damaged", wanted,
        wanted + 1);
}

static void test_refusals(void)
{
    char words[1200];
    static const char *const flags[][2] = {
        {"--resume", "--resume wants --checkpoint"},
        {"--checkpoint-every 2", "--checkpoint-every wants --checkpoint"},
        {"--keep-checkpoints 2", "--keep-checkpoints wants --checkpoint"},
        {"--checkpoint $D/x --checkpoint-every 0", "1 or more, not '0'"},
        {"--checkpoint $D/x --checkpoint-every soon", "not 'soon'"},
        {"--checkpoint $D/a.json", "wants a folder"},
        {"--checkpoint $D/made", "the checkpoint of step 7 is there already"},
        {"--checkpoint $D/nowhere/there", "nowhere/there"},
        {"--checkpoint $D/made --resume", "leaves nothing to do"},
        {"--checkpoint $D/made/step-7", "made/step-7 is itself a checkpoint"},
        {"--checkpoint $D/made/step-7/ --resume", "/made is wanted"},
    };
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        snprintf(words, sizeof words, "run $D/a.json %s --steps 7 %s", data,
                 flags[i][0]);
        refuse(words, flags[i][1]);
    }
    snprintf(words, sizeof words,
             "run $D/other.json %s --steps 20 --checkpoint $D/made --resume",
             data);
    refuse(words, "the network's is f32");
    in_scratch("rm -rf go && cp -r made go && rm go/*/manifest.json");
    snprintf(words, sizeof words,
             "run $D/a.json %s --steps 20 --checkpoint $D/go --resume", data);
    refuse(words, "no checkpoint is whole");
    test_before(words, 1);
    in_scratch("rm -rf go && mkdir -p go/step-99");
    refuse(words, "no checkpoint is whole");
    test_before(words, 0);
    tap_ok(!is_there("x") && !is_there("made/step-7/.lock"),
           "what was refused has made no folder");
}

/* What is drawn hangs on it. */
static void test_seed(void)
{
    in_scratch("rm -rf go && cp -r made go");
    cli_answer *a = cli("run $D/a.json %s --steps 8 --checkpoint $D/go "
                        "--resume --seed 5",
                        data);
    tap_ok(a->status == 0 && strstr(a->err, "trained with --seed 0, this run"),
           "another seed is told");
}

/* What an optimizer does with gradients hangs on its values. */
static void test_tuned(void)
{
    const char *const told = "was trained with";
    in_scratch("rm -rf go && cp -r made go");
    cli_answer *a = go_on("a", 8, "--lr 0.002 --beta1 0.8");
    const char *at = strstr(a->err, told);
    tap_ok(a->status == 0 && at &&
               strstr(at, "--lr 0.001, --beta1 0.9, this run has --lr 0.002, "
                          "--beta1 0.8: ") &&
               strchr(at, '\n') == a->err + strlen(a->err) - 1,
           "other values of the optimizer are told, in one line");
    a = go_on("a", 9, "--lr 0.002 --beta1 0.8");
    tap_ok(a->status == 0 && !strstr(a->err, told),
           "the same values as the checkpoint's are not");
    a = go_on("a", 10, "");
    tap_ok(a->status == 0 && strstr(a->err, "this run has --lr 0.001, --beta1"),
           "the plan's own are, where the checkpoint's were others");
    in_scratch("rm -rf go && cp -r made go");
    make_plan("adam", 2, "--dp 2 --optimizer adam");
    a = go_on("adam", 8, "");
    tap_ok(a->status == 0 &&
               strstr(a->err, "--optimizer adamw, --weight-decay 0.01, this "
                              "run has --optimizer adam, --weight-decay 0: "),
           "another optimizer of the same states is told");
    if (!strstr(a->err, told))
        printf("# %s\n", a->err);
    in_scratch("rm -rf go && cp -r made go");
    make_plan("clip", 2, "--dp 2 --clip-norm 1 --lr-schedule "
                         "linear,warmup=2,steps=90");
    a = go_on("clip", 8, "");
    tap_ok(a->status == 0 &&
               strstr(a->err, "no --lr-schedule, no --clip-norm, this run has "
                              "--lr-schedule linear,steps=90,warmup=2, "
                              "--clip-norm 1: "),
           "another schedule and clipping are told");
    if (!strstr(a->err, told))
        printf("# %s\n", a->err);
    a = go_on("clip", 9, "");
    tap_ok(a->status == 0 && !strstr(a->err, told), "the same are not");
    in_scratch("rm -rf go && cp -r made go");
    tap_ok(change_manifest("go/step-7", forget_optimizer),
           "a manifest that keeps no optimizer");
    a = go_on("a", 8, "--lr 0.002");
    tap_ok(a->status == 0 && !strstr(a->err, told) &&
               strstr(a->out, "resumed from") && strstr(a->out, "go/step-7"),
           "is gone on with, and nothing is said of values");
}

/* Nor does it begin to compute in fewer bits, or to move fewer, in silence. */
static void test_planned(void)
{
    static const char *const told = "was trained with";
    static const struct {
        const char *plan, *how, *wanted;
    } all[] = {{"bf16", "--precision bf16",
                "--precision fp32, this run has --precision bf16: "},
               {"moved", "--compress bf16",
                "no --compress, this run has --compress bf16: "}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char how[100];
        snprintf(how, sizeof how, "--dp 2 %s", all[i].how);
        make_plan(all[i].plan, 2, how);
        in_scratch("rm -rf go && cp -r made go");
        cli_answer *a = go_on(all[i].plan, 8, "");
        const char *at = strstr(a->err, told);
        tap_ok(a->status == 0 && at && strstr(at, all[i].wanted) &&
                   strchr(at, '\n') == a->err + strlen(a->err) - 1,
               "%s is told where it was not, in one line", all[i].how);
        if (!at || !strstr(at, all[i].wanted))
            cli_show(a);
        a = go_on(all[i].plan, 9, "");
        tap_ok(a->status == 0 && !*a->err, "the same is not");
        a = go_on("a", 10, "");
        tap_ok(a->status == 0 && strstr(a->err, told), "to go back is");
    }
    make_plan("much", 2, "--dp 2 --precision bf16 --loss-scale 512");
    make_plan("less", 2, "--dp 2 --precision bf16 --loss-scale 64");
    in_scratch("rm -rf go");
    go_on("much", 2, "");
    cli_answer *a = go_on("less", 3, "");
    tap_ok(a->status == 0 && strstr(a->err, "trained with --loss-scale 512, "
                                            "this run has --loss-scale 64: "),
           "another loss scale is told");
    in_scratch("rm -rf go && cp -r made go");
    tap_ok(change_manifest("go/step-7", forget_planned),
           "a manifest that keeps nothing of that");
    a = go_on("bf16", 8, "");
    tap_ok(a->status == 0 && !strstr(a->err, told) &&
               strstr(a->out, "go/step-7"),
           "is gone on with, and nothing is said of precision");
}

/* What is there, or said, and is not taken. */
static void test_left_out(void)
{
    in_scratch("rm -rf go && cp -r made go");
    make_plan("sgd", 2, "--dp 2 --optimizer sgd");
    cli_answer *a = cli("run $D/sgd.json %s --steps 8 --checkpoint $D/go "
                        "--resume",
                        data);
    tap_ok(a->status == 0 && strstr(a->err, "of it are none of this plan's"),
           "moments that it has not are told");
    in_scratch("rm -rf go && cp -r made go");
    a = cli("run $D/a.json %s --steps 8 --checkpoint $D/go --resume --weights "
            "$D/made",
            data);
    tap_ok(a->status == 0 &&
               strstr(a->err, "goes on from its checkpoint of step"),
           "weights beside a checkpoint that is gone on with are told");
}

static void test_none(void)
{
    cli_answer *a = cli("run $D/a.json %s --steps 3 --checkpoint $D/none "
                        "--resume --json",
                        data);
    tap_ok(a->status == 0 && strstr(a->err, "begins with step 1"),
           "where there is none it begins anew, and says so");
    tap_ok(is_there("none/step-3/manifest.json"), "and leaves one");
}

/* The table of a run that is resumed is that of one. */
static void test_scalars(void)
{
    char path[700], line[200];
    int rows = 0, wrong = 0;
    in_scratch("rm -rf go && cp -r made go");
    cli("run $D/a.json %s --steps 9 --scalars $D/s.csv", data);
    cli_answer *a = cli("run $D/a.json %s --steps %d --checkpoint $D/go "
                        "--resume --scalars $D/s.csv",
                        data, STEPS);
    snprintf(path, sizeof path, "%s/s.csv", cli_scratch);
    FILE *file = fopen(path, "r");
    tap_ok(file && fgets(line, sizeof line, file) &&
               strcmp(line, "step,loss,step_s,samples_per_s\n") == 0,
           "--scalars: a table with a head");
    for (; file && fgets(line, sizeof line, file); rows++) {
        int step = 0;
        double loss = 0, step_s = 0, rate = 0;
        wrong +=
            sscanf(line, "%d,%lf,%lf,%lf", &step, &loss, &step_s, &rate) != 4 ||
            step != rows + 1 || rows >= STEPS ||
            fabs(loss - whole[rows]) > 1e-6 || !(step_s > 0) ||
            fabs(rate * step_s - 8) > 1e-3;
    }
    if (file)
        fclose(file);
    tap_ok(a->status == 0 && rows == STEPS && wrong == 0,
           "its rows are the steps, each once, with their losses");
}

/* What --resume is to go on with may be no table: a file of the user's. */
static void test_no_scalars(void)
{
    char words[1000], kept[64];
    snprintf(words, sizeof words,
             "run $D/a.json %s --steps 9 --checkpoint $D/go --resume --scalars "
             "$D/mine.txt",
             data);
    in_scratch(
        "rm -rf go && cp -r made go && echo 'step,loss: mine' >mine.txt");
    refuse(words, "mine.txt: it is there and no table of a run");
    cli_slurp("mine.txt", kept, sizeof kept);
    tap_equal_text(kept, "step,loss: mine\n", "the file stays as it is");
    in_scratch(": >mine.txt");
    cli_answer *a = cli("%s", words);
    tap_ok(a->status == 0, "an empty file becomes one");
}

static void test_launch(void)
{
    cli_answer *a = cli("run $D/a.json %s --steps 9 --dry-run --json", data);
    const json_t *words = json_object_get(a->json, "launch");
    tap_ok(a->status == 0 && json_array_size(words) > 6,
           "--dry-run tells what it would start");
    tap_ok(!is_there("rank-0"), "and starts nothing");
}

/* A file is one that others read: its head is JSON and says where the values
 * lie. */
static void test_format(void)
{
    char path[700];
    unsigned char prefix[8];
    snprintf(path, sizeof path, "%s/made/step-7/rank-0.safetensors",
             cli_scratch);
    FILE *file = fopen(path, "rb");
    uint64_t length = 0;
    if (file && fread(prefix, 1, 8, file) == 8)
        for (int i = 0; i < 8; i++)
            length |= (uint64_t)prefix[i] << 8 * i;
    char *text = malloc(length + 1);
    json_t *head = NULL;
    if (file && text && fread(text, 1, length, file) == length)
        head = json_loadb(text, length, 0, NULL);
    tap_ok(json_object_size(head) > 10, "the head of a file is JSON");
    const char *name;
    json_t *value;
    int64_t end = 0, most = 0;
    json_object_foreach(head, name, value)
    {
        const json_t *at = json_object_get(value, "data_offsets");
        if (!at)
            continue;
        const int64_t to = json_integer_value(json_array_get(at, 1));
        end += to - json_integer_value(json_array_get(at, 0));
        most = to > most ? to : most;
    }
    struct stat there;
    tap_ok(stat(path, &there) == 0 && end == most &&
               there.st_size == most + 8 + (int64_t)length,
           "its tensors fill the file without gaps");
    json_decref(head);
    free(text);
    if (file)
        fclose(file);
}

int main(void)
{
    cli_begin_scratch("cli_checkpoint");
    make_plan("a", 2, "--dp 2");
    make_plan("tp", 2, "--tp 2");
    make_plan("pp", 2, "--pp 2 --micro-batches 2");
    make_plan("zero", 4, "--dp 4 --zero 1");
    make_plan("alone", 1, "");
    cli_answer *a = cli("plan zoo:gpt,layers=2,hidden=48,heads=2,vocab=256,"
                        "seq=16 --cluster local --ranks 2 --batch 8 --dp 2 "
                        "-o $D/other.json");
    tap_ok(a->status == 0, "a plan of another network");
    test_saving();
    test_format();
    test_resume("a", 0);
    test_resume("tp", 1e-5);
    test_resume("pp", 1e-5);
    test_resume("zero", 1e-5);
    test_resume("alone", 1e-5);
    test_all_drawn();
    test_kernels();
    test_damages();
    test_head_read();
    test_all_called();
    const char *more = getenv("FAULT_SEEDS");
    const unsigned long long seed = tap_seed(1);
    for (int i = 0; i < (more ? atoi(more) : 12); i++)
        test_drawn_damage(seed + (unsigned long long)i);
    test_none();
    test_seed();
    test_tuned();
    test_planned();
    test_left_out();
    test_scalars();
    test_no_scalars();
    test_launch();
    test_refusals();
    cli_end_scratch();
    return tap_done();
}
