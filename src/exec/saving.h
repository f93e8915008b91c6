/* Checkpoints as whoever runs a training sees them: what is asked for, and
 * which there are. */
#ifndef FS_EXEC_SAVING_H
#define FS_EXEC_SAVING_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* What a training's numbers hang on beside its optimizer, as flags of `plan`
 * say it, "" for none; NULL: not known. */
typedef struct exec_planned {
    const char *precision, *loss_scale, *compress, *clip_norm;
} exec_planned;

typedef struct exec_saving {
    const char *dir;
    int64_t every; /* steps; 0: after the last only */
    int32_t keep;  /* the newest so many; 0: all */
    bool resume;   /* begin with the newest in `dir` that is whole */
    exec_planned planned; /* kept in checkpoints, told where it was another */
} exec_saving;

/* Steps of what is called a checkpoint in `dir`, newest first; none where there
 * is no such folder. */
int32_t exec_checkpoints_list(const char *dir, fs_arena *arena,
                              int64_t **steps);
/* The step of the newest whose seal, sizes and heads of files are right: what
 * is damaged, or is called as one, is passed over. false: there is none. */
bool exec_checkpoints_newest(const char *dir, fs_arena *arena, int64_t *step);
/* Is the folder itself one, whatever its name, by what its manifest says? */
bool exec_is_checkpoint(const char *folder, fs_arena *arena);
/* "DIR/step-20", and the folder that it is made in. */
const char *exec_checkpoint_path(const char *dir, int64_t step, bool unfinished,
                                 fs_arena *arena);

#endif
