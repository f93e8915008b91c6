/* Prices of stages and bytes, and what is to be tried next (priced.c,
 * bundle.c). Internal to this folder. */
#ifndef FS_SEARCH_PRICES_H
#define FS_SEARCH_PRICES_H

#include "search/engine/engine.h"

/* Prices of stages, in the simplex, and of bytes. */
typedef struct search_prices {
    double *micro, *step; /* [n_stages] */
    double *bytes;        /* [n_limits] seconds per byte */
    int32_t n_stages, n_limits;
} search_prices;
search_prices search_prices_new(const search_net *net, fs_arena *arena);
/* Into those of the network, from that one's or another's; of other stages none
 * is known, and of other limits no byte's. */
void search_prices_copy(const search_net *net, search_prices *to,
                        const search_prices *from);
bool search_prices_equal(const search_net *net, const search_prices *a,
                         const search_prices *b);

/* What a second of a stage's counts at these prices, and what the bytes of a
 * table cost, which are added. */
double search_price_of(const search_net *net, const search_prices *at,
                       int32_t stage, bool per_step);
void search_add_prices(const search_load *loads, int32_t n_loads,
                       const search_prices *at, int64_t n, double *cost);
/* Price times limit, which the priced minimum has in excess. */
double search_price_excess(const search_net *net, const search_prices *at);

/* Assignments of a network that were met as its least at some prices. Each is a
 * plane of the bundle, whatever limits there are: what an attempt at a
 * configuration met tells the next one where to begin. */
typedef struct search_met {
    fs_arena *arena;
    int32_t n_nodes, *dom; /* of the network */
    FS_VEC(int32_t *) value;
    int32_t *fits; /* the best of those whose plan fits: NULL, none is known */
    double fits_s;
} search_met;
/* Are they of that network, or of one that differs by bytes alone? */
bool search_met_is_of(const search_met *met, const search_net *net);
void search_met_add(search_met *met, const search_net *net,
                    const int32_t *value);
void search_met_fits(search_met *met, const search_net *net,
                     const int32_t *value, double cost_s);

/* The additive network of these prices (cfn.h). */
struct search_cfn *search_net_priced(const search_net *net,
                                     const search_prices *at, fs_arena *arena);

/* What assignments met so far say of the bound as a function of the prices. */
typedef struct search_bundle {
    const search_net *net;
    fs_arena *arena;
    FS_VEC(search_sums) planes;
    search_prices centre; /* the best prices known, */
    double proven;        /* what they prove, and */
    double hope;          /* the next ones at most; INFINITY: not known */
    double reach;         /* about them, in units of all prices together */
    double scale;         /* seconds, of the size of the costs */
} search_bundle;
search_bundle search_bundle_new(const search_net *net, fs_arena *arena);
void search_bundle_add(search_bundle *bundle, const search_sums *sums);
/* All that were met; false: they are of another network. */
bool search_bundle_recall(search_bundle *bundle, const search_met *met);
/* What prices that were tried prove: the centre, or a reason to stay nearer to
 * it. */
void search_bundle_learn(search_bundle *bundle, const search_prices *tried,
                         double bound);
/* The most that prices within reach could prove; INFINITY when that could not
 * be computed. Adds to *steps. */
double search_bundle_next(const search_bundle *bundle, search_prices *out,
                          int64_t *steps);
/* Of `out`, which promise `promise` within reach, prices nearer to the centre
 * that promise `want` at least and not much more; what they do. */
double search_bundle_near(const search_bundle *bundle, double want,
                          double promise, search_prices *out, int64_t *steps);

#endif
