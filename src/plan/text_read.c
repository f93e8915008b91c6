#include "config.h"
#include "plan/schedule.h"
#include "plan/text_parts.h"

#include <stdlib.h>
#include <string.h>

/* What every part of the reader needs. */
typedef struct reading {
    const ir_graph *graph;
    const hw_cluster *cluster;
    fs_arena *arena;
    fs_err *err;
    fs_map nodes; /* name -> node */
    plan_origin origin;
    plan_strategy *s;
    plan *p;
} reading;

static fs_status read_i32(const reading *r, const fs_json *in, const char *key,
                          int32_t low, int32_t high, int32_t *out)
{
    int64_t value;
    FS_TRY(fs_json_int(in, key, low, high, r->err, &value));
    *out = (int32_t)value;
    return FS_OK;
}

static fs_status read_bytes(const reading *r, const fs_json *in,
                            const char *key, int64_t *out)
{
    return fs_json_int(in, key, 0, INT64_MAX, r->err, out);
}

/* An array field and its length, at most `most`. */
static fs_status read_array(const reading *r, const fs_json *in,
                            const char *key, int32_t most, fs_json *list,
                            int32_t *n)
{
    FS_TRY(fs_json_array(in, key, r->err, list));
    size_t size = json_array_size(list->value);
    if (size > (size_t)most)
        return fs_fail(r->err, FS_INVALID, "%s: %s has %zu items, at most %d",
                       in->file, list->where, size, most);
    *n = (int32_t)size;
    return FS_OK;
}

static fs_status read_ints(const reading *r, const fs_json *list, int32_t n,
                           int32_t limit, int32_t *out)
{
    for (int32_t i = 0; i < n; i++) {
        json_t *item = json_array_get(list->value, (size_t)i);
        json_int_t value =
            json_is_integer(item) ? json_integer_value(item) : -1;
        if (value < 0 || value >= limit)
            return fs_fail(r->err, FS_INVALID,
                           "%s: %s[%d] must be a whole number below %d",
                           list->file, list->where, i, limit);
        out[i] = (int32_t)value;
    }
    return FS_OK;
}

/* Axes of a mesh of n, ascending. */
static fs_status read_axes(const reading *r, const fs_json *in, int32_t n,
                           uint32_t *out)
{
    fs_json list;
    int32_t count, axes[IR_MAX_MESH];
    FS_TRY(read_array(r, in, "axes", n, &list, &count));
    FS_TRY(read_ints(r, &list, count, n, axes));
    *out = 0;
    for (int32_t i = 0; i < count; i++) {
        if (i > 0 && axes[i] <= axes[i - 1])
            return fs_fail(r->err, FS_INVALID, "%s: %s must ascend", in->file,
                           list.where);
        *out |= 1u << axes[i];
    }
    return FS_OK;
}

/* The names of an enumeration. */
typedef struct names {
    const char *(*at)(int32_t);
    int32_t n;
} names;

static fs_status read_name(const reading *r, const fs_json *in, const char *key,
                           names known, int32_t *out)
{
    const char *text;
    FS_TRY(fs_json_text(in, key, r->err, &text));
    for (int32_t i = 0; i < known.n; i++)
        if (strcmp(text, known.at(i)) == 0) {
            *out = i;
            return FS_OK;
        }
    return fs_fail(r->err, FS_INVALID, "%s: %s.%s: unknown \"%.40s\"", in->file,
                   in->where, key, text);
}

static const char *task_kind(int32_t i)
{
    return plan_task_kind_name((plan_task_kind)i);
}

static const char *phase_name(int32_t i)
{
    return plan_phase_name((plan_phase)i);
}

static const char *box_name(int32_t i)
{
    return plan_box_name((plan_box_kind)i);
}

static const char *stream_name(int32_t i)
{
    return plan_stream_kind_name((plan_stream_kind)i);
}

static const names task_kinds = {task_kind, PLAN_TASK_KINDS};
static const names phases = {phase_name, PLAN_PHASES};
static const names box_kinds = {box_name, PLAN_BOX_KINDS};
static const names stream_kinds = {stream_name, PLAN_STREAM_RECV + 1};

static fs_status read_tensor(const reading *r, const fs_json *in, int32_t *out)
{
    const char *name;
    FS_TRY(fs_json_text(in, "tensor", r->err, &name));
    int32_t t = ir_graph_find(r->graph, name);
    if (t < 0)
        return fs_fail(r->err, FS_INVALID, "%s: %s: no tensor \"%.80s\" in %s",
                       in->file, in->where, name, r->graph->name);
    *out = t;
    return FS_OK;
}

static fs_status parse_sbp(const reading *r, const fs_json *in,
                           const char *text, int32_t axes, ir_nd_sbp *out)
{
    fs_err why = {0};
    if (ir_nd_sbp_parse(text, axes, &why, out) == FS_OK)
        return FS_OK;
    return fs_fail(r->err, FS_INVALID, "%s: %s: %s", in->file, in->where,
                   why.text);
}

static fs_status read_sbp(const reading *r, const fs_json *in, const char *key,
                          int32_t axes, ir_nd_sbp *out)
{
    const char *text;
    FS_TRY(fs_json_text(in, key, r->err, &text));
    return parse_sbp(r, in, text, axes, out);
}

static fs_status read_sbps(const reading *r, const fs_json *list, int32_t n,
                           int32_t axes, ir_nd_sbp *out)
{
    for (int32_t i = 0; i < n; i++) {
        const char *text =
            json_string_value(json_array_get(list->value, (size_t)i));
        if (!text)
            return fs_fail(r->err, FS_INVALID, "%s: %s[%d] must be a string",
                           list->file, list->where, i);
        FS_TRY(parse_sbp(r, list, text, axes, &out[i]));
    }
    return FS_OK;
}

static fs_status read_stage(reading *r, const fs_json *in, plan_stage *stage)
{
    fs_json mesh;
    int32_t devices = r->cluster->n_devices;
    int64_t size = 1;
    FS_TRY(PLAN_TEXT_KEYS(in, r->err, "mesh", "first_device"));
    FS_TRY(read_array(r, in, "mesh", IR_MAX_MESH, &mesh, &stage->mesh.n));
    FS_TRY(read_ints(r, &mesh, stage->mesh.n, devices + 1, stage->mesh.dim));
    FS_TRY(
        read_i32(r, in, "first_device", 0, devices - 1, &stage->first_device));
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
static fs_status read_path(const reading *r, const fs_json *in,
                           const plan_ends *ends, plan_boxing *edge)
{
    fs_json path;
    int32_t n;
    FS_TRY(read_array(r, in, "path", PLAN_MAX_BOXING + 1, &path, &n));
    if (n < 2)
        return fs_fail(r->err, FS_INVALID, "%s: %s needs two SBPs or more",
                       in->file, path.where);
    if (plan_ends_cross(ends))
        FS_TRY(read_i32(r, in, "cross", 0, n - 2, &edge->cross));
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
        FS_TRY(parse_sbp(r, &path, text, plan_path_stage(ends, edge, k)->mesh.n,
                         &edge->at[k]));
    }
    edge->n = n - 1;
    return FS_OK;
}

static fs_status read_boxing(reading *r, const fs_json *in, int32_t v)
{
    fs_json list, item;
    int32_t n, slot;
    int32_t first = r->s->first_edge[v];
    int32_t edges = r->s->first_edge[v + 1] - first;
    FS_TRY(read_array(r, in, "boxing", edges, &list, &n));
    for (int32_t i = 0; i < n; i++) {
        FS_TRY(fs_json_item(&list, (size_t)i, r->err, &item));
        FS_TRY(
            PLAN_TEXT_KEYS(&item, r->err, "slot", "path", "cross", "sharing"));
        FS_TRY(read_i32(r, &item, "slot", 0, edges - 1, &slot));
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
            FS_TRY(read_i32(r, &item, "sharing", 1, INT32_MAX, &edge->sharing));
    }
    return FS_OK;
}

static fs_status read_node(reading *r, const fs_json *in, int32_t v)
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
    FS_TRY(read_i32(r, in, "stage", 0, r->s->n_stages - 1, &r->s->stage_of[v]));
    int32_t axes = r->s->stages[r->s->stage_of[v]].mesh.n;
    FS_TRY(read_array(r, in, "in", IR_MAX_IN, &list, &n_in));
    FS_TRY(read_sbps(r, &list, n_in, axes, r->s->sig[v].in));
    FS_TRY(read_array(r, in, "out", IR_MAX_OUT, &list, &n_out));
    FS_TRY(read_sbps(r, &list, n_out, axes, r->s->sig[v].out));
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
static fs_status fail_other_graph(reading *r, const fs_json *list, int32_t n)
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
static void complete_edges(reading *r)
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

static fs_status read_stages(reading *r, const fs_json *in)
{
    fs_json list, item;
    int32_t n;
    const int32_t devices = r->cluster->n_devices, nodes = r->graph->nodes.n;
    FS_TRY(read_array(r, in, "stages", devices > nodes ? devices : nodes, &list,
                      &n));
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

static fs_status read_strategy(reading *r, const fs_json *file)
{
    fs_json in, list, item;
    const char *schedule;
    int32_t n, m;
    FS_TRY(fs_json_object(file, "strategy", r->err, &in));
    FS_TRY(PLAN_TEXT_KEYS(&in, r->err, "micro_batches", "batch", "schedule",
                          "stages", "nodes"));
    FS_TRY(read_stages(r, &in));
    FS_TRY(read_i32(r, &in, "micro_batches", 1, PLAN_MAX_MICRO_BATCHES, &m));
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
    FS_TRY(read_array(r, &in, "nodes", INT32_MAX - 1, &list, &n));
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

/* A role being read: sizes stand before the parts that refer to them. */
typedef struct role_reading {
    reading *r;
    plan_role *role;
    int32_t axes;
} role_reading;

static fs_status read_box(const role_reading *x, const fs_json *in,
                          plan_task *t)
{
    reading *r = x->r;
    int32_t kind = 0;
    FS_TRY(read_name(r, in, "box", box_kinds, &kind));
    t->box.kind = (plan_box_kind)kind;
    t->box.element_bytes =
        (int32_t)ir_dtype_bytes(r->graph->tensors.at[t->tensor].dtype);
    FS_TRY(read_axes(r, in, x->axes, &t->box.axes));
    FS_TRY(read_sbp(r, in, "from", x->axes, &t->box.from));
    FS_TRY(read_sbp(r, in, "to", x->axes, &t->box.to));
    FS_TRY(read_bytes(r, in, "bytes_in", &t->box.bytes_in));
    FS_TRY(read_bytes(r, in, "bytes_out", &t->box.bytes_out));
    return read_i32(r, in, "comm", -1, r->p->n_comms - 1, &t->comm);
}

/* What the task works on, by its kind. */
static fs_status read_subject(const role_reading *x, const fs_json *in,
                              plan_task *t)
{
    reading *r = x->r;
    t->node = t->tensor = t->comm = t->channel = -1;
    if (t->kind == PLAN_COMPUTE || t->kind == PLAN_LOAD) {
        const char *name;
        FS_TRY(fs_json_text(in, "node", r->err, &name));
        t->node = fs_map_get(&r->nodes, name);
        if (t->node < 0)
            return fs_fail(r->err, FS_INVALID, "%s: %s: no node \"%.80s\"",
                           in->file, in->where, name);
        return FS_OK;
    }
    FS_TRY(read_tensor(r, in, &t->tensor));
    if (t->kind == PLAN_BOX)
        return read_box(x, in, t);
    FS_TRY(read_i32(r, in, "channel", 0, r->p->n_channels - 1, &t->channel));
    const plan_channel *ends = &r->p->channels[t->channel];
    const int32_t peer =
        t->kind == PLAN_SEND ? ends->to_stage : ends->from_stage;
    FS_TRY(read_sbp(r, in, "sbp", x->axes, &t->sbp));
    return read_sbp(r, in, "peer_sbp", r->s->stages[peer].mesh.n, &t->peer_sbp);
}

/* What a task of its kind has, beside what all have. */
static fs_status check_task_keys(const reading *r, const fs_json *in,
                                 plan_task_kind kind)
{
#define EVERY "kind", "phase", "chunk", "stream", "in", "out", "scratch_bytes"
    switch (kind) {
    case PLAN_COMPUTE:
    case PLAN_LOAD:
        return PLAN_TEXT_KEYS(in, r->err, EVERY, "node");
    case PLAN_BOX:
        return PLAN_TEXT_KEYS(in, r->err, EVERY, "tensor", "box", "axes",
                              "from", "to", "bytes_in", "bytes_out", "comm");
    default:
        return PLAN_TEXT_KEYS(in, r->err, EVERY, "tensor", "sbp", "peer_sbp",
                              "channel");
    }
#undef EVERY
}

static fs_status read_task(const role_reading *x, const fs_json *in,
                           plan_task *t)
{
    reading *r = x->r;
    int32_t kind = 0, phase = 0;
    fs_json list;
    FS_TRY(read_name(r, in, "kind", task_kinds, &kind));
    FS_TRY(read_name(r, in, "phase", phases, &phase));
    t->kind = (plan_task_kind)kind;
    t->phase = (plan_phase)phase;
    FS_TRY(check_task_keys(r, in, t->kind));
    if (x->role->n_chunks > 1 || fs_json_has(in, "chunk"))
        FS_TRY(read_i32(r, in, "chunk", 0, x->role->n_chunks - 1, &t->chunk));
    FS_TRY(read_subject(x, in, t));
    FS_TRY(read_i32(r, in, "stream", 0, x->role->n_streams - 1, &t->stream));
    FS_TRY(read_array(r, in, "in", IR_MAX_IN, &list, &t->n_in));
    FS_TRY(read_ints(r, &list, t->n_in, x->role->n_registers, t->in));
    FS_TRY(read_array(r, in, "out", IR_MAX_OUT, &list, &t->n_out));
    FS_TRY(read_ints(r, &list, t->n_out, x->role->n_registers, t->out));
    return read_bytes(r, in, "scratch_bytes", &t->scratch_bytes);
}

static fs_status read_offsets(const role_reading *x, const fs_json *in,
                              plan_register *g)
{
    reading *r = x->r;
    fs_json list;
    FS_TRY(read_array(r, in, "offset", INT32_MAX / 4, &list, &g->count));
    if (g->count < 1)
        return fs_fail(r->err, FS_INVALID, "%s: %s is empty", in->file,
                       list.where);
    g->offset = fs_new(r->arena, int64_t, g->count);
    for (int32_t i = 0; i < g->count; i++) {
        json_t *item = json_array_get(list.value, (size_t)i);
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return fs_fail(r->err, FS_INVALID,
                           "%s: %s[%d] must be a whole number, not negative",
                           in->file, list.where, i);
        g->offset[i] = json_integer_value(item);
    }
    return FS_OK;
}

static fs_status read_register(const role_reading *x, const fs_json *in,
                               plan_register *g)
{
    reading *r = x->r;
    fs_json list;
    FS_TRY(PLAN_TEXT_KEYS(in, r->err, "tensor", "sbp", "bytes", "offset",
                          "per_step", "persistent", "own_memory", "producer",
                          "consumers"));
    FS_TRY(read_tensor(r, in, &g->tensor));
    FS_TRY(read_sbp(r, in, "sbp", x->axes, &g->sbp));
    FS_TRY(read_bytes(r, in, "bytes", &g->bytes));
    FS_TRY(read_offsets(x, in, g));
    FS_TRY(fs_json_bool(in, "per_step", r->err, &g->per_step));
    FS_TRY(fs_json_bool(in, "persistent", r->err, &g->persistent));
    FS_TRY(fs_json_bool(in, "own_memory", r->err, &g->own_memory));
    FS_TRY(read_i32(r, in, "producer", -1, x->role->n_tasks - 1, &g->producer));
    FS_TRY(
        read_array(r, in, "consumers", INT32_MAX / 4, &list, &g->n_consumers));
    g->consumers = fs_new(r->arena, int32_t, g->n_consumers);
    return read_ints(r, &list, g->n_consumers, x->role->n_tasks, g->consumers);
}

/* A number below `limit` behind a word; NULL when it is none, else its end. */
static const char *read_number(const char *text, const char *word,
                               int32_t limit, int32_t *out)
{
    size_t n = strlen(word);
    char *end;
    if (strncmp(text, word, n) != 0 || text[n] != ' ')
        return NULL;
    long value = strtol(text + n + 1, &end, 10);
    if (end == text + n + 1 || value < 0 || value >= limit)
        return NULL;
    *out = (int32_t)value;
    return end;
}

/* "forward 3", of a role with several stages "forward 3 chunk 1" */
static fs_status read_slot(const role_reading *x, const fs_json *list,
                           int32_t i, plan_slot *slot)
{
    const char *text =
        json_string_value(json_array_get(list->value, (size_t)i));
    const int32_t chunks = x->role->n_chunks, m = x->r->s->micro_batches;
    for (int32_t phase = 0; text && phase < PLAN_PHASES; phase++) {
        const char *end =
            read_number(text, phase_name(phase), m, &slot->micro_batch);
        if (end && chunks > 1)
            end = read_number(end, " chunk", chunks, &slot->chunk);
        if (!end || *end != '\0')
            continue;
        slot->phase = (plan_phase)phase;
        return FS_OK;
    }
    return fs_fail(x->r->err, FS_INVALID,
                   "%s: %s[%d] must be a phase and a micro-batch, as "
                   "\"forward 0%s\"",
                   list->file, list->where, i, chunks > 1 ? " chunk 0" : "");
}

static fs_status read_slots(const role_reading *x, const fs_json *in)
{
    fs_json list;
    plan_role *role = x->role;
    FS_TRY(read_array(x->r, in, "slots", INT32_MAX / 4, &list, &role->n_slots));
    role->slots = fs_new(x->r->arena, plan_slot, role->n_slots);
    for (int32_t i = 0; i < role->n_slots; i++)
        FS_TRY(read_slot(x, &list, i, &role->slots[i]));
    return FS_OK;
}

static fs_status read_streams(const role_reading *x, const fs_json *in)
{
    reading *r = x->r;
    plan_role *role = x->role;
    fs_json list, item;
    int32_t kind = 0;
    FS_TRY(read_array(r, in, "streams", 1 << 16, &list, &role->n_streams));
    role->streams = fs_new(r->arena, plan_stream, role->n_streams);
    role->stream_scratch = fs_new(r->arena, int64_t, role->n_streams);
    for (int32_t i = 0; i < role->n_streams; i++) {
        FS_TRY(fs_json_item(&list, (size_t)i, r->err, &item));
        FS_TRY(
            PLAN_TEXT_KEYS(&item, r->err, "kind", "channel", "scratch_offset"));
        FS_TRY(read_name(r, &item, "kind", stream_kinds, &kind));
        role->streams[i].kind = (plan_stream_kind)kind;
        FS_TRY(read_i32(r, &item, "channel", -1, r->p->n_channels - 1,
                        &role->streams[i].channel));
        FS_TRY(
            read_bytes(r, &item, "scratch_offset", &role->stream_scratch[i]));
    }
    return FS_OK;
}

static fs_status read_role_head(const role_reading *x, const fs_json *in)
{
    reading *r = x->r;
    plan_role *role = x->role;
    fs_json bytes;
    int32_t devices = r->cluster->n_devices;
    FS_TRY(read_i32(r, in, "first_rank", 0, devices - 1, &role->first_rank));
    FS_TRY(read_i32(r, in, "n_ranks", 1, devices - role->first_rank,
                    &role->n_ranks));
    FS_TRY(read_bytes(r, in, "arena_bytes", &role->arena_bytes));
    FS_TRY(read_bytes(r, in, "bound_bytes", &role->bound_bytes));
    FS_TRY(fs_json_object(in, "bytes", r->err, &bytes));
    FS_TRY(PLAN_TEXT_KEYS(&bytes, r->err, "param", "state", "const", "gradient",
                          "activation", "scratch"));
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        FS_TRY(read_bytes(r, &bytes, plan_bytes_kind_name((plan_bytes_kind)k),
                          &role->bytes[k]));
    return FS_OK;
}

static fs_status read_role_stages(reading *r, const fs_json *in,
                                  plan_role *role)
{
    fs_json list;
    FS_TRY(read_array(r, in, "stages", r->s->n_stages, &list, &role->n_chunks));
    if (role->n_chunks < 1)
        return fs_fail(r->err, FS_INVALID, "%s: %s is empty", in->file,
                       list.where);
    role->stages = fs_new(r->arena, int32_t, role->n_chunks);
    return read_ints(r, &list, role->n_chunks, r->s->n_stages, role->stages);
}

static fs_status read_role(reading *r, const fs_json *in, plan_role *role)
{
    fs_json registers, tasks, item;
    role_reading x = {r, role, 0};
    FS_TRY(PLAN_TEXT_KEYS(in, r->err, "stages", "first_rank", "n_ranks",
                          "arena_bytes", "bound_bytes", "bytes", "slots",
                          "streams", "registers", "tasks"));
    FS_TRY(read_role_stages(r, in, role));
    x.axes = r->s->stages[role->stages[0]].mesh.n;
    FS_TRY(read_role_head(&x, in));
    FS_TRY(read_slots(&x, in));
    FS_TRY(read_streams(&x, in));
    FS_TRY(read_array(r, in, "registers", INT32_MAX / 4, &registers,
                      &role->n_registers));
    FS_TRY(read_array(r, in, "tasks", INT32_MAX / 4, &tasks, &role->n_tasks));
    role->registers = fs_new(r->arena, plan_register, role->n_registers);
    role->tasks = fs_new(r->arena, plan_task, role->n_tasks);
    for (int32_t i = 0; i < role->n_registers; i++) {
        FS_TRY(fs_json_item(&registers, (size_t)i, r->err, &item));
        FS_TRY(read_register(&x, &item, &role->registers[i]));
    }
    for (int32_t i = 0; i < role->n_tasks; i++) {
        FS_TRY(fs_json_item(&tasks, (size_t)i, r->err, &item));
        FS_TRY(read_task(&x, &item, &role->tasks[i]));
    }
    return FS_OK;
}

static fs_status read_comms(reading *r, const fs_json *in)
{
    plan *p = r->p;
    fs_json list, item;
    FS_TRY(read_array(r, in, "comms", 1 << 20, &list, &p->n_comms));
    p->comms = fs_new(r->arena, plan_comm, p->n_comms);
    for (int32_t i = 0; i < p->n_comms; i++) {
        plan_comm *c = &p->comms[i];
        FS_TRY(fs_json_item(&list, (size_t)i, r->err, &item));
        FS_TRY(PLAN_TEXT_KEYS(&item, r->err, "stage", "axes"));
        FS_TRY(read_i32(r, &item, "stage", 0, r->s->n_stages - 1, &c->stage));
        FS_TRY(read_axes(r, &item, r->s->stages[c->stage].mesh.n, &c->axes));
    }
    FS_TRY(read_array(r, in, "channels", 1 << 20, &list, &p->n_channels));
    p->channels = fs_new(r->arena, plan_channel, p->n_channels);
    for (int32_t i = 0; i < p->n_channels; i++) {
        plan_channel *c = &p->channels[i];
        FS_TRY(fs_json_item(&list, (size_t)i, r->err, &item));
        FS_TRY(PLAN_TEXT_KEYS(&item, r->err, "from_stage", "to_stage"));
        FS_TRY(read_i32(r, &item, "from_stage", 0, r->s->n_stages - 1,
                        &c->from_stage));
        FS_TRY(read_i32(r, &item, "to_stage", 0, r->s->n_stages - 1,
                        &c->to_stage));
    }
    return FS_OK;
}

static fs_status read_physical(reading *r, const fs_json *file)
{
    fs_json in, list, item;
    plan *p = r->p;
    FS_TRY(fs_json_object(file, "plan", r->err, &in));
    FS_TRY(PLAN_TEXT_KEYS(&in, r->err, "micro_batches", "comms", "channels",
                          "roles"));
    FS_TRY(read_i32(r, &in, "micro_batches", r->s->micro_batches,
                    r->s->micro_batches, &p->micro_batches));
    FS_TRY(read_comms(r, &in));
    FS_TRY(
        read_array(r, &in, "roles", r->cluster->n_devices, &list, &p->n_roles));
    p->roles = fs_new(r->arena, plan_role, p->n_roles);
    for (int32_t i = 0; i < p->n_roles; i++) {
        FS_TRY(fs_json_item(&list, (size_t)i, r->err, &item));
        FS_TRY(read_role(r, &item, &p->roles[i]));
    }
    return FS_OK;
}

static fs_status check_digests(reading *r, const fs_json *file)
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
static fs_status compare_digest(reading *r, const fs_json *file)
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

static fs_status read_plan(reading *r, const fs_json *file)
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
    reading r = {.graph = graph,
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
