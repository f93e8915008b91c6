/* Buckets: collectives of several tensors. Whatever signatures are drawn, the
 * same pieces are boxed as without them, each by a step of its own or by one
 * part of a bucket; the plan is sound; it is the same when it is read again;
 * and a bucket that carries something else is found. */
#include "plan_hand.h"

#include "base/hash.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct bench {
    fs_arena *arena;
    ir_graph *g;
    hw_cluster *c;
    plan_strategy *s;
    plan_report report;
} bench;

static bench make_bench(int32_t layers, int32_t n_stages, ir_mesh mesh,
                        int32_t micro_batches, uint64_t seed)
{
    bench b = {.arena = fs_arena_create()};
    b.g = hand_mlp(layers, 8, 8, micro_batches);
    b.c = hand_cluster(b.arena, 1, n_stages * ir_mesh_size(&mesh), 0);
    b.s = hand_stages(b.g, n_stages, mesh, b.arena);
    hand_signatures(b.g, b.s, seed, b.arena);
    return b;
}

static void destroy_bench(bench *b)
{
    ir_graph_destroy(b->g);
    fs_arena_destroy(b->arena);
}

static plan *lower(const bench *b, bool overlap, int64_t bucket_bytes)
{
    plan_lower_options options = plan_lower_defaults();
    options.overlap = overlap;
    options.bucket_bytes = bucket_bytes;
    options.refine = false;
    return hand_lower_by(b->g, b->c, b->s, &options, b->arena);
}

static fs_status check(bench *b, const plan *p)
{
    return plan_check(b->g, b->c, p, b->arena, &b->report);
}

/* ---- the same steps ---- */

/* Of a piece that is boxed: everything but the task it is in. */
typedef struct boxed {
    int32_t role, phase, tensor, comm;
    ir_nd_sbp from, to;
    int64_t bytes_in, bytes_out;
} boxed;
typedef FS_VEC(boxed) boxed_list;

static boxed_list list_boxed(const plan *p, fs_arena *arena)
{
    boxed_list list = {0};
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++) {
            const plan_task *task = &p->roles[r].tasks[t];
            const int32_t n =
                task->kind == PLAN_BOX ? plan_task_n_parts(task) : 0;
            for (int32_t i = 0; i < n; i++) {
                const plan_part part = plan_task_part(task, i);
                boxed one;
                memset(&one, 0, sizeof one);
                one.role = r;
                one.phase = (int32_t)task->phase;
                one.tensor = part.tensor;
                one.comm = task->comm;
                one.from = part.box.from;
                one.to = part.box.to;
                one.bytes_in = part.box.bytes_in;
                one.bytes_out = part.box.bytes_out;
                fs_push(arena, &list, one);
            }
        }
    return list;
}

static int compare_boxed(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(boxed));
}

static bool same_boxed(const plan *a, const plan *b, fs_arena *arena)
{
    boxed_list x = list_boxed(a, arena), y = list_boxed(b, arena);
    if (x.n != y.n)
        return false;
    if (x.n > 0) {
        qsort(x.at, (size_t)x.n, sizeof *x.at, compare_boxed);
        qsort(y.at, (size_t)y.n, sizeof *y.at, compare_boxed);
    }
    return x.n == 0 || memcmp(x.at, y.at, (size_t)x.n * sizeof *x.at) == 0;
}

typedef struct tally {
    int32_t plans, buckets, parts, unsound, other, early;
} tally;

/* One that had enough bytes took no more. */
static bool is_overfull(const plan_task *task, int64_t bucket_bytes)
{
    int64_t before = 0;
    for (int32_t i = 0; i + 1 < task->n_parts; i++)
        before += task->parts[i].box.bytes_in > task->parts[i].box.bytes_out
                      ? task->parts[i].box.bytes_in
                      : task->parts[i].box.bytes_out;
    return before >= bucket_bytes;
}

static void count_buckets(const plan *p, int64_t bucket_bytes, tally *t)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t i = 0; i < p->roles[r].n_tasks; i++) {
            const plan_task *task = &p->roles[r].tasks[i];
            t->buckets += task->n_parts > 0;
            t->parts += task->n_parts;
            t->early += task->n_parts > 0 && is_overfull(task, bucket_bytes);
        }
}

static void try_plan(bench *b, bool overlap, int64_t bucket_bytes, tally *t)
{
    const plan *alone = lower(b, overlap, 0);
    const plan *together = lower(b, overlap, bucket_bytes);
    t->plans++;
    count_buckets(together, bucket_bytes, t);
    t->other += !same_boxed(alone, together, b->arena);
    if (check(b, together) == FS_OK)
        return;
    t->unsound++;
    hand_print(&b->report);
}

static void test_any(uint64_t seed)
{
    static const ir_mesh meshes[] = {{1, {2}}, {1, {3}}, {2, {2, 2}}};
    static const int64_t sizes[] = {1, 257, 600, 1 << 30};
    tally t = {0};
    for (int32_t k = 0; k < 60; k++) {
        const uint64_t drawn = 1 + fs_mix(seed + (uint64_t)k) % 100000;
        const int32_t stages = 1 + (int32_t)fs_rand_below(&seed, 2);
        const int32_t m = 1 + (int32_t)fs_rand_below(&seed, 3);
        bench b = make_bench(5, stages, meshes[k % 3], m, drawn);
        for (int32_t overlap = 0; overlap < 2; overlap++)
            for (int32_t i = 0; i < 4; i++)
                try_plan(&b, overlap, sizes[i], &t);
        destroy_bench(&b);
    }
    tap_ok(t.buckets > 200, "%d plans with %d buckets of %d tensors", t.plans,
           t.buckets, t.parts);
    tap_equal_int(t.other, 0, "they box what they box without");
    tap_equal_int(t.early, 0, "what is full takes no more");
    tap_equal_int(t.unsound, 0, "and are sound");
}

/* ---- one that is spoiled ---- */

/* Some bucket of a plan. */
typedef struct place {
    int32_t role, task;
} place;

static bool find_bucket(const plan *p, place *out)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t i = 0; i < p->roles[r].n_tasks; i++)
            if (p->roles[r].tasks[i].n_parts > 0 &&
                p->roles[r].tasks[i].scratch_bytes > 0 &&
                p->roles[r].tasks[i].parts[0].tensor !=
                    p->roles[r].tasks[i].parts[1].tensor) {
                *out = (place){r, i};
                return true;
            }
    return false;
}

typedef struct spoiled {
    plan *p;
    plan_role *role;
    plan_task *task;
    plan_part *parts;
} spoiled;

static spoiled copy_of(const bench *b, const plan *p, place at)
{
    spoiled x = {.p = hand_copy(p, b->arena)};
    x.role = &x.p->roles[at.role];
    x.task = &x.role->tasks[at.task];
    x.parts = fs_memdup(b->arena, x.task->parts,
                        (size_t)x.task->n_parts * sizeof *x.parts);
    x.task->parts = x.parts;
    return x;
}

static void refuse(bench *b, const spoiled *x, plan_finding_kind kind,
                   const char *fact)
{
    const bool refused = check(b, x->p) == FS_NO;
    bool found = false;
    for (int32_t i = 0; i < b->report.n; i++)
        found |= b->report.findings[i].kind == kind;
    tap_ok(refused && found, "%s is found", fact);
    if (!found)
        hand_print(&b->report);
}

static void test_spoiled(bench *b, const plan *p, place at)
{
    spoiled x = copy_of(b, p, at);
    tap_equal_int(check(b, x.p), FS_OK, "a copy of a plan with a bucket");
    x.parts[1].tensor = x.parts[0].tensor;
    refuse(b, &x, PLAN_FINDING_SBP, "a part of another tensor");
    x = copy_of(b, p, at);
    x.task->in[1] = x.task->in[0];
    refuse(b, &x, PLAN_FINDING_STRUCTURE, "a part read from another register");
    x = copy_of(b, p, at);
    const int32_t first = x.task->in[0];
    x.task->in[0] = x.task->in[1];
    x.task->in[1] = first;
    refuse(b, &x, PLAN_FINDING_SBP, "two parts that change places");
    x = copy_of(b, p, at);
    x.parts[1].box.bytes_in += 4;
    x.task->box.bytes_in += 4;
    refuse(b, &x, PLAN_FINDING_SBP, "a part of more bytes");
    x = copy_of(b, p, at);
    x.task->box.bytes_out -= 4;
    refuse(b, &x, PLAN_FINDING_STRUCTURE, "a sum that is none");
    x = copy_of(b, p, at);
    x.task->n_in--;
    refuse(b, &x, PLAN_FINDING_STRUCTURE, "a part without a register");
    x = copy_of(b, p, at);
    x.parts[1].box.kind = PLAN_ALL_TO_ALL;
    refuse(b, &x, PLAN_FINDING_STRUCTURE, "a part of another kind");
    x = copy_of(b, p, at);
    x.task->phase = PLAN_BACKWARD;
    refuse(b, &x, PLAN_FINDING_STRUCTURE, "a bucket of each micro-batch");
    x = copy_of(b, p, at);
    x.task->n_parts = 1;
    refuse(b, &x, PLAN_FINDING_STRUCTURE, "a bucket of one tensor");
    x = copy_of(b, p, at);
    x.task->scratch_bytes--;
    refuse(b, &x, PLAN_FINDING_MEMORY, "scratch for less than all parts");
    x = copy_of(b, p, at);
    plan_register *g = &x.role->registers[x.task->in[1]];
    g->count = 2;
    g->offset = fs_new(b->arena, int64_t, 2);
    refuse(b, &x, PLAN_FINDING_STRUCTURE, "a part that turns buffers");
}

/* ---- as text ---- */

static void test_text(bench *b, plan *p, place at)
{
    static const plan_origin origin = {.model = "mlp.onnx",
                                       .optimizer = "adam",
                                       .lr_schedule = "",
                                       .lr = 0.1,
                                       .beta1 = 0.9,
                                       .beta2 = 0.999,
                                       .epsilon = 1e-8,
                                       .cluster = "1x8:hand",
                                       .batch = 8,
                                       .seed = 42};
    fs_err err = {0};
    plan *again = NULL;
    char path[64];
    snprintf(path, sizeof path, "plan_buckets_test.%d.json", (int)getpid());
    tap_ok(plan_write(path, b->g, p, &origin, b->c, &err) == FS_OK &&
               plan_read(path, b->g, b->c, b->arena, &err, &again) == FS_OK,
           "a plan with buckets is written and read%s", err.text);
    unlink(path);
    if (!again)
        return;
    const plan_task *x = &p->roles[at.role].tasks[at.task];
    const plan_task *y = &again->roles[at.role].tasks[at.task];
    tap_ok(again->digest == p->digest && !again->edited,
           "it has the same digest");
    tap_ok(y->n_parts == x->n_parts && y->tensor == x->tensor &&
               y->box.bytes_in == x->box.bytes_in &&
               y->box.bytes_out == x->box.bytes_out &&
               y->box.element_bytes == x->box.element_bytes &&
               same_boxed(p, again, b->arena),
           "and the same parts");
    tap_equal_int(check(b, again), FS_OK, "and is sound");
}

static void test_one(void)
{
    place at = {-1, -1};
    for (uint64_t seed = 1; seed < 100 && at.role < 0; seed++) {
        bench b = make_bench(5, 1, (ir_mesh){1, {2}}, 2, seed);
        plan *p = lower(&b, true, 1 << 20);
        if (find_bucket(p, &at)) {
            printf("# %s\n",
                   plan_task_name(b.g, &p->roles[at.role].tasks[at.task],
                                  b.arena));
            test_spoiled(&b, p, at);
            test_text(&b, p, at);
        }
        destroy_bench(&b);
    }
    tap_ok(at.role >= 0, "some plan has a bucket");
}

int main(void)
{
    const char *seed = getenv("FS_SEED");
    const uint64_t drawn = seed ? strtoull(seed, NULL, 0) : 20261129;
    printf("# FS_SEED=%llu\n", (unsigned long long)drawn);
    test_any(drawn);
    test_one();
    return tap_done();
}
