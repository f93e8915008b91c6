#include "config.h"
#include "base/clock.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t fs_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t fs_cpu_ns(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return (int64_t)spent.tv_sec * 1000000000 + spent.tv_nsec;
}

#define MOST_S 1e8 /* years; in ns it fits */

fs_end fs_end_after(int64_t start_ns, double seconds, const atomic_bool *stop)
{
    return (fs_end){start_ns + (int64_t)(fmin(seconds, MOST_S) * 1e9), stop};
}

bool fs_end_stopped(const fs_end *end)
{
    return end->stop && atomic_load_explicit(end->stop, memory_order_relaxed);
}

bool fs_end_reached(const fs_end *end)
{
    return fs_end_stopped(end) || fs_now_ns() >= end->wall_ns;
}

double fs_end_left(const fs_end *end)
{
    return fs_end_stopped(end) ? 0
                               : 1e-9 * (double)(end->wall_ns - fs_now_ns());
}

fs_end fs_end_half(const fs_end *end)
{
    const int64_t now_ns = fs_now_ns();
    return (fs_end){now_ns + (end->wall_ns - now_ns) / 2, end->stop};
}

fs_deadline fs_deadline_after(double effort_s, fs_end end)
{
    return (fs_deadline){end,
                         fs_cpu_ns() + (int64_t)(fmin(effort_s, MOST_S) * 1e9)};
}

double fs_deadline_left(const fs_deadline *deadline)
{
    const double cpu_s = 1e-9 * (double)(deadline->cpu_ns - fs_cpu_ns());
    return fmin(fs_end_left(&deadline->end), cpu_s);
}

/* One write: the ranks of a job share stderr, and what they say at the same
 * time must not be mixed within a line. */
void fs_warn(const char *format, ...)
{
    char line[2048] = "flowsearch: ";
    size_t n = strlen(line);
    va_list args;
    va_start(args, format);
    const int more = vsnprintf(line + n, sizeof line - n - 1, format, args);
    va_end(args);
    if (more > 0)
        n = strlen(line);
    line[n++] = '\n';
    fflush(stdout); /* or what was said before comes after, cut in a word */
    fflush(stderr);
    if (write(STDERR_FILENO, line, n) < 0)
        return; /* nobody is left to be told */
}

void fs_progress(const char *format, ...)
{
    if (!isatty(STDERR_FILENO))
        return;
    va_list args;
    va_start(args, format);
    fputs("\r\033[K", stderr);
    vfprintf(stderr, format, args);
    fflush(stderr);
    va_end(args);
}

static char *scaled(char out[32], double value, double base,
                    const char *const units[], int n_units)
{
    int i = 0;
    while (fabs(value) >= base && i + 1 < n_units) {
        value /= base;
        i++;
    }
    const char *shape = i == 0 && value == floor(value) ? "%.0f%s" : "%.3g%s";
    if (fabs(value) >= 999.5)
        shape = "%.0f%s";
    snprintf(out, 32, shape, value, units[i]);
    return out;
}

char *fs_human_seconds(char out[32], double seconds)
{
    static const char *const units[] = {" ns", " us", " ms", " s"};
    if (seconds >= 1000.0) {
        snprintf(out, 32, "%.0f s", seconds);
        return out;
    }
    return scaled(out, seconds * 1e9, 1000.0, units, 4);
}

char *fs_human_bytes(char out[32], double bytes)
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
    return scaled(out, bytes, 1024.0, units, 5);
}

char *fs_human_flop(char out[32], double flop)
{
    static const char *const units[] = {" flop",  " kflop", " Mflop", " Gflop",
                                        " Tflop", " Pflop", " Eflop"};
    return scaled(out, flop, 1000.0, units, 7);
}

char *fs_human_count(char out[32], double count)
{
    static const char *const units[] = {"", " k", " M", " G", " T", " P", " E"};
    return scaled(out, count, 1000.0, units, 7);
}
