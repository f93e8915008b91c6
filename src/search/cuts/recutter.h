/* Cuts on their way: which promise something (propose.c), a first look at them
 * (glance.c), attempts (recut.c). Internal to these. */
#ifndef FS_SEARCH_RECUTTER_H
#define FS_SEARCH_RECUTTER_H

#include "search/level0.h"
#include "search/engine/memo.h"

typedef struct search_proposal {
    const search_candidate *of;
    const ir_mesh *mesh; /* [its stages]; NULL: all have its own */
    int32_t *begin;      /* [its stages] ranks */
    double cost_s;
    double slack; /* what is promised may be off by so much; 0: as any */
    bool even;    /* it is a relaxation: of no plan */
    bool seen;    /* it was looked at */
    const struct search_prices
        *prices;            /* to begin a bound at; NULL: even ones */
    search_candidate *made; /* its configuration, with a bound of this cut;
                               NULL: not yet */
} search_proposal;

/* Looks at cuts of a configuration in a row that found no better plan. */
typedef struct search_turns {
    const search_graph *graph;
    int32_t n_stages;
    bool again;
    ir_mesh mesh;
    int32_t n;
} search_turns;

typedef struct search_recutter {
    search_level0 *z;
    fs_arena *arena;
    search_memo met, tried; /* cuts: that were proposed; configurations now */
    FS_VEC(search_proposal) open;
    FS_VEC(search_turns) turns;
    int64_t most_steps; /* of the search */
    double usual;       /* without a better plan, of what is done at the */
    double steps;       /* time: of it what is left to */
    int64_t begun, end; /* what is tried now; its end; */
    double idle;        /* done so far without a better plan */
    int64_t loose;      /* so far it was little */
    bool walks;         /* cuts beside others are tried, many of them: */
    int32_t n_walked;   /* of these so many were proven no better and are not */
    double walked_s;    /* told, none of which takes less than this; the sum */
    uint64_t walked_digest; /* of their digests */
    int32_t in_vain;    /* cuts since the last that was better */
    bool others_wait;   /* for a better plan, which makes less enough of them */
    double left_at;     /* steps done when others went on; 0: not yet */
} search_recutter;

/* ---- propose.c ---- */

/* Is a plan near enough to the best that other cuts of it may be better? */
bool search_is_near(const search_level0 *z, double cost_s);
/* Cuts of a configuration by what was measured: of it; of the plan at hand. */
void search_propose_for(search_recutter *r, search_candidate *c);
void search_propose_by(search_recutter *r, search_candidate *c,
                       const search_measured *m);
/* A cut that made the best plan, on other meshes. */
void search_propose_beside(search_recutter *r, const search_proposal *p);
/* Is it none that was proposed? */
bool search_is_new_cut(search_recutter *r, const search_candidate *c,
                       const ir_mesh *each, const int32_t *begin);
/* Or that was tried, or is to be in any case (walk.c)? */
bool search_is_untried_cut(search_recutter *r, const search_candidate *c,
                           const ir_mesh *each, const int32_t *begin);
/* The one that promises most, if that is enough, of all or of those that are
 * not made yet; -1. */
int32_t search_next_proposal(const search_recutter *r, bool all);
/* Of those that were not looked at, of each configuration in turn; it is no
 * proposal any more; */
bool search_next_unseen(search_recutter *r, search_proposal *out);

/* whose looks are counted here. */
search_turns *search_turns_of(search_recutter *r, const search_candidate *c);

/* ---- recut.c ---- */

/* It becomes a configuration. */
search_candidate *search_add_cut(search_recutter *r, const search_proposal *p);
bool search_cuts_over(const search_recutter *r);
/* Proposals, the best first, until so many in a row were no better, or the work
 * for them is done. */
fs_status search_try_proposals(search_recutter *r, int32_t in_a_row,
                               fs_err *err);
/* Until so many steps are done without a better plan; no more than these. */
void search_begin_cuts(search_recutter *r, double steps);
void search_end_cuts_at(search_recutter *r, int64_t steps);
double search_best_known(const search_level0 *z);

/* ---- walk.c ---- */

/* Cuts beside the best of each configuration that is open. */
fs_status search_walk_cuts(search_recutter *r, fs_err *err);

/* ---- glance.c ---- */

/* A look at each proposal, until so many steps found no better plan. */
void search_glance_at_cuts(search_recutter *r, double steps);
/* The same at configurations that may be cut again. */
void search_glance_at_all(search_recutter *r, double steps);

#endif
