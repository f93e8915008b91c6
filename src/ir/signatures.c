/* Signatures: the one-axis list of an op, and their product over the axes of a
 * mesh. Nothing else in the program multiplies signatures. */
#include "config.h"
#include "ir/op.h"

static bool same_sig(const ir_node *node, const ir_sig *a, const ir_sig *b)
{
    for (int32_t i = 0; i < node->n_in; i++)
        if (!ir_sbp_equal(a->in[i], b->in[i]))
            return false;
    for (int32_t i = 0; i < node->n_out; i++)
        if (!ir_sbp_equal(a->out[i], b->out[i]))
            return false;
    return true;
}

static bool is_listed(const ir_node *node, const ir_sig_list *list,
                      const ir_sig *sig)
{
    for (int32_t i = 0; i < list->n; i++)
        if (same_sig(node, &list->at[i], sig))
            return true;
    return false;
}

/* Partial values are reduced by adding floats: no other type may be P. */
static bool partials_are_floats(const ir_node *node, const ir_io *io,
                                const ir_sig *sig)
{
    for (int32_t i = 0; i < node->n_in; i++)
        if (ir_sbp_is_partial(sig->in[i]) &&
            !ir_dtype_is_float(io->in_dtype[i]))
            return false;
    for (int32_t i = 0; i < node->n_out; i++)
        if (ir_sbp_is_partial(sig->out[i]) &&
            !ir_dtype_is_float(io->out_dtype[i]))
            return false;
    return true;
}

void ir_signatures_local(const ir_node *node, const ir_io *io, fs_arena *arena,
                         ir_sig_list *out)
{
    ir_sig_list raw = {0};
    *out = (ir_sig_list){0};
    fs_push(arena, out, (ir_sig){0});
    if (!ir_op_table[node->op]->sbp)
        return;
    ir_op_table[node->op]->sbp(node, io, arena, &raw);
    for (int32_t i = 0; i < raw.n; i++)
        if (partials_are_floats(node, io, &raw.at[i]) &&
            !is_listed(node, out, &raw.at[i]))
            fs_push(arena, out, raw.at[i]);
}

void ir_signatures_1d(const ir_graph *graph, const ir_node *node,
                      fs_arena *arena, ir_sig_list *out)
{
    ir_io io;
    ir_node_io(graph, node, &io);
    ir_signatures_local(node, &io, arena, out);
}

typedef struct product {
    const ir_node *node;
    const ir_io *io;
    const ir_mesh *mesh;
    const ir_sig_list *list;
    fs_arena *arena;
    ir_nd_sig_list *out;
} product;

static void set_axis(const ir_node *node, ir_nd_sig *nd, int32_t axis,
                     const ir_sig *sig)
{
    for (int32_t i = 0; i < node->n_in; i++)
        nd->in[i].at[axis] = sig->in[i];
    for (int32_t i = 0; i < node->n_out; i++)
        nd->out[i].at[axis] = sig->out[i];
}

bool ir_signature_fits(const ir_node *node, const ir_io *io,
                       const ir_mesh *mesh, const ir_nd_sig *sig)
{
    for (int32_t i = 0; i < node->n_in; i++)
        if (!ir_nd_sbp_fits(&sig->in[i], &io->in[i], mesh))
            return false;
    for (int32_t i = 0; i < node->n_out; i++)
        if (!ir_nd_sbp_fits(&sig->out[i], &io->out[i], mesh))
            return false;
    const ir_op *op = ir_op_table[node->op];
    return !op->veto || !op->veto(node, io, mesh, sig);
}

/* Axes from `axis` on are still B: a prefix that does not fit never will. */
static void extend(const product *p, ir_nd_sig *nd, int32_t axis)
{
    if (axis == p->mesh->n) {
        fs_push(p->arena, p->out, *nd);
        return;
    }
    int32_t n = p->mesh->dim[axis] > 1 ? p->list->n : 1;
    for (int32_t i = 0; i < n; i++) {
        set_axis(p->node, nd, axis, &p->list->at[i]);
        if (ir_signature_fits(p->node, p->io, p->mesh, nd))
            extend(p, nd, axis + 1);
    }
    set_axis(p->node, nd, axis, &(ir_sig){0});
}

void ir_signatures(const ir_graph *graph, const ir_node *node,
                   const ir_mesh *mesh, fs_arena *arena, ir_nd_sig_list *out)
{
    ir_io io;
    ir_sig_list list;
    ir_nd_sig nd = {0};
    ir_node_io(graph, node, &io);
    ir_signatures_local(node, &io, arena, &list);
    *out = (ir_nd_sig_list){0};
    extend(&(product){node, &io, mesh, &list, arena, out}, &nd, 0);
}

static ir_sig axis_of(const ir_node *node, const ir_nd_sig *nd, int32_t axis)
{
    ir_sig sig = {0};
    for (int32_t i = 0; i < node->n_in; i++)
        sig.in[i] = nd->in[i].at[axis];
    for (int32_t i = 0; i < node->n_out; i++)
        sig.out[i] = nd->out[i].at[axis];
    return sig;
}

bool ir_signature_legal(const ir_graph *graph, const ir_node *node,
                        const ir_mesh *mesh, const ir_nd_sig *sig)
{
    ir_io io;
    ir_sig_list list;
    bool legal = true;
    fs_arena *arena = fs_arena_create();
    ir_node_io(graph, node, &io);
    ir_signatures_local(node, &io, arena, &list);
    for (int32_t axis = 0; legal && axis < mesh->n; axis++) {
        ir_sig one = axis_of(node, sig, axis);
        if (mesh->dim[axis] == 1)
            legal = same_sig(node, &one, &(ir_sig){0});
        else
            legal = is_listed(node, &list, &one);
    }
    fs_arena_destroy(arena);
    return legal && ir_signature_fits(node, &io, mesh, sig);
}

const char *ir_signature_text(const ir_node *node, const ir_nd_sig *sig,
                              int32_t n_axes, fs_arena *arena)
{
    fs_text text = {.arena = arena};
    char one[64];
    for (int32_t i = 0; i < node->n_in; i++)
        fs_text_add(&text, "%s ", ir_nd_sbp_text(one, &sig->in[i], n_axes));
    fs_text_add(&text, "->");
    for (int32_t i = 0; i < node->n_out; i++)
        fs_text_add(&text, " %s", ir_nd_sbp_text(one, &sig->out[i], n_axes));
    return text.at;
}
