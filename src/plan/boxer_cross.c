#include "config.h"

#include "plan/boxer_parts.h"

#include <math.h>
#include <stdlib.h>

/* Crossings between the states of two spaces: seconds, and at least how many;
 * negative: not asked yet. */
typedef struct cross_row {
    double *seconds, *least; /* [n_states] of arrival */
} cross_row;
typedef struct cross_entry {
    int32_t from, to; /* numbers of spaces */
    cross_row **row;  /* [n_states] of departure, or NULL */
} cross_entry;

struct boxer_crossings {
    FS_VEC(cross_entry) entries;
};

boxer_crossings *boxer_crossings_create(fs_arena *arena)
{
    return fs_new(arena, boxer_crossings, 1);
}

/* From one stage's states to another's. */
typedef struct crossing_search {
    plan_boxer *boxer;
    const plan_ends *ends;
    boxer_space from, to;
    cross_entry *crossings;
} crossing_search;

static cross_entry *crossings_of(plan_boxer *boxer, int32_t from, int32_t to,
                                 int32_t n_from)
{
    boxer_crossings *known = boxer->crossings;

    for (int32_t i = 0; i < known->entries.n; i++)
        if (known->entries.at[i].from == from && known->entries.at[i].to == to)
            return &known->entries.at[i];
    fs_push(boxer->arena, &known->entries,
            (cross_entry){from, to, fs_new(boxer->arena, cross_row *, n_from)});
    return &known->entries.at[known->entries.n - 1];
}

static crossing_search search_of(plan_boxer *boxer, const plan_ends *ends)
{
    const uint32_t reductions =
        boxer_reductions(ends->from, ends->from_stage->mesh.n) |
        boxer_reductions(ends->to, ends->to_stage->mesh.n);
    crossing_search x = {
        .boxer = boxer,
        .ends = ends,
        .from =
            boxer_space_of(boxer, ends->tensor, ends->from_stage, reductions),
        .to = boxer_space_of(boxer, ends->tensor, ends->to_stage, reductions)};

    x.crossings =
        crossings_of(boxer, x.from.number, x.to.number, x.from.n_states);
    return x;
}

static cross_row *row_of(const crossing_search *x, int32_t from)
{
    cross_row **row = &x->crossings->row[from];
    fs_arena *arena = x->boxer->arena;

    if (*row != NULL)
        return *row;
    *row = fs_new(arena, cross_row, 1);
    (*row)->seconds = fs_new(arena, double, x->to.n_states);
    (*row)->least = fs_new(arena, double, x->to.n_states);
    for (int32_t s = 0; s < x->to.n_states; s++)
        (*row)->seconds[s] = (*row)->least[s] = -1;
    return *row;
}

static plan_cross cross_at(const crossing_search *x, const ir_nd_sbp *from,
                           const ir_nd_sbp *to)
{
    return (plan_cross){x->ends->tensor, x->ends->from_stage, x->ends->to_stage,
                        *from, *to};
}

typedef double crossing_fn(void *ctx, const plan_cross *cross);

static double ask(const crossing_search *x, crossing_fn *seconds,
                  const plan_cross *cross)
{
    if (!plan_cross_is_legal(cross))
        return INFINITY;
    return seconds ? seconds(x->boxer->cost.ctx, cross) : 0;
}

static double ask_states(const crossing_search *x, crossing_fn *seconds,
                         double *known, int32_t from, int32_t to)
{
    if (*known < 0) {
        const ir_nd_sbp f = boxer_sbp_at(&x->from, from);
        const ir_nd_sbp t = boxer_sbp_at(&x->to, to);
        const plan_cross cross = cross_at(x, &f, &t);
        *known = ask(x, seconds, &cross);
    }
    return *known;
}

static double least_seconds(const crossing_search *x, int32_t from, int32_t to)
{
    return ask_states(x, x->boxer->cost.crossing_least,
                      &row_of(x, from)->least[to], from, to);
}

static double cross_seconds(const crossing_search *x, int32_t from, int32_t to)
{
    return ask_states(x, x->boxer->cost.crossing, &row_of(x, from)->seconds[to],
                      from, to);
}

/* A way over: what it costs at least. */
typedef struct way {
    double bound;
    int32_t from, to;
} way;
typedef FS_VEC(way) ways;

static int compare_ways(const void *a, const void *b)
{
    const way *x = a, *y = b;

    if (x->bound < y->bound || x->bound > y->bound)
        return x->bound < y->bound ? -1 : 1;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->to > y->to) - (x->to < y->to);
}

typedef struct two_trees {
    const boxer_tree *there, *back; /* from the one end, to the other */
} two_trees;

/* At least so much, or exactly when `asks`; INFINITY: no way. */
static double way_seconds(const crossing_search *x, const two_trees *t,
                          const way *w, bool asks)
{
    const double rest = t->there->seconds[w->from] + t->back->seconds[w->to];

    if (isinf(rest) || t->there->length[w->from] + 1 + t->back->length[w->to] >
                           PLAN_MAX_BOXING)
        return INFINITY;
    return rest + (asks ? cross_seconds : least_seconds)(x, w->from, w->to);
}

/* All ways with a bound below `most`. */
static void list_ways(const crossing_search *x, const two_trees *t, double most,
                      fs_arena *arena, ways *out)
{
    for (int32_t s = 0; s < x->from.n_states; s++)
        for (int32_t u = 0; !isinf(t->there->seconds[s]) && u < x->to.n_states;
             u++) {
            way w = {0, s, u};
            w.bound = way_seconds(x, t, &w, false);
            if (w.bound < most)
                fs_push(arena, out, w);
        }
}

static way first_way(const crossing_search *x, const two_trees *t)
{
    way best = {INFINITY, -1, -1};

    for (int32_t s = 0; s < x->from.n_states; s++)
        for (int32_t u = 0; !isinf(t->there->seconds[s]) && u < x->to.n_states;
             u++) {
            way w = {0, s, u};
            w.bound = way_seconds(x, t, &w, false);
            if (w.bound < best.bound)
                best = w;
        }
    return best;
}

/* The cheapest way over, its bound the seconds: what may cost no less than the
 * best so far is not asked for. */
static way best_way(const crossing_search *x, const two_trees *t)
{
    way best = first_way(x, t);
    fs_arena *arena;
    ways all = {0};

    if (best.from < 0)
        return best;
    best.bound = way_seconds(x, t, &best, true);
    arena = fs_arena_create();
    list_ways(x, t, best.bound, arena, &all);
    if (all.n > 0)
        qsort(all.at, (size_t)all.n, sizeof *all.at, compare_ways);
    for (int32_t i = 0; i < all.n && all.at[i].bound < best.bound; i++) {
        way w = all.at[i];
        w.bound = way_seconds(x, t, &w, true);
        if (w.bound < best.bound)
            best = w;
    }
    fs_arena_destroy(arena);
    return best;
}

/* To a target without halos. */
static double cross_plain(const crossing_search *x, const ir_nd_sbp *to,
                          plan_boxing *path)
{
    plan_boxer *boxer = x->boxer;

    if (!ir_nd_sbp_fits(to, &x->to.tensor->shape, &x->to.stage->mesh))
        return INFINITY;
    const two_trees t = {boxer_tree_of(boxer, &x->from, x->ends->from, false),
                         boxer_tree_of(boxer, &x->to, to, true)};
    const way w = best_way(x, &t);
    if (isinf(w.bound))
        return INFINITY;
    boxer_copy_path(&x->from, t.there, w.from, path);
    path->cross = path->n;
    for (int32_t s = w.to; s >= 0; s = t.back->parent[s])
        path->at[++path->n] = boxer_sbp_at(&x->to, s);
    return w.bound;
}

/* Straight to a target with halos. */
static double cross_to_halos(const crossing_search *x, plan_boxing *path)
{
    const boxer_tree *tree =
        boxer_tree_of(x->boxer, &x->from, x->ends->from, false);
    double best = INFINITY;

    for (int32_t s = 0; s < x->from.n_states; s++) {
        const ir_nd_sbp from = boxer_sbp_at(&x->from, s);
        const plan_cross cross = cross_at(x, &from, x->ends->to);
        if (!(tree->seconds[s] < best) || tree->length[s] >= PLAN_MAX_BOXING)
            continue;
        const double seconds =
            tree->seconds[s] + ask(x, x->boxer->cost.crossing, &cross);
        if (!(seconds < best))
            continue;
        best = seconds;
        boxer_copy_path(&x->from, tree, s, path);
        path->cross = path->n;
        path->at[++path->n] = *x->ends->to;
    }
    return best;
}

static double cross_with_halos(const crossing_search *x, uint32_t halo,
                               plan_boxing *path)
{
    double best = cross_to_halos(x, path);

    for (uint32_t whole = halo, more = 1; more;
         more = whole, whole = (whole - 1) & halo) {
        const ir_nd_sbp plain =
            boxer_without_halos(x->ends->to, whole, x->to.n_axes);
        plan_boxing found;
        double seconds = cross_plain(x, &plain, &found);
        if (!isinf(seconds))
            seconds += boxer_end_halos(x->boxer, &x->to, x->ends->to, &found);
        if (!(seconds < best))
            continue;
        best = seconds;
        *path = found;
    }
    return best;
}

double boxer_cross(plan_boxer *boxer, const plan_ends *ends, plan_boxing *path)
{
    const ir_mesh *mesh = &ends->from_stage->mesh;
    const uint32_t halo = boxer_halo_axes(ends->to, ends->to_stage->mesh.n);

    if (boxer_halo_axes(ends->from, mesh->n) ||
        !ir_nd_sbp_fits(ends->from, &ends->tensor->shape, mesh))
        return INFINITY;
    const crossing_search x = search_of(boxer, ends);
    return halo ? cross_with_halos(&x, halo, path)
                : cross_plain(&x, ends->to, path);
}
