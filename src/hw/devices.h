/* Devices that have a file in the data folder. */
#ifndef FS_HW_DEVICES_H
#define FS_HW_DEVICES_H

#include "base/arena.h"

typedef struct hw_names {
    char **at; /* in alphabetical order */
    int32_t n, room;
} hw_names;

/* "a100-sxm4-80g", ..: of `directory`/NAME.json. */
hw_names hw_device_names(const char *directory, fs_arena *arena);
/* "did you mean a, b", or all of them. */
const char *hw_near_names(const hw_names *names, const char *wanted,
                          fs_arena *arena);
/* The device that a table of measured runs means by "A100-SXM4" and gigabytes
 * of memory (0: they are not told): its name begins so, and ends with "-80g";
 * else the last that begins so, which has the most. NULL: none. */
const char *hw_device_like(const hw_names *names, const char *kind,
                           int64_t gigabytes, fs_arena *arena);

#endif
