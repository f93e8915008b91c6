/* On which cores a rank computes. */
#include "config.h"
#include "exec/binding.h"

#include "hw/cluster.h"
#include "hw/share.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* What this process had before its rank was bound to less of it. */
static cpu_set_t all;
static bool is_free;

static int32_t online_cores(void)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (int32_t)online : 1;
}

static bool bound_by_launcher(void)
{
    return getenv("OMPI_MCA_orte_bound_at_launch") != NULL;
}

/* A rank that its launcher bound sees only its own: then the host's count. */
int32_t exec_usable_cores(void)
{
    cpu_set_t set;
    if (!bound_by_launcher() && sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
    return online_cores();
}

static cpu_set_t only(const cpu_set_t *usable, int32_t core)
{
    cpu_set_t own;
    CPU_ZERO(&own);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, usable) && core-- == 0)
            CPU_SET(cpu, &own);
    return own;
}

/* Ranks that outnumber their cores share them evenly, and the simulator knows
 * who shares with whom. Others have each its share of the cores: a kernel that
 * may wakes a rank on the core of the one that rings it, which goes on
 * computing there, until the next tick (4 ms) moves it to a free one. The
 * kernel may refuse: then it moves them about. */
void exec_bind_rank(int32_t on_host, int32_t cores)
{
    const char *number = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
    const int32_t local = number ? atoi(number) : 0;
    const int32_t core = hw_core_of(local, on_host, cores);
    cpu_set_t own;
    if (bound_by_launcher() || sched_getaffinity(0, sizeof all, &all) != 0)
        return;
    if (core >= 0)
        own = only(&all, core);
    else if (on_host < 2 || on_host > cores ||
             !hw_share_of(local, on_host, &all, &own))
        return;
    is_free = core < 0;
    sched_setaffinity(0, sizeof own, &own);
}

void exec_bind_helper(void)
{
    if (is_free)
        sched_setaffinity(0, sizeof all, &all);
}
