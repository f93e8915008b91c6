/* Transfers: exchanges between ranks (plan/exchange.h) as state machines over a
 * link: messages (messages.h) listed once, run once per firing. Each position
 * sends every other what that takes from it, and contributions are folded in
 * the order of positions. A reduction that leaves the same bytes with a group
 * of ranks is an all-reduce among them, of which plan/algorithms.def has
 * several. The bits never depend on arrival. Links progress nothing by
 * themselves: progress happens in exec_transfer_poll. */
#ifndef FS_EXEC_TRANSFER_H
#define FS_EXEC_TRANSFER_H

#include "exec/world.h"
#include "plan/algorithms.h"
#include "plan/exchange.h"

typedef struct exec_transfer exec_transfer;

/* One of several exchanges that go in the same messages: between the same
 * positions, of one dtype and reduction, none of which fills anything; where a
 * rank's pieces lie, in bytes from `in` and `out`. */
typedef struct exec_transfer_part {
    plan_exchange exchange;
    int64_t in_at, out_at;
} exec_transfer_part;

/* One rank's part of an exchange: its positions on both meshes, -1 where it
 * has none. Position p of a mesh is rank first + p. */
typedef struct exec_transfer_spec {
    const plan_exchange *exchange; /* or several: */
    int32_t n_parts;
    const exec_transfer_part *parts;
    ir_dtype dtype;
    int32_t gives_at, takes_at;
    int32_t first_giver, first_taker;
    int tag;
    plan_algorithm algorithm; /* of an all-reduce; direct where it may not be */
    int64_t chunk_bytes;      /* of its messages at most; 0: what pays */
} exec_transfer_spec;
/* FS_FAULT names what cannot be done (P of bool). */
fs_status exec_transfer_make(exec_world *world, const exec_transfer_spec *spec,
                             fs_arena *arena, fs_err *err, exec_transfer **out);
/* Before the first start, by all its ranks together, in one order of their
 * transfers. */
void exec_transfer_join(exec_transfer *transfer);
void exec_transfer_release(exec_transfer *transfer);

/* Bytes of scratch below which a reduction cannot run: one contribution. With
 * more room it receives more of them ahead. */
int64_t exec_transfer_scratch(const exec_transfer *transfer);

/* `in` and `out` do not overlap (NULL where the rank has no position); both
 * and the scratch belong to the transfer until poll says done. */
void exec_transfer_start(exec_transfer *transfer, const void *in, void *out,
                         void *scratch, int64_t scratch_bytes);
/* Progresses; true when done. Sets *moved when something happened. */
bool exec_transfer_poll(exec_transfer *transfer, bool *moved);
/* Who is to ring for it, added to those; false: some of them cannot, or more is
 * to be done than they know. */
bool exec_transfer_wants(const exec_transfer *transfer, exec_wants *wants);

#endif
