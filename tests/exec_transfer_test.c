/* Boxing steps against plain loops over the definition of SBP: random shapes
 * and SBPs on every mesh of the ranks there are. */
#include "config.h"

#include "exec/piece.h"
#include "exec/transfer.h"

#include "tests/exec_ranks.h"

#include <math.h>

typedef struct trial {
    ir_tensor tensor;
    ir_mesh mesh;
    int32_t coords[IR_MAX_MESH];
    plan_box_step step;
} trial;

/* What the rank at `coords` holds of element e: partial sums differ by rank,
 * replicas do not. */
static double held_value(const trial *t, const ir_nd_sbp *sbp,
                         const int32_t *coords, int64_t e)
{
    uint64_t key = 7;
    for (int32_t a = 0; a < t->mesh.n; a++)
        if (ir_sbp_is_partial(sbp->at[a]))
            key = fs_mix(key ^ (uint64_t)(coords[a] + 1) << (8 * a));
    double unit = fs_draw_unit(key, (uint64_t)e);
    bool whole = t->tensor.dtype == IR_I32 || t->tensor.dtype == IR_I64;
    return whole ? floor(unit * 2000.0) - 1000.0 : unit - 0.5;
}

static void store(ir_dtype dtype, void *at, int64_t i, double value)
{
    if (dtype == IR_F32)
        ((float *)at)[i] = (float)value;
    else if (dtype == IR_F64)
        ((double *)at)[i] = value;
    else if (dtype == IR_I32)
        ((int32_t *)at)[i] = (int32_t)value;
    else
        ((int64_t *)at)[i] = (int64_t)value;
}

/* Element of the whole tensor -> the value that must stand after the step. */
static void expect_value(const trial *t, int64_t e, const int64_t *index,
                         int64_t i, void *out)
{
    int32_t axis = t->step.axis, n = t->mesh.dim[axis];
    ir_sbp from = t->step.from.at[axis];
    ir_dtype dtype = t->tensor.dtype;
    double value = 0.0;
    int32_t at[IR_MAX_MESH];
    memcpy(at, t->coords, sizeof at);
    if (ir_sbp_is_partial(from)) {
        char one[8];
        char *sum = (char *)out + i * ir_dtype_bytes(dtype);
        for (int32_t p = 0; p < n; p++) {
            at[axis] = p;
            value = held_value(t, &t->step.from, at, e);
            store(dtype, p ? one : sum, 0, value);
            if (p)
                exec_fold((ir_sbp_kind)from.kind, dtype, sum, one, 1);
        }
        return;
    }
    bool mine = true;
    if (t->step.kind == PLAN_ZERO_FILL)
        mine = t->coords[axis] == 0;
    if (t->step.kind == PLAN_ZERO_PAD) {
        ir_shape local;
        int64_t offset[IR_MAX_RANK];
        ir_local_piece(&t->tensor.shape, &t->step.from, &t->mesh, t->coords,
                       &local, offset);
        int64_t d = index[from.axis] - offset[from.axis];
        mine = d >= 0 && d < local.dim[from.axis];
    }
    if (mine)
        value = held_value(t, &t->step.from, at, e);
    store(dtype, out, i, value);
}

typedef void element_fn(const trial *t, int64_t e, const int64_t *index,
                        int64_t i, void *out);

static void hold_element(const trial *t, int64_t e, const int64_t *index,
                         int64_t i, void *out)
{
    (void)index;
    store(t->tensor.dtype, out, i, held_value(t, &t->step.from, t->coords, e));
}

/* Calls `fn` for each element of the local piece under `sbp`. */
static int64_t fill_piece(const trial *t, const ir_nd_sbp *sbp, element_fn *fn,
                          void *out)
{
    ir_shape local;
    int64_t offset[IR_MAX_RANK], index[IR_MAX_RANK];
    ir_local_piece(&t->tensor.shape, sbp, &t->mesh, t->coords, &local, offset);
    int64_t n = ir_shape_count(&local);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, e = 0;
        for (int32_t d = local.rank - 1; d >= 0; d--) {
            index[d] = offset[d] + rest % local.dim[d];
            rest /= local.dim[d];
        }
        for (int32_t d = 0; d < local.rank; d++)
            e = e * t->tensor.shape.dim[d] + index[d];
        fn(t, e, index, i, out);
    }
    return n * ir_dtype_bytes(t->tensor.dtype);
}

static void run_transfer(exec_transfer *transfer, const void *in, void *out,
                         void *scratch, int64_t bytes)
{
    bool moved;
    exec_transfer_start(transfer, in, out, scratch, bytes);
    while (!exec_transfer_poll(transfer, &moved))
        ;
}

static int64_t run_trial(exec_world *world, trial *t, int32_t tag)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    const plan_box_step *s = &t->step;
    int32_t n = t->mesh.dim[s->axis], ranks[64], at[IR_MAX_MESH];
    memcpy(at, t->coords, sizeof at);
    for (at[s->axis] = 0; at[s->axis] < n; at[s->axis]++)
        ranks[at[s->axis]] = ir_mesh_rank(&t->mesh, at);
    exec_box_spec spec = {.kind = s->kind,
                          .from = s->from.at[s->axis],
                          .to = s->to.at[s->axis],
                          .dtype = t->tensor.dtype,
                          .n = n,
                          .me = t->coords[s->axis],
                          .ranks = ranks,
                          .tag = tag};
    ir_nd_sbp whole = s->from;
    whole.at[s->axis] = IR_SBP_B;
    ir_local_piece(&t->tensor.shape, &whole, &t->mesh, t->coords, &spec.whole,
                   NULL);
    exec_transfer *transfer = NULL;
    int64_t room = s->bytes_in + s->bytes_out;
    char *in = fs_new(arena, char, room), *out = fs_new(arena, char, room);
    char *wanted = fs_new(arena, char, room);
    char *scratch = fs_new(arena, char, room);
    fill_piece(t, &s->from, hold_element, in);
    int64_t bytes = fill_piece(t, &s->to, expect_value, wanted);
    int64_t wrong = 1;
    if (exec_transfer_box(world, &spec, arena, &err, &transfer) == FS_OK &&
        exec_transfer_scratch(transfer) <= room) {
        for (int again = 0; again < 2; again++) {
            memset(out, 0xa5, (size_t)room);
            run_transfer(transfer, in, out, scratch, room);
            wrong = memcmp(out, wanted, (size_t)bytes) != 0;
        }
        exec_transfer_release(transfer);
    }
    fs_arena_destroy(arena);
    return wrong;
}

static ir_sbp draw_sbp(uint64_t *seed, int32_t rank, ir_dtype dtype)
{
    int64_t k = fs_rand_below(seed, rank + 3);
    if (k < rank)
        return IR_SBP_S(k);
    if (k == rank)
        return IR_SBP_B;
    bool plain = dtype == IR_F64 || fs_rand_below(seed, 2);
    ir_sbp extreme = fs_rand_below(seed, 2) ? IR_SBP_PMAX : IR_SBP_PMIN;
    return plain ? IR_SBP_P : extreme;
}

/* What has a halo is only ever gone to, from S of the same axis or from B. */
static ir_sbp draw_target(uint64_t *seed, ir_sbp from, int32_t rank,
                          ir_dtype dtype)
{
    ir_sbp to = draw_sbp(seed, rank, dtype);
    if (from.kind == IR_S && fs_rand_below(seed, 3) == 0)
        to = from;
    if (to.kind != IR_S || fs_rand_below(seed, 2))
        return to;
    to.before = (uint8_t)fs_rand_below(seed, 3);
    to.after = (uint8_t)fs_rand_below(seed, 3);
    return to;
}

static void draw_mesh(uint64_t *seed, int32_t size, ir_mesh *out)
{
    *out = (ir_mesh){1, {size}};
    for (int32_t cut = 2; cut < size; cut++)
        if (size % cut == 0 && fs_rand_below(seed, 2))
            *out = (ir_mesh){2, {cut, size / cut}};
}

/* False when the drawn pair is no step of the table. */
static bool draw_trial(exec_world *world, uint64_t *seed, trial *t)
{
    memset(t, 0, sizeof *t);
    draw_mesh(seed, world->size, &t->mesh);
    ir_mesh_coords(&t->mesh, world->rank, t->coords);
    t->tensor.name = "x";
    t->tensor.dtype = (ir_dtype)fs_rand_below(seed, 4);
    t->tensor.shape.rank = (int32_t)fs_rand_below(seed, 5);
    int64_t longest = fs_rand_below(seed, 4) ? 9 : 40;
    for (int32_t d = 0; d < t->tensor.shape.rank; d++)
        t->tensor.shape.dim[d] = 1 + fs_rand_below(seed, longest);
    ir_nd_sbp from = {0};
    for (int32_t a = 0; a < t->mesh.n; a++)
        from.at[a] = draw_sbp(seed, t->tensor.shape.rank, t->tensor.dtype);
    ir_nd_sbp to = from;
    int32_t axis = (int32_t)fs_rand_below(seed, t->mesh.n);
    to.at[axis] =
        draw_target(seed, from.at[axis], t->tensor.shape.rank, t->tensor.dtype);
    return plan_box_step_make(&t->tensor, &t->mesh, &from, &to, &t->step);
}

static void test_boxing(exec_world *world, uint64_t seed)
{
    int64_t wrong[PLAN_BOX_KINDS] = {0}, tried[PLAN_BOX_KINDS] = {0};
    for (int32_t k = 0; k < 3000; k++) {
        trial t;
        if (!draw_trial(world, &seed, &t))
            continue;
        tried[t.step.kind]++;
        wrong[t.step.kind] += run_trial(world, &t, 1 + k % 3);
    }
    for (int32_t kind = 0; kind < PLAN_BOX_KINDS; kind++)
        ranks_ok(world, wrong[kind] + (tried[kind] == 0),
                 "%s is its definition, bit by bit (%lld trials on %d ranks)",
                 plan_box_name((plan_box_kind)kind), (long long)tried[kind],
                 world->size);
}

/* Rank r sends n floats to rank r + 1, in a ring. */
static void test_moves(exec_world *world)
{
    enum { N = 100000 };
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    float *in = fs_new(arena, float, N), *out = fs_new(arena, float, N);
    int32_t next = (world->rank + 1) % world->size;
    int32_t last = (world->rank + world->size - 1) % world->size;
    exec_transfer *send = NULL, *recv = NULL;
    int64_t wrong = 0, bytes = N * (int64_t)sizeof *in;
    exec_transfer_send(world, next, 9, bytes, arena, &err, &send);
    exec_transfer_recv(world, last, 9, bytes, arena, &err, &recv);
    for (int32_t i = 0; i < N; i++)
        in[i] = (float)(world->rank * 1000 + i % 1000);
    exec_transfer_start(send, in, NULL, NULL, 0);
    exec_transfer_start(recv, NULL, out, NULL, 0);
    bool sent = false, received = false, moved;
    while (!sent || !received) {
        sent = sent || exec_transfer_poll(send, &moved);
        received = received || exec_transfer_poll(recv, &moved);
    }
    for (int32_t i = 0; i < N; i++)
        wrong += out[i] != (float)(last * 1000 + i % 1000);
    ranks_ok(world, wrong, "a message arrives as it was sent");
    fs_arena_destroy(arena);
}

static void test_big(exec_world *world)
{
    trial t = {
        .tensor = {.name = "big", .dtype = IR_F32, .shape = {2, {257, 4099}}},
        .mesh = {1, {world->size}}};
    ir_mesh_coords(&t.mesh, world->rank, t.coords);
    ir_nd_sbp sbp[4] = {
        {{IR_SBP_P}}, {{IR_SBP_B}}, {{IR_SBP_S(0)}}, {{IR_SBP_S(1)}}};
    int64_t wrong = 0, tried = 0;
    for (int from = 0; from < 4; from++)
        for (int to = 0; to < 4; to++)
            if (plan_box_step_make(&t.tensor, &t.mesh, &sbp[from], &sbp[to],
                                   &t.step)) {
                tried++;
                wrong += run_trial(world, &t, 4);
            }
    ranks_ok(world, wrong + (tried == 0),
             "pieces of megabytes arrive whole (%lld conversions)",
             (long long)tried);
}

int main(void)
{
    exec_world *world = ranks_open();
    if (world->size == 1) {
        tap_skip("exec_ranks_test.sh runs it on several",
                 "one rank has nobody to talk to");
        return ranks_done(world);
    }
    test_boxing(world, ranks_seed(world, 20261121));
    test_moves(world);
    test_big(world);
    return ranks_done(world);
}
