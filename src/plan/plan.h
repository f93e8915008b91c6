/* The physical plan: what the simulator and the runtime both read. Per ROLE (a
 * group of identical ranks), never per rank: tasks, registers with credits,
 * streams with a total order, communicators, static memory offsets. const for
 * everyone after plan_lower.
 *
 * Rank r of a run is device r of the cluster. */
#ifndef FS_PLAN_PLAN_H
#define FS_PLAN_PLAN_H

#include "hw/cluster.h"
#include "plan/boxing.h"

enum { PLAN_ALIGN = 256 };

/* When a task fires. BEGIN and END once per step, the others once per
 * micro-batch. */
typedef enum plan_phase {
    PLAN_BEGIN, /* boxing of variables for this step */
    PLAN_FORWARD,
    PLAN_BACKWARD,
    PLAN_END, /* updates and what leads to them */
    PLAN_PHASES
} plan_phase;

typedef enum plan_task_kind {
    PLAN_COMPUTE, /* node's kernel */
    PLAN_LOAD,    /* fills the register of an input node with data */
    PLAN_BOX,     /* one boxing step, local or collective */
    PLAN_SEND,    /* to the same position of another stage */
    PLAN_RECV,
    PLAN_TASK_KINDS
} plan_task_kind;
const char *plan_task_kind_name(plan_task_kind kind);
const char *plan_phase_name(plan_phase phase);

typedef enum plan_stream_kind {
    PLAN_STREAM_COMPUTE,
    PLAN_STREAM_COMM, /* collectives, when they may overlap compute */
    PLAN_STREAM_LOAD,
    PLAN_STREAM_SEND, /* one per channel */
    PLAN_STREAM_RECV  /* one per channel */
} plan_stream_kind;

typedef struct plan_stream {
    plan_stream_kind kind;
    int32_t channel; /* of SEND and RECV, else -1 */
} plan_stream;

/* In-registers of a COMPUTE task follow the node's inputs, out-registers its
 * outputs (views are not tasks: their tensor lives in the register of what
 * they view). An update in place has its variable's register both as in[] and
 * as out[]. */
typedef struct plan_task {
    plan_task_kind kind;
    plan_phase phase;
    int32_t node;      /* COMPUTE, LOAD; else -1 */
    int32_t tensor;    /* BOX, SEND, RECV: what moves; else -1 */
    plan_box_step box; /* BOX */
    ir_nd_sbp sbp;     /* SEND, RECV: how the tensor lies */
    int32_t comm;      /* BOX, collective: index in plan->comms; else -1 */
    int32_t channel;   /* SEND, RECV; else -1 */
    int32_t stream;
    int32_t n_in, n_out;
    int32_t in[IR_MAX_IN], out[IR_MAX_OUT]; /* registers */
    int64_t scratch_bytes; /* kernel scratch or packing buffer, at the
                              stream's scratch offset */
} plan_task;

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
    int64_t *offset; /* [count] in the role's arena */
    bool per_step;
    bool persistent;  /* variable or constant: lives across steps */
    bool own_memory;  /* shares its bytes with no other register */
    int32_t producer; /* task, -1 for constants */
    int32_t n_consumers;
    int32_t *consumers; /* tasks, ascending; not the producer itself; a task
                           that reads it twice stands once */
} plan_register;

/* A stage's program is its slots in order, each running the tasks of its phase
 * in index order; the program of a stream is the subsequence of its tasks. */
typedef struct plan_slot {
    plan_phase phase;
    int32_t micro_batch;
} plan_slot;

typedef enum plan_bytes_kind {
    PLAN_BYTES_PARAM,
    PLAN_BYTES_STATE,
    PLAN_BYTES_CONST,
    PLAN_BYTES_GRADIENT,   /* per-step registers of the backward pass */
    PLAN_BYTES_ACTIVATION, /* micro-batch registers (after sharing) */
    PLAN_BYTES_SCRATCH,
    PLAN_BYTES_KINDS
} plan_bytes_kind;

typedef struct plan_role {
    int32_t stage;
    int32_t first_rank, n_ranks;
    int32_t n_tasks, n_registers, n_streams, n_slots;
    plan_task *tasks; /* sorted by phase, then program order */
    plan_register *registers;
    plan_stream *streams;
    int64_t *stream_scratch; /* [n_streams] offset of the stream's scratch */
    plan_slot *slots;
    int64_t arena_bytes; /* what a rank allocates: its planned peak, exactly */
    int64_t bytes[PLAN_BYTES_KINDS]; /* adds up to arena_bytes */
    int64_t bound_bytes;             /* no placement can need less than this */
} plan_role;

/* Ranks of a stage that differ in one mesh coordinate only. */
typedef struct plan_comm {
    int32_t stage, axis;
} plan_comm;

typedef struct plan_channel {
    int32_t from_stage, to_stage;
} plan_channel;

typedef struct plan {
    const plan_strategy *strategy;
    int32_t micro_batches;
    int32_t n_roles, n_comms, n_channels;
    plan_role *roles; /* ascending first_rank; together every rank once */
    plan_comm *comms;
    plan_channel *channels;
    uint64_t model_digest, cluster_digest;
    uint64_t digest; /* of the JSON form: plan_digest */
    bool edited;     /* the file it was read from bears another digest */
} plan;

typedef struct plan_lower_options {
    bool overlap;      /* collectives on a stream of their own */
    bool share_memory; /* registers of one stream may share bytes */
    int32_t prefetch;  /* extra credits of loaded and received registers */
} plan_lower_options;
plan_lower_options plan_lower_defaults(void);

/* Strategy -> plan. Asks nobody: boxing paths stand in the strategy. */
fs_status plan_lower(const ir_graph *graph, const hw_cluster *cluster,
                     const plan_strategy *strategy,
                     const plan_lower_options *options, fs_arena *arena,
                     fs_err *err, plan **out);

const plan_role *plan_role_of_rank(const plan *p, int32_t rank);
/* Mesh coordinates of a rank in its stage. */
void plan_rank_coords(const plan *p, int32_t rank, int32_t coords[IR_MAX_MESH]);
/* The ranks of the communicator that `rank` belongs to, in order of the axis;
 * returns how many. out has room for the mesh's axis length. */
int32_t plan_comm_ranks(const plan *p, const plan_comm *comm, int32_t rank,
                        int32_t *out);
/* The peer of `rank` on a channel. */
int32_t plan_channel_peer(const plan *p, const plan_channel *channel,
                          int32_t rank);
/* Name of a task for people: "/blocks.0/fc/MatMul", "all-gather x.grad". */
const char *plan_task_name(const ir_graph *graph, const plan_task *task,
                           fs_arena *arena);

#endif
