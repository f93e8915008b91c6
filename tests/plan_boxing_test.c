#include "config.h"

#include "plan/boxer.h"

#include "base/hash.h"

#include "tap.h"

/* ---- toys ---- */

static const double latency_s = 1e-5, bandwidth_bps = 1e9, local_bps = 2e10;

/* A ring's bytes per device over a link; local steps at memory speed. */
static double toy_seconds(void *ctx, const plan_stage *stage,
                          const plan_box_step *step)
{
    double n = 1;
    for (int32_t a = 0; a < stage->mesh.n; a++)
        n *= step->axes >> a & 1 ? stage->mesh.dim[a] : 1;
    double share = (n - 1) / n;
    double slowdown = ctx ? *(const double *)ctx : 1;
    double in = (double)step->bytes_in, out = (double)step->bytes_out;

    switch (step->kind) {
    case PLAN_ALL_REDUCE:
        return slowdown * (2 * latency_s + 2 * share * in / bandwidth_bps);
    case PLAN_ALL_GATHER:
        return slowdown * (latency_s + share * out / bandwidth_bps);
    case PLAN_RESLICE:
        return slowdown * (latency_s + share * fmax(in, out) / bandwidth_bps);
    case PLAN_REDUCE_SCATTER:
    case PLAN_ALL_TO_ALL:
        return slowdown * (latency_s + share * in / bandwidth_bps);
    default:
        return 1e-7 + out / local_bps;
    }
}

static ir_tensor cube(int32_t rank, int64_t length)
{
    ir_tensor t = {.name = "x", .dtype = IR_F32};

    t.shape.rank = rank;
    for (int32_t d = 0; d < rank; d++)
        t.shape.dim[d] = length;
    return t;
}

static plan_stage stage_of(int32_t n, int32_t a, int32_t b, int32_t c)
{
    return (plan_stage){.mesh = {n, {a, b, c}}};
}

static ir_nd_sbp parse(const char *text, int32_t n_axes)
{
    ir_nd_sbp sbp = {0};
    fs_err err = {0};

    if (ir_nd_sbp_parse(text, n_axes, &err, &sbp) != FS_OK)
        printf("# %s\n", err.text);
    return sbp;
}

static bool step(const ir_tensor *t, const plan_stage *stage, const char *from,
                 const char *to, plan_box_step *out)
{
    ir_nd_sbp f = parse(from, stage->mesh.n), g = parse(to, stage->mesh.n);

    return plan_box_step_make(t, &stage->mesh, &f, &g, out);
}

/* ---- the table ---- */

static void test_rows(void)
{
    static const struct {
        const char *from, *to;
        plan_box_kind kind;
        int64_t in, out;
    } rows[] = {{"P", "B", PLAN_ALL_REDUCE, 256, 256},
                {"P(max)", "B", PLAN_ALL_REDUCE, 256, 256},
                {"S(1)", "B", PLAN_ALL_GATHER, 64, 256},
                {"P", "S(0)", PLAN_REDUCE_SCATTER, 256, 64},
                {"P(min)", "S(1)", PLAN_REDUCE_SCATTER, 256, 64},
                {"S(0)", "S(1)", PLAN_ALL_TO_ALL, 64, 64},
                {"B", "S(0)", PLAN_SLICE, 256, 64},
                {"S(0)", "S(0)-1+1", PLAN_HALO, 64, 128},
                {"B", "S(1)-0+2", PLAN_SLICE, 256, 128},
                {"B", "P", PLAN_ZERO_FILL, 256, 256},
                {"S(1)", "P", PLAN_ZERO_PAD, 64, 256},
                {"B", "P(max)", PLAN_COPY, 256, 256},
                {"S(0)", "P(min)", PLAN_PAD, 64, 256}};
    static const char *const states[] = {"B",    "P",    "P(max)",  "P(min)",
                                         "S(0)", "S(1)", "S(0)-1+1"};
    plan_stage stage = stage_of(1, 4, 0, 0);
    ir_tensor t = cube(2, 8);
    int32_t legal = 0;
    plan_box_step s;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool ok = step(&t, &stage, rows[i].from, rows[i].to, &s);
        tap_ok(ok && s.kind == rows[i].kind && s.bytes_in == rows[i].in &&
                   s.bytes_out == rows[i].out,
               "%s -> %s is one %s of %d bytes to %d", rows[i].from, rows[i].to,
               plan_box_name(rows[i].kind), (int)rows[i].in, (int)rows[i].out);
    }
    for (int32_t i = 0; i < 7; i++)
        for (int32_t k = 0; k < 7; k++)
            legal += step(&t, &stage, states[i], states[k], &s);
    /* R->B 3, S->B 2, R->S 6, S->S 2, B->S 2, B->R 3, S->R 6, S->H 1, B->H 1 */
    tap_equal_int(legal, 26, "no other one-axis step exists");
}

static void test_refusals(void)
{
    plan_stage line = stage_of(1, 4, 0, 0), grid = stage_of(2, 2, 2, 0);
    plan_stage thin = stage_of(2, 1, 4, 0);
    ir_tensor t = cube(2, 8), small = cube(1, 3), flags = cube(1, 8),
              whole = cube(1, 8);
    plan_box_step s;

    flags.dtype = IR_BOOL;
    tap_ok(step(&t, &grid, "(S(0),S(1))", "(B,B)", &s) &&
               s.kind == PLAN_ALL_GATHER && s.axes == 3,
           "several axes are gathered at once");
    tap_ok(step(&t, &grid, "(P,P)", "(B,B)", &s) && s.kind == PLAN_ALL_REDUCE &&
               s.axes == 3,
           "or reduced");
    tap_ok(!step(&t, &grid, "(P,S(0))", "(B,B)", &s),
           "but not one reduced and the other gathered");
    tap_ok(step(&t, &grid, "(B,S(0))", "(S(0),B)", &s) &&
               s.kind == PLAN_RESLICE && s.axes == 2,
           "a cut moves to another mesh axis in one step");
    tap_ok(!step(&t, &grid, "(B,B)", "(B,B)", &s), "staying is not a step");
    tap_ok(!step(&small, &line, "B", "S(0)", &s),
           "3 elements are not cut in 4");
    tap_ok(!step(&t, &line, "B", "S(2)", &s),
           "an axis that the tensor lacks is not cut");
    tap_ok(!step(&t, &thin, "(B,B)", "(S(0),B)", &s),
           "a mesh axis of length 1 has nothing to convert");
    tap_ok(
        step(&t, &grid, "(S(0),S(0))", "(B,S(0))", &s) &&
            s.kind == PLAN_RESLICE && s.axes == 3,
        "an axis gathered under a later cut of the same dimension re-slices");
    tap_ok(step(&t, &grid, "(S(0),S(0))", "(S(0),B)", &s) &&
               s.kind == PLAN_ALL_GATHER && s.axes == 2,
           "the later cut of the same dimension is gathered alone");
    tap_ok(step(&t, &grid, "(B,S(1))", "(S(1),S(1))", &s) &&
               s.kind == PLAN_RESLICE && s.axes == 2,
           "a cut before one of the same dimension moves what that cuts");
    tap_ok(!step(&t, &grid, "(P,S(0))", "(S(0),S(0))", &s),
           "which a reduction does not");
    tap_ok(step(&t, &grid, "(S(1),S(0))", "(B,S(0))", &s),
           "cuts of other dimensions do not matter");
    tap_ok(!step(&t, &grid, "(P(max),P)", "(B,P)", &s),
           "of two different reductions the later axis goes first");
    tap_ok(step(&t, &grid, "(P(max),P)", "(P(max),B)", &s) &&
               step(&t, &grid, "(P,P)", "(B,P)", &s),
           "equal reductions commute");
    tap_ok(!step(&flags, &line, "B", "P", &s) &&
               !step(&flags, &line, "S(0)", "P", &s) &&
               !step(&flags, &line, "B", "P(max)", &s),
           "flags do not become partial");
    tap_ok(step(&t, &grid, "(B,B)", "(P(max),P(min))", &s) &&
               s.kind == PLAN_COPY &&
               !step(&t, &grid, "(S(0),S(1))", "(P(max),P(min))", &s) &&
               step(&t, &grid, "(S(0),S(1))", "(P(max),P(max))", &s),
           "copies are of any extremes, but one value pads all axes");
    whole.dtype = IR_I32;
    tap_ok(step(&whole, &line, "B", "P(max)", &s) &&
               step(&whole, &line, "S(0)", "P", &s) &&
               !step(&whole, &line, "S(0)", "P(max)", &s),
           "whole numbers have no infinity to pad with");
}

/* ---- every legal step can be done with the data of its group ---- */

static bool inside(const ir_shape *local, const int64_t *offset, int64_t i,
                   int64_t k)
{
    return i >= offset[0] && i < offset[0] + local->dim[0] && k >= offset[1] &&
           k < offset[1] + local->dim[1];
}

static bool has(const ir_tensor *t, const ir_mesh *mesh, const ir_nd_sbp *sbp,
                const int32_t *coords, const int64_t at[2])
{
    ir_shape local;
    int64_t offset[IR_MAX_RANK];

    ir_local_piece(&t->shape, sbp, mesh, coords, &local, offset);
    return inside(&local, offset, at[0], at[1]);
}

static bool group_has(const ir_tensor *t, const ir_mesh *mesh,
                      const plan_box_step *s, const int32_t *coords,
                      const int64_t at[2])
{
    if (!plan_box_is_collective(s->kind))
        return has(t, mesh, &s->from, coords, at);
    for (int32_t r = 0; r < ir_mesh_size(mesh); r++) {
        int32_t c[IR_MAX_MESH];
        bool member = true;
        ir_mesh_coords(mesh, r, c);
        for (int32_t a = 0; a < mesh->n; a++)
            member &= (s->axes >> a & 1) || c[a] == coords[a];
        if (member && has(t, mesh, &s->from, c, at))
            return true;
    }
    return false;
}

static bool group_suffices(const ir_tensor *t, const ir_mesh *mesh,
                           const plan_box_step *s)
{
    if (s->kind == PLAN_ZERO_PAD || s->kind == PLAN_PAD)
        return true; /* what is missing is neutral */
    for (int32_t r = 0; r < ir_mesh_size(mesh); r++) {
        int32_t coords[IR_MAX_MESH];
        ir_mesh_coords(mesh, r, coords);
        for (int64_t e = 0; e < t->shape.dim[0] * t->shape.dim[1]; e++) {
            int64_t at[2] = {e / t->shape.dim[1], e % t->shape.dim[1]};
            if (has(t, mesh, &s->to, coords, at) &&
                !group_has(t, mesh, s, coords, at))
                return false;
        }
    }
    return true;
}

/* B, three reductions, S(i) on each axis. */
static ir_nd_sbp nth_state(int32_t i, int32_t rank, int32_t n_axes)
{
    ir_nd_sbp sbp = {0};

    for (int32_t a = n_axes - 1; a >= 0; a--) {
        int32_t digit = i % (rank + 4);
        sbp.at[a] = digit == 0 ? IR_SBP_B
                    : digit < 4
                        ? (ir_sbp){.kind = (uint8_t)(IR_PSUM + digit - 1)}
                        : IR_SBP_S(digit - 4);
        i /= rank + 4;
    }
    return sbp;
}

static int32_t n_states(int32_t rank, int32_t n_axes)
{
    int32_t n = 1;

    for (int32_t a = 0; a < n_axes; a++)
        n *= rank + 4;
    return n;
}

static void test_data(void)
{
    plan_stage meshes[] = {stage_of(2, 2, 2, 0), stage_of(2, 3, 2, 0),
                           stage_of(3, 2, 2, 2)};
    ir_tensor t = cube(2, 9);
    int32_t steps = 0, bad = 0;

    for (int32_t m = 0; m < 3; m++) {
        const ir_mesh *mesh = &meshes[m].mesh;
        int32_t n = n_states(2, mesh->n);
        for (int32_t i = 0; i < n; i++)
            for (int32_t k = 0; k < n; k++) {
                ir_nd_sbp from = nth_state(i, 2, mesh->n);
                ir_nd_sbp to = nth_state(k, 2, mesh->n);
                plan_box_step s;
                if (!plan_box_step_make(&t, mesh, &from, &to, &s))
                    continue;
                steps++;
                bad += !group_suffices(&t, mesh, &s);
            }
    }
    tap_ok(steps > 400, "%d legal steps on three meshes", (int)steps);
    tap_equal_int(bad, 0, "each has its data within its group, uneven too");
}

/* Halos of random widths, from random SBPs on the other axes. */
static void test_halo_data(void)
{
    plan_stage meshes[] = {stage_of(1, 3, 0, 0), stage_of(2, 2, 2, 0),
                           stage_of(2, 3, 2, 0)};
    ir_tensor t = cube(2, 9);
    uint64_t seed = tap_seed(20261122);
    int32_t steps = 0, bad = 0;

    for (int32_t k = 0; k < 4000; k++) {
        const ir_mesh *mesh = &meshes[fs_rand_below(&seed, 3)].mesh;
        int32_t n = n_states(2, mesh->n);
        int32_t axis = (int32_t)fs_rand_below(&seed, mesh->n);
        ir_nd_sbp from =
            nth_state((int32_t)fs_rand_below(&seed, n), 2, mesh->n);
        ir_nd_sbp to = from;
        plan_box_step s;
        to.at[axis] = IR_SBP_S(fs_rand_below(&seed, 2));
        to.at[axis].before = (uint8_t)fs_rand_below(&seed, 4);
        to.at[axis].after = (uint8_t)(1 + fs_rand_below(&seed, 3));
        if (!plan_box_step_make(&t, mesh, &from, &to, &s))
            continue;
        steps++;
        bad += !group_suffices(&t, mesh, &s) ||
               (s.kind == PLAN_HALO ? s.bytes_out <= s.bytes_in
                                    : s.kind != PLAN_SLICE);
    }
    tap_ok(steps > 400, "%d legal steps to halos", (int)steps);
    tap_equal_int(bad, 0, "each has its data within its group");
}

/* ---- paths ---- */

static bool path_is_sound(const ir_tensor *t, const plan_stage *stage,
                          const ir_nd_sbp *from, const ir_nd_sbp *to,
                          const plan_boxing *path, double seconds)
{
    plan_box_step s;
    double sum = 0;

    for (int32_t k = 0; k < path->n; k++) {
        if (!plan_box_step_make(t, &stage->mesh, &path->at[k], &path->at[k + 1],
                                &s))
            return false;
        sum += toy_seconds(NULL, stage, &s);
    }
    return ir_nd_sbp_equal(&path->at[0], from, stage->mesh.n) &&
           ir_nd_sbp_equal(&path->at[path->n], to, stage->mesh.n) &&
           fabs(sum - seconds) <= 1e-12 * (1 + sum);
}

static void test_choice(void)
{
    fs_arena *arena = fs_arena_create();
    plan_boxer *boxer =
        plan_boxer_create((plan_boxing_cost){.seconds = toy_seconds}, arena);
    plan_stage line = stage_of(1, 4, 0, 0), grid = stage_of(2, 2, 2, 0);
    ir_tensor t = cube(2, 512), odd = cube(1, 3);
    ir_nd_sbp s0 = parse("S(0)", 1), p = parse("P", 1), b = parse("B", 1);
    ir_nd_sbp from, to;
    plan_boxing path;
    double seconds;

    seconds = plan_boxer_find(boxer, &t, &line, &s0, &s0, &path);
    tap_ok(seconds == 0 && path.n == 0, "equal SBPs need no step");
    plan_boxer_find(boxer, &t, &line, &s0, &p, &path);
    tap_ok(path.n == 1, "S -> P is padded with zeros, not gathered first");
    plan_boxer_find(boxer, &t, &line, &p, &s0, &path);
    tap_ok(path.n == 1, "P -> S is a reduce-scatter, not all-reduce and slice");
    from = parse("(S(0),B)", 2);
    to = parse("(B,S(0))", 2);
    seconds = plan_boxer_find(boxer, &t, &grid, &from, &to, &path);
    tap_ok(path.n == 1 && path_is_sound(&t, &grid, &from, &to, &path, seconds),
           "a cut moves to another mesh axis in one step");
    tap_ok(isinf(plan_boxer_find(boxer, &odd, &line, &b, &s0, &path)),
           "there is no path to what does not fit");
    from = parse("P(max)", 1);
    tap_ok(!isinf(plan_boxer_find(boxer, &t, &line, &from, &p, NULL)),
           "a partial maximum becomes a partial sum through its value");
    plan_boxer_find(boxer, &t, &line, &p, &from, &path);
    tap_ok(path.n == 2 && path.at[1].at[0].kind == IR_S,
           "a sum becomes a partial maximum without being gathered");
    t.dtype = IR_I32;
    plan_boxer_find(boxer, &t, &line, &s0, &from, &path);
    tap_ok(path.n == 2 && path.at[1].at[0].kind == IR_B,
           "of whole numbers, which are not padded, all get all");
    fs_arena_destroy(arena);
}

/* From every SBP to layouts with halos on one axis and on both. */
static void test_halo_paths(void)
{
    static const char *const goals[] = {"(S(0)-1+1,B)", "(S(0)-1+1,S(1)-2+0)",
                                        "(P,S(1)-0+1)", "(S(1)-1+1,S(0))"};
    fs_arena *arena = fs_arena_create();
    plan_boxer *boxer =
        plan_boxer_create((plan_boxing_cost){.seconds = toy_seconds}, arena);
    plan_stage grid = stage_of(2, 2, 2, 0);
    ir_tensor t = cube(2, 64);
    ir_nd_sbp cut = parse("(S(0),S(1))", 2), whole = {0};
    int32_t unsound = 0, n = n_states(2, 2);
    plan_boxing path;

    for (size_t k = 0; k < sizeof goals / sizeof goals[0]; k++)
        for (int32_t i = 0; i < n; i++) {
            ir_nd_sbp from = nth_state(i, 2, 2), to = parse(goals[k], 2);
            double s = plan_boxer_find(boxer, &t, &grid, &from, &to, &path);
            unsound +=
                isinf(s) || !path_is_sound(&t, &grid, &from, &to, &path, s);
        }
    tap_equal_int(unsound, 0, "halos are reached from every SBP");
    ir_nd_sbp both = parse(goals[1], 2), one = parse(goals[0], 2);
    plan_boxer_find(boxer, &t, &grid, &cut, &both, &path);
    tap_ok(path.n == 2, "two cuts get two halos in two exchanges");
    plan_boxer_find(boxer, &t, &grid, &whole, &one, &path);
    tap_ok(path.n == 1, "what is whole is sliced with its halo");
    tap_ok(isinf(plan_boxer_find(boxer, &t, &grid, &one, &cut, NULL)),
           "no step leads on from a halo");
    fs_arena_destroy(arena);
}

static void test_memory_of_stage(void)
{
    fs_arena *arena = fs_arena_create();
    double slowdown = 1;
    plan_boxer *boxer = plan_boxer_create(
        (plan_boxing_cost){.seconds = toy_seconds, .ctx = &slowdown}, arena);
    plan_stage line = stage_of(1, 4, 0, 0), other = line;
    ir_tensor t = cube(2, 64);
    ir_nd_sbp p = parse("P", 1), b = parse("B", 1);
    double first, again, elsewhere;

    other.first_device = 4;
    first = plan_boxer_find(boxer, &t, &line, &p, &b, NULL);
    slowdown = 2;
    again = plan_boxer_find(boxer, &t, &line, &p, &b, NULL);
    elsewhere = plan_boxer_find(boxer, &t, &other, &p, &b, NULL);
    tap_ok(first == again, "paths are remembered");
    tap_near(elsewhere, 2 * first, 1e-12, "but per stage");
    fs_arena_destroy(arena);
}

/* Seconds of every step, INFINITY where there is none: [n * n]. */
static double *all_steps(const ir_tensor *t, const plan_stage *stage,
                         fs_arena *arena)
{
    const int32_t n = n_states(t->shape.rank, stage->mesh.n);
    double *seconds = fs_new(arena, double, n *n);

    for (int32_t i = 0; i < n; i++)
        for (int32_t k = 0; k < n; k++) {
            ir_nd_sbp f = nth_state(i, t->shape.rank, stage->mesh.n);
            ir_nd_sbp g = nth_state(k, t->shape.rank, stage->mesh.n);
            plan_box_step s;
            seconds[i * n + k] = plan_box_step_make(t, &stage->mesh, &f, &g, &s)
                                     ? toy_seconds(NULL, stage, &s)
                                     : INFINITY;
        }
    return seconds;
}

/* Bellman-Ford from what `best` says at first. */
static void relax(const double *steps, int32_t n, double *best)
{
    bool changed = true;

    while (changed) {
        changed = false;
        for (int32_t i = 0; i < n; i++)
            for (int32_t k = 0; k < n && !isinf(best[i]); k++) {
                const double d = best[i] + steps[i * n + k];
                if (d < best[k] - 1e-15) {
                    best[k] = d;
                    changed = true;
                }
            }
    }
}

static void reference_seconds(const double *steps, int32_t n, int32_t start,
                              double *best)
{
    for (int32_t i = 0; i < n; i++)
        best[i] = i == start ? 0 : INFINITY;
    relax(steps, n, best);
}

static void test_all_pairs(const char *name, plan_stage stage)
{
    fs_arena *arena = fs_arena_create();
    plan_boxer *boxer =
        plan_boxer_create((plan_boxing_cost){.seconds = toy_seconds}, arena);
    ir_tensor t = cube(3, 8);
    int32_t n = n_states(3, stage.mesh.n), lost = 0, unsound = 0, longest = 0;
    double *best = fs_new(arena, double, n), worst = 0;
    const double *steps = all_steps(&t, &stage, arena);

    for (int32_t i = 0; i < n; i++) {
        ir_nd_sbp from = nth_state(i, 3, stage.mesh.n);
        reference_seconds(steps, n, i, best);
        for (int32_t k = 0; k < n; k++) {
            ir_nd_sbp to = nth_state(k, 3, stage.mesh.n);
            plan_boxing path = {0};
            double s = plan_boxer_find(boxer, &t, &stage, &from, &to, &path);
            lost += isinf(s);
            unsound += !path_is_sound(&t, &stage, &from, &to, &path, s);
            longest = path.n > longest ? path.n : longest;
            if (fabs(s - best[k]) > 1e-12) {
                char f[64], g[64];
                printf("# %s -> %s: %.3g, not %.3g\n",
                       ir_nd_sbp_text(f, &from, stage.mesh.n),
                       ir_nd_sbp_text(g, &to, stage.mesh.n), s, best[k]);
            }
            worst = fmax(worst, fabs(s - best[k]));
        }
    }
    tap_equal_int(lost, 0, "mesh %s: every SBP is reached from every other",
                  name);
    tap_equal_int(unsound, 0,
                  "mesh %s: every path is made of legal steps, "
                  "longest %d",
                  name, (int)longest);
    tap_ok(worst < 1e-12, "mesh %s: no cheaper path exists", name);
    fs_arena_destroy(arena);
}

/* ---- between two meshes ---- */

/* What the busiest receiver takes. */
static double toy_crossing(void *ctx, const plan_cross *cross)
{
    const plan_exchange x = plan_cross_exchange(cross);
    fs_arena *arena = fs_arena_create();
    double most = 0;

    (void)ctx;
    for (int32_t me = 0; me < ir_mesh_size(&x.to_mesh); me++) {
        plan_shares shares = {0};
        double bytes = 0;
        plan_exchange_takes(&x, me, arena, &shares);
        for (int32_t i = 0; i < shares.n; i++)
            bytes += 4 * (double)ir_shape_count(&shares.at[i].box.shape);
        most = fmax(most, shares.n * latency_s + bytes / bandwidth_bps);
    }
    fs_arena_destroy(arena);
    return most;
}

static double toy_crossing_least(void *ctx, const plan_cross *cross)
{
    const ir_shape piece = ir_largest_piece(&cross->tensor->shape, &cross->to,
                                            &cross->to_stage->mesh);

    (void)ctx;
    return latency_s + 4 * (double)ir_shape_count(&piece) / bandwidth_bps;
}

static const plan_boxing_cost toys = {.seconds = toy_seconds,
                                      .crossing = toy_crossing,
                                      .crossing_least = toy_crossing_least};

/* Two Bellman-Fords with every crossing between them. */
typedef struct reference {
    int32_t n, m;
    double *from, *to, *over; /* [n * n], [m * m], [n * m] */
    double *here, *there;     /* [n], [m] */
} reference;

static reference make_reference(const plan_ends *ends, fs_arena *arena)
{
    const int32_t rank = ends->tensor->shape.rank;
    const ir_mesh *from = &ends->from_stage->mesh, *to = &ends->to_stage->mesh;
    reference r = {.n = n_states(rank, from->n), .m = n_states(rank, to->n)};

    r.from = all_steps(ends->tensor, ends->from_stage, arena);
    r.to = all_steps(ends->tensor, ends->to_stage, arena);
    r.over = fs_new(arena, double, r.n *r.m);
    r.here = fs_new(arena, double, r.n);
    r.there = fs_new(arena, double, r.m);
    for (int32_t i = 0; i < r.n; i++)
        for (int32_t k = 0; k < r.m; k++) {
            const plan_cross cross = {
                ends->tensor, ends->from_stage, ends->to_stage,
                nth_state(i, rank, from->n), nth_state(k, rank, to->n)};
            r.over[i * r.m + k] = plan_cross_is_legal(&cross)
                                      ? toy_crossing(NULL, &cross)
                                      : INFINITY;
        }
    return r;
}

static void reference_across(const reference *r, int32_t start)
{
    reference_seconds(r->from, r->n, start, r->here);
    for (int32_t k = 0; k < r->m; k++) {
        r->there[k] = INFINITY;
        for (int32_t i = 0; i < r->n; i++)
            r->there[k] = fmin(r->there[k], r->here[i] + r->over[i * r->m + k]);
    }
    relax(r->to, r->m, r->there);
}

static bool across_is_sound(const plan_ends *ends, const plan_boxing *path,
                            double seconds)
{
    double sum = 0;

    if (plan_path_wrong(ends, path) != NULL)
        return false;
    for (int32_t k = 0; k < path->n; k++) {
        plan_path_step s;
        plan_path_step_make(ends, path, k, &s);
        sum += s.crosses ? toy_crossing(NULL, &s.cross)
                         : toy_seconds(NULL, s.stage, &s.box);
    }
    return fabs(sum - seconds) <= 1e-12 * (1 + sum);
}

/* Everybody takes its piece, once or from each who holds a part of the sum. */
static bool moves_what_it_must(const plan_ends *ends, const plan_boxing *path)
{
    const plan_cross cross = {ends->tensor, ends->from_stage, ends->to_stage,
                              path->at[path->cross], path->at[path->cross + 1]};
    const plan_exchange x = plan_cross_exchange(&cross);
    int64_t wanted = 0, parts = 1;

    for (int32_t a = 0; a < x.from_mesh.n; a++)
        if (plan_exchange_folds(&x) != IR_B && ir_sbp_is_partial(x.from.at[a]))
            parts *= x.from_mesh.dim[a];
    for (int32_t me = 0; me < ir_mesh_size(&x.to_mesh); me++) {
        int32_t at[IR_MAX_MESH];
        ir_mesh_coords(&x.to_mesh, me, at);
        const ir_piece piece = ir_piece_of(&x.shape, &x.to, &x.to_mesh, at);
        wanted += parts * ir_shape_count(&piece.shape);
    }
    return plan_exchange_moved(&x) == wanted;
}

/* How many paths have how many steps. */
static const char *lengths_text(const int32_t *count, fs_arena *arena)
{
    fs_text text = {.arena = arena};

    for (int32_t n = 0; n <= PLAN_MAX_BOXING; n++)
        if (count[n])
            fs_text_add(&text, "%s%d of %d", text.n ? ", " : "", (int)count[n],
                        (int)n);
    return text.at ? text.at : "none";
}

static void test_across(const char *name, plan_stage from_stage,
                        plan_stage to_stage)
{
    fs_arena *arena = fs_arena_create();
    plan_boxer *boxer = plan_boxer_create(toys, arena);
    ir_tensor t = cube(3, 9);
    int32_t n = n_states(3, from_stage.mesh.n),
            m = n_states(3, to_stage.mesh.n);
    int32_t unsound = 0, moved = 0, length[PLAN_MAX_BOXING + 1] = {0};
    double worst = 0;

    to_stage.first_device = ir_mesh_size(&from_stage.mesh);
    plan_ends ends = {&t, &from_stage, &to_stage, NULL, NULL, false};
    const reference best = make_reference(&ends, arena);
    for (int32_t i = 0; i < n; i++) {
        ir_nd_sbp from = nth_state(i, 3, from_stage.mesh.n), to;
        ends.from = &from;
        ends.to = &to;
        reference_across(&best, i);
        for (int32_t k = 0; k < m; k++) {
            plan_boxing path = {0};
            to = nth_state(k, 3, to_stage.mesh.n);
            double s = plan_boxer_join(boxer, &ends, &path);
            unsound += isinf(s) || !across_is_sound(&ends, &path, s);
            moved += !moves_what_it_must(&ends, &path);
            length[path.n]++;
            worst = fmax(worst, fabs(s - best.there[k]));
        }
    }
    tap_equal_int(unsound, 0,
                  "%s: every SBP is reached from every other by legal steps: "
                  "%s steps",
                  name, lengths_text(length, arena));
    tap_ok(worst < 1e-12, "%s: no cheaper path exists (%.1e)", name, worst);
    tap_equal_int(moved, 0, "%s: nobody receives more than it must", name);
    fs_arena_destroy(arena);
}

/* Ten times slower than links within. */
static double slow_crossing(void *ctx, const plan_cross *cross)
{
    return 10 * toy_crossing(ctx, cross);
}

/* Equal copies of a large tensor need not all cross. */
static void test_across_slowly(void)
{
    fs_arena *arena = fs_arena_create();
    plan_boxing_cost slow = toys;
    slow.crossing = slow_crossing;
    plan_boxer *boxer = plan_boxer_create(slow, arena);
    plan_stage four = stage_of(1, 4, 0, 0), next = four;
    ir_tensor large = cube(2, 1024), small = cube(2, 4);
    ir_nd_sbp b = parse("B", 1);
    plan_boxing path;

    next.first_device = 4;
    plan_ends ends = {&large, &four, &next, &b, &b, false};
    plan_boxer_join(boxer, &ends, &path);
    tap_ok(path.n == 2 && path.cross == 0 && path.at[1].at[0].kind == IR_S,
           "copies cross a slow link once: each moves a part, gathered there");
    ends.tensor = &small;
    plan_boxer_join(boxer, &ends, &path);
    tap_ok(path.n == 1, "or each by itself, where messages are what costs");
    fs_arena_destroy(arena);
}

/* What lies alike on equal meshes may move as it is; a halo is received with
 * its piece; inputs are made where they are read. */
static void test_across_choices(void)
{
    fs_arena *arena = fs_arena_create();
    plan_boxer *boxer = plan_boxer_create(toys, arena);
    plan_stage four = stage_of(1, 4, 0, 0), next = four,
               two = stage_of(1, 2, 0, 0);
    ir_tensor t = cube(2, 512);
    ir_nd_sbp s0 = parse("S(0)", 1), p = parse("P", 1), b = parse("B", 1);
    ir_nd_sbp halo = parse("S(0)-1+1", 1);
    plan_boxing path;

    next.first_device = two.first_device = 4;
    plan_ends ends = {&t, &four, &next, &p, &p, false};
    plan_boxer_join(boxer, &ends, &path);
    tap_ok(path.n == 1, "partial sums stay partial between equal meshes");
    ends = (plan_ends){&t, &four, &two, &p, &s0, false};
    plan_boxer_join(boxer, &ends, &path);
    tap_ok(path.n >= 1 && path.at[path.cross + 1].at[0].kind != IR_B,
           "a sum is not gathered whole before it is cut again");
    ends.to = &p;
    tap_ok(!isinf(plan_boxer_join(boxer, &ends, &path)) && path.n > 1,
           "partial sums get to a mesh of another size by their values");
    ends = (plan_ends){&t, &four, &two, &s0, &halo, false};
    plan_boxer_join(boxer, &ends, &path);
    tap_ok(path.n == 1, "a halo is received with its piece");
    ends = (plan_ends){&t, &four, &two, &halo, &b, false};
    tap_ok(isinf(plan_boxer_join(boxer, &ends, NULL)),
           "what has a halo does not cross");
    ends = (plan_ends){&t, &four, &two, &s0, &b, true};
    tap_ok(plan_boxer_join(boxer, &ends, &path) == 0 && path.n == 0,
           "an input is made on another mesh as it is wanted");
    ends.to = &p;
    plan_boxer_join(boxer, &ends, &path);
    tap_ok(path.n == 1 && path.at[0].at[0].kind == IR_B &&
               plan_path_wrong(&ends, &path) == NULL,
           "whole, where partial sums are wanted");
    fs_arena_destroy(arena);
}

int main(void)
{
    test_rows();
    test_refusals();
    test_data();
    test_halo_data();
    test_choice();
    test_halo_paths();
    test_memory_of_stage();
    test_all_pairs("(4)", stage_of(1, 4, 0, 0));
    test_all_pairs("(2,2)", stage_of(2, 2, 2, 0));
    test_all_pairs("(2,2,2)", stage_of(3, 2, 2, 2));
    test_across("[4] -> [2]", stage_of(1, 4, 0, 0), stage_of(1, 2, 0, 0));
    test_across("[2] -> [4]", stage_of(1, 2, 0, 0), stage_of(1, 4, 0, 0));
    test_across("[2,2] -> [4]", stage_of(2, 2, 2, 0), stage_of(1, 4, 0, 0));
    test_across("[4] -> [2,2]", stage_of(1, 4, 0, 0), stage_of(2, 2, 2, 0));
    test_across("[3] -> [3]", stage_of(1, 3, 0, 0), stage_of(1, 3, 0, 0));
    test_across("[2,2,2] -> [3]", stage_of(3, 2, 2, 2), stage_of(1, 3, 0, 0));
    test_across_choices();
    test_across_slowly();
    return tap_done();
}
