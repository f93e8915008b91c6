/* Frameworks: their files, and that one which changes nothing changes nothing.
 */
#include "config.h"
#include "cost/framework.h"
#include "sim/sim.h"
#include "plan_hand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static fs_arena *arena;

static const char *folder(void)
{
    const char *source = getenv("FS_SRCDIR");
    return fs_printf(arena, "%s/datasets", source ? source : ".");
}

static fs_status read_text(const char *text, fs_err *err, cost_framework *out)
{
    char path[] = "/tmp/framework.XXXXXX";
    const int file = mkstemp(path);
    const ssize_t n = write(file, text, strlen(text));
    close(file);
    *err = (fs_err){0};
    const fs_status status =
        n < 0 ? FS_FAULT : cost_framework_read(path, arena, err, out);
    unlink(path);
    return status;
}

#define WITH(more)                                                             \
    "{\"name\":\"x\",\"about\":\"\",\"matches\":[\"x\"],\"narrow\":false,"     \
    "\"overlaps\":false,\"attention\":\"fused\"" more "}"

static void refuses(const char *text, const char *part)
{
    fs_err err;
    cost_framework f;
    const fs_status status = read_text(text, &err, &f);
    tap_ok(status == FS_INVALID && strstr(err.text, part), "refused: %s (%s)",
           part, err.text);
}

static void test_refused(void)
{
    fs_err err;
    cost_framework f;
    tap_equal_int(read_text(WITH(""), &err, &f), FS_OK, "the least: %s",
                  err.text);
    refuses(WITH(",\"host_s\":-1"), "host_s");
    refuses(WITH(",\"host\":1"), "host");
    refuses(WITH(",\"gather_bps\":-1"), "gather_bps");
    refuses(WITH(",\"gap_s\":-1"), "gap_s");
    refuses(WITH(",\"own_stream\":2"), "own_stream");
    refuses(WITH(",\"unfused_bytes\":{\"sideways\":1}"), "sideways");
    tap_equal_int(read_text(WITH(""), &err, &f), FS_OK, "again");
    tap_ok(!f.own_stream && f.recomputes && f.gap_s == 0,
           "what a file leaves out is as usual");
    refuses(WITH(",\"collectives\":[\"carrier pigeon\"]"), "carrier pigeon");
    refuses(WITH(",\"score_bytes\":{\"sideways\":1}"), "sideways");
    refuses(WITH(",\"attention_efficiency\":0.5"), "attention_efficiency");
    refuses(WITH(",\"transposes\":{\"forward\":2}"), "transposes");
    refuses(WITH(",\"waits_to_send\":[\"1f2b\"]"), "1f2b");
    refuses(WITH(",\"repeats_blocks\":1"), "repeats_blocks");
    refuses(WITH(",\"streams_rows\":1"), "streams_rows");
    refuses(WITH(",\"joins_products\":1"), "joins_products");
    refuses("[]", "must be an object");
    refuses("{\"name\":\"x\"}", "about");
    refuses("{\"name\":\"x\",\"about\":\"\",\"matches\":[],\"narrow\":false,"
            "\"overlaps\":false,\"attention\":\"split\"}",
            "apart or fused");
    err = (fs_err){0};
    tap_ok(cost_framework_open("megatron", folder(), arena, &err, &f) ==
                   FS_INVALID &&
               strstr(err.text, "megatron-lm"),
           "an unknown one: the near ones (%s)", err.text);
}

static fs_status change(const char *text, fs_err *err, cost_framework *f)
{
    json_error_t fault;
    json_t *root = json_loads(text, 0, &fault);
    const fs_json in = fs_json_root("t", root);
    *err = (fs_err){0};
    const fs_status status = cost_framework_change(&in, err, f);
    json_decref(root);
    return status;
}

static void test_change(void)
{
    fs_err err;
    cost_framework f;
    read_text(WITH(",\"jitter\":0.5,\"host_s\":1,\"turns_images\":true"), &err,
              &f);
    tap_ok(f.turns_images, "flags");
    tap_equal_int(change("{\"jitter\":0.25,\"overlaps\":true,"
                         "\"turns_images\":false,\"host_image_s\":0.125}",
                         &err, &f),
                  FS_OK, "a run may do otherwise: %s", err.text);
    tap_ok(f.jitter == 0.25 && f.overlaps && !f.turns_images &&
               f.host_image_s == 0.125,
           "in what is told");
    tap_ok(f.host_s == 1 && strcmp(f.name, "x") == 0, "and in nothing else");
    tap_ok(change("{\"attention\":\"apart\"}", &err, &f) == FS_INVALID &&
               strstr(err.text, "attention"),
           "but its code is its own: %s", err.text);
    tap_ok(change("{\"jitter\":2}", &err, &f) == FS_INVALID &&
               strstr(err.text, "jitter"),
           "within bounds: %s", err.text);
}

static void test_files(void)
{
    static const char *const names[] = {"megatron-lm",    "megatron-deepspeed",
                                        "deepspeed-zero", "fsdp",
                                        "pytorch",        "pytorch2",
                                        "oneflow",        "tensorflow",
                                        "mxnet",          "paddle"};
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        fs_err err = {0};
        cost_framework f;
        const fs_status status =
            cost_framework_open(names[k], folder(), arena, &err, &f);
        tap_ok(status == FS_OK && strcmp(f.name, names[k]) == 0 &&
                   f.n_matches > 0,
               "%s is read %s", names[k], err.text);
    }
}

/* Tasks that are there, as long as without waiting, but for what the host does
 * behind each exchange. */
static bool takes_as_long(const plan *p, const plan_timing *without,
                          const plan_timing *with, double exchange_s)
{
    bool same = true;
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++) {
            const plan_task *task = &p->roles[r].tasks[t];
            const bool more =
                task->kind == PLAN_SEND && !plan_phase_once(task->phase);
            same &= with->demand[r][t].total_s ==
                    without->demand[r][t].total_s + (more ? exchange_s : 0);
        }
    return same;
}

/* But for sends each on the kind of stream that it was on. */
static bool moves_sends(const plan *p, const plan *in_turn)
{
    bool right = true;
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++) {
            const plan_role *was = &p->roles[r], *is = &in_turn->roles[r];
            const plan_stream_kind kind = is->streams[is->tasks[t].stream].kind;
            right &= kind == (was->tasks[t].kind == PLAN_SEND
                                  ? PLAN_STREAM_COMPUTE
                                  : was->streams[was->tasks[t].stream].kind);
        }
    return right;
}

/* Kernels that begin while the rank sends. */
static int32_t count_beside(const plan *p, const plan_trace *trace)
{
    int32_t n = 0;
    for (int32_t i = 0; i < trace->events.n; i++)
        for (int32_t k = 0; k < trace->events.n; k++) {
            const plan_event *x = &trace->events.at[i],
                             *y = &trace->events.at[k];
            const plan_role *role = plan_role_of_rank(p, x->rank);
            n += x->rank == y->rank &&
                 role->tasks[x->task].kind == PLAN_COMPUTE &&
                 role->tasks[y->task].kind == PLAN_SEND &&
                 x->start_ns >= y->start_ns && x->start_ns < y->end_ns;
        }
    return n;
}

static double simulate(const ir_graph *g, const hw_cluster *c, const plan *p,
                       const plan_timing *timing, int32_t *beside)
{
    plan_trace trace = {.arena = arena};
    const sim_options options = {
        .steps = 1, .straggler = 1, .trace = &trace, .traced_steps = 1};
    sim_result sim;
    fs_err err = {0};
    if (sim_run(g, p, c, timing, &options, arena, &err, &sim) != FS_OK) {
        printf("# %s\n", err.text);
        return NAN;
    }
    *beside = count_beside(p, &trace);
    return sim.iteration_s;
}

/* Who waits for what it sends computes nothing meanwhile. */
static void test_waits(uint64_t seed)
{
    enum { CASES = 40 };
    static const char *const names[] = {"1f1b", "gpipe", "interleaved"};
    static const char *waiting[] = {"1f1b", "interleaved"};
    int32_t wrong = 0, longer = 0, others = 0, beside = 0, still = 0;
    for (int32_t i = 0; i < CASES; i++) {
        const int32_t stages = 2 + (int32_t)fs_rand_below(&seed, 3);
        const char *schedule = names[i % 3];
        const bool waits = strcmp(schedule, "gpipe") != 0;
        const int32_t ranks =
            strcmp(schedule, "interleaved") == 0 ? stages : 2 * stages;
        ir_graph *g = hand_mlp(stages * 2 + (int32_t)fs_rand_below(&seed, 4),
                               4 + (int64_t)fs_rand_below(&seed, 40),
                               4 + (int64_t)fs_rand_below(&seed, 40), 4);
        const hw_cluster *c = hand_cluster(arena, 1, ranks, 0);
        plan_strategy *s = hand_stages(
            g, stages, (ir_mesh){ranks > stages, {ranks / stages}}, arena);
        hand_signatures(g, s, fs_rand_below(&seed, 100), arena);
        s->micro_batches = 4;
        s->schedule = schedule;
        const plan *p = hand_lower(g, c, s, i % 2, arena);
        const cost_model *model = cost_model_create(c, arena);
        cost_framework f = {.attention_efficiency = {1, 1},
                            .transposes = {1, 1},
                            .collectives = ~(uint32_t)0};
        const plan_timing *goes_on = cost_timing_under(&f, model, g, p, arena);
        wrong += cost_framework_plan(&f, p, arena) != p;
        f.n_waits = 2;
        f.exchange_s = 1e-7;
        f.waits_to_send = waiting;
        const plan *turns = cost_framework_plan(&f, p, arena);
        const plan_timing *with = cost_timing_under(&f, model, g, turns, arena);
        int32_t n_beside = 0, n_turn = 0;
        const double was_s = simulate(g, c, p, goes_on, &n_beside);
        const double is_s = simulate(g, c, turns, with, &n_turn);
        wrong += !takes_as_long(p, goes_on, with, waits ? f.exchange_s : 0);
        wrong += waits ? !moves_sends(p, turns) : turns != p;
        others += !waits && is_s == was_s;
        longer += waits && is_s > was_s;
        beside += waits ? n_beside : 0;
        still += waits ? n_turn : 0;
        ir_graph_destroy(g);
    }
    tap_equal_int(wrong, 0,
                  "sends come in their turn, and take as long, and "
                  "what the host does");
    tap_ok(longer > 0 && others > 0 && longer + others == CASES,
           "steps are longer (%d) under the schedules told, the same (%d) "
           "under others",
           longer, others);
    tap_ok(beside > 0 && still == 0,
           "kernels begin while their rank sends: %d, and where it waits %d",
           beside, still);
}

int main(void)
{
    arena = fs_arena_create();
    test_waits(tap_seed(30));
    test_refused();
    test_change();
    test_files();
    fs_arena_destroy(arena);
    return tap_done();
}
