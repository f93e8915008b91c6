#include "config.h"
#include "search/engine/confine.h"

#include <math.h>
#include <string.h>

typedef struct confining {
    const search_kernel *k;
    search_cfn *cfn;
    const bool *keep;
    int32_t *fixed; /* [n] the one value, or -1 */
} confining;

static void count_values(confining *c)
{
    const search_kernel *k = c->k;
    for (int32_t i = 0; i < k->n; i++) {
        int32_t kept = 0, last = 0;
        for (int32_t s = 0; s < k->dom[i]; s++)
            if (c->keep[k->first[i] + s]) {
                kept++;
                last = s;
            }
        c->fixed[i] = kept == 1 ? last : -1;
    }
}

static void set_nodes(confining *c)
{
    const search_kernel *k = c->k;
    for (int32_t i = 0; i < k->n; i++) {
        const double *unary = k->unary + k->first[i];
        if (c->fixed[i] < 0) {
            search_cfn_set(c->cfn, i, k->dom[i], unary);
            continue;
        }
        search_cfn_set(c->cfn, i, 1, unary + c->fixed[i]);
        c->cfn->value[i][0] = c->fixed[i];
        c->cfn->offset += unary[c->fixed[i]];
    }
}

/* Row `value` of the one end is a cost of the other. */
static void add_row(confining *c, const search_link *link, int32_t fixed,
                    int32_t free)
{
    const bool row = link->u == fixed;
    const int64_t nv = c->k->dom[link->v], value = c->fixed[fixed];
    const double *cost = link->cost + value * (row ? nv : 1);
    for (int32_t s = 0; s < c->k->dom[free]; s++)
        c->cfn->unary[free][s] += cost[s * (row ? 1 : nv)];
}

static void set_links(confining *c)
{
    const search_kernel *k = c->k;
    for (int32_t e = 0; e < k->n_links; e++) {
        const search_link *link = &k->links[e];
        const int32_t a = c->fixed[link->u], b = c->fixed[link->v];
        if (a < 0 && b < 0)
            search_cfn_share(c->cfn, link->u, link->v, link->cost);
        else if (a < 0)
            add_row(c, link, link->v, link->u);
        else if (b < 0)
            add_row(c, link, link->u, link->v);
        else
            c->cfn->offset += link->cost[(int64_t)a * k->dom[link->v] + b];
    }
    c->cfn->infeasible |= isinf(c->cfn->offset);
}

/* ---- bytes ---- */

/* The most that is held between two times at which free nodes begin or end to
 * hold something, said of the last step between them: a price of any of these
 * steps is then found there. Where no free node holds anything, only what is
 * too much is said. */
static void hold(confining *c, int64_t limit, const int64_t *held,
                 const int32_t *covers, const bool *ends)
{
    search_cfn *cfn = c->cfn;
    const int32_t n = c->k->n_steps;
    int64_t *most = fs_new(cfn->arena, int64_t, n);
    int64_t high = INT64_MIN;
    for (int32_t t = 0; t < n; t++) {
        high = held[t] > high ? held[t] : high;
        if (t + 1 < n && !ends[t + 1])
            continue;
        most[t] = high;
        high = INT64_MIN;
        if (covers[t] || most[t] > limit)
            fs_push(cfn->arena, &cfn->held, (search_usage){t, t + 1, most + t});
    }
}

static void set_bytes(confining *c, int64_t limit)
{
    const search_kernel *k = c->k;
    fs_arena *scratch = fs_arena_create();
    int64_t *held = fs_new(scratch, int64_t, k->n_steps + 1);
    int32_t *covers = fs_new(scratch, int32_t, k->n_steps + 1);
    bool *ends = fs_new(scratch, bool, k->n_steps + 1);
    for (int32_t i = 0; i < k->n; i++)
        for (int32_t p = k->first_piece[i]; p < k->first_piece[i + 1]; p++) {
            const search_piece *piece = &k->pieces[p];
            if (c->fixed[i] >= 0) {
                held[piece->from] += piece->bytes[c->fixed[i]];
                held[piece->to] -= piece->bytes[c->fixed[i]];
                continue;
            }
            search_cfn_load(c->cfn, i, piece->from, piece->to, piece->bytes);
            covers[piece->from]++;
            covers[piece->to]--;
            ends[piece->from] = ends[piece->to] = true;
        }
    for (int32_t t = 1; t < k->n_steps; t++) {
        held[t] += held[t - 1];
        covers[t] += covers[t - 1];
    }
    for (int32_t t = 0; t < k->n_steps; t++)
        held[t] += limit - k->room[t];
    hold(c, limit, held, covers, ends);
    if (!c->cfn->usage) /* what is held is looked at then */
        c->cfn->usage = fs_new(c->cfn->arena, search_usages, k->n);
    fs_arena_destroy(scratch);
}

static void keep_values(confining *c)
{
    const search_kernel *k = c->k;
    for (int32_t i = 0; i < k->n; i++) {
        const bool *keep = c->keep + k->first[i];
        if (c->fixed[i] < 0 && memchr(keep, false, (size_t)k->dom[i]))
            search_cfn_keep(c->cfn, i, keep);
    }
}

search_cfn *search_kernel_confined(const search_kernel *k, int64_t limit,
                                   const bool *keep, fs_arena *arena)
{
    search_cfn *cfn = search_cfn_new(k->n, arena);
    confining c = {k, cfn, keep, fs_new(arena, int32_t, k->n)};
    cfn->offset = k->offset;
    count_values(&c);
    set_nodes(&c);
    set_links(&c);
    if (k->n_steps)
        set_bytes(&c, limit);
    keep_values(&c);
    for (int32_t i = 0; i < k->n; i++)
        if (c.fixed[i] >= 0)
            search_cfn_record(cfn, i, NULL, 0, fs_new(arena, uint16_t, 1));
    return cfn;
}
