/* Samples in files, against a plain reading of the same bytes: tokens, IDX
 * images, tables; their order, augmentation, scale, pieces; what is wrong with
 * a file is named with its place. */
#include "config.h"

#include "exec/samples.h"
#include "exec/reader.h"
#include "ir/graph.h"
#include "ir/train.h"

#include "base/hash.h"
#include "tests/tap.h"

#include <math.h>
#include <unistd.h>
#include <zlib.h>

enum { BATCH = 4, CLASSES = 10, MOST = 1 << 14 };

typedef struct scene {
    fs_arena *arena;
    ir_graph *g;
    fs_err err;
    exec_data data;
    char dir[64];
    unsigned char bytes[MOST];
    size_t n;
} scene;

static const char *file_of(scene *s, const char *name)
{
    return fs_printf(s->arena, "%s/%s", s->dir, name);
}

/* The scene's bytes from `from` on. */
static void write_bytes(scene *s, const char *name, size_t n)
{
    FILE *file = fopen(file_of(s, name), "wb");
    if (!file || fwrite(s->bytes, 1, n, file) != n)
        printf("Bail out! cannot write %s\n", name);
    if (file)
        fclose(file);
}

static void write_text(scene *s, const char *name, const char *text)
{
    s->n = strlen(text);
    memcpy(s->bytes, text, s->n);
    write_bytes(s, name, s->n);
}

static void write_gzip(scene *s, const char *name, size_t n)
{
    gzFile file = gzopen(file_of(s, name), "wb");
    if (!file || gzwrite(file, s->bytes, (unsigned)n) != (int)n)
        printf("Bail out! cannot write %s\n", name);
    gzclose(file);
}

/* An input x of this shape and labels, of CLASSES classes. */
static ir_graph *make_graph(int32_t rank, const int64_t *dim)
{
    ir_graph *g = ir_graph_create("samples");
    const int64_t logits[2] = {BATCH, CLASSES}, rows[1] = {BATCH};
    const ir_init init = {IR_INIT_UNIFORM, 0.0, 0.5, 1};
    ir_input(g, "x", IR_F32, ir_shape_make(rank, dim), 0);
    int32_t labels = ir_input(g, "labels", IR_I64, ir_shape_make(1, rows), 0);
    int32_t w =
        ir_parameter(g, "logits", IR_F32, ir_shape_make(2, logits), init);
    g->loss = ir_cross_entropy(g, w, labels);
    g->batch = BATCH;
    return g;
}

static scene open_scene(ir_graph *g)
{
    scene s = {.arena = fs_arena_create(), .g = g};
    snprintf(s.dir, sizeof s.dir, "exec_samples.XXXXXX");
    if (!mkdtemp(s.dir))
        printf("Bail out! no folder\n");
    return s;
}

static void close_data(scene *s)
{
    if (s->data.close)
        s->data.close(s->data.ctx);
    s->data = (exec_data){0};
}

static void close_scene(scene *s)
{
    close_data(s);
    ir_graph_destroy(s->g);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", s->dir);
    if (system(command) != 0)
        printf("# %s is left behind\n", s->dir);
    fs_arena_destroy(s->arena);
}

/* Forgets what was open and wrong before. */
static fs_status open_data(scene *s, const char *spec,
                           const exec_data_options *options)
{
    static const exec_data_options none = {0};
    close_data(s);
    s->err = (fs_err){0};
    return exec_data_open_with(spec, s->g, options ? options : &none, s->arena,
                               &s->err, &s->data);
}

static fs_status fill(scene *s, const char *name, int64_t sample,
                      ir_dtype dtype, const ir_shape *local,
                      const int64_t *offset, void *out)
{
    return s->data.fill(s->data.ctx, name, sample, dtype, local, offset, 0, out,
                        &s->err);
}

static fs_status fill_whole(scene *s, const char *name, int64_t sample,
                            void *out)
{
    static const int64_t zero[IR_MAX_RANK] = {0};
    const ir_tensor *t = &s->g->tensors.at[ir_graph_find(s->g, name)];
    return fill(s, name, sample, t->dtype, &t->shape, zero, out);
}

static void refuses(scene *s, const char *spec, const exec_data_options *o,
                    const char *wanted, const char *what)
{
    const fs_status status = open_data(s, spec, o);
    tap_ok(status == FS_INVALID && strstr(s->err.text, wanted),
           "%s is refused: %s", what, s->err.text);
    if (!strstr(s->err.text, wanted))
        printf("# wanted: %s\n", wanted);
}

/* ---- tokens ---- */

enum { WINDOW = 7, TOKENS = 100, WORDS = 70000 };

static ir_graph *make_language(int64_t words)
{
    ir_graph *g = ir_graph_create("language");
    const int64_t tokens[2] = {BATCH, WINDOW}, table[2] = {words, 1};
    const int64_t rows[3] = {BATCH, WINDOW, words};
    const ir_init init = {IR_INIT_ZERO, 0.0, 0.0, 1};
    int32_t ids = ir_input(g, "ids", IR_I32, ir_shape_make(2, tokens), 0);
    int32_t to = ir_input(g, "targets", IR_I64, ir_shape_make(2, tokens), 0);
    int32_t w = ir_parameter(g, "table", IR_F32, ir_shape_make(2, table), init);
    int32_t v = ir_parameter(g, "head", IR_F32, ir_shape_make(3, rows), init);
    ir_gather(g, w, ids);
    g->loss = ir_cross_entropy(g, v, to);
    g->batch = BATCH;
    return g;
}

static int64_t token(int64_t i, int64_t bytes)
{
    return bytes == 2 ? i * 977 % 65536 : i * 7919 % WORDS;
}

static void write_tokens(scene *s, int64_t bytes)
{
    s->n = 0;
    for (int64_t i = 0; i < TOKENS; i++)
        for (int64_t b = 0; b < bytes; b++)
            s->bytes[s->n++] = (unsigned char)(token(i, bytes) >> (8 * b));
    write_bytes(s, "t.bin", s->n);
}

static int64_t wrong_tokens(scene *s, int64_t sample, int64_t bytes)
{
    int32_t ids[BATCH * WINDOW];
    int64_t targets[BATCH * WINDOW], wrong = 0;
    wrong += fill_whole(s, "ids", sample, ids) != FS_OK;
    wrong += fill_whole(s, "targets", sample, targets) != FS_OK;
    for (int64_t i = 0; i < BATCH * WINDOW; i++) {
        const int64_t k = sample + i / WINDOW;
        const int64_t at = k * WINDOW % (TOKENS - WINDOW - 1) + i % WINDOW;
        wrong += ids[i] != token(at, bytes);
        wrong += targets[i] != token(at + 1, bytes);
    }
    return wrong;
}

static void test_tokens(int64_t bytes)
{
    const char *kind = bytes == 2 ? "u16" : "i32";
    scene s = open_scene(make_language(WORDS));
    write_tokens(&s, bytes);
    const char *spec = fs_printf(s.arena, "%s/t.bin:%s", s.dir, kind);
    tap_equal_int(open_data(&s, spec, NULL), FS_OK, "%s: tokens open %s", kind,
                  s.err.text);
    int64_t wrong = 0;
    for (int64_t k = 0; k < 20; k++)
        wrong += wrong_tokens(&s, k * BATCH, bytes);
    tap_equal_int(wrong, 0, "%s: windows as those of a text", kind);
    wrong = wrong_tokens(&s, 1000000007, bytes) + wrong_tokens(&s, 8, bytes) +
            wrong_tokens(&s, 4, bytes);
    tap_equal_int(wrong, 0, "%s: from any sample on, in any order", kind);
    write_bytes(&s, "t.bin", s.n - 1);
    refuses(&s, spec, NULL, "no whole number of tokens", "half a token");
    close_scene(&s);
    s = open_scene(make_language(50));
    write_tokens(&s, bytes);
    refuses(&s, fs_printf(s.arena, "%s/t.bin:%s", s.dir, kind), NULL,
            fs_printf(s.arena, "t.bin: token %d at place 1 is outside",
                      (int)token(1, bytes)),
            "a token outside the vocabulary");
    close_scene(&s);
}

/* ---- images ---- */

enum { N = 11, C = 3, H = 6, W = 5, PIXELS = C * H * W };

static int pixel(int64_t sample, int64_t c, int64_t h, int64_t w)
{
    return (int)((sample * 101 + c * 53 + h * 17 + w * 7) % 256);
}

static void begin_idx(scene *s, int type, int32_t rank, const int64_t *dim)
{
    s->n = 0;
    const unsigned char magic[4] = {0, 0, (unsigned char)type,
                                    (unsigned char)rank};
    memcpy(s->bytes, magic, 4);
    s->n = 4;
    for (int32_t d = 0; d < rank; d++)
        for (int b = 3; b >= 0; b--)
            s->bytes[s->n++] = (unsigned char)(dim[d] >> (8 * b));
}

/* last: channels lie last. */
static void write_images(scene *s, bool last)
{
    const int64_t first[4] = {N, C, H, W}, behind[4] = {N, H, W, C};
    begin_idx(s, 8, 4, last ? behind : first);
    for (int64_t i = 0; i < N; i++)
        for (int64_t e = 0; e < PIXELS; e++)
            s->bytes[s->n++] =
                (unsigned char)(last ? pixel(i, e % C, e / C / W, e / C % W)
                                     : pixel(i, e / W / H, e / W % H, e % W));
    write_bytes(s, "images", s->n);
}

static void write_labels(scene *s)
{
    const int64_t dim[1] = {N};
    begin_idx(s, 8, 1, dim);
    for (int64_t i = 0; i < N; i++)
        s->bytes[s->n++] = (unsigned char)(i * 3 % CLASSES);
    write_gzip(s, "labels.gz", s->n);
    write_bytes(s, "labels", s->n);
}

static scene open_images(bool turned)
{
    const int64_t first[4] = {BATCH, C, H, W}, last[4] = {BATCH, H, W, C};
    scene s = open_scene(make_graph(4, turned ? last : first));
    write_images(&s, false);
    write_labels(&s);
    return s;
}

static const char *pair_of(scene *s)
{
    return fs_printf(s->arena, "%s/images,%s/labels.gz", s->dir, s->dir);
}

/* What a plain reading makes of sample k's pixel, x / 255. */
static float plain(int64_t k, int64_t c, int64_t h, int64_t w)
{
    return (float)(pixel(k % N, c, h, w) / 255.0);
}

static int64_t wrong_images(scene *s, int64_t sample)
{
    float x[BATCH * PIXELS];
    int64_t labels[BATCH], wrong = 0;
    wrong += fill_whole(s, "x", sample, x) != FS_OK;
    wrong += fill_whole(s, "labels", sample, labels) != FS_OK;
    for (int64_t i = 0; i < BATCH * PIXELS; i++) {
        const int64_t e = i % PIXELS;
        wrong += fabsf(x[i] - plain(sample + i / PIXELS, e / W / H, e / W % H,
                                    e % W)) > 1e-6f;
    }
    for (int64_t i = 0; i < BATCH; i++)
        wrong += labels[i] != (sample + i) % N * 3 % CLASSES;
    return wrong;
}

static void test_images(void)
{
    scene s = open_images(false);
    tap_equal_int(open_data(&s, pair_of(&s), NULL), FS_OK,
                  "images, and labels in a .gz, open %s", s.err.text);
    int64_t wrong = 0;
    for (int64_t k = 0; k < 12; k++)
        wrong += wrong_images(&s, k * BATCH);
    tap_equal_int(wrong, 0, "pixels from 0 to 1, labels, over epochs");
    const int64_t piece[4] = {2, 2, 3, 2}, offset[4] = {1, 1, 2, 3};
    const ir_shape local = ir_shape_make(4, piece);
    float x[2 * 2 * 3 * 2];
    wrong = fill(&s, "x", 9, IR_F32, &local, offset, x) != FS_OK;
    for (int64_t i = 0; i < 24; i++)
        wrong += fabsf(x[i] - plain(10 + i / 12, 1 + i / 6 % 2, 2 + i / 2 % 3,
                                    3 + i % 2)) > 1e-6f;
    tap_equal_int(wrong, 0, "a piece, cut along every axis");
    write_images(&s, true);
    tap_equal_int(open_data(&s, pair_of(&s), NULL), FS_OK,
                  "channels may lie last %s", s.err.text);
    tap_equal_int(wrong_images(&s, 3), 0, "and come first");
    wrong = fill(&s, "x", 9, IR_F32, &local, offset, x) != FS_OK;
    for (int64_t i = 0; i < 24; i++)
        wrong += fabsf(x[i] - plain(10 + i / 12, 1 + i / 6 % 2, 2 + i / 2 % 3,
                                    3 + i % 2)) > 1e-6f;
    tap_equal_int(wrong, 0, "in a piece too");
    close_scene(&s);
    const int64_t flat[2] = {BATCH, PIXELS};
    s = open_scene(make_graph(2, flat));
    write_images(&s, false);
    write_labels(&s);
    tap_equal_int(open_data(&s, pair_of(&s), NULL), FS_OK,
                  "an input may be flat %s", s.err.text);
    tap_equal_int(wrong_images(&s, 6), 0, "with the same pixels");
    close_scene(&s);
    s = open_images(true);
    float turned[BATCH * PIXELS];
    tap_equal_int(open_data(&s, pair_of(&s), NULL), FS_OK,
                  "channels may be wanted last %s", s.err.text);
    wrong = fill_whole(&s, "x", 2, turned) != FS_OK;
    for (int64_t i = 0; i < BATCH * PIXELS; i++) {
        const int64_t e = i % PIXELS;
        wrong += fabsf(turned[i] - plain(2 + i / PIXELS, e % C, e / C / W,
                                         e / C % W)) > 1e-6f;
    }
    tap_equal_int(wrong, 0, "and are");
    close_scene(&s);
}

static void test_normalized(void)
{
    scene s = open_images(false);
    static float x[N * PIXELS + PIXELS];
    const exec_data_options by_data = {.normalize = "data"};
    open_data(&s, pair_of(&s), &by_data);
    for (int64_t k = 0; k < N; k += BATCH) {
        float some[BATCH * PIXELS];
        fill_whole(&s, "x", k, some);
        for (int64_t i = 0; i < BATCH && k + i < N; i++)
            memcpy(x + (k + i) * PIXELS, some + i * PIXELS, PIXELS * sizeof *x);
    }
    double off = 0;
    for (int64_t c = 0; c < C; c++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < N * H * W; i++) {
            const double v = x[i / (H * W) * PIXELS + c * H * W + i % (H * W)];
            sum += v;
            squares += v * v;
        }
        off = fmax(off, fabs(sum / (N * H * W)));
        off = fmax(off, fabs(squares / (N * H * W) - 1));
    }
    tap_ok(off < 1e-5, "data: each channel has mean 0 and deviation 1: %g off",
           off);
    const exec_data_options said = {.normalize = "0.5/0.25,0/1,0.1/2"};
    open_data(&s, pair_of(&s), &said);
    float some[BATCH * PIXELS];
    static const double mean[C] = {0.5, 0, 0.1}, deviation[C] = {0.25, 1, 2};
    int64_t wrong = fill_whole(&s, "x", 5, some) != FS_OK;
    for (int64_t i = 0; i < BATCH * PIXELS; i++) {
        const int64_t e = i % PIXELS, c = e / W / H;
        const double raw = pixel((5 + i / PIXELS) % N, c, e / W % H, e % W);
        wrong += fabs(some[i] - (raw / 255 - mean[c]) / deviation[c]) > 1e-5;
    }
    tap_equal_int(wrong, 0, "MEAN/STD of each channel");
    const exec_data_options two = {.normalize = "0/1,0/1"};
    refuses(&s, pair_of(&s), &two, "each of the 3 channels", "one too few");
    const exec_data_options zero = {.normalize = "0/0"};
    refuses(&s, pair_of(&s), &zero, "must be above 0", "a deviation of 0");
    const exec_data_options below = {.normalize = "0/1,0/-1,0/1"};
    refuses(&s, pair_of(&s), &below, "must be above 0", "one below");
    const exec_data_options word = {.normalize = "0/much"};
    refuses(&s, pair_of(&s), &word, "MEAN/STD", "one that is no number");
    close_scene(&s);
}

/* ---- augmentation ---- */

/* Is sample `got` image k, moved by (down, right) and mirrored or not? */
static bool is_warped(const float *got, int64_t k, const exec_warp *warp)
{
    for (int64_t e = 0; e < PIXELS; e++) {
        const int64_t c = e / W / H, h = e / W % H + warp->down;
        const int64_t at = warp->flip ? W - 1 - e % W : e % W;
        const int64_t w = at + warp->right;
        const bool beyond = h < 0 || h >= H || w < 0 || w >= W;
        if (fabsf(got[e] - (beyond ? 0 : plain(k, c, h, w))) > 1e-6f)
            return false;
    }
    return true;
}

/* Which of all moves up to `pad` it is; -1: none. */
static int find_warp(const float *got, int64_t k, int64_t pad)
{
    const int64_t side = 2 * pad + 1;
    for (int64_t i = 0; i < 2 * side * side; i++) {
        const exec_warp warp = {.flip = i % 2,
                                .down = i / 2 / side - pad,
                                .right = i / 2 % side - pad};
        if (is_warped(got, k, &warp))
            return (int)i;
    }
    return -1;
}

static void test_augmented(void)
{
    enum { PAD = 2, SEEN = 120, KINDS = 2 * 25 };
    scene s = open_images(false);
    const exec_data_options o = {.augment = "flip,crop=2", .seed = 7};
    open_data(&s, pair_of(&s), &o);
    int64_t none = 0, kinds = 0, moved = 0;
    int count[KINDS] = {0}, kind[SEEN];
    float x[BATCH * PIXELS], again[BATCH * PIXELS];
    for (int64_t k = 0; k < SEEN; k++) {
        if (k % BATCH == 0)
            fill_whole(&s, "x", k, x);
        kind[k] = find_warp(x + k % BATCH * PIXELS, k, PAD);
        none += kind[k] < 0;
        if (kind[k] >= 0)
            kinds += count[kind[k]]++ == 0;
        moved += k >= N && kind[k] != kind[k - N];
    }
    tap_equal_int(none, 0, "every image is one moved and mirrored in bounds");
    tap_ok(kinds > KINDS / 2, "in %d of 50 ways", (int)kinds);
    tap_ok(moved > SEEN / 2, "anew in each epoch");
    fill_whole(&s, "x", 41, again);
    fill_whole(&s, "x", 40, x);
    tap_ok(memcmp(x + PIXELS, again, 3 * PIXELS * sizeof *x) == 0,
           "the same for any batch that a sample is in");
    const exec_data_options bad = {.augment = "flip,spin"};
    refuses(&s, pair_of(&s), &bad, "'spin'", "an augmentation that is none");
    const exec_data_options empty = {.augment = "crop=0"};
    refuses(&s, pair_of(&s), &empty, "'crop=0'", "a crop of nothing");
    char text[64], told[64];
    snprintf(text, sizeof text, "crop=%d", W);
    snprintf(told, sizeof told, "images of %d x %d", H, W);
    const exec_data_options whole = {.augment = text};
    refuses(&s, pair_of(&s), &whole, told, "a crop as large as the image");
    const exec_data_options huge = {.augment = "crop=9223372036854775807"};
    refuses(&s, pair_of(&s), &huge, told, "a crop of any size beyond");
    snprintf(text, sizeof text, "crop=%d", W - 1);
    tap_ok(open_data(&s, pair_of(&s), &whole) == FS_OK,
           "but not one that leaves a pixel");
    close_scene(&s);
}

/* ---- order ---- */

static void test_shuffle(void)
{
    uint64_t seed = tap_seed(20);
    static const int64_t sizes[] = {1, 2, 3, 5, 16, 17, 100, 1000, 4097};
    int64_t twice = 0, still = 0, epochs = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int64_t epoch = 0; epoch < 5; epoch++) {
            const int64_t n = sizes[i];
            const uint64_t key = fs_rand(&seed);
            bool *seen = calloc((size_t)n, sizeof *seen);
            int64_t fixed = 0;
            for (int64_t k = 0; k < n; k++) {
                const int64_t at = exec_shuffle(key, epoch, n, k);
                if (at < 0 || at >= n || seen[at])
                    twice++;
                else
                    seen[at] = true;
                fixed += at == k;
            }
            still += n >= 100 && fixed > 10;
            epochs++;
            free(seen);
        }
    tap_equal_int(twice, 0, "each sample once in each of %d epochs",
                  (int)epochs);
    tap_equal_int(still, 0, "and few in their old places");
    int64_t same = 0, other = 0;
    for (int64_t k = 0; k < 1000; k++) {
        same += exec_shuffle(5, 1, 1000, k) == exec_shuffle(5, 2, 1000, k);
        other += exec_shuffle(5, 1, 1000, k) == exec_shuffle(6, 1, 1000, k);
    }
    tap_ok(same < 20 && other < 20, "epochs and seeds differ: %d, %d of 1000",
           (int)same, (int)other);
    double sum = 0; /* of places that neighbours are apart, n / 3 in the mean */
    for (int64_t k = 1; k < 1000; k++)
        sum += fabs((double)(exec_shuffle(5, 1, 1000, k) -
                             exec_shuffle(5, 1, 1000, k - 1)));
    tap_ok(fabs(sum / 999 - 333) < 50, "neighbours are far apart: %.0f",
           sum / 999);
}

static void test_shuffled_images(void)
{
    scene s = open_images(false);
    const exec_data_options o = {.shuffle = true, .shuffle_seed = 3};
    open_data(&s, pair_of(&s), &o);
    const uint64_t digest = s.data.digest;
    int64_t wrong = 0;
    for (int64_t epoch = 0; epoch < 3; epoch++) {
        int times[N] = {0};
        for (int64_t k = 0; k < N; k++) {
            float x[BATCH * PIXELS];
            int64_t label[BATCH], at = -1;
            fill_whole(&s, "x", epoch * N + k, x);
            fill_whole(&s, "labels", epoch * N + k, label);
            const exec_warp still = {0};
            for (int64_t i = 0; i < N; i++)
                if (is_warped(x, i, &still))
                    at = i;
            wrong += at < 0 || label[0] != at * 3 % CLASSES;
            if (at >= 0)
                times[at]++;
        }
        for (int64_t i = 0; i < N; i++)
            wrong += times[i] != 1;
    }
    tap_equal_int(wrong, 0, "every image once an epoch, with its own label");
    open_data(&s, pair_of(&s), NULL);
    tap_ok(digest != s.data.digest, "ranks compare the order");
    const exec_data_options other = {.shuffle = true, .shuffle_seed = 4};
    open_data(&s, pair_of(&s), &other);
    tap_ok(digest != s.data.digest, "and its seed");
    const uint64_t all = s.data.digest;
    write_images(&s, true);
    s.bytes[s.n - 1] ^= 1;
    write_bytes(&s, "images", s.n);
    open_data(&s, pair_of(&s), &other);
    tap_ok(all != s.data.digest, "and what the files hold");
    close_scene(&s);
}

/* ---- what is wrong with images ---- */

static void test_bad_images(void)
{
    scene s = open_images(false);
    const char *pair = pair_of(&s);
    const exec_data_options columns = {.columns = "a"};
    refuses(&s, pair, &columns, "--columns", "an option of tables");
    refuses(&s, fs_printf(s.arena, "%s/absent,%s/labels", s.dir, s.dir), NULL,
            "absent", "a file that is not there");
    refuses(&s, file_of(&s, "images,"), NULL, "", "no name of labels");
    write_images(&s, false);
    write_bytes(&s, "images", s.n - 3);
    refuses(&s, pair, NULL, "cut short", "a file that is cut");
    memset(s.bytes + s.n, 0, 3);
    write_bytes(&s, "images", s.n + 3);
    refuses(&s, pair, NULL,
            fs_printf(s.arena,
                      "images: more than its header says: by its header it has "
                      "%d samples, %d bytes, and %d are there",
                      N, (int)s.n, (int)s.n + 3),
            "a file with more than its header says");
    s.bytes[2] = 7;
    write_bytes(&s, "images", s.n);
    refuses(&s, pair, NULL, "images: not an IDX file", "another magic");
    write_text(&s, "images", "P5");
    refuses(&s, pair, NULL, "images: not an IDX file", "another kind of file");
    const int64_t small[3] = {N, 28, 28}, few[1] = {N - 1};
    begin_idx(&s, 8, 3, small);
    s.n += N * 28 * 28;
    write_bytes(&s, "images", s.n);
    refuses(&s, pair, NULL, "a sample is 28x28; one of input 'x' is 3x6x5",
            "another shape");
    write_images(&s, false);
    begin_idx(&s, 8, 1, few);
    s.n += N - 1;
    write_bytes(&s, "labels", s.n);
    refuses(&s, fs_printf(s.arena, "%s/images,%s/labels", s.dir, s.dir), NULL,
            "labels has 10", "another number of labels");
    write_labels(&s);
    s.bytes[8 + 4] = CLASSES;
    write_bytes(&s, "labels", s.n);
    refuses(&s, fs_printf(s.arena, "%s/images,%s/labels", s.dir, s.dir), NULL,
            "labels: label 10 at sample 4 is outside the classes of 10",
            "a label that is no class");
    FILE *file = fopen(file_of(&s, "labels.gz"), "rb");
    s.n = file ? fread(s.bytes, 1, MOST, file) : 0;
    if (file)
        fclose(file);
    write_bytes(&s, "labels.gz", s.n - 9);
    refuses(&s, pair, NULL, "labels.gz: cut short", "a .gz that is cut");
    write_labels(&s);
    const size_t plain = s.n;
    file = fopen(file_of(&s, "labels.gz"), "rb");
    s.n = file ? fread(s.bytes, 1, MOST, file) : 0;
    if (file)
        fclose(file);
    memset(s.bytes + s.n, 'x', 40);
    write_bytes(&s, "labels.gz", s.n + 40);
    refuses(&s, pair, NULL,
            fs_printf(s.arena, "labels.gz: its gzip stream ends at byte %d",
                      (int)s.n),
            "a .gz with something behind its end");
    memcpy(s.bytes + s.n, s.bytes, s.n);
    write_bytes(&s, "labels.gz", 2 * s.n);
    refuses(&s, pair, NULL,
            fs_printf(s.arena, "%d bytes, and %d are there", (int)plain,
                      2 * (int)plain),
            "two streams in one .gz, more than the header says");
    close_scene(&s);
}

/* ---- tables ---- */

static const char table_text[] = "a,b,c,class\n"
                                 "1,10,-1,3\n"
                                 "2,20,0.5,4\n"
                                 "\n"
                                 "3,30,2.5,0\n";

static void test_table(void)
{
    const int64_t dim[2] = {BATCH, 2};
    scene s = open_scene(make_graph(2, dim));
    write_text(&s, "t.csv", table_text);
    const char *path = file_of(&s, "t.csv");
    exec_data_options o = {.columns = "c,a,class"};
    tap_equal_int(open_data(&s, path, &o), FS_OK, "a table opens %s",
                  s.err.text);
    static const float c[3] = {-1, 0.5, 2.5}, a[3] = {1, 2, 3};
    static const int64_t labels[3] = {3, 4, 0};
    float x[BATCH * 2];
    int64_t got[BATCH], wrong = 0;
    for (int64_t k = 0; k < 9; k++) {
        fill_whole(&s, "x", k, x);
        fill_whole(&s, "labels", k, got);
        for (int64_t i = 0; i < BATCH; i++) {
            const int64_t row = (k + i) % 3;
            wrong += x[2 * i] != c[row] || x[2 * i + 1] != a[row];
            wrong += got[i] != labels[row];
        }
    }
    tap_equal_int(wrong, 0, "columns feed inputs in the order they are named");
    o.normalize = "data";
    open_data(&s, path, &o);
    fill_whole(&s, "x", 0, x);
    fill_whole(&s, "labels", 0, got);
    tap_ok(fabsf(x[1] + 1.2247449f) < 1e-5f && fabsf(x[3]) < 1e-6f &&
               got[0] == 3,
           "columns are scaled, each alone, labels are not");
    o = (exec_data_options){.columns = "a,b,d"};
    refuses(&s, path, &o, "t.csv:1: there is no column 'd'", "no such column");
    refuses(&s, path, NULL, "4 columns, but a sample of this graph takes 3",
            "a column too many");
    o = (exec_data_options){.columns = "a,b,class", .augment = "flip"};
    refuses(&s, path, &o, "--augment is for images", "to mirror numbers");
    o.augment = NULL;
    write_text(&s, "t.csv", "a,b,class\n1,2,3\n4,five,6\n");
    refuses(&s, path, &o, "t.csv:3: column 2 (b): 'five' is no number",
            "a word where a number belongs");
    write_text(&s, "t.csv", "a,b,class\n1,2,3\n4,5,6.5\n");
    refuses(&s, path, &o, "t.csv:3: column 3 (class): '6.5' is no whole",
            "half a class");
    write_text(&s, "t.csv", "a,b,class\n1,2,10\n");
    refuses(&s, path, &o, "t.csv:2: column 3 (class): '10' is outside the 10",
            "a class too many");
    write_text(&s, "t.csv", "a,b,class\n1,2\n");
    refuses(&s, path, &o, "t.csv:2: 2 cells", "a row too short");
    write_text(&s, "t.csv", "a,b,class\n");
    refuses(&s, path, &o, "no rows", "an empty table");
    close_scene(&s);
}

/* ---- reading ahead ---- */

static bool comes(scene *s, int64_t sample)
{
    for (int i = 0; i < 20000; i++) { /* 20 s: a busy host */
        if (s->data.ready(s->data.ctx, "x", sample))
            return true;
        usleep(1000);
    }
    return false;
}

static void test_ahead(void)
{
    scene s = open_images(false);
    open_data(&s, pair_of(&s), NULL);
    const ir_tensor *t = &s.g->tensors.at[ir_graph_find(s.g, "x")];
    static const int64_t zero[IR_MAX_RANK] = {0};
    const int64_t kept = s.data.expect(s.data.ctx, "x", &t->shape, zero);
    float x[BATCH * PIXELS];
    tap_ok(!s.data.ready(s.data.ctx, "x", 0), "nothing is read unasked");
    fill_whole(&s, "x", 0, x);
    tap_ok(comes(&s, BATCH), "the next batch is read before it is asked for");
    tap_ok(!s.data.ready(s.data.ctx, "x", 1), "and no other");
    usleep(50000);
    const int64_t most = kept + BATCH * PIXELS;
    const int64_t bytes = atomic_load(&s.data.counts->bytes);
    tap_ok(bytes > 0 && bytes <= most, "no more than fits: %lld of %lld bytes",
           (long long)bytes, (long long)most);
    fill_whole(&s, "x", 100, x); /* from elsewhere on */
    tap_ok(comes(&s, 100 + BATCH), "as after a jump");
    close_scene(&s);
}

/* Bytes of a request for this piece of x: a ring of small ones has 16. */
static int64_t bytes_of(scene *s, const int64_t *piece, const int64_t *offset)
{
    const ir_shape local = ir_shape_make(4, piece);
    open_data(s, pair_of(s), NULL);
    return s->data.expect(s->data.ctx, "x", &local, offset) / 16 - 1;
}

static void test_shards(void)
{
    scene s = open_images(false);
    const int64_t rows[4] = {2, C, H, W}, second[IR_MAX_RANK] = {2};
    const int64_t channel[4] = {BATCH, 1, H, W}, last[IR_MAX_RANK] = {0, 2};
    tap_equal_int(bytes_of(&s, rows, second), 2 * PIXELS,
                  "a rank of two reads its half of a batch");
    tap_equal_int(bytes_of(&s, channel, last), BATCH * H * W,
                  "or its channel of each image");
    close_scene(&s);
}

static void test_slow_disk(void)
{
    scene s = open_images(false);
    const exec_data_options o = {.disk_latency_s = 0.02};
    open_data(&s, pair_of(&s), &o);
    float x[BATCH * PIXELS];
    fill_whole(&s, "x", 0, x);
    const exec_data_counts *n = s.data.counts;
    tap_ok(atomic_load(&n->reads) > 0 &&
               atomic_load(&n->read_ns) >= 19000000 * atomic_load(&n->reads),
           "a disk can be made slow");
    tap_ok(atomic_load(&n->waited_ns) >= 15000000, "and is waited for");
    close_scene(&s);
}

static void test_cut_while_read(void)
{
    scene s = open_images(false);
    open_data(&s, pair_of(&s), NULL);
    float x[BATCH * PIXELS];
    fill_whole(&s, "x", 0, x);
    if (truncate(file_of(&s, "images"), 20 + PIXELS + 10) != 0)
        printf("Bail out! cannot cut the file\n");
    fs_status status = fill_whole(&s, "x", 2 * BATCH, x);
    tap_ok(status == FS_FAULT && strstr(s.err.text, "images: byte ") &&
               strstr(s.err.text, ": cut short"),
           "a file that is cut meanwhile is a fault: %s", s.err.text);
    s.err = (fs_err){0};
    status = fill_whole(&s, "x", 0, x);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "images: byte %d: cut", 20 + PIXELS + 10);
    tap_ok(status == FS_FAULT && strstr(s.err.text, wanted),
           "and the first byte that is missing named: %s", s.err.text);
    close_scene(&s);
}

int main(void)
{
    test_tokens(2);
    test_tokens(4);
    test_images();
    test_normalized();
    test_augmented();
    test_shuffle();
    test_shuffled_images();
    test_bad_images();
    test_table();
    test_ahead();
    test_shards();
    test_slow_disk();
    test_cut_while_read();
    return tap_done();
}
