/* libFuzzer target: the body of a request to a server of three inputs, behind a
 * first byte 'r' of one input as it lies in memory. What is taken has the
 * values that an answer of them, read again, has. */
#include "config.h"
#include "fuzz.h"

#include "cli/bodies.h"

static cli_served_tensor tensors[] = {
    {.name = "x", .dtype = IR_F32, .sample = {2, {2, 3}}, .below = -1},
    {.name = "ids", .dtype = IR_I32, .sample = {1, {4}}, .below = 50},
    {.name = "mask", .dtype = IR_BOOL, .sample = {0, {0}}, .below = -1}};

static cli_served make_served(bool raw, int first)
{
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        tensors[i].elements = ir_shape_count(&tensors[i].sample);
        tensors[i].bytes =
            tensors[i].elements * ir_dtype_bytes(tensors[i].dtype);
    }
    return (cli_served){.batch = 3,
                        .n_in = raw ? 1 : 3,
                        .n_out = raw ? 1 : 3,
                        .in = tensors + first,
                        .out = tensors + first};
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    static const char text[] =
        "{\"inputs\":{\"x\":[[1,2,3],[4.5,-1e9,0]],\"ids\":[0,49,1,2],"
        "\"mask\":[true]}}";
    const char *seeds = getenv("FUZZ_SEEDS");
    char path[600];
    (void)argc, (void)argv;
    if (!seeds)
        return 0;
    snprintf(path, sizeof path, "%s/one", seeds);
    FILE *file = fopen(path, "wb");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        abort();
    return 0;
}

/* An answer with these values, as a request. */
static void ask_again(const cli_served *served, cli_request *r)
{
    cli_request again = {0};
    cli_complaint complaint;
    size_t n;
    r->out = r->in;
    char *text = cli_body_write(served, r, &n);
    r->out = NULL;
    memcpy(strstr(text, "outputs"), " inputs", 7);
    json_t *root = json_loadb(text, n, 0, NULL);
    json_object_set(root, "inputs", json_object_get(root, " inputs"));
    json_object_del(root, " inputs");
    free(text);
    text = json_dumps(root, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(root);
    if (cli_body_read(served, text, strlen(text), false, &again, &complaint) !=
        FS_OK)
        abort();
    if (again.n != r->n)
        abort();
    for (int32_t i = 0; i < served->n_in; i++)
        if (memcmp(again.in[i], r->in[i],
                   (size_t)(r->n * served->in[i].bytes)) != 0)
            abort();
    cli_request_free(served, &again);
    free(text);
}

static bool is_finite(const cli_served *served, const cli_request *r)
{
    for (int64_t i = 0; i < r->n * served->in[0].elements; i++)
        if (served->in[0].dtype == IR_F32 &&
            !__builtin_isfinite(((const float *)r->in[0])[i]))
            return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const bool raw = n > 0 && data[0] == 'r';
    const cli_served served = make_served(raw, raw && n > 1 ? data[1] % 3 : 0);
    const size_t skip = raw ? (n > 1 ? 2 : 1) : 0;
    cli_request r = {0};
    cli_complaint complaint = {0};
    if ((int64_t)(n - skip) > cli_body_most_bytes(&served, raw))
        return 0; /* refused before it is read */
    if (cli_body_read(&served, (const char *)data + skip, n - skip, raw, &r,
                      &complaint) == FS_OK) {
        if (r.n < 1 || r.n > served.batch)
            abort();
        if (is_finite(&served, &r))
            ask_again(&served, &r);
        cli_request_free(&served, &r);
        return 0;
    }
    if (complaint.status < 400 || complaint.status > 499 ||
        !json_is_string(json_object_get(complaint.told, "error")))
        abort();
    json_decref(complaint.told);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most,
                               unsigned seed)
{
    return n > 0 && data[0] == 'r' ? LLVMFuzzerMutate(data, n, most)
                                   : fuzz_mutate_json(data, n, most, seed);
}
