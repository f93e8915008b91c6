/* Lean plans of configurations (anchor.c). Internal to this folder. */
#ifndef FS_SEARCH_ANCHOR_H
#define FS_SEARCH_ANCHOR_H

#include "search/level0.h"

/* Lean plans of likely configurations, before bounds lead to them. */
typedef struct search_sweeps {
    bool scouted;    /* what they are likely to take is known, */
    bool sweeping;   /* one is being asked, */
    bool swept;      /* all were */
    int64_t begun;   /* steps done before, */
    int64_t steps;   /* and for that, */
    int64_t work[2]; /* by guesses and by bounds */
} search_sweeps;

/* Asks a configuration for lean plans; did memory refuse one that would have
 * been the best? */
bool search_anchor_one(search_level0 *z, search_candidate *c);
/* One for the cheapest of them alone, fastest first, and for
 * mixtures of these and of what engines met with one that fits. */
void search_anchor_near(search_level0 *z, search_candidate *c);
/* The same of all that are open and nearly as good, where engines met more
 * since. */
void search_blend_open(search_level0 *z);
/* All that are open: likely ones first, where that is known. */
void search_anchor(search_level0 *z);
/* Where memory refuses plans, lean ones of likely configurations take their
 * turn while bounds are raised, as these leave the best ones for last; the next
 * one. */
void search_begin_sweeps(search_level0 *z);
bool search_sweep_due(const search_level0 *z);
void search_sweep(search_level0 *z);
/* Where memory forbids every configuration: the smallest plan of those that may
 * have it, least need first, as a misfit. */
void search_find_leanest(search_level0 *z);

#endif
