/* Threads as stacks that one thread steps, and what they wait with. */
#include "config.h"

#include "interleave.h"

#include "base/ticker.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

typedef struct thread {
    ucontext_t at;
    char *stack;
    void *(*run)(void *ctx);
    void *ctx;
    bool over;
    interleave_may
        *may; /* what it waits for has come; NULL: it waits for nothing */
    void *for_what;
    bool timed; /* or until then */
    int64_t until_ns;
    int32_t priority;
    int32_t slow;  /* now and then it stays away, so many points at most, */
    int64_t away;  /* until then; */
    int32_t spent; /* all in all so many */
    int32_t quiet; /* empty rounds in a row in which nothing was new */
    int64_t seen;  /* of `work`, by then */
    int32_t rank;  /* that sleeps until it is called, + 1 */
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

int64_t interleave_now_ns(void)
{
    return is.now_ns;
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
    for (int32_t i = 0; i < is.n; i++)
        if (is.all[i].rank > 0 && interleave_awaits_look(is.all[i].rank - 1))
            interleave_fail("rank %d is not called: a message is there",
                            (int)is.all[i].rank - 1);
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
void interleave_rest(void)
{
    count_point();
    is.all[is.self].priority = --is.lowest;
    go_to(pick(is.self));
}

void interleave_wait_until(const char *where, interleave_may *may,
                           void *for_what)
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

void interleave_wait_timed(const char *where, interleave_may *may,
                           void *for_what, int64_t until_ns)
{
    is.all[is.self].timed = true;
    is.all[is.self].until_ns = until_ns;
    interleave_wait_until(where, may, for_what);
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
    interleave_forget_calls();
    add_thread(run_first, &f);
    swapcontext(&is.home, &is.all[0].at);
    interleave_link_end();
    is.how = NULL;
}

/* ---- what the linker puts in the place of the system's ---- */

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
    interleave_wait_until("pthread_join", is_over, &is.all[id]);
    interleave_take(&is.all[id]);
    return 0;
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

/* Who is called sleeps as ever, but does not spin before. */
void __real_exec_idle_wait(exec_world *world, exec_idle *idle);
static void sleep_for_call(thread *t, exec_world *world, exec_idle *idle)
{
    enum { MANY = 1000 };
    t->rank = world->rank + 1;
    world->long_waits = MANY;
    __real_exec_idle_wait(world, idle);
    t->rank = 0;
}

static bool has_worked(void *at)
{
    return is.work != ((const thread *)at)->seen;
}

WRAP(void, exec_idle_wait, exec_world *world, exec_idle *idle)
{
    thread *t = &is.all[is.self];
    if (!is.how) {
        __real_exec_idle_wait(world, idle);
        return;
    }
    if (idle->called && !idle->rung) {
        sleep_for_call(t, world, idle);
        return;
    }
    idle->rounds++;
    t->quiet = has_worked(t) ? 0 : t->quiet + 1;
    t->seen = is.work;
    if (t->quiet < PATIENCE || interleave_in_flight())
        interleave_rest();
    else
        interleave_wait_until("exec_idle_wait", has_worked, t);
}
