#include "config.h"
#include "exec/reader.h"

#include "base/clock.h"
#include "exec/binding.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What is read ahead: as many requests as this holds, but at least two, so
 * that one is read while another is decoded. */
enum { AHEAD_BYTES = 1 << 20, LEAST_AHEAD = 2, MOST_AHEAD = 16 };

typedef struct slot {
    char *bytes;
    fs_err err; /* its status is FS_OK when the bytes are there */
} slot;

/* made - taken slots are full. `made` is the reader's, `taken` the taker's. */
typedef struct ring {
    exec_stream of;
    uint32_t n;
    slot *slot;
    _Atomic uint32_t made, taken;
    int64_t expected; /* sample, of the taker's next request */
    bool begun;
    /* under the lock */
    int64_t next; /* sample, of the next read */
    bool open, reading;
} ring;

struct exec_reader {
    fs_arena *arena;
    double latency_s, s_per_byte;
    int64_t owed_ns; /* by a slow disk */
    FS_VEC(ring *) rings;
    exec_data_counts counts;
    bool started;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work, made; /* for the reader, for the taker */
    _Atomic bool asleep;
    bool stopping;
};

exec_reader *exec_reader_create(const exec_data_options *disk)
{
    fs_arena *arena = fs_arena_create();
    exec_reader *reader = fs_new(arena, exec_reader, 1);
    reader->arena = arena;
    reader->latency_s = disk->disk_latency_s;
    reader->s_per_byte = disk->disk_s_per_byte;
    pthread_mutex_init(&reader->lock, NULL);
    pthread_cond_init(&reader->work, NULL);
    pthread_cond_init(&reader->made, NULL);
    return reader;
}

int32_t exec_reader_add(exec_reader *reader, const exec_stream *stream)
{
    const int64_t bytes = stream->rows * stream->row_bytes;
    int64_t n = AHEAD_BYTES / (bytes > 0 ? bytes : 1);
    n = n < LEAST_AHEAD ? LEAST_AHEAD : n > MOST_AHEAD ? MOST_AHEAD : n;
    pthread_mutex_lock(&reader->lock);
    ring *r = fs_new(reader->arena, ring, 1);
    r->of = *stream;
    r->n = (uint32_t)n;
    r->slot = fs_new(reader->arena, slot, n);
    for (int64_t i = 0; i < n; i++)
        r->slot[i].bytes = fs_alloc(reader->arena, 1, (size_t)bytes + 1);
    fs_push(reader->arena, &reader->rings, r);
    const int32_t number = reader->rings.n - 1;
    pthread_mutex_unlock(&reader->lock);
    return number;
}

int64_t exec_reader_bytes(const exec_reader *reader, int32_t stream)
{
    const ring *r = reader->rings.at[stream];
    return (int64_t)r->n * (r->of.rows * r->of.row_bytes + 1);
}

const exec_data_counts *exec_reader_counts(const exec_reader *reader)
{
    return &reader->counts;
}

/* ---- the disk ---- */

/* As long as the slow disk that is asked for would have taken. Short sleeps
 * take longer than they are told: they are saved up, and what was slept too
 * long is kept. */
static void delay(exec_reader *reader, int64_t begin_ns, int64_t bytes)
{
    enum { SHORT_NS = 1000000 };
    const double s = reader->latency_s + reader->s_per_byte * (double)bytes;
    const int64_t now = fs_now_ns();
    if (s <= 0)
        return;
    reader->owed_ns += (int64_t)(s * 1e9) - (now - begin_ns);
    if (reader->owed_ns < SHORT_NS)
        return;
    const struct timespec t = {reader->owed_ns / 1000000000,
                               reader->owed_ns % 1000000000};
    nanosleep(&t, NULL);
    reader->owed_ns -= fs_now_ns() - now;
}

static fs_status read_span(exec_reader *reader, const exec_stream *s,
                           int64_t at, int64_t bytes, char *to, fs_err *err)
{
    const int64_t begin_ns = fs_now_ns();
    for (int64_t done = 0; done < bytes;) {
        const ssize_t got =
            pread(s->file, to + done, (size_t)(bytes - done), at + done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fs_fail(err, FS_FAULT, "%s: byte %lld: %s", s->path,
                           (long long)(at + done),
                           got == 0 ? "cut short" : strerror(errno));
        done += got;
    }
    delay(reader, begin_ns, bytes);
    reader->counts.reads++;
    reader->counts.bytes += bytes;
    reader->counts.read_ns += fs_now_ns() - begin_ns;
    return FS_OK;
}

/* Rows from this one on that lie behind each other. */
static int64_t count_run(const exec_stream *s, int64_t sample, int64_t row,
                         int64_t at)
{
    int64_t n = 1;
    while (row + n < s->rows &&
           s->locate(s->ctx, sample, row + n) == at + n * s->row_bytes)
        n++;
    return n;
}

/* Rows that lie apart: a disk may fetch several at a time. */
static void announce(const exec_stream *s, int64_t sample)
{
    for (int64_t row = 0; row < s->rows; row++)
        posix_fadvise(s->file, s->locate(s->ctx, sample, row), s->row_bytes,
                      POSIX_FADV_WILLNEED);
}

static void read_slot(exec_reader *reader, const exec_stream *s, int64_t sample,
                      slot *to)
{
    to->err = (fs_err){0};
    for (int64_t row = 0; row < s->rows && to->err.status == FS_OK;) {
        const int64_t at = s->locate(s->ctx, sample, row);
        const int64_t n = count_run(s, sample, row, at);
        if (row == 0 && n < s->rows)
            announce(s, sample);
        read_span(reader, s, at, n * s->row_bytes,
                  to->bytes + row * s->row_bytes, &to->err);
        row += n;
    }
}

/* ---- the thread ---- */

static uint32_t room(const ring *r)
{
    return r->n - (atomic_load(&r->made) - atomic_load(&r->taken));
}

/* The emptiest. */
static ring *pick(const exec_reader *reader)
{
    ring *best = NULL;
    for (int32_t i = 0; i < reader->rings.n; i++) {
        ring *r = reader->rings.at[i];
        if (r->open && room(r) > 0 &&
            (!best || room(r) * best->n > room(best) * r->n))
            best = r;
    }
    return best;
}

static void read_next(exec_reader *reader, ring *r)
{
    slot *to = &r->slot[atomic_load(&r->made) % r->n];
    const int64_t sample = r->next;
    r->reading = true;
    pthread_mutex_unlock(&reader->lock);
    read_slot(reader, &r->of, sample, to);
    pthread_mutex_lock(&reader->lock);
    r->reading = false;
    r->next += r->of.stride;
    r->open = to->err.status == FS_OK;
    atomic_fetch_add(&r->made, 1);
    pthread_cond_broadcast(&reader->made);
}

static void *run_reader(void *ctx)
{
    exec_reader *reader = ctx;
    exec_bind_helper();
    pthread_mutex_lock(&reader->lock);
    while (!reader->stopping) {
        atomic_store(&reader->asleep, true); /* before it looks for room */
        ring *r = pick(reader);
        if (!r)
            pthread_cond_wait(&reader->work, &reader->lock);
        atomic_store(&reader->asleep, false);
        if (r)
            read_next(reader, r);
    }
    pthread_mutex_unlock(&reader->lock);
    return NULL;
}

/* ---- the taker ---- */

static void wake(exec_reader *reader)
{
    pthread_mutex_lock(&reader->lock);
    pthread_cond_signal(&reader->work);
    pthread_mutex_unlock(&reader->lock);
}

/* Drops what was read ahead. */
static void restart(exec_reader *reader, ring *r, int64_t sample)
{
    pthread_mutex_lock(&reader->lock);
    while (r->reading)
        pthread_cond_wait(&reader->made, &reader->lock);
    atomic_store(&r->taken, atomic_load(&r->made));
    r->next = sample;
    r->open = true;
    pthread_cond_signal(&reader->work);
    pthread_mutex_unlock(&reader->lock);
    r->begun = true;
    r->expected = sample;
}

static bool is_empty(const ring *r)
{
    return room(r) == r->n;
}

static void wait_for(exec_reader *reader, const ring *r)
{
    const int64_t begin_ns = fs_now_ns();
    pthread_mutex_lock(&reader->lock);
    while (is_empty(r))
        pthread_cond_wait(&reader->made, &reader->lock);
    pthread_mutex_unlock(&reader->lock);
    reader->counts.waited_ns += fs_now_ns() - begin_ns;
}

static fs_status start(exec_reader *reader, fs_err *err)
{
    const int code = pthread_create(&reader->thread, NULL, run_reader, reader);
    if (code != 0)
        return fs_fail(err, FS_FAULT, "a thread to read data: %s",
                       strerror(code));
    reader->started = true;
    return FS_OK;
}

fs_status exec_reader_take(exec_reader *reader, int32_t stream, int64_t sample,
                           fs_err *err, const char **out)
{
    ring *r = reader->rings.at[stream];
    if (!reader->started)
        FS_TRY(start(reader, err));
    if (!r->begun || r->expected != sample)
        restart(reader, r, sample);
    if (is_empty(r))
        wait_for(reader, r);
    const slot *s = &r->slot[atomic_load(&r->taken) % r->n];
    if (s->err.status != FS_OK) {
        r->begun = false; /* asked again, it is read again */
        return fs_fail(err, s->err.status, "%s", s->err.text);
    }
    *out = s->bytes;
    return FS_OK;
}

/* A reader that sleeps is woken for half a ring, not for each request. */
void exec_reader_give(exec_reader *reader, int32_t stream)
{
    ring *r = reader->rings.at[stream];
    r->expected += r->of.stride;
    atomic_fetch_add(&r->taken, 1);
    if (atomic_load(&reader->asleep) && 2 * room(r) >= r->n)
        wake(reader);
}

bool exec_reader_ready(const exec_reader *reader, int32_t stream,
                       int64_t sample)
{
    const ring *r = reader->rings.at[stream];
    return r->begun && r->expected == sample && !is_empty(r);
}

void exec_reader_destroy(exec_reader *reader)
{
    if (!reader)
        return;
    if (reader->started) {
        pthread_mutex_lock(&reader->lock);
        reader->stopping = true;
        pthread_cond_signal(&reader->work);
        pthread_mutex_unlock(&reader->lock);
        pthread_join(reader->thread, NULL);
    }
    pthread_cond_destroy(&reader->made);
    pthread_cond_destroy(&reader->work);
    pthread_mutex_destroy(&reader->lock);
    fs_arena_destroy(reader->arena);
}
