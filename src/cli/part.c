#include "config.h"
#include "cli/part.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* NULL: what is told of such a part names it. */
static const char *flag_of(const char *field)
{
    static const struct {
        const char *field, *flag;
    } flags[] = {{"loss", "--loss"},          {"params", "--params"},
                 {"dropout", "--no-dropout"}, {"recompute", "--recompute"},
                 {"compress", "--compress"},  {"binds", "--bind"},
                 {"padding", "--padding"},    {"states", "--states"}};
    for (size_t k = 0; k < sizeof flags / sizeof *flags; k++)
        if (strcmp(flags[k].field, field) == 0)
            return flags[k].flag;
    return NULL;
}

fs_status cli_part(const plan_origin *origin, const char *field, fs_err *err,
                   fs_status status)
{
    const char *flag = flag_of(field);
    if (status != FS_OK && origin->file)
        fs_err_prefix(err, "%s: origin.%s", origin->file, field);
    else if (status != FS_OK && flag)
        fs_err_prefix(err, "%s", flag);
    return status;
}

fs_status cli_part_fail(const plan_origin *origin, const char *field,
                        fs_err *err, const char *format, ...)
{
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return cli_part(origin, field, err, fs_fail(err, FS_INVALID, "%s", text));
}
