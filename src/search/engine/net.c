#include "config.h"
#include "search/engine/engine.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/sum.h"
#include "search/engine/cfn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of one value of a node, for each of its edges. */
enum { TRY_STEPS = 10 };
/* Tables whose least is remembered at once. */
enum { KNOWN = 512 };

static const struct {
    const char *name;
    search_engine_fn *run;
} engines[] = {
#define SEARCH_ENGINE(name, what) {#name, search_##name},
#include "search/engine/engines.def"
#undef SEARCH_ENGINE
};

search_engine_fn *search_engine_find(const char *name)
{
    for (size_t i = 0; i < sizeof engines / sizeof engines[0]; i++)
        if (strcmp(engines[i].name, name) == 0)
            return engines[i].run;
    return NULL;
}

const char *search_engine_names(void)
{
#define SEARCH_ENGINE(name, what) ", " #name
    static const char names[] =
#include "search/engine/engines.def"
        ;
#undef SEARCH_ENGINE
    return names + 2;
}

search_sums search_sums_new(const search_net *net, fs_arena *arena)
{
    return (search_sums){fs_new(arena, double, net->n_stages),
                         fs_new(arena, double, net->n_stages),
                         fs_new(arena, int64_t, net->n_limits),
                         fs_new(arena, fs_sum, 2 * net->n_stages)};
}

void search_add_loads(int64_t *bytes, const search_load *loads, int32_t n,
                      int64_t at, int32_t sign)
{
    for (int32_t k = 0; k < n; k++)
        bytes[loads[k].limit] += sign * loads[k].bytes[at];
}

static void add(search_sums *sums, int32_t stage, bool per_step, double cost)
{
    (per_step ? sums->step_s : sums->micro_s)[stage] += cost;
}

void search_net_sums(const search_net *net, const int32_t *value,
                     search_sums *out)
{
    fs_sum *seconds = out->exact; /* per micro-batch and per step, by stage */
    for (int32_t i = 0; i < 2 * net->n_stages; i++)
        seconds[i] = (fs_sum){0};
    for (int32_t k = 0; k < net->n_limits; k++)
        out->bytes[k] = 0;
    for (int32_t i = 0; i < net->n_nodes; i++) {
        const search_net_node *node = &net->nodes[i];
        fs_sum_add(&seconds[2 * node->stage + node->per_step],
                   node->cost[value[i]]);
        search_add_loads(out->bytes, node->loads, node->n_loads, value[i], 1);
    }
    for (int32_t e = 0; e < net->n_edges; e++) {
        const search_net_edge *edge = &net->edges[e];
        int64_t at =
            (int64_t)value[edge->u] * net->nodes[edge->v].n + value[edge->v];
        fs_sum_add(&seconds[2 * edge->stage + edge->per_step], edge->cost[at]);
        search_add_loads(out->bytes, edge->loads, edge->n_loads, at, 1);
    }
    for (int32_t i = 0; i < net->n_stages; i++) {
        out->micro_s[i] = fs_sum_value(&seconds[2 * i]);
        out->step_s[i] = fs_sum_value(&seconds[2 * i + 1]);
    }
}

int32_t search_net_like(const search_net *net, int32_t stage)
{
    return net->like ? net->like[stage] : 1;
}

double search_net_formula(const search_net *net, double total, double slowest,
                          double step)
{
    double rest = net->micro_batches - net->fill;
    /* 0 x INFINITY is not a number: there may be one term only. */
    return (net->fill > 0 ? net->fill * total : 0) +
           (rest > 0 ? rest * slowest : 0) + step;
}

double search_sums_cost(const search_net *net, const search_sums *sums)
{
    double total = 0, slowest = 0, step = 0;
    for (int32_t i = 0; i < net->n_stages; i++) {
        total += search_net_like(net, i) * sums->micro_s[i];
        slowest = fmax(slowest, sums->micro_s[i]);
        step = fmax(step, sums->step_s[i]);
    }
    return search_net_formula(net, total, slowest, step);
}

bool search_sums_fit(const search_net *net, const search_sums *sums)
{
    for (int32_t k = 0; k < net->n_limits; k++)
        if (sums->bytes[k] > net->limit_bytes[k])
            return false;
    return true;
}

double search_net_cost(const search_net *net, const int32_t *value)
{
    fs_arena *arena = fs_arena_create();
    search_sums sums = search_sums_new(net, arena);
    search_net_sums(net, value, &sums);
    double cost =
        search_sums_fit(net, &sums) ? search_sums_cost(net, &sums) : INFINITY;
    fs_arena_destroy(arena);
    return cost;
}

static double least(const double *at, int64_t n)
{
    double best = INFINITY;
    for (int64_t i = 0; i < n; i++)
        best = at[i] < best ? at[i] : best;
    return best;
}

/* The least of a table, which edges that are alike share: looked for once for
 * those that come near to each other. */
typedef struct known_least {
    const double *table;
    double least;
} known_least;

static double least_of(const double *table, int64_t n, known_least *known)
{
    const uint64_t slot = fs_mix((uint64_t)(uintptr_t)table) % KNOWN;
    if (known[slot].table != table)
        known[slot] = (known_least){table, least(table, n)};
    return known[slot].least;
}

double search_net_floor(const search_net *net, fs_arena *arena)
{
    search_sums sums = search_sums_new(net, arena);
    known_least *known = fs_new(arena, known_least, KNOWN);
    for (int32_t i = 0; i < net->n_nodes; i++) {
        const search_net_node *node = &net->nodes[i];
        add(&sums, node->stage, node->per_step, least(node->cost, node->n));
    }
    for (int32_t e = 0; e < net->n_edges; e++) {
        const search_net_edge *edge = &net->edges[e];
        int64_t n = (int64_t)net->nodes[edge->u].n * net->nodes[edge->v].n;
        add(&sums, edge->stage, edge->per_step, least_of(edge->cost, n, known));
    }
    return search_sums_cost(net, &sums);
}

bool search_proven(double bound, double cost)
{
    return isfinite(cost) && cost - bound <= SEARCH_TOLERANCE * fabs(cost);
}

double search_near(double cost, double gap)
{
    const double wanted =
        gap > 2 * SEARCH_TOLERANCE ? gap - SEARCH_TOLERANCE : gap;
    return isfinite(cost) ? cost - wanted * fabs(cost) : cost;
}

search_incidence search_net_incidence(const search_net *net, bool both,
                                      fs_arena *arena)
{
    search_incidence in = {fs_new(arena, int32_t, net->n_nodes + 2),
                           fs_new(arena, int32_t, 2 * net->n_edges)};
    /* Counted one place up, so that filling leaves `first` right. */
    for (int32_t e = 0; e < net->n_edges; e++) {
        in.first[net->edges[e].v + 2]++;
        if (both)
            in.first[net->edges[e].u + 2]++;
    }
    for (int32_t i = 0; i < net->n_nodes; i++)
        in.first[i + 2] += in.first[i + 1];
    for (int32_t e = 0; e < net->n_edges; e++) {
        in.edge[in.first[net->edges[e].v + 1]++] = e;
        if (both)
            in.edge[in.first[net->edges[e].u + 1]++] = e;
    }
    return in;
}

/* ---- one node at a time ---- */

search_moves search_moves_new(const search_net *net, int32_t *value,
                              fs_arena *arena)
{
    search_moves m = {.net = net,
                      .at = search_net_incidence(net, true, arena),
                      .sums = search_sums_new(net, arena),
                      .value = value};
    int32_t most = 0;
    for (int32_t i = 0; i < net->n_nodes; i++) {
        const int32_t n = m.at.first[i + 1] - m.at.first[i];
        most = n > most ? n : most;
    }
    m.tied = fs_new(arena, search_tied, most + 1);
    search_net_sums(net, value, &m.sums);
    return m;
}

static double *sum_of(search_moves *m, int32_t stage, bool per_step)
{
    return &(per_step ? m->sums.step_s : m->sums.micro_s)[stage];
}

/* Node i and its edges. */
static void look_at(search_moves *m, int32_t i)
{
    const search_net *net = m->net;
    const search_net_node *node = &net->nodes[i];
    search_tied *tied = m->tied;
    *tied++ = (search_tied){node->cost,  sum_of(m, node->stage, node->per_step),
                            1,           0,
                            node->loads, node->n_loads};
    for (int32_t k = m->at.first[i]; k < m->at.first[i + 1]; k++) {
        const search_net_edge *edge = &net->edges[m->at.edge[k]];
        const int64_t row = net->nodes[edge->v].n;
        const bool u = edge->u == i, v = edge->v == i;
        const int64_t place =
            (u ? 0 : m->value[edge->u] * row) + (v ? 0 : m->value[edge->v]);
        *tied++ = (search_tied){edge->cost + place,
                                sum_of(m, edge->stage, edge->per_step),
                                (u ? row : 0) + (v ? 1 : 0),
                                place,
                                edge->loads,
                                edge->n_loads};
    }
    m->n_tied = (int32_t)(tied - m->tied);
}

/* Adds its value s to the sums, times `sign`. */
static void count(search_moves *m, int32_t s, int32_t sign)
{
    for (int32_t k = 0; k < m->n_tied; k++) {
        const search_tied *tied = &m->tied[k];
        const int64_t at = s * tied->stride;
        *tied->sum += sign * tied->cost[at];
        if (tied->n_loads)
            search_add_loads(m->sums.bytes, tied->loads, tied->n_loads,
                             tied->place + at, sign);
    }
}

static bool allowed(const search_moves *m, int32_t s)
{
    bool fine = true;
    for (int32_t k = 0; k < m->n_tied; k++)
        fine &= isfinite(m->tied[k].cost[s * m->tied[k].stride]) != 0;
    return fine;
}

static void put(search_moves *m, int32_t i, int32_t s)
{
    count(m, m->value[i], -1);
    m->value[i] = s;
    count(m, s, 1);
}

/* What is not legal is never counted: INFINITY - INFINITY. */
static double try(search_moves *m, int32_t i, int32_t s)
{
    const int32_t old = m->value[i];
    m->steps += TRY_STEPS * m->n_tied;
    if (!allowed(m, s))
        return INFINITY;
    m->steps += 2 * m->net->n_stages + m->net->n_limits;
    put(m, i, s);
    if (search_sums_fit(m->net, &m->sums))
        return search_sums_cost(m->net, &m->sums);
    put(m, i, old);
    return INFINITY;
}

bool search_moves_legal(search_moves *m, int32_t i, int32_t s)
{
    look_at(m, i);
    m->steps += TRY_STEPS * m->n_tied;
    return allowed(m, s);
}

void search_moves_put(search_moves *m, int32_t i, int32_t s)
{
    look_at(m, i);
    put(m, i, s);
}

double search_moves_try(search_moves *m, int32_t i, int32_t s)
{
    look_at(m, i);
    return try(m, i, s);
}

/* Different sums that a node's value counts in: all of a stage's mostly. */
enum { FEW_SUMS = 4 };
typedef struct counted {
    const double *sum[FEW_SUMS];
    double seconds[FEW_SUMS];
    int32_t n; /* more than there is room for: FEW_SUMS + 1 */
} counted;

static counted count_apart(const search_moves *m, int32_t s)
{
    counted all = {.n = 0};
    for (int32_t k = 0; k < m->n_tied; k++) {
        const search_tied *tied = &m->tied[k];
        int32_t at = 0;
        while (at < all.n && all.sum[at] != tied->sum)
            at++;
        if (at == FEW_SUMS)
            return (counted){.n = FEW_SUMS + 1};
        if (at == all.n) {
            all.sum[at] = tied->sum;
            all.seconds[at] = 0;
            all.n++;
        }
        all.seconds[at] += tied->cost[s * tied->stride];
    }
    return all;
}

/* None of the sums is less, and the formula is of no use of it: quicker to say
 * than by counting it. */
static bool is_no_less(search_moves *m, const counted *now, int32_t s)
{
    if (now->n > FEW_SUMS || m->net->fill > m->net->micro_batches)
        return false;
    const counted then = count_apart(m, s);
    bool legal = true;
    for (int32_t k = 0; k < then.n; k++) {
        if (then.seconds[k] < now->seconds[k])
            return false;
        legal &= isfinite(then.seconds[k]) != 0;
    }
    m->steps += TRY_STEPS * m->n_tied;
    m->steps += legal ? 2 * m->net->n_stages + m->net->n_limits : 0;
    return true;
}

static bool move(search_moves *m, int32_t i, double *cost)
{
    int32_t best = m->value[i], old = best;
    if (m->net->nodes[i].n < 2)
        return false;
    look_at(m, i);
    counted now = count_apart(m, best);
    for (int32_t s = 0; s < m->net->nodes[i].n; s++) {
        if (s == best || is_no_less(m, &now, s))
            continue;
        const double c = try(m, i, s);
        /* A margin against rounding: the sums are kept up to date. */
        if (c < *cost * (1 - 1e-12)) {
            *cost = c;
            best = s;
            now = count_apart(m, best);
        } else if (isfinite(c)) {
            put(m, i, best);
        }
    }
    return best != old;
}

double search_net_improve(const search_net *net, int32_t *value,
                          fs_arena *arena, int64_t *steps)
{
    enum { ROUNDS = 20 };
    search_moves m = search_moves_new(net, value, arena);
    double cost = search_sums_cost(net, &m.sums);
    for (int32_t round = 0, any = 1; any && round < ROUNDS; round++) {
        any = 0;
        for (int32_t i = 0; i < net->n_nodes; i++)
            any |= move(&m, i, &cost);
    }
    *steps += m.steps;
    return search_net_cost(net, value);
}

/* ---- the least bytes of a limit ---- */

/* Who loads each limit, and who is of each stage. */
typedef struct limit_users {
    const search_net *net;
    int64_t *first_node, *first_edge; /* [n_limits + 1] */
    int32_t *node, *edge;             /* ascending, each once per limit */
    int32_t *first_of, *of;           /* [n_stages + 1]; nodes, ascending */
} limit_users;

/* The part of a network that a limit is about: nodes of the stages that load
 * it, and what edges that load it join. Without the others it is a relaxation.
 * place[]: in the part, or -1. */
typedef struct limit_part {
    const search_net *net;
    const limit_users *users;
    int32_t limit;
    int32_t n;
    int32_t *member; /* [n] ascending */
    int32_t *place;  /* [n_nodes] */
} limit_part;

/* Counts a user's limits, or writes it down where they have room: next[] is
 * where each limit's next comes; seen[], whom it saw last, 1 + user. */
static void list_user(int32_t user, const search_load *loads, int32_t n,
                      int64_t *next, int32_t *seen, int32_t *list)
{
    for (int32_t k = 0; k < n; k++) {
        const int32_t limit = loads[k].limit;
        if (seen[limit] == user + 1)
            continue;
        seen[limit] = user + 1;
        const int64_t at = next[limit]++;
        if (list)
            list[at] = user;
    }
}

/* What was counted for k stands at k + 2: where k's next comes is at k + 1. */
static int64_t sum_up(int64_t *first, int32_t n)
{
    for (int32_t k = 0; k < n; k++)
        first[k + 2] += first[k + 1];
    return first[n + 1];
}

static void list_nodes(const search_net *net, int64_t *next, int32_t *list)
{
    fs_arena *scratch = fs_arena_create();
    int32_t *seen = fs_new(scratch, int32_t, net->n_limits);
    for (int32_t i = 0; i < net->n_nodes; i++)
        list_user(i, net->nodes[i].loads, net->nodes[i].n_loads, next, seen,
                  list);
    fs_arena_destroy(scratch);
}

static void list_edges(const search_net *net, int64_t *next, int32_t *list)
{
    fs_arena *scratch = fs_arena_create();
    int32_t *seen = fs_new(scratch, int32_t, net->n_limits);
    for (int32_t e = 0; e < net->n_edges; e++)
        list_user(e, net->edges[e].loads, net->edges[e].n_loads, next, seen,
                  list);
    fs_arena_destroy(scratch);
}

static void list_loaders(limit_users *u, fs_arena *arena)
{
    const int32_t n = u->net->n_limits;
    u->first_node = fs_new(arena, int64_t, n + 2);
    u->first_edge = fs_new(arena, int64_t, n + 2);
    list_nodes(u->net, u->first_node + 2, NULL);
    list_edges(u->net, u->first_edge + 2, NULL);
    u->node = fs_new(arena, int32_t, sum_up(u->first_node, n));
    u->edge = fs_new(arena, int32_t, sum_up(u->first_edge, n));
    list_nodes(u->net, u->first_node + 1, u->node);
    list_edges(u->net, u->first_edge + 1, u->edge);
}

static void list_stages(limit_users *u, fs_arena *arena)
{
    const search_net *net = u->net;
    u->first_of = fs_new(arena, int32_t, net->n_stages + 2);
    u->of = fs_new(arena, int32_t, net->n_nodes);
    for (int32_t i = 0; i < net->n_nodes; i++)
        u->first_of[net->nodes[i].stage + 2]++;
    for (int32_t k = 0; k < net->n_stages; k++)
        u->first_of[k + 2] += u->first_of[k + 1];
    for (int32_t i = 0; i < net->n_nodes; i++)
        u->of[u->first_of[net->nodes[i].stage + 1]++] = i;
}
static limit_part no_part(const search_net *net, const limit_users *users,
                          fs_arena *arena)
{
    limit_part part = {net, users, -1, 0, NULL, NULL};
    const size_t bytes = (size_t)net->n_nodes * sizeof *part.place;
    part.member = fs_new(arena, int32_t, net->n_nodes);
    part.place = memset(fs_new(arena, int32_t, net->n_nodes), 0xff, bytes);
    return part;
}

static void join_part(limit_part *part, int32_t i)
{
    if (part->place[i] < 0)
        part->member[part->n++] = i;
    part->place[i] = 0;
}

static int by_number(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Of the limit, in the place of the one before. */
static void take_part(limit_part *part, int32_t limit)
{
    const limit_users *u = part->users;
    const search_net *net = part->net;
    for (int32_t k = 0; k < part->n; k++)
        part->place[part->member[k]] = -1;
    part->limit = limit;
    part->n = 0;
    for (int64_t k = u->first_node[limit]; k < u->first_node[limit + 1]; k++) {
        const int32_t stage = net->nodes[u->node[k]].stage;
        const int32_t first = u->first_of[stage];
        if (part->place[u->of[first]] >= 0)
            continue; /* and so are the others of its stage */
        for (int32_t i = first; i < u->first_of[stage + 1]; i++)
            join_part(part, u->of[i]);
    }
    for (int64_t k = u->first_edge[limit]; k < u->first_edge[limit + 1]; k++) {
        join_part(part, net->edges[u->edge[k]].u);
        join_part(part, net->edges[u->edge[k]].v);
    }
    if (part->n > 1)
        qsort(part->member, (size_t)part->n, sizeof *part->member, by_number);
    for (int32_t k = 0; k < part->n; k++)
        part->place[part->member[k]] = k;
}

/* Bytes of the limit in the place of costs. */
static void load_node(const limit_part *part, int32_t i, search_cfn *cfn,
                      fs_arena *arena)
{
    const search_net_node *node = &part->net->nodes[i];
    double *unary = fs_new(arena, double, node->n);
    for (int32_t s = 0; s < node->n; s++) {
        unary[s] = isinf(node->cost[s]) ? INFINITY : 0;
        for (int32_t k = 0; k < node->n_loads; k++)
            if (node->loads[k].limit == part->limit)
                unary[s] += (double)node->loads[k].bytes[s];
    }
    search_cfn_set(cfn, part->place[i], node->n, unary);
}

static void load_pair(const limit_part *part, const search_net_edge *edge,
                      search_cfn *cfn, fs_arena *arena)
{
    int64_t n =
        (int64_t)part->net->nodes[edge->u].n * part->net->nodes[edge->v].n;
    double *cost = fs_new(arena, double, n);
    for (int64_t at = 0; at < n; at++)
        cost[at] = isinf(edge->cost[at]) ? INFINITY : 0;
    for (int32_t k = 0; k < edge->n_loads; k++)
        for (int64_t at = 0; edge->loads[k].limit == part->limit && at < n;
             at++)
            cost[at] += (double)edge->loads[k].bytes[at];
    search_cfn_add(cfn, part->place[edge->u], part->place[edge->v], cost, 1);
}

static search_cfn *loaded(const limit_part *part, fs_arena *arena)
{
    const search_net *net = part->net;
    search_cfn *cfn = search_cfn_new(part->n, arena);
    for (int32_t k = 0; k < part->n; k++)
        load_node(part, part->member[k], cfn, arena);
    for (int32_t e = 0; e < net->n_edges; e++)
        if (part->place[net->edges[e].u] >= 0 &&
            part->place[net->edges[e].v] >= 0)
            load_pair(part, &net->edges[e], cfn, arena);
    return cfn;
}

/* value[]: of the part's nodes with the fewest bytes that were found, if any.
 */
static int64_t least_bytes(const limit_part *part, int32_t *value,
                           fs_arena *arena)
{
    int64_t steps = 0;
    search_effort effort = {.deadline =
                                fs_deadline_after(FS_STEPS_PER_S, &steps,
                                                  (fs_end){INT64_MAX, NULL}),
                            .sweeps = 50,
                            .cutoff = INFINITY};
    search_minimum min;
    search_cfn_minimise(loaded(part, arena), &effort, arena, &min);
    for (int32_t k = 0; k < part->n && isfinite(min.cost); k++)
        value[part->member[k]] = min.value[k];
    /* Sums of bytes are exact in a double; a bound of the dual is not. */
    return isfinite(min.bound) ? (int64_t)ceil(min.bound * (1 - 1e-12))
                               : INT64_MAX;
}

static limit_users users_of(const search_net *net, fs_arena *arena)
{
    limit_users users = {.net = net};
    list_loaders(&users, arena);
    list_stages(&users, arena);
    return users;
}

int64_t search_net_least_bytes(const search_net *net, int32_t limit)
{
    fs_arena *arena = fs_arena_create();
    const limit_users users = users_of(net, arena);
    limit_part part = no_part(net, &users, arena);
    int32_t *value = fs_new(arena, int32_t, net->n_nodes);
    take_part(&part, limit);
    const int64_t least = least_bytes(&part, value, arena);
    fs_arena_destroy(arena);
    return least;
}

static int64_t bytes_at(const search_load *loads, int32_t n, int32_t limit,
                        int64_t at)
{
    int64_t bytes = 0;
    for (int32_t k = 0; k < n; k++)
        bytes += loads[k].limit == limit ? loads[k].bytes[at] : 0;
    return bytes;
}

/* Do the values fit the limit? -1: not known. */
static bool fits_part(const limit_part *part, const int32_t *value)
{
    const search_net *net = part->net;
    const limit_users *u = part->users;
    const int32_t limit = part->limit;
    int64_t bytes = 0;
    for (int32_t k = 0; k < part->n; k++)
        if (value[part->member[k]] < 0)
            return false;
    for (int64_t k = u->first_node[limit]; k < u->first_node[limit + 1]; k++) {
        const int32_t i = u->node[k];
        const search_net_node *node = &net->nodes[i];
        bytes += bytes_at(node->loads, node->n_loads, limit, value[i]);
    }
    for (int64_t k = u->first_edge[limit]; k < u->first_edge[limit + 1]; k++) {
        const search_net_edge *edge = &net->edges[u->edge[k]];
        bytes += bytes_at(edge->loads, edge->n_loads, limit,
                          (int64_t)value[edge->u] * net->nodes[edge->v].n +
                              value[edge->v]);
    }
    return bytes <= net->limit_bytes[limit];
}

bool search_net_too_small(const search_net *net)
{
    fs_arena *arena = fs_arena_create();
    const limit_users users = users_of(net, arena);
    limit_part part = no_part(net, &users, arena);
    int32_t *value = fs_new(arena, int32_t, net->n_nodes);
    bool too_small = false;
    for (int32_t i = 0; i < net->n_nodes; i++)
        value[i] = -1;
    for (int32_t k = 0; k < net->n_limits && !too_small; k++) {
        fs_arena *scratch = fs_arena_create();
        take_part(&part, k);
        too_small = !fits_part(&part, value) &&
                    least_bytes(&part, value, scratch) > net->limit_bytes[k];
        fs_arena_destroy(scratch);
    }
    fs_arena_destroy(arena);
    return too_small;
}
