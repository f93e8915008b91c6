/* Who waits for whom, by the flight records of a job's ranks: pure functions,
 * so that they are tested on records that were made up. */
#ifndef FS_CLI_WAITS_H
#define FS_CLI_WAITS_H

#include "exec/recorder.h"
#include "plan/plan.h"

enum { CLI_WAITS_PEERS = 8, CLI_WAITS_CYCLE = 64 };

/* What a rank is at: the transfer that it waits in, else its least advanced
 * stream with something left. */
typedef struct cli_at {
    int32_t stream, task; /* -1: it is at its end, or has not begun */
    int32_t step, micro_batch;
    bool busy, computes;
    int64_t since_ns;
    int32_t n_peers; /* that have not come to that transfer yet, in all */
    int32_t peers[CLI_WAITS_PEERS];
} cli_at;

typedef struct cli_waits {
    int32_t n;
    cli_at *at;      /* [n] */
    int32_t differs; /* the rank that is furthest behind those of its role, the
                        first such; -1: none is */
    int32_t ahead;   /* one of these that is furthest ahead */
    int32_t root;    /* somebody waits for it, and it for nobody; -1 */
    int32_t late;    /* has come least often to where all ranks meet, before
                        the first step and after the last; -1: none has */
    int32_t n_cycle; /* ranks that wait for each other in a ring; 0: none do.
                        A receive is posted ahead of its need: where there is
                        a root, a ring is no cause, and not looked for */
    int32_t cycle[CLI_WAITS_CYCLE];
} cli_waits;

/* records[r]: of rank r. A lifeless rank (dead, stopped, its loop stands)
 * waits for nobody: it is at the task that it began last, where none goes on at
 * the next one of the step that it is at. Everything lies in `arena`. */
void cli_waits_of(const plan *p, const exec_record *const *records,
                  const bool *lifeless, fs_arena *arena, cli_waits *out);
/* "fc1 (step 3, micro-batch 0)"; "" at its end. */
const char *cli_at_text(const ir_graph *graph, const plan *p, int32_t rank,
                        const cli_at *at, fs_arena *arena);

#endif
