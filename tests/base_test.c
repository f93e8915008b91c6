#include "config.h"
#include "base/clock.h"
#include "base/crew.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_lists.h"
#include "base/json_out.h"
#include "base/ticker.h"
#include "tests/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void test_arena(void)
{
    fs_arena *arena = fs_arena_create();
    FS_VEC(int) numbers = {0};
    for (int i = 0; i < 100000; i++)
        fs_push(arena, &numbers, i);
    int right = 1;
    for (int i = 0; i < numbers.n; i++)
        right &= numbers.at[i] == i;
    tap_ok(right && numbers.n == 100000,
           "arena: a vector keeps what is pushed");
    char *big = fs_new(arena, char, 1 << 20), *small = fs_new(arena, char, 8);
    tap_ok(big[(1 << 20) - 1] == 0 && small[7] == 0, "arena: memory is zeroed");
    tap_equal_text(fs_printf(arena, "%d-%s", 7, "x"), "7-x",
                   "arena: printf formats");
    fs_text text = {.arena = arena};
    for (int i = 0; i < 1000; i++)
        fs_text_add(&text, "%d,", i % 10);
    tap_equal_int(text.n, 2000, "arena: text grows");
    fs_arena_destroy(arena);
}

static void test_map(void)
{
    fs_arena *arena = fs_arena_create();
    fs_map map = {.arena = arena};
    for (int i = 0; i < 5000; i++)
        *fs_map_at(&map, fs_printf(arena, "key%d", i)) = i;
    int right = 1;
    char key[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        right &= fs_map_get(&map, key) == i;
    }
    tap_ok(right, "map: every key gives its value back");
    tap_equal_int(fs_map_get(&map, "missing"), -1, "map: a missing key is -1");
    for (int i = 0; i < 5000; i += 3) {
        snprintf(key, sizeof key, "key%d", i);
        fs_map_remove(&map, key);
    }
    fs_map_remove(&map, "missing");
    right = map.n == 5000 - 1667;
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        right &= fs_map_get(&map, key) == (i % 3 ? i : -1);
    }
    tap_ok(right, "map: what is not removed is still found");
    int32_t to[5000]; /* half of them go, the others turn round */
    for (int i = 0; i < 5000; i++)
        to[i] = i % 2 ? 4999 - i : -1;
    fs_arena *other = fs_arena_create();
    fs_map copy = fs_map_copy(&map, other);
    fs_map_renumber(&copy, to);
    right = 1;
    int n = 0;
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "key%d", i);
        const int32_t wanted = i % 3 && i % 2 ? 4999 - i : -1;
        n += wanted >= 0;
        right &= fs_map_get(&copy, key) == wanted;
        right &= fs_map_get(&map, key) == (i % 3 ? i : -1);
    }
    tap_ok(right && copy.n == n, "map: values renumbered, in a copy");
    fs_arena_destroy(other);
    fs_arena_destroy(arena);
}

static void count_job(void *ctx, int32_t hand, int32_t k)
{
    atomic_int *times = ctx;
    if (hand >= 0 && hand < fs_crew_hands())
        atomic_fetch_add(&times[k], 1);
}

static void test_crew(void)
{
    enum { N = 1000 };
    static atomic_int times[N];
    int right = fs_crew_hands() >= 1;
    fs_crew_run(count_job, times, fs_crew_hands(), N);
    fs_crew_run(count_job, times, 1, N);
    fs_crew_run(count_job, times, fs_crew_hands(), 0);
    for (int i = 0; i < N; i++)
        right &= atomic_load(&times[i]) == 2;
    tap_ok(right, "crew: each job is done once, by one of its hands");
}

/* Whatever the machine does meanwhile. */
static void test_ticker(void)
{
    fs_ticker t = fs_ticker_open();
    int64_t last = 0, back = 0, wrong = 0;
    for (int k = 0; k < 50; k++) {
        fs_ticker_tune(&t);
        const int64_t tuned = fs_now_ns();
        while (fs_now_ns() < tuned + 200000) {
            const int64_t before = fs_now_ns(), now = fs_ticker_ns(&t),
                          after = fs_now_ns();
            const int64_t off = now < before  ? before - now
                                : now > after ? now - after
                                              : 0;
            wrong += off > 20000 + (after - tuned) / 20;
            back += now < last;
            last = now;
        }
    }
    tap_ok(back == 0, "ticker: it never goes back: %d times", (int)back);
    tap_ok(wrong == 0,
           "ticker: off by no more than its rate may be: %d times not",
           (int)wrong);
    /* As after ten minutes of sleep in which ticks went on and time did not. */
    t.true_tick -= t.counts ? (uint64_t)(600e9 / t.ns_per_tick) : 0;
    t.tick = t.true_tick;
    fs_ticker_tune(&t);
    const int64_t before = fs_now_ns(), now = fs_ticker_ns(&t);
    tap_ok(!t.counts || (before <= now && now <= fs_now_ns()),
           "ticker: a sleep of the host is seen at the next tuning");
    t.known = t.counts;
    t.true_tick = t.tick = UINT64_MAX / 4; /* the counter began anew */
    fs_ticker_tune(&t);
    tap_ok(!t.known, "ticker: so is a counter that has gone back");
}

static void test_draws(void)
{
    double sum = 0, squares = 0;
    enum { N = 100000 };
    for (int i = 0; i < N; i++) {
        double x = fs_draw_normal(42, (uint64_t)i);
        sum += x;
        squares += x * x;
    }
    tap_ok(fabs(sum / N) < 0.02, "draws: a normal's mean is near 0");
    tap_ok(fabs(squares / N - 1) < 0.03, "draws: its variance is near 1");
    tap_ok(fs_draw_unit(1, 7) == fs_draw_unit(1, 7), "draws: they repeat");
}

static void test_json(void)
{
    char path[64];
    snprintf(path, sizeof path, "base_test.%d.json", (int)getpid());
    FILE *file = fopen(path, "w");
    fputs("{\"a\": 1,\n \"b\": [1, 2,, 3]}", file);
    fclose(file);
    fs_err err = {0};
    json_t *root = NULL;
    tap_equal_int(fs_json_load(path, &err, &root), FS_INVALID,
                  "json: malformed text is refused");
    tap_ok(strstr(err.text, ":2:"), "json: the message has the line: %s",
           err.text);
    root = json_pack("{s:i, s:[i,i]}", "n", 5, "list", 1, 2);
    err = (fs_err){0};
    tap_equal_int(fs_json_save(root, path, &err), FS_OK, "json: saves");
    json_decref(root);
    tap_equal_int(fs_json_load(path, &err, &root), FS_OK, "json: loads");
    fs_json in = fs_json_root(path, root);
    int64_t n = 0;
    tap_ok(fs_json_int(&in, "n", 0, 9, &err, &n) == FS_OK && n == 5,
           "json: a whole number comes back");
    tap_equal_int(fs_json_int(&in, "n", 6, 9, &err, &n), FS_INVALID,
                  "json: a number out of range is refused");
    tap_ok(strstr(err.text, "n is 5"), "json: and named: %s", err.text);
    json_decref(root);
    unlink(path);
}

static void test_text(void)
{
    char out[32];
    tap_equal_text(fs_human_seconds(out, 0.00123), "1.23 ms", "1.23 ms");
    tap_equal_text(fs_human_bytes(out, 1536), "1.5 KiB", "1.5 KiB");
    tap_equal_text(fs_human_flop(out, 0), "0 flop", "no work");
    tap_equal_text(fs_human_flop(out, 1.1e12), "1.1 Tflop", "work");
    tap_equal_text(fs_human_count(out, 861184), "861 k", "861 k");
    fs_err err = {0};
    fs_fail(&err, FS_INVALID, "first");
    fs_fail(&err, FS_FAULT, "second");
    tap_equal_text(err.text, "first", "errors: the first fault wins");
    fs_err_prefix(&err, "file %d", 3);
    tap_equal_text(err.text, "file 3: first", "errors: a prefix goes before");
}

static void test_places(void)
{
    char file[64], link[64], fifo[64], place[FS_PATH_MAX];
    struct stat at;
    fs_err err = {0};
    json_t *root = json_object();
    snprintf(file, sizeof file, "base_test.%d.file", (int)getpid());
    snprintf(link, sizeof link, "base_test.%d.link", (int)getpid());
    snprintf(fifo, sizeof fifo, "base_test.%d.fifo", (int)getpid());
    tap_equal_int(fs_write_place(file, &err, place), FS_OK,
                  "file: a new file may be written");
    fclose(fopen(file, "wb"));
    if (symlink(file, link) != 0 || mkfifo(fifo, 0600) != 0)
        printf("Bail out! no link or no FIFO can be made\n");
    tap_equal_int(fs_json_save(root, link, &err), FS_OK,
                  "file: a link may be written");
    tap_ok(lstat(link, &at) == 0 && S_ISLNK(at.st_mode) &&
               stat(file, &at) == 0 && at.st_size > 0,
           "file: the link stays, its target is written");
    tap_ok(fs_json_save(root, fifo, &err) == FS_INVALID &&
               strstr(err.text, "not a regular file"),
           "file: a FIFO is refused");
    tap_ok(lstat(fifo, &at) == 0 && S_ISFIFO(at.st_mode),
           "file: the FIFO stays");
    err = (fs_err){0};
    tap_equal_int(fs_write_place(".", &err, place), FS_INVALID,
                  "file: a folder is refused");
    unlink(file);
    err = (fs_err){0};
    tap_equal_int(fs_json_save(root, link, &err), FS_INVALID,
                  "file: a link that leads nowhere is refused");
    unlink(link);
    unlink(fifo);
    json_decref(root);
}

/* Another user may put a link where the temporary file will be. */
static void test_planted_link(void)
{
    char file[64], victim[64], place[FS_PATH_MAX], temporary[FS_PATH_MAX];
    struct stat at;
    fs_err err = {0};
    json_t *root = json_object();
    snprintf(file, sizeof file, "base_test.%d.file", (int)getpid());
    snprintf(victim, sizeof victim, "base_test.%d.victim", (int)getpid());
    fclose(fopen(victim, "wb"));
    fs_write_temporary(file, &err, place, temporary);
    if (symlink(victim, temporary) != 0)
        printf("Bail out! no link can be made\n");
    tap_ok(fs_json_save(root, file, &err) == FS_OK && stat(file, &at) == 0 &&
               stat(victim, &at) == 0 && at.st_size == 0,
           "file: a planted link is not written through");
    unlink(file);
    unlink(victim);
    json_decref(root);
}

static void test_room(void)
{
    fs_err err = {0};
    tap_equal_int(fs_check_room("out", 1, "", &err), FS_OK, "room for a byte");
    tap_equal_int(fs_check_room("out", INT64_MAX, "less takes less", &err),
                  FS_INVALID, "none for 2^63");
    tap_ok(strncmp(err.text, "out: wants ", 11) == 0 &&
               strstr(err.text, " are free there; less takes less"),
           "which is told with a hint: %s", err.text);
}

static void test_no_room(void)
{
    char file[64], place[FS_PATH_MAX], temporary[FS_PATH_MAX];
    static const char data[8192];
    struct rlimit before, small;
    fs_output out;
    fs_err err = {0};
    snprintf(file, sizeof file, "base_test.%d.file", (int)getpid());
    fs_write_temporary(file, &err, place, temporary);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    tap_equal_int(fs_output_open(&out, file, &err), FS_OK,
                  "file: an output is begun");
    setrlimit(RLIMIT_FSIZE, &small);
    fs_output_write(&out, data, sizeof data);
    tap_equal_int(fs_output_close(&out, &err), FS_FAULT,
                  "file: without room it is a fault");
    setrlimit(RLIMIT_FSIZE, &before);
    tap_ok(strstr(err.text, file) && strstr(err.text, strerror(EFBIG)),
           "file: said with its name and cause");
    tap_ok(access(file, F_OK) != 0 && access(temporary, F_OK) != 0,
           "file: nothing is left");
    err = (fs_err){0};
    fs_write_fail("x", ENOSPC, &err);
    tap_equal_text(err.text, "x: cannot be written: No space left on device",
                   "file: a full disk is called so");
}

static void make_old(const char *dir, long seconds)
{
    const struct timespec at[2] = {{.tv_sec = time(NULL) - seconds},
                                   {.tv_sec = time(NULL) - seconds}};
    utimensat(AT_FDCWD, dir, at, 0);
}

/* Of two hours ago with a file, of now, and one that this process holds. */
static void test_left(void)
{
    char held[FS_PATH_MAX], next[FS_PATH_MAX];
    fs_err err = {0};
    FS_ASSERT(mkdir("flowsearch.leftAA", 0700) == 0 &&
              mkdir("flowsearch.leftBB", 0700) == 0);
    fclose(fopen("flowsearch.leftAA/room", "wb"));
    make_old("flowsearch.leftAA", 7200);
    fs_scratch_open(&err, held);
    make_old(held, 7200);
    fs_scratch_open(&err, next);
    tap_ok(access("flowsearch.leftAA", F_OK) != 0,
           "scratch: what was left goes with the next");
    tap_ok(access("flowsearch.leftBB", F_OK) == 0 && access(held, F_OK) == 0,
           "scratch: not what is new or in use");
    fs_scratch_remove(held);
    fs_scratch_remove(next);
    rmdir("flowsearch.leftBB");
}

static void test_scratch(void)
{
    char dir[FS_PATH_MAX], other[FS_PATH_MAX], file[FS_PATH_MAX + 8];
    struct stat at;
    fs_err err = {0};
    setenv("TMPDIR", ".", 1);
    tap_ok(fs_scratch_open(&err, dir) == FS_OK && strncmp(dir, "./", 2) == 0 &&
               stat(dir, &at) == 0 && (at.st_mode & 0777) == 0700,
           "scratch: a folder in TMPDIR for this user only");
    fs_scratch_open(&err, other);
    tap_ok(strcmp(dir, other) != 0, "scratch: each is a new one");
    snprintf(file, sizeof file, "%s/left", dir);
    fclose(fopen(file, "wb"));
    fs_scratch_remove(dir);
    fs_scratch_remove(other);
    fs_scratch_remove("");
    tap_ok(access(dir, F_OK) != 0 && access(other, F_OK) != 0,
           "scratch: removed with what is in it");
    test_left();
    setenv("TMPDIR", "/nonexistent", 1);
    tap_ok(fs_scratch_open(&err, dir) == FS_FAULT && !dir[0] &&
               strstr(err.text, "/nonexistent"),
           "scratch: a TMPDIR that is not there is a fault");
    unsetenv("TMPDIR");
}

static void test_same_file(void)
{
    char file[64], link[64], path[128];
    snprintf(file, sizeof file, "base_test.%d.file", (int)getpid());
    snprintf(link, sizeof link, "base_test.%d.link", (int)getpid());
    snprintf(path, sizeof path, ".//%s", file);
    tap_ok(fs_same_file(file, path) && !fs_same_file(file, link),
           "file: two names of one that is not there yet");
    fclose(fopen(file, "wb"));
    tap_ok(symlink(file, link) == 0 && fs_same_file(file, link) &&
               fs_same_file(file, path) && !fs_same_file(file, "nothing"),
           "file: two names of one that is there");
    unlink(file);
    unlink(link);
}

static void test_json_fields(void)
{
    fs_arena *arena = fs_arena_create();
    json_t *root = json_object(), *item = json_object();
    fs_json_set_int(item, "int", INT64_MIN);
    fs_json_set_bool(item, "bool", true);
    fs_json_set_text(item, "text", "a");
    fs_json_set_text(item, "none", NULL);
    fs_json_set_real(item, "real", 0.5);
    fs_json_set_real(item, "endless", INFINITY);
    json_object_set_new(root, "item", item);
    char *text = json_dumps(item, JSON_COMPACT);
    tap_equal_text(text,
                   "{\"int\":-9223372036854775808,\"bool\":true,"
                   "\"text\":\"a\",\"none\":\"\",\"real\":0.5,"
                   "\"endless\":0.0}",
                   "json: setters keep order; no infinity, no null");
    free(text);
    fs_json all = fs_json_root("f.json", root), in;
    fs_err err = {0};
    bool flag = false;
    const char *copy = NULL;
    tap_ok(fs_json_object(&all, "item", &err, &in) == FS_OK &&
               fs_json_bool(&in, "bool", &err, &flag) == FS_OK && flag,
           "json: a bool comes back");
    tap_equal_int(fs_json_bool(&in, "int", &err, &flag), FS_INVALID,
                  "json: a number is no bool");
    tap_equal_text(err.text, "f.json: item.int must be true or false",
                   "json: and its path is named");
    err.status = FS_OK;
    tap_equal_int(fs_json_strdup(&in, "text", arena, &err, &copy), FS_OK,
                  "json: a text is copied");
    json_decref(root);
    tap_equal_text(copy, "a", "json: and outlives its object");
    fs_arena_destroy(arena);
}

static void test_printable(void)
{
    static const struct {
        const char *text, *printable;
    } cases[] = {{"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
                  "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
                 {"\x1b[31mred\r\n\t\x7f\b", "?[31mred?????"},
                 {"a\xc2\x9b"
                  "2J",
                  "a??2J"},
                 {"a\xe2\x80\xae"
                  "b",
                  "a???b"},
                 {"a\xe2\x81\xa6"
                  "b",
                  "a???b"},
                 {"a\xe2\x80\xa8"
                  "b",
                  "a???b"},
                 {"\xff\xc3", "??"},
                 {"\xc0\x80\xed\xa0\x80", "?????"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fs_err err = {0};
        fs_fail(&err, FS_NO, "%s", cases[i].text);
        tap_equal_text(err.text, cases[i].printable,
                       "errors: the text is printable (%zu)", i);
    }
    fs_err err = {0};
    fs_fail(&err, FS_NO, "b");
    fs_err_prefix(&err, "\x1b");
    tap_equal_text(err.text, "?: b", "errors: a prefix is printable");
    json_t *value = fs_json_string("a\xff");
    tap_equal_text(json_string_value(value), "a?",
                   "json: a text that is no UTF-8 is kept as far as it goes");
    json_decref(value);
}

/* A pipe of packets: what one write gives is what one read takes. */
static void test_warning(void)
{
    int ends[2];
    char line[64] = "";
    const int own = dup(STDERR_FILENO);
    if (own < 0 || pipe2(ends, O_DIRECT) != 0) {
        tap_skip("no pipe of packets here", "one write");
        return;
    }
    dup2(ends[1], STDERR_FILENO);
    fs_warn("rank %d: %s", 3, "no");
    dup2(own, STDERR_FILENO);
    const ssize_t n = read(ends[0], line, sizeof line - 1);
    tap_ok(n > 0 && strcmp(line, "flowsearch: rank 3: no\n") == 0,
           "a message is one write, so that those of ranks do not mix");
    close(ends[0]);
    close(ends[1]);
    close(own);
}

/* ---- lists of whole numbers ---- */

typedef struct fed {
    const char *text;
    size_t n, part; /* bytes a read */
    fs_json_lists *lists;
} fed;

static size_t feed(void *to, size_t bytes, void *from)
{
    fed *f = from;
    size_t n = f->n < f->part ? f->n : f->part;
    n = n < bytes ? n : bytes;
    memcpy(to, f->text, n);
    f->text += n;
    f->n -= n;
    return n;
}

static size_t feed_lists(void *to, size_t bytes, void *from)
{
    fed *f = from;
    return fs_json_lists_read(f->lists, feed, f, to, bytes);
}

/* Lists of the tree and those kept apart say the same. */
static bool same_tree(fs_json_lists *lists, const json_t *a, const json_t *b)
{
    fs_numbers numbers;
    if (json_is_string(b) && !json_is_string(a)) {
        if (!fs_json_numbers(lists, b, &numbers) ||
            numbers.n != json_array_size(a))
            return false;
        for (size_t k = 0; k < numbers.n; k++)
            if (!json_is_integer(json_array_get(a, k)) ||
                json_integer_value(json_array_get(a, k)) != numbers.at[k])
                return false;
        return true;
    }
    if (!json_is_array(a))
        return json_equal(a, b);
    bool same = json_array_size(a) == json_array_size(b);
    for (size_t k = 0; same && k < json_array_size(a); k++)
        same = same_tree(lists, json_array_get(a, k), json_array_get(b, k));
    return same;
}

/* With and without: the same tree, or a fault in the same line. */
static bool reads_alike(const char *text, size_t part)
{
    fs_arena *arena = fs_arena_create();
    json_error_t why_a = {0}, why_b = {0};
    fed plain = {text, strlen(text), part, NULL};
    fed packed = {text, strlen(text), part, fs_json_lists_new(arena)};
    json_t *a = json_load_callback(feed, &plain, 0, &why_a);
    json_t *b = json_load_callback(feed_lists, &packed, 0, &why_b);
    const bool same = !a || !b ? !a && !b && why_a.line == why_b.line
                               : same_tree(packed.lists, a, b);
    if (!same)
        printf("# %s: line %d, line %d\n", text, why_a.line, why_b.line);
    json_decref(a);
    json_decref(b);
    fs_arena_destroy(arena);
    return same;
}

static void test_lists(void)
{
    static const char *const words[] = {"[",
                                        "]",
                                        ",",
                                        ",",
                                        "[",
                                        "],[",
                                        "1",
                                        "-7",
                                        "0",
                                        "01",
                                        "-",
                                        " ",
                                        "\n",
                                        "2.5",
                                        "1e18",
                                        "{}",
                                        "\"[\"",
                                        "\"\\\"[1\"",
                                        "12345678901234567890",
                                        "null",
                                        "[]",
                                        "[1, 2]",
                                        "[3]"};
    enum { TEXTS = 20000, WORDS = sizeof words / sizeof *words };
    uint64_t rng = 7;
    int wrong = 0;
    for (int k = 0; k < TEXTS; k++) {
        char text[400] = "[[";
        const int64_t n = fs_rand_below(&rng, 14);
        for (int64_t w = 0; w < n; w++)
            strcat(text, words[fs_rand_below(&rng, WORDS)]);
        strcat(text, fs_rand_below(&rng, 8) ? "]]" : "");
        wrong += !reads_alike(text, 1 + (size_t)fs_rand_below(&rng, 9));
    }
    wrong += !reads_alike("[[[1,2],\n[3,4 , -5],[[6]],[7,\n8],[1,2]]]", 3);
    wrong += !reads_alike("[[9223372036854775807],[-1],[1,2", 100);
    tap_equal_int(wrong, 0, "lists of numbers are read as Jansson reads them");
}

/* A drawn value, as a tree and, value by value, as text. */
static json_t *draw_value(fs_json_out *out, const char *key, int32_t deep,
                          uint64_t *seed)
{
    static const char *const texts[] = {"", "a", "\"q\" \\ /",
                                        "\b\f\n\r\t\x01\x1f\x7f",
                                        "\xc3\xa4 \xf0\x9f\x98\x80"};
    const int64_t kind = fs_rand_below(seed, deep ? 6 : 3);
    if (kind == 0) {
        const int64_t value = (int64_t)fs_rand(seed) >> fs_rand_below(seed, 64);
        fs_json_out_int(out, key, value);
        return json_integer(value);
    }
    if (kind == 1) {
        const bool value = fs_rand_below(seed, 2);
        fs_json_out_bool(out, key, value);
        return json_boolean(value);
    }
    if (kind == 2) {
        const char *text = texts[fs_rand_below(seed, 5)];
        fs_json_out_text(out, key, text);
        return json_string(text);
    }
    if (kind == 3) {
        json_t *value = json_pack("{s:[f, {}, []], s:n}", "r", 0.1, "n");
        fs_json_out_value(out, key, value);
        return value;
    }
    json_t *all = kind == 4 ? json_object() : json_array();
    fs_json_out_begin(out, key, kind == 4 ? '{' : '[');
    for (int64_t k = fs_rand_below(seed, 4); k > 0; k--) {
        const char name[2] = {(char)('a' + k), 0};
        if (kind == 4)
            json_object_set_new(all, name,
                                draw_value(out, name, deep - 1, seed));
        else
            json_array_append_new(all, draw_value(out, NULL, deep - 1, seed));
    }
    fs_json_out_end(out, kind == 4 ? '}' : ']');
    return all;
}

static char *read_all(const char *path)
{
    char *text = calloc(1, 1 << 20);
    FILE *file = fopen(path, "r");
    if (file && fread(text, 1, (1 << 20) - 1, file) == 0)
        text[0] = '\0';
    if (file)
        fclose(file);
    return text;
}

static void test_json_out(uint64_t seed)
{
    int32_t wrong = 0;
    char dir[FS_PATH_MAX], path[FS_PATH_MAX + 8];
    fs_err err = {0};
    fs_scratch_open(&err, dir);
    snprintf(path, sizeof path, "%s/out", dir);
    for (int32_t i = 0; i < 100; i++) {
        const uint64_t from = seed;
        fs_json_out compact = fs_json_out_to(NULL);
        json_t *tree = draw_value(&compact, NULL, 5, &seed);
        uint64_t again = from;
        fs_output file;
        wrong += fs_output_open(&file, path, &err) != FS_OK;
        fs_json_out lines = fs_json_out_to(&file);
        json_decref(draw_value(&lines, NULL, 5, &again));
        fs_json_out_flush(&lines);
        fs_output_close(&file, &err);
        char *one = json_dumps(tree, JSON_COMPACT | JSON_REAL_PRECISION(17) |
                                         JSON_ENCODE_ANY);
        char *two = json_dumps(tree, FS_JSON_FORMAT | JSON_ENCODE_ANY);
        char *text = read_all(path);
        wrong += strlen(one) != compact.n ||
                 memcmp(one, compact.text, compact.n) != 0 ||
                 strcmp(two, text) != 0;
        json_decref(tree);
        free(one);
        free(two);
        free(text);
        free(compact.text);
    }
    fs_scratch_remove(dir);
    tap_equal_int(wrong, 0, "json: written value by value as from a tree");
}

int main(void)
{
    test_arena();
    test_map();
    test_crew();
    test_draws();
    test_ticker();
    test_json();
    test_json_fields();
    test_lists();
    test_places();
    test_planted_link();
    test_room();
    test_no_room();
    test_scratch();
    test_same_file();
    test_text();
    test_printable();
    test_warning();
    test_json_out(tap_seed(5));
    return tap_done();
}
