/* Progressive filling: the link with the smallest share per stream is full
 * first; its flows have that share, and leave the rest of the other links to
 * those that remain. In the order of (share, link) that is one result.
 *
 * A start or an end changes few rates, and what a link does hangs alone on
 * what was full before it. So the same order is gone through again, but only
 * where something is another than it was: of each link that a start, an end or
 * a new rate reaches, the place in the order at which it holds back flows is
 * foretold, all others standing as they do now. Until it comes to that place,
 * or to the one that it had, others may move it further back; then it is full
 * there, or lets go whom it held back, whose other links are reached now. Who
 * keeps his place is looked at, and no more: each flow that changes is let go
 * once and filled once. (As shortest paths are mended: Ramalingam and Reps, An
 * Incremental Algorithm for a Generalization of the Shortest-Path Problem,
 * J. Algorithms 21, 1996.) */
#include "config.h"
#include "sim/flows.h"

#include "base/status.h"

#include <math.h>

enum { UNIT_BITS = 60 };

/* Of a flow that is not filled: behind all places. */
#define LOOSE INT64_MAX

typedef struct member {
    int32_t flow, n;
    int32_t use; /* the flow's */
} member;

/* What starts and ends look at, and alone what they change, is a line of the
 * cache. */
typedef struct link_state {
    int64_t cap, streams;
    FS_VEC(member) members; /* flows that run */
    int64_t share;          /* of those that it holds back, */
    int32_t n_held;         /* so many */
    /* While it is solved: */
    bool due;       /* and changes who is filled */
    int32_t seen;   /* stamp of a turn: is to be foretold */
    int32_t waits;  /* stamp of a solving: it is in the queue, */
    int64_t queued; /* there */
} __attribute__((aligned(64))) link_state;

typedef struct use_state {
    int32_t link, n;
    int32_t place; /* among the link's members */
} use_state;

/* Its place in the order: its share, and the link that holds it back, or
 * behind all links its limit. */
typedef struct flow_state {
    use_state *uses;
    int32_t n_uses;
    int32_t full;
    int64_t share;
    int64_t rate;  /* as told; -1: not yet */
    int64_t limit; /* INT64_MAX: none */
    int32_t seen;  /* stamp of a solving: its place may be another */
    bool runs;
    int64_t alone;
} __attribute__((aligned(64))) flow_state;

/* A place in the order. */
typedef struct turn {
    int64_t share;
    int32_t id;
} turn;

struct sim_flows {
    fs_arena *arena;
    double unit_bps;
    int32_t n_links, stamp, n_turns;
    link_state *links;
    flow_state *flows;
    FS_VEC(int32_t) dirty;   /* links that flows left */
    FS_VEC(int32_t) started; /* flows */
    FS_VEC(int32_t) changed; /* flows */
    FS_VEC(int32_t) reached; /* links to foretell */
    FS_VEC(turn) queue;      /* a heap */
    turn now;                /* all before stands */
    int32_t n_loose;         /* flows that run and are not filled */
    int32_t n_due;           /* links in the queue that change who is filled */
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
    f->unit_bps = ldexp(most, -UNIT_BITS);
    f->links = fs_new_lines(arena, link_state, n_links);
    f->flows = fs_new_lines(arena, flow_state, n_flows);
    for (int32_t i = 0; i < n_links; i++)
        f->links[i].cap = (int64_t)(bps[i] / f->unit_bps);
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
        x->uses[i] = (use_state){uses[i].link, uses[i].n, -1};
        x->alone = share < x->alone ? share : x->alone;
    }
}

/* ---- who is there ---- */

void sim_flows_start(sim_flows *f, int32_t flow)
{
    flow_state *x = &f->flows[flow];
    FS_ASSERT(!x->runs && x->n_uses > 0);
    x->runs = true;
    x->rate = -1;
    x->share = LOOSE;
    f->n_loose++;
    for (int32_t i = 0; i < x->n_uses; i++) {
        link_state *link = &f->links[x->uses[i].link];
        x->uses[i].place = link->members.n;
        fs_push(f->arena, &link->members, (member){flow, x->uses[i].n, i});
        link->streams += x->uses[i].n;
    }
    fs_push(f->arena, &f->started, flow);
}

void sim_flows_end(sim_flows *f, int32_t flow)
{
    flow_state *x = &f->flows[flow];
    FS_ASSERT(x->runs);
    x->runs = false;
    if (x->share == LOOSE)
        f->n_loose--;
    else if (x->full < f->n_links)
        f->links[x->full].n_held--;
    for (int32_t i = 0; i < x->n_uses; i++) {
        link_state *link = &f->links[x->uses[i].link];
        const member its = link->members.at[--link->members.n];
        link->members.at[x->uses[i].place] = its;
        f->flows[its.flow].uses[its.use].place = x->uses[i].place;
        link->streams -= x->uses[i].n;
        if (link->n_held > 0)
            fs_push(f->arena, &f->dirty, x->uses[i].link);
    }
}

/* ---- what comes next ---- */

static inline bool before(turn a, turn b)
{
    return (a.share < b.share) | ((a.share == b.share) & (a.id < b.id));
}

static void push_turn(sim_flows *f, turn new)
{
    int32_t i = f->queue.n;
    fs_push(f->arena, &f->queue, new);
    turn *at = f->queue.at;
    for (; i > 0 && before(new, at[(i - 1) / 2]); i = (i - 1) / 2)
        at[i] = at[(i - 1) / 2];
    at[i] = new;
}

static turn pop_turn(sim_flows *f)
{
    turn *at = f->queue.at;
    const turn top = at[0], last = at[--f->queue.n];
    const int32_t n = f->queue.n;
    int32_t i = 0;
    for (int32_t child = 1; child < n; child = 2 * i + 1) {
        child += child + 1 < n && before(at[child + 1], at[child]);
        if (!before(at[child], last))
            break;
        at[i] = at[child];
        i = child;
    }
    at[i] = last;
    return top;
}

/* A link comes at this share, if not before; `due`: it must, for it holds back
 * flows that stand, or would. (What it had further back stays in the queue, and
 * counts no more.) */
static void queue_link(sim_flows *f, int32_t i, int64_t share, bool due)
{
    link_state *link = &f->links[i];
    const bool waits = link->waits == f->stamp;
    f->n_due += due & !(waits & link->due);
    link->due = due | (waits & link->due);
    if (waits && link->queued <= share)
        return;
    link->waits = f->stamp;
    link->queued = share;
    push_turn(f, (turn){share, i});
}

static void leave_queue(sim_flows *f, link_state *link)
{
    f->n_due -= link->due;
    link->waits = f->stamp - 1;
}

/* ---- what a link will do ---- */

typedef struct forecast {
    int64_t share;  /* LOOSE: it will never be full */
    int64_t behind; /* least of others that then are filled already; LOOSE:
                       none are */
} forecast;

/* Where the link will be full, if all flows stand as they do now but for those
 * that it holds back itself and loose ones: it has what those before it leave.
 */
static forecast foretell(const sim_flows *f, int32_t i)
{
    const link_state *link = &f->links[i];
    turn its = {f->now.share, i};
    for (;;) {
        int64_t rest = link->cap, behind = LOOSE;
        int64_t streams = link->streams;
        for (int32_t k = 0; k < link->members.n; k++) {
            const member *m = &link->members.at[k];
            const flow_state *x = &f->flows[m->flow];
            const bool own = x->full == i;
            const bool is = !own & before((turn){x->share, x->full}, its);
            rest -= is ? m->n * x->share : 0;
            streams -= is ? m->n : 0;
            const int64_t other = is | own ? LOOSE : x->share;
            behind = other < behind ? other : behind;
        }
        if (streams == 0)
            return (forecast){LOOSE, LOOSE};
        const int64_t share = streams == 1 ? rest : rest / streams;
        if (share < behind || share == its.share)
            return (forecast){share, behind};
        its.share = share; /* which may be behind others */
    }
}

/* It is looked at when it is full by this, or would be as it was. */
static void queue_forecast(sim_flows *f, int32_t i, forecast its)
{
    const link_state *link = &f->links[i];
    const int64_t was = link->n_held > 0 ? link->share : LOOSE;
    const int64_t share = its.share < was ? its.share : was;
    if (share < LOOSE)
        queue_link(f, i, share, link->n_held > 0 || its.behind < LOOSE);
}

/* Of a loose flow: links that it has alone, and its limit, are one turn. */
static void reach(sim_flows *f, int32_t flow)
{
    const flow_state *x = &f->flows[flow];
    turn own = {x->limit, f->n_links + flow};
    for (int32_t k = 0; k < x->n_uses; k++) {
        const use_state *u = &x->uses[k];
        link_state *link = &f->links[u->link];
        if (link->streams == u->n) {
            const turn its = {u->n == 1 ? link->cap : link->cap / u->n,
                              u->link};
            own = before(its, own) ? its : own;
        } else if (link->seen != f->n_turns) {
            link->seen = f->n_turns;
            fs_push(f->arena, &f->reached, u->link);
        }
    }
    if (own.id < f->n_links)
        queue_link(f, own.id, own.share, false);
    else if (own.share < LOOSE)
        push_turn(f, own);
}

static void foretell_reached(sim_flows *f)
{
    for (int32_t i = 0; i < f->reached.n; i++) {
        const int32_t link = f->reached.at[i];
        queue_forecast(f, link, foretell(f, link));
    }
    f->reached.n = 0;
    f->n_turns++;
}

/* ---- turns ---- */

static void note(sim_flows *f, int32_t flow)
{
    if (f->flows[flow].seen == f->stamp)
        return;
    f->flows[flow].seen = f->stamp;
    fs_push(f->arena, &f->changed, flow);
}

/* It has its place for this time. Links that held back others after it can
 * give them more. */
static void fill_flow(sim_flows *f, int32_t flow, turn at)
{
    flow_state *x = &f->flows[flow];
    note(f, flow);
    if (x->share == LOOSE) {
        f->n_loose--;
    } else if (x->full < f->n_links) {
        f->links[x->full].n_held--;
    }
    x->share = at.share;
    x->full = at.id;
    for (int32_t k = 0; k < x->n_uses; k++) {
        const int32_t i = x->uses[k].link;
        if (f->links[i].n_held > 0 && i != at.id)
            queue_link(f, i, f->links[i].share, true);
    }
}

/* All that were not filled before have its share. */
static void fill_link(sim_flows *f, turn at)
{
    link_state *link = &f->links[at.id];
    int32_t n = 0;
    for (int32_t k = 0; k < link->members.n; k++) {
        const int32_t flow = link->members.at[k].flow;
        const turn its = {f->flows[flow].share, f->flows[flow].full};
        if (its.id != at.id && before(its, at))
            continue;
        n++;
        if (its.id != at.id || its.share != at.share)
            fill_flow(f, flow, at);
    }
    link->share = at.share;
    link->n_held = n;
}

/* It is not full where it was. */
static void let_go(sim_flows *f, int32_t i)
{
    link_state *link = &f->links[i];
    link->n_held = 0;
    link->seen = f->n_turns;
    for (int32_t k = 0; k < link->members.n; k++) {
        const int32_t flow = link->members.at[k].flow;
        flow_state *x = &f->flows[flow];
        if (x->full != i || x->share == LOOSE)
            continue;
        note(f, flow);
        x->share = LOOSE;
        f->n_loose++;
        reach(f, flow);
    }
    foretell_reached(f);
}

static void take_turn(sim_flows *f)
{
    const turn at = f->now = pop_turn(f);
    if (at.id >= f->n_links) {
        if (f->flows[at.id - f->n_links].share == LOOSE)
            fill_flow(f, at.id - f->n_links, at);
        return;
    }
    link_state *link = &f->links[at.id];
    if (link->waits != f->stamp || link->queued != at.share)
        return;
    const forecast its = foretell(f, at.id);
    leave_queue(f, link);
    if (its.share == at.share) {
        fill_link(f, at);
        return;
    }
    if (link->n_held > 0 && link->share == at.share)
        let_go(f, at.id);
    queue_forecast(f, at.id, its);
}

/* ---- solving ---- */

static void begin(sim_flows *f)
{
    f->stamp++;
    f->n_turns++;
    f->n_due = 0;
    f->now = (turn){0, 0};
    f->changed.n = f->queue.n = 0;
    for (int32_t i = 0; i < f->started.n; i++)
        if (f->flows[f->started.at[i]].runs) {
            note(f, f->started.at[i]);
            reach(f, f->started.at[i]);
        }
    for (int32_t i = 0; i < f->dirty.n; i++) {
        const link_state *link = &f->links[f->dirty.at[i]];
        if (link->n_held > 0)
            queue_link(f, f->dirty.at[i], link->share, true);
    }
    foretell_reached(f);
    f->started.n = f->dirty.n = 0;
}

/* Of those whose place may be another, those whose rate is. */
static void settle(sim_flows *f)
{
    int32_t n = 0;
    for (int32_t i = 0; i < f->changed.n; i++) {
        flow_state *x = &f->flows[f->changed.at[i]];
        if (x->share == x->rate)
            continue;
        x->rate = x->share;
        f->changed.at[n++] = f->changed.at[i];
    }
    f->changed.n = n;
}

const int32_t *sim_flows_solve(sim_flows *f, int32_t *n)
{
    if (f->started.n == 0 && f->dirty.n == 0) {
        *n = 0;
        return NULL;
    }
    begin(f);
    while (f->n_loose > 0 || f->n_due > 0)
        take_turn(f);
    settle(f);
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
