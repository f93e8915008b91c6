/* The flight recorder: what a rank does, written by it with plain stores into
 * memory that a supervisor maps too, so that a rank that was killed or stopped
 * leaves its record readable. Always on; an event costs two cache lines and no
 * system call. FAULTS.md tells who reads it and what is concluded.
 *
 * Records of a job lie in one file: a page of the job, then a record per rank.
 * The supervisor makes it (without a name: it goes with its processes) and says
 * where in FS_RECORDS; without that a rank keeps a record of its own. */
#ifndef FS_EXEC_RECORDER_H
#define FS_EXEC_RECORDER_H

#include "base/status.h"
#include "exec/bell.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a job ended for: `word` names it in JSON. */
typedef enum exec_fault {
    EXEC_NO_FAULT,
    EXEC_KILLED,   /* by a signal from outside */
    EXEC_STOPPED,  /* SIGSTOP, for too long */
    EXEC_HANG,     /* nothing moved for too long */
    EXEC_CRASH,    /* by a signal of its own, or gone without a word */
    EXEC_DIVERGED, /* a loss that is not finite */
    EXEC_DISK,     /* no room, or a broken device */
    EXEC_MEMORY,
    EXEC_KERNEL,
    EXEC_DATA,
    EXEC_PEER, /* communication failed */
    EXEC_PLAN, /* ranks that do not fit together */
    EXEC_START,
    EXEC_INTERRUPTED,
    EXEC_DATABASE, /* found, but not kept there */
    EXEC_OTHER,
    EXEC_FAULTS
} exec_fault;
const char *exec_fault_word(exec_fault fault);

/* A finished firing. */
typedef struct exec_event {
    int64_t start_ns, end_ns;
    int32_t task, micro_batch, step, stream;
} exec_event;

/* What a stream is at. */
typedef struct exec_now {
    int64_t fired;    /* firings begun so far */
    int64_t since_ns; /* when the head was fired, or its forerunner ended */
    int32_t task;     /* the head; -1: at its end */
    int32_t micro_batch, step;
    int32_t busy; /* fired, not completed */
} exec_now;
_Static_assert(sizeof(exec_event) == 32 && sizeof(exec_now) == 32,
               "an event is 32 bytes");

typedef enum exec_state {
    EXEC_ABSENT,   /* no rank has opened it */
    EXEC_STARTING, /* up to the first step */
    EXEC_RUNNING,
    EXEC_ENDING, /* digests, what ranks tell each other at the end */
    EXEC_ENDED,  /* well */
    EXEC_FAILED  /* `fault` and `cause` say of what */
} exec_state;

enum {
    EXEC_RECORD_MAGIC = 0x46535231,
    EXEC_RECORD_STREAMS = 1024,
    EXEC_RECORD_EVENTS = 4096, /* a power of two */
    EXEC_RECORD_BYTES = 192 << 10,
    EXEC_MOST_FAILPOINTS = 64,
    EXEC_JOB_BYTES = 4096
};

typedef struct exec_record {
    uint32_t magic;
    int32_t pid, rank, n_streams; /* of which at most EXEC_RECORD_STREAMS are
                                     recorded */
    _Atomic int32_t state, fault;
    int32_t away;      /* on another host than the supervisor: then its */
    int32_t process;   /* process is so (of /proc), as its relay says, */
    int64_t cpu_ticks; /* has used the core so long, */
    char host[64];     /* and is there */
    int64_t first_step, steps_begun,
        steps_done;       /* global steps; of this rank */
    int64_t heartbeat_ns; /* the loop's last round */
    int64_t moved_ns;     /* a task's last completion */
    int64_t completed;    /* tasks */
    int64_t met;          /* how often it came to where all ranks meet */
    int64_t n_events;     /* the ring holds the last */
    int64_t compute_ns;   /* in kernels, own time */
    int64_t begun_ns, arena_bytes;
    _Atomic int64_t saving_ns; /* since when a checkpoint is written; 0: none */
    _Alignas(64) exec_bell bell; /* where it sleeps */
    int64_t heard_ns; /* of a rank that is away: when its relay was heard last,
                         by the supervisor's clock */
    char cause[1024];
    exec_now now[EXEC_RECORD_STREAMS];
    exec_event ring[EXEC_RECORD_EVENTS];
} exec_record;
_Static_assert(sizeof(exec_record) <= EXEC_RECORD_BYTES, "a record has room");

/* Survives restarts. */
typedef struct exec_job_record {
    uint32_t magic;
    int32_t n_ranks;
    char host[64]; /* elsewhere the path leads to something else */
    atomic_bool fired[EXEC_MOST_FAILPOINTS]; /* failpoints: once per job */
    atomic_bool relayed; /* of a rank's own record: it is sent to who judges */
} exec_job_record;
_Static_assert(sizeof(exec_job_record) <= EXEC_JOB_BYTES, "one page");

/* ---- of a rank ---- */
struct exec_world;
typedef struct exec_recorder {
    exec_record *record;
    exec_job_record *job;
    bool supervised; /* it lies in the supervisor's file */
    size_t mapped_bytes;
} exec_recorder;
/* Of this process, when it is a rank of the job; FS_FAULT: no memory. */
fs_status exec_recorder_open(int32_t rank, fs_err *err, exec_recorder *out);
void exec_recorder_close(exec_recorder *recorder);
exec_recorder *exec_world_recorder(struct exec_world *world);
/* Does somebody read it, and judge, wherever it lies? */
bool exec_recorder_is_read(const exec_recorder *recorder);
/* From any thread; `recorder` may be NULL. While a checkpoint is on its way to
 * the disk, waiting for it is no hang. */
void exec_recorder_saving(exec_recorder *recorder, bool saving);
/* Notes why this rank is about to end; the first cause stays. From a signal
 * handler too. */
void exec_recorder_fail(exec_recorder *recorder, exec_fault fault,
                        const char *cause);
void exec_recorder_state(exec_recorder *recorder, exec_state state);

/* ---- of the supervisor ---- */
typedef struct exec_records {
    int32_t n, file;
    char path[64]; /* for FS_RECORDS: open as long as this process lives */
    char *at;
    size_t bytes;
} exec_records;
fs_status exec_records_create(int32_t n, fs_err *err, exec_records *out);
/* What another process of this host made for at least so many ranks; false:
 * not of this host. */
bool exec_records_open(const char *path, int32_t n, exec_records *out);
void exec_records_close(exec_records *records);
/* Failpoints that have fired, a bit each: FS_FIRED of ranks of other hosts. */
uint64_t exec_job_fired(const exec_job_record *job);
void exec_job_fire(exec_job_record *job, uint64_t fired);
exec_job_record *exec_records_job(const exec_records *records);
exec_record *exec_records_at(const exec_records *records, int32_t rank);
/* Before ranks are started again: nothing of the last ones, but for marks. */
void exec_records_clear(exec_records *records);
/* A step of what they wait for has come, or the end. */
void exec_records_ring(const exec_records *records);

#endif
