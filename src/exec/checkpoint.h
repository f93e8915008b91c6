/* A folder of checkpoints, of which each is a folder:
 *
 *   step-20/rank-0.safetensors   the variables that rank 0 writes
 *   step-20/losses.f64           of all steps so far
 *   step-20/manifest.json        what lies where, sizes, CRC-32C of heads and
 *                                values, a seal
 *   step-30.tmp/                 being written, or left by a job that died
 *
 * A checkpoint is there when its folder has its name, which it gets when all of
 * it is on the disk. A manifest is sealed by the CRC-32C of its text. */
#ifndef FS_EXEC_CHECKPOINT_H
#define FS_EXEC_CHECKPOINT_H

#include "base/hash.h"
#include "exec/failpoint.h"
#include "exec/saving.h"
#include "exec/tuned.h"
#include "ir/sbp.h"

#include <jansson.h>

#define EXEC_CHECKPOINT_FORMAT "flowsearch checkpoint"

/* ---- reading ---- */

/* A piece of a variable in a file. */
typedef struct exec_held {
    const char *file; /* in the checkpoint's folder */
    ir_piece box;
    int32_t term, terms;
    int64_t at, bytes;
    uint32_t crc;
    bool unsummed; /* of a file that carries no CRC */
} exec_held;

typedef struct exec_kept {
    const char *name;
    ir_dtype dtype;
    ir_shape shape;
    FS_VEC(exec_held) pieces;
} exec_kept;

typedef struct exec_checkpoint {
    const char *path; /* its folder */
    const char *said; /* what it was asked for by, for messages */
    int64_t step;     /* steps done */
    int64_t batch;
    uint64_t seed, data_digest, model_digest, plan_digest;
    uint64_t kernels_digest; /* 0: it does not say */
    exec_tuned tuned;
    int32_t ranks; /* 0: no checkpoint, files of weights */
    int32_t n;
    exec_kept *variables;
    fs_map by_name;
    int32_t n_passed; /* newer ones that are damaged, and what is wrong */
    const char *const *passed;
    const char *losses_file; /* NULL: none */
    uint32_t losses_crc;
} exec_checkpoint;

/* Its manifest, whose seal is checked, sizes and heads of its files; the values
 * are not read. FS_INVALID names what is damaged. */
fs_status exec_checkpoint_read(const char *dir, int64_t step, fs_arena *arena,
                               fs_err *err, exec_checkpoint *out);
const exec_kept *exec_checkpoint_find(const exec_checkpoint *c,
                                      const char *name);
/* All bytes of a piece, in memory of malloc that the caller frees; its CRC is
 * checked. */
fs_status exec_held_read(const exec_checkpoint *c, const exec_held *piece,
                         fs_err *err, void **out);
fs_status exec_checkpoint_losses(const exec_checkpoint *c, fs_arena *arena,
                                 fs_err *err, double **out);

/* ---- writing ---- */

/* What checkpoints are of. */
typedef struct exec_about {
    int64_t batch;
    uint64_t seed, data_digest, model_digest, plan_digest;
    uint64_t kernels_digest; /* exec_kernels_digest */
    exec_tuned tuned;
    int32_t ranks;
} exec_about;
/* On rank 0, before ranks write: makes the folder, takes away what died jobs
 * left, locks it. FS_INVALID: another job writes there. *lock: to be closed at
 * the end. */
fs_status exec_checkpoints_open(const char *dir, fs_arena *arena, fs_err *err,
                                int *lock);
/* Takes away what is unfinished: nobody writes any more. */
void exec_checkpoints_tidy(const char *dir, fs_arena *arena);
/* A file of a checkpoint, whole on the disk before it has its name. 0 or
 * errno. */
int exec_write_durable(const char *path, const char *text, size_t bytes,
                       fs_arena *arena);
/* Of rank r: which pieces its file has. Takes `part`. */
int exec_checkpoint_part(const char *folder, int32_t rank, json_t *part,
                         fs_arena *arena);
/* Have all ranks left their parts? */
bool exec_checkpoint_whole(const char *folder, int32_t ranks);
/* Joins the parts to a manifest, gives the checkpoint its name, takes away all
 * but the newest `keep` (0: keeps all). 0 or errno, and what it was about. */
int exec_checkpoint_commit(const char *dir, int64_t step,
                           const exec_about *about, int32_t keep,
                           exec_failpoints *points, fs_arena *arena,
                           const char **what);

#endif
