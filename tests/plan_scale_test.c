/* A plan is per role, never per rank: neither its size nor the work of lowering
 * hangs on how many devices there are. */
#include "config.h"

#include "plan_scale.h"

#include <sys/resource.h>

enum { MOST_BYTES = 200 << 20 };

static bool same(const scale_figures *a, const scale_figures *b)
{
    return a->tasks == b->tasks && a->registers == b->registers &&
           a->streams == b->streams && a->slots == b->slots &&
           a->comms == b->comms && a->channels == b->channels &&
           a->plan_bytes == b->plan_bytes;
}

static void test_devices(int32_t pp)
{
    static const int32_t devices[] = {8, 64, 1024, 16384};
    scale_figures first = {0};

    for (int32_t i = 0; i < 4; i++) {
        scale_case c = {pp, devices[i] / pp};
        scale_figures f = scale_lower(&c);
        if (i == 0)
            first = f;
        printf("# %d stages, %d devices: %lld tasks, %lld registers, plan of "
               "%lld bytes, lowered in %.2f s of CPU time\n",
               (int)pp, (int)devices[i], (long long)f.tasks,
               (long long)f.registers, (long long)f.plan_bytes, f.cpu_s);
        tap_ok(f.tasks > 1000 && same(&f, &first),
               "GPT-3 175B, %d stages: the plan for %d devices has the size "
               "of that for 8",
               (int)pp, (int)devices[i]);
    }
}

int main(void)
{
    struct rusage usage;

    test_devices(4);
    getrusage(RUSAGE_SELF, &usage);
#ifdef __SANITIZE_ADDRESS__
    printf("# memory is not asked of a sanitizer\n");
#else
    tap_ok(usage.ru_maxrss * 1024 < MOST_BYTES,
           "all of that, graphs and strategies too, in less than 200 MB (%ld "
           "MB)",
           usage.ru_maxrss >> 10);
#endif
    return tap_done();
}
