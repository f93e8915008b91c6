#include "config.h"
#include "search/crew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { MOST = 8 };

/* A hand has a cost model and tables of its own: these remember. */
typedef struct hand {
    search_level0 z;
    search_problem problem;
    pthread_t thread;
    struct search_crew *crew;
} hand;

struct search_crew {
    int32_t n;
    hand hands[MOST];
    search_job *job;
    search_candidate *const *list;
    int32_t n_list;
    atomic_int next;
};

static int32_t hands_for(const search_problem *problem)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (problem->filter.allow || cores < 2)
        return 1;
    return cores < MOST ? (int32_t)cores : MOST;
}

static void hire(search_level0 *z)
{
    struct search_crew *crew = fs_new(z->scratch, struct search_crew, 1);
    crew->n = hands_for(z->problem);
    for (int32_t k = 1; k < crew->n; k++) {
        hand *h = &crew->hands[k];
        h->crew = crew;
        h->problem = *z->problem;
        h->problem.progress = NULL;
        h->z = (search_level0){.problem = &h->problem,
                               .scratch = fs_arena_create(),
                               .arena = fs_arena_create(),
                               .start_ns = z->start_ns,
                               .end = z->end,
                               .most_steps = INT64_MAX};
        h->problem.cost = cost_model_create(z->problem->cluster, h->z.scratch);
        search_rates_for(&h->z, 1, 1);
    }
    z->crew = crew;
}

static void work(struct search_crew *crew, search_level0 *z)
{
    for (int32_t k; (k = atomic_fetch_add(&crew->next, 1)) < crew->n_list;)
        crew->job(z, crew->list[k]);
}

static void *run_hand(void *arg)
{
    hand *h = arg;
    work(h->crew, &h->z);
    return NULL;
}

void search_crew_run(search_level0 *z, search_job *job,
                     search_candidate *const *list, int32_t n)
{
    if (!z->crew)
        hire(z);
    struct search_crew *crew = z->crew;
    crew->job = job;
    crew->list = list;
    crew->n_list = n;
    atomic_store(&crew->next, 0);
    int32_t running = 1;
    while (running < crew->n && running < n) {
        hand *h = &crew->hands[running];
        h->z.best_s = z->best_s;
        if (pthread_create(&h->thread, NULL, run_hand, h) != 0)
            break;
        running++;
    }
    work(crew, z);
    for (int32_t k = 1; k < running; k++)
        pthread_join(crew->hands[k].thread, NULL);
}

void search_crew_dismiss(search_level0 *z)
{
    for (int32_t k = 1; z->crew && k < z->crew->n; k++) {
        fs_arena_destroy(z->crew->hands[k].z.scratch);
        fs_arena_destroy(z->crew->hands[k].z.arena);
    }
    z->crew = NULL;
}
