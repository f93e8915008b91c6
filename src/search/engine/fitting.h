/* Prices at which a plan fits, stage by stage. Internal to this folder. */
#ifndef FS_SEARCH_FITTING_H
#define FS_SEARCH_FITTING_H

#include "search/engine/prices.h"

/* Of a stage's bytes, for its fullest limits, with all seconds at the same
 * price. */
typedef struct search_stage_price {
    double price; /* of all of it, seconds */
    double low;   /* what it took was too much; 0: at none yet, */
    double high;  /* or was not; INFINITY: at none yet */
} search_stage_price;

typedef struct search_fitting {
    const search_net *net;
    search_stage_price *of; /* [n_stages] */
    int32_t *stage_of;      /* [n_limits] */
    double *weight;         /* [n_limits] of its stage's price */
    double first;           /* price where nothing is known */
    bool begun;
} search_fitting;

search_fitting search_fitting_new(const search_net *net, double scale,
                                  fs_arena *arena);
/* Prices of the next minimum, by what the last one took (of no use before the
 * first). False: no other ones are worth a look. */
bool search_fitting_next(search_fitting *f, const search_sums *taken,
                         search_prices *at);

#endif
