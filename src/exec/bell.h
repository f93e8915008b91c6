/* Where a rank sleeps until somebody has something for it: its own threads, a
 * rank of its host that has sent it a message or taken one of its, or who sends
 * it steps. A parker, in memory that all of them reach; and whom it waits for,
 * so that nobody else wakes it. ACTS.md tells when ranks ring. */
#ifndef FS_EXEC_BELL_H
#define FS_EXEC_BELL_H

#include "exec/parker.h"

/* What has happened. */
typedef enum exec_cause {
    EXEC_SENT, /* a message was sent to it, or goes on */
    EXEC_TOOK, /* a message of its was asked for, or has arrived */
    EXEC_CAME, /* a step of data that others send, or its end (exec_data) */
    EXEC_CAUSES
} exec_cause;

/* From whom a rank waits for what: a bit each, which some share. */
typedef struct exec_wants {
    uint64_t from[EXEC_CAUSES];
} exec_wants;
static inline uint64_t exec_bell_bit(int32_t rank)
{
    return UINT64_C(1) << (rank & 63);
}

/* All 0 at first. */
typedef struct exec_bell {
    exec_parker parker;
    _Atomic uint64_t from[EXEC_CAUSES]; /* while it is armed */
} exec_bell;

/* Of its owner: exec_parker_arm, for what it waits for. */
void exec_bell_arm(exec_bell *bell, const exec_wants *wants);
/* Does it sleep, and wait for this? Of anybody, who may see it late. */
static inline bool exec_bell_awaits(const exec_bell *bell, exec_cause cause,
                                    uint64_t from)
{
    return atomic_load_explicit(&bell->parker.armed, memory_order_acquire) &&
           (atomic_load_explicit(&bell->from[cause], memory_order_relaxed) &
            from);
}
/* Of who has done so before. */
void exec_bell_ring(exec_bell *bell, exec_cause cause, uint64_t from);

#endif
