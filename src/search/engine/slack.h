/* Room that is left at each step of time: changes and least room of intervals
 * in logarithmic time. Internal to this folder. */
#ifndef FS_SEARCH_SLACK_H
#define FS_SEARCH_SLACK_H

#include "search/engine/kernel.h"

typedef struct search_slack {
    int32_t n, leaves;
    int64_t *least; /* [2 * leaves] of the steps below, less what is added
                       above */
    int64_t *added; /* [2 * leaves] to all steps below */
} search_slack;

search_slack search_slack_new(int32_t n, fs_arena *arena);
void search_slack_set(search_slack *slack, const int64_t *room);
void search_slack_add(search_slack *slack, int32_t from, int32_t to,
                      int64_t bytes);
/* INT64_MAX of no step. */
int64_t search_slack_least(const search_slack *slack, int32_t from, int32_t to);

#endif
