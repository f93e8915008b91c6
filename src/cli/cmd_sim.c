#include "config.h"
#include "cli/cli.h"
#include "cli/collectives.h"

#include "base/clock.h"
#include "cli/interval.h"
#include "cli/predict.h"
#include "cli/simulate.h"
#include "cost/framework.h"
#include "report/report.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    USUAL_STEPS = 4,
    /* With jitter each step is another: so many, fewer where so many firings
     * are played by then, which takes some seconds. */
    JITTER_STEPS = 32,
    LEAST_JITTER_STEPS = 6,
    JITTER_FIRINGS = 10000000,
    /* A trace of more is not kept, but written as it comes; about so many bytes
     * a firing, with the live bytes beside it (measured). */
    KEPT_FIRINGS = 1 << 20,
    TRACED_BYTES = 240,
    /* The last two of a handful are steady; a large plan plays some hundred
     * steps in a second, and each keeps its counters. */
    MOST_STEPS = 10000
};

/* Of rates there would be none. */
static fs_status check_lasting(cli *c, const plan_timing *timing,
                               double seconds)
{
    const double tick_s = 1e-12; /* of the simulator */
    if (seconds >= tick_s)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "%s: by its durations a step takes 0 s, which none does",
                   timing->source);
}

static double longest_of(const plan *p, const plan_timing *timing)
{
    double longest = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++)
            longest = fmax(longest, timing->demand[r][t].total_s);
    return longest;
}

static fs_status pick_timing(cli *c, const cli_plan *p,
                             const cost_framework *framework, plan_timing **out)
{
    const char *said = c->args.timing;
    if (framework) {
        *out = cost_timing_under(framework, p->cost, p->model.graph, p->plan,
                                 c->arena);
        return FS_OK;
    }
    if (!said || strcmp(said, "predicted") == 0) {
        *out = cost_timing(p->cost, p->model.graph, p->plan, c->arena);
        return FS_OK;
    }
    char *end;
    long long run = strtoll(said, &end, 10);
    if (end == said || *end || run < 1 || run == LLONG_MAX)
        return fs_fail(&c->err, FS_INVALID,
                       "--timing wants `predicted` or the "
                       "number of a run, not '%s'",
                       said);
    if (!c->db)
        return fs_fail(&c->err, FS_INVALID,
                       "--timing %s needs the database (--db none is set)",
                       said);
    FS_TRY(store_timing_read(c->db, run, p->model.graph, p->plan, c->arena,
                             &c->err, out));
    FS_TRY(check_lasting(c, *out, longest_of(p->plan, *out)));
    cost_timing_meet(p->cost, p->plan, *out);
    return FS_OK;
}

static json_t *stages_json(const sim_result *sim, const cli_memory *memory)
{
    json_t *list = json_array();
    for (int32_t s = 0; s < sim->n_stages; s++) {
        const sim_stage *stage = &sim->stages[s];
        json_array_append_new(
            list, json_pack("{s:i, s:f, s:f, s:f, s:f, s:I}", "stage", s,
                            "busy_s", stage->busy_s, "comm_s", stage->comm_s,
                            "exposed_comm_s", stage->exposed_comm_s, "idle_s",
                            stage->idle_s, "peak_bytes",
                            (json_int_t)cli_memory_of_stage(memory, s)));
    }
    return list;
}

/* Devices that do the same, as `peak_bytes` counts them: they may have several
 * stages. */
static json_t *roles_json(const cli_memory *memory)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < memory->n; i++) {
        const cli_holding *h = &memory->of[i];
        const plan_role *role = h->role;
        json_t *stages = json_array();
        for (int32_t k = 0; k < role->n_chunks; k++)
            json_array_append_new(stages, json_integer(role->stages[k]));
        json_t *row =
            json_pack("{s:o, s:i, s:i, s:I}", "stages", stages, "first_device",
                      role->first_rank, "devices", role->n_ranks, "peak_bytes",
                      (json_int_t)h->peak_bytes);
        json_object_set_new(row, "limit_bytes",
                            h->limit_bytes > 0 ? json_integer(h->limit_bytes)
                                               : json_null());
        json_array_append_new(list, row);
    }
    return list;
}

static void describe(cli *c, const cli_plan *p, const sim_result *sim,
                     const cli_memory *memory)
{
    cli_rates rates = cli_rates_of(p, sim->iteration_s);
    json_t *r = c->result;
    json_object_set_new(r, "iteration_s", json_real(sim->iteration_s));
    json_object_set_new(r, "samples_per_s", json_real(rates.samples_per_s));
    json_object_set_new(r, "tokens_per_s",
                        isnan(rates.tokens_per_s)
                            ? json_null()
                            : json_real(rates.tokens_per_s));
    json_object_set_new(r, "tflops_per_device",
                        json_real(rates.flops_per_device / 1e12));
    json_object_set_new(r, "mfu", json_real(rates.mfu));
    json_object_set_new(r, "bubble", json_real(sim->bubble));
    json_object_set_new(r, "exposed_comm_s", json_real(sim->exposed_comm_s));
    cli_memory_json(c, memory);
    json_object_set_new(r, "events", json_integer(sim->events));
    json_object_set_new(r, "wall_s", json_real(sim->wall_s));
    json_object_set_new(r, "stages", stages_json(sim, memory));
    json_object_set_new(r, "roles", roles_json(memory));
    char a[32], b[32], d[32], tokens[48] = "";
    cli_say_digest(c, p);
    if (!isnan(rates.tokens_per_s))
        snprintf(tokens, sizeof tokens, "%.4g tokens/s, ", rates.tokens_per_s);
    cli_say(c, "one iteration   %s\n", fs_human_seconds(a, sim->iteration_s));
    cli_say(c,
            "throughput      %.4g samples/s, %s%sFLOP/s per device (%.1f %% "
            "of its %s peak)\n",
            rates.samples_per_s, tokens,
            fs_human_count(b, rates.flops_per_device), 100 * rates.mfu,
            rates.narrow ? "16-bit" : "fp32");
    cli_say(c,
            "bubble          %.1f %% of the step: devices idle, in the mean; "
            "communication not hidden %s\n",
            100 * sim->bubble, fs_human_seconds(d, sim->exposed_comm_s));
}

/* "0", "0, 2" */
static const char *stages_text(cli *c, const plan_role *role)
{
    fs_text text = {.arena = c->arena};
    for (int32_t k = 0; k < role->n_chunks; k++)
        fs_text_add(&text, "%s%d", k ? ", " : "", role->stages[k]);
    return text.at;
}

/* Of a framework's memory what it has allocated, and its process. */
static void stage_table(cli *c, const sim_result *sim, const cli_memory *memory)
{
    const char *const header[] = {
        "stage",
        "ranks",
        "busy",
        "comm",
        "exposed",
        "idle",
        memory->by ? "allocated" : "peak live",
        memory->by ? "process" : "arena",
        "it has",
    };
    report_table t = {.arena = c->arena, .n_columns = 9, .header = header};
    for (int32_t i = 0; i < memory->n; i++) {
        const cli_holding *h = &memory->of[i];
        const sim_stage *s = &sim->stages[h->role->stages[0]];
        char text[32];
        report_table_cell(&t, "%s", stages_text(c, h->role));
        report_table_cell(&t, "%d", h->role->n_ranks);
        report_table_cell(&t, "%s", fs_human_seconds(text, s->busy_s));
        report_table_cell(&t, "%s", fs_human_seconds(text, s->comm_s));
        report_table_cell(&t, "%s", fs_human_seconds(text, s->exposed_comm_s));
        report_table_cell(&t, "%s", fs_human_seconds(text, s->idle_s));
        report_table_cell(&t, "%s",
                          fs_human_bytes(text, (double)h->live_bytes));
        report_table_cell(&t, "%s",
                          fs_human_bytes(text, (double)h->peak_bytes));
        report_table_cell(&t, "%s",
                          h->limit_bytes > 0
                              ? fs_human_bytes(text, (double)h->limit_bytes)
                              : "?");
    }
    if (!c->args.json)
        report_table_print(&t, stdout);
}

/* Of a step. */
static int64_t firings_of(const plan *p)
{
    int64_t firings = 1;
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t t = 0; t < p->roles[r].n_tasks; t++)
            firings += plan_phase_once(p->roles[r].tasks[t].phase)
                           ? 1
                           : p->micro_batches;
    return firings;
}

static int64_t jitter_steps(const plan *p)
{
    const int64_t steps = JITTER_FIRINGS / firings_of(p);
    return steps > JITTER_STEPS         ? JITTER_STEPS
           : steps < LEAST_JITTER_STEPS ? LEAST_JITTER_STEPS
                                        : steps;
}

static int64_t usual_steps(const cli *c, const plan *p)
{
    return c->args.jitter > 0 ? jitter_steps(p) : USUAL_STEPS;
}

static void tell_part(void *ctx, double part)
{
    const char *what = ctx;
    fs_progress("simulating: %.0f %%%s", 100 * part, what);
}

static fs_status options_of(cli *c, const cli_plan *p, plan_trace *trace,
                            sim_options *out)
{
    const cli_args *a = &c->args;
    *out = (sim_options){
        .steps = a->steps > 0 ? a->steps : usual_steps(c, p->plan),
        .trace = a->trace || a->critical ? trace : NULL,
        .traced_steps = a->critical ? SIM_CRITICAL_STEPS : 1,
        .live = a->trace != NULL,
        .progress = tell_part,
        .progress_ctx = (void *)"",
    };
    return cli_read_disturbed(c, p, out);
}

static fs_status write_trace(cli *c, const cli_plan *p, const plan_trace *trace)
{
    if (!c->args.trace)
        return FS_OK;
    if (!trace->take)
        FS_TRY(report_trace_json(p->model.graph, p->plan, trace, NULL,
                                 c->args.trace, &c->err));
    cli_say(c, "trace           %s (open it in ui.perfetto.dev)\n",
            c->args.trace);
    return FS_OK;
}

/* Seconds of a step where nothing is asked but that. */
static fs_status plain_seconds(cli *c, const cli_plan *p,
                               const cost_framework *framework,
                               sim_options options, double *out)
{
    plan_timing *timing;
    sim_result sim;
    options.trace = NULL;
    FS_TRY(pick_timing(c, p, framework, &timing));
    FS_TRY(sim_run(p->model.graph, p->plan, p->cluster, timing, &options,
                   c->arena, &c->err, &sim));
    *out = sim.iteration_s;
    return FS_OK;
}

/* Of the cluster as it is; changes: those that are asked for. */
static fs_status ask_what_if(cli *c, cli_plan *p,
                             const cost_framework *framework,
                             const sim_options *options, hw_changes *changes,
                             double *unchanged_s)
{
    cli_plan changed;
    if (!cli_has_what_if(c))
        return FS_OK;
    FS_TRY(cli_what_if(c, p, &changed, changes));
    FS_TRY(plain_seconds(c, p, framework, *options, unchanged_s));
    *p = changed;
    return FS_OK;
}

static fs_status ask_jitter(cli *c, const cli_plan *p,
                            const cost_framework *framework,
                            sim_options options, const sim_result *sim)
{
    double quiet_s;
    if (options.jitter <= 0)
        return FS_OK;
    options.jitter = 0;
    options.steps = USUAL_STEPS;
    FS_TRY(plain_seconds(c, p, framework, options, &quiet_s));
    cli_tell_jitter(c, sim, quiet_s);
    return FS_OK;
}

static void keep_figures(cli *c, const sim_result *sim, double unchanged_s)
{
    const bool what_if = cli_has_what_if(c);
    cli_figure(c, "sim_iteration_s", what_if ? unchanged_s : sim->iteration_s,
               "s");
    if (what_if)
        cli_figure(c, "what_if_iteration_s", sim->iteration_s, "s");
    cli_figure(c, what_if ? "what_if_bubble" : "bubble", sim->bubble, "");
}

/* Hands its trace to a file; the path asks for all of it. */
static fs_status run_streamed(cli *c, const cli_plan *p,
                              const plan_timing *timing, sim_options options,
                              sim_result *sim)
{
    char size[32];
    report_stream *stream;
    fs_human_bytes(size, (double)TRACED_BYTES * (double)firings_of(p->plan));
    options.progress_ctx =
        (void *)fs_printf(c->arena, ", then a trace of some %s", size);
    fs_warn("%s: a trace of some %s", c->args.trace, size);
    FS_TRY(report_stream_open(p->model.graph, p->plan, c->args.trace, c->arena,
                              &c->err, &stream));
    options.trace->take = report_stream_take;
    options.trace->take_ctx = stream;
    const fs_status status = sim_run(p->model.graph, p->plan, p->cluster,
                                     timing, &options, c->arena, &c->err, sim);
    const fs_status closed =
        report_stream_close(stream, status == FS_OK, &c->err);
    return status == FS_OK ? closed : status;
}

/* With the critical path, where it is asked for, which of very many
 * micro-batches few tell; a trace has it marked. */
static fs_status play(cli *c, const cli_plan *p, const plan_timing *timing,
                      const sim_options *options, sim_result *sim,
                      sim_critical *path)
{
    plan_trace *trace = options->trace;
    sim_options quiet = *options;
    quiet.trace = NULL;
    if (c->args.critical && !c->args.trace) {
        FS_TRY(sim_run(p->model.graph, p->plan, p->cluster, timing, &quiet,
                       c->arena, &c->err, sim));
        if (sim_critical_short(p->model.graph, p->plan, p->cluster, timing,
                               &quiet, sim, c->arena, path))
            return FS_OK;
    }
    if (c->args.trace && !c->args.critical &&
        firings_of(p->plan) > KEPT_FIRINGS)
        return run_streamed(c, p, timing, *options, sim);
    FS_TRY(sim_run(p->model.graph, p->plan, p->cluster, timing, options,
                   c->arena, &c->err, sim));
    if (c->args.critical)
        *path = sim_critical_of(p->plan, timing, trace, sim, c->arena);
    for (int32_t i = 0; i < path->n_links; i++)
        fs_push(trace->arena, &trace->path, path->links[i].event);
    return FS_OK;
}

static fs_status simulate(cli *c, const cli_plan *opened)
{
    cli_plan p = *opened;
    plan_report report = {0};
    plan_timing *timing;
    cost_framework framework;
    const cost_framework *f = c->args.framework ? &framework : NULL;
    hw_changes changes = {0};
    double unchanged_s = 0;
    FS_TRY(cli_plan_prove(c, &p, &report));
    plan_trace trace = {.arena = c->arena};
    sim_options options;
    sim_result sim;
    sim_critical path = {0};
    FS_TRY(options_of(c, &p, &trace, &options));
    FS_TRY(cli_open_framework(c, &p, &framework));
    if (f)
        p.plan = cost_framework_plan(f, p.plan, c->arena);
    FS_TRY(ask_what_if(c, &p, f, &options, &changes, &unchanged_s));
    FS_TRY(pick_timing(c, &p, f, &timing));
    FS_TRY(play(c, &p, timing, &options, &sim, &path));
    fs_progress("%s", "");
    FS_TRY(check_lasting(c, timing, sim.iteration_s));
    const bool predicted = strcmp(timing->source, "predicted") == 0;
    cli_interval interval;
    if (predicted)
        FS_TRY(cli_interval_of(c, &p, c->args.framework, &interval));
    const cli_memory memory = cli_memory_of(c, &p, f, &sim);
    describe(c, &p, &sim, &memory);
    if (predicted) {
        cli_tell_evidence(c, &p, timing);
        cli_interval_tell(c, &interval, sim.iteration_s);
    }
    if (f)
        cli_tell_framework(c, &p, &memory);
    else
        cli_tell_collectives(c, &p);
    if (cli_has_what_if(c))
        cli_tell_what_if(c, &changes, unchanged_s, sim.iteration_s);
    FS_TRY(ask_jitter(c, &p, f, options, &sim));
    cli_tell_cores(c, p.cluster);
    stage_table(c, &sim, &memory);
    if (c->args.critical)
        cli_tell_critical(c, &p, &path, &sim);
    cli_tell_goodput(c, &p, sim.iteration_s);
    keep_figures(c, &sim, unchanged_s);
    FS_TRY(write_trace(c, &p, &trace));
    return cli_memory_verdict(c, &memory);
}

fs_status cli_cmd_sim(cli *c)
{
    if (c->args.steps == 0 || c->args.steps > MOST_STEPS)
        return fs_fail(&c->err, FS_INVALID,
                       "--steps must be 1 to %d: the last of a few steps are "
                       "already steady",
                       MOST_STEPS);
    FS_TRY(cli_check_goodput(c));
    if (c->args.trace)
        FS_TRY(cli_check_writable(c, c->args.trace));
    return cli_with_plan(c, simulate);
}
