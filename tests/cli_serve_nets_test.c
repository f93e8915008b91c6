/* Networks of all kinds, served: several inputs and outputs, floats and ids. By
 * what GET /v1/model says a client makes their inputs, and the oracle is `run
 * --outputs` on the same, bit for bit. */
#include "config.h"
#include "tests/serving.h"

enum { BATCH = 4, MOST = 8 };

/* An input: BATCH samples, as the file for `run` has them. */
typedef struct input {
    const char *name;
    int is_float;
    long below, elements;
    float *floats;
    int64_t *whole;
    int rank;
    long dim[8]; /* of a sample */
} input;

static unsigned int state;

static long draw(long below)
{
    state = state * 1103515245 + 12345;
    return (long)((state >> 8) % (unsigned int)below);
}

static input describe(const json_t *row)
{
    const json_t *shape = json_object_get(row, "shape");
    const char *dtype = json_string_value(json_object_get(row, "dtype"));
    input in = {.name = json_string_value(json_object_get(row, "name")),
                .is_float = dtype[0] == 'f',
                .below =
                    (long)json_integer_value(json_object_get(row, "below")),
                .rank = (int)json_array_size(shape),
                .elements = 1};
    for (int i = 0; i < in.rank; i++)
        in.elements *= in.dim[i] =
            (long)json_integer_value(json_array_get(shape, (size_t)i));
    in.floats = calloc((size_t)(BATCH * in.elements), sizeof *in.floats);
    in.whole = calloc((size_t)(BATCH * in.elements), sizeof *in.whole);
    for (long i = 0; i < BATCH * in.elements; i++)
        if (in.is_float)
            in.floats[i] = (float)(draw(2000) - 1000) / 777;
        else
            in.whole[i] = draw(in.below > 0 ? in.below : 2);
    return in;
}

static size_t varint(unsigned char *out, unsigned long n)
{
    size_t bytes = 0;
    for (; n > 127; n >>= 7)
        out[bytes++] = (unsigned char)(n | 128);
    out[bytes++] = (unsigned char)n;
    return bytes;
}

/* A TensorProto: dims (1), data_type (2), raw_data (9). */
static void write_tensor(const input *in, int k)
{
    unsigned char head[200];
    char path[700];
    size_t n = 0;
    const size_t bytes = (size_t)(BATCH * in->elements) *
                         (in->is_float ? sizeof(float) : sizeof(int64_t));
    for (int i = -1; i < in->rank; i++) {
        head[n++] = 1 << 3;
        n += varint(head + n,
                    i < 0 ? (unsigned long)BATCH : (unsigned long)in->dim[i]);
    }
    head[n++] = 2 << 3;
    n += varint(head + n, in->is_float ? 1 : 7);
    head[n++] = 9 << 3 | 2;
    n += varint(head + n, bytes);
    snprintf(path, sizeof path, "%s/in.d/input_%d.pb", cli_scratch, k);
    FILE *file = fopen(path, "wb");
    fwrite(head, 1, n, file);
    fwrite(in->is_float ? (void *)in->floats : (void *)in->whole, 1, bytes,
           file);
    fclose(file);
}

/* All elements of samples k .. k + n - 1 in one list. */
static json_t *list_of(const input *in, int k, int n)
{
    json_t *list = json_array();
    for (long i = k * in->elements; i < (k + n) * in->elements; i++)
        json_array_append_new(list, in->is_float
                                        ? json_real((double)in->floats[i])
                                        : json_integer(in->whole[i]));
    return list;
}

static http_answer ask(int port, const input *in, int n_in, int k, int n)
{
    json_t *inputs = json_object();
    for (int i = 0; i < n_in; i++)
        json_object_set_new(inputs, in[i].name, list_of(&in[i], k, n));
    json_t *root = json_pack("{s:o}", "inputs", inputs);
    char *body = json_dumps(root, JSON_COMPACT);
    http_answer a = http_post(port, body);
    free(body);
    json_decref(root);
    return a;
}

static long leaves(const json_t *value, float *into, long n, long most)
{
    if (json_is_number(value) && n < most)
        into[n] = (float)json_number_value(value);
    if (!json_is_array(value))
        return n + 1;
    for (size_t i = 0; i < json_array_size(value); i++)
        n = leaves(json_array_get(value, i), into, n, most);
    return n;
}

/* Is output `row` of samples k .. k + n - 1 that of the file? */
static int is_right(const http_answer *a, const json_t *row, int k, int n)
{
    const char *name = json_string_value(json_object_get(row, "name"));
    const json_t *shape = json_object_get(row, "shape");
    char file[300];
    long each = 1;
    for (size_t i = 0; i < json_array_size(shape); i++)
        each *= (long)json_integer_value(json_array_get(shape, i));
    const size_t all = (size_t)(BATCH * each) * sizeof(float);
    float *wanted = malloc(all), *got = malloc(all);
    json_t *root = a->body ? json_loads(a->body, 0, NULL) : NULL;
    const json_t *values =
        json_object_get(json_object_get(root, "outputs"), name);
    snprintf(file, sizeof file, "out.d/%s.npy", name);
    const int good =
        a->status == 200 && read_npy(file, wanted, all) &&
        leaves(values, got, 0, BATCH * each) == n * each &&
        memcmp(got, wanted + k * each, (size_t)(n * each) * sizeof *got) == 0;
    if (!good)
        printf("# %s of sample %d, %d: status %d: %.200s\n", name, k, n,
               a->status, a->body ? a->body : "");
    json_decref(root);
    free(wanted);
    free(got);
    return good;
}

static void test_network(const char *spec, const char *recipe)
{
    static const struct {
        int k, n;
    } asked[] = {{0, 1}, {2, 1}, {3, 1}, {0, 2}, {1, 3}, {0, BATCH}};
    char command[1200];
    input in[MOST];
    int port, n_in = 0, right = 0, wanted = 0;
    cli_answer *planned = cli("plan %s --mode infer --cluster local --batch 4 "
                              "--ranks %s -o $D/p.json",
                              spec, recipe);
    if (planned->status != 0)
        cli_show(planned);
    snprintf(command, sizeof command, "rm -rf '%s'/*.d; mkdir '%s'/in.d",
             cli_scratch, cli_scratch);
    shell(command);
    pid_t child = serve("", &port);
    http_answer a = http_get(port, "/v1/model");
    json_t *model = json_loads(a.body ? a.body : "", 0, NULL);
    const json_t *inputs = json_object_get(model, "inputs");
    const json_t *outputs = json_object_get(model, "outputs");
    for (; n_in < (int)json_array_size(inputs) && n_in < MOST; n_in++) {
        in[n_in] = describe(json_array_get(inputs, (size_t)n_in));
        write_tensor(&in[n_in], n_in);
    }
    cli_answer *ran = cli("run $D/p.json --data $D/in.d --steps 1 --outputs "
                          "$D/out.d");
    if (ran->status != 0)
        cli_show(ran);
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        http_answer got = ask(port, in, n_in, asked[i].k, asked[i].n);
        for (size_t o = 0; o < json_array_size(outputs); o++, wanted++)
            right += is_right(&got, json_array_get(outputs, o), asked[i].k,
                              asked[i].n);
        free(got.body);
    }
    const int status = end(child)->status;
    tap_ok(wanted > 0 && right == wanted && status == 0,
           "%s --ranks %s: %d of %d outputs of %d inputs are those of run, bit "
           "for bit",
           spec, recipe, right, wanted, n_in);
    for (int i = 0; i < n_in; i++) {
        free(in[i].floats);
        free(in[i].whole);
    }
    json_decref(model);
    free(a.body);
}

int main(void)
{
    cli_begin_scratch("cli_serve_nets");
    state = (unsigned int)tap_seed(1);
    test_network("zoo:wide_deep,rows=50,hidden=16,layers=2", "2 --dp 2");
    test_network("zoo:bert,layers=1,hidden=32,heads=4,vocab=64,seq=16",
                 "2 --tp 2");
    test_network("zoo:resnet,depth=18,size=32,width=8", "1");
    test_network("zoo:resnet,depth=18,size=32,width=8",
                 "2 --pp 2 --micro-batches 2");
    test_network("zoo:lstm,hidden=16,vocab=64,seq=8", "2 --dp 2");
    test_network("zoo:moe,layers=1,hidden=32,heads=4,vocab=64,seq=16", "1");
    test_network("zoo:mlp", "1");
    cli_end_scratch();
    return tap_done();
}
