/* Making of chains; not for other files. */
#ifndef FS_PLAN_ACTOR_CHAIN_PARTS_H
#define FS_PLAN_ACTOR_CHAIN_PARTS_H

#include "plan/actor_chain.h"
#include "plan/pace.h"

/* A task of the chain at work, and when it runs. */
typedef struct chain_member {
    int32_t task;
    int64_t start_ns, end_ns;
} chain_member;

typedef struct chaining {
    const plan_actors *a;
    const plan_role *role;
    const plan_paces *paces;
    fs_arena *arena;
    /* The group that chains are made of: a compute stream, and maybe one that
     * keeps its place beside it (else -1). */
    int32_t stream, beside;
    int32_t quiet[PLAN_CHAIN_QUIET]; /* streams that must be while chains of
                                        the group run; -1: none */
    const plan_chain **of;           /* [tasks * PLAN_CHAIN_VARIANTS] */
    bool *looked;                    /* for that one */
    bool *lone;           /* [registers] the group alone makes and reads it */
    int32_t *last_use[2]; /* [registers] the last reader in the section, on
                             the stream and beside it */
    bool first, last;     /* firing of the step */
    int32_t section;
    FS_VEC(int32_t) program; /* the group's tasks of it, */
    int32_t *place;          /* [tasks] where each of them stands there */
    /* Of the chain at work: */
    bool *joined;           /* [tasks] */
    bool *listed;           /* [registers] among those touched */
    bool *reads, *makes;    /* [registers] */
    int32_t *old_use, *use; /* [registers] of the piece made before, in it */
    int64_t *made_ns, *read_ns; /* [registers] when it is made, last read */
    uint8_t *noted;             /* [registers] while its needs are listed */
    FS_VEC(int32_t) touched;    /* registers, as they come */
    FS_VEC(chain_member) members;
    int64_t end_ns[2];  /* of the last on the stream, beside it */
    int32_t at_end[2];  /* that last; -1: none */
    int64_t awaited_ns; /* end of the first that sets others free */
} chaining;

static inline const int32_t *chain_ins(const chaining *c, int32_t t)
{
    return c->a->in_out + c->a->uses[t].first;
}

static inline const int32_t *chain_outs(const chaining *c, int32_t t)
{
    return chain_ins(c, t) + c->a->uses[t].n_in;
}

static inline bool chain_once(const plan_actor_register *r)
{
    return r->per_step || r->persistent;
}

/* While it runs, what computes has another rate. */
static inline bool chain_slows(const chaining *c, int32_t t)
{
    return c->role->tasks[t].comm >= 0 && c->role->tasks[t].channel < 0;
}

static inline bool chain_is_beside(const chaining *c, int32_t t)
{
    return c->role->tasks[t].stream == c->beside;
}

/* The task, which starts then, would run behind those that have joined until
 * this (actor_chain_make.c). */
int64_t chain_end_of(const chaining *c, int32_t t, int64_t start_ns);
/* It does. */
void chain_join(chaining *c, int32_t t, int64_t start_ns, int64_t end_ns);
void chain_forget(chaining *c);
/* What those that have joined do together. */
plan_chain *chain_make(chaining *c);

#endif
