/* Prices of many strategies that are one but for numbers: the lengths of the
 * axes of a mesh, stages, layers of each, micro-batches, the schedule. Such a
 * strategy is a graph of few equal layers in a first stage, one that stands for
 * all between, and a last one. What it takes is a sum over few different terms
 * and what it holds one over few different pieces, all of them the formula's
 * (strategy.c) and memory's: a sheet keeps them, so that a price is a
 * composition of known parts. It is what cost_strategy says of the strategy
 * written out (src/cost/README.md). */
#ifndef FS_COST_SHEET_H
#define FS_COST_SHEET_H

#include "cost/cost.h"

enum { COST_SHEET_STAGES = 3 };

/* What of pipelines the memory of their stages hangs on, for any number of
 * folds; in the arena. */
typedef struct cost_pipes cost_pipes;
cost_pipes *cost_pipes_create(fs_arena *arena);

/* A graph of equal layers in stages, and who stands for whom: each stage has at
 * least three whole layers, all as many; of one in the middle there may be any
 * number. Of one, two or three stages: the first, any number alike, the last.
 * FS_INVALID says what of it is not so. It borrows all of these, remembers
 * what stages hold, and is for one thread. */
typedef struct cost_folding {
    const ir_graph *graph;
    int32_t n_stages;
    const int32_t *stage_of; /* [nodes] */
} cost_folding;
typedef struct cost_fold cost_fold;
fs_status cost_fold_create(const cost_model *model, cost_pipes *pipes,
                           const cost_folding *of, fs_arena *arena, fs_err *err,
                           cost_fold **out);

/* The same of a graph that is alike node by node but for sizes (another number
 * of samples; else FS_INVALID): it shares what the first, which outlives it,
 * remembers of stages. */
fs_status cost_fold_like(const cost_fold *fold, const ir_graph *graph,
                         fs_arena *arena, fs_err *err, cost_fold **out);

/* A strategy for it, which stays where it is: stages of one mesh each, all axes
 * of which are longer than 1. What layers of a stage hand on to each other has
 * to lie alike (FS_INVALID); of the strategy written out all but the first and
 * the last lie as the second does. */
typedef struct cost_sheet cost_sheet;
fs_status cost_sheet_create(cost_fold *fold, const plan_strategy *strategy,
                            fs_arena *arena, fs_err *err, cost_sheet **out);

typedef struct cost_degrees {
    ir_mesh mesh;     /* of each stage: as many axes as the sheet's strategy */
    int32_t n_stages; /* on devices one after the other */
    int32_t layers;   /* of each stage; no fewer than the fold's have */
    int32_t micro_batches;
    const char *schedule; /* one that gives devices one stage */
} cost_degrees;

typedef struct cost_price {
    double iteration_s, fill; /* cost_summary's */
    int32_t n_stages;         /* of the fold; */
    double
        micro_s[COST_SHEET_STAGES];   /* each, as of cost_summary: the first, */
    double step_s[COST_SHEET_STAGES]; /* the second for all between, the last */
    int64_t peak_bytes[COST_SHEET_STAGES]; /* of those between the most */
} cost_price;
/* FS_INVALID: there is no such strategy (what is cut is too short, devices are
 * too few), its stages do not lie alike in the cluster's nodes, or none of
 * those between holds most. Prices are quickest where one mesh is asked about
 * in a row. */
fs_status cost_sheet_price(cost_sheet *sheet, const cost_degrees *degrees,
                           fs_err *err, cost_price *out);

#endif
