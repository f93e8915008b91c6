#include "config.h"
#include "search/crew.h"
#include "search/lay_out.h"

#include "base/crew.h"

/* A hand has a cost model and tables of its own: these remember. */
typedef struct hand {
    search_level0 *z; /* of the first, that of the search */
    search_level0 own;
    search_problem problem;
} hand;

struct search_crew {
    int32_t n;
    hand *hands;
    search_job *job;
    search_candidate *const *list;
};

static void hire(search_level0 *z)
{
    struct search_crew *crew = fs_new(z->scratch, struct search_crew, 1);
    crew->n = z->problem->filter.allow ? 1 : fs_crew_hands();
    crew->hands = fs_new(z->scratch, hand, crew->n);
    crew->hands[0].z = z;
    for (int32_t k = 1; k < crew->n; k++) {
        hand *h = &crew->hands[k];
        h->problem = *z->problem;
        h->problem.progress = NULL;
        h->problem.book = NULL;
        h->z = &h->own;
        h->own = (search_level0){.problem = &h->problem,
                                 .scratch = fs_arena_create(),
                                 .arena = fs_arena_create(),
                                 .shares = z->shares,
                                 .start_ns = z->start_ns,
                                 .end = z->end,
                                 .most_steps = INT64_MAX};
        h->problem.cost = cost_model_like(z->problem->cost, h->own.scratch);
        search_rates_for(&h->own, 1, 1);
    }
    z->crew = crew;
}

static void work(void *ctx, int32_t number, int32_t k)
{
    const struct search_crew *crew = ctx;
    crew->job(crew->hands[number].z, crew->list[k]);
}

void search_crew_run(search_level0 *z, search_job *job,
                     search_candidate *const *list, int32_t n)
{
    if (!z->crew)
        hire(z);
    struct search_crew *crew = z->crew;
    crew->job = job;
    crew->list = list;
    for (int32_t k = 1; k < crew->n; k++) {
        hand *h = &crew->hands[k];
        h->own.best_s = z->best_s;
        h->own.end = z->end;
        h->own.memory_decides = z->memory_decides;
        h->own.refused = z->refused;
        h->problem.gap = z->problem->gap;
    }
    fs_crew_run(work, crew, crew->n, n);
}

void search_crew_dismiss(search_level0 *z)
{
    for (int32_t k = 1; z->crew && k < z->crew->n; k++) {
        fs_arena_destroy(z->crew->hands[k].own.scratch);
        fs_arena_destroy(z->crew->hands[k].own.arena);
    }
    z->crew = NULL;
}
