/* Reading a checkpoint: its manifest, and pieces whose CRC is right. */
#include "config.h"
#include "exec/checkpoint.h"

#include "base/crc.h"
#include "base/file.h"
#include "base/json.h"
#include "exec/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static fs_status damaged(const exec_checkpoint *c, const char *what,
                         fs_err *err)
{
    return fs_fail(err, FS_INVALID, "%s: manifest.json: %s", c->path, what);
}

/* ---- the manifest ---- */

static fs_status check_seal(const exec_checkpoint *c, const json_t *root,
                            fs_err *err)
{
    const char *seal = json_string_value(json_object_get(root, "seal"));
    char *text = json_dumps(json_object_get(root, "manifest"),
                            JSON_COMPACT | JSON_SORT_KEYS);
    char own[16];
    if (!seal || !text) {
        free(text);
        return damaged(c, "it has no seal", err);
    }
    snprintf(own, sizeof own, "%08x", fs_crc32c(0, text, strlen(text)));
    free(text);
    return strcmp(own, seal) == 0 ? FS_OK
                                  : damaged(c, "its seal is broken", err);
}

static uint64_t read_hex(const json_t *root, const char *key)
{
    const char *text = json_string_value(json_object_get(root, key));
    return text ? strtoull(text, NULL, 16) : 0;
}

/* Places of values come from the manifest: who reads the file by its head alone
 * would find the damage that is not found here. Manifests of before say nothing
 * of heads. */
static fs_status check_head(const exec_checkpoint *c, const char *name,
                            int64_t bytes, const json_t *head, fs_err *err)
{
    const exec_held piece = {
        .file = name,
        .bytes = json_integer_value(json_object_get(head, "bytes")),
        .crc = (uint32_t)read_hex(head, "crc")};
    void *text;
    if (!head)
        return FS_OK;
    if (piece.bytes < 0 || piece.bytes > bytes)
        return damaged(c, "what it says of a file's head is impossible", err);
    FS_TRY(exec_held_read(c, &piece, err, &text));
    free(text);
    return FS_OK;
}

static fs_status check_file(const exec_checkpoint *c, const json_t *file,
                            fs_arena *arena, fs_err *err)
{
    const char *name = json_string_value(json_object_get(file, "name"));
    const int64_t bytes = json_integer_value(json_object_get(file, "bytes"));
    struct stat there;
    if (!name || strchr(name, '/'))
        return damaged(c, "a file of it has no name", err);
    const char *path = fs_printf(arena, "%s/%s", c->path, name);
    if (stat(path, &there) != 0)
        return fs_fail(err, FS_INVALID, "%s: %s", path, strerror(errno));
    if (there.st_size != bytes)
        return fs_fail(err, FS_INVALID,
                       "%s: has %lld bytes, %" PRId64 " were written", path,
                       (long long)there.st_size, bytes);
    return check_head(c, name, bytes, json_object_get(file, "head"), err);
}

static fs_status check_files(const exec_checkpoint *c, const json_t *files,
                             fs_arena *arena, fs_err *err)
{
    size_t i;
    json_t *file;
    json_array_foreach(files, i, file)
    {
        FS_TRY(check_file(c, file, arena, err));
    }
    return FS_OK;
}

static void read_box(const json_t *piece, ir_piece *box)
{
    const json_t *offset = json_object_get(piece, "offset"),
                 *shape = json_object_get(piece, "shape");
    box->shape.rank = (int32_t)json_array_size(shape);
    for (int32_t d = 0; d < box->shape.rank && d < IR_MAX_RANK; d++) {
        box->offset[d] = json_integer_value(json_array_get(offset, (size_t)d));
        box->shape.dim[d] =
            json_integer_value(json_array_get(shape, (size_t)d));
    }
}

static bool is_within(const ir_piece *box, const ir_shape *shape)
{
    if (box->shape.rank != shape->rank)
        return false;
    for (int32_t d = 0; d < shape->rank; d++)
        if (box->offset[d] < 0 || box->shape.dim[d] < 0 ||
            box->offset[d] > shape->dim[d] - box->shape.dim[d])
            return false;
    return true;
}

static bool read_piece(const json_t *piece, const exec_kept *of,
                       fs_arena *arena, exec_held *out)
{
    const char *file = json_string_value(json_object_get(piece, "file"));
    *out = (exec_held){
        .term = (int32_t)json_integer_value(json_object_get(piece, "term")),
        .terms = (int32_t)json_integer_value(json_object_get(piece, "terms")),
        .at = json_integer_value(json_object_get(piece, "at")),
        .bytes = json_integer_value(json_object_get(piece, "bytes")),
        .crc = (uint32_t)read_hex(piece, "crc")};
    read_box(piece, &out->box);
    if (!file || strchr(file, '/') || out->at < 0 ||
        out->box.shape.rank > IR_MAX_RANK ||
        !is_within(&out->box, &of->shape) ||
        out->bytes !=
            ir_shape_count(&out->box.shape) * ir_dtype_bytes(of->dtype))
        return false;
    out->file = fs_strdup(arena, file);
    return true;
}

static bool overlap(const exec_held *a, const exec_held *b)
{
    ir_piece common;
    return a->term == b->term && (a->box.shape.rank == 0 ||
                                  ir_piece_common(&a->box, &b->box, &common));
}

/* Each element of each term in one piece: what none holds would be made up. */
static bool is_whole(const exec_kept *of, int64_t count)
{
    int64_t left = count;
    for (int32_t i = 0; i < of->pieces.n; i++) {
        const exec_held *piece = &of->pieces.at[i];
        if (i == 0 && __builtin_mul_overflow(count, piece->terms, &left))
            return false;
        if (piece->terms != of->pieces.at[0].terms || piece->term < 0 ||
            piece->term >= piece->terms)
            return false;
        for (int32_t k = 0; k < i; k++)
            if (overlap(piece, &of->pieces.at[k]))
                return false;
        left -= ir_shape_count(&piece->box.shape);
    }
    return left == 0;
}

static bool read_variable(const char *name, const json_t *value,
                          fs_arena *arena, exec_kept *out, bool *whole)
{
    const char *type = json_string_value(json_object_get(value, "dtype"));
    const json_t *pieces = json_object_get(value, "pieces");
    int32_t d = 0, bad;
    int64_t count;
    while (type && d < IR_DTYPE_COUNT &&
           strcmp(ir_dtype_name((ir_dtype)d), type) != 0)
        d++;
    if (!type || d == IR_DTYPE_COUNT ||
        !exec_read_shape(json_object_get(value, "shape"), &out->shape, &count,
                         &bad))
        return false;
    out->name = fs_strdup(arena, name);
    out->dtype = (ir_dtype)d;
    for (size_t i = 0; i < json_array_size(pieces); i++) {
        exec_held held;
        if (!read_piece(json_array_get(pieces, i), out, arena, &held))
            return false;
        fs_push(arena, &out->pieces, held);
    }
    *whole = is_whole(out, count);
    return true;
}

static fs_status read_manifest(exec_checkpoint *c, const json_t *m,
                               fs_arena *arena, fs_err *err)
{
    const json_t *losses = json_object_get(m, "losses");
    json_t *variables = json_object_get(m, "variables"), *value;
    const char *name;
    if (json_integer_value(json_object_get(m, "version")) != 1)
        return damaged(c, "it is of another version of this program", err);
    if (json_integer_value(json_object_get(m, "step")) != c->step)
        return damaged(c, "it is of another step", err);
    c->batch = json_integer_value(json_object_get(m, "batch"));
    c->ranks = (int32_t)json_integer_value(json_object_get(m, "ranks"));
    c->seed = read_hex(m, "seed");
    c->data_digest = read_hex(m, "data_digest");
    c->model_digest = read_hex(m, "model_digest");
    c->plan_digest = read_hex(m, "plan_digest");
    c->kernels_digest = read_hex(m, "kernels");
    c->tuned = exec_tuned_read(json_object_get(m, "optimizer"), arena);
    if (losses) {
        c->losses_file = "losses.f64";
        c->losses_crc = (uint32_t)read_hex(m, "losses");
    }
    c->variables = fs_new(arena, exec_kept, json_object_size(variables) + 1);
    c->by_name.arena = arena;
    json_object_foreach(variables, name, value)
    {
        exec_kept *kept = &c->variables[c->n];
        bool whole = true;
        if (!read_variable(name, value, arena, kept, &whole))
            return damaged(c, "what it says of a variable is impossible", err);
        if (!whole)
            return damaged(
                c,
                fs_printf(arena,
                          "its pieces of '%.200s' leave gaps, or overlap",
                          name),
                err);
        *fs_map_at(&c->by_name, kept->name) = c->n++;
    }
    return check_files(c, json_object_get(m, "files"), arena, err);
}

fs_status exec_checkpoint_read(const char *dir, int64_t step, fs_arena *arena,
                               fs_err *err, exec_checkpoint *out)
{
    exec_checkpoint c = {.step = step};
    json_t *root;
    c.path = exec_checkpoint_path(dir, step, false, arena);
    FS_TRY(
        fs_json_load(fs_printf(arena, "%s/manifest.json", c.path), err, &root));
    fs_status status = check_seal(&c, root, err);
    if (status == FS_OK)
        status =
            read_manifest(&c, json_object_get(root, "manifest"), arena, err);
    json_decref(root);
    if (status == FS_OK)
        *out = c;
    return status;
}

bool exec_is_checkpoint(const char *folder, fs_arena *arena)
{
    fs_err unused = {0};
    json_t *root;
    if (fs_json_load(fs_printf(arena, "%s/manifest.json", folder), &unused,
                     &root) != FS_OK)
        return false;
    const char *format = json_string_value(
        json_object_get(json_object_get(root, "manifest"), "format"));
    const bool ours = format && strcmp(format, EXEC_CHECKPOINT_FORMAT) == 0;
    json_decref(root);
    return ours;
}

bool exec_checkpoints_newest(const char *dir, fs_arena *arena, int64_t *step)
{
    int64_t *steps;
    const int32_t n = exec_checkpoints_list(dir, arena, &steps);
    for (int32_t i = 0; i < n; i++) {
        fs_err unused = {0};
        exec_checkpoint c;
        if (exec_checkpoint_read(dir, steps[i], arena, &unused, &c) != FS_OK)
            continue;
        *step = steps[i];
        return true;
    }
    return false;
}

const exec_kept *exec_checkpoint_find(const exec_checkpoint *c,
                                      const char *name)
{
    const int32_t i = fs_map_get(&c->by_name, name);
    return i < 0 ? NULL : &c->variables[i];
}

/* ---- values ---- */

/* A part at a time, so that the sum is made of what the cache still has. */
static fs_status read_summed(int file, const char *path, int64_t at,
                             int64_t bytes, void *out, uint32_t *crc,
                             fs_err *err)
{
    enum { PART = 1 << 20 };
    *crc = 0;
    for (int64_t done = 0; done < bytes; done += PART) {
        const int64_t n = bytes - done < PART ? bytes - done : PART;
        FS_TRY(
            exec_read_bytes(file, path, at + done, n, (char *)out + done, err));
        *crc = fs_crc32c(*crc, (char *)out + done, (size_t)n);
    }
    return FS_OK;
}

static fs_status read_file(const char *path, int64_t at, int64_t bytes,
                           void *out, const uint32_t *wanted, fs_err *err)
{
    int file;
    uint32_t crc = 0;
    FS_TRY(fs_input_open(path, err, &file));
    fs_status status = read_summed(file, path, at, bytes, out, &crc, err);
    close(file);
    if (status == FS_OK && wanted && crc != *wanted)
        status = fs_fail(err, FS_INVALID,
                         "%s: bytes %" PRId64 " to %" PRId64
                         " are damaged (CRC-32C %08x, %08x was written)",
                         path, at, at + bytes, crc, *wanted);
    return status;
}

fs_status exec_held_read(const exec_checkpoint *c, const exec_held *piece,
                         fs_err *err, void **out)
{
    char path[FS_PATH_MAX];
    struct stat there;
    snprintf(path, sizeof path, "%s/%s", c->path, piece->file);
    if (stat(path, &there) != 0)
        return fs_fail(err, FS_INVALID, "%s: %s", path, strerror(errno));
    if (piece->at > there.st_size - piece->bytes)
        return fs_fail(err, FS_INVALID,
                       "%s: has %lld bytes, %" PRId64 " from byte %" PRId64
                       " on should be there",
                       path, (long long)there.st_size, piece->bytes, piece->at);
    void *bytes = malloc((size_t)piece->bytes + 1);
    if (!bytes)
        return fs_fail(err, FS_FAULT, "%s: no memory for %" PRId64 " bytes",
                       c->path, piece->bytes);
    const fs_status status =
        read_file(path, piece->at, piece->bytes, bytes,
                  piece->unsummed ? NULL : &piece->crc, err);
    if (status == FS_OK)
        *out = bytes;
    else
        free(bytes);
    return status;
}

fs_status exec_checkpoint_losses(const exec_checkpoint *c, fs_arena *arena,
                                 fs_err *err, double **out)
{
    const char *path = fs_printf(arena, "%s/%s", c->path, c->losses_file);
    double *losses = fs_new(arena, double, c->step + 1);
    FS_TRY(read_file(path, 0, c->step * (int64_t)sizeof *losses, losses,
                     &c->losses_crc, err));
    *out = losses;
    return FS_OK;
}
