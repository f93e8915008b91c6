/* Branch and bound over what nodes hold. A part of the choices is a set of
 * values for each node of the kernel; its bound is that of prices after the
 * exact reductions of that part. Parts are split where the choices that prices
 * mix differ most in what they hold, so that few splits settle what memory
 * allows, and what is left is additive. */
#include "config.h"
#include "search/engine/ration.h"

#include "base/clock.h"
#include "search/engine/ascent.h"
#include "search/engine/binding.h"
#include "search/engine/confine.h"
#include "search/engine/engine.h"
#include "search/engine/limit.h"
#include "search/engine/nearby.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROOT_ROUNDS = 100, PART_ROUNDS = 12, FIX_SWEEPS = 60 };
/* Sweeps of an ascent before something else has its turn. */
enum { RISE_SWEEPS = 20 };
/* A part that loses this share of its values is looked into again, unsplit. */
#define MANY 0.05
/* As much work as in parts goes into neighbourhoods, less when those that cover
 * the whole bring nothing. */
#define NEARBY_LEAST_SHARE 0.2
/* Neighbourhoods: parts of one at most; nodes of the first, and at least. */
/* Splits that are tried until none is better, and work at each half. */
enum { PROBES = 4, PROBE_SWEEPS = 10, PROBE_ROUNDS = 4 };
enum { NEARBY_PARTS = 20, NEARBY_FIRST = 24, NEARBY_LEAST = 8 };

typedef struct part {
    double bound;
    int64_t number;
    const bool *keep; /* [n_values] of the root */
    int32_t n_rows;
    const int32_t *step; /* [n_rows] of the root */
    const double *w;
} part;

/* A part that is looked into: at once, or by and by. */
typedef struct look {
    part of;
    fs_arena *arena; /* NULL: no part is */
    search_kernel *k;
    search_pricing *p;
    search_ascent *ascent; /* NULL: prices had exact minima */
} look;

typedef struct tree {
    const search_ration_effort *effort;
    search_kernel *root;
    int64_t limit;
    fs_arena *arena;
    search_ration *out;
    double upper;
    double dropped; /* least bound of the parts that were not split */
    int32_t *best;  /* [n] of the root */
    FS_VEC(part) parts;
    look now;
    int64_t n_made;
    part priced; /* has the prices of the whole */
    uint64_t rng;
    double nearby;       /* nodes of the next neighbourhood */
    double nearby_share; /* of the work in parts that these have */
    int64_t nearby_steps;
    int64_t told;   /* steps that the deadline knows */
    bool is_nearby; /* itself in a neighbourhood */
} tree;

static void reduce_all(search_cfn *cfn, int64_t limit, uint32_t without)
{
    for (bool any = true; any;) {
        search_cfn_reduce(cfn, SEARCH_REDUCE_ALL & ~without);
        any = search_cfn_limit(cfn, limit);
        any |= search_cfn_clip(cfn, limit);
    }
}

/* ---- candidates ---- */

static double goal(const tree *t)
{
    return search_near(t->upper, t->effort->gap);
}

/* `at`: a choice of the root. */
static void take(tree *t, const int32_t *at)
{
    const double cost = search_kernel_cost(t->root, at);
    if (!(cost < t->upper) || search_kernel_over(t->root, at, 0) > 0)
        return;
    t->upper = cost;
    memcpy(t->best, at, (size_t)t->root->n * sizeof *at);
}

static void take_of_part(tree *t, const search_kernel *k, const int32_t *at,
                         fs_arena *arena)
{
    int32_t *value = fs_new(arena, int32_t, t->root->n);
    search_kernel_finish(k, at, value);
    take(t, value);
}

/* ---- splitting ---- */

typedef struct split {
    int32_t node; /* of the part's kernel */
    bool *low;    /* [dom] values of the first half */
    double score;
} split;

typedef struct view {
    const search_pricing *p;
    double *share; /* [n_values] of a value in the mixture */
    double *held;  /* [n_values] what it holds, at the prices */
} view;

/* Of the planes' mixture; shares that an ascent counted are there. */
static void mix_shares(const search_pricing *p, double *share)
{
    const search_kernel *k = p->k;
    double sum = 0;
    for (int32_t j = 0; j < p->n_planes; j++)
        sum += p->planes[j].weight;
    for (int32_t j = 0; j < p->n_planes; j++) {
        const double weight =
            sum > 0 ? p->planes[j].weight / sum : j == p->n_planes - 1;
        for (int32_t i = 0; i < k->n; i++)
            share[k->first[i] + p->planes[j].at[i]] += weight;
    }
}

/* held[n_values] += what values hold at p->price. */
static void add_priced(const search_pricing *p, double *held, fs_arena *arena)
{
    const search_kernel *k = p->k;
    double *sum = fs_new(arena, double, k->n_steps + 1);
    for (int32_t t = 0; t < k->n_steps; t++)
        sum[t + 1] = sum[t] + p->price[t];
    for (int32_t i = 0; i < k->n; i++)
        for (int32_t q = k->first_piece[i]; q < k->first_piece[i + 1]; q++) {
            const search_piece *piece = &k->pieces[q];
            const double price = (sum[piece->to] - sum[piece->from]) / k->unit;
            for (int32_t s = 0; s < k->dom[i]; s++)
                held[k->first[i] + s] += price * (double)piece->bytes[s];
        }
}

static view view_of(const search_pricing *p, fs_arena *arena)
{
    const search_kernel *k = p->k;
    view v = {p, p->share, fs_new(arena, double, k->n_values)};
    if (v.share) {
        add_priced(p, v.held, arena);
        return v;
    }
    v.share = fs_new(arena, double, k->n_values);
    mix_shares(p, v.share);
    for (int32_t r = 0; r < k->rows.n; r++)
        for (int32_t s = 0; p->w[r] > 0 && s < k->n_values; s++)
            v.held[s] += p->w[r] * k->rows.at[r].load[s];
    return v;
}

/* By what is held: below the mixture's mean, and above. */
static void try_held(const view *v, split *at)
{
    const search_kernel *k = v->p->k;
    const double *share = v->share + k->first[at->node];
    const double *held = v->held + k->first[at->node];
    const int32_t dom = k->dom[at->node];
    double mean = 0, spread = 0;
    for (int32_t s = 0; s < dom; s++)
        mean += share[s] * held[s];
    for (int32_t s = 0; s < dom; s++) {
        spread += share[s] * fabs(held[s] - mean);
        at->low[s] = held[s] <= mean;
    }
    at->score = spread > 1e-12 * fabs(v->p->bound) ? spread : 0;
}

/* The value that the mixture likes best, and the others. */
static void try_value(const view *v, split *at)
{
    const search_kernel *k = v->p->k;
    const double *share = v->share + k->first[at->node];
    const int32_t dom = k->dom[at->node];
    int32_t like = 0;
    for (int32_t s = 1; s < dom; s++)
        like = share[s] > share[like] ? s : like;
    for (int32_t s = 0; s < dom; s++)
        at->low[s] = s == like;
    at->score = dom < 2 ? 0 : (1 - share[like]) * 1e6 + dom;
}

static int by_score(const void *a, const void *b)
{
    const split *x = a, *y = b;
    if (x->score < y->score || x->score > y->score)
        return x->score < y->score ? 1 : -1;
    return (x->node > y->node) - (x->node < y->node);
}

/* Those of positive score, best first; returns how many. */
static int32_t rank_splits(const search_pricing *p, split **out,
                           fs_arena *arena)
{
    const search_kernel *k = p->k;
    const view v = view_of(p, arena);
    bool *low = fs_new(arena, bool, k->n_values);
    split *at = *out = fs_new(arena, split, k->n);
    int32_t n = 0;
    for (int32_t way = 0; way < 2 && n == 0; way++) {
        for (int32_t i = 0; i < k->n; i++) {
            at[i] = (split){.node = i, .low = low + k->first[i]};
            (way ? try_value : try_held)(&v, &at[i]);
            n += at[i].score > 0;
        }
        qsort(at, (size_t)k->n, sizeof *at, by_score);
    }
    return n;
}

/* ---- parts ---- */

/* Those of rows become prices of steps. */
static void price_steps(search_pricing *p)
{
    const search_kernel *k = p->k;
    memset(p->price, 0, (size_t)k->n_steps * sizeof *p->price);
    for (int32_t r = 0; r < k->rows.n; r++)
        p->price[k->rows.at[r].step] = p->w[r];
}

static void keep_prices(const search_pricing *p, part *of, fs_arena *arena)
{
    const search_kernel *k = p->k;
    int32_t n = 0;
    for (int32_t s = 0; s < k->n_steps; s++)
        n += p->price[s] > 0;
    int32_t *step = fs_new(arena, int32_t, n);
    double *w = fs_new(arena, double, n);
    of->n_rows = 0;
    for (int32_t s = 0; s < k->n_steps; s++)
        if (p->price[s] > 0) {
            step[of->n_rows] = k->origin[s];
            w[of->n_rows++] = p->price[s];
        }
    of->step = step;
    of->w = w;
}

/* The values of `fix`; of node at->node one half of them. */
static part make_part(const tree *t, const look *l, const bool *fix,
                      const split *at, bool low, fs_arena *arena)
{
    const search_kernel *root = t->root, *k = l->k;
    bool *keep = fs_memdup(arena, l->of.keep, (size_t)root->n_values);
    for (int32_t i = 0; i < k->n; i++) {
        const int32_t node = k->node[i];
        bool *mine = keep + root->first[node];
        memset(mine, 0, (size_t)root->dom[node]);
        for (int32_t s = 0; s < k->dom[i]; s++)
            mine[k->cfn->value[node][s]] =
                fix[k->first[i] + s] &&
                (!at || i != at->node || at->low[s] == low);
    }
    part made = {.bound = fmax(l->of.bound, l->p->bound), .keep = keep};
    keep_prices(l->p, &made, arena);
    return made;
}

static void add_part(tree *t, const part *of)
{
    part made = *of;
    made.number = t->n_made++;
    made.keep = fs_memdup(t->arena, of->keep, (size_t)t->root->n_values);
    made.step =
        fs_memdup(t->arena, of->step, (size_t)of->n_rows * sizeof *of->step);
    made.w = fs_memdup(t->arena, of->w, (size_t)of->n_rows * sizeof *of->w);
    fs_push(t->arena, &t->parts, made);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The highest prices are of rows: as many as there is room for. */
static void start_prices(const part *of, search_pricing *p, fs_arena *arena)
{
    search_kernel *k = p->k;
    double *size = fs_new(arena, double, k->n_steps);
    for (int32_t j = 0; j < of->n_rows && k->n_steps; j++)
        p->price[search_kernel_step(k, of->step[j])] += of->w[j];
    memcpy(size, p->price, (size_t)k->n_steps * sizeof *size);
    qsort(size, (size_t)k->n_steps, sizeof *size, by_size);
    const double least =
        k->n_steps > SEARCH_MAX_ROWS / 2 ? size[SEARCH_MAX_ROWS / 2] : 0;
    for (int32_t s = 0; s < k->n_steps; s++)
        if (p->price[s] > least)
            p->w[search_kernel_row(k, s)] = p->price[s];
}

static double bound_of(const look *l)
{
    return l->p->infeasible ? INFINITY : fmax(l->p->bound, l->of.bound);
}

static void take_found(tree *t, const look *l)
{
    if (isfinite(l->p->cost))
        take_of_part(t, l->k, l->p->best, l->arena);
}

/* False: there is nothing in it. */
static bool open_look(tree *t, look *l, const part *of, int32_t rounds)
{
    *l = (look){.of = *of, .arena = fs_arena_create()};
    search_cfn *cfn =
        search_kernel_confined(t->root, t->limit, of->keep, l->arena);
    reduce_all(cfn, t->limit, t->effort->without);
    t->out->steps += cfn->steps;
    if (cfn->infeasible ||
        search_kernel_new(cfn, t->limit, l->arena, &l->k) != FS_OK)
        return false;
    search_pricing *p = l->p = search_pricing_new(l->k, l->arena);
    p->upper = goal(t);
    p->deadline = t->effort->deadline;
    p->without = t->effort->without;
    start_prices(of, p, l->arena);
    p->loose = t->effort->ascend;
    if (!p->loose) {
        search_pricing_run(p, rounds);
        take_found(t, l);
        price_steps(p);
    }
    if (p->loose && bound_of(l) < goal(t))
        l->ascent = search_ascent_new(p, l->arena);
    return true;
}

/* ---- splitting a part ---- */

/* What little work says of a part that may be made. */
static void probe(tree *t, part *of, fs_arena *arena)
{
    look l;
    if (!open_look(t, &l, of, PROBE_ROUNDS)) {
        of->bound = INFINITY;
    } else {
        if (l.ascent) {
            search_ascent_rise(l.ascent, PROBE_SWEEPS);
            take_found(t, &l);
        }
        of->bound = bound_of(&l);
        t->out->steps += l.p->steps + l.k->steps;
        keep_prices(l.p, of, arena);
    }
    fs_arena_destroy(l.arena);
}

/* Both halves gain: the least of what they do counts most. */
static double gain(const tree *t, const look *l, const part half[2])
{
    const double from = l->p->bound, most = goal(t) - from;
    const double a = fmin(half[0].bound - from, most);
    const double b = fmin(half[1].bound - from, most);
    return fmin(a, b) + 0.1 * fmax(a, b);
}

/* Looks at the halves of the most promising splits; pushes those of the best
 * one. Half of a split that holds nothing of interest leaves the other alone
 * to be looked at again. */
static void split_best(tree *t, look *l, const bool *fix, const split *at,
                       int32_t n)
{
    part best[2];
    double most = -INFINITY;
    bool out = false;
    for (int32_t j = 0, last = 0; !out && j < n && j < last + PROBES; j++) {
        part half[2];
        for (int32_t low = 0; low < 2; low++) {
            half[low] = make_part(t, l, fix, &at[j], low, l->arena);
            probe(t, &half[low], l->arena);
            out |= half[low].bound >= goal(t);
        }
        const double now = gain(t, l, half);
        if (j == 0 || now > most) {
            most = now;
            memcpy(best, half, sizeof best);
            last = j;
        }
    }
    for (int32_t low = 0; low < 2; low++) {
        if (best[low].bound < goal(t))
            add_part(t, &best[low]);
        else
            t->dropped = fmin(t->dropped, best[low].bound);
    }
}

/* Where the mixture mostly is comes last, to be looked at next. Returns what no
 * choice of the part undercuts that is in no part made of it. */
static double split_part(tree *t, look *l)
{
    search_pricing *p = l->p;
    const search_kernel *k = l->k;
    bool *fix = fs_new(l->arena, bool, k->n_values);
    memset(fix, true, (size_t)k->n_values);
    p->upper = goal(t);
    int32_t fixed = 0;
    if (l->ascent)
        fixed = search_ascent_end(l->ascent, fix);
    else if (isfinite(p->upper))
        fixed = search_pricing_fix(p, FIX_SWEEPS, fix);
    if (p->infeasible)
        return INFINITY;
    if (p->bound >= p->upper)
        return p->upper;
    const double cut = fixed ? p->upper : INFINITY;
    if (fixed > MANY * (k->n_values - k->n)) {
        const part rest = make_part(t, l, fix, NULL, false, l->arena);
        add_part(t, &rest);
        return cut;
    }
    split *at;
    const int32_t n = rank_splits(p, &at, l->arena);
    if (n == 0) { /* one choice: it is the best, or does not fit */
        FS_ASSERT(k->n_values == k->n);
        return INFINITY;
    }
    split_best(t, l, fix, at, n);
    return cut;
}

static void end_look(tree *t)
{
    look *l = &t->now;
    double bound = INFINITY;
    if (l->p) {
        if (!l->of.number)
            keep_prices(l->p, &t->priced, t->arena);
        bound = fmin(bound_of(l), l->p->cost);
        if (bound < goal(t))
            bound = split_part(t, l);
        t->out->steps += l->p->steps + l->k->steps;
    }
    t->dropped = fmin(t->dropped, bound);
    fs_arena_destroy(l->arena);
    *l = (look){.arena = NULL};
}

static void rise(tree *t)
{
    look *l = &t->now;
    l->p->upper = goal(t);
    const bool goes_on = search_ascent_rise(l->ascent, RISE_SWEEPS);
    take_found(t, l);
    t->out->steps += l->p->steps;
    l->p->steps = 0;
    t->out->parts += t->is_nearby;
    if (!l->of.number)
        keep_prices(l->p, &t->priced, t->arena);
    if (!goes_on || bound_of(l) >= goal(t))
        end_look(t);
}

static void begin_look(tree *t, const part *of)
{
    look *l = &t->now;
    if (!open_look(t, l, of, of->number ? PART_ROUNDS : ROOT_ROUNDS) ||
        !l->ascent)
        end_look(t);
}

static double least_bound(const tree *t)
{
    double bound = fmin(t->upper, t->dropped);
    for (int32_t j = 0; j < t->parts.n; j++)
        bound = fmin(bound, t->parts.at[j].bound);
    if (t->now.p)
        bound = fmin(bound, bound_of(&t->now));
    return bound;
}

/* The part that was made last while it lasts, else that of least bound. */
static part next_part(tree *t, bool dive)
{
    int32_t best = t->parts.n - 1;
    for (int32_t j = 0; !dive && j < t->parts.n; j++)
        if (t->parts.at[j].bound < t->parts.at[best].bound)
            best = j;
    const part chosen = t->parts.at[best];
    for (int32_t j = best; j + 1 < t->parts.n; j++)
        t->parts.at[j] = t->parts.at[j + 1];
    t->parts.n--;
    return chosen;
}

static bool stopped(tree *t)
{
    const search_ration_effort *effort = t->effort;
    const int64_t done = t->out->steps + (t->is_nearby ? 0 : t->nearby_steps);
    fs_deadline_spend(&effort->deadline, done - t->told);
    t->told = done;
    t->out->open = fs_deadline_over(&effort->deadline) ||
                   (effort->parts && t->out->parts >= effort->parts);
    return t->out->open;
}

static void explore(tree *t);

/* The best choice but for some nodes, by the same means. What is done in few
 * parts makes the next neighbourhood larger, what is not smaller. */
static void look_nearby(tree *t)
{
    search_ration_effort effort = *t->effort;
    search_ration out = {.bound = -INFINITY};
    tree near = *t;
    effort.parts = NEARBY_PARTS;
    effort.progress = NULL;
    near.arena = fs_arena_create();
    near.effort = &effort;
    near.out = &out;
    near.dropped = INFINITY;
    near.now = (look){.arena = NULL};
    near.parts.at = NULL;
    near.parts.n = near.parts.room = 0;
    near.is_nearby = true;
    near.told = 0;
    bool *keep = fs_new(near.arena, bool, t->root->n_values);
    search_nearby(t->root, t->best, (int32_t)t->nearby, &t->rng, keep);
    part all = t->priced;
    all.bound = -INFINITY;
    all.number = 1;
    all.keep = keep;
    fs_push(near.arena, &near.parts, all);
    explore(&near);
    if (near.now.arena)
        fs_arena_destroy(near.now.arena);
    t->nearby_share =
        near.upper < t->upper
            ? 1
            : fmax(NEARBY_LEAST_SHARE,
                   t->nearby_share * (1 - t->nearby / (2 * t->root->n)));
    t->upper = near.upper; /* best[] is shared */
    t->nearby_steps += out.steps + t->root->n_values;
    t->told += near.told;
    t->nearby = out.open ? fmax(NEARBY_LEAST, t->nearby / 1.25)
                         : fmin(t->root->n, t->nearby * 1.1);
    fs_arena_destroy(near.arena);
}

static void explore(tree *t)
{
    search_ration *out = t->out;
    bool dive = false;
    int64_t made = t->n_made;
    while (t->parts.n || t->now.arena) {
        out->bound = fmax(out->bound, least_bound(t));
        if (t->effort->progress)
            t->effort->progress(t->effort->ctx, t->upper, out->bound);
        if (stopped(t))
            return;
        if (!t->is_nearby && isfinite(t->upper) &&
            (double)t->nearby_steps < t->nearby_share * (double)t->out->steps) {
            look_nearby(t);
            continue;
        }
        if (t->now.arena) {
            rise(t);
            dive = !t->now.arena && t->n_made > made;
            continue;
        }
        made = t->n_made;
        const part of = next_part(t, dive);
        if (of.bound >= goal(t)) {
            t->dropped = fmin(t->dropped, of.bound);
            continue;
        }
        begin_look(t, &of);
        out->parts++;
        dive = t->n_made > made;
    }
    out->bound = fmax(out->bound, least_bound(t));
}

void search_cfn_ration(search_cfn *cfn, int64_t limit,
                       const search_ration_effort *effort, fs_arena *arena,
                       search_ration *out)
{
    *out = (search_ration){.cost = INFINITY,
                           .bound = -INFINITY,
                           .value = fs_new(arena, int32_t, cfn->n)};
    tree t = {.effort = effort,
              .limit = limit,
              .out = out,
              .upper = INFINITY,
              .dropped = INFINITY};
    reduce_all(cfn, limit, effort->without);
    out->kernel_nodes = cfn->n_live;
    if (cfn->infeasible ||
        search_kernel_new(cfn, limit, arena, &t.root) != FS_OK) {
        out->bound = INFINITY;
        return;
    }
    t.arena = fs_arena_create();
    t.best = fs_new(t.arena, int32_t, t.root->n);
    bool *keep = fs_new(t.arena, bool, t.root->n_values);
    memset(keep, true, (size_t)t.root->n_values);
    part all = {.bound = -INFINITY, .keep = keep};
    t.n_made = 1;
    t.nearby = NEARBY_FIRST;
    t.nearby_share = 1;
    fs_push(t.arena, &t.parts, all);
    explore(&t);
    if (t.now.arena)
        fs_arena_destroy(t.now.arena);
    if (isfinite(t.upper))
        search_kernel_finish(t.root, t.best, out->value);
    out->cost = t.upper;
    out->steps += t.nearby_steps;
    fs_arena_destroy(t.arena);
}
