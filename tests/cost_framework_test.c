/* Frameworks: their files, and that one which changes nothing changes nothing.
 */
#include "config.h"
#include "cost/framework.h"
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

/* What a role does for a micro-batch; what of it sends; and what its kernels
 * wait for. */
typedef struct role_seconds {
    double all_s, sends_s, receives_s, waits_s;
    int32_t sends;
} role_seconds;

static role_seconds per_micro_batch(const plan *p, const plan_timing *t,
                                    int32_t role)
{
    role_seconds out = {0};
    for (int32_t i = 0; i < p->roles[role].n_tasks; i++) {
        const plan_task *task = &p->roles[role].tasks[i];
        const plan_demand *d = &t->demand[role][i];
        if (task->phase == PLAN_BEGIN || task->phase == PLAN_END)
            continue;
        out.all_s += d->total_s;
        if (task->kind == PLAN_SEND) {
            out.sends_s += d->total_s;
            out.sends++;
        }
        if (task->kind == PLAN_RECV)
            out.receives_s += d->total_s;
        if (task->kind == PLAN_COMPUTE)
            out.waits_s += d->network_s;
    }
    return out;
}

/* Who waits to send takes as long, in the program of what computes, and who
 * receives has it then. */
static void test_waits(uint64_t seed)
{
    enum { CASES = 20 };
    static const char *const schedules[] = {"1f1b"};
    double worst = 0;
    int32_t moved = 0, as_before = 0, roles = 0;
    for (int32_t i = 0; i < CASES; i++) {
        const int32_t stages = 2 + (int32_t)fs_rand_below(&seed, 3);
        ir_graph *g = hand_mlp(stages * 2 + (int32_t)fs_rand_below(&seed, 4),
                               4 + (int64_t)fs_rand_below(&seed, 40),
                               4 + (int64_t)fs_rand_below(&seed, 40), 4);
        const hw_cluster *c = hand_cluster(arena, 1, stages, 0);
        plan_strategy *s = hand_stages(g, stages, (ir_mesh){0}, arena);
        hand_signatures(g, s, 0, arena);
        s->micro_batches = 4;
        s->schedule = fs_rand_below(&seed, 3) ? "1f1b" : "gpipe";
        const plan *p = hand_lower(g, c, s, false, arena);
        const cost_model *model = cost_model_create(c, arena);
        const bool waits = strcmp(s->schedule, "1f1b") == 0;
        cost_framework f = {.attention_efficiency = {1, 1},
                            .transposes = {1, 1},
                            .collectives = ~(uint32_t)0};
        const plan_timing *goes_on = cost_timing_under(&f, model, g, p, arena);
        f.n_waits = 1;
        f.exchange_s = 1e-7;
        f.waits_to_send = (const char **)schedules;
        const plan_timing *waiting = cost_timing_under(&f, model, g, p, arena);
        for (int32_t r = 0; r < p->n_roles; r++, roles++) {
            const role_seconds x = per_micro_batch(p, goes_on, r),
                               y = per_micro_batch(p, waiting, r);
            const double more_s =
                waits ? x.sends * f.exchange_s - x.receives_s : 0;
            worst = fmax(worst, fabs(y.all_s / (x.all_s + more_s) - 1));
            moved += waits && y.sends_s == 0 && y.receives_s == 0 &&
                     fabs(y.waits_s - x.sends_s) <= 1e-12;
            as_before += !waits && y.sends_s == x.sends_s && y.waits_s == 0;
        }
        ir_graph_destroy(g);
    }
    tap_ok(worst < 1e-12,
           "a role takes as long, and what the host does (%.2g off at most)",
           worst);
    tap_equal_int(moved + as_before, roles, "but its kernels wait as it sends");
    tap_ok(moved > 0 && as_before > 0, "under the schedules told: %d of %d",
           moved, roles);
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
