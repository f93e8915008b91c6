/* Several threads that look at configurations. Internal to this folder. */
#ifndef FS_SEARCH_CREW_H
#define FS_SEARCH_CREW_H

#include "search/level0.h"

/* What is done with one configuration: only the configuration is changed, and
 * what it becomes depends on nothing but the problem and the best plan so far.
 */
typedef void search_job(search_level0 *z, search_candidate *c);

/* Each of them once, by as many threads as there are cores; in what order does
 * not matter. A problem with a filter, which remembers what it was asked, has
 * one. */
void search_crew_run(search_level0 *z, search_job *job,
                     search_candidate *const *list, int32_t n);
void search_crew_dismiss(search_level0 *z);

#endif
