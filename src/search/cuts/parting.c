/* Where a cut lies between what is computed again and who reads it, the reader
 * takes what the forward pass made, and copies that nobody reads are not made
 * (ir_recompute_bind). So what takes time hangs on the cut. A bound of many
 * cuts counts only what all of them have: an edge from a copy to a reader of
 * another piece, with one of their places in between, counts nothing; a copy
 * all of whose readers may be lost so, and what is made for it alone, takes no
 * time. Anything else is as it is whatever of that is left out, since that was
 * read by nobody else, and what is read instead only adds.
 *
 * Own cuts lie at places that the fewest activations cross (cut.c): boundaries
 * of blocks, where they part next to nothing (what blocks share: tied weights,
 * tables of positions). Only where there are more stages than blocks do they
 * part what is computed again inside these. */
#include "config.h"
#include "search/cuts/parting.h"

#include "ir/compact.h"
#include "search/view.h"

#include <string.h>

typedef struct parter {
    const ir_graph *graph;
    const int32_t *place;  /* [nodes] */
    const int32_t *before; /* [places + 1] cuts in front of each and before */
    bool *held, *left;     /* [nodes] by a reader */
} parter;

static bool has_copies(const ir_graph *graph)
{
    for (int32_t t = 0; t < graph->tensors.n; t++)
        if (graph->tensors.at[t].again_of >= 0)
            return true;
    return false;
}

/* Where a copy and its reader lie. */
typedef struct reach {
    int32_t first, last;
} reach;

static reach reach_of(const ir_graph *graph, const int32_t *place, int32_t v,
                      int32_t t)
{
    const int32_t a = place[graph->tensors.at[t].producer], b = place[v];
    return a < b ? (reach){a, b} : (reach){b, a};
}

static bool is_parted(const parter *p, int32_t v, int32_t t)
{
    if (p->graph->tensors.at[t].again_of < 0)
        return false;
    const reach r = reach_of(p->graph, p->place, v, t);
    return p->before[r.last] > p->before[r.first];
}

/* Readers stand behind what they read: one sweep from the end suffices. */
static void sweep(parter *p, search_parting *out)
{
    for (int32_t v = p->graph->nodes.n - 1; v >= 0; v--) {
        const ir_node *node = &p->graph->nodes.at[v];
        out->gone[v] = node->phase == IR_BACKWARD && p->left[v] && !p->held[v];
        for (int32_t k = 0; k < node->n_in; k++) {
            const int32_t t = node->in[k];
            const int32_t u = p->graph->tensors.at[t].producer;
            const bool lost = out->gone[v] || is_parted(p, v, t);
            (lost ? p->left : p->held)[u] = true;
            out->apart[v] |= (uint8_t)(lost << k);
            out->n += lost;
        }
    }
}

/* cuts[k]: one lies in front of place k, of n. */
static search_parting part(const ir_graph *graph, const int32_t *place,
                           const bool *cuts, int32_t n, fs_arena *arena)
{
    fs_arena *scratch = fs_arena_create();
    int32_t *before = fs_new(scratch, int32_t, n + 1);
    for (int32_t k = 0; k < n; k++)
        before[k] = (k ? before[k - 1] : 0) + cuts[k];
    parter p = {graph, place, before, fs_new(scratch, bool, graph->nodes.n),
                fs_new(scratch, bool, graph->nodes.n)};
    search_parting made = {.gone = fs_new(arena, bool, graph->nodes.n),
                           .apart = fs_new(arena, uint8_t, graph->nodes.n)};
    sweep(&p, &made);
    fs_arena_destroy(scratch);
    return made;
}

/* [places + 1] Edges that a cut in front of each parts. */
static const int32_t *count_parted(const ir_graph *graph,
                                   const search_ranks *ranks, fs_arena *arena)
{
    int32_t *n = fs_new(arena, int32_t, ranks->n + 1);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++) {
            const int32_t t = graph->nodes.at[v].in[k];
            if (graph->tensors.at[t].again_of < 0)
                continue;
            const reach r = reach_of(graph, ranks->rank, v, t);
            n[r.first + 1]++;
            n[r.last + 1]--;
        }
    for (int32_t k = 1; k <= ranks->n; k++)
        n[k] += n[k - 1];
    return n;
}

search_partings search_part_as_told(const search_problem *problem,
                                    const ir_graph *graph, fs_arena *arena)
{
    fs_err ignored = {0};
    int32_t *stage_of = fs_new(arena, int32_t, graph->nodes.n), last = 0;
    const search_layout layout = {.graph = graph,
                                  .n_stages = problem->n_layers};
    search_partings made = {.n = 1, .at = fs_new(arena, search_parting, 1)};
    if (!has_copies(graph) ||
        search_cut(problem, &layout, &ignored, stage_of) != FS_OK)
        return made;
    for (int32_t v = 0; v < graph->nodes.n; v++)
        last = stage_of[v] > last ? stage_of[v] : last;
    bool *cuts = fs_new(arena, bool, last + 1);
    memset(cuts, true, (size_t)last + 1);
    made.at[0] = part(graph, stage_of, cuts, last + 1, arena);
    return made;
}

int32_t search_most_stages(const search_problem *problem)
{
    const int32_t groups = problem->fix_stages > 0
                               ? problem->fix_stages
                               : problem->cluster->n_devices;
    int32_t depth = problem->interleave > 1 ? problem->interleave : 1;
    for (int32_t k = 0; problem->depths && k < problem->n_schedules; k++)
        depth = problem->depths[k] > depth ? problem->depths[k] : depth;
    return depth * groups;
}

/* Places that at most so many activations cross: what cuts there part. */
static search_parting part_at(const search_partings *p, const ir_graph *graph,
                              const search_ranks *ranks, int32_t most,
                              fs_arena *arena)
{
    bool any = false;
    int32_t places = 0;
    fs_arena *scratch = fs_arena_create();
    bool *cuts = fs_new(scratch, bool, ranks->n);
    for (int32_t k = 1; k < ranks->n; k++) {
        cuts[k] = p->crossing[k] <= most;
        places += cuts[k] ? ir_times(&graph->nodes.at[ranks->order[k]]) : 0;
        any |= cuts[k] && p->n_parted[k] > 0;
    }
    search_parting made = {0};
    if (any)
        made = part(graph, ranks->rank, cuts, ranks->n, arena);
    made.places = places;
    made.most = most;
    fs_arena_destroy(scratch);
    return made;
}

search_partings search_find_partings(const ir_graph *graph,
                                     const search_ranks *ranks,
                                     int32_t most_stages, fs_arena *arena)
{
    search_partings made = {.n = 1, .at = fs_new(arena, search_parting, 1)};
    FS_VEC(search_parting) all = {0};
    if (!has_copies(graph) || ranks->n < 2 || most_stages < 2)
        return made;
    int32_t widest = 0, places = -1;
    made.crossing = search_count_crossings(graph, arena);
    made.n_parted = count_parted(graph, ranks, arena);
    for (int32_t k = 1; k < ranks->n; k++)
        widest = made.crossing[k] > widest ? made.crossing[k] : widest;
    for (int32_t most = 1; most <= widest && places < most_stages - 1; most++) {
        const search_parting one = part_at(&made, graph, ranks, most, arena);
        if (one.places > places)
            fs_push(arena, &all, one);
        places = one.places;
    }
    if (all.n) {
        made.n = all.n;
        made.at = all.at;
    }
    return made;
}

const search_parting *search_parting_of(const search_partings *partings,
                                        int32_t n_stages)
{
    int32_t k = 0;
    while (k + 1 < partings->n && partings->at[k].places < n_stages - 1)
        k++;
    return &partings->at[k];
}

bool search_parts_no_more(const search_partings *partings, int32_t n_stages,
                          int32_t n, const int32_t *begin)
{
    const search_parting *of = search_parting_of(partings, n_stages);
    if (!partings->crossing)
        return of->n == 0;
    for (int32_t i = 1; i < n; i++)
        if (partings->crossing[begin[i]] > of->most &&
            partings->n_parted[begin[i]] > 0)
            return false;
    return true;
}

/* ---- in a layout ---- */

/* Of nodes that are to have one value. */
static void agree(const search_layout *layout, bool *gone, int32_t **readers)
{
    const ir_graph *graph = layout->graph;
    for (int32_t turn = 0; turn < 2; turn++)
        for (int32_t v = 0; v < graph->nodes.n; v++) {
            const int32_t of = layout->equal[v], from = turn ? of : v,
                          to = turn ? v : of;
            gone[to] |= gone[from];
            for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++)
                if (readers[from][k] == 0)
                    readers[to][k] = 0;
        }
}

void search_leave_parted(const search_parting *parting, const ir_graph *graph,
                         fs_arena *arena, search_layout *layout)
{
    const ir_graph *seen = layout->graph;
    const int32_t *rep = layout->view ? layout->view->rep : NULL;
    if (!parting->n)
        return;
    bool *gone = fs_new(arena, bool, seen->nodes.n);
    int32_t **readers = fs_new(arena, int32_t *, seen->nodes.n);
    for (int32_t v = 0; v < seen->nodes.n; v++) {
        readers[v] = fs_new(arena, int32_t, seen->nodes.at[v].n_in + 1);
        for (int32_t k = 0; k <= seen->nodes.at[v].n_in; k++)
            readers[v][k] = 1;
    }
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const int32_t at = rep ? rep[v] : v;
        gone[at] |= parting->gone[v];
        for (int32_t k = 0; k < graph->nodes.at[v].n_in; k++)
            if (parting->apart[v] >> k & 1)
                readers[at][k] = 0;
    }
    if (layout->equal)
        agree(layout, gone, readers);
    layout->gone = gone;
    layout->readers = readers;
}
