#include "config.h"

#include "plan/boxing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- states: SBPs of a tensor as numbers ---- */

/* Per mesh axis a digit: 0 B, 1..3 P(sum), P(max), P(min), 4 + i S(i). */
enum { DIGIT_PARTIAL = 1, DIGIT_SPLIT = 4 };

typedef struct state_space {
    const ir_tensor *tensor;
    const plan_stage *stage;
    int32_t base, n_axes, n_states;
} state_space;

static state_space space_of(const ir_tensor *tensor, const plan_stage *stage)
{
    state_space space = {tensor, stage, DIGIT_SPLIT + tensor->shape.rank,
                         stage->mesh.n, 1};

    for (int32_t a = 0; a < space.n_axes; a++)
        space.n_states *= space.base;
    return space;
}

static int32_t digit_of(ir_sbp sbp)
{
    switch (sbp.kind) {
    case IR_S:
        return DIGIT_SPLIT + sbp.axis;
    case IR_B:
        return 0;
    default:
        return DIGIT_PARTIAL + (sbp.kind - IR_PSUM);
    }
}

static ir_sbp sbp_of_digit(int32_t digit)
{
    if (digit >= DIGIT_SPLIT)
        return IR_SBP_S(digit - DIGIT_SPLIT);
    if (digit >= DIGIT_PARTIAL)
        return (ir_sbp){.kind = (uint8_t)(IR_PSUM + digit - DIGIT_PARTIAL)};
    return IR_SBP_B;
}

static int32_t state_of(const state_space *space, const ir_nd_sbp *sbp)
{
    int32_t state = 0;

    for (int32_t a = 0; a < space->n_axes; a++)
        state = state * space->base + digit_of(sbp->at[a]);
    return state;
}

static ir_nd_sbp sbp_of_state(const state_space *space, int32_t state)
{
    ir_nd_sbp sbp = {0};

    for (int32_t a = space->n_axes - 1; a >= 0; a--) {
        sbp.at[a] = sbp_of_digit(state % space->base);
        state /= space->base;
    }
    return sbp;
}

/* ---- cheapest paths ---- */

/* Cheapest paths from one SBP to all others, or from all others to one. */
typedef struct path_tree {
    double *seconds; /* [n_states], INFINITY: out of reach */
    int32_t *parent; /* the neighbour on the side of that one */
    int32_t *length; /* steps */
} path_tree;

/* A binary heap of states ordered by (seconds, state): ties must not depend
 * on the order of insertion. Stale entries are skipped when popped. */
typedef struct heap_item {
    double seconds;
    int32_t state;
} heap_item;
typedef FS_VEC(heap_item) state_heap;

static bool item_before(heap_item a, heap_item b)
{
    return a.seconds < b.seconds ||
           (a.seconds == b.seconds && a.state < b.state);
}

static void heap_push(fs_arena *arena, state_heap *heap, heap_item item)
{
    int32_t i = heap->n;

    fs_push(arena, heap, item);
    while (i > 0 && item_before(item, heap->at[(i - 1) / 2])) {
        heap->at[i] = heap->at[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    heap->at[i] = item;
}

static heap_item heap_pop(state_heap *heap)
{
    heap_item top = heap->at[0], last = heap->at[--heap->n];
    int32_t i = 0;

    while (2 * i + 1 < heap->n) {
        int32_t child = 2 * i + 1;
        if (child + 1 < heap->n &&
            item_before(heap->at[child + 1], heap->at[child]))
            child++;
        if (!item_before(heap->at[child], last))
            break;
        heap->at[i] = heap->at[child];
        i = child;
    }
    heap->at[i] = last;
    return top;
}

/* The steps that lead on from a state. */
typedef struct edge {
    double seconds;
    int32_t to;
} edge;
typedef FS_VEC(edge) edges;

/* Towards where paths end (backwards), or away from where they start. */
typedef struct path_walk {
    const state_space *space;
    const plan_boxing_cost *cost;
    fs_arena *arena; /* of the heap */
    edges **leading; /* [n_states], listed when first wanted */
    edges **coming;  /* [n_states] to walk backwards along; else NULL */
    fs_arena *kept;  /* of the lists */
    path_tree *tree;
    state_heap heap;
} path_walk;

/* Not from one reduction to another, and not from where nothing is to be had:
 * most pairs of states are no step for a reason seen at a glance. */
static bool may_be_step(const ir_nd_sbp *from, const ir_nd_sbp *to,
                        int32_t n_axes)
{
    for (int32_t a = 0; a < n_axes; a++)
        if (ir_sbp_is_partial(to->at[a]) &&
            !ir_sbp_equal(from->at[a], to->at[a]) &&
            (to->at[a].kind != IR_PSUM || ir_sbp_is_partial(from->at[a])))
            return false;
    return true;
}

static const edges *edges_from(path_walk *walk, int32_t state)
{
    const state_space *space = walk->space;
    const ir_nd_sbp from = sbp_of_state(space, state);
    edges *list;

    if (walk->leading[state] != NULL)
        return walk->leading[state];
    list = walk->leading[state] = fs_new(walk->kept, edges, 1);
    if (!ir_nd_sbp_fits(&from, &space->tensor->shape, &space->stage->mesh))
        return list;
    for (int32_t next = 0; next < space->n_states; next++) {
        const ir_nd_sbp to = sbp_of_state(space, next);
        plan_box_step step;
        if (next == state || !may_be_step(&from, &to, space->n_axes) ||
            !plan_box_step_make(space->tensor, &space->stage->mesh, &from, &to,
                                &step))
            continue;
        fs_push(
            walk->kept, list,
            (edge){walk->cost->seconds(walk->cost->ctx, space->stage, &step),
                   next});
    }
    return list;
}

static void expand(path_walk *walk, int32_t state)
{
    const edges *list =
        walk->coming ? walk->coming[state] : edges_from(walk, state);
    path_tree *tree = walk->tree;

    for (int32_t i = 0; i < list->n; i++) {
        const int32_t next = list->at[i].to;
        const double seconds = tree->seconds[state] + list->at[i].seconds;
        if (!(seconds < tree->seconds[next]))
            continue;
        tree->seconds[next] = seconds;
        tree->parent[next] = state;
        tree->length[next] = tree->length[state] + 1;
        heap_push(walk->arena, &walk->heap, (heap_item){seconds, next});
    }
}

static void list_coming(path_walk *walk)
{
    const int32_t n = walk->space->n_states;

    for (int32_t s = 0; s < n; s++)
        walk->coming[s] = fs_new(walk->kept, edges, 1);
    for (int32_t s = 0; s < n; s++) {
        const edges *list = edges_from(walk, s);
        for (int32_t i = 0; i < list->n; i++)
            fs_push(walk->kept, walk->coming[list->at[i].to],
                    (edge){list->at[i].seconds, s});
    }
}

static path_tree find_paths(path_walk *walk, const ir_nd_sbp *from)
{
    const state_space *space = walk->space;
    path_tree tree = {fs_new(walk->kept, double, space->n_states),
                      fs_new(walk->kept, int32_t, space->n_states),
                      fs_new(walk->kept, int32_t, space->n_states)};
    const int32_t start = state_of(space, from);

    for (int32_t s = 0; s < space->n_states; s++) {
        tree.seconds[s] = INFINITY;
        tree.parent[s] = -1;
    }
    tree.seconds[start] = 0;
    walk->tree = &tree;
    heap_push(walk->arena, &walk->heap, (heap_item){0, start});
    while (walk->heap.n > 0) {
        heap_item item = heap_pop(&walk->heap);
        if (item.seconds == tree.seconds[item.state])
            expand(walk, item.state);
    }
    return tree;
}

/* ---- the boxer: remembered trees ---- */

/* Everything that a step and its cost depend on, without padding. */
typedef struct space_key {
    int64_t dim[IR_MAX_RANK];
    int32_t rank, dtype, first_device, n_axes;
    int32_t mesh[IR_MAX_MESH];
} space_key;

/* What is known of a tensor's states on a stage. */
typedef struct space_entry {
    space_key key;
    edges **leading, **coming; /* [n_states] */
    path_tree **tree;          /* [n_states] by where paths start, or NULL */
    path_tree **back;          /* [n_states] by where they end */
    int32_t next;              /* in its bucket, or -1 */
} space_entry;

/* Crossings between the states of two spaces: seconds, and at least how many;
 * negative: not asked yet. */
typedef struct cross_row {
    double *seconds, *least; /* [n_states] of arrival */
} cross_row;
typedef struct cross_entry {
    int32_t from, to; /* entries */
    cross_row **row;  /* [n_states] of departure, or NULL */
} cross_entry;

struct plan_boxer {
    plan_boxing_cost cost;
    fs_arena *arena;
    FS_VEC(space_entry) entries;
    int32_t *bucket;
    int32_t n_buckets; /* a power of two */
    FS_VEC(cross_entry) crossings;
};

plan_boxer *plan_boxer_create(plan_boxing_cost cost, fs_arena *arena)
{
    plan_boxer *boxer = fs_new(arena, plan_boxer, 1);

    boxer->cost = cost;
    boxer->arena = arena;
    return boxer;
}

static space_key key_of(const state_space *space)
{
    const ir_tensor *tensor = space->tensor;
    const plan_stage *stage = space->stage;
    space_key key;

    memset(&key, 0, sizeof key);
    for (int32_t d = 0; d < tensor->shape.rank; d++)
        key.dim[d] = tensor->shape.dim[d];
    key.rank = tensor->shape.rank;
    key.dtype = (int32_t)tensor->dtype;
    key.first_device = stage->first_device;
    key.n_axes = stage->mesh.n;
    for (int32_t a = 0; a < stage->mesh.n; a++)
        key.mesh[a] = stage->mesh.dim[a];
    return key;
}

static int32_t *bucket_of(const plan_boxer *boxer, const space_key *key)
{
    uint64_t hash = fs_hash(0, key, sizeof *key);

    return &boxer->bucket[hash & (uint64_t)(boxer->n_buckets - 1)];
}

static void grow_buckets(plan_boxer *boxer)
{
    boxer->n_buckets = boxer->n_buckets ? 2 * boxer->n_buckets : 64;
    boxer->bucket = fs_new(boxer->arena, int32_t, boxer->n_buckets);
    for (int32_t b = 0; b < boxer->n_buckets; b++)
        boxer->bucket[b] = -1;
    for (int32_t e = 0; e < boxer->entries.n; e++) {
        int32_t *bucket = bucket_of(boxer, &boxer->entries.at[e].key);
        boxer->entries.at[e].next = *bucket;
        *bucket = e;
    }
}

static int32_t entry_of(plan_boxer *boxer, const state_space *space)
{
    const space_key key = key_of(space);
    const int32_t n = space->n_states;
    int32_t *bucket;

    if (boxer->entries.n >= boxer->n_buckets)
        grow_buckets(boxer);
    bucket = bucket_of(boxer, &key);
    for (int32_t e = *bucket; e >= 0; e = boxer->entries.at[e].next)
        if (memcmp(&boxer->entries.at[e].key, &key, sizeof key) == 0)
            return e;
    fs_push(boxer->arena, &boxer->entries,
            (space_entry){.key = key,
                          .leading = fs_new(boxer->arena, edges *, n),
                          .tree = fs_new(boxer->arena, path_tree *, n),
                          .back = fs_new(boxer->arena, path_tree *, n),
                          .next = *bucket});
    *bucket = boxer->entries.n - 1;
    return *bucket;
}

/* The tree of paths from (or, backwards, to) an SBP. */
static const path_tree *tree_of(plan_boxer *boxer, const state_space *space,
                                const ir_nd_sbp *end, bool backwards)
{
    const int32_t number = entry_of(boxer, space);
    space_entry *entry = &boxer->entries.at[number];
    path_tree **tree =
        &(backwards ? entry->back : entry->tree)[state_of(space, end)];

    if (*tree == NULL) {
        fs_arena *scratch = fs_arena_create();
        path_walk walk = {.space = space,
                          .cost = &boxer->cost,
                          .arena = scratch,
                          .leading = entry->leading,
                          .kept = boxer->arena};
        if (backwards && entry->coming == NULL) {
            entry->coming = fs_new(boxer->arena, edges *, space->n_states);
            walk.coming = entry->coming;
            list_coming(&walk);
        }
        walk.coming = backwards ? entry->coming : NULL;
        *tree = fs_new(boxer->arena, path_tree, 1);
        **tree = find_paths(&walk, end);
        fs_arena_destroy(scratch);
    }
    return *tree;
}

static void copy_path(const state_space *space, const path_tree *tree,
                      int32_t state, plan_boxing *path)
{
    const int32_t n = tree->length[state];

    *path = (plan_boxing){.n = n};
    for (int32_t i = n, s = state; i >= 0; i--, s = tree->parent[s])
        path->at[i] = sbp_of_state(space, s);
}

/* Seconds to a target without halos. */
static double find_plain(plan_boxer *boxer, const state_space *space,
                         const ir_nd_sbp *from, const ir_nd_sbp *to,
                         plan_boxing *path)
{
    if (!ir_nd_sbp_fits(to, &space->tensor->shape, &space->stage->mesh))
        return INFINITY;
    const path_tree *tree = tree_of(boxer, space, from, false);
    const int32_t state = state_of(space, to);
    if (isinf(tree->seconds[state]) || tree->length[state] > PLAN_MAX_BOXING)
        return INFINITY;
    copy_path(space, tree, state, path);
    return tree->seconds[state];
}

/* Goes on from where `path` ends, which is not `to` only where that has a halo:
 * on the mesh axes that end B if `whole`, else on those that end S. */
static double add_halos(const plan_boxer *boxer, const state_space *space,
                        const ir_nd_sbp *to, bool whole, plan_boxing *path)
{
    double seconds = 0;

    for (int32_t a = 0; a < space->n_axes; a++) {
        ir_nd_sbp next = path->at[path->n];
        plan_box_step step;
        if (ir_sbp_equal(next.at[a], to->at[a]) ||
            (next.at[a].kind == IR_B) != whole)
            continue;
        next.at[a] = to->at[a];
        if (path->n == PLAN_MAX_BOXING ||
            !plan_box_step_make(space->tensor, &space->stage->mesh,
                                &path->at[path->n], &next, &step))
            return INFINITY;
        path->at[++path->n] = next;
        seconds += boxer->cost.seconds(boxer->cost.ctx, space->stage, &step);
    }
    return seconds;
}

static double end_halos(const plan_boxer *boxer, const state_space *space,
                        const ir_nd_sbp *to, plan_boxing *path)
{
    const double seconds = add_halos(boxer, space, to, true, path);

    return isinf(seconds) ? seconds
                          : seconds + add_halos(boxer, space, to, false, path);
}

/* Where a path to halos ends before them: B on the axes of `whole`, else S. */
static ir_nd_sbp without_halos(const ir_nd_sbp *to, uint32_t whole,
                               int32_t n_axes)
{
    ir_nd_sbp plain = *to;

    for (int32_t a = 0; a < n_axes; a++)
        if (ir_sbp_has_halo(to->at[a]))
            plain.at[a] = whole >> a & 1 ? IR_SBP_B : IR_SBP_S(to->at[a].axis);
    return plain;
}

/* A halo is cut off a whole tensor, or exchanged between pieces: `whole` says
 * by mesh axis which. */
static double find_halos(plan_boxer *boxer, const state_space *space,
                         const ir_nd_sbp *from, const ir_nd_sbp *to,
                         uint32_t whole, plan_boxing *path)
{
    const ir_nd_sbp plain = without_halos(to, whole, space->n_axes);
    const double seconds = find_plain(boxer, space, from, &plain, path);

    return isinf(seconds) ? seconds
                          : seconds + end_halos(boxer, space, to, path);
}

static uint32_t axes_with_halo(const ir_nd_sbp *sbp, int32_t n_axes)
{
    uint32_t axes = 0;

    for (int32_t a = 0; a < n_axes; a++)
        axes |= (uint32_t)ir_sbp_has_halo(sbp->at[a]) << a;
    return axes;
}

double plan_boxer_find(plan_boxer *boxer, const ir_tensor *tensor,
                       const plan_stage *stage, const ir_nd_sbp *from,
                       const ir_nd_sbp *to, plan_boxing *path)
{
    state_space space = space_of(tensor, stage);
    uint32_t halo = axes_with_halo(to, stage->mesh.n);
    double best = INFINITY;

    if (ir_nd_sbp_equal(from, to, stage->mesh.n)) {
        if (path != NULL)
            *path = (plan_boxing){.n = 0, .at = {*from}};
        return 0;
    }
    if (axes_with_halo(from, stage->mesh.n) ||
        !ir_nd_sbp_fits(from, &tensor->shape, &stage->mesh) ||
        !ir_nd_sbp_fits(to, &tensor->shape, &stage->mesh))
        return INFINITY;
    /* Each set of the axes with a halo, the empty one last. */
    for (uint32_t whole = halo, more = 1; more;
         more = whole, whole = (whole - 1) & halo) {
        plan_boxing way;
        double seconds = find_halos(boxer, &space, from, to, whole, &way);
        if (!(seconds < best))
            continue;
        best = seconds;
        if (path != NULL)
            *path = way;
    }
    return best;
}

/* ---- paths that cross ---- */

/* From one stage's states to another's. */
typedef struct crossing_search {
    plan_boxer *boxer;
    const plan_ends *ends;
    state_space from, to;
    cross_entry *crossings;
} crossing_search;

static cross_entry *crossings_of(plan_boxer *boxer, int32_t from, int32_t to,
                                 int32_t n_from)
{
    for (int32_t i = 0; i < boxer->crossings.n; i++)
        if (boxer->crossings.at[i].from == from &&
            boxer->crossings.at[i].to == to)
            return &boxer->crossings.at[i];
    fs_push(boxer->arena, &boxer->crossings,
            (cross_entry){from, to, fs_new(boxer->arena, cross_row *, n_from)});
    return &boxer->crossings.at[boxer->crossings.n - 1];
}

static crossing_search search_of(plan_boxer *boxer, const plan_ends *ends)
{
    crossing_search x = {.boxer = boxer,
                         .ends = ends,
                         .from = space_of(ends->tensor, ends->from_stage),
                         .to = space_of(ends->tensor, ends->to_stage)};
    const int32_t from = entry_of(boxer, &x.from);

    x.crossings =
        crossings_of(boxer, from, entry_of(boxer, &x.to), x.from.n_states);
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
        const ir_nd_sbp f = sbp_of_state(&x->from, from);
        const ir_nd_sbp t = sbp_of_state(&x->to, to);
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
    const path_tree *there, *back; /* from the one end, to the other */
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
    const two_trees t = {tree_of(boxer, &x->from, x->ends->from, false),
                         tree_of(boxer, &x->to, to, true)};
    const way w = best_way(x, &t);
    if (isinf(w.bound))
        return INFINITY;
    copy_path(&x->from, t.there, w.from, path);
    path->cross = path->n;
    for (int32_t s = w.to; s >= 0; s = t.back->parent[s])
        path->at[++path->n] = sbp_of_state(&x->to, s);
    return w.bound;
}

/* Straight to a target with halos. */
static double cross_to_halos(const crossing_search *x, plan_boxing *path)
{
    const path_tree *tree = tree_of(x->boxer, &x->from, x->ends->from, false);
    double best = INFINITY;

    for (int32_t s = 0; s < x->from.n_states; s++) {
        const ir_nd_sbp from = sbp_of_state(&x->from, s);
        const plan_cross cross = cross_at(x, &from, x->ends->to);
        if (!(tree->seconds[s] < best) || tree->length[s] >= PLAN_MAX_BOXING)
            continue;
        const double seconds =
            tree->seconds[s] + ask(x, x->boxer->cost.crossing, &cross);
        if (!(seconds < best))
            continue;
        best = seconds;
        copy_path(&x->from, tree, s, path);
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
        const ir_nd_sbp plain = without_halos(x->ends->to, whole, x->to.n_axes);
        plan_boxing found;
        double seconds = cross_plain(x, &plain, &found);
        if (!isinf(seconds))
            seconds += end_halos(x->boxer, &x->to, x->ends->to, &found);
        if (!(seconds < best))
            continue;
        best = seconds;
        *path = found;
    }
    return best;
}

static double cross_over(plan_boxer *boxer, const plan_ends *ends,
                         plan_boxing *path)
{
    const ir_mesh *mesh = &ends->from_stage->mesh;
    const plan_cross straight = {ends->tensor, ends->from_stage, ends->to_stage,
                                 *ends->from, *ends->to};
    const uint32_t halo = axes_with_halo(ends->to, ends->to_stage->mesh.n);

    if (axes_with_halo(ends->from, mesh->n) ||
        !ir_nd_sbp_fits(ends->from, &ends->tensor->shape, mesh))
        return INFINITY;
    const crossing_search x = search_of(boxer, ends);
    if (plan_cross_is_straight(&straight) && plan_cross_is_legal(&straight)) {
        *path = (plan_boxing){.n = 1, .at = {*ends->from, *ends->to}};
        return ask(&x, boxer->cost.crossing, &straight);
    }
    return halo ? cross_with_halos(&x, halo, path)
                : cross_plain(&x, ends->to, path);
}

/* How an input or constant is best made for this end. */
static ir_nd_sbp made_for(const plan_ends *ends)
{
    const int32_t n_axes = ends->to_stage->mesh.n;
    ir_nd_sbp made = without_halos(ends->to, ~(uint32_t)0, n_axes);

    if (plan_same_mesh(&ends->from_stage->mesh, &ends->to_stage->mesh))
        return *ends->from;
    for (int32_t a = 0; a < n_axes; a++)
        if (ir_sbp_is_partial(made.at[a]))
            made.at[a] = IR_SBP_B;
    return made;
}

double plan_boxer_join(plan_boxer *boxer, const plan_ends *ends,
                       plan_boxing *path)
{
    plan_boxing found;
    double seconds;

    if (plan_ends_cross(ends)) {
        seconds = cross_over(boxer, ends, &found);
    } else {
        const ir_nd_sbp from = ends->anywhere ? made_for(ends) : *ends->from;
        seconds = plan_boxer_find(boxer, ends->tensor, ends->to_stage, &from,
                                  ends->to, &found);
    }
    if (path != NULL && !isinf(seconds))
        *path = found;
    return seconds;
}
