/* All ranks of a plan, stepped through the actor protocol. What a step of the
 * runtime is, is told here a second time, by rank and without the marked
 * graph. */
#ifndef FS_TESTS_PLAN_WORLD_H
#define FS_TESTS_PLAN_WORLD_H

#include "plan/actor.h"

enum { MOST_RANKS = 8 };

/* MEETING: a transfer is one act of all its ranks. POSTED: a rank fires when it
 * may and completes when all have fired, as exec does. BUFFERED: a send
 * completes alone. */
typedef enum semantics { MEETING, POSTED, BUFFERED, N_SEMANTICS } semantics;

/* ---- all ranks of a plan ---- */

typedef struct world {
    const plan *p;
    semantics how;
    int32_t n, n_lines;
    plan_actors *a[MOST_RANKS];
    int32_t *fired, *done; /* [ranks * lines] issues */
} world;

static inline world make_world(const plan *p, semantics how, int64_t steps,
                               fs_arena *arena)
{
    world w = {.p = p, .how = how, .n_lines = p->n_comms + p->n_channels};
    for (int32_t r = 0; r < p->n_roles; r++)
        for (int32_t i = 0; i < p->roles[r].n_ranks; i++)
            w.a[w.n++] = plan_actors_create(p, &p->roles[r], steps, arena);
    w.fired = fs_new(arena, int32_t, w.n * w.n_lines + 1);
    w.done = fs_new(arena, int32_t, w.n * w.n_lines + 1);
    return w;
}

static inline int32_t line_of(const world *w, int32_t rank, int32_t stream)
{
    int32_t head = plan_actor_head(w->a[rank], stream);
    const plan_task *t = &w->a[rank]->role->tasks[head];
    return head < 0          ? -1
           : t->channel >= 0 ? w->p->n_comms + t->channel
                             : t->comm;
}

/* Do two ranks meet on this line? */
static inline bool meet(const world *w, int32_t a, int32_t b, int32_t line)
{
    const plan_stage *stages = w->p->strategy->stages;
    const plan_role *ra = w->a[a]->role, *rb = w->a[b]->role;
    int32_t sa = ra->stages[0], sb = rb->stages[0];
    int32_t pa = a - stages[sa].first_device, pb = b - stages[sb].first_device;
    if (line >= w->p->n_comms) {
        const plan_channel *c = &w->p->channels[line - w->p->n_comms];
        return pa == pb && ((plan_role_has_stage(ra, c->from_stage) &&
                             plan_role_has_stage(rb, c->to_stage)) ||
                            (plan_role_has_stage(rb, c->from_stage) &&
                             plan_role_has_stage(ra, c->to_stage)));
    }
    const plan_comm *c = &w->p->comms[line];
    if (!plan_role_has_stage(ra, c->stage) ||
        !plan_role_has_stage(rb, c->stage) || a == b)
        return false;
    int32_t ca[IR_MAX_MESH], cb[IR_MAX_MESH];
    ir_mesh_coords(&stages[sa].mesh, pa, ca);
    ir_mesh_coords(&stages[sa].mesh, pb, cb);
    for (int32_t i = 0; i < stages[sa].mesh.n; i++)
        if (!(c->axes >> i & 1) && ca[i] != cb[i])
            return false;
    return true;
}

/* ---- moves: one per (rank, stream) ---- */

static inline void act(world *w, int32_t rank, int32_t stream)
{
    plan_actor_fire(w->a[rank], stream);
    plan_actor_done(w->a[rank], stream);
}

static inline int32_t ready_stream(const world *w, int32_t rank, int32_t line)
{
    for (int32_t s = 0; s < w->a[rank]->role->n_streams; s++)
        if (plan_actor_head(w->a[rank], s) >= 0 &&
            line_of(w, rank, s) == line && plan_actor_ready(w->a[rank], s))
            return s;
    return -1;
}

/* All ranks that meet there do so. */
static inline bool move_together(world *w, int32_t rank, int32_t stream)
{
    int32_t line = line_of(w, rank, stream);
    if (!plan_actor_ready(w->a[rank], stream))
        return false;
    for (int32_t r = 0; line >= 0 && r < w->n; r++)
        if (meet(w, rank, r, line) && ready_stream(w, r, line) < 0)
            return false;
    for (int32_t r = 0; line >= 0 && r < w->n; r++)
        if (meet(w, rank, r, line))
            act(w, r, ready_stream(w, r, line));
    act(w, rank, stream);
    return true;
}

static inline bool may_complete(const world *w, int32_t rank, int32_t stream)
{
    const plan_actors *a = w->a[rank];
    int32_t line = line_of(w, rank, stream);
    plan_task_kind kind = a->role->tasks[plan_actor_head(a, stream)].kind;
    if (line < 0 || (kind == PLAN_SEND && w->how == BUFFERED))
        return true;
    int32_t issue = w->done[rank * w->n_lines + line];
    for (int32_t r = 0; r < w->n; r++)
        if (meet(w, rank, r, line) && w->fired[r * w->n_lines + line] <= issue)
            return false;
    return true;
}

static inline bool move_alone(world *w, int32_t rank, int32_t stream)
{
    plan_actors *a = w->a[rank];
    int32_t line = line_of(w, rank, stream);
    if (a->cursor[stream].busy) {
        if (!may_complete(w, rank, stream))
            return false;
        plan_actor_done(a, stream);
        if (line >= 0)
            w->done[rank * w->n_lines + line]++;
        return true;
    }
    if (!plan_actor_ready(a, stream))
        return false;
    plan_actor_fire(a, stream);
    if (line >= 0)
        w->fired[rank * w->n_lines + line]++;
    return true;
}

static inline bool move(world *w, int32_t rank, int32_t stream)
{
    if (plan_actor_head(w->a[rank], stream) < 0)
        return false;
    return w->how == MEETING ? move_together(w, rank, stream)
                             : move_alone(w, rank, stream);
}

static inline bool finished(const world *w)
{
    for (int32_t r = 0; r < w->n; r++)
        if (!plan_actors_finished(w->a[r]))
            return false;
    return true;
}

/* One interleaving; does it end? */
static inline bool walk(const plan *p, semantics how, uint64_t *seed,
                        fs_arena *arena)
{
    world w = make_world(p, how, 3, arena);
    int32_t moves[MOST_RANKS * 64][2], n = 0;
    for (int32_t r = 0; r < w.n; r++)
        for (int32_t s = 0; s < w.a[r]->role->n_streams; s++, n++) {
            moves[n][0] = r;
            moves[n][1] = s;
        }
    for (int32_t left = n; left > 0;) {
        int32_t i = (int32_t)fs_rand_below(seed, left);
        int32_t r = moves[i][0], s = moves[i][1];
        if (move(&w, r, s)) {
            left = n;
            continue;
        }
        left--; /* those that cannot move now stand at the end */
        moves[i][0] = moves[left][0];
        moves[i][1] = moves[left][1];
        moves[left][0] = r;
        moves[left][1] = s;
    }
    return finished(&w);
}

#endif
