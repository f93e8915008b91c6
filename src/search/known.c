#include "config.h"
#include "search/known.h"
#include "search/cuts/cut.h"

#include "ir/compact.h"
#include "plan/schedule.h"

#include <pthread.h>
#include <string.h>

/* Of a placed graph; of the graph alone where there are no stages. */
typedef struct entry {
    struct entry *next;
    const ir_graph *graph;
    int32_t n_stages;
    int32_t *stage_of; /* [nodes] */
    pthread_mutex_t busy;
    fs_arena *arena;           /* of what is found */
    ir_layers *layers;         /* NULL: nobody has asked */
    ir_blocks *blocks;         /* likewise */
    search_marks *marks;       /* likewise */
    search_ranks *ranks;       /* likewise */
    search_partings *partings; /* likewise, of so many stages at most: */
    int32_t most_stages;
    bool folded;       /* a view was looked for: */
    search_view *view; /* NULL: it is not worth it */
} entry;

/* plan_schedule_fill of a number of stages. */
typedef struct known_fill {
    int32_t n_stages, n_groups, micro_batches;
    const char *schedule;
    double fill;
} known_fill;

struct search_known {
    pthread_mutex_t list; /* of the entries and the fills */
    fs_arena *arena;
    entry *first;
    FS_VEC(known_fill) fills;
};

search_known *search_known_create(void)
{
    fs_arena *arena = fs_arena_create();
    search_known *known = fs_new(arena, search_known, 1);
    known->arena = arena;
    pthread_mutex_init(&known->list, NULL);
    return known;
}

void search_known_destroy(search_known *known)
{
    for (entry *e = known->first; e; e = e->next) {
        pthread_mutex_destroy(&e->busy);
        fs_arena_destroy(e->arena);
    }
    pthread_mutex_destroy(&known->list);
    fs_arena_destroy(known->arena);
}

static bool is_of(const entry *e, const ir_graph *graph,
                  const int32_t *stage_of, int32_t n_stages)
{
    const size_t bytes = (size_t)graph->nodes.n * sizeof *stage_of;
    return e->graph == graph && e->n_stages == n_stages &&
           (n_stages <= 0 || memcmp(e->stage_of, stage_of, bytes) == 0);
}

/* Locked; made where there is none. */
static entry *open_entry(search_known *known, const ir_graph *graph,
                         const int32_t *stage_of, int32_t n_stages)
{
    pthread_mutex_lock(&known->list);
    entry *e = known->first;
    while (e && !is_of(e, graph, stage_of, n_stages))
        e = e->next;
    if (!e) {
        e = fs_new(known->arena, entry, 1);
        *e = (entry){.next = known->first,
                     .graph = graph,
                     .n_stages = n_stages,
                     .arena = fs_arena_create()};
        if (n_stages > 0)
            e->stage_of = fs_memdup(known->arena, stage_of,
                                    (size_t)graph->nodes.n * sizeof *stage_of);
        pthread_mutex_init(&e->busy, NULL);
        known->first = e;
    }
    pthread_mutex_unlock(&known->list);
    pthread_mutex_lock(&e->busy);
    return e;
}

const ir_layers *search_known_layers(search_known *known, const ir_graph *graph)
{
    if (graph->layers)
        return graph->layers;
    entry *e = open_entry(known, graph, NULL, 0);
    if (!e->layers) {
        e->layers = fs_new(e->arena, ir_layers, 1);
        ir_find_layers(graph, e->arena, e->layers);
    }
    pthread_mutex_unlock(&e->busy);
    return e->layers;
}

/* An entry of its own: whoever asks may hold the graph's. */
enum { OF_BLOCKS = -1 };

const ir_blocks *search_known_blocks(search_known *known, const ir_graph *graph)
{
    entry *e = open_entry(known, graph, NULL, OF_BLOCKS);
    if (!e->blocks) {
        fs_arena *scratch = fs_arena_create();
        ir_blocks found = {0};
        ir_find_blocks(graph, scratch, &found);
        found.node = fs_memdup(e->arena, found.node,
                               (size_t)found.n_nodes * sizeof *found.node);
        found.repeats.at =
            fs_memdup(e->arena, found.repeats.at,
                      (size_t)found.repeats.n * sizeof *found.repeats.at);
        for (int32_t k = 0; k < found.repeats.n; k++)
            found.repeats.at[k].scope =
                fs_strdup(e->arena, found.repeats.at[k].scope);
        e->blocks = fs_memdup(e->arena, &found, sizeof found);
        fs_arena_destroy(scratch);
    }
    pthread_mutex_unlock(&e->busy);
    return e->blocks;
}

const search_marks *search_known_marks(search_known *known,
                                       const ir_graph *graph)
{
    entry *e = open_entry(known, graph, NULL, 0);
    if (!e->marks) {
        e->marks = fs_new(e->arena, search_marks, 1);
        search_marks_make(graph, e->arena, e->marks);
    }
    pthread_mutex_unlock(&e->busy);
    return e->marks;
}

const search_ranks *search_known_ranks(search_known *known,
                                       const ir_graph *graph)
{
    entry *e = open_entry(known, graph->like, NULL, 0);
    if (!e->ranks) {
        e->ranks = fs_new(e->arena, search_ranks, 1);
        search_find_ranks(graph->like, e->arena, e->ranks);
    }
    pthread_mutex_unlock(&e->busy);
    return e->ranks;
}

bool search_known_in_a_row(const search_problem *problem)
{
    bool all = true;
    for (int32_t k = 0; k < problem->n_graphs; k++)
        all &= search_known_ranks(problem->known, problem->graphs[k].graph)
                   ->meant != NULL;
    return all;
}

const search_partings *search_known_partings(search_known *known,
                                             const ir_graph *graph,
                                             const search_ranks *ranks,
                                             int32_t most_stages)
{
    entry *e = open_entry(known, graph, NULL, 0);
    if (!e->partings || e->most_stages < most_stages) {
        e->partings = fs_new(e->arena, search_partings, 1);
        *e->partings =
            search_find_partings(graph, ranks, most_stages, e->arena);
        e->most_stages = most_stages;
    }
    const search_partings *found = e->partings;
    pthread_mutex_unlock(&e->busy);
    return found;
}

/* Less is not worth what is lost: layers of a stage have one plan. Those of a
 * compact graph have in any case. */
enum { MUCH = 2 };

static search_view *find_view(const entry *e, const ir_layers *layers)
{
    search_fold *fold = fs_new(e->arena, search_fold, 1);
    if (!search_fold_find(layers, e->stage_of, e->n_stages, e->arena, fold) ||
        (!ir_is_compact(e->graph) &&
         MUCH * fold->folded.graph->nodes.n > e->graph->nodes.n))
        return NULL;
    search_view *view = fs_new(e->arena, search_view, 1);
    search_view_make(fold, e->arena, view);
    return view;
}

const search_view *search_known_view(search_known *known, const ir_graph *graph,
                                     const int32_t *stage_of, int32_t n_stages)
{
    const ir_layers *layers = search_known_layers(known, graph);
    entry *e = open_entry(known, graph, stage_of, n_stages);
    if (!e->folded)
        e->view = find_view(e, layers);
    e->folded = true;
    pthread_mutex_unlock(&e->busy);
    return e->view;
}

double search_fill_of(const search_layout *layout, int32_t micro_batches)
{
    fs_arena *scratch = fs_arena_create();
    const plan_pipeline pipe =
        plan_pipeline_of(layout->stages, layout->n_stages, layout->schedule,
                         micro_batches, scratch);
    const double fill = plan_schedule_fill(&pipe, layout->stages);
    fs_arena_destroy(scratch);
    return fill;
}

static const known_fill *find_fill(const search_known *known,
                                   const known_fill *wanted)
{
    for (int32_t k = 0; k < known->fills.n; k++) {
        const known_fill *f = &known->fills.at[k];
        if (f->n_stages == wanted->n_stages &&
            f->n_groups == wanted->n_groups &&
            f->micro_batches == wanted->micro_batches &&
            strcmp(f->schedule, wanted->schedule) == 0)
            return f;
    }
    return NULL;
}

/* Two who ask at once both find it. */
double search_known_fill(search_known *known, const search_layout *layout,
                         int32_t micro_batches)
{
    const int32_t few = plan_schedule_enough(layout->n_stages, micro_batches);
    known_fill one = {layout->n_stages, layout->n_groups, few, layout->schedule,
                      -1};
    pthread_mutex_lock(&known->list);
    const known_fill *had = find_fill(known, &one);
    one.fill = had ? had->fill : -1;
    pthread_mutex_unlock(&known->list);
    if (one.fill >= 0)
        return one.fill;
    one.fill = search_fill_of(layout, few);
    pthread_mutex_lock(&known->list);
    one.schedule = fs_strdup(known->arena, one.schedule);
    fs_push(known->arena, &known->fills, one);
    pthread_mutex_unlock(&known->list);
    return one.fill;
}
