/* Every model of the zoo trains: at a tiny size, on one device, with the
 * reference kernels. */
#include "config.h"

#include "ir/element.h"
#include "ir/blocks.h"
#include "ir/rewrite.h"
#include "ir/train.h"
#include "zoo/zoo.h"

#include "tap.h"
#include "interpret_fill.h"
#include "zoo_tiny.h"

#include <math.h>

enum { SAMPLES = 4, STEPS = 8 };

static ir_graph *build(const char *spec, int64_t samples)
{
    fs_err err = {0};
    ir_graph *g = NULL;
    if (zoo_build(spec, samples, &err, &g) != FS_OK)
        printf("# %s: %s\n", spec, err.text);
    return g;
}

static void check_graph(const char *spec, const ir_graph *g)
{
    fs_err err = {0};
    int32_t left = 0;
    for (int32_t i = 0; i < g->tensors.n; i++)
        left += g->tensors.at[i].role == IR_PARAM && g->tensors.at[i].next < 0;
    tap_equal_int(left, 0, "%s: every parameter is updated", spec);
    tap_ok(ir_graph_check(g, &err) == FS_OK, "%s: the graph is sound %s", spec,
           err.text);
    ir_graph *whole = build(spec, 2 * SAMPLES), *part = build(spec, SAMPLES);
    const int32_t terms = strncmp(spec, "bert", 4) == 0 ? 2 : 1;
    ir_loss_form told;
    fs_status status = ir_loss_find_form(whole, part, 2, &err, &told);
    tap_ok(status == FS_OK && told.terms.n == terms &&
               told.terms.at[0].reduction == IR_LOSS_MEAN,
           "%s: its loss is a mean over samples%s %s", spec,
           terms > 1 ? " and one over words that count" : "", err.text);
    ir_graph_destroy(whole);
    ir_graph_destroy(part);
}

/* Running statistics have left where they started from. */
static bool buffers_moved(const interpreter *in)
{
    for (int32_t i = 0; i < in->graph->tensors.n; i++) {
        const ir_tensor *t = &in->graph->tensors.at[i];
        const double first = interpret_first(&t->init, 0, 0);
        if (t->role == IR_BUFFER &&
            ir_element_real(t->dtype, in->data[i], 0) == first)
            return false;
    }
    return true;
}

static void check_training(const char *spec, const ir_graph *g)
{
    fs_err err = {0};
    fs_arena *arena = fs_arena_create();
    interpreter in;
    double first = NAN, last = NAN;
    bool ran = true;
    interpret_open(&in, g, arena);
    interpret_fill(&in);
    for (int32_t step = 0; step < STEPS && ran; step++) {
        ran = interpret_run(&in, &err) == FS_OK;
        last = *(const float *)in.data[g->loss];
        if (step == 0)
            first = last;
        interpret_advance(&in);
    }
    tap_ok(ran && last < 0.97 * first, "%s: its loss falls: %g to %g %s", spec,
           first, last, err.text);
    tap_ok(buffers_moved(&in), "%s: running statistics move", spec);
    fs_arena_destroy(arena);
}

/* ---- pointwise ops as chains ---- */

static ir_graph *build_step(const char *spec, bool chains)
{
    fs_err err = {0};
    const ir_train_options options = ir_train_defaults();
    ir_graph *g = build(spec, SAMPLES);
    if (g && ir_train(g, &options, &err) != FS_OK)
        printf("# %s: %s\n", spec, err.text);
    if (g && chains)
        ir_rewrite_step(g, &(ir_rewrite_options){.chain = true});
    return g;
}

/* Copies of blocks, over all repeats. */
static int32_t count_copies(const ir_graph *g)
{
    fs_arena *arena = fs_arena_create();
    ir_blocks found;
    int32_t n = 0;
    ir_find_blocks(g, arena, &found);
    for (int32_t k = 0; k < found.repeats.n; k++)
        n += found.repeats.at[k].copies;
    fs_arena_destroy(arena);
    return n;
}

/* Bytes that the ops move. */
static int64_t moved_bytes(const ir_graph *g)
{
    int64_t bytes = 0;
    for (int32_t v = 0; v < g->nodes.n; v++) {
        ir_work work;
        const ir_nd_sig plain = {0};
        const ir_mesh one = {0};
        ir_node_work(g, &g->nodes.at[v], &plain, &one, &work);
        bytes += work.read_bytes + work.written_bytes;
    }
    return bytes;
}

/* Of the bits of all variables and the loss after two steps. */
static uint64_t state_after(const ir_graph *g, fs_err *err)
{
    fs_arena *arena = fs_arena_create();
    uint64_t h = 0;
    interpreter in;
    interpret_open(&in, g, arena);
    interpret_fill(&in);
    for (int32_t step = 0; step < 2 && interpret_run(&in, err) == FS_OK; step++)
        interpret_advance(&in);
    for (int32_t v = 0; v < g->nodes.n; v++) {
        const ir_node *node = &g->nodes.at[v];
        if (node->op == IR_OP_variable)
            h = fs_hash(h, in.data[node->out[0]],
                        interpret_bytes(&g->tensors.at[node->out[0]]));
    }
    h = fs_hash(h, in.data[g->loss], sizeof(float));
    fs_arena_destroy(arena);
    return h;
}

static void check_chains(const char *spec)
{
    fs_err err = {0};
    ir_graph *plain = build_step(spec, false), *g = build_step(spec, true);
    tap_ok(ir_graph_check(g, &err) == FS_OK,
           "%s: chains: the graph is sound %s", spec, err.text);
    tap_ok(g->nodes.n <= plain->nodes.n && moved_bytes(g) <= moved_bytes(plain),
           "%s: chains: %d nodes are %d, %lld bytes %lld", spec, plain->nodes.n,
           g->nodes.n, (long long)moved_bytes(plain),
           (long long)moved_bytes(g));
    tap_equal_int(count_copies(g), count_copies(plain),
                  "%s: chains: as many copies of blocks", spec);
    tap_ok(state_after(g, &err) == state_after(plain, &err),
           "%s: chains: the same bits after two steps %s", spec, err.text);
    ir_graph_destroy(g);
    ir_graph_destroy(plain);
}

static void test_model(const char *spec)
{
    check_chains(spec);
    fs_err err = {0};
    ir_graph *g = build(spec, SAMPLES);
    ir_train_options options = ir_train_defaults();
    options.optimizer = IR_ADAM;
    options.lr = 3e-3;
    const bool trains = g && ir_train(g, &options, &err) == FS_OK;
    tap_ok(trains, "%s: has a training step %s", spec, err.text);
    if (trains) {
        check_graph(spec, g);
        check_training(spec, g);
    }
    if (g)
        ir_graph_destroy(g);
}

/* ---- experts ---- */

static float *value_of(const interpreter *in, const char *name)
{
    const int32_t id = ir_graph_find(in->graph, name);
    return id < 0 ? NULL : in->data[id];
}

/* Every expert of block 0 gets the dense network's feed-forward. */
static void copy_dense(interpreter *sparse, const interpreter *dense,
                       const char *part)
{
    char from[64], to[64];
    snprintf(from, sizeof from, "blocks.0.mlp.%s.weight", part);
    snprintf(to, sizeof to, "blocks.0.moe.%s.weight", part);
    const int32_t id = ir_graph_find(dense->graph, from);
    const size_t bytes = interpret_bytes(&dense->graph->tensors.at[id]);
    char *out = (char *)value_of(sparse, to);
    for (size_t e = 0; e < 3; e++)
        memcpy(out + e * bytes, dense->data[id], bytes);
}

static double run_forward(interpreter *in, const char *loss)
{
    fs_err err = {0};
    if (interpret_phases(in, IR_FORWARD, IR_FORWARD, &err) != FS_OK)
        printf("# %s\n", err.text);
    const float *value = value_of(in, loss);
    return value ? *value : (double)NAN;
}

/* Experts that are all alike, with places for all, are one feed-forward. */
static void test_equal_experts(const char *active)
{
    char spec[128];
    fs_arena *arena = fs_arena_create();
    interpreter one, many;
    snprintf(spec, sizeof spec,
             "moe,layers=1,hidden=16,heads=2,vocab=11,seq=8,experts=3,every=1,"
             "capacity=300,active=%s",
             active);
    ir_graph *sparse = build(spec, SAMPLES);
    ir_graph *dense =
        build("gpt,layers=1,hidden=16,heads=2,vocab=11,seq=8", SAMPLES);
    interpret_open(&many, sparse, arena);
    interpret_open(&one, dense, arena);
    interpret_fill(&many);
    interpret_fill(&one);
    copy_dense(&many, &one, "fc");
    copy_dense(&many, &one, "proj");
    const double wanted = run_forward(&one, "loss");
    tap_near(run_forward(&many, "/loss/cross_entropy"), wanted, 1e-6,
             "active=%s: experts that are alike give the dense loss %g", active,
             wanted);
    ir_graph_destroy(sparse);
    ir_graph_destroy(dense);
    fs_arena_destroy(arena);
}

/* Of one expert's share of places only: what is beyond passes by. */
static void test_capacity(void)
{
    fs_arena *arena = fs_arena_create();
    interpreter in;
    ir_graph *g = build("moe,layers=1,hidden=16,heads=2,vocab=11,seq=8,"
                        "experts=4,every=1,capacity=50,active=1",
                        SAMPLES);
    interpret_open(&in, g, arena);
    interpret_fill(&in);
    run_forward(&in, "loss");
    /* One place per expert and sample: (samples, seq, experts). */
    const int32_t sent = ir_graph_find(g, "/blocks.0/moe/matmul");
    const ir_node *send = &g->nodes.at[g->tensors.at[sent].producer];
    const float *dispatch = in.data[send->in[0]];
    int32_t wrong = 0, taken = 0;
    for (int32_t b = 0; b < SAMPLES; b++)
        for (int32_t e = 0; e < 4; e++) {
            double sum = 0;
            for (int32_t s = 0; s < 8; s++)
                sum += dispatch[(b * 8 + s) * 4 + e];
            wrong += sum != 0 && sum != 1;
            taken += sum == 1;
        }
    tap_ok(wrong == 0 && taken >= SAMPLES,
           "a place holds one token at most (%d of %d are taken)", taken,
           4 * SAMPLES);
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

/* No model is left out. */
static void test_all_listed(void)
{
    char names[256];
    snprintf(names, sizeof names, "%s", zoo_names());
    for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
        bool listed = false;
        for (size_t i = 0; i < sizeof zoo_tiny / sizeof *zoo_tiny; i++) {
            const size_t n = strcspn(zoo_tiny[i], ",");
            listed |=
                n == strlen(name) && (strncmp(zoo_tiny[i], name, n) == 0 ||
                                      strcmp(name, "wide_deep") == 0);
        }
        tap_ok(listed, "%s is trained here", name);
    }
}

int main(void)
{
    test_all_listed();
    for (size_t i = 0; i < sizeof zoo_tiny / sizeof *zoo_tiny; i++)
        test_model(zoo_tiny[i]);
    test_equal_experts("2");
    test_equal_experts("3");
    test_capacity();
    return tap_done();
}
