/* Checkpoints of random networks under random plans, on threads. A run that is
 * resumed from the middle ends with the bits of one that was not disturbed;
 * what was saved under one plan goes on under another, within what plans
 * differ by.
 *
 * Case N hangs on N alone: FS_SEED=N runs it only, FS_CASES=N the cases 0 .. N
 * - 1 (30). */
#include "config.h"

#include "equal.h"
#include "exec_plans.h"

#include "base/crc.h"
#include "exec/checkpoint.h"
#include "base/json.h"
#include "exec/safetensors.h"
#include "exec/weights.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CASES = 30, STEPS = 4, EVERY = 2 };
static char dir[600];

/* ---- a run ---- */

typedef struct running {
    const job *job;
    const exec_saving *saving;
    int32_t n_weights, *weights;
    fs_arena *arena;
    double loss[STEPS]; /* of all steps, those of the checkpoint too */
    double **value;
    int64_t first_step;
    uint64_t digest;
    fs_status status;
    fs_err err;
} running;

static void keep(running *r, const exec_result *result, void **fetched)
{
    r->first_step = result->first_step;
    r->digest = result->weights_digest;
    for (int64_t k = 0; k < STEPS; k++)
        r->loss[k] = k < result->first_step
                         ? (result->earlier ? result->earlier[k] : (double)NAN)
                         : result->losses[k - result->first_step];
    r->value = fs_new(r->arena, double *, r->n_weights);
    for (int32_t i = 0; i < r->n_weights; i++)
        r->value[i] = job_doubles(&r->job->graph->tensors.at[r->weights[i]],
                                  fetched[i], r->arena);
}

static void run_rank(exec_world *world, void *ctx)
{
    running *r = ctx;
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    exec_result result;
    void **fetched = fs_new(arena, void *, r->n_weights);
    const exec_options options = {.steps = STEPS,
                                  .checks = true,
                                  .saving = r->saving,
                                  .seed = 3,
                                  .stall_s = 60,
                                  .n_fetch = r->n_weights,
                                  .fetch = r->weights,
                                  .fetched = fetched};
    job mine = *r->job;
    mine.arena = arena;
    const fs_status status = job_run(&mine, world, &options, &err, &result);
    if (exec_world_rank(world) == 0) {
        r->status = status;
        r->err = err;
        if (status == FS_OK)
            keep(r, &result, fetched);
    }
    fs_arena_destroy(arena);
}

static running run_job(const job *j, int32_t ranks, const exec_saving *saving)
{
    running r = {.job = j, .saving = saving, .arena = j->arena};
    r.weights = fs_new(j->arena, int32_t, j->graph->tensors.n);
    for (int32_t t = 0; t < j->graph->tensors.n; t++)
        if (j->graph->tensors.at[t].role == IR_PARAM)
            r.weights[r.n_weights++] = t;
    exec_world_threads(ranks, run_rank, &r, &r.err);
    return r;
}

/* ---- a case ---- */

static void forget(void)
{
    char command[700];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0)
        printf("# %s is left behind\n", dir);
}

static double worst_apart(const running *a, const running *b)
{
    double worst = 0;
    for (int64_t k = 0; k < STEPS; k++)
        worst = fmax(worst,
                     fabs(a->loss[k] - b->loss[k]) / (1e-3 + fabs(a->loss[k])));
    for (int32_t i = 0; i < a->n_weights; i++) {
        const ir_tensor *t = &a->job->graph->tensors.at[a->weights[i]];
        double size = 1e-6, error = 0;
        for (int64_t e = 0; e < ir_shape_count(&t->shape); e++) {
            size = fmax(size, fabs(a->value[i][e]));
            error = fmax(error, fabs(a->value[i][e] - b->value[i][e]));
        }
        worst = fmax(worst, error / size);
    }
    return worst;
}

static bool all_finite(const running *r)
{
    for (int64_t k = 0; k < STEPS; k++)
        if (!isfinite(r->loss[k]))
            return false;
    return true;
}

static bool same_bits(const running *a, const running *b)
{
    return a->digest == b->digest &&
           memcmp(a->loss, b->loss, sizeof a->loss) == 0;
}

typedef struct tally {
    int32_t cases, resumed, crossed;
    double worst;
} tally;

static void fail_case(uint64_t number, const equal_case *c, const char *what,
                      const char *why)
{
    equal_verdict v = {0};
    printf("# FS_SEED=%llu: %s: %s\n", (unsigned long long)number, what, why);
    equal_print(c, &v, stdout);
}

/* Saved by the one, resumed by the other. */
static running across(const job *from, int32_t from_ranks, const job *to,
                      int32_t to_ranks)
{
    const exec_saving saves = {.dir = dir, .every = EVERY},
                      resumes = {.dir = dir, .resume = true};
    forget();
    const running saved = run_job(from, from_ranks, &saves);
    return saved.status == FS_OK ? run_job(to, to_ranks, &resumes) : saved;
}

static bool is_wide_enough(const equal_case *c)
{
    return c->wide && c->narrow == IR_F32 && !c->narrow_states &&
           ir_compress_dtype(&c->compress) == IR_F32;
}

static bool try_plans(uint64_t number, const equal_case *c, const job *spread,
                      const job *alone, tally *t)
{
    const running whole = run_job(spread, c->ranks, NULL);
    const running single = run_job(alone, 1, NULL);
    if (whole.status != FS_OK || single.status != FS_OK)
        return true; /* exec_equal_test tells of those */
    t->cases++;
    const running again = across(spread, c->ranks, spread, c->ranks);
    if (again.status != FS_OK || again.first_step != EVERY ||
        !same_bits(&whole, &again)) {
        fail_case(number, c, "the same plan differs", again.err.text);
        return false;
    }
    t->resumed++;
    const running down = across(spread, c->ranks, alone, 1);
    const running up = across(alone, 1, spread, c->ranks);
    if (down.status != FS_OK || up.status != FS_OK) {
        fail_case(number, c, "another plan",
                  down.status != FS_OK ? down.err.text : up.err.text);
        return false;
    }
    /* What plans differ by anyhow is the measure. */
    if (!is_wide_enough(c) || !all_finite(&single) ||
        worst_apart(&single, &whole) > 1e-9)
        return true;
    t->crossed++;
    const double worst =
        fmax(worst_apart(&single, &down), worst_apart(&single, &up));
    t->worst = fmax(t->worst, worst);
    if (worst > 1e-7) {
        fail_case(number, c, "another plan", "differs");
        printf("# by %.3g\n", worst);
    }
    return worst <= 1e-7;
}

static bool try_case(uint64_t number, tally *t)
{
    const equal_case c = equal_draw(number);
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    uint64_t features = 0;
    bool good = true;
    ir_graph *bound, *g = equal_graph(&c, &err, &features);
    plan_lower_options lower = plan_lower_defaults();
    lower.overlap = c.overlap;
    lower.bucket_bytes = c.bucket_bytes;
    lower.share_memory = !c.unshared;
    plan_strategy *s = g ? equal_strategy(&c, g, arena, &err, &bound) : NULL;
    job alone = {.graph = g, .arena = arena};
    if (s) {
        job spread = {.graph = bound, .arena = arena};
        if (job_make_with(&spread, s, c.ranks, &lower, &err) == FS_OK &&
            job_make_with(&alone, equal_alone(g, arena), 1, &lower, &err) ==
                FS_OK)
            good = try_plans(number, &c, &spread, &alone, t);
    }
    forget();
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
    return good;
}

/* ---- the sum that files carry ---- */

static void test_crc(void)
{
    unsigned char bytes[300];
    uint64_t seed = 7;
    bool same = true;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)fs_rand(&seed);
    for (size_t n = 0; n < sizeof bytes; n++) {
        const uint32_t whole = fs_crc32c(0, bytes, n);
        same &= whole == fs_crc32c_plain(0, bytes, n) &&
                whole == fs_crc32c(fs_crc32c(0, bytes, n / 3), bytes + n / 3,
                                   n - n / 3);
    }
    tap_ok(same, "the processor's CRC-32C is the plain one, whole or in parts");
    tap_ok(fs_crc32c(0, "123456789", 9) == 0xe3069283u,
           "of the digits 1 to 9 it is e3069283 (RFC 3720, B.4's polynomial)");
}

/* ---- manifests ---- */

/* Of step 1, under its seal. Takes it. */
static fs_status read_manifest(json_t *manifest, fs_err *err)
{
    char path[700], seal[16];
    exec_checkpoint read;
    fs_arena *arena = fs_arena_create();
    char *text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(seal, sizeof seal, "%08x", fs_crc32c(0, text, strlen(text)));
    json_t *root = json_pack("{s:o, s:s}", "manifest", manifest, "seal", seal);
    *err = (fs_err){0};
    snprintf(path, sizeof path, "mkdir -p '%s/step-1'", dir);
    if (system(path) != 0)
        printf("# failed: %s\n", path);
    snprintf(path, sizeof path, "%s/step-1/manifest.json", dir);
    json_dump_file(root, path, 0);
    const fs_status status = exec_checkpoint_read(dir, 1, arena, err, &read);
    json_decref(root);
    free(text);
    fs_arena_destroy(arena);
    return status;
}

/* ---- that leave gaps ---- */

/* Of a vector of six: from, to, term, terms of each piece. */
typedef struct told_piece {
    int from, to, term, terms;
} told_piece;

static json_t *piece_json(const told_piece *p)
{
    return json_pack("{s:s, s:[i], s:[i], s:i, s:i, s:i, s:i, s:s}", "file",
                     "rank-0.safetensors", "offset", p->from, "shape",
                     p->to - p->from, "term", p->term, "terms", p->terms, "at",
                     0, "bytes", 4 * (p->to - p->from), "crc", "00000000");
}

static fs_status read_pieces(const told_piece *pieces, int32_t n, fs_err *err)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(list, piece_json(&pieces[i]));
    return read_manifest(
        json_pack("{s:i, s:i, s:i, s:i, s:[], s:{s:{s:s, s:[i], s:o}}}",
                  "version", 1, "step", 1, "batch", 1, "ranks", 1, "files",
                  "variables", "w", "dtype", "f32", "shape", 6, "pieces", list),
        err);
}

static void test_gaps(void)
{
    static const struct {
        const char *what;
        bool whole;
        int32_t n;
        told_piece pieces[4];
    } all[] = {
        {"one piece", true, 1, {{0, 6, 0, 1}}},
        {"two", true, 2, {{2, 6, 0, 1}, {0, 2, 0, 1}}},
        {"two terms", true, 3, {{0, 6, 0, 2}, {0, 4, 1, 2}, {4, 6, 1, 2}}},
        {"none", false, 0, {{0}}},
        {"a gap", false, 2, {{0, 2, 0, 1}, {3, 6, 0, 1}}},
        {"a piece twice and a gap", false, 2, {{0, 3, 0, 1}, {0, 3, 0, 1}}},
        {"an overlap that hides a gap", false, 2, {{0, 4, 0, 1}, {1, 3, 0, 1}}},
        {"a term that is nowhere", false, 1, {{0, 6, 0, 2}}},
        {"a term twice", false, 2, {{0, 6, 0, 2}, {0, 6, 0, 2}}},
        {"terms that differ", false, 2, {{0, 3, 0, 1}, {3, 6, 0, 2}}},
        {"no terms", false, 1, {{0, 6, 0, 0}}},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fs_err err;
        const fs_status status = read_pieces(all[i].pieces, all[i].n, &err);
        tap_ok(all[i].whole ? status == FS_OK
                            : status == FS_INVALID &&
                                  strstr(err.text, "pieces of 'w' leave gaps"),
               "a manifest with %s is %s: %s", all[i].what,
               all[i].whole ? "read" : "refused", err.text);
    }
    forget();
}

/* ---- that tell of heads ---- */

enum { FILE_BYTES = 96, HEAD = 64 };

/* Of a file of 96 bytes, of which one bit is another; `head`: what its manifest
 * says of the head, taken, NULL for nothing. */
static fs_status read_head(int32_t bit, json_t *head, fs_err *err)
{
    char path[700];
    unsigned char bytes[FILE_BYTES];
    memset(bytes, 'h', sizeof bytes);
    if (bit >= 0)
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    json_t *file = json_pack("{s:s, s:i}", "name", "rank-0.safetensors",
                             "bytes", FILE_BYTES);
    if (head)
        json_object_set_new(file, "head", head);
    snprintf(path, sizeof path, "mkdir -p '%s/step-1'", dir);
    if (system(path) != 0)
        printf("# failed: %s\n", path);
    snprintf(path, sizeof path, "%s/step-1/rank-0.safetensors", dir);
    FILE *to = fopen(path, "wb");
    if (!to || fwrite(bytes, sizeof bytes, 1, to) != 1 || fclose(to) != 0)
        printf("Bail out! %s is not written\n", path);
    return read_manifest(json_pack("{s:i, s:i, s:i, s:i, s:[o], s:{}}",
                                   "version", 1, "step", 1, "batch", 1, "ranks",
                                   1, "files", file, "variables"),
                         err);
}

static json_t *head_json(int bytes)
{
    unsigned char head[FILE_BYTES];
    char crc[16];
    memset(head, 'h', sizeof head);
    snprintf(crc, sizeof crc, "%08x", fs_crc32c(0, head, HEAD));
    return json_pack("{s:i, s:s}", "bytes", bytes, "crc", crc);
}

static void test_heads(void)
{
    fs_err err;
    int told = 0;
    tap_ok(read_head(-1, head_json(HEAD), &err) == FS_OK,
           "a file whose head is as it was written is taken: %s", err.text);
    for (int32_t bit = 0; bit < 8 * HEAD; bit += 7)
        told += read_head(bit, head_json(HEAD), &err) == FS_INVALID &&
                strstr(err.text, "step-1/rank-0.safetensors: bytes 0 to 64 are "
                                 "damaged (CRC-32C");
    tap_equal_int(told, (8 * HEAD + 6) / 7,
                  "each bit of a head that flips is "
                  "told");
    tap_ok(read_head(8 * HEAD, head_json(HEAD), &err) == FS_OK,
           "of one behind it its piece's sum tells: %s", err.text);
    tap_ok(read_head(3, NULL, &err) == FS_OK,
           "a manifest of before says nothing of heads: %s", err.text);
    for (int bytes = -1; bytes < FILE_BYTES + 2; bytes += FILE_BYTES + 2)
        tap_ok(read_head(-1, head_json(bytes), &err) == FS_INVALID &&
                   strstr(err.text, "of a file's head is impossible"),
               "a head of %d bytes of %d is refused: %s", bytes, FILE_BYTES,
               err.text);
    forget();
}

/* ---- what is seen of files without sums ---- */

enum { SAMPLED = 1 << 20 };

/* The digest of a file of one tensor, of zeros but for `bytes` from `at` on. */
static uint64_t digest_with(int64_t at, int64_t bytes, fs_arena *arena)
{
    char *values = calloc(SAMPLED, 1);
    int64_t n;
    uint64_t digest = 0;
    fs_err err = {0};
    exec_checkpoint c;
    exec_saved one = {.name = "w",
                      .dtype = IR_F32,
                      .shape = {.rank = 1, .dim = {SAMPLED / 4}}};
    const char *path = fs_printf(arena, "%s.safetensors", dir);
    const char *head = exec_safetensors_head(1, &one, arena, &n);
    FILE *file = fopen(path, "wb");
    memset(values + at, 1, (size_t)bytes);
    if (!file || fwrite(head, (size_t)n, 1, file) != 1 ||
        fwrite(values, SAMPLED, 1, file) != 1 || fclose(file) != 0)
        printf("Bail out! %s is not written\n", path);
    if (exec_weights_open(path, arena, &err, &c) != FS_OK ||
        exec_weights_digest(&c, &err, &digest) != FS_OK)
        printf("# %s\n", err.text);
    unlink(path);
    free(values);
    return digest;
}

static void test_sampled(void)
{
    enum { DRAWN = 40, BLOCKS = 64 };
    fs_arena *arena = fs_arena_create();
    const uint64_t usual = digest_with(0, 0, arena);
    const int64_t apart = SAMPLED / (BLOCKS - 1); /* at most, of beginnings */
    int seen = 0, wide = 0;
    uint64_t seed = 7;
    for (int i = 0; i < DRAWN; i++) {
        const int64_t at =
            (int64_t)(fs_rand(&seed) % (uint64_t)(SAMPLED - apart));
        seen += digest_with(at, 1, arena) != usual;
        wide += digest_with(at, apart, arena) != usual;
    }
    tap_ok(digest_with(0, 1, arena) != usual &&
               digest_with(SAMPLED - 1, 1, arena) != usual,
           "the first and the last byte of a tensor are in its digest");
    tap_equal_int(wide, DRAWN, "and any stretch of a 63rd of it");
    tap_ok(seen > 0 && seen < DRAWN,
           "%d of %d changes of one byte of 1 MiB are seen", seen, DRAWN);
    fs_arena_destroy(arena);
}

static int64_t number_in(const char *variable, int64_t usual)
{
    const char *text = getenv(variable);
    return text ? strtoll(text, NULL, 0) : usual;
}

int main(void)
{
    const char *build = getenv("FS_BUILDDIR");
    const int64_t only = number_in("FS_SEED", -1);
    const int64_t n = only >= 0 ? 1 : number_in("FS_CASES", CASES);
    tally t = {0};
    int32_t wrong = 0;
    snprintf(dir, sizeof dir, "%s/tests/checkpoints.%d", build ? build : ".",
             (int)getpid());
    for (int64_t i = 0; i < n; i++)
        wrong += !try_case((uint64_t)(only >= 0 ? only : i), &t);
    tap_ok(wrong == 0,
           "%d of %d cases resume with the bits of an undisturbed run",
           t.resumed, t.cases);
    tap_ok(wrong == 0 && (only >= 0 || t.crossed > 0),
           "%d of them go on under another plan, apart by %.2g at most",
           t.crossed, t.worst);
    tap_ok(only >= 0 || t.cases > n / 3, "%d of %d cases say something",
           t.cases, (int)n);
    test_crc();
    test_gaps();
    test_heads();
    test_sampled();
    return tap_done();
}
