/* libFuzzer target: a cluster file, and behind its first byte 's' a synthetic
 * string. What is read can be written and read again. */
#include "config.h"
#include "fuzz.h"

#include "hw/cluster.h"

static void open_spec(const char *spec)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    hw_cluster *cluster, *again;
    const char *data = getenv("FS_DATA");
    fs_status status =
        hw_cluster_open(spec, data ? data : ".", arena, &err, &cluster);
    if (status != FS_OK && !(status == FS_INVALID && err.text[0])) {
        fprintf(stderr, "status %d, \"%s\"\n", status, err.text);
        abort();
    }
    if (status == FS_OK) {
        json_t *json = hw_cluster_to_json(cluster);
        if (hw_cluster_from_json("written", json, arena, &err, &again) !=
                FS_OK ||
            again->digest != cluster->digest) {
            fprintf(stderr, "read, but not again: %s\n", err.text);
            abort();
        }
        json_decref(json);
    }
    fs_arena_destroy(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char spec[300];
    if (n > 0 && data[0] == 's') {
        snprintf(spec, sizeof spec, "%.*s", (int)(n - 1),
                 (const char *)data + 1);
        /* A name of a file that is there is the file's case. */
        if (!strchr(spec, '/'))
            open_spec(spec);
    } else {
        open_spec(fuzz_file("input.json", data, n));
    }
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most,
                               unsigned seed)
{
    return fuzz_mutate_json(data, n, most, seed);
}
