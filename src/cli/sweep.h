/* Inside the command sweep: recipes with their prices, and what is told of
 * them. */
#ifndef FS_CLI_SWEEP_H
#define FS_CLI_SWEEP_H

#include "cli/cli.h"
#include "search/sweep.h"

/* Recipes that are told, and planned: a price is up to some percent dearer than
 * the plan, so that of more than are told the order is known. */
enum { CLI_SWEEP_BEST = 10, CLI_SWEEP_PLANNED = 2 * CLI_SWEEP_BEST };

typedef struct cli_sweep_row {
    const char *recompute, *schedule;
    int32_t dp, tp, pp, layers, micro_batches;
    int8_t zero, seq_parallel;
    int8_t fits;  /* 0, 1; -1: it may (of what a schedule with slots of its own
                     for weights holds the formula counts a part) */
    bool planned; /* its seconds and bytes are those of `plan` */
    double iteration_s;
    double priced_s, sim_s; /* of what is planned: before, and simulated */
    int64_t peak_bytes;     /* of the device that holds most */
} cli_sweep_row;

typedef struct cli_sweep_refused {
    const char *why;
    int64_t n;
} cli_sweep_refused;

typedef struct cli_sweep {
    cli *c;
    plan_origin origin;
    hw_cluster *cluster;
    search_recipe fix;
    int32_t layers;     /* of the network */
    double limit_bytes; /* of a device */
    double tokens;      /* of a sample; NAN: it has none */
    FS_VEC(cli_sweep_row) rows;
    FS_VEC(cli_sweep_refused) refused;
    int64_t n_refused, n_fit, n_may;
    int32_t n_best;                         /* CLI_SWEEP_BEST at most */
    cli_sweep_row *best[CLI_SWEEP_PLANNED]; /* planned ones that fit, the
                                               fastest first */
    const char *unplanned; /* why one that looked good has no plan; NULL */
    search_sweep_figures figures;
    double seconds; /* of all, */
    double price_s; /* but for completing recipes */
    double plan_s;  /* planning the best */
} cli_sweep;

/* Plans rows in the order of their prices until so many are known to fit. */
void cli_sweep_find_best(cli_sweep *s);

/* The file of all rows, the object of --json, the table. */
fs_status cli_sweep_write(const cli_sweep *s, const char *path);
void cli_sweep_json(const cli_sweep *s);
void cli_sweep_tell(const cli_sweep *s);

#endif
