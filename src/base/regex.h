/* Regular expressions that a user writes. */
#ifndef FS_BASE_REGEX_H
#define FS_BASE_REGEX_H

#include "base/status.h"

#include <regex.h>

/* Extended, only to be matched; FS_INVALID names it and says what is wrong. The
 * caller frees it (regfree). */
fs_status fs_regex_compile(const char *pattern, fs_err *err, regex_t *out);

#endif
