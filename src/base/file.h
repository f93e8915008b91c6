/* Files that the program writes: outputs, and files of its own. */
#ifndef FS_BASE_FILE_H
#define FS_BASE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { FS_PATH_MAX = 4096 };

/* Opens a regular file to be read; FS_INVALID names what is none. A FIFO would
 * keep its reader waiting for ever, and inputs are mapped or read twice. */
fs_status fs_input_open(const char *path, fs_err *err, int *file);

/* The file that writing `path` means: where it leads when it is a symbolic
 * link, so that the link stays. What is there and is no regular file (a device,
 * a FIFO, a folder) is FS_INVALID: renaming over it would destroy it. */
fs_status fs_write_place(const char *path, fs_err *err,
                         char resolved[FS_PATH_MAX]);

/* Likewise, and the name of a temporary file beside it, of this process. */
fs_status fs_write_temporary(const char *path, fs_err *err,
                             char resolved[FS_PATH_MAX],
                             char temporary[FS_PATH_MAX]);

/* An output being written: whole in its place at the end, or not there. */
typedef struct fs_output {
    const char *path; /* as the user said it */
    FILE *file;
    int fault; /* errno of the first write that failed, or 0 */
    char place[FS_PATH_MAX], temporary[FS_PATH_MAX];
} fs_output;

/* The temporary file is a new one, never one that was there. */
fs_status fs_output_open(fs_output *out, const char *path, fs_err *err);
void fs_output_write(fs_output *out, const void *data, size_t bytes);
/* Renames into place when every write was good; else nothing stays. */
fs_status fs_output_close(fs_output *out, fs_err *err);
/* What the system refused: FS_FAULT for want of room or a broken device, else
 * FS_INVALID. */
fs_status fs_write_fail(const char *path, int why, fs_err *err);

/* FS_INVALID when writing `path` wants more bytes than its folder has room for;
 * `hint` says how to want fewer. */
fs_status fs_check_room(const char *path, int64_t bytes, const char *hint,
                        fs_err *err);

/* Do both paths lead to one file? Of two that are not there yet: would they? */
bool fs_same_file(const char *a, const char *b);

/* A new folder that only this user may enter, in TMPDIR, else /tmp, with room
 * for a small file. fs_scratch_remove takes it away with the files in it, and
 * may be given "". One that was left by a process that was killed goes when the
 * next is made, a minute later at the earliest: a process holds its first one
 * by a lock (flock). */
fs_status fs_scratch_open(fs_err *err, char dir[FS_PATH_MAX]);
void fs_scratch_remove(const char *dir);

#endif
