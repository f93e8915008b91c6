/* The actor protocol: pure functions over small dense state. The simulator and
 * the runtime step the same code. An actor (task) may fire when it is its turn
 * on its stream, every in-register has the piece it needs and every
 * out-register a free buffer; a collective of a micro-batch also keeps its
 * place in the program (plan/places.h). Firing claims the buffers; completion
 * makes the pieces ready downstream and releases the inputs upstream.
 *
 * State of one rank (or one role, when ranks are simulated by role). */
#ifndef FS_PLAN_ACTOR_H
#define FS_PLAN_ACTOR_H

#include "plan/plan.h"

typedef struct plan_cursor {
    int64_t step;
    int64_t piece; /* of all of the run, of what there is per micro-batch */
    int32_t slot;  /* index in role->slots */
    int32_t task; /* the next task of the stream in that slot's section; -1 when
                     the stream has run all steps */
    bool busy;    /* fired and not yet completed */
    uint8_t ends; /* PLAN_FIRST, PLAN_LAST: is the slot the first or the last
                     of its section in the step? And PLAN_EACH */
} plan_cursor;
enum {
    PLAN_FIRST = 1,
    PLAN_LAST = 2,
    PLAN_COUNTS = 4, /* of each firing */
    PLAN_TURNS = 8,
    PLAN_EACH = PLAN_COUNTS | PLAN_TURNS
};

/* What firing and completing look at of a register, and of a task: small, for
 * much of a large plan is gone through again and again. */
typedef struct plan_actor_register {
    int32_t producer, count, n_consumers, first_buffer;
    int64_t bytes; /* that come and go: 0 when persistent */
    bool per_step, persistent;
    bool once; /* either: changes once per step */
} plan_actor_register;
typedef struct plan_actor_task {
    int32_t first; /* in `counting`: those of micro-batches that it reads, then
                      writes */
    int32_t next;  /* of the same stream and section, or -1 */
    int16_t n_in, n_out;
    bool keeps_place;
    /* Bits, for nothing is guessed then. PLAN_FIRST, PLAN_LAST: more happens in
     * such a firing of a step, see its uses; PLAN_COUNTS: it has any of these,
     * or keeps a place: else it may fire as soon as its stream comes to it, but
     * for that; PLAN_TURNS: no other is next */
    uint8_t ends;
    int64_t claims;   /* bytes of a firing */
    int64_t releases; /* bytes that it lets go of uncounted */
} plan_actor_task;

/* All distinct registers of a task: that it reads, at `first`, and behind them
 * those it writes. In both those of micro-batches come first. */
typedef struct plan_actor_uses {
    int32_t first, n_in, n_out;
    int32_t n_in_each, n_out_each; /* of micro-batches */
    int64_t claims_first;          /* bytes of the first firing of a step */
    int32_t held, n_held; /* of those of steps, in `holding`: it waits for, and
                             lets go of */
} plan_actor_uses;

/* What each firing looks at stands first. */
typedef struct plan_actors {
    const plan *plan;
    plan_cursor *cursor; /* [streams] */
    plan_actor_task *tasks;
    int32_t *counting;               /* registers of tasks, see there */
    int32_t *section;                /* [slots] */
    int32_t *micro_batch;            /* [slots] 0: BEGIN, m - 1: END */
    int32_t *first_slot, *last_slot; /* [n_sections] -1: none */
    plan_actor_register *registers;  /* [registers] of the role */
    int64_t *produced;               /* [registers] pieces completed */
    int64_t *released;               /* [registers] pieces released by all
                                        consumers */
    int32_t *readers;                /* [sum of counts] consumers still to
                                        release the piece in each buffer,
                                        counted registers first */
    int32_t *leader;                 /* [streams] plan_stream_leaders */
    int32_t *first_on_stream;        /* [streams * n_sections] or -1 */
    int32_t n_sections;              /* of the role (plan_section) */
    int32_t n_compute;               /* streams that compute */
    int64_t steps;                   /* how many steps will run */
    const plan_role *role;
    int32_t n_counting;
    plan_actor_uses *uses;       /* [tasks] */
    int32_t *in_out;             /* registers of uses */
    int32_t *holding;            /* of these, that others make */
    bool *ordered;               /* [registers] by a stream's program, and so
                                    not counted */
    int32_t *counted, n_counted; /* the others */
} plan_actors;

plan_actors *plan_actors_create(const plan *p, const plan_role *role,
                                int64_t steps, fs_arena *arena);
/* They do the same, but of registers that a stream alone makes and reads, in an
 * order that its program guarantees, no pieces are counted. */
plan_actors *plan_actors_create_ordered(const plan *p, const plan_role *role,
                                        int64_t steps, fs_arena *arena);
/* Where all of their tasks do the same to registers of the same numbers, both
 * look at one table of them from now on: a cache holds it once. */
void plan_actors_share(plan_actors *a, const plan_actors *other);
/* The task at the head of a stream, or -1 when the stream is at its end. */
static inline int32_t plan_actor_head(const plan_actors *a, int32_t stream)
{
    return a->cursor[stream].task;
}
/* Which micro-batch the head belongs to (0 for BEGIN, m - 1 for END). */
static inline int32_t plan_actor_micro_batch(const plan_actors *a,
                                             int32_t stream)
{
    const plan_cursor *c = &a->cursor[stream];
    return c->task < 0 ? 0 : a->micro_batch[c->slot];
}
/* Is this the head's first (last) firing of the step? A per-step register is
 * claimed by the first firing of a task that runs per micro-batch, and made
 * ready or released by the last. */
static inline bool plan_actor_first_firing(const plan_actors *a, int32_t stream)
{
    return a->cursor[stream].ends & PLAN_FIRST;
}
static inline bool plan_actor_last_firing(const plan_actors *a, int32_t stream)
{
    return a->cursor[stream].ends & PLAN_LAST;
}
/* May the head fire now? */
bool plan_actor_has_all(const plan_actors *a, const plan_cursor *c);
static inline bool plan_actor_ready(const plan_actors *a, int32_t stream)
{
    const plan_cursor *c = &a->cursor[stream];
    if (c->task < 0 || c->busy)
        return false;
    const plan_actor_task *task = &a->tasks[c->task];
    return !(task->ends & c->ends & (PLAN_FIRST | PLAN_COUNTS)) ||
           plan_actor_has_all(a, c);
}
/* Of heads that may fire, is it this one's turn to compute? Where several
 * streams have one, that whose slot stands first in the program goes first;
 * what computes nothing has its turn at once. Whether a plan is sound does not
 * hang on it. */
bool plan_actor_turn_among(const plan_actors *a, int32_t stream);
static inline bool plan_actor_turn(const plan_actors *a, int32_t stream)
{
    return a->n_compute < 2 || plan_actor_turn_among(a, stream);
}
/* The piece of `reg` that the head of `stream` reads or writes, and from it the
 * buffer's offset in the arena. Valid from readiness to completion. */
int64_t plan_actor_piece(const plan_actors *a, int32_t stream, int32_t reg,
                         bool writes);
int64_t plan_actor_offset(const plan_actors *a, int32_t stream, int32_t reg,
                          bool writes);
/* The head, which may fire, does. Returns the bytes that it claims. */
static inline int64_t plan_actor_fire(plan_actors *a, int32_t stream)
{
    plan_cursor *c = &a->cursor[stream];
    FS_ASSERT(!c->busy);
    c->busy = true;
    const plan_actor_task *task = &a->tasks[c->task];
    return task->ends & c->ends & PLAN_FIRST ? a->uses[c->task].claims_first
                                             : task->claims;
}
/* The fired head has completed: hand on, release, advance the cursor. Returns
 * the bytes that nobody holds any more. */
int64_t plan_actor_pass_on(plan_actors *a, plan_cursor *c);
static inline int64_t plan_actor_done(plan_actors *a, int32_t stream)
{
    plan_cursor *c = &a->cursor[stream];
    FS_ASSERT(c->busy);
    const plan_actor_task *task = &a->tasks[c->task];
    if (task->ends & c->ends & (PLAN_LAST | PLAN_EACH))
        return plan_actor_pass_on(a, c);
    c->busy = false;
    c->task = task->next;
    return task->releases;
}
/* One reader more, which is no task, of the piece that the update of a variable
 * (a register of one buffer) has just made: the next update waits until it is
 * let go. What has no update never changes and is not held. */
void plan_actor_hold(plan_actors *a, int32_t reg);
void plan_actor_let_go(plan_actors *a, int32_t reg);
bool plan_actors_finished(const plan_actors *a);
/* Why the head of a stream cannot fire, for stall reports. */
void plan_actor_explain(const plan_actors *a, const ir_graph *graph,
                        int32_t stream, fs_text *out);

#endif
