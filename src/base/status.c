#include "config.h"
#include "base/status.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fs_status fs_fail(fs_err *err, fs_status status, const char *format, ...)
{
    if (!err || err->status != FS_OK)
        return err ? err->status : status;
    err->status = status;
    va_list args;
    va_start(args, format);
    vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    fs_make_printable(err->text); /* names in it are other people's */
    return status;
}

void fs_err_prefix(fs_err *err, const char *format, ...)
{
    char prefix[512], old[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    memcpy(old, err->text, sizeof old);
    int n = snprintf(err->text, sizeof err->text, "%s: ", prefix);
    size_t room = sizeof err->text - (size_t)n - 1;
    size_t len = strnlen(old, room);
    memcpy(err->text + n, old, len);
    err->text[(size_t)n + len] = '\0';
    fs_make_printable(err->text);
}

void fs_assert_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "flowsearch: internal error: %s (%s:%d)\n", condition, file,
            line);
    abort();
}
