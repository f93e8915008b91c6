/* Every pair of SBPs on a mesh: a path of boxing steps leads from one to the
 * other, each step leaves the value that was there, and the bytes that its
 * messages carry are those of the closed form. Ranks are threads; rank 0 says
 * what is done next. Prints the table of pairs: path, steps, bytes. */
#include "config.h"

#include "exec/transfer.h"
#include "plan/boxing.h"

#include "tests/exec_ranks.h"

#include <math.h>
#include <stdatomic.h>

enum { RANKS = 8, ELEMENTS = 1 << 10, WORD = 8, SMALL_BYTES = 64 };

/* What rank 0 asks of all. */
static struct {
    bool stop;
    plan_exchange x;
    double in[RANKS][ELEMENTS], out[RANKS][ELEMENTS];
} desk;

/* ---- messages, counted ---- */

static exec_link counting;
static atomic_llong sent_bytes;

static void count_send(exec_world *world, const void *base,
                       const exec_layout *layout, int32_t peer, int tag,
                       exec_request *request)
{
    atomic_fetch_add(&sent_bytes, exec_part_bytes(&layout->part));
    exec_link_local.send(world, base, layout, peer, tag, request);
}

/* ---- what a value looks like under an SBP ---- */

static double logical_value(int64_t e)
{
    return (double)(fs_mix((uint64_t)e) % 1000);
}

/* The part of `value` that coordinate k of n holds so that the parts reduce to
 * it. Whole numbers: sums are exact. */
static double part_of(double value, ir_sbp_kind kind, int32_t k, int32_t n,
                      uint64_t key)
{
    if (kind != IR_PSUM) {
        const double off = 1 + (double)(fs_mix(key ^ (uint64_t)k) % 5);
        const bool holds = (int32_t)(key % (uint64_t)n) == k;
        return holds ? value : kind == IR_PMAX ? value - off : value + off;
    }
    if (k < n - 1)
        return (double)(fs_mix(key ^ (uint64_t)k) % 100);
    for (int32_t i = 0; i < n - 1; i++)
        value -= (double)(fs_mix(key ^ (uint64_t)i) % 100);
    return value;
}

static double held_value(const ir_nd_sbp *sbp, const ir_mesh *mesh,
                         const int32_t *at, int64_t e)
{
    double value = logical_value(e);
    uint64_t key = fs_mix((uint64_t)e + 77);
    for (int32_t a = 0; a < mesh->n; a++)
        if (ir_sbp_is_partial(sbp->at[a])) {
            value = part_of(value, (ir_sbp_kind)sbp->at[a].kind, at[a],
                            mesh->dim[a], key);
            key = fs_mix(key + (uint64_t)at[a] + 1);
        }
    return value;
}

/* Number of element i of a piece in the whole tensor. */
static int64_t whole_index(const ir_shape *shape, const ir_piece *piece,
                           int64_t i)
{
    int64_t index[IR_MAX_RANK], e = 0;
    for (int32_t d = shape->rank - 1; d >= 0; d--) {
        index[d] = piece->offset[d] + i % piece->shape.dim[d];
        i /= piece->shape.dim[d];
    }
    for (int32_t d = 0; d < shape->rank; d++)
        e = e * shape->dim[d] + index[d];
    return e;
}

static void fill(const plan_exchange *x, int32_t me, double *out)
{
    int32_t at[IR_MAX_MESH];
    ir_mesh_coords(&x->from_mesh, me, at);
    const ir_piece piece = ir_piece_of(&x->shape, &x->from, &x->from_mesh, at);
    const int64_t n = ir_shape_count(&piece.shape);
    for (int64_t i = 0; i < n; i++)
        out[i] = held_value(&x->from, &x->from_mesh, at,
                            whole_index(&x->shape, &piece, i));
}

/* Element i of the pieces that differ from `at` in partial axes from `axis` on
 * only, put together: inner axes first. */
static double folded(const plan_exchange *x, int32_t *at, int32_t axis,
                     int64_t i)
{
    while (axis < x->to_mesh.n && !ir_sbp_is_partial(x->to.at[axis]))
        axis++;
    if (axis == x->to_mesh.n)
        return desk.out[ir_mesh_rank(&x->to_mesh, at)][i];
    const ir_sbp_kind kind = (ir_sbp_kind)x->to.at[axis].kind;
    double value = 0;
    for (at[axis] = 0; at[axis] < x->to_mesh.dim[axis]; at[axis]++) {
        const int32_t here = at[axis];
        const double one = folded(x, at, axis + 1, i);
        value = here == 0         ? one
                : kind == IR_PSUM ? value + one
                : kind == IR_PMAX ? fmax(value, one)
                                  : fmin(value, one);
        at[axis] = here;
    }
    at[axis] = 0;
    return value;
}

/* Elements that the pieces of all takers have wrong. */
static int64_t count_wrong(const plan_exchange *x)
{
    int64_t wrong = 0;
    for (int32_t p = 0; p < ir_mesh_size(&x->to_mesh); p++) {
        int32_t at[IR_MAX_MESH];
        bool first = true;
        ir_mesh_coords(&x->to_mesh, p, at);
        for (int32_t a = 0; a < x->to_mesh.n; a++)
            first &= !ir_sbp_is_partial(x->to.at[a]) || at[a] == 0;
        const ir_piece piece = ir_piece_of(&x->shape, &x->to, &x->to_mesh, at);
        const int64_t n = first ? ir_shape_count(&piece.shape) : 0;
        for (int64_t i = 0; i < n; i++)
            wrong += folded(x, at, 0, i) !=
                     logical_value(whole_index(&x->shape, &piece, i));
    }
    return wrong;
}

/* ---- one step on all ranks ---- */

static void take_part(exec_world *world)
{
    static const int64_t room = ELEMENTS * WORD * RANKS;
    fs_arena *arena = fs_arena_create();
    const exec_transfer_spec spec = {.exchange = &desk.x,
                                     .dtype = IR_F64,
                                     .gives_at = world->rank,
                                     .takes_at = world->rank,
                                     .tag = 3};
    exec_transfer *transfer = NULL;
    fs_err err = {0};
    exec_idle idle = {0};
    bool moved = false;
    FS_ASSERT(exec_transfer_make(world, &spec, arena, &err, &transfer) ==
              FS_OK);
    fill(&desk.x, world->rank, desk.in[world->rank]);
    exec_transfer_start(transfer, desk.in[world->rank], desk.out[world->rank],
                        fs_new(arena, char, room), room);
    while (!exec_transfer_poll(transfer, &moved)) {
        if (!moved)
            exec_idle_wait(world, &idle);
        moved = false;
    }
    exec_transfer_release(transfer);
    fs_arena_destroy(arena);
}

static int64_t run_step(exec_world *world, const ir_tensor *t,
                        const ir_mesh *mesh, const plan_box_step *s,
                        int64_t *bytes)
{
    desk.x = plan_box_exchange(t, mesh, &s->from, &s->to);
    memset(desk.out, 0xa5, sizeof desk.out);
    atomic_store(&sent_bytes, 0);
    exec_world_barrier(world);
    take_part(world);
    exec_world_barrier(world);
    *bytes = atomic_load(&sent_bytes);
    return count_wrong(&desk.x);
}

static void follow(exec_world *world)
{
    for (;;) {
        exec_world_barrier(world);
        if (desk.stop)
            return;
        take_part(world);
        exec_world_barrier(world);
    }
}

/* ---- closed forms ---- */

/* Elements that receivers want and do not hold themselves. */
static int64_t lacking(const ir_tensor *t, const ir_mesh *mesh,
                       const plan_box_step *s)
{
    int64_t sum = 0;
    for (int32_t p = 0; p < ir_mesh_size(mesh); p++) {
        int32_t at[IR_MAX_MESH];
        ir_piece both;
        ir_mesh_coords(mesh, p, at);
        const ir_piece has = ir_piece_of(&t->shape, &s->from, mesh, at);
        const ir_piece wants = ir_piece_of(&t->shape, &s->to, mesh, at);
        sum += ir_shape_count(&wants.shape);
        if (ir_piece_common(&has, &wants, &both))
            sum -= ir_shape_count(&both.shape);
    }
    return sum;
}

/* Bytes of all messages of a step: of a group of n ranks that share |T| bytes,
 * (n-1) |T| gathered or reduced and scattered, twice that all-reduced, (n-1)/n
 * |T| exchanged between two cuts. Groups that replicate each other (B) or add
 * to each other (P) do it side by side. What is no longer than a cache line is
 * not cut to be all-reduced: every rank sends it to every other. */
static int64_t closed_form(const ir_tensor *t, const ir_mesh *mesh,
                           const plan_box_step *s)
{
    int64_t n = 1, total = ir_shape_count(&t->shape) * WORD;
    for (int32_t a = 0; a < mesh->n; a++) {
        const bool changes = !ir_sbp_equal(s->from.at[a], s->to.at[a]);
        n *= changes ? mesh->dim[a] : 1;
        total *= !changes && s->from.at[a].kind != IR_S ? mesh->dim[a] : 1;
    }
    switch (s->kind) {
    case PLAN_ALL_REDUCE:
        return (s->bytes_in > SMALL_BYTES ? 2 : n) * (n - 1) * total;
    case PLAN_REDUCE_SCATTER:
    case PLAN_ALL_GATHER:
        return (n - 1) * total;
    case PLAN_ALL_TO_ALL:
    case PLAN_RESLICE:
        return WORD * lacking(t, mesh, s);
    default:
        return 0;
    }
}

/* The paper's (p-1)/p |T|, where it divides. */
static bool exchanges_as_published(const ir_tensor *t, const ir_mesh *mesh,
                                   const plan_box_step *s)
{
    const int32_t p = mesh->dim[0];
    if (s->kind != PLAN_ALL_TO_ALL || mesh->n > 1)
        return true;
    for (int32_t d = 0; d < t->shape.rank; d++)
        if (t->shape.dim[d] % p)
            return true;
    return closed_form(t, mesh, s) * p ==
           (p - 1) * ir_shape_count(&t->shape) * WORD;
}

/* ---- all pairs ---- */

/* The cheapest path is that of fewest bytes; a step counts as one byte, a local
 * one as a little. */
static double bytes_as_seconds(void *ctx, const plan_stage *stage,
                               const plan_box_step *step)
{
    const int64_t bytes = closed_form(ctx, &stage->mesh, step);
    return plan_box_is_collective(step->kind) ? 1 + (double)bytes : 0.01;
}

typedef struct survey {
    exec_world *world;
    ir_tensor tensor;
    plan_stage stage;
    plan_boxer *boxer;
    int32_t n, base; /* states */
    bool *done;      /* [n * n] steps that were run */
    int64_t pairs, lost, steps, wrong, other_bytes, worse, unlike_paper;
    int64_t by_length[PLAN_MAX_BOXING + 1];
    bool table;
} survey;

static ir_nd_sbp state_of(const survey *v, int32_t state)
{
    ir_nd_sbp sbp = {0};
    for (int32_t a = v->stage.mesh.n - 1; a >= 0; a--) {
        const int32_t digit = state % v->base;
        sbp.at[a] = digit <= IR_PMIN - IR_PSUM + 1
                        ? (ir_sbp){.kind = (uint8_t)(digit ? IR_PSUM + digit - 1
                                                           : IR_B)}
                        : IR_SBP_S(digit - 4);
        state /= v->base;
    }
    return sbp;
}

static int32_t number_of(const survey *v, const ir_nd_sbp *sbp)
{
    int32_t state = 0;
    for (int32_t a = 0; a < v->stage.mesh.n; a++) {
        const ir_sbp s = sbp->at[a];
        const int32_t digit = s.kind == IR_B   ? 0
                              : s.kind == IR_S ? 4 + s.axis
                                               : s.kind - IR_PSUM + 1;
        state = state * v->base + digit;
    }
    return state;
}

static bool is_extreme(ir_sbp sbp)
{
    return sbp.kind == IR_PMAX || sbp.kind == IR_PMIN;
}

/* Nothing becomes partial but as a sum. Other reductions differ from it in how
 * they fold, which two axes show. */
static bool is_asked(const survey *v, const ir_nd_sbp *from,
                     const ir_nd_sbp *to)
{
    const ir_mesh *mesh = &v->stage.mesh;
    for (int32_t a = 0; a < mesh->n; a++)
        if (is_extreme(to->at[a]) || (mesh->n > 2 && is_extreme(from->at[a])))
            return false;
    return ir_nd_sbp_fits(from, &v->tensor.shape, mesh) &&
           ir_nd_sbp_fits(to, &v->tensor.shape, mesh);
}

/* Runs a step that was not run yet; returns its bytes. */
static int64_t survey_step(survey *v, const ir_nd_sbp *from,
                           const ir_nd_sbp *to)
{
    const ir_mesh *mesh = &v->stage.mesh;
    bool *done = &v->done[number_of(v, from) * v->n + number_of(v, to)];
    plan_box_step s;
    int64_t measured;
    if (!plan_box_step_make(&v->tensor, mesh, from, to, &s)) {
        v->lost++;
        return 0;
    }
    const int64_t bytes = closed_form(&v->tensor, mesh, &s);
    if (*done)
        return bytes;
    *done = true;
    v->steps++;
    const int64_t wrong = run_step(v->world, &v->tensor, mesh, &s, &measured);
    if (wrong || measured != bytes) {
        char a[64], b[64], shape[160];
        printf("# %s %s -> %s, %s: %lld wrong, %lld bytes for %lld\n",
               ir_shape_text(shape, &v->tensor.shape),
               ir_nd_sbp_text(a, from, mesh->n), ir_nd_sbp_text(b, to, mesh->n),
               plan_box_name(s.kind), (long long)wrong, (long long)measured,
               (long long)bytes);
    }
    v->wrong += wrong;
    v->other_bytes += measured != bytes;
    v->unlike_paper += !exchanges_as_published(&v->tensor, mesh, &s);
    return bytes;
}

static void print_row(const survey *v, const plan_boxing *path, int64_t bytes)
{
    const int32_t n = v->stage.mesh.n;
    char text[64];
    printf("# %-14s", ir_nd_sbp_text(text, &path->at[0], n));
    printf(" %-12s", ir_nd_sbp_text(text, &path->at[path->n], n));
    printf(" %d %7.3f |T| ", path->n,
           (double)bytes / WORD / (double)ir_shape_count(&v->tensor.shape));
    for (int32_t k = 1; k < path->n; k++)
        printf(" %s", ir_nd_sbp_text(text, &path->at[k], n));
    printf("\n");
}

static void survey_pair(survey *v, const ir_nd_sbp *from, const ir_nd_sbp *to)
{
    const ir_nd_sbp whole = {0};
    const ir_tensor *t = &v->tensor;
    plan_boxing path;
    int64_t bytes = 0;
    v->pairs++;
    const double seconds =
        plan_boxer_find(v->boxer, t, &v->stage, from, to, &path);
    if (isinf(seconds)) {
        v->lost++;
        return;
    }
    for (int32_t k = 0; k < path.n; k++)
        bytes += survey_step(v, &path.at[k], &path.at[k + 1]);
    v->by_length[path.n]++;
    v->worse += seconds >
                plan_boxer_find(v->boxer, t, &v->stage, from, &whole, NULL) +
                    plan_boxer_find(v->boxer, t, &v->stage, &whole, to, NULL) +
                    1e-6;
    if (v->table)
        print_row(v, &path, bytes);
}

static void survey_pairs(survey *v)
{
    for (int32_t i = 0; i < v->n; i++)
        for (int32_t k = 0; k < v->n; k++) {
            const ir_nd_sbp from = state_of(v, i), to = state_of(v, k);
            if (is_asked(v, &from, &to))
                survey_pair(v, &from, &to);
        }
}

static void say_lengths(const survey *v)
{
    printf("# steps of a path:");
    for (int32_t k = 0; k <= PLAN_MAX_BOXING; k++)
        if (v->by_length[k])
            printf(" %d: %lld", k, (long long)v->by_length[k]);
    printf("\n");
}

static void survey_mesh(exec_world *world, ir_mesh mesh, ir_shape shape,
                        bool table)
{
    fs_arena *arena = fs_arena_create();
    char text[160], grid[64] = "";
    survey v = {.world = world,
                .tensor = {.name = "x", .dtype = IR_F64, .shape = shape},
                .stage = {.mesh = mesh},
                .base = 4 + shape.rank,
                .n = 1,
                .table = table};
    for (int32_t a = 0; a < mesh.n; a++) {
        v.n *= v.base;
        snprintf(grid + strlen(grid), sizeof grid - strlen(grid), "%s%d",
                 a ? "x" : "", mesh.dim[a]);
    }
    v.done = fs_new(arena, bool, v.n *v.n);
    v.boxer = plan_boxer_create(
        (plan_boxing_cost){.seconds = bytes_as_seconds, .ctx = &v.tensor},
        arena);
    survey_pairs(&v);
    ir_shape_text(text, &shape);
    tap_ok(v.lost == 0, "mesh %s, %s: each of %lld pairs has a path", grid,
           text, (long long)v.pairs);
    say_lengths(&v);
    tap_ok(v.wrong == 0, "mesh %s, %s: %lld different steps keep the value",
           grid, text, (long long)v.steps);
    tap_ok(v.other_bytes == 0 && v.unlike_paper == 0,
           "mesh %s, %s: their messages carry the closed form's bytes", grid,
           text);
    tap_ok(v.worse == 0, "mesh %s, %s: no way through B is cheaper", grid,
           text);
    fs_arena_destroy(arena);
}

static void lead(exec_world *world)
{
    static const ir_mesh four[] = {{1, {4}}, {2, {2, 2}}};
    static const ir_mesh eight[] = {{3, {2, 2, 2}}};
    static const ir_shape shapes[] = {{1, {8}},       {1, {11}},
                                      {2, {8, 8}},    {2, {9, 11}},
                                      {3, {8, 8, 8}}, {3, {8, 9, 11}}};
    const ir_mesh *meshes = world->size == 4 ? four : eight;
    for (int32_t m = 0; m < (world->size == 4 ? 2 : 1); m++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            survey_mesh(world, meshes[m], shapes[s],
                        world->size == 4 && s == 2);
}

static void run_rank(exec_world *world, void *ctx)
{
    (void)ctx;
    world->link = &counting;
    if (world->rank > 0) {
        follow(world);
        return;
    }
    lead(world);
    desk.stop = true;
    exec_world_barrier(world);
}

int main(void)
{
    fs_err err = {0};
    counting = exec_link_local;
    counting.send = count_send;
    for (int32_t n = 4; n <= 8; n += 4) {
        desk.stop = false;
        tap_ok(exec_world_threads(n, run_rank, NULL, &err) == FS_OK,
               "%d threads are ranks", n);
    }
    return tap_done();
}
