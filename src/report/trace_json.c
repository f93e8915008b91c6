/* Traces for Perfetto and chrome://tracing: a process per rank, a thread per
 * stream, times in microseconds from the first event; live bytes by class as
 * counters of their rank, the critical path as arrows from task to task. */
#include "config.h"
#include "report/report.h"

#include "base/file.h"
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

/* A trace being written, event by event: a large one would not stand in memory
 * as a tree. */
typedef struct writing {
    const ir_graph *graph;
    const plan *plan;
    fs_arena *arena;
    fs_output *file;
    bool begun;
    int64_t base, origin_ns; /* process of rank 0; when it begins */
    const char ***names;     /* [roles][tasks] */
} writing;

/* Live bytes are told when a class has changed by this part of the rank's
 * peak. */
enum { LIVE_PARTS = 256 };

/* The caller's reference is taken. */
static void put(writing *w, json_t *event)
{
    char *text = json_dumps(event, JSON_COMPACT | JSON_REAL_PRECISION(15));
    FS_ASSERT(text);
    fs_output_write(w->file, ",\n", w->begun ? 2 : 0);
    fs_output_write(w->file, text, strlen(text));
    w->begun = true;
    free(text);
    json_decref(event);
}

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

static void name_rows(writing *w, const char *source, int64_t base)
{
    for (int32_t r = 0; r < w->plan->n_roles; r++) {
        const plan_role *role = &w->plan->roles[r];
        for (int32_t i = 0; i < role->n_ranks; i++) {
            int64_t pid = base + role->first_rank + i;
            const char *name = fs_printf(w->arena, "%s rank %d (%s)", source,
                                         role->first_rank + i,
                                         plan_role_stages_text(role, w->arena));
            put(w, meta("process_name", pid, 0, name));
            for (int32_t s = 0; s < role->n_streams; s++)
                put(w, meta("thread_name", pid, s,
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

static const char *name_of(writing *w, const plan_event *e)
{
    const plan_role *role = plan_role_of_rank(w->plan, e->rank);
    const char ***names = &w->names[role - w->plan->roles];
    if (!*names)
        *names = fs_new(w->arena, const char *, role->n_tasks);
    const char **name = &(*names)[e->task];
    if (!*name)
        *name = plan_task_name(w->graph, &role->tasks[e->task], w->arena);
    return *name;
}

static json_t *event_json(writing *w, const plan_event *e, bool critical)
{
    const plan_role *role = plan_role_of_rank(w->plan, e->rank);
    char category[32];
    snprintf(category, sizeof category, "%s%s",
             plan_phase_name(role->tasks[e->task].phase),
             critical ? ",critical" : "");
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:{s:i, s:I, s:f}}",
                     "ph", "X", "name", name_of(w, e), "cat", category, "pid",
                     (json_int_t)(w->base + e->rank), "tid",
                     (json_int_t)e->stream, "ts",
                     (double)(e->start_ns - w->origin_ns) / 1e3, "dur",
                     (double)(e->end_ns - e->start_ns) / 1e3, "args",
                     "micro_batch", e->micro_batch, "step", (json_int_t)e->step,
                     "waited_us", (double)(e->start_ns - e->ready_ns) / 1e3);
}

/* ---- counters ---- */

static int64_t sum_of(const plan_live *live)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        sum += live->bytes[k];
    return sum;
}

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

static bool has_changed(const plan_live *was, const plan_live *is,
                        int64_t peak_bytes)
{
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        if (llabs(is->bytes[k] - was->bytes[k]) > peak_bytes / LIVE_PARTS)
            return true;
    return false;
}

/* What has changed much, and each peak exactly. */
static void add_live(writing *w, const plan_trace *trace)
{
    const plan_live *at = trace->live.at;
    const int32_t n_roles = w->plan->n_roles;
    int32_t *peak = fs_new(w->arena, int32_t, n_roles);
    const plan_live **told = fs_new(w->arena, const plan_live *, n_roles);
    for (int32_t r = 0; r < n_roles; r++)
        peak[r] = -1;
    for (int32_t i = 0; i < trace->live.n; i++) {
        const int64_t r =
            plan_role_of_rank(w->plan, at[i].rank) - w->plan->roles;
        if (peak[r] < 0 || sum_of(&at[i]) > sum_of(&at[peak[r]]))
            peak[r] = i;
    }
    for (int32_t i = 0; i < trace->live.n; i++) {
        const int64_t r =
            plan_role_of_rank(w->plan, at[i].rank) - w->plan->roles;
        if (told[r] && i != peak[r] &&
            !has_changed(told[r], &at[i], sum_of(&at[peak[r]])))
            continue;
        told[r] = &at[i];
        put(w, live_json(w, &at[i]));
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
static void add_path(writing *w, const plan_trace *trace)
{
    const plan_event *from = NULL;
    int32_t id = 0;
    for (int32_t i = 0; i < trace->path.n; i++) {
        const plan_event *to = &trace->events.at[trace->path.at[i]];
        if (to->end_ns == to->start_ns)
            continue;
        if (from) {
            put(w, arrow_end(w, from, "s", id));
            put(w, arrow_end(w, to, "f", id++));
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
        put(w, event_json(w, &trace->events.at[i], critical[i]));
    add_live(w, trace);
    add_path(w, trace);
}

fs_status report_trace_json(const ir_graph *graph, const plan *p,
                            const plan_trace *predicted,
                            const plan_trace *measured, const char *file,
                            fs_err *err)
{
    static const char head[] = "{\"displayTimeUnit\":\"ms\",\n"
                               "\"traceEvents\":[\n";
    static const char tail[] = "\n]}\n";
    fs_output out;
    FS_TRY(fs_output_open(&out, file, err));
    writing w = {
        .graph = graph, .plan = p, .arena = fs_arena_create(), .file = &out};
    w.names = fs_new(w.arena, const char **, p->n_roles);
    fs_output_write(&out, head, sizeof head - 1);
    /* Ranks of the two stand apart. */
    add_trace(&w, predicted, "predicted", 0);
    add_trace(&w, measured, "measured", 100000);
    fs_output_write(&out, tail, sizeof tail - 1);
    fs_arena_destroy(w.arena);
    return fs_output_close(&out, err);
}
