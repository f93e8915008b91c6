/* Several threads at one list of jobs. */
#ifndef FS_BASE_CREW_H
#define FS_BASE_CREW_H

#include <stdint.h>

/* Job k, by a thread that is `hand` of those at work, 0 the caller's: what each
 * hand has of its own needs no lock. */
typedef void fs_crew_job(void *ctx, int32_t hand, int32_t k);

/* As many hands as there are cores that the process may use, 8 at most. */
int32_t fs_crew_hands(void);
/* Jobs 0 to n - 1, each once, by `hands` threads at most, begun in that order.
 * Returns when all are done. */
void fs_crew_run(fs_crew_job *job, void *ctx, int32_t hands, int32_t n);

#endif
