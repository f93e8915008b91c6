#include "config.h"

#include "plan/plan.h"

const char *plan_task_kind_name(plan_task_kind kind)
{
    static const char *const names[PLAN_TASK_KINDS] = {[PLAN_COMPUTE] =
                                                           "compute",
                                                       [PLAN_LOAD] = "load",
                                                       [PLAN_BOX] = "box",
                                                       [PLAN_SEND] = "send",
                                                       [PLAN_RECV] = "receive"};

    return names[kind];
}

const char *plan_phase_name(plan_phase phase)
{
    static const char *const names[PLAN_PHASES] = {[PLAN_BEGIN] = "begin",
                                                   [PLAN_FORWARD] = "forward",
                                                   [PLAN_BACKWARD] = "backward",
                                                   [PLAN_WEIGHT] = "weight",
                                                   [PLAN_END] = "end"};

    return names[phase];
}

const char *plan_task_name(const ir_graph *graph, const plan_task *task,
                           fs_arena *arena)
{
    const char *verb = task->kind == PLAN_BOX ? plan_box_name(task->box.kind)
                                              : plan_task_kind_name(task->kind);

    if (task->kind == PLAN_COMPUTE || task->kind == PLAN_LOAD)
        return graph->nodes.at[task->node].name;
    if (task->n_parts > 0)
        return fs_printf(arena, "%s %s and %d more", verb,
                         graph->tensors.at[task->tensor].name,
                         (int)task->n_parts - 1);
    return fs_printf(arena, "%s %s", verb,
                     graph->tensors.at[task->tensor].name);
}

int32_t plan_task_n_parts(const plan_task *task)
{
    const bool one = task->kind != PLAN_COMPUTE && task->kind != PLAN_LOAD;

    return task->n_parts > 0 ? task->n_parts : one;
}

plan_part plan_task_part(const plan_task *task, int32_t i)
{
    return task->n_parts > 0 ? task->parts[i]
                             : (plan_part){task->tensor, task->box};
}

bool plan_task_computes(const plan_task *task)
{
    return task->kind == PLAN_COMPUTE ||
           (task->kind == PLAN_BOX && task->comm < 0);
}

bool plan_overlaps(const plan *p)
{
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t s = 0; s < p->roles[r].n_streams; s++)
            if (p->roles[r].streams[s].kind == PLAN_STREAM_COMM ||
                p->roles[r].streams[s].kind == PLAN_STREAM_STEP)
                return true;
    return false;
}

double plan_role_gap(const plan_role *role)
{
    if (role->bound_bytes <= 0)
        return 0;
    return (double)(role->arena_bytes - role->bound_bytes) /
           (double)role->bound_bytes;
}

const plan_role *plan_role_of_rank(const plan *p, int32_t rank)
{
    int32_t low = 0, high = p->n_roles - 1;

    while (low < high) {
        int32_t middle = (low + high + 1) / 2;
        if (p->roles[middle].first_rank <= rank)
            low = middle;
        else
            high = middle - 1;
    }
    return &p->roles[low];
}

const ir_mesh *plan_role_mesh(const plan *p, const plan_role *role)
{
    return &p->strategy->stages[role->stages[0]].mesh;
}

/* ---- sections ---- */

bool plan_phase_once(plan_phase phase)
{
    return phase == PLAN_BEGIN || phase == PLAN_END;
}

int32_t plan_n_sections(const plan_role *role)
{
    return 3 * role->n_chunks + 2;
}

int32_t plan_section(const plan_role *role, plan_phase phase, int32_t chunk)
{
    int32_t n = role->n_chunks, last = n - 1;

    switch (phase) {
    case PLAN_BEGIN:
        return 0;
    case PLAN_FORWARD:
        return 1 + chunk;
    case PLAN_BACKWARD:
        return 1 + n + last - chunk;
    case PLAN_WEIGHT:
        return 1 + 2 * n + last - chunk;
    default:
        return 1 + 3 * n;
    }
}

int32_t plan_task_section(const plan_role *role, const plan_task *task)
{
    return plan_section(role, task->phase, task->chunk);
}

int32_t plan_slot_section(const plan_role *role, const plan_slot *slot)
{
    return plan_section(role, slot->phase, slot->chunk);
}

int32_t plan_task_stage(const plan_role *role, const plan_task *task)
{
    return role->stages[task->chunk];
}

bool plan_role_has_stage(const plan_role *role, int32_t stage)
{
    for (int32_t c = 0; c < role->n_chunks; c++)
        if (role->stages[c] == stage)
            return true;
    return false;
}

const char *plan_role_stages_text(const plan_role *role, fs_arena *arena)
{
    fs_text text = {.arena = arena};

    for (int32_t c = 0; c < role->n_chunks; c++)
        fs_text_add(&text, "%s%d",
                    c == 0 ? role->n_chunks > 1 ? "stages " : "stage "
                    : c < role->n_chunks - 1 ? ", "
                                             : " and ",
                    role->stages[c]);
    return text.at;
}

/* ---- ranks ---- */

void plan_rank_coords(const plan *p, int32_t rank, int32_t coords[IR_MAX_MESH])
{
    const plan_role *role = plan_role_of_rank(p, rank);

    ir_mesh_coords(plan_role_mesh(p, role), rank - role->first_rank, coords);
}

int32_t plan_comm_size(const plan *p, const plan_comm *comm)
{
    const ir_mesh *mesh = &p->strategy->stages[comm->stage].mesh;
    int32_t n = 1;

    for (int32_t a = 0; a < mesh->n; a++)
        n *= comm->axes >> a & 1 ? mesh->dim[a] : 1;
    return n;
}

/* Steps through the coordinates of `axes`, the last fastest. */
static bool next_member(const ir_mesh *mesh, uint32_t axes, int32_t *coords)
{
    for (int32_t a = mesh->n - 1; a >= 0; a--) {
        if (!(axes >> a & 1))
            continue;
        if (++coords[a] < mesh->dim[a])
            return true;
        coords[a] = 0;
    }
    return false;
}

int32_t plan_comm_ranks(const plan *p, const plan_comm *comm, int32_t rank,
                        int32_t *out)
{
    const plan_stage *stage = &p->strategy->stages[comm->stage];
    int32_t coords[IR_MAX_MESH], n = 0;

    ir_mesh_coords(&stage->mesh, rank - stage->first_device, coords);
    for (int32_t a = 0; a < stage->mesh.n; a++)
        if (comm->axes >> a & 1)
            coords[a] = 0;
    do
        out[n++] = stage->first_device + ir_mesh_rank(&stage->mesh, coords);
    while (next_member(&stage->mesh, comm->axes, coords));
    return n;
}

int32_t plan_channel_peer(const plan *p, const plan_channel *channel,
                          int32_t rank)
{
    bool sends =
        plan_role_has_stage(plan_role_of_rank(p, rank), channel->from_stage);
    int32_t stage = sends ? channel->from_stage : channel->to_stage;
    int32_t peer = sends ? channel->to_stage : channel->from_stage;

    return rank - p->strategy->stages[stage].first_device +
           p->strategy->stages[peer].first_device;
}

/* Without its tensor. */
static plan_cross cross_of(const plan *p, const plan_task *task)
{
    const plan_channel *channel = &p->channels[task->channel];
    const bool sends = task->kind == PLAN_SEND;

    return (plan_cross){.from_stage = &p->strategy->stages[channel->from_stage],
                        .to_stage = &p->strategy->stages[channel->to_stage],
                        .from = sends ? task->sbp : task->peer_sbp,
                        .to = sends ? task->peer_sbp : task->sbp};
}

plan_cross plan_task_cross(const ir_graph *graph, const plan *p,
                           const plan_task *task)
{
    plan_cross cross = cross_of(p, task);

    cross.tensor = &graph->tensors.at[task->tensor];
    return cross;
}

bool plan_task_is_straight(const plan *p, const plan_task *task)
{
    const plan_cross cross = cross_of(p, task);

    return plan_cross_is_straight(&cross);
}
