#include "config.h"
#include "cli/batches.h"

#include "base/clock.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK_NS = 100000000 };

typedef struct journey {
    cli_request *first;
    int64_t departed_ns;
} journey;

struct cli_batches {
    cli_mailbox *box;
    const cli_served *served;
    cli_batches_options options;
    fs_arena *arena; /* of causes */
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t down;
    cli_request *first, **last; /* the queue */
    int64_t waiting;            /* samples in it */
    int64_t departed, back;     /* batches since the ranks were started */
    bool up, warm;              /* the first batch is back, which is nobody's */
    bool quitting;
    int64_t back_ns;     /* when the last one was, */
    int64_t coming;      /* samples that came within a linger since, */
    double usual_coming; /* and of late */
    const char *cause;   /* ranks are gone: to be told to who is on the way */
    cli_serving state;
    cli_batches_counts counts;
    int64_t n_latencies;             /* in all */
    double latencies[CLI_LATENCIES]; /* the last ones */
    /* Of the thread alone. */
    journey *away; /* [slots] */
};

/* ---- answers ---- */

static void note_latency(cli_batches *b, const cli_request *r)
{
    const double s = 1e-9 * (double)(fs_now_ns() - r->came_ns);
    b->latencies[b->n_latencies++ % CLI_LATENCIES] = s;
    b->counts.answer_s += s;
}

/* Its samples are those from `at` on of the batch. */
static void copy_outputs(const cli_batches *b, int64_t batch, int64_t at,
                         cli_request *r)
{
    const cli_served *s = b->served;
    const int64_t each = s->batch / s->m;
    r->out = fs_malloc((size_t)s->n_out * sizeof *r->out);
    for (int32_t i = 0; i < s->n_out; i++) {
        const cli_served_tensor *t = &s->out[i];
        r->out[i] = fs_malloc((size_t)(r->n * t->bytes));
        for (int64_t k = 0; k < r->n; k++)
            cli_served_get(t,
                           cli_mailbox_output(b->box, batch, i,
                                              (int32_t)((at + k) / each)),
                           (at + k) % each, each,
                           (char *)r->out[i] + k * t->bytes);
    }
}

static void note_back(cli_batches *b)
{
    b->back++;
    b->back_ns = fs_now_ns();
    b->usual_coming += 0.2 * ((double)b->coming - b->usual_coming);
    b->coming = 0;
}

/* Of ranks that have just come: what they make once, such as a kernel's code,
 * they make for it, and no request waits for that. */
static bool is_warming(const cli_batches *b)
{
    return b->departed == 1 && !b->warm;
}

static void take_back(cli_batches *b, int64_t number)
{
    (void)number;
    pthread_mutex_lock(&b->lock);
    note_back(b);
    b->warm = true;
    pthread_mutex_unlock(&b->lock);
}

/* Each is its asker's again as soon as it is done. */
static void answer_batch(cli_batches *b, int64_t number)
{
    const journey *of = &b->away[number % b->box->n_slots];
    const double took_s = 1e-9 * (double)(fs_now_ns() - of->departed_ns);
    int64_t n = 0, requests = 0;
    for (cli_request *r = of->first; r; r = r->next) {
        copy_outputs(b, number, n, r);
        n += r->n;
        requests++;
    }
    pthread_mutex_lock(&b->lock);
    for (const cli_request *r = of->first; r; r = r->next)
        note_latency(b, r);
    b->counts.answered += requests;
    b->counts.samples += n;
    b->counts.batches++;
    b->counts.batch_s +=
        b->counts.batches == 1 ? took_s : 0.1 * (took_s - b->counts.batch_s);
    note_back(b);
    pthread_mutex_unlock(&b->lock);
    for (cli_request *r = of->first, *next; r; r = next) {
        next = r->next;
        r->answered = true;
        b->options.done(r);
    }
}

/* Returns how many. */
static int64_t fail_all(const cli_batches *b, cli_request *first,
                        const char *cause)
{
    int64_t n = 0;
    for (cli_request *next; first; first = next, n++) {
        next = first->next;
        first->cause = cause;
        b->options.done(first);
    }
    return n;
}

static cli_request *empty_queue(cli_batches *b)
{
    cli_request *first = b->first;
    b->first = NULL;
    b->last = &b->first;
    b->waiting = 0;
    return first;
}

/* With the lock, which it leaves meanwhile: whoever is done asks anew. */
static void fall(cli_batches *b)
{
    const char *cause = b->cause;
    const int64_t departed = b->departed;
    int64_t failed = 0;
    cli_request *waiting = b->state == CLI_FAILED ? empty_queue(b) : NULL;
    pthread_mutex_unlock(&b->lock);
    for (int64_t k = b->back; k < departed; k++)
        failed += fail_all(b, b->away[k % b->box->n_slots].first, cause);
    failed += fail_all(b, waiting, cause);
    cli_mailbox_clear(b->box);
    pthread_mutex_lock(&b->lock);
    b->departed = b->back = 0;
    b->warm = false;
    b->counts.failed += failed;
    b->cause = NULL;
    pthread_cond_broadcast(&b->down);
}

/* ---- departures ---- */

/* Those at the head of the queue that fit into a batch; whether it is full
 * with them. */
static bool count_fitting(const cli_batches *b, int64_t *samples)
{
    const cli_request *r = b->first;
    for (*samples = 0; r && *samples + r->n <= b->served->batch; r = r->next)
        *samples += r->n;
    return r || *samples == b->served->batch;
}

static int64_t linger_ns(const cli_batches *b)
{
    return (int64_t)(b->options.linger_s * 1e9);
}

/* That the first stage has to do with a batch, about: of the time that m
 * micro-batches take through all stages, its own m turns. */
static double find_stage_s(const cli_batches *b)
{
    const cli_served *s = b->served;
    return b->counts.batch_s * (double)s->m / (double)(s->m + s->depth - 1);
}

/* A batch that departs before that one is through with the last is computed no
 * sooner, and less full. */
static int64_t find_through(const cli_batches *b)
{
    const journey *last = &b->away[(b->departed - 1) % b->box->n_slots];
    return last->departed_ns + (int64_t)(1e9 * find_stage_s(b));
}

/* Who was answered may ask again at once. Is a linger of no work, for every
 * batch of so many samples, the lesser loss? Of requests that come at random
 * as many come meanwhile as would make up for it, which is no reason. */
static bool is_company_worth(const cli_batches *b, int64_t samples)
{
    return b->usual_coming * find_stage_s(b) >
           2 * b->options.linger_s * (double)samples;
}

static int64_t latest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* When may the next batch depart? INT64_MAX: not by time alone. */
static int64_t find_departure(const cli_batches *b)
{
    const int64_t away = b->departed - b->back;
    int64_t samples;
    if (b->up && b->departed == 0)
        return 0;
    if (!b->first || !b->up || !b->warm || away >= b->box->n_slots)
        return INT64_MAX;
    if (count_fitting(b, &samples))
        return 0;
    if (away >= b->served->depth)
        return INT64_MAX;
    if (b->state == CLI_ENDS)
        return 0;
    const int64_t lingered = b->first->came_ns + linger_ns(b);
    const int64_t through = away > 0 ? find_through(b) : 0;
    const int64_t company =
        is_company_worth(b, samples) ? b->back_ns + linger_ns(b) : 0;
    return latest(latest(through, lingered), company);
}

/* Room that no request takes is zero: ids of some row, numbers of no meaning,
 * and the answers to them go to nobody. */
static void write_inputs(const cli_batches *b, int64_t number,
                         const cli_request *first)
{
    const cli_served *s = b->served;
    for (int32_t i = 0; i < s->n_in; i++) {
        const cli_served_tensor *t = &s->in[i];
        void *tensor = cli_mailbox_input(b->box, number, i);
        int64_t at = 0;
        for (const cli_request *r = first; r; r = r->next)
            for (int64_t k = 0; k < r->n; k++)
                cli_served_put(t, (char *)r->in[i] + k * t->bytes, at++,
                               s->batch, tensor);
        if (at == s->batch)
            continue;
        void *zero = fs_malloc((size_t)t->bytes);
        memset(zero, 0, (size_t)t->bytes);
        while (at < s->batch)
            cli_served_put(t, zero, at++, s->batch, tensor);
        free(zero);
    }
}

/* From the queue: those of the next batch. */
static cli_request *take_fitting(cli_batches *b)
{
    cli_request *first = b->first, **end = &b->first;
    int64_t samples, n = 0;
    count_fitting(b, &samples);
    for (; n < samples; end = &(*end)->next)
        n += (*end)->n;
    b->first = *end;
    *end = NULL;
    if (!b->first)
        b->last = &b->first;
    b->waiting -= samples;
    return first;
}

/* With the lock, which it leaves while it copies. */
static void depart(cli_batches *b)
{
    const int64_t number = b->departed++;
    journey *of = &b->away[number % b->box->n_slots];
    of->first = number > 0 ? take_fitting(b) : NULL;
    pthread_mutex_unlock(&b->lock);
    write_inputs(b, number, of->first);
    of->departed_ns = fs_now_ns();
    cli_mailbox_depart(b->box, number);
    pthread_mutex_lock(&b->lock);
    cli_mailbox_call(b->box);
}

static void serve_once(cli_batches *b)
{
    int64_t now = fs_now_ns(), at = find_departure(b);
    if (b->cause) {
        fall(b);
        return;
    }
    if (b->back < b->departed && cli_mailbox_is_back(b->box, b->back)) {
        void (*const answer)(cli_batches *, int64_t) =
            is_warming(b) ? take_back : answer_batch;
        pthread_mutex_unlock(&b->lock);
        answer(b, b->back);
        pthread_mutex_lock(&b->lock);
        return;
    }
    if (at <= now) {
        depart(b);
        return;
    }
    if (b->state == CLI_ENDS && b->up && !b->first && b->back == b->departed) {
        cli_mailbox_end(b->box);
        cli_mailbox_call(b->box);
    }
    pthread_mutex_unlock(&b->lock);
    cli_mailbox_sleep(b->box, at < now + LOOK_NS ? at : now + LOOK_NS);
    pthread_mutex_lock(&b->lock);
}

static void *serve_all(void *ctx)
{
    cli_batches *b = ctx;
    pthread_mutex_lock(&b->lock);
    while (!b->quitting)
        serve_once(b);
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* ---- opening and closing ---- */

fs_status cli_batches_open(cli_mailbox *box, const cli_batches_options *options,
                           fs_err *err, cli_batches **out)
{
    sigset_t all, before;
    fs_arena *arena = fs_arena_create();
    cli_batches *b = fs_new(arena, cli_batches, 1);
    b->arena = arena;
    b->box = box;
    b->served = box->served;
    b->options = *options;
    b->last = &b->first;
    b->away = fs_new(arena, journey, box->n_slots);
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->down, NULL);
    sigfillset(&all); /* signals are the main thread's */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&b->thread, NULL, serve_all, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        fs_arena_destroy(arena);
        return fs_fail(err, FS_FAULT, "a thread for batches: %s",
                       strerror(code));
    }
    *out = b;
    return FS_OK;
}

void cli_batches_close(cli_batches *b)
{
    pthread_mutex_lock(&b->lock);
    b->quitting = true;
    pthread_mutex_unlock(&b->lock);
    cli_mailbox_ring(b->box);
    pthread_join(b->thread, NULL);
    pthread_cond_destroy(&b->down);
    pthread_mutex_destroy(&b->lock);
    fs_arena_destroy(b->arena);
}

/* ---- of others ---- */

static cli_accepted judge(const cli_batches *b, const cli_request *r)
{
    if (b->state == CLI_FAILED)
        return CLI_DOWN;
    if (b->state == CLI_ENDS)
        return CLI_ENDING;
    return b->waiting + r->n > b->options.most_waiting ? CLI_QUEUE_FULL
                                                       : CLI_ACCEPTED;
}

cli_accepted cli_batches_take(cli_batches *b, cli_request *r)
{
    pthread_mutex_lock(&b->lock);
    const cli_accepted accepted = judge(b, r);
    if (accepted == CLI_ACCEPTED) {
        r->came_ns = fs_now_ns();
        r->next = NULL;
        *b->last = r;
        b->last = &r->next;
        b->waiting += r->n;
        b->coming += r->came_ns - b->back_ns < linger_ns(b) ? r->n : 0;
        b->counts.accepted++;
    } else {
        b->counts.refused++;
    }
    pthread_mutex_unlock(&b->lock);
    if (accepted == CLI_ACCEPTED)
        cli_mailbox_ring(b->box);
    return accepted;
}

int64_t cli_batches_retry_s(cli_batches *b)
{
    enum { MOST_S = 60 };
    pthread_mutex_lock(&b->lock);
    const double batches = (double)b->waiting / (double)b->served->batch +
                           (double)(b->departed - b->back);
    const double s = ceil(batches * b->counts.batch_s);
    pthread_mutex_unlock(&b->lock);
    return s < 1 ? 1 : s < MOST_S ? (int64_t)s : MOST_S;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void cli_batches_count(cli_batches *b, cli_batches_counts *out)
{
    pthread_mutex_lock(&b->lock);
    *out = b->counts;
    out->waiting = b->waiting;
    out->away = b->departed - b->back;
    out->state = b->state == CLI_STARTS && b->warm ? CLI_SERVES : b->state;
    out->n_latency = (int32_t)(b->n_latencies < CLI_LATENCIES ? b->n_latencies
                                                              : CLI_LATENCIES);
    memcpy(out->latency_s, b->latencies, sizeof b->latencies);
    pthread_mutex_unlock(&b->lock);
    qsort(out->latency_s, (size_t)out->n_latency, sizeof *out->latency_s,
          ascending);
}

double cli_batches_quantile(const cli_batches_counts *counts, double q)
{
    const int32_t n = counts->n_latency;
    const int32_t at = (int32_t)ceil(q * n) - 1;
    return n ? counts->latency_s[at < 0 ? 0 : at] : (double)NAN;
}

bool cli_batches_up(cli_batches *b, const exec_records *records)
{
    pthread_mutex_lock(&b->lock);
    const bool warm = b->warm, news = !b->up;
    b->up = true;
    b->box->records = records;
    pthread_mutex_unlock(&b->lock);
    if (news)
        cli_mailbox_ring(b->box);
    return warm;
}

void cli_batches_down(cli_batches *b, const char *cause, bool for_good)
{
    pthread_mutex_lock(&b->lock);
    b->up = false;
    b->box->records = NULL;
    b->cause = fs_strdup(b->arena, cause);
    if (for_good)
        b->state = CLI_FAILED;
    cli_mailbox_ring(b->box);
    while (b->cause)
        pthread_cond_wait(&b->down, &b->lock);
    pthread_mutex_unlock(&b->lock);
}

void cli_batches_over(cli_batches *b)
{
    pthread_mutex_lock(&b->lock);
    b->up = false;
    b->box->records = NULL;
    pthread_mutex_unlock(&b->lock);
}

void cli_batches_end(cli_batches *b)
{
    pthread_mutex_lock(&b->lock);
    if (b->state != CLI_FAILED)
        b->state = CLI_ENDS;
    pthread_mutex_unlock(&b->lock);
    cli_mailbox_ring(b->box);
}

bool cli_batches_idle(cli_batches *b)
{
    pthread_mutex_lock(&b->lock);
    const bool idle = b->departed == b->back && b->state != CLI_ENDS;
    pthread_mutex_unlock(&b->lock);
    return idle;
}
