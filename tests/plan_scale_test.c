/* A plan is per role, never per rank: neither its size nor the work of lowering
 * hangs on how many devices there are. */
#include "config.h"

#include "plan_scale.h"

#include <sys/resource.h>

enum { MOST_BYTES = 200 << 20 };

/* The rule by which the strategy is made looks at bytes, so that where pieces
 * are cut it is another one for other sizes. */
static bool similar(const scale_figures *a, const scale_figures *b)
{
    return a->tasks <= b->tasks + b->tasks / 50 &&
           a->registers <= b->registers + b->registers / 50 &&
           a->plan_bytes <= b->plan_bytes + b->plan_bytes / 50;
}

static bool same(const scale_figures *a, const scale_figures *b)
{
    return a->tasks == b->tasks && a->registers == b->registers &&
           a->streams == b->streams && a->slots == b->slots &&
           a->comms == b->comms && a->channels == b->channels &&
           a->plan_bytes == b->plan_bytes;
}

static void test_devices(const char *what, scale_case c, const int32_t *devices,
                         int32_t n)
{
    scale_figures first = {0};

    for (int32_t i = 0; i < n; i++) {
        c.dp = devices[i] / (c.pp * (c.tp ? c.tp : 1));
        scale_figures f = scale_lower(&c);
        if (i == 0)
            first = f;
        printf("# %s, %d devices: %lld tasks, %lld registers, plan of %lld "
               "bytes, lowered in %.2f s of CPU time\n",
               what, (int)devices[i], (long long)f.tasks,
               (long long)f.registers, (long long)f.plan_bytes, f.cpu_s);
        tap_ok(f.tasks > 1000 &&
                   (c.cut ? similar(&f, &first) : same(&f, &first)),
               "GPT-3 175B, %s: the plan for %d devices has the size of that "
               "for %d",
               what, (int)devices[i], (int)devices[0]);
    }
}

int main(void)
{
    static const int32_t devices[] = {8, 64, 1024, 16384};
    struct rusage usage;

    test_devices("4 stages", (scale_case){.pp = 4}, devices, 4);
    getrusage(RUSAGE_SELF, &usage);
#ifdef __SANITIZE_ADDRESS__
    printf("# memory is not asked of a sanitizer\n");
#else
    tap_ok(usage.ru_maxrss * 1024 < MOST_BYTES,
           "all of that, graphs and strategies too, in less than 200 MB (%ld "
           "MB)",
           usage.ru_maxrss >> 10);
#endif
    test_devices("2 stages, tp 8, ZeRO-3, overlap",
                 (scale_case){.pp = 2, .tp = 8, .cut = true}, devices + 1, 3);
    return tap_done();
}
