/* What is remembered of nodes' work is what it is, whatever was met before. */
#include "config.h"

#include "ir/precision.h"
#include "ir/rewrite.h"
#include "ir/train.h"
#include "ir/works.h"

#include "zoo_build.h"
#include "zoo_tiny.h"

static ir_graph *trained(const char *spec)
{
    fs_err err = {0};
    ir_train_options o = ir_train_defaults();
    const ir_rewrite_options rewrites = ir_rewrite_usual();
    ir_graph *g = zoo_built(spec, 4);
    o.optimizer = IR_ADAM;
    o.clip_norm = 1;
    ir_rewrite(g, &rewrites);
    ir_rewrite_precision(g, IR_BF16);
    FS_ASSERT(ir_train(g, &o, &err) == FS_OK);
    ir_rewrite_step(g, &rewrites);
    return g;
}

static bool same(const ir_work *a, const ir_work *b)
{
    return a->flop == b->flop && a->macs == b->macs &&
           a->read_bytes == b->read_bytes &&
           a->written_bytes == b->written_bytes &&
           a->scratch_bytes == b->scratch_bytes && a->narrow == b->narrow;
}

/* How many of a node's signatures are told otherwise than they are. */
static int32_t wrong_of(ir_works *works, const ir_graph *g, int32_t v,
                        const ir_mesh *mesh)
{
    const ir_node *node = &g->nodes.at[v];
    fs_arena *scratch = fs_arena_create();
    ir_nd_sig_list all;
    int32_t wrong = 0;
    ir_signatures(g, node, mesh, scratch, &all);
    for (int32_t k = 0; k < all.n; k++) {
        ir_work is;
        ir_node_work(g, node, &all.at[k], mesh, &is);
        wrong += !same(&is, ir_work_of(works, g, node, &all.at[k], mesh));
    }
    fs_arena_destroy(scratch);
    return wrong;
}

int main(void)
{
    static const ir_mesh meshes[] = {{0, {0}}, {1, {4}}, {2, {2, 2}}};
    ir_works works = {.arena = fs_arena_create()};
    int32_t nodes = 0, wrong = 0;
    for (size_t k = 0; k < sizeof zoo_tiny / sizeof *zoo_tiny; k++) {
        ir_graph *g = trained(zoo_tiny[k]);
        for (int32_t v = 0; v < g->nodes.n; v++, nodes++)
            for (int32_t m = 0; m < 3; m++)
                wrong += wrong_of(&works, g, v, &meshes[m]);
        ir_graph_destroy(g);
    }
    tap_equal_int(wrong, 0, "the work of %d nodes, in all their signatures",
                  nodes);
    tap_ok(works.known.n > 1000, "%zu different ones", works.known.n);
    fs_arena_destroy(works.arena);
    return tap_done();
}
