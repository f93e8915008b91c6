/* An additive network under a limit on what its nodes hold over time: prices
 * of steps, and a tree of parts that are kept apart by what they hold.
 * Internal to this folder. */
#ifndef FS_SEARCH_RATION_H
#define FS_SEARCH_RATION_H

#include "search/engine/kernel.h"

/* A choice of values of a kernel, and what it takes beyond the rows. */
typedef struct search_plane {
    double cost, *over; /* [MAX_ROWS] */
    int32_t *at;        /* [n] */
    int32_t n_rows;     /* of over that are known */
    double weight;      /* in the mixture that is the model's best */
} search_plane;

enum { SEARCH_MAX_PLANES = 100, SEARCH_MAX_ROWS = 200 };

/* Prices w >= 0 per row:
 *   cost(x) >= min_x [cost(x) + sum_r w_r over_r(x)]
 * for each x that fits. The minimum over x is search_cfn_minimise's; what it
 * finds are planes above that bound as a function of w; the next w is where
 * the lowest plane, less the squared distance from the best w, is highest
 * (proximal bundle). */
typedef struct search_pricing {
    search_kernel *k;
    fs_arena *arena;
    double upper; /* only what costs less is of interest */
    fs_deadline deadline;
    uint32_t without;
    int32_t n_planes;
    search_plane planes[SEARCH_MAX_PLANES];
    double w[SEARCH_MAX_ROWS]; /* the best known */
    bool loose;                /* minima at prices are out of reach: ascent.h */
    double *price;             /* [n_steps] then these */
    double *share; /* [n_values] and how often a value was chosen lately */
    double reach;
    double bound;
    double cost;   /* of the best choice that fits, INFINITY */
    int32_t *best; /* [n] it */
    bool infeasible;
    int64_t steps;
} search_pricing;

search_pricing *search_pricing_new(search_kernel *k, fs_arena *arena);
/* Raises the bound, `rounds` times at most. */
void search_pricing_run(search_pricing *p, int32_t rounds);

/* Clears the flag of each value of the kernel with which, at these prices,
 * nothing costs less than what is of interest; returns how many those are. */
int32_t search_pricing_fix(search_pricing *p, int32_t sweeps, bool *keep);

typedef struct search_ration_effort {
    fs_deadline deadline;
    double gap;    /* a bound so near is proof enough */
    int32_t parts; /* to look into at most; 0: as many as it takes */
    uint32_t without;
    bool ascend; /* ask for no minimum at prices: messages and prices rise */
    void (*progress)(void *ctx, double cost, double bound);
    void *ctx;
} search_ration_effort;

typedef struct search_ration {
    double cost, bound; /* INFINITY: none found; proven */
    int32_t *value;     /* [n] */
    int32_t kernel_nodes, parts;
    int64_t steps;
    bool open; /* time ended it */
} search_ration;

/* Minimum of the cfn, which is reduced in place, when nodes hold at most
 * `limit` at any step. */
void search_cfn_ration(search_cfn *cfn, int64_t limit,
                       const search_ration_effort *effort, fs_arena *arena,
                       search_ration *out);
#endif
