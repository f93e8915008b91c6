/* What several commands ask of an open plan: its predicted iteration and the
 * rates that follow from an iteration's time. */
#ifndef FS_CLI_PREDICT_H
#define FS_CLI_PREDICT_H

#include "cli/cli.h"
#include "sim/sim.h"

/* Steps that a simulation has unless another number is said. */
enum { CLI_SIM_STEPS = 4 };
/* Simulates with the predicted timing. trace may be NULL. */
fs_status cli_predict(cli *c, const cli_plan *p, plan_trace *trace,
                      sim_result *out);

/* Of a predicted timing: what part of the seconds was measured in these very
 * shapes, lies between measured points, is by the machine's rates. "evidence":
 * {measured, interpolated, formula}. */
void cli_tell_evidence(cli *c, const cli_plan *p, const plan_timing *timing);

/* Says so where ranks outnumber cores: a prediction for them counts it.
 * "ranks_per_core": 1 where none share. */
void cli_tell_cores(cli *c, const hw_cluster *cluster);

typedef struct cli_rates {
    double samples_per_s, tokens_per_s; /* tokens: elements of the first
                                           integer input of rank 2 or more
                                           (ids); NAN without one */
    double flops_per_device; /* of the whole network's work, as on one device */
    double mfu;  /* of the device's peak (shared cores count as the share that
                    a device gets): of 16-bit floats where */
    bool narrow; /* most flop of products and convolutions take these, else of
                    fp32 */
} cli_rates;
cli_rates cli_rates_of(const cli_plan *p, double iteration_s);

#endif
