/* A segment tree: node j stands for the steps of nodes 2 j and 2 j + 1. */
#include "config.h"
#include "search/engine/slack.h"

#include <string.h>

search_slack search_slack_new(int32_t n, fs_arena *arena)
{
    search_slack slack = {.n = n, .leaves = 1};
    while (slack.leaves < n)
        slack.leaves *= 2;
    slack.least = fs_new(arena, int64_t, 2 * slack.leaves);
    slack.added = fs_new(arena, int64_t, 2 * slack.leaves);
    return slack;
}

static void sum_up(search_slack *slack, int32_t j)
{
    const int64_t a = slack->least[2 * j], b = slack->least[2 * j + 1];
    slack->least[j] = (a < b ? a : b) + slack->added[j];
}

void search_slack_set(search_slack *slack, const int64_t *room)
{
    memset(slack->added, 0, 2 * (size_t)slack->leaves * sizeof *slack->added);
    for (int32_t t = 0; t < slack->leaves; t++)
        slack->least[slack->leaves + t] =
            t < slack->n ? room[t] : INT64_MAX / 2;
    for (int32_t j = slack->leaves - 1; j > 0; j--)
        sum_up(slack, j);
}

static void add_at(search_slack *slack, int32_t j, int64_t bytes)
{
    slack->least[j] += bytes;
    slack->added[j] += bytes;
}

/* Both ends climb; what lies between them is whole nodes. */
void search_slack_add(search_slack *slack, int32_t from, int32_t to,
                      int64_t bytes)
{
    int32_t a = from + slack->leaves, b = to + slack->leaves;
    if (from >= to || bytes == 0)
        return;
    for (; a < b; a /= 2, b /= 2) {
        if (a & 1)
            add_at(slack, a++, bytes);
        if (b & 1)
            add_at(slack, --b, bytes);
    }
    for (int32_t j = (from + slack->leaves) / 2; j > 0; j /= 2)
        sum_up(slack, j);
    for (int32_t j = (to - 1 + slack->leaves) / 2; j > 0; j /= 2)
        sum_up(slack, j);
}

int64_t search_slack_least(const search_slack *slack, int32_t from, int32_t to)
{
    int64_t left = INT64_MAX / 2, right = INT64_MAX / 2;
    int32_t a = from + slack->leaves, b = to + slack->leaves - 1;
    if (from >= to)
        return INT64_MAX;
    /* `left` is of steps from `from` on within the node above a, and so on. */
    int32_t low = a, high = b;
    left = slack->least[low];
    right = slack->least[high];
    while (low / 2 != high / 2) {
        if (!(low & 1) && slack->least[low + 1] < left)
            left = slack->least[low + 1];
        if ((high & 1) && slack->least[high - 1] < right)
            right = slack->least[high - 1];
        low /= 2;
        high /= 2;
        left += slack->added[low];
        right += slack->added[high];
    }
    int64_t least = left < right ? left : right;
    for (low /= 2; low > 0; low /= 2)
        least += slack->added[low];
    return least;
}
