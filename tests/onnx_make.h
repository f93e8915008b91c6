/* Writes small ONNX files, good and bad, for tests. */
#ifndef FS_TESTS_ONNX_MAKE_H
#define FS_TESTS_ONNX_MAKE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A message being written. */
typedef struct pb {
    size_t n;
    unsigned char at[64 * 1024];
} pb;

static inline void pb_varint(pb *out, uint64_t value)
{
    do {
        out->at[out->n++] =
            (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
        value >>= 7;
    } while (value);
}

static inline void pb_bytes(pb *out, int field, const void *data, size_t n)
{
    pb_varint(out, (uint64_t)field << 3 | 2);
    pb_varint(out, n);
    if (n)
        memcpy(out->at + out->n, data, n);
    out->n += n;
}

static inline void pb_text(pb *out, int field, const char *text)
{
    pb_bytes(out, field, text, text ? strlen(text) : 0);
}

static inline void pb_int(pb *out, int field, int64_t value)
{
    pb_varint(out, (uint64_t)field << 3);
    pb_varint(out, (uint64_t)value);
}

static inline void pb_float(pb *out, int field, float value)
{
    pb_varint(out, (uint64_t)field << 3 | 5);
    memcpy(out->at + out->n, &value, sizeof value);
    out->n += sizeof value;
}

static inline void pb_message(pb *out, int field, const pb *in)
{
    pb_bytes(out, field, in->at, in->n);
}

/* A message on the heap; free() it. */
static inline pb *pb_new(void)
{
    pb *out = malloc(sizeof *out);
    out->n = 0;
    return out;
}

/* TensorProto with raw_data. */
static inline pb *pb_tensor(const char *name, int dtype, int rank,
                            const int64_t *dim, const void *raw, size_t bytes)
{
    pb *t = pb_new();
    for (int i = 0; i < rank; i++)
        pb_int(t, 1, dim[i]);
    pb_int(t, 2, dtype);
    pb_text(t, 8, name);
    if (raw)
        pb_bytes(t, 9, raw, bytes);
    return t;
}

static inline void pb_take(pb *out, int field, pb *in)
{
    pb_message(out, field, in);
    free(in);
}

static inline pb *pb_floats(const char *name, int64_t n, const float *data)
{
    return pb_tensor(name, 1, 1, &n, data, (size_t)n * sizeof *data);
}

static inline pb *pb_ints(const char *name, int64_t n, const int64_t *data)
{
    return pb_tensor(name, 7, 1, &n, data, (size_t)n * sizeof *data);
}

/* "Op in0,in1 out0,out1": a node called NAME; attributes may follow. */
static inline pb *pb_node(const char *name, const char *op, const char *in,
                          const char *out)
{
    pb *node = pb_new();
    const char *lists[] = {in, out};
    for (int k = 0; k < 2; k++)
        for (const char *at = lists[k]; *lists[k]; at++) {
            size_t n = strcspn(at, ",");
            pb_bytes(node, 1 + k, at, n);
            at += n;
            if (!*at)
                break;
        }
    pb_text(node, 3, name);
    pb_text(node, 4, op);
    return node;
}

static inline void pb_attr_int(pb *node, const char *name, int64_t value)
{
    pb *attr = pb_new();
    pb_text(attr, 1, name);
    pb_int(attr, 3, value);
    pb_int(attr, 20, 2);
    pb_take(node, 5, attr);
}

static inline void pb_attr_text(pb *node, const char *name, const char *value)
{
    pb *attr = pb_new();
    pb_text(attr, 1, name);
    pb_text(attr, 4, value);
    pb_int(attr, 20, 3);
    pb_take(node, 5, attr);
}

static inline void pb_attr_ints(pb *node, const char *name, int n,
                                const int64_t *value)
{
    pb *attr = pb_new();
    pb_text(attr, 1, name);
    for (int i = 0; i < n; i++)
        pb_int(attr, 8, value[i]);
    pb_int(attr, 20, 7);
    pb_take(node, 5, attr);
}

/* ValueInfoProto; a dimension of -1 is called `symbol`, a rank of -1 is not
 * said. */
static inline pb *pb_value(const char *name, int dtype, int rank,
                           const int64_t *dim, const char *symbol)
{
    pb *value = pb_new(), *type = pb_new(), *tensor = pb_new();
    pb *shape = pb_new();
    for (int i = 0; i < rank; i++) {
        pb *d = pb_new();
        if (dim[i] >= 0)
            pb_int(d, 1, dim[i]);
        else
            pb_text(d, 2, symbol);
        pb_take(shape, 1, d);
    }
    pb_int(tensor, 1, dtype);
    if (rank >= 0)
        pb_take(tensor, 2, shape);
    else
        free(shape);
    pb_take(type, 1, tensor);
    pb_text(value, 1, name);
    pb_take(value, 2, type);
    return value;
}

/* ModelProto around a graph; frees it. */
static inline pb *pb_model(pb *graph, int64_t opset)
{
    pb *model = pb_new(), *set = pb_new();
    pb_int(model, 1, 8);
    pb_take(model, 7, graph);
    pb_text(set, 1, "");
    pb_int(set, 2, opset);
    pb_take(model, 8, set);
    return model;
}

/* A private folder, once per test program. */
static inline const char *make_folder(void)
{
    static char folder[64];
    if (!folder[0]) {
        strcpy(folder, "/tmp/onnx_test.XXXXXX");
        if (!mkdtemp(folder)) {
            perror(folder);
            exit(3);
        }
    }
    return folder;
}

static inline const char *make_path(const char *name)
{
    static char path[4][200];
    static int next;
    char *out = path[next++ % 4];
    snprintf(out, sizeof path[0], "%s/%s", make_folder(), name);
    return out;
}

static inline const char *write_file(const char *name, const void *data,
                                     size_t bytes)
{
    const char *path = make_path(name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0) {
        perror(path);
        exit(3);
    }
    return path;
}

static inline const char *write_model(const char *name, pb *model)
{
    const char *path = write_file(name, model->at, model->n);
    free(model);
    return path;
}

static inline void remove_folder(void)
{
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", make_folder());
    if (system(command) != 0)
        printf("# %s is left behind\n", make_folder());
}

#endif
