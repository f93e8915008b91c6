/* A plan as ONNX's sharding annotations: which stage runs a node, and how each
 * of its inputs and outputs is split or repeated over the stage's devices. A
 * partial sum has no form there: how each input and output lies also stands as
 * text in the node's metadata, beside the signature of the op it is part of. */
#include "config.h"
#include "onnx/writer.h"

#include <stdio.h>
#include <string.h>

static const char configuration[] = "plan";

void onnx_put_note(fs_wire_out *out, uint32_t field, const char *key,
                   const char *value)
{
    fs_wire_out note = {.arena = out->arena};
    fs_wire_put_text(&note, 1, key);
    fs_wire_put_text(&note, 2, value);
    fs_wire_put_message(out, field, &note);
}

/* How often each tensor axis is cut by all mesh axes together. */
static void count_cuts(const ir_nd_sbp *sbp, const ir_mesh *mesh,
                       int32_t cuts[IR_MAX_RANK])
{
    for (int32_t i = 0; i < IR_MAX_RANK; i++)
        cuts[i] = 1;
    for (int32_t k = 0; k < mesh->n; k++)
        if (sbp->at[k].kind == IR_S)
            cuts[sbp->at[k].axis] *= mesh->dim[k];
}

/* Which shard a device holds: row-major over the tensor's axes, and on one
 * axis over the mesh axes that cut it, in their order. */
static int64_t shard_of(const ir_nd_sbp *sbp, const ir_mesh *mesh,
                        int32_t device)
{
    int32_t at[IR_MAX_MESH], cuts[IR_MAX_RANK];
    int64_t shard = 0;
    ir_mesh_coords(mesh, device, at);
    count_cuts(sbp, mesh, cuts);
    for (int32_t i = 0; i < IR_MAX_RANK; i++) {
        int64_t piece = 0;
        for (int32_t k = 0; k < mesh->n; k++)
            if (sbp->at[k].kind == IR_S && sbp->at[k].axis == i)
                piece = piece * mesh->dim[k] + at[k];
        shard = shard * cuts[i] + piece;
    }
    return shard;
}

static void put_cuts(fs_wire_out *spec, const ir_nd_sbp *sbp,
                     const ir_mesh *mesh, const ir_shape *shape)
{
    int32_t cuts[IR_MAX_RANK];
    count_cuts(sbp, mesh, cuts);
    for (int32_t i = 0; i < shape->rank; i++) {
        fs_wire_out simple = {.arena = spec->arena}, dim = simple;
        if (cuts[i] == 1)
            continue;
        fs_wire_put_int(&simple, 1, shape->dim[i]);
        fs_wire_put_int(&simple, 3, cuts[i]);
        fs_wire_put_int(&dim, 1, i);
        fs_wire_put_message(&dim, 2, &simple);
        fs_wire_put_message(spec, 4, &dim);
    }
}

/* One entry per shard: its device, or, where several hold it, a negative number
 * that the map resolves. */
static void put_devices(fs_wire_out *spec, const ir_nd_sbp *sbp,
                        const ir_mesh *mesh, int32_t first)
{
    int32_t cuts[IR_MAX_RANK], n = ir_mesh_size(mesh), shards = 1;
    fs_wire_out map = {.arena = spec->arena};
    count_cuts(sbp, mesh, cuts);
    for (int32_t i = 0; i < IR_MAX_RANK; i++)
        shards *= cuts[i];
    for (int32_t s = 0; s < shards; s++) {
        fs_wire_out group = {.arena = spec->arena};
        int32_t held = 0, last = 0;
        fs_wire_put_int(&group, 1, -(int64_t)s - 1);
        for (int32_t d = 0; d < n; d++) {
            if (shard_of(sbp, mesh, d) != s)
                continue;
            last = first + d;
            fs_wire_put_int(&group, 2, last);
            held++;
        }
        fs_wire_put_int(spec, 2, held == 1 ? last : -(int64_t)s - 1);
        if (held != 1)
            fs_wire_put_message(&map, 3, &group);
    }
    fs_wire_put_raw(spec, map.at, map.n);
}

static bool is_partial(const ir_nd_sbp *sbp, const ir_mesh *mesh)
{
    for (int32_t k = 0; k < mesh->n; k++)
        if (ir_sbp_is_partial(sbp->at[k]))
            return true;
    return false;
}

static bool has_halo(const ir_nd_sbp *sbp, const ir_mesh *mesh)
{
    for (int32_t k = 0; k < mesh->n; k++)
        if (ir_sbp_has_halo(sbp->at[k]))
            return true;
    return false;
}

/* A partial tensor gets no specification: to call it repeated would be wrong.
 */
static void put_spec(const onnx_writer *w, fs_wire_out *out, int32_t stage,
                     const onnx_layout *at)
{
    const onnx_placement *p = w->options->placement;
    const ir_mesh *mesh = &p->mesh[stage];
    fs_wire_out spec = {.arena = out->arena};
    if (is_partial(&at->sbp, mesh))
        return;
    fs_wire_put_text(&spec, 1, at->name);
    put_devices(&spec, &at->sbp, mesh, p->first_device[stage]);
    put_cuts(&spec, &at->sbp, mesh, &at->shape);
    fs_wire_put_message(out, 2, &spec);
}

/* Each value is counted once, where it is made. */
static void count(onnx_writer *w, const ir_mesh *mesh, const onnx_layout *at,
                  bool made)
{
    w->n_between += made && !at;
    w->n_partial += made && at && is_partial(&at->sbp, mesh);
    w->n_halo += !made && at && has_halo(&at->sbp, mesh);
}

/* The signature of this very node, position by position: "?" for what does not
 * follow from the op's, "-" for an input that is not given. */
void onnx_put_node_plan(onnx_writer *w, const onnx_line *line, fs_wire_out *out)
{
    const onnx_placement *p = w->options->placement;
    int32_t v = w->origin[w->node - w->graph->nodes.at], stage = p->stage_of[v];
    const ir_node *node = &w->planned->nodes.at[v];
    const ir_mesh *mesh = &p->mesh[stage];
    fs_wire_out placed = {.arena = w->arena};
    fs_text text = {.arena = w->arena};
    char one[64];
    fs_wire_put_text(&placed, 1, configuration);
    onnx_lay_line(w, line);
    for (int32_t i = 0; i < line->n_in + line->n_out; i++) {
        const bool made = i >= line->n_in;
        const char *name = made ? line->out[i - line->n_in] : line->in[i];
        const onnx_layout *at = onnx_layout_of(w, line, i);
        fs_text_add(&text, "%s%s", i ? " " : "", i == line->n_in ? "-> " : "");
        fs_text_add(&text, "%s",
                    !name[0] ? "-"
                    : !at    ? "?"
                             : ir_nd_sbp_text(one, &at->sbp, mesh->n));
        if (name[0])
            count(w, mesh, at, made);
        if (name[0] && at)
            put_spec(w, &placed, stage, at);
    }
    fs_wire_put_int(&placed, 3, stage);
    onnx_put_note(out, 9, "flowsearch.sbp", text.at);
    onnx_put_note(
        out, 9, "flowsearch.op",
        fs_printf(w->arena, "%s: %s", ir_op_table[node->op]->name,
                  ir_signature_text(node, &p->sig[v], mesh->n, w->arena)));
    fs_wire_put_message(out, 10, &placed);
}

static int32_t count_devices(const onnx_placement *p)
{
    int32_t n = 0;
    for (int32_t s = 0; s < p->n_stages; s++) {
        int32_t end = p->first_device[s] + ir_mesh_size(&p->mesh[s]);
        n = end > n ? end : n;
    }
    return n;
}

static const char *mesh_text(fs_arena *arena, const ir_mesh *mesh)
{
    fs_text text = {.arena = arena};
    for (int32_t k = 0; k < mesh->n; k++)
        fs_text_add(&text, "%s%d", k ? "x" : "", mesh->dim[k]);
    return text.at ? text.at : "1";
}

void onnx_put_model_plan(onnx_writer *w, fs_wire_out *out)
{
    const onnx_placement *p = w->options->placement;
    fs_wire_out all = {.arena = w->arena};
    char text[32];
    int32_t n = count_devices(p);
    fs_wire_put_text(&all, 1, configuration);
    fs_wire_put_int(&all, 2, n);
    for (int32_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "device %d", i);
        fs_wire_put_text(&all, 3, text);
    }
    fs_wire_put_message(out, 26, &all);
    snprintf(text, sizeof text, "%d", w->graph->micro_batches);
    onnx_put_note(out, 14, "flowsearch.micro_batches", text);
    onnx_put_note(out, 14, "flowsearch.schedule", p->schedule);
    fs_hex(p->digest, text);
    onnx_put_note(out, 14, "flowsearch.plan_digest", text);
    for (int32_t s = 0; s < p->n_stages; s++)
        onnx_put_note(out, 14,
                      fs_printf(w->arena, "flowsearch.stage.%d.mesh", s),
                      mesh_text(w->arena, &p->mesh[s]));
}
