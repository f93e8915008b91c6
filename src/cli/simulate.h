/* What `sim` may be asked beside the time of a step. */
#ifndef FS_CLI_SIMULATE_H
#define FS_CLI_SIMULATE_H

#include "cli/predict.h"
#include "cost/held.h"
#include "hw/what_if.h"
#include "sim/critical.h"

/* Tells the critical path and what communication is exposed. */
void cli_tell_critical(cli *c, const cli_plan *p, sim_critical *path,
                       const sim_result *sim);

/* Gives the plan's cluster the collectives that were measured of its devices.
 * Plans are made without: a curve of one kind beside formulas of the others
 * would have them avoid what was measured. */
fs_status cli_take_collectives(cli *c, cli_plan *p);
/* --framework, where it is said: reads it, and gives the plan's cluster the
 * collectives that were measured of its devices. FS_INVALID also beside a
 * measured timing. */
fs_status cli_open_framework(cli *c, cli_plan *p, cost_framework *out);
/* ---- memory: of the plan, or (with --framework) all of it that one's ---- */

/* Of each device of a role. */
typedef struct cli_holding {
    const plan_role *role;
    int64_t live_bytes;  /* at once; what that framework has allocated */
    int64_t peak_bytes;  /* what is held: the arena; that framework's process */
    int64_t limit_bytes; /* what the device with least has; 0: not told */
    cost_held held;      /* by that framework */
} cli_holding;
typedef struct cli_memory {
    const cost_framework *by; /* NULL: the plan's own */
    int32_t n;
    cli_holding *of;         /* [n] roles */
    const cli_holding *most; /* that fills its device most */
    bool fits;               /* each its device */
} cli_memory;
cli_memory cli_memory_of(cli *c, const cli_plan *p, const cost_framework *f,
                         const sim_result *sim);
int64_t cli_memory_of_stage(const cli_memory *m, int32_t stage);
/* `peak_bytes`, `fits`, `limit_bytes`. */
void cli_memory_json(cli *c, const cli_memory *m);
/* What that framework's process is made of, where it is fullest. */
void cli_memory_tell_framework(cli *c, const cli_memory *m);
/* Its name, that, and what of the plan it would not run so. */
void cli_tell_framework(cli *c, const cli_plan *p, const cli_memory *m);
/* FS_NO: it does not fit. */
fs_status cli_memory_verdict(cli *c, const cli_memory *m);

/* --set: the plan on a cluster with these figures changed, and what became of
 * which. FS_INVALID also beside a measured timing. */
bool cli_has_what_if(const cli *c);
fs_status cli_what_if(cli *c, const cli_plan *p, cli_plan *out,
                      hw_changes *changes);
void cli_tell_what_if(cli *c, const hw_changes *changes, double unchanged_s,
                      double changed_s);

/* --mtbf and what goes with it: FS_INVALID where it does not fit together. */
fs_status cli_check_goodput(cli *c);
/* Of a plan whose step takes so long; nothing without --mtbf. */
void cli_tell_goodput(cli *c, const cli_plan *p, double step_s);

/* --straggler [R:]X and --jitter into what is simulated; FS_INVALID: no such
 * rank, a straggler that is faster, more jitter than 2, and (as of --set) what
 * would change nothing. */
fs_status cli_read_disturbed(cli *c, const cli_plan *p, sim_options *out);
/* How a step's time spreads, beside the time without jitter. */
void cli_tell_jitter(cli *c, const sim_result *sim, double quiet_s);

#endif
