#include "config.h"
#include "cli/waits.h"

static int32_t count_ranks(const plan *p)
{
    const plan_role *last = &p->roles[p->n_roles - 1];
    return last->first_rank + last->n_ranks;
}

static int32_t streams_of(const plan_role *role)
{
    return role->n_streams < EXEC_RECORD_STREAMS ? role->n_streams
                                                 : EXEC_RECORD_STREAMS;
}

static bool has_begun(const exec_record *r)
{
    return r->n_streams > 0;
}

/* ---- peers of a transfer ---- */

static void add_peer(cli_at *at, int32_t rank)
{
    if (at->n_peers < CLI_WAITS_PEERS)
        at->peers[at->n_peers] = rank;
    at->n_peers++;
}

/* Members run one program: the n-th firing of a stream is the same for all. */
static void await_members(const plan *p, const exec_record *const *records,
                          int32_t rank, const plan_comm *comm, cli_at *at,
                          fs_arena *arena)
{
    int32_t *members = fs_new(arena, int32_t, plan_comm_size(p, comm));
    const int32_t n = plan_comm_ranks(p, comm, rank, members);
    for (int32_t i = 0; i < n; i++) {
        const exec_record *other = records[members[i]];
        if (members[i] != rank &&
            other->now[at->stream].fired < records[rank]->now[at->stream].fired)
            add_peer(at, members[i]);
    }
}

static int32_t stream_of(const plan_role *role, plan_stream_kind kind,
                         int32_t channel)
{
    for (int32_t s = 0; s < streams_of(role); s++)
        if (role->streams[s].kind == kind &&
            role->streams[s].channel == channel)
            return s;
    return -1;
}

/* Of a channel's two ends the n-th firings belong together. */
static void await_end(const plan *p, const exec_record *const *records,
                      int32_t rank, const plan_task *task, cli_at *at)
{
    const plan_channel *channel = &p->channels[task->channel];
    const bool sends = task->kind == PLAN_SEND;
    const plan_stage *other =
        &p->strategy->stages[sends ? channel->to_stage : channel->from_stage];
    const plan_role *role = plan_role_of_rank(p, other->first_device);
    const int32_t stream = stream_of(
        role, sends ? PLAN_STREAM_RECV : PLAN_STREAM_SEND, task->channel);
    const bool straight = plan_task_is_straight(p, task);
    for (int32_t r = role->first_rank; r < role->first_rank + role->n_ranks;
         r++) {
        if (straight && r != plan_channel_peer(p, channel, rank))
            continue;
        if (stream >= 0 && r != rank &&
            records[r]->now[stream].fired <
                records[rank]->now[at->stream].fired)
            add_peer(at, r);
    }
}

static void find_peers(const plan *p, const exec_record *const *records,
                       int32_t rank, cli_at *at, fs_arena *arena)
{
    const plan_task *task = &plan_role_of_rank(p, rank)->tasks[at->task];
    if (task->kind == PLAN_BOX && task->comm >= 0)
        await_members(p, records, rank, &p->comms[task->comm], at, arena);
    else if (task->kind == PLAN_SEND || task->kind == PLAN_RECV)
        await_end(p, records, rank, task, at);
}

/* ---- a rank ---- */

static cli_at at_stream(const plan_role *role, const exec_record *r, int32_t s)
{
    const exec_now *now = &r->now[s];
    cli_at at = {.stream = s,
                 .task = now->task,
                 .step = now->step,
                 .micro_batch = now->micro_batch,
                 .busy = now->busy,
                 .since_ns = now->since_ns};
    if (at.task < 0 || at.task >= role->n_tasks)
        at.task = -1;
    at.computes = at.task >= 0 && plan_task_computes(&role->tasks[at.task]);
    return at;
}

/* A kernel runs to its end before anything else does: a rank in one waits for
 * nobody. */
static bool comes_before(const cli_at *a, const cli_at *b)
{
    const bool runs[2] = {a->busy && a->computes, b->busy && b->computes};
    if (runs[0] != runs[1])
        return runs[0];
    if ((a->n_peers > 0) != (b->n_peers > 0))
        return a->n_peers > 0;
    if (a->busy != b->busy)
        return a->busy;
    if (!a->busy && a->step != b->step) /* data is loaded steps ahead */
        return a->step < b->step;
    return a->since_ns < b->since_ns;
}

/* All that it waits for stands with the first transfer that it waits in. */
static void join_peers(cli_at *to, const cli_at *from)
{
    for (int32_t i = 0; i < from->n_peers && i < CLI_WAITS_PEERS; i++) {
        bool known = false;
        for (int32_t k = 0; k < to->n_peers && k < CLI_WAITS_PEERS; k++)
            known |= to->peers[k] == from->peers[i];
        if (!known)
            add_peer(to, from->peers[i]);
    }
}

static cli_at find_at(const plan *p, const exec_record *const *records,
                      int32_t rank, fs_arena *arena)
{
    const plan_role *role = plan_role_of_rank(p, rank);
    cli_at best = {.stream = -1, .task = -1};
    for (int32_t s = 0; has_begun(records[rank]) && s < streams_of(role); s++) {
        cli_at at = at_stream(role, records[rank], s), other;
        if (at.task < 0)
            continue;
        if (at.busy)
            find_peers(p, records, rank, &at, arena);
        other = at;
        if (best.task < 0) {
            best = at;
        } else if (comes_before(&at, &best)) {
            other = best;
            best = at;
        }
        if (!(best.busy && best.computes))
            join_peers(&best, &other);
    }
    if (best.busy && best.computes)
        best.n_peers = 0;
    return best;
}

/* The later of two: the one begun, else of the step that it is at. */
static bool is_later(const cli_at *a, const cli_at *b)
{
    if (a->busy != b->busy)
        return a->busy;
    if (!a->busy && a->step != b->step)
        return a->step < b->step;
    return a->since_ns > b->since_ns;
}

static cli_at find_latest(const plan *p, const exec_record *const *records,
                          int32_t rank)
{
    const plan_role *role = plan_role_of_rank(p, rank);
    cli_at best = {.stream = -1, .task = -1};
    for (int32_t s = 0; has_begun(records[rank]) && s < streams_of(role); s++) {
        const cli_at at = at_stream(role, records[rank], s);
        if (at.task >= 0 && (best.task < 0 || is_later(&at, &best)))
            best = at;
    }
    return best;
}

/* ---- all of them ---- */

static int64_t count_fired(const exec_record *r, const plan_role *role)
{
    int64_t n = 0;
    for (int32_t s = 0; s < streams_of(role); s++)
        n += r->now[s].fired;
    return n;
}

static bool differ(const exec_record *const *records, const plan_role *role,
                   cli_waits *w)
{
    int32_t least = role->first_rank, most = role->first_rank;
    for (int32_t r = least; r < role->first_rank + role->n_ranks; r++) {
        const int64_t fired = count_fired(records[r], role);
        if (fired < count_fired(records[least], role))
            least = r;
        if (fired > count_fired(records[most], role))
            most = r;
    }
    if (count_fired(records[least], role) == count_fired(records[most], role))
        return false;
    w->differs = least;
    w->ahead = most;
    return true;
}

static bool has_lifeless(const plan_role *role, const bool *lifeless)
{
    for (int32_t r = 0; r < role->n_ranks; r++)
        if (lifeless[role->first_rank + r])
            return true;
    return false;
}

/* Others may differ only because they wait for the lifeless one in different
 * places. */
static void find_differing(const plan *p, const exec_record *const *records,
                           const bool *lifeless, cli_waits *w)
{
    w->differs = w->ahead = -1;
    for (int32_t i = 0; i < p->n_roles; i++)
        if (has_lifeless(&p->roles[i], lifeless) &&
            differ(records, &p->roles[i], w))
            return;
    for (int32_t i = 0; i < p->n_roles; i++)
        if (differ(records, &p->roles[i], w))
            return;
}

static void find_root(cli_waits *w)
{
    w->root = -1;
    for (int32_t r = 0; r < w->n; r++)
        for (int32_t i = 0; i < w->at[r].n_peers && i < CLI_WAITS_PEERS; i++) {
            const int32_t peer = w->at[r].peers[i];
            if (w->at[peer].n_peers == 0 && (w->root < 0 || peer < w->root))
                w->root = peer;
        }
}

static int32_t find_late(const exec_record *const *records, int32_t n)
{
    int32_t least = 0, most = 0;
    for (int32_t r = 1; r < n; r++) {
        if (records[r]->met < records[least]->met)
            least = r;
        if (records[r]->met > records[most]->met)
            most = r;
    }
    return records[least]->met < records[most]->met ? least : -1;
}

enum { NEW, ON_PATH, DONE };

static void take_cycle(cli_waits *w, const int32_t *path, int32_t from,
                       int32_t depth)
{
    for (int32_t i = from; i <= depth && w->n_cycle < CLI_WAITS_CYCLE; i++)
        w->cycle[w->n_cycle++] = path[i];
}

/* Depth first; a rank that is met again on the path closes a ring. */
static bool walk(cli_waits *w, int32_t *state, int32_t *path, int32_t depth)
{
    const int32_t rank = path[depth];
    const cli_at *at = &w->at[rank];
    state[rank] = ON_PATH;
    for (int32_t i = 0; i < at->n_peers && i < CLI_WAITS_PEERS; i++) {
        const int32_t peer = at->peers[i];
        int32_t from = 0;
        if (state[peer] == ON_PATH) {
            while (path[from] != peer)
                from++;
            take_cycle(w, path, from, depth);
            return true;
        }
        if (state[peer] == DONE)
            continue;
        path[depth + 1] = peer;
        if (walk(w, state, path, depth + 1))
            return true;
    }
    state[rank] = DONE;
    return false;
}

static void find_cycle(cli_waits *w, fs_arena *arena)
{
    int32_t *state = fs_new(arena, int32_t, w->n);
    int32_t *path = fs_new(arena, int32_t, w->n + 1);
    w->n_cycle = 0;
    for (int32_t r = 0; r < w->n; r++) {
        path[0] = r;
        if (state[r] == NEW && walk(w, state, path, 0))
            return;
    }
}

void cli_waits_of(const plan *p, const exec_record *const *records,
                  const bool *lifeless, fs_arena *arena, cli_waits *out)
{
    cli_waits w = {.n = count_ranks(p)};
    w.at = fs_new(arena, cli_at, w.n);
    for (int32_t r = 0; r < w.n; r++)
        w.at[r] = lifeless[r] ? find_latest(p, records, r)
                              : find_at(p, records, r, arena);
    find_differing(p, records, lifeless, &w);
    find_root(&w);
    w.late = find_late(records, w.n);
    if (w.root < 0)
        find_cycle(&w, arena);
    *out = w;
}

const char *cli_at_text(const ir_graph *graph, const plan *p, int32_t rank,
                        const cli_at *at, fs_arena *arena)
{
    if (at->task < 0)
        return "";
    const plan_task *task = &plan_role_of_rank(p, rank)->tasks[at->task];
    return fs_printf(arena, "%s (step %d, micro-batch %d)",
                     plan_task_name(graph, task, arena), at->step + 1,
                     at->micro_batch);
}
