#include "config.h"
#include "cli/job.h"

#include "cli/machine.h"
#include "cli/ranks.h"
#include "cli/supervise.h"
#include "cost/choice.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- all of it ---- */

fs_status cli_job_run(cli *c, cli_job_fn *as_user, cli_job_fn *as_rank)
{
    cli_plan p = {0};
    if (cli_am_rank())
        FS_TRY(cli_job_join(c));
    FS_TRY(cli_check_one_plan(c));
    const fs_status status = c->world ? as_rank(c, &p) : as_user(c, &p);
    cli_plan_close(&p);
    if (status == FS_FAULT)
        cli_tell_fault(c);
    if (c->world)
        cli_job_leave(c, status);
    return status;
}

int cli_job_words(cli *c, const char **words)
{
    const cli_args *a = &c->args;
    const char *const said[][2] = {
        {"--db", "none"},
        {"--seed",
         a->seed >= 0 ? fs_printf(c->arena, "%lld", (long long)a->seed) : NULL},
        {"--kernels", a->kernels},
        {"--collectives", a->collectives}};
    int n = 0;
    words[n++] = c->command;
    words[n++] = a->operands[0];
    for (size_t i = 0; i < sizeof said / sizeof *said; i++)
        if (said[i][1]) {
            words[n++] = said[i][0];
            words[n++] = said[i][1];
        }
    return n;
}

fs_status cli_job_options(cli *c, const cli_plan *p, exec_options *out)
{
    const hw_device *figures;
    FS_TRY(exec_world_agree(c->world, cli_figures_of(c, p->cluster, &figures),
                            &c->err));
    plan_choice *choice = fs_new(c->arena, plan_choice, 1);
    *choice = cost_choice(p->cost, p->plan, c->arena);
    *out = (exec_options){.weights = c->args.weights,
                          .seed = cli_seed(c, &p->model.origin),
                          .kernels = c->args.kernels ? c->args.kernels : "auto",
                          .figures = figures,
                          .choice = choice};
    return cli_env_seconds("FS_STALL_S", 0, &c->err, &out->stall_s);
}

/* ---- before ---- */

static fs_status check_backend(cli *c)
{
    const char *backend = c->args.backend;
    char text[512];
    if (!backend || strcmp(backend, "cpu") == 0)
        return FS_OK;
    if (strcmp(backend, "cuda") != 0)
        return fs_fail(&c->err, FS_INVALID,
                       "--backend %s is unknown; there "
                       "are cpu and cuda",
                       backend);
    exec_cuda_devices(text, sizeof text);
    return fs_fail(&c->err, FS_INVALID,
                   "--backend cuda does not run plans "
                   "yet, only cpu does (CUDA here: %s)",
                   text);
}

fs_status cli_job_check_settings(cli *c, const cli_plan *p, int64_t steps)
{
    double unused;
    FS_TRY(check_backend(c));
    FS_TRY(cli_env_seconds("FS_STALL_S", 0, &c->err, &unused));
    FS_TRY(cli_check_faults(c, p->cluster->n_devices, steps));
    return cli_check_kernels(c);
}

/* Only a plan for processes of a host can run here. */
fs_status cli_job_check_host(cli *c, const cli_plan *p)
{
    for (int32_t g = 0; g < p->cluster->n_groups; g++)
        if (p->cluster->groups[g].cores_per_node < 1)
            return fs_fail(&c->err, FS_INVALID,
                           "the plan is for %s, a machine that was described, "
                           "not measured: plans run on ranks of this host "
                           "(plan with --cluster local --ranks %d)",
                           p->cluster->name, p->cluster->n_devices);
    if (getenv("FS_HOSTS")) /* who started the ranks has looked at the first */
        return FS_OK;
    char host[256] = "";
    bool here = false; /* under another name, as a container's restart gives */
    gethostname(host, sizeof host - 1);
    const bool renamed = p->cluster->host && strcmp(host, p->cluster->host);
    if (renamed)
        FS_TRY(cli_machine_is_here(c, p->cluster, &here));
    if (renamed && !here)
        return fs_fail(&c->err, FS_INVALID,
                       "the plan was made for host %s, this is %s: plan again "
                       "here with --cluster local",
                       p->cluster->host, host);
    /* It runs all the same. */
    return cli_machine_tell(c, c->args.operands[0], p->cluster);
}

/* The proof's own keys tell what it found: they are no figures of a run. What
 * deadlocks or overwrites its own memory is no input to train with. */
fs_status cli_job_prove(cli *c, const cli_plan *p)
{
    plan_report report = {0};
    fs_status status = cli_plan_prove(c, p, &report);
    if (status != FS_OK) {
        c->err = (fs_err){0}; /* findings were told, but as JSON */
        return fs_fail(&c->err, FS_INVALID, "%s: the plan %s: %d finding%s%s",
                       c->args.operands[0],
                       report.deadlocks ? "deadlocks" : "is not sound",
                       report.n, report.n == 1 ? "" : "s",
                       c->args.json ? " (flowsearch check tells all)" : "");
    }
    if (c->args.dry_run)
        return FS_OK;
    json_object_del(c->result, "peak_bytes");
    json_object_del(c->result, "ok");
    json_object_del(c->result, "live");
    json_object_del(c->result, "findings");
    return FS_OK;
}

/* ---- of a rank ---- */

fs_status cli_job_join(cli *c)
{
    signal(SIGPIPE, SIG_IGN); /* a peer that is gone is an error of MPI's */
    FS_TRY(exec_world_open(&c->err, &c->world));
    cli_mark_crashes(exec_world_recorder(c->world));
    c->quiet = c->mute || getenv("FS_RESULT");
    return FS_OK;
}

fs_status cli_job_check_size(cli *c, const cli_plan *p)
{
    int32_t ranks = exec_world_size(c->world);
    if (ranks != p->cluster->n_devices)
        return fs_fail(
            &c->err, FS_INVALID, "the plan is for %d ranks, but %d %s started",
            p->cluster->n_devices, ranks, ranks == 1 ? "was" : "were");
    return FS_OK;
}

fs_status cli_job_check_promise(cli *c, const cli_plan *p)
{
    const char *promised = getenv("FS_PLAN");
    char hex[17];
    fs_hex(p->plan->digest, hex);
    if (!promised || strcmp(promised, hex) == 0)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "%s: the plan has digest %s, but one with %s was checked "
                   "before the ranks were started",
                   c->args.operands[0], hex, promised);
}

fs_status cli_job_check_reads(cli *c, const char *name, const char *what,
                              uint64_t digest)
{
    const char *promised = getenv(name);
    char hex[17];
    fs_hex(digest, hex);
    if (!cli_am_rank()) {
        setenv(name, hex, 1);
        return FS_OK;
    }
    if (!promised || strcmp(promised, hex) == 0)
        return FS_OK;
    return fs_fail(&c->err, FS_INVALID,
                   "%s has changed since the run began: its ranks would go on "
                   "with something else",
                   what);
}

void cli_job_leave(cli *c, fs_status status)
{
    exec_recorder *recorder = exec_world_recorder(c->world);
    if (status == FS_FAULT) {
        exec_recorder_fail(recorder, cli_fault_kind(c), c->err.text);
        c->mute = c->mute || exec_recorder_is_read(recorder);
    }
    exec_recorder_state(recorder, EXEC_ENDED);
}
