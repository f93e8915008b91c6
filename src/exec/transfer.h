/* Transfers: boxing steps and point-to-point moves as state machines over
 * MPI_Isend and MPI_Irecv, prepared once, run once per firing. The algorithm is
 * the direct one: each member sends every other member its piece; reductions
 * fold the contributions in the order of the members, so that the bits do not
 * depend on arrival. Open MPI progresses nothing by itself: progress happens
 * in exec_transfer_poll. */
#ifndef FS_EXEC_TRANSFER_H
#define FS_EXEC_TRANSFER_H

#include "exec/world.h"

typedef struct exec_transfer exec_transfer;

/* A boxing step of one member. `whole` is the piece that the members share:
 * the local shape with the step's mesh axis taken as B. */
typedef struct exec_box_spec {
    plan_box_kind kind;
    ir_sbp from, to; /* on the step's axis */
    ir_dtype dtype;
    ir_shape whole;
    int32_t n, me;        /* members, and which of them this one is */
    const int32_t *ranks; /* [n] of the world, in order of the axis */
    int tag;
} exec_box_spec;
/* FS_FAULT names what cannot be done (a piece over 2 GiB, P of bool). */
fs_status exec_transfer_box(exec_world *world, const exec_box_spec *spec,
                            fs_arena *arena, fs_err *err, exec_transfer **out);
/* A contiguous message of `bytes`. */
fs_status exec_transfer_send(exec_world *world, int32_t peer, int tag,
                             int64_t bytes, fs_arena *arena, fs_err *err,
                             exec_transfer **out);
fs_status exec_transfer_recv(exec_world *world, int32_t peer, int tag,
                             int64_t bytes, fs_arena *arena, fs_err *err,
                             exec_transfer **out);
void exec_transfer_release(exec_transfer *transfer);

/* Bytes of scratch below which a reduction cannot run: one piece. With more
 * room it receives more contributions ahead. */
int64_t exec_transfer_scratch(const exec_transfer *transfer);

/* `in` and `out` do not overlap (either NULL for moves); both and the scratch
 * belong to the transfer until poll says done. */
void exec_transfer_start(exec_transfer *transfer, const void *in, void *out,
                         void *scratch, int64_t scratch_bytes);
/* Progresses; true when done. Sets *moved when something happened. */
bool exec_transfer_poll(exec_transfer *transfer, bool *moved);

#endif
