#include "config.h"
#include "cli/guard.h"

#include "base/clock.h"
#include "base/file.h"
#include "cli/ranks.h"
#include "exec/recorder.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

struct cli_guard {
    pthread_t thread;
    pid_t process;
    bool running;
    atomic_bool stopping;
    atomic_bool asks_first, stop;     /* what the first one does; did it? */
    const atomic_bool *_Atomic there; /* is there a plan? NULL: nobody asks */
    atomic_int asked;                 /* which */
    sigset_t held, before;
    const cli *of;
};

/* What the handler of SIGBUS, which is handed nothing of ours, leaves to the
 * thread that is to end this process. */
static _Atomic(struct cli_guard *) on_guard;
static atomic_bool file_lost;
static char lost_text[FS_PATH_MAX + 64];
static const cli *of_process; /* whose memory may run out */

void cli_guard_interrupts(sigset_t *out)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE};
    struct sigaction action;
    sigemptyset(out);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigaction(numbers[i], NULL, &action) == 0 &&
            action.sa_handler != SIG_IGN)
            sigaddset(out, numbers[i]);
}

bool cli_guard_asks(int number)
{
    return number == SIGINT || number == SIGTERM;
}

void cli_guard_text(int number, char *text, size_t room)
{
    const char *name = sigabbrev_np(number);
    snprintf(text, room, "interrupted by signal %d (SIG%s)", number,
             name ? name : "?");
}

/* By a connection of its own: the command's may be inside a transaction. */
static void end_row(const cli *c, const char *json, const char *message)
{
    const char *path = c->args.db ? c->args.db : "flowsearch.db";
    fs_err err = {0};
    store_db *db = NULL;
    fs_status status = store_open_existing(path, &err, &db);
    if (status == FS_OK)
        status = store_run_end(db, c->run, FS_FAULT, json, message, &err);
    if (status != FS_OK)
        fs_warn("%s", err.text);
    store_close(db);
}

/* The number of the interrupt, 0 for a lost file, -1 when told to stop. */
static int wait_interrupt(const struct cli_guard *g)
{
    int number = 0;
    while (sigwait(&g->held, &number) != 0 || number == SIGRTMIN) {
        if (atomic_load(&file_lost))
            return 0;
        if (atomic_load(&g->stopping))
            return -1;
    }
    return number;
}

static bool is_early(const struct cli_guard *g)
{
    const atomic_bool *there = atomic_load(&g->there);
    return there && !atomic_load(there);
}

/* Is it the one that only asks? */
static bool ask(struct cli_guard *g, int number)
{
    if (!cli_guard_asks(number) || !atomic_load(&g->asks_first) ||
        atomic_load(&g->asked) || is_early(g))
        return false;
    atomic_store(&g->asked, number);
    atomic_store(&g->stop, true);
    fs_progress("%s", "");
    fs_warn("SIG%s: taking the best so far; once more ends at once",
            sigabbrev_np(number));
    return true;
}

static void remove_files(const cli *c)
{
    for (int i = 0; c->unfinished && c->unfinished[i]; i++)
        unlink(c->unfinished[i]);
    fs_scratch_remove(c->scratch);
}

/* Touches nothing that the command may be changing. Under mpirun the job has
 * one message, and an interrupt there often follows another rank's fault. */
static void *watch(void *arg)
{
    struct cli_guard *g = arg;
    const cli *c = g->of;
    char text[128];
    int number;
    do
        number = wait_interrupt(g);
    while (ask(g, number));
    if (number < 0)
        return NULL;
    cli_guard_text(number, text, 64);
    if (is_early(g))
        strcat(text, ", before a plan was found");
    const char *message = number ? text : lost_text;
    json_t *told =
        json_pack("{s:s, s:o}", "fault",
                  exec_fault_word(number ? EXEC_INTERRUPTED : EXEC_DATA),
                  "fault_text", fs_json_string(message));
    char *json = json_dumps(told, JSON_COMPACT);
    fs_progress("%s", "");
    if (!c->world || !number)
        fs_warn("%s", message);
    if (c->run)
        end_row(c, json, message);
    fs_scratch_remove(c->scratch);
    if (c->args.json && !c->quiet)
        dprintf(STDOUT_FILENO, "%s\n", json);
    /* Last: the command may be making one until then. */
    remove_files(c);
    _exit(FS_FAULT);
}

void cli_guard_start(cli *c)
{
    struct cli_guard *g = c->guard;
    if (!g) {
        g = c->guard = fs_new(c->arena, struct cli_guard, 1);
        g->of = c;
        g->process = getpid();
        cli_guard_interrupts(&g->held);
        sigaddset(&g->held, SIGRTMIN); /* wakes the thread to stop */
        pthread_sigmask(SIG_BLOCK, &g->held, &g->before);
    }
    atomic_store(&g->stopping, false);
    if (!g->running)
        g->running = pthread_create(&g->thread, NULL, watch, g) == 0;
    if (!g->running) /* as without a guard */
        pthread_sigmask(SIG_SETMASK, &g->before, NULL);
    atomic_store(&on_guard, g->running ? g : NULL);
}

void cli_guard_ask_first(cli *c, const atomic_bool *there)
{
    if (!c->guard)
        return;
    atomic_store(&c->guard->there, there);
    atomic_store(&c->guard->asks_first, true);
}

const atomic_bool *cli_guard_stop_flag(const cli *c)
{
    return c->guard ? &c->guard->stop : NULL;
}

int cli_guard_asked(const cli *c)
{
    return c->guard ? atomic_load(&c->guard->asked) : 0;
}

void cli_guard_stop(cli *c)
{
    struct cli_guard *g = c->guard;
    if (!g || !g->running)
        return;
    g->running = false;
    atomic_store(&on_guard, NULL);
    atomic_store(&g->stopping, true);
    pthread_kill(g->thread, SIGRTMIN);
    pthread_join(g->thread, NULL);
}

/* In the thread that read; a fork has no guard of its own. */
static void lose_file(int number, siginfo_t *info, void *context)
{
    static const char cut[] = ": cut by another program while it was read";
    char *end = lost_text;
    (void)context;
    if (!cli_mapping_at(info->si_addr, lost_text, FS_PATH_MAX))
        strcpy(lost_text, "a mapped file");
    end += strlen(lost_text);
    strcpy(end, cut);
    struct cli_guard *g = atomic_load(&on_guard);
    if (g && g->process == getpid() &&
        !pthread_equal(pthread_self(), g->thread)) {
        atomic_store(&file_lost, true);
        pthread_kill(g->thread, SIGRTMIN);
        for (;;)
            pause();
    }
    struct iovec parts[] = {
        {"flowsearch: ", 12}, {lost_text, strlen(lost_text)}, {"\n", 1}};
    if (writev(STDERR_FILENO, parts, 3) < 0)
        raise(number);
    _exit(FS_FAULT);
}

void cli_guard_files(void)
{
    struct sigaction action = {.sa_sigaction = lose_file,
                               .sa_flags = SA_SIGINFO | SA_RESETHAND};
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, NULL);
    /* A write beyond the limit then fails as one on a full disk does. */
    signal(SIGXFSZ, SIG_IGN);
}

/* Ranks make no file that is listed here, and the folder is their parent's. */
void fs_exhausted(const char *text)
{
    if (cli_mark_memory(text))
        return;
    fs_warn("%s", text);
    if (of_process && !cli_am_rank())
        remove_files(of_process);
}

void cli_guard_memory(const cli *c)
{
    of_process = c;
    json_set_alloc_funcs(fs_malloc, free);
}

void cli_guard_leave(const cli *c)
{
    if (c->guard)
        pthread_sigmask(SIG_SETMASK, &c->guard->before, NULL);
}

fs_status cli_scratch_file(cli *c, const char *name, const char **path)
{
    char dir[FS_PATH_MAX];
    if (!c->scratch[0]) {
        cli_guard_stop(c);
        fs_status status = fs_scratch_open(&c->err, dir);
        if (status == FS_OK)
            c->scratch = fs_strdup(c->arena, dir);
        cli_guard_start(c);
        FS_TRY(status);
    }
    *path = fs_printf(c->arena, "%s/%s", c->scratch, name);
    return FS_OK;
}
