/* Inside lowering. It runs in four steps over one state: values (which
 * pieces have to lie where: roots, boxed and moved ones), tasks (what makes
 * them, in program order, per role), finish (streams, credits), memory. */
#ifndef FS_PLAN_LOWER_H
#define FS_PLAN_LOWER_H

#include "ir/works.h"
#include "plan/schedule.h"

typedef enum lower_kind {
    LOWER_ROOT, /* as its producer leaves it, on the producer's stage */
    LOWER_BOX,  /* one boxing step after its parent */
    LOWER_MOVE  /* what its parent holds, on another stage */
} lower_kind;

/* Where a value is wanted: in a phase of a stage, in front of a node. */
typedef struct lower_use {
    plan_phase phase;
    int32_t node, stage;
} lower_use;

/* A tensor lying on a stage in some SBP. The values of a tensor form trees:
 * equal prefixes of boxing paths are shared. */
typedef struct lower_value {
    lower_kind kind;
    int32_t tensor;
    int32_t stage; /* the first of those on its devices */
    ir_nd_sbp sbp;
    int32_t parent;   /* value that it is made from; -1 for roots */
    int32_t sharing;  /* of a boxing step: plan_boxing */
    bool anew;        /* shared by readers of the forward or backward pass */
    int32_t view_of;  /* root of a view's output: the value viewed; else -1 */
    int32_t variable; /* its register is this variable node's; else -1 */
    int32_t next;     /* next value of the same tensor, or -1 */
    lower_use use;    /* before all who want it; phase PLAN_PHASES: none */
    int32_t at_stage; /* in whose program its task stands */
    int32_t reg;      /* on the stage's role */
} lower_value;

/* A task and its place in the phase: keys in lexicographic order. */
typedef struct lower_task {
    plan_task task;
    int32_t key[3];
} lower_task;

typedef struct lower_role {
    FS_VEC(lower_task) tasks;
    int32_t *order; /* [tasks] of the program */
    FS_VEC(plan_register) registers;
} lower_role;

typedef struct lower_channel {
    int32_t from, to;
    bool late; /* carries BACKWARD and END; else BEGIN and FORWARD */
} lower_channel;

typedef struct lower_comm {
    int32_t stage;
    uint32_t axes;
    int32_t pass; /* whose streams issue on it, */
    bool once;    /* and that of what runs once per step, if it has one */
} lower_comm;

typedef struct lowering {
    const ir_graph *graph;
    const plan_strategy *strategy;
    const plan_lower_options *options;
    fs_arena *arena;   /* of the result */
    fs_arena *scratch; /* of this lowering */
    fs_err *err;
    ir_works works;
    int64_t *scratch_bytes; /* [nodes] of kernels */
    FS_VEC(lower_value) values;
    int32_t *first_value; /* [tensors] head of its values, or -1 */
    int32_t *edge_value;  /* [edges] value that the consumer reads; a
                             variable's: what its next value becomes */
    lower_role *roles;    /* [stages] of the first on its devices */
    FS_VEC(lower_channel) channels;
    FS_VEC(lower_comm) comms;
    plan_pipeline pipe;
    int32_t *program; /* [nodes] the stage in whose program it runs */
    bool *weight;     /* [nodes] of the backward pass, in WEIGHT */
    plan_pace pace;   /* of the schedule */
} lowering;
/* Fills `program` and, where the schedule splits, `weight` (of a strategy
 * whose nodes and stages were checked). */
void plan_lower_programs(lowering *l);
/* The first stage on the devices of this one: where its values lie. */
int32_t plan_lower_home(const lowering *l, int32_t stage);

/* When the pieces of a tensor become available: BEGIN for variables and
 * constants, END for sums of gradients and updates, else its node's phase. */
plan_phase plan_lower_base(const ir_graph *graph, int32_t tensor);
/* When a node runs. */
plan_phase plan_lower_phase(const ir_graph *graph, const ir_node *node);
bool plan_lower_is_view(const ir_node *node); /* no task: aliases its input */

/* The same under the strategy's schedule. */
plan_phase plan_lower_base_at(const lowering *l, int32_t tensor);
plan_phase plan_lower_phase_at(const lowering *l, int32_t node);

/* The steps. */
fs_status plan_lower_values(lowering *l);
void plan_lower_tasks(lowering *l);
void plan_lower_finish(lowering *l, plan *p);
/* Of collectives on a stream of their own (the producers of registers stand):
 * those that wait for nothing of their section stand further ahead. */
void plan_lower_ahead(lowering *l, plan_role *role);
/* Collectives of a step go together, as many as have so many bytes
 * (lower_buckets.c). Streams stand. */
void plan_lower_buckets(lowering *l, plan_role *role);
/* The first task behind those of `first`'s section. */
int32_t plan_lower_section_end(const plan_role *role, int32_t first);
/* Behind, those that nobody waits for (lower_behind.c). */
void plan_lower_behind(lowering *l, plan_role *role);
fs_status plan_lower_memory(lowering *l, plan *p);

#endif
