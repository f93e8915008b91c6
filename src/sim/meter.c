#include "config.h"
#include "sim/parts.h"

void sim_meter_advance(sim_meter *m, int64_t now_ns)
{
    int64_t passed_ns = now_ns - m->since_ns;
    m->since_ns = now_ns;
    if (m->computing > 0)
        m->busy_ns += passed_ns;
    if (m->communicating > 0)
        m->comm_ns += passed_ns;
    if (m->communicating > 0 && m->computing == 0)
        m->exposed_ns += passed_ns;
    if (m->occupied > 0)
        m->occupied_ns += passed_ns;
}

void sim_meter_count(sim_meter *m, const plan_role *role, const plan_task *task,
                     int32_t change)
{
    if (task->comm >= 0 || task->channel >= 0)
        m->communicating += change;
    else if (plan_task_computes(task))
        m->computing += change;
    if (role->streams[task->stream].kind == PLAN_STREAM_COMPUTE)
        m->occupied += change;
}

int64_t sim_standing_bytes(const plan_role *role)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < role->n_registers; i++)
        if (role->registers[i].persistent)
            bytes += role->registers[i].count * role->registers[i].bytes;
    for (int32_t s = 0; s < role->n_streams; s++) {
        int64_t most = 0;
        for (int32_t t = 0; t < role->n_tasks; t++)
            if (role->tasks[t].stream == s &&
                role->tasks[t].scratch_bytes > most)
                most = role->tasks[t].scratch_bytes;
        bytes += most;
    }
    return bytes;
}
