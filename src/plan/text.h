/* Text form of strategy and plan: JSON, stable field order. A plan file names
 * its model and cluster by spec and digest, so that a command can open it
 * alone; what `local` was when it was probed stands in the file itself. */
#ifndef FS_PLAN_TEXT_H
#define FS_PLAN_TEXT_H

#include "base/json.h"
#include "plan/plan.h"

enum { PLAN_FORMAT_VERSION = 4, PLAN_MAX_MICRO_BATCHES = 1 << 20 };
#define PLAN_MAX_BATCH ((int64_t)1 << 40)

/* How the training graph of the plan was made: enough to make it again. */
typedef struct plan_origin {
    const char *file;        /* the plan's file that says it; NULL: none */
    const char *model;       /* file or zoo string */
    bool infer;              /* its graph has outputs and no loss, and trains
                                nothing: all of training is "" or usual */
    const char *loss;        /* --loss, or "" */
    const char *params;      /* --params, or "" */
    const char *rewrite;     /* which graph rewrites: a list */
    bool dropout;            /* dropouts drop; else they are left out */
    const char *optimizer;   /* name */
    const char *lr_schedule; /* --lr-schedule, or "" */
    /* -1: the usual one */
    double lr, weight_decay, momentum, beta1, beta2, epsilon;
    const char *recompute;   /* --recompute, or "" */
    const char *again;       /* what was to choose from, a policy; "" (also
                                NULL): nothing was */
    int32_t n_kept;          /* of this not computed again, but kept: what */
    const char **kept;       /* these nodes make */
    double clip_norm;        /* of all gradients together; 0: any */
    const char *precision;   /* fp32 (also NULL), bf16, fp16 */
    const char *loss_scale;  /* --loss-scale, or "" */
    const char *states;      /* of the optimizer: fp32 (also NULL), bf16 */
    const char *compress;    /* --compress, or "" (also NULL) */
    int32_t n_compressed;    /* 0: all that it can make smaller */
    const char **compressed; /* parameters whose gradients it takes */
    const char *cluster;     /* spec */
    int64_t batch;
    int64_t memory_bytes;  /* limit per device besides its own, that it was
                              made within; 0: none */
    int32_t micro_batches; /* plan_write fills in the plan's own */
    int32_t n_binds;
    const char **binds; /* "name=size" */
    int32_t n_padding;
    const char **padding; /* "table=row" */
    uint64_t seed;
    double iteration_s;     /* predicted by the formula */
    double sim_iteration_s; /* 0 when not simulated */
} plan_origin;

/* `graph` gives names to nodes and tensors (the file can be read by people).
 * The plan gets the digest that its file has (plan_digest_of). */
fs_status plan_write(const char *path, const ir_graph *graph, plan *p,
                     const plan_origin *origin, const hw_cluster *cluster,
                     fs_err *err);

/* First half of reading: version, origin, digests and, for `local`, the cluster
 * as stored in the file; NULL when it has to be opened by its spec. */
fs_status plan_read_origin(const char *path, fs_arena *arena, fs_err *err,
                           plan_origin *origin, hw_cluster **cluster);
/* Then the training graph made from the origin is bound to the stages of its
 * nodes (ir_recompute_bind). Nodes that the file does not list lie where what
 * they belong to does; what else is wrong with it plan_read tells. */
fs_status plan_read_places(const char *path, fs_arena *arena, fs_err *err,
                           ir_graph *graph);
/* Second half, against the graph so bound: every index
 * and size is checked against graph and cluster; a plan for another model or
 * cluster is refused. */
fs_status plan_read(const char *path, const ir_graph *graph,
                    const hw_cluster *cluster, fs_arena *arena, fs_err *err,
                    plan **out);

/* Digest of all that decides what a run computes and what was predicted: model,
 * cluster, strategy, physical plan and, unless NULL (a plan just lowered),
 * origin. Of model and cluster their own digests count, not where they lie,
 * and the limit that a plan was made within changes nothing in it. */
uint64_t plan_digest_of(const ir_graph *graph, const plan *p,
                        const plan_origin *origin);

#endif
