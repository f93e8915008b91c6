/* What a server tells of itself. */
#ifndef FS_CLI_METRICS_H
#define FS_CLI_METRICS_H

#include "cli/batches.h"

/* GET /metrics: Prometheus' text format; malloc's. */
char *cli_metrics_write(const cli_served *served,
                        const cli_batches_counts *counts, size_t *bytes);
/* Of a server that has ended: into the result, and told. */
void cli_metrics_tell(cli *c, const cli_served *served,
                      const cli_batches_counts *counts);

#endif
