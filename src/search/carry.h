/* Prices, carried from a configuration to others (carry.c). Internal
 * to this folder. */
#ifndef FS_SEARCH_CARRY_H
#define FS_SEARCH_CARRY_H

#include "search/level0.h"

/* Before a configuration is pressed or solved, with its tables, and behind
 * that: one after the other, whatever the threads do between. */
void search_carry_to(search_level0 *z, search_candidate *c);
void search_carry_from(search_level0 *z, const search_candidate *c);

#endif
