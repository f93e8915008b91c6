/* Seconds and bytes. ir says how much work, hw what the machine is; only this
 * layer says how long. Every result comes with its breakdown. */
#ifndef FS_COST_COST_H
#define FS_COST_COST_H

#include "hw/cluster.h"
#include "plan/boxer.h"
#include "plan/timing.h"

/* Holds the cluster, which must outlive it, and remembers routes: one thread
 * at a time. */
typedef struct cost_model cost_model;
cost_model *cost_model_create(const hw_cluster *cluster, fs_arena *arena);
const hw_cluster *cost_cluster(const cost_model *model);
/* Of another cluster; what is said of the model's collectives counts there too
 * (cost/choice.h). */
cost_model *cost_model_on(const cost_model *model, const hw_cluster *cluster,
                          fs_arena *arena);
/* Of the same cluster, for another thread. */
cost_model *cost_model_like(const cost_model *model, fs_arena *arena);
/* The model as the micro-batches of a pipeline see it: with p stages and m
 * micro-batches a device is busy m / (m + p - 1) of the time, so that fewer
 * compete for the cores of a node. A view: it shares `model`, and is `model`
 * where that changes nothing. What happens once per step uses `model`. */
const cost_model *cost_model_for(const cost_model *model, int32_t n_stages,
                                 int32_t micro_batches, fs_arena *arena);

/* Compute: measured points of the op (or its class) where there are some,
 * interpolated over work; else the roofline launch + max(flop / rate, bytes /
 * bandwidth) with the device's measured efficiencies. Isolated: alone on its
 * host. */
plan_demand cost_op(const cost_model *model, const ir_graph *graph,
                    const ir_node *node, const ir_nd_sig *sig,
                    const plan_stage *stage);
/* One boxing step; collectives by the closed forms of plan/algorithms.def, over
 * the slowest link that the axis crosses. */
plan_demand cost_box_step(const cost_model *model, const plan_stage *stage,
                          const plan_box_step *step);
/* A point-to-point move of `bytes` per position between two stages. */
plan_demand cost_p2p(const cost_model *model, const plan_stage *from,
                     const plan_stage *to, int64_t bytes);
/* A crossing between any two stages: the position that takes longest, by what
 * the exchange makes it send or receive. Where both lie alike on equal meshes,
 * cost_p2p. */
plan_demand cost_cross(const cost_model *model, const plan_cross *cross);
/* Not more than that, without looking at who gives what to whom. */
plan_demand cost_cross_least(const cost_model *model, const plan_cross *cross);
/* Nor more than that, in seconds, whatever the SBPs at both ends. */
double cost_cross_floor(const cost_model *model, const ir_tensor *tensor,
                        const plan_stage *from, const plan_stage *to);
/* Where two stages lie, as far as crossings between them (or, of one twice,
 * boxing on it) can tell: pairs of equal meshes and places cost the same. On
 * nodes of one kind they may lie whole nodes further on, where they share none
 * any number of nodes from each other, and what keeps to a node anywhere in
 * it; where the cluster tells its wires, at the same place in a node, and where
 * it tells leaves, as far from each other and at the same place in a leaf. */
typedef struct cost_place {
    int32_t begins[2]; /* devices; no padding */
    int32_t apart;     /* share no node; 0 or 1 */
} cost_place;
cost_place cost_place_of(const cost_model *model, const plan_stage *from,
                         const plan_stage *to);

/* Adds to a demand on a stage's ranks that each has a core of its own what they
 * wait for the slowest of them (hw_group's jitter). Done by cost_op and
 * cost_box_step. */
void cost_wait_for_slowest(const cost_model *model, const plan_stage *stage,
                           plan_demand *demand);

/* Loading `bytes` of data. */
plan_demand cost_load(const cost_model *model, const plan_stage *stage,
                      int64_t bytes);

/* What plan_boxer_create wants: seconds under full sharing of the host. */
plan_boxing_cost cost_boxing(const cost_model *model);

/* Demand -> seconds when the devices of the host compete for its cores: what
 * is on a core times max(1, busy * devices / cores), busy being 1 or that of
 * cost_model_for. What the formula (and so search) counts. */
double cost_shared_seconds(const cost_model *model, const plan_stage *stage,
                           const plan_demand *demand);

/* The formula for one iteration of a strategy:
 *   T = q sum_i t_i + (m - q) max_i t_i + max_i u_i
 * t_i: seconds of group of devices i, which runs a stage or several, per
 * micro-batch (ops, boxing, moves in) under cost_model_for, u_i: its seconds
 * per step (variables' boxing, updates) under `model`; q: how much of fill and
 * drain the schedule lets show (plan_schedule_fill). For one: m t + u. */
typedef struct cost_summary {
    double iteration_s;
    double fill;                /* q */
    int32_t n_stages, n_groups; /* stages; groups of devices that run them */
    int32_t *group_of;          /* [n_stages] */
    double *micro_s, *step_s;   /* [n_stages] */
    int64_t *peak_bytes;        /* [n_stages] estimate before lowering: the most
                                   of the moments of memory.h */
    plan_breakdown time; /* stages -> phases -> op classes, boxing kinds */
} cost_summary;
fs_status cost_strategy(const cost_model *model, const ir_graph *graph,
                        const plan_strategy *strategy, fs_arena *arena,
                        fs_err *err, cost_summary *out);

/* Its iteration_s, and its peak_bytes, alone, of a strategy that cost_strategy
 * takes. */
double cost_strategy_seconds(const cost_model *model, const ir_graph *graph,
                             const plan_strategy *strategy);
void cost_strategy_bytes(const ir_graph *graph, const plan_strategy *strategy,
                         int64_t *bytes);
/* The most seconds of a group of devices; seconds: [n_stages]. */
double cost_slowest_group(const cost_summary *s, const double *seconds);
/* Seconds per step of one node: its kernel, the boxing of what it reads ("of
 * ..") and of what is read of it ("for .."). The strategy is one that
 * cost_strategy takes. */
plan_breakdown cost_node_tree(const cost_model *model, const ir_graph *graph,
                              const plan_strategy *strategy, int32_t node,
                              fs_arena *arena);

/* plan_lower_options.bucket_bytes that make latency a twentieth of what a full
 * bucket of the strategy's takes, of whatever kind and ranks (the most that one
 * wants; a power of two); 0: nothing goes in buckets. */
int64_t cost_bucket_bytes(const cost_model *model, const ir_graph *graph,
                          const plan_strategy *strategy);

/* Seconds of an iteration that no simulation of the strategy's plan goes below,
 * step after step (least.c). The schedule is a known one; it is lowered with
 * these options. */
double cost_least(const cost_model *model, const ir_graph *graph,
                  const plan_strategy *strategy,
                  const plan_lower_options *options);

/* Additive pieces of the formula, so that search adds the same numbers:
 * node (a stage's compute, per firing), edge (its path; INFINITY when it is
 * none), both under the model that their kind wants (cost_model_for), whether
 * each counts per micro-batch or per step. Bytes: memory.h. */
double cost_node_seconds(const cost_model *model, const ir_graph *graph,
                         int32_t node, const ir_nd_sig *sig,
                         const plan_stage *stage);
bool cost_node_per_step(const ir_graph *graph, int32_t node);
/* Seconds that a node takes at least on one device that does such a share of
 * its work, whatever kind of device that is; and all of the work of a node, of
 * which the busiest of n devices has an n-th at least, operations, bytes read
 * and bytes written, however it is cut. */
double cost_share_least(const cost_model *model, const ir_node *node,
                        const ir_work *share);
ir_work cost_whole_work(const ir_graph *graph, int32_t node);
/* Would the node take no longer, however it is cut and wherever it runs, if
 * some of its operands were 16-bit floats in the place of floats? */
bool cost_narrow_is_no_slower(const cost_model *model, const ir_node *node);
/* Each step of `path`, the crossing too, as cost_shared_seconds. */
double cost_edge_seconds(const cost_model *model, const plan_ends *ends,
                         const plan_boxing *path);

/* Timing table of a plan. */
plan_timing *cost_timing(const cost_model *model, const ir_graph *graph,
                         const plan *p, fs_arena *arena);
/* Adds to a run's own durations what ranks wait for each other at meetings. */
void cost_timing_meet(const cost_model *model, const plan *p,
                      plan_timing *timing);

#endif
