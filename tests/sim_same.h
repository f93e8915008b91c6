/* Whether two simulations came out the same, to the last bit. */
#ifndef FS_TESTS_SIM_SAME_H
#define FS_TESTS_SIM_SAME_H

#include "sim/sim.h"

#include <string.h>

static bool same(const sim_result *a, const sim_result *b)
{
    return a->iteration_s == b->iteration_s && a->bubble == b->bubble &&
           a->exposed_comm_s == b->exposed_comm_s && a->events == b->events &&
           memcmp(a->step_s, b->step_s,
                  (size_t)a->n_steps * sizeof *a->step_s) == 0 &&
           memcmp(a->stages, b->stages,
                  (size_t)a->n_stages * sizeof *a->stages) == 0;
}

#endif
