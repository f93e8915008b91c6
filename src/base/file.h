/* Where an output file is written. */
#ifndef FS_BASE_FILE_H
#define FS_BASE_FILE_H

#include "base/status.h"

enum { FS_PATH_MAX = 4096 };

/* The file that writing `path` means: where it leads when it is a symbolic
 * link, so that the link stays. What is there and is no regular file (a device,
 * a FIFO, a folder) is FS_INVALID: renaming over it would destroy it. */
fs_status fs_write_place(const char *path, fs_err *err,
                         char resolved[FS_PATH_MAX]);

/* Likewise, and the name of a temporary file beside it, of this process. */
fs_status fs_write_temporary(const char *path, fs_err *err,
                             char resolved[FS_PATH_MAX],
                             char temporary[FS_PATH_MAX]);

#endif
