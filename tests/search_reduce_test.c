/* Each exact reduction, alone, without, and in random company, against all
 * assignments of small networks. */
#include "config.h"
#include "search/engine/engine.h"
#include "search/engine/minplus.h"
#include "search/engine/reduce.h"

#include "base/hash.h"
#include "tap.h"

#include <string.h>

enum { NETS = 600, SUBSETS = 6, MAX_NODES = 7, MAX_VALUES = 4 };
enum { MAX_LOADS = 3, STEPS = 6 };

/* A network as drawn, from which cfns are made. */
typedef struct drawn {
    int32_t n, dom[MAX_NODES];
    double unary[MAX_NODES][MAX_VALUES];
    bool tied[MAX_NODES][MAX_NODES];
    double cost[MAX_NODES][MAX_NODES][MAX_VALUES * MAX_VALUES];
    int32_t loads[MAX_NODES]; /* of these steps on, for `length` */
    int32_t from[MAX_NODES][MAX_LOADS], to[MAX_NODES][MAX_LOADS];
    int64_t bytes[MAX_NODES][MAX_LOADS][MAX_VALUES];
    int64_t limit; /* at each step; INT64_MAX: nothing has bytes */
} drawn;

typedef struct manner {
    double density, forbidden;
    bool ties; /* few distinct costs */
} manner;

static double draw_cost(uint64_t *rng, const manner *style)
{
    if (fs_rand_unit(rng) < style->forbidden)
        return INFINITY;
    return style->ties ? (double)fs_rand_below(rng, 4) : fs_rand_unit(rng);
}

/* u(a) + v(b), sometimes forbidden in whole rows and columns. */
static void draw_sum(uint64_t *rng, const manner *style, drawn *net, int32_t u,
                     int32_t v)
{
    double part[2][MAX_VALUES];
    for (int32_t s = 0; s < MAX_VALUES; s++)
        for (int32_t k = 0; k < 2; k++)
            part[k][s] = draw_cost(rng, style);
    for (int32_t s = 0; s < net->dom[u]; s++)
        for (int32_t x = 0; x < net->dom[v]; x++)
            net->cost[u][v][s * net->dom[v] + x] = part[0][s] + part[1][x];
}

/* The value of v follows from that of u, or the other way round. */
static void draw_function(uint64_t *rng, drawn *net, int32_t u, int32_t v,
                          bool other_way)
{
    int32_t from = other_way ? net->dom[v] : net->dom[u];
    int32_t to = other_way ? net->dom[u] : net->dom[v];
    int32_t shift = (int32_t)fs_rand_below(rng, 4);
    for (int32_t s = 0; s < from; s++)
        for (int32_t x = 0; x < to; x++) {
            int32_t at = other_way ? x * from + s : s * to + x;
            net->cost[u][v][at] =
                x == (s + shift) % to ? fs_rand_unit(rng) : INFINITY;
        }
}

static void draw_pair(uint64_t *rng, const manner *style, drawn *net, int32_t u,
                      int32_t v)
{
    uint64_t kind = fs_rand_below(rng, 12);
    net->tied[u][v] = true;
    if (kind == 0)
        draw_sum(rng, style, net, u, v);
    else if (kind <= 2)
        draw_function(rng, net, u, v, kind == 2);
    else
        for (int32_t k = 0; k < net->dom[u] * net->dom[v]; k++)
            net->cost[u][v][k] = draw_cost(rng, style);
}

/* Some nodes hold bytes for a while; some of them the same whatever they
 * choose. The limit is what some assignment needs, or a little less. */
static void draw_loads(uint64_t *rng, drawn *net)
{
    int64_t held[STEPS] = {0}, most = 0;
    for (int32_t i = 0; i < net->n; i++) {
        net->loads[i] = (int32_t)fs_rand_below(rng, MAX_LOADS + 1);
        int32_t value = (int32_t)fs_rand_below(rng, (uint64_t)net->dom[i]);
        for (int32_t k = 0; k < net->loads[i]; k++) {
            bool level = fs_rand_below(rng, 4) == 0;
            net->from[i][k] = (int32_t)fs_rand_below(rng, STEPS);
            net->to[i][k] = net->from[i][k] +
                            (int32_t)fs_rand_below(
                                rng, (uint64_t)(STEPS - net->from[i][k] + 1));
            for (int32_t s = 0; s < net->dom[i]; s++)
                net->bytes[i][k][s] = level && s
                                          ? net->bytes[i][k][0]
                                          : (int64_t)fs_rand_below(rng, 5);
            for (int32_t t = net->from[i][k]; t < net->to[i][k]; t++)
                held[t] += net->bytes[i][k][value];
        }
    }
    for (int32_t t = 0; t < STEPS; t++)
        most = held[t] > most ? held[t] : most;
    net->limit = most - (int64_t)fs_rand_below(rng, 3);
}

static void draw(uint64_t *rng, drawn *net)
{
    static const double forbidden[] = {0, 0, 0.1, 0.3};
    manner style = {0.2 + 0.6 * fs_rand_unit(rng),
                    forbidden[fs_rand_below(rng, 4)],
                    fs_rand_below(rng, 3) == 0};
    *net = (drawn){.n = 1 + (int32_t)fs_rand_below(rng, MAX_NODES),
                   .limit = INT64_MAX};
    for (int32_t i = 0; i < net->n; i++) {
        net->dom[i] = 1 + (int32_t)fs_rand_below(rng, MAX_VALUES);
        for (int32_t s = 0; s < net->dom[i]; s++)
            net->unary[i][s] = draw_cost(rng, &style);
    }
    for (int32_t u = 0; u < net->n; u++)
        for (int32_t v = u + 1; v < net->n; v++)
            if (fs_rand_unit(rng) < style.density)
                draw_pair(rng, &style, net, u, v);
    if (fs_rand_below(rng, 2))
        draw_loads(rng, net);
}

static search_cfn *make(drawn *net, fs_arena *arena)
{
    search_cfn *cfn = search_cfn_new(net->n, arena);
    for (int32_t i = 0; i < net->n; i++) {
        search_cfn_set(cfn, i, net->dom[i], net->unary[i]);
        for (int32_t k = 0; k < net->loads[i]; k++)
            search_cfn_load(cfn, i, net->from[i][k], net->to[i][k],
                            net->bytes[i][k]);
    }
    for (int32_t u = 0; u < net->n; u++)
        for (int32_t v = u + 1; v < net->n; v++)
            if (net->tied[u][v] && (u + v) % 2)
                search_cfn_add(cfn, u, v, net->cost[u][v], 1);
            else if (net->tied[u][v]) /* by all cfns of the net */
                search_cfn_share(cfn, u, v, net->cost[u][v]);
    return cfn;
}

/* Next assignment of the live nodes; false after the last. */
static bool advance(const search_cfn *cfn, int32_t *at)
{
    for (int32_t i = 0; i < cfn->n; i++) {
        if (cfn->gone[i])
            continue;
        if (++at[i] < cfn->dom[i])
            return true;
        at[i] = 0;
    }
    return false;
}

static void add_held(const search_usages *list, int32_t value, int64_t *held)
{
    for (int32_t k = 0; k < list->n; k++)
        for (int32_t t = list->at[k].from; t < list->at[k].to; t++)
            held[t] += list->at[k].bytes[value];
}

static bool fits(const search_cfn *cfn, const int32_t *at, int64_t limit)
{
    int64_t held[STEPS] = {0};
    add_held(&cfn->held, 0, held);
    for (int32_t i = 0; cfn->usage && i < cfn->n; i++)
        if (!cfn->gone[i])
            add_held(&cfn->usage[i], at[i], held);
    for (int32_t t = 0; t < STEPS; t++)
        if (held[t] > limit)
            return false;
    return true;
}

/* The least cost over all assignments of what is left that fit; value[] of
 * all nodes. */
static double least(const search_cfn *cfn, int64_t limit, int32_t *value)
{
    int32_t at[MAX_NODES] = {0};
    double best = INFINITY;
    do {
        double cost = search_cfn_cost(cfn, at);
        if (!(cost < best) || !fits(cfn, at, limit))
            continue;
        best = cost;
        for (int32_t i = 0; i < cfn->n; i++)
            if (!cfn->gone[i])
                value[i] = cfn->value[i][at[i]];
    } while (advance(cfn, at));
    if (isfinite(best))
        search_cfn_finish(cfn, value);
    return best;
}

static bool same(double a, double b)
{
    return (isinf(a) && isinf(b)) || fabs(a - b) <= 1e-9 * (1 + fabs(b));
}

typedef struct tally {
    int nets, forbidden, loaded, bad[SEARCH_N_REDUCTIONS + 1];
    int64_t live[SEARCH_N_REDUCTIONS + 1], values[SEARCH_N_REDUCTIONS + 1];
} tally;

static bool keeps_optimum(drawn *net, uint32_t mask, double wanted,
                          int64_t size[2])
{
    fs_arena *arena = fs_arena_create();
    int32_t value[MAX_NODES];
    search_cfn *whole = make(net, arena), *cfn = make(net, arena);
    search_cfn_reduce(cfn, mask);
    double got = cfn->infeasible ? INFINITY : least(cfn, net->limit, value);
    bool good = same(got, wanted) &&
                (isinf(got) || (same(search_cfn_cost(whole, value), wanted) &&
                                fits(whole, value, net->limit)));
    if (!good)
        printf("# mask %#x: %.17g, wanted %.17g\n", mask, got, wanted);
    size[0] += isinf(wanted) ? 0 : cfn->n_live;
    for (int32_t i = 0; i < cfn->n; i++)
        size[1] += isinf(wanted) || cfn->gone[i] ? 0 : cfn->dom[i];
    fs_arena_destroy(arena);
    return good;
}

/* Row k: all but reduction k; the last: any subset, all and none included. */
static void judge(tally *t, drawn *net, uint64_t *rng)
{
    fs_arena *arena = fs_arena_create();
    int32_t value[MAX_NODES];
    int64_t size[2] = {0, 0};
    double wanted = least(make(net, arena), net->limit, value);
    t->nets++;
    t->forbidden += isinf(wanted);
    t->loaded += net->limit < INT64_MAX;
    for (int32_t k = 0; k < SEARCH_N_REDUCTIONS; k++) {
        int64_t here[2] = {0, 0};
        uint32_t mask = SEARCH_REDUCE_ALL & ~(1u << k);
        t->bad[k] += !keeps_optimum(net, mask, wanted, here);
        t->live[k] += here[0];
        t->values[k] += here[1];
    }
    for (int32_t k = 0; k < SUBSETS; k++) {
        uint32_t mask =
            k == 0 ? SEARCH_REDUCE_ALL
                   : (uint32_t)fs_rand_below(rng, SEARCH_REDUCE_ALL + 1);
        t->bad[SEARCH_N_REDUCTIONS] += !keeps_optimum(net, mask, wanted, size);
        if (k == 0) {
            t->live[SEARCH_N_REDUCTIONS] += size[0];
            t->values[SEARCH_N_REDUCTIONS] += size[1];
        }
    }
    fs_arena_destroy(arena);
}

static void compare(uint64_t seed)
{
    static const char *const name[] = {
#define SEARCH_REDUCTION(NAME, name, of, what) "all but " #name,
#include "search/engine/reductions.def"
#undef SEARCH_REDUCTION
        "all, and random subsets"};
    tally t = {0};
    for (int i = 0; i < NETS; i++) {
        uint64_t rng = fs_mix(seed + (uint64_t)i);
        drawn net;
        draw(&rng, &net);
        judge(&t, &net, &rng);
    }
    printf("# %d nets, %d with bytes, %d without a finite assignment\n", t.nets,
           t.loaded, t.forbidden);
    tap_ok(t.forbidden < NETS / 2, "most nets have a solution");
    for (int32_t k = 0; k <= SEARCH_N_REDUCTIONS; k++) {
        printf("# %s: %lld nodes, %lld values left\n", name[k],
               (long long)t.live[k], (long long)t.values[k]);
        tap_equal_int(t.bad[k], 0, "%s: the optimum stays", name[k]);
        tap_ok(t.values[k] >= t.values[SEARCH_N_REDUCTIONS],
               "%s: no less is left than by all", name[k]);
    }
}

/* Where only a bound that reaches a cutoff is wanted, what a sweep proves ends
 * it, and no bound is above the least. */
static void prove_soon(uint64_t seed)
{
    int asked = 0, soon = 0, untrue = 0, missed = 0;
    for (int i = 0; i < NETS; i++) {
        fs_arena *arena = fs_arena_create();
        uint64_t rng = fs_mix(seed + 11000 + (uint64_t)i);
        int32_t value[MAX_NODES];
        drawn net;
        draw(&rng, &net);
        memset(net.loads, 0, sizeof net.loads);
        const double wanted = least(make(&net, arena), INT64_MAX, value);
        const double cutoff = wanted * (0.5 + 0.6 * fs_rand_unit(&rng));
        const search_effort effort = {
            .deadline = fs_deadline_at((fs_end){INT64_MAX, NULL}, NULL),
            .sweeps = 50,
            .cutoff = cutoff,
            .without = SEARCH_REDUCE_ALL & ~(uint32_t)SEARCH_ARCS,
            .proves = true};
        search_minimum min;
        if (isfinite(wanted)) {
            search_cfn_minimise(make(&net, arena), &effort, arena, &min);
            asked++;
            soon += isinf(min.cost) && search_proven(min.bound, cutoff);
            untrue += min.bound > wanted + 1e-9 * (1 + fabs(wanted));
            missed += !search_proven(min.bound, fmin(cutoff, wanted)) &&
                      !same(min.bound, fmin(cutoff, wanted));
        }
        fs_arena_destroy(arena);
    }
    printf("# %d networks, %d by a sweep alone\n", asked, soon);
    tap_ok(3 * soon > asked, "a sweep alone proves much");
    tap_equal_int(untrue, 0, "and no more than is so");
    tap_equal_int(missed, 0, "what it does not is found by the rest");
}

/* Costs of nodes, and of one pair of them, that are known later. */
typedef struct later {
    bool stays[MAX_NODES];
    double unary[MAX_NODES][MAX_VALUES], cost[MAX_VALUES * MAX_VALUES];
    int32_t u, v;
} later;

static later draw_later(uint64_t *rng, const drawn *net)
{
    later l = {.u = 0, .v = net->n - 1};
    for (int32_t i = 0; i < net->n; i++) {
        l.stays[i] = i == l.u || i == l.v || fs_rand_below(rng, 3) == 0;
        for (int32_t s = 0; s < net->dom[i] && l.stays[i]; s++)
            l.unary[i][s] = fs_rand_unit(rng);
    }
    for (int32_t k = 0; k < net->dom[l.u] * net->dom[l.v]; k++)
        l.cost[k] = fs_rand_unit(rng);
    return l;
}

/* Node i of the drawn network is number[i] of `cfn`, whose values are places
 * of `of`. */
static void add_later(const drawn *net, const later *l, const search_cfn *of,
                      const int32_t *number, search_cfn *cfn)
{
    double cost[MAX_VALUES * MAX_VALUES];
    for (int32_t i = 0; i < net->n; i++)
        for (int32_t s = 0; l->stays[i] && s < of->dom[i]; s++)
            cfn->unary[number[i]][s] += l->unary[i][of->value[i][s]];
    if (l->u == l->v)
        return;
    for (int32_t s = 0; s < of->dom[l->u]; s++)
        for (int32_t x = 0; x < of->dom[l->v]; x++)
            cost[s * of->dom[l->v] + x] =
                l->cost[of->value[l->u][s] * net->dom[l->v] +
                        of->value[l->v][x]];
    search_cfn_add(cfn, number[l->u], number[l->v], cost, 1);
}

/* Nodes whose costs are known later stay, with all that may become best; what
 * is left with those costs has the optimum of all. */
static void stay(uint64_t seed)
{
    int bad = 0, gone = 0, less = 0;
    for (int i = 0; i < NETS; i++) {
        fs_arena *arena = fs_arena_create();
        uint64_t rng = fs_mix(seed + 7000 + (uint64_t)i);
        drawn net;
        draw(&rng, &net);
        memset(net.loads, 0, sizeof net.loads);
        const later l = draw_later(&rng, &net);
        int32_t same_number[MAX_NODES], number[MAX_NODES], value[MAX_NODES];
        for (int32_t k = 0; k < net.n; k++)
            same_number[k] = k;
        search_cfn *whole = make(&net, arena), *cfn = make(&net, arena);
        add_later(&net, &l, make(&net, arena), same_number, whole);
        const double wanted = least(whole, INT64_MAX, value);
        cfn->stays = l.stays;
        search_cfn_reduce(cfn, SEARCH_REDUCE_ALL);
        if (!cfn->infeasible) {
            search_cfn *live = search_cfn_live(cfn, number, arena);
            live->offset = cfn->offset;
            for (int32_t k = 0; k < net.n; k++)
                gone += l.stays[k] && number[k] < 0;
            less += live->n < net.n;
            add_later(&net, &l, cfn, number, live);
            const double got = least(live, INT64_MAX, value);
            bad += !same(got, wanted);
            int32_t all[MAX_NODES];
            for (int32_t k = 0; k < net.n; k++)
                if (number[k] >= 0)
                    all[k] = cfn->value[k][value[number[k]]];
            if (isfinite(got)) {
                search_cfn_finish(cfn, all);
                bad += !same(search_cfn_cost(whole, all), wanted);
            }
        } else {
            bad += isfinite(wanted);
        }
        fs_arena_destroy(arena);
    }
    printf("# of %d, %d became smaller\n", NETS, less);
    tap_equal_int(gone, 0, "what costs more later stays");
    tap_ok(less > NETS / 4, "the rest is reduced");
    tap_equal_int(bad, 0, "and the optimum with those costs, too");
}

/* A long chain of equal links: looks grow with the chain, not its square. */
static void grow(uint64_t seed)
{
    enum { DOM = 6 };
    int64_t steps[2];
    for (int32_t k = 0; k < 2; k++) {
        fs_arena *arena = fs_arena_create();
        uint64_t rng = fs_mix(seed);
        int32_t n = k ? 4000 : 400;
        search_cfn *cfn = search_cfn_new(2 * n, arena);
        double cost[3][DOM * DOM], unary[DOM];
        for (int32_t s = 0; s < DOM * DOM; s++)
            for (int32_t p = 0; p < 3; p++)
                cost[p][s] = fs_rand_unit(&rng);
        for (int32_t s = 0; s < DOM; s++)
            unary[s] = fs_rand_unit(&rng);
        for (int32_t i = 0; i < 2 * n; i++)
            search_cfn_set(cfn, i, DOM, unary);
        for (int32_t i = 0; i + 2 < 2 * n; i += 2) { /* a ladder */
            search_cfn_add(cfn, i, i + 1, cost[0], 1);
            search_cfn_add(cfn, i, i + 2, cost[1], 1);
            search_cfn_add(cfn, i + 1, i + 3, cost[2], 1);
        }
        search_cfn_reduce(cfn, SEARCH_REDUCE_ALL);
        tap_equal_int(cfn->n_live, 0, "a ladder of %d rungs is eliminated", n);
        steps[k] = cfn->steps;
        fs_arena_destroy(arena);
    }
    printf("# %lld and %lld steps\n", (long long)steps[0], (long long)steps[1]);
    tap_ok(steps[1] < 12 * steps[0], "ten times the rungs: ten times the work");
}

/* ---- equal parts ---- */

enum { BLOCK = 4, BLOCKS = 7, KINDS = 2, WIDE = 24, TIES = 5, LINKS = 40 };

/* Blocks of two kinds in a row: of each kind all nodes and tables are equal,
 * and large enough to be told by what they contain. */
typedef struct blocks {
    int32_t dom, kind[BLOCKS];
    double unary[KINDS][BLOCK][WIDE];
    double cost[KINDS][TIES][WIDE * WIDE];
    bool turned[BLOCKS][TIES]; /* the pair begins at the later node */
    bool shared;
} blocks;

static const int32_t tie_of[TIES][2] = {{0, 1}, {0, 2}, {1, 3}, {2, 3}, {3, 4}};

static void draw_blocks(uint64_t *rng, blocks *b)
{
    const manner style = {.forbidden = 0.2 * fs_rand_unit(rng)};
    b->dom = WIDE - (int32_t)fs_rand_below(rng, 8);
    for (int32_t k = 0; k < BLOCKS; k++) {
        b->kind[k] = (int32_t)fs_rand_below(rng, KINDS);
        for (int32_t t = 0; t < TIES; t++)
            b->turned[k][t] = fs_rand_below(rng, 4) == 0;
    }
    for (int32_t k = 0; k < KINDS * BLOCK * WIDE; k++)
        (&b->unary[0][0][0])[k] = draw_cost(rng, &style);
    for (int32_t k = 0; k < KINDS * TIES * WIDE * WIDE; k++)
        (&b->cost[0][0][0])[k] = draw_cost(rng, &style);
    b->shared = fs_rand_below(rng, 2) == 0;
}

static search_cfn *make_blocks(blocks *b, fs_arena *arena)
{
    search_cfn *cfn = search_cfn_new(BLOCK * BLOCKS, arena);
    for (int32_t i = 0; i < BLOCK * BLOCKS; i++)
        search_cfn_set(cfn, i, b->dom, b->unary[b->kind[i / BLOCK]][i % BLOCK]);
    for (int32_t k = 0; k < BLOCKS; k++)
        for (int32_t t = 0; t < TIES; t++) {
            const int32_t u = BLOCK * k + tie_of[t][0],
                          v = BLOCK * k + tie_of[t][1];
            double *cost = b->cost[b->kind[k]][t];
            if (v >= BLOCK * BLOCKS)
                continue;
            const bool turned = b->turned[k][t];
            const int32_t from = turned ? v : u, to = turned ? u : v;
            if (b->shared)
                search_cfn_share(cfn, from, to, cost);
            else
                search_cfn_add(cfn, from, to, cost, 1);
        }
    return cfn;
}

/* What they come to by reductions of the set, or by elimination alone. */
static double minimum_of_blocks(blocks *b, uint32_t mask)
{
    fs_arena *arena = fs_arena_create();
    search_cfn *cfn = make_blocks(b, arena), *whole = make_blocks(b, arena);
    int32_t value[BLOCK * BLOCKS] = {0};
    search_cfn_reduce(cfn, mask);
    const bool done = cfn->infeasible || search_cfn_eliminate(cfn, 1 << 26);
    double cost = cfn->infeasible ? INFINITY : cfn->offset;
    if (done && isfinite(cost)) {
        search_cfn_finish(cfn, value);
        if (!same(search_cfn_cost(whole, value), cost))
            cost = NAN;
    }
    fs_arena_destroy(arena);
    return done ? cost : NAN;
}

static void equal_parts(uint64_t seed)
{
    static blocks b;
    uint64_t rng = fs_mix(seed + 1);
    int32_t off = 0;
    for (int32_t k = 0; k < LINKS; k++) {
        draw_blocks(&rng, &b);
        const double wanted = minimum_of_blocks(&b, 0);
        for (int32_t r = 0; r <= SEARCH_N_REDUCTIONS; r++)
            off += !same(minimum_of_blocks(&b, r < SEARCH_N_REDUCTIONS
                                                   ? 1u << r
                                                   : SEARCH_REDUCE_ALL),
                         wanted);
    }
    tap_equal_int(off, 0, "equal parts are reduced alike: the optimum stays");
}

static void names(void)
{
    uint32_t mask = 0;
    fs_err err = {0};
    tap_ok(search_reductions_parse("fold,arcs", &err, &mask) == FS_OK &&
               mask == (SEARCH_FOLD | SEARCH_ARCS),
           "reductions are called by their names");
    tap_equal_int(search_reductions_parse("fold,arc", &err, &mask), FS_INVALID,
                  "an unknown reduction is refused");
    tap_ok(strstr(err.text, "'arc'; there are arcs, ") != NULL,
           "and the known ones are told: %s", err.text);
    err = (fs_err){0};
    tap_equal_int(search_reductions_parse("", &err, &mask), FS_INVALID,
                  "no name is none");
}

/* ---- products of rows ---- */

enum { MOST_ROWS = 12, MOST_COLUMNS = 70, MOST_TABLES = 4 };

static void draw_table(uint64_t *rng, int32_t n, double *out)
{
    const manner style = {.forbidden = 0.2, .ties = fs_rand_below(rng, 2)};
    for (int32_t k = 0; k < n; k++)
        out[k] = draw_cost(rng, &style);
}

/* min_s of what s takes in each column, and the first s that has it. */
typedef double of_column(const void *ctx, int32_t s, int32_t y);
static int32_t count_off(of_column *of, const void *ctx, int32_t n, int32_t ny,
                         const double *cost, const uint16_t *best)
{
    int32_t off = 0;
    for (int32_t y = 0; y < ny; y++) {
        double least = INFINITY;
        int32_t at = 0;
        for (int32_t s = 0; s < n; s++)
            if (of(ctx, s, y) < least) {
                least = of(ctx, s, y);
                at = s;
            }
        off += best[y] != at || cost[y] < least || cost[y] > least;
    }
    return off;
}

typedef struct tables {
    int32_t n, ny, n_tables;
    double at[MOST_TABLES][MOST_ROWS * MOST_COLUMNS];
    bool flat[MOST_TABLES];
} tables;

static double product_at(const void *ctx, int32_t s, int32_t y)
{
    const tables *t = ctx;
    return t->at[0][s] + t->at[1][s * t->ny + y];
}

static double sum_at(const void *ctx, int32_t s, int32_t y)
{
    const tables *t = ctx;
    double sum = 0;
    for (int32_t f = 0; f < t->n_tables; f++)
        sum += t->flat[f] ? t->at[f][s] : t->at[f][s * t->ny + y];
    return sum;
}

/* Of rows of any length, with ties and what is forbidden. */
static void products(uint64_t seed)
{
    enum { TIMES = 2000 };
    static tables t;
    static double cost[MOST_COLUMNS];
    static uint16_t best[MOST_COLUMNS];
    uint64_t rng = seed;
    int32_t off[2] = {0};
    for (int32_t k = 0; k < TIMES; k++) {
        const double *at[MOST_TABLES];
        int64_t own[MOST_TABLES];
        t.n = 1 + (int32_t)fs_rand_below(&rng, MOST_ROWS);
        t.ny = 1 + (int32_t)fs_rand_below(&rng, MOST_COLUMNS);
        t.n_tables = 1 + (int32_t)fs_rand_below(&rng, MOST_TABLES);
        for (int32_t f = 0; f < MOST_TABLES; f++) {
            t.flat[f] = fs_rand_below(&rng, 3) == 0;
            at[f] = t.at[f];
            own[f] = t.flat[f] ? 1 : t.ny;
            draw_table(&rng, t.n * t.ny, t.at[f]);
        }
        search_min_plus(t.at[0], t.at[1], 1, t.n, t.ny, cost, best);
        off[0] += count_off(product_at, &t, t.n, t.ny, cost, best);
        search_least_sums(at, own, t.flat, t.n_tables, t.n, t.ny, cost, best);
        off[1] += count_off(sum_at, &t, t.n, t.ny, cost, best);
    }
    tap_equal_int(off[0], 0, "a min-plus product is that of its entries");
    tap_equal_int(off[1], 0, "and the least of sums that of theirs");
}

int main(void)
{
    uint64_t seed = tap_seed(20261123);
    compare(seed);
    products(seed);
    prove_soon(seed);
    stay(seed);
    grow(seed);
    equal_parts(seed);
    names();
    return tap_done();
}
