#include "config.h"
#include "base/ticker.h"

#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* The kernel looks at whether the counter goes on evenly, on all cores alike.
 */
static bool kernel_trusts_it(void)
{
    char name[4] = "";
    const int file = open("/sys/devices/system/clocksource/clocksource0/"
                          "current_clocksource",
                          O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return false;
    const ssize_t n = read(file, name, sizeof name);
    close(file);
    return n == 4 && memcmp(name, "tsc\n", 4) == 0;
}

fs_ticker fs_ticker_open(void)
{
#if defined(__x86_64__)
    return (fs_ticker){.counts = kernel_trusts_it()};
#else
    (void)kernel_trusts_it;
    return (fs_ticker){0};
#endif
}

/* Both at once; false: something came between each time. */
static bool read_both(uint64_t *tick, int64_t *ns)
{
    enum { TRIES = 3, CLOSE_TICKS = 20000 };
    uint64_t least = CLOSE_TICKS;
    for (int i = 0; i < TRIES; i++) {
        const uint64_t before = fs_ticks();
        const int64_t now = fs_now_ns();
        const uint64_t took = fs_ticks() - before;
        if (took >= least)
            continue;
        least = took;
        *tick = before + took / 2;
        *ns = now;
    }
    return least < CLOSE_TICKS;
}

/* After the host was asleep, or its state put back, ticks and time have gone
 * on apart: what was measured before tells nothing. A rate over a short time
 * is off by a few per cent itself. */
static bool has_leapt(const fs_ticker *t, int64_t ticks, double past_ns,
                      int64_t off_ns)
{
    const int64_t most_ns = 1000000000;
    const double least_ns = 1e7, most = 2e-2;
    const double rate = past_ns / (double)ticks;
    return ticks <= 0 || off_ns > most_ns || off_ns < -most_ns ||
           (t->known && past_ns > least_ns &&
            fabs(rate / t->ns_per_tick - 1) > most);
}

void fs_ticker_tune(fs_ticker *t)
{
    const double most = 1e-3; /* faster or slower, to make up for an error */
    uint64_t tick;
    int64_t ns;
    if (!t->counts || !read_both(&tick, &ns))
        return;
    const int64_t ticks = (int64_t)(tick - t->true_tick);
    const double past_ns = (double)(ns - t->true_ns);
    if (t->true_ns > 0 && past_ns > 0) {
        const double rate = past_ns / (double)ticks;
        /* Goes on from what it has told, so as to be right next time, after
         * about as long. */
        const int64_t told =
            !t->known ? ns
                      : t->ns + (int64_t)((double)(int64_t)(tick - t->tick) *
                                          t->ns_per_tick);
        const double error = (double)(ns - told) / past_ns;
        t->known = !has_leapt(t, ticks, past_ns, ns - told);
        t->tick = tick;
        t->ns = told;
        t->ns_per_tick = rate * (1 + fmax(-most, fmin(most, error)));
    }
    t->true_tick = tick;
    t->true_ns = ns;
}
