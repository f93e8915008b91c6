#include "config.h"

#include "plan/boxing.h"

#include <math.h>
#include <string.h>

/* ---- the table of steps ---- */

typedef enum sbp_class {
    CLASS_B,
    CLASS_S,
    CLASS_H,
    CLASS_C,
    CLASS_N,
    CLASS_R,
    CLASS_P
} sbp_class;

typedef struct box_row {
    plan_box_kind kind;
    const char *name;
    sbp_class from, to;
    bool collective;
} box_row;

static const box_row box_table[PLAN_BOX_KINDS] = {
#define PLAN_BOX(id, name, from, to, collective)                               \
    [id] = {id, name, CLASS_##from, CLASS_##to, collective},
#include "plan/boxing.def"
#undef PLAN_BOX
};

const char *plan_box_name(plan_box_kind kind)
{
    return box_table[kind].name;
}

bool plan_box_is_collective(plan_box_kind kind)
{
    return box_table[kind].collective;
}

const char *plan_axes_text(uint32_t axes, fs_arena *arena)
{
    fs_text text = {.arena = arena};

    for (int32_t a = 0; a < 32; a++)
        if (axes >> a & 1)
            fs_text_add(&text, "%s%d", text.n ? "," : "", a);
    return text.at ? text.at : "none";
}

static bool in_class(ir_sbp sbp, sbp_class wanted)
{
    switch (wanted) {
    case CLASS_B:
        return sbp.kind == IR_B;
    case CLASS_S:
        return sbp.kind == IR_S && !ir_sbp_has_halo(sbp);
    case CLASS_H:
        return ir_sbp_has_halo(sbp);
    case CLASS_C:
        return sbp.kind == IR_S;
    case CLASS_N:
        return sbp.kind == IR_B || (sbp.kind == IR_S && !ir_sbp_has_halo(sbp));
    case CLASS_R:
        return ir_sbp_is_partial(sbp);
    case CLASS_P:
        return sbp.kind == IR_PSUM;
    }
    return false;
}

static bool fits_row(const box_row *row, ir_sbp from, ir_sbp to)
{
    return in_class(from, row->from) && in_class(to, row->to) &&
           (row->to != CLASS_H || ir_sbp_same_cut(from, to));
}

static uint32_t changed_axes(const ir_nd_sbp *from, const ir_nd_sbp *to,
                             int32_t n_axes)
{
    uint32_t axes = 0;

    for (int32_t a = 0; a < n_axes; a++)
        axes |= (uint32_t)!ir_sbp_equal(from->at[a], to->at[a]) << a;
    return axes;
}

/* The first row that fits every axis of `axes`, or NULL. */
static const box_row *find_row(const ir_nd_sbp *from, const ir_nd_sbp *to,
                               uint32_t axes)
{
    for (int32_t k = 0; k < PLAN_BOX_KINDS; k++) {
        bool fits = true;
        for (int32_t a = 0; a < IR_MAX_MESH; a++)
            fits &= !(axes >> a & 1) ||
                    fits_row(&box_table[k], from->at[a], to->at[a]);
        if (fits)
            return &box_table[k];
    }
    return NULL;
}

/* Partial values that are reduced are of one kind; and different reductions do
 * not commute: the later axis is the inner one and is reduced first. */
static bool reduces_in_order(const ir_nd_sbp *sbp, int32_t n_axes,
                             uint32_t axes)
{
    for (int32_t a = 0; a < n_axes; a++)
        for (int32_t b = a + 1; b < n_axes; b++)
            if ((axes >> a & 1) && ir_sbp_is_partial(sbp->at[a]) &&
                ir_sbp_is_partial(sbp->at[b]) &&
                sbp->at[a].kind != sbp->at[b].kind)
                return false;
    return true;
}

static int64_t piece_bytes(const ir_tensor *tensor, const ir_mesh *mesh,
                           const ir_nd_sbp *sbp)
{
    ir_shape local = ir_largest_piece(&tensor->shape, sbp, mesh);

    return ir_shape_count(&local) * ir_dtype_bytes(tensor->dtype);
}

plan_exchange plan_box_exchange(const ir_tensor *tensor, const ir_mesh *mesh,
                                const ir_nd_sbp *from, const ir_nd_sbp *to)
{
    return (plan_exchange){.shape = tensor->shape,
                           .from_mesh = *mesh,
                           .to_mesh = *mesh,
                           .from = *from,
                           .to = *to};
}

static bool mesh_has(const ir_mesh *mesh, uint32_t axes)
{
    for (int32_t a = 0; a < mesh->n; a++)
        if ((axes >> a & 1) && mesh->dim[a] < 2)
            return false;
    return axes != 0;
}

/* The row of a step whose ranks deal with each other along `dealing`. Where
 * those are not just the axes that change, pieces are cut anew under them. */
static const box_row *row_of(const ir_nd_sbp *from, const ir_nd_sbp *to,
                             uint32_t changed, uint32_t dealing)
{
    const box_row *row = find_row(from, to, changed);
    const box_row *reslice = &box_table[PLAN_RESLICE];

    if (row == NULL || dealing == (row->collective ? changed : 0))
        return row;
    for (int32_t a = 0; a < IR_MAX_MESH; a++)
        if (((changed | dealing) >> a & 1) &&
            !fits_row(reslice, from->at[a], to->at[a]))
            return NULL;
    return reslice;
}

bool plan_box_step_make(const ir_tensor *tensor, const ir_mesh *mesh,
                        const ir_nd_sbp *from, const ir_nd_sbp *to,
                        plan_box_step *out)
{
    const uint32_t changed = changed_axes(from, to, mesh->n);
    const plan_exchange x = plan_box_exchange(tensor, mesh, from, to);
    const uint32_t dealing = plan_exchange_axes(&x);
    const box_row *row;

    if (!mesh_has(mesh, changed))
        return false;
    row = row_of(from, to, changed, dealing);
    if (row == NULL)
        return false;
    /* Sums are of types that compute: not of flags, nor of narrow numbers. */
    if (row->to == CLASS_P &&
        (tensor->dtype == IR_BOOL || !ir_dtype_computes(tensor->dtype)))
        return false;
    if (!reduces_in_order(from, mesh->n, changed) ||
        !ir_nd_sbp_fits(from, &tensor->shape, mesh) ||
        !ir_nd_sbp_fits(to, &tensor->shape, mesh))
        return false;
    *out = (plan_box_step){.kind = row->kind,
                           .axes = row->collective ? dealing : changed,
                           .from = *from,
                           .to = *to,
                           .bytes_in = piece_bytes(tensor, mesh, from),
                           .bytes_out = piece_bytes(tensor, mesh, to)};
    return true;
}

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

/* Cheapest paths from one SBP to all others. */
typedef struct path_tree {
    double *seconds; /* [n_states], INFINITY: out of reach */
    int32_t *parent;
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

typedef struct path_walk {
    const state_space *space;
    const plan_boxing_cost *cost;
    fs_arena *arena; /* of the heap */
    edges **leading; /* [n_states], listed when first wanted */
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
    const edges *list = edges_from(walk, state);
    path_tree *tree = walk->tree;

    for (int32_t i = 0; i < list->n; i++) {
        const int32_t next = list->at[i].to;
        const double seconds = tree->seconds[state] + list->at[i].seconds;
        if (!(seconds < tree->seconds[next]))
            continue;
        tree->seconds[next] = seconds;
        tree->parent[next] = state;
        heap_push(walk->arena, &walk->heap, (heap_item){seconds, next});
    }
}

static path_tree find_paths(path_walk *walk, const ir_nd_sbp *from)
{
    const state_space *space = walk->space;
    path_tree tree = {fs_new(walk->kept, double, space->n_states),
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
    edges **leading;  /* [n_states] */
    path_tree **tree; /* [n_states] by where paths start, or NULL */
    int32_t next;     /* in its bucket, or -1 */
} space_entry;

struct plan_boxer {
    plan_boxing_cost cost;
    fs_arena *arena;
    FS_VEC(space_entry) entries;
    int32_t *bucket;
    int32_t n_buckets; /* a power of two */
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

static space_entry *entry_of(plan_boxer *boxer, const state_space *space)
{
    const space_key key = key_of(space);
    int32_t *bucket;

    if (boxer->entries.n >= boxer->n_buckets)
        grow_buckets(boxer);
    bucket = bucket_of(boxer, &key);
    for (int32_t e = *bucket; e >= 0; e = boxer->entries.at[e].next)
        if (memcmp(&boxer->entries.at[e].key, &key, sizeof key) == 0)
            return &boxer->entries.at[e];
    fs_push(boxer->arena, &boxer->entries,
            (space_entry){key, fs_new(boxer->arena, edges *, space->n_states),
                          fs_new(boxer->arena, path_tree *, space->n_states),
                          *bucket});
    *bucket = boxer->entries.n - 1;
    return &boxer->entries.at[*bucket];
}

static const path_tree *tree_of(plan_boxer *boxer, const state_space *space,
                                const ir_nd_sbp *from)
{
    space_entry *entry = entry_of(boxer, space);
    const int32_t start = state_of(space, from);

    if (entry->tree[start] == NULL) {
        fs_arena *scratch = fs_arena_create();
        path_walk walk = {.space = space,
                          .cost = &boxer->cost,
                          .arena = scratch,
                          .leading = entry->leading,
                          .kept = boxer->arena};
        entry->tree[start] = fs_new(boxer->arena, path_tree, 1);
        *entry->tree[start] = find_paths(&walk, from);
        fs_arena_destroy(scratch);
    }
    return entry->tree[start];
}

static int32_t path_length(const path_tree *tree, int32_t state)
{
    int32_t n = 0;

    while (tree->parent[state] >= 0) {
        state = tree->parent[state];
        n++;
    }
    return n;
}

static void copy_path(const state_space *space, const path_tree *tree,
                      int32_t state, plan_boxing *path)
{
    const int32_t n = path_length(tree, state);

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
    const path_tree *tree = tree_of(boxer, space, from);
    const int32_t state = state_of(space, to);
    if (isinf(tree->seconds[state]) ||
        path_length(tree, state) > PLAN_MAX_BOXING)
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

/* A halo is cut off a whole tensor, or exchanged between pieces: `whole` says
 * by mesh axis which. */
static double find_halos(plan_boxer *boxer, const state_space *space,
                         const ir_nd_sbp *from, const ir_nd_sbp *to,
                         uint32_t whole, plan_boxing *path)
{
    ir_nd_sbp plain = *to;
    double seconds;

    for (int32_t a = 0; a < space->n_axes; a++)
        if (ir_sbp_has_halo(to->at[a]))
            plain.at[a] = whole >> a & 1 ? IR_SBP_B : IR_SBP_S(to->at[a].axis);
    seconds = find_plain(boxer, space, from, &plain, path);
    if (!isinf(seconds))
        seconds += add_halos(boxer, space, to, true, path);
    if (!isinf(seconds))
        seconds += add_halos(boxer, space, to, false, path);
    return seconds;
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
