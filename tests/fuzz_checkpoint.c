/* libFuzzer target: what a checkpoint's manifest says, under a seal that is
 * right, beside a file of 256 bytes. Input that is no JSON is the whole file.
 */
#include "config.h"
#include "fuzz.h"

#include "base/crc.h"
#include "exec/weights.h"

#include <sys/stat.h>

enum { FILE_BYTES = 256 };

static char folder[300];

static void write_file(const char *name, const void *data, size_t n)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, n, file) != n || fclose(file) != 0)
        abort();
}

static void forget(void)
{
    static const char *const names[] = {"manifest.json", "rank-0.safetensors",
                                        ""};
    char path[400];
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    *strrchr(folder, '/') = '\0';
    rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char text[] =
        "{\"format\":\"flowsearch checkpoint\",\"version\":1,\"step\":1,"
        "\"batch\":4,\"seed\":\"1\",\"plan_digest\":\"2\",\"ranks\":1,"
        "\"files\":[{\"name\":\"rank-0.safetensors\",\"bytes\":256,\"head\":{"
        "\"bytes\":8,\"crc\":\"8c28b28a\"}}],"
        "\"variables\":{\"w\":{\"dtype\":\"f32\",\"shape\":[4,4],\"pieces\":["
        "{\"file\":\"rank-0.safetensors\",\"at\":0,\"bytes\":32,\"offset\":"
        "[0,0],\"shape\":[2,4],\"term\":0,\"terms\":1,\"crc\":\"0\"},"
        "{\"file\":\"rank-0.safetensors\",\"at\":64,\"bytes\":32,\"offset\":"
        "[2,0],\"shape\":[2,4],\"term\":0,\"terms\":1,\"crc\":\"0\"}]}}}";
    const char *seeds = getenv("FUZZ_SEEDS"), *temporary = getenv("TMPDIR");
    const unsigned char values[FILE_BYTES] = {0};
    (void)argc, (void)argv;
    if (seeds) {
        snprintf(folder, sizeof folder, "%s", seeds);
        write_file("two", text, strlen(text));
    }
    snprintf(folder, sizeof folder, "%s/flowsearch-fuzz-XXXXXX",
             temporary ? temporary : "/tmp");
    if (!mkdtemp(folder))
        abort();
    strcat(folder, "/step-1");
    mkdir(folder, 0777);
    write_file("rank-0.safetensors", values, sizeof values);
    atexit(forget);
    return 0;
}

/* {"manifest": .., "seal": ..} */
static void write_manifest(const uint8_t *data, size_t n)
{
    json_t *manifest = json_loadb((const char *)data, n, 0, NULL);
    char seal[16];
    if (!manifest) {
        write_file("manifest.json", data, n);
        return;
    }
    char *text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);
    snprintf(seal, sizeof seal, "%08x", fs_crc32c(0, text, strlen(text)));
    free(text);
    json_t *root = json_pack("{s:o, s:s}", "manifest", manifest, "seal", seal);
    text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    write_file("manifest.json", text, strlen(text));
    free(text);
}

static bool took(fs_status status, const fs_err *err)
{
    if (status == FS_OK)
        return true;
    if (status != FS_INVALID || !err->text[0]) {
        fprintf(stderr, "status %d, \"%s\"\n", status, err->text);
        abort();
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fs_arena *arena = fs_arena_create();
    exec_checkpoint c;
    fs_err err = {0};
    write_manifest(data, n);
    if (took(exec_weights_open(folder, arena, &err, &c), &err))
        for (int32_t v = 0; v < c.n; v++)
            for (int32_t i = 0; i < c.variables[v].pieces.n; i++) {
                const exec_kept *kept = &c.variables[v];
                void *values;
                fs_err why = {0};
                if (took(exec_weights_read(&c, kept, &kept->pieces.at[i],
                                           kept->dtype, &why, &values),
                         &why))
                    free(values);
            }
    fs_arena_destroy(arena);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most,
                               unsigned seed)
{
    return fuzz_mutate_json(data, n, most, seed);
}
