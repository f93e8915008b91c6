/* Progressive filling: the link with the smallest share per stream is full
 * first; its flows have that share, and leave the rest of the other links to
 * those that remain. In the order of (share, link) that is one result.
 *
 * A start or an end changes few rates. Flows whose own full link it touches are
 * filled anew, the others' rates standing; where a full link of theirs then
 * carries another amount, or a full link of the new ones is crossed by flows
 * with no less, those join, until none does. All who stand outside would then
 * be filled as they are: at their turn their full link has just what it had. */
#include "config.h"
#include "sim/flows.h"

#include "base/status.h"

#include <math.h>

enum {
    UNIT_BITS = 60,
    NEAR_BITS = 34,
    NEAR = 64,
    BY_LIMIT = -1,
    BY_NONE = -2,
    BLOCK = 8
};

typedef struct member {
    int32_t flow, n;
    int32_t use; /* the flow's */
} member;

typedef struct link_state {
    /* While it is solved: */
    int64_t base_rest, rest;     /* left over by those that stand */
    int64_t base_weight, weight; /* streams of those that do not */
    int64_t alone;               /* of the first of these */
    double wanted;               /* what these can have by other links */
    int64_t full_at;             /* share at which it was full; -1: it is not */
    int64_t last;                /* the largest rate of those filled */
    int32_t seen, dirty;         /* stamps */
    int32_t n_held;              /* flows that it holds back */
    bool moved;                  /* what it carries, or whom it holds back */
    int64_t cap, used, streams;
    FS_VEC(member) members; /* flows that run */
} link_state;

typedef struct use_state {
    int32_t link, n;
    int32_t place; /* among the link's members */
    bool single;   /* n is 1: nothing is divided */
} use_state;

typedef struct flow_state {
    use_state *uses;
    int32_t n_uses;
    int32_t full;        /* the link that holds it back, or BY_ */
    int64_t rate, limit; /* INT64_MAX: none */
    /* While it is solved: */
    int64_t next;
    int32_t seen; /* stamp: its rate does not stand */
    int32_t was_full;
    bool filled, runs;
    int64_t alone;
} flow_state;

/* The share of a link, or (behind the links) the limit of a flow; of one flow
 * alone, or (-1) of all that are left. */
typedef struct candidate {
    int64_t share;
    int32_t id, flow;
} candidate;

struct sim_flows {
    fs_arena *arena;
    double unit_bps;
    int32_t n_links, n_flows, stamp;
    link_state *links;
    flow_state *flows;
    FS_VEC(int32_t) dirty;   /* links that flows came to or left */
    FS_VEC(int32_t) started; /* flows */
    FS_VEC(int32_t) set;     /* flows that are filled anew */
    FS_VEC(int32_t) touched; /* links of theirs */
    FS_VEC(int32_t) changed; /* flows */
    candidate *at;           /* [n_links + n_flows] */
    int32_t *least;          /* [blocks of candidates] the first of each */
    int32_t n_at, n_filled;
};

/* ---- making ---- */

sim_flows *sim_flows_create(int32_t n_links, const double *bps, int32_t n_flows,
                            fs_arena *arena)
{
    sim_flows *f = fs_new(arena, sim_flows, 1);
    double most = 0;
    for (int32_t i = 0; i < n_links; i++)
        most = bps[i] > most ? bps[i] : most;
    f->arena = arena;
    f->n_links = n_links;
    f->n_flows = n_flows;
    f->unit_bps = ldexp(most, -UNIT_BITS);
    f->links = fs_new(arena, link_state, n_links);
    f->flows = fs_new(arena, flow_state, n_flows);
    f->at = fs_new(arena, candidate, (size_t)n_links + (size_t)n_flows + BLOCK);
    f->least =
        fs_new(arena, int32_t, ((size_t)n_links + (size_t)n_flows) / BLOCK + 1);
    for (int32_t i = 0; i < n_links; i++)
        f->links[i].cap = (int64_t)(bps[i] / f->unit_bps);
    for (int32_t i = 0; i < n_flows; i++)
        f->flows[i].full = BY_NONE;
    return f;
}

void sim_flows_route(sim_flows *f, int32_t flow, const sim_use *uses, int32_t n,
                     double most_bps)
{
    flow_state *x = &f->flows[flow];
    const double most = most_bps / f->unit_bps;
    FS_ASSERT(n > 0 && !x->runs);
    x->uses = fs_new(f->arena, use_state, n);
    x->n_uses = n;
    x->limit = most < ldexp(1, UNIT_BITS + 1) ? (int64_t)most : INT64_MAX;
    x->alone = x->limit;
    for (int32_t i = 0; i < n; i++) {
        const int64_t share = f->links[uses[i].link].cap / uses[i].n;
        x->uses[i] = (use_state){uses[i].link, uses[i].n, -1, uses[i].n == 1};
        x->alone = share < x->alone ? share : x->alone;
    }
}

/* ---- who is there ---- */

/* Whom it holds back has to be filled anew; else nobody hangs on it. */
static void set_dirty(sim_flows *f, int32_t link)
{
    if (f->links[link].n_held == 0 || f->links[link].dirty == f->stamp + 1)
        return;
    f->links[link].dirty = f->stamp + 1;
    fs_push(f->arena, &f->dirty, link);
}

void sim_flows_start(sim_flows *f, int32_t flow)
{
    flow_state *x = &f->flows[flow];
    FS_ASSERT(!x->runs && x->n_uses > 0);
    x->runs = true;
    x->rate = 0;
    x->full = BY_NONE;
    for (int32_t i = 0; i < x->n_uses; i++) {
        link_state *link = &f->links[x->uses[i].link];
        x->uses[i].place = link->members.n;
        fs_push(f->arena, &link->members, (member){flow, x->uses[i].n, i});
        link->streams += x->uses[i].n;
        set_dirty(f, x->uses[i].link);
    }
    fs_push(f->arena, &f->started, flow);
}

void sim_flows_end(sim_flows *f, int32_t flow)
{
    flow_state *x = &f->flows[flow];
    FS_ASSERT(x->runs);
    x->runs = false;
    if (x->full >= 0)
        f->links[x->full].n_held--;
    for (int32_t i = 0; i < x->n_uses; i++) {
        link_state *link = &f->links[x->uses[i].link];
        const member its = link->members.at[--link->members.n];
        link->members.at[x->uses[i].place] = its;
        f->flows[its.flow].uses[its.use].place = x->uses[i].place;
        link->used -= x->uses[i].n * x->rate;
        link->streams -= x->uses[i].n;
        set_dirty(f, x->uses[i].link);
    }
}

/* ---- those that are filled anew ---- */

static link_state *touch(sim_flows *f, int32_t i)
{
    link_state *link = &f->links[i];
    if (link->seen != f->stamp) {
        link->seen = f->stamp;
        link->base_rest = link->cap - link->used;
        link->base_weight = 0;
        link->wanted = 0;
        link->moved = false;
        fs_push(f->arena, &f->touched, i);
    }
    return link;
}

static void join_new(sim_flows *f, int32_t flow)
{
    flow_state *x = &f->flows[flow];
    x->seen = f->stamp;
    x->was_full = x->full;
    fs_push(f->arena, &f->set, flow);
    for (int32_t i = 0; i < x->n_uses; i++) {
        link_state *link = touch(f, x->uses[i].link);
        link->base_rest += x->uses[i].n * x->rate;
        if (link->base_weight == 0)
            link->alone = x->uses[i].n;
        link->base_weight += x->uses[i].n;
    }
}

static inline void join(sim_flows *f, int32_t flow)
{
    if (f->flows[flow].seen != f->stamp)
        join_new(f, flow);
}

static void join_held_by(sim_flows *f, int32_t i)
{
    const link_state *link = &f->links[i];
    for (int32_t k = 0; k < link->members.n && link->n_held > 0; k++)
        if (f->flows[link->members.at[k].flow].full == i)
            join(f, link->members.at[k].flow);
}

/* Where shares are equal but for what is left of whole ones, the order of links
 * decides: such flows are told apart only when all of them are filled anew. */
static int64_t nearly(const link_state *link, int64_t share)
{
    return share - (share >> NEAR_BITS) - NEAR * link->streams;
}

static void join_near(sim_flows *f, int32_t i)
{
    const link_state *link = &f->links[i];
    if (link->streams == link->base_weight)
        return; /* nobody else is there */
    const bool full =
        link->full_at >= 0 || nearly(link, link->cap) <= link->cap - link->rest;
    const int64_t share = link->full_at >= 0 ? link->full_at : link->last;
    if (!full && link->n_held == 0)
        return;
    for (int32_t k = 0; k < link->members.n; k++) {
        const flow_state *x = &f->flows[link->members.at[k].flow];
        if ((full && x->rate >= nearly(link, share)) ||
            (x->full == i &&
             (link->moved || link->last >= nearly(link, x->rate))))
            join(f, link->members.at[k].flow);
    }
}

/* ---- filling ---- */

static inline bool before(const candidate *a, const candidate *b)
{
    return (a->share < b->share) | ((a->share == b->share) & (a->id < b->id));
}

/* Written so that nothing is to be guessed: candidates are few and in no order,
 * so that half of a heap's turns would be guessed wrongly. */
static void set_least(sim_flows *f, int32_t block)
{
    const candidate *at = f->at + block * BLOCK;
    int64_t share = at[0].share;
    int32_t least = 0, id = at[0].id;
    for (int32_t i = 1; i < BLOCK; i++) {
        const int32_t is =
            (at[i].share < share) | ((at[i].share == share) & (at[i].id < id));
        share += (at[i].share - share) & -(int64_t)is;
        id += (at[i].id - id) & -is;
        least += (i - least) & -is;
    }
    f->least[block] = block * BLOCK + least;
}

/* Blocks are whole: what is behind the last comes never. */
static void set_all_least(sim_flows *f)
{
    while (f->n_at % BLOCK)
        f->at[f->n_at++] = (candidate){INT64_MAX, INT32_MAX, -1};
    for (int32_t k = 0; k * BLOCK < f->n_at; k++)
        set_least(f, k);
}

static int32_t least_of_all(const sim_flows *f)
{
    int32_t least = f->least[0];
    for (int32_t k = 1; k * BLOCK < f->n_at; k++)
        least =
            before(&f->at[f->least[k]], &f->at[least]) ? f->least[k] : least;
    return least;
}

/* It comes again with this share; INT64_MAX: not at all. */
static void set_share(sim_flows *f, int32_t i, int64_t share)
{
    f->at[i].share = share;
    set_least(f, i / BLOCK);
}

static void fill_flow(sim_flows *f, flow_state *x, int64_t rate, int32_t by)
{
    f->n_filled++;
    const bool moves = (rate != x->rate) | (by != x->was_full);
    x->filled = true;
    x->next = rate;
    x->full = by;
    for (int32_t i = 0; i < x->n_uses; i++) {
        link_state *link = &f->links[x->uses[i].link];
        link->rest -= x->uses[i].n * rate;
        link->weight -= x->uses[i].n;
        link->last = rate;
        link->moved |= moves;
    }
}

static void fill_link(sim_flows *f, int32_t i, int64_t share)
{
    link_state *link = &f->links[i];
    for (int32_t k = 0; k < link->members.n && link->weight > 0; k++) {
        flow_state *x = &f->flows[link->members.at[k].flow];
        if (x->seen == f->stamp && !x->filled)
            fill_flow(f, x, share, i);
    }
}

/* What holds a flow back that no other of the set shares with it: its limit, or
 * one link. */
static candidate own_candidate(sim_flows *f, int32_t flow)
{
    flow_state *x = &f->flows[flow];
    candidate own = {x->limit, f->n_links + flow, flow};
    int64_t most = x->limit;
    x->filled = false;
    for (int32_t k = 0; k < x->n_uses; k++) {
        const int32_t n = x->uses[k].n;
        const link_state *link = &f->links[x->uses[k].link];
        const int64_t rest = link->base_rest;
        const candidate its = {x->uses[k].single ? rest : rest / n,
                               x->uses[k].link, flow};
        most = its.share < most ? its.share : most;
        own = ((link->base_weight == n) & before(&its, &own)) ? its : own;
    }
    const double wanted = (double)(most + 1);
    for (int32_t k = 0; k < x->n_uses; k++) {
        /* Where it could have all that is left, that is more than that. */
        f->links[x->uses[k].link].wanted += x->uses[k].n * wanted;
    }
    return own;
}

/* A link that gives all of its flows more than they can have anyway is none.
 * (Amounts below 2^60 are summed up in doubles; a part in 2^40 is to spare.) */
static bool is_candidate(const link_state *link)
{
    return link->base_weight > link->alone &&
           link->wanted * (1 + 0x1p-40) >= (double)link->base_rest;
}

static void list_candidates(sim_flows *f)
{
    f->n_at = 0;
    for (int32_t i = 0; i < f->set.n; i++) {
        const candidate own = own_candidate(f, f->set.at[i]);
        if (own.share < INT64_MAX)
            f->at[f->n_at++] = own;
    }
    for (int32_t i = 0; i < f->touched.n; i++) {
        link_state *link = &f->links[f->touched.at[i]];
        link->rest = link->base_rest;
        link->weight = link->base_weight;
        link->full_at = -1;
        if (is_candidate(link))
            f->at[f->n_at++] =
                (candidate){link->rest / link->weight, f->touched.at[i], -1};
        link->wanted = 0; /* for the next time */
    }
    set_all_least(f);
}

/* Shares only grow as others are filled: one that has grown meanwhile comes
 * again. */
static void fill(sim_flows *f)
{
    list_candidates(f);
    for (f->n_filled = 0; f->n_filled < f->set.n;) {
        const int32_t i = least_of_all(f);
        const candidate top = f->at[i];
        link_state *link = top.id < f->n_links ? &f->links[top.id] : NULL;
        if (top.flow >= 0 ? f->flows[top.flow].filled : link->weight == 0) {
            set_share(f, i, INT64_MAX);
            continue;
        }
        const int64_t share =
            top.flow >= 0 ? top.share : link->rest / link->weight;
        if (share > top.share) {
            set_share(f, i, share);
            continue;
        }
        if (link)
            link->full_at = share;
        if (top.flow >= 0)
            fill_flow(f, &f->flows[top.flow], share, link ? top.id : BY_LIMIT);
        else
            fill_link(f, top.id, share);
        set_share(f, i, INT64_MAX);
    }
}

/* ---- solving ---- */

static bool grow(sim_flows *f)
{
    const int32_t n = f->set.n, n_touched = f->touched.n;
    for (int32_t k = 0; k < n_touched; k++)
        join_near(f, f->touched.at[k]);
    return f->set.n > n;
}

static void settle(sim_flows *f)
{
    for (int32_t i = 0; i < f->set.n; i++) {
        flow_state *x = &f->flows[f->set.at[i]];
        if (x->was_full >= 0)
            f->links[x->was_full].n_held--;
        if (x->full >= 0)
            f->links[x->full].n_held++;
        if (x->next == x->rate && x->was_full != BY_NONE)
            continue;
        for (int32_t k = 0; k < x->n_uses; k++)
            f->links[x->uses[k].link].used +=
                x->uses[k].n * (x->next - x->rate);
        x->rate = x->next;
        fs_push(f->arena, &f->changed, f->set.at[i]);
    }
}

/* One that starts takes from those that have more than it will have, about, on
 * links that have not as much left. */
static void join_losers(sim_flows *f, int32_t flow)
{
    const flow_state *x = &f->flows[flow];
    int64_t share = x->alone;
    for (int32_t k = 0; k < x->n_uses; k++) {
        const link_state *link = &f->links[x->uses[k].link];
        if (share > link->cap / link->streams)
            share = link->cap / link->streams;
    }
    for (int32_t k = 0; k < x->n_uses; k++) {
        const link_state *link = &f->links[x->uses[k].link];
        for (int32_t i = 0;
             i < link->members.n && link->cap - link->used < share; i++)
            if (f->flows[link->members.at[i].flow].rate > share)
                join(f, link->members.at[i].flow);
    }
}

/* Those that cannot stand by what is known beforehand. */
static void join_first(sim_flows *f)
{
    for (int32_t i = 0; i < f->started.n; i++)
        if (f->flows[f->started.at[i]].runs) {
            join(f, f->started.at[i]);
            join_losers(f, f->started.at[i]);
        }
    for (int32_t i = 0; i < f->dirty.n; i++)
        join_held_by(f, f->dirty.at[i]);
}

/* All that changes is that one starts, and nobody else meets it on a link that
 * is full or would be: it has what its links have left, and no other is to be
 * found out. What fill and grow would come to, without looking at others. */
static bool start_apart(sim_flows *f)
{
    if (f->started.n != 1 || f->dirty.n > 0)
        return false;
    flow_state *x = &f->flows[f->started.at[0]];
    int64_t rate = x->limit;
    int32_t by = BY_LIMIT;
    if (!x->runs)
        return false;
    for (int32_t k = 0; k < x->n_uses; k++) {
        const use_state *u = &x->uses[k];
        const link_state *link = &f->links[u->link];
        const int64_t rest = link->cap - link->used;
        const int64_t share = u->single ? rest : rest / u->n;
        if (share < rate || (share == rate && (by < 0 || u->link < by))) {
            rate = share;
            by = u->link;
        }
    }
    for (int32_t k = 0; k < x->n_uses; k++) {
        const use_state *u = &x->uses[k];
        const link_state *link = &f->links[u->link];
        const int64_t used = link->used + u->n * rate;
        if (link->streams != u->n &&
            (u->link == by || nearly(link, link->cap) <= used))
            return false;
    }
    for (int32_t k = 0; k < x->n_uses; k++)
        f->links[x->uses[k].link].used += x->uses[k].n * rate;
    if (by >= 0)
        f->links[by].n_held++;
    x->full = by;
    x->rate = rate;
    f->changed.n = 0;
    fs_push(f->arena, &f->changed, f->started.at[0]);
    f->started.n = 0;
    return true;
}

static void solve_all(sim_flows *f)
{
    f->set.n = f->touched.n = f->changed.n = 0;
    join_first(f);
    f->started.n = f->dirty.n = 0;
    if (f->set.n > 0) {
        do
            fill(f);
        while (grow(f));
    }
    settle(f);
}

const int32_t *sim_flows_solve(sim_flows *f, int32_t *n)
{
    if (f->started.n == 0 && f->dirty.n == 0) {
        *n = 0;
        return NULL;
    }
    f->stamp++;
    if (!start_apart(f))
        solve_all(f);
    *n = f->changed.n;
    return f->changed.at;
}

int64_t sim_flows_rate(const sim_flows *f, int32_t flow)
{
    return f->flows[flow].rate;
}

int64_t sim_flows_alone(const sim_flows *f, int32_t flow)
{
    return f->flows[flow].alone;
}

double sim_flows_bps(const sim_flows *f)
{
    return f->unit_bps;
}
