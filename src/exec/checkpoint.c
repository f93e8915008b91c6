/* Folders of checkpoints: names, the list, committing. */
#include "config.h"
#include "exec/checkpoint.h"

#include "base/crc.h"
#include "base/file.h"
#include "base/json.h"
#include "exec/failpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const unfinished_end = ".tmp";

const char *exec_checkpoint_path(const char *dir, int64_t step, bool unfinished,
                                 fs_arena *arena)
{
    return fs_printf(arena, "%s/step-%" PRId64 "%s", dir, step,
                     unfinished ? unfinished_end : "");
}

/* "step-20" -> 20; -1: another name. */
static int64_t step_of(const char *name)
{
    char *end;
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    errno = 0;
    const int64_t step = strtoll(name + 5, &end, 10);
    return errno || *end ? -1 : step;
}

static int newest_first(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

int32_t exec_checkpoints_list(const char *dir, fs_arena *arena, int64_t **steps)
{
    FS_VEC(int64_t) found = {0};
    DIR *folder = opendir(dir);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL) {
        const int64_t step = step_of(entry->d_name);
        if (step >= 0)
            fs_push(arena, &found, step);
    }
    if (folder)
        closedir(folder);
    if (found.n > 0)
        qsort(found.at, (size_t)found.n, sizeof *found.at, newest_first);
    *steps = found.at;
    return found.n;
}

/* ---- taking away ---- */

/* A folder of files. What cannot be removed stays: it is in nobody's way. */
static void remove_folder(const char *path, fs_arena *arena)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            unlink(fs_printf(arena, "%s/%s", path, entry->d_name));
    if (folder)
        closedir(folder);
    rmdir(path);
}

void exec_checkpoints_tidy(const char *dir, fs_arena *arena)
{
    DIR *folder = opendir(dir);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder)) != NULL) {
        const size_t length = strlen(entry->d_name), end = 4;
        if (strncmp(entry->d_name, "step-", 5) == 0 && length > end &&
            strcmp(entry->d_name + length - end, unfinished_end) == 0)
            remove_folder(fs_printf(arena, "%s/%s", dir, entry->d_name), arena);
    }
    if (folder)
        closedir(folder);
}

fs_status exec_checkpoints_open(const char *dir, fs_arena *arena, fs_err *err,
                                int *lock)
{
    const char *path = fs_printf(arena, "%s/.lock", dir);
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return fs_write_fail(dir, errno, err);
    *lock = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0666);
    if (*lock < 0)
        return fs_write_fail(path, errno, err);
    if (flock(*lock, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(*lock);
        *lock = -1;
        return fs_fail(err, FS_INVALID,
                       "%s: another job writes its checkpoints there", dir);
    }
    exec_checkpoints_tidy(dir, arena);
    return FS_OK;
}

/* ---- writing ---- */

static int sync_folder(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return errno;
    const int fault = fsync(folder) == 0 ? 0 : errno;
    close(folder);
    return fault;
}

static int write_all(int file, const char *text, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t n = write(file, text, bytes);
        if (n < 0 && errno != EINTR)
            return errno;
        if (n > 0) {
            text += n;
            bytes -= (size_t)n;
        }
    }
    return 0;
}

int exec_write_durable(const char *path, const char *text, size_t bytes,
                       fs_arena *arena)
{
    const char *temporary = fs_printf(arena, "%s.tmp", path);
    int file = open(temporary, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    if (file < 0)
        return errno;
    int fault = write_all(file, text, bytes);
    if (!fault && fdatasync(file) != 0)
        fault = errno;
    if (close(file) != 0 && !fault)
        fault = errno;
    if (!fault && rename(temporary, path) != 0)
        fault = errno;
    if (fault)
        unlink(temporary);
    return fault;
}

int exec_checkpoint_part(const char *folder, int32_t rank, json_t *part,
                         fs_arena *arena)
{
    const char *path = fs_printf(arena, "%s/rank-%d.json", folder, rank);
    char *text = json_dumps(part, JSON_COMPACT);
    json_decref(part);
    if (!text)
        return ENOMEM;
    const int fault = exec_write_durable(path, text, strlen(text), arena);
    free(text);
    return fault;
}

bool exec_checkpoint_whole(const char *folder, int32_t ranks)
{
    DIR *opened = opendir(folder);
    const struct dirent *entry;
    int32_t n = 0;
    while (opened && (entry = readdir(opened)) != NULL) {
        const char *end = strrchr(entry->d_name, '.');
        n += strncmp(entry->d_name, "rank-", 5) == 0 && end &&
             strcmp(end, ".json") == 0;
    }
    if (opened)
        closedir(opened);
    return n >= ranks;
}

/* ---- committing ---- */

static void take_pieces(json_t *variables, const json_t *part)
{
    size_t i;
    json_t *piece;
    json_array_foreach(json_object_get(part, "pieces"), i, piece)
    {
        const char *name = json_string_value(json_object_get(piece, "tensor"));
        json_t *of = json_object_get(variables, name);
        if (!of) {
            of = json_pack("{s:O, s:O, s:[]}", "dtype",
                           json_object_get(piece, "dtype"), "shape",
                           json_object_get(piece, "whole"), "pieces");
            json_object_set_new(variables, name, of);
        }
        json_t *own = json_copy(piece);
        json_object_del(own, "tensor");
        json_object_del(own, "dtype");
        json_object_del(own, "whole");
        json_object_set(own, "file", json_object_get(part, "file"));
        json_array_append_new(json_object_get(of, "pieces"), own);
    }
}

static int take_part(json_t *manifest, const char *path)
{
    json_error_t why;
    json_t *part = json_load_file(path, 0, &why);
    if (!part)
        return EIO;
    json_t *file = json_object_get(part, "file");
    if (file)
        json_array_append_new(json_object_get(manifest, "files"),
                              json_pack("{s:O, s:O, s:O}", "name", file,
                                        "bytes", json_object_get(part, "bytes"),
                                        "head", json_object_get(part, "head")));
    json_t *losses = json_object_get(part, "losses");
    if (losses)
        json_object_set(manifest, "losses", losses);
    take_pieces(json_object_get(manifest, "variables"), part);
    json_decref(part);
    return 0;
}

static json_t *digest_json(uint64_t digest)
{
    char hex[17];
    fs_hex(digest, hex);
    return json_string(hex);
}

static json_t *manifest_json(int64_t step, const exec_about *about)
{
    return json_pack("{s:s, s:i, s:I, s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:i, "
                     "s:[], s:{}}",
                     "format", EXEC_CHECKPOINT_FORMAT, "version", 1, "step",
                     (json_int_t)step, "batch", (json_int_t)about->batch,
                     "seed", digest_json(about->seed), "data_digest",
                     digest_json(about->data_digest), "model_digest",
                     digest_json(about->model_digest), "plan_digest",
                     digest_json(about->plan_digest), "kernels",
                     digest_json(about->kernels_digest), "optimizer",
                     exec_tuned_json(&about->tuned), "ranks", about->ranks,
                     "files", "variables");
}

/* {"seal": CRC of the manifest's text, "manifest": ...} */
static int write_manifest(const char *folder, json_t *manifest, fs_arena *arena)
{
    char *text = json_dumps(manifest, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text)
        return ENOMEM;
    const size_t length = strlen(text);
    fs_text whole = {.arena = arena};
    fs_text_add(&whole,
                "{\"seal\":\"%08x\",\"manifest\":", fs_crc32c(0, text, length));
    const size_t head = strlen(whole.at);
    char *bytes = fs_alloc(arena, head + length + 3, 1);
    memcpy(bytes, whole.at, head);
    memcpy(bytes + head, text, length);
    memcpy(bytes + head + length, "}\n", 2);
    free(text);
    return exec_write_durable(fs_printf(arena, "%s/manifest.json", folder),
                              bytes, head + length + 2, arena);
}

static int join_parts(const char *folder, int64_t step, const exec_about *about,
                      fs_arena *arena)
{
    json_t *manifest = manifest_json(step, about);
    int fault = 0;
    for (int32_t r = 0; !fault && r < about->ranks; r++)
        fault =
            take_part(manifest, fs_printf(arena, "%s/rank-%d.json", folder, r));
    if (!fault)
        fault = write_manifest(folder, manifest, arena);
    for (int32_t r = 0; !fault && r < about->ranks; r++)
        unlink(fs_printf(arena, "%s/rank-%d.json", folder, r));
    json_decref(manifest);
    return fault;
}

/* One of the same step, as was found damaged, makes way. */
static int give_name(const char *dir, const char *from, const char *to,
                     fs_arena *arena)
{
    const char *old = fs_printf(arena, "%s.old%s", to, unfinished_end);
    if (rename(to, old) != 0 && errno != ENOENT)
        return errno;
    if (rename(from, to) != 0)
        return errno;
    const int fault = sync_folder(dir);
    remove_folder(old, arena);
    return fault;
}

/* Of those up to `step`: newer ones that are there were found damaged, or are
 * of a run that was resumed from before them. */
static void prune(const char *dir, int64_t step, int32_t keep, fs_arena *arena)
{
    int64_t *steps;
    const int32_t n = exec_checkpoints_list(dir, arena, &steps);
    for (int32_t i = 0, kept = 0; keep > 0 && i < n; i++)
        if (steps[i] <= step && ++kept > keep)
            remove_folder(exec_checkpoint_path(dir, steps[i], false, arena),
                          arena);
}

int exec_checkpoint_commit(const char *dir, int64_t step,
                           const exec_about *about, int32_t keep,
                           exec_failpoints *points, fs_arena *arena,
                           const char **what)
{
    const char *from = exec_checkpoint_path(dir, step, true, arena),
               *to = exec_checkpoint_path(dir, step, false, arena);
    *what = from;
    int fault = exec_failpoint_come(points, EXEC_AT_COMMIT);
    if (!fault)
        fault = join_parts(from, step, about, arena);
    if (!fault)
        fault = sync_folder(from);
    if (!fault) {
        *what = to;
        fault = give_name(dir, from, to, arena);
    }
    if (!fault)
        fault = exec_failpoint_come(points, EXEC_AT_COMMITTED);
    if (!fault)
        prune(dir, step, keep, arena);
    return fault;
}
