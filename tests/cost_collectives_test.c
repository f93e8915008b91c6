/* Collectives and moves against closed forms. */
#include "config.h"
#include "cost/parts.h"

#include "base/hash.h"

#include "tap.h"

static fs_arena *arena;

enum { MIB = 1 << 20 };

/* `nodes` x `devices`, inner 10 us and 100 GB/s, outer 50 us and 80 GB/s on
 * `nics` NICs. */
static hw_cluster *make_cluster(int32_t nodes, int32_t devices, int32_t nics)
{
    hw_cluster *c = fs_new(arena, hw_cluster, 1);
    c->name = "test";
    c->n_groups = 1;
    c->groups = fs_new(arena, hw_group, 1);
    c->groups[0] = (hw_group){.nodes = nodes,
                              .devices_per_node = devices,
                              .device = {.name = "d",
                                         .memory_bytes = 1e9,
                                         .memory_bps = 1e12,
                                         .fp32_flops = 1e13,
                                         .matmul_efficiency = 0.5,
                                         .memory_efficiency = 0.8,
                                         .launch_s = 1e-6},
                              .inner = {"inner", 10e-6, 100e9, false},
                              .memory = {"memory", 1e-6, 400e9, false}};
    c->outer = (hw_link){"outer", 50e-6, 80e9, false};
    c->nics_per_node = nics;
    hw_cluster_finish(c);
    return c;
}

static plan_stage stage_of(int32_t n_axes, int32_t d0, int32_t d1)
{
    return (plan_stage){.mesh = {n_axes, {d0, d1}}};
}

static plan_box_step step_of(plan_box_kind kind, int32_t axis, int64_t whole,
                             int32_t n)
{
    plan_box_step step = {.kind = kind,
                          .axes = 1u << axis,
                          .bytes_in = whole,
                          .bytes_out = whole};
    if (kind == PLAN_ALL_GATHER)
        step.bytes_in = whole / n;
    if (kind == PLAN_REDUCE_SCATTER || kind == PLAN_SLICE)
        step.bytes_out = whole / n;
    return step;
}

static double seconds_of(const hw_cluster *c, plan_stage stage,
                         plan_box_kind kind, int32_t axis, int64_t whole)
{
    cost_model *model = cost_model_create(c, arena);
    plan_box_step step = step_of(kind, axis, whole, stage.mesh.dim[axis]);
    return cost_box_step(model, &stage, &step).total_s;
}

static void test_ring(void)
{
    const hw_cluster *c = make_cluster(1, 8, 1);
    plan_stage s = stage_of(1, 8, 0);
    double big = 512.0 * MIB, small = 4096;
    tap_near(seconds_of(c, s, PLAN_ALL_REDUCE, 0, 512 * MIB),
             2 * 7 / 8.0 * big / 100e9 + 14 * 10e-6, 1e-9,
             "all-reduce: 2 (n-1)/n bytes / bw + 2 (n-1) latencies");
    tap_near(seconds_of(c, s, PLAN_ALL_GATHER, 0, 512 * MIB),
             7 / 8.0 * big / 100e9 + 7 * 10e-6, 1e-9,
             "all-gather: (n-1)/n bytes / bw + (n-1) latencies");
    tap_near(seconds_of(c, s, PLAN_REDUCE_SCATTER, 0, 512 * MIB),
             7 / 8.0 * big / 100e9 + 7 * 10e-6, 1e-9,
             "reduce-scatter: (n-1)/n bytes / bw + (n-1) latencies");
    tap_near(seconds_of(c, s, PLAN_ALL_TO_ALL, 0, 512 * MIB),
             7 / 8.0 * big / 100e9 + 7 * 10e-6, 1e-9,
             "all-to-all: (n-1)/n bytes / bw + (n-1) latencies");
    tap_near(seconds_of(c, s, PLAN_ALL_REDUCE, 0, 4096),
             2 * small / 100e9 + 6 * 10e-6, 1e-9,
             "a small all-reduce takes the tree: 2 log2 n latencies");
}

static void test_nodes(void)
{
    const hw_cluster *c = make_cluster(2, 4, 4);
    double bytes = 512.0 * MIB;
    double ring = 2 * 7 / 8.0 * bytes / 80e9 + 14 * 50e-6;
    double levels = 2 * (3 / 4.0 * bytes / 100e9 + 3 * 10e-6 +
                         1 / 2.0 * (bytes / 4) / 20e9 + 50e-6);
    tap_near(seconds_of(c, stage_of(1, 8, 0), PLAN_ALL_REDUCE, 0, 512 * MIB),
             fmin(ring, levels), 1e-9,
             "over two nodes: the better of flat ring and two levels");
    double lone = 2 * 1 / 2.0 * bytes / 20e9 + 2 * 50e-6;
    tap_near(seconds_of(c, stage_of(2, 2, 4), PLAN_ALL_REDUCE, 0, 512 * MIB),
             lone, 1e-9,
             "four communicators leave a node at once: a quarter each");
    tap_near(seconds_of(c, stage_of(2, 2, 4), PLAN_ALL_REDUCE, 1, 512 * MIB),
             2 * 3 / 4.0 * bytes / 100e9 + 6 * 10e-6, 1e-9,
             "the inner mesh axis stays on the node");
    tap_near(seconds_of(c, stage_of(2, 4, 2), PLAN_ALL_GATHER, 0, 512 * MIB),
             fmin(3 / 4.0 * bytes / 40e9 + 3 * 50e-6,
                  1 / 2.0 * bytes / 100e9 + 10e-6 +
                      1 / 2.0 * (bytes / 2) / 20e9 + 50e-6),
             1e-9, "two communicators of two members a node: half each");
    tap_near(seconds_of(make_cluster(2, 4, 1), stage_of(2, 4, 2),
                        PLAN_ALL_TO_ALL, 0, 512 * MIB),
             fmax(1 / 4.0 * bytes / 100e9, 2 * 2 / 4.0 * bytes / 40e9) +
                 3 * 50e-6,
             1e-9, "all-to-all: inside and outside at once, the later counts");
}

static void test_placement(void)
{
    const hw_cluster *c = make_cluster(3, 4, 1);
    plan_stage s = stage_of(1, 4, 0);
    double inside = seconds_of(c, s, PLAN_ALL_GATHER, 0, MIB);
    s.first_device = 4;
    tap_near(seconds_of(c, s, PLAN_ALL_GATHER, 0, MIB), inside, 1e-12,
             "a stage on the second node stays on it");
    s.first_device = 2;
    tap_near(seconds_of(c, s, PLAN_ALL_GATHER, 0, MIB),
             fmin(3 / 4.0 * MIB / 80e9 + 3 * 50e-6,
                  1 / 2.0 * MIB / 100e9 + 10e-6 + 1 / 4.0 * MIB / 40e9 + 50e-6),
             1e-9, "a stage astride two nodes crosses them");
    s = stage_of(1, 6, 0);
    tap_near(seconds_of(c, s, PLAN_ALL_GATHER, 0, 6 * MIB),
             5 * MIB / 80e9 + 5 * 50e-6, 1e-9,
             "uneven nodes: no two levels, the flat ring");
}

static hw_cluster *make_cores(void)
{
    hw_cluster *c = make_cluster(1, 4, 1);
    c->groups[0].inner = (hw_link){"shared memory", 1e-6, 5e9, true};
    c->groups[0].cores_per_node = 2;
    hw_cluster_finish(c);
    return c;
}

static void test_cores(void)
{
    const hw_cluster *c = make_cores();
    cost_model *model = cost_model_create(c, arena);
    plan_stage s = stage_of(1, 4, 0);
    plan_box_step step = step_of(PLAN_ALL_REDUCE, 0, MIB, 4);
    cost_model_reduce_by(model, PLAN_BY_direct);
    plan_demand d = cost_box_step(model, &s, &step);
    tap_near(d.latency_s, 6e-6, 1e-9, "on cores: 2 (n-1) messages");
    tap_near(d.network_s, 2 * 3 / 4.0 * MIB / 5e9, 1e-9,
             "on cores: two direct exchanges of bytes / n");
    tap_near(d.memory_s, (MIB + MIB / 4.0) / 0.8e12, 1e-9,
             "on cores: the sum reads n pieces and writes one");
    tap_ok(d.on_core, "on cores: it occupies them");
    tap_near(cost_shared_seconds(model, &s, &d), 2 * d.total_s, 1e-12,
             "four ranks on two cores take twice as long");
    plan_boxing_cost boxing = cost_boxing(model);
    tap_near(boxing.seconds(boxing.ctx, &s, &step), 2 * d.total_s, 1e-12,
             "search counts the shared seconds");
}

/* Pipelines: idle devices leave their core to others. */
static void test_busy(void)
{
    hw_cluster *c = make_cores();
    c->groups[0].turn_s = 1e-3;
    cost_model *model = cost_model_create(c, arena);
    plan_stage a = stage_of(1, 1, 0), b = a;
    b.first_device = 1;
    plan_demand work = {.total_s = 1, .on_core = true};
    const cost_model *five = cost_model_for(model, 4, 5, arena);
    const cost_model *one = cost_model_for(model, 4, 1, arena);
    tap_ok(cost_model_for(model, 1, 8, arena) == model,
           "one stage is always busy");
    tap_near(cost_shared_seconds(five, &a, &work), 5 / 8.0 * 4 / 2, 1e-12,
             "4 stages, 5 micro-batches: 5/8 of 4 devices share 2 cores");
    tap_near(cost_shared_seconds(one, &a, &work), 1, 1e-12,
             "4 stages, 1 micro-batch: one device works, with a core");
    plan_demand move = cost_p2p(model, &a, &b, MIB);
    double bytes_s = MIB / c->groups[0].inner.bandwidth_bps;
    tap_near(move.latency_s, c->groups[0].inner.latency_s + 1e-3 / 2, 1e-12,
             "a move waits its turn, less what sharing will stretch");
    move = cost_p2p(five, &a, &b, MIB);
    tap_near(cost_shared_seconds(five, &b, &move),
             1e-3 + 1.25 * (c->groups[0].inner.latency_s + bytes_s), 1e-12,
             "a turn is of the clock: no sharing stretches it");
    c->groups[0].cores_per_node = 4;
    tap_ok(cost_model_for(model, 4, 5, arena) == model,
           "a core for each: nothing to share");
}

static void test_local(void)
{
    const hw_cluster *c = make_cluster(1, 4, 1);
    cost_model *model = cost_model_create(c, arena);
    plan_stage s = stage_of(1, 4, 0);
    plan_box_step step = step_of(PLAN_SLICE, 0, 4 * MIB, 4);
    tap_near(cost_box_step(model, &s, &step).total_s, MIB / 400e9 + 1e-6, 1e-9,
             "a slice copies what it keeps");
    step = step_of(PLAN_ZERO_FILL, 0, 4 * MIB, 4);
    tap_near(cost_box_step(model, &s, &step).total_s, 4 * MIB / 400e9 + 1e-6,
             1e-9, "a zero fill writes all");
    step.bytes_in = step.bytes_out = 0;
    plan_boxing_cost boxing = cost_boxing(model);
    tap_ok(boxing.seconds(boxing.ctx, &s, &step) > 0, "no step is free");
    tap_near(cost_load(model, &s, MIB).total_s, MIB / 400e9 + 1e-6, 1e-9,
             "loading is a copy");
}

static void test_p2p(void)
{
    const hw_cluster *c = make_cluster(2, 4, 2);
    cost_model *model = cost_model_create(c, arena);
    plan_stage a = stage_of(1, 2, 0), b = a, d = stage_of(1, 4, 0), e = d;
    b.first_device = 2;
    tap_near(cost_p2p(model, &a, &b, MIB).total_s, MIB / 100e9 + 10e-6, 1e-9,
             "point to point inside a node");
    b.first_device = 4;
    tap_near(cost_p2p(model, &a, &b, MIB).total_s, MIB / 40e9 + 50e-6, 1e-9,
             "two senders on two NICs: one each");
    e.first_device = 4;
    tap_near(cost_p2p(model, &d, &e, MIB).total_s, MIB / 20e9 + 50e-6, 1e-9,
             "four senders on two NICs: half of one each");
    b.first_device = 3;
    tap_near(cost_p2p(model, &a, &b, MIB).total_s, MIB / 40e9 + 50e-6, 1e-9,
             "the slowest position counts");
}

/* From position to position, one by one. */
static double p2p_of(const hw_cluster *c, const plan_stage *from,
                     const plan_stage *to, double bytes)
{
    const int32_t size = ir_mesh_size(&from->mesh);
    double worst = 0;
    for (int32_t i = 0; i < size; i++) {
        const int32_t a = from->first_device + i, b = to->first_device + i;
        hw_link link = *hw_link_between(c, a, b);
        int32_t senders = 0;
        for (int32_t k = 0; k < size; k++)
            senders +=
                hw_node_of(c, from->first_device + k) == hw_node_of(c, a) &&
                hw_node_of(c, to->first_device + k) != hw_node_of(c, a);
        if (hw_node_of(c, a) != hw_node_of(c, b))
            link = hw_outer_share(c, senders, 1);
        worst = fmax(worst, link.latency_s + bytes / link.bandwidth_bps);
    }
    return worst;
}

/* Nodes of one kind, told as two groups of them: each node is looked at. */
static void test_p2p_of_many(void)
{
    uint64_t rng = tap_seed(77);
    int32_t wrong = 0, off = 0;
    for (int32_t k = 0; k < 300; k++) {
        const int32_t per = 1 + (int32_t)fs_rand_below(&rng, 5);
        hw_cluster *one = make_cluster(16, per, 2),
                   *two = make_cluster(16, per, 2);
        const int32_t size =
            1 + (int32_t)fs_rand_below(&rng, one->n_devices / 2);
        hw_group halves[2] = {one->groups[0], one->groups[0]};
        halves[0].nodes = halves[1].nodes = 8;
        two->n_groups = 2;
        two->groups = halves;
        plan_stage from = stage_of(1, size, 0), to = from;
        from.first_device =
            (int32_t)fs_rand_below(&rng, one->n_devices - 2 * size + 1);
        to.first_device =
            from.first_device + size +
            (int32_t)fs_rand_below(&rng, one->n_devices - from.first_device -
                                             2 * size + 1);
        const bool back = fs_rand_below(&rng, 2);
        const double each =
            p2p_of(one, back ? &to : &from, back ? &from : &to, MIB);
        off += fabs(cost_p2p(cost_model_create(one, arena), back ? &to : &from,
                             back ? &from : &to, MIB)
                        .total_s -
                    each) > 1e-12 * each;
        wrong += cost_p2p(cost_model_create(one, arena), back ? &to : &from,
                          back ? &from : &to, MIB)
                     .total_s != cost_p2p(cost_model_create(two, arena),
                                          back ? &to : &from,
                                          back ? &from : &to, MIB)
                                     .total_s;
    }
    tap_equal_int(wrong, 0, "of many equal nodes the first and the last tell");
    tap_equal_int(off, 0, "and each position takes no longer");
}

/* Where else on nodes of one kind a stage lies does not matter. */
static void test_routes_elsewhere(void)
{
    hw_cluster *c = make_cluster(12, 4, 2);
    cost_model *model = cost_model_create(c, arena);
    uint64_t rng = tap_seed(78);
    int32_t wrong = 0;
    for (int32_t k = 0; k < 400; k++) {
        plan_stage s = stage_of(2, 1 + (int32_t)fs_rand_below(&rng, 4),
                                2 + (int32_t)fs_rand_below(&rng, 4));
        s.first_device =
            (int32_t)fs_rand_below(&rng, 48 - ir_mesh_size(&s.mesh) + 1);
        const plan_box_step step = {.kind = PLAN_ALL_GATHER,
                                    .axes = 2,
                                    .bytes_in = MIB,
                                    .bytes_out = 4 * MIB};
        fs_arena *once = fs_arena_create();
        const double fresh =
            cost_box_step(cost_model_create(c, once), &s, &step).total_s;
        fs_arena_destroy(once);
        wrong += fabs(cost_box_step(model, &s, &step).total_s - fresh) > 0;
    }
    tap_equal_int(wrong, 0,
                  "a stage's routes are those of one that lies alike");
}

static plan_demand crossing(cost_model *model, const plan_stage *from,
                            const plan_stage *to, ir_sbp out, ir_sbp in)
{
    static const ir_tensor t = {
        .name = "t", .dtype = IR_F32, .shape = {2, {1024, 1024}}}; /* 4 MiB */
    const plan_cross cross = {&t, from, to, {{out}}, {{in}}};
    return cost_cross(model, &cross);
}

/* Two nodes of four devices, a NIC each: 4 MiB over to the other. */
static void test_across(void)
{
    const ir_sbp whole = IR_SBP_B, rows = IR_SBP_S(0), columns = IR_SBP_S(1);
    cost_model *model = cost_model_create(make_cluster(2, 4, 4), arena);
    plan_stage four = stage_of(1, 4, 0), two = stage_of(1, 2, 0), next = four;
    two.first_device = next.first_device = 4;
    tap_near(crossing(model, &four, &two, rows, rows).total_s,
             2 * 50e-6 + 2 * MIB / 20e9, 1e-9,
             "[4] to [2], cut alike: each receives from two");
    tap_near(crossing(model, &four, &two, rows, columns).total_s,
             4 * 50e-6 + 2 * MIB / 20e9, 1e-9, "cut otherwise: from all four");
    tap_near(crossing(model, &two, &four, whole, rows).total_s,
             2 * 50e-6 + 2 * MIB / 20e9, 1e-9,
             "[2] to [4]: each copy is sent in halves");
    tap_near(crossing(model, &four, &two, IR_SBP_P, rows).total_s,
             4 * 50e-6 + 8 * MIB / 20e9 + 5 * 2 * MIB / 8e11, 1e-9,
             "partial sums: four pieces are received and folded");
    tap_near(crossing(model, &four, &next, rows, rows).total_s,
             cost_p2p(model, &four, &next, MIB).total_s, 0,
             "alike on equal meshes: point to point");
}

static ir_nd_sbp draw_sbp(uint64_t *seed, const ir_mesh *mesh, bool partial)
{
    const ir_sbp kinds[] = {IR_SBP_B, IR_SBP_S(0), IR_SBP_S(1), IR_SBP_P};
    ir_nd_sbp sbp = {0};
    for (int32_t a = 0; a < mesh->n; a++)
        sbp.at[a] = kinds[fs_rand_below(seed, partial ? 4 : 3)];
    return sbp;
}

/* Quick bounds are bounds; and what is remembered of stages elsewhere is what
 * a model that remembers nothing says. */
static void test_across_bounds(void)
{
    const hw_cluster *c = make_cluster(6, 4, 2);
    cost_model *model = cost_model_create(c, arena);
    uint64_t seed = tap_seed(20261124);
    const ir_tensor t = {.name = "t", .dtype = IR_F32, .shape = {2, {13, 50}}};
    int32_t tried = 0, above = 0, low = 0, other = 0;
    for (int32_t k = 0; k < 1500; k++) {
        plan_stage from = stage_of(2, 1 + (int32_t)fs_rand_below(&seed, 3),
                                   1 + (int32_t)fs_rand_below(&seed, 3));
        plan_stage to = stage_of(1, 1 + (int32_t)fs_rand_below(&seed, 8), 0);
        from.first_device = (int32_t)fs_rand_below(&seed, 8);
        to.first_device = from.first_device + ir_mesh_size(&from.mesh) +
                          (int32_t)fs_rand_below(&seed, 2) * 4;
        plan_cross cross = {&t, &from, &to, draw_sbp(&seed, &from.mesh, true),
                            draw_sbp(&seed, &to.mesh, false)};
        if (to.first_device + ir_mesh_size(&to.mesh) > c->n_devices ||
            !plan_cross_is_legal(&cross))
            continue;
        const double seconds = cost_cross(model, &cross).total_s;
        fs_arena *once = fs_arena_create();
        const double again =
            cost_cross(cost_model_create(c, once), &cross).total_s;
        fs_arena_destroy(once);
        tried++;
        above +=
            cost_cross_least(model, &cross).total_s > seconds * (1 + 1e-12);
        low += cost_cross_floor(model, &t, &from, &to) > seconds * (1 + 1e-12);
        other += seconds < again || seconds > again;
    }
    tap_ok(tried > 300, "%d crossings", (int)tried);
    tap_equal_int(above, 0, "none costs less than its quick bound");
    tap_equal_int(low, 0, "or than any crossing between the stages must");
    tap_equal_int(other, 0, "what is remembered is what was to be said");
}

/* Positions of which more or less is counted than is listed. */
static int32_t count_wrong(const cost_tallies *counted,
                           const cost_tally *listed)
{
    int32_t wrong = 0;
    for (int32_t i = 0; i < counted->positions; i++) {
        const cost_tally *at = &counted->at[cost_tally_place(counted, i)];
        wrong += at->messages != listed[i].messages ||
                 at->elements != listed[i].elements;
    }
    return wrong;
}

/* What positions give and take, as it is listed. */
static void list_tallies(const plan_exchange *x, cost_tally *out,
                         cost_tally *in)
{
    fs_arena *scratch = fs_arena_create();
    for (int32_t i = 0; i < ir_mesh_size(&x->to_mesh); i++) {
        plan_shares shares = {0};
        plan_exchange_takes(x, i, scratch, &shares);
        for (int32_t j = 0; j < shares.n; j++) {
            const int64_t n = ir_shape_count(&shares.at[j].box.shape);
            cost_tally *ends[] = {&out[shares.at[j].position], &in[i]};
            for (int32_t k = 0; k < 2; k++) {
                ends[k]->messages++;
                ends[k]->elements += n;
            }
        }
    }
    fs_arena_destroy(scratch);
}

/* Paths of stages that lie alike are found once. */
static void test_places(void)
{
    const hw_cluster *c = make_cluster(6, 4, 2);
    plan_boxing_cost cost = cost_boxing(cost_model_create(c, arena));
    plan_boxer *alike = plan_boxer_create(cost, arena);
    cost.place = NULL;
    plan_boxer *each = plan_boxer_create(cost, arena);
    uint64_t seed = tap_seed(20261127);
    const ir_tensor t = {.name = "t", .dtype = IR_F32, .shape = {2, {12, 40}}};
    int32_t tried = 0, crossed = 0, wrong = 0;
    for (int32_t k = 0; k < 1500; k++) {
        plan_stage from = stage_of(2, 1 + (int32_t)fs_rand_below(&seed, 2),
                                   1 + (int32_t)fs_rand_below(&seed, 3));
        plan_stage to = from;
        from.first_device = (int32_t)fs_rand_below(&seed, 19);
        to.first_device = (int32_t)fs_rand_below(&seed, 19);
        if (fs_rand_below(&seed, 3) == 0)
            to.first_device = from.first_device;
        const ir_nd_sbp out = draw_sbp(&seed, &from.mesh, true),
                        in = draw_sbp(&seed, &to.mesh, false);
        const plan_ends ends = {.tensor = &t,
                                .from_stage = &from,
                                .to_stage = &to,
                                .from = &out,
                                .to = &in};
        const int32_t apart = abs(to.first_device - from.first_device);
        if (apart && apart < ir_mesh_size(&from.mesh)) /* no two stages */
            continue;
        const double a = plan_boxer_join(alike, &ends, NULL),
                     b = plan_boxer_join(each, &ends, NULL);
        tried += isfinite(a);
        crossed += isfinite(a) && apart > 0;
        wrong += a < b || a > b;
    }
    tap_ok(tried > 500 && crossed > 200, "%d paths, %d from stage to stage",
           (int)tried, (int)crossed);
    tap_equal_int(wrong, 0, "one is as long wherever its stages lie alike");
}

/* Up to three axes; `even`: of few lengths, which mostly divide the tensor. */
static ir_mesh draw_mesh(uint64_t *seed, bool even)
{
    ir_mesh mesh = {.n = (int32_t)fs_rand_below(seed, 4)};
    for (int32_t a = 0; a < mesh.n; a++)
        mesh.dim[a] = even ? 2 << fs_rand_below(seed, 2)
                           : 2 + (int32_t)fs_rand_below(seed, 7);
    return mesh;
}

/* Moves between two meshes, counted and listed. */
static void test_tallies(void)
{
    enum { MOST = 512 };
    uint64_t seed = tap_seed(20261125);
    int32_t tried = 0, copies = 0, wrong = 0;
    for (int32_t k = 0; k < 6000; k++) {
        const bool even = k % 2 == 0;
        ir_tensor t = {.dtype = IR_F32, .shape = {2, {16, 32}}};
        if (!even) {
            t.shape.dim[0] = 8 + (int64_t)fs_rand_below(&seed, 9);
            t.shape.dim[1] = 8 + (int64_t)fs_rand_below(&seed, 60);
        }
        const plan_stage from = {.mesh = draw_mesh(&seed, even)};
        const plan_stage to = {.mesh = draw_mesh(&seed, even)};
        const plan_cross cross = {&t, &from, &to,
                                  draw_sbp(&seed, &from.mesh, true),
                                  draw_sbp(&seed, &to.mesh, false)};
        if (!plan_cross_is_legal(&cross))
            continue;
        const plan_exchange x = plan_cross_exchange(&cross);
        cost_tally gives[MOST] = {{0}}, takes[MOST] = {{0}};
        const cost_tallied moved = cost_tally_move(&x, arena);
        list_tallies(&x, gives, takes);
        tried++;
        for (int32_t a = 0; a < from.mesh.n; a++)
            copies += cross.from.at[a].kind == IR_B;
        wrong += count_wrong(&moved.given, gives);
        wrong += count_wrong(&moved.taken, takes);
    }
    tap_ok(tried > 1000 && copies > 500, "%d moves, %d axes of copies",
           (int)tried, (int)copies);
    tap_equal_int(wrong, 0, "each position gives and takes what is listed");
}

/* The slowest of all positions, one by one. */
static double slowest_of(const hw_cluster *c, const plan_stage *stage,
                         const cost_tally *each)
{
    double worst = 0;
    const int32_t n = ir_mesh_size(&stage->mesh), d = stage->first_device;
    for (int32_t i = 0; i < n; i++) {
        int32_t sharing = 0;
        for (int32_t k = 0; k < n; k++)
            sharing += each[k].elements > 0 &&
                       hw_node_of(c, d + k) == hw_node_of(c, d + i);
        const double bytes = 4.0 * (double)each[i].elements;
        double s = (double)each[i].messages * c->outer.latency_s;
        if (bytes > 0)
            s += bytes / hw_outer_share(c, sharing, 1).bandwidth_bps;
        worst = fmax(worst, s);
    }
    return worst;
}

/* Stages of many positions on nodes of four, whole or astride, apart. */
static void test_slowest(void)
{
    enum { MOST = 512 };
    const hw_cluster *c = make_cluster(300, 4, 2);
    cost_model *model = cost_model_create(c, arena);
    uint64_t seed = tap_seed(20261126);
    int32_t tried = 0, wrong = 0;
    for (int32_t k = 0; k < 1500; k++) {
        const bool even = k % 3 != 0;
        const ir_tensor t = {.dtype = IR_F32,
                             .shape = {2, {even ? 16 : 13, even ? 32 : 50}}};
        const plan_stage from = {.mesh = draw_mesh(&seed, even),
                                 .first_device =
                                     (int32_t)fs_rand_below(&seed, 5)};
        const plan_stage to = {.mesh = draw_mesh(&seed, even),
                               .first_device =
                                   600 + (int32_t)fs_rand_below(&seed, 5)};
        const plan_cross cross = {&t, &from, &to,
                                  draw_sbp(&seed, &from.mesh, false),
                                  draw_sbp(&seed, &to.mesh, false)};
        if (!plan_cross_is_legal(&cross) || plan_cross_is_straight(&cross))
            continue;
        const plan_exchange x = plan_cross_exchange(&cross);
        cost_tally gives[MOST] = {{0}}, takes[MOST] = {{0}};
        list_tallies(&x, gives, takes);
        const double want =
            fmax(slowest_of(c, &from, gives), slowest_of(c, &to, takes));
        tried++;
        wrong += fabs(cost_cross(model, &cross).total_s - want) > 1e-12 * want;
    }
    tap_ok(tried > 500, "%d moves between stages apart", (int)tried);
    tap_equal_int(wrong, 0, "each takes what its slowest position does");
}

static void test_mixed(void)
{
    hw_cluster *c = make_cluster(1, 4, 1);
    hw_group *groups = fs_new(arena, hw_group, 2);
    groups[0] = groups[1] = c->groups[0];
    groups[1].inner.bandwidth_bps = 50e9;
    c->groups = groups;
    c->n_groups = 2;
    hw_cluster_finish(c);
    plan_stage s = stage_of(2, 2, 4);
    tap_near(seconds_of(c, s, PLAN_ALL_GATHER, 1, 512 * MIB),
             3 / 4.0 * 512 * MIB / 50e9 + 3 * 10e-6, 1e-9,
             "a stage over two kinds of nodes runs at the slower one's pace");
}

/* Halos: what a rank borrows, from two neighbours or from one, around a copy
 * of its own. */
static void test_halo(void)
{
    const hw_cluster *c = make_cluster(1, 8, 1), *two = make_cluster(2, 1, 1);
    cost_model *model = cost_model_create(c, arena);
    cost_model *far = cost_model_create(two, arena);
    plan_stage s = stage_of(1, 8, 0), pair = stage_of(1, 2, 0);
    plan_box_step step = {.kind = PLAN_HALO,
                          .axes = 1,
                          .bytes_in = 64 * MIB,
                          .bytes_out = 66 * MIB};
    plan_demand d = cost_box_step(model, &s, &step);
    tap_near(d.network_s, 2.0 * MIB / 100e9, 1e-12,
             "halo: the borrowed bytes / bw");
    tap_near(d.latency_s, 2 * 10e-6, 1e-12, "halo: two neighbours");
    tap_ok(d.memory_s > 0, "halo: and a copy of what a rank has");
    d = cost_box_step(far, &pair, &step);
    tap_near(d.latency_s, 50e-6, 1e-12, "halo: of two ranks each has one");
}

/* The first kind that a row does; PLAN_BOX_KINDS when it does none. */
static plan_box_kind kind_of(cost_collective_fn *fill, const cost_route *route)
{
    for (int32_t kind = 0; kind < PLAN_BOX_KINDS; kind++) {
        plan_demand demand = {0};
        if (fill((plan_box_kind)kind, route, 1e9, &demand))
            return (plan_box_kind)kind;
    }
    return PLAN_BOX_KINDS;
}

/* Whatever the algorithm: n ranks cannot hand round less. */
static void test_every_row(void)
{
    static const struct {
        const char *name;
        cost_collective_fn *fill;
    } rows[] = {
#define PLAN_ALGORITHM(name, where, runs) {#name, ROW_##where(name)},
#define ROW_BOTH(name) cost_coll_##name
#define ROW_CORES(name) cost_coll_##name
#define ROW_NETWORK(name) cost_coll_##name
#define ROW_NOWHERE(name) NULL
#include "plan/algorithms.def"
#undef PLAN_ALGORITHM
    };
    hw_cluster *c = make_cluster(2, 4, 4);
    c->fabric.in_switch = (hw_reduction){60e-6, 80e9};
    cost_model *model = cost_model_create(c, arena);
    plan_stage s = stage_of(1, 8, 0);
    cost_route route = cost_route_of(model, &s, 1);
    tap_ok(route.nodes == 2 && route.per_node == 4 && route.even,
           "two nodes of four members");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        plan_demand one = {0}, two = {0};
        if (!rows[i].fill)
            continue;
        plan_box_kind kind = kind_of(rows[i].fill, &route);
        double share = kind == PLAN_ALL_REDUCE ? 2 * 7 / 8.0 : 1;
        bool does = kind < PLAN_BOX_KINDS &&
                    rows[i].fill(kind, &route, 1e9, &one) &&
                    rows[i].fill(kind, &route, 2e9, &two);
        tap_ok(does, "%s: does a %s", rows[i].name,
               does ? plan_box_name(kind) : "kind of step");
        tap_ok(one.network_s >= share * 1e9 / 100e9 && one.latency_s > 0,
               "%s: not quicker than the inner links alone", rows[i].name);
        tap_near(two.network_s, 2 * one.network_s, 1e-12,
                 "%s: twice the bytes, twice the time", rows[i].name);
    }
}

/* Measured all-reduces of 8: 100 us to 1 MiB, then 10 us more for each MiB. */
static void test_measured(void)
{
    hw_cluster *c = make_cluster(2, 8, 1);
    const hw_cluster *bare = make_cluster(2, 8, 1);
    hw_collective points[] = {{"all-reduce", 8, 1 * MIB, 100e-6},
                              {"all-reduce", 8, 3 * MIB, 120e-6},
                              {"all-reduce", 8, 5 * MIB, 160e-6}};
    const plan_stage eight = stage_of(1, 8, 0), four = stage_of(1, 4, 0);
    const plan_stage two_nodes = stage_of(1, 16, 0);
    c->groups[0].collectives = points;
    c->groups[0].n_collectives = 3;
    tap_near(seconds_of(c, eight, PLAN_ALL_REDUCE, 0, 2 * MIB), 110e-6, 1e-12,
             "between two measured points: linear");
    tap_near(seconds_of(c, eight, PLAN_ALL_REDUCE, 0, 9 * MIB), 240e-6, 1e-12,
             "behind the last: as between the last two");
    const double first = seconds_of(bare, eight, PLAN_ALL_REDUCE, 0, MIB / 4) /
                         seconds_of(bare, eight, PLAN_ALL_REDUCE, 0, 1 * MIB);
    tap_near(seconds_of(c, eight, PLAN_ALL_REDUCE, 0, MIB / 4), 100e-6 * first,
             1e-12, "before the first: less by as much as the formula tells");
    tap_near(seconds_of(c, eight, PLAN_ALL_GATHER, 0, 2 * MIB), 55e-6, 1e-12,
             "what was not measured of them: half of an all-reduce");
    tap_near(seconds_of(c, four, PLAN_ALL_REDUCE, 0, 2 * MIB),
             seconds_of(bare, four, PLAN_ALL_REDUCE, 0, 2 * MIB), 1e-15,
             "of other ranks: the formula");
    tap_near(seconds_of(c, two_nodes, PLAN_ALL_REDUCE, 0, 2 * MIB),
             seconds_of(bare, two_nodes, PLAN_ALL_REDUCE, 0, 2 * MIB), 1e-15,
             "on several nodes: the formula");
}

/* ---- by which algorithm ---- */

static hw_cluster *make_hosts(int32_t nodes, int32_t devices, int32_t cores)
{
    hw_cluster *c = make_cluster(nodes, devices, 1);
    c->groups[0].inner.on_cores = true;
    c->groups[0].cores_per_node = cores;
    c->groups[0].inner.bandwidth_bps = 5e9;
    c->outer.bandwidth_bps = 1e9;
    c->groups[0].turn_s = 1e-3;
    return c;
}

static plan_algorithm chosen(const hw_cluster *c, int32_t n, int64_t bytes,
                             int32_t element_bytes)
{
    const plan_stage stage = stage_of(1, n, 0);
    plan_box_step step = step_of(PLAN_ALL_REDUCE, 0, bytes, n);
    step.element_bytes = element_bytes;
    return cost_algorithm(cost_model_create(c, arena), &stage, &step);
}

static void test_chosen(void)
{
    const hw_cluster *eight = make_hosts(1, 8, 8), *two = make_hosts(2, 4, 4);
    tap_ok(chosen(eight, 8, 4096, 4) == PLAN_BY_halving,
           "cores: a small all-reduce of eight is halved: fewer messages");
    tap_ok(chosen(eight, 8, 64 * MIB, 4) == PLAN_BY_direct,
           "a large one goes directly");
    tap_ok(chosen(eight, 2, 4096, 4) == PLAN_BY_direct,
           "two ranks have nothing to choose");
    tap_ok(chosen(eight, 8, 4096, 2) == PLAN_BY_direct &&
               chosen(eight, 8, 64, 4) == PLAN_BY_direct,
           "nor have 16-bit floats and a few bytes");
    tap_ok(chosen(make_hosts(1, 8, 2), 8, 4096, 4) == PLAN_BY_direct,
           "who shares a core meets as seldom as can be");
    tap_ok(chosen(two, 8, 64 * MIB, 4) == PLAN_BY_hierarchical,
           "between hosts only parts of a host's sum go");
}

/* The price of a step is that of the algorithm that runs, and nobody's is less.
 */
static void test_choice_is_priced(void)
{
    uint64_t rng = tap_seed(4242);
    int32_t wrong = 0, less = 0, ways = 0;
    for (int32_t k = 0; k < 2000; k++) {
        const int32_t nodes = 1 + (int32_t)fs_rand_below(&rng, 3);
        const int32_t per = 1 + (int32_t)fs_rand_below(&rng, 8);
        const int32_t n = nodes * per;
        const hw_cluster *c =
            make_hosts(nodes, per, 1 + (int32_t)fs_rand_below(&rng, 8));
        const plan_stage stage = stage_of(1, n, 0);
        plan_box_step step =
            step_of(PLAN_ALL_REDUCE, 0, 4 << fs_rand_below(&rng, 24), n);
        step.element_bytes = fs_rand_below(&rng, 4) ? 4 : 2;
        if (n < 2)
            continue;
        const plan_algorithm by =
            cost_algorithm(cost_model_create(c, arena), &stage, &step);
        const double s =
            cost_box_step(cost_model_create(c, arena), &stage, &step).total_s;
        ways |= 1 << by;
        for (int32_t a = 0; a < PLAN_ALGORITHMS; a++) {
            cost_model *model = cost_model_create(c, arena);
            cost_model_reduce_by(model, (plan_algorithm)a);
            const double own_s = cost_box_step(model, &stage, &step).total_s;
            wrong += a == (int32_t)by && own_s != s;
            less += own_s < s;
        }
    }
    tap_ok(wrong == 0, "an all-reduce costs what its algorithm costs (%d)",
           wrong);
    tap_ok(less == 0, "none costs less than the one that is chosen (%d)", less);
    tap_ok(ways & 1 << PLAN_BY_halving && ways & 1 << PLAN_BY_hierarchical &&
               ways & 1 << PLAN_BY_direct,
           "several are chosen (%x)", ways);
}

int main(void)
{
    arena = fs_arena_create();
    test_chosen();
    test_choice_is_priced();
    test_ring();
    test_measured();
    test_nodes();
    test_placement();
    test_cores();
    test_busy();
    test_local();
    test_p2p();
    test_p2p_of_many();
    test_routes_elsewhere();
    test_across();
    test_across_bounds();
    test_tallies();
    test_slowest();
    test_places();
    test_mixed();
    test_halo();
    test_every_row();
    fs_arena_destroy(arena);
    return tap_done();
}
