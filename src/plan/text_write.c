#include "config.h"
#include "plan/text_parts.h"

#include "base/json_out.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct writing {
    const ir_graph *graph;
    const plan *p;
    fs_json_out *out;
} writing;

static void axes_of(fs_json_out *out, const char *key, uint32_t axes)
{
    fs_json_out_begin(out, key, '[');
    for (int32_t a = 0; a < IR_MAX_MESH; a++)
        if (axes >> a & 1)
            fs_json_out_int(out, NULL, a);
    fs_json_out_end(out, ']');
}

static void ints(fs_json_out *out, const char *key, const int32_t *list,
                 int32_t n)
{
    fs_json_out_begin(out, key, '[');
    for (int32_t i = 0; i < n; i++)
        fs_json_out_int(out, NULL, list[i]);
    fs_json_out_end(out, ']');
}

static void sbp_text(fs_json_out *out, const char *key, const ir_nd_sbp *sbp,
                     int32_t n_axes)
{
    char text[64];
    fs_json_out_text(out, key, ir_nd_sbp_text(text, sbp, n_axes));
}

static void sbp_list(fs_json_out *out, const char *key, const ir_nd_sbp *list,
                     int32_t n, int32_t n_axes)
{
    fs_json_out_begin(out, key, '[');
    for (int32_t i = 0; i < n; i++)
        sbp_text(out, NULL, &list[i], n_axes);
    fs_json_out_end(out, ']');
}

static int32_t mesh_axes(const plan_strategy *s, int32_t stage)
{
    return s->stages[stage].mesh.n;
}

/* Each SBP lies on the mesh that it has come to. */
static void path_of(fs_json_out *out, const plan_ends *ends,
                    const plan_boxing *path)
{
    fs_json_out_begin(out, "path", '[');
    for (int32_t k = 0; k <= path->n; k++)
        sbp_text(out, NULL, &path->at[k],
                 plan_path_stage(ends, path, k)->mesh.n);
    fs_json_out_end(out, ']');
}

static void edges_of(const writing *w, int32_t node)
{
    const plan_strategy *s = w->p->strategy;
    fs_json_out *out = w->out;
    fs_json_out_begin(out, "boxing", '[');
    for (int32_t e = s->first_edge[node]; e < s->first_edge[node + 1]; e++) {
        if (s->edge[e].n == 0)
            continue;
        const plan_ends ends =
            plan_edge_ends(w->graph, s, node, e - s->first_edge[node]);
        fs_json_out_begin(out, NULL, '{');
        fs_json_out_int(out, "slot", e - s->first_edge[node]);
        path_of(out, &ends, &s->edge[e]);
        if (plan_ends_cross(&ends))
            fs_json_out_int(out, "cross", s->edge[e].cross);
        if (s->edge[e].sharing)
            fs_json_out_int(out, "sharing", s->edge[e].sharing);
        fs_json_out_end(out, '}');
    }
    fs_json_out_end(out, ']');
}

static void node_of(const writing *w, int32_t v)
{
    const plan_strategy *s = w->p->strategy;
    const ir_node *node = &w->graph->nodes.at[v];
    const int32_t axes = mesh_axes(s, s->stage_of[v]);
    fs_json_out_begin(w->out, NULL, '{');
    fs_json_out_text(w->out, "name", node->name);
    fs_json_out_int(w->out, "stage", s->stage_of[v]);
    sbp_list(w->out, "in", s->sig[v].in, node->n_in, axes);
    sbp_list(w->out, "out", s->sig[v].out, node->n_out, axes);
    edges_of(w, v);
    fs_json_out_end(w->out, '}');
}

static void strategy_of(const writing *w, const char *key)
{
    const plan_strategy *s = w->p->strategy;
    fs_json_out *out = w->out;
    fs_json_out_begin(out, key, '{');
    fs_json_out_int(out, "micro_batches", s->micro_batches);
    fs_json_out_int(out, "batch", s->batch);
    fs_json_out_text(out, "schedule", s->schedule);
    fs_json_out_begin(out, "stages", '[');
    for (int32_t i = 0; i < s->n_stages; i++) {
        fs_json_out_begin(out, NULL, '{');
        ints(out, "mesh", s->stages[i].mesh.dim, s->stages[i].mesh.n);
        fs_json_out_int(out, "first_device", s->stages[i].first_device);
        fs_json_out_end(out, '}');
    }
    fs_json_out_end(out, ']');
    fs_json_out_begin(out, "nodes", '[');
    for (int32_t v = 0; v < s->n_nodes; v++)
        node_of(w, v);
    fs_json_out_end(out, ']');
    fs_json_out_end(out, '}');
}

/* Of the stage at the other end. */
static int32_t peer_axes(const writing *w, const plan_task *t)
{
    const plan_channel *ends = &w->p->channels[t->channel];
    return mesh_axes(w->p->strategy,
                     t->kind == PLAN_SEND ? ends->to_stage : ends->from_stage);
}

static void step_of(fs_json_out *out, const plan_box_step *box, int32_t axes)
{
    sbp_text(out, "from", &box->from, axes);
    sbp_text(out, "to", &box->to, axes);
    fs_json_out_int(out, "bytes_in", box->bytes_in);
    fs_json_out_int(out, "bytes_out", box->bytes_out);
}

/* What all have in common stands once. */
static void parts_of(const writing *w, const plan_task *t, int32_t axes)
{
    fs_json_out *out = w->out;
    fs_json_out_begin(out, "parts", '[');
    for (int32_t i = 0; i < t->n_parts; i++) {
        const plan_part *part = &t->parts[i];
        fs_json_out_begin(out, NULL, '{');
        fs_json_out_text(out, "tensor",
                         w->graph->tensors.at[part->tensor].name);
        step_of(out, &part->box, axes);
        fs_json_out_end(out, '}');
    }
    fs_json_out_end(out, ']');
}

static void box_of(const writing *w, const plan_task *t, int32_t axes)
{
    fs_json_out *out = w->out;
    fs_json_out_text(out, "box", plan_box_name(t->box.kind));
    axes_of(out, "axes", t->box.axes);
    if (t->n_parts > 0)
        parts_of(w, t, axes);
    else
        step_of(out, &t->box, axes);
    fs_json_out_int(out, "comm", t->comm);
}

static void task_of(const writing *w, const plan_role *role, const plan_task *t)
{
    const int32_t axes = plan_role_mesh(w->p, role)->n;
    fs_json_out *out = w->out;
    fs_json_out_begin(out, NULL, '{');
    fs_json_out_text(out, "kind", plan_task_kind_name(t->kind));
    fs_json_out_text(out, "phase", plan_phase_name(t->phase));
    if (role->n_chunks > 1)
        fs_json_out_int(out, "chunk", t->chunk);
    if (t->kind == PLAN_COMPUTE || t->kind == PLAN_LOAD)
        fs_json_out_text(out, "node", w->graph->nodes.at[t->node].name);
    else if (t->n_parts == 0)
        fs_json_out_text(out, "tensor", w->graph->tensors.at[t->tensor].name);
    if (t->kind == PLAN_BOX)
        box_of(w, t, axes);
    if (t->kind == PLAN_SEND || t->kind == PLAN_RECV) {
        sbp_text(out, "sbp", &t->sbp, axes);
        sbp_text(out, "peer_sbp", &t->peer_sbp, peer_axes(w, t));
        fs_json_out_int(out, "channel", t->channel);
    }
    fs_json_out_int(out, "stream", t->stream);
    ints(out, "in", t->in, t->n_in);
    ints(out, "out", t->out, t->n_out);
    fs_json_out_int(out, "scratch_bytes", t->scratch_bytes);
    fs_json_out_end(out, '}');
}

static void register_of(const writing *w, const plan_register *r, int32_t axes)
{
    fs_json_out *out = w->out;
    fs_json_out_begin(out, NULL, '{');
    fs_json_out_text(out, "tensor", w->graph->tensors.at[r->tensor].name);
    sbp_text(out, "sbp", &r->sbp, axes);
    fs_json_out_int(out, "bytes", r->bytes);
    fs_json_out_begin(out, "offset", '[');
    for (int32_t i = 0; i < r->count; i++)
        fs_json_out_int(out, NULL, r->offset[i]);
    fs_json_out_end(out, ']');
    fs_json_out_bool(out, "per_step", r->per_step);
    fs_json_out_bool(out, "persistent", r->persistent);
    fs_json_out_bool(out, "own_memory", r->own_memory);
    fs_json_out_int(out, "producer", r->producer);
    ints(out, "consumers", r->consumers, r->n_consumers);
    fs_json_out_end(out, '}');
}

static void slots_of(fs_json_out *out, const plan_role *role)
{
    fs_json_out_begin(out, "slots", '[');
    for (int32_t i = 0; i < role->n_slots; i++) {
        char text[64];
        int n = snprintf(text, sizeof text, "%s %d",
                         plan_phase_name(role->slots[i].phase),
                         role->slots[i].micro_batch);
        if (role->n_chunks > 1)
            snprintf(text + n, sizeof text - (size_t)n, " chunk %d",
                     role->slots[i].chunk);
        fs_json_out_text(out, NULL, text);
    }
    fs_json_out_end(out, ']');
}

static void streams_of(fs_json_out *out, const plan_role *role)
{
    fs_json_out_begin(out, "streams", '[');
    for (int32_t i = 0; i < role->n_streams; i++) {
        const plan_stream *s = &role->streams[i];
        fs_json_out_begin(out, NULL, '{');
        fs_json_out_text(out, "kind", plan_stream_kind_name(s->kind));
        fs_json_out_int(out, "channel", s->channel);
        fs_json_out_int(out, "scratch_offset", role->stream_scratch[i]);
        fs_json_out_end(out, '}');
    }
    fs_json_out_end(out, ']');
}

static void role_of(const writing *w, const plan_role *role)
{
    const int32_t axes = plan_role_mesh(w->p, role)->n;
    fs_json_out *out = w->out;
    fs_json_out_begin(out, NULL, '{');
    ints(out, "stages", role->stages, role->n_chunks);
    fs_json_out_int(out, "first_rank", role->first_rank);
    fs_json_out_int(out, "n_ranks", role->n_ranks);
    fs_json_out_int(out, "arena_bytes", role->arena_bytes);
    fs_json_out_int(out, "bound_bytes", role->bound_bytes);
    fs_json_out_begin(out, "bytes", '{');
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        fs_json_out_int(out, plan_bytes_kind_name(k), role->bytes[k]);
    fs_json_out_end(out, '}');
    slots_of(out, role);
    streams_of(out, role);
    fs_json_out_begin(out, "registers", '[');
    for (int32_t i = 0; i < role->n_registers; i++)
        register_of(w, &role->registers[i], axes);
    fs_json_out_end(out, ']');
    fs_json_out_begin(out, "tasks", '[');
    for (int32_t i = 0; i < role->n_tasks; i++)
        task_of(w, role, &role->tasks[i]);
    fs_json_out_end(out, ']');
    fs_json_out_end(out, '}');
}

static void physical_of(const writing *w, const char *key)
{
    const plan *p = w->p;
    fs_json_out *out = w->out;
    fs_json_out_begin(out, key, '{');
    fs_json_out_int(out, "micro_batches", p->micro_batches);
    fs_json_out_begin(out, "comms", '[');
    for (int32_t i = 0; i < p->n_comms; i++) {
        fs_json_out_begin(out, NULL, '{');
        fs_json_out_int(out, "stage", p->comms[i].stage);
        axes_of(out, "axes", p->comms[i].axes);
        fs_json_out_end(out, '}');
    }
    fs_json_out_end(out, ']');
    fs_json_out_begin(out, "channels", '[');
    for (int32_t i = 0; i < p->n_channels; i++) {
        fs_json_out_begin(out, NULL, '{');
        fs_json_out_int(out, "from_stage", p->channels[i].from_stage);
        fs_json_out_int(out, "to_stage", p->channels[i].to_stage);
        fs_json_out_end(out, '}');
    }
    fs_json_out_end(out, ']');
    fs_json_out_begin(out, "roles", '[');
    for (int32_t i = 0; i < p->n_roles; i++)
        role_of(w, &p->roles[i]);
    fs_json_out_end(out, ']');
    fs_json_out_end(out, '}');
}

static uint64_t hash_json(uint64_t seed, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17));
    uint64_t digest = text ? fs_hash_text(seed, text) : 0;
    free(text);
    return digest;
}

/* Of a part's text. */
static uint64_t hash_part(uint64_t seed, const ir_graph *graph, const plan *p,
                          void (*part)(const writing *w, const char *key))
{
    fs_json_out out = fs_json_out_to(NULL);
    const writing w = {graph, p, &out};
    part(&w, NULL);
    const uint64_t digest = fs_hash(seed, out.text, out.n);
    free(out.text);
    return digest;
}

uint64_t plan_digest_of(const ir_graph *graph, const plan *p,
                        const plan_origin *origin)
{
    uint64_t both[2] = {p->model_digest, p->cluster_digest};
    uint64_t digest = fs_hash(0, both, sizeof both);
    if (origin) {
        json_t *said = plan_origin_to_json(origin, p->micro_batches);
        json_object_del(said, "model");
        json_object_del(said, "cluster");
        json_object_del(said, "memory_bytes");
        digest = hash_json(digest, said);
        json_decref(said);
    }
    digest = hash_part(digest, graph, p, strategy_of);
    return hash_part(digest, graph, p, physical_of);
}

/* JSON holds UTF-8 only; a name that is not cannot be written. */
static fs_status check_names(const char *path, const ir_graph *graph,
                             fs_err *err)
{
    for (int32_t i = 0; i < graph->nodes.n + graph->tensors.n; i++) {
        bool is_node = i < graph->nodes.n;
        const char *name = is_node ? graph->nodes.at[i].name
                                   : graph->tensors.at[i - graph->nodes.n].name;
        json_t *text = json_string(name);
        if (!text)
            return fs_fail(err, FS_INVALID,
                           "%s: cannot be written: the name of %s %d is not "
                           "valid UTF-8",
                           path, is_node ? "node" : "tensor",
                           is_node ? i : i - graph->nodes.n);
        json_decref(text);
    }
    return FS_OK;
}

static void digest_text(fs_json_out *out, const char *key, uint64_t digest)
{
    char text[17];
    fs_hex(digest, text);
    fs_json_out_text(out, key, text);
}

static void write_head(fs_json_out *out, const plan *p,
                       const plan_origin *origin, const hw_cluster *cluster)
{
    json_t *said = plan_origin_to_json(origin, p->micro_batches);
    fs_json_out_text(out, "format", PLAN_FORMAT_NAME);
    fs_json_out_int(out, "version", PLAN_FORMAT_VERSION);
    digest_text(out, "model_digest", p->model_digest);
    digest_text(out, "cluster_digest", p->cluster_digest);
    digest_text(out, "plan_digest", p->digest);
    fs_json_out_value(out, "origin", said);
    json_decref(said);
    if (!plan_origin_is_local(origin))
        return;
    json_t *probed = hw_cluster_to_json(cluster);
    fs_json_out_value(out, "cluster", probed);
    json_decref(probed);
}

fs_status plan_write(const char *path, const ir_graph *graph, plan *p,
                     const plan_origin *origin, const hw_cluster *cluster,
                     fs_err *err)
{
    fs_output file;
    FS_TRY(check_names(path, graph, err));
    p->digest = plan_digest_of(graph, p, origin);
    FS_TRY(fs_output_open(&file, path, err));
    fs_json_out out = fs_json_out_to(&file);
    const writing w = {graph, p, &out};
    fs_json_out_begin(&out, NULL, '{');
    write_head(&out, p, origin, cluster);
    strategy_of(&w, "strategy");
    physical_of(&w, "plan");
    fs_json_out_end(&out, '}');
    fs_json_out_flush(&out);
    fs_output_write(&file, "\n", 1);
    return fs_output_close(&file, err);
}
