#include "config.h"
#include "base/file.h"

#include "base/clock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static fs_status too_long(const char *path, fs_err *err)
{
    return fs_fail(err, FS_INVALID, "%.200s...: file name too long", path);
}

fs_status fs_input_open(const char *path, fs_err *err, int *file)
{
    struct stat at;
    int got = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (got < 0 || fstat(got, &at) != 0)
        return fs_fail(err, FS_INVALID, "%s: %s", path, strerror(errno));
    if (S_ISREG(at.st_mode)) {
        *file = got;
        return FS_OK;
    }
    close(got);
    return fs_fail(err, FS_INVALID,
                   S_ISDIR(at.st_mode) ? "%s is a folder, not a file"
                                       : "%s: not a regular file",
                   path);
}

/* The text is kept as the user wrote it unless a link must be followed. */
static fs_status follow(const char *path, fs_err *err,
                        char resolved[FS_PATH_MAX])
{
    struct stat at;
    int n;
    if (lstat(path, &at) == 0 && S_ISLNK(at.st_mode)) {
        char *real = realpath(path, NULL);
        if (!real)
            return fs_fail(err, FS_INVALID,
                           "%s: cannot be written: where the link leads: %s",
                           path, strerror(errno));
        n = snprintf(resolved, FS_PATH_MAX, "%s", real);
        free(real);
    } else {
        n = snprintf(resolved, FS_PATH_MAX, "%s", path);
    }
    return n < 0 || n >= FS_PATH_MAX ? too_long(path, err) : FS_OK;
}

fs_status fs_write_place(const char *path, fs_err *err,
                         char resolved[FS_PATH_MAX])
{
    struct stat at;
    FS_TRY(follow(path, err, resolved));
    if (stat(resolved, &at) != 0)
        return errno == ENOENT
                   ? FS_OK
                   : fs_fail(err, FS_INVALID, "%s: %s", path, strerror(errno));
    if (!S_ISREG(at.st_mode))
        return fs_fail(err, FS_INVALID,
                       "%s: cannot be written: not a regular file", path);
    return FS_OK;
}

fs_status fs_write_temporary(const char *path, fs_err *err,
                             char resolved[FS_PATH_MAX],
                             char temporary[FS_PATH_MAX])
{
    FS_TRY(fs_write_place(path, err, resolved));
    int n =
        snprintf(temporary, FS_PATH_MAX, "%s.%d.tmp", resolved, (int)getpid());
    return n < 0 || n >= FS_PATH_MAX ? too_long(path, err) : FS_OK;
}

/* Who cannot be asked is not in the way: the write itself may still fail. */
fs_status fs_check_room(const char *path, int64_t bytes, const char *hint,
                        fs_err *err)
{
    char folder[FS_PATH_MAX], wanted[32], left[32];
    struct statvfs room;
    FS_TRY(follow(path, err, folder));
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    if (statvfs(slash ? folder : ".", &room) != 0)
        return FS_OK;
    const double free_bytes = (double)room.f_bavail * (double)room.f_frsize;
    if ((double)bytes <= free_bytes)
        return FS_OK;
    return fs_fail(err, FS_INVALID, "%s: wants %s, %s are free there%s%s", path,
                   fs_human_bytes(wanted, (double)bytes),
                   fs_human_bytes(left, free_bytes), *hint ? "; " : "", hint);
}

/* ---- an output ---- */

fs_status fs_write_fail(const char *path, int why, fs_err *err)
{
    bool fault = why == ENOSPC || why == EDQUOT || why == EFBIG || why == EIO;
    return fs_fail(err, fault ? FS_FAULT : FS_INVALID,
                   "%s: cannot be written: %s", path,
                   why ? strerror(why) : "unknown cause");
}

fs_status fs_output_open(fs_output *out, const char *path, fs_err *err)
{
    out->path = path;
    out->file = NULL;
    out->fault = 0;
    FS_TRY(fs_write_temporary(path, err, out->place, out->temporary));
    /* Left by a killed process of the same number: ours to replace, but never
     * to write through. */
    unlink(out->temporary);
    int file =
        open(out->temporary, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (file >= 0)
        out->file = fdopen(file, "wb");
    return out->file ? FS_OK : fs_write_fail(path, errno, err);
}

void fs_output_write(fs_output *out, const void *data, size_t bytes)
{
    if (!out->fault && fwrite(data, 1, bytes, out->file) != bytes)
        out->fault = errno;
}

fs_status fs_output_close(fs_output *out, fs_err *err)
{
    if (fflush(out->file) != 0 && !out->fault)
        out->fault = errno;
    if (fclose(out->file) != 0 && !out->fault)
        out->fault = errno;
    if (!out->fault && rename(out->temporary, out->place) != 0)
        out->fault = errno;
    if (!out->fault)
        return FS_OK;
    unlink(out->temporary);
    return fs_write_fail(out->path, out->fault, err);
}

/* ---- one file by two names ---- */

static bool same_place(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* The folder of a path, as a path, and its last part. */
static const char *split(const char *path, char dir[FS_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    snprintf(dir, FS_PATH_MAX, "%.*s",
             slash ? (int)(slash - path + 1) : FS_PATH_MAX, slash ? path : ".");
    return slash ? slash + 1 : path;
}

bool fs_same_file(const char *a, const char *b)
{
    struct stat at[2];
    char dir[2][FS_PATH_MAX];
    bool is_a = stat(a, &at[0]) == 0, is_b = stat(b, &at[1]) == 0;
    if (is_a && is_b)
        return same_place(&at[0], &at[1]);
    if (is_a || is_b || strcmp(split(a, dir[0]), split(b, dir[1])) != 0)
        return false;
    return stat(dir[0], &at[0]) == 0 && stat(dir[1], &at[1]) == 0 &&
           same_place(&at[0], &at[1]);
}

/* ---- a folder of our own ---- */

static fs_status try_room(const char *dir, fs_err *err)
{
    static const char zeros[4096];
    fs_output out;
    char file[FS_PATH_MAX];
    int n = snprintf(file, sizeof file, "%s/room", dir);
    if (n < 0 || n >= FS_PATH_MAX)
        return too_long(dir, err);
    FS_TRY(fs_output_open(&out, file, err));
    fs_output_write(&out, zeros, sizeof zeros);
    return fs_output_close(&out, err);
}

#define SCRATCH_NAME "flowsearch."

/* A folder of this process, as long as it lives, whatever ends it: -1 none. */
static int held_dir = -1;

/* -1: it is not there, or another process holds it. */
static int hold(int root, const char *name)
{
    const int dir =
        openat(root, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir >= 0 && flock(dir, LOCK_EX | LOCK_NB) == 0)
        return dir;
    if (dir >= 0)
        close(dir);
    return -1;
}

static void let_go(int dir)
{
    struct stat at, held;
    if (held_dir < 0 || fstat(dir, &at) != 0 || fstat(held_dir, &held) != 0 ||
        at.st_ino != held.st_ino || at.st_dev != held.st_dev)
        return;
    close(held_dir);
    held_dir = -1;
}

static void remove_files(int dir)
{
    DIR *all = fdopendir(dup(dir));
    for (struct dirent *d; all && (d = readdir(all)) != NULL;)
        if (d->d_name[0] != '.')
            unlinkat(dir, d->d_name, 0);
    if (all)
        closedir(all);
}

/* One that has just made its folder may not hold it yet. */
static bool may_be_left(int root, const char *name)
{
    enum { LEAST_S = 60 };
    struct stat at;
    return strncmp(name, SCRATCH_NAME, strlen(SCRATCH_NAME)) == 0 &&
           strlen(name) == strlen(SCRATCH_NAME) + 6 &&
           fstatat(root, name, &at, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(at.st_mode) && at.st_uid == geteuid() &&
           (at.st_mode & 0777) == 0700 && time(NULL) - at.st_mtime > LEAST_S;
}

/* By processes that were killed. */
static void remove_left(const char *in)
{
    DIR *root = opendir(in);
    for (struct dirent *d; root && (d = readdir(root)) != NULL;) {
        const int dir = may_be_left(dirfd(root), d->d_name)
                            ? hold(dirfd(root), d->d_name)
                            : -1;
        if (dir < 0)
            continue;
        remove_files(dir);
        unlinkat(dirfd(root), d->d_name, AT_REMOVEDIR);
        close(dir);
    }
    if (root)
        closedir(root);
}

fs_status fs_scratch_open(fs_err *err, char dir[FS_PATH_MAX])
{
    const char *root = getenv("TMPDIR");
    if (!root || !root[0])
        root = "/tmp";
    int n = snprintf(dir, FS_PATH_MAX, "%s/" SCRATCH_NAME "XXXXXX", root);
    if (n < 0 || n >= FS_PATH_MAX) {
        dir[0] = '\0';
        return too_long(root, err);
    }
    remove_left(root);
    if (!mkdtemp(dir)) {
        dir[0] = '\0';
        return fs_fail(err, FS_FAULT,
                       "temporary files cannot be written in %s: %s", root,
                       strerror(errno));
    }
    if (held_dir < 0)
        held_dir = hold(AT_FDCWD, dir);
    fs_err why = {0};
    if (try_room(dir, &why) == FS_OK)
        return FS_OK;
    fs_scratch_remove(dir);
    dir[0] = '\0';
    return fs_fail(err, FS_FAULT, "temporary files: %s", why.text);
}

void fs_scratch_remove(const char *dir)
{
    if (!dir[0])
        return;
    const int file = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (file >= 0) {
        remove_files(file);
        let_go(file);
        close(file);
    }
    rmdir(dir);
}
