#include "config.h"

#include "plan/boxer_parts.h"

#include "base/hash.h"

#include <math.h>
#include <string.h>

/* ---- states ---- */

uint32_t boxer_reductions(const ir_nd_sbp *sbp, int32_t n_axes)
{
    uint32_t kinds = 1u << IR_PSUM;

    for (int32_t a = 0; a < n_axes; a++)
        if (ir_sbp_is_partial(sbp->at[a]))
            kinds |= 1u << sbp->at[a].kind;
    return kinds;
}

/* Per mesh axis a digit: B, the reductions, S(i). */
static int32_t first_split(uint32_t reductions)
{
    return 1 + __builtin_popcount(reductions);
}

static int32_t digit_of(uint32_t reductions, ir_sbp sbp)
{
    if (sbp.kind == IR_B)
        return 0;
    if (sbp.kind == IR_S)
        return first_split(reductions) + sbp.axis;
    return first_split(reductions & ((1u << sbp.kind) - 1));
}

static ir_sbp sbp_of_digit(uint32_t reductions, int32_t digit)
{
    const int32_t split = digit - first_split(reductions);

    if (digit == 0)
        return IR_SBP_B;
    if (split >= 0)
        return IR_SBP_S(split);
    while (--digit > 0)
        reductions &= reductions - 1;
    return (ir_sbp){.kind = (uint8_t)__builtin_ctz(reductions)};
}

int32_t boxer_state_of(const boxer_space *space, const ir_nd_sbp *sbp)
{
    int32_t state = 0;

    for (int32_t a = 0; a < space->n_axes; a++)
        state = state * space->base + digit_of(space->reductions, sbp->at[a]);
    return state;
}

ir_nd_sbp boxer_sbp_at(const boxer_space *space, int32_t state)
{
    ir_nd_sbp sbp = {0};

    for (int32_t a = space->n_axes - 1; a >= 0; a--) {
        sbp.at[a] = sbp_of_digit(space->reductions, state % space->base);
        state /= space->base;
    }
    return sbp;
}

/* ---- cheapest paths ---- */

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
    const boxer_space *space;
    const plan_boxing_cost *cost;
    fs_arena *arena;  /* of the heap, and for a moment */
    const bool *fits; /* [n_states] may the tensor lie so? */
    edges **leading;  /* [n_states], listed when first wanted */
    edges **coming;   /* [n_states] to walk backwards along; else NULL */
    fs_arena *kept;   /* of the lists */
    uint32_t **rows;  /* list_rows's; NULL there: not known yet */
    boxer_tree *tree;
    state_heap heap;
} path_walk;

/* [base * base] */
static const uint32_t *list_rows(path_walk *walk)
{
    const boxer_space *space = walk->space;
    const int32_t n = space->base;

    if (*walk->rows != NULL)
        return *walk->rows;
    *walk->rows = fs_new(walk->kept, uint32_t, n * n);
    for (int32_t f = 0; f < n; f++)
        for (int32_t t = 0; t < n; t++)
            (*walk->rows)[f * n + t] =
                f == t ? ~(uint32_t)0
                       : plan_box_rows(sbp_of_digit(space->reductions, f),
                                       sbp_of_digit(space->reductions, t));
    return *walk->rows;
}

/* The rows that lead to each state on all axes that change, seen at a glance:
 * to most there is none. [n_states] */
static uint32_t *rows_to_all(path_walk *walk, int32_t from)
{
    const boxer_space *space = walk->space;
    const uint32_t *rows = list_rows(walk);
    uint32_t *to = fs_new(walk->arena, uint32_t, space->n_states);
    int32_t n = 1;

    to[0] = ~(uint32_t)0;
    for (int32_t a = 0; a < space->n_axes; a++) { /* the last one first */
        const uint32_t *on = rows + from % space->base * space->base;
        for (int32_t d = space->base - 1; d >= 0; d--)
            for (int32_t k = 0; k < n; k++)
                to[d * n + k] = to[k] & on[d];
        n *= space->base;
        from /= space->base;
    }
    return to;
}

static const edges *edges_from(path_walk *walk, int32_t state)
{
    const boxer_space *space = walk->space;
    const ir_nd_sbp from = boxer_sbp_at(space, state);
    edges *list;

    if (walk->leading[state] != NULL)
        return walk->leading[state];
    const uint32_t *rows = rows_to_all(walk, state);
    list = walk->leading[state] = fs_new(walk->kept, edges, 1);
    for (int32_t next = 0; walk->fits[state] && next < space->n_states;
         next++) {
        if (next == state || !walk->fits[next] || rows[next] == 0)
            continue;
        const ir_nd_sbp to = boxer_sbp_at(space, next);
        plan_box_step step;
        if (!plan_box_step_make(space->tensor, &space->stage->mesh, &from, &to,
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
    boxer_tree *tree = walk->tree;

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

static boxer_tree find_paths(path_walk *walk, const ir_nd_sbp *from)
{
    const boxer_space *space = walk->space;
    boxer_tree tree = {fs_new(walk->kept, double, space->n_states),
                       fs_new(walk->kept, int32_t, space->n_states),
                       fs_new(walk->kept, int32_t, space->n_states)};
    const int32_t start = boxer_state_of(space, from);

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

/* ---- remembered ---- */

/* Everything that a step and its cost depend on, without padding. */
typedef struct space_key {
    int64_t dim[IR_MAX_RANK];
    int32_t rank, dtype, place, n_axes;
    uint32_t reductions;
    int32_t mesh[IR_MAX_MESH];
} space_key;

/* What is known of a tensor's states on a stage. */
typedef struct space_entry {
    space_key key;
    bool *fits;                 /* [n_states] or NULL */
    uint32_t *rows;             /* list_rows's or NULL */
    edges **leading, **coming;  /* [n_states] */
    boxer_tree **tree;          /* [n_states] by where paths start, or NULL */
    boxer_tree **back;          /* [n_states] by where they end */
    boxer_crossings *crossings; /* from here */
    int32_t next;               /* in its bucket, or -1 */
} space_entry;

struct boxer_spaces {
    FS_VEC(space_entry) entries;
    int32_t *bucket;
    int32_t n_buckets; /* a power of two */
};

boxer_spaces *boxer_spaces_create(fs_arena *arena)
{
    return fs_new(arena, boxer_spaces, 1);
}

static space_key key_of(const plan_boxing_cost *cost, const boxer_space *space)
{
    const ir_tensor *tensor = space->tensor;
    const plan_stage *stage = space->stage;
    space_key key;

    memset(&key, 0, sizeof key);
    for (int32_t d = 0; d < tensor->shape.rank; d++)
        key.dim[d] = tensor->shape.dim[d];
    key.rank = tensor->shape.rank;
    key.dtype = (int32_t)tensor->dtype;
    key.place =
        cost->place ? cost->place(cost->ctx, stage) : stage->first_device;
    key.n_axes = stage->mesh.n;
    key.reductions = space->reductions;
    for (int32_t a = 0; a < stage->mesh.n; a++)
        key.mesh[a] = stage->mesh.dim[a];
    return key;
}

static int32_t *bucket_of(const boxer_spaces *spaces, const space_key *key)
{
    uint64_t hash = fs_hash(0, key, sizeof *key);

    return &spaces->bucket[hash & (uint64_t)(spaces->n_buckets - 1)];
}

static void grow_buckets(boxer_spaces *spaces, fs_arena *arena)
{
    spaces->n_buckets = spaces->n_buckets ? 2 * spaces->n_buckets : 64;
    spaces->bucket = fs_new(arena, int32_t, spaces->n_buckets);
    for (int32_t b = 0; b < spaces->n_buckets; b++)
        spaces->bucket[b] = -1;
    for (int32_t e = 0; e < spaces->entries.n; e++) {
        int32_t *bucket = bucket_of(spaces, &spaces->entries.at[e].key);
        spaces->entries.at[e].next = *bucket;
        *bucket = e;
    }
}

static int32_t number_of(plan_boxer *boxer, const boxer_space *space)
{
    boxer_spaces *spaces = boxer->spaces;
    const space_key key = key_of(&boxer->cost, space);
    const int32_t n = space->n_states;
    int32_t *bucket;

    if (spaces->entries.n >= spaces->n_buckets)
        grow_buckets(spaces, boxer->arena);
    bucket = bucket_of(spaces, &key);
    for (int32_t e = *bucket; e >= 0; e = spaces->entries.at[e].next)
        if (memcmp(&spaces->entries.at[e].key, &key, sizeof key) == 0)
            return e;
    fs_push(boxer->arena, &spaces->entries,
            (space_entry){.key = key,
                          .leading = fs_new(boxer->arena, edges *, n),
                          .tree = fs_new(boxer->arena, boxer_tree *, n),
                          .back = fs_new(boxer->arena, boxer_tree *, n),
                          .next = *bucket});
    *bucket = spaces->entries.n - 1;
    return *bucket;
}

boxer_space boxer_space_of(plan_boxer *boxer, const ir_tensor *tensor,
                           const plan_stage *stage, uint32_t reductions)
{
    boxer_space space = {.tensor = tensor,
                         .stage = stage,
                         .reductions = reductions,
                         .base = first_split(reductions) + tensor->shape.rank,
                         .n_axes = stage->mesh.n,
                         .n_states = 1};

    for (int32_t a = 0; a < space.n_axes; a++)
        space.n_states *= space.base;
    space.number = number_of(boxer, &space);
    return space;
}

boxer_crossings **boxer_crossings_from(plan_boxer *boxer,
                                       const boxer_space *from)
{
    return &boxer->spaces->entries.at[from->number].crossings;
}

static const bool *list_fits(plan_boxer *boxer, const boxer_space *space,
                             space_entry *entry)
{
    if (entry->fits != NULL)
        return entry->fits;
    entry->fits = fs_new(boxer->arena, bool, space->n_states);
    for (int32_t s = 0; s < space->n_states; s++) {
        const ir_nd_sbp sbp = boxer_sbp_at(space, s);
        entry->fits[s] =
            ir_nd_sbp_fits(&sbp, &space->tensor->shape, &space->stage->mesh);
    }
    return entry->fits;
}

const boxer_tree *boxer_tree_of(plan_boxer *boxer, const boxer_space *space,
                                const ir_nd_sbp *end, bool backwards)
{
    space_entry *entry = &boxer->spaces->entries.at[space->number];
    boxer_tree **tree =
        &(backwards ? entry->back : entry->tree)[boxer_state_of(space, end)];

    if (*tree == NULL) {
        fs_arena *scratch = fs_arena_create();
        path_walk walk = {.space = space,
                          .cost = &boxer->cost,
                          .arena = scratch,
                          .fits = list_fits(boxer, space, entry),
                          .leading = entry->leading,
                          .rows = &entry->rows,
                          .kept = boxer->arena};
        if (backwards && entry->coming == NULL) {
            entry->coming = fs_new(boxer->arena, edges *, space->n_states);
            walk.coming = entry->coming;
            list_coming(&walk);
        }
        walk.coming = backwards ? entry->coming : NULL;
        *tree = fs_new(boxer->arena, boxer_tree, 1);
        **tree = find_paths(&walk, end);
        fs_arena_destroy(scratch);
    }
    return *tree;
}

void boxer_copy_path(const boxer_space *space, const boxer_tree *tree,
                     int32_t state, plan_boxing *path)
{
    const int32_t n = tree->length[state];

    *path = (plan_boxing){.n = n};
    for (int32_t i = n, s = state; i >= 0; i--, s = tree->parent[s])
        path->at[i] = boxer_sbp_at(space, s);
}
