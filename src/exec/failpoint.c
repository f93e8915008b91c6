#include "config.h"
#include "exec/failpoint.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef enum action {
    KILL9,
    STOP,
    SEGV,
    ABORT,
    EXIT,
    HANG,
    SLEEP,
    SLOW,
    NO_SPACE,
    IO_ERROR,
    ACTIONS
} action;

static const struct {
    const char *name;
    bool saves; /* a fault of the disk can come there */
} points[EXEC_POINTS] = {
    {"start", false}, {"step", false}, {"fire", false},  {"transfer", false},
    {"save", true},   {"sync", true},  {"commit", true}, {"committed", true}};

static const struct {
    const char *name;
    bool wants_number, of_disk;
} actions[ACTIONS] = {
    [KILL9] = {"kill9", false, false},    [STOP] = {"stop", false, false},
    [SEGV] = {"segv", false, false},      [ABORT] = {"abort", false, false},
    [EXIT] = {"exit", false, false},      [HANG] = {"hang", false, false},
    [SLEEP] = {"sleep", true, false},     [SLOW] = {"slow", true, false},
    [NO_SPACE] = {"enospc", false, true}, [IO_ERROR] = {"eio", false, true}};

/* ---- reading ---- */

static fs_status refuse(const char *all, const char *at, const char *wanted,
                        fs_err *err)
{
    return fs_fail(err, FS_INVALID,
                   "FLOWSEARCH_FAILPOINT: '%.40s' at character %d: %s", at,
                   (int)(at - all) + 1, wanted);
}

static int find_point(const char *at, size_t n)
{
    for (int i = 0; i < EXEC_POINTS; i++)
        if (strlen(points[i].name) == n && memcmp(points[i].name, at, n) == 0)
            return i;
    return -1;
}

static int find_action(const char *at, size_t n)
{
    for (int i = 0; i < ACTIONS; i++)
        if (strlen(actions[i].name) == n && memcmp(actions[i].name, at, n) == 0)
            return i;
    return -1;
}

/* Digits only: no sign, no space. */
static bool read_number(const char **at, int64_t most, int64_t *out)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    errno = 0;
    const long long value = strtoll(*at, &end, 10);
    if (errno || value > most)
        return false;
    *at = end;
    *out = value;
    return true;
}

static fs_status read_action(const char *all, const char **at, fs_err *err,
                             exec_failpoint *out)
{
    const size_t n = strspn(*at, "abcdefghijklmnopqrstuvwxyz");
    const bool kill9 = n == 4 && strncmp(*at, "kill9", 5) == 0;
    const char *from = *at;
    out->action = find_action(from, kill9 ? 5 : n);
    if (out->action < 0)
        return refuse(all, from,
                      "an action is wanted: kill9, stop, segv, abort, exit, "
                      "hang, sleepMS, slowPCT, enospc or eio",
                      err);
    *at += kill9 ? 5 : n;
    if (actions[out->action].wants_number &&
        (!read_number(at, INT32_MAX, &out->argument) || out->argument == 0))
        return refuse(all, from,
                      "a number, 1 at least, is wanted behind it, as sleep500",
                      err);
    return FS_OK;
}

static fs_status read_one(const char *all, const char **at, fs_err *err,
                          exec_failpoint *out)
{
    const char *from = *at;
    const size_t n = strspn(from, "abcdefghijklmnopqrstuvwxyz");
    int64_t rank = -1;
    const int point = find_point(from, n);
    if (point < 0)
        return refuse(all, from,
                      "a name is wanted: start, step, fire, transfer, save, "
                      "sync, commit or committed",
                      err);
    out->at = (exec_point)point;
    *at += n;
    if (**at != ':' || (++*at, !read_number(at, INT64_MAX, &out->count)) ||
        out->count < 1)
        return refuse(all, from, "a count from 1 is wanted, as step:10", err);
    if (**at != '=')
        return refuse(all, from, "an action is wanted, as step:10=kill9", err);
    ++*at;
    FS_TRY(read_action(all, at, err, out));
    if (actions[out->action].of_disk && !points[out->at].saves)
        return refuse(all, from,
                      "enospc and eio are faults of save, sync, commit and "
                      "committed; elsewhere they do nothing",
                      err);
    if (**at == '@' && (++*at, !read_number(at, INT32_MAX, &rank)))
        return refuse(all, from, "a rank is wanted behind @", err);
    out->rank = (int32_t)rank;
    return FS_OK;
}

fs_status exec_failpoints_read(const char *text, fs_err *err,
                               exec_failpoints *out)
{
    const char *at = text ? text : "";
    out->n = 0;
    while (*at) {
        if (out->n == EXEC_MOST_FAILPOINTS)
            return refuse(text, at, "too many of them", err);
        FS_TRY(read_one(text, &at, err, &out->list[out->n]));
        out->n++;
        if (*at && *at != ';')
            return refuse(text, at, "';' or the end is wanted", err);
        at += *at == ';';
    }
    return FS_OK;
}

static fs_status check_one(const exec_failpoint *p,
                           const exec_failpoint_run *run, fs_err *err)
{
    const char *name = points[p->at].name;
    if (p->rank >= run->ranks)
        return fs_fail(err, FS_INVALID,
                       "FLOWSEARCH_FAILPOINT: there is no rank %d: the plan "
                       "has %d, counted from 0",
                       p->rank, run->ranks);
    if (p->at == EXEC_AT_STEP && run->steps > 0 && p->count > run->steps)
        return fs_fail(err, FS_INVALID,
                       "FLOWSEARCH_FAILPOINT: %s:%" PRId64
                       ": there is no such step, the last one is %" PRId64,
                       name, p->count, run->steps);
    if (points[p->at].saves && !run->saves)
        return fs_fail(err, FS_INVALID,
                       "FLOWSEARCH_FAILPOINT: %s:%" PRId64
                       ": no checkpoint is made (--checkpoint DIR)",
                       name, p->count);
    return FS_OK;
}

fs_status exec_failpoints_check(const exec_failpoints *f,
                                const exec_failpoint_run *run, fs_err *err)
{
    for (int32_t i = 0; i < f->n; i++)
        FS_TRY(check_one(&f->list[i], run, err));
    return FS_OK;
}

/* ---- acting ---- */

static void sleep_ms(int64_t ms)
{
    struct timespec left = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}

static int act(exec_failpoints *f, const exec_failpoint *p)
{
    switch ((action)p->action) {
    case KILL9:
        kill(getpid(), SIGKILL);
        break;
    case STOP:
        kill(getpid(), SIGSTOP);
        break;
    case SEGV:
        raise(SIGSEGV);
        break;
    case ABORT:
        abort();
    case EXIT:
        _exit(1);
    case HANG:
        for (;;)
            pause();
    case SLEEP:
        sleep_ms(p->argument);
        break;
    case SLOW:
        f->slow_percent = p->argument;
        break;
    case NO_SPACE:
        return ENOSPC;
    case IO_ERROR:
        return EIO;
    default:
        break;
    }
    return 0;
}

static int reach(exec_failpoints *f, exec_point at, int64_t count)
{
    int code = 0;
    for (int32_t i = 0; i < f->n; i++) {
        const exec_failpoint *p = &f->list[i];
        if (p->at == at && p->count == count &&
            (p->rank == f->rank || (p->rank < 0 && !f->named_only)) &&
            !atomic_exchange(&f->job->fired[i], true))
            code = act(f, p);
    }
    return code;
}

int exec_failpoint_come(exec_failpoints *f, exec_point at)
{
    if (!f || f->n == 0)
        return 0;
    return reach(f, at, atomic_fetch_add(&f->come[at], 1) + 1);
}

void exec_failpoint_step(exec_failpoints *f, int64_t step)
{
    if (f && f->n > 0)
        reach(f, EXEC_AT_STEP, step);
}
