/* Inside data: what opening a kind of data is given, and what kinds share. */
#ifndef FS_EXEC_DATA_KINDS_H
#define FS_EXEC_DATA_KINDS_H

#include "exec/data.h"

typedef struct exec_opening {
    const char *spec;
    const ir_graph *graph;
    const exec_data_options *options;
    fs_arena *arena;
} exec_opening;

#define EXEC_DATA(name, form)                                                  \
    bool exec_is_##name(const char *spec);                                     \
    fs_status exec_open_##name(const exec_opening *o, fs_err *err,             \
                               exec_data *out);
#include "exec/data.def"
#undef EXEC_DATA

bool exec_ends_with(const char *text, const char *end);
/* FS_INVALID: an option was said that this kind of data does not know. */
enum {
    EXEC_SHUFFLES = 1,
    EXEC_AUGMENTS = 2,
    EXEC_NORMALIZES = 4,
    EXEC_HAS_COLUMNS = 8
};
fs_status exec_check_options(const exec_opening *o, int takes, fs_err *err);

#endif
