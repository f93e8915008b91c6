/* From a configuration to its cost network. Internal to this folder. */
#ifndef FS_SEARCH_LAYOUT_H
#define FS_SEARCH_LAYOUT_H

#include "cost/memory.h"
#include "search/engine/engine.h"
#include "search/search.h"

typedef struct search_span {
    int32_t first, last;
} search_span;

/* A configuration: which nodes run on which devices. */
typedef struct search_layout {
    const ir_graph *graph; /* bound to the stages (ir_recompute_bind) */
    int32_t n_stages;
    plan_stage *stages;      /* devices in order */
    const int32_t *stage_of; /* [nodes] */
    const int32_t *begin;    /* [n_stages] where each is to begin, of the nodes
                                that search_ranks orders; NULL: search_cut says */
    int32_t n_groups;  /* of devices, each of which runs a stage or several */
    int32_t *group_of; /* [n_stages] */
    const char *schedule;
    double fill; /* plan_schedule_fill */
    int64_t *limit_bytes;
    struct search_rates *rates;
    const cost_standing *standing;  /* NULL: each stage and node is one */
    const int32_t *like;            /* [n_groups] search_net's */
    const struct search_view *view; /* NULL: it is the whole graph */
    const plan_stage *meant; /* the stages of the pipeline; NULL: these */
    const search_span *span; /* [n_stages] of meant's, those it stands for */
    cost_memory *memory;     /* of this and alike ones; NULL: none yet */
    const int32_t *equal;  /* [nodes] one before it, or itself, that is to have
                              the same value; NULL: itself */
    bool seconds_only;     /* no limits: enough for a first bound */
    bool least_moves;      /* between stages what these take at least: for one,
                              too */
    int32_t any_cut;       /* pieces may be of different ones of meant, which
                              lie alike in their nodes after so many: an edge
                              between them takes the least of what it does on
                              one and across; 0: they may not */
    bool tells_apart;      /* and is asked what a cut adds to it */
    bool in_runs;          /* each of meant is one run of pieces */
    fs_end end;            /* building stops there */
    const double *plain_s; /* [nodes] on one device; NULL: not known */
    int32_t *const *readers; /* [nodes][inputs, or a variable's loop] an edge
                                takes one so manieth of its seconds; 0: there is
                                none. NULL: all of them */
    const bool *gone;        /* [nodes] takes no time; NULL: none */
    bool chooses;            /* nodes that compute again may be left out */
    struct search_tables *tables; /* to take from and add to (tables.h); NULL:
                                     it has its own */
    const struct search_pieces
        *pieces;         /* of the graph; NULL: not known. What */
    int32_t heaviest[2]; /* that piece takes per micro-batch, per step counts as
                            if a second group of devices had it; -1: no piece's
                            does */
} search_layout;

/* Pieces of a graph that no cut divides (pieces.c), numbered by one node each;
 * of a view those that stand for `times` pieces of the whole graph. */
typedef struct search_pieces {
    const ir_graph *graph;
    int32_t *of;    /* [nodes] its piece; negative: it is not of one */
    int32_t *times; /* [nodes] of the piece of that number; 0: there is none */
    int32_t n, *order; /* [n] all of the whole graph's, as stages have them */
} search_pieces;

/* What seconds are counted with: [0] per micro-batch, [1] per step. */
typedef struct search_rates {
    const cost_model *cost[2];
    plan_boxer *boxer[2];
} search_rates;

int32_t search_group_of(const search_layout *layout, int32_t v);
/* Whose time what node v takes, or what it reads, counts as. */
int32_t search_bearer_of(const search_layout *layout, int32_t v, bool per_step);
/* How many nodes of its stage it stands for. */
int32_t search_times(const search_layout *layout, int32_t v);
/* Is a copy of that tensor, which changes once per step and lies on the
 * reader's stage, to be kept or made anew? */
bool search_copy_lives(const search_layout *layout, int32_t v, int32_t tensor);

/* Boxing made anew for node v (plan_boxing) is for one pass of one forward
 * node and what belongs to it: what is computed again, the backward nodes. */
int32_t search_sharing_of(const ir_graph *graph, int32_t v);

/* The program of a layout. */
cost_program search_program_of(const search_layout *layout);

#endif
