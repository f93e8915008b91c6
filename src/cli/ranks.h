/* Starting this program again as ranks of one job. */
#ifndef FS_CLI_RANKS_H
#define FS_CLI_RANKS_H

#include "cli/cli.h"

/* Who looks after the ranks while they run. */
typedef struct cli_ranks_watcher {
    void *ctx;
    const char *records;     /* FS_RECORDS of the ranks */
    bool (*look)(void *ctx); /* several times a second; false: end them all */
    void (*tell)(void *ctx); /* somebody asks (SIGUSR1) how they are */
    /* An interrupt; true: the ranks end by themselves, and are waited for. */
    bool (*ask)(void *ctx, int number);
    void (*kill)(void *ctx);           /* the ranks themselves */
    void (*ended)(void *ctx, int raw); /* with this status of wait */
} cli_ranks_watcher;

/* Runs `flowsearch words...` on n ranks through mpirun (directly when n = 1)
 * and waits. A rank's own message goes to stderr; its exit status is the
 * result (FS_FAULT for signals and what is no status of ours). `watcher` may
 * be NULL. */
fs_status cli_start_ranks(cli *c, int32_t n, const char *const *words,
                          const cli_ranks_watcher *watcher);

/* Is a status that a shell or mpirun ended with 128 and a signal? (255 of ssh
 * is not.) */
bool cli_is_signal(int code);

/* What that would start, told: a line for a shell, and "launch", its words. */
void cli_tell_launch(cli *c, int32_t n, const char *const *words);

/* The words themselves, up to NULL; in a child, what its ranks are told. */
const char **cli_launch_words(cli *c, int32_t n, const char *const *words);
void cli_launch_environment(const cli *c);

/* In a rank, before it ends: tells who started it that this status is its own,
 * and not mpirun's. */
void cli_mark_status(fs_status status);
/* Of a rank, when it begins: should it be killed, its parent knows which. */
void cli_mark_alive(void);
/* From here on the record tells of crashes (SEGV, ABRT, FPE, ILL), and that
 * mpirun ended this rank. After MPI_Init, which takes these signals too. */
struct exec_recorder;
void cli_mark_crashes(struct exec_recorder *recorder);
/* Memory has run out in this process. Returns whether somebody reads that from
 * its record, and will tell it. */
bool cli_mark_memory(const char *text);

#endif
