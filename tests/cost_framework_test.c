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

static void test_files(void)
{
    static const char *const names[] = {
        "megatron-lm", "deepspeed-zero", "fsdp",  "pytorch", "pytorch2",
        "oneflow",     "tensorflow",     "mxnet", "paddle"};
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
    test_files();
    fs_arena_destroy(arena);
    return tap_done();
}
