#include "config.h"
#include "base/crew.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST = 8 };

typedef struct crew {
    fs_crew_job *job;
    void *ctx;
    int32_t n;
    atomic_int next;
} crew;

typedef struct hand {
    crew *of;
    int32_t number;
    pthread_t thread;
} hand;

/* Those that this process may use: a container, a batch system or taskset may
 * have given it fewer than there are. */
static long usable_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0
               ? CPU_COUNT(&set)
               : sysconf(_SC_NPROCESSORS_ONLN); /* more than a set names */
}

int32_t fs_crew_hands(void)
{
    const long cores = usable_cores();
    if (cores < 2)
        return 1;
    return cores < MOST ? (int32_t)cores : MOST;
}

static void *work(void *arg)
{
    const hand *h = arg;
    for (int32_t k; (k = atomic_fetch_add(&h->of->next, 1)) < h->of->n;)
        h->of->job(h->of->ctx, h->number, k);
    return NULL;
}

/* A thread that cannot be had leaves the work to the others. */
void fs_crew_run(fs_crew_job *job, void *ctx, int32_t hands, int32_t n)
{
    crew all = {.job = job, .ctx = ctx, .n = n};
    hand list[MOST] = {{&all, 0, 0}};
    int32_t running = 1;
    while (running < hands && running < n && running < MOST) {
        hand *h = &list[running];
        *h = (hand){.of = &all, .number = running};
        if (pthread_create(&h->thread, NULL, work, h) != 0)
            break;
        running++;
    }
    work(&list[0]);
    for (int32_t k = 1; k < running; k++)
        pthread_join(list[k].thread, NULL);
}
