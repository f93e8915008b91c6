/* Random flows on a fat tree: by our flows, and by SimGrid where it is there.
 */
#ifndef FS_TESTS_BENCH_FLOWS_H
#define FS_TESTS_BENCH_FLOWS_H

#include <stdbool.h>
#include <stdint.h>

/* k ports a switch: k^3 / 4 hosts. Each host sends `flows` one after the other,
 * to anybody. */
typedef struct flows_case {
    int32_t k, flows;
    uint64_t seed;
} flows_case;

typedef struct flows_figures {
    int64_t events; /* starts and ends */
    int32_t links;
    double ours_s, theirs_s; /* of the processor; theirs NAN: not there */
    double off;              /* most that an end differs, relative */
    const char *why;         /* SimGrid was not asked */
} flows_figures;

flows_figures flows_run(const flows_case *c, bool compare);

#endif
