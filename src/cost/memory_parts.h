/* Inside cost/memory: what its files share. */
#ifndef FS_COST_MEMORY_PARTS_H
#define FS_COST_MEMORY_PARTS_H

#include "cost/memory.h"
#include "cost/parts.h"
#include "ir/words.h"

/* Which tensors each stage has to do with, numbered from 0 on in each: most are
 * of one stage alone, so that what is kept of them does not grow with stages
 * times tensors (memory_tensors.c). */
typedef struct cost_touch {
    int32_t stage, number; /* stage -1: of none */
    int32_t tensor;
    bool more; /* of the first of a tensor: other stages have to do with it */
} cost_touch;

typedef struct cost_touched {
    fs_arena *arena;
    int32_t *n;             /* [stages] */
    cost_touch *first;      /* [tensors] */
    int32_t room, n_others; /* a power of two, at least twice as many; 0 */
    cost_touch *others;     /* [room] by hash of tensor and stage */
} cost_touched;

void cost_touched_make(cost_touched *t, int32_t n_stages, int32_t n_tensors,
                       fs_arena *arena);
void cost_touch_note(cost_touched *t, int32_t stage, int32_t tensor);
/* Of the others: where it is, or would be. */
cost_touch *cost_touch_other(const cost_touched *t, int32_t stage,
                             int32_t tensor);
/* Its number there; -1: that stage has nothing to do with it. */
static inline int32_t cost_touch_find(const cost_touched *t, int32_t stage,
                                      int32_t tensor)
{
    const cost_touch *at = &t->first[tensor];
    if (at->stage != stage && at->more)
        at = cost_touch_other(t, stage, tensor);
    return at->stage == stage ? at->number : -1;
}

/* [moment][readable] Edges that hold a copy, and of a layer between the first
 * and the last those of layers like it. */
typedef struct cost_sharers {
    int32_t **all, **among;
} cost_sharers;

/* [moment][readable] Where who pays is said: how many do, and whether copies of
 * a layer read what the one before made. NULL: readers share all. */
typedef struct cost_paying {
    int32_t **payers;
    bool **handed_on;
} cost_paying;

typedef FS_VEC(int32_t) cost_nodes;

/* What of a pipeline the memory of its stages hangs on (slots.c). */
typedef struct cost_slots {
    plan_pipeline pipe;
    cost_fullest *slot[2]; /* [is it the first][n_stages] */
    plan_pace pace;
    int32_t prefetch; /* of lowering */
} cost_slots;
cost_slots cost_slots_of(const plan_pipeline *pipe, fs_arena *arena);
cost_slots *cost_slots_copy(const cost_slots *slots, fs_arena *arena);
/* Buffers, credits of lowering, of what stage `to` receives of another one;
 * kept: for a reader of the backward pass, from the forward pass on. */
int32_t cost_slots_received(const cost_slots *slots, int32_t from, int32_t to,
                            plan_phase made, bool kept);
/* All of it that matters for stage number `stage` of the pipeline, which reads
 * of those in `from` (n of them) where it is another one: the larger a word is,
 * the more it holds. */
void cost_put_slots(const cost_slots *slots, int32_t stage, const int32_t *from,
                    int32_t n, ir_words *key);

struct cost_memory {
    const cost_program *program;
    fs_arena *arena;
    ir_uses uses;
    const cost_slots *slots;
    cost_nodes *nodes_of; /* [n_stages] ascending: those that run there, and who
                            reads what is made there: nobody else's edges and
                            outputs are held there */
    int32_t *home; /* [tensors] the stage that makes it; -1: each that reads
                      it, of inputs and constants */
    uint8_t *base, *phase; /* [tensors], [nodes] plan_lower's */
    bool *view;            /* [nodes] */
    int32_t *viewed;       /* [tensors] what its register was made for */
    int32_t *last;         /* [tensors] of those: last backward reader, or -1 */
    int32_t *last_end;     /* and last reader of the updates */
    int32_t *between; /* [tensors] that of a layer between the first and the
                         last for one that layers hand on; else itself */
    cost_sharers share[2][2]; /* [of what is kept for want of a copy][of readers
                            that may be left out] */
    cost_paying paying[2];    /* [of what is kept for want of a copy] */
    cost_touched readable; /* what is read where it was made, and `between` */
    cost_touched moved;    /* what is read on another stage */
    int32_t **received;    /* [n_stages][moved] edges that cross to a stage, */
    int32_t **kept[2]; /* and those of them that the backward pass reads: [by
                          readers that may be left out] */
    FS_VEC(cost_moment) moments;
    int32_t chosen;  /* of these, and not given by others */
    int32_t counted; /* those whose readers are */
    double *most;    /* [moment] 0: not known yet */
};

static inline plan_phase cost_base_of(const cost_memory *mem, int32_t tensor)
{
    return (plan_phase)mem->base[tensor];
}
static inline plan_phase cost_phase_of(const cost_memory *mem, int32_t v)
{
    return (plan_phase)mem->phase[v];
}
/* How many nodes of its stage it stands for. */
int32_t cost_times(const cost_memory *mem, int32_t v);
/* May it be left out? */
bool cost_is_loose(const cost_memory *mem, int32_t v);
/* The stage on which a reader finds it: inputs and constants are made anew on
 * each that reads them. */
int32_t cost_home_of(const cost_memory *mem, int32_t tensor, int32_t reader);
/* The slot of the backward pass that is looked at has another before it, when
 * one of the fullest has: then all sums of gradients are there too. */
bool cost_goes_on(const cost_memory *mem, int32_t stage, bool first);
/* Has the first of the fullest slots what the other one lacks? */
bool cost_first_differs(const cost_memory *mem, int32_t stage);
const ir_node *cost_producer_of(const cost_memory *mem, int32_t tensor);
double cost_whole_bytes(const cost_memory *mem, int32_t tensor);
/* Of the largest piece, as buffers are aligned. */
int64_t cost_aligned_bytes(const ir_tensor *tensor, const ir_nd_sbp *sbp,
                           const ir_mesh *mesh);

/* What an edge of a node reads, a variable's its next value; -1: nothing. */
int32_t cost_edge_tensor(const cost_memory *mem, int32_t v, int32_t slot);
/* Fills home to last_end. */
void cost_find_tensors(cost_memory *mem);
/* Of a pipeline with these slots, without moments; `like`: of the same graph,
 * or one alike node by node, and stages, to borrow what was found of its
 * tensors; NULL. */
cost_memory *cost_memory_create_on(const cost_program *program,
                                   const cost_slots *slots,
                                   const cost_memory *like, fs_arena *arena);
/* The moments of all stages (moments.c). */
void cost_choose_moments(cost_memory *mem);
/* Of one stage alone. */
void cost_choose_moments_of(cost_memory *mem, int32_t stage);

#endif
