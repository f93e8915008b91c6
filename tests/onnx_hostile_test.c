/* Files that are cut, damaged or made to hurt: one clear error, or a graph. */
#include "config.h"

#include "base/hash.h"
#include "onnx/import.h"

#include "onnx_make.h"
#include "tap.h"

typedef struct bytes {
    unsigned char *at;
    size_t n;
} bytes;

static bytes read_dataset(const char *name)
{
    char path[600];
    const char *root = getenv("FS_SRCDIR");
    snprintf(path, sizeof path, "%s/datasets/%s", root ? root : "..", name);
    FILE *file = fopen(path, "rb");
    bytes out = {0};
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        perror(path);
        exit(3);
    }
    out.n = (size_t)ftell(file);
    rewind(file);
    out.at = malloc(out.n);
    if (fread(out.at, 1, out.n, file) != out.n)
        exit(3);
    fclose(file);
    return out;
}

/* Imports and forgets; the message (in err) when it fails. */
static fs_status import(const char *path, int64_t batch, fs_err *err)
{
    onnx_options options = {.batch = batch};
    onnx_model *model;
    ir_graph *graph;
    *err = (fs_err){0};
    fs_status status = onnx_import(path, &options, err, &model, &graph, NULL);
    if (status == FS_OK) {
        ir_graph_destroy(graph);
        onnx_model_close(model);
    }
    return status;
}

static fs_status import_bytes(const unsigned char *at, size_t n, fs_err *err)
{
    return import(write_file("damaged.onnx", at, n), 0, err);
}

/* FS_INVALID with the file's name in the message. */
static bool is_clean(fs_status status, const fs_err *err)
{
    return status == FS_INVALID && err->status == FS_INVALID &&
           strstr(err->text, "damaged.onnx") != NULL;
}

static void test_truncated(const char *name, size_t tries)
{
    bytes file = read_dataset(name);
    fs_err err;
    size_t bad = 0, imported = 0, step = file.n > tries ? file.n / tries : 1;
    for (size_t n = 0; n < file.n; n += step) {
        fs_status status = import_bytes(file.at, n, &err);
        imported += status == FS_OK;
        if (status != FS_OK && !is_clean(status, &err)) {
            printf("# %zu bytes: status %d, %s\n", n, status, err.text);
            bad++;
        }
    }
    tap_equal_int(bad, 0, "%s: every prefix fails with one clear error", name);
    tap_equal_int(imported, 0, "%s: no prefix imports", name);
    free(file.at);
}

static void test_flipped(const char *name, int tries)
{
    bytes file = read_dataset(name);
    uint64_t state = tap_seed(20240607);
    fs_err err;
    int bad = 0, good = 0;
    for (int i = 0; i < tries; i++) {
        unsigned char old[8];
        size_t at[8];
        int n = (int)fs_rand_below(&state, 8) + 1;
        for (int k = 0; k < n; k++) {
            /* Most of a model is weights: aim at the structure behind. */
            size_t low = fs_rand_below(&state, 4) ? 0 : file.n * 3 / 4;
            at[k] =
                low + (size_t)fs_rand_below(&state, (int64_t)(file.n - low));
            old[k] = file.at[at[k]];
            file.at[at[k]] = (unsigned char)fs_rand(&state);
        }
        fs_status status = import_bytes(file.at, file.n, &err);
        good += status == FS_OK;
        if (status != FS_OK && !is_clean(status, &err)) {
            printf("# try %d: status %d, %s\n", i, status, err.text);
            bad++;
        }
        for (int k = n - 1; k >= 0; k--)
            file.at[at[k]] = old[k];
    }
    tap_equal_int(bad, 0, "%s: %d damaged copies import (%d) or fail cleanly",
                  name, tries, good);
    free(file.at);
}

/* x (2, 3) -> op -> y, with what the caller put into graph and node. */
static pb *finish(pb *graph, pb *node)
{
    static const int64_t dim[] = {2, 3};
    if (node)
        pb_take(graph, 1, node);
    pb_take(graph, 11, pb_value("x", 1, 2, dim, NULL));
    pb_take(graph, 12, pb_value("y", 1, 2, dim, NULL));
    return pb_model(graph, 17);
}

static void refused(pb *model, const char *says, const char *what)
{
    fs_err err;
    fs_status status = import(write_model("damaged.onnx", model), 0, &err);
    tap_ok(is_clean(status, &err) && strstr(err.text, says), "%s: %s", what,
           err.text);
}

static void accepted(pb *model, const char *what)
{
    fs_err err;
    fs_status status = import(write_model("damaged.onnx", model), 0, &err);
    tap_ok(status == FS_OK, "%s %s", what, err.text);
}

static void test_unknown(void)
{
    refused(finish(pb_new(), pb_node("/n/odd", "StringNormalizer", "x", "y")),
            "\"/n/odd\" (StringNormalizer): operator \"StringNormalizer\" of "
            "domain \"ai.onnx\"",
            "an unknown operator is named with its node");
    refused(finish(pb_new(), pb_node("bn", "BatchNormalization", "x", "y")),
            "BatchNormalization", "so is batch normalisation");
    pb *node = pb_node("f", "FastGelu", "x", "y");
    pb_text(node, 7, "com.microsoft");
    refused(finish(pb_new(), node), "\"com.microsoft\"",
            "an operator of another domain");
}

static void test_structure(void)
{
    fs_err err;
    refused(finish(pb_new(), pb_node("r", "Relu", "z", "y")),
            "\"z\" is made by no node", "an input from nowhere");
    pb *graph = pb_new();
    pb_take(graph, 1, pb_node("r", "Relu", "x", "y"));
    refused(finish(graph, pb_node("s", "Relu", "x", "y")), "made twice",
            "a value made twice");
    graph = pb_new();
    pb_take(graph, 1, pb_node("a", "Relu", "b", "y"));
    refused(finish(graph, pb_node("b", "Relu", "y", "b")),
            "\"b\" is made by node 1", "a cycle");
    const int64_t none[] = {0, 3};
    graph = pb_new();
    pb_take(graph, 1, pb_node("r", "Relu", "e", "y"));
    pb_take(graph, 11, pb_value("e", 1, 2, none, NULL));
    pb_take(graph, 12, pb_value("y", 1, 2, none, NULL));
    refused(pb_model(graph, 17), "as is input \"e\": 0x3",
            "an input without elements");
    refused(finish(pb_new(), pb_node("r", "Relu", "", "y")), "missing",
            "a node without inputs");
    refused(finish(pb_new(), pb_node("r", "Relu", "x", "z")), "\"y\"",
            "an output that nobody makes");
    refused(finish(pb_new(), pb_node("r\n", "Relu", "x", "y")), "printable",
            "a name with control characters");
    refused(finish(pb_new(), pb_node("\xc0\xaf", "Relu", "x", "y")),
            "printable", "a name that is no UTF-8");
    refused(finish(pb_new(), pb_node("r\xc2\x9b", "Relu", "x", "y")),
            "printable", "a name with a control character of two bytes");
    refused(finish(pb_new(), pb_node("\xe2\x80\xae", "Relu", "x", "y")),
            "printable", "a name that turns the direction of text");
    tap_ok(import(make_folder(), 0, &err) == FS_INVALID, "a folder: %s",
           err.text);
    tap_ok(import(make_path("none.onnx"), 0, &err) == FS_INVALID,
           "a missing file: %s", err.text);
    tap_ok(import(write_file("empty.onnx", "", 0), 0, &err) == FS_INVALID,
           "an empty file: %s", err.text);
}

/* A graph inside an attribute inside a graph, and so on. */
static void test_nested(void)
{
    size_t depth = 10000, n = 0, room = depth * 16 + 64;
    unsigned char *at = malloc(room);
    fs_err err;
    /* Built from the inside: the lengths in front grow. */
    size_t end = room;
    for (size_t i = 0; i < depth; i++) {
        static const int fields[] = {6, 5, 1}; /* g, attribute, node */
        for (int k = 0; k < 3; k++) {
            pb head = {0};
            pb_varint(&head, (uint64_t)fields[k] << 3 | 2);
            pb_varint(&head, n);
            end -= head.n;
            memcpy(at + end, head.at, head.n);
            n += head.n;
        }
    }
    pb *head = pb_new();
    pb_int(head, 1, 8);
    pb_varint(head, 7 << 3 | 2);
    pb_varint(head, n);
    end -= head->n;
    memcpy(at + end, head->at, head->n);
    fs_status status = import_bytes(at + end, room - end, &err);
    tap_ok(is_clean(status, &err), "10,000 nested graphs: %s", err.text);
    free(head);
    free(at);
}

/* A chain: what takes time or memory per node beyond a little would show. */
static void test_many(void)
{
    enum { NODES = 1000000, NODE_BYTES = 64 };
    static const int64_t dim[] = {2, 3};
    pb *ends = pb_new();
    pb_take(ends, 11, pb_value("x", 1, 2, dim, NULL));
    pb_take(ends, 12, pb_value("y", 1, 2, dim, NULL));
    const size_t front = 64;
    unsigned char *at = malloc(front + NODES * NODE_BYTES + ends->n);
    size_t n = front;
    for (int i = 0; i < NODES; i++) {
        char in[16], out[16];
        pb *node;
        snprintf(in, sizeof in, i ? "v%d" : "x", i);
        snprintf(out, sizeof out, i < NODES - 1 ? "v%d" : "y", i + 1);
        node = pb_node("", "Relu", in, out);
        at[n++] = 1 << 3 | 2;
        at[n++] = (unsigned char)node->n;
        memcpy(at + n, node->at, node->n);
        n += node->n;
        free(node);
    }
    memcpy(at + n, ends->at, ends->n);
    n += ends->n;
    pb *head = pb_new(), *set = pb_new();
    fs_err err;
    pb_int(head, 1, 8);
    pb_int(set, 2, 17);
    pb_take(head, 8, set);
    pb_varint(head, 7 << 3 | 2);
    pb_varint(head, n - front);
    memcpy(at + front - head->n, head->at, head->n);
    const fs_status status =
        import_bytes(at + front - head->n, n - front + head->n, &err);
    tap_ok(status == FS_OK || is_clean(status, &err),
           "a million nodes: status %d %s", status, err.text);
    free(ends);
    free(head);
    free(at);
}

/* y = x + w for a tensor w given by its message. */
static pb *with_tensor(pb *tensor)
{
    pb *graph = pb_new();
    pb_take(graph, 5, tensor);
    return finish(graph, pb_node("add", "Add", "x,w", "y"));
}

static void test_tensors(void)
{
    static const float data[8] = {1, 2, 3, 4, 5, 6};
    static const int64_t good[] = {2, 3};
    static const int64_t wide[] = {INT64_C(1) << 32, INT64_C(1) << 32};
    static const int64_t zero[] = {0, INT64_C(1) << 62, 8};
    static const int64_t minus[] = {2, -3};
    static const int64_t nine[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    accepted(with_tensor(pb_tensor("w", 1, 2, good, data, 24)),
             "raw data of the right length, wherever it lies");
    refused(with_tensor(pb_tensor("w", 1, 2, good, data, 20)), "\"w\"",
            "raw data too short");
    refused(with_tensor(pb_tensor("w", 1, 2, good, data, 28)), "\"w\"",
            "raw data too long");
    refused(with_tensor(pb_tensor("w", 1, 2, good, NULL, 0)), "no data",
            "no data at all");
    refused(with_tensor(pb_tensor("w", 1, 2, wide, data, 24)), "overflow",
            "dimensions whose product overflows");
    refused(with_tensor(pb_tensor("w", 1, 3, zero, data, 0)), "overflow",
            "a zero does not hide an overflow");
    refused(with_tensor(pb_tensor("w", 1, 2, minus, data, 24)), "negative",
            "a negative dimension");
    refused(with_tensor(pb_tensor("w", 1, 9, nine, data, 4)),
            "more than 8 dimensions are not supported", "nine dimensions");
    refused(with_tensor(pb_tensor("w", 14, 2, good, data, 12)), "COMPLEX64",
            "a type that is not supported is named");
    refused(with_tensor(pb_tensor("w", 99, 2, good, data, 24)), "unknown",
            "a type that does not exist");
}

static void test_typed_tensors(void)
{
    static const int64_t good[] = {2, 3};
    static const float data[6] = {1, 2, 3, 4, 5, 6};
    pb *t = pb_tensor("w", 1, 2, good, NULL, 0);
    pb_bytes(t, 4, data, 24);
    accepted(with_tensor(t), "packed float_data");
    t = pb_tensor("w", 1, 2, good, NULL, 0);
    for (int i = 0; i < 6; i++) { /* one by one: wire type 5 */
        pb_varint(t, 4 << 3 | 5);
        memcpy(t->at + t->n, &data[i], 4);
        t->n += 4;
    }
    accepted(with_tensor(t), "float_data one by one");
    t = pb_tensor("w", 1, 2, good, NULL, 0);
    pb_bytes(t, 4, data, 20);
    refused(with_tensor(t), "another length", "float_data too short");
    t = pb_tensor("w", 1, 2, good, NULL, 0);
    pb_bytes(t, 4, data, 23);
    refused(with_tensor(t), "another length", "float_data cut in a number");
}

/* w in a side file; NULL offset or length are left out. */
static pb *external(const char *location, const char *offset,
                    const char *length)
{
    static const int64_t good[] = {2, 3};
    const char *pairs[][2] = {
        {"location", location}, {"offset", offset}, {"length", length}};
    pb *t = pb_tensor("w", 1, 2, good, NULL, 0);
    for (int i = 0; i < 3; i++) {
        if (!pairs[i][1])
            continue;
        pb *entry = pb_new();
        pb_text(entry, 1, pairs[i][0]);
        pb_text(entry, 2, pairs[i][1]);
        pb_take(t, 13, entry);
    }
    pb_int(t, 14, 1);
    return with_tensor(t);
}

static void test_digest(void)
{
    static const float data[12] = {1};
    uint64_t digest[3] = {0};
    fs_err err = {0};
    const char *path = write_model("side.onnx", external("side2.bin", 0, 0));
    for (int i = 0; i < 3; i++) {
        write_file("side2.bin", data + 6 * (i == 2), 24);
        onnx_digest(path, &err, &digest[i]);
    }
    tap_ok(digest[0] == digest[1] && digest[0] && digest[2] &&
               digest[1] != digest[2],
           "the digest covers the side files %s", err.text);
}

static void test_external(void)
{
    static const float data[8];
    write_file("side.bin", data, sizeof data);
    if (mkdir(make_path("sub"), 0700) != 0 ||
        symlink("side.bin", make_path("link.bin")) != 0 ||
        symlink("/tmp", make_path("out")) != 0)
        perror("setup");
    write_file("sub/side.bin", data, sizeof data);
    accepted(external("side.bin", NULL, NULL), "external data at the start");
    accepted(external("sub/side.bin", "8", "24"), "external data behind");
    accepted(external("./side.bin", "1", NULL), "external data not aligned");
    refused(external("/etc/passwd", NULL, NULL), "relative", "absolute path");
    refused(external("../side.bin", NULL, NULL), "relative", "a parent folder");
    refused(external("sub/../../x", NULL, NULL), "relative",
            "a parent folder inside the path");
    refused(external("..", NULL, NULL), "relative", "the parent itself");
    refused(external("", NULL, NULL), "relative", "an empty path");
    refused(external("link.bin", NULL, NULL), "symbolic", "a symbolic link");
    refused(external("out/x", NULL, NULL), "symbolic",
            "a folder that is a symbolic link");
    refused(external("none.bin", NULL, NULL),
            "damaged.onnx: tensor \"w\": external data \"none.bin\": No such",
            "a missing file");
    refused(external("sub", NULL, NULL),
            "damaged.onnx: tensor \"w\": external data: sub: not a regular",
            "a folder for a side file");
    refused(external(NULL, NULL, NULL),
            "tensor \"w\": external data has no location", "no location");
    refused(external("side.bin", "16", "24"),
            "leaves its external data \"side.bin\" of 32 bytes",
            "an end past the file");
    refused(external("side.bin", "18446744073709551608", NULL), "leaves",
            "an offset that wraps");
    refused(external("side.bin", "99999999999999999999999", NULL), "number",
            "an offset that overflows");
    refused(external("side.bin", "-8", NULL), "number", "a negative offset");
    refused(external("side.bin", "0", "20"), "length", "a wrong length");
}

static void test_bombs(void)
{
    static const int64_t large[] = {INT64_C(1) << 40};
    static const int64_t wide[] = {INT64_C(1) << 40, INT64_C(1) << 40};
    static const int64_t empty[] = {INT64_C(1) << 62, 0};
    const struct {
        const int64_t *dim;
        int64_t n;
        const char *says;
    } cases[] = {{large, 1, "do not broadcast"},
                 {wide, 2, "overflow"},
                 {empty, 2, "overflow"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pb *graph = pb_new();
        pb_take(graph, 5, pb_ints("n", cases[i].n, cases[i].dim));
        pb_take(graph, 1, pb_node("fill", "ConstantOfShape", "n", "c"));
        refused(finish(graph, pb_node("add", "Add", "x,c", "y")), cases[i].says,
                "a constant of an absurd shape");
    }
    /* No element, so nothing was allocated, and still no product to take. */
    static const int64_t none[] = {0},
                         shape[] = {INT64_C(1) << 40, INT64_C(1) << 40, 0};
    pb *seen = pb_new();
    pb *node = pb_node("view", "Reshape", "none,shape", "c");
    pb_attr_int(node, "allowzero", 1);
    pb_take(seen, 5, pb_ints("n", 1, none));
    pb_take(seen, 1, pb_node("fill", "ConstantOfShape", "n", "none"));
    pb_take(seen, 5, pb_ints("shape", 3, shape));
    pb_take(seen, 1, node);
    refused(finish(seen, pb_node("add", "Add", "x,c", "y")), "overflow",
            "an empty constant seen in an absurd shape");
    /* Doubling: forty nodes that each join what they got with itself; from
     * some size on in the graph, not in memory. */
    static const int64_t one[] = {1};
    pb *graph = pb_new();
    pb_take(graph, 5, pb_ints("v0", 1, one));
    for (int i = 0; i < 40; i++) {
        char in[32], out[32];
        snprintf(in, sizeof in, "v%d,v%d", i, i);
        snprintf(out, sizeof out, "v%d", i + 1);
        pb *join = pb_node(out, "Concat", in, out);
        pb_attr_int(join, "axis", 0);
        pb_take(graph, 1, join);
    }
    refused(finish(graph, pb_node("add", "Add", "x,v40", "y")), "is i64",
            "constants that double forty times");
}

/* A call of local:f0 with functions after it. */
static pb *calls(void)
{
    pb *node = pb_node("f", "f0", "x", "y");
    pb_text(node, 7, "local");
    return finish(pb_new(), node);
}

/* Function local:NAME(a) -> b, whose body calls `op` n times in a row. */
static pb *function(const char *name, const char *op, int n)
{
    pb *out = pb_new();
    pb_text(out, 1, name);
    pb_text(out, 4, "a");
    pb_text(out, 5, "b");
    for (int i = 0; i < n; i++) {
        char in[16], to[16];
        snprintf(in, sizeof in, i ? "v%d" : "a", i);
        snprintf(to, sizeof to, i < n - 1 ? "v%d" : "b", i + 1);
        pb *node = pb_node("", op, in, to);
        pb_text(node, 7, op[0] == 'f' ? "local" : "");
        pb_take(out, 7, node);
    }
    pb_text(out, 10, "local");
    return out;
}

/* Function local:f0(a, low, high) -> b: Clip of them, then Add of b and the
 * missing `low` when it is to fail. */
static pb *clips(bool adds)
{
    pb *out = pb_new();
    pb_text(out, 1, "f0");
    pb_text(out, 4, "a");
    pb_text(out, 4, "low");
    pb_text(out, 4, "high");
    pb_text(out, 5, "b");
    pb_take(out, 7, pb_node("", "Clip", "a,low,high", adds ? "c" : "b"));
    if (adds)
        pb_take(out, 7, pb_node("", "Add", "c,low", "b"));
    pb_text(out, 10, "local");
    return out;
}

static void test_left_out(void)
{
    pb *model = calls();
    pb_take(model, 25, clips(false));
    accepted(model, "a call that leaves out optional inputs of the body");
    model = calls();
    pb_take(model, 25, clips(true));
    refused(model, "(Add): ", "a call that leaves out an input the body needs");
}

static void test_functions(void)
{
    pb *model = calls();
    pb_take(model, 25, function("f0", "Relu", 3));
    accepted(model, "a local function");
    model = calls();
    pb_take(model, 25, function("f0", "Relu", 0));
    refused(model, "made by no node", "a function that makes nothing");
    model = calls();
    pb_take(model, 25, function("f0", "f0", 1));
    refused(model, ": function \"f0\" calls itself",
            "a function that calls itself");
    model = calls();
    for (int i = 0; i < 30; i++) {
        char name[8], next[8];
        snprintf(name, sizeof name, "f%d", i);
        snprintf(next, sizeof next, "f%d", i + 1);
        pb_take(model, 25, function(name, i < 29 ? next : "Relu", 4));
    }
    refused(model, "more than", "4^30 calls");
}

/* Loop of `trips` around a body of the node `inner` and, when `trips` is 0,
 * without a count. */
static pb *loop_of(int64_t trips, pb *inner)
{
    static const int64_t dim[] = {2, 3}, one = 1;
    pb *body = pb_new(), *attr = pb_new();
    pb_take(body, 1, pb_node("", "Identity", "c", "c2"));
    pb_take(body, 1, inner);
    pb_take(body, 11, pb_value("i", 7, 0, NULL, NULL));
    pb_take(body, 11, pb_value("c", 9, 0, NULL, NULL));
    pb_take(body, 11, pb_value("a", 1, 2, dim, NULL));
    pb_take(body, 12, pb_value("c2", 9, 0, NULL, NULL));
    pb_take(body, 12, pb_value("b", 1, 2, dim, NULL));
    if (trips)
        pb_take(body, 5, pb_ints("n", 1, &trips));
    else
        pb_take(body, 5, pb_ints("n", 1, &one));
    pb_text(attr, 1, "body");
    pb_int(attr, 20, 5);
    pb_take(attr, 6, body);
    pb *node = pb_node("loop", "Loop", trips ? "n,,a" : ",,a", "b");
    pb_take(node, 5, attr);
    return node;
}

/* The model: x goes in as "a", "b" comes out as y. */
static pb *looped(int64_t trips, pb *loop)
{
    pb *graph = pb_new();
    pb_take(graph, 5, pb_ints("n", 1, &trips));
    pb_take(graph, 1, pb_node("", "Identity", "x", "a"));
    pb_take(graph, 1, loop);
    return finish(graph, pb_node("", "Identity", "b", "y"));
}

static void test_loops(void)
{
    static const int64_t many = INT64_C(1000000000000000000);
    accepted(looped(7, loop_of(7, pb_node("", "Relu", "a", "b"))),
             "a loop of seven turns");
    refused(looped(many, loop_of(many, pb_node("", "Relu", "a", "b"))),
            "more than", "a loop of 10^18 turns");
    refused(looped(many, loop_of(many, pb_node("", "Identity", "a", "b"))),
            "more than", "one that does nothing");
    refused(looped(1, loop_of(0, pb_node("", "Relu", "a", "b"))), "more than",
            "a loop that never ends");
    pb *loop = pb_node("", "Relu", "a", "b");
    for (int i = 0; i < 5; i++)
        loop = loop_of(1000, loop);
    refused(looped(1000, loop), "more than", "loops in loops");
    loop = pb_node("", "Relu", "a", "b");
    for (int i = 0; i < 40; i++)
        loop = loop_of(1, loop);
    refused(looped(1, loop), "nest deeper", "forty loops of one turn");
    pb *node = pb_node("l", "Loop", "n,,a", "b");
    refused(looped(1, node), "\"body\" is missing", "a loop without a body");
}

static void test_divisions(void)
{
    static const int64_t zero = 0, least = INT64_MIN, minus = -1;
    const char *ops[] = {"Div", "Mod"};
    for (int i = 0; i < 2; i++) {
        pb *graph = pb_new();
        pb_take(graph, 5, pb_ints("a", 1, &least));
        pb_take(graph, 5, pb_ints("zero", 1, &zero));
        pb_take(graph, 1, pb_node("d", ops[i], "a,zero", "c"));
        refused(finish(graph, pb_node("r", "Reshape", "x,c", "y")),
                "division by zero", "a division by zero");
        graph = pb_new();
        pb_take(graph, 5, pb_ints("a", 1, &least));
        pb_take(graph, 5, pb_ints("minus", 1, &minus));
        pb_take(graph, 1, pb_node("d", ops[i], "a,minus", "c"));
        refused(finish(graph, pb_node("r", "Reshape", "x,c", "y")), "\"r\"",
                "the division that overflows");
    }
}

int main(void)
{
    test_truncated("train_cases/mlp/model.onnx", 4000);
    test_truncated("train_cases/gpt_tiny/model.onnx", 400);
    test_truncated("models/gpt_bytes.dyn.onnx", 60);
    test_flipped("train_cases/mlp/model.onnx", 1500);
    test_flipped("train_cases/lenet/model.onnx", 500);
    test_flipped("train_cases/gpt_tiny/model.onnx", 500);
    test_unknown();
    test_structure();
    test_nested();
    test_many();
    test_tensors();
    test_typed_tensors();
    test_external();
    test_digest();
    test_bombs();
    test_functions();
    test_left_out();
    test_loops();
    test_divisions();
    remove_folder();
    return tap_done();
}
