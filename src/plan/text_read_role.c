#include "config.h"
#include "plan/text_reading.h"

#include <stdlib.h>
#include <string.h>

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

static const plan_text_names task_kinds = {task_kind, PLAN_TASK_KINDS};
static const plan_text_names phases = {phase_name, PLAN_PHASES};
static const plan_text_names box_kinds = {box_name, PLAN_BOX_KINDS};
static const plan_text_names stream_kinds = {stream_name, PLAN_STREAM_RECV + 1};

/* A role being read: sizes stand before the parts that refer to them. */
typedef struct role_reading {
    plan_reading *r;
    plan_role *role;
    int32_t axes;
} role_reading;

/* A tensor and its step; kind and axes stand in *box. */
static fs_status read_step(const role_reading *x, const fs_json *in,
                           int32_t *tensor, plan_box_step *box)
{
    plan_reading *r = x->r;
    FS_TRY(plan_text_read_tensor(r, in, tensor));
    box->element_bytes =
        (int32_t)ir_dtype_bytes(r->graph->tensors.at[*tensor].dtype);
    FS_TRY(plan_text_read_sbp(r, in, "from", x->axes, &box->from));
    FS_TRY(plan_text_read_sbp(r, in, "to", x->axes, &box->to));
    FS_TRY(plan_text_read_bytes(r, in, "bytes_in", &box->bytes_in));
    return plan_text_read_bytes(r, in, "bytes_out", &box->bytes_out);
}

static fs_status read_part(const role_reading *x, const fs_json *in,
                           plan_task *t, plan_part *part)
{
    part->box.kind = t->box.kind;
    part->box.axes = t->box.axes;
    FS_TRY(PLAN_TEXT_KEYS(in, x->r->err, "tensor", "from", "to", "bytes_in",
                          "bytes_out"));
    FS_TRY(read_step(x, in, &part->tensor, &part->box));
    if (__builtin_add_overflow(t->box.bytes_in, part->box.bytes_in,
                               &t->box.bytes_in) ||
        __builtin_add_overflow(t->box.bytes_out, part->box.bytes_out,
                               &t->box.bytes_out))
        return fs_fail(x->r->err, FS_INVALID, "%s: %s: too many bytes",
                       in->file, in->where);
    return FS_OK;
}

static fs_status read_parts(const role_reading *x, const fs_json *in,
                            plan_task *t)
{
    plan_reading *r = x->r;
    fs_json list, item;
    FS_TRY(plan_text_read_array(r, in, "parts", x->role->n_registers, &list,
                                &t->n_parts));
    if (t->n_parts < 2)
        return fs_fail(r->err, FS_INVALID, "%s: %s: a bucket has 2 parts",
                       in->file, list.where);
    plan_part *parts = fs_new(r->arena, plan_part, t->n_parts);
    for (int32_t i = 0; i < t->n_parts; i++) {
        FS_TRY(fs_json_item(&list, (size_t)i, r->err, &item));
        FS_TRY(read_part(x, &item, t, &parts[i]));
    }
    t->parts = parts;
    t->tensor = parts[0].tensor;
    t->box.from = parts[0].box.from;
    t->box.to = parts[0].box.to;
    t->box.element_bytes = parts[0].box.element_bytes;
    return FS_OK;
}

static fs_status read_box(const role_reading *x, const fs_json *in,
                          plan_task *t)
{
    plan_reading *r = x->r;
    int32_t kind = 0;
    FS_TRY(plan_text_read_name(r, in, "box", box_kinds, &kind));
    t->box.kind = (plan_box_kind)kind;
    FS_TRY(plan_text_read_axes(r, in, x->axes, &t->box.axes));
    if (fs_json_has(in, "parts"))
        FS_TRY(read_parts(x, in, t));
    else
        FS_TRY(read_step(x, in, &t->tensor, &t->box));
    return plan_text_read_i32(r, in, "comm", -1, r->p->n_comms - 1, &t->comm);
}

/* What the task works on, by its kind. */
static fs_status read_subject(const role_reading *x, const fs_json *in,
                              plan_task *t)
{
    plan_reading *r = x->r;
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
    if (t->kind == PLAN_BOX)
        return read_box(x, in, t);
    FS_TRY(plan_text_read_tensor(r, in, &t->tensor));
    FS_TRY(plan_text_read_i32(r, in, "channel", 0, r->p->n_channels - 1,
                              &t->channel));
    const plan_channel *ends = &r->p->channels[t->channel];
    const int32_t peer =
        t->kind == PLAN_SEND ? ends->to_stage : ends->from_stage;
    FS_TRY(plan_text_read_sbp(r, in, "sbp", x->axes, &t->sbp));
    return plan_text_read_sbp(r, in, "peer_sbp", r->s->stages[peer].mesh.n,
                              &t->peer_sbp);
}

/* What a task of its kind has, beside what all have. */
static fs_status check_task_keys(const plan_reading *r, const fs_json *in,
                                 plan_task_kind kind)
{
#define EVERY "kind", "phase", "chunk", "stream", "in", "out", "scratch_bytes"
    switch (kind) {
    case PLAN_COMPUTE:
    case PLAN_LOAD:
        return PLAN_TEXT_KEYS(in, r->err, EVERY, "node");
    case PLAN_BOX:
        if (fs_json_has(in, "parts"))
            return PLAN_TEXT_KEYS(in, r->err, EVERY, "box", "axes", "parts",
                                  "comm");
        return PLAN_TEXT_KEYS(in, r->err, EVERY, "tensor", "box", "axes",
                              "from", "to", "bytes_in", "bytes_out", "comm");
    default:
        return PLAN_TEXT_KEYS(in, r->err, EVERY, "tensor", "sbp", "peer_sbp",
                              "channel");
    }
#undef EVERY
}

static fs_status read_registers(const role_reading *x, const fs_json *in,
                                const char *key, int32_t most, int32_t *n,
                                int32_t **out)
{
    fs_json list;
    FS_TRY(plan_text_read_array(x->r, in, key, most, &list, n));
    *out = fs_new(x->r->arena, int32_t, *n);
    return plan_text_read_ints(x->r, &list, *n, x->role->n_registers, *out);
}

static fs_status read_task(const role_reading *x, const fs_json *in,
                           plan_task *t)
{
    plan_reading *r = x->r;
    int32_t kind = 0, phase = 0;
    FS_TRY(plan_text_read_name(r, in, "kind", task_kinds, &kind));
    FS_TRY(plan_text_read_name(r, in, "phase", phases, &phase));
    t->kind = (plan_task_kind)kind;
    t->phase = (plan_phase)phase;
    FS_TRY(check_task_keys(r, in, t->kind));
    if (x->role->n_chunks > 1 || fs_json_has(in, "chunk"))
        FS_TRY(plan_text_read_i32(r, in, "chunk", 0, x->role->n_chunks - 1,
                                  &t->chunk));
    FS_TRY(read_subject(x, in, t));
    FS_TRY(plan_text_read_i32(r, in, "stream", 0, x->role->n_streams - 1,
                              &t->stream));
    FS_TRY(read_registers(x, in, "in", t->n_parts ? t->n_parts : IR_MAX_IN,
                          &t->n_in, &t->in));
    FS_TRY(read_registers(x, in, "out", t->n_parts ? t->n_parts : IR_MAX_OUT,
                          &t->n_out, &t->out));
    return plan_text_read_bytes(r, in, "scratch_bytes", &t->scratch_bytes);
}

static fs_status read_offsets(const role_reading *x, const fs_json *in,
                              plan_register *g)
{
    plan_reading *r = x->r;
    fs_json list;
    FS_TRY(
        plan_text_read_array(r, in, "offset", INT32_MAX / 4, &list, &g->count));
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
    plan_reading *r = x->r;
    fs_json list;
    FS_TRY(PLAN_TEXT_KEYS(in, r->err, "tensor", "sbp", "bytes", "offset",
                          "per_step", "persistent", "own_memory", "producer",
                          "consumers"));
    FS_TRY(plan_text_read_tensor(r, in, &g->tensor));
    FS_TRY(plan_text_read_sbp(r, in, "sbp", x->axes, &g->sbp));
    FS_TRY(plan_text_read_bytes(r, in, "bytes", &g->bytes));
    FS_TRY(read_offsets(x, in, g));
    FS_TRY(fs_json_bool(in, "per_step", r->err, &g->per_step));
    FS_TRY(fs_json_bool(in, "persistent", r->err, &g->persistent));
    FS_TRY(fs_json_bool(in, "own_memory", r->err, &g->own_memory));
    FS_TRY(plan_text_read_i32(r, in, "producer", -1, x->role->n_tasks - 1,
                              &g->producer));
    FS_TRY(plan_text_read_array(r, in, "consumers", INT32_MAX / 4, &list,
                                &g->n_consumers));
    g->consumers = fs_new(r->arena, int32_t, g->n_consumers);
    return plan_text_read_ints(r, &list, g->n_consumers, x->role->n_tasks,
                               g->consumers);
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
    FS_TRY(plan_text_read_array(x->r, in, "slots", INT32_MAX / 4, &list,
                                &role->n_slots));
    role->slots = fs_new(x->r->arena, plan_slot, role->n_slots);
    for (int32_t i = 0; i < role->n_slots; i++)
        FS_TRY(read_slot(x, &list, i, &role->slots[i]));
    return FS_OK;
}

static fs_status read_streams(const role_reading *x, const fs_json *in)
{
    plan_reading *r = x->r;
    plan_role *role = x->role;
    fs_json list, item;
    int32_t kind = 0;
    FS_TRY(plan_text_read_array(r, in, "streams", 1 << 16, &list,
                                &role->n_streams));
    role->streams = fs_new(r->arena, plan_stream, role->n_streams);
    role->stream_scratch = fs_new(r->arena, int64_t, role->n_streams);
    for (int32_t i = 0; i < role->n_streams; i++) {
        FS_TRY(fs_json_item(&list, (size_t)i, r->err, &item));
        FS_TRY(
            PLAN_TEXT_KEYS(&item, r->err, "kind", "channel", "scratch_offset"));
        FS_TRY(plan_text_read_name(r, &item, "kind", stream_kinds, &kind));
        role->streams[i].kind = (plan_stream_kind)kind;
        FS_TRY(plan_text_read_i32(r, &item, "channel", -1, r->p->n_channels - 1,
                                  &role->streams[i].channel));
        FS_TRY(plan_text_read_bytes(r, &item, "scratch_offset",
                                    &role->stream_scratch[i]));
    }
    return FS_OK;
}

static fs_status read_role_head(const role_reading *x, const fs_json *in)
{
    plan_reading *r = x->r;
    plan_role *role = x->role;
    fs_json bytes;
    int32_t devices = r->cluster->n_devices;
    FS_TRY(plan_text_read_i32(r, in, "first_rank", 0, devices - 1,
                              &role->first_rank));
    FS_TRY(plan_text_read_i32(r, in, "n_ranks", 1, devices - role->first_rank,
                              &role->n_ranks));
    FS_TRY(plan_text_read_bytes(r, in, "arena_bytes", &role->arena_bytes));
    FS_TRY(plan_text_read_bytes(r, in, "bound_bytes", &role->bound_bytes));
    FS_TRY(fs_json_object(in, "bytes", r->err, &bytes));
    FS_TRY(PLAN_TEXT_KEYS(&bytes, r->err, "param", "state", "const", "gradient",
                          "activation", "scratch"));
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        FS_TRY(plan_text_read_bytes(r, &bytes,
                                    plan_bytes_kind_name((plan_bytes_kind)k),
                                    &role->bytes[k]));
    return FS_OK;
}

static fs_status read_role_stages(plan_reading *r, const fs_json *in,
                                  plan_role *role)
{
    fs_json list;
    FS_TRY(plan_text_read_array(r, in, "stages", r->s->n_stages, &list,
                                &role->n_chunks));
    if (role->n_chunks < 1)
        return fs_fail(r->err, FS_INVALID, "%s: %s is empty", in->file,
                       list.where);
    role->stages = fs_new(r->arena, int32_t, role->n_chunks);
    return plan_text_read_ints(r, &list, role->n_chunks, r->s->n_stages,
                               role->stages);
}

fs_status plan_text_read_role(plan_reading *r, const fs_json *in,
                              plan_role *role)
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
    FS_TRY(plan_text_read_array(r, in, "registers", INT32_MAX / 4, &registers,
                                &role->n_registers));
    FS_TRY(plan_text_read_array(r, in, "tasks", INT32_MAX / 4, &tasks,
                                &role->n_tasks));
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
