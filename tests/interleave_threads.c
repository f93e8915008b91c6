/* Threads as stacks that one thread steps, and what they wait with. */
#include "config.h"

#include "interleave.h"

#include "base/ticker.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    MOST_THREADS = 64,
    STACK_BYTES = 1 << 20,
    PATIENCE = 70,        /* empty rounds without anything new anywhere, after
                             which a rank waits for that */
    MOST_POINTS = 4000000 /* of a run that ends */
};

typedef bool may_fn(void *for_what);

typedef struct thread {
    ucontext_t at;
    char *stack;
    void *(*run)(void *ctx);
    void *ctx;
    bool over;
    may_fn *may; /* what it waits for has come; NULL: it waits for nothing */
    void *for_what;
    bool timed; /* or until then */
    int64_t until_ns;
    int32_t priority;
    int32_t slow;  /* now and then it stays away, so many points at most, */
    int64_t away;  /* until then; */
    int32_t spent; /* all in all so many */
    int32_t quiet; /* empty rounds in a row in which nothing was new */
    int64_t seen;  /* of `work`, by then */
    const char *waits_in;
} thread;

static struct {
    interleave *how; /* NULL: nothing is stepped */
    uint64_t seed;
    int32_t n, self, after; /* threads; the one that runs; the one before */
    thread all[MOST_THREADS];
    ucontext_t home;
    int64_t now_ns, spread_ns, work;
    int32_t rate; /* it goes on in so many points but one; 0: by priority */
    int32_t lowest;
} is;

const char *interleave_refuses(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return "a sanitizer keeps book of stacks itself";
#else
    return NULL;
#endif
}

bool interleave_active(void)
{
    return is.how != NULL;
}

bool interleave_weak(void)
{
    return is.how && is.how->weak;
}

bool interleave_plants(interleave_fault fault)
{
    return is.how && is.how->fault == fault;
}

int32_t interleave_self(void)
{
    return is.self;
}

void interleave_work(void)
{
    if (is.how)
        is.work++;
}

void interleave_fail(const char *format, ...)
{
    va_list args;
    if (is.how && is.how->tree)
        printf("# interleaving %lld of all: ", (long long)is.how->tree->runs);
    else if (is.how)
        printf("# seed %llu: ", (unsigned long long)is.how->seed);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    if (is.how)
        interleave_explain();
    fflush(stdout);
    _exit(5);
}

/* ---- choices ---- */

static int32_t choose_of_tree(interleave_tree *tree, int32_t n)
{
    if (tree->at == tree->n) {
        if (tree->n == tree->room) {
            tree->room = tree->room ? 2 * tree->room : 256;
            tree->taken =
                realloc(tree->taken, (size_t)tree->room * sizeof *tree->taken);
            tree->of = realloc(tree->of, (size_t)tree->room * sizeof *tree->of);
            FS_ASSERT(tree->taken && tree->of);
        }
        tree->taken[tree->n] = 0;
        tree->of[tree->n++] = n;
    }
    if (tree->of[tree->at] != n)
        interleave_fail("the same choices led to another place");
    return tree->taken[tree->at++];
}

bool interleave_next(interleave_tree *tree)
{
    tree->runs++;
    while (tree->n > 0 && tree->taken[tree->n - 1] + 1 == tree->of[tree->n - 1])
        tree->n--;
    if (tree->n > 0)
        tree->taken[tree->n - 1]++;
    return tree->n > 0;
}

int32_t interleave_choose(int32_t n)
{
    int32_t choice = 0;
    if (!is.how)
        return 0;
    if (n > 1)
        choice = is.how->tree ? choose_of_tree(is.how->tree, n)
                              : (int32_t)fs_rand_below(&is.seed, n);
    is.how->choices += n > 1;
    is.how->digest = fs_mix(is.how->digest ^ (uint64_t)choice) + (uint64_t)n;
    return choice;
}

bool interleave_once_in(int32_t n)
{
    return interleave_choose(n) == 0;
}

/* ---- who is next ---- */

static bool may_run(const thread *t)
{
    return !t->over && (!t->may || t->may(t->for_what) ||
                        (t->timed && is.now_ns >= t->until_ns));
}

/* Those that may run, `but` not among them; those that stay away only when
 * there are no others. */
static int32_t list_runnable(int32_t list[MOST_THREADS], int32_t but)
{
    int32_t n = 0, here = 0;
    for (int32_t i = 0; i < is.n; i++)
        if (i != but && may_run(&is.all[i]))
            list[n++] = i;
    for (int32_t i = 0; i < n; i++)
        if (is.all[list[i]].away <= is.how->points)
            list[here++] = list[i];
    return here > 0 ? here : n;
}

static bool all_over(void)
{
    for (int32_t i = 0; i < is.n; i++)
        if (!is.all[i].over)
            return false;
    return true;
}

/* Nobody can run: time goes on to when somebody can. */
static void wait_for_time(void)
{
    int64_t first = INT64_MAX;
    for (int32_t i = 0; i < is.n; i++)
        if (!is.all[i].over && is.all[i].timed && is.all[i].until_ns < first)
            first = is.all[i].until_ns;
    if (first < INT64_MAX) {
        is.now_ns = first;
        return;
    }
    for (int32_t i = 0; i < is.n; i++)
        if (!is.all[i].over)
            printf("# thread %d waits in %s\n", (int)i, is.all[i].waits_in);
    interleave_fail("deadlock");
}

static int32_t highest(int32_t n, const int32_t *list)
{
    int32_t best = list[0];
    for (int32_t i = 1; i < n; i++)
        if (is.all[list[i]].priority > is.all[best].priority)
            best = list[i];
    return best;
}

static void go_to(int32_t next)
{
    const int32_t self = is.self;
    if (next == self)
        return;
    is.self = next;
    swapcontext(&is.all[self].at, &is.all[next].at);
}

static void stay_away(thread *t)
{
    enum { MOST = 60000 };
    if (t->slow == 0 || t->spent > MOST || !interleave_once_in(4))
        return;
    const int32_t points = interleave_choose(t->slow);
    t->away = is.how->points + points;
    t->spent += points;
}

static int32_t pick(int32_t but)
{
    int32_t list[MOST_THREADS];
    int32_t n = list_runnable(list, but);
    while (n == 0) {
        n = list_runnable(list, -1);
        if (n == 0)
            wait_for_time();
        n = list_runnable(list, -1);
    }
    stay_away(&is.all[is.self]);
    return !is.how->tree && is.rate == 0 ? highest(n, list)
                                         : list[interleave_choose(n)];
}

static void count_point(void)
{
    if (++is.how->points > MOST_POINTS)
        interleave_fail("it goes on for ever");
}

/* All interleavings with so many preemptions at most (Musuvathi and Qadeer,
 * CHESS, PLDI 2007). The time that a sleeper waits for may come just now. */
static int32_t preempt(void)
{
    interleave_tree *tree = is.how->tree;
    int32_t list[MOST_THREADS], n = 0;
    for (int32_t i = 0; i < is.n && tree->preemptions > 0; i++)
        if (i != is.self &&
            (may_run(&is.all[i]) || (is.all[i].timed && !is.all[i].over)))
            list[n++] = i;
    const int32_t choice = n > 0 ? interleave_choose(n + 1) : 0;
    if (choice == 0)
        return is.self;
    tree->preemptions--;
    const thread *next = &is.all[list[choice - 1]];
    if (!may_run(next))
        is.now_ns = next->until_ns;
    return list[choice - 1];
}

/* By priority: whose sinks now and then (Burckhardt et al., ASPLOS 2010). */
static bool gives_way(void)
{
    if (is.rate > 0)
        return interleave_once_in(is.rate);
    if (interleave_once_in(200))
        is.all[is.self].priority = --is.lowest;
    return true;
}

void interleave_point(void)
{
    if (!is.how)
        return;
    count_point();
    if (is.how->tree)
        go_to(preempt());
    else if (gives_way())
        go_to(pick(-1));
}

/* It has nothing to do: anybody else first. */
static void rest(void)
{
    count_point();
    is.all[is.self].priority = --is.lowest;
    go_to(pick(is.self));
}

static void wait_until(const char *where, may_fn *may, void *for_what)
{
    thread *t = &is.all[is.self];
    count_point();
    t->waits_in = where;
    t->may = may;
    t->for_what = for_what;
    if (!may_run(t))
        go_to(pick(is.self));
    t->may = NULL;
    t->timed = false;
}

static void wait_timed(const char *where, may_fn *may, void *for_what,
                       int64_t until_ns)
{
    is.all[is.self].timed = true;
    is.all[is.self].until_ns = until_ns;
    wait_until(where, may, for_what);
}

static bool never(void *unused)
{
    (void)unused;
    return false;
}

/* ---- threads ---- */

static void enter(void)
{
    thread *t = &is.all[is.self];
    interleave_take(t);
    t->run(t->ctx);
    interleave_give(t);
    t->over = true;
    interleave_work();
    if (all_over())
        setcontext(&is.home);
    go_to(pick(is.self));
    abort();
}

/* Some threads stay away now and then, for part of a step or for all of it. */
static int32_t add_thread(void *(*run)(void *), void *ctx)
{
    static const int32_t slows[] = {0, 0, 0, 0, 300, 20000};
    if (is.n == MOST_THREADS)
        interleave_fail("more than %d threads", MOST_THREADS);
    thread *t = &is.all[is.n];
    char *stack = t->stack;
    if (!stack)
        stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    FS_ASSERT(stack != MAP_FAILED);
    *t = (thread){.stack = stack, .run = run, .ctx = ctx};
    if (!is.how->tree) {
        t->priority = interleave_choose(1 << 20);
        t->slow = slows[interleave_choose(6)];
    }
    getcontext(&t->at);
    t->at.uc_stack.ss_sp = stack;
    t->at.uc_stack.ss_size = STACK_BYTES;
    makecontext(&t->at, enter, 0);
    interleave_give(t);
    return is.n++;
}

typedef struct first {
    void (*run)(void *ctx);
    void *ctx;
} first;

static void *run_first(void *ctx)
{
    const first *f = ctx;
    f->run(f->ctx);
    return NULL;
}

/* Some runs change threads at each point, some seldom, some by priority; in
 * some a moment takes long. */
static void draw_style(void)
{
    static const int32_t rates[] = {1, 3, 10, 50, 0};
    static const int64_t spreads_ns[] = {100, 3000, 40000};
    is.rate = rates[interleave_choose(5)];
    is.spread_ns = spreads_ns[interleave_choose(3)];
}

void interleave_run(interleave *how, void (*run)(void *ctx), void *ctx)
{
    first f = {run, ctx};
    how->digest = 0;
    how->choices = how->points = 0;
    is.how = how;
    is.seed = fs_mix(how->seed + 1);
    is.n = is.self = is.lowest = 0;
    is.now_ns = 1000000000;
    is.work = 0;
    is.spread_ns = 1;
    if (how->tree) {
        how->tree->at = 0;
        how->tree->preemptions = how->preemptions;
    } else {
        draw_style();
    }
    interleave_forget_memory();
    interleave_credit_reset();
    add_thread(run_first, &f);
    swapcontext(&is.home, &is.all[0].at);
    interleave_link_end();
    is.how = NULL;
}

/* ---- what the linker puts in the place of the system's ----
 * Their memory is ours while a run goes on; it is all zeroes before it is
 * used. */

#define WRAP(type, name, ...)                                                  \
    type __real_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

typedef struct lock {
    int32_t held; /* mutex: by thread held - 1; semaphore: posted */
    int32_t waiting, woken, turn;
} lock;
_Static_assert(sizeof(lock) <= sizeof(pthread_mutex_t) &&
                   sizeof(lock) <= sizeof(sem_t) &&
                   sizeof(lock) <= sizeof(pthread_cond_t) &&
                   sizeof(lock) <= sizeof(pthread_barrier_t),
               "it fits in each of them");

static lock *lock_at(void *at)
{
    return at;
}

static int begin_lock(void *at, int32_t held)
{
    *lock_at(at) = (lock){.held = held};
    return 0;
}

WRAP(int, pthread_create, pthread_t *out, const pthread_attr_t *attributes,
     void *(*run)(void *), void *ctx)
{
    if (!is.how)
        return __real_pthread_create(out, attributes, run, ctx);
    *out = (pthread_t)add_thread(run, ctx);
    interleave_work();
    interleave_point();
    return 0;
}

static bool is_over(void *at)
{
    return ((const thread *)at)->over;
}

WRAP(int, pthread_join, pthread_t id, void **result)
{
    if (!is.how)
        return __real_pthread_join(id, result);
    wait_until("pthread_join", is_over, &is.all[id]);
    interleave_take(&is.all[id]);
    return 0;
}

static bool is_free(void *at)
{
    return lock_at(at)->held == 0;
}

WRAP(int, pthread_mutex_init, pthread_mutex_t *m, const pthread_mutexattr_t *a)
{
    return is.how ? begin_lock(m, 0) : __real_pthread_mutex_init(m, a);
}

WRAP(int, pthread_mutex_destroy, pthread_mutex_t *m)
{
    return is.how ? 0 : __real_pthread_mutex_destroy(m);
}

WRAP(int, pthread_mutex_lock, pthread_mutex_t *m)
{
    if (!is.how)
        return __real_pthread_mutex_lock(m);
    interleave_point();
    wait_until("pthread_mutex_lock", is_free, m);
    lock_at(m)->held = is.self + 1;
    interleave_take(m);
    return 0;
}

WRAP(int, pthread_mutex_unlock, pthread_mutex_t *m)
{
    if (!is.how)
        return __real_pthread_mutex_unlock(m);
    if (lock_at(m)->held != is.self + 1)
        interleave_fail("a lock is let go of by who does not hold it");
    interleave_give(m);
    lock_at(m)->held = 0;
    interleave_point();
    return 0;
}

WRAP(int, pthread_cond_init, pthread_cond_t *c, const pthread_condattr_t *a)
{
    return is.how ? begin_lock(c, 0) : __real_pthread_cond_init(c, a);
}

WRAP(int, pthread_cond_destroy, pthread_cond_t *c)
{
    return is.how ? 0 : __real_pthread_cond_destroy(c);
}

static bool is_woken(void *at)
{
    return lock_at(at)->woken > 0;
}

WRAP(int, pthread_cond_wait, pthread_cond_t *c, pthread_mutex_t *m)
{
    if (!is.how)
        return __real_pthread_cond_wait(c, m);
    lock_at(c)->waiting++;
    interleave_give(m);
    lock_at(m)->held = 0;
    wait_until("pthread_cond_wait", is_woken, c);
    lock_at(c)->waiting--;
    lock_at(c)->woken--;
    wait_until("pthread_cond_wait", is_free, m);
    lock_at(m)->held = is.self + 1;
    interleave_take(m);
    return 0;
}

WRAP(int, pthread_cond_signal, pthread_cond_t *c)
{
    if (!is.how)
        return __real_pthread_cond_signal(c);
    lock_at(c)->woken += lock_at(c)->woken < lock_at(c)->waiting;
    interleave_work();
    interleave_point();
    return 0;
}

WRAP(int, pthread_cond_broadcast, pthread_cond_t *c)
{
    if (!is.how)
        return __real_pthread_cond_broadcast(c);
    lock_at(c)->woken = lock_at(c)->waiting;
    interleave_work();
    interleave_point();
    return 0;
}

/* held: how many meet; waiting: are there; turn: meetings so far. */
WRAP(int, pthread_barrier_init, pthread_barrier_t *b,
     const pthread_barrierattr_t *a, unsigned n)
{
    return is.how ? begin_lock(b, (int32_t)n)
                  : __real_pthread_barrier_init(b, a, n);
}

WRAP(int, pthread_barrier_destroy, pthread_barrier_t *b)
{
    return is.how ? 0 : __real_pthread_barrier_destroy(b);
}

typedef struct meeting {
    const lock *at;
    int32_t turn;
} meeting;

static bool has_met(void *at)
{
    const meeting *m = at;
    return m->at->turn != m->turn;
}

WRAP(int, pthread_barrier_wait, pthread_barrier_t *b)
{
    if (!is.how)
        return __real_pthread_barrier_wait(b);
    lock *l = lock_at(b);
    meeting m = {l, l->turn};
    interleave_give(b);
    if (++l->waiting == l->held) {
        l->waiting = 0;
        l->turn++;
        interleave_work();
        interleave_point();
    } else {
        wait_until("pthread_barrier_wait", has_met, &m);
    }
    interleave_take(b);
    return 0;
}

WRAP(int, sem_init, sem_t *s, int shared, unsigned value)
{
    return is.how ? begin_lock(s, (int32_t)value)
                  : __real_sem_init(s, shared, value);
}

WRAP(int, sem_destroy, sem_t *s)
{
    return is.how ? 0 : __real_sem_destroy(s);
}

static bool is_posted(void *at)
{
    return lock_at(at)->held > 0;
}

WRAP(int, sem_wait, sem_t *s)
{
    if (!is.how)
        return __real_sem_wait(s);
    wait_until("sem_wait", is_posted, s);
    lock_at(s)->held--;
    interleave_take(s);
    interleave_point();
    return 0;
}

static int64_t ns_of(const struct timespec *t)
{
    return (int64_t)t->tv_sec * 1000000000 + t->tv_nsec;
}

WRAP(int, sem_timedwait, sem_t *s, const struct timespec *until)
{
    if (!is.how)
        return __real_sem_timedwait(s, until);
    wait_timed("sem_timedwait", is_posted, s, ns_of(until));
    if (lock_at(s)->held == 0) {
        errno = ETIMEDOUT;
        return -1;
    }
    lock_at(s)->held--;
    interleave_take(s);
    return 0;
}

WRAP(int, sem_post, sem_t *s)
{
    if (!is.how)
        return __real_sem_post(s);
    interleave_give(s);
    lock_at(s)->held +=
        !interleave_plants(INTERLEAVE_LOST_WAKES) || !interleave_once_in(4);
    interleave_work();
    interleave_point();
    return 0;
}

/* ---- futexes: who waits, by the word's address ---- */

enum { WORDS = 64 };
static uint32_t calls[WORDS];

/* Two words that share a counter wake each other, which futexes may. */
static uint32_t *calls_of(const void *word)
{
    return &calls[fs_mix((uintptr_t)word) % WORDS];
}

typedef struct sleeper {
    const uint32_t *calls;
    uint32_t before;
} sleeper;

static bool is_called(void *ctx)
{
    const sleeper *s = ctx;
    return *s->calls != s->before;
}

static long wait_for_call(const uint32_t *word, uint32_t value,
                          const struct timespec *most)
{
    sleeper s = {calls_of(word), *calls_of(word)};
    if (*(const volatile uint32_t *)word != value) {
        errno = EAGAIN;
        return -1;
    }
    wait_timed("futex", is_called, &s, is.now_ns + ns_of(most));
    if (is_called(&s))
        return 0;
    errno = ETIMEDOUT;
    return -1;
}

static long call_waiting(const uint32_t *word)
{
    *calls_of(word) +=
        !interleave_plants(INTERLEAVE_LOST_WAKES) || !interleave_once_in(4);
    interleave_work();
    interleave_point();
    return 1;
}

WRAP(long, syscall, long number, ...)
{
    enum { MOST = 6 };
    long given[MOST];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < MOST; i++)
        given[i] = va_arg(list, long);
    va_end(list);
    if (!is.how || number != SYS_futex)
        return __real_syscall(number, given[0], given[1], given[2], given[3],
                              given[4], given[5]);
    if ((given[1] & FUTEX_CMD_MASK) == FUTEX_WAKE)
        return call_waiting((const uint32_t *)given[0]);
    return wait_for_call((const uint32_t *)given[0], (uint32_t)given[2],
                         (const struct timespec *)given[3]);
}

WRAP(int, sched_yield, void)
{
    if (!is.how)
        return __real_sched_yield();
    rest();
    return 0;
}

WRAP(int, nanosleep, const struct timespec *time, struct timespec *left)
{
    if (!is.how)
        return __real_nanosleep(time, left);
    wait_timed("nanosleep", never, NULL, is.now_ns + ns_of(time));
    return 0;
}

/* A disk takes its time: others go on. */
WRAP(int, fdatasync, int file)
{
    if (!is.how)
        return __real_fdatasync(file);
    interleave_point();
    return 0;
}

WRAP(int, fsync, int file)
{
    if (!is.how)
        return __real_fsync(file);
    interleave_point();
    return 0;
}

/* What the system writes is looked at as what we write is. */
WRAP(ssize_t, pread, int file, void *to, size_t n, off_t at)
{
    interleave_point();
    interleave_look(to, n, true);
    return __real_pread(file, to, n, at);
}

/* All clocks are one, and each look at it takes some time. */
WRAP(int, clock_gettime, clockid_t clock, struct timespec *out)
{
    if (!is.how)
        return __real_clock_gettime(clock, out);
    is.now_ns += 1 + (is.how->tree ? 0 : fs_rand_below(&is.seed, is.spread_ns));
    *out = (struct timespec){is.now_ns / 1000000000, is.now_ns % 1000000000};
    return 0;
}

/* The processor's counter tells a time of its own. */
WRAP(void, fs_ticker_tune, fs_ticker *t)
{
    if (!is.how)
        __real_fs_ticker_tune(t);
}

static bool has_worked(void *at)
{
    return is.work != ((const thread *)at)->seen;
}

WRAP(void, exec_idle_wait, const exec_world *world, exec_idle *idle)
{
    thread *t = &is.all[is.self];
    if (!is.how) {
        __real_exec_idle_wait(world, idle);
        return;
    }
    idle->rounds++;
    t->quiet = has_worked(t) ? 0 : t->quiet + 1;
    t->seen = is.work;
    if (t->quiet < PATIENCE || interleave_in_flight())
        rest();
    else
        wait_until("exec_idle_wait", has_worked, t);
}
