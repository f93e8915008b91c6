/* How much of a slow disk's time steps hide: `make bench-data`. The disk is
 * emulated (each read takes a latency and a time per byte), so slow that
 * reading takes SHARE of a step without it. What a step waits for is the time
 * from the end of the step before it to the end of its own loads: on a busy
 * host the difference of two runs tells nothing. */
#include "config.h"

#include "base/clock.h"
#include "exec/exec.h"
#include "ir/train.h"
#include "zoo/zoo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 30, WARMUP = 5, ROUNDS = 8, IMAGES = 1024, ROWS = 2000 };
#define SHARE 0.8

static const struct bench {
    const char *name, *model, *data;
    int64_t batch;
    exec_data_options options;
} benches[] = {
    {"text", "zoo:gpt,layers=1,hidden=128,heads=4,vocab=256,seq=128", "t.txt",
     8, .options = {0}},
    {"text, shuffled", "zoo:gpt,layers=1,hidden=128,heads=4,vocab=256,seq=128",
     "t.txt", 8, .options = {.shuffle = true}},
    {"tokens", "zoo:gpt,layers=1,hidden=128,heads=4,vocab=256,seq=128",
     "t.bin:u16", 8, .options = {0}},
    {"images, shuffled, augmented",
     "zoo:resnet,depth=18,width=8,classes=10,size=32", "images,labels", 32,
     .options = {.shuffle = true,
                 .augment = "flip,crop=4",
                 .normalize = "data"}},
    {"table, shuffled", "zoo:mlp,in=32,hidden=1024,layers=3,classes=10",
     "t.csv", 64, .options = {.shuffle = true, .normalize = "data"}},
};

typedef struct trial {
    fs_arena *arena;
    ir_graph *graph;
    hw_cluster *cluster;
    plan *p;
    exec_world *world;
} trial;

static void check(fs_status status, const fs_err *err)
{
    if (status == FS_OK)
        return;
    fprintf(stderr, "bench_data: %s\n", err->text);
    exit(status);
}

/* ---- files ---- */

static FILE *begin_file(const char *name)
{
    FILE *file = fopen(name, "wb");
    if (!file) {
        perror(name);
        exit(2);
    }
    return file;
}

static void write_images(void)
{
    static const unsigned char head[] = {
        0, 0, 8, 4, 0, 0, IMAGES >> 8, 0, 0, 0, 0, 3, 0, 0, 0, 32, 0, 0, 0, 32};
    static const unsigned char counted[] = {0, 0, 8, 1, 0, 0, IMAGES >> 8, 0};
    FILE *x = begin_file("images"), *y = begin_file("labels");
    fwrite(head, 1, sizeof head, x);
    fwrite(counted, 1, sizeof counted, y);
    for (int i = 0; i < IMAGES * 3072; i++)
        fputc(i * 31 % 251, x);
    for (int i = 0; i < IMAGES; i++)
        fputc(i % 10, y);
    fclose(x);
    fclose(y);
}

static void write_files(void)
{
    FILE *text = begin_file("t.txt"), *tokens = begin_file("t.bin");
    FILE *table = begin_file("t.csv");
    for (int i = 0; i < 1 << 20; i++) {
        fputc('a' + i * 7 % 26, text);
        fputc(i * 7 % 256, tokens);
        fputc(0, tokens);
    }
    for (int k = 0; k < 33; k++)
        fprintf(table, "%sc%d", k ? "," : "", k);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < 33; k++)
            fprintf(table, "%c%d", k ? ',' : '\n',
                    k < 32 ? i * k % 17 : i % 10);
    fputc('\n', table);
    fclose(text);
    fclose(tokens);
    fclose(table);
    write_images();
}

/* ---- one run ---- */

static void make_trial(const struct bench *b, exec_world *world, trial *t)
{
    fs_err err = {0};
    ir_train_options train = ir_train_defaults();
    const plan_lower_options lower = plan_lower_defaults();
    *t = (trial){.arena = fs_arena_create(), .world = world};
    check(zoo_build(b->model, b->batch, &err, &t->graph), &err);
    check(ir_train(t->graph, &train, &err), &err);
    check(hw_cluster_probe(1, t->arena, &err, &t->cluster), &err);
    check(plan_lower(t->graph, t->cluster,
                     plan_strategy_new(t->graph, 1, t->arena), &lower, t->arena,
                     &err, &t->p),
          &err);
}

/* Steps of all rounds; seconds that loads came later than the step before
 * them ended, and reads and bytes, of a step in the mean. */
typedef struct figures {
    int n;
    double step_s[ROUNDS * STEPS], waited_s, reads, bytes;
} figures;

/* When the loads of a step were done, and when the step was. */
typedef struct watched {
    exec_data inner;
    int64_t batch, loaded_ns[STEPS + 4], done_ns[STEPS];
} watched;

static fs_status fill(void *ctx, const char *name, int64_t sample,
                      ir_dtype dtype, const ir_shape *local,
                      const int64_t *offset, int32_t batch_axis, void *out,
                      fs_err *err)
{
    watched *w = ctx;
    const fs_status status = w->inner.fill(w->inner.ctx, name, sample, dtype,
                                           local, offset, batch_axis, out, err);
    w->loaded_ns[sample / w->batch] = fs_now_ns();
    return status;
}

static int64_t expect(void *ctx, const char *name, const ir_shape *local,
                      const int64_t *offset)
{
    watched *w = ctx;
    return w->inner.expect(w->inner.ctx, name, local, offset);
}

static bool ready(void *ctx, const char *name, int64_t sample)
{
    watched *w = ctx;
    return w->inner.ready(w->inner.ctx, name, sample);
}

static fs_status note_step(void *ctx, int64_t step, double loss, double step_s,
                           fs_err *err)
{
    watched *w = ctx;
    (void)loss, (void)step_s, (void)err;
    w->done_ns[step] = fs_now_ns();
    return FS_OK;
}

static void run(const struct bench *b, const trial *t,
                const exec_data_options *options, figures *f)
{
    fs_err err = {0};
    exec_result result = {0};
    fs_arena *arena = fs_arena_create();
    watched w = {.batch = b->batch};
    const exec_data data = {
        .ctx = &w, .fill = fill, .expect = expect, .ready = ready};
    const exec_options how = {.steps = STEPS,
                              .warmup = WARMUP,
                              .progress = note_step,
                              .progress_ctx = &w};
    check(
        exec_data_open_with(b->data, t->graph, options, arena, &err, &w.inner),
        &err);
    check(exec_run(t->world, t->graph, t->cluster, t->p, &data, &how, arena,
                   &err, &result),
          &err);
    f->reads = (double)w.inner.counts->reads / STEPS;
    f->bytes = (double)w.inner.counts->bytes / STEPS;
    for (int k = WARMUP; k < STEPS; k++) {
        const int64_t late_ns = w.loaded_ns[k] - w.done_ns[k - 1];
        f->waited_s += late_ns > 0 ? (double)late_ns * 1e-9 : 0;
        f->step_s[f->n++] = result.step_s[k];
    }
    w.inner.close(w.inner.ctx);
    fs_arena_destroy(arena);
}

/* Seconds of a batch's reading when nothing else is done. */
static double drain(const struct bench *b, const trial *t,
                    const exec_data_options *options)
{
    enum { BATCHES = 20 };
    fs_err err = {0};
    exec_data data;
    fs_arena *arena = fs_arena_create();
    static const int64_t zero[IR_MAX_RANK] = {0};
    check(exec_data_open_with(b->data, t->graph, options, arena, &err, &data),
          &err);
    const int64_t begin_ns = fs_now_ns();
    for (int64_t k = 0; k < BATCHES; k++)
        for (int32_t i = 0; i < t->graph->tensors.n; i++) {
            const ir_tensor *x = &t->graph->tensors.at[i];
            if (x->role != IR_INPUT)
                continue;
            void *out = malloc((size_t)(ir_shape_count(&x->shape) * 8));
            check(data.fill(data.ctx, x->name, k * b->batch, x->dtype,
                            &x->shape, zero, 0, out, &err),
                  &err);
            free(out);
        }
    const double took_s = (double)(fs_now_ns() - begin_ns) * 1e-9 / BATCHES;
    data.close(data.ctx);
    fs_arena_destroy(arena);
    return took_s;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Others on the host only ever add: a quarter is below. */
static double lowest(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, compare);
    return values[n / 4];
}

static void bench(const struct bench *b, exec_world *world)
{
    static figures before, fast, slow;
    trial t;
    double reading[ROUNDS];
    exec_data_options disk = b->options;
    before.n = fast.n = slow.n = 0;
    slow.waited_s = 0;
    make_trial(b, world, &t);
    for (int r = 0; r < ROUNDS / 2; r++)
        run(b, &t, &b->options, &before);
    const double usual = SHARE * lowest(before.step_s, before.n);
    disk.disk_latency_s = usual / 2 / before.reads;
    disk.disk_s_per_byte = usual / 2 / before.bytes;
    for (int r = 0; r < ROUNDS; r++) { /* in turn: the host's mood changes */
        run(b, &t, &b->options, &fast);
        run(b, &t, &disk, &slow);
        reading[r] = drain(b, &t, &disk);
    }
    const double f = lowest(fast.step_s, fast.n);
    const double s = lowest(slow.step_s, slow.n);
    const double d = lowest(reading, ROUNDS);
    const double waited_s = slow.waited_s / slow.n;
    printf("%-28s %9.2f %9.2f %9.2f %9.2f %9.3f %8.1f %%\n", b->name, 1e3 * f,
           1e3 * d, 1e3 * (f + d), 1e3 * s, 1e3 * waited_s,
           100 * (1 - waited_s / d));
    fflush(stdout);
    ir_graph_destroy(t.graph);
    fs_arena_destroy(t.arena);
}

int main(void)
{
    char dir[] = "/tmp/bench_data.XXXXXX", command[64];
    fs_err err = {0};
    exec_world *world;
    if (!mkdtemp(dir) || chdir(dir) != 0)
        return 2;
    write_files();
    check(exec_world_open(&err, &world), &err);
    printf("%-28s %9s %9s %9s %9s %9s %10s\n", "ms per step", "no disk",
           "reading", "in turn", "both", "waited", "hidden");
    for (size_t i = 0; i < sizeof benches / sizeof benches[0]; i++)
        bench(&benches[i], world);
    exec_world_close(world);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    return system(command) != 0;
}
