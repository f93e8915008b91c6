/* Traces for Perfetto and chrome://tracing: a process per rank, a thread per
 * stream, times in microseconds from the first event. */
#include "config.h"
#include "report/report.h"

#include "base/json.h"

static const char *const stream_names[] = {"compute", "collectives", "load",
                                           "send", "receive"};

static json_t *meta(const char *what, int64_t pid, int64_t tid,
                    const char *name)
{
    return json_pack("{s:s, s:s, s:I, s:I, s:{s:s}}", "ph", "M", "name", what,
                     "pid", (json_int_t)pid, "tid", (json_int_t)tid, "args",
                     "name", name);
}

/* Predicted and measured ranks stand apart: pids 0.. and 100000.. */
static void name_rows(const plan *p, const char *source, int64_t base,
                      fs_arena *arena, json_t *list)
{
    for (int32_t r = 0; r < p->n_roles; r++) {
        const plan_role *role = &p->roles[r];
        for (int32_t i = 0; i < role->n_ranks; i++) {
            int64_t pid = base + role->first_rank + i;
            const char *name = fs_printf(arena, "%s rank %d (stage %d)", source,
                                         role->first_rank + i, role->stage);
            json_array_append_new(list, meta("process_name", pid, 0, name));
            for (int32_t s = 0; s < role->n_streams; s++)
                json_array_append_new(
                    list, meta("thread_name", pid, s,
                               stream_names[role->streams[s].kind]));
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

static void add_events(const ir_graph *graph, const plan *p,
                       const plan_trace *trace, int64_t base, fs_arena *arena,
                       json_t *list)
{
    int64_t origin = first_ns(trace);
    for (int32_t i = 0; i < trace->events.n; i++) {
        const plan_event *e = &trace->events.at[i];
        const plan_role *role = plan_role_of_rank(p, e->rank);
        const plan_task *task = &role->tasks[e->task];
        json_array_append_new(
            list,
            json_pack(
                "{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:{s:i, s:I, s:f}}", "ph",
                "X", "name", plan_task_name(graph, task, arena), "cat",
                plan_phase_name(task->phase), "pid",
                (json_int_t)(base + e->rank), "tid", (json_int_t)e->stream,
                "ts", (double)(e->start_ns - origin) / 1e3, "dur",
                (double)(e->end_ns - e->start_ns) / 1e3, "args", "micro_batch",
                e->micro_batch, "step", (json_int_t)e->step, "waited_us",
                (double)(e->start_ns - e->ready_ns) / 1e3));
    }
}

fs_status report_trace_json(const ir_graph *graph, const plan *p,
                            const plan_trace *predicted,
                            const plan_trace *measured, const char *file,
                            fs_err *err)
{
    fs_arena *arena = fs_arena_create();
    json_t *root = json_object(), *list = json_array();
    json_object_set_new(root, "displayTimeUnit", json_string("ms"));
    json_object_set_new(root, "traceEvents", list);
    if (predicted) {
        name_rows(p, "predicted", 0, arena, list);
        add_events(graph, p, predicted, 0, arena, list);
    }
    if (measured) {
        name_rows(p, "measured", 100000, arena, list);
        add_events(graph, p, measured, 100000, arena, list);
    }
    fs_status status = fs_json_save(root, file, err);
    json_decref(root);
    fs_arena_destroy(arena);
    return status;
}
