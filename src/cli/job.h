/* What commands share that run a plan on ranks: what is checked before they
 * start, and how a rank begins and ends. */
#ifndef FS_CLI_JOB_H
#define FS_CLI_JOB_H

#include "cli/cli.h"
#include "exec/exec.h"

/* Opens the one PLAN (`p` is empty before) and does all else: in the process
 * that a user started, or in a rank. */
typedef fs_status cli_job_fn(cli *c, cli_plan *p);
fs_status cli_job_run(cli *c, cli_job_fn *as_user, cli_job_fn *as_rank);
/* The words with which any rank repeats its command; the caller adds more. */
enum { CLI_JOB_WORDS = 10 };
int cli_job_words(cli *c, const char **words);
/* What is said of how any plan runs; what it points to is in the arena. Every
 * rank calls it. */
fs_status cli_job_options(cli *c, const cli_plan *p, exec_options *out);

/* --backend, failpoints, --kernels, FS_STALL_S. steps: 0 of a job that goes on
 * until it is told to end. */
fs_status cli_job_check_settings(cli *c, const cli_plan *p, int64_t steps);
/* Only a plan for processes of a host can run here. */
fs_status cli_job_check_host(cli *c, const cli_plan *p);
/* The proof's own keys tell what it found: they are no figures of a run. What
 * deadlocks or overwrites its own memory is no input to run with. */
fs_status cli_job_prove(cli *c, const cli_plan *p);

/* Joins the ranks of the job: c->world. */
fs_status cli_job_join(cli *c);
fs_status cli_job_check_size(cli *c, const cli_plan *p);
/* What a rank reads must be what its parent proved: the file may have changed
 * since, or be another one on the rank's host. */
fs_status cli_job_check_promise(cli *c, const cli_plan *p);
/* So must the data and the weights, of which this is the digest, after a
 * restart too: the parent keeps it for its ranks, where `name` (FS_READS_..)
 * says. What it is of is told as `what`. */
fs_status cli_job_check_reads(cli *c, const char *name, const char *what,
                              uint64_t digest);
/* For who reads this rank's record, and then tells the fault. */
void cli_job_leave(cli *c, fs_status status);

#endif
