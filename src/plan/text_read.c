#include "config.h"
#include "plan/schedule.h"
#include "plan/text_reading.h"

#include <stdlib.h>
#include <string.h>

static fs_status read_stage(plan_reading *r, const fs_json *in,
                            plan_stage *stage)
{
    fs_json mesh;
    int32_t devices = r->cluster->n_devices;
    int64_t size = 1;
    FS_TRY(PLAN_TEXT_KEYS(in, r->err, "mesh", "first_device"));
    FS_TRY(plan_text_read_array(r, in, "mesh", IR_MAX_MESH, &mesh,
                                &stage->mesh.n));
    FS_TRY(plan_text_read_ints(r, &mesh, stage->mesh.n, devices + 1,
                               stage->mesh.dim));
    FS_TRY(plan_text_read_i32(r, in, "first_device", 0, devices - 1,
                              &stage->first_device));
    for (int32_t i = 0; i < stage->mesh.n; i++) {
        size *= stage->mesh.dim[i]; /* both at most 2^31 */
        if (size < 1 || size > devices)
            break;
    }
    if (size < 1 || size > devices - stage->first_device)
        return fs_fail(r->err, FS_INVALID,
                       "%s: %s: the mesh does not fit in %d devices from %d",
                       in->file, in->where, devices, stage->first_device);
    return FS_OK;
}

/* Each SBP has the axes of the mesh that it has come to. */
static fs_status read_path(const plan_reading *r, const fs_json *in,
                           const plan_ends *ends, plan_boxing *edge)
{
    fs_json path;
    int32_t n;
    FS_TRY(plan_text_read_array(r, in, "path", PLAN_MAX_BOXING + 1, &path, &n));
    if (n < 2)
        return fs_fail(r->err, FS_INVALID, "%s: %s needs two SBPs or more",
                       in->file, path.where);
    if (plan_ends_cross(ends))
        FS_TRY(plan_text_read_i32(r, in, "cross", 0, n - 2, &edge->cross));
    else if (fs_json_has(in, "cross"))
        return fs_json_fail(in, "cross", r->err,
                            "is given, but producer and consumer are at one "
                            "place");
    for (int32_t k = 0; k < n; k++) {
        const char *text =
            json_string_value(json_array_get(path.value, (size_t)k));
        if (!text)
            return fs_fail(r->err, FS_INVALID, "%s: %s[%d] must be a string",
                           path.file, path.where, k);
        FS_TRY(plan_text_parse_sbp(r, &path, text,
                                   plan_path_stage(ends, edge, k)->mesh.n,
                                   &edge->at[k]));
    }
    edge->n = n - 1;
    return FS_OK;
}

static fs_status read_boxing(plan_reading *r, const fs_json *in, int32_t v)
{
    fs_json list, item;
    int32_t n, slot;
    int32_t first = r->s->first_edge[v];
    int32_t edges = r->s->first_edge[v + 1] - first;
    FS_TRY(plan_text_read_array(r, in, "boxing", edges, &list, &n));
    for (int32_t i = 0; i < n; i++) {
        FS_TRY(fs_json_item(&list, (size_t)i, r->err, &item));
        FS_TRY(
            PLAN_TEXT_KEYS(&item, r->err, "slot", "path", "cross", "sharing"));
        FS_TRY(plan_text_read_i32(r, &item, "slot", 0, edges - 1, &slot));
        const plan_ends ends = plan_edge_ends(r->graph, r->s, v, slot);
        plan_boxing *edge = &r->s->edge[first + slot];
        if (ends.tensor == NULL)
            return fs_json_fail(&item, "slot", r->err,
                                "is of a variable that never changes");
        if (edge->n > 0)
            return fs_json_fail(&item, "slot", r->err,
                                "is %d, whose boxing stands above", slot);
        FS_TRY(read_path(r, &item, &ends, edge));
        if (fs_json_has(&item, "sharing"))
            FS_TRY(plan_text_read_i32(r, &item, "sharing", 1, INT32_MAX,
                                      &edge->sharing));
    }
    return FS_OK;
}

static fs_status read_node(plan_reading *r, const fs_json *in, int32_t v)
{
    const ir_node *node = &r->graph->nodes.at[v];
    const char *name;
    fs_json list;
    int32_t n_in, n_out;
    FS_TRY(PLAN_TEXT_KEYS(in, r->err, "name", "stage", "in", "out", "boxing"));
    FS_TRY(fs_json_text(in, "name", r->err, &name));
    if (strcmp(name, node->name) != 0)
        return fs_fail(r->err, FS_INVALID,
                       "%s: %s is \"%.80s\", but node %d of %s is \"%.80s\"",
                       in->file, in->where, name, v, r->graph->name,
                       node->name);
    FS_TRY(plan_text_read_i32(r, in, "stage", 0, r->s->n_stages - 1,
                              &r->s->stage_of[v]));
    int32_t axes = r->s->stages[r->s->stage_of[v]].mesh.n;
    FS_TRY(plan_text_read_array(r, in, "in", IR_MAX_IN, &list, &n_in));
    FS_TRY(plan_text_read_sbps(r, &list, n_in, axes, r->s->sig[v].in));
    FS_TRY(plan_text_read_array(r, in, "out", IR_MAX_OUT, &list, &n_out));
    FS_TRY(plan_text_read_sbps(r, &list, n_out, axes, r->s->sig[v].out));
    if (n_in != node->n_in || n_out != node->n_out)
        return fs_fail(r->err, FS_INVALID,
                       "%s: %s has %d inputs and %d outputs, %s has %d and %d",
                       in->file, in->where, n_in, n_out, node->name, node->n_in,
                       node->n_out);
    return FS_OK;
}

/* How many stand where the strategy has a node of another name, or none. One
 * is an edit of the strategy. */
static int32_t other_nodes(const ir_graph *graph, const fs_json *list,
                           int32_t n)
{
    const int32_t n_graph = graph->nodes.n;
    int32_t others = 0;
    for (int32_t v = 0; v < n && v < n_graph; v++) {
        const json_t *node = json_array_get(list->value, (size_t)v);
        const char *name = json_string_value(json_object_get(node, "name"));
        others += name && strcmp(name, graph->nodes.at[v].name) != 0;
    }
    return n == n_graph ? others : INT32_MAX;
}

/* The model is the one that the plan was made for, by its digest: so what makes
 * another training graph of it is a field of origin, which the first node that
 * is not the strategy's tells best. */
static fs_status fail_other_graph(plan_reading *r, const fs_json *list,
                                  int32_t n)
{
    const ir_graph *graph = r->graph;
    const char *name = NULL;
    int32_t v = 0;
    for (; v < n && v < graph->nodes.n; v++) {
        const json_t *node = json_array_get(list->value, (size_t)v);
        name = json_string_value(json_object_get(node, "name"));
        if (!name || strcmp(name, graph->nodes.at[v].name) != 0)
            break;
    }
    return fs_fail(
        r->err, FS_INVALID,
        "%s: origin makes a training graph of %d nodes, "
        "strategy.nodes has %d; at node %d origin has '%.60s', the "
        "strategy '%.60s': nodes, or a field of origin that shapes "
        "the graph (optimizer, clip_norm, recompute, rewrite, "
        "dropout, params, precision, loss_scale, states, "
        "compress, compressed, padding), are not those that the plan was made "
        "with",
        list->file, graph->nodes.n, n, v,
        v < graph->nodes.n ? graph->nodes.at[v].name : "none",
        v < n && name ? name : "none");
}

/* Files leave out the paths of edges that need no boxing; these have one SBP
 * all the same. */
static void complete_edges(plan_reading *r)
{
    plan_strategy *s = r->s;
    for (int32_t v = 0; v < s->n_nodes; v++)
        for (int32_t e = s->first_edge[v]; e < s->first_edge[v + 1]; e++) {
            const plan_ends ends =
                plan_edge_ends(r->graph, s, v, e - s->first_edge[v]);
            if (ends.tensor != NULL && s->edge[e].n == 0)
                s->edge[e].at[0] = *ends.to;
        }
}

static fs_status read_stages(plan_reading *r, const fs_json *in)
{
    fs_json list, item;
    int32_t n;
    const int32_t devices = r->cluster->n_devices, nodes = r->graph->nodes.n;
    FS_TRY(plan_text_read_array(r, in, "stages",
                                devices > nodes ? devices : nodes, &list, &n));
    if (n < 1)
        return fs_fail(r->err, FS_INVALID, "%s: %s is empty", in->file,
                       list.where);
    r->s = plan_strategy_new(r->graph, n, r->arena);
    for (int32_t i = 0; i < n; i++) {
        FS_TRY(fs_json_item(&list, (size_t)i, r->err, &item));
        FS_TRY(read_stage(r, &item, &r->s->stages[i]));
    }
    return FS_OK;
}

static fs_status read_strategy(plan_reading *r, const fs_json *file)
{
    fs_json in, list, item;
    const char *schedule;
    int32_t n, m;
    FS_TRY(fs_json_object(file, "strategy", r->err, &in));
    FS_TRY(PLAN_TEXT_KEYS(&in, r->err, "micro_batches", "batch", "schedule",
                          "stages", "nodes"));
    FS_TRY(read_stages(r, &in));
    FS_TRY(plan_text_read_i32(r, &in, "micro_batches", 1,
                              PLAN_MAX_MICRO_BATCHES, &m));
    if (m != r->graph->micro_batches)
        return fs_json_fail(&in, "micro_batches", r->err,
                            "is %d, origin.micro_batches %d", m,
                            r->graph->micro_batches);
    r->s->micro_batches = m;
    FS_TRY(fs_json_int(&in, "batch", 0, INT64_MAX, r->err, &r->s->batch));
    if (r->s->batch != r->graph->batch)
        return fs_json_fail(&in, "batch", r->err, "is %lld, origin.batch %lld",
                            (long long)r->s->batch, (long long)r->graph->batch);
    FS_TRY(fs_json_text(&in, "schedule", r->err, &schedule));
    if (!plan_schedule_find(schedule))
        return fs_json_fail(&in, "schedule", r->err,
                            "is \"%.40s\"; there are: %s", schedule,
                            plan_schedule_names());
    r->s->schedule = fs_strdup(r->arena, schedule);
    FS_TRY(plan_text_read_array(r, &in, "nodes", INT32_MAX - 1, &list, &n));
    if (other_nodes(r->graph, &list, n) > 1)
        return fail_other_graph(r, &list, n);
    for (int32_t v = 0; v < n; v++) {
        FS_TRY(fs_json_item(&list, (size_t)v, r->err, &item));
        FS_TRY(read_node(r, &item, v));
    }
    /* Paths need to know where both their ends lie. */
    for (int32_t v = 0; v < n; v++) {
        FS_TRY(fs_json_item(&list, (size_t)v, r->err, &item));
        FS_TRY(read_boxing(r, &item, v));
    }
    complete_edges(r);
    return FS_OK;
}

static fs_status read_comms(plan_reading *r, const fs_json *in)
{
    plan *p = r->p;
    fs_json list, item;
    FS_TRY(plan_text_read_array(r, in, "comms", 1 << 20, &list, &p->n_comms));
    p->comms = fs_new(r->arena, plan_comm, p->n_comms);
    for (int32_t i = 0; i < p->n_comms; i++) {
        plan_comm *c = &p->comms[i];
        FS_TRY(fs_json_item(&list, (size_t)i, r->err, &item));
        FS_TRY(PLAN_TEXT_KEYS(&item, r->err, "stage", "axes"));
        FS_TRY(plan_text_read_i32(r, &item, "stage", 0, r->s->n_stages - 1,
                                  &c->stage));
        FS_TRY(plan_text_read_axes(r, &item, r->s->stages[c->stage].mesh.n,
                                   &c->axes));
    }
    FS_TRY(plan_text_read_array(r, in, "channels", 1 << 20, &list,
                                &p->n_channels));
    p->channels = fs_new(r->arena, plan_channel, p->n_channels);
    for (int32_t i = 0; i < p->n_channels; i++) {
        plan_channel *c = &p->channels[i];
        FS_TRY(fs_json_item(&list, (size_t)i, r->err, &item));
        FS_TRY(PLAN_TEXT_KEYS(&item, r->err, "from_stage", "to_stage"));
        FS_TRY(plan_text_read_i32(r, &item, "from_stage", 0, r->s->n_stages - 1,
                                  &c->from_stage));
        FS_TRY(plan_text_read_i32(r, &item, "to_stage", 0, r->s->n_stages - 1,
                                  &c->to_stage));
    }
    return FS_OK;
}

static fs_status read_physical(plan_reading *r, const fs_json *file)
{
    fs_json in, list, item;
    plan *p = r->p;
    FS_TRY(fs_json_object(file, "plan", r->err, &in));
    FS_TRY(PLAN_TEXT_KEYS(&in, r->err, "micro_batches", "comms", "channels",
                          "roles"));
    FS_TRY(plan_text_read_i32(r, &in, "micro_batches", r->s->micro_batches,
                              r->s->micro_batches, &p->micro_batches));
    FS_TRY(read_comms(r, &in));
    FS_TRY(plan_text_read_array(r, &in, "roles", r->cluster->n_devices, &list,
                                &p->n_roles));
    p->roles = fs_new(r->arena, plan_role, p->n_roles);
    for (int32_t i = 0; i < p->n_roles; i++) {
        FS_TRY(fs_json_item(&list, (size_t)i, r->err, &item));
        FS_TRY(plan_text_read_role(r, &item, &p->roles[i]));
    }
    return FS_OK;
}

static fs_status check_digests(plan_reading *r, const fs_json *file)
{
    plan *p = r->p;
    char a[17], b[17];
    FS_TRY(plan_text_digest(file, "model_digest", r->err, &p->model_digest));
    FS_TRY(
        plan_text_digest(file, "cluster_digest", r->err, &p->cluster_digest));
    if (p->model_digest != r->graph->digest) {
        fs_hex(p->model_digest, a);
        fs_hex(r->graph->digest, b);
        return fs_fail(r->err, FS_INVALID,
                       "%s: origin.model: %s now has the digest %s, the plan "
                       "is for model_digest %s",
                       file->file, r->origin.model, b, a);
    }
    if (p->cluster_digest != r->cluster->digest) {
        fs_hex(p->cluster_digest, a);
        fs_hex(r->cluster->digest, b);
        return fs_fail(r->err, FS_INVALID,
                       "%s: origin.cluster: %s has the digest %s, the plan is "
                       "for cluster_digest %s",
                       file->file, r->origin.cluster, b, a);
    }
    return FS_OK;
}

/* Does the file's own digest tell another content, or none? */
static fs_status compare_digest(plan_reading *r, const fs_json *file)
{
    plan *p = r->p;
    uint64_t stored;
    p->digest = plan_digest_of(r->graph, p, &r->origin);
    p->edited = true;
    if (!fs_json_has(file, "plan_digest"))
        return FS_OK;
    FS_TRY(plan_text_digest(file, "plan_digest", r->err, &stored));
    p->edited = stored != p->digest;
    return FS_OK;
}

static fs_status read_plan(plan_reading *r, const fs_json *file)
{
    fs_json origin;
    FS_TRY(fs_json_object(file, "origin", r->err, &origin));
    FS_TRY(plan_origin_from_json(&origin, r->arena, r->err, &r->origin));
    FS_TRY(check_digests(r, file));
    for (int32_t v = 0; v < r->graph->nodes.n; v++)
        *fs_map_at(&r->nodes, r->graph->nodes.at[v].name) = v;
    FS_TRY(read_strategy(r, file));
    r->p->strategy = r->s;
    FS_TRY(read_physical(r, file));
    return compare_digest(r, file);
}

fs_status plan_read(const char *path, const ir_graph *graph,
                    const hw_cluster *cluster, fs_arena *arena, fs_err *err,
                    plan **out)
{
    json_t *root;
    FS_TRY(plan_text_load(path, err, &root));
    plan_reading r = {.graph = graph,
                      .cluster = cluster,
                      .arena = arena,
                      .err = err,
                      .nodes = {.arena = arena}};
    r.p = fs_new(arena, plan, 1);
    fs_json file = fs_json_root(path, root);
    fs_status status = read_plan(&r, &file);
    json_decref(root);
    if (status == FS_OK)
        *out = r.p;
    return status;
}
