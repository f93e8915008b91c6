/* Sources of samples, and how a run ends when something is wrong: the name of
 * the task, the cause, status 3. */
#include "config.h"

#include "exec/loader.h"
#include "exec/world.h"
#include "ir/train.h"

#include "tests/tap.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LENGTH = 7, BYTES = 100, BATCH = 4 };

typedef struct scene {
    fs_arena *arena;
    ir_graph *g;
    fs_err err;
    exec_data data;
    char path[64];
    uint8_t bytes[BYTES];
} scene;

/* Table of `words` rows, logits, loss; trained by SGD. */
static ir_graph *make_graph(int64_t words)
{
    ir_graph *g = ir_graph_create("small");
    int64_t tokens[2] = {BATCH, LENGTH}, table[2] = {words, 4};
    int64_t head[2] = {4, words};
    ir_init init = {IR_INIT_UNIFORM, 0.0, 0.5, 1};
    ir_shape shape = ir_shape_make(2, tokens);
    int32_t ids = ir_input(g, "ids", IR_I64, shape, 0);
    int32_t targets = ir_input(g, "targets", IR_I32, shape, 0);
    int32_t w = ir_parameter(g, "table", IR_F32, ir_shape_make(2, table), init);
    int32_t v = ir_parameter(g, "head", IR_F32, ir_shape_make(2, head), init);
    int32_t x = ir_gather(g, w, ids);
    g->loss = ir_cross_entropy(g, ir_matmul(g, x, v, false, false), targets);
    g->batch = BATCH;
    return g;
}

static void write_file(scene *s, size_t n)
{
    snprintf(s->path, sizeof s->path, "exec_data_%d.txt", (int)getpid());
    FILE *file = fopen(s->path, "wb");
    if (!file || fwrite(s->bytes, 1, n, file) != n)
        printf("Bail out! cannot write %s\n", s->path);
    if (file)
        fclose(file);
}

static scene open_scene(int64_t words)
{
    scene s = {.arena = fs_arena_create(), .g = make_graph(words)};
    for (int i = 0; i < BYTES; i++)
        s.bytes[i] = (uint8_t)(i * 37 % 251);
    return s;
}

static void close_scene(scene *s)
{
    if (s->data.close)
        s->data.close(s->data.ctx);
    if (s->path[0])
        unlink(s->path);
    ir_graph_destroy(s->g);
    fs_arena_destroy(s->arena);
}

/* Fills rows [row, row + rows), columns [column, column + columns) of the
 * micro-batch that begins at `sample`. */
static fs_status fill(scene *s, const char *name, int64_t sample,
                      ir_dtype dtype, const int64_t piece[4], void *out)
{
    int64_t dim[2] = {piece[1], piece[3]};
    int64_t offset[IR_MAX_RANK] = {piece[0], piece[2]};
    ir_shape local = ir_shape_make(2, dim);
    return s->data.fill(s->data.ctx, name, sample, dtype, &local, offset, 0,
                        out, &s->err);
}

static void test_windows(void)
{
    scene s = open_scene(256);
    write_file(&s, BYTES);
    fs_status status = exec_data_open(s.path, s.g, 1, s.arena, &s.err, &s.data);
    tap_equal_int(status, FS_OK, "a text file opens %s", s.err.text);
    int64_t ids[BATCH * LENGTH], wrong = 0;
    int32_t targets[BATCH * LENGTH];
    const int64_t whole[4] = {0, BATCH, 0, LENGTH};
    for (int64_t sample = 0; sample < 80; sample += 3) {
        fill(&s, "ids", sample, IR_I64, whole, ids);
        fill(&s, "targets", sample, IR_I32, whole, targets);
        for (int64_t i = 0; i < BATCH * LENGTH; i++) {
            int64_t k = sample + i / LENGTH;
            int64_t at = k * LENGTH % (BYTES - LENGTH - 1) + i % LENGTH;
            wrong += ids[i] != s.bytes[at];
            wrong += targets[i] != s.bytes[at + 1];
        }
    }
    tap_equal_int(wrong, 0, "sample k is the window at (k T) mod (n - T - 1)");
    const int64_t part[4] = {1, 2, 3, 4};
    int64_t cut[8];
    fill(&s, "ids", 9, IR_I64, whole, ids);
    fill(&s, "ids", 9, IR_I64, part, cut);
    wrong = 0;
    for (int i = 0; i < 8; i++)
        wrong += cut[i] != ids[(1 + i / 4) * LENGTH + 3 + i % 4];
    tap_equal_int(wrong, 0, "a piece of a batch is cut from the batch");
    close_scene(&s);
}

static void test_refusals(void)
{
    scene s = open_scene(256);
    write_file(&s, LENGTH + 1);
    fs_status status = exec_data_open(s.path, s.g, 1, s.arena, &s.err, &s.data);
    tap_ok(status == FS_INVALID && strstr(s.err.text, "too short"),
           "a file of T + 1 bytes is refused: %s", s.err.text);
    s.err = (fs_err){0};
    write_file(&s, LENGTH + 2);
    status = exec_data_open(s.path, s.g, 1, s.arena, &s.err, &s.data);
    tap_equal_int(status, FS_OK, "one of T + 2 bytes is not");
    tap_ok(s.data.note && strstr(s.data.note, "same window"),
           "but that it is one window is noted");
    s.data.close(s.data.ctx);
    write_file(&s, 2 * LENGTH + 1); /* k T mod T */
    status = exec_data_open(s.path, s.g, 1, s.arena, &s.err, &s.data);
    tap_ok(status == FS_OK && s.data.note, "as of 2 T + 1 bytes");
    s.data.close(s.data.ctx);
    write_file(&s, 2 * LENGTH + 2);
    status = exec_data_open(s.path, s.g, 1, s.arena, &s.err, &s.data);
    tap_ok(status == FS_OK && !s.data.note, "one more and there are several");
    close_scene(&s);
    s = open_scene(200);
    write_file(&s, BYTES);
    status = exec_data_open(s.path, s.g, 1, s.arena, &s.err, &s.data);
    int at = 0;
    while (s.bytes[at] < 200)
        at++;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "byte %d at offset %d", s.bytes[at], at);
    tap_ok(status == FS_INVALID && strstr(s.err.text, wanted),
           "a byte outside the vocabulary is named: %s", s.err.text);
    s.err = (fs_err){0};
    status = exec_data_open("some.parquet", s.g, 1, s.arena, &s.err, &s.data);
    tap_equal_int(status, FS_INVALID, "an unknown kind of file is refused");
    s.err = (fs_err){0};
    status = exec_data_open("no/such.txt", s.g, 1, s.arena, &s.err, &s.data);
    tap_equal_int(status, FS_INVALID, "a missing file is refused");
    close_scene(&s);
}

static void test_synthetic(void)
{
    scene s = open_scene(50);
    exec_data_open("synthetic", s.g, 3, s.arena, &s.err, &s.data);
    int64_t all[BATCH * LENGTH], row[LENGTH], wrong = 0, outside = 0;
    const int64_t whole[4] = {0, BATCH, 0, LENGTH}, one[4] = {0, 1, 0, LENGTH};
    fill(&s, "ids", 8, IR_I64, whole, all);
    fill(&s, "ids", 10, IR_I64, one, row);
    for (int i = 0; i < BATCH * LENGTH; i++)
        outside += all[i] < 0 || all[i] >= 50;
    for (int i = 0; i < LENGTH; i++)
        wrong += row[i] != all[2 * LENGTH + i];
    tap_equal_int(outside, 0, "synthetic ids are rows of the table");
    tap_equal_int(wrong, 0, "a synthetic sample does not depend on its batch");
    close_scene(&s);
}

static void test_fixed(void)
{
    scene s = open_scene(50);
    int64_t given[BATCH * LENGTH], got[2 * LENGTH], wrong = 0;
    for (int i = 0; i < BATCH * LENGTH; i++)
        given[i] = i;
    const char *name = "ids";
    const void *data = given;
    const int64_t rows[4] = {1, 2, 0, LENGTH};
    exec_data_fixed(1, &name, &data, s.g, s.arena, &s.err, &s.data);
    fill(&s, "ids", 5 * BATCH, IR_I64, rows, got);
    for (int i = 0; i < 2 * LENGTH; i++)
        wrong += got[i] != LENGTH + i;
    tap_equal_int(wrong, 0, "fixed tensors are the same every step");
    name = "nothing";
    tap_equal_int(
        exec_data_fixed(1, &name, &data, s.g, s.arena, &s.err, &s.data),
        FS_INVALID, "data for an unknown input is refused");
    close_scene(&s);
}

/* ---- faults ---- */

static fs_status run_alone(scene *s, const exec_data *data,
                           exec_options options, exec_result *result)
{
    exec_world *world = NULL;
    hw_cluster *cluster = NULL;
    plan *p = NULL;
    ir_train_options train = ir_train_defaults();
    plan_lower_options lower = plan_lower_defaults();
    FS_TRY(exec_world_open(&s->err, &world));
    FS_TRY(ir_train(s->g, &train, &s->err));
    FS_TRY(hw_cluster_probe(1, s->arena, &s->err, &cluster));
    plan_strategy *strategy = plan_strategy_new(s->g, 1, s->arena);
    FS_TRY(plan_lower(s->g, cluster, strategy, &lower, s->arena, &s->err, &p));
    FS_TRY(exec_run(world, s->g, cluster, p, data, &options, s->arena, &s->err,
                    result));
    exec_world_close(world);
    return FS_OK;
}

/* Runs in a child; its exit status and what it wrote to stderr. */
static int run_child(scene *s, const exec_data *data, char *text, size_t room)
{
    int ends[2];
    if (pipe(ends) != 0)
        return -1;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        exec_result result;
        exec_options options = {.steps = 2, .stall_s = 1.0};
        fs_status status = run_alone(s, data, options, &result);
        fprintf(stderr, "returned %d: %s\n", (int)status, s->err.text);
        _exit(100);
    }
    close(ends[1]);
    size_t n = 0;
    ssize_t got;
    while (n + 1 < room && (got = read(ends[0], text + n, room - 1 - n)) > 0)
        n += (size_t)got;
    text[n] = '\0';
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    text[strcspn(text, "\n")] = '\0';
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_bad_label(void)
{
    scene s = open_scene(50);
    int64_t ids[BATCH * LENGTH] = {0};
    int32_t targets[BATCH * LENGTH] = {0};
    targets[5] = 50;
    const char *names[2] = {"ids", "targets"};
    const void *data[2] = {ids, targets};
    exec_data_fixed(2, names, data, s.g, s.arena, &s.err, &s.data);
    char text[1024];
    int status = run_child(&s, &s.data, text, sizeof text);
    tap_equal_int(status, FS_FAULT, "a label out of range ends the job");
    tap_ok(strstr(text, "rank 0") && strstr(text, "label"),
           "and is told with its rank: %s", text);
    close_scene(&s);
}

static fs_status fill_never(void *ctx, const char *name, int64_t sample,
                            ir_dtype dtype, const ir_shape *local,
                            const int64_t *offset, int32_t batch_axis,
                            void *out, fs_err *err)
{
    (void)ctx, (void)name, (void)sample, (void)dtype, (void)local;
    (void)offset, (void)batch_axis, (void)out;
    for (int i = 0; i < 1000; i++) /* every signal wakes it */
        pause();
    return fs_fail(err, FS_FAULT, "pause returned");
}

static fs_status fill_broken(void *ctx, const char *name, int64_t sample,
                             ir_dtype dtype, const ir_shape *local,
                             const int64_t *offset, int32_t batch_axis,
                             void *out, fs_err *err)
{
    (void)ctx, (void)sample, (void)dtype, (void)local;
    (void)offset, (void)batch_axis, (void)out;
    return fs_fail(err, FS_FAULT, "the disk of '%s' is gone", name);
}

static void test_broken_data(void)
{
    scene s = open_scene(50);
    exec_data never = {.ctx = NULL, .fill = fill_never};
    exec_data broken = {.ctx = NULL, .fill = fill_broken};
    char text[1024];
    int status = run_child(&s, &never, text, sizeof text);
    tap_equal_int(status, FS_FAULT, "data that never comes end the job");
    tap_ok(strstr(text, "no progress") && strstr(text, "ids"),
           "and the task that waits is named: %.160s", text);
    status = run_child(&s, &broken, text, sizeof text);
    tap_ok(status == FS_FAULT && strstr(text, "is gone"),
           "a fault of the loader ends the job: %s", text);
    close_scene(&s);
}

/* ---- options ---- */

/* Four steps on the same batch: first and last loss, digest of the weights. */
static void train_fixed(double lr, uint64_t seed, double loss[2],
                        uint64_t *digest)
{
    scene s = open_scene(50);
    int64_t ids[BATCH * LENGTH];
    int32_t targets[BATCH * LENGTH];
    for (int i = 0; i < BATCH * LENGTH; i++)
        ids[i] = targets[i] = i * 7 % 50;
    const char *names[2] = {"ids", "targets"};
    const void *data[2] = {ids, targets};
    exec_result result = {0};
    ir_train_options tuning = {
        .lr = lr, .momentum = NAN, .beta1 = NAN, .beta2 = NAN, .epsilon = NAN};
    exec_options options = {.steps = 4, .seed = seed, .tuning = &tuning};
    exec_data_fixed(2, names, data, s.g, s.arena, &s.err, &s.data);
    fs_status status = run_alone(&s, &s.data, options, &result);
    loss[0] = status == FS_OK ? result.losses[0] : NAN;
    loss[1] = status == FS_OK ? result.losses[3] : NAN;
    *digest = result.weights_digest;
    close_scene(&s);
}

static void test_options(void)
{
    double still[2], usual[2], again[2], other[2];
    uint64_t digest[4];
    train_fixed(0.0, 1, still, &digest[0]);
    train_fixed(NAN, 1, usual, &digest[1]);
    train_fixed(NAN, 1, again, &digest[2]);
    train_fixed(NAN, 2, other, &digest[3]);
    tap_ok(still[0] == still[1], "a run with rate 0 learns nothing");
    tap_ok(usual[1] < usual[0], "one with the graph's rate learns");
    tap_ok(usual[0] == still[0] && other[0] != usual[0],
           "the seed decides the first values");
    tap_ok(digest[1] == digest[2] && again[1] == usual[1],
           "the same run gives the same bits");
    tap_ok(digest[0] != digest[1] && digest[1] != digest[3],
           "other weights have another digest");
}

/* Who fills, and for how long. */
typedef struct shy {
    pthread_t by;
    useconds_t us;
    bool unread;
} shy;

static bool is_read(void *ctx, const char *name, int64_t sample)
{
    const shy *s = ctx;
    (void)name, (void)sample;
    return !s->unread;
}

static fs_status fill_shyly(void *ctx, const char *name, int64_t sample,
                            ir_dtype dtype, const ir_shape *local,
                            const int64_t *offset, int32_t batch_axis,
                            void *out, fs_err *err)
{
    shy *s = ctx;
    (void)name, (void)dtype, (void)local, (void)offset, (void)batch_axis;
    (void)err;
    s->by = pthread_self();
    *(int64_t *)out = sample;
    if (s->us)
        usleep(s->us);
    return FS_OK;
}

/* Did this thread do it? */
static bool load(exec_loader *loader, exec_job *job, shy *s)
{
    int64_t got = -1;
    job->sample++;
    job->out = &got;
    exec_loader_submit(loader, job);
    while (atomic_load(&job->state) == EXEC_JOB_OPEN)
        usleep(50);
    tap_ok(atomic_load(&job->state) == EXEC_JOB_DONE && got == job->sample,
           "sample %lld is loaded", (long long)got);
    return pthread_equal(s->by, pthread_self());
}

static void test_loader(void)
{
    exec_world alone = {.size = 1, .on_host = 1, .cores = 1};
    shy s = {.us = 2000};
    const exec_data data = {.ctx = &s, .fill = fill_shyly, .ready = is_read};
    exec_loader *loader = exec_loader_create(&alone, &data, 2);
    exec_job job = {.name = "x"}, other = {.name = "y"};
    tap_ok(!load(loader, &job, &s), "the loader's thread loads");
    tap_ok(!load(loader, &job, &s), "and again what took long");
    s.us = 0;
    bool here = false;
    for (int k = 0; k < 20 && !here; k++) /* it may be held up */
        here = load(loader, &job, &s);
    tap_ok(here, "what took little is done at once");
    s.unread = true;
    tap_ok(!load(loader, &job, &s), "but not what a disk has to be waited for");
    s.unread = false;
    tap_ok(!load(loader, &other, &s), "of another input nothing is known yet");
    exec_loader_destroy(loader);
}

int main(void)
{
    test_loader();
    test_options();
    test_windows();
    test_refusals();
    test_synthetic();
    test_fixed();
    test_bad_label();
    test_broken_data();
    return tap_done();
}
