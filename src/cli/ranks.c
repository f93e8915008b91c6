#include "config.h"
#include "cli/ranks.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/guard.h"
#include "cli/hosts.h"
#include "exec/exec.h"
#include "exec/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_WORDS = 96 + CLI_HOSTS_WORDS };

/* What Open MPI must be told on a workstation: root is allowed where the user
 * is root, more ranks than cores too, and nobody is bound to one core. And
 * malloc: the scraps beside an aligned block, which glibc keeps in its cache
 * and merges with nothing, keep the next block as large out of the place of
 * the last, so that a rank's heap would hold oneDNN's packed operands several
 * times. Nothing on a rank's path asks malloc often. Values that the user has
 * set stay. */
static void set_environment(void)
{
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
    setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 0);
    if (geteuid() == 0) {
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
}

static const char *own_path(fs_arena *arena, const char *program)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    return n > 0 ? fs_strndup(arena, self, (size_t)n) : program;
}

static fs_status ended_by(cli *c, const char *what, int number)
{
    const char *abbreviation = sigabbrev_np(number);
    return fs_fail(&c->err, FS_FAULT, "%s was killed by signal %d (SIG%s)%s",
                   what, number, abbreviation ? abbreviation : "?",
                   number == SIGKILL ? "; the memory may have run out" : "");
}

/* ---- how a rank ended ---- */

static const char *mark_of(char path[FS_PATH_MAX], const char *dir, int status)
{
    snprintf(path, FS_PATH_MAX, "%s/status-%d", dir, status);
    return path;
}

/* The file that says that this rank lives. */
static char alive[FS_PATH_MAX];
static pid_t starter;
static exec_recorder *own_recorder;

/* From who started it: another rank has died, or the run is ended. Anybody else
 * has killed this one. */
static void leave(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (info->si_pid == starter) {
        unlink(alive);
        exec_recorder_fail(own_recorder, EXEC_INTERRUPTED,
                           getenv("OMPI_COMM_WORLD_SIZE")
                               ? "ended by mpirun"
                               : "ended by flowsearch");
    } else {
        exec_recorder_fail(own_recorder, EXEC_KILLED,
                           "was killed by signal 15 (SIGTERM)");
    }
    signal(number, SIG_DFL);
    raise(number);
}

void cli_mark_alive(void)
{
    const char *dir = getenv("FS_RANKS_OF");
    if (!dir || strcmp(dir, "/") == 0)
        return;
    snprintf(alive, sizeof alive, "%s/rank-%d", dir, exec_launched_rank());
    int file = open(alive, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file < 0)
        return;
    close(file);
    starter = getppid();
    struct sigaction action = {.sa_sigaction = leave, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
}

static const int crashes[] = {SIGSEGV, SIGABRT, SIGFPE, SIGILL};
enum { N_CRASHES = sizeof crashes / sizeof crashes[0] };
static struct sigaction others[N_CRASHES]; /* what stood there before */

/* Then what stood there before: MPI tells where it was. */
static void crash(int number, siginfo_t *info, void *context)
{
    static const char *const texts[N_CRASHES] = {
        "crashed by signal 11 (SIGSEGV)", "crashed by signal 6 (SIGABRT)",
        "crashed by signal 8 (SIGFPE)", "crashed by signal 4 (SIGILL)"};
    for (int i = 0; i < N_CRASHES; i++) {
        if (crashes[i] != number)
            continue;
        exec_recorder_fail(own_recorder, EXEC_CRASH, texts[i]);
        if ((others[i].sa_flags & SA_SIGINFO) && others[i].sa_sigaction)
            others[i].sa_sigaction(number, info, context);
    }
    signal(number, SIG_DFL);
    raise(number);
}

void cli_mark_crashes(exec_recorder *recorder)
{
    struct sigaction action = {.sa_sigaction = crash,
                               .sa_flags = SA_SIGINFO | SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    own_recorder = recorder;
    for (int i = 0; i < N_CRASHES; i++)
        sigaction(crashes[i], &action, &others[i]);
}

/* A rank that has not joined yet opens its record here: that wants none. */
bool cli_mark_memory(const char *text)
{
    static exec_recorder early;
    fs_err unused = {0};
    if (!own_recorder && cli_am_rank() &&
        exec_recorder_open(exec_launched_rank(), &unused, &early) == FS_OK)
        own_recorder = &early;
    exec_recorder_fail(own_recorder, EXEC_MEMORY, text);
    return own_recorder && exec_recorder_is_read(own_recorder);
}

/* The rank that left its file: mpirun ends the others by SIGTERM. -1: none, or
 * several did. */
static int32_t find_dead(const cli *c, int32_t n)
{
    char path[FS_PATH_MAX];
    int32_t dead = -1;
    for (int32_t r = 0; r < n; r++) {
        snprintf(path, sizeof path, "%s/rank-%d", c->scratch, r);
        if (access(path, F_OK) != 0)
            continue;
        if (dead >= 0)
            return -1;
        dead = r;
    }
    return dead;
}

void cli_mark_status(fs_status status)
{
    if (alive[0])
        unlink(alive);
    const char *dir = getenv("FS_RANKS_OF");
    char path[FS_PATH_MAX];
    if (!dir || status == FS_OK)
        return;
    int file =
        open(mark_of(path, dir, status), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (file >= 0)
        close(file);
}

/* What ranks of an earlier job of this command left there. */
static void forget_marks(const cli *c, int32_t n)
{
    char path[FS_PATH_MAX];
    if (!c->scratch[0])
        return;
    for (int status = FS_OK; status <= FS_FAULT; status++)
        unlink(mark_of(path, c->scratch, status));
    for (int32_t r = 0; r < n; r++) {
        snprintf(path, sizeof path, "%s/rank-%d", c->scratch, r);
        unlink(path);
    }
}

bool cli_is_signal(int code)
{
    return code > 128 && code - 128 <= SIGRTMAX;
}

/* mpirun ends with the status of a rank, with statuses of its own, and with
 * 128 + n when a signal n ended a rank. */
static bool said_by_rank(const cli *c, int code, int32_t n)
{
    char path[FS_PATH_MAX];
    return n == 1 || code == FS_FAULT ||
           access(mark_of(path, c->scratch, code), F_OK) == 0;
}

static fs_status outcome(cli *c, int raw, int32_t n)
{
    if (WIFSIGNALED(raw))
        return ended_by(c, n > 1 ? "mpirun" : "the rank", WTERMSIG(raw));
    int code = WEXITSTATUS(raw);
    if (code == 0)
        return FS_OK;
    if (code <= FS_FAULT && said_by_rank(c, code, n))
        return fs_fail(&c->err, (fs_status)code,
                       "a rank of %d ended with status %d (its message stands "
                       "above)",
                       n, code);
    if (code == 127)
        return fs_fail(&c->err, FS_FAULT, "cannot start %s",
                       n > 1 ? FS_MPIRUN : c->program);
    if (cli_is_signal(code)) {
        int32_t dead = find_dead(c, n);
        return ended_by(
            c, dead < 0 ? "a rank" : fs_printf(c->arena, "rank %d", dead),
            code - 128);
    }
    if (n > 1 && cli_hosts_allocated(c))
        return fs_fail(&c->err, FS_FAULT,
                       "mpirun did not run the ranks to their end on the hosts "
                       "of %s: status %d (--dry-run looks at them)",
                       cli_hosts_allocation_text(c), code);
    return fs_fail(&c->err, FS_FAULT,
                   "%s did not run the ranks to their end: status %d (its "
                   "message stands above)",
                   n > 1 ? "mpirun" : "the rank", code);
}

/* ---- interruption ---- */

/* What the wait below takes from a queue instead of handlers. */
static void hold_signals(cli *c, bool asked, sigset_t *held, sigset_t *before)
{
    cli_guard_stop(c);
    cli_guard_interrupts(held);
    sigaddset(held, SIGCHLD);
    if (asked)
        sigaddset(held, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, held, before);
}

static void release_signals(cli *c, const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
    cli_guard_start(c);
}

typedef struct waiting {
    pid_t child;
    const cli_ranks_watcher *watcher; /* NULL: nobody looks */
    int interrupt;                    /* its number; 0: there was none */
    bool ending;                      /* the child was told to end */
    int64_t told_ns;
} waiting;

static void end_child(waiting *w)
{
    if (!w->ending)
        kill(w->child, SIGTERM);
    w->ending = true;
    w->told_ns = fs_now_ns();
}

/* A stopped rank takes no other signal, and mpirun has patience with it. */
static void end_ranks(waiting *w)
{
    w->watcher->kill(w->watcher->ctx);
    end_child(w);
}

/* What is to be done while nothing came: mpirun, and what is left of its group,
 * goes at the latest when patience is over. */
static void look_after(waiting *w)
{
    const double patience_s = w->interrupt ? 15 : 5;
    const cli_ranks_watcher *watcher = w->watcher;
    if (!w->ending && watcher && !watcher->look(watcher->ctx))
        end_ranks(w);
    if (w->ending && 1e-9 * (double)(fs_now_ns() - w->told_ns) > patience_s) {
        if (watcher)
            watcher->kill(watcher->ctx);
        kill(-w->child, SIGKILL);
    }
}

/* Waits for the child; an interrupt is passed on to it, for mpirun ends its
 * ranks before it ends. */
static void wait_for(waiting *w, const sigset_t *held, int *raw)
{
    const struct timespec pause = {0, 100000000};
    for (;;) {
        pid_t ended = waitpid(w->child, raw, WNOHANG);
        if (ended == w->child)
            return;
        if (ended < 0 && errno != EINTR) {
            *raw = 0;
            return;
        }
        int number =
            sigtimedwait(held, NULL, w->watcher || w->ending ? &pause : NULL);
        if (number < 0)
            look_after(w);
        if (number == SIGUSR1)
            w->watcher->tell(w->watcher->ctx);
        if (number <= 0 || number == SIGCHLD || number == SIGUSR1 ||
            (w->watcher && w->watcher->ask(w->watcher->ctx, number)))
            continue;
        w->interrupt = number;
        end_child(w);
    }
}

/* In the child: a group of its own, so that an interrupt from a terminal
 * reaches mpirun once, through its parent; the end of that parent by any
 * signal ends it too. */
static void join_parent(const cli *c, pid_t parent, const sigset_t *before)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(FS_FAULT);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0)
        dup2(nothing, STDIN_FILENO);
    pthread_sigmask(SIG_SETMASK, before, NULL);
    cli_guard_leave(c);
}

bool cli_am_rank(void)
{
    return exec_started_by_mpirun() || getenv("FS_RANKS_OF");
}

/* With less than 9 MiB for its own files Open MPI 4.1 does not fail: it waits
 * for ever for ranks that have ended. */
static fs_status check_room(cli *c)
{
    enum { WANTED_MIB = 16 };
    const char *unused;
    struct statvfs room;
    FS_TRY(cli_scratch_file(c, "", &unused)); /* for cli_mark_status too */
    if (statvfs(c->scratch, &room) != 0)
        return FS_OK;
    double free_mib = (double)room.f_bavail * (double)room.f_frsize / 0x1p20;
    if (free_mib >= WANTED_MIB)
        return FS_OK;
    return fs_fail(&c->err, FS_FAULT,
                   "%s: No space left on device: starting ranks wants %d MiB "
                   "there, %.1f are free (TMPDIR says where)",
                   c->scratch, WANTED_MIB, free_mib);
}

static void fill_words(cli *c, int32_t n, const char *const *words,
                       const char *argv[MAX_WORDS])
{
    int count = 0;
    if (n > 1 || cli_on_hosts(c)) {
        argv[count++] = FS_MPIRUN;
        argv[count++] = "-q";
        argv[count++] = "-n";
        argv[count++] = fs_printf(c->arena, "%d", n);
        count += cli_hosts_words(c, argv + count);
    }
    argv[count++] = own_path(c->arena, c->program);
    for (; *words && count < MAX_WORDS - 1; words++)
        argv[count++] = *words;
    FS_ASSERT(!*words);
    argv[count] = NULL;
}

const char **cli_launch_words(cli *c, int32_t n, const char *const *words)
{
    const char **argv = fs_new(c->arena, const char *, MAX_WORDS);
    fill_words(c, n, words, argv);
    return argv;
}

/* As a shell takes it. */
static void add_quoted(fs_text *line, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=+,./:@%";
    if (*word && strspn(word, plain) == strlen(word)) {
        fs_text_add(line, " %s", word);
        return;
    }
    fs_text_add(line, " '");
    for (; *word; word++)
        if (*word == '\'')
            fs_text_add(line, "'\\''");
        else
            fs_text_add(line, "%c", *word);
    fs_text_add(line, "'");
}

void cli_tell_launch(cli *c, int32_t n, const char *const *words)
{
    const char *argv[MAX_WORDS];
    fs_text line = {.arena = c->arena};
    json_t *list = json_array();
    fill_words(c, n, words, argv);
    for (int i = 0; argv[i]; i++) {
        add_quoted(&line, argv[i]);
        json_array_append_new(list, fs_json_string(argv[i]));
    }
    json_object_set_new(c->result, "launch", list);
    cli_say(c, "launch:%s\n", line.at);
}

/* In the child: what ranks are told. */
static void tell_ranks(const cli *c, const cli_ranks_watcher *watcher)
{
    set_environment();
    setenv("FS_DATA", c->data_dir, 1);
    setenv("FS_RANKS_OF", c->scratch[0] ? c->scratch : "/", 1);
    if (cli_on_hosts(c))
        setenv("FS_HOSTS", "1", 1);
    if (watcher)
        setenv("FS_RECORDS", watcher->records, 1);
}

void cli_launch_environment(const cli *c)
{
    tell_ranks(c, NULL);
}

fs_status cli_start_ranks(cli *c, int32_t n, const char *const *words,
                          const cli_ranks_watcher *watcher)
{
    const char *argv[MAX_WORDS];
    if (n > 1)
        FS_TRY(check_room(c));
    forget_marks(c, n);
    fill_words(c, n, words, argv);
    fflush(NULL);
    sigset_t held, before;
    pid_t parent = getpid();
    hold_signals(c, watcher != NULL, &held, &before);
    pid_t child = fork();
    if (child == 0) {
        join_parent(c, parent, &before);
        tell_ranks(c, watcher);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    int raw = 0, fault = errno;
    waiting w = {.child = child, .watcher = watcher};
    if (child > 0)
        wait_for(&w, &held, &raw);
    if (child > 0 && watcher) {
        watcher->kill(watcher->ctx); /* whom mpirun left behind */
        watcher->ended(watcher->ctx, raw);
    }
    release_signals(c, &before);
    if (child < 0)
        return fs_fail(&c->err, FS_FAULT, "fork: %s", strerror(fault));
    if (w.interrupt) {
        char text[64];
        c->interrupted = true;
        cli_guard_text(w.interrupt, text, sizeof text);
        return fs_fail(&c->err, FS_FAULT, "%s", text);
    }
    return outcome(c, raw, n);
}
