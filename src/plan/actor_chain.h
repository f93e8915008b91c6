/* Chains: tasks that follow each other on a compute stream and between which
 * nobody else can tell how far they are. None of them but the first waits for
 * another stream, and what one but the last completes sets no other stream
 * free. So whoever steps actors may fire and complete them as one.
 *
 * Pairs: chains of a compute stream and of the stream of collectives that keeps
 * its place beside it. When each begins is told by what each takes, for they
 * wait for each other only; a pair ends where neither could go on before both
 * have come there, and where all that sets others free ends too. Where compute
 * is slower beside collectives, that is laid out too, and chains of the compute
 * stream alone run when the other is sure to be idle all along. */
#ifndef FS_PLAN_ACTOR_CHAIN_H
#define FS_PLAN_ACTOR_CHAIN_H

#include "plan/actor.h"

enum { PLAN_CHAIN_QUIET = 2 };

typedef struct plan_chain_use {
    int32_t reg, n; /* consumers: that let go in it, or are left behind it */
    int64_t bytes;  /* that go with the piece, if another stream might have been
                       the last to let go; else 0 */
} plan_chain_use;

/* From an instant at which a task begins or ends to the next one. */
typedef struct plan_chain_part {
    int64_t end_ns;           /* since the chain's start */
    int32_t task, beside;     /* that run in it, on either stream; -1: none */
    int64_t claims, releases; /* live bytes when it begins, ends */
} plan_chain_part;

/* Of one firing of its section; the first and the last of a step have chains of
 * their own, for they claim, hand on and release what there is once per step.
 */
typedef struct plan_chain {
    int32_t n;      /* tasks: the head, and those next to it */
    int32_t next;   /* the one behind them on its stream, or -1 */
    int32_t beside; /* the other stream of a pair, or -1, */
    int32_t first_beside, next_beside; /* of its tasks, the one behind those */
    int32_t quiet[PLAN_CHAIN_QUIET];   /* streams on which nothing may run
                                          meanwhile; -1: none */
    int32_t n_reads, n_writes, n_inner, n_made, n_read;
    int32_t *reads, *writes; /* what others than the head need too */
    int32_t *inner;          /* pieces that are made and let go of in it */
    plan_chain_use *made, *read;
    int32_t n_parts;
    plan_chain_part *parts;
} plan_chain;

typedef struct plan_chains plan_chains;

/* What tasks of a role take. */
typedef struct plan_paces {
    const int64_t *demand_ps; /* [tasks] each alone; what shares anything with
                                 other roles, and so is part of no chain, has 0
                                 */
    bool shares; /* collectives of its streams share links with each other */
    int64_t beside_rate; /* of computing beside a collective (plan/pace.h) */
} plan_paces;

/* NULL: the role has none at all. */
plan_chains *plan_chains_create(const plan_actors *a, const plan_paces *paces,
                                fs_arena *arena);
/* Are they what would be made for this role? As those of a stage are for the
 * stages that run the same, of whatever else they are. */
bool plan_chains_serve(const plan_chains *chains, const plan_actors *a,
                       const plan_paces *paces, fs_arena *scratch);
enum { PLAN_CHAIN_VARIANTS = 4 }; /* first firing of the step or not, last */
/* The longest chain, or pair, that begins with a task in such a firing; NULL:
 * none. Found when it is first asked for. */
const plan_chain *plan_chain_of(plan_chains *chains, int32_t task,
                                int32_t variant, bool pair);
/* Is there a stream to make pairs with, which waits where this one is? */
bool plan_actor_may_pair(const plan_actors *a, int32_t stream,
                         const plan_chains *chains);
int32_t plan_actor_variant(const plan_actors *a, int32_t stream);
/* The head, which may fire, begins this chain: may all of it? */
bool plan_actor_chain_ready(const plan_actors *a, int32_t stream,
                            const plan_chain *chain);
/* It does. */
void plan_actor_chain_fire(plan_actors *a, int32_t stream,
                           const plan_chain *chain);
/* The fired chain has completed. Returns the bytes let go of for which that was
 * decided only now. */
int64_t plan_actor_chain_done(plan_actors *a, int32_t stream,
                              const plan_chain *chain);

#endif
