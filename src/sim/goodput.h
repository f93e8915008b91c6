/* What failures leave of the time: steps are done, state is written every so
 * often, a failure takes back to the last state that was written.
 *
 * Failures come with a constant rate (exponential gaps), of all devices
 * together, also while state is written or read back. A segment is w seconds of
 * useful work and the C that a checkpoint takes, during which nothing is
 * computed; a failure costs R (restart and reading back) before the segment
 * begins anew. With L = w + C and rate f, a segment takes in the mean
 *   E(w) = e^(f R) (e^(f L) - 1) / f
 * (a renewal argument; Daly, "A higher order estimate of the optimum checkpoint
 * interval for restart dumps", FGCS 22 (2006)), which is w of work,
 * C of checkpoint, (e^(f L) - 1) (e^(f R) - 1) / f of restarts, and rework. */
#ifndef FS_SIM_GOODPUT_H
#define FS_SIM_GOODPUT_H

typedef struct sim_failures {
    double mtbf_s;       /* of all devices together, > 0 */
    double checkpoint_s; /* C, >= 0 */
    double restart_s;    /* R, >= 0 */
} sim_failures;

/* Shares of the time; they add up to 1. */
typedef struct sim_goodput {
    double useful, checkpoint, rework, restart;
} sim_goodput;
/* With so much useful work between two checkpoints, > 0. Where no segment ever
 * ends, all is rework. */
sim_goodput sim_goodput_of(const sim_failures *f, double work_s);

/* Useful work between checkpoints that leaves most of it: exactly, f w = 1 +
 * W(-e^(-1 - f C)), W being Lambert's function (Daly 2006), whatever R;
 * the first order sqrt(2 C / f) (Young, "A first order approximation to the
 * optimum checkpoint interval", CACM 17 (1974)); Daly's higher order (2006). */
double sim_interval_exact(const sim_failures *f);
double sim_interval_young(const sim_failures *f);
double sim_interval_daly(const sim_failures *f);
/* The best whole number of steps of so many seconds, at least 1. */
double sim_interval_steps(const sim_failures *f, double step_s);

#endif
