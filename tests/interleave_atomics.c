/* What the compiler calls under -fsanitize=thread, without the library that it
 * means: every atomic is a place where another thread may go on. A run that is
 * `weak` is also told what C11 lets a load see beside the newest store, and
 * fails where plain accesses of two threads are not ordered.
 *
 * The model: an atomic's stores have one order, that of the run. A thread may
 * read any of them that is not older than what it has read or written there,
 * than what happened before, and, if both are sequentially consistent, than the
 * last such store; a change in place reads the newest. What it reads again and
 * again it sees in the end. Left out: fences but sequentially consistent ones
 * (stronger here than in C11: they order plain accesses too), and stores that
 * go behind others of the same place. (Norris and Demsky, CDSChecker, OOPSLA
 * 2013.) */
#include "config.h"

#include "interleave.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 8, STORES = 256, PLACES = 1 << 17 };

typedef struct clocks {
    uint32_t at[THREADS];
} clocks;

/* ---- what happened before what ---- */

static struct {
    clocks now[THREADS];
} hb;

static void join(clocks *to, const clocks *from)
{
    for (int i = 0; i < THREADS; i++)
        to->at[i] = to->at[i] > from->at[i] ? to->at[i] : from->at[i];
}

static int me(void)
{
    const int32_t self = interleave_self();
    if (self >= THREADS)
        interleave_fail("more than %d threads in a weak run", THREADS);
    return self;
}

/* ---- places in memory: a table by address ---- */

typedef struct store {
    uint64_t value;
    int32_t by; /* -1: before all */
    uint32_t when;
    clocks hands_on; /* to who acquires it */
    bool in_order;   /* sequentially consistent */
} store;

typedef struct place {
    uintptr_t address; /* 0: free */
    /* of an atomic */
    int32_t n;
    store *stores;         /* [STORES] */
    int32_t seen[THREADS]; /* the newest that a thread has read or written */
    bool stale[THREADS];   /* the last time it read another than the newest */
    /* of a plain byte: when it was written and read last */
    int32_t writer;
    uint32_t written;
    clocks read;
    /* of a lock, a thread: handed on */
    clocks given;
} place;

static place *places;
static int32_t n_places, used[PLACES];

static place *place_at(const volatile void *at)
{
    const uintptr_t address = (uintptr_t)at;
    size_t i = fs_mix(address) % PLACES;
    if (!places)
        places = calloc(PLACES, sizeof *places);
    FS_ASSERT(places);
    while (places[i].address && places[i].address != address)
        i = (i + 1) % PLACES;
    if (!places[i].address) {
        if (n_places > PLACES / 2)
            interleave_fail("too much memory in a weak run");
        used[n_places++] = (int32_t)i;
        places[i].address = address;
        places[i].writer = -1;
    }
    return &places[i];
}

void __real_free(void *at);

void interleave_forget_memory(void)
{
    for (int32_t i = 0; i < n_places; i++) {
        __real_free(places[used[i]].stores);
        places[used[i]] = (place){0};
    }
    n_places = 0;
    memset(&hb, 0, sizeof hb);
    for (int i = 0; i < THREADS; i++)
        hb.now[i].at[i] = 1;
}

/* What is allocated next is another's, and orders what was done before. */
void __wrap_free(void *at);
void __wrap_free(void *at)
{
    const uintptr_t first = (uintptr_t)at;
    const size_t bytes = at && interleave_weak() ? malloc_usable_size(at) : 0;
    for (int32_t i = 0; i < n_places && bytes > 0; i++) {
        place *p = &places[used[i]];
        const uintptr_t address = p->address;
        if (address < first || address >= first + bytes)
            continue;
        __real_free(p->stores);
        *p = (place){.address = address, .writer = -1};
    }
    __real_free(at);
}

void interleave_give(const void *what)
{
    if (!interleave_weak())
        return;
    join(&place_at(what)->given, &hb.now[me()]);
    hb.now[me()].at[me()]++;
    hb.now[me()].at[me()]++;
}

void interleave_take(const void *what)
{
    if (interleave_weak())
        join(&hb.now[me()], &place_at(what)->given);
}

/* ---- atomics ---- */

static bool acquires(int order)
{
    return order == memory_order_acquire || order == memory_order_consume ||
           order == memory_order_acq_rel || order == memory_order_seq_cst;
}

static bool releases(int order)
{
    return order == memory_order_release || order == memory_order_acq_rel ||
           order == memory_order_seq_cst;
}

static place *atomic_at(const volatile void *at, uint64_t value)
{
    place *p = place_at(at);
    if (p->n == 0) {
        p->stores = calloc(STORES, sizeof *p->stores);
        FS_ASSERT(p->stores);
        p->stores[p->n++] = (store){.value = value, .by = -1};
    }
    return p;
}

/* The oldest store that this thread may still read. */
static int32_t oldest(const place *p, int order)
{
    int32_t first = p->seen[me()];
    for (int32_t i = p->n - 1; i > first; i--) {
        const store *s = &p->stores[i];
        if ((s->by >= 0 && s->when <= hb.now[me()].at[s->by]) ||
            (s->in_order && order == memory_order_seq_cst))
            first = i;
    }
    return first;
}

static uint64_t weak_load(const volatile void *at, uint64_t newest, int order)
{
    place *p = atomic_at(at, newest);
    const int32_t first = p->stale[me()] ? p->n - 1 : oldest(p, order);
    const int32_t i = p->n - 1 - interleave_choose(p->n - first);
    p->stale[me()] = i < p->n - 1;
    p->seen[me()] = i;
    if (acquires(order))
        join(&hb.now[me()], &p->stores[i].hands_on);
    return p->stores[i].value;
}

/* In place: what the store before it hands on goes on with it. */
static void weak_store(const volatile void *at, uint64_t before, uint64_t value,
                       int order, bool in_place)
{
    place *p = atomic_at(at, before);
    if (p->n == STORES)
        interleave_fail("more than %d stores to one place", STORES);
    store s = {.value = value,
               .by = me(),
               .when = ++hb.now[me()].at[me()],
               .in_order = order == memory_order_seq_cst};
    const clocks *last = &p->stores[p->n - 1].hands_on;
    if (in_place && acquires(order))
        join(&hb.now[me()], last);
    if (in_place)
        s.hands_on = *last;
    if (releases(order)) {
        join(&s.hands_on, &hb.now[me()]);
        hb.now[me()].at[me()]++; /* what comes next is not handed on */
    }
    p->seen[me()] = p->n;
    p->stale[me()] = false;
    p->stores[p->n++] = s;
}

#ifndef __SANITIZE_THREAD__ /* else they are its library's */

#define LOADS(bits)                                                            \
    uint##bits##_t __tsan_atomic##bits##_load(                                 \
        const volatile uint##bits##_t *at, int order);                         \
    uint##bits##_t __tsan_atomic##bits##_load(                                 \
        const volatile uint##bits##_t *at, int order)                          \
    {                                                                          \
        interleave_point();                                                    \
        const uint##bits##_t value = __atomic_load_n(at, __ATOMIC_SEQ_CST);    \
        return interleave_weak() ? (uint##bits##_t)weak_load(at, value, order) \
                                 : value;                                      \
    }

#define STORES_TO(bits)                                                        \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at,              \
                                     uint##bits##_t value, int order);         \
    void __tsan_atomic##bits##_store(volatile uint##bits##_t *at,              \
                                     uint##bits##_t value, int order)          \
    {                                                                          \
        interleave_point();                                                    \
        const uint##bits##_t was =                                             \
            __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST);                  \
        if (interleave_weak())                                                 \
            weak_store(at, was, value, order, false);                          \
        if (was != value)                                                      \
            interleave_work();                                                 \
    }

#define CHANGES(bits, name, in_place)                                          \
    uint##bits##_t __tsan_atomic##bits##_##name(                               \
        volatile uint##bits##_t *at, uint##bits##_t value, int order);         \
    uint##bits##_t __tsan_atomic##bits##_##name(                               \
        volatile uint##bits##_t *at, uint##bits##_t value, int order)          \
    {                                                                          \
        interleave_point();                                                    \
        const uint##bits##_t was = in_place(at, value, __ATOMIC_SEQ_CST);      \
        if (interleave_weak())                                                 \
            weak_store(at, was, *at, order, true);                             \
        if (was != *at)                                                        \
            interleave_work();                                                 \
        return was;                                                            \
    }

#define COMPARES(bits, name)                                                   \
    int __tsan_atomic##bits##_compare_exchange_##name(                         \
        volatile uint##bits##_t *at, uint##bits##_t *wanted,                   \
        uint##bits##_t value, int order, int otherwise);                       \
    int __tsan_atomic##bits##_compare_exchange_##name(                         \
        volatile uint##bits##_t *at, uint##bits##_t *wanted,                   \
        uint##bits##_t value, int order, int otherwise)                        \
    {                                                                          \
        (void)otherwise;                                                       \
        interleave_point();                                                    \
        const uint##bits##_t was = *at;                                        \
        const int same = was == *wanted;                                       \
        if (same)                                                              \
            *at = value;                                                       \
        if (interleave_weak())                                                 \
            weak_store(at, was, *at, order, true);                             \
        if (same)                                                              \
            interleave_work();                                                 \
        *wanted = was;                                                         \
        return same;                                                           \
    }

#define ATOMICS(bits)                                                          \
    LOADS(bits)                                                                \
    STORES_TO(bits)                                                            \
    CHANGES(bits, exchange, __atomic_exchange_n)                               \
    CHANGES(bits, fetch_add, __atomic_fetch_add)                               \
    CHANGES(bits, fetch_sub, __atomic_fetch_sub)                               \
    CHANGES(bits, fetch_or, __atomic_fetch_or)                                 \
    CHANGES(bits, fetch_and, __atomic_fetch_and)                               \
    COMPARES(bits, strong)                                                     \
    COMPARES(bits, weak)

ATOMICS(8)
ATOMICS(16)
ATOMICS(32)
ATOMICS(64)

#endif

/* ---- plain accesses ---- */

static void look(const volatile void *at, size_t bytes, bool writes)
{
    if (!interleave_weak())
        return;
    const clocks *now = &hb.now[me()];
    for (size_t i = 0; i < bytes; i++) {
        place *p = place_at((const volatile char *)at + i);
        bool apart = p->writer >= 0 && p->written > now->at[p->writer];
        for (int t = 0; t < THREADS && writes; t++)
            apart |= p->read.at[t] > now->at[t];
        if (apart)
            interleave_fail("a race: thread %d %s what another %s, "
                            "unordered, at %p",
                            me(), writes ? "writes" : "reads",
                            p->writer >= 0 && p->written > now->at[p->writer]
                                ? "writes"
                                : "reads",
                            (const void *)((const char *)(uintptr_t)at + i));
        p->read.at[me()] = writes ? 0 : now->at[me()];
        if (writes) {
            p->writer = me();
            p->written = now->at[me()];
        }
    }
}

#ifndef __SANITIZE_THREAD__

#define ACCESS(name, bytes, writes)                                            \
    void __tsan_##name(void *at);                                              \
    void __tsan_##name(void *at)                                               \
    {                                                                          \
        look(at, bytes, writes);                                               \
    }
#define ACCESSES(bytes)                                                        \
    ACCESS(read##bytes, bytes, false)                                          \
    ACCESS(write##bytes, bytes, true)                                          \
    ACCESS(unaligned_read##bytes, bytes, false)                                \
    ACCESS(unaligned_write##bytes, bytes, true)

ACCESSES(1)
ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

void __tsan_read_range(void *at, size_t bytes);
void __tsan_read_range(void *at, size_t bytes)
{
    look(at, bytes, false);
}

void __tsan_write_range(void *at, size_t bytes);
void __tsan_write_range(void *at, size_t bytes)
{
    look(at, bytes, true);
}

/* All are changes in place of one atomic: what stands before one is seen by who
 * comes to a later one, and then reads. */
void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
    static uint32_t fences;
    interleave_point();
    if (!interleave_weak())
        return;
    if (order != __ATOMIC_SEQ_CST)
        interleave_fail("a fence of order %d, which the model lacks", order);
    weak_store(&fences, fences, fences, order, true);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
    (void)order;
}

/* clang calls these in the place of the library's. */
void *__wrap_memcpy(void *to, const void *from, size_t n);
void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memcpy(void *to, const void *from, size_t n)
{
    return __wrap_memcpy(to, from, n);
}

void *__tsan_memmove(void *to, const void *from, size_t n);
void *__tsan_memmove(void *to, const void *from, size_t n)
{
    return memmove(to, from, n);
}

void *__tsan_memset(void *to, int value, size_t n);
void *__tsan_memset(void *to, int value, size_t n)
{
    return memset(to, value, n);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *from);
void __tsan_func_entry(void *from)
{
    (void)from;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

#endif

/* Of long ones the first bytes tell. */
void interleave_look(const void *at, size_t bytes, bool writes)
{
    enum { MOST = 8 };
    look(at, bytes < MOST ? bytes : MOST, writes);
}

void *__real_memcpy(void *to, const void *from, size_t n);
void *__wrap_memcpy(void *to, const void *from, size_t n);
void *__wrap_memcpy(void *to, const void *from, size_t n)
{
    interleave_look(from, n, false);
    interleave_look(to, n, true);
    return __real_memcpy(to, from, n);
}
