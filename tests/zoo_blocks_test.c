/* The layers of the zoo's networks are found: forward, and in the training
 * step, whose backward pass and updates repeat with them. */
#include "config.h"

#include "ir/blocks.h"
#include "ir/recompute.h"
#include "ir/rewrite.h"
#include "ir/train.h"
#include "zoo/zoo.h"

#include "tap.h"

enum { MOST = 3, LEAST = 8 };

/* Copies of the longest repeats, in the graph's order. */
typedef struct network {
    const char *spec;
    int32_t copies[MOST]; /* forward; 0 ends */
    /* Gradients of a tensor that all copies read are added up from the second
     * on: the first of the backward pass has an op less and is none. */
    int32_t less;
} network;

static const network networks[] = {
    {"gpt,layers=5,hidden=16,heads=2,vocab=11,seq=6", {5}, 0},
    {"llama,layers=5,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=6",
     {5},
     0},
    {"llama,layers=5,hidden=16,heads=4,kv_heads=2,ffn=24,vocab=11,seq=8,"
     "experts=4,active=2,group=4",
     {5},
     0},
    {"moe,layers=6,hidden=16,heads=2,vocab=11,seq=8,experts=4,active=2",
     {3},
     0},
    {"bert,layers=5,hidden=16,heads=2,vocab=11,seq=6", {5}, 0},
    {"t5,layers=4,hidden=16,heads=2,head=8,ffn=24,vocab=11,seq=6,target=5",
     {4, 4},
     1},
    {"vit,layers=5,hidden=16,heads=2,ffn=24,patch=4,size=8,classes=5", {5}, 0},
};

static void print_found(const ir_graph *g, const ir_blocks *b)
{
    for (int32_t k = 0; k < b->repeats.n; k++) {
        const ir_repeat *r = &b->repeats.at[k];
        printf("# phase %d: %d x %d from %s\n",
               (int)g->nodes.at[b->node[r->first]].phase, (int)r->copies,
               (int)r->length, r->name);
    }
}

/* Do the longest repeats of the phase, n of them, have these copies? In the
 * backward pass they come the other way round. */
static bool right(const ir_graph *g, const ir_blocks *b, ir_phase phase,
                  const network *of)
{
    int32_t n = 0, found = 0;
    while (n < MOST && of->copies[n])
        n++;
    for (int32_t k = 0; k < b->repeats.n; k++) {
        const ir_repeat *r = &b->repeats.at[k];
        if (g->nodes.at[b->node[r->first]].phase != phase || r->length < LEAST)
            continue;
        int32_t turn = phase == IR_BACKWARD ? n - 1 - found : found;
        if (found == n ||
            r->copies != of->copies[turn] - (phase ? of->less : 0))
            return false;
        found++;
    }
    return found == n;
}

static void test_network(const network *of, bool trains, const char *recompute)
{
    fs_err err = {0};
    fs_arena *arena = fs_arena_create();
    ir_graph *g = NULL;
    ir_blocks blocks;
    ir_train_options options = ir_train_defaults();
    options.recompute = recompute;
    options.optimizer = IR_ADAM;
    bool good = zoo_build(of->spec, 4, &err, &g) == FS_OK;
    if (good)
        ir_rewrite(g, &(ir_rewrite_options){.common = true});
    good = good && (!trains || ir_train(g, &options, &err) == FS_OK);
    tap_ok(good, "%s %s", of->spec, err.text);
    if (good) {
        ir_find_blocks(g, arena, &blocks);
        for (int32_t phase = 0; phase <= (trains ? IR_UPDATE : 0); phase++)
            tap_ok(right(g, &blocks, (ir_phase)phase, of),
                   "%s%s%s: its layers in phase %d", of->spec,
                   trains ? ", training" : "", recompute ? ", recomputed" : "",
                   (int)phase);
        print_found(g, &blocks);
    }
    ir_graph_destroy(g);
    fs_arena_destroy(arena);
}

int main(void)
{
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++) {
        test_network(&networks[k], false, NULL);
        test_network(&networks[k], true, NULL);
        test_network(&networks[k], true, "block");
    }
    return tap_done();
}
