/* How a framework runs a plan: what it fuses, what its host does meanwhile,
 * what it overlaps. A plan is predicted as our runtime runs it, or as one of
 * these would: datasets/frameworks/NAME.json. */
#ifndef FS_COST_FRAMEWORK_H
#define FS_COST_FRAMEWORK_H

#include "base/json.h"
#include "cost/cost.h"

/* What ranks that take samples apart may have pieces of. */
typedef enum cost_sharded {
    COST_STATES,
    COST_GRADIENTS,
    COST_PARAMETERS,
    COST_SHARDED
} cost_sharded;
const char *cost_sharded_name(cost_sharded what); /* "states" */

/* Every figure has its unit in its name and its source in the file's `sources`,
 * by the same key. */
typedef struct cost_framework {
    const char *name, *about;
    int32_t n_matches; /* words that name it in tables of measured runs */
    const char **matches;
    /* Plans that it runs: with products in pieces, with pipelines, and these of
     * as many layers each. */
    bool cuts_tensors, cuts_layers, even_stages;
    bool shards[COST_SHARDED]; /* over data parallel ranks, which of these */
    int32_t n_schedules;       /* 0: not told */
    const char **schedules;    /* of schedules.def, that it has */
    /* Schedules under which a rank computes nothing until what it sends to
     * another stage is there, and then for so long until the host, which waited
     * too, has begun anew */
    int32_t n_waits;
    const char **waits_to_send;
    double exchange_s;
    /* Models: the vocabulary is padded to a multiple of that, times tp ranks;
     * or what is beyond the last one is cut off */
    int64_t vocab_multiple;
    bool cuts_vocab;
    /* Kernels. The host takes so long for each: a pass takes no less than all
     * of its kernels take it. */
    double host_s;
    /* Once per step: the host's work between steps */
    double step_s;
    bool attention_apart;  /* in kernels of its own, its scores in memory: */
    double score_bytes[2]; /* moved per score by those that are no products, in
                              the forward and in the backward pass */
    int32_t attention_kernels[2];
    /* Where samples times heads of a rank are no multiple of that softmax is
     * not fused, and both are these; 0: always fused */
    int32_t fused_multiple;
    double unfused_bytes[2];
    int32_t unfused_kernels[2];
    double attention_efficiency[2]; /* of matmul's, where it is one kernel, */
    double score_depth;  /* whose scores take as if heads were deeper by that:
                            exponentials beside the products */
    bool joins_products; /* of one input: queries, keys and values (joined.h) */
    double transposes[2];  /* share of them that copies */
    double extra_bytes[2]; /* moved per element that a block passes on, by what
                              networks of the zoo are without: dropouts */
    /* Activations are 16-bit floats throughout, weights too while a step lasts:
     * nothing is cast; gradients of weights add up in so many bytes moved per
     * element and micro-batch */
    bool narrow;
    bool streams_rows; /* its norms, softmax and sums along rows reach the
                          device's memory_efficiency */
    double accumulate_bytes;
    bool takes_first_gradient; /* instead of adding it to zeros */
    double loss_bytes; /* moved per logit by the loss, there and back, beyond
                          what ours moves */
    /* Updates: bytes moved per parameter, all of them at once; and gradients
     * over data parallel ranks: in buckets of that size (0: each for itself),
     * meanwhile or behind the last backward pass */
    double update_bytes;
    uint32_t collectives; /* algorithms that its library has: rows of
                             plan/algorithms.def */
    double bucket_bytes;
    double gather_bps; /* the most that a device takes in by collectives on
                          weights and their gradients; 0: as its links do */
    /* Of a gradient's element as it is reduced, where networks are of 16-bit
     * floats; 0: as the plan has it */
    double gradient_bytes;
    bool overlaps;
    bool own_stream;   /* collectives of passes run beside what needs them not;
                          as `overlaps` where the file tells nothing */
    bool tensor_alone; /* but with tensor parallel ranks all collectives are on
                          the stream of compute */
    /* A step that was put together of kernels profiled one at a time: each
     * ends so long before the next begins, and collectives come on top;
     * 0: it was run */
    double gap_s;
    bool recomputes;     /* where a row tells so, */
    bool repeats_blocks; /* and then a block's forward pass as it stands, with
                            what nobody reads again (repeated.h) */
    double jitter; /* relative deviation of a rank's passes: ranks that meet
                      wait for the slowest of them */
    /* Convolutional networks. Where they are of 16-bit floats ReLU, and the
     * addition before it, are part of the batch norm's kernels */
    bool fuses_norms;
    /* Activations lie channel by channel, but tensor cores take them pixel by
     * pixel: each convolution turns what it reads and writes */
    bool turns_images;
    /* Seconds of a host's core per image that is decoded there; 0: elsewhere */
    double host_image_s;
    /* How many times as long as predicted its kernels were measured to take; 0:
     * as long as predicted */
    double pace;
    /* Memory beside what is live: of the context and its libraries, and what
     * the allocator loses */
    bool wide_loss; /* though narrow: logits are floats, and their gradient */
    double weight_kept_bytes; /* per parameter of a network of 16-bit floats:
                                 weights beside those that are updated */
    double score_kept_bytes;  /* per score of attention apart, for backward */
    double extra_kept_bytes;  /* per element that a norm takes, for backward */
    double context_bytes, fragmentation;
} cost_framework;

/* FS_INVALID names the file and the field. */
fs_status cost_framework_read(const char *path, fs_arena *arena, fs_err *err,
                              cost_framework *out);
/* Its figures that the object has; FS_INVALID names what is none. */
fs_status cost_framework_change(const fs_json *in, fs_err *err,
                                cost_framework *out);
/* By name; FS_INVALID lists those that there are. */
fs_status cost_framework_open(const char *name, const char *data_dir,
                              fs_arena *arena, fs_err *err,
                              cost_framework *out);

/* All that there are, by name. */
typedef struct cost_frameworks {
    int32_t n;
    cost_framework *at;
} cost_frameworks;
fs_status cost_frameworks_open(const char *data_dir, fs_arena *arena,
                               fs_err *err, cost_frameworks *out);

/* The plan as that framework would run it: its own, or one whose ranks wait for
 * what they send (plan/in_turn.h). */
const plan *cost_framework_plan(const cost_framework *framework, const plan *p,
                                fs_arena *arena);
/* The timing of such a plan. */
plan_timing *cost_timing_under(const cost_framework *framework,
                               const cost_model *model, const ir_graph *graph,
                               const plan *p, fs_arena *arena);
#endif
