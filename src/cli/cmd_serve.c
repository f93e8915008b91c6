/* serve: answers requests over HTTP with a plan of inference. This process
 * listens and makes batches; the ranks that it starts compute them, as those of
 * `run` do, with a mailbox in the place of files. */
#include "config.h"
#include "cli/cli.h"

#include "base/clock.h"
#include "cli/checkpoints.h"
#include "cli/guard.h"
#include "cli/http.h"
#include "cli/job.h"
#include "cli/machine.h"
#include "cli/metrics.h"
#include "cli/ranks.h"
#include "cli/supervise.h"
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
    FS_TRY(cli_job_check_settings(c, p, 0));
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
    exec_options options;
    FS_TRY(cli_job_options(c, p, &options));
    FS_TRY(exec_world_agree(
        c->world, cli_mailbox_join(served, c->arena, &c->err, &box), &c->err));
    const exec_data data = cli_mailbox_data(&box);
    const exec_sink sink = cli_mailbox_sink(&box);
    options.steps = EXEC_ENDLESS;
    options.sink = &sink;
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

/* The words with which a rank repeats this command. */
static const char *const *rank_words(cli *c)
{
    const char **words = fs_new(c->arena, const char *, CLI_JOB_WORDS + 3);
    int n = cli_job_words(c, words);
    if (c->args.weights) {
        words[n++] = "--weights";
        words[n++] = c->args.weights;
    }
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
static bool up(void *ctx, const exec_records *records)
{
    server *s = ctx;
    if (!cli_batches_up(s->batches, records))
        return false;
    cli_say(s->c, "serving %s on http://%s (batches of %lld)\n", s->served.name,
            s->address, (long long)s->served.batch);
    fflush(stdout);
    if (s->c->args.json)
        fs_warn("serving on http://%s", s->address);
    return true;
}

static void down(void *ctx, const char *cause)
{
    server *s = ctx;
    cli_batches_down(s->batches, cause, false);
}

static void over(void *ctx)
{
    const server *s = ctx;
    cli_batches_over(s->batches);
}

/* The second one ends it at once, and so does the first of the others. */
static bool stop(void *ctx, int number)
{
    server *s = ctx;
    if (!cli_guard_asks(number) || s->stops)
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
    const cli_service service = {.ctx = s,
                                 .idle = idle,
                                 .up = up,
                                 .down = down,
                                 .over = over,
                                 .stop = stop};
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
    cli_tell_drawn(c, p);
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
    return cli_job_run(c, user_main, rank_main);
}
