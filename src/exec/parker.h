/* Where a thread sleeps until another has something for it. Neither takes a
 * lock: who has something puts it where the other looks, then wakes it, which
 * is a look at one word as long as the other is awake. */
#ifndef FS_EXEC_PARKER_H
#define FS_EXEC_PARKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* All 0 at first. */
typedef struct exec_parker {
    _Atomic uint32_t armed; /* it sleeps, or is about to */
    bool shared;            /* with other processes */
    _Atomic int64_t woken_ns;
    int64_t wake_ns; /* what a wake takes here: about the middle of those so
                        far. Who spins as long before it sleeps loses no more
                        than twice what it must */
} exec_parker;

/* From any other thread. */
void exec_parker_wake(exec_parker *parker);
/* Of who is about to sleep: what comes after this wakes it, what has come
 * before it has yet to look for .. */
void exec_parker_arm(exec_parker *parker);
/* .. and of who found something then. */
static inline void exec_parker_disarm(exec_parker *parker)
{
    atomic_store_explicit(&parker->armed, 0, memory_order_relaxed);
}
/* Of who has looked and found nothing: where it was not armed, it is, and looks
 * once more, for something may have come before this; else it sleeps, no longer
 * than so. False: nobody woke it. */
bool exec_parker_sleep(exec_parker *parker, int64_t most_ns);

/* Of who spins. */
static inline void exec_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

#endif
