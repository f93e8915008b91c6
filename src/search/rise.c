/* Where the least of a network that was taken apart is out of reach (too wide
 * for elimination), it is not asked for at each price: messages stay (dual.c),
 * and between two sweeps of them potentials and prices take a step. The bound
 *
 *   sum_i min_s hat_i(s) - sum_k w_k limit_k
 *
 * is proven for any messages, potentials and w >= 0, so that none has to be at
 * its best before the others move (as in ascent.c). The way is the mean of what
 * recent decodings have too much; a step as long as raises the bound by what is
 * hoped for, which grows when it does and shrinks, from the best point again,
 * when it does not. No value is ever dropped: what a node of many copies pays
 * says nothing of one of them. */
#include "config.h"
#include "search/still.h"

#include "base/clock.h"
#include "search/engine/dual.h"
#include "search/engine/prices.h"

#include <math.h>
#include <string.h>

enum { PATIENCE = 5, LOOK = 16, HOPE = 6, WARM_SWEEPS = 20 };
/* Of what is missing, what a sweep has to bring for another. */
#define WARM 0.05
/* Of what is missing, what a first step is to bring; the least one. */
#define FIRST 0.25
#define LAST 0.01
/* Of the way, the last decoding's part. */
#define FRESH 0.25

/* An edge of the whole network, or its twin, in one of the pairs. */
typedef struct rise_edge {
    int32_t edge, u, v, next;
    bool turned; /* the pair begins where the edge ends */
} rise_edge;

/* A pair whose edges hold bytes: its costs follow their prices. */
typedef struct rise_pair {
    int32_t pair, first;
    double *still; /* without these */
} rise_pair;

typedef struct rise {
    search_lifting *l;
    search_lift_still *still;
    fs_arena *arena;
    fs_arena *own; /* of the network, */
    search_cfn *cfn;
    search_dual *dual;
    FS_VEC(rise_edge) edges;
    FS_VEC(rise_pair) pairs;
    double **unary; /* [its nodes] without what moves, by still->cfn's values */
    int32_t n;      /* variables: potentials, then prices */
    double *way;    /* [n] */
    double *point;  /* [n] the best known */
    double hope;
    int32_t since; /* the last step that kept its promise, sweeps */
} rise;

/* ---- variables as one vector ---- */

typedef enum vector { POINT, SLOPES } vector;

/* Copies all to `flat`, */
static void get(const rise *r, vector of, double *flat)
{
    const search_lifting *l = r->l;
    search_lift_get(l, of == SLOPES, flat);
    if (l->excess)
        memcpy(flat + search_lift_n_phi(l),
               of == POINT ? l->at.bytes : l->excess,
               (size_t)l->loose.n_limits * sizeof *flat);
}

/* or back. */
static void set(rise *r, vector of, const double *flat)
{
    search_lifting *l = r->l;
    search_lift_set(l, of == SLOPES, flat);
    if (l->excess)
        memcpy(of == POINT ? l->at.bytes : l->excess,
               flat + search_lift_n_phi(l),
               (size_t)l->loose.n_limits * sizeof *flat);
}

static int32_t count_variables(const search_lifting *l)
{
    return search_lift_n_phi(l) + (l->excess ? l->loose.n_limits : 0);
}

/* ---- costs that follow ---- */

static void set_unaries(rise *r)
{
    search_cfn *cfn = r->cfn;
    const search_cfn *whole = r->still->cfn;
    fs_arena *scratch = fs_arena_create();
    double **unary = fs_new(scratch, double *, cfn->n);
    for (int32_t i = 0; i < whole->n; i++) {
        const int32_t k = r->still->number[i];
        if (k >= 0)
            unary[k] = fs_memdup(scratch, r->unary[k],
                                 (size_t)whole->dom[i] * sizeof **unary);
    }
    search_lift_still_add(r->still, unary);
    for (int32_t k = 0; k < cfn->n; k++)
        for (int32_t s = 0; s < cfn->dom[k]; s++)
            cfn->unary[k][s] = unary[k][cfn->value[k][s]];
    fs_arena_destroy(scratch);
}

/* Tables have the values that a pair's ends had before any was dropped. */
static void add_table(rise *r, const search_pair *pair, const rise_edge *of,
                      fs_arena *scratch)
{
    const search_cfn *cfn = r->cfn, *whole = r->still->cfn;
    const int64_t rows = whole->dom[of->u], columns = whole->dom[of->v];
    double *table = fs_new(scratch, double, rows *columns);
    search_lift_still_add_edge(r->still, of->edge, of->u, of->v, table);
    const int32_t *u = cfn->value[pair->u], *v = cfn->value[pair->v];
    double *cost = pair->cost;
    for (int32_t a = 0; a < cfn->dom[pair->u]; a++)
        for (int32_t b = 0; b < cfn->dom[pair->v]; b++)
            *cost++ += of->turned ? table[v[b] * columns + u[a]]
                                  : table[u[a] * columns + v[b]];
}

static void set_pairs(rise *r)
{
    search_cfn *cfn = r->cfn;
    fs_arena *scratch = fs_arena_create();
    for (int32_t k = 0; k < r->pairs.n; k++) {
        const search_pair *pair = &cfn->pairs.at[r->pairs.at[k].pair];
        const int64_t n = (int64_t)cfn->dom[pair->u] * cfn->dom[pair->v];
        memcpy(pair->cost, r->pairs.at[k].still,
               (size_t)n * sizeof *pair->cost);
        cfn->steps += n;
        for (int32_t e = r->pairs.at[k].first; e >= 0; e = r->edges.at[e].next)
            add_table(r, pair, &r->edges.at[e], scratch);
        search_dual_pull(r->dual, r->pairs.at[k].pair);
    }
    fs_arena_destroy(scratch);
}

/* ---- the network ---- */

/* Where a pair is in r->pairs; it is made. */
static int32_t place_of(rise *r, int32_t p, int32_t *at)
{
    search_pair *pair = &r->cfn->pairs.at[p];
    if (at[p] >= 0)
        return at[p];
    const size_t bytes = (size_t)r->cfn->dom[pair->u] *
                         (size_t)r->cfn->dom[pair->v] * sizeof *pair->cost;
    const rise_pair one = {p, -1, fs_memdup(r->own, pair->cost, bytes)};
    pair->cost = fs_memdup(r->own, pair->cost, bytes);
    pair->shared = false;
    at[p] = r->pairs.n;
    fs_push(r->own, &r->pairs, one);
    return at[p];
}

static void list_edge(rise *r, int32_t *at, int32_t e, int32_t u, int32_t v)
{
    const int32_t i = r->still->number[u], j = r->still->number[v],
                  p = search_cfn_pair(r->cfn, i, j);
    const int32_t place = place_of(r, p, at);
    rise_pair *pair = &r->pairs.at[place];
    const rise_edge one = {e, u, v, pair->first, r->cfn->pairs.at[p].u != i};
    pair->first = r->edges.n;
    fs_push(r->own, &r->edges, one);
}

/* Of pairs whose costs will change each has a table of its own. */
static void list_pairs(rise *r)
{
    const search_lifting *l = r->l;
    int32_t *at = fs_new(r->own, int32_t, r->cfn->pairs.n);
    memset(at, -1, (size_t)r->cfn->pairs.n * sizeof *at);
    for (int32_t e = 0; e < l->loose.n_edges; e++) {
        const int32_t u = search_lift_source(l, e), v = l->loose.edges[e].v;
        if (!search_lift_still_holds(r->still, e))
            continue;
        list_edge(r, at, e, u, v);
        if (search_lift_twin(l, v) >= 0)
            list_edge(r, at, e, l->twin[u], l->twin[v]);
    }
}

static void leave(rise *r)
{
    if (r->own)
        fs_arena_destroy(r->own);
    r->own = NULL;
}

/* Messages begin at nothing. False: no assignment is legal. */
static bool build(rise *r)
{
    leave(r);
    r->own = fs_arena_create();
    memset(&r->edges, 0, sizeof r->edges);
    memset(&r->pairs, 0, sizeof r->pairs);
    r->cfn = search_lift_still_kernel(r->still, r->own);
    if (!r->cfn)
        return false;
    r->unary = fs_new(r->own, double *, r->cfn->n);
    for (int32_t k = 0; k < r->cfn->n; k++)
        r->unary[k] = fs_memdup(r->own, r->cfn->unary[k],
                                (size_t)r->cfn->dom[k] * sizeof **r->unary);
    search_cfn_reduce(r->cfn, SEARCH_ARCS);
    if (r->cfn->infeasible)
        return false;
    list_pairs(r);
    r->dual = search_dual_new(r->cfn, r->own);
    r->dual->plain = true; /* as a way, decodings are as good */
    set_unaries(r);
    set_pairs(r);
    search_dual_recollect(r->dual);
    return true;
}

/* After potentials moved, and prices where they do. True: messages begin anew,
 * as another price does. */
static bool follow(rise *r)
{
    r->l->over = search_price_excess(&r->l->loose, &r->l->at);
    if (search_lift_still_moved(r->still))
        return build(r);
    set_unaries(r);
    set_pairs(r);
    search_dual_recollect(r->dual);
    return false;
}

static bool begin(rise *r, search_lifting *l, search_lift_still *still)
{
    *r = (rise){.l = l, .still = still, .arena = fs_arena_create()};
    r->n = count_variables(l);
    r->way = fs_new(r->arena, double, r->n);
    r->point = fs_new(r->arena, double, r->n);
    get(r, POINT, r->point);
    search_lift_still_moved(still);
    return build(r);
}

/* ---- steps ---- */

/* The mean way, and the sum of its squares. */
static double find_way(rise *r)
{
    search_lifting *l = r->l;
    fs_arena *scratch = fs_arena_create();
    double *now = fs_new(scratch, double, r->n), squares = 0;
    const int32_t *value =
        search_lift_still_finish(r->still, r->dual->value, scratch);
    search_lift_slopes(l, value);
    if (l->excess)
        search_lift_excess(l, value);
    get(r, SLOPES, now);
    for (int32_t i = 0; i < r->n; i++) {
        r->way[i] += FRESH * (now[i] - r->way[i]);
        squares += r->way[i] * r->way[i];
    }
    set(r, SLOPES, r->way);
    fs_arena_destroy(scratch);
    return squares;
}

static double sweep(rise *r)
{
    r->dual->best = INFINITY; /* prices were others */
    search_dual_sweep(r->dual);
    return r->dual->now - r->l->over - search_lift_rounding(r->l);
}

/* Messages begin at nothing: until sweeps bring little more where they are, no
 * step tells anything. */
static double warm_up(rise *r, const search_lift_aim *aim)
{
    double bound = sweep(r), before = -INFINITY;
    for (int32_t n = 1; n < WARM_SWEEPS && bound < aim->enough &&
                        bound - before > WARM * (aim->enough - bound) &&
                        !search_cfn_late(r->cfn, &aim->deadline);
         n++) {
        before = bound;
        bound = sweep(r);
    }
    return bound;
}

static void move(rise *r, const search_lift_aim *aim)
{
    const double squares = find_way(r);
    if (!(squares > 0))
        return;
    search_lift_move(r->l, r->hope / squares);
    if (follow(r))
        warm_up(r, aim);
}

static void go_back(rise *r)
{
    set(r, POINT, r->point);
    follow(r);
}

/* A step that keeps its promise is tried larger; when steps have not for long,
 * smaller ones are, from the best point. */
static void adapt(rise *r, double gain)
{
    if (gain > 0.5 * r->hope)
        r->hope *= 1.1;
    if (gain > 0.1 * r->hope) {
        r->since = 0;
        return;
    }
    if (++r->since < PATIENCE)
        return;
    r->since = 0;
    r->hope *= 0.6;
    go_back(r);
}

static double run(rise *r, const search_lift_aim *aim, double best)
{
    best = fmax(best, warm_up(r, aim));
    double before = best;
    const double upper =
        fmin(aim->upper, best + SEARCH_LIFT_UNKNOWN * fabs(best));
    r->hope = FIRST * (upper - best);
    for (int32_t n = 1; best < aim->enough && r->hope > 0; n++) {
        const double bound = sweep(r), gain = bound - best;
        if (gain > 0) {
            best = bound;
            get(r, POINT, r->point);
            if (aim->prices)
                search_prices_copy(&r->l->loose, aim->prices, &r->l->at);
        }
        if (search_cfn_late(r->cfn, &aim->deadline) ||
            r->hope < LAST * (aim->enough - best))
            break;
        if (n % LOOK == 0) {
            if (HOPE * (best - before) < aim->enough - best)
                break;
            before = best;
        }
        adapt(r, gain);
        move(r, aim);
    }
    return best;
}

double search_lift_rise(search_lifting *l, search_lift_still *still,
                        const search_lift_aim *aim, double best)
{
    rise r;
    if (begin(&r, l, still))
        best = run(&r, aim, best);
    set(&r, POINT, r.point);
    l->over = search_price_excess(&l->loose, &l->at);
    leave(&r);
    fs_arena_destroy(r.arena);
    return best;
}
