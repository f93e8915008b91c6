/* Kinds of data: who opens which. */
#include "config.h"
#include "exec/data_kinds.h"

#include <string.h>

typedef struct kind {
    const char *form;
    bool (*is)(const char *spec);
    fs_status (*open)(const exec_opening *o, fs_err *err, exec_data *out);
} kind;

static const kind kinds[] = {
#define EXEC_DATA(name, form) {form, exec_is_##name, exec_open_##name},
#include "exec/data.def"
#undef EXEC_DATA
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

fs_status exec_data_open_with(const char *spec, const ir_graph *graph,
                              const exec_data_options *options, fs_arena *arena,
                              fs_err *err, exec_data *out)
{
    const exec_opening o = {spec, graph, options, arena};
    for (int i = 0; i < N_KINDS; i++)
        if (kinds[i].is(spec))
            return kinds[i].open(&o, err, out);
    fs_text forms = {.arena = arena};
    for (int i = 0; i < N_KINDS; i++)
        fs_text_add(&forms, "%s%s", i ? ", " : "", kinds[i].form);
    return fs_fail(err, FS_INVALID,
                   "%s: unknown kind of data; there are a folder of "
                   "input_N.pb, %s",
                   spec, forms.at);
}

fs_status exec_data_open(const char *spec, const ir_graph *graph, uint64_t seed,
                         fs_arena *arena, fs_err *err, exec_data *out)
{
    const exec_data_options options = {.seed = seed};
    return exec_data_open_with(spec, graph, &options, arena, err, out);
}

bool exec_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n > m && strcmp(text + n - m, end) == 0;
}

fs_status exec_check_options(const exec_opening *o, int takes, fs_err *err)
{
    const exec_data_options *said = o->options;
    const char *wrong = NULL;
    if (said->shuffle && !(takes & EXEC_SHUFFLES))
        wrong = "--shuffle has no effect on it: it has no order of samples";
    else if (said->augment && !(takes & EXEC_AUGMENTS))
        wrong = "--augment is for images";
    else if (said->normalize && !(takes & EXEC_NORMALIZES))
        wrong = "--normalize is for images and columns of numbers";
    else if (said->columns && !(takes & EXEC_HAS_COLUMNS))
        wrong = "--columns are those of a CSV file";
    return wrong ? fs_fail(err, FS_INVALID, "%s: %s", o->spec, wrong) : FS_OK;
}
