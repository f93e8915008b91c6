/* Prices and messages at once: for networks whose priced minimum is itself
 * out of reach. Internal to this folder. */
#ifndef FS_SEARCH_ASCENT_H
#define FS_SEARCH_ASCENT_H

#include "search/engine/ration.h"

typedef struct search_ascent search_ascent;

/* Begins at p->price; lives in `arena`, p->share in the pricing's. */
search_ascent *search_ascent_new(search_pricing *p, fs_arena *arena);
/* Raises p->bound by sweeps of the dual with prices that change from sweep to
 * sweep, and finds choices that fit. False: that leads nowhere any more. */
bool search_ascent_rise(search_ascent *ascent, int32_t sweeps);
/* Clears the flag of each value of the kernel that leads to nothing that is of
 * interest, as search_pricing_fix; p->price becomes the best known. */
int32_t search_ascent_end(search_ascent *ascent, bool *keep);

#endif
