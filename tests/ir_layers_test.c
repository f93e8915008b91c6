/* Layers of random networks: what is called equal is, whatever else the network
 * does, and a network with fewer layers is what remains without the others. */
#include "config.h"

#include "ir/layers.h"
#include "ir/precision.h"
#include "ir/rewrite.h"
#include "ir/train.h"

#include "fold_check.h"

enum { WIDTH = 8, ROWS = 4, RUNS = 3, MOST_STEPS = 6, MOST_COPIES = 12 };
enum { MATMUL = 5, KINDS = 7 }; /* kinds of steps; MATMUL and above */

/* Where the sum of the layers' own losses is added up. */
typedef enum sums { NO_SUM, ALONG, FORTH, BACK, SHUFFLED, SUMS } sums;

/* In which order parameters are made, before all else: that of a clipped norm's
 * sum. BY_NAME: copy 10 before copy 2. */
typedef enum order { AS_READ, BY_NAME, BY_STEP, ANYHOW, ORDERS } order;

typedef struct network {
    uint64_t seed; /* of blocks: the same for all sizes */
    int32_t runs, copies[RUNS], steps[RUNS];
    sums sum;
    order order;
    bool skips;  /* blocks read an inner tensor of the block before */
    bool shares; /* a table that all blocks read */
    int32_t odd; /* a copy of the first run that is unlike; -1 */
    int32_t tap; /* a copy of the first run that is asked for; -1 */
    /* while it is built */
    ir_graph *g;
    int32_t weight[RUNS][MOST_COPIES][MOST_STEPS], table, sum_so_far;
    int32_t term[RUNS * MOST_COPIES], n_terms;
} network;

static int32_t new_weight(network *n, int32_t run, int32_t copy, int32_t step)
{
    const char *name =
        fs_printf(n->g->arena, "run%d.%d.w%d", (int)run, (int)copy, (int)step);
    return ir_parameter(n->g, name, IR_F32,
                        ir_shape_make(2, (int64_t[]){WIDTH, WIDTH}),
                        (ir_init){.kind = IR_INIT_NORMAL, .spread = 0.1});
}

static int32_t weight_of(network *n, int32_t run, int32_t copy, int32_t step)
{
    int32_t *w = &n->weight[run][copy][step];
    if (*w < 0)
        *w = new_weight(n, run, copy, step);
    return *w;
}

static int by_text(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    char text[2][40];
    snprintf(text[0], sizeof text[0], "%d.%d.%d", (int)x[0], (int)x[1],
             (int)x[2]);
    snprintf(text[1], sizeof text[1], "%d.%d.%d", (int)y[0], (int)y[1],
             (int)y[2]);
    return strcmp(text[0], text[1]);
}

static int by_step(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    return x[0] != y[0]   ? x[0] - y[0]
           : x[2] != y[2] ? x[2] - y[2]
                          : x[1] - y[1];
}

/* What step s of a run's blocks is, the same in all copies. */
static int64_t kind_of(const network *n, int32_t run, int32_t s)
{
    uint64_t seed = fs_mix(n->seed ^ fs_mix((uint64_t)(run * MOST_STEPS + s)));
    return fs_rand_below(&seed, KINDS);
}

static void make_weights(network *n)
{
    int32_t all[RUNS * MOST_COPIES * MOST_STEPS][3], total = 0;
    uint64_t seed = n->seed + 17;
    memset(n->weight, 0xff, sizeof n->weight);
    for (int32_t r = 0; r < n->runs; r++)
        for (int32_t c = 0; c < n->copies[r]; c++)
            for (int32_t s = 0; s < n->steps[r]; s++)
                if (s == 0 || kind_of(n, r, s) >= MATMUL)
                    memcpy(all[total++], (int32_t[]){r, c, s}, sizeof *all);
    if (n->order == BY_NAME || n->order == BY_STEP)
        qsort(all, (size_t)total, sizeof *all,
              n->order == BY_NAME ? by_text : by_step);
    for (int32_t left = n->order != AS_READ ? total : 0; left > 0; left--) {
        const int64_t k =
            n->order == ANYHOW ? fs_rand_below(&seed, left) : total - left;
        weight_of(n, all[k][0], all[k][1], all[k][2]);
        if (n->order == ANYHOW)
            memcpy(all[k], all[left - 1], sizeof all[k]);
    }
}

static int32_t add_step(network *n, int32_t at[3], int32_t x, int32_t start,
                        int32_t before)
{
    ir_graph *g = n->g;
    switch (kind_of(n, at[0], at[2])) {
    case 0:
        return ir_unary(g, IR_OP_tanh, x);
    case 1:
        return ir_binary(g, IR_OP_add, x, start);
    case 2:
        return ir_binary(g, IR_OP_mul, x, n->shares ? n->table : start);
    case 3:
        return ir_binary(g, IR_OP_add, x, n->skips ? before : start);
    case 4:
        return ir_dropout(g, x, 0.1, (uint64_t)(at[1] * 100 + at[2]));
    default:
        return ir_matmul(g, x, weight_of(n, at[0], at[1], at[2]), false, false);
    }
}

static void add_term(network *n, int32_t x)
{
    ir_graph *g = n->g;
    int32_t term = ir_scale(
        g, ir_reduce_mean(g, ir_binary(g, IR_OP_mul, x, x), 3, false), 0.1, 0);
    if (n->sum == ALONG)
        n->sum_so_far = n->sum_so_far < 0
                            ? term
                            : ir_binary(g, IR_OP_add, n->sum_so_far, term);
    else
        n->term[n->n_terms++] = term;
}

static int32_t add_block(network *n, int32_t run, int32_t copy, int32_t x,
                         int32_t *before)
{
    const int32_t start = x;
    int32_t inner = x;
    for (int32_t s = 0; s < n->steps[run]; s++) {
        int32_t at[3] = {run, copy, s};
        x = add_step(n, at, x, start, *before);
        if (s == n->steps[run] / 2)
            inner = x;
    }
    x = ir_matmul(n->g, x, weight_of(n, run, copy, 0), false, true);
    x = ir_binary(
        n->g, IR_OP_add, start,
        ir_scale(n->g, x, run == 0 && copy == n->odd ? 0.25 : 0.5, 0));
    if (n->sum != NO_SUM)
        add_term(n, x);
    if (run == 0 && copy == n->tap)
        ir_mark_output(n->g, inner);
    *before = inner;
    return x;
}

static void add_terms(network *n)
{
    uint64_t seed = n->seed + 5;
    for (int32_t left = n->n_terms; left > 0; left--) {
        const int64_t k = n->sum == FORTH  ? n->n_terms - left
                          : n->sum == BACK ? left - 1
                                           : fs_rand_below(&seed, left);
        const int32_t term = n->term[k];
        if (n->sum == SHUFFLED)
            n->term[k] = n->term[left - 1];
        n->sum_so_far = n->sum_so_far < 0
                            ? term
                            : ir_binary(n->g, IR_OP_add, n->sum_so_far, term);
    }
}

static ir_graph *build(network *n)
{
    ir_graph *g = n->g = ir_graph_create("random");
    const ir_shape wide = ir_shape_make(2, (int64_t[]){ROWS, WIDTH});
    int32_t x = ir_input(g, "x", IR_F32, wide, 0);
    int32_t y = ir_input(g, "y", IR_F32, wide, 0);
    n->n_terms = 0;
    n->sum_so_far = -1;
    n->table =
        ir_parameter(g, "table", IR_F32, ir_shape_make(1, (int64_t[]){WIDTH}),
                     (ir_init){.kind = IR_INIT_NORMAL, .spread = 1});
    make_weights(n);
    for (int32_t r = 0; r < n->runs; r++) {
        int32_t before = x = ir_softmax(g, ir_unary(g, IR_OP_exp, x));
        for (int32_t c = 0; c < n->copies[r]; c++)
            x = add_block(n, r, c, x, &before);
    }
    add_terms(n);
    g->loss = ir_mse(g, ir_softmax(g, x), y);
    if (n->sum_so_far >= 0)
        g->loss = ir_binary(g, IR_OP_add, n->sum_so_far, g->loss);
    return g;
}

static void draw(uint64_t *seed, network *n)
{
    *n = (network){.seed = fs_rand(seed), .odd = -1, .tap = -1};
    n->runs = 1 + (int32_t)fs_rand_below(seed, RUNS);
    for (int32_t r = 0; r < n->runs; r++) {
        n->copies[r] = 6 + (int32_t)fs_rand_below(seed, MOST_COPIES - 6);
        n->steps[r] = 3 + (int32_t)fs_rand_below(seed, MOST_STEPS - 2);
    }
    n->sum = (sums)fs_rand_below(seed, SUMS);
    n->order =
        fs_rand_below(seed, 2) ? (order)fs_rand_below(seed, ORDERS) : AS_READ;
    n->skips = fs_rand_below(seed, 2);
    n->shares = fs_rand_below(seed, 2);
    if (fs_rand_below(seed, 3) == 0)
        n->odd = (int32_t)fs_rand_below(seed, n->copies[0]);
    if (fs_rand_below(seed, 3) == 0)
        n->tap = (int32_t)fs_rand_below(seed, n->copies[0]);
}

static bool train(ir_graph *g, uint64_t how)
{
    static const char *const policies[] = {NULL, "tanh|mul|scale", "add",
                                           "matmul"};
    fs_err err = {0};
    ir_train_options o = ir_train_defaults();
    ir_rewrite_options rewrites = ir_rewrite_usual();
    o.optimizer = how & 1 ? IR_ADAM : IR_SGD;
    o.clip_norm = how & 2 ? 1 : 0;
    o.recompute = policies[how >> 2 & 3];
    o.micro_batches = how & 16 ? 2 : 1;
    if (how & 32)
        ir_rewrite(g, &rewrites);
    ir_rewrite_precision(g, how & 64 ? IR_F16 : IR_F32);
    ir_loss_scale_parse("", how & 64 ? IR_F16 : IR_F32, &err, &o.loss_scale);
    fs_status status = ir_train(g, &o, &err);
    if (status == FS_INVALID) { /* the policy chooses nothing here */
        o.recompute = NULL;
        return false;
    }
    if (how & 32)
        ir_rewrite_step(g, &rewrites);
    return status == FS_OK;
}

static bool check_folds(const ir_layers *l, uint64_t *seed)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    int32_t most[64] = {0};
    ir_folded f;
    bool good = l->runs.n <= 64;
    for (int32_t turn = 0; good && turn < 3; turn++) {
        for (int32_t r = 0; r < l->runs.n; r++)
            most[r] = 2 + (int32_t)fs_rand_below(seed, l->runs.at[r].copies);
        const bool *const *keep = fold_choose(l, most, seed, arena);
        good = ir_fold(l, keep, arena, &err, &f) == FS_OK &&
               ir_graph_check(f.graph, &err) == FS_OK &&
               fold_maps_sound(l, &f, keep);
    }
    if (!good)
        printf("# %s\n", err.text);
    fs_arena_destroy(arena);
    return good;
}

/* The network with fewer copies: 1 as it is, 0 not, -1 not told: it has other
 * runs. */
static int compare_smaller(const ir_layers *l, const network *n, uint64_t how,
                           uint64_t *seed)
{
    fs_arena *arena = fs_arena_create();
    fs_err err = {0};
    network small = *n;
    ir_layers less;
    ir_folded f;
    int32_t most[RUNS] = {0};
    int same = -1;
    for (int32_t r = 0; r < n->runs; r++)
        small.copies[r] = 6;
    ir_graph *g = build(&small);
    if (train(g, how)) {
        ir_find_layers(g, arena, &less);
        bool comparable = less.runs.n == l->runs.n && l->runs.n == n->runs;
        for (int32_t r = 0; comparable && r < n->runs; r++) {
            most[r] = less.runs.at[r].copies;
            comparable = n->copies[r] - l->runs.at[r].copies == 6 - most[r];
        }
        if (comparable && ir_fold(l, fold_choose(l, most, seed, arena), arena,
                                  &err, &f) == FS_OK)
            same = fold_same_unordered(f.graph, g);
    }
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
    return same;
}

typedef struct tallies {
    int32_t trained, whole, compared;
    int64_t nodes, covered;
} tallies;

static void test_random(uint64_t *seed, int32_t number, tallies *sum)
{
    network n;
    const uint64_t from = *seed;
    fs_arena *arena = fs_arena_create();
    ir_layers l;
    draw(seed, &n);
    const uint64_t how = fs_rand(seed) % 128;
    ir_graph *g = build(&n);
    const bool trained = train(g, how);
    int same = -1;
    bool sound = true, exact = true, folds = true;
    if (trained) {
        /* Where chains of pointwise nodes end hangs on the network's size. */
        const bool plain = n.odd < 0 && n.tap < 0 && n.order != ANYHOW &&
                           n.order != BY_NAME && n.sum != SHUFFLED &&
                           !(how & 32);
        ir_find_layers(g, arena, &l);
        sound = fold_layers_sound(&l);
        exact = fold_runs_exact(&l);
        folds = check_folds(&l, seed);
        if (plain)
            same = compare_smaller(&l, &n, how, seed);
        sum->trained++;
        sum->whole += plain;
        sum->compared += same >= 0;
        sum->nodes += plain ? g->nodes.n : 0;
        sum->covered += plain ? l.covered : 0;
    }
    if (!sound || !exact || !folds || same == 0)
        tap_ok(false,
               "network %d (FS_SEED=%llu first): sound %d, exact %d, folds %d, "
               "the smaller one %d",
               (int)number, (unsigned long long)from, sound, exact, folds,
               same);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

int main(void)
{
    uint64_t seed = tap_seed(11);
    tallies sum = {0};
    enum { NETWORKS = 400 };
    for (int32_t k = 0; k < NETWORKS; k++)
        test_random(&seed, k, &sum);
    printf("# %d trained, %d of them plain, of which %d were held against "
           "the smaller network; %lld of their %lld nodes in layers\n",
           (int)sum.trained, (int)sum.whole, (int)sum.compared,
           (long long)sum.covered, (long long)sum.nodes);
    tap_ok(sum.trained * 2 > NETWORKS, "random networks train");
    tap_ok(sum.compared * 10 > sum.whole * 8,
           "their layers are found and are those of the smaller network");
    tap_ok(sum.covered * 10 > sum.nodes * 6, "and are most of them");
    return tap_done();
}
