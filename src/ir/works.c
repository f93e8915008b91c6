#include "config.h"
#include "ir/works.h"

#include <stddef.h>
#include <string.h>

static void put(ir_work_key *key, int64_t word)
{
    key->word[key->n++] = word;
}

static void put_pair(ir_work_key *key, int32_t high, int32_t low)
{
    put(key, (int64_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low));
}

/* Those behind the last that is not 0 are left out. */
static void put_attributes(ir_work_key *key, const ir_node *node)
{
    int64_t at[IR_MAX_ATTR + IR_MAX_REAL];
    int32_t n = IR_MAX_ATTR + IR_MAX_REAL;
    ir_structural_attrs(node, at);
    memcpy(at + IR_MAX_ATTR, node->f, sizeof node->f);
    while (n > 0 && at[n - 1] == 0)
        n--;
    put(key, n);
    memcpy(key->word + key->n, at, (size_t)n * sizeof *at);
    key->n += n;
}

static void put_tensor(ir_work_key *key, const ir_tensor *t,
                       const ir_nd_sbp *sbp, int32_t axes)
{
    put_pair(key, (int32_t)t->dtype, t->shape.rank);
    for (int32_t d = 0; d < t->shape.rank; d++)
        put(key, t->shape.dim[d]);
    for (int32_t a = 0; a < axes; a++) {
        const ir_sbp *at = &sbp->at[a];
        put_pair(key, at->kind << 8 | at->axis, at->before << 16 | at->after);
    }
}

void ir_work_key_of(const ir_graph *graph, const ir_node *node,
                    const ir_nd_sig *sig, const ir_mesh *mesh, ir_work_key *out)
{
    out->n = 0;
    put_pair(out, (int32_t)node->op, node->n_in << 8 | node->n_out);
    put(out, mesh->n);
    for (int32_t a = 0; a < mesh->n; a++)
        put(out, mesh->dim[a]);
    put_attributes(out, node);
    for (int32_t k = 0; k < node->n_in; k++)
        put_tensor(out, &graph->tensors.at[node->in[k]], &sig->in[k], mesh->n);
    for (int32_t k = 0; k < node->n_out; k++)
        put_tensor(out, &graph->tensors.at[node->out[k]], &sig->out[k],
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
    ir_work_key key;
    ir_work_key_of(graph, node, sig, mesh, &key);
    const size_t bytes = (size_t)key.n * sizeof *key.word;
    works->known.arena = works->arena;
    const char *found = fs_intern_find(&works->known, key.word, bytes);
    if (found)
        return &((const met *)(found - offsetof(met, word)))->work;
    met *made = fs_alloc(works->arena, 1, sizeof *made + bytes);
    memcpy(made->word, key.word, bytes);
    ir_node_work(graph, node, sig, mesh, &made->work);
    fs_intern_add(&works->known, made->word, bytes);
    return &made->work;
}
