#include "config.h"
#include "cli/watch.h"

#include "base/clock.h"
#include "cli/hosts.h"
#include "cli/predict.h"
#include "cli/ranks.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A hang is no movement for so long, or for so many steps; before the first
 * step and after the last for as long, and longer where there are many bytes:
 * first values and digests pass over all of them. */
static const double usual_s = 5, start_s = 30, bytes_per_s = 2e7;
static const double saving_s = 600; /* a disk may be that slow */
enum { HANG_STEPS = 20 };
/* Of a look that came late no more counts: this process did not run either. */
static const double most_look_s = 0.5;
/* mpirun ends the others about a second after one has gone. */
static const double dead_patience_s = 3;

/* ---- opening ---- */

static double largest_arena(const plan *p)
{
    int64_t most = 0;
    for (int32_t i = 0; i < p->n_roles; i++)
        if (p->roles[i].arena_bytes > most)
            most = p->roles[i].arena_bytes;
    return (double)most;
}

fs_status cli_watch_open(cli *c, const cli_plan *p, double input_bytes,
                         cli_watch *out)
{
    sim_result sim;
    *out = (cli_watch){.c = c, .p = p};
    FS_TRY(cli_env_seconds("FS_STALL_S", usual_s, &c->err, &out->least_s));
    /* Without a prediction the least seconds have to do for the first step. */
    if (cli_predict(c, p, NULL, &sim) == FS_OK)
        out->predicted_s = sim.iteration_s;
    else
        c->err = (fs_err){0};
    out->first_s = (largest_arena(p->plan) + input_bytes) / bytes_per_s;
    FS_TRY(exec_records_create(p->cluster->n_devices, &c->err, &out->records));
    if (cli_on_hosts(c))
        out->relay = exec_relay_open(&out->records);
    out->ranks = fs_new(c->arena, cli_watched, out->records.n);
    return FS_OK;
}

void cli_watch_close(cli_watch *w)
{
    exec_relay_close(w->relay);
    exec_records_close(&w->records);
    fs_arena_destroy(w->arena);
    w->arena = NULL;
}

void cli_watch_forget(cli_watch *w)
{
    fs_arena_destroy(w->arena);
    w->arena = fs_arena_create();
    w->copies = NULL;
    w->fault = (cli_fault){.rank = -1};
}

/* Processes that the system ended for want of memory, since it began. */
static int64_t count_oom_kills(void)
{
    char line[128];
    long long n = 0;
    FILE *file = fopen("/proc/vmstat", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "oom_kill %lld", &n) == 1)
            break;
    if (file)
        fclose(file);
    return n;
}

void cli_watch_begin(cli_watch *w)
{
    exec_records_clear(&w->records);
    memset(w->ranks, 0, (size_t)w->records.n * sizeof *w->ranks);
    for (int32_t r = 0; r < w->records.n; r++)
        w->ranks[r].process = '?';
    w->looked_ns = fs_now_ns();
    w->quiet_s = w->dead_s = w->clock_s = w->stepping_s = 0;
    w->acts = 0;
    w->actless_s = 0;
    w->saving_told = false;
    w->done = w->untimed = w->steps = 0;
    w->oom_kills_before = count_oom_kills();
    cli_watch_forget(w);
}

/* ---- looking ---- */

static exec_record *record_of(const cli_watch *w, int32_t rank)
{
    return exec_records_at(&w->records, rank);
}

/* Its process, and that one's time in ticks. */
static char read_process(const exec_record *r, int64_t *ticks)
{
    if (!r->away)
        return exec_process_state(r->pid, ticks);
    *ticks = r->cpu_ticks;
    return (char)r->process;
}

static bool in_state(const exec_record *r, exec_state from, exec_state to)
{
    const int32_t state = r->state;
    return state >= (int32_t)from && state <= (int32_t)to;
}

static bool is_dead(const cli_watch *w, int32_t rank)
{
    return w->ranks[rank].seen && w->ranks[rank].process == 0 &&
           in_state(record_of(w, rank), EXEC_STARTING, EXEC_ENDING);
}

typedef struct look {
    bool moved, excused, dead;
} look;

/* Of another host, and for longer than a letter may take: its host, its relay
 * or the way there is gone. */
static bool is_unheard(const cli_watched *at)
{
    return at->unheard_s > most_look_s;
}

/* A rank that waits for the disk or in a debugger, or that others keep from its
 * core, does not hang. (One that waits for others goes on looking.) */
static bool is_excused(char process, int64_t ticks, const exec_record *r,
                       const cli_watched *was)
{
    return !is_unheard(was) && (process == 'D' || process == 't' ||
                                (process == 'R' && ticks == was->cpu_ticks &&
                                 r->heartbeat_ns == was->heartbeat_ns));
}

static void look_at(cli_watch *w, int32_t rank, double passed_s, look *all)
{
    cli_watched *at = &w->ranks[rank];
    exec_record *r = record_of(w, rank);
    int64_t ticks = 0;
    if (r->magic != EXEC_RECORD_MAGIC)
        return;
    const char process = read_process(r, &ticks);
    at->seen = true;
    at->unheard_s =
        r->away && r->heard_ns == at->heard_ns ? at->unheard_s + passed_s : 0;
    at->heard_ns = r->heard_ns;
    all->excused |= is_excused(process, ticks, r, at);
    all->moved |= r->moved_ns != at->moved_ns || r->state != at->state;
    at->still_s =
        r->heartbeat_ns != at->heartbeat_ns ? 0 : at->still_s + passed_s;
    at->stopped_s = process == 'T' ? at->stopped_s + passed_s : 0;
    at->process = process;
    at->cpu_ticks = ticks;
    at->moved_ns = r->moved_ns;
    at->state = r->state;
    at->heartbeat_ns = r->heartbeat_ns;
    all->dead |= is_dead(w, rank) || r->state == EXEC_FAILED;
}

/* Steps that all have done, and how long they took. */
static void count_steps(cli_watch *w, double passed_s)
{
    int64_t least = INT64_MAX;
    for (int32_t r = 0; r < w->records.n; r++) {
        const exec_record *of = record_of(w, r);
        const int64_t done = of->steps_done - of->first_step;
        if (w->ranks[r].seen && done < least)
            least = done;
    }
    if (w->done > 0)
        w->clock_s += passed_s;
    if (least == INT64_MAX || least <= w->done)
        return;
    if (w->done == 0)
        w->untimed = least;
    w->done = least;
    w->steps = least - w->untimed;
    w->stepping_s = w->clock_s;
}

static bool all_in(const cli_watch *w, exec_state from, exec_state to)
{
    for (int32_t r = 0; r < w->records.n; r++)
        if (w->ranks[r].seen && !in_state(record_of(w, r), from, to))
            return false;
    return true;
}

bool cli_watch_runs(const cli_watch *w)
{
    for (int32_t r = 0; r < w->records.n; r++)
        if (!w->ranks[r].seen || record_of(w, r)->state != EXEC_RUNNING)
            return false;
    return true;
}

/* Who waits for the disk with a checkpoint; -1: nobody. A stopped rank writes
 * nothing. */
static int32_t find_saving(const cli_watch *w)
{
    for (int32_t r = 0; r < w->records.n; r++)
        if (record_of(w, r)->saving_ns != 0 && w->ranks[r].stopped_s <= 0)
            return r;
    return -1;
}

/* All leave one barrier to run: of who is not heard of, the last word of its
 * start may be older than that. */
static bool all_run(const cli_watch *w)
{
    bool any = false;
    for (int32_t r = 0; r < w->records.n; r++) {
        if (!w->ranks[r].seen || is_unheard(&w->ranks[r]))
            continue;
        if (record_of(w, r)->state != EXEC_RUNNING)
            return false;
        any = true;
    }
    return any;
}

/* Of ranks that wait for no disk. */
static double usual_limit(const cli_watch *w)
{
    const double step_s =
        w->steps > 0 ? w->stepping_s / (double)w->steps : w->predicted_s;
    double limit = fmax(w->least_s, HANG_STEPS * step_s);
    if (!all_run(w))
        limit = fmax(limit, start_s) + w->first_s;
    else if (w->steps == 0)
        limit += w->first_s;
    return limit;
}

double cli_watch_limit(const cli_watch *w)
{
    const double limit = usual_limit(w);
    return find_saving(w) >= 0 ? fmax(limit, saving_s) : limit;
}

/* ---- what is wrong ---- */

/* "rank 2", "rank 2 on host b". */
static const char *name_of(const cli_watch *w, int32_t rank)
{
    const exec_record *r = record_of(w, rank);
    return r->away ? fs_printf(w->arena, "rank %d on host %s", rank, r->host)
                   : fs_printf(w->arena, "rank %d", rank);
}

static const char *where(const cli_watch *w, int32_t rank, const cli_at *at)
{
    const char *text =
        cli_at_text(w->p->model.graph, w->p->plan, rank, at, w->arena);
    const exec_record *r = record_of(w, rank);
    if (r->n_streams == 0)
        return " before its first step";
    if (!*text)
        return " after its last step";
    return fs_printf(w->arena, "%s %s",
                     !at->busy      ? " before"
                     : at->computes ? " in"
                                    : " waiting in",
                     text);
}

/* What it had begun, which may be more than what follows what it has done; what
 * its task is told with. */
static int64_t step_of(const cli_watch *w, int32_t rank)
{
    const exec_record *r = record_of(w, rank);
    const cli_at *at = &w->waits.at[rank];
    if (r->n_streams == 0)
        return 0;
    if (at->task < 0) /* after its last */
        return r->steps_done;
    return at->busy && at->step >= r->steps_done ? at->step + 1
                                                 : r->steps_done + 1;
}

int64_t cli_watch_step(cli_watch *w)
{
    int64_t most = 0;
    cli_watch_copy(w);
    for (int32_t r = 0; r < w->records.n; r++)
        if (step_of(w, r) > most)
            most = step_of(w, r);
    return most;
}

/* A rank that did nothing yet has moved when it began. */
static double since_moved(const cli_watch *w, int32_t rank, int64_t now_ns)
{
    const exec_record *r = record_of(w, rank);
    const int64_t moved_ns = r->moved_ns > 0 ? r->moved_ns : r->begun_ns;
    return moved_ns > 0 ? 1e-9 * (double)(now_ns - moved_ns) : w->quiet_s;
}

/* The first look at it counts, what it was is judged later. */
static void note_found(cli_watch *w, int32_t rank)
{
    const int64_t now_ns = fs_now_ns();
    if (w->fault.found_ns > 0)
        return;
    w->fault.found_ns = now_ns;
    /* Clocks of two hosts are compared to within what a letter takes. */
    w->fault.after_s =
        rank < 0 ? w->quiet_s : fmax(0, since_moved(w, rank, now_ns));
}

static void set_fault(cli_watch *w, exec_fault kind, int32_t rank,
                      const char *text)
{
    note_found(w, rank);
    w->fault.kind = kind;
    w->fault.rank = rank;
    w->fault.step = rank < 0 ? 0 : step_of(w, rank);
    w->fault.text = text;
}

/* The loop of a rank that waits goes round; of one that hangs it does not. */
static bool is_still(const cli_watch *w, int32_t rank)
{
    return w->ranks[rank].seen && w->quiet_s > 0.5 * w->least_s &&
           w->ranks[rank].still_s > 0.5 * w->quiet_s;
}

static bool is_lifeless(const cli_watch *w, int32_t rank)
{
    return is_still(w, rank) || is_dead(w, rank) ||
           w->ranks[rank].stopped_s > 0 ||
           (record_of(w, rank)->state == EXEC_FAILED &&
            record_of(w, rank)->fault != EXEC_INTERRUPTED);
}

/* Copies, which stand still. */
void cli_watch_copy(cli_watch *w)
{
    const int32_t n = w->records.n;
    if (w->copies)
        return;
    w->copies = fs_new(w->arena, const exec_record *, n);
    for (int32_t r = 0; r < n; r++)
        w->copies[r] = fs_memdup(w->arena, record_of(w, r), sizeof **w->copies);
    bool *lifeless = fs_new(w->arena, bool, n);
    for (int32_t r = 0; r < n; r++)
        lifeless[r] = is_lifeless(w, r);
    cli_waits_of(w->p->plan, w->copies, lifeless, w->arena, &w->waits);
}

static int32_t find_stopped(const cli_watch *w)
{
    for (int32_t r = 0; r < w->records.n; r++)
        if (w->ranks[r].stopped_s > 0)
            return r;
    return -1;
}

/* While others were: nobody knows what it does. */
static int32_t find_unheard(const cli_watch *w)
{
    for (int32_t r = 0; r < w->records.n; r++)
        if (is_unheard(&w->ranks[r]) &&
            w->ranks[r].unheard_s > 0.5 * w->quiet_s)
            return r;
    return -1;
}

static int32_t find_still(const cli_watch *w)
{
    const cli_waits *waits = &w->waits;
    const int32_t first[] = {waits->root, waits->late};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (first[i] >= 0 && is_still(w, first[i]))
            return first[i];
    for (int32_t r = 0; r < w->records.n; r++)
        if (is_still(w, r))
            return r;
    return -1;
}

/* Of those that were to start, while the others have no more than started. */
static int32_t find_missing(const cli_watch *w)
{
    int32_t missing = -1;
    if (cli_on_hosts(w->c) && !w->relay)
        return -1; /* of other hosts' nothing is heard in any case */
    for (int32_t r = 0; r < w->records.n; r++) {
        if (!w->ranks[r].seen && missing < 0)
            missing = r;
        if (w->ranks[r].seen &&
            !in_state(record_of(w, r), EXEC_STARTING, EXEC_STARTING))
            return -1;
    }
    return missing;
}

static const char *ring_text(const cli_watch *w, const cli_waits *waits)
{
    fs_text text = {.arena = w->arena};
    for (int32_t i = 0; i < waits->n_cycle; i++)
        fs_text_add(&text, "rank %d -> ", waits->cycle[i]);
    fs_text_add(&text, "rank %d", waits->cycle[0]);
    return text.at;
}

static void judge_hang(cli_watch *w)
{
    fs_arena *arena = w->arena;
    cli_watch_copy(w);
    const int32_t stopped = find_stopped(w);
    if (stopped >= 0) {
        set_fault(w, EXEC_STOPPED, stopped,
                  fs_printf(arena,
                            "%s is stopped (SIGSTOP): no progress for %.1f s,"
                            "%s",
                            name_of(w, stopped), w->quiet_s,
                            where(w, stopped, &w->waits.at[stopped])));
        return;
    }
    const int32_t missing = find_missing(w);
    if (missing >= 0) {
        set_fault(w, EXEC_HANG, missing,
                  fs_printf(arena,
                            "rank %d has not come: no progress for %.1f s, the "
                            "others wait for it",
                            missing, w->quiet_s));
        return;
    }
    const int32_t unheard = find_unheard(w);
    if (unheard >= 0) {
        set_fault(w, EXEC_HANG, unheard,
                  fs_printf(arena,
                            "nothing is heard of %s, nor is there progress, "
                            "for %.1f s (is its host gone, or the way there?):"
                            " last%s",
                            name_of(w, unheard), w->quiet_s,
                            where(w, unheard, &w->waits.at[unheard])));
        return;
    }
    int32_t rank = find_still(w);
    if (rank < 0 && w->waits.n_cycle > 0) {
        set_fault(w, EXEC_HANG, w->waits.cycle[0],
                  fs_printf(arena,
                            "the ranks wait for each other, no progress for "
                            "%.1f s: %s",
                            w->quiet_s, ring_text(w, &w->waits)));
        return;
    }
    if (rank < 0)
        rank = w->waits.root >= 0 ? w->waits.root : w->waits.differs;
    if (rank < 0)
        rank = 0;
    set_fault(w, EXEC_HANG, rank,
              fs_printf(arena, "%s hangs: no progress for %.1f s,%s",
                        name_of(w, rank), w->quiet_s,
                        where(w, rank, &w->waits.at[rank])));
}

/* Who is told to end by nobody in particular is so by mpirun. */
static bool is_told_to_end(const cli_watch *w)
{
    for (int32_t r = 0; r < w->records.n; r++)
        if (record_of(w, r)->state == EXEC_FAILED &&
            record_of(w, r)->fault == EXEC_INTERRUPTED)
            return true;
    return false;
}

/* A rank that said why; what mpirun's TERM ended is nobody's fault. */
static int32_t find_failed(const cli_watch *w)
{
    for (int32_t r = 0; r < w->records.n; r++)
        if (record_of(w, r)->state == EXEC_FAILED &&
            record_of(w, r)->fault != EXEC_INTERRUPTED)
            return r;
    return -1;
}

/* The first that is dead, before mpirun ends the others too. */
static void note_dead(cli_watch *w)
{
    cli_watch_copy(w);
    for (int32_t r = 0; r < w->records.n && w->fault.rank < 0; r++)
        if (is_dead(w, r)) {
            w->fault.rank = r;
            w->fault.step = step_of(w, r);
            note_found(w, r);
        }
    const int32_t failed = find_failed(w);
    if (failed >= 0)
        note_found(w, failed);
}

/* A rank that waits for a disk says that it moves, for that may yet come to an
 * end; but who looks on is told what all wait for. */
static void tell_saving(cli_watch *w, double passed_s)
{
    const int32_t rank = find_saving(w);
    int64_t acts = 0;
    for (int32_t r = 0; r < w->records.n; r++)
        acts += record_of(w, r)->completed;
    w->actless_s = acts == w->acts ? w->actless_s + passed_s : 0;
    w->saving_told &= acts == w->acts;
    w->acts = acts;
    if (rank < 0 || w->saving_told || w->actless_s <= usual_limit(w))
        return;
    w->saving_told = true;
    fs_warn("%s waits for the disk with a checkpoint, and all wait for that, "
            "for %.1f s now: after %g s it is a hang",
            name_of(w, rank), w->actless_s, saving_s);
}

static double passed_since(int64_t *then_ns)
{
    const int64_t now_ns = fs_now_ns();
    const double seconds = 1e-9 * (double)(now_ns - *then_ns);
    *then_ns = now_ns;
    return fmin(seconds, most_look_s);
}

static bool is_idle(const cli_watch *w)
{
    return w->idle && cli_watch_runs(w) && w->idle(w->idle_ctx);
}

bool cli_watch_look(cli_watch *w)
{
    look all = {0};
    bool seen = false;
    const double passed_s = passed_since(&w->looked_ns);
    exec_relay_look(w->relay);
    for (int32_t r = 0; r < w->records.n; r++) {
        look_at(w, r, passed_s, &all);
        seen |= w->ranks[r].seen;
    }
    const bool idle = is_idle(w);
    count_steps(w, idle ? 0 : passed_s);
    if (all.moved || idle)
        w->quiet_s = 0;
    else if (!all.excused && seen)
        w->quiet_s += passed_s;
    if (all.dead) {
        note_dead(w);
        w->dead_s += passed_s;
        return w->dead_s < dead_patience_s;
    }
    tell_saving(w, passed_s);
    if (w->quiet_s <= cli_watch_limit(w) || all_in(w, EXEC_ENDED, EXEC_ENDED))
        return true;
    judge_hang(w);
    return false;
}

void cli_watch_kill(const cli_watch *w)
{
    int64_t ticks;
    for (int32_t r = 0; r < w->records.n; r++) {
        const exec_record *of = record_of(w, r);
        if (of->magic == EXEC_RECORD_MAGIC && of->pid > 1 && !of->away &&
            read_process(of, &ticks) != 0)
            kill(of->pid, SIGKILL);
    }
}

bool cli_watch_all_ended(const cli_watch *w)
{
    for (int32_t r = 0; r < w->records.n; r++)
        if (record_of(w, r)->state != EXEC_ENDED)
            return false;
    return true;
}

/* ---- the end of a job ---- */

/* Gone without a word, the longest ago. (All are gone: of other hosts' ranks
 * the word of it may be lost with their host.) */
static int32_t find_gone(const cli_watch *w)
{
    int32_t found = -1;
    for (int32_t r = 0; r < w->records.n; r++) {
        const exec_record *of = record_of(w, r);
        int64_t ticks;
        if (!in_state(of, EXEC_STARTING, EXEC_ENDING) ||
            of->magic != EXEC_RECORD_MAGIC ||
            (read_process(of, &ticks) != 0 && !of->away))
            continue;
        if (found < 0 || of->heartbeat_ns < record_of(w, found)->heartbeat_ns)
            found = r;
    }
    return found;
}

static const char *at_step(const cli_watch *w, int32_t rank)
{
    const int64_t step = step_of(w, rank);
    if (record_of(w, rank)->n_streams > 0 && w->waits.at[rank].task < 0)
        return " after its last step";
    return step > 0 ? fs_printf(w->arena, " at step %lld", (long long)step)
                    : " before its first step";
}

static bool is_own(int number)
{
    return number == SIGSEGV || number == SIGBUS || number == SIGABRT ||
           number == SIGFPE || number == SIGILL;
}

static void judge_signal(cli_watch *w, int32_t rank, int number)
{
    fs_arena *arena = w->arena;
    const char *name = sigabbrev_np(number);
    const bool oom =
        number == SIGKILL && count_oom_kills() > w->oom_kills_before;
    set_fault(w,
              oom              ? EXEC_MEMORY
              : is_own(number) ? EXEC_CRASH
                               : EXEC_KILLED,
              rank,
              fs_printf(arena, "%s was killed by signal %d (SIG%s)%s%s",
                        rank < 0 ? "a rank" : name_of(w, rank), number,
                        name ? name : "?", rank < 0 ? "" : at_step(w, rank),
                        oom ? ": the system's memory ran out" : ""));
    w->fault.signal = number;
}

static void judge_launcher(cli_watch *w, const char *was, int number)
{
    const char *name = sigabbrev_np(number);
    set_fault(w, EXEC_KILLED, -1,
              fs_printf(w->arena,
                        "mpirun, which holds the ranks together, was %s by "
                        "signal %d (SIG%s)",
                        was, number, name ? name : "?"));
    w->fault.signal = number;
}

/* What ranks of other hosts had to say last is on its way. */
static void await_relays(cli_watch *w)
{
    enum { MOST_LOOKS = 10 };
    const struct timespec nap = {0, 50000000};
    for (int i = 0; w->relay && i < MOST_LOOKS; i++) {
        bool all = true;
        exec_relay_look(w->relay);
        for (int32_t r = 0; r < w->records.n; r++)
            all &= !record_of(w, r)->away || record_of(w, r)->process == 0;
        if (all)
            return;
        nanosleep(&nap, NULL);
    }
}

void cli_watch_judge(cli_watch *w, int raw)
{
    const int code = WIFEXITED(raw) ? WEXITSTATUS(raw) : 0;
    const int number = WIFSIGNALED(raw)      ? WTERMSIG(raw)
                       : cli_is_signal(code) ? code - 128
                                             : 0;
    await_relays(w);
    cli_watch_copy(w);
    if (w->fault.kind != EXEC_NO_FAULT)
        return;
    if (WIFSIGNALED(raw) && w->records.n > 1) { /* a rank's comes as a status */
        if (w->fault.rank < 0)
            judge_launcher(w, "killed", number);
        else
            set_fault(w, EXEC_CRASH, w->fault.rank,
                      fs_printf(w->arena,
                                "%s is gone%s, and mpirun did not say how",
                                name_of(w, w->fault.rank),
                                at_step(w, w->fault.rank)));
        return;
    }
    const int32_t failed = find_failed(w);
    if (failed >= 0) {
        const exec_record *r = record_of(w, failed);
        if (r->fault == EXEC_KILLED) {
            judge_signal(w, failed, SIGTERM);
            return;
        }
        set_fault(w, (exec_fault)r->fault, failed,
                  fs_printf(w->arena, "%s%s: %s", name_of(w, failed),
                            at_step(w, failed), r->cause));
        return;
    }
    const int32_t gone = w->fault.rank >= 0 ? w->fault.rank : find_gone(w);
    if (number > 0)
        judge_signal(w, gone, number);
    else if (gone >= 0)
        set_fault(w, code == FS_FAULT ? EXEC_OTHER : EXEC_CRASH, gone,
                  fs_printf(w->arena, "%s ended with status %d%s%s",
                            name_of(w, gone), code, at_step(w, gone),
                            code == FS_FAULT ? " (its message stands above)"
                                             : ", without a word"));
    else if (is_told_to_end(w))
        judge_launcher(w, "told to end", SIGTERM);
}
