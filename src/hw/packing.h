/* The most that several demands get at once over links that they share, where
 * each may be split over ways of its own choice (maximum concurrent flow). The
 * exact optimum, so that a link with less never lets anyone have more. */
#ifndef FS_HW_PACKING_H
#define FS_HW_PACKING_H

#include "base/arena.h"

#include <stdint.h>

/* The cheapest way of a demand, where a link costs its price each time that it
 * is crossed: how often it crosses each, in use[n_links], which is zeroed. At
 * least one link. */
typedef void hw_pick_way(void *ctx, int32_t demand, const double *price,
                         double *use);

typedef struct hw_packing {
    int32_t n_links, n_demands;
    const double *bps;    /* [n_links] above 0 */
    const double *demand; /* [n_demands] above 0; NULL: 1 each */
    hw_pick_way *pick;
    void *ctx;
} hw_packing;

/* x, such that each demand has x times what it asks for; load: [n_links] what a
 * link carries at x = 1, or NULL. Simplex with columns made as they are wanted
 * (Ford and Fulkerson 1958), dense: memory (links + demands)^2. */
double hw_pack(const hw_packing *p, double *load);

#endif
