#include "config.h"
#include "plan/actor_chain_parts.h"
#include "plan/actor_parts.h"

#include <string.h>

struct plan_chains {
    chaining *alone, *pairs; /* NULL: none */
};

/* ---- may a role have chains? ---- */

/* A micro-batch comes to the sections in ascending order, so that the last
 * consumer of a piece is the last of the list. */
static bool sections_ascend(const plan_actors *a, fs_arena *arena)
{
    int32_t *seen = fs_new(arena, int32_t, a->plan->micro_batches);
    int32_t end = -1;
    for (int32_t s = 0; s < a->role->n_slots; s++) {
        const plan_slot *slot = &a->role->slots[s];
        if (plan_phase_once(slot->phase))
            continue;
        if (a->section[s] < seen[slot->micro_batch])
            return false;
        seen[slot->micro_batch] = a->section[s];
    }
    for (int32_t i = 0; i < a->n_sections; i++) {
        if (a->last_slot[i] < 0)
            continue;
        if (a->last_slot[i] < end)
            return false;
        end = a->last_slot[i];
    }
    return true;
}

static bool is_of_group(const chaining *c, int32_t t)
{
    return c->role->tasks[t].stream == c->stream || chain_is_beside(c, t);
}

static void find_lone(chaining *c)
{
    for (int32_t r = 0; r < c->role->n_registers; r++) {
        const plan_register *reg = &c->role->registers[r];
        c->lone[r] = true;
        if (reg->producer < 0)
            continue; /* nobody waits for it, nobody lets it go */
        const int32_t stream = c->role->tasks[reg->producer].stream;
        c->lone[r] = c->beside < 0 || is_of_group(c, reg->producer);
        for (int32_t i = 0; i < reg->n_consumers; i++)
            c->lone[r] &=
                c->beside < 0
                    ? c->role->tasks[reg->consumers[i]].stream == stream
                    : is_of_group(c, reg->consumers[i]);
    }
}

/* ---- where chains end ---- */

/* May the task have to wait for another stream, when those of the chain before
 * it have run? Credits of a pair are there as a rule: without them the chain
 * alone is tried. */
static bool waits(const chaining *c, int32_t t)
{
    const plan_actor_uses *task = &c->a->uses[t];
    for (int32_t i = 0; i < task->n_in; i++) {
        const int32_t reg = chain_ins(c, t)[i];
        const plan_actor_register *r = &c->a->registers[reg];
        if (r->producer >= 0 && !is_of_group(c, r->producer) &&
            !c->reads[reg] && (c->first || !chain_once(r)))
            return true;
    }
    for (int32_t i = 0; i < task->n_out && c->beside < 0; i++) {
        const int32_t reg = chain_outs(c, t)[i];
        if (!c->lone[reg] && (c->first || !chain_once(&c->a->registers[reg])))
            return true;
    }
    return false;
}

/* May another stream go on when the task has completed? */
static bool is_awaited(const chaining *c, int32_t t)
{
    const plan_actor_uses *task = &c->a->uses[t];
    for (int32_t i = 0; i < task->n_in; i++) {
        const int32_t reg = chain_ins(c, t)[i];
        if (!c->lone[reg] && c->last_use[chain_is_beside(c, t)][reg] == t &&
            (c->last || !chain_once(&c->a->registers[reg])))
            return true;
    }
    for (int32_t i = 0; i < task->n_out; i++) {
        const int32_t reg = chain_outs(c, t)[i];
        if (!c->lone[reg] && (c->last || !chain_once(&c->a->registers[reg])))
            return true;
    }
    return false;
}

/* Tasks beside the group that wait until it has passed what stands before
 * them. */
static bool is_passed(const chaining *c, int32_t from, int32_t to)
{
    for (int32_t t = from + 1; t < to; t++)
        if (c->a->tasks[t].keeps_place)
            return true;
    return false;
}

/* Of the next one: behind those of its stream and what it reads; beside it also
 * behind all that the compute stream has before it. */
static int64_t start_of(const chaining *c, int32_t t)
{
    const plan_actor_uses *task = &c->a->uses[t];
    int64_t start_ns = c->end_ns[0];
    if (chain_is_beside(c, t) && c->end_ns[1] > start_ns)
        start_ns = c->end_ns[1];
    for (int32_t i = 0; i < task->n_in; i++)
        if (c->made_ns[chain_ins(c, t)[i]] > start_ns)
            start_ns = c->made_ns[chain_ins(c, t)[i]];
    return start_ns;
}

/* Joins if nobody can tell that it does. */
static bool go_on(chaining *c, int32_t t)
{
    const int32_t n = c->members.n;
    const int32_t before = n > 0 ? c->members.at[n - 1].task : t;
    if (c->paces->demand_ps[t] == 0 ||
        (n > 0 && (waits(c, t) || is_passed(c, before, t))))
        return false;
    const int64_t start_ns = start_of(c, t);
    const int64_t end_ns = chain_end_of(c, t, start_ns);
    const int64_t awaited_ns = is_awaited(c, t) ? end_ns : c->awaited_ns;
    if (c->awaited_ns < end_ns || awaited_ns < c->end_ns[0] ||
        awaited_ns < c->end_ns[1])
        return false;
    chain_join(c, t, start_ns, end_ns);
    c->awaited_ns = awaited_ns;
    return true;
}

/* Neither stream could go on before both have come to the end. */
static bool may_end(const chaining *c)
{
    const int32_t next = c->a->tasks[c->at_end[0]].next;
    if (c->end_ns[1] <= c->end_ns[0])
        return true;
    for (int32_t i = 0; next >= 0 && i < c->a->uses[next].n_in; i++) {
        const plan_actor_register *r = &c->a->registers[chain_ins(c, next)[i]];
        if (r->producer == c->at_end[1] && !chain_once(r))
            return true;
    }
    return false;
}

/* How many of the program's tasks, from this one on, the longest chain has. */
static int32_t longest(chaining *c, int32_t from)
{
    int32_t n = 0;
    chain_forget(c);
    for (int32_t i = from; i < c->program.n && go_on(c, c->program.at[i]); i++)
        if (may_end(c) && (c->beside < 0 || c->at_end[1] >= 0))
            n = c->members.n;
    return n;
}

/* The group's tasks as they stand in a section, and who reads last. */
static void list_program(chaining *c, int32_t section)
{
    const plan_actors *a = c->a;
    const int32_t *first = a->first_on_stream;
    int32_t t = first[c->stream * a->n_sections + section];
    int32_t u = c->beside < 0 ? -1 : first[c->beside * a->n_sections + section];
    if (c->section == section)
        return;
    c->section = section;
    c->program.n = 0;
    while (t >= 0 || u >= 0) {
        const bool beside = t < 0 || (u >= 0 && u < t);
        int32_t *at = beside ? &u : &t;
        for (int32_t i = 0; i < a->uses[*at].n_in; i++)
            c->last_use[beside][chain_ins(c, *at)[i]] = *at;
        c->place[*at] = c->program.n;
        fs_push(c->arena, &c->program, *at);
        *at = a->tasks[*at].next;
    }
}

static const plan_chain *chain_from(chaining *c, int32_t head, int32_t variant)
{
    if (c->paces->demand_ps[head] == 0)
        return NULL;
    list_program(c, plan_task_section(c->role, &c->role->tasks[head]));
    c->first = variant & 2;
    c->last = variant & 1;
    const int32_t from = c->place[head];
    const int32_t n = longest(c, from);
    if (n < 2)
        return NULL;
    chain_forget(c);
    for (int32_t i = from; i < from + n; i++)
        go_on(c, c->program.at[i]);
    return chain_make(c);
}

/* The stream of a kind; -1: there is none, -2: several. */
static int32_t one_of_kind(const plan_role *role, plan_stream_kind kind)
{
    int32_t one = -1;
    for (int32_t s = 0; s < role->n_streams; s++)
        if (role->streams[s].kind == kind)
            one = one == -1 ? s : -2;
    return one;
}

static chaining *begin(const plan_actors *a, const plan_paces *paces,
                       int32_t stream, int32_t beside, fs_arena *arena)
{
    const int32_t n = a->role->n_registers;
    const int64_t n_heads = (int64_t)a->role->n_tasks * PLAN_CHAIN_VARIANTS;
    chaining *c = fs_new(arena, chaining, 1);
    *c = (chaining){
        .a = a,
        .role = a->role,
        .paces = paces,
        .arena = arena,
        .stream = stream,
        .beside = beside,
        .quiet = {-1, -1},
        .section = -1,
        .of = fs_new(arena, const plan_chain *, n_heads),
        .looked = fs_new(arena, bool, n_heads),
        .lone = fs_new(arena, bool, n),
        .last_use = {fs_new(arena, int32_t, n), fs_new(arena, int32_t, n)},
        .place = fs_new(arena, int32_t, a->role->n_tasks),
        .joined = fs_new(arena, bool, a->role->n_tasks),
        .listed = fs_new(arena, bool, n),
        .reads = fs_new(arena, bool, n),
        .makes = fs_new(arena, bool, n),
        .old_use = fs_new(arena, int32_t, n),
        .use = fs_new(arena, int32_t, n),
        .noted = fs_new(arena, uint8_t, n),
        .made_ns = fs_new(arena, int64_t, n),
        .read_ns = fs_new(arena, int64_t, n)};
    find_lone(c);
    return c;
}

static bool communicates(const plan_role *role, int32_t stream)
{
    for (int32_t t = 0; t < role->n_tasks; t++)
        if (role->tasks[t].comm >= 0 && role->tasks[t].stream == stream)
            return true;
    return false;
}

/* Are there no collectives but those that these run? */
static bool is_all(const plan_role *role, int32_t stream, int32_t beside,
                   int32_t step)
{
    for (int32_t s = 0; s < role->n_streams; s++)
        if (s != stream && s != beside && s != step && communicates(role, s))
            return false;
    return true;
}

plan_chains *plan_chains_create(const plan_actors *a, const plan_paces *paces,
                                fs_arena *arena)
{
    const int32_t stream = one_of_kind(a->role, PLAN_STREAM_COMPUTE);
    const int32_t beside = one_of_kind(a->role, PLAN_STREAM_COMM);
    const int32_t step = one_of_kind(a->role, PLAN_STREAM_STEP);
    const bool slowed = paces->beside_rate != PLAN_RATE_FULL;
    if (stream < 0 || !sections_ascend(a, arena) ||
        ((slowed || paces->shares) && !is_all(a->role, stream, beside, step)))
        return NULL;
    plan_chains *chains = fs_new(arena, plan_chains, 1);
    chains->alone = begin(a, paces, stream, -1, arena);
    if (beside >= 0 && a->leader[beside] == stream)
        chains->pairs = begin(a, paces, stream, beside, arena);
    if (slowed || (paces->shares && communicates(a->role, stream))) {
        chains->alone->quiet[0] = beside;
        chains->alone->quiet[1] = step;
    }
    if ((slowed || paces->shares) && chains->pairs)
        chains->pairs->quiet[0] = step;
    return chains;
}

/* ---- of another role ---- */

static bool same_bytes(const void *a, const void *b, int64_t n, size_t size)
{
    return n == 0 || memcmp(a, b, (size_t)n * size) == 0;
}

static bool same_task(const plan_task *x, const plan_task *y)
{
    return x->stream == y->stream && x->phase == y->phase &&
           x->chunk == y->chunk && (x->comm < 0) == (y->comm < 0) &&
           (x->channel < 0) == (y->channel < 0);
}

static bool same_uses(const plan_actors *a, const plan_actors *b, int32_t t)
{
    const plan_actor_uses *x = &a->uses[t], *y = &b->uses[t];
    return x->first == y->first && x->n_in == y->n_in && x->n_out == y->n_out &&
           a->tasks[t].next == b->tasks[t].next &&
           a->tasks[t].keeps_place == b->tasks[t].keeps_place &&
           same_bytes(a->in_out + x->first, b->in_out + y->first,
                      (int64_t)x->n_in + x->n_out, sizeof *a->in_out);
}

static bool same_register(const plan_register *x, const plan_register *y)
{
    return x->producer == y->producer && x->n_consumers == y->n_consumers &&
           x->bytes == y->bytes && x->per_step == y->per_step &&
           x->persistent == y->persistent &&
           same_bytes(x->consumers, y->consumers, x->n_consumers,
                      sizeof *x->consumers);
}

/* Their counts are of no account. */
static bool runs_the_same(const plan_actors *a, const plan_actors *b)
{
    const plan_role *x = a->role, *y = b->role;
    bool same = x->n_tasks == y->n_tasks && x->n_registers == y->n_registers &&
                x->n_streams == y->n_streams && a->n_sections == b->n_sections;
    for (int32_t s = 0; same && s < x->n_streams; s++)
        same = x->streams[s].kind == y->streams[s].kind &&
               a->leader[s] == b->leader[s];
    for (int32_t t = 0; same && t < x->n_tasks; t++)
        same = same_task(&x->tasks[t], &y->tasks[t]) && same_uses(a, b, t);
    for (int32_t r = 0; same && r < x->n_registers; r++)
        same = same_register(&x->registers[r], &y->registers[r]) &&
               a->ordered[r] == b->ordered[r];
    return same && same_bytes(a->first_on_stream, b->first_on_stream,
                              (int64_t)x->n_streams * a->n_sections,
                              sizeof *a->first_on_stream);
}

bool plan_chains_serve(const plan_chains *chains, const plan_actors *a,
                       const plan_paces *paces, fs_arena *scratch)
{
    const chaining *c = chains->alone;
    return runs_the_same(c->a, a) &&
           c->paces->beside_rate == paces->beside_rate &&
           c->paces->shares == paces->shares &&
           same_bytes(c->paces->demand_ps, paces->demand_ps, a->role->n_tasks,
                      sizeof *paces->demand_ps) &&
           sections_ascend(a, scratch);
}

const plan_chain *plan_chain_of(plan_chains *chains, int32_t task,
                                int32_t variant, bool pair)
{
    chaining *c = pair ? chains->pairs : chains->alone;
    const int32_t at = task * PLAN_CHAIN_VARIANTS + variant;
    if (!c || c->role->tasks[task].stream != c->stream)
        return NULL;
    if (!c->looked[at]) {
        c->looked[at] = true;
        c->of[at] = chain_from(c, task, variant);
    }
    return c->of[at];
}

/* ---- stepping them ---- */

int32_t plan_actor_variant(const plan_actors *a, int32_t stream)
{
    return 2 * plan_actor_first_firing(a, stream) +
           plan_actor_last_firing(a, stream);
}

/* Is a stream idle, where another is? */
static bool is_idle_beside(const plan_actors *a, int32_t beside,
                           const plan_cursor *c)
{
    const plan_cursor *its = &a->cursor[beside];
    return !its->busy && its->slot == c->slot && its->step == c->step;
}

/* Does it wait for what the chain, or what stands behind that on its streams,
 * makes? */
static bool waits_for(const plan_actors *a, const plan_cursor *its,
                      const plan_chain *chain, int32_t stream)
{
    const plan_actor_uses *task = &a->uses[its->task];
    for (int32_t i = 0; i < task->n_in; i++) {
        const int32_t reg = a->in_out[task->first + i];
        const int32_t producer = a->registers[reg].producer;
        if (producer >= 0 && !plan_actor_may_read(a, its, reg) &&
            (a->role->tasks[producer].stream == stream ||
             a->role->tasks[producer].stream == chain->beside))
            return true;
    }
    return false;
}

/* Is it idle until the chain's stream, which stands here and passes no task
 * that keeps a place, has gone on? */
static bool is_quiet(const plan_actors *a, int32_t quiet,
                     const plan_chain *chain, int32_t stream)
{
    const plan_cursor *its = &a->cursor[quiet], *c = &a->cursor[stream];
    if (its->task < 0)
        return true;
    if (its->busy)
        return false;
    if (!a->tasks[its->task].keeps_place)
        return waits_for(a, its, chain, stream);
    if (its->step != c->step)
        return its->step > c->step;
    return its->slot != c->slot ? its->slot > c->slot : its->task > c->task;
}

bool plan_actor_may_pair(const plan_actors *a, int32_t stream,
                         const plan_chains *chains)
{
    return chains->pairs && chains->pairs->stream == stream &&
           is_idle_beside(a, chains->pairs->beside, &a->cursor[stream]);
}

bool plan_actor_chain_ready(const plan_actors *a, int32_t stream,
                            const plan_chain *chain)
{
    const plan_cursor *c = &a->cursor[stream];
    if (chain->beside >= 0 &&
        (a->cursor[chain->beside].task != chain->first_beside ||
         !is_idle_beside(a, chain->beside, c)))
        return false;
    for (int32_t i = 0; i < PLAN_CHAIN_QUIET; i++)
        if (chain->quiet[i] >= 0 &&
            !is_quiet(a, chain->quiet[i], chain, stream))
            return false;
    for (int32_t i = 0; i < chain->n_reads; i++)
        if (!plan_actor_may_read(a, c, chain->reads[i]))
            return false;
    for (int32_t i = 0; i < chain->n_writes; i++)
        if (!plan_actor_may_write(a, c, chain->writes[i]))
            return false;
    return true;
}

void plan_actor_chain_fire(plan_actors *a, int32_t stream,
                           const plan_chain *chain)
{
    a->cursor[stream].busy = true;
    if (chain->beside >= 0)
        a->cursor[chain->beside].busy = true;
}

int64_t plan_actor_chain_done(plan_actors *a, int32_t stream,
                              const plan_chain *chain)
{
    plan_cursor *c = &a->cursor[stream];
    int64_t bytes = 0;
    for (int32_t i = 0; i < chain->n_read; i++) {
        const plan_chain_use *use = &chain->read[i];
        const plan_actor_register *r = &a->registers[use->reg];
        int32_t *left =
            &a->readers[plan_actor_buffer(r, plan_actor_piece_of(c, r, false))];
        *left -= use->n;
        if (*left == 0) {
            a->released[use->reg]++;
            bytes += use->bytes;
        }
    }
    for (int32_t i = 0; i < chain->n_inner; i++) {
        a->produced[chain->inner[i]]++;
        a->released[chain->inner[i]]++;
    }
    for (int32_t i = 0; i < chain->n_made; i++) {
        const plan_chain_use *use = &chain->made[i];
        const int64_t piece = a->produced[use->reg]++;
        a->readers[plan_actor_buffer(&a->registers[use->reg], piece)] = use->n;
    }
    plan_actor_go_on(a, stream, chain->next);
    if (chain->beside >= 0)
        plan_actor_go_on(a, chain->beside, chain->next_beside);
    return bytes;
}
