/* Chains: tasks that follow each other on a compute stream and between which
 * nobody else can tell how far they are. None of them but the first waits for
 * another stream, and what one but the last completes sets no other stream
 * free. So whoever steps actors may fire and complete them as one. */
#ifndef FS_PLAN_ACTOR_CHAIN_H
#define FS_PLAN_ACTOR_CHAIN_H

#include "plan/actor.h"

typedef struct plan_chain_use {
    int32_t reg, n; /* consumers: that let go in it, or are left behind it */
    int64_t bytes;  /* that go with the piece, if another stream might have been
                       the last to let go; else 0 */
} plan_chain_use;

/* Of one firing of its section; the first and the last of a step have chains of
 * their own, for they claim, hand on and release what there is once per step.
 */
typedef struct plan_chain {
    int32_t n;    /* tasks: the head, and those next to it on its stream */
    int32_t next; /* the one behind them, or -1 */
    int32_t n_reads, n_writes, n_inner, n_made, n_read;
    int32_t *reads, *writes; /* what others than the head need too */
    int32_t *inner;          /* pieces that are made and let go of in it */
    plan_chain_use *made, *read;
    int64_t *claims, *releases; /* [n] live bytes when one starts, ends */
} plan_chain;

typedef struct plan_chains plan_chains;

/* `joins`: [tasks] of a compute stream, that may be part of one. NULL: the role
 * has none at all. */
plan_chains *plan_chains_create(const plan_actors *a, const bool *joins,
                                fs_arena *arena);
enum { PLAN_CHAIN_VARIANTS = 4 }; /* first firing of the step or not, last */
/* The chain that begins with a task in such a firing; NULL: none. */
const plan_chain *plan_chain_of(const plan_chains *chains, int32_t task,
                                int32_t variant);
int32_t plan_actor_variant(const plan_actors *a, int32_t stream);
/* The head, which may fire, begins this chain: may all of it? */
bool plan_actor_chain_ready(const plan_actors *a, int32_t stream,
                            const plan_chain *chain);
/* The fired chain has completed. Returns the bytes let go of for which that was
 * decided only now. */
int64_t plan_actor_chain_done(plan_actors *a, int32_t stream,
                              const plan_chain *chain);

#endif
