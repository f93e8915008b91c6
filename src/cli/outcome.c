#include "config.h"
#include "cli/outcome.h"

#include "base/file.h"
#include "cli/guard.h"
#include "cli/supervise.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- tensors and the trace, as they are in memory ---- */

void cli_outcome_fetch_gradients(const ir_graph *graph, fs_arena *arena,
                                 cli_outcome *out)
{
    out->fetch = fs_new(arena, int32_t, graph->tensors.n);
    for (int32_t i = 0; i < graph->tensors.n; i++) {
        const ir_tensor *x = &graph->tensors.at[i];
        if (x->role != IR_PARAM)
            continue;
        int32_t g = ir_graph_find(graph, fs_printf(arena, "%s.grad", x->name));
        if (g >= 0)
            out->fetch[out->n_fetch++] = g;
    }
    out->fetched = fs_new(arena, void *, out->n_fetch);
}

bool cli_outcome_wants_gradients(void)
{
    return getenv("FS_GRADIENTS") != NULL;
}

static const char *beside_file(const char *path, fs_arena *arena)
{
    return fs_printf(arena, "%s.values", path);
}

static size_t fetched_bytes(const cli_outcome *o, const ir_graph *graph,
                            int32_t k)
{
    const ir_tensor *x = &graph->tensors.at[o->fetch[k]];
    return (size_t)(ir_shape_count(&x->shape) * ir_dtype_bytes(x->dtype));
}

/* What is much: as text a step of a million firings would take a minute. */
static fs_status write_beside(const cli_outcome *o, const ir_graph *graph,
                              const char *path, fs_err *err)
{
    const int64_t n = o->trace.events.n;
    fs_output out;
    FS_TRY(fs_output_open(&out, path, err));
    fs_output_write(&out, &n, sizeof n);
    fs_output_write(&out, o->trace.events.at,
                    sizeof *o->trace.events.at * (size_t)n);
    for (int32_t k = 0; k < o->n_fetch; k++)
        fs_output_write(&out, o->fetched[k], fetched_bytes(o, graph, k));
    return fs_output_close(&out, err);
}

static bool read_trace(FILE *file, fs_arena *arena, plan_trace *trace)
{
    int64_t n;
    if (fread(&n, 1, sizeof n, file) != sizeof n || n < 0 || n > INT32_MAX)
        return false;
    trace->arena = arena;
    trace->events.at = fs_new(arena, plan_event, n);
    trace->events.n = trace->events.room = (int32_t)n;
    return fread(trace->events.at, sizeof *trace->events.at, (size_t)n, file) ==
           (size_t)n;
}

static fs_status read_beside(const char *path, const ir_graph *graph,
                             fs_arena *arena, fs_err *err, cli_outcome *out)
{
    FILE *file = fopen(path, "rb");
    bool whole = file && read_trace(file, arena, &out->trace);
    for (int32_t k = 0; whole && k < out->n_fetch; k++) {
        size_t bytes = fetched_bytes(out, graph, k);
        out->fetched[k] = fs_alloc(arena, 1, bytes);
        whole = fread(out->fetched[k], 1, bytes, file) == bytes;
    }
    if (file)
        fclose(file);
    return whole ? FS_OK
                 : fs_fail(err, FS_FAULT, "%s: the ranks left it incomplete",
                           path);
}

/* ---- the rest, as text ---- */

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

fs_status cli_outcome_write(const cli_outcome *o, const cli_plan *p,
                            const char *path, fs_err *err)
{
    const exec_result *r = &o->result;
    fs_arena *arena = o->trace.arena;
    FS_TRY(write_beside(o, p->model.graph, beside_file(path, arena), err));
    char digest[17];
    fs_hex(r->weights_digest, digest);
    json_t *root = json_object();
    json_object_set_new(root, "losses", reals(r->losses, o->steps));
    json_object_set_new(root, "first_step", json_integer(r->first_step));
    json_object_set_new(root, "by_figures", json_boolean(r->by_figures));
    if (r->earlier)
        json_object_set_new(root, "earlier", reals(r->earlier, r->first_step));
    json_object_set_new(root, "step_s", reals(r->step_s, o->steps));
    json_t *watched = json_array();
    for (int32_t i = 0; i < o->n_watch; i++)
        json_array_append_new(watched, reals(r->watched[i], o->steps));
    json_object_set_new(root, "watched", watched);
    const double summary[] = {r->step_median_s, r->step_min_s, r->step_max_s};
    json_object_set_new(root, "summary", reals(summary, 3));
    json_object_set_new(root, "peak_bytes", whole(r->peak_bytes, o->ranks));
    json_object_set_new(root, "touched_bytes",
                        whole(r->touched_bytes, o->ranks));
    json_object_set_new(root, "process_bytes",
                        whole(r->process_bytes, o->ranks));
    json_object_set_new(root, "workspace_bytes",
                        whole(r->workspace_bytes, o->ranks));
    json_object_set_new(root, "rss_growth_bytes",
                        whole(r->rss_growth_bytes, o->ranks));
    json_object_set_new(root, "weights_digest", json_string(digest));
    fs_hex(r->outputs_digest, digest);
    json_object_set_new(root, "outputs_digest", json_string(digest));
    json_object_set_new(root, "timing", timing_json(r->measured, p->plan));
    fs_status status = fs_json_save(root, path, err);
    json_decref(root);
    return status;
}

static double real_at(const json_t *list, size_t i)
{
    const json_t *value = json_array_get(list, i);
    return json_is_null(value) ? (double)NAN : json_number_value(value);
}

static double *real_list(const json_t *list, fs_arena *arena)
{
    size_t n = json_array_size(list);
    double *out = fs_new(arena, double, n);
    for (size_t i = 0; i < n; i++)
        out[i] = real_at(list, i);
    return out;
}

static double *read_reals(json_t *root, const char *key, fs_arena *arena)
{
    return real_list(json_object_get(root, key), arena);
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

static int64_t *read_whole(json_t *root, const char *key, fs_arena *arena)
{
    json_t *list = json_object_get(root, key);
    size_t n = json_array_size(list);
    int64_t *out = fs_new(arena, int64_t, n);
    for (size_t i = 0; i < n; i++)
        out[i] = json_integer_value(json_array_get(list, i));
    return out;
}

static uint64_t read_digest(const json_t *root, const char *key)
{
    const char *digest = json_string_value(json_object_get(root, key));
    return digest ? strtoull(digest, NULL, 16) : 0;
}

static fs_status read_outcome(const char *path, const plan *p, fs_arena *arena,
                              fs_err *err, cli_outcome *out)
{
    json_t *root;
    FS_TRY(fs_json_load(path, err, &root));
    exec_result *r = &out->result;
    double *summary = read_reals(root, "summary", arena);
    out->steps = (int64_t)json_array_size(json_object_get(root, "losses"));
    out->ranks = (int32_t)json_array_size(json_object_get(root, "peak_bytes"));
    r->steps = out->steps;
    r->losses = read_reals(root, "losses", arena);
    r->first_step = json_integer_value(json_object_get(root, "first_step"));
    if (json_object_get(root, "earlier"))
        r->earlier = read_reals(root, "earlier", arena);
    r->step_s = read_reals(root, "step_s", arena);
    json_t *watched = json_object_get(root, "watched");
    out->n_watch = (int32_t)json_array_size(watched);
    r->watched = fs_new(arena, double *, out->n_watch + 1);
    for (int32_t i = 0; i < out->n_watch; i++)
        r->watched[i] = real_list(json_array_get(watched, (size_t)i), arena);
    r->step_median_s = summary[0];
    r->step_min_s = summary[1];
    r->step_max_s = summary[2];
    r->peak_bytes = read_whole(root, "peak_bytes", arena);
    r->touched_bytes = read_whole(root, "touched_bytes", arena);
    r->process_bytes = read_whole(root, "process_bytes", arena);
    r->workspace_bytes = read_whole(root, "workspace_bytes", arena);
    r->rss_growth_bytes = read_whole(root, "rss_growth_bytes", arena);
    r->weights_digest = read_digest(root, "weights_digest");
    r->outputs_digest = read_digest(root, "outputs_digest");
    r->by_figures = json_is_true(json_object_get(root, "by_figures"));
    r->measured = plan_timing_new(p, "measured", arena);
    read_timing(json_object_get(root, "timing"), p, r->measured);
    json_decref(root);
    return FS_OK;
}

fs_status cli_outcome_of_ranks(cli *c, const cli_plan *p,
                               const char *const *words, cli_outcome *out)
{
    const char *file;
    FS_TRY(cli_scratch_file(c, "outcome.json", &file));
    setenv("FS_RESULT", file, 1);
    if (out->n_fetch > 0)
        setenv("FS_GRADIENTS", "1", 1);
    fs_status status = cli_supervise(c, p, words, NULL, out);
    p = out->ran ? out->ran : p;
    unsetenv("FS_RESULT");
    unsetenv("FS_GRADIENTS");
    if (status == FS_OK)
        status = read_outcome(file, p->plan, c->arena, &c->err, out);
    if (status == FS_OK)
        status = read_beside(beside_file(file, c->arena), p->model.graph,
                             c->arena, &c->err, out);
    return status;
}
