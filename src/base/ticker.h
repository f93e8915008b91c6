/* fs_now_ns for one thread that asks for it all the time: where the processor
 * counts ticks that the kernel itself tells the time by, those are read (a
 * third of what the kernel's own reading takes) and turned into nanoseconds by
 * a rate that is measured again and again. Between two tunings it is off from
 * fs_now_ns by what the measured rate is off (some 1e-6), it never goes back
 * (but where the host was asleep meanwhile: the next tuning sees that), and
 * elsewhere it is fs_now_ns. */
#ifndef FS_BASE_TICKER_H
#define FS_BASE_TICKER_H

#include "base/clock.h"

typedef struct fs_ticker {
    double ns_per_tick; /* once known: else fs_now_ns is asked */
    uint64_t tick;      /* was counted .. */
    int64_t ns;         /* .. at this time */
    uint64_t true_tick; /* at the last tuning, */
    int64_t true_ns;    /* fs_now_ns then; 0: there was none */
    bool known;
    bool counts; /* there is a counter to trust */
} fs_ticker;

fs_ticker fs_ticker_open(void);
/* From time to time; the first two make it known, and so do two after ticks and
 * time have gone on apart. */
void fs_ticker_tune(fs_ticker *t);

static inline uint64_t fs_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

static inline int64_t fs_ticker_ns(const fs_ticker *t)
{
    if (!t->known)
        return fs_now_ns();
    return t->ns +
           (int64_t)((double)(int64_t)(fs_ticks() - t->tick) * t->ns_per_tick);
}

#endif
