/* Interleavings that a number chooses. The threads of one process are stepped
 * one at a time, on stacks of their own (interleave_threads.c); wherever one
 * waits, gives way, touches an atomic, asks the clock or polls a link, who goes
 * on, how late it is and what has arrived is drawn from a seed, or tried one
 * after the other. The code that is stepped is the runtime's own, compiled with
 * FS_INTERLEAVE and with the compiler's calls for every atomic, and linked so
 * that threads, semaphores and clocks are these: src/exec/INTERLEAVINGS.md. */
#ifndef FS_TESTS_INTERLEAVE_H
#define FS_TESTS_INTERLEAVE_H

#include "exec/link.h"
#include "exec/world.h"

/* Every choice of a run, so that the next run takes another turn at the last
 * one that has any left. */
typedef struct interleave_tree {
    int32_t n, room, at;
    int32_t *taken, *of;
    int32_t preemptions; /* in one run at most: what is left of them */
    int64_t runs;
} interleave_tree;
/* False when all has been tried. */
bool interleave_next(interleave_tree *tree);

/* Faults on purpose, to see that they are found. */
typedef enum interleave_fault {
    INTERLEAVE_SOUND,
    INTERLEAVE_NO_CREDITS, /* a task fires without its pieces and buffers */
    INTERLEAVE_NO_HOLDS,   /* what a checkpoint writes may be made anew */
    INTERLEAVE_LOST_WAKES, /* a semaphore's post goes astray, once in four */
    INTERLEAVE_EARLY_ENDS, /* who sends may go on before it is sent */
    INTERLEAVE_LAST_FIRST, /* messages overtake each other */
    INTERLEAVE_FAULTS
} interleave_fault;

typedef struct interleave {
    uint64_t seed;         /* drawn from this one, .. */
    interleave_tree *tree; /* .. or from all; NULL: drawn */
    int32_t preemptions;   /* of the tree's runs */
    bool weak;             /* loads may see what stands behind the newest store
                              (interleave_atomics.c) */
    interleave_fault fault;
    /* ---- what came of it ---- */
    uint64_t digest; /* of all choices */
    int64_t choices, points;
} interleave;

/* Calls `run` as the first thread and returns when all have ended. A deadlock,
 * a fault and what never ends say so, with the seed, and end the process: a
 * test runs it in a child. */
void interleave_run(interleave *how, void (*run)(void *ctx), void *ctx);
/* Says why with the seed, and ends the process. */
void interleave_fail(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));
/* NULL, or why not: stacks of our own are no good under a sanitizer. */
const char *interleave_refuses(void);
/* Is one running? */
bool interleave_active(void);

/* ---- for the other files of this tool ---- */
/* One of 0 .. n - 1. */
int32_t interleave_choose(int32_t n);
/* True once in n. */
bool interleave_once_in(int32_t n);
/* Another thread may go on here. */
void interleave_point(void);
/* Something happened that another may wait for. */
void interleave_work(void);
typedef bool interleave_may(void *for_what);
/* This thread goes on when that is true, or then. */
void interleave_wait_until(const char *where, interleave_may *may,
                           void *for_what);
void interleave_wait_timed(const char *where, interleave_may *may,
                           void *for_what, int64_t until_ns);
/* Others go on first. */
void interleave_rest(void);
int64_t interleave_now_ns(void);
/* Of the run before. */
void interleave_forget_calls(void);
bool interleave_weak(void);
bool interleave_plants(interleave_fault fault);
int32_t interleave_self(void);

/* A function that the linker puts in the place of the system's. */
#define WRAP(type, name, ...)                                                  \
    type __real_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__);                                           \
    type __wrap_##name(__VA_ARGS__)

/* ---- atomics: interleave_atomics.c ---- */
void interleave_forget_memory(void);
/* What a thread that begins or ends, a lock or a semaphore hands on: what was
 * done before `from` gives is seen after `to` takes. */
void interleave_give(const void *what);
void interleave_take(const void *what);
/* Plain memory that what is not compiled for it touches. */
void interleave_look(const void *at, size_t bytes, bool writes);

/* ---- links: interleave_link.c ---- */
/* Takes the place of the link of ranks that are threads, from their first call
 * on: a message is copied early, late or when both ends look, and its ends see
 * that when it pleases them. */
void interleave_link(exec_world *world);
/* All that was sent has arrived, or the run fails. */
void interleave_link_end(void);
/* Something is on its way or has arrived unseen; by this rank. */
bool interleave_in_flight(void);
bool interleave_awaits_look(int32_t rank);

/* ---- registers: interleave_credit.c ---- */
/* Forgets the ranks of the run before. */
void interleave_credit_reset(void);
/* Who waits for what, on stdout. */
void interleave_explain(void);
/* Firings that were looked at since the process began. */
int64_t interleave_firings(void);

#endif
