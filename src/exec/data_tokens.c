/* FILE:u16, FILE:i32: token ids, the low byte first. */
#include "config.h"
#include "exec/samples.h"

#include <string.h>

bool exec_is_tokens(const char *spec)
{
    return exec_ends_with(spec, ":u16") || exec_ends_with(spec, ":i32");
}

fs_status exec_open_tokens(const exec_opening *o, fs_err *err, exec_data *out)
{
    enum { SUFFIX = 4 };
    const size_t n = strlen(o->spec) - SUFFIX;
    const exec_windows w = {
        .path = fs_strndup(o->arena, o->spec, n),
        .what = "token",
        .place = "place",
        .plural = "tokens",
        .element = exec_ends_with(o->spec, ":u16") ? EXEC_U16 : EXEC_I32};
    return exec_open_windows(o, &w, err, out);
}
