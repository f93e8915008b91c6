#include "config.h"
#include "cli/outcome.h"

#include <math.h>
#include <stdlib.h>

static json_t *reals(const double *values, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) {
        json_t *value = json_real(values[i]); /* NULL when not finite */
        json_array_append_new(list, value ? value : json_null());
    }
    return list;
}

static json_t *whole(const int64_t *values, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(values[i]));
    return list;
}

static json_t *timing_json(const plan_timing *timing, const plan *p)
{
    json_t *list = json_array();
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++) {
            const plan_demand *d = &timing->demand[r][t];
            const double row[] = {d->compute_s, d->memory_s, d->network_s,
                                  d->latency_s, d->launch_s, d->total_s,
                                  d->on_core};
            json_array_append_new(list, reals(row, 7));
        }
    return list;
}

static json_t *trace_json(const plan_trace *trace)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < trace->events.n; i++) {
        const plan_event *e = &trace->events.at[i];
        const int64_t row[] = {e->rank,        e->stream, e->task,
                               e->micro_batch, e->step,   e->ready_ns,
                               e->start_ns,    e->end_ns};
        json_array_append_new(list, whole(row, 8));
    }
    return list;
}

fs_status cli_outcome_write(const cli_outcome *o, const plan *p,
                            const char *path, fs_err *err)
{
    const exec_result *r = &o->result;
    char digest[17];
    fs_hex(r->weights_digest, digest);
    json_t *root = json_object();
    json_object_set_new(root, "losses", reals(r->losses, o->steps));
    json_object_set_new(root, "step_s", reals(r->step_s, o->steps));
    const double summary[] = {r->step_median_s, r->step_min_s, r->step_max_s};
    json_object_set_new(root, "summary", reals(summary, 3));
    json_object_set_new(root, "peak_bytes", whole(r->peak_bytes, o->ranks));
    json_object_set_new(root, "touched_bytes",
                        whole(r->touched_bytes, o->ranks));
    json_object_set_new(root, "process_bytes",
                        whole(r->process_bytes, o->ranks));
    json_object_set_new(root, "weights_digest", json_string(digest));
    json_object_set_new(root, "timing", timing_json(r->measured, p));
    json_object_set_new(root, "trace", trace_json(&o->trace));
    fs_status status = fs_json_save(root, path, err);
    json_decref(root);
    return status;
}

static double real_at(const json_t *list, size_t i)
{
    const json_t *value = json_array_get(list, i);
    return json_is_null(value) ? (double)NAN : json_number_value(value);
}

static double *read_reals(json_t *root, const char *key, fs_arena *arena)
{
    json_t *list = json_object_get(root, key);
    size_t n = json_array_size(list);
    double *out = fs_new(arena, double, n);
    for (size_t i = 0; i < n; i++)
        out[i] = real_at(list, i);
    return out;
}

static void read_timing(json_t *list, const plan *p, plan_timing *timing)
{
    size_t i = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++, i++) {
            json_t *row = json_array_get(list, i);
            timing->demand[r][t] = (plan_demand){
                .compute_s = real_at(row, 0),
                .memory_s = real_at(row, 1),
                .network_s = real_at(row, 2),
                .latency_s = real_at(row, 3),
                .launch_s = real_at(row, 4),
                .total_s = real_at(row, 5),
                .on_core = real_at(row, 6) != 0,
            };
        }
}

static int64_t whole_at(json_t *row, size_t i)
{
    return json_integer_value(json_array_get(row, i));
}

static void read_trace(json_t *list, plan_trace *trace)
{
    size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        json_t *row = json_array_get(list, i);
        plan_event event = {
            .rank = (int32_t)whole_at(row, 0),
            .stream = (int32_t)whole_at(row, 1),
            .task = (int32_t)whole_at(row, 2),
            .micro_batch = (int32_t)whole_at(row, 3),
            .step = whole_at(row, 4),
            .ready_ns = whole_at(row, 5),
            .start_ns = whole_at(row, 6),
            .end_ns = whole_at(row, 7),
        };
        fs_push(trace->arena, &trace->events, event);
    }
}

static int64_t *read_whole(json_t *root, const char *key, fs_arena *arena)
{
    json_t *list = json_object_get(root, key);
    size_t n = json_array_size(list);
    int64_t *out = fs_new(arena, int64_t, n);
    for (size_t i = 0; i < n; i++)
        out[i] = whole_at(list, i);
    return out;
}

fs_status cli_outcome_read(const char *path, const plan *p, fs_arena *arena,
                           fs_err *err, cli_outcome *out)
{
    json_t *root;
    FS_TRY(fs_json_load(path, err, &root));
    exec_result *r = &out->result;
    double *summary = read_reals(root, "summary", arena);
    out->trace.arena = arena;
    out->steps = (int64_t)json_array_size(json_object_get(root, "losses"));
    out->ranks = (int32_t)json_array_size(json_object_get(root, "peak_bytes"));
    r->steps = out->steps;
    r->losses = read_reals(root, "losses", arena);
    r->step_s = read_reals(root, "step_s", arena);
    r->step_median_s = summary[0];
    r->step_min_s = summary[1];
    r->step_max_s = summary[2];
    r->peak_bytes = read_whole(root, "peak_bytes", arena);
    r->touched_bytes = read_whole(root, "touched_bytes", arena);
    r->process_bytes = read_whole(root, "process_bytes", arena);
    const char *digest =
        json_string_value(json_object_get(root, "weights_digest"));
    r->weights_digest = digest ? strtoull(digest, NULL, 16) : 0;
    r->measured = plan_timing_new(p, "measured", arena);
    read_timing(json_object_get(root, "timing"), p, r->measured);
    read_trace(json_object_get(root, "trace"), &out->trace);
    json_decref(root);
    return FS_OK;
}
