/* Parts of an origin, by the names that whoever said them knows: the user's
 * flags, or the fields of a plan's file. */
#ifndef FS_CLI_PART_H
#define FS_CLI_PART_H

#include "plan/text.h"

/* Returns `status`. If it is a fault, what is told of it begins with the part
 * that it is about: "FILE: origin.FIELD", or its flag where that does not
 * follow from the text. `field` as plan_origin has it. */
fs_status cli_part(const plan_origin *origin, const char *field, fs_err *err,
                   fs_status status);
/* Tells FS_INVALID about a part. */
fs_status cli_part_fail(const plan_origin *origin, const char *field,
                        fs_err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
