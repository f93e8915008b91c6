/* Traces for Perfetto and chrome://tracing: a process per rank, a thread per
 * stream, times in microseconds from the first event; live bytes by class as
 * counters of their rank, the critical path as arrows from task to task. */
#include "config.h"
#include "report/report.h"

#include "base/json.h"

#include <string.h>

/* A trace being written. */
typedef struct writing {
    const ir_graph *graph;
    const plan *plan;
    fs_arena *arena;
    json_t *list;
    int64_t base, origin_ns; /* process of rank 0; when it begins */
} writing;

/* Two channels may join two stages in one direction: one for what the forward
 * pass needs, one for the backward pass. Two streams of a rank may compute, a
 * pass each. */
static const char *way_of(const plan_role *role, int32_t stream)
{
    for (int32_t i = 0; i < role->n_tasks; i++)
        if (role->tasks[i].stream == stream)
            return role->tasks[i].phase < PLAN_BACKWARD ? "forward"
                                                        : "backward";
    return "unused";
}

static int32_t count_kind(const plan_role *role, plan_stream_kind kind)
{
    int32_t n = 0;
    for (int32_t s = 0; s < role->n_streams; s++)
        n += role->streams[s].kind == kind;
    return n;
}

static int32_t count_alike(const plan *p, const plan_channel *channel)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->n_channels; i++)
        n += p->channels[i].from_stage == channel->from_stage &&
             p->channels[i].to_stage == channel->to_stage;
    return n;
}

const char *report_stream_name(const plan *p, int32_t rank, int32_t stream,
                               fs_arena *arena)
{
    static const char *const names[] = {"compute", "collectives", "load",
                                        "send to", "receive from"};
    const plan_role *role = plan_role_of_rank(p, rank);
    const plan_stream *s = &role->streams[stream];
    const char *name = names[s->kind];
    int32_t same;
    if (s->channel < 0) {
        same = count_kind(role, s->kind);
    } else {
        const plan_channel *c = &p->channels[s->channel];
        bool sends = s->kind == PLAN_STREAM_SEND;
        same = count_alike(p, c);
        name = fs_printf(arena, "%s stage %d", name,
                         sends ? c->to_stage : c->from_stage);
    }
    return same < 2 ? name
                    : fs_printf(arena, "%s, %s", name, way_of(role, stream));
}

static json_t *meta(const char *what, int64_t pid, int64_t tid,
                    const char *name)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:{s:s}}", "ph", "M", "name", what,
                     "pid", (json_int_t)pid, "tid", (json_int_t)tid, "args",
                     "name", name);
}

static void name_rows(const writing *w, const char *source, int64_t base)
{
    for (int32_t r = 0; r < w->plan->n_roles; r++) {
        const plan_role *role = &w->plan->roles[r];
        for (int32_t i = 0; i < role->n_ranks; i++) {
            int64_t pid = base + role->first_rank + i;
            const char *name = fs_printf(w->arena, "%s rank %d (%s)", source,
                                         role->first_rank + i,
                                         plan_role_stages_text(role, w->arena));
            json_array_append_new(w->list, meta("process_name", pid, 0, name));
            for (int32_t s = 0; s < role->n_streams; s++)
                json_array_append_new(
                    w->list,
                    meta("thread_name", pid, s,
                         report_stream_name(w->plan, role->first_rank + i, s,
                                            w->arena)));
        }
    }
}

static int64_t first_ns(const plan_trace *trace)
{
    int64_t first = INT64_MAX;
    for (int32_t i = 0; i < trace->events.n; i++)
        if (trace->events.at[i].start_ns < first)
            first = trace->events.at[i].start_ns;
    return first;
}

/* Categories: the phase, and whether it is on the critical path. */
static const char *category(const writing *w, const plan_task *task,
                            bool critical)
{
    const char *phase = plan_phase_name(task->phase);
    return critical ? fs_printf(w->arena, "%s,critical", phase) : phase;
}

static json_t *event_json(const writing *w, const plan_event *e, bool critical)
{
    const plan_role *role = plan_role_of_rank(w->plan, e->rank);
    const plan_task *task = &role->tasks[e->task];
    return json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:{s:i, s:I, s:f}}", "ph", "X",
        "name", plan_task_name(w->graph, task, w->arena), "cat",
        category(w, task, critical), "pid", (json_int_t)(w->base + e->rank),
        "tid", (json_int_t)e->stream, "ts",
        (double)(e->start_ns - w->origin_ns) / 1e3, "dur",
        (double)(e->end_ns - e->start_ns) / 1e3, "args", "micro_batch",
        e->micro_batch, "step", (json_int_t)e->step, "waited_us",
        (double)(e->start_ns - e->ready_ns) / 1e3);
}

/* ---- counters ---- */

static json_t *live_json(const writing *w, const plan_live *live)
{
    json_t *bytes = json_object();
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        json_object_set_new(bytes, plan_bytes_kind_name((plan_bytes_kind)k),
                            json_integer(live->bytes[k]));
    return json_pack("{s:s, s:s, s:I, s:f, s:o}", "ph", "C", "name",
                     "live bytes", "pid", (json_int_t)(w->base + live->rank),
                     "ts", (double)(live->at_ns - w->origin_ns) / 1e3, "args",
                     bytes);
}

/* Each change once. */
static void add_live(const writing *w, const plan_trace *trace)
{
    const plan_live **last =
        fs_new(w->arena, const plan_live *, w->plan->n_roles);
    for (int32_t i = 0; i < trace->live.n; i++) {
        const plan_live *live = &trace->live.at[i];
        const plan_live **was =
            &last[plan_role_of_rank(w->plan, live->rank) - w->plan->roles];
        if (*was && memcmp((*was)->bytes, live->bytes, sizeof live->bytes) == 0)
            continue;
        *was = live;
        json_array_append_new(w->list, live_json(w, live));
    }
}

/* ---- the critical path ---- */

/* An end of an arrow: within the box of an event, or it would bind to none. */
static json_t *arrow_end(const writing *w, const plan_event *e, const char *end,
                         int32_t id)
{
    const double middle_ns = (double)(e->start_ns - w->origin_ns) +
                             (double)(e->end_ns - e->start_ns) / 2;
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:I, s:f}", "ph", end,
                     "name", "critical path", "cat", "critical", "bp", "e",
                     "id", id, "pid", (json_int_t)(w->base + e->rank), "tid",
                     (json_int_t)e->stream, "ts", middle_ns / 1e3);
}

/* From each event of the path that lasts to the next one. */
static void add_path(const writing *w, const plan_trace *trace)
{
    const plan_event *from = NULL;
    int32_t id = 0;
    for (int32_t i = 0; i < trace->path.n; i++) {
        const plan_event *to = &trace->events.at[trace->path.at[i]];
        if (to->end_ns == to->start_ns)
            continue;
        if (from) {
            json_array_append_new(w->list, arrow_end(w, from, "s", id));
            json_array_append_new(w->list, arrow_end(w, to, "f", id++));
        }
        from = to;
    }
}

/* Rank r is process base + r; NULL: no trace. */
static void add_trace(writing *w, const plan_trace *trace, const char *source,
                      int64_t base)
{
    if (!trace)
        return;
    w->origin_ns = first_ns(trace);
    w->base = base;
    name_rows(w, source, base);
    bool *critical = fs_new(w->arena, bool, trace->events.n);
    for (int32_t i = 0; i < trace->path.n; i++)
        critical[trace->path.at[i]] = true;
    for (int32_t i = 0; i < trace->events.n; i++)
        json_array_append_new(w->list,
                              event_json(w, &trace->events.at[i], critical[i]));
    add_live(w, trace);
    add_path(w, trace);
}

fs_status report_trace_json(const ir_graph *graph, const plan *p,
                            const plan_trace *predicted,
                            const plan_trace *measured, const char *file,
                            fs_err *err)
{
    json_t *root = json_object();
    writing w = {graph, p, fs_arena_create(), json_array(), 0, 0};
    fs_json_set_text(root, "displayTimeUnit", "ms");
    json_object_set_new(root, "traceEvents", w.list);
    /* Ranks of the two stand apart. */
    add_trace(&w, predicted, "predicted", 0);
    add_trace(&w, measured, "measured", 100000);
    fs_status status = fs_json_save(root, file, err);
    json_decref(root);
    fs_arena_destroy(w.arena);
    return status;
}
