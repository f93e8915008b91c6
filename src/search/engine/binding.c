#include "config.h"
#include "search/engine/binding.h"

#include <string.h>

typedef struct times {
    const search_cfn *cfn;
    search_binding *out;
    int64_t *most;   /* [n + 1] what choices may hold at most: changes, then
                        sums */
    bool *up, *down; /* [n + 1] something grows, shrinks from t - 1 to t */
} times;

int32_t search_usage_steps(const search_cfn *cfn)
{
    int32_t n = 0;
    for (int32_t h = 0; h < cfn->held.n; h++)
        n = cfn->held.at[h].to > n ? cfn->held.at[h].to : n;
    for (int32_t i = 0; cfn->usage && i < cfn->n; i++)
        for (int32_t p = 0; !cfn->gone[i] && p < cfn->usage[i].n; p++)
            n = cfn->usage[i].at[p].to > n ? cfn->usage[i].at[p].to : n;
    return n;
}

/* What a node holds before and after a boundary; NULL: nothing. */
static void note_change(times *t, int32_t at, const int64_t *before,
                        const int64_t *after, int32_t dom)
{
    for (int32_t s = 0; s < dom; s++) {
        const int64_t a = before ? before[s] : 0, b = after ? after[s] : 0;
        t->up[at] |= b > a;
        t->down[at] |= b < a;
    }
}

static void note_node(times *t, const search_usages *list, int32_t dom)
{
    for (int32_t p = 0; p < list->n; p++) {
        const search_usage *u = &list->at[p];
        const search_usage *next = p + 1 < list->n ? u + 1 : NULL;
        const bool touches = next && next->from == u->to;
        int64_t most = 0;
        for (int32_t s = 0; s < dom; s++)
            most = u->bytes[s] > most ? u->bytes[s] : most;
        t->most[u->from] += most;
        t->most[u->to] -= most;
        if (p == 0 || u[-1].to < u->from)
            note_change(t, u->from, NULL, u->bytes, dom);
        note_change(t, u->to, u->bytes, touches ? next->bytes : NULL, dom);
    }
}

static void set_room(times *t, int64_t limit)
{
    const search_usages *held = &t->cfn->held;
    search_binding *out = t->out;
    for (int32_t at = 0; at < out->n; at++)
        out->room[at] = limit;
    for (int32_t h = 0; h < held->n; h++)
        for (int32_t at = held->at[h].from; at < held->at[h].to; at++)
            out->room[at] -= held->at[h].bytes[0];
    for (int32_t at = 0; at < out->n; at++)
        out->full |= out->room[at] < 0;
}

/* A step is left out when the one before or behind it always holds as much
 * with as little room, or when nothing can fill it. */
static void choose_steps(times *t)
{
    search_binding *out = t->out;
    for (int32_t at = 1; at < out->n; at++) {
        t->most[at] += t->most[at - 1];
        t->up[at] |= out->room[at] < out->room[at - 1];
        t->down[at] |= out->room[at] > out->room[at - 1];
    }
    for (int32_t at = 0; at < out->n; at++) {
        const bool by_next = at + 1 < out->n && !t->down[at + 1];
        const bool by_last = at > 0 && !t->up[at] && t->down[at];
        const bool binds = !by_next && !by_last && t->most[at] > out->room[at];
        out->before[at + 1] = out->before[at] + binds;
    }
}

search_binding search_binding_find(const search_cfn *cfn, int64_t limit,
                                   fs_arena *arena)
{
    fs_arena *scratch = fs_arena_create();
    search_binding out = {.n = search_usage_steps(cfn)};
    times t = {.cfn = cfn, .out = &out};
    t.most = fs_new(scratch, int64_t, out.n + 1);
    t.up = fs_new(scratch, bool, out.n + 1);
    t.down = fs_new(scratch, bool, out.n + 1);
    out.room = fs_new(arena, int64_t, out.n);
    out.before = fs_new(arena, int32_t, out.n + 1);
    set_room(&t, limit);
    for (int32_t i = 0; cfn->usage && i < cfn->n; i++)
        if (!cfn->gone[i])
            note_node(&t, &cfn->usage[i], cfn->dom[i]);
    choose_steps(&t);
    fs_arena_destroy(scratch);
    return out;
}

/* ---- what does not bind is forgotten ---- */

/* From the first to the last step that binds; false: none does. */
static bool narrow(const search_binding *b, search_usage *u)
{
    if (b->before[u->from] == b->before[u->to])
        return false;
    while (b->before[u->from + 1] == b->before[u->from])
        u->from++;
    while (b->before[u->to - 1] == b->before[u->to])
        u->to--;
    return true;
}

/* What all values hold goes over to cfn->held; false: nothing is left. */
static bool level(search_cfn *cfn, search_usage *u, int32_t dom)
{
    int64_t least = u->bytes[0], most = u->bytes[0];
    for (int32_t s = 1; s < dom; s++) {
        least = u->bytes[s] < least ? u->bytes[s] : least;
        most = u->bytes[s] > most ? u->bytes[s] : most;
    }
    if (least) {
        search_usage held = {u->from, u->to, fs_new(cfn->arena, int64_t, 1)};
        held.bytes[0] = least;
        fs_push(cfn->arena, &cfn->held, held);
        for (int32_t s = 0; s < dom; s++)
            u->bytes[s] -= least;
    }
    return most > least;
}

/* Fewer or shorter pieces may let a node fold, or a value dominate. */
static bool clip_node(search_cfn *cfn, const search_binding *b, int32_t node)
{
    search_usages *list = &cfn->usage[node];
    bool any = false;
    int32_t n = 0;
    for (int32_t p = 0; p < list->n; p++) {
        search_usage u = list->at[p];
        if (narrow(b, &u) && level(cfn, &u, cfn->dom[node]))
            list->at[n++] = u;
        else
            any = true;
    }
    list->n = n;
    return any;
}

bool search_cfn_clip(search_cfn *cfn, int64_t limit)
{
    if (!cfn->usage || cfn->infeasible)
        return false;
    fs_arena *scratch = fs_arena_create();
    const search_binding b = search_binding_find(cfn, limit, scratch);
    bool any = false;
    for (int32_t i = 0; i < cfn->n && !b.full; i++)
        if (!cfn->gone[i])
            any |= clip_node(cfn, &b, i);
    cfn->infeasible |= b.full;
    fs_arena_destroy(scratch);
    return any;
}
