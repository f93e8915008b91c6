/* Where batches lie on their way between the process that answers requests and
 * the ranks that compute, all of one host: memory that they share. A batch has
 * a slot, and a slot is a credit: there are as many as batches may be on their
 * way at once. Ranks load their pieces of a batch once it has departed, and
 * give its outputs; when every piece was loaded and every output given it is
 * back, and its slot free. */
#ifndef FS_CLI_MAILBOX_H
#define FS_CLI_MAILBOX_H

#include "cli/served.h"
#include "exec/exec.h"
#include "exec/recorder.h"

typedef struct cli_mailbox {
    const cli_served *served;
    struct cli_mailbox_head *head; /* what is shared, then the slots */
    char *slots;
    int32_t n_slots;
    int64_t slot_bytes, bytes; /* of one; of all that is shared */
    int64_t *in_at, *out_at;   /* [n_in], [n_out] in a slot */
    int file;
    char path[64]; /* for FS_MAILBOX: open as long as this process lives */
    const exec_records *records; /* of the ranks, while they are up; NULL */
} cli_mailbox;

/* ---- of who answers; one thread at a time but cli_mailbox_ring ---- */
fs_status cli_mailbox_create(const cli_served *served, fs_arena *arena,
                             fs_err *err, cli_mailbox *out);
void cli_mailbox_close(cli_mailbox *box);
/* Batches count from 0 since the ranks were started. Its inputs are written,
 * whole or in part (what is not is what was there before), then it departs:
 * the next one in order. */
void *cli_mailbox_input(const cli_mailbox *box, int64_t batch, int32_t input);
void cli_mailbox_depart(cli_mailbox *box, int64_t batch);
/* Is this batch, which has departed, back? */
bool cli_mailbox_is_back(const cli_mailbox *box, int64_t batch);
/* Of a batch that is back: a micro-batch of an output. */
const void *cli_mailbox_output(const cli_mailbox *box, int64_t batch,
                               int32_t output, int32_t micro_batch);
/* No batch departs any more: ranks end. */
void cli_mailbox_end(cli_mailbox *box);
/* After either: ranks sleep until there is something for them. Whoever sets
 * `records` keeps them while this is called. */
void cli_mailbox_call(const cli_mailbox *box);
/* The ranks are gone: nothing has departed. */
void cli_mailbox_clear(cli_mailbox *box);
/* Sleeps until it is rung, a batch is back, or this time of fs_now_ns. */
void cli_mailbox_sleep(cli_mailbox *box, int64_t until_ns);
void cli_mailbox_ring(cli_mailbox *box);

/* ---- of a rank ---- */
/* What FS_MAILBOX leads to. */
fs_status cli_mailbox_join(const cli_served *served, fs_arena *arena,
                           fs_err *err, cli_mailbox *out);
exec_data cli_mailbox_data(cli_mailbox *box);
exec_sink cli_mailbox_sink(cli_mailbox *box);

#endif
