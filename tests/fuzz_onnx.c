/* libFuzzer target: any bytes are a graph or one clear error, imported for
 * training and for inference. */
#include "config.h"
#include "fuzz_proto.h"

#include "onnx/import.h"

/* So small that what is not counted there shows as an allocation too large. */
enum { FOLDED_BYTES = 16 << 20 };

static void import(const char *path, bool infer)
{
    onnx_options options = {.infer = infer, .max_folded_bytes = FOLDED_BYTES};
    fs_err err = {0};
    onnx_model *model = NULL;
    ir_graph *graph = NULL;
    fs_status status = onnx_import(path, &options, &err, &model, &graph, NULL);
    if (status != FS_OK && !(status == FS_INVALID && err.text[0])) {
        fprintf(stderr, "status %d, \"%s\"\n", status, err.text);
        abort();
    }
    if (status == FS_OK && ir_graph_check(graph, &err) != FS_OK) {
        fprintf(stderr, "imported, but %s\n", err.text);
        abort();
    }
    if (status == FS_OK) {
        ir_graph_destroy(graph);
        onnx_model_close(model);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const char *path = fuzz_file("input.onnx", data, n);
    import(path, false);
    import(path, true);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most,
                               unsigned seed)
{
    return fuzz_mutate_proto(data, n, most, seed);
}
