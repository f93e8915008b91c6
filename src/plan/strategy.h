/* The logical strategy: what engines search over. Small, text form in JSON. */
#ifndef FS_PLAN_STRATEGY_H
#define FS_PLAN_STRATEGY_H

#include "ir/op.h"

enum { PLAN_MAX_BOXING = 8 };

/* How a tensor gets from one SBP to another: at[0] is the producer's, at[n] the
 * consumer's. Between stages at different places exactly one step crosses:
 * at[0 .. cross] lie on the producer's mesh, at[cross + 1 .. n] on the
 * consumer's, and the step between is an exchange of the two (boxing.h). Every
 * other step is a row of the boxing table. n = 0: nothing to do, and at[0] is
 * how producer and consumer have it.
 *
 * `sharing` says how long the boxed pieces live. 0, kept: all such readers of a
 * tensor share them; they are made where the tensor is (once per step where it
 * changes once per step) and stay until the last of those has read them. Else
 * made anew: the readers with the same number share pieces that are made in
 * front of the first of them (per micro-batch where that runs per micro-batch)
 * and freed behind the last. A parameter kept split whose forward and backward
 * readers have different numbers is gathered for each pass: ZeRO-3. What views
 * read and what crosses stages is kept. */
typedef struct plan_boxing {
    int32_t n;
    int32_t cross; /* the step that crosses, where one does; else 0 */
    int32_t sharing;
    ir_nd_sbp at[PLAN_MAX_BOXING + 1];
} plan_boxing;

/* A stage: a mesh cut from the cluster. Mesh position i is device
 * first_device + i. */
typedef struct plan_stage {
    ir_mesh mesh;
    int32_t first_device;
} plan_stage;
bool plan_same_mesh(const ir_mesh *a, const ir_mesh *b);
/* Nothing moves between stages at one place. */
bool plan_same_place(const plan_stage *a, const plan_stage *b);

/* Edges: input slot s of node v is edge first_edge[v] + s. A variable has one
 * edge too: its loop-carried value (tensor.next -> variable), from the update
 * node's signature to the variable's own. Inputs and constants are made on each
 * stage that reads them: their paths lie on the reader's mesh and begin with
 * how they are made there, on their node's own stage as its signature says. */
typedef struct plan_strategy {
    int32_t n_nodes, n_stages, n_edges;
    int32_t micro_batches;
    int64_t batch;        /* samples per step */
    const char *schedule; /* a name of schedules.def */
    plan_stage *stages;   /* [n_stages] */
    int32_t *stage_of;    /* [n_nodes] */
    ir_nd_sig *sig;       /* [n_nodes] */
    int32_t *first_edge;  /* [n_nodes + 1] */
    plan_boxing *edge;    /* [n_edges] */
    const int32_t *like;  /* [n_nodes] a node no later than it that computes the
                             same on the same stage: op, attributes, shapes,
                             signature, and of what it reads maker, stage and
                             path (but for `sharing` above 0), like[like] =
                             like. NULL: nobody knows */
} plan_strategy;
/* Are they one plan, of graphs that are alike node by node? */
bool plan_same_strategy(const plan_strategy *a, const plan_strategy *b);
/* Itself where nobody knows of another one. */
int32_t plan_node_like(const plan_strategy *strategy, int32_t v);

/* Empty strategy for `graph`: arrays made, all-B signatures, stage 0, no
 * boxing; first_edge filled in. */
plan_strategy *plan_strategy_new(const ir_graph *graph, int32_t n_stages,
                                 fs_arena *arena);

/* The tensor that edge `e` of node `v` carries (a variable's: tensor.next, -1
 * when it has none). */
int32_t plan_edge_tensor(const ir_graph *graph, const plan_strategy *strategy,
                         int32_t v, int32_t slot);
/* An edge whose tensor changes once per step only (variables, constants,
 * update nodes), so that its boxing runs once per step. */
bool plan_tensor_per_step(const ir_graph *graph, int32_t tensor);
/* Does the boxing of this edge run once per step? Not if it is made anew for a
 * reader of the forward or backward pass. */
bool plan_edge_per_step(const ir_graph *graph, const plan_strategy *strategy,
                        int32_t v, int32_t slot);
/* How many leading steps of an edge's path lowering makes for a reader before
 * it (in the order of `uses`, loops last, then of slots) and so not again. */
int32_t plan_edge_steps_made(const ir_graph *graph, const ir_uses *uses,
                             const plan_strategy *strategy, int32_t v,
                             int32_t slot);

#endif
