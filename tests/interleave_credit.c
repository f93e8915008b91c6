/* Registers, looked at from outside: what a buffer holds is noted when it is
 * complete; whoever reads it must find that piece and those bytes, when it
 * fires and when it is done, and whoever fills it nobody who still reads. The
 * counters of plan/actor.h are not asked, but for where a buffer lies. */
#include "config.h"

#include "exec/interleave.h"
#include "interleave.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64, WHOLE_BYTES = 4096 };

typedef struct buffer {
    const char *at; /* NULL: not seen yet */
    int64_t piece;
    uint64_t hash;
    bool complete;
    int32_t readers; /* consumers that are not done with it */
} buffer;

typedef struct ledger {
    const exec_rank *rank; /* while it runs */
    buffer *buffers;       /* [sum of counts] */
    int32_t *first;        /* [registers] */
} ledger;

static ledger ledgers[MOST];
static int64_t firings;

int64_t interleave_firings(void)
{
    return firings;
}

void interleave_credit_reset(void)
{
    for (int i = 0; i < MOST; i++) {
        free(ledgers[i].buffers);
        free(ledgers[i].first);
        ledgers[i] = (ledger){0};
    }
}

static ledger *ledger_of(const exec_rank *rank)
{
    ledger *l = &ledgers[rank->world->rank];
    if (l->rank == rank)
        return l;
    const plan_role *role = rank->role;
    int32_t n = 0;
    free(l->buffers);
    free(l->first);
    l->rank = rank;
    l->first = calloc((size_t)role->n_registers + 1, sizeof *l->first);
    FS_ASSERT(l->first);
    for (int32_t r = 0; r < role->n_registers; r++) {
        l->first[r] = n;
        n += role->registers[r].count;
    }
    l->buffers = calloc((size_t)n + 1, sizeof *l->buffers);
    FS_ASSERT(l->buffers);
    return l;
}

/* ---- what a task reads and fills ---- */

typedef struct use {
    const exec_rank *rank;
    int32_t stream, reg;
    const plan_task *task;
    const plan_register *r;
    int64_t piece;
    const char *at;
    buffer *b;
} use;

/* Of what there is per micro-batch, per step; of a variable piece 0 is there
 * before the first step. */
static use use_of(const exec_rank *rank, int32_t stream, int32_t reg,
                  bool fills)
{
    const plan_cursor *c = &rank->actors->cursor[stream];
    const int32_t mb = plan_actor_micro_batch(rank->actors, stream);
    use u = {.rank = rank, .stream = stream, .reg = reg};
    ledger *l = ledger_of(rank);
    u.task = &rank->role->tasks[c->task];
    u.r = &rank->role->registers[reg];
    u.piece = u.r->persistent ? (u.r->producer < 0 ? 0 : c->step + fills)
              : u.r->per_step ? c->step
                              : c->step * rank->plan->micro_batches + mb;
    u.at = rank->memory + plan_actor_offset(rank->actors, stream, reg, fills);
    u.b = &l->buffers[l->first[reg] +
                      plan_buffer_of(u.r, u.piece, u.r->per_step ? 0 : mb)];
    return u;
}

static uint64_t hash_of(const use *u)
{
    const size_t bytes = (size_t)u->r->bytes;
    if (bytes <= WHOLE_BYTES)
        return fs_hash(0, u->at, bytes);
    return fs_hash(fs_hash(0, u->at, WHOLE_BYTES / 2),
                   u->at + bytes - WHOLE_BYTES / 2, WHOLE_BYTES / 2);
}

__attribute__((noreturn)) static void complain(const use *u, const char *what)
{
    fs_arena *arena = fs_arena_create();
    interleave_fail(
        "rank %d, %s, step %d, micro-batch %d: piece %d of %s "
        "(register %d) %s",
        (int)u->rank->world->rank,
        plan_task_name(u->rank->graph, u->task, arena),
        (int)u->rank->actors->cursor[u->stream].step,
        (int)plan_actor_micro_batch(u->rank->actors, u->stream), (int)u->piece,
        u->rank->graph->tensors.at[u->r->tensor].name, (int)u->reg, what);
}

/* What was there before the first step is taken as it is found. */
static void begin_buffer(const use *u)
{
    const bool first = u->r->producer < 0 || u->r->persistent;
    if (u->b->at)
        return;
    if (!first || u->piece != 0)
        complain(u, "has never been made");
    *u->b = (buffer){.at = u->at,
                     .complete = true,
                     .hash = hash_of(u),
                     .readers = u->r->n_consumers};
}

static void look_at_input(const use *u)
{
    begin_buffer(u);
    if (u->r->producer >= 0 && u->b->piece != u->piece)
        complain(u, "is read where another one is");
    if (!u->b->complete)
        complain(u, "is read before it is made");
    if (u->b->hash != hash_of(u))
        complain(u, "has changed before all have read it");
}

static bool reads(const plan_task *t, int32_t reg)
{
    for (int32_t i = 0; i < t->n_in; i++)
        if (t->in[i] == reg)
            return true;
    return false;
}

/* An accumulation goes on with what it has begun. */
static void claim_output(const use *u)
{
    const bool goes_on = u->b->at && u->b->piece == u->piece;
    if (goes_on)
        return;
    if (u->r->persistent && u->r->producer >= 0 && !u->b->at && u->piece == 1)
        *u->b = (buffer){.at = u->at, .readers = u->r->n_consumers};
    if (u->b->at && u->b->readers > reads(u->task, u->reg))
        complain(u, "is filled while the one before it is read");
    u->b->complete = false;
}

static bool overlaps(const use *u, const use *v)
{
    return u->at < v->at + v->r->bytes && v->at < u->at + u->r->bytes;
}

/* Is it computed in place? */
static bool fills_over(const use *in)
{
    for (int32_t i = 0; i < in->task->n_out; i++) {
        const use out = use_of(in->rank, in->stream, in->task->out[i], true);
        if (overlaps(in, &out))
            return true;
    }
    return false;
}

static bool listed_before(const int32_t *list, int32_t at)
{
    for (int32_t i = 0; i < at; i++)
        if (list[i] == list[at])
            return true;
    return false;
}

static bool makes(const use *u)
{
    return u->r->producer == (int32_t)(u->task - u->rank->role->tasks);
}

static bool is_once(const plan_register *r)
{
    return r->per_step || r->persistent;
}

void exec_interleave_fired(const exec_rank *rank, int32_t stream)
{
    const plan_task *t = &rank->role->tasks[rank->actors->cursor[stream].task];
    if (!interleave_active())
        return;
    firings++;
    for (int32_t i = 0; i < t->n_in; i++) {
        const use u = use_of(rank, stream, t->in[i], false);
        if (!makes(&u))
            look_at_input(&u);
    }
    for (int32_t i = 0; i < t->n_out; i++) {
        const use u = use_of(rank, stream, t->out[i], true);
        claim_output(&u);
    }
    interleave_point();
}

void exec_interleave_done(const exec_rank *rank, int32_t stream)
{
    const plan_task *t = &rank->role->tasks[rank->actors->cursor[stream].task];
    const bool last = plan_actor_last_firing(rank->actors, stream);
    if (!interleave_active())
        return;
    interleave_point();
    for (int32_t i = 0; i < t->n_in; i++) {
        const use u = use_of(rank, stream, t->in[i], false);
        if (makes(&u) || listed_before(t->in, i))
            continue;
        if (!fills_over(&u))
            look_at_input(&u);
        u.b->readers -= !is_once(u.r) || last;
    }
    for (int32_t i = 0; i < t->n_out; i++) {
        const use u = use_of(rank, stream, t->out[i], true);
        const bool complete = !is_once(u.r) || last;
        *u.b = (buffer){.at = u.at,
                        .piece = u.piece,
                        .hash = hash_of(&u),
                        .complete = complete,
                        .readers = u.r->n_consumers};
    }
}

int exec_interleave_stream(uint64_t streams)
{
    int32_t skip = interleave_choose(__builtin_popcountll(streams));
    while (skip-- > 0)
        streams &= streams - 1;
    return __builtin_ctzll(streams);
}

static void explain_rank(const exec_rank *rank, fs_text *text)
{
    for (int32_t s = 0; s < rank->role->n_streams; s++) {
        if (plan_actor_head(rank->actors, s) < 0)
            continue;
        fs_text_add(text, "# rank %d: ", (int)rank->world->rank);
        plan_actor_explain(rank->actors, rank->graph, s, text);
        fs_text_add(text, "\n");
    }
}

void interleave_explain(void)
{
    fs_text text = {.arena = fs_arena_create()};
    fflush(stdout);
    for (int i = 0; i < MOST; i++)
        if (ledgers[i].rank)
            explain_rank(ledgers[i].rank, &text);
    printf("%s", text.at ? text.at : "");
}

/* ---- faults on purpose ---- */

bool __real_plan_actor_has_all(const plan_actors *a, const plan_cursor *c);
bool __wrap_plan_actor_has_all(const plan_actors *a, const plan_cursor *c);
bool __wrap_plan_actor_has_all(const plan_actors *a, const plan_cursor *c)
{
    return interleave_plants(INTERLEAVE_NO_CREDITS) ||
           __real_plan_actor_has_all(a, c);
}

void __real_plan_actor_hold(plan_actors *a, int32_t reg);
void __wrap_plan_actor_hold(plan_actors *a, int32_t reg);
void __wrap_plan_actor_hold(plan_actors *a, int32_t reg)
{
    if (!interleave_plants(INTERLEAVE_NO_HOLDS))
        __real_plan_actor_hold(a, reg);
}

void __real_plan_actor_let_go(plan_actors *a, int32_t reg);
void __wrap_plan_actor_let_go(plan_actors *a, int32_t reg);
void __wrap_plan_actor_let_go(plan_actors *a, int32_t reg)
{
    if (!interleave_plants(INTERLEAVE_NO_HOLDS))
        __real_plan_actor_let_go(a, reg);
}
