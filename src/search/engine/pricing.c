#include "config.h"
#include "search/engine/ration.h"

#include "base/clock.h"
#include "search/engine/dual.h"
#include "search/engine/engine.h"

#include <math.h>
#include <string.h>

enum { SWEEPS = 10, NEW_ROWS = 4, QP_STEPS = 2000, STALLS = 8 };
#define EXACT 1e-9

search_pricing *search_pricing_new(search_kernel *k, fs_arena *arena)
{
    search_pricing *p = fs_new(arena, search_pricing, 1);
    p->k = k;
    p->arena = arena;
    p->upper = p->cost = INFINITY;
    p->bound = -INFINITY;
    p->best = fs_new(arena, int32_t, k->n);
    p->price = fs_new(arena, double, k->n_steps);
    return p;
}

/* ---- the additive minimum at prices ---- */

static search_cfn *priced(const search_kernel *k, const double *w,
                          fs_arena *arena)
{
    search_cfn *cfn = search_cfn_new(k->n, arena);
    double *unary =
        fs_memdup(arena, k->unary, (size_t)k->n_values * sizeof *unary);
    cfn->offset = k->offset;
    for (int32_t r = 0; r < k->rows.n; r++) {
        const search_row *row = &k->rows.at[r];
        if (!(w[r] > 0))
            continue;
        cfn->offset -= w[r] * row->room;
        for (int32_t s = 0; s < k->n_values; s++)
            unary[s] += w[r] * row->load[s];
    }
    for (int32_t i = 0; i < k->n; i++)
        search_cfn_set(cfn, i, k->dom[i], unary + k->first[i]);
    for (int32_t e = 0; e < k->n_links; e++)
        search_cfn_share(cfn, k->links[e].u, k->links[e].v, k->links[e].cost);
    return cfn;
}

static void know_rows(const search_pricing *p, search_plane *plane)
{
    const search_kernel *k = p->k;
    for (; plane->n_rows < k->rows.n; plane->n_rows++) {
        const search_row *row = &k->rows.at[plane->n_rows];
        double over = -row->room;
        for (int32_t i = 0; i < k->n; i++)
            over += row->load[k->first[i] + plane->at[i]];
        plane->over[plane->n_rows] = over;
    }
}

/* The plane that weighs least goes. */
static search_plane *room_for_plane(search_pricing *p)
{
    search_plane *plane;
    if (p->n_planes < SEARCH_MAX_PLANES) {
        plane = &p->planes[p->n_planes++];
        plane->over = fs_new(p->arena, double, SEARCH_MAX_ROWS);
        plane->at = fs_new(p->arena, int32_t, p->k->n);
        return plane;
    }
    plane = &p->planes[0];
    for (int32_t j = 1; j < p->n_planes; j++)
        if (p->planes[j].weight < plane->weight)
            plane = &p->planes[j];
    return plane;
}

static void add_plane(search_pricing *p, const int32_t *at, double cost)
{
    const int32_t room = SEARCH_MAX_ROWS - p->k->rows.n;
    const double over =
        search_kernel_over(p->k, at, room < NEW_ROWS ? room : NEW_ROWS);
    if (over <= 0 && cost < p->cost) {
        p->cost = cost;
        memcpy(p->best, at, (size_t)p->k->n * sizeof *at);
    }
    search_plane *plane = room_for_plane(p);
    memcpy(plane->at, at, (size_t)p->k->n * sizeof *at);
    plane->cost = cost;
    plane->n_rows = 0;
    plane->weight = 0;
    for (int32_t j = 0; j < p->n_planes; j++)
        know_rows(p, &p->planes[j]);
}

/* Returns the bound at w. */
static double ask(search_pricing *p, const double *w)
{
    fs_arena *scratch = fs_arena_create();
    search_cfn *cfn = priced(p->k, w, scratch);
    const search_effort effort = {.deadline = p->deadline,
                                  .sweeps = SWEEPS,
                                  .cutoff = fmin(p->upper, p->cost),
                                  .gap = EXACT,
                                  .without = p->without};
    search_minimum found;
    search_cfn_minimise(cfn, &effort, scratch, &found);
    p->steps += cfn->steps + p->k->n_values;
    if (isfinite(found.cost))
        add_plane(p, found.value, search_kernel_cost(p->k, found.value));
    p->loose |= isfinite(found.bound) &&
                !search_proven(found.bound, fmin(found.cost, effort.cutoff));
    fs_arena_destroy(scratch);
    return found.bound;
}

/* ---- the next prices ---- */

static double height(const search_pricing *p, const search_plane *plane,
                     const double *w)
{
    double sum = plane->cost;
    for (int32_t r = 0; r < p->k->rows.n; r++)
        sum += w[r] * plane->over[r];
    return sum;
}

typedef struct mixture {
    double over[SEARCH_MAX_ROWS];
    double height[SEARCH_MAX_PLANES];
    int32_t low, high; /* planes: lowest; highest of those that weigh */
} mixture;

static void mix(const search_pricing *p, mixture *m)
{
    memset(m->over, 0, sizeof m->over);
    for (int32_t j = 0; j < p->n_planes; j++)
        for (int32_t r = 0; r < p->k->rows.n; r++)
            m->over[r] += p->planes[j].weight * p->planes[j].over[r];
}

static void look(const search_pricing *p, const double *w, mixture *m)
{
    m->low = m->high = -1;
    for (int32_t j = 0; j < p->n_planes; j++) {
        m->height[j] = height(p, &p->planes[j], w);
        if (m->low < 0 || m->height[j] < m->height[m->low])
            m->low = j;
        if (p->planes[j].weight > 0 &&
            (m->high < 0 || m->height[j] > m->height[m->high]))
            m->high = j;
    }
}

/* Weight goes from the highest plane that has some to the lowest: as much as
 * makes them equal if w were not held at 0. */
static void shift(search_pricing *p, mixture *m)
{
    search_plane *low = &p->planes[m->low], *high = &p->planes[m->high];
    double squares = 0;
    for (int32_t r = 0; r < p->k->rows.n; r++) {
        const double d = low->over[r] - high->over[r];
        squares += d * d;
    }
    double step = squares > 0 ? (m->height[m->high] - m->height[m->low]) /
                                    (p->reach * squares)
                              : high->weight;
    step = fmin(step, high->weight);
    low->weight += step;
    high->weight = step < high->weight ? high->weight - step : 0;
    for (int32_t r = 0; r < p->k->rows.n; r++)
        m->over[r] += step * (low->over[r] - high->over[r]);
}

/* max over w >= 0 of the lowest plane less |w - centre|^2 / (2 reach), by its
 * dual over weights of planes. Returns the lowest plane there. */
static double next_prices(search_pricing *p, double *w)
{
    mixture m;
    double sum = 0;
    for (int32_t j = 0; j < p->n_planes; j++)
        sum += p->planes[j].weight;
    for (int32_t j = 0; sum > 0 && j < p->n_planes; j++)
        p->planes[j].weight /= sum;
    if (!(sum > 0))
        p->planes[p->n_planes - 1].weight = 1;
    mix(p, &m);
    for (int32_t it = 0;; it++) {
        for (int32_t r = 0; r < p->k->rows.n; r++)
            w[r] = fmax(0, p->w[r] + p->reach * m.over[r]);
        look(p, w, &m);
        const double low = m.height[m.low], high = m.height[m.high];
        if (it == QP_STEPS || !(high - low > EXACT * (1 + fabs(low))))
            return low;
        shift(p, &m);
    }
}

/* ---- rounds ---- */

static double first_reach(const search_pricing *p)
{
    double squares = 0, size = fabs(p->bound);
    const search_plane *last = &p->planes[p->n_planes - 1];
    for (int32_t r = 0; r < p->k->rows.n; r++)
        squares += last->over[r] * last->over[r];
    return (size > 0 ? size : 1) / fmax(squares, 1e-12);
}

/* Nothing below `upper` is left, or the best choice is proven. */
static bool closed(const search_pricing *p)
{
    const double goal = fmin(p->upper, p->cost);
    return p->infeasible || p->bound >= goal - EXACT * fabs(goal);
}

static void start(search_pricing *p)
{
    double w[SEARCH_MAX_ROWS];
    memcpy(w, p->w, sizeof w);
    p->bound = ask(p, w);
    p->infeasible = isinf(p->bound) && p->bound > 0;
    if (p->n_planes)
        p->reach = first_reach(p);
}

void search_pricing_run(search_pricing *p, int32_t rounds)
{
    if (!isfinite(p->bound))
        start(p);
    int32_t stalls = 0;
    for (int32_t k = 0; k < rounds && stalls < STALLS; k++) {
        double w[SEARCH_MAX_ROWS] = {0};
        if (p->loose || closed(p) || !p->n_planes || !p->k->rows.n ||
            fs_deadline_over(&p->deadline))
            return;
        const double model = next_prices(p, w), before = p->bound;
        const double gap = fmin(p->upper, p->cost) - before;
        if (model - before < fmin(1e-3 * gap, 1e-5 * fabs(before)))
            return;
        const double bound = ask(p, w);
        if (bound > before) {
            p->bound = bound;
            memcpy(p->w, w, sizeof w);
        }
        const double share = (bound - before) / (model - before);
        p->reach *= share > 0.6 ? 2 : share > 0.1 ? 1 : 0.8;
        stalls = share > 0.01 ? 0 : stalls + 1;
    }
}

int32_t search_pricing_fix(search_pricing *p, int32_t sweeps, bool *keep)
{
    const search_kernel *k = p->k;
    fs_arena *scratch = fs_arena_create();
    search_cfn *cfn = priced(k, p->w, scratch);
    const double goal = fmin(p->upper, p->cost);
    int32_t kept = 0;
    search_cfn_reduce(cfn, SEARCH_ARCS);
    search_dual *dual = cfn->infeasible ? NULL : search_dual_new(cfn, scratch);
    for (int32_t n = 0; dual && n < sweeps && !dual->closed; n++) {
        dual->upper = n ? goal : INFINITY;
        search_dual_sweep(dual);
    }
    p->steps += cfn->steps;
    memset(keep, 0, (size_t)k->n_values);
    p->infeasible |= !dual;
    const bool closed_now = dual && dual->closed;
    if (dual)
        p->bound = fmax(p->bound, closed_now ? goal : dual->bound);
    for (int32_t i = 0; dual && !closed_now && i < k->n; i++)
        for (int32_t s = 0; s < cfn->dom[i]; s++, kept++)
            keep[k->first[i] + cfn->value[i][s]] = true;
    fs_arena_destroy(scratch);
    return k->n_values - kept;
}
