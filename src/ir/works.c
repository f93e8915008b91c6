#include "config.h"
#include "ir/works.h"

#include <stddef.h>
#include <string.h>

static void put_tensor(ir_words *words, const ir_tensor *t,
                       const ir_nd_sbp *sbp, int32_t axes)
{
    ir_put_shape(words, &t->shape, t->dtype);
    ir_put_sbp(words, sbp, axes);
}

void ir_put_work(const ir_graph *graph, const ir_node *node,
                 const ir_nd_sig *sig, const ir_mesh *mesh, ir_words *words)
{
    ir_put_pair(words, (int32_t)node->op, node->n_in << 8 | node->n_out);
    ir_put_mesh(words, mesh);
    ir_put_attributes(words, node);
    for (int32_t k = 0; k < node->n_in; k++)
        put_tensor(words, &graph->tensors.at[node->in[k]], &sig->in[k],
                   mesh->n);
    for (int32_t k = 0; k < node->n_out; k++)
        put_tensor(words, &graph->tensors.at[node->out[k]], &sig->out[k],
                   mesh->n);
}

typedef struct met {
    ir_work work;
    int64_t word[];
} met;

const ir_work *ir_work_of(ir_works *works, const ir_graph *graph,
                          const ir_node *node, const ir_nd_sig *sig,
                          const ir_mesh *mesh)
{
    int64_t word[IR_WORK_WORDS];
    ir_words key = {0, IR_WORK_WORDS, word};
    ir_put_work(graph, node, sig, mesh, &key);
    const size_t bytes = (size_t)key.n * sizeof *word;
    works->known.arena = works->arena;
    const char *found = fs_intern_find(&works->known, word, bytes);
    if (found)
        return &((const met *)(found - offsetof(met, word)))->work;
    met *made = fs_alloc(works->arena, 1, sizeof *made + bytes);
    memcpy(made->word, word, bytes);
    ir_node_work(graph, node, sig, mesh, &made->work);
    fs_intern_add(&works->known, made->word, bytes);
    return &made->work;
}
