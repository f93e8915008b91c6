/* Every pair of SBPs on a mesh, or on two of different ranks: a path of boxing
 * steps leads from one to the other, each step leaves the value that was there,
 * and the bytes that its messages carry are those of the closed form. Ranks are
 * threads; rank 0 says what is done next. Prints the table of pairs: path,
 * steps, bytes. */
#include "config.h"

#include "exec/transfer.h"
#include "plan/boxer.h"

#include "tests/exec_ranks.h"

#include <math.h>
#include <stdatomic.h>

enum { RANKS = 8, ELEMENTS = 1 << 10, WORD = 8, SMALL_BYTES = 64 };

/* What rank 0 asks of all. */
static struct {
    bool stop;
    plan_exchange x;
    int32_t first_giver, first_taker;
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
        return desk.out[desk.first_taker + ir_mesh_rank(&x->to_mesh, at)][i];
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

/* The rank's position on a mesh whose first rank is `first`, or -1. */
static int32_t position_of(const exec_world *world, const ir_mesh *mesh,
                           int32_t first)
{
    const int32_t at = world->rank - first;
    return at >= 0 && at < ir_mesh_size(mesh) ? at : -1;
}

static void take_part(exec_world *world)
{
    static const int64_t room = ELEMENTS * WORD * RANKS;
    const exec_transfer_spec spec = {
        .exchange = &desk.x,
        .dtype = IR_F64,
        .gives_at = position_of(world, &desk.x.from_mesh, desk.first_giver),
        .takes_at = position_of(world, &desk.x.to_mesh, desk.first_taker),
        .first_giver = desk.first_giver,
        .first_taker = desk.first_taker,
        .tag = 3};
    exec_transfer *transfer = NULL;
    fs_err err = {0};
    exec_idle idle = {0};
    bool moved = false;
    if (spec.gives_at < 0 && spec.takes_at < 0)
        return;
    fs_arena *arena = fs_arena_create();
    FS_ASSERT(exec_transfer_make(world, &spec, arena, &err, &transfer) ==
              FS_OK);
    if (spec.gives_at >= 0)
        fill(&desk.x, spec.gives_at, desk.in[world->rank]);
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

/* Elements that are wrong then; `bytes` that its messages carried. */
static int64_t run_step(exec_world *world, const ir_tensor *t,
                        const plan_path_step *s, int64_t *bytes)
{
    desk.x = s->crosses ? plan_cross_exchange(&s->cross)
                        : plan_box_exchange(t, &s->stage->mesh, &s->box.from,
                                            &s->box.to);
    desk.first_giver = s->stage->first_device;
    desk.first_taker =
        s->crosses ? s->cross.to_stage->first_device : desk.first_giver;
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

/* Who receives takes its piece, once or from each who holds a part of it. */
static int64_t closed_form_across(const plan_cross *cross)
{
    const ir_mesh *from = &cross->from_stage->mesh,
                  *to = &cross->to_stage->mesh;
    int64_t total = ir_shape_count(&cross->tensor->shape) * WORD;
    for (int32_t a = 0; a < to->n; a++)
        total *= cross->to.at[a].kind == IR_S ? 1 : to->dim[a];
    for (int32_t a = 0; a < from->n; a++)
        if (ir_sbp_is_partial(cross->from.at[a]) &&
            !plan_cross_is_straight(cross))
            total *= from->dim[a];
    return total;
}

static int64_t closed_form_of(const ir_tensor *t, const plan_path_step *s)
{
    return s->crosses ? closed_form_across(&s->cross)
                      : closed_form(t, &s->stage->mesh, &s->box);
}

/* ---- the paper's table ---- */

/* The same on all axes of the mesh. */
static bool is_uniform(const ir_nd_sbp *sbp, const ir_mesh *mesh)
{
    for (int32_t a = 1; a < mesh->n; a++)
        if (!ir_sbp_equal(sbp->at[a], sbp->at[0]))
            return false;
    return true;
}

typedef enum letter { S, B, P } letter;

static letter letter_of(ir_sbp sbp)
{
    return sbp.kind == IR_S ? S : sbp.kind == IR_B ? B : P;
}

/* |T|s that a conversion moves (arXiv 2110.15032, table 2): p devices of one
 * set, or p of one set to q of another. From one reduction to another, which
 * the table lacks: that of P -> S. */
static double published(ir_sbp from, ir_sbp to, int32_t p, int32_t q)
{
    const double same[3][3] = {
        {(p - 1.0) / p, p - 1, 0}, {0, 0, 0}, {p - 1, 2 * (p - 1), p - 1}};
    const double other[3][3] = {{1, q, 1}, {1, q, 1}, {p, p + q - 1, p}};
    if (q > 0)
        return other[letter_of(from)][letter_of(to)];
    return ir_sbp_equal(from, to) ? 0 : same[letter_of(from)][letter_of(to)];
}

static bool divides(const ir_tensor *t, int32_t p)
{
    for (int32_t d = 0; d < t->shape.rank; d++)
        if (t->shape.dim[d] % p)
            return false;
    return true;
}

/* Does a path between these ends move what was published, where that says how
 * much? Pieces are exchanged unevenly where cuts do not divide. */
static bool is_as_published(const plan_ends *ends, int64_t bytes)
{
    const ir_mesh *from = &ends->from_stage->mesh, *to = &ends->to_stage->mesh;
    const ir_sbp f = ends->from->at[0], g = ends->to->at[0];
    const bool crosses = plan_ends_cross(ends);
    const int32_t p = ir_mesh_size(from);
    if (!is_uniform(ends->from, from) || !is_uniform(ends->to, to) ||
        (!crosses && f.kind == IR_S && g.kind == IR_S &&
         !divides(ends->tensor, p)))
        return true;
    const double size = (double)(ir_shape_count(&ends->tensor->shape) * WORD);
    return fabs((double)bytes -
                size * published(f, g, p, crosses ? ir_mesh_size(to) : 0)) <
           1e-6;
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

static double crossing_bytes_as_seconds(void *ctx, const plan_cross *cross)
{
    (void)ctx;
    return 1 + (double)closed_form_across(cross);
}

typedef struct survey {
    exec_world *world;
    ir_tensor tensor;
    plan_stage from, to; /* the same on one mesh */
    plan_boxer *boxer;
    int32_t n, m, base; /* states on either, digits */
    bool *here, *over,
        *there; /* steps that were run: [n * n] [n * m] [m * m] */
    int64_t pairs, lost, steps, wrong, other_bytes, worse, unlike_paper;
    int64_t by_length[PLAN_MAX_BOXING + 1];
    bool table;
} survey;

static ir_nd_sbp state_of(const survey *v, const ir_mesh *mesh, int32_t state)
{
    ir_nd_sbp sbp = {0};
    for (int32_t a = mesh->n - 1; a >= 0; a--) {
        const int32_t digit = state % v->base;
        sbp.at[a] = digit <= IR_PMIN - IR_PSUM + 1
                        ? (ir_sbp){.kind = (uint8_t)(digit ? IR_PSUM + digit - 1
                                                           : IR_B)}
                        : IR_SBP_S(digit - 4);
        state /= v->base;
    }
    return sbp;
}

static int32_t number_of(const survey *v, const ir_mesh *mesh,
                         const ir_nd_sbp *sbp)
{
    int32_t state = 0;
    for (int32_t a = 0; a < mesh->n; a++) {
        const ir_sbp s = sbp->at[a];
        const int32_t digit = s.kind == IR_B   ? 0
                              : s.kind == IR_S ? 4 + s.axis
                                               : s.kind - IR_PSUM + 1;
        state = state * v->base + digit;
    }
    return state;
}

/* Whether a step was run. */
static bool *done_at(const survey *v, const plan_path_step *s)
{
    const ir_mesh *from = &v->from.mesh, *to = &v->to.mesh;
    if (s->crosses)
        return &v->over[number_of(v, from, &s->cross.from) * v->m +
                        number_of(v, to, &s->cross.to)];
    const bool left = s->stage->first_device != v->from.first_device;
    return left ? &v->there[number_of(v, to, &s->box.from) * v->m +
                            number_of(v, to, &s->box.to)]
                : &v->here[number_of(v, from, &s->box.from) * v->n +
                           number_of(v, from, &s->box.to)];
}

static void tell_wrong(const survey *v, const plan_path_step *s, int64_t wrong,
                       int64_t measured, int64_t bytes)
{
    char a[64], b[64], shape[160];
    const ir_nd_sbp *from = s->crosses ? &s->cross.from : &s->box.from;
    const ir_nd_sbp *to = s->crosses ? &s->cross.to : &s->box.to;
    printf("# %s %s -> %s, %s: %lld wrong, %lld bytes for %lld\n",
           ir_shape_text(shape, &v->tensor.shape),
           ir_nd_sbp_text(a, from, s->stage->mesh.n),
           ir_nd_sbp_text(b, to, v->to.mesh.n),
           s->crosses ? "crossing" : plan_box_name(s->box.kind),
           (long long)wrong, (long long)measured, (long long)bytes);
}

/* Runs a step that was not run yet; returns its bytes. */
static int64_t survey_step(survey *v, const plan_path_step *s)
{
    bool *done = done_at(v, s);
    const int64_t bytes = closed_form_of(&v->tensor, s);
    int64_t measured;
    if (*done)
        return bytes;
    *done = true;
    v->steps++;
    const int64_t wrong = run_step(v->world, &v->tensor, s, &measured);
    if (wrong || measured != bytes)
        tell_wrong(v, s, wrong, measured, bytes);
    v->wrong += wrong;
    v->other_bytes += measured != bytes;
    return bytes;
}

static void print_row(const survey *v, const plan_boxing *path, int64_t bytes)
{
    const int32_t n = v->from.mesh.n, m = v->to.mesh.n;
    const bool crosses = v->from.first_device != v->to.first_device;
    char text[64];
    printf("# %-17s", ir_nd_sbp_text(text, &path->at[0], n));
    printf(" %-17s", ir_nd_sbp_text(text, &path->at[path->n], m));
    printf(" %d %7.3f |T| ", path->n,
           (double)bytes / WORD / (double)ir_shape_count(&v->tensor.shape));
    for (int32_t k = 1; k <= path->n; k++) {
        const bool left = crosses && k > path->cross;
        if (crosses && k == path->cross + 1)
            printf(" over");
        if (k < path->n)
            printf(" %s", ir_nd_sbp_text(text, &path->at[k], left ? m : n));
    }
    printf("\n");
}

static double seconds_of(survey *v, const plan_ends *ends)
{
    return plan_boxer_join(v->boxer, ends, NULL);
}

/* By way of the whole tensor everywhere. */
static double seconds_through_whole(survey *v, const plan_ends *ends)
{
    const ir_nd_sbp whole = {0};
    plan_ends there = *ends, on = *ends;
    there.to = on.from = &whole;
    on.from_stage = on.to_stage;
    return seconds_of(v, &there) + seconds_of(v, &on);
}

static void survey_pair(survey *v, const plan_ends *ends)
{
    plan_boxing path;
    int64_t bytes = 0;
    v->pairs++;
    const double seconds = plan_boxer_join(v->boxer, ends, &path);
    if (isinf(seconds) || plan_path_wrong(ends, &path) != NULL) {
        v->lost++;
        return;
    }
    for (int32_t k = 0; k < path.n; k++) {
        plan_path_step s;
        plan_path_step_make(ends, &path, k, &s);
        bytes += survey_step(v, &s);
    }
    v->by_length[path.n]++;
    v->worse += seconds > seconds_through_whole(v, ends) + 1e-6;
    v->unlike_paper += !is_as_published(ends, bytes);
    if (v->table)
        print_row(v, &path, bytes);
}

static void survey_pairs(survey *v)
{
    for (int32_t i = 0; i < v->n; i++)
        for (int32_t k = 0; k < v->m; k++) {
            const ir_nd_sbp from = state_of(v, &v->from.mesh, i);
            const ir_nd_sbp to = state_of(v, &v->to.mesh, k);
            const plan_ends ends = {&v->tensor, &v->from, &v->to,
                                    &from,      &to,      false};
            if (ir_nd_sbp_fits(&from, &v->tensor.shape, &v->from.mesh) &&
                ir_nd_sbp_fits(&to, &v->tensor.shape, &v->to.mesh))
                survey_pair(v, &ends);
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

static int32_t count_states(const survey *v, const ir_mesh *mesh)
{
    int32_t n = 1;
    for (int32_t a = 0; a < mesh->n; a++)
        n *= v->base;
    return n;
}

static void print_mesh(const ir_mesh *mesh, char out[32])
{
    int n = 0;
    for (int32_t a = 0; a < mesh->n; a++)
        n += snprintf(out + n, 32 - (size_t)n, "%s%d", a ? "x" : "",
                      mesh->dim[a]);
}

static void tell(const survey *v, const char *what)
{
    tap_ok(v->lost == 0, "%s: each of %lld pairs has a path", what,
           (long long)v->pairs);
    say_lengths(v);
    tap_ok(v->wrong == 0, "%s: %lld different steps keep the value", what,
           (long long)v->steps);
    tap_ok(v->other_bytes == 0,
           "%s: their messages carry the closed form's bytes", what);
    tap_ok(v->unlike_paper == 0,
           "%s: paths move what the paper's table says of S, B and P", what);
    tap_ok(v->worse == 0, "%s: no way through B is cheaper", what);
}

/* What is done on which meshes: `to` of no axes is `from` itself. */
typedef struct scene {
    int32_t ranks;
    ir_mesh from, to;
} scene;

static void survey_scene(exec_world *world, const scene *at, ir_shape shape,
                         bool table)
{
    fs_arena *arena = fs_arena_create();
    char text[160], from[32] = "", to[32] = "";
    survey v = {.world = world,
                .tensor = {.name = "x", .dtype = IR_F64, .shape = shape},
                .from = {.mesh = at->from},
                .to = {.mesh = at->from},
                .base = 4 + shape.rank,
                .table = table};
    if (at->to.n > 0)
        v.to = (plan_stage){.mesh = at->to,
                            .first_device = ir_mesh_size(&at->from)};
    v.n = count_states(&v, &v.from.mesh);
    v.m = count_states(&v, &v.to.mesh);
    v.here = fs_new(arena, bool, v.n *v.n);
    v.over = fs_new(arena, bool, v.n *v.m);
    v.there = fs_new(arena, bool, v.m *v.m);
    v.boxer = plan_boxer_create(
        (plan_boxing_cost){.seconds = bytes_as_seconds,
                           .ctx = &v.tensor,
                           .crossing = crossing_bytes_as_seconds},
        arena);
    survey_pairs(&v);
    print_mesh(&at->from, from);
    print_mesh(&at->to, to);
    tell(&v, fs_printf(arena, "mesh %s%s%s, %s", from, at->to.n ? " to " : "",
                       to, ir_shape_text(text, &shape)));
    fs_arena_destroy(arena);
}

static const scene scenes[] = {
    {4, {1, {4}}, {0}},         {4, {2, {2, 2}}, {0}},
    {6, {1, {4}}, {1, {2}}},    {6, {1, {2}}, {1, {4}}},
    {8, {2, {2, 2}}, {1, {4}}}, {8, {3, {2, 2, 2}}, {0}}};

static void lead(exec_world *world)
{
    static const ir_shape shapes[] = {{1, {8}},       {1, {11}},
                                      {2, {8, 8}},    {2, {9, 11}},
                                      {3, {8, 8, 8}}, {3, {8, 9, 11}}};
    for (size_t m = 0; m < sizeof scenes / sizeof *scenes; m++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            if (scenes[m].ranks == world->size)
                survey_scene(world, &scenes[m], shapes[s],
                             scenes[m].from.n < 3 && s == 2);
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
    for (int32_t n = 4; n <= 8; n += 2) {
        desk.stop = false;
        tap_ok(exec_world_threads(n, run_rank, NULL, &err) == FS_OK,
               "%d threads are ranks", n);
    }
    return tap_done();
}
