#include "config.h"
#include "exec/weights.h"

#include "base/file.h"
#include "base/hash.h"
#include "exec/piece.h"
#include "exec/safetensors.h"
#include "ir/element.h"
#include "ir/first_values.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- opening ---- */

static fs_status add_file(exec_checkpoint *c, const char *name,
                          exec_kept **variables, int32_t *room, fs_arena *arena,
                          fs_err *err)
{
    exec_safetensors file;
    FS_TRY(exec_safetensors_open(fs_printf(arena, "%s/%s", c->path, name),
                                 arena, err, &file));
    exec_safetensors_close(&file);
    *variables = fs_regrow(arena, *variables, (size_t)c->n,
                           (size_t)(c->n + file.n + 1), sizeof **variables);
    *room = c->n + file.n + 1;
    for (int32_t i = 0; i < file.n; i++) {
        const exec_saved *t = &file.at[i];
        exec_kept *kept = &(*variables)[c->n];
        *kept =
            (exec_kept){.name = t->name, .dtype = t->dtype, .shape = t->shape};
        const exec_held piece = {.file = fs_strdup(arena, name),
                                 .box = {.shape = t->shape},
                                 .terms = 1,
                                 .at = t->at,
                                 .bytes = t->bytes,
                                 .unsummed = true};
        fs_push(arena, &kept->pieces, piece);
        if (fs_map_get(&c->by_name, t->name) >= 0)
            return fs_fail(err, FS_INVALID, "%s: '%s' is there twice", c->path,
                           t->name);
        *fs_map_at(&c->by_name, t->name) = c->n++;
    }
    return FS_OK;
}

static fs_status open_file(const char *path, fs_arena *arena, fs_err *err,
                           exec_checkpoint *c)
{
    const char *slash = strrchr(path, '/');
    int32_t room = 0;
    c->path = slash ? fs_strndup(arena, path, (size_t)(slash - path)) : ".";
    if (slash == path)
        c->path = "/";
    return add_file(c, slash ? slash + 1 : path, &c->variables, &room, arena,
                    err);
}

static bool has_end(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static fs_status open_folder(const char *path, fs_arena *arena, fs_err *err,
                             exec_checkpoint *c)
{
    FS_VEC(const char *) names = {0};
    DIR *folder = opendir(path);
    const struct dirent *entry;
    int32_t room = 0;
    while (folder && (entry = readdir(folder)) != NULL)
        if (has_end(entry->d_name, ".safetensors"))
            fs_push(arena, &names, fs_strdup(arena, entry->d_name));
    if (folder)
        closedir(folder);
    if (names.n == 0)
        return fs_fail(err, FS_INVALID,
                       "%s: no checkpoint and no .safetensors file is there",
                       path);
    qsort(names.at, (size_t)names.n, sizeof *names.at, by_name);
    for (int32_t i = 0; i < names.n; i++)
        FS_TRY(add_file(c, names.at[i], &c->variables, &room, arena, err));
    return FS_OK;
}

/* "DIR/step-20" -> DIR and 20. */
static fs_status open_checkpoint(const char *path, fs_arena *arena, fs_err *err,
                                 exec_checkpoint *out)
{
    char *dir = fs_strdup(arena, path);
    size_t n = strlen(dir);
    while (n > 1 && dir[n - 1] == '/')
        dir[--n] = '\0';
    char *slash = strrchr(dir, '/');
    const char *name = slash ? slash + 1 : dir;
    if (strncmp(name, "step-", 5) != 0)
        return fs_fail(err, FS_INVALID,
                       "%s: a checkpoint's folder is called step-N", path);
    const int64_t step = strtoll(name + 5, NULL, 10);
    if (slash)
        *slash = '\0';
    return exec_checkpoint_read(slash ? dir : ".", step, arena, err, out);
}

/* Of a folder of checkpoints the newest that is whole, as a run goes on from.
 */
static fs_status open_newest(const char *dir, const int64_t *steps, int32_t n,
                             fs_arena *arena, fs_err *err, exec_checkpoint *out)
{
    const char **passed = fs_new(arena, const char *, n);
    for (int32_t i = 0; i < n; i++) {
        fs_err why = {0};
        if (exec_checkpoint_read(dir, steps[i], arena, &why, out) == FS_OK) {
            out->n_passed = i;
            out->passed = passed;
            return FS_OK;
        }
        passed[i] = fs_strdup(arena, why.text);
    }
    return fs_fail(err, FS_INVALID, "%s: no checkpoint is whole (%.800s)", dir,
                   passed[0]);
}

static bool has_manifest(const char *folder, fs_arena *arena)
{
    return access(fs_printf(arena, "%s/manifest.json", folder), F_OK) == 0;
}

fs_status exec_weights_open(const char *path, fs_arena *arena, fs_err *err,
                            exec_checkpoint *out)
{
    exec_checkpoint c = {.path = path, .by_name = {.arena = arena}};
    struct stat there;
    int64_t *steps;
    int32_t n;
    fs_status status;
    if (stat(path, &there) != 0)
        return fs_fail(err, FS_INVALID, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(there.st_mode))
        status = open_file(path, arena, err, &c);
    else if (has_manifest(path, arena))
        status = open_checkpoint(path, arena, err, &c);
    else if ((n = exec_checkpoints_list(path, arena, &steps)) > 0)
        status = open_newest(path, steps, n, arena, err, &c);
    else
        status = open_folder(path, arena, err, &c);
    c.said = path;
    if (status == FS_OK)
        *out = c;
    return status;
}

static void cut_last(char *path)
{
    char *slash = strrchr(path, '/');
    slash[slash == path] = '\0';
}

bool exec_weights_reads(const char *path, const char *file, fs_arena *arena)
{
    char folder[FS_PATH_MAX];
    struct stat there;
    int64_t *unused;
    if (stat(path, &there) != 0 || !realpath(file, folder))
        return false;
    if (!S_ISDIR(there.st_mode))
        return fs_same_file(path, file);
    const bool named = has_end(folder, ".safetensors");
    cut_last(folder);
    const bool kept = has_manifest(folder, arena);
    if (fs_same_file(path, folder))
        return kept ||
               (named && exec_checkpoints_list(path, arena, &unused) == 0);
    cut_last(folder);
    return kept && fs_same_file(path, folder);
}

/* ---- do they fit? ---- */

bool exec_is_weight(const ir_tensor *t)
{
    return t->role == IR_PARAM || t->role == IR_BUFFER;
}

static bool converts(ir_dtype from, ir_dtype to)
{
    return from == to || (ir_dtype_is_float(from) && ir_dtype_is_float(to));
}

/* Some bytes of a piece, from so many on. */
static fs_status add_bytes(const exec_checkpoint *c, const exec_held *piece,
                           int64_t from, int64_t bytes, fs_err *err,
                           uint64_t *digest)
{
    exec_held some = *piece;
    void *read;
    some.at += from;
    some.bytes = bytes;
    FS_TRY(exec_held_read(c, &some, err, &read));
    *digest = fs_hash(*digest, read, (size_t)bytes);
    free(read);
    return FS_OK;
}

/* Of a file without sums: the first, the last and others as far from each
 * other; all of it where that is no more. */
static fs_status add_samples(const exec_checkpoint *c, const exec_held *piece,
                             int64_t samples, fs_err *err, uint64_t *digest)
{
    enum { SAMPLE = 4096 };
    if (piece->bytes <= samples * SAMPLE)
        return add_bytes(c, piece, 0, piece->bytes, err, digest);
    const int64_t last = piece->bytes - SAMPLE;
    for (int64_t i = 0; i < samples; i++) {
        const double part = (double)i / (double)(samples - 1);
        const int64_t from =
            i + 1 < samples ? (int64_t)(part * (double)last) : last;
        FS_TRY(add_bytes(c, piece, from, SAMPLE, err, digest));
    }
    return FS_OK;
}

static fs_status add_piece(const exec_checkpoint *c, const exec_held *piece,
                           int64_t samples, fs_err *err, uint64_t *digest)
{
    *digest = fs_hash(*digest, &piece->bytes, sizeof piece->bytes);
    if (piece->unsummed)
        return add_samples(c, piece, samples, err, digest);
    *digest = fs_hash(*digest, &piece->crc, sizeof piece->crc);
    return FS_OK;
}

/* Many tensors share what is read in all. */
static int64_t samples_of(int32_t n_variables)
{
    enum { MOST = 64, LEAST = 2, IN_ALL = 4096 };
    const int64_t each = n_variables > 0 ? IN_ALL / n_variables : MOST;
    return each > MOST ? MOST : each < LEAST ? LEAST : each;
}

fs_status exec_weights_digest(const exec_checkpoint *c, fs_err *err,
                              uint64_t *digest)
{
    const int64_t samples = samples_of(c->n);
    *digest = 0;
    for (int32_t i = 0; i < c->n; i++) {
        const exec_kept *kept = &c->variables[i];
        *digest = fs_hash_text(*digest, kept->name);
        for (int32_t k = 0; k < kept->pieces.n; k++)
            FS_TRY(add_piece(c, &kept->pieces.at[k], samples, err, digest));
    }
    return FS_OK;
}

int32_t exec_weights_unused(const exec_checkpoint *c, const ir_graph *graph,
                            const char **first)
{
    int32_t unused = 0;
    for (int32_t i = 0; i < c->n; i++) {
        const int32_t id = ir_graph_find(graph, c->variables[i].name);
        if (id >= 0 && graph->tensors.at[id].role != IR_ACTIVATION)
            continue;
        if (unused++ == 0)
            *first = c->variables[i].name;
    }
    return unused;
}

fs_status exec_weights_check(const exec_checkpoint *c, const ir_graph *graph,
                             fs_err *err, int32_t *unused,
                             const char **first_unused)
{
    char had[160], wanted[160];
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *t = &graph->tensors.at[i];
        const exec_kept *kept =
            exec_is_weight(t) ? exec_checkpoint_find(c, t->name) : NULL;
        if (t->role == IR_PARAM && !kept)
            return fs_fail(err, FS_INVALID, "%s: has no values of '%s'",
                           c->said, t->name);
        if (kept && (!converts(kept->dtype, t->dtype) ||
                     !ir_shape_equal(&kept->shape, &t->shape)))
            return fs_fail(err, FS_INVALID,
                           "%s: its '%s' is %s %s, the network's is %s %s",
                           c->said, t->name, ir_dtype_name(kept->dtype),
                           ir_shape_text(had, &kept->shape),
                           ir_dtype_name(t->dtype),
                           ir_shape_text(wanted, &t->shape));
    }
    *unused = exec_weights_unused(c, graph, first_unused);
    return FS_OK;
}

/* ---- values ---- */

static fs_status convert(const exec_checkpoint *c, ir_dtype from, ir_dtype to,
                         int64_t count, void **data, fs_err *err)
{
    void *converted = malloc((size_t)(count * ir_dtype_bytes(to)) + 1);
    if (!converted)
        return fs_fail(err, FS_FAULT, "%s: no memory for %lld values", c->path,
                       (long long)count);
    for (int64_t i = 0; i < count; i++)
        ir_element_set_real(to, converted, i, ir_element_real(from, *data, i));
    free(*data);
    *data = converted;
    return FS_OK;
}

fs_status exec_weights_read(const exec_checkpoint *c, const exec_kept *kept,
                            const exec_held *piece, ir_dtype wanted,
                            fs_err *err, void **out)
{
    void *data;
    FS_TRY(exec_held_read(c, piece, err, &data));
    fs_status status = FS_OK;
    if (kept->dtype != wanted)
        status = convert(c, kept->dtype, wanted,
                         ir_shape_count(&piece->box.shape), &data, err);
    if (status == FS_OK)
        *out = data;
    else
        free(data);
    return status;
}

static fs_status give_one(const exec_checkpoint *c, const exec_kept *kept,
                          ir_tensor *t, fs_arena *arena, fs_err *err)
{
    const int64_t bytes = ir_dtype_bytes(t->dtype);
    const ir_piece all = {.shape = t->shape};
    char *to =
        fs_alloc(arena, (size_t)ir_shape_count(&t->shape), (size_t)bytes);
    for (int32_t i = 0; i < kept->pieces.n; i++) {
        const exec_held *piece = &kept->pieces.at[i];
        void *data;
        FS_TRY(exec_weights_read(c, kept, piece, t->dtype, err, &data));
        const exec_part part = exec_part_of(&piece->box, &piece->box, bytes),
                        in = exec_part_of(&piece->box, &all, bytes);
        if (piece->terms > 1 && exec_can_fold(t->dtype))
            exec_part_fold(IR_PSUM, t->dtype, &part, data, &in, to);
        else
            exec_part_copy(&part, data, &in, to);
        free(data);
    }
    t->data = to;
    t->init.kind = IR_INIT_DATA;
    return FS_OK;
}

fs_status exec_weights_give(const exec_checkpoint *c, ir_graph *graph,
                            fs_err *err)
{
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        ir_tensor *t = &graph->tensors.at[i];
        const exec_kept *kept =
            exec_is_weight(t) ? exec_checkpoint_find(c, t->name) : NULL;
        if (kept)
            FS_TRY(give_one(c, kept, t, graph->arena, err));
    }
    return FS_OK;
}

/* ---- writing ---- */

/* In parts: a tensor may be larger than what one likes to hold twice. */
static void write_values(const ir_tensor *t, uint64_t seed, fs_output *out)
{
    enum { PART = 1 << 16 };
    static _Thread_local char part[PART * 8];
    const int64_t n = ir_shape_count(&t->shape),
                  bytes = ir_dtype_bytes(t->dtype);
    if (t->init.kind == IR_INIT_DATA) {
        fs_output_write(out, t->data, (size_t)(n * bytes));
        return;
    }
    for (int64_t at = 0; at < n; at += PART) {
        const int64_t count = n - at < PART ? n - at : PART;
        memset(part, 0, (size_t)(count * bytes));
        if (t->init.kind != IR_INIT_ZERO)
            ir_first_values(t, seed, at, count, part);
        fs_output_write(out, part, (size_t)(count * bytes));
    }
}

fs_status exec_weights_write(const ir_graph *graph, uint64_t seed,
                             const char *path, fs_arena *arena, fs_err *err,
                             int64_t *bytes)
{
    fs_output out;
    int32_t n = 0;
    exec_saved *saved = fs_new(arena, exec_saved, graph->tensors.n + 1);
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *t = &graph->tensors.at[i];
        if (exec_is_weight(t))
            saved[n++] = (exec_saved){
                .name = t->name, .dtype = t->dtype, .shape = t->shape};
    }
    const char *head = exec_safetensors_head(n, saved, arena, bytes);
    FS_TRY(fs_output_open(&out, path, err));
    fs_output_write(&out, head, (size_t)*bytes);
    for (int32_t i = 0; i < graph->tensors.n; i++)
        if (exec_is_weight(&graph->tensors.at[i]))
            write_values(&graph->tensors.at[i], seed, &out);
    for (int32_t i = 0; i < n; i++)
        *bytes += saved[i].bytes;
    return fs_output_close(&out, err);
}
