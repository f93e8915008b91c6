/* libFuzzer target: a file of tensors, as weights that a network is given. What
 * is read lies within the file. With FUZZ_SEEDS=DIR set it writes a file there
 * first. */
#include "config.h"
#include "fuzz.h"

#include "exec/safetensors.h"
#include "exec/weights.h"
#include "ir/build.h"

static ir_graph *make_graph(void)
{
    ir_graph *g = ir_graph_create("fuzz");
    const int64_t dim[2] = {3, 5};
    const char *const names[] = {"w", "b"};
    for (int32_t i = 0; i < 2; i++) {
        const int32_t t = ir_input(g, names[i], i ? IR_F16 : IR_F32,
                                   ir_shape_make(2 - i, dim + i), -1);
        g->tensors.at[t].role = IR_PARAM;
    }
    return g;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *seeds = getenv("FUZZ_SEEDS");
    (void)argc, (void)argv;
    if (!seeds)
        return 0;
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    int64_t bytes;
    ir_graph *g = make_graph();
    if (exec_weights_write(g, 1, fs_printf(arena, "%s/two", seeds), arena, &err,
                           &bytes) != FS_OK) {
        fprintf(stderr, "%s\n", err.text);
        exit(1);
    }
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
    return 0;
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

/* All bytes of each tensor are there. */
static void look_at(const exec_safetensors *file, int64_t n, fs_arena *arena)
{
    for (int32_t i = 0; i < file->n; i++) {
        const exec_saved *t = &file->at[i];
        fs_err err = {0};
        if (t->at < 8 || t->bytes < 0 || t->at > n - t->bytes ||
            t->bytes != ir_shape_count(&t->shape) * ir_dtype_bytes(t->dtype))
            abort();
        if (exec_read_bytes(file->file, file->path, t->at, t->bytes,
                            fs_alloc(arena, (size_t)t->bytes + 1, 1),
                            &err) != FS_OK)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *path = fuzz_file("input.safetensors", data, n);
    fs_arena *arena = fs_arena_create();
    exec_safetensors file;
    exec_checkpoint weights;
    fs_err err = {0}, other = {0}, unfit = {0};
    const fs_status status = exec_safetensors_open(path, arena, &err, &file);
    if (took(status, &err)) {
        look_at(&file, (int64_t)n, arena);
        exec_safetensors_close(&file);
    }
    if (exec_weights_open(path, arena, &other, &weights) != status)
        abort();
    ir_graph *g = make_graph();
    int32_t unused;
    const char *first;
    if (status == FS_OK &&
        took(exec_weights_check(&weights, g, &unfit, &unused, &first), &unfit))
        took(exec_weights_give(&weights, g, &unfit), &unfit);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
    return 0;
}

/* The text of the head is changed, and its length with it; or any byte. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most,
                               unsigned seed)
{
    enum { PREFIX = 8 };
    uint64_t length = 0;
    for (size_t i = 0; i < PREFIX && n >= PREFIX; i++)
        length |= (uint64_t)data[i] << 8 * i;
    if (n < PREFIX || length > n - PREFIX || most < n ||
        fuzz_draw(&seed, 4) == 0)
        return LLVMFuzzerMutate(data, n, most);
    const size_t rest = n - PREFIX - (size_t)length;
    uint8_t *text = malloc(most);
    memcpy(text, data + PREFIX, (size_t)length);
    const size_t now =
        fuzz_mutate_json(text, (size_t)length, most - PREFIX - rest, seed);
    memmove(data + PREFIX + now, data + PREFIX + length, rest);
    memcpy(data + PREFIX, text, now);
    free(text);
    for (size_t i = 0; i < PREFIX; i++)
        data[i] = (uint8_t)((uint64_t)now >> 8 * i);
    return PREFIX + now + rest;
}
