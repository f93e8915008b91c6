#include "config.h"
#include "sim/meter.h"

/* ---- chains ---- */

sim_span *sim_span_make(const plan_actors *a, int32_t head,
                        const plan_chain *chain, const sim_task *tasks,
                        fs_arena *arena)
{
    enum { PS_PER_NS = 1000 };
    sim_span *span = fs_new(arena, sim_span, 1);
    int64_t end_ns = 0, busy_ns = 0, comm_ns = 0, live = 0;
    span->chain = chain;
    span->claims = chain->claims;
    span->releases = chain->releases;
    span->end_ns = fs_new(arena, int64_t, chain->n);
    span->busy_ns = fs_new(arena, int64_t, chain->n);
    span->comm_ns = fs_new(arena, int64_t, chain->n);
    for (int32_t k = 0, t = head; k < chain->n; k++, t = a->tasks[t].next) {
        const int64_t ns = (tasks[t].demand_ps + PS_PER_NS - 1) / PS_PER_NS;
        if (ns == 0)
            return NULL;
        span->wakes |= tasks[t].wakes;
        span->end_ns[k] = end_ns += ns;
        span->busy_ns[k] = busy_ns += tasks[t].computes ? ns : 0;
        span->comm_ns[k] = comm_ns += tasks[t].communicates ? ns : 0;
        live += k > 0 ? chain->claims[k] : 0;
        span->peak_bytes = live > span->peak_bytes ? live : span->peak_bytes;
        live -= chain->releases[k];
    }
    span->live_bytes = live;
    return span;
}

static void see_peak(sim_meter *m, int64_t above)
{
    if (m->live_bytes + above > m->peak_bytes)
        m->peak_bytes = m->live_bytes + above;
}

void sim_meter_start(sim_meter *m, const sim_span *span, int64_t now_ns)
{
    m->span = span;
    m->span_start_ns = now_ns;
    m->span_busy_ns = m->span_comm_ns = 0;
    m->ended = 0;
    m->claimed = true;
    m->live_bytes += span->claims[0];
    see_peak(m, 0);
}

static int64_t start_of(const sim_span *span, int32_t k)
{
    return k > 0 ? span->end_ns[k - 1] : 0;
}

/* Task by task, to so long after its start. */
static void follow_span(sim_meter *m, int64_t at_ns, bool begun)
{
    const sim_span *span = m->span;
    while (m->ended < span->chain->n) {
        const int64_t start_ns = start_of(span, m->ended);
        if (!m->claimed && (start_ns < at_ns || (start_ns == at_ns && begun))) {
            m->live_bytes += span->claims[m->ended];
            see_peak(m, 0);
            m->claimed = true;
        }
        if (!m->claimed || span->end_ns[m->ended] > at_ns)
            return;
        m->live_bytes -= span->releases[m->ended++];
        m->claimed = false;
    }
}

/* Of its sums `by` the end of tasks, what is reached so long after its start;
 * a task adds either nothing or all its time. */
static int64_t sum_at(const sim_meter *m, const int64_t *by, int64_t at_ns)
{
    const int32_t k = m->ended;
    const int64_t done = k > 0 ? by[k - 1] : 0;
    if (k == m->span->chain->n || by[k] == done)
        return done;
    return done + at_ns - start_of(m->span, k);
}

/* What runs beside it has not changed since the last call. */
static void advance_span(sim_meter *m, int64_t now_ns, bool begun)
{
    const sim_span *span = m->span;
    const int32_t n = span->chain->n;
    const int64_t at_ns = now_ns - m->span_start_ns;
    const int64_t passed_ns = now_ns - m->since_ns;
    if (m->since_ns == m->span_start_ns && at_ns == span->end_ns[n - 1]) {
        see_peak(m, span->peak_bytes);
        m->live_bytes += span->live_bytes;
        m->ended = n;
    } else {
        follow_span(m, at_ns, begun);
    }
    const int64_t busy_ns = sum_at(m, span->busy_ns, at_ns);
    const int64_t comm_ns = sum_at(m, span->comm_ns, at_ns);
    const int64_t its_busy_ns = busy_ns - m->span_busy_ns;
    const int64_t its_comm_ns = comm_ns - m->span_comm_ns;
    m->span_busy_ns = busy_ns;
    m->span_comm_ns = comm_ns;
    m->since_ns = now_ns;
    m->busy_ns += m->computing > 0 ? passed_ns : its_busy_ns;
    m->comm_ns += m->communicating > 0 ? passed_ns : its_comm_ns;
    if (m->computing == 0)
        m->exposed_ns +=
            m->communicating > 0 ? passed_ns - its_busy_ns : its_comm_ns;
    m->occupied_ns += passed_ns;
    if (m->ended == n)
        m->span = NULL;
}

/* ---- all that runs ---- */

void sim_meter_advance(sim_meter *m, int64_t now_ns, bool begun)
{
    if (m->span) {
        advance_span(m, now_ns, begun);
        return;
    }
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

void sim_meter_count(sim_meter *m, const sim_task *task, int32_t change)
{
    if (task->communicates)
        m->communicating += change;
    else if (task->computes)
        m->computing += change;
    if (task->occupies)
        m->occupied += change;
}

void sim_meter_claim(sim_meter *m, int64_t bytes)
{
    m->live_bytes += bytes;
    see_peak(m, 0);
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
