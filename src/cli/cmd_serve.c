/* serve: answers requests over HTTP with a plan of inference. This process
 * listens and makes batches; the ranks that it starts compute them, as those of
 * `run` do, with a mailbox in the place of files. */
#include "config.h"
#include "cli/cli.h"

#include "base/clock.h"
#include "cli/checkpoints.h"
#include "cli/http.h"
#include "cli/job.h"
#include "cli/machine.h"
#include "cli/metrics.h"
#include "cli/ranks.h"
#include "cli/supervise.h"
#include "cost/choice.h"
#include "exec/recorder.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct server {
    cli *c;
    const cli_plan *p;
    cli_served served;
    const char *address;
    cli_mailbox box;
    cli_batches *batches;
    cli_http *http;
    bool stops;
} server;

/* ---- before ---- */

/* Unless it was said: a few batches, or some tens of requests. */
static int64_t most_waiting(const cli *c, const cli_served *served)
{
    enum { BATCHES = 8, LEAST = 64 };
    const int64_t usual = BATCHES * served->batch;
    return c->args.queue >= 0 ? c->args.queue : usual > LEAST ? usual : LEAST;
}

static double linger_s(const cli *c)
{
    const double usual_ms = 1;
    return 1e-3 * (isnan(c->args.linger_ms) ? usual_ms : c->args.linger_ms);
}

static fs_status check_options(cli *c, const cli_served *served)
{
    const double most_s = 60;
    if (most_waiting(c, served) < served->batch)
        return fs_fail(&c->err, FS_INVALID,
                       "--queue %lld: a request may have %lld samples, the "
                       "batch of the plan, and they wait together",
                       (long long)c->args.queue, (long long)served->batch);
    if (linger_s(c) > most_s)
        return fs_fail(&c->err, FS_INVALID, "--linger-ms %g: a minute at most",
                       c->args.linger_ms);
    return FS_OK;
}

static fs_status check_all(cli *c, const cli_plan *p, cli_served *served)
{
    FS_TRY(cli_job_check_settings(c));
    FS_TRY(cli_served_of(c, p, served));
    FS_TRY(check_options(c, served));
    FS_TRY(cli_job_prove(c, p));
    FS_TRY(cli_job_check_host(c, p));
    return cli_check_weights(c, p->model.graph);
}

/* ---- a rank ---- */

static fs_status compute(cli *c, const cli_plan *p, const cli_served *served)
{
    exec_result result;
    cli_mailbox box;
    const hw_device *figures;
    FS_TRY(exec_world_agree(c->world, cli_figures_of(c, p->cluster, &figures),
                            &c->err));
    FS_TRY(exec_world_agree(
        c->world, cli_mailbox_join(served, c->arena, &c->err, &box), &c->err));
    const exec_data data = cli_mailbox_data(&box);
    const exec_sink sink = cli_mailbox_sink(&box);
    const plan_choice choice = cost_choice(p->cost, p->plan, c->arena);
    const exec_options options = {
        .steps = EXEC_ENDLESS,
        .sink = &sink,
        .weights = c->args.weights,
        .seed = cli_seed(c, &p->model.origin),
        .kernels = c->args.kernels ? c->args.kernels : "auto",
        .figures = figures,
        .choice = &choice,
        .stall_s = cli_job_stall_s(),
    };
    const fs_status status =
        exec_run(c->world, p->model.graph, p->cluster, p->plan, &data, &options,
                 c->arena, &c->err, &result);
    cli_mailbox_close(&box);
    return status;
}

static fs_status rank_main(cli *c, cli_plan *p)
{
    cli_served served;
    fs_status status = cli_plan_open(c, c->args.operands[0], p);
    if (status == FS_OK)
        status = cli_job_check_size(c, p);
    if (status == FS_OK)
        status = cli_job_check_promise(c, p);
    if (status == FS_OK)
        status = check_all(c, p, &served);
    FS_TRY(exec_world_agree(c->world, status, &c->err));
    return exec_world_agree(c->world, compute(c, p, &served), &c->err);
}

static void add(const char **words, int *n, const char *flag, const char *value)
{
    if (!value)
        return;
    words[(*n)++] = flag;
    words[(*n)++] = value;
}

/* The words with which a rank repeats this command. */
static const char *const *rank_words(cli *c)
{
    const cli_args *a = &c->args;
    const char **words = fs_new(c->arena, const char *, 16);
    int n = 0;
    words[n++] = "serve";
    words[n++] = a->operands[0];
    add(words, &n, "--db", "none");
    add(words, &n, "--seed",
        a->seed >= 0 ? fs_printf(c->arena, "%lld", (long long)a->seed) : NULL);
    add(words, &n, "--kernels", a->kernels);
    add(words, &n, "--collectives", a->collectives);
    add(words, &n, "--weights", a->weights);
    words[n] = NULL;
    return words;
}

/* ---- what the ranks' supervisor calls ---- */

static bool idle(void *ctx)
{
    const server *s = ctx;
    return cli_batches_idle(s->batches);
}

/* Also where one JSON object is all that goes to stdout: the port may have been
 * chosen here. */
static void up(void *ctx, const exec_records *records)
{
    server *s = ctx;
    cli_batches_up(s->batches, records);
    cli_say(s->c, "serving %s on http://%s (batches of %lld)\n", s->served.name,
            s->address, (long long)s->served.batch);
    fflush(stdout);
    if (s->c->args.json)
        fs_warn("serving on http://%s", s->address);
}

static void down(void *ctx, const char *cause)
{
    server *s = ctx;
    cli_batches_down(s->batches, cause, false);
}

/* The second one ends it at once, and so does a terminal that is gone. */
static bool stop(void *ctx, int number)
{
    server *s = ctx;
    if (number == SIGHUP || s->stops)
        return false;
    s->stops = true;
    cli_batches_end(s->batches);
    return true;
}

/* ---- this process ---- */

static fs_status open_server(server *s, int socket)
{
    cli *c = s->c;
    const cli_batches_options options = {.most_waiting =
                                             most_waiting(c, &s->served),
                                         .linger_s = linger_s(c),
                                         .done = cli_http_done};
    fs_status status =
        cli_mailbox_create(&s->served, c->arena, &c->err, &s->box);
    if (status == FS_OK)
        status = cli_batches_open(&s->box, &options, &c->err, &s->batches);
    if (status != FS_OK) {
        close(socket);
        return status;
    }
    FS_TRY(cli_http_open(&s->served, socket, &c->err, &s->http));
    cli_http_serve(s->http, s->batches);
    return FS_OK;
}

static void close_server(server *s)
{
    if (s->http)
        cli_http_close(s->http);
    if (s->batches)
        cli_batches_close(s->batches);
    cli_mailbox_close(&s->box);
}

static fs_status run_server(server *s)
{
    cli *c = s->c;
    cli_outcome outcome = {.told = c->result};
    const cli_service service = {
        .ctx = s, .idle = idle, .up = up, .down = down, .stop = stop};
    setenv("FS_MAILBOX", s->box.path, 1);
    const fs_status status =
        cli_supervise(c, s->p, rank_words(c), &service, &outcome);
    unsetenv("FS_MAILBOX");
    if (status != FS_OK)
        cli_batches_down(s->batches, c->err.text, true);
    return status;
}

static void tell(const server *s)
{
    cli *c = s->c;
    cli_batches_counts *counts = fs_new(c->arena, cli_batches_counts, 1);
    cli_batches_count(s->batches, counts);
    json_object_set_new(c->result, "address", json_string(s->address));
    json_object_set_new(c->result, "ranks", json_integer(s->served.ranks));
    json_object_set_new(c->result, "batch",
                        json_integer((json_int_t)s->served.batch));
    cli_plan_digest(c, s->p);
    cli_metrics_tell(c, &s->served, counts);
}

static fs_status user_main(cli *c, cli_plan *p)
{
    server s = {.c = c, .p = p, .box = {.file = -1}};
    int socket = -1;
    FS_TRY(cli_plan_open(c, c->args.operands[0], p));
    FS_TRY(check_all(c, p, &s.served));
    FS_TRY(cli_http_listen(c, &socket, &s.address));
    fs_status status = cli_begin_plan(c, p);
    if (status != FS_OK) {
        close(socket);
        return status;
    }
    status = open_server(&s, socket);
    if (status == FS_OK) {
        status = run_server(&s);
        tell(&s);
    }
    close_server(&s);
    return status;
}

fs_status cli_cmd_serve(cli *c)
{
    const bool asked = getenv("FS_MAILBOX") != NULL;
    if (cli_am_rank() && !asked)
        return fs_fail(&c->err, FS_INVALID,
                       "serve starts its own ranks, on this host: it does not "
                       "run under mpirun");
    if (cli_am_rank())
        FS_TRY(cli_job_join(c));
    if (c->args.n_operands != 1)
        return fs_fail(&c->err, FS_INVALID, "serve wants one PLAN");
    cli_plan p = {0};
    fs_status status = c->world ? rank_main(c, &p) : user_main(c, &p);
    cli_plan_close(&p);
    if (status == FS_FAULT)
        cli_tell_fault(c);
    if (c->world)
        cli_job_leave(c, status);
    return status;
}
