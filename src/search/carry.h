/* Prices, carried from a configuration to others (carry.c). Internal
 * to this folder. */
#ifndef FS_SEARCH_CARRY_H
#define FS_SEARCH_CARRY_H

#include "search/level0.h"

/* Before configurations are pressed or solved: whose prices each begins at; */
void search_carry_to(search_level0 *z, search_candidate *const *list,
                     int32_t n);
/* which it takes when it has its tables, by whatever hand; */
void search_carry_in(search_candidate *c);
/* and behind that, one after the other, whatever the threads did between. */
void search_carry_from(search_level0 *z, const search_candidate *c);

#endif
