#include "config.h"
#include "sim/meter.h"

/* ---- chains ---- */

/* What counts as which is what sim_meter_count says. */
static void add_part(const plan_chain_part *part, const sim_task *tasks,
                     int64_t ns, sim_sums *to)
{
    bool busy = false, comm = false;
    for (int32_t i = 0; i < 2; i++) {
        const int32_t t = i ? part->beside : part->task;
        if (t < 0)
            continue;
        comm |= tasks[t].communicates;
        busy |= !tasks[t].communicates && tasks[t].computes;
    }
    to->busy_ns += busy ? ns : 0;
    to->comm_ns += comm ? ns : 0;
    to->both_ns += busy && comm ? ns : 0;
}

sim_span *sim_span_make(const plan_chain *chain, const sim_task *tasks,
                        fs_arena *arena)
{
    sim_span *span = fs_new(arena, sim_span, 1);
    sim_sums sums = {0};
    int64_t end_ns = 0, live = 0;
    span->chain = chain;
    span->sums = fs_new(arena, sim_sums, chain->n_parts);
    for (int32_t k = 0; k < chain->n_parts; k++) {
        const plan_chain_part *part = &chain->parts[k];
        if (part->task >= 0)
            span->wakes |= tasks[part->task].wakes;
        if (part->beside >= 0)
            span->wakes |= tasks[part->beside].wakes;
        add_part(part, tasks, part->end_ns - end_ns, &sums);
        end_ns = part->end_ns;
        span->sums[k] = sums;
        live += k > 0 ? part->claims : 0;
        span->peak_bytes = live > span->peak_bytes ? live : span->peak_bytes;
        live -= part->releases;
    }
    span->end_ns = end_ns;
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
    m->spans = true;
    m->span_start_ns = now_ns;
    m->counted = (sim_sums){0};
    m->ended = 0;
    m->claimed = true;
    m->live_bytes += span->chain->parts[0].claims;
    see_peak(m, 0);
}

static int64_t start_of(const plan_chain *chain, int32_t k)
{
    return k > 0 ? chain->parts[k - 1].end_ns : 0;
}

/* Part by part, to so long after its start. */
static void follow_span(sim_meter *m, int64_t at_ns, bool begun)
{
    const plan_chain *chain = m->span->chain;
    while (m->ended < chain->n_parts) {
        const plan_chain_part *part = &chain->parts[m->ended];
        const int64_t start_ns = start_of(chain, m->ended);
        if (!m->claimed && (start_ns < at_ns || (start_ns == at_ns && begun))) {
            m->live_bytes += part->claims;
            see_peak(m, 0);
            m->claimed = true;
        }
        if (!m->claimed || part->end_ns > at_ns)
            return;
        m->live_bytes -= part->releases;
        m->ended++;
        m->claimed = false;
    }
}

/* A part adds either nothing or all its time. */
static int64_t within(int64_t before, int64_t by_end, int64_t passed_ns)
{
    return by_end == before ? before : before + passed_ns;
}

/* Of its sums, what is reached so long after its start. */
static sim_sums sums_at(const sim_meter *m, int64_t at_ns)
{
    static const sim_sums none;
    const int32_t k = m->ended;
    const sim_sums *done = k > 0 ? &m->span->sums[k - 1] : &none;
    if (k == m->span->chain->n_parts)
        return *done;
    const sim_sums *by = &m->span->sums[k];
    const int64_t passed_ns = at_ns - start_of(m->span->chain, k);
    return (sim_sums){within(done->busy_ns, by->busy_ns, passed_ns),
                      within(done->comm_ns, by->comm_ns, passed_ns),
                      within(done->both_ns, by->both_ns, passed_ns)};
}

/* So much time, in which a chain did this, beside those that are counted. */
static void add_beside(sim_meter *m, int64_t passed_ns, const sim_sums *its)
{
    m->busy_ns += m->computing > 0 ? passed_ns : its->busy_ns;
    m->comm_ns += m->communicating > 0 ? passed_ns : its->comm_ns;
    if (m->computing == 0)
        m->exposed_ns += m->communicating > 0 ? passed_ns - its->busy_ns
                                              : its->comm_ns - its->both_ns;
}

/* What runs beside it has not changed since the last call. */
static void advance_span(sim_meter *m, int64_t now_ns, bool begun)
{
    const sim_span *span = m->span;
    const int32_t n = span->chain->n_parts;
    const int64_t at_ns = now_ns - m->span_start_ns;
    if (m->since_ns == m->span_start_ns && at_ns == span->end_ns) {
        see_peak(m, span->peak_bytes);
        m->live_bytes += span->live_bytes;
        m->ended = n;
    } else {
        follow_span(m, at_ns, begun);
    }
    const sim_sums by = sums_at(m, at_ns);
    const sim_sums its = {by.busy_ns - m->counted.busy_ns,
                          by.comm_ns - m->counted.comm_ns,
                          by.both_ns - m->counted.both_ns};
    add_beside(m, now_ns - m->since_ns, &its);
    m->counted = by;
    m->since_ns = now_ns;
    m->spans = m->ended < n;
    if (!m->spans)
        m->span = NULL;
}

/* ---- all that runs ---- */

void sim_meter_pass(sim_meter *m, int64_t now_ns, bool begun)
{
    if (m->spans) {
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
