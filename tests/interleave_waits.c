/* What threads wait with, and what gives way: what the linker puts in the place
 * of the system's. The memory of locks is ours while a run goes on; it is all
 * zeroes before it is used. */
#include "config.h"

#include "interleave.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static bool never(void *unused)
{
    (void)unused;
    return false;
}

typedef struct lock {
    int32_t held; /* mutex: by thread held - 1; semaphore: posted */
    int32_t waiting, woken, turn;
} lock;
_Static_assert(sizeof(lock) <= sizeof(pthread_mutex_t) &&
                   sizeof(lock) <= sizeof(sem_t) &&
                   sizeof(lock) <= sizeof(pthread_cond_t) &&
                   sizeof(lock) <= sizeof(pthread_barrier_t),
               "it fits in each of them");

static lock *lock_at(void *at)
{
    return at;
}

static int begin_lock(void *at, int32_t held)
{
    *lock_at(at) = (lock){.held = held};
    return 0;
}

static bool is_free(void *at)
{
    return lock_at(at)->held == 0;
}

WRAP(int, pthread_mutex_init, pthread_mutex_t *m, const pthread_mutexattr_t *a)
{
    return interleave_active() ? begin_lock(m, 0)
                               : __real_pthread_mutex_init(m, a);
}

WRAP(int, pthread_mutex_destroy, pthread_mutex_t *m)
{
    return interleave_active() ? 0 : __real_pthread_mutex_destroy(m);
}

WRAP(int, pthread_mutex_lock, pthread_mutex_t *m)
{
    if (!interleave_active())
        return __real_pthread_mutex_lock(m);
    interleave_point();
    interleave_wait_until("pthread_mutex_lock", is_free, m);
    lock_at(m)->held = interleave_self() + 1;
    interleave_take(m);
    return 0;
}

WRAP(int, pthread_mutex_unlock, pthread_mutex_t *m)
{
    if (!interleave_active())
        return __real_pthread_mutex_unlock(m);
    if (lock_at(m)->held != interleave_self() + 1)
        interleave_fail("a lock is let go of by who does not hold it");
    interleave_give(m);
    lock_at(m)->held = 0;
    interleave_point();
    return 0;
}

WRAP(int, pthread_cond_init, pthread_cond_t *c, const pthread_condattr_t *a)
{
    return interleave_active() ? begin_lock(c, 0)
                               : __real_pthread_cond_init(c, a);
}

WRAP(int, pthread_cond_destroy, pthread_cond_t *c)
{
    return interleave_active() ? 0 : __real_pthread_cond_destroy(c);
}

static bool is_woken(void *at)
{
    return lock_at(at)->woken > 0;
}

WRAP(int, pthread_cond_wait, pthread_cond_t *c, pthread_mutex_t *m)
{
    if (!interleave_active())
        return __real_pthread_cond_wait(c, m);
    lock_at(c)->waiting++;
    interleave_give(m);
    lock_at(m)->held = 0;
    interleave_wait_until("pthread_cond_wait", is_woken, c);
    lock_at(c)->waiting--;
    lock_at(c)->woken--;
    interleave_wait_until("pthread_cond_wait", is_free, m);
    lock_at(m)->held = interleave_self() + 1;
    interleave_take(m);
    return 0;
}

WRAP(int, pthread_cond_signal, pthread_cond_t *c)
{
    if (!interleave_active())
        return __real_pthread_cond_signal(c);
    lock_at(c)->woken += lock_at(c)->woken < lock_at(c)->waiting;
    interleave_work();
    interleave_point();
    return 0;
}

WRAP(int, pthread_cond_broadcast, pthread_cond_t *c)
{
    if (!interleave_active())
        return __real_pthread_cond_broadcast(c);
    lock_at(c)->woken = lock_at(c)->waiting;
    interleave_work();
    interleave_point();
    return 0;
}

/* held: how many meet; waiting: are there; turn: meetings so far. */
WRAP(int, pthread_barrier_init, pthread_barrier_t *b,
     const pthread_barrierattr_t *a, unsigned n)
{
    return interleave_active() ? begin_lock(b, (int32_t)n)
                               : __real_pthread_barrier_init(b, a, n);
}

WRAP(int, pthread_barrier_destroy, pthread_barrier_t *b)
{
    return interleave_active() ? 0 : __real_pthread_barrier_destroy(b);
}

typedef struct meeting {
    const lock *at;
    int32_t turn;
} meeting;

static bool has_met(void *at)
{
    const meeting *m = at;
    return m->at->turn != m->turn;
}

WRAP(int, pthread_barrier_wait, pthread_barrier_t *b)
{
    if (!interleave_active())
        return __real_pthread_barrier_wait(b);
    lock *l = lock_at(b);
    meeting m = {l, l->turn};
    interleave_give(b);
    if (++l->waiting == l->held) {
        l->waiting = 0;
        l->turn++;
        interleave_work();
        interleave_point();
    } else {
        interleave_wait_until("pthread_barrier_wait", has_met, &m);
    }
    interleave_take(b);
    return 0;
}

WRAP(int, sem_init, sem_t *s, int shared, unsigned value)
{
    return interleave_active() ? begin_lock(s, (int32_t)value)
                               : __real_sem_init(s, shared, value);
}

WRAP(int, sem_destroy, sem_t *s)
{
    return interleave_active() ? 0 : __real_sem_destroy(s);
}

static bool is_posted(void *at)
{
    return lock_at(at)->held > 0;
}

WRAP(int, sem_wait, sem_t *s)
{
    if (!interleave_active())
        return __real_sem_wait(s);
    interleave_wait_until("sem_wait", is_posted, s);
    lock_at(s)->held--;
    interleave_take(s);
    interleave_point();
    return 0;
}

static int64_t ns_of(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

WRAP(int, sem_timedwait, sem_t *s, const struct timespec *until)
{
    if (!interleave_active())
        return __real_sem_timedwait(s, until);
    interleave_wait_timed("sem_timedwait", is_posted, s, ns_of(until));
    if (lock_at(s)->held == 0) {
        errno = ETIMEDOUT;
        return -1;
    }
    lock_at(s)->held--;
    interleave_take(s);
    return 0;
}

WRAP(int, sem_post, sem_t *s)
{
    if (!interleave_active())
        return __real_sem_post(s);
    interleave_give(s);
    lock_at(s)->held +=
        !interleave_plants(INTERLEAVE_LOST_WAKES) || !interleave_once_in(4);
    interleave_work();
    interleave_point();
    return 0;
}

/* ---- futexes: how often a word was called ---- */

enum { WORDS = 256 };
static struct {
    const uint32_t *at;
    uint32_t calls;
} words[WORDS];
static int32_t n_words;

void interleave_forget_calls(void)
{
    n_words = 0;
}

static uint32_t *calls_of(const uint32_t *word)
{
    int32_t i = 0;
    while (i < n_words && words[i].at != word)
        i++;
    if (i == WORDS)
        interleave_fail("more than %d words to wait at", WORDS);
    if (i == n_words) {
        words[n_words].at = word;
        words[n_words++].calls = 0;
    }
    return &words[i].calls;
}

typedef struct sleeper {
    const uint32_t *calls;
    uint32_t before;
} sleeper;

static bool is_called(void *ctx)
{
    const sleeper *s = ctx;
    return *s->calls != s->before;
}

static long wait_for_call(const uint32_t *word, uint32_t value,
                          const struct timespec *most)
{
    sleeper s = {calls_of(word), *calls_of(word)};
    if (*(const volatile uint32_t *)word != value) {
        errno = EAGAIN;
        return -1;
    }
    interleave_wait_timed("futex", is_called, &s,
                          interleave_now_ns() + ns_of(most));
    if (is_called(&s))
        return 0;
    errno = ETIMEDOUT;
    return -1;
}

static long call_waiting(const uint32_t *word)
{
    *calls_of(word) +=
        !interleave_plants(INTERLEAVE_LOST_WAKES) || !interleave_once_in(4);
    interleave_work();
    interleave_point();
    return 1;
}

WRAP(long, syscall, long number, ...)
{
    enum { MOST = 6 };
    long given[MOST];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < MOST; i++)
        given[i] = va_arg(list, long);
    va_end(list);
    if (!interleave_active() || number != SYS_futex)
        return __real_syscall(number, given[0], given[1], given[2], given[3],
                              given[4], given[5]);
    if ((given[1] & FUTEX_CMD_MASK) == FUTEX_WAKE)
        return call_waiting((const uint32_t *)given[0]);
    return wait_for_call((const uint32_t *)given[0], (uint32_t)given[2],
                         (const struct timespec *)given[3]);
}

WRAP(int, sched_yield, void)
{
    if (!interleave_active())
        return __real_sched_yield();
    interleave_rest();
    return 0;
}

WRAP(int, nanosleep, const struct timespec *time, struct timespec *left)
{
    if (!interleave_active())
        return __real_nanosleep(time, left);
    interleave_wait_timed("nanosleep", never, NULL,
                          interleave_now_ns() + ns_of(time));
    return 0;
}

/* A disk takes its time: others go on. */
WRAP(int, fdatasync, int file)
{
    if (!interleave_active())
        return __real_fdatasync(file);
    interleave_point();
    return 0;
}

WRAP(int, fsync, int file)
{
    if (!interleave_active())
        return __real_fsync(file);
    interleave_point();
    return 0;
}

/* What the system writes is looked at as what we write is. */
WRAP(ssize_t, pread, int file, void *to, size_t n, off_t at)
{
    interleave_point();
    interleave_look(to, n, true);
    return __real_pread(file, to, n, at);
}
