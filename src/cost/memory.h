/* What a stage holds at chosen moments of its program, as sums over nodes and
 * edges, so that search can bind them. Each moment's sum is meant to be at
 * most the arena of the lowered plan: what is counted is live there at once.
 *
 * A moment is a task of a stage (a node of the backward pass at a fullest
 * slot, or the start of the updates) and one boxing whose scratch is counted;
 * none of it depends on signatures. */
#ifndef FS_COST_MEMORY_H
#define FS_COST_MEMORY_H

#include "plan/plan.h"
#include "plan/schedule.h"

/* Of a graph in which some stages and nodes stand for several that are alike:
 * the pipeline that is meant, which of its stages each stage is, and how many
 * nodes of that stage a node is. Of a run of equal layers three stand for all,
 * the middle one for those between the first and the last. */
typedef struct cost_standing {
    const plan_pipeline *pipe;
    const int32_t *stage; /* [n_stages] */
    const int32_t *times; /* [nodes] */
    const int32_t *run;   /* [nodes] of which layers it is; -1: of none */
    const int32_t *equal; /* [nodes] the first of its place in its layers */
} cost_standing;

/* A strategy without its signatures. */
typedef struct cost_program {
    const ir_graph *graph;
    int32_t n_stages, micro_batches;
    const char *schedule;
    const plan_stage *stages;
    const int32_t *stage_of;
    const cost_standing *standing; /* NULL: each stage and node is one */
    bool chooses; /* a node that computes another again (ir_computes_again) may
                     be left out: who reads it then reads what the forward pass
                     made */
} cost_program;
/* That of a strategy, which stays where it is. */
cost_program cost_program_of(const ir_graph *graph,
                             const plan_strategy *strategy);

/* Who is charged with a tensor that several readers may share: of all copies of
 * a layer the same reader, alone. That it holds so much is as true as that the
 * mean of them do, and more where it holds the most. [Reads what the forward
 * pass made in the place of a copy][tensors of the program's graph]: the reader
 * (of equal ones the first) and its slot; -1: all, by their mean. */
typedef struct cost_payers {
    int32_t n_tensors;
    int32_t *node[2], *slot[2];
} cost_payers;

typedef struct cost_moment {
    int32_t stage;
    plan_phase phase; /* BACKWARD or END */
    int32_t node;     /* the one that runs, or whose inputs are boxed */
    int32_t scratch_node, scratch_slot; /* the edge; -1: none */
    bool first; /* of the fullest slots the first; else one behind it */
    const cost_payers *payers; /* NULL: readers share all */
} cost_moment;

/* Holds the program, which must outlive it. Of meshes it knows the size only:
 * programs whose stages have as many devices each share it. */
typedef struct cost_memory cost_memory;
cost_memory *cost_memory_create(const cost_program *program, fs_arena *arena);
/* The same with these moments behind its own. */
typedef struct cost_moments {
    FS_VEC(cost_moment) list;
} cost_moments;
cost_memory *cost_memory_create_with(const cost_program *program,
                                     const cost_moments *more, fs_arena *arena);
/* These behind those that there are; the number of the first. */
int32_t cost_memory_add(cost_memory *memory, const cost_moments *more);
bool cost_moment_equal(const cost_moment *a, const cost_moment *b);
int32_t cost_memory_moments(const cost_memory *memory, const cost_moment **out);
/* Nodes that hold anything at moments of a stage, by themselves or as readers;
 * returns how many. */
int32_t cost_memory_nodes(const cost_memory *memory, int32_t stage,
                          const int32_t **out);
/* What readers of the tensor share copies of: that which a view shows. */
int32_t cost_memory_root(const cost_memory *memory, int32_t tensor);

/* What a node's own outputs take at a moment: variables, constants, loaded
 * inputs, sums of gradients; each so many copies. All else is counted by who
 * reads it. */
int32_t cost_memory_copies(const cost_memory *memory, int32_t moment,
                           int32_t v);
int64_t cost_memory_node(const cost_memory *memory, int32_t moment, int32_t v,
                         const ir_mesh *mesh, const ir_nd_sig *sig);

/* What edge `slot` of node v makes the moment's stage hold: numbers of
 * copies, divided by the edges that may share them. Plain data without
 * padding: edges of equal holdings, tensors and signatures have equal bytes. */
typedef struct cost_holding {
    int32_t straight; /* of what leaves, when nothing is boxed; boxed: */
    int32_t before;   /* of what leaves */
    int32_t after;    /* of what arrives */
    int32_t next;     /* of what the first step makes */
    int32_t least;    /* of the smallest on the way */
    int32_t share;
    int32_t times;   /* edges that are alike, each with all of that */
    int32_t scratch; /* the collectives' packing buffers count */
    int32_t arrives; /* from another stage: of the path, what lies here */
} cost_holding;
typedef struct cost_reader {
    int32_t node, slot;
    bool anew; /* its boxing is: plan_boxing */
    bool kept; /* what makes its input again is left out */
} cost_reader;
bool cost_memory_edge(const cost_memory *memory, int32_t moment,
                      cost_reader reader, cost_holding *out);
int64_t cost_holding_bytes(const cost_holding *holding, const plan_ends *ends,
                           const plan_boxing *path);
/* The same in two steps, where one path is held in several ways: bytes of the
 * pieces on one stage's part of the path (of what arrives there or leaves), and
 * of its packing buffers if these are asked for. */
typedef struct cost_sizes {
    int64_t first, second, last, least, scratch;
    bool boxed; /* that part has a step */
} cost_sizes;
cost_sizes cost_sizes_of(const plan_ends *ends, const plan_boxing *path,
                         bool arrives, bool scratch);
int64_t cost_held_bytes(const cost_holding *holding, const cost_sizes *sizes);

/* Where a stage of a strategy holds more than at the moments of
 * cost_memory_create: the fullest of these and of `node` (of the stage; -1:
 * none), beside the boxing that takes most scratch there, when of each tensor
 * the reader that holds most is charged. */
typedef struct cost_fuller {
    cost_moment at;
    int64_t bytes;
    int64_t *alone; /* [edges of the strategy] what the reader of a tensor made
                       there needs held of it, whoever shares that */
} cost_fuller;
/* `memory`: of the strategy's program; moments are added to it. */
cost_fuller cost_fuller_moment(cost_memory *memory,
                               const plan_strategy *strategy, int32_t stage,
                               int32_t node, fs_arena *arena);

/* No strategy makes the moment's sum larger than this. */
double cost_memory_most(cost_memory *memory, int32_t moment);
/* Finds it of all moments: from then on several threads may ask. */
void cost_memory_most_all(cost_memory *memory);

#endif
