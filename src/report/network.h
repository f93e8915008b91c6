/* Inside report/: the picture of a network, plain or with a plan on it. Blocks
 * and nodes are draw_network.c's, edges draw_flow.c's, what belongs to stages
 * draw_stages.c's. */
#ifndef FS_REPORT_NETWORK_H
#define FS_REPORT_NETWORK_H

#include "report/draw.h"

typedef struct network_block {
    const char *name;
    int32_t stage;
    uint64_t kind;   /* equal for blocks that look the same */
    int32_t fold_of; /* the block that stands for it */
    int32_t repeats; /* how many it stands for */
    int32_t n_nodes;
    int32_t first; /* its nodes stand at members[first + place] */
    Agraph_t *cluster;
} network_block;

typedef struct network {
    draw d;
    const ir_graph *graph;
    const plan *plan;              /* NULL: the plain network */
    const plan_strategy *strategy; /* the plan's */
    FS_VEC(network_block) blocks;
    int32_t *block_of; /* [nodes], -1 not drawn */
    int32_t *place;    /* [nodes] position in its block */
    int32_t *members;  /* [nodes drawn] by block, in place order */
    Agnode_t **node;   /* [nodes] */
    Agraph_t **stage;  /* [stages] */
    Agnode_t **note;   /* [stages] */
} network;

int32_t network_stage_of(const network *w, int32_t v);
/* One measure for labels and notes alike: what a rank holds of the tensor,
 * before or after, whichever is more. */
int64_t network_step_bytes(const plan_box_step *step);
int64_t network_cross_bytes(const plan_cross *cross);

/* Edges of the plain network, or what a micro-batch's forward pass moves: each
 * boxing step and each move of the plan once, as the label of an edge. What
 * several nodes read leads to a point, and from there to them. */
void network_draw_flow(network *w);
/* Clusters of stages with a note each: all communication by phase. */
void network_make_stages(network *w);
/* Edges between notes: moves outside the forward pass. */
void network_join_notes(network *w);
/* The colours that the picture uses. */
void network_make_legend(network *w);

#endif
