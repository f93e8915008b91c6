/* run: checks everything, starts its ranks (or is one), and tells what
 * happened beside what was predicted. */
#include "config.h"
#include "cli/cli.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/checkpoints.h"
#include "cli/collectives.h"
#include "cli/data.h"
#include "cli/hosts.h"
#include "cli/job.h"
#include "cli/machine.h"
#include "cli/outcome.h"
#include "cli/outputs.h"
#include "cli/predict.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/residuals.h"
#include "cli/supervise.h"
#include "cli/tuning.h"
#include "cli/variants.h"
#include "exec/exec.h"
#include "exec/recorder.h"
#include "hw/samples.h"
#include "report/report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int64_t steps_of(const cli *c)
{
    return c->args.steps > 0 ? c->args.steps : 10;
}

/* Ranks keep a request, a loss and times of every step; the rank that tells,
 * their text and its values too. */
enum { RANK_STEP_BYTES = 48, TOLD_STEP_BYTES = 160 };

/* More would run for weeks, or end for want of memory before the first step. */
static fs_status check_steps(cli *c, const cli_plan *p)
{
    const double most_steps = 1e7, share = 0.5;
    double per_step = (double)RANK_STEP_BYTES * p->cluster->n_devices +
                      (double)TOLD_STEP_BYTES;
    double memory =
        (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double most = fmin(most_steps, floor(share * memory / per_step));
    if ((double)steps_of(c) <= most)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "--steps %lld: this run can take %.0f at most (each step's "
                   "loss and times are kept in memory)",
                   (long long)steps_of(c), most);
}

/* Is the whole last step asked for? Of one of very many micro-batches only its
 * ends are kept unasked. */
static bool wants_whole_trace(const cli *c)
{
    return c->args.trace || c->args.pictures || getenv("FS_WHOLE_TRACE");
}

/* Steps of inference that ranks before these did, as their supervisor says; the
 * last one is done again, for what is told of it. */
static int64_t first_step(const cli_plan *p, int64_t steps)
{
    const char *said = p->model.origin.infer ? getenv("FS_FIRST_STEP") : NULL;
    const int64_t done = said ? strtoll(said, NULL, 10) : 0;
    return done < steps ? done : steps - 1;
}

static fs_status train(cli *c, const cli_plan *p, exec_world *world,
                       cli_outcome *out)
{
    exec_data data;
    ir_train_options room;
    const ir_train_options *tuning;
    exec_saving saving;
    exec_options options;
    FS_TRY(cli_job_options(c, p, &options));
    FS_TRY(cli_saving(c, &p->model.origin, &saving));
    FS_TRY(cli_tuning(c, &p->model.origin, &room, &tuning));
    FS_TRY(cli_run_data_open(c, p, &data));
    int64_t steps = steps_of(c);
    const int64_t first = first_step(p, steps);
    out->ranks = exec_world_size(world);
    out->trace.arena = c->arena;
    cli_outcome_watch(p->model.graph, out);
    if (cli_outcome_wants_gradients())
        cli_outcome_fetch_gradients(p->model.graph, c->arena, out);
    cli_outputs *outputs = cli_outputs_open(c, p, first, steps);
    options.steps = steps;
    options.first_step = first;
    options.sink = cli_outputs_sink(outputs);
    options.saving = saving.dir ? &saving : NULL;
    options.tuning = tuning;
    options.warmup = steps > 4 ? 2 : 0;
    options.stop_early = out->n_fetch == 0;
    options.trace = &out->trace;
    options.trace_ends =
        wants_whole_trace(c) ? 0 : plan_trace_ends(p->plan, STORE_EVENTS);
    options.n_fetch = out->n_fetch;
    options.fetch = out->fetch;
    options.fetched = out->fetched;
    options.n_watch = out->n_watch;
    options.watch = out->watch;
    cli_progress progress;
    cli_progress_begin(c, p, steps, &progress);
    cli_progress_ask(&progress, &options);
    fs_status status =
        exec_run(world, p->model.graph, p->cluster, p->plan, &data, &options,
                 c->arena, &c->err, &out->result);
    if (status == FS_OK)
        status = cli_progress_end(&progress, &c->err);
    status = cli_outputs_close(outputs, status, &c->err);
    out->steps = out->result.steps;
    if (data.close)
        data.close(data.ctx);
    return status;
}

static json_t *real_list(const double *values, int64_t n)
{
    json_t *list = json_array();
    for (int64_t i = 0; i < n; i++) {
        json_t *value = json_real(values[i]);
        json_array_append_new(list, value ? value : json_null());
    }
    return list;
}

static json_t *integer_list(const int64_t *values, int32_t n)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(values[i]));
    return list;
}

static int64_t most(const int64_t *values, int32_t n)
{
    int64_t best = 0;
    for (int32_t i = 0; i < n; i++)
        best = values[i] > best ? values[i] : best;
    return best;
}

static int64_t planned_peak(const plan *p)
{
    int64_t best = 0;
    for (int32_t r = 0; r < p->n_roles; r++)
        best = p->roles[r].arena_bytes > best ? p->roles[r].arena_bytes : best;
    return best;
}

/* Of the fullest rank, by what processes of this network, or else of others,
 * have beside their arenas; 0: none was measured here. */
static double predicted_process(const cli_plan *p)
{
    const hw_group *group = &p->cluster->groups[0];
    double beside = 0;
    int32_t n = 0;
    for (int32_t i = 0; i < group->device.n_points; i++) {
        const hw_point *point = &group->device.points[i];
        if (strcmp(point->what, HW_PROCESS) != 0 ||
            point->form != p->model.graph->digest)
            continue;
        beside += point->work;
        n++;
    }
    beside = n ? beside / n : group->process_bytes;
    return beside > 0 ? beside + (double)planned_peak(p->plan) : 0;
}

/* Where it ran, and whose figures it was predicted with: `validate` and `sim`
 * put runs together by them. A rank of the user's own mpirun may be bound to a
 * part of the machine: it is this one only if it looks like it. */
static fs_status tell_machines(cli *c, const cli_plan *p)
{
    const cli_machine *here;
    const char *of = p->cluster->machine;
    bool own;
    FS_TRY(cli_machine_here(c, &here));
    FS_TRY(cli_machine_is_here(c, p->cluster, &own));
    if (own || !cli_am_rank())
        json_object_set_new(c->result, "machine",
                            json_string(here->fingerprint));
    json_object_set_new(c->result, "figures_of",
                        of ? json_string(of) : json_null());
    if (!cli_keeps(c) || (!own && cli_am_rank()))
        return FS_OK;
    store_machine(c->db, here->digest, here->host, here->facts, &c->late);
    if (of && !own)
        store_machine(c->db, strtoull(of, NULL, 16), p->cluster->host,
                      p->cluster->facts ? p->cluster->facts : "", &c->late);
    return FS_OK;
}

/* Those of steps before a checkpoint too. */
static json_t *all_losses(const cli_outcome *o)
{
    const exec_result *r = &o->result;
    json_t *losses = real_list(r->earlier, r->earlier ? r->first_step : 0);
    json_t *own = real_list(r->losses, o->steps);
    json_array_extend(losses, own);
    json_decref(own);
    return losses;
}

/* The first step (from 1) whose loss is no number, 0 when all are. Only a run
 * whose loss is known is looked at: without one there are none at all. */
static int64_t diverged_at(const cli_plan *p, const cli_outcome *o)
{
    for (int64_t k = 0; p->model.graph->loss >= 0 && k < o->steps; k++)
        if (!isfinite(o->result.losses[k]))
            return o->result.first_step + k + 1;
    return 0;
}

static void fill_json(cli *c, const cli_plan *p, const cli_outcome *o,
                      const sim_result *sim)
{
    const exec_result *r = &o->result;
    char digest[17];
    json_t *out = c->result;
    fs_hex(r->weights_digest, digest);
    if (p->model.origin.infer)
        cli_outputs_json(c, p, r, r->first_step + o->steps);
    else
        json_object_set_new(out, "losses", all_losses(o));
    json_object_set_new(out, "step_s",
                        json_pack("{s:f, s:f, s:f}", "median", r->step_median_s,
                                  "min", r->step_min_s, "max", r->step_max_s));
    json_object_set_new(
        out, "samples_per_s",
        json_real((double)p->model.graph->batch / r->step_median_s));
    json_object_set_new(out, "peak_bytes",
                        integer_list(r->peak_bytes, o->ranks));
    json_object_set_new(out, "touched_bytes",
                        integer_list(r->touched_bytes, o->ranks));
    json_object_set_new(out, "process_bytes",
                        integer_list(r->process_bytes, o->ranks));
    json_object_set_new(out, "workspace_bytes",
                        integer_list(r->workspace_bytes, o->ranks));
    json_object_set_new(out, "rss_growth_bytes",
                        integer_list(r->rss_growth_bytes, o->ranks));
    json_object_set_new(out, "ranks", json_integer(o->ranks));
    json_object_set_new(out, "predicted_step_s", json_real(sim->iteration_s));
    json_object_set_new(out, "predicted_process_bytes",
                        predicted_process(p) > 0
                            ? json_integer((json_int_t)predicted_process(p))
                            : json_null());
    if (diverged_at(p, o) == 0) /* nobody has weights then */
        json_object_set_new(out, "weights_digest", json_string(digest));
    cli_plan_digest(c, p);
}

static fs_status keep_rows(cli *c, const cli_plan *p, const cli_outcome *o,
                           fs_err *err)
{
    const exec_result *r = &o->result;
    if (!cli_keeps(c))
        return FS_OK;
    bool *skipped = fs_new(c->arena, bool, o->steps);
    for (int64_t k = 0; k < o->steps; k++)
        skipped[k] = cli_outcome_skipped(o, k);
    const store_steps steps = {o->steps, r->first_step, r->losses, r->step_s,
                               skipped};
    FS_TRY(store_losses(c->db, c->run, &steps, err));
    FS_TRY(store_trace(c->db, c->run, p->plan, &o->trace, err));
    return store_timing(c->db, c->run, p->plan, r->measured, err);
}

static void keep(cli *c, const cli_plan *p, const cli_outcome *o,
                 const sim_result *sim, const cli_residuals *residuals)
{
    const exec_result *r = &o->result;
    cli_figure(c, "step_median_s", r->step_median_s, "s");
    cli_figure(c, "step_min_s", r->step_min_s, "s");
    cli_figure(c, "step_max_s", r->step_max_s, "s");
    cli_figure(c, "predicted_step_s", sim->iteration_s, "s");
    if (!p->model.origin.infer) {
        cli_figure(c, "loss_first", r->losses[0], "");
        cli_figure(c, "loss_last", r->losses[o->steps - 1], "");
    }
    cli_figure(c, "replayed_step_s", residuals->replayed_s, "s");
    cli_figure(c, "comm_s", residuals->comm_s, "s");
    cli_figure(c, "exposed_comm_s", residuals->exposed_s, "s");
    cli_figure(c, "process_bytes", (double)most(r->process_bytes, o->ranks),
               "B");
    if (predicted_process(p) > 0)
        cli_figure(c, "predicted_process_bytes", predicted_process(p), "B");
    keep_rows(c, p, o, &c->late);
    cli_residuals_keep(c, residuals, &c->late);
}

/* predicted: 0 where nobody can. */
static void memory_row(report_table *t, const char *what, double predicted,
                       int64_t bytes)
{
    char text[32];
    report_table_cell(t, "%s", what);
    report_table_cell(t, "%s",
                      predicted > 0 ? fs_human_bytes(text, predicted) : "");
    report_table_cell(t, "%s", fs_human_bytes(text, (double)bytes));
    if (predicted > 0)
        report_table_cell(t, "%+.1f %%", 100 * (predicted / (double)bytes - 1));
    else
        report_table_cell(t, "%s", "");
}

static void loss_row(report_table *t, const cli_outcome *o, int64_t step)
{
    const exec_result *r = &o->result;
    report_table_cell(t, "loss, step %lld",
                      (long long)(r->first_step + step + 1));
    report_table_cell(t, "%s", "");
    report_table_cell(t, "%.4f", r->losses[step]);
    report_table_cell(t, "%s", "");
}

/* Beyond this fraction the figures of the machine are worth a doubt. */
#define DOUBTFUL 0.5

static void hint(cli *c, double predicted_s, double measured_s)
{
    if (fabs(predicted_s / measured_s - 1) <= DOUBTFUL)
        return;
    cli_say(c,
            "predicted and measured differ by more than %.0f %%: was this "
            "machine busy, now or when it was measured? `flowsearch "
            "calibrate` measures it again; then plan anew\n",
            100 * DOUBTFUL);
}

/* The table that a run ends with. */
static void final_table(cli *c, const cli_plan *p, const cli_outcome *o,
                        const sim_result *sim)
{
    static const char *const header[] = {"", "predicted", "measured", "error"};
    const exec_result *r = &o->result;
    report_table t = {.arena = c->arena, .n_columns = 4, .header = header};
    char a[32], b[32];
    report_table_cell(&t, "step time (median)");
    report_table_cell(&t, "%s", fs_human_seconds(a, sim->iteration_s));
    report_table_cell(&t, "%s", fs_human_seconds(b, r->step_median_s));
    report_table_cell(&t, "%+.1f %%",
                      100 * (sim->iteration_s / r->step_median_s - 1));
    int64_t planned = planned_peak(p->plan),
            got = most(r->peak_bytes, o->ranks);
    report_table_cell(&t, "peak memory per rank");
    report_table_cell(&t, "%s", fs_human_bytes(a, (double)planned));
    report_table_cell(&t, "%s", fs_human_bytes(b, (double)got));
    report_table_cell(&t, "%s", planned == got ? "exact" : "DIFFERS");
    memory_row(&t, "  of it touched", 0, most(r->touched_bytes, o->ranks));
    memory_row(&t, "  whole process", predicted_process(p),
               most(r->process_bytes, o->ranks));
    if (!p->model.origin.infer) {
        loss_row(&t, o, 0);
        if (o->steps > 1)
            loss_row(&t, o, o->steps - 1);
    }
    cli_outcome_tell_skipped(c, o, &t);
    report_table_cell(&t, "throughput");
    report_table_cell(&t, "%.4g samples/s",
                      (double)p->model.graph->batch / sim->iteration_s);
    report_table_cell(&t, "%.4g samples/s",
                      (double)p->model.graph->batch / r->step_median_s);
    report_table_cell(&t, "%s", "");
    cli_say(c, "\n%lld step%s on %d rank%s\n", (long long)o->steps,
            o->steps == 1 ? "" : "s", o->ranks, o->ranks == 1 ? "" : "s");
    if (!c->args.json)
        report_table_print(&t, stdout);
    cli_tell_checkpoints(c, r);
    cli_outputs_tell(c, p);
    cli_tell_cores(c, p->cluster);
    hint(c, sim->iteration_s, r->step_median_s);
    cli_say_digest(c, p);
    if (cli_keeps(c))
        cli_say(c, "stored as run %lld in %s\n", (long long)c->run,
                c->args.db ? c->args.db : "flowsearch.db");
}

/* What --pictures makes, in this order. */
static const char *const picture_names[] = {
    "plan.svg", "timeline-predicted.svg", "timeline-measured.svg",
    "trace.json"};
enum { N_PICTURES = sizeof picture_names / sizeof picture_names[0] };

const char *cli_picture_file(const cli *c, int i)
{
    if (i >= N_PICTURES)
        return NULL;
    return fs_printf(c->arena, "%s/%s", c->args.pictures, picture_names[i]);
}

static const char *timed(cli *c, const char *what, double seconds)
{
    char text[32];
    return fs_printf(c->arena, "%s %s", what, fs_human_seconds(text, seconds));
}

static fs_status draw_all(cli *c, const cli_plan *p, const cli_outcome *o,
                          const plan_trace *predicted, double predicted_s)
{
    const ir_graph *graph = p->model.graph;
    report_drawn drawn;
    const char *file = cli_picture_file(c, 0);
    FS_TRY(report_draw_plan(graph, p->plan, file, &c->err, &drawn));
    cli_say(c, "picture of the plan        %s\n", file);
    file = cli_picture_file(c, 1);
    FS_TRY(report_draw_timeline(
        p->plan, predicted, timed(c, "predicted: one step takes", predicted_s),
        file, &c->err, &drawn));
    cli_say(c, "predicted timeline         %s\n", file);
    file = cli_picture_file(c, 2);
    FS_TRY(report_draw_timeline(p->plan, &o->trace,
                                timed(c, "measured: the last step took",
                                      o->result.step_s[o->steps - 1]),
                                file, &c->err, &drawn));
    cli_say(c, "measured timeline          %s\n", file);
    file = cli_picture_file(c, 3);
    FS_TRY(
        report_trace_json(graph, p->plan, predicted, &o->trace, file, &c->err));
    cli_say(c, "both, for ui.perfetto.dev  %s\n", file);
    return FS_OK;
}

static fs_status draw_in(cli *c, const cli_plan *p, const cli_outcome *o,
                         const plan_trace *predicted, double predicted_s)
{
    const char *dir = c->args.pictures;
    bool made = mkdir(dir, 0777) == 0;
    if (!made && (errno != EEXIST || access(dir, W_OK) != 0))
        return fs_write_fail(dir, errno, &c->err);
    fs_status status = draw_all(c, p, o, predicted, predicted_s);
    if (status != FS_OK && made)
        rmdir(dir); /* unless something is in it */
    return status;
}

/* What ran is kept and told; there is no last step to draw. */
static fs_status tell_diverged(cli *c, int64_t step)
{
    const cli_args *a = &c->args;
    if ((a->trace || a->pictures) && !c->quiet)
        fs_warn("%s%s%s: they show the last step, and a training that "
                "diverged has none",
                a->trace ? "no trace" : "", a->trace && a->pictures ? ", " : "",
                a->pictures ? "no pictures" : "");
    json_object_set_new(c->result, "diverged_step", json_integer(step));
    json_object_set_new(c->result, "fault",
                        json_string(exec_fault_word(EXEC_DIVERGED)));
    return fs_fail(&c->err, FS_NO,
                   "the training diverged: the loss of step %lld of %lld is "
                   "not finite (a smaller --lr may help)",
                   (long long)step, (long long)steps_of(c));
}

static fs_status tell(cli *c, const cli_plan *p, const cli_outcome *o)
{
    plan_trace predicted = {.arena = c->arena};
    sim_result sim;
    cli_residuals residuals;
    FS_TRY(cli_predict(c, p, wants_whole_trace(c) ? &predicted : NULL, &sim));
    FS_TRY(cli_residuals_of(c, p, o->result.measured, &residuals));
    fill_json(c, p, o, &sim);
    cli_note_collectives(c, p);
    cli_note_variants(c, p, o->result.by_figures);
    FS_TRY(tell_machines(c, p));
    keep(c, p, o, &sim, &residuals);
    final_table(c, p, o, &sim);
    cli_residuals_tell(c, &residuals, o->result.step_median_s);
    int64_t bad = diverged_at(p, o);
    if (bad > 0)
        return tell_diverged(c, bad);
    if (c->args.trace)
        FS_TRY(report_trace_json(p->model.graph, p->plan, &predicted, &o->trace,
                                 c->args.trace, &c->err));
    return c->args.pictures ? draw_in(c, p, o, &predicted, sim.iteration_s)
                            : FS_OK;
}

/* A rank: with FS_RESULT set, another process waits for the outcome. */
static fs_status as_rank(cli *c, const cli_plan *p)
{
    const char *result = getenv("FS_RESULT");
    cli_outcome outcome = {0};
    FS_TRY(
        exec_world_agree(c->world, train(c, p, c->world, &outcome), &c->err));
    if (exec_world_rank(c->world) != 0)
        return FS_OK;
    if (result)
        return cli_outcome_write(&outcome, p, result, &c->err);
    return tell(c, p, &outcome);
}

static void add(const char **words, int *n, const char *flag, const char *value)
{
    words[(*n)++] = flag;
    words[(*n)++] = value;
}

/* The words with which a rank repeats this command. */
static const char *const *rank_words(cli *c)
{
    const cli_args *a = &c->args;
    const char **words = fs_new(c->arena, const char *,
                                CLI_JOB_WORDS + 9 + CLI_DATA_WORDS +
                                    CLI_TUNING_WORDS + CLI_CHECKPOINT_WORDS);
    int n = cli_job_words(c, words);
    add(words, &n, "--data", a->data);
    add(words, &n, "--steps",
        fs_printf(c->arena, "%lld", (long long)steps_of(c)));
    if (a->scalars)
        add(words, &n, "--scalars", a->scalars);
    if (a->outputs)
        add(words, &n, "--outputs", a->outputs);
    n += cli_run_data_words(c, words + n);
    n += cli_tuning_words(c, words + n);
    n += cli_checkpoint_words(c, words + n);
    words[n] = NULL;
    return words;
}

static fs_status start_and_wait(cli *c, const cli_plan *p)
{
    cli_outcome outcome = {.told = c->result};
    FS_TRY(cli_progress_show(c, p));
    if (wants_whole_trace(c))
        setenv("FS_WHOLE_TRACE", "1", 1);
    fs_status status = cli_outcome_of_ranks(c, p, rank_words(c), &outcome);
    fs_progress("%s", "");
    if (status == FS_OK)
        status = tell(c, outcome.ran ? outcome.ran : p, &outcome);
    cli_outputs_remove(c, p);
    if (outcome.ran)
        cli_plan_close(outcome.ran);
    return status;
}

/* What is to be written at the end can be written, destroys no input and no
 * other output. */
static fs_status check_files(cli *c, const cli_plan *p)
{
    const char *dir = c->args.pictures;
    struct stat there;
    FS_TRY(
        cli_check_outputs(c, p->model.origin.model, p->model.origin.cluster));
    if (c->args.trace)
        FS_TRY(cli_check_writable(c, c->args.trace));
    if (c->args.scalars)
        FS_TRY(cli_check_writable(c, c->args.scalars));
    FS_TRY(cli_progress_check(c));
    if (!dir)
        return FS_OK;
    if (stat(dir, &there) != 0)
        return cli_check_writable(c, dir); /* a folder that run makes */
    for (int i = 0; i < N_PICTURES; i++)
        FS_TRY(cli_check_writable(c, cli_picture_file(c, i)));
    return FS_OK;
}

/* Everything that can be wrong with the input is found before a rank starts. */
static fs_status check_all(cli *c, const cli_plan *p)
{
    if (c->args.steps == 0)
        return fs_fail(&c->err, FS_INVALID, "--steps must be at least 1");
    FS_TRY(cli_job_check_settings(c, p, steps_of(c)));
    FS_TRY(check_steps(c, p)); /* first: sizes are multiples of steps */
    FS_TRY(cli_outputs_check(c, p, steps_of(c)));
    if (!p->model.origin.infer)
        FS_TRY(cli_check_tuning(c, p->model.origin.optimizer, " (the plan's)"));
    FS_TRY(cli_job_prove(c, p));
    FS_TRY(cli_job_check_host(c, p));
    FS_TRY(cli_hosts_check(c, p->cluster->n_devices));
    FS_TRY(check_files(c, p)); /* while --weights is what was said */
    FS_TRY(cli_check_checkpoints(c, steps_of(c)));
    FS_TRY(cli_check_weights(c, p->model.graph));
    FS_TRY(cli_run_data_check(c, p));
    cli_tell_drawn(c, p);
    return FS_OK;
}

static fs_status begin(cli *c, const cli_plan *p)
{
    c->args.seed = (int64_t)cli_seed(c, &p->model.origin); /* what is stored */
    return cli_begin_plan(c, p);
}

/* In a job of the wrong size every rank says so, each for itself: whoever looks
 * at one rank's output alone is told too. */
static void speak(cli *c, const fs_err *own)
{
    c->mute = false;
    c->err = *own;
    fs_err_prefix(&c->err, "rank %d", exec_world_rank(c->world));
}

/* What else is wrong with the input, every rank finds: rank 0 says it. */
static fs_status rank_main(cli *c, cli_plan *p)
{
    fs_err own = {0};
    fs_status status = cli_plan_open(c, c->args.operands[0], p);
    if (status == FS_OK) {
        status = cli_job_check_size(c, p);
        own = c->err;
    }
    if (status == FS_OK)
        status = cli_job_check_promise(c, p);
    if (status == FS_OK)
        status = check_all(c, p);
    if (cli_hosts_asked())
        return cli_hosts_answer(c, p, status);
    if (status == FS_OK && !c->args.dry_run)
        status = begin(c, p);
    status = exec_world_agree(c->world, status, &c->err);
    if (own.status != FS_OK)
        speak(c, &own);
    FS_TRY(status);
    return c->args.dry_run ? FS_OK : as_rank(c, p);
}

static fs_status user_main(cli *c, cli_plan *p)
{
    FS_TRY(cli_plan_open(c, c->args.operands[0], p));
    FS_TRY(check_all(c, p));
    if (c->args.dry_run) {
        cli_tell_launch(c, p->cluster->n_devices, rank_words(c));
        if (cli_on_hosts(c))
            FS_TRY(cli_hosts_look(c, p, rank_words(c)));
        cli_say(c, "everything is in place for %lld step%s on %d rank%s\n",
                (long long)steps_of(c), steps_of(c) == 1 ? "" : "s",
                p->cluster->n_devices, p->cluster->n_devices == 1 ? "" : "s");
        return FS_OK;
    }
    FS_TRY(begin(c, p));
    return start_and_wait(c, p);
}

fs_status cli_cmd_run(cli *c)
{
    return cli_job_run(c, user_main, rank_main);
}
