/* Watching the ranks of a job through their flight records and what the system
 * says of their processes: who is dead, stopped, or does not move. */
#ifndef FS_CLI_WATCH_H
#define FS_CLI_WATCH_H

#include "cli/cli.h"
#include "cli/waits.h"
#include "exec/relay.h"

typedef struct cli_watched {
    char process; /* of /proc: R, S, D, T, Z..; 0: gone; '?': not begun */
    bool seen;    /* alive, once */
    int32_t state;
    int64_t moved_ns, heartbeat_ns, cpu_ticks;
    int64_t heard_ns;
    double still_s, stopped_s; /* no sign of life; stopped */
    double unheard_s; /* its relay says nothing: what is known of it is old */
} cli_watched;

/* What was found. */
typedef struct cli_fault {
    exec_fault kind;
    int32_t rank; /* -1: nobody in particular */
    int64_t step; /* of the rank, of nobody the furthest rank's; global, from
                     1, as failpoints count; 0: before the first */
    int32_t signal;
    int64_t found_ns; /* when it was; 0: nothing was */
    double after_s;   /* from its last movement to that */
    const char *text;
} cli_fault;

/* Have ranks that run nothing to do? That nothing moves is no hang then. */
typedef bool cli_watch_idle(void *ctx);

typedef struct cli_watch {
    cli *c;
    const cli_plan *p;
    cli_watch_idle *idle; /* NULL: they always have */
    void *idle_ctx;
    exec_records records;
    exec_relay *relay; /* of ranks on other hosts; NULL: there are none */
    cli_watched *ranks;
    int64_t looked_ns;
    double quiet_s; /* since anything moved on any rank */
    double dead_s;  /* since a rank was found dead */
    int64_t acts;     /* of all ranks */
    double actless_s; /* since there was one */
    bool saving_told; /* since then: that the disk is waited for */
    double least_s; /* of a limit */
    double first_s; /* more than that before the first step's end: bytes */
    double predicted_s;
    int64_t done;               /* steps that all ranks have done */
    int64_t untimed, steps;     /* of them: the first ones, the timed ones, */
    double clock_s, stepping_s; /* which took so long */
    int64_t oom_kills_before;
    cli_fault fault;
    const exec_record **copies; /* when a fault was found; NULL: none was */
    cli_waits waits;            /* by them */
    fs_arena *arena; /* of all that was found since the ranks were started */
} cli_watch;

/* For a job of the plan's ranks; `input_bytes` are read at its start. */
fs_status cli_watch_open(cli *c, const cli_plan *p, double input_bytes,
                         cli_watch *out);
void cli_watch_close(cli_watch *w);
/* Before ranks are started (again). */
void cli_watch_begin(cli_watch *w);
/* Several times a second; false: w->fault says what, and the ranks are to be
 * ended. */
bool cli_watch_look(cli_watch *w);
/* Are all ranks at their steps? */
bool cli_watch_runs(const cli_watch *w);
/* Copies the records as they are, and finds who waits for whom, unless that
 * was done. */
void cli_watch_copy(cli_watch *w);
/* What was copied and found so far is given up, its memory too. */
void cli_watch_forget(cli_watch *w);
/* SIGKILL to all ranks that live. */
void cli_watch_kill(const cli_watch *w);
/* After mpirun ended with this status of wait: what it was, of which rank. */
void cli_watch_judge(cli_watch *w, int raw);
/* The step that the furthest rank is at, counted as a fault's. */
int64_t cli_watch_step(cli_watch *w);
/* Did every rank say that it ended well? */
bool cli_watch_all_ended(const cli_watch *w);

/* All ranks, who waits for whom, who differs, the ring, as they were when they
 * were copied: on stderr; and as JSON, with each rank's last events. */
void cli_watch_dump(cli_watch *w);
void cli_watch_json(cli_watch *w, json_t *into);
/* "host" of a rank that is on another one. */
void cli_watch_json_host(const cli_watch *w, int32_t rank, json_t *into);
/* Of a job that ended well: ranks that were slower than others, told and in
 * "stragglers"; nothing where there are none. */
void cli_watch_stragglers(cli_watch *w, json_t *told);
/* Seconds without movement that are a hang now. */
double cli_watch_limit(const cli_watch *w);

#endif
