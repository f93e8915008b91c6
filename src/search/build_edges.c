/* Pair tables of a configuration's cost network. Edges between alike domains
 * share one: a deep network has few different ones. */
#include "config.h"
#include "search/built.h"
#include "search/tables.h"
#include "search/engine/memo.h"
#include "search/view.h"

#include "ir/recompute.h"
#include "plan/lower.h"

#include <math.h>
#include <string.h>

/* Of a boxing path; of one between stages, of what that takes at least, and of
 * whether that may be less than on one stage. */
enum {
    PATH_STEPS = 350,
    CROSS_STEPS = 6000,
    LEAST_STEPS = 1500,
    LESS_STEPS = 75
};

/* Where an edge leaves from and to. Stages that one stands for lie at several
 * places in their nodes and towards their neighbours: so does what they read.
 * Seconds are the least of all, so that bounds hold for all. */
typedef struct way {
    const plan_stage *from, *to;
} way;
typedef FS_VEC(way) way_list;

/* One edge of the graph: a tensor on its way from node u's output to node
 * v's input; for a variable's loop v is the variable. Copies that are kept and
 * those made anew take their seconds at different rates: where v chooses, two
 * links of which each counts for its values only. */
typedef struct link {
    int32_t tensor, u, v, out_slot, in_slot;
    bool loop, per_step;
    search_lives lives;
    int32_t readers;      /* share its seconds */
    const way_list *ways; /* first the one on which u's own stage sends it */
} link;

/* All that a pair table depends on besides the tensor's shape and the meshes,
 * which the domains imply; no padding. */
typedef struct edge_key {
    int32_t domain_u, domain_v, out_slot, in_slot, loop, per_step, lives,
        readers;
    int32_t ways; /* which, where there are several */
    cost_place place;
} edge_key;

typedef FS_VEC(int32_t) limit_list;

typedef struct edge_builder {
    fs_arena *arena;
    search_built *built;
    search_tables *tables;
    search_memo loads; /* bytes_key -> bytes */
    FS_VEC(const int64_t *) bytes;
    limit_list *limits; /* [n_stages] at moments of the stage, ascending */
    way_list *ways; /* [from stage * n_stages + to stage][is it a chain's, or
                       may a cut lie between] */
} edge_builder;

static const ir_nd_sbp *leaves(const search_built *built, const link *l,
                               int32_t value)
{
    return &built->sig[l->u][value].out[l->out_slot];
}

static const ir_nd_sbp *arrives(const search_built *built, const link *l,
                                int32_t value)
{
    const ir_nd_sig *sig = &built->sig[l->v][value];
    return l->loop ? &sig->out[0] : &sig->in[l->in_slot];
}

/* ---- ways ---- */

static const plan_stage *meant_at(const search_layout *layout, int32_t stage)
{
    return layout->meant ? &layout->meant[stage] : &layout->stages[stage];
}

static search_span span_at(const search_layout *layout, int32_t stage)
{
    return layout->span ? layout->span[stage] : (search_span){stage, stage};
}

static void add_way(edge_builder *b, int32_t from, int32_t to, way_list *list)
{
    const search_layout *layout = b->built->layout;
    const cost_model *cost = layout->rates->cost[0];
    const way new = {meant_at(layout, from), meant_at(layout, to)};
    const cost_place place = cost_place_of(cost, new.from, new.to);
    for (int32_t k = 0; k < list->n; k++) {
        const cost_place known =
            cost_place_of(cost, list->at[k].from, list->at[k].to);
        if (memcmp(&known, &place, sizeof place) == 0)
            return;
    }
    fs_push(b->arena, list, new);
}

/* To stage `to` of the pipeline: of a chain from its neighbour on that side,
 * else from any that `from` stands for. */
static void add_ways_to(edge_builder *b, const link *l, bool chain, int32_t to,
                        way_list *list)
{
    const search_layout *layout = b->built->layout;
    const int32_t u = layout->stage_of[l->u], v = layout->stage_of[l->v];
    const search_span from = span_at(layout, u);
    if (u == v)
        add_way(b, to, to, list);
    else if (chain && u < v)
        add_way(b, to - 1, to, list);
    else if (chain)
        add_way(b, to + 1, to, list);
    else
        for (int32_t k = from.first; k <= from.last; k++)
            add_way(b, k, to, list);
}

/* From one of meant to another, wherever a cut may lie: what shares a node is
 * no further away than places repeat. */
static void add_ways_across(edge_builder *b, way_list *list)
{
    const search_layout *layout = b->built->layout;
    const search_span all = layout->span[0];
    const int32_t period = layout->any_cut;
    for (int32_t from = all.first; from < all.first + period; from++)
        for (int32_t to = all.first; to <= from + 2 * period; to++)
            if (from != to && from <= all.last && to <= all.last)
                add_way(b, from, to, list);
}

/* May its ends be on different stages, though the layout has one? What boxing
 * on a single device takes no crossing undercuts. */
static bool may_cross(const search_layout *layout, const link *l)
{
    const search_pieces *pieces = layout->pieces;
    return layout->any_cut > 0 &&
           layout->span[0].last > layout->span[0].first &&
           (layout->tells_apart || ir_mesh_size(&layout->stages[0].mesh) > 1) &&
           !search_made_anywhere(layout->graph, l->u) &&
           (pieces->of[l->u] < 0 || pieces->of[l->u] != pieces->of[l->v]);
}

/* Do layers hand it from one to the next? */
static bool is_chain(const search_layout *layout, const link *l)
{
    const search_view *view = layout->view;
    const int32_t apart = layout->stage_of[l->v] - layout->stage_of[l->u];
    return view && view->run[l->u] >= 0 && view->run[l->u] == view->run[l->v] &&
           (apart == 1 || apart == -1);
}

static const way_list *ways_of(edge_builder *b, const link *l)
{
    const search_layout *layout = b->built->layout;
    const int32_t u = layout->stage_of[l->u], v = layout->stage_of[l->v];
    const bool chain = is_chain(layout, l), crosses = may_cross(layout, l);
    way_list *list =
        &b->ways[2 * (u * layout->n_stages + v) + (chain || crosses)];
    const search_span to = span_at(layout, v);
    if (list->n)
        return list;
    for (int32_t k = 0; k <= to.last - to.first; k++)
        add_ways_to(b, l, chain, u > v ? to.last - k : to.first + k, list);
    if (crosses)
        add_ways_across(b, list);
    return list;
}

/* ---- seconds ---- */

static plan_ends ends_of(const edge_builder *b, const link *l, way w,
                         const ir_nd_sbp *from, const ir_nd_sbp *to)
{
    const search_layout *layout = b->built->layout;
    return (plan_ends){.tensor = &layout->graph->tensors.at[l->tensor],
                       .from_stage = w.from,
                       .to_stage = w.to,
                       .from = from,
                       .to = to,
                       .anywhere = search_made_anywhere(layout->graph, l->u)};
}

typedef const ir_nd_sbp *sbp_at(const search_built *built, const link *l,
                                int32_t value);

/* Different SBPs among a node's values: which[value] counts them, first[]
 * gives one of each. Returns how many. Equal SBPs are equal to the byte. */
static int32_t distinct(const edge_builder *b, const link *l, sbp_at *at,
                        int32_t n, int32_t *which, int32_t *first)
{
    const ir_nd_sbp *seen[n + 1];
    int32_t found = 0;
    for (int32_t s = 0; s < n; s++) {
        const ir_nd_sbp *sbp = at(b->built, l, s);
        int32_t k = 0;
        while (k < found && memcmp(seen[k], sbp, sizeof *sbp) != 0)
            k++;
        if (k == found) {
            seen[found] = sbp;
            first[found++] = s;
        }
        which[s] = k;
    }
    return found;
}

/* Which SBPs an edge's values stand for: a table over pairs of these, spread
 * over pairs of values. Rows are the values of the earlier node: u, or the
 * variable of a loop. */
typedef struct spread {
    const link *l;
    int32_t nu, nv, du, dv;
    int32_t *wu, *fu, *wv, *fv;
} spread;

static spread spread_of(const edge_builder *b, const link *l, fs_arena *arena)
{
    const search_net_node *nodes = b->built->loose.nodes;
    spread p = {.l = l, .nu = nodes[l->u].n, .nv = nodes[l->v].n};
    p.wu = fs_new(arena, int32_t, p.nu);
    p.fu = fs_new(arena, int32_t, p.nu);
    p.wv = fs_new(arena, int32_t, p.nv);
    p.fv = fs_new(arena, int32_t, p.nv);
    p.du = distinct(b, l, leaves, p.nu, p.wu, p.fu);
    p.dv = distinct(b, l, arrives, p.nv, p.wv, p.fv);
    return p;
}

static int64_t spread_place(const spread *p, int64_t s, int64_t t)
{
    return p->l->loop ? t * p->nu + s : s * p->nv + t;
}

/* Does the link count for a value of its reader? */
static bool counts_for(const edge_builder *b, const link *l, int64_t value)
{
    const bool anew = value >= b->built->kept[l->v];
    return l->lives == SEARCH_CHOOSES || anew == (l->lives == SEARCH_ANEW);
}

static double only_for(double seconds, bool counts)
{
    return counts || isinf(seconds) ? seconds : 0;
}

/* Is it one that only a cut would make? */
static bool is_undercut(const edge_builder *b, way w)
{
    return b->built->layout->any_cut > 0 && w.from != w.to;
}

/* Do stages box at one price, so that what is known of one holds of all? */
static bool at_one_price(const edge_builder *b, const link *l)
{
    return l->ways->n < 2 || is_undercut(b, l->ways->at[1]);
}

static void add_minimum(double *least, const double *seconds, int32_t n)
{
    for (int32_t s = 0; s < n; s++)
        least[s] = fmin(least[s], seconds[s]);
}

/* What row f of least[] has where a crossing may take less: mostly none does,
 * and that is quick to say of large tensors, and where stages box at one price.
 */
static void undercut_row(const edge_builder *b, const link *l,
                         const plan_pairs *pairs, int32_t f, double floor_s,
                         double *row, fs_arena *arena)
{
    plan_boxer *boxer = b->built->layout->rates->boxer[l->per_step];
    const bool one_price = at_one_price(b, l);
    const ir_nd_sbp **to = fs_new(arena, const ir_nd_sbp *, pairs->n_to);
    int32_t *at = fs_new(arena, int32_t, pairs->n_to), n = 0;
    for (int32_t t = 0; t < pairs->n_to; t++)
        if (row[t] > floor_s) {
            to[n] = pairs->to[t];
            at[n++] = t;
        }
    if (n == 0)
        return;
    const plan_pairs few = {pairs->ends, 1, n, &pairs->from[f], to};
    double *one = fs_new(arena, double, n);
    b->built->steps += (one_price ? LESS_STEPS : LEAST_STEPS) * (int64_t)n;
    if (one_price)
        plan_boxer_join_less(boxer, &few, one);
    else
        plan_boxer_join_least(boxer, &few, one);
    for (int32_t k = 0; k < n; k++)
        row[at[k]] = fmin(row[at[k]], fmax(one[k], floor_s));
}

static void undercut(const edge_builder *b, const link *l,
                     const plan_pairs *pairs, double *least, fs_arena *arena)
{
    const plan_ends *ends = &pairs->ends;
    const cost_model *cost = b->built->layout->rates->cost[l->per_step];
    const double floor_s =
        cost_cross_floor(cost, ends->tensor, ends->from_stage, ends->to_stage);
    for (int32_t f = 0; f < pairs->n_from; f++)
        undercut_row(b, l, pairs, f, floor_s,
                     least + (size_t)f * (size_t)pairs->n_to, arena);
}

static bool has_halo(const ir_nd_sbp *sbp)
{
    bool any = false;
    for (int32_t a = 0; a < IR_MAX_MESH; a++)
        any |= ir_sbp_has_halo(sbp->at[a]);
    return any;
}

/* How much more than that takes what crosses, at least. */
static double least_apart(const edge_builder *b, const link *l,
                          const plan_pairs *pairs, const double *least)
{
    const plan_ends *ends = &pairs->ends;
    const search_rates *rates = b->built->layout->rates;
    const double floor_s =
        cost_cross_floor(rates->cost[l->per_step], ends->tensor,
                         ends->from_stage, ends->to_stage);
    const double dearer =
        at_one_price(b, l) ? plan_boxer_dearer(rates->boxer[l->per_step], pairs)
                           : -INFINITY;
    double apart = INFINITY;
    b->built->steps += LESS_STEPS * (int64_t)pairs->n_from * pairs->n_to;
    for (int32_t k = 0; k < pairs->n_from * pairs->n_to; k++) {
        if (isinf(least[k]))
            continue;
        const double by_floor = fmax(0, floor_s - least[k]);
        apart = fmin(apart, has_halo(pairs->to[k % pairs->n_to])
                                ? by_floor
                                : fmax(by_floor, dearer));
    }
    return apart;
}

/* [du * dv] by the cheapest of its ways. */
static double *fill_seconds(const edge_builder *b, const spread *p,
                            double *apart, fs_arena *arena)
{
    const link *l = p->l;
    const int32_t n = p->du * p->dv;
    double *least = fs_new(arena, double, n), *one = fs_new(arena, double, n);
    const ir_nd_sbp **from = fs_new(arena, const ir_nd_sbp *, p->du);
    const ir_nd_sbp **to = fs_new(arena, const ir_nd_sbp *, p->dv);
    for (int32_t s = 0; s < p->du; s++)
        from[s] = leaves(b->built, l, p->fu[s]);
    for (int32_t t = 0; t < p->dv; t++)
        to[t] = arrives(b->built, l, p->fv[t]);
    const search_layout *layout = b->built->layout;
    plan_boxer *boxer = layout->rates->boxer[l->per_step];
    for (int32_t k = 0; k < l->ways->n; k++) {
        const plan_pairs pairs = {ends_of(b, l, l->ways->at[k], NULL, NULL),
                                  p->du, p->dv, from, to};
        if (is_undercut(b, l->ways->at[k])) {
            undercut(b, l, &pairs, least, arena);
            continue;
        }
        if (layout->least_moves)
            plan_boxer_join_least(boxer, &pairs, k ? one : least);
        else
            plan_boxer_join_all(boxer, &pairs, k ? one : least);
        if (k)
            add_minimum(least, one, n);
    }
    *apart = INFINITY;
    for (int32_t k = 0; k < l->ways->n && layout->tells_apart; k++) {
        const plan_pairs pairs = {ends_of(b, l, l->ways->at[k], NULL, NULL),
                                  p->du, p->dv, from, to};
        if (is_undercut(b, l->ways->at[k]))
            *apart = fmin(*apart, least_apart(b, l, &pairs, least));
    }
    return least;
}

/* By that value, is node v left out? */
static bool is_left(const edge_builder *b, int32_t v, int64_t value)
{
    return value >= b->built->left[v];
}

/* And does nobody read what it stands for? */
static bool is_unread(const edge_builder *b, int32_t v, int64_t value)
{
    return is_left(b, v, value) && value == b->built->loose.nodes[v].n - 1;
}

static bool may_be_left(const edge_builder *b, int32_t v)
{
    return b->built->left[v] < b->built->loose.nodes[v].n;
}

/* Seconds where nodes may be left out: who is reads nothing, and a view of what
 * is left out is so too. */
static double left_seconds(const edge_builder *b, const link *l, int64_t s,
                           int64_t t, double seconds)
{
    const ir_graph *graph = b->built->layout->graph;
    if (is_left(b, l->v, t))
        return 0;
    if (is_unread(b, l->u, s) || (is_left(b, l->u, s) && may_be_left(b, l->v) &&
                                  plan_lower_is_view(&graph->nodes.at[l->v])))
        return INFINITY;
    return seconds;
}

static int32_t path_steps(const edge_builder *b, const link *l)
{
    const search_layout *layout = b->built->layout;
    if (layout->stage_of[l->u] == layout->stage_of[l->v])
        return PATH_STEPS;
    return layout->least_moves ? LEAST_STEPS : CROSS_STEPS;
}

static double *make_table(const edge_builder *b, const link *l, double *apart)
{
    fs_arena *scratch = fs_arena_create();
    spread p = spread_of(b, l, scratch);
    const double *pair = fill_seconds(b, &p, apart, scratch);
    b->built->steps +=
        (int64_t)path_steps(b, l) * p.du * p.dv + (int64_t)p.nu * p.nv;
    double *table =
        fs_new(b->tables->arena, double, (size_t)p.nu *(size_t)p.nv);
    bool *counts = fs_new(scratch, bool, p.nv);
    for (int32_t t = 0; t < p.nv; t++)
        counts[t] = counts_for(b, l, t);
    for (int64_t s = 0; s < p.nu; s++) {
        const double *row = pair + p.wu[s] * p.dv;
        for (int64_t t = 0; t < p.nv; t++)
            table[spread_place(&p, s, t)] =
                left_seconds(b, l, s, t, only_for(row[p.wv[t]], counts[t])) /
                l->readers;
    }
    fs_arena_destroy(scratch);
    return table;
}

/* What an edge holds of a copy that is kept, of one made anew, and where its
 * maker is left out. */
typedef struct holdings {
    cost_holding kept, anew, left;
} holdings;

/* Holdings that one edge has at several moments: each once, and for each pair
 * of SBPs, whose path is found once for all. */
typedef struct holding_list {
    int32_t n;
    cost_holding *at;
    int64_t **pair; /* [n][du * dv] */
} holding_list;

static int32_t list_holding(holding_list *list, const cost_holding *one)
{
    int32_t k = 0;
    while (k < list->n && memcmp(&list->at[k], one, sizeof *one) != 0)
        k++;
    list->at[k] = *one;
    list->n += k == list->n;
    return k;
}

/* Of one pair: what its path takes is found once for all that are alike in
 * what of it counts. */
static void fill_pair(holding_list *list, const plan_ends *ends,
                      const plan_boxing *path, int32_t pair)
{
    cost_sizes sizes[2][2]; /* [arrives][scratch] */
    bool known[2][2] = {{false, false}, {false, false}};
    for (int32_t k = 0; k < list->n; k++) {
        const cost_holding *h = &list->at[k];
        cost_sizes *of = &sizes[h->arrives][h->scratch];
        if (!known[h->arrives][h->scratch])
            *of = cost_sizes_of(ends, path, h->arrives, h->scratch);
        known[h->arrives][h->scratch] = true;
        list->pair[k][pair] = cost_held_bytes(h, of);
    }
}

static void fill_holdings(const edge_builder *b, const spread *p,
                          holding_list *list, fs_arena *arena)
{
    const link *l = p->l;
    plan_boxer *boxer = b->built->layout->rates->boxer[l->per_step];
    for (int32_t k = 0; k < list->n; k++)
        list->pair[k] = fs_new(arena, int64_t, p->du * p->dv);
    for (int32_t i = 0; i < p->du * p->dv; i++) {
        const plan_ends ends =
            ends_of(b, l, l->ways->at[0], leaves(b->built, l, p->fu[i / p->dv]),
                    arrives(b->built, l, p->fv[i % p->dv]));
        plan_boxing path;
        if (isinf(plan_boxer_join(boxer, &ends, &path)))
            continue;
        fill_pair(list, &ends, &path, i);
    }
}

/* Of pairs of SBPs: where values keep a copy, where they make it anew, and
 * where the maker is left out. */
typedef struct spread_pairs {
    const int64_t *kept, *anew, *left;
} spread_pairs;

static int64_t bytes_at(const edge_builder *b, const spread *p,
                        const spread_pairs *of, int64_t s, int64_t t)
{
    const link *l = p->l;
    const int64_t at = p->wu[s] * p->dv + p->wv[t];
    if (is_left(b, l->v, t) || is_unread(b, l->u, s))
        return 0;
    if (is_left(b, l->u, s))
        return of->left[at];
    return (t < b->built->kept[l->v] ? of->kept : of->anew)[at];
}

static const int64_t *spread_bytes(const edge_builder *b, const spread *p,
                                   spread_pairs of)
{
    int64_t *bytes = fs_new(b->arena, int64_t, (size_t)p->nu * (size_t)p->nv);
    for (int64_t s = 0; s < p->nu; s++)
        for (int64_t t = 0; t < p->nv; t++)
            bytes[spread_place(p, s, t)] = bytes_at(b, p, &of, s, t);
    return bytes;
}

static void make_bytes(edge_builder *b, const link *l, const holdings *held,
                       int32_t n)
{
    fs_arena *scratch = fs_arena_create();
    const spread p = spread_of(b, l, scratch);
    holding_list list = {.at = fs_new(scratch, cost_holding, 3 * n),
                         .pair = fs_new(scratch, int64_t *, 3 * n)};
    int32_t *kept = fs_new(scratch, int32_t, n);
    int32_t *anew = fs_new(scratch, int32_t, n);
    int32_t *left = fs_new(scratch, int32_t, n);
    for (int32_t k = 0; k < n; k++) {
        kept[k] = list_holding(&list, &held[k].kept);
        anew[k] = list_holding(&list, &held[k].anew);
        left[k] = list_holding(&list, &held[k].left);
    }
    fill_holdings(b, &p, &list, scratch);
    for (int32_t k = 0; k < n; k++)
        fs_push(
            b->arena, &b->bytes,
            spread_bytes(b, &p,
                         (spread_pairs){list.pair[kept[k]], list.pair[anew[k]],
                                        list.pair[left[k]]}));
    fs_arena_destroy(scratch);
}

static edge_key edge_key_of(const edge_builder *b, const link *l)
{
    const search_built *built = b->built;
    const way first = l->ways->at[0];
    return (edge_key){built->domain[l->u],
                      built->domain[l->v],
                      l->out_slot,
                      l->in_slot,
                      l->loop,
                      l->per_step,
                      l->lives,
                      l->readers,
                      l->ways->n > 1 ? 1 + (int32_t)(l->ways - b->ways) : 0,
                      cost_place_of(built->layout->rates->cost[l->per_step],
                                    first.from, first.to)};
}

static double *table_of(edge_builder *b, const link *l)
{
    edge_key key = edge_key_of(b, l);
    int32_t *known = search_memo_at(&b->tables->pairs, &key, sizeof key);
    if (*known < 0) {
        double apart;
        *known = b->tables->table.n;
        fs_push(b->tables->arena, &b->tables->table, make_table(b, l, &apart));
        fs_push(b->tables->arena, &b->tables->apart, apart);
    }
    if (b->built->apart && !l->per_step && !l->loop &&
        isfinite(b->tables->apart.at[*known]))
        b->built->apart[l->v][l->in_slot] = b->tables->apart.at[*known];
    return b->tables->table.at[*known];
}

/* What an edge's bytes depend on; no padding. */
typedef struct bytes_key {
    edge_key edge;
    holdings held;
} bytes_key;

/* What an edge holds at a moment; false: nothing. */
static bool held_at(const edge_builder *b, const link *l, int32_t moment,
                    holdings *out)
{
    const cost_memory *memory = b->built->memory;
    cost_reader reader = {l->v, l->in_slot, false, false};
    bool holds = cost_memory_edge(memory, moment, reader, &out->kept);
    reader.anew = l->lives == SEARCH_ANEW;
    holds |= cost_memory_edge(memory, moment, reader, &out->anew);
    reader.kept = may_be_left(b, l->u);
    out->left = out->kept;
    if (reader.kept)
        holds |= cost_memory_edge(memory, moment, reader, &out->left);
    return holds;
}

static void list_limits(edge_builder *b)
{
    const search_built *built = b->built;
    const cost_moment *at;
    b->limits = fs_new(b->arena, limit_list, built->layout->n_stages);
    if (built->loose.n_limits == 0)
        return;
    cost_memory_moments(built->memory, &at);
    for (int32_t k = 0; k < built->loose.n_limits; k++)
        fs_push(b->arena, &b->limits[at[built->moment[k]].stage], k);
}

/* The limits of an edge's stages, ascending: on no other it holds anything. */
static int32_t limits_of(const edge_builder *b, const link *l, int32_t *out)
{
    const int32_t *stage_of = b->built->layout->stage_of;
    const limit_list *of = &b->limits[stage_of[l->u]];
    const limit_list *others = &b->limits[stage_of[l->v]];
    int32_t n = 0;
    for (int32_t i = 0, k = 0; i < of->n || k < others->n; n++) {
        const bool first =
            k == others->n || (i < of->n && of->at[i] <= others->at[k]);
        out[n] = first ? of->at[i] : others->at[k];
        i += i < of->n && of->at[i] == out[n];
        k += k < others->n && others->at[k] == out[n];
    }
    return n;
}

static void load_edge(edge_builder *b, const link *l, search_net_edge *edge)
{
    const search_built *built = b->built;
    if (built->loose.n_limits == 0)
        return;
    fs_arena *scratch = fs_arena_create();
    int32_t *limit = fs_new(scratch, int32_t, built->loose.n_limits);
    const int32_t n = limits_of(b, l, limit);
    holdings *fresh = fs_new(scratch, holdings, n);
    int32_t *which = fs_new(scratch, int32_t, n), n_fresh = 0;
    bytes_key key = {.edge = edge_key_of(b, l)};
    for (int32_t k = 0; k < n; k++) {
        if (!held_at(b, l, built->moment[limit[k]], &key.held))
            continue;
        int32_t *known = search_memo_at(&b->loads, &key, sizeof key);
        if (*known < 0) {
            *known = b->bytes.n + n_fresh;
            fresh[n_fresh++] = key.held;
        }
        limit[edge->n_loads] = limit[k];
        which[edge->n_loads++] = *known;
    }
    if (n_fresh)
        make_bytes(b, l, fresh, n_fresh);
    edge->loads = fs_new(b->arena, search_load, edge->n_loads);
    for (int32_t k = 0; k < edge->n_loads; k++)
        edge->loads[k] = (search_load){limit[k], b->bytes.at[which[k]]};
    fs_arena_destroy(scratch);
}

static search_net_edge *add_edge(edge_builder *b, const link *l)
{
    search_built *built = b->built;
    search_net_edge *edge = &built->loose.edges[built->loose.n_edges++];
    const int64_t n =
        (int64_t)built->loose.nodes[l->u].n * built->loose.nodes[l->v].n;
    built->out_slot[built->loose.n_edges - 1] = l->loop ? -1 : l->out_slot;
    *edge = (search_net_edge){
        .u = l->loop ? l->v : l->u,
        .v = l->loop ? l->u : l->v,
        .stage = search_bearer_of(built->layout, l->v, l->per_step),
        .per_step = l->per_step,
        .cost = search_scaled(&b->tables->scaler, table_of(b, l), n,
                              search_times(built->layout, l->v))};
    return edge;
}

/* Of copies made anew the seconds count per micro-batch, and the bytes, of
 * which one edge tells for all values, while the reader runs. */
static void build_edge(edge_builder *b, int32_t v, int32_t slot, int32_t tensor)
{
    search_built *built = b->built;
    const ir_graph *graph = built->layout->graph;
    const ir_tensor *t = &graph->tensors.at[tensor];
    bool loop = graph->nodes.at[v].op == IR_OP_variable;
    bool per_step = plan_tensor_per_step(graph, tensor);
    bool anew = !loop && search_copy_lives(built->layout, v, tensor) &&
                built->kept[v] < built->loose.nodes[v].n;
    int32_t *const *readers = built->layout->readers;
    link l = {tensor,   t->producer,    v, t->slot, slot, loop,
              per_step, SEARCH_CHOOSES, 1, NULL};
    if (readers)
        l.readers = readers[v][slot];
    if (l.readers == 0)
        return;
    l.ways = ways_of(b, &l);
    if (anew && built->kept[v] > 0) {
        l.lives = SEARCH_KEEPS;
        add_edge(b, &l);
    }
    if (anew) {
        l.lives = SEARCH_ANEW;
        l.per_step = false;
    }
    load_edge(b, &l, add_edge(b, &l));
}

/* What is left out the node made that it would compute again. */
static double *same_table(edge_builder *b, int32_t u, int32_t v)
{
    const search_built *built = b->built;
    const ir_node *node = &built->layout->graph->nodes.at[v];
    const int32_t axes =
        built->layout->stages[built->layout->stage_of[v]].mesh.n;
    const int64_t nu = built->loose.nodes[u].n, nv = built->loose.nodes[v].n;
    double *table = fs_new(b->tables->arena, double, nu *nv);
    for (int64_t s = 0; s < nu; s++)
        for (int64_t t = built->left[v]; t < nv - 1; t++)
            for (int32_t o = 0; o < node->n_out; o++)
                if (!ir_nd_sbp_equal(&built->sig[u][s].out[o],
                                     &built->sig[v][t].out[o], axes))
                    table[s * nv + t] = INFINITY;
    return table;
}

static void build_same(edge_builder *b, int32_t v)
{
    search_built *built = b->built;
    const ir_graph *graph = built->layout->graph;
    if (!may_be_left(b, v))
        return;
    const int32_t t = graph->nodes.at[v].out[0];
    const int32_t u = graph->tensors.at[graph->tensors.at[t].again_of].producer;
    const int32_t key[3] = {-1, built->domain[u], built->domain[v]};
    int32_t *known = search_memo_at(&b->tables->pairs, key, sizeof key);
    if (*known < 0) {
        *known = b->tables->table.n;
        fs_push(b->tables->arena, &b->tables->table, same_table(b, u, v));
        fs_push(b->tables->arena, &b->tables->apart, INFINITY);
    }
    built->out_slot[built->loose.n_edges] = -1;
    built->loose.edges[built->loose.n_edges++] =
        (search_net_edge){.u = u,
                          .v = v,
                          .stage = search_group_of(built->layout, v),
                          .cost = b->tables->table.at[*known]};
}

bool search_build_edges(fs_arena *arena, search_built *built)
{
    const ir_graph *graph = built->layout->graph;
    edge_builder b = {.arena = arena,
                      .built = built,
                      .tables = built->tables,
                      .loads = {.arena = arena}};
    const int32_t stages = built->layout->n_stages;
    int32_t n = 0;
    list_limits(&b);
    b.ways = fs_new(arena, way_list, 2 * (size_t)stages * (size_t)stages);
    for (int32_t v = 0; v < graph->nodes.n; v++)
        n += 2 * graph->nodes.at[v].n_in + 2;
    built->loose.edges = fs_new(arena, search_net_edge, n);
    built->loose.n_edges = 0;
    built->out_slot = fs_new(arena, int32_t, n);
    built->apart = built->layout->tells_apart
                       ? fs_new(arena, double *, graph->nodes.n)
                       : NULL;
    for (int32_t v = 0; v < graph->nodes.n && built->apart; v++)
        built->apart[v] = fs_new(arena, double, graph->nodes.at[v].n_in + 1);
    for (int32_t v = 0; v < graph->nodes.n; v++) {
        const ir_node *node = &graph->nodes.at[v];
        if (fs_end_reached(&built->layout->end))
            return false;
        for (int32_t k = 0; k < node->n_in; k++)
            build_edge(&b, v, k, node->in[k]);
        int32_t next = node->op == IR_OP_variable
                           ? graph->tensors.at[node->out[0]].next
                           : -1;
        if (next >= 0)
            build_edge(&b, v, 0, next);
        build_same(&b, v);
    }
    search_tie_edges(built, arena);
    return true;
}
