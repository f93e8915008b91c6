/* Devices that have a file in the data folder. */
#ifndef FS_HW_DEVICES_H
#define FS_HW_DEVICES_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

typedef struct hw_names {
    char **at; /* in alphabetical order */
    int32_t n, room;
} hw_names;

/* "a100-sxm4-80g", ..: of `directory`/NAME.json. */
hw_names hw_device_names(const char *directory, fs_arena *arena);
/* "did you mean a, b", or all of them. */
const char *hw_near_names(const hw_names *names, const char *wanted,
                          fs_arena *arena);
/* Is `known` what may be meant: a part of the other, or few edits away? */
bool hw_is_near(const char *wanted, const char *known);

/* A device as people write it, "NVIDIA A100-SXM4-80GB", "L4 (PCIe)". */
typedef struct hw_meant {
    hw_names names;    /* that it may be: of an A100 those of any memory */
    int64_t gigabytes; /* that the text tells; 0: none */
} hw_meant;
/* Words are those between blanks, '-' and '_', capitals or not, without their
 * makers; the name's first are the text's, parted there or not ("TPU v4",
 * "RTX3090"), the last of which may be shorter by a number (SXM: SXM5). */
hw_meant hw_devices_meant(const hw_names *names, const char *text,
                          fs_arena *arena);
/* Of `directory`/NAME.json. */
fs_status hw_device_memory(const char *directory, const char *name,
                           fs_arena *arena, fs_err *err, double *bytes);

#endif
