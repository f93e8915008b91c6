/* Flight records, and failpoints. */
#include "config.h"
#include "tests/tap.h"

#include "exec/failpoint.h"
#include "exec/relay.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- failpoints ---- */

static void refused(const char *text, const char *word)
{
    static exec_failpoints f;
    fs_err err = {0};
    const fs_status status = exec_failpoints_read(text, &err, &f);
    tap_ok(status == FS_INVALID && strstr(err.text, word),
           "failpoint: '%.40s' is refused (%s)", text, word);
    if (!strstr(err.text, word))
        printf("# %s\n", err.text);
}

static void test_reading(void)
{
    static exec_failpoints f;
    fs_err err = {0};
    tap_ok(exec_failpoints_read(NULL, &err, &f) == FS_OK && f.n == 0,
           "failpoint: none");
    tap_ok(exec_failpoints_read("step:10=kill9@1;sync:2=sleep500;"
                                "save:9223372036854775807=enospc",
                                &err, &f) == FS_OK &&
               f.n == 3,
           "failpoint: three");
    tap_ok(f.list[0].at == EXEC_AT_STEP && f.list[0].count == 10 &&
               f.list[0].rank == 1,
           "failpoint: name, count and rank");
    tap_ok(f.list[1].at == EXEC_AT_SYNC && f.list[1].argument == 500 &&
               f.list[1].rank == -1,
           "failpoint: a number behind its action; any rank");
    refused("steps:1=stop", "character 1: a name");
    refused("step", "a count");
    refused("step:0=stop", "a count");
    refused("step:-1=stop", "a count");
    refused("step:1", "an action is wanted");
    refused("step:1=kill", "character 8: an action");
    refused("step:1=kill99", "';' or the end");
    refused("step:1=sleep", "a number");
    refused("step:1=slow0", "a number, 1 at least");
    refused("step:1=enospc", "character 1: enospc and eio are faults of");
    refused("sync:1=eio;fire:1=eio", "character 12: enospc and eio are");
    refused("step:1=stop@", "a rank");
    refused("step:1=stop@x", "a rank");
    refused("step:1=stop,step:2=stop", "character 12: ");
    refused("step:1=stop;x", "character 13: a name");
    refused("step:99999999999999999999=stop", "a count");
}

static void test_coming(void)
{
    static exec_failpoints f;
    static exec_job_record job;
    fs_err err = {0};
    f.job = &job;
    f.rank = 1;
    exec_failpoints_read("save:3=enospc;sync:1=eio@0;sync:2=eio@1", &err, &f);
    int got[4];
    for (int i = 0; i < 4; i++)
        got[i] = exec_failpoint_come(&f, EXEC_AT_SAVE);
    tap_ok(!got[0] && !got[1] && got[2] == ENOSPC && !got[3],
           "failpoint: the third time, and only then");
    got[0] = exec_failpoint_come(&f, EXEC_AT_SYNC);
    got[1] = exec_failpoint_come(&f, EXEC_AT_SYNC);
    tap_ok(got[0] == 0 && got[1] == EIO, "failpoint: of its own rank only");
    for (int i = 0; i < EXEC_POINTS; i++)
        atomic_store(&f.come[i], 0);
    for (int i = 0; i < 4; i++)
        got[i] = exec_failpoint_come(&f, EXEC_AT_SAVE);
    tap_ok(!got[0] && !got[1] && !got[2] && !got[3],
           "failpoint: never again after a restart");
    tap_equal_int(exec_failpoint_come(NULL, EXEC_AT_SAVE), 0,
                  "failpoint: without any nothing happens");
}

/* ---- records ---- */

/* Another process, as a rank is. */
static int in_child(const exec_records *records, int32_t rank, int kill_it)
{
    int raw = 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        exec_recorder own;
        fs_err err = {0};
        setenv("FS_RECORDS", records->path, 1);
        if (exec_recorder_open(rank, &err, &own) != FS_OK || !own.supervised)
            _exit(9);
        own.record->steps_done = 7;
        atomic_store(&own.job->fired[rank], true);
        exec_recorder_saving(&own, true);
        if (kill_it)
            raise(SIGKILL);
        exec_recorder_saving(&own, false);
        exec_recorder_fail(&own, EXEC_DISK, "no room");
        exec_recorder_fail(&own, EXEC_OTHER, "later");
        exec_recorder_state(&own, EXEC_ENDED);
        _exit(0);
    }
    waitpid(child, &raw, 0);
    return raw;
}

static void test_records(void)
{
    exec_records records;
    fs_err err = {0};
    tap_ok(exec_records_create(3, &err, &records) == FS_OK,
           "records of three ranks");
    const exec_record *r = exec_records_at(&records, 2);
    tap_ok(r->state == EXEC_ABSENT && r->magic == 0, "an empty one");
    const int raw = in_child(&records, 2, 1);
    tap_ok(WIFSIGNALED(raw), "a rank is killed");
    tap_ok(r->magic == EXEC_RECORD_MAGIC && r->rank == 2 &&
               r->steps_done == 7 && r->state == EXEC_STARTING &&
               r->saving_ns > 0,
           "its record is readable, and says that it was saving");
    exec_records_clear(&records);
    tap_ok(r->state == EXEC_ABSENT && r->steps_done == 0,
           "cleared for the next ranks");
    const exec_job_record *job = (const exec_job_record *)(void *)records.at;
    tap_ok(job->fired[2] && !job->fired[1], "but what has fired stays");
    tap_equal_int(in_child(&records, 1, 0), 0, "a rank that fails");
    r = exec_records_at(&records, 1);
    tap_ok(r->fault == EXEC_DISK && strcmp(r->cause, "no room") == 0 &&
               r->state == EXEC_FAILED && r->saving_ns == 0,
           "the first cause stays, whatever is said later");
    tap_ok(WEXITSTATUS(in_child(&records, 3, 0)) == 9,
           "a rank beyond the job has a record of its own");
    exec_records_close(&records);
}

/* A rank that cannot open the records, killed in its third step. */
static void be_away(const char *relay)
{
    exec_recorder own;
    fs_err err = {0};
    unsetenv("FS_RECORDS");
    setenv("FS_FIRED", "4", 1);
    setenv("FS_RELAY", relay, 1);
    if (exec_recorder_open(1, &err, &own) != FS_OK || own.supervised)
        _exit(9);
    exec_relay_send(&own);
    while (!exec_recorder_is_read(&own))
        usleep(1000);
    own.record->n_streams = 1;
    own.record->now[0].task = 5;
    own.record->steps_done = 2;
    own.record->ring[0].task = 4;
    own.record->n_events = 1;
    atomic_store(&own.job->fired[0], true);
    raise(SIGKILL);
}

static void test_relay(void)
{
    exec_records records;
    fs_err err = {0};
    const struct timespec nap = {0, 10000000};
    exec_records_create(2, &err, &records);
    exec_relay *relay = exec_relay_open(&records);
    if (!relay) {
        tap_skip("this host has no network", "a record of another host");
        exec_records_close(&records);
        return;
    }
    char before[1024];
    snprintf(before, sizeof before, "%s", exec_relay_begin(relay));
    fflush(NULL);
    const char *now = exec_relay_begin(relay);
    const pid_t child = fork();
    if (child == 0)
        be_away(now);
    const exec_record *r = exec_records_at(&records, 1);
    for (int i = 0; i < 1000 && (r->pid == 0 || r->process != 0); i++) {
        exec_relay_look(relay);
        nanosleep(&nap, NULL);
    }
    waitpid(child, NULL, 0);
    tap_ok(r->magic == EXEC_RECORD_MAGIC && r->away && r->pid == child &&
               r->process == 0,
           "of a rank elsewhere it is told that it has gone");
    tap_ok(r->now[0].task == 5 && r->steps_done == 2 && r->ring[0].task == 4,
           "and what it was at");
    tap_equal_int((int64_t)exec_job_fired(exec_records_job(&records)), 5,
                  "and what has fired there, now or before");
    tap_ok(strcmp(before, now) != 0, "each start has its own number");
    exec_relay_close(relay);
    exec_records_close(&records);
}

static void test_words(void)
{
    int whole = 1;
    for (int i = 0; i < EXEC_FAULTS; i++)
        for (int k = 0; k < i; k++)
            whole &= strcmp(exec_fault_word((exec_fault)i),
                            exec_fault_word((exec_fault)k)) != 0;
    tap_ok(whole, "each fault has a word of its own");
}

int main(void)
{
    test_reading();
    test_coming();
    test_records();
    test_relay();
    test_words();
    return tap_done();
}
