#include "config.h"
#include "search/planner.h"

#include "search/engine.h"

#include <string.h>

static const search_planner planners[] = {
#define SEARCH_PLANNER(name, function, source, what)                           \
    {name, search_plan_##function, source, what},
#include "search/planners.def"
#undef SEARCH_PLANNER
};

enum { N_PLANNERS = sizeof planners / sizeof planners[0] };

const search_planner *search_planner_find(const char *name)
{
    for (int32_t k = 0; k < N_PLANNERS; k++)
        if (strcmp(planners[k].name, name) == 0)
            return &planners[k];
    return NULL;
}

const char *search_planner_names(void)
{
#define SEARCH_PLANNER(name, function, source, what) ", " name
    static const char names[] =
#include "search/planners.def"
        ;
#undef SEARCH_PLANNER
    return names + 2;
}

const char *search_way_names(void)
{
#define SEARCH_ENGINE(name, what) ", " #name
#define SEARCH_PLANNER(name, function, source, what) ", " name
    static const char names[] =
#include "search/engines.def"
#include "search/planners.def"
        ;
#undef SEARCH_PLANNER
#undef SEARCH_ENGINE
    return names + 2;
}

const search_way *search_way_at(int32_t place)
{
    static const search_way ways[] = {
#define SEARCH_ENGINE(name, what) {#name, what, NULL},
#define SEARCH_PLANNER(name, function, source, what) {name, what, source},
#include "search/engines.def"
#include "search/planners.def"
#undef SEARCH_PLANNER
#undef SEARCH_ENGINE
    };
    const int32_t n = sizeof ways / sizeof ways[0];
    return place < n ? &ways[place] : NULL;
}
