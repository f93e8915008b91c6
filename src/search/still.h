/* A lifting's network at one price after the other (still.c, rise.c). Internal
 * to this folder. */
#ifndef FS_SEARCH_STILL_H
#define FS_SEARCH_STILL_H

#include "search/lift.h"

/* What potentials and prices that move do not change, reduced once: nodes that
 * they do change stay (still.c). */
typedef struct search_lift_still {
    search_lifting *l;
    fs_arena *arena; /* of the network */
    search_cfn *cfn; /* NULL: to be made */
    bool *moves;     /* [limits] prices */
    bool *stays;     /* [l->n] */
    bool any;        /* of the limits */
    int32_t *number; /* [l->n] in the kernel; -1: reduced */
} search_lift_still;

search_lift_still search_lift_still_new(search_lifting *l);
void search_lift_still_end(search_lift_still *still);
/* Its least at prices and potentials as they are; `value` ([l->n], arena) is as
 * good an assignment of all. */
void search_lift_still_minimise(search_lift_still *still,
                                const search_effort *effort, fs_arena *arena,
                                search_minimum *out);
/* Does an edge hold bytes whose price moves? */
bool search_lift_still_holds(const search_lift_still *still, int32_t e);
/* True when another price moves: what was made of it before is of no use. */
bool search_lift_still_moved(search_lift_still *still);
/* What is left of it, without what moves, and pairs for all that does; NULL: no
 * assignment is legal. Its values are places of `still->cfn`. */
search_cfn *search_lift_still_kernel(search_lift_still *still, fs_arena *arena);
/* Adds what moves: to a kernel's nodes, [its nodes][values of still->cfn], or
 */
void search_lift_still_add(const search_lift_still *still, double **unary);
/* to the table of edge e's pair between nodes u and v of the whole. */
void search_lift_still_add_edge(const search_lift_still *still, int32_t e,
                                int32_t u, int32_t v, double *cost);
/* An assignment of all ([l->n], arena) from places of the kernel's. */
int32_t *search_lift_still_finish(const search_lift_still *still,
                                  const int32_t *place, fs_arena *arena);

/* By messages that stay while prices and potentials move (rise.c). */
double search_lift_rise(search_lifting *l, search_lift_still *still,
                        const search_lift_aim *aim, double best);

#endif
