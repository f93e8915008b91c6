/* What one role does: tasks, the streams that order them, the registers that
 * they fill and read. */
#ifndef FS_PLAN_TASK_H
#define FS_PLAN_TASK_H

#include "plan/boxing.h"

/* When a task fires. BEGIN and END once per step, the others once per
 * micro-batch. */
typedef enum plan_phase {
    PLAN_BEGIN, /* boxing of variables for this step */
    PLAN_FORWARD,
    PLAN_BACKWARD,
    PLAN_WEIGHT, /* gradients of weights, where the schedule splits them off */
    PLAN_END,    /* updates and what leads to them */
    PLAN_PHASES
} plan_phase;

typedef enum plan_task_kind {
    PLAN_COMPUTE, /* node's kernel */
    PLAN_LOAD,    /* fills the register of an input node with data */
    PLAN_BOX,     /* one boxing step, local or collective */
    PLAN_SEND,    /* to those of another stage that want it */
    PLAN_RECV,
    PLAN_TASK_KINDS
} plan_task_kind;
const char *plan_task_kind_name(plan_task_kind kind);
const char *plan_phase_name(plan_phase phase);

typedef enum plan_stream_kind {
    PLAN_STREAM_COMPUTE,
    PLAN_STREAM_COMM, /* collectives, when they may overlap compute: those of
                         micro-batches, */
    PLAN_STREAM_STEP, /* those that run once per step */
    PLAN_STREAM_LOAD,
    PLAN_STREAM_SEND, /* one per channel */
    PLAN_STREAM_RECV  /* one per channel */
} plan_stream_kind;

typedef struct plan_stream {
    plan_stream_kind kind;
    int32_t channel; /* of SEND and RECV, else -1 */
} plan_stream;

/* One tensor of a bucket, and its step: as if it were boxed alone. */
typedef struct plan_part {
    int32_t tensor;
    plan_box_step box;
} plan_part;

/* In-registers of a COMPUTE task follow the node's inputs, out-registers its
 * outputs (views are not tasks: their tensor lives in the register of what
 * they view). A LOAD fills its register as that lies. An update in place has
 * its variable's register both as in[] and as out[].
 *
 * A collective of several tensors is a BUCKET: parts[i] takes in[i] to out[i],
 * and the bytes of all go in the same messages. `tensor` is its first part's,
 * and so is `box`, but for bytes: they are those of all parts. It runs once per
 * step, on registers of one buffer each. */
typedef struct plan_task {
    plan_task_kind kind;
    plan_phase phase;
    int32_t chunk;      /* of its role's stages: whose it is */
    int32_t node;       /* COMPUTE, LOAD; else -1 */
    int32_t tensor;     /* BOX, SEND, RECV: what moves; else -1 */
    plan_box_step box;  /* BOX */
    ir_nd_sbp sbp;      /* SEND, RECV: how the tensor lies on this stage */
    ir_nd_sbp peer_sbp; /* and on the other */
    int32_t comm;       /* BOX, collective: index in plan->comms; else -1 */
    int32_t channel;    /* SEND, RECV; else -1 */
    int32_t stream;
    int32_t n_in, n_out;
    int32_t *in, *out; /* registers */
    int32_t n_parts;   /* of a bucket; of all else 0 */
    const plan_part *parts;
    int64_t scratch_bytes; /* kernel scratch or packing buffer, at the
                              stream's scratch offset */
} plan_task;

/* Tensors that it boxes or moves. */
int32_t plan_task_n_parts(const plan_task *task);
/* One of them, and how it is boxed, whether the task is a bucket or not. */
plan_part plan_task_part(const plan_task *task, int32_t i);

/* Name of a task for people: "/blocks.0/fc/MatMul", "all-gather x.grad",
 * "all-reduce x.grad and 7 more". */
const char *plan_task_name(const ir_graph *graph, const plan_task *task,
                           fs_arena *arena);

enum { PLAN_ALIGN = 256 };

/* A register: `count` buffers of one piece each. Pieces are numbered: a
 * micro-batch register's piece of (step, mb) is step * m + mb, a per-step
 * register's is step (a variable has piece 0 from the start, and the update of
 * step k writes piece k + 1). Piece q lies in buffer q mod count. The producer
 * may write piece q once every consumer has released piece q - count. */
typedef struct plan_register {
    int32_t tensor; /* what it holds (of a viewed one: the first) */
    ir_nd_sbp sbp;
    int64_t bytes; /* largest local piece, rounded up to PLAN_ALIGN */
    int32_t count;
    int64_t *offset; /* [count] in the role's arena; which: plan_buffer_of */
    bool per_step;
    bool persistent;  /* variable or constant: lives across steps */
    bool own_memory;  /* shares its bytes with no other register */
    int32_t producer; /* task, -1 for constants */
    int32_t n_consumers;
    int32_t *consumers; /* tasks, ascending; not the producer itself; a task
                           that reads it twice stands once */
} plan_register;
/* Which of the register's buffers holds piece `in_step` of a step (0 when it is
 * per step), which is piece `piece` of the run. Where memory is shared, each
 * step takes the buffers in the same turns, for then the same lives hold in all
 * of them: the stream that shares it has ended a step before the next. */
static inline int32_t plan_buffer_of(const plan_register *r, int64_t piece,
                                     int32_t in_step)
{
    return (int32_t)((r->own_memory ? piece : in_step) % r->count);
}

#endif
