/* Requests become batches: they wait in a queue with a bound, and leave it in
 * their order. A batch departs when no request more fits into it, or, where the
 * first stage of the plan has nothing else to do, when its first request has
 * waited for the linger. While that stage is busy the next batch gathers, and
 * where askers ask again as soon as they are answered, it waits for them. The
 * first batch of ranks that have come is nobody's: what they make once, such as
 * a kernel's code, they make for it. */
#ifndef FS_CLI_BATCHES_H
#define FS_CLI_BATCHES_H

#include "cli/mailbox.h"

typedef struct cli_request {
    int64_t n;         /* samples */
    void **in, **out;  /* [n_in], [n_out] one after the other; `in` is
                          set by who asks, `out` by who answers, both
                          malloc's */
    bool answered;     /* `out` is there, */
    const char *cause; /* or why not: lives as long as the batches */
    int64_t came_ns;
    struct cli_request *next; /* in the queue, in the batch */
    void *ctx;                /* of who asks */
} cli_request;

typedef struct cli_batches_options {
    int64_t most_waiting; /* samples */
    double linger_s;
    /* From a thread of its own: answered, or with its cause. The request may
     * be freed from now on. */
    void (*done)(cli_request *request);
} cli_batches_options;

typedef enum cli_accepted {
    CLI_ACCEPTED,
    CLI_QUEUE_FULL,
    CLI_ENDING, /* no more requests are taken */
    CLI_DOWN    /* nor will be: a fault */
} cli_accepted;

typedef enum cli_serving {
    CLI_STARTS, /* ranks are not up, or not warm: requests wait */
    CLI_SERVES,
    CLI_ENDS, /* what is there is answered */
    CLI_FAILED
} cli_serving;

enum { CLI_LATENCIES = 4096 };

/* What was done so far. */
typedef struct cli_batches_counts {
    int64_t accepted, answered, failed, refused; /* requests */
    int64_t samples, batches;                    /* answered */
    int64_t waiting, away; /* now: samples in the queue; batches */
    double answer_s;       /* all latencies of requests */
    double batch_s;        /* usual, from its departure until it is back */
    int32_t n_latency;     /* the last ones, ascending */
    double latency_s[CLI_LATENCIES];
    cli_serving state;
} cli_batches_counts;

typedef struct cli_batches cli_batches;
/* With a thread of its own. */
fs_status cli_batches_open(cli_mailbox *box, const cli_batches_options *options,
                           fs_err *err, cli_batches **out);
/* Nobody asks any more. */
void cli_batches_close(cli_batches *batches);

/* From any thread. Only what was accepted will be done, maybe before this
 * returns. */
cli_accepted cli_batches_take(cli_batches *batches, cli_request *request);
/* A refused request may come again after so many seconds. */
int64_t cli_batches_retry_s(cli_batches *batches);
void cli_batches_count(cli_batches *batches, cli_batches_counts *out);
/* The share q of the latencies that were counted is not above it. */
double cli_batches_quantile(const cli_batches_counts *counts, double q);

/* Ranks are at their steps, and wait for batches: they get one of zeroes first.
 * Is it back? Until it is this is asked again. */
bool cli_batches_up(cli_batches *batches, const exec_records *records);
/* They are gone: requests on their way are done, with this cause. Those in the
 * queue wait for the ranks' coming up again; `for_good`: they are done too.
 * Returns when that is so. */
void cli_batches_down(cli_batches *batches, const char *cause, bool for_good);
/* They have ended, and their records go. */
void cli_batches_over(cli_batches *batches);
/* Takes no more; when all are answered the ranks are told to end. */
void cli_batches_end(cli_batches *batches);
/* Have the ranks nothing to do? */
bool cli_batches_idle(cli_batches *batches);

#endif
