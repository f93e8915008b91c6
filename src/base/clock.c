#include "config.h"
#include "base/clock.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int64_t fs_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
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

fs_end fs_end_share(const fs_end *end, double share)
{
    const int64_t now_ns = fs_now_ns();
    const double left_ns = (double)(end->wall_ns - now_ns);
    return (fs_end){now_ns + (int64_t)(share * left_ns), end->stop};
}

fs_deadline fs_deadline_at(fs_end end, int64_t *done)
{
    return (fs_deadline){end, done, INT64_MAX};
}

fs_deadline fs_deadline_after(double steps, int64_t *done, fs_end end)
{
    fs_deadline deadline = fs_deadline_at(end, done);
    if (steps < MOST_S * FS_STEPS_PER_S)
        deadline.most = *done + (int64_t)fmax(steps, 0);
    return deadline;
}

void fs_deadline_spend(const fs_deadline *deadline, int64_t steps)
{
    if (deadline->done)
        *deadline->done += steps;
}

bool fs_deadline_over(const fs_deadline *deadline)
{
    return (deadline->done && *deadline->done >= deadline->most) ||
           fs_end_reached(&deadline->end);
}

int64_t fs_deadline_steps_left(const fs_deadline *deadline)
{
    if (!deadline->done || deadline->most == INT64_MAX)
        return INT64_MAX;
    const int64_t left = deadline->most - *deadline->done;
    return left > 0 ? left : 0;
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

bool fs_read_bytes(const char *text, double *out)
{
    static const char letters[] = "KMGT";
    const size_t digits = strspn(text, "+-0123456789.eE"); /* none of 0x10 */
    char *end;
    const double number = strtod(text, &end);
    if (end == text || end != text + digits || !isfinite(number))
        return false;
    end += *end == ' ';
    const char *letter =
        *end ? strchr(letters, toupper((unsigned char)*end)) : NULL;
    if (letter)
        end += end[1] == 'i' ? 2 : 1;
    end += *end == 'B';
    *out = number * (letter ? pow(1024, (double)(letter - letters) + 1) : 1);
    return !*end;
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
