/* Sequential reweighted message passing in an additive network (dual.c).
 * Internal to this folder. */
#ifndef FS_SEARCH_DUAL_H
#define FS_SEARCH_DUAL_H

#include "search/engine/cfn.h"

/* The dual: messages that raise a proven bound, sweep by sweep. */
typedef struct search_dual {
    search_cfn *cfn;
    fs_arena *arena;
    double bound;   /* best proven so far */
    double now;     /* what the last sweep proved */
    double upper;   /* values that cannot lead below it are dropped */
    bool closed;    /* no assignment costs less than upper */
    bool plain;     /* leave decodings as they are */
    double best;    /* cost of value[] in the cfn, INFINITY: none yet */
    int32_t *value; /* [n] best decoding, of the live nodes */
    int32_t *place; /* [n] decoding at work */
    double **hat, *least, sum, *room;
    bool **drop;
    bool *stale; /* [n] a neighbour changed since it was improved */
} search_dual;
search_dual *search_dual_new(search_cfn *cfn, fs_arena *arena);
/* One sweep forth and back, and a decoding. */
void search_dual_sweep(search_dual *dual);
/* The same for its bound alone. */
void search_dual_raise(search_dual *dual);
/* After the costs of a live pair changed, before the next. */
void search_dual_pull(search_dual *dual, int32_t pair);
/* After unary costs or the offset changed; `bound` and `best` are of others. */
void search_dual_recollect(search_dual *dual);

#endif
