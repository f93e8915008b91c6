/* Repeated structure: found where it was built, and nothing else. */
#include "config.h"

#include "ir/blocks.h"

#include "base/hash.h"
#include "ir/train.h"
#include "tap.h"

#include <stdlib.h>

enum { WIDTH = 8, ROWS = 4 };

static int32_t weight(ir_graph *g, const char *name, int64_t a, int64_t b)
{
    name = fs_printf(g->arena, "%s%d", name, g->tensors.n);
    return ir_parameter(g, name, IR_F32, ir_shape_make(2, (int64_t[]){a, b}),
                        (ir_init){.kind = IR_INIT_NORMAL, .spread = 0.1});
}

static int32_t open_net(ir_graph **out)
{
    ir_graph *g = *out = ir_graph_create("net");
    int32_t x =
        ir_input(g, "x", IR_F32, ir_shape_make(2, (int64_t[]){ROWS, WIDTH}), 0);
    return ir_matmul(g, x, weight(g, "in", WIDTH, WIDTH), false, false);
}

/* x + relu(x w1) w2, the inner width as given. */
static int32_t block(ir_graph *g, int32_t x, int64_t inner)
{
    int32_t h = ir_matmul(g, x, weight(g, "w", WIDTH, inner), false, false);
    h = ir_unary(g, IR_OP_relu, h);
    h = ir_matmul(g, h, weight(g, "v", inner, WIDTH), false, false);
    return ir_binary(g, IR_OP_add, x, h);
}

enum { BLOCK = 4 };

static void close_net(ir_graph *g, int32_t x)
{
    int32_t y =
        ir_input(g, "y", IR_I64, ir_shape_make(1, (int64_t[]){ROWS}), 0);
    g->loss = ir_cross_entropy(
        g, ir_matmul(g, x, weight(g, "out", WIDTH, 5), false, false), y);
    ir_mark_output(g, g->loss);
}

static void expect(ir_graph *g, int32_t n, const ir_repeat *wanted,
                   const char *what)
{
    fs_arena *arena = fs_arena_create();
    ir_blocks found;
    ir_find_blocks(g, arena, &found);
    bool right = found.repeats.n == n;
    for (int32_t k = 0; right && k < n; k++)
        right = found.repeats.at[k].length == wanted[k].length &&
                found.repeats.at[k].copies == wanted[k].copies;
    tap_ok(right, "%s", what);
    for (int32_t k = 0; !right && k < found.repeats.n; k++)
        printf("# from %d: %d copies of %d\n", found.repeats.at[k].first,
               found.repeats.at[k].copies, found.repeats.at[k].length);
    fs_arena_destroy(arena);
}

static void test_plain(void)
{
    for (int32_t copies = 2; copies <= 96; copies += 47) {
        ir_graph *g;
        int32_t x = open_net(&g);
        for (int32_t k = 0; k < copies; k++)
            x = block(g, x, 16);
        close_net(g, x);
        ir_repeat wanted = {.length = BLOCK, .copies = copies};
        expect(g, 1, &wanted, "copies of one block");
        ir_graph_destroy(g);
    }
}

static void test_stages(void)
{
    ir_graph *g;
    int32_t x = open_net(&g);
    for (int32_t k = 0; k < 3; k++)
        x = block(g, x, 16);
    for (int32_t k = 0; k < 5; k++)
        x = block(g, x, 24);
    close_net(g, x);
    ir_repeat wanted[] = {{.length = BLOCK, .copies = 3},
                          {.length = BLOCK, .copies = 5}};
    expect(g, 2, wanted, "two sizes of a block are two repeats");
    ir_graph_destroy(g);
}

/* One of eight copies reads what all read, or is read by what none is. */
static void test_exports(void)
{
    ir_graph *g;
    int32_t x = open_net(&g), other = -1;
    for (int32_t k = 0; k < 8; k++) {
        x = block(g, x, 16);
        if (k == 4) /* its relu */
            other = g->nodes.at[g->nodes.n - 4].out[0];
    }
    ir_mark_output(g, other);
    close_net(g, x);
    fs_arena *arena = fs_arena_create();
    ir_blocks found;
    ir_find_blocks(g, arena, &found);
    bool right = found.repeats.n > 0;
    for (int32_t k = 0; k < found.repeats.n; k++) {
        const ir_repeat *r = &found.repeats.at[k];
        /* The fifth copy is the last of a repeat, or in none. */
        int32_t end = r->first + (r->copies - 1) * r->length;
        int32_t first = 1 + 4 * BLOCK;
        right &= first >= end || first + BLOCK <= r->first;
    }
    tap_ok(right, "a copy that is read from elsewhere ends a repeat");
    fs_arena_destroy(arena);
    ir_graph_destroy(g);
}

static void test_shared(void)
{
    ir_graph *g;
    int32_t x = open_net(&g), table = weight(g, "table", 1, WIDTH);
    for (int32_t k = 0; k < 6; k++) {
        x = block(g, x, 16);
        x = ir_binary(g, IR_OP_mul, x, table);
    }
    close_net(g, x);
    ir_repeat wanted = {.length = BLOCK + 1, .copies = 6};
    expect(g, 1, &wanted, "a tensor that all copies read");
    ir_graph_destroy(g);
}

/* The seed of a dropout tells copies apart in their numbers only. */
static void test_seeds(void)
{
    ir_graph *g;
    int32_t x = open_net(&g);
    for (uint64_t k = 0; k < 5; k++)
        x = ir_dropout(g, block(g, x, 16), 0.1, 100 + k);
    close_net(g, x);
    ir_repeat wanted = {.length = BLOCK + 1, .copies = 5};
    expect(g, 1, &wanted, "copies with seeds of their own");
    ir_graph_destroy(g);
}

/* Every copy reads the first one's output: no two lie alike. */
static void test_distance(void)
{
    ir_graph *g;
    int32_t x = open_net(&g);
    int32_t first = block(g, x, 16);
    x = first;
    for (int32_t k = 0; k < 6; k++)
        x = ir_binary(g, IR_OP_add, block(g, x, 16), first);
    close_net(g, x);
    fs_arena *arena = fs_arena_create();
    ir_blocks found;
    ir_find_blocks(g, arena, &found);
    for (int32_t k = 0; k < found.repeats.n; k++) {
        const ir_repeat *r = &found.repeats.at[k];
        int32_t made = 1 + BLOCK - 1; /* the number of `first` */
        tap_ok(r->first > made, "what all copies read lies before them");
        printf("# from %d: %d copies of %d\n", r->first, r->copies, r->length);
    }
    fs_arena_destroy(arena);
    ir_graph_destroy(g);
}

/* Other nodes stand between the first copy and what it reads. */
static void test_far_input(void)
{
    for (int32_t copies = 2; copies < 8; copies += 5) {
        ir_graph *g;
        int32_t x = open_net(&g), far = weight(g, "far", 3, 5);
        far = ir_unary(g, IR_OP_exp, ir_unary(g, IR_OP_tanh, far));
        for (int32_t k = 0; k < copies; k++)
            x = block(g, x, 16);
        ir_mark_output(g, far);
        close_net(g, x);
        ir_repeat wanted = {.length = BLOCK, .copies = copies};
        expect(g, 1, &wanted, "the first copy's input lies further off");
        ir_graph_destroy(g);
    }
}

/* Nothing stands between the network's input and the first copy. */
static void test_graph_input(void)
{
    for (int32_t copies = 2; copies < 8; copies += 5) {
        ir_graph *g = ir_graph_create("net");
        int32_t x = ir_input(g, "x", IR_F32,
                             ir_shape_make(2, (int64_t[]){ROWS, WIDTH}), 0);
        for (int32_t k = 0; k < copies; k++)
            x = block(g, x, 16);
        close_net(g, x);
        ir_repeat wanted = {.length = BLOCK, .copies = copies};
        expect(g, 1, &wanted, "the first copy reads the graph's input");
        ir_graph_destroy(g);
    }
}

static void test_training(void)
{
    ir_graph *g;
    int32_t x = open_net(&g);
    fs_err err = {0};
    ir_train_options o = ir_train_defaults();
    for (int32_t k = 0; k < 12; k++)
        x = block(g, x, 16);
    close_net(g, x);
    tap_equal_int(ir_train(g, &o, &err), FS_OK, "a training graph");
    fs_arena *arena = fs_arena_create();
    ir_blocks found;
    ir_find_blocks(g, arena, &found);
    int32_t least = 0;
    for (int32_t k = 0; k < found.repeats.n; k++) {
        const ir_repeat *r = &found.repeats.at[k];
        least += r->copies == 12;
        printf("# from %d: %d copies of %d\n", r->first, r->copies, r->length);
    }
    tap_ok(least >= 2, "forward and backward repeat");
    tap_ok(ir_blocks_covered(&found) * 10 >= found.n_nodes * 8,
           "most of it stands in copies");
    fs_arena_destroy(arena);
    ir_graph_destroy(g);
}

/* x + relu(x w) v, as `block`. */
static int32_t block_of(ir_graph *g, int32_t x, int32_t w, int32_t v)
{
    int32_t h = ir_unary(g, IR_OP_relu, ir_matmul(g, x, w, false, false));
    return ir_binary(g, IR_OP_add, x, ir_matmul(g, h, v, false, false));
}

/* Longest repeats of each phase, as "copies x length"; 0: trains not. */
static int32_t copies_in(const ir_graph *g, ir_phase phase)
{
    fs_arena *arena = fs_arena_create();
    ir_blocks found;
    int32_t copies = 0;
    int64_t most = 0;
    ir_find_blocks(g, arena, &found);
    for (int32_t k = 0; k < found.repeats.n; k++) {
        const ir_repeat *r = &found.repeats.at[k];
        const int64_t covered = (int64_t)r->copies * r->length;
        if (g->nodes.at[found.node[r->first]].phase != phase)
            continue;
        printf("# phase %d, from %d: %d copies of %d\n", (int)phase, r->first,
               r->copies, r->length);
        if (covered > most) {
            most = covered;
            copies = r->copies;
        }
    }
    fs_arena_destroy(arena);
    return copies;
}

/* One set of weights, applied again and again (as ALBERT does). */
static void test_shared_weights(void)
{
    for (int32_t copies = 2; copies <= 12; copies += 5) {
        ir_graph *g;
        fs_err err = {0};
        ir_train_options o = ir_train_defaults();
        int32_t x = open_net(&g);
        int32_t w = weight(g, "w", WIDTH, 16), v = weight(g, "v", 16, WIDTH);
        for (int32_t k = 0; k < copies; k++)
            x = block_of(g, x, w, v);
        close_net(g, x);
        tap_equal_int(copies_in(g, IR_FORWARD), copies,
                      "copies that share their weights");
        ir_train(g, &o, &err);
        tap_equal_int(copies_in(g, IR_FORWARD), copies, "and when trained");
        tap_equal_int(copies_in(g, IR_BACKWARD), copies, "and backward");
        ir_graph_destroy(g);
    }
}

/* In 16 bits the weights are cast once, before all copies; a gradient that all
 * copies give is added up from the second on. */
static void test_shared_casts(void)
{
    for (int32_t copies = 3; copies <= 13; copies += 5) {
        ir_graph *g;
        fs_err err = {0};
        ir_train_options o = ir_train_defaults();
        int32_t x = open_net(&g);
        int32_t w = weight(g, "w", WIDTH, 16), v = weight(g, "v", 16, WIDTH);
        int32_t scale = ir_scale(g, weight(g, "u", 16, WIDTH), 0.5, 0);
        for (int32_t k = 0; k < copies; k++) {
            x = block_of(g, x, w, v);
            x = block_of(g, x, w, scale);
        }
        close_net(g, x);
        ir_rewrite_precision(g, IR_BF16);
        tap_equal_int(copies_in(g, IR_FORWARD), copies,
                      "copies that share their cast weights");
        tap_ok(ir_graph_check(g, &err) == FS_OK, "the graph is sound %s",
               err.text);
        ir_train(g, &o, &err);
        tap_ok(copies_in(g, IR_BACKWARD) == copies - 1,
               "and backward, but for the first");
        ir_graph_destroy(g);
    }
}

int main(void)
{
    test_shared_weights();
    test_shared_casts();
    test_plain();
    test_stages();
    test_exports();
    test_shared();
    test_seeds();
    test_distance();
    test_far_input();
    test_graph_input();
    test_training();
    return tap_done();
}
