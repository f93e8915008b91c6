/* What the fuzzing targets share: an input as a file, and changes to JSON that
 * keep it JSON, so that the reader behind the parser is reached. */
#ifndef FS_TESTS_FUZZ_H
#define FS_TESTS_FUZZ_H

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most,
                               unsigned seed);

static char fuzz_folder[256], fuzz_path[300];

static inline void fuzz_forget(void)
{
    if (fuzz_path[0])
        unlink(fuzz_path);
    rmdir(fuzz_folder);
}

/* The readers take paths: each input is written over the one before, alone in
 * a folder of its own. */
static inline const char *fuzz_file(const char *name, const uint8_t *data,
                                    size_t n)
{
    if (!fuzz_path[0]) {
        const char *temporary = getenv("TMPDIR");
        snprintf(fuzz_folder, sizeof fuzz_folder, "%s/flowsearch-fuzz-XXXXXX",
                 temporary ? temporary : "/tmp");
        if (!mkdtemp(fuzz_folder))
            abort();
        snprintf(fuzz_path, sizeof fuzz_path, "%s/%s", fuzz_folder, name);
        atexit(fuzz_forget);
    }
    FILE *file = fopen(fuzz_path, "wb");
    if (!file || fwrite(data, 1, n, file) != n || fclose(file) != 0)
        abort();
    return fuzz_path;
}

/* ---- JSON ---- */

static inline unsigned fuzz_draw(unsigned *seed, size_t below)
{
    *seed = *seed * 1103515245u + 12345u;
    return below ? (*seed >> 8) % (unsigned)below : 0;
}

static inline size_t fuzz_children(const json_t *at)
{
    return json_is_object(at) ? json_object_size(at) : json_array_size(at);
}

/* Numbers at and beyond the limits that readers have. */
static inline json_t *fuzz_number(const json_t *old, unsigned *seed)
{
    static const json_int_t whole[] = {
        0,  1,          2,         -1,        3,        7,         8,
        16, 64,         255,       1024,      1 << 20,  INT32_MAX, INT32_MIN,
        -2, UINT32_MAX, INT64_MAX, INT64_MIN, 10000000, 100000};
    static const double real[] = {0.5, -0.0, 1e308, -1, 1e-300, 1e18, 3.5};
    unsigned kind = fuzz_draw(seed, 4);
    if (kind == 0 && json_is_integer(old) &&
        llabs(json_integer_value(old)) < INT32_MAX)
        return json_integer(json_integer_value(old) + (int)fuzz_draw(seed, 5) -
                            2);
    if (kind == 1)
        return json_real(real[fuzz_draw(seed, sizeof real / sizeof *real)]);
    return json_integer(whole[fuzz_draw(seed, sizeof whole / sizeof *whole)]);
}

static inline json_t *fuzz_value(const json_t *old, unsigned *seed)
{
    static const char *const texts[] = {"", "a", "-1", "local", "1x1:cpu"};
    switch (fuzz_draw(seed, 8)) {
    case 0:
        return json_null();
    case 1:
        return json_string(texts[fuzz_draw(seed, 5)]);
    case 2:
        return json_array();
    case 3:
        return json_object();
    default:
        return fuzz_number(old, seed);
    }
}

/* Child i of `in` is dropped, doubled, exchanged or given another value. */
static inline void fuzz_child(json_t *in, size_t i, unsigned *seed)
{
    unsigned kind = fuzz_draw(seed, 8);
    if (json_is_array(in)) {
        json_t *old = json_array_get(in, i);
        json_t *other =
            json_array_get(in, fuzz_draw(seed, json_array_size(in)));
        if (kind == 0)
            json_array_remove(in, i);
        else if (kind == 1)
            json_array_insert_new(in, i, json_deep_copy(old));
        else if (kind == 2)
            json_array_set_new(in, i, json_deep_copy(other));
        else
            json_array_set_new(in, i, fuzz_value(old, seed));
        return;
    }
    void *at = json_object_iter(in);
    while (i-- > 0)
        at = json_object_iter_next(in, at);
    if (kind == 0)
        json_object_del(in, json_object_iter_key(at));
    else
        json_object_iter_set_new(in, at,
                                 fuzz_value(json_object_iter_value(at), seed));
}

static inline void fuzz_json(json_t *root, unsigned *seed)
{
    json_t *at = root;
    for (;;) {
        size_t n = fuzz_children(at);
        if (n == 0)
            return;
        size_t i = fuzz_draw(seed, n), k = i;
        json_t *child;
        if (json_is_array(at)) {
            child = json_array_get(at, i);
        } else {
            void *iter = json_object_iter(at);
            while (k-- > 0)
                iter = json_object_iter_next(at, iter);
            child = json_object_iter_value(iter);
        }
        if (fuzz_children(child) == 0 || fuzz_draw(seed, 8) == 0) {
            fuzz_child(at, i, seed);
            return;
        }
        at = child;
    }
}

/* For LLVMFuzzerCustomMutator: one in four changes is to the bytes. */
static inline size_t fuzz_mutate_json(uint8_t *data, size_t n, size_t most,
                                      unsigned seed)
{
    json_t *root = json_loadb((const char *)data, n, 0, NULL);
    if (!root || fuzz_draw(&seed, 4) == 0) {
        json_decref(root);
        return LLVMFuzzerMutate(data, n, most);
    }
    unsigned changes = 1 + fuzz_draw(&seed, 3);
    while (changes-- > 0)
        fuzz_json(root, &seed);
    size_t size = json_dumpb(root, (char *)data, most, JSON_COMPACT);
    json_decref(root);
    return size > 0 && size <= most ? size : LLVMFuzzerMutate(data, n, most);
}

#endif
