/* Traces for Perfetto and chrome://tracing: a process per rank, a thread per
 * stream, times in microseconds from the first event; live bytes by class as
 * counters of their rank, the critical path as arrows from task to task. */
#include "config.h"
#include "report/report.h"

#include "base/file.h"
#include "base/json.h"

#include <errno.h>
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
    const char ***names;     /* [roles][tasks] as JSON strings */
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
    static const char *const names[] = {
        "compute", "collectives", "collectives of the step",
        "load",    "send to",     "receive from"};
    const plan_role *role = plan_role_of_rank(p, rank);
    const plan_stream *s = &role->streams[stream];
    const char *name = names[s->kind];
    int32_t same;
    if (s->channel < 0) {
        same = count_kind(role, s->kind);
    } else {
        const plan_channel *c = &p->channels[s->channel];
        bool sends = s->kind == PLAN_STREAM_SEND;
        const int32_t here = sends ? c->from_stage : c->to_stage;
        const int32_t other = sends ? c->to_stage : c->from_stage;
        same = count_alike(p, c);
        name = role->n_chunks > 1
                   ? fs_printf(arena, "stage %d %s %d", here,
                               sends ? "sends to" : "receives from", other)
                   : fs_printf(arena, "%s stage %d", name, other);
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

/* As a JSON string. */
static const char *name_of(writing *w, const plan_event *e)
{
    const plan_role *role = plan_role_of_rank(w->plan, e->rank);
    const char ***names = &w->names[role - w->plan->roles];
    if (!*names)
        *names = fs_new(w->arena, const char *, role->n_tasks);
    const char **name = &(*names)[e->task];
    if (!*name) {
        json_t *text = fs_json_string(
            plan_task_name(w->graph, &role->tasks[e->task], w->arena));
        char *quoted = json_dumps(text, JSON_ENCODE_ANY);
        FS_ASSERT(quoted);
        *name = fs_strdup(w->arena, quoted);
        free(quoted);
        json_decref(text);
    }
    return *name;
}

/* Digits, from the end of a buffer backwards. */
static char *digits_before(char *at, uint64_t value)
{
    do
        *--at = (char)('0' + value % 10);
    while (value /= 10);
    return at;
}

static char *add(char *to, const char *text)
{
    const size_t n = strlen(text);
    memcpy(to, text, n);
    return to + n;
}

static char *add_int(char *to, int64_t value)
{
    char buffer[24], *end = buffer + sizeof buffer;
    char *at =
        digits_before(end, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
    if (value < 0)
        *--at = '-';
    memcpy(to, at, (size_t)(end - at));
    return to + (end - at);
}

/* Microseconds to the nanosecond, without zeros behind. */
static char *add_us(char *to, int64_t ns)
{
    const uint64_t of = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    const uint64_t rest = of % 1000;
    if (ns < 0)
        *to++ = '-';
    to = add_int(to, (int64_t)(of / 1000));
    *to++ = '.';
    *to++ = (char)('0' + rest / 100);
    if (rest % 100)
        *to++ = (char)('0' + rest / 10 % 10);
    if (rest % 10)
        *to++ = (char)('0' + rest % 10);
    return to;
}

/* By hand: a large trace has hundreds of millions of them. */
static void put_event(writing *w, const plan_event *e, bool critical)
{
    enum { FIGURES = 256 };
    const plan_role *role = plan_role_of_rank(w->plan, e->rank);
    const char *name = name_of(w, e);
    char few[1024], *line = few, *to;
    if (strlen(name) + FIGURES > sizeof few)
        line = fs_new(w->arena, char, strlen(name) + FIGURES);
    to = add(line, w->begun ? ",\n" : "");
    to = add(add(to, "{\"ph\":\"X\",\"name\":"), name);
    to = add(add(to, ",\"cat\":\""),
             plan_phase_name(role->tasks[e->task].phase));
    to = add(to, critical ? ",critical\",\"pid\":" : "\",\"pid\":");
    to = add_int(to, w->base + e->rank);
    to = add_int(add(to, ",\"tid\":"), e->stream);
    to = add_us(add(to, ",\"ts\":"), e->start_ns - w->origin_ns);
    to = add_us(add(to, ",\"dur\":"), e->end_ns - e->start_ns);
    to = add_int(add(to, ",\"args\":{\"micro_batch\":"), e->micro_batch);
    to = add_int(add(to, ",\"step\":"), e->step + 1);
    to = add_us(add(to, ",\"waited_us\":"), e->start_ns - e->ready_ns);
    to = add(to, "}}");
    fs_output_write(w->file, line, (size_t)(to - line));
    w->begun = true;
}

/* ---- counters ---- */

static int64_t sum_of(const plan_live *live)
{
    int64_t sum = 0;
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++)
        sum += live->bytes[k];
    return sum;
}

static void put_live(writing *w, const plan_live *live)
{
    char line[512], *to = line;
    to = add(to, w->begun ? ",\n" : "");
    to = add(to, "{\"ph\":\"C\",\"name\":\"live bytes\",\"pid\":");
    to = add_int(to, w->base + live->rank);
    to = add_us(add(to, ",\"ts\":"), live->at_ns - w->origin_ns);
    to = add(to, ",\"args\":{");
    for (int32_t k = 0; k < PLAN_BYTES_KINDS; k++) {
        to = add(to, k ? ",\"" : "\"");
        to = add(to, plan_bytes_kind_name((plan_bytes_kind)k));
        to = add_int(add(to, "\":"), live->bytes[k]);
    }
    to = add(to, "}}");
    fs_output_write(w->file, line, (size_t)(to - line));
    w->begun = true;
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
        put_live(w, &at[i]);
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
        put_event(w, &trace->events.at[i], critical[i]);
    add_live(w, trace);
    add_path(w, trace);
}

static const char head[] = "{\"displayTimeUnit\":\"ms\",\n"
                           "\"traceEvents\":[\n";
static const char tail[] = "\n]}\n";

fs_status report_trace_json(const ir_graph *graph, const plan *p,
                            const plan_trace *predicted,
                            const plan_trace *measured, const char *file,
                            fs_err *err)
{
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

/* ---- as it comes ---- */

struct report_stream {
    writing w;
    fs_output file;
    int64_t *peak_bytes; /* [roles] so far */
    plan_live *told;     /* [roles] */
};

fs_status report_stream_open(const ir_graph *graph, const plan *p,
                             const char *file, fs_arena *arena, fs_err *err,
                             report_stream **out)
{
    report_stream *s = fs_new(arena, report_stream, 1);
    FS_TRY(fs_output_open(&s->file, file, err));
    s->w =
        (writing){.graph = graph, .plan = p, .arena = arena, .file = &s->file};
    s->w.names = fs_new(arena, const char **, p->n_roles);
    s->peak_bytes = fs_new(arena, int64_t, p->n_roles);
    s->told = fs_new(arena, plan_live, p->n_roles);
    fs_output_write(&s->file, head, sizeof head - 1);
    name_rows(&s->w, "predicted", 0);
    *out = s;
    return FS_OK;
}

static void take_live(report_stream *s, const plan_live *live)
{
    const int64_t r =
        plan_role_of_rank(s->w.plan, live->rank) - s->w.plan->roles;
    const int64_t bytes = sum_of(live);
    if (bytes <= s->peak_bytes[r] &&
        !has_changed(&s->told[r], live, s->peak_bytes[r]))
        return;
    s->peak_bytes[r] = bytes > s->peak_bytes[r] ? bytes : s->peak_bytes[r];
    s->told[r] = *live;
    put_live(&s->w, live);
}

void report_stream_take(void *stream, const plan_trace *piece, int64_t first_ns)
{
    report_stream *s = stream;
    s->w.origin_ns = first_ns;
    for (int32_t i = 0; i < piece->events.n; i++)
        put_event(&s->w, &piece->events.at[i], false);
    for (int32_t i = 0; i < piece->live.n; i++)
        take_live(s, &piece->live.at[i]);
}

fs_status report_stream_close(report_stream *s, bool keep, fs_err *err)
{
    fs_err gone = {0};
    fs_output_write(&s->file, tail, sizeof tail - 1);
    if (keep)
        return fs_output_close(&s->file, err);
    s->file.fault = ECANCELED;
    return fs_output_close(&s->file, &gone);
}
