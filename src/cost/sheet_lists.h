/* Inside cost/sheet: what stages hold, whatever lies how; and what a strategy
 * has of different terms and pieces, on all graphs in which the same tensors
 * have equal shapes and the same nodes equal work, whatever these are. */
#ifndef FS_COST_SHEET_LISTS_H
#define FS_COST_SHEET_LISTS_H

#include "cost/memory.h"
#include "cost/parts.h"

/* What a stage holds at a task: outputs of nodes so often, and of edges so much
 * (holdings of the program), as it is kept or made anew. */
typedef struct sheet_stock {
    int32_t node, copies;
} sheet_stock;
typedef struct sheet_held {
    int32_t edge;
    int16_t kept, anew;
} sheet_held;
typedef struct sheet_task {
    int32_t end_stock, end_held; /* from the end of the one before on */
} sheet_task;
/* And beside it the scratch of an edge; -1: of none. */
typedef struct sheet_moment {
    int32_t task, edge;
} sheet_moment;

/* What is held at some moments, and which holdings of it are one. */
typedef struct sheet_shape {
    FS_VEC(sheet_task) tasks;
    FS_VEC(sheet_moment) moments;
    FS_VEC(sheet_stock) stocks;
    FS_VEC(sheet_held) held;
} sheet_shape;

/* What stages with so many layers hold under some slots at some moments,
 * whatever lies how and however large it is. */
typedef struct sheet_program {
    int32_t shape;
    FS_VEC(cost_holding) holdings;
} sheet_program;

/* What lies on an edge, at the stage where it leaves or arrives, of edges that
 * are alike; and what a node makes. */
typedef struct sheet_content {
    int32_t node, slot; /* of the first such edge; -1: its outputs */
    bool arrives;
} sheet_content;

typedef struct sheet_count {
    int32_t term, sum; /* cost_counted's */
    int32_t once, between;
} sheet_count;

/* A content that is held alike so often; holding -1: outputs of nodes. */
typedef struct sheet_group {
    int32_t content, holding, n;
} sheet_group;

/* What a shape holds, by contents. */
typedef struct sheet_sums {
    bool made;
    FS_VEC(int32_t) ends; /* [tasks] of the groups of each */
    FS_VEC(sheet_group) groups;
} sheet_sums;

typedef struct sheet_lists {
    const plan_strategy *of;
    int32_t kinds;
    fs_arena *arena;
    const int32_t *like; /* plan_strategy's */
    int32_t n_terms;
    const cost_term *terms;
    FS_VEC(sheet_count) counts;
    FS_VEC(sheet_content) contents;
    int32_t *of_node, *of_edge[2]; /* contents; [arrives][edges] -1: none */
    bool *anew;                    /* [edges] as the strategy has it */
    FS_VEC(sheet_sums) sums;       /* [shapes of home], once asked for */
} sheet_lists;

#endif
