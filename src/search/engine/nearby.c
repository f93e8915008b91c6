#include "config.h"
#include "search/engine/nearby.h"

#include "base/hash.h"

#include <string.h>

typedef struct cloud {
    const search_kernel *k;
    bool *in;       /* [n] */
    int32_t *order; /* [n] as they came in */
    int32_t n, size;
} cloud;

static void enter(cloud *c, int32_t node)
{
    if (c->in[node] || c->n == c->size)
        return;
    c->in[node] = true;
    c->order[c->n++] = node;
}

/* Breadth first over links from what is in. */
static void spread(cloud *c)
{
    const search_kernel *k = c->k;
    for (int32_t at = 0; at < c->n; at++) {
        const int32_t i = c->order[at];
        for (int32_t e = k->first_link[i]; e < k->first_link[i + 1]; e++) {
            const search_link *link = &k->links[k->link[e]];
            enter(c, link->u == i ? link->v : link->u);
        }
    }
}

static int32_t any_node(const search_kernel *k, uint64_t *rng)
{
    return (int32_t)fs_rand_below(rng, (uint64_t)k->n);
}

/* A step of those within a twentieth of being full; -1: none is. */
static int32_t full_step(search_kernel *k, const int32_t *at, uint64_t *rng)
{
    int32_t n = 0, chosen = -1;
    search_kernel_over(k, at, 0); /* fills k->usage */
    for (int32_t t = 0; t < k->n_steps; t++)
        if (k->usage[t] >= k->room[t] - k->room[t] / 20 &&
            fs_rand_below(rng, (uint64_t)++n) == 0)
            chosen = t;
    return chosen;
}

/* Half of the room goes to nodes that hold something at that step. */
static void enter_step(cloud *c, int32_t step, uint64_t *rng)
{
    const search_kernel *k = c->k;
    const int32_t first = any_node(k, rng);
    for (int32_t j = 0; j < k->n && 2 * c->n < c->size; j++) {
        const int32_t i = (first + j) % k->n;
        for (int32_t p = k->first_piece[i]; p < k->first_piece[i + 1]; p++)
            if (k->pieces[p].from <= step && step < k->pieces[p].to) {
                enter(c, i);
                break;
            }
    }
}

void search_nearby(search_kernel *k, const int32_t *at, int32_t size,
                   uint64_t *rng, bool *keep)
{
    fs_arena *arena = fs_arena_create();
    cloud c = {.k = k,
               .in = fs_new(arena, bool, k->n),
               .order = fs_new(arena, int32_t, k->n),
               .size = size < k->n ? size : k->n};
    const int32_t step = fs_rand_below(rng, 2) ? full_step(k, at, rng) : -1;
    if (step >= 0)
        enter_step(&c, step, rng);
    for (int32_t tries = 0; c.n < c.size && tries < k->n; tries++) {
        spread(&c);
        enter(&c, any_node(k, rng));
    }
    memset(keep, 0, (size_t)k->n_values);
    for (int32_t i = 0; i < k->n; i++)
        for (int32_t s = 0; s < k->dom[i]; s++)
            keep[k->first[i] + s] = c.in[i] || s == at[i];
    fs_arena_destroy(arena);
}
