/* Firings that take longer or shorter than they should, by seed; not for other
 * folders.
 *
 * Each firing's demand is multiplied by a log-normal factor of mean 1 and of
 * the relative deviation that was asked for, drawn by (seed, role, task, step,
 * micro-batch), so that it hangs on no order. A role is played as one of its
 * ranks, with its own draws. Where its ranks meet in a collective it waits for
 * the slowest of the others: what these computed since they last met is a sum
 * of independent draws, taken as log-normal with the sum's mean and variance
 * (Fenton 1960; exact for one firing), and the largest of n - 1 such is the
 * quantile U^(1/(n-1)). A meeting within a smaller communicator, whose slowest
 * the others of a larger one inherit, adds the mean and variance of a normal
 * sum's largest. A collective or move is one coupled flow: one factor. */
#ifndef FS_SIM_NOISE_H
#define FS_SIM_NOISE_H

#include "sim/parts.h"

/* NULL: no jitter is asked for. In the simulation's arena. */
sim_noise *sim_noise_create(const simulation *s);
/* Seconds of the head of a stream, which fires alone. NULL: as they are. */
double sim_noise_alone(sim_noise *n, const simulation *s, int32_t stream,
                       double seconds);
/* Of a meeting, all of whose members have come: with what they wait for ranks
 * that are not played. */
double sim_noise_meeting(sim_noise *n, const simulation *s, int32_t line,
                         double seconds);

/* The standard normal's value above which `tail`, in (0, 1), lies. */
double sim_normal_tail(double tail);

#endif
