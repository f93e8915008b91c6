/* What was measured of a machine, timing by timing: a pass measures everything
 * once, so that the passes of one thing lie apart in time. */
#ifndef FS_HW_SAMPLES_H
#define FS_HW_SAMPLES_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct hw_sample {
    const char *what; /* an op; a collective and its ranks ("all-reduce/8"), of
                         which work is the bytes of the whole tensor on each */
    const char *variant; /* of several kernels the one; NULL: there is one, or
                            nobody says */
    uint64_t form;       /* ir_node_form of what was measured; of a collective's
                            bytes */
    double work;         /* as hw_point's */
    int32_t pass;
    bool in_step;   /* of a run, among the step's other tasks; else alone, over
                       and over */
    double seconds; /* mean of `count` timings */
    int32_t count;
} hw_sample;

/* Samples that are of no op and no collective. Of whole steps: seconds, and
 * work is what a rank's own tasks add up to. "pace/2": of 2 ranks. */
#define HW_PACE "pace"
/* Likewise, and work is the bytes that a rank's process has beside its arena.
 */
#define HW_PROCESS "process"
/* "ping/2": a message's way to another core, of so many bytes. */
#define HW_PING "ping"
/* "turn/4": what a meeting of 4 ranks, which outnumber the cores, takes beyond
 * their work, each sending so many bytes to each. */
#define HW_TURN "turn"
/* "firing/1": what firing a task takes a rank beside the task. */
#define HW_FIRING "firing"

#endif
