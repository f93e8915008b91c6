/* Frameworks: their files, and that one which changes nothing changes nothing.
 */
#include "config.h"
#include "cost/framework.h"
#include "tap.h"

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

int main(void)
{
    arena = fs_arena_create();
    test_refused();
    test_change();
    test_files();
    fs_arena_destroy(arena);
    return tap_done();
}
