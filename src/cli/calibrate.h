/* Measuring this host: what is measured stands in the database sample by
 * sample, so that it can be broken off, taken up again and added to. */
#ifndef FS_CLI_CALIBRATE_H
#define FS_CLI_CALIBRATE_H

#include "cli/machine.h"
#include "hw/samples.h"

/* Passes of a machine that is measured by the way, and of `calibrate`. */
enum { CLI_FEW_PASSES = 2, CLI_PASSES = 5 };
/* FS_INVALID: another `calibrate` measures into this command's database; both
 * would have a busy machine, and one would take the other's passes. */
fs_status cli_measure_alone(cli *c);
/* On ranks of its own: kernels alone, links. */
fs_status cli_probe(cli *c, int32_t passes, hw_cluster **out);
/* Steps of these plans (NULL ends them) on so many ranks, into the database;
 * the cluster's device then has all that stands there. */
fs_status cli_probe_plans(cli *c, int32_t passes, const char *const *plans,
                          int32_t ranks, hw_cluster *cluster);
/* The same on one of these ranks. */
fs_status cli_probe_as_rank(cli *c);
/* Plans of a network by the usual recipes on so many ranks, written to files
 * that go with the command; NULL ends them. */
fs_status cli_usual_plans(cli *c, const char *model, hw_cluster *cluster,
                          const char *const **out);

#endif
