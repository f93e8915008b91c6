/* Time and talk: a monotonic clock, warnings, progress on a terminal. */
#ifndef FS_BASE_CLOCK_H
#define FS_BASE_CLOCK_H

#include <stdint.h>

int64_t fs_now_ns(void); /* monotonic */

/* One line on stderr, "flowsearch: ..." */
void fs_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Rewrites one line on stderr, only when it is a terminal; an empty format
 * clears it. */
void fs_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "1.23 ms", "4.5 GiB": for people. Writes at most 32 bytes, returns out. */
char *fs_human_seconds(char out[32], double seconds);
char *fs_human_bytes(char out[32], double bytes);
char *fs_human_count(char out[32], double count);
char *fs_human_flop(char out[32], double flop);

#endif
