/* What all meshes of so many devices have in common (src/search/shares.h): no
 * node of a zoo of graphs takes less than its share, however it is cut, and a
 * configuration's own nodes no less than what is said of its number of stages.
 */
#include "config.h"
#include "search/attempt.h"
#include "search/built.h"
#include "search/crew.h"
#include "search/known.h"
#include "search/lay_out.h"
#include "search/shares.h"

#include "ir/train.h"
#include "search_cluster.h"
#include "tap.h"
#include "zoo/zoo.h"

#include <math.h>

static const char *const specs[] = {
    "gpt,layers=2,hidden=64,heads=4,seq=32,vocab=130",
    "moe,layers=2,hidden=64,heads=4,seq=32,vocab=130",
    "bert,layers=2,hidden=64,heads=4,seq=32,vocab=130",
    "llama,layers=2,hidden=64,heads=4,seq=32,vocab=130",
    "t5,layers=2,hidden=64,heads=4,seq=32,vocab=130",
    "vit",
    "lstm",
    "gru",
    "dlrm",
    "resnet,depth=18",
    "wide-deep",
    "mlp"};
static const char *const clusters[] = {"3x8:a100-sxm4-80g",
                                       "2x6:v100-sxm2-32g"};
static const ir_mesh meshes[] = {{1, {8}},    {1, {6}},    {2, {2, 4}},
                                 {2, {3, 2}}, {2, {4, 3}}, {3, {2, 2, 3}}};
enum {
    SPECS = sizeof specs / sizeof *specs,
    CLUSTERS = sizeof clusters / sizeof *clusters,
    MESHES = sizeof meshes / sizeof *meshes,
    BATCH = 24
};

typedef struct tally {
    int32_t dense, ways, moves, below, configs, above, sharp, cuts, over, near;
    int32_t families, apart, mixed, raised, listed, together;
} tally;

/* In 16 bits, unless narrow is IR_F32. */
static ir_graph *train(const char *spec, ir_dtype narrow)
{
    fs_err err = {0};
    ir_graph *g = NULL;
    if (zoo_build(spec, BATCH, &err, &g) == FS_OK) {
        ir_train_options options = ir_train_defaults();
        if (narrow != IR_F32)
            ir_rewrite_precision(g, narrow);
        if (ir_train(g, &options, &err) == FS_OK)
            return g;
    }
    printf("Bail out! %s\n", err.text);
    exit(1);
}

/* Each signature of a node against its share. */
static void try_node(const cost_model *cost, const ir_graph *g, int32_t v,
                     const ir_mesh *mesh, tally *t)
{
    fs_arena *arena = fs_arena_create();
    const ir_node *node = &g->nodes.at[v];
    const plan_stage stage = {*mesh, 0};
    ir_nd_sig_list all;
    ir_work share = cost_whole_work(g, v);
    share.flop /= ir_mesh_size(mesh);
    share.read_bytes /= ir_mesh_size(mesh);
    share.written_bytes /= ir_mesh_size(mesh);
    const double least = cost_share_least(cost, node, &share);
    ir_signatures(g, node, mesh, arena, &all);
    for (int32_t k = 0; k < all.n; k++) {
        const double s = cost_node_seconds(cost, g, v, &all.at[k], &stage);
        t->ways++;
        t->moves += !ir_op_is_dense(node->op) && least > 0 && least > 0.9 * s;
        t->below += !(least <= s * (1 + 1e-12));
    }
    fs_arena_destroy(arena);
}

static void try_nodes(const cost_model *cost, const ir_graph *g, tally *t)
{
    for (int32_t v = 0; v < g->nodes.n; v++) {
        t->dense += ir_op_is_dense(g->nodes.at[v].op);
        for (int32_t k = 0; k < MESHES; k++)
            try_node(cost, g, v, &meshes[k], t);
    }
}

/* The bound of all meshes against that of the nodes on one of them. */
static void try_config(search_level0 *z, int32_t n_stages, int32_t devices,
                       tally *t)
{
    search_candidate c = {.graph = &z->problem->graphs[0],
                          .n_stages = n_stages,
                          .depth = 1,
                          .mesh = {1, {devices}},
                          .schedule = z->problem->schedule,
                          .share = 1};
    const double shared = search_share_floor(z, &c);
    search_look(z, &c);
    const double looked = c.record.lower_bound_s;
    t->configs++;
    t->above += !(shared <= looked * (1 + 1e-12));
    t->sharp += shared > 0.5 * looked;
}

/* A cut's shares against its nodes on one of its meshes. */
static void try_cut(search_level0 *z, int32_t n_stages, int32_t devices,
                    tally *t)
{
    fs_err ignored = {0};
    search_candidate c = {.graph = &z->problem->graphs[0],
                          .n_stages = n_stages,
                          .depth = 1,
                          .mesh = {1, {devices}},
                          .schedule = z->problem->schedule,
                          .share = 1,
                          .arena = fs_arena_create()};
    if (search_lay_out_cut(z, &c, &ignored) == FS_OK && !c.view) {
        const double shared = search_share_cut_floor(z, &c.layout);
        if (search_floor_own(z, &c)) {
            t->cuts++;
            t->over += !(shared <= c.record.lower_bound_s * (1 + 1e-12));
            t->near += shared > 0.5 * c.record.lower_bound_s;
        }
    }
    search_drop_tables(&c);
}

/* What is said of an own cut is said of all meshes, and of no other cut, looked
 * at before or behind. */
static void try_family(search_level0 *z, int32_t n_stages, int32_t devices,
                       tally *t)
{
    enum { MEMBERS = 2 };
    search_candidate c[MEMBERS];
    const int32_t n = z->all.n;
    for (int32_t k = 0; k < MEMBERS; k++) {
        c[k] = (search_candidate){.graph = &z->problem->graphs[0],
                                  .n_stages = n_stages,
                                  .depth = 1,
                                  .mesh = {1, {devices}},
                                  .schedule = z->problem->schedule,
                                  .share = 1};
        fs_push(z->scratch, &z->all, &c[k]);
    }
    c[1].mesh = (ir_mesh){2, {devices / 2, 2}};
    search_candidate alone = c[1];
    search_look(z, &alone);
    search_candidate *list[] = {&c[0], &c[1]};
    search_share_own(z, list, MEMBERS);
    if (c[0].shared) {
        t->families++;
        t->apart += c[1].record.lower_bound_s < c[0].record.lower_bound_s;
        t->raised += c[1].record.lower_bound_s > alone.any_cut_s;
        search_look(z, &c[1]);
        t->mixed += c[1].any_cut_s > alone.any_cut_s ||
                    c[1].weighed_s > alone.weighed_s;
    }
    z->all.n = n;
}

/* Looked at together, those that differ by their meshes once, each has what is
 * said of it alone. */
static void try_together(search_level0 *z, int32_t devices, tally *t)
{
    search_candidate c[6], *list[6];
    int32_t n = 0;
    for (int32_t p = 1; p <= 4; p *= 2)
        for (int32_t k = 0; k < 2; k++) {
            c[n] = (search_candidate){.graph = &z->problem->graphs[0],
                                      .n_stages = p,
                                      .depth = 1,
                                      .mesh = {1, {devices / p}},
                                      .schedule = z->problem->schedule,
                                      .share = 1};
            if (k)
                c[n].mesh = (ir_mesh){2, {devices / p / 2, 2}};
            list[n] = &c[n];
            n++;
        }
    search_look_at_shares(z, list, n);
    for (int32_t k = 0; k < n; k++) {
        const double alone = search_share_floor(z, &c[k]);
        t->together += c[k].any_cut_s >= alone && c[k].any_cut_s <= alone;
    }
    t->listed += n;
}

static void try_configs(const hw_cluster *cluster, const cost_model *cost,
                        const ir_graph *g, tally *t)
{
    const search_graph graph = {.micro_batches = 4, .graph = g};
    const search_problem problem = {.cluster = cluster,
                                    .cost = cost,
                                    .n_graphs = 1,
                                    .graphs = &graph,
                                    .engine = "ilp",
                                    .schedule = "1f1b",
                                    .fix_mesh = {.n = -1},
                                    .max_mesh_axes = 2,
                                    .known = search_known_create()};
    fs_arena *arena = fs_arena_create();
    search_level0 z = {.asked = &problem,
                       .problem = &problem,
                       .arena = arena,
                       .scratch = arena,
                       .best_s = INFINITY,
                       .end = {INT64_MAX, NULL}};
    search_rates_for(&z, 1, 1);
    z.shares = search_find_shares(&z);
    for (int32_t p = 1; p <= cluster->n_devices; p++)
        if (cluster->n_devices % p == 0)
            try_config(&z, p, cluster->n_devices / p, t);
    for (int32_t p = 2; p <= cluster->n_devices; p++)
        if (cluster->n_devices % p == 0)
            try_cut(&z, p, cluster->n_devices / p, t);
    for (int32_t p = 2; p <= cluster->n_devices / 4; p++)
        if (cluster->n_devices % (4 * p) == 0)
            try_family(&z, p, cluster->n_devices / p, t);
    if (cluster->n_devices % 8 == 0)
        try_together(&z, cluster->n_devices, t);
    search_crew_dismiss(&z);
    fs_arena_destroy(arena);
    search_known_destroy(problem.known);
}

static void try_graph(const ir_graph *g, tally *t)
{
    for (int32_t i = 0; i < CLUSTERS; i++) {
        fs_arena *arena = fs_arena_create();
        const hw_cluster *cluster = open_cluster(clusters[i], arena);
        const cost_model *cost = cost_model_create(cluster, arena);
        try_nodes(cost, g, t);
        try_configs(cluster, cost, g, t);
        fs_arena_destroy(arena);
    }
}

int main(void)
{
    static const ir_dtype narrow[] = {IR_F32, IR_BF16, IR_F16};
    tally t = {0};
    for (int32_t k = 0; k < 3 * SPECS; k++) {
        ir_graph *g = train(specs[k / 3], narrow[k % 3]);
        try_graph(g, &t);
        ir_graph_destroy(g);
    }
    printf("# %d dense nodes, %d ways; %d configurations, half of the bound or "
           "more of %d\n",
           t.dense, t.ways, t.configs, t.sharp);
    tap_ok(t.dense > 0 && t.ways > t.dense, "zoo: there are dense nodes");
    tap_equal_int(t.below, 0, "a node takes its share, however it is cut");
    tap_ok(t.moves > 0, "and of what it moves about as much");
    tap_equal_int(t.above, 0,
                  "a number of stages promises no more than a mesh");
    tap_ok(t.sharp > 0, "and sometimes about as much");
    printf("# %d cuts, half of the bound or more of %d\n", t.cuts, t.near);
    tap_equal_int(t.over, 0, "shares of a cut promise no more than its nodes");
    tap_ok(t.near > 0, "and sometimes about as much");
    printf("# %d families, %d raised\n", t.families, t.raised);
    tap_ok(t.families > 0, "cuts are shared before nodes are looked at");
    tap_equal_int(t.apart, 0, "a cut's shares are said of all its meshes");
    tap_ok(t.raised > 0, "and sometimes more than nodes say of any cut");
    tap_equal_int(t.mixed, 0, "but are no bound of every cut");
    tap_ok(t.listed > 0 && t.together == t.listed,
           "looked at together they have what is said of each");
    return tap_done();
}
