/* The optimizer of a training and its values, as a checkpoint keeps them. */
#ifndef FS_EXEC_TUNED_H
#define FS_EXEC_TUNED_H

#include "exec/saving.h"
#include "ir/train.h"

#include <jansson.h>

enum { EXEC_TUNED_VALUES = 6, EXEC_TUNED_OPTIONS = 5 };

typedef struct exec_tuned {
    const char *optimizer;           /* NULL: none, or it is not known */
    double value[EXEC_TUNED_VALUES]; /* NAN: this optimizer has none */
    /* The learning rate's schedule, then exec_planned; "": none, NULL: not
     * known. */
    const char *option[EXEC_TUNED_OPTIONS];
} exec_tuned;

/* Of a run of this graph; said: exec_options.tuning; planned:
 * exec_saving.planned. */
exec_tuned exec_tuned_of(const ir_graph *graph, const ir_train_options *said,
                         const exec_planned *planned, fs_arena *arena);
json_t *exec_tuned_json(const exec_tuned *tuned);
/* NULL, or none: not known. */
exec_tuned exec_tuned_read(const json_t *json, fs_arena *arena);
/* Both as words, what is the same left out: "--lr 0.1, --momentum 0.9". False:
 * all is the same, or one of them is not known. */
bool exec_tuned_differ(const exec_tuned *was, const exec_tuned *is,
                       fs_arena *arena, const char **had, const char **has);

#endif
