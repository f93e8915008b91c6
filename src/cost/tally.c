/* A move between two meshes, counted without listing it (parts.h).
 *
 * Each mesh cuts each dimension of the tensor into pieces in a row, so that
 * what a position deals with is a product over dimensions of runs of the other
 * mesh's pieces. A taker deals with one giver for each piece that meets its
 * own, and with each that has a contribution to it. Of givers that hold the
 * same each is nearest to a run of takers by position, and what lies before a
 * position of a mesh is, axis by axis, again such a product. */
#include "config.h"
#include "cost/parts.h"

/* A dimension as a mesh cuts it: piece k is [start[k], start[k + 1]). */
typedef struct row {
    int32_t n;
    int64_t *start; /* [n + 1] */
} row;

typedef struct side {
    const ir_mesh *mesh;
    const ir_nd_sbp *sbp;
    row rows[IR_MAX_RANK];
    int32_t stride[IR_MAX_MESH]; /* pieces that one step along an axis is, */
    int32_t copies[IR_MAX_MESH]; /* and copies on the axes from this one on */
} side;

/* Of a piece of one side those that it meets of the other: from first, before
 * last. */
typedef struct meeting {
    int32_t *first, *last; /* [pieces] */
} meeting;

typedef struct tallying {
    int32_t rank;
    side from, to;
    meeting given[IR_MAX_RANK], taken[IR_MAX_RANK];
    struct last_border *last; /* [pieces of from] */
} tallying;

static void cut_row(row *r, int32_t n, fs_arena *arena)
{
    row finer = {r->n * n, fs_new(arena, int64_t, r->n * n + 1)};
    for (int32_t k = 0; k < r->n; k++)
        for (int32_t c = 0; c < n; c++) {
            int64_t start, length;
            ir_split(r->start[k + 1] - r->start[k], n, c, &start, &length);
            finer.start[k * n + c] = r->start[k] + start;
        }
    finer.start[finer.n] = r->start[r->n];
    *r = finer;
}

static side cut_side(const ir_shape *shape, const ir_mesh *mesh,
                     const ir_nd_sbp *sbp, fs_arena *arena)
{
    side s = {.mesh = mesh, .sbp = sbp};
    int32_t copies = 1;
    for (int32_t d = 0; d < shape->rank; d++) {
        s.rows[d] = (row){1, fs_new(arena, int64_t, 2)};
        s.rows[d].start[1] = shape->dim[d];
    }
    for (int32_t a = mesh->n - 1; a >= 0; a--) {
        s.stride[a] = 1;
        for (int32_t b = a + 1; b < mesh->n; b++)
            if (ir_sbp_same_cut(sbp->at[a], sbp->at[b]))
                s.stride[a] *= mesh->dim[b];
        copies *= sbp->at[a].kind == IR_S ? 1 : mesh->dim[a];
        s.copies[a] = copies;
    }
    for (int32_t a = 0; a < mesh->n; a++)
        if (sbp->at[a].kind == IR_S)
            cut_row(&s.rows[sbp->at[a].axis], mesh->dim[a], arena);
    return s;
}

static meeting meet(const row *mine, const row *theirs, fs_arena *arena)
{
    meeting m = {fs_new(arena, int32_t, mine->n),
                 fs_new(arena, int32_t, mine->n)};
    int32_t first = 0, last = 0;
    for (int32_t k = 0; k < mine->n; k++) {
        while (theirs->start[first + 1] <= mine->start[k])
            first++;
        while (last < theirs->n && theirs->start[last] < mine->start[k + 1])
            last++;
        m.first[k] = first;
        m.last[k] = last;
    }
    return m;
}

/* Which piece of each dimension is at a position. */
static void find_pieces(const side *s, const int32_t *at, int32_t *piece)
{
    for (int32_t a = 0; a < s->mesh->n; a++)
        if (s->sbp->at[a].kind == IR_S)
            piece[s->sbp->at[a].axis] += at[a] * s->stride[a];
}

static cost_tally taken_at(const tallying *t, const int32_t *at)
{
    cost_tally tally = {1, 1};
    int32_t piece[IR_MAX_RANK] = {0};
    find_pieces(&t->to, at, piece);
    for (int32_t d = 0; d < t->rank; d++) {
        const int64_t *start = t->to.rows[d].start + piece[d];
        tally.messages *=
            t->taken[d].last[piece[d]] - t->taken[d].first[piece[d]];
        tally.elements *= start[1] - start[0];
    }
    for (int32_t a = 0; a < t->from.mesh->n; a++) {
        if (!ir_sbp_is_partial(t->from.sbp->at[a]))
            continue;
        tally.messages *= t->from.mesh->dim[a];
        tally.elements *= t->from.mesh->dim[a];
    }
    return tally;
}

/* ---- what a giver gives ---- */

/* Runs of pieces of each dimension, [begin, begin + n). */
typedef struct runs {
    int32_t begin[IR_MAX_RANK], n[IR_MAX_RANK];
} runs;

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Adds what pieces `mine` meet in those runs, `times` over. */
static void add_runs(const tallying *t, const int32_t *mine, const runs *r,
                     int64_t times, cost_tally *sum)
{
    cost_tally tally = {times, times};
    for (int32_t d = 0; d < t->rank; d++) {
        const int32_t end = r->begin[d] + r->n[d];
        const int64_t *cuts = t->to.rows[d].start;
        const int64_t *start = t->from.rows[d].start + mine[d];
        tally.messages *=
            most(0, least(end, t->given[d].last[mine[d]]) -
                        most(r->begin[d], t->given[d].first[mine[d]]));
        tally.elements *= most(0, least(cuts[end], start[1]) -
                                      most(cuts[r->begin[d]], start[0]));
    }
    sum->messages += tally.messages;
    sum->elements += tally.elements;
}

/* Of takers before a position. */
static cost_tally given_before(const tallying *t, const int32_t *mine,
                               int32_t position)
{
    const side *to = &t->to;
    cost_tally sum = {0, 0};
    runs r = {{0}, {0}};
    int32_t at[IR_MAX_MESH];
    for (int32_t d = 0; d < t->rank; d++)
        r.n[d] = to->rows[d].n;
    if (position == ir_mesh_size(to->mesh)) {
        add_runs(t, mine, &r, to->mesh->n ? to->copies[0] : 1, &sum);
        return sum;
    }
    ir_mesh_coords(to->mesh, position, at);
    for (int32_t a = 0; a < to->mesh->n; a++) {
        const int64_t behind = a + 1 < to->mesh->n ? to->copies[a + 1] : 1;
        const int32_t d = to->sbp->at[a].axis;
        if (to->sbp->at[a].kind != IR_S) {
            add_runs(t, mine, &r, at[a] * behind, &sum);
            continue;
        }
        r.n[d] = at[a] * to->stride[a];
        add_runs(t, mine, &r, behind, &sum);
        r.begin[d] += r.n[d];
        r.n[d] = to->stride[a];
    }
    return sum;
}

/* The next position that holds the same, forth or back; -1: there is none. */
static int32_t next_copy(const side *s, const int32_t *at, int32_t step)
{
    int32_t other[IR_MAX_MESH] = {0};
    for (int32_t a = 0; a < s->mesh->n; a++)
        other[a] = at[a];
    for (int32_t a = s->mesh->n - 1; a >= 0; a--) {
        if (s->sbp->at[a].kind != IR_B)
            continue;
        other[a] += step;
        if (other[a] >= 0 && other[a] < s->mesh->dim[a])
            return ir_mesh_rank(s->mesh, other);
        other[a] = step > 0 ? 0 : s->mesh->dim[a] - 1;
    }
    return -1;
}

/* Takers nearer to the first of two givers, or as near, come before: positions
 * in proportion to their meshes. */
static int32_t border(const tallying *t, int64_t one, int64_t other)
{
    const int64_t takers = ir_mesh_size(t->to.mesh);
    return (int32_t)((one + other) * takers /
                     (2 * (int64_t)ir_mesh_size(t->from.mesh))) +
           1;
}

/* Of takers before a border, of the last copy of a piece that was looked at:
 * where its takers end those of the next begin. */
typedef struct last_border {
    int32_t end; /* 0: none was */
    cost_tally before;
} last_border;

static last_border *border_of(const tallying *t, const int32_t *piece)
{
    int32_t at = 0;
    for (int32_t d = 0; d < t->rank; d++)
        at = at * t->from.rows[d].n + piece[d];
    return &t->last[at];
}

static cost_tally given_at(const tallying *t, int32_t me, const int32_t *at)
{
    int32_t piece[IR_MAX_RANK] = {0};
    const int32_t before = next_copy(&t->from, at, -1),
                  behind = next_copy(&t->from, at, 1),
                  all = ir_mesh_size(t->to.mesh);
    find_pieces(&t->from, at, piece);
    last_border *last = border_of(t, piece);
    const int32_t begin =
        before < 0 ? 0 : (int32_t)least(border(t, before, me), all);
    const int32_t end =
        behind < 0 ? all : (int32_t)least(border(t, me, behind), all);
    cost_tally tally = given_before(t, piece, end), other = {0, 0};
    if (before >= 0)
        other =
            last->end == begin ? last->before : given_before(t, piece, begin);
    *last = (last_border){end, tally};
    tally.messages -= other.messages;
    tally.elements -= other.elements;
    return tally;
}

/* Do all pieces of a side meet as many of the other, and are as large? */
static bool are_alike(const side *s, const meeting *met, int32_t rank)
{
    for (int32_t d = 0; d < rank; d++) {
        const int64_t *start = s->rows[d].start;
        const int32_t *first = met[d].first, *last = met[d].last;
        for (int32_t k = 1; k < s->rows[d].n; k++)
            if (start[k + 1] - start[k] != start[1] ||
                last[k] - first[k] != last[0] - first[0])
                return false;
    }
    return true;
}

static bool is_even(const row *r)
{
    for (int32_t k = 1; k < r->n; k++)
        if (r->start[k + 1] - r->start[k] != r->start[1])
            return false;
    return true;
}

/* Givers one step apart along the first axis have takers that are one step
 * apart. Do they give the same? Then what the first ones give is given by all:
 * of copies those that lie between others. Returns how many steps tell. */
static int32_t steps_to_tell(const tallying *t)
{
    const ir_mesh *mesh = t->from.mesh, *other = t->to.mesh;
    const int32_t n = mesh->n ? mesh->dim[0] : 1;
    if (mesh->n == 0 || other->n == 0 || other->dim[0] != n)
        return n;
    const ir_sbp from = t->from.sbp->at[0], to = t->to.sbp->at[0];
    const int32_t d = to.axis;
    if (to.kind == IR_S && !is_even(&t->to.rows[d]))
        return n;
    if (from.kind == IR_B && (to.kind == IR_B || t->from.rows[d].n == 1))
        return 2;
    if (ir_sbp_same_cut(from, to) && is_even(&t->from.rows[d]))
        return 1;
    return n;
}

static bool holds_copies(const side *s)
{
    for (int32_t a = 0; a < s->mesh->n; a++)
        if (s->sbp->at[a].kind == IR_B)
            return true;
    return false;
}

static cost_tallies told_of(const ir_mesh *mesh, int32_t told, int32_t period,
                            int32_t ends, fs_arena *arena)
{
    return (cost_tallies){ir_mesh_size(mesh), told, period, ends,
                          fs_new(arena, cost_tally, told + ends)};
}

static cost_tallies tally_givers(const tallying *t, fs_arena *arena)
{
    const side *from = &t->from;
    const int32_t size = ir_mesh_size(from->mesh);
    const int32_t stride = from->mesh->n ? size / from->mesh->dim[0] : 1;
    const int32_t steps = steps_to_tell(t);
    const bool alike =
        !holds_copies(from) && are_alike(from, t->given, t->rank);
    const bool ends = steps == 2 && size > 2 * stride;
    cost_tallies out =
        alike ? told_of(from->mesh, 1, 1, 0, arena)
              : told_of(from->mesh, (int32_t)least(steps * stride, size),
                        stride, ends ? stride : 0, arena);
    for (int32_t k = 0; k < out.told + out.ends; k++) {
        const int32_t i = k < out.told ? k : k - out.told + size - out.ends;
        int32_t at[IR_MAX_MESH];
        ir_mesh_coords(from->mesh, i, at);
        out.at[k] = given_at(t, i, at);
    }
    return out;
}

static cost_tallies tally_takers(const tallying *t, fs_arena *arena)
{
    const ir_mesh *mesh = t->to.mesh;
    const bool alike = are_alike(&t->to, t->taken, t->rank);
    cost_tallies in =
        told_of(mesh, alike ? 1 : ir_mesh_size(mesh), 1, 0, arena);
    for (int32_t i = 0; i < in.told; i++) {
        int32_t at[IR_MAX_MESH];
        ir_mesh_coords(mesh, i, at);
        in.at[i] = taken_at(t, at);
    }
    return in;
}

int32_t cost_tally_place(const cost_tallies *all, int32_t position)
{
    const int32_t last = all->positions - all->ends;
    if (position < all->told)
        return position;
    if (position >= last)
        return all->told + position - last;
    return all->told - all->period + (position - all->told) % all->period;
}

cost_tallied cost_tally_move(const plan_exchange *x, fs_arena *arena)
{
    fs_arena *scratch = fs_arena_create();
    tallying t = {.rank = x->shape.rank,
                  .from = cut_side(&x->shape, &x->from_mesh, &x->from, scratch),
                  .to = cut_side(&x->shape, &x->to_mesh, &x->to, scratch)};
    int32_t pieces = 1;
    for (int32_t d = 0; d < t.rank; d++) {
        t.given[d] = meet(&t.from.rows[d], &t.to.rows[d], scratch);
        t.taken[d] = meet(&t.to.rows[d], &t.from.rows[d], scratch);
        pieces *= t.from.rows[d].n;
    }
    t.last = fs_new(scratch, last_border, pieces);
    const cost_tallied out = {tally_givers(&t, arena), tally_takers(&t, arena)};
    fs_arena_destroy(scratch);
    return out;
}
