/* Inside `compare`: two plans of one model (by digest; clusters may differ),
 * and the tables of what differs. `differences` of the JSON object holds kind
 * "setting": name, a, b: what was chosen otherwise, first of all; kind "time":
 * seconds per step of stages `first` to `last`, which are alike, by part:
 * compute, each kind of communication, boxing on one device; kind "memory":
 * bytes of device groups likewise, by what they hold; kind "op": ops, by name,
 * of another signature or stage, those first that change the time most:
 * `copies` of a block as one, `a` and `b` null where only the other plan's
 * graph has it. What lies the same along all axes of a mesh is the same on one
 * axis. */
#ifndef FS_CLI_COMPARE_H
#define FS_CLI_COMPARE_H

#include "cli/cli.h"

/* One of them, with what its formula says. */
typedef struct cli_side {
    const char *file;
    cli_plan p;
    cost_summary cost;
} cli_side;

typedef struct cli_comparing {
    cli *c;
    cli_side a, b;
    json_t *differences; /* of the object of --json */
} cli_comparing;

/* Ops whose signature or stage changed, copies of a block as one
 * (compare_ops.c). */
void cli_compare_ops(cli_comparing *k);
/* Seconds by stage and what they go into, bytes by device and kind
 * (compare_costs.c). */
void cli_compare_costs(cli_comparing *k);

#endif
