#include "config.h"

#include "plan/boxer_parts.h"

#include <math.h>
#include <stdlib.h>

#define ROUNDING 1e-12

/* A way over: what it costs, or costs at least, and which states it leaves from
 * and arrives at; from < 0: there is none. */
typedef struct way {
    double bound;
    int32_t from, to;
} way;
typedef FS_VEC(way) ways;

/* From a state of one space to those of another: what the crossing takes, and
 * takes at least, and the cheapest way; negative: not asked yet. */
typedef struct cross_row {
    double *seconds, *least; /* [n_states] of arrival */
    way *best;
    double *reach; /* [n_states] at least so much by any path from this one;
                      NULL: not known yet */
} cross_row;

struct boxer_crossings {
    int32_t to;            /* number of the space of arrival, */
    int32_t apart;         /* whose stage begins so many devices behind */
    double dearer_s;       /* boxer_cross_dearer; NAN: not asked yet */
    cross_row **row;       /* [n_states] of departure, or NULL */
    boxer_crossings *next; /* from the same space */
};

/* Those from a space are a list: a stage hands on to few. */
static boxer_crossings *crossings_of(fs_arena *arena, const boxer_space *from,
                                     const boxer_space *to,
                                     boxer_crossings **list)
{
    const int32_t apart = to->stage->first_device - from->stage->first_device;

    for (boxer_crossings *known = *list; known; known = known->next)
        if (known->to == to->number && known->apart == apart)
            return known;
    boxer_crossings *made = fs_new(arena, boxer_crossings, 1);
    *made = (boxer_crossings){.to = to->number,
                              .apart = apart,
                              .dearer_s = NAN,
                              .row = fs_new(arena, cross_row *, from->n_states),
                              .next = *list};
    return *list = made;
}

boxer_crossing boxer_crossing_of(plan_boxer *boxer, const plan_ends *ends,
                                 uint32_t reductions)
{
    boxer_crossing x = {
        .boxer = boxer,
        .from =
            boxer_space_of(boxer, ends->tensor, ends->from_stage, reductions),
        .to = boxer_space_of(boxer, ends->tensor, ends->to_stage, reductions)};

    x.known = crossings_of(boxer->arena, &x.from, &x.to,
                           boxer_crossings_from(boxer, &x.from));
    return x;
}

static cross_row *row_of(const boxer_crossing *x, int32_t from)
{
    cross_row **row = &x->known->row[from];
    fs_arena *arena = x->boxer->arena;

    if (*row != NULL)
        return *row;
    *row = fs_new(arena, cross_row, 1);
    (*row)->seconds = fs_new(arena, double, x->to.n_states);
    (*row)->least = fs_new(arena, double, x->to.n_states);
    (*row)->best = fs_new(arena, way, x->to.n_states);
    for (int32_t s = 0; s < x->to.n_states; s++)
        (*row)->seconds[s] = (*row)->least[s] = (*row)->best[s].bound = -1;
    return *row;
}

static plan_cross cross_at(const boxer_crossing *x, const ir_nd_sbp *from,
                           const ir_nd_sbp *to)
{
    return (plan_cross){x->from.tensor, x->from.stage, x->to.stage, *from, *to};
}

typedef double crossing_fn(void *ctx, const plan_cross *cross);

static double ask(const boxer_crossing *x, crossing_fn *seconds,
                  const plan_cross *cross)
{
    if (!plan_cross_is_legal(cross))
        return INFINITY;
    return seconds ? seconds(x->boxer->cost.ctx, cross) : 0;
}

static double ask_states(const boxer_crossing *x, crossing_fn *seconds,
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

static double least_seconds(const boxer_crossing *x, int32_t from, int32_t to)
{
    return ask_states(x, x->boxer->cost.crossing_least,
                      &row_of(x, from)->least[to], from, to);
}

static double cross_seconds(const boxer_crossing *x, int32_t from, int32_t to)
{
    return ask_states(x, x->boxer->cost.crossing, &row_of(x, from)->seconds[to],
                      from, to);
}

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
    const double *reach;            /* reach_of's */
} two_trees;

/* Of what lies on both sides of the crossing; INFINITY: no way. */
static double rest_seconds(const two_trees *t, const way *w)
{
    if (t->there->length[w->from] + 1 + t->back->length[w->to] >
        PLAN_MAX_BOXING)
        return INFINITY;
    return t->there->seconds[w->from] + t->back->seconds[w->to];
}

/* At least so much, as far as that is below `most`. */
static double way_bound(const boxer_crossing *x, const two_trees *t,
                        const way *w, double most)
{
    const double rest = rest_seconds(t, w);

    return rest < most ? rest + least_seconds(x, w->from, w->to) : rest;
}

static double way_seconds(const boxer_crossing *x, const two_trees *t,
                          const way *w)
{
    return rest_seconds(t, w) + cross_seconds(x, w->from, w->to);
}

/* What a path takes at least to arrive at each state. Added up in another order
 * than ways are, so that a little is taken off. */
static const double *reach_of(const boxer_crossing *x, const boxer_tree *there,
                              int32_t from)
{
    cross_row *row = row_of(x, from);
    const int32_t n = x->to.n_states;

    if (row->reach != NULL)
        return row->reach;
    row->reach = fs_new(x->boxer->arena, double, n);
    for (int32_t u = 0; u < n; u++) {
        double least = INFINITY;
        for (int32_t s = 0; s < x->from.n_states; s++)
            if (there->seconds[s] < least)
                least = fmin(least, there->seconds[s] + least_seconds(x, s, u));
        row->reach[u] = (1 - ROUNDING) * least;
    }
    return row->reach;
}

/* All ways with a bound below `most`. */
static void list_ways(const boxer_crossing *x, const two_trees *t, double most,
                      fs_arena *arena, ways *out)
{
    for (int32_t u = 0; u < x->to.n_states; u++)
        for (int32_t s = 0;
             t->reach[u] + t->back->seconds[u] < most && s < x->from.n_states;
             s++) {
            way w = {0, s, u};
            w.bound = way_bound(x, t, &w, most);
            if (w.bound < most)
                fs_push(arena, out, w);
        }
}

/* The one of least bound, of equal ones the first. */
static way first_way(const boxer_crossing *x, const two_trees *t)
{
    way best = {INFINITY, -1, -1};

    for (int32_t u = 0; u < x->to.n_states; u++)
        for (int32_t s = 0; t->reach[u] + t->back->seconds[u] < best.bound &&
                            s < x->from.n_states;
             s++) {
            way w = {0, s, u};
            w.bound = way_bound(x, t, &w, best.bound);
            if (compare_ways(&w, &best) < 0)
                best = w;
        }
    return best;
}

/* The cheapest way over, its bound the seconds: what may cost no less than the
 * best so far is not asked for. */
static way best_way(const boxer_crossing *x, const two_trees *t)
{
    way best = first_way(x, t);
    fs_arena *arena;
    ways all = {0};

    if (best.from < 0)
        return best;
    best.bound = way_seconds(x, t, &best);
    arena = fs_arena_create();
    list_ways(x, t, best.bound, arena, &all);
    if (all.n > 0)
        qsort(all.at, (size_t)all.n, sizeof *all.at, compare_ways);
    for (int32_t i = 0; i < all.n && all.at[i].bound < best.bound; i++) {
        way w = all.at[i];
        w.bound = way_seconds(x, t, &w);
        if (w.bound < best.bound)
            best = w;
    }
    fs_arena_destroy(arena);
    return best;
}

/* To a target without halos. */
static double cross_plain(const boxer_crossing *x, const ir_nd_sbp *from,
                          const ir_nd_sbp *to, plan_boxing *path)
{
    plan_boxer *boxer = x->boxer;

    if (!ir_nd_sbp_fits(to, &x->to.tensor->shape, &x->to.stage->mesh))
        return INFINITY;
    const int32_t begin = boxer_state_of(&x->from, from);
    way *best = &row_of(x, begin)->best[boxer_state_of(&x->to, to)];
    if (best->bound >= 0 && path == NULL)
        return best->bound;
    two_trees t = {boxer_tree_of(boxer, &x->from, from, false),
                   boxer_tree_of(boxer, &x->to, to, true), NULL};
    t.reach = reach_of(x, t.there, begin);
    if (best->bound < 0)
        *best = best_way(x, &t);
    const way w = *best;
    if (isinf(w.bound) || path == NULL)
        return w.bound;
    boxer_copy_path(&x->from, t.there, w.from, path);
    path->cross = path->n;
    for (int32_t s = w.to; s >= 0; s = t.back->parent[s])
        path->at[++path->n] = boxer_sbp_at(&x->to, s);
    return w.bound;
}

/* Whatever is known of the way by now: so that it is always the same. */
double boxer_cross_least(const boxer_crossing *x, const ir_nd_sbp *from,
                         const ir_nd_sbp *to)
{
    plan_boxer *boxer = x->boxer;
    double least = INFINITY;

    if (boxer_halo_axes(from, x->from.n_axes) ||
        !ir_nd_sbp_fits(from, &x->from.tensor->shape, &x->from.stage->mesh) ||
        !ir_nd_sbp_fits(to, &x->to.tensor->shape, &x->to.stage->mesh))
        return INFINITY;
    if (boxer_halo_axes(to, x->to.n_axes))
        return 0;
    const boxer_tree *back = boxer_tree_of(boxer, &x->to, to, true);
    const double *reach =
        reach_of(x, boxer_tree_of(boxer, &x->from, from, false),
                 boxer_state_of(&x->from, from));
    for (int32_t u = 0; u < x->to.n_states; u++)
        least = fmin(least, reach[u] + back->seconds[u]);
    return least;
}

/* If no crossing takes less than boxing from the one state to the other does,
 * then by the triangle no path with one takes less than boxing on one stage;
 * and if all take so much more, then all paths do. */
static double find_dearer(const boxer_crossing *x)
{
    double dearer = INFINITY;
    for (int32_t s = 0; s < x->from.n_states; s++) {
        const ir_nd_sbp from = boxer_sbp_at(&x->from, s);
        if (!ir_nd_sbp_fits(&from, &x->from.tensor->shape,
                            &x->from.stage->mesh))
            continue;
        const boxer_tree *tree =
            boxer_tree_of(x->boxer, &x->from, &from, false);
        for (int32_t u = 0; u < x->to.n_states; u++) {
            const double least = least_seconds(x, s, u);
            const double home = u == s ? 0 : tree->seconds[u];
            if (least < (1 - ROUNDING) * home ||
                (u != s && isfinite(home) &&
                 tree->length[u] + x->from.n_axes > PLAN_MAX_BOXING))
                return -INFINITY;
            if (isfinite(home))
                dearer = fmin(dearer, (1 - ROUNDING) * least - home);
        }
    }
    return dearer;
}

double boxer_cross_dearer(const boxer_crossing *x)
{
    if (isnan(x->known->dearer_s))
        x->known->dearer_s = find_dearer(x);
    return x->known->dearer_s;
}

bool boxer_cross_pays(const boxer_crossing *x)
{
    return boxer_cross_dearer(x) == -INFINITY;
}

/* Straight to a target with halos. */
static double cross_to_halos(const boxer_crossing *x, const ir_nd_sbp *from,
                             const ir_nd_sbp *to, plan_boxing *path)
{
    const boxer_tree *tree = boxer_tree_of(x->boxer, &x->from, from, false);
    double best = INFINITY;

    for (int32_t s = 0; s < x->from.n_states; s++) {
        const ir_nd_sbp there = boxer_sbp_at(&x->from, s);
        const plan_cross cross = cross_at(x, &there, to);
        if (!(tree->seconds[s] < best) || tree->length[s] >= PLAN_MAX_BOXING)
            continue;
        const double seconds =
            tree->seconds[s] + ask(x, x->boxer->cost.crossing, &cross);
        if (!(seconds < best))
            continue;
        best = seconds;
        boxer_copy_path(&x->from, tree, s, path);
        path->cross = path->n;
        path->at[++path->n] = *to;
    }
    return best;
}

static double cross_with_halos(const boxer_crossing *x, const ir_nd_sbp *from,
                               const ir_nd_sbp *to, plan_boxing *path)
{
    const uint32_t halo = boxer_halo_axes(to, x->to.n_axes);
    double best = cross_to_halos(x, from, to, path);

    for (uint32_t whole = halo, more = 1; more;
         more = whole, whole = (whole - 1) & halo) {
        const ir_nd_sbp plain = boxer_without_halos(to, whole, x->to.n_axes);
        plan_boxing found;
        double seconds = cross_plain(x, from, &plain, &found);
        if (!isinf(seconds))
            seconds += boxer_end_halos(x->boxer, &x->to, to, &found);
        if (!(seconds < best))
            continue;
        best = seconds;
        *path = found;
    }
    return best;
}

double boxer_cross(const boxer_crossing *x, const ir_nd_sbp *from,
                   const ir_nd_sbp *to, plan_boxing *path)
{
    const boxer_space *space = &x->from;
    plan_boxing found;

    if (boxer_halo_axes(from, space->n_axes) ||
        !ir_nd_sbp_fits(from, &space->tensor->shape, &space->stage->mesh))
        return INFINITY;
    return boxer_halo_axes(to, x->to.n_axes)
               ? cross_with_halos(x, from, to, path ? path : &found)
               : cross_plain(x, from, to, path);
}
