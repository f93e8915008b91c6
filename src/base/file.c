#include "config.h"
#include "base/file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static fs_status too_long(const char *path, fs_err *err)
{
    return fs_fail(err, FS_INVALID, "%.200s...: file name too long", path);
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
