#include "config.h"
#include "exec/recorder.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *exec_fault_word(exec_fault fault)
{
    static const char *const words[EXEC_FAULTS] = {
        [EXEC_NO_FAULT] = "none",     [EXEC_KILLED] = "killed",
        [EXEC_STOPPED] = "stopped",   [EXEC_HANG] = "hang",
        [EXEC_CRASH] = "crash",       [EXEC_DIVERGED] = "diverged",
        [EXEC_DISK] = "disk",         [EXEC_MEMORY] = "memory",
        [EXEC_KERNEL] = "kernel",     [EXEC_DATA] = "data",
        [EXEC_PEER] = "peer",         [EXEC_PLAN] = "plan",
        [EXEC_START] = "start",       [EXEC_INTERRUPTED] = "interrupted",
        [EXEC_DATABASE] = "database", [EXEC_OTHER] = "other"};
    return words[fault < EXEC_FAULTS ? fault : EXEC_OTHER];
}

static size_t job_bytes(int32_t n)
{
    return EXEC_JOB_BYTES + (size_t)n * EXEC_RECORD_BYTES;
}

static exec_record *record_at(char *at, int32_t rank)
{
    return (exec_record *)(void *)(at + job_bytes(rank));
}

/* ---- of a rank ---- */

/* -1: there is none at that path, or one of another host, or for fewer. */
static int open_shared(const char *path, int32_t n, size_t *bytes)
{
    exec_job_record job = {0};
    char host[sizeof job.host] = "";
    gethostname(host, sizeof host - 1);
    int file = path && *path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file < 0)
        return -1;
    if (pread(file, &job, sizeof job, 0) != (ssize_t)sizeof job ||
        job.magic != EXEC_RECORD_MAGIC ||
        strncmp(job.host, host, sizeof host) != 0 || n > job.n_ranks) {
        close(file);
        return -1;
    }
    *bytes = job_bytes(job.n_ranks);
    return file;
}

/* By ranks before these. */
static uint64_t said_fired(void)
{
    const char *said = getenv("FS_FIRED");
    return said ? strtoull(said, NULL, 16) : 0;
}

fs_status exec_recorder_open(int32_t rank, fs_err *err, exec_recorder *out)
{
    size_t bytes = job_bytes(1);
    int file = open_shared(getenv("FS_RECORDS"), rank + 1, &bytes);
    void *at =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE,
             file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, file, 0);
    if (file >= 0)
        close(file);
    if (at == MAP_FAILED)
        return fs_fail(err, FS_FAULT, "the flight recorder: %s",
                       strerror(errno));
    out->mapped_bytes = bytes;
    out->supervised = file >= 0;
    out->job = at;
    if (file < 0)
        exec_job_fire(out->job, said_fired());
    out->record = record_at(at, file < 0 ? 0 : rank);
    out->record->rank = rank;
    out->record->pid = (int32_t)getpid();
    out->record->begun_ns = fs_now_ns();
    out->record->magic = EXEC_RECORD_MAGIC;
    atomic_store(&out->record->state, EXEC_STARTING);
    return FS_OK;
}

void exec_recorder_close(exec_recorder *recorder)
{
    if (recorder->job)
        munmap(recorder->job, recorder->mapped_bytes);
    *recorder = (exec_recorder){0};
}

bool exec_recorder_is_read(const exec_recorder *recorder)
{
    return recorder->supervised ||
           (recorder->job && atomic_load(&recorder->job->relayed));
}

void exec_recorder_saving(exec_recorder *recorder, bool saving)
{
    if (recorder && recorder->record)
        atomic_store(&recorder->record->saving_ns,
                     saving ? fs_now_ns() : INT64_C(0));
}

void exec_recorder_fail(exec_recorder *recorder, exec_fault fault,
                        const char *cause)
{
    exec_record *r = recorder ? recorder->record : NULL;
    int32_t none = EXEC_NO_FAULT;
    size_t n = 0;
    if (!r || !atomic_compare_exchange_strong(&r->fault, &none, fault))
        return;
    for (; cause[n] && n < sizeof r->cause - 1; n++)
        r->cause[n] = cause[n];
    r->cause[n] = '\0';
    atomic_store(&r->state, EXEC_FAILED);
}

void exec_recorder_state(exec_recorder *recorder, exec_state state)
{
    exec_record *r = recorder ? recorder->record : NULL;
    if (!r || atomic_load(&r->state) == EXEC_FAILED)
        return;
    r->moved_ns = fs_now_ns();
    atomic_store(&r->state, state);
}

/* ---- of the supervisor ---- */

fs_status exec_records_create(int32_t n, fs_err *err, exec_records *out)
{
    const size_t bytes = job_bytes(n);
    void *at = MAP_FAILED;
    int file = memfd_create("flowsearch-records", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)bytes) == 0)
        at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (at == MAP_FAILED) {
        fs_fail(err, FS_FAULT, "records of %d ranks: %s", n, strerror(errno));
        if (file >= 0)
            close(file);
        return FS_FAULT;
    }
    exec_job_record *job = at;
    job->magic = EXEC_RECORD_MAGIC;
    job->n_ranks = n;
    gethostname(job->host, sizeof job->host - 1);
    *out = (exec_records){.n = n, .file = file, .at = at, .bytes = bytes};
    snprintf(out->path, sizeof out->path, "/proc/%d/fd/%d", (int)getpid(),
             file);
    return FS_OK;
}

bool exec_records_open(const char *path, int32_t n, exec_records *out)
{
    size_t bytes = 0;
    const int file = open_shared(path, n, &bytes);
    if (file < 0)
        return false;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (at == MAP_FAILED)
        return false;
    *out = (exec_records){.n = n, .file = -1, .at = at, .bytes = bytes};
    return true;
}

void exec_records_close(exec_records *records)
{
    if (!records->at)
        return;
    munmap(records->at, records->bytes);
    if (records->file >= 0)
        close(records->file);
    *records = (exec_records){.file = -1};
}

exec_job_record *exec_records_job(const exec_records *records)
{
    return (exec_job_record *)(void *)records->at;
}

_Static_assert(EXEC_MOST_FAILPOINTS <= 64, "a bit each");

uint64_t exec_job_fired(const exec_job_record *job)
{
    uint64_t fired = 0;
    for (int i = 0; i < EXEC_MOST_FAILPOINTS; i++)
        fired |= (uint64_t)atomic_load(&job->fired[i]) << i;
    return fired;
}

void exec_job_fire(exec_job_record *job, uint64_t fired)
{
    for (int i = 0; i < EXEC_MOST_FAILPOINTS; i++)
        if (fired >> i & 1)
            atomic_store(&job->fired[i], true);
}

exec_record *exec_records_at(const exec_records *records, int32_t rank)
{
    return record_at(records->at, rank);
}

void exec_records_clear(exec_records *records)
{
    const off_t first = EXEC_JOB_BYTES;
    /* A hole reads as zeroes, and gives the pages back. */
    if (fallocate(records->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  first, (off_t)records->bytes - first) != 0)
        memset(records->at + first, 0, records->bytes - (size_t)first);
}

void exec_records_ring(const exec_records *records)
{
    for (int32_t r = 0; r < records->n; r++)
        exec_bell_ring(&exec_records_at(records, r)->bell, EXEC_CAME,
                       UINT64_MAX);
}
