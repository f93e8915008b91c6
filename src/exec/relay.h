/* Flight records of ranks on other hosts, which have no memory in common with
 * their supervisor. Beside such a rank a process of its own looks at its record
 * ten times a second and sends it: it lives on when the rank is killed or
 * stopped, and says so. The supervisor's side writes what comes into its own
 * records, so that who reads these need not ask where a rank is.
 *
 * FS_RELAY="TOKEN:PORT:ADDRESS,.." says to whom. Both ends are of one version
 * and one kind of machine, as ranks of a job are. */
#ifndef FS_EXEC_RELAY_H
#define FS_EXEC_RELAY_H

#include "exec/recorder.h"

/* ---- of a rank ---- */
/* Of a rank whose supervisor is on another host; else nothing is done. Before
 * MPI, which wants no forks after it. Where nobody is reached the record stays
 * the rank's own. */
void exec_relay_send(exec_recorder *recorder);

/* ---- of the supervisor ---- */
typedef struct exec_relay exec_relay;
/* NULL: this host has no network, or no memory; `records` outlive it. */
exec_relay *exec_relay_open(const exec_records *records);
void exec_relay_close(exec_relay *relay);
/* Before ranks are started (again): FS_RELAY of these, which alone are heard
 * from now on. */
const char *exec_relay_begin(exec_relay *relay);
/* Takes what has come, without waiting for more; `relay` may be NULL. */
void exec_relay_look(exec_relay *relay);

/* Of /proc: R, S, D, T .. and its time in ticks; 0: it is gone. */
char exec_process_state(int32_t pid, int64_t *ticks);

#endif
