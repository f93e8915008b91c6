#include "config.h"
#include "exec/bell.h"

void exec_bell_arm(exec_bell *bell, const exec_wants *wants)
{
    for (int i = 0; i < EXEC_CAUSES; i++)
        atomic_store_explicit(&bell->from[i], wants->from[i],
                              memory_order_relaxed);
    exec_parker_arm(&bell->parker);
}

void exec_bell_ring(exec_bell *bell, exec_cause cause, uint64_t from)
{
    /* What was done, then the look: the other arms, then looks. */
    atomic_thread_fence(memory_order_seq_cst);
    if (exec_bell_awaits(bell, cause, from))
        exec_parker_wake(&bell->parker);
}
