#include "config.h"
#include "exec/parker.h"

#include "base/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int call_of(const exec_parker *parker, int call)
{
    return parker->shared ? call : call | FUTEX_PRIVATE_FLAG;
}

void exec_parker_wake(exec_parker *parker)
{
    /* What was put there, then the look: the other arms, then looks. */
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&parker->armed, memory_order_relaxed) == 0)
        return;
    atomic_store(&parker->woken_ns, fs_now_ns());
    if (atomic_exchange(&parker->armed, 0) != 0)
        syscall(SYS_futex, &parker->armed, call_of(parker, FUTEX_WAKE), 1,
                NULL);
}

void exec_parker_arm(exec_parker *parker)
{
    atomic_store_explicit(&parker->armed, 1, memory_order_release);
    atomic_thread_fence(memory_order_seq_cst); /* then the look */
}

/* Goes to the middle of them: some are held up by the host for long. */
static void note_wake(exec_parker *parker, int64_t took_ns)
{
    enum { PARTS = 16, LEAST_NS = 1000, MOST_NS = 1000000 };
    const int64_t part_ns = parker->wake_ns / PARTS;
    took_ns = took_ns < LEAST_NS ? LEAST_NS : took_ns;
    took_ns = took_ns > MOST_NS ? MOST_NS : took_ns;
    if (parker->wake_ns <= 0)
        parker->wake_ns = took_ns;
    else
        parker->wake_ns += took_ns > parker->wake_ns ? part_ns : -part_ns;
}

bool exec_parker_sleep(exec_parker *parker, int64_t most_ns)
{
    const struct timespec most = {most_ns / 1000000000, most_ns % 1000000000};
    if (atomic_exchange(&parker->armed, 1) == 0) {
        atomic_thread_fence(memory_order_seq_cst);
        return true;
    }
    const int64_t begin_ns = fs_now_ns();
    if (syscall(SYS_futex, &parker->armed, call_of(parker, FUTEX_WAIT), 1,
                &most) == 0)
        note_wake(parker, fs_now_ns() - atomic_load(&parker->woken_ns));
    else if (errno == ETIMEDOUT)
        note_wake(parker, fs_now_ns() - begin_ns - most_ns);
    else
        return true;
    return atomic_load(&parker->armed) == 0;
}
