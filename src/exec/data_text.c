/* FILE.txt: bytes as token ids. */
#include "config.h"
#include "exec/samples.h"

bool exec_is_text(const char *spec)
{
    return exec_ends_with(spec, ".txt");
}

fs_status exec_open_text(const exec_opening *o, fs_err *err, exec_data *out)
{
    const exec_windows w = {.path = o->spec,
                            .what = "byte",
                            .place = "offset",
                            .plural = "bytes",
                            .element = EXEC_U8};
    return exec_open_windows(o, &w, err, out);
}
