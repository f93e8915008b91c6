#include "config.h"
#include "plan/text_parts.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct writing {
    const ir_graph *graph;
    const plan *p;
} writing;

static void set(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static void set_hex(json_t *object, const char *key, uint64_t digest)
{
    char text[17];
    fs_hex(digest, text);
    set(object, key, json_string(text));
}

static json_t *axes_of(uint32_t axes)
{
    json_t *out = json_array();
    for (int32_t a = 0; a < IR_MAX_MESH; a++)
        if (axes >> a & 1)
            json_array_append_new(out, json_integer(a));
    return out;
}

static json_t *ints(const int32_t *list, int32_t n)
{
    json_t *out = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(out, json_integer(list[i]));
    return out;
}

static json_t *sbp_text(const ir_nd_sbp *sbp, int32_t n_axes)
{
    char text[64];
    return json_string(ir_nd_sbp_text(text, sbp, n_axes));
}

static json_t *sbp_list(const ir_nd_sbp *list, int32_t n, int32_t n_axes)
{
    json_t *out = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(out, sbp_text(&list[i], n_axes));
    return out;
}

static int32_t mesh_axes(const plan_strategy *s, int32_t stage)
{
    return s->stages[stage].mesh.n;
}

/* Each SBP lies on the mesh that it has come to. */
static json_t *path_of(const plan_ends *ends, const plan_boxing *path)
{
    json_t *out = json_array();
    for (int32_t k = 0; k <= path->n; k++)
        json_array_append_new(
            out,
            sbp_text(&path->at[k], plan_path_stage(ends, path, k)->mesh.n));
    return out;
}

static json_t *edges_of(const writing *w, int32_t node)
{
    const plan_strategy *s = w->p->strategy;
    json_t *out = json_array();
    for (int32_t e = s->first_edge[node]; e < s->first_edge[node + 1]; e++) {
        if (s->edge[e].n == 0)
            continue;
        const plan_ends ends =
            plan_edge_ends(w->graph, s, node, e - s->first_edge[node]);
        json_t *edge = json_object();
        fs_json_set_int(edge, "slot", e - s->first_edge[node]);
        set(edge, "path", path_of(&ends, &s->edge[e]));
        if (plan_ends_cross(&ends))
            fs_json_set_int(edge, "cross", s->edge[e].cross);
        if (s->edge[e].sharing)
            fs_json_set_int(edge, "sharing", s->edge[e].sharing);
        json_array_append_new(out, edge);
    }
    return out;
}

static json_t *node_of(const writing *w, int32_t v)
{
    const plan_strategy *s = w->p->strategy;
    const ir_node *node = &w->graph->nodes.at[v];
    int32_t axes = mesh_axes(s, s->stage_of[v]);
    json_t *out = json_object();
    fs_json_set_text(out, "name", node->name);
    fs_json_set_int(out, "stage", s->stage_of[v]);
    set(out, "in", sbp_list(s->sig[v].in, node->n_in, axes));
    set(out, "out", sbp_list(s->sig[v].out, node->n_out, axes));
    set(out, "boxing", edges_of(w, v));
    return out;
}

static json_t *strategy_of(const writing *w)
{
    const plan_strategy *s = w->p->strategy;
    json_t *out = json_object(), *stages = json_array(), *nodes = json_array();
    fs_json_set_int(out, "micro_batches", s->micro_batches);
    fs_json_set_int(out, "batch", s->batch);
    fs_json_set_text(out, "schedule", s->schedule);
    for (int32_t i = 0; i < s->n_stages; i++) {
        json_t *stage = json_object();
        set(stage, "mesh", ints(s->stages[i].mesh.dim, s->stages[i].mesh.n));
        fs_json_set_int(stage, "first_device", s->stages[i].first_device);
        json_array_append_new(stages, stage);
    }
    set(out, "stages", stages);
    for (int32_t v = 0; v < s->n_nodes; v++)
        json_array_append_new(nodes, node_of(w, v));
    set(out, "nodes", nodes);
    return out;
}

/* Of the stage at the other end. */
static int32_t peer_axes(const writing *w, const plan_task *t)
{
    const plan_channel *ends = &w->p->channels[t->channel];
    return mesh_axes(w->p->strategy,
                     t->kind == PLAN_SEND ? ends->to_stage : ends->from_stage);
}

static json_t *task_of(const writing *w, const plan_role *role,
                       const plan_task *t)
{
    int32_t axes = plan_role_mesh(w->p, role)->n;
    json_t *out = json_object();
    fs_json_set_text(out, "kind", plan_task_kind_name(t->kind));
    fs_json_set_text(out, "phase", plan_phase_name(t->phase));
    if (role->n_chunks > 1)
        fs_json_set_int(out, "chunk", t->chunk);
    if (t->kind == PLAN_COMPUTE || t->kind == PLAN_LOAD)
        fs_json_set_text(out, "node", w->graph->nodes.at[t->node].name);
    else
        fs_json_set_text(out, "tensor", w->graph->tensors.at[t->tensor].name);
    if (t->kind == PLAN_BOX) {
        fs_json_set_text(out, "box", plan_box_name(t->box.kind));
        set(out, "axes", axes_of(t->box.axes));
        set(out, "from", sbp_text(&t->box.from, axes));
        set(out, "to", sbp_text(&t->box.to, axes));
        fs_json_set_int(out, "bytes_in", t->box.bytes_in);
        fs_json_set_int(out, "bytes_out", t->box.bytes_out);
        fs_json_set_int(out, "comm", t->comm);
    }
    if (t->kind == PLAN_SEND || t->kind == PLAN_RECV) {
        set(out, "sbp", sbp_text(&t->sbp, axes));
        set(out, "peer_sbp", sbp_text(&t->peer_sbp, peer_axes(w, t)));
        fs_json_set_int(out, "channel", t->channel);
    }
    fs_json_set_int(out, "stream", t->stream);
    set(out, "in", ints(t->in, t->n_in));
    set(out, "out", ints(t->out, t->n_out));
    fs_json_set_int(out, "scratch_bytes", t->scratch_bytes);
    return out;
}

static json_t *register_of(const writing *w, const plan_register *r,
                           int32_t axes)
{
    json_t *out = json_object(), *offsets = json_array();
    fs_json_set_text(out, "tensor", w->graph->tensors.at[r->tensor].name);
    set(out, "sbp", sbp_text(&r->sbp, axes));
    fs_json_set_int(out, "bytes", r->bytes);
    for (int32_t i = 0; i < r->count; i++)
        json_array_append_new(offsets, json_integer(r->offset[i]));
    set(out, "offset", offsets);
    fs_json_set_bool(out, "per_step", r->per_step);
    fs_json_set_bool(out, "persistent", r->persistent);
    fs_json_set_bool(out, "own_memory", r->own_memory);
    fs_json_set_int(out, "producer", r->producer);
    set(out, "consumers", ints(r->consumers, r->n_consumers));
    return out;
}

static json_t *slots_of(const plan_role *role)
{
    json_t *out = json_array();
    for (int32_t i = 0; i < role->n_slots; i++) {
        char text[64];
        int n = snprintf(text, sizeof text, "%s %d",
                         plan_phase_name(role->slots[i].phase),
                         role->slots[i].micro_batch);
        if (role->n_chunks > 1)
            snprintf(text + n, sizeof text - (size_t)n, " chunk %d",
                     role->slots[i].chunk);
        json_array_append_new(out, json_string(text));
    }
    return out;
}

static json_t *streams_of(const plan_role *role)
{
    json_t *out = json_array();
    for (int32_t i = 0; i < role->n_streams; i++) {
        const plan_stream *s = &role->streams[i];
        json_t *stream = json_object();
        fs_json_set_text(stream, "kind", plan_stream_kind_name(s->kind));
        fs_json_set_int(stream, "channel", s->channel);
        fs_json_set_int(stream, "scratch_offset", role->stream_scratch[i]);
        json_array_append_new(out, stream);
    }
    return out;
}

static json_t *role_of(const writing *w, const plan_role *role)
{
    int32_t axes = plan_role_mesh(w->p, role)->n;
    json_t *out = json_object(), *bytes = json_object();
    json_t *registers = json_array(), *tasks = json_array();
    set(out, "stages", ints(role->stages, role->n_chunks));
    fs_json_set_int(out, "first_rank", role->first_rank);
    fs_json_set_int(out, "n_ranks", role->n_ranks);
    fs_json_set_int(out, "arena_bytes", role->arena_bytes);
    fs_json_set_int(out, "bound_bytes", role->bound_bytes);
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        fs_json_set_int(bytes, plan_bytes_kind_name(k), role->bytes[k]);
    set(out, "bytes", bytes);
    set(out, "slots", slots_of(role));
    set(out, "streams", streams_of(role));
    for (int32_t i = 0; i < role->n_registers; i++)
        json_array_append_new(registers,
                              register_of(w, &role->registers[i], axes));
    set(out, "registers", registers);
    for (int32_t i = 0; i < role->n_tasks; i++)
        json_array_append_new(tasks, task_of(w, role, &role->tasks[i]));
    set(out, "tasks", tasks);
    return out;
}

static json_t *physical_of(const writing *w)
{
    const plan *p = w->p;
    json_t *out = json_object(), *comms = json_array();
    json_t *channels = json_array(), *roles = json_array();
    fs_json_set_int(out, "micro_batches", p->micro_batches);
    for (int32_t i = 0; i < p->n_comms; i++) {
        json_t *comm = json_object();
        fs_json_set_int(comm, "stage", p->comms[i].stage);
        set(comm, "axes", axes_of(p->comms[i].axes));
        json_array_append_new(comms, comm);
    }
    set(out, "comms", comms);
    for (int32_t i = 0; i < p->n_channels; i++) {
        json_t *channel = json_object();
        fs_json_set_int(channel, "from_stage", p->channels[i].from_stage);
        fs_json_set_int(channel, "to_stage", p->channels[i].to_stage);
        json_array_append_new(channels, channel);
    }
    set(out, "channels", channels);
    for (int32_t i = 0; i < p->n_roles; i++)
        json_array_append_new(roles, role_of(w, &p->roles[i]));
    set(out, "roles", roles);
    return out;
}

static uint64_t hash_json(uint64_t seed, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17));
    uint64_t digest = text ? fs_hash_text(seed, text) : 0;
    free(text);
    return digest;
}

/* A plan's parts in JSON; the caller owns both. */
static uint64_t digest_parts(const plan *p, const plan_origin *origin,
                             const json_t *strategy, const json_t *physical)
{
    uint64_t both[2] = {p->model_digest, p->cluster_digest};
    uint64_t digest = fs_hash(0, both, sizeof both);
    if (origin) {
        json_t *said = plan_origin_to_json(origin, p->micro_batches);
        json_object_del(said, "model");
        json_object_del(said, "cluster");
        digest = hash_json(digest, said);
        json_decref(said);
    }
    digest = hash_json(digest, strategy);
    return hash_json(digest, physical);
}

uint64_t plan_digest_of(const ir_graph *graph, const plan *p,
                        const plan_origin *origin)
{
    writing w = {graph, p};
    json_t *strategy = strategy_of(&w), *physical = physical_of(&w);
    uint64_t digest = digest_parts(p, origin, strategy, physical);
    json_decref(strategy);
    json_decref(physical);
    return digest;
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

fs_status plan_write(const char *path, const ir_graph *graph, plan *p,
                     const plan_origin *origin, const hw_cluster *cluster,
                     fs_err *err)
{
    writing w = {graph, p};
    FS_TRY(check_names(path, graph, err));
    json_t *root = json_object(), *strategy = strategy_of(&w);
    json_t *physical = physical_of(&w);
    p->digest = digest_parts(p, origin, strategy, physical);
    fs_json_set_text(root, "format", PLAN_FORMAT_NAME);
    fs_json_set_int(root, "version", PLAN_FORMAT_VERSION);
    set_hex(root, "model_digest", p->model_digest);
    set_hex(root, "cluster_digest", p->cluster_digest);
    set_hex(root, "plan_digest", p->digest);
    set(root, "origin", plan_origin_to_json(origin, p->micro_batches));
    if (plan_origin_is_local(origin))
        set(root, "cluster", hw_cluster_to_json(cluster));
    set(root, "strategy", strategy);
    set(root, "plan", physical);
    fs_status status = fs_json_save(root, path, err);
    json_decref(root);
    return status;
}
