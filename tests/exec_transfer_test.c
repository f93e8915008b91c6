/* Boxing steps against plain loops over the definition of SBP: random shapes
 * and SBPs on every mesh of the ranks there are. */
#include "config.h"

#include "base/half.h"
#include "exec/piece.h"
#include "exec/transfer.h"
#include "ir/element.h"
#include "plan/boxing.h"

#include "tests/exec_ranks.h"

#include <math.h>
#include <sched.h>

typedef struct trial {
    ir_dtype dtype;
    plan_exchange x;
    int32_t first_giver, first_taker;
    plan_algorithm algorithm;
    int64_t chunk_bytes;
    bool exact; /* whole numbers: sums do not depend on their order */
} trial;

/* What the giver at `at` holds of element e: partial values differ by position,
 * replicas do not. */
static double held_value(const trial *t, const int32_t *at, int64_t e)
{
    uint64_t key = 7;
    for (int32_t a = 0; a < t->x.from_mesh.n; a++)
        if (ir_sbp_is_partial(t->x.from.at[a]))
            key = fs_mix(key ^ (uint64_t)(at[a] + 1) << (8 * a));
    double unit = fs_draw_unit(key, (uint64_t)e);
    bool whole = t->dtype == IR_I32 || t->dtype == IR_I64;
    return whole || t->exact ? floor(unit * 2000.0) - 1000.0 : unit - 0.5;
}

static void store(ir_dtype dtype, void *at, int64_t i, double value)
{
    if (dtype == IR_F32)
        ((float *)at)[i] = (float)value;
    else if (dtype == IR_F64)
        ((double *)at)[i] = value;
    else if (dtype == IR_F16)
        ((fs_half *)at)[i] = fs_to_half((float)value);
    else if (dtype == IR_BF16)
        ((fs_bfloat *)at)[i] = fs_to_bfloat((float)value);
    else if (dtype == IR_I32)
        ((int32_t *)at)[i] = (int32_t)value;
    else
        ((int64_t *)at)[i] = (int64_t)value;
}

static bool stays(const trial *t, int32_t a)
{
    return !t->x.moves && ir_sbp_equal(t->x.from.at[a], t->x.to.at[a]);
}

static bool holds(const trial *t, const int32_t *at, const int64_t *index)
{
    const ir_piece held =
        ir_piece_of(&t->x.shape, &t->x.from, &t->x.from_mesh, at);
    bool inside = true;
    for (int32_t d = 0; d < held.shape.rank; d++)
        inside &= index[d] >= held.offset[d] &&
                  index[d] < held.offset[d] + held.shape.dim[d];
    return inside;
}

static bool becomes_partial(const trial *t, int32_t a)
{
    return ir_sbp_is_partial(t->x.to.at[a]) &&
           !ir_sbp_is_partial(t->x.from.at[a]);
}

/* Has the taker at `at` element `index`, or what is neutral? Of what becomes
 * partial each element has one owner on the axis, the first or who holds it; of
 * a maximum made of what is whole all are. */
static bool owns(const trial *t, const int32_t *at, const int64_t *index)
{
    bool found = false;
    for (int32_t p = 0; p < ir_mesh_size(&t->x.from_mesh); p++) {
        int32_t giver[IR_MAX_MESH];
        bool tied = true;
        ir_mesh_coords(&t->x.from_mesh, p, giver);
        for (int32_t a = 0; a < t->x.from_mesh.n; a++)
            if (becomes_partial(t, a))
                tied &= giver[a] == at[a] &&
                        (t->x.from.at[a].kind == IR_S || at[a] == 0 ||
                         ir_sbp_is_extreme(t->x.to.at[a]));
        found |= tied && holds(t, giver, index);
    }
    return found;
}

/* Both as they are stored; a sum of 16-bit floats is a float until it is
 * rounded, once, at its end. */
static void fold_value(const trial *t, double *sum, double value, bool first)
{
    char one[8], all[8];
    if (ir_dtype_bytes(t->dtype) == 2) {
        store(t->dtype, one, 0, value);
        value = ir_element_real(t->dtype, one, 0);
    }
    const bool narrow = ir_dtype_bytes(t->dtype) == 2;
    const ir_dtype wide = narrow ? IR_F32 : t->dtype;
    store(wide, one, 0, value);
    store(wide, all, 0, *sum);
    exec_fold(plan_exchange_folds(&t->x), wide, all, one, 1);
    *sum = first ? value : ir_element_real(wide, all, 0);
}

/* The value that must stand at the taker at `at`: folded over the positions of
 * partial axes, in their order. */
static void expect_value(const trial *t, const int32_t *at, int64_t e,
                         const int64_t *index, int64_t i, void *out)
{
    const int32_t n = ir_mesh_size(&t->x.from_mesh);
    double sum = 0;
    bool first = true;
    if (!t->x.moves && !owns(t, at, index)) {
        const ir_sbp_kind kind = plan_exchange_fills(&t->x);
        store(t->dtype, out, i,
              kind == IR_PMAX   ? -INFINITY
              : kind == IR_PMIN ? INFINITY
                                : 0);
        return;
    }
    for (int32_t p = 0; p < n; p++) {
        int32_t from[IR_MAX_MESH];
        bool counts = true;
        ir_mesh_coords(&t->x.from_mesh, p, from);
        for (int32_t a = 0; a < t->x.from_mesh.n; a++) {
            const bool partial = ir_sbp_is_partial(t->x.from.at[a]);
            if (partial && stays(t, a))
                counts &= from[a] == at[a];
            else if (!partial)
                counts &= from[a] == 0;
        }
        if (!counts)
            continue;
        fold_value(t, &sum, held_value(t, from, e), first);
        first = false;
    }
    store(t->dtype, out, i, sum);
}

typedef void element_fn(const trial *t, const int32_t *at, int64_t e,
                        const int64_t *index, int64_t i, void *out);

static void hold_element(const trial *t, const int32_t *at, int64_t e,
                         const int64_t *index, int64_t i, void *out)
{
    (void)index;
    store(t->dtype, out, i, held_value(t, at, e));
}

/* Calls `fn` for each element of the piece; returns its bytes. */
static int64_t fill_piece(const trial *t, bool given, int32_t position,
                          element_fn *fn, void *out)
{
    const ir_mesh *mesh = given ? &t->x.from_mesh : &t->x.to_mesh;
    int64_t index[IR_MAX_RANK];
    int32_t at[IR_MAX_MESH];
    if (position < 0)
        return 0;
    ir_mesh_coords(mesh, position, at);
    const ir_piece piece =
        ir_piece_of(&t->x.shape, given ? &t->x.from : &t->x.to, mesh, at);
    const int64_t n = ir_shape_count(&piece.shape);
    for (int64_t i = 0; out && i < n; i++) {
        int64_t rest = i, e = 0;
        for (int32_t d = piece.shape.rank - 1; d >= 0; d--) {
            index[d] = piece.offset[d] + rest % piece.shape.dim[d];
            rest /= piece.shape.dim[d];
        }
        for (int32_t d = 0; d < piece.shape.rank; d++)
            e = e * t->x.shape.dim[d] + index[d];
        fn(t, at, e, index, i, out);
    }
    return n * ir_dtype_bytes(t->dtype);
}

/* The scratch that lowering reserves: position 0 has the largest pieces. */
static int64_t reserved_bytes(const trial *t)
{
    const ir_tensor tensor = {.dtype = t->dtype, .shape = t->x.shape};
    const plan_stage from = {t->x.from_mesh, t->first_giver};
    const plan_stage to = {t->x.to_mesh, t->first_taker};
    const plan_cross cross = {&tensor, &from, &to, t->x.from, t->x.to};
    plan_box_step step;
    if (t->x.moves)
        return plan_cross_scratch(&cross);
    if (plan_box_step_make(&tensor, &t->x.to_mesh, &t->x.from, &t->x.to, &step))
        return plan_box_scratch(&tensor, &t->x.to_mesh, &step);
    return fill_piece(t, true, 0, NULL, NULL) + /* no step of the table */
           fill_piece(t, false, 0, NULL, NULL);
}

static void run_transfer(exec_transfer *transfer, const void *in, void *out,
                         void *scratch, int64_t bytes)
{
    bool moved = false;
    exec_transfer_start(transfer, in, out, scratch, bytes);
    for (; !exec_transfer_poll(transfer, &moved); moved = false)
        if (!moved)
            sched_yield(); /* ranks may outnumber the cores */
}

static int32_t position_of(const exec_world *world, const ir_mesh *mesh,
                           int32_t first)
{
    const int32_t position = world->rank - first;
    return position < ir_mesh_size(mesh) ? position : -1;
}

static int64_t run_trial(exec_world *world, const trial *t, int32_t tag)
{
    const int32_t gives_at =
        position_of(world, &t->x.from_mesh, t->first_giver);
    const int32_t takes_at = position_of(world, &t->x.to_mesh, t->first_taker);
    if (gives_at < 0 && takes_at < 0)
        return 0;
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    exec_transfer *transfer = NULL;
    const exec_transfer_spec spec = {.exchange = &t->x,
                                     .dtype = t->dtype,
                                     .gives_at = gives_at,
                                     .takes_at = takes_at,
                                     .first_giver = t->first_giver,
                                     .first_taker = t->first_taker,
                                     .tag = tag,
                                     .algorithm = t->algorithm,
                                     .chunk_bytes = t->chunk_bytes};
    const int64_t bytes = fill_piece(t, false, takes_at, NULL, NULL);
    const int64_t room = fill_piece(t, true, 0, NULL, NULL) +
                         fill_piece(t, false, 0, NULL, NULL);
    const int64_t reserved = reserved_bytes(t);
    char *in = fs_new(arena, char, room), *out = fs_new(arena, char, room);
    char *wanted = fs_new(arena, char, room);
    char *scratch = fs_new(arena, char, reserved + 1);
    fill_piece(t, true, gives_at, hold_element, in);
    fill_piece(t, false, takes_at, expect_value, wanted);
    int64_t wrong = 1;
    if (exec_transfer_make(world, &spec, arena, &err, &transfer) == FS_OK) {
        FS_ASSERT(exec_transfer_scratch(transfer) <= reserved);
        exec_transfer_join(transfer);
        for (int again = 0; again < 2; again++) {
            memset(out, 0xa5, (size_t)room);
            run_transfer(transfer, in, out, scratch, reserved);
            wrong = memcmp(out, wanted, (size_t)bytes) != 0;
        }
        exec_transfer_release(transfer);
    }
    fs_arena_destroy(arena);
    return wrong;
}

/* ---- drawing ---- */

static ir_sbp draw_sbp(uint64_t *seed, int32_t rank, ir_sbp_kind partial)
{
    int64_t k = fs_rand_below(seed, rank + 3);
    if (k < rank)
        return IR_SBP_S(k);
    if (k == rank)
        return IR_SBP_B;
    return (ir_sbp){.kind = (uint8_t)partial};
}

static void draw_mesh(uint64_t *seed, int32_t size, ir_mesh *out)
{
    *out = (ir_mesh){0};
    while (size > 1 && out->n < 3) {
        int32_t n = out->n == 2 ? size : 1 + (int32_t)fs_rand_below(seed, size);
        if (size % n != 0 || n == 1)
            continue;
        out->dim[out->n++] = n;
        size /= n;
    }
    if (size > 1)
        out->dim[out->n - 1] *= size;
}

static void draw_tensor(uint64_t *seed, trial *t)
{
    int64_t longest = fs_rand_below(seed, 4) ? 9 : 40;
    static const ir_dtype dtypes[] = {IR_F32, IR_F64, IR_I32,
                                      IR_I64, IR_F16, IR_BF16};
    t->dtype = dtypes[fs_rand_below(seed, 6)];
    t->x.shape.rank = (int32_t)fs_rand_below(seed, 5);
    for (int32_t d = 0; d < t->x.shape.rank; d++)
        t->x.shape.dim[d] = 1 + fs_rand_below(seed, longest);
}

/* Any pair on one mesh with one kind of partial values; whole numbers are not
 * padded with infinities. A halo is only ever gone to. */
static void draw_within(uint64_t *seed, int32_t size, trial *t)
{
    const ir_sbp_kind partial = IR_PSUM + (ir_sbp_kind)fs_rand_below(seed, 3);
    const int32_t rank = t->x.shape.rank;
    draw_mesh(seed, size, &t->x.from_mesh);
    t->x.to_mesh = t->x.from_mesh;
    for (int32_t a = 0; a < t->x.from_mesh.n; a++) {
        ir_sbp from = draw_sbp(seed, rank, partial);
        ir_sbp to =
            fs_rand_below(seed, 3) ? draw_sbp(seed, rank, partial) : from;
        if (ir_sbp_is_extreme(to) && from.kind == IR_S &&
            !ir_dtype_is_float(t->dtype))
            to = IR_SBP_B;
        if (to.kind == IR_S && t->x.from_mesh.n == 1 &&
            (from.kind == IR_B || ir_sbp_same_cut(from, to))) {
            to.before = (uint8_t)fs_rand_below(seed, 3);
            to.after = (uint8_t)fs_rand_below(seed, 3);
        }
        t->x.from.at[a] = from;
        t->x.to.at[a] = to;
    }
}

/* To other ranks, in other meshes. */
static void draw_across(uint64_t *seed, int32_t size, trial *t)
{
    const ir_sbp_kind partial = IR_PSUM + (ir_sbp_kind)fs_rand_below(seed, 3);
    const int32_t givers = 1 + (int32_t)fs_rand_below(seed, size - 1);
    const bool back = fs_rand_below(seed, 2);
    t->x.moves = true;
    draw_mesh(seed, givers, &t->x.from_mesh);
    draw_mesh(seed, size - givers, &t->x.to_mesh);
    t->first_giver = back ? size - givers : 0;
    t->first_taker = back ? 0 : givers;
    for (int32_t a = 0; a < t->x.from_mesh.n; a++)
        t->x.from.at[a] = draw_sbp(seed, t->x.shape.rank, partial);
    for (int32_t a = 0; a < t->x.to_mesh.n; a++)
        t->x.to.at[a] = draw_sbp(seed, t->x.shape.rank, IR_B);
}

static bool can_be(const trial *t)
{
    return ir_nd_sbp_fits(&t->x.from, &t->x.shape, &t->x.from_mesh) &&
           ir_nd_sbp_fits(&t->x.to, &t->x.shape, &t->x.to_mesh);
}

/* Seeds tell the rest. */
static void say_wrong(const trial *t, int32_t k)
{
    char from[64], to[64], shape[160];
    printf("# trial %d: %s %s, %s -> %s\n", k, ir_dtype_name(t->dtype),
           ir_shape_text(shape, &t->x.shape),
           ir_nd_sbp_text(from, &t->x.from, t->x.from_mesh.n),
           ir_nd_sbp_text(to, &t->x.to, t->x.to_mesh.n));
}

typedef void draw_fn(uint64_t *seed, int32_t size, trial *t);

static void test_exchanges(exec_world *world, uint64_t seed, draw_fn *draw,
                           const char *what)
{
    int64_t wrong = 0, tried = 0, reduced = 0;
    for (int32_t k = 0; k < 300; k++) {
        trial t = {0};
        draw_tensor(&seed, &t);
        draw(&seed, world->size, &t);
        if (!can_be(&t))
            continue;
        const int64_t bad = run_trial(world, &t, 1 + k % 3);
        if (bad)
            say_wrong(&t, k);
        wrong += bad;
        tried++;
        reduced += plan_exchange_folds(&t.x) != IR_B;
    }
    ranks_ok(world, wrong + (tried < 100) + (reduced < 10 && world->size > 2),
             "%s: %lld exchanges, %lld of them reductions, bit by bit", what,
             (long long)tried, (long long)reduced);
}

static void test_big(exec_world *world)
{
    const ir_nd_sbp sbp[4] = {
        {{IR_SBP_P}}, {{IR_SBP_B}}, {{IR_SBP_S(0)}}, {{IR_SBP_S(1)}}};
    int64_t wrong = 0;
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++) {
            trial t = {.dtype = from == 0 && to == 1 ? IR_BF16 : IR_F32,
                       .x = {.shape = {2, {257, 4099}},
                             .from_mesh = {1, {world->size}},
                             .to_mesh = {1, {world->size}},
                             .from = sbp[from],
                             .to = sbp[to]}};
            wrong += run_trial(world, &t, 4);
        }
    ranks_ok(world, wrong, "pieces of megabytes arrive whole");
}

/* ---- algorithms ---- */

/* Hosts of 1 to 4 ranks, not in a row. */
static void draw_hosts(exec_world *world, uint64_t *seed, int32_t *host)
{
    const int32_t n = 1 + (int32_t)fs_rand_below(seed, world->size);
    for (int32_t r = 0; r < world->size; r++)
        host[r] = (int32_t)fs_rand_below(seed, n);
}

/* All-reduces among all ranks, or along an axis of theirs: of few elements, of
 * odd numbers of them, of a chunk and one more or less, of many chunks. */
static void draw_all_reduce(uint64_t *seed, int32_t size, trial *t)
{
    static const int64_t counts[] = {1,     7,     40,    1000,
                                     32767, 65536, 65537, 131073};
    static const ir_dtype dtypes[] = {IR_F32, IR_F64, IR_I32,
                                      IR_I64, IR_F16, IR_BF16};
    const ir_sbp_kind partial = IR_PSUM + (ir_sbp_kind)fs_rand_below(seed, 3);
    const bool big = fs_rand_below(seed, 10) == 0;
    t->dtype = dtypes[fs_rand_below(seed, 6)];
    t->x.shape.rank = 1;
    t->x.shape.dim[0] = counts[fs_rand_below(seed, big ? 8 : 4)] +
                        (big ? 0 : fs_rand_below(seed, 50));
    draw_mesh(seed, size, &t->x.from_mesh);
    t->x.to_mesh = t->x.from_mesh;
    for (int32_t a = 0; a < t->x.from_mesh.n; a++) {
        const bool reduced = a == 0 || fs_rand_below(seed, 2);
        t->x.from.at[a] =
            reduced ? (ir_sbp){.kind = (uint8_t)partial} : IR_SBP_B;
        t->x.to.at[a] = IR_SBP_B;
    }
}

static void test_algorithm(exec_world *world, uint64_t seed,
                           plan_algorithm algorithm)
{
    int32_t *const hosts = world->host;
    int32_t host[16];
    int64_t wrong = 0;
    for (int32_t k = 0; k < 20; k++) {
        trial t = {.algorithm = algorithm, .exact = true};
        draw_all_reduce(&seed, world->size, &t);
        t.chunk_bytes = INT64_C(1) << (4 + fs_rand_below(&seed, 17));
        draw_hosts(world, &seed, host);
        world->host = k % 4 ? host : NULL;
        const int64_t bad = run_trial(world, &t, 5 + k % 2);
        if (bad)
            say_wrong(&t, k);
        wrong += bad;
    }
    world->host = hosts;
    ranks_ok(world, wrong, "%s: all-reduces give what they should",
             plan_algorithm_name(algorithm));
}

/* Sums that are rounded: the same on every member, and every time. */
static void test_same_bits(exec_world *world, plan_algorithm algorithm)
{
    enum { COUNT = 70001 };
    const trial t = {.dtype = IR_F32,
                     .x = {.shape = {1, {COUNT}},
                           .from_mesh = {1, {world->size}},
                           .to_mesh = {1, {world->size}},
                           .from = {{IR_SBP_P}},
                           .to = {{IR_SBP_B}}}};
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    const exec_transfer_spec spec = {.exchange = &t.x,
                                     .dtype = t.dtype,
                                     .gives_at = world->rank,
                                     .takes_at = world->rank,
                                     .tag = 7,
                                     .algorithm = algorithm};
    exec_transfer *transfer = NULL;
    float *in = fs_new(arena, float, COUNT), *out = fs_new(arena, float, COUNT);
    float *first = fs_new(arena, float, COUNT);
    char *scratch = fs_new(arena, char, reserved_bytes(&t));
    int64_t wrong = 0;
    fill_piece(&t, true, world->rank, hold_element, in);
    FS_ASSERT(exec_transfer_make(world, &spec, arena, &err, &transfer) ==
              FS_OK);
    exec_transfer_join(transfer);
    for (int again = 0; again < 5; again++) {
        run_transfer(transfer, in, out, scratch, reserved_bytes(&t));
        if (again == 0) {
            memcpy(first, out, sizeof *out * COUNT);
            exec_world_bcast(world, first, sizeof *out * COUNT, 0);
        }
        wrong += memcmp(first, out, sizeof *out * COUNT) != 0;
    }
    exec_transfer_release(transfer);
    fs_arena_destroy(arena);
    ranks_ok(world, wrong, "%s: rounded sums have the same bits every time",
             plan_algorithm_name(algorithm));
}

/* An all-reduce of whole numbers among all ranks, begun and not waited for. */
typedef struct begun {
    trial t;
    exec_transfer *transfer;
    char *in, *out, *wanted, *scratch;
    bool done;
} begun;

static begun prepare_sum(exec_world *world, plan_algorithm algorithm,
                         int64_t count, int tag, fs_arena *arena)
{
    const ir_mesh all = {1, {world->size}};
    begun b = {.t = {.dtype = IR_F32,
                     .exact = true,
                     .x = {.shape = {1, {count}},
                           .from_mesh = all,
                           .to_mesh = all,
                           .from = {{IR_SBP_P}},
                           .to = {{IR_SBP_B}}}}};
    const exec_transfer_spec spec = {.exchange = &b.t.x,
                                     .dtype = b.t.dtype,
                                     .gives_at = world->rank,
                                     .takes_at = world->rank,
                                     .tag = tag,
                                     .algorithm = algorithm};
    const int64_t bytes = count * (int64_t)sizeof(float);
    fs_err err = {0};
    b.in = fs_new(arena, char, bytes);
    b.out = fs_new(arena, char, bytes);
    b.wanted = fs_new(arena, char, bytes);
    b.scratch = fs_new(arena, char, reserved_bytes(&b.t));
    fill_piece(&b.t, true, world->rank, hold_element, b.in);
    fill_piece(&b.t, false, world->rank, expect_value, b.wanted);
    FS_ASSERT(exec_transfer_make(world, &spec, arena, &err, &b.transfer) ==
              FS_OK);
    exec_transfer_join(b.transfer);
    return b;
}

static void begin_sum(begun *b)
{
    b->done = false;
    exec_transfer_start(b->transfer, b->in, b->out, b->scratch,
                        reserved_bytes(&b->t));
}

/* Of two communicators of the same ranks, whose order nothing gives: each rank
 * begins them in an order of its own. */
static void test_two_lines(exec_world *world, plan_algorithm algorithm)
{
    enum { COUNT = 5003, TIMES = 6 };
    fs_arena *arena = fs_arena_create();
    begun b[2] = {prepare_sum(world, algorithm, COUNT, 11, arena),
                  prepare_sum(world, algorithm, COUNT, 12, arena)};
    int64_t wrong = 0;
    for (int i = 0; i < (int)sizeof(float) * COUNT; i += (int)sizeof(float)) {
        *(float *)(b[1].in + i) += 1; /* other values than the first's */
        *(float *)(b[1].wanted + i) += (float)world->size;
    }
    for (int again = 0; again < TIMES; again++) {
        const int first = (world->rank + again) % 2;
        begin_sum(&b[first]);
        begin_sum(&b[1 - first]);
        while (!b[0].done || !b[1].done) {
            bool moved = false;
            for (int k = 0; k < 2; k++)
                if (!b[k].done)
                    b[k].done = exec_transfer_poll(b[k].transfer, &moved);
            if (!moved)
                sched_yield();
        }
        for (int k = 0; k < 2; k++)
            wrong += memcmp(b[k].out, b[k].wanted, sizeof(float) * COUNT) != 0;
    }
    for (int k = 0; k < 2; k++)
        exec_transfer_release(b[k].transfer);
    fs_arena_destroy(arena);
    ranks_ok(world, wrong, "%s: two at once, begun in any order",
             plan_algorithm_name(algorithm));
}

static void test_algorithms(exec_world *world, uint64_t seed)
{
    for (int a = 0; a < PLAN_ALGORITHMS; a++) {
        if (!plan_algorithm_runs((plan_algorithm)a))
            continue;
        test_algorithm(world, seed + (uint64_t)a, (plan_algorithm)a);
        test_same_bits(world, (plan_algorithm)a);
        test_two_lines(world, (plan_algorithm)a);
    }
}

/* ---- several tensors in one ---- */

enum { MOST_PARTS = 6 };

typedef struct bundle {
    int32_t n;
    trial part[MOST_PARTS];
    plan_box_step box[MOST_PARTS], all;
    int64_t in_at[MOST_PARTS], out_at[MOST_PARTS], in_bytes, out_bytes;
} bundle;

/* What all parts do on an axis; on axes that stay each lies as it likes. */
static void draw_part(uint64_t *seed, const ir_mesh *mesh, plan_box_kind kind,
                      uint32_t axes, ir_sbp_kind partial, trial *t)
{
    const ir_sbp summed = {.kind = (uint8_t)partial};
    t->x.from_mesh = t->x.to_mesh = *mesh;
    for (int32_t a = 0; a < mesh->n; a++) {
        const ir_sbp cut = t->x.shape.rank > 0
                               ? IR_SBP_S(fs_rand_below(seed, t->x.shape.rank))
                               : IR_SBP_B;
        const int64_t stays = fs_rand_below(seed, 3);
        t->x.from.at[a] = t->x.to.at[a] = stays == 0   ? cut
                                          : stays == 1 ? IR_SBP_B
                                                       : summed;
        if (!(axes >> a & 1))
            continue;
        t->x.from.at[a] = kind == PLAN_ALL_GATHER ? cut : summed;
        t->x.to.at[a] = kind == PLAN_REDUCE_SCATTER ? cut : IR_SBP_B;
    }
}

static bool make_part(const trial *t, plan_box_step *out)
{
    const ir_tensor tensor = {.dtype = t->dtype, .shape = t->x.shape};
    return can_be(t) && plan_box_step_make(&tensor, &t->x.to_mesh, &t->x.from,
                                           &t->x.to, out);
}

/* They lie in any order, some bytes apart. */
static void place_parts(uint64_t *seed, bundle *b)
{
    enum { APART = 8 };
    int64_t *const end[] = {&b->in_bytes, &b->out_bytes};
    for (int side = 0; side < 2; side++) {
        const int32_t first = (int32_t)fs_rand_below(seed, b->n);
        *end[side] = 0;
        for (int32_t i = 0; i < b->n; i++) {
            const int32_t k = (first + i) % b->n;
            const int64_t bytes =
                fill_piece(&b->part[k], side == 0, 0, NULL, NULL);
            *end[side] += APART * fs_rand_below(seed, 3);
            (side ? b->out_at : b->in_at)[k] = *end[side];
            *end[side] += (bytes + APART - 1) / APART * APART;
        }
    }
}

static void draw_bundle(uint64_t *seed, int32_t size, bundle *b)
{
    static const plan_box_kind kinds[] = {PLAN_ALL_REDUCE, PLAN_ALL_GATHER,
                                          PLAN_REDUCE_SCATTER};
    const plan_box_kind kind = kinds[fs_rand_below(seed, 3)];
    const ir_sbp_kind partial = IR_PSUM + (ir_sbp_kind)fs_rand_below(seed, 3);
    trial first = {.exact = true};
    ir_mesh mesh;
    draw_tensor(seed, &first);
    draw_mesh(seed, size, &mesh);
    const uint32_t axes = 1 + (uint32_t)fs_rand_below(seed, (1 << mesh.n) - 1);
    *b = (bundle){0};
    while (b->n < MOST_PARTS && (b->n < 2 || fs_rand_below(seed, 4))) {
        trial t = {.exact = true};
        draw_tensor(seed, &t);
        t.dtype = first.dtype;
        draw_part(seed, &mesh, kind, axes, partial, &t);
        plan_box_step *box = &b->box[b->n];
        if (!make_part(&t, box) || box->kind != kind || box->axes != axes)
            continue;
        b->all = b->n ? b->all : *box;
        b->all.bytes_in += b->n ? box->bytes_in : 0;
        b->all.bytes_out += b->n ? box->bytes_out : 0;
        b->part[b->n++] = t;
    }
    place_parts(seed, b);
}

/* Nothing but the pieces is written. */
static bool is_wrong(const bundle *b, int32_t position, const char *out,
                     char *wanted)
{
    memset(wanted, 0xa5, (size_t)b->out_bytes);
    for (int32_t k = 0; k < b->n; k++)
        fill_piece(&b->part[k], false, position, expect_value,
                   wanted + b->out_at[k]);
    return memcmp(out, wanted, (size_t)b->out_bytes) != 0;
}

static int64_t run_bundle(exec_world *world, const bundle *b,
                          plan_algorithm algorithm, int64_t chunk, int32_t tag)
{
    fs_arena *arena = fs_arena_create();
    const ir_tensor tensor = {.dtype = b->part[0].dtype};
    const int64_t reserved =
        plan_box_scratch(&tensor, &b->part[0].x.to_mesh, &b->all);
    exec_transfer_part parts[MOST_PARTS];
    const exec_transfer_spec spec = {.n_parts = b->n,
                                     .parts = parts,
                                     .dtype = tensor.dtype,
                                     .gives_at = world->rank,
                                     .takes_at = world->rank,
                                     .tag = tag,
                                     .algorithm = algorithm,
                                     .chunk_bytes = chunk};
    char *in = fs_new(arena, char, b->in_bytes + 1);
    char *out = fs_new(arena, char, b->out_bytes + 1);
    char *wanted = fs_new(arena, char, b->out_bytes + 1);
    char *scratch = fs_new(arena, char, reserved + 1);
    exec_transfer *transfer = NULL;
    fs_err err = {0};
    int64_t wrong = 0;
    for (int32_t k = 0; k < b->n; k++) {
        parts[k] =
            (exec_transfer_part){b->part[k].x, b->in_at[k], b->out_at[k]};
        fill_piece(&b->part[k], true, world->rank, hold_element,
                   in + b->in_at[k]);
    }
    if (exec_transfer_make(world, &spec, arena, &err, &transfer) != FS_OK)
        return 1;
    FS_ASSERT(exec_transfer_scratch(transfer) <= reserved);
    exec_transfer_join(transfer);
    for (int again = 0; again < 2; again++) {
        memset(out, 0xa5, (size_t)b->out_bytes);
        run_transfer(transfer, in, out, scratch, reserved);
        wrong += is_wrong(b, world->rank, out, wanted);
    }
    exec_transfer_release(transfer);
    fs_arena_destroy(arena);
    return wrong;
}

/* Directly, bit by bit whatever they hold; by other ways whole numbers. */
static void test_bundles(exec_world *world, uint64_t seed)
{
    int64_t wrong = 0, of[PLAN_BOX_KINDS] = {0};
    for (int32_t k = 0; k < 200; k++) {
        bundle b;
        draw_bundle(&seed, world->size, &b);
        plan_algorithm by =
            (plan_algorithm)fs_rand_below(&seed, PLAN_ALGORITHMS);
        if (!plan_algorithm_runs(by) || fs_rand_below(&seed, 2))
            by = PLAN_BY_direct;
        for (int32_t i = 0; i < b.n; i++)
            b.part[i].exact = by != PLAN_BY_direct;
        const int64_t chunk = INT64_C(1) << (4 + fs_rand_below(&seed, 12));
        const int64_t bad = run_bundle(world, &b, by, chunk, 20 + k % 3);
        for (int32_t i = 0; bad && i < b.n; i++)
            say_wrong(&b.part[i], k);
        wrong += bad;
        of[b.all.kind]++;
    }
    ranks_ok(world,
             wrong + (of[PLAN_ALL_REDUCE] < 20) + (of[PLAN_ALL_GATHER] < 20) +
                 (of[PLAN_REDUCE_SCATTER] < 20),
             "several tensors at once: %lld all-reduces, %lld all-gathers, "
             "%lld reduce-scatters",
             (long long)of[PLAN_ALL_REDUCE], (long long)of[PLAN_ALL_GATHER],
             (long long)of[PLAN_REDUCE_SCATTER]);
}

static void run_all(exec_world *world, uint64_t seed)
{
    test_bundles(world, seed);
    test_algorithms(world, seed);
    test_exchanges(world, seed, draw_within, "on one mesh");
    test_exchanges(world, seed, draw_across, "to another mesh");
    test_big(world);
}

/* ---- threads as ranks ---- */

static void run_thread(exec_world *world, void *ctx)
{
    const uint64_t seed = *(const uint64_t *)ctx;
    if ((world->size & (world->size - 1)) == 0)
        run_all(world, seed);
    else
        test_algorithms(world, seed);
}

static void test_threads(uint64_t seed)
{
    for (int32_t n = 2; n <= 9; n++) {
        fs_err err = {0};
        printf("# %d threads\n", n);
        tap_ok(exec_world_threads(n, run_thread, &seed, &err) == FS_OK,
               "%d threads of one process are ranks", n);
    }
}

int main(void)
{
    exec_world *world = ranks_open();
    const uint64_t seed = ranks_seed(world, 20261122);
    if (world->size == 1)
        test_threads(seed);
    else
        run_all(world, seed);
    return ranks_done(world);
}
