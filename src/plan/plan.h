/* The physical plan: what the simulator and the runtime both read. Per ROLE (a
 * group of identical ranks), never per rank: tasks, registers with credits,
 * streams with a total order, communicators, static memory offsets. const for
 * everyone after plan_lower.
 *
 * Rank r of a run is device r of the cluster. */
#ifndef FS_PLAN_PLAN_H
#define FS_PLAN_PLAN_H

#include "hw/cluster.h"
#include "plan/task.h"

/* A role's program is its slots in order, each running the tasks of its section
 * in index order; the program of a stream is the subsequence of its tasks. A
 * section is a phase of one of the role's stages; BEGIN and END are one section
 * each for all of them, for there stages wait for each other both ways. */
typedef struct plan_slot {
    plan_phase phase;
    int32_t micro_batch;
    int32_t chunk; /* 0 in BEGIN and END */
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

/* Ranks that run the same: those of a stage, or of all stages that lie on the
 * same devices. Such stages are the chunks of one role; their meshes are equal.
 */
typedef struct plan_role {
    int32_t n_chunks, *stages; /* ascending */
    int32_t first_rank, n_ranks;
    int32_t n_tasks, n_registers, n_streams, n_slots;
    plan_task *tasks; /* sorted by section, then program order */
    plan_register *registers;
    plan_stream *streams;
    int64_t *stream_scratch; /* [n_streams] offset of the stream's scratch */
    plan_slot *slots;
    int64_t arena_bytes; /* what a rank allocates: its planned peak, exactly */
    int64_t bytes[PLAN_BYTES_KINDS]; /* adds up to arena_bytes */
    int64_t bound_bytes;             /* no placement can need less than this */
} plan_role;

/* Ranks of a stage that differ in these mesh coordinates only (a bit each). */
typedef struct plan_comm {
    int32_t stage;
    uint32_t axes;
} plan_comm;

typedef struct plan_channel {
    int32_t from_stage, to_stage;
} plan_channel;

/* Of a step: what is more is neither lowered nor checked. */
enum { PLAN_MOST_FIRINGS = 1 << 28 };

typedef struct plan {
    const plan_strategy *strategy;
    int32_t micro_batches;
    int32_t n_roles, n_comms, n_channels;
    plan_role *roles; /* ascending first_rank; together every rank once */
    plan_comm *comms;
    plan_channel *channels;
    uint64_t model_digest, cluster_digest;
    uint64_t digest; /* plan_digest_of, of a plan that was written or read; else
                        0: it takes as long as all of lowering */
    bool edited;     /* the file it was read from bears another one, or none */
} plan;

/* Placements of memory that were found: lowering that has them finds the same
 * ones, sooner. One thread at a time. */
typedef struct plan_known plan_known;
plan_known *plan_known_create(fs_arena *arena);

typedef struct plan_lower_options {
    bool overlap;      /* collectives on a stream of their own */
    bool share_memory; /* registers of one stream may share bytes */
    int32_t prefetch;  /* extra credits of loaded and received registers; with
                          overlap, largest pieces gathered ahead of readers */
    /* Collectives that run once per step, of one communicator, kind and dtype,
     * go together until they have so many bytes; 0: each by itself. */
    int64_t bucket_bytes;
    bool refine; /* more effort where greedy offsets leave a gap */
    /* [stages] bytes of an arena: no lower one is looked for below them, nor
     * where none can be that low; NULL: as low as it goes */
    const int64_t *enough_bytes;
    /* Asked is only whether roles fit these: where that is known sooner
     * nothing has offsets, and of a role like one that fits, but with no more
     * in flight, what is told is that one's arena. */
    bool asks_fit;
    plan_known *known; /* NULL: nothing is remembered */
    void (*progress)(void *ctx, const char *line); /* NULL: silent */
    void *progress_ctx;
} plan_lower_options;
plan_lower_options plan_lower_defaults(void);

/* Strategy -> plan. Asks nobody: boxing paths stand in the strategy. */
fs_status plan_lower(const ir_graph *graph, const hw_cluster *cluster,
                     const plan_strategy *strategy,
                     const plan_lower_options *options, fs_arena *arena,
                     fs_err *err, plan **out);

/* The arena's bytes above its bound, as a fraction of the bound. */
double plan_role_gap(const plan_role *role);

/* Sections in the order in which one micro-batch comes to them: forward by
 * ascending chunk, backward and weight by descending chunk. */
int32_t plan_n_sections(const plan_role *role);
int32_t plan_section(const plan_role *role, plan_phase phase, int32_t chunk);
int32_t plan_task_section(const plan_role *role, const plan_task *task);
int32_t plan_slot_section(const plan_role *role, const plan_slot *slot);
/* A kernel or a local boxing step: a device runs one of them at a time. */
bool plan_task_computes(const plan_task *task);
/* Have collectives streams of their own, beside those that compute? */
bool plan_overlaps(const plan *p);
/* Does its section run once per step? */
bool plan_phase_once(plan_phase phase);
/* The stage that a task belongs to. */
int32_t plan_task_stage(const plan_role *role, const plan_task *task);
bool plan_role_has_stage(const plan_role *role, int32_t stage);
/* "stage 1", "stages 1 and 3". */
const char *plan_bytes_kind_name(plan_bytes_kind kind);
const char *plan_role_stages_text(const plan_role *role, fs_arena *arena);
/* The mesh of all its stages. */
const ir_mesh *plan_role_mesh(const plan *p, const plan_role *role);

const plan_role *plan_role_of_rank(const plan *p, int32_t rank);
/* Mesh coordinates of a rank in its stage. */
void plan_rank_coords(const plan *p, int32_t rank, int32_t coords[IR_MAX_MESH]);
/* The ranks of the communicator that `rank` belongs to, ascending; returns how
 * many. out has room for plan_comm_size. */
int32_t plan_comm_size(const plan *p, const plan_comm *comm);
int32_t plan_comm_ranks(const plan *p, const plan_comm *comm, int32_t rank,
                        int32_t *out);
/* Between equal meshes: who has the position of `rank` on the other stage. */
int32_t plan_channel_peer(const plan *p, const plan_channel *channel,
                          int32_t rank);
/* The crossing that a SEND or RECV is half of. */
plan_cross plan_task_cross(const ir_graph *graph, const plan *p,
                           const plan_task *task);
/* Does position i of it deal with position i alone? */
bool plan_task_is_straight(const plan *p, const plan_task *task);

#endif
