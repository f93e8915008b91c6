/* A configuration on its way. Internal to this folder. */
#ifndef FS_SEARCH_CANDIDATE_H
#define FS_SEARCH_CANDIDATE_H

#include "search/built.h"
#include "search/cuts/cut.h"
#include "search/cuts/order.h"
#include "search/view.h"

/* Two assignments that are to be spliced (splice.c). */
typedef struct search_ends search_ends;

/* What an engine is asked about a configuration, and what it answers. */
typedef struct search_asked {
    search_budget budget;
    double seconds;   /* of work, and as much again for what follows; but */
    double left;      /* no more steps than that in all, */
    int64_t begun;    /* from here on */
    fs_deadline rest; /* of all work */
    double forbidden; /* bytes that every plan of the whole needs of a limit,
                         where these are too many; 0: none are known */
    fs_status status;
    search_solution solution; /* in the configuration's arena */
    search_ends *ends;        /* NULL: none, or not needed */
    fs_err err;
} search_asked;

/* Stages that are cut otherwise than all others of their number (recut.c). */
typedef struct search_part {
    int32_t number;       /* of those of the search */
    const int32_t *begin; /* [stages] as search_ranks counts; NULL: by time */
    const ir_mesh *mesh;  /* [stages] each has its own; NULL: all have one */
    bool walked;          /* one of many (walk.c) */
} search_part;

/* What a plan's pieces take where they run, by rank (search_ranks). */
typedef struct search_measured {
    const search_ranks *ranks;
    double *micro_s, *step_s; /* [ranks] without moves between stages */
    int32_t *stage;           /* [ranks] */
    double cost_s;            /* of the plan, */
    bool proposed;            /* cuts, by that, */
    const struct search_prices *prices; /* and what proved most of it */
} search_measured;

/* Bounds of a cut: at even prices first. */
enum { SEARCH_CUT = 2 };

/* A configuration on its way. */
typedef struct search_candidate {
    const search_graph *graph;
    int32_t n_stages;
    int32_t depth;             /* of these on a group of devices */
    ir_mesh mesh;              /* of the first stage */
    const search_order *order; /* of groups of devices; NULL: the cluster's, */
    int32_t order_number;      /* of this number */
    const search_part *part;   /* NULL: equal meshes, cut by time */
    search_measured *measured; /* NULL: not, */
    bool dealt;                /* but cut again by what no plan takes */
    double any_cut_s; /* bound however these stages are cut; 0: none is known */
    bool every_cut;   /* which was raised as far as it goes */
    bool walked;      /* cuts beside its own were proposed (walk.c); and from */
    int32_t walks;    /* cuts of it so often without a better one, */
    double walked_s;  /* of those that were looked at the best; 0: none was */
    double seen_s;    /* what greedy finds for it; 0: it was not asked */
    const char *schedule;    /* NULL: all that are to choose from */
    search_layout layout;    /* of the whole graph */
    search_layout shown;     /* what its network is built on: the same, or */
    const search_view *view; /* this view of it */
    search_built built;
    fs_arena *arena; /* its tables */
    search_config record;
    int64_t steps;               /* of work done */
    search_asked *asked;         /* the last time; NULL: never */
    bool answered;               /* and nothing was concluded yet */
    int32_t asked_in;            /* this round, */
    double asked_s;              /* with so much work; 0: never */
    bool looked, weighed, tried; /* how far the first pass came with it, */
    bool nodes;            /* its nodes were looked at, whatever the cut */
    int32_t cut;           /* and with its own cut: SEARCH_CUT, all the
                              way */
    bool shared;           /* shares of its own cut were looked at */
    bool first;            /* before all others, whatever their bounds */
    double pressed_s;      /* bound that it was pressed for by prices alone (0:
                              none), */
    double pressed_with_s; /* so much work, at */
    const struct search_prices *prices; /* these; NULL: of no byte */
    double *reached;                    /* potentials that prove, with them,
                                           (NULL: none do) */
    double reached_s;                   /* this bound, */
    bool reached_by_engine;             /* from its prices, not by pressing */
    bool cramped;     /* none of as many stages is known to have room for any */
    bool too_small;   /* plan; nor has it: an engine's to say */
    bool solved;      /* an engine was asked */
    bool anchored;    /* asked for lean plans, */
    bool cut_short;   /* and had no work for all that there are */
    double scout_s;   /* what its network takes, at even prices and whatever it
                         holds; 0: it was not asked */
    bool glanced;     /* greedy was asked (glance.c) */
    bool again;       /* what is computed again is chosen, */
    bool covered;     /* or there is one for which it is, too */
    double weighed_s; /* bound whatever the limits */
    double sim_s;     /* no plan of it takes less when simulated, */
    bool sim_nodes;   /* by seconds of its nodes, not of launches alone */
    bool unfolded;    /* its cut was laid out, and nothing of it folds */
    bool whole;       /* its network is not to be folded, */
    bool unfolds;     /* or not any more */
    bool memory_binds; /* as the engine saw it */
    bool settled;      /* no further effort would change its record */
    bool bare;         /* moments as for any plan, whatever z->missing */
    bool anew;         /* there are moments that its tables lack, */
    bool missed; /* a plan of it was better than the best, and did not fit */
    bool retry;  /* or had lacked, and it is to be attempted first, */
    struct search_met *met; /* by engines, of its folded network; NULL */
    int32_t mixed;          /* so many of those with one that fits */
    int32_t further;  /* so often what was enough of its folded network was not
                         of the whole */
    bool asked_first; /* for a plan, before others are pressed; */
    bool sought;      /* for a plan that fits, whatever it proves, */
    double within;    /* in this share of its limits: its last one took more
                         than by its network */
    double share;     /* of the limits that its network has, */
    int32_t level, tried_level; /* where narrowed: that in steps (narrow.c), */
    int32_t top, under;         /* the highest; up to here nothing is better */
    bool fitted, exhausted;     /* there is such a level; no other is left */
    uint64_t levels;            /* that were tried, from the top on */
    double proven_s;    /* bound for the whole limits; 0: the record's */
    int64_t need_bytes; /* least memory, when that is what it lacks */
    char why[1024];     /* it is infeasible */
} search_candidate;

#endif
