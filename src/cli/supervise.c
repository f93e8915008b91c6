#include "config.h"
#include "cli/supervise.h"

#include "base/clock.h"
#include "cli/hosts.h"
#include "cli/outputs.h"
#include "cli/ranks.h"
#include "cli/replan.h"
#include "cli/watch.h"
#include "exec/failpoint.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MOST_DETAILED = 16 }; /* faults of which all ranks' records are told */

typedef struct supervisor {
    cli_watch watch;
    const cli_service *service; /* NULL: none */
    bool up;                    /* said to it, of these ranks */
    cli_ranks_watcher hooks;
    json_t *told, *faults;
    int64_t restarts;
    bool telling;     /* of a restart that has not begun to train yet */
    int64_t found_ns; /* when the last fault was */
    int64_t given;    /* of inference: steps whose outputs all are given */
} supervisor;

/* ---- what the waiting parent calls ---- */

/* Where the ranks went on, once they do. */
static void tell_restart(supervisor *s)
{
    const exec_record *r = exec_records_at(&s->watch.records, 0);
    json_t *last = json_array_get(s->faults, json_array_size(s->faults) - 1);
    if (!s->telling || r->state < EXEC_RUNNING ||
        (r->state == EXEC_ENDED && r->n_events == 0))
        return;
    s->telling = false;
    json_object_set_new(last, "resumed_from", json_integer(r->first_step));
    json_object_set_new(last, "resumed_s",
                        json_real(1e-9 * (double)(fs_now_ns() - s->found_ns)));
    const char *text = json_string_value(json_object_get(last, "fault_text"));
    if (r->first_step > 0)
        fs_warn("%s; resumed from step %lld", text, (long long)r->first_step);
    else
        fs_warn("%s; begun anew", text);
}

static bool look(void *ctx)
{
    supervisor *s = ctx;
    const bool well = cli_watch_look(&s->watch);
    tell_restart(s);
    if (s->service && !s->up && cli_watch_runs(&s->watch))
        s->up = s->service->up(s->service->ctx, &s->watch.records);
    return well;
}

/* How they are while they go on. */
static void dump(void *ctx)
{
    supervisor *s = ctx;
    cli_watch_dump(&s->watch);
    cli_watch_forget(&s->watch);
}

static bool ask(void *ctx, int number)
{
    const supervisor *s = ctx;
    return s->service && s->service->stop(s->service->ctx, number);
}

static void kill_all(void *ctx)
{
    const supervisor *s = ctx;
    cli_watch_kill(&s->watch);
}

static void ended(void *ctx, int raw)
{
    supervisor *s = ctx;
    tell_restart(s);
    if (raw != 0)
        cli_watch_judge(&s->watch, raw);
}

/* ---- faults ---- */

exec_fault cli_fault_kind(const cli *c)
{
    static const char *const of_disks[] = {
        "No space left", "Input/output error", "disk I/O error",
        "Disk quota exceeded", "File too large"};
    if (c->interrupted)
        return EXEC_INTERRUPTED;
    for (size_t i = 0; i < sizeof of_disks / sizeof of_disks[0]; i++)
        if (strstr(c->err.text, of_disks[i]))
            return EXEC_DISK;
    if (strstr(c->err.text, "out of memory"))
        return EXEC_MEMORY;
    return strstr(c->err.text, "mpirun") ? EXEC_START : EXEC_OTHER;
}

void cli_tell_fault(cli *c)
{
    if (json_object_get(c->result, "fault"))
        return;
    json_object_set_new(c->result, "fault",
                        json_string(exec_fault_word(cli_fault_kind(c))));
    json_object_set_new(c->result, "fault_text", json_string(c->err.text));
}

/* A rank said what it met: where the others were meanwhile explains nothing. */
static bool explains_itself(const cli_fault *f)
{
    return f->kind == EXEC_DATA || f->kind == EXEC_KERNEL ||
           f->kind == EXEC_DISK || (f->kind == EXEC_MEMORY && f->signal == 0);
}

/* The message of the command is the fault's; mpirun's own status says less. */
static void note_fault(supervisor *s, cli *c)
{
    cli_fault *f = &s->watch.fault;
    if (f->kind == EXEC_NO_FAULT || c->interrupted) {
        f->kind = cli_fault_kind(c);
        f->text = fs_strdup(c->arena, c->err.text);
        if (c->interrupted)
            f->rank = -1; /* whoever was seen to end first */
    } else {
        c->err = (fs_err){0};
        fs_fail(&c->err, FS_FAULT, "%s", f->text);
    }
    if (f->rank < 0 && (c->interrupted || s->watch.copies))
        f->step = cli_watch_step(&s->watch);
    json_t *row =
        json_pack("{s:s, s:s, s:I}", "fault", exec_fault_word(f->kind),
                  "fault_text", f->text, "step", (json_int_t)f->step);
    json_object_set_new(row, "rank",
                        f->rank < 0 ? json_null() : json_integer(f->rank));
    if (f->rank >= 0)
        cli_watch_json_host(&s->watch, f->rank, row);
    s->found_ns = f->found_ns > 0 ? f->found_ns : fs_now_ns();
    json_object_set_new(row, "found_s",
                        f->found_ns > 0 ? json_real(f->after_s) : json_null());
    fs_progress("%s", "");
    if (!c->interrupted && s->watch.copies) {
        if (!explains_itself(f))
            cli_watch_dump(&s->watch);
        cli_watch_json(&s->watch, row);
    }
    json_array_append_new(s->faults, row);
    /* A run of months may have thousands of faults. */
    const size_t n = json_array_size(s->faults);
    if (n > MOST_DETAILED)
        json_object_del(json_array_get(s->faults, n - 1 - MOST_DETAILED),
                        "ranks");
}

/* Trying again would end the same way. */
static bool may_help(exec_fault kind)
{
    return kind != EXEC_INTERRUPTED && kind != EXEC_DATA && kind != EXEC_PLAN &&
           kind != EXEC_DIVERGED;
}

/* With --replan each restart has a rank fewer: there is an end to them. */
static int64_t most_restarts(const supervisor *s, const cli *c)
{
    if (c->args.max_restarts >= 0 || !c->args.replan)
        return c->args.max_restarts;
    return s->restarts + s->watch.records.n - 1;
}

static bool may_restart(const supervisor *s, const cli *c)
{
    return s->told && s->restarts < most_restarts(s, c) &&
           may_help(s->watch.fault.kind);
}

static bool is_lost(const cli_fault *f)
{
    return f->rank >= 0 && (f->kind == EXEC_KILLED || f->kind == EXEC_CRASH ||
                            f->kind == EXEC_STOPPED || f->kind == EXEC_HANG);
}

/* mpirun's own end fails now and then where everything was over. */
static bool was_over(supervisor *s, cli *c)
{
    struct stat there;
    const char *result = getenv("FS_RESULT");
    if (c->interrupted || !cli_watch_all_ended(&s->watch) ||
        (!s->service && (!result || stat(result, &there) != 0)))
        return false;
    fs_warn("all ranks ended well, but not mpirun: %s", c->err.text);
    c->err = (fs_err){0};
    return true;
}

/* ---- the job ---- */

/* From the last checkpoint on, where there are any. */
static const char **words_again(const cli *c, const char *const *words)
{
    int n = 0;
    while (words[n])
        n++;
    const char **again = fs_new(c->arena, const char *, n + 2);
    memcpy(again, words, (size_t)n * sizeof *again);
    if (c->args.checkpoint && !c->args.resume)
        again[n++] = "--resume";
    return again;
}

static double input_bytes(const cli *c)
{
    struct stat there;
    return c->args.data && stat(c->args.data, &there) == 0
               ? (double)there.st_size
               : 0;
}

static void tell(supervisor *s)
{
    if (!s->told)
        return;
    const size_t n = json_array_size(s->faults);
    if (n > 0)
        json_object_set(s->told, "faults", s->faults);
    if (s->restarts > 0)
        json_object_set_new(s->told, "restarts", json_integer(s->restarts));
}

static void tell_last(supervisor *s, const cli *c)
{
    const cli_fault *f = &s->watch.fault;
    if (!s->told)
        return;
    json_object_set_new(s->told, "fault",
                        json_string(exec_fault_word(f->kind)));
    json_object_set_new(s->told, "fault_text", json_string(c->err.text));
}

static fs_status open_watch(supervisor *s, cli *c, const cli_plan *p)
{
    FS_TRY(cli_watch_open(c, p, input_bytes(c), &s->watch));
    if (s->service) {
        s->watch.idle = s->service->idle;
        s->watch.idle_ctx = s->service->ctx;
    }
    s->hooks = (cli_ranks_watcher){.ctx = s,
                                   .records = s->watch.records.path,
                                   .look = look,
                                   .tell = dump,
                                   .ask = ask,
                                   .kill = kill_all,
                                   .ended = ended};
    return FS_OK;
}

/* For the ranks that are left. */
static fs_status take_fewer(supervisor *s, cli *c, const cli_plan **p,
                            const char **words, cli_outcome *out)
{
    cli_plan next;
    cli_watch before = s->watch;
    FS_TRY(cli_replan(c, *p, &next, &words[1]));
    FS_TRY(open_watch(s, c, &next));
    /* What has fired in the job that this one goes on with. */
    exec_job_fire(exec_records_job(&s->watch.records),
                  exec_job_fired(exec_records_job(&before.records)));
    cli_watch_close(&before);
    if (out->ran)
        cli_plan_close(out->ran);
    out->ran = fs_memdup(c->arena, &next, sizeof next);
    s->watch.p = *p = out->ran;
    json_object_set_new(s->told, "replanned_ranks",
                        json_integer(next.cluster->n_devices));
    return FS_OK;
}

/* Ranks read the plan's file anew: it is to be this plan, and to go on from
 * there. Those of other hosts send their records. */
static void promise(const supervisor *s, const cli_plan *p)
{
    char text[32];
    fs_hex(p->plan->digest, text);
    setenv("FS_PLAN", text, 1);
    snprintf(text, sizeof text, "%lld", (long long)s->given);
    setenv("FS_FIRST_STEP", text, 1);
    if (!s->watch.relay)
        return;
    fs_hex(exec_job_fired(exec_records_job(&s->watch.records)), text);
    setenv("FS_FIRED", text, 1);
    setenv("FS_RELAY", exec_relay_begin(s->watch.relay), 1);
}

/* Nothing of a step of inference is needed by the next one: those whose outputs
 * every rank has given away are done. A rank that has not come so far again, or
 * whose record stands on another host, leaves it at that. */
static void note_given(supervisor *s, const cli *c, const cli_plan *p)
{
    int64_t least = INT64_MAX;
    for (int32_t r = 0; r < s->watch.records.n; r++) {
        const exec_record *of = exec_records_at(&s->watch.records, r);
        const int64_t done = of->away ? 0 : of->steps_done;
        least = done < least ? done : least;
    }
    if (p->model.origin.infer && !s->service && least > s->given)
        s->given = least;
    if (!cli_outputs_are_begun(c, p))
        s->given = 0;
}

/* The fault stands, and nobody goes on: why not is in c->err. */
static fs_status stay_lost(supervisor *s, cli *c, const fs_err *fault,
                           const char *what)
{
    const fs_err why = c->err;
    const json_t *last =
        json_array_get(s->faults, json_array_size(s->faults) - 1);
    c->err = (fs_err){0};
    const fs_status status = fs_fail(&c->err, FS_FAULT, "%.400s; %s: %.400s",
                                     fault->text, what, why.text);
    s->restarts--;
    if (s->told) {
        json_object_set(s->told, "fault", json_object_get(last, "fault"));
        json_object_set_new(s->told, "fault_text", json_string(c->err.text));
    }
    return status;
}

static fs_status run_job(supervisor *s, cli *c, const cli_plan *p,
                         const char *const *said, cli_outcome *out)
{
    const char **words = words_again(c, said);
    fs_err fault = {0};
    for (bool first = true;; first = false) {
        cli_watch_begin(&s->watch);
        promise(s, p);
        const fs_status status = cli_start_ranks(
            c, p->cluster->n_devices, first ? said : (const char *const *)words,
            &s->hooks);
        if (status == FS_INVALID && s->restarts > 0)
            return stay_lost(s, c, &fault, "not started again");
        if (status != FS_FAULT)
            return status;
        if (was_over(s, c))
            return FS_OK;
        note_fault(s, c);
        if (s->service)
            s->service->down(s->service->ctx, c->err.text);
        s->up = false;
        if (!may_restart(s, c)) {
            tell_last(s, c);
            return status;
        }
        fault = c->err;
        c->err = (fs_err){0};
        note_given(s, c, p);
        s->restarts++;
        s->telling = true;
        if (c->args.replan && is_lost(&s->watch.fault) &&
            take_fewer(s, c, &p, words, out) != FS_OK)
            return stay_lost(s, c, &fault, "--replan");
    }
}

fs_status cli_supervise(cli *c, const cli_plan *p, const char *const *words,
                        const cli_service *service, cli_outcome *out)
{
    supervisor s = {
        .service = service, .told = out->told, .faults = json_array()};
    fs_status status = open_watch(&s, c, p);
    if (status == FS_OK)
        status = run_job(&s, c, p, words, out);
    if (status == FS_OK && s.told)
        cli_watch_stragglers(&s.watch, s.told);
    tell(&s);
    json_decref(s.faults);
    if (service)
        service->over(service->ctx);
    cli_watch_close(&s.watch);
    return status;
}

/* Nobody watches ranks that a user's mpirun started, or starts them again. */
static fs_status check_supervised(cli *c)
{
    const bool again = c->args.max_restarts > 0;
    if (!cli_am_rank() || getenv("FS_RANKS_OF") || (!again && !c->args.replan))
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "%s: has no effect under your own mpirun, where nobody "
                   "starts ranks again: flowsearch %s starts its ranks by "
                   "itself",
                   again ? "--max-restarts" : "--replan", c->command);
}

/* Ranks of other hosts do not see at once what has fired. */
static void tell_unnamed(cli *c, const exec_failpoints *said)
{
    int32_t n = 0;
    for (int32_t i = 0; i < said->n; i++)
        n += said->list[i].rank < 0;
    if (n > 0 && !c->quiet && !cli_am_rank() && cli_on_several_hosts(c))
        fs_warn("FLOWSEARCH_FAILPOINT: what names no rank (@RANK) comes on a "
                "rank of this host, the first one, only");
}

/* Ranks that go on may be fewer. */
fs_status cli_check_faults(cli *c, int32_t ranks, int64_t steps)
{
    const exec_failpoint_run run = {ranks, steps, c->args.checkpoint != NULL};
    exec_failpoints said;
    FS_TRY(check_supervised(c));
    FS_TRY(
        exec_failpoints_read(getenv("FLOWSEARCH_FAILPOINT"), &c->err, &said));
    tell_unnamed(c, &said);
    return getenv("FS_RANKS_OF") ? FS_OK
                                 : exec_failpoints_check(&said, &run, &c->err);
}
