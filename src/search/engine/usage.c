/* What nodes hold over time: bytes by value, during intervals of steps. They
 * are sums, so that a merged node holds what its parts held. */
#include "config.h"
#include "search/engine/reduce.h"

#include <stdlib.h>
#include <string.h>

void search_cfn_load(search_cfn *cfn, int32_t node, int32_t from, int32_t to,
                     const int64_t *bytes)
{
    if (!cfn->usage)
        cfn->usage = fs_new(cfn->arena, search_usages, cfn->n);
    search_usage usage = {
        from, to,
        fs_memdup(cfn->arena, bytes, (size_t)cfn->dom[node] * sizeof *bytes)};
    if (from < to)
        fs_push(cfn->arena, &cfn->usage[node], usage);
    cfn->usage[node].packed = false;
}

void search_usage_keep(search_cfn *cfn, int32_t node, const bool *keep)
{
    for (int32_t k = 0; cfn->usage && k < cfn->usage[node].n; k++) {
        int64_t *bytes = cfn->usage[node].at[k].bytes;
        for (int32_t s = 0, n = 0; s < cfn->dom[node]; s++)
            if (keep[s])
                bytes[n++] = bytes[s];
    }
}

void search_usage_follow(search_cfn *cfn, int32_t leader, int32_t follower,
                         const uint16_t *best)
{
    int32_t n = cfn->dom[leader];
    for (int32_t k = 0; cfn->usage && k < cfn->usage[follower].n; k++) {
        search_usage usage = cfn->usage[follower].at[k];
        const int64_t *bytes = usage.bytes;
        usage.bytes = fs_new(cfn->arena, int64_t, n);
        for (int32_t s = 0; s < n; s++)
            usage.bytes[s] = bytes[best[s]];
        fs_push(cfn->arena, &cfn->usage[leader], usage);
        cfn->usage[leader].packed = false;
    }
}

bool search_usage_level(const search_cfn *cfn, int32_t node)
{
    for (int32_t k = 0; cfn->usage && k < cfn->usage[node].n; k++) {
        const int64_t *bytes = cfn->usage[node].at[k].bytes;
        for (int32_t s = 1; s < cfn->dom[node]; s++)
            if (bytes[s] != bytes[0])
                return false;
    }
    return true;
}

void search_usage_hold(search_cfn *cfn, int32_t node)
{
    for (int32_t k = 0; cfn->usage && k < cfn->usage[node].n; k++)
        fs_push(cfn->arena, &cfn->held, cfn->usage[node].at[k]);
}

bool search_usage_below(const search_cfn *cfn, int32_t node, int32_t t,
                        int32_t s)
{
    for (int32_t k = 0; cfn->usage && k < cfn->usage[node].n; k++) {
        const int64_t *bytes = cfn->usage[node].at[k].bytes;
        if (bytes[t] > bytes[s])
            return false;
    }
    return true;
}

/* ---- one list entry per stretch of time ---- */

/* A usage that begins (sign 1) or ends (-1). */
typedef struct event {
    int32_t at, sign;
    const int64_t *bytes;
} event;

static int by_time(const void *a, const void *b)
{
    const event *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

static bool any_of(const int64_t *bytes, int32_t n)
{
    for (int32_t s = 0; s < n; s++)
        if (bytes[s])
            return true;
    return false;
}

/* Appends [from, to), or makes the last entry longer that holds as much. */
static void append(search_usages *list, fs_arena *arena, search_usage usage,
                   int32_t n)
{
    size_t size = (size_t)n * sizeof *usage.bytes;
    search_usage *last = list->n ? &list->at[list->n - 1] : NULL;
    if (!any_of(usage.bytes, n))
        return;
    if (last && last->to == usage.from &&
        memcmp(last->bytes, usage.bytes, size) == 0) {
        last->to = usage.to;
        return;
    }
    usage.bytes = fs_memdup(arena, usage.bytes, size);
    fs_push(arena, list, usage);
}

static void pack(search_usages *list, int32_t n, fs_arena *arena)
{
    fs_arena *scratch = fs_arena_create();
    event *events = fs_new(scratch, event, 2 * list->n);
    int64_t *sum = fs_new(scratch, int64_t, n);
    search_usages packed = {.packed = true};
    for (int32_t k = 0; k < list->n; k++) {
        const search_usage *u = &list->at[k];
        events[2 * k] = (event){u->from, 1, u->bytes};
        events[2 * k + 1] = (event){u->to, -1, u->bytes};
    }
    qsort(events, (size_t)(2 * list->n), sizeof *events, by_time);
    for (int32_t k = 0; k < 2 * list->n; k++) {
        for (int32_t s = 0; s < n; s++)
            sum[s] += events[k].sign * events[k].bytes[s];
        if (k + 1 < 2 * list->n && events[k + 1].at > events[k].at)
            append(&packed, arena,
                   (search_usage){events[k].at, events[k + 1].at, sum}, n);
    }
    *list = packed;
    fs_arena_destroy(scratch);
}

void search_usage_pack(search_cfn *cfn, int32_t node)
{
    if (cfn->usage && !cfn->usage[node].packed)
        pack(&cfn->usage[node], cfn->dom[node], cfn->arena);
}

void search_usage_pack_all(search_cfn *cfn)
{
    for (int32_t i = 0; i < cfn->n; i++)
        if (!cfn->gone[i])
            search_usage_pack(cfn, i);
    pack(&cfn->held, 1, cfn->arena);
}
