/* Time and talk: a monotonic clock, warnings, progress on a terminal. */
#ifndef FS_BASE_CLOCK_H
#define FS_BASE_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

int64_t fs_now_ns(void); /* monotonic */

/* When to end at the latest: at a time of fs_now_ns, or as soon as somebody,
 * from another thread, says so. */
typedef struct fs_end {
    int64_t wall_ns;
    const atomic_bool *stop; /* NULL: nobody does */
} fs_end;
/* `seconds` after `start_ns`; no more than about three years. */
fs_end fs_end_after(int64_t start_ns, double seconds, const atomic_bool *stop);
bool fs_end_stopped(const fs_end *end);
bool fs_end_reached(const fs_end *end);
/* Seconds left; 0 or less when it is reached. */
double fs_end_left(const fs_end *end);
/* When this share of the time that is left from now on is over. */
fs_end fs_end_share(const fs_end *end, double share);

/* About a second's worth of steps: a step of work is about a nanosecond, as
 * long as a look at one entry of a table takes. */
#define FS_STEPS_PER_S 1e9

/* When to stop: at an end, or after so many steps of work, whichever comes
 * first. Who works counts; no clock does. What is told to end after an effort
 * does the same on every machine, under any load. */
typedef struct fs_deadline {
    fs_end end;
    int64_t *done; /* steps, which go on growing; NULL: nobody counts */
    int64_t most;
} fs_deadline;
/* No effort ends it. */
fs_deadline fs_deadline_at(fs_end end, int64_t *done);
/* `steps` (INFINITY: any number) from now, but not after the end. */
fs_deadline fs_deadline_after(double steps, int64_t *done, fs_end end);
void fs_deadline_spend(const fs_deadline *deadline, int64_t steps);
bool fs_deadline_over(const fs_deadline *deadline);
/* Steps left; INT64_MAX: any number. */
int64_t fs_deadline_steps_left(const fs_deadline *deadline);

/* One line on stderr, "flowsearch: ..." */
void fs_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Rewrites one line on stderr, only when it is a terminal; an empty format
 * clears it. */
void fs_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "1.23 ms", "4.5 GiB": for people. Writes at most 32 bytes, returns out. */
char *fs_human_seconds(char out[32], double seconds);
char *fs_human_bytes(char out[32], double bytes);
/* What people write: "16G", "16GiB", "16 GB" are 16 x 2^30, "1e9" as it is;
 * false: no number, or another unit. */
bool fs_read_bytes(const char *text, double *out);
char *fs_human_count(char out[32], double count);
char *fs_human_flop(char out[32], double flop);

#endif
