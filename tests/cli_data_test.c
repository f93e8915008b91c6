/* run --data: every kind of file trains, with the same losses on 1, 2 and 4
 * ranks; options and what is wrong with them. */
#include "config.h"
#include "tests/cli_plans.h"

enum { STEPS = 6, IMAGES = 50, PIXELS = 784, ROWS = 40 };
#define SGD "--optimizer sgd --lr 0.1"

static FILE *begin_file(const char *name)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", cli_scratch, name);
    FILE *file = fopen(path, "wb");
    if (!file) {
        printf("Bail out! cannot write %s\n", path);
        exit(1);
    }
    return file;
}

/* Images whose bright part says their class. */
static void write_images(void)
{
    FILE *x = begin_file("images"), *y = begin_file("labels");
    const unsigned char head[16] = {0, 0, 8, 3,  0, 0, 0, IMAGES,
                                    0, 0, 0, 28, 0, 0, 0, 28};
    fwrite(head, 1, sizeof head, x);
    fwrite("\0\0\10\1\0\0\0", 1, 7, y);
    fputc(IMAGES, y);
    for (int i = 0; i < IMAGES; i++) {
        const int label = i * 7 % 10;
        fputc(label, y);
        for (int p = 0; p < PIXELS; p++)
            fputc(p / 79 == label ? 255 : (i * 31 + p * 17) % 100, x);
    }
    fclose(x);
    fclose(y);
}

static void write_table(void)
{
    FILE *file = begin_file("t.csv");
    fputs("class,a,b,c\n", file);
    for (int i = 0; i < ROWS; i++)
        fprintf(file, "%d,%d,%.2f,%g\n", i % 3, i * 5 % 7, i % 3 + 0.25,
                1e3 * (i % 11));
    fclose(file);
}

static void write_tokens(void)
{
    FILE *file = begin_file("t.bin");
    for (int i = 0; i < 3000; i++) {
        const int token = i * i % 300;
        fputc(token & 255, file);
        fputc(token >> 8, file);
    }
    fclose(file);
}

static const struct {
    const char *kind, *model, *data;
} cases[] = {
    {"tokens", "zoo:gpt,layers=2,hidden=16,heads=2,vocab=300,seq=8",
     "\"$D/t.bin\":u16 --shuffle 5"},
    {"images", "zoo:mlp,in=784,hidden=16,layers=2",
     "\"$D/images\",\"$D/labels.gz\" --shuffle 5 --augment flip,crop=2 "
     "--normalize data"},
    {"table", "zoo:mlp,in=3,hidden=16,layers=2,classes=3",
     "\"$D/t.csv\" --columns a,c,b,class --shuffle --normalize data"},
};

static const struct {
    const char *name, *recipe;
    int ranks;
} plans[] = {
    {"dp2", "--dp 2", 2},
    {"tp2", "--tp 2", 2},
    {"pp2, 2 micro-batches", "--pp 2 --micro-batches 2", 2},
    {"dp2 x pp2, 2 micro-batches", "--dp 2 --pp 2 --micro-batches 2", 4},
};

static bool train(size_t kind, const char *recipe, int ranks, double *losses)
{
    char words[600];
    snprintf(words, sizeof words,
             "plan %s --cluster local --ranks %d --batch 8 %s " SGD,
             cases[kind].model, ranks, recipe);
    return cli_train(words, cases[kind].data, STEPS, losses);
}

static void test_same_losses(size_t kind)
{
    double one[STEPS], other[STEPS];
    const char *name = cases[kind].kind;
    const bool trained = train(kind, "", 1, one);
    tap_ok(trained, "%s: one rank trains", name);
    for (size_t i = 0; trained && i < sizeof plans / sizeof plans[0]; i++) {
        const bool ran = train(kind, plans[i].recipe, plans[i].ranks, other);
        const double off =
            ran ? cli_losses_off(other, one, STEPS) : (double)NAN;
        tap_ok(off <= 1e-5, "%s: %s: the losses of one rank (off %.1e)", name,
               plans[i].name, off);
    }
}

static double first_loss(const char *options)
{
    const cli_answer *a = cli("run \"$D/t.json\" --steps 1 --json %s", options);
    if (a->status != 0)
        cli_show(a);
    return json_number_value(
        json_array_get(json_object_get(a->json, "losses"), 0));
}

#define TABLE "--data \"$D/t.csv\" --columns a,b,c,class "

static void test_options(void)
{
    cli("plan %s --cluster local --ranks 1 --batch 8 -o \"$D/t.json\"",
        cases[2].model);
    const double still = first_loss(TABLE),
                 zero = first_loss(TABLE "--shuffle");
    tap_ok(still > 0 && zero > 0 && still != zero,
           "--shuffle is another order");
    tap_ok(zero == first_loss(TABLE "--shuffle 0") &&
               zero == first_loss(TABLE "--shuffle=0"),
           "of seed 0 unless one is said, in either way");
    tap_ok(zero != first_loss(TABLE "--shuffle 1"), "others are others");
    tap_ok(still != first_loss(TABLE "--normalize data"), "scales show");
}

static void refused(const char *options, const char *wanted)
{
    const cli_answer *a =
        cli("run \"$D/t.json\" --steps 1 --dry-run %s", options);
    tap_ok(a->status == 2 && strstr(a->err, wanted), "refused: %.100s", a->err);
    if (a->status != 2 || !strstr(a->err, wanted))
        cli_show(a);
}

static void test_refusals(void)
{
    FILE *file = begin_file("bad.csv");
    fputs("a,b,c,class\n1,2,3,1\n1,2,x,1\n", file);
    fclose(file);
    refused("--data \"$D/bad.csv\"", "bad.csv:3: column 3 (c): 'x'");
    refused("--data \"$D/no.csv\"", "no.csv");
    refused("--data \"$D/images\",", "images,': a name is missing");
    refused("--data ,\"$D/labels\"", "labels': a name is missing");
    refused(TABLE "--shuffle=x", "--shuffle wants a whole number, not 'x'");
    refused(TABLE "--shuffle x", "'x' is a second one beside '");
    refused(TABLE "--shuffle x", "--shuffle takes a whole number as its seed");
    refused(TABLE "other.json", "run wants one PLAN: 'other.json' is a second");
    refused(TABLE "--augment flip", "--augment is for images");
    refused("--data synthetic --shuffle", "--shuffle has no effect");
    refused("--data \"$D/images\",\"$D/labels\"",
            "a sample is 28x28; one of input 'x' is 3");
    refused("--data \"$D/t.bin\":u16", "it feeds integer inputs");
    refused("--data \"$D/what.parquet\"", "unknown kind of data");
    cli("plan %s --cluster local --ranks 1 --batch 8 -o \"$D/t.json\"",
        cases[1].model);
    refused("--data \"$D/images\",\"$D/labels\" --trace \"$D/labels\"",
            "destroy it");
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)) != NULL; text++)
        n++;
    return n;
}

/* Of the table that a run ends with: the first loss and the last. */
static void test_loss_rows(void)
{
    const cli_answer *a = cli("run \"$D/t.json\" " TABLE "--steps 1");
    tap_ok(a->status == 0 && count(a->out, "loss, step 1 ") == 1 &&
               count(a->out, "loss, step") == 1,
           "of one step its loss is told once");
    a = cli("run \"$D/t.json\" " TABLE "--steps 2");
    tap_ok(a->status == 0 && count(a->out, "loss, step 1 ") == 1 &&
               count(a->out, "loss, step 2 ") == 1,
           "of two that of each");
}

/* The disk of a run may be made slow, for benches. */
static void test_slow_disk(void)
{
    const double usual = first_loss(TABLE);
    setenv("FS_DISK", "0.001,1e6", 1);
    tap_ok(usual == first_loss(TABLE), "a slow disk changes no number");
    unsetenv("FS_DISK");
}

/* The losses of a run of these images; the number of them. */
static int losses_of(const char *plan, const char *options, double *losses)
{
    const cli_answer *a =
        cli("run \"$D/%s\" --data %s %s --json", plan, cases[1].data, options);
    const json_t *list = json_object_get(a->json, "losses");
    const int n = (int)json_array_size(list);
    if (a->status != 0)
        cli_show(a);
    for (int i = 0; i < n && i < STEPS; i++)
        losses[i] = json_number_value(json_array_get(list, (size_t)i));
    return n;
}

/* A position is a number of steps: nothing else of the data is kept. */
static void test_resumed(void)
{
    double whole[STEPS], again[STEPS] = {0};
    cli("plan %s --cluster local --ranks 1 --batch 8 " SGD
        " -o \"$D/one.json\"",
        cases[1].model);
    cli("plan %s --cluster local --ranks 2 --dp 2 --batch 8 " SGD
        " -o \"$D/two.json\"",
        cases[1].model);
    int n = losses_of("one.json", "--steps 6", whole);
    tap_equal_int(n, STEPS, "a run of six steps");
    losses_of("one.json", "--steps 3 --checkpoint \"$D/ck\"", again);
    n = losses_of("two.json", "--steps 6 --checkpoint \"$D/ck\" --resume",
                  again);
    tap_equal_int(n, STEPS, "three of them, then three on other ranks");
    const double off = cli_losses_off(again, whole, STEPS);
    tap_ok(off <= 1e-5, "the same order, images and losses (off %.1e)", off);
}

int main(void)
{
    cli_begin_scratch("cli_data");
    write_images();
    write_table();
    write_tokens();
    if (system("gzip -k \"$D/labels\"") != 0)
        printf("Bail out! no gzip\n");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        test_same_losses(i);
    test_options();
    test_loss_rows();
    test_slow_disk();
    test_resumed();
    test_refusals();
    cli_end_scratch();
    return tap_done();
}
