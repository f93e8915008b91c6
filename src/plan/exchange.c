#include "config.h"

#include "plan/exchange.h"

#include <stdlib.h>

/* ---- which positions deal with each other ---- */

/* How the coordinates of giver and taker are tied on one axis of a mesh. */
typedef enum tie {
    TIE_NONE,  /* any pair */
    TIE_EQUAL, /* the same coordinate */
    TIE_FIRST  /* both the first */
} tie;

/* Does what mesh axis `a` cuts stay as the earlier axes, which cut first, leave
 * it? */
static bool cut_alone(const plan_exchange *x, int32_t a)
{
    for (int32_t b = 0; b < a; b++)
        if (!ir_sbp_equal(x->from.at[b], x->to.at[b]) &&
            (ir_sbp_same_cut(x->from.at[b], x->from.at[a]) ||
             ir_sbp_same_cut(x->to.at[b], x->from.at[a])))
            return false;
    return true;
}

static tie tie_of(const plan_exchange *x, int32_t a)
{
    const ir_sbp from = x->from.at[a], to = x->to.at[a];

    if (ir_sbp_is_partial(from))
        return ir_sbp_equal(from, to) ? TIE_EQUAL : TIE_NONE;
    if (from.kind == IR_B) /* a sum has it once, an extreme everywhere */
        return to.kind == IR_PSUM ? TIE_FIRST : TIE_EQUAL;
    if (ir_sbp_is_partial(to) || (ir_sbp_equal(from, to) && cut_alone(x, a)))
        return TIE_EQUAL;
    return TIE_NONE;
}

uint32_t plan_exchange_axes(const plan_exchange *x)
{
    uint32_t axes = 0;

    for (int32_t a = 0; a < x->from_mesh.n; a++)
        axes |= (uint32_t)(tie_of(x, a) == TIE_NONE) << a;
    return axes;
}

/* Fixes what `me` fixes in its partners: false when it has none. Axes left
 * free are -1. */
static bool partners_of(const plan_exchange *x, int32_t me,
                        int32_t fixed[IR_MAX_MESH])
{
    int32_t at[IR_MAX_MESH];

    ir_mesh_coords(&x->from_mesh, me, at);
    for (int32_t a = 0; a < x->from_mesh.n; a++) {
        const tie t = tie_of(x, a);
        if (t == TIE_FIRST && at[a] > 0)
            return false;
        fixed[a] = t == TIE_NONE ? -1 : at[a];
    }
    return true;
}

static void first_partner(const ir_mesh *mesh, const int32_t *fixed,
                          int32_t *at)
{
    for (int32_t a = 0; a < mesh->n; a++)
        at[a] = fixed[a] < 0 ? 0 : fixed[a];
}

static bool next_partner(const ir_mesh *mesh, const int32_t *fixed, int32_t *at)
{
    for (int32_t a = mesh->n - 1; a >= 0; a--) {
        if (fixed[a] >= 0)
            continue;
        if (++at[a] < mesh->dim[a])
            return true;
        at[a] = 0;
    }
    return false;
}

/* ---- copies on another mesh ---- */

/* How far apart two positions lie, in proportion to their meshes. */
static int64_t distance(const plan_exchange *x, int32_t giver, int32_t taker)
{
    const int64_t d = (int64_t)giver * ir_mesh_size(&x->to_mesh) -
                      (int64_t)taker * ir_mesh_size(&x->from_mesh);

    return d < 0 ? -d : d;
}

/* Who is nearest to a taker of those whose coordinates are `fixed` where that
 * is not -1. */
typedef struct nearness {
    const plan_exchange *x;
    const int32_t *fixed;
    int32_t taker, best;
    int64_t least;
} nearness;

static void meet(nearness *n, int32_t giver)
{
    const int64_t far = distance(n->x, giver, n->taker);

    if (n->best >= 0 && far >= n->least)
        return;
    n->best = giver;
    n->least = far;
}

/* Coordinates on an axis are runs of positions one behind the other, from
 * `begin` on: of the last that does not begin behind the taker's place and the
 * next one is the nearest. */
static void look_on(nearness *n, int32_t axis, int32_t begin)
{
    const ir_mesh *from = &n->x->from_mesh;
    int32_t stride = 1;

    while (axis < from->n && n->fixed[axis] >= 0)
        axis++;
    if (axis == from->n) {
        meet(n, begin);
        return;
    }
    for (int32_t a = axis + 1; a < from->n; a++)
        stride *= from->dim[a];
    const int64_t place =
        (int64_t)n->taker * ir_mesh_size(from) / ir_mesh_size(&n->x->to_mesh) -
        begin;
    const int64_t run = place < 0 ? 0 : place / stride;
    const int32_t last = from->dim[axis] - 1;
    const int32_t c = run < last ? (int32_t)run : last;
    look_on(n, axis + 1, begin + c * stride);
    if (c < last)
        look_on(n, axis + 1, begin + (c + 1) * stride);
}

/* Of those that hold the same (`fixed` is -1 on axes of B) who is nearest; of
 * two the first. */
static int32_t nearest(const plan_exchange *x, const int32_t *fixed,
                       int32_t taker)
{
    nearness n = {x, fixed, taker, -1, 0};
    int32_t at[IR_MAX_MESH];

    first_partner(&x->from_mesh, fixed, at);
    look_on(&n, 0, ir_mesh_rank(&x->from_mesh, at));
    return n.best;
}

static bool is_nearest(const plan_exchange *x, int32_t giver, int32_t taker)
{
    int32_t fixed[IR_MAX_MESH];

    ir_mesh_coords(&x->from_mesh, giver, fixed);
    for (int32_t a = 0; a < x->from_mesh.n; a++)
        if (x->from.at[a].kind == IR_B)
            fixed[a] = -1;
    return nearest(x, fixed, taker) == giver;
}

/* ---- shares ---- */

static ir_piece held(const plan_exchange *x, const int32_t *at)
{
    return ir_piece_of(&x->shape, &x->from, &x->from_mesh, at);
}

static ir_piece wanted(const plan_exchange *x, const int32_t *at)
{
    return ir_piece_of(&x->shape, &x->to, &x->to_mesh, at);
}

typedef ir_piece piece_fn(const plan_exchange *x, const int32_t *at);

static void add_share(const ir_piece *mine, const ir_piece *theirs,
                      int32_t position, fs_arena *arena, plan_shares *out)
{
    plan_share share = {.position = position};

    if (ir_piece_common(mine, theirs, &share.box))
        fs_push(arena, out, share);
}

/* On one mesh takers and givers are tied the same way. */
static void list_within(const plan_exchange *x, int32_t me, bool gives,
                        fs_arena *arena, plan_shares *out)
{
    piece_fn *const own = gives ? held : wanted, *const other =
                                                     gives ? wanted : held;
    int32_t fixed[IR_MAX_MESH], at[IR_MAX_MESH];

    if (!partners_of(x, me, fixed))
        return;
    ir_mesh_coords(&x->from_mesh, me, at);
    const ir_piece mine = own(x, at);
    first_partner(&x->from_mesh, fixed, at);
    do {
        const ir_piece theirs = other(x, at);
        add_share(&mine, &theirs, ir_mesh_rank(&x->from_mesh, at), arena, out);
    } while (next_partner(&x->from_mesh, fixed, at));
}

static bool stays_partial(const plan_exchange *x)
{
    for (int32_t a = 0; a < x->to_mesh.n; a++)
        if (ir_sbp_is_partial(x->to.at[a]))
            return true;
    return false;
}

/* Givers on another mesh, which have no halos, found by their coordinates one
 * by one. */
typedef struct givers {
    const plan_exchange *x;
    int32_t taker;
    ir_piece wanted;
    ir_piece left;           /* by the cuts of the axes so far */
    int32_t at[IR_MAX_MESH]; /* coordinates so far; -1 on axes of B */
    fs_arena *arena;
    plan_shares *out;
} givers;

/* The first of `n` pieces of a length that ends behind `at`; or the last. */
static int32_t first_behind(int64_t length, int32_t n, int64_t at)
{
    const int64_t base = length / n, longer = length % n;
    const int64_t split = longer * (base + 1);
    int64_t piece;

    if (at < split)
        piece = at / (base + 1);
    else
        piece = base ? longer + (at - split) / base : n - 1;
    return piece < 0 ? 0 : piece < n ? (int32_t)piece : n - 1;
}

static void find_givers(givers *g, int32_t axis);

/* Axis `axis` cuts what the ones before leave: those of its pieces that have
 * something wanted lie one behind the other. */
static void find_along(givers *g, int32_t axis)
{
    const int32_t d = g->x->from.at[axis].axis, n = g->x->from_mesh.dim[axis];
    const int64_t whole = g->left.shape.dim[d], offset = g->left.offset[d];
    const int64_t begin = g->wanted.offset[d] - offset;
    const int64_t end = begin + g->wanted.shape.dim[d];

    for (int32_t c = first_behind(whole, n, begin); c < n; c++) {
        int64_t start, length;
        ir_split(whole, n, c, &start, &length);
        if (start >= end)
            break;
        if (start + length <= begin)
            continue;
        g->left.offset[d] = offset + start;
        g->left.shape.dim[d] = length;
        g->at[axis] = c;
        find_givers(g, axis + 1);
    }
    g->left.offset[d] = offset;
    g->left.shape.dim[d] = whole;
}

static void find_givers(givers *g, int32_t axis)
{
    const plan_exchange *x = g->x;

    if (axis == x->from_mesh.n) {
        add_share(&g->wanted, &g->left, nearest(x, g->at, g->taker), g->arena,
                  g->out);
    } else if (x->from.at[axis].kind == IR_B) {
        g->at[axis] = -1;
        find_givers(g, axis + 1);
    } else if (x->from.at[axis].kind == IR_S) {
        find_along(g, axis);
    } else {
        for (int32_t c = 0; c < x->from_mesh.dim[axis]; c++) {
            g->at[axis] = c;
            find_givers(g, axis + 1);
        }
    }
}

static int compare_shares(const void *a, const void *b)
{
    const plan_share *x = a, *y = b;

    return (x->position > y->position) - (x->position < y->position);
}

/* What stays partial goes from position to position. */
static void add_straight(const plan_exchange *x, int32_t me, fs_arena *arena,
                         plan_shares *out)
{
    int32_t at[IR_MAX_MESH];

    ir_mesh_coords(&x->from_mesh, me, at);
    const ir_piece from = held(x, at), to = wanted(x, at);
    add_share(&from, &to, me, arena, out);
}

/* Most come in order. */
static bool in_order(const plan_shares *shares)
{
    for (int32_t k = 1; k < shares->n; k++)
        if (shares->at[k].position < shares->at[k - 1].position)
            return false;
    return true;
}

static void takes_across(const plan_exchange *x, int32_t me, fs_arena *arena,
                         plan_shares *out)
{
    givers g = {.x = x,
                .taker = me,
                .left = {.shape = x->shape},
                .arena = arena,
                .out = out};

    ir_mesh_coords(&x->to_mesh, me, g.at);
    g.wanted = wanted(x, g.at);
    find_givers(&g, 0);
    if (!in_order(out))
        qsort(out->at, (size_t)out->n, sizeof *out->at, compare_shares);
}

static void gives_across(const plan_exchange *x, int32_t me, fs_arena *arena,
                         plan_shares *out)
{
    int32_t at[IR_MAX_MESH];

    ir_mesh_coords(&x->from_mesh, me, at);
    const ir_piece mine = held(x, at);
    for (int32_t k = 0; k < ir_mesh_size(&x->to_mesh); k++) {
        plan_share share = {.position = k};
        ir_mesh_coords(&x->to_mesh, k, at);
        const ir_piece theirs = wanted(x, at);
        if (ir_piece_common(&mine, &theirs, &share.box) && is_nearest(x, me, k))
            fs_push(arena, out, share);
    }
}

static void list_across(const plan_exchange *x, int32_t me, bool gives,
                        fs_arena *arena, plan_shares *out)
{
    if (stays_partial(x))
        add_straight(x, me, arena, out);
    else
        (gives ? gives_across : takes_across)(x, me, arena, out);
}

void plan_exchange_takes(const plan_exchange *x, int32_t me, fs_arena *arena,
                         plan_shares *out)
{
    (x->moves ? list_across : list_within)(x, me, false, arena, out);
}

void plan_exchange_gives(const plan_exchange *x, int32_t me, fs_arena *arena,
                         plan_shares *out)
{
    (x->moves ? list_across : list_within)(x, me, true, arena, out);
}

ir_sbp_kind plan_exchange_folds(const plan_exchange *x)
{
    const bool all = x->moves && !stays_partial(x);

    for (int32_t a = 0; a < x->from_mesh.n; a++)
        if (ir_sbp_is_partial(x->from.at[a]) &&
            (all || (!x->moves && !ir_sbp_equal(x->from.at[a], x->to.at[a]))))
            return (ir_sbp_kind)x->from.at[a].kind;
    return IR_B;
}

ir_sbp_kind plan_exchange_fills(const plan_exchange *x)
{
    for (int32_t a = 0; a < x->to_mesh.n; a++) {
        const ir_sbp from = x->from.at[a], to = x->to.at[a];
        if ((to.kind == IR_PSUM && !ir_sbp_is_partial(from)) ||
            (ir_sbp_is_extreme(to) && from.kind == IR_S))
            return (ir_sbp_kind)to.kind;
    }
    return IR_B;
}

int64_t plan_exchange_moved(const plan_exchange *x)
{
    const int32_t n = ir_mesh_size(&x->to_mesh);
    fs_arena *arena = fs_arena_create();
    int64_t moved = 0;

    for (int32_t me = 0; me < n; me++) {
        plan_shares shares = {0};
        plan_exchange_takes(x, me, arena, &shares);
        for (int32_t i = 0; i < shares.n; i++)
            if (x->moves || shares.at[i].position != me)
                moved += ir_shape_count(&shares.at[i].box.shape);
    }
    fs_arena_destroy(arena);
    return moved;
}
