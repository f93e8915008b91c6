#include "config.h"
#include "sim/watch.h"

#include "base/clock.h"

#include <string.h>

enum { MOST_DEMAND_S = 1000000 };

static fs_status check_timing(const plan *p, const plan_timing *timing,
                              const ir_graph *graph, fs_arena *arena,
                              fs_err *err)
{
    if (timing->n_roles != p->n_roles)
        return fs_fail(err, FS_INVALID,
                       "the timing is for %d roles, the plan has %d",
                       timing->n_roles, p->n_roles);
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++) {
            double seconds = timing->demand[r][t].total_s;
            if (!(seconds >= 0 && seconds < MOST_DEMAND_S))
                return fs_fail(
                    err, FS_INVALID,
                    "%s: %s of rank %d (role %d, task %d) takes %g s, must be "
                    "0 to %d%s",
                    timing->source,
                    plan_task_name(graph, &p->roles[r].tasks[t], arena),
                    p->roles[r].first_rank, r, t, seconds, MOST_DEMAND_S,
                    strcmp(timing->source, "predicted") == 0
                        ? ": are the cluster's rates as small as that?"
                        : "");
        }
    return FS_OK;
}

/* Of the steps that are measured, all of them together. */
static int64_t window_ns(const simulation *s)
{
    const int64_t first = s->first_measured;
    return s->end_ns[s->measured_step] - (first ? s->end_ns[first - 1] : 0);
}

/* Differences are of whole nanoseconds: where nothing is left, it is 0. */
static void fill_stage(const simulation *s, int32_t r, sim_stage *out)
{
    static const sim_meter none;
    const int64_t first = s->first_measured, k = s->measured_step;
    const sim_meter *a = first ? &s->at_end[first - 1][r] : &none;
    const sim_meter *b = &s->at_end[k][r];
    const double each_s = 1e-9 / (double)(k - first + 1);
    const int64_t busy_ns = b->busy_ns - a->busy_ns;
    const int64_t exposed_ns = b->exposed_ns - a->exposed_ns;
    out->busy_s = (double)busy_ns * each_s;
    out->comm_s = (double)(b->comm_ns - a->comm_ns) * each_s;
    out->exposed_comm_s = (double)exposed_ns * each_s;
    out->idle_s = (double)(window_ns(s) - busy_ns - exposed_ns) * each_s;
}

/* A stage's ranks may be several roles. */
static void add_role(const plan *p, const plan_role *role, const sim_stage *one,
                     sim_stage *sum)
{
    double part = (double)role->n_ranks / ir_mesh_size(plan_role_mesh(p, role));
    sum->busy_s += part * one->busy_s;
    sum->comm_s += part * one->comm_s;
    sum->exposed_comm_s += part * one->exposed_comm_s;
    sum->idle_s += part * one->idle_s;
    if (one->peak_bytes > sum->peak_bytes)
        sum->peak_bytes = one->peak_bytes;
}

/* Figures per rank: means over the ranks of a stage, of the plan. */
static void fill_result(const simulation *s, fs_arena *arena, sim_result *out)
{
    const plan *p = s->p;
    const int64_t first = s->first_measured, k = s->measured_step;
    const double window_s =
        (double)window_ns(s) * 1e-9 / (double)(k - first + 1);
    double ranks = 0, idle_s = 0, comm_s = 0, exposed_s = 0;
    out->iteration_s = window_s;
    out->n_stages = p->strategy->n_stages;
    out->stages = fs_new(arena, sim_stage, out->n_stages);
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        sim_stage one = {.peak_bytes = s->meters[r].peak_bytes};
        fill_stage(s, r, &one);
        for (int32_t c = 0; c < role->n_chunks; c++)
            add_role(p, role, &one, &out->stages[role->stages[c]]);
        ranks += role->n_ranks;
        idle_s += role->n_ranks * one.idle_s;
        comm_s += role->n_ranks * one.comm_s;
        exposed_s += role->n_ranks * one.exposed_comm_s;
    }
    out->bubble = window_s > 0 ? idle_s / (ranks * window_s) : 0;
    out->comm_s = comm_s / ranks;
    out->exposed_comm_s = exposed_s / ranks;
    out->events = s->n_events;
    out->skipped = s->n_skipped;
    out->paired = s->n_paired;
    out->n_steps = s->steps;
    out->first_step = first;
    out->last_step = k;
    out->step_s = fs_new(arena, double, s->steps);
    for (int64_t i = 0; i < s->steps; i++)
        out->step_s[i] =
            (double)(s->end_ns[i] - (i ? s->end_ns[i - 1] : 0)) * 1e-9;
}

/* Times of the trace count from the first thing it shows. */
static void shift_trace(plan_trace *trace, int32_t first, int32_t first_live)
{
    int64_t zero_ns = INT64_MAX;
    for (int32_t i = first; i < trace->events.n; i++)
        if (trace->events.at[i].ready_ns < zero_ns)
            zero_ns = trace->events.at[i].ready_ns;
    for (int32_t i = first; i < trace->events.n; i++) {
        trace->events.at[i].ready_ns -= zero_ns;
        trace->events.at[i].start_ns -= zero_ns;
        trace->events.at[i].end_ns -= zero_ns;
    }
    for (int32_t i = first_live; i < trace->live.n; i++)
        trace->live.at[i].at_ns -= zero_ns;
}

fs_status sim_run(const ir_graph *graph, const plan *p,
                  const hw_cluster *cluster, const plan_timing *timing,
                  const sim_options *options, fs_arena *arena, fs_err *err,
                  sim_result *out)
{
    int64_t start_ns = fs_now_ns();
    int32_t first = options->trace ? options->trace->events.n : 0;
    int32_t first_live = options->trace ? options->trace->live.n : 0;
    simulation s = {.graph = graph,
                    .p = p,
                    .timing = timing,
                    .options = options,
                    .steps = options->steps > 0 ? options->steps : 1,
                    .traced_ns = -1};
    fs_status status;
    s.arena = fs_arena_create();
    status = check_timing(p, timing, graph, s.arena, err);
    if (status == FS_OK) {
        /* The last step but one, if there are three: in the last, what the
         * next would have begun early is missing. */
        s.measured_step = s.steps >= 3 ? s.steps - 2 : s.steps - 1;
        s.first_measured =
            options->jitter > 0 && s.steps >= 3 ? 1 : s.measured_step;
        sim_make(&s, cluster);
        status = sim_play(&s, err);
    }
    if (status == FS_OK) {
        sim_result result = {0};
        fill_result(&s, arena, &result);
        result.wall_s = (double)(fs_now_ns() - start_ns) * 1e-9;
        *out = result;
        if (options->trace && options->trace->take)
            sim_trace_hand_over(&s);
        else if (options->trace)
            shift_trace(options->trace, first, first_live);
    }
    fs_arena_destroy(s.arena);
    return status;
}
