#include "config.h"
#include "base/regex.h"

fs_status fs_regex_compile(const char *pattern, fs_err *err, regex_t *out)
{
    char why[160];
    int fault = regcomp(out, pattern, REG_EXTENDED | REG_NOSUB);
    if (!fault)
        return FS_OK;
    regerror(fault, out, why, sizeof why);
    return fs_fail(err, FS_INVALID, "'%.80s': %s", pattern, why);
}
